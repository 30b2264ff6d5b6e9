{-# LANGUAGE OverloadedStrings #-}

-- | Every kind of response, for every method, version and Connection header: what a client sees, and
-- that Debian's Warp says the same.
module Responses (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (IOException, SomeException, catch, throwIO, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Char (toLower)
import Data.List (sort)
import Data.Maybe (isJust)
import Fixture
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Socket (SockAddr)
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import System.Process (readProcess)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "responses"
    [ testGroup "kind, method, version, Connection" (map table kinds),
      testGroup "kind, method, over HTTP/2" (map tableHttp2 kinds),
      testGroup "headers" headersTests,
      testGroup "streams" streams,
      testGroup "raw" raws
    ]

-- | A kind of response.
data Kind = Kind
  { kindName :: String,
    kindResponse :: Response,
    kindCode :: Int,
    -- | What a GET hears.
    kindBody :: ByteString,
    -- | The length that a GET over HTTP/1.1 is told; 'Nothing' if the content is chunked.
    kindLength :: Maybe Int,
    -- | Whether the application itself announces the length, as Warp needs it.
    kindAnnounced :: Bool
  }

kinds :: [Kind]
kinds =
  [ Kind "a small builder" (responseBuilder status200 text "hello") 200 "hello" (Just 5) False,
    Kind "an empty builder" (responseBuilder status200 [] mempty) 200 "" (Just 0) False,
    Kind "a lazy string" (responseLBS status201 text (L.fromChunks ["a", "bc", "def"])) 201 "abcdef" (Just 6) False,
    Kind "a builder with its length" (responseBuilder status200 ((hContentLength, "5") : text) "hello") 200 "hello" (Just 5) True,
    Kind "a large builder" (responseBuilder status200 text (byteString large)) 200 large Nothing False,
    Kind "many small pieces" (responseBuilder status200 text (foldMap intDec [1 .. 20000])) 200 digits Nothing False,
    Kind "a large builder with its length" (responseLBS status200 [(hContentLength, C.pack (show (B.length large)))] (L.fromStrict large)) 200 large (Just (B.length large)) True,
    Kind "a stream" (responseStream status200 text (\write flush -> write "one " >> flush >> write "two" >> write mempty)) 200 "one two" Nothing False,
    Kind "a stream with its length" (responseStream status200 [(hContentLength, "7")] (\write _ -> write "one " >> write "two")) 200 "one two" (Just 7) True,
    Kind "a large stream" (responseStream status200 text (\write _ -> forM_ [1 :: Int .. 50] (\_ -> write (byteString (B.replicate 2000 120))))) 200 (B.replicate 100000 120) Nothing False,
    Kind "an empty stream" (responseStream status200 [] (\_ _ -> pure ())) 200 "" Nothing False,
    Kind "other words" (responseLBS (mkStatus 299 "Quite fine") [] "x") 299 "x" (Just 1) False,
    Kind "an error" (responseLBS status503 [(hRetryAfter', "9")] "later") 503 "later" (Just 5) False
  ]
  where
    text = [(hContentType, "text/plain")]
    hRetryAfter' = "Retry-After"
    large = B.pack (take 100000 (cycle [97 .. 122]))
    digits = L.toStrict (toLazyByteString (foldMap intDec [1 .. 20000]))

data Wish = None | Close | KeepAlive
  deriving stock (Eq, Show)

table :: Kind -> TestTree
table kind = testCase (kindName kind) $
  forM_ verbs $ \verb ->
    forM_ [1, 0 :: Int] $ \minor ->
      forM_ [None, Close, KeepAlive] $ \wish -> do
        let request = requestOf minor
            requestOf version =
              C.concat
                [ verb,
                  " / HTTP/1.",
                  C.pack (show (version :: Int)),
                  "\r\nHost: a\r\n",
                  case wish of None -> ""; Close -> "Connection: close\r\n"; KeepAlive -> "Connection: Keep-Alive\r\n",
                  if verb == "POST" then "Content-Length: 3\r\n\r\nabc" else "\r\n"
                ]
            application _ respond = respond (kindResponse kind)
            what = show (verb, minor, wish)
        (ours, kept) <- withHeddle application (converse verb request)
        -- Warp repeats the client's version, and says the same otherwise.
        (theirs, _) <- withWarp application (converse verb (requestOf 1))
        assertEqual (what ++ ": code") (kindCode kind) (answerCode ours)
        assertEqual (what ++ ": body") (if verb == "HEAD" then "" else kindBody kind) (answerBody ours)
        assertBool (what ++ ": whole") (answerWhole ours)
        -- What the application said is said, and nothing that Warp says is missing.
        assertEqual (what ++ ": as Warp") (common theirs) (common ours)
        -- The framing.
        let sized = maybe False (const True) (kindLength kind)
            told = answerHeader ours "content-length"
            chunked = answerHeader ours "transfer-encoding"
        if sized
          then do
            assertEqual (what ++ ": length") (fmap (C.pack . show) (kindLength kind)) told
            assertEqual (what ++ ": coding") Nothing chunked
          else do
            assertEqual (what ++ ": no length") Nothing told
            assertEqual (what ++ ": coding") (if minor == 1 then Just "chunked" else Nothing) chunked
        -- The connection.
        let stays = case wish of
              Close -> False
              None -> minor == 1
              KeepAlive -> minor == 1 || sized || verb == "HEAD"
        assertEqual (what ++ ": kept") stays kept
        assertEqual (what ++ ": Connection") (if stays then (if minor == 0 then Just "keep-alive" else Nothing) else Just "close") (fmap (C.map toLower) (answerHeader ours "connection"))
        when (kindAnnounced kind && verb /= "HEAD") $ assertEqual (what ++ ": Warp's body") (answerBody theirs) (answerBody ours)
  where
    common answer =
      ( answerCode answer,
        answerBody answer,
        sort [h | h@(n, _) <- answerHeaders answer, n `notElem` ["date", "server", "connection", "transfer-encoding", "content-length"]]
      )

verbs :: [ByteString]
verbs = ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "BREW"]

-- With curl as the client, and by prior knowledge, as Warp speaks it, too.
tableHttp2 :: Kind -> TestTree
tableHttp2 kind = testCase (kindName kind) $
  withHeddleSettings Heddle.defaultSettings application $ \ours -> withWarpServer application $ \theirs ->
    forM_ verbs $ \verb -> do
      (first, fields, body) <- byHttp2 ours verb `catch` \(e :: SomeException) -> unexpected "an answer of ours" (show e)
      -- Warp 3.3 at times never answers a POST of HTTP/2 whose body it has not read.
      (theirFirst, theirFields, theirBody) <- again 3 (byHttp2 theirs verb) `catch` \(e :: SomeException) -> unexpected "an answer of Warp" (show e)
      let what = C.unpack verb
      assertEqual (what ++ ": code") ("HTTP/2 " <> C.pack (show (kindCode kind)) <> " ") first
      assertEqual (what ++ ": body") (if verb == "HEAD" then "" else kindBody kind) body
      assertEqual (what ++ ": as Warp") (theirFirst, common theirFields, theirBody) (first, common fields, body)
      assertEqual (what ++ ": length") (C.pack . show <$> kindLength kind) (lookup "content-length" fields)
      assertEqual (what ++ ": no header of HTTP/1.1") [] [n | (n, _) <- fields, n `elem` ["connection", "transfer-encoding", "keep-alive"]]
  where
    again tries act = act `catch` \(e :: IOException) -> if tries > (1 :: Int) then again (tries - 1) act else throwIO e
    application _ respond = respond (kindResponse kind)
    common fields = sort [h | h@(n, _) <- fields, n `notElem` ["date", "server", "content-length"]]

-- The first line, the fields and the body of an answer.
byHttp2 :: SockAddr -> ByteString -> IO (ByteString, [(ByteString, ByteString)], ByteString)
byHttp2 address verb = do
  said <- C.pack <$> readProcess "curl" (["-sS", "--max-time", "20", "--http2-prior-knowledge", "-D", "-"] ++ asked ++ ["http://" ++ show address ++ "/"]) ""
  let (top, rest) = B.breakSubstring "\r\n\r\n" said
  case lines' top of
    first : fields -> pure (first, [(n, B.drop 2 v) | (n, v) <- map (C.break (== ':')) fields], B.drop 4 rest)
    [] -> unexpected "an answer" (C.unpack said)
  where
    asked
      | verb == "HEAD" = ["-I", "-o", "/dev/null"]
      | verb == "POST" = ["--data-binary", "abc"]
      | otherwise = ["-X", C.unpack verb]
    lines' = map (C.filter (/= '\r')) . C.lines

-- The answer to a request, and whether the connection stays.
converse :: ByteString -> ByteString -> Client -> IO (Answer, Bool)
converse verb request client = do
  say client request
  first <- hear client verb >>= maybe (unexpected "an answer" "the end") pure
  say client (get "/again")
  second <- try (hear client "GET")
  pure (first, either (\(_ :: SomeException) -> False) isJust second)

headersTests :: [TestTree]
headersTests =
  [ testCase "204 and 304 have no content and no framing" $
      forM_ [status204, status304] $ \status ->
        withHeddle (\_ respond -> respond (responseLBS status [] "content")) $ \client -> do
          forM_ [1 :: Int, 2] $ \_ -> do
            say client (get "/")
            answer <- hearAnswer client
            (answerCode answer, answerBody answer) @?= (statusCode status, "")
            answerHeader answer "content-length" @?= Nothing
            answerHeader answer "transfer-encoding" @?= Nothing,
    testCase "a 304 may say the length of what it stands for" $
      answerTo (responseLBS status304 [(hContentLength, "17")] "") >>= \answer -> answerHeader answer "content-length" @?= Just "17",
    testCase "an application's Date and Server win" $ do
      answer <- answerTo (responseLBS status200 [(hDate, "Thu, 01 Jan 1970 00:00:00 GMT"), ("SERVER", "mine")] "x")
      answerHeader answer "date" @?= Just "Thu, 01 Jan 1970 00:00:00 GMT"
      answerHeader answer "server" @?= Just "mine",
    testCase "otherwise both are ours" $ do
      answer <- answerTo (responseLBS status200 [] "x")
      assertBool "date" (isJust (answerHeader answer "date"))
      answerHeader answer "server" @?= Just "heddle",
    testCase "an application's Connection: close closes, and is told once" $
      withHeddle (\_ respond -> respond (responseLBS status200 [(hConnection, "X-Mine, Close")] "x")) $ \client -> do
        say client (get "/" <> get "/leftover")
        answers <- hearAll client
        map answerCode answers @?= [200]
        [v | answer <- answers, ("connection", v) <- answerHeaders answer] @?= ["X-Mine", "close"],
    testCase "other options of Connection are passed on" $ do
      answer <- answerTo (responseLBS (mkStatus 426 "Upgrade Required") [(hConnection, "Upgrade"), ("Upgrade", "websocket")] "")
      answerHeader answer "connection" @?= Just "Upgrade",
    testCase "Transfer-Encoding is ours" $ do
      answer <- answerTo (responseLBS status200 [("Transfer-Encoding", "chunked")] "abc")
      (answerHeader answer "transfer-encoding", answerHeader answer "content-length", answerBody answer) @?= (Nothing, Just "3", "abc"),
    testCase "a Content-Length that is none is left out" $ do
      answer <- answerTo (responseLBS status200 [(hContentLength, "3, 4")] "abc")
      (answerHeader answer "content-length", answerBody answer) @?= (Just "3", "abc"),
    testCase "the length announced for HEAD survives" $
      withHeddle (\_ respond -> respond (responseLBS status200 [(hContentLength, "12345")] "")) $ \client -> do
        say client "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
        answer <- hear client "HEAD" >>= maybe (unexpected "an answer" "the end") pure
        answerHeader answer "content-length" @?= Just "12345",
    testCase "words of a status that would end its line are cut" $ do
      answer <- answerTo (responseLBS (mkStatus 200 "Fine\r\nEvil: yes") [] "x")
      answerHeader answer "evil" @?= Nothing
      answerCode answer @?= 200
  ]

answerTo :: Response -> IO Answer
answerTo response = withHeddle (\_ respond -> respond response) $ \client -> say client (get "/") >> hearAnswer client

streams :: [TestTree]
streams =
  [ testCase "what was flushed arrives while the stream goes on" $ do
      gate <- newEmptyMVar
      let application _ respond = respond . responseStream status200 [] $ \write flush -> do
            write "first"
            flush
            takeMVar gate
            write "second"
      withHeddle application $ \client -> do
        say client (get "/")
        first <- hearUntil client "first"
        assertBool "not the second" (not ("second" `B.isInfixOf` first))
        putMVar gate ()
        rest <- hearUntil client "0\r\n\r\n"
        assertBool "the second" ("second" `B.isInfixOf` rest),
    testCase "many threads write whole pieces" $ do
      let application _ respond = respond . responseStream status200 [] $ \write flush -> do
            dones <- mapM (\n -> do d <- newEmptyMVar; d <$ forkIO (forM_ [1 :: Int .. 50] (\_ -> write (byteString (B.replicate 100 n)) >> flush) >> putMVar d ())) [97 .. 104]
            mapM_ takeMVar dones
      answer <- withHeddle application $ \client -> say client (get "/") >> hearAnswer client
      B.length (answerBody answer) @?= 8 * 50 * 100
      assertBool "whole" (all ((== 0) . (`rem` 100) . B.length) (B.group (answerBody answer))),
    testCase "a stream reads the body it answers" $ do
      let application request respond = respond . responseStream status200 [] $ \write flush ->
            let go = do
                  piece <- getRequestBodyChunk request
                  unless (B.null piece) (write (byteString piece) >> flush >> go)
             in go
      withHeddle application $ \client -> do
        say client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        void (hearUntil client "abc")
        say client "4\r\ndefg\r\n0\r\n\r\n"
        rest <- hearUntil client "0\r\n\r\n"
        assertBool "the rest" ("defg" `B.isInfixOf` rest)
  ]

raws :: [TestTree]
raws =
  [ testCase "a raw response has the connection, and what came with the head" $
      forM_ [withHeddle echoRaw, withWarp echoRaw] $ \on -> on $ \client -> do
        say client (get "/" <> "first")
        void (hearUntil client "<first>")
        say client "second"
        void (hearUntil client "<second>")
        finish client
        hearUntil client "bye" >>= \rest -> B.drop (B.length rest - 3) rest @?= "bye"
        hearEnd client,
    testCase "after it the connection closes" $
      withHeddle (\_ respond -> respond (responseRaw (\_ send -> send "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") (responseLBS status500 [] ""))) $ \client -> do
        say client (get "/" <> get "/")
        (bytes, _) <- hearRest client
        bytes @?= "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
  ]
  where
    echoRaw _ respond = respond . flip responseRaw (responseLBS status500 [] "") $ \receive send ->
      let go = do
            bytes <- receive
            if B.null bytes then send "bye" else send (C.concat ["<", bytes, ">"]) >> go
       in go

-- Raw bytes until they end so.
hearUntil :: Client -> ByteString -> IO ByteString
hearUntil client end = go ""
  where
    go seen
      | end `B.isInfixOf` seen = pure seen
      | otherwise = do
        more <- hearSome client
        if B.null more then unexpected ("bytes with " ++ show end) (show seen) else go (seen <> more)
