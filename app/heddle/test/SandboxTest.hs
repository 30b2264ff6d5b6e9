{-# LANGUAGE OverloadedStrings #-}

-- | What the server cannot do any more. Where the kernel has no Landlock, or no seccomp, these tests are left out and say so.
module SandboxTest (tests) where

import Control.Exception (SomeException, finally, try)
import Control.Monad (forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory (createDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Info (arch)
import System.Posix.Files (createSymbolicLink, setFileMode)
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, testCaseInfo, (@?=))

tests :: TestTree
tests =
  testGroup
    "the sandbox"
    [ kernelTest "is there by default, and off when asked" $ \d -> do
        writeFile (d </> "index.html") "hello"
        mine <- status "self"
        withProgram (["serve", d] ++ free) $ \program -> do
          ask program "/" >>= answersWith 200 "hello"
          now <- status (show (programPid program))
          (field "NoNewPrivs" now, field "Seccomp" now) @?= ("1", "2")
        withProgram (["serve", d, "--sandbox", "off"] ++ free) $ \program -> do
          now <- status (show (programPid program))
          map (`field` now) ["NoNewPrivs", "Seccomp"] @?= map (`field` mine) ["NoNewPrivs", "Seccomp"],
      kernelTest "a file elsewhere cannot be read, unless --sandbox-read names it" $ \d -> do
        let site = d </> "a" </> "site"
            secret = d </> "b" </> "secret.txt"
        mapM_ createDirectory [d </> "a", d </> "b", site]
        writeFile secret "secret"
        createSymbolicLink secret (site </> "link.txt")
        forM_ [(["off"], 200), (["auto"], 200), (["on"], 403), (["on", "--sandbox-read", d </> "b"], 200)] $ \(how, code) ->
          withProgram (["serve", site, "--follow-symlinks", "--sandbox"] ++ how ++ free) $ \program ->
            ask program "/link.txt" >>= (@?= (how, code)) . (,) how . answerCode,
      kernelTest "programs: with auto any file, with on those that are named" $ \d -> do
        mapM_ (createDirectory . (d </>)) ["site", "bin", "other"]
        createDirectory (d </> "site" </> "www")
        writeFile (d </> "other" </> "data") "data"
        script (d </> "bin" </> "read") ["cat " ++ d </> "other" </> "data" ++ " 2>/dev/null || echo refused"]
        forM_ [(["auto"], "data"), (["on"], "refused\n"), (["on", "--sandbox-read", d </> "other"], "data")] $ \(how, text) ->
          withProgram (["serve", d </> "site" </> "www", "--cgi", "/p=" ++ d </> "bin", "--sandbox"] ++ how ++ free) $ \program ->
            ask program "/p/read" >>= answersWith 200 text,
      kernelTest "programs cannot debug others, nor make namespaces" $ \d ->
        if arch /= "x86_64"
          then pure ()
          else do
            createDirectory (d </> "bin")
            -- ptrace(PTRACE_TRACEME); clone3 without arguments; clone(CLONE_NEWUSER): -1 and the error's number.
            script (d </> "bin" </> "calls") ["perl -e '$! = 0; $r = syscall(101, 0, 0, 0, 0); print \"$r \", $!+0; $! = 0; syscall(435, 0, 0); print \" \", $!+0; $! = 0; syscall(56, 0x10000000, 0, 0, 0, 0); print \" \", $!+0'"]
            withProgram (["serve", d, "--cgi", "/p=" ++ d </> "bin"] ++ free) $ \program ->
              ask program "/p/calls" >>= answersWith 200 "-1 1 38 1"
            withProgram (["serve", d, "--cgi", "/p=" ++ d </> "bin", "--sandbox", "off"] ++ free) $ \program -> do
              answer <- ask program "/p/calls"
              unless ("0 0 22 " `C.isPrefixOf` answerBody answer) (unexpected "calls that the kernel knows" (show answer)),
      kernelTest "layersRanOut: a successor of many still serves, logs to a new file, and reads a new page" $ \d -> do
        mapM_ (createDirectory . (d </>)) ["site", "log"]
        let pids = d </> "log" </> "pid"
            log' = d </> "log" </> "access.log"
        withProgram (["serve", d </> "site", "--pid-file", pids, "--access-log", log', "--drain", "1"] ++ free) $ \program -> flip finally (endOf pids) $ do
          -- Landlock has 16 layers.
          forM_ [1 .. 18 :: Int] $ \n -> do
            before <- readPid pids
            signalProcess sigUSR2 before
            _ <- eventually ("process " ++ show n) ((,) <$> readPid pids <*> programErr program) (\(now, said) -> now /= before || not (null said))
            programErr program >>= (@?= "")
            void (eventually "the old process to say so" (programOut program) (\said -> length (filter ("serves from now on" `isInfixOf`) (lines said)) >= n))
          writeFile (d </> "site" </> "new.txt") "new"
          renameFile log' (log' ++ ".1")
          readPid pids >>= signalProcess sigUSR1
          void (eventually "a new log" (try (readFile log') :: IO (Either SomeException String)) (either (const False) (const True)))
          ask program "/new.txt" >>= answersWith 200 "new"
          void (eventually "a line in it" (C.readFile log') ("GET /new.txt" `C.isInfixOf`)),
      kernelTest "sandboxHidTheCauseOfAReload: a root that the sandbox does not allow is refused by a message that says so" $ \d -> do
        mapM_ (createDirectory . (d </>)) ["conf", "a", "a/site", "b"]
        writeFile (d </> "a" </> "site" </> "index.html") "a"
        writeFile (d </> "b" </> "index.html") "b"
        let file = d </> "conf" </> "site.yaml"
        writeFile file "root: ../a/site\n"
        withProgram (["serve", "--config", file, "--sandbox", "on"] ++ free) $ \program -> do
          ask program "/" >>= answersWith 200 "a"
          writeFile file "root: ../b\n"
          signal program sigHUP
          said <- eventually "a message about the sandbox" (programErr program) ("the sandbox stays as it was at the start" `isInfixOf`)
          contains ("it does not allow to read " ++ d </> "conf" </> "../b") said
          ask program "/" >>= answersWith 200 "a",
      kernelTest "--sandbox-show prints what is allowed" $ \d -> do
        ended <- runTool "heddle" ["serve", d, "--access-log", d </> "log" </> "access.log", "--sandbox-show"]
        let said = lines (C.unpack (endedOut ended))
        endedCode ended @?= ExitSuccess
        forM_ ["read    " ++ d, "write   " ++ d </> "log", "connections to other machines: none by TCP (from Landlock's version 4 on)"] $ \line ->
          unless (line `elem` said) (unexpected line (unlines said)),
      kernelTest "content without a length has room in a temporary file" $ \d -> do
        mapM_ (createDirectory . (d </>)) ["www", "bin"]
        script (d </> "bin" </> "count") ["echo \"$CONTENT_LENGTH\"", "wc -c"]
        -- The programs of --cgi share what the server may do.
        forM_ [(["auto"], 200), (["on"], 503), (["on", "--sandbox-write", "/var/tmp"], 200)] $ \(how, code) ->
          withProgram (["serve", d </> "www", "--cgi", "/p=" ++ d </> "bin", "--sandbox"] ++ how ++ free) $ \program ->
            withClient (addressOf program) $ \client -> do
              say client (C.concat ["POST /p/count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n", C.replicate 300000 'x', "\r\n0\r\n\r\n"])
              answer <- hearAnswer client
              answerCode answer @?= code
              unless (code == 503) (answersWith 200 "300000\n300000\n" answer)
        shown <- runTool "heddle" ["serve", d, "--fastcgi", "/=unix:" ++ d </> "none", "--sandbox-show"]
        contains "write   /var/tmp" (C.unpack (endedOut shown)),
      testCase "a mode that there is not: a sentence" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--sandbox", "maybe"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "'maybe' is not a way to use the sandbox" (endedErr ended)
    ]

-- In a new directory; or a line that says why not.
kernelTest :: String -> (FilePath -> IO ()) -> TestTree
kernelTest name act = testCaseInfo name $ do
  ended <- runTool "heddle" ["serve", "/", "--sandbox", "on", "--sandbox-show"]
  mine <- status "self"
  if "no Landlock" `isInfixOf` C.unpack (endedOut ended) || field "Seccomp" mine == ""
    then pure "left out: this kernel has no Landlock, or no seccomp"
    else "" <$ withDirectory act

ask :: Program -> ByteString -> IO Answer
ask program path = withClient (addressOf program) $ \client -> do
  say client ("GET " <> path <> " HTTP/1.1\r\nHost: a\r\n\r\n")
  hearAnswer client

script :: FilePath -> [String] -> IO ()
script path commands = do
  writeFile path (unlines (["#!/bin/sh", "printf 'Content-Type: text/plain\\n\\n'"] ++ commands))
  setFileMode path 0o755

-- Of the process's own threads this is the first, and all have the same.
status :: String -> IO String
status pid = C.unpack <$> C.readFile ("/proc/" ++ pid ++ "/status")

field :: String -> String -> String
field name text = concat [drop 1 (dropWhile (/= '\t') line) | line <- lines text, (name ++ ":") `isPrefixOf` line]
