{-# LANGUAGE OverloadedStrings #-}

-- | Autobahn's cases against our echo server and our echo client, strictly. HEDDLE_NIGHTLY adds the groups with large messages.
module Main (main) where

import Control.Monad (forM_, forever, void)
import Data.ByteString.Char8 qualified as C
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Http
import Heddle.IO (Runtime, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (catch)
import Heddle.Testkit.Autobahn
import Heddle.Testkit.Needing
import Heddle.WebSocket
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Environment (lookupEnv, setEnv)
import Test.Tasty
import Test.Tasty.HUnit

main :: IO ()
main = do
  groups <- maybe quickCases (const everyCase) <$> lookupEnv "HEDDLE_NIGHTLY"
  server <- needing "kosoku" "the server" (\kosoku -> serving (againstServer kosoku groups) >>= passed)
  -- kosoku's server has no cases of the ninth group.
  client <- needing "kosoku" "the client" (\kosoku -> againstClient kosoku (filter (/= "9.*") groups) asking >>= passed)
  -- One after the other: some have time limits.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain (testGroup "Autobahn's cases" [server, client])

passed :: [Verdict] -> Assertion
passed verdicts = do
  assertBool ("there are 247 cases or more, not " ++ show (length verdicts `quot` 2)) (length verdicts >= 2 * 247)
  refusals verdicts @?= []

options :: WebSocketOptions
options = defaultWebSocketOptions {optionMessageLimit = 67108864, optionDeflate = Just (DeflateOptions 6 0), optionClose = seconds 3}

echo :: Connection -> IO ()
echo conn = forever $ do
  message <- receive conn
  case message of
    TextMessage text -> sendText conn text
    BinaryMessage bytes -> sendBinary conn bytes

serving :: (String -> IO a) -> IO a
serving body =
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServer runtime defaultSettings (\_ -> pure (websocket options echo, Nothing)) [listener] $ \_ ->
        body (show (listenerAddress listener))

asking :: String -> IO ()
asking address = withRuntime defaultConfig $ \runtime -> do
  count <- ask runtime "/getCaseCount" $ \conn ->
    receive conn >>= \case
      TextMessage text -> pure (maybe 0 fst (C.readInt (Utf8.toByteString text)))
      BinaryMessage _ -> pure 0
  forM_ [1 .. count :: Int] $ \i ->
    ask runtime ("/runCase?case=" ++ show i ++ "&agent=heddle") echo `catch` \(_ :: WebSocketException) -> pure ()
  ask runtime "/updateReports?agent=heddle" (void . receive) `catch` \(_ :: WebSocketException) -> pure ()
  where
    ask :: Runtime -> String -> (Connection -> IO a) -> IO a
    ask runtime path = withWebSocket options runtime ("ws://" ++ address ++ path) []
