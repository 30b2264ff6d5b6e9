{-# LANGUAGE OverloadedStrings #-}

-- | What the settings do: hooks, time-outs, shutdown, sockets.
module ServerSettings (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, threadDelay)
import Control.Exception (ErrorCall (..), IOException, bracket, throwIO, try)
import Control.Monad (forM_, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Fixture
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask, killTask)
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Network.Wai
import Network.Wai.Handler.Heddle
import System.Directory (findFile)
import System.Environment (setEnv, unsetEnv)
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Process (CreateProcess (..), StdStream (CreatePipe), proc, withCreateProcess)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "settings"
    [ testCase "the hooks of a connection" $ do
        opened <- newIORef (0 :: Int)
        closed <- newIORef (0 :: Int)
        let settings = setOnOpen (\_ -> True <$ count opened) (setOnClose (\_ -> count closed) defaultSettings)
        withHeddleSettings settings hello $ \address -> do
          forM_ [1 :: Int .. 10] $ \n -> withClient address $ \client -> do
            forM_ [1 :: Int .. 3] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello"
            -- Some leave without an end.
            if even n then abort client else pure ()
          void (eventually "ten closings" (readIORef closed) (== 10))
          readIORef opened >>= (@?= 10),
      testCase "connections that the server closes are closed once, too" $ do
        closed <- newIORef (0 :: Int)
        withHeddleSettings (setOnClose (\_ -> count closed) defaultSettings) hello $ \address -> do
          withClient address $ \client -> say client (get "/") >> void (hearAnswer client) >> pure ()
          withClient address $ \client -> say client "rubbish\r\n\r\n" >> void (hearCodes client)
          void (eventually "two closings" (readIORef closed) (== 2))
        readIORef closed >>= (@?= 2),
      testCase "a connection that is not wanted is closed, without the closing hook" $ do
        closed <- newIORef (0 :: Int)
        withHeddleSettings (setOnOpen (\_ -> pure False) (setOnClose (\_ -> count closed) defaultSettings)) hello $ \address ->
          withClient address $ \client -> say client (get "/") >> hearRest client >>= (@?= "") . fst
        readIORef closed >>= (@?= 0),
      testCase "behind a proxy, the header's address is the client's" $ do
        told <- newIORef []
        let tell address = True <$ atomicModifyIORef' told (\old -> (old ++ [address], ()))
            whose request respond = respond (responseLBS status200 [] (L.fromStrict (C.pack (show (remoteHost request)))))
            client = SockAddrInet 1234 (tupleToHostAddress (203, 0, 113, 7))
        withHeddleSettings (setProxyProtocolRequired (setOnOpen tell defaultSettings)) whose $ \address -> do
          withClient address $ \c -> do
            say c ("PROXY TCP4 203.0.113.7 10.0.0.1 1234 80\r\n" <> get "/")
            hearAnswer c >>= answersWith 200 (C.pack (show client))
          withClient address $ \c -> say c (get "/") >> hearAnswer c >>= \answer -> answerCode answer @?= 400
        readIORef told >>= (@?= [client])
        withHeddleSettings (setProxyProtocolOptional defaultSettings) whose $ \address -> do
          withClient address $ \c -> do
            say c ("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\12\203\0\113\7\10\0\0\1\4\210\0\80" <> get "/")
            hearAnswer c >>= answersWith 200 (C.pack (show client))
          withClient address $ \c -> say c (get "/") >> hearAnswer c >>= \answer -> C.isPrefixOf "127.0.0.1:" (answerBody answer) @?= True
        withHeddleSettings (setProxyProtocolNone (setProxyProtocolRequired defaultSettings)) hello $ \address ->
          withClient address $ \c -> say c (get "/") >> hearAnswer c >>= answersWith 200 "hello",
      testCase "HAProxy names its clients, in both versions of the protocol" $
        findFile ["/usr/sbin", "/usr/bin"] "haproxy" >>= \case
          Nothing -> putStrLn "haproxy is not there; run: make setup"
          Just haproxy -> withTemporary $ \folder -> forM_ ["send-proxy", "send-proxy-v2 proxy-v2-options crc32c,unique-id"] $ \protocol ->
            withHeddleSettings (setProxyProtocolRequired defaultSettings) (\request respond -> respond (responseLBS status200 [] (L.fromStrict (C.pack (show (remoteHost request)))))) $ \address ->
              bracket openFreePort (close . snd) $ \(port, listening) -> do
                -- HAProxy inherits the listening socket, so no other program can take its port.
                inherited <- withFdSocket listening $ \fd -> fd <$ setFdOption (fromIntegral fd) CloseOnExec False
                writeFile (folder ++ "/proxy.cfg") . unlines $
                  ["defaults", "  mode tcp", "  timeout connect 30s", "  timeout client 30s", "  timeout server 30s"]
                    ++ ["listen all", "  bind fd@" ++ show inherited, "  server heddle " ++ show address ++ " " ++ protocol]
                withCreateProcess (proc haproxy ["-db", "-f", folder ++ "/proxy.cfg"]) {std_err = CreatePipe} $ \_ _ _ _ ->
                  bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
                    patiently "a connection" (connect s (loopback port))
                    me <- getSocketName s
                    sendAll s "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                    let hearAll' pieces = patiently "an answer" (recv s 65536) >>= \piece -> if B.null piece then pure (B.concat (reverse pieces)) else hearAll' (piece : pieces)
                    answer <- hearAll' []
                    snd (B.breakSubstring "\r\n\r\n" answer) @?= C.pack ("\r\n\r\n" ++ show me),
      testCase "an opening hook that fails is reported, and closes" $ do
        reports <- newIORef []
        withHeddleSettings (setOnOpen (\_ -> throwIO (ErrorCall "hook")) (reporting reports defaultSettings)) hello $ \address ->
          withClient address $ \client -> say client (get "/") >> hearRest client >>= (@?= "") . fst
        reportsAre reports [(False, "hook")],
      testCase "the logger hears of every response, with its size" $ do
        heard <- newIORef []
        let logger request status size = atomicModifyIORef' heard (\old -> (old ++ [(rawPathInfo request, statusCode status, statusMessage status, size)], ()))
            application request respond = case rawPathInfo request of
              "/stream" -> respond (responseStream status200 [] (\write flush -> write "abc" >> flush >> write "de"))
              "/words" -> respond (responseLBS (mkStatus 299 "Mine") [] "1234")
              "/boom" -> throwIO (ErrorCall "boom")
              _ -> hello request respond
        withHeddleSettings (setLogger logger (setOnException (\_ _ -> pure ()) defaultSettings)) application $ \address -> withClient address $ \client ->
          forM_ ["/", "/stream", "/words", "/boom"] $ \path -> say client (get path) >> hearAnswer client
        readIORef heard >>= (@?= [("/", 200, "OK", Just 5), ("/stream", 200, "OK", Just 5), ("/words", 299, "Mine", Just 4)]),
      testCase "server name and Alt-Svc" $ do
        let ask settings = withHeddleSettings settings hello $ \address -> withClient address $ \client -> say client (get "/") >> hearAnswer client
        named <- ask (setServerName "mine" (setAltSvc "h3=\":443\"" defaultSettings))
        (answerHeader named "server", answerHeader named "alt-svc") @?= (Just "mine", Just "h3=\":443\"")
        unnamed <- ask (setServerName "" defaultSettings)
        answerHeader unnamed "server" @?= Nothing,
      testCase "a head longer than the maximum is refused with 431" $
        withHeddleSettings (setMaxTotalHeaderLength 2000 defaultSettings) hello $ \address -> do
          let long n = C.concat ["GET / HTTP/1.1\r\nHost: a\r\nX: ", B.replicate n 97, "\r\n\r\n"]
          withClient address $ \client -> say client (long 1500) >> hearAnswer client >>= answersWith 200 "hello"
          withClient address $ \client -> say client (long 3000) >> hearCodes client >>= (@?= [431]),
      testCase "theLargestMaximumResetEveryConnection" $
        forM_ [maxBound, maxBound - 8192, 1000000000000, 1048576, 1000000] $ \most -> do
          withHeddleSettings (setMaxTotalHeaderLength most (setMaximumBodyFlush (Just maxBound) (setSlowlorisSize maxBound (setTimeout maxBound defaultSettings)))) hello $ \address ->
            forM_ [0, 300000] $ \n -> withClient address $ \client -> do
              sayPieces client ["GET / HTTP/1.1\r\nHost: a\r\nX: ", B.replicate n 97, "\r\n\r\n"]
              hearAnswer client >>= answersWith 200 "hello",
      testCase "theLeastMaximumTakesOrdinaryHeads" $
        forM_ [minBound, 0] $ \most -> withHeddleSettings (setMaxTotalHeaderLength most defaultSettings) hello $ \address ->
          withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello",
      testCase "a head of 40 KB is fine by default" $
        withHeddleSettings defaultSettings hello $ \address -> withClient address $ \client -> do
          say client (C.concat ["GET / HTTP/1.1\r\nHost: a\r\nCookie: ", B.replicate 40000 97, "\r\n\r\n"])
          hearAnswer client >>= answersWith 200 "hello",
      testCase "silent connections end after the time-out" $
        withHeddleSettings (setTimeout 3 defaultSettings) hello $ \address -> do
          withClient address hearEnd
          withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello" >> hearEnd client
          withClient address $ \client -> say client "GET / HT" >> hearCodes client >>= (@?= [408]),
      testCase "the time-out does not end an application that takes longer" $
        withHeddleSettings (setTimeout 3 defaultSettings) (\request respond -> threadDelay 4500000 >> hello request respond) $ \address ->
          withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello",
      testCase "before the main loop the socket listens, and no request is served" $ do
        served <- newIORef False
        order <- newEmptyMVar
        let settings = setBeforeMainLoop (readIORef served >>= putMVar order) defaultSettings
        withHeddleSettings settings (\request respond -> writeIORef served True >> hello request respond) $ \address -> do
          takeMVar order >>= (@?= False)
          withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello",
      testCase "a graceful shutdown finishes what is under way, and runSettings returns" $ do
        gate <- newEmptyMVar
        inside <- newEmptyMVar
        stop <- newEmptyMVar
        (port, sock) <- openFreePort
        let settings = setInstallShutdownHandler (putMVar stop) defaultSettings
            application request respond = putMVar inside () >> takeMVar gate >> hello request respond
        server <- forkTask (runSettingsSocket settings sock application)
        stopping <- takeMVar stop
        withClient (loopback port) $ \client -> do
          say client (get "/")
          takeMVar inside
          stopping
          -- Nothing new is accepted once the listeners are closed; the caller's socket goes too.
          close sock
          void (eventually "a refused connection" (try (withClient (loopback port) pure) >>= \r -> pure (either (\(_ :: IOException) -> True) (const False) r)) id)
          putMVar gate ()
          answer <- hearAnswer client
          answersWith 200 "hello" answer
          answerHeader answer "connection" @?= Just "close"
          hearEnd client
        joinTask server,
      testCase "a graceful shutdown ends idle connections" $ do
        stop <- newEmptyMVar
        (port, sock) <- openFreePort
        server <- forkTask (runSettingsSocket (setInstallShutdownHandler (putMVar stop) defaultSettings) sock hello)
        stopping <- takeMVar stop
        withClient (loopback port) $ \client -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 "hello"
          stopping
          hearEnd client
        joinTask server
        close sock,
      testCase "its time-out cuts what takes longer" $ do
        stop <- newEmptyMVar
        inside <- newEmptyMVar
        (port, sock) <- openFreePort
        let settings = setGracefulShutdownTimeout (Just 1) (setInstallShutdownHandler (putMVar stop) (setOnException (\_ _ -> pure ()) defaultSettings))
        server <- forkTask . runSettingsSocket settings sock $ \_ respond -> putMVar inside () >> threadDelay 10000000 >> respond (responseLBS status200 [] "late")
        stopping <- takeMVar stop
        withClient (loopback port) $ \client -> do
          say client (get "/")
          takeMVar inside
          stopping
          hearRest client >>= (@?= "") . fst
        joinTask server
        close sock,
      testCase "killing the server's thread closes everything" $ do
        (port, sock) <- openFreePort
        server <- forkTask (runSettingsSocket defaultSettings sock hello)
        withClient (loopback port) $ \client -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 "hello"
          _ <- killTask server
          hearEnd client
        close sock,
      testCase "a blocking socket, and a Unix one" $
        withTemporary $ \folder -> do
          let path = folder ++ "/socket"
          bracket (socket AF_UNIX Stream 0) close $ \sock -> do
            bind sock (SockAddrUnix path)
            listen sock 10
            seen <- newEmptyMVar
            server <- forkTask (runSettingsSocket defaultSettings sock (\request respond -> putMVar seen (remoteHost request) >> hello request respond))
            withClient (SockAddrUnix path) $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello"
            takeMVar seen >>= (@?= SockAddrUnix "")
            void (killTask server),
      testCase "a socket that does not listen is refused" $
        bracket (socket AF_INET Stream 0) close $ \sock ->
          try (runSettingsSocket defaultSettings sock hello) >>= \case
            Left (e :: IOException) -> assertBool (show e) True
            Right () -> assertFailure "it ran",
      testCase "a port that is taken is an IOError" $
        bracket openFreePort (close . snd) $ \(port, _) ->
          try (runSettings (setHost "127.0.0.1" (setPort port defaultSettings)) hello) >>= \case
            Left (e :: IOException) -> assertBool (show e) True
            Right () -> assertFailure "it ran",
      testCase "host preferences" $ do
        (port, sock) <- openFreePort
        close sock
        started <- newEmptyMVar
        server <- forkTask (runSettings (setBeforeMainLoop (putMVar started ()) (setHost "127.0.0.1" (setPort port defaultSettings))) hello)
        takeMVar started
        withClient (loopback port) $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello"
        void (killTask server),
      testCase "runEnv reads PORT" $ do
        setEnv "PORT" "no number"
        r <- try (runEnv 1 hello)
        unsetEnv "PORT"
        case r of
          Left (e :: IOException) -> assertBool (show e) ("PORT" `elem` words (filter (/= '"') (show e)))
          Right () -> assertFailure "it ran",
      testCase "testWithApplication throws an application's exception to the test" $ do
        r <- try . testWithApplicationSettings (setOnException (\_ _ -> pure ()) defaultSettings) (pure (\_ _ -> throwIO (ErrorCall "seen"))) $ \port ->
          withClient (loopback port) $ \client -> do
            say client (get "/")
            _ <- hearAnswer client
            forever' <- newEmptyMVar
            takeMVar forever'
        either (\(ErrorCall text) -> text @?= "seen") (\() -> assertFailure "nothing was thrown") r,
      testCase "getters" $ do
        getPort (setPort 1 defaultSettings) @?= 1
        show (getHost (setHost "h" defaultSettings)) @?= show (getHost (setHost "h" defaultSettings))
        getGracefulShutdownTimeout (setGracefulShutdownTimeout (Just 3) defaultSettings) @?= Just 3
        getGracefulCloseTimeout1 (setGracefulCloseTimeout1 4 defaultSettings) @?= 4
        getGracefulCloseTimeout2 defaultSettings @?= 2000
        getOnOpen defaultSettings (SockAddrUnix "") >>= (@?= True),
      testCase "every setting without effect leaves a server that serves" $ do
        let settings =
              setManager () . setFdCacheDuration 1 . setFileInfoCacheDuration 1 . setFork (\act -> void (forkIO (act id))) . setHTTP2Disabled
                . setServerPushLogger (\_ _ _ -> pure ())
                . setGracefulCloseTimeout1 1
                . setGracefulCloseTimeout2 1
                . setMaxBuilderResponseBufferSize 1
                . setProxyProtocolNone
                $ defaultSettings
        withHeddleSettings settings hello $ \address -> withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "hello"
    ]
  where
    count ref = atomicModifyIORef' ref (\n -> (n + 1, ()))

hello :: Application
hello _ respond = respond (responseLBS status200 [] "hello")
