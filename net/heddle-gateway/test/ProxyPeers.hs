{-# LANGUAGE OverloadedStrings #-}

-- | Servers of others behind the proxy: nginx, h2o, Python, haproxy; curl before it, by HTTP/2.
module ProxyPeers
  ( tests,
    Upstreamed (..),
    peerTest,
    withNginx,
    withH2o,
    withPython,
  )
where

import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Data.Unique (hashUnique, newUnique)
import Heddle.Gateway.Proxy
import Heddle.Http (ProxyUse (..), Scheme (..), defaultSettings)
import Heddle.Http.Client (parseUrl)
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Heddle.Tls (PemSource (..), TlsClientConfig (..), Trust (..), defaultTlsClientConfig, newTlsClient, tlsConnecting)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import ProxyFixture
import System.Directory (createDirectory, findExecutable, getTemporaryDirectory, removeDirectoryRecursive)
import System.Exit (ExitCode (..))
import System.IO (IOMode (..), withBinaryFile)
import System.Posix.Process (getProcessID)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, testCaseInfo, (@?=))

-- | A server of others.
data Upstreamed = Upstreamed
  { upstreamedAddress :: !SockAddr,
    -- | The requests that it has logged.
    upstreamedLog :: !(IO [ByteString]),
    -- | How its name in Server begins.
    upstreamedServer :: !ByteString
  }

tests :: TestTree
tests = testGroup "peers" [alike "nginx" withNginx, alike "h2o" withH2o, alike "Python" withPython, secured, announced, behindHaproxy, byHttp2, trailedByHttp2]

-- | A test with another server. Debian 13 has no h2o.
peerTest :: String -> String -> IO () -> TestTree
peerTest server name act = testCaseInfo name $ do
  found <- if server == "h2o" then findExecutable server else pure (Just server)
  maybe (pure (server ++ " is not installed: left out")) (const ("" <$ act)) found

-- What each server must do behind the proxy.
alike :: String -> ((Upstreamed -> IO ()) -> IO ()) -> TestTree
alike name with = peerTest name name . with $ \up ->
  withFront Epoll defaultSettings (patient "" [upstreamedAddress up]) $ \front -> withClient (frontAddress front) $ \client -> do
    forM_ [1 .. 20 :: Int] $ \i -> do
      say client (get ("/page?" <> C.pack (show i)))
      answer <- hearAnswer client
      (answerCode answer, answerWhole answer) @?= (200, True)
      assertBool (show answer) (maybe False (upstreamedServer up `B.isPrefixOf`) (answerHeader answer "server"))
    say client "HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n"
    hear client "HEAD" >>= maybe (assertFailure "no answer") (\answer -> answerCode answer @?= 200)
    say client ("POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" <> B.replicate 100000 120)
    posted <- hearAnswer client
    assertBool (show posted) (answerWhole posted)
    void . eventually "22 lines in the log" (length <$> upstreamedLog up) $ (== 22)

-- | A file of a new directory.
withDirectory :: (FilePath -> IO a) -> IO a
withDirectory body = do
  temporary <- getTemporaryDirectory
  process <- getProcessID
  unique <- newUnique
  let directory = temporary ++ "/heddle-proxy-" ++ show process ++ "-" ++ show (hashUnique unique)
  bracket (directory <$ createDirectory directory) removeDirectoryRecursive body

freePort :: IO PortNumber
freePort = bracket (socket AF_INET Stream 0) close $ \s -> bind s (loopback 0) >> socketPort s

loopback :: PortNumber -> SockAddr
loopback port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

