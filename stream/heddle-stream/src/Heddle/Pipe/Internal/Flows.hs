-- |
-- Module      : Heddle.Pipe.Internal.Flows
-- Description : Flows as stages of a pipeline
-- Stability   : internal
--
-- Cost: for a flow that is known at compile time, one step for each value, and a hop for each
-- value that goes in or comes out.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Flows
  ( fromFlow,
  )
where

import Control.Monad.IO.Class (liftIO)
import Heddle.Flow.Internal.Types
import Heddle.Pipe.Internal.Types (Pipe, await, yield)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)

-- | A flow as a pipe. All that the flow pushes for one value is kept until it is yielded, so
-- this is not for flows that push very much for one value, such as an endless @concatMap@.
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

-- Yield what is kept, oldest first.
emit :: Ref [b] -> Pipe a b ()
emit kept =
  liftIO (readRef kept) >>= \case
    [] -> pure ()
    [b] -> liftIO (writeRef kept []) *> yield b
    bs -> liftIO (writeRef kept []) *> mapM_ yield (reverse bs)
