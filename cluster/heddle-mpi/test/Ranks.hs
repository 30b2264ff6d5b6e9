-- |
-- Module      : Ranks
-- Description : Tests that run on all ranks of a job
-- Stability   : internal to the tests
--
-- A case runs on every rank of a world of each of its sizes, under every MPI. An assertion
-- that fails on any rank fails the case. Each rank reports its results in a file.
--
-- Owner: the test program, run again by the launcher.
module Ranks
  ( -- * Cases
    Case (..),
    onRanks,
    anywhere,

    -- * Assertions
    assert,
    (===),
    throws,
    Library (..),
    library,
    exceptOn,

    -- * In the job
    runCases,
    Verdict (..),
    readVerdicts,
  )
where

import Control.Monad (unless)
import Data.Char (isDigit, isSpace)
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import Heddle.Prim.Exception hiding (assert)
import System.IO

-- | A name, how many ranks it is for, and what each does.
data Case = Case
  { caseName :: !String,
    caseSizes :: ![Int],
    caseBody :: IO ()
  }

-- | For worlds of these sizes, of 1 to 4.
onRanks :: [Int] -> String -> IO () -> Case
onRanks sizes name = Case name sizes

-- | For worlds of 1 to 4 processes.
anywhere :: String -> IO () -> Case
anywhere = onRanks [1 .. 4]

-- | Whose library this rank runs on, and its major release; what fails in some releases is not expected of them.
data Library = OpenMpi !Int | Mpich !Int | Alone
  deriving stock (Eq, Show)

-- | As it tells: @Open MPI v4.1.4, ...@ or @MPICH Version: 4.2.1 ...@.
library :: IO Library
library = do
  told <- words <$> implementation
  pure $ case told of
    "Open" : "MPI" : ('v' : version) : _ -> OpenMpi (major version)
    "MPICH" : "Version:" : version : _ -> Mpich (major version)
    _ -> Alone
  where
    major = read . takeWhile isDigit

newtype Failure = Failure String

instance Show Failure where
  showsPrec _ (Failure text) = showString text

instance Exception Failure

-- | Fail with this text unless it is true.
assert :: String -> Bool -> IO ()
assert text ok = unless ok (throwIO (Failure text))

infix 1 ===

-- | Fail unless the actual value equals the expected one.
(===) :: (Eq a, Show a) => a -> a -> IO ()
actual === expected = assert ("expected " ++ show expected ++ "\n but got " ++ show actual) (actual == expected)

-- | Fail unless the action throws an 'MPIError' of one of these classes.
throws :: [ErrorClass] -> IO a -> IO ()
throws classes action =
  try action >>= \case
    Left e | errorClass e `elem` classes -> pure ()
    Left e -> throwIO (Failure ("another error, not of " ++ show classes ++ ": " ++ displayException e))
    Right _ -> throwIO (Failure ("no error, not of " ++ show classes))

newtype KnownFault = KnownFault String

instance Show KnownFault where
  showsPrec _ (KnownFault text) = showString text

instance Exception KnownFault

-- | Run an action, unless the library has this fault, which docs/manual/mpi.md names: the case then ends, and its result says
-- that it was left out. On all ranks alike.
exceptOn :: [Library] -> String -> IO () -> IO ()
exceptOn libraries fault action = do
  mpi' <- library
  if mpi' `elem` libraries then throwIO (KnownFault fault) else action

-- | The result of a case on a rank.
data Verdict = Began | Passed | LeftOut String | Failed String
  deriving stock (Eq, Show)

-- | Run cases in sequence, from the given number on, inside 'mpi'; stop the job at the first
-- failure.
runCases :: FilePath -> Int -> [Case] -> IO ()
runCases path from cases = do
  rank <- commRank commWorld
  size <- commSize commWorld
  withFile (path ++ "." ++ show rank) AppendMode $ \file -> do
    let tell line = hPutStrLn file line >> hFlush file
        run (i, c)
          | i < from || size `notElem` caseSizes c = pure ()
          | otherwise = do
            tell (show i ++ " began")
            -- All ranks leave a case together, so that a failure belongs to one case.
            trySync (caseBody c >> barrier commWorld) >>= \case
              Right () -> tell (show i ++ " passed")
              Left e | Just (KnownFault text) <- fromException e -> barrier commWorld >> tell (show i ++ " omitted " ++ show text)
              Left e -> do
                tell (show i ++ " failed " ++ show (displayException e))
                abort 3
    mapM_ run (zip [0 :: Int ..] cases)

-- | The last result in a rank's file for each case.
readVerdicts :: FilePath -> IO [(Int, Verdict)]
readVerdicts path = map parse . filter (not . all isSpace) . lines <$> readFile path
  where
    parse line = case words line of
      [i, "began"] -> (read i, Began)
      [i, "passed"] -> (read i, Passed)
      i : "omitted" : _ -> (read i, LeftOut (read (drop (length i + 9) line)))
      i : "failed" : _ -> (read i, Failed (read (drop (length i + 8) line)))
      _ -> (-1, Failed line)
