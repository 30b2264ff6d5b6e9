{-# LANGUAGE OverloadedStrings #-}

-- | The command line: help, errors, addresses, signals.
module CommandTest (tests) where

import Control.Monad (forM_, unless)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import Data.Version (showVersion)
import GHC.Clock (getMonotonicTime)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..))
import Program
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Info (arch, compilerName, fullCompilerVersion)
import System.Posix.Files (setFileMode)
import System.Posix.Signals
import System.Posix.User (getEffectiveUserID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "command"
    [ testGroup "help and version" help,
      testGroup "what cannot begin: exit code 2, and what to do" refusals,
      testGroup "listening" listening,
      testGroup "signals" signals
    ]

help :: [TestTree]
help =
  [ testCase "--help lists the commands" $ do
      ended <- runTool "heddle" ["--help"]
      endedCode ended @?= ExitSuccess
      contains "serve" (out ended)
      contains "heddle COMMAND --help" (out ended),
    testCase "serve --help lists every option" $ do
      ended <- runTool "heddle" ["serve", "--help"]
      endedCode ended @?= ExitSuccess
      forM_ ["DIR", "--config", "--check", "--dump-config", "--explain", "--import", "--config-schema", "--listen", "--cores", "--access-log", "--index", "--hidden", "--drain", "--idle", "--max-connections", "--max-body", "--max-head", "--max-target", "--time-outs", "--open", "--spa", "--error-page", "--autoindex", "--header", "--cache-control", "--security-headers", "--cors", "--mime", "--compression", "--etag", "--follow-symlinks", "--basic-auth", "--log", "--log-format", "--cgi", "--fastcgi", "--scgi", "--program-env", "--program-limit", "--program-time", "--fastcgi-keep", "--proxy", "--pid-file", "--user", "--status", "--status-allow", "--status-timeline", "SIGTERM", "Exit codes"] $ \part ->
        contains part (out ended),
    testCase "--version: compiler, architecture, level of the kernels" $ do
      ended <- runToolIn [("HEDDLE_CPU", "plain")] "heddle" ["--version"]
      endedCode ended @?= ExitSuccess
      assertBool (show ended) ("heddle " `B.isPrefixOf` endedOut ended)
      -- The suite is built by the compiler that built the command.
      contains (" (" ++ compilerName ++ " " ++ showVersion fullCompilerVersion ++ ", " ++ arch ++ ", plain kernels)\n") (out ended),
    testCase "--version names the processor's level if HEDDLE_CPU does not lower it" $ do
      Ended _ named _ <- runToolIn [("HEDDLE_CPU", "")] "heddle" ["--version"]
      flags <- readFile "/proc/cpuinfo"
      let has flag = flag `elem` words flags
          highest
            | all has ["avx512f", "avx512vbmi", "avx512_vbmi2"] = "AVX-512"
            | has "avx2" = "AVX2"
            | has "sse4_2" = "SSE4"
            | otherwise = "plain"
      contains (", " ++ highest ++ " kernels)") (C.unpack named),
    testCase "--version after a command" $
      forM_ [["serve"], ["serve", "/tmp"], ["json"], ["pipe", "id"]] $ \words' -> do
        ended <- runTool "heddle" (words' ++ ["--version"])
        endedCode ended @?= ExitSuccess
        assertBool (show ended) ("heddle " `B.isPrefixOf` endedOut ended),
    testCase "nothing at all: help, and not success" $ do
      ended <- runTool "heddle" []
      endedCode ended @?= ExitFailure 2
      contains "serve" (out ended ++ endedErr ended)
  ]
  where
    out = C.unpack . endedOut

refusals :: [TestTree]
refusals =
  [ refused "no directory" ["serve"] ["nothing is served at /", "Give the directory"],
    testCase "usageHidTheMistake: a message of few lines, whatever the number of options" $
      forM_ [["serve", "--no-such-option"], ["serve", "--cores", "many"], ["serve", "a", "b"], ["pipe", "--no-such-option", "x"], ["json", "--no-such-option"]] $ \arguments -> do
        ended <- runTool "heddle" arguments
        endedCode ended @?= ExitFailure 2
        assertBool (endedErr ended) (length (lines (endedErr ended)) <= 12 && "ee heddle" `isInfixOf` endedErr ended || "Usage:" `isInfixOf` endedErr ended && length (lines (endedErr ended)) <= 15),
    testCase "aConfigurationWasADirectory: the option for it is named" $
      withDirectory $ \d -> forM_ ["site.yaml", "site.yml"] $ \name -> do
        B.writeFile (d </> name) "root: .\n"
        ended <- runTool "heddle" (["serve", d </> name] ++ free)
        endedCode ended @?= ExitFailure 2
        contains ("--config " ++ d </> name) (endedErr ended),
    testCase "slashWasServed: what answers for all paths is in the start-up line" $
      withProgram (["serve", "--proxy", "/=http://127.0.0.1:1/base", "--proxy", "/b=unix:/run/b.sock", "--cores", "1"] ++ free) $ \program ->
        contains "Serving / from 127.0.0.1:1, /b from /run/b.sock on http://" (programLine program),
    testCase "mistypedCommandGotTheUsage: one sentence with the nearest command" $
      forM_ [("srve", "serve"), ("weave", "serve"), ("fnid", "find"), ("pip", "pipe"), ("jsn", "json"), ("finds", "find")] $ \(typed, meant) -> do
        ended <- runTool "heddle" [typed, "--help"]
        complains ended []
        endedErr ended @?= "heddle: '" ++ typed ++ "' is not a command; did you mean '" ++ meant ++ "'?\n",
    testCase "a command that resembles none" $ do
      ended <- runTool "heddle" ["frobnicate"]
      complains ended []
      endedErr ended @?= "heddle: 'frobnicate' is not a command; there are serve, find, pipe, json, trace, password, controller, ofbench (see heddle --help)\n",
    refused "an option that is not there, and the nearest" ["serve", "--lisen", ":1"] ["--lisen", "Did you mean this?\n    --listen\n"],
    refused "backtrackingLostTheCommand: an option that is not there leads to the command's help" ["serve", "/tmp", "--lisen", ":1"] ["--lisen", "Did you mean this?\n    --listen\n", "See heddle serve --help."],
    testCase "repeatedOptionWasCalledUnknown: what is given twice, or beside what it excludes, is said to be" $
      forM_
        [ (["serve", "/tmp", "--idle", "5", "--idle", "6"], "--idle is given more than once\n"),
          (["serve", "/tmp", "--idle=5", "--drain", "1", "--idle=5"], "--idle is given more than once\n"),
          (["serve", "-c", "a", "-cb"], "-c is given more than once\n"),
          (["serve", "-c", "a", "--config", "b"], "--config is given more than once\n"),
          (["serve", "/tmp", "--cores", "1", "-N", "2"], "-N is given more than once\n"),
          (["serve", "/tmp", "--hidden", "--hidden"], "--hidden is given more than once\n"),
          (["serve", "--check", "--check"], "--check is given more than once\n"),
          (["serve", "--check", "--dump-config"], "--dump-config does not go together with the options before it\n"),
          (["controller", "--idle", "5", "--idle", "6"], "--idle is given more than once\n"),
          (["password", "--cost", "4", "--cost", "5", "ann"], "--cost is given more than once\n")
        ]
        $ \(arguments, said) -> do
          ended <- runTool "heddle" arguments
          complains ended []
          (said `isPrefixOf` endedErr ended, "Did you mean" `isInfixOf` endedErr ended) @?= (True, False),
    refused "a directory that is missing" (["serve", "/no/such/directory"] ++ free) ["heddle serve: cannot serve /no/such/directory", "ENOENT", "directory that exists"],
    refused "a file instead of a directory" (["serve", "/etc/passwd"] ++ free) ["cannot serve /etc/passwd", "ENOTDIR", "not a directory"],
    refused "a port beyond the last" ["serve", "/tmp", "--listen", "localhost:65536"] ["65535"],
    refused "a port that is no number" ["serve", "/tmp", "--listen", "localhost:http"] ["'http' is not a port"],
    refused "an IPv6 address without brackets" ["serve", "/tmp", "--listen", "::1:80"] ["[::1]:8080"],
    refused "an address of another machine" ["serve", "/tmp", "--listen", "192.0.2.1:8080"] ["cannot listen on 192.0.2.1:8080", "EADDRNOTAVAIL"],
    refused "a name without address" ["serve", "/tmp", "--listen", "no.such.name.invalid:80"] ["cannot listen on no.such.name.invalid:80", "unknown"],
    refused "a Unix socket in a missing directory" ["serve", "/tmp", "--listen", "unix:/no/such/directory/s"] ["cannot listen on unix:/no/such/directory/s", "directory"],
    refused "a log in a missing directory" ["serve", "/tmp", "--listen", "127.0.0.1:0", "--access-log", "/no/such/directory/log"] ["cannot write the access log /no/such/directory/log", "ENOENT"],
    refused "programs of a missing directory" ["serve", "/tmp", "--listen", "127.0.0.1:0", "--cgi", "/cgi=/no/such/directory"] ["cannot serve /cgi: /no/such/directory", "ENOENT", "directory of programs"],
    refused "a route without a slash" ["serve", "/tmp", "--cgi", "cgi=/tmp"] ["write /cgi"],
    refused "two routes for one prefix" ["serve", "/tmp", "--listen", "127.0.0.1:0", "--cgi", "/cgi=/tmp", "--fastcgi", "/cgi/=localhost:9000"] ["cannot serve /cgi", "two routes"],
    refused "no cores" ["serve", "/tmp", "--cores", "0"] ["'0' is not a number of cores"],
    refused "cores in words" ["serve", "/tmp", "--cores", "two"] ["'two' is not a number of cores"],
    refused "more cores than the runtime can have" ["serve", "/tmp", "--listen", "127.0.0.1:0", "--cores", "100000"] ["'100000' is not a number of cores"],
    refused "a size that is none" ["serve", "/tmp", "--max-body", "10X"] ["'10X' is not a size"],
    refused "a head too small for any browser" ["serve", "/tmp", "--max-head", "1k"] ["'1k' is not a size from 4096 to 1048576 bytes"],
    refused "a size of nothing" ["serve", "/tmp", "--max-body", "0"] ["is not a size"],
    refused "a time-out that is not there" ["serve", "/tmp", "--time-outs", "head=1,foot=2"] ["'foot' is not a time-out; there are head, body, reply, idle"],
    refused "a time-out of nothing" ["serve", "/tmp", "--time-outs", "head=0"] ["'0' is not a number of seconds"],
    refused "a way to log that is not there" ["serve", "/tmp", "--log", "loud"] ["there are auto, pretty and quiet"],
    refused "a format that is not there" ["serve", "/tmp", "--log-format", "xml"] ["there are combined, common, json, and texts"],
    refused "a back end that is not there" ["serve", "/tmp", "--backend", "select"] ["epoll and poll"],
    testCase "a busy port" $
      forM_ [[], ["--one-acceptor"]] $ \more -> withProgram (["serve", "/tmp"] ++ free) $ \program -> do
        let place = drop (length ("http://" :: String)) (head (programUrls program))
        ended <- runTool "heddle" (["serve", "/tmp", "--listen", place] ++ more)
        complains ended ["cannot listen on " ++ place, "EADDRINUSE", "--listen"]
        withClient (addressOf program) $ \client -> say client "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n" >> hearAnswer client >>= \a -> answerCode a @?= 404,
    testCase "takenAddressHidTheMistake: what is wrong with the arguments is said before addresses are taken" $
      withProgram (["serve", "/tmp"] ++ free) $ \program -> do
        let place = drop (length ("http://" :: String)) (head (programUrls program))
            taken = ["--listen", place]
            mistakes =
              [ (["/no/such/directory"], ["cannot serve /no/such/directory", "ENOENT"]),
                (["/etc/passwd"], ["cannot serve /etc/passwd", "ENOTDIR"]),
                (["/tmp", "--cgi", "/cgi=/no/such/directory"], ["cannot serve /cgi", "ENOENT"]),
                (["/tmp", "--cgi", "/cgi=/tmp", "--fastcgi", "/cgi/=localhost:9000"], ["two routes"]),
                (["/tmp", "--error-page", "404=no-such-page.html"], ["no-such-page.html", "ENOENT"]),
                (["/tmp", "--basic-auth", "/no/such/file"], ["/no/such/file"]),
                (["/tmp", "--user", "no-such-user"], ["there is no user no-such-user"]),
                (["/tmp", "--redirect-https"], ["no address to redirect to"])
              ]
        forM_ mistakes $ \(wrong, parts) -> forM_ [[], ["--processes", "2"]] $ \more -> do
          ended <- runTool "heddle" (("serve" : wrong) ++ taken ++ more)
          complains ended parts
        ended <- runTool "heddle" ["serve", "/tmp", "--listen", "https://" ++ place]
        complains ended ["no certificate for https://" ++ place],
    testCase "a Unix socket where somebody listens" $
      withDirectory $ \d -> withProgram ["serve", d, "--listen", "unix:" ++ d </> "s"] $ \_ -> do
        ended <- runTool "heddle" ["serve", d, "--listen", "unix:" ++ d </> "s"]
        complains ended ["cannot listen on unix:", "EADDRINUSE"],
    testCase "a port below 1024 without the privilege (skipped where every user may bind it)" $ do
      first <- readFile "/proc/sys/net/ipv4/ip_unprivileged_port_start"
      if read first <= (80 :: Int)
        then putStrLn "\n        skipped: this system lets every user bind port 80 (ip_unprivileged_port_start)"
        else asNobody ["serve", "/tmp", "--listen", "127.0.0.1:80"] $ \ended ->
          complains ended ["cannot listen on 127.0.0.1:80", "EACCES", "Ports below 1024 need a privilege"],
    testCase "a directory that may not be entered" $
      withDirectory $ \d -> do
        createDirectoryIfMissing True (d </> "closed" </> "site")
        setFileMode d 0o755
        setFileMode (d </> "closed") 0
        asNobody ["serve", d </> "closed" </> "site", "--listen", "127.0.0.1:0"] $ \ended ->
          complains ended ["cannot serve", "EACCES", "right to read it"]
  ]
  where
    refused what arguments parts = testCase what (runTool "heddle" arguments >>= (`complains` parts))

complains :: Ended -> [String] -> IO ()
complains ended parts = do
  unless (endedCode ended == ExitFailure 2) (unexpected "exit code 2" (show ended))
  endedOut ended @?= ""
  mapM_ (`contains` endedErr ended) parts

-- Run heddle as a user without privileges, from where that user can reach it.
asNobody :: [String] -> (Ended -> IO ()) -> IO ()
asNobody arguments check = do
  user <- getEffectiveUserID
  if user /= 0
    then runTool "heddle" arguments >>= check
    else withDirectory $ \d -> do
      heddle <- findExecutable "heddle" >>= maybe (unexpected "heddle on the PATH" "none") pure
      -- Not copied here: another child of this process could hold the copy open, writing.
      _ <- runTool "install" ["-m", "755", heddle, d </> "heddle"]
      setFileMode d 0o755
      runTool "setpriv" (["--reuid=65534", "--regid=65534", "--clear-groups", d </> "heddle"] ++ arguments) >>= check

-- Listening ---------------------------------------------------------------------------

listening :: [TestTree]
listening =
  [ testCase "the start-up line names directory, URL and cores" $
      withSite $ \d -> withProgram (["serve", d, "--cores", "2"] ++ free) $ \program -> do
        said <- programOut program
        contains ("Serving " ++ d ++ " on http://127.0.0.1:") said
        contains "(2 cores; Ctrl-C stops)" said
        serves program,
    testCase "one core" $
      withSite $ \d -> withProgram (["serve", d, "--cores", "1"] ++ free) $ \program -> do
        programOut program >>= contains "(1 core;"
        serves program,
    testCase "--one-acceptor" $ withSite $ \d -> withProgram (["serve", d, "--one-acceptor", "--cores", "2"] ++ free) serves,
    testCase "--backend poll" $ withSite $ \d -> withProgram (["serve", d, "--backend", "poll", "--cores", "2"] ++ free) serves,
    testCase "--index and --hidden" $
      withSite $ \d -> do
        writeFile (d </> ".hidden") "hidden"
        withProgram (["serve", d, "--index", "second.html", "--hidden"] ++ free) $ \program -> do
          fetch (addressOf program) "/" >>= answersWith 200 "second"
          fetch (addressOf program) "/.hidden" >>= answersWith 200 "hidden",
    testCase "a name of two families gets one port for both" $
      withSite $ \d -> withProgram ["serve", d, "--listen", "localhost:0"] $ \program -> do
        assertBool (show (programUrls program)) (all ("http://localhost:" `isPrefixOf`) (programUrls program))
        all (== head (programUrls program)) (programUrls program) @?= True
        serves program,
    testCase "samePortTwiceWasBusy: several addresses, any port twice, and a Unix socket that is removed at the end" $
      withSite $ \d -> do
        let path = d </> "socket"
        withProgram ["serve", d, "--listen", "127.0.0.1:0", "-l", "127.0.0.1:0", "--listen", "unix:" ++ path] $ \program -> do
          length (programUrls program) @?= 3
          forM_ (programUrls program) $ \u ->
            if "unix:" `isPrefixOf` u
              then fetch (SockAddrUnix path) "/" >>= answersWith 200 "home"
              else fetch (addressOf program {programUrls = [u]}) "/" >>= answersWith 200 "home"
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        doesPathExist path >>= (@?= False),
    testCase "a Unix socket left behind by a killed server is taken over" $
      withSite $ \d -> do
        let path = d </> "socket"
        withProgram ["serve", d, "--listen", "unix:" ++ path] (\_ -> pure ())
        doesPathExist path >>= (@?= True)
        withProgram ["serve", d, "--listen", "unix:" ++ path] $ \_ ->
          fetch (SockAddrUnix path) "/" >>= answersWith 200 "home",
    testCase "namesWereCutToLatin1: names beyond ASCII, in any locale" $
      forM_ ["C", "C.UTF-8"] $ \locale -> withDirectory $ \d -> do
        Ended _ heddle _ <- runTool "sh" ["-c", "command -v heddle"]
        let script = "mkdir \"$1/s\xc3\xafte\" && echo home > \"$1/s\xc3\xafte/index.html\" && exec \"$2\" serve \"$1/s\xc3\xafte\" --listen 127.0.0.1:0 --access-log \"$1/l\xc3\xb6g\""
        B.writeFile (d </> "run.sh") script
        withProgramIn [("LC_ALL", locale)] ("/bin/sh", [d </> "run.sh", d, filter (/= '\n') (C.unpack heddle)]) $ \program -> do
          fetch (addressOf program) "/" >>= answersWith 200 "home\n"
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        Ended _ listing _ <- runToolIn [("LC_ALL", locale)] "ls" ["-b", "--quoting-style=literal", "--show-control-chars", d]
        assertBool ("expected a log named l\xf6g, but got " ++ show listing) ("l\xc3\xb6g" `B.isInfixOf` listing)
  ]

withSite :: (FilePath -> IO a) -> IO a
withSite act = withDirectory $ \d -> do
  writeFile (d </> "index.html") "home"
  writeFile (d </> "second.html") "second"
  act d

serves :: Program -> IO ()
serves program = forM_ [1 :: Int .. 10] $ \_ -> fetch (addressOf program) "/" >>= answersWith 200 "home"

fetch :: SockAddr -> B.ByteString -> IO Answer
fetch address path = withClient address $ \client -> do
  say client (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
  hearAnswer client

-- Signals --------------------------------------------------------------------------------

signals :: [TestTree]
signals =
  [ testCase (name ++ ": idle connections close, exit code 0") $
      withSite $ \d -> withProgram (["serve", d] ++ free) $ \program -> do
        withClient (addressOf program) $ \client -> do
          say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
          hearAnswer client >>= answersWith 200 "home"
          signal program s
          hearEnd client
        ends program >>= (@?= ExitSuccess)
        said <- programOut program
        contains "Stopping; 1 open connection." said
        contains "Stopped." said
    | (name, s) <- [("SIGTERM", sigTERM), ("SIGINT", sigINT), ("SIGQUIT", sigQUIT)]
  ]
    ++ [ testCase "interruptedReadMadeTheServerDeaf: reads that are interrupted lose no signal" $
           withSite $ \d -> withProgram (["serve", d, "--cores", "1", "--access-log", d </> "log"] ++ free) $ \program -> do
             withReadsInterrupted program $ do
               forM_ [sigUSR1, sigHUP, sigUSR1] (signal program)
               serves program
               signal program sigTERM
               ends program >>= (@?= ExitSuccess),
         testCase "a slow reader of a big file gets all of it" $
           withBig $ \d -> withProgram (["serve", d] ++ free) $ \program -> do
             withClient (addressOf program) $ \client -> withClient (addressOf program) $ \idle -> do
               say client "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
               heard <- hearsWithin client patience
               heard @?= True
               say idle "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
               _ <- hearAnswer idle
               signal program sigTERM
               hearEnd idle
               -- The drain is under way, and the file is not.
               answer <- hearAnswer client
               answerCode answer @?= 200
               B.length (answerBody answer) @?= bigSize
               hearEnd client
             ends program >>= (@?= ExitSuccess)
             programOut program >>= contains "Stopped.",
         testCase "a second signal ends at once" $
           withBig $ \d -> withProgram (["serve", d] ++ free) $ \program -> do
             withClient (addressOf program) $ \client -> do
               say client "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
               heard <- hearsWithin client patience
               heard @?= True
               signal program sigTERM
               _ <- eventually "the drain to begin" (programOut program) ("Stopping" `isInfixOf`)
               before <- getMonotonicTime
               signal program sigINT
               code <- ends program
               after <- getMonotonicTime
               -- One that could not end for two seconds has been ended by force.
               assertBool (show code) (code == ExitSuccess || code == ExitFailure 1 && after - before > 1.9)
               (got, _) <- hearRest client
               assertBool "the file was cut" (B.length got < bigSize),
         testCase "--drain limits how long the rest may take" $
           withBig $ \d -> withProgram (["serve", d, "--drain", "1"] ++ free) $ \program -> do
             withClient (addressOf program) $ \client -> do
               say client "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
               heard <- hearsWithin client patience
               heard @?= True
               signal program sigTERM
               ends program >>= (@?= ExitSuccess)
             programOut program >>= contains "Stopped; 1 connection cut.",
         testCase "hangUpEndedTheServer: SIGHUP and SIGUSR1 without log and terminal do not end it" $
           withSite $ \d -> withProgramIn [] ("/bin/sh", ["-c", "exec setsid heddle serve " ++ d ++ " --listen 127.0.0.1:0"]) $ \program -> do
             forM_ [1 :: Int .. 20] $ \_ -> forM_ [sigHUP, sigUSR1] $ \s -> do
               signal program s
               fetch (addressOf program) "/" >>= answersWith 200 "home"
             signal program sigTERM
             ends program >>= (@?= ExitSuccess)
             programErr program >>= (@?= ""),
         testCase "rootWasPinned: a root that is a link can be switched, for cached, new and large files" $
           withDirectory $ \d -> do
             forM_ ["1", "2"] $ \n -> do
               createDirectoryIfMissing True (d </> "releases" </> n)
               forM_ ["index.html", "new.html"] $ \file -> writeFile (d </> "releases" </> n </> file) ("release " ++ n)
               writeFile (d </> "releases" </> n </> "large") (replicate 100000 (head n))
             createDirectoryLink ("releases" </> "1") (d </> "current")
             withProgram (["serve", d </> "current", "--cores", "1"] ++ free) $ \program -> do
               let body path = C.take 9 . answerBody <$> fetch (addressOf program) path
               body "/" >>= (@?= "release 1")
               body "/large" >>= (@?= "111111111")
               createDirectoryLink ("releases" </> "2") (d </> "next")
               renamePath (d </> "next") (d </> "current")
               _ <- eventually "the other directory" (mapM body ["/", "/large", "/new.html"]) (== ["release 2", "222222222", "release 2"])
               -- Gone for a moment: the last one is served on.
               removeDirectoryLink (d </> "current")
               signal program sigHUP
               body "/new.html" >>= (@?= "release 2")
               createDirectoryLink ("releases" </> "1") (d </> "current")
               _ <- eventually "the first directory again" (body "/") (== "release 1")
               pure (),
         testCase "a signal right after the start-up line" $
           forM_ [1 :: Int .. 10] $ \_ -> withProgram (["serve", "/tmp"] ++ free) $ \program -> do
             signal program sigTERM
             ends program >>= (@?= ExitSuccess)
       ]
  where
    bigSize = 30000000
    withBig act = withSite $ \d -> B.writeFile (d </> "big") (B.replicate bigSize 120) >> act d
