{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Channel
-- Description : Unbounded, bounded and multicast channels
-- Stability   : stable
--
-- Channels pass values between threads, in order. Waiting threads are served first come, first
-- served: a value is handed to the thread that has waited longest, so none starves.
-- A thread that is interrupted or times out neither loses a value nor takes one.
--
-- Invariant: a channel has waiting receivers only while it is empty, and waiting senders
-- only while it is full.
-- Cost: about 100 ns an operation that need not wait; one compare-and-set.
-- Owner: any number of threads on both sides.
-- [Source]: Parallel and Concurrent Programming, chapter 7.
module Heddle.Channel
  ( -- * Channels
    Channel,
    newUnbounded,
    newBounded,

    -- * Sending
    send,
    sendUntil,
    trySend,

    -- * Receiving
    recv,
    recvUntil,
    tryRecv,

    -- * Looking
    pending,

    -- * Multicast

    -- | Every subscription sees everything published after it began. What all have
    -- received is garbage; without subscriptions, at once.
    Multicast,
    newMulticast,
    publish,
    Subscription,
    subscribe,
    duplicate,
    next,
    nextUntil,
    tryNext,

    -- * Exceptions
    ScopeException (..),
    ChannelDeserted (..),
  )
where

import Control.Monad (void, when)
import Data.Foldable (for_, traverse_)
import Data.Maybe (fromMaybe)
import Data.Sequence (Seq, ViewL (..), viewl, (<|), (|>))
import Data.Sequence qualified as Seq
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline, never)
import Heddle.Prim.Errno (throwErrnoFor, pattern EINVAL)
import Heddle.Prim.Exception (BlockedIndefinitelyOnMVar (..), Exception (..), bug, catch, mask_, onException, throwIO)
import Heddle.Prim.WaitCell
import Heddle.Scope.Internal.Exception
import Heddle.Timer (isOver, withCellUntil)

-- | A queue between threads.
data Channel a = Channel
  { channelState :: !(Ref (State a)),
    -- | The most values it holds; 'maxBound' for an unbounded one.
    channelCapacity :: !Int
  }

-- | A thread waited on a channel that no other thread can reach any more.
newtype ChannelDeserted = ChannelDeserted String
  deriving stock (Eq)

instance Show ChannelDeserted where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception ChannelDeserted where
  toException = toException . ScopeException
  fromException = fromScope
  displayException (ChannelDeserted what) =
    what ++ " would wait for ever: no other thread has this channel any more"

-- | The values, the waiting receivers, and the waiting senders with their values.
data State a = State !(Seq a) !(Queue (Waiter a)) !(Queue (Sender a))

data Sender a = Sender !(Waiter ()) a

-- | A channel that never makes its senders wait.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- @since 0.1.0.0
newUnbounded :: IO (Channel a)
newUnbounded = newChannel maxBound

-- | A channel that holds at most this many values.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Throws]: 'IOError' (EINVAL) for a capacity below 1.
-- @since 0.1.0.0
newBounded :: Int -> IO (Channel a)
newBounded capacity = do
  when (capacity < 1) $ throwErrnoFor ("newBounded with capacity " ++ show capacity ++ ", which must be at least 1") EINVAL
  newChannel capacity

newChannel :: Int -> IO (Channel a)
newChannel capacity = (`Channel` capacity) <$> newRef (State Seq.empty emptyQueue emptyQueue)

-- | Send a value, which is not evaluated.
--
-- [Cost]: about 100 ns.
-- [Blocks]: parks while the channel is full; never if it is unbounded.
-- [Masking]: interruptible while parked; interrupted, it has not sent, unless a receiver
-- took the value at the same moment.
-- [Throws]: 'ChannelDeserted'.
-- [Threads]: any number; waiting senders are served in order.
-- @since 0.1.0.0
send :: Channel a -> a -> IO ()
send channel x = void (sendUntil channel x never)

-- | 'send'; 'False' when the deadline passed first, and nothing was sent.
--
-- [Cost]: as 'send'.
-- [Blocks]: parks.
-- [Masking]: as 'send'.
-- [Threads]: as 'send'.
-- @since 0.1.0.0
sendUntil :: Channel a -> a -> Deadline -> IO Bool
sendUntil channel x deadline = mask_ $ do
  sent <- trySend channel x
  if sent
    then pure True
    else withCell "send" deadline $ \cell -> do
      w <- newWaiter cell
      step <- modifyRef (channelState channel) $ \s@(State xs receivers senders) ->
        case offer channel x s of
          Just (s', handing) -> (s', True <$ handing)
          Nothing ->
            let (waiting, ticket) = enqueue (Sender w x) senders
             in (State xs receivers waiting, waitFor w ticket)
      step
  where
    -- If a receiver has already taken the value, it counts as sent.
    waitFor w ticket = (/= Nothing) <$> awaitHandOff w deadline (leave ticket) pure
    leave ticket = modifyRef (channelState channel) $ \s@(State xs receivers senders) ->
      maybe (s, False) (\rest -> (State xs receivers rest, True)) (withdraw ticket senders)

