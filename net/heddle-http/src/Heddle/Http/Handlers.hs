-- |
-- Module      : Heddle.Http.Handlers
-- Description : What answers requests and hears of them
-- Stability   : stable
--
-- The functions that a server is given, one set for each capability.
--
-- Cost: values.
-- Owner: immutable; called by the threads of the connections.
module Heddle.Http.Handlers
  ( Handler,
    Handlers (..),
    handlersOf,

    -- * Logs
    LogHook,
    Logged (..),
  )
where

import Heddle.Http.Reply (Reply)
import Heddle.Http.Request (Request)
import Heddle.Http.Status (Status)

-- | Answers one request. With HTTP/2 it is interrupted, by an asynchronous exception of the engine's, when the
-- client resets its stream or goes away; with HTTP/1 its next read or write fails.
type Handler = Request -> IO Reply

-- | What serves the requests of one capability.
data Handlers = Handlers
  { handlersMain :: !Handler,
    -- | Asked first for a request of HTTP/2 without a body: a reply that is at hand, such as one from a
    -- cache, is sent by the connection's thread, and saves a thread for the request. It must neither wait
    -- nor run long, for it keeps the connection's other streams waiting. Only 'Heddle.Http.Ready' and 'Heddle.Http.Whole' are
    -- sent so; with 'Nothing' or another reply the main handler is asked.
    handlersAtOnce :: !(Maybe (Request -> IO (Maybe Reply))),
    handlersLog :: !(Maybe LogHook)
  }

-- | A handler alone.
handlersOf :: Handler -> Handlers
handlersOf handler = Handlers handler Nothing Nothing

-- | Called once per reply, after it was sent or given up: with the request, what it is,
-- the status and the bytes of content sent.
type LogHook = Request -> Logged -> Status -> Int -> IO ()

-- | What a log line describes.
data Logged
  = -- | A request that was parsed.
    LoggedRequest
  | -- | Bytes that were refused before a request was parsed; a log can show their beginning.
    LoggedGarbage
