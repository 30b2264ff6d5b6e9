-- | Configurations of other servers: nothing is lost without a word.
module ImportTest (tests) where

import Control.Monad (forM_)
import Data.List (isInfixOf)
import Data.Text qualified as T
import Heddle.Prim.Exception (evaluate)
import Heddle.Serve.Config
import Heddle.Serve.Internal (importNginx)
import SiteFixture (withDirectory)
import System.FilePath ((</>))
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "translations"
    [ testCase "directivesWereLostSilently: nginx's directives with a value that is not ours are said" lost,
      testCase "directivesWereLostSilently: those that say what the server does anyway are not" kept,
      testCase "directivesWereLostSilently: expires beside a Cache-Control with a max-age" expires,
      testCase "hostsOfServersBehindWereTakenForEqual: what nginx sends as Host, and we do not" hostHeaders,
      testCase "programsFilesWereLostSilently: SCRIPT_FILENAME and the like with other values, and another root" programs,
      testCase "realClientsWereTakenForForwarded: set_real_ip_from without real_ip_header" realClients,
      testCase "namedLocationsWereLostSilently: what stands beside their proxy_pass" namedLocations,
      testCase "oneServersBodiesWereAllServers: client_max_body_size of a server and a location" bodies,
      testCase "aRouteWasSaidThatIsNone: location = with rules only" exact,
      testCase "quotedBackslashesWereLost: escapes as nginx has them, in quotes and without" escapes,
      testCase "locationsCostTheCubeOfTheirNumber" manyLocations,
      testCase "everyFileWasMighttpds: files of other servers are refused" refused
    ]

translationOf :: String -> (String, [String])
translationOf text = case importNginx "n.conf" text of
  Left problem -> (renderProblem problem, [])
  Right imported -> (T.unpack (importedText imported), map renderProblem (importedLeft imported))

server :: String -> String
server body = "http {\n server {\n server_name a.example;\n root /srv;\n" ++ body ++ "\n }\n}\n"

lost :: IO ()
lost = do
  forM_
    [ "proxy_set_header X-Real-IP $remote_addr",
      "proxy_set_header Host backend.internal",
      "proxy_set_header Accept-Encoding ",
      "proxy_set_header X-Forwarded-For unknown",
      "proxy_set_header X-Forwarded-Port $server_port",
      "proxy_redirect http://a/ /b/"
    ]
    $ \directive ->
      forM_ [("location /app { proxy_pass http://127.0.0.1:1; ", "}"), ("location / { proxy_pass http://127.0.0.1:1; ", "}"), ("", "")] $ \(before, after) ->
        filter (not . ("since no proxy_set_header Host" `isInfixOf`)) (snd (translationOf (server (before ++ quotedEnd directive ++ ";" ++ after)))) @?= ["n.conf:5:1: not translated: " ++ directive]
  forM_ ["charset iso-8859-1", "default_type text/plain", "etag off", "if_modified_since off", "ssl_protocols TLSv1 TLSv1.2", "ssl_ciphers HIGH", "auth_basic off", "limit_req_status 444", "gzip_types text/css", "gzip_min_length 1000", "real_ip_header X-Real-IP"] $ \directive ->
    snd (translationOf (server (directive ++ ";"))) @?= ["n.conf:5:1: not translated: " ++ directive]
  where
    -- An empty value is written in quotes.
    quotedEnd text = if last text == ' ' then text ++ "''" else text

kept :: IO ()
kept =
  forM_
    [ "proxy_set_header Host $host",
      "proxy_set_header Host $http_host",
      "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for",
      "proxy_set_header X-Forwarded-Proto $scheme",
      "proxy_set_header Upgrade $http_upgrade",
      "proxy_set_header Connection \"upgrade\"",
      "charset UTF-8",
      "default_type application/octet-stream",
      "etag on",
      "ssl_protocols TLSv1.2 TLSv1.3",
      "sendfile on",
      "auth_basic 'Members'"
    ]
    $ \directive -> snd (translationOf (server (directive ++ ";"))) @?= []

