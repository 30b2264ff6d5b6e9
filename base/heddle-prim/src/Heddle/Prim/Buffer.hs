{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Buffer
-- Description : Pinned memory, and pools of it
-- Stability   : stable
--
-- A 'Buffer' is pinned memory whose address may be given to the kernel. A 'Pool' lends objects to
-- threads while they have work, so that an idle connection owns none.
--
-- Cost: borrowing is one compare-and-set; a pool keeps as many objects as were lent at once, up to its limit.
-- Owner: the borrower, between 'borrow' and 'giveBack'.
module Heddle.Prim.Buffer
  ( -- * Buffers
    Buffer,
    newBuffer,
    bufferSize,
    bufferPtr,
    keepAlive,
    withBuffer,

    -- * Sharing
    bufferForeign,
    bufferArray,
    arrayBuffer,
    foreignAddress,

    -- * Pools
    Pool,
    newPool,
    borrow,
    giveBack,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray
  ( ByteArray,
    MutableByteArray (..),
    getSizeofMutableByteArray,
    mutableByteArrayContents,
    newAlignedPinnedByteArray,
    unsafeFreezeByteArray,
    unsafeThawByteArray,
  )
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import GHC.Exts (touch#)
import GHC.ForeignPtr (ForeignPtr (..), ForeignPtrContents (..), unsafeForeignPtrToPtr)
import GHC.IO (IO (..))
import GHC.Ptr qualified as Ptr (Ptr (..))
import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Unsafe (unsafeInlined)

-- | Pinned, writable memory.
newtype Buffer = Buffer (MutableByteArray RealWorld)

-- | A buffer of this many bytes, not cleared, aligned to a cache line.
--
-- [Cost]: O(1); the bytes.
-- [Units]: bytes.
newBuffer :: Int -> IO Buffer
newBuffer n = Buffer <$> newAlignedPinnedByteArray n 64

-- | The size given to 'newBuffer'.
--
-- [Units]: bytes.
bufferSize :: Buffer -> Int
bufferSize (Buffer b) = unsafeInlined (getSizeofMutableByteArray b) -- which never changes
{-# INLINE bufferSize #-}

-- | Its address, valid while the buffer is reachable: follow the last use with
-- 'keepAlive'.
bufferPtr :: Buffer -> Ptr Word8
bufferPtr (Buffer b) = mutableByteArrayContents b
{-# INLINE bufferPtr #-}

-- | Keep the memory reachable up to this point.
keepAlive :: Buffer -> IO ()
keepAlive (Buffer (MutableByteArray b)) = IO (\s -> (# touch# b s, () #))
{-# INLINE keepAlive #-}

-- | Use the address; the memory is kept until the action returns.
withBuffer :: Buffer -> (Ptr Word8 -> IO a) -> IO a
withBuffer b use = do
  r <- use (bufferPtr b)
  keepAlive b
  pure r
{-# INLINE withBuffer #-}

-- | Its memory from this byte on, as a pointer that keeps the whole buffer.
--
-- [Cost]: O(1); the pointer; no finalizer.
-- [Units]: the offset is in bytes, at most 'bufferSize'.
bufferForeign :: Buffer -> Int -> ForeignPtr Word8
bufferForeign buffer@(Buffer (MutableByteArray b)) offset = case bufferPtr buffer `plusPtr` offset of
  Ptr.Ptr address -> ForeignPtr address (PlainPtr b)
{-# INLINE bufferForeign #-}

-- | Its memory as an array, without a copy. It must not be written to afterwards.
--
-- [Cost]: O(1).
-- [Blocks]: never.
bufferArray :: Buffer -> IO ByteArray
bufferArray (Buffer b) = unsafeFreezeByteArray b
{-# INLINE bufferArray #-}

-- | The memory of a pinned array as a buffer, without a copy. It must not be written to. If the array is
-- not pinned, the address becomes wrong when the array moves.
--
-- [Cost]: O(1).
-- [Blocks]: never.
arrayBuffer :: ByteArray -> IO Buffer
arrayBuffer array = Buffer <$> unsafeThawByteArray array
{-# INLINE arrayBuffer #-}

-- | The address of memory that its owner keeps alive: follow the last use with
-- 'Foreign.ForeignPtr.touchForeignPtr'.
--
-- [Cost]: O(1).
foreignAddress :: ForeignPtr a -> Ptr a
foreignAddress = unsafeForeignPtrToPtr
{-# INLINE foreignAddress #-}

-- | Reusable objects. Free ones beyond a limit are dropped.
data Pool a = Pool
  { poolMake :: IO a,
    -- | Bounds the free objects, so that memory taken by a burst is released.
    poolLimit :: !Int,
    poolFree :: !(Ref (Free a))
  }

-- A list; each cell stores the length from it to the end.
data Free a = None | Free !Int !a !(Free a)

-- | A pool that keeps at most this many free objects. The action makes one when none is free.
newPool :: Int -> IO a -> IO (Pool a)
newPool limit make = Pool make limit <$> newRef None

-- | Borrow one.
--
-- [Cost]: one compare-and-set, or the action that makes one.
-- [Blocks]: never.
borrow :: Pool a -> IO a
borrow p = do
  found <- modifyRef (poolFree p) $ \case
    None -> (None, Nothing)
    Free _ x rest -> (rest, Just x)
  maybe (poolMake p) pure found
{-# INLINE borrow #-}

-- | Give one back; the caller must not use it again.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
giveBack :: Pool a -> a -> IO ()
giveBack p !x = modifyRef (poolFree p) $ \case
  None -> (Free 1 x None, ())
  free@(Free n _ _)
    | n >= poolLimit p -> (free, ())
    | otherwise -> (Free (n + 1) x free, ())
{-# INLINE giveBack #-}
