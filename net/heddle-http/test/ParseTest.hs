{-# LANGUAGE OverloadedStrings #-}

module ParseTest (tests) where

import Control.Monad (replicateM_, void, when)
import Data.Bits qualified as Bits
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toUpper)
import Data.Foldable (for_)
import Data.Maybe (isJust, isNothing)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import GHC.Conc (getAllocationCounter)
import Heddle.Http.Internal hiding (requestMethod)
import Heddle.Http.Internal qualified as Head
import Oracle (Request (..), Verdict (..), oracleHead)
import Requests
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (reason)

tests :: TestTree
tests =
  testGroup
    "Parse"
    [ localOption (QuickCheckTests 2000) $
        testGroup
          "against the oracle"
          [ testProperty "valid" (forAll validHead (agrees defaultLimits)),
            testProperty "valid heads are accepted" (forAll validHead accepted),
            testProperty "mutated" (forAll (mutated validHead) (agrees defaultLimits)),
            testProperty "noise" (forAll noise (agrees defaultLimits)),
            testProperty "noise in a header" (forAll noise (agrees defaultLimits . (\x -> "GET / HTTP/1.1\r\nHost: h\r\n" <> x <> "\r\n\r\n"))),
            testProperty "noise in Host" (forAll noise (agrees defaultLimits . (\x -> "GET / HTTP/1.1\r\nHost: " <> x <> "\r\n\r\n"))),
            testProperty "noise in the target" (forAll noise (agrees defaultLimits . (\x -> "GET " <> x <> " HTTP/1.1\r\nHost: h\r\n\r\n"))),
            testProperty "noise as authority" (forAll noise (agrees defaultLimits . (\x -> "GET http://" <> x <> " HTTP/1.1\r\nHost: h\r\n\r\n"))),
            testProperty "noise as version" (forAll noise (agrees defaultLimits . (\x -> "GET / " <> x <> "\r\nHost: h\r\n\r\n"))),
            testProperty "tight limits" (forAll tight (forAll (oneof [validHead, mutated validHead]) . agrees)),
            testProperty "random bytes" (agrees defaultLimits . B.pack)
          ],
      localOption (QuickCheckTests 2000) $
        testGroup
          "only invalid"
          [ testProperty "refused with the right status" $
              forAll invalidHead $ \(name, status, input) ->
                forAll (cutsOf (B.length input)) $ \cuts ->
                  counterexample name . ioProperty $ do
                    parsed <- feedHead defaultLimits cuts input
                    pure $ case parsed of
                      Reject got _ -> statusCode got === status
                      other -> counterexample (show other) False,
            testProperty "the oracle refuses them too" $
              forAll invalidHead $ \(_, status, input) ->
                oracleHead defaultLimits (C.unpack input) === Refused status
          ],
      localOption (QuickCheckTests 1000) $
        testGroup
          "splitting"
          [ testProperty "any pieces, same answer" $
              forAll (oneof [validHead, mutated validHead, noise]) $ \input ->
                forAll (cutsOf (B.length input)) $ \cuts ->
                  ioProperty $ do
                    whole <- feedHead defaultLimits [] input
                    pieces <- feedHead defaultLimits cuts input
                    pure (pieces === whole),
            testProperty "any pieces, same table" $
              forAll validHead $ \input ->
                forAll (cutsOf (B.length input)) $ \cuts ->
                  ioProperty $ do
                    whole <- withHead defaultLimits 100 [] input describe
                    pieces <- withHead defaultLimits 100 cuts input describe
                    pure (pieces === whole),
            testProperty "any pieces, same answer, tight limits" $
              forAll tight $ \limits ->
                forAll (oneof [validHead, mutated validHead]) $ \input ->
                  forAll (cutsOf (B.length input)) $ \cuts ->
                    ioProperty $ do
                      whole <- feedHead limits [] input
                      pieces <- feedHead limits cuts input
                      pure (pieces === whole)
          ],
      testGroup "reasons" (map refusal refusals),
      testGroup
        "when a line is refused"
        [ testCase "a bare LF at once" $ feedHead defaultLimits [] "GET / HTTP/1.1\n" >>= (@?= Just BareLineFeed) . reasonOf,
          testCase "a bad method with its line" $ do
            early <- feedHead defaultLimits [] "G(T / HTTP/1.1\r"
            early @?= More
            late <- feedHead defaultLimits [] "G(T / HTTP/1.1\r\n"
            reasonOf late @?= Just BadMethod,
          testCase "lineFeedInsideVersionWasAwaitedTwice" $ do
            let input = "GET / HTTP/\nGET / HTTP/1.1\r\n"
            pieces <- feedHead defaultLimits [0 .. B.length input] input
            reasonOf pieces @?= Just BadVersion,
          testCase "an endless line at its limit" $ do
            under <- feedHead defaultLimits [] (C.replicate 16383 'a')
            under @?= More
            over <- feedHead defaultLimits [] (C.replicate 16384 'a')
            reasonOf over @?= Just TargetTooLong
        ],
      testGroup
        "table"
        [ testCase "pipelined requests are left alone" $ do
            let first = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
            parsed <- feedHead defaultLimits [] (first <> "GET /b HTTP/1.1\r\n")
            parsed @?= Done (B.length first),
          testCase "the name of a known header is spelt as its constructor" $
            map knownHeaderName [HeaderHost, HeaderTe, HeaderIfUnmodifiedSince, HeaderXRealIp, HeaderSecWebsocketKey, HeaderDnt]
              @?= ["host", "te", "if-unmodified-since", "x-real-ip", "sec-websocket-key", "dnt"],
          testCase "every known header is recognised in any case" $
            for_ knownHeaders $ \known ->
              for_ [knownHeaderName known, C.map toUpper (knownHeaderName known)] $ \name -> do
                let others = if known == HeaderHost then "" else "Host: h\r\n"
                    input = B.concat ["GET / HTTP/1.1\r\n", others, name, ": v\r\ny", B.drop 1 name, ": w\r\n\r\n"]
                withHead defaultLimits 100 [] input $ \buffer table parsed -> do
                  assertBool (show (name, parsed)) (parsed == Done (B.length input))
                  lookupKnown buffer table known >>= (@?= Just "v")
                  knownCount table known >>= (@?= 1),
          testCase "controlBytesFoldOntoKnownNames: a byte that folding maps onto a known name's is refused" $
            for_ knownHeaders $ \known -> do
              let name = knownHeaderName known
                  -- Folding sets bit 5, so the byte without it looks the same to the comparison.
                  folded at = B.concat [B.take at name, B.singleton (B.index name at Bits..&. 0xDF), B.drop (at + 1) name]
              for_ [0 .. B.length name - 1] $ \at -> do
                let spelt = folded at
                    letter = B.index name at >= 0x61
                parsed <- feedHead defaultLimits [] (B.concat ["GET / HTTP/1.1\r\nHost: h\r\n", spelt, ": v\r\n\r\n"])
                if letter
                  then when (known /= HeaderHost) $ assertBool (show (spelt, parsed)) (isNothing (reasonOf parsed))
                  else assertBool (show (spelt, parsed)) (isJust (reasonOf parsed)),
          testCase "repeated known headers" $ do
            let input = "GET / HTTP/1.1\r\nHost: h\r\nVia: a\r\nX: y\r\nvia: b\r\n\r\n"
            withHead defaultLimits 100 [] input $ \buffer table _ -> do
              knownCount table HeaderVia >>= (@?= 2)
              knownIndex table HeaderVia >>= (@?= 1)
              values <- foldKnown table HeaderVia (\acc slice -> (: acc) <$> copySlice buffer slice) []
              reverse values @?= ["a", "b"]
              knownCount table HeaderTe >>= (@?= 0)
              knownIndex table HeaderTe >>= (@?= -1)
              lookupKnown buffer table HeaderTe >>= (@?= Nothing)
              lookupHeader buffer table "x" >>= (@?= Just "y")
              lookupHeader buffer table "z" >>= (@?= Nothing),
          testCase "the target's authority overrides Host" $ do
            let input = "GET http://a:1/ HTTP/1.1\r\nHost: b\r\n\r\n"
            withHead defaultLimits 100 [] input $ \buffer table _ ->
              effectiveHost table >>= copySlice buffer >>= (@?= "a:1"),
          testCase "the table's capacity is a limit" $ do
            let input = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nC: d\r\n\r\n"
            full <- withHead defaultLimits 2 [] input (\_ _ parsed -> pure parsed)
            reasonOf full @?= Just TooManyHeaders
            fits <- withHead defaultLimits 3 [] input (\_ _ parsed -> pure parsed)
            fits @?= Done (B.length input),
          testCase "a table is used again" $ do
            table <- newHeadTable 10
            let parse input = do
                  startHead table
                  withBytes input $ \buffer len -> parseHead defaultLimits buffer len table
            void (parse "POST http://h/ HTTP/1.0\r\nVia: a\r\nVia: b\r\n\r\n")
            second <- parse "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
            second @?= Done 28
            knownCount table HeaderVia >>= (@?= 0)
            headerCount table >>= (@?= 1)
            authoritySlice table >>= (@?= Slice 0 0)
            Head.requestMethod table >>= (@?= MethodGet)
        ],
      testCase "allocation does not grow with the headers" $ do
        few <- allocation (manyHeaders 1)
        many <- allocation (manyHeaders 90)
        assertBool ("1 header: " ++ show few ++ " B, 90 headers: " ++ show many ++ " B") (many == few)
        -- Optimised code allocates nothing; unoptimised, the boxes of the answer, the loop and the method's scan.
        assertBool (show few ++ " B for one head") (few <= 160)
    ]

