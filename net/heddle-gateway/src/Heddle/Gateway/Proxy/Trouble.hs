{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Trouble
-- Description : What a failure of the client means for a proxy
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- Which status the failure is answered with, whether the request may be given to another upstream, and whether the upstream is to blame.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Gateway.Proxy.Trouble
  ( Trouble (..),
    troubleOf,
  )
where

import Heddle.Gateway.Failure (Failure)
import Heddle.Gateway.Failure qualified as Gateway
import Heddle.Http.Client (Stage (..), describeFault)
import Heddle.Http.Client qualified as Client
import Heddle.IO (ConnectError (..))
import Heddle.Prim.Errno (describeErrno, pattern EADDRNOTAVAIL, pattern EMFILE, pattern ENFILE, pattern ENOBUFS, pattern ENOMEM)

-- | A failure, judged.
data Trouble = Trouble
  { troubleFailure :: !Failure,
    -- | Nothing of the request can have reached the upstream.
    troubleUnsent :: !Bool,
    -- | The upstream has ended the connection without a byte of an answer.
    troubleUnheard :: !Bool,
    -- | It speaks against the upstream.
    troubleSuspicious :: !Bool,
    -- | The client has gone.
    troubleGone :: !Bool,
    -- | What Retry-After says.
    --
    -- [Units]: seconds.
    troubleRetryAfter :: !Int
  }

-- | Judge a failure.
--
-- [Cost]: None.
troubleOf :: Client.Failure -> Trouble
troubleOf = \case
  Client.NotResolved why -> unreachable why
  -- This process has no descriptors, ports or memory left, which says nothing about the upstream.
  Client.NotConnected errors | any isOurs errors -> judged Gateway.TooBusy True False False
  Client.NotConnected errors -> unreachable (show (length errors) ++ " addresses")
  Client.NotSecured why -> unreachable why
  Client.ProxyRefused code -> unreachable ("a proxy answered with status " ++ show code)
  Client.NoConnectionFree -> judged Gateway.TooBusy True False False
  Client.ClientClosed -> judged Gateway.TooBusy False False False
  Client.TooSlow stage -> judged Gateway.TooLate (stage < SendingRequest) False True
  Client.Ended stage -> lost stage Gateway.EndedEarly
  Client.Broken stage e
    | stage < SendingRequest -> unreachable (describeErrno e)
    | otherwise -> lost stage Gateway.EndedEarly
  Client.BadAnswer fault -> judged (Gateway.BadAnswer (describeFault fault)) False False True
  Client.GivenUp -> (judged Gateway.EndedEarly False False False) {troubleGone = True}
  other -> judged (Gateway.BadAnswer (show other)) False False False
  where
    isOurs = \case
      ConnectFailed _ e -> e `elem` [EMFILE, ENFILE, EADDRNOTAVAIL, ENOMEM, ENOBUFS]
      ConnectTimedOut _ -> False
    unreachable why = judged (Gateway.Unreachable why) True False True
    lost stage failure = judged failure (stage < SendingRequest) (stage == SendingRequest || stage == AwaitingAnswer) True
    judged failure unsent unheard suspicious = Trouble failure unsent unheard suspicious False 1
