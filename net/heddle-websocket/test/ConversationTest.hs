{-# LANGUAGE OverloadedStrings #-}

-- | What a server answers to frames: the groups of Autobahn's cases in our own words, whole and cut into pieces; random
-- messages in random fragments and random pieces; random messages that are wrong in one place.
module ConversationTest (tests) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception (try)
import Control.Monad (forM_, forever, unless, void)
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.Word (Word8)
import Fixture
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Testkit.Watchdog (patiently)
import Heddle.WebSocket
import Heddle.WebSocket.Codec (Deflating (..), deflateMessage, inflateMessage)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "conversations"
    [ testGroup "cases" [testCase name (runCase True c) | c@(Case name _ _) <- cases],
      testGroup "long cases" [testCase name (runCase False c) | c@(Case name _ _) <- longCases],
      randomly,
      testGroup "compressed" compressed,
      testGroup "pieces" pieces
    ]

-- A name, what is sent, and all frames to the end of the connection.
data Case = Case TestName [ByteString] [Frame]

runCase :: Bool -> Case -> Assertion
runCase short (Case _ sent expected) = serving options echo $ \address ->
  forM_ (cuts short (B.concat sent)) $ \parts -> withPeer address $ \peer -> do
    sayInPieces peer parts
    heard <- hearUntilEnd peer
    heard @?= expected
  where
    options = defaults {optionMessageLimit = 1000000}

-- At once, byte by byte, and in sevens.
cuts :: Bool -> ByteString -> [[ByteString]]
cuts short bytes
  | short = [[bytes], map B.singleton (B.unpack bytes), sevens bytes]
  | otherwise = [[bytes], byThousands bytes]
  where
    sevens = every 7
    byThousands = every 9973

every :: Int -> ByteString -> [ByteString]
every n s = if B.null s then [] else B.take n s : every n (B.drop n s)

text, binary, ping, pong :: ByteString -> ByteString
text = masked 0x81
binary = masked 0x82
ping = masked 0x89
pong = masked 0x8a

bye :: ByteString
bye = closeFrame 1000 ""

closed :: Int -> Frame
closed code = Frame 0x88 (B.pack [fromIntegral (code `shiftR` 8), fromIntegral code])

done :: Frame
done = closed 1000

cases :: [Case]
cases =
  -- Group 1: messages of each kind and small sizes.
  [Case ("1: a text of " ++ show n ++ " bytes") [text (B.replicate n 42), bye] [Frame 0x81 (B.replicate n 42), done] | n <- [0, 1, 125, 126, 127, 128]]
    ++ [Case ("1: " ++ show n ++ " bytes") [binary (B.replicate n 0xfe), bye] [Frame 0x82 (B.replicate n 0xfe), done] | n <- [0, 1, 125, 126, 127, 128]]
    -- Group 2: pings and pongs.
    ++ [ Case "2: a ping without a payload" [ping "", bye] [Frame 0x8a "", done],
         Case "2: a ping with text" [ping "Hello, world!", bye] [Frame 0x8a "Hello, world!", done],
         Case "2: a ping with bytes" [ping "\0\xff\xfe\xfd", bye] [Frame 0x8a "\0\xff\xfe\xfd", done],
         Case "2: the longest ping" [ping (B.replicate 125 0xfe), bye] [Frame 0x8a (B.replicate 125 0xfe), done],
         Case "2: a ping that is too long" [ping (B.replicate 126 0xfe)] [closed 1002],
         Case "2: a pong that nobody asked for" [pong "", pong "unsolicited", ping "x", bye] [Frame 0x8a "x", done],
         Case "2: ten pings" (map (ping . C.pack . show) [1 .. 10 :: Int] ++ [bye]) ([Frame 0x8a (C.pack (show i)) | i <- [1 .. 10 :: Int]] ++ [done])
       ]
    -- Group 3: reserved bits.
    ++ [ Case ("3: reserved bits " ++ show bits ++ " after a text") [text "before", masked (0x80 + 16 * bits + op) "x"] [Frame 0x81 "before", closed 1002]
         | bits <- [1 .. 7],
           op <- [1, 9, 8]
       ]
    -- Group 4: opcodes without a meaning.
    ++ [Case ("4: opcode " ++ show op) [text "before", masked (0x80 + op) "x", ping "never"] [Frame 0x81 "before", closed 1002] | op <- [3 .. 7] ++ [11 .. 15]]
    -- Group 5: fragments.
    ++ [ Case "5: a ping in fragments" [masked 0x09 "a", masked 0x80 "b"] [closed 1002],
         Case "5: a pong in fragments" [masked 0x0a "a", masked 0x80 "b"] [closed 1002],
         Case "5: a Close in fragments" [masked 0x08 "\3\xe8"] [closed 1002],
         Case "5: two fragments" [masked 0x01 "frag", masked 0x80 "ment", bye] [Frame 0x81 "fragment", done],
         Case "5: five fragments with pings between them" (masked 0x01 "a" : concat [[ping (C.singleton c), masked 0x00 (C.singleton c)] | c <- "bcd"] ++ [masked 0x80 "e", bye]) ([Frame 0x8a (C.singleton c) | c <- "bcd"] ++ [Frame 0x81 "abcde", done]),
         Case "5: empty fragments" [masked 0x02 "", masked 0x00 "", masked 0x00 "x", masked 0x80 "", bye] [Frame 0x82 "x", done],
         Case "5: nothing but empty fragments" [masked 0x01 "", masked 0x80 "", bye] [Frame 0x81 "", done],
         Case "5: a continuation of nothing" [masked 0x80 "x"] [closed 1002],
         Case "5: a continuation of nothing that goes on" [masked 0x00 "x", text "y"] [closed 1002],
         Case "5: a continuation after the end" [masked 0x01 "a", masked 0x80 "b", masked 0x80 "c"] [Frame 0x81 "ab", closed 1002],
         Case "5: a text within a text" [masked 0x01 "a", text "b"] [closed 1002],
         Case "5: bytes within a text" [masked 0x01 "a", binary "b"] [closed 1002],
         Case "5: a Close within a message" [masked 0x01 "a", bye] [done]
       ]
    -- Group 6: UTF-8.
    ++ [Case ("6: valid: " ++ show t) [text t, bye] [Frame 0x81 t, done] | t <- validTexts]
    ++ [Case ("6: valid, byte by byte in fragments: " ++ show t) (fragments 0x01 (map B.singleton (B.unpack t)) ++ [bye]) [Frame 0x81 t, done] | t <- take 2 validTexts]
    ++ [Case ("6: invalid: " ++ show t) [text t] [closed 1007] | t <- invalidTexts]
    ++ [Case ("6: invalid, byte by byte in fragments: " ++ show t) (fragments 0x01 (map B.singleton (B.unpack t))) [closed 1007] | t <- invalidTexts]
    ++ [ Case "6: the first bad byte ends it, before the frame is complete" [B.take 20 (text ("\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80" <> B.replicate 50 97))] [closed 1007],
         Case "6: and before the message is complete" [masked 0x01 "abc", masked 0x00 "\xed\xa0"] [closed 1007],
         Case "6: a character cut off by the message's end" [masked 0x01 "\xe2\x82", masked 0x80 ""] [closed 1007],
         Case "6: bytes are not judged" [binary "\xff\xfe\xc0", bye] [Frame 0x82 "\xff\xfe\xc0", done]
       ]
    -- Group 7: closing.
    ++ [ Case "7: a Close without a code" [masked 0x88 ""] [Frame 0x88 ""],
         Case "7: half a code" [masked 0x88 "\3"] [closed 1002],
         Case "7: a reason" [closeFrame 1000 "Going away for lunch"] [done],
         Case "7: the longest reason" [closeFrame 1000 (B.replicate 123 42)] [done],
         Case "7: a reason that is too long" [closeFrame 1000 (B.replicate 124 42)] [closed 1002],
         Case "7: a reason that is not UTF-8" [closeFrame 1000 "\xce\xba\xed\xa0\x80"] [closed 1007],
         Case "7: two Closes" [bye, bye] [done],
         Case "7: a message after a Close is not answered" [bye, text "x", ping "y"] [done]
       ]
    ++ [Case ("7: code " ++ show code) [closeFrame code ""] [closed code] | code <- [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999]]
    ++ [Case ("7: code " ++ show code ++ ", which must not be sent") [closeFrame code ""] [closed 1002] | code <- [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]]
    -- Frames that no case of Autobahn has.
    ++ [ Case "a frame without a mask" [unmasked 0x81 "x"] [closed 1002],
         Case "a length in more bytes than it needs" [frame (Just [1, 2, 3, 4]) (Just 2) 0x82 (B.replicate 125 1)] [closed 1002],
         Case "a length in eight bytes that needs two" [frame (Just [1, 2, 3, 4]) (Just 8) 0x82 (B.replicate 200 1)] [closed 1002],
         Case "a length of 2^63" ["\x82\xff\x80\0\0\0\0\0\0\0abcd"] [closed 1002],
         Case "a length of 2^63 - 1" ["\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\&abcd"] [closed 1009],
         Case "a control frame with a long length" [B.pack [0x89, 0xfe, 0, 126]] [closed 1002],
         Case "a mask of zeros" [frame (Just [0, 0, 0, 0]) Nothing 0x81 "plain", bye] [Frame 0x81 "plain", done],
         Case "HTTP instead of frames" ["GET / HTTP/1.1\r\n\r\n"] [closed 1002]
       ]

fragments :: Int -> [ByteString] -> [ByteString]
fragments first parts = zipWith3 (\i op p -> masked (op + (if i == length parts then 0x80 else 0)) p) [1 ..] (first : repeat 0) parts

validTexts, invalidTexts :: [ByteString]
validTexts = ["Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!", "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", "\0", "\x7f", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"]
invalidTexts = ["\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfe", "\xff", "\xce", "\xe2\x82", "\xf0\x9d\x84", "a\xc3", "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\&edited"]

-- Groups 9 and 10, smaller: sizes around the forms of lengths and the buffers.
longCases :: [Case]
longCases =
  [Case ("1: a text of " ++ show n ++ " bytes") [text (B.replicate n 42), bye] [Frame 0x81 (B.replicate n 42), done] | n <- sizes]
    ++ [Case ("1: " ++ show n ++ " bytes") [binary (bytes n), bye] [Frame 0x82 (bytes n), done] | n <- sizes]
    ++ [Case ("9: " ++ show n ++ " bytes in fragments of " ++ show size) (fragments 0x02 (every size (bytes n)) ++ [bye]) [Frame 0x82 (bytes n), done] | n <- [65536, 300000], size <- [64, 1000, 4096, 70000]]
    ++ [ Case "9: ten texts at once" (replicate 10 (text (B.replicate 30000 97)) ++ [bye]) (replicate 10 (Frame 0x81 (B.replicate 30000 97)) ++ [done]),
         Case "9: a thousand small texts" (replicate 1000 (text "small") ++ [bye]) (replicate 1000 (Frame 0x81 "small") ++ [done]),
         Case "10: a text and its end cut at random places" (fragments 0x01 (every 1300 (B.replicate 65536 42)) ++ [bye]) [Frame 0x81 (B.replicate 65536 42), done],
         Case "a message at the limit" [binary (B.replicate 1000000 1), bye] [Frame 0x82 (B.replicate 1000000 1), done],
         Case "a message above the limit" [binary (B.replicate 1000001 1)] [closed 1009],
         Case "fragments above the limit" (fragments 0x02 (every 70000 (B.replicate 1000001 1))) [closed 1009],
         Case "fifty thousand empty fragments" (masked 0x02 "a" : replicate 50000 (masked 0x00 "") ++ [masked 0x80 "z", bye]) [Frame 0x82 "az", done]
       ]
  where
    sizes = [65535, 65536, 65537, 32754, 32755, 32768 - 8, 32768, 131072, 999999]
    bytes n = fst (B.unfoldrN n (\i -> Just (fromIntegral (i * 7 + i `quot` 251), i + 1)) (0 :: Int))

-- Random ------------------------------------------------------------------------

data Sent = Sent Bool ByteString [Int] | Ping' ByteString
  deriving stock (Show)

newtype Script = Script [Sent]
  deriving stock (Show)

instance Arbitrary Script where
  arbitrary = Script <$> resize 12 (listOf one)
    where
      one = frequency [(3, Sent <$> arbitrary <*> (C.pack <$> message) <*> resize 5 (listOf (choose (1, 60)))), (1, Ping' . C.pack <$> resize 20 (listOf (elements ['a' .. 'z'])))]
      message = oneof [resize 200 (listOf (elements ['a' .. 'z'])), (`replicate` 'x') <$> elements [0, 125, 126, 127, 4000, 65535, 65536]]
  shrink (Script list) = [Script (take i list ++ drop (i + 1) list) | i <- [0 .. length list - 1]]

frames :: Script -> [ByteString]
frames (Script list) = concatMap one list
  where
    one (Ping' p) = [ping p]
    one (Sent isText bytes at) = fragments (if isText then 1 else 2) (cutAt at bytes)
    cutAt [] s = [s]
    cutAt (n : ns) s
      | B.length s <= n = [s]
      | otherwise = B.take n s : cutAt ns (B.drop n s)

answers :: Script -> [Frame]
answers (Script list) = [case s of Ping' p -> Frame 0x8a p; Sent isText bytes _ -> Frame (if isText then 0x81 else 0x82) bytes | s <- list]

cutRandomly :: ByteString -> Gen [ByteString]
cutRandomly bytes
  | B.null bytes = pure []
  | otherwise = do
    n <- oneof [choose (1, 3), choose (1, 200), choose (1, 40000)]
    (B.take n bytes :) <$> cutRandomly (B.drop n bytes)

randomly :: TestTree
randomly =
  localOption (QuickCheckTests 60) $
    testGroup
      "random"
      [ testProperty "messages in any fragments and any pieces" $ \script -> forAllBlind (cutRandomly (B.concat (frames script ++ [bye]))) $ \parts ->
          ioProperty . serving defaults echo $ \address -> withPeer address $ \peer -> do
            sayInPieces peer parts
            heard <- hearUntilEnd peer
            pure (heard === answers script ++ [done]),
        testProperty "messages, then something wrong" $ \script -> forAll (elements wrong) $ \(bad, code) -> forAllBlind (cutRandomly (B.concat (frames script ++ [bad, text "never"]))) $ \parts ->
          ioProperty . serving defaults echo $ \address -> withPeer address $ \peer -> do
            sayInPieces peer parts
            heard <- hearUntilEnd peer
            pure (heard === answers script ++ [closed code]),
        testProperty "any bytes at all: the connection ends, and with one of the codes for that" $ \(garbage :: [Word8]) ->
          forAllBlind (cutRandomly (B.pack (map (\b -> if b < 60 then 0x81 else b) garbage))) $ \parts ->
            ioProperty . serving defaults echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
              sayInPieces peer parts
              endSending peer
              heard <- hearUntilEnd peer
              let codes = [B.take 2 p | Frame 0x88 p <- heard]
              pure (counterexample (show heard) (all (`elem` ["\3\xea", "\3\xef", "\3\xf1"]) codes .&&. length codes <= 1))
      ]
  where
    wrong =
      [ (masked 0x91 "x", 1002),
        (masked 0x83 "x", 1002),
        (unmasked 0x81 "x", 1002),
        (masked 0x80 "x", 1002),
        (masked 0x09 "x", 1002),
        (text "\xff", 1007),
        (closeFrame 1005 "", 1002),
        (closeFrame 1000 "\xff", 1007),
        (masked 0x88 "\1", 1002),
        ("\x82\xff\x7f\0\0\0\0\0\0\0abcd", 1009)
      ]

-- Compression --------------------------------------------------------------------

offer :: ByteString
offer = "Sec-WebSocket-Extensions: permessage-deflate"

packed :: ByteString -> IO ByteString
packed bytes = deflateMessage (Deflating 6 15 0) bytes >>= maybe (assertFailure "not compressible") pure

compressed :: [TestTree]
compressed =
  [ testCase "12: texts and bytes of many sizes, both ways" $
      serving packing echo $ \address -> withPeerOffering address [offer] $ \answer peer -> do
        assertBool (show answer) ("permessage-deflate; server_no_context_takeover; client_no_context_takeover" `B.isInfixOf` answer)
        forM_ [64, 256, 1024, 4096, 32767, 32768, 65536, 500000] $ \n -> forM_ [0x41, 0x42] $ \first -> do
          let message = B.take n (C.concat (map (C.pack . show) [1 :: Int .. n]))
          small <- packed message
          say peer (masked (0x80 + first) small)
          heard <- hearFrame peer
          case heard of
            Just (Frame first' p) -> do
              first' @?= 0x80 + first
              inflateMessage n p >>= (@?= Just message)
            Nothing -> assertFailure "the end"
        say peer bye
        hearUntilEnd peer >>= (@?= [done]),
    testCase "12: fragments with a ping between them, byte by byte" $
      withCompressed $ \peer -> do
        small <- packed (B.replicate 3000 97)
        let parts = every 5 small
        forM_ (zip3 [1 :: Int ..] (0x41 : repeat 0) parts) $ \(i, op, p) -> do
          forM_ (B.unpack (masked (op + (if i == length parts then 0x80 else 0)) p)) (say peer . B.singleton)
          if i == 1 then say peer (ping "now") else pure ()
        hearFrame peer >>= (@?= Just (Frame 0x8a "now"))
        Just (Frame first p) <- hearFrame peer
        first @?= 0xc1
        inflateMessage 3000 p >>= (@?= Just (B.replicate 3000 97)),
    testCase "a message that is not compressed, though it could be" $
      withCompressed $ \peer -> do
        say peer (text "plain")
        hearFrame peer >>= (@?= Just (Frame 0x81 "plain")),
    testCase "what would not become shorter is sent as it is" $
      withCompressed $ \peer -> do
        say peer (binary (B.pack [0 .. 255]))
        hearFrame peer >>= (@?= Just (Frame 0x82 (B.pack [0 .. 255]))),
    testCase "13: a window that the client asks for" $
      serving packing echo $ \address ->
        withPeerOffering address ["Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=9; client_max_window_bits"] $ \answer peer -> do
          assertBool (show answer) ("; server_max_window_bits=9\r\n" `B.isInfixOf` answer)
          -- With a window of 512 bytes, the second half cannot refer to the first.
          let half = C.concat (map (C.pack . show) [100000 .. 100200 :: Int])
              message = half <> half
          small <- packed message
          say peer (masked 0xc2 small)
          Just (Frame first p) <- hearFrame peer
          first @?= 0xc2
          inflateMessage 100000 p >>= (@?= Just message)
          assertBool (show (B.length p, B.length small)) (B.length p > B.length small)
          say peer bye
          hearUntilEnd peer >>= (@?= [done]),
    testCase "a bomb is refused when the limit is reached" $
      serving packing {optionMessageLimit = 10000} echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
        small <- packed (B.replicate 3000000 0)
        assertBool (show (B.length small)) (B.length small < 10000)
        say peer (masked 0xc2 small)
        hearUntilEnd peer >>= (@?= [closed 1009]),
    testCase "a compressed message at the limit, and one above it" $
      forM_ [(10000, Frame 0xc2), (10001, Frame 0x88)] $ \(n, kind) ->
        serving packing {optionMessageLimit = 10000} echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
          small <- packed (B.replicate n 0)
          say peer (masked 0xc2 small)
          Just (Frame first bytes) <- hearFrame peer
          let Frame expected _ = kind B.empty
          first @?= expected
          if first == 0x88 then bytes @?= "\3\xf1" else inflateMessage n bytes >>= (@?= Just (B.replicate n 0)),
    testCase "a message that is not compressed has the same limit" $
      serving packing {optionMessageLimit = 10000} echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
        say peer (binary (B.replicate 10001 0))
        hearUntilEnd peer >>= (@?= [closed 1009]),
    testCase "what zlib cannot read" $ forM_ ["\xff\xff\xff", "Hello", ""] $ \bytes -> withFailing (masked 0xc2 bytes) 1007,
    testCase "a message that is cut off" $ do
      small <- packed (B.replicate 3000 97)
      withFailing (masked 0xc2 (B.take (B.length small - 3) small)) 1007,
    testCase "a compressed text that is not UTF-8, before its end" $ do
      small <- packed (B.replicate 3000 0xff)
      withFailing (masked 0x41 small) 1007,
    testCase "a compressed continuation, and a compressed ping" $ do
      withFailing (masked 0x01 "a" <> masked 0xc0 "b") 1002
      withFailing (masked 0xc9 "b") 1002,
    testCase "compression that was not agreed on" $
      serving packing echo $ \address -> withPeer address $ \peer -> do
        small <- packed (B.replicate 300 97)
        say peer (masked 0xc1 small)
        hearUntilEnd peer >>= (@?= [closed 1002]),
    testProperty "messages and pieces" . withMaxSuccess 30 $
      forAll (choose (0, 5000)) $ \n -> forAll (choose (1, 300)) $ \size -> ioProperty $ do
        let message = B.take n (C.concat (map (C.pack . show) [1 :: Int .. n]))
        withCompressed $ \peer -> do
          small <- deflateMessage (Deflating 6 15 0) message
          let sent = maybe (masked 0x82 message) (masked 0xc2) small
          sayInPieces peer (every size sent)
          heard <- hearFrame peer
          case heard of
            Just (Frame 0xc2 p) -> (=== Just message) <$> inflateMessage n p
            other -> pure (other === Just (Frame 0x82 message))
  ]
  where
    packing = defaults {optionDeflate = Just (DeflateOptions 6 0)}
    withCompressed :: (Peer -> IO a) -> IO a
    withCompressed use = serving packing echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
      r <- use peer
      say peer bye
      hearUntilEnd peer >>= (@?= [done])
      pure r
    withFailing bytes code = serving packing echo $ \address -> withPeerOffering address [offer] $ \_ peer -> do
      say peer bytes
      hearUntilEnd peer >>= (@?= [closed code])

-- Pieces --------------------------------------------------------------------------

pieces :: [TestTree]
pieces =
  [ testCase "a long message arrives in pieces of at most 32 KiB, beyond the limit of whole ones" $ do
      sizes <- collecting defaults {optionMessageLimit = 1000} [] $ \peer -> say peer (binary (B.replicate 300000 7))
      sum (map (B.length . pieceBytes) sizes) @?= 300000
      assertBool "short pieces" (all ((<= 32768) . B.length . pieceBytes) sizes)
      map pieceLast sizes @?= replicate (length sizes - 1) False ++ [True],
    testCase "a compressed one, too" $ do
      small <- packed (B.replicate 3000000 120)
      sizes <- collecting defaults {optionMessageLimit = 1000} [offer] $ \peer -> say peer (masked 0xc1 small)
      B.concat (map pieceBytes sizes) @?= B.replicate 3000000 120
      assertBool "short pieces" (all ((<= 32768) . B.length . pieceBytes) sizes)
      map pieceLast sizes @?= replicate (length sizes - 1) False ++ [True],
    testCase "compressed ones that fill the last piece" $
      forM_ [32768, 65536, 98304] $ \n -> do
        small <- packed (B.replicate n 120)
        got <- collecting defaults [offer] $ \peer -> say peer (masked 0xc1 small)
        B.concat (map pieceBytes got) @?= B.replicate n 120
        map pieceLast got @?= replicate (length got - 1) False ++ [True],
    testCase "an empty message is one piece" $ do
      got <- collecting defaults [] $ \peer -> say peer (text "")
      got @?= [Piece IsText "" True],
    testCase "a character in two frames is in two pieces" $ do
      got <- collecting defaults [] $ \peer -> say peer (masked 0x01 "\xe2\x82" <> masked 0x80 "\xac")
      B.concat (map pieceBytes got) @?= "\xe2\x82\xac",
    testCase "sent in pieces, it is one message" $
      serving defaults (\conn -> sendTextPieces conn (\put -> mapM_ put ["one", "", "two"]) >> sendBinaryPieces conn (\_ -> pure ()) >> forever (receive conn)) $ \address ->
        withPeer address $ \peer -> do
          heard <- mapM (const (hearFrame peer)) [1 .. 4 :: Int]
          heard @?= [Just (Frame 0x01 "one"), Just (Frame 0x00 "two"), Just (Frame 0x80 ""), Just (Frame 0x82 "")]
          say peer bye
          hearUntilEnd peer >>= (@?= [done]),
    testCase "sent in pieces, it is compressed if its first piece is long enough" $ do
      let noise = B.pack (map (fromIntegral . (`quot` 65536)) (take 50000 (iterate (\n -> (n * 1103515245 + 12345) `mod` 2147483648) (1 :: Int))))
          sentBy = [(["x"], True), (["x", noise], True), ([B.replicate 600 120, "", "y", noise, B.replicate 100000 121], False), ([noise], False), ([], True)]
      forM_ sentBy $ \(parts, plainly) ->
        serving defaults (\conn -> sendBinaryPieces conn (`mapM_` parts) >> forever (receive conn)) $ \address ->
          withPeerOffering address [offer] $ \_ peer -> do
            let toEnd heard = hearFrame peer >>= maybe (assertFailure "the end of a message") (\f@(Frame first _) -> if first >= 0x80 then pure (reverse (f : heard)) else toEnd (f : heard))
            sent <- toEnd []
            let content = B.concat [bytes | Frame _ bytes <- sent]
            [first | Frame first _ <- take 1 sent] @?= [(if plainly then 0x02 else 0x42) + (if null parts then 0x80 else 0)]
            assertBool "continuations" (and [first `elem` [0x00, 0x80] | Frame first _ <- drop 1 sent])
            back <- if plainly then pure (Just content) else inflateMessage 1000000 content
            back @?= Just (B.concat parts)
            unless plainly $ assertBool "no longer than it need be" (B.length content < 51000)
            say peer bye
            hearUntilEnd peer >>= (@?= [done]),
    testCase "a piece after the end of its message" $
      forM_ [[], [offer]] $ \headers -> do
        outcome <- newEmptyMVar
        let body conn = do
              kept <- sendBinaryPieces conn (\put -> put <$ put (B.replicate 1000 7))
              try (kept "late") >>= putMVar outcome
              sendBinary conn "next" >> forever (receive conn)
        serving defaults body $ \address ->
          withPeerOffering address headers $ \_ peer -> do
            patiently "the late piece" (takeMVar outcome) >>= (@?= Left MessageOver)
            _ <- hearFrame peer
            _ <- hearFrame peer
            hearFrame peer >>= (@?= Just (Frame 0x82 "next"))
            say peer bye
            hearUntilEnd peer >>= (@?= [done]),
    testCase "an interrupted receive had more than a piece of a compressed message" $ do
      -- Without the beginning of another frame, and with it.
      forM_ [0, 100] $ \further -> do
        let message = B.replicate 600000 120
        small <- packed message
        let (one, two) = B.splitAt 200 small
            begun = masked 0x41 one <> ping "" <> B.take further (masked 0x80 two)
        got <- interrupted defaults [offer] begun (B.drop further (masked 0x80 two)) rest
        assertBool "the first has what was there" (map (B.length . pieceBytes) (take 1 got) > [32768])
        B.concat (map pieceBytes got) @?= message
        map pieceLast got @?= replicate (length got - 1) False ++ [True],
    testCase "what an interrupted receive had and a piece has taken does not count towards the limit" $ do
      let part = B.replicate 900 7
      got <- interrupted defaults {optionMessageLimit = 1000} [] (masked 0x02 part <> ping "") (masked 0x80 part) $ \conn ->
        (,) <$> receivePiece conn <*> receive conn
      got @?= (Piece IsBinary part False, BinaryMessage part),
    testCase "a frame that began in pieces is received whole only up to the limit" $
      serving defaults {optionMessageLimit = 1000} (\conn -> receivePiece conn >> forever (receive conn)) $ \address ->
        withPeer address $ \peer -> do
          say peer (masked 0x82 (B.replicate 300000 7))
          hearUntilEnd peer >>= (@?= [closed 1009]),
    testProperty "taken in turns with whole receives that are late, they are the message" . withMaxSuccess 30 $
      forAll (choose (0, 200000)) $ \n -> forAll (choose (50, 20000)) $ \size -> forAll arbitrary $ \small -> ioProperty $ do
        -- Digits, then what a few bytes decompress to.
        let message = B.take n (C.concat (map (C.pack . show) [1 :: Int .. n `quot` 4])) <> B.replicate (3 * n) 120
        shorter <- if small then deflateMessage (Deflating 6 15 0) message else pure Nothing
        let sent = B.concat (maybe (fragments 0x02 (every size message <> [""])) (\m -> fragments 0x42 (every size m <> [""])) shorter)
        parts <- generate (cutRandomly sent)
        got <- newEmptyMVar
        let takeTurns conn =
              receiveUntil conn (Deadline 0) >>= \case
                Just (BinaryMessage bytes) -> pure [bytes]
                Just (TextMessage _) -> assertFailure "a text"
                Nothing -> do
                  piece <- receivePiece conn
                  (pieceBytes piece :) <$> if pieceLast piece then pure [] else takeTurns conn
            body conn = takeTurns conn >>= putMVar got . B.concat >> forever (receive conn)
        serving defaults {optionDeflate = Just (DeflateOptions 6 0)} body $ \address -> withPeerOffering address [offer] $ \_ peer -> do
          sayInPieces peer (parts <> [bye])
          heard <- hearUntilEnd peer
          received <- tryTakeMVar got
          pure (heard === [done] .&&. received === Just message)
  ]
  where
    rest conn = do
      piece <- receivePiece conn
      (piece :) <$> if pieceLast piece then pure [] else rest conn
    -- What begins with a message and ends with a ping is received by a thread that is then interrupted, and more is sent.
    interrupted :: WebSocketOptions -> [ByteString] -> ByteString -> ByteString -> (Connection -> IO r) -> IO r
    interrupted options further begun more resume = do
      there <- newEmptyMVar
      stopped <- newEmptyMVar
      result <- newEmptyMVar
      let body conn = do
            receiver <- forkIO (void (receive conn))
            takeMVar there
            killThread receiver
            putMVar stopped ()
            resume conn >>= putMVar result
            sendText conn "thanks"
            forever (receive conn)
      serving options body $ \address -> withPeerOffering address further $ \_ peer -> do
        say peer begun
        hearFrame peer >>= (@?= Just (Frame 0x8a ""))
        putMVar there ()
        takeMVar stopped
        say peer more
        hearFrame peer >>= \case
          Just (Frame _ _) -> pure ()
          Nothing -> assertFailure "the connection ended"
        say peer bye
        hearUntilEnd peer >>= (@?= [done])
      takeMVar result
    collecting :: WebSocketOptions -> [ByteString] -> (Peer -> IO ()) -> IO [Piece]
    collecting options further send = do
      got <- newIORef []
      let gather conn = do
            piece <- receivePiece conn
            modifyIORef' got (piece :)
            if pieceLast piece then sendText conn "thanks" >> forever (receivePiece conn) else gather conn
      serving options gather $ \address -> withPeerOffering address further $ \_ peer -> do
        send peer
        hearFrame peer >>= (@?= Just (Frame 0x81 "thanks"))
        say peer bye
        hearUntilEnd peer >>= (@?= [done])
      reverse <$> readIORef got
