{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DerivingStrategies #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE KindSignatures #-}

-- |
-- Module      : Heddle.MPI.Internal.Types
-- Description : Communicators, ranks, tags, message statuses
-- Stability   : internal, exempt from the version policy
--
-- Cost: a communicator is a handle that C looks up in each call; its size and this process's rank
-- are requested once and cached.
-- Owner: any thread may use a communicator; the program closes it.
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
import Control.Monad.IO.Class (liftIO)
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
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.TicketLock
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Thread (fork)
import System.Timeout (timeout)

-- | A process's number in a communicator, counted from 0.
newtype Rank = Rank Int
  deriving newtype (Enum, Eq, Integral, Message, Num, Ord, Read, Real, Show, Storable)

-- | Convert a number to a rank.
--
-- [Source]: Monad.Reader 19, listing 4.
toRank :: Enum a => a -> Rank
toRank = Rank . fromEnum

-- | As the source of a receive: match messages from any rank.
anySource :: Rank
anySource = Rank (-1)

-- | No process. Sending to it and receiving from it complete at once; it is also the neighbour
-- beyond the edge of a grid. MPI's @MPI_PROC_NULL@.
noRank :: Rank
noRank = Rank (-2)

-- | Distinguishes messages between the same two processes: 0 to 'Heddle.MPI.tagUpperBound'.
newtype Tag = Tag Int
  deriving newtype (Enum, Eq, Integral, Message, Num, Ord, Read, Real, Show)

-- | Make a tag from a value of any enumerable type.
--
-- [Source]: Monad.Reader 19, "Point-to-point communications".
toTag :: Enum a => a -> Tag
toTag = Tag . fromEnum

-- | The inverse of 'toTag'.
fromTag :: Enum a => Tag -> a
fromTag (Tag n) = toEnum n

-- | As the tag of a receive: match messages with any tag.
anyTag :: Tag
anyTag = Tag (-1)

-- | The tag of @()@, 0, for messages that need no tag.
--
-- [Source]: Monad.Reader 19, listing 4.
unitTag :: Tag
unitTag = Tag 0

-- | The sender, tag and size of a message.
data Status = Status
  { -- | Who sent it.
    statusSource :: !Rank,
    -- | Its tag.
    statusTag :: !Tag,
    -- | Its size in bytes; -1 if the implementation does not say.
    statusBytes :: !Int
  }
  deriving stock (Eq, Show)

-- | The status in the outcome of a receive.
statusOf :: Outcome -> Status
statusOf outcome = Status (Rank (fromIntegral (outcomeSource outcome))) (Tag (fromIntegral (outcomeTag outcome))) (fromIntegral (outcomeReceived outcome))

-- | The groups whose processes a communicator connects: one or two.
data Kind = Intra | Inter

-- | A group of processes with a message space of its own: no other communicator sees its messages.
data Comm (kind :: Kind) = Comm
  { commHandle :: !Int64,
    -- | The cached number of processes and this process's rank.
    commShape :: !(Ref (Maybe (Int, Int))),
    -- | The duplicate that carries Heddle's own messages.
    commShadow :: !(Ref (Shadow kind)),
    commLock :: !Lock,
    -- | The order of Heddle's own collectives.
    commOrder :: !TicketLock
  }

-- | NoShadow -> Shadow (made by the first of Heddle's own collectives); Shadow -> Spoilt (a
-- collective failed part-way).
data Shadow kind
  = NoShadow
  | Shadow !(Comm kind)
  | -- | Messages of an unfinished collective may be under way in it; and what went wrong.
    Spoilt !(Comm kind) !SomeException

instance Eq (Comm kind) where
  a == b = commHandle a == commHandle b

instance Show (Comm kind) where
  showsPrec _ comm = showString "Comm " . shows (commHandle comm)

-- | A communicator for a handle.
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

-- | The number of processes; of an intercommunicator, those of the local group.
--
-- [Cost]: a call the first time, then cached.
-- [Throws]: 'MPIError'.
commSize :: Comm kind -> IO Int
commSize comm = fst <$> shapeOf comm

-- | This process's rank.
--
-- [Cost]: a call the first time, then cached.
-- [Throws]: 'MPIError'.
commRank :: Comm kind -> IO Rank
commRank comm = Rank . snd <$> shapeOf comm

-- | 'commSize' and 'commRank' together.
--
-- [Cost]: a call the first time, then cached.
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

-- | The number of processes in the remote group of an intercommunicator.
--
-- [Throws]: 'MPIError'.
remoteSize :: Comm 'Inter -> IO Int
remoteSize comm = fromIntegral <$> answerOf "remoteSize" (c_comm_remote_size (commHandle comm))

answerOf :: String -> (Ptr CInt -> IO CInt) -> IO CInt
answerOf call ask = alloca $ \p -> poke p 0 >> check call (ask p) >> peek p

-- | Free a communicator; collective. Threads that wait in it for a message, or for a collective on memory, get
-- 'AlreadyClosed'; sends that were started go on. If collectives of values on it are not complete, it waits for them for at
-- most 5 seconds, then returns; the communicator is closed when they complete, and an error of that goes to the program's
-- handler of uncaught exceptions.
--
-- [Blocks]: as the implementation does.
-- [Throws]: 'MPIError' if it is already closed, or is a predefined communicator.
closeComm :: Comm kind -> IO ()
closeComm = closeCommWith "closeComm" c_comm_free

-- | Free a communicator with the given call, and the duplicate for Heddle's own messages first.
closeCommWith :: String -> (Int64 -> IO CInt) -> Comm kind -> IO ()
closeCommWith call free comm
  | commHandle comm <= 2 = wrong InvalidCommunicator call "commWorld and commSelf stay open until the end"
  | otherwise = mask_ $ do
    quiet <- quietWithin 5000000 comm
    if quiet then closing else void (fork "mpi/close" (unheard (inOrder (commOrder comm) closing)))
  where
    closing = mask_ $ do
      closeShadowWith (closeCommWith call free) comm
      writeRef (commShape comm) Nothing
      check call (free (commHandle comm))

-- | Run one of Heddle's own collectives on the communicator's duplicate. These collectives run one
-- after the other, in the order of the calls. See Note [Giving up a collective].
--
-- [Cost]: a thread if an earlier collective is not complete, or the communicator has no duplicate yet.
-- [Blocks]: tests for some microseconds, then parks the thread.
-- [Masking]: interruptible where it waits or evaluates; the collective continues on another thread.
collectively :: Comm kind -> (Comm kind -> Steps a) -> IO a
collectively comm body = mask $ \restore -> do
  ticket <- takeTicket (commOrder comm)
  ours <- isFirst comm ticket
  if ours
    then performStepsOr restore (continued comm ticket) (failedPart comm ticket) (body =<< liftIO (shadowOf comm)) >>= \a -> a <$ release ticket
    else inTurn "mpi/collective" comm ticket (performSteps . body) >>= restore . wait

-- | 'collectively' without waiting, on a thread of the given name.
--
-- [Blocks]: never.
collectivelyLater :: String -> Comm kind -> (Comm kind -> Steps a) -> IO (Request a)
collectivelyLater name comm body = mask_ $ takeTicket (commOrder comm) >>= \ticket -> inTurn name comm ticket (performSteps . body)

inTurn :: String -> Comm kind -> Ticket -> (Comm kind -> IO a) -> IO (Request a)
inTurn name comm ticket body =
  forked name . withTicket ticket $ do
    shadow <- shadowOf comm
    body shadow `catch` \e -> unfinished comm e >> throwIO (fst (disagreement e))

-- Whether the caller's thread may run the collective: there is a duplicate, which takes a blocking call to
-- make, and all tickets before this one are released. Then the caller must release this one.
isFirst :: Comm kind -> Ticket -> IO Bool
isFirst comm ticket =
  readRef (commShadow comm) >>= \case
    Shadow _ -> isCalled ticket
    _ -> pure False
{-# INLINE isFirst #-}

-- | 'collectively' for a collective made of phases whose continuations are this library's own: they may
-- run on the engine's thread.
--
-- [Blocks]: tests for some microseconds, then parks the thread.
-- [Masking]: interruptible while it waits; the collective continues.
collectivelyInPhases :: Comm kind -> (Comm kind -> IO (Next a)) -> IO a
collectivelyInPhases comm first = mask $ \restore -> do
  ticket <- takeTicket (commOrder comm)
  ours <- isFirst comm ticket
  if ours
    then -- The duplicate is read again: the collective before this one may have spoilt it meanwhile.

      (phases (shadowOf comm >>= first) `catch` failedPart comm ticket) >>= \case
        Right a -> a <$ release ticket
        Left under -> waitedPhases restore comm ticket under
    else laterPhases restore comm ticket first
{-# INLINEABLE collectivelyInPhases #-}

-- The slow paths: the caller's thread may not run it yet;
laterPhases :: (IO a -> IO a) -> Comm kind -> Ticket -> (Comm kind -> IO (Next a)) -> IO a
laterPhases restore comm ticket first = inTurn "mpi/collective" comm ticket (performPhases . first) >>= restore . wait
{-# NOINLINE laterPhases #-}

-- a part that ran on the caller's thread has failed;
failedPart :: Comm kind -> Ticket -> SomeException -> IO b
failedPart comm ticket e = (unfinished comm e >> throwIO (fst (disagreement e))) `finally` release ticket
{-# NOINLINE failedPart #-}

-- the caller was interrupted, and this is what remains;
continued :: Comm kind -> Ticket -> IO a -> IO ()
continued comm ticket remaining =
  void (fork "mpi/given-up" ((void remaining `catch` unfinished comm) `finally` release ticket))
{-# NOINLINE continued #-}

-- a phase is not complete at once.
waitedPhases :: (IO a -> IO a) -> Comm kind -> Ticket -> Under a -> IO a
waitedPhases restore comm ticket under =
  try (restore (waitFor under)) >>= \case
    Right a -> a <$ release ticket
    Left e -> interrupted >> throwIO (fst (disagreement e))
  where
    -- An exception ended the wait: an asynchronous one, or that of a phase.
    interrupted =
      stageOf under >>= \case
        Ended -> release ticket
        Failing e -> unfinished comm e `finally` release ticket
        Going -> continued comm ticket (waitFor under)
{-# NOINLINE waitedPhases #-}

-- No other collective may use the duplicate after one has failed part-way.
unfinished :: Comm kind -> SomeException -> IO ()
unfinished comm e = when (snd (disagreement e)) . modifyRef (commShadow comm) $ \case
  Shadow shadow -> (Spoilt shadow e, ())
  known -> (known, ())

-- | Free the duplicate for Heddle's own collectives, if there is one; collective. It is kept if
-- abandoned collectives on it do not complete within a second.
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

-- Whether all pending collectives complete within the given number of microseconds.
quietWithin :: Int -> Comm kind -> IO Bool
quietWithin limit comm = isJust <$> timeout limit (inOrder (commOrder comm) (pure ()))

-- The duplicate for Heddle's own messages. The first call on a communicator is collective.
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
                ++ describeException e
          NoShadow -> mask_ $ do
            made <- alloca $ \p -> poke p 0 >> check "duplicate" (c_comm_dup (commHandle comm) p) >> peek p
            when (made == 0) (wrong InternalError "duplicate" "no communicator was made")
            shadow <- commFrom made
            shadow <$ writeRef (commShadow comm) (Shadow shadow)

-- Note [Giving up a collective]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Each of Heddle's own collectives consists of several messages, or of several of MPI's
-- collectives. A rank that stopped part-way would leave messages that the next collective would
-- take for its own, giving wrong values. So a rank takes part to the end even if the calling thread
-- is interrupted. Two mechanisms ensure that, both in the order of the calls ("TicketLock"):
--
--  * 'collectively' runs its steps on the calling thread, masked, because the hand-over to another
--    thread and back costs a microsecond, and tens of them if the caller is bound to an OS thread. An
--    exception is let in where a step waits or evaluates the program's code. The remaining steps then
--    continue on a thread whose id nobody has, so nothing can interrupt them. Such a thread runs all of
--    the collective if the caller cannot begin at once ('isFirst') or does not wait.
--  * 'collectivelyInPhases', for small reductions, runs the phases on the calling thread. A phase
--    that is not complete at once is registered with its continuation (Note [Memory lent] in
--    "Heddle.MPI.Internal.Operation"), which the thread that finds it complete runs. An interrupted
--    caller leaves a thread behind that releases the ticket.
--
-- MPI's own collectives are one operation each, which MPI completes in order.
--
-- A collective that fails part-way with an MPI error cannot be completed. The duplicate is then
-- 'Spoilt', and all of Heddle's later collectives on the communicator throw.

foreign import ccall unsafe "heddle_mpi_comm_size" c_comm_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_rank" c_comm_rank :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_comm_remote_size" c_comm_remote_size :: Int64 -> Ptr CInt -> IO CInt -- reads what is known

foreign import ccall safe "heddle_mpi_comm_free" c_comm_free :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_dup" c_comm_dup :: Int64 -> Ptr Int64 -> IO CInt
