{-# LANGUAGE OverloadedStrings #-}

-- | Requests that two readers could divide differently. Whatever the proxy makes of one, it forwards as many requests as it has read: three servers of
-- others log as many as have been answered.
module ProxySmuggling
  ( tests,
  )
where

import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Http (Pace (..), Settings (..), defaultSettings)
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Clock (milliseconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import ProxyFixture
import ProxyPeers hiding (tests)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool)

tests :: TestTree
tests = testGroup "smuggling" [differential "nginx" withNginx, differential "h2o" withH2o, differential "Python" withPython]

differential :: String -> ((Upstreamed -> IO ()) -> IO ()) -> TestTree
differential name with = peerTest name (show (length attacks) ++ " requests through the proxy to " ++ name) . with $ \up -> do
  answered <- newIORef (0 :: Int)
  withFront Epoll defaultSettings {settingBodyPace = Pace (milliseconds 300) 1000} (patient "" [upstreamedAddress up]) $ \front -> do
    forM_ (zip [1 :: Int ..] attacks) $ \(i, attack) -> do
      let marked = B.intercalate (C.pack ("/" ++ show i)) (splitOn "/@" attack)
      answers <- withClient (frontAddress front) $ \client -> do
        say client (marked <> "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        hearAll client
      let theirs = length [() | answer <- answers, maybe False (upstreamedServer up `B.isPrefixOf`) (answerHeader answer "server")]
      modifyIORef' answered (+ theirs)
      expected <- readIORef answered
      lines' <- eventually "a line for each answer" (upstreamedLog up) ((>= expected) . length)
      unless (length lines' == expected) $
        unexpected (show theirs ++ " requests of " ++ show marked) ("more: " ++ show (drop (expected - theirs) lines'))
    total <- readIORef answered
    -- The attacks that are merely odd get through, and so does what follows those.
    assertBool (show total) (total >= 20)

splitOn :: ByteString -> ByteString -> [ByteString]
splitOn separator bytes = case B.breakSubstring separator bytes of
  (one, rest)
    | B.null rest -> [one]
    | otherwise -> one : splitOn separator (B.drop (B.length separator) rest)

attacks :: [ByteString]
attacks =
  [ post ["Content-Length: 6", "Transfer-Encoding: chunked"] "0\r\n\r\nX",
    post ["Transfer-Encoding: chunked", "Content-Length: 6"] "0\r\n\r\nX",
    post ["Content-Length: 0", "Content-Length: 45"] inner,
    post ["Content-Length: 45", "Content-Length: 0"] inner,
    post ["Content-Length: 45, 45"] inner,
    post ["Content-Length: 0, 45"] inner,
    post ["Content-Length: +45"] inner,
    post ["Content-Length: -1"] inner,
    post ["Content-Length: 0x2F"] inner,
    post ["Content-Length: 45 "] inner,
    post ["Content-Length: 4 5"] inner,
    post ["Content-Length:"] inner,
    post ["Content-Length: 18446744073709551661"] inner,
    post ["Content-Length : 45"] inner,
    post ["Content-Length\t: 45"] inner,
    post ["Content_Length: 45"] inner,
    post ["Content-Length: 0", "Content_Length: 45"] inner,
    post ["Content-Length: 45", "Content_Length: 0"] inner,
    post ["Content-Length: 0", "Transfer_Encoding: chunked"] inner,
    post ["Content\0-Length: 45"] inner,
    post ["\0Content-Length: 45"] inner,
    post [" Content-Length: 45"] inner,
    post ["X: y", " Content-Length: 45"] inner,
    post ["X: y\r\n\tContent-Length: 45"] inner,
    post ["X: y\nContent-Length: 45"] inner,
    post ["X: y\rContent-Length: 45"] inner,
    post ["X: y\0\r\nContent-Length: 45"] inner,
    post ["Transfer-Encoding: chunked"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding : chunked", "Content-Length: 45"] inner,
    post ["Transfer-Encoding: xchunked", "Content-Length: 45"] inner,
    post ["Transfer-Encoding: chunked, identity"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: identity, chunked"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: identity", "Content-Length: 45"] inner,
    post ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: chunked;q=1"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: \"chunked\""] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: \vchunked"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding:\n chunked"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding: chunked\n"] ("0\r\n\r\n" <> inner),
    post ["Transfer-Encoding:"] inner,
    post ["Transfer-Encoding: gzip"] inner,
    post ["Transfer-Encoding: CHUNKED"] ("0\r\n\r\n" <> inner),
    post ["transfer-encoding: chunked"] ("2D\r\n" <> inner <> "\r\n0\r\n\r\n"),
    chunked ("0x0\r\n\r\n" <> inner),
    chunked ("+0\r\n\r\n" <> inner),
    chunked ("0 \r\n\r\n" <> inner),
    chunked ("00000000000000000\r\n\r\n" <> inner),
    chunked ("FFFFFFFFFFFFFFFF\r\n" <> inner),
    chunked ("10000000000000000\r\n" <> inner),
    chunked ("0;x\n\r\n\r\n" <> inner),
    chunked ("0;x\r\r\n\r\n" <> inner),
    chunked ("0;\0\r\n\r\n" <> inner),
    chunked ("0\n\n" <> inner),
    chunked ("0\r\n\n" <> inner),
    chunked ("1\r\nXX\r\n0\r\n\r\n" <> inner),
    chunked ("1\r\nX\n0\r\n\r\n" <> inner),
    chunked ("2\r\nX\r\n0\r\n\r\n" <> inner),
    chunked ("0\r\nContent-Length: 45\r\n\r\n" <> inner),
    chunked ("0\r\nHost: evil\r\nTransfer-Encoding: chunked\r\n\r\n" <> inner),
    chunked "0\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    chunked ("5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n" <> inner),
    post ["Connection: Content-Length", "Content-Length: 45"] inner,
    post ["Connection: Transfer-Encoding", "Transfer-Encoding: chunked"] ("2D\r\n" <> inner <> "\r\n0\r\n\r\n"),
    post ["Connection: close, Host", "Content-Length: 45"] inner,
    post ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", "Content-Length: 45"] inner,
    post ["Upgrade: websocket", "Connection: Upgrade", "Content-Length: 45"] inner,
    post ["Expect: 100-continue", "Content-Length: 45"] inner,
    post ["Expect: 100-continue", "Expect: x", "Content-Length: 45"] inner,
    get' ["Content-Length: 45"] inner,
    get' ["Transfer-Encoding: chunked"] ("2D\r\n" <> inner <> "\r\n0\r\n\r\n"),
    get' [] inner,
    get' ["X: " <> "y\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a"] "",
    "GET /@%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /@\r\nX HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /@ HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /@ HTTP/1.1\nHost: a\n\n",
    "GET /@\r\n",
    "GET http://b/@ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://b\\@a/@ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET //@/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /@ HTTP/1.0\r\nContent-Length: 45\r\nConnection: keep-alive\r\n\r\n" <> inner,
    "POST /@ HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" <> inner,
    "GET /@ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET /@ HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "\r\nGET /@ HTTP/1.1\r\nHost: a\r\n\r\n",
    "DELETE /@ HTTP/1.1\r\nHost: a\r\nContent-Length: 45\r\n\r\n" <> inner,
    "BREW /@ HTTP/1.1\r\nHost: a\r\nContent-Length: 45\r\n\r\n" <> inner,
    "PUT /@ HTTP/1.1\r\nHost: a\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 45\r\n\r\n" <> inner
  ]
  where
    post lines' body = B.concat (["POST /@ HTTP/1.1\r\nHost: a\r\n"] ++ map (<> "\r\n") lines' ++ ["\r\n", body])
    get' lines' body = B.concat (["GET /@ HTTP/1.1\r\nHost: a\r\n"] ++ map (<> "\r\n") lines' ++ ["\r\n", body])
    chunked = post ["Transfer-Encoding: chunked"]

-- 45 bytes that are a request by themselves.
inner :: ByteString
inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\nX-Pad: 1\r\n\r\n"
