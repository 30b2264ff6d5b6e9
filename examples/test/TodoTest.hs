{-# LANGUAGE OverloadedStrings #-}

-- | The to-do list: its API, and its WebSocket.
module TodoTest
  ( tests,
  )
where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, finally, try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.List (isInfixOf)
import Heddle.Tls (selfSigned)
import Network.HTTP.Client (RequestBody (..), defaultManagerSettings, httpLbs, method, newManager, parseRequest, requestBody, responseBody, responseStatus)
import Network.HTTP.Types (hContentType, http20, status200, status204, statusCode)
import Network.Socket (close)
import Network.Wai (httpVersion, isSecure, pathInfo, rawQueryString, responseLBS)
import Network.Wai.Handler.Heddle (defaultSettings, openFreePort, withApplication)
import Network.Wai.Handler.HeddleTLS (runTLSSocket, tlsSettingsMemory)
import Network.WebSockets qualified as Sockets
import System.Directory (getTemporaryDirectory, removePathForcibly)
import System.FilePath ((</>))
import System.IO (IOMode (WriteMode), withFile)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL, signalProcessGroup)
import System.Process (CreateProcess (..), StdStream (UseHandle), getPid, proc, withCreateProcess)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Todo (newTodo)

tests :: TestTree
tests =
  testGroup
    "to-do list"
    [ testCase "the page" . serving $ \ask _ -> do
        (code, page) <- ask "GET" "/" ""
        code @?= 200
        assertBool "a title" ("<title>To do</title>" `isInfixOf` show page),
      testCase "items" . serving $ \ask _ -> do
        ask "GET" "/api/items" "" >>= (@?= (200, "[]"))
        ask "POST" "/api/items" "{\"text\":\"buy milk\"}" >>= (@?= (201, "{\"done\":false,\"id\":1,\"text\":\"buy milk\"}"))
        ask "POST" "/api/items" "{\"text\":\"\"}" >>= (@?= (201, "{\"done\":false,\"id\":2,\"text\":\"\"}"))
        ask "PUT" "/api/items/1" "{\"done\":true}" >>= (@?= (204, ""))
        ask "DELETE" "/api/items/2" "" >>= (@?= (204, ""))
        ask "GET" "/api/items" "" >>= (@?= (200, "[{\"done\":true,\"id\":1,\"text\":\"buy milk\"}]")),
      testCase "refusals" . serving $ \ask _ ->
        forM_
          [ ("POST", "/api/items", "{", 400),
            ("POST", "/api/items", "{\"txt\":1}", 400),
            ("POST", "/api/items", C.concat ["{\"text\":\"", C.replicate 20000 'a', "\"}"], 400),
            ("PUT", "/api/items/9", "{}", 404),
            ("PUT", "/api/items/1x", "{}", 404),
            ("DELETE", "/api/items/-1", "", 404),
            ("PATCH", "/api/items", "", 405),
            ("POST", "/", "", 405),
            ("GET", "/else", "", 404)
          ]
          $ \(verb, path, body, code) -> ask verb path body >>= (@?= code) . fst,
      testCase "every page sees every change" . serving $ \ask port ->
        patiently . Sockets.runClient "127.0.0.1" port "/live" $ \one ->
          Sockets.runClient "127.0.0.1" port "/live" $ \other -> do
            both one other "[]"
            _ <- ask "POST" "/api/items" "{\"text\":\"x\"}"
            both one other "[{\"done\":false,\"id\":1,\"text\":\"x\"}]"
            _ <- ask "DELETE" "/api/items/1" ""
            both one other "[]"
            Sockets.sendClose one ("" :: L.ByteString)
            _ <- ask "POST" "/api/items" "{\"text\":\"y\"}"
            hears other "[{\"done\":false,\"id\":2,\"text\":\"y\"}]",
      testCase "a WebSocket elsewhere is refused" . serving $ \_ port -> do
        r <- patiently (try (Sockets.runClient "127.0.0.1" port "/else" (\_ -> pure ())))
        case r of
          Left (Sockets.MalformedResponse head' _) -> Sockets.responseCode head' @?= 400
          other -> assertFailure (show other),
      testCase "Chromium by https: the page by HTTP/2, its WebSocket, and what it changes" chromium
    ]
  where
    both one other expected = hears one expected >> hears other expected
    hears socket expected = Sockets.receiveData socket >>= (@?= (expected :: L.ByteString))

type Ask = ByteString -> String -> ByteString -> IO (Int, L.ByteString)

serving :: (Ask -> Int -> IO a) -> IO a
serving act = withApplication newTodo $ \port -> do
  manager <- newManager defaultManagerSettings
  let ask verb path body = do
        request <- parseRequest ("http://127.0.0.1:" ++ show port ++ path)
        answer <- patiently (httpLbs request {method = verb, requestBody = RequestBodyBS body} manager)
        pure (statusCode (responseStatus answer), responseBody answer)
  act ask port

patiently :: IO a -> IO a
patiently act = timeout 20000000 act >>= maybe (assertFailure "nothing in 20 seconds") pure

-- The page itself, with a script after it: that adds an item when the page says that its WebSocket is open, and
-- reports when the page shows it, which only the WebSocket can have told it.
chromium :: IO ()
chromium = do
  directory <- getTemporaryDirectory
  pid <- getProcessID
  todo <- newTodo
  page <- newEmptyMVar
  serving $ \ask _ -> ask "GET" "/" "" >>= putMVar page . snd
  watched <- (<> watching) <$> takeMVar page
  reported <- newEmptyMVar
  (certificate, key) <- selfSigned ["localhost"]
  let profile = directory </> "heddle-todo-test-" ++ show pid
      application request respond = case pathInfo request of
        ["watched"] -> respond (responseLBS status200 [(hContentType, "text/html; charset=utf-8")] watched)
        ["report"] -> do
          putMVar reported (isSecure request, httpVersion request, rawQueryString request)
          respond (responseLBS status204 [] "")
        _ -> todo request respond
      -- Chromium ends itself if its output is closed, and it has many processes, which must not write to the profile any more
      -- when it is removed.
      browse port = withFile "/dev/null" WriteMode $ \nowhere ->
        withCreateProcess (browser profile port) {std_out = UseHandle nowhere, std_err = UseHandle nowhere, create_group = True} $ \_ _ _ process ->
          timeout 60000000 (takeMVar reported) `finally` (getPid process >>= mapM_ (signalProcessGroup sigKILL))
  bracket openFreePort (close . snd) $ \(port, socket) ->
    bracket (forkIO (runTLSSocket (tlsSettingsMemory certificate key) defaultSettings socket application)) killThread $ \_ -> do
      seen <- browse port `finally` removePathForcibly profile
      seen @?= Just (True, http20, "?text=from%20the%20page&state=live&protocol=h2")
  where
    browser profile port =
      proc "chromium" ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors", "--user-data-dir=" ++ profile, "--remote-debugging-port=0", "https://localhost:" ++ show port ++ "/watched"]

watching :: L.ByteString
watching =
  "<script>\n\
  \  let asked = false\n\
  \  new MutationObserver(() => {\n\
  \    if (!asked && state.textContent === 'live') { asked = true; ask('POST', '', { text: 'from the page' }) }\n\
  \    const text = list.querySelector('li span')?.textContent\n\
  \    const protocol = performance.getEntriesByType('navigation')[0].nextHopProtocol\n\
  \    if (text) fetch(`/report?text=${encodeURIComponent(text)}&state=${state.textContent}&protocol=${protocol}`)\n\
  \  }).observe(document.body, { childList: true, subtree: true })\n\
  \</script>\n"
