{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Search
-- Description : Byte kernels over raw blocks
-- Stability   : internal; exempt from the version policy
--
-- The calls into @cbits/heddle_search.c@ that look at single bytes; "Heddle.Bytes.Search.Block"
-- is the public face. A block is an address
-- and a length; places are offsets from the address, and -1 is nowhere.
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

-- | Which instructions a kernel may use; only those that this machine has can be named.
newtype Level = Level CInt
  deriving stock (Eq, Ord)

instance Show Level where
  show (Level code) = case code of
    0 -> "plain"
    1 -> "SSE2"
    _ -> "AVX2"

-- | As the kernels know it.
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

-- | How many bytes one call should get at most, so that other threads and the collector
-- wait less than a millisecond at worst, and some microseconds on ordinary text.
--
-- [Units]: bytes.
largestBlock :: Int
largestBlock = 262144

-- | The first place of a byte.
--
-- [Cost]: 50 to 180 GB/s in the cache.
-- [Blocks]: never.
findByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
findByteAt (Level level) = c_find level
{-# INLINE findByteAt #-}

-- | The last place of a byte.
--
-- [Cost]: 50 to 100 GB/s in the cache; plain C 4 GB/s.
-- [Blocks]: never.
findByteEndAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
findByteEndAt (Level level) = c_find_end level
{-# INLINE findByteEndAt #-}

-- | How often a byte occurs.
--
-- [Cost]: 60 to 170 GB/s in the cache; plain C 10 GB/s.
-- [Blocks]: never.
countByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> IO Int
countByteAt (Level level) = c_count level
{-# INLINE countByteAt #-}

-- | The place of a byte's n-th occurrence, counted from 1.
--
-- [Cost]: as 'countByteAt' up to there.
-- [Blocks]: never.
nthByteAt :: Level -> Ptr Word8 -> Int -> Word8 -> Int -> IO Int
nthByteAt (Level level) = c_nth level
{-# INLINE nthByteAt #-}

-- | @bytePlacesAt level block length from byte out capacity@ writes the places of a byte
-- at or after @from@, as many as there are or as fit, and says how many it wrote.
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
