-- |
-- Module      : Heddle.Filter.Internal.Apart
-- Description : Stages on threads of their own, and commands
-- Stability   : internal, exempt from the version policy
--
-- What is behind ':||' runs on a thread of its own, fed through a bounded ring of pieces, in
-- order. A command in the middle of a pipeline has a thread that reads what comes out of it,
-- and runs what is downstream.
--
-- A stage that fails on its own thread stops the run: its exception reaches the thread that
-- runs the machine, wherever that waits.
--
-- Cost: a few microseconds for each batch of pieces that goes to another thread.
-- Owner: the run's scope, which ends threads and processes.
module Heddle.Filter.Internal.Apart
  ( apart,
    streamCommand,
    wholeCommand,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Output
import Heddle.Filter.Internal.Print (quoted)
import Heddle.Filter.Internal.Ring
import Heddle.Pipe (StageFailed (..))
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile)
import Heddle.Prim.Thread (forkMasked, labelMe)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose, hSetBinaryMode)
import System.Posix.IO (FdOption (..), handleToFd, setFdOption)
import System.Posix.Signals (sigKILL, signalProcess)
import System.Process hiding (env)
import System.Timeout (timeout)

-- | How many bytes go to another thread at once, as far as there are so many.
batchBytes :: Int
batchBytes = 65536

-- | Run what is downstream, which was made with the first, on a thread of its own. The second
-- is for what is upstream.
--
-- [Throws]: when the run is over, what the thread threw.
apart :: Env -> Env -> Sink -> IO Sink
apart below env to = do
  ring <- newRing 8
  let loop =
        takeItem ring >>= \case
          Nothing -> finish to
          Just batch -> do
            wanted <- pushAll batch
            if wanted then turn below else noMore ring
            loop
      pushAll = \case
        [] -> pure True
        piece : pieces -> push to piece >>= \ok -> if ok then pushAll pieces else pure False
  worker <- startWorker env (envBorder below) "filter/stage" (loop `onException` noMore ring)
  batch <- newRef []
  size <- newRef (0 :: Int)
  wanting <- newRef True
  let flush = do
        pieces <- readRef batch
        unless (null pieces) $ do
          writeRef batch []
          writeRef size 0
          putItem ring (reverse pieces) >>= writeRef wanting
      take' piece = do
        modifyRef batch (\pieces -> (piece : pieces, ()))
        n <- (+ Bytes.length piece) <$> readRef size
        writeRef size n
        when (n >= batchBytes) flush
        readRef wanting
  onTurn env flush
  pure $
    Sink take' $ do
      flush
      closeRing ring
      joinWorker worker
      failureSoFar env

-- Commands -------------------------------------------------------------------

-- | A shell command in the middle of a pipeline: what it gives is passed on as it comes.
--
-- [Throws]: 'StageFailed' when it ends with another status than 0.
streamCommand :: ByteString -> Env -> Env -> Sink -> IO Sink
streamCommand text below env to = do
  command <- startCommand env text
  stopped <- newRef False
  let loop = do
        piece <- Bytes.hGetSome (commandOutput command) 65536
        if Bytes.null piece
          then finish to
          else do
            wanted <- push to piece
            if wanted then turn below >> loop else writeRef stopped True >> hClose (commandOutput command) >> finish to
  worker <- startWorker env (envBorder below) "filter/command" loop
  -- It gets what has come before anything else is waited for.
  onTurn env (flushOutput (commandInput command))
  pure . feeding command $ do
    joinWorker worker
    failureSoFar env
    early <- readRef stopped
    endCommand text early command

-- | A shell command inside of another stage: what it gives is passed on when it has ended.
--
-- [Throws]: 'StageFailed' when it ends with another status than 0; 'TooLong' when it gives
-- more than may be kept.
wholeCommand :: ByteString -> Env -> Sink -> IO Sink
wholeCommand text env to = do
  command <- startCommand env text
  held <- newHeld env
  kept <- newRef []
  let loop = do
        piece <- Bytes.hGetSome (commandOutput command) 65536
        unless (Bytes.null piece) $ do
          hold held piece
          modifyRef kept (\pieces -> (piece : pieces, ()))
          loop
  worker <- startWorker env 1 "filter/command" loop
  pure . feeding command $ do
    joinWorker worker
    failureSoFar env
    endCommand text False command
    readRef kept >>= mapM_ (push to) . reverse
    finish to

-- A command that runs.
data Command' = Command'
  { commandInput :: !Output,
    closeInput :: !(IO ()),
    commandOutput :: !Handle,
    commandProcess :: !ProcessHandle,
    -- | The run need not end it any more.
    commandForget :: !(IO ())
  }

startCommand :: Env -> ByteString -> IO Command'
startCommand env text = mask_ $ do
  encoding <- getFileSystemEncoding
  line <- Bytes.unsafeUseAsCStringLen text (Foreign.peekCStringLen encoding)
  (Just handle, Just output, _, process) <- createProcess (shell line) {std_in = CreatePipe, std_out = CreatePipe, close_fds = True}
  -- Not the handle: closing that would write what is left, and wait for who does not read.
  input <- handleToFd handle
  closed <- newRef False
  let close = modifyRef closed ((,) True) >>= \was -> unless was (void (closeFile input))
  takeBack <- onExit (envScope env) $ \insisted -> do
    -- It may have ended long ago; then nothing happens here.
    getProcessExitCode process >>= \case
      Just _ -> pure ()
      Nothing -> terminateProcess process
    close
    hClose output
    reap insisted process
  setFdOption input NonBlockingRead True
  hSetBinaryMode output True
  to <- newOutput input ("command " ++ quoted text)
  pure (Command' to close output process takeBack)

-- Wait for a command that was asked to end. It has half a second, and none if somebody insists.
-- Another thread waits for the process: to interrupt a system call, the runtime sends one
-- signal, which does nothing if it comes right before the call.
reap :: Bool -> ProcessHandle -> IO ()
reap insisted process = do
  ended <- newWaitCell
  _ <- forkMasked $ \_ -> do
    labelMe "filter/reaper"
    void (trySync (waitForProcess process))
    unpark ended
  let kill = do
        getPid process >>= mapM_ (signalProcess sigKILL)
        uninterruptibleMask_ (park ended)
  inTime <- if insisted then pure Nothing else timeout 500000 (park ended) `onException` kill
  when (inTime == Nothing) kill

-- Writes to a command, which may have stopped reading.
feeding :: Command' -> IO () -> Sink
feeding command done =
  Sink (push input) $ do
    finish input
    closeInput command
    done
  where
    input = outputSink (commandInput command)

-- Its status, unless it was no longer listened to: then it may have died of that.
endCommand :: ByteString -> Bool -> Command' -> IO ()
endCommand text early command = do
  hClose (commandOutput command)
  waitForProcess (commandProcess command) >>= \case
    ExitFailure n | not early -> failed n
    _ -> commandForget command
  where
    failed n
      | n < 0 = failing ("killed by signal " ++ show (negate n))
      | n == 127 = failing "the shell found no such command (exit status 127)"
      | otherwise = failing ("exit status " ++ show n)
    failing = throwIO . StageFailed ("command " ++ quoted text) . toException . CommandFailed
