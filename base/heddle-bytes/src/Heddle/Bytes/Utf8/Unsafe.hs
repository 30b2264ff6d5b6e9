-- |
-- Module      : Heddle.Bytes.Utf8.Unsafe
-- Description : Utf8 from bytes that were validated elsewhere
-- Stability   : stable
--
-- For parsers that have validated their whole input as UTF-8 and return slices of it.
--
-- Cost: none.
-- Owner: a 'Utf8' keeps the memory alive of which it is a slice.
module Heddle.Bytes.Utf8.Unsafe
  ( unsafeUtf8,
  )
where

import Data.ByteString (ByteString)
import Heddle.Bytes.Internal.Utf8 (Utf8 (..))

-- | Bytes as text, without a check.
--
-- Unsafe: the bytes must be well-formed UTF-8 (RFC 3629). For other bytes, functions of "Heddle.Bytes.Utf8" return
-- wrong results, and may read beyond their end.
--
-- [Cost]: none.
unsafeUtf8 :: ByteString -> Utf8
unsafeUtf8 = Utf8
{-# INLINE unsafeUtf8 #-}
