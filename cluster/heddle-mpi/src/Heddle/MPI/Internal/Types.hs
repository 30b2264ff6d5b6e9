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
    shapeOf,
    remoteSize,
    closeComm,
    closeCommWith,
    closeShadow,

    -- * Heddle's own collectives
    collectively,
    collectivelyLater,
    collectivelyInPhases,
  )
where

import Control.Monad (void, when)
import Data.Int (Int64)
import Data.Maybe (isJust)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr)
import Foreign.Storable (Storable, peek, poke)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Message.Class (Message)
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.TicketLock
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Thread (fork)
import System.Timeout (timeout)

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
    -- | The duplicate that Heddle's own messages go through.
    commShadow :: !(Ref (Shadow kind)),
    commLock :: !Lock,
    -- | Of Heddle's own collectives.
    commOrder :: !TicketLock
  }

-- | NoShadow -> Shadow (the first of Heddle's own collectives makes it); Shadow -> Spoilt (one
-- that fails in the middle).
data Shadow kind
  = NoShadow
  | Shadow !(Comm kind)
  | -- | Messages of an unfinished collective may be under way in it; and what went wrong.
    Spoilt !(Comm kind) !SomeException

instance Eq (Comm kind) where
  a == b = commHandle a == commHandle b

instance Show (Comm kind) where
  showsPrec _ comm = showString "Comm " . shows (commHandle comm)

-- | With a handle.
commFrom :: Int64 -> IO (Comm kind)
commFrom h = Comm h <$> newRef Nothing <*> newRef NoShadow <*> newLock <*> newTicketLock

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

-- | Both: how many processes there are, and which of them this is.
--
-- [Cost]: a call the first time.
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
      let !n = fromIntegral size
          !me = fromIntegral rank
          shape = (n, me)
      shape <$ writeRef (commShape comm) (Just shape)

-- | How many processes the other group of an intercommunicator has.
--
-- [Throws]: 'MPIError'.
remoteSize :: Comm 'Inter -> IO Int
remoteSize comm = fromIntegral <$> answerOf "remoteSize" (c_comm_remote_size (commHandle comm))

answerOf :: String -> (Ptr CInt -> IO CInt) -> IO CInt
answerOf call ask = alloca $ \p -> poke p 0 >> check call (ask p) >> peek p

-- | Give a communicator back; collective. If collectives on it were given up and are not complete,
-- it waits for them for 5 seconds; after that it returns, and the communicator is closed when they are.
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
    quiet <- quietWithin 5000000 comm
    if quiet then closing else void (fork "mpi/close" (void (trySync (inOrder (commOrder comm) closing))))
  where
    closing = mask_ $ do
      closeShadowWith (closeCommWith call free) comm
      writeRef (commShape comm) Nothing
      check call (free (commHandle comm))

-- | Run one of Heddle's own collectives on the duplicate for them: they go through it one after
-- the other, in the order in which they were called. See Note [Giving up a collective].
--
-- [Cost]: a thread.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible; the collective goes on.
collectively :: Comm kind -> (Comm kind -> IO a) -> IO a
collectively comm body = collectivelyLater "mpi/collective" comm body >>= wait

-- | The same, without waiting; the thread that does it has this name.
--
-- [Blocks]: never.
collectivelyLater :: String -> Comm kind -> (Comm kind -> IO a) -> IO (Request a)
collectivelyLater name comm body = mask_ $ takeTicket (commOrder comm) >>= \ticket -> inTurn name comm ticket body

inTurn :: String -> Comm kind -> Ticket -> (Comm kind -> IO a) -> IO (Request a)
inTurn name comm ticket body =
  forked name . withTicket ticket $ do
    shadow <- shadowOf comm
    body shadow `catch` \e -> unfinished comm e >> throwIO (fst (disagreement e))

