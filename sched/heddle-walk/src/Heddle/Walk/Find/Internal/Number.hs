{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Number
-- Description : Numbers with a sign that compares
-- Stability   : internal, exempt from the version policy
--
-- The arguments @+n@ (more), @-n@ (less) and @n@ (exactly), counted or in time.
--
-- Cost: O(n). Owner: values.
module Heddle.Walk.Find.Internal.Number
  ( -- * Counts
    Comparison (..),
    Count (..),
    parseCount,
    matchesCount,
    parseSize,
    SizeProblem (..),
    parseUnsigned,
    parseNatural,
    Natural (..),

    -- * Times
    Window (..),
    windowBefore,
    matchesWindow,
    Age (..),
    parseAge,
    matchesAge,
    splitComparison,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit, ord)
import Data.Int (Int64)
import Data.Word (Word64)
import Heddle.Walk.Find.Internal.System (Timestamp (..), decimalNumber)

-- | How a sign compares.
data Comparison = Less | Exactly | More
  deriving stock (Eq, Show)

-- | A number of things, compared.
data Count = Count !Comparison !Word64
  deriving stock (Eq, Show)

-- | Take the sign off.
splitComparison :: ByteString -> (Comparison, ByteString)
splitComparison text = case Char8.uncons text of
  Just ('+', rest) -> (More, rest)
  Just ('-', rest) -> (Less, rest)
  _ -> (Exactly, text)

-- | A sign and a number, nothing else.
--
-- [Cost]: O(n).
parseCount :: ByteString -> Maybe Count
parseCount text = Count comparison <$> parseUnsigned rest
  where
    (comparison, rest) = splitComparison text

-- | As strtoumax(3), without its minus sign.
--
-- [Cost]: O(n).
parseUnsigned :: ByteString -> Maybe Word64
parseUnsigned text
  | Char8.null digits || Char8.any (not . isDigit) digits = Nothing
  | value > fromIntegral (maxBound :: Word64) = Nothing
  | otherwise = Just (fromInteger value)
  where
    trimmed = Char8.dropWhile (`elem` " \t\n\v\f\r") text
    digits = case Char8.uncons trimmed of
      Just ('+', rest) -> rest
      _ -> trimmed
    value = Char8.foldl' (\n d -> n * 10 + toInteger (ord d - ord '0')) 0 digits

-- | Does a number satisfy it?
matchesCount :: Count -> Word64 -> Bool
matchesCount (Count comparison n) = case comparison of
  Less -> (< n)
  Exactly -> (== n)
  More -> (> n)
{-# INLINE matchesCount #-}

-- | Why an argument of @-size@ is refused.
data SizeProblem = NoSize | BadUnit Char | BadSize
  deriving stock (Eq, Show)

-- | A count and the bytes of its unit.
parseSize :: ByteString -> Either SizeProblem (Count, Word64)
parseSize text = case Char8.unsnoc text of
  Nothing -> Left NoSize
  Just (number, unit) -> case unit of
    'b' -> of' number 512
    'c' -> of' number 1
    'w' -> of' number 2
    'k' -> of' number 1024
    'M' -> of' number 1048576
    'G' -> of' number 1073741824
    _ | isDigit unit -> of' text 512
    _ -> Left (BadUnit unit)
  where
    of' number bytes = maybe (Left BadSize) (\count -> Right (count, bytes)) (parseCount number)

-- | What a decimal without sign is.
data Natural = NotNatural | TooLarge | Natural !Int
  deriving stock (Eq, Show)

-- | Digits only, up to 2147483647.
parseNatural :: ByteString -> Natural
parseNatural text
  | Char8.null text || Char8.any (not . isDigit) text = NotNatural
  | value > 2147483647 = TooLarge
  | otherwise = Natural (fromInteger value)
  where
    value = Char8.foldl' (\n d -> n * 10 + toInteger (ord d - ord '0')) 0 text

-- | A stretch of time: after a moment, before it, or after the first up to the second.
data Window
  = After !Timestamp
  | Before !Timestamp
  | Within !Timestamp !Timestamp
  deriving stock (Eq, Show)

-- | @windowBefore origin unit text@: a number of units of seconds before the origin. More
-- means longer ago. 'Nothing' when malformed; times out of range are moved to its end.
windowBefore :: Timestamp -> Int64 -> ByteString -> Maybe Window
windowBefore (Timestamp seconds nanos) unit text = do
  let (comparison, rest) = splitComparison text
  number <- decimalNumber rest
  if isNaN number then Nothing else Just (window comparison (number * fromIntegral unit))
  where
    window comparison back = case comparison of
      Less -> After moment
      More -> Before moment
      Exactly -> Within moment (let Timestamp s n = moment in Timestamp (s + unit) n)
      where
        near = max (-1e17) (min 1e17 back)
        whole = truncate near :: Int64
        part = truncate ((near - fromIntegral whole) * 1e9) :: Int64
        carried = nanos - part
        moment = Timestamp (seconds - whole + carried `div` 1000000000) (carried `mod` 1000000000)

-- | Is a moment in the window?
matchesWindow :: Window -> Timestamp -> Bool
matchesWindow window t = case window of
  After moment -> t > moment
  Before moment -> t < moment
  Within from to -> t > from && t <= to

-- | A number of days between two moments of a file.
data Age = Age !Comparison !Double
  deriving stock (Eq, Show)

-- | Days, with a sign.
parseAge :: ByteString -> Maybe Age
parseAge text = case decimalNumber rest of
  Just days | not (isNaN days) -> Just (Age comparison days)
  _ -> Nothing
  where
    (comparison, rest) = splitComparison text

-- | Does the time from the first moment to the second satisfy it? Never when negative.
matchesAge :: Age -> Timestamp -> Timestamp -> Bool
matchesAge (Age comparison days) (Timestamp s n) (Timestamp a b)
  | seconds < 0 = False
  | otherwise = case comparison of
    Less -> seconds < limit
    More -> seconds > limit
    Exactly -> seconds >= limit - 86400 && seconds < limit
  where
    seconds = fromIntegral (a - s) + fromIntegral (b - n) / 1e9 :: Double
    limit = days * 86400
