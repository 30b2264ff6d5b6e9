{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Client.Connect
-- Description : Opening connections: look up, connect, tunnel, secure
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- The addresses of a host are tried in their order, each for its share of the time that is left, so that a
-- dead first address leaves time for the others.
--
-- Cost: a thread for looking up a name; four system calls to connect.
-- Owner: the thread that opens. What it has opened is closed when it fails or is interrupted.
module Heddle.Http.Client.Connect
  ( openUntil,
    isStale,
    failureOf,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Client.Answer
import Heddle.Http.Client.Error
import Heddle.Http.Client.Settings
import Heddle.Http.Client.Url
import Heddle.Http.Head (newHeadTable)
import Heddle.Http.Parse (Limits (..))
import Heddle.IO (Runtime, connectUntil)
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.IO.WaitQueue (awaitHandOff, handOff, newWaiter)
import Heddle.Prim.Atomic (modifyRef, newRef)
import Heddle.Prim.Buffer (newBuffer, withBuffer)
import Heddle.Prim.Clock (Deadline, Nanos (..), after, elapsed, milliseconds, monotonicNow)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (describeException, onException, trySync)
import Heddle.Prim.Thread (fork)
import Heddle.Timer (withCellUntil)
import Network.Socket (SockAddr (SockAddrUnix))

-- | What a negative code means in a stage.
failureOf :: Stage -> Int -> Failure
failureOf stage code
  | code == TimedOutCode = TooSlow stage
  | code == ClosedCode = Ended stage
  | otherwise = Broken stage (Errno (negate code))

-- | Open a connection on which requests to the origin can be sent, after these bytes.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; interruptible while parked.
-- [Throws]: 'IOError' when the runtime has stopped.
openUntil :: Runtime -> ClientSettings -> ByteString -> Origin -> Deadline -> IO (Either Failure Transport)
openUntil runtime settings preamble origin deadline = case (originPlace origin, clientProxy settings) of
  (Tcp name port, Just proxy)
    | originSecure origin,
      proxyOrigin proxy /= origin ->
      if originSecure (proxyOrigin proxy)
        then pure (Left (NotSecured "a tunnel through a proxy that is itself reached by https is not supported"))
        else
          reach runtime settings (originPlace (proxyOrigin proxy)) deadline `andThen` \registration ->
            closingOn registration (tunnel settings proxy registration (authority name port) deadline) `andThen` \() ->
              secured settings name registration deadline
  (Tcp name _, _)
    | originSecure origin ->
      begun (originPlace origin) `andThen` \registration ->
        secured settings name registration deadline
  (place, _) -> fmap Bare <$> begun place
  where
    begun place
      | B.null preamble = reach runtime settings place deadline
      | otherwise =
        reach runtime settings place deadline `andThen` \registration -> closingOn registration $ do
          sent <- unsafeUseAsCStringLen preamble $ \(p, n) -> sendUntil registration (castPtr p) n deadline
          pure (if sent < 0 then Left (failureOf Connecting sent) else Right registration)
    authority name port = B.concat [if C.elem ':' name then B.concat ["[", name, "]"] else name, ":", C.pack (show port)]

andThen :: IO (Either Failure a) -> (a -> IO (Either Failure b)) -> IO (Either Failure b)
andThen first next = first >>= either (pure . Left) next

-- Close when the action fails or is interrupted.
closingOn :: Registration -> IO (Either Failure a) -> IO (Either Failure a)
closingOn registration action = do
  r <- action `onException` closeRegistration registration
  case r of
    Left _ -> r <$ closeRegistration registration
    Right _ -> pure r

reach :: Runtime -> ClientSettings -> Place -> Deadline -> IO (Either Failure Registration)
reach runtime settings place deadline = case place of
  UnixSocket path -> tryAll [SockAddrUnix (C.unpack path)]
  Tcp name port -> lookUp settings name port deadline `andThen` tryAll
  where
    tryAll addresses = go (length addresses) addresses []
    go left (address : others) failures = do
      share <- shareOf left
      connectUntil runtime address share >>= \case
        Right conn -> pure (Right (registrationOf conn))
        Left e -> do
          now <- monotonicNow
          if now >= deadline
            then pure (Left (if null others && null failures then NotConnected [e] else TooSlow Connecting))
            else go (left - 1) others (e : failures)
    go _ [] failures = pure (Left (NotConnected (reverse failures)))
    -- An equal part of the time for each address, but a quarter of a second at least.
    shareOf left = do
      now <- monotonicNow
      let Nanos whole = elapsed now deadline
      pure (min deadline (after (max (milliseconds 250) (Nanos (whole `quot` max 1 left))) now))

-- Looking a name up holds a thread, which cannot be interrupted: it has one of its own, and is left alone
-- when its answer comes too late.
lookUp :: ClientSettings -> ByteString -> Int -> Deadline -> IO (Either Failure [SockAddr])
lookUp settings name port deadline = withCellUntil deadline $ \cell -> do
  waiter <- newWaiter cell
  decided <- newRef False
  let decide = modifyRef decided (\before -> (True, not before))
  _ <- fork "http/client/resolve" $ do
    found <- trySync (clientResolve settings name port)
    first <- decide
    if first then handOff waiter found else pure ()
  awaitHandOff waiter deadline decide (\_ -> pure ()) >>= \case
    Nothing -> pure (Left (TooSlow Resolving))
    Just (Left e) -> pure (Left (NotResolved (describeException e)))
    Just (Right []) -> pure (Left (NotResolved "it has no address"))
    Just (Right addresses) -> pure (Right addresses)

secured :: ClientSettings -> ByteString -> Registration -> Deadline -> IO (Either Failure Transport)
secured settings name registration deadline = closingOn registration $ case clientSecure settings of
  Nothing -> pure (Left (NotSecured "the settings have no clientSecure; give it heddle-tls's client"))
  Just opening ->
    opening name registration deadline >>= \case
      Opened layer
        | factProtocol (layerFacts layer) `elem` ["", "http/1.1"] -> pure (Right (Layered registration layer))
        | otherwise -> do
          layerClose layer
          pure (Left (NotSecured ("the server chose the protocol " ++ show (factProtocol (layerFacts layer)) ++ ", not http/1.1")))
      OtherProtocol _ -> pure (Left (NotSecured "the server does not speak TLS"))
      NotOpened why -> do
        now <- monotonicNow
        pure (Left (if now >= deadline then TooSlow Securing else NotSecured why))

-- Ask a proxy for a tunnel. Bytes after its answer would be the server's, which speaks second.
tunnel :: ClientSettings -> ClientProxy -> Registration -> ByteString -> Deadline -> IO (Either Failure ())
tunnel settings proxy registration authority deadline = do
  sent <- unsafeUseAsCStringLen question $ \(p, n) -> sendUntil registration (castPtr p) n deadline
  if sent < 0
    then pure (Left (failureOf AskingProxy sent))
    else do
      buffer <- newBuffer (limitHeadBytes limits)
      table <- newHeadTable (limitHeaders limits)
      withBuffer buffer $ \p -> hear p table 0
  where
    limits = clientLimits settings
    question =
      B.concat . concat $
        [ ["CONNECT ", authority, " HTTP/1.1\r\nHost: ", authority, "\r\n"],
          concat [["Proxy-Authorization: ", value, "\r\n"] | Just value <- [proxyAuthorization proxy]],
          ["\r\n"]
        ]
    hear p table have = do
      r <- receiveUntil registration (p `plusPtr` have) (limitHeadBytes limits - have) deadline
      if r <= 0
        then pure (Left (if r == 0 then Ended AskingProxy else failureOf AskingProxy r))
        else
          parseAnswer limits p (have + r) table >>= \case
            AnswerMore -> hear p table (have + r)
            AnswerWrong fault -> pure (Left (BadAnswer fault))
            AnswerDone n -> do
              code <- answerCode table
              contentOf limits AskedTunnel p table >>= \case
                Switched
                  | n == have + r -> pure (Right ())
                  | otherwise -> pure (Left (NotSecured "bytes follow the proxy's answer, but the server has not been asked"))
                ContentWrong fault -> pure (Left (BadAnswer fault))
                _ -> pure (Left (ProxyRefused code))

-- | Whether an unused connection is of no more use: its peer has closed it, or sent what nothing asked for, of which a byte
-- goes to the address.
--
-- The system is asked each time. What the event manager has heard of a connection is not enough: a busy machine took bytes that it had
-- not heard of yet for the answer to the next request.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Masking]: the caller is masked.
isStale :: Transport -> Ptr Word8 -> IO Bool
isStale transport p = do
  hung <- hungUp (transportRegistration transport)
  if hung then pure True else look
  where
    look = do
      r <- readNow transport p 1
      if r < 0 && Errno (negate r) == EINTR then look else pure $! r >= 0 || Errno (negate r) /= EAGAIN