-- | Send if there is room now.
--
-- [Cost]: about 100 ns.
-- [Blocks]: never.
-- [Threads]: any number.
-- @since 0.1.0.0
trySend :: Channel a -> a -> IO Bool
trySend channel x = mask_ $ do
  step <- modifyRef (channelState channel) $ \s -> case offer channel x s of
    Just (s', handing) -> (s', True <$ handing)
    Nothing -> (s, pure False)
  step

-- The state with the value in it, and what to do after installing it; or there is no room.
offer :: Channel a -> a -> State a -> Maybe (State a, IO ())
offer channel x (State xs receivers senders) = case dequeue receivers of
  Just (w, rest) -> Just (State xs rest senders, handOff w x)
  Nothing
    | Seq.length xs < channelCapacity channel -> Just (State (xs |> x) receivers senders, pure ())
    | otherwise -> Nothing

-- | Receive the oldest value.
--
-- [Cost]: about 100 ns.
-- [Blocks]: parks while the channel is empty.
-- [Masking]: interruptible while parked; interrupted, it has taken nothing.
-- [Throws]: 'ChannelDeserted'.
-- [Threads]: any number; waiting receivers are served in order.
-- @since 0.1.0.0
recv :: Channel a -> IO a
recv channel = recvUntil channel never >>= maybe (bug "recv: never came") pure

-- | 'recv', or 'Nothing' when the deadline passed first.
--
-- [Cost]: as 'recv'.
-- [Blocks]: parks.
-- [Masking]: as 'recv'.
-- [Threads]: as 'recv'.
-- @since 0.1.0.0
recvUntil :: Channel a -> Deadline -> IO (Maybe a)
recvUntil channel deadline = mask_ $ do
  now <- tryRecv channel
  case now of
    Just x -> pure (Just x)
    Nothing -> withCell "recv" deadline $ \cell -> do
      w <- newWaiter cell
      step <- modifyRef (channelState channel) $ \s@(State xs receivers senders) ->
        case takeOne s of
          Just (x, s', waking) -> (s', Just x <$ waking)
          Nothing ->
            let (waiting, ticket) = enqueue w receivers
             in (State xs waiting senders, awaitHandOff w deadline (leave ticket) (putBack channel))
      step
  where
    leave ticket = modifyRef (channelState channel) $ \s@(State xs receivers senders) ->
      maybe (s, False) (\rest -> (State xs rest senders, True)) (withdraw ticket receivers)

-- | Receive if there is a value now.
--
-- [Cost]: about 100 ns.
-- [Blocks]: never.
-- [Threads]: any number.
-- @since 0.1.0.0
tryRecv :: Channel a -> IO (Maybe a)
tryRecv channel = mask_ $ do
  step <- modifyRef (channelState channel) $ \s -> case takeOne s of
    Just (x, s', waking) -> (s', Just x <$ waking)
    Nothing -> (s, pure Nothing)
  step

-- The oldest value, the state without it, and what to do after installing it. The value of the
-- sender that has waited longest takes the free place.
takeOne :: State a -> Maybe (a, State a, IO ())
takeOne (State xs receivers senders) = case viewl xs of
  EmptyL -> Nothing
  x :< rest -> Just $ case dequeue senders of
    Nothing -> (x, State rest receivers senders, pure ())
    Just (Sender w y, others) -> (x, State (rest |> y) receivers others, handOff w ())

-- Return a value whose receiver was interrupted after it had been given the value. It becomes
-- the oldest again, so a channel may hold one value more than its capacity for each such receiver.
putBack :: Channel a -> a -> IO ()
putBack channel x = do
  step <- modifyRef (channelState channel) $ \(State xs receivers senders) -> case dequeue receivers of
    Just (w, rest) -> (State xs rest senders, handOff w x)
    Nothing -> (State (x <| xs) receivers senders, pure ())
  step

-- | How many values are in it now.
--
-- [Cost]: one read.
-- [Blocks]: never.
-- @since 0.1.0.0
pending :: Channel a -> IO Int
pending channel = (\(State xs _ _) -> Seq.length xs) <$> readRef (channelState channel)

withCell :: String -> Deadline -> (WaitCell -> IO a) -> IO a
withCell what deadline use
  | deadline == never =
    (newWaitCell >>= use) `catch` \BlockedIndefinitelyOnMVar -> throwIO (ChannelDeserted what)
  | otherwise = withCellUntil deadline use

-- Multicast -------------------------------------------------------------------

