-- |
-- Module      : Heddle.Filter.Internal.Types
-- Description : Filters of streams of bytes, as data
-- Stability   : internal, exempt from the version policy
--
-- The article's components: splitters divide a stream into sections that are true or false,
-- stages turn one stream into another. Since they are data, they can be printed, compared,
-- rewritten, and run in more than one way.
--
-- Cost: none; values.
-- Owner: values; regular expressions own memory of the C library.
module Heddle.Filter.Internal.Types
  ( -- * Splitters
    Splitter (..),
    CaseRule (..),
    Pattern,
    patternText,
    patternCase,
    patternRegex,
    patternNeedle,
    patternSieve,
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
    translateAll,
    translationName,
    FieldRange (..),

    -- * Properties
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
import Data.ByteString.Internal (create)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Regex (Regex, compileRegex, extendedDialect)
import Heddle.Bytes.Search (CaseRule (..), Needle, newNeedles)
import Heddle.Filter.Internal.Escapes (meaninglessEscape)
import Heddle.Filter.Internal.Required (requiredTexts)
import Heddle.Filter.Internal.Sieve (Sieve, newSieve)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | Divides a stream of bytes into sections, each true or false. The sections cover the whole
-- stream; some are empty.
data Splitter
  = -- | A row is a line with its newline. Every row is a true section; none are false.
    Row
  | -- | The article's @line@: the bytes of a line are a true section, its newline a false one.
    Line
  | -- | The longest runs of bytes in the set are true, the longest runs of other bytes false.
    Runs !ByteSet
  | -- | Each occurrence of the text is a true section, from the left and without overlaps.
    Substring !CaseRule !ByteString
  | -- | Each match of the expression within a line is a true section: the leftmost, of those
    -- the longest, then the next one after it.
    Matching !Pattern
  | -- | The same sections with true and false exchanged.
    Not Splitter
  | -- | The bytes that are true for both. A section begins where one begins for either.
    And Splitter Splitter
  | -- | The bytes that are true for at least one. A section begins where one begins for either.
    Or Splitter Splitter
  | -- | The true sections of the first in which the second finds a true one.
    Having Splitter Splitter
  | -- | The true sections of the first in which the second finds no false one.
    HavingOnly Splitter Splitter
  | -- | The true sections of the first after which the second begins with a true one.
    FollowedBy Splitter Splitter
  | -- | The first true sections, this many.
    First !Int Splitter
  | -- | The last true sections, this many.
    Last !Int Splitter
  | -- | The first section, if it is true.
    Prefix Splitter
  | -- | The last section, if it is true.
    Suffix Splitter
  | -- | The bytes between a true section of the first and the next true one of the second.
    Between Splitter Splitter
  deriving stock (Eq, Show)

-- | A regular expression, in the syntax of POSIX (extended).
data Pattern = Pattern
  { -- | Whether the case of letters matters.
    patternCase :: !CaseRule,
    -- | The source of the expression.
    patternText :: !ByteString,
    patternRegex :: !Regex,
    -- | Finds what every match contains, if something is known.
    patternNeedle :: Maybe Needle,
    -- | Otherwise finds what stands together in every match, if something is known.
    patternSieve :: !(Maybe Sieve)
  }

instance Eq Pattern where
  a == b = patternText a == patternText b && patternCase a == patternCase b

instance Show Pattern where
  showsPrec _ p = shows (patternText p)

-- | Compile a regular expression, or say what is wrong with it. A backslash before a letter or
-- digit is refused unless POSIX or GNU defines its meaning; between brackets, where it has none, before anything but another.
--
-- [Cost]: about 10 us for each capability that uses it.
newPattern :: CaseRule -> ByteString -> IO (Either String Pattern)
newPattern rule text = case meaninglessEscape text of
  Just complaint -> pure (Left complaint)
  Nothing ->
    compileRegex extendedDialect (rule == IgnoreAsciiCase) text >>= \case
      Left complaint -> pure (Left (Char8.unpack complaint))
      Right regex -> case requiredTexts rule text >>= newNeedles rule of
        Nothing -> Right . Pattern rule text regex Nothing <$> newSieve rule text
        needle -> pure (Right (Pattern rule text regex needle Nothing))

-- | A set of bytes, and its name.
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

-- | Whether a byte is in the set.
--
-- [Cost]: a table lookup.
inSet :: ByteSet -> Word8 -> Bool
inSet (ByteSet _ table) b = Bytes.unsafeIndex table (fromIntegral b) /= 0
{-# INLINE inSet #-}

-- | The name, as the language writes it.
setName :: ByteSet -> String
setName (ByteSet name _) = name

-- | Turns one stream of bytes into another.
data Stage
  = -- | Pass the input unchanged.
    Identity
  | -- | Drop the input.
    Suppress
  | -- | The output of the first is the input of the second.
    Stage :> Stage
  | -- | The same, with the second on a thread of its own.
    Stage :|| Stage
  | -- | All true sections, as one stream, through the first stage, all false ones through the
    -- second; the output of both in the order in which it appears.
    If Splitter Stage Stage
  | -- | Each true section by itself through a fresh copy of the first stage, each false one
    -- through one of the second.
    ForEach Splitter Stage Stage
  | -- | The number of true sections, in decimal with a newline, at the end.
    Count Splitter
  | -- | The number of the row that the section begins in, and this text, before the input. Rows
    -- are counted in the input of the innermost 'ForEach' around it.
    Number !ByteString
  | -- | Replace each row by its number.
    Numbers
  | -- | Put a text before the input.
    Prepend !ByteString
  | -- | Put a text after the input.
    Append !ByteString
  | -- | Output a text at the end instead of the input.
    Instead !ByteString
  | -- | Replace each byte by another.
    Translate !Translation
  | -- | Fields of each row: which ones, what separates them (by default, blanks), and what to
    -- put between them.
    Fields [FieldRange] !(Maybe ByteString) !ByteString
  | -- | The same input through both stages, and their outputs joined.
    Join !Joint Stage Stage
  | -- | Pipe the input through a shell command.
    Command !ByteString
  deriving stock (Eq, Show)

infixl 1 :>

infixl 1 :||

-- | How two outputs become one.
data Joint
  = -- | First all of one, then all of the other.
    Appending
  | -- | A row of each alternately, then the rest of the longer.
    Interleaving
  | -- | Each row of one, without its newline, before the row of the other, until either ends.
    Zipping
  | -- | The two exchanged (@flipJoin@).
    Flipped Joint
  deriving stock (Eq, Show)

-- | A byte for each byte, and a name.
data Translation = Translation !String !ByteString

instance Eq Translation where
  Translation _ a == Translation _ b = a == b

instance Show Translation where
  showsPrec _ = showString . translationName

-- | A translation by its name.
translation :: String -> (Word8 -> Word8) -> Translation
translation name f = Translation name (Bytes.pack (map f [0 .. 255]))

-- | Translate a byte.
--
-- [Cost]: a table lookup.
translate :: Translation -> Word8 -> Word8
translate (Translation _ table) b = Bytes.unsafeIndex table (fromIntegral b)
{-# INLINE translate #-}

-- | Translate all bytes of a string.
--
-- [Cost]: a table lookup in C for each byte, half a nanosecond.
translateAll :: Translation -> ByteString -> ByteString
translateAll (Translation _ table) text =
  unsafeDupable . Bytes.unsafeUseAsCStringLen text $ \(from, n) ->
    Bytes.unsafeUseAsCString table $ \look -> create n (\to -> c_translate to (castPtr from) n (castPtr look))

-- Unsafe: linear in the bytes, without a system call.
foreign import ccall unsafe "heddle_translate" c_translate :: Ptr Word8 -> Ptr Word8 -> Int -> Ptr Word8 -> IO ()

-- | The name, as the language writes it.
translationName :: Translation -> String
translationName (Translation name _) = name

-- | The fields from one to another, counted from 1; without the second, to the last.
data FieldRange = FieldRange !Int !(Maybe Int)
  deriving stock (Eq, Show)

-- | The splitters directly inside a stage.
splittersOf :: Stage -> [Splitter]
splittersOf = \case
  If s _ _ -> [s]
  ForEach s _ _ -> [s]
  Count s -> [s]
  _ -> []

-- | The stages directly inside a stage.
stagesOf :: Stage -> [Stage]
stagesOf = \case
  a :> b -> [a, b]
  a :|| b -> [a, b]
  If _ a b -> [a, b]
  ForEach _ a b -> [a, b]
  Join _ a b -> [a, b]
  _ -> []

-- | Is it certain to output nothing? (It looks only at a few levels, since it is asked at each
-- level of a stage.)
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

-- | Does it use the number of the row that its input begins in?
usesNumber :: Stage -> Bool
usesNumber = \case
  Number _ -> True
  -- It counts rows for what is inside it.
  ForEach {} -> False
  stage -> any usesNumber (stagesOf stage)
