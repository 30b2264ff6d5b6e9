-- |
-- Module      : Heddle.Pipe.Internal.Threads
-- Description : Stages on threads of their own
-- Stability   : internal
--
-- A part of a pipeline on another thread is a bracket of the part that waits for it: starting
-- the thread acquires it and ending the thread releases it. So it ends with the other resources
-- of the pipeline, and in the same order.
--
-- Cost: a thread for each; 20 to 40 ns for each value that changes threads while both run, some
-- microseconds when one waits for the other. This pays for chunks, not for single bytes.
-- Owner: each queue has one thread at either end.
module Heddle.Pipe.Internal.Threads
  ( buffered,
    (.||),
    mapInParallel,
  )
where

import Control.Monad (replicateM, void, when)
import Control.Monad.IO.Class (liftIO)
import Data.Foldable (for_)
import Data.Void (Void)
import Heddle.Pipe.Internal.Guard (bracketP)
import Heddle.Pipe.Internal.Types
import Heddle.Pipe.Queue (Queue, Taken (..), awaitFinish, finish, newQueue, put, take)
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
  ( AsyncException (..),
    SomeException,
    bug,
    catch,
    throwIO,
    throwTo,
    try,
    uninterruptibleMask_,
  )
import Heddle.Prim.Thread (ThreadId, forkMasked, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import Prelude hiding (take)

-- | Run a pipe on a thread of its own, at most this many values ahead of its consumer. It
-- starts when it is first asked for a value. If it throws, the consumer gets the values that
-- were yielded before, then the exception. When downstream ends or fails, it is cancelled, and
-- has released what it has open before the pipeline goes on.
--
-- [Cost]: a thread and a "Heddle.Pipe.Queue"; 20 to 40 ns for each value, more when either side
-- waits.
-- [Blocks]: parks the consumer; cancelling waits until the thread has ended.
-- [Throws]: what the pipe throws.
buffered :: Int -> Pipe Void o r -> Pipe Void o r
buffered n p = bracketP start stop (go . fst)
  where
    start = do
      queue <- newQueue n
      thread <- forkMasked $ \unmask -> do
        labelMe "stream/buffered"
        result <- try (unmask (runInto (void . put queue) p))
        finish queue result
      pure (queue, thread)
    -- Note [Uninterruptible waits]
    stop (queue, thread) = uninterruptibleMask_ (throwTo thread ThreadKilled >> awaitFinish queue)
    go :: Queue o (Either SomeException r) -> Pipe Void o r
    go queue =
      liftIO (take queue) >>= \case
        Item o -> yield o >> go queue
        Finished (Right r) -> pure r
        Finished (Left e) -> liftIO (throwIO e)

infixl 2 .||

-- | As '.|', with the left pipe on a thread of its own, at most 16 values ahead.
--
-- [Cost]: as 'buffered'.
(.||) :: Pipe Void b x -> Pipe b c y -> Pipe Void c y
left .|| right = buffered 16 left .| right

-- | Apply an action to each value, on this many threads; results come in the order of the
-- values. Up to twice as many values are awaited ahead of the result that is yielded. If an
-- action throws, the results before it are yielded, then the exception is thrown. The action
-- must evaluate its result if that is to happen on the threads.
--
-- [Cost]: the threads; about 100 ns for each value while all run, more when one waits.
-- [Blocks]: parks until the next result is ready; cancelling waits until the threads have ended.
-- [Throws]: what the action throws, and what another thread throws at one of these threads while it waits for a value.
mapInParallel :: Int -> (a -> IO b) -> Pipe a b ()
mapInParallel threads f = bracketP (startPool threads f) stopPool (\pool -> go pool 0 0)
  where
    go pool oldest next
      | next - oldest < window pool = do
        ready <- if next == oldest then pure False else liftIO (isDone pool oldest)
        if ready then deliver pool oldest (\old -> go pool old next) else await >>= maybe (rest' pool next oldest) (\a -> liftIO (post pool next a) >> go pool oldest (next + 1))
      | otherwise = deliver pool oldest (\old -> go pool old next)
    rest' pool next oldest
      | oldest == next = pure ()
      | otherwise = deliver pool oldest (rest' pool next)
    deliver pool ticket k = liftIO (collect pool ticket) >>= yield >> k (ticket + 1)

-- | Threads, and a ring of jobs. A job's number is its ticket; its slot is the ticket modulo the
-- window. The slot's word holds the ticket and its state, so that a later ticket in the same
-- slot is not mistaken for it.
data Pool a b = Pool
  { window :: !Int,
    slots :: !(Table (Slot a b)),
    -- | For each slot, on a cache line of its own, 2t + 1 when ticket t is posted, 2t + 2 when
    -- it is done; then the next ticket to draw, whether to stop, and how many have stopped.
    poolWords :: !Words,
    -- | Wakes the thread that has drawn a ticket. See Note [One thread at a cell].
    postCells :: !(Table WaitCell),
    -- | Wakes the thread that collects results.
    doneCell :: !WaitCell,
    -- | What ended a thread that was not told to end.
    lostThread :: !(Ref (Maybe SomeException)),
    workers :: !(Ref [ThreadId])
  }

data Slot a b = Vacant | Job a | Result b | Failed SomeException

slotWord :: Pool a b -> Int -> Int
slotWord pool ticket = 16 * (ticket `rem` window pool)

postCell :: Pool a b -> Int -> IO WaitCell
postCell pool ticket = readEntry (postCells pool) (ticket `rem` (2 * window pool))

drawWord, stopWord, stoppedWord :: Pool a b -> Int
drawWord pool = 16 * window pool
stopWord pool = 16 * window pool + 16
stoppedWord pool = 16 * window pool + 32

startPool :: Int -> (a -> IO b) -> IO (Pool a b)
startPool n f = do
  let threads = max 1 n
      size = 2 * threads
  cell <- newWaitCell
  cells <- newTable (2 * size) cell
  for_ [0 .. 2 * size - 1] (\i -> newWaitCell >>= writeEntry cells i)
  pool <- Pool size <$> newTable size Vacant <*> newWords (16 * size + 48) <*> pure cells <*> newWaitCell <*> newRef Nothing <*> newRef []
  started <- replicateM threads $
    forkMasked $ \unmask -> do
      labelMe "stream/parallel"
      work pool (unmask . f) `catch` lost pool
      _ <- fetchAdd (poolWords pool) (stoppedWord pool) 1
      unpark (doneCell pool)
  writeRef (workers pool) started
  pure pool

-- | What ended a thread, unless the pool is being stopped: the job that it waited for would never be done.
lost :: Pool a b -> SomeException -> IO ()
lost pool e = do
  stop <- atomicRead (poolWords pool) (stopWord pool)
  when (stop == 0) (writeRef (lostThread pool) (Just e))

-- | End the threads. See Note [Uninterruptible waits].
stopPool :: Pool a b -> IO ()
stopPool pool = uninterruptibleMask_ $ do
  atomicWrite (poolWords pool) (stopWord pool) 1
  threads <- readRef (workers pool)
  for_ threads (`throwTo` ThreadKilled)
  let stopped = do
        n <- atomicRead (poolWords pool) (stoppedWord pool)
        when (n < length threads) (park (doneCell pool) >> stopped)
  stopped

-- | Draw a ticket, wait for its job, run it. It is masked except for the job itself, so it is
-- cancelled only while it waits or runs a job; otherwise it ends when it sees the stop word.
work :: Pool a b -> (a -> IO b) -> IO ()
work pool f = go
  where
    ws = poolWords pool
    go = do
      ticket <- fetchAdd ws (drawWord pool) 1
      let slot = ticket `rem` window pool
      cell <- postCell pool ticket
      let posted = atomicRead ws (slotWord pool ticket) >>= \w -> when (w /= 2 * ticket + 1) (park cell >> posted)
      posted
      readEntry (slots pool) slot >>= \case
        Job a -> do
          result <- try (f a)
          writeEntry (slots pool) slot (either Failed Result result)
          atomicWrite ws (slotWord pool ticket) (2 * ticket + 2)
          unpark (doneCell pool)
        _ -> bug "a ticket without a job"
      stop <- atomicRead ws (stopWord pool)
      when (stop == 0) go

post :: Pool a b -> Int -> a -> IO ()
post pool ticket a = do
  let slot = ticket `rem` window pool
  writeEntry (slots pool) slot (Job a)
  atomicWrite (poolWords pool) (slotWord pool ticket) (2 * ticket + 1)
  postCell pool ticket >>= unpark

isDone :: Pool a b -> Int -> IO Bool
isDone pool ticket = (== 2 * ticket + 2) <$> atomicRead (poolWords pool) (slotWord pool ticket)

collect :: Pool a b -> Int -> IO b
collect pool ticket = do
  done <- isDone pool ticket
  if not done
    then readRef (lostThread pool) >>= maybe (park (doneCell pool) >> collect pool ticket) throwIO
    else do
      let slot = ticket `rem` window pool
      result <- readEntry (slots pool) slot
      writeEntry (slots pool) slot Vacant
      case result of
        Result b -> pure b
        Failed e -> throwIO e
        _ -> bug "a ticket without a result"

-- Note [One thread at a cell]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A cell's token must be taken by the thread that it is meant for. While ticket t is drawn and
-- its job not done, t is not collected, so at most tickets up to t + window - 1 are posted, and
-- each thread has drawn at most one more: all are less than t + 2 * window. With twice as many
-- cells as slots, no two waiting threads share one.

-- Note [Uninterruptible waits]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A thread that cancels another waits until that has ended, and a second exception must not cut
-- the wait short: what the cancelled thread has open would still be open when the run returns.
-- The wait is bounded by the releases of the cancelled thread and the steps that it takes masked,
-- since it has been sent an exception.
