{-# LANGUAGE OverloadedStrings #-}

-- | Whole configurations: every key, mistakes with their places, includes, what is dumped, explained, documented and translated.
module ConfigFileTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.List (isInfixOf)
import Data.Text (Text)
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8, encodeUtf8)
import Heddle.Serve.Config
import Heddle.Serve.Internal (Codec (..), Key (..), ReadTree (..), Shape (..), Yaml (..), configCodec, decodeNode, importMighttpd, importNginx, parseTree, readTree, renderYaml)
import SiteFixture (withDirectory)
import System.Directory (createDirectory)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (Gen, Property, choose, counterexample, elements, forAll, oneof, property, shuffle, sublistOf, testProperty, vectorOf, (===))

tests :: TestTree
tests =
  testGroup
    "configurations"
    [ testCase "the manual has the grammar, and the schema is that of the grammar" documented,
      testCase "mistakes of every kind at once, with their places" mistakes,
      testCase "mistakes that only the whole shows" wholes,
      testProperty "a configuration of any keys is read, and what is dumped is read back to it" dumped,
      testCase "a text of any characters is written so that it is read back" scalars,
      testCase "the command line over a file" over,
      testCase "includes: joined, in order, with their own places" includes,
      testCase "includes: cycles, missing files, mistakes inside" wrongIncludes,
      testCase "filesThatIncludeTwiceWereReadWithoutEnd: there is a limit, and a device without an end has one, too" endless,
      testCase "aMistakeHidTheMissingFiles: what the rest names is checked as well" checkedInSpite,
      testCase "prefixesSpeltOtherwiseWereTwoRoutes: the command line's replaces the file's" respelt,
      testCase "rewritesToNoPathWereAccepted: a target within the site begins with a slash" relative,
      testCase "explainedErrorsHadNoHeaders: errors get the rules for the path of the request" explainedErrors,
      testCase "serversOutsideHttpWereUntranslated: nginx's files of sites-enabled" sitesEnabled,
      testCase "spareServersWereAsked: nginx's spare servers, names with a wildcard, and two Cache-Controls" sideServers,
      testCase "nginx's client certificates, for all hosts" clientCertificates,
      testCase "protectedLocationsWereOpen: nginx's rules without a counterpart close what they protect" protected,
      testCase "explain: hosts, routes, files, headers and their lines" explained,
      testCase "Mighttpd's files" mighttpd,
      testCase "nginx: what is no configuration" wrongNginx,
      testProperty "nginx: a text with characters removed is translated, or refused with a line" mutatedNginx
    ]

-- Read a configuration, with a variable of the environment.
readText :: Text -> Either [Problem] Config
readText text = either (Left . pure) Right (parseTree environment "site.yaml" (encodeUtf8 text)) >>= decodeNode (codecDecoder configCodec)

environment :: Text -> Maybe Text
environment name = lookup name [("WWW", "/srv/www")]

begin :: Position
begin = Position "site.yaml" 1 1

problemsOf :: Either [Problem] a -> [String]
problemsOf = either (map renderProblem) (const [])

-- Everything that is wrong, as --check says it without looking at files.
wrong :: [Text] -> [String]
wrong text = problemsOf (readText (T.unlines text) >>= optionsOf begin)

documented :: Assertion
documented = do
  manual <- decodeUtf8 <$> B.readFile "../../docs/manual/serve-config.md"
  assertBool "docs/manual/serve-config.md differs from the grammar; put in what 'referenceText' says" (T.pack referenceText `T.isInfixOf` manual)
  -- Its first example is right.
  let example = T.unlines . filter (not . T.isPrefixOf "include:") . takeWhile (/= "```") . drop 1 . dropWhile (/= "```yaml") $ T.lines manual
  assertBool "there is an example" (T.length example > 500)
  problemsOf (readText example >>= optionsOf begin) @?= []
  schema <- decodeUtf8 <$> B.readFile "../../docs/manual/serve-config.schema.json"
  assertBool "docs/manual/serve-config.schema.json differs from heddle serve --config-schema" (T.pack schemaText == schema)

