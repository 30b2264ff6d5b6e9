{-# LANGUAGE OverloadedStrings #-}

-- | Routes of a site to programs, beside its files.
module BehindTest (tests) where

import Control.Exception (try)
import Control.Monad (void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Gateway.Proxy (defaultProxySettings)
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (defaultConfig, seconds, withRuntime)
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog (eventually)
import SiteFixture
import System.Directory (createDirectory)
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "behind"
    [ testCase "programs beside files; a program may name a file or another program" programs,
      testCase "a script is not sent, nor asked for if it is not there" scripts,
      testCase "redirectThroughAnIndexLostItsQueryAndItsHops" indexes,
      testCase "the name of a user whose password was right" users,
      testCase "programs have a limit and a time" bounds,
      testCase "what cannot be opened is said" refused
    ]

withRoutes :: [RouteSpec] -> FilePath -> (Routes -> IO a) -> IO a
withRoutes = withRoutesUnder (ProgramRules [("X_SET", "set")] 64 (seconds 60) 0)

withRoutesUnder :: ProgramRules -> [RouteSpec] -> FilePath -> (Routes -> IO a) -> IO a
withRoutesUnder rules specs directory body = withRuntime defaultConfig $ \runtime ->
  withGateways runtime (const (pure ())) (\_ _ -> pure ()) (Just directory) (const (pure True)) noFiles (defaultProxySettings "" []) rules LongestPrefix [] specs body

noFiles :: OpenFiles
noFiles = OpenFiles (\_ _ _ -> fail "no route of files")

script :: FilePath -> [String] -> IO ()
script path lines' = writeFile path (unlines ("#!/bin/sh" : lines')) >> setFileMode path 0o755

programs :: IO ()
programs = withDirectory $ \directory -> do
  script (directory </> "env") ["echo Content-Type: text/plain", "echo", "echo \"$X_SET|$REQUEST_METHOD|$SCRIPT_NAME|$PATH_INFO|$QUERY_STRING\""]
  script (directory </> "file") ["cat >/dev/null", "echo Location: /page.txt", "echo"]
  script (directory </> "program") ["echo 'Location: /cgi/env/more?asked'", "echo"]
  script (directory </> "circle") ["echo Location: /cgi/circle", "echo"]
  script (directory </> "hidden") ["echo Location: /.secret", "echo"]
  withRoutes [RouteSpec (RoutePattern "cgi" "") (CgiDirectory directory)] directory $ \routes ->
    withRoutedSite routes populate $ \site -> do
      asking site "GET" "/page.txt" [] >>= answersWith 200 "a page"
      asking site "GET" "/cgi/env/info?q" [] >>= answersWith 200 "set|GET|/cgi/env|/info|q\n"
      asking site "GET" "/cgi/file" [] >>= answersWith 200 "a page"
      asking site "GET" "/cgi/program?lost" [] >>= answersWith 200 "set|GET|/cgi/env|/more|asked\n"
      with site $ \client -> do
        say client "POST /cgi/file HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        hearAnswer client >>= answersWith 200 "a page"
      asking site "GET" "/cgi/circle" [] >>= (@?= 502) . answerCode
      asking site "GET" "/cgi/hidden" [] >>= (@?= 404) . answerCode
      asking site "GET" "/page.txt" [] >>= answersWith 200 "a page"
  where
    populate directory = do
      B.writeFile (directory </> "page.txt") "a page"
      B.writeFile (directory </> ".secret") "a secret"

scripts :: IO ()
scripts = withDirectory $ \directory -> do
  -- An interpreter that shows which script it was given.
  script (directory </> "interpreter") ["echo Content-Type: text/plain", "echo", "echo \"${SCRIPT_FILENAME##*/}|$PATH_INFO\""]
  createDirectory (directory </> "d")
  B.writeFile (directory </> "x.zap") "the text of the script"
  B.writeFile (directory </> "d" </> "index.htm") "an index"
  withRoutes [RouteSpec (RoutePattern "" ".zap") (CgiDirectory (directory </> "interpreter"))] directory $ \routes ->
    withRoutedSite routes (\site -> mapM_ (\name -> B.readFile (directory </> name) >>= B.writeFile (site </> name)) ["x.zap"]) $ \site -> do
      asking site "GET" "/x.zap" [] >>= answersWith 200 "x.zap|\n"
      asking site "GET" "/%78.zap/in/fo" [] >>= answersWith 200 "x.zap|/in/fo\n"
      asking site "GET" "/y.zap" [] >>= (@?= 404) . answerCode

