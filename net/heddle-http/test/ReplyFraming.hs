{-# LANGUAGE OverloadedStrings #-}

-- | What a handler must not say is not sent, whatever kind of reply says it, over HTTP/1.1 and HTTP/2.
module ReplyFraming (tests) where

import Control.Exception (SomeException, try)
import Control.Monad (forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.Maybe (isJust)
import Data.Word (Word16)
import EngineFixture
import Foreign.Storable (pokeByteOff)
import H2Fixture (portOf, program)
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Exception (describeException)
import Heddle.Prim.File (closeFile, openFile, readOnly)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Test.Tasty
import Test.Tasty.HUnit (Assertion, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "what a handler must not say"
    [ testGroup "framingOfTheHandlerWasSent" (framing ++ [testCase "prebuilt replies without content" lengthless, testCase "close closes a connection of HTTP/1" closes, testCase "set from outside the reply" outside, testCase "interim responses" interims, testCase "tunnels" tunnels]),
      testGroup "namesThatAreNoTokensWereSent" [testCase name (refuses "its name is no token" [make [Header bad "x"] | bad <- names]) | (name, make) <- kinds],
      testGroup "statusesWithoutAnEndWereSent" [testCase name (refuses "only 200 to 999" [make (otherStatus code) | code <- codes]) | (name, make) <- ofStatus],
      testCase "negativeLengthsWereSent" (refuses "length or offset -" negative),
      testCase "contentOfStatus205WasSent" (refuses "status 205" (map pure with205)),
      testCase "status 205 without content is sent" without205
    ]

-- Kinds of replies -----------------------------------------------------------------

kinds :: [(String, [Header] -> IO Reply)]
kinds = [(name, make status200) | (name, make) <- ofEither]

ofStatus :: [(String, Status -> IO Reply)]
ofStatus = [(name, (`make` [])) | (name, make) <- ofEither]

-- Each has two bytes of content.
ofEither :: [(String, Status -> [Header] -> IO Reply)]
ofEither =
  [ ("Whole", \status given -> pure (Whole status given "ok")),
    ("Built", \status given -> pure (Built status given "ok")),
    ("BuiltOf", \status given -> pure (BuiltOf status given 2 "ok")),
    ("Stream", \status given -> pure (Stream status given (`writerPut` "ok"))),
    ("StreamOf", \status given -> pure (StreamOf status given 2 (`writerPut` "ok"))),
    ("Segments of bytes", \status given -> pure (Segments status given [SegmentBytes "o", SegmentBytes "k"] (pure ()))),
    ( "Segments of a file",
      \status given -> do
        fd <- fromIntegral <$> openFile "LICENSE" readOnly
        pure (Segments status given [SegmentFile fd 0 2] (void (closeFile fd)))
    ),
    ("Ready", \status given -> Ready <$> newPrebuilt "heddle" status given (ContentOf 2 (\p -> pokeByteOff p 0 (0x6b6f :: Word16))))
  ]

names :: [ByteString]
names = ["A A", "A:B", "\xe9", "", "A\t", "(a)", "A\0", "X\r\nY", "a/b", "\"a\""]

codes :: [Int]
codes = [0, 99, -5, 100, 101, 103, 199, 1000, 12345, minBound]

-- Asking ---------------------------------------------------------------------------

-- | Each reply, returned and sent while the handler runs, over each protocol: the status, the headers with names in lower case,
-- and the content. Over HTTP/1 the next request on the connection is answered as it must be.
asking :: Engine -> [Int] -> (String -> (Int, [(ByteString, ByteString)], ByteString) -> Assertion) -> Assertion
asking engine numbers check = forM_ numbers $ \i -> forM_ ["/now/", "/"] $ \way -> do
  let path = way <> C.pack (show i)
      what version = version ++ " " ++ C.unpack path
  withClient (engineAddress engine) $ \client -> do
    say client (get path)
    answer <- hearAnswer client
    unless (answerWhole answer) $ unexpected "a whole answer" (show answer)
    check (what "HTTP/1.1") (answerCode answer, answerHeaders answer, answerBody answer)
    unless (answerHeader answer "connection" == Just "close") $ do
      say client (get "/after")
      hearAnswer client >>= answersWith 200 "after"
  said <- C.pack <$> program "curl" ["-s", "-S", "-i", "--http2-prior-knowledge", "http://127.0.0.1:" ++ show (portOf (engineAddress engine)) ++ C.unpack path]
  let (top, content) = B.breakSubstring "\r\n\r\n" said
  case C.lines (C.filter (/= '\r') top) of
    first : fields
      | [(code, _)] <- reads (C.unpack (C.takeWhile isDigit (B.drop 7 first))) ->
        check (what "HTTP/2") (code, [(C.map toLower n, B.drop 2 v) | (n, v) <- map (C.break (== ':')) fields], B.drop 4 content)
    _ -> unexpected "a head" (show said)

-- Serve numbered replies.
serving :: [IO Reply] -> (Engine -> IO a) -> IO a
serving replies = withEngine Epoll tight $ \request -> do
  path <- target request
  case C.split '/' path of
    ["", i] | Just (n, _) <- C.readInt i -> replies !! n
    ["", "now", i] | Just (n, _) <- C.readInt i -> replies !! n >>= replyNow request >> pure (Replied status200)
    _ -> pure (Whole status200 [] "after")

-- Each is a 500 of the server's own, and reported.
refuses :: String -> [IO Reply] -> Assertion
refuses why replies = serving replies $ \engine -> do
  asking engine [0 .. length replies - 1] $ \what (code, fields, _) ->
    unless (code == 500 && lookup "content-type" fields == Just "text/plain; charset=utf-8") $
      unexpected ("a refusal of " ++ what) (show (code, fields))
  failuresAre engine (replicate (4 * length replies) why)

-- Framing --------------------------------------------------------------------------

framing :: [TestTree]
framing =
  [ testCase kind . serving [make (Header "X-Kept" "1" : given) | given <- sets] $ \engine -> do
      asking engine [0 .. length sets - 1] $ \what (code, fields, content) -> do
        let values name = [v | (n, v) <- fields, n == name]
        unless
          ( code == 200 && B.length content == 2 && values "x-kept" == ["1"]
              && values "content-length" `elem` [[], ["2"]]
              && values "transfer-encoding" == ["chunked" | null (values "content-length"), "HTTP/1.1" == take 8 what]
              && all (null . values) ["connection", "keep-alive", "proxy-connection"]
          )
          $ unexpected ("the server's own framing of " ++ what) (show (fields, content))
      failuresAre engine []
    | (kind, make) <- kinds
  ]
  where
    sets = map pure ours ++ [ours, concat (replicate 3 ours)]

ours :: [Header]
ours =
  [ Header "Content-Length" "99",
    Header "content-length" "0",
    Header "CONTENT-LENGTH" "2",
    Header "Content-Length" "none",
    Header "Transfer-Encoding" "chunked",
    Header "transfer-ENCODING" "gzip",
    Header "Connection" "keep-alive",
    Header "connection" " , Keep-Alive,",
    Header "Keep-Alive" "timeout=5",
    Header "Proxy-Connection" "keep-alive"
  ]

-- Statuses without content announce none, and a prebuilt reply without content ends at once.
lengthless :: Assertion
lengthless = serving replies $ \engine -> do
  asking engine [0 .. length replies - 1] $ \what (code, fields, content) -> do
    let wanted = if code == 200 then Just "0" else Nothing
    unless (B.null content && lookup "content-length" fields == wanted && not (isJust (lookup "transfer-encoding" fields))) $
      unexpected ("no content of " ++ what) (show (code, fields, content))
  failuresAre engine []
  where
    replies =
      [pure (Whole status ours "") | status <- [status204, status304]]
        ++ [pure (Stream status ours (`writerPut` "x")) | status <- [status204, status304]]
        ++ [Ready <$> newPrebuilt "" status ours NoContent | status <- [status200, status204, status304]]
        ++ [Ready <$> newPrebuilt "" status ours (ContentOf 2 (\p -> pokeByteOff p 0 (0x6b6f :: Word16))) | status <- [status204, status304]]

closes :: Assertion
closes = withEngine Epoll tight (\_ -> pure (Whole status200 [Header "CONNECTION" "x, Close"] "ok")) $ \engine -> do
  withClient (engineAddress engine) $ \client -> do
    say client (get "/1" <> get "/2")
    answers <- hearAll client
    map (\a -> (answerBody a, [v | ("connection", v) <- answerHeaders a])) answers @?= [("ok", ["x", "close"])]
  failuresAre engine []

outside :: Assertion
outside = withEngine Epoll tight handler $ \engine -> do
  withClient (engineAddress engine) $ \client -> do
    say client (get "/")
    hearAnswer client >>= answersWith 200 "refused"
  failuresAre engine []
  where
    handler request = do
      results <- mapM (\name -> try (replyWithHeader request name "1")) ["Content-Length", "transfer-encoding", "CONNECTION", "Keep-Alive", "A A"]
      pure (Whole status200 [] (if all (either (\(UnsafeHeader _) -> True) (const False)) results then "refused" else "taken"))

interims :: Assertion
interims = withEngine Epoll tight handler $ \engine -> do
  withClient (engineAddress engine) $ \client -> do
    say client (get "/")
    answer <- hearAnswer client
    answersWith 200 "ok" answer
    answerInterim answer @?= [103]
  -- curl shows the interim response.
  said <- program "curl" ["-s", "-S", "-i", "--http2-prior-knowledge", "http://127.0.0.1:" ++ show (portOf (engineAddress engine)) ++ "/"]
  let fields = [C.map toLower (C.takeWhile (/= ':') line) | line <- C.lines (C.pack said)]
  filter (`elem` ["content-length", "link", "transfer-encoding"]) fields @?= ["link", "content-length"]
  failuresAre engine []
  where
    handler request = do
      replyInterim request status103 (Header "Link" "</a>" : ours)
      pure (Whole status200 [] "ok")

tunnels :: Assertion
tunnels = withEngine Epoll tight handler $ \engine -> do
  forM_ ["/101", "/200"] $ \path -> withClient (engineAddress engine) $ \client -> do
    say client (get path)
    said <- C.map toLower . fst . B.breakSubstring "\r\n\r\n" <$> hearRest' client
    let fields = map (C.takeWhile (/= ':')) (drop 1 (C.lines said))
    filter (`elem` map (\(Header name _) -> C.map toLower name) ours) fields @?= ["connection"]
  forM_ ["/99", "/1000"] $ \path -> withClient (engineAddress engine) $ \client -> do
    say client (get path)
    hearAnswer client >>= (@?= 500) . answerCode
  failuresAre engine (replicate 2 "only 200 to 999")
  where
    handler request = do
      path <- target request
      let code = maybe 200 fst (C.readInt (B.drop 1 path))
      pure (Tunnel (Just (otherStatus code, Header "Upgrade" "x" : Header "Connection" "Upgrade" : ours)) (`duplexSend` "hello"))
    hearRest' client = fst <$> hearRest client

-- Lengths and status 205 -------------------------------------------------------------

negative :: [IO Reply]
negative =
  [pure (StreamOf status200 [] n (\_ -> pure ())) | n <- [-1, minBound]]
    ++ [pure (BuiltOf status200 [] n mempty) | n <- [-3, minBound]]
    ++ [pure (Segments status200 [] parts (pure ())) | parts <- [[SegmentFile 0 0 (-10)], [SegmentBytes "abcdefghijk", SegmentFile 0 0 (-10)], [SegmentFile 0 (-1) 1]]]
    ++ [Ready <$> newPrebuilt "" status200 [] (ContentOf (-1) (\_ -> pure ()))]

with205 :: [Reply]
with205 =
  [ Whole status205 [] "x",
    Built status205 [] (byteString "x"),
    Built status205 [] (byteString (B.replicate 300000 120)),
    BuiltOf status205 [] 1 "x",
    Stream status205 [] (`writerPut` "x"),
    Stream status205 [] (`writerBuild` "x"),
    StreamOf status205 [] 1 (`writerPut` "x"),
    Segments status205 [] [SegmentBytes "x"] (pure ())
  ]

without205 :: Assertion
without205 = serving replies $ \engine -> do
  asking engine [0 .. length replies - 1] $ \what (code, fields, content) ->
    unless (code == 205 && B.null content && lookup "content-length" fields == Just "0") $
      unexpected ("205 without content of " ++ what) (show (code, fields, content))
  made <- try (newPrebuilt "" status205 [] (ContentOf 1 (\_ -> pure ())))
  either (\e -> describeException (e :: SomeException)) (const "made") made @?= "cannot send the content of a reply of status 205, which has none"
  failuresAre engine []
  where
    replies =
      map
        pure
        [ Whole status205 ours "",
          Built status205 ours mempty,
          BuiltOf status205 [] 0 mempty,
          Stream status205 ours (\w -> writerPut w "" >> writerBuild w mempty >> writerFlush w),
          StreamOf status205 [] 0 (`writerPut` ""),
          Segments status205 [] [SegmentBytes ""] (pure ())
        ]
        ++ [Ready <$> newPrebuilt "" status205 [] NoContent]