-- | Small limits, so that every one of them is reached.
tight :: Gen Limits
tight = do
  target <- choose (0, 20)
  size <- choose (0, 150)
  count <- choose (0, 4)
  pure defaultLimits {limitTarget = target, limitHeadBytes = size, limitHeaders = count}

accepted :: ByteString -> Property
accepted input = ioProperty $ do
  parsed <- feedHead defaultLimits [] input
  pure $ case parsed of
    Done n -> n === B.length input
    other -> counterexample (show other) False

-- | Parser and oracle give the same answer, and the same table.
agrees :: Limits -> ByteString -> Property
agrees limits input = ioProperty $ do
  (parsed, described) <- withHead limits 100 [] input $ \buffer table parsed -> do
    described <- describe buffer table parsed
    pure (parsed, described)
  let verdict = oracleHead limits (C.unpack input)
  pure . counterexample (show parsed) . classify (isDone parsed) "accepted" $ described === verdict
  where
    isDone = \case
      Done _ -> True
      _ -> False

describe :: Ptr Word8 -> HeadTable -> Parsed -> IO Verdict
describe buffer table = \case
  More -> pure Incomplete
  Reject status reason -> pure (if rejectStatus reason == status then Refused (statusCode status) else Incomplete)
  Done consumed -> do
    let text slice = C.unpack <$> copySlice buffer slice
    fields <- foldHeaders table (\acc n v -> (\n' v' -> (n', v') : acc) <$> text n <*> text v) []
    request <-
      Request
        <$> (methodSlice table >>= text)
        <*> (targetSlice table >>= text)
        <*> targetForm table
        <*> (pathSlice table >>= text)
        <*> (querySlice table >>= text)
        <*> (authoritySlice table >>= text)
        <*> minorVersion table
        <*> pure (reverse fields)
    method <- Head.requestMethod table
    spelt <- methodSlice table >>= copySlice buffer
    len <- headLength table
    if len == consumed && (methodName method == spelt || (method == MethodOther && spelt `notElem` map (methodName . MethodCode) [1 .. 9]))
      then pure (Accepted consumed request)
      else fail ("the table contradicts itself: " ++ show (method, spelt, len, consumed))