escapes :: IO ()
escapes = do
  forM_ [("\\.php$", "*.php"), ("\"\\.php$\"", "*.php"), ("'\\.(jpg|png)$'", "*.{jpg,png}")] $ \(expression, glob) -> do
    let (yaml, problems) = translationOf (server ("location ~ " ++ expression ++ " { add_header A b; }"))
    problems @?= []
    assertBool yaml (("\"/**/" ++ glob ++ "\"") `isInfixOf` yaml || ("\"" ++ glob ++ "\"") `isInfixOf` yaml)
  forM_
    [ ("\"a\\\"b\"", "a\\\"b"),
      ("a\\\"b", "a\\\"b"),
      ("'it\\'s'", "it's"),
      ("'a\\\\b'", "a\\\\b"),
      ("a\\\\b", "a\\\\b"),
      ("\"a\\tb\"", "a\\tb"),
      ("'a\\db'", "a\\\\db"),
      ("a\\ b", "a\\\\ b")
    ]
    $ \(value, written) -> do
      let (yaml, problems) = translationOf (server ("add_header A " ++ value ++ ";"))
      problems @?= []
      assertBool yaml (("A: \"" ++ written ++ "\"\n") `isInfixOf` yaml)
  -- Lines are counted through an escaped end of a line.
  snd (translationOf (server "add_header A \"x\\\ny\";\ncharset iso-8859-1;")) @?= ["n.conf:7:1: not translated: charset iso-8859-1"]

-- What is allocated for four times as many is four times as much, and not its square.
manyLocations :: IO ()
manyLocations = do
  few <- allocatedFor 100
  many <- allocatedFor 400
  assertBool (show few ++ " bytes, and " ++ show many) (many < 8 * few)
  where
    allocatedFor n = do
      let text = server (concat ["location /p" ++ show k ++ " { proxy_pass http://127.0.0.1:1; }\n" | k <- [1 .. n :: Int]])
      _ <- evaluate (length text)
      before <- getAllocationCounter
      _ <- evaluate (length (fst (translationOf text)))
      after <- getAllocationCounter
      pure (before - after)

expires :: IO ()
expires = do
  let (yaml, problems) = translationOf (server "location /s/ { expires 30d; add_header Cache-Control \"max-age=5, public\"; }")
  assertBool yaml ("\"/s/**\": \"max-age=5, public\"" `isInfixOf` yaml)
  problems @?= ["n.conf:5:1: not translated: expires 30d (the Cache-Control beside it has a max-age)"]
  let (joined, none) = translationOf (server "location /s/ { add_header Cache-Control public; expires 30d; }")
  assertBool joined ("\"/s/**\": \"max-age=2592000, public\"" `isInfixOf` joined)
  none @?= []

exact :: IO ()
exact = do
  let (yaml, problems) = translationOf (server "location = /favicon.ico { log_not_found off; expires 1d; }")
  problems @?= []
  assertBool yaml ("/favicon.ico: max-age=86400" `isInfixOf` yaml)
  assertBool yaml (not ("routes" `isInfixOf` yaml))
  snd (translationOf (server "location = /robots.txt { return 200 ok; }")) @?= ["n.conf:5:1: location = /robots.txt became a route for /robots.txt and what is below it"]

refused :: IO ()
refused = withDirectory $ \d -> do
  let file = d </> "other"
      says text = do
        writeFile file text
        either (Left . drop (length file) . renderProblem) (const (Right ())) <$> importFile file
  forM_
    [ "example.com {\n  root * /srv/www\n  try_files {path} {path}/\n  reverse_proxy /api/* localhost:9000\n  file_server\n}\n",
      ":2015 {\n  log {\n    output file /x\n  }\n  respond \"a; b\"\n}\n",
      "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ /index.php [L]\nHeader set X-A \"a; b\"\n",
      "<IfModule mod_x.c>\n  Allow from all\n</IfModule>\n",
      "server.port = 80\nserver.document-root = \"/srv\"\n",
      "root: site\n",
      "frontend web\n  bind :80\n",
      ""
    ]
    $ \text -> says text >>= (@?= Left ":1:1: this is no configuration of nginx or Mighttpd, and those of other servers are not translated")
  forM_ ["server {\n listen 80;\n}\n", "http { server { root /srv; } }\n", "add_header X-A b;\n", "Port: 8080\n", "/ -> /srv/www/\n", "[a.example]\n/x => /cgi/\n"] $ \text -> says text >>= (@?= Right ())

