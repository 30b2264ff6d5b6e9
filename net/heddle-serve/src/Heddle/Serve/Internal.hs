{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Serve.Internal
-- Description : The parts of the server
-- Stability   : internal, exempt from the version policy
--
-- For this package's suite, which runs the handler and the log on a server of its own.
--
-- Cost: see each function.
-- Owner: see each module.
module Heddle.Serve.Internal
  ( module Heddle.Serve.AccessLog,
    module Heddle.Serve.Behind,
    module Heddle.Serve.DescriptorReserve,
    module Heddle.Serve.FileCache,
    module Heddle.Serve.FileReply,
    module Heddle.Serve.Listen,
    module Heddle.Serve.LogLine,
    module Heddle.Serve.Mime,
    module Heddle.Serve.Root,
    module Heddle.Serve.Routes,
    module Heddle.Serve.Static,
  )
where

import Heddle.Serve.AccessLog
import Heddle.Serve.Behind
import Heddle.Serve.DescriptorReserve
import Heddle.Serve.FileCache
import Heddle.Serve.FileReply
import Heddle.Serve.Listen
import Heddle.Serve.LogLine
import Heddle.Serve.Mime
import Heddle.Serve.Root
import Heddle.Serve.Routes
import Heddle.Serve.Static