-- | One to many.
newtype Multicast a = Multicast (Ref (Place a))

-- | A place in the stream of values: its number and its content.
data Place a = Place !Int !(Ref (Here a))

-- | Empty -> Holds (a publisher); the cells of subscriptions that wait.
data Here a
  = Empty !(Queue WaitCell)
  | Holds a !(Place a)

-- | A reader's place in a multicast.
newtype Subscription a = Subscription (Ref (Place a))

-- | A multicast without subscriptions.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- @since 0.1.0.0
newMulticast :: IO (Multicast a)
newMulticast = do
  place <- emptyPlace 0
  Multicast <$> newRef place

emptyPlace :: Int -> IO (Place a)
emptyPlace n = Place n <$> newRef (Empty emptyQueue)

-- | Publish a value, which is not evaluated, to every subscription.
--
-- [Cost]: about 100 ns, and a wake-up for each thread that waits.
-- [Blocks]: never.
-- [Threads]: any number; all subscriptions see the same order.
-- @since 0.1.0.0
publish :: Multicast a -> a -> IO ()
publish (Multicast end) x = mask_ $ do
  fresh <- newRef (Empty emptyQueue)
  readRef end >>= fill fresh
  where
    fill fresh (Place n here) = do
      let after' = Place (n + 1) fresh
      step <- modifyRef here $ \case
        Empty waiting -> (Holds x after', Left waiting)
        full@(Holds _ further) -> (full, Right further)
      case step of
        Left waiting -> advance end after' >> traverse_ unpark (entries waiting)
        -- Another publisher has filled this place but not moved the end yet.
        Right further -> fill fresh further

-- Move only forward: a slow thread must not move the end back to values that no subscription
-- needs any more.
advance :: Ref (Place a) -> Place a -> IO ()
advance ref to@(Place n _) = modifyRef ref $ \now@(Place m _) -> (if n > m then to else now, ())

-- | Subscribe to what is published from now on.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
-- @since 0.1.0.0
subscribe :: Multicast a -> IO (Subscription a)
subscribe (Multicast end) = readRef end >>= latest >>= fmap Subscription . newRef
  where
    latest place@(Place _ here) =
      readRef here >>= \case
        Empty _ -> pure place
        Holds _ further -> latest further

-- | A second subscription at the same place.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- @since 0.1.0.0
duplicate :: Subscription a -> IO (Subscription a)
duplicate (Subscription at) = readRef at >>= fmap Subscription . newRef

-- | The next value.
--
-- [Cost]: about 50 ns.
-- [Blocks]: parks until there is one.
-- [Masking]: interruptible while parked; interrupted, it has taken nothing.
-- [Throws]: 'ChannelDeserted'.
-- [Threads]: several threads on one subscription share its values; to see all, each has
-- its own.
-- @since 0.1.0.0
next :: Subscription a -> IO a
next subscription = nextUntil subscription never >>= maybe (bug "next: never came") pure

-- | 'next', or 'Nothing' when the deadline passed first.
--
-- [Cost]: as 'next'.
-- [Blocks]: parks.
-- [Masking]: as 'next'.
-- [Threads]: as 'next'.
-- @since 0.1.0.0
nextUntil :: Subscription a -> Deadline -> IO (Maybe a)
nextUntil subscription@(Subscription at) deadline =
  tryNext subscription >>= \case
    Just x -> pure (Just x)
    Nothing -> mask_ (withCell "next" deadline wait)
  where
    wait cell =
      tryNext subscription >>= \case
        Just x -> pure (Just x)
        Nothing -> do
          over <- isOver deadline
          if over
            then pure Nothing
            else do
              Place _ here <- readRef at
              -- The cell is removed on every path, so no thread waits twice at one place.
              waiting <- modifyRef here $ \case
                Empty cells -> let (cells', ticket) = enqueue cell cells in (Empty cells', Just ticket)
                full -> (full, Nothing)
              for_ waiting $ \ticket -> do
                park cell `onException` leave ticket here
                leave ticket here
              wait cell
    leave ticket here =
      readRef here >>= \case
        Holds _ _ -> pure ()
        Empty _ -> modifyRef here $ \case
          Empty cells -> (Empty (fromMaybe cells (withdraw ticket cells)), ())
          full -> (full, ())

-- | The next value, if there is one now.
--
-- [Cost]: about 50 ns.
-- [Blocks]: never.
-- [Threads]: as 'next'.
-- @since 0.1.0.0
tryNext :: Subscription a -> IO (Maybe a)
tryNext subscription@(Subscription at) = do
  Place n here <- readRef at
  readRef here >>= \case
    Empty _ -> pure Nothing
    Holds x further -> do
      mine <- modifyRef at $ \now@(Place m _) -> if m == n then (further, True) else (now, False)
      if mine then pure (Just x) else tryNext subscription
