{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.ProxyProtocol
-- Description : The PROXY protocol's header, versions 1 and 2
-- Stability   : stable
--
-- A proxy that passes connections on, such as HAProxy, nginx's stream module or a cloud's load balancer, can begin each of them
-- with a header that names its client. Version 1 is a line of text, version 2 is binary.
--
-- 'parseProxyHeader' is strict: what the specification does not allow is refused, because a header that
-- two programs read differently lets a client choose its address.
--
-- Cost: O(bytes); called once for each connection.
-- Owner: values.
module Heddle.Http.ProxyProtocol
  ( ProxyHeader (..),
    parseProxyHeader,
    ProxySource (..),
    ProxyMistake (..),
    proxyMistakeText,
    longestProxyHeader,
  )
where

import Data.Bits (shiftL, shiftR, testBit, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeIndex)
import Data.Char (isDigit, isHexDigit)
import Data.Word (Word16, Word32, Word8)
import Network.Socket (SockAddr (..), tupleToHostAddress, tupleToHostAddress6)
import Numeric (readHex)

-- | What the beginning of a connection is.
data ProxyHeader
  = -- | A header of this many bytes.
    ProxyHeader !Int !ProxySource
  | -- | The beginning of a header. More bytes decide.
    ProxyIncomplete
  | -- | Not a header: another protocol.
    ProxyAbsent
  | -- | A header that is malformed.
    ProxyMalformed !ProxyMistake
  deriving stock (Eq, Show)

-- | Where a connection comes from.
data ProxySource
  = -- | The client's address.
    FromClient !SockAddr
  | -- | The proxy itself (a health check), or a client whose address it does not know: the connection's own address stands.
    FromProxy
  deriving stock (Eq, Show)

-- | Why a header is refused.
data ProxyMistake
  = -- | A line of version 1 without its end within 107 bytes.
    LineTooLong
  | -- | A line of version 1 that is not of the specification's form.
    BadLine
  | -- | An address or a port that is none, or not in the usual form.
    BadSource
  | -- | A version other than 2, in a binary header.
    BadVersion
  | -- | A command that is neither LOCAL nor PROXY.
    BadCommand
  | -- | An address family or a transport that is not defined.
    BadFamily
  | -- | A binary header that is shorter than its addresses.
    AddressesCut
  | -- | An extension that ends beyond its header.
    BadExtension
  | -- | The checksum of the header is not that of its bytes.
    BadChecksum
  | -- | More than 'longestProxyHeader' bytes are announced.
    HeaderTooLong
  deriving stock (Bounded, Enum, Eq, Show)

-- | A sentence for an operator.
proxyMistakeText :: ProxyMistake -> ByteString
proxyMistakeText = \case
  LineTooLong -> "The PROXY header's line has no end within 107 bytes."
  BadLine -> "The PROXY header's line is malformed."
  BadSource -> "The PROXY header names no valid address and port."
  BadVersion -> "The PROXY header has an unknown version."
  BadCommand -> "The PROXY header has an unknown command."
  BadFamily -> "The PROXY header has an unknown address family or transport."
  AddressesCut -> "The PROXY header is shorter than its addresses."
  BadExtension -> "The PROXY header has an extension that ends beyond it."
  BadChecksum -> "The PROXY header's checksum is wrong."
  HeaderTooLong -> "The PROXY header is longer than 4096 bytes."

-- | The longest header that is accepted, extensions included. Those that proxies send have a few hundred bytes.
--
-- [Units]: bytes.
longestProxyHeader :: Int
longestProxyHeader = 4096

-- | Read the header at the beginning of a connection. Every proper prefix of a header is 'ProxyIncomplete', or refused
-- already; bytes after a header do not change the answer.
--
-- [Cost]: O(header).
-- [Source]: The PROXY protocol, Willy Tarreau, 2020; sections 2.1 and 2.2.
parseProxyHeader :: ByteString -> ProxyHeader
parseProxyHeader input
  | signature2 `B.isPrefixOf` input = binary input
  | signature1 `B.isPrefixOf` input = line input
  | input `B.isPrefixOf` signature2 || input `B.isPrefixOf` signature1 = ProxyIncomplete
  | otherwise = ProxyAbsent

signature1, signature2 :: ByteString
signature1 = "PROXY "
signature2 = "\r\n\r\n\0\r\nQUIT\n"

-- Version 1 ---------------------------------------------------------------------

line :: ByteString -> ProxyHeader
line input = case C.elemIndex '\r' start of
  Just end
    | end + 1 < B.length start -> if C.index start (end + 1) == '\n' then source (end + 2) (B.take end start) else ProxyMalformed BadLine
    | B.length start < longestLine -> unfinished (B.take end start)
  _
    | B.length start < longestLine -> unfinished start
    | otherwise -> ProxyMalformed LineTooLong
  where
    start = B.take longestLine input
    -- A line feed alone ends no line, and none comes before the carriage return.
    unfinished text = if C.elem '\n' text then ProxyMalformed BadLine else ProxyIncomplete
    source n text
      | C.elem '\n' text = ProxyMalformed BadLine
      | otherwise = case C.split ' ' text of
        [_, "TCP4", from, to, fromPort, toPort] -> addressed n ((,) <$> ipv4 from <*> ipv4 to) SockAddrInet fromPort toPort
        [_, "TCP6", from, to, fromPort, toPort] -> addressed n ((,) <$> ipv6 from <*> ipv6 to) (\port host -> SockAddrInet6 port 0 host 0) fromPort toPort
        -- What follows is to be ignored.
        _ : "UNKNOWN" : _ -> ProxyHeader n FromProxy
        _ -> ProxyMalformed BadLine
    addressed n hosts make fromPort toPort = case (hosts, decimal 65535 fromPort, decimal 65535 toPort) of
      (Just (host, _), Just port, Just _) -> ProxyHeader n (FromClient (make (fromIntegral port) host))
      _ -> ProxyMalformed BadSource

-- With the carriage return and the line feed.
longestLine :: Int
longestLine = 107

-- No leading zeros, which some programs read as octal.
decimal :: Int -> ByteString -> Maybe Int
decimal most text
  | B.null text || B.length text > 5 || not (C.all isDigit text) = Nothing
  | B.length text > 1 && C.head text == '0' = Nothing
  | value > most = Nothing
  | otherwise = Just value
  where
    value = B.foldl' (\n digit -> 10 * n + fromIntegral digit - 48) 0 text

ipv4 :: ByteString -> Maybe Word32
ipv4 text = case traverse (decimal 255) (C.split '.' text) of
  Just [a, b, c, d] -> Just (tupleToHostAddress (byte a, byte b, byte c, byte d))
  _ -> Nothing
  where
    byte = fromIntegral

-- Groups of one to four hexadecimal digits; one @::@ stands for one or more groups of zeros. The last two may be written as
-- IPv4, which proxies do for mapped addresses (inet_ntop(3)).
ipv6 :: ByteString -> Maybe (Word32, Word32, Word32, Word32)
ipv6 text = case B.breakSubstring "::" text of
  (whole, "") -> ending whole >>= address
  (before, rest) -> do
    front <- some' before
    back <- if B.length rest == 2 then Just [] else ending (B.drop 2 rest)
    let zeros = 8 - length front - length back
    if zeros < 1 then Nothing else address (front ++ replicate zeros 0 ++ back)
  where
    some' part = if B.null part then Just [] else groups part
    groups = traverse group . C.split ':'
    ending part
      | C.elem '.' final = (++) <$> (if B.null start then Just [] else groups (B.init start)) <*> (halves <$> traverse (decimal 255) (C.split '.' final))
      | otherwise = groups part
      where
        (start, final) = C.breakEnd (== ':') part
    halves = \case
      [a, b, c, d] -> [fromIntegral (256 * a + b), fromIntegral (256 * c + d)]
      -- No address is that long.
      _ -> replicate 9 0
    group :: ByteString -> Maybe Word16
    group digits
      | B.null digits || B.length digits > 4 || not (C.all isHexDigit digits) = Nothing
      | otherwise = case readHex (C.unpack digits) of
        [(value, "")] -> Just value
        _ -> Nothing
    address = \case
      [a, b, c, d, e, f, g, h] -> Just (tupleToHostAddress6 (a, b, c, d, e, f, g, h))
      _ -> Nothing

-- Version 2 ---------------------------------------------------------------------

binary :: ByteString -> ProxyHeader
binary input
  | B.length input > 12 && version /= 2 = ProxyMalformed BadVersion
  | B.length input > 12 && command > 1 = ProxyMalformed BadCommand
  | B.length input > 13 && (family > 3 || transport > 2) = ProxyMalformed BadFamily
  | B.length input < 16 = ProxyIncomplete
  | size > longestProxyHeader = ProxyMalformed HeaderTooLong
  | B.length input < size = ProxyIncomplete
  -- The rest is to be ignored.
  | command == 0 = ProxyHeader size FromProxy
  | B.length block < addresses = ProxyMalformed AddressesCut
  | otherwise = maybe (ProxyHeader size client) ProxyMalformed (extensionsMistake (B.take size input) (16 + addresses))
  where
    version = unsafeIndex input 12 `shiftR` 4
    command = unsafeIndex input 12 .&. 15
    family = unsafeIndex input 13 `shiftR` 4
    transport = unsafeIndex input 13 .&. 15
    size = 16 + word16 input 14
    block = B.take (size - 16) (B.drop 16 input)
    -- How many bytes both addresses, and their ports, have.
    addresses = case family of
      1 -> 12
      2 -> 36
      3 -> 216
      _ -> 0
    -- Datagrams do not come by a connection.
    client
      | transport /= 1 = FromProxy
      | otherwise = case family of
        1 -> FromClient (SockAddrInet (port 8) (tupleToHostAddress (at 0, at 1, at 2, at 3)))
        2 -> FromClient (SockAddrInet6 (port 32) 0 (tupleToHostAddress6 (g 0, g 1, g 2, g 3, g 4, g 5, g 6, g 7)) 0)
        3 | path <- B.takeWhile (/= 0) (B.take 108 block), not (B.null path), B.length path < 108 -> FromClient (SockAddrUnix (C.unpack path))
        _ -> FromProxy
    at = unsafeIndex block
    g i = fromIntegral (word16 block (2 * i)) :: Word16
    port i = fromIntegral (word16 block i)

word16 :: ByteString -> Int -> Int
word16 bytes i = fromIntegral (unsafeIndex bytes i) `shiftL` 8 .|. fromIntegral (unsafeIndex bytes (i + 1))

-- What is wrong with the extensions, each a type, a length of two bytes and a value, from this offset to the header's end.
extensionsMistake :: ByteString -> Int -> Maybe ProxyMistake
extensionsMistake header = go
  where
    n = B.length header
    go at
      | at == n = Nothing
      | at + 3 > n || next > n = Just BadExtension
      | unsafeIndex header at == 0x03 = if word16 header (at + 1) /= 4 then Just BadExtension else if checked then go next else Just BadChecksum
      | otherwise = go next
      where
        next = at + 3 + word16 header (at + 1)
        -- The checksum is that of the header with zeros in its place.
        checked = crc32c (B.concat [B.take (at + 3) header, "\0\0\0\0", B.drop next header]) == fromIntegral (word16 header (at + 3)) `shiftL` 16 .|. fromIntegral (word16 header (at + 5))

-- By the bit: it is of a few hundred bytes, once for a connection.
crc32c :: ByteString -> Word32
crc32c = xor 0xffffffff . B.foldl' byte 0xffffffff
  where
    byte :: Word32 -> Word8 -> Word32
    byte crc b = iterate bit (crc `xor` fromIntegral b) !! 8
    bit crc
      | testBit crc 0 = (crc `shiftR` 1) `xor` 0x82f63b78
      | otherwise = crc `shiftR` 1
