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
import Data.ByteString.Char8 qualified as Char8
import Data.Either (fromLeft)
import Endings (endWith, inheritInterrupt)
import FindCommand (findCommand, findInfo)
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Prim.Errno (describeErrno)
import Heddle.Prim.Exception (try)
import Heddle.Prim.Thread (startEventManager)
import Heddle.Walk.Find (writeText)
import Inputs (toBytes)
import JsonCommand (jsonCommand)
import Options.Applicative
import PipeCommand (pipeCommand)
import ServeCommand (serveCommand)
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (..))
import System.IO (BufferMode (..), hSetBuffering, hSetEncoding, stderr, stdout)
import System.Posix.Env.ByteString qualified as Raw
import System.Posix.Process (exitImmediately)

main :: IO ()
main = do
  arguments <- Raw.getArgs
  case arguments of
    -- find has a language of its own, over bytes.
    word : rest | word == Char8.pack "find" -> inheritInterrupt >> findCommand rest
    word : _ | word == Char8.pack "serve" -> parse
    _ -> inheritInterrupt >> parse
  where
    parse =
      getArgs >>= \words' -> case execParserPure (prefs showHelpOnEmpty) commands words' of
        Success act -> run act
        -- Help, the version, or a mistake: without handles, hence without the event manager.
        Failure failure -> do
          (text, code) <- renderFailure failure <$> getProgName
          toBytes (text ++ "\n") >>= writeText (if code == ExitSuccess then 1 else 2) >>= \case
            Right () -> exitImmediately code
            Left e -> do
              _ <- writeText 2 (Char8.pack ("heddle: standard output: " ++ describeErrno e ++ "\n"))
              exitImmediately (ExitFailure 2)
        completion -> run (join (handleParseResult completion))
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
    (hsubparser (command "serve" serveCommand <> command "find" findInfo <> command "pipe" pipeCommand <> command "json" jsonCommand) <**> version <**> helper)
    ( fullDesc
        <> header "heddle - concurrent Haskell at C's speed"
        <> footer "'heddle COMMAND --help' says more about a command."
        <> failureCode 2
    )
  where
    version = infoOption "heddle 0.1.0.0" (long "version" <> help "Show the version")
