{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.Program
-- Description : Programs that are started for one request
-- Stability   : stable
--
-- A program is started by posix_spawn in a safe call, so neither a capability nor the size of the server matters. Its
-- pipes are non-blocking descriptors of the event manager, and so is its end, by a pidfd: there is no SIGCHLD and no
-- thread of the system that waits. It is the leader of a process group, which is signalled as a whole.
--
-- A thread of its own supervises each program: it passes standard error on, line by line, ends the program at its
-- deadline, and reaps it. So the answer's reader never waits for the program's end.
--
-- Invariant: every program that was started is reaped once, and its number is signalled only before.
-- Cost: 0.5 to 1 ms for the system to start a program; a dozen system calls.
-- Owner: the supervising thread @gateway\/program\/N@; the handler's thread has the pipes of input and output.
module Heddle.Gateway.Program
  ( Launch (..),
    Program,
    startProgram,
    programInput,
    programOutput,
    endProgram,
    feedInput,
    receiveOutput,
    closeInput,
    closeProgram,
    hasEnded,
    describeEnd,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Int (Int32)
import Data.Maybe (catMaybes)
import Data.Word (Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Array (allocaArray, peekArray, withArray0)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Heddle.Gateway.Failure
import Heddle.Gateway.Relay (Output (..))
import Heddle.IO (Conn, Runtime, deregister, register)
import Heddle.IO.Registration
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile)
import Heddle.Prim.Lock
import Heddle.Prim.Thread (forkMaskedOn, labelMe, myCapability)
import System.Posix.Types (Fd (..))

-- | What to start.
data Launch = Launch
  { -- | The program's file.
    launchPath :: !ByteString,
    -- | Its arguments, its own name first.
    launchArguments :: ![ByteString],
    -- | @NAME=value@.
    launchEnvironment :: ![ByteString],
    -- | Where it runs.
    launchDirectory :: !ByteString,
    -- | Whether its standard input is a pipe; otherwise there is nothing in it.
    launchReads :: !Bool,
    -- | When its group is told to end.
    launchUntil :: !Deadline,
    -- | How long after that it is killed.
    launchGrace :: !Nanos,
    -- | Hears of each line on standard error, without its newline.
    launchErrors :: !(ByteString -> IO ()),
    -- | Runs once when the program has been reaped; see 'describeEnd'.
    launchEnded :: !(Int -> IO ())
  }

-- | A program that was started.
data Program = Program
  { -- | The pipe to its standard input, if it has one.
    programInput :: !(Maybe Conn),
    -- | The pipe from its standard output.
    programOutput :: !Conn,
    programErrors :: !Conn,
    programEnd :: !Conn,
    programNumber :: !CInt,
    programPidfd :: !CInt,
    -- | 'launchUntil'.
    programUntil :: !Deadline,
    -- | Held to signal and to reap.
    programLock :: !Lock,
    programWords :: !Words
  }

-- When the supervisor acts next, and what it has done.
pattern WordUntil, WordStage, WordTold, WordCode :: Int
pattern WordUntil = 0
-- Runs (0) -> Asked (1: SIGTERM was sent) -> Killed (2: SIGKILL was sent) -> Reaped (3).
pattern WordStage = 1
-- 1: the deadline has changed.
pattern WordTold = 2
-- How it ended, once reaped.
pattern WordCode = 3

pattern Runs, Asked, Killed, Reaped :: Int
pattern Runs = 0
pattern Asked = 1
pattern Killed = 2
pattern Reaped = 3

-- | Start a program, and the thread that supervises it. The caller closes it by 'closeProgram'.
--
-- [Blocks]: holds an OS thread until the program has been loaded.
-- [Masking]: the caller is masked.
-- [Throws]: 'IOError' when the runtime has stopped.
startProgram :: Runtime -> Launch -> IO (Either Errno Program)
startProgram runtime launch =
  B.useAsCString (launchPath launch) $ \path ->
    B.useAsCString (launchDirectory launch) $ \directory ->
      withStrings (launchArguments launch) $ \arguments ->
        withStrings (launchEnvironment launch) $ \environment ->
          allocaArray 5 $ \out -> do
            r <- c_spawn path arguments environment directory (if launchReads launch then 1 else 0) out
            if r < 0
              then pure (Left (Errno (negate (fromIntegral r))))
              else do
                found <- peekArray 5 out
                Right <$> supervised runtime launch found

-- Register what there is, and fork the supervisor. What cannot be registered, as when the runtime has stopped, is closed,
-- and the program is killed.
supervised :: Runtime -> Launch -> [Int32] -> IO Program
supervised runtime launch found = uninterruptibleMask_ $ do
  words' <- newWords 24
  lock <- newLock
  writeWord words' WordUntil (deadlineNanos (launchUntil launch))
  conns <- registerAll descriptors []
  case conns of
    [Just end, input, Just output, Just errors] -> do
      let program = Program input output errors end number pidfd (launchUntil launch) lock words'
      capability <- myCapability
      _ <- forkMaskedOn capability $ \_ -> do
        labelMe ("gateway/program/" ++ show capability)
        supervise launch program
      pure program
    _ -> bug "a program without its pipes"
  where
    number = fromIntegral (head found)
    descriptors = map fromIntegral (drop 1 found) :: [CInt]
    pidfd = head descriptors
    -- Finite: the lock of registering is held for some system calls.
    registerAll [] done = pure (reverse done)
    registerAll (fd : others) done
      | fd < 0 = registerAll others (Nothing : done)
      | otherwise = do
        conn <- register runtime (Fd fd) `onException` undo (fd : others) done
        registerAll others (Just conn : done)
    undo left done = do
      _ <- c_signal number 9
      _ <- c_reap pidfd
      for_ left (\fd -> when (fd >= 0) (void (closeFile (Fd fd))))
      for_ (catMaybes done) closeConn

withStrings :: [ByteString] -> (Ptr CString -> IO a) -> IO a
withStrings strings use = go strings []
  where
    go [] done = withArray0 nullPtr (reverse done) use
    go (s : rest) done = B.useAsCString s (\p -> go rest (p : done))

-- Until the program has been reaped. It runs masked and nobody interrupts it.
supervise :: Launch -> Program -> IO ()
supervise launch program = do
  -- Only the runtime's end throws here; the program is reaped all the same.
  hear B.empty `catchSync` \_ -> pure ()
  code <- ending
  wakeReader (registrationOf (programOutput program))
  closeConn (programErrors program)
  closeConn (programEnd program)
  launchEnded launch code `catchSync` reportUncaught
  where
    -- When a line cannot be told, the next ones are read all the same: the program would wait for room in the pipe.
    sayLine line = launchErrors launch line `catchSync` reportUncaught
    errors = registrationOf (programErrors program)
    end = registrationOf (programEnd program)
    ws = programWords program
    untilNow = Deadline <$> atomicRead ws WordUntil
    -- One attempt that also ends when the deadline has been changed.
    attending registration call = do
      deadline <- untilNow
      attempt registration Readable deadline $ \fd -> do
        r <- call fd
        if Errno (negate r) == EAGAIN
          then do
            told <- atomicRead ws WordTold
            pure (if told == 1 then ToldCode else r)
          else pure r
    again code continue
      | code == ToldCode = atomicWrite ws WordTold 0 >> continue
      | otherwise = escalate >> continue
    hear partial = do
      buffer <- borrowBuffer errors
      (n, bytes) <- withBuffer buffer $ \p -> do
        n <- attending errors (\fd -> pipeRead fd p (bufferSize buffer))
        bytes <- if n > 0 then B.packCStringLen (castPtr p, n) else pure B.empty
        pure (n, bytes)
      giveBackBuffer errors buffer
      case () of
        _
          | n > 0 -> sayLines (partial <> bytes) >>= hear
          | n == ToldCode || n == TimedOutCode -> do
            stage <- atomicRead ws WordStage
            -- A process outside of the group may hold the pipe for ever.
            unless (n == TimedOutCode && stage == Killed) (again n (hear partial))
          | otherwise -> unless (B.null partial) (sayLine partial)
    ending = do
      r <- attending end (const (fromIntegral <$> c_ended (programPidfd program)))
      if r == ToldCode || r == TimedOutCode
        then again r ending
        else do
          -- If the runtime has stopped nobody waits any more, nor shall the program be left behind.
          when (r < 0) (signal program Killed 9)
          withLock (programLock program) $ do
            code <- fromIntegral <$> (if r < 0 then c_reap else c_reapEnded) (programPidfd program)
            atomicWrite ws WordCode code
            atomicWrite ws WordStage Reaped
            pure code
    escalate = do
      stage <- atomicRead ws WordStage
      now <- monotonicNow
      if stage == Runs
        then signal program Asked 15 >> setUntil (after (launchGrace launch) now)
        else signal program Killed 9 >> setUntil (after (seconds 5) now)
    setUntil (Deadline d) = atomicWrite ws WordUntil d
    sayLines bytes = case C.elemIndex '\n' bytes of
      Just i -> do
        sayLine (B.take i bytes)
        sayLines (B.drop (i + 1) bytes)
      Nothing
        | B.length bytes >= longestLine -> B.empty <$ sayLine bytes
        | otherwise -> pure bytes

-- A line of standard error that is longer comes in pieces.
longestLine :: Int
longestLine = 4096

pattern ToldCode :: Int
pattern ToldCode = -100101

-- Signal the group, and note the stage, unless the program has been reaped. Finite: the lock is held for a system call that
-- does not wait, or to reap a process that has ended.
signal :: Program -> Int -> CInt -> IO ()
signal program stage number = uninterruptibleMask_ . withLock (programLock program) $ do
  now <- atomicRead (programWords program) WordStage
  when (now < Reaped) $ do
    atomicWrite (programWords program) WordStage (max now stage)
    void (c_signal (programNumber program) number)

-- | Tell the program's group to end, by SIGTERM, and after the grace by SIGKILL; its pipes end at once. Idempotent.
--
-- [Cost]: one system call.
-- [Blocks]: parks while the supervisor reaps.
-- [Threads]: any.
endProgram :: Nanos -> Program -> IO ()
endProgram grace program = do
  stage <- atomicRead ws WordStage
  when (stage == Runs) $ do
    signal program Asked 15
    Deadline d <- deadlineIn grace
    atomicWrite ws WordUntil d
    atomicWrite ws WordTold 1
    wakeReader (registrationOf (programErrors program))
    wakeReader (registrationOf (programEnd program))
  closeProgram program
  where
    ws = programWords program

-- | Close the pipes of input and output. The program is not told otherwise. Idempotent.
--
-- [Blocks]: never.
-- [Threads]: any.
closeProgram :: Program -> IO ()
closeProgram program = closeInput program >> closeConn (programOutput program)

-- | The program's standard input ends. Idempotent.
closeInput :: Program -> IO ()
closeInput program = for_ (programInput program) closeConn

-- 'close' closes in a safe call, since it does not know what it closes; a pipe and a pidfd are closed at once, and handing the
-- capability over twice would cost more.
closeConn :: Conn -> IO ()
closeConn conn = uninterruptibleMask_ (deregister conn >>= mapM_ (\(Fd fd) -> c_close fd))

-- | Write to the program's standard input: 'False' if it has been closed by either side.
--
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
feedInput :: Program -> ByteString -> IO Bool
feedInput program bytes = case programInput program of
  Nothing -> pure False
  Just conn -> unsafeUseAsCStringLen bytes $ \(p, n) -> go (registrationOf conn) (castPtr p) n
  where
    go :: Registration -> Ptr Word8 -> Int -> IO Bool
    go registration p n
      | n <= 0 = pure True
      | otherwise = do
        r <- attempt registration Writable never (\fd -> pipeWrite fd p n)
        if r < 0 then pure False else go registration (p `plusPtr` r) (n - r)

-- | The next output. A program that was ended by a signal has not finished; whether it was is known when it has been
-- reaped, for which this waits after the end of the output: a moment if the program lives on, 10 s at most if it has ended.
--
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
receiveOutput :: Program -> Deadline -> IO Output
receiveOutput program deadline = do
  buffer <- borrowBuffer registration
  (n, bytes) <- withBuffer buffer $ \p -> do
    n <- attempt registration Readable deadline (\fd -> pipeRead fd p (bufferSize buffer))
    bytes <- if n > 0 then B.packCStringLen (castPtr p, n) else pure B.empty
    pure (n, bytes)
  giveBackBuffer registration buffer
  case () of
    _
      | n > 0 -> pure (Output bytes)
      | n == 0 -> ended
      | n == TimedOutCode -> pure Silent
      | otherwise -> pure (Failed EndedEarly)
  where
    registration = registrationOf (programOutput program)
    ws = programWords program
    awaitReaped longest = do
      until' <- deadlineIn longest
      void . attempt registration Readable until' $ \_ -> do
        stage <- atomicRead ws WordStage
        pure (if stage == Reaped then 1 else negate (errnoNumber EAGAIN))
    -- Its descriptor is valid until it has been reaped.
    exited = do
      stage <- atomicRead ws WordStage
      if stage == Reaped then pure True else (== 1) <$> c_ended (programPidfd program)
    ended = do
      awaitReaped (milliseconds 200)
      -- If not by now, it may live on without its output; or it has ended, and the thread that reaps it is late.
      gone <- withLock (programLock program) exited
      when gone (awaitReaped (seconds 10))
      stage <- atomicRead ws WordStage
      code <- atomicRead ws WordCode
      late <- (>= programUntil program) <$> monotonicNow
      pure $ case () of
        _
          | stage < Reaped || code < 256 -> Finished
          | late -> Failed TooLate
          | otherwise -> Failed EndedEarly

-- | Whether the program has been reaped.
--
-- [Cost]: one read.
hasEnded :: Program -> IO Bool
hasEnded program = (== Reaped) <$> atomicRead (programWords program) WordStage

-- | How a program ended; 'Nothing' if as it should.
--
-- [Cost]: the text.
describeEnd :: Int -> Maybe String
describeEnd code
  | code == 0 = Nothing
  | code >= 256 = Just ("was ended by signal " ++ show (code - 256))
  | otherwise = Just ("exited with code " ++ show code)

pipeRead :: Fd -> Ptr Word8 -> Int -> IO Int
pipeRead (Fd fd) p n = fromIntegral <$> c_read fd p (fromIntegral n)

pipeWrite :: Fd -> Ptr Word8 -> Int -> IO Int
pipeWrite (Fd fd) p n = fromIntegral <$> c_write fd p (fromIntegral n)

-- Safe: it waits until the program has been loaded from the disk.
foreign import ccall safe "heddle_spawn" c_spawn :: CString -> Ptr CString -> Ptr CString -> CString -> CInt -> Ptr Int32 -> IO CLong

-- Cannot sleep: WNOHANG.
foreign import ccall unsafe "heddle_ended" c_ended :: CInt -> IO CLong

-- Cannot sleep: the program has ended.
foreign import ccall unsafe "heddle_reap" c_reapEnded :: CInt -> IO CLong

-- Safe: a program that was killed only now may take a moment.
foreign import ccall safe "heddle_reap" c_reap :: CInt -> IO CLong

-- Cannot sleep: kill(2) only marks processes.
foreign import ccall unsafe "heddle_signal_group" c_signal :: CInt -> CInt -> IO CLong

-- Cannot sleep: nothing is written back to a pipe or a pidfd.
foreign import ccall unsafe "close" c_close :: CInt -> IO CInt

-- Cannot sleep: the pipe is non-blocking.
foreign import ccall unsafe "heddle_pipe_read" c_read :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Cannot sleep: the pipe is non-blocking.
foreign import ccall unsafe "heddle_pipe_write" c_write :: CInt -> Ptr Word8 -> CSize -> IO CLong
