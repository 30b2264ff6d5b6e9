-- |
-- Module      : Heddle.Filter.Internal.Worker
-- Description : Threads of a run
-- Stability   : internal, exempt from the version policy
--
-- Threads that end with the run, and that fail it when they fail.
--
-- Cost: a thread each.
-- Owner: the run's scope.
module Heddle.Filter.Internal.Worker
  ( Worker,
    startWorker,
    joinWorker,
    endWorker,
  )
where

import Control.Monad (unless)
import Heddle.Filter.Internal.Machine
import Heddle.Prim.Atomic (Ref, acquireFence, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMaskedOn, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | A thread of the run.
data Worker = Worker
  { workerDone :: !(Ref Bool),
    workerCell :: !WaitCell,
    -- | Stop it, and wait until it has ended.
    workerStop :: !(IO ()),
    -- | Take back the run's registration to stop it.
    workerForget :: !(IO ())
  }

-- | Start a thread of the run, on the capability of this number. If it fails, so does the
-- run. It has ended when the run ends.
--
-- It stays on that capability: the scheduler moves threads when it collects garbage, and these
-- hardly allocate.
startWorker :: Env -> Int -> String -> IO () -> IO Worker
startWorker env capability name body = mask_ $ do
  done <- newRef False
  cell <- newWaitCell
  thread <- forkMaskedOn capability $ \unmask -> do
    labelMe name
    -- Reporting a failure is interrupted when the run ends meanwhile.
    (unmask body `catch` failRun env) `catch` \(_ :: SomeException) -> pure ()
    writeRef done True
    unpark cell
  -- Uninterruptible: it ends at once, unless it writes to a process that does not read.
  let stop = uninterruptibleMask_ $ do
        ended <- readRef done
        unless ended (throwTo thread ThreadKilled)
        waitFor done cell
  Worker done cell stop <$> onExit (envScope env) (const stop)

-- | Stop it, and wait until it has ended.
--
-- [Masking]: not interruptible.
endWorker :: Worker -> IO ()
endWorker worker = workerStop worker >> workerForget worker

-- | Wait until it has ended.
--
-- [Blocks]: parks the thread.
joinWorker :: Worker -> IO ()
joinWorker worker = waitFor (workerDone worker) (workerCell worker) >> workerForget worker

waitFor :: Ref Bool -> WaitCell -> IO ()
waitFor done cell = do
  ended <- readRef done
  -- The fence: what the thread wrote must not be read before its end is seen.
  if ended then acquireFence else park cell >> waitFor done cell
