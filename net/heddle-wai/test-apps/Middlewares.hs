{-# LANGUAGE OverloadedStrings #-}

-- | wai-app-static, and the middlewares of wai-extra.
module Middlewares (tests) where

import Codec.Compression.GZip qualified as GZip
import Control.Concurrent (threadDelay)
import Control.Monad (void)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Data.Maybe (fromMaybe)
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Application.Static
import Network.Wai.Middleware.AcceptOverride (acceptOverride)
import Network.Wai.Middleware.AddHeaders (addHeaders)
import Network.Wai.Middleware.Autohead (autohead)
import Network.Wai.Middleware.Gzip
import Network.Wai.Middleware.HttpAuth (basicAuth)
import Network.Wai.Middleware.Jsonp (jsonp)
import Network.Wai.Middleware.Local (local)
import Network.Wai.Middleware.MethodOverride (methodOverride)
import Network.Wai.Middleware.MethodOverridePost (methodOverridePost)
import Network.Wai.Middleware.RequestLogger
import Network.Wai.Middleware.RequestSizeLimit
import Network.Wai.Middleware.Rewrite (rewritePureWithQueries)
import Network.Wai.Middleware.StreamFile (streamFile)
import Network.Wai.Middleware.StripHeaders (stripHeader)
import Network.Wai.Middleware.Timeout (timeout)
import Network.Wai.Middleware.Vhost (vhost)
import Network.Wai.Parse
import Servers
import System.Log.FastLogger (fromLogStr)
import Test.Tasty
import Test.Tasty.HUnit

tests :: FilePath -> TestTree
tests folder =
  testGroup
    "middlewares"
    [ testCase "wai-app-static" . withBoth (pure (staticApp (defaultFileServerSettings folder))) $ \ask -> do
        ask "GET" "/file" [] "" >>= says 200 "abcdefghij"
        ask "GET" "/file" [("Range", "bytes=1-2")] "" >>= says 206 "bc"
        ask "GET" "/none" [] "" >>= hasCode 404
        ask "POST" "/file" [] "" >>= hasCode 405
        ask "GET" "/../file" [] "" >>= hasCode 403
        page <- ask "GET" "/page.html" [] ""
        header' "Content-Type" page @?= Just "text/html"
        B.length (body page) @?= 22000,
      testCase "gzip, of a builder, a stream and a file" $ do
        let content = C.concat (replicate 1000 "compressible ")
            application request respond = case rawPathInfo request of
              "/builder" -> respond (responseBuilder status200 text (byteString content))
              "/stream" -> respond (responseStream status200 text (\write flush -> write (byteString content) >> flush >> write (byteString content)))
              _ -> respond (responseFile status200 text (folder ++ "/page.html") Nothing)
        withBoth (pure (gzip def {gzipFiles = GzipCompress} application)) $ \ask -> do
          let asks path expected = do
                plain <- ask "GET" path [] ""
                says 200 expected plain
                packed <- ask "GET" path [("Accept-Encoding", "gzip")] ""
                header' "Content-Encoding" packed @?= Just "gzip"
                L.toStrict (GZip.decompress (L.fromStrict (body packed))) @?= expected
          asks "/builder" content
          asks "/stream" (content <> content)
          asks "/file" (C.concat (replicate 2000 "<p>page</p>")),
      testCase "autohead, methodOverride, methodOverridePost, acceptOverride" $ do
        let application request respond = respond (responseLBS status200 [("Method", requestMethod request), ("Accepts", fromMaybe "" (lookup "accept" (requestHeaders request)))] "content")
        withBoth (pure (autohead (methodOverride (methodOverridePost (acceptOverride application))))) $ \ask -> do
          ask "HEAD" "/" [] "" >>= \said -> hasCode 200 said >> (header' "Method" said @?= Just "GET")
          ask "POST" "/?_method=DELETE" [] "" >>= \said -> header' "Method" said @?= Just "DELETE"
          ask "POST" "/" [form] "_method=PUT&x=1" >>= \said -> header' "Method" said @?= Just "PUT"
          ask "GET" "/?_accept=text/x" [] "" >>= \said -> header' "Accepts" said @?= Just "text/x",
      testCase "basicAuth" . withBoth (pure (basicAuth (\user password -> pure (user == "ann" && password == "secret")) "realm" hello)) $ \ask -> do
        refused <- ask "GET" "/" [] ""
        hasCode 401 refused
        header' "WWW-Authenticate" refused @?= Just "Basic realm=\"realm\""
        ask "GET" "/" [("Authorization", "Basic YW5uOnNlY3JldA==")] "" >>= says 200 "hello",
      testCase "addHeaders, stripHeader, rewrite, vhost, local, jsonp" $ do
        let application request respond = respond (responseLBS status200 [("X-Strip", "1"), (hContentType, "application/json"), ("Path", rawPathInfo request)] "[1]")
            wrapped =
              vhost [((== Just "special") . requestHeaderHost, hello)] . local (responseLBS status403 [] "not local") . jsonp . addHeaders [("X-Add", "2")] . stripHeader' . rewritePureWithQueries (\(pieces, query) _ -> (if pieces == ["old"] then ["new"] else pieces, query)) $ application
            stripHeader' inner request respond = inner request (respond . stripHeader "X-Strip")
        withBoth (pure wrapped) $ \ask -> do
          said <- ask "GET" "/a" [] ""
          says 200 "[1]" said
          (header' "X-Add" said, header' "X-Strip" said) @?= (Just "2", Nothing)
          ask "GET" "/a?callback=f" [("Accept", "text/javascript")] "" >>= says 200 "f([1])"
          ask "GET" "/old" [] "" >>= \said2 -> header' "Path" said2 @?= Just "new"
          ask "GET" "/" [("Host", "special")] "" >>= says 200 "hello",
      testCase "requestSizeLimitMiddleware" . withBoth (pure (requestSizeLimitMiddleware (setMaxLengthForRequest (\_ -> pure (Just 10)) defaultRequestSizeLimitSettings) echo)) $ \ask -> do
        ask "POST" "/" [] "0123456789" >>= says 200 "0123456789"
        ask "POST" "/" [] "0123456789a" >>= hasCode 413
        ask "POST" "/" [] "after" >>= says 200 "after",
      testCase "timeout" $ do
        let slow request respond = threadDelay 30000000 >> hello request respond
            application request = if rawPathInfo request == "/slow" then timeout 1 slow request else timeout 5 hello request
        withBoth (pure application) $ \ask -> do
          ask "GET" "/slow" [] "" >>= hasCode 503
          ask "GET" "/" [] "" >>= says 200 "hello",
      testCase "streamFile" . withBoth (pure (streamFile (\_ respond -> respond (responseFile status200 [] (folder ++ "/file") Nothing)))) $ \ask ->
        ask "GET" "/" [] "" >>= says 200 "abcdefghij",
      testCase "RequestLogger" $ do
        heard <- newIORef ""
        logger <- mkRequestLogger defaultRequestLoggerSettings {destination = Callback (\line -> modifyIORef heard (<> fromLogStr line)), outputFormat = Apache FromSocket}
        withBoth (pure (logger hello)) $ \ask -> ask "GET" "/logged?x" [] "" >>= says 200 "hello"
        void (eventually "two lines" (readIORef heard) ((== 2) . length . C.lines))
        text' <- readIORef heard
        assertBool (show text') (all ("\"GET /logged?x HTTP/1.1\" 200 " `B.isInfixOf`) (C.lines text') && all ("127.0.0.1" `B.isPrefixOf`) (C.lines text')),
      testCase "Network.Wai.Parse" $ do
        let application request respond = do
              (fields, files) <- parseRequestBody lbsBackEnd request
              respond (responseLBS status200 [] (L.fromStrict (C.pack (show (fields, [(name, fileName info, fileContent info) | (name, info) <- files])))))
        withBoth (pure application) $ \ask -> do
          ask "POST" "/" [form] "a=1&b=2" >>= says 200 "([(\"a\",\"1\"),(\"b\",\"2\")],[])"
          ask "POST" "/" [("Content-Type", "multipart/form-data; boundary=b")] "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\nx\r\n--b--\r\n"
            >>= says 200 "([],[(\"f\",\"n\",\"x\")])"
    ]
  where
    text = [(hContentType, "text/plain")]

hello, echo :: Application
hello _ respond = respond (responseLBS status200 [(hContentType, "text/plain")] "hello")
echo request respond = strictRequestBody request >>= respond . responseLBS status200 []
