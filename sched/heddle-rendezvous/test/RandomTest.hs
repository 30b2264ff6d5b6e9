-- | Random programs do what the reference interpreter says, on every schedule.
module RandomTest (tests, testsHere) where

import Compile
import Control.Monad (forM_)
import Data.List (isPrefixOf)
import Data.Map.Strict qualified as Map
import Data.Maybe (listToMaybe, mapMaybe)
import Generate
import Program
import Reference
import Support (getCores)
import System.Timeout (timeout)
import Test.QuickCheck
import Test.QuickCheck.Gen (unGen)
import Test.QuickCheck.Random (mkQCGen)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  testGroup
    "random programs"
    [ localOption (QuickCheckTests 5000) (testProperty "the reference says the same in any order" confluent),
      testCase "they are of all kinds" kinds
    ]

-- | On each number of cores.
testsHere :: TestTree
testsHere =
  testGroup
    "random programs"
    [ localOption (QuickCheckTests 25000) (testProperty "25,000 against the reference" agrees),
      testGroup "aDeadlockOfASearchWasCaughtByTheReference" [testCase name (everyWay p) | (name, p) <- hanging],
      testCase "24 of them on 250 random schedules each" schedules
    ]

confluent :: Property
confluent = forAllShrink anyProgram shrinkProgram $ \p seed ->
  let left = run LeftFirst p
   in conjoin [run order p === left | order <- [RightFirst, Shuffled seed, Shuffled (seed + 1)]]

-- | The generators make what the properties are to be about.
kinds :: IO ()
kinds = do
  ends <- outcomes Ending
  atLeast 1000 "finish" [() | Finished _ <- ends]
  stuck <- outcomes Stuck
  atLeast 300 "wait for ever" [() | Deadlocked _ <- stuck]
  throwing <- outcomes Throwing
  atLeast 200 "throw" [() | Failed _ (Boom _) <- throwing]
  atLeast 100 "crash" [() | Failed _ (Crashed _) <- throwing]
  mixed <- outcomes Mixed
  atLeast 50 "wait for ever" [() | Deadlocked _ <- mixed]
  atLeast 5 "have two writers" [() | Failed _ (TwoWriters _ _) <- mixed]
  atLeast 1 "have two worlds" [() | Failed _ (TwoWorlds _) <- mixed]
  atLeast 5 "receive what has ended" [() | Failed _ (Ended _) <- mixed]
  let caught = concatMap (concat . Map.elems . history . run LeftFirst) (some Throwing ++ some Mixed)
  atLeast 10 "catch poison" [() | Caught (Poison _) <- caught]
  atLeast 10 "catch what was thrown" [() | Caught (Boom _) <- caught]
  atLeast 5 "catch the end" [() | Caught (Ended _) <- caught]
  atLeast 20 "wait for ever in a search" [() | Failed _ (Hung _) <- throwing ++ mixed]
  where
    some kind = unGen (vectorOf 2000 (program kind)) (mkQCGen 4) 30
    outcomes kind = pure (map (outcome . run LeftFirst) (some kind))
    atLeast n what xs = assertBool ("only " ++ show (length xs) ++ " of 2,000 " ++ what) (length xs >= n)

agrees :: Property
agrees = forAllShrink anyProgram shrinkProgram $ \p seed ->
  forAll (elements [Purely, Seeded seed, WithEffects, WithEffectsSeeded seed]) (agreesOn p seed)

