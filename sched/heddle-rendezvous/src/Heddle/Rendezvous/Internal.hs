{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Rendezvous.Internal
-- Description : Random schedules, for tests
-- Stability   : internal
--
-- Runs whose schedule is random, to see that it does not matter. Exempt from the version
-- policy.
--
-- Cost: every operation takes the long way, with a lock.
-- Owner: see "Heddle.Rendezvous".
module Heddle.Rendezvous.Internal
  ( runDetSeeded,
    runDetIOSeeded,
  )
where

import Heddle.Rendezvous.Internal.Run (runDetIOSeeded, runDetSeeded)
