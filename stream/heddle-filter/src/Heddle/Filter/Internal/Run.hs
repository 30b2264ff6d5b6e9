-- |
-- Module      : Heddle.Filter.Internal.Run
-- Description : Runs plans
-- Stability   : internal, exempt from the version policy
--
-- Reads sources one after the other as one stream, and runs a plan on it: with
-- "Heddle.Filter.Internal.FrontRun" if the plan has a front, else piece by piece through the
-- plan's machine.
--
-- Cost: reading, and what the plan costs. In memory: a buffer for each worker, and a few
-- parts' results.
-- Owner: the calling thread, and the run's workers, which have ended when it returns.
module Heddle.Filter.Internal.Run
  ( runPlan,
  )
where

import Control.Monad (void, when)
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Foldable (for_)
import Foreign.ForeignPtr (withForeignPtr)
import Heddle.Filter.Internal.FrontRun
import Heddle.Filter.Internal.Lowering
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Options
import Heddle.Filter.Internal.Plan
import Heddle.Filter.Internal.Source
import Heddle.Filter.Internal.Tail (beforeLastRows, leadingTail)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt)
import System.IO (SeekMode (..))
import System.Posix.IO.ByteString (fdSeek)

-- | Run a plan on some sources, and push its output into a sink.
--
-- [Cost]: reading, and what the plan costs; a buffer for each worker.
-- [Blocks]: until the sources have ended, or nothing more is wanted.
-- [Throws]: 'StageFailed', 'TooLong', what the sink throws.
runPlan :: FilterOptions -> Plan -> [Source] -> Sink -> IO ()
runPlan options plan sources sink = withEnv (filterLongest options) (filterOnFlush options) $ \env -> do
  machine <- lowerStage (planRest plan) env sink
  if isNothingGained (planFront plan)
    then runWithoutFront options env (leadingTail (planRest plan)) sources machine
    else runWithFront options env plan sources machine
  -- What other threads threw while this one ended.
  failureSoFar env

-- Push pieces as they come. If only the last rows are wanted, what is before the last rows of
-- a regular file is not read.
runWithoutFront :: FilterOptions -> Env -> Maybe Int -> [Source] -> Sink -> IO ()
runWithoutFront options env rows sources machine = do
  wanted <- newRef True
  let pushAll input = do
        memory <- mallocByteString pieceSize
        n <- withForeignPtr memory (\p -> openedRead input p pieceSize)
        when (n > 0) $ do
          ok <- push machine (fromForeignPtr memory 0 n)
          flushAll env
          if ok then pushAll input else writeRef wanted False
  for_ sources $ \source -> do
    go <- readRef wanted
    when go $
      withSource source (\input -> for_ rows (skipToLastRows input) >> pushAll input)
        `catch` filterOnError options
  finish machine

-- Move a regular file's offset to shortly before its last rows.
skipToLastRows :: Opened -> Int -> IO ()
skipToLastRows input rows =
  for_ (openedFile input) $ \(fd, from, to) ->
    when (to - from > fromIntegral pieceSize) $ do
      place <- beforeLastRows (readAt fd) pieceSize (from, to) rows
      when (place > from) (void (fdSeek fd AbsoluteSeek (fromIntegral place)))
