-- |
-- Module      : Heddle.Walk.Find.Internal.Parser
-- Description : find's command line
-- Stability   : internal, exempt from the version policy
--
-- Reads starting points, options and primaries from left to right, as GNU find does, and
-- reports the first thing that is wrong in its words. Reference files, accounts and
-- output files are looked up on the way, since their errors come in that order, too.
--
-- Cost: once per run. Owner: the caller.
module Heddle.Walk.Find.Internal.Parser
  ( Command (..),
    parseCommand,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit)
import Data.Maybe (isJust)
import Heddle.Walk.Find.Internal.Argument (fileExists, outOfRange, readDialect, withArgument)
import Heddle.Walk.Find.Internal.Help (debugHelp, helpText, versionText)
import Heddle.Walk.Find.Internal.Number (Natural (..), parseNatural)
import Heddle.Walk.Find.Internal.Primary (readPrimary)
import Heddle.Walk.Find.Internal.Settings
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System (LocalTime (..), Timestamp (..), localTime)
import Heddle.Walk.Find.Internal.Tree
import Heddle.Walk.Internal.Options (Follow (..))
import Prelude hiding (Read)

-- | What is to be done.
data Command = Command
  { -- | Starting points as given; none: the current directory.
    commandRoots :: ![ByteString],
    commandExpr :: !Expr,
    commandSettings :: !Settings
  }

-- | Read the words after the program's name.
--
-- [Blocks]: holds an OS thread while files are looked at.
parseCommand :: Settings -> [ByteString] -> IO (Either Stop Command)
parseCommand start arguments = fmap finish <$> runRead (command arguments) start
  where
    finish ((roots, expr), end) = Command roots expr end

command :: [ByteString] -> Read ([ByteString], Expr)
command arguments = do
  afterOptions <- leading arguments
  let (roots, predicates) = break (looksLikeExpression True) afterOptions
  tokens <- primaries Nothing predicates
  deletes <- settings setDepthFirst
  asked <- settings setDepthAsked
  let given = [action | Token {tokenShape = Leaf expr} <- tokens, action <- actions expr]
  when (deletes && not asked && not (null [() | Delete <- given]) && not (null [() | PruneHere <- given])) $
    failWith
      [ Char8.pack
          "The -delete action automatically turns on -depth, but -prune does nothing when -depth is in effect.  \
          \If you want to carry on anyway, just explicitly use the -depth option."
      ]
  expr <- either (failWith . pure) pure (buildTree tokens)
  startsFrom <- settings setStartsFrom
  case startsFrom of
    Just file -> do
      case roots of
        first : _ ->
          stopReading $
            Failure
              [ Char8.pack "extra operand " <> quote first,
                Char8.pack "file operands cannot be combined with -files0-from"
              ]
        [] -> pure ()
      when (file == Char8.pack "-" && or [execAsk spec | Exec spec <- given]) $
        failWith
          [Char8.pack "option -files0-from reading from standard input cannot be combined with -ok, -okdir"]
    Nothing -> pure ()
  pure (roots, expr)

-- Options that come before the starting points.
leading :: [ByteString] -> Read [ByteString]
leading = \case
  word : rest
    | word == Char8.pack "-H" -> follow FollowRoots >> leading rest
    | word == Char8.pack "-L" -> follow FollowAll >> leading rest
    | word == Char8.pack "-P" -> follow FollowNone >> leading rest
    | word == Char8.pack "--" -> pure rest
    | word == Char8.pack "-D" -> case rest of
      [] -> usage "Missing argument after the -D option."
      flags : more -> debugFlags flags >> leading more
    | Char8.pack "-O" `Bytes.isPrefixOf` word -> optimisation (Bytes.drop 2 word) >> leading rest
    | otherwise ->
      ownOption word rest >>= \case
        Just more -> leading more
        Nothing -> pure (word : rest)
  [] -> pure []
  where
    follow mode = change (\s -> s {setFollow = mode})

usage :: String -> Read a
usage = stopReading . BadUsage . Char8.pack

