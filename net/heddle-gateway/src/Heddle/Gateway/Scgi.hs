{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Scgi
-- Description : Requests to applications that speak SCGI
-- Stability   : stable
--
-- SCGI is CGI over a connection: the variables in one netstring, then the body; the answer, up to the connection's end.
-- So connections are not kept. The protocol wants the body's length first: a body without a length is received before the
-- application is asked.
--
-- Cost: a connection for each request; four system calls besides the client's.
-- Owner: 'withScgi'.
-- [Source]: SCGI: A Simple Common Gateway Interface alternative, revision of 2008.
module Heddle.Gateway.Scgi
  ( ScgiSettings (..),
    defaultScgiSettings,
    withScgi,
    Scgi,
    scgiGateway,
    scgiConnectionsUsed,
    scgiRequestsWaiting,
    scgiServers,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Answer
import Heddle.Gateway.Asking
import Heddle.Gateway.Attend (Attendances, withAttendances)
import Heddle.Gateway.Backlog
import Heddle.Gateway.Environment
import Heddle.Gateway.Failure
import Heddle.Gateway.Place
import Heddle.Gateway.Relay
import Heddle.Gateway.Slots
import Heddle.Gateway.Upstreams
import Heddle.Http.Borrowed (noteForLog)
import Heddle.IO (Runtime)
import Heddle.IO.Registration
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Network.Socket (SockAddr)

-- | Applications and bounds.
data ScgiSettings = ScgiSettings
  { -- | Where they listen; requests go to them in turn.
    scgiAddresses :: ![SockAddr],
    -- | The directory that paths are files of, without a slash at its end.
    scgiRoot :: !ByteString,
    -- | More variables. They count less than the request's.
    scgiVariables :: !Variables,
    -- | Connections at once; requests that wait for one, and for how long.
    scgiConnections :: !Int,
    scgiQueue :: !Int,
    scgiWait :: !Nanos,
    scgiConnect :: !Nanos,
    -- | How long an application may be silent while its client is, too.
    scgiSilence :: !Nanos,
    scgiLimits :: !AnswerLimits,
    -- | How much of an answer is taken from the application when its client does not take it, so that a slow client does not occupy a
    -- connection. All answers may have 64 times as much.
    --
    -- [Units]: bytes.
    scgiBuffer :: !Int,
    -- | Hears of what goes wrong.
    scgiTell :: !(String -> IO ()),
    scgiElsewhere :: !LocalRedirects
  }

-- | 64 connections and 256 waiting requests, for 10 seconds each; 5 seconds to connect; a minute of silence; 1 MB of an
-- answer for a slow client.
defaultScgiSettings :: [SockAddr] -> ByteString -> ScgiSettings
defaultScgiSettings addresses root =
  ScgiSettings
    { scgiAddresses = addresses,
      scgiRoot = root,
      scgiVariables = [],
      scgiConnections = 64,
      scgiQueue = 256,
      scgiWait = seconds 10,
      scgiConnect = seconds 5,
      scgiSilence = seconds 60,
      scgiLimits = defaultAnswerLimits,
      scgiBuffer = 1048576,
      scgiTell = \_ -> pure (),
      scgiElsewhere = redirectClients
    }

-- | Applications that can be asked.
data Scgi = Scgi
  { scgiSettings :: !ScgiSettings,
    scgiUpstreams :: !Upstreams,
    scgiSlots :: !Slots,
    scgiAttendances :: !Attendances,
    scgiBacklog :: !Backlog
  }

-- | Run with applications.
--
-- [Blocks]: as the body does.
withScgi :: Runtime -> ScgiSettings -> (Scgi -> IO a) -> IO a
withScgi runtime settings body = withAttendances runtime $ \attendances -> bracket (open attendances) (closeUpstreams . scgiUpstreams) body
  where
    open attendances =
      Scgi settings
        <$> newUpstreams runtime (scgiAddresses settings) (scgiConnect settings) 0 (seconds 0)
        <*> newSlots (scgiConnections settings) (scgiQueue settings)
        <*> pure attendances
        <*> newBacklog (scgiBuffer settings)

-- | How many connections are in use.
scgiConnectionsUsed :: Scgi -> IO Int
scgiConnectionsUsed = slotsTaken . scgiSlots

-- | How many requests wait for a connection.
scgiRequestsWaiting :: Scgi -> IO Int
scgiRequestsWaiting = slotsAwaited . scgiSlots

-- | Where the applications listen, and which of them are given requests: one that cannot be connected to is passed over for a time.
scgiServers :: Scgi -> IO [(SockAddr, Bool)]
scgiServers = upstreamsUp . scgiUpstreams

-- | Answer by an application.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the connection is then closed, by which the application hears of it.
scgiGateway :: Scgi -> Gateway
scgiGateway scgi place request
  | hidesDots (placeRest place) = pure hidesDotsReply
  | otherwise = askProgram asking place request script (\restore free content variables -> exchange restore free content variables `finally` free)
  where
    asking = Asking name (scgiSlots scgi) (scgiWait settings) (scgiTell settings) (scgiElsewhere settings)
    settings = scgiSettings scgi
    prefix = pathBytes (placePrefix place)
    script = Script prefix (placeBelow place) (scgiRoot settings <> prefix) (scgiRoot settings)
    name = "SCGI " ++ C.unpack (placePath place)
    relaying = RelaySettings (scgiSilence settings) (scgiLimits settings) (scgiTell settings) (scgiAttendances scgi) (scgiBacklog scgi)
    exchange restore free content variables =
      connectTo (scgiUpstreams scgi) True >>= \case
        Left failure -> pure (NotAnswered failure)
        Right connected -> do
          noteForLog request "upstream_addr" (connectedAddress connected)
          relayed <- restore (converse free content variables (connectedTo connected)) `onException` dropConnection (scgiUpstreams scgi) connected
          relayed <$ dropConnection (scgiUpstreams scgi) connected
    converse free content variables registration = do
      patience <- deadlineIn (scgiSilence settings)
      sent <- sendBy patience registration (opening (scgiVariables settings ++ variables))
      if sent
        then relay relaying request content (backend free registration)
        else pure (NotAnswered EndedEarly)
    -- The body's length comes first, and is always there.
    opening variables =
      let len = fromMaybe "0" (lookup "CONTENT_LENGTH" variables)
          pairs = ("CONTENT_LENGTH", len) : ("SCGI", "1") : [v | v@(n, _) <- variables, n `notElem` ["CONTENT_LENGTH", "SCGI"]]
          block = B.concat [B.concat [n, "\0", v, "\0"] | (n, v) <- pairs]
       in B.concat [C.pack (show (B.length block)), ":", block, ","]
    backend free registration =
      Backend
        { backendName = name,
          backendFeed = sendBy never registration,
          backendFed = pure (),
          backendReceive = receive registration,
          -- No other request uses the connection.
          backendAbort = void (closeRegistration registration),
          backendRelease = void (closeRegistration registration) >> free
        }

receive :: Registration -> Deadline -> IO Output
receive registration deadline = do
  buffer <- borrowBuffer registration
  output <- withBuffer buffer $ \p -> do
    n <- receiveUntil registration p (bufferSize buffer) deadline
    case () of
      _
        | n > 0 -> Output <$> B.packCStringLen (castPtr p, n)
        | n == 0 -> pure Finished
        | n == TimedOutCode -> pure Silent
        | otherwise -> pure (Failed EndedEarly)
  giveBackBuffer registration buffer
  pure output
