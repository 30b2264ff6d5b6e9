{-# LANGUAGE DataKinds #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RoleAnnotations #-}

-- |
-- Module      : Heddle.MPI.Spmd
-- Description : One program on all ranks, whose collectives meet by its types
-- Stability   : experimental
--
-- A program of type 'Spmd' runs on all ranks of a communicator. A value in it is 'Global', the
-- same on all ranks, or 'Local', on each rank its own. What a program does next depends on
-- global values only: so all ranks call the same collectives in the same order, and one that
-- waits for others that will not come does not typecheck.
--
-- A local value becomes global by a collective; a global one is local for nothing. The type @s@
-- is that of one run: values of one do not get into another.
--
-- > mean :: [Double] -> Spmd s (Global s Double)
-- > mean xs = do
-- >   mine <- scatterBlocks (pure xs)
-- >   total <- reduceAll (+) (sum <$> mine)
-- >   pure ((/ fromIntegral (length xs)) <$> total)
--
-- What a program has from outside of 'runSpmd' has to be the same on all ranks, but for what it
-- puts into a local value.
--
-- A failure on one rank is an exception on all, when the value meets a collective.
--
-- Cost: that of the collectives of "Heddle.MPI.Simple"; local and global values are thunks, see
-- 'strictly'.
-- Owner: values. One program runs on a communicator at a time.
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
import Heddle.MPI.Internal.Request (wait)
import Heddle.MPI.Internal.Tree (verdict)
import Heddle.MPI.Internal.Types
import Heddle.MPI.Simple (Message)
import Heddle.MPI.Simple qualified as Simple
import Heddle.Prim.Exception
import System.IO (hFlush, stdout)

-- | A program that all ranks run. A plain value in it, such as its result, is the same on all
-- ranks: nothing gives it another.
newtype Spmd s a = Spmd (World -> IO a)

type role Spmd nominal representational

-- Where it runs.
data World = World {worldComm :: !(Comm 'Intra), worldSize :: !Int, worldRank :: !Rank}

instance Functor (Spmd s) where
  fmap f (Spmd run) = Spmd (fmap f . run)

instance Applicative (Spmd s) where
  pure a = Spmd (\_ -> pure a)
  Spmd f <*> Spmd run = Spmd (\w -> f w <*> run w)

instance Monad (Spmd s) where
  Spmd run >>= f = Spmd (\w -> run w >>= \a -> let Spmd next = f a in next w)

-- | A value that is the same on all ranks: of numbers, to the last bit.
newtype Global s a = Global a

type role Global nominal representational

instance Functor (Global s) where
  fmap f (Global a) = Global (f a)

instance Applicative (Global s) where
  pure = Global
  Global f <*> Global a = Global (f a)

-- | A value of each rank, which nothing can look at that all ranks do together.
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

-- | 'runSpmd', and what its global result is.
--
-- [Blocks]: as 'runSpmd'.
-- [Throws]: as 'runSpmd'.
runGlobal :: Comm 'Intra -> (forall s. Spmd s (Global s a)) -> IO a
runGlobal comm program = runSpmd comm (program >>= \(Global a) -> pure a)

-- | 'runSpmd', and what its local result is on this rank.
--
-- [Blocks]: as 'runSpmd'.
-- [Throws]: as 'runSpmd'.
runLocal :: Comm 'Intra -> (forall s. Spmd s (Local s a)) -> IO a
runLocal comm program = runSpmd comm (program >>= \(Local a) -> pure a)

-- | How many ranks there are.
size :: Spmd s Int
size = Spmd (pure . worldSize)

-- Global values --------------------------------------------------------------

-- | Go on according to a global value.
withGlobal :: Global s a -> (a -> Spmd s b) -> Spmd s b
withGlobal (Global a) f = f a

-- | If it is true, the first, else the second: on all ranks the same one.
branch :: Global s Bool -> Spmd s a -> Spmd s a -> Spmd s a
branch (Global condition) yes no = if condition then yes else no

-- | For as long as it is true.
whileGlobal :: Spmd s (Global s Bool) -> Spmd s () -> Spmd s ()
whileGlobal condition body = condition >>= \c -> branch c (body >> whileGlobal condition body) (pure ())

-- | Step on, for as long as it is true of what there is.
iterateWhile :: (a -> Spmd s (Global s Bool)) -> (a -> Spmd s a) -> a -> Spmd s a
iterateWhile condition step = go
  where
    go a = condition a >>= \c -> branch c (step a >>= go) (pure a)

-- Local values ---------------------------------------------------------------

-- | A value that each rank computes by itself.
local :: (Rank -> a) -> Spmd s (Local s a)
local f = Spmd (pure . Local . f . worldRank)

-- | Each rank's number.
thisRank :: Spmd s (Local s Rank)
thisRank = local id

-- | A global value as a local one.
spread :: Global s a -> Local s a
spread (Global a) = Local a

-- | Evaluate it now, to its first constructor, as loops need it. If that throws, the value
-- does, when a collective meets it.
strictly :: Local s a -> Spmd s (Local s a)
strictly (Local a) = Spmd (\_ -> either (Local . throw) Local <$> trySync (evaluate a))

-- Collectives ----------------------------------------------------------------

-- | The value of one rank, on all.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
broadcast :: Message a => Rank -> Local s a -> Spmd s (Global s a)
broadcast root (Local a) = Spmd $ \w -> Global <$> Simple.bcast (worldComm w) root a

-- | Each rank's consecutive part of a list that all have; see 'blockOf'.
--
-- [Cost]: no communication.
scatterBlocks :: Global s [a] -> Spmd s (Local s [a])
scatterBlocks (Global as) = Spmd $ \w ->
  let (from, n) = blockOf (length as) (worldSize w) (fromIntegral (worldRank w)) in pure (Local (take n (drop from as)))

-- | Of so many elements on so many ranks, this rank's: where they begin, and how many they are.
-- The first ranks have one more where it does not come out even.
--
-- [Cost]: O(1).
blockOf :: Int -> Int -> Int -> (Int, Int)
blockOf n ranks rank = (rank * each + min rank more, each + (if rank < more then 1 else 0))
  where
    (each, more) = max 0 n `quotRem` max 1 ranks

-- | The values of all ranks, in their order.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
gatherAll :: Message a => Local s a -> Spmd s (Global s [a])
gatherAll (Local a) = Spmd $ \w -> Global <$> Simple.allgather (worldComm w) a

-- | The values of all ranks combined in their order, by an associative function: in a tree that
-- depends on the number of ranks only, once, so that all have the same bits.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks; what the function throws.
reduceAll :: Message a => (a -> a -> a) -> Local s a -> Spmd s (Global s a)
reduceAll f (Local a) = Spmd $ \w -> Global <$> Simple.allreduce (worldComm w) f a

-- | So many blocks' values, given a block's number, combined in a tree that depends on the number
-- of blocks only: with any number of ranks the same bits. Each rank computes its part of the
-- blocks, see 'blockOf'.
--
-- [Cost]: each rank gets the values of all blocks: take a few times as many as ranks.
-- [Blocks]: parks the thread, at last.
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

-- | A value that all ranks have computed each by itself, and that is meant to be the same.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError' of class 'Heddle.MPI.NotTheSame', on all ranks, if it is not.
agree :: (Message a, Eq a) => Local s a -> Spmd s (Global s a)
agree (Local a) = Spmd $ \w -> do
  as <- Simple.allgather (worldComm w) a
  case as of
    first : others | all (== first) others -> pure (Global first)
    _ -> wrong NotTheSame "agree" ("the ranks differ: " ++ show (length (filter (/= take 1 as) (map pure as))) ++ " from rank 0")

-- | The values of the ranks up to each one combined.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: as 'reduceAll'.
scanAll :: Message a => (a -> a -> a) -> Local s a -> Spmd s (Local s a)
scanAll f (Local a) = Spmd $ \w -> Local <$> Simple.scan (worldComm w) f a

-- | Each rank gives a value to each rank, in lists in the order of the ranks.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks: of class 'Heddle.MPI.InvalidCount' on those whose
-- list has another length.
transpose :: Message a => Local s [a] -> Spmd s (Local s [a])
transpose (Local as) = Spmd $ \w -> Local <$> Simple.alltoall (worldComm w) as

-- | The value of the rank that is so many places before this one, around in a circle.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
shift :: Message a => Int -> Local s a -> Spmd s (Local s a)
shift by (Local a) = Spmd $ \w -> do
  let at k = Rank ((fromIntegral (worldRank w) + k) `mod` worldSize w)
  got <- passed "shift" w [(at by, a)] [at (negate by)]
  case got of
    [b] -> pure (Local b)
    _ -> bug "one message was asked for"

-- | Each rank gives a value to the rank before it and one to the rank behind it, and gets theirs;
-- beyond the ends there is nobody.
--
-- [Blocks]: parks the thread, at last.
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

-- Messages from rank to rank. Instead of a value that cannot be made, Nothing is sent; at the end
-- all tell each other how it went.
passed :: Message a => String -> World -> [(Rank, a)] -> [Rank] -> IO [a]
passed call w out from = collectively (worldComm w) $ \shadow -> do
  sent <- forM out $ \(rank, a) ->
    trySync (Simple.isend shadow rank passTag (Just a)) >>= \case
      Right request -> pure (request, Nothing)
      Left e -> (\request -> (request, Just e)) <$> Simple.isend shadow rank passTag (Nothing :: Maybe ())
  got <- forM from $ \rank ->
    trySync $
      Simple.recv shadow rank passTag >>= \case
        (Just a, _) -> pure a
        (Nothing, _) -> wrong RemoteError call ("rank " ++ show rank ++ " has no value")
  mapM_ (wait . fst) sent
  let problems = [e | (_, Just e) <- sent] ++ [e | Left e <- got]
  verdict call shadow (case problems of e : _ -> Just e; [] -> Nothing)
  pure [a | Right a <- got]

-- Of messages on the duplicate, besides those of "Heddle.MPI.Internal.ValueCollective".
passTag :: Tag
passTag = 4

-- Effects --------------------------------------------------------------------

-- | An effect on one rank, which must not communicate.
--
-- [Blocks]: until it is done on that rank.
-- [Throws]: what it throws; on the other ranks an 'Heddle.MPI.MPIError' of class
-- 'Heddle.MPI.RemoteError' then.
onRank :: Rank -> Local s (IO ()) -> Spmd s ()
onRank rank (Local action) =
  void (guarded "onRank" (\w -> when (rank == worldRank w) action))

-- | Print a line, once.
--
-- [Blocks]: until it is printed.
-- [Throws]: as 'onRank'.
say :: Global s String -> Spmd s ()
say (Global text) = onRank 0 (Local (putStrLn text >> hFlush stdout))

-- | An effect on each rank.
--
-- Unsafe: it must not communicate, by MPI or in any other way that waits for another rank; and
-- what it gives is local even where it is the same everywhere.
--
-- [Cost]: a round of messages, by which the ranks tell each other that it went well.
-- [Blocks]: until it is done on all ranks.
-- [Throws]: what it throws; on the other ranks an 'Heddle.MPI.MPIError' of class
-- 'Heddle.MPI.RemoteError' then.
unsafeLocalIO :: (Rank -> IO a) -> Spmd s (Local s a)
unsafeLocalIO f = guarded "unsafeLocalIO" (f . worldRank)

guarded :: String -> (World -> IO a) -> Spmd s (Local s a)
guarded call f = Spmd $ \w -> do
  result <- trySync (f w)
  collectively (worldComm w) (\shadow -> verdict call shadow (either Just (const Nothing) result))
  Local <$> either throwIO pure result
