-- |
-- Module      : Heddle.Filter.Internal.MemoryBudget
-- Description : Bounds what a component holds back
-- Stability   : internal, exempt from the version policy
--
-- Some components must hold bytes back until the input decides where they go. Each charges
-- them to a budget, so that memory stays bounded whatever the input is.
--
-- Cost: two words read and one written for each piece.
-- Owner: the thread that runs the machine.
module Heddle.Filter.Internal.MemoryBudget
  ( MemoryBudget,
    newBudget,
    charge,
    refund,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Heddle.Filter.Internal.Exception (TooLong (..))
import Heddle.Filter.Internal.Machine (Env (..))
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception (throwIO)

-- | How many bytes a component holds back, how many it may, and its name for messages.
data MemoryBudget = MemoryBudget !(Ref Int) !Int String

-- | A budget of the machine's limit, charged to the stage that is being made.
newBudget :: Env -> IO MemoryBudget
newBudget env = (\spent -> MemoryBudget spent (envLimit env) (envStage env)) <$> newRef 0

-- | Account for a piece that is held back.
--
-- [Throws]: 'TooLong'.
charge :: MemoryBudget -> ByteString -> IO ()
charge (MemoryBudget spent limit stage) piece = do
  before <- readRef spent
  let after = before + Bytes.length piece
  when (after > limit) (throwIO (TooLong stage limit))
  writeRef spent after

-- | Account for this many bytes that have been passed on.
refund :: MemoryBudget -> Int -> IO ()
refund (MemoryBudget spent _ _) n = readRef spent >>= \before -> writeRef spent $! before - n