debugFlags :: ByteString -> Read ()
debugFlags flags
  | Bytes.null flags = usage "Empty argument to the -D option."
  | otherwise = mapM_ one (filter (not . Bytes.null) (Char8.split ',' flags))
  where
    one flag
      | flag == Char8.pack "help" = stopReading (Answer debugHelp)
      -- There is nothing to show: our trees are not GNU's.
      | flag `elem` map Char8.pack (words "exec opt rates search stat time tree all") = pure ()
      | otherwise = do
        program <- settings setProgram
        effect (complain program (Char8.pack "Ignoring unrecognised debug flag " <> quote flag))

optimisation :: ByteString -> Read ()
optimisation level
  | Bytes.null level = failText "The -O option must be immediately followed by a decimal integer"
  | Bytes.null digits = failText "Please specify a decimal number immediately after -O"
  | digits /= level = failWith [Char8.pack "Invalid optimisation level ", level]
  | tooHigh =
    failWith
      [ Char8.pack "Optimisation level ",
        digits,
        Char8.pack " is too high.  If you want to find files very quickly, consider using GNU locate."
      ]
  | otherwise = pure ()
  where
    digits = Char8.takeWhile isDigit level
    tooHigh = case parseNatural digits of
      Natural n -> n > 65535
      _ -> True
    failText text = failWith [Char8.pack text]

-- Does a word end the starting points? (Or, later, is it a primary at all?)
looksLikeExpression :: Bool -> ByteString -> Bool
looksLikeExpression atStart word = case Char8.unpack (Bytes.take 2 word) of
  ['-', _] -> True
  [c] | c `elem` ")," -> not atStart
  [c] -> c `elem` "(!"
  _ -> False

-- The words of the expression, from left to right.
primaries :: Maybe ByteString -> [ByteString] -> Read [Token]
primaries _ [] = pure []
primaries previous (word : rest)
  | not (looksLikeExpression False word) = do
    program <- settings setProgram
    let message = Char8.pack "paths must precede expression: `" <> word <> Char8.pack "'"
    exists <- effect (fileExists word)
    case previous of
      Just name
        | exists -> do
          effect (complain program message)
          failWith [Char8.pack "possible unquoted pattern after predicate `", name, Char8.pack "'?"]
      _ -> failWith [message]
  | otherwise =
    ownOption word rest >>= \case
      Just more -> (Token word (Leaf (Constant True)) :) <$> primaries (Just word) more
      Nothing -> do
        (token, more) <- primary word rest
        (token :) <$> primaries (Just word) more

