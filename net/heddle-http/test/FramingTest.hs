{-# LANGUAGE OverloadedStrings #-}

module FramingTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toUpper)
import Heddle.Http.Internal
import Oracle (oracleFraming)
import Requests (withHead)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck hiding (reason)

tests :: TestTree
tests =
  testGroup
    "Framing"
    [ testGroup "framingOf" (map framing table),
      localOption (QuickCheckTests 3000) . testProperty "agrees with the oracle" $
        forAll fields $ \headers ->
          forAll (elements [0, 1]) $ \minor ->
            ioProperty $ do
              got <- framed limits minor headers
              let answer = case got of
                    NoBody -> Right "none"
                    Sized n -> Right (show n)
                    ChunkedBody -> Right "chunked"
                    FramingReject status _ -> Left (statusCode status)
              pure (answer === oracleFraming limits minor [(C.unpack n, C.unpack v) | (n, v) <- headers]),
      localOption (QuickCheckTests 1000) . testProperty "only invalid" $
        forAll invalid $ \headers -> ioProperty $ do
          got <- framed limits 1 headers
          pure $ case got of
            FramingReject status _ -> statusCode status === 400
            other -> counterexample (show other) False,
      testGroup "persistenceOf" (map persistence connections),
      testGroup "expectsContinue" (map expectation expectations)
    ]

limits :: Limits
limits = defaultLimits {limitBody = 1000}

-- | A head with these headers.
inHead :: Int -> [(ByteString, ByteString)] -> ByteString
inHead minor headers =
  B.concat $
    ["POST / HTTP/1.", C.pack (show minor), "\r\nHost: h\r\n"]
      ++ [B.concat [name, ": ", value, "\r\n"] | (name, value) <- headers]
      ++ ["\r\n"]

framed :: Limits -> Int -> [(ByteString, ByteString)] -> IO FramingResult
framed theLimits minor headers =
  withHead defaultLimits 100 [] (inHead minor headers) $ \buffer headTable parsed -> case parsed of
    Done _ -> framingOf theLimits buffer headTable
    other -> fail (show other)

framing :: (Int, [(ByteString, ByteString)], FramingResult) -> TestTree
framing (minor, headers, expected) =
  testCase (show (minor, headers)) $ framed limits minor headers >>= (@?= expected)

table :: [(Int, [(ByteString, ByteString)], FramingResult)]
table =
  [ (1, [], NoBody),
    (0, [], NoBody),
    (1, [cl "0"], Sized 0),
    (1, [cl "5"], Sized 5),
    (1, [cl "0005"], Sized 5),
    (1, [("CONTENT-LENGTH", " 7 ")], Sized 7),
    (1, [cl "1000"], Sized 1000),
    (1, [cl "1001"], bad BodyTooLarge),
    (1, [cl "9223372036854775807"], bad BodyTooLarge),
    (1, [cl "9223372036854775808"], bad BodyTooLarge),
    (1, [cl "18446744073709551621"], bad BodyTooLarge),
    (1, [cl ""], bad BadLength),
    (1, [cl "+5"], bad BadLength),
    (1, [cl "-5"], bad BadLength),
    (1, [cl "5,5"], bad BadLength),
    (1, [cl "5 5"], bad BadLength),
    (1, [cl "0x5"], bad BadLength),
    (1, [cl "5a"], bad BadLength),
    (1, [cl "5", cl "5"], bad RepeatedLength),
    (1, [cl "5", cl "6"], bad RepeatedLength),
    (1, [te "chunked"], ChunkedBody),
    (1, [te "Chunked"], ChunkedBody),
    (0, [te "chunked"], bad CodingInHttp10),
    (1, [te "chunked", cl "5"], bad LengthWithCoding),
    (1, [cl "5", te "identity"], bad LengthWithCoding),
    (1, [te "chunked, chunked"], bad BadCoding),
    (1, [te "chunked", te "chunked"], bad BadCoding),
    (1, [te "chunked, gzip"], bad BadCoding),
    (1, [te "gzip"], bad BadCoding),
    (1, [te "identity"], bad BadCoding),
    (1, [te "chunked,"], bad BadCoding),
    (1, [te ",chunked"], bad BadCoding),
    (1, [te ""], bad BadCoding),
    (1, [te "chunked;q=1"], bad BadCoding),
    (1, [te "xchunked"], bad BadCoding),
    (1, [te "\"chunked\""], bad BadCoding),
    (1, [te "gzip, chunked"], bad UnknownCoding),
    (1, [te "gzip", te "chunked"], bad UnknownCoding)
  ]
  where
    bad reason = FramingReject (rejectStatus reason) reason

