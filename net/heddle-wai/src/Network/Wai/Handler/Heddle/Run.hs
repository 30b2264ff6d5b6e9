{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Run
-- Description : Servers
-- Stability   : hidden; "Network.Wai.Handler.Heddle" exports it
--
-- One listening socket, one accepting thread, connections spread over the capabilities by load.
--
-- Cost: event managers of the server's own, one per capability.
-- Owner: the call that runs the server.
module Network.Wai.Handler.Heddle.Run
  ( run,
    runEnv,
    runSettings,
    runSettingsSocket,

    -- * Over TLS
    Front (..),
    clearFront,
    runFront,
    runFrontSocket,

    -- * While an action runs
    withApplication,
    withApplicationSettings,
    testWithApplication,
    testWithApplicationSettings,
    openFreePort,
  )
where

import Control.Concurrent (myThreadId)
import Control.Monad (void, when)
import Data.Streaming.Network (bindPortTCP, bindRandomPortTCP)
import Heddle.Http (Scheme (..), Server, drainUntil, handlersOf, withServerOn)
import Heddle.Http qualified as Http (Settings)
import Heddle.IO (adoptListener, closeListener, deadlineIn, defaultConfig, never, seconds, withRuntime)
import Heddle.Prim.Exception
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import Network.Socket (Socket, close, setCloseOnExecIfNeeded, withFdSocket)
import Network.Wai (Application)
import Network.Wai.Handler.Heddle.Application
import Network.Wai.Handler.Heddle.Settings
import System.Environment (lookupEnv)
import Text.Read (readMaybe)

-- | Serve on a port of every interface until an exception ends it.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' when the port cannot be listened on.
run :: Port -> Application -> IO ()
run port = runSettings (setPort port defaultSettings)

-- | 'run', on the port that the environment variable @PORT@ names, if it is set.
--
-- [Throws]: 'IOError' when @PORT@ is no number, and as 'run'.
runEnv :: Port -> Application -> IO ()
runEnv port application =
  lookupEnv "PORT" >>= \case
    Nothing -> run port application
    Just text -> case readMaybe text of
      Just chosen -> run chosen application
      Nothing -> ioError (userError ("runEnv: the environment variable PORT is " ++ show text ++ "; set it to a number, or unset it"))

-- | Serve as the settings say, until an exception ends it or a graceful shutdown has finished.
-- Applications that still run then are interrupted.
--
-- [Blocks]: parks; at the end at most a second for applications that do not end at once.
-- [Throws]: 'IOError' when the port cannot be listened on.
runSettings :: Settings -> Application -> IO ()
runSettings = runFront clearFront

-- | What the connections of a server begin with.
data Front = Front !Scheme !(Http.Settings -> Http.Settings)

-- | HTTP.
clearFront :: Front
clearFront = Front ClearText id

-- | 'runSettings' with any front.
runFront :: Front -> Settings -> Application -> IO ()
runFront front settings application =
  bracket (bindPortTCP (settingsPort settings) (settingsHost settings)) close $ \socket -> do
    -- A program that the application runs would keep the port, and clients waiting at it.
    withFdSocket socket setCloseOnExecIfNeeded
    runFrontSocket front settings socket application

-- | 'runSettings' on a socket that listens already, of any family, such as one that was inherited.
-- The server accepts from a duplicate: closing the socket does not end the server, which
-- 'setInstallShutdownHandler' is for. A graceful shutdown closes the socket, so that new clients are
-- refused from then on.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' when the socket does not listen.
runSettingsSocket :: Settings -> Socket -> Application -> IO ()
runSettingsSocket = runFrontSocket clearFront

-- | 'runSettingsSocket' with any front.
runFrontSocket :: Front -> Settings -> Socket -> Application -> IO ()
runFrontSocket front settings socket application = do
  stop <- newWaitCell
  serving front settings socket application (settingsInstallShutdownHandler settings (unpark stop)) $ \server -> do
    park stop
    -- As long as one descriptor of it is open, the kernel takes connections that nobody will accept.
    close socket
    deadline <- maybe (pure never) (deadlineIn . seconds . max 0) (settingsGracefulShutdownTimeout settings)
    void (drainUntil server deadline)

-- Serve while the body runs, then close every connection.
serving :: Front -> Settings -> Socket -> Application -> IO () -> (Server -> IO a) -> IO a
serving (Front scheme adjust) settings socket application prepare body =
  withRuntime defaultConfig $ \runtime ->
    bracket (withFdSocket socket (adoptListener runtime . fromIntegral)) closeListener $ \listener -> do
      prepare
      settingsBeforeMainLoop settings
      withServerOn runtime (adjust (engineSettings settings)) (\_ -> pure (handlersOf (applicationHandler settings application))) [(listener, maybe scheme (`Proxied` scheme) (settingsProxy settings))] body

-- | Serve on a free port of the loopback interface while an action runs. Applications that still run
-- afterwards are interrupted.
--
-- [Blocks]: as the action does, and then at most a second for applications that do not end at once.
withApplication :: IO Application -> (Port -> IO a) -> IO a
withApplication = withApplicationSettings defaultSettings

-- | 'withApplication' with settings, whose port is ignored.
--
-- [Blocks]: as the action does.
withApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
withApplicationSettings settings make action = do
  application <- make
  bracket openFreePort (close . snd) $ \(port, socket) ->
    serving clearFront settings socket application (pure ()) (\_ -> action port)

-- | 'withApplication' for tests: an exception of the application is thrown to the calling thread
-- too, and may interrupt the action.
--
-- [Blocks]: as the action does.
testWithApplication :: IO Application -> (Port -> IO a) -> IO a
testWithApplication = testWithApplicationSettings defaultSettings

-- | 'testWithApplication' with settings, whose port is ignored.
--
-- [Blocks]: as the action does.
testWithApplicationSettings :: Settings -> IO Application -> (Port -> IO a) -> IO a
testWithApplicationSettings settings make action = do
  caller <- myThreadId
  application <- make
  let telling request respond =
        application request respond `catch` \e -> do
          when (defaultShouldDisplayException e) (throwTo caller e)
          throwIO e
  withApplicationSettings settings (pure telling) action

-- | A socket that listens on a free port of the loopback interface.
openFreePort :: IO (Port, Socket)
openFreePort = bindRandomPortTCP "127.0.0.1"
