{-# LANGUAGE OverloadedStrings #-}

-- | @heddle serve --status@ and @--slow@, through curl, promtool and Chromium.
module StatusTest (tests) where

import Control.Monad (forM, forM_, replicateM, replicateM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.List (isInfixOf, nub, partition)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog (eventually, unexpected)
import Program
import System.Directory (createDirectory, findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.Signals (sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, testCaseInfo, (@?=))

tests :: TestTree
tests = testGroup "watching" [counts, promtool, readers, shadows, draining, page, slow, ids, traces, wrong]

serving :: [String] -> (FilePath -> Program -> IO a) -> IO a
serving arguments act = withDirectory $ \d -> do
  writeFile (d </> "index.html") "hello"
  withProgram (["serve", d] ++ arguments ++ free) (act d)

fetch :: Program -> [String] -> String -> IO String
fetch program arguments path = do
  ended <- runTool "curl" (["-sS", "--max-time", "30"] ++ arguments ++ [at program ++ path])
  unless (endedCode ended == ExitSuccess) (unexpected "curl to succeed" (show ended))
  pure (C.unpack (endedOut ended))

at :: Program -> String
at program = case programUrls program of
  url : _ -> takeWhile (/= ' ') url
  [] -> error "no URL"

status :: Program -> [String] -> String -> IO String
status program arguments = fetch program (["-o", "/dev/null", "-w", "%{http_code}"] ++ arguments)

counts :: TestTree
counts = testCase "every request is counted once, by route and class, over HTTP/1.1 and HTTP/2" . serving ["--status", "/status", "--cores", "2"] $ \_ program -> do
  forM_ [["--http1.1"], ["--http2-prior-knowledge"]] $ \version -> do
    replicateM_ 10 (fetch program version "/" >>= (@?= "hello"))
    replicateM_ 3 (status program version "/none" >>= (@?= "404"))
  withClient (addressOf program) $ \client -> say client "nonsense\r\n\r\n" >> hearAnswer client >>= \a -> answerCode a @?= 400
  -- A reply is counted after it was sent.
  text <- eventually "all requests" (fetch program [] "/status/metrics") (\t -> all (`isInfixOf` t) ["{route=\"files\",code=\"2xx\"} 20\n", "{route=\"files\",code=\"4xx\"} 6\n", "{route=\"refused\",code=\"4xx\"} 1\n"])
  forM_ ["duration_seconds_count{route=\"files\"} 26\n", "duration_seconds_bucket{route=\"files\",le=\"+Inf\"} 26\n", "heddle_requests_in_flight 1\n", "heddle_ready 1\n", "heddle_cores 2\n", "process_open_fds "] $ \part -> contains part text
  json <- fetch program ["-H", "Accept: application/json"] "/status"
  contains "\"route\":\"files\",\"requests\":26," json
  checked <- fetch program [] "/status/json"
  contains "\"state\":\"ready\"" checked

promtool :: TestTree
promtool =
  testCaseInfo "promtool finds nothing wrong with the metrics" $
    findExecutable "promtool" >>= \case
      Nothing -> pure "left out: there is no promtool"
      Just tool' ->
        "" <$ do
          withDirectory $ \d -> serving ["--status", "/s", "--proxy", "/dead=http://127.0.0.1:1/"] $ \_ program -> do
            _ <- status program [] "/dead/x"
            fetch program [] "/s/metrics" >>= writeFile (d </> "metrics")
            ended <- runTool "sh" ["-c", tool' ++ " check metrics < " ++ d </> "metrics"]
            (endedCode ended, endedOut ended, endedErr ended) @?= (ExitSuccess, "", "")

readers :: TestTree
readers =
  testGroup
    "who may read it"
    [ testCase "behind a proxy, no client from outside; to it there is no such path" . serving ["--status", "/status"] $ \_ program -> do
        missing <- fetch program [] "/none"
        forM_ (["/status", "/status/"] ++ map ("/status/" ++) ["json", "metrics", "health", "ready"]) $ \path ->
          forM_ ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 10.1.2.3", "X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-For: 10.0.0.1, nonsense", "X-Real-IP: 2001:db8::1", "Forwarded: for=192.0.2.1", "Forwarded: for=127.0.0.1, for=_x", "Forwarded: proto=http", "Forwarded: for=192.0.2.1, for=127.0.0.1"] $ \claim -> do
            status program ["-H", claim] path >>= (@?= "404")
            fetch program ["-H", claim] path >>= (@?= missing)
        forM_ ["X-Forwarded-For: 127.1.2.3, 127.0.0.1", "X-Forwarded-For: [::1]:80", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1;proto=http, for=\"[::1]:80\"", "X-Forwarded-For: 127.0.0.1,"] $ \claim -> status program ["-H", claim] "/status/health" >>= (@?= "200"),
      testCase "only whom --status-allow names; others get the application of --spa" . serving ["--status", "/status", "--status-allow", "10.0.0.0/8", "--status-allow", "unix", "--spa"] $ \_ program ->
        forM_ ["/status", "/status/json"] $ \path -> fetch program [] path >>= (@?= "hello"),
      testCase "with --basic-auth, only users" . withDirectory $ \d -> do
        hashed <- runTool "sh" ["-c", "printf 'secret\\n' | heddle password ann"]
        C.writeFile (d </> "users") (endedOut hashed)
        serving ["--status", "/status", "--basic-auth", d </> "users"] $ \_ program -> do
          status program [] "/status" >>= (@?= "401")
          status program ["-u", "ann:secret"] "/status" >>= (@?= "200"),
      testCase "only GET and HEAD" . serving ["--status", "/status"] $ \_ program -> do
        status program ["-X", "POST"] "/status" >>= (@?= "405")
        status program ["-I"] "/status" >>= (@?= "200")
    ]

shadows :: TestTree
shadows = testCase "no file is served instead, not even one that was in the cache" . withDirectory $ \d -> do
  writeFile (d </> "index.html") "hello"
  createDirectory (d </> "status")
  writeFile (d </> "status" </> "json") "a file"
  withProgram (["serve", d, "--status", "/status"] ++ free) $ \program -> do
    -- Whoever may not read the status gets the file.
    replicateM_ 3 (fetch program ["-H", "X-Forwarded-For: 192.0.2.1"] "/status/json" >>= (@?= "a file"))
    forM_ [["--http1.1"], ["--http2-prior-knowledge"]] $ \version -> fetch program version "/status/json" >>= contains "\"state\":\"ready\""
    forM_ ["/%73tatus/json", "/x/../status/json"] $ \path -> fetch program ["--path-as-is"] path >>= contains "\"state\":\"ready\""

draining :: TestTree
draining = testCase "not ready any more after a signal, and healthy" . serving ["--status", "/status"] $ \_ program ->
  withClient (addressOf program) $ \one -> withClient (addressOf program) $ \two -> do
    -- Connections with the beginning of a request are not closed for idling.
    forM_ [(one, "ready"), (two, "health")] $ \(client, what) -> do
      say client (request what <> "\r\n" <> request what)
      hearAnswer client >>= \a -> answerCode a @?= 200
    signal program sigTERM
    _ <- eventually "the server to say that it stops" (programOut program) ("Stopping" `isInfixOf`)
    say one "\r\n"
    hearAnswer one >>= \a -> (answerCode a, answerBody a) @?= (503, "stopping\n")
    say two "\r\n"
    hearAnswer two >>= \a -> answerCode a @?= 200
    ends program >>= (@?= ExitSuccess)
  where
    request :: ByteString -> ByteString
    request what = "GET /status/" <> what <> " HTTP/1.1\r\nHost: a\r\n"

page :: TestTree
page = testCase "the page in Chromium shows what the JSON says, and loads nothing else" . serving ["--status", "/status", "--tls-self-signed", "--listen", "https://127.0.0.1:0", "--proxy", "/app=http://127.0.0.1:1/", "--fastcgi", "/f=127.0.0.1:1"] $ \d program -> do
  -- The first URL is that with TLS.
  let plain = case filter ("http://" `isInfixOf`) (programUrls program) of
        url : _ -> url
        [] -> error "no URL"
      loaded = do
        -- An address that cannot be connected to is left out for a second at first, twice as long each time: for half a minute after six.
        replicateM_ 6 (forM_ ["/app/x", "/f/x"] $ \path -> status program ["-k"] path >>= (@?= "502"))
        ended <-
          runToolIn
            [("HOME", d)]
            "chromium"
            ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" ++ d </> "profile", "--virtual-time-budget=10000", "--dump-dom", plain ++ "/status"]
        unless (endedCode ended == ExitSuccess) (unexpected "Chromium to succeed" (show ended))
        pure (C.unpack (endedOut ended))
  dom <- eventually "the page to show a server that is left out" loaded ("<td class=\"bad\">left out</td>" `isInfixOf`)
  forM_ ["class=\"state good\" role=\"status\">ready<", "<th scope=\"row\" class=\"\">files</th>", "<th scope=\"row\" class=\"\">/status</th>", "<th scope=\"row\" class=\"\">http://127.0.0.1:1</th>", "<th scope=\"row\" class=\"\">127.0.0.1:1</th>", "<td class=\"\">FastCGI</td>", "<td class=\"bad\">left out</td>", "<th scope=\"row\" class=\"\">localhost</th>", "<th scope=\"row\" class=\"\">since the start</th>", "<i style=\"height:"] $ \part -> contains part dom
  assertBool "no other resource" (not (any (`isInfixOf` dom) ["src=", "href=", "url(", "@import"]))

slow :: TestTree
slow = testCase "--slow names a slow request, with its status, time and route" . withDirectory $ \programs -> do
  writeFile (programs </> "sleeper") "#!/bin/sh\nsleep 0.6\nprintf 'Content-Type: text/plain\\r\\n\\r\\nslept\\n'\n"
  setFileMode (programs </> "sleeper") 0o755
  serving ["--slow", "0.5", "--request-id", "--cgi", "/cgi=" ++ programs, "--sandbox", "off"] $ \_ program -> do
    fetch program [] "/cgi/sleeper?a=%1b" >>= (@?= "slept\n")
    said <- eventually "the request to be named" (programErr program) ("slow request" `isInfixOf`)
    forM_ ["heddle serve: slow request: GET /cgi/sleeper?a=%1b took ", " s, status 200, route /cgi, upstream ", " s, id "] $ \part -> contains part said

ids :: TestTree
ids = testCase "--request-id: back to the client, to programs, to the server behind and to the log" . withDirectory $ \d -> do
  writeFile (d </> "tell") "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nX-Request-Id: its own\\r\\n\\r\\n%s|%s|%s\\n' \"$HTTP_X_REQUEST_ID\" \"$HTTP_TRACEPARENT\" \"$HTTP_TRACESTATE\"\n"
  setFileMode (d </> "tell") 0o755
  let log' = d </> "log"
      programs = ["--cgi", "/cgi=" ++ d, "--sandbox", "off"]
  serving programs $ \_ behind ->
    serving (programs ++ ["--request-id", "--access-log", log', "--log-format", "json", "--proxy", "/p=" ++ at behind]) $ \_ program -> do
      let get arguments path = answered . C.pack <$> fetch program ("-i" : arguments) path
          traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
      names <- forM ([["--http1.1"], ["--http2-prior-knowledge"]] >>= replicate 3) $ \version -> do
        [name] <- fst <$> get (version ++ ["-H", "X-Request-Id: forged"]) "/"
        (C.length name, C.all (`elem` ("0123456789abcdef" :: String)) name) @?= (32, True)
        pure name
      length (nub names) @?= length names
      -- Errors have one, too; of the program's own nothing is seen.
      forM_ ["/none", "/cgi/none", "/%zz"] $ \path -> get [] path >>= (@?= 1) . length . fst
      forM_ ["/cgi/tell", "/p/cgi/tell"] $ \path -> do
        ([name], body) <- get ["-H", "X-Request-Id: forged", "-H", "X-Request-Id: twice", "-H", "traceparent: " ++ traceparent, "-H", "tracestate: a=b"] path
        [told, parent, state] <- pure (C.split '|' (C.strip body))
        (told, state) @?= (name, "a=b")
        (C.take 36 parent, C.drop 52 parent) @?= ("00-4bf92f3577b34da6a3ce929d0e0e4736-", "-01")
        assertBool "a parent of its own" (C.take 16 (C.drop 36 parent) `notElem` ["00f067aa0ba902b7", "0000000000000000"])
        -- Not valid: another trace, without the state.
        ([_], renewed) <- get ["-H", "traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01", "-H", "tracestate: a=b"] path
        [_, another, none] <- pure (C.split '|' (C.strip renewed))
        (C.length another, none, "00000000000000000000000000000000" `C.isInfixOf` another) @?= (55, "", False)
        ([_], plain) <- get ["-H", "tracestate: a=b"] path
        drop 1 (C.split '|' (C.strip plain)) @?= ["", ""]
        _ <- eventually "the line in the log" (C.readFile log') (\text -> C.concat ["\"request_id\":\"", name, "\",\"traceparent\":\"", parent, "\""] `C.isInfixOf` text)
        pure ()
  serving ["--request-id", "--trusted-proxy", "127.0.0.1"] $ \_ program -> do
    given <- answered . C.pack <$> fetch program ["-i", "-H", "X-Request-Id: from-outside"] "/"
    given @?= (["from-outside"], "hello")
    (names, _) <- answered . C.pack <$> fetch program ["-i", "-H", "X-Request-Id: with space"] "/"
    map C.length names @?= [32]
  where
    -- The ids among the headers, and the body.
    answered :: ByteString -> ([ByteString], ByteString)
    answered whole = case C.breakSubstring "\r\n\r\n" whole of
      (before, after) -> ([C.strip (C.drop 13 line) | line <- C.lines before, C.map toLower (C.take 13 line) == "x-request-id:"], C.drop 4 after)

traces :: TestTree
traces = testCase "--trace begins traces, to be recorded for the share that it says" . withDirectory $ \d -> do
  writeFile (d </> "tell") "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s|%s|%s\\n' \"$HTTP_TRACEPARENT\" \"$HTTP_TRACESTATE\" \"$HTTP_X_REQUEST_ID\"\n"
  setFileMode (d </> "tell") 0o755
  forM_ [("1", "-01"), ("0", "-00")] $ \(share, flag) -> do
    let log' = d </> "log" ++ share
    serving ["--trace", share, "--cgi", "/cgi=" ++ d, "--sandbox", "off", "--access-log", log', "--log-format", "$request_uri $trace_id $upstream_time"] $ \_ program -> do
      told <- replicateM 3 (C.split '|' . C.strip . C.pack <$> fetch program ["-H", "tracestate: a=b"] "/cgi/tell")
      forM_ told $ \case
        [parent, "", ""] -> (C.length parent, C.take 3 parent, C.drop 52 parent) @?= (55, "00-", flag)
        other -> unexpected "a traceparent alone" (show other)
      length (nub (map (C.take 32 . C.drop 3 . mconcat) told)) @?= 3
      -- Whether another's trace is recorded is decided already.
      forM_ ["-00", "-01"] $ \before -> do
        answer <- C.pack <$> fetch program ["-H", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7" ++ before] "/cgi/tell"
        (C.take 36 answer, C.take 3 (C.drop 52 answer)) @?= ("00-4bf92f3577b34da6a3ce929d0e0e4736-", C.pack before)
      void (fetch program [] "/")
      text <- eventually "all lines in the log" (C.readFile log') ((== 6) . C.count '\n')
      -- Each core writes its own lines, so theirs is no order among them.
      let (told', files) = partition ((== ["/cgi/tell"]) . take 1) (map C.words (C.lines text))
      [(C.length name, C.length (C.takeWhile (/= '.') time) > 0 && C.length time >= 5) | [_, name, time] <- told'] @?= replicate 5 (32, True)
      [(uri, C.length name, time) | [uri, name, time] <- files] @?= [("/", 32, "-")]

wrong :: TestTree
wrong = testCase "what cannot be a status is refused" . withDirectory $ \d ->
  forM_
    [ (["--status", "status"], "begin with a slash"),
      (["--status", "/"], "every path"),
      (["--status", "/*.php"], "'*'"),
      (["--status", "/a", "--proxy", "/a=http://127.0.0.1:1"], "another prefix"),
      (["--status", "/a", "--status-allow", "10.0.0.0/99"], "number of bits"),
      (["--slow", "0"], "seconds"),
      (["--slow", "x"], "seconds"),
      (["--trace", "1.1"], "share"),
      (["--trace", "-0.1"], "share")
    ]
    $ \(arguments, part) -> do
      ended <- runTool "heddle" (["serve", d] ++ arguments ++ free)
      if endedCode ended == ExitFailure 2 then void (contains part (endedErr ended)) else unexpected "exit code 2" (show ended)
