{-# LANGUAGE FlexibleContexts #-}

-- |
-- Module      : Heddle.Par.MonadPar
-- Description : The interface of monad-par
-- Stability   : stable
--
-- For programs written for @Control.Monad.Par@: change that import to this one. Here 'put'
-- and 'spawn' evaluate to normal form, and IVars may leave their run, as there; new programs
-- should use "Heddle.Par", whose types forbid the latter.
--
-- Code written for the classes of abstract-par runs in both monads of this package, too.
--
-- Cost: as "Heddle.Par", and that of 'rnf'.
-- Owner: as "Heddle.Par".
module Heddle.Par.MonadPar
  ( -- * Runs
    Par,
    runPar,
    runParIO,

    -- * Tasks
    fork,
    spawn,
    spawn_,
    spawnP,

    -- * IVars
    IVar,
    new,
    newFull,
    newFull_,
    get,
    put,
    put_,

    -- * Many at once
    parMap,
    parMapM,
    parFor,
    InclusiveRange (..),
    parMapReduceRange,
    parMapReduceRangeThresh,
    NFData (..),
  )
where

import Control.DeepSeq (NFData (..), force)
import Heddle.Par.Internal.Exception (BlockedOnIVar (..))
import Heddle.Par.Internal.Monad qualified as Monad
import Heddle.Prim.Exception (throwIO, throwTo)
import Heddle.Prim.Thread (getCapabilities, myThreadId)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Sched (OnFailure (..), Result (..), runBody)

-- | Nothing keeps this run's IVars apart from another's.
data Anywhere

-- | A deterministic parallel computation.
type Par = Monad.Par Anywhere

-- | A cell that is written once.
type IVar = Monad.IVar Anywhere

-- | See 'Heddle.Par.runPar'.
runPar :: Par a -> a
runPar p = unsafePure (runParIO' p)

-- | The same as an action.
--
-- [Throws]: as 'Heddle.Par.runPar'.
runParIO :: Par a -> IO a
runParIO = runParIO'

runParIO' :: Par a -> IO a
runParIO' p =
  runBody GoOn (Monad.unPar p) >>= \case
    Done a -> pure a
    Stalled -> throwIO BlockedOnIVar
    Thrown e -> throwIO e
    Interrupted e -> myThreadId >>= (`throwTo` e) >> runParIO' p

-- | Run a task in parallel with what follows.
fork :: Par () -> Par ()
fork = Monad.fork
{-# INLINE fork #-}

-- | Run a task whose result, in normal form, goes into an IVar.
spawn :: NFData a => Par a -> Par (IVar a)
spawn p = Monad.spawn (p >>= \a -> rnf a `seq` pure a)
{-# INLINE spawn #-}

-- | Run a task whose result, in weak head normal form, goes into an IVar.
spawn_ :: Par a -> Par (IVar a)
spawn_ = Monad.spawn
{-# INLINE spawn_ #-}

-- | Evaluate a value to normal form in a task.
spawnP :: NFData a => a -> Par (IVar a)
spawnP a = Monad.spawn (rnf a `seq` pure a)
{-# INLINE spawnP #-}

-- | An empty IVar.
new :: Par (IVar a)
new = Monad.new
{-# INLINE new #-}

-- | An IVar with a value in normal form.
newFull :: NFData a => a -> Par (IVar a)
newFull a = Monad.newFull (force a)
{-# INLINE newFull #-}

-- | An IVar with a value in weak head normal form.
newFull_ :: a -> Par (IVar a)
newFull_ = Monad.newFull
{-# INLINE newFull_ #-}

-- | The value of an IVar, as soon as there is one.
get :: IVar a -> Par a
get = Monad.get
{-# INLINE get #-}

-- | Write an IVar, in normal form.
--
-- [Throws]: 'Heddle.Par.MultiplePut' if it holds a value already.
put :: NFData a => IVar a -> a -> Par ()
put v a = Monad.put v (force a)
{-# INLINE put #-}

-- | Write an IVar, in weak head normal form.
--
-- [Throws]: 'Heddle.Par.MultiplePut' if it holds a value already.
put_ :: IVar a -> a -> Par ()
put_ = Monad.put
{-# INLINE put_ #-}

-- | Apply a function to every element, a task each.
parMap :: (Traversable t, NFData b) => (a -> b) -> t a -> Par (t b)
parMap f xs = traverse (spawnP . f) xs >>= traverse get
{-# INLINE parMap #-}

-- | 'parMap' for a function that forks itself.
parMapM :: (Traversable t, NFData b) => (a -> Par b) -> t a -> Par (t b)
parMapM f xs = traverse (spawn . f) xs >>= traverse get
{-# INLINE parMapM #-}

-- | The first number and the last, both included.
data InclusiveRange = InclusiveRange Int Int

-- | @parMapReduceRangeThresh threshold range f combine neutral@ maps every number of a range and
-- combines the results, in tasks of about @threshold@ numbers.
parMapReduceRangeThresh :: NFData a => Int -> InclusiveRange -> (Int -> Par a) -> (a -> a -> Par a) -> a -> Par a
parMapReduceRangeThresh threshold (InclusiveRange from to) f combine neutral = go from to
  where
    go a b
      | b - a <= threshold = piece a b neutral
      | otherwise = do
        let middle = a + (b - a) `quot` 2
        right <- spawn (go (middle + 1) b)
        l <- go a middle
        r <- get right
        combine l r
    piece i b acc
      | i > b = pure acc
      | otherwise = f i >>= combine acc >>= piece (i + 1) b
{-# INLINE parMapReduceRangeThresh #-}

-- | 'parMapReduceRangeThresh' with about four tasks for each capability.
parMapReduceRange :: NFData a => InclusiveRange -> (Int -> Par a) -> (a -> a -> Par a) -> a -> Par a
parMapReduceRange range f combine neutral = do
  n <- pieces
  parMapReduceRangeThresh (max 1 (size range `quot` n)) range f combine neutral

-- | Run the body for every number of a range, in about four tasks for each capability.
parFor :: InclusiveRange -> (Int -> Par ()) -> Par ()
parFor range body = parMapReduceRange range body (\() () -> pure ()) ()

size :: InclusiveRange -> Int
size (InclusiveRange from to) = to - from + 1

pieces :: Par Int
pieces = Monad.par (\worker continue -> getCapabilities >>= \n -> continue worker (4 * n))
