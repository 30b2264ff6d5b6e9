-- |
-- Module      : Main
-- Description : Tests of heddle find
module Main
  ( main,
  )
where

import BadTest (badTests)
import Data.ByteString.Char8 qualified as Char8
import DateTest (dateTests)
import GHC.IO.Encoding (char8, setFileSystemEncoding, setForeignEncoding, setLocaleEncoding)
import GoldenTest (goldenTests)
import Heddle.Walk.Find (findAs)
import PartsTest (partsTests)
import RandomTest (randomTests)
import StartsTest (startsTests)
import System.Environment (setEnv)
import System.Exit (exitWith)
import System.Posix.Env.ByteString (getArgs)
import System.Posix.Signals (Handler (..), installHandler, sigPIPE)
import Test.Tasty (defaultMain, testGroup)

-- Called with @--as-find@, this program is find, so that one binary holds both sides of
-- the comparison.
main :: IO ()
main =
  getArgs >>= \case
    flag : arguments | flag == Char8.pack "--as-find" -> do
      _ <- installHandler sigPIPE Default Nothing
      findAs (Char8.pack "find") arguments >>= exitWith
    _ -> do
      -- Arguments and names are bytes.
      setFileSystemEncoding char8
      setForeignEncoding char8
      setLocaleEncoding char8
      -- One at a time: the dates change the zone of the process.
      setEnv "TASTY_NUM_THREADS" "1"
      defaultMain (testGroup "find" [partsTests, dateTests, badTests, goldenTests, startsTests, randomTests])
