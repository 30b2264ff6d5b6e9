-- |
-- Module      : Heddle.Gateway.Upstreams
-- Description : Connections to the servers of FastCGI and SCGI
-- Stability   : internal, exempt from the version policy
--
-- Several addresses that do the same. Requests go to them in turn; an address that cannot be connected to is passed over
-- for a second, then two, up to half a minute, unless all are in that state. Unused connections may be kept for the next
-- request, the one used last first; while there are any, a thread closes those whose time is over.
--
-- A server such as php-fpm has a process for each connection, also for one that is not in use. With more connections than
-- processes the others wait in the listener's queue, and a kept connection would keep a process from them. So the kept
-- connections belong to all capabilities, and while a new connection waits for the first byte of an answer, by which it is
-- known to have been taken up, none is kept: one that becomes free is closed instead.
--
-- Invariant: a connection is kept, in use by one request, or closed. No more are open than there are slots, besides
-- those that are kept. While a new connection has not been taken up, none is kept.
-- Cost: a compare-and-set to take a connection, and one to return it; where connections are kept, one more for each new
-- one, and a system call that looks whether a kept one is stale.
-- Owner: any thread.
module Heddle.Gateway.Upstreams
  ( Upstreams,
    newUpstreams,
    closeUpstreams,
    Connected (..),
    connectTo,
    takenUp,
    keepConnection,
    dropConnection,
    sendBy,
    keptConnections,
    upstreamsUp,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.List (partition)
import Data.Traversable (for)
import Foreign.Ptr (castPtr)
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
import Network.Socket (SockAddr (..))

-- | Addresses, and the connections to them.
data Upstreams = Upstreams
  { upstreamsRuntime :: !Runtime,
    upstreamsAll :: ![Upstream],
    upstreamsConnect :: !Nanos,
    -- | How many unused connections are kept, and for how long.
    upstreamsKeep :: !Int,
    upstreamsKeepFor :: !Nanos,
    -- | 'Nothing' after the end.
    upstreamsPool :: !(Ref (Maybe Pool)),
    -- | Word 0: whose turn it is. Word 1: whether the thread that closes old connections runs.
    upstreamsTurn :: !Words,
    upstreamsParker :: !Parker
  }

-- Word 0: until when it is passed over. Word 1: how many times in a row it failed.
data Upstream = Upstream !SockAddr !Words

-- The kept connections, newest first, and how many new ones have not been taken up.
data Pool = Pool ![Kept] !Int

data Kept = Kept !Connected !Deadline

-- | A connection.
data Connected = Connected
  { connectedTo :: !Registration,
    -- | For logs, as @192.0.2.7:9000@.
    connectedAddress :: !ByteString,
    -- | What was received and not yet used.
    connectedInput :: !(Ref ByteString),
    -- | Whether it has served a request before.
    connectedReused :: !Bool,
    -- | Word 0: 1 while it counts as not taken up.
    connectedAwaited :: !Words
  }

-- | Addresses; the time to connect to one; the most kept connections, and for how long.
newUpstreams :: Runtime -> [SockAddr] -> Nanos -> Int -> Nanos -> IO Upstreams
newUpstreams runtime addresses connecting keep keepFor =
  Upstreams runtime <$> traverse (\a -> Upstream a <$> newWords 2) addresses <*> pure connecting <*> pure keep <*> pure keepFor <*> newRef (Just (Pool [] 0)) <*> newWords 2 <*> newParker runtime

-- | Close the kept connections; those in use are closed when they are returned.
closeUpstreams :: Upstreams -> IO ()
closeUpstreams upstreams = do
  kept <- modifyRef (upstreamsPool upstreams) (\pool -> (Nothing, poolKept pool))
  closeParker (upstreamsParker upstreams)
  closeAll upstreams kept

poolKept :: Maybe Pool -> [Kept]
poolKept = maybe [] (\(Pool kept _) -> kept)

closeAll :: Upstreams -> [Kept] -> IO ()
closeAll upstreams kept = for_ kept (\(Kept c _) -> dropConnection upstreams c)

-- | How many connections are kept.
keptConnections :: Upstreams -> IO Int
keptConnections upstreams = length . poolKept <$> readRef (upstreamsPool upstreams)

-- | The addresses, and whether each is given requests: one that could not be connected to is passed over for a time.
upstreamsUp :: Upstreams -> IO [(SockAddr, Bool)]
upstreamsUp upstreams = do
  Deadline now <- monotonicNow
  for (upstreamsAll upstreams) $ \(Upstream address ws) -> (\until' -> (address, until' <= now)) <$> atomicRead ws 0

