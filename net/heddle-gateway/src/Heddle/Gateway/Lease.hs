-- |
-- Module      : Heddle.Gateway.Lease
-- Description : Something borrowed that is given back once, or aborted by another thread
-- Stability   : hidden; the gateways use it
--
-- A program's connection is returned as soon as its answer has come, while a thread that watches the client may still abort the
-- request. Whichever comes first decides: what was returned may be another request's by now, and is not aborted.
--
-- Cost: one compare-and-set each.
-- Owner: the request's threads.
module Heddle.Gateway.Lease
  ( Lease,
    newLease,
    abortLease,
    settleLease,
    isSettled,
    once,
  )
where

import Control.Monad (unless, when)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Exception (mask_)

-- | What has become of it.
newtype Lease = Lease (Ref Use)

-- Held -> Aborted -> Settled, or Held -> Settled.
data Use = Held | Aborted | Settled
  deriving stock (Eq)

-- | A lease of what the caller holds.
newLease :: IO Lease
newLease = Lease <$> newRef Held

-- | Run the action unless this was called before, or the lease is settled.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: as the action does.
-- [Threads]: any.
abortLease :: Lease -> IO () -> IO ()
abortLease (Lease use) act = mask_ $ do
  before <- modifyRef use (\now -> (if now == Held then Aborted else now, now))
  when (before == Held) act

-- | Run the action, which is told whether the lease was aborted, unless this was called before.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: as the action does.
-- [Masking]: the action runs masked.
-- [Threads]: any.
settleLease :: Lease -> (Bool -> IO ()) -> IO ()
settleLease (Lease use) act = mask_ $ do
  before <- modifyRef use (\now -> (Settled, now))
  unless (before == Settled) (act (before == Aborted))

-- | Whether 'settleLease' was called.
--
-- [Cost]: one read.
isSettled :: Lease -> IO Bool
isSettled (Lease use) = (== Settled) <$> readRef use

-- | An action that runs at its first call only.
--
-- [Cost]: one compare-and-set each time.
-- [Threads]: any.
once :: IO () -> IO (IO ())
once act = (\lease -> settleLease lease (const act)) <$> newLease
