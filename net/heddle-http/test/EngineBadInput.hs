{-# LANGUAGE OverloadedStrings #-}

-- | Every row of bad input: the exact status, a closed connection, and no second request
-- made of what was left over.
module EngineBadInput
  ( tests,
  )
where

import Control.Exception (try)
import Control.Monad (forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import EngineFixture
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase)
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "bad input"
    [ onBothBackends "in one piece" $ \backend ->
        [testCase (name row) (refused backend row (: [])) | row <- rows],
      onBothBackends "byte by byte" $ \backend ->
        [testCase "every row" (forM_ rows $ \row -> refused backend row (map B.singleton . B.unpack))],
      testProperty "invalidInputNeverBecomesASecondRequest: anywhere after valid requests, cut anywhere" $
        forAllShrink invalidStream (const []) $ \(row, before, cuts) ->
          ioProperty (True <$ afterValid row before cuts),
      onBothBackends "left in the body of a request whose handler does not read it" $ \backend ->
        [testCase ("unreadBodyErrorsWereIgnored: " ++ name row) (unreadBodyRefused backend row) | row <- rows, inBody row],
      onBothBackends "in the body of a request whose handler catches the error" $ \backend ->
        [testCase (name row) (caughtBodyError backend row) | row <- rows, inBody row],
      testGroup
        "answers to HEAD have no content"
        [testCase ("refusedHeadGotContent: " ++ name row) (bareRefusal row {bytes = "HEAD" <> B.drop 3 (bytes row)}) | row <- rows, "GET /" `B.isPrefixOf` bytes row],
      testCase "refusedHeadGotContent: behind an empty line" $
        bareRefusal (Row "" 400 False "\r\nHEAD / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
      testCase "the end of the connection inside a head gets no answer" $ endInside "GET / HT",
      testCase "the end of the connection inside a body gets no answer" $
        endInside "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
      testCase "the end of the connection inside a chunked body gets no answer" $
        endInside "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"
    ]

data Row = Row
  { name :: String,
    code :: Int,
    -- | Whether the head is valid, and the error in the body.
    inBody :: Bool,
    bytes :: ByteString
  }

instance Show Row where
  show row = name row ++ ": " ++ show (bytes row)

-- Exactly one answer, although a whole request follows.
refused :: BackendChoice -> Row -> (ByteString -> [ByteString]) -> IO ()
refused backend row cut =
  withEngine backend tight echo $ \engine -> do
    withClient (engineAddress engine) $ \client -> do
      sayPieces client (cut (bytes row <> get "/smuggled"))
      hearAll client >>= onlyRefusal row
    notSmuggled engine

onlyRefusal :: Row -> [Answer] -> IO ()
onlyRefusal row = \case
  [answer]
    | answerCode answer == code row,
      answerHeader answer "connection" == Just "close",
      answerWhole answer,
      not (B.null (answerBody answer)) ->
      pure ()
  other -> unexpected ("exactly one answer, " ++ show (code row) ++ " with Connection: close, to " ++ show row) (show other)

notSmuggled :: Engine -> IO ()
notSmuggled engine = do
  seen <- engineSeen engine
  when ("/smuggled" `elem` seen) $
    unexpected "the bytes after a refused request to be dropped" ("requests for " ++ show seen)

invalidStream :: Gen (Row, Int, [Int])
invalidStream = do
  row <- elements rows
  before <- choose (0, 3)
  cuts <- listOf (choose (1, 40))
  pure (row, before, cuts)

afterValid :: Row -> Int -> [Int] -> IO ()
afterValid row before cuts =
  withEngine Epoll tight echo $ \engine -> do
    withClient (engineAddress engine) $ \client -> do
      sayPieces client (slices cuts (B.concat (replicate before (get "/valid")) <> bytes row <> get "/smuggled"))
      answers <- hearAll client
      let (good, rest) = splitAt before answers
      unless (all ((== 200) . answerCode) good && length good == before) $
        unexpected (show before ++ " answers before the refusal") (show answers)
      onlyRefusal row rest
    notSmuggled engine
  where
    slices [] b = [b]
    slices (n : ns) b
      | B.length b <= n = [b]
      | otherwise = B.take n b : slices ns (B.drop n b)

-- The handler answers without reading, but the body's error is found before the answer is
-- sent: one refusal, logged as such.
unreadBodyRefused :: BackendChoice -> Row -> IO ()
unreadBodyRefused backend row =
  withEngine backend tight (\_ -> pure (Whole status200 [] "done")) $ \engine -> do
    withClient (engineAddress engine) $ \client -> do
      say client (bytes row <> get "/smuggled")
      hearAll client >>= onlyRefusal row
    notSmuggled engine
    _ <- eventually ("a log line with " ++ show (code row)) (engineLogged engine) (== [code row])
    failuresAre engine []

-- A handler that was told of the fault answers as it likes; then the connection closes.
caughtBodyError :: BackendChoice -> Row -> IO ()
caughtBodyError backend row =
  withEngine backend tight (\r -> either (\(_ :: BodyError) -> Whole status200 [] "told") (Whole status200 []) <$> try (readWholeBody r 1000)) $ \engine -> do
    withClient (engineAddress engine) $ \client -> do
      say client (bytes row <> get "/smuggled")
      answers <- hearAll client
      case answers of
        [answer] | answerBody answer == "told", answerHeader answer "connection" == Just "close" -> pure ()
        other -> unexpected "the handler's own answer, with Connection: close" (show other)
    notSmuggled engine

-- A head alone, though it announces the length of what a GET would get.
bareRefusal :: Row -> IO ()
bareRefusal row =
  withEngine Epoll tight echo $ \engine ->
    withClient (engineAddress engine) $ \client -> do
      say client (bytes row)
      finish client
      (got, _) <- hearRest client
      unless (C.pack (show (code row)) `B.isPrefixOf` B.drop 9 got && snd (B.breakSubstring "\r\n\r\n" got) == "\r\n\r\n") $
        unexpected ("a refusal, " ++ show (code row) ++ ", without content, of " ++ show row) (show got)

endInside :: ByteString -> IO ()
endInside sent =
  withEngine Epoll tight echo $ \engine ->
    withClient (engineAddress engine) $ \client -> do
      say client sent
      finish client
      hearEnd client

rows :: [Row]
rows =
  concat
    [ map
        (headRow 400)
        [ ("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n"),
          ("bare LF after a header", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
          ("bare LF at the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\n"),
          ("bare CR in a header", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n"),
          ("bare CR after the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n"),
          ("NUL in a target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("NUL in a header's name", "GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n"),
          ("NUL in a header's value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"),
          ("a folded header", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"),
          ("a folded first header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
          ("a header without colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
          ("a space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nabcde"),
          ("a tab before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX\t: b\r\n\r\n"),
          ("a space in a header's name", "GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n"),
          ("a header without name", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
          ("a byte beyond ASCII in a header's name", "GET / HTTP/1.1\r\nHost: a\r\nX\xE4: b\r\n\r\n"),
          ("no Host", "GET / HTTP/1.1\r\n\r\n"),
          ("no Host, though the target is absolute", "GET http://a/ HTTP/1.1\r\n\r\n"),
          ("the same Host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
          ("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
          ("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
          ("a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
          ("a Host with a user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
          ("a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
          ("a Host that is a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
          ("a Host with a port that is not a number", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
          ("words after the version", "GET / HTTP/1.1 x\r\nHost: a\r\n\r\n"),
          ("two spaces after the method", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("no version", "GET /\r\nHost: a\r\n\r\n"),
          ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n"),
          ("a version of letters", "GET / HTTP/a.b\r\nHost: a\r\n\r\n"),
          ("a version of three digits", "GET / HTTP/1.11\r\nHost: a\r\n\r\n"),
          ("a method with a forbidden character", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("two leading empty lines", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a leading bare LF", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a target that is a star, for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("a target without slash", "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
          ("the greeting of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
          ("Transfer-Encoding with Content-Length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
          ("Content-Length after Transfer-Encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
          ("two different lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"),
          ("the same length twice", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nabcde"),
          ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nabcde"),
          ("a length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde"),
          ("a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nabcde"),
          ("a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nabcde"),
          ("an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabcde"),
          ("a length with a fraction", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nabcde"),
          ("Transfer-Encoding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
          ("chunked twice in a line", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
          ("chunked in two lines", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
          ("chunked before another coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
          ("a coding without chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
          ("a coding that ends in chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
          ("identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
          ("a coding behind a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0b\&chunked\r\n\r\n0\r\n\r\n")
        ],
      map
        (headRow 413)
        [ ("a length above the limit", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n"),
          ("a length beyond any number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
          ("a length that would wrap to 5", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nabcde")
        ],
      map
        (headRow 414)
        [ ("a target above the limit", C.concat ["GET /", C.replicate 200 'a', " HTTP/1.1\r\nHost: a\r\n\r\n"]),
          ("a request line without end", C.append "GET /" (C.replicate 3000 'a'))
        ],
      map
        (headRow 417)
        [ ("an unknown expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\nContent-Length: 5\r\n\r\nabcde")
        ],
      map
        (headRow 431)
        [ ("a head above the limit", C.concat ["GET / HTTP/1.1\r\nHost: a\r\nX: ", C.replicate 1024 'a', "\r\n\r\n"]),
          ("a header without end", C.append "GET / HTTP/1.1\r\nHost: a\r\nX: " (C.replicate 3000 'a')),
          ("too many headers", C.concat ["GET / HTTP/1.1\r\nHost: a\r\n", C.concat (replicate 10 "X: b\r\n"), "\r\n"])
        ],
      map
        (headRow 501)
        [ ("an unknown coding before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        ],
      map
        (headRow 505)
        [ ("a later major version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
          ("an earlier major version", "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
          ("version 3", "GET / HTTP/3.1\r\nHost: a\r\n\r\n")
        ],
      map
        (bodyRow 400)
        [ ("a chunk size of letters", "ZZ\r\n\r\n0\r\n\r\n"),
          ("an empty chunk size", "\r\nabcde\r\n0\r\n\r\n"),
          ("a negative chunk size", "-1\r\nabcde\r\n0\r\n\r\n"),
          ("a chunk size with a prefix", "0x5\r\nabcde\r\n0\r\n\r\n"),
          ("a chunk size after a space", " 5\r\nabcde\r\n0\r\n\r\n"),
          ("a chunk size in two words", "5 5\r\nabcde\r\n0\r\n\r\n"),
          ("a bare LF after a chunk size", "5\nabcde\r\n0\r\n\r\n"),
          ("a bare CR after a chunk size", "5\rabcde\r\n0\r\n\r\n"),
          ("more data than the chunk's size", "5\r\nabcdef\r\n0\r\n\r\n"),
          ("a bare LF after a chunk's data", "5\r\nabcde\n0\r\n\r\n"),
          ("NUL in a chunk extension", "5;a=\0\r\nabcde\r\n0\r\n\r\n"),
          ("a bare LF in a chunk extension", "5;a=b\nabcde\r\n0\r\n\r\n"),
          ("endless chunk extensions", C.concat ["5;a=", C.replicate 100 'a', "\r\nabcde\r\n0\r\n\r\n"]),
          ("a trailer without colon", "0\r\nX\r\n\r\n"),
          ("a folded trailer", "0\r\nX: a\r\n b\r\n\r\n"),
          ("a bare LF after a trailer", "0\r\nX: a\n\r\n"),
          ("a bare LF at the end of the trailers", "0\r\nX: a\r\n\n")
        ],
      map
        (bodyRow 413)
        [ ("a chunk above the limit", "186A1\r\nabcde"),
          ("a chunk size beyond any number", "FFFFFFFFFFFFFFFFFFFFF\r\nabcde\r\n0\r\n\r\n"),
          ("a chunk size that would wrap to 5", "10000000000000005\r\nabcde\r\n0\r\n\r\n")
        ],
      map
        (bodyRow 431)
        [ ("trailers above the limit", C.concat ["0\r\nX: ", C.replicate 200 'a', "\r\n\r\n"])
        ]
    ]
  where
    headRow status (what, input) = Row what status False input
    bodyRow status (what, input) =
      Row what status True ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" <> input)
