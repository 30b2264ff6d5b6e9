{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Settings
-- Description : Limits, deadlines and hooks of a server
-- Stability   : stable
--
-- Start from 'defaultSettings' and change fields.
--
-- Cost: read per request.
-- Owner: immutable.
module Heddle.Http.Settings
  ( Settings (..),
    Pace (..),
    OnClearText (..),
    defaultSettings,
    boundedLimits,
    paceDeadline,
    paceKept,
  )
where

import Data.ByteString (ByteString)
import Heddle.Http.FailedRequest
import Heddle.Http.H2.Limits (Http2Limits, defaultHttp2Limits)
import Heddle.Http.Parse (Limits (..), defaultLimits)
import Heddle.Http.Status (Status, status400)
import Heddle.IO.Registration (Registration)
import Heddle.IO.Service (Shortage, describeShortage)
import Heddle.Prim.Clock (Deadline, Nanos (..), after, seconds)
import Heddle.Prim.Errno (Errno, describeErrno)
import Heddle.Prim.Exception (SomeException, describeException)
import Heddle.Prim.Message (putErrorLine)

-- | The least rate of a transfer, measured after a grace period.
data Pace = Pace
  { paceGrace :: !Nanos,
    -- | Bytes per second.
    paceRate :: !Int
  }
  deriving stock (Eq, Show)

-- | What a client that speaks HTTP where TLS is spoken gets.
data OnClearText
  = -- | This status and text, and the end of the connection.
    RefuseClearText !Status !ByteString
  | -- | What it asks for.
    ServeClearText
  deriving stock (Eq, Show)

-- | How a server treats its clients.
data Settings = Settings
  { -- | Sizes.
    settingLimits :: !Limits,
    -- | The Server header; empty for none.
    settingServerName :: !ByteString,
    -- | The value of the Strict-Transport-Security header of all replies over TLS, such as
    -- @max-age=31536000@; empty for none.
    settingStrictTransport :: !ByteString,
    -- | On listeners with TLS.
    settingOnClearText :: !OnClearText,
    -- | How long a kept connection may be silent between requests.
    settingIdle :: !Nanos,
    -- | How long a request's head may take from its first byte on, and a new connection's
    -- first byte.
    settingHead :: !Nanos,
    -- | How slowly a body may come.
    settingBodyPace :: !Pace,
    -- | How slowly a client may take a reply.
    settingReplyPace :: !Pace,
    -- | How much of a body that the handler left unread is read and dropped to keep the
    -- connection.
    settingDiscard :: !Int,
    -- | How long idle connections are still answered after a drain began.
    settingGrace :: !Nanos,
    -- | Called with the exception of a handler and the request that it has failed, or without one for an exception of the
    -- connection itself. A client that goes away, or whose body is faulty, is not a failure.
    settingFailed :: !(Maybe FailedRequest -> SomeException -> IO ()),
    -- | Called at most once a minute when accepting pauses because descriptors have run out
    -- and no connection is idle.
    settingPaused :: !(Errno -> IO ()),
    -- | Whether HTTP/2 is spoken with clients that begin with its preface. Where TLS has agreed on @h2@ it
    -- is spoken in any case, so TLS must not offer it if it is not wanted.
    settingHttp2 :: !Bool,
    -- | Limits of HTTP/2 connections.
    settingHttp2Limits :: !Http2Limits,
    -- | How many connections may be open at once; 'Nothing' for as many as there are
    -- descriptors. Then the one that has been idle longest is closed for a new one.
    settingConnections :: !(Maybe Int),
    -- | Called at most once a minute when idle connections are closed to make room.
    settingCrowded :: !(Shortage -> IO ()),
    -- | Called when a connection begins, in its thread and masked: when its first byte has come, or
    -- has not come in time. 'Nothing' closes the connection; otherwise the action is called
    -- once when the connection has closed, whatever closed it. Without a hook nothing is kept.
    settingOpened :: !(Maybe (Registration -> IO (Maybe (IO ()))))
  }

-- | 60 s idle, 10 s for a head, bodies at least 240 B/s after 10 s and replies after 30 s,
-- 64 KB discarded, 1 s of grace; failures and pauses are lines on standard error.
defaultSettings :: Settings
defaultSettings =
  Settings
    { settingLimits = defaultLimits,
      settingServerName = "heddle",
      settingStrictTransport = "",
      settingOnClearText = RefuseClearText status400 "This port speaks HTTPS; begin the address with https://.",
      settingIdle = seconds 60,
      settingHead = seconds 10,
      settingBodyPace = Pace (seconds 10) 240,
      settingReplyPace = Pace (seconds 30) 240,
      settingDiscard = 65536,
      settingGrace = seconds 1,
      settingFailed = \request e -> putErrorLine ("heddle-http: " ++ maybe "a connection failed: " (\r -> "a request failed: " ++ describeFailedRequest r ++ ": ") request ++ describeException e),
      settingPaused = \e -> putErrorLine ("heddle-http: accepting pauses: " ++ describeErrno e ++ ", and no connection is idle; raise the limit of open files (ulimit -n)"),
      settingHttp2 = True,
      settingHttp2Limits = defaultHttp2Limits,
      settingConnections = Nothing,
      settingCrowded = \shortage -> putErrorLine ("heddle-http: " ++ describeShortage shortage),
      settingOpened = Nothing
    }

-- | The limits that are kept: memory for a whole head of 16 MB, 60,000 header lines, and other sizes without overflow. More than
-- that is meant as "no limit".
--
-- [Cost]: once for each capability.
boundedLimits :: Limits -> Limits
boundedLimits limits =
  Limits
    { limitTarget = upTo 0x1000000 limitTarget,
      limitHeadBytes = upTo 0x1000000 limitHeadBytes,
      limitHeaders = upTo 60000 limitHeaders,
      limitBody = upTo unlimited limitBody,
      limitTrailers = upTo 0x1000000 limitTrailers,
      limitChunkExtensions = upTo unlimited limitChunkExtensions
    }
  where
    upTo most limit = max 0 (min most (limit limits))
    unlimited = maxBound `quot` 2

-- | @paceDeadline pace began moved@ is the time by which a window of a transfer must move
-- further bytes. It is at most twice the grace period after the window began, so that a fast
-- start does not excuse a long stall.
--
-- [Cost]: arithmetic: a slow client costs one store per attempt.
paceDeadline :: Pace -> Deadline -> Int -> Deadline
paceDeadline (Pace grace rate) began moved = after (grace <> min grace earned) began
  where
    earned
      | moved >= rate * 1000000 = grace
      | otherwise = Nanos (moved * 1000000000 `quot` max 1 rate)

-- | Whether a new window may begin: the current one is longer than the grace period, and the
-- rate was kept in it.
paceKept :: Pace -> Deadline -> Int -> Deadline -> Bool
paceKept (Pace grace rate) began moved now =
  now > after grace began && number moved * 1e9 >= number rate * number (nanosCount grace)
  where
    -- In floating point no setting can overflow.
    number n = fromIntegral n :: Double