primary :: ByteString -> [ByteString] -> Read (Token, [ByteString])
primary word rest = case punctuation bare of
  Just shape -> do
    nonOption
    pure (Token word shape, rest)
  Nothing
    | Just action <- lookup bare globals -> do
      globalOption
      action
    | Just action <- lookup bare positionals -> action
    | otherwise -> do
      nonOption
      readPrimary word bare rest >>= \case
        Just (expr, more) -> pure (Token word (Leaf expr), more)
        Nothing -> failWith [Char8.pack "unknown predicate `", word, Char8.pack "'"]
  where
    bare = if Char8.pack "-" `Bytes.isPrefixOf` word then Bytes.drop 1 word else word
    nonOption = change (\s -> s {setFirstNonOption = setFirstNonOption s <|> Just word})
    true more = pure (Token word (Leaf (Constant True)), more)
    unsaid more = pure (Token word Unsaid, more)
    set update = change update >> true rest

    globalOption = do
      first <- settings setFirstNonOption
      warns <- settings setWarn
      case first of
        Just name
          | warns ->
            warning
              [ Char8.pack "you have specified the global option ",
                word,
                Char8.pack " after the argument ",
                name,
                Char8.pack ", but global options are not positional, i.e., ",
                word,
                Char8.pack
                  " affects tests specified before it as well as those specified after it.  \
                  \Please specify global options before other arguments."
              ]
        _ -> pure ()

    globals =
      [ (Char8.pack "depth", set (\s -> s {setDepthFirst = True, setDepthAsked = True})),
        ( Char8.pack "d",
          do
            warns <- settings setWarn
            when warns $
              warning
                [ Char8.pack
                    "the -d option is deprecated; please use -depth instead, because the latter is a POSIX-compliant feature."
                ]
            set (\s -> s {setDepthFirst = True, setDepthAsked = True})
        ),
        (Char8.pack "maxdepth", level (\n s -> s {setMaxDepth = n})),
        (Char8.pack "mindepth", level (\n s -> s {setMinDepth = n})),
        (Char8.pack "xdev", set (\s -> s {setOneFileSystem = True})),
        (Char8.pack "mount", set (\s -> s {setOneFileSystem = True})),
        (Char8.pack "noleaf", true rest),
        (Char8.pack "ignore_readdir_race", set (\s -> s {setIgnoreRace = True})),
        (Char8.pack "noignore_readdir_race", set (\s -> s {setIgnoreRace = False})),
        (Char8.pack "files0-from", withArgument word rest (\file more -> change (\s -> s {setStartsFrom = Just file}) >> unsaid more)),
        (Char8.pack "help", stopReading (Answer helpText)),
        (Char8.pack "-help", stopReading (Answer helpText)),
        (Char8.pack "version", stopReading (Answer versionText)),
        (Char8.pack "-version", stopReading (Answer versionText))
      ]

    positionals =
      [ (Char8.pack "daystart", daystart >> unsaid rest),
        (Char8.pack "follow", set (\s -> s {setFollow = FollowAll})),
        (Char8.pack "warn", do posixly <- settings setPosixly; if posixly then true rest else set (\s -> s {setWarn = True})),
        (Char8.pack "nowarn", set (\s -> s {setWarn = False})),
        (Char8.pack "regextype", withArgument word rest (\name more -> readDialect name >> true more))
      ]

    level update = withArgument word rest $ \text more -> case parseNatural text of
      Natural n -> change (update n) >> true more
      TooLarge -> outOfRange text
      NotNatural ->
        failWith
          [ Char8.pack "Expected a positive decimal integer argument to ",
            word,
            Char8.pack ", but got ",
            quote text
          ]

punctuation :: ByteString -> Maybe Shape
punctuation word = case Char8.unpack word of
  "(" -> Just Open
  ")" -> Just Close
  "!" -> Just Negation
  "not" -> Just Negation
  "a" -> Just (Binary AndAlso)
  "and" -> Just (Binary AndAlso)
  "o" -> Just (Binary OrElse)
  "or" -> Just (Binary OrElse)
  "," -> Just (Binary Comma)
  _ -> Nothing

-- Ages count from the end of today.
daystart :: Read ()
daystart = do
  already <- settings setDaystart
  if already
    then pure ()
    else do
      Timestamp seconds _ <- settings setNow
      midnight <-
        effect $
          localTime seconds >>= \case
            Just (LocalTime _ _ _ hour minute second, _) -> pure (seconds - hour * 3600 - minute * 60 - second)
            Nothing -> pure (seconds - seconds `mod` 86400)
      change (\s -> s {setDaystart = True, setOrigin = Timestamp midnight 0})

-- Options that GNU find does not have; with what follows them.
ownOption :: ByteString -> [ByteString] -> Read (Maybe [ByteString])
ownOption word rest
  | word == Char8.pack "--ordered" = set (\s -> s {setOrdered = True})
  | word == Char8.pack "--first" = set (\s -> s {setFirst = True})
  | word == Char8.pack "-j" || word == Char8.pack "--jobs" = case rest of
    text : more -> jobs text more
    [] -> failWith [Char8.pack "missing argument to `", word, Char8.pack "'"]
  | Just text <- Bytes.stripPrefix (Char8.pack "--jobs=") word = jobs text rest
  | Just text <- Bytes.stripPrefix (Char8.pack "-j") word, Char8.all isDigit text = jobs text rest
  | otherwise = pure Nothing
  where
    set update = change update >> pure (Just rest)
    jobs text more = case parseNatural text of
      Natural n | n > 0 && n <= 1024 -> change (\s -> s {setJobs = Just n}) >> pure (Just more)
      _ ->
        failWith
          [ Char8.pack "Expected a number of jobs from 1 to 1024 after ",
            if isJust (Bytes.stripPrefix (Char8.pack "--") word) then Char8.pack "--jobs" else Char8.pack "-j",
            Char8.pack ", but got ",
            quote text
          ]
