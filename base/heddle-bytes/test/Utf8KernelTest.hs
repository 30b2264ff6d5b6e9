-- | The UTF-8 kernels: every level against the plain twin and the grammar's automaton, at every
-- offset in a block, and between pages that must not be touched.
module Utf8KernelTest
  ( tests,
  )
where

import Control.Monad (forM_, unless, when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString
import Data.Primitive.ByteArray
import Data.Word (Word16, Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Bytes.Internal.Foreign.Utf8
import Heddle.Bytes.Utf8.Plain qualified as Plain
import Heddle.Prim.Cpu (Level (..), levelCode, levels)
import Heddle.Testkit.Utf8
import Numeric (showHex)
import System.Environment (lookupEnv)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck
import Utf8Automaton

tests :: TestTree
tests =
  testGroup
    "UTF-8 kernels"
    [ testGroup "equal to the plain twin" (map levelTests levels),
      testCase "all strings of 1 and 2 bytes, at every offset in two blocks" (exhaustive 2 [0 .. 130] 1),
      testCase "strings of 3 bytes at every offset in a block (all of them: HEDDLE_NIGHTLY=1)" $ do
        all_ <- nightly
        exhaustive 3 [0 .. 66] (if all_ then 1 else 509),
      testCase "strings of 4 bytes where blocks meet (all of them: HEDDLE_NIGHTLY=1)" $ do
        all_ <- nightly
        exhaustive 4 (if all_ then [62] else [0, 13 .. 62] ++ [60 .. 64]) (if all_ then 1 else 104729),
      testCase "text that ends, or begins, at a page that must not be touched" guarded
    ]

nightly :: IO Bool
nightly = (== Just "1") <$> lookupEnv "HEDDLE_NIGHTLY"

levelTests :: Level -> TestTree
levelTests level =
  testGroup
    (show level)
    [ testProperty "validLength" . forAll anyText $ \text ->
        ioProperty . at text $ \p n -> (===) <$> validLength level p n <*> Plain.validLength p n,
      testProperty "characterCount, unitCount" . forAll someText $ \text ->
        ioProperty . at text $ \p n -> do
          found <- (,) <$> characterCount level p n <*> unitCount level p n
          wanted <- (,) <$> Plain.characterCount p n <*> Plain.unitCount p n
          pure (found === wanted),
      testProperty "pokeUnits" . forAll someText $ \text ->
        forAll (choose (0, 20)) $ \start -> ioProperty . at text $ \p n -> do
          size <- Plain.unitCount p n
          found <- units start size (pokeUnits level p n)
          wanted <- units start size (Plain.pokeUnits p n)
          pure (found === wanted),
      testProperty "byteCount, pokeBytes" . forAll someText $ \text ->
        forAll (choose (0, 20)) $ \start -> ioProperty . at text $ \p n -> do
          size <- Plain.unitCount p n
          (_, array) <- units start size (Plain.pokeUnits p n)
          count <- byteCount level array start (start + size)
          back <- bytes n (pokeBytes level array start (start + size))
          back' <- bytes n (Plain.pokeBytes array start (start + size))
          pure ((count, back, back') === (n, (n, text), (n, text))),
      testProperty "replacedUnits, replacedBytes" . forAll anyText $ \text ->
        ioProperty . at text $ \p n -> do
          found <- (,) <$> replacedUnits level p n <*> replacedBytes level p n
          wanted <- (,) <$> Plain.replacedUnits p n <*> Plain.replacedBytes p n
          pure (found === wanted),
      testProperty "pokeReplacedUnits" . forAll anyText $ \text ->
        forAll (choose (0, 20)) $ \start -> ioProperty . at text $ \p n -> do
          Plain.Replaced _ size <- Plain.replacedUnits p n
          found <- units start size (pokeReplacedUnits level p n)
          wanted <- units start size (Plain.pokeReplacedUnits p n)
          pure (found === wanted),
      testProperty "pokeReplacedBytes" . forAll anyText $ \text ->
        ioProperty . at text $ \p n -> do
          Plain.Replaced _ size <- Plain.replacedBytes p n
          found <- bytesOf made size (pokeReplacedBytes level p n)
          wanted <- bytesOf made size (Plain.pokeReplacedBytes p n)
          pure (found === wanted),
      testProperty "pokeAscii" . forAll someText $ \text ->
        forAll (choose (0, 20)) $ \start -> ioProperty . at text $ \p n -> do
          size <- Plain.unitCount p n
          (_, array) <- units start size (Plain.pokeUnits p n)
          found <- bytes size (\to _ -> pokeAscii level array start (start + size) to)
          wanted <- bytes size (\to _ -> Plain.pokeAscii array start (start + size) to)
          pure (conjoin [found === wanted, snd found === ByteString.takeWhile (< 0x80) text])
    ]

-- | Write this many units at an offset; returns the array, to check what is around them.
units :: Int -> Int -> (MutableByteArray RealWorld -> Int -> Int -> IO answer) -> IO (answer, ByteArray)
units start size write = do
  array <- newByteArray (2 * (start + size + 40))
  setByteArray array 0 (start + size + 40) (0xabcd :: Word16)
  end <- write array start (start + size)
  (,) end <$> unsafeFreezeByteArray array

bytes :: Int -> (Ptr Word8 -> Int -> IO Int) -> IO (Int, ByteString)
bytes = bytesOf id

made :: Plain.Replaced -> Int
made (Plain.Replaced _ n) = n

bytesOf :: (answer -> Int) -> Int -> (Ptr Word8 -> Int -> IO answer) -> IO (answer, ByteString)
bytesOf count size write = allocaBytes (size + 80) $ \p -> do
  fillBytes p 0xee (size + 80)
  n <- write p size
  text <- ByteString.packCStringLen (castPtr p, count n)
  behind <- ByteString.packCStringLen (castPtr p `plusPtr` size, 80)
  unless (ByteString.all (== 0xee) behind) (fail "wrote beyond its room")
  pure (n, text)

at :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
at text use = ByteString.unsafeUseAsCStringLen text (\(p, n) -> use (castPtr p) n)

-- | Valid text, sliced so that its start is not aligned.
someText :: Gen ByteString
someText = do
  before <- choose (0, 70)
  n <- oneof [choose (0, 20), choose (0, 200), choose (0, 2000)]
  ascii <- oneof [pure 0, choose (0, 200)]
  ByteString.drop before . (<>) (ByteString.replicate (before + ascii) 0x20) <$> validBytes n

anyText :: Gen ByteString
anyText = oneof [someText, documentBytes <$> invalidDocument, ByteString.pack <$> listOf (elements ([0x20, 0x41] ++ [0x7e ..]))]

-- | All strings of this many bytes, or a sample of them, at these offsets of valid text. The kernels stop where the
-- automaton rejects, either in the string or in the text after it.
exhaustive :: Int -> [Int] -> Int -> Assertion
exhaustive width offsets stride = do
  cells <- guardedMemory 1
  forM_ offsets $ \offset -> forM_ surroundings $ \(before, unit) -> do
    let left = offset - offset `rem` ByteString.length unit
        begin = ByteString.replicate (offset - left) 0x20 <> before left
        size = offset + width + 70
    -- Valid text up to the offset, the bytes, and spaces.
    fillBytes cells 0x20 size
    at begin (copyBytes cells)
    let check n = do
          expected <- place n cells offset size
          forM_ levels $ \level -> do
            found <- validLength level cells size
            when (found /= expected) . assertFailure $
              show level <> ": " <> showHex n "" <> " at " <> show offset <> ": " <> show found <> ", not " <> show expected
        loop n
          | n >= most = pure ()
          | otherwise = check n >> loop (n + stride)
    loop (offset `rem` stride)
  where
    most = 256 ^ width :: Int
    surroundings =
      [ ((`ByteString.replicate` 0x20), ByteString.pack [0x20]),
        (\n -> ByteString.concat (replicate (n `quot` 3) kanji), kanji)
      ]
    kanji = ByteString.pack [0xe6, 0xbc, 0xa2]
    place :: Int -> Ptr Word8 -> Int -> Int -> IO Int
    place n cells offset size = poke 0 n >> go offset offset initial
      where
        poke i m
          | i == width = pure ()
          | otherwise = do
            pokeByteOff cells (offset + width - 1 - i) (fromIntegral m :: Word8)
            poke (i + 1) (m `unsafeShiftR` 8)
        go begun i state
          | i == size || (accepting state && i >= offset + width) = pure (if accepting state then size else begun)
          | otherwise = do
            b <- peekByteOff cells i
            case step table state b of
              next
                | next == dead -> pure begun
                | accepting next -> go (i + 1) (i + 1) next
                | otherwise -> go begun (i + 1) next

guardedMemory :: Int -> IO (Ptr Word8)
guardedMemory pages = do
  p <- c_guarded pages
  when (p == nullPtr) (fail "no memory between guard pages")
  pure p

-- | Every kernel, every level, with its input and its output against either page.
guarded :: Assertion
guarded = do
  input <- guardedMemory 1
  target <- guardedMemory 2
  forM_ [0 .. 300] $ \size -> do
    texts <- generate (vectorOf 3 (oneof [validBytes size, ByteString.take size . documentBytes <$> invalidAfter (max 0 (size - 2))]))
    forM_ texts $ \text -> forM_ [True, False] $ \atEnd -> do
      let n = ByteString.length text
          against memory size_ len = if atEnd then memory `plusPtr` (size_ - len) else memory
          p = against input 4096 n
      at text (copyBytes p)
      whole <- Plain.validLength p n
      forM_ levels $ \level -> do
        let code = levelCode level
        validLength level p n >>= (@?= whole)
        wantedUnits@(Plain.Replaced _ room) <- Plain.replacedUnits p n
        wantedBytes@(Plain.Replaced _ room') <- Plain.replacedBytes p n
        replacedUnits level p n >>= (@?= wantedUnits)
        replacedBytes level p n >>= (@?= wantedBytes)
        _ <- c_replace code p n (against target 8192 (2 * room)) 0 room
        pokeReplacedBytes level p n (against target 8192 room') room' >>= (@?= wantedBytes)
        when (whole == n) $ do
          count <- Plain.unitCount p n
          unitCount level p n >>= (@?= count)
          wanted <- Plain.characterCount p n
          characterCount level p n >>= (@?= wanted)
          let to = against target 8192 (2 * count)
          c_to_utf16 code p n to 0 count >>= (@?= count)
          c_bytes code to 0 count >>= (@?= n)
          -- As many as there is room for.
          fillBytes p 0 n
          c_ascii code to 0 count p >>= (@?= ByteString.length (ByteString.takeWhile (< 0x80) text))
          -- Back over the input.
          fillBytes p 0 n
          c_to_utf8 code to 0 count p n >>= (@?= n)
          back <- ByteString.packCStringLen (castPtr p, n)
          back @?= text

-- Unsafe: maps some pages.
foreign import ccall unsafe "guarded_new" c_guarded :: Int -> IO (Ptr Word8)

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_to_utf16"
  c_to_utf16 :: CInt -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_replace_to_utf16"
  c_replace :: CInt -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf16_bytes" c_bytes :: CInt -> Ptr Word8 -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf16_ascii" c_ascii :: CInt -> Ptr Word8 -> Int -> Int -> Ptr Word8 -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf16_to_utf8"
  c_to_utf8 :: CInt -> Ptr Word8 -> Int -> Int -> Ptr Word8 -> Int -> IO Int
