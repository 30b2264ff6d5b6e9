{-# LANGUAGE RankNTypes #-}

-- | Searches: the answer of a sequential one, from left to right.
module LeftmostTest (tests) where

import Control.Exception (SomeException)
import Control.Monad (forM_, void)
import Data.Foldable (sequenceA_)
import Data.List (intercalate)
import Heddle.Rendezvous
import Support
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  testGroup
    "leftmost"
    [ localOption (QuickCheckTests 3000) (testProperty "as a sequential search" asSequential),
      testCase "nothing to search" (everySchedule (Right (Nothing :: Maybe Int)) (leftmost [])),
      testCase "no hit" (everySchedule (Right (Nothing :: Maybe Int)) (leftmost (replicate 20 (Closed (busy 2 >> pure Nothing))))),
      testCase "what lies to the right of a hit is cut off" (everySchedule (Right (Just 'x')) (leftmost [Closed (pure Nothing), Closed (busy 20 >> pure (Just 'x')), Closed endless, Closed (errorWithoutStackTrace "no"), Closed endless])),
      testCase "also what waits there" (everySchedule (Right (Just 'x')) (leftmost [Closed (busy 20 >> pure (Just 'x')), Closed (Nothing <$ stuck)])),
      testCase "an exception decides where it stands" (everySchedule (Left "main/leftmost[1]: Boom 1") (leftmost [Closed (pure Nothing), Closed (busy 20 >> throwDet (Boom 1)), Closed (pure (Just 'x')), Closed endless])),
      testCase "it can be caught" (everySchedule (Right (Left (Boom 1))) (tryDet (leftmost [Closed (throwDet (Boom 1)), Closed (pure (Just 'x'))]))),
      testCase "the path leads through the search" (everySchedule (Left "main/par[1]/leftmost[2]/par[0]: Boom 1") throughSearch),
      testCase "a crash decides where it stands" (everySchedule (Left "main/leftmost[0]: no") (void (tryDet (leftmost [Closed (busy 20 >>= \() -> errorWithoutStackTrace "no"), Closed (pure (Just 'x'))]) :: Det s (Either SomeException (Maybe Char))))),
      testCase "a result that is an error is a crash" resultThrows,
      testCase "so does a deadlock, though something runs on" (everyFairSchedule (Left ("main/leftmost[1]: " ++ deadlock)) (leftmost [Closed (pure Nothing), Closed (Nothing <$ stuck), Closed (endless :: Det s (Maybe ()))])),
      testCase "channels inside, searches inside" (everyFairSchedule (Right (Just 3)) inside),
      testCase "infiniteBranchesAreGoneWhenItReturns" many
    ]
  where
    deadlock =
      intercalate
        "\n"
        [ "deadlock: no branch can go on, and main has not ended",
          "  main/leftmost[1]/par[0] receives from \"c\", waits for main/leftmost[1] (which waits for it)",
          "  circle: main/leftmost[1]/par[0] -> main/leftmost[1] -> main/leftmost[1]/par[0]",
          "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main/leftmost[1] kept it"
        ]

-- | Never ends.
endless :: Det s a
endless = busy 10 >> endless

stuck :: Det s ()
stuck = do
  c <- newChan "c"
  par (branch (inp c) recv)

-- | What one part of a search does, after a while.
data Part = Misses | Hits Int | Throws Int | Crashes Int
  deriving stock (Eq, Show)

instance Arbitrary Part where
  arbitrary = frequency [(6, pure Misses), (1, Hits <$> arbitrary), (1, Throws <$> chooseInt (0, 9)), (1, Crashes <$> chooseInt (0, 9))]

asSequential :: Property
asSequential = forAllShrink (listOf ((,) <$> chooseInt (0, 30) <*> arbitrary)) (shrinkList (const [])) $ \parts ->
  let decided = any ((/= Misses) . snd) parts
   in ioProperty $ do
        got <- outcome (pure $! runDet (leftmost (map part parts ++ [Closed endless | decided])))
        pure (got === sequential (zip [0 ..] (map snd parts)))
  where
    part :: (Int, Part) -> Closed (Maybe Int)
    part (n, p) = Closed $ do
      busy n
      case p of
        Misses -> pure Nothing
        Hits k -> pure (Just k)
        Throws k -> throwDet (Boom k)
        Crashes k -> errorWithoutStackTrace (show k)
    sequential :: [(Int, Part)] -> Either String (Maybe Int)
    sequential [] = Right Nothing
    sequential ((i, p) : ps) = case p of
      Misses -> sequential ps
      Hits k -> Right (Just k)
      Throws k -> Left (at i ++ show (Boom k))
      Crashes k -> Left (at i ++ show k)
    at i = "main/leftmost[" ++ show (i :: Int) ++ "]: "

throughSearch :: Det s ()
throughSearch =
  par . sequenceA_ $
    [ branch () pure,
      branch () (\() -> void (leftmost [Closed (pure Nothing), Closed (Nothing <$ busy 20), Closed (Just <$> par (branch () (\() -> throwDet (Boom 1) :: Det t ())))]))
    ]

inside :: Det s (Maybe Int)
inside =
  leftmost
    [ Closed (leftmost [Closed (pure Nothing), Closed (leftmost [])]),
      Closed $ do
        c <- newChan "c"
        x <- par (branch (out c) (\o -> mapM_ (send o) [1, 2 :: Int]) *> branch (inp c) (\i -> (+) <$> recv i <*> recv i))
        leftmost [Closed (pure (Just x)), Closed endless],
      Closed endless
    ]

-- | If what is cut off went on, this would never be done.
many :: IO ()
many = forM_ [1 .. 300 :: Int] $ \k -> runDet (found k) @?= Just k
  where
    found :: Int -> Det s (Maybe Int)
    found k = leftmost [Closed (busy (k `mod` 7) >> pure (Just k)), Closed endless, Closed endless]

-- | It was forced between tasks once, where nothing could be interrupted.
resultThrows :: IO ()
resultThrows = do
  everySchedule (Left "main/leftmost[0]: no") (leftmost [Closed (pure (errorWithoutStackTrace "no" :: Maybe Int))])
  everySchedule
    (Left "main/leftmost[1]: no")
    (leftmost [Closed (pure Nothing), Closed (pure (errorWithoutStackTrace "no")), Closed (pure (Just 'x'))])
