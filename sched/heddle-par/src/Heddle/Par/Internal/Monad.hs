{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE RoleAnnotations #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}

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
import Control.Monad.ST (RealWorld)
import Data.Coerce (coerce)
import Heddle.Prim.Unsafe (oneShot)
import Heddle.Sched (Cell, Worker)
import Heddle.Sched qualified as Sched

-- | A parallel computation. The type @s@ keeps its IVars inside one run: a pure run is
-- for all @s@; in 'Heddle.Par.IO.ParIO' it is 'RealWorld', and effects are allowed.
--
-- [Cost]: a bind is a function call.
newtype Par s a = Par {unPar :: Worker -> (Worker -> a -> IO ()) -> IO ()}

-- Nominal, because 'Data.Coerce.coerce' could otherwise take an IVar out of its run.
type role Par nominal representational

type role IVar nominal representational

{- HLINT ignore par "Avoid lambda" -}
-- oneShot is about lambdas.
{- HLINT ignore once "Avoid lambda" -}
-- The same.

-- | The only way a computation is made: its code is entered once each time it is run, so
-- GHC need not share anything between runs, and compiles binds to straight code.
par :: (Worker -> (Worker -> a -> IO ()) -> IO ()) -> Par s a
par f = Par (oneShot (\worker -> oneShot (\continue -> f worker continue)))
{-# INLINE par #-}

-- | Tells GHC that a continuation is called once, so that it need not share what is computed
-- before its arguments are there.
once :: (Worker -> a -> IO ()) -> Worker -> a -> IO ()
once continue = oneShot (\worker -> oneShot (\a -> continue worker a))
{-# INLINE once #-}

instance Functor (Par s) where
  fmap f (Par m) = par (\worker continue -> m worker (once (\after a -> continue after (f a))))
  {-# INLINE fmap #-}

instance Applicative (Par s) where
  pure a = par (\worker continue -> continue worker a)
  {-# INLINE pure #-}
  Par mf <*> Par ma =
    par (\worker continue -> mf worker (once (\after f -> ma after (once (\final a -> continue final (f a))))))
  {-# INLINE (<*>) #-}
  Par ma *> Par mb = par (\worker continue -> ma worker (once (\after _ -> mb after continue)))
  {-# INLINE (*>) #-}

instance Monad (Par s) where
  Par m >>= f = par (\worker continue -> m worker (once (\after a -> unPar (f a) after continue)))
  {-# INLINE (>>=) #-}

-- | Effects run on the worker's thread, unmasked; what parks there parks the worker.
instance s ~ RealWorld => MonadIO (Par s) where
  liftIO io = par (\w k -> io >>= k w)
  {-# INLINE liftIO #-}

-- | A cell that is written once. Reading waits for it.
newtype IVar s a = IVar (Cell a)

-- Forking --------------------------------------------------------------------

-- | Run a task in parallel with what follows.
fork :: Par s () -> Par s ()
fork (Par p) = par (Sched.fork p)
{-# INLINE fork #-}

-- | 'fork'. The result is 'True' if another worker stole what follows, so that the task may
-- still be running. If it is 'False', the task has ended, on this worker, or waits for an IVar.
--
-- [Cost]: as 'fork'.
-- [Blocks]: never.
forkStolen :: Par s () -> Par s Bool
forkStolen (Par p) = par (Sched.forkStolen p)
{-# INLINE forkStolen #-}

-- | A task whose result, forced to weak head normal form, or whose failure goes into an IVar.
spawn :: Par s a -> Par s (IVar s a)
spawn (Par p) = par (\w k -> Sched.spawn p w (coerce k))
{-# INLINE spawn #-}

-- | The number of the worker that runs this task now, from 0. It remains the same until the
-- next operation on tasks or IVars; numbers are dense, so they may index a table of what each
-- worker owns.
--
-- [Cost]: one read.
-- [Blocks]: never.
workerIndex :: Par s Int
workerIndex = par (\w k -> k w (Sched.workerIndex w))

-- IVars ----------------------------------------------------------------------

-- | An empty IVar.
new :: Par s (IVar s a)
new = par (\w k -> Sched.newCell >>= k w . IVar)
{-# INLINE new #-}

-- | An IVar that is full already.
newFull :: a -> Par s (IVar s a)
newFull !a = par (\w k -> Sched.newFullCell a >>= k w . IVar)
{-# INLINE newFull #-}

-- | The value; the task waits until there is one.
get :: IVar s a -> Par s a
get (IVar cell) = par (Sched.readCell cell)
{-# INLINE get #-}

-- | Write the value, forced to weak head normal form.
put :: IVar s a -> a -> Par s ()
put (IVar cell) a = par (Sched.writeCell cell a)
{-# INLINE put #-}
