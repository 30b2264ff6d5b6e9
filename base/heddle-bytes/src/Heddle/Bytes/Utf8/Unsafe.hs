-- |
-- Module      : Heddle.Bytes.Utf8.Unsafe
-- Description : Utf8 from bytes that were validated elsewhere
-- Stability   : stable
--
-- For parsers that have validated their whole input as UTF-8 and return slices of it.
--
-- Cost: none.
-- Owner: a 'Utf8' keeps the memory that it is a slice of.
module Heddle.Bytes.Utf8.Unsafe
  ( unsafeUtf8,
  )
where

import Data.ByteString (ByteString)
import Heddle.Bytes.Internal.Utf8 (Utf8 (..))

-- | The text that these bytes are.
--
-- Unsafe: they must be well-formed UTF-8 (RFC 3629). Functions of "Heddle.Bytes.Utf8" give wrong answers for other
-- bytes, and may read behind them.
--
-- [Cost]: none.
unsafeUtf8 :: ByteString -> Utf8
unsafeUtf8 = Utf8
{-# INLINE unsafeUtf8 #-}
