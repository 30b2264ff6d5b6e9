{-# LANGUAGE OverloadedStrings #-}

-- | What is sent, what is understood, which connection is used.
module ClientConversation
  ( tests,
  )
where

import ClientFixture
import Control.Concurrent
import Control.Exception (bracket, bracket_)
import Control.Monad (forM, forM_, forever, replicateM, void, when)
import Data.Bits (complement)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Unique (hashUnique, newUnique)
import Data.Word (Word8)
import EngineFixture (Engine (..), echo, onBothBackends, tight, withEngine)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Http (KnownHeader (..), Reply (..), connectionsOpen, duplexReceive, duplexSend, status200, target)
import Heddle.Http.Client
import Heddle.IO (BackendChoice (..))
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Clock (milliseconds)
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..))
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openBinaryTempFile)
import System.Posix.IO (OpenMode (ReadOnly), closeFd)
import System.Posix.Process (getProcessID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "conversation"
    [ onBothBackends "requests" requests,
      onBothBackends "responses" responses,
      onBothBackends "connections" connections,
      onBothBackends "other protocols, proxies, layers" leaving
    ]

-- What the server hears of a request, with its own address replaced.
heardOf :: BackendChoice -> ClientSettings -> (Origin -> ClientRequest) -> IO ByteString
heardOf backend settings request = do
  heard <- newIORef B.empty
  withScripted (\_ peer -> hearHead peer >>= writeIORef heard >> tell peer (simple "ok")) $ \origin ->
    withPatient backend settings $ \client -> do
      fetched <- fetch client (request origin) 10
      fetchedContent fetched @?= (if requestMethod (request origin) == "HEAD" then "" else "ok")
      replaced (originAuthority origin) <$> readIORef heard

replaced :: ByteString -> ByteString -> ByteString
replaced what bytes = case B.breakSubstring what bytes of
  (before, after)
    | B.null after -> bytes
    | otherwise -> before <> "SERVER" <> replaced what (B.drop (B.length what) after)

requests :: BackendChoice -> [TestTree]
requests backend =
  [ testCase "a GET" $
      heard patient (`get` "/a?b") >>= (@?= "GET /a?b HTTP/1.1\r\nHost: SERVER\r\n\r\n"),
    testCase "the agent, unless the request names one" $ do
      heard patient {clientAgent = "a/1"} (`get` "/") >>= (@?= "GET / HTTP/1.1\r\nHost: SERVER\r\nUser-Agent: a/1\r\n\r\n")
      heard patient {clientAgent = "a/1"} (\o -> (get o "/") {requestHeaders = [Header "user-agent" "b"]})
        >>= (@?= "GET / HTTP/1.1\r\nHost: SERVER\r\nuser-agent: b\r\n\r\n"),
    testCase "headers, another Host, an end of the connection" $
      heard patient (\o -> (get o "/") {requestHeaders = [Header "A" "b", Header "C" ""], requestHost = Just "x:1", requestClose = True})
        >>= (@?= "GET / HTTP/1.1\r\nHost: x:1\r\nA: b\r\nC: \r\nConnection: close\r\n\r\n"),
    testCase "a POST without a body says so" $
      heard patient (\o -> requestTo "POST" o "/") >>= (@?= "POST / HTTP/1.1\r\nHost: SERVER\r\nContent-Length: 0\r\n\r\n"),
    testCase "a head larger than the output" $ do
      let value = C.replicate 20000 'v'
      heard patient (\o -> (get o "/") {requestHeaders = [Header "A" value]})
        >>= (@?= "GET / HTTP/1.1\r\nHost: SERVER\r\nA: " <> value <> "\r\n\r\n"),
    testCase "requests that could be understood differently are not sent" $
      withPatient backend patient $ \client -> do
        let nowhere = Origin False (Tcp "127.0.0.1" 1)
            refuses what failure = failureIs (== failure) (show failure) (fetch client what 10)
        forM_ ["", "GET ", "G\r\nET", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"] $ \m ->
          refuses (requestTo m nowhere "/") BadMethodName
        forM_ ["", "a", "/a b", "/a\r\nX: y", "/a#b", "/\xC3\xA9", "*", "http://a/"] $ \t ->
          refuses (get nowhere t) BadRequestTarget
        refuses (requestTo "CONNECT" nowhere "/") BadRequestTarget
        forM_ [Header "" "x", Header "A B" "x", Header "A:" "x", Header "A" "x\r\nB: y", Header "A" "x\ny", Header "A" "\NUL", Header "A\r\nB" "x"] $ \h@(Header n _) ->
          refuses (get nowhere "/") {requestHeaders = [h]} (UnsafeRequestHeader n)
        forM_ ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "TE", "Expect", "Upgrade", "Keep-Alive", "Trailer", "Proxy-Connection"] $ \n ->
          refuses (get nowhere "/") {requestHeaders = [Header n "x"]} (ReservedHeader n)
        refuses (get nowhere "/") {requestHost = Just "a\r\nB: c"} (UnsafeRequestHeader "Host")
        refuses (get nowhere "/") {requestUpgrade = Just "a\r\nB: c"} (UnsafeRequestHeader "Upgrade")
  ]
  where
    heard = heardOf backend

-- The outcome of a GET that is answered by these bytes, after which the server closes.
answeredBy :: BackendChoice -> ByteString -> [ByteString] -> IO (Int, [(ByteString, ByteString)], ByteString)
answeredBy backend verb pieces =
  withScripted (\_ peer -> hearHead peer >> tellPieces peer pieces) $ \origin ->
    withPatient backend patient $ \client -> do
      fetched <- fetch client (requestTo verb origin "/") 100000
      pure (statusCode (fetchedStatus fetched), fetchedHeaders fetched, fetchedContent fetched)

responses :: BackendChoice -> [TestTree]
responses backend =
  [ testCase "by length" $ answers "GET" "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\nabc" (200, [("A", "b"), ("Content-Length", "3")], "abc"),
    testCase "in chunks, with an extension and trailers" $
      answers "GET" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n01\r\nd\r\n0\r\nT: u\r\n\r\n" (200, [("Transfer-Encoding", "chunked")], "abcd"),
    testCase "trailers are told at the end" $ do
      let wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum:  1 \r\nB:\r\n\r\n"
      forM_ [[wire], map B.singleton (B.unpack wire)] $ \sent ->
        withScripted (\_ peer -> hearHead peer >> tellPieces peer sent) $ \origin ->
          withPatient backend patient $ \client -> withResponse client (get origin "/") $ \response -> do
            withResponsePiece response (\_ _ -> pure ())
            responseTrailers response >>= (@?= [])
            _ <- readWholeResponse response 10
            responseTrailers response >>= (@?= [("X-Sum", "1"), ("B", "")]),
    testCase "until the end" $ answers "GET" "HTTP/1.0 200 OK\r\n\r\nabc" (200, [], "abc"),
    testCase "HEAD has no content" $ answers "HEAD" "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" (200, [("Content-Length", "3")], ""),
    testCase "304 has no content" $ answers "GET" "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n" (304, [("Content-Length", "3")], ""),
    testCase "interim responses are skipped" $
      answers "GET" "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx" (200, [("Content-Length", "1")], "x"),
    testCase "early hints are told" $ do
      hints <- newIORef []
      withScripted (\_ peer -> hearHead peer >> tell peer ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nB: c\r\n\r\n" <> simple "ok")) $ \origin ->
        withPatient backend patient $ \client -> do
          fetched <- fetch client (get origin "/") {requestInterim = \code fields -> modifyIORef hints ((code, fields) :)} 10
          fetchedContent fetched @?= "ok"
      readIORef hints >>= (@?= [(103, [("Link", "</a>"), ("B", "c")])]),
    testCase "headers by name, phrase, version, length" $
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.0 299 Of its own\r\nETag: \"e\"\r\nX-Own: o\r\nDate: d\r\nContent-Length: 2\r\n\r\nok") $ \origin ->
        withPatient backend patient $ \client ->
          withResponse client (get origin "/") $ \response -> do
            statusCode (responseStatus response) @?= 299
            responseMinor response @?= 0
            contentLength response @?= Just 2
            responseReason response >>= (@?= "Of its own")
            responseHeaderNamed response "etag" >>= (@?= Just "\"e\"")
            responseHeaderNamed response "e" >>= (@?= Nothing)
            responseHeader response HeaderDate >>= (@?= Just "d")
            names <- foldResponseHeaders response (\acc known p n _ _ -> (\b -> (if known < 0 then Nothing else Just (toEnum known), b) : acc) <$> B.packCStringLen (castPtr p, n)) []
            reverse names @?= [(Just HeaderEtag, "ETag"), (Nothing, "X-Own"), (Just HeaderDate, "Date"), (Just HeaderContentLength, "Content-Length")]
            first <- withResponsePiece response (\p n -> B.packCStringLen (castPtr p, n))
            first @?= "ok"
            -- The head can still be read.
            responseHeaderNamed response "etag" >>= (@?= Just "\"e\"")
            readResponsePiece response >>= (@?= ""),
    testCase "a head stays readable under a content larger than the buffer" $ do
      let content = C.pack (concatMap show [1 .. 60000 :: Int])
      withScripted (\_ peer -> hearHead peer >> tell peer ("HTTP/1.1 102 X\r\n\r\n" <> simple content)) $ \origin ->
        withPatient backend patient $ \client ->
          withResponse client (get origin "/") $ \response -> do
            whole <- readWholeResponse response 1000000
            whole @?= content
            responseHeader response HeaderContentLength >>= (@?= Just (C.pack (show (B.length content)))),
    testCase "a response is of no use after its request" $
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "ok")) $ \origin ->
        withPatient backend patient $ \client -> do
          kept <- withResponse client (get origin "/") pure
          failureIs (== ResponseOver) "ResponseOver" (readResponsePiece kept)
          failureIs (== ResponseOver) "ResponseOver" (responseHeaders kept),
    testCase "more content than the caller accepts" $ do
      forM_ [simple "0123456789x", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n67890\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n0123456789x"] $ \bytes ->
        withScripted (\_ peer -> hearHead peer >> tell peer bytes) $ \origin ->
          withPatient backend patient $ \client ->
            failureIs (== ContentTooLarge 10) "ContentTooLarge" (fetch client (get origin "/") 10),
    testProperty "splitting: any cut of any framing gives the same" . forAll ((,,) <$> elements framings <*> resize 60 (listOf arbitrary) <*> resize 8 (listOf (choose (1, 30)))) $ \(Framed _ frame, content, cuts) ->
      ioProperty $ do
        let body = B.pack content
        (code, _, got) <- answeredBy backend "GET" (cutAt cuts ("HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" <> frame body))
        pure (code === 200 .&&. got === body)
  ]
  where
    answers verb bytes outcome = do
      answeredBy backend verb [bytes] >>= (@?= outcome)
      answeredBy backend verb (map B.singleton (B.unpack bytes)) >>= (@?= outcome)
    framings :: [Framed]
    framings =
      [ Framed "length" simple,
        Framed "chunks" (\b -> "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" <> B.concat [C.pack (hexOf (B.length c)) <> "\r\n" <> c <> "\r\n" | c <- pieces b] <> "0\r\n\r\n"),
        Framed "close" ("HTTP/1.1 200 OK\r\n\r\n" <>)
      ]
    pieces b = if B.null b then [] else let (x, y) = B.splitAt 7 b in x : pieces y
    hexOf n = if n < 10 then show n else ["0123456789abcdef" !! n]

