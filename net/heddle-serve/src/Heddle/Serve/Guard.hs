{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Guard
-- Description : Which clients are answered, and how often
-- Stability   : internal, exempt from the version policy
--
-- Rules by address, a rate of requests and a number of connections for each client. A client is an IPv4 address, or a
-- network of 64 bits of IPv6; behind a trusted proxy, the one that the proxy names. A client of a Unix socket has no
-- address, and only rules for @unix@ apply to it.
--
-- Cost: nothing without limits; with them a comparison for each rule, and for the rate a hash and a compare-and-set.
-- Owner: a 'Guard' belongs to all capabilities.
-- Shared writes per request: one word for the rate, which the requests of one client share; 0 without it.
module Heddle.Serve.Guard
  ( -- * As users write them
    GuardOptions (..),
    noGuard,
    AccessRule (..),
    RateLimit (..),
    parseAccess,
    parseRate,

    -- * Guards
    Guard,
    newGuard,
    guardHandler,
    guardAtOnce,
    guardConnections,
    mayAccess,
  )
where

import Data.Bits (complement)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.Foldable (for_)
import Data.Maybe (isJust, mapMaybe)
import Data.Word (Word64)
import Heddle.Bytes.Hash (hashWith, processKey)
import Heddle.Gateway.Proxy (Network (..), PeerAddress (..), clientsByHeader, isWithin, parseNetwork, peerAddressOf, peerText)
import Heddle.Http
import Heddle.Http.Borrowed (requestBegan)
import Heddle.IO.Registration (Registration, registrationPeer)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), Nanos (..), monotonicNow)
import Heddle.Serve.ClientTable
import Heddle.Serve.FileReply (problem, withHeaders)

