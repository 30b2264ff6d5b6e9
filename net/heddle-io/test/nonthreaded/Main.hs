-- | Linked without @-threaded@: heddle-io must refuse, and say what to do.
module Main (main) where

import Control.Exception (displayException, try)
import Control.Monad (void)
import Data.List (isInfixOf)
import Heddle.IO
import System.Exit (exitFailure)

main :: IO ()
main = do
  refusedBy "withRuntime" (withRuntime defaultConfig (\_ -> pure ()))
  refusedBy "systemRuntime" (void systemRuntime)

refusedBy :: String -> IO () -> IO ()
refusedBy what start = do
  r <- try start
  case r of
    Left NotThreaded
      | all (`isInfixOf` displayException NotThreaded) ["threaded runtime", "'-threaded'"] -> putStrLn (what ++ ": refused, as it should be")
    other -> do
      putStrLn (what ++ ": " ++ either displayException (const "started") other)
      exitFailure
