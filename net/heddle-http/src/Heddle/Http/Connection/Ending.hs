{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_GHC -fmax-worker-args=3 #-}

-- For the option see "Heddle.Http.Connection".

-- |
-- Module      : Heddle.Http.Connection.Ending
-- Description : Refusals, and the end of a connection
-- Stability   : internal, exempt from the version policy
--
-- Cost: a reply, and what the client still sends.
-- Owner: the connection's thread.
module Heddle.Http.Connection.Ending
  ( reject,
    refuse,
    bodyFailed,
    beginsWithHead,
    linger,
    lingerOn,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Http.Connection.Inside
import Heddle.Http.ConnectionState
import Heddle.Http.Handlers
import Heddle.Http.Names (MethodCode, pattern MethodGet, pattern MethodHead)
import Heddle.Http.Output
import Heddle.Http.RejectReason
import Heddle.Http.Reply
import Heddle.Http.Request
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (deadlineOver, forgetHangUp)
import Heddle.IO.Transport
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)

-- | Refuse for a reason of the parsers.
reject :: ConnectionState -> Logged -> Status -> RejectReason -> IO Outcome
reject state what status reason = refuse state what status (rejectText reason)

-- | Answer an error and close, so that nothing after it can be taken for a request.
refuse :: ConnectionState -> Logged -> Status -> ByteString -> IO Outcome
refuse state what status text = do
  now <- monotonicNow
  code <- case what of
    LoggedRequest -> method request0
    LoggedGarbage -> beginsWithHead (stateWork state)
  set (stateWork state) WorkSent 0
  _ <- sendReply (stateOutput state) now False code 1 Closes (plain status text)
  logged state (requestAt state now) what status
  linger state
  where
    request0 = requestAt state (Deadline 0)

-- | The head was refused before its method was stored. The answer to HEAD must have no content
-- even so, or a client would take the content for the next answer.
beginsWithHead :: Workspace -> IO MethodCode
beginsWithHead ws = do
  base <- get ws WorkBase
  end <- get ws WorkEnd
  bytes <- B.packCStringLen (castPtr (inputPtr ws `plusPtr` base), min 7 (end - base))
  pure (if any (`B.isPrefixOf` bytes) ["HEAD ", "\r\nHEAD "] then MethodHead else MethodGet)

-- | Closing while the client still sends makes the kernel answer with a reset, which may
-- destroy the reply on its way. So shut down the sending side, read on for at most two
-- seconds or 256 KB, then close.
linger :: ConnectionState -> IO Outcome
linger state = do
  flush (stateOutput state)
  _ <- endWriting (stateTransport state)
  deadline <- deadlineIn (seconds 2)
  lingerOn deadline 0 state

-- | The same, until then, when this much was dropped already.
lingerOn :: Deadline -> Int -> ConnectionState -> IO Outcome
lingerOn deadline dropped state
  | dropped > 262144 = pure Over
  | otherwise = do
    n <- readNow (stateTransport state) (inputPtr ws) (inputSize ws)
    if n > 0 then lingerOn deadline (dropped + n) state else nothing n
  where
    ws = stateWork state
    nothing n
      | Errno (negate n) == EINTR = lingerOn deadline dropped state
      | n < 0 && Errno (negate n) == EAGAIN = do
        forgetHangUp (stateConn state)
        late <- deadlineOver (stateConn state) deadline
        pure (if late then Over else Lingering dropped deadline)
      | otherwise = pure Over

-- | The reply has not begun, so the answer can say what was wrong with the body.
bodyFailed :: ConnectionState -> BodyError -> IO Outcome
bodyFailed state = \case
  BodyRejected status reason -> reject state LoggedRequest status reason
  BodyTooSlow -> refuse state LoggedRequest status408 "The request's body did not arrive in time."
  BodyCutShort -> pure Over
