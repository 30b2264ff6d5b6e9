{-# LANGUAGE OverloadedStrings #-}

-- | Heads, masks, closes and compression against independent ways to do the same.
module CodecTest (tests) where

import Control.Monad (forM_)
import Data.Bits (shiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as B (create)
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Char (intToDigit)
import Data.Maybe (catMaybes, fromMaybe)
import Data.Word (Word32, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Prim.Cpu (levels)
import Heddle.WebSocket
import Heddle.WebSocket.Codec
import Numeric (readHex)
import System.Process (readProcess)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck hiding ((.&.))

tests :: TestTree
tests =
  testGroup
    "codec"
    [ testGroup "heads" heads,
      testGroup "masks" masks,
      testGroup "closes" closes,
      testGroup "deflate" deflates,
      testCase "the key of RFC 6455" $ acceptFor "dGhlIHNhbXBsZSBub25jZQ==" @?= "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    ]

readAll :: Expecting -> ByteString -> IO FrameHead
readAll expecting bytes = B.unsafeUseAsCStringLen bytes $ \(p, n) -> readHead expecting (castPtr p) n

written :: Int -> Int -> Maybe Word32 -> IO ByteString
written first size key = allocaBytes headRoom $ \p -> pokeHead p first size key >>= \n -> B.packCStringLen (castPtr p, n)

sizes :: Gen Int
sizes = oneof [choose (0, 130), choose (65500, 65600), abs <$> chooseAny, elements [0, 125, 126, 65535, 65536, maxBound]]

-- What may come, and a first byte that is valid then.
valid :: Gen (Expecting, Int)
valid = do
  expecting <- Expecting <$> arbitrary <*> arbitrary <*> arbitrary
  final <- elements [0, 0x80]
  first <-
    oneof $
      elements [0x88, 0x89, 0x8a] :
      ( if expectMore expecting
          then [pure final]
          else ((final .|.) <$> elements [1, 2]) : [(final .|.) <$> elements [0x41, 0x42] | expectDeflate expecting]
      )
  pure (expecting, first)

heads :: [TestTree]
heads =
  [ testProperty "what is written is read, when it is complete and not before" $
      forAll valid $ \(expecting, first) -> forAll (if opcodeOf first >= 8 then choose (0, 125) else sizes) $ \size (key :: Word32) ->
        ioProperty $ do
          bytes <- written first size (if expectMask expecting then Just key else Nothing)
          whole <- readAll expecting bytes
          parts <- mapM (\n -> readAll expecting (B.take n bytes)) [0 .. B.length bytes - 1]
          pure (whole === FrameHead first (B.length bytes) size (if expectMask expecting then key else 0) .&&. parts === map (const HeadCutOff) parts),
    testProperty "what is invalid is refused by its second byte, or by the bytes of its length" $
      forAll invalid $ \(expecting, bytes, violation, enough) -> ioProperty $ do
        results <- mapM (\n -> readAll expecting (B.take n bytes)) [enough .. B.length bytes]
        pure (counterexample (show (B.unpack bytes)) (results === map (const (HeadInvalid violation)) results))
  ]

-- Expecting, a head that is wrong in one way, in which, and after how many bytes that is known.
invalid :: Gen (Expecting, ByteString, Violation, Int)
invalid = do
  (expecting, first) <- valid
  let maskBit = if expectMask expecting then 0x80 else 0 :: Int
      further = B.replicate 14 1
      of' first' second = B.pack [fromIntegral (first' :: Int), fromIntegral (second :: Int)] <> further
      small = maskBit .|. 5
  oneof
    [ (\bits -> (expecting, of' (first .|. bits) small, ReservedBit, 1)) <$> elements [0x10, 0x20, 0x30],
      pure (expecting {expectDeflate = False}, of' ((first .&. 0xbf) .|. 0x40) small, ReservedBit, 1),
      pure (expecting {expectMore = True, expectDeflate = True}, of' 0xc0 small, ReservedBit, 1),
      (\op -> (expecting, of' (0xc0 .|. op) small, ReservedBit, 1)) <$> elements [8, 9, 10],
      (\op final -> (expecting, of' (final .|. op) small, UnknownOpcode op, 1)) <$> elements [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] <*> elements [0, 0x80],
      (\op -> (expecting, of' op small, FragmentedControl, 1)) <$> elements [8, 9, 10],
      (\op len -> (expecting, of' (0x80 .|. op) (maskBit .|. len), LongControl, 2)) <$> elements [8, 9, 10] <*> elements [126, 127],
      pure (expecting {expectMask = not (expectMask expecting)}, of' first small, if expectMask expecting then Masked else Unmasked, 2),
      (\op -> (expecting {expectMore = True}, of' (op .|. 0x80) small, MessageWithinMessage, 1)) <$> elements [1, 2],
      pure (expecting {expectMore = False}, of' 0x80 small, NothingToContinue, 1),
      (\n -> (data' expecting, B.pack [0x82, fromIntegral (maskBit .|. 126), 0, n] <> further, WastefulLength, 4)) <$> choose (0, 125),
      (\n -> (data' expecting, B.pack ([0x82, fromIntegral (maskBit .|. 127)] ++ [fromIntegral ((n :: Int) `shiftR` (8 * i)) | i <- reverse [0 .. 7]]) <> further, WastefulLength, 10)) <$> choose (0, 65535),
      (\b -> (data' expecting, B.pack [0x82, fromIntegral (maskBit .|. 127), b .|. 0x80] <> further, ImpossibleLength, 3)) <$> arbitrary
    ]
  where
    data' expecting = expecting {expectMore = False}

masks :: [TestTree]
masks =
  [ testProperty "each level is as exclusive or, byte by byte, also in place, and touches nothing else" $
      \(key :: Word32) -> forAll (oneof [choose (0, 200), choose (0, 5000), elements [32767, 32768, 32769, 70000]]) $ \n -> forAll (choose (0, 70)) $ \offset ->
        ioProperty $ do
          let bytes = B.pack (take n (cycle [1 .. 251]))
              expected = B.pack (zipWith (\i b -> b `xor` fromIntegral (key `shiftR` (8 * (i .&. 3)))) [0 :: Int ..] (B.unpack bytes))
              room = offset + n + 70
              frameOf inner = B.replicate offset 7 <> inner <> B.replicate 70 7
          results <- mapM (\level -> (,) <$> apart level key bytes offset room <*> inPlace level key bytes offset room) levels
          pure (conjoin [counterexample (show (offset, n)) (a === frameOf expected .&&. b === frameOf expected) | (a, b) <- results]),
    testProperty "a rotated key goes on where it stopped" $ \(key :: Word32) (Small n) ->
      rotateKey key (abs n) === foldr (const (`rotateKey` 1)) key [1 .. abs n]
  ]
  where
    apart level key bytes offset room =
      B.create room $ \to -> B.unsafeUseAsCStringLen (B.replicate room 7) $ \(blank, _) -> do
        copyBytes to (castPtr blank) room
        B.unsafeUseAsCStringLen bytes $ \(from, n) -> maskBytesAt level (to `plusPtr` offset) (castPtr from) n key
    inPlace level key bytes offset room =
      B.create room $ \to -> do
        B.unsafeUseAsCStringLen (B.concat [B.replicate offset 7, bytes, B.replicate 70 7]) $ \(from, n) -> copyBytes to (castPtr from) n
        maskBytesAt level (to `plusPtr` offset) (to `plusPtr` offset) (B.length bytes) key

closes :: [TestTree]
closes =
  [ testCase "codes: only those that are assigned, or left to applications" $
      [n | n <- [0 .. 65535], Right _ <- [closePayload (coded n "")]] @?= [1000 .. 1003] ++ [1007 .. 1014] ++ [3000 .. 4999],
    testProperty "what is written is read" $
      forAll (choose (3000, 4999)) $ \n -> forAll (take 30 <$> listOf (elements "aé€\120120")) $ \text ->
        let why = Utf8.toByteString (either (error . show) id (Utf8.validate (encoded text)))
         in closePayload (closeBytes (CloseCode n) (utf8 why)) === Right (CloseCode n, utf8 why),
    testCase "none" $ closePayload "" @?= Right (NoCode, mempty),
    testCase "half a code" $ closePayload "\3" @?= Left HalfCode,
    testCase "a reason that is not UTF-8" $ closePayload (coded 1000 "\xce\xba\xff") @?= Left InvalidText,
    testCase "a reason that is cut off" $ closePayload (coded 1000 "\xce") @?= Left InvalidText
  ]
  where
    utf8 = either (error . show) id . Utf8.validate
    encoded :: String -> ByteString
    encoded = Utf8.toByteString . Utf8.fromText . foldMap (\c -> fromMaybe mempty (lookup c table))
    table = [('a', "a"), ('é', "é"), ('€', "€"), ('\120120', "\120120")]

coded :: Int -> ByteString -> ByteString
coded n why = B.pack [fromIntegral (n `shiftR` 8), fromIntegral n] <> why

-- Compression ------------------------------------------------------------------

-- Text that compresses, bytes that do not, and edges of the steps.
contents :: Gen ByteString
contents =
  oneof
    [ B.pack <$> resize 300 (listOf arbitrary),
      (\n w -> B.take n (B.concat (replicate 40000 (B.pack w)))) <$> elements [0, 1, 511, 16383, 16384, 16385, 32768, 65536, 100000] <*> vectorOf 7 (choose (97, 120)),
      noise <$> choose (1, 1000) <*> choose (0, 60000)
    ]

noise :: Int -> Int -> ByteString
noise seed n = fst (B.unfoldrN n (\x -> let y = (x * 1103515245 + 12345) .&. 0x7fffffff in Just (fromIntegral (y `shiftR` 16), y)) seed)

deflates :: [TestTree]
deflates =
  [ testProperty "what is compressed is decompressed, at every level and with every window" $
      forAll contents $ \message -> forAll (choose (1, 9)) $ \level -> forAll (choose (9, 15)) $ \bits -> ioProperty $ do
        packed <- deflateMessage (Deflating level bits 0) message
        back <- traverse (inflateMessage (B.length message)) packed
        pure $ case packed of
          Nothing -> property True
          Just p -> counterexample (show (B.length p)) (B.length p < B.length message .&&. back === Just (Just message)),
    testProperty "a message longer than the limit is refused" $
      forAll contents $ \message -> ioProperty $ do
        packed <- deflateMessage (Deflating 6 15 0) message
        case packed of
          Nothing -> pure (property True)
          Just p -> (=== Nothing) <$> inflateMessage (B.length message - 1) p,
    -- Deflate has no checksum: where a cut happens to end a block, what is there is a message. The four
    -- bytes that are appended can stand for 32 more.
    testProperty "a message that is cut off is refused, or is the beginning of what was sent" $
      forAll contents $ \message -> forAll (choose (1, 50)) $ \lost -> ioProperty $ do
        packed <- deflateMessage (Deflating 6 15 0) message
        case packed of
          Just p | B.length p > lost -> maybe True (\begun -> B.take (B.length begun - 32) begun `B.isPrefixOf` message) <$> inflateMessage maxBound' (B.take (B.length p - lost) p)
          _ -> pure True,
    testCase "the examples of RFC 7692" $ do
      forM_ [[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00], [0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00], [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00], [0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00]] $ \bytes ->
        inflateMessage 5 (B.pack bytes) >>= (@?= Just "Hello")
      inflateMessage 0 "\0" >>= (@?= Just ""),
    testCase "what is not compressed" $
      forM_ ["", "\xff\xff", "\7", "Hello", "\xf2\x48\xcd\xc9\xc9\x07\x01"] $ \bytes ->
        inflateMessage 1000 bytes >>= (@?= Nothing),
    testCase "Python's zlib reads what we write, and we read what it writes" $ do
      let messages = [B.replicate 1000 97, C.pack (concatMap show [1 .. 3000 :: Int]), noise 5 2000 <> B.replicate 2000 3, B.pack [0 .. 255] <> B.replicate 70000 9]
      packed <- mapM (deflateMessage (Deflating 6 15 0)) messages
      let ours = catMaybes packed
      length ours @?= length messages
      answers <- python (unlines (map hex ours ++ ["-"] ++ map hex messages))
      let (read', written') = splitAt (length messages) answers
      read' @?= messages
      back <- mapM (inflateMessage 1000000) written'
      back @?= map Just messages,
    testCase "streams are kept for the next message, and no more of them" $ do
      before <- flateCount
      forM_ [1 .. 50 :: Int] $ \_ -> deflateMessage (Deflating 1 15 0) (B.replicate 1000 97) >>= traverse (inflateMessage 1000)
      later <- flateCount
      assertBool (show (before, later)) (later <= before + 4)
  ]
  where
    maxBound' = 10000000

hex :: ByteString -> String
hex = concatMap (\b -> [intToDigit (fromIntegral b `shiftR` 4), intToDigit (fromIntegral b .&. 15)]) . B.unpack

unhex :: String -> ByteString
unhex = B.pack . go
  where
    go (a : b : rest) = (fst (head (readHex [a, b])) :: Word8) : go rest
    go _ = []

-- Decompress lines up to a dash, then compress lines. With PYTHONUNBUFFERED set, which -E ignores, Python loses what is left of a
-- write to a full pipe when a signal or a stop interrupts it.
python :: String -> IO [ByteString]
python input = map unhex . lines <$> readProcess "python3" ["-E", "-c", program] input
  where
    program =
      unlines
        [ "import sys, zlib",
          "packing = False",
          "for line in sys.stdin:",
          "    line = line.strip()",
          "    if line == '-':",
          "        packing = True",
          "        continue",
          "    data = bytes.fromhex(line)",
          "    if packing:",
          "        z = zlib.compressobj(9, zlib.DEFLATED, -15)",
          "        out = z.compress(data) + z.flush(zlib.Z_SYNC_FLUSH)",
          "        assert out[-4:] == b'\\0\\0\\xff\\xff'",
          "        print(out[:-4].hex())",
          "    else:",
          "        z = zlib.decompressobj(-15)",
          "        print((z.decompress(data + b'\\0\\0\\xff\\xff') + z.flush()).hex())"
        ]
