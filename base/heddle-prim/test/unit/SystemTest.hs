{-# LANGUAGE OverloadedStrings #-}

-- | System calls: each does what it says, and answers with minus its error number.
module SystemTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Bits ((.&.), (.|.))
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Int (Int32)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Foreign.Storable (poke, pokeByteOff)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno
import Heddle.Prim.File qualified as F
import Heddle.Prim.Poller
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.Thread qualified as T
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removePathForcibly, renameFile)
import System.Posix.Files (createSymbolicLink)
import System.Posix.IO (closeFd, createPipe)
import System.Posix.Types (Fd)
import Test.Tasty
import Test.Tasty.HUnit

minus :: Errno -> Int
minus = negate . errnoNumber

bad :: Fd
bad = 987654

withPipe :: (Fd -> Fd -> IO a) -> IO a
withPipe body = bracket createPipe (\(r, w) -> closeFd r >> closeFd w) (uncurry body)

sending :: (Fd -> C.ByteString -> IO Int)
sending fd bytes = unsafeUseAsCStringLen bytes (\(p, n) -> S.send fd (castPtr p) n)

receiving :: Fd -> IO (Either Int C.ByteString)
receiving fd = allocaBytes 100 $ \p -> do
  r <- S.recv fd p 100
  if r < 0 then pure (Left r) else Right <$> B.packCStringLen (castPtr p, r)

-- A listening socket on a free port, a connecting and an accepted one.
withConnection :: (Fd -> Fd -> Fd -> IO a) -> IO a
withConnection body =
  bracket (fromIntegral <$> S.socket 2 1 0) S.closeSocket $ \listener ->
    allocaBytes 128 $ \address -> allocaBytes 4 $ \size -> do
      -- struct sockaddr_in: family, port 0, 127.0.0.1
      forM_ [0 .. 15] $ \i -> pokeByteOff address i (0 :: Word8)
      pokeByteOff address 0 (2 :: Word8)
      forM_ (zip [4 ..] [127, 0, 0, 1]) $ \(i, b) -> pokeByteOff address i (b :: Word8)
      S.bind listener address 16 >>= (@?= 0)
      S.listen listener 10 >>= (@?= 0)
      poke size (128 :: Int32)
      S.localName listener address size >>= (@?= 0)
      bracket (fromIntegral <$> S.socket 2 1 0) S.closeSocket $ \a -> do
        r <- S.connect a address 16
        assertBool "connecting" (r == 0 || r == minus EINPROGRESS)
        poke size 128
        accepted <- awaiting (S.acceptFrom listener address size)
        bracket (pure (fromIntegral accepted)) S.closeSocket (body listener a)
  where
    awaiting act = act >>= \r -> if r == minus EAGAIN then yield >> awaiting act else pure r

