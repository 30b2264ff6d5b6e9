{-# LANGUAGE OverloadedStrings #-}

-- | Servers and clients under test, and a peer that sends exactly the bytes it is given. The peer's frames are built and
-- read by code of its own, so that a fault of the library does not hide on both sides.
module Fixture
  ( -- * Under test
    onPoll,
    servingHttp,
    serving,
    echo,
    defaults,
    loopback,

    -- * A raw client
    Peer,
    withPeer,
    withPeerOffering,
    handshakeWith,

    -- * A raw server
    withRawServer,

    -- * Bytes
    say,
    sayInPieces,
    hangUp,
    endSending,

    -- * Frames
    Frame (..),
    frame,
    masked,
    unmasked,
    closeFrame,
    hearFrame,
    hearUntilEnd,
    hearsEnd,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, bracket, finally, try)
import Control.Monad (forM_, forever, void)
import Data.Bits (shiftL, shiftR, testBit, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.Word (Word8)
import Heddle.Http hiding (form, peer)
import Heddle.IO (BackendChoice (..), Config (..), defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Prim.Clock (seconds)
import Heddle.Testkit.Watchdog
import Heddle.WebSocket
import Network.Socket hiding (Stream)
import Network.Socket qualified as Socket
import Network.Socket.ByteString (recv, sendAll)
import System.IO.Unsafe (unsafePerformIO)
import Test.Tasty (TestTree, testGroup, withResource)

loopback :: SockAddr
loopback = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))

-- | Waits so long that only patience could meet them: a test that is about one of them shortens it.
defaults :: WebSocketOptions
defaults =
  defaultWebSocketOptions
    { optionPing = seconds 60,
      optionPong = seconds 60,
      optionSend = seconds 60,
      optionClose = seconds 60,
      optionHandshake = seconds 60
    }

echo :: Connection -> IO ()
echo conn = forever $ do
  message <- receive conn
  case message of
    TextMessage text -> sendText conn text
    BinaryMessage bytes -> sendBinary conn bytes

-- The back end of servers. Tests run one after the other.
backend :: IORef BackendChoice
backend = unsafePerformIO (newIORef Epoll)
{-# NOINLINE backend #-}

-- | The same tests with servers on poll(2).
onPoll :: TestTree -> TestTree
onPoll tree = withResource (writeIORef backend Poll) (\_ -> writeIORef backend Epoll) (const (testGroup "on poll" [tree]))

-- | Serve with a handler; the failures that it reports come with the address.
servingHttp :: Handler -> (SockAddr -> IO [SomeException] -> IO a) -> IO a
servingHttp handler body = do
  failures <- newIORef []
  chosen <- readIORef backend
  withRuntime defaultConfig {configBackend = chosen} $ \runtime ->
    withListener runtime defaultListenOptions loopback $ \listener ->
      withServer runtime defaultSettings {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (e : es, ()))} (\_ -> pure (handler, Nothing)) [listener] $ \server -> do
        r <- body (listenerAddress listener) (readIORef failures)
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        pure r

-- | A WebSocket server.
serving :: WebSocketOptions -> (Connection -> IO ()) -> (SockAddr -> IO a) -> IO a
serving options body use = servingHttp (websocket options body) (\address _ -> use address)

-- | A connection and what was received but not consumed.
data Peer = Peer !Socket !(IORef ByteString)

say :: Peer -> ByteString -> IO ()
say (Peer s _) bytes = void (try (patiently "the other side to take the bytes" (sendAll s bytes)) :: IO (Either IOException ()))

-- | Each in a segment of its own, as far as the kernel allows.
sayInPieces :: Peer -> [ByteString] -> IO ()
sayInPieces = mapM_ . say

-- | Close with a reset.
hangUp :: Peer -> IO ()
hangUp (Peer s _) = setSockOpt s Linger (StructLinger 1 0) >> closeSocket' s

closeSocket' :: Socket -> IO ()
closeSocket' = Socket.close

endSending :: Peer -> IO ()
endSending (Peer s _) = void (try (shutdown s ShutdownSend) :: IO (Either IOException ()))

connected :: SockAddr -> (Peer -> IO a) -> IO a
connected address use = bracket (socket AF_INET Socket.Stream 0) closeSocket' $ \s -> do
  patiently "a connection" (connect s address)
  setSocketOption s NoDelay 1
  newIORef B.empty >>= use . Peer s

-- | A client after its handshake.
withPeer :: SockAddr -> (Peer -> IO a) -> IO a
withPeer address use = withPeerOffering address [] (const use)

-- | A client after its handshake with further header lines, given the answer's head.
withPeerOffering :: SockAddr -> [ByteString] -> (ByteString -> Peer -> IO a) -> IO a
withPeerOffering address further use = connected address $ \peer -> do
  say peer (C.unlines (map (<> "\r") (plainRequest ++ further)) <> "\r\n")
  answer <- hearHead peer
  if "HTTP/1.1 101 " `B.isPrefixOf` answer then use answer peer else unexpected "101" (show answer)

plainRequest :: [ByteString]
plainRequest =
  [ "GET /chat HTTP/1.1",
    "Host: a.example",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
  ]

-- | The answer's head to these lines.
handshakeWith :: SockAddr -> [ByteString] -> IO ByteString
handshakeWith address lines' = connected address $ \peer -> do
  say peer (C.unlines (map (<> "\r") lines') <> "\r\n")
  answer <- hearHead peer
  answer <$ hangUp peer

hearHead :: Peer -> IO ByteString
hearHead peer@(Peer _ rest) = do
  bytes <- readIORef rest
  case B.breakSubstring "\r\n\r\n" bytes of
    (headBytes, more)
      | not (B.null more) -> headBytes <> "\r\n" <$ writeIORef rest (B.drop 4 more)
      | otherwise -> do
        alive <- hear peer
        if alive then hearHead peer else unexpected "a head" (show bytes)

-- False at the end; a reset is an end, too.
hear :: Peer -> IO Bool
hear (Peer s rest) = do
  got <- try (patiently "bytes, or the end" (recv s 65536))
  case got of
    Left (_ :: IOException) -> pure False
    Right bytes -> not (B.null bytes) <$ modifyIORef' rest (<> bytes)

-- | Accept one connection and answer its handshake with what the function makes of the request's head; then run.
withRawServer :: (ByteString -> ByteString) -> (Peer -> IO ()) -> (SockAddr -> IO a) -> IO a
withRawServer answer session use = bracket (socket AF_INET Socket.Stream 0) closeSocket' $ \listening -> do
  bind listening loopback
  listen listening 1
  address <- getSocketName listening
  done <- newEmptyMVar
  _ <- forkIO . (`finally` putMVar done ()) . void . (try :: IO () -> IO (Either SomeException ())) $
    bracket (fst <$> accept listening) closeSocket' $ \s -> do
      peer <- Peer s <$> newIORef B.empty
      request <- hearHead peer
      say peer (answer request)
      session peer
  r <- use address
  patiently "the raw server to end" (takeMVar done)
  pure r

-- Frames -----------------------------------------------------------------------

-- | First byte and payload.
data Frame = Frame !Int !ByteString
  deriving stock (Eq, Show)

-- | A frame with a length in the shortest form, or in the form of these many bytes; masked with a key if there is one.
frame :: Maybe [Word8] -> Maybe Int -> Int -> ByteString -> ByteString
frame key form first payload =
  B.concat [B.pack [fromIntegral first, maskBit .|. short], B.pack [fromIntegral (n `shiftR` (8 * i)) | i <- reverse [0 .. more - 1]], maybe B.empty B.pack key, maybe payload (apply payload) key]
  where
    n = B.length payload
    maskBit = maybe 0 (const 0x80) key
    more = case form of
      Just m -> m
      Nothing
        | n < 126 -> 0
        | n < 65536 -> 2
        | otherwise -> 8
    short = case more of
      0 -> fromIntegral n
      2 -> 126
      _ -> 127

apply :: ByteString -> [Word8] -> ByteString
apply payload key = B.pack (zipWith xor (B.unpack payload) (cycle key))

masked, unmasked :: Int -> ByteString -> ByteString
masked = frame (Just [0x37, 0xfa, 0x21, 0x3d]) Nothing
unmasked = frame Nothing Nothing

closeFrame :: Int -> ByteString -> ByteString
closeFrame code reason = masked 0x88 (B.pack [fromIntegral (code `shiftR` 8), fromIntegral code] <> reason)

-- | The next frame, whose mask is removed; Nothing at the end.
hearFrame :: Peer -> IO (Maybe Frame)
hearFrame peer@(Peer _ rest) = do
  bytes <- readIORef rest
  case parse bytes of
    Just (f, more) -> Just f <$ writeIORef rest more
    Nothing -> do
      alive <- hear peer
      if alive
        then hearFrame peer
        else if B.null bytes then pure Nothing else unexpected "a whole frame" (show (B.take 100 bytes))
  where
    parse bytes
      | B.length bytes < 2 = Nothing
      | otherwise = do
        let first = fromIntegral (B.index bytes 0)
            second = fromIntegral (B.index bytes 1) :: Int
            (more, short) = case second .&. 127 of
              126 -> (2, Nothing)
              127 -> (8, Nothing)
              n -> (0, Just n)
        size <- short <|> (if B.length bytes < 2 + more then Nothing else Just (big (B.take more (B.drop 2 bytes))))
        let keyed = testBit second 7
            at = 2 + more + (if keyed then 4 else 0)
        if B.length bytes < at + size
          then Nothing
          else do
            let payload = B.take size (B.drop at bytes)
                key = B.unpack (B.take 4 (B.drop (2 + more) bytes))
            Just (Frame first (if keyed then apply payload key else payload), B.drop (at + size) bytes)
    big = B.foldl' (\acc b -> acc `shiftL` 8 .|. fromIntegral b) 0

-- | All frames to the end of the connection.
hearUntilEnd :: Peer -> IO [Frame]
hearUntilEnd peer = hearFrame peer >>= maybe (pure []) (\f -> (f :) <$> hearUntilEnd peer)

-- | The other side closes the connection without another frame.
hearsEnd :: Peer -> IO ()
hearsEnd peer = do
  frames <- hearUntilEnd peer
  forM_ (take 1 frames) $ \f -> unexpected "the end" (show f)
