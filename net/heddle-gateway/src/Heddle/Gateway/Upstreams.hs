-- |
-- Module      : Heddle.Gateway.Upstreams
-- Description : Connections to the servers of FastCGI and SCGI
-- Stability   : internal, exempt from the version policy
--
-- Several addresses that do the same. Requests go to them in turn; an address that cannot be connected to is passed over
-- for a second, then two, up to half a minute, unless all are in that state. Unused connections are kept for the next
-- request, the one used last first; while there are any, a thread closes those whose time is over.
--
-- The kept connections belong to all capabilities. A server such as php-fpm has a process for each connection, also for
-- one that is not in use; kept per capability, connections that no request of another one may use would starve it.
--
-- Invariant: a connection is kept, in use by one request, or closed. No more are open than there are slots, besides
-- those that are kept.
-- Cost: a compare-and-set to take a connection and one to return it; a system call that looks whether it is stale.
-- Owner: any thread.
module Heddle.Gateway.Upstreams
  ( Upstreams,
    newUpstreams,
    closeUpstreams,
    Connected (..),
    connectTo,
    keepConnection,
    dropConnection,
    keptConnections,
    upstreamsUp,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.List (partition)
import Data.Traversable (for)
import Heddle.Gateway.Failure
import Heddle.IO (Runtime, connectUntil)
import Heddle.IO.Parker (Parker, closeParker, newParker, parkUntil, prepare)
import Heddle.IO.Registration
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork, myCapability)
import Network.Socket (SockAddr)

-- | Addresses, and the connections to them.
data Upstreams = Upstreams
  { upstreamsRuntime :: !Runtime,
    upstreamsAll :: ![Upstream],
    upstreamsConnect :: !Nanos,
    -- | How many unused connections are kept, and for how long.
    upstreamsKeep :: !Int,
    upstreamsKeepFor :: !Nanos,
    -- | Newest first; 'Nothing' after the end.
    upstreamsKept :: !(Ref (Maybe [Kept])),
    -- | Word 0: whose turn it is. Word 1: whether the thread that closes old connections runs.
    upstreamsTurn :: !Words,
    upstreamsParker :: !Parker
  }

-- Word 0: until when it is passed over. Word 1: how many times in a row it failed.
data Upstream = Upstream !SockAddr !Words

data Kept = Kept !Connected !Deadline

-- | A connection.
data Connected = Connected
  { connectedTo :: !Registration,
    -- | What was received and not yet used.
    connectedInput :: !(Ref ByteString),
    -- | Whether it has served a request before.
    connectedReused :: !Bool
  }

-- | Addresses; the time to connect to one; the most kept connections, and for how long.
newUpstreams :: Runtime -> [SockAddr] -> Nanos -> Int -> Nanos -> IO Upstreams
newUpstreams runtime addresses connecting keep keepFor =
  Upstreams runtime <$> traverse (\a -> Upstream a <$> newWords 2) addresses <*> pure connecting <*> pure keep <*> pure keepFor <*> newRef (Just []) <*> newWords 2 <*> newParker runtime

-- | Close the kept connections; those in use are closed when they are returned.
closeUpstreams :: Upstreams -> IO ()
closeUpstreams upstreams = do
  kept <- modifyRef (upstreamsKept upstreams) (\k -> (Nothing, k))
  closeParker (upstreamsParker upstreams)
  for_ (concat kept) (\(Kept c _) -> dropConnection c)

-- | How many connections are kept.
keptConnections :: Upstreams -> IO Int
keptConnections upstreams = maybe 0 length <$> readRef (upstreamsKept upstreams)

-- | The addresses, and whether each is given requests: one that could not be connected to is passed over for a time.
upstreamsUp :: Upstreams -> IO [(SockAddr, Bool)]
upstreamsUp upstreams = do
  Deadline now <- monotonicNow
  for (upstreamsAll upstreams) $ \(Upstream address ws) -> (\until' -> (address, until' <= now)) <$> atomicRead ws 0

