{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Rendezvous.Internal
-- Description : Random schedules, for tests
-- Stability   : internal, exempt from the version policy
--
-- Runs whose schedule is random, to test that the result does not depend on it.
--
-- Cost: every operation takes the long way, with a lock.
-- Owner: see "Heddle.Rendezvous".
module Heddle.Rendezvous.Internal
  ( runDetSeeded,
    runDetIOSeeded,
  )
where

import Heddle.Rendezvous.Internal.Run (runDetIOSeeded, runDetSeeded)
