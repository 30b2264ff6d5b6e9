-- |
-- Module      : Heddle.Filter.Internal.Types
-- Description : Filters of streams of bytes, as data
-- Stability   : internal, exempt from the version policy
--
-- What the article calls components: splitters divide a stream into sections that are true
-- or false, stages turn one stream into another. As data, they can be printed, compared,
-- rewritten, and run in more than one way.
--
-- Cost: none; values.
-- Owner: values, but for the regular expressions, which own memory of the C library.
module Heddle.Filter.Internal.Types
  ( -- * Splitters
    Splitter (..),
    CaseRule (..),
    Pattern,
    patternText,
    patternCase,
    patternRegex,
    newPattern,

    -- * Sets of bytes
    ByteSet,
    byteSet,
    byteSetFrom,
    inSet,
    setName,

    -- * Stages
    Stage (..),
    Joint (..),
    Translation,
    translation,
    translate,
    translationName,
    FieldRange (..),

    -- * Questions about them
    splittersOf,
    stagesOf,
    isSilent,
    usesNumber,
    startsCommands,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Heddle.Bytes.Regex (Regex, compileRegex, extendedDialect)
import Heddle.Bytes.Search (CaseRule (..))
import Heddle.Filter.Internal.Escapes (meaninglessEscape)

-- | What divides a stream of bytes into sections, each true or false. The sections follow
-- one another without a gap; some are empty.
data Splitter
  = -- | A row is a line with its end: every row is a true section, and nothing is false.
    Row
  | -- | The article's @line@: the bytes of a line are a true section, its end a false one.
    Line
  | -- | The longest runs of these bytes are true, the longest runs of others false.
    Runs !ByteSet
  | -- | Where this text is, from the left and without overlaps, each time a true section.
    Substring !CaseRule !ByteString
  | -- | Where a regular expression matches within a line: the first, the longest of those,
    -- and then the next behind it.
    Matching !Pattern
  | -- | True and false exchanged.
    Not Splitter
  | -- | True where both are. A section begins where one begins in either.
    And Splitter Splitter
  | -- | True where one is. A section begins where one begins in either.
    Or Splitter Splitter
  | -- | The true sections of the first in which the second finds a true one.
    Having Splitter Splitter
  | -- | The true sections of the first in which the second finds no false one.
    HavingOnly Splitter Splitter
  | -- | The true sections of the first behind which the second begins with a true one.
    FollowedBy Splitter Splitter
  | -- | So many true sections from the beginning.
    First !Int Splitter
  | -- | So many true sections before the end.
    Last !Int Splitter
  | -- | The first section, if it is true.
    Prefix Splitter
  | -- | The last section, if it is true.
    Suffix Splitter
  | -- | What is between a true section of the first and the next true one of the second.
    Between Splitter Splitter
  deriving stock (Eq, Show)

-- | A regular expression, in the syntax of POSIX (extended).
data Pattern = Pattern
  { -- | Whether the case of letters matters.
    patternCase :: !CaseRule,
    -- | As it was written.
    patternText :: !ByteString,
    patternRegex :: !Regex
  }

instance Eq Pattern where
  a == b = patternText a == patternText b && patternCase a == patternCase b

instance Show Pattern where
  showsPrec _ p = shows (patternText p)

-- | Compile a regular expression, or tell what is wrong with it. A backslash before a letter or
-- digit is refused where neither POSIX nor GNU says what it means.
--
-- [Cost]: about 10 us for each capability that uses it.
newPattern :: CaseRule -> ByteString -> IO (Either String Pattern)
newPattern rule text = case meaninglessEscape text of
  Just complaint -> pure (Left complaint)
  Nothing ->
    either (Left . Char8.unpack) (Right . Pattern rule text)
      <$> compileRegex extendedDialect (rule == IgnoreAsciiCase) text

-- | Some of the 256 bytes, and what they are called.
data ByteSet = ByteSet !String !ByteString

instance Eq ByteSet where
  ByteSet _ a == ByteSet _ b = a == b

instance Show ByteSet where
  showsPrec _ = showString . setName

-- | A set by its name and its members.
byteSet :: String -> (Word8 -> Bool) -> ByteSet
byteSet name member = ByteSet name (Bytes.pack [if member b then 1 else 0 | b <- [0 .. 255]])

-- | A set by its name, of the bytes of a text.
byteSetFrom :: String -> ByteString -> ByteSet
byteSetFrom name text = byteSet name (`Bytes.elem` text)

-- | Is it in the set?
inSet :: ByteSet -> Word8 -> Bool
inSet (ByteSet _ table) b = Bytes.unsafeIndex table (fromIntegral b) /= 0
{-# INLINE inSet #-}

-- | What it is called.
setName :: ByteSet -> String
setName (ByteSet name _) = name

-- | What turns one stream of bytes into another.
data Stage
  = -- | All of it.
    Identity
  | -- | Nothing of it.
    Suppress
  | -- | The second takes what the first gives.
    Stage :> Stage
  | -- | The same, the second on a thread of its own.
    Stage :|| Stage
  | -- | True sections through the first stage, false ones through the second, each as one
    -- stream; the two outputs in the order in which they appear.
    If Splitter Stage Stage
  | -- | Every true section by itself through a fresh copy of the first stage, every false
    -- one through one of the second.
    ForEach Splitter Stage Stage
  | -- | How many true sections there are: a decimal number and a newline, at the end.
    Count Splitter
  | -- | The number of the row in which the section begins, and this, before the input. Rows
    -- are counted in the input of the innermost 'ForEach' around it.
    Number !ByteString
  | -- | A row for each row, with its number.
    Numbers
  | -- | This first.
    Prepend !ByteString
  | -- | This at the end.
    Append !ByteString
  | -- | This at the end, and nothing of the input.
    Instead !ByteString
  | -- | Every byte by another.
    Translate !Translation
  | -- | Fields of every row: which, what separates them (nothing: blanks), what is put between.
    Fields [FieldRange] !(Maybe ByteString) !ByteString
  | -- | The same input through both stages, and their outputs joined.
    Join !Joint Stage Stage
  | -- | What a shell command makes of it.
    Command !ByteString
  deriving stock (Eq, Show)

infixl 1 :>

infixl 1 :||

-- | How two outputs become one.
data Joint
  = -- | First all of one, then all of the other.
    Appending
  | -- | A row of each by turns, then what is left of the longer.
    Interleaving
  | -- | Each row of one, without its end, before the row of the other; as many as both have.
    Zipping
  | -- | The two exchanged (@flipJoin@).
    Flipped Joint
  deriving stock (Eq, Show)

-- | A byte for each byte, and what that is called.
data Translation = Translation !String !ByteString

instance Eq Translation where
  Translation _ a == Translation _ b = a == b

instance Show Translation where
  showsPrec _ = showString . translationName

-- | A translation by its name.
translation :: String -> (Word8 -> Word8) -> Translation
translation name f = Translation name (Bytes.pack (map f [0 .. 255]))

-- | Translate a byte.
translate :: Translation -> Word8 -> Word8
translate (Translation _ table) b = Bytes.unsafeIndex table (fromIntegral b)
{-# INLINE translate #-}

-- | What it is called.
translationName :: Translation -> String
translationName (Translation name _) = name

-- | From one field to another, counted from 1; without an end, to the last.
data FieldRange = FieldRange !Int !(Maybe Int)
  deriving stock (Eq, Show)

-- | The splitters right below a stage.
splittersOf :: Stage -> [Splitter]
splittersOf = \case
  If s _ _ -> [s]
  ForEach s _ _ -> [s]
  Count s -> [s]
  _ -> []

-- | The stages right below a stage.
stagesOf :: Stage -> [Stage]
stagesOf = \case
  a :> b -> [a, b]
  a :|| b -> [a, b]
  If _ a b -> [a, b]
  ForEach _ a b -> [a, b]
  Join _ a b -> [a, b]
  _ -> []

-- | Does nothing ever come out of it? (It may be 'True' of fewer stages than it could: it looks
-- at a few levels, since it is asked at each.)
isSilent :: Stage -> Bool
isSilent = within (4 :: Int)
  where
    within levels = \case
      Suppress -> True
      If _ a b -> levels > 0 && within (levels - 1) a && within (levels - 1) b
      ForEach _ a b -> levels > 0 && within (levels - 1) a && within (levels - 1) b
      _ -> False

-- | Does it start shell commands?
startsCommands :: Stage -> Bool
startsCommands = \case
  Command _ -> True
  stage -> any startsCommands (stagesOf stage)

-- | Does it ask for the number of the row that its input begins in?
usesNumber :: Stage -> Bool
usesNumber = \case
  Number _ -> True
  -- This one counts for itself what is inside.
  ForEach {} -> False
  stage -> any usesNumber (stagesOf stage)
