-- | Linear where the article's listings are not.
module CostTest (tests) where

import Control.Exception (evaluate)
import Control.Monad.Trans.Class (lift)
import Data.Functor.Identity (Identity (..))
import Heddle.Coroutine
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "cost"
    [ testCase "binds nested to the left" (linear 10000 yieldsNested),
      testCase "stages one after the other" (linear 500 stagesInARow),
      testCase "a million binds nested to the left" (length (yieldsNested 1000000) @?= 1000000),
      testCase "effects cost what they cost below" (length (effects 100000) @?= 100000)
    ]

-- | Ten times as much takes ten times as many bytes.
linear :: Int -> (Int -> [Int]) -> IO ()
linear n body = do
  _ <- bytes n
  one <- bytes n
  ten <- bytes (10 * n)
  assertBool (show one ++ " bytes, and " ++ show ten ++ " for ten times as much") (ten < 12 * one)
  where
    bytes k = do
      before <- getAllocationCounter
      _ <- evaluate (sum (body k))
      after <- getAllocationCounter
      pure (before - after)

yieldsNested :: Int -> [Int]
yieldsNested n = fst (runIdentity (runGenerator (foldl (\g k -> g >> yield k) (pure ()) [1 .. n])))

-- | One value through many stages.
stagesInARow :: Int -> [Int]
stagesInARow n =
  fst (runIdentity (runGenerator (toGenerator (foldl (\p _ -> fst <$> (p =>= lift121 (+ 1))) (fromGenerator (yield 0)) [1 .. n]))))

effects :: Int -> [Int]
effects n = fst (runIdentity (runGenerator (mapM_ (\k -> lift (Identity ()) >> yield k) [1 .. n])))
