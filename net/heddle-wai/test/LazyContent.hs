{-# LANGUAGE OverloadedStrings #-}

-- | Content that comes into being while it is sent is garbage as soon as it was, whatever kind of response it is in.
module LazyContent (tests) where

import Data.ByteString.Builder (lazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Fixture
import Heddle.Testkit.LazyContent
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import System.Process (readProcess)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "lazyContentWasHeldWhole"
    [ testGroup version [testCase kind (passes flag made) | (kind, made) <- kinds]
      | (version, flag) <- [("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2-prior-knowledge")]
    ]

kinds :: [(String, L.ByteString -> Int -> Response)]
kinds =
  [ ("a lazy string", \content _ -> responseLBS status200 [] content),
    ("a lazy string with its length", \content n -> responseLBS status200 [(hContentLength, C.pack (show n))] content),
    ("a stream", \content _ -> responseStream status200 [] (\write _ -> mapM_ (write . lazyByteString . L.fromStrict) (L.toChunks content))),
    ("a stream with its length, by one builder", \content n -> responseStream status200 [(hContentLength, C.pack (show n))] (\write _ -> write (lazyByteString content)))
  ]

passes :: String -> (L.ByteString -> Int -> Response) -> IO ()
passes flag made = staysSmall $ \make n ->
  withHeddleSettings Heddle.defaultSettings (\_ respond -> make >>= \content -> respond (made content n)) $ \address -> do
    said <- readProcess "curl" ["-sS", flag, "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "http://" ++ show address ++ "/"] ""
    said @?= "200 " ++ show n
