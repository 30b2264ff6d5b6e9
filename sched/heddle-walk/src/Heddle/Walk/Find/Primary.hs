-- |
-- Module      : Heddle.Walk.Find.Primary
-- Description : Tests and actions on find's command line
-- Stability   : internal, exempt from the version policy
--
-- Each primary's arguments, and GNU find's words for what is wrong with them.
--
-- Cost: once per run. Owner: the caller.
module Heddle.Walk.Find.Primary
  ( readPrimary,
    withArgument,
    readDialect,
    fileExists,
    erange,
  )
where

import Control.Monad (when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit)
import Data.Either (isRight)
import Data.Word (Word32)
import Foreign.C.Types (CInt)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Regex (compileRegex, dialects)
import Heddle.Prim.Errno (Errno (..))
import Heddle.Walk.Find.Date (parseDate)
import Heddle.Walk.Find.Format
import Heddle.Walk.Find.Mode (parseMode)
import Heddle.Walk.Find.Number
import Heddle.Walk.Find.Outputs (openOutput)
import Heddle.Walk.Find.Pattern (Fold (..), newPattern)
import Heddle.Walk.Find.Programs (readExec)
import Heddle.Walk.Find.Settings
import Heddle.Walk.Find.Syntax
import Heddle.Walk.Find.System hiding (Account (..))
import Heddle.Walk.Find.System qualified as System
import Heddle.Walk.Internal.Options (Follow (..))
import Heddle.Walk.Internal.Visit (Status (..), statusOf)
import Prelude hiding (Read)

-- What a primary becomes, and the words after its arguments.
type Reading = Read (Expr, [ByteString])

-- | @readPrimary word bare rest@ reads a test or an action: its name as given and without
-- the minus sign, and what follows. 'Nothing': there is none of that name.
--
-- [Blocks]: holds an OS thread while files and accounts are looked up.
readPrimary :: ByteString -> ByteString -> [ByteString] -> Read (Maybe (Expr, [ByteString]))
readPrimary word bare rest
  | Bytes.length word == 8, Just letters <- Bytes.stripPrefix (Char8.pack "newer") bare = Just <$> newerXY word letters rest
  | otherwise = sequence (lookup (Char8.unpack bare) (table word rest))

