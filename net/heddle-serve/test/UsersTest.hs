{-# LANGUAGE OverloadedStrings #-}

-- | Passwords that are checked while others wait.
module UsersTest (tests) where

import Control.Concurrent.MVar
import Control.Monad (forM, forM_, replicateM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (sort)
import Heddle.Gateway.Proxy (parseNetwork)
import Heddle.Http
import Heddle.IO (defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import SiteFixture (withDirectory)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testGroup "users" [testCase "knownPasswordWaitedBehindWrongOnes: on another core, and one client's do not fill the queue" known]

known :: IO ()
known = do
  -- A comparison of a wrong password takes until the gate lets it pass.
  gate <- newEmptyMVar
  let comparing' password _ = if password == "right" then pure True else False <$ takeMVar gate
  serving comparing' $ \address -> do
    ask address "/one" "203.0.113.1" right >>= (@?= 200)
    -- The other core's queue has room for 8 of a client; the others are answered at once.
    codes <- newIORef []
    let wrong who = forkTask (ask address "/two" who "YW5uOndyb25n" >>= \code -> atomicModifyIORef' codes (\cs -> (code : cs, ())))
    crowd <- forM [1 .. 30 :: Int] (const (wrong "203.0.113.1"))
    _ <- eventually "the refusals" (readIORef codes) (== replicate 22 503)
    -- What was right on one core is known on the other one, and waits for nothing.
    forM_ ["203.0.113.1", "203.0.113.2"] $ \who -> ask address "/two" who right >>= (@?= 200)
    -- Other clients still find places.
    others <- forM [2 .. 5 :: Int] (\n -> wrong ("203.0.113." <> C.pack (show n)))
    replicateM_ 12 (patiently "a comparison" (putMVar gate ()))
    forM_ (crowd ++ others) joinTask
    readIORef codes >>= (@?= replicate 12 401 ++ replicate 22 503) . sort
  where
    -- ann:right
    right = "YW5uOnJpZ2h0"
    ask address path who credentials = withClient address $ \client -> do
      say client (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ", who, "\r\nAuthorization: Basic ", credentials, "\r\n\r\n"])
      answerCode <$> hearAnswer client

-- A server with two cores' checks, which the path chooses between.
serving :: (ByteString -> ByteString -> IO Bool) -> (SockAddr -> IO a) -> IO a
serving comparing' body = withDirectory $ \d -> do
  hash <- hashPassword 4 "right" >>= maybe (unexpected "a hash" "nothing") pure
  let path = d </> "users"
  B.writeFile path ("ann:" <> hash <> "\n")
  users <- openUsers (C.pack path) (const (pure ())) >>= either fail pure
  one <- newCheckingBy comparing'
  two <- newCheckingBy comparing'
  trusted <- either fail pure (parseNetwork "127.0.0.1")
  let handler request = do
        asked <- rawPath request
        guarded [trusted] users (if asked == "/one" then one else two) (\_ reply -> pure reply) (\_ _ -> pure (Whole status200 [] "")) request
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServer runtime defaultSettings (\_ -> pure (handler, Nothing)) [listener] $ \server -> do
        r <- body (listenerAddress listener)
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        pure r
