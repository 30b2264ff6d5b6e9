{-# LANGUAGE OverloadedStrings #-}

-- | The to-do list: its API, and its WebSocket.
module TodoTest
  ( tests,
  )
where

import Control.Exception (try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.List (isInfixOf)
import Network.HTTP.Client hiding (path, port)
import Network.HTTP.Types (statusCode)
import Network.Wai.Handler.Heddle (withApplication)
import Network.WebSockets qualified as Sockets
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
          other -> assertFailure (show other)
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
