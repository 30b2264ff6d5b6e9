{-# LANGUAGE OverloadedStrings #-}

-- | What a connection says: keep-alive, pipelines, bodies, replies.
module EngineConversation
  ( tests,
  )
where

import Control.Exception (throwIO, try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import EngineFixture
import Foreign.Storable (pokeByteOff)
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Numeric (showHex)
import System.Directory (removeFile)
import System.IO (hClose, openBinaryTempFile)
import System.Posix.IO (OpenMode (..), closeFd)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "conversation"
    [ onBothBackends "keeping and closing" keeping,
      onBothBackends "pipelines" pipelines,
      onBothBackends "request bodies" bodies,
      onBothBackends "100 Continue" continues,
      onBothBackends "targets" targets,
      onBothBackends "replies" replies
    ]

-- Keeping and closing ------------------------------------------------------------

keeping :: BackendChoice -> [TestTree]
keeping backend =
  [ testCase "HTTP/1.1 stays" $
      talk backend echo $ \client -> do
        forM_ ["/1", "/2", "/3" :: ByteString] $ \t -> do
          say client (get t)
          answer <- hearAnswer client
          answersWith 200 ("GET " <> t <> "\n") answer
          answerHeader answer "connection" @?= Nothing
        finish client
        hearEnd client,
    testCase "Connection: close closes" $
      closesAfter "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    testCase "Connection: x, CLOSE closes" $
      closesAfter "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
    testCase "close in a second Connection line closes" $
      closesAfter "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n",
    testCase "HTTP/1.0 closes" $ closesAfter "GET /1 HTTP/1.0\r\n\r\n",
    testCase "HTTP/1.0 with keep-alive stays, and is told" $
      talk backend echo $ \client -> do
        forM_ [1 :: Int, 2] $ \_ -> do
          say client "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
          answer <- hearAnswer client
          answersWith 200 "GET /1\n" answer
          answerHeader answer "connection" @?= Just "keep-alive"
        say client (get "/2")
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "HTTP/1.0 with keep-alive and close closes" $
      closesAfter "GET /1 HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
    testCase "one empty line before a request is skipped" $
      talk backend echo $ \client -> do
        say client ("\r\n" <> get "/1" <> "\r\n" <> get "/2")
        hearAnswer client >>= answersWith 200 "GET /1\n"
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "the client's end after a request does not cost its answer" $
      talk backend echo $ \client -> do
        say client (get "/1" <> get "/2")
        finish client
        hearBodies client >>= (@?= ["GET /1\n", "GET /2\n"]),
    testCase "requests may be fewer than their connections" $
      withEngine backend tight echo $ \engine ->
        forM_ [1 :: Int .. 50] $ \_ -> withClient (engineAddress engine) $ \_ -> pure ()
  ]
  where
    closesAfter sent = talk backend echo $ \client -> do
      say client (sent <> get "/leftover")
      answers <- hearAll client
      map answerBody answers @?= ["GET /1\n"]
      map (`answerHeader` "connection") answers @?= [Just "close"]

talk :: BackendChoice -> Handler -> (Client -> IO a) -> IO a
talk backend handler act =
  withEngine backend tight handler $ \engine -> do
    r <- withClient (engineAddress engine) act
    failuresAre engine []
    pure r

-- Pipelines ---------------------------------------------------------------------

pipelines :: BackendChoice -> [TestTree]
pipelines backend =
  [ testCase "a thousand requests in one piece" $
      talk backend echo $ \client -> do
        let names = [C.pack ('/' : show i) | i <- [1 :: Int .. 1000]]
        say client (B.concat (map get names))
        forM_ names $ \t -> hearAnswer client >>= answersWith 200 ("GET " <> t <> "\n"),
    testCase "byte by byte" $
      talk backend echo $ \client -> do
        let names = ["/1", "/2", "/3"]
        sayPieces client (map B.singleton (B.unpack (B.concat (map get names))))
        forM_ names $ \t -> hearAnswer client >>= answersWith 200 ("GET " <> t <> "\n"),
    testCase "replies larger than the output buffer keep their order" $
      talk backend (fmap (Whole status200 []) . filler) $ \client -> do
        let sizes = [1, 9000, 2, 8191, 8192, 8193, 100000, 3]
        say client (B.concat [get (C.pack ('/' : show n)) | n <- sizes])
        forM_ sizes $ \n -> do
          answer <- hearAnswer client
          B.length (answerBody answer) @?= n,
    testProperty "splittingNeverChangesAnswers: any requests, cut anywhere" . withMaxSuccess 200 $
      forAll (listOf1 validRequest) $ \requests -> forAll cutting $ \cuts ->
        ioProperty $ do
          withEngine backend tight echo $ \engine ->
            withClient (engineAddress engine) $ \client -> do
              sayPieces client (slices cuts (B.concat (map fst requests)))
              finish client
              answers <- hearAll client
              map answerBody answers @?= map snd requests
              all ((== 200) . answerCode) answers @?= True
          pure True
  ]
  where
    filler r = do
      t <- target r
      n <- maybe (throwIO (userError "no size")) (pure . fst) (C.readInt (B.drop 1 t))
      pure (C.replicate n 'x')
    cutting = cycle <$> listOf1 (frequency [(3, choose (1, 4)), (3, choose (5, 40)), (1, choose (41, 4000))])
    slices _ b | B.null b = []
    slices [] b = [b]
    slices (n : ns) b = B.take n b : slices ns (B.drop n b)

-- A valid request, and what 'echo' answers.
validRequest :: Gen (ByteString, ByteString)
validRequest = do
  name <- C.pack . ('/' :) <$> resize 12 (listOf (elements "abc/%20.~"))
  let t = C.filter (/= '%') name
  extra <- elements ["", "X: y\r\n", "X:\t \r\n", "Cookie: a=b; c=\"d\"\r\n", "x-long: " <> C.replicate 300 'v' <> "\r\n"]
  body <- B.pack <$> resize 600 (listOf arbitrary)
  let start m = C.concat [m, " ", t, " HTTP/1.1\r\nHost: a\r\n", extra]
      answer m b = C.concat [m, " ", t, "\n", b]
  oneof
    [ pure (start "GET" <> "\r\n", answer "GET" ""),
      pure (C.concat [start "PUT", "Content-Length: ", C.pack (show (B.length body)), "\r\n\r\n", body], answer "PUT" body),
      do
        chunked <- chunkedOf body
        pure (C.concat [start "POST", "Transfer-Encoding: chunked\r\n\r\n", chunked], answer "POST" body)
    ]

chunkedOf :: ByteString -> Gen ByteString
chunkedOf body
  | B.null body = do
    trailer <- elements ["", "T: x\r\n", "T: x\r\nU:\r\n"]
    zeros <- elements ["0", "000"]
    pure (C.concat [zeros, "\r\n", trailer, "\r\n"])
  | otherwise = do
    n <- choose (1, B.length body)
    extension <- elements ["", ";a", ";a=b", "; a=\"b c\""]
    rest <- chunkedOf (B.drop n body)
    pure (C.concat [C.pack (showHex n ""), extension, "\r\n", B.take n body, "\r\n", rest])

-- Request bodies ------------------------------------------------------------------

bodies :: BackendChoice -> [TestTree]
bodies backend =
  [ testCase "a sized body, and the request after it" $
      talk backend echo $ \client -> do
        say client ("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" <> get "/2")
        hearAnswer client >>= answersWith 200 "POST /1\nabc"
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "an empty sized body" $
      talk backend echo $ \client -> do
        say client ("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" <> get "/2")
        hearAnswer client >>= answersWith 200 "POST /1\n"
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "chunks with extensions and trailers, and the request behind them" $
      talk backend echo $ \client -> do
        say client $
          "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n3;x=y\r\nabc\r\n00a\r\ndefghijklm\r\n0\r\nHost: b\r\nContent-Length: 9\r\n\r\n"
            <> get "/2"
        hearAnswer client >>= answersWith 200 "POST /1\nabcdefghijklm"
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "a body many times the buffer" $
      talk backend echo $ \client -> do
        let body = C.pack (take 99999 (cycle "0123456789abcdef"))
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n", body, get "/2"])
        hearAnswer client >>= answersWith 200 ("POST /1\n" <> body)
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "a body at the limit is read, one byte more is refused" $
      talk backend echo $ \client -> do
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n", C.replicate 100000 'x', "\r\n0\r\n\r\n"])
        hearAnswer client >>= answersWith 200 ("POST /1\n" <> C.replicate 100000 'x')
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n", C.replicate 100000 'x', "\r\n1\r\nx\r\n0\r\n\r\n"])
        hearCodes client >>= (@?= [413]),
    testCase "readWholeBody refuses beyond its own limit with 413" $
      withEngine backend tight (\r -> Whole status200 [] <$> readWholeBody r 10) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nabcdefghijk" <> get "/2")
          hearCodes client >>= (@?= [413]),
    testCase "a small body left unread is dropped, and the connection stays" $
      talk backend ignoring $ \client -> do
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", C.replicate 1000 'x', get "/2"])
        hearAnswer client >>= answersWith 200 "/1"
        hearAnswer client >>= answersWith 200 "/2",
    testCase "a small chunked body left unread is dropped, trailers and all" $
      talk backend ignoring $ \client -> do
        say client ("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n" <> get "/2")
        hearAnswer client >>= answersWith 200 "/1"
        hearAnswer client >>= answersWith 200 "/2",
    testCase "unreadBodyResetsTheAnswer: a large body left unread closes, and the answer arrives whole" $
      talk backend ignoring $ \client -> do
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", C.replicate 90000 'x', get "/2"])
        answers <- hearAll client
        map answerBody answers @?= ["/1"]
        map (`answerHeader` "connection") answers @?= [Just "close"],
    testCase "a large chunked body left unread closes" $
      talk backend ignoring $ \client -> do
        say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n", C.replicate 8192 'x', "\r\n0\r\n\r\n", get "/2"])
        answers <- hearAll client
        map answerBody answers @?= ["/1"]
        map (`answerHeader` "connection") answers @?= [Just "close"],
    testCase "a body read by halves: the rest is dropped" $
      talk backend (fmap (Whole status200 []) . readBody) $ \client -> do
        say client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
        hearAnswer client >>= answersWith 200 "abc"
        say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
        hearAnswer client >>= answersWith 200 "x",
    testCase "a handler that catches a malformed body answers, and the connection closes" $
      talk backend (\r -> Whole status200 [] . either (\e -> C.pack (show (e :: BodyError))) id <$> try (readWholeBody r 100)) $ \client -> do
        say client ("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n" <> get "/2")
        answers <- hearAll client
        map answerCode answers @?= [200]
        map (`answerHeader` "connection") answers @?= [Just "close"]
  ]
  where
    ignoring r = Whole status200 [] <$> target r

-- 100 Continue ---------------------------------------------------------------------

continues :: BackendChoice -> [TestTree]
continues backend =
  [ testCase "is said when the handler reads" $
      talk backend echo $ \client -> do
        say client expecting
        ok <- hearsWithin client 20000000
        ok @?= True
        say client "abc"
        answer <- hearAnswer client
        answerInterim answer @?= [100]
        answersWith 200 "POST /1\nabc" answer
        say client (get "/2")
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "is said once for a chunked body" $
      talk backend echo $ \client -> do
        say client "POST /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        ok <- hearsWithin client 20000000
        ok @?= True
        sayPieces client ["1\r\na\r\n", "1\r\nb\r\n", "0\r\n\r\n"]
        answer <- hearAnswer client
        answerInterim answer @?= [100]
        answersWith 200 "POST /1\nab" answer,
    testCase "is not said when the handler does not read; the connection closes" $
      talk backend (\_ -> pure (Whole status403 [] "no")) $ \client -> do
        say client expecting
        answers <- hearAll client
        map answerCode answers @?= [403]
        map answerInterim answers @?= [[]]
        map (`answerHeader` "connection") answers @?= [Just "close"],
    testCase "a body that comes unasked is read" $
      talk backend echo $ \client -> do
        say client (expecting <> "abc" <> get "/2")
        hearAnswer client >>= answersWith 200 "POST /1\nabc"
        hearAnswer client >>= answersWith 200 "GET /2\n",
    testCase "is not said to HTTP/1.0" $
      talk backend echo $ \client -> do
        sayPieces client ["POST /1 HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", "abc"]
        answers <- hearAll client
        map answerInterim answers @?= [[]]
        map answerBody answers @?= ["POST /1\nabc"],
    testCase "is not said without a body" $
      talk backend echo $ \client -> do
        say client "GET /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"
        answer <- hearAnswer client
        answerInterim answer @?= []
        answersWith 200 "GET /1\n" answer
  ]
  where
    expecting = "POST /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"

-- Targets ----------------------------------------------------------------------------

targets :: BackendChoice -> [TestTree]
targets backend =
  [ testCase "queryKeptItsQuestionMark: origin form" $ understood "GET /p%20q?x=y&z HTTP/1.1\r\nHost: a:80\r\n\r\n" "OriginForm|/p%20q|x=y&z|a:80",
    testCase "absolute form: its host counts, not the header's" $
      understood "GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n" "AbsoluteForm|/p|q|b:81",
    testCase "OPTIONS *" $ understood "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n" "AsteriskForm|||a",
    testCase "CONNECT" $ understood "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n" "AuthorityForm|||b:443",
    testCase "an empty Host" $ understood "GET / HTTP/1.1\r\nHost:\r\n\r\n" "OriginForm|/||",
    testCase "an unknown method reaches the handler" $
      talk backend echo $ \client -> do
        say client "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"
        hearAnswer client >>= answersWith 200 "BREW /pot\n"
  ]
  where
    understood sent expected = talk backend describe $ \client -> do
      say client sent
      hearAnswer client >>= answersWith 200 expected
    describe r = do
      f <- form r
      p <- rawPath r
      q <- query r
      h <- host r
      pure (Whole status200 [] (B.intercalate "|" [C.pack (show f), p, q, h]))

-- Replies ------------------------------------------------------------------------------

replies :: BackendChoice -> [TestTree]
replies backend =
  [ testCase "HEAD is answered as GET, without the content" $
      talk backend echoNothing $ \client -> do
        say client ("HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\n" <> get "/1")
        Just bare <- hear client "HEAD"
        full <- hearAnswer client
        answerBody bare @?= ""
        answerBody full @?= "twelve bytes"
        answerHeader bare "content-length" @?= Just "12"
        map fst (answerHeaders bare) @?= map fst (answerHeaders full),
    testCase "every answer is dated and named" $
      talk backend echo $ \client -> do
        say client (get "/1")
        answer <- hearAnswer client
        answerHeader answer "server" @?= Just "heddle"
        fmap B.length (answerHeader answer "date") @?= Just 29,
    testCase "204 and 304 have no content and no length" $
      forM_ [status204, status304] $ \status ->
        talk backend (\_ -> pure (Whole status [] "never sent")) $ \client -> do
          say client (get "/1" <> get "/2")
          forM_ [1 :: Int, 2] $ \_ -> do
            answer <- hearAnswer client
            answersWith (statusCode status) "" answer
            answerHeader answer "content-length" @?= Nothing,
    testCase "a stream to HTTP/1.1 is chunked, and the connection stays" $
      talk backend streaming $ \client -> do
        say client (get "/1" <> get "/2")
        forM_ [1 :: Int, 2] $ \_ -> do
          answer <- hearAnswer client
          answersWith 200 streamed answer
          answerHeader answer "transfer-encoding" @?= Just "chunked",
    testCase "continueWasWrittenIntoTheStream: a stream that reads the body is announced before its head" $
      talk backend copying $ \client -> do
        say client "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        say client ("12345" <> get "/next")
        answer <- hearAnswer client
        answersWith 200 "12345" answer
        answerInterim answer @?= [100]
        hearAnswer client >>= answersWith 200 "",
    testCase "streamFoundNoBody: a stream's action reads what the handler left" $
      talk backend copying $ \client -> do
        say client ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" <> get "/next")
        hearAnswer client >>= answersWith 200 "abcde"
        hearAnswer client >>= answersWith 200 "",
    testCase "a stream to HTTP/1.0 ends by closing, though the client would keep" $
      talk backend streaming $ \client -> do
        say client ("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" <> get "/2")
        answers <- hearAll client
        map answerBody answers @?= [streamed]
        map (`answerHeader` "transfer-encoding") answers @?= [Nothing]
        map (`answerHeader` "connection") answers @?= [Just "close"],
    testCase "a stream's HEAD does not run the stream" $
      talk backend (\_ -> pure (Stream status200 [] (\_ -> throwIO (userError "ran")))) $ \client -> do
        say client "HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\n"
        Just answer <- hear client "HEAD"
        answersWith 200 "" answer
        say client "HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\n"
        Just second <- hear client "HEAD"
        answersWith 200 "" second,
    testCase "a flushed piece of a stream arrives before the rest is made" $ do
      go <- newIORef False
      let handler _ =
            pure . Stream status200 [] $ \w -> do
              writerPut w "first"
              writerFlush w
              _ <- eventually "the test to go on" (readIORef go) id
              writerPut w "second"
      talk backend handler $ \client -> do
        say client (get "/1")
        ok <- hearsWithin client 20000000
        ok @?= True
        writeIORef go True
        hearAnswer client >>= answersWith 200 "firstsecond",
    testCase "segments: bytes and parts of a file" $
      withFile' "0123456789" $ \path -> do
        released <- newIORef (0 :: Int)
        let handler _ = do
              fd <- openDescriptor path ReadOnly
              pure (Segments status200 [] [SegmentBytes "<", SegmentFile fd 2 3, SegmentBytes "|", SegmentFile fd 0 10, SegmentBytes ">"] (closeFd fd >> modifyIORef' released (+ 1)))
        talk backend handler $ \client -> do
          say client (get "/1" <> "HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n" <> get "/3")
          hearAnswer client >>= answersWith 200 "<234|0123456789>"
          Just bare <- hear client "HEAD"
          answerHeader bare "content-length" @?= Just "16"
          hearAnswer client >>= answersWith 200 "<234|0123456789>"
          eventually "three releases" (readIORef released) (>= 3) >>= (@?= 3),
    testCase "shortFileIsNeverPadded: a file shorter than announced closes the connection" $
      withFile' "0123456789" $ \path -> do
        released <- newIORef (0 :: Int)
        let handler _ = do
              fd <- openDescriptor path ReadOnly
              pure (Segments status200 [] [SegmentFile fd 5 10] (closeFd fd >> modifyIORef' released (+ 1)))
        withEngine backend tight handler $ \engine ->
          withClient (engineAddress engine) $ \client -> do
            say client (get "/1")
            answer <- hearAnswer client
            answerWhole answer @?= False
            answerBody answer @?= "56789"
            answerHeader answer "content-length" @?= Just "10"
            hearEnd client
            eventually "the release" (readIORef released) (>= 1) >>= (@?= 1),
    testCase "a prebuilt reply, kept and closed, with and without content" $ do
      made <- newPrebuilt "heddle" status200 [Header "X" "y"] (ContentOf 3 (`pokeAll` "abc"))
      talk backend (\_ -> pure (Ready made)) $ \client -> do
        say client (get "/1" <> "HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.0\r\n\r\n")
        first <- hearAnswer client
        answersWith 200 "abc" first
        fmap B.length (answerHeader first "date") @?= Just 29
        Just bare <- hear client "HEAD"
        answersWith 200 "" bare
        answerHeader bare "content-length" @?= Just "3"
        final <- hearAnswer client
        answersWith 200 "abc" final
        answerHeader final "connection" @?= Just "close"
        hearEnd client,
    testCase "trailers follow chunks if the client has said TE: trailers" $
      talk backend (\_ -> pure (Stream status200 [] (\w -> writerPut w "abc" >> writerTrailers w [Header "X-Sum" "1", Header "Content-Length" "3", Header "Y" ""]))) $ \client -> do
        let rest te = do
              say client (C.concat ["GET / HTTP/1.1\r\nHost: a\r\n", te, "\r\n"])
              hearThrough "abc\r\n" client
        rest "TE: gzip;q=0.5 , Trailers\r\n" >> hearExactly client 20 >>= (@?= "0\r\nX-Sum: 1\r\nY: \r\n\r\n")
        forM_ ["", "TE: gzip\r\n", "TE: trailersx\r\n"] $ \te -> rest te >> hearExactly client 5 >>= (@?= "0\r\n\r\n")
        say client "GET / HTTP/1.0\r\nTE: trailers\r\n\r\n"
        (bytes, _) <- hearRest client
        snd (B.breakSubstring "\r\n\r\n" bytes) @?= "\r\n\r\nabc",
    testCase "trailers that would end a line early are a failure" $
      withEngine backend tight (\_ -> pure (Stream status200 [] (\w -> writerTrailers w [Header "X" "a\r\nb"]))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/")
          (bytes, _) <- hearRest client
          snd (B.breakSubstring "\r\n\r\n" bytes) @?= "\r\n\r\n"
        failuresAre engine ["\"X\""],
    testCase "headers longer than the output buffer" $ do
      let long = C.replicate 20000 'v'
      talk backend (\_ -> pure (Whole status200 [Header "X-Long" long] "abc")) $ \client -> do
        say client (get "/1" <> get "/2")
        forM_ [1 :: Int, 2] $ \_ -> do
          answer <- hearAnswer client
          answersWith 200 "abc" answer
          answerHeader answer "x-long" @?= Just long
  ]
  where
    echoNothing _ = pure (Whole status200 [] "twelve bytes")
    copying r = pure (Stream status200 [] (\w -> readWholeBody r 100 >>= writerPut w))
    streaming _ = pure (Stream status200 [] (\w -> mapM_ (writerPut w) streamPieces))
    streamPieces = ["a", "", "bcd", C.replicate 20000 'x', "e"]
    streamed = B.concat streamPieces
    hearThrough end client = go B.empty
      where
        go seen
          | end `B.isSuffixOf` seen = pure ()
          | otherwise = hearExactly client 1 >>= \b -> if B.null b then unexpected (show end) (show seen) else go (seen <> b)
    pokeAll p b = forM_ (zip [0 ..] (B.unpack b)) (uncurry (pokeByteOff p))

withFile' :: ByteString -> (FilePath -> IO a) -> IO a
withFile' content act = do
  (path, h) <- openBinaryTempFile "/tmp" "engine.bin"
  B.hPut h content
  hClose h
  r <- act path
  r <$ removeFile path
