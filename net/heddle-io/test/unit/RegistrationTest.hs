{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Servers on the public interface without copies: "Heddle.IO.Registration" and
-- "Heddle.IO.Service".
module RegistrationTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import GHC.Conc (ThreadStatus (..), getUncaughtExceptionHandler, setUncaughtExceptionHandler, threadStatus)
import Harness
import Heddle.File (fileDescriptor, withFileBeneath, withRoot)
import Heddle.IO hiding (close)
import Heddle.IO qualified as IO
import Heddle.IO.Registration
import Heddle.IO.Service
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EPIPE, pattern ETIMEDOUT)
import Heddle.Prim.Socket qualified as S
import Heddle.Timer (TimerClosed (..), monotonicNow, sleepFor)
import Network.Socket qualified as N
import System.Directory (getTemporaryDirectory, removeFile)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests = testGroup "Heddle.IO.Registration" (connections ++ [testGroup "Heddle.IO.Service" services])

-- A connection's two ends, the second one as a registration.
withEnds :: Runtime -> (Conn -> Registration -> IO a) -> IO a
withEnds rt body = withPair rt (\client server -> body client (registrationOf server))

-- Send bytes through a registration.
put :: Registration -> ByteString -> Deadline -> IO Int
put registration bytes deadline = unsafeUseAsCStringLen bytes $ \(p, n) -> sendUntil registration (castPtr p) n deadline

-- Receive into a borrowed buffer: the answer, and a copy of the bytes.
take' :: Registration -> Int -> Deadline -> IO (Int, ByteString)
take' registration most deadline = do
  buffer <- borrowBuffer registration
  answer <- withBuffer buffer $ \p -> do
    n <- receiveUntil registration p (min most (bufferSize buffer)) deadline
    (,) n <$> B.packCStringLen (castPtr p, max 0 n)
  answer <$ giveBackBuffer registration buffer

