{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Argument
-- Description : Reading the arguments of tests and actions
-- Stability   : internal, exempt from the version policy
--
-- How each kind of argument is read, and GNU find's words for what is wrong with it. Where a
-- message names the primary, the first parameter is its name as written.
--
-- Cost: once per run. Owner: the caller.
module Heddle.Walk.Find.Internal.Argument
  ( -- * Words
    withArgument,
    outOfRange,
    fileExists,

    -- * Names
    namePattern,
    pathPattern,
    regex,
    readDialect,

    -- * Kinds and sizes
    fileTypes,
    size,
    count,
    sameFile,

    -- * Owners
    user,
    group,
    permissions,

    -- * Times
    days,
    minutes,
    used,
    newer,
    newerXY,

    -- * Actions
    format,
    formatted,
    exec,
  )
where

import Control.Monad (when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit)
import Data.Either (isRight)
import Data.Int (Int64)
import Data.Word (Word32)
import Foreign.C.Types (CInt)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Regex (compileRegex, dialects)
import Heddle.Prim.Errno (Errno (..), pattern ENOENT, pattern ENOTDIR)
import Heddle.Walk.Find.Internal.Date (parseDate)
import Heddle.Walk.Find.Internal.Format
import Heddle.Walk.Find.Internal.Mode (parseMode)
import Heddle.Walk.Find.Internal.Number
import Heddle.Walk.Find.Internal.Outputs (openOutput)
import Heddle.Walk.Find.Internal.Pattern (Fold (..), newPattern)
import Heddle.Walk.Find.Internal.Programs (readExec)
import Heddle.Walk.Find.Internal.Settings
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System hiding (Account (..))
import Heddle.Walk.Find.Internal.System qualified as System
import Heddle.Walk.Internal.Entry (Status (..), statusOf)
import Heddle.Walk.Internal.Options (Follow (..))
import Prelude hiding (Read)

-- * Words

-- | Use the next word, or say that it is missing.
withArgument :: ByteString -> [ByteString] -> (ByteString -> [ByteString] -> Read a) -> Read a
withArgument word rest use = case rest of
  text : more -> use text more
  [] -> missingArgument word

missingArgument :: ByteString -> Read a
missingArgument word = failWith ["missing argument to `", word, "'"]

invalidArgument :: ByteString -> ByteString -> Read a
invalidArgument word text =
  failWith ["invalid argument `", text, "' to `", word, "'"]

-- | A number that no word holds.
outOfRange :: ByteString -> Read a
outOfRange text = failWith [text, ": ", errnoText (Errno 34)] -- ERANGE

-- | Is there a file of this name?
fileExists :: ByteString -> IO Bool
fileExists file = withText file $ \p -> isRight <$> statusOf workingDirectory (castPtr p) True

-- | A file named on the command line: links are followed as the options so far say, except
-- those that lead nowhere.
reference :: ByteString -> Read Status
reference file = do
  follow <- settings setFollow
  found <- effect $ case follow of
    FollowNone -> look False
    _ ->
      look True >>= \case
        Left e | e == ENOENT || e == ENOTDIR -> look False
        other -> pure other
  case found of
    Right status -> pure status
    Left e -> failWith [quote file, ": ", errnoText e]
  where
    look follow = withText file $ \p -> statusOf workingDirectory (castPtr p) follow

-- AT_FDCWD: what stands for the working directory.
workingDirectory :: CInt
workingDirectory = -100

-- * Names

-- | A pattern of base names; in these the other primary is suggested for one with a slash.
namePattern :: Fold -> ByteString -> ByteString -> ByteString -> Read Expr
namePattern fold instead word text = do
  warns <- settings setWarn
  -- The name of the root is a slash.
  when (warns && Char8.elem '/' text && text /= "/") $
    warning
      [ quote word,
        " matches against basenames only, but the given pattern contains a directory separator (",
        quote "/",
        "), thus the expression will evaluate to false all the time.  Did you mean ",
        quote instead,
        "?"
      ]
  Test . Name <$> effect (newPattern fold text)

-- | A pattern of whole paths.
pathPattern :: Fold -> ByteString -> ByteString -> Read Expr
pathPattern fold word text = do
  when (Bytes.length text > 1 && Char8.last text == '/') $
    warning [word, " ", text, " will not match anything because it ends with /."]
  Test . Path <$> effect (newPattern fold text)

-- | A regular expression for whole paths, in the dialect chosen so far; folding case or not.
regex :: Bool -> ByteString -> Read Expr
regex fold text = do
  dialect <- settings setDialect
  effect (compileRegex dialect fold text) >>= \case
    Right compiled -> pure (Test (PathRegex compiled))
    Left complaint -> failWith ["failed to compile regular expression '", text, "': ", complaint]

-- | Let regular expressions from here on be in this dialect.
readDialect :: ByteString -> Read ()
readDialect name = do
  known <- effect dialects
  case lookup name known of
    Just dialect -> change (\s -> s {setDialect = dialect})
    Nothing ->
      failWith
        [ "Unknown regular expression type ",
          quote name,
          "; valid types are ",
          Bytes.intercalate ", " (map (quote . fst) known),
          "."
        ]

-- * Kinds and sizes

-- | Letters of file types, separated by commas.
fileTypes :: (FileTypes -> Test) -> ByteString -> ByteString -> Read Expr
fileTypes test word text
  | Bytes.null text = failWith ["Arguments to ", word, " should contain at least one letter"]
  | otherwise = Test . test <$> go 0 (Char8.unpack text)
  where
    go :: Word32 -> String -> Read FileTypes
    go seen = \case
      letter : more
        | Just bit <- fileType letter ->
          if seen .&. bit /= 0
            then failWith ["Duplicate file type '", Char8.singleton letter, "' in the argument list to ", word, "."]
            else next (seen .|. bit) more
        | letter == 'D' ->
          failWith
            [ word,
              " D is not supported because Solaris doors are not supported on the platform find was compiled on."
            ]
        | otherwise -> failWith ["Unknown argument to ", word, ": ", Char8.singleton letter]
      [] -> pure seen
    next seen = \case
      [] -> pure seen
      "," -> lastMissing
      ',' : more -> go seen more
      _ -> failWith ["Must separate multiple arguments to ", word, " using: ','"]
    lastMissing =
      failWith
        [ "Last file type in list argument to ",
          word,
          " is missing, i.e., list is ending on: ','"
        ]

-- | A number of units, more, or less.
size :: ByteString -> Read Expr
size text = case parseSize text of
  Right (number, unit) -> pure (Test (Size number unit))
  Left NoSize -> failWith ["invalid null argument to -size"]
  Left (BadUnit unit) -> failWith ["invalid -size type `", Char8.singleton unit, "'"]
  Left BadSize -> failWith ["Invalid argument `", text, "' to -size"]

-- | A number, more than one, or less.
count :: (Count -> Test) -> ByteString -> ByteString -> Read Expr
count test word text =
  maybe (failWith ["non-numeric argument to ", word, ": ", quote text]) (pure . Test . test) (parseCount text)

-- | The file that this name leads to, under any name.
sameFile :: ByteString -> Read Expr
sameFile file = do
  status <- reference file
  pure (Test (SameFile (fromIntegral (fileDevice status)) (fromIntegral (fileInode status))))

-- * Owners

-- | A user's name or number.
user :: ByteString -> Read Expr
user name =
  account System.User OwnedBy name (failWith ["invalid user name or UID argument to -user: ", quote name])

-- | A group's name or number.
group :: ByteString -> Read Expr
group name =
  account System.Group OfGroup name (failWith ["invalid group name or GID argument to -group: ", quote name])

account :: System.Account -> (Word32 -> Test) -> ByteString -> Read Expr -> Read Expr
account kind test name unknown =
  effect (accountNumber kind name) >>= \case
    Just number -> pure (Test (test number))
    Nothing -> case parseUnsigned name of
      Just number | number <= fromIntegral (maxBound :: Word32) -> pure (Test (test (fromIntegral number)))
      _ -> unknown

-- | A mode: exactly this one, all of its bits (@-@), or any of them (@/@).
permissions :: ByteString -> Read Expr
permissions text = case Char8.uncons text of
  Just ('-', mode) -> bits PermAll mode
  Just ('/', mode) -> bits PermAny mode
  -- An old notation for /mode.
  Just ('+', mode) | Char8.all isDigit (Bytes.take 1 mode), not (Bytes.null mode) -> failWith ["invalid mode ", quote text]
  _ -> bits PermExactly text
  where
    bits match mode = case parseMode mode of
      Just (forFiles, forDirectories) -> do
        when (match == PermAny && forFiles == 0 && forDirectories == 0) $
          warning
            [ "you have specified a mode pattern ",
              text,
              " (which is equivalent to /000). The meaning of -perm /000 has now been changed to be consistent with -perm \
              \-000; that is, while it used to match no files, it now matches all files."
            ]
        pure (Test (if match == PermAny && forFiles == 0 && forDirectories == 0 then Perm PermAll 0 0 else Perm match forFiles forDirectories))
      Nothing -> failWith ["invalid mode ", quote text]

-- * Times

-- | An age in days.
days :: Clock -> ByteString -> ByteString -> Read Expr
days clock word text = do
  Timestamp seconds nanos <- settings setOrigin
  let origin = case splitComparison text of
        (Less, _) -> Timestamp (seconds + secondsOfDay - 1) nanos
        _ -> Timestamp seconds nanos
  maybe (invalidArgument word text) (pure . Test . InWindow clock) (windowBefore origin secondsOfDay text)

-- | An age in minutes.
minutes :: Clock -> ByteString -> ByteString -> Read Expr
minutes clock word text = do
  Timestamp seconds nanos <- settings setOrigin
  maybe (invalidArgument word text) (pure . Test . InWindow clock) (windowBefore (Timestamp (seconds + secondsOfDay) nanos) 60 text)

secondsOfDay :: Int64
secondsOfDay = 86400

-- | Days from the last change to the last use.
used :: ByteString -> Read Expr
used text = case parseAge text of
  Just age -> pure (Test (Used age))
  Nothing -> failWith ["Invalid argument ", text, " to -used"]

-- | Newer than a file's content.
newer :: Clock -> ByteString -> Read Expr
newer clock file = do
  status <- reference file
  pure (Test (Newer clock (Timestamp (fromIntegral (fileModified status)) (fromIntegral (fileModifiedNanos status)))))

-- | @-newerXY@: the clock X of a file against the clock Y of another, or against a date.
newerXY :: ByteString -> ByteString -> [ByteString] -> Read (Expr, [ByteString])
newerXY letters word rest = case Char8.unpack letters of
  [x, y]
    | Just clock <- clockOf x,
      Char8.elem y "aBcmt" -> case rest of
      [] -> failWith ["The ", quote word, " test needs an argument"]
      text : more -> do
        limit <- if y == 't' then date text else reference text >>= timeOf y text
        pure (Test (Newer clock limit), more)
  _ -> failWith ["invalid predicate `", word, "'"]
  where
    clockOf = \case
      'a' -> Just Accessed
      'B' -> Just Born
      'c' -> Just Changed
      'm' -> Just Modified
      _ -> Nothing
    date text = do
      now <- settings setNow
      effect (parseDate now text) >>= \case
        Just moment -> pure moment
        Nothing -> failWith ["I cannot figure out how to interpret ", quote text, " as a date or time"]
    timeOf :: Char -> ByteString -> Status -> Read Timestamp
    timeOf y text s = case y of
      'a' -> stamp (fileAccessed s) (fileAccessedNanos s)
      'c' -> stamp (fileChanged s) (fileChangedNanos s)
      'm' -> stamp (fileModified s) (fileModifiedNanos s)
      _
        | fileBornNanos s < 0 -> failWith ["Cannot obtain birth time of file ", quote text]
        | otherwise -> stamp (fileBorn s) (fileBornNanos s)
    stamp seconds nanos = pure (Timestamp (fromIntegral seconds) (fromIntegral nanos))

-- * Actions

-- | A format of @-printf@.
format :: ByteString -> Read Format
format text = do
  let (warnings, result) = parseFormat text
  mapM_ (warning . describe) warnings
  case result of
    Right parsed -> pure parsed
    Left problem -> failWith ("error: " : describe problem)
  where
    describe = \case
      LonePercent -> ["% at end of format string"]
      ReservedDirective c -> ["the format directive `%", Char8.singleton c, "' is reserved for future use"]
      HugeWidth -> ["a width or precision is too large"]
      LoneBackslash -> ["escape `\\' followed by nothing at all"]
      UnknownEscape c -> ["unrecognized escape `\\", Char8.singleton c, "'"]
      UnknownDirective c -> ["unrecognized format directive `%", Char8.singleton c, "'"]
      IncompleteDirective c ->
        ["format directive `%", Char8.singleton c, "' should be followed by another character"]

-- | A file and a format.
formatted :: ByteString -> [ByteString] -> Read (Expr, [ByteString])
formatted word = \case
  file : text : more -> do
    sink <- openOutput file
    parsed <- format text
    pure (Action (Printf sink parsed), more)
  [file] -> invalidArgument word file
  [] -> missingArgument word

-- | A command up to its semicolon or plus sign: whether it runs in the file's directory, and
-- whether the user is asked first.
exec :: Bool -> Bool -> ByteString -> [ByteString] -> Read (Expr, [ByteString])
exec inDirectory ask word rest = case readExec word inDirectory ask rest of
  Left stop -> stopReading stop
  Right (spec, more) -> do
    number <- settings setBatches
    when (execMode spec == Batched) (change (\s -> s {setBatches = number + 1}))
    pure (Action (Exec spec {execBatch = number}), more)
