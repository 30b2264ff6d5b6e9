{-# LANGUAGE OverloadedStrings #-}

-- | What an application sees of a request: as Warp shows it.
module Requests (tests) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.CaseInsensitive qualified as CI
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Vault.Lazy qualified as Vault
import Fixture
import Heddle.Testkit.HttpClient
import Network.HTTP.Types
import Network.Socket (SockAddr (..), hostAddressToTuple)
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "requests"
    [ testGroup
        "as Warp shows them"
        [ testCase (C.unpack (C.takeWhile (/= '\r') text)) $ do
            ours <- seenBy withHeddle text
            theirs <- seenBy withWarp text
            ours @?= theirs
          | text <- texts
        ],
      testCase "fields are readable after the response, and in another request" $ do
        kept <- newIORef []
        let application request respond = modifyIORef kept (request :) >> respond (responseLBS status200 [] "")
        withHeddle application $ \client -> forM_ [1 :: Int .. 3] $ \n -> do
          say client (C.concat ["GET /", C.pack (show n), "?x=", C.pack (show n), " HTTP/1.1\r\nHost: h", C.pack (show n), "\r\nX-N: ", C.pack (show n), "\r\n\r\n"])
          hearAnswer client >>= answersWith 200 ""
        requests <- reverse <$> readIORef kept
        [(rawPathInfo r, queryString r, requestHeaderHost r, lookup "x-n" (requestHeaders r)) | r <- requests]
          @?= [(C.pack ('/' : show n), [("x", Just (C.pack (show n)))], Just (C.pack ('h' : show n)), Just (C.pack (show n))) | n <- [1 :: Int .. 3]],
      testCase "spellingOfWellKnownHeadersWasLost" $ do
        seen <- newEmptyMVar
        let names = ["hOST", "X-Real-IP", "x-real-ip", "X-Real-Ip", "USER-AGENT", "User-Agent", "user-agent", "ETag", "TE", "DNT", "WWW-Authenticate", "x-Other"]
        _ <- withHeddle (\request respond -> putMVar seen (requestHeaders request) >> respond (responseLBS status200 [] "")) $ \client -> do
          say client (C.concat ("GET / HTTP/1.1\r\n" : [name <> ": h\r\n" | name <- names] ++ ["\r\n"]))
          hearAnswer client
        heard <- takeMVar seen
        map (CI.original . fst) heard @?= names
        lookup "x-REAL-ip" heard @?= Just "h",
      testCase "the peer's address" $ do
        seen <- newEmptyMVar
        _ <- withHeddle (\request respond -> putMVar seen (remoteHost request, isSecure request) >> respond (responseLBS status200 [] "")) $ \client ->
          say client (get "/") >> hearAnswer client
        takeMVar seen >>= \case
          (SockAddrInet _ host, False) -> hostAddressToTuple host @?= (127, 0, 0, 1)
          other -> assertFailure (show other),
      testCase "the vault is a request's own" $ do
        key <- Vault.newKey
        let inner request respond = respond (responseLBS status200 [] (fromMaybe "none" (Vault.lookup key (vault request))))
            outer request = inner request {vault = Vault.insert key "kept" (vault request)}
        withHeddle outer $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "kept",
      testCase "an unparsed path keeps an absolute target" $ do
        let application request respond = respond (responseLBS status200 [("Query", rawQueryString request)] (L.fromStrict (rawPathInfo request)))
        withHeddleSettings (Heddle.setNoParsePath True Heddle.defaultSettings) application $ \address -> withClient address $ \client -> do
          say client "GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n"
          answer <- hearAnswer client
          (answerBody answer, answerHeader answer "query") @?= ("http://a/b", Just "?c"),
      testCase "what is no request is refused before the application" $
        forM_ ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"] $ \text ->
          withHeddle (\_ _ -> assertFailure "the application was called") $ \client -> do
            say client text
            codes <- hearCodes client
            assertBool (show codes) (codes `elem` [[400], [505]])
    ]

texts :: [ByteString]
texts =
  [ "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a/b%20c/%C3%A4/?x=1&y&z=%26 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    "GET //a//? HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://example.org/p?q HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://example.org HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "HEAD /x HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "BREW /pot HTTP/1.1\r\nHost: a\r\nuser-agent: me\r\nREFERER: there\r\nRange: bytes=0-1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one: 2\r\nCookie: a=b\r\nAccept-Encoding: gzip\r\nX-Empty:\r\n\r\n",
    "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "PUT /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
  ]

-- Everything that an application can see, as text.
seenBy :: (Application -> (Client -> IO String) -> IO String) -> ByteString -> IO String
seenBy on text = do
  seen <- newEmptyMVar
  let application request respond = do
        body <- strictRequestBody request
        putMVar seen $
          unlines
            [ show (requestMethod request),
              show (httpVersion request),
              show (rawPathInfo request),
              show (rawQueryString request),
              show (pathInfo request),
              show (queryString request),
              show [(CI.foldedCase name, value) | (name, value) <- requestHeaders request],
              show (requestHeaderHost request, requestHeaderRange request, requestHeaderReferer request, requestHeaderUserAgent request),
              show (isSecure request),
              case requestBodyLength request of ChunkedBody -> "chunked"; KnownLength n -> show n,
              show body
            ]
        respond (responseLBS status200 [] "")
  on application $ \client -> say client text >> takeMVar seen <* hearSome client