hostHeaders :: IO ()
hostHeaders = do
  -- What stands around, what stands in the location, the server, and what is said.
  forM_
    [ ("", "", "http://127.0.0.1:1", [7 `says` "the server gets the client's Host, and from nginx 127.0.0.1:1"]),
      ("", "", "http://127.0.0.1:1/x/", [7 `says` "the server gets the client's Host, and from nginx 127.0.0.1:1"]),
      ("", "", "http://unix:/run/app.sock", [7 `says` "the server gets the client's Host, and from nginx localhost"]),
      ("", "", "http://app", [7 `says` "the server gets the client's Host, and from nginx app"]),
      ("", "", "https://b.example", []),
      ("", "", "https://app", [7 `says` "each server gets its own name as Host, and from nginx app"]),
      ("", "proxy_set_header Host $host", "http://127.0.0.1:1", []),
      ("", "proxy_set_header HOST $http_host", "http://app", []),
      ("proxy_set_header Host $host", "", "http://app", []),
      -- One in the location hides all around it.
      ("proxy_set_header Host $host", "proxy_set_header X-Forwarded-Proto $scheme", "http://app", [7 `says` "the server gets the client's Host, and from nginx app"]),
      ("", "proxy_set_header Host $proxy_host", "https://b.example", []),
      ("", "proxy_set_header Host $proxy_host", "http://app", ["n.conf:7:1: the server gets the client's Host, and from nginx app"]),
      ("", "proxy_set_header Host $host", "https://b.example", ["n.conf:6:1: not translated: proxy_set_header Host $host; a server at https:// gets its own name"]),
      ("", "proxy_set_header Host b.internal", "http://app", ["n.conf:6:1: not translated: proxy_set_header Host b.internal"]),
      ("", "include proxy_params", "http://app", ["n.conf:6:1: not translated: proxy_set_header X-Real-IP $remote_addr of proxy_params"])
    ]
    $ \(around, within, url, said) -> forM_ ["/", "/app", "~ \\.x$"] $ \location -> do
      let text = server (line around ++ " location " ++ location ++ " {\n" ++ line within ++ "\n proxy_pass " ++ url ++ ";\n }\n}\n upstream app { server 127.0.0.1:1; server 127.0.0.1:2;")
      (text, snd (translationOf text)) @?= (text, said)
  where
    line text = if null text then "" else text ++ ";"
    says :: Int -> String -> String
    says n what = "n.conf:" ++ show n ++ ":1: " ++ what ++ ", since no proxy_set_header Host holds here"

programs :: IO ()
programs = do
  forM_
    [ ("fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name", True),
      ("fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name", True),
      ("fastcgi_param PATH_INFO $fastcgi_path_info", True),
      ("fastcgi_param QUERY_STRING $args", True),
      ("root /srv", True),
      ("fastcgi_param SCRIPT_FILENAME /srv/app/index.php", False),
      ("fastcgi_param SCRIPT_FILENAME /var/www$fastcgi_script_name", False),
      ("fastcgi_param PATH_INFO $uri", False),
      ("fastcgi_param DOCUMENT_ROOT /var/www", False),
      ("root /var/www", False),
      ("alias /var/www/", False)
    ]
    $ \(directive, same) -> forM_ ["~ \\.php$", "/app"] $ \location ->
      (location, snd (translationOf (server ("location " ++ location ++ " { fastcgi_pass 127.0.0.1:9000; " ++ directive ++ "; }"))))
        @?= (location, ["n.conf:5:1: not translated: " ++ directive | not same])

realClients :: IO ()
realClients = do
  let said more = filter (/= "n.conf:2:1: 'trusted-proxy' of this server holds for all hosts now") (snd (translationOf (server (more ++ "set_real_ip_from 10.0.0.0/8;"))))
      believed = "n.conf:5:1: X-Forwarded-For of these peers is believed, and nginx believes X-Real-IP unless real_ip_header says otherwise"
  said "" @?= [believed]
  said "real_ip_header X-Forwarded-For;" @?= []
  said "real_ip_header X-Real-IP;" @?= ["n.conf:5:1: not translated: real_ip_header X-Real-IP"]

namedLocations :: IO ()
namedLocations =
  snd (translationOf (server "location / { try_files $uri @app; }\n location @app {\n proxy_pass http://127.0.0.1:1;\n proxy_set_header Host $host;\n proxy_set_header X-Real-IP $remote_addr;\n }"))
    @?= ["n.conf:5:1: the fallback @app became the route /app, which clients can ask for, too", "n.conf:9:1: not translated: proxy_set_header X-Real-IP $remote_addr"]

bodies :: IO ()
bodies = do
  let (yaml, problems) = translationOf "http {\n client_max_body_size 8m;\n server {\n server_name a.example;\n root /srv;\n client_max_body_size 1m;\n location / { proxy_pass https://b; client_max_body_size 20m; }\n location /up { fastcgi_pass 127.0.0.1:1; client_max_body_size 1g; }\n location /files { client_max_body_size 2m; }\n }\n server { server_name c.example; root /srv; }\n}\n"
  problems @?= ["n.conf:9:1: not translated: client_max_body_size 2m"]
  filter ("max-body" `isInfixOf`) (lines yaml) @?= ["max-body: 8m", "    max-body: 1m", "        max-body: 20m", "        max-body: 1g"]