sockets :: TestTree
sockets =
  testGroup
    "sockets"
    [ testCase "bytes both ways, nothing to read, the end" $
        withConnection $ \_ a b -> do
          receiving b >>= (@?= Left (minus EAGAIN))
          sending a "hello" >>= (@?= 5)
          arrived b "hello"
          unsafeUseAsCStringLen "more" (\(p, n) -> S.sendMore b (castPtr p) n) >>= (@?= 4)
          sending b "!" >>= (@?= 1)
          arrived a "more!"
          S.shutdown a S.ShutWrite >>= (@?= 0)
          arrived b "",
      testCase "a vector is sent in order" $
        withConnection $ \_ a b ->
          unsafeUseAsCStringLen "one " $ \(p, n) -> unsafeUseAsCStringLen "two" $ \(q, m) -> allocaBytes 32 $ \v -> do
            pokeByteOff v 0 p >> pokeByteOff v 8 n >> pokeByteOff v 16 q >> pokeByteOff v 24 m
            S.sendVector a v 2 >>= (@?= 7)
            arrived b "one two",
      testCase "options" $
        withConnection $ \listener a _ -> do
          S.setOption a S.NoDelay 1 >>= (@?= 0)
          nodelay <- S.getOption a S.NoDelay
          assertBool "TCP_NODELAY" (nodelay /= 0)
          S.pendingError a >>= (@?= 0)
          S.setOption listener (S.Option 1 9999) 1 >>= (@?= minus ENOPROTOOPT),
      testCase "each call answers with its error" $ do
        receiving bad >>= (@?= Left (minus EBADF))
        sending bad "x" >>= (@?= minus EBADF)
        allocaBytes 16 $ \v -> S.sendVector bad v 0 >>= (@?= minus EBADF)
        allocaBytes 128 $ \p -> allocaBytes 4 $ \n -> do
          poke n 128
          S.acceptFrom bad p n >>= (@?= minus EBADF)
          S.localName bad p n >>= (@?= minus EBADF)
          S.peerName bad p n >>= (@?= minus EBADF)
          S.bind bad p 16 >>= (@?= minus EBADF)
          S.connect bad p 16 >>= (@?= minus EBADF)
          S.readFd bad (castPtr p) 1 >>= (@?= minus EBADF)
          S.writeFd bad (castPtr p) 1 >>= (@?= minus EBADF)
        S.listen bad 1 >>= (@?= minus EBADF)
        S.shutdown bad S.ShutBoth >>= (@?= minus EBADF)
        S.closeSocket bad >>= (@?= minus EBADF)
        S.setNonBlocking bad >>= (@?= minus EBADF)
        S.getOption bad S.SocketKind >>= (@?= minus EBADF)
        S.setOption bad S.ReuseAddress 1 >>= (@?= minus EBADF)
        S.socket 9999 1 0 >>= (@?= (-97)), -- EAFNOSUPPORT
      testCase "pipes" $
        withPipe $ \r w -> allocaBytes 16 $ \p -> do
          S.setNonBlocking r >>= (@?= 0)
          S.setNonBlocking r >>= (@?= 0)
          S.readFd r p 16 >>= (@?= minus EAGAIN)
          unsafeUseAsCStringLen "pipe" (\(q, n) -> S.writeFd w (castPtr q) n) >>= (@?= 4)
          S.readFd r p 16 >>= (@?= 4)
          -- The reader is gone: an error number, no signal.
          withConnection $ \_ a b -> do
            S.shutdown b S.ShutBoth >>= (@?= 0)
            let go n = sending a "x" >>= \x -> if x < 0 || n == 0 then pure x else go (n - 1 :: Int)
            x <- go 1000000
            assertBool (show x) (x `elem` [minus EPIPE, minus ECONNRESET])
    ]
  where
    arrived fd bytes = go B.empty
      where
        go got
          | got == bytes && not (B.null bytes) = pure ()
          | otherwise =
            receiving fd >>= \case
              Left e | e == minus EAGAIN -> yield >> go got
              Left e -> assertFailure (show e)
              Right b
                | B.null b -> got @?= bytes
                | otherwise -> go (got <> b)

pollers :: TestTree
pollers =
  testGroup
    "pollers"
    [ testCase "epoll reports an edge once, with its tag" $
        withPipe $ \r w -> withEpoll $ \ep -> allocaBytes (4 * eventBytes) $ \events -> do
          epollAdd ep r (eventIn .|. eventReadHangUp .|. eventEdge) 0x123456789ABCDEF >>= (@?= 0)
          epollAdd ep r eventIn 0 >>= (@?= minus EEXIST)
          epollPoll ep events 4 >>= (@?= 0)
          put w
          epollWait ep events 4 (-1) >>= (@?= 1)
          peekEventTag events 0 >>= (@?= 0x123456789ABCDEF)
          bits <- peekEventBits events 0
          bits .&. eventIn @?= eventIn
          epollPoll ep events 4 >>= (@?= 0)
          put w
          epollPoll ep events 4 >>= (@?= 1)
          epollDelete ep r >>= (@?= 0)
          put w
          epollPoll ep events 4 >>= (@?= 0)
          epollDelete ep r >>= (@?= minus ENOENT)
          epollAdd ep bad eventIn 0 >>= (@?= minus EBADF),
      testCase "epoll wants no disk file" $
        withEpoll $ \ep -> bracket (fromIntegral <$> F.openFile "/proc/self/exe" F.readOnly) F.closeFile $ \f ->
          epollAdd ep f eventIn 0 >>= (@?= minus EPERM),
      testCase "poll reports states" $
        withPipe $ \r w -> allocaBytes (2 * pollBytes) $ \entries -> do
          pokePoll entries 0 r eventIn
          pokePoll entries 1 w eventOut
          pollNow entries 2 >>= (@?= 1)
          mapM (peekPoll entries) [0, 1] >>= (@?= [0, eventOut])
          put w
          pollWait entries 2 (-1) >>= (@?= 2)
          mapM (peekPoll entries) [0, 1] >>= (@?= [eventIn, eventOut])
          pollOne r eventIn >>= (@?= 1)
          pollOne r eventOut >>= (@?= 0)
          pollOne bad eventIn >>= (@?= 0x20),
      testCase "an eventfd wakes and is drained" $
        bracket (fromIntegral <$> newEventFd) S.closeSocket $ \e -> do
          drainEventFd e >>= (@?= minus EAGAIN)
          signalEventFd e >>= (@?= 0)
          signalEventFd e >>= (@?= 0)
          pollOne e eventIn >>= (@?= 1)
          drainEventFd e >>= (@?= 8)
          pollOne e eventIn >>= (@?= 0)
    ]
  where
    withEpoll = bracket (fromIntegral <$> epollCreate) S.closeSocket
    put w = unsafeUseAsCStringLen "x" (\(p, n) -> S.writeFd w (castPtr p) n) >>= (@?= 1)