mistakes :: Assertion
mistakes =
  wrong
    [ "lisen: :80",
      "listen: [':80', 'https://:99999']",
      "compression: statik",
      "time-outs: {hed: 5, body: 0}",
      "header:",
      "  \"*.pdf\": {Content-Length: 5}",
      "error-page: {200: ok.html}",
      "hosts:",
      "  - names: www.*.org",
      "    root: ''",
      "    routes:",
      "      api: {cgi: /x}",
      "      /a: {cgi: /x, proxy: 'http://y'}",
      "      /b: {redirect: $nothing}",
      "      /c: {proxy: 'ftp://x'}",
      "      /d: {}",
      "      /e: {respond: 200, status: 301}",
      "    access:",
      "      - {allow: all, deny: all}",
      "      - allow: 10.0.0.0/99",
      "    tls-cert: a.pem"
    ]
    @?= [ "site.yaml:1:1: 'lisen' is not a key of the configuration; did you mean 'listen'?",
          "site.yaml:2:17: '99999' is not a port; ports go from 0 (any free one) to 65535",
          "site.yaml:3:14: 'statik' is not a way of compression; did you mean 'static'?",
          "site.yaml:4:13: 'hed' is not a key of the time-outs; did you mean 'head'?",
          "site.yaml:4:27: '0' is not a number of seconds (1 to 1000000)",
          "site.yaml:6:29: the header Content-Length belongs to the server and cannot be set",
          "site.yaml:7:19: '200' is not the status of an error (400 to 599)",
          "site.yaml:9:12: 'www.*.org' is not a host's name; '*' can only be its first part, as in *.example.org",
          "site.yaml:10:11: a path is empty",
          "site.yaml:12:7: the prefix 'api' does not begin with a slash; write /api",
          "site.yaml:13:11: a route has one of files, cgi, fastcgi, scgi, proxy, redirect, respond, rewrite and try-files, and this has cgi proxy",
          "site.yaml:14:22: there is no variable $nothing; there are $scheme, $host, $http_host, $uri, $request_uri, $rest, $args, $query_string, $is_args",
          "site.yaml:15:19: 'ftp://x': an address begins with http://, https:// or unix:",
          "site.yaml:16:11: a route has one of files, cgi, fastcgi, scgi, proxy, redirect, respond, rewrite and try-files",
          "site.yaml:17:11: 'status' belongs to a route with 'redirect'",
          "site.yaml:19:9: a rule of access has either 'allow' or 'deny'; write a list of rules for several",
          "site.yaml:20:16: '10.0.0.0/99' has no number of bits after the slash, such as 10.0.0.0/8"
        ]

wholes :: Assertion
wholes = do
  -- An address belongs to replies of respond alone.
  wrong ["root: /a", "header: {'**': {location: /x}}"] @?= ["site.yaml:2:27: the header location belongs to the server and cannot be set"]
  wrong ["root: /a", "routes: {/b: {respond: 302, headers: {location: /x}}}"] @?= []
  wrong ["listen: :80"] @?= ["site.yaml:1:1: there is nothing to serve; give a directory (root), routes, or hosts"]
  wrong ["hosts:", "  - {names: [a.example, b.example], root: /a, tls-cert: a.pem}"] @?= ["site.yaml:2:57: each 'tls-cert' needs its 'tls-key', in the same order; there are 1 and 0"]
  wrong
    [ "listen: ['https://:443']",
      "unknown-host: 421",
      "root: /srv",
      "hosts:",
      "  - {names: [a.example, b.example], root: /a}",
      "  - {names: B.example., routes: {/: {try-files: $uri}}}",
      "  - {names: c.example, redirect-https: yes}",
      "  - {root: /b, routes: {/x: {respond: 200}, /x/: {respond: 200}}}"
    ]
    @?= [ "site.yaml:1:10: there is no certificate for https://:443; give tls-cert and tls-key, or tls-self-signed",
          "site.yaml:2:15: 'unknown-host' is 421, so nobody gets the site that has no names; leave out one of both",
          "site.yaml:6:13: the name 'B.example.' is given twice, first at site.yaml:5",
          "site.yaml:6:34: 'try-files' needs a root",
          "site.yaml:7:5: the host has neither a root nor routes",
          "site.yaml:8:5: the host has no names; give them by 'names', such as names: www.example.org",
          "site.yaml:8:45: there are two routes for /x, the first at site.yaml:8"
        ]
  wrong ["listen: :80", "root: /a", "redirect-https: yes"] @?= ["site.yaml:3:17: 'redirect-https' needs an address to redirect to; listen on https://ADDR:PORT"]

