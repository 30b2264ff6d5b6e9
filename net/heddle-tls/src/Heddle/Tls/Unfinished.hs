-- |
-- Module      : Heddle.Tls.Unfinished
-- Description : A bound on handshakes that are not over
-- Stability   : hidden
--
-- A client that begins handshakes and leaves them costs 47 KB each until the deadline. So the handshakes of a capability
-- are counted, and when there are too many, the oldest is closed: an honest client needs a round trip, and is rarely the
-- oldest.
--
-- Invariant: who removes an entry decides, by one compare-and-set: the opening itself, which then stands, or another
-- opening, which then closes it.
-- Cost: 0.2 microseconds for each handshake.
-- Owner: the listener; any thread may begin and finish.
module Heddle.Tls.Unfinished
  ( Unfinished,
    newUnfinished,
    beginHandshake,
    finishHandshake,
    closedHandshakes,
  )
where

import Control.Monad (void)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.IO.Registration (Registration, closeRegistration, registrationCapability)
import Heddle.Prim.Atomic
import Heddle.Prim.Thread (getCapabilities)

-- | The handshakes of a listener, by capability, and how many were closed.
data Unfinished = Unfinished !(Table (Ref Running)) !Words

-- The next number, how many there are (the map does not know), and the handshakes by their numbers, which are in the order in
-- which they began.
data Running = Running !Int !Int !(IntMap Registration)

-- | None.
newUnfinished :: IO Unfinished
newUnfinished = do
  n <- getCapabilities
  entries <- make >>= newTable n
  mapM_ (\i -> make >>= writeEntry entries i) [1 .. n - 1]
  Unfinished entries <$> newWords 1
  where
    make = newRef (Running 0 0 IntMap.empty)

-- Capabilities that were added later share with others.
entryOf :: Unfinished -> Registration -> IO (Ref Running)
entryOf (Unfinished entries _) registration = readEntry entries (registrationCapability registration `rem` tableSize entries)

-- | A handshake begins: its number. If there are more than the limit now, the oldest are closed.
--
-- [Cost]: O(log n); a system call for each that is closed.
-- [Blocks]: never.
beginHandshake :: Unfinished -> Int -> Registration -> IO Int
beginHandshake unfinished@(Unfinished _ closed) limit registration = do
  ref <- entryOf unfinished registration
  (key, oldest) <- modifyRef ref $ \(Running next count running) ->
    let (rest, dropped) = dropOldest (count + 1 - limit) (IntMap.insert next registration running)
     in (Running (next + 1) (count + 1 - length dropped) rest, (next, dropped))
  for_ oldest $ \one -> do
    _ <- fetchAdd closed 0 1
    void (closeRegistration one)
  pure key

dropOldest :: Int -> IntMap a -> (IntMap a, [a])
dropOldest n running
  | n <= 0 = (running, [])
  | otherwise = case IntMap.minView running of
    Nothing -> (running, [])
    Just (oldest, rest) -> (oldest :) <$> dropOldest (n - 1) rest

-- | A handshake is over, however it ended: 'False' if it has been closed meanwhile.
--
-- [Cost]: O(log n).
-- [Blocks]: never.
finishHandshake :: Unfinished -> Registration -> Int -> IO Bool
finishHandshake unfinished registration key = do
  ref <- entryOf unfinished registration
  modifyRef ref $ \old@(Running next count running) ->
    if IntMap.member key running
      then (Running next (count - 1) (IntMap.delete key running), True)
      else (old, False)

-- | How many were closed.
--
-- [Cost]: one read.
closedHandshakes :: Unfinished -> IO Int
closedHandshakes (Unfinished _ closed) = readWord closed 0
