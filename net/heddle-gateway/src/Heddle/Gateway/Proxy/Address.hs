{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Address
-- Description : Addresses of clients, and networks of them
-- Stability   : hidden; "Heddle.Gateway.Proxy" exports what is public
--
-- A peer's @sockaddr@ as a value, its text, and networks such as @10.0.0.0\/8@ that it may belong to.
--
-- Cost: O(1) for each.
-- Owner: values.
module Heddle.Gateway.Proxy.Address
  ( -- * Peers
    PeerAddress (..),
    peerAddressOf,
    socketAddress,
    peerText,

    -- * Networks
    Network (..),
    parseNetwork,
    isWithin,
  )
where

import Data.Bits (complement, shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as B (unsafeCreateUptoN)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.Char (isDigit, isHexDigit)
import Data.Word (Word64, byteSwap32)
import Foreign.Ptr (minusPtr)
import GHC.ByteOrder (ByteOrder (BigEndian, LittleEndian), targetByteOrder)
import Heddle.Bytes.Write (Write, ipv4, ipv6, pokeWrite, writeBound)
import Network.Socket (SockAddr (..), hostAddressToTuple)
import Numeric (readHex)

-- | Where a connection comes from.
data PeerAddress
  = -- | The sixteen bytes of an IPv6 address as two numbers, and the port. An IPv4 address is mapped:
    -- @::ffff:192.0.2.7@.
    PeerInternet !Word64 !Word64 !Int
  | -- | A Unix socket, or nothing that is known.
    PeerLocal
  deriving stock (Eq, Show)

-- | The value of a @sockaddr@.
peerAddressOf :: ShortByteString -> PeerAddress
peerAddressOf address
  | size >= 8, family == 2 = PeerInternet 0 (mapped .|. number 4 4) port
  | size >= 24, family == 10 = PeerInternet (number 8 8) (number 16 8) port
  | otherwise = PeerLocal
  where
    size = Short.length address
    -- In the machine's order; only one of the two bytes is not 0.
    family = at 0 + at 1
    port = fromIntegral (number 2 2)
    at i = fromIntegral (Short.index address i) :: Int
    number from n = go from 0
      where
        go :: Int -> Word64 -> Word64
        go !i !w = if i >= from + n then w else go (i + 1) ((w `shiftL` 8) .|. fromIntegral (Short.index address i))

mapped :: Word64
mapped = 0xFFFF00000000

-- | An address without its port, @unix@ for a Unix socket.
--
-- >>> peerText (PeerInternet 0 0x0000FFFFC0000207 80)
-- "192.0.2.7"
peerText :: PeerAddress -> ByteString
peerText = \case
  PeerLocal -> "unix"
  PeerInternet high low _
    | high == 0 && low `shiftR` 32 == 0xFFFF -> written (ipv4 (inNetworkOrder (fromIntegral low)))
    | otherwise -> written (ipv6 high low)
    where
      inNetworkOrder = case targetByteOrder of
        LittleEndian -> byteSwap32
        BigEndian -> id

written :: Write -> ByteString
written w = B.unsafeCreateUptoN (writeBound w) (\p -> (`minusPtr` p) <$> pokeWrite w p)

-- | A set of addresses.
data Network
  = -- | Those whose first bits are these; how many bits.
    Network !Word64 !Word64 !Int
  | -- | Unix sockets.
    LocalPeers
  deriving stock (Eq, Show)

-- | Whether an address belongs to a network.
isWithin :: PeerAddress -> Network -> Bool
isWithin (PeerInternet high low _) (Network h l bits) = (high .&. mask bits) == h && (low .&. mask (bits - 64)) == l
isWithin PeerLocal LocalPeers = True
isWithin _ _ = False

mask :: Int -> Word64
mask bits
  | bits <= 0 = 0
  | bits >= 64 = maxBound
  | otherwise = complement (maxBound `shiftR` bits)

-- | Read an address, a network @ADDRESS\/BITS@, or @unix@ for all Unix sockets.
--
-- >>> parseNetwork "10.1.2.3/8" == parseNetwork "10.0.0.0/8"
-- True
parseNetwork :: String -> Either String Network
parseNetwork "unix" = Right LocalPeers
parseNetwork text = case break (== '/') text of
  (address, rest) | Just (high, low, least) <- parseAddress address -> case rest of
    "" -> Right (Network high low 128)
    '/' : digits
      | not (null digits), all isDigit digits, length digits <= 3, bits <- read digits + least, bits <= 128 -> Right (Network (high .&. mask bits) (low .&. mask (bits - 64)) bits)
    _ -> Left ("'" ++ text ++ "' has no number of bits after the slash, such as 10.0.0.0/8")
  _ -> Left ("'" ++ text ++ "' is not an address, a network such as 10.0.0.0/8, or unix")

-- The address, and how many bits come before the first that a network's length counts.
parseAddress :: String -> Maybe (Word64, Word64, Int)
parseAddress text
  | ':' `elem` text = (\(h, l) -> (h, l, 0)) <$> parseIPv6 text
  | otherwise = (\n -> (0, mapped .|. n, 96)) <$> parseIPv4 text

parseIPv4 :: String -> Maybe Word64
parseIPv4 text = case traverse octet (C.split '.' (C.pack text)) of
  Just octets@[_, _, _, _] -> Just (foldl (\w o -> (w `shiftL` 8) .|. o) 0 octets)
  _ -> Nothing
  where
    octet part = case C.readInt part of
      Just (n, "") | C.all isDigit part, n <= 255, C.length part <= 3 -> Just (fromIntegral n)
      _ -> Nothing

-- Groups, with at most one gap; the last four bytes may be written as IPv4.
parseIPv6 :: String -> Maybe (Word64, Word64)
parseIPv6 text = do
  groups <- case gap text of
    Nothing -> groupsOf text
    Just (before, after) -> do
      a <- groupsOf before
      b <- groupsOf after
      let missing = 8 - length a - length b
      if missing >= 1 then Just (a ++ replicate missing 0 ++ b) else Nothing
  if length groups == 8 then Just (joined (take 4 groups), joined (drop 4 groups)) else Nothing
  where
    joined = foldl (\w g -> (w `shiftL` 16) .|. g) 0
    gap = go ""
      where
        go seen (':' : ':' : rest) = Just (reverse seen, rest)
        go seen (c : rest) = go (c : seen) rest
        go _ [] = Nothing
    groupsOf "" = Just []
    groupsOf s = concat <$> traverse group (pieces s)
    pieces s = case break (== ':') s of
      (one, _ : rest) -> one : pieces rest
      (one, []) -> [one]
    group g
      | '.' `elem` g = (\n -> [n `shiftR` 16, n .&. 0xFFFF]) <$> parseIPv4 g
      | not (null g), length g <= 4, all isHexDigit g, [(n, "")] <- readHex g = Just [n]
      | otherwise = Nothing

-- | The same of an address of the network package.
socketAddress :: SockAddr -> PeerAddress
socketAddress = \case
  SockAddrInet port address -> let (a, b, c, d) = hostAddressToTuple address in PeerInternet 0 (mapped .|. joined8 [a, b, c, d]) (fromIntegral port)
  SockAddrInet6 port _ (a, b, c, d) _ -> PeerInternet (pair a b) (pair c d) (fromIntegral port)
  _ -> PeerLocal
  where
    joined8 = foldl (\w o -> (w `shiftL` 8) .|. fromIntegral o) 0
    pair high low = (fromIntegral high `shiftL` 32) .|. fromIntegral low
