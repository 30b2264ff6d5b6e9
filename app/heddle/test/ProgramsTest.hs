-- | @heddle serve --cgi@: over HTTP/1.1, HTTP/2 and TLS, beside files, in the log, and at the end.
module ProgramsTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Monad (forM_, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Testkit.Watchdog (eventually, unexpected)
import Program
import System.Directory (createDirectory, doesFileExist)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.Signals (sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "heddle serve with programs"
    [ testCase "HTTP/1.1, HTTP/2 and TLS, beside files; the log" versions,
      testCase "standard error has the program's lines" errors,
      testCase "a stop waits for an answer that is under way" drains,
      testCase "a second signal does not wait, and no program is left" cut
    ]

-- A site with a page, and programs.
withPrograms :: (FilePath -> FilePath -> IO a) -> IO a
withPrograms act = withDirectory $ \d -> do
  let site = d </> "site"
      programs = d </> "programs"
  mapM_ createDirectory [site, programs]
  B.writeFile (site </> "page.txt") (C.pack "a page")
  forM_
    [ ("echo", ["echo Content-Type: text/plain", "echo", "echo \"$SERVER_PROTOCOL|$HTTPS|$PATH_INFO|$SET\"", "cat"]),
      ("says", ["echo a line for the log >&2", "echo Content-Type: text/plain", "echo", "echo said"]),
      -- Waits until the file named by the query is there. Its own file is there once it is whole.
      ("waits", ["echo Content-Type: text/plain", "echo", "echo begun", "echo $$ > \"$QUERY_STRING.new\"", "mv \"$QUERY_STRING.new\" \"$QUERY_STRING.pid\"", "while [ ! -e \"$QUERY_STRING\" ]; do sleep 0.05; done", "echo done"])
    ]
    $ \(name, lines') -> writeFile (programs </> name) (unlines ("#!/bin/sh" : lines')) >> setFileMode (programs </> name) 0o755
  act site programs

curl :: [String] -> IO String
curl arguments = do
  ended <- runTool "curl" (["-sS", "-k", "--max-time", "20"] ++ arguments)
  if endedCode ended == ExitSuccess then pure (C.unpack (endedOut ended)) else unexpected ("curl " ++ unwords arguments ++ " to succeed") (show ended)

urlOf :: Program -> String -> IO String
urlOf program scheme = case filter (scheme `isPrefixOf`) (programUrls program) of
  u : _ -> pure u
  [] -> unexpected ("a URL that begins with " ++ scheme) (show (programUrls program))

versions :: IO ()
versions = withPrograms $ \site programs -> do
  let log' = site ++ ".log"
  withProgram ["serve", site, "--listen", "http://localhost:0", "--listen", "https://localhost:0", "--tls-self-signed", "--cgi", "/cgi=" ++ programs, "--program-env", "SET=yes", "--access-log", log'] $ \program -> do
    plain <- urlOf program "http://"
    secure <- urlOf program "https://"
    curl [plain ++ "/cgi/echo/in/fo", "-d", "body"] >>= (@?= "HTTP/1.1||/in/fo|yes\nbody")
    curl ["--http1.1", secure ++ "/cgi/echo"] >>= (@?= "HTTP/1.1|on||yes\n")
    curl ["--http2", secure ++ "/cgi/echo/x", "-d", "body"] >>= (@?= "HTTP/2.0|on|/x|yes\nbody")
    -- Often enough that a file is answered from the cache, also at once.
    forM_ [1 .. 3 :: Int] $ \_ -> curl ["--http2", secure ++ "/page.txt", secure ++ "/cgi/echo", secure ++ "/page.txt"] >>= (@?= "a pageHTTP/2.0|on||yes\na page")
    curl ["-o", "/dev/null", "-w", "%{http_code}", plain ++ "/cgi/none"] >>= (@?= "404")
    signal program sigTERM
    ends program >>= (@?= ExitSuccess)
  readFile log' >>= contains "\"POST /cgi/echo/x HTTP/2.0\" 200 "

errors :: IO ()
errors = withPrograms $ \site programs ->
  withProgram ["serve", site, "--listen", "http://localhost:0", "--cgi", "/cgi=" ++ programs] $ \program -> do
    u <- urlOf program "http://"
    curl [u ++ "/cgi/says"] >>= (@?= "said\n")
    void (eventually "the line" (programErr program) ("program /cgi/says: a line for the log" `isInfixOf`))

-- Ask for the program that waits, until the file; then act, and hear what came.
waiting :: FilePath -> FilePath -> (Program -> FilePath -> IO ()) -> IO Ended
waiting site programs act =
  withProgram ["serve", site, "--listen", "http://localhost:0", "--cgi", "/cgi=" ++ programs] $ \program -> do
    u <- urlOf program "http://"
    answer <- newEmptyMVar
    let file = site ++ ".go"
    _ <- forkIO (runTool "curl" ["-sS", "--max-time", "20", u ++ "/cgi/waits?" ++ file] >>= putMVar answer)
    void (eventually "the program to run" (doesFileExist (file ++ ".pid")) id)
    act program file
    takeMVar answer

drains :: IO ()
drains = withPrograms $ \site programs -> do
  ended <- waiting site programs $ \program file -> do
    signal program sigTERM
    void (eventually "the server to stop" (programOut program) ("Stopping" `isInfixOf`))
    writeFile file ""
    ends program >>= (@?= ExitSuccess)
  (endedCode ended, C.unpack (endedOut ended)) @?= (ExitSuccess, "begun\ndone\n")

cut :: IO ()
cut = withPrograms $ \site programs -> do
  _ <- waiting site programs $ \program _ -> do
    signal program sigTERM
    void (eventually "the server to stop" (programOut program) ("Stopping" `isInfixOf`))
    signal program sigTERM
    void (ends program)
  pid <- takeWhile (/= '\n') <$> readFile (site ++ ".go.pid")
  void (eventually "the program to end" (doesFileExist ("/proc" </> pid </> "stat")) not)
