-- |
-- Module      : Heddle.IO.Internal.Evict
-- Description : Close the connection that has been idle longest
-- Stability   : internal, exempt from the version policy
--
-- When descriptors run out, or a service has reached its limit of connections, idle clients
-- must not make new ones wait until an idle time is over. So the connection that has been idle
-- longest is closed for a new one.
--
-- A connection with unread input is not idle. A new connection that has sent nothing may be
-- closed after 10 ms, but it counts as idle only from one second after it was accepted: closing
-- it costs its client a request, and closing one that was answered costs only a connection.
--
-- One scan of all registrations finds the 64 that have been idle longest. They are closed one
-- by one as needed, except those that have become busy meanwhile.
--
-- Cost: O(registrations) for each 64 connections closed; nothing until then.
-- Owner: each accepting thread has its own candidates; a connection is claimed by
-- compare-and-set.
module Heddle.IO.Internal.Evict
  ( Candidates,
    newCandidates,
    closeLongestIdle,
  )
where

import Control.Monad (foldM)
import Data.Bits ((.&.))
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.IO.Internal.Registration (closeRegistration, using)
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Poller (eventIn, pollOne)
import Heddle.Prim.Thread (forkMaskedOn)

-- | Connections that were idle at the last scan, with the time since when, longest first.
newtype Candidates = Candidates (Ref [(Int, Registration)])

-- | No candidates, so the first use scans.
newCandidates :: IO Candidates
newCandidates = Candidates <$> newRef []

-- | Close the connection of any service of the runtime that has been idle longest; 'False'
-- if none is idle. Its descriptor is free, and it is not counted any more, on return.
--
-- [Cost]: O(registrations) once in 64 times.
-- [Blocks]: never.
-- [Threads]: one for the same candidates.
closeLongestIdle :: Runtime -> Candidates -> IO Bool
closeLongestIdle runtime (Candidates ref) = do
  closed <- readRef ref >>= first
  if closed then pure True else look runtime >>= first
  where
    first [] = False <$ writeRef ref []
    first ((since, registration) : rest) = do
      now <- idleSince registration
      spoken <- using registration (`pollOne` eventIn)
      claimed <- if now == since && spoken == 0 then evict registration else pure False
      if claimed then True <$ writeRef ref rest else first rest

-- The thread that changes the word from 1 or 2 runs the registration. At 3, the connection has
-- been closed and subtracted from the count.
evict :: Registration -> IO Bool
evict registration = do
  state <- atomicRead ws RegistrationDetached
  claimed <- if state == 1 || state == 2 then compareAndSet ws RegistrationDetached state 3 else pure False
  case registrationKind registration of
    Served _ gone _ | claimed -> do
      _ <- closeRegistration registration
      gone
      -- Its handler is called once more, by the thread that keeps it or by a new one.
      if state == 1
        then True <$ forkMaskedOn (managerCapability (registrationManager registration)) (\_ -> registrationResume registration registration)
        else pure True
    _ -> pure False
  where
    ws = registrationWords registration

-- When the connection was last useful, or else when it was accepted. A thread that wakes only
-- because its second is over changes neither time.
idleSince :: Registration -> IO Int
idleSince registration = do
  active <- readWord (registrationWords registration) RegistrationLastActive
  if active /= 0 then pure active else readWord (registrationWords registration) RegistrationAccepted

most :: Int
most = 64

-- How long a new connection may be silent before it may be closed, in nanoseconds: most clients' first bytes come within that. It
-- must be short. Clients that connect and stay silent would otherwise have all descriptors for as long, and the others wait behind them.
grace :: Int
grace = 10000000

-- By how much a new connection counts as idle later than it was accepted, in nanoseconds. A busy client's first bytes, or lost and
-- repeated ones, come within that.
credit :: Int
credit = 1000000000

look :: Runtime -> IO [(Int, Registration)]
look runtime = do
  Deadline now <- monotonicNow
  found <- foldM (manager now) Map.empty (map (managerOn runtime) [0 .. capabilitiesOf runtime - 1])
  pure (Map.elems found)
  where
    manager now found m = do
      table <- readRef (managerRegistrations m)
      foldM (\best i -> readEntry table i >>= consider now best) found [1 .. tableSize table - 1]

consider :: Int -> Map (Int, Int, Int) (Int, Registration) -> Registration -> IO (Map (Int, Int, Int) (Int, Registration))
consider now best registration = case registrationKind registration of
  Served {} -> do
    detached <- readWord ws RegistrationDetached
    closing <- (.&. Closing) <$> readWord ws RegistrationState
    since <- idleSince registration
    active <- readWord ws RegistrationLastActive
    let order = if active == 0 then since + credit else since
        key = (order, managerCapability (registrationManager registration), registrationIndex registration)
    pure $ case () of
      _
        | closing /= 0 || (detached /= 1 && detached /= 2) -> best
        | active == 0 && now - since < grace -> best
        | Map.size best < most -> Map.insert key (since, registration) best
        | fmap fst (Map.lookupMax best) > Just key -> Map.insert key (since, registration) (Map.deleteMax best)
        | otherwise -> best
  _ -> pure best
  where
    ws = registrationWords registration