-- | A kept connection, or a new one; a new one for certain if so asked, and then those that are kept are closed.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; interruptible while parked.
-- [Throws]: 'IOError' when the runtime has stopped.
connectTo :: Upstreams -> Bool -> IO (Either Failure Connected)
connectTo upstreams fresh = do
  capability <- myCapability
  now <- monotonicNow
  (taken, old) <- modifyRef (upstreamsPool upstreams) (takeOne capability now)
  closeAll upstreams old
  case taken of
    Just (Kept connected _) -> do
      stale <- isStale (connectedTo connected)
      if stale then dropConnection upstreams connected >> connectTo upstreams fresh else pure (Right connected {connectedReused = True})
    Nothing -> do
      awaited <- newWords 1
      when (keeps upstreams) (writeWord awaited 0 1)
      let failed = settle upstreams awaited
      r <- open upstreams awaited `onException` failed
      r <$ either (const failed) (const (pure ())) r
  where
    -- Old ones are closed first: each may occupy a process of the server, which the new connection would wait for.
    takeOne capability now = \case
      -- Usually the newest is one of this capability.
      Just (Pool (one@(Kept c until') : rest) awaited) | not fresh && until' > now && registrationCapability (connectedTo c) == capability -> (Just (Pool rest awaited), (Just one, []))
      Just (Pool connections awaited) ->
        let (alive, old) = partition (\(Kept _ until') -> until' > now) connections
            (mine, others) = partition (\(Kept c _) -> registrationCapability (connectedTo c) == capability) alive
         in case mine ++ others of
              one : rest | not fresh -> (Just (Pool rest awaited), (Just one, old))
              _ -> (Just (Pool [] (if keeps upstreams then awaited + 1 else awaited)), (Nothing, connections))
      Nothing -> (Nothing, (Nothing, []))

-- Whether connections are kept at all; otherwise nothing needs to be counted.
keeps :: Upstreams -> Bool
keeps upstreams = upstreamsKeep upstreams > 0

-- | A connection is known to have been taken up by the server, since an answer has begun. Idempotent.
--
-- [Cost]: one load; the first time, two compare-and-sets.
-- [Blocks]: never.
takenUp :: Upstreams -> Connected -> IO ()
takenUp upstreams connected = settle upstreams (connectedAwaited connected)

settle :: Upstreams -> Words -> IO ()
settle upstreams awaited = do
  waits <- atomicRead awaited 0
  when (waits == 1) $ do
    won <- compareAndSet awaited 0 1 0
    when won (modifyRef (upstreamsPool upstreams) (\pool -> (fmap (\(Pool kept n) -> Pool kept (n - 1)) pool, ())))

-- | Return a connection that can serve another request: it is kept, or closed if others have not been taken up.
--
-- [Blocks]: never.
keepConnection :: Upstreams -> Connected -> IO ()
keepConnection upstreams connected = do
  now <- monotonicNow
  let entry = Kept connected (after (upstreamsKeepFor upstreams) now)
  takenUp upstreams connected
  dropped <- modifyRef (upstreamsPool upstreams) $ \case
    Nothing -> (Nothing, [entry])
    Just pool@(Pool _ awaited) | awaited > 0 -> (Just pool, [entry])
    Just (Pool others awaited)
      | keep > 0 && null (drop (keep - 1) others) -> (Just (Pool (entry : others) awaited), [])
    Just (Pool others awaited) ->
      let (alive, old) = partition (\(Kept _ until') -> until' > now) others
          (stay, excess) = splitAt keep (entry : alive)
       in (Just (Pool stay awaited), excess ++ old)
  closeAll upstreams dropped
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
sweeping upstreams = do
  kept <- poolKept <$> readRef (upstreamsPool upstreams)
  case kept of
    one : others -> do
      prepare parker
      parkUntil parker (minimum (map (\(Kept _ until') -> until') (one : others)))
      now <- monotonicNow
      old <- modifyRef (upstreamsPool upstreams) $ \pool ->
        let (alive, old) = partition (\(Kept _ until') -> until' > now) (poolKept pool) in (fmap (\(Pool _ awaited) -> Pool alive awaited) pool, old)
      closeAll upstreams old
      sweeping upstreams
    [] -> do
      atomicWrite (upstreamsTurn upstreams) 1 0
      -- One may have been kept between the two.
      late <- keptConnections upstreams
      unless (late == 0) (startSweeping upstreams)
  where
    parker = upstreamsParker upstreams

-- | Close a connection. Idempotent.
--
-- [Blocks]: never.
dropConnection :: Upstreams -> Connected -> IO ()
dropConnection upstreams connected = takenUp upstreams connected >> void (closeRegistration (connectedTo connected))

-- Whether the server has closed it, or has sent what nobody asked for.
isStale :: Registration -> IO Bool
isStale registration = do
  buffer <- borrowBuffer registration
  n <- withBuffer buffer (\p -> mask_ (receiveNow registration p 1))
  giveBackBuffer registration buffer
  pure (Errno (negate n) /= EAGAIN)

open :: Upstreams -> Words -> IO (Either Failure Connected)
open upstreams awaited = do
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
          pure (Right (Connected (registrationOf conn) (addressText address) input False awaited))
        Left e -> do
          times <- fetchAdd ws 1 1
          Deadline until' <- deadlineIn (min (seconds 30) (seconds (2 ^ min 5 times)))
          atomicWrite ws 0 until'
          try' others (Unreachable (takeWhile (/= '\n') (displayException e)))

addressText :: SockAddr -> ByteString
addressText = \case
  SockAddrUnix path -> C.pack ("unix:" ++ path)
  address -> C.pack (show address)

-- | Send all by the deadline; 'False' when the connection has failed, or the time is over.
--
-- [Blocks]: parks while the socket is full.
sendBy :: Deadline -> Registration -> ByteString -> IO Bool
sendBy deadline registration bytes =
  unsafeUseAsCStringLen bytes $ \(p, n) -> (== n) <$> sendUntil registration (castPtr p) n deadline
