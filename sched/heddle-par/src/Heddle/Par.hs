{-# LANGUAGE RankNTypes #-}
-- Pure: 'runPar' is for all @s@, so no IVar leaves its run, and nominal roles keep 'Data.Coerce.coerce' from it; what a task
-- may do beyond that has the type 'Heddle.Par.IO.ParIO'.
{-# LANGUAGE Trustworthy #-}

-- |
-- Module      : Heddle.Par
-- Description : Deterministic parallelism
-- Stability   : stable
--
-- Tasks that communicate through write-once cells: the answer is the same on every schedule
-- and on any number of cores.
--
-- > fib :: Int -> Par s Int
-- > fib n
-- >   | n < 25 = pure (sequentialFib n)
-- >   | otherwise = do
-- >     a <- spawn (fib (n - 1))
-- >     b <- fib (n - 2)
-- >     (+ b) <$> get a
-- >
-- > main = print (runPar (fib 38))
--
-- Cost: 'spawn' and 'get' together take about 46 ns and 300 bytes, so a task should contain at
-- least a microsecond of work.
-- Owner: a run owns its tasks and IVars; the type @s@ keeps them inside.
module Heddle.Par
  ( -- * Runs
    Par,
    runPar,

    -- * Tasks
    fork,
    spawn,

    -- * IVars
    IVar,
    new,
    newFull,
    get,
    put,

    -- * Many at once
    parMap,
    parFor,
    parMapReduce,

    -- * Searching
    Closed (..),
    leftmost,

    -- * Exceptions
    ParException (..),
    MultiplePut (..),
    BlockedOnIVar (..),
  )
where

import Heddle.Par.Internal.Exception (BlockedOnIVar (..))
import Heddle.Par.Internal.Leftmost (leftmostOf)
import Heddle.Par.Internal.Monad (IVar, Par (..))
import Heddle.Par.Internal.Monad qualified as Monad
import Heddle.Prim.Exception (throwIO, throwTo)
import Heddle.Prim.Thread (myThreadId)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Sched (Kind (..), MultiplePut (..), OnFailure (..), ParException (..), Result (..), runBody)

-- | The answer of a parallel computation.
--
-- [Cost]: about 1.3 microseconds and 0.5 KB; some tens of microseconds from a thread bound to
-- one of the system's, as a program's main thread is ('Control.Concurrent.runInUnboundThread').
-- A run that is called while other threads compute waits for their turns.
-- [Throws]: when evaluated, the exception of the leftmost task that failed, which is the
-- same on every schedule, whatever its type; 'MultiplePut' before any other; 'BlockedOnIVar'.
-- [Masking]: what is thrown at the evaluating thread, of whatever type, cancels every task,
-- and is thrown when they have ended; a later evaluation of the value starts it again.
runPar :: (forall s. Par s a) -> a
runPar p = unsafePure go
  where
    go =
      runBody GoOn (unPar p) >>= \case
        Done a -> pure a
        Stalled -> throwIO BlockedOnIVar
        Thrown e -> throwIO e
        -- Thrown at ourselves, not from here, so that the value is not that exception for ever.
        Interrupted e -> myThreadId >>= (`throwTo` e) >> go

-- | Run a task in parallel with what follows.
--
-- [Cost]: about 30 ns; 120 bytes.
-- [Throws]: nothing here; if the task fails, the run does.
fork :: Par s () -> Par s ()
fork = Monad.fork
{-# INLINE fork #-}

-- | Run a task whose result, in weak head normal form, goes into an IVar. If it fails, so do
-- the tasks that read the IVar.
--
-- [Cost]: about 40 ns; 160 bytes.
spawn :: Par s a -> Par s (IVar s a)
spawn = Monad.spawn
{-# INLINE spawn #-}

-- | An empty IVar.
--
-- [Cost]: 32 bytes.
new :: Par s (IVar s a)
new = Monad.new
{-# INLINE new #-}

-- | An IVar that holds a value, in weak head normal form, from the start.
--
-- [Cost]: 48 bytes.
newFull :: a -> Par s (IVar s a)
newFull = Monad.newFull
{-# INLINE newFull #-}

-- | The value of an IVar.
--
-- [Cost]: one read if it is there, else about 40 ns when it comes.
-- [Blocks]: the task, not the worker.
get :: IVar s a -> Par s a
get = Monad.get
{-# INLINE get #-}

-- | Write an IVar; the value is evaluated to weak head normal form first.
--
-- [Cost]: one compare-and-set.
-- [Throws]: 'MultiplePut' if it holds a value already.
put :: IVar s a -> a -> Par s ()
put = Monad.put
{-# INLINE put #-}

-- | Apply a function to every element, a task each, results in weak head normal form.
--
-- [Cost]: a 'spawn' and a 'get' for each.
parMap :: Traversable t => (a -> b) -> t a -> Par s (t b)
parMap f xs = traverse (spawn . pure . f) xs >>= traverse get
{-# INLINE parMap #-}

-- | @parFor grain range body@ runs the body for every number of a range (both ends included), in
-- tasks of at most @grain@ numbers; it returns when all have ended.
--
-- [Cost]: a task for each piece.
parFor :: Int -> (Int, Int) -> (Int -> Par s ()) -> Par s ()
parFor grain range body = parMapReduce grain range body (\() () -> ()) ()
{-# INLINE parFor #-}

-- | @parMapReduce grain range f combine neutral@ maps every number of a range (both ends included)
-- and combines the results from left to right with an associative function, of which @neutral@
-- is the neutral element. The range is halved into tasks of at most @grain@ numbers.
--
-- [Cost]: a task for each piece.
parMapReduce :: Int -> (Int, Int) -> (Int -> Par s a) -> (a -> a -> a) -> a -> Par s a
parMapReduce grain (from, to) f combine neutral
  | from > to = pure neutral
  | otherwise = go from to
  where
    go a b
      | b - a < max 1 grain = f a >>= piece (a + 1) b
      | otherwise = do
        let middle = a + (b - a) `quot` 2
        left <- spawn (go a middle)
        right <- go (middle + 1) b
        l <- get left
        pure $! combine l right
    piece i b !acc
      | i > b = pure acc
      | otherwise = f i >>= \x -> piece (i + 1) b (combine acc x)
{-# INLINE parMapReduce #-}

-- | A computation that uses no IVar from outside, so that cancelling it has no effect on others.
newtype Closed a = Closed (forall s. Par s a)

-- | Search in parallel, answer as a sequential search would: the result of the leftmost
-- computation that has one, unless one further left fails: then the search fails with it. The
-- computations to the right are cancelled.
--
-- [Cost]: a scope (64 bytes a capability, and 800) for each.
leftmost :: [Closed (Maybe a)] -> Par s (Maybe a)
leftmost branches = leftmostOf ClosedScope [p | Closed p <- branches]
