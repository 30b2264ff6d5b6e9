{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Measure.Contender
-- Description : Programs that measure themselves, for a harness that starts several in turn
-- Stability   : stable
--
-- Alternatives that cannot be in one program, because they are in different languages or need different run-time options, are
-- compared by a harness that starts their programs in turn. Such a program reads the clocks itself, so its start and its end
-- are not measured. Before, it does the same work once unmeasured, so that memory has been touched and libraries are loaded.
--
-- > PROGRAM [-n TIMES] WAY NUMBER...
--
-- For each time, after a collection, it prints @timed WALL CPU BYTES ANSWER@: nanoseconds of wall time and of CPU time of the
-- process, bytes that the calling thread allocated, and what came out, by which the harness sees that all did the same.
--
-- > main :: IO ()
-- > main = contenderMain (oneNumber "N") [contender "sum" (\n -> evaluate (sum [1 .. n])), contender "foldr" (\n -> evaluate (foldr (+) 0 [1 .. n]))]
--
-- Cost: about a microsecond of what is measured.
-- Owner: the calling thread does the work.
module Heddle.Measure.Contender
  ( contenderMain,
    Contender,
    contender,
    contenderWith,
    Numbers,
    oneNumber,
    twoNumbers,
  )
where

import Control.Monad (guard, replicateM_)
import Data.List (find, intercalate)
import Heddle.Measure.Counters (CpuClock (..), Reading (..), measured, withCounters)
import Heddle.Prim.Atomic (newRef, readRef)
import Heddle.Prim.Exception (evaluate)
import System.Environment (getArgs, getProgName)
import System.Exit (die)
import System.IO (hFlush, stdout)
import System.Mem (performMajorGC)
import Text.Read (readMaybe)

-- | A way of doing the work, by its name.
data Contender n = forall input. Contender String (n -> IO input) (input -> n -> IO Int)

-- | Work whose size the numbers say; it gives its answer.
contender :: String -> (n -> IO Int) -> Contender n
contender name work = Contender name (const (pure ())) (const work)

-- | The same with an input that is made once before, unmeasured.
contenderWith :: String -> (n -> IO input) -> (input -> n -> IO Int) -> Contender n
contenderWith = Contender

-- | The numbers on the command line; all are positive.
data Numbers n = Numbers [String] ([Int] -> Maybe n)

-- | One, and what the usage calls it.
oneNumber :: String -> Numbers Int
oneNumber name = Numbers [name] $ \case
  [n] -> Just n
  _ -> Nothing

-- | Two of them.
twoNumbers :: String -> String -> Numbers (Int, Int)
twoNumbers one other = Numbers [one, other] $ \case
  [n, m] -> Just (n, m)
  _ -> Nothing

-- | Do what the command line says, in one of these ways.
--
-- [Throws]: @ExitFailure 1@ after a line on standard error if the arguments are wrong; what the work throws.
contenderMain :: Numbers n -> [Contender n] -> IO ()
contenderMain (Numbers names parse) contenders =
  getArgs >>= \arguments -> case understood arguments of
    Just (times, chosen, numbers) -> run times chosen numbers
    Nothing -> do
      program <- getProgName
      die (unwords ("usage:" : program : "[-n TIMES]" : intercalate "|" (map nameOf contenders) : names))
  where
    understood = \case
      "-n" : times : rest -> positive times >>= \n -> with n rest
      rest -> with 1 rest
    with times = \case
      name : rest -> (,,) times <$> find ((== name) . nameOf) contenders <*> (mapM positive rest >>= parse)
      [] -> Nothing
    nameOf (Contender name _ _) = name

positive :: String -> Maybe Int
positive text = do
  n <- readMaybe text
  n <$ guard (n > 0)

run :: Int -> Contender n -> n -> IO ()
run times (Contender _ prepare work) numbers = withCounters ProcessCpu $ \counters -> do
  input <- prepare numbers
  -- Read each time, so that the compiler cannot share an answer between the times.
  given <- newRef numbers
  let once = readRef given >>= work input >>= evaluate
  _ <- once
  replicateM_ times $ do
    performMajorGC
    (answer, reading) <- measured counters once
    putStrLn (unwords ("timed" : map show [readWall reading, readCpu reading, readAllocated reading] ++ [show answer]))
    hFlush stdout
