{-# LANGUAGE OverloadedStrings #-}

-- | @heddle serve --config@: serving, checking, explaining, dumping, translating, reloading.
module ConfigTest (tests) where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigHUP, sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "configurations"
    [ testCase "hosts by name, wildcard, and none; routes; rules of the top and of a host" serving,
      testCase "the command line counts before the file, and the environment goes into it" overFile,
      testCase "--check: all mistakes with their places, nothing started, exit code 1" checking,
      testCase "aMistakeHidTheMissingFiles: --check reports mistakes and what is missing at once" atOnce,
      testCase "theLocaleChangedNames: a configuration names files in UTF-8 in any locale" anyLocale,
      testCase "--explain: the lines that decide" explaining,
      testCase "--dump-config: read back, it says the same" dumping,
      testCase "a wrong configuration is not served" refusing,
      testCase "SIGHUP: a new configuration, and the old one if the new one is wrong" reloading,
      testCase "aPendingRestartWasSaidOnce: each reload names what needs a restart" pending,
      testCase "--import: a realistic nginx.conf, whose translation passes --check and serves" nginx,
      testCase "--import: Mighttpd's configuration with its routes" mighttpd,
      testCase "--sandbox-show: the roots of all hosts and the configuration's directory" sandbox
    ]

-- The answer to a GET for a host.
ask :: Program -> ByteString -> ByteString -> IO Answer
ask program name path = withClient (addressOf program) $ \client -> do
  say client (C.concat ["GET ", path, " HTTP/1.1\r\nHost: ", name, "\r\n\r\n"])
  hearAnswer client

site :: FilePath -> IO ()
site d = do
  forM_ ["a", "b", "b/sub", "top"] (createDirectory . (d </>))
  forM_ ["a", "b", "top"] $ \name -> B.writeFile (d </> name </> "index.html") (C.pack name)
  B.writeFile (d </> "b" </> "sub" </> "x.txt") "x of b"
  B.writeFile (d </> "site.yaml") . C.unlines $
    [ "listen: '127.0.0.1:0'",
      "cores: 1",
      "header: {'**': {X-Top: '1'}}",
      "hosts:",
      "  - names: a.example",
      "    root: a",
      "    header: {'**': {X-A: '1'}}",
      "    routes:",
      "      /files: {files: b/sub}",
      "      /health: {respond: 200, body: \"well\\n\", headers: {X-H: h}}",
      "      /moved-on: {respond: 302, body: '<a href=\"/new\">here</a>', headers: {Location: /new?a=b, Content-Type: text/html}}",
      "      /old: {redirect: 'http://$http_host/new/$rest?$args', status: 308}",
      "      /moved: {rewrite: '/files/$rest'}",
      "      /elsewhere: {rewrite: '/files/$rest'}",
      "      /try: {try-files: ['$uri', '/index.html']}",
      "      /gone: {try-files: ['/none'], else: 410}",
      "  - names: ['*.b.example', b.example]",
      "    root: ${B:-b}",
      "    access: {deny: 127.0.0.1}",
      "    routes: {/sub: {files: b/sub}}"
    ]

serving :: IO ()
serving = withDirectory $ \d -> do
  site d
  withProgram ["serve", "--config", d </> "site.yaml"] $ \program -> do
    home <- ask program "A.example:80" "/"
    answersWith 200 "a" home
    map (answerHeader home) ["x-top", "x-a"] @?= [Just "1", Just "1"]
    ask program "a.example" "/files/x.txt" >>= answersWith 200 "x of b"
    ask program "a.example" "/moved/x.txt" >>= answersWith 200 "x of b"
    -- rewritesKeptTheLengthOfThePrefix: the other route's prefix is longer or shorter.
    ask program "a.example" "/elsewhere/x.txt" >>= answersWith 200 "x of b"
    ask program "a.example" "/try/x" >>= answersWith 200 "a"
    health <- ask program "a.example" "/health/x"
    answersWith 200 "well\n" health
    map (answerHeader health) ["x-h", "content-type"] @?= [Just "h", Just "text/plain; charset=utf-8"]
    -- respondWithALocationWasRefused
    moved <- ask program "a.example" "/moved-on"
    answersWith 302 "<a href=\"/new\">here</a>" moved
    map (answerHeader moved) ["location", "content-type"] @?= [Just "/new?a=b", Just "text/html"]
    old <- ask program "a.example:81" "/old/x?y"
    (answerCode old, answerHeader old "location") @?= (308, Just "http://a.example:81/new/x?y")
    ask program "a.example" "/gone" >>= (@?= 410) . answerCode
    forM_ ["b.example", "x.y.b.example"] $ \name -> do
      denied <- ask program name "/"
      (answerCode denied, answerHeader denied "x-top", answerHeader denied "x-a") @?= (403, Just "1", Nothing)
    ask program "c.example" "/" >>= (@?= 421) . answerCode

overFile :: IO ()
overFile = withDirectory $ \d -> do
  site d
  withProgram ["serve", d </> "top", "--config", d </> "site.yaml", "--header", "**=X-Line:1"] $ \program -> do
    -- A directory on the command line is the site for names that no host has.
    other <- ask program "c.example" "/"
    answersWith 200 "top" other
    map (answerHeader other) ["x-top", "x-line"] @?= [Just "1", Just "1"]
  dumped <- runToolIn [("B", "top")] "heddle" ["serve", "--config", d </> "site.yaml", "--listen", ":1", "--dump-config"]
  contains "listen: [\":1\"]" (C.unpack (endedOut dumped))
  contains ("root: " ++ d </> "top") (C.unpack (endedOut dumped))

checking :: IO ()
checking = withDirectory $ \d -> do
  site d
  good <- runTool "heddle" ["serve", "--config", d </> "site.yaml", "--check"]
  (endedCode good, endedOut good, endedErr good) @?= (ExitSuccess, C.pack (d </> "site.yaml: no mistakes\n"), "")
  B.writeFile (d </> "users") "ann:plain\n"
  B.writeFile (d </> "cert.pem") "no certificate"
  B.writeFile (d </> "bad.yaml") . C.unlines $
    [ "lisen: ':80'",
      "compression: gzip",
      "hosts:",
      "  - names: a.example",
      "    rot: /x",
      "    routes: {/x: {cgi: /x, files: /y}}"
    ]
  bad <- runTool "heddle" ["serve", "--config", d </> "bad.yaml", "--check"]
  endedCode bad @?= ExitFailure 1
  lines (endedErr bad)
    @?= map
      ((d </> "bad.yaml") ++)
      [ ":1:1: 'lisen' is not a key of the configuration; did you mean 'listen'?",
        ":2:14: 'gzip' is not a way of compression; there are off, static and on",
        ":5:5: 'rot' is not a key of a host; did you mean 'root'?",
        ":6:18: a route has one of files, cgi, fastcgi, scgi, proxy, redirect, respond, rewrite and try-files, and this has files cgi"
      ]
  -- What it names is not there, or is wrong.
  B.writeFile (d </> "absent.yaml") . C.unlines $
    [ "root: none",
      "error-page: {404: 404.html}",
      "basic-auth: users",
      "access-log: logs/access.log",
      "tls-cert: cert.pem",
      "tls-key: key.pem",
      "tls-client-ca: cert.pem",
      "tls-ticket-secret: users",
      "routes: {/x: {files: absent}, /y: {cgi: absent}}",
      "user: nobody-of-this-name"
    ]
  absent <- runTool "heddle" ["serve", "--config", d </> "absent.yaml", "--check"]
  endedCode absent @?= ExitFailure 1
  let said = lines (endedErr absent)
  forM_
    [ ":1:7: cannot serve " ++ d </> "none: no such file or directory (ENOENT)",
      ":3:13: cannot use the users in " ++ d </> "users: ",
      ":4:13: cannot write the access log " ++ d </> "logs/access.log: no such file or directory (ENOENT)",
      ":5:11: ",
      ":7:16: " ++ d </> "cert.pem: has no certificate",
      ":8:20: " ++ d </> "users: a secret for tickets has at least 32 bytes",
      ":9:22: cannot serve /x: " ++ d </> "absent: no such file or directory (ENOENT)",
      ":9:41: cannot serve /y: " ++ d </> "absent: no such file or directory (ENOENT)",
      ":10:7: there is no user nobody-of-this-name"
    ]
    $ \part -> assertBool (part ++ " in " ++ unlines said) (any (((d </> "absent.yaml") ++ part) `isInfixOf`) said)
  none <- runTool "heddle" ["serve", "--config", d </> "nothing.yaml", "--check"]
  (endedCode none, endedErr none) @?= (ExitFailure 1, d </> "nothing.yaml:1:1: cannot read " ++ d </> "nothing.yaml: no such file or directory (ENOENT)\n")

atOnce :: IO ()
atOnce = withDirectory $ \d -> do
  let file = d </> "site.yaml"
  B.writeFile file "lisen: ':80'\nroot: none\nidle: ${NO_SUCH_VARIABLE}\ninclude: absent.yaml\n"
  ended <- runTool "heddle" ["serve", "--config", file, "--check"]
  endedCode ended @?= ExitFailure 1
  lines (endedErr ended)
    @?= map
      (file ++)
      [ ":1:1: 'lisen' is not a key of the configuration; did you mean 'listen'?",
        ":2:7: cannot serve " ++ d </> "none: no such file or directory (ENOENT)",
        ":3:7: the environment has no variable NO_SUCH_VARIABLE; set it, or write ${NO_SUCH_VARIABLE:-default}",
        ":4:10: cannot read " ++ d </> "absent.yaml: no such file or directory (ENOENT)"
      ]

anyLocale :: IO ()
anyLocale = withDirectory $ \d -> do
  _ <- runTool "sh" ["-c", "mkdir \"$0/$(printf '\\303\\251')\"", d]
  B.writeFile (d </> "site.yaml") "root: \xC3\xA9\n"
  forM_ ["C", "C.UTF-8"] $ \locale -> do
    ended <- runToolIn [("LC_ALL", locale)] "heddle" ["serve", "--config", d </> "site.yaml", "--check"]
    (locale, endedCode ended, endedErr ended) @?= (locale, ExitSuccess, "")

explaining :: IO ()
explaining = withDirectory $ \d -> do
  site d
  let file = d </> "site.yaml"
  ended <- runTool "heddle" ["serve", "--config", file, "--explain", "GET http://a.example/moved/x.txt"]
  endedCode ended @?= ExitSuccess
  lines (C.unpack (endedOut ended))
    @?= [ "request: GET http://a.example/moved/x.txt",
          "host:    a.example [" ++ file ++ ":5]",
          "route:   /moved [" ++ file ++ ":13]",
          "handler: rewrite to /files/x.txt [" ++ file ++ ":13]",
          "route:   /files [" ++ file ++ ":9]",
          "handler: files, " ++ d </> "b/sub [" ++ file ++ ":9]",
          "file:    " ++ d </> "b/sub/x.txt",
          "header:  X-Top: 1 [" ++ file ++ ":3]",
          "header:  X-A: 1 [" ++ file ++ ":7]"
        ]
  unknown <- runTool "heddle" ["serve", "--config", file, "--explain", "GET http://c.example/"]
  contains "status:  421" (C.unpack (endedOut unknown))

dumping :: IO ()
dumping = withDirectory $ \d -> do
  site d
  first <- runTool "heddle" ["serve", "--config", d </> "site.yaml", "--idle", "9", "--cgi", "/cgi=" ++ d, "--proxy", "/p=http://a*2,http://b", "--log-format", "$status ${request}", "--max-body", "10M", "--dump-config"]
  endedCode first @?= ExitSuccess
  B.writeFile (d </> "again.yaml") (endedOut first)
  second <- runTool "heddle" ["serve", "--config", d </> "again.yaml", "--dump-config"]
  (endedCode second, endedErr second) @?= (ExitSuccess, "")
  endedOut second @?= endedOut first
  forM_ ["idle: 9", "max-body: 10M", "log-format: \"$status $${request}\"", "proxy: [\"http://a*2,http://b\"]"] $ \part -> contains part (C.unpack (endedOut first))

refusing :: IO ()
refusing = withDirectory $ \d -> do
  B.writeFile (d </> "site.yaml") "listen: 'x:y:z'\nrot: .\n"
  ended <- runTool "heddle" ["serve", "--config", d </> "site.yaml"]
  endedCode ended @?= ExitFailure 2
  length (lines (endedErr ended)) @?= 2
  contains "site.yaml:2:1: 'rot' is not a key of the configuration; did you mean 'root'?" (endedErr ended)
  nothing <- runTool "heddle" ["serve"]
  endedCode nothing @?= ExitFailure 2
  contains "or a configuration (--config FILE)" (endedErr nothing)

reloading :: IO ()
reloading = withDirectory $ \d -> do
  site d
  let file = d </> "site.yaml"
  old <- B.readFile file
  withProgram ["serve", "--config", file] $ \program -> do
    ask program "a.example" "/" >>= answersWith 200 "a"
    B.writeFile file (old <> "  - {names: new.example, root: b}\n")
    signal program sigHUP
    void (eventually "the new host" (answerBody <$> ask program "new.example" "/") (== "b"))
    B.writeFile file (old <> "  - {names: newer.example, rot: b}\n")
    signal program sigHUP
    void (eventually "the mistake" (programErr program) ("'rot' is not a key of a host" `isInfixOf`))
    ask program "new.example" "/" >>= answersWith 200 "b"
    ask program "newer.example" "/" >>= (@?= 421) . answerCode
    signal program sigTERM
    ends program >>= (@?= ExitSuccess)

pending :: IO ()
pending = withDirectory $ \d -> do
  site d
  let file = d </> "site.yaml"
      said program n = void (eventually (show n ++ " messages") (programOut program) ((== n) . length . filter ("; a restart or SIGUSR2 is needed for the time to drain" `isInfixOf`) . lines))
  old <- B.readFile file
  withProgram ["serve", "--config", file] $ \program -> do
    B.writeFile file (old <> "drain: 3\n")
    signal program sigHUP
    said program (1 :: Int)
    signal program sigHUP
    said program 2
    signal program sigTERM
    ends program >>= (@?= ExitSuccess)

-- As Debian's packages of nginx and php-fpm and a common application have it.
nginxConf :: FilePath -> [String]
nginxConf d =
  [ "user www-data;",
    "worker_processes auto;",
    "pid /run/nginx.pid;",
    "include /etc/nginx/modules-enabled/*.conf;",
    "events { worker_connections 768; }",
    "http {",
    "  sendfile on; tcp_nopush on; types_hash_max_size 2048;",
    "  include /etc/nginx/mime.types;",
    "  default_type application/octet-stream;",
    "  log_format main '$remote_addr [$time_local] \"$request\" '",
    "                  '$status $body_bytes_sent';",
    "  access_log " ++ d ++ "/access.log main;",
    "  gzip on;",
    "  client_max_body_size 10m;",
    "  keepalive_timeout 65;",
    "  limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;",
    "  upstream app { least_conn; server 127.0.0.1:3000 weight=2; server 127.0.0.1:3001; keepalive 8; }",
    "  map $http_upgrade $connection_upgrade { default upgrade; '' close; }",
    "  server {",
    "    listen 80 default_server;",
    "    listen [::]:80 default_server;",
    "    server_name www.example.org example.org;",
    "    root " ++ d ++ "/a; # the site",
    "    index index.html index.php;",
    "    error_page 404 /404.html;",
    "    location / { try_files $uri $uri/ =404; }",
    "    location ~ \\.php$ {",
    "      include snippets/fastcgi-php.conf;",
    "      fastcgi_pass unix:/run/php/php8.2-fpm.sock;",
    "    }",
    "    location ~ /\\.ht { deny all; }",
    "    location ~* \\.(?:css|js)$ { expires 30d; add_header X-Kind asset; }",
    "    location /api/ {",
    "      limit_req zone=one burst=20;",
    "      proxy_pass http://app;",
    "      proxy_set_header Host $host;",
    "      proxy_set_header X-Own $http_upgrade;",
    "    }",
    "    location /docs/ { alias " ++ d ++ "/b/; autoindex on; }",
    "    location = /health { return 200 'ok'; }",
    "    location /old/ { return 301 /new$request_uri; }",
    "    rewrite ^/user/(.*)$ /profile?u=$1 last;",
    "  }",
    "  server {",
    "    server_name admin.example.org;",
    "    allow 10.0.0.0/8; deny all;",
    "    root " ++ d ++ "/b;",
    "    add_header X-Frame-Options DENY always;",
    "  }",
    "}"
  ]

nginx :: IO ()
nginx = withDirectory $ \d -> do
  site d
  B.writeFile (d </> "a" </> "404.html") "lost"
  writeFile (d </> "nginx.conf") (unlines (nginxConf d))
  ended <- runTool "heddle" ["serve", "--import", d </> "nginx.conf"]
  endedCode ended @?= ExitSuccess
  let file = d </> "nginx.conf"
  lines (endedErr ended)
    @?= map
      (file ++)
      [ ":4:1: not translated: include /etc/nginx/modules-enabled/*.conf; translate that file itself",
        ":18:1: not translated: map $http_upgrade $connection_upgrade",
        ":34:1: not translated: limit_req zone=one burst=20",
        ":37:1: not translated: proxy_set_header X-Own $http_upgrade",
        ":39:1: not translated: autoindex on",
        ":40:1: location = /health became a route for /health and what is below it",
        ":42:1: not translated: rewrite ^/user/(.*)$ /profile?u=$1 last"
      ]
  lines (C.unpack (endedOut ended))
    @?= [ "user: www-data",
          "pid-file: /run/nginx.pid",
          "max-connections: 768",
          "access-log: " ++ d ++ "/access.log",
          "log-format: \"$remote_addr [$time_local] \\\"$request\\\" $status $body_bytes_sent\"",
          "compression: on",
          "max-body: 10m",
          "idle: 65",
          "listen: [\":80\"]",
          "unknown-host: first",
          "hosts:",
          "  - names: [www.example.org, example.org]",
          "    root: " ++ d ++ "/a",
          "    index: [index.html, index.php]",
          "    error-page:",
          "      404: 404.html",
          "    routes:",
          "      /:",
          "        try-files: [\"$uri\", \"$uri/\"]",
          "        else: 404",
          "      \"/*.php\":",
          "        fastcgi: \"unix:/run/php/php8.2-fpm.sock\"",
          "      /api:",
          "        proxy: [\"http://127.0.0.1:3000/api*2\", \"http://127.0.0.1:3001/api\"]",
          "      /docs:",
          "        files: " ++ d ++ "/b",
          "      /health:",
          "        respond: 200",
          "        body: ok",
          "      /old:",
          "        redirect: \"/new$request_uri\"",
          "        status: 301",
          "    cache-control:",
          "      \"*.{css,js}\": max-age=2592000",
          "    header:",
          "      \"*.{css,js}\":",
          "        X-Kind: asset",
          "    proxy-balance: least",
          "  - names: [admin.example.org]",
          "    access:",
          "      - allow: 10.0.0.0/8",
          "      - deny: all",
          "    root: " ++ d ++ "/b",
          "    header:",
          "      \"**\":",
          "        X-Frame-Options: DENY"
        ]
  -- It can be served, as another user cannot everywhere.
  B.writeFile (d </> "site.yaml") (C.unlines [line | line <- C.lines (endedOut ended), not (any (`B.isPrefixOf` line) ["user:", "pid-file:", "listen:"])])
  checked <- runTool "heddle" ["serve", "--config", d </> "site.yaml", "--check"]
  (endedCode checked, length (filter ("has no effect on the replies of /*.php and /api" `isInfixOf`) (lines (endedErr checked))), length (lines (endedErr checked))) @?= (ExitSuccess, 2, 2)
  withProgram (["serve", "--config", d </> "site.yaml", "--cores", "1"] ++ free) $ \program -> do
    forM_ ["example.org", "other.example"] $ \name -> ask program name "/" >>= answersWith 200 "a"
    missing <- ask program "example.org" "/nothing"
    (answerCode missing, answerBody missing) @?= (404, "lost")
    ask program "example.org" "/docs/sub/x.txt" >>= answersWith 200 "x of b"
    ask program "example.org" "/health" >>= answersWith 200 "ok"
    ask program "admin.example.org" "/" >>= (@?= 403) . answerCode

mighttpd :: IO ()
mighttpd = withDirectory $ \d -> do
  site d
  writeFile (d </> "mighttpd.conf") (unlines ["Port: 80", "Host: *", "Debug_Mode: No", "User: root", "Group: root", "Pid_File: " ++ d ++ "/mighty.pid", "Logging: Yes", "Log_File: " ++ d ++ "/mighty.log", "Log_File_Size: 16777216", "Log_Backup_Number: 10", "Index_File: index.html", "Status_File_Dir: /usr/local/share/mighty/status", "Connection_Timeout: 30", "Fd_Cache_Duration: 10", "Routing_File: mighttpd.route", "Service: 0"])
  writeFile (d </> "mighttpd.route") (unlines ["[a.example www.a.example]", "# files, in their order", "/x/ -> " ++ d ++ "/b/sub/", "/search/ << http://other.example/", "/ -> " ++ d ++ "/a/", "[*]", "/ -> " ++ d ++ "/top/"])
  ended <- runTool "heddle" ["serve", "--import", d </> "mighttpd.conf"]
  endedCode ended @?= ExitSuccess
  lines (endedErr ended) @?= [d ++ "/mighttpd.conf:12:1: not translated: Status_File_Dir: pages for errors are given by error-page"]
  B.writeFile (d </> "site.yaml") (endedOut ended)
  checked <- runTool "heddle" ["serve", "--config", d </> "site.yaml", "--check"]
  (endedCode checked, endedErr checked) @?= (ExitSuccess, "")
  withProgram (["serve", "--config", d </> "site.yaml", "--cores", "1"] ++ free) $ \program -> do
    ask program "www.a.example" "/" >>= answersWith 200 "a"
    ask program "a.example" "/x/x.txt" >>= answersWith 200 "x of b"
    moved <- ask program "a.example" "/search/q"
    (answerCode moved, answerHeader moved "location") @?= (302, Just "http://other.example/q")
    ask program "c.example" "/" >>= answersWith 200 "top"

sandbox :: IO ()
sandbox = withDirectory $ \d -> do
  site d
  -- A pattern that matches nothing yet: a reload looks again.
  mapM_ (createDirectory . (d </>)) ["conf", "more"]
  site' <- B.readFile (d </> "site.yaml")
  B.writeFile (d </> "conf" </> "site.yaml") (site' <> "include: ../more/*.yaml\n")
  ended <- runTool "heddle" ["serve", "--config", d </> "conf" </> "site.yaml", "--sandbox", "on", "--sandbox-show"]
  endedCode ended @?= ExitSuccess
  let said = lines (C.unpack (endedOut ended))
  if any ("no Landlock" `isInfixOf`) said
    then pure ()
    else forM_ [d </> "conf", d </> "more", d </> "conf/a", d </> "conf/b/sub"] $ \path -> assertBool (path ++ " in " ++ unlines said) (("read    " ++ path) `elem` said)
