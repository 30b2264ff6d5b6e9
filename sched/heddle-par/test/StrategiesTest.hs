-- | Strategies: the same values as without them, no sooner than they are needed.
module StrategiesTest (tests) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (ErrorCall (..), evaluate, try)
import Control.Monad (forM_)
import GHC.Conc (getAllocationCounter, setAllocationCounter)
import Heddle.Par.Strategies
import Heddle.Testkit.Judging (whenOptimised)
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)
import Trees (onCapabilities)

tests :: TestTree
tests =
  testGroup
    "strategies"
    [ testProperty "parList" (\xs -> (map (+ 1) xs `using` parList rdeepseq) == map (+ (1 :: Int)) xs),
      testProperty "parMap" (\xs -> parMap rseq (* 2) xs == map (* (2 :: Int)) xs),
      testProperty "parListChunk" (\n xs -> (xs `using` parListChunk n rseq) == (xs :: [Int])),
      testProperty "parListN" (\n xs -> (xs `using` parListN n rseq) == (xs :: [Int])),
      testProperty "parBuffer" (\n xs -> (xs `using` parBuffer (abs n) rseq) == (xs :: [Int])),
      testProperty "evalBuffer" (\n xs -> (xs `using` evalBuffer (abs n) rseq) == (xs :: [Int])),
      testProperty "parTraversable" (\m -> (m `using` parTraversable rseq) == (m :: Maybe Int)),
      testProperty "tuples" (\a b c -> ((a, b, c) `using` parTuple3 rseq rdeepseq r0) == (a, b, c :: Int) && ((a, b) `using` parTuple2 rseq rseq) == (a :: Int, b :: Int)),
      testCase "parBuffer is lazy" (take 5 (withStrategy (parBuffer 3 rseq) [1 ..]) @?= [1 .. 5 :: Int]),
      testCase "an element that throws hurts only who takes it" $ do
        let xs = parMap rseq (\i -> if i == 3 then error "three" else i) [1 .. 5 :: Int]
        sum (take 2 xs) @?= 3
        got <- try (evaluate (sum xs))
        either (\(ErrorCall m) -> m) show got @?= "three",
      testCase "sparksAfterTheFirstIdleMoment" . onCapabilities 2 $ idleBetween,
      testCase "sparks of sparks, on 4 capabilities" . onCapabilities 4 $
        nfib 16 @?= 1597,
      whenOptimised . testCase "sparkWasATaskOfThePool: a spark allocates nothing besides its thunk" . onCapabilities 1 $ do
        bytes <- bytesPerSpark
        assertBool (show bytes ++ " bytes for each spark") (bytes <= 200),
      testCase "more sparks than the runtime keeps" . onCapabilities 1 $ do
        let values = map (\i -> i * 3 + 1) [1 .. 300000 :: Int]
        sum (values `using` parBuffer 100 rseq) @?= sum values
        sum (values `using` parList rseq) @?= sum values,
      testCase "dot" ((([1, 2, 3] :: [Int]) `using` (parList rseq `dot` evalList rseq)) @?= [1, 2, 3])
    ]

-- | Bytes that a spark allocates, its thunk and the loop included.
bytesPerSpark :: IO Int
bytesPerSpark = do
  setAllocationCounter maxBound
  forM_ [1 .. 100000 :: Int] $ \i -> evaluate (par (i + 1) ())
  left <- getAllocationCounter
  pure (fromIntegral (maxBound - left) `quot` 100000)

nfib :: Int -> Int
nfib n
  | n < 2 = 1
  | otherwise =
    let a = nfib (n - 1)
        b = nfib (n - 2)
     in a `par` (b `pseq` a + b)

-- | Sparks are run by workers, and not only the first of them.
idleBetween :: IO ()
idleBetween = forM_ [1 .. 5 :: Int] $ \i -> do
  ran <- newEmptyMVar
  let value = unsafePerformIO (putMVar ran i)
  () <- evaluate (par value ())
  -- Nobody else evaluates it.
  got <- timeout 60000000 (takeMVar ran)
  got @?= Just i
  -- The collector drops a spark that is not needed.
  evaluate value
