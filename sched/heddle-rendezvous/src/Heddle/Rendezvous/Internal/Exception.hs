{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Exception
-- Description : The exceptions of rendezvous programs
-- Stability   : internal, exempt from the version policy
--
-- The root and all of its children but 'Heddle.Rendezvous.Deadlock', which comes with its report
-- in "Heddle.Rendezvous.Internal.Report".
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Rendezvous.Internal.Exception
  ( -- * The root
    RendezvousException (..),
    toRendezvousException,
    fromRendezvousException,

    -- * Of a channel
    Poisoned (..),
    WriterEnded (..),

    -- * Of a par
    DuplicateWriter (..),
    DuplicateWorld (..),

    -- * Of an effect
    BlockedInIO (..),

    -- * Of a run
    Uncaught (..),
  )
where

import Data.List (intercalate)
import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..), SomeException, describeException)

-- | Any exception of this package: a handler for it catches 'Poisoned', 'WriterEnded',
-- 'DuplicateWriter', 'DuplicateWorld', 'BlockedInIO', 'Uncaught' and
-- 'Heddle.Rendezvous.Deadlock'. What a program throws itself leaves a run inside 'Uncaught'.
data RendezvousException = forall e. Exception e => RendezvousException e

instance Show RendezvousException where
  showsPrec d (RendezvousException e) = showsPrec d e

instance Exception RendezvousException where
  displayException (RendezvousException e) = displayException e

-- | 'toException' of each child.
toRendezvousException :: Exception e => e -> SomeException
toRendezvousException = toException . RendezvousException

-- | 'fromException' of each child.
fromRendezvousException :: Exception e => SomeException -> Maybe e
fromRendezvousException e = fromException e >>= \(RendezvousException child) -> cast child

-- | A member of the channel with this name threw, and the channel can no longer be used. The
-- exception itself goes to the parent of the branch that threw it.
newtype Poisoned = Poisoned String
  deriving stock (Eq, Show)

instance Exception Poisoned where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (Poisoned name) = "channel " ++ show name ++ ": a branch that held an end of it has thrown an exception"

-- | The writer of the channel with this name has ended, so nothing is left to receive.
newtype WriterEnded = WriterEnded String
  deriving stock (Eq, Show)

instance Exception WriterEnded where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (WriterEnded name) = "channel " ++ show name ++ ": its writer has ended; nothing is left to receive"

-- | A 'Heddle.Rendezvous.par' would have given the writer's end of a channel to two branches.
data DuplicateWriter = DuplicateWriter {duplicateChannel :: String, duplicateBranches :: [String]}
  deriving stock (Eq, Show)

instance Exception DuplicateWriter where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (DuplicateWriter channel branches) =
    "channel " ++ show channel ++ ": its writer's end was granted to " ++ intercalate " and " branches
      ++ "; a channel has one writer. Give each writer a channel of its own."

-- | A 'Heddle.Rendezvous.par' would have granted effects to these branches at the same time.
newtype DuplicateWorld = DuplicateWorld [String]
  deriving stock (Eq, Show)

instance Exception DuplicateWorld where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (DuplicateWorld branches) =
    "the world was granted to " ++ intercalate " and " branches
      ++ "; the order of their effects would be a matter of timing. Grant it to one, and let the others send to it."

-- | The action of an 'Heddle.Rendezvous.io' waits for something to which no other thread has a
-- reference, so it can never return. The garbage collector notices that at a major collection:
-- when it is thrown depends on the collector, whether it is thrown depends on the program only.
newtype BlockedInIO = BlockedInIO {blockedBranch :: String}
  deriving stock (Eq, Show)

instance Exception BlockedInIO where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (BlockedInIO _) =
    "waits in io for something that no other thread has: an MVar or a TVar that nobody will write."
      ++ " Keep it reachable for the thread that is to write it"

-- | What a run threw, and the path of the branch that threw it first. An
-- 'System.Exit.ExitCode' leaves the run without this around it.
data Uncaught = Uncaught {uncaughtPath :: String, uncaughtException :: SomeException}
  deriving stock (Show)

instance Exception Uncaught where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException (Uncaught path e) = path ++ ": " ++ describeException e
