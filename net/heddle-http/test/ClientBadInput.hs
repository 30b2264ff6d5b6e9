{-# LANGUAGE OverloadedStrings #-}

-- | Every row of bad responses: the exact failure, a closed connection, and the next request answered by its own
-- answer, although a whole response follows the bad one.
module ClientBadInput
  ( tests,
  )
where

import ClientFixture
import Control.Exception (displayException, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import EngineFixture (onBothBackends)
import Heddle.Http (RejectReason (..))
import Heddle.Http.Client
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.Watchdog
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "bad responses"
    [ onBothBackends "in one piece" $ \backend -> [testCase name (refused backend row (: [])) | row@(name, _, _) <- rows],
      onBothBackends "byte by byte" $ \backend -> [testCase "every row" (forM_ rows $ \row -> refused backend row (map B.singleton . B.unpack))],
      onBothBackends "cut short" $ \backend ->
        [testCase (show bytes) (cutShort backend bytes failure) | (bytes, failure) <- short],
      testGroup
        "framingOfAnAnswerWithoutContentWasRefused"
        [ onBothBackends name $ \backend -> [testCase (show bytes) (taken backend verb code bytes (if pieces then map B.singleton . B.unpack else (: []))) | pieces <- [False, True]]
          | (name, verb, code, bytes) <- harmless
        ],
      testProperty "onlyInvalid: a bad row after good responses, cut anywhere, never becomes an answer" $
        forAll ((,,) <$> elements rows <*> choose (0, 3 :: Int) <*> resize 8 (listOf (choose (1, 50)))) $ \((_, bytes, failure), before, cuts) ->
          ioProperty (True <$ afterGood bytes failure before cuts),
      testCase "messages say what was tried, on what, and what happened" $
        withScripted (\_ peer -> hearHead peer >> tell peer "SSH-2.0-x\r\n") $ \origin ->
          withPatient Epoll patient $ \client -> do
            r <- failureMessage (fetch client (get origin "/a?secret") 10)
            r @?= "GET /a of " ++ renderOrigin origin ++ ": the response is refused: it does not begin with HTTP/1: the peer speaks another protocol"
    ]

-- The first connection answers badly, later ones well.
serveBadly :: (ByteString -> [ByteString]) -> ByteString -> Int -> Peer -> IO ()
serveBadly cut bytes i peer
  | i == 0 = hearHead peer >> tellPieces peer (cut (bytes <> simple "smuggled")) >> endTelling peer >> void (hearToEnd peer)
  | otherwise = hearHead peer >> tell peer (simple "good") >> serveBadly cut bytes i peer

refused :: BackendChoice -> (String, ByteString, Failure) -> (ByteString -> [ByteString]) -> IO ()
refused backend (_, bytes, failure) cut =
  withScripted (serveBadly cut bytes) $ \origin ->
    withPatient backend patient $ \client -> do
      failureIs (== failure) (show failure) (fetch client (get origin "/") 1000)
      connectionsInAll client >>= (@?= 0)
      fetch client (get origin "/") 1000 >>= (@?= "good") . fetchedContent

-- The answer is used, its content empty, and its connection is not used again.
taken :: BackendChoice -> ByteString -> Int -> ByteString -> (ByteString -> [ByteString]) -> IO ()
taken backend verb code bytes cut =
  withScripted (serveBadly cut bytes) $ \origin ->
    withPatient backend patient $ \client -> do
      answer <- fetch client (requestTo verb origin "/") 1000
      (statusCode (fetchedStatus answer), fetchedContent answer) @?= (code, if code == 200 && verb == "GET" then "ok" else "")
      connectionsInAll client >>= (@?= 0)
      fetch client (get origin "/") 1000 >>= (@?= "good") . fetchedContent

harmless :: [(String, ByteString, Int, ByteString)]
harmless =
  [ ("204, length", "GET", 204, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
    ("204, length and content", "GET", 204, "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc"),
    ("204, chunked", "GET", 204, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("204, chunks", "DELETE", 204, "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("204, contradictions", "PUT", 204, "HTTP/1.1 204 No Content\r\nContent-Length: 1\r\nContent-Length: x\r\nTransfer-Encoding: gzip\r\n\r\n"),
    ("304, contradictions", "GET", 304, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("HEAD, contradictions", "HEAD", 200, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    ("interim, length", "GET", 200, "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n" <> simple "ok"),
    ("interim, chunked", "GET", 200, "HTTP/1.1 102 Processing\r\nTransfer-Encoding: chunked\r\n\r\n" <> simple "ok"),
    ("100, chunked", "GET", 200, "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n" <> simple "ok")
  ]

afterGood :: ByteString -> Failure -> Int -> [Int] -> IO ()
afterGood bytes failure before cuts =
  withScripted script $ \origin ->
    withPatient Epoll patient $ \client -> onOne $ do
      forM_ [1 .. before] $ \_ -> fetch client (get origin "/") 1000 >>= (@?= "good") . fetchedContent
      failureIs (== failure) (show failure) (fetch client (get origin "/") 1000)
      fetch client (get origin "/") 1000 >>= (@?= "good") . fetchedContent
  where
    script i peer = hearHead peer >> answer i peer
    answer i peer
      | i == 0 = do
        forM_ [1 .. before] $ \_ -> tell peer (simple "good") >> hearHead peer
        tellPieces peer (cutAt cuts (bytes <> simple "smuggled"))
        endTelling peer
        void (hearToEnd peer)
      | otherwise = tell peer (simple "good")

cutAt :: [Int] -> ByteString -> [ByteString]
cutAt cuts bytes = case cuts of
  [] -> [bytes]
  n : more
    | B.null bytes -> []
    | otherwise -> let (a, b) = B.splitAt n bytes in a : cutAt more b

cutShort :: BackendChoice -> ByteString -> Failure -> IO ()
cutShort backend bytes failure =
  withScripted (\_ peer -> hearHead peer >> tell peer bytes >> endTelling peer >> void (hearToEnd peer)) $ \origin ->
    withPatient backend patient $ \client -> do
      failureIs (== failure) (show failure) (fetch client (get origin "/") 1000)
      connectionsInAll client >>= (@?= 0)

failureMessage :: Show a => IO a -> IO String
failureMessage action =
  try action >>= \case
    Left (e :: ClientError) -> pure (displayException e)
    Right r -> unexpected "a failure" (show r)

short :: [(ByteString, Failure)]
short =
  [ ("", Ended AwaitingAnswer),
    ("H", Ended ReadingHead),
    ("HTTP/1.1 200 OK\r\n", Ended ReadingHead),
    ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r", Ended ReadingHead),
    ("HTTP/1.1 100 Continue\r\n\r\n", Ended ReadingHead),
    ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", Ended ReadingContent),
    ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Ended ReadingContent),
    (chunked "", Ended ReadingContent),
    (chunked "3\r\nabc\r\n", Ended ReadingContent),
    (chunked "3\r\nabc\r\n0\r\n", Ended ReadingContent),
    (chunked "3\r\nabc\r\n0\r\nA: b\r\n", Ended ReadingContent)
  ]

chunked :: ByteString -> ByteString
chunked = ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" <>)

rows :: [(String, ByteString, Failure)]
rows =
  [ ("another protocol", "220 mail.example ESMTP\r\n", BadAnswer NotHttp),
    ("TLS to a client that speaks plain HTTP", "\x15\x03\x03\x00\x02\x02\x32", BadAnswer NotHttp),
    ("HTTP/0.9", "<html>hello</html>", BadAnswer NotHttp),
    ("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", BadAnswer NotHttp),
    ("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", BadAnswer NotHttp),
    ("a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", BadAnswer BadStatusLine),
    ("a status above 599", "HTTP/1.1 999 OK\r\n\r\n", BadAnswer BadStatusCode),
    ("a bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", BadAnswer (Malformed BareLineFeed)),
    ("a folded header", ok "A: b\r\n c\r\nContent-Length: 0\r\n", BadAnswer (Malformed FoldedHeader)),
    ("space before a colon", ok "Content-Length : 0\r\n", BadAnswer (Malformed SpaceBeforeColon)),
    ("a line without a colon", ok "Content-Length 0\r\n", malformed SpaceBeforeColon),
    ("NUL in a value", ok "A: \NUL\r\n", malformed BadHeaderValue),
    ("both framings", ok "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" <> "0\r\n\r\n", malformed LengthWithCoding),
    ("both framings, the other order", ok "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" <> "0\r\n\r\n", malformed LengthWithCoding),
    ("two lengths that differ", ok "Content-Length: 5\r\nContent-Length: 6\r\n" <> "abcdef", malformed RepeatedLength),
    ("two lengths that agree", ok "Content-Length: 1\r\nContent-Length: 1\r\n" <> "a", malformed RepeatedLength),
    ("a list of lengths", ok "Content-Length: 1, 1\r\n" <> "a", malformed BadLength),
    ("a negative length", ok "Content-Length: -1\r\n", malformed BadLength),
    ("a hexadecimal length", ok "Content-Length: 0x1\r\n" <> "a", malformed BadLength),
    ("a length beyond 64 bits", ok "Content-Length: 18446744073709551616\r\n", malformed BodyTooLarge),
    ("chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", malformed CodingInHttp10),
    ("another coding", ok "Transfer-Encoding: gzip, chunked\r\n" <> "0\r\n\r\n", malformed UnknownCoding),
    ("chunked, and then another coding", ok "Transfer-Encoding: chunked, gzip\r\n", malformed BadCoding),
    ("chunked twice", ok "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" <> "0\r\n\r\n", malformed BadCoding),
    ("xchunked", ok "Transfer-Encoding: xchunked\r\n" <> "0\r\n\r\n", malformed BadCoding),
    ("a head larger than the limit", ok ("A: " <> C.replicate 2000 'a' <> "\r\n"), malformed HeadTooLarge),
    ("a head without end", "HTTP/1.1 200 OK\r\n" <> C.replicate 2000 'a', malformed HeadTooLarge),
    ("a status line without end", "HTTP/1.1 200 " <> C.replicate 2000 'a', malformed HeadTooLarge),
    ("more headers than the limit", ok (B.concat (replicate 11 "A: b\r\n")), malformed TooManyHeaders),
    ("a size that is no number", chunked "x\r\n", malformed BadChunkSize),
    ("an empty size", chunked "\r\n", malformed BadChunkSize),
    ("a negative size", chunked "-1\r\n", malformed BadChunkSize),
    ("a size with 0x", chunked "0x1\r\na\r\n0\r\n\r\n", malformed BadChunkSize),
    ("a size beyond 64 bits", chunked "FFFFFFFFFFFFFFFFF\r\n", malformed BodyTooLarge),
    ("a size that ends in LF", chunked "1\na\r\n0\r\n\r\n", malformed BadChunkSize),
    ("a chunk longer than its size", chunked "1\r\nab\r\n0\r\n\r\n", malformed BadChunkEnd),
    ("a chunk that ends in LF", chunked "1\r\na\n0\r\n\r\n", malformed BadChunkEnd),
    ("LF in an extension", chunked "1;a\nb\r\na\r\n0\r\n\r\n", malformed BadChunkExtension),
    ("extensions without end", chunked ("1;" <> C.replicate 3000 'a'), malformed ChunkExtensionsTooLong),
    ("a trailer that is no header", chunked "0\r\na b\r\n\r\n", malformed BadTrailer),
    ("a trailer that ends in LF", chunked "0\r\na: b\n\r\n", malformed BadTrailer),
    ("trailers without end", chunked ("0\r\nA: " <> C.replicate 3000 'a'), malformed TrailersTooLarge),
    ("content of an interim response", "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\nabc", BadAnswer NotHttp),
    ("another protocol that was not asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", BadAnswer UnaskedSwitch),
    ("interim responses without end", B.concat (replicate 200 "HTTP/1.1 100 Continue\r\n\r\n"), BadAnswer InterimFlood)
  ]
  where
    ok fields = "HTTP/1.1 200 OK\r\n" <> fields <> "\r\n"
    malformed = BadAnswer . Malformed
