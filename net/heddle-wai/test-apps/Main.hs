{-# LANGUAGE OverloadedStrings #-}

-- | Real applications and middlewares from Debian, unchanged: each conversation is held with the application
-- on Heddle and on Warp, by http-client, and both must say the same, which is also what is expected.
module Main (main) where

import Apps.Scotty qualified
import Apps.Servant qualified
import Apps.Yesod qualified
import Control.Exception (bracket)
import Control.Monad (void)
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Heddle.Testkit.Descriptors
import Heddle.Testkit.Watchdog (eventually)
import Middlewares qualified
import Servers
import Sockets qualified
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive, removeFile)
import System.Environment (setEnv)
import System.IO (hClose, openTempFile)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit

main :: IO ()
main = do
  -- One after the other: what is left is looked for at the end.
  setEnv "TASTY_NUM_THREADS" "1"
  before <- openDescriptors
  conformance <- Sockets.conformance
  withFolder $ \folder -> do
    C.writeFile (folder ++ "/file") "abcdefghij"
    C.writeFile (folder ++ "/page.html") (C.concat (replicate 2000 "<p>page</p>"))
    defaultMain $
      testGroup
        "applications on heddle-wai"
        [ scotty (folder ++ "/file"),
          servant folder,
          yesod folder,
          Middlewares.tests folder,
          Sockets.tests,
          conformance,
          -- Last: tests run one after the other. http-client's pools end when they are collected.
          testCase "no descriptor is left" . void $ eventually "no more descriptors" (performMajorGC >> openDescriptors) ((<= length before) . length)
        ]

scotty :: FilePath -> TestTree
scotty file = testCase "Scotty" . withBoth (Apps.Scotty.application file) $ \ask -> do
  ask "GET" "/hello/world" [] "" >>= says 200 "<h1>Hello, world</h1>"
  ask "HEAD" "/hello/world" [] "" >>= says 404 ""
  ask "POST" "/form" [form] "a=x%20y&b=z" >>= says 200 "X Yz"
  ask "POST" "/json" [json] "[1,2,3]" >>= says 200 "6"
  ask "POST" "/json" [json] "[1,2" >>= hasCode 400
  ask "PUT" "/count" [] "" >>= says 201 "1"
  ask "PUT" "/count" [] "" >>= says 201 "2"
  ask "GET" "/file" [] "" >>= says 200 "abcdefghij"
  ask "GET" "/file" [("Range", "bytes=2-3")] "" >>= says 206 "cd"
  ask "GET" "/teapot" [] "" >>= says 418 "short and stout"
  ask "GET" "/moved" [] "" >>= says 200 "<h1>Hello, there</h1>"
  ask "GET" "/error" [] "" >>= hasCode 500
  ask "BREW" "/any" [] "" >>= says 200 "any"
  ask "GET" "/nowhere" [] "" >>= says 404 "nothing here"

servant :: FilePath -> TestTree
servant folder = testCase "Servant" . withBoth (pure (Apps.Servant.application folder)) $ \ask -> do
  ask "GET" "/add/2/3" [] "" >>= says 200 "5"
  ask "HEAD" "/add/2/3" [] "" >>= says 200 ""
  ask "GET" "/add/2/x" [] "" >>= hasCode 400
  ask "POST" "/flip" [json] "{\"x\":1,\"y\":2}" >>= says 200 "{\"x\":2,\"y\":1}"
  ask "POST" "/flip" [json] "{" >>= hasCode 400
  ask "POST" "/flip" [("Content-Type", "text/x")] "{}" >>= hasCode 415
  ask "PUT" "/flip" [] "" >>= hasCode 405
  greeting <- ask "GET" "/greet?name=ann" [("X-Loud", "1")] ""
  says 200 "HELLO ANN" greeting
  header' "X-Length" greeting @?= Just "9"
  ask "GET" "/refuse" [] "" >>= says 409 "refused"
  ask "GET" "/stream" [] "" >>= says 200 (C.concat [C.pack (show n ++ "\n") | n <- [1 :: Int .. 1000]])
  ask "DELETE" "/gone" [] "" >>= says 204 ""
  refused <- ask "GET" "/secret" [] ""
  hasCode 401 refused
  header' "WWW-Authenticate" refused @?= Just "Basic realm=\"realm\""
  ask "GET" "/secret" [("Authorization", "Basic YW5uOnNlY3JldA==")] "" >>= says 200 "ann's"
  ask "GET" "/static/file" [] "" >>= says 200 "abcdefghij"
  ask "GET" "/static/none" [] "" >>= hasCode 404

yesod :: FilePath -> TestTree
yesod folder = testCase "Yesod" . withBoth (Apps.Yesod.application folder) $ \ask -> do
  ask "GET" "/" [] "" >>= contains 200 "<p>Home of Yesod"
  -- Sessions: the client keeps the cookie.
  first <- ask "GET" "/count" [] ""
  says 200 "1" first
  let cookie = cookieOf first
  second <- ask "GET" "/count" [("Cookie", cookie)] ""
  says 200 "2" second
  ask "GET" "/count" [] "" >>= says 200 "1"
  -- Forms: the token is in the page, and in the session.
  page <- ask "GET" "/form" [] ""
  contains 200 "name=\"_token\"" page
  let session = cookieOf page
      token = between "name=\"_token\" value=\"" "\"" (body page)
      filled = C.concat ["_token=", token, "&f1=Ann&f2=", "42"]
  ask "POST" "/form" [form, ("Cookie", session)] filled >>= contains 200 "Ann is 42"
  ask "POST" "/form" [form, ("Cookie", session)] (C.concat ["_token=", token, "&f1=&f2=x"]) >>= hasCode 400
  ask "POST" "/upload" [("Content-Type", "multipart/form-data; boundary=b")] "--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\ncontent\r\n--b--\r\n"
    >>= says 200 "([(\"k\",\"v\")],[\"f\"],[\"content\"])"
  ask "PUT" "/json" [json] "[1,2,3]" >>= contains 200 "6"
  ask "GET" "/missing" [] "" >>= hasCode 404
  ask "GET" "/fail" [] "" >>= hasCode 500
  ask "POST" "/" [] "" >>= hasCode 405
  ask "GET" "/send" [] "" >>= says 200 "abcdefghij"
  ask "GET" "/source" [] "" >>= says 200 (C.concat [C.pack (show n ++ "\n") | n <- [1 :: Int .. 100]])
  static' <- ask "GET" "/static/file" [] ""
  says 200 "abcdefghij" static'
  ask "GET" "/static/file" [("If-None-Match", fromMaybe "none" (header' "ETag" static'))] "" >>= says 304 ""
  where
    cookieOf = C.takeWhile (/= ';') . fromMaybe "none" . header' "Set-Cookie"

withFolder :: (FilePath -> IO a) -> IO a
withFolder = bracket make removeDirectoryRecursive
  where
    make = do
      temporary <- getTemporaryDirectory
      (name, handle) <- openTempFile temporary "heddle-wai-apps"
      hClose handle
      removeFile name
      name <$ createDirectory name