files :: TestTree
files =
  testGroup
    "files"
    [ testCase "beneath a root, and not out of it" $
        inDirectory $ \dir -> withDirectory dir $ \root -> do
          let via path = do
                slow <- F.openBeneath root path F.readOnly
                when (slow >= 0) (void (F.closeFile (fromIntegral slow)))
                fast <- F.openBeneathCached root path F.readOnly
                when (fast >= 0) (void (F.closeFile (fromIntegral fast)))
                -- The cached call may always say that it does not know.
                assertBool "agree" (fast == minus EAGAIN || min 0 fast == min 0 slow)
                pure (min 0 slow)
          via "file" >>= (@?= 0)
          via "sub/../file" >>= (@?= 0)
          via "../file" >>= (@?= minus EXDEV)
          via "/etc/passwd" >>= (@?= minus EXDEV)
          via "out" >>= (@?= minus EXDEV)
          via "missing" >>= (@?= minus ENOENT),
      testCase "aPathWithDotsFailedBesideARename" $
        inDirectory $ \dir -> withDirectory dir $ \root -> do
          let (one, other) = (C.unpack dir ++ "/one", C.unpack dir ++ "/other")
              renaming = T.fork "prim-test/rename" (forever (renameFile one other >> renameFile other one))
          B.writeFile one ""
          -- One call in 26 failed.
          bracket renaming killThread $ \_ -> replicateM_ 10000 $ do
            fd <- F.openBeneath root "sub/../sub/../sub/../file" F.readOnly
            if fd < 0 then assertFailure ("error " ++ show (negate fd)) else void (F.closeFile (fromIntegral fd)),
      testCase "status and bytes" $
        inDirectory $ \dir -> withFile' (dir <> "/file") $ \f -> do
          F.fileStatus f >>= either (assertFailure . show) (\s -> (F.statusKind s, F.statusSize s) @?= (F.RegularFile, 10))
          allocaBytes 20 $ \p -> do
            F.readAt f p 20 0 >>= (@?= 10)
            F.readAt f p 4 8 >>= (@?= 2)
            F.readAt f p 4 10 >>= (@?= 0)
            F.readAt f p 4 (-1) >>= (@?= minus EINVAL)
            now <- F.readAtNoWait f p 20 0
            assertBool (show now) (now `elem` [10, minus EAGAIN, minus EOPNOTSUPP])
            F.readAt bad p 1 0 >>= (@?= minus EBADF)
          F.fileStatus bad >>= either (@?= minus EBADF) (assertFailure . show)
          F.closeFile bad >>= (@?= minus EBADF),
      testCase "sendfile" $
        inDirectory $ \dir -> withFile' (dir <> "/file") $ \f -> withConnection $ \_ a b -> do
          F.sendFile a f 3 100 >>= (@?= 7)
          F.sendFile a f 10 100 >>= (@?= 0)
          F.sendFile bad f 0 1 >>= (@?= minus EBADF)
          let go got = if B.length got == 7 then pure got else receiving b >>= either (const (yield >> go got)) (go . (got <>))
          go B.empty >>= (@?= "3456789"),
      testCase "appending and removing" $
        inDirectory $ \dir -> do
          let path = dir <> "/log"
          forM_ ["one\n", "two\n"] $ \line -> bracket (fromIntegral <$> F.openFile path F.appendCreate) F.closeFile $ \f ->
            unsafeUseAsCStringLen line (\(p, n) -> F.writeWhole f (castPtr p) n) >>= (@?= 4)
          B.readFile (C.unpack path) >>= (@?= "one\ntwo\n")
          F.isSocketName (C.unpack path) >>= (@?= False)
          F.removeName (C.unpack path)
          r <- try (F.removeName (C.unpack path))
          either (\e -> errnoOf e @?= Just ENOENT) (const (assertFailure "removed twice")) r
    ]
  where
    inDirectory body = do
      base <- getTemporaryDirectory
      Deadline now <- monotonicNow
      let dir = base ++ "/heddle-prim-test-" ++ show now
      createDirectoryIfMissing True (dir ++ "/sub")
      B.writeFile (dir ++ "/file") "0123456789"
      createSymbolicLink "../outside" (dir ++ "/out")
      body (C.pack dir) `finally` removePathForcibly dir
    withDirectory dir = bracket (fromIntegral <$> F.openFile dir F.directoryOnly) F.closeFile
    withFile' path = bracket (fromIntegral <$> F.openFile path F.readOnly) F.closeFile

