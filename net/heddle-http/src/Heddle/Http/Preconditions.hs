{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Preconditions
-- Description : The conditional headers of a parsed head
-- Stability   : internal, exempt from the version policy
--
-- Cost: five loads for a request without conditions.
-- Owner: the owner of the table.
module Heddle.Http.Preconditions
  ( preconditionsOf,
    hasPreconditions,
  )
where

import Data.ByteString qualified as B
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Conditional (Preconditions (..), noPreconditions)
import Heddle.Http.Head (HeadTable, copySlice, foldKnown, knownCount)
import Heddle.Http.Names (KnownHeader (..))

-- | The conditional headers of a parsed head.
--
-- [Cost]: O(1) without any, otherwise copies their values.
-- [Blocks]: never.
-- [Threads]: the owner of the table.
--
-- @since 0.1.0.0
preconditionsOf :: Ptr Word8 -> HeadTable -> IO Preconditions
preconditionsOf buffer table = do
  some <- hasPreconditions table
  if not some
    then pure noPreconditions
    else
      Preconditions
        <$> joined HeaderIfMatch
        <*> joined HeaderIfNoneMatch
        <*> joined HeaderIfModifiedSince
        <*> joined HeaderIfUnmodifiedSince
        <*> joined HeaderIfRange
  where
    joined known = do
      values <- foldKnown table known (\others slice -> (: others) <$> copySlice buffer slice) []
      pure (if null values then Nothing else Just (B.intercalate ", " (reverse values)))

-- | Whether a parsed head has any conditional header.
--
-- [Cost]: O(1); 0 bytes.
-- [Blocks]: never.
-- [Threads]: the owner of the table.
--
-- @since 0.1.0.0
hasPreconditions :: HeadTable -> IO Bool
hasPreconditions table = do
  a <- knownCount table HeaderIfMatch
  b <- knownCount table HeaderIfNoneMatch
  c <- knownCount table HeaderIfModifiedSince
  d <- knownCount table HeaderIfUnmodifiedSince
  e <- knownCount table HeaderIfRange
  pure (a + b + c + d + e > 0)
