{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : ServeTimeline
-- Description : heddle serve's recorder of timelines
--
-- Records GHC's event log of this process into a file in memory, which the sandbox allows, and lets a process of its own,
-- @heddle trace@, make a page of it, so that neither time nor memory for that is the server's. cbits/heddle_timeline.c starts and stops
-- the log.
module ServeTimeline
  ( recordTimeline,
  )
where

import Control.Monad (unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Heddle.Http (Segment (..))
import Heddle.Prim.Atomic (Words, atomicWrite, compareAndSet, newWords)
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern ENOSYS)
import Heddle.Prim.Exception (describeException, finally, mask, onException, trySync)
import Heddle.Prim.File (closeFile)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Thread (nap)
import Heddle.Serve
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO (hClose)
import System.Posix.IO (fdToHandle)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd (..))
import System.Process

-- | Record, and make what is asked for.
recordTimeline :: Recorder
recordTimeline form' for' = mask $ \restore ->
  compareAndSet recording 0 0 1 >>= \case
    False -> pure RecordingBusy
    True -> do
      begun <- c_start mostBytes
      if begun < 0
        then do
          atomicWrite recording 0 0
          pure (if failed begun == ENOSYS then RecordingUnavailable taken else RecordingFailed (said begun))
        else do
          let file = Fd begun
              -- In any case: it must not go on.
              stop = c_stop <* atomicWrite recording 0 0
          deadline <- deadlineIn for'
          restore (watch deadline) `onException` (void stop >> closeFile file)
          size <- stop
          if size < 0
            then RecordingFailed (said size) <$ closeFile file
            else case form' of
              TimelineLog -> pure (Recorded [SegmentFile file 0 (fromIntegral size)] (void (closeFile file)))
              TimelinePage -> made restore "--page" file
              TimelineSummary -> made restore "--summary" file
  where
    failed n = Errno (negate (fromIntegral n))
    said n = C.pack ("the timeline cannot be recorded: " ++ describeErrno (failed n))
    taken = C.pack "this process has no timelines: it writes an event log of its own (+RTS -l), or its runtime is a shared library"

-- Until the time is over, or the log is as long as it may be. Not by a timer of the event managers: what they do is recorded.
watch :: Deadline -> IO ()
watch deadline = do
  now <- monotonicNow
  over <- c_over
  unless (over /= 0 || now >= deadline) (nap (min (elapsed now deadline) (milliseconds 50)) >> watch deadline)

-- What another process makes of the log, whose file is closed in any case.
made :: (forall a. IO a -> IO a) -> String -> Fd -> IO Recording
made restore option file = do
  log' <- fdToHandle file `onException` closeFile file
  restore (either (failure . describeException) id <$> trySync (rendered log')) `finally` hClose log'
  where
    failure why = RecordingFailed (C.pack ("the timeline cannot be shown: " ++ why))
    rendered log' = do
      heddle <- getExecutablePath
      name <- (\me -> "heddle serve (process " ++ show me ++ ")") <$> getProcessID
      -- It reads the log by a name, since it reads it more than once.
      (_, out, _, process) <- createProcess (proc heddle ["trace", option, "--name", name, "/proc/self/fd/0"]) {std_in = UseHandle log', std_out = CreatePipe}
      bytes <- maybe (pure B.empty) B.hGetContents out `onException` (for_ out hClose >> terminateProcess process >> waitForProcess process)
      code <- waitForProcess process
      pure $ case code of
        ExitSuccess -> Recorded [SegmentBytes bytes] (pure ())
        ExitFailure n -> failure ("heddle trace ended with the code " ++ show n)

-- The recording ends at this size: some seconds of a busy server.
mostBytes :: CSize
mostBytes = 64 * 1024 * 1024

-- Word 0 is 1 while a timeline is being recorded: the log is the process's.
recording :: Words
recording = unsafeGlobal (newWords 1)
{-# NOINLINE recording #-}

-- safe: waits until all cores have stopped for a moment.
foreign import ccall safe "heddle_timeline_start" c_start :: CSize -> IO CInt

-- safe: the same, and writes what the cores still have.
foreign import ccall safe "heddle_timeline_stop" c_stop :: IO CLong

-- safe: waits for the lock of a core that writes its buffer.
foreign import ccall safe "heddle_timeline_over" c_over :: IO CInt
