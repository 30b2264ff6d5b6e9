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
import FindCommand (findCommand, findInfo)
import GHC.IO.Encoding (getFileSystemEncoding)
import JsonCommand (jsonCommand)
import Options.Applicative
import PipeCommand (pipeCommand)
import ServeCommand (serveCommand)
import System.IO (BufferMode (..), hSetBuffering, hSetEncoding, stderr, stdout)
import System.Posix.Env.ByteString qualified as Raw

main :: IO ()
main = do
  -- Names of files are shown in the bytes that they came in, whatever the locale.
  encoding <- getFileSystemEncoding
  hSetEncoding stdout encoding
  hSetEncoding stderr encoding
  -- A message is written whole, not byte by byte among those of other threads.
  hSetBuffering stderr LineBuffering
  arguments <- Raw.getArgs
  case arguments of
    -- find has a language of its own, over bytes.
    word : rest | word == Char8.pack "find" -> findCommand rest
    _ -> join (customExecParser (prefs showHelpOnEmpty) commands)

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
