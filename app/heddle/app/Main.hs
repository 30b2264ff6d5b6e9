-- |
-- Module      : Main
-- Description : The heddle command
--
-- One sub-command per tool; each lives in a module of its own.
module Main
  ( main,
  )
where

import Control.Monad (join)
import ControllerCommand (controllerCommand)
import Data.ByteString.Char8 qualified as Char8
import Data.Either (fromLeft)
import Data.List (dropWhileEnd, find, intercalate, isPrefixOf, sort, stripPrefix)
import Endings (endWith, inheritInterrupt)
import FindCommand (findCommand, findInfo)
import GHC.IO.Encoding (getFileSystemEncoding, mkTextEncoding, setFileSystemEncoding)
import Heddle.Prim.Errno (describeErrno)
import Heddle.Prim.Exception (try)
import Heddle.Prim.Thread (startEventManager)
import Heddle.Walk.Find (beginAlone, writeText)
import Inputs (toBytes)
import JsonCommand (jsonCommand)
import OfbenchCommand (ofbenchCommand)
import Options.Applicative
import Options.Applicative.Common (mapParser)
import Options.Applicative.Help.Levenshtein (editDistance)
import Options.Applicative.Types (OptName (..), OptReader (..), optMain)
import PasswordCommand (passwordCommand)
import PipeCommand (pipeCommand)
import ServeCommand (serveCommand)
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (..))
import System.IO (BufferMode (..), hSetBuffering, hSetEncoding, stderr, stdout)
import System.Posix.Env.ByteString qualified as Raw
import System.Posix.Process (exitImmediately)
import TraceCommand (traceCommand)
import VersionText (versionText)

main :: IO ()
main = do
  arguments <- Raw.getArgs
  case arguments of
    -- find has a language of its own, over bytes.
    word : rest | word == Char8.pack "find" -> inheritInterrupt >> findCommand rest
    word : _ | word `elem` map Char8.pack ["serve", "controller", "ofbench"] -> parse
    _ -> inheritInterrupt >> parse
  where
    parse = do
      -- Names in configurations are UTF-8 whatever the locale; other bytes of arguments come through as they are.
      mkTextEncoding "UTF-8//ROUNDTRIP" >>= setFileSystemEncoding
      getArgs >>= \case
        word : _ | unknown word -> leave (unknownCommand word) (ExitFailure 2)
        words' -> parsed words'
    unknown word = take 1 word /= "-" && word `notElem` map fst subcommands
    parsed words' =
      case execParserPure (prefs (showHelpOnEmpty <> noBacktrack)) commands words' of
        Success act -> run act
        -- Help, the version, or a mistake: without handles, hence without the event manager.
        Failure failure -> do
          (text, code) <- renderFailure failure <$> getProgName
          leave (if code == ExitSuccess then text else shortened words' (suggesting words' text)) code
        completion -> run (join (handleParseResult completion))
    leave text code =
      beginAlone 1 >> toBytes (text ++ "\n") >>= writeText (if code == ExitSuccess then 1 else 2) >>= \case
        Right () -> exitImmediately code
        Left e -> do
          _ <- writeText 2 (Char8.pack ("heddle: standard output: " ++ describeErrno e ++ "\n"))
          exitImmediately (ExitFailure 2)
    run act = do
      startEventManager
      -- Names of files are shown in the bytes that they came in, whatever the locale.
      encoding <- getFileSystemEncoding
      hSetEncoding stdout encoding
      hSetEncoding stderr encoding
      -- A message is written whole, not byte by byte among those of other threads.
      hSetBuffering stderr LineBuffering
      try act >>= endWith . fromLeft ExitSuccess

commands :: ParserInfo (IO ())
commands =
  info
    (hsubparser (foldMap (uncurry command) subcommands) <**> version mempty <**> helper)
    ( fullDesc
        <> header "heddle - concurrent Haskell at C's speed"
        <> footer "'heddle COMMAND --help' says more about a command."
        <> failureCode 2
    )

-- Commands accept it without listing it.
version :: Mod OptionFields (a -> a) -> Parser (a -> a)
version more = infoOption versionText (long "version" <> help "Show the version, and what it was built by and for" <> more)

subcommands :: [(String, ParserInfo (IO ()))]
subcommands =
  [ (name, about {infoParser = infoParser about <**> version internal})
    | (name, about) <- [("serve", serveCommand), ("find", findInfo), ("pipe", pipeCommand), ("json", jsonCommand), ("trace", traceCommand), ("password", passwordCommand), ("controller", controllerCommand), ("ofbench", ofbenchCommand)]
  ]

-- optparse-applicative calls an option unknown that has been given already, or whose place another one has taken. Say which of
-- the two it is; below the message about one that is not there, name the nearest, which optparse-applicative does only while a
-- word that must be given is missing.
suggesting :: [String] -> String -> String
suggesting words' text = case (words', lines text) of
  (word : given, first : rest)
    | Just about <- lookup word subcommands,
      Just wrong <- named . takeWhile (`notElem` "='") <$> stripPrefix "Invalid option `" first -> do
      let options = concat (mapParser (\_ one -> [namesOf (optMain one)]) (infoParser about))
      case find (wrong `elem`) options of
        Just names -> intercalate "\n" ((wrong ++ (if length (filter (isOneOf names) given) > 1 then " is given more than once" else " does not go together with the options before it")) : "" : dropWhile (not . isPrefixOf "Usage") rest)
        Nothing
          | not (any (isPrefixOf "Did you mean") rest),
            (distance, nearest) : _ <- sort [(editDistance wrong name, name) | name@('-' : '-' : _) <- concat options],
            distance <= 2 ->
            intercalate "\n" (first : "" : "Did you mean this?" : ("    " ++ nearest) : rest)
        _ -> text
  _ -> text
  where
    -- What follows a short option is its value.
    named word = if "--" `isPrefixOf` word then word else take 2 word
    isOneOf names given = any (\name -> given == name || (if "--" `isPrefixOf` name then name ++ "=" else name) `isPrefixOf` given) names
    namesOf :: OptReader a -> [String]
    namesOf = \case
      OptReader names _ _ -> map spelt names
      FlagReader names _ -> map spelt names
      _ -> []
    spelt = \case
      OptLong name -> "--" ++ name
      OptShort name -> ['-', name]

-- A message above a screen of usage is not seen: the usage of commands with many options is left to --help.
shortened :: [String] -> String -> String
shortened words' text = case break (isPrefixOf "Usage:") (lines text) of
  (message@(first : _), usage)
    | not (null words'),
      not ("heddle - " `isPrefixOf` first),
      length usage > 12 ->
      intercalate "\n" (dropWhileEnd null message ++ ["", "See heddle" ++ concat [' ' : word | word <- take 1 words', word `elem` map fst subcommands] ++ " --help."])
  _ -> text

-- optparse-applicative suggests too, but prints the whole usage below it.
unknownCommand :: String -> String
unknownCommand word = "heddle: '" ++ word ++ "' is not a command; " ++ advice
  where
    (distance, nearest) = minimum [(editDistance word name, name) | (name, _) <- subcommands]
    advice
      | distance <= 2 = "did you mean '" ++ nearest ++ "'?"
      | otherwise = "there are " ++ intercalate ", " (map fst subcommands) ++ " (see heddle --help)"