-- Run a server until the body returns. It may find its port taken by another program, and then has another one.
serving :: String -> (PortNumber -> IO [String]) -> (SockAddr -> IO a) -> IO a
serving program arguments body = go (5 :: Int)
  where
    go tries = do
      port <- freePort
      given <- arguments port
      -- h2o takes the lowest free descriptor for its listener, and opens the null device as descriptor 0.
      r <- withBinaryFile "/dev/null" ReadWriteMode $ \nowhere ->
        bracket (createProcess (proc program given) {std_out = UseHandle nowhere, std_err = UseHandle nowhere, std_in = UseHandle nowhere, close_fds = True}) stop $ \(_, _, _, process) -> do
          up <- awaitListening process port
          if up then Just <$> body (loopback port) else pure Nothing
      maybe (if tries > 1 then go (tries - 1) else assertFailure (program ++ " does not serve")) pure r
    stop handles@(_, _, _, process) = do
      terminateProcess process
      _ <- patiently (program ++ " to end") (waitForProcess process)
      cleanupProcess handles
    awaitListening process port =
      fst
        <$> eventually
          (program ++ " to listen")
          ( do
              ended <- getProcessExitCode process
              r <- try (bracket (socket AF_INET Stream 0) close (`connect` loopback port)) :: IO (Either IOException ())
              pure (either (const False) (const True) r, maybe False (const True) ended)
          )
          (uncurry (||))

logged :: FilePath -> IO [ByteString]
logged path = either (\(_ :: IOException) -> []) C.lines <$> try (B.readFile path)

-- | nginx, which answers everything itself.
withNginx :: (Upstreamed -> IO a) -> IO a
withNginx = nginxWith "" ""

nginxWith :: String -> String -> (Upstreamed -> IO a) -> IO a
nginxWith listenMore serverMore body = withDirectory $ \directory -> do
  let arguments port = do
        writeFile (directory ++ "/nginx.conf") . unlines $
          [ "daemon off; master_process off; pid " ++ directory ++ "/pid; error_log " ++ directory ++ "/error.log;",
            "events { worker_connections 1000; }",
            "http {",
            "  log_format line '$request'; access_log " ++ directory ++ "/access.log line;",
            "  client_max_body_size 0; keepalive_requests 100000;"
          ]
            ++ ["  " ++ kind ++ "_temp_path " ++ directory ++ "/" ++ kind ++ ";" | kind <- ["proxy", "fastcgi", "uwsgi", "scgi"]]
            ++ [ "  client_body_temp_path " ++ directory ++ "/body;",
                 "  server { listen 127.0.0.1:" ++ show port ++ listenMore ++ "; " ++ serverMore ++ " location / { return 200 'nginx'; } }",
                 "}"
               ]
        pure ["-p", directory, "-e", directory ++ "/error.log", "-c", directory ++ "/nginx.conf"]
  serving "nginx" arguments $ \address -> body (Upstreamed address (logged (directory ++ "/access.log")) "nginx")

-- | h2o, with a directory of one file.
withH2o :: (Upstreamed -> IO a) -> IO a
withH2o body = withDirectory $ \directory -> do
  B.writeFile (directory ++ "/page") "page"
  let arguments port = do
        writeFile (directory ++ "/h2o.conf") . unlines $
          [ "listen: { host: 127.0.0.1, port: " ++ show port ++ " }",
            "user: root",
            "num-threads: 1",
            "pid-file: " ++ directory ++ "/pid",
            "error-log: " ++ directory ++ "/error.log",
            "access-log: { path: " ++ directory ++ "/access.log, format: \"%r\" }",
            "hosts: { default: { paths: { /: { file.dir: " ++ directory ++ " } } } }"
          ]
        pure ["-c", directory ++ "/h2o.conf"]
  serving "h2o" arguments $ \address -> body (Upstreamed address (logged (directory ++ "/access.log")) "h2o")

-- | Python's http.server, which reads bodies as they are framed.
withPython :: (Upstreamed -> IO a) -> IO a
withPython body = withDirectory $ \directory ->
  serving "python3" (\port -> pure ["-c", program, show port, directory ++ "/access.log"]) $ \address ->
    body (Upstreamed address (logged (directory ++ "/access.log")) "BaseHTTP")
  where
    program =
      unlines
        [ "import sys, http.server",
          "log = open(sys.argv[2], 'a', buffering=1)",
          "class H(http.server.BaseHTTPRequestHandler):",
          "    protocol_version = 'HTTP/1.1'",
          "    disable_nagle_algorithm = True",
          "    wbufsize = 65536",
          "    def log_message(self, *a): pass",
          "    def __getattr__(self, name):",
          "        if name.startswith('do_'): return self.anything",
          "        raise AttributeError(name)",
          "    def anything(self):",
          "        log.write(self.requestline + '\\n')",
          "        if self.headers.get('Transfer-Encoding', '').lower() == 'chunked':",
          "            while True:",
          "                size = int(self.rfile.readline().split(b';')[0], 16)",
          "                self.rfile.read(size); self.rfile.readline()",
          "                if size == 0: break",
          "        else:",
          "            self.rfile.read(int(self.headers.get('Content-Length', '0')))",
          "        self.send_response(200)",
          "        self.send_header('Content-Length', '6')",
          "        self.end_headers()",
          "        if self.command != 'HEAD': self.wfile.write(b'python')",
          "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
        ]

