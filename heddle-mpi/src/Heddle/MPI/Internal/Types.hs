{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE KindSignatures #-}

-- |
-- Module      : Heddle.MPI.Internal.Types
-- Description : Communicators, ranks, tags, what is known of a message
-- Stability   : internal, exempt from the version policy
--
-- Cost: a communicator is a handle, which C looks up in each call; its size and the own rank
-- are asked for once.
-- Owner: communicators may be used by all threads; closing one is the program's affair.
module Heddle.MPI.Internal.Types
  ( -- * Ranks and tags
    Rank (..),
    toRank,
    anySource,
    noRank,
    Tag (..),
    toTag,
    fromTag,
    anyTag,
    unitTag,

    -- * Messages
    Status (..),
    statusOf,

    -- * Communicators
    Kind (..),
    Comm (..),
    commFrom,
    commWorld,
    commSelf,
    commSize,
    commRank,
    remoteSize,
    closeComm,
    closeCommWith,
    closeShadow,

    -- * Heddle's own collectives
    together,
    togetherLater,
  )
where

import Control.Monad (when)
import Data.Int (Int64)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr)
import Foreign.Storable (Storable, peek, poke)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Message.Class (Message)
import Heddle.MPI.Internal.Request (Request, forked)
import Heddle.MPI.Internal.Turn
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)

-- | A process's number in a communicator: from 0.
newtype Rank = Rank Int
  deriving newtype (Enum, Eq, Integral, Message, Num, Ord, Read, Real, Show, Storable)

-- | The rank of that number.
--
-- [Source]: Monad.Reader 19, listing 4.
toRank :: Enum a => a -> Rank
toRank = Rank . fromEnum

-- | Where a receive says who may have sent: anybody.
anySource :: Rank
anySource = Rank (-1)

-- | Nobody: to send to, or receive from, nobody is done at once. The neighbour beyond an edge.
noRank :: Rank
noRank = Rank (-2)

-- | What tells messages between the same processes apart: 0 to 'Heddle.MPI.tagUpperBound'.
newtype Tag = Tag Int
  deriving newtype (Enum, Eq, Integral, Message, Num, Ord, Read, Real, Show)

-- | Tags may be any type that can be counted.
--
-- [Source]: Monad.Reader 19, "Point-to-point communications".
toTag :: Enum a => a -> Tag
toTag = Tag . fromEnum

-- | The reverse of 'toTag'.
fromTag :: Enum a => Tag -> a
fromTag (Tag n) = toEnum n

-- | Where a receive says which tag: any.
anyTag :: Tag
anyTag = Tag (-1)

-- | For messages that need no tag: that of @()@, 0.
--
-- [Source]: Monad.Reader 19, listing 4.
unitTag :: Tag
unitTag = Tag 0

-- | What is known of a message.
data Status = Status
  { -- | Who sent it.
    statusSource :: !Rank,
    -- | Its tag.
    statusTag :: !Tag,
    -- | Its size in bytes; -1 if the implementation does not say.
    statusBytes :: !Int
  }
  deriving stock (Eq, Show)

-- | Of an operation that was a receive.
statusOf :: Outcome -> Status
statusOf outcome = Status (Rank (fromIntegral (outcomeSource outcome))) (Tag (fromIntegral (outcomeTag outcome))) (fromIntegral (outcomeReceived outcome))

-- | Between the processes of one group, or of two.
data Kind = Intra | Inter

-- | A group of processes, and messages that no other group sees.
data Comm (kind :: Kind) = Comm
  { commHandle :: !Int64,
    -- | Asked for once: how many processes there are, and which of them this is.
    commShape :: !(Ref (Maybe (Int, Int))),
    -- | The duplicate that Heddle's own messages go through, once it is needed.
    commShadow :: !(Ref (Maybe (Comm kind))),
    commLock :: !Lock,
    -- | Of Heddle's own collectives.
    commTurns :: !Turns
  }

instance Eq (Comm kind) where
  a == b = commHandle a == commHandle b

instance Show (Comm kind) where
  showsPrec _ comm = showString "Comm " . shows (commHandle comm)

-- | With a handle.
commFrom :: Int64 -> IO (Comm kind)
commFrom h = Comm h <$> newRef Nothing <*> newRef Nothing <*> newLock <*> newTurns

