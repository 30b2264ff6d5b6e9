{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- |
-- Module      : Heddle.Json.Internal.Foreign.Read
-- Description : The kernels of reading JSON
-- Stability   : internal; exempt from the version policy
--
-- See @heddle_json_read.h@. Each kernel takes an instruction set and the bytes between two addresses, and
-- answers with an offset and a status in one word.
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

-- | How far the kernel went.
--
-- [Units]: bytes.
answerOffset :: Answer -> Int
answerOffset a = fromIntegral (a `unsafeShiftR` 8)
{-# INLINE answerOffset #-}

-- | A number of @enum heddle_json_read_status@; 0 is success.
answerStatus :: Answer -> Int
answerStatus a = fromIntegral a .&. 31
{-# INLINE answerStatus #-}

-- | Is it a complete string, ASCII and without escapes?
isPlain :: Answer -> Bool
isPlain a = a .&. 255 == 0
{-# INLINE isPlain #-}

-- | Has the string a backslash?
hasEscapes :: Answer -> Bool
hasEscapes a = testBit a 5
{-# INLINE hasEscapes #-}

-- | Has the string bytes beyond ASCII?
hasHigh :: Answer -> Bool
hasHigh a = testBit a 6
{-# INLINE hasHigh #-}

-- | Has the number a minus sign?
isNegative :: Answer -> Bool
isNegative a = testBit a 5
{-# INLINE isNegative #-}

-- | Has the number more than 19 significant digits?
isInexact :: Answer -> Bool
isInexact a = testBit a 7
{-# INLINE isInexact #-}

-- | Memory that kernels write to.
type Memory = MutableByteArray RealWorld

-- | Find the end of a string, from the byte after its opening quote.
--
-- [Cost]: O(bytes), a vector at a time.
scanString :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Answer
scanString = c_string
{-# INLINE scanString #-}

-- | An upper bound of the 16-bit units that a string's bytes become.
--
-- [Cost]: O(bytes), a vector at a time.
countUnits :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int
countUnits level p end = fromIntegral <$> c_units level p end
{-# INLINE countUnits #-}

-- | Write a string's contents as UTF-16, from this unit on. Word 0 of the last argument is set to where they
-- end.
--
-- [Cost]: O(bytes).
toUtf16 :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> Int -> Memory -> IO Answer
toUtf16 level p end (MutableByteArray out) at (MutableByteArray words_) = c_utf16 level p end out (fromIntegral at) words_
{-# INLINE toUtf16 #-}

-- | As 'toUtf16', to UTF-8.
--
-- [Cost]: O(bytes).
toUtf8 :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> Int -> Memory -> IO Answer
toUtf8 level p end (MutableByteArray out) at (MutableByteArray words_) = c_utf8 level p end out (fromIntegral at) words_
{-# INLINE toUtf8 #-}

-- | Check a string's contents without writing them.
--
-- [Cost]: O(bytes).
checkContents :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Answer
checkContents = c_check
{-# INLINE checkContents #-}

-- | Write this many ASCII bytes as UTF-16.
--
-- [Cost]: O(bytes), a vector at a time.
widen :: CInt -> Ptr Word8 -> Int -> Memory -> IO ()
widen level p len (MutableByteArray out) = c_widen level p (fromIntegral len) out
{-# INLINE widen #-}

-- | Scan a number. Words 0 and 1 are set to its digits and the exponent of ten.
--
-- [Cost]: O(bytes).
scanNumber :: Ptr Word8 -> Ptr Word8 -> Memory -> IO Answer
scanNumber p end (MutableByteArray words_) = c_number p end words_
{-# INLINE scanNumber #-}

-- | Skip the rest of an array or object, a slice at a time.
--
-- [Cost]: O(bytes).
skipRest :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> IO Answer
skipRest level p end (MutableByteArray words_) = c_skip level p end words_
{-# INLINE skipRest #-}

-- | The number of commas before the first closing bracket.
--
-- [Cost]: O(bytes), a vector at a time.
countCommas :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int
countCommas level p end = fromIntegral <$> c_commas level p end
{-# INLINE countCommas #-}

-- | The most bytes that a kernel reads in one call.
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

-- Unsafe: see above; it stops by itself after a slice.
foreign import ccall unsafe "heddle_json_read_skip" c_skip :: CInt -> Ptr Word8 -> Ptr Word8 -> MutableByteArray# RealWorld -> IO Int64

-- Unsafe: see above.
foreign import ccall unsafe "heddle_json_read_commas" c_commas :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int64
