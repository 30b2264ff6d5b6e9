{-# LANGUAGE OverloadedStrings #-}

-- | A site for clients of HTTP/2, and programs that are such clients.
module H2Fixture
  ( Site (..),
    withSite,
    Kind (..),
    site,
    settings,
    runPeer,
    talkToPeer,
    portOf,
    program,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar, readMVar)
import Control.Exception (ErrorCall (..), SomeException, catch, throwIO, try)
import Control.Monad (forM_, forever, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Foreign.Storable (pokeByteOff)
import Heddle.Http
import Heddle.Http.Borrowed (abortRequest)
import Heddle.Http.Internal (liveSessions, liveStreams)
import Heddle.IO
  ( BackendChoice (..),
    Config (..),
    ListenOptions (..),
    Listener (..),
    Spread (..),
    defaultConfig,
    defaultListenOptions,
    withListener,
    withRuntime,
  )
import Heddle.IO.Registration (Registration, endSending, receiveNow, receiveUntil, sendFilePaced)
import Heddle.IO.Transport
import Heddle.Prim.Clock (milliseconds, seconds)
import Heddle.Prim.Exception (describeException)
import Heddle.Prim.File (closeFile, openFile, readOnly)
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Directory (getTemporaryDirectory, removeFile)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose, hGetContents, openTempFile)
import System.Process

-- | A server that runs.
data Site = Site
  { sitePort :: !String,
    siteServer :: !Server,
    -- | What handlers that wait were ended by.
    siteEnded :: !(IORef [String]),
    siteStarted :: !(IORef Int),
    -- | Opens @/gate@ and @/stubborn@.
    siteGate :: !(MVar ()),
    siteFailures :: !(IORef [String]),
    -- | Status and bytes of content, the last one first.
    siteLogged :: !(IORef [(Int, Int)])
  }

-- | How the clients reach it.
data Kind
  = -- | By prior knowledge.
    Clear
  | -- | A layer that passes everything on and has agreed on h2 stands for TLS. Some replies are at hand, and
    -- sent by the connection's thread.
    Agreed
  deriving stock (Eq)

-- | Short only where a test is about it.
settings :: Settings
settings =
  defaultSettings
    { settingLimits = defaultLimits {limitBody = 8000000},
      settingIdle = seconds 60,
      settingHead = seconds 60,
      settingBodyPace = Pace (seconds 60) 1,
      settingReplyPace = Pace (seconds 60) 1,
      settingGrace = milliseconds 50
    }

-- | Serve while the body runs, and see that connections, sessions and streams end.
withSite :: BackendChoice -> Kind -> Settings -> (Site -> IO a) -> IO a
withSite backend kind chosen body = do
  ended <- newIORef []
  started <- newIORef 0
  gate <- newEmptyMVar
  failures <- newIORef []
  logs <- newIORef []
  path <- makeFile
  let failed _ e = atomicModifyIORef' failures (\es -> (es ++ [describeException (e :: SomeException)], ()))
      hook _ _ status sent = atomicModifyIORef' logs (\ls -> ((statusCode status, sent) : ls, ()))
      scheme = case kind of
        Clear -> ClearText
        Agreed -> Encrypted (\registration _ -> pure (Opened (passing registration)))
  r <- withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener -> do
      let make _ = do
            ready <- newPrebuilt "heddle" status200 [] (ContentOf 6 (forM_ (zip [0 ..] (B.unpack "ready\n")) . uncurry . pokeByteOff))
            pure (handlersOf (site path ready started ended gate)) {handlersAtOnce = if kind == Agreed then Just (atOnce ready) else Nothing, handlersLog = Just hook}
      withServerOn runtime chosen {settingFailed = failed} make [(listener, scheme)] $ \server -> do
        r <- body (Site (show (portOf (listenerAddress listener))) server ended started gate failures logs)
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        pure r
  removeFile path
  _ <- eventually "every session to end" liveSessions (== 0)
  _ <- eventually "every stream to end" liveStreams (== 0)
  pure r
  where
    makeFile = do
      directory <- getTemporaryDirectory
      (path, handle) <- openTempFile directory "heddle-h2"
      B.hPut handle (B.pack [fromIntegral (i `mod` 251) | i <- [0 .. 199999 :: Int]])
      hClose handle
      pure path

-- | The port of an address of the loopback interface.
portOf :: SockAddr -> Int
portOf = \case
  SockAddrInet port _ -> fromIntegral port
  _ -> 0

-- Passes everything on. It stands for TLS that has agreed on h2.
passing :: Registration -> Layer
passing registration =
  Layer
    { layerReadNow = receiveNow registration,
      layerReadUntil = receiveUntil registration,
      layerHoldsInput = pure False,
      layerWriteSomeUntil = writeSomeUntil (Bare registration),
      layerWriteFilePaced = sendFilePaced registration,
      layerEndWriting = endSending registration,
      layerClose = pure (),
      layerFacts = LayerFacts "TLSv1.3" "none" "h2" "" Nothing
    }

-- Some of the handler's replies; those that are too large, of a kind that may wait, or fail, are left to it.
atOnce :: Prebuilt -> Request -> IO (Maybe Reply)
atOnce ready request =
  rawPath request >>= \case
    "/hello" -> pure (Just (Whole status200 [Header "Content-Type" "text/plain"] "hello\n"))
    "/forty" -> pure (Just (Whole status200 [] (C.replicate 40000 'f')))
    "/big" -> pure (Just (Whole status200 [] (C.replicate 3000000 'y')))
    "/ready" -> pure (Just (Ready ready))
    "/204" -> pure (Just (Whole status204 [] "nothing"))
    "/stream" -> pure (Just (Stream status200 [] (`writerPut` "never sent at once")))
    "/small" -> throwIO (ErrorCall "left to the handler")
    "/fields" -> pure (Just (Whole status200 [Header "X" "\r\n"] "unsafe, left to the handler"))
    _ -> pure Nothing

-- | The handler; see the cases of @h2_peer.py@.
site :: FilePath -> Prebuilt -> IORef Int -> IORef [String] -> MVar () -> Handler
site path ready started ended gate request = do
  atomicModifyIORef' started (\n -> (n + 1, ()))
  rawPath request >>= \case
    "/hello" -> pure (Whole status200 [Header "Content-Type" "text/plain"] "hello\n")
    "/forty" -> pure (Whole status200 [] forty)
    "/big" -> pure (Whole status200 [] (C.replicate 3000000 'x'))
    "/ready" -> pure (Ready ready)
    "/204" -> pure (Whole status204 [] "nothing")
    "/304" -> pure (Stream status304 [] (`writerPut` "nothing"))
    "/fields" -> pure (Whole status200 [Header "X-Mixed-Case" " kept ", Header "Connection" "close", Header "Transfer-Encoding" "chunked", Header "Keep-Alive" "1", Header "Upgrade" "x"] "")
    "/stream" -> pure (Stream status200 [] (\w -> writerPut w "one " >> writerFlush w >> writerPut w "two " >> writerPut w "" >> writerPut w "three"))
    "/file" -> do
      fd <- fromIntegral <$> openFile (C.pack path) readOnly
      pure (Segments status200 [] [SegmentBytes (B.pack [0 .. 99]), SegmentFile fd 100 199900] (void (closeFile fd)))
    "/short" -> do
      fd <- fromIntegral <$> openFile (C.pack path) readOnly
      pure (Segments status200 [] [SegmentFile fd 0 300000] (void (closeFile fd)))
    "/built" -> pure (Built status200 [] (mconcat (replicate 20000 (Builder.byteString "0123456789"))))
    "/small" -> pure (Built status200 [] (Builder.byteString "small"))
    "/sized" -> pure (StreamOf status200 [] 10 (\w -> writerPut w "12345" >> writerBuild w (Builder.byteString "67890")))
    "/wrong" -> pure (StreamOf status200 [] 10 (`writerPut` "12345"))
    "/built-of" -> pure (BuiltOf status200 [] 200000 (mconcat (replicate 20000 (Builder.byteString "0123456789"))))
    "/built-wrong" -> pure (BuiltOf status200 [] 10 (Builder.byteString "12345"))
    "/failing" -> pure (Built status200 [] (Builder.byteString (error "failing")))
    "/now" -> do
      n <- replyNow request (Stream status200 [] (`writerPut` "now"))
      twice <- try (replyNow request (Whole status200 [] "twice"))
      unless (n == 3 && either (== RepliedTwice) (const False) twice) $ throwIO (ErrorCall "replied wrongly")
      pure (Replied status200)
    "/echo-now" -> Replied status200 <$ replyNow request (Stream status200 [] (\w -> let go = readBody request >>= \b -> unless (B.null b) (writerPut w b >> go) in go))
    -- The field is one that libnghttp2 refuses.
    "/goes-on" -> do
      let persistent w = (writerPut w "one" `catch` \(_ :: UnsafeHeader) -> pure ()) >> writerPut w "two"
      try (replyNow request (Stream status200 [Header "X" "a\SOHb"] persistent)) >>= \case
        Left (UnsafeHeader _) -> pure (Whole status200 [] "refused")
        Right _ -> pure (Replied status200)
    "/never" -> pure (Replied status200)
    "/trailers" ->
      query request >>= \wanted -> do
        let fields = case wanted of
              "early" -> [Header "Content-Length" "4", Header "set-cookie" "a=b", Header "If-Match" "x"]
              "bad" -> [Header "x y" "a"]
              "many" -> replicate 65 (Header "a" "b")
              _ -> [Header "Grpc-Status" "0", Header "Content-Length" "9", Header "X-Two" " 2 "]
            pieces = case wanted of
              "alone" -> []
              "big" -> replicate 30 (C.replicate 10000 't')
              _ -> ["bo", "dy"]
            -- The last ones count.
            content w = writerTrailers w [Header "earlier" "1"] >> mapM_ (writerPut w) pieces >> writerTrailers w fields
        pure (if wanted == "sized" then StreamOf status200 [] 4 content else Stream status200 [] content)
    "/hints" ->
      query request >>= \case
        "bad" -> do
          refused <- try (replyInterim request status103 [Header "x y" "a"])
          unsafe <- try (replyInterim request status103 [Header "x" "a\r\n"])
          pure (Whole status200 [] (if map (either (\(UnsafeHeader _) -> True) (const False)) [refused, unsafe] == [True, True] then "refused" else "sent"))
        _ -> do
          -- HTTP/2 has no 101.
          replyInterim request status101 [Header "Upgrade" "x"]
          replyInterim request status103 [Header "Link" "</a>; rel=preload"]
          replyInterim request status103 [Header "Link" (C.concat ["<", C.replicate 5000 'b', ">"])]
          readMVar gate
          pure (Whole status200 [] "hinted")
    "/close" -> closeAfterReply request >> pure (Whole status200 [] "closing")
    "/abort" -> abortRequest request >> newEmptyMVar >>= readMVar >> pure (Whole status200 [] "")
    "/left" -> bodyLeft request >>= \left -> pure (Whole status200 [] (C.pack (show left)))
    "/whole" -> Whole status200 [] <$> readWholeBody request 8000000
    "/echo" -> pure (Stream status200 [] (\w -> let go = readBody request >>= \b -> unless (B.null b) (writerPut w b >> go) in go))
    "/seen" -> do
      major <- httpMajor request
      minor <- httpMinor request
      m <- methodBytes request
      t <- target request
      hs <- headers request
      pure (Whole status200 [] (C.unlines (C.concat [C.pack (show major), ".", C.pack (show minor), " ", m, " ", t] : [n <> ": " <> v | (n, v) <- hs])))
    "/throw" -> throwIO (ErrorCall "thrown")
    "/torn" -> pure (Stream status200 [] (\w -> writerPut w "begun" >> throwIO (ErrorCall "torn")))
    "/unsafe" -> pure (Whole status200 [Header "X" "a\r\nb"] "")
    "/forbidden" -> pure (Whole status200 [Header "X y" "a"] "")
    "/tunnel" -> pure (Tunnel Nothing (\_ -> pure ()))
    "/wait" -> noting (newEmptyMVar >>= readMVar) >> pure (Whole status200 [] "")
    "/endless" -> pure (Stream status200 [] (\w -> noting (forever (writerPut w (C.replicate 1000 'e')))))
    "/gate" -> readMVar gate >> pure (Whole status200 [] "opened")
    -- Nothing ends it but the gate.
    "/stubborn" -> let stay = readMVar gate `catch` \(_ :: SomeException) -> stay in stay >> pure (Whole status200 [] "")
    _ -> pure (Whole status404 [] "")
  where
    noting :: IO () -> IO ()
    noting act =
      act `catch` \e -> do
        atomicModifyIORef' ended (\es -> (describeException e : es, ()))
        throwIO (e :: SomeException)

-- One string for all requests.
forty :: B.ByteString
forty = C.replicate 40000 'f'
{-# NOINLINE forty #-}

-- | Run a case of @h2_peer.py@.
runPeer :: Site -> String -> Int -> IO ()
runPeer at name seed = talkToPeer at name seed (\_ _ -> pure ())

-- | The same, talking with it: its input and its output.
talkToPeer :: Site -> String -> Int -> (Handle -> Handle -> IO ()) -> IO ()
talkToPeer at name seed talk = do
  -- The interpreter of the system, for which Debian's python3-h2 is.
  let command = (proc "/usr/bin/python3" ["test/h2_peer.py", sitePort at, name, show seed]) {std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe}
  within 100000000 ("the case " ++ name) $
    withCreateProcess command $ \input output errors process -> case (input, output, errors) of
      (Just i, Just o, Just e) -> do
        talk i o
        hClose i
        said <- hGetContents e
        code <- length said `seq` waitForProcess process
        unless (code == ExitSuccess) $ unexpected ("the case " ++ name ++ " with seed " ++ show seed ++ " to end well") said
      _ -> unexpected "three pipes" "fewer"

-- | What a program prints.
program :: FilePath -> [String] -> IO String
program name arguments = do
  (code, out, err) <- within 100000000 name (readProcessWithExitCode name arguments "")
  if code == ExitSuccess then pure out else unexpected (unwords (name : arguments) ++ " to end well") (show code ++ "\n" ++ out ++ err)
