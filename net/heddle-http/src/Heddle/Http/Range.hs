{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Range
-- Description : Byte ranges of a representation
-- Stability   : stable
--
-- Reads a Range header against the size of what is served, and writes
-- Content-Range. Ranges that overlap or touch are joined, and a set of too many is
-- ignored, so that no header makes a response larger than the file and its part
-- headers.
--
-- Everything here is pure.
module Heddle.Http.Range
  ( -- * Ranges
    ByteRange (..),
    rangeLength,

    -- * Reading a header
    RangeAnswer (..),
    parseRange,
    mostRanges,

    -- * Writing a header
    contentRange,
    contentRangeUnsatisfied,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Int (Int64)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (mapMaybe)
import Heddle.Http.Scan (isBlank, isDigitByte, lowerByte)

-- | The bytes from one position to another, both included, counted from 0.
data ByteRange = ByteRange
  { rangeFirst :: !Int64,
    rangeLast :: !Int64
  }
  deriving stock (Eq, Ord, Show)

-- | How many bytes a range has.
--
-- [Cost]: O(1).
--
-- @since 0.1.0.0
rangeLength :: ByteRange -> Int64
rangeLength (ByteRange first final) = final - first + 1

-- | What a Range header asks of a representation.
data RangeAnswer
  = -- | Malformed, of another unit, or too many: answer 200 with everything.
    RangeIgnored
  | -- | Well formed, but nothing of it exists: answer 416.
    RangeUnsatisfiable
  | -- | These parts exist: answer 206. They neither overlap nor touch, and keep
    -- the order of the header.
    RangeParts !(NonEmpty ByteRange)
  deriving stock (Eq, Show)

-- | The most ranges that are served from one header.
--
-- [Cost]: none.
--
-- @since 0.1.0.0
mostRanges :: Int
mostRanges = 32

-- | Read the value of a Range header, for a representation of this many bytes.
--
-- >>> parseRange "bytes=0-1,8-" 10
-- RangeParts (ByteRange {rangeFirst = 0, rangeLast = 1} :| [ByteRange {rangeFirst = 8, rangeLast = 9}])
--
-- Ranges that overlap or touch are joined, in the place of the first of them. A
-- suffix of an empty representation is the whole of it, which no Content-Range can
-- express, and so is ignored. Empty list elements are skipped. Positions too large
-- for a number are beyond any representation.
--
-- Law (@parts@): parts lie inside the representation and are disjoint, and a byte
-- is in one of them exactly if it is in one of the requested ranges.
--
-- [Cost]: O(length of the header); its ranges, at most 'mostRanges'.
-- [Source]: RFC 9110, sections 14.1.2 and 14.2.
--
-- @since 0.1.0.0
parseRange :: ByteString -> Int64 -> RangeAnswer
parseRange header size
  | B.map lowerByte unit /= "bytes" = RangeIgnored
  | B.null rest || B.length rest > 4096 = RangeIgnored
  | otherwise = case traverse parseSpec elements of
    Nothing -> RangeIgnored
    Just [] -> RangeIgnored
    Just specs
      | length specs > mostRanges -> RangeIgnored
      | size <= 0, any isSuffix specs -> RangeIgnored
      | otherwise -> case foldl join [] (mapMaybe (resolve size) specs) of
        [] -> RangeUnsatisfiable
        part : parts -> RangeParts (part :| parts)
  where
    (unit, rest) = B.break (== 0x3D) header
    elements = filter (not . B.null) (map trim (C.split ',' (B.drop 1 rest)))

-- | One range as it was written.
data Spec
  = -- | From a position to another, or to the end.
    FromTo !Int64 !Int64
  | -- | This many bytes at the end.
    Suffix !Int64

isSuffix :: Spec -> Bool
isSuffix = \case
  Suffix n -> n > 0
  FromTo _ _ -> False

parseSpec :: ByteString -> Maybe Spec
parseSpec spec = case (B.null before, B.null after) of
  _ | B.null dashed -> Nothing
  (True, True) -> Nothing
  (True, False) -> Suffix <$> position after
  (False, True) -> (`FromTo` maxBound) <$> position before
  (False, False) -> do
    first <- position before
    final <- position after
    if final < first then Nothing else Just (FromTo first final)
  where
    (before, dashed) = B.break (== 0x2D) spec
    after = B.drop 1 dashed

-- | Digits; a number too large is the largest.
position :: ByteString -> Maybe Int64
position digits
  | B.all isDigitByte digits = Just (B.foldl' add 0 digits)
  | otherwise = Nothing
  where
    add n byte
      | n > (maxBound - 9) `quot` 10 = maxBound
      | otherwise = n * 10 + fromIntegral byte - 48

-- | The part of a representation that a range selects, if any.
resolve :: Int64 -> Spec -> Maybe ByteRange
resolve size = \case
  FromTo first final
    | first < size -> Just (ByteRange first (min final (size - 1)))
  Suffix n
    | n > 0, size > 0 -> Just (ByteRange (max 0 (size - n)) (size - 1))
  _ -> Nothing

-- | Add a range to disjoint ones, joined with those that it overlaps or touches.
join :: [ByteRange] -> ByteRange -> [ByteRange]
join [] new = [new]
join (old : others) new
  | apart = old : join others new
  | otherwise = foldl join [] (hull : others)
  where
    apart = rangeLast old + 1 < rangeFirst new || rangeLast new + 1 < rangeFirst old
    hull = ByteRange (min (rangeFirst old) (rangeFirst new)) (max (rangeLast old) (rangeLast new))

trim :: ByteString -> ByteString
trim = B.dropWhile isBlank . B.dropWhileEnd isBlank

-- | The value of Content-Range for a part of a representation of this many bytes.
--
-- >>> contentRange (ByteRange 0 1) 10
-- "bytes 0-1/10"
--
-- [Cost]: O(digits).
-- [Source]: RFC 9110, section 14.4.
--
-- @since 0.1.0.0
contentRange :: ByteRange -> Int64 -> ByteString
contentRange (ByteRange first final) size =
  B.concat ["bytes ", decimal first, "-", decimal final, "/", decimal size]

-- | The value of Content-Range for a 416 about a representation of this many bytes.
--
-- >>> contentRangeUnsatisfied 10
-- "bytes */10"
--
-- [Cost]: O(digits).
-- [Source]: RFC 9110, section 15.5.17.
--
-- @since 0.1.0.0
contentRangeUnsatisfied :: Int64 -> ByteString
contentRangeUnsatisfied size = "bytes */" <> decimal size

decimal :: Int64 -> ByteString
decimal = C.pack . show