dumped :: Property
dumped = forAll (yamlOf (codecShape configCodec)) $ \yaml ->
  let text = renderYaml "" yaml
   in counterexample (T.unpack text) $ case readText text of
        Left problems -> counterexample (unlines (map renderProblem problems)) (property False)
        Right config ->
          let again = dumpConfig "" config
           in counterexample (T.unpack again) $ case readText again of
                Left problems -> counterexample (unlines (map renderProblem problems)) (property False)
                Right read' -> read' === config

-- What a shape admits, from its examples. Keys that exclude or need each other are chosen so.
yamlOf :: Shape -> Gen Yaml
yamlOf = \case
  WordShape _ examples -> YamlText <$> elements examples
  ChoiceShape names -> YamlText <$> elements names
  YesNoShape -> YamlText <$> elements ["yes", "no", "true", "off"]
  NumberShape least most -> YamlText . show <$> oneof [choose (least, min most (least + 100)), pure most]
  SeveralShape inner -> oneof [yamlOf inner, choose (1, 3) >>= \n -> YamlList <$> vectorOf n (yamlOf inner)]
  MappingShape (WordShape _ names) inner -> YamlMap <$> (sublistOf names >>= traverse (\name -> (,) name <$> yamlOf inner))
  MappingShape _ _ -> pure (YamlMap [])
  ObjectShape what keys -> do
    wanted <- case what of
      "a route" -> do
        kind <- elements (map (: []) ["files", "cgi", "fastcgi", "scgi", "proxy", "rewrite"] ++ [["redirect", "status"], ["redirect"], ["respond", "body", "headers"], ["respond"], ["try-files", "else"], ["try-files"]])
        pure [k | k <- keys, keyName k `elem` kind]
      "a rule of access" -> (\name -> [k | k <- keys, keyName k == name]) <$> elements ["allow", "deny"]
      _ -> sublistOf [k | k <- keys, keyName k `notElem` ["tls-cert", "tls-key", "tls-staple", "tls-client-optional"]] >>= shuffle
    YamlMap <$> traverse (\k -> (,) (keyName k) <$> yamlOf (keyShape k)) wanted

scalars :: Assertion
scalars = forM_ ["", " a ", "a: b", "- a", "#a", "a #b", "'", "\"", "\\", "a\nb", "\t", "null", "true", "~", "*a", "&a", "!a", "%a", "@a", "`a", "[a]", "{a}", "${A}", "$${A}", "$a", "?", "-", "..", "\233\8364\128512", "\DEL", "\x85", "|", ">", "1:2", "https://:443", "a,b", "=", "\\x41", "0x10"] $ \text -> do
  let one = renderYaml "" (YamlMap [("routes", YamlMap [("/", YamlMap [("respond", YamlText "200"), ("body", YamlText text)])])])
  fmap (map (fmap writtenText . routeBody . snd) . siteRouting . configSite) (readText one) @?= Right [Just text]

over :: Assertion
over = do
  file <- either (assertFailure . show) pure (readText "listen: :80\nidle: 5\nheader: {'*.html': {A: file}}\nmime: {a: x/file, b: x/file}\nroot: ${WWW}\nroutes: {/a: {respond: 200}, /b: {respond: 200}}\ntime-outs: {head: 1, body: 2}\n")
  line <- either (assertFailure . show) pure (readText "idle: 6\nheader: {'*.html': {A: line}}\nmime: {b: x/line}\nroutes: {/b: {respond: 204}}\ntime-outs: {body: 3}\n")
  dumpConfig "" (configOver line file)
    @?= T.unlines
      [ "listen: [\":80\"]",
        "idle: 6",
        "time-outs:",
        "  head: 1",
        "  body: 3",
        "root: /srv/www",
        "header:",
        "  - \"*.html\":",
        "      A: file",
        "  - \"*.html\":",
        "      A: line",
        "mime:",
        "  a: x/file",
        "  b: x/line",
        "routes:",
        "  /a:",
        "    respond: 200",
        "  /b:",
        "    respond: 204"
      ]
  -- Nothing over it leaves a file as it is.
  configOver emptyConfig file @?= file

