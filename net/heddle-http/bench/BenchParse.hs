{-# LANGUAGE OverloadedStrings #-}

-- | How long a request head takes to parse: nanoseconds of processor time and
-- bytes allocated per head, the median of eleven rounds.
module Main (main) where

import Control.Monad (replicateM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.List (sort)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import GHC.Conc (getAllocationCounter)
import Heddle.Http.Internal (FramingResult (NoBody), HeadTable, Parsed (Done, More), defaultLimits, framingOf, newHeadTable, parseHead, startHead)
import System.CPUTime (getCPUTime)
import System.Exit (die)
import Text.Printf (printf)

main :: IO ()
main = do
  table <- newHeadTable 100
  measure "parse/16-headers" browser (whole table)
  measure "parse/16-headers+framing" browser (framed table)
  measure "parse/1-header" "GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n" (whole table)
  measure "parse/16-headers-bytewise" browser (bytewise table)

-- | A browser's request for a page.
browser :: ByteString
browser =
  B.concat
    [ "GET /docs/reference/index.html?q=heddle HTTP/1.1\r\n",
      "Host: www.example.org:8080\r\n",
      "Connection: keep-alive\r\n",
      "Cache-Control: max-age=0\r\n",
      "sec-ch-ua: \"Chromium\";v=\"120\", \"Not A;Brand\";v=\"24\"\r\n",
      "sec-ch-ua-mobile: ?0\r\n",
      "sec-ch-ua-platform: \"Linux\"\r\n",
      "Upgrade-Insecure-Requests: 1\r\n",
      "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\r\n",
      "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n",
      "Sec-Fetch-Site: none\r\n",
      "Sec-Fetch-Mode: navigate\r\n",
      "Sec-Fetch-Dest: document\r\n",
      "Referer: http://www.example.org:8080/docs/\r\n",
      "Accept-Encoding: gzip, deflate, br\r\n",
      "Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n",
      "X-Trace-Label: a1b2c3d4e5f6\r\n",
      "\r\n"
    ]

whole :: HeadTable -> Ptr Word8 -> Int -> IO Bool
whole table buffer len = do
  startHead table
  parsed <- parseHead defaultLimits buffer len table
  case parsed of
    Done n -> pure $! n == len
    _ -> pure False

framed :: HeadTable -> Ptr Word8 -> Int -> IO Bool
framed table buffer len = do
  ok <- whole table buffer len
  framing <- framingOf defaultLimits buffer table
  case framing of
    NoBody -> pure ok
    _ -> pure False

bytewise :: HeadTable -> Ptr Word8 -> Int -> IO Bool
bytewise table buffer len = startHead table >> go 1
  where
    go n = do
      parsed <- parseHead defaultLimits buffer n table
      case parsed of
        More | n < len -> go (n + 1)
        Done consumed -> pure $! consumed == len
        _ -> pure False

measure :: String -> ByteString -> (Ptr Word8 -> Int -> IO Bool) -> IO ()
measure name input parse = unsafeUseAsCStringLen input $ \(start, len) -> do
  let repetitions = 50000 :: Int
      loop :: Int -> IO ()
      loop 0 = pure ()
      loop n = do
        ok <- parse (castPtr start) len
        if ok then loop (n - 1) else die (name ++ ": the head was not parsed")
      perHead total = fromIntegral (total :: Integer) / fromIntegral repetitions :: Double
      oneRound = do
        allocated <- getAllocationCounter
        begun <- getCPUTime
        loop repetitions
        ended <- getCPUTime
        allocatedAfter <- getAllocationCounter
        pure (perHead (ended - begun) / 1000, perHead (toInteger (allocated - allocatedAfter)))
  rounds <- replicateM 11 oneRound
  let nanos = sort (map fst rounds)
      bytes = minimum (map snd rounds)
  printf
    "%-28s %7.1f ns [%.1f, %.1f]  %5.1f B/op  (%d bytes)\n"
    name
    (nanos !! 5)
    (head nanos)
    (last nanos)
    bytes
    len
