{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client
-- Description : HTTP/1.1 requests, on connections that are kept
-- Stability   : stable
--
-- Make a 'Client', ask by 'fetch' or 'withResponse'. Connections are kept and reused; every wait has
-- a deadline in the 'ClientSettings'; a response that two readers could understand differently is refused.
--
-- > download :: Client -> ByteString -> IO ByteString
-- > download client address = case parseUrl address of
-- >   Left e -> fail (describeUrlError e)
-- >   Right url -> do
-- >     fetched <- fetch client (requestUrl url) 1000000
-- >     if statusCode (fetchedStatus fetched) == 200
-- >       then pure (fetchedContent fetched)
-- >       else fail (show (fetchedStatus fetched))
--
-- @'withClient' 'defaultClientSettings' (\\client -> download client "http:\/\/example.org\/")@ runs it. For
-- @https@ set 'clientSecure', for instance to heddle-tls's @tlsConnecting@.
--
-- A request is sent again, once and on a new connection, only if the kept connection failed before a byte of an answer
-- came, the method is idempotent, and the body can be repeated.
--
-- Invariant: a connection is kept only if the request was sent whole, the response was read to its end, and
-- nothing came after it. So no answer is taken for that of another request.
-- Cost: three system calls for a small request on a kept connection: a look whether it is stale,
-- a send and a receive.
-- Owner: the thread that makes a request; any number of threads may use a client.
-- Shared writes per request: 0 between capabilities.
module Heddle.Http.Client
  ( -- * Clients
    Client,
    withClient,
    withClientOn,
    newClient,
    newClientOn,
    closeClient,
    connectionsKept,
    connectionsInAll,
    makeWay,

    -- * Settings
    ClientSettings (..),
    defaultClientSettings,
    ClientProxy (..),
    resolveByName,
    Pace (..),
    Limits (..),

    -- * Asking
    fetch,
    Fetched (..),
    fetchFollowing,
    withResponse,

    -- * Requests
    ClientRequest (..),
    RequestBody (..),
    Header (..),
    Writer (..),
    requestUrl,
    requestTo,

    -- ** Redirections
    redirected,
    resolveReference,

    -- ** Addresses
    Url (..),
    Origin (..),
    Place (..),
    parseUrl,
    UrlError (..),
    describeUrlError,
    renderOrigin,
    originAuthority,

    -- * Responses
    Response,
    responseStatus,
    Status,
    statusCode,
    responseMinor,
    responseTunnel,
    takeTunnel,
    responseReason,
    responseHeader,
    responseHeaderNamed,
    responseHeaders,
    foldResponseHeaders,

    -- ** Content
    contentLength,
    readResponsePiece,
    responseTrailers,
    withResponsePiece,
    withResponsePieceAfter,
    withResponsePieceIf,
    contentAtHand,
    readWholeResponse,
    releaseResponse,

    -- * Exceptions
    ClientError (..),
    Failure (..),
    Stage (..),
    AnswerFault (..),
    describeFault,
  )
where

import Control.Monad (join, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Foldable (for_, toList)
import Data.Maybe (listToMaybe)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Heddle.Http.Client.Answer
import Heddle.Http.Client.Ask
import Heddle.Http.Client.Connect
import Heddle.Http.Client.Error
import Heddle.Http.Client.Exchange hiding (answered)
import Heddle.Http.Client.Pool
import Heddle.Http.Client.Redirect
import Heddle.Http.Client.Response
import Heddle.Http.Client.Sending
import Heddle.Http.Client.Settings
import Heddle.Http.Client.Url
import Heddle.Http.Client.Width
import Heddle.Http.Parse (Limits (..))
import Heddle.Http.Reply (Header (..), Writer (..))
import Heddle.Http.Settings (Pace (..), boundedLimits)
import Heddle.Http.Status (Status, statusCode)
import Heddle.Http.Workspace
import Heddle.IO (Runtime, capabilitiesOf, systemRuntime)
import Heddle.IO.Parker (Parker, closeParker, isClosed, newParker, parkUntil, unpark)
import Heddle.IO.Parker qualified as Parker
import Heddle.IO.Registration (freshNow)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Words, atomicRead, atomicWrite, compareAndSet, newRef, newWords, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, Pool, borrow, giveBack, newBuffer, newPool, withBuffer)
import Heddle.Prim.Clock (Deadline (..), Nanos, after, deadlineIn, monotonicNow)
import Heddle.Prim.Exception (bracket, mask, mask_, onException, throwIO)
import Heddle.Prim.Thread (forkOn, myCapability)

-- | Connections to any number of origins.
data Client = Client
  { clientRuntime :: !Runtime,
    clientSettings :: !ClientSettings,
    -- | One for each capability, or one.
    clientShares :: !(SmallArray Share),
    clientWidths :: !(Widths Origin)
  }

-- What one capability has of a client.
data Share = Share
  { shareCapability :: !Int,
    shareShard :: !(Shard Origin Transport),
    shareSpaces :: !(Pool Workspace),
    -- | A byte for 'isStale'.
    shareByte :: !Buffer,
    -- | Where the thread that closes old connections waits.
    shareParker :: !Parker,
    -- | Whether that thread runs, and until when it waits.
    shareWords :: !Words
  }

-- | Make a client on the system's runtime, run, close it.
--
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state.
withClient :: ClientSettings -> (Client -> IO a) -> IO a
withClient settings = bracket (newClient settings) closeClient

-- | 'withClient' on a runtime of the caller's choice.
--
-- [Blocks]: as the body does.
withClientOn :: Runtime -> ClientSettings -> (Client -> IO a) -> IO a
withClientOn runtime settings = bracket (newClientOn runtime settings) closeClient

-- | A client, until 'closeClient'.
--
-- [Cost]: about a kilobyte for each capability.
-- [Blocks]: never.
newClient :: ClientSettings -> IO Client
newClient settings = systemRuntime >>= \runtime -> newClientOn runtime settings

-- | 'newClient' on a runtime of the caller's choice.
--
-- [Blocks]: never.
newClientOn :: Runtime -> ClientSettings -> IO Client
newClientOn runtime given = do
  widths <- newWidths
  shares <- traverse (share widths) [0 .. (if clientShared settings then 1 else capabilitiesOf runtime) - 1]
  pure (Client runtime settings (smallArrayFromList shares) widths)
  where
    settings = given {clientLimits = boundedLimits (clientLimits given)}
    limits = PoolLimits (max 1 (clientPerOrigin settings)) (max 1 (clientConnections settings))
    share widths i =
      Share i
        <$> newShard limits (\origin transport -> ended widths origin >> closeTransport transport)
        <*> newPool 64 (newWorkspace (clientLimits settings))
        <*> newBuffer 1
        <*> newParker runtime
        <*> newWords 2

-- | Close the connections that are not in use; the others close when their requests end. Requests that wait for a connection,
-- and later ones, fail with 'ClientClosed'. Idempotent.
--
-- [Blocks]: never.
-- [Threads]: any.
closeClient :: Client -> IO ()
closeClient client = mask_ . for_ (clientShares client) $ \share -> do
  closeShard (shareShard share)
  closeParker (shareParker share)

-- | How many connections are open and not in use.
connectionsKept :: Client -> IO Int
connectionsKept client = sum . map fst <$> counts client

-- | How many connections are open or being opened. Tunnels do not count.
connectionsInAll :: Client -> IO Int
connectionsInAll client = sum . map snd <$> counts client

counts :: Client -> IO [(Int, Int)]
counts client = traverse (shardCounts . shareShard) (toList (clientShares client))

-- | A whole response.
data Fetched = Fetched
  { fetchedStatus :: !Status,
    -- | In order, with names as they were spelt.
    fetchedHeaders :: ![(ByteString, ByteString)],
    fetchedContent :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Ask, and read the whole response, whose content may have this many bytes.
--
-- [Cost]: 'withResponse', and a copy of everything.
-- [Blocks]: parks.
-- [Masking]: interruptible; the connection is then closed.
-- [Throws]: 'ClientError'.
fetch :: Client -> ClientRequest -> Int -> IO Fetched
fetch client request most = withResponse client request $ \response ->
  Fetched (responseStatus response) <$> responseHeaders response <*> readWholeResponse response most

-- | 'fetch', following at most this many redirections: the last request, and its response.
--
-- A redirection whose request cannot be repeated is returned as it is. A body that an action writes is not in the request that
-- is returned.
--
-- [Cost]: a 'fetch' for each.
-- [Blocks]: parks.
-- [Throws]: 'ClientError', also 'TooManyRedirects'.
fetchFollowing :: Client -> Int -> ClientRequest -> Int -> IO (ClientRequest, Fetched)
fetchFollowing client redirections request0 most = go redirections request0
  where
    go left given = do
      -- Not the action that writes a body, which may keep lazy content.
      let !repeats = replays (requestBody given)
          !request = if repeats then given else given {requestBody = NoRequestBody}
      fetched <- fetch client given most
      -- It is no list: of several lines, the first counts.
      let location = listToMaybe [value | (name, value) <- fetchedHeaders fetched, C.map toLower name == "location"]
      case redirectedWhen repeats (statusCode (fetchedStatus fetched)) location request of
        Left failure -> failed request failure
        Right Nothing -> pure (request, fetched)
        Right (Just next)
          | left <= 0 -> failed request (TooManyRedirects redirections)
          | otherwise -> go (left - 1) next
    failed request = throwIO . clientError request

-- | Ask, and use the response until the action returns. The connection is kept if all of the content was
-- read, or the rest of it has arrived and is small.
--
-- [Cost]: three system calls on a kept connection for a small request and response, besides those of the
-- action.
-- [Blocks]: parks.
-- [Masking]: the action, and those in the request, run in the caller's state; the waits are interruptible, and an interrupted
-- request closes its connection.
-- [Throws]: 'ClientError'; what the actions throw; 'IOError' when the runtime has stopped.
-- [Threads]: any; a response belongs to the thread that asked.
withResponse :: Client -> ClientRequest -> (Response -> IO a) -> IO a
withResponse client given use = case prepare settings given of
  Left failure -> throwIO (clientError given failure)
  Right !prepared -> do
    -- What sends the body takes it from here: an action that writes it may keep lazy content.
    body <- newRef (requestBody given)
    let !repeats = replays (requestBody given)
        !request = given {requestBody = NoRequestBody}
        failed = throwIO . clientError request
    mask $ \restore -> do
      capability <- myCapability
      let !share = indexSmallArray (clientShares client) (capability `mod` sizeofSmallArray (clientShares client))
          !origin = preparedOrigin prepared
          giveUp = surrender (shareShard share) origin
          -- A connection that has answered. It is counted out first, for the server may at once take up another one, and answer.
          close transport = ended (clientWidths client) origin >> closeTransport transport
          opening = do
            deadline <- deadlineIn (clientConnect settings)
            opened <- openUntil (clientRuntime client) settings (requestPreamble request) origin (min deadline (requestUntil request)) `onException` giveUp
            case opened of
              Right transport -> conversation transport False
              Left failure -> giveUp >> failed failure
          reusing transport = do
            stale <- if B.null (requestPreamble request) then withBuffer (shareByte share) (isStale transport) else pure True
            if stale then close transport >> opening else conversation transport True
          conversation transport reused = do
            ws <- borrow (shareSpaces share)
            -- What ends the wait for the server to take up a new connection.
            taken <- newRef (pure ())
            ex <- newExchange settings request body prepared transport ws restore (if reused then Nothing else Just (notTakenUp taken))
            let closing = endResponse ex >> if reused then close transport else closeTransport transport
                takenUp = join (readRef taken)
            asked <- (ask ex >>= wholeSwitch ex) `onException` (takenUp >> closing >> giveUp)
            takenUp
            case asked of
              Left failure -> do
                closing
                unless (reused || failure /= TooSlow AwaitingAnswer) (narrowed (clientWidths client) origin)
                heard <- flag ex FlagHeard
                giveBack (shareSpaces share) ws
                if reused && heard == 0 && isLost failure && isIdempotent (requestMethod request) && repeats
                  then opening
                  else giveUp >> failed failure
              Right Switched -> do
                response <- newSwitched ex `onException` (closing >> giveUp)
                -- The connection is no longer the pool's, nor does it need a workspace.
                giveBack (shareSpaces share) ws
                when reused (ended (clientWidths client) origin)
                giveUp
                let closingOwn = flag ex FlagTaken >>= \own -> endResponse ex >> unless (own == 1) (closeTransport transport)
                answer <- restore (use response) `onException` closingOwn
                answer <$ closingOwn
              Right content -> do
                unless reused (answered (clientWidths client) origin)
                let returning response = unlessReturned $ do
                      keeps <- finishContent response
                      setFlag ex FlagReturned 1
                      if keeps then keepAliveFor ex >>= keep client share origin transport else close transport >> giveUp
                    unlessReturned act = flag ex FlagReturned >>= \before -> unless (before == 1) act
                response <- newResponse ex content returning
                answer <- (restore (use response) <* (endResponse ex >> returning response)) `onException` (endResponse ex >> unlessReturned (close transport >> giveUp))
                giveBack (shareSpaces share) ws
                pure answer
          -- The width may be wrong: the server has closed connections that count as open still. So a long silence corrects it.
          notTakenUp taken times =
            mask_ $
              if times == (0 :: Int)
                then makeWay client origin >>= writeRef taken
                else narrowed (clientWidths client) origin >> closeIfFull client origin
          -- No clock is read for a connection that is there.
          queued = do
            deadline <- deadlineIn (clientQueue settings)
            acquireUntil (shareShard share) origin (min deadline (requestUntil request))
      acquireNow (shareShard share) origin >>= maybe queued (pure . Just) >>= \case
        Nothing -> failed NoConnectionFree
        Just PoolClosed -> failed ClientClosed
        Just OpenNew -> (if B.null (requestPreamble request) then idleElsewhere client share origin else pure Nothing) >>= maybe opening reusing
        Just (Reuse transport _) -> reusing transport
  where
    settings = clientSettings client

-- An unused connection of another capability, if the server may not take up a new one; see "Heddle.Http.Client.Width".
idleElsewhere :: Client -> Share -> Origin -> IO (Maybe Transport)
idleElsewhere client share origin
  | sizeofSmallArray (clientShares client) == 1 = pure Nothing
  | otherwise = do
    full <- isFull (clientWidths client) origin
    if full then anyKept [other | other <- toList (clientShares client), shareCapability other /= shareCapability share] origin else pure Nothing

anyKept :: [Share] -> Origin -> IO (Maybe Transport)
anyKept shares origin = case shares of
  [] -> pure Nothing
  share : others -> takeKept (shareShard share) origin >>= maybe (anyKept others origin) (pure . Just)

-- | A request waits on a connection to the origin, of this client or another one, that the server may not have taken up. If the server has not been
-- seen to serve more connections than those of this client that have answered, one of these has to end: one that is unused is closed, and so
-- are those that come back, until the action that is returned.
--
-- The client does this itself when a request on a new connection has heard nothing for 200 ms. After longer silence it also closes
-- a connection if the server has been seen to serve more.
--
-- [Cost]: a look-up; at worst one for each capability.
-- [Blocks]: never.
-- [Masking]: the caller is masked until it has called the action, once.
-- [Threads]: any.
makeWay :: Client -> Origin -> IO (IO ())
makeWay client origin = do
  waitBegins (clientWidths client) origin
  closeIfFull client origin
  pure (waitEnds (clientWidths client) origin)

-- Close an unused connection.
closeIfFull :: Client -> Origin -> IO ()
closeIfFull client origin = do
  full <- isFull (clientWidths client) origin
  when full $
    anyKept (toList (clientShares client)) origin >>= mapM_ (\transport -> ended (clientWidths client) origin >> closeTransport transport)

clientError :: ClientRequest -> Failure -> ClientError
clientError request = ClientError (requestOrigin request) (requestMethod request) (C.takeWhile (/= '?') (requestTarget request))

-- A peer that switches protocols before it has the whole body would take the rest for the other protocol's bytes.
wholeSwitch :: Exchange -> Either Failure Content -> IO (Either Failure Content)
wholeSwitch ex = \case
  Right Switched -> (\sent -> if sent == 1 then Right Switched else Left (BadAnswer UnaskedSwitch)) <$> flag ex FlagSent
  other -> pure other

-- Whether the connection was lost before an answer, as happens when the peer closes one that it thinks unused.
isLost :: Failure -> Bool
isLost = \case
  Ended stage -> not (answerBegan stage)
  Broken stage _ -> not (answerBegan stage)
  _ -> False

-- Keeping ------------------------------------------------------------------------------------

-- Whether the sweeping thread runs; until when it waits.
wordSweeping, wordWakes :: Int
wordSweeping = 0
wordWakes = 1

keep :: Client -> Share -> Origin -> Transport -> Nanos -> IO ()
keep client share origin transport time = do
  awaited <- isAwaited (clientWidths client) origin
  if awaited
    then do
      ended (clientWidths client) origin
      closeTransport transport
      surrender (shareShard share) origin
    else keepFor share origin transport time

keepFor :: Share -> Origin -> Transport -> Nanos -> IO ()
keepFor share origin transport time = do
  now <- freshNow (transportRegistration transport)
  let !until'@(Deadline d) = after time now
  release (shareShard share) origin transport until'
  wakes <- atomicRead (shareWords share) wordWakes
  running <- atomicRead (shareWords share) wordSweeping
  if running == 0
    then startSweeping share
    else when (d < wakes) (unpark (shareParker share))

startSweeping :: Share -> IO ()
startSweeping share = do
  won <- compareAndSet (shareWords share) wordSweeping 0 1
  when won . void $
    forkOn (shareCapability share) ("http/client/sweep/" ++ show (shareCapability share)) (sweeping share)

-- Closes old connections; ends when none is left, and when the client is closed.
sweeping :: Share -> IO ()
sweeping share = do
  Parker.prepare (shareParker share)
  -- A connection that is kept from here on leaves a token.
  atomicWrite (shareWords share) wordWakes maxBound
  now <- monotonicNow
  next@(Deadline wakes) <- mask_ (sweep (shareShard share) now)
  atomicWrite (shareWords share) wordWakes wakes
  closed <- isClosed (shareParker share)
  (kept, _) <- shardCounts (shareShard share)
  case () of
    _
      | closed -> pure ()
      | kept > 0 -> parkUntil (shareParker share) next >> sweeping share
      | otherwise -> do
        atomicWrite (shareWords share) wordSweeping 0
        -- One may have been kept between the count and the write.
        (late, _) <- shardCounts (shareShard share)
        when (late > 0) (startSweeping share)