includes :: Assertion
includes = withDirectory $ \d -> do
  createDirectory (d </> "sites")
  write (d </> "main.yaml") ["include: [common.yaml, sites/*.yaml]", "hosts:", "  - names: z.example", "    include: rules.yaml", "    header: {'**': {X-Own: '1'}}", "    root: z"]
  write (d </> "common.yaml") ["listen: :80", "time-outs: {head: 3}"]
  write (d </> "rules.yaml") ["header: {'*.js': {X-Included: '1'}}", "hidden: yes"]
  write (d </> "sites" </> "b.yaml") ["hosts:", "  - {names: b.example, root: b}"]
  write (d </> "sites" </> "a.yaml") ["hosts:", "  - {names: a.example, root: a}"]
  write (d </> "sites" </> ".hidden.yaml") ["nonsense: yes"]
  ReadConfig result _ files <- readConfig (d </> "main.yaml")
  config <- either (assertFailure . unlines . map renderProblem) pure result
  map (map writtenText . hostNames) (configHosts config) @?= [["z.example"], ["a.example"], ["b.example"]]
  map (fmap writtenText . siteRoot . hostSite) (configHosts config) @?= map (Just . (d </>)) ["z", "sites/a", "sites/b"]
  [(writtenText glob, map writtenText headers) | (glob, headers) <- concatMap (siteHeaders . hostSite) (configHosts config)] @?= [("**", ["X-Own=1"]), ("*.js", ["X-Included=1"])]
  map writtenAt (concatMap hostNames (configHosts config)) @?= [Position (d </> "main.yaml") 3 12, Position (d </> "sites/a.yaml") 2 13, Position (d </> "sites/b.yaml") 2 13]
  files @?= map (d </>) ["main.yaml", "rules.yaml", "common.yaml", "sites/*.yaml", "sites/a.yaml", "sites/b.yaml"]

wrongIncludes :: Assertion
wrongIncludes = withDirectory $ \d -> do
  let problems name = map renderProblem . treeProblems <$> readTree environment (d </> name)
      configProblems name = problemsOf . readResult <$> readConfig (d </> name)
  write (d </> "a.yaml") ["include: b.yaml"]
  write (d </> "b.yaml") ["hosts:", "  - include: a.yaml"]
  problems "a.yaml" >>= \case
    [one] -> assertBool one ("b.yaml:2:14: this includes itself: " `isInfixOf` one && " includes " `isInfixOf` one)
    other -> assertFailure (show other)
  write (d </> "c.yaml") ["include: nothing.yaml", "hosts: {include: ['*/x.yaml', 'none/*.yaml', {a: b}]}", "listen: ${NO}"]
  configProblems "c.yaml"
    >>= ( @?=
            [ d </> "c.yaml:1:10: cannot read " ++ d </> "nothing.yaml: no such file or directory (ENOENT)",
              d </> "c.yaml:2:19: a pattern can only be the last part of a path, as in sites/*.yaml",
              d </> "c.yaml:2:31: cannot read the directory " ++ d </> "none: no such file or directory (ENOENT)",
              d </> "c.yaml:2:46: expected the name of a file or a pattern, and this is a mapping",
              d </> "c.yaml:3:9: the environment has no variable NO; set it, or write ${NO:-default}"
            ]
        )
  write (d </> "e.yaml") ["listen: :80", "include: f.yaml", "root: r"]
  write (d </> "f.yaml") ["# a comment", "listen: :81", "rot: x"]
  configProblems "e.yaml" >>= (@?= [d </> "f.yaml:2:1: the key 'listen' is given twice", d </> "f.yaml:3:1: 'rot' is not a key of the configuration; did you mean 'root'?"])
  write (d </> "g.yaml") ["include: h.yaml"]
  write (d </> "h.yaml") ["- a list"]
  problems "g.yaml" >>= (@?= [d </> "g.yaml:1:10: an included file is a mapping", d </> "h.yaml:1:1: this is not a mapping, and it is included"])
  -- A file twice, but not within itself, is no cycle.
  write (d </> "i.yaml") ["hosts:", "  - {names: a.example, root: r, include: j.yaml}", "  - {names: b.example, root: r, include: j.yaml}"]
  write (d </> "j.yaml") ["hidden: yes"]
  configProblems "i.yaml" >>= (@?= [])

