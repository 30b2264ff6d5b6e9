{-# LANGUAGE OverloadedStrings #-}

-- | A server that does exactly what a script says, and clients with long or short patience. The server stands
-- on the network package, so that a fault of Heddle's sockets does not hide on both sides.
module ClientFixture
  ( -- * Scripted servers
    Peer,
    withScripted,
    withScriptedAt,
    hearHead,
    hearExactly,
    hearToEnd,
    tell,
    tellPieces,
    endTelling,
    resetPeer,
    originOf,

    -- * Clients
    patient,
    withPatient,
    get,
    simple,
    failureIs,
    failureOfAction,
    allReturned,
    onOne,
  )
where

import Control.Concurrent (forkIOWithUnmask, forkOnWithUnmask, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (IOException, SomeException, bracket, finally, fromException, mask_, throwIO, try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Http.Client
import Heddle.IO (BackendChoice, Config (..), defaultConfig, withRuntime)
import Heddle.Prim.Clock (seconds)
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)

-- | One connection that the server has accepted, and what was received but not consumed.
data Peer = Peer !Socket !(IORef ByteString)

-- | Serve each connection by a script, which is given its number from 0. A script that ends closes its connection. A
-- script's failure is the test's, unless the client has gone.
withScripted :: (Int -> Peer -> IO ()) -> (Origin -> IO a) -> IO a
withScripted = withScriptedAt (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))

withScriptedAt :: SockAddr -> (Int -> Peer -> IO ()) -> (Origin -> IO a) -> IO a
withScriptedAt address script body = do
  threads <- newIORef []
  failures <- newIORef []
  bracket (socket family Stream 0) close $ \listener -> do
    withFdSocket listener setCloseOnExecIfNeeded
    bind listener address
    listen listener 128
    origin <- originOf <$> getSocketName listener
    let acceptOn :: Int -> IO ()
        acceptOn i = do
          (s, _) <- accept listener
          withFdSocket s setCloseOnExecIfNeeded
          buffer <- newIORef B.empty
          thread <- forkIOWithUnmask $ \unmask ->
            (try (unmask (script i (Peer s buffer))) >>= either (note failures) pure) `finally` close s
          modifyIORef' threads (thread :)
          acceptOn (i + 1)
    r <-
      bracket
        (forkIOWithUnmask (\unmask -> void (try (unmask (acceptOn 0)) :: IO (Either SomeException ()))))
        (\acceptor -> killThread acceptor >> readIORef threads >>= mapM_ killThread)
        (\_ -> body origin)
    readIORef failures >>= mapM_ throwIO
    pure r
  where
    family = case address of
      SockAddrUnix _ -> AF_UNIX
      _ -> AF_INET
    note failures (e :: SomeException) = case fromException e of
      Just (Unexpected _) -> modifyIORef' failures (e :)
      -- The client has gone, or the test is over.
      Nothing -> pure ()

originOf :: SockAddr -> Origin
originOf = \case
  SockAddrInet port _ -> Origin False (Tcp "127.0.0.1" (fromIntegral port))
  SockAddrInet6 port _ _ _ -> Origin False (Tcp "::1" (fromIntegral port))
  SockAddrUnix path -> Origin False (UnixSocket (C.pack path))

receive :: Peer -> IO ByteString
receive (Peer s _) = patiently "a request" (recv s 65536)

-- | A request's head, with its empty line. At the end of the connection the script ends.
hearHead :: Peer -> IO ByteString
hearHead peer@(Peer _ rest) = do
  bytes <- readIORef rest
  case B.breakSubstring "\r\n\r\n" bytes of
    (headBytes, after)
      | not (B.null after) -> (headBytes <> "\r\n\r\n") <$ writeIORef rest (B.drop 4 after)
      | otherwise -> do
        more <- receive peer
        if B.null more then ioError (userError "the client closed") else writeIORef rest (bytes <> more) >> hearHead peer

hearExactly :: Peer -> Int -> IO ByteString
hearExactly peer@(Peer _ rest) n = do
  bytes <- readIORef rest
  if B.length bytes >= n
    then B.take n bytes <$ writeIORef rest (B.drop n bytes)
    else do
      more <- receive peer
      if B.null more then ioError (userError "the client closed") else writeIORef rest (bytes <> more) >> hearExactly peer n

hearToEnd :: Peer -> IO ByteString
hearToEnd peer@(Peer _ rest) = do
  have <- readIORef rest
  writeIORef rest B.empty
  (have <>) <$> go
  where
    go = do
      more <- receive peer
      if B.null more then pure B.empty else (more <>) <$> go

tell :: Peer -> ByteString -> IO ()
tell (Peer s _) = patiently "the client to take the bytes" . sendAll s

-- | Each piece in a segment of its own.
tellPieces :: Peer -> [ByteString] -> IO ()
tellPieces (Peer s rest) pieces = do
  setSocketOption s NoDelay 1
  forM_ pieces (tell (Peer s rest))

endTelling :: Peer -> IO ()
endTelling (Peer s _) = void (try (shutdown s ShutdownSend) :: IO (Either IOException ()))

-- | Close with a reset.
resetPeer :: Peer -> IO ()
resetPeer (Peer s _) = setSockOpt s Linger (StructLinger 1 0) >> close s

-- | Deadlines that only patience could meet: a test about one of them shortens it.
patient :: ClientSettings
patient =
  defaultClientSettings
    { clientConnect = seconds 60,
      clientQueue = seconds 60,
      clientHead = seconds 60,
      clientBodyPace = Pace (seconds 60) 1,
      clientSendPace = Pace (seconds 60) 1,
      clientContinue = seconds 60,
      clientIdle = seconds 60,
      clientAgent = "",
      clientLimits = (clientLimits defaultClientSettings) {limitHeadBytes = 1024, limitHeaders = 10, limitTrailers = 100, limitChunkExtensions = 50}
    }

-- | A client on a runtime of its own. When the test ends, everything has been returned to its pool.
withPatient :: BackendChoice -> ClientSettings -> (Client -> IO a) -> IO a
withPatient backend settings body =
  withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withClientOn runtime settings $ \client -> do
      r <- body client
      allReturned client
      pure r

-- | No connection is in use.
allReturned :: Client -> IO ()
allReturned client =
  void (eventually "every connection to be returned" ((,) <$> connectionsKept client <*> connectionsInAll client) (uncurry (==)))

get :: Origin -> ByteString -> ClientRequest
get = requestTo "GET"

-- | A response of status 200 with this content.
simple :: ByteString -> ByteString
simple content = B.concat ["HTTP/1.1 200 OK\r\nContent-Length: ", C.pack (show (B.length content)), "\r\n\r\n", content]

failureOfAction :: IO a -> IO (Either Failure a)
failureOfAction action = either (Left . errorFailure) Right <$> try (patiently "a request to end" action)

failureIs :: Show a => (Failure -> Bool) -> String -> IO a -> IO ()
failureIs expected what action =
  failureOfAction action >>= \case
    Left failure | expected failure -> pure ()
    other -> unexpected what (show other)

-- Run on one capability, which has one pool.
onOne :: forall a. IO a -> IO a
onOne action = do
  result <- newEmptyMVar
  void (mask_ (forkOnWithUnmask 0 (\unmask -> try (unmask action) >>= putMVar result)))
  takeMVar result >>= either (throwIO :: SomeException -> IO a) pure
