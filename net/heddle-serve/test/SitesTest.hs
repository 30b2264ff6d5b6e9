{-# LANGUAGE OverloadedStrings #-}

-- | Sites by name, what their routes do, and one configuration after another.
module SitesTest (tests, serving, servingTelling, site, routed, address, of', page) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import Data.Bifunctor (bimap)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Either (isLeft)
import Data.IORef
import Data.List (isInfixOf, isPrefixOf)
import Data.List.NonEmpty (NonEmpty (..))
import Heddle.Http
import Heddle.IO (ListenOptions (..), Spread (..), capabilitiesOf, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Prim.Exception (displayException)
import Heddle.Prim.File (openFile, readOnly)
import Heddle.Serve (ServeError (..))
import Heddle.Serve.Internal
import Heddle.Testkit.Descriptors (openDescriptors)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Heddle.Tls (defaultTlsConfig)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import SiteFixture
import System.Directory (createDirectory, createDirectoryIfMissing, createDirectoryLink, doesFileExist)
import System.FilePath ((</>))
import System.Posix.Files (getFileStatus, setFileMode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "sites"
    [ testCase "by name; the first for other names, or 421" byName,
      testCase "one site takes every name" oneSite,
      testCase "two sites of one name are refused" twice,
      testCase "redirections, replies, rewrites" targets,
      testCase "hostlessRequestWasRedirectedToNoHost: 400" hostless,
      testCase "undecodedPathWasExempt: only challenges of ACME are served without TLS" challenges,
      testCase "rewritesInCircles: 500 after ten" circles,
      testCase "files of another directory" otherFiles,
      testCase "try-files: files, directories, then the program; POST too" tried,
      testCase "triedFileWasKept: a file that goes is no longer found, and one that comes is" triedAnew,
      testCase "limits are a site's, also for what is cached" limits,
      testCase "refusedRequestsCrowdedOutMessages: each reason is told once a minute, with a part of the target" refusals,
      testCase "aWrongDirectoryHidOtherMistakes" allMistakes,
      testCase "a reload: requests under way keep what they began with, and it goes with the last one" reloads,
      testCase "a reload that fails changes nothing" failingReload,
      testCase "a reload opens new listeners, keeps those that stay, and closes those that go" listeners,
      testCase "a reload says what needs a restart" needsRestart,
      testCase "reloads under load: every request is answered by one generation, and no descriptor stays" underLoad
    ]

site :: FilePath -> [String] -> Site
site directory names = (defaultSite (Just directory)) {siteNames = either error id (traverse parseHost names)}

routed :: Site -> [(String, RouteTarget)] -> Site
routed s routes = s {siteRoutes = [RouteSpec (either error id (parsePattern pattern')) target' | (pattern', target') <- routes]}

address :: String -> TargetTemplate
address = either error id . parseTarget

-- The sites, served until the body ends; the function serves others, as a reload does.
serving :: OnUnknownHost -> NonEmpty Site -> (Running -> (NonEmpty Site -> IO (Either SomeException ())) -> IO a) -> IO a
serving unknown sites body = servingCounted unknown sites (\running again _ -> body running again)

-- With the number of generations that are open.
servingCounted :: OnUnknownHost -> NonEmpty Site -> (Running -> (NonEmpty Site -> IO (Either SomeException ())) -> IO Int -> IO a) -> IO a
servingCounted = servingTelling (const (pure ()))

-- With what hears of troubles.
servingTelling :: (String -> IO ()) -> OnUnknownHost -> NonEmpty Site -> (Running -> (NonEmpty Site -> IO (Either SomeException ())) -> IO Int -> IO a) -> IO a
servingTelling tell unknown sites body = do
  failures <- newIORef []
  let settings = defaultSettings {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (show e : es, ()))}
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withHolder (\why -> atomicModifyIORef' failures (\es -> (why : es, ()))) $ \holder -> do
        context <- SitesContext runtime noReserve tell "heddle" (Just (pure 443)) Nothing <$> newShared
        (_, generations) <- newGenerations holder (capabilitiesOf runtime) (withSites context unknown sites)
        withServerOn runtime settings (\_ -> pure (Handlers (generationHandler generations) (Just (generationAtOnce generations)) Nothing)) [(listener, ClearText)] $ \server -> do
          r <- body (Running "" (listenerAddress listener) (pure [])) (\others -> replaceGeneration generations (withSites context unknown others) (const (pure ()))) (holding holder)
          _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
          failed <- readIORef failures
          unless (null failed) (unexpected "no failure in the server" (show failed))
          pure r

-- A request of a host.
of' :: Client -> ByteString -> ByteString -> IO Answer
of' client name path = do
  say client (C.concat ["GET ", path, " HTTP/1.1\r\nHost: ", name, "\r\n\r\n"])
  hear client "GET" >>= maybe (unexpected "an answer" "the end of the connection") pure

page :: FilePath -> String -> ByteString -> IO FilePath
page parent name content = do
  let directory = parent </> name
  createDirectoryIfMissing True directory
  directory <$ B.writeFile (directory </> "index.html") content

byName :: IO ()
byName = withDirectory $ \d -> do
  a <- page d "a" "first"
  b <- page d "b" "second"
  c <- page d "c" "third"
  let sites = site a [] :| [site b ["b.example", "www.b.example"], site c ["*.b.example", "[::1]"]]
      check running cases = with running $ \client -> forM_ cases $ \(name, expected) ->
        -- The second one is from the cache.
        replicateM_ 2 (of' client name "/" >>= either (\code -> (@?= code) . answerCode) (answersWith 200) expected)
      named = [("b.example", Right "second"), ("B.Example:80", Right "second"), ("www.b.example.", Right "second"), ("x.b.example", Right "third"), ("[::1]:9", Right "third")]
  serving FirstSite sites $ \running _ -> check running (("other", Right "first") : named)
  serving Misdirected sites $ \running _ -> check running (("other", Left 421) : named)
  -- An absolute target's host counts, not the header.
  serving FirstSite sites $ \running _ -> with running $ \client -> do
    say client "GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n"
    hear client "GET" >>= maybe (unexpected "an answer" "none") (answersWith 200 "second")

oneSite :: IO ()
oneSite = withDirectory $ \d -> do
  a <- page d "a" "only"
  serving FirstSite (site a ["a.example"] :| []) $ \running _ -> with running $ \client -> of' client "other" "/" >>= answersWith 200 "only"
  serving Misdirected (site a ["a.example"] :| []) $ \running _ -> with running $ \client -> do
    of' client "other" "/" >>= (@?= 421) . answerCode
    of' client "a.example" "/" >>= answersWith 200 "only"

twice :: IO ()
twice = withDirectory $ \d -> do
  a <- page d "a" "x"
  r <- try (serving FirstSite (site a ["a.example"] :| [site a ["A.example"]]) (\_ _ -> pure ()))
  case r of
    Left (e :: ServeError) -> displayException e @?= "there are two sites of the name a.example.\n  Give each name once."
    Right () -> unexpected "a refusal" "it serves"

targets :: IO ()
targets = withDirectory $ \d -> do
  a <- page d "a" "index"
  B.writeFile (a </> "file") "a file"
  let routes =
        [ ("/old", RedirectTo status301 (address "https://$host/new/$rest$is_args$args")),
          ("/found", RedirectTo status302 (address "$request_uri")),
          ("/health", RespondWith status200 [Header "Content-Type" "text/plain"] "well\n"),
          ("/gone", RespondWith status410 [] ""),
          ("/alias", RewriteTo (address "/$rest")),
          ("/to-health", RewriteTo (address "/health?asked"))
        ]
  serving FirstSite (routed (site a []) routes :| []) $ \running _ -> do
    let location path = (\answer -> (answerCode answer, answerHeader answer "location")) <$> asking running "GET" path []
    location "/old/a%20b/c?q=1" >>= (@?= (301, Just "https://test/new/a%20b/c?q=1"))
    location "/old" >>= (@?= (301, Just "https://test/new/"))
    location "/found//x/%0d%0aSet-Cookie:%20a" >>= (@?= (302, Just "/found/x/%0D%0ASet-Cookie:%20a"))
    asking running "GET" "/health/any" [] >>= answersWith 200 "well\n"
    asking running "GET" "/gone" [] >>= (@?= 410) . answerCode
    asking running "GET" "/alias/file" [] >>= answersWith 200 "a file"
    asking running "GET" "/alias/" [] >>= answersWith 200 "index"
    asking running "GET" "/alias/none" [] >>= (@?= 404) . answerCode
    asking running "GET" "/alias/../health" [] >>= answersWith 200 "well\n"
    asking running "GET" "/to-health" [] >>= answersWith 200 "well\n"
    asking running "POST" "/alias/file" [("Content-Length", "0")] >>= (@?= 405) . answerCode
    asking running "GET" "/file" [] >>= answersWith 200 "a file"

hostless :: IO ()
hostless = withDirectory $ \d -> do
  a <- page d "a" "index"
  let secure = (routed (site a ["secure"]) []) {siteRedirectHttps = True}
      plain =
        routed
          (site a [])
          [ ("/host", RedirectTo status301 (address "https://$host$request_uri")),
            ("/http-host", RedirectTo status302 (address "$scheme://${http_host}/x")),
            ("/path", RedirectTo status301 (address "/other/$rest"))
          ]
      asked running request expected = with running $ \client -> do
        say client request
        answer <- hear client "GET" >>= maybe (unexpected "an answer" (show request)) pure
        (answerCode answer, answerHeader answer "location") @?= expected
      heads = [("1.1", "Host:\r\n"), ("1.1", "Host: \r\n"), ("1.0", "")]
  serving FirstSite (plain :| [secure]) $ \running _ -> forM_ heads $ \(version, line) -> do
    let get path = B.concat ["GET ", path, " HTTP/", version, "\r\n", line, "\r\n"]
    forM_ ["/host", "/host/x?y", "/http-host"] $ \path -> asked running (get path) (400, Nothing)
    asked running (get "/path/x") (301, Just "/other/x")
  serving FirstSite (secure {siteNames = []} :| []) $ \running _ -> forM_ heads $ \(version, line) -> do
    asked running (B.concat ["GET / HTTP/", version, "\r\n", line, "\r\n"]) (400, Nothing)

challenges :: IO ()
challenges = withDirectory $ \d -> do
  a <- page d "a" "index"
  createDirectoryIfMissing True (a </> ".well-known" </> "acme-challenge")
  B.writeFile (a </> ".well-known" </> "acme-challenge" </> "a-Token_1") "proof"
  B.writeFile (a </> "s.txt") "secret"
  serving FirstSite ((site a []) {siteRedirectHttps = True} :| []) $ \running _ -> do
    let below path = "/.well-known/acme-challenge" <> path
        answered path = (\answer -> (answerCode answer, answerHeader answer "location")) <$> asking running "GET" path []
    asking running "GET" (below "/a-Token_1") [] >>= answersWith 200 "proof"
    asking running "HEAD" (below "/a-Token_1?x=../..") [] >>= (@?= 200) . answerCode
    answered (below "/none") >>= (@?= (404, Nothing))
    forM_
      [ "/",
        "/s.txt",
        below "",
        below "/",
        below "/../../s.txt",
        below "/%2e%2e/%2E%2E/s.txt",
        below "/.%2e/..;/s.txt",
        below "/a-Token_1/../../../s.txt",
        below "/..%2f..%2fs.txt",
        below "/..%5c..%5cs.txt",
        below "/a-Token_1/",
        below "/%61-Token_1",
        "/x/.." <> below "/a-Token_1",
        "/" <> below "/a-Token_1"
      ]
      $ \path -> answered path >>= (@?= (308, Just ("https://test" <> path)))
    answered "http://test" >>= (@?= (308, Just "https://test/"))
    answered "http://test?q" >>= (@?= (308, Just "https://test/?q"))
    answered ("http://test" <> below "/../../s.txt") >>= (@?= (308, Just ("https://test" <> below "/../../s.txt")))

circles :: IO ()
circles = withDirectory $ \d -> do
  a <- page d "a" "index"
  serving FirstSite (routed (site a []) [("/x", RewriteTo (address "/y")), ("/y", TryFiles [address "$uri"] (TryPath (address "/x/$rest")))] :| []) $ \running _ -> do
    asking running "GET" "/x" [] >>= (@?= 500) . answerCode
    asking running "GET" "/y/z" [] >>= (@?= 500) . answerCode
    asking running "GET" "/" [] >>= answersWith 200 "index"

otherFiles :: IO ()
otherFiles = withDirectory $ \d -> do
  a <- page d "a" "index"
  createDirectory (a </> "static")
  B.writeFile (a </> "static" </> "x.txt") "of the site"
  B.writeFile (a </> "404.html") "the site's page"
  b <- page d "b" "the other's index"
  createDirectory (b </> "sub")
  B.writeFile (b </> "x.txt") "of the other"
  B.writeFile (b </> "sub" </> "y.txt") "below"
  let files = (siteFiles (site a [])) {fileErrorPages = [(404, "404.html")], fileListings = True}
  serving FirstSite ((routed (site a []) [("/static", FilesIn b)]) {siteFiles = files} :| []) $ \running _ -> replicateM_ 2 $ do
    asking running "GET" "/static/x.txt" [] >>= answersWith 200 "of the other"
    asking running "GET" "/static/sub/y.txt" [] >>= answersWith 200 "below"
    asking running "GET" "/static/" [] >>= answersWith 200 "the other's index"
    r <- asking running "GET" "/static/sub?q" []
    (answerCode r, answerHeader r "location") @?= (301, Just "/static/sub/?q")
    listed <- asking running "GET" "/static/sub/" [("Accept", "application/json")]
    assertBool (show (answerBody listed)) ("y.txt" `B.isInfixOf` answerBody listed)
    missing <- asking running "GET" "/static/none" []
    (answerCode missing, answerBody missing) @?= (404, "the site's page")
    asking running "GET" "/static/../static/%2e%2e/a/index.html" [] >>= (@?= 404) . answerCode
    asking running "GET" "/" [] >>= answersWith 200 "index"

-- A site as PHP's frameworks want it.
trying :: FilePath -> FilePath -> Site
trying a programs =
  routed
    (site a [])
    [ ("/", TryFiles [address "$uri", address "$uri/"] (TryPath (address "/index.cgi?from=$args"))),
      ("/*.cgi", CgiDirectory programs)
    ]

script :: FilePath -> [String] -> IO ()
script path lines' = writeFile path (unlines ("#!/bin/sh" : lines')) >> setFileMode path 0o755

tried :: IO ()
tried = withDirectory $ \d -> do
  a <- page d "a" "index"
  B.writeFile (a </> "file.txt") "a file"
  createDirectory (a </> "empty")
  _ <- page a "docs" "docs"
  createDirectory (a </> ".hidden")
  B.writeFile (a </> ".hidden" </> "x") "secret"
  script (d </> "run") ["echo Content-Type: text/plain", "echo", "echo \"$REQUEST_METHOD|$QUERY_STRING|$(cat)\""]
  B.writeFile (a </> "index.cgi") "text of a program"
  serving FirstSite (trying a (d </> "run") :| []) $ \running _ -> do
    replicateM_ 2 $ do
      asking running "GET" "/file.txt" [] >>= answersWith 200 "a file"
      asking running "GET" "/" [] >>= answersWith 200 "index"
      asking running "GET" "/docs/" [] >>= answersWith 200 "docs"
    asking running "GET" "/app/page?id=7" [] >>= answersWith 200 "GET|from=id=7|\n"
    asking running "GET" "/.hidden/x?h" [] >>= answersWith 200 "GET|from=h|\n"
    asking running "GET" "/empty/?e" [] >>= answersWith 200 "GET|from=e|\n"
    asking running "GET" "/docs" [] >>= \r -> (answerCode r, answerHeader r "location") @?= (301, Just "/docs/")
    asking running "GET" "/index.cgi?direct" [] >>= answersWith 200 "GET|direct|\n"
    with running $ \client -> do
      say client "POST /app/form?z HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
      hearAnswer client >>= answersWith 200 "POST|from=z|body\n"

triedAnew :: IO ()
triedAnew = withDirectory $ \d -> do
  a <- page d "a" "index"
  let status = routed (site a []) [("/", TryFiles [address "$uri"] (TryStatus status404))]
      file = a </> "x"
  serving FirstSite (status :| []) $ \running _ -> do
    asking running "GET" "/x" [] >>= (@?= 404) . answerCode
    B.writeFile file "there"
    asking running "GET" "/x" [] >>= answersWith 200 "there"
    asking running "GET" "/x" [] >>= answersWith 200 "there"
    void (eventually "the changed file" (B.writeFile file "changed" >> answerBody <$> asking running "GET" "/x" []) (== "changed"))

limits :: IO ()
limits = withDirectory $ \d -> do
  a <- page d "a" "open"
  b <- page d "b" "closed"
  let closed = (site b ["b.example"]) {siteGuard = noGuard {guardRules = [Deny (either error id (parseAccess "all"))]}}
  serving FirstSite (site a [] :| [closed]) $ \running _ -> with running $ \client -> replicateM_ 2 $ do
    of' client "a.example" "/" >>= answersWith 200 "open"
    of' client "b.example" "/" >>= (@?= 403) . answerCode

refusals :: IO ()
refusals = withDirectory $ \d -> do
  a <- page d "a" "home"
  let long = replicate 240 'l'
  forM_ [long, "x", "y"] (createDirectory . (a </>))
  elsewhere <- page d "elsewhere" "not of the site"
  createDirectoryLink elsewhere (a </> "outside")
  told <- newIORef []
  let tell text = atomicModifyIORef' told (\texts -> (text : texts, ()))
  servingTelling tell FirstSite (site a [] :| []) $ \running _ _ -> with running $ \client -> do
    forM_ [C.pack long <> "/", "x/", "y/", "x/", "outside/index.html", "outside/none.html"] $ \name -> of' client "a.example" ("/" <> name) >>= (@?= 403) . answerCode
    texts <- reverse <$> readIORef told
    map (takeWhile (/= ' ')) texts @?= [take 200 ("a.example/" ++ long) ++ "...", "a.example/outside/index.html"]

allMistakes :: IO ()
allMistakes = withDirectory $ \d -> do
  let users path = let s = site (d </> path) [] in s {siteFiles = (siteFiles s) {fileUsers = Just (d </> "nobody")}}
  writeFile (d </> "file") ""
  forM_ ["nowhere", "file"] $ \root ->
    withJudge [] Nothing ($ users root) >>= \case
      [CannotServe _ _, CannotUseUsers _ _] -> pure ()
      others -> unexpected "both mistakes" (show (map displayException others))

-- Reloads ------------------------------------------------------------------------

accepted :: Either SomeException () -> IO ()
accepted = either (unexpected "a reload" . displayException) pure

reloads :: IO ()
reloads = withDirectory $ \d -> do
  a <- page d "a" "old"
  b <- page d "b" "new"
  let wait = d </> "go"
  script (d </> "slow") ["echo Content-Type: text/plain", "echo", "echo begun", ": > " ++ (d </> "begun"), "while [ ! -e " ++ wait ++ " ]; do sleep 0.02; done", "cat \"$DOCUMENT_ROOT/index.html\""]
  servingCounted FirstSite (routed (site a []) [("/slow", CgiDirectory (d </> "slow"))] :| []) $ \running again generations -> with running $ \client -> do
    with running (\other -> of' other "x" "/" >>= answersWith 200 "old")
    say client "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    _ <- eventually "the program to begin" (doesFileExist (d </> "begun")) id
    again (site b [] :| []) >>= accepted
    with running (\other -> of' other "x" "/" >>= answersWith 200 "new")
    generations >>= (@?= 2)
    B.writeFile wait ""
    hear client "GET" >>= maybe (unexpected "an answer" "none") (answersWith 200 "begun\nold")
    of' client "x" "/slow" >>= (@?= 404) . answerCode
    void (eventually "the first generation to go" generations (== 1))

failingReload :: IO ()
failingReload = withDirectory $ \d -> do
  a <- page d "a" "old"
  serving FirstSite (site a [] :| []) $ \running again -> do
    r1 <- again (site (d </> "missing") [] :| [])
    assertBool "no such directory" (isLeft r1)
    r2 <- again (routed (site a []) [("/cgi", CgiDirectory (d </> "missing"))] :| [])
    assertBool "no such program" (isLeft r2)
    r3 <- again (site a ["a"] :| [site a ["a"]])
    assertBool "two names" (isLeft r3)
    asking running "GET" "/" [] >>= answersWith 200 "old"

underLoad :: IO ()
underLoad = withDirectory $ \d -> do
  directories <- forM [0 .. 3 :: Int] $ \i -> do
    directory <- page d (show i) (C.pack (show i))
    B.writeFile (directory </> "large") (B.replicate 200000 (fromIntegral (48 + i)))
    pure directory
  script (d </> "echo") ["echo Content-Type: text/plain", "echo", "cat"]
  let sites i = routed (site (directories !! (i `mod` 4)) []) [("/echo", CgiDirectory (d </> "echo"))] :| []
  servingCounted FirstSite (sites 0) $ \running again generations -> do
    over <- newIORef False
    ended <- forM [0 .. 5 :: Int] $ \n -> do
      result <- newEmptyMVar
      _ <- forkIO $ do
        r <- try . with running $ \client -> do
          let go :: Int -> IO ()
              go count = do
                stop <- readIORef over
                unless (stop && count > 2) $ do
                  case n `mod` 3 of
                    0 -> of' client "x" "/" >>= \answer -> assertBool (show answer) (answerCode answer == 200 && answerBody answer `elem` ["0", "1", "2", "3"])
                    1 -> of' client "x" "/large" >>= \answer -> assertBool "one version" (answerCode answer == 200 && B.length (answerBody answer) == 200000 && B.all (== B.head (answerBody answer)) (answerBody answer))
                    _ -> do
                      say client "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                      hearAnswer client >>= answersWith 200 "hello"
                  go (count + 1)
          go 0
        putMVar result r
      pure result
    before <- length <$> openDescriptors
    forM_ [1 .. 100] $ \i -> again (sites i) >>= accepted
    writeIORef over True
    forM_ ended $ \result -> takeMVar result >>= either (\e -> unexpected "every request answered" (show (e :: SomeException))) pure
    void (eventually "the generations to go" generations (== 1))
    -- Without requests there are fewer than there were with some.
    void (eventually "their descriptors to go" (length <$> openDescriptors) (<= before))

-- Listeners ----------------------------------------------------------------------

-- A server of these options; the function serves others, and says what it was told.
reloading :: ServeOptions -> ((ServeOptions -> IO (Either String String)) -> IO [(String, SockAddr)] -> IO a) -> IO a
reloading options body = do
  next <- newIORef options
  told <- newIORef []
  let first = options {serveReload = Just (Right <$> readIORef next)}
      tell = const (pure ())
  withRuntime defaultConfig $ \runtime -> withHolder tell $ \holder ->
    withCertificates runtime (`openFile` readOnly) Nothing (serveTls first) (serveListen first) (const (pure ())) $ \loaded -> do
      certificates <- either (unexpected "certificates" . show . map displayException) pure loaded
      withListeners runtime (serveSpread first) (Inherited Nothing []) False (serveListen first) $ \places -> do
        schemes <- forM places (\(spec, l) -> (,) l <$> schemeOf certificates spec)
        shared <- newShared
        let context port = SitesContext runtime noReserve tell "heddle" port Nothing shared
        (_, generations) <- newGenerations holder (capabilitiesOf runtime) (withSites (context (pure <$> securePort places)) (serveUnknown first) (serveSites first))
        withServerOn runtime defaultSettings (\_ -> pure (Handlers (generationHandler generations) (Just (generationAtOnce generations)) Nothing)) schemes $ \server -> do
          state <- newReloading (Reloading runtime holder server certificates generations context (const (pure ())) (\what -> modifyIORef told (what :))) first places
          body
            ( \new -> do
                writeIORef next new
                reloadOnce state
                readIORef told >>= \case
                  newest : _ -> pure newest
                  [] -> unexpected "a word about the reload" "nothing"
            )
            (map (bimap renderListen listenerAddress) <$> reloadingPlaces state)

listeners :: IO ()
listeners = withDirectory $ \d -> do
  a <- page d "a" "a"
  b <- page d "b" "b"
  let listen = map (either error id . parseListen)
      options directory specs = (defaultServeOptions directory) {serveListen = listen specs}
      unix = "unix:" ++ (d </> "socket")
      at places spec = maybe (error ("no " ++ spec)) pure . lookup spec =<< places
  reloading (options a ["127.0.0.1:0", unix]) $ \again places -> do
    stays <- at places "127.0.0.1:0"
    goes <- at places unix
    withClient stays $ \kept -> withClient goes $ \going -> do
      of' kept "x" "/" >>= answersWith 200 "a"
      of' going "x" "/" >>= answersWith 200 "a"
      again (options b ["127.0.0.1:0", "[::1]:0"]) >>= (@?= Right "the configuration has been loaded again")
      -- What was connected is served on, by what is new.
      of' kept "x" "/" >>= answersWith 200 "b"
      of' going "x" "/" >>= answersWith 200 "b"
      at places "127.0.0.1:0" >>= (@?= stays)
      comes <- at places "[::1]:0"
      withClient comes $ \client -> of' client "x" "/" >>= answersWith 200 "b"
      doesFileExistAnyway (d </> "socket") >>= (@?= False)
      -- An address that is taken: nothing of the new is served.
      let taken = case stays of
            SockAddrInet port _ -> "127.0.0.1:" ++ show port
            other -> show other
      r <- again (options a ["127.0.0.1:0", "[::1]:0", unix, taken])
      assertBool (show r) (either (isPrefixOf ("the configuration cannot be used, and the old one stays: cannot listen on " ++ taken)) (const False) r)
      of' kept "x" "/" >>= answersWith 200 "b"
      doesFileExistAnyway (d </> "socket") >>= (@?= False)
      -- With TLS from now on, which needs certificates.
      r2 <- again (options a ["127.0.0.1:0", "https://127.0.0.1:0"])
      assertBool (show r2) (either ("there is no certificate" `isInfixOf`) (const False) r2)
      again (options a ["127.0.0.1:0", "https://127.0.0.1:0"]) {serveTls = TlsSelfSigned (defaultTlsConfig [])} >>= (@?= Right "the configuration has been loaded again")
      secure <- at places "https://127.0.0.1:0"
      withClient secure $ \client -> do
        answer <- of' client "x" "/"
        assertBool (show answer) ("speaks HTTPS" `B.isInfixOf` answerBody answer)
  where
    doesFileExistAnyway path = either (\e -> const False (e :: SomeException)) (const True) <$> try (getFileStatus path)

needsRestart :: IO ()
needsRestart = withDirectory $ \d -> do
  a <- page d "a" "a"
  let options = (defaultServeOptions a) {serveListen = [ListenSpec Http (ListenHost "127.0.0.1" 0)]}
  reloading options $ \again _ -> do
    again options {serveAccessLog = Just "/x", serveCores = Just 7} >>= (@?= Right "the configuration has been loaded again; a restart or SIGUSR2 is needed for cores, the access log")
    again options {serveSites = site (d </> "none") [] :| []} >>= \r -> assertBool (show r) (isLeft r)
