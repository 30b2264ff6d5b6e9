{-# LANGUAGE OverloadedStrings #-}

-- | What goes wrong on the way, at every byte; interruptions; crowds. Whatever happens, nothing is left.
module FaultTest (tests) where

import Control.Concurrent (forkIO, killThread, yield)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, finally, mask, mask_, try)
import Control.Monad (forM, forM_, forever, replicateM_, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import FailureTest (liveAllocations)
import Fixture
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import GHC.Conc (ThreadStatus (..), threadStatus)
import Heddle.IO (accept, connectUntil, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.IO qualified as IO
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Clock (deadlineIn, milliseconds)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import Relay
import System.Environment (lookupEnv)
import System.Mem (performMajorGC, performMinorGC)
import Test.Tasty
import Test.Tasty.HUnit

tests :: Folder -> TestTree
tests folder =
  testGroup
    "faults"
    [ testGroup "on the way" (onTheWay folder),
      testGroup "silence" (silence folder),
      testGroup "garbage" (garbage folder),
      testGroup "interruption" (interruption folder),
      testCase "a flight that the socket does not take is sent later" (fullSocket folder),
      testCase "a crowd: finished, half, reset, plain (100,000: HEDDLE_NIGHTLY=1; else 2,000)" (storm folder),
      testCase "aSocketWasClosedUnderAWait" (cutUnderAPump folder)
    ]

-- One conversation through a relay; what the client saw.
through :: Echo -> TlsClient -> Fault -> Fault -> IO (Either SomeException ByteString)
through echo tls up down = relay echo up down $ \relayed -> try $
  within 5000000 "an end of the conversation" $
    connectingWith relayed tls "localhost" $ \case
      Left why -> unexpected "a session" why
      Right (transport, _) -> do
        writeAll transport message
        readAll transport (B.length message)

message :: ByteString
message = C.pack (take 500 (cycle "the quick brown fox "))

onTheWay :: Folder -> [TestTree]
onTheWay folder =
  [ testCase (show v ++ ", " ++ what) . nothingIsLeft $ do
      loaded <- site folder ["good"]
      withEcho loaded $ \echo -> do
        -- Each side sends about that much.
        let faults = [(fault n, Pass) | n <- [0, step .. 900]] ++ [(Pass, fault n) | n <- [0, step .. 1800]]
        forM_ faults $ \(a, b) -> do
          -- A client of its own for each: no tickets, so that all conversations have the same bytes.
          tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
          outcome <- through echo tls a b
          case outcome of
            Right got | got == message || (isEnd a || isEnd b) && B.isPrefixOf got message -> pure ()
            Right got -> assertFailure (show (a, b) ++ " gave " ++ show got)
            Left _ -> pure ()
        -- The server is as good as before.
        tls <- client (trusting folder)
        connecting echo tls "localhost" (\t _ -> ask t message)
    | v <- [Tls12, Tls13],
      (what, fault, step) <- [("flipped bits", Flip, 23), ("cut", End, 31), ("reset", Reset, 37)]
  ]
    ++ [ testCase "a flipped bit in a record of the conversation is never taken" . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> forM_ [Tls12, Tls13] $ \v -> do
             tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
             outcomes <- forM [700, 720 .. 1100] $ \n -> through echo tls (Flip n) Pass
             -- Those within the message's record: the server tells, or ends.
             assertBool "some were noticed" (any (either (const True) (const False)) outcomes)
       ]
  where
    isEnd = \case
      End _ -> True
      Reset _ -> True
      _ -> False

-- Seen in one of ten runs as a socket left, and a later test that waits for ever; see Note [Closing under a wait] of Relay.
cutUnderAPump :: Folder -> IO ()
cutUnderAPump folder = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo -> bracket (N.socket N.AF_INET N.Stream N.defaultProtocol) N.close $ \listener -> do
    N.bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
    N.listen listener 1
    address <- N.getSocketName listener
    forM_ [End 2, Reset 2] $ \cut -> do
      entered <- newEmptyMVar
      ended <- newIORef False
      let waiting = (putMVar entered () >> newEmptyMVar >>= takeMVar) `finally` writeIORef ended True
      relay echo {echoAddress = address} (Call waiting) cut $ \relayed -> rawSocket relayed $ \s ->
        patiently "a cut conversation" . bracket (fst <$> N.accept listener) N.close $ \peer -> do
          NB.sendAll s "1"
          takeMVar entered
          NB.sendAll peer "cut"
          drain s
          readIORef ended >>= assertBool "the pump has ended before its socket is closed"
          drain peer
  where
    drain s = try (NB.recv s 100) >>= either (\(_ :: IOError) -> pure ()) (\b -> if B.null b then pure () else drain s)

silence :: Folder -> [TestTree]
silence folder =
  [ testCase ("of a client, after " ++ show n ++ " bytes of its first record") . nothingIsLeft $ do
      loaded <- site folder ["good"]
      -- The bytes must come within the limit, also on a busy machine.
      withEchoOn IO.Epoll 1000 loaded $ \echo -> rawSocket echo $ \s -> do
        NB.sendAll s (B.take n hello)
        seen <- eventually "the end of patience" (reports echo) (not . null)
        map (either id show) seen @?= [expected]
        sessions <- liveSessions
        sessions @?= 0
        patiently "the end" (NB.recv s 100) >>= (@?= "")
    | (n, expected) <- [(0, "the peer sent nothing"), (1, late), (5, late), (60, late)]
  ]
    ++ [ testCase ("of a server, after " ++ show n ++ " bytes") . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> relay echo Pass (Hold n) $ \relayed -> do
             tls <- client (trusting folder)
             conn <- patience' >>= connectUntil (echoRuntime echo) (echoAddress relayed) >>= either (unexpected "a connection" . show) pure
             deadline <- deadlineIn (milliseconds 60)
             opened <- mask_ (tlsConnecting tls "localhost" (registrationOf conn) deadline)
             void (closeRegistration (registrationOf conn))
             case opened of
               NotOpened why -> why @?= late
               _ -> assertFailure "opened"
         | n <- [0, 10, 200]
       ]
    ++ [ testCase (show v ++ ": half a record, then nothing") . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> relay echo (Hold 4000) Pass $ \relayed -> do
             tls <- client (trusting folder) {clientHighest = v}
             connecting relayed tls "localhost" $ \transport _ -> do
               -- The handshake is shorter than 4,000 bytes, this record longer.
               writeAll transport (B.replicate 10000 1)
               deadline <- deadlineIn (milliseconds 60)
               r <- allocaBytes 100 $ \p -> readUntil transport p 100 deadline
               r @?= TimedOutCode
               -- A time-out of reading harms nothing.
               again <- allocaBytes 100 $ \p -> readUntil transport p 100 deadline
               again @?= TimedOutCode
         | v <- [Tls12, Tls13]
       ]
  where
    late = "the handshake was not finished in time"
    hello = "\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" <> B.replicate 200 0

garbage :: Folder -> [TestTree]
garbage folder =
  [ testCase what . nothingIsLeft $ do
      loaded <- site folder ["good"]
      withEcho loaded $ \echo -> rawSocket echo $ \s -> do
        NB.sendAll s bytes
        -- The server may have closed the connection already.
        _ <- try (N.shutdown s N.ShutdownSend) :: IO (Either IOError ())
        let drain = NB.recv s 1000 >>= \b -> if B.null b then pure () else drain
        _ <- try (patiently "the end" drain) :: IO (Either IOError ())
        plain <- eventually "a report" ((,) <$> reports echo <*> readIORef (echoPlain echo)) (\(a, b) -> not (null a && null b))
        case plain of
          ([Left why], []) -> assertBool why (asTls && not (null why))
          ([], [got]) -> assertBool (show got) (not asTls && got == bytes)
          other -> assertFailure (show other)
    | (what, bytes, asTls) <-
        [ ("a record too long", "\x16\x03\x01\xff\xff" <> B.replicate 70000 1, True),
          ("an empty record", "\x16\x03\x01\x00\x00", True),
          ("a version from nowhere", "\x16\x7f\x01\x00\x05hello", True),
          ("a hello of garbage", "\x16\x03\x01\x00\x20\x01\x00\x00\x1c\x03\x03" <> B.replicate 26 255, True),
          ("a hello that ends", "\x16\x03\x01\x00\xf0\x01\x00", True),
          ("an alert", "\x15\x03\x01\x00\x02\x02\x28", False),
          ("zeros", B.replicate 1000 0, False),
          ("text", "SSH-2.0-OpenSSH_9.2\r\n", False)
        ]
  ]
    ++ [ testCase "of plain text, no more is taken than HTTP's input has room for" . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> rawSocket echo $ \s -> do
             NB.sendAll s (B.replicate 20000 71)
             got <- eventually "a report" (readIORef (echoPlain echo)) (not . null)
             assertBool (show (map B.length got)) (all ((<= 8192) . B.length) got),
         testCase "a hello that is longer than what is received before its first byte is looked at" . nothingIsLeft $ do
           loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsProtocols = ["wanted"]}
           tls <- client (trusting folder) {clientProtocols = [B.replicate 250 n | n <- [65 .. 124]] ++ ["wanted"]}
           withEcho loaded $ \echo -> connecting echo tls "localhost" $ \transport facts -> do
             factProtocol facts @?= "wanted"
             ask transport message,
         testCase "a client that meets a plain server" . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> withListener (echoRuntime echo) defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener -> do
             deadline <- patience'
             done <- newEmptyMVar
             _ <- forkIO $ do
               conn <- accept listener
               _ <- IO.recvUntil conn 1000 deadline
               _ <- IO.sendAllUntil conn "220 mail.example ESMTP\r\n" deadline
               IO.close conn
               putMVar done ()
             tls <- client (trusting folder)
             connectingWith echo {echoAddress = listenerAddress listener} tls "localhost" $ \case
               Left why -> C.pack why `contains` "wrong version number"
               Right _ -> assertFailure "opened"
             patiently "the plain server" (takeMVar done)
       ]
  where
    contains text part = assertBool (C.unpack text) (part `B.isInfixOf` text)

-- Opening is interrupted wherever it waits: the peer has sent the first bytes of a conversation, and no more. The threads
-- are masked, as handlers are: what an opening has made is not lost on the way to its user.
interruption :: Folder -> [TestTree]
interruption folder =
  concat
    [ [ testCase ("of a client's opening, " ++ how) . nothingIsLeft $ do
          loaded <- site folder ["good"]
          withEcho loaded $ \echo -> forM_ [0, 60 .. 1500] $ \n -> relay echo Pass (Hold n) $ \relayed -> do
            tls <- client (trusting folder)
            deadline <- patience'
            conn <- connectUntil (echoRuntime relayed) (echoAddress relayed) deadline >>= either (unexpected "a connection" . show) pure
            ended <- newEmptyMVar
            t <- mask_ . forkIO $ do
              r <- try (tlsConnecting tls "localhost" (registrationOf conn) deadline)
              case r of
                Right (Opened layer) -> layerClose layer
                Right _ -> pure ()
                Left (_ :: SomeException) -> pure ()
              void (closeRegistration (registrationOf conn))
              putMVar ended ()
            _ <- eventually "a wait, or the end" (threadStatus t) waitsOrEnds
            collect
            killThread t
            patiently "the end" (takeMVar ended),
        testCase ("of a server's opening, " ++ how) . nothingIsLeft $ do
          loaded <- site folder ["good"]
          tls <- newTlsListener loaded
          withEcho loaded $ \echo -> withListener (echoRuntime echo) defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
            forM_ [0, 40 .. 700] $ \n -> relay echo {echoAddress = listenerAddress listener} (Hold n) Pass $ \relayed -> do
              to <- client (trusting folder)
              deadline <- patience'
              near <- connectUntil (echoRuntime relayed) (echoAddress relayed) deadline >>= either (unexpected "a connection" . show) pure
              nearEnded <- newEmptyMVar
              u <- mask_ . forkIO $ do
                r <- try (tlsConnecting to "localhost" (registrationOf near) deadline)
                case r of
                  Right (Opened layer) -> layerClose layer
                  Right _ -> pure ()
                  Left (_ :: SomeException) -> pure ()
                void (closeRegistration (registrationOf near))
                putMVar nearEnded ()
              conn <- patiently "a connection" (accept listener)
              farEnded <- newEmptyMVar
              t <- mask_ . forkIO $ do
                r <- try (tlsOpening tls (registrationOf conn) deadline)
                case r of
                  Right (Opened layer) -> layerClose layer
                  Right _ -> pure ()
                  Left (_ :: SomeException) -> pure ()
                void (closeRegistration (registrationOf conn))
                putMVar farEnded ()
              _ <- eventually "a wait, or the end" (threadStatus t) waitsOrEnds
              collect
              killThread t
              patiently "the server's end" (takeMVar farEnded)
              killThread u
              patiently "the client's end" (takeMVar nearEnded)
      ]
      | (how, collect) <- [("collected young", performMinorGC), ("collected whole", performMajorGC)]
    ]
    ++ [ testCase "of reads and writes, at any moment" . nothingIsLeft $ do
           loaded <- site folder ["good"]
           tls <- client (trusting folder)
           withEcho loaded $ \echo -> forM_ [0 .. 60 :: Int] $ \n -> do
             ended <- newEmptyMVar
             -- Masked until the handler is in place: the thread may be killed before it begins.
             t <- mask $ \restore -> forkIO $ do
               r <- try (restore (connecting echo tls "localhost" (\transport _ -> forever (ask transport (B.replicate 200000 3)))))
               putMVar ended (either (\(_ :: SomeException) -> ()) id r)
             -- Nothing is waited for: the moments differ.
             replicateM_ (2 * n) yield
             when (n `rem` 3 == 0) performMinorGC
             killThread t
             patiently "the end" (takeMVar ended)
       ]

waitsOrEnds :: ThreadStatus -> Bool
waitsOrEnds = \case
  ThreadBlocked _ -> True
  ThreadFinished -> True
  _ -> False

-- The server's socket is full before its first flight; the relay's receiver takes what fills it away.
fullSocket :: Folder -> IO ()
fullSocket folder = nothingIsLeft $ do
  loaded <- site folder ["rsa"]
  tls <- newTlsListener loaded
  to <- client (trusting folder)
  withRuntime defaultConfig $ \runtime -> withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener -> do
    deadline <- patience'
    raw <- N.socket N.AF_INET N.Stream N.defaultProtocol
    N.connect raw (listenerAddress listener)
    conn <- patiently "a connection" (accept listener)
    let registration = registrationOf conn
        fill n = do
          r <- B.useAsCString (B.replicate 65536 0) $ \p -> mask_ (sendNow registration (castPtr p) 65536)
          if r > 0 then fill (n + r) else pure (n :: Int)
    junk <- fill 0
    opened <- newEmptyMVar
    server <- forkIO (mask_ (tlsOpening tls registration deadline) >>= putMVar opened)
    -- A second listener stands between: it drops the junk.
    withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \between -> do
      reached <- newEmptyMVar
      _ <- forkIO $ do
        near <- connectUntil runtime (listenerAddress between) deadline >>= either (unexpected "a connection" . show) pure
        r <- mask_ (tlsConnecting to "rsa.example" (registrationOf near) deadline)
        putMVar reached (near, r)
      middle <- patiently "a connection" (accept between)
      IO.recvUntil middle 10000 deadline >>= \case
        IO.Got hello -> NB.sendAll raw hello
        other -> unexpected "a hello" (show other)
      -- It has read the hello, and waits for its socket.
      _ <- eventually "the server to wait" ((,) <$> liveSessions <*> threadStatus server) (\(n, s) -> n == 2 && (case s of ThreadBlocked _ -> True; _ -> False))
      let skip n = when (n > 0) (NB.recv raw (min 65536 n) >>= \b -> skip (n - B.length b))
          down = NB.recv raw 65536 >>= \b -> if B.null b then pure () else IO.sendAllUntil middle b deadline >> down
          up =
            IO.recvUntil middle 10000 deadline >>= \case
              IO.Got b -> NB.sendAll raw b >> up
              _ -> pure ()
      patiently "the junk" (skip junk)
      a <- forkIO down
      b <- forkIO up
      far <- patiently "the server's end" (takeMVar opened)
      (nearConn, near) <- patiently "the client's end" (takeMVar reached)
      case (near, far) of
        (Opened one, Opened two) -> do
          writeAll (Layered registration two) "hello"
          readAll (Layered (registrationOf nearConn) one) 5 >>= (@?= "hello")
          closeTransport (Layered registration two)
          closeTransport (Layered (registrationOf nearConn) one)
        (NotOpened why, _) -> assertFailure why
        (_, NotOpened why) -> assertFailure why
        _ -> assertFailure "no session"
      killThread a
      killThread b
      IO.close middle
    N.close raw

storm :: Folder -> IO ()
storm folder = nothingIsLeft $ do
  nightly <- (== Just "1") <$> lookupEnv "HEDDLE_NIGHTLY"
  loaded <- site folder ["good"]
  tls <- client (trusting folder)
  let crowd echo visits limit = do
        ends <- forM [0 .. 7 :: Int] $ \worker -> do
          ended <- newEmptyMVar
          _ <- forkIO (try (forM_ [1 .. visits `quot` 8] (visit echo tls . (+ worker))) >>= \r -> putMVar ended (r :: Either SomeException ()))
          pure ended
        forM_ ends $ \ended -> within limit "the crowd to end" (takeMVar ended) >>= either (unexpected "no failure" . show) pure
        void (eventually "every session to end" liveSessions (== 0))
  withEcho loaded $ \echo -> do
    let visits = if nightly then 100000 else 2000
    crowd echo 1000 120000000
    before <- liveAllocations
    crowd echo visits (if nightly then 1800000000 else 120000000)
    -- Tickets that clients kept are freed by the collector. Nothing is left of each visit.
    void (eventually ("about " ++ show before ++ " allocations of libssl") (performMajorGC >> liveAllocations) (<= before + 1000))
    counts <- tlsCounts (echoListener echo)
    assertBool (show counts) (2 * (countFull counts + countResumed counts) >= visits && countResumed counts > 0)
    -- And it serves.
    connecting echo tls "localhost" (\t _ -> ask t message)
  where
    visit echo tls n = case n `rem` 6 of
      0 -> connecting echo tls "localhost" (\t _ -> ask t message)
      1 -> connecting echo tls "localhost" (\_ _ -> pure ())
      2 -> rawSocket echo (\s -> NB.sendAll s (B.take 40 hello) >> N.setSockOpt s N.Linger (N.StructLinger 1 0))
      -- Unread bytes make the close a reset, while the server may be writing.
      3 -> connecting echo tls "localhost" (\t _ -> replicateM_ 3 (writeAll t message))
      4 -> rawSocket echo (`NB.sendAll` "GET / HTTP/1.0\r\n\r\n")
      _ -> connecting echo tls "localhost" (\t _ -> writeAll t message >> void (endWriting t) >> void (readAll t 1000))
    hello = "\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" <> B.replicate 200 0
