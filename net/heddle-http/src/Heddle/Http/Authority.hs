{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Http.Authority
-- Description : Hosts with ports, as requests name them
-- Stability   : hidden; "Heddle.Http.Parse" exports it
--
-- Cost: O(length); nothing is allocated.
-- Owner: the caller's memory.
module Heddle.Http.Authority
  ( AuthorityPort (..),
    checkAuthority,
  )
where

import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Head (Slice (..))
import Heddle.Http.Scan (byteAt, isDigitByte, isHexByte, isHostByte)

-- | What a check of @host[:port]@ found.
data AuthorityPort
  = -- | Not an authority that HTTP allows.
    BadPort
  | -- | A host, or nothing at all, without a port number.
    NoPort
  | -- | A host and a port number.
    PortGiven
  deriving stock (Eq, Show)

-- | Check a host with an optional port. The host is a registered name, with its
-- percent-escapes well formed, or an address in brackets, of which only the
-- characters are checked; user information is refused. A port has at most five
-- digits and is at most 65,535. An empty slice is valid, as an empty Host is, but
-- a port without a host is not.
--
-- [Cost]: O(length); 0 bytes.
-- [Source]: RFC 9110, sections 4.2.1, 4.2.4 and 7.2; RFC 3986, section 3.2.
checkAuthority :: Ptr Word8 -> Slice -> IO AuthorityPort
checkAuthority !buffer (Slice from len)
  | len == 0 = pure NoPort
  | otherwise = do
    byte <- byteAt buffer from
    if byte == 0x5B then literal (from + 1) (0 :: Int) else name from
  where
    !end = from + len

    name !i
      | i >= end = pure NoPort
      | otherwise = do
        byte <- byteAt buffer i
        if
            | isHostByte byte -> name (i + 1)
            | byte == 0x3A && i > from -> port (i + 1)
            | byte == 0x25 && i + 2 < end -> do
              high <- byteAt buffer (i + 1)
              low <- byteAt buffer (i + 2)
              if isHexByte high && isHexByte low then name (i + 3) else pure BadPort
            | otherwise -> pure BadPort

    literal !i !colons
      | i >= end = pure BadPort
      | otherwise = do
        byte <- byteAt buffer i
        if
            | byte == 0x3A -> literal (i + 1) (colons + 1)
            | isHexByte byte || byte == 0x2E -> literal (i + 1) colons
            | byte == 0x5D && colons >= 2 -> afterLiteral (i + 1)
            | otherwise -> pure BadPort

    afterLiteral !i
      | i >= end = pure NoPort
      | otherwise = do
        byte <- byteAt buffer i
        if byte == 0x3A then port (i + 1) else pure BadPort

    port !i
      | i == end = pure NoPort
      | end - i > 5 = pure BadPort
      | otherwise = digits i 0

    digits !i !acc
      | i >= end = pure $! (if acc <= (65535 :: Int) then PortGiven else BadPort)
      | otherwise = do
        byte <- byteAt buffer i
        if isDigitByte byte
          then digits (i + 1) (acc * 10 + fromIntegral byte - 48)
          else pure BadPort
