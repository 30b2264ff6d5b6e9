-- |
-- Module      : Heddle.Filter.Internal.Command
-- Description : Shell commands as stages
-- Stability   : internal, exempt from the version policy
--
-- A command in the middle of a pipeline has a thread that reads the command's output and runs
-- what is downstream. Inside another stage, whose siblings share what is downstream, the
-- output is kept until the command has ended.
--
-- A command is a shell and what that has started: all of it ends with the run, and when a signal ends the program
-- (@cbits/heddle_commands.c@). It stays in the program's process group, since it may use the terminal.
--
-- Cost: a process, a thread, and a system call for each 64 KiB in either direction.
-- Owner: the run's scope, which ends the process and the thread.
module Heddle.Filter.Internal.Command
  ( streamCommand,
    wholeCommand,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Foreign.C.Types (CInt (..))
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Filter.Internal.Exception (CommandFailed (..))
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.MemoryBudget
import Heddle.Filter.Internal.Output
import Heddle.Filter.Internal.Print (quoted)
import Heddle.Filter.Internal.Worker
import Heddle.Pipe (StageFailed (..))
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile)
import Heddle.Prim.Thread (forkMasked, labelMe)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose, hSetBinaryMode)
import System.Posix.IO (FdOption (..), handleToFd, setFdOption)
import System.Posix.Signals (Signal, sigKILL, sigTERM)
import System.Posix.Types (CPid (..))
import System.Process hiding (env)
import System.Timeout (timeout)

-- How many bytes of a command's output are read at once.
readBytes :: Int
readBytes = 65536

-- | @streamCommand text below above sink@: a command in the middle of a pipeline, whose output
-- is passed on as it comes. @sink@ was made with @below@; the result is for the stage
-- upstream, which is made with @above@.
--
-- [Throws]: 'StageFailed' when the command's exit status is not 0.
streamCommand :: ByteString -> Env -> Env -> Sink -> IO Sink
streamCommand text below above to = do
  command <- startCommand above text
  stopped <- newRef False
  let loop = do
        piece <- Bytes.hGetSome (commandOutput command) readBytes
        if Bytes.null piece
          then finish to
          else do
            wanted <- push to piece
            if wanted
              then flushAll below >> loop
              else do
                writeRef stopped True
                hClose (commandOutput command)
                finish to
  worker <- startWorker above (envBoundaries below) "filter/command" loop
  -- The command gets its input before the pipeline waits for more.
  onFlush above (flushOutput (commandInput command))
  pure . feeding command $ do
    joinWorker worker
    failureSoFar above
    early <- readRef stopped
    endCommand text early command

-- | A command inside another stage: its output is passed on when it has ended.
--
-- [Throws]: 'StageFailed' when the command's exit status is not 0; 'TooLong' when its output
-- is larger than what may be held back.
wholeCommand :: ByteString -> Env -> Sink -> IO Sink
wholeCommand text env to = do
  command <- startCommand env text
  budget <- newBudget env
  kept <- newRef []
  let loop = do
        piece <- Bytes.hGetSome (commandOutput command) readBytes
        unless (Bytes.null piece) $ do
          charge budget piece
          modifyRef kept (\pieces -> (piece : pieces, ()))
          loop
  worker <- startWorker env 1 "filter/command" loop
  pure . feeding command $ do
    joinWorker worker
    failureSoFar env
    endCommand text False command
    readRef kept >>= mapM_ (push to) . reverse
    finish to

-- A running command.
data Running = Running
  { commandInput :: !Output,
    closeInput :: !(IO ()),
    commandOutput :: !Handle,
    commandProcess :: !ProcessHandle,
    -- | Take back the run's registration to end it.
    commandForget :: !(IO ())
  }

startCommand :: Env -> ByteString -> IO Running
startCommand env text = mask_ $ do
  encoding <- getFileSystemEncoding
  line <- Bytes.unsafeUseAsCStringLen text (Foreign.peekCStringLen encoding)
  (Just handle, Just output, _, process) <- createProcess (shell line) {std_in = CreatePipe, std_out = CreatePipe, close_fds = True}
  -- Not as a handle: closing a handle writes what is buffered, and waits for a process that does not read.
  input <- handleToFd handle
  closed <- newRef False
  let close = modifyRef closed ((,) True) >>= \was -> unless was (void (closeFile input))
  takeBack <- onExit (envScope env) $ \interrupted -> do
    -- It may have ended already.
    getProcessExitCode process >>= \case
      Just _ -> pure ()
      Nothing -> endTree process sigTERM
    close
    hClose output
    reap interrupted process
  setFdOption input NonBlockingRead True
  hSetBinaryMode output True
  to <- newOutput input ("command " ++ quoted text)
  pure (Running to close output process takeBack)

-- Wait for a command that was asked to end, and kill it after half a second; at once if the
-- end of the run was interrupted. Another thread waits for the process, because waitpid
-- cannot be interrupted reliably: the runtime sends one signal, which has no effect if it
-- arrives just before the call.
reap :: Bool -> ProcessHandle -> IO ()
reap interrupted process = do
  ended <- newWaitCell
  _ <- forkMasked $ \_ -> do
    labelMe "filter/reaper"
    -- Its status means nothing once the run has ended. It throws only where there is no child to wait for any more, if the
    -- program ignores SIGCHLD: then it has ended as well.
    void (trySync (waitForProcess process))
    unpark ended
  let kill = do
        -- It may have ended just now. An error of that must not replace what interrupted the run.
        void (trySync (endTree process sigKILL))
        uninterruptibleMask_ (park ended)
  inTime <- if interrupted then pure Nothing else timeout 500000 (park ended) `onException` kill
  when (inTime == Nothing) kill

-- A sink that writes to a command.
feeding :: Running -> IO () -> Sink
feeding command done =
  Sink (push input) $ do
    finish input
    closeInput command
    done
  where
    input = outputSink (commandInput command)

-- Wait for a command, and throw if it failed. If its output was closed early, its status says
-- nothing: it may have died of SIGPIPE.
endCommand :: ByteString -> Bool -> Running -> IO ()
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

-- Send a signal to the shell and to what it has started, unless it is known to have ended.
endTree :: ProcessHandle -> Signal -> IO ()
endTree process number = getPid process >>= mapM_ (`c_end` number)

-- Safe: it reads a file of /proc for each process.
foreign import ccall safe "heddle_command_end" c_end :: CPid -> CInt -> IO ()
