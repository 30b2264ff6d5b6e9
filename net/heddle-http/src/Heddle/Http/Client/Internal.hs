{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Http.Client.Internal
-- Description : The parts of the client that work without a connection
-- Stability   : internal, exempt from the version policy
--
-- For this package's suites: the parser of responses on bytes in memory, the pool over anything, and widths of
-- anything.
--
-- Cost: see each function.
-- Owner: see each module.
module Heddle.Http.Client.Internal
  ( module Heddle.Http.Client.Answer,
    module Heddle.Http.Client.Pool,
    module Heddle.Http.Client.Width,
  )
where

import Heddle.Http.Client.Answer
import Heddle.Http.Client.Pool
import Heddle.Http.Client.Width
