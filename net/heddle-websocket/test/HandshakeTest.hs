{-# LANGUAGE OverloadedStrings #-}

-- | Opening handshakes: requests by the table, extensions, and what clients accept.
module HandshakeTest (tests) where

import Control.Exception (try)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Either (isLeft)
import Data.IORef
import Fixture
import Heddle.Http (Header (..), statusCode)
import Heddle.IO (defaultConfig, withRuntime)
import Heddle.Prim.Clock (milliseconds, seconds)
import Heddle.WebSocket
import Heddle.WebSocket.Codec
import Network.Socket (SockAddr (..))
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "handshakes"
    [ testGroup "requests" [testCase name (judged name change expected) | (name, change, expected) <- requests],
      testGroup "agreements" agreements,
      testGroup "over HTTP" overHttp,
      testGroup "clients" clients
    ]

plain :: [(ByteString, ByteString)]
plain = [("Host", "a.example"), ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]

asked :: [(ByteString, ByteString)] -> Asked
asked = Asked "GET" 1 "a.example"

with :: ByteString -> ByteString -> [(ByteString, ByteString)] -> [(ByteString, ByteString)]
with name value fields = [(n, if n == name then value else v) | (n, v) <- fields] ++ [(name, value) | name `notElem` map fst fields]

without :: ByteString -> [(ByteString, ByteString)] -> [(ByteString, ByteString)]
without name = filter ((/= name) . fst)

requests :: [(TestName, Asked, Int)]
requests =
  [ ("a plain one", asked plain, 101),
    ("names and words in any case, among others", asked ([("upgrade", "WebSocket"), ("CONNECTION", "keep-alive, UPGRADE")] ++ drop 3 plain), 101),
    ("Upgrade among others", asked (with "Upgrade" "foo/2, websocket" plain), 101),
    ("two Connection headers", asked (("Connection", "keep-alive") : plain), 101),
    ("POST", (asked plain) {askedMethod = "POST"}, 405),
    ("HTTP/1.0", (asked plain) {askedMinor = 0}, 400),
    ("no Upgrade", asked (without "Upgrade" plain), 426),
    ("another Upgrade", asked (with "Upgrade" "h2c" plain), 426),
    ("no Connection", asked (without "Connection" plain), 400),
    ("Connection without Upgrade", asked (with "Connection" "keep-alive" plain), 400),
    ("no version", asked (without "Sec-WebSocket-Version" plain), 426),
    ("version 8", asked (with "Sec-WebSocket-Version" "8" plain), 426),
    ("version 013", asked (with "Sec-WebSocket-Version" "013" plain), 426),
    ("two versions", asked (("Sec-WebSocket-Version", "8") : plain), 426),
    ("no key", asked (without "Sec-WebSocket-Key" plain), 400),
    ("two keys", asked (("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") : plain), 400),
    ("a key that is no base64", asked (with "Sec-WebSocket-Key" "dGhlIHNhbXBsZSBub25j!Q==" plain), 400),
    ("a key of 15 bytes", asked (with "Sec-WebSocket-Key" "dGhlIHNhbXBsZSBub25j" plain), 400),
    ("a key of 17 bytes", asked (with "Sec-WebSocket-Key" "dGhlIHNhbXBsZSBub25jZWE=" plain), 400),
    ("a key without its padding", asked (with "Sec-WebSocket-Key" "dGhlIHNhbXBsZSBub25jZQ" plain), 400),
    ("a key with bits that do not count", asked (with "Sec-WebSocket-Key" "dGhlIHNhbXBsZSBub25jZR==" plain), 400),
    ("content", asked (("Content-Length", "5") : plain), 400),
    ("content in chunks", asked (("Transfer-Encoding", "chunked") : plain), 400),
    ("no content, and said so", asked (("Content-Length", "0") : plain), 101),
    ("the origin is the host", asked (("Origin", "https://A.example") : plain), 101),
    ("the origin is the host with its port", asked (("Origin", "https://a.example:443") : plain), 101),
    ("another origin", asked (("Origin", "https://evil.example") : plain), 403),
    ("another port", asked (("Origin", "https://a.example:8443") : plain), 403),
    ("the null origin", asked (("Origin", "null") : plain), 403),
    ("two origins", asked ([("Origin", "https://a.example"), ("Origin", "https://a.example")] ++ plain), 400),
    ("malformed subprotocols", asked (("Sec-WebSocket-Protocol", "a b") : plain), 400),
    ("malformed extensions", asked (("Sec-WebSocket-Extensions", "permessage-deflate; =") : plain), 400),
    ("extensions with an open quote", asked (("Sec-WebSocket-Extensions", "permessage-deflate; x=\"a") : plain), 400),
    ("unknown extensions", asked (("Sec-WebSocket-Extensions", "x-other; a=b; c=\"d\", x-more") : plain), 101)
  ]

judged :: TestName -> Asked -> Int -> Assertion
judged _ request expected = case judgeRequest defaults request of
  Left (Refusal status _ _) -> statusCode status @?= expected
  Right _ -> 101 @?= expected

agreements :: [TestTree]
agreements =
  [ testCase "the server's first subprotocol that is offered" $ do
      chosen ["a", "b"] ["b, a"] @?= Just "a"
      chosen ["c", "b"] ["a", "b"] @?= Just "b"
      chosen ["c"] ["a", "b"] @?= Nothing
      chosen [] ["a"] @?= Nothing,
    testCase "compression: offers that are accepted" $ do
      deflated "permessage-deflate" @?= Just 15
      deflated "PERMESSAGE-DEFLATE ; Server_No_Context_Takeover;client_no_context_takeover" @?= Just 15
      deflated "permessage-deflate; client_max_window_bits" @?= Just 15
      deflated "permessage-deflate; client_max_window_bits=9; server_max_window_bits=10" @?= Just 10
      deflated "permessage-deflate; server_max_window_bits=\"12\"" @?= Just 12
      deflated "x, permessage-deflate; server_max_window_bits=8, permessage-deflate" @?= Just 15,
    testCase "compression: offers that are not" $
      forM_
        [ "permessage-deflate; server_max_window_bits=8",
          "permessage-deflate; server_max_window_bits=16",
          "permessage-deflate; server_max_window_bits=07",
          "permessage-deflate; server_max_window_bits",
          "permessage-deflate; client_max_window_bits=7",
          "permessage-deflate; server_no_context_takeover=1",
          "permessage-deflate; unknown",
          "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
          "x-webkit-deflate-frame"
        ]
        $ \offer -> (offer, deflated offer) @?= (offer, Nothing)
  ]
  where
    chosen ours theirs = either (const Nothing) acceptedSubprotocol (judgeRequest defaults {optionSubprotocols = ours} (asked ([("Sec-WebSocket-Protocol", t) | t <- theirs] ++ plain)))
    deflated offer = either (const Nothing) (fmap deflatingBits . acceptedDeflating) (judgeRequest defaults (asked (("Sec-WebSocket-Extensions", offer) : plain)))

overHttp :: [TestTree]
overHttp =
  [ testCase "101 and its headers" $
      serving defaults {optionSubprotocols = ["chat"]} echo $ \address -> do
        answer <- handshakeWith address (request ++ ["Sec-WebSocket-Protocol: chat"])
        forM_ ["HTTP/1.1 101 Switching Protocols\r\n", "Upgrade: websocket\r\n", "Connection: Upgrade\r\n", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", "Sec-WebSocket-Protocol: chat\r\n"] $ \line ->
          assertBool (show (line, answer)) (line `B.isInfixOf` answer)
        assertBool (show answer) (not ("Content-Length" `B.isInfixOf` answer)),
    testCase "426 says which version" $
      serving defaults echo $ \address -> do
        answer <- handshakeWith address ["GET / HTTP/1.1", "Host: a.example", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 7", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        forM_ ["HTTP/1.1 426 ", "Sec-WebSocket-Version: 13\r\n", "Upgrade: websocket\r\n"] $ \line -> assertBool (show (line, answer)) (line `B.isInfixOf` answer),
    testCase "a browser's request for a page" $
      serving defaults echo $ \address -> do
        answer <- handshakeWith address ["GET / HTTP/1.1", "Host: a.example"]
        assertBool (show answer) ("HTTP/1.1 426 " `B.isPrefixOf` answer),
    testCase "what the body can see" $ do
      seen <- newIORef (Nothing, False)
      serving defaults {optionSubprotocols = ["chat"]} (\conn -> writeIORef seen (subprotocol conn, compresses conn) >> echo conn) $ \address ->
        withPeerOffering address ["Sec-WebSocket-Protocol: other, chat", "Sec-WebSocket-Extensions: permessage-deflate"] $ \_ peer -> do
          say peer (closeFrame 1000 "")
          _ <- hearUntilEnd peer
          pure ()
      readIORef seen >>= (@?= (Just "chat", True))
  ]
  where
    request = ["GET / HTTP/1.1", "Host: a.example", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]

-- Clients ------------------------------------------------------------------------

keyIn :: ByteString -> ByteString
keyIn request = C.takeWhile (/= '\r') (B.drop (B.length name) (snd (B.breakSubstring name request)))
  where
    name = "Sec-WebSocket-Key: "

accepting :: [ByteString] -> ByteString -> ByteString
accepting further request =
  C.unlines (map (<> "\r") (["HTTP/1.1 101 Switching Protocols", "Upgrade: WebSocket", "Connection: keep-alive, upgrade", "Sec-WebSocket-Accept: " <> acceptFor (keyIn request)] ++ further)) <> "\r\n"

asking :: WebSocketOptions -> SockAddr -> (Connection -> IO a) -> IO (Either WebSocketException a)
asking options address body = withRuntime defaultConfig $ \runtime ->
  try (withWebSocket options runtime ("ws://" ++ show address ++ "/path?x=1") [Header "X-Test" "yes"] body)

clients :: [TestTree]
clients =
  [ testCase "a request as it should be" $ do
      heard <- newIORef ""
      withRawServer (accepting []) (\peer -> say peer (unmasked 0x81 "hello") >> hearFrame peer >>= \f -> writeIORef heard (maybe "" (\(Frame _ b) -> b) f) >> say peer (unmasked 0x88 "\3\xe8")) $ \address -> do
        r <- asking defaults address $ \conn -> receive conn >>= \m -> m <$ close conn (CloseCode 3001) "done"
        either (assertFailure . show) (@?= TextMessage "hello") r
      readIORef heard >>= (@?= "\x0b\xb9\&done"),
    testCase "every mask is another one" $ do
      masksSeen <- newIORef []
      withRawServer (accepting []) (\peer -> hearFrame peer >>= \f -> modifyIORef' masksSeen (f :)) $ \address -> do
        _ <- asking defaults {optionClose = milliseconds 1} address (`sendText` "a")
        pure ()
      readIORef masksSeen >>= (@?= [Just (Frame 0x81 "a")]),
    testCase "a server that limits the client's window" $
      -- The second half is too far from the first for a window of 512 bytes.
      forM_ [("", 0xc2), ("; client_max_window_bits=15", 0xc2), ("; client_max_window_bits=\"9\"", 0x82), ("; client_max_window_bits=8", 0x82)] $ \(limit, first) -> do
        heard <- newIORef Nothing
        let noise = B.pack (map (fromIntegral . (`quot` 65536)) (take 2000 (iterate (\n -> (n * 1103515245 + 12345) `mod` 2147483648) (1 :: Int))))
            answer = accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover" <> limit]
        withRawServer answer (\peer -> hearFrame peer >>= writeIORef heard) $ \address -> do
          _ <- asking defaults {optionClose = milliseconds 1} address (\conn -> sendBinary conn (noise <> noise))
          pure ()
        readIORef heard >>= \got -> fmap (\(Frame f _) -> f) got @?= Just first,
    testCase "a server whose frames have masks" $ failing' (masked 0x81 "x") (Violated Masked),
    testCase "a server that sends text that is not UTF-8" $ failing' (unmasked 0x81 "\xff") (Violated InvalidText),
    testCase "a server that sends reserved bits" $ failing' (unmasked 0xa1 "x") (Violated ReservedBit),
    testCase "frames that come with the handshake's answer" $
      withRawServer (\request -> accepting [] request <> unmasked 0x81 "early" <> unmasked 0x88 "\3\xe8") (void . hearUntilEnd) $ \address -> do
        r <- asking defaults {optionClose = milliseconds 20} address receive
        either (assertFailure . show) (@?= TextMessage "early") r,
    testCase "answers that are refused" $
      forM_
        [ const "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
          const "HTTP/1.1 404 Not Found\r\n\r\nno",
          const "HTTP/1.0 101 Switching Protocols\r\n\r\n",
          const "nonsense\r\n\r\n",
          const "",
          const "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
          const "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
          replaceIn "Upgrade: WebSocket" "Upgrade: h2c" . accepting [],
          replaceIn "keep-alive, upgrade" "keep-alive" . accepting [],
          accepting ["Sec-WebSocket-Protocol: chat"],
          accepting ["Sec-WebSocket-Extensions: x-other"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_max_window_bits"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_max_window_bits=7"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_max_window_bits=16"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_max_window_bits=10; client_max_window_bits=10"],
          accepting ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover, permessage-deflate; server_no_context_takeover"],
          accepting ["Bad Header: x"]
        ]
        $ \answer -> withRawServer answer (\_ -> pure ()) $ \address -> do
          r <- asking defaults address (\_ -> pure ())
          assertBool "accepted" (isLeft r),
    testCase "a server that does not answer" $ do
      withRawServer (const "") (void . hearUntilEnd) $ \address -> do
        r <- asking defaults {optionHandshake = seconds 1} address (\_ -> pure ())
        either (\e -> assertBool (show e) ("in time" `B.isInfixOf` C.pack (show e))) (\_ -> assertFailure "accepted") r,
    testCase "what cannot be asked for" $ do
      forM_ [("a b", "/"), ("", "/"), ("a", "x"), ("a", "/ x"), ("a\r\nX: y", "/"), ("a", "/\r\n")] $ \(host, path) ->
        assertBool (show (host, path)) (isLeft (requestHead defaults host path [] "k"))
      forM_ [Header "X" "a\r\nb", Header "" "a", Header "X Y" "a", Header "Host" "b", Header "sec-websocket-key" "b"] $ \field ->
        assertBool (show field) (isLeft (requestHead defaults "a" "/" [field] "k")),
    testCase "URLs that are none" $
      withRuntime defaultConfig $ \runtime -> forM_ ["http://a/", "ws://", "ws://:80/", "ws://a:b/", "ws://u@a/", "ws://a:123456/", "ws:///x"] $ \url -> do
        r <- try (withWebSocket defaults runtime url [] (\_ -> pure ()))
        case r of
          Left (BadRequest _) -> pure ()
          other -> assertFailure (url ++ ": " ++ show other),
    testCase "our client and our server: echoes, compressed and not" $
      serving defaults {optionDeflate = Just (DeflateOptions 6 0)} echo $ \address -> do
        r <- asking defaults {optionDeflate = Just (DeflateOptions 9 100)} address $ \conn -> do
          compresses conn @?= True
          forM_ [0, 1, 99, 100, 125, 126, 4000, 65535, 65536, 500000] $ \n -> do
            sendBinary conn (B.replicate n 7)
            receive conn >>= (@?= BinaryMessage (B.replicate n 7))
          sendText conn "text"
          receive conn >>= (@?= TextMessage "text")
        either (assertFailure . show) pure r,
    testCase "without compression, long messages masked in parts" $
      serving defaults {optionDeflate = Nothing} echo $ \address -> do
        r <- asking defaults address $ \conn -> do
          compresses conn @?= False
          forM_ [32700 .. 32770] $ \n -> do
            sendBinary conn (B.take n (C.concat (map (C.pack . show) [n .. 2 * n])))
            receive conn >>= (@?= BinaryMessage (B.take n (C.concat (map (C.pack . show) [n .. 2 * n]))))
        either (assertFailure . show) pure r
  ]
  where
    failing' sent expected = do
      withRawServer (accepting []) (\peer -> say peer sent >> void (hearUntilEnd peer)) $ \address -> do
        r <- asking defaults address (\conn -> try (receive conn) >>= (@?= Left expected))
        either (assertFailure . show) pure r
    replaceIn old new s = let (a, b) = B.breakSubstring old s in if B.null b then s else a <> new <> B.drop (B.length old) b
