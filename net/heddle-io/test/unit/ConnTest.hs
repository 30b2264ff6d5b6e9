{-# LANGUAGE OverloadedStrings #-}

-- | Connections: bytes, waits, closing, registering.
module ConnTest (tests) where

import Control.Concurrent hiding (threadWaitRead)
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (sort)
import Data.Maybe (isJust)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Harness
import Heddle.IO
import Heddle.Prim.Clock (monotonicNow)
import Heddle.Prim.Errno
import Heddle.Testkit.Descriptors (openDescriptor)
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openTempFile)
import System.Posix.IO (OpenMode (..), closeFd, createPipe, fdWrite)
import System.Posix.Types (Fd)
import Test.Tasty
import Test.Tasty.HUnit

bytes :: Int -> ByteString
bytes n = fst (B.unfoldrN n (\x -> Just (fromIntegral (x `div` 65536), (x * 1103515245 + 12345) `mod` 2147483648)) (n + 7))

-- Everything up to the end.
drain :: Conn -> IO ByteString
drain conn = do
  deadline <- late
  let go acc =
        recvUntil conn 65536 deadline >>= \case
          Got b -> go (b : acc)
          Eof -> pure (B.concat (reverse acc))
          other -> assertFailure ("drain: " ++ show other)
  go []

-- Fill a connection until the kernel accepts no more.
fill :: Conn -> IO Int
fill conn = do
  deadline <- soon
  sendAllUntil conn (B.replicate 50000000 120) deadline >>= \case
    SendTimedOut n -> pure n
    other -> assertFailure ("fill: " ++ show other)

transfers :: TestTree
transfers =
  testGroup
    "bytes"
    [ bothBackends "what is sent arrives" $ \rt -> forM_ [1, 100, 65536, 3000000] $ \n ->
        withPair rt $ \a b -> do
          deadline <- late
          sender <- forkTask (sendAllUntil a (bytes n) deadline <* close a)
          received <- drain b
          joinTask sender >>= (@?= Sent)
          assertBool ("bytes of " ++ show n) (received == bytes n),
      bothBackends "a vector arrives in order" $ \rt -> withPair rt $ \a b -> do
        deadline <- late
        let parts = map bytes (0 : 3 : 0 : [1 .. 1500] ++ [200000, 0, 5])
        sender <- forkTask (sendVUntil a parts deadline <* close a)
        received <- drain b
        joinTask sender >>= (@?= Sent)
        assertBool "bytes" (received == B.concat parts),
      bothBackends "an empty vector is sent at once" $ \rt -> withPair rt $ \a _ -> do
        sendVUntil a ["", ""] never >>= (@?= Sent)
        sendAllUntil a "" never >>= (@?= Sent),
      bothBackends "data and end on one edge" $ \rt -> forM_ [1 .. 50 :: Int] $ \_ ->
        withPair rt $ \a b -> do
          deadline <- late
          reader <- forkTask (drain b)
          _ <- sendAllUntil a "last words" deadline
          close a
          joinTask reader >>= (@?= "last words"),
      bothBackends "a reader of small pieces gets all" $ \rt -> withPair rt $ \a b -> do
        deadline <- late
        _ <- sendAllUntil a (bytes 1000) deadline
        close a
        let go acc =
              recvUntil b 7 deadline >>= \case
                Got x -> go (x : acc)
                _ -> pure (B.concat (reverse acc))
        go [] >>= (@?= bytes 1000),
      bothBackends "recvIntoUntil writes to the address" $ \rt -> withPair rt $ \a b -> do
        deadline <- late
        _ <- sendAllUntil a "hello" deadline
        allocaBytes 16 $ \p -> do
          recvIntoUntil b p 16 deadline >>= (@?= Got 5)
          C.packCStringLen (castPtr p, 5) >>= (@?= "hello"),
      bothBackends "a length below one is refused" $ \rt -> withPair rt $ \_ b -> do
        expectIOError EINVAL (recvUntil b 0 never)
        allocaBytes 1 $ \p -> expectIOError EINVAL (recvIntoUntil b p (-1) never),
      bothBackends "Unix sockets carry bytes" $ \rt -> withUnixPair rt $ \a b -> do
        deadline <- late
        sender <- forkTask (sendAllUntil a (bytes 1000000) deadline <* close a)
        received <- drain b
        joinTask sender >>= (@?= Sent)
        assertBool "bytes" (received == bytes 1000000)
    ]