-- The index is a script; the interpreter redirects to the directory until the query says that it is enough.
indexes :: IO ()
indexes = withDirectory $ \directory -> do
  script
    (directory </> "interpreter")
    [ "case $QUERY_STRING in",
      "enough*) echo Content-Type: text/plain; echo; echo \"$REQUEST_METHOD|$SCRIPT_NAME|$QUERY_STRING\";;",
      "twice) echo 'Location: /d/?once'; echo;;",
      "once) echo 'Location: /d/?enough&more'; echo;;",
      "*) echo 'Location: /d/?again'; echo;;",
      "esac"
    ]
  let populate site = createDirectory (site </> "d") >> B.writeFile (site </> "d" </> "index.html") "the text of a script"
  -- The interpreter's root is the programs' directory here.
  populate directory
  withRoutes [RouteSpec (RoutePattern "" ".html") (CgiDirectory (directory </> "interpreter"))] directory $ \routes ->
    withRoutedSite routes populate $ \site -> do
      asking site "GET" "/d/?enough" [] >>= answersWith 200 "GET|/d/index.html|enough\n"
      asking site "GET" "/d/?twice" [] >>= answersWith 200 "GET|/d/index.html|enough&more\n"
      asking site "GET" "/d/?for+ever" [] >>= (@?= 502) . answerCode

users :: IO ()
users = withDirectory $ \directory -> do
  script (directory </> "who") ["echo Content-Type: text/plain", "echo", "echo \"$AUTH_TYPE|$REMOTE_USER|$HTTP_AUTHORIZATION\""]
  script (directory </> "asks") ["echo Location: /cgi/who", "echo"]
  withRoutes [RouteSpec (RoutePattern "cgi" "") (CgiDirectory directory)] directory $ \routes -> do
    withRoutedSite routes (const (pure ())) $ \site ->
      -- Nobody has verified it: the program may.
      asking site "GET" "/cgi/who" [("Authorization", "Basic YTpi")] >>= answersWith 200 "||Basic YTpi\n"
    withRoutedSiteFor (Just "anna") routes (const (pure ())) $ \site -> do
      asking site "GET" "/cgi/who" [("Authorization", "Basic YTpi")] >>= answersWith 200 "Basic|anna|\n"
      asking site "GET" "/cgi/asks" [("Authorization", "Basic YTpi")] >>= answersWith 200 "Basic|anna|\n"

-- One after the other: each notes its beginning and its end.
bounds :: IO ()
bounds = withDirectory $ \directory -> do
  let notes = directory </> "notes"
  script (directory </> "hangs") ["trap 'echo ended >> " ++ notes ++ "; exit 1' TERM", "echo begun >> " ++ notes, "sleep 60 & wait"]
  withRoutesUnder (ProgramRules [] 1 (seconds 3) 0) [RouteSpec (RoutePattern "cgi" "") (CgiDirectory directory)] directory $ \routes ->
    withRoutedSite routes (const (pure ())) $ \site -> do
      tasks <- mapM (const (forkTask (asking site "GET" "/cgi/hangs" []))) [1, 2 :: Int]
      mapM_ (\task -> joinTask task >>= assertBool "no answer of the program's" . (>= 500) . answerCode) tasks
      void (eventually "both to end" (C.lines <$> B.readFile notes) (== ["begun", "ended", "begun", "ended"]))

refused :: IO ()
refused = withDirectory $ \directory -> do
  B.writeFile (directory </> "text") "not executable"
  says [RouteSpec (RoutePattern "a" "") (CgiDirectory "/nonexistent")] "ENOENT"
  says [RouteSpec (RoutePattern "a" "") (CgiDirectory (directory </> "text"))] "EACCES"
  says [RouteSpec (RoutePattern "a" "") (CgiDirectory "/"), RouteSpec (RoutePattern "a" "") (CgiDirectory "/tmp")] "two routes"
  -- Not the body's own failures.
  r <- try (withRoutes [RouteSpec (RoutePattern "a" "") (CgiDirectory "/")] "/" (\routes -> either (fail . show) (pure . length . findRoute routes) (decodePath "/a")))
  either (\(e :: NotRouted) -> assertFailure (show e)) (@?= 1) r
  where
    says specs part = do
      r <- try (withRoutes specs "/" (\_ -> pure ()))
      case r of
        Left (NotRouted _ why) -> assertBool why (C.pack part `B.isInfixOf` C.pack why)
        Right () -> assertFailure ("opened: " ++ show specs)
