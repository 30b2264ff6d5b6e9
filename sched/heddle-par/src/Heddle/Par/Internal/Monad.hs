{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE RoleAnnotations #-}
{-# LANGUAGE TypeFamilies #-}

-- |
-- Module      : Heddle.Par.Internal.Monad
-- Description : What Par and ParIO are made of
-- Stability   : internal
--
-- Forks and IVars, for both monads, and the instances of abstract-par's classes.
--
-- Cost: a bind is a function call; the rest as said at each.
-- Owner: an IVar belongs to its run.
module Heddle.Par.Internal.Monad
  ( Par (..),
    par,

    -- * Forking
    fork,
    forkStolen,
    spawn,
    workerIndex,

    -- * IVars
    IVar (..),
    new,
    newFull,
    get,
    put,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Control.Monad.Par.Class qualified as Class
import Control.Monad.ST (RealWorld)
import Heddle.Par.Internal.Cancel (indexWord, runningWord, settle)
import Heddle.Par.Internal.Pool
import Heddle.Par.Internal.Scope (addFailure, countParked, countResumed)
import Heddle.Par.Internal.Types
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, readWord, writeWord)
import Heddle.Prim.Exception (Exception (..), evaluate, throwIO, unsafeMask)
import Heddle.Prim.Pure (oneShot)

-- | A parallel computation. The type @s@ keeps its IVars inside one run: a pure run is
-- for all @s@; in 'Heddle.Par.IO.ParIO' it is 'RealWorld', and effects are allowed.
--
-- [Cost]: a bind is a function call.
newtype Par s a = Par {unPar :: Worker -> (Worker -> a -> IO ()) -> IO ()}

-- Else 'Data.Coerce.coerce' would take an IVar out of its run.
type role Par nominal representational

type role IVar nominal representational

{- HLINT ignore par "Avoid lambda" -}
-- oneShot is about lambdas.
{- HLINT ignore rest "Avoid lambda" -}
-- The same.

-- | The only way a computation is made: its code is entered once each time it is run, so
-- GHC need not share anything between runs, and compiles binds to straight code.
par :: (Worker -> (Worker -> a -> IO ()) -> IO ()) -> Par s a
par f = Par (oneShot (\w -> oneShot (\k -> f w k)))
{-# INLINE par #-}

-- | A continuation is called once.
rest :: (Worker -> a -> IO ()) -> Worker -> a -> IO ()
rest k = oneShot (\w -> oneShot (\a -> k w a))
{-# INLINE rest #-}

instance Functor (Par s) where
  fmap f (Par m) = par (\w k -> m w (rest (\w' a -> k w' (f a))))
  {-# INLINE fmap #-}

instance Applicative (Par s) where
  pure a = par (\w k -> k w a)
  {-# INLINE pure #-}
  Par mf <*> Par ma = par (\w k -> mf w (rest (\w' f -> ma w' (rest (\w'' a -> k w'' (f a))))))
  {-# INLINE (<*>) #-}
  Par ma *> Par mb = par (\w k -> ma w (rest (\w' _ -> mb w' k)))
  {-# INLINE (*>) #-}

instance Monad (Par s) where
  Par m >>= f = par (\w k -> m w (rest (\w' a -> unPar (f a) w' k)))
  {-# INLINE (>>=) #-}

-- | Effects run on the worker's thread, unmasked; what parks there parks the worker.
instance s ~ RealWorld => MonadIO (Par s) where
  liftIO io = par (\w k -> io >>= k w)
  {-# INLINE liftIO #-}

-- | A cell that is written once. Reading waits for it.
newtype IVar s a = IVar (Ref (Cell a))

instance Class.ParFuture (IVar s) (Par s) where
  spawn_ = spawn
  {-# INLINE spawn_ #-}
  get = get
  {-# INLINE get #-}

instance Class.ParIVar (IVar s) (Par s) where
  fork = fork
  {-# INLINE fork #-}
  new = new
  {-# INLINE new #-}
  put_ = put
  {-# INLINE put_ #-}
  newFull_ = newFull
  {-# INLINE newFull_ #-}

-- Forking --------------------------------------------------------------------

-- | Run a task in parallel with what follows.
fork :: Par s () -> Par s ()
fork (Par p) = par $ \w k -> do
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = ForkTask t i (taskScope t)
      !after = Work t (i + 1) k ()
  commitFork w child after
  p w endFork
{-# INLINE fork #-}

-- | 'fork', and then: was what follows stolen, so that the task may still be running? If
-- not, it has ended, on this worker (unless it waited for an IVar).
forkStolen :: Par s () -> Par s Bool
forkStolen (Par p) = par $ \w k -> do
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = ForkTask t i (taskScope t)
      !after = Work t (i + 1) (\w' () -> k w' (workerId w' /= workerId w)) ()
  commitFork w child after
  p w endFork
{-# INLINE forkStolen #-}

endFork :: Worker -> () -> IO ()
endFork w () = finish w

-- | A task whose result, forced to weak head normal form, or whose failure goes into an IVar.
spawn :: Par s a -> Par s (IVar s a)
spawn (Par p) = par $ \w k -> do
  cell <- newRef Empty
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = SpawnTask t i (taskScope t) cell
      !after = Work t (i + 1) k (IVar cell)
  commitFork w child after
  p w (endSpawn cell)
{-# INLINE spawn #-}

endSpawn :: Ref (Cell a) -> Worker -> a -> IO ()
endSpawn cell w !a = do
  let !full = Full a
  -- An exception between this and 'finish' finds a task that has done its work.
  first <- modifyRef cell $ \case
    Empty -> (full, True)
    other -> (other, False)
  if first then finish w else endSpawnSlowly cell w a

endSpawnSlowly :: Ref (Cell a) -> Worker -> a -> IO ()
endSpawnSlowly cell w a = unsafeMask $ do
  writeWord (workerWords w) runningWord 0
  t <- readRef (workerTask w)
  let s = taskScope t
  fill cell (Full a) >>= \case
    Nobody -> next w s
    Wakes [Waiter t' i k] | scopeId (taskScope t') == scopeId s -> do
      settle w
      countResumed s w
      start w (Work t' i k a)
    Wakes ws -> wake w a ws >> next w s
    Already -> do
      newFailure t (toException MultiplePut) Nothing >>= addFailure s
      next w s
{-# NOINLINE endSpawnSlowly #-}

-- | The number of the worker that runs this task now; the same until the next operation
-- of this module.
workerIndex :: Par s Int
workerIndex = par (\w k -> k w (workerId w))

-- IVars ----------------------------------------------------------------------

-- | An empty IVar.
new :: Par s (IVar s a)
new = par (\w k -> newRef Empty >>= k w . IVar)
{-# INLINE new #-}

-- | An IVar that is full already.
newFull :: a -> Par s (IVar s a)
newFull !a = par (\w k -> newRef (Full a) >>= k w . IVar)
{-# INLINE newFull #-}

-- | The value, as soon as there is one.
get :: IVar s a -> Par s a
get (IVar cell) = par $ \w k ->
  readRef cell >>= \case
    Full a -> k w a
    Failed f -> failHere w f
    _ -> await cell w k
{-# INLINE get #-}

await :: Ref (Cell a) -> Worker -> (Worker -> a -> IO ()) -> IO ()
await cell w k = unsafeMask $ do
  t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  writeWord (workerWords w) runningWord 0
  let s = taskScope t
      me = Waiter t i k
  -- A full barrier, so that 'settle' may look afterwards.
  was <- modifyRef cell $ \case
    Empty -> (Waiting [me], Empty)
    Waiting ws -> (Waiting (me : ws), Empty)
    other -> (other, other)
  case was of
    Full a -> settle w >> start w (Work t i k a)
    Failed f -> failMasked w t f
    _ -> countParked s w >> next w s

-- | Write the value, forced to weak head normal form.
put :: IVar s a -> a -> Par s ()
put (IVar cell) a = par $ \w k -> do
  a' <- evaluate a
  first <-
    unsafeMask $
      fill cell (Full a') >>= \case
        Nobody -> pure True
        Wakes ws -> wake w a' ws >> pure True
        Already -> pure False
  if first then k w () else throwIO MultiplePut
{-# INLINE put #-}