threads :: TestTree
threads =
  testGroup
    "threads"
    [ testCase "children start unmasked, and where they are told" $ do
        v <- newEmptyMVar
        let report = (,) <$> getMaskingState <*> (threadCapability =<< myThreadId) >>= putMVar v
        forM_ [id, mask_] $ \state -> do
          _ <- state (T.fork "prim-test/fork" report)
          takeMVar v >>= (@?= Unmasked) . fst
          forM_ [0, 1] $ \c -> do
            _ <- state (T.forkOn c "prim-test/forkOn" report)
            takeMVar v >>= (@?= (Unmasked, (c, True)))
            _ <- state (T.forkUnlabelledOn c report)
            takeMVar v >>= (@?= (Unmasked, (c, True))),
      testCase "forkMasked is masked until it unmasks" $ do
        v <- newEmptyMVar
        _ <- T.forkMasked (\unmask -> (,) <$> getMaskingState <*> unmask getMaskingState >>= putMVar v)
        takeMVar v >>= (@?= (MaskedInterruptible, Unmasked))
        _ <- T.forkMaskedOn 1 (\unmask -> (,) <$> getMaskingState <*> unmask getMaskingState >>= putMVar v)
        takeMVar v >>= (@?= (MaskedInterruptible, Unmasked)),
      -- Where the runtime might forget to wake them.
      testCase "boundThreadsStayedOnDisabledCapabilities" $ do
        before <- T.getCapabilities
        flip finally (T.setCapabilities before) $ do
          T.setCapabilities (before + 2)
          moved <- boundBeyond before (T.setCapabilities before >> T.myCapability)
          assertBool ("the caller is on " <> show moved) (moved < before)
          starts <- forM [1 .. 20 :: Int] $ \_ -> do
            v <- newEmptyMVar
            _ <- T.forkBound "prim-test/bound" (T.myCapability >>= putMVar v)
            takeMVar v
          assertBool ("bound threads begin on " <> show starts) (all (< before) starts),
      testCase "the runtime" $ do
        assertBool "threaded" T.threadedRuntime
        n <- T.getCapabilities
        c <- T.myCapability
        assertBool "capability" (c >= 0 && c < n)
        T.labelMe "prim-test/label"
    ]

-- | Run the action in a bound thread on none of the first capabilities: they are kept busy until there is one.
boundBeyond :: Int -> IO a -> IO a
boundBeyond first action = do
  looking <- newIORef True
  let busy = readIORef looking >>= \more -> when more (yield >> busy)
      look (attempts :: Int) = do
        v <- newEmptyMVar
        _ <- T.forkBound "prim-test/bound" $ do
          here <- T.myCapability
          if here < first then putMVar v Nothing else writeIORef looking False >> action >>= putMVar v . Just
        takeMVar v >>= \case
          Just a -> pure a
          Nothing
            | attempts == 0 -> assertFailure "no bound thread begins on another capability"
            | otherwise -> look (attempts - 1)
  forM_ [0 .. first - 1] $ \capability -> T.forkOn capability "prim-test/busy" busy
  look 10000 `finally` writeIORef looking False

tests :: TestTree
tests = testGroup "system calls" [sockets, pollers, files, threads]
