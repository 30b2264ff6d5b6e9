{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy
-- Description : A reverse proxy
-- Stability   : stable
--
-- Forwards requests to HTTP/1.1 servers and their answers back, both as they come, on connections that are kept for each
-- capability.
--
-- > site :: Url -> IO ()
-- > site url = withRuntime defaultConfig $ \runtime ->
-- >   withProxy runtime (defaultProxySettings "" [upstreamAt url]) $ \proxy ->
-- >     … withServer … (proxyHandler proxy)
--
-- The proxy parses each message and writes its own: nothing of the client's framing reaches an upstream, so an upstream sees one request for
-- each that the engine has read. A request is given to another upstream only if the first certainly did nothing with it: no
-- connection was made, or the method is idempotent, the body can be repeated and no byte of an answer came.
--
-- Cost: five system calls for a small request on kept connections: two with the client, three with the upstream.
-- Owner: the handler's thread; health of upstreams is shared.
-- Shared writes per request: 0 between capabilities, unless an upstream fails.
module Heddle.Gateway.Proxy
  ( -- * Proxies
    Proxy,
    withProxy,
    proxyHandler,
    proxyHandlerFor,

    -- * Settings
    ProxySettings (..),
    defaultProxySettings,
    Upstream (..),
    upstreamAt,
    Balance (..),
    HostRule (..),
    Check (..),
    defaultCheck,
    Announce (..),
    Network (..),
    parseNetwork,

    -- * Figures
    ProxyFigures (..),
    proxyFigures,

    -- * Parts

    -- | For tests and other gateways.
    announcement,
    PeerAddress (..),
    peerAddressOf,
    peerText,
    isWithin,
    forwardedClients,
    clientsByHeader,
    forwardedNodes,
    addressIn,
    Rewriting (..),
    rewriteLocation,
    rewriteCookie,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits (setBit)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Data.Foldable (for_, toList, traverse_)
import Data.List (intercalate)
import Data.Maybe (isJust, isNothing)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Data.Word (Word64)
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Ascii (lowered)
import Heddle.Gateway.Attend
import Heddle.Gateway.Backlog
import Heddle.Gateway.Failure qualified as Gateway
import Heddle.Gateway.Proxy.Address
import Heddle.Gateway.Proxy.Announce
import Heddle.Gateway.Proxy.Balance
import Heddle.Gateway.Proxy.Check
import Heddle.Gateway.Proxy.Forwarded
import Heddle.Gateway.Proxy.Pass
import Heddle.Gateway.Proxy.RequestHead
import Heddle.Gateway.Proxy.ResponseHead
import Heddle.Gateway.Proxy.Settings
import Heddle.Gateway.Proxy.Trouble
import Heddle.Gateway.Proxy.Tunnel
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.Client hiding (Header (..), Limits (..), Pace (..), Writer (..))
import Heddle.IO (Runtime, capabilitiesOf, localAddress)
import Heddle.IO.Registration (closeRegistration, connectionOf, freshNow)
import Heddle.IO.Transport (closeTransport, writeUntil)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception

-- | A proxy under way.
data Proxy = Proxy
  { proxyOwn :: !ProxySettings,
    proxyClient :: !Client,
    proxyMembers :: !(SmallArray Member),
    proxyRewritings :: !(SmallArray Rewriting),
    -- | One for each capability.
    proxyShares :: !(SmallArray Share)
  }

data Share = Share
  { shareTurns :: !Turns,
    shareAttendance :: !Attendance,
    shareBacklog :: !Backlog
  }

-- | Run with a proxy; its kept connections and its checks end with it.
--
-- [Cost]: some kilobytes for each capability.
-- [Blocks]: as the body does.
withProxy :: Runtime -> ProxySettings -> (Proxy -> IO a) -> IO a
withProxy runtime settings body = withClientOn runtime (clientSettingsOf settings) $ \client ->
  bracket (traverse (const share) [1 .. capabilitiesOf runtime]) (traverse_ (closeAttendance . shareAttendance)) $ \shares -> do
    members <- traverse newMember upstreams
    let proxy =
          Proxy
            { proxyOwn = settings,
              proxyClient = client,
              proxyMembers = smallArrayFromList members,
              proxyRewritings = smallArrayFromList (map (rewritingOf settings) upstreams),
              proxyShares = smallArrayFromList shares
            }
    case proxyCheck settings of
      Nothing -> body proxy
      Just check -> withChecks runtime settings client check members (body proxy)
  where
    -- A request notes where it was tried in the bits of a word.
    upstreams = take 64 (proxyUpstreams settings)
    share = Share <$> newTurns (length upstreams) <*> newAttendance runtime <*> newBacklog (proxyBuffer settings)

clientSettingsOf :: ProxySettings -> ClientSettings
clientSettingsOf settings =
  defaultClientSettings
    { clientConnect = proxyConnect settings,
      clientQueue = proxyQueue settings,
      clientHead = proxyAnswer settings,
      clientBodyPace = proxyPace settings,
      clientSendPace = proxyPace settings,
      clientIdle = proxyIdle settings,
      clientPerOrigin = maybe maxBound (max 1) (proxyConnections settings),
      clientConnections = maxBound,
      -- A limit of each capability would be another one with each machine, and unfair if their loads differ.
      clientShared = isJust (proxyConnections settings),
      clientLimits = (clientLimits defaultClientSettings) {limitHeadBytes = max 1024 (proxyHeadBytes settings)},
      clientSecure = proxySecure settings,
      clientAgent = ""
    }

rewritingOf :: ProxySettings -> Upstream -> Rewriting
rewritingOf settings upstream =
  Rewriting
    { rewritingPrefix = proxyPrefix settings,
      rewritingBase = basePath upstream,
      rewritingNames = case originPlace origin of
        Tcp name port -> [originAuthority origin, bracketed name <> ":" <> C.pack (show port)]
        UnixSocket _ -> ["localhost"],
      rewritingHost = case originPlace origin of
        Tcp name _ -> name
        UnixSocket _ -> "localhost"
    }
  where
    origin = urlOrigin (upstreamUrl upstream)
    bracketed name = if C.elem ':' name then B.concat ["[", name, "]"] else name

-- | What a proxy has open.
data ProxyFigures = ProxyFigures
  { -- | Connections to upstreams that are not in use.
    figureKept :: !Int,
    -- | All connections but tunnels.
    figureConnections :: !Int,
    -- | Requests under way, with tunnels, by upstream.
    figureOpen :: ![Int],
    -- | Requests whose upstream has been silent for some time.
    figureWaiting :: !Int,
    -- | Which upstreams are given requests.
    figureUp :: ![Bool]
  }
  deriving stock (Eq, Show)

-- | Counted now, without stopping anything.
--
-- [Cost]: O(connections unused).
proxyFigures :: Proxy -> IO ProxyFigures
proxyFigures proxy = do
  now <- monotonicNow
  ProxyFigures
    <$> connectionsKept (proxyClient proxy)
    <*> connectionsInAll (proxyClient proxy)
    <*> (foldr (zipWith (+)) (repeat 0) <$> traverse (openNow (proxyMembers proxy) . shareTurns) shares)
    <*> (sum <$> traverse (attendedNow . shareAttendance) shares)
    <*> traverse (`isUp` now) (toList (proxyMembers proxy))
  where
    shares = toList (proxyShares proxy)

-- | Forwards a request.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the upstream's connection is then closed.
-- [Throws]: what reading the body throws, and 'ConnectionLost' when the client has gone.
proxyHandler :: Proxy -> Handler
proxyHandler proxy = proxyHandlerFor proxy Nothing Nothing

-- | The same, perhaps for another path and query than the client's, and perhaps for a user whose password this server has
-- checked: the password stays here, and the upstream is told the name in X-Remote-User.
--
-- [Blocks]: parks.
proxyHandlerFor :: Proxy -> Maybe ByteString -> Maybe ByteString -> Handler
proxyHandlerFor proxy instead user request = do
  code <- method request
  if code == MethodConnect || code == MethodTrace
    then pure (Whole status405 [Header "Allow" "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"] "This method is not forwarded.\n")
    else
      planOf (proxyOwn proxy) instead user request >>= \case
        Left (Unplanned status text) -> pure (sentence status [] text)
        Right planned -> do
          hops <- if code == MethodOptions then header request HeaderMaxForwards else pure Nothing
          if hops == Just "0" then pure (Whole status204 [] "") else forward proxy request planned

sentence :: Status -> [Header] -> ByteString -> Reply
sentence status fields text =
  Whole status (Header "Content-Type" "text/plain; charset=utf-8" : fields) (B.concat [C.pack (show (statusCode status)), " ", reasonPhrase status, "\n", text, "\n"])

-- Forwarding ---------------------------------------------------------------------------------

-- What all tries of a request share.
data Job = Job
  { jobProxy :: !Proxy,
    jobShare :: !Share,
    jobRequest :: !Request,
    jobPlan :: !Plan,
    -- | When the first upstream was chosen.
    jobBegan :: !Deadline,
    jobBody :: !RequestBody,
    -- | Word 0: 1 once a part of the body was read for an upstream.
    jobBegun :: !Words,
    jobHttp2 :: !Bool
  }

-- Up to this size a body is read before an upstream is asked, so that it can be repeated.
smallBody :: Int
smallBody = 8192

forward :: Proxy -> Request -> Plan -> IO Reply
forward proxy request planned = do
  begun <- newWords 1
  major <- httpMajor request
  body <- case planFraming planned of
    Bodiless -> pure NoRequestBody
    Counted n
      | n <= smallBody && not (planExpects planned) -> BodyBytes <$> readWholeBody request smallBody
      | otherwise -> pure (BodySized n (passBody request (major == 2) begun))
    InChunks -> pure (BodyChunked (passBody request (major == 2) begun))
  let shares = proxyShares proxy
      !share = indexSmallArray shares (requestCapability request `mod` sizeofSmallArray shares)
  began <- monotonicNow
  let job = Job proxy share request planned began body begun (major == 2)
  try' job 0 (max 1 (proxyTries (proxyOwn proxy))) Nothing

-- The body's pieces, as they come.
passBody :: Request -> Bool -> Words -> Writer -> IO ()
passBody request http2 begun writer = writeWord begun 0 1 >> go
  where
    sending = beforeBodyWaits (writerFlush writer) request
    go = do
      when http2 (writerFlush writer)
      more <- withBodyPiece sending (\p n -> unsafePackCStringLen (castPtr p, n) >>= writerPut writer)
      for_ more (const go)

-- Try upstreams that are not in the set until one answers or there is no further try. The last failure is answered.
try' :: Job -> Word64 -> Int -> Maybe Trouble -> IO Reply
try' job tried left failure = do
  now <- freshNow (requestConn (jobRequest job))
  found <- if left > 0 then choose members turns key tried now else pure Nothing
  case (found, failure) of
    (Nothing, Just trouble) -> pure (failedReply trouble)
    (Nothing, Nothing) -> pure (failedReply (troubleOf NoConnectionFree))
    (Just i, _) -> do
      let !member = indexSmallArray members i
          again = try' job (setBit tried i) (left - 1) . Just
      attempt job i member >>= \case
        Right reply -> pure reply
        Left e -> do
          upstreamTook job
          let trouble = troubleOf (errorFailure e)
          noteForLog (jobRequest job) "upstream_status" (C.pack (show (statusCode (Gateway.failureStatus (troubleFailure trouble)))))
          begun <- (/= 0) <$> readWord (jobBegun job) 0
          when (troubleSuspicious trouble) $ do
            at <- monotonicNow
            out <- failedOnce settings member at
            unless (sizeofSmallArray members == 1) $
              for_ out $ \(Nanos time) ->
                proxyFailed settings (memberName member ++ " is left out for " ++ show (time `quot` 1000000000) ++ " s")
          let repeats = not begun && (troubleUnsent trouble || (troubleUnheard trouble && idempotent))
          case () of
            _
              | troubleGone trouble -> throwIO ConnectionLost
              | otherwise -> do
                proxyFailed settings (oneLine e)
                if repeats then again trouble else pure (failedReply trouble)
  where
    proxy = jobProxy job
    settings = proxyOwn proxy
    members = proxyMembers proxy
    turns = shareTurns (jobShare job)
    idempotent = planMethod (jobPlan job) `elem` ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]
    key = case proxyBalance settings of
      InTurn -> AnyOf
      LeastBusy -> Fewest
      _ -> KeyOf (planKey (jobPlan job))

-- Note the time until now as that of the upstreams.
upstreamTook :: Job -> IO ()
upstreamTook job = do
  Deadline now <- monotonicNow
  let Deadline began = jobBegan job
  noteUpstreamTime (jobRequest job) (Nanos (now - began))

-- An error for a log of lines.
oneLine :: ClientError -> String
oneLine e = case lines (displayException e) of
  [line, _advice] -> line
  several -> intercalate ";" several

failedReply :: Trouble -> Reply
failedReply trouble = sentence (Gateway.failureStatus failure) [Header "Retry-After" (C.pack (show (troubleRetryAfter trouble)))] ("The server behind this one " <> words' <> ".")
  where
    failure = troubleFailure trouble
    -- Not the details, which are for the log.
    words' = case failure of
      Gateway.Unreachable _ -> "cannot be reached"
      Gateway.BadAnswer _ -> "gave an answer that is not understood"
      other -> C.pack (Gateway.describeFailure other)

-- Ask one upstream. A 'Right' reply may have been sent already.
attempt :: Job -> Int -> Member -> IO (Either ClientError Reply)
attempt job i member = do
  address <- if proxyAnnounce settings == NoAnnouncement then pure "" else announced job
  stays <- newWords 1
  noteForLog request "upstream_addr" (memberAddress member)
  (path, written) <- headFor settings (memberUpstream member) (rewritingBase rewriting) planned
  let asked =
        (requestTo (planMethod planned) (urlOrigin (upstreamUrl (memberUpstream member))) path)
          { requestBody = jobBody job,
            requestUpgrade = planUpgrade planned,
            requestExpect = planExpects planned,
            requestInterim = \code fields -> replyInterim request (otherStatus code) (passedInterim fields),
            requestWritten = Just written,
            requestPreamble = address,
            requestClose = not (B.null address) || proxyIdle settings <= mempty,
            requestAttended = if jobHttp2 job then Nothing else Just (attend (shareAttendance (jobShare job)) (requestConn request) . void . closeRegistration)
          }
      !leaving = leave members turns i
  mask $ \restore -> do
    enter members turns i
    r <-
      (Right <$> restore (withResponse (proxyClient proxy) asked (answer job member rewriting leaving stays))) `catch` \e -> case fromException e of
        Just failure -> pure (Left failure)
        Nothing -> leaving >> throwIO (e :: SomeException)
    kept <- readWord stays 0
    when (kept == 0) leaving
    pure r
  where
    proxy = jobProxy job
    settings = proxyOwn proxy
    request = jobRequest job
    planned = jobPlan job
    !members = proxyMembers proxy
    !turns = shareTurns (jobShare job)
    !rewriting = indexSmallArray (proxyRewritings proxy) i

-- The bytes that tell the upstream of the client.
announced :: Job -> IO ByteString
announced job = do
  -- If it cannot be asked, the request fails: without it, the upstream would be told that the proxy itself asks.
  to <- localAddress (connectionOf (requestConn request))
  pure (announcement (proxyAnnounce (proxyOwn (jobProxy job))) (peerAddressOf (peer request)) (maybe PeerLocal socketAddress to))
  where
    request = jobRequest job

-- Pass an answer on.
answer :: Job -> Member -> Rewriting -> IO () -> Words -> Response -> IO Reply
answer job member rewriting leaving stays response = do
  upstreamTook job
  back <- succeeded member
  when back (proxyFailed settings (memberName member ++ " answers again"))
  case responseTunnel response of
    Just _ -> noteForLog request "upstream_status" "101" >> tunnelled job leaving stays response
    Nothing -> do
      status <- statusOf response
      noteForLog request "upstream_status" (C.pack (show (statusCode status)))
      code <- method request
      -- An early answer, without which the client would be told to send a body that nothing reads.
      declineBody request
      let trailers = jobHttp2 job || planTrailers (jobPlan job)
      -- 205 has no content, whatever the upstream sends with it.
      whole <- if status == status205 then pure Nothing else contentAtHand response
      -- The client may take its time; the upstream's connection is free for others.
      releaseResponse response
      -- HTTP/2 has no upgrades, and no field for them.
      offered <- if statusCode status == 426 && not (jobHttp2 job) then offeredUpgrades response else pure []
      asLines <- if trailers || isNothing whole || not (null offered) then pure Nothing else passedLines rewriting response
      fields <- if isNothing asLines then (++ offered) <$> passedHeaders rewriting trailers response else pure []
      reply <- case contentLength response of
        _
          | status == status205 -> pure (Whole status fields "")
          | Just bytes <- whole -> pure (maybe (Whole status fields bytes) (\given -> Copied status given bytes) asLines)
        Just 0
          | code == MethodHead || status == status304 ->
            announcedLength response >>= \case
              Just n -> pure (StreamOf status fields n nothing)
              Nothing | code == MethodHead && not (statusForbidsContent status) -> pure (Stream status fields nothing)
              Nothing -> pure (Whole status fields "")
          | otherwise -> pure (Whole status fields "")
        Just n -> pure (StreamOf status fields n content)
        Nothing -> pure (Stream status fields content)
      _ <- replyNow request reply
      pure (Replied status)
  where
    request = jobRequest job
    settings = proxyOwn (jobProxy job)
    nothing _ = pure ()
    content writer =
      try (passContent (shareBacklog (jobShare job)) response writer) >>= \case
        -- The engine knows whether this client is sent any.
        Right () -> responseTrailers response >>= \fields -> unless (null fields) (writerTrailers writer (passedInterim fields))
        Left (e :: ClientError) -> do
          unless (errorFailure e == GivenUp) (proxyFailed settings (oneLine e ++ "; the answer had begun"))
          -- What has come is the client's; then its connection ends before the content does.
          writerFlush writer
          abortRequest request
          throwIO ConnectionLost

-- The engine runs the tunnel when this request's memory has been given back; until then the connection must not be lost.
tunnelled :: Job -> IO () -> Words -> Response -> IO Reply
tunnelled job leaving stays response = do
  flushRequest (jobRequest job)
  fields <- responseHeaders response
  -- Strict: a tunnel may last, so it shall not keep the request's memory.
  let !silence = proxySilence settings
      !pace = proxyPace settings
      protocol = [Header "Upgrade" value | (name, value) <- fields, lowered name == "upgrade"]
      line (Header name value) = [name, ": ", value, "\r\n"]
      !written = B.concat ("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" : concatMap line (protocol ++ passedInterim fields) ++ ["\r\n"])
  mask_ $
    takeTunnel response >>= \case
      Nothing -> throwIO ConnectionLost
      Just upstream -> do
        writeWord stays 0 1
        pure . Tunnel Nothing $ \client -> flip finally leaving $ do
          deadline <- deadlineIn (seconds 30)
          sent <- sendAll client written deadline `onException` closeTransport (duplexTransport upstream)
          if sent < 0
            then closeTransport (duplexTransport upstream)
            else tunnelBetween silence pace client upstream
  where
    settings = proxyOwn (jobProxy job)
    sendAll client bytes deadline = B.useAsCStringLen bytes (\(p, n) -> writeUntil (duplexTransport client) (castPtr p) n deadline)
