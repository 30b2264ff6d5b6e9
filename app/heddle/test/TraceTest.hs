{-# LANGUAGE OverloadedStrings #-}

-- | heddle trace as its users meet it: its forms of output, and files that are no logs. What is in the output is tested
-- with the library.
module TraceTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "heddle trace"
    [ testCase "each form of output" . withLog $ \directory file -> do
        gives [file] ExitSuccess
        table <- runTool "heddle" ["trace", "--summary", file]
        contains "2.00 us, 2 events, 1 core, 1 thread" (C.unpack (endedOut table))
        contains "thread 7" (C.unpack (endedOut table))
        page <- runTool "heddle" ["trace", file, "-o", directory </> "page.html"]
        (endedCode page, endedOut page, endedErr page) @?= (ExitSuccess, "", "")
        B.readFile (directory </> "page.html") >>= contains "<!doctype html>" . C.unpack
        profile <- runTool "heddle" ["trace", "--speedscope", file]
        contains "\"name\":\"thread 7\"" (C.unpack (endedOut profile))
        spans <- runTool "heddle" ["trace", "--perfetto", file]
        contains "thread 7" (C.unpack (endedOut spans)),
      testCase "logsWereCalledEventLog: each form is named after the log, or as --name says" . withLog $ \_ file ->
        forM_ ["--summary", "--page", "--perfetto", "--speedscope"] $ \form -> do
          usual <- runTool "heddle" ["trace", form, file]
          contains "a.eventlog" (C.unpack (endedOut usual))
          named <- runTool "heddle" ["trace", form, file, "--name", "the <server>"]
          let title = if form == "--page" then "<title>the &#60;server&#62; " else "the <server>"
          contains title (C.unpack (endedOut named)),
      testCase "a log that is cut off is shown, with a note" . withLog $ \directory file -> do
        whole <- B.readFile file
        B.writeFile (directory </> "cut") (B.take (B.length whole - 10) whole)
        ended <- runTool "heddle" ["trace", directory </> "cut"]
        endedCode ended @?= ExitSuccess
        contains "the file ends inside a block" (endedErr ended)
        contains "thread 7" (C.unpack (endedOut ended)),
      testCase "files that are no logs" . withLog $ \directory _ -> do
        createDirectory (directory </> "d")
        B.writeFile (directory </> "text") "hello"
        refuses [directory </> "d"] "this is a directory"
        refuses [directory </> "text"] "this is not an event log"
        refuses [directory </> "missing"] "no such file or directory (ENOENT)"
        refuses ["/dev/null"] "this is no regular file",
      testCase "the log is never overwritten by the output" . withLog $ \_ file -> do
        before <- B.readFile file
        refuses [file, "-o", file] "this file is also the log"
        B.readFile file >>= (@?= before),
      testCase "output that cannot be written" . withLog $ \_ file -> do
        refuses [file, "-o", "/dev/full"] "heddle trace: /dev/full: no space left on device (ENOSPC)"
        refuses [file, "-o", "/no/such/folder/out"] "heddle trace: /no/such/folder/out: no such file or directory (ENOENT)"
    ]
  where
    gives arguments code = do
      ended <- runTool "heddle" ("trace" : arguments)
      (endedCode ended, endedErr ended) @?= (code, "")
    refuses arguments why = do
      ended <- runTool "heddle" ("trace" : arguments)
      endedCode ended @?= ExitFailure 2
      contains why (endedErr ended)
    withLog act = withDirectory $ \directory -> do
      B.writeFile (directory </> "a.eventlog") smallLog
      act directory (directory </> "a.eventlog")

-- Thread 7 runs for a microsecond, on one core.
smallLog :: B.ByteString
smallLog =
  B.concat
    [ "hdrbhetb",
      foldMap (\(t, size) -> "etb\0" <> B.pack [0, t, 0, size, 0, 0, 0, 0, 0, 0, 0, 0] <> "ete\0") [(1, 4), (2, 10), (18, 14)],
      "hetehdredatb",
      B.pack [0, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 58, 0, 0, 0, 0, 0, 0, 7, 208, 0, 0],
      B.pack [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7],
      B.pack [0, 2, 0, 0, 0, 0, 0, 0, 4, 232, 0, 0, 0, 7, 0, 5, 0, 0, 0, 0],
      B.pack [255, 255]
    ]
