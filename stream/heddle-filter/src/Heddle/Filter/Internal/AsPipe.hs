-- |
-- Module      : Heddle.Filter.Internal.AsPipe
-- Description : Stages of byte streams in pipelines
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
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Rewrite
import Heddle.Filter.Internal.Staging
import Heddle.Filter.Internal.Types
import Heddle.Pipe (Pipe, await, bracketP, yield)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)

-- | A stage as a pipe of chunks. What may be held back is limited to so many bytes. ':||' is
-- ':>' here (for a thread of its own, see 'Heddle.Pipe.buffered'), and a command gives what
-- it gives when it has ended.
--
-- [Cost]: the stage's, and a hop for each chunk.
-- [Blocks]: where a command does.
-- [Throws]: 'StageFailed', 'TooLong'.
stagePipe :: Int -> Stage -> Pipe ByteString ByteString ()
stagePipe limit stage = bracketP (openEnv limit) closeEnv $ \env -> do
  kept <- liftIO (newRef [])
  sink <- liftIO (machine (fst (rewrite stage)) env (ignoring (\piece -> readRef kept >>= \ps -> writeRef kept (piece : ps)) (pure ())))
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
