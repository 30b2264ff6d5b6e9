-- |
-- Module      : Heddle.Pipe.Internal.Flows
-- Description : Flows as stages of a pipeline
-- Stability   : internal
--
-- Cost: a flow that is known when the program is compiled is one step, and a hop for each
-- value that goes in and each that comes out.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Flows
  ( fromFlow,
  )
where

import Control.Monad.IO.Class (liftIO)
import Heddle.Flow.Internal.Types
import Heddle.Pipe.Internal.Types (Pipe, await, yield)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)

-- | A flow as a pipe. What one value makes the flow push is kept until it is yielded, so a
-- flow that makes much of little, such as an endless @concatMap@, is not for this.
--
-- [Cost]: a step and two hops for each value; 24 bytes for each that is kept.
-- [Throws]: what the flow's functions throw.
fromFlow :: Flow a b -> Pipe a b ()
fromFlow (Flow flow) = do
  kept <- liftIO (newRef [])
  case flow (Sink (pure (Start () Going)) (\_ b more _ -> readRef kept >>= \bs -> writeRef kept (b : bs) >> more ()) (\_ -> pure ())) of
    Sink begin step end ->
      let loop = \case
            More s ->
              await >>= \case
                Just a -> liftIO (stepOnce step s a) >>= \n -> emit kept *> loop n
                Nothing -> liftIO (end (More s)) *> emit kept
            enough -> liftIO (end enough) *> emit kept
       in liftIO begin >>= \start' -> emit kept *> loop (begun start')
{-# INLINE fromFlow #-}

-- Yield what is kept, the first first.
emit :: Ref [b] -> Pipe a b ()
emit kept =
  liftIO (readRef kept) >>= \case
    [] -> pure ()
    [b] -> liftIO (writeRef kept []) *> yield b
    bs -> liftIO (writeRef kept []) *> mapM_ yield (reverse bs)
