{-# LANGUAGE OverloadedStrings #-}

-- | Parts of a request, copied and where the connection received them.
module EngineParts (tests) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toUpper)
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
            understood backend copied "a|Some(1, 2)|Nothing|host=a,X-Tag=1,x-tag=2,If-None-Match=\"e\""
        ],
      onBothBackends "listOnSeveralLinesWasItsFirstLine" $ \backend ->
        [ testCase (C.unpack name) $
            withEngine backend tight (fmap (Whole status200 []) . threefold known name) $ \engine -> do
              withClient (engineAddress engine) $ \client -> forM_ (("", []) : several known) $ \(value, given) -> do
                say client (B.concat (["GET / HTTP/1.1\r\nHost: a\r\nX-Between: x\r\n"] ++ [B.concat [spelt, ": ", v, "\r\nX-Between: y\r\n"] | (v, spelt) <- zip given (cycle [name, C.map toUpper name])] ++ ["\r\n"]))
                hearAnswer client >>= answersWith 200 (B.intercalate "|" (replicate 3 value))
              failuresAre engine []
          | known <- [minBound .. maxBound],
            let name = knownHeaderName known,
            name `notElem` ["host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "set-cookie"]
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
        ],
      onBothBackends "limits" $ \backend ->
        [ testCase "theLargestLimitsResetEveryConnection" $
            withEngine backend tight {settingLimits = Limits maxBound maxBound maxBound maxBound maxBound maxBound, settingDiscard = maxBound} echo $ \engine -> do
              withClient (engineAddress engine) $ \client -> do
                say client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n"
                hearAnswer client >>= answersWith 200 "POST /1\nabc"
                say client ("GET /2 HTTP/1.1\r\nHost: a\r\n" <> B.concat (replicate 2000 "A: 0123456789\r\n") <> "\r\n")
                hearAnswer client >>= answersWith 200 "GET /2\n"
              failuresAre engine []
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

-- Values of a header, and the lines that mean them.
several :: KnownHeader -> [(ByteString, [ByteString])]
several = \case
  HeaderCookie -> [("a=1", ["a=1"]), ("a=1; b=2; c", ["a=1", "b=2; c"])]
  _ -> [("a", ["a"]), ("a, b", ["a", "b"]), ("a;q=0.5, b, c, \"d, e\"", ["a;q=0.5", "b, c", "", "\"d, e\""])]

-- A header by each function that finds it.
threefold :: KnownHeader -> ByteString -> Request -> IO ByteString
threefold known name r = do
  copy <- header r known
  borrowedOne <- withHeader known r (curry B.packCStringLen . castPtr)
  named <- headerNamed r name
  pure (B.intercalate "|" [fromMaybe "" copy, borrowedOne, fromMaybe "" named])

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
