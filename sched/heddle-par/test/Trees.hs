{-# LANGUAGE RankNTypes #-}

-- | Programs as data: run by the library, and by a sequential model that says what must
-- come out.
module Trees
  ( Tree (..),
    Boom (..),
    anyTree,
    failingTree,
    failures,
    sequentially,
    parallelIO,
    parallel,
    isPure,
    small,
    onCapabilities,
  )
where

import Control.Exception (Exception, throw, throwIO)
import Control.Monad (void)
import Data.Either (fromRight)
import Data.Maybe (fromMaybe)
import Heddle.Par (Closed (..), Par)
import Heddle.Par qualified as Par
import Heddle.Par.IO (ParIO, liftIO)
import Heddle.Par.IO qualified as ParIO
import Heddle.Prim.Exception (finally)
import Heddle.Prim.Thread (getCapabilities, setCapabilities)
import Test.QuickCheck (Arbitrary (..), Gen, chooseInt, frequency, resize, sized, vectorOf)

-- | What a program does.
data Tree
  = Leaf Int
  | -- | Computes a while, so that schedules differ.
    Work Int
  | Fail Int
  | -- | Fork the left, go on with the right.
    Fork Tree Tree
  | -- | Spawn the left, run the right, then read the left.
    SpawnLate Tree Tree
  | -- | Spawn the left and read it at once, then run the right.
    SpawnEarly Tree Tree
  | -- | Spawn the left, never read it.
    SpawnOnly Tree Tree
  | -- | The right waits for an IVar that the left writes.
    Through Tree Tree
  | Scope Tree
  | Try Tree
  | -- | Even results are hits.
    Leftmost [Tree]
  deriving stock (Show)

-- | An exception by number.
newtype Boom = Boom Int
  deriving stock (Eq, Show)

instance Exception Boom

-- | Programs of which about one leaf in so many fails.
anyTree :: Int -> Gen Tree
anyTree rare = sized go
  where
    go n
      | n <= 1 =
        frequency
          [ (rare - 1, Leaf <$> chooseInt (0, 99)),
            (rare, Work <$> chooseInt (0, 200)),
            (1, Fail <$> arbitrary)
          ]
      | otherwise = do
        k <- chooseInt (1, n - 1)
        let two f = f <$> go k <*> go (n - k)
        frequency
          [ (4, two Fork),
            (4, two SpawnLate),
            (3, two SpawnEarly),
            (2, two SpawnOnly),
            (2, two Through),
            (1, Scope <$> go (n - 1)),
            (1, Try <$> go (n - 1)),
            (1, chooseInt (0, 4) >>= \m -> Leftmost <$> vectorOf m (resize (n `quot` max 1 m) (anyTree rare)))
          ]

-- | Only programs with failures: every leaf is one.
failingTree :: Gen Tree
failingTree = sized go
  where
    go n
      | n <= 1 = Fail <$> arbitrary
      | otherwise = do
        k <- chooseInt (1, n - 1)
        frequency [(1, Fork <$> go k <*> go (n - k)), (1, SpawnLate <$> go k <*> go (n - k)), (1, SpawnOnly <$> go k <*> go (n - k))]

instance Arbitrary Tree where
  arbitrary = anyTree 8
  shrink = \case
    Leaf _ -> []
    Work _ -> [Leaf 0]
    Fail i -> [Leaf i]
    Fork l r -> both Fork l r
    SpawnLate l r -> both SpawnLate l r
    SpawnEarly l r -> both SpawnEarly l r
    SpawnOnly l r -> both SpawnOnly l r
    Through l r -> both Through l r
    Scope t -> t : map Scope (shrink t)
    Try t -> t : map Try (shrink t)
    Leftmost ts -> ts ++ map Leftmost (shrink ts)
    where
      both f l r = [l, r] ++ [f l' r | l' <- shrink l] ++ [f l r' | r' <- shrink r]

-- | How many failures it contains.
failures :: Tree -> Int
failures = \case
  Leaf _ -> 0
  Work _ -> 0
  Fail _ -> 1
  Fork l r -> failures l + failures r
  SpawnLate l r -> failures l + failures r
  SpawnEarly l r -> failures l + failures r
  SpawnOnly l r -> failures l + failures r
  Through l r -> failures l + failures r
  Scope t -> failures t
  Try t -> failures t
  Leftmost ts -> sum (map failures ts)

-- | Does a pure run offer everything in it?
isPure :: Tree -> Bool
isPure = \case
  Scope _ -> False
  Try _ -> False
  Fork l r -> isPure l && isPure r
  SpawnLate l r -> isPure l && isPure r
  SpawnEarly l r -> isPure l && isPure r
  SpawnOnly l r -> isPure l && isPure r
  Through l r -> isPure l && isPure r
  Leftmost ts -> all isPure ts
  _ -> True

-- | One thing after the other, what is forked first.
sequentially :: Tree -> Either Boom Int
sequentially = \case
  Leaf i -> Right i
  Work i -> Right (work i)
  Fail i -> Left (Boom i)
  Fork l r -> sequentially l >> sequentially r
  SpawnLate l r -> (-) <$> sequentially l <*> sequentially r
  SpawnEarly l r -> (-) <$> sequentially l <*> sequentially r
  SpawnOnly l r -> sequentially l >> sequentially r
  Through l r -> (-) <$> sequentially l <*> sequentially r
  Scope t -> sequentially t
  Try t -> Right (fromRight (-1) (sequentially t))
  Leftmost ts -> first ts
  where
    first [] = Right 1000
    first (t : ts) = sequentially t >>= \i -> if even i then Right i else first ts

work :: Int -> Int
work n = length (filter odd (takeWhile (/= 1) (iterate (\x -> if even x then x `quot` 2 else 3 * x + 1) (n + 1))))

-- | With effects.
parallelIO :: Tree -> ParIO Int
parallelIO = \case
  Leaf i -> pure i
  Work i -> pure $! work i
  Fail i -> liftIO (throwIO (Boom i))
  Fork l r -> ParIO.fork (void (parallelIO l)) >> parallelIO r
  SpawnLate l r -> do
    v <- ParIO.spawn (parallelIO l)
    b <- parallelIO r
    subtract b <$> ParIO.get v
  SpawnEarly l r -> do
    v <- ParIO.spawn (parallelIO l)
    a <- ParIO.get v
    (a -) <$> parallelIO r
  SpawnOnly l r -> ParIO.spawn (parallelIO l) >> parallelIO r
  Through l r -> do
    v <- ParIO.new
    ParIO.fork (parallelIO l >>= ParIO.put v)
    a <- ParIO.get v
    (a -) <$> parallelIO r
  Scope t -> ParIO.scope (parallelIO t)
  Try t -> either (\(Boom _) -> -1) id <$> ParIO.try (parallelIO t)
  Leftmost ts -> fromMaybe 1000 <$> ParIO.leftmost [hit <$> parallelIO t | t <- ts]

-- | Without.
parallel :: Tree -> Par s Int
parallel = \case
  Leaf i -> pure i
  Work i -> pure $! work i
  Fail i -> throw (Boom i)
  Fork l r -> Par.fork (void (parallel l)) >> parallel r
  SpawnLate l r -> do
    v <- Par.spawn (parallel l)
    b <- parallel r
    subtract b <$> Par.get v
  SpawnEarly l r -> do
    v <- Par.spawn (parallel l)
    a <- Par.get v
    (a -) <$> parallel r
  SpawnOnly l r -> Par.spawn (parallel l) >> parallel r
  Through l r -> do
    v <- Par.new
    Par.fork (parallel l >>= Par.put v)
    a <- Par.get v
    (a -) <$> parallel r
  Scope t -> parallel t
  Try t -> parallel t
  Leftmost ts -> fromMaybe 1000 <$> Par.leftmost [Closed (hit <$> parallel t) | t <- ts]

hit :: Int -> Maybe Int
hit i = if even i then Just i else Nothing

-- | A tree of a size that schedules can differ on.
small :: Gen Tree -> Gen Tree
small = resize 40

-- | Run with so many capabilities.
onCapabilities :: Int -> IO a -> IO a
onCapabilities n body = do
  before <- getCapabilities
  setCapabilities n
  body `finally` setCapabilities before
