{-# LANGUAGE OverloadedStrings #-}

-- | The body of a request that comes into being while it is sent is garbage as soon as it was.
module ClientLazyBodies (tests) where

import ClientFixture
import Data.ByteString qualified as B
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import EngineFixture (Engine (..), tight, withEngine)
import Heddle.Http (Reply (..), Request, Settings (..), defaultSettings, readBody, status200)
import Heddle.Http.Client
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.LazyContent
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "lazyRequestBodyWasHeldWhole"
    [ testCase (kind ++ how) (passes asked made)
      | (kind, made) <- kinds,
        (how, asked) <-
          [ ("", \client request -> fetchedContent <$> fetch client request 100),
            (", expecting 100 Continue", \client request -> fetchedContent <$> fetch client request {requestExpect = True} 100),
            (", and the response read by hand", \client request -> withResponse client request (`readWholeResponse` 100)),
            (", following redirections", \client request -> fetchedContent . snd <$> fetchFollowing client 3 request 100)
          ]
    ]

kinds :: [(String, L.ByteString -> Int -> RequestBody)]
kinds =
  [ ("in chunks, piece by piece", \content _ -> BodyChunked (\w -> mapM_ (writerPut w) (L.toChunks content))),
    ("in chunks, by a builder", \content _ -> BodyChunked (\w -> writerBuild w (Builder.lazyByteString content))),
    ("of a length", \content n -> BodySized n (\w -> mapM_ (writerPut w) (L.toChunks content))),
    ("of a length, by a builder", \content n -> BodySized n (\w -> writerBuild w (Builder.lazyByteString content)))
  ]

passes :: (Client -> ClientRequest -> IO B.ByteString) -> (L.ByteString -> Int -> RequestBody) -> IO ()
passes asked made = staysSmall $ \make n ->
  withEngine Epoll tight {settingLimits = (settingLimits defaultSettings) {limitBody = maxBound}} counting $ \engine ->
    withPatient Epoll patient $ \client -> do
      said <- make >>= \content -> asked client (requestTo "PUT" (originOf (engineAddress engine)) "/") {requestBody = made content n}
      said @?= C.pack (show n)

-- Answers with the length of the body.
counting :: Request -> IO Reply
counting request = go 0
  where
    go total = readBody request >>= \piece -> if B.null piece then pure (Whole status200 [] (C.pack (show total))) else go $! total + B.length piece
