-- |
-- Module      : Heddle.Tls.PerCapability
-- Description : Staging buffers and signing locks
-- Stability   : hidden
--
-- What the sessions of a capability share, whichever listener or client they belong to: buffers for the records of one
-- write, and a lock that lets one long signature after the other be computed.
--
-- Cost: borrowing is one compare-and-set; up to 16 free buffers of 81 KiB are kept for each capability.
-- Owner: the process.
module Heddle.Tls.PerCapability
  ( borrowStaging,
    giveBackStaging,
    stagingSize,
    pieceSize,
    signing,
  )
where

import Heddle.Prim.Atomic (Table, newTable, readEntry, tableSize, writeEntry)
import Heddle.Prim.Buffer (Buffer, Pool, borrow, giveBack, newBuffer, newPool)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Thread (getCapabilities)

data Shared = Shared !(Pool Buffer) !Lock

-- By capability; capabilities that were added later share with others.
table :: Table Shared
table = unsafeGlobal $ do
  n <- getCapabilities
  entries <- make >>= newTable n
  mapM_ (\i -> make >>= writeEntry entries i) [1 .. n - 1]
  pure entries
  where
    make = Shared <$> newPool 16 (newBuffer stagingSize) <*> newLock
{-# NOINLINE table #-}

entryOf :: Int -> IO Shared
entryOf capability = readEntry table (capability `rem` tableSize table)

-- | Four records with their headers and tags, and what other calls have left to be sent before them.
--
-- [Units]: bytes.
stagingSize :: Int
stagingSize = 5 * (16384 + 256)

-- | The plain bytes of four records: what one write encrypts at most.
--
-- [Units]: bytes.
pieceSize :: Int
pieceSize = 65536

-- | Borrow a buffer of 'stagingSize' bytes of a capability. One that is not given back is left to the collector.
--
-- [Cost]: one compare-and-set, or the making of a buffer.
-- [Blocks]: never.
borrowStaging :: Int -> IO Buffer
borrowStaging capability = entryOf capability >>= \(Shared pool _) -> borrow pool

-- | Give it back.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
giveBackStaging :: Int -> Buffer -> IO ()
giveBackStaging capability buffer = entryOf capability >>= \(Shared pool _) -> giveBack pool buffer

-- | Run a step that may compute a long signature, one at a time for each capability.
--
-- [Blocks]: parks while another signs.
-- [Masking]: waiting is interruptible; the step runs masked.
signing :: Int -> IO a -> IO a
signing capability step = entryOf capability >>= \(Shared _ lock) -> withLock lock step
