-- |
-- Module      : Heddle.Json.Malformed
-- Description : Errors in JSON: reason, offset and path
-- Stability   : stable
--
-- The only error of heddle-json: checking, decoding and streaming return it as 'Left', and throw nothing. It is an
-- exception for programs that want to throw it.
--
-- Cost: made once, at an error; finding the path reads the text again up to the error.
-- Owner: a value.
module Heddle.Json.Malformed
  ( Malformed (..),
    Step (..),
    Reason (..),
    showPath,
    showReason,
    lineAndColumn,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlphaNum, isAscii)
import Data.Text (Text)
import Data.Text qualified as Text
import Heddle.Prim.Exception (Exception (..))

-- | Why a text was refused.
data Malformed = Malformed
  { -- | The number of bytes before the first wrong one.
    malformedOffset :: !Int,
    -- | From the outermost value to the wrong one.
    malformedPath :: ![Step],
    -- | The kind of error.
    malformedReason :: !Reason
  }
  deriving stock (Eq, Show)

-- | One step into a value.
data Step
  = -- | The value of this key.
    InKey !Text
  | -- | The element of this number, counted from 0.
    InElement !Int
  deriving stock (Eq, Show)

-- | The kind of error.
data Reason
  = -- | The text ended within a value, or there was none.
    Truncated
  | -- | Unexpected input: what is allowed here.
    Expected !String
  | -- | A value of another kind: the expected and the actual one.
    WrongKind !String !String
  | -- | Text after the value.
    TrailingBytes
  | -- | A control character (below U+0020) in a string.
    ControlCharacter
  | -- | A backslash that begins no escape.
    BadEscape
  | -- | Half of a surrogate pair, as an escape.
    LoneSurrogate
  | -- | Bytes that are not UTF-8.
    InvalidUtf8
  | -- | A byte order mark at the beginning.
    ByteOrderMark
  | -- | A number outside the range of a type: the type.
    OutOfRange !String
  | -- | A number with too many digits: the limit.
    NumberTooLong !Int
  | -- | An exponent of ten above the limit, in a number that is not zero: the limit.
    ExponentTooLarge !Int
  | -- | Nested more deeply than the limit.
    TooDeep !Int
  | -- | More bytes than the limit.
    TooLarge !Int
  | -- | A key that the object has already.
    DuplicateKey !Text
  | -- | A required key that the object lacks.
    MissingKey !Text
  | -- | A key that the record does not have.
    UnknownKey !Text
  | -- | The message of a decoder's own check.
    Refused !String
  deriving stock (Eq, Show)

instance Exception Malformed where
  displayException (Malformed offset path reason) =
    "JSON: " <> showReason reason <> " (at byte " <> show offset <> ", " <> showPath path <> ")"

-- | A path in JavaScript's notation, from @$@: @$.users[3]["full name"]@.
showPath :: [Step] -> String
showPath = ('$' :) . concatMap step
  where
    step (InElement n) = "[" <> show n <> "]"
    step (InKey key)
      | plain key = '.' : Text.unpack key
      | otherwise = "[" <> show (Text.unpack key) <> "]"
    plain key = not (Text.null key) && Text.all (\c -> isAscii c && (isAlphaNum c || c == '_')) key

-- | A reason as a phrase, for messages.
showReason :: Reason -> String
showReason = \case
  Truncated -> "the text ends too early"
  Expected what -> "expected " <> what
  WrongKind wanted found -> "expected " <> wanted <> ", found " <> found
  TrailingBytes -> "there is something after the value"
  ControlCharacter -> "a control character in a string; it has to be escaped"
  BadEscape -> "a backslash that does not begin an escape"
  LoneSurrogate -> "half of a surrogate pair"
  InvalidUtf8 -> "invalid UTF-8"
  ByteOrderMark -> "a byte order mark, which JSON does not have"
  OutOfRange what -> "the number does not fit " <> what
  NumberTooLong most -> "a number of more than " <> show most <> " characters"
  ExponentTooLarge most -> "an exponent of ten beyond " <> show most
  TooDeep most -> "nested more than " <> show most <> " levels deep"
  TooLarge most -> "more than " <> show most <> " bytes"
  DuplicateKey key -> "the key " <> show key <> " is there twice"
  MissingKey key -> "the key " <> show key <> " is missing"
  UnknownKey key -> "the key " <> show key <> " is not known"
  Refused why -> why

-- | Line and column of an offset, both counted from 1, the column in bytes.
--
-- [Cost]: O(offset).
lineAndColumn :: ByteString -> Int -> (Int, Int)
lineAndColumn text offset = (1 + Char8.count '\n' before, 1 + offset - lineStart)
  where
    before = Char8.take offset text
    lineStart = maybe 0 (+ 1) (Char8.elemIndexEnd '\n' before)
