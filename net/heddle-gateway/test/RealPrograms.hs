{-# LANGUAGE OverloadedStrings #-}

-- | Programs that others wrote: git, gitweb, cgit and PHP, as Debian installs them. A program that is missing is
-- said to be, and its test passes.
module RealPrograms (tests) where

import Control.Exception (IOException, bracket, try)
import Control.Monad (forM, forM_, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.Either (isRight)
import Data.List (sort)
import GatewayFixture
import Heddle.Gateway.Cgi
import Heddle.Gateway.FastCgi
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog
import Network.Socket (Family (..), SockAddr (..), SocketType (..), close, connect, socket)
import Numeric (showHex)
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (..), hPutStrLn, stderr, withBinaryFile, withFile)
import System.Posix.Files (createSymbolicLink)
import System.Posix.User (getEffectiveUserID)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "programs of Debian"
    [ testCase "git http-backend: push of 100 MB, clone, shallow clone, fetch" git,
      testCase "gitweb" gitweb,
      testCase "cgit" cgit,
      testCase "php-cgi: variables, forms, uploads, sessions" phpCgi,
      testCase "php-fpm: the same, on kept connections" phpFpm,
      testCase "php-fpm: more requests at once than it has processes" phpFpmCrowded
    ]

-- | The first of these files that exists.
installed :: String -> [FilePath] -> (FilePath -> IO ()) -> IO ()
installed name places body = do
  found <- filterM' doesFileExist places
  case found of
    path : _ -> body path
    [] -> hPutStrLn stderr (name ++ " is not installed: its test does nothing")
  where
    filterM' p = foldr (\x rest -> p x >>= \yes -> if yes then (x :) <$> rest else rest) (pure [])

run :: FilePath -> [String] -> IO ()
run program arguments = do
  let environment = [("HOME", "/nonexistent"), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_AUTHOR_NAME", "T"), ("GIT_AUTHOR_EMAIL", "t@example.org"), ("GIT_COMMITTER_NAME", "T"), ("GIT_COMMITTER_EMAIL", "t@example.org")]
  (code, out, err) <- within 240000000 (unwords (program : arguments)) (readCreateProcessWithExitCode (proc program ((if program == "git" then uncompressed else []) ++ arguments)) {env = Just environment} "")
  case code of
    ExitSuccess -> pure ()
    _ -> unexpected (unwords (program : arguments)) (show code ++ "\n" ++ out ++ err)
  where
    -- What is sent matters here, not how long zlib takes.
    uncompressed = ["-c", "core.compression=0", "-c", "core.bigFileThreshold=1m"]

withCgiServer :: CgiSettings -> (Running -> Told -> IO ()) -> IO ()
withCgiServer settings body = do
  told <- newTold
  withTestRuntime $ \runtime ->
    withCgi runtime settings {cgiTell = tellTo told} $ \cgi -> do
      withGatewayServer runtime (cgiGateway cgi) (`body` told)
      void (eventually "every program to end" (runningPrograms cgi) (== 0))

url :: Running -> String -> String
url running path = case runningAddress running of
  SockAddrInet port _ -> "http://127.0.0.1:" ++ show port ++ path
  other -> show other

git :: IO ()
git = installed "git" ["/usr/lib/git-core/git-http-backend"] $ \backend -> withDirectory $ \directory -> do
  let work = directory </> "work"
      bare = directory </> "repositories" </> "site.git"
      settings = (defaultCgiSettings (C.pack backend)) {cgiVariables = [("GIT_PROJECT_ROOT", C.pack (directory </> "repositories")), ("GIT_HTTP_EXPORT_ALL", "1"), ("HOME", "/nonexistent")]}
      inWork arguments = run "git" (["-C", work] ++ arguments)
  run "git" ["init", "-q", "-b", "main", work]
  createDirectory (directory </> "repositories")
  run "git" ["init", "-q", "-b", "main", "--bare", bare]
  forM_ [("http.receivepack", "true"), ("core.compression", "0"), ("core.bigFileThreshold", "1m")] $ \(name, value) ->
    run "git" ["-C", bare, "config", name, value]
  -- What does not compress: 100 MB.
  withBinaryFile "/dev/urandom" ReadMode $ \random -> forM_ [1 .. 10 :: Int] $ \i ->
    B.hGet random 10000000 >>= B.writeFile (work </> "noise" ++ show i)
  inWork ["add", "."]
  inWork ["commit", "-q", "-m", "first"]
  withCgiServer settings $ \running _ -> do
    inWork ["push", "-q", url running "/p/site.git", "main"]
    writeFile (work </> "small") "more"
    inWork ["add", "."]
    inWork ["commit", "-q", "-m", "second"]
    inWork ["push", "-q", url running "/p/site.git", "main"]
    run "git" ["clone", "-q", url running "/p/site.git", directory </> "clone"]
    names <- sort <$> listDirectory (directory </> "clone")
    length names @?= 12
    forM_ [1 .. 10 :: Int] $ \i -> do
      a <- B.readFile (work </> "noise" ++ show i)
      b <- B.readFile (directory </> "clone" </> "noise" ++ show i)
      assertBool "the same" (a == b)
    run "git" ["clone", "-q", "--depth", "1", url running "/p/site.git", directory </> "shallow"]
    log' <- readProcess "git" ["-C", directory </> "shallow", "log", "--oneline"] ""
    length (lines log') @?= 1
    run "git" ["-C", directory </> "shallow", "fetch", "-q", "--unshallow"]
    run "git" ["-C", directory </> "clone", "pull", "-q"]

-- | A bare repository with one commit.
repository :: FilePath -> IO ()
repository directory = do
  run "git" ["init", "-q", "-b", "main", directory </> "work"]
  writeFile (directory </> "work" </> "README") "a file of the repository\n"
  run "git" ["-C", directory </> "work", "add", "."]
  run "git" ["-C", directory </> "work", "commit", "-q", "-m", "the first commit"]
  run "git" ["clone", "-q", "--bare", directory </> "work", directory </> "site.git"]

gitweb :: IO ()
gitweb = installed "gitweb" ["/usr/share/gitweb/gitweb.cgi"] $ \program -> withDirectory $ \directory -> do
  repository directory
  writeFile (directory </> "gitweb.conf") ("$projectroot = '" ++ directory ++ "';\n@diff_opts = ();\n1;\n")
  withCgiServer (defaultCgiSettings (C.pack program)) {cgiVariables = [("GITWEB_CONFIG", C.pack (directory </> "gitweb.conf")), ("HOME", "/nonexistent")]} $ \running told -> do
    list <- asking running "/p/"
    messages <- toldLines told
    assertBool (show (list, messages)) (answerCode list == 200 && "site.git" `B.isInfixOf` answerBody list)
    summary <- asking running "/p/?p=site.git;a=summary"
    assertBool (show summary) (answerCode summary == 200 && "the first commit" `B.isInfixOf` answerBody summary)
    asking running "/p/?p=none.git" >>= (@?= 404) . answerCode

cgit :: IO ()
cgit = installed "cgit" ["/usr/lib/cgit/cgit.cgi"] $ \program -> withDirectory $ \directory -> do
  repository directory
  writeFile (directory </> "cgitrc") ("virtual-root=/p/\nrepo.url=site\nrepo.path=" ++ (directory </> "site.git") ++ "\nrepo.desc=a site\n")
  withCgiServer (defaultCgiSettings (C.pack program)) {cgiVariables = [("CGIT_CONFIG", C.pack (directory </> "cgitrc"))]} $ \running _ -> do
    list <- asking running "/p/"
    assertBool (show list) (answerCode list == 200 && "a site" `B.isInfixOf` answerBody list)
    log' <- asking running "/p/site/log/"
    assertBool (show log') (answerCode log' == 200 && "the first commit" `B.isInfixOf` answerBody log')
    plain <- asking running "/p/site/plain/README"
    (answerCode plain, answerBody plain) @?= (200, "a file of the repository\n")
    asking running "/p/none/" >>= (@?= 404) . answerCode

-- | A small site: variables, a form, an upload, a session, a redirect, an error.
phpSite :: FilePath -> IO ()
phpSite directory = do
  createDirectory (directory </> "p")
  createDirectory (directory </> "sessions")
  setPermissions (directory </> "sessions") (setOwnerWritable True (setOwnerReadable True (setOwnerSearchable True emptyPermissions)))
  writeFile (directory </> "p" </> "info.php") "<?php header('Content-Type: text/plain'); foreach (['SCRIPT_NAME','PATH_INFO','QUERY_STRING','REQUEST_METHOD','PHP_SELF'] as $n) echo $n, '=', $_SERVER[$n] ?? '', \"\\n\"; echo 'q=', $_GET['q'] ?? '', \"\\n\";"
  writeFile (directory </> "p" </> "form.php") "<?php header('Content-Type: text/plain'); echo $_POST['a'], '|', $_POST['b'], '|', strlen(file_get_contents('php://input'));"
  writeFile (directory </> "p" </> "upload.php") "<?php header('Content-Type: text/plain'); $f = $_FILES['f']; echo $f['name'], '|', $f['size'], '|', md5_file($f['tmp_name']);"
  writeFile (directory </> "p" </> "session.php") ("<?php session_save_path('" ++ (directory </> "sessions") ++ "'); session_start(); header('Content-Type: text/plain'); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;")
  writeFile (directory </> "p" </> "redirect.php") "<?php header('Location: /elsewhere'); setcookie('a', 'b');"
  writeFile (directory </> "p" </> "missing.php") "<?php http_response_code(404); echo 'no such thing';"
  writeFile (directory </> "p" </> "large.php") "<?php header('Content-Type: text/plain'); for ($i = 0; $i < 2000; $i++) echo str_repeat('x', 1000);"
  writeFile (directory </> "p" </> "error.php") "<?php error_log('a message for the log'); header('Content-Type: text/plain'); echo 'fine';"

phpTests :: Running -> Told -> IO ()
phpTests running told = withClient (runningAddress running) $ \client -> do
  info <- ask client "GET" "/p/info.php/more/info?q=a%20b" [] ""
  forM_ ["SCRIPT_NAME=/p/info.php", "PATH_INFO=/more/info", "QUERY_STRING=q=a%20b", "REQUEST_METHOD=GET", "PHP_SELF=/p/info.php/more/info", "q=a b"] $ \line ->
    assertBool (show (line, info)) (line `elem` C.lines (answerBody info))
  ask client "POST" "/p/form.php" [("Content-Type", "application/x-www-form-urlencoded")] "a=1&b=two%20words" >>= answersWith 200 "1|two words|17"
  let content = C.replicate 1500000 'u'
      body = C.concat ["--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"up.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n", content, "\r\n--XX--\r\n"]
  uploaded <- ask client "POST" "/p/upload.php" [("Content-Type", "multipart/form-data; boundary=XX")] body
  assertBool (show uploaded) ("up.bin|1500000|" `B.isPrefixOf` answerBody uploaded)
  -- The same without a length, of which PHP would read nothing.
  let inChunks path kind whole = do
        say client (C.concat ["POST ", path, " HTTP/1.1\r\nHost: test\r\nContent-Type: ", kind, "\r\nTransfer-Encoding: chunked\r\n\r\n", C.pack (showHex (B.length whole) "\r\n"), whole, "\r\n0\r\n\r\n"])
        hearAnswer client
  inChunks "/p/form.php" "application/x-www-form-urlencoded" "a=1&b=two%20words" >>= answersWith 200 "1|two words|17"
  again <- inChunks "/p/upload.php" "multipart/form-data; boundary=XX" body
  answerBody again @?= answerBody uploaded
  first <- ask client "GET" "/p/session.php" [] ""
  answersWith 200 "1" first
  let cookie = maybe "" (C.takeWhile (/= ';')) (answerHeader first "set-cookie")
  ask client "GET" "/p/session.php" [("Cookie", cookie)] "" >>= answersWith 200 "2"
  ask client "GET" "/p/session.php" [("Cookie", cookie)] "" >>= answersWith 200 "3"
  redirect <- ask client "GET" "/p/redirect.php" [] ""
  (answerCode redirect, answerHeader redirect "location", answerHeader redirect "set-cookie") @?= (302, Just "/elsewhere", Just "a=b")
  ask client "GET" "/p/missing.php" [] "" >>= answersWith 404 "no such thing"
  ask client "GET" "/p/large.php" [] "" >>= answersWith 200 (C.replicate 2000000 'x')
  ask client "HEAD" "/p/large.php" [] "" >>= answersWith 200 ""
  ask client "GET" "/p/error.php" [] "" >>= answersWith 200 "fine"
  void (eventually "PHP's message" (toldLines told) (any (("a message for the log" `B.isInfixOf`) . C.pack)))

phpCgi :: IO ()
phpCgi = installed "php-cgi" ["/usr/bin/php-cgi"] $ \program -> withDirectory $ \directory -> do
  phpSite directory
  -- php-cgi takes the script from the variables, whatever the program's own path is.
  let root = C.pack directory
  told <- newTold
  withTestRuntime $ \runtime ->
    withCgi runtime (defaultCgiSettings (C.pack program)) {cgiTell = tellTo told} $ \cgi -> do
      withGatewayServer runtime (cgiScriptGateway cgi root [".php"]) $ \running -> do
        phpTests running told
        -- A link out of the root is no script.
        createSymbolicLink "/etc/passwd" (directory </> "p" </> "out.php")
        asking running "/p/out.php" >>= (@?= 404) . answerCode
      void (eventually "every program to end" (runningPrograms cgi) (== 0))

phpFpm :: IO ()
phpFpm = withPhpFpm ["pm = static", "pm.max_children = 3"] $ \path directory -> do
  told <- newTold
  withTestRuntime $ \runtime ->
    withFastCgi runtime (phpSettings path directory) {fastConnections = 3, fastKeep = 3, fastTell = tellTo told} $ \fast -> do
      withGatewayServer runtime (fastCgiGateway fast) $ \running -> do
        phpTests running told
        asking running "/p/none.php" >>= (@?= 404) . answerCode
      kept <- fastConnectionsKept fast
      assertBool "connections are kept" (kept >= 1)

phpSettings :: FilePath -> FilePath -> FastCgiSettings
phpSettings path directory =
  (defaultFastCgiSettings [SockAddrUnix path] (C.pack directory))
    { fastSuffixes = [".php"],
      fastExists = \script -> doesFileExist (directory </> C.unpack script)
    }

-- The pools of the cookbook and of Debian.
phpFpmCrowded :: IO ()
phpFpmCrowded = forM_ [(["pm = static", "pm.max_children = 16"], 40), (["pm = dynamic", "pm.max_children = 5", "pm.start_servers = 2", "pm.min_spare_servers = 1", "pm.max_spare_servers = 3"], 20)] $ \(pool, n) ->
  withPhpFpm pool $ \path directory -> do
    writeFile (directory </> "p" </> "slow.php") "<?php usleep(20000); echo 'done';"
    withTestRuntime $ \runtime -> forM_ [fastKeep (defaultFastCgiSettings [] ""), 16] $ \keep ->
      withFastCgi runtime (phpSettings path directory) {fastKeep = keep} $ \fast ->
        withGatewayServer runtime (fastCgiGateway fast) $ \running ->
          forM_ [1 .. 3 :: Int] $ \_ -> do
            tasks <- forM [1 .. n :: Int] $ \_ -> forkTask (asking running "/p/slow.php" >>= answersWith 200 "done")
            mapM_ joinTask tasks

withPhpFpm :: [String] -> (FilePath -> FilePath -> IO ()) -> IO ()
withPhpFpm pool body = do
  found <- filter versioned <$> listed "/usr/sbin"
  installed "php-fpm" ["/usr/sbin" </> name | name <- found] $ \program -> withDirectory $ \directory -> do
    phpSite directory
    user <- getEffectiveUserID
    let path = directory </> "fpm.sock"
        conf = directory </> "fpm.conf"
    writeFile conf . unlines $
      ["[global]", "error_log = " ++ (directory </> "fpm.log"), "daemonize = no", "[www]", "listen = " ++ path, "catch_workers_output = yes"]
        ++ pool
        ++ if user == 0 then ["user = root", "group = root"] else []
    withFile "/dev/null" WriteMode $ \nowhere -> bracket
      (createProcess (proc program (["--nodaemonize", "--fpm-config", conf] ++ ["--allow-to-run-as-root" | user == 0])) {std_in = NoStream, std_err = UseHandle nowhere})
      (\(_, _, _, process) -> terminateProcess process >> waitForProcess process)
      $ \_ -> do
        let connecting = bracket (socket AF_UNIX Stream 0) close (`connect` SockAddrUnix path)
        void (eventually "php-fpm to listen" (try connecting :: IO (Either IOException ())) isRight)
        body path directory
  where
    listed directory = doesDirectoryExist directory >>= \yes -> if yes then listDirectory directory else pure []
    versioned name = C.isPrefixOf "php-fpm" (C.pack name) && any isDigit name
