{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Communicator
-- Description : Making communicators: duplicates, splits, groups, intercommunicators
-- Stability   : stable
--
-- A communicator is a group of processes whose messages no other communicator sees. Making and
-- closing one is collective: all processes of the original communicator must call the same function,
-- in the same order. If only some of them do, they wait for ever; an argument that is invalid on
-- one process should therefore be invalid on all.
--
-- Making a communicator blocks in the implementation without holding the capability, so the other
-- Haskell threads of the process continue.
--
-- MPI defines closing as collective, but neither implementation waits in it: a @with…@ that ends
-- with an exception on one process only does not hang.
--
-- Cost: some messages between the processes for each new communicator; groups are local.
-- Owner: the program closes each communicator and group that it makes.
module Heddle.MPI.Communicator
  ( -- * Duplicates
    newDup,
    withDup,

    -- * Parts
    newSplit,
    withSplit,
    newSplitShared,
    withSplitShared,
    newComm,
    withComm,

    -- * Intercommunicators
    newInter,
    withInter,
    merge,
    withMerged,

    -- * Closing, comparing, naming
    closeComm,
    Comparison (..),
    compareComms,
    commName,
    setCommName,
    longestName,

    -- * Groups
    Group,
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
    compareGroups,
  )
where

import Control.Monad (when)
import Data.Int (Int64)
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (pokeByteOff)
import Heddle.MPI.Internal.Argument
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Group
import Heddle.MPI.Internal.Types
import Heddle.MPI.Internal.World (tagUpperBound)
import Heddle.Prim.Exception

-- | Duplicate a communicator: the same processes, ranks and topology, but separate messages. Close
-- it with 'closeComm'.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError'.
newDup :: Comm kind -> IO (Comm kind)
newDup comm = newCommFrom "newDup" (c_comm_dup (commHandle comm))

-- | 'newDup', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withDup :: Comm kind -> (Comm kind -> IO a) -> IO a
withDup comm = bracket (newDup comm) closeComm

-- | Split a communicator: processes that give the same colour share a new one, ranked by key, then
-- by old rank. A process without a colour gets 'Nothing'. Of an intercommunicator each side is
-- split, and the parts of the same colour form an intercommunicator.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError': 'InvalidArgument' for a colour below 0.
newSplit :: Comm kind -> Maybe Int -> Int -> IO (Maybe (Comm kind))
newSplit comm colour key = do
  c <- maybe (pure undefinedColour) checked colour
  k <- toInt InvalidArgument "newSplit" "the key" key
  newCommMaybe "newSplit" (c_comm_split (commHandle comm) c k)
  where
    checked n
      | n < 0 = wrong InvalidArgument "newSplit" ("the colour " ++ show n ++ " is below 0")
      | otherwise = toInt InvalidArgument "newSplit" "the colour" n
    undefinedColour = -4

-- | 'newSplit', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withSplit :: Comm kind -> Maybe Int -> Int -> (Maybe (Comm kind) -> IO a) -> IO a
withSplit comm colour key = bracket (newSplit comm colour key) (mapM_ closeComm)

-- | Split a communicator into processes that can share memory, usually those on one machine,
-- ranked by key.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError'.
newSplitShared :: Comm 'Intra -> Int -> IO (Comm 'Intra)
newSplitShared comm key = do
  k <- toInt InvalidArgument "newSplitShared" "the key" key
  newCommFrom "newSplitShared" (c_comm_split_shared (commHandle comm) k)

-- | 'newSplitShared', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withSplitShared :: Comm 'Intra -> Int -> (Comm 'Intra -> IO a) -> IO a
withSplitShared comm key = bracket (newSplitShared comm key) closeComm

-- | Make a communicator of a group, which must be a subset of the communicator's. All processes of
-- the communicator call it; those outside the group get 'Nothing'.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError'.
newComm :: Comm kind -> Group -> IO (Maybe (Comm kind))
newComm comm (Group g) = newCommMaybe "newComm" (c_comm_create (commHandle comm) g)

-- | 'newComm', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withComm :: Comm kind -> Group -> (Maybe (Comm kind) -> IO a) -> IO a
withComm comm group = bracket (newComm comm group) (mapM_ closeComm)

