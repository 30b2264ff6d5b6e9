{-# LANGUAGE OverloadedStrings #-}

-- | Peers that send records without content, which one call of libssl would go on reading for as long as they come.
module FloodTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (bracket)
import Control.Monad (forM_)
import Fixture
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Socket qualified as N
import Test.Tasty
import Test.Tasty.HUnit

-- Safe: blocking sockets.
foreign import ccall safe "peer_key_updates" peerKeyUpdates :: CInt -> CInt -> CInt -> IO CInt

-- Safe: blocking sockets.
foreign import ccall safe "peer_tickets" peerTickets :: CInt -> CString -> CString -> CInt -> IO CInt

tests :: Folder -> TestTree
tests folder =
  testGroup
    "records without content"
    [ testCase "a client's changes of keys without content end its session" (keyUpdates folder),
      testCase "changes of keys between content are taken" (keyUpdatesBetween folder),
      testCase "a server's tickets without content end our client's session" (tickets folder),
      testCase "a few tickets are taken" (fewTickets folder)
    ]

keyUpdates :: Folder -> IO ()
keyUpdates folder = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo -> forM_ [40, 20000] $ \count -> do
    echoed <- patiently "the flood" (peerKeyUpdates (fromIntegral (echoPort echo)) count count)
    echoed @?= 0
    -- The server is as good as before.
    tls <- client (trusting folder)
    connecting echo tls "localhost" (\t _ -> ask t "x")

keyUpdatesBetween :: Folder -> IO ()
keyUpdatesBetween folder = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo ->
    patiently "the echoes" (peerKeyUpdates (fromIntegral (echoPort echo)) 600 30) >>= (@?= 20)

-- What our client reads from a server that sends that many tickets before its byte.
afterTickets :: Folder -> CInt -> (Either Int Int -> IO ()) -> IO ()
afterTickets folder count check = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo -> bracket (N.socket N.AF_INET N.Stream N.defaultProtocol) N.close $ \s -> do
    N.bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
    N.listen s 1
    address <- N.getSocketName s
    ended <- newEmptyMVar
    _ <- forkIO . N.withFdSocket s $ \fd -> withCString (folder ++ "/good.pem") $ \chain -> withCString (folder ++ "/good.key") $ \key ->
      peerTickets fd chain key count >>= putMVar ended
    tls <- client (trusting folder)
    connecting echo {echoAddress = address} tls "localhost" $ \transport _ ->
      readSome transport 10 >>= check . fmap (const 1)
    _ <- patiently "the server's end" (takeMVar ended)
    pure ()

tickets :: Folder -> IO ()
tickets folder = forM_ [40, 2000] $ \count -> afterTickets folder count $ \r -> either (const (pure ())) (const (assertFailure "it was taken")) r

fewTickets :: Folder -> IO ()
fewTickets folder = afterTickets folder 10 (@?= Right 1)