endless :: Assertion
endless = withDirectory $ \d -> do
  forM_ [1 .. 20 :: Int] $ \n -> let next = T.pack (show (n + 1)) in write (d </> show n ++ ".yaml") ["include: [" <> next <> ".yaml, " <> next <> ".yaml]"]
  write (d </> "21.yaml") ["hidden: yes"]
  ReadTree _ problems files <- readTree environment (d </> "1.yaml")
  ["the first 5000" `isInfixOf` renderProblem one | one <- problems] @?= [True]
  length files @?= 21
  write (d </> "zero.yaml") ["include: [/dev/zero, " <> T.pack d <> "]"]
  device <- readTree environment (d </> "zero.yaml")
  map renderProblem (treeProblems device) @?= [d </> "zero.yaml:1:11: cannot read /dev/zero: it is longer than 4 MB", d </> "zero.yaml:1:22: cannot read " ++ d ++ ": it is a directory"]

checkedInSpite :: Assertion
checkedInSpite = withDirectory $ \d -> do
  write (d </> "site.yaml") ["lisen: :80", "root: none", "idle: ${NO_SUCH_VARIABLE}", "hosts:", "  - {names: a, root: absent, routes: {/x: {files: gone}, /y: {proxy: 'ftp://x'}}}"]
  ReadConfig result rest _ <- readConfig (d </> "site.yaml")
  length (problemsOf result) @?= 3
  problems <- maybe (pure []) (checkRest begin) rest
  map renderProblem problems
    @?= [ d </> "site.yaml:2:7: cannot serve " ++ d </> "none: no such file or directory (ENOENT)",
          d </> "site.yaml:5:22: cannot serve " ++ d </> "absent: no such file or directory (ENOENT)",
          d </> "site.yaml:5:51: cannot serve /x: " ++ d </> "gone: no such file or directory (ENOENT)"
        ]

respelt :: Assertion
respelt = do
  file <- either (assertFailure . show) pure (readText "routes: {/a: {respond: 200}}")
  line <- either (assertFailure . show) pure (readText "routes: {/a/: {respond: 204}}")
  map (writtenText . fst) (siteRouting (configSite (configOver line file))) @?= ["/a/"]

-- A rewrite to what is no path answers every request with 404.
relative :: Assertion
relative =
  wrong ["root: /srv", "routes: {/a: {rewrite: $rest}, /b: {try-files: ['https://x', $uri], else: /x}}"]
    @?= [ "site.yaml:2:24: '$rest' is not a path; it begins with a slash, $uri or $request_uri",
          "site.yaml:2:49: 'https://x' is not a path; it begins with a slash, $uri or $request_uri"
        ]

-- As the server does: errors get the rules for the path that was asked for, and those that hold for errors.
explainedErrors :: Assertion
explainedErrors = withDirectory $ \d -> do
  write (d </> "site.yaml") ["root: .", "header: {'**': {X-All: z}, '/a/**': {X-A: '1'}}", "cache-control: {'**': max-age=1}", "routes: {/*.php: {respond: 200}, /r: {rewrite: '/a/$rest'}, /t: {try-files: [$uri], else: 410}}"]
  config <- either (assertFailure . unlines . map renderProblem) pure . readResult =<< readConfig (d </> "site.yaml")
  let shown line = T.unpack (T.unwords (T.words (T.replace (T.pack d) "D" (T.pack line))))
      ends request expected = explain begin config request >>= (@?= expected) . either (: []) (map shown . filter (\line -> any (`isInfixOf` line) ["status:", "header:"]))
  ends "GET /../x" ["status: 404: The path climbs above the root.", "header: X-All: z [D/site.yaml:2]"]
  ends "GET /r/none" ["status: 404 (no such file)", "header: X-All: z [D/site.yaml:2]"]
  ends "GET /t/x" ["status: 410 [D/site.yaml:4]", "header: X-All: z [D/site.yaml:2]"]
  -- A directory's path ends in a slash for patterns, and a hidden program is none.
  createDirectory (d </> "a")
  B.writeFile (d </> "a" </> "index.html") "x"
  ends "GET /a/" ["header: Cache-Control: max-age=1 [D/site.yaml:3]", "header: X-All: z [D/site.yaml:2]", "header: X-A: 1 [D/site.yaml:2]"]
  ends "GET /.x.php" ["status: 404 (a name begins with a dot)", "header: X-All: z [D/site.yaml:2]"]
  ends "GET /a/none" ["status: 404 (no such file)", "header: X-All: z [D/site.yaml:2]", "header: X-A: 1 [D/site.yaml:2]"]

