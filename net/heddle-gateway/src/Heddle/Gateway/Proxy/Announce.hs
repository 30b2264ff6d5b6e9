{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Announce
-- Description : The PROXY protocol, as its sender
-- Stability   : hidden; "Heddle.Gateway.Proxy" exports what is public
--
-- What a proxy sends first on a connection to say for which client it is. Such a connection serves one request.
--
-- Cost: O(1).
-- Owner: values.
-- Source: haproxy's proxy-protocol.txt, versions 1 and 2.
module Heddle.Gateway.Proxy.Announce
  ( Announce (..),
    announcement,
  )
where

import Data.Bits (shiftR, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Word (Word64)
import Heddle.Gateway.Proxy.Address

-- | Whether and how clients are announced.
data Announce
  = NoAnnouncement
  | -- | A line of text.
    AnnounceV1
  | -- | A binary head.
    AnnounceV2
  deriving stock (Bounded, Enum, Eq, Show)

-- | The bytes for a client at the first address that has connected to the second one; empty for 'NoAnnouncement'. Where one of them is
-- not known, nothing is claimed.
announcement :: Announce -> PeerAddress -> PeerAddress -> ByteString
announcement announce from to = case (announce, from, to) of
  (NoAnnouncement, _, _) -> ""
  (AnnounceV1, PeerInternet _ _ p, PeerInternet _ _ q) -> B.concat [if bothIPv4 then "PROXY TCP4 " else "PROXY TCP6 ", text from, " ", text to, " ", C.pack (show p), " ", C.pack (show q), "\r\n"]
  (AnnounceV1, _, _) -> "PROXY UNKNOWN\r\n"
  (AnnounceV2, PeerInternet h l p, PeerInternet i m q)
    | bothIPv4 -> B.concat [signature, "\x21\x11\x00\x0C", number 4 l, number 4 m, ports p q]
    | otherwise -> B.concat [signature, "\x21\x21\x00\x24", number 8 h, number 8 l, number 8 i, number 8 m, ports p q]
  -- LOCAL: the connection itself.
  (AnnounceV2, _, _) -> B.concat [signature, "\x20\x00\x00\x00"]
  where
    bothIPv4 = isIPv4 from && isIPv4 to
    ports p q = number 2 (fromIntegral p) <> number 2 (fromIntegral q)
    -- An IPv4 address beside an IPv6 one is written as the latter.
    text address
      | isIPv4 address && not bothIPv4 = "::ffff:" <> peerText address
      | otherwise = peerText address

isIPv4 :: PeerAddress -> Bool
isIPv4 = \case
  PeerInternet high low _ -> high == 0 && low `shiftR` 32 == 0xFFFF
  PeerLocal -> False

signature :: ByteString
signature = "\r\n\r\n\0\r\nQUIT\n"

-- The last bytes of a number, the highest first.
number :: Int -> Word64 -> ByteString
number n w = B.pack [fromIntegral ((w `shiftR` (8 * i)) .&. 255) | i <- [n - 1, n - 2 .. 0]]
