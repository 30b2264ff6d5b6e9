-- | Costs that grow with the number of tasks, failures and levels, and not faster.
module GrowthTest (tests) where

import Control.Exception (ErrorCall (..), SomeException, evaluate, throw, try)
import Control.Monad (forM_, replicateM_, void, when)
import GHC.Stats (RTSStats (..), getRTSStats)
import Heddle.Par (Closed (..))
import Heddle.Par qualified as Par
import Heddle.Par.IO hiding (try)
import Heddle.Par.IO qualified as ParIO
import Heddle.Sched (stepsTaken)
import System.Mem (performMajorGC)
import Test.QuickCheck (Gen, Property, chooseInt, forAll, frequency, ioProperty, vectorOf, (===))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase)
import Test.Tasty.QuickCheck (testProperty)
import Trees (onCapabilities)

{- HLINT ignore "Avoid lambda" -}
-- runPar cannot be composed: its argument is polymorphic.
{- HLINT ignore "Use error" -}
-- The type of the exception is compared.
{- HLINT ignore "Use >>" -}
-- Shows that the value is not read.

tests :: TestTree
tests =
  testGroup
    "growth"
    [ testProperty "deepFailuresWereComparedFromTheRoot" deepFailures,
      testGroup "everyFailureOrLevelLookedAtAllOthers" (map grows cases),
      -- The last, since its workers stay, and others probe them.
      testCase "everyNewWorkerCopiedTheTableOfAll" . onCapabilities 1 $ compareSizes 500 (void . evaluate . nested)
    ]

-- What a run of this size does.
cases :: [(String, Int, Int -> IO ())]
cases =
  [ ("tasks that fail in a pure run", 2000, \n -> caught (Par.runPar (forM_ [1 .. n] (Par.fork . failing)))),
    ("tasks that fail one after the other, handled", 1000, \n -> runParIO (replicateM_ n (failingTries 1))),
    ("a failure through nested spawns", 2000, caught . (\n -> Par.runPar (failingSpawns n))),
    ("nested spawns that all fail", 2000, caughtIO . runParIO . allFailing),
    ("nested forks that all fail", 2000, caughtIO . runParIO . failingForks),
    ("readers of one failure", 2000, \n -> caughtIO (runParIO (spawn (failing 0) >>= replicateM_ n . fork . get))),
    ("a failure through nested spawns, handled", 2000, \n -> runParIO (void (caughtInside (failingSpawns n)))),
    ("nested scopes", 1000, runParIO . scopes),
    ("nested scopes that fork", 1000, runParIO . forkingScopes),
    ("nested scopes in a task that waits", 500, runParIO . waitingScopes),
    ("nested scopes left of a failure", 1000, \n -> caughtIO (runParIO (fork (forkingScopes n) >> failing n))),
    ("nested tries", 1000, runParIO . tries),
    ("nested tries that all fail", 1000, runParIO . failingTries),
    ("nested leftmost", 500, \n -> void (evaluate (Par.runPar (searches n)))),
    ("nested leftmost with effects", 500, void . runParIO . searchesIO),
    ("leftmost with many that find something", 500, \n -> void (runParIO (leftmost [pure (Just i) | i <- [1 .. n]])))
  ]

grows :: (String, Int, Int -> IO ()) -> TestTree
grows (name, n, action) = testCase name . onCapabilities 1 $ do
  -- What is made once and kept is made here.
  action (8 * n)
  compareSizes n action

-- | Eight times as much would take 64 times as many steps and bytes if each looked at all others. Tables and lists
-- that double make a factor of two.
--
-- The counts are of the process: what other workers do meanwhile, such as those that earlier tests left and that look for
-- work, is in them. That only adds, so the least of several runs counts; what each run does anew is in all of them.
compareSizes :: Int -> (Int -> IO ()) -> IO ()
compareSizes n action = go (10 :: Int) (maxBound, maxBound) (maxBound, maxBound)
  where
    go runs before before8 = do
      least@(steps, bytes) <- lesser before <$> during (action n)
      least8@(steps8, bytes8) <- lesser before8 <$> during (action (8 * n))
      if steps8 <= 24 * (steps + 100) && bytes8 <= 24 * (bytes + 100000)
        then pure ()
        else
          if runs > 1
            then go (runs - 1) least least8
            else assertFailure ("steps " ++ show (steps, steps8) ++ ", bytes " ++ show (bytes, bytes8))
    lesser (a, b) (c, d) = (min a c, min b d)

during :: IO () -> IO (Int, Int)
during action = do
  bytes <- allocated
  steps <- stepsTaken
  action
  steps' <- stepsTaken
  bytes' <- allocated
  pure (steps' - steps, bytes' - bytes)
  where
    -- It is counted at collections.
    allocated = performMajorGC >> fromIntegral . allocated_bytes <$> getRTSStats

