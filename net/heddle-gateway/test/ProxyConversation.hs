{-# LANGUAGE OverloadedStrings #-}

-- | What a proxy makes of requests and answers that are well formed.
module ProxyConversation
  ( tests,
  )
where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM_, forever, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import GHC.Clock (getMonotonicTime)
import Heddle.Gateway.Proxy
import Heddle.Http (Handler, Limits (..), Pace (..), Scheme (..), Settings (..), defaultSettings, setRequestHeader)
import Heddle.IO (BackendChoice, milliseconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import ProxyFixture
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "conversations" [onBothBackends "requests" requests, onBothBackends "answers" answers, onBothBackends "interim responses" interim, onBothBackends "trailers" trailers, onBothBackends "tunnels" tunnels]

-- What the upstream heard of one request, and the answer.
heardOf :: BackendChoice -> (SockAddr -> ProxySettings) -> ByteString -> IO (ByteString, Answer)
heardOf backend settings request = do
  heard <- newEmptyMVar
  withScripted (\_ peer -> hearHead peer >>= putMVar heard >> tell peer (simple "hello") >> hearToEnd peer >> pure ()) $ \upstream ->
    withFront backend defaultSettings (settings upstream) $ \front -> do
      answer <- ask front request
      (,) <$> patiently "the upstream to hear" (takeMVar heard) <*> pure answer

-- What the upstream heard of a request through a handler around the proxy.
heardThrough :: BackendChoice -> (Proxy -> Handler) -> ByteString -> IO ByteString
heardThrough backend handling request = do
  heard <- newEmptyMVar
  withScripted (\_ peer -> hearHead peer >>= putMVar heard >> tell peer (simple "hello") >> hearToEnd peer >> pure ()) $ \upstream ->
    withFrontBy handling ClearText backend defaultSettings (plain upstream) $ \front -> do
      ask front request >>= answersWith 200 "hello"
      patiently "the upstream to hear" (takeMVar heard)

plain :: SockAddr -> ProxySettings
plain upstream = patient "" [upstream]

requests :: BackendChoice -> [TestTree]
requests backend =
  [ testCase "method, target, end-to-end headers; the connection's are replaced" $ do
      (heard, answer) <-
        heardOf backend plain "GET /a%2Bb/c?q=1&r=%2F HTTP/1.1\r\nHost: site.example:81\r\nX-One: 1\r\nAccept: */*\r\nConnection: keep-alive, X-Two\r\nX-Two: 2\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\nTrailer: X\r\n\r\n"
      answersWith 200 "hello" answer
      requestLine heard @?= "GET /a%2Bb/c?q=1&r=%2F HTTP/1.1"
      map (`heardField` heard) ["host", "x-one", "accept", "x-two", "keep-alive", "te", "proxy-authorization", "trailer", "connection"]
        @?= [Just "site.example:81", Just "1", Just "*/*", Nothing, Nothing, Just "trailers", Nothing, Nothing, Just "TE"]
      heardField "via" heard @?= Just "1.1 heddle",
    testCase "an untrusted client's claims about its origin are replaced" $ do
      (heard, _) <- heardOf backend plain "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nX-Forwarded-Ssl: on\r\nProxy: evil\r\n\r\n"
      map (`heardField` heard) ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "x-real-ip", "x_forwarded_for", "x-forwarded-ssl", "proxy"]
        @?= [Just "127.0.0.1", Just "http", Just "a", Just "for=127.0.0.1;host=\"a\";proto=http", Nothing, Nothing, Nothing, Nothing],
    testCase "dotSegmentsWithParametersReachedTheUpstream" $
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "hello")) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front ->
          forM_ ["/..;/x", "/a/..;v=1/x", "/a/.;", "/%2e%2E;/x", "/.%2e%3b/x", "http://a/..;/x"] $ \path ->
            ask front (get path) >>= (@?= 400) . answerCode,
    testCase "faultyBodyWasNotAnsweredWithItsStatus" $
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >> pure ()) $ \upstream ->
        withFront backend defaultSettings {settingLimits = (settingLimits defaultSettings) {limitBody = 20000}} (plain upstream) $ \front -> do
          let posting body = answerCode <$> ask front ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" <> body)
          posting "5\r\nhello\r\nzz\r\n" >>= (@?= 400)
          posting (C.concat (replicate 3 ("2710\r\n" <> C.replicate 10000 'x' <> "\r\n")) <> "0\r\n\r\n") >>= (@?= 413),
    testCase "slowUploadIsAnsweredWithItsStatus" $
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >> pure ()) $ \upstream ->
        withFront backend defaultSettings {settingBodyPace = Pace (milliseconds 300) 240} (plain upstream) $ \front ->
          ask front "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\nx" >>= (@?= 408) . answerCode,
    testCase "connectionTookAwayWhatTheServerHadAdded" $ do
      let adding proxy request = do
            forM_ [("X-Request-Id", "ours"), ("traceparent", "00-ours"), ("X-Mine", "ours"), ("Keep-Alive", "ours")] $ \(name, value) ->
              setRequestHeader request name value >>= (@?= True)
            proxyHandler proxy request
      forM_ ["Connection: X-Request-Id, traceparent, x-mine, x-theirs", "Connection: x-request-id\r\nConnection: TRACEPARENT,X-Mine, close , X-Theirs"] $ \connection -> do
        heard <- heardThrough backend adding ("GET / HTTP/1.1\r\nHost: a\r\n" <> connection <> "\r\nX-Request-Id: theirs\r\nX-Theirs: theirs\r\nX-Mine: theirs\r\n\r\n")
        map (`heardFields` heard) ["x-request-id", "traceparent", "x-mine", "x-theirs", "keep-alive"] @?= [["ours"], ["00-ours"], ["ours"], [], []],
    testCase "theServersOwnPasswordReachedTheUpstream" $ do
      let client = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nX-Remote-User: root\r\nX_Remote_User: root\r\n\r\n"
          fieldsFor user = do
            heard <- heardThrough backend (\proxy -> proxyHandlerFor proxy Nothing user) client
            pure (map (`heardFields` heard) ["authorization", "x-remote-user", "x_remote_user"])
      fieldsFor (Just "anna") >>= (@?= [[], ["anna"], []])
      -- Without a password of the server's, it is the upstream's; nobody says who somebody is.
      fieldsFor Nothing >>= (@?= [["Basic YTpi"], [], []])
      fieldsFor (Just "a\r\nX-Evil: b") >>= (@?= [[], [], []]),
    testCase "Max-Forwards of OPTIONS is counted down, and ends at 0" $ do
      (heard, _) <- heardOf backend plain "OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 5\r\n\r\n"
      heardField "max-forwards" heard @?= Just "4"
      (heardGet, _) <- heardOf backend plain "GET /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 5\r\n\r\n"
      heardField "max-forwards" heardGet @?= Just "5"
      withScripted (\_ _ -> unexpected "no connection" "one") $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front ->
          ask front "OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n" >>= (@?= 204) . answerCode,
    testCase "a trusted proxy's claims are continued" $ do
      network <- either fail pure (parseNetwork "127.0.0.0/8")
      (heard, _) <- heardOf backend (\u -> (plain u) {proxyTrusted = [network]}) "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n\r\n"
      map (`heardField` heard) ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "x-real-ip"]
        @?= [Just "6.6.6.6, 7.7.7.7, 127.0.0.1", Just "https", Just "b", Just "for=6.6.6.6, for=127.0.0.1;host=\"a\";proto=http", Just "6.6.6.6"],
    testCase "the URL's path takes the prefix's place" $
      forM_ [("/app/x/y?z", "/base/x/y?z"), ("/app", "/base"), ("/app/", "/base/"), ("/app/a%20b", "/base/a%20b"), ("/app/x/../y", "/base/y"), ("/app/%2e%2e/app/y", "/base/y"), ("/app//x", "/base//x"), ("http://site.example/app/x", "/base/x")] $ \(path, expected) -> do
        (heard, _) <- heardOf backend (\u -> (patient "/app" []) {proxyUpstreams = [upstreamAt (urlOf "/base/" u)]}) (get path)
        requestLine heard @?= "GET " <> expected <> " HTTP/1.1"
        heardField "x-forwarded-prefix" heard @?= Just "/app",
    testCase "bytesBeyondAsciiInATargetWereRefused" $
      forM_ [("/\xC3\xA9", "/%C3%A9"), ("/a?q=\xE9&r=\xFF", "/a?q=%E9&r=%FF"), ("/\xC3\xA9?\xC3\xA9", "/%C3%A9?%C3%A9"), ("/\x80/%2F\xFE?%\x81", "/%80/%2F%FE?%%81"), ("/x/../\xC3\xA9", "/%C3%A9"), ("http://site.example/\xC3\xA9?\xE9", "/%C3%A9?%E9")] $ \(path, expected) -> do
        (heard, answer) <- heardOf backend plain (get path)
        answersWith 200 "hello" answer
        requestLine heard @?= "GET " <> expected <> " HTTP/1.1",
    testCase "bytes beyond ASCII in a host are refused" . withScripted (\_ _ -> unexpected "no request" "one") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front ->
        forM_ ["http://\xC3\xA9/", "ht\xC3\xA9p://a/", "\xC3\xA9", "/\xC3\xA9#"] $ \path -> ask front (get path) >>= (@?= 400) . answerCode,
    testCase "encodedSlashesWereNotForwarded" $ do
      forM_ [("/app/queues/%2F/x?y", "/base/queues/%2F/x?y"), ("/app/@a%2fb", "/base/@a%2fb"), ("/%61pp/a%2fb%2e", "/base/a%2Fb."), ("/app/%252F", "/base/%252F"), ("http://site.example/app/%2F", "/base/%2F")] $ \(path, expected) -> do
        (heard, _) <- heardOf backend (\u -> (patient "/app" []) {proxyUpstreams = [upstreamAt (urlOf "/base/" u)]}) (get path)
        requestLine heard @?= "GET " <> expected <> " HTTP/1.1"
      withScripted (\_ _ -> unexpected "no request" "one") $ \upstream ->
        withFront backend defaultSettings (patient "/app" [upstream]) $ \front ->
          forM_ [("/app/..%2Fx", 404), ("/app/%2F..%2F..%2Fx", 404), ("/app%2Fx", 404), ("/app/%2e%2e%2f%2e%2e%2fx", 404), ("/app/x/../a%2Fb", 404), ("/app/a%2F..%2Fb", 404), ("/app/..%2Fapp/x", 404), ("/app%2Fy/../app/zzz%2F..%2F..%2Fadmin/secret", 404), ("/app/a%2F..;%2Fx", 400), ("/app/a%2F%5c", 404), ("/app/a%2F%00", 404), ("/app/%2F%", 400)] $ \(path, code) ->
            ask front (get path) >>= (@?= (path, code)) . (,) path . answerCode,
    testCase "paths that lead out of the prefix are not forwarded" . withScripted (\_ _ -> unexpected "no request" "one") $ \upstream ->
      withFront backend defaultSettings (patient "/app" [upstream]) $ \front ->
        forM_ [("/other", 404), ("/application", 404), ("/app/../x", 404), ("/app/%2e%2e/x", 404), ("/app/%5c..", 404)] $ \(path, code) -> do
          answer <- ask front (get path)
          answerCode answer @?= code,
    testCase "CONNECT and TRACE are refused, and OPTIONS that may go no further is answered" . withScripted (\_ _ -> unexpected "no request" "one") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> do
        ask front "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n" >>= (@?= 405) . answerCode
        ask front "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n" >>= (@?= 405) . answerCode
        ask front "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n" >>= (@?= 204) . answerCode,
    testCase "bodies get framing of their own" $ do
      heard <- newEmptyMVar
      let script _ peer = forever $ do
            top <- hearHead peer
            body <- case heardField "content-length" top of
              Just n -> hearExactlyFrom peer (read (C.unpack n))
              Nothing | heardField "transfer-encoding" top == Just "chunked" -> chunksFrom peer
              Nothing -> pure "none"
            putMVar heard (heardField "content-length" top, heardField "transfer-encoding" top, body)
            tell peer (simple "ok")
      withScripted script $ \upstream -> withFront backend defaultSettings (plain upstream) $ \front -> do
        let big = B.replicate 100000 120
            post lines' body = do
              answer <- ask front (B.concat (["POST / HTTP/1.1\r\nHost: a\r\n"] ++ lines' ++ ["\r\n", body]))
              answersWith 200 "ok" answer
              patiently "the upstream to hear" (takeMVar heard)
        post ["Content-Length: 5\r\n"] "12345" >>= (@?= (Just "5", Nothing, "12345"))
        post ["Content-Length: 100000\r\n"] big >>= (@?= (Just "100000", Nothing, big))
        post ["Transfer-Encoding: chunked\r\n"] "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n" >>= (@?= (Nothing, Just "chunked", "abcde"))
        post ["Transfer-Encoding: chunked\r\n"] "0\r\n\r\n" >>= (@?= (Nothing, Just "chunked", ""))
        post [] "" >>= (@?= (Just "0", Nothing, "")),
    testCase "a body passes before it has ended" $ do
      got <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearExactlyFrom peer 20000 >>= putMVar got >> hearExactlyFrom peer 20000 >> tell peer (simple "ok")) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" <> B.replicate 20000 97)
          _ <- patiently "the first half at the upstream" (takeMVar got)
          say client (B.replicate 20000 98)
          hearAnswer client >>= answersWith 200 "ok",
    testCase "one connection to the upstream serves many requests" $ do
      connections <- newIORef (0 :: Int)
      withScripted (\i peer -> writeIORef connections (i + 1) >> forever (hearHead peer >> tell peer (simple "x"))) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          forM_ [1 .. 50 :: Int] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "x"
          readIORef connections >>= (@?= 1),
    testCase "Host is the upstream's if that is wanted" $ do
      (heard, _) <- heardOf backend (\u -> (plain u) {proxyHost = HostOfUpstream}) (get "/")
      assertBool (show heard) (maybe False ("127.0.0.1:" `B.isPrefixOf`) (heardField "host" heard))
  ]