-- A file of sites-enabled has no http block around it.
sitesEnabled :: Assertion
sitesEnabled = do
  let site = "upstream app { server 127.0.0.1:3000; }\nserver {\n  listen 80;\n  server_name a.example;\n  root /srv;\n  location /p/ { proxy_pass http://app; proxy_set_header Host $host; }\n}\n"
      parts = fmap (\i -> (importedText i, map renderProblem (importedLeft i))) . importNginx "example"
  parts site @?= parts ("http { " ++ site ++ "}\n")
  case parts site of
    Right (yaml, []) -> assertBool (T.unpack yaml) (all (`T.isInfixOf` yaml) ["a.example", "/p:", "http://127.0.0.1:3000/p"])
    other -> assertFailure (show other)

sideServers :: Assertion
sideServers = do
  let (yaml, problems) = translationOf "http {\n upstream app { server a:1; server b:1 backup; server c:1 down; }\n server { server_name .example.org ~^x www.*;\n location /s/ { expires 1d; add_header Cache-Control public; alias /s; }\n location /p { proxy_pass http://app; proxy_set_header Host $host; }\n }\n}\n"
  problems @?= ["n.conf:3:1: not translated: server_name ~^x", "n.conf:3:1: not translated: server_name www.*", "n.conf:2:1: not translated: server b:1 backup", "n.conf:2:1: not translated: server c:1 down"]
  let (down, _) = translationOf "http {\n upstream app { server a:1 down; }\n server { location /p { proxy_pass http://app; } }\n}\n"
  assertBool down ("      /p:\n        respond: 502\n" `isInfixOf` down)
  forM_ ["names: [example.org, \"*.example.org\"]\n", "proxy: \"http://a:1/p\"\n", "\"/s/**\": \"max-age=86400, public\"\n"] $ \part -> assertBool yaml (part `isInfixOf` yaml)

clientCertificates :: Assertion
clientCertificates = do
  let server directives = "http { server { listen 443 ssl; server_name a; " ++ directives ++ " root /a; } server { server_name b; root /b; } }"
      (asked, problems) = translationOf (server "ssl_client_certificate ca.pem; ssl_verify_client optional; ssl_stapling_file a.ocsp; ssl_protocols TLSv1.3;")
  forM_ ["tls-client-ca: ca.pem\n", "tls-client-optional: yes\n", "tls-minimum: 1.3\n", "    tls-staple: [a.ocsp]\n"] $ \part -> assertBool asked (part `isInfixOf` asked)
  problems @?= ["n.conf:1:1: '" ++ key ++ "' of this server holds for all hosts now" | key <- ["tls-client-ca", "tls-client-optional", "tls-minimum"]]
  -- nginx asks for none then.
  let (unasked, none) = translationOf (server "ssl_client_certificate ca.pem;")
  assertBool unasked (not ("tls-client" `isInfixOf` unasked))
  none @?= []

-- The text, and what was left out.
translationOf :: String -> (String, [String])
translationOf text = case importNginx "n.conf" text of
  Left problem -> (renderProblem problem, [])
  Right imported -> (T.unpack (importedText imported), map renderProblem (importedLeft imported))

protected :: Assertion
protected = do
  let server body = "http {\n server {\n server_name a.example;\n root /srv;\n" ++ body ++ " }\n}\n"
      routes = translationOf . server
  forM_ ["auth_basic x; auth_basic_user_file users;", "allow 10.0.0.0/8; deny all;", "internal;", "auth_request /auth;", "deny 192.0.2.1;"] $ \rules -> do
    let (yaml, problems) = routes ("location /admin { " ++ rules ++ " alias /srv/admin; }\n")
    assertBool yaml ("      /admin:\n        respond: 403\n" `isInfixOf` yaml)
    problems @?= ["n.conf:5:1: this location has rules about who may ask, which a route has not; /admin answers with 403 until you have decided"]
  let (yaml, problems) = routes "location ~* \\.(sql|bak)$ { deny all; }\n"
  problems @?= []
  forM_ ["sql", "bak"] $ \ending -> assertBool yaml (("      \"/*." ++ ending ++ "\":\n        respond: 403\n") `isInfixOf` yaml)

write :: FilePath -> [Text] -> IO ()
write name = B.writeFile name . encodeUtf8 . T.unlines

