-- |
-- Module      : Heddle.Gateway.Ascii
-- Description : Case and numbers in headers and variables
-- Stability   : internal, exempt from the version policy
--
-- Names of headers are ASCII. 'Data.Char.toLower' looks a character up in Unicode's tables, about 100 instructions for each byte.
--
-- Cost: O(length).
-- Owner: values.
module Heddle.Gateway.Ascii
  ( lowered,
    upperByte,
    decimal,
    dotted,
  )
where

import Control.Monad (foldM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (unsafeCreateUptoN)
import Data.Word (Word8)
import Foreign.Ptr (minusPtr, plusPtr)
import Foreign.Storable (poke)
import Heddle.Bytes.Decimal (maxDecimalLength, pokeDecimal)

-- | With ASCII's capitals in lower case; other bytes stay.
lowered :: ByteString -> ByteString
lowered = B.map (\b -> if b - 0x41 < 26 then b + 0x20 else b)

-- | An ASCII letter as a capital; any other byte unchanged.
upperByte :: Word8 -> Word8
upperByte b = if b - 0x61 < 26 then b - 0x20 else b
{-# INLINE upperByte #-}

-- | A number's digits.
decimal :: Int -> ByteString
decimal n = B.unsafeCreateUptoN maxDecimalLength (\p -> (`minusPtr` p) <$> pokeDecimal p n)

-- | At most four numbers, with dots between them.
dotted :: [Int] -> ByteString
dotted numbers = B.unsafeCreateUptoN (4 * (maxDecimalLength + 1)) $ \start ->
  (`minusPtr` start) <$> foldM (\p n -> (if p == start then pure p else (p `plusPtr` 1) <$ poke p 0x2E) >>= (`pokeDecimal` n)) start (take 4 numbers)