answers :: BackendChoice -> [TestTree]
answers backend =
  [ testCase "status, phrase, headers; the connection's are left out" . serving "HTTP/1.1 418 Short and stout\r\nX-A: 1\r\nX-A: 2\r\nConnection: X-B, keep-alive\r\nX-B: 3\r\nKeep-Alive: timeout=9\r\nServer: up\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nTrailer: T\r\nContent-Length: 2\r\n\r\nhi" $ \front -> do
      answer <- ask front (get "/")
      answersWith 418 "hi" answer
      [v | ("x-a", v) <- answerHeaders answer] @?= ["1", "2"]
      map (answerHeader answer) ["x-b", "keep-alive", "server", "date", "trailer"] @?= [Nothing, Nothing, Just "up", Just "Thu, 01 Jan 1970 00:00:00 GMT", Nothing],
    testCase "header lines are written in one form, however they were spaced" . serving "HTTP/1.1 200 OK\r\nSeRver:up\r\nX-A:  1\r\nX-B:\t2 \r\nX-C: 3\r\nX-D:\r\nKeep-Alive: timeout=9\r\nX-E: 5\r\nX-F: 6\t\r\nDATE: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-G: \r\nContent-Length: 2\r\n\r\nhi" $ \front ->
      withClient (frontAddress front) $ \client -> do
        say client (get "/")
        heard <- hearUntil client "\r\n\r\nhi"
        heard @?= "HTTP/1.1 200 OK\r\nSeRver: up\r\nX-A: 1\r\nX-B: 2\r\nX-C: 3\r\nX-D: \r\nX-E: 5\r\nX-F: 6\r\nDATE: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-G: \r\nContent-Length: 2\r\n\r\nhi",
    testCase "upgradeThatA426RequiresWasDropped" $ do
      forM_ [("Upgrade: TLS/1.3, HTTP/2.0\r\nConnection: Upgrade\r\n", Just "TLS/1.3, HTTP/2.0"), ("Upgrade: a\r\nUpgrade: b\r\n", Just "a, b"), ("", Nothing)] $ \(lines', expected) ->
        forM_ ["Content-Length: 2\r\n\r\nhi", "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"] $ \content ->
          serving (B.concat ["HTTP/1.1 426 Upgrade Required\r\n", lines', content]) $ \front -> do
            answer <- ask front (get "/")
            answersWith 426 "hi" answer
            map (answerHeader answer) ["upgrade", "connection"] @?= [expected, "Upgrade" <$ expected]
      -- Others offer what is theirs.
      serving "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nhi" $ \front -> do
        answer <- ask front (get "/")
        map (answerHeader answer) ["upgrade", "connection"] @?= [Nothing, Nothing],
    testCase "small content passes in each form of the answer" $
      -- Lines as they came, lines that change, and lines for a client that wants trailers.
      forM_ ["", "Location: /x\r\n", "Set-Cookie: a=b; Path=/\r\n", "Connection: X-B\r\nX-B: 1\r\n", "Connection: Keep-Alive\r\n"] $ \more ->
        serving (B.concat ["HTTP/1.1 200 OK\r\n", more, "X-A: 1\r\nContent-Length: 2\r\n\r\nhi"]) $ \front ->
          forM_ ["", "Connection: TE\r\nTE: trailers\r\n"] $ \wish -> do
            answer <- ask front (B.concat ["GET / HTTP/1.1\r\nHost: a\r\n", wish, "\r\n"])
            answersWith 200 "hi" answer
            map (answerHeader answer) ["x-a", "x-b", "connection"] @?= [Just "1", Nothing, Nothing],
    testCase "chunked content, and content until the end" $ do
      serving "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n" $ \front -> ask front (get "/") >>= answersWith 200 "hello"
      serving "HTTP/1.0 200 OK\r\n\r\nto the end" $ \front -> ask front (get "/") >>= answersWith 200 "to the end",
    testCase "HEAD, 204 and 304 have no content, and keep their length" $ do
      serving "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n" $ \front -> do
        answer <- ask front "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
        (answerCode answer, answerHeader answer "content-length") @?= (200, Just "77")
      serving "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: \"x\"\r\n\r\n" $ \front -> do
        answer <- ask front (get "/")
        (answerCode answer, answerHeader answer "content-length", answerHeader answer "etag") @?= (304, Just "77", Just "\"x\"")
      serving "HTTP/1.1 204 No Content\r\n\r\n" $ \front -> do
        answer <- ask front (get "/")
        (answerCode answer, answerHeader answer "content-length") @?= (204, Nothing)
      serving "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" $ \front -> ask front (get "/") >>= answersWith 200 "",
    testCase "framingOfAnAnswerWithoutContentWasRefused" $ do
      forM_ ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"] $ \fields ->
        forM_ [(204, "204 No Content", ""), (304, "304 Not Modified", ""), (200, "103 Early Hints", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")] $ \(code, line, rest) ->
          serving (B.concat ["HTTP/1.1 ", line, "\r\n", fields, "X-A: 1\r\n\r\n", rest]) $ \front -> do
            answer <- ask front (get "/")
            let announced
                  | code == 304 && fields == "Content-Length: 5\r\n" = Just "5"
                  | code == 200 = Just "2"
                  | otherwise = Nothing
            (answerCode answer, answerHeader answer "content-length", answerHeader answer "transfer-encoding") @?= (code, announced, Nothing),
    testCase "205 has no content" $
      forM_ ["Content-Length: 2\r\n\r\nno", "Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", "Content-Length: 0\r\n\r\n"] $ \rest ->
        serving ("HTTP/1.1 205 Reset Content\r\n" <> rest) $ \front -> do
          answer <- ask front (get "/")
          (answerCode answer, answerBody answer, answerHeader answer "content-length") @?= (205, "", Just "0"),
    testCase "content passes before it has ended" $ do
      go <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n" >> takeMVar go >> tell peer "3\r\ntwo\r\n0\r\n\r\n") $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client (get "/")
          let untilOne seen
                | "one" `B.isInfixOf` seen = pure ()
                | otherwise = hearSomeOnce client >>= untilOne . (seen <>)
          untilOne ""
          putMVar go ()
          rest <- hearUntil client "0\r\n\r\n"
          assertBool (show rest) ("two" `B.isInfixOf` rest),
    testCase "megabytes in both directions" $ do
      let size = 8000000
          big = B.replicate size 122
      withScripted (\_ peer -> hearHead peer >> hearExactlyFrom peer size >>= tell peer . simple) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> do
          answer <- ask front (B.concat ["PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C.pack (show size), "\r\n\r\n", big])
          answersWith 200 big answer,
    testCase "Location and cookies are the client's" $ do
      seen <- newIORef ""
      withScripted (\_ peer -> hearHead peer >> readIORef seen >>= tell peer) $ \upstream -> do
        let port = C.dropWhile (/= ':') (C.pack (show upstream))
        writeIORef seen (B.concat ["HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1", port, "/base/x?y\r\nSet-Cookie: a=b; Path=/base/z; Domain=127.0.0.1; HttpOnly\r\nContent-Length: 0\r\n\r\n"])
        withFront backend defaultSettings (patient "/app" []) {proxyUpstreams = [upstreamAt (urlOf "/base" upstream)]} $ \front -> do
          answer <- ask front (get "/app/q")
          (answerHeader answer "location", answerHeader answer "set-cookie") @?= (Just "/app/x?y", Just "a=b; Path=/app/z; HttpOnly"),
    testCase "a client of HTTP/1.0 gets content of unknown length until the end" . serving "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" $ \front ->
      withClient (frontAddress front) $ \client -> do
        say client "GET / HTTP/1.0\r\n\r\n"
        (bytes, end) <- hearRest client
        end @?= Closed
        snd (B.breakSubstring "\r\n\r\n" bytes) @?= "\r\n\r\nhello"
  ]
  where
    serving reply body = withScripted (\_ peer -> hearHead peer >> tell peer reply) $ \upstream -> withFront backend defaultSettings (plain upstream) body

hearSomeOnce :: Client -> IO ByteString
hearSomeOnce client = do
  piece <- hearExactly client 1
  if B.null piece then unexpected "more bytes" "the end" else pure piece

hearUntil :: Client -> ByteString -> IO ByteString
hearUntil client end = go ""
  where
    go seen
      | end `B.isSuffixOf` seen = pure seen
      | otherwise = hearSomeOnce client >>= go . (seen <>)

interim :: BackendChoice -> [TestTree]
interim backend =
  [ testCase "interim responses are passed on" . withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> do
        answer <- ask front (get "/")
        answersWith 200 "x" answer
        answerInterim answer @?= [103]
        -- HTTP/1.0 knows none.
        old <- withClient (frontAddress front) $ \client -> say client "GET / HTTP/1.0\r\n\r\n" >> hearAnswer client
        answerInterim old @?= [],
    testCase "the upstream's 100 Continue asks the client for its body" $ do
      asked <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >>= putMVar asked >> tell peer "HTTP/1.1 100 Continue\r\n\r\n" >> hearExactlyFrom peer 5 >>= tell peer . simple) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
          top <- patiently "the upstream to hear" (takeMVar asked)
          heardField "expect" top @?= Just "100-continue"
          hearExactly client 25 >>= (@?= "HTTP/1.1 100 Continue\r\n\r\n")
          say client "12345"
          hearAnswer client >>= answersWith 200 "12345",
    testCase "an upstream that refuses the body is heard without it" . withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
        before <- getMonotonicTime
        say client "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\nExpect: 100-continue\r\n\r\n"
        answer <- hearAnswer client
        after <- getMonotonicTime
        answersWith 413 "big" answer
        answerHeader answer "connection" @?= Just "close"
        -- After a second without the upstream's answer, the client is asked for its body.
        when (after - before < 1) (answerInterim answer @?= [])
  ]

trailers :: BackendChoice -> [TestTree]
trailers backend =
  [ testCase "pass to a client that has said TE: trailers, and to no other" $
      forM_ [("TE: deflate;q=0.1, trailers\r\n", Just "trailers", Just "X-Sum", "0\r\nX-Sum: 1\r\nY:  2\r\n\r\n"), ("TE: deflate\r\n", Nothing, Nothing, "0\r\n\r\n"), ("", Nothing, Nothing, "0\r\n\r\n")] $ \(te, told, named, end) -> do
        heard <- newEmptyMVar
        withScripted (\_ peer -> hearHead peer >>= putMVar heard >> tell peer trailing >> hearToEnd peer >> pure ()) $ \upstream ->
          withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
            say client (B.concat ["GET / HTTP/1.1\r\nHost: a\r\n", te, "\r\n"])
            top <- hearUntil client "\r\n\r\n"
            heardField "trailer" top @?= named
            _ <- hearUntil client "hello\r\n"
            rest <- hearUntil client "\r\n\r\n"
            C.filter (/= ' ') rest @?= C.filter (/= ' ') end
            request <- patiently "the upstream to hear" (takeMVar heard)
            (heardField "te" request, heardField "connection" request) @?= (told, "TE" <$ told),
    testCase "malformed ones cut the answer" $
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX Y: 1\r\n\r\n") $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"
          (bytes, _) <- hearRest client
          snd (B.breakSubstring "\r\n\r\n" bytes) @?= "\r\n\r\n5\r\nhello\r\n"
  ]
  where
    trailing = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nConnection: X\r\nTransfer-Encoding: x\r\nContent-Length: 7\r\nSet-Cookie: a=b\r\nY: 2\r\n\r\n"

tunnels :: BackendChoice -> [TestTree]
tunnels backend =
  [ testCase "Upgrade leads to a tunnel, with what came early" . withScripted switching $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
        say client (upgrade "websocket" <> "early")
        top <- hearUntil client "\r\n\r\n"
        assertBool (show top) ("HTTP/1.1 101 Switching Protocols\r\n" `B.isPrefixOf` top && "Sec-WebSocket-Accept: yes\r\n" `B.isInfixOf` top)
        hearExactly client 11 >>= (@?= "first:early")
        say client "more"
        hearExactly client 4 >>= (@?= "more")
        finish client
        hearEnd client,
    testCase "the upstream ends a tunnel" . withScripted (\_ peer -> hearHead peer >> tell peer switched >> tell peer "bye") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
        say client (upgrade "websocket")
        _ <- hearUntil client "\r\n\r\n"
        hearExactly client 3 >>= (@?= "bye")
        hearEnd client,
    testCase "framingOfASwitchWasRefused" $
      forM_ ["Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n", "content-length: 0\r\n"] $ \fields ->
        withScripted (\_ peer -> hearHead peer >> tell peer (B.concat [B.take (B.length switched - 2) switched, fields, "\r\nbye"])) $ \upstream ->
          withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
            say client (upgrade "websocket")
            top <- hearUntil client "\r\n\r\n"
            assertBool (show top) ("HTTP/1.1 101 " `B.isPrefixOf` top && not (any (`B.isInfixOf` top) ["ength", "ncoding"]))
            hearExactly client 3 >>= (@?= "bye")
            hearEnd client,
    testCase "the upstream may decline" . withScripted (\_ peer -> hearHead peer >> tell peer (simple "no")) $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> ask front (upgrade "websocket") >>= answersWith 200 "no",
    testCase "an upgrade to HTTP is not passed on" $
      forM_ ["h2c", "HTTP/2.0", "websocket, h2c"] $ \protocol -> do
        (heard, answer) <- heardOf backend plain (upgrade protocol)
        (heardField "upgrade" heard, heardField "connection" heard) @?= (Nothing, Nothing)
        answersWith 200 "hello" answer,
    testCase "the tunnel ends at the upstream when the client is gone" $ do
      ended <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer switched >> hearToEnd peer >>= putMVar ended) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> do
          withClient (frontAddress front) $ \client -> say client (upgrade "websocket") >> hearUntil client "\r\n\r\n" >> abort client
          patiently "the upstream to hear the end" (takeMVar ended) >>= (@?= "")
  ]
  where
    upgrade protocol = B.concat ["GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ", protocol, "\r\nSec-WebSocket-Key: x\r\n\r\n"]
    switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: yes\r\n\r\n"
    switching _ peer = do
      top <- hearHead peer
      (heardField "upgrade" top, heardField "connection" top) @?= (Just "websocket", Just "Upgrade")
      tell peer switched
      first <- hearExactlyFrom peer 5
      tell peer ("first:" <> first)
      hearExactlyFrom peer 4 >>= tell peer
      _ <- hearToEnd peer
      pure ()
