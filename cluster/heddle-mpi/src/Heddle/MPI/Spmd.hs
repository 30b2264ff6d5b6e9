{-# LANGUAGE DataKinds #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RoleAnnotations #-}

-- |
-- Module      : Heddle.MPI.Spmd
-- Description : One program on all ranks; mismatched collectives are type errors
-- Stability   : experimental
--
-- A program of type 'Spmd' runs on all ranks of a communicator. A value in it is 'Global', the
-- same on all ranks, or 'Local', with a value of its own on each rank. Control flow can depend on
-- global values only, so all ranks call the same collectives in the same order: a collective that
-- some ranks do not reach is a type error.
--
-- A collective makes a local value global; using a global value as a local one is free. The type
-- @s@ identifies one run and keeps its values from escaping into another.
--
-- > mean :: [Double] -> Spmd s (Global s Double)
-- > mean xs = do
-- >   mine <- scatterBlocks (pure xs)
-- >   total <- reduceAll (+) (sum <$> mine)
-- >   pure ((/ fromIntegral (length xs)) <$> total)
--
-- Values that a program captures from outside 'runSpmd' must be the same on all ranks, except those
-- that it puts into a local value.
--
-- A failure on one rank is an exception on all ranks once the failed value reaches a collective.
--
-- Cost: that of the collectives of "Heddle.MPI.Simple"; local and global values are thunks, see
-- 'strictly'.
-- Owner: values. One program at a time runs on a communicator.
module Heddle.MPI.Spmd
  ( -- * Programs
    Spmd,
    runSpmd,
    runGlobal,
    runLocal,
    size,

    -- * Values that are the same on all ranks
    Global,
    withGlobal,
    branch,
    whileGlobal,
    iterateWhile,

    -- * Values of each rank
    Local,
    local,
    thisRank,
    spread,
    strictly,

    -- * One to many
    broadcast,
    scatterBlocks,
    blockOf,

    -- * Many to one, everywhere
    gatherAll,
    reduceAll,
    reduceBlocks,
    agree,

    -- * Many to many
    scanAll,
    transpose,
    shift,
    neighbours,

    -- * Effects
    onRank,
    say,
    unsafeLocalIO,
  )
where

import Control.Monad (forM, void, when)
import Heddle.MPI.Internal.Error (ErrorClass (..), wrong)
import Heddle.MPI.Internal.PackedMessage (arrivingPacked, ileavingPacked, unpack)
import Heddle.MPI.Internal.Steps (computing, waiting)
import Heddle.MPI.Internal.Tree (verdict)
import Heddle.MPI.Internal.Types
import Heddle.MPI.Simple (Message)
import Heddle.MPI.Simple qualified as Simple
import Heddle.Prim.Exception
import System.IO (hFlush, stdout)

-- | A program that all ranks run. A plain value in it, such as its result, is the same on all
-- ranks, because no operation returns a plain value that differs.
newtype Spmd s a = Spmd (World -> IO a)

type role Spmd nominal representational

-- The communicator of a run, with its size and this process's rank.
data World = World {worldComm :: !(Comm 'Intra), worldSize :: !Int, worldRank :: !Rank}

instance Functor (Spmd s) where
  fmap f (Spmd run) = Spmd (fmap f . run)

instance Applicative (Spmd s) where
  pure a = Spmd (\_ -> pure a)
  Spmd f <*> Spmd run = Spmd (\w -> f w <*> run w)

instance Monad (Spmd s) where
  Spmd run >>= f = Spmd (\w -> run w >>= \a -> let Spmd next = f a in next w)

-- | A value that is the same on all ranks; numbers agree to the last bit.
newtype Global s a = Global a

type role Global nominal representational

instance Functor (Global s) where
  fmap f (Global a) = Global (f a)

instance Applicative (Global s) where
  pure = Global
  Global f <*> Global a = Global (f a)

-- | A value of each rank, on which no common control flow can depend.
newtype Local s a = Local a

type role Local nominal representational

instance Functor (Local s) where
  fmap f (Local a) = Local (f a)

instance Applicative (Local s) where
  pure = Local
  Local f <*> Local a = Local (f a)

-- | Run a program on a communicator; collective.
--
-- [Blocks]: as its collectives do.
-- [Throws]: what it throws; 'Heddle.MPI.MPIError'.
-- [Threads]: one at a time on each communicator.
runSpmd :: Comm 'Intra -> (forall s. Spmd s a) -> IO a
runSpmd comm program = do
  n <- commSize comm
  rank <- commRank comm
  let Spmd run = program in run (World comm n rank)

-- | 'runSpmd' for a global result.
--
-- [Blocks]: as 'runSpmd'.
-- [Throws]: as 'runSpmd'.
runGlobal :: Comm 'Intra -> (forall s. Spmd s (Global s a)) -> IO a
runGlobal comm program = runSpmd comm (program >>= \(Global a) -> pure a)

-- | 'runSpmd' for a local result: its value on this rank.
--
-- [Blocks]: as 'runSpmd'.
-- [Throws]: as 'runSpmd'.
runLocal :: Comm 'Intra -> (forall s. Spmd s (Local s a)) -> IO a
runLocal comm program = runSpmd comm (program >>= \(Local a) -> pure a)

-- | The number of ranks.
size :: Spmd s Int
size = Spmd (pure . worldSize)

-- Global values --------------------------------------------------------------

-- | Continue with a program that depends on a global value.
withGlobal :: Global s a -> (a -> Spmd s b) -> Spmd s b
withGlobal (Global a) f = f a

-- | Run the first program if the condition is true, else the second: the same one on all ranks.
branch :: Global s Bool -> Spmd s a -> Spmd s a -> Spmd s a
branch (Global condition) yes no = if condition then yes else no

-- | Repeat the body while the condition is true.
whileGlobal :: Spmd s (Global s Bool) -> Spmd s () -> Spmd s ()
whileGlobal condition body = condition >>= \c -> branch c (body >> whileGlobal condition body) (pure ())

-- | Repeat the step while the condition is true of the current value, and return the last value.
iterateWhile :: (a -> Spmd s (Global s Bool)) -> (a -> Spmd s a) -> a -> Spmd s a
iterateWhile condition step = go
  where
    go a = condition a >>= \c -> branch c (step a >>= go) (pure a)

-- Local values ---------------------------------------------------------------

-- | A value that each rank computes by itself.
local :: (Rank -> a) -> Spmd s (Local s a)
local f = Spmd (pure . Local . f . worldRank)

-- | The rank itself.
thisRank :: Spmd s (Local s Rank)
thisRank = local id

-- | Use a global value as a local one; free.
spread :: Global s a -> Local s a
spread (Global a) = Local a

-- | Evaluate a local value to weak head normal form now, so that a loop builds no chain of thunks.
-- An exception is kept in the value and thrown when a collective uses it.
strictly :: Local s a -> Spmd s (Local s a)
strictly (Local a) = Spmd (\_ -> either (Local . throw) Local <$> trySync (evaluate a))

-- Collectives ----------------------------------------------------------------

-- | Send one rank's value to all ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
broadcast :: Message a => Rank -> Local s a -> Spmd s (Global s a)
broadcast root (Local a) = Spmd $ \w -> Global <$> Simple.bcast (worldComm w) root a

-- | Each rank's consecutive part of a global list; see 'blockOf'.
--
-- [Cost]: no communication.
scatterBlocks :: Global s [a] -> Spmd s (Local s [a])
scatterBlocks (Global as) = Spmd $ \w ->
  let (from, n) = blockOf (length as) (worldSize w) (fromIntegral (worldRank w)) in pure (Local (take n (drop from as)))

-- | Divide a number of elements over a number of ranks: the offset and length of this rank's block.
-- If the division has a remainder, the first ranks get one element more.
--
-- [Cost]: O(1).
blockOf :: Int -> Int -> Int -> (Int, Int)
blockOf n ranks rank = (rank * each + min rank more, each + (if rank < more then 1 else 0))
  where
    (each, more) = max 0 n `quotRem` max 1 ranks

-- | Collect the values of all ranks, in the order of the ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
gatherAll :: Message a => Local s a -> Spmd s (Global s [a])
gatherAll (Local a) = Spmd $ \w -> Global <$> Simple.allgather (worldComm w) a

-- | Combine the values of all ranks, in the order of the ranks, with an associative function. It is
-- done once, in a tree whose shape depends only on the number of ranks, so all ranks get the same
-- bits.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks; what the function throws.
reduceAll :: Message a => (a -> a -> a) -> Local s a -> Spmd s (Global s a)
reduceAll f (Local a) = Spmd $ \w -> Global <$> Simple.allreduce (worldComm w) f a

-- | Combine the values of numbered blocks in a tree whose shape depends only on the number of
-- blocks, so the result has the same bits on any number of ranks. Each rank computes its share of
-- the blocks; see 'blockOf'.
--
-- [Cost]: each rank receives the values of all blocks: use a few times as many blocks as ranks.
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks: of class 'Heddle.MPI.InvalidArgument' without a
-- block; what the functions throw.
reduceBlocks :: Message a => Int -> (a -> a -> a) -> (Int -> a) -> Spmd s (Global s a)
reduceBlocks n f value = Spmd $ \w -> do
  when (n < 1) (wrong InvalidArgument "reduceBlocks" (show n ++ " blocks"))
  let (from, count) = blockOf n (worldSize w) (fromIntegral (worldRank w))
  parts <- Simple.allgather (worldComm w) (map value [from .. from + count - 1])
  pure (Global (tree (concat parts)))
  where
    tree = \case
      [] -> error "heddle mpi: reduceBlocks: no block"
      [a] -> a
      as -> tree (pairs as)
    pairs = \case
      a : b : others -> let !c = f a b in c : pairs others
      others -> others

-- | Make a value global that every rank computed by itself and that should be equal on all ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError' of class 'Heddle.MPI.NotTheSame', on all ranks, if it is not.
agree :: (Message a, Eq a) => Local s a -> Spmd s (Global s a)
agree (Local a) = Spmd $ \w -> do
  as <- Simple.allgather (worldComm w) a
  case as of
    first : others | all (== first) others -> pure (Global first)
    _ -> wrong NotTheSame "agree" ("the ranks differ: " ++ show (length (filter (/= take 1 as) (map pure as))) ++ " from rank 0")

-- | On each rank, combine the values of the ranks up to and including it.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'reduceAll'.
scanAll :: Message a => (a -> a -> a) -> Local s a -> Spmd s (Local s a)
scanAll f (Local a) = Spmd $ \w -> Local <$> Simple.scan (worldComm w) f a

-- | Each rank sends one value to each rank; the lists are in the order of the ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks: of class 'Heddle.MPI.InvalidCount' on those whose
-- list has another length.
transpose :: Message a => Local s [a] -> Spmd s (Local s [a])
transpose (Local as) = Spmd $ \w -> Local <$> Simple.alltoall (worldComm w) as

-- | The value of the rank that is the given distance before this one, cyclically.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
shift :: Message a => Int -> Local s a -> Spmd s (Local s a)
shift by (Local a) = Spmd $ \w -> do
  let at k = Rank ((fromIntegral (worldRank w) + k) `mod` worldSize w)
  got <- passed "shift" w [(at by, a)] [at (negate by)]
  case got of
    [b] -> pure (Local b)
    _ -> bug "one message was asked for"

-- | Each rank sends a value to the rank before it and one to the rank after it, and receives theirs.
-- The first and the last rank have one neighbour each.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
neighbours :: Message a => Local s (a, a) -> Spmd s (Local s (Maybe a, Maybe a))
neighbours (Local pair) = Spmd $ \w -> do
  let rank = worldRank w
      lower = [rank - 1 | rank > 0]
      upper = [rank + 1 | fromIntegral rank < worldSize w - 1]
  got <- passed "neighbours" w ([(r, fst pair) | r <- lower] ++ [(r, snd pair) | r <- upper]) (lower ++ upper)
  pure . Local $ case (lower, got) of
    ([], []) -> (Nothing, Nothing)
    ([], b : _) -> (Nothing, Just b)
    (_, [a]) -> (Just a, Nothing)
    (_, a : b : _) -> (Just a, Just b)
    (_, []) -> (Nothing, Nothing)

-- Messages between ranks. A value that cannot be computed is sent as Nothing; at the end the ranks
-- agree on success.
passed :: Message a => String -> World -> [(Rank, a)] -> [Rank] -> IO [a]
passed call w out from = collectively (worldComm w) $ \shadow -> do
  sent <- forM out (\(rank, a) -> ileavingPacked call shadow rank passTag (Just a) (Nothing :: Maybe ()))
  got <- forM from $ \rank -> do
    packed <- arrivingPacked call shadow rank passTag
    computing . trySync $
      unpack call packed >>= \case
        (Just a, _) -> pure a
        (Nothing, _) -> wrong RemoteError call ("rank " ++ show rank ++ " has no value")
  mapM_ (waiting . fst) sent
  let problems = [e | (_, Just e) <- sent] ++ [e | Left e <- got]
  verdict call shadow (case problems of e : _ -> Just e; [] -> Nothing)
  pure [a | Right a <- got]

-- A tag on the duplicate that "Heddle.MPI.Internal.ValueCollective" does not use.
passTag :: Tag
passTag = 4

-- Effects --------------------------------------------------------------------

-- | Run an effect on one rank. It must not communicate.
--
-- [Blocks]: until it is done on that rank.
-- [Throws]: what it throws; then, on the other ranks, an 'Heddle.MPI.MPIError' of class
-- 'Heddle.MPI.RemoteError'.
onRank :: Rank -> Local s (IO ()) -> Spmd s ()
onRank rank (Local action) =
  void (guarded "onRank" (\w -> when (rank == worldRank w) action))

-- | Print a line, once.
--
-- [Blocks]: until it is printed.
-- [Throws]: as 'onRank'.
say :: Global s String -> Spmd s ()
say (Global text) = onRank 0 (Local (putStrLn text >> hFlush stdout))

-- | Run an effect on each rank.
--
-- Unsafe: it must not communicate, by MPI or in any other way that waits for another rank. Its
-- result is local even if it is the same on all ranks.
--
-- [Cost]: a round of messages in which the ranks agree on success.
-- [Blocks]: until it is done on all ranks.
-- [Throws]: what it throws; then, on the other ranks, an 'Heddle.MPI.MPIError' of class
-- 'Heddle.MPI.RemoteError'.
unsafeLocalIO :: (Rank -> IO a) -> Spmd s (Local s a)
unsafeLocalIO f = guarded "unsafeLocalIO" (f . worldRank)

guarded :: String -> (World -> IO a) -> Spmd s (Local s a)
guarded call f = Spmd $ \w -> do
  result <- trySync (f w)
  collectively (worldComm w) (\shadow -> verdict call shadow (either Just (const Nothing) result))
  Local <$> either throwIO pure result