deadlines :: TestTree
deadlines =
  testGroup
    "deadlines"
    [ bothBackends "receiving ends at the deadline, not before" $ \rt -> withPair rt $ \_ b -> do
        deadline <- soon
        recvUntil b 10 deadline >>= (@?= TimedOut)
        now <- monotonicNow
        assertBool "early" (now >= deadline),
      bothBackends "a passed deadline means one try" $ \rt -> withPair rt $ \a b -> do
        past <- monotonicNow
        recvUntil b 10 past >>= (@?= TimedOut)
        _ <- sendAllUntil a "x" never
        _ <- late >>= readableUntil b
        recvUntil b 10 past >>= got >>= (@?= "x"),
      bothBackends "sending says how much went" $ \rt -> withPair rt $ \a b -> do
        n <- fill a
        assertBool "some went" (n > 0)
        counter <- forkTask (B.length <$> drain b)
        close a
        joinTask counter >>= (@?= n),
      bothBackends "a vector says how much went" $ \rt -> withPair rt $ \a b -> do
        deadline <- soon
        n <-
          sendVUntil a (replicate 600 (B.replicate 100000 1)) deadline >>= \case
            SendTimedOut n -> pure n
            other -> assertFailure (show other)
        counter <- forkTask (B.length <$> drain b)
        close a
        joinTask counter >>= (@?= n),
      bothBackends "touching moves the present deadline" $ \rt -> withPair rt $ \a b -> do
        -- On a busy machine the first deadline may come before it is moved: then again.
        let touched = do
              first <- soon
              reader <- forkTask (recvUntil b 10 first)
              waitSettled (taskThread reader)
              later <- deadlineIn (seconds 40)
              touchUntil b later
              now <- monotonicNow
              if now >= first then killTask reader >> touched else pure reader
        reader <- touched
        -- Another connection's time-out, later than the first deadline, comes and goes.
        withPair rt $ \_ d -> do
          other <- deadlineIn (milliseconds 60)
          recvUntil d 1 other >>= (@?= TimedOut)
        waitParked (taskThread reader)
        _ <- sendAllUntil a "here" never
        joinTask reader >>= got >>= (@?= "here"),
      bothBackends "an earlier deadline after a later one" $ \rt -> withPair rt $ \a b -> do
        far <- late
        _ <- sendAllUntil a "1" never
        recvUntil b 10 far >>= got >>= (@?= "1")
        reader <- forkTask (recvUntil b 10 far)
        waitParked (taskThread reader)
        _ <- killTask reader
        near <- soon
        recvUntil b 10 near >>= (@?= TimedOut)
    ]

wakes :: TestTree
wakes =
  testGroup
    "readiness"
    [ bothBackends "Ready, Late, HungUp, Gone" $ \rt -> withPair rt $ \a b -> do
        near <- soon
        readableUntil b near >>= (@?= Late)
        waiter <- forkTask (late >>= readableUntil b)
        waitParked (taskThread waiter)
        _ <- sendAllUntil a "x" never
        joinTask waiter >>= (@?= Ready)
        -- Level semantics: it is still ready.
        readableUntil b near >>= (@?= Ready)
        close a
        _ <- recvUntil b 10 never
        far <- late
        readableUntil b far >>= (@?= HungUp)
        recvUntil b 10 far >>= (@?= Eof)
        close b
        readableUntil b far >>= (@?= Gone)
        writableUntil b far >>= (@?= Gone),
      bothBackends "writable when the peer has read" $ \rt -> withPair rt $ \a b -> do
        far <- late
        writableUntil a far >>= (@?= Ready)
        -- After a pause the kernel may have room for a little again.
        let full = fill a >> soon >>= writableUntil a >>= \r -> unless (r == Late) full
        full
        waiter <- forkTask (writableUntil a far)
        waitSettled (taskThread waiter)
        reader <- forkTask (forever (recvUntil b 65536 never))
        joinTask waiter >>= (@?= Ready)
        void (killTask reader),
      bothBackends "unpark ends a wait" $ \rt -> withPair rt $ \_ b -> do
        waiter <- forkTask (late >>= readableUntil b)
        waitParked (taskThread waiter)
        unpark b
        joinTask waiter >>= (@?= Unparked),
      bothBackends "unpark before a wait ends it, once" $ \rt -> withPair rt $ \_ b -> do
        unpark b
        unpark b
        far <- late
        readableUntil b far >>= (@?= Unparked)
        near <- soon
        readableUntil b near >>= (@?= Late)
    ]

