-- | The programs of the article, as they are printed, print what they should.
module ListingTest
  ( tests,
  )
where

import Jobs
import System.Exit (ExitCode (..))
import Test.Tasty
import Test.Tasty.HUnit
import Text.Read (readMaybe)

tests :: [TestTree]
tests =
  [ testGroup "the article's listings" $
      testCase "listing 2, sequential" (listing "heddle-mpi-listing2" "alone" 1) :
        [ testCase (program ++ ", " ++ mpi ++ ", " ++ show n) (listing program mpi n)
          | program <- ["heddle-mpi-listing4", "heddle-mpi-listing5"],
            mpi <- implementations,
            n <- if mpi == "alone" then [1] else [1 .. 4]
        ]
  ]

-- The integral of the sine by chunks, as so many ranks do it, up to rounding: where the number
-- of ranks does not divide that of trapezoids, the article's programs leave some out.
listing :: FilePath -> String -> Int -> Assertion
listing program mpi ranks = do
  result <- runProgram program (Job mpi ranks ["0", "3.14159", "1000"] [] 60)
  resultExit result @?= Just ExitSuccess
  case map readMaybe (lines (resultOutput result)) of
    [Just x] -> assertBool (show x ++ " is not " ++ show expected) (abs (x - expected) < 1e-10)
    _ -> assertFailure ("not one number: " ++ resultOutput result ++ resultErrors result)
  where
    expected = h * ((sin 0 + sin (h * fromIntegral n)) / 2 + sum [sin (h * fromIntegral i) | i <- [1 .. n - 1]])
    h = 3.14159 / 1000 :: Double
    n = (1000 `div` ranks) * ranks
