{-# LANGUAGE OverloadedStrings #-}

-- | FastCGI and SCGI, against servers of ours that say what a test tells them to, byte by byte.
module FastCgiTest
  ( tests,
    Peer (..),
    withServerOf,
    record,
    wholeRequest,
    answering,
    reply,
    tellPeer,
    withFast,
    withFastOn,
    scgiServerWith,
    scgiServerOf,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (newEmptyMVar, newMVar, putMVar, takeMVar, withMVar)
import Control.Exception (SomeException, bracket, finally, try)
import Control.Monad (forM, forM_, forever, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Data.List (isInfixOf)
import GatewayFixture
import Heddle.Gateway.FastCgi
import Heddle.Gateway.FastCgi.Record
import Heddle.Gateway.Scgi
import Heddle.Http (Settings, defaultSettings)
import Heddle.IO (milliseconds, seconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty, (===))
import Test.Tasty.QuickCheck qualified as Q

tests :: TestTree
tests =
  testGroup
    "FastCGI and SCGI"
    [ testProperty "once: records are read as they were written" records,
      testProperty "once: pairs are read as they were written" pairs,
      testProperty "openings: in one copy as record by record" openings,
      testProperty "cut off pairs are no pairs" cutPairs,
      testCase "a request, its parameters and its body; the connection is kept" exchange,
      testCase "scripts with a suffix: SCRIPT_FILENAME, PATH_INFO, 404 without a file" scripts,
      testCase "aPathOfOneSlashWasDropped" oneSlash,
      testCase "standard error is told; management records are passed over" talk,
      testCase "bad records and endings: 502 or 503, and the connection is dropped" bad,
      testCase "a kept connection that was closed meanwhile: asked again" stale,
      testCase "aServerThatFailedHadNoStatusInLogs" failuresNoted,
      testCase "connectionsKeptTooLongOccupiedTheServer" expired,
      testCase "several servers: in turn, past one that is away" several,
      testCase "silence is 504; nothing is left of it" silent,
      testCase "the client goes: the connection closes" clientGoes,
      testCase "a body of 8 MB comes back while it goes" streaming,
      testCase "no more connections than allowed, then 503" bounded,
      testCase "interrupted anywhere: nothing is left" interruptions,
      testCase "slowUploadHeldTheConnection" slowUpload,
      testCase "faultyBodyPassedForAClientThatHadGone" faultyBodies,
      testCase "endAfterACoveredContentLengthWasNotRead" coveredLength,
      testCase "keptConnectionsStayedOpenUntilTheNextRequest" swept,
      testCase "a POST never goes to a kept connection that has ended" stalePost,
      testCase "anAnswerWithoutATypeWasRefused" untyped,
      testCase "SCGI: a request and its answer" scgi,
      testCase "SCGI: faulty and slow bodies" scgiFaulty
    ]

records :: Int -> [Int] -> Q.Property
records kind contents = go (L.toStrict (toLazyByteString (foldMap render whole))) === Just whole
  where
    whole = [Record (RecordType (fromIntegral (kind `mod` 12))) (abs c `mod` 65536) (C.replicate (abs c * 7 `mod` 70000 `min` largestRecord) 'r') | c <- contents]
    render (Record t n c) = renderRecord t n c
    go bytes = case takeRecord bytes of
      Taken r rest -> (r :) <$> go rest
      TakeMore | B.null bytes -> Just []
      _ -> Nothing

somePairs :: [(Int, Int)] -> [(ByteString, ByteString)]
somePairs = map (\(n, v) -> (C.replicate (abs n `mod` 300) 'n', C.replicate (abs v `mod` 300) 'v'))

pairs :: [(Int, Int)] -> Q.Property
pairs given = readPairs (build (renderPairs (somePairs given))) === Just (somePairs given)

cutPairs :: Int -> Q.Property
cutPairs n = readPairs (B.init (build (renderPairs [("name", C.replicate (1 + abs n `mod` 300) 'v')]))) === Nothing

openings :: [(Int, Int)] -> Bool -> Bool -> Q.Property
openings given keep bodiless = renderOpening 258 Responder keep (somePairs given) bodiless === build (mconcat records')
  where
    records' = [renderBegin 258 Responder keep, renderStream Params 258 (build (renderPairs (somePairs given))), renderEnd Params 258] ++ [renderEnd Stdin 258 | bodiless]

build :: Builder -> ByteString
build = L.toStrict . toLazyByteString

-- Servers -----------------------------------------------------------------------

-- | A connection to a server of ours, and what was received.
data Peer = Peer !Socket !(IORef ByteString)

-- | Listen, run a thread for each connection; its number counts from 0.
withServerOf :: (Int -> Peer -> IO ()) -> (SockAddr -> IO Int -> IO a) -> IO a
withServerOf serve body = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener loopback
  listen listener 64
  address <- getSocketName listener
  connections <- newIORef (0 :: Int)
  threads <- newIORef []
  acceptor <- forkIO . forever $ do
    (s, _) <- accept listener
    n <- atomicModifyIORef' connections (\n -> (n + 1, n))
    input <- newIORef ""
    t <- forkIO (void (try (serve n (Peer s input)) :: IO (Either SomeException ())) `finally` close s)
    atomicModifyIORef' threads (\ts -> (t : ts, ()))
  body address (readIORef connections) `finally` (killThread acceptor >> readIORef threads >>= mapM_ killThread)

-- | The next record; 'Nothing' at the end.
record :: Peer -> IO (Maybe Record)
record peer@(Peer s input) = do
  bytes <- readIORef input
  case takeRecord bytes of
    Taken r rest -> Just r <$ writeIORef input rest
    NotFastCgi -> unexpected "FastCGI" (show (B.take 40 bytes))
    TakeMore -> do
      more <- recv s 65536
      if B.null more then pure Nothing else writeIORef input (bytes <> more) >> record peer

-- | A whole request: parameters and body; 'Nothing' at the end.
wholeRequest :: Peer -> IO (Maybe ([(ByteString, ByteString)], ByteString))
wholeRequest peer = begin
  where
    begin =
      record peer >>= \case
        Nothing -> pure Nothing
        Just (Record BeginRequest 1 content) -> do
          fmap fst (readBegin content) @?= Just Responder
          params <- stream Params
          body <- stream Stdin
          pure (flip (,) body <$> readPairs params)
        Just other -> unexpected "a beginning" (show other)
    stream kind =
      record peer >>= \case
        Just (Record t 1 content)
          | t == kind -> if B.null content then pure "" else (content <>) <$> stream kind
        other -> unexpected (show kind) (show other)

tellPeer :: Peer -> Builder -> IO ()
tellPeer (Peer s _) = sendAll s . build

reply :: ByteString -> Builder
reply content = renderStream Stdout 1 ("Content-Type: text/plain\r\n\r\n" <> content) <> renderEnd Stdout 1 <> renderEndRequest 1 0 RequestComplete

-- | Answer each request of a connection.
answering :: (([(ByteString, ByteString)], ByteString) -> Builder) -> Int -> Peer -> IO ()
answering answer _ peer = wholeRequest peer >>= maybe (pure ()) (\r -> tellPeer peer (answer r) >> answering answer 0 peer)

-- | A gateway to these servers that keeps up to 16 connections.
withFast :: [SockAddr] -> (FastCgiSettings -> FastCgiSettings) -> (FastCgi -> Running -> Told -> IO a) -> IO a
withFast = withFastOn defaultSettings

-- | The same with other settings of the engine.
withFastOn :: Settings -> [SockAddr] -> (FastCgiSettings -> FastCgiSettings) -> (FastCgi -> Running -> Told -> IO a) -> IO a
withFastOn engine addresses change body = do
  told <- newTold
  withTestRuntime $ \runtime ->
    withFastCgi runtime (change (defaultFastCgiSettings addresses "/srv/www") {fastKeep = 16}) {fastTell = tellTo told} $ \fast ->
      withGatewayServerOn engine runtime (fastCgiGateway fast) $ \running -> do
        r <- body fast running told
        r <$ eventually "no connection in use" (fastConnectionsUsed fast) (== 0)

toldOf :: Told -> String -> IO ()
toldOf told part = void (eventually ("a message with " ++ part) (toldLines told) (any (part `isInfixOf`)))

exchange :: IO ()
exchange = withServerOf (answering (\(params, body) -> reply (C.unlines ([n <> "=" <> v | (n, v) <- params] ++ [body])))) $ \address connections ->
  withFast [address] id $ \fast running _ -> withClient (runningAddress running) $ \client -> do
    answer <- ask client "POST" "/p/some/path?q=1" [("X-Long", C.replicate 5000 'l'), ("Proxy", "x")] "the body"
    let said = C.lines (answerBody answer)
    forM_ ["SCRIPT_NAME=/p", "PATH_INFO=/some/path", "QUERY_STRING=q=1", "REQUEST_METHOD=POST", "CONTENT_LENGTH=8", "DOCUMENT_ROOT=/srv/www", "GATEWAY_INTERFACE=CGI/1.1", "HTTP_X_LONG=" <> C.replicate 5000 'l', "the body"] $ \line ->
      assertBool (show (line, said)) (line `elem` said)
    assertBool "HTTP_PROXY" (not (any ("HTTP_PROXY" `B.isPrefixOf`) said))
    answerHeader answer "content-length" @?= Just (C.pack (show (B.length (answerBody answer))))
    forM_ [1 .. 20 :: Int] $ \_ -> ask client "GET" "/p" [] "" >>= (@?= 200) . answerCode
    connections >>= (@?= 1)
    _ <- eventually "the connection to be kept" (fastConnectionsKept fast) (== 1)
    pure ()

-- A server with one process, as php-fpm has: it accepts a connection only after the last one has ended.
expired :: IO ()
expired = do
  process <- newMVar ()
  withServerOf (\n peer -> withMVar process (\() -> answering (const (reply "hello")) n peer)) $ \address connections ->
    withFast [address] (\s -> s {fastKeepFor = milliseconds 0}) $ \fast running _ -> do
      forM_ [1 .. 3 :: Int] $ \_ -> do
        asking running "/p" >>= answersWith 200 "hello"
        eventually "the connection to be closed" (fastConnectionsKept fast) (== 0)
      connections >>= (@?= 3)

scripts :: IO ()
scripts = withServerOf (answering (\(params, _) -> reply (C.unlines [n <> "=" <> v | (n, v) <- params]))) $ \address _ ->
  withFast [address] (\s -> s {fastSuffixes = [".php"], fastExists = \path -> pure (path == "p/blog/index.php")}) $ \_ running _ -> do
    said <- C.lines . answerBody <$> asking running "/p/blog/index.php/2011/10/"
    forM_ ["SCRIPT_NAME=/p/blog/index.php", "SCRIPT_FILENAME=/srv/www/p/blog/index.php", "PATH_INFO=/2011/10/", "PATH_TRANSLATED=/srv/www/2011/10/"] $ \line ->
      assertBool (show (line, said)) (line `elem` said)
    asking running "/p/upload/evil.jpg/x.php" >>= (@?= 404) . answerCode

oneSlash :: IO ()
oneSlash = withServerOf (answering (\(params, _) -> reply (C.unlines [n <> "=" <> v | (n, v) <- params, n `elem` ["SCRIPT_NAME", "PATH_INFO"]]))) $ \address _ -> do
  withFast [address] id $ \_ running _ ->
    forM_ [("/p", ""), ("/p/", "/"), ("/p/?q", "/"), ("/p//", "/"), ("/p/x/", "/x/")] $ \(path, info) ->
      asking running path >>= answersWith 200 ("SCRIPT_NAME=/p\nPATH_INFO=" <> info <> "\n")
  withFast [address] (\s -> s {fastSuffixes = [".php"]}) $ \_ running _ ->
    forM_ [("", ""), ("/", "/"), ("/?q", "/"), ("//", "/"), ("/x", "/x")] $ \(end, info) ->
      asking running ("/p/t.php" <> end) >>= answersWith 200 ("SCRIPT_NAME=/p/t.php\nPATH_INFO=" <> info <> "\n")

talk :: IO ()
talk = withServerOf (answering answer) $ \address _ -> withFast [address] id $ \_ running told -> do
  asking running "/p/x" >>= answersWith 200 "hello"
  mapM_ (toldOf told) ["FastCGI /p: PHP Warning: first", "FastCGI /p: second"]
  where
    answer _ =
      renderRecord GetValuesResult 0 (build (renderPairs [("FCGI_MPXS_CONNS", "1")]))
        <> renderUnknownType (RecordType 77)
        <> renderStream Stderr 1 "PHP Warning: first\nsecond\n"
        <> reply "hello"

bad :: IO ()
bad = forM_ cases $ \(name, code, bytes, why) ->
  withServerOf (\_ peer -> wholeRequest peer >> tellPeer peer bytes >> closing peer) $ \address _ ->
    withFast [address] id $ \fast running told -> do
      answer <- asking running "/p/x"
      unless (answerCode answer == code) $ unexpected (show code ++ " for " ++ name) (show answer)
      toldOf told why
      fastConnectionsKept fast >>= (@?= 0)
  where
    closing (Peer s _) = shutdown s ShutdownSend
    end = renderEndRequest 1 0
    cases =
      [ ("nothing", 502, mempty, "ended before"),
        ("another protocol", 502, "HTTP/1.1 200 OK\r\n\r\n", "does not speak FastCGI"),
        ("another request", 502, renderStream Stdout 7 "x", "answers a request that was not made"),
        ("a part of a record", 502, "\1\6\0\1\0", "ended before"),
        ("an end without an answer", 502, end RequestComplete, "it said nothing"),
        ("a head without an end", 502, renderStream Stdout 1 "X: y\r\n" <> end RequestComplete, "ended within the head"),
        ("overloaded", 503, end Overloaded, "as many requests"),
        ("a role that is not known", 502, end UnknownRole, "unknown way"),
        ("a bad end", 502, renderRecord EndRequest 1 "abc", "unknown way"),
        ("a header bomb", 502, renderStream Stdout 1 (C.concat (replicate 20000 "X: y\r\n")) <> end RequestComplete, "more than 65536 bytes"),
        ("a smuggled response", 502, renderStream Stdout 1 "Content-Length: 0\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK", "two lengths"),
        ("a Transfer-Encoding", 502, renderStream Stdout 1 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" <> end RequestComplete, "Transfer-Encoding")
      ]

stale :: IO ()
stale = withServerOf once $ \address connections -> withFast [address] id $ \fast running _ ->
  forM_ [1 .. 5 :: Int] $ \i -> do
    asking running "/p/x" >>= answersWith 200 "hello"
    void (eventually "the connection to be kept" (fastConnectionsKept fast) (== 1))
    connections >>= (@?= i)
  where
    -- Says that it keeps the connection, and closes it when it is used again.
    once _ peer = wholeRequest peer >>= maybe (pure ()) (\_ -> tellPeer peer (reply "hello") >> void (record peer))

-- As many statuses as addresses, and one of what could not be reached.
failuresNoted :: IO ()
failuresNoted = do
  withServerOf (\_ peer -> wholeRequest peer >>= maybe (pure ()) (\_ -> tellPeer peer (reply "hello") >> void (record peer))) $ \address _ -> withFast [address] id $ \fast running _ -> do
    forM_ [1, 2 :: Int] $ \_ -> asking running "/p/x" >>= answersWith 200 "hello" >> eventually "the connection to be kept" (fastConnectionsKept fast) (== 1)
    noted <- eventually "two lines" (runningNoted running) ((== 2) . length)
    map snd noted @?= [Just "200", Just "502, 200"]
    map (fmap (C.count ',') . fst) noted @?= [Just 0, Just 1]
  bracket (socket AF_INET Stream defaultProtocol) close $ \bound -> do
    away <- bind bound loopback >> getSocketName bound
    withFast [away] id $ \_ running _ -> noting running 502 "502"
  where
    noting running code status = do
      asking running "/p" >>= (@?= code) . answerCode
      eventually "a line" (runningNoted running) ((== 1) . length) >>= (@?= [(Nothing, Just status)])

several :: IO ()
several =
  withServerOf (answering (const (reply "one"))) $ \one _ ->
    withServerOf (answering (const (reply "two"))) $ \two _ -> bracket (socket AF_INET Stream defaultProtocol) close $ \bound -> do
      -- A port that nobody listens on, nor can.
      away <- bind bound loopback >> getSocketName bound
      withFast [one, away, two] (\s -> s {fastKeep = 0}) $ \_ running _ -> do
        said <- mapM (const (answerBody <$> asking running "/p")) [1 .. 12 :: Int]
        assertBool (show said) ("one" `elem` said && "two" `elem` said && all (`elem` ["one", "two"]) said)
      withFast [away] id $ \_ running told -> do
        asking running "/p" >>= (@?= 502) . answerCode
        toldOf told "cannot be reached"

silent :: IO ()
silent = withServerOf (\_ peer -> wholeRequest peer >> void (record peer)) $ \address _ ->
  withFast [address] (\s -> s {fastSilence = milliseconds 200}) $ \fast running told -> do
    asking running "/p" >>= (@?= 504) . answerCode
    toldOf told "did not answer in time"
    fastConnectionsKept fast >>= (@?= 0)

clientGoes :: IO ()
clientGoes = do
  reached <- newIORef False
  gone <- newIORef False
  let serve _ peer = do
        _ <- wholeRequest peer
        writeIORef reached True
        end <- record peer
        when (null end) (writeIORef gone True)
  withServerOf serve $ \address _ -> withFast [address] id $ \_ running _ -> do
    withClient (runningAddress running) $ \client -> do
      say client "GET /p/x HTTP/1.1\r\nHost: test\r\n\r\n"
      void (eventually "the request to arrive" (readIORef reached) id)
    void (eventually "the server to hear of it" (readIORef gone) id)

streaming :: IO ()
streaming = withServerOf echo $ \address _ -> withFast [address] id $ \_ running _ ->
  withClient (runningAddress running) $ \client -> do
    let content = C.concat (replicate 8192 (C.pack (take 1024 (cycle ['a' .. 'z']))))
    sender <- forkTask (say client (C.concat ["POST /p HTTP/1.1\r\nHost: test\r\nContent-Length: ", C.pack (show (B.length content)), "\r\n\r\n", content]))
    hearAnswer client >>= answersWith 200 content
    joinTask sender
    ask client "POST" "/p" [] "again" >>= answersWith 200 "again"
  where
    -- Each piece goes back as it comes.
    echo :: Int -> Peer -> IO ()
    echo _ peer = do
      first <- record peer
      when (fmap recordType first == Just BeginRequest) $ do
        tellPeer peer (renderStream Stdout 1 "Content-Type: text/plain\r\n\r\n")
        go peer
    go peer =
      record peer >>= \case
        Just (Record Stdin _ content)
          | B.null content -> tellPeer peer (renderEndRequest 1 0 RequestComplete) >> echo 0 peer
          | otherwise -> tellPeer peer (renderStream Stdout 1 content) >> go peer
        Just _ -> go peer
        Nothing -> pure ()

bounded :: IO ()
bounded = do
  reached <- newIORef (0 :: Int)
  let serve _ peer = wholeRequest peer >> atomicModifyIORef' reached (\n -> (n + 1, ())) >> void (record peer)
  withServerOf serve $ \address _ -> withFast [address] (\s -> s {fastConnections = 2, fastQueue = 0}) $ \_ running told ->
    withClient (runningAddress running) $ \a -> withClient (runningAddress running) $ \b -> do
      forM_ [a, b] (`say` "GET /p HTTP/1.1\r\nHost: test\r\n\r\n")
      void (eventually "two requests" (readIORef reached) (== 2))
      asking running "/p" >>= (@?= 503) . answerCode
      toldOf told "as many requests"

interruptions :: IO ()
interruptions = withServerOf (answering (\(_, body) -> reply body)) $ \address _ -> withFast [address] (\s -> s {fastConnections = 4, fastQueue = 1000, fastWait = seconds 60}) $ \fast plain _ -> withTestRuntime $ \runtime -> do
  gateway <- interrupted 1500 (fastCgiGateway fast)
  withGatewayServer runtime gateway $ \running -> do
    tasks <- forM [1 .. 8 :: Int] $ \_ -> forkTask . forM_ [1 .. 50 :: Int] $ \i ->
      withClient (runningAddress running) $ \client -> do
        say client $ case i `mod` 3 of
          0 -> "POST /p HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
          1 -> "GET /p HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
          _ -> C.concat ["POST /p HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n", C.replicate 100000 'c', "\r\n0\r\n\r\n"]
        void (hearRest client)
    mapM_ joinTask tasks
  _ <- eventually "no connection in use" (fastConnectionsUsed fast) (== 0)
  -- The connections that are kept are at the beginning of a request.
  forM_ [1 .. 8 :: Int] $ \_ -> withClient (runningAddress plain) $ \client -> ask client "POST" "/p" [] "whole" >>= answersWith 200 "whole"

posting :: Running -> ByteString -> ByteString -> IO Int
posting running fields body = withClient (runningAddress running) $ \client -> do
  say client ("POST /p HTTP/1.1\r\nHost: test\r\n" <> fields <> "\r\n\r\n" <> body)
  answerCode <$> hearAnswer client

slowUpload :: IO ()
slowUpload = withServerOf (answering (const (reply "hello"))) $ \address _ -> withFastOn hurried [address] id $ \fast running told -> do
  posting running "Content-Length: 100" "x" >>= (@?= 408)
  void (eventually "no connection in use" (fastConnectionsUsed fast) (== 0))
  fastConnectionsKept fast >>= (@?= 0)
  toldOf told "came too slowly"

faultyBodies :: IO ()
faultyBodies = withServerOf (answering (const (reply "hello"))) $ \address _ -> withFastOn hurried [address] id $ \fast running _ -> do
  posting running "Transfer-Encoding: chunked" "5\r\nhello\r\nzz\r\n" >>= (@?= 400)
  posting running "Transfer-Encoding: chunked" (C.concat (replicate 3 ("3e8\r\n" <> C.replicate 1000 'x' <> "\r\n")) <> "0\r\n\r\n") >>= (@?= 413)
  fastConnectionsKept fast >>= (@?= 0)

-- The end comes with the content, or a moment after it.
coveredLength :: IO ()
coveredLength = forM_ [False, True] $ \later -> do
  continue <- newEmptyMVar
  let serve n peer =
        wholeRequest peer >>= \case
          Nothing -> pure ()
          Just _ -> do
            let content = renderStream Stdout 1 "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
                end = renderEnd Stdout 1 <> renderEndRequest 1 0 RequestComplete
            if later then tellPeer peer content >> takeMVar continue >> tellPeer peer end else tellPeer peer (content <> end)
            serve n peer
  withServerOf serve $ \address connections -> withFast [address] id $ \fast running _ -> do
    withClient (runningAddress running) $ \client -> forM_ [1 .. 3 :: Int] $ \_ -> do
      say client "GET /p HTTP/1.1\r\nHost: test\r\n\r\n"
      hearAnswer client >>= answersWith 200 "hello"
      -- Never kept before its end has come.
      when later (fastConnectionsKept fast >>= (@?= 0) >> putMVar continue ())
      void (eventually "the connection to be kept or closed" (fastConnectionsUsed fast) (== 0))
    made <- connections
    assertBool (show made) (later || made == 1)

swept :: IO ()
swept = do
  closed <- newEmptyMVar
  withServerOf (\n peer -> answering (const (reply "hello")) n peer >> putMVar closed ()) $ \address _ ->
    withFast [address] (\s -> s {fastKeepFor = milliseconds 100}) $ \fast running _ -> do
      asking running "/p" >>= answersWith 200 "hello"
      -- No further request: the server sees the end all the same.
      within 30000000 "the kept connection's end" (takeMVar closed)
      fastConnectionsKept fast >>= (@?= 0)

stalePost :: IO ()
stalePost = do
  closed <- newEmptyMVar
  let once _ peer@(Peer s _) = wholeRequest peer >>= maybe (pure ()) (\_ -> tellPeer peer (reply "hello") >> close s >> putMVar closed ())
  withServerOf once $ \address connections -> withFast [address] id $ \fast running _ ->
    forM_ [1 .. 3 :: Int] $ \i -> do
      posting running "Content-Length: 4" "body" >>= (@?= 200)
      void (eventually "the connection to be kept" (fastConnectionsKept fast) (== 1))
      -- The answer comes before the end.
      patiently "the server to close it" (takeMVar closed)
      connections >>= (@?= i)

-- SCGI ---------------------------------------------------------------------------

scgiServer :: Int -> Peer -> IO ()
scgiServer = scgiServerWith (\fields body -> C.unlines (fields ++ [body]))

-- | Answer one request by its names and values, in turn, and its body.
scgiServerWith :: ([ByteString] -> ByteString -> ByteString) -> Int -> Peer -> IO ()
scgiServerWith answer = scgiServerOf (\fields body -> "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n" <> answer fields body)

-- | The same, with the head of the answer.
scgiServerOf :: ([ByteString] -> ByteString -> ByteString) -> Int -> Peer -> IO ()
scgiServerOf answer _ (Peer s _) = go ""
  where
    go bytes = case C.break (== ':') bytes of
      (size, rest)
        | not (B.null rest),
          Just (n, "") <- C.readInt size,
          B.length rest > n + 1 -> do
          let block = B.take n (B.drop 1 rest)
              fields = init (C.split '\0' block)
              len = maybe 0 fst (C.readInt (fields !! 1))
          body <- content len (B.drop (n + 2) rest)
          sendAll s (answer fields body)
      _ -> recv s 65536 >>= \more -> if B.null more then pure () else go (bytes <> more)
    content n got
      | B.length got >= n = pure got
      | otherwise = recv s 65536 >>= \more -> if B.null more then pure got else content n (got <> more)

-- No Content-Type, Location or Status: text, and with a status whatever it says.
untyped :: IO ()
untyped = forM_ cases $ \(given, code, kind) -> do
  let judged running = do
        answer <- asking running "/p"
        answersWith code (if code == 204 then "" else "<b>hello") answer
        answerHeader answer "content-type" @?= kind
  withServerOf (answering (const (renderStream Stdout 1 (given <> "<b>hello") <> renderEnd Stdout 1 <> renderEndRequest 1 0 RequestComplete))) $ \address _ ->
    withFast [address] id $ \_ running _ -> judged running
  withServerOf (\_ (Peer s _) -> recv s 65536 >> sendAll s (given <> "<b>hello")) $ \address _ -> withTestRuntime $ \runtime ->
    withScgi runtime (defaultScgiSettings [address] "/srv/www") $ \gateway ->
      withGatewayServer runtime (scgiGateway gateway) judged
  where
    cases =
      [ ("X-Only: x\r\n\r\n", 200, Just "text/plain"),
        ("\n", 200, Just "text/plain"),
        ("Content-Length: 8\n\n", 200, Just "text/plain"),
        ("Status: 404 Not Found\n\n", 404, Nothing),
        ("Status: 204\n\n", 204, Nothing),
        ("Content-Type: text/x\n\n", 200, Just "text/x")
      ]

withScgiServer :: (Running -> IO a) -> IO a
withScgiServer = withScgiServerOn defaultSettings

withScgiServerOn :: Settings -> (Running -> IO a) -> IO a
withScgiServerOn engine body = withServerOf scgiServer $ \address _ -> withTestRuntime $ \runtime ->
  withScgi runtime (defaultScgiSettings [address] "/srv/www") {scgiWait = seconds 15} $ \gateway ->
    withGatewayServerOn engine runtime (scgiGateway gateway) $ \running -> do
      r <- body running
      r <$ eventually "no connection in use" (scgiConnectionsUsed gateway) (== 0)

scgi :: IO ()
scgi = withScgiServer $ \running -> withClient (runningAddress running) $ \client -> do
  answer <- ask client "POST" "/p/a/b?q" [] "a body"
  let said = C.lines (answerBody answer)
  take 4 said @?= ["CONTENT_LENGTH", "6", "SCGI", "1"]
  assertBool (show said) (all (`elem` said) ["SCRIPT_NAME", "/p", "PATH_INFO", "/a/b", "a body"])
  empty <- ask client "GET" "/p" [] ""
  take 2 (C.lines (answerBody empty)) @?= ["CONTENT_LENGTH", "0"]

scgiFaulty :: IO ()
scgiFaulty = withScgiServerOn hurried $ \running -> do
  posting running "Content-Length: 100" "x" >>= (@?= 408)
  posting running "Transfer-Encoding: chunked" "5\r\nhello\r\nzz\r\n" >>= (@?= 400)