closing :: TestTree
closing =
  testGroup
    "closing"
    [ bothBackends "closeWhileParkedLosesWakeup" $ \rt -> forM_ [1 .. 20 :: Int] $ \_ ->
        withPair rt $ \_ b -> do
          reader <- forkTask (recvUntil b 10 never)
          waitParked (taskThread reader)
          close b
          joinTask reader >>= (@?= Closed),
      bothBackends "every waiter of a closed connection wakes" $ \rt -> withPair rt $ \a b -> do
        readers <- replicateM 5 (forkTask (recvUntil b 10 never))
        -- More than the kernel takes: after a pause it may have room for a little again, and a writer of that ends.
        writers <- replicateM 5 (forkTask (sendAllUntil a (B.replicate 50000000 120) never))
        mapM_ (waitParked . taskThread) writers
        close a
        close b
        results <- mapM joinTask writers
        -- They take turns, so one of them has begun.
        sort [n > 0 | SendClosed n <- results] @?= [False, False, False, False, True]
        mapM_ joinTask readers,
      bothBackends "every reader learns of the end" $ \rt -> withPair rt $ \a b -> do
        readers <- replicateM 5 (forkTask (recvUntil b 10 never))
        mapM_ (waitParked . taskThread) readers
        close a
        results <- mapM joinTask readers
        results @?= replicate 5 Eof,
      bothBackends "use after close answers Closed" $ \rt -> withPair rt $ \a b -> do
        isOpen a >>= (@?= True)
        close a
        close a
        isOpen a >>= (@?= False)
        recvUntil a 10 never >>= (@?= Closed)
        sendAllUntil a "x" never >>= (@?= SendClosed 0)
        sendVUntil a ["x", "y"] never >>= (@?= SendClosed 0)
        sendAllUntil a "" never >>= (@?= SendClosed 0)
        touchUntil a never
        unpark a
        expectClosed (localAddress a)
        recvUntil b 1 never >>= (@?= Eof),
      bothBackends "closing after cancelling a reader reaches the peer" $ \rt -> withPair rt $ \a b -> do
        -- pollHoldsTheFile: with poll(2), a wait in progress kept the socket open.
        reader <- forkTask (recvUntil a 10 never)
        waitParked (taskThread reader)
        withPair rt $ \_ d -> soon >>= recvUntil d 1 >>= (@?= TimedOut)
        e <- killTask reader
        assertBool "interrupted" (isJust e)
        close a
        far <- late
        recvUntil b 10 far >>= (@?= Eof),
      bothBackends "a reset is an IOError that names the connection" $ \rt -> withPair rt $ \a b -> do
        _ <- sendAllUntil a "unread" never
        far <- late
        _ <- readableUntil b far
        close b
        r <- try (forever (recvUntil a 10 far >>= \case Got _ -> pure (); _ -> throwIO (userError "end")))
        case r of
          Left e | errnoOf e == Just ECONNRESET -> assertBool (show e) ("127.0.0.1" `isIn` show e)
          other -> assertFailure (show (other :: Either IOException ())),
      bothBackends "sending to a gone peer is EPIPE or ECONNRESET" $ \rt -> withPair rt $ \a b -> do
        close b
        far <- late
        r <- try (forever (sendAllUntil a "xxxx" far))
        case r of
          Left e -> assertBool (show e) (errnoOf e `elem` [Just EPIPE, Just ECONNRESET] && "bytes went" `isIn` show e)
          Right () -> assertFailure "sent for ever",
      bothBackends "closing the runtime ends every wait" $ \_ -> do
        forM_ [Epoll, Poll] $ \b -> do
          outcome <- newEmptyMVar
          _ <- withRuntime defaultConfig {configBackend = b} $ \rt -> do
            listener <- newListener rt defaultListenOptions loopback
            Right a <- connectUntil rt (listenerAddress listener) never
            server <- accept listener
            reader <- forkTask (recvUntil server 1 never)
            acceptor <- forkTask (accept listener)
            waitParked (taskThread reader)
            waitParked (taskThread acceptor)
            putMVar outcome (reader, acceptor)
            pure a
          (reader, acceptor) <- takeMVar outcome
          -- Both ends are closed: the peer's may come first.
          joinTask reader >>= \r -> assertBool (show r) (r `elem` [Closed, Eof])
          expectClosed (joinTask acceptor)
    ]

isIn :: String -> String -> Bool
isIn small big = C.pack small `B.isInfixOf` C.pack big

