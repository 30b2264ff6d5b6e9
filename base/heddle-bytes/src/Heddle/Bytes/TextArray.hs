-- |
-- Module      : Heddle.Bytes.TextArray
-- Description : The array of a Text
-- Stability   : follows the version of text
--
-- For encoders and decoders that read or fill the array of a Text without a copy. Only this module depends on the
-- representation, which in Debian 12's text 1.2 is UTF-16.
--
-- Cost: O(1) each.
-- Owner: the array is the Text's, and must not change.
module Heddle.Bytes.TextArray
  ( textArray,
    unsafeText,
  )
where

import Data.Primitive.ByteArray (ByteArray (..))
import Data.Text (Text)
import Data.Text.Array qualified as Array
import Data.Text.Internal (Text (..))

-- | The array of a text, its offset and its length.
--
-- [Units]: offset and length count 16-bit units.
textArray :: Text -> (ByteArray, Int, Int)
textArray (Text array offset len) = (ByteArray (Array.aBA array), offset, len)
{-# INLINE textArray #-}

-- | The text at this offset and of this length in an array.
--
-- Unsafe: it must be valid UTF-16, and never change.
--
-- [Units]: offset and length count 16-bit units.
unsafeText :: ByteArray -> Int -> Int -> Text
unsafeText (ByteArray array) = Text (Array.Array array)
{-# INLINE unsafeText #-}