cl, te :: ByteString -> (ByteString, ByteString)
cl value = ("Content-Length", value)
te value = ("Transfer-Encoding", value)

fields :: Gen [(ByteString, ByteString)]
fields = resize 3 (listOf (oneof [cl <$> size, te <$> codings, pure ("Accept", "chunked")]))
  where
    size = elements ["0", "5", "999", "1000", "1001", "99999999999999999999999", "", "+1", "1,1", "1 1", "a"]
    codings = C.intercalate "," <$> resize 3 (listOf (elements ["chunked", " chunked ", "CHUNKED", "gzip", "", "identity"]))

-- | Framing that could be read in two ways.
invalid :: Gen [(ByteString, ByteString)]
invalid = do
  junk <- C.pack <$> listOf1 (elements "+-.,;xX ") `suchThat` any (/= ' ')
  number <- C.pack . show <$> choose (0, 1000 :: Int)
  shout <- arbitrary
  chosen <-
    elements
      [ [cl number, cl number],
        [cl number, te "chunked"],
        [te "chunked", ("Accept", "x"), cl number],
        [cl (number <> junk)],
        [cl (junk <> number)],
        [te "chunked", te "chunked"],
        [te "chunked", te "gzip"],
        [te ("chunked" <> junk)]
      ]
  pure (if shout then [(C.map toUpper n, v) | (n, v) <- chosen] else chosen)

persistence :: (Int, [ByteString], Persistence) -> TestTree
persistence (minor, values, expected) =
  testCase (show (minor, values)) $
    withHead defaultLimits 100 [] (inHead minor [("Connection", v) | v <- values]) $ \buffer headTable _ ->
      persistenceOf buffer headTable >>= (@?= expected)

connections :: [(Int, [ByteString], Persistence)]
connections =
  [ (1, [], KeepAlive),
    (0, [], Close),
    (1, ["close"], Close),
    (1, ["Close"], Close),
    (1, ["keep-alive"], KeepAlive),
    (1, ["keep-alive, close"], Close),
    (1, ["upgrade", "close"], Close),
    (1, ["closed"], KeepAlive),
    (1, ["x close"], KeepAlive),
    (1, [",, ,"], KeepAlive),
    (0, ["keep-alive"], KeepAlive),
    (0, ["Keep-Alive , x"], KeepAlive),
    (0, ["keep-alive", "close"], Close),
    (0, ["x"], Close)
  ]

expectation :: (Int, [ByteString], Expectation) -> TestTree
expectation (minor, values, expected) =
  testCase (show (minor, values)) $
    withHead defaultLimits 100 [] (inHead minor [("Expect", v) | v <- values]) $ \buffer headTable _ ->
      expectsContinue buffer headTable >>= (@?= expected)

expectations :: [(Int, [ByteString], Expectation)]
expectations =
  [ (1, [], ExpectNothing),
    (1, ["100-continue"], ExpectContinue),
    (1, ["100-Continue"], ExpectContinue),
    (1, ["100-continue", "100-continue"], ExpectContinue),
    (1, ["100-continue, x"], ExpectUnknown),
    (1, ["x", "100-continue"], ExpectUnknown),
    (1, [""], ExpectNothing),
    (0, ["100-continue"], ExpectNothing),
    (0, ["x"], ExpectNothing)
  ]
