-- | @heddle serve --proxy@: one server before two others.
module ProxyTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog (unexpected)
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testGroup "heddle serve --proxy" [forwarding, logged, alone, wrong]

forwarding :: TestTree
forwarding = testCase "files of other servers, in turns, beside its own" . withDirectory $ \own -> withDirectory $ \one -> withDirectory $ \two -> do
  B.writeFile (own </> "index.html") (C.pack "own")
  B.writeFile (one </> "page") (C.pack "one")
  B.writeFile (two </> "page") (C.pack "two")
  withProgram (["serve", one] ++ free) $ \a -> withProgram (["serve", two] ++ free) $ \b -> do
    let at program = takeWhile (/= ' ') (head (programUrls program))
    withProgram (["serve", own, "--cores", "1", "--proxy", "/app=" ++ at a ++ "," ++ at b, "--proxy", "/dead=http://127.0.0.1:1/"] ++ free) $ \front -> do
      let url path = at front ++ path
          get path = runTool "curl" ["-sS", "--max-time", "20", url path]
          gives path text = get path >>= \ended -> (endedCode ended, C.unpack (endedOut ended)) @?= (ExitSuccess, text)
      gives "/" "own"
      pages <- mapM (const (C.unpack . endedOut <$> get "/app/page")) [1 .. 6 :: Int]
      (length (filter (== "one") pages), length (filter (== "two") pages)) @?= (3, 3)
      refused <- runTool "curl" ["-sS", "-i", "--max-time", "20", url "/dead/x"]
      forM_ ["HTTP/1.1 502", "Retry-After: 1"] $ \part -> contains part (C.unpack (endedOut refused))
      signal front sigTERM
      ends front >>= (@?= ExitSuccess)

logged :: TestTree
logged = testCase "the log says which servers were asked, what they answered, and how long the request was" . withDirectory $ \d -> do
  B.writeFile (d </> "page") (C.pack "a page")
  withProgram (["serve", d] ++ free) $ \behind -> do
    let upstream = takeWhile (/= ' ') (head (programUrls behind))
        place = drop (length "http://") upstream
        dead = "127.0.0.1:1"
        log' = d </> "log"
        routes = ["--proxy", "/one=" ++ upstream, "--proxy", "/two=http://" ++ dead ++ "*1000," ++ upstream, "--proxy", "/dead=http://" ++ dead, "--fastcgi", "/fast=unix:" ++ d </> "none"]
        get path = "GET " ++ path ++ " HTTP/1.1\r\nHost: a\r\n\r\n"
        post fields = "POST /one/page HTTP/1.1\r\nHost: a\r\n" ++ fields ++ "\r\n\r\n"
        -- What is sent; the answer's status; what the log has; how many bytes are framing of chunks.
        requests =
          [ (get "/page", 200, "- -", 0),
            (get "/one/page", 200, place ++ " 200", 0),
            (get "/one/none", 404, place ++ " 404", 0),
            (get "/two/page", 200, dead ++ ", " ++ place ++ " 502, 200", 0),
            (get "/dead/page", 502, dead ++ " 502", 0),
            (get "/fast/page", 502, "- 502", 0),
            (post "Content-Length: 5" ++ "hello", 405, place ++ " 405", 0),
            (post "Transfer-Encoding: chunked" ++ "5\r\nhello\r\n0\r\n\r\n", 405, place ++ " 405", 10)
          ]
    withProgram (["serve", d, "--cores", "1", "--access-log", log', "--log-format", "$status $upstream_addr $upstream_status $request_length"] ++ routes ++ free) $ \front -> do
      forM_ requests $ \(bytes, code, _, _) -> withClient (addressOf front) $ \client -> do
        say client (C.pack bytes)
        hearAnswer client >>= (@?= code) . answerCode
      signal front sigTERM
      ends front >>= (@?= ExitSuccess)
    entries <- lines . C.unpack <$> B.readFile log'
    entries @?= [unwords [show code, expected, show (length bytes - framing)] | (bytes, code, expected, framing) <- requests]

alone :: TestTree
alone = testCase "without a directory, a route must answer for every path" . withDirectory $ \behind -> do
  B.writeFile (behind </> "page") (C.pack "behind")
  withProgram (["serve", behind] ++ free) $ \a -> do
    let upstream = takeWhile (/= ' ') (head (programUrls a))
    withProgram (["serve", "--cores", "1", "--proxy", "/=" ++ upstream, "--cgi", "/cgi=/bin/true"] ++ free) $ \front -> do
      programOut front >>= contains ("Serving / from " ++ drop 7 upstream ++ ", /cgi on http://")
      page <- runTool "curl" ["-sS", "--max-time", "20", head (programUrls front) ++ "/page"]
      (endedCode page, C.unpack (endedOut page)) @?= (ExitSuccess, "behind")
      signal front sigTERM
      ends front >>= (@?= ExitSuccess)
    forM_
      [ ([], "nothing is served at /"),
        (["--proxy", "/app=" ++ upstream], "nothing is served at /"),
        (["--fastcgi", "/*.php=127.0.0.1:1"], "nothing is served at /"),
        (["--proxy", "/=" ++ upstream, "--error-page", "404=missing.html"], "no directory is served"),
        (["--proxy", "/=" ++ upstream, "--spa"], "no directory is served")
      ]
      $ \(arguments, part) -> do
        ended <- runTool "heddle" (["serve"] ++ arguments ++ free)
        if endedCode ended == ExitFailure 2 then contains part (endedErr ended) else unexpected "exit code 2" (show ended)

wrong :: TestTree
wrong = testCase "what is not a URL, a network or a balance is refused" . withDirectory $ \d ->
  forM_ [(["--proxy", "/a=ftp://x"], "http://"), (["--proxy", "/a"], "PREFIX"), (["--trusted-proxy", "x"], "network"), (["--proxy-balance", "x"], "least"), (["--proxy-check", "x"], "slash"), (["--proxy-announce", "v3"], "v1")] $ \(arguments, part) -> do
    ended <- runTool "heddle" (["serve", d] ++ arguments)
    if endedCode ended == ExitFailure 2 then contains part (endedErr ended) else unexpected "exit code 2" (show ended)