expectClosed :: IO a -> Assertion
expectClosed body =
  try body >>= \case
    Left (IOClosed _) -> pure ()
    Right _ -> assertFailure "expected IOClosed"

addresses :: TestTree
addresses =
  testGroup
    "addresses and connecting"
    [ bothBackends "both ends know both addresses" $ \rt -> withPair rt $ \a b -> do
        localA <- localAddress a
        peerA <- peerAddress a
        localB <- localAddress b
        peerB <- peerAddress b
        assertBool "known" (isJust localA && isJust peerA)
        (localA, peerA) @?= (peerB, localB),
      bothBackends "IPv6" $ \rt -> do
        let address = N.SockAddrInet6 0 0 (0, 0, 0, 1) 0
        r <- try (withListener rt defaultListenOptions address $ \l -> connectUntil rt (listenerAddress l) never >>= mapM_ close)
        case r of
          Left e | errnoOf e `elem` [Just EADDRNOTAVAIL, Just (Errno 97)] -> pure () -- no IPv6 here
          Left e -> throwIO (e :: IOException)
          Right () -> pure (),
      bothBackends "regularFileTakenForAStaleSocket: a file that is not a socket is not removed" $ \rt -> do
        path <- temporaryName
        writeFile path "keep"
        expectIOError EADDRINUSE (newListener rt defaultListenOptions (N.SockAddrUnix path))
        readFile path >>= (@?= "keep")
        removeFile path,
      bothBackends "a Unix socket's file comes and goes" $ \rt -> do
        path <- temporaryName
        withListener rt defaultListenOptions (N.SockAddrUnix path) $ \l -> do
          Right a <- connectUntil rt (N.SockAddrUnix path) never
          b <- accept l
          _ <- sendAllUntil a "unix" never
          recvUntil b 10 never >>= got >>= (@?= "unix")
          peerAddress b >>= (@?= Nothing)
          close a >> close b
        r <- connectUntil rt (N.SockAddrUnix path) never
        failedWith ENOENT r,
      bothBackends "refused" $ \rt -> do
        address <- withLoopback rt (pure . listenerAddress)
        r <- connectUntil rt address never
        failedWith ECONNREFUSED r
        either (assertBool "advice" . isIn "Does a server listen" . displayException) (const (pure ())) r,
      bothBackends "no answer before the deadline" $ \rt ->
        -- A Unix listener whose queue is full never answers.
        do
          path <- temporaryName
          withListener rt defaultListenOptions {listenBacklog = 0} (N.SockAddrUnix path) $ \l -> do
            let connectAll acc = do
                  deadline <- deadlineIn (milliseconds 20)
                  connectUntil rt (N.SockAddrUnix path) deadline >>= \case
                    Right c -> connectAll (c : acc)
                    Left e -> (acc, e) <$ pure ()
            (open, e) <- connectAll []
            e @?= ConnectTimedOut (N.SockAddrUnix path)
            -- With room in the queue, a waiting connect succeeds.
            waiting <- forkTask (late >>= connectUntil rt (N.SockAddrUnix path))
            accepted <- replicateM (length open) (accept l)
            joinTask waiting >>= either (assertFailure . show) close
            mapM_ close (open ++ accepted),
      bothBackends "connecting can be cancelled" $ \rt -> do
        path <- temporaryName
        withListener rt defaultListenOptions {listenBacklog = 0} (N.SockAddrUnix path) $ \_ -> do
          let connectAll acc = do
                deadline <- deadlineIn (milliseconds 20)
                connectUntil rt (N.SockAddrUnix path) deadline >>= either (const (pure acc)) (connectAll . (: acc))
          open <- connectAll []
          waiting <- forkTask (connectUntil rt (N.SockAddrUnix path) never)
          waitParked (taskThread waiting)
          _ <- killTask waiting
          mapM_ close open,
      bothBackends "accepting ends at each acceptor's own deadline" $ \rt -> withLoopback rt $ \l -> do
        -- oneDeadlinePerListener: the later deadline used to overwrite the earlier one.
        far <- late
        patient <- forkTask (acceptUntil l far)
        waitParked (taskThread patient)
        hasty <- replicateM 3 (forkTask (soon >>= acceptUntil l))
        results <- mapM joinTask hasty
        assertBool "timed out" (all (== Nothing) results)
        Right a <- connectUntil rt (listenerAddress l) far
        joinTask patient >>= maybe (assertFailure "nothing accepted") close
        close a,
      bothBackends "acceptors in turn lose nothing when one is cancelled" $ \rt -> withLoopback rt $ \l -> do
        acceptors <- replicateM 4 (forkTask (accept l))
        mapM_ (waitParked . taskThread) acceptors
        mapM_ killTask (take 2 acceptors)
        clients <- replicateM 2 (connectUntil rt (listenerAddress l) never)
        mapM_ (joinTask >=> close) (drop 2 acceptors)
        mapM_ (mapM_ close) clients,
      bothBackends "one port per capability" $ \rt -> do
        n <- getNumCapabilities
        withListener rt defaultListenOptions {listenSpread = PortPerCapability} loopback $ \l -> do
          done <- newMVar (0 :: Int)
          acceptors <- forM [0 .. n - 1] $ \i -> forkOn i $
            handle (\(IOClosed _) -> pure ()) $
              forever $ do
                c <- accept l
                _ <- sendAllUntil c "hi" never
                close c
                modifyMVar_ done (pure . (+ 1))
          replicateM_ 40 $ do
            Right c <- connectUntil rt (listenerAddress l) never
            drain c >>= (@?= "hi")
            close c
          waitUntilTrue ((== 40) <$> readMVar done)
          closeListener l
          length acceptors @?= n
    ]
  where
    failedWith e = \case
      Left (ConnectFailed _ e') -> e' @?= e
      Left other -> assertFailure (show other)
      Right c -> close c >> assertFailure "connected"

temporaryName :: IO FilePath
temporaryName = do
  dir <- getTemporaryDirectory
  (path, h) <- openTempFile dir "heddle"
  hClose h
  path <$ removeFile path

foreignDescriptors :: TestTree
foreignDescriptors =
  testGroup
    "descriptors from outside"
    [ bothBackends "a pipe carries bytes" $ \rt -> do
        (r, w) <- createPipe
        reader <- register rt r
        writer <- register rt w
        far <- late
        waiting <- forkTask (drain reader)
        sendVUntil writer [bytes 100000, "end"] far >>= (@?= Sent)
        close writer
        joinTask waiting >>= (@?= bytes 100000 <> "end")
        close reader,
      bothBackends "deregister gives the descriptor back, open" $ \rt -> withPipe $ \(r, w) -> do
        reader <- register rt r
        waiting <- forkTask (recvUntil reader 10 never)
        waitParked (taskThread waiting)
        deregister reader >>= (@?= Just r)
        joinTask waiting >>= (@?= Closed)
        deregister reader >>= (@?= Nothing)
        close reader
        again <- register rt r
        _ <- fdWrite w "still open"
        recvUntil again 100 never >>= got >>= (@?= "still open")
        deregister again >>= (@?= Just r),
      bothBackends "deregister after close gives nothing" $ \rt -> do
        (x, y) <- N.socketPair N.AF_UNIX N.Stream N.defaultProtocol
        a <- adopt rt x
        close a
        deregister a >>= (@?= Nothing)
        N.close y,
      bothBackends "an accepted connection is not given away" $ \rt -> withPair rt $ \a _ -> deregister a >>= (@?= Nothing),
      bothBackends "a regular file is refused" $ \rt -> do
        path <- temporaryName
        writeFile path "x"
        bracket (openDescriptor path ReadOnly) closeFd $ \fd -> expectIOError EPERM (register rt fd)
        removeFile path,
      bothBackends "a second registration is refused" $ \rt -> withPipe $ \(r, _) -> do
        a <- register rt r
        expectIOError EEXIST (register rt r)
        expectIOError EEXIST (threadWaitRead rt r)
        deregister a >>= (@?= Just r)
        b <- register rt r
        deregister b >>= (@?= Just r),
      bothBackends "a closed number is refused" $ \rt -> expectIOError EBADF (register rt (987654 :: Fd)),
      bothBackends "an adopted socket closes through the network package" $ \rt -> do
        (x, y) <- N.socketPair N.AF_UNIX N.Stream N.defaultProtocol
        a <- adopt rt x
        NB.sendAll y "adopted"
        recvUntil a 100 never >>= got >>= (@?= "adopted")
        close a
        r <- try (NB.recv x 1)
        either (\e -> const (pure ()) (e :: IOException)) (const (assertFailure "the socket is still open")) r
        NB.recv y 1 >>= (@?= "")
        N.close y
    ]

tests :: TestTree
tests = testGroup "Heddle.IO connections" [transfers, deadlines, wakes, closing, addresses, foreignDescriptors]
