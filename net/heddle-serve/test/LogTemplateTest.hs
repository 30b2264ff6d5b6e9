{-# LANGUAGE OverloadedStrings #-}

-- | Lines as operators write them, the conditions for a line, where logs go, and rotation.
module LogTemplateTest (tests) where

import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Either (isLeft)
import Data.IORef
import Data.List (isInfixOf, sort)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr)
import Heddle.Gateway.Proxy (Network, parseNetwork)
import Heddle.Http
import Heddle.Http.Borrowed (noteUpstreamTime)
import Heddle.IO (defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Prim.Clock (Nanos (..))
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import SiteFixture (withDirectory)
import System.Directory (createDirectory, listDirectory, renameFile)
import System.FilePath ((</>))
import System.Posix.Files (setFileTimes)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "log formats"
    [ testCase "every variable" $ do
        [line] <- linesOf [] everyVariable [request "GET" "/a%20b?c=d" [("Referer", "r"), ("User-Agent", "u"), ("X-Request-Id", "id7"), ("X-Own_Header", "own"), ("traceparent", trace)]]
        let shown = [(C.unpack n, B.drop 1 v) | part <- C.split '\t' (B.init line), let (n, v) = C.break (== '=') part]
        sort (map fst shown) @?= sort ("http_x_own_header" : filter (/= "http_NAME") logVariables)
        forM_
          [ ("remote_addr", "127.0.0.1"),
            ("realip_remote_addr", "127.0.0.1"),
            ("request", "GET /a%20b?c=d HTTP/1.1"),
            ("request_method", "GET"),
            ("request_uri", "/a%20b?c=d"),
            ("uri", "/a%20b"),
            ("args", "c=d"),
            ("server_protocol", "HTTP/1.1"),
            ("host", "a"),
            ("scheme", "http"),
            ("status", "200"),
            ("body_bytes_sent", "10"),
            ("ssl_protocol", "-"),
            ("ssl_cipher", "-"),
            ("ssl_server_name", "-"),
            ("request_id", "id7"),
            ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
            ("upstream_time", "-"),
            ("http_referer", "r"),
            ("http_user_agent", "u"),
            ("http_x_own_header", "own")
          ]
          $ \(name, value) -> (name, lookup name shown) @?= (name, Just value)
        forM_ [("msec", 10 :: Int), ("request_time", 1)] $ \(name, digits) -> case C.break (== '.') <$> lookup name shown of
          Just (whole, rest) | B.length whole >= digits, B.length rest == 4, C.all (`elem` ("0123456789." :: String)) (whole <> rest) -> pure ()
          other -> unexpected (name ++ " in seconds with three digits after the point") (show other)
        B.length <$> lookup "time_local" shown @?= Just 26
        B.length <$> lookup "time_iso8601" shown @?= Just 25,
      testCase "a trace's id is that of a valid traceparent only" $
        linesOf [] "$trace_id" [request "GET" "/" [("traceparent", given)] | given <- [trace, trace <> "0", "ff" <> B.drop 2 trace, "cc" <> B.drop 2 trace <> "-", "\"", C.replicate 300 '0']]
          >>= (@?= map (<> "\n") ["4bf92f3577b34da6a3ce929d0e0e4736", "-", "-", "4bf92f3577b34da6a3ce929d0e0e4736", "-", "-"]),
      testCase "the time of what is behind the server, in seconds; for JSON in microseconds" $ do
        linesOf [] "$upstream_time" [request "GET" path [] | path <- ["/", "/behind"]] >>= (@?= ["-\n", "12.034\n"])
        linesOf [] "{\"t\":\"$upstream_time\"}" [request "GET" path [] | path <- ["/", "/behind"]] >>= (@?= ["{\"t\":\"\"}\n", "{\"t\":\"12.034\"}\n"])
        json <- linesOf [] "json" [request "GET" path [] | path <- ["/", "/behind"]]
        map (B.isInfixOf ",\"upstream_us\":12034567}") json @?= [False, True]
        map (B.isInfixOf "upstream") json @?= [False, True],
      testCase "text around variables" $
        linesOf [] "${status}x $$ \8230 $request_method" [request "GET" "/" []] >>= (@?= ["200x $ \226\128\166 GET\n"]),
      testCase "what is not a request has a line, too" $
        linesOf [] "$status $request|$uri|$http_user_agent" ["\0\"x\r\n\r\n"] >>= (@?= ["400 \\x00\\\"x|-|-\n"]),
      testGroup
        "formats that are none"
        [testCase (show text) (assertBool "expected a complaint" (isLeft (parseLogFormat text))) | text <- ["", "x", "$nothing", "$", "${status", "$status\n", "$status\r$uri", "a\0$uri", "$http_", concat (replicate 200 "$request_uri ")]],
      testProperty "noForgedLine: whatever clients send, a line is one line, harmless and bounded" . withMaxSuccess 200 $
        forAll hostile $ \input -> forAll (elements ["$request|$http_referer|$host|$args", "{\"a\":\"$request_uri\",\"b\":\"$http_referer\",\"c\":\"$host\"}", "$remote_addr $request_id $http_x", concat (replicate 3 "$request_uri $http_referer ")]) $ \format -> ioProperty $ do
          [line] <- linesOf [trusting "127.0.0.0/8"] format [input]
          pure . counterexample (show line) $
            C.count '\n' line === 1
              .&&. C.last line === '\n'
              .&&. counterexample "a raw control byte" (B.all (\b -> b >= 0x20 && b < 0x7F) (B.init line))
              .&&. B.length line <= longestLine,
      testGroup
        "the client behind proxies"
        [ testCase (C.unpack header') $
            linesOf [trusting "127.0.0.0/8", trusting "10.0.0.0/8"] "$remote_addr $realip_remote_addr" [request "GET" "/" [("X-Forwarded-For", header')]] >>= (@?= [expected <> " 127.0.0.1\n"])
          | (header', expected) <-
              [ ("192.0.2.7", "192.0.2.7"),
                ("6.6.6.6, 192.0.2.7", "192.0.2.7"),
                ("192.0.2.7, 10.1.2.3", "192.0.2.7"),
                ("10.9.9.9, 10.1.2.3", "10.9.9.9"),
                ("192.0.2.7:4711", "192.0.2.7"),
                ("[2001:db8::1]:4711", "2001:db8::1"),
                ("2001:db8::1", "2001:db8::1"),
                ("192.0.2.7, evil\"", "127.0.0.1"),
                ("192.0.2.7/8", "127.0.0.1"),
                ("", "127.0.0.1")
              ]
        ],
      testCase "a peer that is no trusted proxy names nobody" $
        linesOf [trusting "10.0.0.0/8"] "$remote_addr" [request "GET" "/" [("X-Forwarded-For", "192.0.2.7")]] >>= (@?= ["127.0.0.1\n"]),
      testCase "the combined format names the client, too" $ do
        [line] <- linesAs [trusting "127.0.0.1"] pokeLogLine [request "GET" "/" [("X-Forwarded-For", "192.0.2.7")]]
        assertBool (show line) ("192.0.2.7 - - [" `B.isPrefixOf` line),
      conditions,
      targets,
      rotation
    ]

everyVariable :: String
everyVariable = concat [name ++ "=$" ++ name ++ "\t" | name <- filter (/= "http_NAME") logVariables] ++ "http_x_own_header=$http_x_own_header"

conditions :: TestTree
conditions =
  testGroup
    "conditions"
    [ testCase "statuses" $ do
        parseStatuses "404,5xx" @?= Right [(404, 404), (500, 599)]
        forM_ ["", "6xx", "40", "4xx,", "99", "x", "4xx 5xx"] $ \text -> assertBool text (isLeft (parseStatuses text)),
      testCase "shares" $ do
        parseSample "1/100" @?= Right 100
        forM_ ["", "2/3", "1/0", "1/", "1/-1", "100"] $ \text -> assertBool text (isLeft (parseSample text)),
      testCase "only these statuses" $ selected everyRequest {filterOnly = [(404, 404), (500, 599)]} [("/", 200), ("/a", 404), ("/b", 403), ("/c", 503)] >>= (@?= ["/a", "/c"]),
      testCase "not these paths, however they are written" $
        selected everyRequest {filterSkip = [either error id (parseGlob "/health")]} [("/health", 200), ("/health?x", 200), ("/he%61lth", 200), ("/healthy", 200), ("/x/../health", 200)] >>= (@?= ["/healthy"]),
      testCase "one of three that succeed, and every error" $
        selected everyRequest {filterSample = 3} [("/1", 200), ("/e1", 404), ("/2", 200), ("/3", 304), ("/4", 200), ("/e2", 500), ("/5", 200)] >>= (@?= ["/1", "/e1", "/4", "/e2"])
    ]

-- The targets of those requests, answered with these statuses, that are logged.
selected :: LogFilter -> [(ByteString, Int)] -> IO [ByteString]
selected rules asked = do
  chosen <- newIORef []
  let make _ = do
        wanted <- newSelection rules
        let hook r what status _ = do
              yes <- maybe (pure True) (\f -> f r what status) wanted
              if yes then target r >>= \t -> atomicModifyIORef' chosen (\ts -> (t : ts, ())) else pure ()
        pure (\r -> target r >>= \t -> pure (Whole (maybe status200 toStatus (lookup t asked)) [] "x"), Just hook)
  serving make $ \address -> withClient address $ \client -> forM_ asked $ \(t, code) -> do
    say client (request "GET" t [])
    hearAnswer client >>= (@?= code) . answerCode
  reverse <$> readIORef chosen
  where
    toStatus code = fromMaybe status200 (lookup code [(404, status404), (403, status403), (503, status503), (304, status304), (500, status500)])

targets :: TestTree
targets =
  testGroup
    "targets"
    [ testCase "as users write them" $
        forM_
          [ ("-", LogOutput),
            ("/var/log/x", LogFile "/var/log/x"),
            ("./syslog", LogFile "./syslog"),
            ("journald", LogJournald "/run/systemd/journal/socket"),
            ("journald:/run/j", LogJournald "/run/j"),
            ("syslog", LogSyslog 3 SyslogLocal),
            ("syslog:local7", LogSyslog 23 SyslogLocal),
            ("syslog:unix:/run/s", LogSyslog 3 (SyslogUnix "/run/s")),
            ("syslog:user:udp:127.0.0.1:514", LogSyslog 1 (SyslogUdp "127.0.0.1" 514)),
            ("syslog:udp:[::1]:514", LogSyslog 3 (SyslogUdp "::1" 514))
          ]
          $ \(text, expected) -> parseLogTarget text @?= Right expected,
      testCase "none" $
        forM_ ["", "journald:", "syslog:", "syslog:x", "syslog:local8", "syslog:unix:", "syslog:udp:", "syslog:udp:host:x", "syslog:user:tcp:a:1"] $ \text -> assertBool text (isLeft (parseLogTarget text)),
      testCase "limits of a file" $ do
        map parseRotateAt ["100", "10k", "100M", "1G", "30min", "12h", "1d", "2w"] @?= map Right [AtSize 100, AtSize 10240, AtSize 104857600, AtSize 1073741824, AtTime 1800, AtTime 43200, AtTime 86400, AtTime 1209600]
        forM_ ["", "0", "1m", "1x", "M", "-1d", "1.5d"] $ \text -> assertBool text (isLeft (parseRotateAt text))
    ]

rotation :: TestTree
rotation =
  testGroup
    "rotation"
    [ testCase "by size: the newest is FILE.1, as many are kept as wanted, and each is whole lines" $
        withDirectory $ \d -> do
          sink <- openSink id (Rotation (Just (AtSize 100)) 3) (LogFile (d </> "log"))
          -- 30 bytes each: three in a file.
          forM_ [1 .. 20 :: Int] $ \i -> put sink (C.pack (take 29 (show i ++ repeat '.') ++ "\n"))
          closeSink sink
          listDirectory d >>= (@?= ["log", "log.1", "log.2", "log.3"]) . sort
          contents <- mapM (B.readFile . (d </>)) ["log.3", "log.2", "log.1", "log"]
          map (map (C.takeWhile (/= '.')) . C.lines) contents @?= [["10", "11", "12"], ["13", "14", "15"], ["16", "17", "18"], ["19", "20"]],
      testCase "what is in the file at the start counts" $
        withDirectory $ \d -> do
          B.writeFile (d </> "log") (B.replicate 99 120 <> "\n")
          sink <- openSink id (Rotation (Just (AtSize 100)) 1) (LogFile (d </> "log"))
          put sink "next\n"
          closeSink sink
          B.readFile (d </> "log") >>= (@?= "next\n"),
      testCase "a file of another period is renamed, a new or empty one is not" $
        withDirectory $ \d -> do
          B.writeFile (d </> "log") ""
          sink <- openSink id (Rotation (Just (AtTime 86400)) 1) (LogFile (d </> "log"))
          put sink "one\n"
          closeSink sink
          listDirectory d >>= (@?= ["log"])
          setFileTimes (d </> "log") 1000000 1000000
          sink2 <- openSink id (Rotation (Just (AtTime 86400)) 1) (LogFile (d </> "log"))
          put sink2 "two\n"
          closeSink sink2
          mapM (B.readFile . (d </>)) ["log.1", "log"] >>= (@?= ["one\n", "two\n"]),
      testCase "renamedTwice: a file that another process has moved away is followed, and not renamed again" $
        withDirectory $ \d -> do
          sink <- openSink id (Rotation (Just (AtSize 10)) 3) (LogFile (d </> "log"))
          put sink "12345678\n"
          renameFile (d </> "log") (d </> "log.1")
          B.writeFile (d </> "log") "other\n"
          put sink "mine\n"
          closeSink sink
          mapM (B.readFile . (d </>)) ["log.1", "log"] >>= (@?= ["12345678\n", "other\nmine\n"])
          listDirectory d >>= (@?= ["log", "log.1"]) . sort,
      testCase "a failure is told, and the old file written on" $
        withDirectory $ \d -> do
          told <- newIORef ""
          sink <- openSink id (Rotation (Just (AtSize 10)) 1) (LogFile (d </> "log"))
          put sink "12345678\n"
          -- A directory cannot be replaced by a file.
          createDirectory (d </> "log.1")
          unsafeUseAsCStringLen "next\n" (\(p, n) -> writeLines sink (writeIORef told) SeverityInfo (castPtr p) n) >>= (@?= (5, Nothing))
          closeSink sink
          B.readFile (d </> "log") >>= (@?= "12345678\nnext\n")
          readIORef told >>= \what -> assertBool what ("cannot rotate" `isInfixOf` what)
    ]
  where
    put sink text = unsafeUseAsCStringLen text (\(p, n) -> writeLines sink (unexpected "no message" . show) SeverityInfo (castPtr p) n) >>= (@?= (B.length text, Nothing))

request :: ByteString -> ByteString -> [(ByteString, ByteString)] -> ByteString
request method' path fields = B.concat ([method', " ", path, " HTTP/1.1\r\nHost: a\r\n"] ++ [B.concat [n, ": ", v, "\r\n"] | (n, v) <- fields] ++ ["\r\n"])

hostile :: Gen ByteString
hostile = do
  path <- text visible
  fields <- listOf ((,) <$> elements ["Referer", "X-Request-Id", "X", "X-Forwarded-For", "User-Agent"] <*> text field)
  garbage <- B.pack <$> resize 300 (listOf arbitrary)
  elements [request "GET" ("/?" <> path) (take 6 fields), request "GET" "/" [("Referer", B.replicate 2500 34)], "\0" <> garbage <> "\r\n\r\n"]
  where
    text g = B.pack <$> resize 300 (listOf g)
    visible = frequency [(3, elements [0x22, 0x5C]), (5, elements [0x21 .. 0x7E])] `suchThat` (/= 0x23)
    field = frequency [(3, elements [0x22, 0x5C, 0x09]), (3, choose (0x80, 0xFF)), (5, choose (0x20, 0x7E))]

trusting :: String -> Network
trusting = either error id . parseNetwork

linesOf :: [Network] -> String -> [ByteString] -> IO [ByteString]
linesOf trusted format = linesAs trusted (pokeLineAs (either error id (parseLogFormat format)))

-- The lines of these inputs, each on a connection of its own.
linesAs :: [Network] -> (LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)) -> [ByteString] -> IO [ByteString]
linesAs trusted poke inputs = do
  logged <- newIORef []
  let make _ = do
        clock <- newLogClockTrusting trusted
        let hook r what status sent = do
              line <- allocaBytes longestLine $ \p -> do
                end <- poke clock r what status sent p
                B.packCStringLen (castPtr p, end `minusPtr` p)
              atomicModifyIORef' logged (\ls -> (line : ls, ()))
            handler r = do
              path <- rawPath r
              when (path == "/behind") (noteUpstreamTime r (Nanos 12034567890))
              pure (Whole status200 [] "0123456789")
        pure (handler, Just hook)
  serving make $ \address -> forM_ (zip [1 ..] inputs) $ \(n, input) -> withClient address $ \client -> do
    say client input
    finish client
    _ <- hearRest client
    eventually "a line" (length <$> readIORef logged) (>= n)
  reverse <$> readIORef logged

serving :: (Int -> IO (Handler, Maybe LogHook)) -> (SockAddr -> IO a) -> IO ()
serving make body =
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServer runtime defaultSettings make [listener] $ \server -> do
        _ <- body (listenerAddress listener)
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        pure ()

trace :: ByteString
trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
