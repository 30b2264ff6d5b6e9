{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Search
-- Description : Byte kernels over raw blocks
-- Stability   : internal; exempt from the version policy
--
-- The calls into @cbits/heddle_search.c@ that search for single bytes; "Heddle.Bytes.Search.Block" is
-- their public module. A block is an address and a length. Results are offsets from the address; -1 means
-- that there is none.
--
-- Each kernel exists at several levels: plain C, and one for each vector extension. All
-- give the same answers, so programs take 'bestLevel'; tests and measurements take each
-- of 'levels'.
--
-- Cost: a call is about 3 ns and allocates nothing; per byte see each kernel. The calls are
-- unsafe: they hold the capability, so a block should not exceed 'largestBlock'.
-- Owner: the block is the caller's, and must not change during the call.
module Heddle.Bytes.Internal.Search
  ( -- * Levels
    Level,
    levelCode,
    bestLevel,
    levels,

    -- * Blocks
    largestBlock,

    -- * Bytes
    findByteAt,
    findByteEndAt,
    countByteAt,
    nthByteAt,
    bytePlacesAt,
  )
where

import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import Heddle.Prim.Unsafe (unsafePure)

-- | The instruction set of a kernel. There are only values for those of this machine.
newtype Level = Level CInt
  deriving stock (Eq, Ord)

instance Show Level where
  show (Level code) = case code of
    0 -> "plain"
    1 -> "SSE2"
    _ -> "AVX2"

-- | Its number in C.
levelCode :: Level -> CInt
levelCode (Level code) = code
{-# INLINE levelCode #-}

-- | The highest level of this machine, asked once.
bestLevel :: Level
bestLevel = unsafePure (Level <$> c_best)
{-# NOINLINE bestLevel #-}

-- | All levels of this machine, from plain C up.
levels :: [Level]
levels = map Level [0 .. levelCode bestLevel]

-- | The most bytes that one call should get. Other threads and the collector then wait some microseconds
-- on ordinary text, and less than a millisecond at worst.
--
-- [Units]: bytes.
largestBlock :: Int
largestBlock = 262144

-- | The offset of a byte's first occurrence.
--
-- [Cost]: 50 to 180 GB/s in the cache.
-- [Blocks]: never.
findByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
findByteAt (Level level) = c_find level
{-# INLINE findByteAt #-}

-- | The offset of a byte's last occurrence.
--
-- [Cost]: 50 to 100 GB/s in the cache; plain C 4 GB/s.
-- [Blocks]: never.
findByteEndAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
findByteEndAt (Level level) = c_find_end level
{-# INLINE findByteEndAt #-}

-- | The number of a byte's occurrences.
--
-- [Cost]: 60 to 170 GB/s in the cache; plain C 10 GB/s.
-- [Blocks]: never.
countByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
countByteAt (Level level) = c_count level
{-# INLINE countByteAt #-}

-- | The offset of a byte's n-th occurrence, counted from 1.
--
-- [Cost]: as 'countByteAt' up to there.
-- [Blocks]: never.
nthByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> Int -> IO Int
nthByteAt (Level level) = c_nth level
{-# INLINE nthByteAt #-}

-- | @bytePlacesAt level block length from byte out capacity@ writes the offsets of a byte's occurrences
-- at or after @from@, at most @capacity@ of them, and returns how many it wrote.
--
-- [Cost]: about 1 ns each, and 20 GB/s in between; plain C 2 GB/s.
-- [Blocks]: never.
-- [Units]: @capacity@ counts 'Int's.
bytePlacesAt :: Level -> Ptr Word8 -> Int -> Int -> Word8 -> Ptr Int -> Int -> IO Int
bytePlacesAt (Level level) = c_places level
{-# INLINE bytePlacesAt #-}

-- Unsafe: asks the processor.
foreign import ccall unsafe "heddle_search_best" c_best :: IO CInt

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_search_find" c_find :: CInt -> Ptr Word8 -> Int -> Word8 -> IO Int

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_search_find_end" c_find_end :: CInt -> Ptr Word8 -> Int -> Word8 -> IO Int

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_search_count" c_count :: CInt -> Ptr Word8 -> Int -> Word8 -> IO Int

-- Unsafe: passes over the caller's bytes once, and twice over 2 KiB of them, without a system call.
foreign import ccall unsafe "heddle_search_nth" c_nth :: CInt -> Ptr Word8 -> Int -> Word8 -> Int -> IO Int

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_search_places"
  c_places :: CInt -> Ptr Word8 -> Int -> Int -> Word8 -> Ptr Int -> Int -> IO Int