-- | A kept connection, or a new one.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; interruptible while parked.
-- [Throws]: 'IOError' when the runtime has stopped.
connectTo :: Upstreams -> Bool -> IO (Either Failure Connected)
connectTo upstreams fresh = do
  capability <- myCapability
  now <- monotonicNow
  (taken, old) <- modifyRef (upstreamsKept upstreams) (takeOne capability now)
  for_ old (\(Kept c _) -> dropConnection c)
  case taken of
    Just (Kept connected _) -> do
      stale <- isStale (connectedTo connected)
      if stale then dropConnection connected >> connectTo upstreams fresh else pure (Right connected {connectedReused = True})
    Nothing -> open upstreams
  where
    -- Old ones are closed first: each may occupy a process of the server, which the new connection would wait for.
    takeOne capability now = \case
      -- Usually the newest is one of this capability.
      Just (one@(Kept c until') : rest) | not fresh && until' > now && registrationCapability (connectedTo c) == capability -> (Just rest, (Just one, []))
      Just connections ->
        let (alive, old) = partition (\(Kept _ until') -> until' > now) connections
            (mine, others) = partition (\(Kept c _) -> registrationCapability (connectedTo c) == capability) alive
         in case mine ++ others of
              one : rest | not fresh -> (Just rest, (Just one, old))
              _ -> (Just alive, (Nothing, old))
      Nothing -> (Nothing, (Nothing, []))

-- | Return a connection that can serve another request.
--
-- [Blocks]: never.
keepConnection :: Upstreams -> Connected -> IO ()
keepConnection upstreams connected = do
  now <- monotonicNow
  let entry = Kept connected (after (upstreamsKeepFor upstreams) now)
  dropped <- modifyRef (upstreamsKept upstreams) $ \case
    Nothing -> (Nothing, [entry])
    Just others
      | keep > 0 && null (drop (keep - 1) others) -> (Just (entry : others), [])
    Just others ->
      let (alive, old) = partition (\(Kept _ until') -> until' > now) others
          (stay, excess) = splitAt keep (entry : alive)
       in (Just stay, excess ++ old)
  for_ dropped (\(Kept c _) -> dropConnection c)
  when (keep > 0) (startSweeping upstreams)
  where
    keep = upstreamsKeep upstreams

-- The thread runs while there are kept connections. All are kept for the same time, so a new one is never the next to go.
startSweeping :: Upstreams -> IO ()
startSweeping upstreams = do
  running <- atomicRead (upstreamsTurn upstreams) 1
  when (running == 0) $ do
    won <- compareAndSet (upstreamsTurn upstreams) 1 0 1
    when won (void (fork "gateway/upstreams" (sweeping upstreams)))

sweeping :: Upstreams -> IO ()
sweeping upstreams =
  readRef (upstreamsKept upstreams) >>= \case
    Just (one : others) -> do
      prepare parker
      parkUntil parker (minimum (map (\(Kept _ until') -> until') (one : others)))
      now <- monotonicNow
      old <- modifyRef (upstreamsKept upstreams) $ \kept ->
        let (alive, old) = partition (\(Kept _ until') -> until' > now) (concat kept) in (alive <$ kept, old)
      for_ old (\(Kept c _) -> dropConnection c)
      sweeping upstreams
    _ -> do
      atomicWrite (upstreamsTurn upstreams) 1 0
      -- One may have been kept between the two.
      late <- keptConnections upstreams
      unless (late == 0) (startSweeping upstreams)
  where
    parker = upstreamsParker upstreams

-- | Close a connection. Idempotent.
--
-- [Blocks]: never.
dropConnection :: Connected -> IO ()
dropConnection = void . closeRegistration . connectedTo

-- Whether the server has closed it, or has sent what nobody asked for.
isStale :: Registration -> IO Bool
isStale registration = do
  buffer <- borrowBuffer registration
  n <- withBuffer buffer (\p -> mask_ (receiveNow registration p 1))
  giveBackBuffer registration buffer
  pure (Errno (negate n) /= EAGAIN)

open :: Upstreams -> IO (Either Failure Connected)
open upstreams = do
  turn <- fetchAdd (upstreamsTurn upstreams) 0 1
  now <- monotonicNow
  let n = length (upstreamsAll upstreams)
      (front, back) = splitAt (if n == 0 then 0 else turn `mod` n) (upstreamsAll upstreams)
      inTurn = back ++ front
  standing <- traverse (\u@(Upstream _ ws) -> (\t -> (Deadline t <= now, u)) <$> atomicRead ws 0) inTurn
  let (up, down) = partition fst standing
  try' (map snd (up ++ down)) (Unreachable "it has no address")
  where
    try' [] failure = pure (Left failure)
    try' (Upstream address ws : others) _ = do
      deadline <- deadlineIn (upstreamsConnect upstreams)
      connectUntil (upstreamsRuntime upstreams) address deadline >>= \case
        Right conn -> do
          atomicWrite ws 0 0
          atomicWrite ws 1 0
          input <- newRef mempty
          pure (Right (Connected (registrationOf conn) input False))
        Left e -> do
          times <- fetchAdd ws 1 1
          Deadline until' <- deadlineIn (min (seconds 30) (seconds (2 ^ min 5 times)))
          atomicWrite ws 0 until'
          try' others (Unreachable (takeWhile (/= '\n') (displayException e)))
