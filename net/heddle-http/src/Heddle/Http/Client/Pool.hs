-- |
-- Module      : Heddle.Http.Client.Pool
-- Description : Connections kept for the next request
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- Each capability has a 'Shard': unused connections by origin, the one used last first; how many
-- connections there are; and the threads that wait for one. A connection belongs to the shard that
-- allowed it, wherever its user has moved to meanwhile.
--
-- Protocol: 'acquireUntil' gives a connection or the right to open one (a slot). The holder returns
-- it by 'release' (the connection can be used again) or 'surrender' (it is closed, or was never opened), once.
-- Both pass it to the thread that has waited longest, of those that can use it.
--
-- Invariant: a shard's counts are the connections kept, in use and being opened; no count exceeds its
-- limit. While a thread waits, no connection of its origin is kept unused.
-- Cost: acquiring and releasing are one compare-and-set each, and O(log origins).
-- Owner: any thread; the shard's state changes by compare-and-set.
-- Shared writes per request: 0 between capabilities.
module Heddle.Http.Client.Pool
  ( -- * Shards
    Shard,
    PoolLimits (..),
    newShard,
    closeShard,
    shardCounts,

    -- * Connections
    Kept (..),
    Grant (..),
    acquireNow,
    acquireUntil,
    release,
    surrender,
    takeKept,

    -- * Ageing
    sweep,
  )
where

import Control.Monad (join)
import Data.Foldable qualified as Foldable
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.List (partition)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe, mapMaybe)
import Heddle.IO.WaitQueue (Waiter, awaitHandOff, handOff, newWaiter)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Clock (Deadline, never)
import Heddle.Timer (withCellUntil)

-- | A connection without a user.
data Kept c = Kept
  { keptConnection :: !c,
    -- | Until when it is kept.
    keptUntil :: !Deadline
  }

-- | What a thread got.
data Grant c
  = -- | A connection that was used before, and until when it would have been kept.
    Reuse !c !Deadline
  | -- | The right to open one.
    OpenNew
  | -- | The client is closed.
    PoolClosed

-- | Most connections.
data PoolLimits = PoolLimits
  { limitPerOrigin :: !Int,
    limitInAll :: !Int
  }

-- | The connections of one capability, to origins @o@.
data Shard o c = Shard
  { shardLimits :: !PoolLimits,
    shardClose :: !(o -> c -> IO ()),
    shardState :: !(Ref (State o c))
  }

data State o c = State
  { -- | Newest first; no list is empty.
    stateKept :: !(Map o [Kept c]),
    -- | Connections of each origin; no count is 0.
    stateOpen :: !(Map o Int),
    stateTotal :: !Int,
    -- | Who waits, by tickets in the order of arrival; no map is empty.
    stateWaiting :: !(Map o (IntMap (Waiter (Grant c)))),
    stateTicket :: !Int,
    stateClosed :: !Bool
  }

-- | A shard that closes connections to an origin with this action, which must not park.
newShard :: PoolLimits -> (o -> c -> IO ()) -> IO (Shard o c)
newShard limits closing = Shard limits closing <$> newRef (State Map.empty Map.empty 0 Map.empty 0 False)

-- | Connections unused, and all that are open or being opened.
shardCounts :: Shard o c -> IO (Int, Int)
shardCounts shard = do
  s <- readRef (shardState shard)
  pure (sum (map length (Map.elems (stateKept s))), stateTotal s)