secured :: TestTree
secured = testCase "https, verified" . withDirectory $ \directory -> do
  let file name = directory ++ "/" ++ name
  (code, _, why) <- readProcessWithExitCode "openssl" ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=up", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file "key.pem", "-out", file "cert.pem"] ""
  (code, why) `seqCode` nginxWith " ssl" ("ssl_certificate " ++ file "cert.pem" ++ "; ssl_certificate_key " ++ file "key.pem" ++ ";") $ \up -> do
    let client trust = newTlsClient defaultTlsClientConfig {clientTrust = trust} >>= either (fail . show) pure
        settings tls = (patient "" []) {proxyUpstreams = [upstreamAt (secureUrl (upstreamedAddress up))], proxyHost = HostOfUpstream, proxySecure = Just (tlsConnecting tls)}
    trusting <- client (TrustOnly (PemFile (file "cert.pem")))
    withFront Epoll defaultSettings (settings trusting) $ \front -> withClient (frontAddress front) $ \c ->
      forM_ [1 .. 5 :: Int] $ \_ -> say c (get "/") >> hearAnswer c >>= answersWith 200 "nginx"
    strict <- client TrustSystem
    withFront Epoll defaultSettings (settings strict) $ \front -> do
      ask front (get "/") >>= (@?= 502) . answerCode
      frontReports front >>= assertBool "told" . any (\r -> "cannot secure" `B.isInfixOf` C.pack r)
  where
    seqCode (code, why) next = if code == ExitSuccess then next else \_ -> assertFailure why
    secureUrl address = case address of
      SockAddrInet port _ -> either (error . show) id (parseSecure port)
      other -> error (show other)
    parseSecure port = parseUrl ("https://127.0.0.1:" <> C.pack (show port))

announced :: TestTree
announced = testGroup "haproxy hears of the client by the PROXY protocol" [testCase (show version) (heardBy version) | version <- [AnnounceV1, AnnounceV2]]
  where
    heardBy version = withDirectory $ \directory ->
      serving "haproxy" (configured directory) $ \address ->
        withFront Epoll defaultSettings (patient "" [address]) {proxyAnnounce = version} $ \front ->
          bracket (socket AF_INET Stream 0) close $ \s -> do
            connect s (frontAddress front)
            own <- getSocketName s
            far <- getPeerName s
            forM_ [1 .. 5 :: Int] $ \_ -> do
              answer <- onSocket s (get "/")
              assertBool (show answer) (C.pack (show own ++ " " ++ show far) `B.isInfixOf` answer)
    configured directory port = do
      writeFile (directory ++ "/haproxy.cfg") . unlines $
        [ "defaults",
          "  mode http",
          "  timeout client 60s",
          "  timeout server 60s",
          "  timeout connect 60s",
          "frontend f",
          "  bind 127.0.0.1:" ++ show port,
          -- The fixture's first connection, which only looks whether the port is served, has no such head.
          "  tcp-request connection expect-proxy layer4",
          "  http-request return status 200 content-type text/plain lf-string '%ci:%cp %[dst]:%[dst_port]'"
        ]
      pure ["-db", "-f", directory ++ "/haproxy.cfg"]
    onSocket s request = do
      sendAll s request
      go ""
      where
        go seen = do
          piece <- patiently "an answer" (recv s 65536)
          let all' = seen <> piece
          if B.null piece || "\r\n\r\n" `B.isInfixOf` all' && not (B.null (B.drop 4 (snd (B.breakSubstring "\r\n\r\n" all')))) then pure all' else go all'

