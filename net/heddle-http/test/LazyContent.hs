{-# LANGUAGE OverloadedStrings #-}

-- | Content that comes into being while it is sent is garbage as soon as it was, whatever kind of reply it is in.
module LazyContent (tests) where

import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import EngineFixture
import H2Fixture (portOf, program)
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.LazyContent
import Test.Tasty
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "lazyContentWasHeldWhole"
    [ testGroup
        version
        [testCase (kind ++ way) (passes flag send made) | (kind, made) <- kinds, (way, send) <- ways]
      | (version, flag) <- [("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2-prior-knowledge")]
    ]
  where
    ways =
      [ ("", \_ reply -> pure reply),
        (", while the handler runs", \request reply -> replyNow request reply >> pure (Replied status200))
      ]

kinds :: [(String, L.ByteString -> Int -> Reply)]
kinds =
  [ ("Built", \content _ -> Built status200 [] (Builder.lazyByteString content)),
    ("BuiltOf", \content n -> BuiltOf status200 [] n (Builder.lazyByteString content)),
    ("Stream, piece by piece", \content _ -> Stream status200 [] (\w -> mapM_ (writerPut w) (L.toChunks content))),
    ("Stream, by a builder", \content _ -> Stream status200 [] (\w -> writerBuild w (Builder.lazyByteString content))),
    ("StreamOf", \content n -> StreamOf status200 [] n (\w -> mapM_ (writerPut w) (L.toChunks content)))
  ]

passes :: String -> (Request -> Reply -> IO Reply) -> (L.ByteString -> Int -> Reply) -> IO ()
passes flag send made = staysSmall $ \make n ->
  withEngine Epoll tight (\request -> make >>= \content -> send request (made content n)) $ \engine -> do
    said <- program "curl" ["-s", "-S", flag, "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "http://127.0.0.1:" ++ show (portOf (engineAddress engine)) ++ "/"]
    C.pack said @?= C.pack ("200 " ++ show n)
    failuresAre engine []
