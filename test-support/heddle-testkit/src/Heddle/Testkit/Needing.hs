-- | Tests that need a program of another project, which @make test-conformance@ fetches.
module Heddle.Testkit.Needing
  ( needing,
  )
where

import System.Directory (findExecutable)
import Test.Tasty (TestName, TestTree)
import Test.Tasty.HUnit (testCase)

-- | Where the program is not in the path, the test's name says so, and the summary of all suites counts it.
needing :: FilePath -> TestName -> (FilePath -> IO ()) -> IO TestTree
needing program name act = maybe left (testCase name . act) <$> findExecutable program
  where
    left = testCase (name ++ " (skipped: no " ++ program ++ "; see make test-conformance)") (pure ())
