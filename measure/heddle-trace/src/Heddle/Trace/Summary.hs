{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Summary
-- Description : A log's tables for a terminal
-- Stability   : stable
--
-- Cost: linear in the rows. Owner: values.
module Heddle.Trace.Summary
  ( summary,
    tableText,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (intercalate, transpose)
import Heddle.Bytes.Utf8 (Utf8, repair, toByteString)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Trace.Tables
import Heddle.Trace.Types (Trace)

-- | The title, the facts, and the 'tables' with at most the given number of threads.
summary :: ByteString -> Int -> Trace -> ByteString
summary title most t =
  Char8.unlines . map (Char8.dropWhileEnd (== ' ')) . intercalate [""] $
    [title, facts t] : map tableText (tables most t)

-- | The lines of a table: its first column to the left, the others to the right. Names are cut to 40 characters.
tableText :: Table -> [ByteString]
tableText table = concat [map line shown | not (null (tableRows table))] ++ [more | not (Bytes.null more)]
  where
    more = tableMore table
    shown = map repair (tableColumns table) : map cells (tableRows table)
    cells r = fst (Utf8.splitAt 40 (repair (rowName r))) : map (repair . cellText) (rowCells r)
    widths = map (maximum . map Utf8.length) (transpose shown)
    line = Bytes.intercalate "  " . zipWith3 pad (True : repeat False) widths
    pad :: Bool -> Int -> Utf8 -> ByteString
    pad left width cell =
      let space = Char8.replicate (width - Utf8.length cell) ' '
       in if left then toByteString cell <> space else space <> toByteString cell
