{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.LogLine
-- Description : Apache's combined log format, straight into memory
-- Stability   : internal, exempt from the version policy
--
-- Peer, time, request line, status, bytes, Referer and User-Agent, copied from the
-- connection's memory and escaped as Apache does: quotes and backslashes with a backslash,
-- bytes outside printable ASCII as @\\xhh@. Long fields are cut.
--
-- Cost: about 300 ns for a browser's request; nothing allocated.
-- Owner: the caller's memory.
-- [Source]: Mighttpd, section on logging (direct copying, own address printer, zoned time
-- once a second).
module Heddle.Serve.LogLine
  ( LogClock,
    newLogClock,
    newLogClockTrusting,
    pokeLogLine,
    pokeCommonLine,
    longestLine,

    -- * Parts, for other formats
    timeText,
    pokeClient,
    pokePeer,
    firstLine,
    escaped,
    escapedForJson,
  )
where

import Control.Monad (void, when)
import Data.Bits (complement, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (create)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word64, Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff)
import Heddle.Bytes.Address (pokeIPv6)
import Heddle.Bytes.HttpDate (logTimeLength, pokeLogTime)
import Heddle.Bytes.Write (bytes, char7, decimal, hexFixed, ipv4, pokeWrite)
import Heddle.Gateway.Proxy (Network)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Serve.RealClient (realClient)

-- | What the lines of a capability share: the text of the current second in local time, and whom to believe.
data LogClock = LogClock
  { -- | Word 0: the monotonic time at which the text expires.
    clockWords :: !Words,
    clockText :: !(Ref ByteString),
    -- | Proxies whose X-Forwarded-For names the client.
    clockTrusted :: ![Network]
  }

-- | A clock whose first use reads the time.
newLogClock :: IO LogClock
newLogClock = newLogClockTrusting []

-- | The same; lines name the client that proxies in these networks name, instead of the proxy.
newLogClockTrusting :: [Network] -> IO LogClock
newLogClockTrusting trusted = (\ws text -> LogClock ws text trusted) <$> newWords 1 <*> newRef ""

-- | The current second, such as @21\/Nov\/2026:20:14:07 +0100@.
timeText :: LogClock -> Deadline -> IO ByteString
timeText clock (Deadline now) = do
  next <- readWord (clockWords clock) 0
  when (now >= next) $ do
    (second, Nanos over) <- epochNowExactly
    ahead <- utcOffsetMinutes second
    text <- BI.create logTimeLength (\p -> void (pokeLogTime p second ahead))
    writeRef (clockText clock) text
    writeWord (clockWords clock) 0 (now + 1000000000 - over)
  readRef (clockText clock)

-- | The length of the longest line.
--
-- [Units]: bytes.
longestLine :: Int
longestLine = 4096

-- | Write the line of a request, with its newline, and return the address after it. There
-- must be room for 'longestLine'.
pokeLogLine :: LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokeLogLine clock request what status sent p0 = do
  p5 <- pokeCommon clock request what status sent p0
  p6 <- field HeaderReferer 768 =<< pokeWrite " \"" p5
  p7 <- field HeaderUserAgent 512 =<< pokeWrite "\" \"" p6
  pokeWrite "\"\n" p7
  where
    field known most p = case what of
      LoggedGarbage -> pokeWrite (char7 '-') p
      LoggedRequest -> withHeader known request $ \from n ->
        if n <= 0 then pokeWrite (char7 '-') p else escaped most p from n

-- | The same in the common format, which has neither Referer nor User-Agent.
pokeCommonLine :: LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokeCommonLine clock request what status sent p = pokeCommon clock request what status sent p >>= pokeWrite (char7 '\n')

pokeCommon :: LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokeCommon clock request what status sent p0 = do
  text <- timeText clock (requestBegan request)
  p1 <- pokeClient clock request what p0
  q <- pokeWrite " - " p1 >>= pokeUser request what
  p2 <- pokeWrite (" [" <> bytes text <> "] \"") q
  p3 <- case what of
    LoggedGarbage -> firstLine escaped request p2
    LoggedRequest -> do
      major <- httpMajor request
      minor <- httpMinor request
      q1 <- withMethod request (escaped 64 p2)
      q2 <- withTarget request . escaped 2048 =<< pokeWrite (char7 ' ') q1
      pokeWrite (" HTTP/" <> decimal major <> char7 '.' <> decimal minor) q2
  p4 <- pokeWrite ("\" " <> decimal (statusCode status) <> char7 ' ') p3
  if sent == 0 then pokeWrite (char7 '-') p4 else pokeWrite (decimal sent) p4
{-# INLINE pokeCommon #-}

-- The user whose password was right. A space would end the field.
pokeUser :: Request -> Logged -> Ptr Word8 -> IO (Ptr Word8)
pokeUser request what p0 = case what of
  LoggedGarbage -> nobody
  LoggedRequest -> notedForLog request "remote_user" >>= maybe nobody (go p0 . C.split ' ')
  where
    nobody = pokeWrite (char7 '-') p0
    most = 128
    go p parts = do
      let room = most - (p `minusPtr` p0)
      case parts of
        part : others | room > 4 -> do
          q <- unsafeUseAsCStringLen part (\(from, n) -> escaped room p (castPtr from) n)
          if null others then pure q else pokeWrite "\\x20" q >>= \r -> go r others
        _ -> pure p

-- | The first line of bytes that are not a valid request, with these escapes.
firstLine :: (Int -> Ptr Word8 -> Ptr Word8 -> Int -> IO (Ptr Word8)) -> Request -> Ptr Word8 -> IO (Ptr Word8)
firstLine escape request p = withReceived request $ \input received -> do
  n <- garbageLength input received
  escape 512 p input n

-- The length of the first line of what was received, at most 512.
garbageLength :: Ptr Word8 -> Int -> IO Int
garbageLength input received = lineEnd 0
  where
    most = min 512 received
    lineEnd :: Int -> IO Int
    lineEnd i
      | i >= most = pure most
      | otherwise = do
        b <- peekByteOff input i :: IO Word8
        if b == 10 || b == 13 then pure i else lineEnd (i + 1)

-- | The client's address: the peer's, unless the peer is a trusted proxy that names its client.
pokeClient :: LogClock -> Request -> Logged -> Ptr Word8 -> IO (Ptr Word8)
pokeClient clock request what p
  | null (clockTrusted clock) = pokePeer p (peer request)
  | otherwise = do
    named <- case what of
      LoggedGarbage -> pure Nothing
      LoggedRequest -> realClient (clockTrusted clock) request
    maybe (pokePeer p (peer request)) (\text -> pokeWrite (bytes text) p) named

-- | The peer's address; one of IPv4 that has come by a socket of IPv6, or in a header of the PROXY protocol, as IPv4's. It is first
-- copied into the free space after the text, so nothing is allocated.
pokePeer :: Ptr Word8 -> ShortByteString -> IO (Ptr Word8)
pokePeer p address
  | n >= 8 && family == 2 = four 4
  | n >= 24 && family == 10 = if isMapped then four 20 else raw 8 16 >> pokeIPv6 p behind
  | otherwise = pokeWrite "unix:" p
  where
    n = Short.length address
    family = if n >= 2 then Short.index address 0 else 0
    behind = p `plusPtr` 64
    four from = raw from 4 >> peek (castPtr behind) >>= \w -> pokeWrite (ipv4 w) p
    isMapped = zeros 8 && Short.index address 18 == 0xFF && Short.index address 19 == 0xFF
    zeros i = i == 18 || (Short.index address i == 0 && zeros (i + 1))
    raw :: Int -> Int -> IO ()
    raw from count = go 0
      where
        go i = when (i < count) $ do
          pokeByteOff behind i (Short.index address (from + i))
          go (i + 1)

-- | @escaped most to from length@ writes a field, escaped, in at most @most@ bytes, and returns
-- the address after it.
escaped :: Int -> Ptr Word8 -> Ptr Word8 -> Int -> IO (Ptr Word8)
escaped most p from n = plainRun 0
  where
    -- A field without anything to escape is copied at once; eight bytes are tested at a time.
    plainRun :: Int -> IO (Ptr Word8)
    plainRun i
      | i + 8 <= n = do
        w <- peekByteOff from i
        if allPlain w then plainRun (i + 8) else slowly 0 p
      | i < n = do
        b <- peekByteOff from i :: IO Word8
        if isPlain b then plainRun (i + 1) else slowly 0 p
      | otherwise = do
        let len = min n most
        copyBytes p from len
        pure (p `plusPtr` len)
    slowly :: Int -> Ptr Word8 -> IO (Ptr Word8)
    slowly i q
      | i == n || (q `minusPtr` p) + 4 > most = pure q
      | otherwise = do
        b <- peekByteOff from i :: IO Word8
        if isPlain b
          then poke q b >> slowly (i + 1) (q `plusPtr` 1)
          else
            if b == 0x22 || b == 0x5C
              then poke q 0x5C >> pokeByteOff q 1 b >> slowly (i + 1) (q `plusPtr` 2)
              else do
                -- 'hexFixed' stores eight bytes for the two digits; a line has room for them.
                pokeWrite ("\\x" <> hexFixed 2 (fromIntegral b)) q >>= slowly (i + 1)

-- | @escapedForJson most to from length@ writes the inside of a JSON string in at most @most@ bytes. Bytes that are not ASCII
-- are escaped one by one, since a client may send any, and a line must be JSON.
escapedForJson :: Int -> Ptr Word8 -> Ptr Word8 -> Int -> IO (Ptr Word8)
escapedForJson most p from n = go 0 p
  where
    go :: Int -> Ptr Word8 -> IO (Ptr Word8)
    go i q
      | i >= n || (q `minusPtr` p) + 6 > most = pure q
      | otherwise = do
        b <- peekByteOff from i :: IO Word8
        next b q >>= go (i + 1)
    next :: Word8 -> Ptr Word8 -> IO (Ptr Word8)
    next b q
      | b == 0x22 || b == 0x5C = poke q 0x5C >> poke (q `plusPtr` 1) b >> pure (q `plusPtr` 2)
      | b >= 0x20 && b < 0x7F = poke q b >> pure (q `plusPtr` 1)
      | otherwise = pokeWrite ("\\u00" <> hexFixed 2 (fromIntegral b)) q

isPlain :: Word8 -> Bool
isPlain b = b >= 0x20 && b < 0x7F && b /= 0x22 && b /= 0x5C
{-# INLINE isPlain #-}

-- Whether all eight bytes are plain. A byte's high bit is set in one of the terms when the byte
-- is below 0x20, 0x7F or above, a quote or a backslash. Borrows can set further bits, which
-- costs a slower pass, but clear none.
allPlain :: Word64 -> Bool
allPlain w = (low .|. high .|. zeroIn (w `xor` 0x2222222222222222) .|. zeroIn (w `xor` 0x5C5C5C5C5C5C5C5C)) .&. 0x8080808080808080 == 0
  where
    low = w - 0x2020202020202020
    high = w .|. (w + 0x0101010101010101)
    zeroIn x = (x - 0x0101010101010101) .&. complement x
{-# INLINE allPlain #-}
