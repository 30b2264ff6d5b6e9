{-# LANGUAGE OverloadedStrings #-}

-- | Peers that send records without content, which one call of libssl would go on reading for as long as they come, and
-- peers that begin handshakes and leave them.
module FloodTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (bracket, mask_)
import Control.Monad (forM_, replicateM, void)
import Data.ByteString qualified as B
import Data.List (isInfixOf, nub)
import Fixture
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))
import Heddle.IO (accept, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import Test.Tasty
import Test.Tasty.HUnit

-- Safe: blocking sockets.
foreign import ccall safe "peer_key_updates" peerKeyUpdates :: CInt -> CInt -> CInt -> IO CInt

-- Safe: blocking sockets.
foreign import ccall safe "peer_tickets" peerTickets :: CInt -> CString -> CString -> CInt -> IO CInt

tests :: Folder -> TestTree
tests folder = testGroup "floods" [withoutContent folder, unfinished folder]

withoutContent :: Folder -> TestTree
withoutContent folder =
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

unfinished :: Folder -> TestTree
unfinished folder =
  testGroup
    "unfinished handshakes"
    [ testCase "beyond the limit, the oldest of the capability is closed" (oldestFirst folder),
      testCase "a client is served while others leave a thousand handshakes" (served folder),
      testCase "a limit below one is refused" $
        loadSite (defaultTlsConfig [pair folder "good"]) {tlsUnfinished = 0} >>= \case
          Left [problem] -> assertBool (show problem) ("tlsUnfinished" `isInfixOf` show problem)
          Left problems -> assertFailure (show problems)
          Right _ -> assertFailure "loaded"
    ]

-- The first bytes of a client's first message.
halfHello :: B.ByteString
halfHello = "\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" <> B.replicate 200 0

oldestFirst :: Folder -> IO ()
oldestFirst folder = nothingIsLeft $ do
  loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsUnfinished = limit}
  tls <- newTlsListener loaded
  withRuntime defaultConfig $ \runtime -> withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
    bracket (replicateM 15 (N.socket N.AF_INET N.Stream N.defaultProtocol)) (mapM_ N.close) $ \sockets -> do
      let beginAll closedBefore = go []
            where
              go capabilities (s : more) = do
                N.connect s (listenerAddress listener)
                NB.sendAll s halfHello
                conn <- patiently "a connection" (accept listener)
                result <- newEmptyMVar
                deadline <- patience'
                _ <- forkIO . mask_ $ do
                  opened <- tlsOpening tls (registrationOf conn) deadline
                  void (closeRegistration (registrationOf conn))
                  putMVar result opened
                let capability = registrationCapability (registrationOf conn)
                    now = capability : capabilities
                    counts = [length (filter (== c) now) | c <- nub now]
                    settled = (closedBefore + sum [max 0 (n - limit) | n <- counts], sum (map (min limit) counts))
                _ <- eventually ("closed and alive: " ++ show settled) closedAndLive (== settled)
                ((capability, result) :) <$> go now more
              go _ [] = pure []
          closedAndLive = (,) . countClosed <$> tlsCounts tls <*> liveSessions
          (crowd, later) = splitAt 12 sockets
      openings <- zip [0 :: Int ..] <$> beginAll 0 crowd
      -- Those that fit live; each other one has been closed, before those that came later.
      let onCapability c = [n | (n, (d, _)) <- openings, d == c]
          lives = concatMap (lastOf limit . onCapability) (nub (map (fst . snd) openings))
      forM_ openings $ \(n, (_, result)) ->
        if n `elem` lives
          then tryReadMVar result >>= maybe (pure ()) (const (assertFailure (show n ++ " is over")))
          else patiently "its end" (takeMVar result) >>= \r -> refusal r >>= (@?= "the handshake was closed, because too many later ones were unfinished too")
      tlsCounts tls >>= (@?= TlsCounts 0 0 0 (length openings - length lives) 0)
      -- The peers end the others. Nothing is counted that is over: as many may begin again.
      mapM_ N.close crowd
      forM_ [result | (n, (_, result)) <- openings, n `elem` lives] $ \result -> patiently "an end" (takeMVar result) >>= refusal
      again <- beginAll (length openings - length lives) later
      mapM_ N.close later
      forM_ again $ \(_, result) -> patiently "an end" (takeMVar result) >>= refusal
  where
    limit = 3
    lastOf n xs = drop (length xs - n) xs
    refusal = \case
      NotOpened why -> pure why
      _ -> assertFailure "opened"

served :: Folder -> IO ()
served folder = nothingIsLeft $ do
  loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsUnfinished = 50}
  tls <- client (trusting folder)
  withEcho loaded $ \echo -> forM_ [1 .. 5] $ \n -> crowd 200 echo $ do
    -- 50 of each of 2 capabilities live.
    let closedAndLive = (,) . countClosed <$> tlsCounts (echoListener echo) <*> liveSessions
    _ <- eventually "100 of each crowd to be closed" closedAndLive (\(closed, live) -> closed >= n * 100 && live <= 100)
    connecting echo tls "localhost" (\t _ -> ask t "x")
  where
    crowd :: Int -> Echo -> IO a -> IO a
    crowd 0 _ body = body
    crowd n echo body = rawSocket echo $ \s -> NB.sendAll s halfHello >> crowd (n - 1) echo body
