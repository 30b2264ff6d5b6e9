{-# LANGUAGE OverloadedStrings #-}

-- | The ends of servers: applications that run then, and clients that come then.
module Endings (tests) where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar, tryPutMVar)
import Control.Exception (IOException, bracket, finally, try, uninterruptibleMask_)
import Control.Monad (forever, void)
import Fixture
import Heddle.Prim.Thread (yield)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask, killTask)
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Socket (Family (..), Socket, SocketType (..), close, connect, defaultProtocol, socket)
import Network.Wai
import Network.Wai.Handler.Heddle
import Network.Wai.Handler.HeddleTLS (runTLSSocket)
import Secure (testCertificate)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "endings"
    [ testGroup
        "applicationsOutlivedTheirServer"
        [ testCase (version ++ ", " ++ doing ++ ", " ++ ending) (interrupted client body end)
          | (version, client) <- [("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2-prior-knowledge")],
            (doing, body) <- bodies,
            (ending, end) <- endings
        ],
      testCase "an application that cannot be interrupted does not hold its server up" $ do
        inside <- newEmptyMVar
        release <- newEmptyMVar
        ended <- newEmptyMVar
        let application _ respond = do
              uninterruptibleMask_ (putMVar inside () >> takeMVar release) `finally` putMVar ended ()
              respond (responseLBS status200 [] "")
        withHeddleSettings (setOnException (\_ _ -> pure ()) defaultSettings) application $ \address -> withClient address $ \client -> do
          say client (get "/")
          patiently "the application to begin" (takeMVar inside)
        putMVar release ()
        patiently "the application to end" (takeMVar ended),
      testGroup
        "clientsHungWhileTheServerDrained"
        [ testCase "runSettings" $ refusing "http" (\settings port sock application -> close sock >> runSettings (setHost "127.0.0.1" (setPort port settings)) application),
          testCase "runSettingsSocket" $ refusing "http" (\settings _ sock application -> runSettingsSocket settings sock application),
          testCase "runTLSSocket" . testCertificate $ \tls ->
            refusing "https" (\settings _ sock application -> runTLSSocket tls settings sock application)
        ]
    ]

-- | What an application does when its server ends; it tells when it is there.
bodies :: [(String, IO () -> Application)]
bodies =
  [ ("waiting", \there _ _ -> there >> newEmptyMVar >>= takeMVar),
    ("computing", \there _ _ -> there >> forever yield),
    ("in a stream", \there _ respond -> respond (responseStream status200 [] (\write flush -> write "some" >> flush >> there >> newEmptyMVar >>= takeMVar))),
    ("in a stream that has not begun", \there _ respond -> respond (responseStream status200 [] (\_ _ -> there >> newEmptyMVar >>= takeMVar)))
  ]

-- | How a server with this application ends, once the action has returned.
endings :: [(String, Application -> (Port -> IO ()) -> IO ())]
endings =
  [ ("withApplication returns", withApplication . pure),
    ("its thread is killed", \application act -> running defaultSettings application $ \port _ server -> act port >> void (killTask server)),
    ( "its shutdown takes too long",
      \application act -> do
        stop <- newEmptyMVar
        running (setGracefulShutdownTimeout (Just 0) (setInstallShutdownHandler (putMVar stop) defaultSettings)) application $ \port _ server -> do
          stopping <- takeMVar stop
          act port
          stopping
          joinTask server
    )
  ]
  where
    running settings application act = bracket openFreePort (close . snd) $ \(port, sock) -> do
      server <- forkTask (runSettingsSocket settings sock application)
      act port sock server

interrupted :: String -> (IO () -> Application) -> (Application -> (Port -> IO ()) -> IO ()) -> Assertion
interrupted version body end = do
  there <- newEmptyMVar
  ended <- newEmptyMVar
  let application request respond = body (void (tryPutMVar there ())) request respond `finally` void (tryPutMVar ended ())
  bracket newEmptyMVar (\started -> takeMVar started >>= \p -> terminateProcess p >> waitForProcess p) $ \started -> do
    end application $ \port -> do
      p <- spawnProcess "curl" [version, "-sN", "-o", "/dev/null", "http://127.0.0.1:" ++ show port ++ "/"]
      putMVar started p
      patiently "the application to begin" (takeMVar there)
    patiently "the application to end" (takeMVar ended)

-- While the server ends gracefully and an application runs, nobody can connect; then the server returns.
refusing :: String -> (Settings -> Port -> Socket -> Application -> IO ()) -> Assertion
refusing scheme serve = do
  stop <- newEmptyMVar
  gate <- newEmptyMVar
  inside <- newEmptyMVar
  begun <- newEmptyMVar
  (port, sock) <- openFreePort
  let application _ respond = putMVar inside () >> takeMVar gate >> respond (responseLBS status200 [] "served")
  server <- forkTask (serve (setBeforeMainLoop (putMVar begun ()) (setInstallShutdownHandler (putMVar stop) defaultSettings)) port sock application)
  stopping <- takeMVar stop
  takeMVar begun
  served <- forkTask (readCreateProcess (proc "curl" ["-skN", "--max-time", "60", scheme ++ "://127.0.0.1:" ++ show port ++ "/"]) {close_fds = True} "")
  patiently "the application to begin" (takeMVar inside)
  stopping
  void (eventually "a refused connection" (refused port) id)
  putMVar gate ()
  joinTask served >>= (@?= "served")
  joinTask server
  close sock
  where
    refused port = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> either (\(_ :: IOException) -> True) (const False) <$> try (connect s (loopback port))