-- | The same, for a collective that is made of phases: as long as it has nothing to wait for, it
-- needs no thread of its own.
--
-- [Blocks]: tests for some microseconds, then parks the thread.
-- [Masking]: interruptible while it waits; the collective goes on.
collectivelyInPhases :: Comm kind -> (Comm kind -> IO (Next a)) -> IO a
collectivelyInPhases comm first = mask $ \restore -> do
  ticket <- takeTicket (commOrder comm)
  readRef (commShadow comm) >>= \case
    Shadow shadow ->
      isCalled ticket >>= \case
        True ->
          (phases (first shadow) `catch` failedPhases comm ticket) >>= \case
            Right a -> a <$ release ticket
            Left under -> waitedPhases restore comm ticket under
        False -> laterPhases restore comm ticket first
    _ -> laterPhases restore comm ticket first
{-# INLINEABLE collectivelyInPhases #-}

-- What 'collectivelyInPhases' does off the fast path: when its ticket is not called yet, or
-- there is no duplicate yet;
laterPhases :: (IO a -> IO a) -> Comm kind -> Ticket -> (Comm kind -> IO (Next a)) -> IO a
laterPhases restore comm ticket first = inTurn "mpi/collective" comm ticket (performPhases . first) >>= restore . wait
{-# NOINLINE laterPhases #-}

-- when a phase that was complete at once has failed;
failedPhases :: Comm kind -> Ticket -> SomeException -> IO b
failedPhases comm ticket e = (unfinished comm e >> throwIO (fst (disagreement e))) `finally` release ticket
{-# NOINLINE failedPhases #-}

-- when a phase is not complete at once.
waitedPhases :: (IO a -> IO a) -> Comm kind -> Ticket -> Under a -> IO a
waitedPhases restore comm ticket under =
  try (restore (waitFor under)) >>= \case
    Right a -> a <$ release ticket
    Left e -> interrupted >> throwIO (fst (disagreement e))
  where
    -- The wait has ended by an exception, its own or that of the phases.
    interrupted =
      stageOf under >>= \case
        Ended -> release ticket
        Failing e -> unfinished comm e `finally` release ticket
        Going -> void (fork "mpi/given-up" ((void (waitFor under) `catch` unfinished comm) `finally` release ticket))
{-# NOINLINE waitedPhases #-}

-- After a collective that has failed in the middle, no other one may use the duplicate.
unfinished :: Comm kind -> SomeException -> IO ()
unfinished comm e = when (snd (disagreement e)) . modifyRef (commShadow comm) $ \case
  Shadow shadow -> (Spoilt shadow e, ())
  known -> (known, ())

-- | Give back the duplicate for Heddle's own collectives, if there is one; collective. While
-- some that were given up are not complete, and do not become so within a second, it stays.
--
-- [Blocks]: as the implementation does.
closeShadow :: Comm kind -> IO ()
closeShadow comm = do
  quiet <- quietWithin 1000000 comm
  when quiet (closeShadowWith closeComm comm)

closeShadowWith :: (Comm kind -> IO ()) -> Comm kind -> IO ()
closeShadowWith close comm =
  withLock (commLock comm) $
    readRef (commShadow comm) >>= \case
      NoShadow -> pure ()
      Shadow shadow -> writeRef (commShadow comm) NoShadow >> close shadow
      Spoilt shadow _ -> writeRef (commShadow comm) NoShadow >> close shadow

-- Do all collectives that were called end within so many microseconds?
quietWithin :: Int -> Comm kind -> IO Bool
quietWithin limit comm = isJust <$> timeout limit (inOrder (commOrder comm) (pure ()))

-- The duplicate for Heddle's own messages: the first call on a communicator is collective.
shadowOf :: Comm kind -> IO (Comm kind)
shadowOf comm =
  readRef (commShadow comm) >>= \case
    Shadow shadow -> pure shadow
    _ ->
      withLock (commLock comm) $
        readRef (commShadow comm) >>= \case
          Shadow shadow -> pure shadow
          Spoilt _ e ->
            wrong InvalidCommunicator "collective" $
              "an earlier collective on this communicator has failed in the middle, and some of its messages may be under way; use a new communicator. The failure was: "
                ++ displayException e
          NoShadow -> mask_ $ do
            made <- alloca $ \p -> poke p 0 >> check "duplicate" (c_comm_dup (commHandle comm) p) >> peek p
            when (made == 0) (wrong InternalError "duplicate" "no communicator was made")
            shadow <- commFrom made
            shadow <$ writeRef (commShadow comm) (Shadow shadow)

-- Note [Giving up a collective]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- One of Heddle's own collectives is several messages, or several of MPI's collectives. A rank
-- that stopped in the middle would leave messages that the next collective takes for its own:
-- wrong values. So whoever calls one takes part in it to its end, even if the calling thread is
-- interrupted. There are two mechanisms for that, both in the order of the calls ("Ticket"):
--
--  * 'collectively' runs it on a thread that nobody else knows, and so nobody interrupts; the caller
--    waits for its result.
--  * 'collectivelyInPhases', for small reductions, runs the phases on the calling thread. If one is
--    not complete, it is registered with its continuation (Note [Memory lent] in
--    "Heddle.MPI.Internal.Request"), which whoever finds it complete goes on with. A caller that
--    is interrupted leaves a thread behind that releases the ticket.
--
-- MPI's own collectives are one operation each, which MPI completes in order.
--
-- A collective that fails in the middle, by an error of MPI, cannot be completed: then the
-- duplicate is 'Spoilt', and all later collectives on the communicator throw.

foreign import ccall unsafe "heddle_mpi_comm_size" c_comm_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_rank" c_comm_rank :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_remote_size" c_comm_remote_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall safe "heddle_mpi_comm_free" c_comm_free :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_dup" c_comm_dup :: Int64 -> Ptr Int64 -> IO CInt