table :: ByteString -> [ByteString] -> [(String, Reading)]
table word rest =
  [ ("true", constant True),
    ("false", constant False),
    ("name", namePattern CaseMatters "-wholename"),
    ("iname", namePattern CaseFolds "-iwholename"),
    ("path", pathPattern CaseMatters),
    ("wholename", pathPattern CaseMatters),
    ("ipath", pathPattern CaseFolds),
    ("iwholename", pathPattern CaseFolds),
    ("lname", argument $ \text -> Test . LinkTarget <$> effect (newPattern CaseMatters text)),
    ("ilname", argument $ \text -> Test . LinkTarget <$> effect (newPattern CaseFolds text)),
    ("regex", argument (regex False)),
    ("iregex", argument (regex True)),
    ("type", argument (fmap (Test . Type) . fileTypes word)),
    ("xtype", argument (fmap (Test . OtherType) . fileTypes word)),
    ("size", argument size),
    ("links", count Links),
    ("inum", count Inode),
    ("uid", count UserNumber),
    ("gid", count GroupNumber),
    ("user", argument user),
    ("group", argument group),
    ("nouser", plain (Test NoUser)),
    ("nogroup", plain (Test NoGroup)),
    ("perm", argument perm),
    ("mtime", days Modified),
    ("atime", days Accessed),
    ("ctime", days Changed),
    ("mmin", minutes Modified),
    ("amin", minutes Accessed),
    ("cmin", minutes Changed),
    ("used", argument used),
    ("newer", newer Modified),
    ("anewer", newer Accessed),
    ("cnewer", newer Changed),
    ("samefile", argument (fmap sameFile . reference)),
    ("empty", plain (Test Empty)),
    ("executable", plain (Test (Accessible Executable))),
    ("readable", plain (Test (Accessible Readable))),
    ("writable", plain (Test (Accessible Writable))),
    ("fstype", argument (pure . Test . OnFileSystem)),
    ("context", argument (const (failText "invalid predicate -context: SELinux is not enabled."))),
    ("print", plain (Action (Print StandardOutput))),
    ("print0", plain (Action (Print0 StandardOutput))),
    ("printf", argument (fmap (Action . Printf StandardOutput) . format)),
    ("ls", plain (Action (List' StandardOutput))),
    ("fprint", argument (fmap (Action . Print) . openOutput)),
    ("fprint0", argument (fmap (Action . Print0) . openOutput)),
    ("fls", argument (fmap (Action . List') . openOutput)),
    ("fprintf", formatted),
    ("delete", change (\s -> s {setDepthFirst = True}) >> plain (Action Delete)),
    ("prune", plain (Action PruneHere)),
    ("quit", plain (Action QuitNow)),
    ("exec", exec False False),
    ("execdir", exec True False),
    ("ok", exec False True),
    ("okdir", exec True True)
  ]
  where
    plain expr = pure (expr, rest)
    constant = plain . Constant
    argument use = withArgument word rest (\text more -> (\expr -> (expr, more)) <$> use text)
    invalid = invalidArgument word
    sameFile s = Test (SameFile (fromIntegral (fileDevice s)) (fromIntegral (fileInode s)))
    count test = argument $ \text -> maybe (invalid text) (pure . Test . test) (parseCount text)
    failText text = failWith [Char8.pack text]
    warned parts = do
      warns <- settings setWarn
      when warns (warning parts)

    namePattern fold instead = argument $ \text -> do
      when (Char8.elem '/' text) $
        warned
          [ quote word,
            Char8.pack " matches against basenames only, but the given pattern contains a directory separator (",
            quote (Char8.pack "/"),
            Char8.pack "), thus the expression will evaluate to false all the time.  Did you mean ",
            quote (Char8.pack instead),
            Char8.pack "?"
          ]
      Test . Name <$> effect (newPattern fold text)
    pathPattern fold = argument $ \text -> do
      when (Bytes.length text > 1 && Char8.last text == '/') $
        warning [word, Char8.pack " ", text, Char8.pack " will not match anything because it ends with /."]
      Test . Path <$> effect (newPattern fold text)

    regex fold text = do
      dialect <- settings setDialect
      effect (compileRegex dialect fold text) >>= \case
        Right compiled -> pure (Test (PathRegex compiled))
        Left complaint ->
          failWith [Char8.pack "failed to compile regular expression '", text, Char8.pack "': ", complaint]

    size text = case parseSize text of
      Right (number, unit) -> pure (Test (Size number unit))
      Left NoSize -> failText "invalid null argument to -size"
      Left (BadUnit unit) -> failWith [Char8.pack "invalid -size type `", Char8.singleton unit, Char8.pack "'"]
      Left BadSize -> failWith [Char8.pack "Invalid argument `", text, Char8.pack "' to -size"]

    user name
      | Bytes.null name = failText "The argument to -user should not be empty"
      | otherwise =
        effect (accountNumber System.User name) >>= \case
          Just number -> pure (Test (OwnedBy number))
          Nothing -> case parseNatural name of
            Natural number -> pure (Test (OwnedBy (fromIntegral number)))
            TooLarge -> failWith [name, Char8.pack ": ", errnoText erange]
            NotNatural -> failWith [quote name, Char8.pack " is not the name of a known user"]
    group name
      | Bytes.null name = failText "argument to -group is empty, but should be a group name"
      | otherwise =
        effect (accountNumber System.Group name) >>= \case
          Just number -> pure (Test (OfGroup number))
          Nothing -> case parseNatural name of
            Natural number -> pure (Test (OfGroup (fromIntegral number)))
            TooLarge -> failWith [name, Char8.pack ": ", errnoText erange]
            NotNatural ->
              failWith
                ( [quote name, Char8.pack " is not the name of an existing group"] ++ case Char8.span isDigit name of
                    (digits, suffix)
                      | Bytes.null digits -> []
                      | otherwise ->
                        [ Char8.pack " and it does not look like a numeric group ID because it has the unexpected suffix ",
                          quote suffix
                        ]
                )

    perm text = case Char8.uncons text of
      Just ('-', mode) -> bits PermAll mode
      Just ('/', mode) -> bits PermAny mode
      -- An old notation for /mode.
      Just ('+', mode) | Char8.all isDigit (Bytes.take 1 mode), not (Bytes.null mode) -> failWith [Char8.pack "invalid mode ", quote text]
      _ -> bits PermExactly text
      where
        bits match mode = case parseMode mode of
          Just (forFiles, forDirectories) -> do
            when (match == PermAny && forFiles == 0 && forDirectories == 0) $
              warning
                [ Char8.pack "you have specified a mode pattern ",
                  text,
                  Char8.pack
                    " (which is equivalent to /000). The meaning of -perm /000 has now been changed to be consistent with -perm \
                    \-000; that is, while it used to match no files, it now matches all files."
                ]
            pure (Test (if match == PermAny && forFiles == 0 && forDirectories == 0 then Perm PermAll 0 0 else Perm match forFiles forDirectories))
          Nothing -> failWith [Char8.pack "invalid mode ", quote text]

    days clock = argument $ \text -> do
      Timestamp seconds nanos <- settings setOrigin
      let origin = case splitComparison text of
            (Less, _) -> Timestamp (seconds + 86399) nanos
            _ -> Timestamp seconds nanos
      maybe (invalid text) (pure . Test . InWindow clock) (windowBefore origin 86400 text)
    minutes clock = argument $ \text -> do
      Timestamp seconds nanos <- settings setOrigin
      maybe (invalid text) (pure . Test . InWindow clock) (windowBefore (Timestamp (seconds + 86400) nanos) 60 text)
    used text = case parseAge text of
      Just age -> pure (Test (Used age))
      Nothing -> failWith [Char8.pack "Invalid argument ", text, Char8.pack " to -used"]
    newer clock = argument $ \file -> do
      status <- reference file
      pure (Test (Newer clock (Timestamp (fromIntegral (fileModified status)) (fromIntegral (fileModifiedNanos status)))))

    format = readFormat
    formatted = case rest of
      file : text : more -> do
        sink <- openOutput file
        parsed <- format text
        pure (Action (Printf sink parsed), more)
      [file] -> invalid file
      [] -> missingArgument word

    exec inDirectory ask = case readExec word inDirectory ask rest of
      Left stop -> stopReading stop
      Right (spec, more) -> do
        number <- settings setBatches
        when (execMode spec == Batched) (change (\s -> s {setBatches = number + 1}))
        pure (Action (Exec spec {execBatch = number}), more)

-- | Use the next word, or say that it is missing.
withArgument :: ByteString -> [ByteString] -> (ByteString -> [ByteString] -> Read a) -> Read a
withArgument word rest use = case rest of
  text : more -> use text more
  [] -> missingArgument word

missingArgument :: ByteString -> Read a
missingArgument word = failWith [Char8.pack "missing argument to `", word, Char8.pack "'"]

invalidArgument :: ByteString -> ByteString -> Read a
invalidArgument word text =
  failWith [Char8.pack "invalid argument `", text, Char8.pack "' to `", word, Char8.pack "'"]

-- | Let regular expressions from here on be in this dialect.
readDialect :: ByteString -> Read ()
readDialect name = do
  known <- effect dialects
  case lookup name known of
    Just dialect -> change (\s -> s {setDialect = dialect})
    Nothing ->
      failWith
        [ Char8.pack "Unknown regular expression type ",
          quote name,
          Char8.pack "; valid types are ",
          Bytes.intercalate (Char8.pack ", ") (map (quote . fst) known),
          Char8.pack "."
        ]

fileTypes :: ByteString -> ByteString -> Read FileTypes
fileTypes word text
  | Bytes.null text = failWith [Char8.pack "Arguments to ", word, Char8.pack " should contain at least one letter"]
  | otherwise = go 0 (Char8.unpack text)
  where
    go :: Word32 -> String -> Read FileTypes
    go seen = \case
      letter : more
        | Just bit <- fileType letter ->
          if seen .&. bit /= 0
            then failWith [Char8.pack "Duplicate file type '", Char8.singleton letter, Char8.pack "' in the argument list to ", word, Char8.pack "."]
            else next (seen .|. bit) more
        | letter == 'D' ->
          failWith
            [ word,
              Char8.pack " D is not supported because Solaris doors are not supported on the platform find was compiled on."
            ]
        | otherwise -> failWith [Char8.pack "Unknown argument to ", word, Char8.pack ": ", Char8.singleton letter]
      [] -> pure seen
    next seen = \case
      [] -> pure seen
      "," -> lastMissing
      ',' : more -> go seen more
      _ -> failWith [Char8.pack "Must separate multiple arguments to ", word, Char8.pack " using: ','"]
    lastMissing =
      failWith
        [ Char8.pack "Last file type in list argument to ",
          word,
          Char8.pack " is missing, i.e., list is ending on: ','"
        ]

readFormat :: ByteString -> Read Format
readFormat text = do
  let (warnings, result) = parseFormat text
  mapM_ (warning . describe) warnings
  case result of
    Right parsed -> pure parsed
    Left problem -> failWith (Char8.pack "error: " : describe problem)
  where
    describe = \case
      LonePercent -> [Char8.pack "% at end of format string"]
      ReservedDirective c -> [Char8.pack "the format directive `%", Char8.singleton c, Char8.pack "' is reserved for future use"]
      HugeWidth -> [Char8.pack "a width or precision is too large"]
      LoneBackslash -> [Char8.pack "escape `\\' followed by nothing at all"]
      UnknownEscape c -> [Char8.pack "unrecognized escape `\\", Char8.singleton c, Char8.pack "'"]
      UnknownDirective c -> [Char8.pack "unrecognized format directive `%", Char8.singleton c, Char8.pack "'"]
      IncompleteDirective c ->
        [Char8.pack "format directive `%", Char8.singleton c, Char8.pack "' should be followed by another character"]

newerXY :: ByteString -> ByteString -> [ByteString] -> Reading
newerXY word letters rest = case Char8.unpack letters of
  [x, y]
    | Just clock <- clockOf x,
      y `elem` "aBcmt" -> case rest of
      [] -> failWith [Char8.pack "The ", quote word, Char8.pack " test needs an argument"]
      text : more -> do
        limit <- if y == 't' then date text else reference text >>= timeOf y text
        pure (Test (Newer clock limit), more)
  _ -> failWith [Char8.pack "invalid predicate `", word, Char8.pack "'"]
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
        Nothing -> failWith [Char8.pack "I cannot figure out how to interpret ", quote text, Char8.pack " as a date or time"]
    timeOf :: Char -> ByteString -> Status -> Read Timestamp
    timeOf y text s = case y of
      'a' -> stamp (fileAccessed s) (fileAccessedNanos s)
      'c' -> stamp (fileChanged s) (fileChangedNanos s)
      'm' -> stamp (fileModified s) (fileModifiedNanos s)
      _
        | fileBornNanos s < 0 -> failWith [Char8.pack "Cannot obtain birth time of file ", quote text]
        | otherwise -> stamp (fileBorn s) (fileBornNanos s)
    stamp seconds nanos = pure (Timestamp (fromIntegral seconds) (fromIntegral nanos))

-- | A file named on the command line: links are followed as the options so far say, except
-- those that lead nowhere.
reference :: ByteString -> Read Status
reference file = do
  follow <- settings setFollow
  found <- effect $ case follow of
    FollowNone -> look False
    _ ->
      look True >>= \case
        Left e | e `elem` [Errno 2, Errno 20] -> look False
        other -> pure other
  case found of
    Right status -> pure status
    Left e -> failWith [quote file, Char8.pack ": ", errnoText e]
  where
    look follow = withText file $ \p -> statusOf hereNow (castPtr p) follow

-- | Is there a file of this name?
fileExists :: ByteString -> IO Bool
fileExists file = withText file $ \p -> isRight <$> statusOf hereNow (castPtr p) True

-- The descriptor that stands for the working directory.
hereNow :: CInt
hereNow = -100

-- | A number too large.
erange :: Errno
erange = Errno 34
