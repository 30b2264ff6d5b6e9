-- |
-- Module      : Heddle.Filter.Internal.AsyncBoundary
-- Description : Stages on threads of their own
-- Stability   : internal, exempt from the version policy
--
-- The stages after ':||' run on another thread, which gets batches of pieces through
-- a bounded queue, in order.
--
-- A stage that fails on its own thread stops the run: its exception reaches the thread that
-- runs the machine, wherever that waits.
--
-- Cost: a few microseconds for each batch that goes to another thread.
-- Owner: the run's scope, which ends the thread.
module Heddle.Filter.Internal.AsyncBoundary
  ( asyncBoundary,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Heddle.Filter.Internal.Batch
import Heddle.Filter.Internal.Machine
import Heddle.Filter.Internal.Worker
import Heddle.Pipe.Queue (Queue, Taken (..))
import Heddle.Pipe.Queue qualified as Queue
import Heddle.Prim.Exception

-- How many batches the upstream thread may be ahead.
batchesAhead :: Int
batchesAhead = 8

-- | @asyncBoundary below above sink@ runs @sink@, which was made with @below@, on a thread of
-- its own. The result is a sink for the stage upstream, which is made with @above@.
--
-- [Throws]: at the end of the run, the thread's exception.
asyncBoundary :: Env -> Env -> Sink -> IO Sink
asyncBoundary below above to = do
  queue <- Queue.newQueue batchesAhead
  worker <- startWorker above (envBoundaries below) "filter/stage" (pushBatches below queue to `onException` Queue.refuse queue)
  batch <- newBatch (Queue.put queue)
  onFlush above (void (passOn batch))
  pure $
    Sink (append batch) $ do
      _ <- passOn batch
      Queue.finish queue ()
      joinWorker worker
      failureSoFar above

-- Push batches into a sink until there are no more, or it wants no more.
pushBatches :: Env -> Queue ByteString () -> Sink -> IO ()
pushBatches env queue to = loop >> finish to
  where
    loop =
      Queue.take queue >>= \case
        Finished () -> pure ()
        Item batch -> do
          wanted <- push to batch
          if wanted
            then flushAll env >> loop
            else Queue.refuse queue >> Queue.awaitFinish queue
