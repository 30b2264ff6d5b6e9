{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.LogFormat
-- Description : The formats of the access log
-- Stability   : stable
--
-- Apache's two formats, JSON for programs, a short coloured line for a developer's terminal, and the operator's own. JSON and
-- the coloured line say how long a request took, for which they read the clock.
--
-- Cost: 300 to 600 ns a line; nothing allocated but the time's text, once a second.
-- Owner: the caller's memory.
module Heddle.Serve.LogFormat
  ( LogFormat (..),
    parseLogFormat,
    pokeLineAs,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Write (Write, bytes, char7, decimal, pokeWrite)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Prim.Clock (Nanos (..))
import Heddle.Serve.IsoTime (isoFromLogTime)
import Heddle.Serve.LogLine
import Heddle.Serve.LogTemplate

-- | How a line looks.
data LogFormat
  = Combined
  | Common
  | -- | An object a line.
    Json
  | -- | For people; 'True' with colours.
    Pretty !Bool
  | -- | As the operator says.
    Template !LogTemplate
  deriving stock (Eq, Show)

-- | @combined@, @common@, @json@, or a text with variables such as @$status@.
parseLogFormat :: String -> Either String LogFormat
parseLogFormat = \case
  "combined" -> Right Combined
  "common" -> Right Common
  "json" -> Right Json
  text
    | '$' `elem` text -> Template <$> parseTemplate text
    | otherwise -> Left ("'" ++ text ++ "' is not a format of the log; there are combined, common, json, and texts with variables such as '$status $request_uri'")

-- | Write the line of a request in a format, with its newline, and return the address after it. There must be room for
-- 'longestLine'.
pokeLineAs :: LogFormat -> LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokeLineAs = \case
  Combined -> pokeLogLine
  Common -> pokeCommonLine
  Json -> pokeJson
  Pretty colours -> pokePretty colours
  Template template -> \clock request what status sent -> pokeTemplate template (LogRecord clock request what status sent)

-- JSON ---------------------------------------------------------------------------

pokeJson :: LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokeJson clock request what status sent p0 = do
  text <- isoFromLogTime <$> timeText clock (requestBegan request)
  took <- tookNow request
  p1 <- pokeWrite ("{\"time\":\"" <> bytes text <> "\",\"client\":\"") p0
  p2 <- pokeClient clock request what p1
  p3 <- case what of
    LoggedGarbage -> do
      q <- pokeWrite "\",\"garbage\":\"" p2
      firstLine (\_ -> escapedForJson 1024) request q
    LoggedRequest -> do
      major <- httpMajor request
      minor <- httpMinor request
      q1 <- withMethod request . escapedForJson 64 =<< pokeWrite "\",\"method\":\"" p2
      q2 <- withTarget request . escapedForJson 1536 =<< pokeWrite "\",\"target\":\"" q1
      q3 <- pokeWrite ("\",\"protocol\":\"HTTP/" <> decimal major <> char7 '.' <> decimal minor) q2
      q4 <- field "\",\"host\":\"" HeaderHost 256 q3
      q5 <- field "\",\"referer\":\"" HeaderReferer 640 q4
      q6 <- field "\",\"user_agent\":\"" HeaderUserAgent 640 q5
      q7 <- field "\",\"request_id\":\"" HeaderXRequestId 128 q6
      q8 <- field "\",\"traceparent\":\"" HeaderTraceparent 64 q7
      notedForLog request "remote_user" >>= \case
        Nothing -> pure q8
        Just user -> pokeWrite "\",\"user\":\"" q8 >>= \q -> unsafeUseAsCStringLen user (\(from, n) -> escapedForJson 128 q (castPtr from) n)
  behind <- case what of
    LoggedGarbage -> pure Nothing
    LoggedRequest -> upstreamTime request
  pokeWrite ("\",\"status\":" <> decimal (statusCode status) <> ",\"bytes\":" <> decimal sent <> ",\"duration_us\":" <> decimal took <> maybe "" (\(Nanos n) -> ",\"upstream_us\":" <> decimal (n `quot` 1000)) behind <> "}\n") p3
  where
    field name known most p = withHeader known request $ \from n -> if n <= 0 then pure p else pokeWrite name p >>= \q -> escapedForJson most q from n

-- Pretty -------------------------------------------------------------------------

-- Time, status, size, duration, then what has no certain length.
pokePretty :: Bool -> LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)
pokePretty colours clock request what status sent p0 = do
  text <- timeText clock (requestBegan request)
  took <- tookNow request
  p1 <- pokeWrite (colour dim <> bytes (B.take 8 (B.drop 12 text)) <> char7 ' ' <> colour (ofStatus (statusCode status)) <> decimal (statusCode status) <> colour dim <> char7 ' ') p0
  p2 <- pokeWrite (padded 8 (sizeText sent) <> char7 ' ' <> padded 9 (tookText took) <> colour plain <> char7 ' ') p1
  p3 <- case what of
    LoggedGarbage -> pokeWrite "? " p2 >>= firstLine escaped request
    LoggedRequest -> withMethod request (escaped 64 p2) >>= pokeWrite (char7 ' ') >>= withTarget request . escaped 2048
  pokeWrite (char7 '\n') p3
  where
    colour :: ByteString -> Write
    colour code = if colours then bytes code else ""
    dim = "\ESC[2m"
    plain = "\ESC[0m"
    ofStatus code
      | code < 300 = "\ESC[0;32m"
      | code < 400 = "\ESC[0;36m"
      | code < 500 = "\ESC[0;33m"
      | otherwise = "\ESC[0;31m"

-- A text of at most this width, to the right.
padded :: Int -> (Int, Write) -> Write
padded width (n, text) = bytes (B.replicate (width - n) 32) <> text

-- With its width.
sizeText, tookText :: Int -> (Int, Write)
sizeText n
  | n < 1000 = (digits n + 2, decimal n <> " B")
  | n < 1000000 = tenths (n `quot` 100) " kB"
  | n < 1000000000 = tenths (n `quot` 100000) " MB"
  | otherwise = tenths (n `quot` 100000000) " GB"
tookText us
  | us < 1000 = (digits us + 3, decimal us <> " us")
  | us < 1000000 = tenths (us `quot` 100) " ms"
  | otherwise = let (width, text) = tenths (us `quot` 100000) " s" in (width - 1, text)

tenths :: Int -> Write -> (Int, Write)
tenths n unit = let (whole, part) = n `quotRem` 10 in (digits whole + 5, decimal whole <> char7 '.' <> decimal part <> unit)

digits :: Int -> Int
digits n
  | n < 10 = 1
  | otherwise = 1 + digits (n `quot` 10)
