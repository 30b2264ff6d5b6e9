{-# LANGUAGE FlexibleInstances #-}

-- | Random programs do what the article's listings do: the same effects in the same order,
-- the same results.
module ProgramTest (tests) where

import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Writer.Strict (Writer, runWriter, tell)
import Data.Functor.Identity (Identity (..))
import Heddle.Coroutine qualified as Ours
import Heddle.Coroutine.Article qualified as Spec
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.QuickCheck (QuickCheckMaxSize (..), QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  localOption (QuickCheckTests 20000) . localOption (QuickCheckMaxSize 16) $
    testGroup
      "random programs"
      [ testProperty "transducers in pipelines of any shape" pipelines,
        testProperty "trampolines, interleaved" interleaved,
        testProperty "a generator and an iteratee" pairs,
        testProperty "generators resumed by hand, then bound" byHand,
        testProperty "binds are associative" associative,
        testProperty "pure is neutral" neutral
      ]

-- | What has been done.
type Out = Writer [Int]

note :: Int -> Out ()
note n = tell [n]

-- | What a transducer does; values are added to the last one awaited.
data Command = Say Int | Await | Yield Int | Stop
  deriving stock (Eq, Show)

data Stage
  = Commands Nesting [Command]
  | OneToOne Int
  | Stateless Int
  | Stateful Int
  | Stage :=>= Stage
  deriving stock (Eq, Show)

-- | How its binds nest.
data Nesting = ToTheLeft | ToTheRight
  deriving stock (Eq, Show)

instance Arbitrary Command where
  arbitrary = frequency [(3, Say <$> arbitrary), (4, pure Await), (4, Yield <$> arbitrary), (1, pure Stop)]

instance Arbitrary Nesting where
  arbitrary = elements [ToTheLeft, ToTheRight]

instance Arbitrary Stage where
  arbitrary = sized $ \n ->
    frequency
      [ (4, Commands <$> arbitrary <*> arbitrary),
        (1, OneToOne <$> arbitrary),
        (1, Stateless <$> chooseInt (0, 2)),
        (1, Stateful <$> arbitrary),
        (if n > 1 then 6 else 0, (:=>=) <$> resize (n `div` 2) arbitrary <*> resize (n `div` 2) arbitrary)
      ]
  shrink = \case
    Commands n cs -> Commands n <$> shrink cs
    a :=>= b -> [a, b] ++ map (:=>= b) (shrink a) ++ map (a :=>=) (shrink b)
    _ -> []

-- | Both libraries.
class Monad t => Transducers t where
  out :: Out a -> t a
  awaitT :: t (Maybe Int)
  yieldT :: Int -> t ()
  oneToOne :: (Int -> Int) -> t ()
  stateless :: (Int -> [Int]) -> t ()
  stateful :: (Int -> Int -> (Int, [Int])) -> (Int -> [Int]) -> Int -> t ()
  pipe :: t a -> t b -> t (a, b)

instance Transducers (Ours.Coroutine (Ours.EitherFunctor ((->) (Maybe Int)) ((,) Int)) Out) where
  out = lift
  awaitT = Ours.awaitT
  yieldT = Ours.yieldT
  oneToOne = Ours.lift121
  stateless = Ours.liftStateless
  stateful = Ours.liftStateful
  pipe = (Ours.=>=)

instance Transducers (Spec.Coroutine (Ours.EitherFunctor ((->) (Maybe Int)) ((,) Int)) Out) where
  out = lift
  awaitT = Spec.awaitT
  yieldT = Spec.yieldT
  oneToOne = Spec.lift121
  stateless = Spec.liftStateless
  stateful = Spec.liftStateful
  pipe = (Spec.=>=)

stage :: Transducers t => Stage -> t [Int]
stage = \case
  Commands nesting cs -> (: []) <$> nested nesting (map command cs)
  OneToOne k -> [k] <$ oneToOne (+ k)
  Stateless k -> [k] <$ stateless (\a -> take k [a ..])
  Stateful k -> [k] <$ stateful (\s a -> (s + a, [s, a])) (: [k]) k
  a :=>= b -> uncurry (++) <$> pipe (stage a) (stage b)

-- | With the last value awaited, and whether to go on.
command :: Transducers t => Command -> (Int, Bool) -> t (Int, Bool)
command _ (a, False) = pure (a, False)
command c (a, True) = case c of
  Say n -> (a, True) <$ out (note (a + n))
  Await -> (\got -> (maybe (-1) (+ 1) got, True)) <$> awaitT
  Yield n -> (a, True) <$ yieldT (a + n)
  Stop -> pure (a, False)

nested :: Monad t => Nesting -> [(Int, Bool) -> t (Int, Bool)] -> t Int
nested nesting steps =
  fst <$> case nesting of
    ToTheLeft -> foldl (>>=) (pure (0, True)) steps
    ToTheRight -> foldr (\f rest s -> f s >>= rest) pure steps (0, True)

pipelines :: Stage -> [Int] -> Property
pipelines s inputs = ours === spec
  where
    ours, spec :: ((((), [Int]), [Int]), [Int])
    ours =
      runWriter . Ours.run . Ours.toTrampoline $
        (Ours.fromGenerator (mapM_ Ours.yield inputs) Ours.=>= stage s) Ours.=>= Ours.fromIteratee collectOurs
    spec =
      runWriter . Spec.run . Spec.toTrampoline $
        (Spec.fromGenerator (mapM_ Spec.yield inputs) Spec.=>= stage s) Spec.=>= Spec.fromIteratee collectSpec
    collectOurs :: Ours.Iteratee (Maybe Int) Out [Int]
    collectOurs = Ours.await >>= maybe (pure []) (\a -> lift (note a) >> (a :) <$> collectOurs)
    collectSpec :: Spec.Iteratee (Maybe Int) Out [Int]
    collectSpec = Spec.await >>= maybe (pure []) (\a -> lift (note a) >> (a :) <$> collectSpec)

interleaved :: [[Maybe Int]] -> Property
interleaved them =
  runWriter (Ours.run (Ours.interleave (map ours them))) === runWriter (Spec.run (Spec.interleave (map spec them)))
  where
    ours cs = length cs <$ mapM_ (maybe Ours.pause (lift . note)) cs
    spec cs = length cs <$ mapM_ (maybe Spec.pause (lift . note)) cs

pairs :: [Either Int Int] -> [Maybe Int] -> Property
pairs yields awaits =
  runWriter (Ours.pipe2 (mapM_ (either Ours.yield (lift . note)) yields) (mapM (maybe Ours.await (\n -> Just n <$ lift (note n))) awaits))
    === runWriter (Spec.pipe2 (mapM_ (either Spec.yield (lift . note)) yields) (mapM (maybe Spec.await (\n -> Just n <$ lift (note n))) awaits))

-- | Resume some steps, then bind, and so on.
byHand :: [Int] -> [[Int]] -> NonNegative Int -> Property
byHand begin more (NonNegative k) = ours === spec
  where
    ours = runWriter (oursGo (k `mod` 7) (oneOurs begin) more >>= Ours.runGenerator)
    spec = runWriter (specGo (k `mod` 7) (oneSpec begin) more >>= Spec.runGenerator)
    oneOurs ns = sum ns <$ mapM_ (\n -> lift (note n) >> Ours.yield n) ns
    oneSpec ns = sum ns <$ mapM_ (\n -> lift (note n) >> Spec.yield n) ns
    oursGo _ c [] = pure c
    oursGo n c (ns : rest) = oursSkip n c >>= \c' -> oursGo n (c' >>= \s -> (s +) <$> oneOurs ns) rest
    specGo _ c [] = pure c
    specGo n c (ns : rest) = specSkip n c >>= \c' -> specGo n (c' >>= \s -> (s +) <$> oneSpec ns) rest
    oursSkip :: Int -> Ours.Generator Int Out Int -> Out (Ours.Generator Int Out Int)
    oursSkip 0 c = pure c
    oursSkip n c = Ours.resume c >>= either (\(a, c') -> note a >> oursSkip (n - 1) c') (pure . pure)
    specSkip :: Int -> Spec.Generator Int Out Int -> Out (Spec.Generator Int Out Int)
    specSkip 0 c = pure c
    specSkip n c = Spec.resume c >>= either (\(a, c') -> note a >> specSkip (n - 1) c') (pure . pure)

-- | Fed with these, to the end.
fed :: [Int] -> Ours.Coroutine (Ours.EitherFunctor ((->) (Maybe Int)) ((,) Int)) Out r -> (r, [Int])
fed inputs c = runWriter (go (map Just inputs ++ repeat Nothing) c)
  where
    go as t =
      Ours.resume t >>= \case
        Right r -> pure r
        Left (Ours.LeftF f) -> go (drop 1 as) (f (head as))
        Left (Ours.RightF (a, t')) -> note a >> go as t'

associative :: [Command] -> [Command] -> [Command] -> [Int] -> Property
associative p q r inputs = fed inputs ((a >>= f) >>= g) === fed inputs (a >>= \x -> f x >>= g)
  where
    a = nested ToTheRight (map command p)
    f x = (x +) <$> nested ToTheRight (map command q)
    g x = (x *) <$> nested ToTheRight (map command r)

neutral :: [Command] -> [Int] -> Property
neutral p inputs = fed inputs (pure 1 >>= \n -> (+ n) . subtract 1 <$> a) === fed inputs a .&&. fed inputs (a >>= pure) === fed inputs a .&&. fed inputs (runIdentity . Identity <$> a) === fed inputs a
  where
    a = nested ToTheRight (map command p)
