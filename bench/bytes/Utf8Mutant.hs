-- | How many cases it takes to find that a decoder accepts text that ends within a character: with
-- random bytes, as the test that let the bug pass had them, and with generators of text that is
-- wrong in a known place.
--
-- @bench-bytes-utf8-mutant [RUNS]@. The random bytes are given more than they had then: a correct
-- decoder to compare with. Without one no number of cases finds the bug.
module Main (main) where

import Data.ByteString (ByteString)
import Data.List (sort)
import Heddle.Testkit.Utf8 (documentBytes, invalidDocument)
import OldUtf8 (acceptsOld, acceptsRefactored, poorTest)
import System.Environment (getArgs)
import System.Random (split)
import Test.QuickCheck.Gen (Gen (..))
import Test.QuickCheck.Random (QCGen, mkQCGen)
import Text.Printf (printf)

main :: IO ()
main = do
  runs <- maybe 1000 read . safeHead <$> getArgs
  report "random bytes, with an oracle" runs poorTest
  report "text wrong in a known place" runs (documentBytes <$> invalidDocument)
  where
    safeHead = \case
      x : _ -> Just x
      [] -> Nothing

report :: String -> Int -> Gen ByteString -> IO ()
report name runs gen = do
  let counts = sort [casesUntilFound gen (mkQCGen seed) | seed <- [1 .. runs]]
      at :: Double -> Int
      at q = counts !! min (runs - 1) (floor (q * fromIntegral runs))
      mean = fromIntegral (sum counts) / fromIntegral runs :: Double
      within = length (takeWhile (<= 100) counts)
  printf "%-28s median %d, mean %.1f, 99%% within %d; found within 100 cases: %d of %d runs\n" name (at 0.5) mean (at 0.99) within runs

-- | With sizes as QuickCheck chooses them: 0 to 99, over and over.
casesUntilFound :: Gen ByteString -> QCGen -> Int
casesUntilFound (MkGen make) = go 1
  where
    go n seed =
      let (now, later) = split seed
          text = make now ((n - 1) `rem` 100)
       in if acceptsRefactored text && not (acceptsOld text) then n else go (n + 1) later
