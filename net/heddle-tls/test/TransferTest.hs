{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Bytes out are bytes in: in pieces of any size, by two threads at once, from files, to the end.
module TransferTest (tests) where

import Control.Concurrent (yield)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, bracketOnError, mask_, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Fixture
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Heddle.IO (BackendChoice (..))
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Clock (Deadline (..), deadlineIn, elapsed, milliseconds, monotonicNow, never)
import Heddle.Prim.Errno (errnoNumber, pattern EAGAIN, pattern EPIPE, pattern EPROTO)
import Heddle.Prim.Thread (forkOn)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket qualified as N
import Relay
import System.IO (hClose, hFlush)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (Gen, Property, choose, forAll, ioProperty, oneof, testProperty, vectorOf, withMaxSuccess)

tests :: Folder -> TestTree
tests folder =
  testGroup
    "transfers"
    [ testGroup "pieces of any size" [testProperty (show b ++ ", " ++ show v) (pieces folder b v) | b <- [Epoll, Poll], v <- [Tls12, Tls13]],
      testGroup "a reader and a writer on two capabilities" [testCase (show v) (duplex folder v) | v <- [Tls12, Tls13]],
      testCase "the keys are changed at the client's demand" (keyUpdate folder),
      testGroup "files" (files folder),
      testGroup "the first records fit a segment" [testCase (show v) (firstRecords folder v) | v <- [Tls12, Tls13]],
      testCase "a full socket ends a write at its deadline, and the session's writing" (full folder),
      testCase "ending the writing direction; reading goes on" (ending folder),
      testCase "an end without a farewell is an end to a server" (abrupt folder),
      testCase "an end without a farewell is a failure to a client" (truncated folder),
      testCase "held input is announced until it is read" (held folder),
      testCase "closing while another thread reads" (closing folder),
      testCase "a closed layer answers, and closing twice is closing once" (closed folder)
    ]

-- | A session between two ends in this process: the client's, the server's.
between :: Folder -> BackendChoice -> TlsVersion -> (Transport -> Transport -> IO a) -> IO a
between folder _ v body =
  betweenWith (defaultTlsConfig [pair folder "good"]) (trusting folder) {clientLowest = v, clientHighest = v} (const body)

-- Unsafe: adds to a word.
foreign import ccall unsafe "faults_later" c_later :: CInt -> IO ()

-- The lengths of the records that the server sends in a conversation with a client whose segments are short, and again
-- after more than a second.
firstRecords :: Folder -> TlsVersion -> IO ()
firstRecords folder v = nothingIsLeft $ do
  loaded <- site folder ["good"]
  tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
  seen <- newIORef B.empty
  withEcho loaded $ \echo -> relayOver (slim echo) echo Pass (See (\bytes -> modifyIORef' seen (<> bytes))) $ \relayed ->
    connecting relayed tls "localhost" $ \transport _ -> do
      let lengths n = do
            writeIORef seen B.empty
            ask transport (variedBytes n n)
            lengthsOf . B.dropWhile (/= 23) <$> readIORef seen
      -- The echo's pieces are shorter than a record at first, so that there may be other short ones between.
      began <- monotonicNow
      first <- lengths 200000
      assertBool (show first) (all (<= 1000) (take 40 first) && any (> 4000) first)
      second <- lengths 100000
      took <- elapsed began <$> monotonicNow
      -- On a busy machine there may have been a second without a record between.
      when (took < milliseconds 900) $ assertBool (show second) (any (> 4000) (take 3 second))
      c_later 2
      third <- lengths 200000
      assertBool (show third) (all (<= 1000) (take 40 third) && any (> 4000) third)
  -- On the loopback segments are long.
  writeIORef seen B.empty
  withEcho loaded $ \echo -> relay echo Pass (See (\bytes -> modifyIORef' seen (<> bytes))) $ \relayed ->
    connecting relayed tls "localhost" $ \transport _ -> do
      ask transport "x"
      writeIORef seen B.empty
      ask transport (variedBytes 1 100000)
      long <- lengthsOf <$> readIORef seen
      assertBool (show long) (any (> 4000) (take 3 long))
  where
    slim echo = bracket (open echo) N.close
    open echo = bracketOnError (N.socket N.AF_INET N.Stream N.defaultProtocol) N.close $ \s -> do
      N.setSocketOption s N.MaxSegment 1000
      s <$ N.connect s (echoAddress echo)
    -- With their headers.
    lengthsOf bytes
      | B.length bytes < 5 = []
      | otherwise = n : lengthsOf (B.drop n bytes)
      where
        n = 5 + 256 * fromIntegral (B.index bytes 3) + fromIntegral (B.index bytes 4)

pieces :: Folder -> BackendChoice -> TlsVersion -> Property
pieces folder backend v = withMaxSuccess 15 $
  forAll (sizes [choose (1, 100), choose (16380, 16390), choose (1, 70000), choose (60000, 300000)]) $ \writes ->
    forAll (sizes [choose (1, 100), choose (16000, 17000), choose (1, 100000)]) $ \reads' -> ioProperty . nothingIsLeft $ do
      loaded <- site folder ["good"]
      tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
      withEchoOn backend 20000 loaded $ \echo -> connecting echo tls "localhost" $ \transport _ -> do
        let sent = [variedBytes i n | (i, n) <- zip [0 ..] writes]
        writer <- newEmptyMVar
        _ <- forkOn 0 "test/writer" (try (mapM_ (writeAll transport) sent) >>= putMVar writer)
        got <- newIORef []
        let total = sum writes
            go _ n | n >= total = pure ()
            go (size : more) n = do
              r <- readSome transport size
              case r of
                Right piece | not (B.null piece) -> modifyIORef' got (piece :) >> go more (n + B.length piece)
                other -> unexpected "bytes" (show (fmap B.length other))
            go [] _ = pure ()
        go (cycle reads') 0
        patiently "the writer" (takeMVar writer) >>= either (\(e :: SomeException) -> unexpected "all written" (show e)) pure
        back <- B.concat . reverse <$> readIORef got
        pure (back == B.concat sent)

-- A few sizes of these kinds.
sizes :: [Gen Int] -> Gen [Int]
sizes kinds = choose (1, 12) >>= \n -> vectorOf n (oneof kinds)

duplex :: Folder -> TlsVersion -> IO ()
duplex folder v = between folder Epoll v $ \near far -> do
  let size = 4000000
      bytes = [variedBytes 1 size, variedBytes 2 size]
      ends = [(0, near, head bytes), (1, far, last bytes)]
  done <- newEmptyMVar
  forM_ ends $ \(capability, transport, out) -> do
    let other = last [b | (c, _, b) <- ends, c /= capability]
    _ <- forkOn capability "test/write" (report done (writeAll transport out))
    forkOn (1 - capability) "test/read" (report done (readAll transport size >>= \got -> unless (got == other) (unexpected "the same bytes" "others")))
  forM_ [1 .. 4 :: Int] $ \_ -> patiently "a thread to end" (takeMVar done) >>= either (unexpected "no failure" . show) pure

report :: MVar (Either SomeException ()) -> IO () -> IO ()
report done action = try action >>= putMVar done

-- s_client's K asks for new keys in both directions; the answer is written by the server's read.
keyUpdate :: Folder -> IO ()
keyUpdate folder = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo -> do
    let arguments = ["s_client", "-connect", "127.0.0.1:" ++ show (echoPort echo), "-tls1_3"]
    withCreateProcess (proc "openssl" arguments) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe} $ \i o e handle -> case (i, o, e) of
      (Just input, Just output, Just errors) -> do
        let say text = C.hPut input text >> hFlush input
            hear text = patiently ("the echo of " ++ C.unpack text) (until' text)
            until' text = C.hGetLine output >>= \line -> unless (text `B.isInfixOf` line) (until' text)
        say "hello one\n"
        hear "hello one"
        forM_ [1 .. 5 :: Int] $ \n -> do
          say "K\n"
          -- s_client says on its standard error that it does it; only then is a further line a line of text.
          patiently "KEYUPDATE" (C.hGetLine errors >>= waitFor errors "KEYUPDATE")
          let text = C.pack ("hello again " ++ show n)
          say (text <> "\n")
          hear text
        say "Q\n"
        hClose input
        void (waitForProcess handle)
      _ -> unexpected "pipes" "none"
  where
    waitFor h text line = unless (text `B.isInfixOf` line) (C.hGetLine h >>= waitFor h text)

files :: Folder -> [TestTree]
files folder =
  [ testCase (show v ++ ": " ++ what) . between folder Epoll v $ \near far -> withBytes $ \fd -> do
      let wanted = B.take count (B.drop offset bytes)
      answer <- newEmptyMVar
      asked <- newIORef []
      _ <- forkOn 1 "test/file" $ do
        r <- writeFilePaced far fd (fromIntegral offset) count (\n -> modifyIORef' asked (n :) >> patience')
        putMVar answer r
      got <- readAll near (B.length wanted)
      got @?= wanted
      patiently "the file" (takeMVar answer) >>= (@?= B.length wanted)
      counts <- reverse <$> readIORef asked
      assertBool (show counts) (and (zipWith (<=) counts (drop 1 counts)) && all (<= B.length wanted) counts)
    | v <- [Tls12, Tls13],
      (what, offset, count) <- [("the whole", 0, size), ("a part", 12345, 100000), ("past the end", size - 10, 1000), ("nothing", 5, 0), ("beyond the end", size + 5, 10)]
  ]
    ++ [ testCase "a client that does not read is given up" . between folder Epoll Tls13 $ \_ far -> withBytes $ \fd -> do
           r <- patiently "the file to be given up" (writeFilePaced far fd 0 size (\_ -> deadlineIn (milliseconds 50)))
           assertBool (show r) (r < size)
       ]
  where
    -- More than the socket's buffers have room for.
    size = 12000000
    withBytes = withFileOf folder bytes
    -- Made once for all of them.
    bytes = variedBytes 3 size

full :: Folder -> IO ()
full folder = between folder Epoll Tls13 $ \_ far -> do
  let fill = do
        deadline <- deadlineIn (milliseconds 20)
        r <- B.useAsCString (B.replicate 65536 1) $ \p -> writeSomeUntil far (castPtr p) 65536 deadline
        if r > 0 then fill else pure r
  r <- patiently "a full socket" fill
  r @?= TimedOutCode
  -- The peer has a part of a record; what follows would be garbage to it.
  again <- B.useAsCString "x" $ \p -> writeSomeUntil far (castPtr p) 1 never
  again @?= negate (errnoNumber EPIPE)

ending :: Folder -> IO ()
ending folder = forM_ [Tls12, Tls13] $ \v -> between folder Epoll v $ \near far -> do
  writeAll near "last words"
  endWriting near >>= (@?= 0)
  readAll far 100 >>= (@?= "last words")
  readSome far 10 >>= (@?= Right "")
  readSome far 10 >>= (@?= Right "")
  writeAll far (B.replicate 50000 9)
  readAll near 50000 >>= (@?= B.replicate 50000 9)
  r <- B.useAsCString "x" $ \p -> writeSomeUntil near (castPtr p) 1 never
  assertBool (show r) (r < 0)

abrupt :: Folder -> IO ()
abrupt folder = between folder Epoll Tls13 $ \near far -> do
  writeAll near "half"
  -- The registration's own end: no layer is asked.
  _ <- endSending (transportRegistration near)
  readAll far 100 >>= (@?= "half")
  readSome far 10 >>= (@?= Right "")

-- Anyone on the way can send a FIN, and a client of any protocol would take a part for the whole.
truncated :: Folder -> IO ()
truncated folder = forM_ [Tls12, Tls13] $ \v -> between folder Epoll v $ \near far -> do
  writeAll far "half"
  readAll near 4 >>= (@?= "half")
  _ <- endSending (transportRegistration far)
  forM_ [1 .. 2 :: Int] $ \_ -> readSome near 10 >>= (@?= Left (negate (errnoNumber EPROTO)))

-- A consumer that reads once each time, and waits for its socket as soon as nothing is held.
held :: Folder -> IO ()
held folder = forM_ [Tls12, Tls13] $ \v -> forM_ [100, 1000, 16384, 50000] $ \size -> between folder Epoll v $ \near far -> do
  let bytes = variedBytes 4 400000
  writer <- newEmptyMVar
  _ <- forkOn 0 "test/write" (report writer (writeAll near bytes))
  got <- newIORef []
  let loop n = unless (n >= B.length bytes) $ do
        piece <- allocaBytes size $ \p -> mask_ (readNow far p size) >>= \r -> if r > 0 then Right <$> B.packCStringLen (castPtr p, r) else pure (Left r)
        more <- holdsInput far
        case piece of
          Left code -> do
            code @?= negate (errnoNumber EAGAIN)
            more @?= False
          Right b -> modifyIORef' got (b :)
        let next = n + either (const 0) B.length piece
        unless (more || next >= B.length bytes) $ do
          deadline <- patience'
          waitUntil (transportRegistration far) Readable deadline
        loop next
  patiently "all bytes" (loop 0)
  patiently "the writer" (takeMVar writer) >>= either (unexpected "all written" . show) pure
  back <- B.concat . reverse <$> readIORef got
  assertBool "other bytes" (back == bytes)

closed :: Folder -> IO ()
closed folder = between folder Epoll Tls13 $ \near far -> do
  closeTransport near
  closeTransport near
  case near of
    Layered _ layer -> do
      layerClose layer
      unsafeUseAsCStringLen "x" (\(p, n) -> layerWriteSomeUntil layer (castPtr p) n never) >>= (@?= ClosedCode)
      allocaBytes 10 (\p -> layerReadUntil layer p 10 (Deadline 0)) >>= (@?= ClosedCode)
      layerEndWriting layer >>= (@?= ClosedCode)
    Bare _ -> assertFailure "bare"
  readSome far 10 >>= (@?= Right "")

-- The lock word keeps the reader off the freed session.
closing :: Folder -> IO ()
closing folder = between folder Epoll Tls13 $ \near far -> forM_ [1 .. 20 :: Int] $ \n -> case far of
  Layered _ layer | n == 20 -> do
    ended <- newEmptyMVar
    started <- newEmptyMVar
    _ <- forkOn 1 "test/read" $
      report ended $ do
        let go k = do
              when (k == (100 :: Int)) (putMVar started ())
              r <- allocaBytes 100 $ \p -> mask_ (layerReadNow layer p 100)
              if r == ClosedCode then pure () else yield >> go (k + 1)
        go 0
    takeMVar started
    layerClose layer
    patiently "the reader to be told" (takeMVar ended) >>= either (unexpected "no failure" . show) pure
  _ -> writeAll near "x"