-- How many interruptions of handlers reach the program's handler of uncaught exceptions.
interruptsUncaught :: IO () -> IO Int
interruptsUncaught body = do
  count <- newIORef 0
  before <- getUncaughtExceptionHandler
  setUncaughtExceptionHandler (\e -> if fromException e == Just HandlerInterrupted then atomicModifyIORef' count (\n -> (n + 1, ())) else before e)
  body `finally` setUncaughtExceptionHandler before
  readIORef count

readExactly :: Conn -> Int -> IO ByteString
readExactly conn total = B.concat <$> go total
  where
    go 0 = pure []
    go n = late >>= recvUntil conn n >>= got >>= \b -> (b :) <$> go (n - B.length b)

readToEnd :: Conn -> IO ByteString
readToEnd conn = B.concat <$> go
  where
    go =
      late >>= recvUntil conn 65536 >>= \case
        Got b -> (b :) <$> go
        Eof -> pure []
        other -> assertFailure (show other)

minus :: Errno -> Int
minus = negate . errnoNumber

connections :: [TestTree]
connections =
  [ bothBackends "bytes go both ways through a borrowed buffer" $ \rt -> withEnds rt $ \client server -> do
      d <- late
      sendAllUntil client "ping" d >>= (@?= Sent)
      take' server 100 d >>= (@?= (4, "ping"))
      put server "pong" d >>= (@?= 4)
      readExactly client 4 >>= (@?= "pong"),
    bothBackends "receiving now answers EAGAIN when there is nothing, and 0 at the end" $ \rt -> withEnds rt $ \client server ->
      allocaBytes 16 $ \p -> mask_ $ do
        receiveNow server p 16 >>= (@?= minus EAGAIN)
        IO.close client
        d <- late
        waitUntil server Readable d
        receiveNow server p 16 >>= (@?= 0),
    bothBackends "a wait ends at its deadline" $ \rt -> withEnds rt $ \_ server -> do
      d <- soon
      take' server 100 d >>= (@?= TimedOutCode) . fst
      deadlineOver server d >>= assertBool "over"
      fresh <- freshNow server
      now <- deadlineIn mempty
      assertBool "a fresh time is not the future" (fresh <= now),
    bothBackends "a deadline can be set before the wait" $ \rt -> withEnds rt $ \_ server -> allocaBytes 16 $ \p -> mask_ $ do
      receiveNow server p 16 >>= (@?= minus EAGAIN)
      d <- soon
      armUntil server Readable d
      waitUntil server Readable never
      receiveNow server p 16 >>= (@?= minus EAGAIN),
    bothBackends "closing from another thread ends a receive and a send" $ \rt -> withEnds rt $ \_ server -> do
      reader <- forkTask (fst <$> take' server 100 never)
      writer <- forkTask (forever (put server (B.replicate 1000000 120) never >>= \r -> when (r < 0) (throwIO (ErrorCall (show r)))))
      waitParked (taskThread reader)
      waitParked (taskThread writer)
      closeRegistration server >>= assertBool "closed here"
      closeRegistration server >>= assertBool "closed before" . not
      isClosing server >>= assertBool "closing"
      joinTask reader >>= (@?= ClosedCode)
      try (joinTask writer) >>= (@?= (Left (ErrorCall (show ClosedCode)) :: Either ErrorCall ()))
      put server "x" never >>= (@?= ClosedCode)
      using server (\_ -> assertFailure "a call on a closed descriptor") >>= (@?= ClosedCode),
    bothBackends "gathering sends every piece in order, over full sockets, too" $ \rt -> withEnds rt $ \client server -> do
      d <- late
      let pieces = [B.replicate (k * 7919 `mod` 30000) (fromIntegral k) | k <- [0 .. 299]]
      reader <- forkTask (readExactly client (B.length (B.concat pieces)))
      sent <- gather server pieces d
      sent @?= B.length (B.concat pieces)
      joinTask reader >>= \b -> assertBool "the same bytes" (b == B.concat pieces)
      gather server [] d >>= (@?= 0)
      near <- soon
      gather server (replicate 100 (B.replicate 100000 1)) near >>= (@?= TimedOutCode),
    bothBackends "a head goes before a file" $ \rt -> withEnds rt $ \client server -> withSample (C.replicate 3000000 'f') $ \directory name ->
      withRoot directory $ \root -> withFileBeneath root name $ \file -> do
        d <- late
        reader <- forkTask (readToEnd client)
        unsafeUseAsCStringLen "head" $ \(p, n) -> sendMoreUntil server (castPtr p) n d >>= (@?= 4)
        progress <- newIORef []
        let deadline done = d <$ modifyIORef progress (done :)
        sendFilePaced server (fileDescriptor file) 1 2999999 deadline >>= (@?= 2999999)
        -- Past the end: short.
        sendFilePaced server (fileDescriptor file) 2999990 100 deadline >>= (@?= 10)
        endSending server >>= (@?= 0)
        joinTask reader >>= (@?= "head" <> C.replicate 3000009 'f')
        asked <- readIORef progress
        assertBool "a deadline for each piece, from the first byte on" (0 `elem` asked && length asked >= 3),
    bothBackends "after the end of sending the peer may go on" $ \rt -> withEnds rt $ \client server -> do
      d <- late
      endSending server >>= (@?= 0)
      readToEnd client >>= (@?= "")
      sendAllUntil client "late" d >>= (@?= Sent)
      take' server 10 d >>= (@?= (4, "late"))
      put server "x" d >>= (@?= minus EPIPE),
    bothBackends "any system call can be tried until a deadline" $ \rt -> withEnds rt $ \client server -> allocaBytes 8 $ \p -> do
      near <- soon
      attempt server Readable near (\fd -> S.recv fd p 8) >>= (@?= TimedOutCode)
      d <- late
      sendAllUntil client "x" d >>= (@?= Sent)
      attempt server Readable d (\fd -> S.recv fd p 8) >>= (@?= 1),
    bothBackends "a pause ends at its deadline, or when the connection is closed" $ \rt -> withEnds rt $ \client server -> do
      d <- late
      sendAllUntil client "not what is waited for" d >>= (@?= Sent)
      near <- soon
      pauseUntil server near
      deadlineOver server near >>= assertBool "not before"
      sleeper <- forkTask (pauseUntil server d)
      waitParked (taskThread sleeper)
      _ <- closeRegistration server
      joinTask sleeper,
    bothBackends "a hang-up is seen, and can be forgotten" $ \rt -> withEnds rt $ \client server -> do
      hungUp server >>= assertBool "still there" . not
      reader <- forkTask (fst <$> take' server 10 never)
      waitParked (taskThread reader)
      IO.close client
      joinTask reader >>= (@?= 0)
      hungUp server >>= assertBool "gone"
      -- The end of one direction and the hang-up may be two events.
      waitUntilTrue (forgetHangUp server >> not <$> hungUp server),
    bothBackends "a registration is a connection again" $ \rt -> withEnds rt $ \client server -> do
      d <- late
      sendAllUntil (connectionOf server) "typed" d >>= (@?= Sent)
      readExactly client 5 >>= (@?= "typed")
      peerAddress (connectionOf server) >>= assertBool "it has a peer" . (/= Nothing)
      assertBool "and the peer's bytes" (registrationPeer server /= mempty)
      assertBool "a capability of the runtime" (registrationCapability server `elem` [0 .. capabilitiesOf rt - 1]),
    testIn "codes become exceptions" $ do
      expectIOError ETIMEDOUT (throwCode "test" TimedOutCode :: IO ())
      expectIOError EPIPE (throwCode "test" (minus EPIPE) :: IO ())
      try (throwCode "test" ClosedCode) >>= \case
        Left e -> displayException (e :: IOClosed) @?= "test: the connection is closed"
        Right () -> assertFailure "expected IOClosed",
    testIn "HeddleIOException catches each of the package's exceptions" $ do
      rooted NotThreaded
      rooted (IOClosed "test")
      rooted TimerClosed
      rooted (ConnectTimedOut (N.SockAddrInet 80 0))
  ]

-- By the root and by its own type, with the same text.
rooted :: Exception e => e -> Assertion
rooted e = do
  byRoot <- try (throwIO e)
  either (\root -> displayException (root :: HeddleIOException)) id byRoot @?= displayException e
  byType <- try (throwIO e)
  either (\own -> displayException (own `asTypeOf` e)) id byType @?= displayException e

gather :: Registration -> [ByteString] -> Deadline -> IO Int
gather registration strings deadline = allocaBytes (pieceBytes * max 1 (length strings)) $ \vector -> fill vector 0 strings
  where
    fill vector count [] = sendVectorUntil registration vector count deadline
    fill vector count (b : rest) = unsafeUseAsCStringLen b $ \(p, n) -> pokePiece vector count (castPtr p) n >> fill vector (count + 1) rest

withSample :: ByteString -> (ByteString -> ByteString -> IO a) -> IO a
withSample content body = do
  directory <- getTemporaryDirectory
  thread <- myThreadId
  let name = "heddle-registration-" ++ filter (`elem` ['0' .. '9']) (show thread)
      path = directory ++ "/" ++ name
  bracket_ (B.writeFile path content) (removeFile path) (body (C.pack directory) (C.pack name))

-- Services ----------------------------------------------------------------------

-- Echo what there is, then idle: no thread, no buffer.
echoOnce :: Registration -> IO After
echoOnce registration = do
  buffer <- borrowBuffer registration
  next <- withBuffer buffer (go (bufferSize buffer))
  giveBackBuffer registration buffer
  pure next
  where
    go :: Int -> Ptr Word8 -> IO After
    go room p = do
      n <- receiveNow registration p room
      case () of
        _
          | n > 0 -> do
            d <- late
            sent <- sendUntil registration p n d
            if sent < n then pure Done else markActive registration >> go room p
          | n == minus EAGAIN -> do
            limit <- idleDeadline registration
            over <- deadlineOver registration limit
            if over then pure Done else IdleUntil <$> late
          | otherwise -> pure Done

quiet :: ServiceOptions
quiet = defaultServiceOptions {serviceName = "test/service", serviceFirstByte = seconds 50, serviceFailed = \_ -> pure ()}

dial :: Runtime -> Listener -> IO Conn
dial rt listener = connectUntil rt (listenerAddress listener) never >>= either throwIO pure

ask :: Conn -> ByteString -> Assertion
ask conn text = do
  d <- late
  sendAllUntil conn text d >>= (@?= Sent)
  readExactly conn (B.length text) >>= (@?= text)

-- A handler, and a wait until each thread that ran it has ended or parks. Its client hears the answer before the handler has noted
-- that the connection is active, and before the connection is idle.
settling :: (Registration -> IO After) -> IO (Registration -> IO After, IO ())
settling handler = do
  threads <- newMVar []
  pure
    ( \registration -> do
        t <- myThreadId
        modifyMVar_ threads (pure . (t :))
        handler registration,
      readMVar threads >>= mapM_ waitSettled
    )

-- Drain it, and check that it is empty.
drained :: Service -> Assertion
drained service = do
  stopAccepting service
  resumeIdle service
  d <- late
  awaitDrainedUntil service d >>= assertBool "drained"
  openConnections service >>= (@?= 0)
  endService service

services :: [TestTree]
services =
  [ bothBackends "an echo server without a thread per idle connection" $ \rt -> withLoopback rt $ \listener -> do
      service <- startService quiet listener echoOnce
      clients <- replicateM 20 (dial rt listener)
      forM_ ["one", "two", B.replicate 100000 7] $ \text -> forM_ clients (`ask` text)
      openConnections service >>= (@?= 20)
      mapM_ IO.close clients
      drained service,
    bothBackends "a connection detaches and goes on in another thread" $ \rt -> withLoopback rt $ \listener -> do
      threads <- newMVar []
      let handler registration = do
            t <- myThreadId
            modifyMVar_ threads (pure . (t :))
            -- Not marked as active: it gives its thread up at once.
            buffer <- borrowBuffer registration
            n <- withBuffer buffer $ \p -> do
              n <- receiveNow registration p (bufferSize buffer)
              n <$ when (n > 0) (void (sendUntil registration p n never))
            giveBackBuffer registration buffer
            if n > 0 || n == minus EAGAIN then IdleUntil <$> late else pure Done
      service <- startService quiet listener handler
      c <- dial rt listener
      -- A thread that is late would go on with the next question.
      forM_ ["a", "b", "c"] $ \text -> do
        ask c text
        waitUntilTrue (readMVar threads >>= fmap (all (`elem` [ThreadFinished, ThreadDied])) . mapM threadStatus)
      IO.close c
      drained service
      seen <- readMVar threads
      let different = length (foldr (\t rest -> if t `elem` rest then rest else t : rest) [] seen)
      assertBool ("threads: " ++ show different) (different >= 3),
    bothBackends "a silent connection is handled at its first byte's deadline" $ \rt -> withLoopback rt $ \listener -> do
      service <- startService quiet {serviceFirstByte = milliseconds 30} listener echoOnce
      c <- dial rt listener
      readToEnd c >>= (@?= "")
      IO.close c
      drained service,
    bothBackends "handlers run masked, and are interrupted only where they wait" $ \rt -> withLoopback rt $ \listener -> do
      state <- newEmptyMVar
      service <- startService quiet {serviceFirstByte = milliseconds 0} listener (\_ -> Done <$ (getMaskingState >>= putMVar state))
      c <- dial rt listener
      takeMVar state >>= (@?= MaskedInterruptible)
      IO.close c
      drained service,
    bothBackends "a handler that throws closes its connection, and is reported" $ \rt -> withLoopback rt $ \listener -> do
      heard <- newEmptyMVar
      service <- startService quiet {serviceFailed = putMVar heard} listener (\_ -> throwIO (userError "handler"))
      c <- dial rt listener
      _ <- sendAllUntil c "x" never
      takeMVar heard >>= \e -> fromException e @?= Just (userError "handler")
      IO.close c
      drained service,
    bothBackends "connections are cut at once" $ \rt -> withLoopback rt $ \listener -> do
      service <- startService quiet listener echoOnce
      c <- dial rt listener
      ask c "x"
      stopAccepting service
      closeConnections service
      readToEnd c >>= (@?= "")
      IO.close c
      d <- late
      awaitDrainedUntil service d >>= assertBool "drained"
      endService service,
    bothBackends "interruptsReachedWhatFollowsAHandler: it ends silently, and is counted down" $ \rt -> replicateM_ 10 $
      withLoopback rt $ \listener -> do
        following <- newEmptyMVar
        open <- newEmptyMVar
        handling <- newEmptyMVar
        -- The closed connection ends the handler; the interruption comes while its failure is reported, if it was not told before that.
        service <- startService quiet {serviceFailed = \_ -> putMVar following () >> readMVar open} listener $ \registration -> do
          _ <- take' registration 1 never
          myThreadId >>= putMVar handling
          _ <- uninterruptibleMask_ (take' registration 1 never)
          throwIO (userError "closed")
        c <- dial rt listener
        noted <- interruptsUncaught $ do
          _ <- sendAllUntil c "x" never
          thread <- takeMVar handling
          stopAccepting service
          closeConnections service
          takeMVar following
          d <- late
          awaitDrainedUntil service d >>= assertBool "drained"
          putMVar open ()
          waitUntilTrue ((`elem` [ThreadFinished, ThreadDied]) <$> threadStatus thread)
        IO.close c
        endService service
        noted @?= 0,
    bothBackends "draining ends at its deadline while a connection is open" $ \rt -> withLoopback rt $ \listener -> do
      service <- startService quiet listener echoOnce
      c <- dial rt listener
      ask c "x"
      stopAccepting service
      d <- soon
      awaitDrainedUntil service d >>= assertBool "not drained" . not
      IO.close c
      drained service,
    bothBackends "services share a limit, and the connection idle longest makes room" $ \rt -> withLoopback rt $ \one -> withLoopback rt $ \two -> do
      shortage <- newEmptyMVar
      (handler, settled) <- settling echoOnce
      running <- startServices quiet {serviceLimit = Just 2, serviceCrowded = putMVar shortage} [one, two] handler
      a <- dial rt one
      ask a "first"
      settled
      b <- dial rt two
      ask b "second"
      settled
      c <- dial rt two
      ask c "third"
      takeMVar shortage >>= (@?= AtLimit 2)
      assertBool "it is described" ("all 2" `isIn` describeShortage (AtLimit 2))
      readToEnd a >>= (@?= "")
      ask b "still there"
      mapM_ IO.close [a, b, c]
      mapM_ drained running,
    -- Its client's first bytes were late, as on a busy machine, and it was accepted before the other was last useful.
    bothBackends "aSilentNewConnectionWasClosedBeforeAnIdleOne" $ \rt -> withLoopback rt $ \listener -> do
      answered <- newMVar (0 :: Int)
      (handler, settled) <- settling $ \registration ->
        echoOnce registration <* (everActive registration >>= \active -> modifyMVar_ answered (pure . (+ fromEnum active)))
      let inTime service = do
            limit <- deadlineIn (milliseconds 900)
            silent <- dial rt listener
            idle <- dial rt listener
            before <- readMVar answered
            ask idle "useful"
            waitUntilTrue ((> before) <$> readMVar answered)
            settled
            -- Longer than a new connection's 10 ms. Its credit is a second; a machine so slow that this takes longer tries again.
            sleepFor (milliseconds 50)
            newest <- dial rt listener
            ask newest "room"
            now <- monotonicNow
            if now > limit
              then mapM_ IO.close [silent, idle, newest] >> waitUntilTrue ((== 0) <$> openConnections service) >> inTime service
              else do
                readToEnd idle >>= (@?= "")
                ask silent "late"
                mapM_ IO.close [silent, idle, newest]
      service <- startService quiet {serviceLimit = Just 2, serviceCrowded = \_ -> pure ()} listener handler
      inTime service
      drained service,
    -- It was not called if its thread was still waiting, so what it knew of the connection stayed.
    bothBackends "evictedWhileItKeptItsThreadWasNotHandledAgain" $ \rt -> withLoopback rt $ \listener -> do
      closings <- newMVar (0 :: Int)
      let handler registration = do
            closing <- isClosing registration
            if closing then Done <$ modifyMVar_ closings (pure . (+ 1)) else echoOnce registration
      (handler', settled) <- settling handler
      service <- startService quiet {serviceLimit = Just 1, serviceCrowded = \_ -> pure ()} listener handler'
      a <- dial rt listener
      -- Useful twice within a second: it keeps its thread.
      mapM_ (ask a) ["1", "2", "3"]
      settled
      b <- dial rt listener
      ask b "room"
      waitUntilTrue ((== 1) <$> readMVar closings)
      mapM_ IO.close [a, b]
      drained service
  ]
  where
    isIn part whole = C.pack part `B.isInfixOf` C.pack whole