data Framed = Framed String (ByteString -> ByteString)

instance Show Framed where
  show (Framed name _) = name

cutAt :: [Int] -> ByteString -> [ByteString]
cutAt cuts bytes = case cuts of
  [] -> [bytes]
  n : more
    | B.null bytes -> []
    | otherwise -> let (a, b) = B.splitAt n bytes in a : cutAt more b

-- Connections --------------------------------------------------------------------------------

-- Answers each request of a connection with the connection's number and the target.
numbered :: Int -> Peer -> IO ()
numbered i peer = do
  h <- hearHead peer
  tell peer (simple (C.pack (show i) <> " " <> (C.words h !! 1)))
  numbered i peer

connections :: BackendChoice -> [TestTree]
connections backend =
  [ testCase "one connection for one request after the other" $
      withScripted numbered $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          forM_ ["/1", "/2", "/3"] $ \t -> content client (get origin t) >>= (@?= "0 " <> t)
          connectionsKept client >>= (@?= 1),
    testCase "requests at a time have connections of their own" $
      withScripted numbered $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          withResponse client (get origin "/1") $ \_ ->
            content client (get origin "/2") >>= (@?= "1 /2")
          connectionsInAll client >>= (@?= 2)
          -- The one used last.
          content client (get origin "/3") >>= (@?= "0 /3"),
    testGroup
      "not kept"
      [ testCase what $
          withScripted (\i peer -> hearHead peer >> tell peer (bytes <> C.pack (show i)) >> void (hearToEnd peer)) $ \origin ->
            withPatient backend oneShard $ \client -> onOne $ do
              withResponse client (get origin "/") {requestClose = close'} (\r -> readResponsePiece r >>= (@?= "0"))
              withResponse client (get origin "/") {requestClose = close'} (\r -> readResponsePiece r >>= (@?= "1"))
              connectionsInAll client >>= (@?= 0)
        | (what, close', bytes) <-
            [ ("Connection: close", False, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"),
              ("HTTP/1.0", False, "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"),
              ("at the request's wish", True, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"),
              ("unread content that has not come", False, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
              ("a chunk that has not ended", False, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
            ]
      ],
    testCase "endedConnectionWasKept: content until the end, read to the end" $
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\n\r\nx" >> endTelling peer >> void (hearToEnd peer)) $ \origin ->
        withPatient backend patient $ \client -> do
          content client (get origin "/") >>= (@?= "x")
          connectionsInAll client >>= (@?= 0),
    testCase "HTTP/1.0 with keep-alive is kept" $
      withScripted (\i peer -> let go = hearHead peer >> tell peer ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n" <> C.pack (show i)) >> go in go) $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ replicateM 3 (content client (get origin "/")) >>= (@?= ["0", "0", "0"]),
    testCase "unread content that has come is dropped" $
      withScripted numbered $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          withResponse client (get origin "/1") (\_ -> pure ())
          content client (get origin "/2") >>= (@?= "0 /2"),
    testCase "bytes after a response close the connection, and answer nothing" $
      withScripted (\i peer -> hearHead peer >> tell peer (simple (C.pack (show i)) <> simple "smuggled") >> void (hearToEnd peer)) $ \origin ->
        withPatient backend oneShard $ \client ->
          onOne $
            replicateM 3 (content client (get origin "/")) >>= (@?= ["0", "1", "2"]),
    testCase "bytes on an unused connection close it, and answer nothing" $ do
      go <- newEmptyMVar
      gone <- newEmptyMVar
      withScripted (\i peer -> hearHead peer >> tell peer (simple (C.pack (show i))) >> when (i == 0) (takeMVar go >> tell peer (simple "smuggled") >> putMVar gone ()) >> void (hearToEnd peer)) $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          content client (get origin "/") >>= (@?= "0")
          putMVar go ()
          takeMVar gone
          -- On loopback what was sent has arrived.
          content client (get origin "/") >>= (@?= "1"),
    testCase "a connection that the peer closed while it was unused is not used, also for a POST" $ do
      gone <- newEmptyMVar
      withScripted (\i peer -> hearHead peer >> tell peer (simple (C.pack (show i))) >> when (i == 0) (endTelling peer) >> putMVar gone () >> void (hearToEnd peer)) $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          content client (get origin "/") >>= (@?= "0")
          takeMVar gone
          content client (requestTo "POST" origin "/") >>= (@?= "1")
          takeMVar gone,
    testCase "a GET is sent again when a kept connection fails before an answer; a POST is not" $ do
      withScripted flaky $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          content client (get origin "/") >>= (@?= "0")
          content client (get origin "/") >>= (@?= "1")
          failureIs lost "a lost connection" (content client (requestTo "POST" origin "/"))
          content client (get origin "/") >>= (@?= "2")
          failureIs lost "a lost connection" (content client (requestTo "PUT" origin "/") {requestBody = BodyChunked (`writerPut` "x")}),
    testCase "a new connection that fails is not tried again" $ do
      asked <- newIORef (0 :: Int)
      withScripted (\_ peer -> hearHead peer >> atomicModifyIORef' asked (\n -> (n + 1, ()))) $ \origin ->
        withPatient backend oneShard $ \client ->
          failureIs (== Ended AwaitingAnswer) "Ended AwaitingAnswer" (content client (get origin "/"))
      readIORef asked >>= (@?= 1),
    testCase "a GET is not sent again once a byte of an answer came" $ do
      asked <- newIORef (0 :: Int)
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "x") >> hearHead peer >> atomicModifyIORef' asked (\n -> (n + 1, ())) >> tell peer "H") $ \origin ->
        withPatient backend oneShard $ \client -> onOne $ do
          content client (get origin "/") >>= (@?= "x")
          failureIs (== Ended ReadingHead) "Ended ReadingHead" (content client (get origin "/"))
      readIORef asked >>= (@?= 1),
    testCase "an unused connection closes after its time" $ do
      closed <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "x") >> hearToEnd peer >>= putMVar closed) $ \origin ->
        withPatient backend patient {clientIdle = milliseconds 30} $ \client -> do
          content client (get origin "/") >>= (@?= "x")
          patiently "the connection to close" (takeMVar closed) >>= (@?= "")
          connectionsInAll client >>= (@?= 0),
    testCase "an unused connection closes before the peer's time is over" $ do
      closed <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nKeep-Alive: max=5, timeout=1\r\nContent-Length: 0\r\n\r\n" >> hearToEnd peer >>= putMVar closed) $ \origin ->
        withPatient backend patient $ \client -> do
          content client (get origin "/") >>= (@?= "")
          patiently "the connection to close" (takeMVar closed) >>= (@?= ""),
    testCase "closing the client closes unused connections, and ends what waits" $ do
      closed <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "x") >> hearToEnd peer >>= putMVar closed) $ \origin ->
        withPatient backend oneShard {clientPerOrigin = 1} $ \client -> onOne $ do
          content client (get origin "/") >>= (@?= "x")
          closeClient client
          patiently "the connection to close" (takeMVar closed) >>= (@?= "")
          failureIs (== ClientClosed) "ClientClosed" (content client (get origin "/")),
    testCase "1,000 requests at a time on at most 4 connections per capability, each with its own answer" $ do
      let handler request = target request >>= \t -> pure (Whole status200 [] t)
      withEngine backend tight handler $ \engine ->
        withPatient backend patient {clientPerOrigin = 4} $ \client -> do
          let origin = originOf (engineAddress engine)
          results <- forM [1 .. 1000 :: Int] $ \i -> do
            result <- newEmptyMVar
            void . forkIO $ failureOfAction (content client (get origin ("/" <> C.pack (show i)))) >>= putMVar result
            pure (i, result)
          forM_ results $ \(i, result) ->
            patiently "an answer" (takeMVar result) >>= (@?= Right ("/" <> C.pack (show i)))
          open <- connectionsOpen (engineServer engine)
          capabilities <- getNumCapabilities
          (open <= 4 * capabilities) @?= True
          closeClient client
          void (eventually "the server's connections to end" (connectionsOpen (engineServer engine)) (== 0)),
    testCase "a Unix socket" $ do
      directory <- getTemporaryDirectory
      process <- getProcessID
      unique <- newUnique
      let path = directory <> "/heddle-client-" <> show process <> "-" <> show (hashUnique unique) <> ".sock"
      bracket_ (pure ()) (removeFile path) $
        withScriptedAt (SockAddrUnix path) (\_ peer -> hearHead peer >>= tell peer . simple) $ \origin -> do
          originPlace origin @?= UnixSocket (C.pack path)
          withPatient backend patient $ \client ->
            content client (get origin "/x") >>= (@?= "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    testCase "against the engine: echo of bodies of all sizes" $
      withEngine backend tight echo $ \engine ->
        withPatient backend patient $ \client -> do
          let origin = originOf (engineAddress engine)
          forM_ [0, 1, 100, 8000, 9000, 50000, 99999] $ \n -> do
            let body = C.replicate n 'b'
            content client (requestTo "POST" origin "/e") {requestBody = BodyBytes body} >>= (@?= "POST /e\n" <> body)
            content client (requestTo "POST" origin "/e") {requestBody = BodyChunked (\w -> forM_ [1 .. n `div` 100] (\_ -> writerPut w (C.replicate 100 'c')))}
              >>= (@?= "POST /e\n" <> C.replicate (n `div` 100 * 100) 'c')
          closeClient client
  ]
  where
    content client request = fetchedContent <$> fetch client request 1000000
    oneShard = patient
    lost = \case
      Ended _ -> True
      Broken _ _ -> True
      _ -> False
    -- Answers the first request of each connection, and closes when the second one has come.
    flaky i peer = hearHead peer >> tell peer (simple (C.pack (show i))) >> void (hearHead peer)

-- Leaving HTTP -------------------------------------------------------------------------------

leaving :: BackendChoice -> [TestTree]
leaving backend =
  [ testCase "101 gives the connection, with what came after the head" $ do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >>= putMVar heard >> tell peer "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nearly" >> hearExactlyFrom peer 4 >>= tell peer >> void (hearToEnd peer)) $ \origin ->
        withPatient backend patient $ \client -> do
          withResponse client (get origin "/") {requestUpgrade = Just "echo"} $ \response -> do
            statusCode (responseStatus response) @?= 101
            responseHeader response HeaderUpgrade >>= (@?= Just "echo")
            case responseTunnel response of
              Nothing -> unexpected "a tunnel" "none"
              Just duplex -> do
                duplexReceive duplex >>= (@?= "early")
                duplexSend duplex "late"
                duplexReceive duplex >>= (@?= "late")
            -- A tunnel is not the pool's.
            connectionsInAll client >>= (@?= 0)
          request <- takeMVar heard
          B.isSuffixOf "\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" request @?= True,
    testCase "a refused upgrade is a response" $
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "no")) $ \origin ->
        withPatient backend patient $ \client ->
          fetch client (get origin "/") {requestUpgrade = Just "echo"} 10 >>= (@?= "no") . fetchedContent,
    testCase "CONNECT" $
      withScripted (\_ peer -> hearHead peer >>= \h -> tell peer ("HTTP/1.1 200 OK\r\n\r\n" <> h)) $ \origin ->
        withPatient backend patient $ \client ->
          withResponse client (requestTo "CONNECT" origin "far:25") $ \response -> case responseTunnel response of
            Nothing -> unexpected "a tunnel" "none"
            Just duplex -> duplexReceive duplex >>= (@?= "CONNECT far:25 HTTP/1.1\r\nHost: far:25\r\n\r\n"),
    testCase "through a proxy, a request names its whole address" $
      withScripted (\_ peer -> hearHead peer >>= tell peer . simple) $ \proxy ->
        withPatient backend patient {clientProxy = Just (ClientProxy proxy (Just "Basic eA=="))} $ \client ->
          fetch client (get (Origin False (Tcp "far.example" 8080)) "/a?b") 1000
            >>= (@?= "GET http://far.example:8080/a?b HTTP/1.1\r\nHost: far.example:8080\r\nProxy-Authorization: Basic eA==\r\n\r\n") . fetchedContent,
    testCase "a layer" $ do
      withScripted (\_ peer -> let go = hearTurned peer >>= tell peer . turned . simple >> go in go) $ \origin -> do
        released <- newIORef (0 :: Int)
        withPatient backend patient {clientSecure = Just (toy released ["127.0.0.1"])} $ \client -> onOne $ do
          let secure = origin {originSecure = True}
          replicateM 2 (fetchedContent <$> fetch client (get secure "/x") 1000) >>= (@?= replicate 2 (C.concat ["GET /x HTTP/1.1\r\nHost: ", originAuthority secure, "\r\n\r\n"]))
          closeClient client
        readIORef released >>= (@?= 1),
    testCase "bodies through a layer" $ do
      let body = C.pack (concatMap show [1 .. 50000 :: Int])
          size = B.length body
      withScripted (\_ peer -> let go = hearTurned peer >> hearExactlyFrom peer size >>= tell peer . turned . simple . turned >> go in go) $ \origin -> do
        released <- newIORef (0 :: Int)
        directory <- getTemporaryDirectory
        bracket (openBinaryTempFile directory "heddle-client") (removeFile . fst) $ \(path, handle) -> do
          B.hPut handle (body <> "more") >> hClose handle
          bracket (openDescriptor path ReadOnly) closeFd $ \fd ->
            withPatient backend patient {clientSecure = Just (toy released ["127.0.0.1"])} $ \client -> onOne $ do
              let post b = (requestTo "POST" origin {originSecure = True} "/") {requestBody = b}
              forM_ [BodyBytes body, BodyFile fd 0 size, BodySized size (`writerPut` body), BodySized size (`writerBuild` byteString body)] $ \b ->
                fetch client (post b) 1000000 >>= (@?= body) . fetchedContent
              failureIs (== BodyLengthDiffers (size + 9) (size + 4)) "BodyLengthDiffers" (fetch client (post (BodyFile fd 0 (size + 9))) 10)
              closeClient client
        readIORef released >>= (@?= 1),
    testCase "an early answer through a layer, whose socket takes no more" $ do
      hold <- newEmptyMVar
      withScripted (\_ peer -> hearTurned peer >> takeMVar hold >> tell peer (turned (simple "early")) >> takeMVar hold) $ \origin -> do
        released <- newIORef (0 :: Int)
        withPatient backend patient {clientSecure = Just (toy released ["127.0.0.1"])} $ \client -> do
          let wrote w = putMVar hold () >> forever (writerPut w (C.replicate 100000 'x'))
          fetch client (requestTo "POST" origin {originSecure = True} "/") {requestBody = BodyChunked wrote} 10 >>= (@?= "early") . fetchedContent
          putMVar hold ()
        readIORef released >>= (@?= 1),
    testCase "a layer through a proxy" $ do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >>= putMVar heard >> tell peer "HTTP/1.1 200 Fine\r\nA: b\r\n\r\n" >> hearTurned peer >>= tell peer . turned . simple) $ \proxy -> do
        released <- newIORef (0 :: Int)
        withPatient backend patient {clientSecure = Just (toy released ["far.example"]), clientProxy = Just (ClientProxy proxy Nothing)} $ \client -> do
          fetch client (get (Origin True (Tcp "far.example" 443)) "/x") 1000 >>= (@?= "GET /x HTTP/1.1\r\nHost: far.example\r\n\r\n") . fetchedContent
          takeMVar heard >>= (@?= "CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n\r\n")
          closeClient client
        readIORef released >>= (@?= 1),
    testGroup
      "a proxy that refuses"
      [ testCase (show bytes) $
          withScripted (\_ peer -> hearHead peer >> tell peer bytes) $ \proxy -> do
            released <- newIORef (0 :: Int)
            withPatient backend patient {clientSecure = Just (toy released ["far.example"]), clientProxy = Just (ClientProxy proxy Nothing)} $ \client ->
              failureIs (== failure) (show failure) (fetch client (get (Origin True (Tcp "far.example" 443)) "/x") 1000)
            readIORef released >>= (@?= 0)
        | (bytes, failure) <-
            [ ("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", ProxyRefused 407),
              ("HTTP/1.1 200 OK\r\n\r\nearly", NotSecured "bytes follow the proxy's answer, but the server has not been asked"),
              ("HTTP/1.1 200 OK\r\n", Ended AskingProxy),
              ("", Ended AskingProxy),
              ("SSH-2.0\r\n", BadAnswer NotHttp)
            ]
      ],
    testCase "https without a way to secure it" $
      withScripted (\_ _ -> pure ()) $ \origin ->
        withPatient backend patient $ \client ->
          failureIs notSecured "NotSecured" (fetch client (get origin {originSecure = True} "/") 10),
    testCase "a layer that does not open" $
      withScripted (\_ peer -> void (hearToEnd peer)) $ \origin ->
        withPatient backend patient {clientSecure = Just (\_ _ _ -> pure (NotOpened "wrong name"))} $ \client ->
          failureIs (== NotSecured "wrong name") "NotSecured" (fetch client (get origin {originSecure = True} "/") 10)
  ]
  where
    notSecured = \case
      NotSecured _ -> True
      _ -> False

turned :: ByteString -> ByteString
turned = B.map complement

-- A request's head through the layer.
hearTurned :: Peer -> IO ByteString
hearTurned peer = go B.empty
  where
    go got
      | "\r\n\r\n" `B.isSuffixOf` got = pure got
      | otherwise = hearExactlyFrom peer 1 >>= \byte -> go (got <> turned byte)

-- A layer that turns every bit, for the hosts of a list; counts how many were released.
toy :: IORef Int -> [ByteString] -> ByteString -> Opening
toy released hosts name registration _
  | name `notElem` hosts = pure (NotOpened ("not for " ++ show name))
  | otherwise = do
    closed <- newIORef False
    let receiving receive p n = do
          r <- receive p n
          when (r > 0) (turnMemory p r)
          pure r
    pure . Opened $
      Layer
        { layerReadNow = receiving (receiveNow registration),
          layerReadUntil = \p n deadline -> receiving (\q m -> receiveUntil registration q m deadline) p n,
          layerHoldsInput = pure False,
          layerWriteSomeUntil = \p n deadline -> do
            bytes <- B.packCStringLen (castPtr p, min n 100)
            unsafeUseAsCStringLen (turned bytes) $ \(q, k) -> sendUntil registration (castPtr q) k deadline,
          layerWriteFilePaced = \_ _ _ _ -> pure 0,
          layerEndWriting = endSending registration,
          layerClose = atomicModifyIORef' closed (\c -> (True, c)) >>= \before -> if before then pure () else modifyIORef released (+ 1),
          layerFacts = LayerFacts "toy" "complement" "" "" Nothing
        }

turnMemory :: Ptr Word8 -> Int -> IO ()
turnMemory p n = forM_ [0 .. n - 1] $ \i -> do
  byte <- peekByteOff p i
  pokeByteOff p i (complement byte :: Word8)
