-- |
-- Module      : Heddle.Filter.Internal.Fields
-- Description : Fields of rows
-- Stability   : internal, exempt from the version policy
--
-- Cost: linear in the row.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Fields
  ( selectFields,
    oneField,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Heddle.Filter.Internal.Types

-- | @selectFields ranges separator between row@: the fields in these ranges, in this order, with
-- @between@ between them, and the row's newline. Missing fields are left out. Without a
-- separator, fields are separated by runs of blanks and tabs; those at the ends of the row are
-- ignored.
selectFields :: [FieldRange] -> Maybe ByteString -> ByteString -> ByteString -> ByteString
selectFields ranges separator between row = Bytes.intercalate between (concatMap chosen ranges) <> newline
  where
    (text, newline)
      | not (Bytes.null row) && Bytes.last row == 0x0a = (Bytes.init row, Bytes.singleton 0x0a)
      | otherwise = (row, Bytes.empty)
    fields = maybe (filter (not . Bytes.null) (Bytes.splitWith (\b -> b == 0x20 || b == 0x09) text)) (`splitOn` text) separator
    chosen (FieldRange from to) = maybe id (\t -> take (t - from + 1)) to (drop (from - 1) fields)

-- | The field of this number, and the row's newline: both are parts of the row, perhaps empty.
--
-- [Cost]: linear in the row up to the field's end; nothing is copied.
oneField :: Int -> Maybe ByteString -> ByteString -> (ByteString, ByteString)
oneField number separator row = (maybe (blankField number text) (separatedField number text) separator, newline)
  where
    (text, newline)
      | not (Bytes.null row) && Bytes.unsafeLast row == 0x0a = Bytes.splitAt (Bytes.length row - 1) row
      | otherwise = (row, Bytes.empty)

-- The n-th run of bytes that are neither blanks nor tabs.
blankField :: Int -> ByteString -> ByteString
blankField number text = skip number 0
  where
    end = Bytes.length text
    blank i = let b = Bytes.unsafeIndex text i in b == 0x20 || b == 0x09
    skip :: Int -> Int -> ByteString
    skip n i
      | i >= end = Bytes.empty
      | blank i = skip n (i + 1)
      | otherwise = run n i i
    run n from i
      | i < end && not (blank i) = run n from (i + 1)
      | n == 1 = Bytes.unsafeTake (i - from) (Bytes.unsafeDrop from text)
      | otherwise = skip (n - 1) i

separatedField :: Int -> ByteString -> ByteString -> ByteString
separatedField number text separator
  | Bytes.length separator == 1 = go number text
  | otherwise = Bytes.concat (take 1 (drop (number - 1) (splitOn separator text)))
  where
    byte = Bytes.head separator
    go n rest = case Bytes.elemIndex byte rest of
      Nothing -> if n == 1 then rest else Bytes.empty
      Just i
        | n == 1 -> Bytes.unsafeTake i rest
        | otherwise -> go (n - 1) (Bytes.unsafeDrop (i + 1) rest)

-- The separator is not empty.
splitOn :: ByteString -> ByteString -> [ByteString]
splitOn separator text
  | Bytes.length separator == 1 = if Bytes.null text then [text] else Bytes.split (Bytes.head separator) text
  | otherwise = case Bytes.breakSubstring separator text of
    (field, rest)
      | Bytes.null rest -> [field]
      | otherwise -> field : splitOn separator (Bytes.unsafeDrop (Bytes.length separator) rest)