reasonOf :: Parsed -> Maybe RejectReason
reasonOf = \case
  Reject _ reason -> Just reason
  _ -> Nothing

refusal :: (ByteString, RejectReason) -> TestTree
refusal (input, reason) = testCase (show input) $ do
  parsed <- feedHead defaultLimits [] input
  reasonOf parsed @?= Just reason

refusals :: [(ByteString, RejectReason)]
refusals =
  [ ("\n", BareLineFeed),
    ("\r\n\n", BareLineFeed),
    ("\r\n\r\n", EmptyRequestLine),
    ("\rX\n", BareCarriageReturn),
    ("GET\r\n", BadRequestLine),
    ("GET /\r\n", BadRequestLine),
    (" / HTTP/1.1\r\n", BadRequestLine),
    ("GET  HTTP/1.1\r\n", BadRequestLine),
    ("G\0T / HTTP/1.1\r\n", BadMethod),
    ("GET /\x7F HTTP/1.1\r\n", BadTarget),
    ("GET /# HTTP/1.1\r\n", BadTarget),
    ("GET * HTTP/1.1\r\n", BadTarget),
    ("CONNECT h HTTP/1.1\r\n", BadAuthority),
    ("GET http://@h/ HTTP/1.1\r\n", BadAuthority),
    ("GET / HTTP/1.1\n", BareLineFeed),
    ("GET / HTTP/1.1\rX\n", BareCarriageReturn),
    ("GET / HTTP/1.1 \r\n", BadVersion),
    ("GET / HTTP/1\r\n", BadVersion),
    ("GET / HTTP/3.0\r\n", UnsupportedVersion),
    ("GET / HTTP/1.1\r\nA: b\n", BareLineFeed),
    ("GET / HTTP/1.1\r\nA: b\rc\n", BareCarriageReturn),
    ("GET / HTTP/1.1\r\n\tA: b\r\n", FoldedHeader),
    ("GET / HTTP/1.1\r\nA\r\n", MissingColon),
    ("GET / HTTP/1.1\r\nA : b\r\n", SpaceBeforeColon),
    ("GET / HTTP/1.1\r\n: b\r\n", EmptyHeaderName),
    ("GET / HTTP/1.1\r\nA(: b\r\n", BadHeaderName),
    ("GET / HTTP/1.1\r\nHos\x80: b\r\n", BadHeaderName),
    ("GET / HTTP/1.1\r\nA: b\0\r\n", BadHeaderValue),
    ("GET / HTTP/1.1\r\n\r\n", MissingHost),
    ("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", RepeatedHost),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", BadHost)
  ]

manyHeaders :: Int -> ByteString
manyHeaders count =
  B.concat (["GET /index.html HTTP/1.1\r\nHost: h\r\n"] ++ replicate count "Accept-Language: en\r\n" ++ ["\r\n"])

-- | Bytes allocated per head, averaged over many.
allocation :: ByteString -> IO Int
allocation input = withBytes input $ \buffer len -> do
  table <- newHeadTable 100
  let parse = do
        startHead table
        parsed <- parseHead defaultLimits buffer len table
        case parsed of
          Done _ -> pure ()
          other -> fail (show other)
  parse
  before <- getAllocationCounter
  replicateM_ 1000 parse
  after <- getAllocationCounter
  pure (fromIntegral (before - after) `div` 1000)
