-- |
-- Module      : Main
-- Description : The programs of the SHIM paper
-- Stability   : example
--
-- One sub-command per program of the paper's sections 5 and 6.
module Main
  ( main,
  )
where

import Control.Concurrent (runInUnboundThread)
import Control.Monad (join)
import Options.Applicative
import Programs
import System.IO (BufferMode (..), hSetBuffering, stderr)

main :: IO ()
main = do
  hSetBuffering stderr LineBuffering
  -- The main thread is bound to a thread of the system, and changes places with others slowly.
  runInUnboundThread (join (customExecParser (prefs showHelpOnEmpty) commands))

commands :: ParserInfo (IO ())
commands =
  info
    (hsubparser (foldMap (uncurry command) programs) <**> helper)
    ( fullDesc
        <> header "heddle-rendezvous-examples - the programs of the SHIM paper"
        <> progDesc "Compute an answer in several ways, and show how long each takes"
        <> footer
          "'heddle-rendezvous-examples COMMAND --help' says more about a command. Exit codes: 0 after an \
          \answer, 2 when the command line or the input is wrong, 1 when the ways do not agree."
        <> failureCode 2
    )
