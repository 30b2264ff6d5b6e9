-- | Configurations of other servers: nothing is lost without a word.
module ImportTest (tests) where

import Control.Monad (forM_)
import Data.List (isInfixOf)
import Data.Text qualified as T
import Heddle.Serve.Config
import Heddle.Serve.Internal (importNginx)
import SiteFixture (withDirectory)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "translations"
    [ testCase "directivesWereLostSilently: nginx's directives with a value that is not ours are said" lost,
      testCase "directivesWereLostSilently: those that say what the server does anyway are not" kept,
      testCase "directivesWereLostSilently: expires beside a Cache-Control with a max-age" expires,
      testCase "aRouteWasSaidThatIsNone: location = with rules only" exact,
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
        snd (translationOf (server (before ++ quotedEnd directive ++ ";" ++ after))) @?= ["n.conf:5:1: not translated: " ++ directive]
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
