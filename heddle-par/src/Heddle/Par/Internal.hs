{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Par.Internal
-- Description : For Heddle's own packages
-- Stability   : internal
--
-- What the packages above heddle-par are built with. Exempt from the version policy.
--
-- Cost: as said at each.
-- Owner: see "Heddle.Par".
module Heddle.Par.Internal
  ( forkStolen,
    workerIndex,
  )
where

import Heddle.Par.Internal.Monad (forkStolen, workerIndex)
