{-# LANGUAGE OverloadedStrings #-}

-- | wai-websockets on raw responses, with the websockets library as the client.
module Sockets (tests, conformance) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (forM, forM_, forever, void, (<=<))
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Data.Text (Text)
import Data.Text qualified as Text
import Heddle.Testkit.Autobahn
import Heddle.Testkit.Needing
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Network.Wai.Handler.Warp qualified as Warp
import Network.Wai.Handler.WebSockets (websocketsOr)
import Network.WebSockets
import Servers
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "wai-websockets"
    [ testCase "echo, to a hundred clients at once" . serving echoing $ \port -> do
        dones <- forM [1 .. 100 :: Int] $ \n -> do
          done <- newEmptyMVar
          _ <- forkIO . (putMVar done <=< try) . runClient "127.0.0.1" port "/" $ \connection -> do
            forM_ [1 .. 20 :: Int] $ \k -> do
              let message = Text.pack (show (n, k))
              sendTextData connection message
              receiveData connection >>= (@?= message)
            sendBinaryData connection (L.replicate 100000 7)
            receiveData connection >>= (@?= L.replicate 100000 7)
            sendClose connection ("bye" :: Text)
          pure done
        forM_ dones $ \done -> patiently "a client" (takeMVar done) >>= either (\(e :: SomeException) -> throwIO e) pure,
      testCase "several threads of the application send on one socket" . serving chatty $ \port ->
        runClient "127.0.0.1" port "/" $ \connection -> do
          got <- patiently "80 messages" (forM [1 .. 80 :: Int] (\_ -> receiveData connection))
          length (filter (== ("tick" :: Text)) got) @?= 80,
      testCase "what is no WebSocket goes to the application" $
        withBoth (pure (websocketsOr defaultConnectionOptions echoing backup)) $ \ask -> do
          ask "GET" "/" [] "" >>= says 200 "backup"
          ask "GET" "/again" [] "" >>= says 200 "backup",
      testCase "a handler that fails ends its connection, is reported once, and no 500 is sent into it" $ do
        heard <- newIORef (0 :: Int)
        let settings = Heddle.setOnException (\_ _ -> atomicModifyIORef' heard (\n -> (n + 1, ()))) Heddle.defaultSettings
            failing pending = do
              connection <- acceptRequest pending
              sendTextData connection ("first" :: Text)
              void (throwIO (userError "in a socket"))
        Heddle.withApplicationSettings settings (pure (websocketsOr defaultConnectionOptions failing backup)) $ \port -> do
          r <- try . runClient "127.0.0.1" port "/" $ \connection -> do
            first <- receiveData connection
            first @?= ("first" :: Text)
            receiveData connection :: IO Text
          case r of
            Left (_ :: ConnectionException) -> pure ()
            Right more -> assertFailure (show more)
          eventually "one report" (readIORef heard) (== 1) >>= (@?= 1)
    ]
  where
    serving application = Heddle.withApplication (pure (websocketsOr defaultConnectionOptions application backup))

-- | Autobahn's cases. The websockets library is not strict in all of them, on any server.
conformance :: IO TestTree
conformance = needing "kosoku" "Autobahn's cases: what wai-websockets passes on Warp it passes here" $ \kosoku -> do
  let cases port = againstServer kosoku quickCases ("127.0.0.1:" ++ show port)
      application = pure (websocketsOr defaultConnectionOptions echoing backup)
  ours <- Heddle.withApplication application cases
  warps <- Warp.testWithApplication application cases
  assertBool ("there are 247 cases, not " ++ show (length ours `quot` 2)) (length ours >= 2 * 247)
  map verdictCase ours @?= map verdictCase warps
  [v | v <- refusals ours, v `notElem` warps] @?= []

echoing, chatty :: ServerApp
echoing pending = do
  connection <- acceptRequest pending
  -- Ends when the client closes.
  r <- try (forever (receiveDataMessage connection >>= sendDataMessage connection))
  case r of
    Left (_ :: ConnectionException) -> pure ()
    Right () -> pure ()
chatty pending = do
  connection <- acceptRequest pending
  dones <- forM [1 .. 8 :: Int] $ \_ -> do
    done <- newEmptyMVar
    done <$ forkIO (forM_ [1 .. 10 :: Int] (\_ -> sendTextData connection ("tick" :: Text)) >> putMVar done ())
  mapM_ takeMVar dones
  _ <- try (receiveDataMessage connection) :: IO (Either ConnectionException DataMessage)
  pure ()

backup :: Application
backup _ respond = respond (responseLBS status200 [] "backup")