-- | Connect two disjoint groups by an intercommunicator, in which a rank means a process of the
-- remote group. Each side passes its own communicator and its leader's rank there; then, for the
-- leaders to find each other, a communicator that contains both, the other leader's rank in it, and
-- a tag that is not in use in it.
--
-- [Blocks]: collective on both sides; as the implementation does.
-- [Throws]: 'MPIError': 'InvalidRank', 'InvalidTag'.
newInter :: Comm 'Intra -> Rank -> Comm peer -> Rank -> Tag -> IO (Comm 'Inter)
newInter local leader peer remote (Tag tag) = do
  size <- commSize local
  own <- commRank local
  l <- checkRank InvalidRank "newInter" "the leader" size leader
  Tag greatest <- tagUpperBound
  when (tag < 0 || tag > greatest) (wrong InvalidTag "newInter" ("the tag " ++ show tag))
  -- MPI reads this argument only on the leaders.
  r <- if own == leader then remoteLeader else pure 0
  newCommFrom "newInter" (c_inter_create (commHandle local) l (commHandle peer) r (fromIntegral tag))
  where
    remoteLeader = do
      others <- answer "newInter" 0 (c_comm_remote_size (commHandle peer))
      count <- if others < 0 then commSize peer else pure (fromIntegral others)
      this <- commRank peer
      when (others < 0 && this == remote) (wrong InvalidRank "newInter" "this process cannot be the leader of both sides")
      checkRank InvalidRank "newInter" "the other leader" count remote

-- | 'newInter', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withInter :: Comm 'Intra -> Rank -> Comm peer -> Rank -> Tag -> (Comm 'Inter -> IO a) -> IO a
withInter local leader peer remote tag = bracket (newInter local leader peer remote tag) closeComm

-- | Join both sides of an intercommunicator in one communicator. The side that passes 'True' gets
-- the higher ranks; if both pass the same, the implementation decides. Close it with 'closeComm'.
--
-- [Blocks]: collective on both sides; as the implementation does.
-- [Throws]: 'MPIError'.
merge :: Comm 'Inter -> Bool -> IO (Comm 'Intra)
merge comm high = newCommFrom "merge" (c_inter_merge (commHandle comm) (flag high))

-- | 'merge', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withMerged :: Comm 'Inter -> Bool -> (Comm 'Intra -> IO a) -> IO a
withMerged comm high = bracket (merge comm high) closeComm

-- | Compare two communicators.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
compareComms :: Comm a -> Comm b -> IO Comparison
compareComms a b = toEnum . fromIntegral <$> answer "compareComms" 3 (c_comm_compare (commHandle a) (commHandle b))

-- | A communicator's name, for tools and messages; empty unless one was set.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
commName :: Comm kind -> IO String
commName comm = allocaBytes capacity $ \p -> do
  pokeByteOff p 0 (0 :: CChar)
  check "commName" (c_comm_name (commHandle comm) p (fromIntegral capacity) 0)
  peekUtf8 p
  where
    capacity = 1024

-- | Set a communicator's name, in this process only.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidArgument' if it is longer than 'longestName', or contains a NUL.
setCommName :: Comm kind -> String -> IO ()
setCommName comm name = withUtf8 "setCommName" longestName name $ \p ->
  check "setCommName" (c_comm_name (commHandle comm) p 0 1)

-- | The length of the longest name that every implementation accepts.
--
-- [Units]: bytes of UTF-8.
longestName :: Int
longestName = 63

foreign import ccall safe "heddle_mpi_comm_dup" c_comm_dup :: Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_split" c_comm_split :: Int64 -> CInt -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_split_shared" c_comm_split_shared :: Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_create" c_comm_create :: Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_inter_create" c_inter_create :: Int64 -> CInt -> Int64 -> CInt -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_inter_merge" c_inter_merge :: Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_compare" c_comm_compare :: Int64 -> Int64 -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_comm_remote_size" c_comm_remote_size :: Int64 -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_comm_name" c_comm_name :: Int64 -> Ptr CChar -> CInt -> CInt -> IO CInt