behindHaproxy :: TestTree
behindHaproxy = testCase "haproxy in front, which announces clients by version 2" . withScripted script $ \upstream ->
  withFrontOn (Proxied ProxyRequired ClearText) Epoll defaultSettings (patient "" [upstream]) $ \front -> withDirectory $ \directory ->
    serving "haproxy" (configured directory (frontAddress front)) $ \address -> bracket (socket AF_INET Stream 0) close $ \s -> do
      -- Another address of this machine than all others in this test.
      bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 77)))
      connect s address
      sendAll s "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      answer <- toEnd s ""
      assertBool (show answer) ("127.0.0.77" `B.isSuffixOf` answer)
  where
    script _ peer = hearHead peer >>= tell peer . simple . fromMaybe "nothing" . heardField "x-forwarded-for"
    toEnd s seen = patiently "an answer" (recv s 65536) >>= \piece -> if B.null piece then pure seen else toEnd s (seen <> piece)
    configured directory to port = do
      writeFile (directory ++ "/haproxy.cfg") . unlines $
        [ "defaults",
          "  mode http",
          "  timeout client 60s",
          "  timeout server 60s",
          "  timeout connect 60s",
          "frontend f",
          "  bind 127.0.0.1:" ++ show port,
          "  default_backend b",
          "backend b",
          "  server s " ++ show to ++ " send-proxy-v2"
        ]
      pure ["-db", "-f", directory ++ "/haproxy.cfg"]

-- Like an answer of gRPC: hints, content, a status behind it.
trailedByHttp2 :: TestTree
trailedByHttp2 = testCase "curl gets interim responses and trailers by HTTP/2" . withScripted script $ \upstream ->
  withFront Epoll defaultSettings (patient "" [upstream]) $ \front -> do
    (code, out, errors) <- readProcessWithExitCode "curl" ["--silent", "--show-error", "--max-time", "20", "--http2-prior-knowledge", "--noproxy", "*", "-D", "-", "-H", "TE: trailers", "http://" ++ show (frontAddress front) ++ "/"] ""
    (code, errors) @?= (ExitSuccess, "")
    let heard = [line | line <- lines (filter (/= '\r') out), takeWhile (/= ':') line `notElem` ["date", "server"]]
    heard @?= ["HTTP/2 103 ", "link: </style.css>; rel=preload", "", "HTTP/2 200 ", "content-type: application/grpc", "trailer: grpc-status", "", "hellogrpc-status: 0", "grpc-message: well"]
  where
    script :: Int -> Peer -> IO ()
    script _ peer = do
      top <- hearHead peer
      heardField "te" top @?= Just "trailers"
      tell peer "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTrailer: grpc-status\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nGrpc-Status: 0\r\ngrpc-message: well\r\n\r\n"
      hearToEnd peer >> pure ()

byHttp2 :: TestTree
byHttp2 = testCase "curl speaks HTTP/2 before the proxy" . withScripted script $ \upstream ->
  withFront Epoll defaultSettings (patient "" [upstream]) $ \front -> withDirectory $ \directory -> do
    B.writeFile (directory ++ "/body") (B.replicate 300000 120)
    let curl more = readProcessWithExitCode "curl" (["--silent", "--show-error", "--max-time", "20", "--http2-prior-knowledge", "--noproxy", "*", "http://" ++ show (frontAddress front) ++ "/path?q"] ++ more) ""
    curl [] >>= (@?= (ExitSuccess, "GET /path?q HTTP/1.1 via 2.0 heddle of 0 bytes", ""))
    curl ["--data-binary", "@" ++ directory ++ "/body"] >>= (@?= (ExitSuccess, "POST /path?q HTTP/1.1 via 2.0 heddle of 300000 bytes", ""))
    curl ["--data-binary", "@" ++ directory ++ "/body", "-H", "Content-Length:"] >>= (@?= (ExitSuccess, "POST /path?q HTTP/1.1 via 2.0 heddle of 300000 bytes", ""))
  where
    script _ peer = do
      top <- hearHead peer
      body <- case (heardField "content-length" top, heardField "transfer-encoding" top) of
        (Just n, Nothing) -> hearExactlyFrom peer (read (C.unpack n))
        (Nothing, Just "chunked") -> chunksFrom peer
        _ -> pure ""
      tell peer (simple (B.concat [requestLine top, " via ", fromMaybe "" (heardField "via" top), " of ", C.pack (show (B.length body)), " bytes"]))
      script (0 :: Int) peer