caught :: a -> IO ()
caught = caughtIO . void . evaluate

caughtIO :: IO () -> IO ()
caughtIO act = either (\(_ :: SomeException) -> ()) id <$> try act

failing :: Int -> Par.Par s ()
failing i = throw (ErrorCall (show i))

failingSpawns :: Int -> Par.Par s ()
failingSpawns 0 = failing 0
failingSpawns n = Par.spawn (failingSpawns (n - 1)) >>= Par.get

allFailing, failingForks, scopes, forkingScopes, tries, failingTries :: Int -> ParIO ()
allFailing 0 = failing 0
allFailing n = spawn (allFailing (n - 1)) >>= \_ -> failing n
failingForks 0 = failing 0
failingForks n = fork (failingForks (n - 1)) >> failing n
scopes 0 = pure ()
scopes n = scope (scopes (n - 1))
forkingScopes 0 = pure ()
forkingScopes n = scope (fork (pure ()) >> forkingScopes (n - 1) >> fork (pure ()))
tries 0 = pure ()
tries n = void (caughtInside (tries (n - 1)))
failingTries 0 = failing 0
failingTries n = void (caughtInside (failingTries (n - 1) >> fork (pure ()) >> failing n))

waitingScopes :: Int -> ParIO ()
waitingScopes n = new >>= \v -> fork (scopesAround n (get v)) >> put v ()

scopesAround :: Int -> ParIO () -> ParIO ()
scopesAround 0 inner = inner
scopesAround n inner = scope (scopesAround (n - 1) inner)

caughtInside :: ParIO () -> ParIO (Either ErrorCall ())
caughtInside = ParIO.try

searches :: Int -> Par.Par s (Maybe Int)
searches n = Par.leftmost [Closed (if n == 0 then pure (Just 0) else searches (n - 1)), Closed (pure Nothing)]

searchesIO :: Int -> ParIO (Maybe Int)
searchesIO n = leftmost [if n == 0 then pure (Just 0) else searchesIO (n - 1), pure Nothing]

nested :: Int -> Int
nested 0 = 0
nested n = Par.runPar (pure $! nested (n - 1) + 1)

-- | What a task does: parts of it, in order; then it fails, perhaps, with its number.
data Tree = Tree [(Part, Tree)] !Bool !Int
  deriving stock (Show)

data Part = Forked | Spawned | Scoped
  deriving stock (Show)

-- | Deep, with small branches; numbered in the order in which a sequential run ends them.
deep :: [Part] -> Gen Tree
deep kinds = chooseInt (1, 400) >>= fmap fst . go 0
  where
    go :: Int -> Int -> Gen (Tree, Int)
    go number depth
      | depth == 0 = (\fails -> (Tree [] fails number, number + 1)) <$> rarely
      | otherwise = do
        before <- small
        after <- small
        (parts, number') <- several number (before ++ [depth - 1] ++ after)
        (\fails -> (Tree parts fails number', number' + 1)) <$> rarely
    several number [] = pure ([], number)
    several number (d : ds) = do
      kind <- frequency [(1, pure k) | k <- kinds]
      (tree, number') <- go number d
      (others, number'') <- several number' ds
      pure ((kind, tree) : others, number'')
    small = frequency [(12, pure []), (1, vectorOf 1 (chooseInt (0, 2)))]
    rarely = frequency [(20, pure False), (1, pure True)]

failures :: Tree -> [Int]
failures (Tree parts fails number) = concatMap (failures . snd) parts ++ [number | fails]

-- | The leftmost of many failures at any depth, on two cores, where a failure cancels what is right of it
-- and where it does not.
deepFailures :: Property
deepFailures = forAll (deep [Forked, Spawned, Scoped]) $ \effects -> forAll (deep [Forked, Spawned]) $ \pure' ->
  ioProperty . onCapabilities 2 $ do
    cancelling <- try (runParIO (perform scope effects))
    going <- try (evaluate (Par.runPar (perform id pure')))
    pure ((cancelling, going) === (expected effects, expected pure'))
  where
    expected tree = case failures tree of
      [] -> Right ()
      number : _ -> Left (ErrorCall (show number))

perform :: (Par.Par s () -> Par.Par s ()) -> Tree -> Par.Par s ()
perform scoped = go
  where
    go (Tree parts fails number) = mapM_ part parts >> when fails (failing number)
    part (Forked, tree) = Par.fork (go tree)
    part (Spawned, tree) = void (Par.spawn (go tree))
    part (Scoped, tree) = scoped (go tree)
