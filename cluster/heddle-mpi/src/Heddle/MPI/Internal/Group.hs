{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Internal.Group
-- Description : Sets of processes, in order
-- Stability   : internal, exempt from the version policy
--
-- What "Heddle.MPI.Communicator" documents and exports of groups.
--
-- Cost: no group operation communicates; each is O(processes).
-- Owner: any thread may use a group; the program closes it.
module Heddle.MPI.Internal.Group
  ( Group (..),
    emptyGroup,
    commGroup,
    remoteGroup,
    withGroup,
    closeGroup,
    groupSize,
    groupRank,
    include,
    exclude,
    union,
    intersection,
    difference,
    translateRanks,
    Comparison (..),
    compareGroups,
  )
where

import Data.Int (Int64)
import Data.List (sort)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr)
import Heddle.MPI.Internal.Argument
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Types
import Heddle.Prim.Exception

-- | An ordered set of processes; the order gives each its rank. Unlike a communicator it carries no
-- messages and is local to this process.
newtype Group = Group Int64
  deriving stock (Eq)

instance Show Group where
  showsPrec _ (Group h) = showString "Group " . shows h

-- | The group without processes. It need not be closed.
emptyGroup :: Group
emptyGroup = Group 0

madeGroup :: String -> (Ptr Int64 -> IO CInt) -> IO Group
madeGroup call make = Group <$> newHandle call make

-- | The processes of a communicator; of an intercommunicator, those of the local side. Close it
-- with 'closeGroup'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
commGroup :: Comm kind -> IO Group
commGroup comm = madeGroup "commGroup" (c_group_of (commHandle comm) 0)

-- | The processes of the remote side. Close it with 'closeGroup'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
remoteGroup :: Comm 'Inter -> IO Group
remoteGroup comm = madeGroup "remoteGroup" (c_group_of (commHandle comm) 1)

-- | Make a group with the given action, use it, and close it on every path.
--
-- [Throws]: what the action and the body throw.
withGroup :: IO Group -> (Group -> IO a) -> IO a
withGroup make = bracket make closeGroup

-- | Free a group. Communicators made from it stay valid.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'AlreadyClosed' the second time, unless it is empty.
closeGroup :: Group -> IO ()
closeGroup (Group h) = check "closeGroup" (c_group_free h)

-- | The number of processes.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
groupSize :: Group -> IO Int
groupSize (Group h) = fromIntegral <$> answer "groupSize" 0 (c_group_size h)

-- | This process's rank in a group; 'Nothing' if it is not a member.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
groupRank :: Group -> IO (Maybe Rank)
groupRank (Group h) = fromC <$> answer "groupRank" 0 (c_group_rank h)

-- The rank of a process outside the group is MPI_UNDEFINED.
fromC :: CInt -> Maybe Rank
fromC r = if r == -4 then Nothing else Just (Rank (fromIntegral r))

-- | The processes with these ranks, in this order.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidRank' if a rank is not in the group, or given twice.
include :: Group -> [Rank] -> IO Group
include = pick "include" False

-- | All processes but those with these ranks.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': as 'include'.
exclude :: Group -> [Rank] -> IO Group
exclude = pick "exclude" True

pick :: String -> Bool -> Group -> [Rank] -> IO Group
pick call leaveOut group@(Group h) ranks = do
  size <- groupSize group
  checkRanks call size ranks
  distinct call ranks
  withRanks ranks $ \n p -> madeGroup call (c_group_pick h n p (flag leaveOut))

-- | The processes of the first group, then those of the second that are not in the first.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
union :: Group -> Group -> IO Group
union = combine "union" 0

-- | The processes of the first group that are also in the second.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
intersection :: Group -> Group -> IO Group
intersection = combine "intersection" 1

-- | The processes of the first group that are not in the second.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
difference :: Group -> Group -> IO Group
difference = combine "difference" 2

combine :: String -> CInt -> Group -> Group -> IO Group
combine call how (Group a) (Group b) = madeGroup call (c_group_combine a b how)

-- | Translate ranks in the first group to ranks in the second; 'Nothing' for processes that are not
-- in the second. 'noRank' is unchanged.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidRank' if a rank is not in the first.
translateRanks :: Group -> [Rank] -> Group -> IO [Maybe Rank]
translateRanks from@(Group a) ranks (Group b) = do
  size <- groupSize from
  checkRanks "translateRanks" size (filter (/= noRank) ranks)
  withRanks ranks $ \n p -> allocaArray (length ranks) $ \to -> do
    check "translateRanks" (c_group_translate a n p b to)
    map fromC <$> peekArray (length ranks) to

-- | The result of comparing two communicators or two groups.
data Comparison
  = -- | The same object; for groups, the same processes with the same ranks.
    Identical
  | -- | Two communicators of the same processes with the same ranks.
    Congruent
  | -- | The same processes with other ranks.
    Similar
  | Unequal
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | Compare two groups; never 'Congruent'.
--
-- [Cost]: O(n log n).
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
compareGroups :: Group -> Group -> IO Comparison
compareGroups a b = do
  sizes <- (,) <$> groupSize a <*> groupSize b
  if uncurry (/=) sizes
    then pure Unequal
    else do
      let all' = [0 .. Rank (fst sizes) - 1]
      there <- translateRanks a all' b
      pure (judge all' (sequence there))
  where
    judge all' = \case
      Nothing -> Unequal
      Just there
        | there == all' -> Identical
        | sort there == all' -> Similar
        | otherwise -> Unequal

-- An implementation may use one lock for all of its calls, and hold it while it copies.

foreign import ccall safe "heddle_mpi_group_of" c_group_of :: Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_group_size" c_group_size :: Int64 -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_group_rank" c_group_rank :: Int64 -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_group_pick" c_group_pick :: Int64 -> CInt -> Ptr CInt -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_group_combine" c_group_combine :: Int64 -> Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_group_translate" c_group_translate :: Int64 -> CInt -> Ptr CInt -> Int64 -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_group_free" c_group_free :: Int64 -> IO CInt
