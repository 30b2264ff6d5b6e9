{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.RealClient
-- Description : Whose request a proxy has passed on
-- Stability   : internal, exempt from the version policy
--
-- The address in X-Forwarded-For that is nearest to this server and not one of the proxies that it trusts. A client can
-- write anything at the header's beginning, so the search ends at the first address that no trusted proxy vouches for.
--
-- Cost: nothing without trusted proxies; O(header) with them.
-- Owner: values.
module Heddle.Serve.RealClient
  ( realClient,
    realClientAddress,
    addressIn,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Proxy (Network (..), PeerAddress (..), isWithin, parseNetwork, peerAddressOf, peerText)
import Heddle.Http
import Heddle.Http.Borrowed (foldRequestHeaders)

-- | The client's address, if the peer is a trusted proxy that names one; otherwise the peer is the client.
--
-- [Cost]: O(header); the text is made by this program, so it needs no escapes.
realClient :: [Network] -> Request -> IO (Maybe ByteString)
realClient trusted request = fmap peerText <$> realClientAddress trusted request

-- | The same as a value.
--
-- [Cost]: O(header).
realClientAddress :: [Network] -> Request -> IO (Maybe PeerAddress)
realClientAddress trusted request
  | not (any (isWithin (peerAddressOf (peer request))) trusted) = pure Nothing
  | otherwise = walk Nothing . concat <$> foldRequestHeaders request values []
  where
    -- The last element first.
    values before known _ _ value n
      | known == fromEnum HeaderXForwardedFor = (: before) . reverse . C.split ',' <$> B.packCStringLen (castPtr value, n)
      | otherwise = pure before
    walk found = \case
      element : others | Just address <- addressIn (C.strip element) -> if any (isWithin address) trusted then walk (Just address) others else Just address
      _ -> found

-- | An address, in brackets or not, with a port or without.
addressIn :: ByteString -> Maybe PeerAddress
addressIn text
  | B.length text > 64 = Nothing
  | Just inner <- B.stripPrefix "[" text = plain (C.takeWhile (/= ']') inner)
  | C.count ':' text == 1 = plain (C.takeWhile (/= ':') text)
  | otherwise = plain text
  where
    plain address
      | C.elem '/' address = Nothing
      | otherwise = case parseNetwork (C.unpack address) of
        Right (Network high low _) -> Just (PeerInternet high low 0)
        _ -> Nothing
