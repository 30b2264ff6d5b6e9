-- | The timing wheel against a sorted list of deadlines.
module WheelTest (tests) where

import Control.Monad
import Data.IORef
import Data.List (sort)
import Data.Map.Strict qualified as Map
import Heddle.IO.Internal.Wheel
import Test.QuickCheck
import Test.QuickCheck.Monadic (assert, monadicIO, monitor, run)
import Test.Tasty
import Test.Tasty.QuickCheck (testProperty)

data Step
  = Insert Int Int
  | Remove Int
  | Advance Int
  deriving stock (Show)

-- Distances of every magnitude, so that every level and its edges are used.
distance :: Gen Int
distance = oneof [choose (0, 3), choose (60, 68), magnitude, edge]
  where
    magnitude = choose (0, 39) >>= \b -> choose (0, 2 ^ (b :: Int))
    edge = (\l d -> max 0 (64 ^ (l :: Int) + d)) <$> choose (1, 6) <*> choose (-2, 2)

newtype Script = Script [Step]
  deriving stock (Show)

instance Arbitrary Script where
  arbitrary = Script <$> listOf step
    where
      step =
        frequency
          [ (6, Insert <$> choose (0, 40) <*> oneof [distance, negate <$> choose (0, 100)]),
            (2, Remove <$> choose (0, 40)),
            (3, Advance <$> distance)
          ]
  shrink (Script steps) = Script <$> shrinkList (const []) steps

-- | Fires exactly what the model says, never early, in order of time.
matchesModel :: NonNegative Int -> Script -> Property
matchesModel (NonNegative start) (Script steps) = monadicIO $ do
  wheel <- run (newWheel start)
  final <- foldM (play wheel) (start, Map.empty) steps
  -- Whatever is left fires in the end, and nothing else.
  _ <- play wheel final (Advance (2 ^ (39 :: Int)))
  left <- run (nextTick wheel)
  assert (left == noTick)
  where
    play wheel (now, model) = \case
      Insert entry offset -> do
        run (insert wheel entry (now + offset))
        next wheel (now, Map.insert entry (max now (now + offset)) model)
      Remove entry -> do
        run (remove wheel entry)
        next wheel (now, Map.delete entry model)
      Advance d -> do
        let to = now + d
            (due, rest) = Map.partition (<= to) model
        fired <- run $ do
          out <- newIORef []
          advance wheel to (\entry -> modifyIORef out (entry :))
          reverse <$> readIORef out
        monitor (counterexample ("fired " ++ show fired ++ ", due " ++ show due))
        assert (sort fired == Map.keys due)
        let times = map (due Map.!) fired
        assert (times == sort times)
        next wheel (to, rest)
    -- The wheel may ask to be woken early, to cascade, but never late.
    next wheel (now, model) = do
      tick <- run (nextTick wheel)
      monitor (counterexample ("next " ++ show tick ++ ", model " ++ show model))
      assert (if Map.null model then tick == noTick else tick <= minimum model && tick >= now)
      pure (now, model)

-- | An action may insert again, at a later tick, as lazy re-arming does.
refiring :: Property
refiring = forAll (listOf1 (choose (1, 300))) $ \periods -> monadicIO $ do
  counts <- run $ do
    wheel <- newWheel 0
    fired <- newIORef Map.empty
    forM_ (zip [0 ..] periods) (uncurry (insert wheel))
    forM_ [1 .. 3000] $ \now ->
      advance wheel now $ \entry -> do
        modifyIORef' fired (Map.insertWith (+) entry (1 :: Int))
        insert wheel entry (now + periods !! entry)
    readIORef fired
  assert (counts == Map.fromList [(i, 3000 `quot` p) | (i, p) <- zip [0 ..] periods, p <= 3000])

ticks :: Property
ticks = forAll (choose (0, 2 ^ (60 :: Int))) $ \n ->
  tickStart (tickCeiling n) >= n .&&. tickStart (tickFloor n) <= n .&&. tickCeiling n - tickFloor n <= 1

tests :: TestTree
tests =
  testGroup
    "Heddle.IO.Internal.Wheel"
    [ testProperty "fires as a sorted list does" (withMaxSuccess 2000 matchesModel),
      testProperty "an action may insert again" refiring,
      testProperty "ticks enclose their time" ticks
    ]
