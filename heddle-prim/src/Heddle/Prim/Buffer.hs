-- |
-- Module      : Heddle.Prim.Buffer
-- Description : Pinned bytes, lent from a pool
-- Stability   : stable
--
-- A 'Buffer' is pinned memory whose address may be given to the kernel. A 'Pool' lends
-- things to threads while they have work, so that an idle connection owns none.
--
-- Cost: borrowing is one compare-and-set; a pool keeps what it lent at its busiest, up to
-- its limit.
-- Owner: the borrower, between 'borrow' and 'giveBack'.
module Heddle.Prim.Buffer
  ( -- * Buffers
    Buffer,
    newBuffer,
    bufferSize,
    bufferPtr,
    keepAlive,
    withBuffer,

    -- * Pools
    Pool,
    newPool,
    borrow,
    giveBack,
    lent,
  )
where

import Control.Monad.Primitive (RealWorld, touch)
import Data.Primitive.ByteArray
  ( MutableByteArray,
    mutableByteArrayContents,
    newAlignedPinnedByteArray,
    sizeofMutableByteArray,
  )
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Prim.Atomic (Stack, Words, fetchAdd, newStack, newWords, pop, push, readWord)

-- | Pinned, writable memory.
newtype Buffer = Buffer (MutableByteArray RealWorld)

-- | So many bytes, not cleared, aligned to a cache line.
--
-- [Cost]: O(1); the bytes.
-- [Units]: bytes.
newBuffer :: Int -> IO Buffer
newBuffer n = Buffer <$> newAlignedPinnedByteArray n 64

-- | Its size.
--
-- [Units]: bytes.
bufferSize :: Buffer -> Int
bufferSize (Buffer b) = sizeofMutableByteArray b
{-# INLINE bufferSize #-}

-- | Its address, valid while the buffer is reachable: follow the last use with
-- 'keepAlive'.
bufferPtr :: Buffer -> Ptr Word8
bufferPtr (Buffer b) = mutableByteArrayContents b
{-# INLINE bufferPtr #-}

-- | Keep the memory until here.
keepAlive :: Buffer -> IO ()
keepAlive (Buffer b) = touch b
{-# INLINE keepAlive #-}

-- | Use the address while the memory is kept.
withBuffer :: Buffer -> (Ptr Word8 -> IO a) -> IO a
withBuffer b use = do
  r <- use (bufferPtr b)
  keepAlive b
  pure r
{-# INLINE withBuffer #-}

-- | Things lent out and taken back. Free ones beyond a limit are dropped.
data Pool a = Pool
  { poolMake :: IO a,
    -- | A bound, so that one burst is not kept for ever.
    poolLimit :: !Int,
    poolFree :: !(Stack a),
    -- | Word 0: how many are lent; word 8, on its own cache line: how many are free.
    poolCounts :: !Words
  }

-- | A pool that keeps at most so many free things, made by the action when none is free.
newPool :: Int -> IO a -> IO (Pool a)
newPool limit make = Pool make limit <$> newStack <*> newWords 16

-- | Borrow one.
--
-- [Cost]: one compare-and-set, or the making.
-- [Blocks]: never.
borrow :: Pool a -> IO a
borrow p = do
  _ <- fetchAdd (poolCounts p) 0 1
  pop (poolFree p) >>= \case
    Just x -> x <$ fetchAdd (poolCounts p) 8 (-1)
    Nothing -> poolMake p

-- | Give one back; the caller must not use it again.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
giveBack :: Pool a -> a -> IO ()
giveBack p x = do
  _ <- fetchAdd (poolCounts p) 0 (-1)
  free <- fetchAdd (poolCounts p) 8 1
  if free >= poolLimit p
    then () <$ fetchAdd (poolCounts p) 8 (-1)
    else push (poolFree p) x

-- | How many are lent now.
lent :: Pool a -> IO Int
lent p = readWord (poolCounts p) 0
