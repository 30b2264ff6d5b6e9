{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.FastCgi
-- Description : Requests to applications that speak FastCGI
-- Stability   : stable
--
-- > withFastCgi runtime (defaultFastCgiSettings [SockAddrUnix "/run/php/php8.2-fpm.sock"] "/srv/www") $ \fast -> …
--
-- Each request has a connection for itself while it runs (applications that take several at once are unheard of), which
-- may be kept for the next one; see 'fastKeep'. The request's body, if its length is known, and the answer are streams; a body without a length
-- is received before the application is asked, since applications read as many bytes as they are told.
--
-- With 'fastSuffixes' the path is split behind the script, as php-fpm needs it: @SCRIPT_FILENAME@ is a file below
-- 'fastRoot', @PATH_INFO@ the rest. Without, the prefix is @SCRIPT_NAME@ and the rest @PATH_INFO@.
--
-- Cost: on a kept connection three system calls besides the client's: a look whether it is stale, a send, a receive.
-- Owner: 'withFastCgi'.
-- [Source]: FastCGI specification 1.0.
module Heddle.Gateway.FastCgi
  ( FastCgiSettings (..),
    defaultFastCgiSettings,
    withFastCgi,
    FastCgi,
    fastCgiGateway,
    fastConnectionsUsed,
    fastConnectionsKept,
    fastRequestsWaiting,
    fastServers,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Char (isPrint)
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Answer
import Heddle.Gateway.Asking
import Heddle.Gateway.Attend (Attendances, withAttendances)
import Heddle.Gateway.Backlog
import Heddle.Gateway.Content
import Heddle.Gateway.Environment
import Heddle.Gateway.Failure
import Heddle.Gateway.FastCgi.Record
import Heddle.Gateway.Lease
import Heddle.Gateway.Place
import Heddle.Gateway.Relay
import Heddle.Gateway.Slots
import Heddle.Gateway.Upstreams
import Heddle.Http
import Heddle.Http.Borrowed (noteForLog)
import Heddle.IO (Runtime)
import Heddle.IO.Registration
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Network.Socket (SockAddr)

-- | Applications and bounds.
data FastCgiSettings = FastCgiSettings
  { -- | Where they listen; requests go to them in turn.
    fastAddresses :: ![SockAddr],
    -- | The directory that paths are files of, as the applications see it, without a slash at its end.
    fastRoot :: !ByteString,
    -- | Ends of the names of scripts, such as @.php@.
    fastSuffixes :: ![ByteString],
    -- | Whether a script exists, by its path below the root without a slash before it. PHP otherwise looks for another
    -- script in the path, and may run what somebody has uploaded. It throws when it cannot tell, and then the answer is 500.
    fastExists :: !(ByteString -> IO Bool),
    -- | More parameters. They count less than the request's.
    fastVariables :: !Variables,
    -- | Connections at once: with php-fpm, its @pm.max_children@.
    fastConnections :: !Int,
    -- | Requests that wait for one, and for how long.
    fastQueue :: !Int,
    fastWait :: !Nanos,
    fastConnect :: !Nanos,
    -- | Unused connections that are kept, and for how long. A server such as php-fpm has a process for each, which serves
    -- nobody else meanwhile: keep connections only to a server that nobody else uses, and fewer than it has processes.
    fastKeep :: !Int,
    fastKeepFor :: !Nanos,
    -- | How long an application may be silent while its client is, too.
    fastSilence :: !Nanos,
    fastLimits :: !AnswerLimits,
    -- | How much of an answer is taken from the application when its client does not take it, so that a slow client does not occupy a
    -- connection. All answers may have 64 times as much.
    --
    -- [Units]: bytes.
    fastBuffer :: !Int,
    -- | Hears of the lines on standard error, and of what goes wrong.
    fastTell :: !(String -> IO ()),
    fastElsewhere :: !LocalRedirects
  }

-- | 64 connections and 256 waiting requests, for 10 seconds each; 5 seconds to connect; no connection kept, or for
-- a minute; a minute of silence; 1 MB of an answer for a slow client.
defaultFastCgiSettings :: [SockAddr] -> ByteString -> FastCgiSettings
defaultFastCgiSettings addresses root =
  FastCgiSettings
    { fastAddresses = addresses,
      fastRoot = root,
      fastSuffixes = [],
      fastExists = \_ -> pure True,
      fastVariables = [],
      fastConnections = 64,
      fastQueue = 256,
      fastWait = seconds 10,
      fastConnect = seconds 5,
      fastKeep = 0,
      fastKeepFor = seconds 60,
      fastSilence = seconds 60,
      fastLimits = defaultAnswerLimits,
      fastBuffer = 1048576,
      fastTell = \_ -> pure (),
      fastElsewhere = redirectClients
    }

-- | Applications that can be asked.
data FastCgi = FastCgi
  { fastSettings :: !FastCgiSettings,
    fastUpstreams :: !Upstreams,
    fastSlots :: !Slots,
    fastAttendances :: !Attendances,
    fastBacklog :: !Backlog
  }

-- | Make the connections' pool, run, close them.
--
-- [Blocks]: as the body does.
withFastCgi :: Runtime -> FastCgiSettings -> (FastCgi -> IO a) -> IO a
withFastCgi runtime settings body = withAttendances runtime $ \attendances -> bracket (open attendances) (closeUpstreams . fastUpstreams) body
  where
    open attendances =
      FastCgi settings
        <$> newUpstreams runtime (fastAddresses settings) (fastConnect settings) (fastKeep settings) (fastKeepFor settings)
        <*> newSlots (fastConnections settings) (fastQueue settings)
        <*> pure attendances
        <*> newBacklog (fastBuffer settings)

-- | How many connections are in use.
fastConnectionsUsed :: FastCgi -> IO Int
fastConnectionsUsed = slotsTaken . fastSlots

-- | How many connections are kept unused.
fastConnectionsKept :: FastCgi -> IO Int
fastConnectionsKept = keptConnections . fastUpstreams

-- | How many requests wait for a connection.
fastRequestsWaiting :: FastCgi -> IO Int
fastRequestsWaiting = slotsAwaited . fastSlots

-- | Where the applications listen, and which of them are given requests: one that cannot be connected to is passed over for a time.
fastServers :: FastCgi -> IO [(SockAddr, Bool)]
fastServers = upstreamsUp . fastUpstreams

-- | Answer by an application.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the connection is then closed, by which the application hears of it.
fastCgiGateway :: FastCgi -> Gateway
fastCgiGateway fast place request
  | hidesDots (placeRest place) = pure hidesDotsReply
  | null (fastSuffixes settings) = go (Script prefix (placeBelow place) (fastRoot settings <> prefix) (fastRoot settings))
  | otherwise = do
    let (name, info) = splitScript (fastSuffixes settings) (prefix <> placeBelow place)
    exists <- fastExists settings (B.drop 1 name)
    if exists
      then go (Script name info (fastRoot settings <> name) (fastRoot settings))
      else pure (Whole status404 [Header "Content-Type" "text/plain; charset=utf-8"] "404 Not Found\nThere is no such script.\n")
  where
    settings = fastSettings fast
    prefix = pathBytes (placePrefix place)
    go = ask fast place request

-- State of an exchange: whether the body has gone out whole, whether the end has come, and whether an answer was waited for.
pattern WordFed, WordEnded, WordAwaited :: Int
pattern WordFed = 0
pattern WordEnded = 1
pattern WordAwaited = 2

ask :: FastCgi -> Place -> Request -> Script -> IO Reply
ask fast place request script = askProgram asking place request script $ \restore free content variables ->
  exchange restore free content variables False `finally` free
  where
    asking = Asking name (fastSlots fast) (fastWait settings) (fastTell settings) (fastElsewhere settings)
    settings = fastSettings fast
    name = "FastCGI " ++ C.unpack (scriptName script)
    relaying = RelaySettings (fastSilence settings) (fastLimits settings) (fastTell settings) (fastAttendances fast) (fastBacklog fast)
    exchange :: (IO Relayed -> IO Relayed) -> IO () -> Content -> Variables -> Bool -> IO Relayed
    exchange restore free content variables fresh =
      connectTo (fastUpstreams fast) fresh >>= \case
        Left failure -> pure (NotAnswered failure)
        Right connected -> do
          noteForLog request "upstream_addr" (connectedAddress connected)
          words' <- newWords 3
          lease <- newLease
          let dropped = settleLease lease (\_ -> dropConnection (fastUpstreams fast) connected)
              settled = settleLease lease (give connected words')
              released = do
                given <- isSettled lease
                unless given (awaitEnd connected words' >> settled)
                free
          relayed <- restore (converse content variables connected lease released words') `onException` dropped
          given <- isSettled lease
          unless given $ case relayed of
            Answered _ -> void (restore (relayed <$ awaitEnd connected words') `onException` dropped)
            _ -> pure ()
          settled
          verb <- method request
          case relayed of
            -- A kept connection was closed as it was used: nothing has happened, so ask again.
            NotAnswered EndedEarly | connectedReused connected && verb `elem` [MethodGet, MethodHead, MethodOptions] -> noteStatus request (failureStatus EndedEarly) >> exchange restore free content variables True
            _ -> pure relayed
    -- The content was all that was promised, but the application may still have to say that the request is over; before that
    -- the connection is of no use to another one.
    awaitEnd connected words' = do
      fed <- atomicRead words' WordFed
      ended <- atomicRead words' WordEnded
      aborted <- isClosing (connectedTo connected)
      unless (fed == 0 || ended == 1 || aborted) $ deadlineIn (milliseconds 100) >>= void . receive fast name connected words'
    -- Keep the connection if the exchange is over.
    give connected words' aborted = do
      fed <- atomicRead words' WordFed
      ended <- atomicRead words' WordEnded
      left <- readRef (connectedInput connected)
      closing <- isClosing (connectedTo connected)
      if fed == 1 && ended == 1 && B.null left && not (aborted || closing) then keepConnection (fastUpstreams fast) connected else dropConnection (fastUpstreams fast) connected
    converse content variables connected lease released words' = do
      let bodied = hasBytes content
          beginning = renderOpening 1 Responder (fastKeep settings > 0) (fastVariables settings ++ variables) (not bodied)
      unless bodied (atomicWrite words' WordFed 1)
      patience <- deadlineIn (fastSilence settings)
      sent <- sendBy patience (connectedTo connected) beginning
      if sent
        then relay relaying request content (backend connected lease released words' bodied)
        else pure (NotAnswered EndedEarly)
    backend connected lease released words' bodied =
      Backend
        { backendName = name,
          backendFeed = send (connectedTo connected) . renderStream Stdin 1,
          backendFed = when bodied $ do
            ended <- send (connectedTo connected) (renderEnd Stdin 1)
            when ended (atomicWrite words' WordFed 1),
          backendReceive = receive fast name connected words',
          backendAbort = abortLease lease (dropConnection (fastUpstreams fast) connected),
          backendRelease = released
        }

-- Send all; 'False' when the connection has failed. The reader's patience bounds it.
send :: Registration -> Builder -> IO Bool
send registration = sendBy never registration . L.toStrict . toLazyByteString

-- The next output: what is in the connection's input, then what comes.
receive :: FastCgi -> String -> Connected -> Words -> Deadline -> IO Output
receive fast name connected words' deadline = do
  over <- atomicRead words' WordEnded
  if over == 1 then pure Finished else readRef (connectedInput connected) >>= go
  where
    registration = connectedTo connected
    go bytes = case takeRecord bytes of
      NotFastCgi -> pure (Failed (BadAnswer "it does not speak FastCGI"))
      TakeMore -> do
        writeRef (connectedInput connected) bytes
        r <- receiveMore
        case r of
          Right more -> go (if B.null bytes then more else bytes <> more)
          Left n
            | n == TimedOutCode -> pure Silent
            | otherwise -> pure (Failed EndedEarly)
      Taken record rest -> do
        writeRef (connectedInput connected) rest
        case recordType record of
          _ | recordRequest record `notElem` [0, 1] -> pure (Failed (BadAnswer "it answers a request that was not made"))
          Stdout | not (B.null (recordContent record)) -> pure (Output (recordContent record))
          Stderr -> sayLines (recordContent record) >> go rest
          EndRequest -> case readEndRequest (recordContent record) of
            Just (_, RequestComplete) -> Finished <$ atomicWrite words' WordEnded 1
            Just (_, status)
              | status == Overloaded || status == CannotMultiplex -> pure (Failed TooBusy)
            _ -> pure (Failed (BadAnswer "it ends the request in an unknown way"))
          -- The end of standard output, and management, to which there is nothing to say.
          _ -> go rest
    receiveMore = do
      -- An answer takes its time, and an attempt to read that finds nothing costs a system call. The connection is new, or the look whether it is
      -- stale found nothing, so what has come since ends the wait.
      awaited <- readWord words' WordAwaited
      when (awaited == 0 && deadline > Deadline 0) $ do
        writeWord words' WordAwaited 1
        waitUntil registration Readable deadline
      buffer <- borrowBuffer registration
      r <- withBuffer buffer $ \p -> do
        n <- receiveUntil registration p (bufferSize buffer) deadline
        if n > 0 then Right <$> (takenUp (fastUpstreams fast) connected >> B.packCStringLen (castPtr p, n)) else pure (Left n)
      giveBackBuffer registration buffer
      pure r
    -- That a line cannot be told is no reason to fail the request, whose answer may be whole.
    sayLines content = mapM_ (\line -> unless (B.null line) (fastTell (fastSettings fast) (name ++ ": " ++ map shown (C.unpack (B.take 4096 line))) `catchSync` reportUncaught)) (C.split '\n' content)
    shown c = if isPrint c && c < '\DEL' then c else '?'
