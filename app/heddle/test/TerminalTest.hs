{-# LANGUAGE OverloadedStrings #-}

-- | What requests look like: formats of the log, and the terminal.
module TerminalTest (tests) where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "formats and the terminal"
    [ testCase "--log-format json: each line is an object, whatever clients send" $
        withDirectory $ \d -> do
          let path = d </> "log"
          B.writeFile (d </> "a.txt") "hello"
          withProgram (["serve", d, "--cores", "1", "--log-format", "json", "--access-log", path] ++ free) $ \program -> do
            asking (addressOf program) "GET /a.txt?x=\"\\ HTTP/1.1\r\nHost: h\r\nUser-Agent: a\"b\\c\233\tx\r\nReferer: https://r.example/\r\n\r\n" 200
            asking (addressOf program) (B.concat ["GET /", C.replicate 6000 '"', " HTTP/1.1\r\nHost: h\r\n\r\n"]) 404
            asking (addressOf program) (B.concat ["GET /long HTTP/1.1\r\nHost: h\r\nReferer: ", C.replicate 3000 '\233', "\r\nUser-Agent: ", C.replicate 3000 '\1', "\r\n\r\n"]) 400
            asking (addressOf program) "nonsense \"\\\200\r\n\r\n" 400
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          ended <- runTool "python3" ["-c", script, path]
          endedErr ended @?= ""
          lines (C.unpack (endedOut ended)) @?= ["GET /a.txt?x=\"\\ HTTP/1.1 200 5 h https://r.example/ a\"b\\c\195\169\tx", "4", "True"],
      testCase "--log-format common: as combined, without Referer and User-Agent" $
        withDirectory $ \d -> do
          let path = d </> "log"
          withProgram (["serve", d, "--log-format", "common", "--access-log", path] ++ free) $ \program -> do
            asking (addressOf program) "GET /x HTTP/1.1\r\nHost: h\r\nUser-Agent: agent\r\n\r\n" 404
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          line <- C.unpack <$> B.readFile path
          assertBool line (" \"GET /x HTTP/1.1\" 404 " `isInfixOf` line && not ("agent" `isInfixOf` line) && last (words line) /= "-"),
      testCase "--log pretty in a pipe: a line per request, without colours; beside an access log" $
        withDirectory $ \d -> do
          B.writeFile (d </> "a.txt") "hello"
          withProgram (["serve", d, "--log", "pretty", "--access-log", d </> "log"] ++ free) $ \program -> do
            asking (addressOf program) "GET /a.txt?q=\ESC[31m HTTP/1.1\r\nHost: h\r\n\r\n" 400
            asking (addressOf program) "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n" 200
            said <- eventually "the second request" (programOut program) ("200      5 B " `isInfixOf`)
            contains "GET /a.txt" said
            assertBool said (not ("\ESC" `isInfixOf` said))
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          logged <- B.readFile (d </> "log")
          assertBool (show logged) ("GET /a.txt HTTP/1.1" `B.isInfixOf` logged),
      testCase "in a pipe, without --log: no requests are shown, and nothing is updated in place" $
        withDirectory $ \d -> withProgram (["serve", d] ++ free) $ \program -> do
          asking (addressOf program) "GET /a HTTP/1.1\r\nHost: h\r\n\r\n" 404
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
          said <- programOut program
          length (lines said) @?= 3
          assertBool said (not (any (`isInfixOf` said) ["\ESC", "\r", "GET"])),
      testCase "on a terminal: a line of traffic, cleared before the next message" $
        onTerminal [] [] $ \program -> do
          began <- programOut program
          assertBool began (not ("requests/s" `isInfixOf` began))
          forM_ [1 :: Int .. 3] $ \_ -> asking (addressOf program) "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" 404
          _ <- eventually "the traffic" (programOut program) ("| 3 requests | 3 errors | " `isInfixOf`)
          endsAll program
          said <- programOut program
          assertBool said ("\r\ESC[KStopping; " `isInfixOf` said),
      testCase "on a terminal with --log pretty: colours, unless NO_COLOR is set; with quiet neither" $ do
        onTerminal [] ["--log", "pretty"] $ \program -> do
          asking (addressOf program) "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" 404
          said <- eventually "the request" (programOut program) ("GET /nothing" `isInfixOf`)
          contains "\ESC[0;33m404" said
          assertBool said (not ("requests/s" `isInfixOf` said))
        onTerminal [("NO_COLOR", "1")] ["--log", "pretty"] $ \program -> do
          asking (addressOf program) "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" 404
          said <- eventually "the request" (programOut program) ("GET /nothing" `isInfixOf`)
          assertBool said (not ("\ESC" `isInfixOf` said))
        onTerminal [] ["--log", "quiet"] $ \program -> do
          asking (addressOf program) "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" 404
          endsAll program
          said <- programOut program
          assertBool said (not (any (`isInfixOf` said) ["requests", "GET", "\ESC"]))
    ]
  where
    script =
      "import json,sys\n"
        ++ "ls=[json.loads(l) for l in open(sys.argv[1])]\n"
        ++ "a=[x for x in ls if x.get('target','').startswith('/a.txt')][0]\n"
        ++ "print(a['method'],a['target'],a['protocol'],a['status'],a['bytes'],a['host'],a['referer'],a['user_agent'])\n"
        ++ "print(len(ls))\n"
        ++ "print(all(x['client']=='127.0.0.1' and x['time'][10]=='T' and x['duration_us']>=0 for x in ls) and any('garbage' in x for x in ls))\n"

asking :: SockAddr -> ByteString -> Int -> IO ()
asking address request code = withClient address $ \client -> do
  say client request
  answer <- hearAnswer client
  answerCode answer @?= code

-- The program on a terminal of its own, which script(1) makes.
onTerminal :: [(String, String)] -> [String] -> (Program -> IO a) -> IO a
onTerminal changes more act = withDirectory $ \d ->
  withProgramIn (changes ++ [("TERM", "xterm")] ++ [("NO_COLOR", "") | null changes]) ("/usr/bin/script", ["-qfec", unwords (["exec heddle serve", d, "--cores", "1"] ++ free ++ more), "/dev/null"]) act

-- Stop the server that script(1) runs, and wait for both.
endsAll :: Program -> IO ()
endsAll program = do
  child <- runTool "pgrep" ["-P", show (programPid program)]
  forM_ (lines (C.unpack (endedOut child))) $ \pid -> signalProcess sigTERM (read pid)
  void (ends program)
