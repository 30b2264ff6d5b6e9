{-# LANGUAGE OverloadedStrings #-}

-- | Connections that leave HTTP, and connections through a layer. The layer is a toy that stands
-- for TLS: it turns every bit, receives more than it gives, and greets with a byte.
module EngineTransport
  ( tests,
    greeting,
    hearTurned,
    toyOpening,
    turned,
  )
where

import Control.Exception (ErrorCall (..), throwIO)
import Control.Monad (forM_, unless, when)
import Data.Bits (complement)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.Word (Word16, Word8)
import EngineFixture
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (pokeByteOff)
import Heddle.Http
import Heddle.IO (BackendChoice (..), Config (..), ListenOptions (..), Listener (..), Spread (..), defaultConfig, defaultListenOptions, withListener, withRuntime)
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Clock (deadlineIn, milliseconds)
import Heddle.Prim.File (closeFile, openFile, readAt, readOnly)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "transports"
    [ onBothBackends "tunnels" tunnels,
      onBothBackends "a layer" layers
    ]

-- Tunnels -------------------------------------------------------------------------

tunnels :: BackendChoice -> [TestTree]
tunnels backend =
  [ testCase "101, then what the client sent after its head, then an echo" $
      withEngine backend tight (tunnel (Just (status101, [Header "Upgrade" "echo"]))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/" <> "early ")
          answer <- hearHead id client
          answer `contains` "HTTP/1.1 101 Switching Protocols\r\n"
          answer `contains` "Connection: Upgrade\r\n"
          answer `lacks` "Content-Length"
          say client "late"
          finish client
          (rest, ending) <- hearRest client
          (rest, ending) @?= ("early late", Closed)
        failuresAre engine []
        engineLogged engine >>= (@?= [101]),
    testCase "without a head, only what the action sends" $
      withEngine backend tight (tunnel Nothing) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/" <> "HTTP/1.1 200 OK\r\n\r\n")
          finish client
          (rest, _) <- hearRest client
          rest @?= "HTTP/1.1 200 OK\r\n\r\n",
    testCase "a body that the handler left unread is the tunnel's" $
      withEngine backend tight (tunnel Nothing) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody and more"
          finish client
          (rest, _) <- hearRest client
          rest @?= "body and more",
    testCase "a deadline of the tunnel's own" $ do
      outcome <- newIORef Nothing
      let waits duplex = do
            soon <- deadlineSoon
            duplexReceiveUntil duplex soon >>= writeIORef outcome . Just
      withEngine backend tight (\_ -> pure (Tunnel Nothing waits)) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/")
          hearEnd client
      readIORef outcome >>= (@?= Just Nothing),
    testCase "an exception of the action is reported, and the connection closes" $
      withEngine backend tight (\_ -> pure (Tunnel Nothing (\_ -> throwIO (ErrorCall "in the tunnel")))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> say client (get "/") >> hearEnd client
        failuresAre engine ["in the tunnel"],
    testCase "headers that cannot be sent make it a 500" $
      withEngine backend tight (tunnel (Just (status101, [Header "X" "a\r\nb"]))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/")
          answer <- hearAnswer client
          answerCode answer @?= 500
        failuresAre engine ["cannot send the reply's header \"X\""],
    testCase "a client that goes away ends the tunnel" $
      withEngine backend tight (tunnel Nothing) $ \engine -> do
        withClient (engineAddress engine) $ \client -> say client (get "/") >> abort client
        _ <- eventually "the tunnel to end" (connectionsOpen (engineServer engine)) (== 0)
        failuresAre engine [],
    testCase "cutShort ends a tunnel" $
      withEngine backend tight (tunnel Nothing) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/" <> "x")
          _ <- hearExactly client 1
          cutShort (engineServer engine)
          hearEnd client
  ]
  where
    tunnel h _ = pure (Tunnel h back)
    contains whole part = B.isInfixOf part whole @?= True
    lacks whole part = B.isInfixOf part whole @?= False
    deadlineSoon = deadlineIn (milliseconds 20)

-- Sends back what comes.
back :: Duplex -> IO ()
back duplex = do
  bytes <- duplexReceive duplex
  unless (B.null bytes) (duplexSend duplex bytes >> back duplex)

-- Layers --------------------------------------------------------------------------

layers :: BackendChoice -> [TestTree]
layers backend =
  [ testCase "requests, pipelined requests, idling between them" $
      withLayered backend echo $ \engine -> layered engine $ \client -> do
        forM_ ["/1", "/2" :: ByteString] $ \t -> do
          say client (turned (get t))
          hearTurned client ("GET " <> t <> "\n") 200
        say client (turned (B.concat [get "/3", get "/4", get "/5"]))
        forM_ ["/3", "/4", "/5" :: ByteString] $ \t -> hearTurned client ("GET " <> t <> "\n") 200,
    testCase "a request, one byte at a time" $
      withLayered backend echo $ \engine -> layered engine $ \client -> do
        forM_ (B.unpack (turned (get "/slow"))) (say client . B.singleton)
        hearTurned client "GET /slow\n" 200,
    testCase "a body that is not read, one byte at a time" $
      withLayered backend (\_ -> pure (Whole status200 [] "done")) $ \engine -> layered engine $ \client -> do
        say client (turned "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n")
        forM_ [1 .. 30 :: Int] $ \_ -> say client (turned "b")
        hearTurned client "done" 200,
    testCase "a body, larger than what the layer gives at once" $
      withLayered backend echo $ \engine -> layered engine $ \client -> do
        let body = C.replicate 50000 'b'
        say client (turned ("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n" <> body))
        hearTurned client ("POST /b\n" <> body) 200,
    testCase "streams and files" $ do
      file <- fromIntegral <$> openFile "/etc/passwd" readOnly
      content <- B.readFile "/etc/passwd"
      let handler request =
            target request >>= \case
              "/file" -> pure (Segments status200 [] [SegmentBytes "<", SegmentFile file 0 (B.length content), SegmentBytes ">"] (pure ()))
              _ -> pure (Stream status200 [] (\w -> forM_ [1 .. 1000 :: Int] (writerPut w . C.pack . show) >> writerFlush w))
      withLayered backend handler $ \engine -> do
        layered engine $ \client -> do
          say client (turned (get "/file"))
          hearTurned client ("<" <> content <> ">") 200
        layered engine $ \client -> do
          say client (turned (get "/stream"))
          answer <- hearDecoded client
          B.isInfixOf "3\r\n999\r\n4\r\n1000\r\n0\r\n\r\n" answer @?= True
      _ <- closeFile file
      pure (),
    testCase "Strict-Transport-Security is sent through the layer, and nowhere else" $ do
      ready <- newPrebuilt "heddle" status200 [] (ContentOf 2 (\p -> pokeByteOff p 0 (0x6b6f :: Word16)))
      let settings = tight {settingStrictTransport = "max-age=1000"}
          handler request = (\t -> if t == "/ready" then Ready ready else Whole status200 [] "ok") <$> target request
          line = "Strict-Transport-Security: max-age=1000\r\n"
          asked = [get "/ready", get "/whole", "GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
      withLayeredOn backend settings handler $ \engine -> layered engine $ \client -> do
        say client (turned (B.concat asked))
        answer <- hearDecoded client
        length (pieces line answer) @?= 4
        length (pieces "\r\n\r\nok" answer) @?= 4
      withEngine backend settings handler $ \engine -> withClient (engineAddress engine) $ \client -> do
        say client (B.concat asked)
        (answer, _) <- hearRest client
        length (pieces line answer) @?= 1
        length (pieces "\r\n\r\nok" answer) @?= 4,
    testCase "a client that speaks plain HTTP is told so" $
      withLayered backend echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/")
          answer <- hearAnswer client
          answerCode answer @?= 400
          B.isInfixOf "https://" (answerBody answer) @?= True
          hearEnd client,
    testCase "a client that speaks plain HTTP is served, if that is wanted" $
      withLayeredOn backend tight {settingOnClearText = ServeClearText} echo $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          forM_ (B.unpack (get "/1" <> get "/2")) (say client . B.singleton)
          hearAnswer client >>= answersWith 200 "GET /1\n"
          hearAnswer client >>= answersWith 200 "GET /2\n"
          say client (get "/3")
          hearAnswer client >>= answersWith 200 "GET /3\n"
        layered engine $ \client -> do
          say client (turned (get "/4"))
          hearTurned client "GET /4\n" 200,
    testCase "a client that says nothing is closed" $
      withLayeredOn backend tight {settingHead = milliseconds 20} echo $ \engine ->
        withClient (engineAddress engine) hearEnd,
    testCase "a tunnel" $
      withLayered backend (\_ -> pure (Tunnel Nothing back)) $ \engine ->
        layered engine $ \client -> do
          say client (turned (get "/" <> "through"))
          finish client
          (rest, _) <- hearRest client
          turned rest @?= "through",
    testCase "a connection that is cut while it idles releases its layer" $
      withLayered backend echo $ \engine -> layered engine $ \client -> do
        say client (turned (get "/1"))
        hearTurned client "GET /1\n" 200
        cutShort (engineServer engine)
        hearEnd client,
    testCase "a handler that fails" $
      withLayered backend (\_ -> throwIO (ErrorCall "once")) $ \engine -> do
        layered engine $ \client -> do
          say client (turned (get "/1"))
          hearTurned client "500 Internal Server Error\nThe server failed to answer this request.\n" 500
        failuresAre engine ["once"]
  ]
  where
    withLayered b = withLayeredOn b tight
    layered engine body = withClient (engineAddress engine) $ \client -> say client greeting >> body client

-- As 'withEngine'; at the end every layer that was opened has been released, once.
withLayeredOn :: BackendChoice -> Settings -> Handler -> (Engine -> IO a) -> IO a
withLayeredOn backend settings handler body = do
  open <- newIORef (0 :: Int)
  failures <- newIORef []
  withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServerOn runtime settings {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (es ++ [e], ()))} (\_ -> pure (handlersOf handler)) [(listener, Encrypted (toyOpening open))] $ \server -> do
        r <- body (Engine (listenerAddress listener) server (pure []) (readIORef failures) (pure []) (pure []))
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        _ <- eventually "every layer to be released" (readIORef open) (== 0)
        pure r

-- What is between the occurrences of a part.
pieces :: ByteString -> ByteString -> [ByteString]
pieces part whole = case B.breakSubstring part whole of
  (before, rest)
    | B.null rest -> [before]
    | otherwise -> before : pieces part (B.drop (B.length part) rest)

greeting :: ByteString
greeting = "!"

turned :: ByteString -> ByteString
turned = B.map complement

hearDecoded :: Client -> IO ByteString
hearDecoded client = finish client >> turned . fst <$> hearRest client

-- One answer with a length, through the layer.
hearTurned :: Client -> ByteString -> Int -> IO ()
hearTurned client body code = do
  h <- hearHead turned client
  B.isPrefixOf ("HTTP/1.1 " <> C.pack (show code)) h @?= True
  content <- hearExactly client (B.length body)
  turned content @?= body

-- The head of an answer, decoded byte by byte.
hearHead :: (ByteString -> ByteString) -> Client -> IO ByteString
hearHead decode client = go B.empty
  where
    go got
      | "\r\n\r\n" `B.isSuffixOf` got = pure got
      | otherwise = do
        byte <- hearExactly client 1
        when (B.null byte) (unexpected "the end of a head" (show got))
        go (got <> decode byte)

toyOpening :: IORef Int -> Opening
toyOpening open registration deadline = allocaBytes 1 $ \p -> do
  n <- receiveUntil registration p 1 deadline
  first <- if n == 1 then B.packCStringLen (castPtr p, 1) else pure B.empty
  if first == greeting
    then do
      atomicModifyIORef' open (\c -> (c + 1, ()))
      Opened <$> toyLayer open registration
    else pure (if n == 1 then OtherProtocol first else NotOpened "no greeting")

toyLayer :: IORef Int -> Registration -> IO Layer
toyLayer open registration = do
  held <- newIORef B.empty
  closed <- newIORef False
  let give p n = do
        bytes <- readIORef held
        let (now, later) = B.splitAt (min n 7) bytes
        unsafeUseAsCStringLen now $ \(q, k) -> copyBytes p (castPtr q) k
        writeIORef held later
        pure (B.length now)
      reading :: (Ptr Word8 -> Int -> IO Int) -> Ptr Word8 -> Int -> IO Int
      reading receive p n = do
        empty <- B.null <$> readIORef held
        if not empty
          then give p n
          else allocaBytes 1000 $ \q -> do
            r <- receive q 1000
            if r <= 0 then pure r else B.packCStringLen (castPtr q, r) >>= writeIORef held . turned >> give p n
      writeSome p n deadline = do
        bytes <- B.packCStringLen (castPtr p, min n 100)
        unsafeUseAsCStringLen (turned bytes) $ \(q, k) -> sendUntil registration (castPtr q) k deadline
      writeFile' fd offset n pace = go 0
        where
          go done
            | done >= n = pure done
            | otherwise = do
              deadline <- pace done
              r <- allocaBytes 4096 $ \p -> do
                k <- readAt fd p (min 4096 (n - done)) (offset + fromIntegral done)
                if k <= 0 then pure k else writeAll p k deadline
              if r <= 0 then pure done else go (done + r)
          writeAll p k deadline = do
            bytes <- B.packCStringLen (castPtr p, k)
            unsafeUseAsCStringLen (turned bytes) $ \(q, m) -> sendUntil registration (castPtr q) m deadline
  pure
    Layer
      { layerReadNow = reading (receiveNow registration),
        layerReadUntil = \p n deadline -> reading (\q m -> receiveUntil registration q m deadline) p n,
        layerHoldsInput = not . B.null <$> readIORef held,
        layerWriteSomeUntil = writeSome,
        layerWriteFilePaced = writeFile',
        layerEndWriting = endSending registration,
        layerClose = do
          before <- atomicModifyIORef' closed (\c -> (True, c))
          unless before (atomicModifyIORef' open (\c -> (c - 1, ()))),
        layerFacts = LayerFacts "toy" "complement" "" "" Nothing
      }