-- | All processes of the job.
--
-- [Source]: Monad.Reader 19, listing 4.
commWorld :: Comm 'Intra
commWorld = unsafeGlobal (commFrom 1)
{-# NOINLINE commWorld #-}

-- | This process alone.
commSelf :: Comm 'Intra
commSelf = unsafeGlobal (commFrom 2)
{-# NOINLINE commSelf #-}

-- | How many processes there are; in an intercommunicator, in the own group.
--
-- [Cost]: a call the first time.
-- [Throws]: 'MPIError'.
commSize :: Comm kind -> IO Int
commSize comm = fst <$> shapeOf comm

-- | Which of them this is.
--
-- [Cost]: a call the first time.
-- [Throws]: 'MPIError'.
commRank :: Comm kind -> IO Rank
commRank comm = Rank . snd <$> shapeOf comm

shapeOf :: Comm kind -> IO (Int, Int)
shapeOf comm =
  readRef (commShape comm) >>= \case
    Just shape -> do
      running <- c_is_running
      if running /= 0 then pure shape else ask
    Nothing -> ask
  where
    ask = do
      size <- answerOf "commSize" (c_comm_size (commHandle comm))
      rank <- answerOf "commRank" (c_comm_rank (commHandle comm))
      let shape = (fromIntegral size, fromIntegral rank)
      shape <$ writeRef (commShape comm) (Just shape)

-- | How many processes the other group of an intercommunicator has.
--
-- [Throws]: 'MPIError'.
remoteSize :: Comm 'Inter -> IO Int
remoteSize comm = fromIntegral <$> answerOf "remoteSize" (c_comm_remote_size (commHandle comm))

answerOf :: String -> (Ptr CInt -> IO CInt) -> IO CInt
answerOf call ask = alloca $ \p -> poke p 0 >> check call (ask p) >> peek p

-- | Give a communicator back; collective.
--
-- [Blocks]: as the implementation does.
-- [Throws]: 'MPIError' if it is closed already, or is one that is always there.
closeComm :: Comm kind -> IO ()
closeComm = closeCommWith "closeComm" c_comm_free

-- | By this call, with the duplicate for Heddle's own messages.
closeCommWith :: String -> (Int64 -> IO CInt) -> Comm kind -> IO ()
closeCommWith call free comm
  | commHandle comm <= 2 = wrong InvalidCommunicator call "commWorld and commSelf stay open until the end"
  | otherwise = mask_ $ do
    closeShadowWith (closeCommWith call free) comm
    writeRef (commShape comm) Nothing
    check call (free (commHandle comm))

-- | Run one of Heddle's own collectives on the duplicate for them: they go through it one after
-- the other, in the order in which they were called.
--
-- [Blocks]: parks the thread, while others are before it.
together :: Comm kind -> (Comm kind -> IO a) -> IO a
together comm body = inOrder (commTurns comm) (shadowOf comm >>= body)

-- | The same, on a thread of its own, which has this name.
--
-- [Blocks]: never.
togetherLater :: String -> Comm kind -> (Comm kind -> IO a) -> IO (Request a)
togetherLater name comm body = nextTurn (commTurns comm) >>= \turn -> forked name (whenTurn turn (shadowOf comm >>= body))

-- | Give back the duplicate for Heddle's own collectives, if there is one; collective.
--
-- [Blocks]: as the implementation does.
closeShadow :: Comm kind -> IO ()
closeShadow = closeShadowWith closeComm

closeShadowWith :: (Comm kind -> IO ()) -> Comm kind -> IO ()
closeShadowWith close comm =
  withLock (commLock comm) $
    readRef (commShadow comm) >>= mapM_ (\s -> writeRef (commShadow comm) Nothing >> close s)

-- The duplicate for Heddle's own messages: the first call on a communicator is collective.
shadowOf :: Comm kind -> IO (Comm kind)
shadowOf comm =
  readRef (commShadow comm) >>= \case
    Just shadow -> pure shadow
    Nothing -> withLock (commLock comm) $ do
      known <- readRef (commShadow comm)
      case known of
        Just shadow -> pure shadow
        Nothing -> mask_ $ do
          made <- alloca $ \p -> poke p 0 >> check "duplicate" (c_comm_dup (commHandle comm) p) >> peek p
          when (made == 0) (wrong InternalError "duplicate" "no communicator was made")
          shadow <- commFrom made
          shadow <$ writeRef (commShadow comm) (Just shadow)

foreign import ccall unsafe "heddle_mpi_comm_size" c_comm_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_rank" c_comm_rank :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_remote_size" c_comm_remote_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall safe "heddle_mpi_comm_free" c_comm_free :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_dup" c_comm_dup :: Int64 -> Ptr Int64 -> IO CInt
