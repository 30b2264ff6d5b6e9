-- |
-- Module      : Heddle.Filter.Internal.Tokens
-- Description : The words of heddle pipe's language
-- Stability   : internal, exempt from the version policy
--
-- Cost: linear in the text.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Tokens
  ( Token (..),
    Placed (..),
    ParseError (..),
    tokenise,
    describe,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (chr, digitToInt, isAlpha, isAlphaNum, isAscii, isDigit, isHexDigit, isSpace)
import Heddle.Filter.Internal.Types (CaseRule (..))

-- | An error in an expression.
data ParseError = ParseError
  { -- | The number of bytes before the error.
    errorOffset :: !Int,
    errorMessage :: String
  }
  deriving stock (Eq, Show)

-- | A word of the language.
data Token
  = Name String
  | Number' Int
  | Text CaseRule ByteString
  | Expression CaseRule ByteString
  | Symbol String
  | End
  deriving stock (Eq)

-- | A token, and the number of bytes before it.
data Placed = Placed !Int !Token

-- | A token as messages show it.
describe :: Token -> String
describe = \case
  Name w -> "'" ++ w ++ "'"
  Number' n -> "the number " ++ show n
  Text _ _ -> "a text in double quotes"
  Expression _ _ -> "a regular expression"
  Symbol s -> "'" ++ s ++ "'"
  End -> "the end"

-- | Cut a text, a byte per character, into tokens; the last is 'End'.
tokenise :: String -> Either ParseError [Placed]
tokenise = go 0
  where
    go at = \case
      [] -> Right [Placed at End]
      '#' : rest -> let (comment, more) = break (== '\n') rest in go (at + 1 + length comment) more
      '"' : rest -> quotedText at "" (at + 1) rest
      '/' : rest -> slashedText at "" (at + 1) rest
      '|' : '|' : rest -> (Placed at (Symbol "||") :) <$> go (at + 2) rest
      c : rest
        | isAscii c && isSpace c -> go (at + 1) rest
        | c `elem` "|(),-" -> (Placed at (Symbol [c]) :) <$> go (at + 1) rest
        | isDigit c -> digits at (c : rest)
        | letter c ->
          let (w, more) = nameAt (c : rest)
           in (Placed at (Name w) :) <$> go (at + length w) more
        | otherwise ->
          Left (ParseError at "nothing is written like this; texts are in double quotes, regular expressions between slashes")
    letter c = isAscii c && isAlpha c
    -- A hyphen belongs to a name when a letter follows.
    nameAt t = case span (\c -> isAscii c && isAlphaNum c) t of
      (w, '-' : c : more) | letter c -> let (w', rest) = nameAt (c : more) in (w ++ '-' : w', rest)
      found -> found
    digits at t =
      let (ds, more) = span isDigit t
       in if length ds > 15
            then Left (ParseError at "this number is too large")
            else (Placed at (Number' (read ds)) :) <$> go (at + length ds) more
    -- Behind the closing delimiter, an i means to ignore case.
    closed at make reversed here rest = (Placed at (make rule (Char8.pack (reverse reversed))) :) <$> go (here + length flag) more
      where
        (rule, flag, more) = case rest of
          'i' : next | not (any isAlphaNum (take 1 next)) -> (IgnoreAsciiCase, "i", next)
          _ -> (CaseMatters, "", rest)
    quotedText at got here = \case
      [] -> Left (ParseError at "this text does not end; a double quote closes it")
      '"' : rest -> closed at Text got (here + 1) rest
      '\\' : 'x' : a : b : rest
        | isHexDigit a && isHexDigit b -> quotedText at (chr (16 * digitToInt a + digitToInt b) : got) (here + 4) rest
      '\\' : c : rest
        | Just meant <- lookup c escapes -> quotedText at (meant : got) (here + 2) rest
        | otherwise -> Left (ParseError here "there is no such escape; there are \\n, \\t, \\r, \\0, \\\\, \\\" and \\xHH")
      c : rest -> quotedText at (c : got) (here + 1) rest
    escapes = [('n', '\n'), ('t', '\t'), ('r', '\r'), ('0', '\0'), ('\\', '\\'), ('"', '"')]
    slashedText at got here = \case
      [] -> Left (ParseError at "this regular expression does not end; a slash closes it")
      '/' : rest -> closed at Expression got (here + 1) rest
      '\\' : '/' : rest -> slashedText at ('/' : got) (here + 2) rest
      '\\' : c : rest -> slashedText at (c : '\\' : got) (here + 2) rest
      c : rest -> slashedText at (c : got) (here + 1) rest
