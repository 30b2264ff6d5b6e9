{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Asking
-- Description : A request's turn with a program, and the answer whatever comes of it
-- Stability   : hidden; the gateways of CGI, FastCGI and SCGI use it
--
-- Each of those gateways bounds how many requests its programs have at once. A request waits for a slot, is passed to a
-- program, and its answer is the program's, a refusal, or that of the path that the program names.
--
-- Invariant: a slot that was taken is released once: the exchange has the action for it, which does nothing when it runs
-- again.
-- Cost: two compare-and-sets for each request.
-- Owner: the handler's thread.
module Heddle.Gateway.Asking
  ( Asking (..),
    askProgram,
    LocalRedirects,
    redirectClients,
  )
where

import Data.ByteString (ByteString)
import Heddle.Gateway.Content
import Heddle.Gateway.Environment
import Heddle.Gateway.Failure
import Heddle.Gateway.Lease
import Heddle.Gateway.Place
import Heddle.Gateway.Relay
import Heddle.Gateway.Slots
import Heddle.Http
import Heddle.Prim.Clock
import Heddle.Prim.Exception

-- | What to do when a program names another path of this server (RFC 3875, section 6.2.2): where the request was, the new
-- path and query, the request.
type LocalRedirects = Place -> ByteString -> Handler

-- | Let the client ask for the other path itself.
redirectClients :: LocalRedirects
redirectClients _ path _ = pure (Whole status302 [Header "Location" path] "")

-- | Programs that are asked.
data Asking = Asking
  { -- | For the log.
    askingName :: !String,
    -- | How many requests they have at once, and how long others wait.
    askingSlots :: !Slots,
    askingWait :: !Nanos,
    -- | Hears of what goes wrong.
    askingTell :: !(String -> IO ()),
    askingElsewhere :: !LocalRedirects
  }

-- | Answer a request for a script by an exchange with a program. The exchange gets the action that restores the caller's
-- masking, the one that releases the slot, the request's content and its variables. It releases the slot, at once or when
-- the program has ended; when it throws, it has released it or will.
--
-- [Cost]: two compare-and-sets besides the exchange and the variables.
-- [Blocks]: parks while no slot is free, and as the exchange does.
-- [Masking]: the exchange runs masked.
-- [Throws]: as 'withContent' and the exchange do.
askProgram :: Asking -> Place -> Request -> Script -> ((IO Relayed -> IO Relayed) -> IO () -> Content -> Variables -> IO Relayed) -> IO Reply
askProgram asking place request script exchange = withContent request place asked >>= either refused id
  where
    asked content = mask $ \restore -> do
      variables <- variablesOf request place content script
      waiting <- deadlineIn (askingWait asking)
      granted <- acquireSlotUntil (askingSlots asking) waiting
      if not granted
        then pure (refused TooBusy)
        else do
          free <- once (releaseSlot (askingSlots asking))
          relayed <- exchange restore free content variables
          pure $ case relayed of
            Answered reply -> pure reply
            NotAnswered failure -> refused failure
            Elsewhere path
              | placeHops place >= 10 -> refused (BadAnswer "it redirects in circles")
              | otherwise -> askingElsewhere asking place path request
    refused failure = do
      noteStatus request (failureStatus failure)
      askingTell asking (askingName asking ++ " " ++ describeFailure failure)
      pure (refusal failure)
