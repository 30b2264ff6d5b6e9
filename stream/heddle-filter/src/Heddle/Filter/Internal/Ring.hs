-- |
-- Module      : Heddle.Filter.Internal.Ring
-- Description : A run's threads, and what they hand on
-- Stability   : internal, exempt from the version policy
--
-- Threads that end with the run, and bounded queues from one thread to another.
--
-- Cost: an item, two atomic changes; a switch of threads when the other one waits.
-- Owner: the run's scope; one thread puts, one takes.
module Heddle.Filter.Internal.Ring
  ( -- * Workers
    Worker,
    startWorker,
    joinWorker,
    endWorker,

    -- * Rings
    Ring,
    newRing,
    putItem,
    takeItem,
    closeRing,
    noMore,
    isWanted,
  )
where

import Control.Monad (unless, when)
import Data.Sequence (Seq (..), (|>))
import Data.Sequence qualified as Seq
import Heddle.Filter.Internal.Machine
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMaskedOn, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | A thread of the run.
data Worker = Worker
  { workerDone :: !(Ref Bool),
    workerCell :: !WaitCell,
    -- | Stop it, and wait until it has ended.
    workerStop :: !(IO ()),
    -- | The run need not end it any more.
    workerForget :: !(IO ())
  }

-- | Start a thread of the run. If it fails, so does the run; it has ended when the run ends.
--
-- It stays on one capability, by its number: threads that hardly allocate are not moved.
startWorker :: Env -> Int -> String -> IO () -> IO Worker
startWorker env number name body = mask_ $ do
  done <- newRef False
  cell <- newWaitCell
  thread <- forkMaskedOn number $ \unmask -> do
    labelMe name
    -- Telling of a failure is interrupted when the run ends meanwhile.
    (unmask body `catch` failRun env) `catch` \(_ :: SomeException) -> pure ()
    writeRef done True
    unpark cell
  -- Uninterruptible: it ends at once, unless it writes to somebody who does not read.
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
  unless ended (park cell >> waitFor done cell)

-- | A bounded queue.
data Ring a = Ring
  { ringSize :: !Int,
    ringState :: !(Ref (State a)),
    -- | It has room again, or nobody takes any more.
    ringRoom :: !WaitCell,
    -- | It has something, or is closed.
    ringFilled :: !WaitCell
  }

-- Items; whether the writer has ended; whether the reader wants no more.
data State a = State !(Seq a) !Bool !Bool

-- | A queue of so many items at most.
newRing :: Int -> IO (Ring a)
newRing size = Ring size <$> newRef (State Seq.empty False False) <*> newWaitCell <*> newWaitCell

-- | Hand an item on; 'False' when the reader wants no more.
--
-- [Blocks]: parks while the queue is full.
putItem :: Ring a -> a -> IO Bool
putItem ring item = do
  answer <- modifyRef (ringState ring) $ \state@(State items closed unwanted) ->
    if unwanted
      then (state, Just False)
      else
        if Seq.length items >= ringSize ring
          then (state, Nothing)
          else (State (items |> item) closed unwanted, Just True)
  case answer of
    Just ok -> ok <$ when ok (unpark (ringFilled ring))
    Nothing -> park (ringRoom ring) >> putItem ring item

-- | The next item; 'Nothing' when the writer has ended.
--
-- [Blocks]: parks while the queue is empty.
takeItem :: Ring a -> IO (Maybe a)
takeItem ring = do
  answer <- modifyRef (ringState ring) $ \state@(State items closed unwanted) -> case items of
    item :<| others -> (State others closed unwanted, Just (Just item))
    Empty -> (state, if closed then Just Nothing else Nothing)
  case answer of
    Just item -> item <$ unpark (ringRoom ring)
    Nothing -> park (ringFilled ring) >> takeItem ring

-- | The writer has ended.
closeRing :: Ring a -> IO ()
closeRing ring = do
  modifyRef (ringState ring) (\(State items _ unwanted) -> (State items True unwanted, ()))
  unpark (ringFilled ring)

-- | The reader wants no more.
noMore :: Ring a -> IO ()
noMore ring = do
  modifyRef (ringState ring) (\(State _ closed _) -> (State Seq.empty closed True, ()))
  unpark (ringRoom ring)

-- | Does the reader want more?
isWanted :: Ring a -> IO Bool
isWanted ring = (\(State _ _ unwanted) -> not unwanted) <$> readRef (ringState ring)
