{-# LANGUAGE OverloadedStrings #-}

module ChunkedTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Foreign.Ptr (plusPtr)
import Heddle.Http.Internal
import Numeric (showHex)
import Oracle (Body (..), oracleChunked)
import Requests (cutsOf, mutated, noise, withBytes)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck hiding (reason)

tests :: TestTree
tests =
  testGroup
    "Chunked"
    [ localOption (QuickCheckTests 2000) $
        testGroup
          "against the oracle"
          [ testProperty "valid" . forAll validBody $ \(content, input) -> ioProperty $ do
              body <- decode limits [] (input <> "GET /next")
              pure (body === BodyWhole (C.unpack content) (B.length input)),
            testProperty "valid, in pieces" (forAll (snd <$> validBody) agrees),
            testProperty "trailers, in pieces" . forAll trailedBody $ \(_, trailers, input) -> forAll (cutsOf (B.length input)) $ \cuts ->
              ioProperty ((=== trailers) <$> trailersOf cuts input),
            testProperty "mutated" (forAll (mutated (snd <$> validBody)) agrees),
            testProperty "noise" (forAll noise agrees),
            testProperty "noise after a size" (forAll noise (agrees . ("3" <>))),
            testProperty "noise as trailers" (forAll noise (agrees . ("0\r\n" <>))),
            testProperty "random bytes" (agrees . B.pack)
          ],
      localOption (QuickCheckTests 1000) . testProperty "only invalid" $
        forAll invalidBody $ \input -> forAll (cutsOf (B.length input)) $ \cuts -> ioProperty $ do
          body <- decode limits cuts input
          pure (body === BodyRefused 400),
      testGroup "reasons" (map refusal refusals),
      testCase "signed chunks of a long upload pass" $ do
        let chunk = B.concat ["400;chunk-signature=", C.replicate 64 'a', "\r\n", C.replicate 1024 'x', "\r\n"]
            input = B.concat (replicate 500 chunk ++ ["0\r\n\r\n"])
        body <- decode defaultLimits [] input
        body @?= BodyWhole (replicate (500 * 1024) 'x') (B.length input),
      testCase "many extensions of tiny chunks do not" $ do
        let chunk = B.concat ["1;", C.replicate 100 'a', "\r\nx\r\n"]
        body <- decode defaultLimits [] (B.concat (replicate 100 chunk))
        body @?= BodyRefused 400,
      testCase "the end is repeated, consuming nothing" $ do
        state <- newChunkState
        resetChunkState limits state
        withBytes "0\r\n\r\nGET" $ \buffer len -> do
          chunkNext state buffer len >>= (@?= ChunkEnd 5)
          chunkNext state buffer len >>= (@?= ChunkEnd 0)
          chunkedTotal state >>= (@?= 0)
    ]

-- | Room for the bodies made here, but little more.
limits :: Limits
limits = defaultLimits {limitBody = 4000}

-- | Decode an input cut at these positions. Each piece is given with what the last
-- call left.
decode :: Limits -> [Int] -> ByteString -> IO Body
decode theLimits cuts input = do
  state <- newChunkState
  resetChunkState theLimits state
  let go sofar at pieces = case pieces of
        [] -> pure (BodyIncomplete (C.unpack (B.concat (reverse sofar))))
        cut : later -> do
          step <- withBytes (B.drop at (B.take cut input)) (chunkNext state)
          case step of
            ChunkMore n
              | n == max 0 (cut - at) -> go sofar (at + n) later
              | otherwise -> fail ("ChunkMore left bytes: " ++ show (n, at, cut))
            ChunkData offset len
              | len > 0 -> go (B.take len (B.drop (at + offset) input) : sofar) (at + offset + len) pieces
              | otherwise -> fail "empty ChunkData"
            ChunkEnd n -> pure (BodyWhole (C.unpack (B.concat (reverse sofar))) (at + n))
            ChunkReject status _ -> pure (BodyRefused (statusCode status))
  go [] 0 (cuts ++ [B.length input])

agrees :: ByteString -> Property
agrees input = forAll (cutsOf (B.length input)) $ \cuts -> ioProperty $ do
  body <- decode limits cuts input
  pure (body === oracleChunked limits (C.unpack input))

-- | The trailer lines of a body that is cut at these positions.
trailersOf :: [Int] -> ByteString -> IO ByteString
trailersOf cuts input = do
  state <- newChunkState
  resetChunkState limits state
  let go sofar at = \case
        [] -> fail "no end"
        pieces@(cut : later) -> withBytes (B.drop at (B.take cut input)) $ \buffer len -> do
          before <- trailerBytes state
          step <- chunkNext state buffer len
          found <- trailersIn state before step >>= copySlice buffer
          case step of
            ChunkMore n -> go (found : sofar) (at + n) later
            ChunkData offset n -> go (found : sofar) (at + offset + n) pieces
            ChunkEnd _ -> pure (B.concat (reverse (found : sofar)))
            ChunkReject _ reason -> fail (show reason)
  go [] 0 (cuts ++ [B.length input])

-- | A body and its chunked form.
validBody :: Gen (ByteString, ByteString)
validBody = (\(body, _, whole) -> (body, whole)) <$> trailedBody

-- | A body, its trailer lines, and the chunked form.
trailedBody :: Gen (ByteString, ByteString, ByteString)
trailedBody = do
  parts <- resize 6 (listOf (B.pack <$> resize 40 (listOf1 arbitrary)))
  chunks <- mapM chunk parts
  zeros <- elements ["0", "00", "0000000000000000"]
  ext <- extension
  trailers <- resize 3 (listOf (elements ["A: b\r\n", "Digest:\t\x80\xFF\r\n", "X:\r\n", "Content-Length: 7\r\n"]))
  pure (B.concat parts, B.concat trailers, B.concat (chunks ++ [zeros, ext, "\r\n"] ++ trailers ++ ["\r\n"]))
  where
    chunk part = do
      ext <- extension
      zeros <- elements ["", "0", "000"]
      pure (B.concat [zeros, C.pack (showHex (B.length part) ""), ext, "\r\n", part, "\r\n"])
    extension = elements ["", "", ";", ";a", ";a=b", " ; a=\"b;c\"", "\t;\tx"]

-- | Bodies with one fault each.
invalidBody :: Gen ByteString
invalidBody = do
  (_, whole) <- validBody
  let before = "3\r\nabc\r\n"
  fault <-
    elements
      [ "g\r\n",
        "\r\n",
        ";a\r\n",
        " 3\r\nabc\r\n",
        "+3\r\nabc\r\n",
        "-3\r\nabc\r\n",
        "0x3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3\nabc\r\n",
        "3\rabc\r\n",
        "3;a\nabc\r\n",
        "3;a\rb\r\nabc\r\n",
        "3;a\0\r\nabc\r\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\n",
        "3\r\nabc0\r\n",
        "3\r\nabc\rX",
        "00000000000000003\r\nabc\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\r\nA : b\r\n",
        "0\r\n: b\r\n",
        "0\r\nA\r\n",
        "0\r\nA: b\n",
        "0\r\nA: b\rc\r\n",
        "0\r\nA: b\r\n c\r\n",
        "0\r\nA: \0\r\n",
        "0\r\nGET / HTTP/1.1\r\n"
      ]
  rest <- elements ["", "\r\n", whole]
  elements [fault <> rest, before <> fault <> rest]

refusal :: (ByteString, RejectReason) -> TestTree
refusal (input, reason) = testCase (show (B.take 40 input)) $ do
  state <- newChunkState
  resetChunkState limits state
  withBytes input $ \buffer len ->
    let go at = do
          step <- chunkNext state (buffer `plusPtr` at) (len - at)
          case step of
            ChunkData offset size -> go (at + offset + size)
            ChunkReject status got -> (status, got) @?= (rejectStatus reason, reason)
            other -> fail (show other)
     in go 0

refusals :: [(ByteString, RejectReason)]
refusals =
  [ ("x", BadChunkSize),
    ("1g", BadChunkSize),
    ("1 x", BadChunkSize),
    ("00000000000000000", BadChunkSize),
    ("1;\0", BadChunkExtension),
    ("1\rx", BadChunkExtension),
    ("1;" <> C.replicate 5000 'a', ChunkExtensionsTooLong),
    ("1" <> C.replicate 5000 ' ', ChunkExtensionsTooLong),
    ("1\r\nab", BadChunkEnd),
    ("1\r\na\rb", BadChunkEnd),
    ("fa1", BodyTooLarge),
    ("fa0\r\n" <> C.replicate 4000 'a' <> "\r\n1", BodyTooLarge),
    ("ffffffffffffffff", BodyTooLarge),
    ("8000000000000000", BodyTooLarge),
    ("0\r\n\0", BadTrailer),
    ("0\r\nA: " <> C.replicate 9000 'a', TrailersTooLarge)
  ]
