-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Ring
-- Description : Tables in which indices go round
-- Stability   : internal
--
-- Where the deque and the private stack keep their entries: index i lies in slot i modulo the
-- capacity, which is a power of two, so that indices can grow for ever.
--
-- Cost: a slot is one bitwise and.
-- Owner: the table's.
module Heddle.Sched.Ring
  ( slotOf,
    doubled,
  )
where

import Control.Monad (forM_)
import Data.Bits ((.&.))
import Heddle.Prim.Atomic (Table, newTable, readEntry, tableSize, writeEntry)

-- | The slot of an index.
slotOf :: Table a -> Int -> Int
slotOf table i = i .&. (tableSize table - 1)
{-# INLINE slotOf #-}

-- | A table of twice the capacity with the entries of some indices, from the first to the one
-- before the second; all other slots hold the void.
--
-- [Cost]: O(capacity).
-- [Threads]: only the owner of the table may write to it meanwhile.
doubled :: Table a -> a -> Int -> Int -> IO (Table a)
doubled table void from to = do
  larger <- newTable (2 * tableSize table) void
  forM_ [from .. to - 1] $ \i -> readEntry table (slotOf table i) >>= writeEntry larger (slotOf larger i)
  pure larger
