{-# LANGUAGE OverloadedStrings #-}

-- | Against a server that is not ours, Python's; and the example of the documentation.
module ClientPeers
  ( tests,
  )
where

import ClientExample (download)
import ClientFixture
import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.List (isPrefixOf, stripPrefix)
import Data.Maybe (mapMaybe)
import Data.Unique (hashUnique, newUnique)
import EngineFixture (onBothBackends)
import Heddle.Http.Client
import Heddle.Testkit.Watchdog
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.IO (hGetLine)
import System.Posix.Process (getProcessID)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testGroup "peers and examples" [example, python]

example :: TestTree
example = testCase "the example of the documentation" $ do
  shown <- lines <$> readFile "src/Heddle/Http/Client.hs"
  run <- lines <$> readFile "test/ClientExample.hs"
  let documented = mapMaybe (stripPrefix "-- > ") shown
  documented @?= dropWhile (not . isPrefixOf "download ::") run
  withScripted (\_ peer -> hearHead peer >> tell peer (simple "hello")) $ \origin ->
    withClient defaultClientSettings $ \client ->
      download client (C.pack (renderOrigin origin) <> "/") >>= (@?= "hello")

python :: TestTree
python = onBothBackends "Python's http.server" $ \backend ->
  [ testCase ("files, a directory, what is not there; " ++ version) . withPython version $ \origin content ->
      withPatient backend patient {clientLimits = limitsOfPython} $ \client ->
        forM_ [1 .. 3 :: Int] $ \_ -> do
          whole <- fetch client (get origin "/file.txt") 10000000
          (statusCode (fetchedStatus whole), fetchedContent whole) @?= (200, content)
          bare <- fetch client (requestTo "HEAD" origin "/file.txt") 0
          (statusCode (fetchedStatus bare), fetchedContent bare) @?= (200, "")
          listing <- fetch client (get origin "/") 100000
          B.isInfixOf "file.txt" (fetchedContent listing) @?= True
          missing <- fetch client (get origin "/missing") 100000
          statusCode (fetchedStatus missing) @?= 404
          refused <- fetch client (requestTo "POST" origin "/") {requestBody = BodyBytes "x"} 100000
          statusCode (fetchedStatus refused) @?= 501
    | version <- ["HTTP/1.0", "HTTP/1.1"]
  ]
  where
    limitsOfPython = clientLimits defaultClientSettings

-- A directory with one file, served on a free port.
withPython :: String -> (Origin -> B.ByteString -> IO a) -> IO a
withPython version body = do
  temporary <- getTemporaryDirectory
  process <- getProcessID
  unique <- newUnique
  let directory = temporary ++ "/heddle-client-python-" ++ show process ++ "-" ++ show (hashUnique unique)
      content = C.pack (concatMap show [1 .. 200000 :: Int])
  bracket (directory <$ createDirectory directory) removeDirectoryRecursive $ \_ -> do
    B.writeFile (directory ++ "/file.txt") content
    bracket (start directory) stop $ \(_, out, _, _) -> case out of
      Nothing -> unexpected "Python's output" "none"
      Just handle -> do
        line <- patiently "Python to listen" (hGetLine handle)
        body (Origin False (Tcp "127.0.0.1" (read (takeWhile isDigit line)))) content
  where
    start directory =
      createProcess
        (proc "python3" ["-c", program, directory, version])
          { std_out = CreatePipe,
            std_err = NoStream,
            close_fds = True
          }
    stop handles@(_, _, _, process) = do
      terminateProcess process
      _ <- waitForProcess process
      cleanupProcess handles
    program =
      unlines
        [ "import sys, functools, http.server",
          "class H(http.server.SimpleHTTPRequestHandler):",
          "    protocol_version = sys.argv[2]",
          "    def log_message(self, *a): pass",
          "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(H, directory=sys.argv[1]))",
          "print(s.server_address[1], flush=True)",
          "s.serve_forever()"
        ]
