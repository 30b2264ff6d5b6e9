-- |
-- Module      : Heddle.Filter.Internal.AsPipe
-- Description : Stages as pipes
-- Stability   : internal, exempt from the version policy
--
-- Cost: that of the stage's machine, and a hop for each chunk.
-- Owner: the thread of the pipeline.
module Heddle.Filter.Internal.AsPipe
  ( stagePipe,
  )
where

import Control.Monad.IO.Class (liftIO)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Heddle.Filter.Internal.Lowering
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Rewrite
import Heddle.Filter.Internal.Types
import Heddle.Pipe (Pipe, await, bracketP, yield)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)

-- | A stage as a pipe of chunks; the number limits what the stage may hold back. ':||' is ':>'
-- here (see 'Heddle.Pipe.buffered' for a thread of its own), and a command's output is yielded
-- when the command has ended.
--
-- [Cost]: the stage's, and a hop for each chunk.
-- [Blocks]: as the stage's commands do.
-- [Throws]: 'StageFailed', 'TooLong'.
-- [Units]: bytes.
stagePipe :: Int -> Stage -> Pipe ByteString ByteString ()
stagePipe limit stage = bracketP (openEnv limit) closeEnv $ \env -> do
  kept <- liftIO (newRef [])
  sink <- liftIO (lowerStage (fst (rewrite stage)) env (ignoring (\piece -> readRef kept >>= \ps -> writeRef kept (piece : ps)) (pure ())))
  let emit = do
        pieces <- liftIO (readRef kept)
        liftIO (writeRef kept [])
        mapM_ yield (reverse pieces)
      end' = liftIO (finish sink) *> emit
      go =
        await >>= \case
          Nothing -> end'
          Just chunk
            | Bytes.null chunk -> go
            | otherwise -> liftIO (push sink chunk) >>= \wanted -> emit *> (if wanted then go else end')
  go
