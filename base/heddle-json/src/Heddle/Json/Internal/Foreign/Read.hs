{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- |
-- Module      : Heddle.Json.Internal.Foreign.Read
-- Description : The kernels of reading JSON
-- Stability   : internal; exempt from the version policy
--
-- See @heddle_json_read.h@. Each takes a level, and memory from an address up to another. The
-- answers are an offset and a status in one word.
--
-- Cost: a call, without a change of thread.
-- Owner: the memory is the caller's.
module Heddle.Json.Internal.Foreign.Read
  ( -- * Answers
    Answer,
    answerOffset,
    answerStatus,
    isPlain,
    hasEscapes,
    hasHigh,
    isNegative,
    isInexact,

    -- * Kernels
    Memory,
    scanString,
    countUnits,
    toUtf16,
    toUtf8,
    checkContents,
    widen,
    scanNumber,
    skipRest,
    countCommas,

    -- * Sizes
    sliceSize,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Bits (testBit, unsafeShiftR, (.&.))
import Data.Int (Int64)
import Data.Primitive.ByteArray (MutableByteArray (..))
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import GHC.Exts (MutableByteArray#)

-- | An offset and a status.
type Answer = Int64

-- | How far it went.
--
-- [Units]: bytes.
answerOffset :: Answer -> Int
answerOffset a = fromIntegral (a `unsafeShiftR` 8)
{-# INLINE answerOffset #-}

-- | A number of @enum heddle_json_read_status@; 0: all is well.
answerStatus :: Answer -> Int
answerStatus a = fromIntegral a .&. 31
{-# INLINE answerStatus #-}

-- | A whole string of ASCII without escapes.
isPlain :: Answer -> Bool
isPlain a = a .&. 255 == 0
{-# INLINE isPlain #-}

-- | A string with a backslash.
hasEscapes :: Answer -> Bool
hasEscapes a = testBit a 5
{-# INLINE hasEscapes #-}

-- | A string with bytes that are not ASCII.
hasHigh :: Answer -> Bool
hasHigh a = testBit a 6
{-# INLINE hasHigh #-}

-- | A number with a minus.
isNegative :: Answer -> Bool
isNegative a = testBit a 5
{-# INLINE isNegative #-}

-- | A number of more than 19 significant digits.
isInexact :: Answer -> Bool
isInexact a = testBit a 7
{-# INLINE isInexact #-}

-- | Memory to write to.
type Memory = MutableByteArray RealWorld

-- | Where a string ends, from behind its opening quote.
--
-- [Cost]: O(bytes), a vector at a time.
scanString :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Answer
scanString = c_string
{-# INLINE scanString #-}

-- | At most how many 16-bit units a string's bytes become.
--
-- [Cost]: O(bytes), a vector at a time.
countUnits :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int
countUnits level p end = fromIntegral <$> c_units level p end
{-# INLINE countUnits #-}

-- | A string's contents as UTF-16, from this unit on; word 0 of the last argument gets where
-- it ended.
--
-- [Cost]: O(bytes).
toUtf16 :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> Int -> Memory -> IO Answer
toUtf16 level p end (MutableByteArray out) at (MutableByteArray words_) = c_utf16 level p end out (fromIntegral at) words_
{-# INLINE toUtf16 #-}

-- | The same as UTF-8.
--
-- [Cost]: O(bytes).
toUtf8 :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> Int -> Memory -> IO Answer
toUtf8 level p end (MutableByteArray out) at (MutableByteArray words_) = c_utf8 level p end out (fromIntegral at) words_
{-# INLINE toUtf8 #-}

-- | The same without a result.
--
-- [Cost]: O(bytes).
checkContents :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Answer
checkContents = c_check
{-# INLINE checkContents #-}

-- | This many bytes of ASCII as UTF-16.
--
-- [Cost]: O(bytes), a vector at a time.
widen :: CInt -> Ptr Word8 -> Int -> Memory -> IO ()
widen level p len (MutableByteArray out) = c_widen level p (fromIntegral len) out
{-# INLINE widen #-}

-- | A number; words 0 and 1 get its digits and the power of ten.
--
-- [Cost]: O(bytes).
scanNumber :: Ptr Word8 -> Ptr Word8 -> Memory -> IO Answer
scanNumber p end (MutableByteArray words_) = c_number p end words_
{-# INLINE scanNumber #-}

-- | The rest of an array or object, in slices.
--
-- [Cost]: O(bytes).
skipRest :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> IO Answer
skipRest level p end (MutableByteArray words_) = c_skip level p end words_
{-# INLINE skipRest #-}

-- | How many commas before the first closing bracket.
--
-- [Cost]: O(bytes), a vector at a time.
countCommas :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int
countCommas level p end = fromIntegral <$> c_commas level p end
{-# INLINE countCommas #-}

-- | How many bytes a kernel gets at once.
--
-- [Units]: bytes.
sliceSize :: Int
sliceSize = 32768

-- Unsafe, all of them: they only compute, over at most a slice, and never sleep.
foreign import ccall unsafe "heddle_json_read_string" c_string :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_units" c_units :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_utf16"
  c_utf16 :: CInt -> Ptr Word8 -> Ptr Word8 -> MutableByteArray# RealWorld -> Int64 -> MutableByteArray# RealWorld -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_utf8"
  c_utf8 :: CInt -> Ptr Word8 -> Ptr Word8 -> MutableByteArray# RealWorld -> Int64 -> MutableByteArray# RealWorld -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_check" c_check :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_widen" c_widen :: CInt -> Ptr Word8 -> Int64 -> MutableByteArray# RealWorld -> IO ()

-- Unsafe: see above; numbers have at most a slice's length.
foreign import ccall unsafe "heddle_json_read_number" c_number :: Ptr Word8 -> Ptr Word8 -> MutableByteArray# RealWorld -> IO Int64

-- Unsafe: see above; it stops behind a slice by itself.
foreign import ccall unsafe "heddle_json_read_skip" c_skip :: CInt -> Ptr Word8 -> Ptr Word8 -> MutableByteArray# RealWorld -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_commas" c_commas :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int64
