-- |
-- Module      : CodecTest
-- Description : Laws of the codec
module CodecTest
  ( codecTests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Data.Either (isLeft)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Generators
import Heddle.OpenFlow
import Heddle.OpenFlow.View
import System.Environment (lookupEnv)
import Test.QuickCheck
import Test.QuickCheck.Gen (unGen)
import Test.QuickCheck.Random (mkQCGen, newQCGen)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (testProperty)

codecTests :: TestTree
codecTests =
  testGroup
    "codec"
    [ forVersions "canonical: encode . decode gives the same bytes" $ \v ->
        forAll (validMessage v) $ \m -> case encode v 99 m of
          Left e -> counterexample (show e) False
          Right bytes -> case decode v bytes of
            Left e -> counterexample (show (e, B.unpack bytes)) False
            Right (xid, m') -> conjoin [xid === 99, m' === m, encode v xid m' === Right bytes],
      forVersions "bytes that are certainly no message are refused" $ \v ->
        forAll (B.unpack <$> onlyInvalid v) $ \bytes -> isLeft (decode v (B.pack bytes)),
      forVersions "what decodes after a mutation encodes to something stable" $ \v ->
        forAll (B.unpack <$> mutated v) $ \bytes -> case decode v (B.pack bytes) of
          Left _ -> property True
          Right (xid, m) -> case encode v xid m of
            Left e -> counterexample (show (m, e)) False
            Right written -> counterexample (show m) (decode v written === Right (xid, m)),
      testCase "mutated messages, at the end of a page: no crash, no read past a frame" mutations,
      testCase "lengths within a message that are too short, lead out of it, or wrap are refused" wrappingLengths,
      forVersions "the encoder refuses more than 65,535 bytes" $ \v ->
        forAll (choose (65500, 70000)) $ \n ->
          let bytes = B.replicate n 1
           in case encode v 1 (EchoRequest bytes) of
                Right written -> conjoin [property (n + 8 <= 65535), B.length written === n + 8]
                Left e -> conjoin [property (n + 8 > 65535), e === TooLong (n + 8)],
      testCase "an action list beyond 65,535 bytes is refused" $
        assertBool "refused" (isLeft (encode OF13 1 (PacketOutMessage (PacketOut NoBuffer PortController (replicate 5000 (Output (PortNo 1) 0)) B.empty)))),
      testGroup
        "in place"
        [ forVersions "a packet-in's view is what decode reads" viewOfPacketIn,
          forVersions "pokePacketOut writes what encode writes" packetOutPoked,
          forVersions "pokeRelease writes what encode writes" $ \v -> forAll ((,) <$> ports <*> arbitrary) $ \(from, buffer) -> ioProperty $ do
            out <- writing releaseBound $ \p -> pokeRelease v p 9 buffer from
            pure (Right out === encode v 9 (PacketOutMessage (PacketOut buffer from [] B.empty))),
          forVersions "pokeLayer2Flow writes what encode writes" flowPoked,
          forVersions "pokePacketIn writes what encode writes" packetInPoked,
          forVersions "pokeEchoReply writes what encode writes" $ \v -> forAll (B.pack <$> resize 60 arbitrary) $ \bytes ->
            ioProperty $ case encode v 5 (EchoRequest bytes) of
              Left _ -> pure (property False)
              Right request -> do
                out <- writing 200 $ \p -> unsafeUseAsCStringLen request $ \(from, n) -> n <$ pokeEchoReply (castPtr from) n p
                pure (Right out === encode v 5 (EchoReply bytes))
        ]
    ]

-- An action's, an action list's, a match's and an instruction's.
wrappingLengths :: IO ()
wrappingLengths = do
  isLeft (decode OF10 (packetOut 8 8)) @?= False
  forM_ [0, 4, 7, 9, 16, 0x7FFF, 0x8000, 0xFFF8, 0xFFFF] $ \n -> do
    (n, isLeft (decode OF10 (packetOut 8 n))) @?= (n, True)
    -- Without a list the action's bytes are the packet's.
    (n, isLeft (decode OF10 (packetOut n 8))) @?= (n, n /= 0)
  isLeft (decode OF13 (flowMod 4 8)) @?= False
  forM_ [0, 3, 0x7FFF, 0x8000, 0xFFFC, 0xFFFF] $ \n -> (n, isLeft (decode OF13 (flowMod n 8))) @?= (n, True)
  forM_ [0, 4, 7, 9, 16, 0x7FFF, 0xFFF8, 0xFFFF] $ \n -> (n, isLeft (decode OF13 (flowMod 4 n))) @?= (n, True)
  where
    two :: Int -> [Word8]
    two n = [fromIntegral (n `div` 256), fromIntegral (n `mod` 256)]
    packetOut list action = B.pack ([1, 13, 0, 24, 0, 0, 0, 1] ++ replicate 4 255 ++ two 0xFFF8 ++ two list ++ [0, 0] ++ two action ++ [0, 1, 0, 0])
    -- Instruction 1 goes to a table.
    flowMod match instruction =
      B.pack ([4, 14, 0, 64, 0, 0, 0, 1] ++ replicate 16 0 ++ replicate 8 0 ++ replicate 4 255 ++ replicate 8 255 ++ replicate 4 0 ++ [0, 1] ++ two match ++ replicate 4 0 ++ [0, 1] ++ two instruction ++ [1, 0, 0, 0])

forVersions :: Testable p => String -> (Version -> p) -> TestTree
forVersions name p = testGroup name [testProperty (show v) (p v) | v <- [minBound ..]]

writing :: Int -> (Ptr Word8 -> IO Int) -> IO ByteString
writing bound poke' = allocaBytes bound $ \p -> do
  n <- poke' p
  B.packCStringLen (castPtr p, n)

ports :: Gen PortNo
ports = PortNo <$> oneof [choose (1, 0xfe00), elements [0xfffffff8, 0xfffffffb, 0xfffffffe]]

macs :: Gen Mac
macs = Mac <$> choose (0, 0xffffffffffff)

packets :: Gen ByteString
packets = choose (0, 100) >>= fmap B.pack . vector

viewOfPacketIn :: Version -> Property
viewOfPacketIn v = forAll (suchThat (validMessage v) isPacketIn) $ \m -> ioProperty $ case (m, encode v 3 m) of
  (PacketInMessage expected, Right bytes) ->
    unsafeUseAsCStringLen bytes $ \(p, n) ->
      withPacketIn v (castPtr p) n (pure (counterexample "no view" (fieldValue InPort (packetInMatch expected) === Nothing))) $ \buffer size0 inPort why at size -> do
        packet <- B.packCStringLen (castPtr at, size)
        pure $
          conjoin
            [ buffer === packetInBuffer expected,
              size0 === fromIntegral (packetInTotal expected),
              Just (toInteger (portWord inPort)) === (fst <$> fieldValue InPort (packetInMatch expected)),
              why === packetInReason expected,
              packet === packetInData expected
            ]
  _ -> pure (property False)
  where
    isPacketIn = \case
      -- Other classes of fields and masked ports are not what switches send here.
      PacketInMessage p -> case packetInMatch p of
        Match fields -> and [f /= InPort || mask == Nothing | Oxm f _ mask <- fields]
        MatchRaw _ _ -> False
      _ -> False

packetOutPoked :: Version -> Property
packetOutPoked v = forAll ((,,,) <$> ports <*> ports <*> packets <*> elements [NoBuffer, 17]) $ \(from, to, packet, buffer) -> ioProperty $ do
  out <- writing (packetOutBound (B.length packet)) $ \p -> unsafeUseAsCStringLen packet $ \(at, n) -> pokePacketOut v p 9 buffer from to (castPtr at) n
  pure (Right out === encode v 9 (PacketOutMessage (PacketOut buffer from [Output to 0] (if buffer == NoBuffer then packet else B.empty))))

flowPoked :: Version -> Property
flowPoked v = forAll ((,,,) <$> ports <*> ports <*> macs <*> macs) $ \(from, to, source, destination) ->
  forAll ((,,,) <$> arbitrary <*> arbitrary <*> arbitrary <*> elements [0, 0x1000, 0x1001, 0x1fff]) $ \(idle, hard, priority, vlan) -> ioProperty $ do
    out <- writing (layer2FlowBytes v) $ \p -> pokeLayer2Flow v p 9 77 idle hard priority 5 SendFlowRemoved from vlan source destination to
    let match =
          Match
            [ oxm InPort (toInteger (portWord from)),
              oxm EthDst (toInteger (macWord destination)),
              oxm EthSrc (toInteger (macWord source)),
              oxm VlanVid (toInteger vlan)
            ]
        flow =
          (flowAdd priority match [Output to 0xffff])
            { flowModCookie = 77,
              flowModIdle = idle,
              flowModHard = hard,
              flowModBuffer = 5,
              flowModFlags = SendFlowRemoved
            }
    pure (Right out === encode v 9 (FlowModMessage flow))

packetInPoked :: Version -> Property
packetInPoked v = forAll ((,) <$> ports <*> packets) $ \(from, packet) -> ioProperty $ do
  out <- writing (packetInBound (B.length packet)) $ \p -> unsafeUseAsCStringLen packet $ \(at, n) -> pokePacketIn v p 9 4 from (castPtr at) n
  pure (Right out === encode v 9 (PacketInMessage (PacketIn 4 (fromIntegral (B.length packet)) 0 0 0 (Match [oxm InPort (toInteger (portWord from))]) packet)))

-- Each message ends where a page without permissions begins: a read past it ends the process.
mutations :: IO ()
mutations = do
  nightly <- lookupEnv "HEDDLE_NIGHTLY"
  seed <- lookupEnv "HEDDLE_SEED" >>= maybe (unGenSeed <$> newQCGen) (pure . read)
  let count = if nightly == Just "1" then 1000000 else 100000 :: Int
  memory <- c_mmap nullPtr (2 * page) 3 0x22 (-1) 0
  protected <- c_mprotect (memory `plusPtr` page) (fromIntegral page) 0
  protected @?= 0
  refused <- go memory seed count (0 :: Int)
  assertBool ("seed " ++ show seed ++ ": some are refused, and some are not (" ++ show refused ++ ")") (refused > count `div` 20 && refused < count)
  where
    page = 0x10000
    unGenSeed g = unGen (choose (0, 1000000000 :: Int)) g 0
    go _ _ 0 refused = pure refused
    go memory seed k refused = do
      let v = if even k then OF10 else OF13
          bytes = unGen (mutated v) (mkQCGen (seed + k)) 10
          n = B.length bytes
          at = memory `plusPtr` (page - n) :: Ptr Word8
      unsafeUseAsCStringLen bytes $ \(from, size) -> copyBytes at (castPtr from) size
      there <- unsafePackCStringLen (castPtr at, n)
      forM_ [OF10, OF13] $ \version -> do
        size <- frameLength at n
        if size > 0
          then withPacketIn version at size (pure 0) (\_ _ _ _ q m -> if m > 0 then fromIntegral . B.last <$> unsafePackCStringLen (castPtr q, m) else pure (0 :: Int))
          else pure 0
      answer <- case decode v there of
        Left e -> decodeLeft e `seq` pure True
        Right m -> length (show m) `seq` pure False
      go memory seed (k - 1 :: Int) (if answer then refused + 1 else refused)

-- Unsafe: neither call waits.
foreign import ccall unsafe "mmap" c_mmap :: Ptr () -> Int -> CInt -> CInt -> CInt -> CLong -> IO (Ptr Word8)

-- Unsafe: as above.
foreign import ccall unsafe "mprotect" c_mprotect :: Ptr Word8 -> CSize -> CInt -> IO CInt