explained :: Assertion
explained = withDirectory $ \d -> do
  forM_ ["www", "www/assets", "www/empty"] (createDirectory . (d </>))
  forM_ ["www/index.html", "www/assets/app.js", "www/i.php"] (\name -> B.writeFile (d </> name) "x")
  write
    (d </> "site.yaml")
    [ "listen: [':80', 'https://:443']",
      "tls-self-signed: yes",
      "security-headers: yes",
      "cache-control: {'/assets/**': max-age=60}",
      "hosts:",
      "  - names: [www.example, '*.www.example']",
      "    root: www",
      "    header: {'**': {X-Frame-Options: DENY, Referrer-Policy: ''}}",
      "    routes:",
      "      /api: {proxy: 'http://127.0.0.1:1'}",
      "      /*.php: {fastcgi: '127.0.0.1:2'}",
      "      /old: {redirect: 'https://$host/new/$rest', status: 301}",
      "      /moved: {rewrite: '/assets/$rest'}",
      "      /app: {try-files: ['$uri', '/missing'], else: '/i.php?$args'}",
      "  - names: deny.example",
      "    root: www",
      "    access: [{deny: 10.0.0.0/8}]",
      "    redirect-https: yes"
    ]
  config <- either (assertFailure . unlines . map renderProblem) pure . readResult =<< readConfig (d </> "site.yaml")
  let says request lines' = explain begin config request >>= (@?= lines') . either (: []) (map (T.unpack . T.replace (T.pack d) "D" . T.pack))
      careful = ["header:  X-Content-Type-Options: nosniff [D/site.yaml:3]", "header:  Content-Security-Policy: frame-ancestors 'self' [D/site.yaml:3]", "header:  Cross-Origin-Opener-Policy: same-origin [D/site.yaml:3]"]
      denied = ["header:  X-Frame-Options: DENY [D/site.yaml:8]"]
  says
    "GET https://WWW.example:8443/assets/app.js?x"
    (["request: GET https://WWW.example:8443/assets/app.js?x", "host:    www.example [D/site.yaml:6]", "route:   none", "handler: files, D/www [D/site.yaml:7]", "file:    D/www/assets/app.js"] ++ careful ++ ["header:  Cache-Control: max-age=60 [D/site.yaml:4]"] ++ denied)
  says
    "GET http://a.www.example/"
    (["request: GET http://a.www.example/", "host:    *.www.example [D/site.yaml:6]", "route:   none", "handler: files, D/www [D/site.yaml:7]", "file:    D/www/index.html"] ++ careful ++ denied)
  says "POST http://www.example/api/x" ["request: POST http://www.example/api/x", "host:    www.example [D/site.yaml:6]", "route:   /api [D/site.yaml:10]", "handler: proxy, http://127.0.0.1:1 [D/site.yaml:10]"]
  says "GET http://www.example/old/a?b" ["request: GET http://www.example/old/a?b", "host:    www.example [D/site.yaml:6]", "route:   /old [D/site.yaml:12]", "handler: redirection to https://www.example/new/a [D/site.yaml:12]", "status:  301 [D/site.yaml:12]"]
  says
    "GET http://www.example/moved/no.js"
    (["request: GET http://www.example/moved/no.js", "host:    www.example [D/site.yaml:6]", "route:   /moved [D/site.yaml:13]", "handler: rewrite to /assets/no.js [D/site.yaml:13]", "route:   none", "handler: files, D/www [D/site.yaml:7]", "status:  404 (no such file)"] ++ careful ++ denied)
  says
    "GET http://www.example/app?q"
    ["request:   GET http://www.example/app?q", "host:      www.example [D/site.yaml:6]", "route:     /app [D/site.yaml:14]", "try-files: /app, which is not there [D/site.yaml:14]", "try-files: /missing, which is not there [D/site.yaml:14]", "handler:   rewrite to /i.php?q [D/site.yaml:14]", "route:     /*.php [D/site.yaml:11]", "handler:   FastCGI, 127.0.0.1:2 [D/site.yaml:11]"]
  says "GET http://deny.example/x" ["request: GET http://deny.example/x", "host:    deny.example [D/site.yaml:15]", "deny:    10.0.0.0/8 [D/site.yaml:17]", "handler: redirection to HTTPS [D/site.yaml:18]", "status:  308"]
  says "GET http://other.example/" ["request: GET http://other.example/", "host:    no host has this name", "status:  421"]
  says "nonsense" ["'nonsense' is not an address; it begins with http://, https:// or /"]
  says "GET POST /" ["expected a method and an address, such as 'GET https://www.example.org/a', not 'GET POST /'"]

