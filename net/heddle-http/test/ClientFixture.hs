{-# LANGUAGE OverloadedStrings #-}

-- | Scripted servers by their origins, and clients with long or short patience.
module ClientFixture
  ( -- * Scripted servers
    Peer,
    withScripted,
    withScriptedAt,
    hearHead,
    hearExactlyFrom,
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

import Control.Concurrent (forkOnWithUnmask, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, mask_, throwIO, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Http.Client
import Heddle.IO (BackendChoice, Config (..), defaultConfig, withRuntime)
import Heddle.Prim.Clock (seconds)
import Heddle.Testkit.Scripted (Peer, endTelling, hearExactlyFrom, hearHead, hearToEnd, resetPeer, simple, tell, tellPieces)
import Heddle.Testkit.Scripted qualified as Scripted
import Heddle.Testkit.Watchdog
import Network.Socket

-- | Serve each connection by a script; see 'Scripted.withScripted'.
withScripted :: (Int -> Peer -> IO ()) -> (Origin -> IO a) -> IO a
withScripted script body = Scripted.withScripted script (body . originOf)

-- | The same at an address.
withScriptedAt :: SockAddr -> (Int -> Peer -> IO ()) -> (Origin -> IO a) -> IO a
withScriptedAt address script body = Scripted.withScriptedAt address script (body . originOf)

originOf :: SockAddr -> Origin
originOf = \case
  SockAddrInet port _ -> Origin False (Tcp "127.0.0.1" (fromIntegral port))
  SockAddrInet6 port _ _ _ -> Origin False (Tcp "::1" (fromIntegral port))
  SockAddrUnix path -> Origin False (UnixSocket (C.pack path))

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
