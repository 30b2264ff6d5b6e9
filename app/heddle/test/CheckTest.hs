-- | @heddle serve --check@ and the beginning of serving have one judge.
module CheckTest (tests) where

import Control.Monad (forM_, unless)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import Heddle.Testkit.Watchdog (eventually)
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "twoJudgesOfOneConfiguration"
    [ testCase "what --check refuses does not begin to serve, and the other way round: files" files,
      testCase "the same for the command line" commandLine,
      testCase "what --check accepts serves" accepted,
      testCase "rulesForRoutesWereSilent: what has no effect on replies of routes is said, by --check and when serving begins" without
    ]

populated :: (FilePath -> IO a) -> IO a
populated act = withDirectory $ \d -> do
  mapM_ (createDirectory . (d </>)) ["site", "outside", "cgi"]
  mapM_ (\name -> C.writeFile (d </> name) (C.pack "x")) ["site/index.html", "site/lost.html", "site/lost.php", "outside/lost.html", "cgi/plain"]
  createSymbolicLink "../outside/lost.html" (d </> "site/out.html")
  createSymbolicLink (d </> "site/lost.html") (d </> "site/absolute.html")
  act d

-- Each with the place that is named.
wrong :: [(String, String)]
wrong =
  [ ("{root: site, spa: yes, index: nope.html}", ":1:19: "),
    ("{root: site, error-page: {404: nope.html}}", ":1:32: "),
    ("{root: site, error-page: {404: out.html}}", ":1:32: "),
    ("{root: site, error-page: {404: lost.php}, routes: {/*.php: {fastcgi: '127.0.0.1:1'}}}", ":1:32: "),
    ("{error-page: {404: lost.html}, routes: {/: {respond: 200}}}", ":1:20: "),
    ("{spa: yes, routes: {/: {respond: 200}}}", ":1:7: "),
    ("{root: site/index.html}", ":1:8: "),
    ("{root: site, routes: {/x: {files: site/index.html}}}", ":1:35: "),
    ("{root: site, routes: {/x: {cgi: cgi/plain}}}", ":1:33: "),
    ("{root: site, routes: {/x: {cgi: absent}}}", ":1:33: "),
    ("{root: site, status: /s, routes: {/s: {respond: 200}}}", ":1:35: "),
    ("{root: site, basic-auth: site/index.html}", ":1:26: "),
    ("{root: site, access-log: site}", ":1:26: "),
    ("{root: site, error-log: absent/log}", ":1:25: "),
    ("{root: site, pid-file: site}", ":1:24: "),
    ("{root: site, listen: '[fe80::1%no-such-interface]:0'}", ":1:22: "),
    ("{root: site, listen: 'unix:absent/socket'}", ":1:22: "),
    ("{root: site, hosts: [{names: a, root: site, spa: yes, index: nope.html}, {names: b, root: site, error-page: {500: 5.html}}]}", ":1:115: ")
  ]

files :: IO ()
files = populated $ \d -> forM_ wrong $ \(text, place) -> do
  let file = d </> "site.yaml"
  writeFile file (text ++ "\n")
  let named = if "listen" `isInfixOf` text then [] else free
  (checked, said) <- both (["--config", file] ++ named)
  assertBool (text ++ "\n" ++ said) (checked && C.pack (file ++ place) `C.isInfixOf` C.pack said)

commandLine :: IO ()
commandLine = populated $ \d -> forM_
  [ ["--proxy", "/app=http://127.0.0.1:1"] ++ free,
    [d </> "site", "--redirect-https"] ++ free,
    [d </> "site", "--listen", "https://127.0.0.1:0"],
    [d </> "site", "--tls-cert", d </> "site/index.html"] ++ free,
    [d </> "site", "--cgi", "/a=" ++ d </> "cgi", "--cgi", "/a=" ++ d </> "cgi"] ++ free,
    [d </> "site", "--spa", "--index", "nope.html"] ++ free,
    (d </> "absent") : free,
    free
  ]
  $ \arguments -> do
    (checked, said) <- both arguments
    assertBool (show arguments ++ "\n" ++ said) checked

