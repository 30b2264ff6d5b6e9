-- |
-- Module      : Heddle.Filter.Internal.Escapes
-- Description : Undefined escapes in regular expressions
-- Stability   : internal, exempt from the version policy
--
-- POSIX does not define a backslash before an ordinary character. The C library ignores such a
-- backslash, so @\\d@ silently matches the letter d. Such expressions are refused here, with a
-- hint what to write instead. GNU's extensions stay:
-- @\\w \\W \\s \\S \\b \\B \\< \\> \\\` \\'@ and the back references @\\1@ to @\\9@. A backslash before
-- punctuation is that character.
--
-- Cost: linear in the expression.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Escapes
  ( meaninglessEscape,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlphaNum, isAscii)

-- | A message about the first undefined escape, if there is one. Between brackets, a backslash
-- is an ordinary character.
meaninglessEscape :: ByteString -> Maybe String
meaninglessEscape = outside . Char8.unpack
  where
    outside = \case
      '\\' : c : rest
        | isAscii c, isAlphaNum c, c `notElem` "wWsSbB123456789" -> Just (complaint c)
        | otherwise -> outside rest
      '[' : '^' : ']' : rest -> inside rest
      '[' : '^' : rest -> inside rest
      '[' : ']' : rest -> inside rest
      '[' : rest -> inside rest
      _ : rest -> outside rest
      [] -> Nothing
    inside = \case
      '[' : c : rest | c `elem` ".:=" -> named c rest
      ']' : rest -> outside rest
      _ : rest -> inside rest
      [] -> Nothing
    named c = \case
      a : ']' : rest | a == c -> inside rest
      _ : rest -> named c rest
      [] -> Nothing

complaint :: Char -> String
complaint c = "\\" ++ [c] ++ " has no meaning in a POSIX extended expression; " ++ instead
  where
    instead = case c of
      'd' -> "a digit is [0-9]"
      'D' -> "what is no digit is [^0-9]"
      't' -> "a tab is written as it is, and [[:blank:]] is a blank or a tab"
      'n' -> "an expression matches within a line, without its newline"
      'r' -> "a carriage return is written as it is, and [[:cntrl:]] is any control character"
      'h' -> "a blank or a tab is [[:blank:]]"
      'A' -> "the beginning of a line is ^"
      'z' -> "the end of a line is $"
      'Z' -> "the end of a line is $"
      'x' -> "a byte is written as it is; texts in double quotes know \\xHH"
      _ -> "the character itself is " ++ [c]
