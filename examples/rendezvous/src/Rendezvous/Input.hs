-- |
-- Module      : Rendezvous.Input
-- Description : Files read, and what is wrong with them
-- Stability   : example
--
-- Parsers are functions from bytes; a complaint says what is wrong, and where it is known, in which line.
module Rendezvous.Input
  ( Complaint (..),
    Result,
    complain,

    -- * Numbers
    parseIntegers,
    parseDecimals,
    decimal,
    quoted,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.Primitive.PrimArray (PrimArray, primArrayFromList)
import Data.Primitive.Types (Prim)

-- | A line, if there is one to blame, and what is wrong.
data Complaint = Complaint !(Maybe Int) !String
  deriving stock (Eq, Show)

-- | What was read.
type Result = Either Complaint

-- | @FILE:LINE: what is wrong@.
complain :: FilePath -> Complaint -> String
complain file (Complaint line what) = file <> maybe "" ((':' :) . show) line <> ": " <> what

-- | Whole numbers between white space, at least one.
parseIntegers :: ByteString -> Result (PrimArray Int)
parseIntegers = parseWords decimal "a whole number of 64 bits"

-- | Numbers such as @-1.5e3@ between white space, at least one.
parseDecimals :: ByteString -> Result (PrimArray Double)
parseDecimals = parseWords fraction "a number"

-- | What each word must be, and what that is called.
parseWords :: Prim a => (ByteString -> Maybe a) -> String -> ByteString -> Result (PrimArray a)
parseWords parse what text = do
  list <- mapM number (placedWords text)
  if null list then Left empty else Right (primArrayFromList list)
  where
    number (line, word) = case parse word of
      Just n -> Right n
      Nothing -> Left (Complaint (Just line) (quoted word <> " is not " <> what))

empty :: Complaint
empty = Complaint Nothing "has no numbers in it"

placedWords :: ByteString -> [(Int, ByteString)]
placedWords text = [(n, word) | (n, line) <- zip [1 ..] (C.lines text), word <- C.words line]

-- | A whole number that fits into 64 bits, and nothing else.
decimal :: ByteString -> Maybe Int
decimal word
  -- A number longer than this cannot fit, and would take long to read.
  | C.length word > 40 = Nothing
  | otherwise = case C.readInteger word of
    Just (n, rest) | C.null rest, n >= fromIntegral (minBound :: Int), n <= fromIntegral (maxBound :: Int) -> Just (fromIntegral n)
    _ -> Nothing

fraction :: ByteString -> Maybe Double
fraction word
  | C.length word > 400 || C.length whole + C.length part == 0 = Nothing
  | otherwise = do
    exponent10 <- exponentOf afterPart
    let digits = foldl (\n c -> n * 10 + fromIntegral (fromEnum c - 48)) 0 (C.unpack whole <> C.unpack part) :: Integer
        scale = exponent10 - C.length part
        magnitude = fromRational (if scale >= 0 then fromIntegral digits * 10 ^ scale else fromIntegral digits / 10 ^ negate scale)
    Just (if negative then negate magnitude else magnitude)
  where
    (negative, unsigned) = case C.uncons word of
      Just ('-', rest) -> (True, rest)
      Just ('+', rest) -> (False, rest)
      _ -> (False, word)
    (whole, afterWhole) = C.span isDigit unsigned
    (part, afterPart) = case C.uncons afterWhole of
      Just ('.', rest) -> C.span isDigit rest
      _ -> (C.empty, afterWhole)
    exponentOf rest = case C.uncons rest of
      Nothing -> Just 0
      Just (e, digits)
        | e `elem` "eE", Just n <- decimal digits, abs n <= 400 -> Just n
      _ -> Nothing

-- | For a message, cut to a readable length.
quoted :: ByteString -> String
quoted word
  | C.length word > 40 = show (C.take 37 word) <> "..."
  | otherwise = show word