-- The example files of Mighttpd 2, shortened.
mighttpd :: Assertion
mighttpd = do
  let (yaml, problems) = translation (importMighttpd (Just ("mighttpd.conf", conf)) (Just ("mighttpd.route", routes)))
  problems
    @?= [ "mighttpd.conf:11:1: not translated: Index_Cgi: a directory's index may be a program if a route such as /*.cgi answers for it",
          "mighttpd.conf:13:1: not translated: Server_Name: give header: {\"**\": {Server: ...}}",
          "mighttpd.route:10:1: not translated: /nonsense -> too many words"
        ]
  yaml
    @?= T.unlines
      [ "listen: [\":8080\", \"https://:8443\"]",
        "user: \"nobody:nogroup\"",
        "pid-file: /var/run/mighty.pid",
        "access-log: /var/log/mighty",
        "log-rotate: 16777216",
        "log-keep: 10",
        "index: [index.html]",
        "idle: 30",
        "tls-cert: [/etc/cert.pem]",
        "tls-key: [/etc/key.pem]",
        "unknown-host: 421",
        "hosts:",
        "  - names: [localhost, www.example.com]",
        "    route-order: written",
        "    routes:",
        "      \"/~alice/cgi-bin/\":",
        "        cgi: /home/alice/cgi-bin",
        "      \"/~alice/\":",
        "        files: /home/alice/public_html",
        "      /app/cal/:",
        "        proxy: \"http://example.net/calendar/\"",
        "      /app/wiki/:",
        "        proxy: \"http://127.0.0.1:3000/\"",
        "      /foo/:",
        "        redirect: \"/bar/$rest\"",
        "        status: 302",
        "    root: /export/www"
      ]
  problemsOf (readText yaml >>= optionsOf begin) @?= []
  where
    translation imported = (importedText imported, map renderProblem (importedLeft imported))
    conf = unlines ["# Example", "Port: 8080", "Host: *", "Debug_Mode: No", "User: nobody", "Group: nogroup", "Pid_File: /var/run/mighty.pid", "Logging: Yes", "Log_File: /var/log/mighty # written", "Log_File_Size: 16777216", "Index_Cgi: index.cgi", "Log_Backup_Number: 10", "Server_Name: Mighttpd/3", "Index_File: index.html", "Connection_Timeout: 30", "Service: 2", "Tls_Port: 8443", "Tls_Cert_File: /etc/cert.pem", "Tls_Key_File: /etc/key.pem"]
    routes = unlines ["# Domains", "[localhost www.example.com]", "# programs", "/~alice/cgi-bin/ => /home/alice/cgi-bin/", "/~alice/ -> /home/alice/public_html/", "/app/cal/ >> example.net/calendar/", "/app/wiki/ >> 127.0.0.1:3000/", "/foo/ << /bar/", "/ -> /export/www/", "/nonsense -> too many words"]

wrongNginx :: Assertion
wrongNginx = do
  let refused text = either renderProblem (const "") (importNginx "n.conf" text)
  refused "http {\n server {\n}\n" @?= "n.conf:1:1: '{' is not closed"
  refused "user www\n" @?= "n.conf:1:1: the directive 'user' has no ';' after it"
  refused "user www;\n}\n" @?= "n.conf:2:1: '}' closes nothing"

mutatedNginx :: Property
mutatedNginx = forAll (choose (1, 10) >>= \n -> vectorOf n (choose (0, length text - 1))) $ \places ->
  let mutated = foldr (\at t -> take at t ++ drop (at + 1) t) text places
   in counterexample mutated $ case importNginx "n.conf" mutated of
        Left (Problem (Position _ line _) why) -> property (line >= 1 && line <= length (lines mutated) + 1 && not (null why))
        Right imported -> property (T.length (importedText imported) + sum (map (length . renderProblem) (importedLeft imported)) > 0)
  where
    text =
      unlines
        [ "http {",
          "  upstream app { least_conn; server 127.0.0.1:3000 weight=2; }",
          "  limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;",
          "  server { listen 443 ssl http2; server_name a.example; ssl_certificate a; ssl_certificate_key b;",
          "    location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }",
          "    location ~* \\.(css|js)$ { expires 30d; }",
          "    location /api/ { limit_req zone=one burst=5; proxy_pass http://app/v1/; }",
          "    location / { try_files $uri @app; }",
          "    location @app { proxy_pass http://127.0.0.1:1; }",
          "  }",
          "  server { server_name a.example; return 301 https://$host$request_uri; }",
          "}"
        ]
