{-# LANGUAGE OverloadedStrings #-}

-- | The PROXY protocol's header: the specification's examples, headers made from addresses, and only-invalid ones.
module ProxyProtocolTest (tests) where

import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (intercalate)
import Data.Word (Word16, Word8)
import Heddle.Http.ProxyProtocol
import Network.Socket (SockAddr (..), tupleToHostAddress, tupleToHostAddress6)
import Numeric (showHex)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "ProxyProtocol"
    [ testGroup "examples" [testCase (show input) (parseProxyHeader input @?= expected) | (input, expected) <- examples],
      many "a header names its source, whatever follows it" $
        forAll valid $ \(header, source) ->
          forAll (B.pack <$> arbitrary) $ \rest ->
            parseProxyHeader (header <> rest) === ProxyHeader (B.length header) source,
      many "the beginning of a header is incomplete" $
        forAll valid $ \(header, _) ->
          forAll (choose (0, B.length header - 1)) $ \n ->
            parseProxyHeader (B.take n header) === ProxyIncomplete,
      many "only invalid" $
        forAll invalid $ \(input, mistake) -> parseProxyHeader input === ProxyMalformed mistake,
      many "a changed bit of a header with a checksum is noticed" $
        forAll checked $ \header ->
          -- Those of the signature, the version and the length are noticed otherwise.
          forAll (choose (16, B.length header - 1)) $ \at ->
            forAll (choose (0, 7)) $ \bit ->
              let changed = B.concat [B.take at header, B.singleton (B.index header at `xor` (2 ^ (bit :: Int))), B.drop (at + 1) header]
               in -- Not the extension's type: another type has no checksum to be wrong.
                  at /= 28 ==> case parseProxyHeader changed of
                    ProxyMalformed _ -> property True
                    other -> counterexample (show other) False,
      many "any bytes" $ \bytes -> case parseProxyHeader (B.pack bytes) of
        ProxyHeader n _ -> n <= length bytes
        _ -> True
    ]
  where
    many :: Testable p => String -> p -> TestTree
    many name = localOption (QuickCheckTests 2000) . testProperty name

examples :: [(ByteString, ProxyHeader)]
examples =
  [ ("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET /", ProxyHeader 47 (FromClient (SockAddrInet 56324 (tupleToHostAddress (192, 168, 0, 1))))),
    ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", ProxyHeader 56 (FromClient (SockAddrInet 65535 (tupleToHostAddress (255, 255, 255, 255))))),
    ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", ProxyHeader 32 (FromClient (SockAddrInet6 1 0 (tupleToHostAddress6 (0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)) 0))),
    ("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", ProxyHeader 104 (FromClient (SockAddrInet6 65535 0 (0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff) 0))),
    -- ipv4MappedWasRefused: as inet_ntop writes such addresses.
    ("PROXY TCP6 ::ffff:192.0.2.7 64:ff9b::192.0.2.33 1 2\r\n", ProxyHeader 53 (FromClient (SockAddrInet6 1 0 (tupleToHostAddress6 (0, 0, 0, 0, 0, 0xffff, 0xc000, 0x0207)) 0))),
    ("PROXY TCP6 1.2.3.4:: ::1 1 2\r\n", ProxyMalformed BadSource),
    ("PROXY TCP6 ::1.2.3 ::1 1 2\r\n", ProxyMalformed BadSource),
    ("PROXY TCP6 ::1.2.3.4:5 ::1 1 2\r\n", ProxyMalformed BadSource),
    ("PROXY TCP6 1:2:3:4:5:6:7:1.2.3.4 ::1 1 2\r\n", ProxyMalformed BadSource),
    ("PROXY UNKNOWN\r\n", ProxyHeader 15 FromProxy),
    ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", ProxyHeader 43 FromProxy),
    (binary 0x20 0x00 "", ProxyHeader 16 FromProxy),
    (binary 0x20 0x11 "junk", ProxyHeader 20 FromProxy),
    (binary 0x21 0x00 "", ProxyHeader 16 FromProxy),
    (binary 0x21 0x12 "\1\2\3\4\5\6\7\8\0\9\0\10", ProxyHeader 28 FromProxy),
    (binary 0x21 0x31 (B.take 108 ("/run/client" <> B.replicate 108 0) <> B.replicate 108 0), ProxyHeader 232 (FromClient (SockAddrUnix "/run/client"))),
    ("", ProxyIncomplete),
    ("P", ProxyIncomplete),
    ("\r\n", ProxyIncomplete),
    ("GET / HTTP/1.1\r\n", ProxyAbsent),
    ("POST / HTTP/1.1\r\n", ProxyAbsent),
    ("proxy TCP4 ", ProxyAbsent),
    ("\r\nGET / HTTP/1.1\r\n", ProxyAbsent),
    ("\22\3\1", ProxyAbsent)
  ]

signature :: ByteString
signature = "\r\n\r\n\0\r\nQUIT\n"

binary :: Word8 -> Word8 -> ByteString -> ByteString
binary command family block = B.concat [signature, B.pack [command, family], word16 (B.length block), block]

word16 :: Int -> ByteString
word16 n = B.pack [fromIntegral (n `shiftR` 8), fromIntegral n]

-- An IPv4 address: its text, its four bytes.
four :: Gen (ByteString, [Word8])
four = do
  bytes <- vectorOf 4 (oneof [arbitrary, elements [0, 255]])
  pure (C.pack (intercalate "." (map show bytes)), bytes)

-- An IPv6 address: a text of it, its eight groups.
six :: Gen (ByteString, [Word16])
six = do
  groups <- vectorOf 8 (oneof [arbitrary, pure 0])
  upper <- arbitrary
  let hex :: Word16 -> String
      hex g = (if upper then map toUpperHex else id) (showHex g "")
      toUpperHex c = if c >= 'a' && c <= 'f' then toEnum (fromEnum c - 32) else c
      runs = [(i, n) | i <- [0 .. 7], n <- [1 .. 8 - i], all (== 0) (take n (drop i groups))]
      plain = intercalate ":" (map hex groups)
      short (i, n) = intercalate ":" (map hex (take i groups)) ++ "::" ++ intercalate ":" (map hex (drop (i + n) groups))
  text <- elements (plain : map short runs)
  pure (C.pack text, groups)

port :: Gen Word16
port = oneof [arbitrary, elements [0, 65535]]

-- A header, and what it says.
valid :: Gen (ByteString, ProxySource)
valid = oneof [line4, line6, unknown, packed4, packed6, local]
  where
    line4 = do
      (from, bytes) <- four
      (to, _) <- four
      p <- port
      q <- port
      pure (C.unwords ["PROXY", "TCP4", from, to, number p, number q] <> "\r\n", FromClient (inet p bytes))
    line6 = do
      (from, groups) <- six
      (to, _) <- six
      p <- port
      q <- port
      pure (C.unwords ["PROXY", "TCP6", from, to, number p, number q] <> "\r\n", FromClient (inet6 p groups))
    unknown = do
      rest <- C.pack <$> (choose (0, 90) >>= \n -> vectorOf n (elements "abc:.09 "))
      pure ("PROXY UNKNOWN" <> (if B.null rest then "" else " " <> rest) <> "\r\n", FromProxy)
    packed4 = do
      (block, source) <- block4
      more <- extensions
      pure (binary 0x21 0x11 (block <> more), source)
    packed6 = do
      (_, groups) <- six
      (_, others) <- six
      p <- port
      more <- extensions
      pure (binary 0x21 0x21 (B.concat (map (word16 . fromIntegral) (groups ++ others ++ [p, 1])) <> more), FromClient (inet6 p groups))
    local = do
      family <- elements [0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32]
      rest <- B.pack <$> arbitrary
      pure (binary 0x20 family rest, FromProxy)

number :: Word16 -> ByteString
number = C.pack . show

inet :: Word16 -> [Word8] -> SockAddr
inet p = \case
  [a, b, c, d] -> SockAddrInet (fromIntegral p) (tupleToHostAddress (a, b, c, d))
  other -> error ("four bytes, not " ++ show other)

inet6 :: Word16 -> [Word16] -> SockAddr
inet6 p = \case
  [a, b, c, d, e, f, g, h] -> SockAddrInet6 (fromIntegral p) 0 (tupleToHostAddress6 (a, b, c, d, e, f, g, h)) 0
  other -> error ("eight groups, not " ++ show other)

block4 :: Gen (ByteString, ProxySource)
block4 = do
  (_, bytes) <- four
  (_, others) <- four
  p <- port
  pure (B.concat [B.pack (bytes ++ others), word16 (fromIntegral p), word16 1], FromClient (inet p bytes))

-- Of types other than the checksum's.
extensions :: Gen ByteString
extensions = B.concat <$> (choose (0, 3) >>= \n -> vectorOf n one)
  where
    one = do
      kind <- elements [0x01, 0x02, 0x04, 0x05, 0x20, 0x30, 0xea]
      value <- B.pack <$> arbitrary
      pure (B.concat [B.singleton kind, word16 (B.length value), value])

-- A header with a checksum, which HAProxy's documentation computes by the table.
checked :: Gen ByteString
checked = do
  (block, _) <- block4
  let bare = binary 0x21 0x11 (B.concat [block, "\3\0\4", "\0\0\0\0"])
      sum' = tableCrc bare
  pure (B.take (B.length bare - 4) bare <> B.pack [fromIntegral (sum' `shiftR` n) | n <- [24, 16, 8, 0]])

-- CRC-32C over polynomials: an independent way, by long division of the reflected message.
tableCrc :: ByteString -> Int
tableCrc message = reflected (foldl step 0xffffffff (concatMap bitsOf (B.unpack message))) `xor` 0xffffffff
  where
    bitsOf byte = [fromIntegral (byte `shiftR` n) `mod` 2 | n <- [0 .. 7]] :: [Int]
    step crc bit =
      let top = crc `div` 0x80000000
          moved = (crc * 2) `mod` 0x100000000
       in if top `xor` bit == 1 then moved `xor` 0x1edc6f41 else moved
    reflected crc = sum [2 ^ (31 - n) | n <- [0 .. 31 :: Int], odd (crc `div` (2 ^ n))] :: Int

-- A header with exactly one mistake.
invalid :: Gen (ByteString, ProxyMistake)
invalid =
  oneof
    [ (\c -> ("PROXY UNKNOWN " <> C.replicate 200 c, LineTooLong)) <$> elements "a 0",
      elements
        [ (text, BadLine)
          | text <-
              [ "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
                "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
                "PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n",
                "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
                "PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n",
                "PROXY UNKNOWNS\r\n",
                "PROXY \r\n",
                "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n",
                "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rX",
                "PROXY TCP4 1.2.3.4\n 5.6.7.8 1 2\r\n"
              ]
        ],
      do
        host <- elements ["1.2.3", "1.2.3.4.5", "256.2.3.4", "01.2.3.4", "1..3.4", "a.2.3.4", "-1.2.3.4", "::1", ""]
        pure (C.unwords ["PROXY", "TCP4", host, "1.2.3.4", "1", "2"] <> "\r\n", BadSource),
      do
        host <- elements ["1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", ":::", "1:2:3:4:5:6:7:8::", "::1.2.3.04", "::1.2.3.4:5", "1.2.3.4::", "1:", "[::1]", "::1%lo"]
        pure (C.unwords ["PROXY", "TCP6", host, "::1", "1", "2"] <> "\r\n", BadSource),
      do
        p <- elements ["65536", "00", "01", "-1", "1e3", "999999999999999999999", ""]
        first <- arbitrary
        pure (C.unwords (["PROXY", "TCP4", "1.2.3.4", "1.2.3.4"] ++ if first then [p, "1"] else ["1", p]) <> "\r\n", BadSource),
      (\v -> (binary (16 * v + 1) 0x11 (B.replicate 12 0), BadVersion)) <$> elements ([0, 1] ++ [3 .. 15]),
      (\c -> (binary (0x20 + c) 0x11 (B.replicate 12 0), BadCommand)) <$> choose (2, 15),
      (\f -> (binary 0x21 f (B.replicate 300 0), BadFamily)) <$> elements [f | f <- [minBound ..], f `div` 16 > 3 || f `mod` 16 > 2],
      (\(f, n) k -> (binary 0x21 f (B.replicate (k `mod` n) 0), AddressesCut)) <$> elements [(0x11, 12), (0x12, 12), (0x21, 36), (0x22, 36), (0x31, 216), (0x32, 216)] <*> choose (0, 1000),
      (\(block, _) more -> (binary 0x21 0x11 (block <> more), BadExtension)) <$> block4 <*> elements ["\1", "\1\0", "\1\0\1", "\1\0\5abcd", "\1\255\255abcd", "\1\0\0\1", "\3\0\3abc", "\3\0\5abcde"],
      (\header -> (B.init header <> B.singleton (B.last header + 1), BadChecksum)) <$> checked,
      (\n -> (B.concat [signature, "\33\17", word16 n, B.replicate 12 0], HeaderTooLong)) <$> choose (4081, 65535)
    ]