-- | Limits of clients.
data GuardOptions = GuardOptions
  { -- | The first rule that matches counts. If none does, the answer is the opposite of the last rule's.
    guardRules :: ![AccessRule],
    guardRate :: !(Maybe RateLimit),
    guardConnectionsMost :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | Everybody, as often as they like.
noGuard :: GuardOptions
noGuard = GuardOptions [] Nothing Nothing

-- | Whom to answer, or not.
data AccessRule = Allow ![Network] | Deny ![Network]
  deriving stock (Eq, Show)

-- | Read the networks of a rule: as 'parseNetwork' does, or @all@.
parseAccess :: String -> Either String [Network]
parseAccess = \case
  "all" -> Right [Network 0 0 0, LocalPeers]
  text -> (: []) <$> parseNetwork text

-- | Read @N\/s@, @N\/m@ or @N\/h@, and perhaps @:BURST@; the burst is one second's number otherwise, 1 at least.
--
-- >>> parseRate "10/s:20"
-- Right (RateLimit {rateInterval = Nanos {nanosCount = 100000000}, rateBurst = 20})
parseRate :: String -> Either String RateLimit
parseRate text = case span isDigit text of
  (digits, '/' : unit : rest)
    | Just n <- number digits,
      Just time <- lookup unit [('s', 1), ('m', 60), ('h', 3600)] ->
      RateLimit (Nanos (time * 1000000000 `quot` n)) <$> case rest of
        "" -> Right (max 1 (n `quot` time))
        ':' : burst | Just b <- number burst -> Right b
        _ -> wrong
  _ -> wrong
  where
    wrong = Left ("'" ++ text ++ "' is not a rate such as 10/s, 10/s:20 or 300/m; numbers go from 1 to 100000")
    number digits
      | not (null digits), all isDigit digits, length digits <= 6, n >= 1, n <= 100000 = Just n
      | otherwise = Nothing
      where
        n = read digits :: Int

-- | Limits at work: the trusted proxies, the table of rates, the number that the guard counts with there, the table of connections,
-- and in word 0 of the last when a closed connection was reported.
data Guard = Guard !GuardOptions ![Network] !RateTable !Word64 !CountTable !Words

-- | A guard that believes these proxies; 'Nothing' if there is nothing to guard. The table of rates may be that of several guards,
-- and a guard of the same name continues what another one has counted.
newGuard :: IO RateTable -> ByteString -> [Network] -> GuardOptions -> IO (Maybe Guard)
newGuard table name trusted options
  | options == noGuard = pure Nothing
  | otherwise = do
    rates <- if isJust (guardRate options) then table else newRateTable 1
    counts <- newCountTable (if isJust (guardConnectionsMost options) then 8192 else 1)
    reported <- newWords 1
    pure (Just (Guard options trusted rates (hashWith processKey name) counts reported))

-- | Test whether the rules let an address pass.
mayAccess :: [AccessRule] -> PeerAddress -> Bool
mayAccess rules address = go True rules
  where
    go other = \case
      [] -> other
      Allow networks : rest -> within networks || go False rest
      Deny networks : rest -> not (within networks) && go True rest
    within = any (isWithin address)

-- The reply to a request that is not to be answered; a request that is has been counted.
refusal :: Guard -> Request -> IO (Maybe Reply)
refusal (Guard (GuardOptions rules rate _) trusted rates whose _ _) request = do
  named <- if null trusted then pure [] else clientsByHeader trusted request
  -- Of the headers of proxies a client may have written one: none that is named may lack the right, and all pay for the request. What
  -- Forwarded says is counted apart from the rest. Else a client whose proxy passes its Forwarded on could have another one refused.
  let accounts = if null named then [(whose, peerAddressOf (peer request))] else [(if from == HeaderForwarded then complement whose else whose, client) | (from, client) <- named]
  if not (all (mayAccess rules . snd) accounts)
    then pure (Just (problem status403 "This address may not be asked from yours."))
    else case rate of
      Nothing -> pure Nothing
      Just limit -> do
        Nanos early <- spendAll limit (mapMaybe (uncurry clientKeyFor) accounts)
        pure $
          if early == 0
            then Nothing
            else Just (withHeaders [Header "Retry-After" (C.pack (show ((early + 999999999) `quot` 1000000000)))] (problem status429 "There were too many requests from your address; try again later."))
  where
    -- A request that one refuses is not counted for the next.
    spendAll limit = \case
      [] -> pure (Nanos 0)
      one : others -> spend rates limit (requestBegan request) one >>= \early -> if early == Nanos 0 then spendAll limit others else pure early

-- | Pass requests within the limits to the handler, and answer others with 403, or 429 and Retry-After; the function
-- may change that reply.
--
-- [Throws]: as the functions.
guardHandler :: Guard -> (Request -> Reply -> IO Reply) -> Handler -> Handler
guardHandler guard refuse handler request =
  refusal guard request >>= \case
    Nothing -> handler request
    Just reply -> refuse request reply
{-# INLINE guardHandler #-}

-- | The same for 'handlersAtOnce'. A request that it leaves to the main handler is counted there.
guardAtOnce :: Guard -> (Request -> IO (Maybe Reply)) -> Request -> IO (Maybe Reply)
guardAtOnce guard handler request =
  handler request >>= \case
    Nothing -> pure Nothing
    ready -> maybe ready Just <$> refusal guard request

-- | For 'settingOpened': counts a connection, or closes it if its client has as many as it may. Those of trusted proxies,
-- which carry many clients, and of Unix sockets are not limited. At most once a minute the action is told of one.
guardConnections :: Guard -> (String -> IO ()) -> Maybe (Registration -> IO (Maybe (IO ())))
guardConnections (Guard options trusted _ _ counts reported) tell = opened <$> guardConnectionsMost options
  where
    opened limit registration = do
      let address = peerAddressOf (registrationPeer registration)
      if any (isWithin address) trusted
        then pure (Just (pure ()))
        else case clientKey address of
          Nothing -> pure (Just (pure ()))
          Just key ->
            enter counts limit key >>= \case
              Just True -> pure (Just (leave counts key))
              Nothing -> pure (Just (pure ()))
              Just False -> Nothing <$ report limit address
    report limit address = do
      Deadline now <- monotonicNow
      before <- readWord reported 0
      due <- if before == 0 || now - before > 60000000000 then compareAndSet reported 0 before now else pure False
      for_ [() | due] $ \() ->
        tell ("connections of " ++ C.unpack (peerText address) ++ " are closed: it has the " ++ show limit ++ " that --max-connections-per-client allows")
