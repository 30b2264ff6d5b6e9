-- |
-- Module      : Heddle.Pipe.Internal.Threads
-- Description : Stages on threads of their own
-- Stability   : internal
--
-- A part of a pipeline on another thread is a bracket of the part that waits for it: it
-- is acquired by starting the thread and released by ending it, so it ends when other things
-- that are open do, and in the same order.
--
-- Cost: a thread for each; 20 to 40 ns for each value that changes threads while both run,
-- some microseconds where one waits for the other. Worth while for chunks, not for bytes.
-- Owner: each ring has one thread at either end.
module Heddle.Pipe.Internal.Threads
  ( buffered,
    (.||),
    mapInParallel,
  )
where

import Control.Monad (replicateM, when)
import Control.Monad.IO.Class (liftIO)
import Data.Foldable (for_)
import Data.Void (Void)
import Heddle.Pipe.Internal.Guard (bracketP)
import Heddle.Pipe.Internal.Ring (Ring, Taken (..), awaitFinish, finish, newRing, put, take)
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
  ( AsyncException (..),
    SomeException,
    bug,
    throwIO,
    throwTo,
    try,
    uninterruptibleMask_,
  )
import Heddle.Prim.Thread (ThreadId, forkMasked, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import Prelude hiding (take)

-- | The pipe on a thread of its own, at most so many values ahead of who awaits them. It
-- starts when it is first asked. If it throws, who awaits gets what was yielded before, then
-- the exception. When downstream ends or fails, it is cancelled, and has released what it
-- has open before anything goes on.
--
-- [Cost]: a thread and a ring of so many words; 20 to 40 ns for each value, more when either
-- side waits.
-- [Blocks]: parks who awaits; when cancelling, until the thread has ended.
-- [Throws]: what the pipe throws.
buffered :: Int -> Pipe Void o r -> Pipe Void o r
buffered n p = bracketP start stop (go . fst)
  where
    start = do
      ring <- newRing n
      thread <- forkMasked $ \unmask -> do
        labelMe "stream/buffered"
        result <- try (unmask (runInto (put ring) p))
        finish ring result
      pure (ring, thread)
    -- Note [Uninterruptible waits]
    stop (ring, thread) = uninterruptibleMask_ (throwTo thread ThreadKilled >> awaitFinish ring)
    go :: Ring o (Either SomeException r) -> Pipe Void o r
    go ring =
      liftIO (take ring) >>= \case
        Item o -> yield o >> go ring
        Finished (Right r) -> pure r
        Finished (Left e) -> liftIO (throwIO e)

infixl 2 .||

-- | As '.|', with the left one on a thread of its own, at most 16 values ahead.
--
-- [Cost]: as 'buffered'.
(.||) :: Pipe Void b x -> Pipe b c y -> Pipe Void c y
left .|| right = buffered 16 left .| right

-- | Do this for every value, on so many threads; results in the order of the values. Up to
-- twice as many values are awaited ahead of the result that is yielded. If one throws, the
-- results before it are yielded, then the exception is thrown. Who wants a pure function
-- applied on the threads evaluates its result there.
--
-- [Cost]: the threads; for each value some 100 ns while all run, more when one waits.
-- [Blocks]: parks while the first result is not there; when cancelling, until the threads
-- have ended.
-- [Throws]: what the action throws.
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

-- | Threads, and a ring of tickets. A ticket's place is its number modulo the window; the
-- place's word says what has become of it, so that a later ticket at the same place is not
-- taken for it.
data Pool a b = Pool
  { window :: !Int,
    places :: !(Table (Place a b)),
    -- | For each place (and a line apart) 2t + 1 when ticket t is posted, 2t + 2 when done;
    -- then the next ticket to be drawn, whether to stop, and how many have stopped.
    poolWords :: !Words,
    -- | Wakes the thread that has drawn a ticket. See Note [One thread at a cell].
    postCells :: !(Table WaitCell),
    -- | Wakes who collects.
    doneCell :: !WaitCell,
    workers :: !(Ref [ThreadId])
  }

data Place a b = Vacant | Job a | Result b | Failed SomeException

placeWord :: Pool a b -> Int -> Int
placeWord pool ticket = 16 * (ticket `rem` window pool)

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
  pool <- Pool size <$> newTable size Vacant <*> newWords (16 * size + 48) <*> pure cells <*> newWaitCell <*> newRef []
  started <- replicateM threads $
    forkMasked $ \unmask -> do
      labelMe "stream/parallel"
      _ <- try (work pool (unmask . f)) :: IO (Either SomeException ())
      _ <- fetchAdd (poolWords pool) (stoppedWord pool) 1
      unpark (doneCell pool)
  writeRef (workers pool) started
  pure pool

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

-- | Draw a ticket, wait for its job, do it. Masked but for the job itself, so that it ends
-- where it waits, or when a job returns after it was told to.
work :: Pool a b -> (a -> IO b) -> IO ()
work pool f = go
  where
    ws = poolWords pool
    go = do
      ticket <- fetchAdd ws (drawWord pool) 1
      let place = ticket `rem` window pool
      cell <- postCell pool ticket
      let posted = atomicRead ws (placeWord pool ticket) >>= \w -> when (w /= 2 * ticket + 1) (park cell >> posted)
      posted
      readEntry (places pool) place >>= \case
        Job a -> do
          result <- try (f a)
          writeEntry (places pool) place (either Failed Result result)
          atomicWrite ws (placeWord pool ticket) (2 * ticket + 2)
          unpark (doneCell pool)
        _ -> bug "a ticket without a job"
      stop <- atomicRead ws (stopWord pool)
      when (stop == 0) go

post :: Pool a b -> Int -> a -> IO ()
post pool ticket a = do
  let place = ticket `rem` window pool
  writeEntry (places pool) place (Job a)
  atomicWrite (poolWords pool) (placeWord pool ticket) (2 * ticket + 1)
  postCell pool ticket >>= unpark

isDone :: Pool a b -> Int -> IO Bool
isDone pool ticket = (== 2 * ticket + 2) <$> atomicRead (poolWords pool) (placeWord pool ticket)

collect :: Pool a b -> Int -> IO b
collect pool ticket = do
  done <- isDone pool ticket
  if not done
    then park (doneCell pool) >> collect pool ticket
    else do
      let place = ticket `rem` window pool
      result <- readEntry (places pool) place
      writeEntry (places pool) place Vacant
      case result of
        Result b -> pure b
        Failed e -> throwIO e
        _ -> bug "a ticket without a result"

-- Note [One thread at a cell]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A cell's token must not be taken by a thread for which it is not meant. While ticket t is
-- drawn and its job not done, t is not collected, so tickets up to t + window - 1 are posted at
-- most, and every thread has drawn one more at most: all are less than t + 2 * window. With
-- twice as many cells as places no two threads that wait share one.

-- Note [Uninterruptible waits]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Whoever cancels a thread waits until it has ended, and a second exception must not cut
-- that wait short: what the thread has open would still be open when the run returns. The
-- thread has been sent an exception, so the wait is as long as what it releases, plus any
-- step that it takes masked.
