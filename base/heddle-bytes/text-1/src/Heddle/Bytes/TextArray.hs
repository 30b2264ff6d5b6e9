-- |
-- Module      : Heddle.Bytes.TextArray
-- Description : The array of a Text
-- Stability   : follows the version of text
--
-- For encoders and decoders that read or fill the array of a Text without a copy. A unit is an element of that array:
-- 16 bits of UTF-16 in text 1, a byte of UTF-8 in text 2. The package is compiled for the version that is installed.
--
-- Cost: O(1) each.
-- Owner: the array is the Text's, and must not change.
module Heddle.Bytes.TextArray
  ( Unit,
    unitSize,
    textArray,
    unsafeText,
  )
where

import Data.Primitive.ByteArray (ByteArray (..))
import Data.Text (Text)
import Data.Text.Array qualified as Array
import Data.Text.Internal (Text (..))
import Data.Word (Word16)

-- | An element of a text's array.
type Unit = Word16

-- | The size of a unit.
--
-- [Units]: bytes.
unitSize :: Int
unitSize = 2
{-# INLINE unitSize #-}

-- | The array of a text, its offset and its length.
--
-- [Units]: offset and length count units.
textArray :: Text -> (ByteArray, Int, Int)
textArray (Text array offset len) = (ByteArray (Array.aBA array), offset, len)
{-# INLINE textArray #-}

-- | The text at this offset and of this length in an array.
--
-- Unsafe: the units must be valid UTF-16 in text 1 and valid UTF-8 in text 2, and never change.
--
-- [Units]: offset and length count units.
unsafeText :: ByteArray -> Int -> Int -> Text
unsafeText (ByteArray array) = Text (Array.Array array)
{-# INLINE unsafeText #-}
