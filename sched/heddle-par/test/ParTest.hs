-- | Answers: the same on every number of capabilities.
module ParTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (evaluate, try)
import Control.Monad (forM, forM_, replicateM)
import Heddle.Par
import Heddle.Par.IO qualified as ParIO
import Heddle.Par.MonadPar qualified as MonadPar
import SafeUse qualified
import Test.QuickCheck (Property, forAll, generate, ioProperty, suchThat, (===))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)
import Trees

tests :: TestTree
tests =
  testGroup
    "answers"
    [ testProperty "runPar equals the sequential run" (forAll (small (anyTree 8 `suchThat` isPure)) runsPure),
      testProperty "runParIO equals the sequential run" (forAll (small (anyTree 8)) runsIO),
      testCase "the same answers on 1 to 8 capabilities" everywhere,
      testCase "a fork for every number up to 100,000" manyForks,
      testCase "a task waits for one to its right" rightToLeft,
      testCase "a wave front of IVars" waveFront,
      testCase "runs inside runs, 60 deep" nested,
      testCase "two tasks need the same nested run" sharedNested,
      testCase "100 threads run at once" manyCallers,
      testCase "parMapReduce covers every range" ranges,
      testCase "leftmost does not begin what it does not need" leftmostLazy,
      testCase "programs for monad-par" monadPar,
      testCase "aSafeModuleCouldNotImportThem" fromSafeModule
    ]

fromSafeModule :: IO ()
fromSafeModule = do
  SafeUse.total 100 @?= 5050
  SafeUse.totalSparked 100 @?= 5050
  SafeUse.totalIO 100 >>= (@?= 5050)

runsPure :: Tree -> Property
runsPure t = ioProperty $ do
  got <- try (evaluate (runPar (parallel t)))
  pure (got === sequentially t)

runsIO :: Tree -> Property
runsIO t = ioProperty $ do
  got <- try (ParIO.runParIO (parallelIO t))
  pure (got === sequentially t)

everywhere :: IO ()
everywhere = forM_ [1 .. 8] $ \n -> onCapabilities n $ do
  trees <- replicateM 60 (generate (small (anyTree 12)))
  forM_ trees $ \t -> do
    got <- try (ParIO.runParIO (parallelIO t))
    got @?= sequentially t
    if isPure t then try (evaluate (runPar (parallel t))) >>= (@?= sequentially t) else pure ()
  runPar (fib 20) @?= 10946

fib :: Int -> Par s Int
fib n
  | n < 2 = pure 1
  | otherwise = do
    a <- spawn (fib (n - 1))
    b <- fib (n - 2)
    (+ b) <$> get a

manyForks :: IO ()
manyForks = runPar (parMap (* 2) [1 .. 100000 :: Int] >>= \xs -> pure $! sum xs) @?= 10000100000

rightToLeft :: IO ()
rightToLeft = forM_ [1 .. 2000 :: Int] $ \i -> do
  let answer = runPar $ do
        a <- new
        b <- new
        fork (get a >>= \x -> put b (x + 1))
        fork (put a i)
        get b
  answer @?= i + 1

waveFront :: IO ()
waveFront = runPar front @?= (ways !! 30) !! 30
  where
    n = 30 :: Int
    front = do
      cells <- replicateM (n + 1) (replicateM (n + 1) new)
      let at i j = cells !! i !! j
      -- From the last to the first, so that nearly every one has to wait.
      forM_ [(i, j) | i <- [n, n - 1 .. 0], j <- [n, n - 1 .. 0]] $ \(i, j) ->
        fork $
          if i == 0 || j == 0
            then put (at i j) (1 :: Integer)
            else do
              x <- get (at (i - 1) j)
              y <- get (at i (j - 1))
              put (at i j) (x + y)
      get (at n n)
    ways = iterate (scanl1 (+)) (replicate (n + 1) 1)

nested :: IO ()
nested = go (60 :: Int) @?= 2 * 60
  where
    go 0 = 0 :: Int
    go n = runPar $ do
      a <- spawn (pure $! 1)
      b <- spawn (pure $! go (n - 1))
      c <- spawn (pure $! 1)
      (\x y z -> x + y + z) <$> get a <*> get b <*> get c

sharedNested :: IO ()
sharedNested = forM_ [1 .. 300 :: Int] $ \i -> do
  let shared = runPar (parMap (+ i) [1 .. 20]) :: [Int]
      answer = runPar $ do
        vs <- forM [1 .. 8 :: Int] $ \_ -> spawn (pure $! sum shared)
        sum <$> mapM get vs
  answer @?= 8 * (210 + 20 * i)

manyCallers :: IO ()
manyCallers = do
  done <- forM [1 .. 100 :: Int] $ \i -> do
    m <- newEmptyMVar
    _ <- forkIO (evaluate (runPar (parMap (+ i) [1 .. 200])) >>= putMVar m . sum)
    pure (i, m)
  forM_ done $ \(i, m) -> takeMVar m >>= (@?= (20100 + 200 * i))

ranges :: IO ()
ranges = forM_ [(grain, from, to) | grain <- [0, 1, 2, 7], from <- [-2 .. 2], to <- [-3 .. 12]] $ \(grain, from, to) ->
  runPar (parMapReduce grain (from, to) (pure . pure) (++) []) @?= [from .. to]

leftmostLazy :: IO ()
leftmostLazy = runPar (leftmost (map found [0 ..])) @?= Just (3 :: Int)
  where
    found i = Closed (pure (if i < 3 then Nothing else Just i))

monadPar :: IO ()
monadPar = do
  MonadPar.runPar (MonadPar.parMapM (\x -> pure (x + 1)) [1 .. 100 :: Int]) @?= [2 .. 101]
  MonadPar.runPar (MonadPar.parMapReduceRange (MonadPar.InclusiveRange 1 1000) pure (\a b -> pure (a + b)) 0) @?= 500500
  MonadPar.runPar (MonadPar.newFull (7 :: Int) >>= MonadPar.get) @?= 7
