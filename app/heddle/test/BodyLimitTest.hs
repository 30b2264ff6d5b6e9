{-# LANGUAGE OverloadedStrings #-}

-- | Limits on the length of bodies, by server, host and route.
module BodyLimitTest (tests) where

import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as C
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "the longest body"
    [ testCase "bodiesHadOneLimitForAll: by server, host and route, with a length and without, HTTP/1.1 and HTTP/2" limits,
      testCase "--explain tells the limit and where it is written, and --dump-config keeps it" shown,
      testCase "a limit of a route that takes no body is a mistake" mistaken
    ]

-- The host of each limit, the path, and the limit.
places :: [(String, String, Int)]
places =
  [ ("a.example", "/small/count", 1024),
    ("a.example", "/large/count", 65536),
    ("a.example", "/led", 65536),
    ("b.example", "/usual/count", 4096),
    ("b.example", "/tiny/count", 1),
    ("c.example", "/count", 131072)
  ]

configuration :: FilePath -> IO FilePath
configuration d = do
  createDirectory (d </> "bin")
  writeFile (d </> "bin" </> "count") "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwc -c\n"
  setFileMode (d </> "bin" </> "count") 0o755
  writeFile (d </> "site.yaml") . unlines $
    [ "listen: '127.0.0.1:0'",
      "cores: 1",
      "max-body: 4k",
      "hosts:",
      "  - names: a.example",
      "    max-body: 1k",
      "    routes:",
      "      /small: {cgi: bin}",
      "      /large: {cgi: bin, max-body: 64k}",
      -- The route that answers counts.
      "      /led: {rewrite: /large/count}",
      "  - names: b.example",
      "    routes:",
      "      /usual: {cgi: bin}",
      "      /tiny: {cgi: bin, max-body: 1}",
      "  - names: c.example",
      "    max-body: 128k",
      "    routes: {/: {cgi: bin}}"
    ]
  pure (d </> "site.yaml")

limits :: IO ()
limits = withDirectory $ \d -> do
  file <- configuration d
  withProgram ["serve", "--config", file] $ \program ->
    forM_ places $ \(host, path, most) -> forM_ [(most, "200"), (most + 1, "413"), (2 * most + 7, "413")] $ \(size, code) ->
      forM_ [(body, version) | body <- ["--data-binary @-", "-T -"], version <- ["--http1.1", "--http2-prior-knowledge"]] $ \(body, version) -> do
        let curl = unwords ["head -c", show size, "/dev/zero | curl -sS -X POST", version, body, "-H 'Content-Type: text/plain' -H 'Host: " ++ host ++ "' -w ' %{http_code}'", head (programUrls program) ++ path, "2>/dev/null"]
        ended <- runTool "sh" ["-c", curl]
        let answered = C.unpack (endedOut ended)
        -- This curl takes a reply before the end of its upload over HTTP/2, and the stream's end after it, for an error (000).
        assertBool (curl ++ ": " ++ answered) (last (words (' ' : answered)) `elem` (code : ["000" | code == "413", version == "--http2-prior-knowledge"]))
        if code == "200" then (curl, head (words answered)) @?= (curl, show size) else pure ()

shown :: IO ()
shown = withDirectory $ \d -> do
  file <- configuration d
  forM_ [("a.example/small", "1k [" ++ file ++ ":6]"), ("a.example/large", "64k [" ++ file ++ ":9]"), ("a.example/led", "64k [" ++ file ++ ":9]"), ("b.example/usual", "4k [" ++ file ++ ":3]")] $ \(place, text) -> do
    ended <- runTool "heddle" ["serve", "--config", file, "--explain", "POST http://" ++ place]
    contains ("max-body: " ++ text) (C.unpack (endedOut ended))
  dumped <- runTool "heddle" ["serve", "--config", file, "--dump-config"]
  C.writeFile (d </> "again.yaml") (endedOut dumped)
  again <- runTool "heddle" ["serve", "--config", d </> "again.yaml", "--dump-config"]
  forM_ ["4k", "1k", "64k", "128k"] $ \size -> contains ("max-body: " ++ size) (C.unpack (endedOut dumped))
  endedOut again @?= endedOut dumped

mistaken :: IO ()
mistaken = withDirectory $ \d -> do
  let file = d </> "site.yaml"
  writeFile file "routes:\n  /x: {respond: 200, max-body: 1k}\n  /y: {files: '.', max-body: 1k}\n  /z: {cgi: '.', max-body: 0}\n"
  ended <- runTool "heddle" ["serve", "--config", file, "--check"]
  endedCode ended @?= ExitFailure 1
  lines (endedErr ended)
    @?= map
      (file ++)
      [ ":2:32: 'max-body' belongs to a route with cgi, fastcgi, scgi or proxy; others take no body",
        ":3:30: 'max-body' belongs to a route with cgi, fastcgi, scgi or proxy; others take no body",
        ":4:28: '0' is not a size such as 100000, 64k, 10M or 1G"
      ]
