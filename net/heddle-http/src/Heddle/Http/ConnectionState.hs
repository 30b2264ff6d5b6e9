-- |
-- Module      : Heddle.Http.ConnectionState
-- Description : What a connection has while it has work, and what may come of it
-- Stability   : internal, exempt from the version policy
--
-- Cost: values.
-- Owner: the connection's thread.
module Heddle.Http.ConnectionState
  ( ConnectionState (..),
    stateConn,
    settingsOf,
    Outcome (..),
    Rest (..),
    Sent (..),
  )
where

import Data.ByteString (ByteString)
import Data.Int (Int64)
import Heddle.Http.Context
import Heddle.Http.FailedRequest (FailedRequest)
import Heddle.Http.Output (Output)
import Heddle.Http.Reply (Reply)
import Heddle.Http.Settings (Settings)
import Heddle.Http.Status (Status)
import Heddle.Http.Workspace
import Heddle.IO.Registration (Registration)
import Heddle.IO.Transport
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (SomeException)
import System.Posix.Types (Fd)

-- | What to do after giving the workspace back.
data Outcome
  = -- | Close.
    Over
  | -- | Nothing until something comes, at most until then.
    Idle !Deadline
  | -- | The same, with the beginning of a head.
    Unfinished !Partial !Deadline
  | -- | The same, with a reply that is sent when the rest of the request's body has been discarded. The number is how many bytes still may be.
    Discarding !Suspended !Reply !Int !Deadline
  | -- | Send the rest of a reply, which needs no workspace.
    Sending !Suspended !Rest
  | -- | Nothing until something comes, until the client closes. The number is how many bytes were dropped.
    Lingering !Int !Deadline
  | -- | Run this, which needs no workspace, then close. The request is the one to name if it fails.
    Elsewhere !FailedRequest !(IO ())
  | -- | Speak HTTP/2 from here on; this was received.
    Preface !ByteString

-- | A part of a file with which a reply ends.
data Rest = Rest
  { -- | The reply's status, and what releases it; not the reply, which would keep what was sent of it.
    restStatus :: !Status,
    restRelease :: !(IO ()),
    restFile :: !Fd,
    restOffset :: !Int64,
    restCount :: !Int,
    restCloses :: !Bool,
    -- | Whether the request's body leaves the connection as it must be for another request.
    restKept :: !Bool
  }

-- | What a connection has while it has work.
data ConnectionState = ConnectionState
  { stateContext :: !Context,
    stateTransport :: !Transport,
    stateWork :: !Workspace,
    stateOutput :: !Output
  }

stateConn :: ConnectionState -> Registration
stateConn = transportRegistration . stateTransport
{-# INLINE stateConn #-}

settingsOf :: ConnectionState -> Settings
settingsOf = contextSettings . stateContext
{-# INLINE settingsOf #-}

-- | How sending a reply went.
data Sent
  = -- | All of it was sent, or gathered; the flag says whether the connection can be kept.
    Answered !Bool
  | -- | The client does not take the rest at once.
    Slow !Suspended !Rest
  | Failed !SomeException
