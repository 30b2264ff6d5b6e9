module AddressTest
  ( tests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCString)
import Data.Word (Word16, Word8)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Address
import Heddle.Testkit.Written (written)
import Network.Socket
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Address"
    [ testProperty "pokeIPv4: the C library's text" $
        forAll (vectorOf 4 octets) $ \bytes -> ioProperty $ do
          let address = fromBytes bytes
          text <- written maxIPv4Length (`pokeIPv4` address)
          expected <- numericHost (SockAddrInet 0 address)
          pure (text === expected),
      testProperty "pokeIPv6: the C library's text" $
        forAll (vectorOf 8 groups `suchThat` (not . isCompatible)) $ \words16 -> ioProperty $ do
          text <- ipv6 words16
          expected <- numericHost (SockAddrInet6 0 0 (fromGroups words16) 0)
          pure (text === expected),
      testProperty "pokeIPv6: the C library reads it back" $
        forAll (vectorOf 8 groups) $ \words16 -> ioProperty $ do
          text <- ipv6 words16
          (=== fromGroups words16) <$> readBack text,
      testCase "RFC 5952, section 4: zeros, runs and case" $ do
        ipv6 [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1] >>= (@?= Char8.pack "2001:db8::1")
        ipv6 [0x2001, 0xdb8, 0, 1, 1, 1, 1, 1] >>= (@?= Char8.pack "2001:db8:0:1:1:1:1:1")
        ipv6 [0x2001, 0, 0, 1, 0, 0, 0, 1] >>= (@?= Char8.pack "2001:0:0:1::1")
        ipv6 [0x2001, 0xdb8, 0, 0, 1, 0, 0, 1] >>= (@?= Char8.pack "2001:db8::1:0:0:1")
        ipv6 [0xABCD, 0, 0, 0, 0, 0, 0, 0] >>= (@?= Char8.pack "abcd::"),
      testCase "the shortest and the longest" $ do
        ipv6 (replicate 8 0) >>= (@?= Char8.pack "::")
        longest <- ipv6 (replicate 8 0xffff)
        ByteString.length longest @?= maxIPv6Length
        widest <- written maxIPv4Length (`pokeIPv4` maxBound)
        widest @?= Char8.pack "255.255.255.255",
      testCase "the deprecated block is written in groups" $
        ipv6 [0, 0, 0, 0, 0, 0, 0x102, 0x304] >>= (@?= Char8.pack "::102:304"),
      testCase "IPv4 mapped into IPv6" $
        ipv6 [0, 0, 0, 0, 0, 0xffff, 0xc000, 0x207] >>= (@?= Char8.pack "::ffff:192.0.2.7")
    ]

ipv6 :: [Word16] -> IO ByteString
ipv6 words16 =
  unsafeUseAsCString (ByteString.pack (concatMap bytesOf words16)) $ \source ->
    written maxIPv6Length (`pokeIPv6` castPtr source)
  where
    bytesOf :: Word16 -> [Word8]
    bytesOf word = [fromIntegral (word `div` 256), fromIntegral word]

numericHost :: SockAddr -> IO ByteString
numericHost address =
  getNameInfo [NI_NUMERICHOST] True False address >>= \case
    (Just host, _) -> pure (Char8.pack host)
    (Nothing, _) -> fail ("the C library has no text for " <> show address)

readBack :: ByteString -> IO HostAddress6
readBack text =
  getAddrInfo (Just hints) (Just (Char8.unpack text)) Nothing >>= \case
    AddrInfo {addrAddress = SockAddrInet6 _ _ address _} : _ -> pure address
    other -> fail ("not an IPv6 address: " <> show other)
  where
    hints = defaultHints {addrFlags = [AI_NUMERICHOST], addrFamily = AF_INET6, addrSocketType = Stream}

fromBytes :: [Word8] -> HostAddress
fromBytes = \case
  [a, b, c, d] -> tupleToHostAddress (a, b, c, d)
  other -> error ("not four bytes: " <> show other)

fromGroups :: [Word16] -> HostAddress6
fromGroups = \case
  [a, b, c, d, e, f, g, h] -> tupleToHostAddress6 (a, b, c, d, e, f, g, h)
  other -> error ("not eight groups: " <> show other)

-- | Addresses of @::\/96@ in which the C library writes IPv4.
isCompatible :: [Word16] -> Bool
isCompatible words16 = all (== 0) (take 6 words16) && words16 !! 6 /= 0

octets :: Gen Word8
octets = oneof [arbitrary, elements [0, 1, 9, 10, 99, 100, 199, 200, 255]]

-- | Half of them zero, so that runs of every length and place occur.
groups :: Gen Word16
groups = frequency [(6, pure 0), (2, pure 0xffff), (2, chooseEnum (0, 0x20)), (2, arbitraryBoundedRandom)]