-- | Decide and change the state at once, then act.
change :: Shard o c -> (State o c -> (State o c, IO a)) -> IO a
change shard decide = join (modifyRef (shardState shard) decide)
{-# INLINE change #-}

-- | Get a connection or a slot, if there is one.
--
-- [Blocks]: never.
-- [Masking]: the caller is masked.
acquireNow :: Ord o => Shard o c -> o -> IO (Maybe (Grant c))
acquireNow shard origin = change shard (tryNow shard origin)
{-# INLINEABLE acquireNow #-}

-- | Get a connection or a slot; 'Nothing' when none became free by the deadline.
--
-- [Blocks]: parks while the limits are reached.
-- [Masking]: the caller is masked; interruptible while parked, and then nothing is lost.
acquireUntil :: Ord o => Shard o c -> o -> Deadline -> IO (Maybe (Grant c))
acquireUntil shard origin deadline =
  acquireNow shard origin >>= \case
    Just grant -> pure (Just grant)
    Nothing -> withCellUntil deadline $ \cell -> do
      waiter <- newWaiter cell
      change shard $ \s -> case tryNow shard origin s of
        -- Something came free between the two looks.
        (s', act) | granted s -> (s', act)
        _ -> (enqueued waiter s, awaitHandOff waiter deadline (leave (stateTicket s)) (undo shard origin))
  where
    granted = available (shardLimits shard) origin
    enqueued waiter s =
      s
        { stateWaiting = Map.insertWith IntMap.union origin (IntMap.singleton (stateTicket s) waiter) (stateWaiting s),
          stateTicket = stateTicket s + 1
        }
    leave ticket = modifyRef (shardState shard) $ \s -> case Map.lookup origin (stateWaiting s) of
      Just waiting
        | IntMap.member ticket waiting -> (s {stateWaiting = putWaiting origin (IntMap.delete ticket waiting) (stateWaiting s)}, True)
      _ -> (s, False)

-- What was handed to a thread that is gone.
undo :: Ord o => Shard o c -> o -> Grant c -> IO ()
undo shard origin = \case
  Reuse c deadline -> release shard origin c deadline
  OpenNew -> surrender shard origin
  PoolClosed -> pure ()

putWaiting :: Ord o => o -> IntMap a -> Map o (IntMap a) -> Map o (IntMap a)
putWaiting origin waiting
  | IntMap.null waiting = Map.delete origin
  | otherwise = Map.insert origin waiting

-- Whether 'tryNow' will grant something.
available :: Ord o => PoolLimits -> o -> State o c -> Bool
available limits origin s =
  stateClosed s
    || Map.member origin (stateKept s)
    || (openOf origin s < limitPerOrigin limits && (stateTotal s < limitInAll limits || not (Map.null (stateKept s))))

openOf :: Ord o => o -> State o c -> Int
openOf origin = fromMaybe 0 . Map.lookup origin . stateOpen

tryNow :: Ord o => Shard o c -> o -> State o c -> (State o c, IO (Maybe (Grant c)))
tryNow shard origin s
  | stateClosed s = (s, pure (Just PoolClosed))
  | Just (kept : others) <- Map.lookup origin (stateKept s) =
    let !taken = s {stateKept = putKept origin others (stateKept s)} in (taken, pure (Just (Reuse (keptConnection kept) (keptUntil kept))))
  | not (available limits origin s) = (s, pure Nothing)
  | stateTotal s < limitInAll limits = (opened s, pure (Just OpenNew))
  -- Make room: the connection that would be closed first anyway.
  | Just (other, oldest, rest) <- oldestKept (stateKept s) =
    (opened (closedOne other s {stateKept = rest}), Just OpenNew <$ shardClose shard other (keptConnection oldest))
  | otherwise = (s, pure Nothing)
  where
    limits = shardLimits shard
    opened t = t {stateOpen = Map.insertWith (+) origin 1 (stateOpen t), stateTotal = stateTotal t + 1}
{-# INLINEABLE tryNow #-}

putKept :: Ord o => o -> [Kept c] -> Map o [Kept c] -> Map o [Kept c]
putKept origin kept
  | null kept = Map.delete origin
  | otherwise = Map.insert origin kept

closedOne :: Ord o => o -> State o c -> State o c
closedOne origin s =
  s
    { stateOpen = Map.update (\n -> if n <= 1 then Nothing else Just (n - 1)) origin (stateOpen s),
      stateTotal = stateTotal s - 1
    }

oldestKept :: Ord o => Map o [Kept c] -> Maybe (o, Kept c, Map o [Kept c])
oldestKept kept = case Foldable.foldl' earlier Nothing (Map.toList kept) of
  Nothing -> Nothing
  Just (origin, k) -> Just (origin, k, putKept origin (initOf (Map.findWithDefault [] origin kept)) kept)
  where
    -- The last of each list has been unused longest.
    earlier best (origin, ks) = case (best, reverse ks) of
      (_, []) -> best
      (Nothing, k : _) -> Just (origin, k)
      (Just (_, b), k : _) -> if keptUntil k < keptUntil b then Just (origin, k) else best
    initOf ks = take (length ks - 1) ks

-- | Return a connection that can be used again, until the deadline.
--
-- [Blocks]: never.
-- [Threads]: the connection's user, once, masked.
release :: Ord o => Shard o c -> o -> c -> Deadline -> IO ()
release shard origin c deadline = change shard $ \s ->
  if stateClosed s
    then (closedOne origin s, shardClose shard origin c)
    else case nextWaiter (shardLimits shard) origin s of
      Just (whose, waiter, s')
        | whose == origin -> (s', handOff waiter (Reuse c deadline))
        -- That thread needs a connection elsewhere, and only the total held it up.
        | otherwise -> (moved origin whose s', shardClose shard origin c >> handOff waiter OpenNew)
      Nothing ->
        let !returned = s {stateKept = Map.insertWith (++) origin [Kept c deadline] (stateKept s)} in (returned, pure ())
{-# INLINEABLE release #-}

-- | Return a slot: its connection is closed, or was never opened.
--
-- [Blocks]: never.
-- [Threads]: the slot's holder, once, masked.
surrender :: Ord o => Shard o c -> o -> IO ()
surrender shard origin = change shard $ \s ->
  if stateClosed s
    then (closedOne origin s, pure ())
    else case nextWaiter (shardLimits shard) origin s of
      Just (whose, waiter, s') -> (moved origin whose s', handOff waiter OpenNew)
      Nothing -> (closedOne origin s, pure ())

-- | Take an unused connection out of the shard, which counts it no more.
--
-- [Blocks]: never.
-- [Masking]: the caller is masked, and uses or closes the connection.
-- [Threads]: any.
takeKept :: Ord o => Shard o c -> o -> IO (Maybe c)
takeKept shard origin = do
  -- Most of the time there is none, which one load shows.
  before <- readRef (shardState shard)
  if Map.member origin (stateKept before)
    then change shard $ \s -> case Map.lookup origin (stateKept s) of
      -- Nobody waits for a slot of a shard that has an unused connection.
      Just (kept : others) -> (closedOne origin s {stateKept = putKept origin others (stateKept s)}, pure (Just (keptConnection kept)))
      _ -> (s, pure Nothing)
    else pure Nothing
{-# INLINEABLE takeKept #-}

-- A slot of one origin becomes one of another.
moved :: Ord o => o -> o -> State o c -> State o c
moved from to s
  | from == to = s
  | otherwise = let t = closedOne from s in t {stateOpen = Map.insertWith (+) to 1 (stateOpen t), stateTotal = stateTotal t + 1}

-- The thread that has waited longest, of those that a slot of this origin serves: the ones that wait for the
-- origin itself, and those whose own origin is below its limit.
nextWaiter :: Ord o => PoolLimits -> o -> State o c -> Maybe (o, Waiter (Grant c), State o c)
nextWaiter limits origin s
  | Map.null (stateWaiting s) = Nothing
  | otherwise = case Foldable.foldl' earlier Nothing (mapMaybe eligible (Map.toList (stateWaiting s))) of
    Nothing -> Nothing
    Just (whose, ticket, waiter, rest) ->
      ticket `seq` Just (whose, waiter, s {stateWaiting = putWaiting whose rest (stateWaiting s)})
  where
    eligible (whose, waiting)
      | whose == origin || openOf whose s < limitPerOrigin limits =
        (\((ticket, waiter), rest) -> (whose, ticket, waiter, rest)) <$> IntMap.minViewWithKey waiting
      | otherwise = Nothing
    earlier best@(Just (_, t, _, _)) this@(_, u, _, _) = if u < t then Just this else best
    earlier Nothing this = Just this

-- | Close what has been unused for too long: when the next connection will be, or 'never'.
--
-- [Cost]: O(connections unused).
-- [Blocks]: never.
-- [Masking]: the caller is masked.
sweep :: Ord o => Shard o c -> Deadline -> IO Deadline
sweep shard now = change shard $ \s ->
  let old = [(origin, k) | (origin, ks) <- Map.toList (stateKept s), k <- ks, keptUntil k <= now]
      young = Map.mapMaybe (\ks -> case partition ((<= now) . keptUntil) ks of (_, []) -> Nothing; (_, keep) -> Just keep) (stateKept s)
      next = minimum (never : [keptUntil k | ks <- Map.elems young, k <- ks])
   in if null old
        then (s, pure next)
        else
          ( Foldable.foldl' (\t (origin, _) -> closedOne origin t) s {stateKept = young} old,
            next <$ mapM_ (\(origin, k) -> shardClose shard origin (keptConnection k)) old
          )

-- | Close unused connections now and the others when they are returned; threads that wait get 'PoolClosed'.
--
-- [Blocks]: never.
closeShard :: Ord o => Shard o c -> IO ()
closeShard shard = change shard $ \s ->
  let kept = [(origin, k) | (origin, ks) <- Map.toList (stateKept s), k <- ks]
      waiters = concatMap IntMap.elems (Map.elems (stateWaiting s))
      s' = Foldable.foldl' (\t (origin, _) -> closedOne origin t) s {stateKept = Map.empty, stateWaiting = Map.empty, stateClosed = True} kept
   in ( s',
        do
          mapM_ (\(origin, k) -> shardClose shard origin (keptConnection k)) kept
          mapM_ (`handOff` PoolClosed) waiters
      )
