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
-- Between brackets, POSIX takes a backslash for itself, so @[\\d]@ is a backslash or the letter d, @[ \\t]@ has no tab,
-- and @[\\]]@ ends at its first @]@, where most other languages escape. So only two backslashes, which are one in either
-- reading, are accepted there.
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

-- | A message about the first escape that is undefined or has no effect, if there is one.
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
      '\\' : '\\' : rest -> inside rest
      '\\' : c : _ -> Just (complaintInside c)
      _ : rest -> inside rest
      [] -> Nothing
    named c = \case
      a : ']' : rest | a == c -> inside rest
      _ : rest -> named c rest
      [] -> Nothing

complaintInside :: Char -> String
complaintInside c = "between brackets, POSIX takes the backslash of \\" ++ [c] ++ " for itself; " ++ instead ++ ", and a backslash is \\\\"
  where
    instead = case c of
      'd' -> "a digit is 0-9 there, as in [0-9a-f]"
      'w' -> "what \\w matches is [[:alnum:]_]"
      's' -> "what \\s matches is [[:space:]]"
      't' -> "a tab is written as it is, and [[:blank:]] is a blank or a tab"
      'n' -> "an expression matches within a line, without its newline"
      'r' -> "a carriage return is written as it is, and [[:cntrl:]] is any control character"
      'h' -> "a blank or a tab is [[:blank:]]"
      'x' -> "a byte is written as it is; texts in double quotes know \\xHH"
      ']' -> "a ] is the first there, as in []a] and [^]a]"
      '^' -> "a ^ stands for itself there unless it is the first"
      '-' -> "a - is the last there, as in [a-]"
      _ | isAscii c, isAlphaNum c -> "the character itself is " ++ [c]
      _ -> "the " ++ [c] ++ " needs none"

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
