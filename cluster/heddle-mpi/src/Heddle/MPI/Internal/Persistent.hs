-- |
-- Module      : Heddle.MPI.Internal.Persistent
-- Description : Sends and receives on fixed memory that can be started repeatedly
-- Stability   : internal, exempt from the version policy
--
-- "Heddle.MPI.Fast" documents and exports them.
--
-- Cost: a start, what the implementation takes; memory that the collector may move is copied each time.
-- Owner: the request owns its memory from each start until it is complete.
module Heddle.MPI.Internal.Persistent
  ( Persistent,
    sendInit,
    recvInit,
    startRequest,
    closePersistent,
  )
where

import Data.Int (Int64)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, writeRef)
import Heddle.Prim.Exception

-- | A send or receive on fixed memory that can be started repeatedly.
data Persistent a = Persistent
  { persistentHandle :: !Int64,
    persistentLent :: !Lent,
    persistentSends :: !Bool,
    -- | From whom, or to whom, and the tag.
    persistentRank :: !Rank,
    persistentTag :: !Tag,
    persistentUse :: !(Ref Use),
    persistentGives :: Outcome -> IO (Next a)
  }

-- | Idle -> Started ('startRequest'); Started -> Idle (whoever finds the operation complete);
-- Idle -> Closed ('closePersistent').
data Use = Idle | Started | Closed
  deriving stock (Eq)

-- | Prepare to send the same memory repeatedly, with its contents at the time of each start.
--
-- [Throws]: 'MPIError'.
sendInit :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Persistent ())
sendInit comm (Rank rank) (Tag tag) b = mask_ $ do
  lent <- lendOut b
  let Datatype type' = lentType lent
  handle <- made "sendInit" (c_send_init (commHandle comm) (fromIntegral rank) (fromIntegral tag) 0 (lentAt lent) (fromIntegral (lentCount lent)) type')
  use <- newRef Idle
  pure (Persistent handle lent True (Rank rank) (Tag tag) use (\_ -> Finished () <$ lentDone lent))

-- | Prepare to receive into the same memory repeatedly.
--
-- [Throws]: 'MPIError'.
recvInit :: ReceiveBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Persistent Status)
recvInit comm (Rank rank) (Tag tag) b = mask_ $ do
  lent <- lendIn b
  let Datatype type' = lentType lent
  handle <- made "recvInit" (c_recv_init (commHandle comm) (fromIntegral rank) (fromIntegral tag) (lentAt lent) (fromIntegral (lentCount lent)) type')
  use <- newRef Idle
  pure (Persistent handle lent False (Rank rank) (Tag tag) use (\outcome -> Finished (statusOf outcome) <$ lentDone lent))

made :: String -> (Ptr Int64 -> IO CInt) -> IO Int64
made call make = alloca $ \p -> poke p 0 >> check call (make p) >> peek p

-- | Start the operation once. Its previous run must be complete and have been waited for.
--
-- [Cost]: memory that the collector may move is copied each time.
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidRequest' if it is under way, 'AlreadyClosed' if it is closed;
-- others when it is waited for.
startRequest :: Persistent a -> IO (Request a)
startRequest persistent = mask_ $ do
  changeUse persistent Started "startRequest"
  lentAgain (persistentLent persistent)
  begin start ended
  where
    Lent p n (Datatype type') _ _ _ = persistentLent persistent
    bytes = lentBytes (persistentLent persistent)
    sends = if persistentSends persistent then 1 else 0
    Rank rank = persistentRank persistent
    Tag tag = persistentTag persistent
    start =
      Start
        { startCall = "startRequest",
          startFree = c_start (persistentHandle persistent) (fromIntegral rank) (fromIntegral tag) p (fromIntegral n) type' (fromIntegral bytes) sends,
          startHeld = c_start_held (persistentHandle persistent) (fromIntegral rank) (fromIntegral tag) p (fromIntegral n) type' (fromIntegral bytes) sends,
          startWeight = weigh bytes,
          startTells = True
        }
    ended outcome = told outcome `finally` writeRef (persistentUse persistent) Idle
    told outcome
      | outcomeCancelled outcome = pure Gone
      | outcomeError outcome /= 0 = failWith "startRequest" (fromIntegral (outcomeError outcome))
      | otherwise = persistentGives persistent outcome

-- | Free a persistent request.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidRequest' if it is under way, 'AlreadyClosed' the second time.
closePersistent :: Persistent a -> IO ()
closePersistent persistent = mask_ $ do
  changeUse persistent Closed "closePersistent"
  check "closePersistent" (c_persistent_free (persistentHandle persistent))

-- From Idle to this.
changeUse :: Persistent a -> Use -> String -> IO ()
changeUse persistent next call =
  modifyRef (persistentUse persistent) (\now -> (if now == Idle then next else now, now)) >>= \case
    Idle -> pure ()
    Started -> wrong InvalidRequest call "the operation is under way: wait for the request that it was started with, or cancel that"
    Closed -> failWith call (-3)