agreesOn :: Program -> Int -> Way -> Property
agreesOn p seed way = ioProperty $ do
  let p' = asRun way p
      want = run (Shuffled seed) p'
  timeout 60000000 (observe way p') >>= \case
    Nothing -> pure (counterexample ("does not end; to come: " ++ show want) False)
    Just got -> pure (counterexample (textOf got) (observed got === want .&&. rightCycle got))

-- | A handler of every exception round a search that can never end: directly, round a par, in a branch, in a search.
hanging :: [(String, Program)]
hanging =
  [ ("round the search", [Try CatchAll [search]]),
    ("round its par", [Try CatchAll [Par [alone [search]]]]),
    ("round a par of a par", [Try CatchAll [Par [alone [Par [alone [search], alone [Throw 1]]]]]]),
    ("in its branch, beside one that throws", [Try CatchAll [Par [alone [Try CatchAll [search]], alone [Throw 1]]]]),
    ("inside a search", [Leftmost [[Try CatchAll [search]]]]),
    ("round a search in a search", [Try CatchAll [Leftmost [[When 0 [End], search, End]]]])
  ]
  where
    alone = Branch [] False
    search = Leftmost [[New 0, Par [Branch [Grant 0 False True] False [Recv 0]]]]

everyWay :: Program -> IO ()
everyWay p = do
  forM_ [Purely, WithEffects] (holds . agreesOn p 0)
  forM_ [1 .. 25] $ \seed -> forM_ [Seeded seed, WithEffectsSeeded seed] (holds . agreesOn p seed)
  where
    holds property' = quickCheckWithResult stdArgs {maxSuccess = 1, chatty = False} property' >>= \r -> assertBool (output r) (isSuccess r)

asRun :: Way -> Program -> Program
asRun = \case
  Purely -> withoutEffects
  Seeded _ -> withoutEffects
  _ -> id

-- | Of a deadlock, the circle of the leftmost branch that waits for itself or for a parent;
-- else the shortest circle from the leftmost branch that is in one.
rightCycle :: Observed -> Property
rightCycle got = case outcome (observed got) of
  Deadlocked ws | circle : _ <- mapMaybe alone ws -> cycleOf got === circle
  Deadlocked ws -> case (cycleOf got, [n | Waiting n _ _ _ <- ws, Just n' <- [around ws n], n' > 0]) of
    ([], none) -> none === []
    (c : cs, first : _) ->
      conjoin
        [ c === first,
          Just (length (c : cs)) === around ws c,
          counterexample "not a circle" (and (zipWith (\a b -> b `elem` next ws a) (c : cs) (cs ++ [c])))
        ]
    (_, []) -> counterexample "a circle where there is none" False
  _ -> cycleOf got === []
  where
    alone (Waiting n _ _ missing)
      | n `elem` missing = Just [n]
      | otherwise = listToMaybe [[n, m] | m <- missing, (m ++ "/") `isPrefixOf` n]
    -- How many branches there are on the shortest way back.
    around ws n = go (1 :: Int) (next ws n) []
      where
        go k front seen
          | n `elem` front = Just k
          | null front = Nothing
          | otherwise = go (k + 1) [b | a <- front, b <- next ws a, b `notElem` (front ++ seen)] (front ++ seen)
    next ws n = case [missing | Waiting n' _ _ missing <- ws, n' == n] of
      missing : _ -> missing
      [] -> [n' | Waiting n' _ _ _ <- ws, (n ++ "/") `isPrefixOf` n']

-- | Everything that can be seen is the same, 250 times on each number of cores.
schedules :: IO ()
schedules = forM_ rich $ \p -> do
  let pure' = withoutEffects p
  first <- observe Purely pure'
  observed first @?= run LeftFirst pure'
  firstIO <- observe WithEffects p
  observed firstIO @?= run LeftFirst p
  cores <- getCores
  forM_ [1 .. 125] $ \k -> do
    let seed = cores * 1000 + k
    observe (Seeded seed) pure' >>= (@?= first)
    observe (WithEffectsSeeded seed) p >>= (@?= firstIO)
  where
    rich = concat [take 6 [p | p <- unGen (vectorOf 400 (program kind)) (mkQCGen (1 + fromEnum kind)) 30, worth kind (outcome (run LeftFirst p)), commands p >= 25] | kind <- [minBound .. maxBound]]
    worth kind o = case (kind, o) of
      (Ending, Finished _) -> True
      (Stuck, Deadlocked _) -> True
      (Throwing, Failed _ _) -> True
      (Mixed, _) -> True
      _ -> False
