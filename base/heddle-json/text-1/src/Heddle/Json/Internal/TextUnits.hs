{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.TextUnits
-- Description : Kernels between JSON strings and the units of a Text: UTF-16
-- Stability   : internal; exempt from the version policy
--
-- For text 1; see "Heddle.Bytes.TextArray". The module of the same name in @text-2@ has the same interface.
--
-- Cost: the kernels'.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Json.Internal.TextUnits
  ( mostUnits,
    fillPlain,
    fillContents,
    pokeText,
  )
where

import Data.Primitive.ByteArray (ByteArray)
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr)
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.Foreign.Write (Progress, pokeUtf16)

-- | An upper bound of the units that a string's bytes become.
--
-- [Cost]: O(bytes), a vector at a time.
mostUnits :: CInt -> Ptr Word8 -> Ptr Word8 -> IO Int
mostUnits = countUnits
{-# INLINE mostUnits #-}

-- | Fill an array with this many ASCII bytes.
--
-- [Cost]: O(bytes), a vector at a time.
fillPlain :: CInt -> Ptr Word8 -> Int -> Memory -> IO ()
fillPlain = widen
{-# INLINE fillPlain #-}

-- | Write a string's contents, from this unit on. Word 0 of the last argument is set to where they end.
--
-- [Cost]: O(bytes).
fillContents :: CInt -> Ptr Word8 -> Ptr Word8 -> Memory -> Int -> Memory -> IO Answer
fillContents = toUtf16
{-# INLINE fillContents #-}

-- | Write a text's units as the contents of a JSON string: level, array, offset, length, output, its size in bytes.
--
-- [Cost]: a foreign call.
-- [Units]: offset and length count units.
pokeText :: CInt -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Progress
pokeText = pokeUtf16
{-# INLINE pokeText #-}
