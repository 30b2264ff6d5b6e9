{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Server
-- Description : Listeners, contexts, draining
-- Stability   : stable
--
-- A 'Server' serves any number of listeners with one handler per capability.
--
-- Cost: one thread per listening socket; none per idle connection.
-- Owner: 'withServer'.
module Heddle.Http.Server
  ( Server,
    withServer,
    withServerOn,
    serveAlso,
    Scheme (..),
    ProxyUse (..),
    drainUntil,
    cutShort,
    connectionsOpen,

    -- * Plain use
    runServer,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Short (ShortByteString)
import Data.Foldable (for_, traverse_)
import Data.Primitive.SmallArray (indexSmallArray, smallArrayFromList)
import Heddle.Http.Connection
import Heddle.Http.Context
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.H2.Connection
import Heddle.Http.H2.State (awaitThreads)
import Heddle.Http.Handlers
import Heddle.Http.Proxied
import Heddle.Http.ProxyProtocol (ProxySource (..), proxyMistakeText)
import Heddle.Http.Settings
import Heddle.Http.Status (status400)
import Heddle.IO (ListenOptions (..), Listener, Runtime, Spread (..), capabilitiesOf, defaultConfig, defaultListenOptions, withListener, withRuntime)
import Heddle.IO.Registration (Registration, deadlineOver, registrationCapability, registrationPeer, withPeer)
import Heddle.IO.Service
import Heddle.IO.Transport (Layer (..), LayerFacts (..), Opened (..), Opening, Transport (..))
import Heddle.Prim.Atomic (Ref, Words, atomicWrite, newRef, newWords, readRef, writeRef)
import Heddle.Prim.Clock (Deadline, Nanos, deadlineIn, seconds)
import Heddle.Prim.Exception (bracket, finally, fromException, onException)
import Heddle.Prim.WaitCell (newWaitCell, park)
import Network.Socket (SockAddr)

-- | A running server.
data Server = Server
  { serverServices :: !(Ref [Service]),
    -- | How listeners are served.
    serverSessions :: !(Scheme -> IO (Registration -> IO After)),
    serverDraining :: !Words,
    serverGrace :: !Nanos
  }

-- | Serve listeners while the body runs, then close all connections at once and interrupt the handlers
-- that run. It waits for those, but not longer than a second for one that does not let itself be
-- interrupted.
--
-- The function makes the handler, and the log if there is one, of each capability.
--
-- [Blocks]: as the body does.
withServer :: Runtime -> Settings -> (Int -> IO (Handler, Maybe LogHook)) -> [Listener] -> (Server -> IO a) -> IO a
withServer runtime settings make listeners = withServerOn runtime settings (fmap made . make) [(listener, ClearText) | listener <- listeners]
  where
    made (handler, hook) = (handlersOf handler) {handlersLog = hook}

-- | What the clients of a listener speak.
data Scheme
  = -- | HTTP.
    ClearText
  | -- | HTTPS: each connection begins with this opening of TLS. For a client that speaks HTTP see
    -- 'settingOnClearText'.
    Encrypted !Opening
  | -- | Connections come by a proxy, which begins each of them with a header of the PROXY protocol; what the
    -- client speaks follows it. The address that the header names is the connection's peer: for 'Heddle.Http.peer',
    -- 'Heddle.IO.peerAddress' and 'settingOpened', which is called after the header.
    Proxied !ProxyUse !Scheme
  | -- | The same for peers, given by their @sockaddr@, of which this is true; others are clients.
    ProxiedFrom !(ShortByteString -> Bool) !Scheme

-- | Whether a listener's connections begin with the header of a proxy.
data ProxyUse
  = -- | All do. One that does not is answered with 400, or closed where TLS is spoken.
    ProxyRequired
  | -- | Some do. Only for a listener that nobody but proxies can reach: every other client could name any address.
    ProxyOptional
  deriving stock (Eq, Show)

-- | 'withServer' for listeners with TLS and without.
--
-- [Blocks]: as the body does.
withServerOn :: Runtime -> Settings -> (Int -> IO Handlers) -> [(Listener, Scheme)] -> (Server -> IO a) -> IO a
withServerOn runtime settings make listeners = bracket open end
  where
    open = do
      draining <- newWords 1
      contexts <- smallArrayFromList <$> traverse (context draining) [0 .. capabilitiesOf runtime - 1]
      let options =
            ServiceOptions
              { serviceName = "http",
                serviceFirstByte = settingHead settings,
                serviceFailed = \e -> case fromException e of
                  Just ConnectionLost -> pure ()
                  Nothing -> settingFailed settings Nothing e,
                servicePaused = settingPaused settings,
                serviceLimit = settingConnections settings,
                serviceCrowded = settingCrowded settings
              }
          contextOf registration = indexSmallArray contexts (registrationCapability registration)
          session = \case
            ClearText -> hooked (clearSession contextOf)
            Encrypted opening -> hooked (encryptedSession contextOf settings opening)
            Proxied use scheme -> proxiedSession contextOf settings use (isClear scheme) (session scheme)
            ProxiedFrom isProxy scheme -> eitherSession (isProxy . registrationPeer) (session (Proxied ProxyRequired scheme)) (session scheme)
          hooked = maybe id hookedSession (settingOpened settings)
          sessions scheme = ($ B.empty) <$> session scheme
      services <- startSessions options [(listener, sessions scheme) | (listener, scheme) <- listeners] >>= newRef
      pure (Server services sessions draining (settingGrace settings))
    isClear = \case
      ClearText -> True
      Encrypted _ -> False
      Proxied _ scheme -> isClear scheme
      ProxiedFrom _ scheme -> isClear scheme
    context draining i = do
      handlers <- make i
      newContext runtime settings i draining handlers

-- | Serve further listeners as those of a server, with its handlers and limits. A listener that is closed is served no longer;
-- its connections are.
--
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
-- [Threads]: one at a time, and none during 'drainUntil' and 'cutShort'.
serveAlso :: Server -> [(Listener, Scheme)] -> IO ()
serveAlso server listeners = do
  known <- readRef (serverServices server)
  for_ (take 1 known) $ \service -> do
    new <- startSessionsBeside service [(listener, serverSessions server scheme) | (listener, scheme) <- listeners]
    writeRef (serverServices server) (new ++ known)

-- Handles one connection. It is given what was received before, with its first call only.
type Session = ByteString -> Registration -> IO After

-- The handler of one connection without TLS. It keeps the session of a client that speaks HTTP/2.
clearSession :: (Registration -> Context) -> IO Session
clearSession contextOf = do
  speaking <- newRef Nothing
  -- Made once for the connection, not for each request.
  let upgrade = startHttp2 speaking
  pure $ \received registration ->
    let context = contextOf registration
        transport = Bare registration
     in if B.null received then talkTo context upgrade speaking transport else converseFrom context upgrade transport received

-- HTTP/1, or HTTP/2 once the client has shown that it speaks it.
talkTo :: Context -> Upgrade -> Ref (Maybe Http2) -> Transport -> IO After
talkTo context upgrade speaking transport =
  readRef speaking >>= \case
    Nothing -> converse context upgrade transport
    Just h2 -> continueHttp2 h2
{-# INLINE talkTo #-}

startHttp2 :: Ref (Maybe Http2) -> Context -> Transport -> ByteString -> IO After
startHttp2 speaking context transport received =
  openHttp2 context transport received >>= \case
    Nothing -> pure Done
    Just h2 -> writeRef speaking (Just h2) >> continueHttp2 h2

continueHttp2 :: Http2 -> IO After
continueHttp2 h2 = serveHttp2 h2 `onException` (abandon h2 >> awaitThreads h2)

-- Calls the hook before the handler's first call and the hook's action after its last.
hookedSession :: (Registration -> IO (Maybe (IO ()))) -> IO Session -> IO Session
hookedSession opened make = do
  handler <- make
  state <- newRef Nothing
  let talk received registration closed = do
        next <- handler received registration `onException` closed
        case next of
          Done -> closed
          IdleUntil _ -> pure ()
        pure next
  pure $ \received registration ->
    readRef state >>= \case
      Just closed -> talk received registration closed
      Nothing ->
        opened registration >>= \case
          Nothing -> pure Done
          Just closed -> writeRef state (Just closed) >> talk received registration closed

-- Chooses by the connection, which does not change.
eitherSession :: (Registration -> Bool) -> IO Session -> IO Session -> IO Session
eitherSession chooses one other = do
  first <- one
  second <- other
  pure (\received registration -> (if chooses registration then first else second) received registration)

-- Reads the header of a proxy, then lets the session handle the connection as the client's.
proxiedSession :: (Registration -> Context) -> Settings -> ProxyUse -> Bool -> IO Session -> IO Session
proxiedSession contextOf settings use clear make = do
  handler <- make
  client <- newRef Nothing
  let handle before registration =
        readRef client >>= \case
          Just known -> handler B.empty known
          Nothing -> do
            -- Called without a byte from the client: it has been silent for too long.
            silent <- deadlineOver registration =<< idleDeadline registration
            if silent && B.null before then pure Done else begin before registration
      begin before registration = do
        deadline <- deadlineIn (settingHead settings)
        receiveProxyHeader registration before deadline >>= \case
          Named source -> keep B.empty (case source of FromClient address -> withPeer address registration; FromProxy -> registration)
          Unnamed received
            | use == ProxyOptional -> keep received registration
            | otherwise -> refused registration "This port expects the header of the PROXY protocol; ask the proxy before it."
          Misnamed mistake -> refused registration (proxyMistakeText mistake)
          Unheard -> pure Done
      keep received known = writeRef client (Just known) >> handler received known
      -- Where TLS is spoken there is no word for it.
      refused registration text
        | clear = refuseClearText (contextOf registration) registration status400 text
        | otherwise = pure Done
  pure handle

-- The handler of one connection with TLS: the first call opens the layer, the last one releases it.
encryptedSession :: (Registration -> Context) -> Settings -> Opening -> IO Session
encryptedSession contextOf settings opening = do
  opened <- newRef Nothing
  speaking <- newRef Nothing
  let upgrade = startHttp2 speaking
      handle before registration =
        readRef opened >>= \case
          Just transport -> talk registration transport
          Nothing | not (B.null before) -> inClear registration before
          Nothing -> do
            -- Called without a byte from the client: it has been silent for too long.
            silent <- deadlineOver registration =<< idleDeadline registration
            if silent then pure Done else open registration
      open registration = do
        deadline <- deadlineIn (settingHead settings)
        opening registration deadline >>= \case
          Opened layer -> keep (Layered registration layer) >> begin registration layer
          OtherProtocol received -> if B.null received then pure Done else inClear registration received
          NotOpened _ -> pure Done
      -- The client has begun with these bytes, so it does not speak TLS.
      inClear registration received = case settingOnClearText settings of
        RefuseClearText status text -> refuseClearText (contextOf registration) registration status text
        ServeClearText -> keep (Bare registration) >> releasing (Bare registration) (converseFrom (contextOf registration) upgrade (Bare registration) received)
      keep = writeRef opened . Just
      -- The client may have asked for HTTP/2 already.
      begin registration layer
        | factProtocol (layerFacts layer) == "h2" =
          let transport = Layered registration layer
           in releasing transport (upgrade (contextOf registration) transport B.empty)
        | otherwise = talk registration (Layered registration layer)
      talk registration transport = releasing transport (talkTo (contextOf registration) upgrade speaking transport)
      releasing transport act = do
        next <- act `onException` closeLayer transport
        case next of
          Done -> closeLayer transport
          IdleUntil _ -> pure ()
        pure next
      closeLayer = \case
        Bare _ -> pure ()
        Layered _ layer -> layerClose layer
  pure handle

-- | Stop accepting, and answer further requests with @Connection: close@. After 'settingGrace',
-- close idle connections and let the others finish their request. 'True' if all had ended by
-- the deadline.
--
-- Without the grace period, a busy client could find its idle connection closed while its
-- next request is on the way.
--
-- [Blocks]: parks.
drainUntil :: Server -> Deadline -> IO Bool
drainUntil server deadline = do
  services <- readRef (serverServices server)
  let ended time = and <$> traverse (`awaitDrainedUntil` time) services
  -- First, so that no reply after the last accepted connection keeps its own open.
  atomicWrite (serverDraining server) 0 1
  traverse_ stopAccepting services
  grace <- deadlineIn (serverGrace server)
  early <- ended (min grace deadline)
  if early
    then pure True
    else do
      atomicWrite (serverDraining server) 0 2
      traverse_ resumeIdle services
      ended deadline

-- | Stop accepting, close every connection at once and interrupt the handlers that run; this also ends
-- a drain in progress.
--
-- [Blocks]: never.
cutShort :: Server -> IO ()
cutShort server = cut server >> release server

-- The same, and wait until the handlers have ended, at most a second.
end :: Server -> IO ()
end server = flip finally (release server) $ do
  cut server
  deadline <- deadlineIn (seconds 1)
  readRef (serverServices server) >>= traverse_ (`awaitDrainedUntil` deadline)

cut :: Server -> IO ()
cut server = do
  atomicWrite (serverDraining server) 0 2
  services <- readRef (serverServices server)
  for_ services $ \service -> stopAccepting service >> closeConnections service

release :: Server -> IO ()
release server = readRef (serverServices server) >>= traverse_ endService

-- | How many connections are open.
connectionsOpen :: Server -> IO Int
connectionsOpen server = readRef (serverServices server) >>= fmap sum . traverse openConnections

-- | Serve addresses with one handler until an exception ends it.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' when an address cannot be listened on.
runServer :: Settings -> [SockAddr] -> Handler -> IO ()
runServer settings addresses handler = withRuntime defaultConfig (\runtime -> go runtime addresses [])
  where
    go runtime (address : rest) listeners =
      withListener runtime defaultListenOptions {listenSpread = PortPerCapability} address $ \listener ->
        go runtime rest (listener : listeners)
    go runtime [] listeners =
      withServer runtime settings (\_ -> pure (handler, Nothing)) (reverse listeners) $ \_ -> do
        forever' <- newWaitCell
        park forever'
