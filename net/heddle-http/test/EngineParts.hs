{-# LANGUAGE OverloadedStrings #-}

-- | Parts of a request, copied and where the connection received them.
module EngineParts (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import EngineFixture
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.Conditional (Preconditions (..), noPreconditions)
import Heddle.Testkit.HttpClient
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase)

tests :: TestTree
tests =
  testGroup
    "parts of a request"
    [ onBothBackends "copied" $ \backend ->
        [ testCase "headers, by code, by name in any case, and all" $
            understood backend copied "a|Some(1)|Nothing|host=a,X-Tag=1,x-tag=2,If-None-Match=\"e\""
        ],
      onBothBackends "borrowed" $ \backend ->
        [ testCase "method, target, path, a header, one that is missing, all that was received" $
            understood backend borrowed (B.intercalate "|" ["GET", "/p?q", "/p", "a", "", request]),
          testCase "which headers there are" $
            understood backend present "(True,False,True)",
          testCase "conditions" $
            understood backend (fmap (C.pack . show . (== expected)) . preconditions) "True",
          testCase "scratch memory holds what was written to its end" $
            understood backend scratch "[1,2]",
          testCase "a part of a prebuilt reply's content" $
            understood backend part "ddl"
        ]
    ]
  where
    understood backend describe answer =
      withEngine backend tight (fmap (Whole status200 []) . describe) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client request
          hearAnswer client >>= answersWith 200 answer
        failuresAre engine []
    expected = noPreconditions {ifNoneMatch = Just "\"e\""}

request :: ByteString
request = "GET /p?q HTTP/1.1\r\nhost: a\r\nX-Tag: 1\r\nx-tag: 2\r\nIf-None-Match: \"e\"\r\n\r\n"

copied :: Request -> IO ByteString
copied r = do
  Just known <- header r HeaderHost
  named <- headerNamed r "x-TAG"
  missing <- headerNamed r "x-ta"
  everything <- headers r
  pure (B.intercalate "|" [known, maybe "Nothing" (\v -> "Some(" <> v <> ")") named, fromMaybe "Nothing" missing, B.intercalate "," [n <> "=" <> v | (n, v) <- everything]])

borrowed :: Request -> IO ByteString
borrowed r = do
  parts <- traverse (\with' -> with' r copy) [withMethod, withTarget, withPath, withHeader HeaderHost, withHeader HeaderRange, withReceived]
  pure (B.intercalate "|" parts)
  where
    copy :: Ptr Word8 -> Int -> IO ByteString
    copy p n = B.packCStringLen (castPtr p, n)

present :: Request -> IO ByteString
present r = do
  host' <- hasHeader r HeaderHost
  range <- hasHeader r HeaderRange
  conditional <- isConditional r
  pure (C.pack (show (host', range, conditional)))

scratch :: Request -> IO ByteString
scratch r = withScratch r $ \p -> do
  pokeByteOff p 0 (1 :: Word8)
  pokeByteOff p (scratchSize r - 1) (2 :: Word8)
  first <- peekByteOff p 0 :: IO Word8
  final <- peekByteOff p (scratchSize r - 1)
  pure (C.pack (show [first, final]))

part :: Request -> IO ByteString
part _ = do
  reply <- newPrebuilt "heddle" status200 [] (ContentOf 6 (\p -> mapM_ (uncurry (pokeByteOff p)) (zip [0 ..] (B.unpack "heddle"))))
  prebuiltPart reply 2 3