-- Whether --check refuses, which serving must do as well, and what it says.
both :: [String] -> IO (Bool, String)
both arguments = do
  checked <- runTool "heddle" ("serve" : "--check" : arguments)
  served <- runTool "heddle" ("serve" : "--sandbox" : "off" : arguments)
  assertEqual (show arguments ++ "\n" ++ endedErr served) (ExitFailure 2) (endedCode served)
  pure (endedCode checked == ExitFailure 1, endedErr checked)

accepted :: IO ()
accepted = populated $ \d -> forM_
  [ "{root: site, spa: yes, error-page: {404: absolute.html, 500: lost.html}}",
    "{root: site, follow-symlinks: yes, error-page: {404: out.html}}",
    "{root: site, error-page: {404: lost.php}, routes: {/*.php: {try-files: [$uri]}}}",
    "{routes: {/app: {proxy: 'http://127.0.0.1:1'}}}",
    "{root: site, access-log: log, pid-file: pid, routes: {/cgi: {cgi: cgi}, /x: {files: outside}}}"
  ]
  $ \text -> do
    let file = d </> "site.yaml"
    writeFile file (text ++ "\n")
    checked <- runTool "heddle" ["serve", "--config", file, "--check"]
    unless (endedCode checked == ExitSuccess) (fail (endedErr checked))
    withProgram (["serve", "--config", file, "--cores", "1"] ++ free) (const (pure ()))

without :: IO ()
without = populated $ \d -> do
  let file = d </> "site.yaml"
      says part said = assertBool (part ++ " in " ++ said) (C.pack (file ++ part) `C.isInfixOf` C.pack said)
  writeFile file . unlines $
    [ "root: site",
      "error-page: {404: lost.html, 502: lost.html}",
      "header: {'**': {X-A: '1'}, '*.html': {X-B: '2'}, '/other/**': {X-C: '3'}}",
      "cache-control: {'/app/**': no-store}",
      "security-headers: yes",
      "compression: off",
      "cors: '*'",
      "routes: {/app: {proxy: 'http://127.0.0.1:1'}, /*.php: {fastcgi: '127.0.0.1:1'}, /files: {files: outside}}",
      "hosts: [{names: a.example, root: site, compression: on, routes: {/api: {proxy: 'http://127.0.0.1:1'}}}]"
    ]
  checked <- runTool "heddle" ["serve", "--config", file, "--check"]
  (endedCode checked, lines (C.unpack (endedOut checked))) @?= (ExitSuccess, [file ++ ": no mistakes"])
  let notes =
        [ ":2:19: the error-page for 404 has no effect on the replies of /*.php, /api and /app, which",
          ":2:35: the error-page for 502 has no effect on the replies of /*.php, /api and /app, which",
          ":3:22: header has no effect on the replies of /*.php, /api and /app, which",
          ":4:28: cache-control has no effect on the replies of /app, which",
          ":5:19: security-headers has no effect on the replies of /*.php, /api and /app, which",
          ":7:7: cors has no effect on the replies of /*.php, /api and /app, which",
          ":9:53: compression has no effect on the replies of /api, which"
        ]
  length (lines (endedErr checked)) @?= length notes
  mapM_ (`says` endedErr checked) notes
  withProgram (["serve", "--config", file, "--cores", "1"] ++ free) $ \program -> do
    said <- eventually "the notes" (programErr program) ((== length notes) . length . lines)
    mapM_ (`says` said) notes
  -- Nothing to say of files.
  writeFile file "root: site\nheader: {'**': {X-A: '1'}}\nroutes: {/x: {files: outside}, /y: {respond: 200}}\n"
  plain <- runTool "heddle" ["serve", "--config", file, "--check"]
  (endedCode plain, endedErr plain) @?= (ExitSuccess, "")
