module DecimalTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Proxy (Proxy (..))
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Decimal
import Heddle.Bytes.Put (integer, toByteString, write)
import Heddle.Bytes.Write
import Heddle.Testkit.Heap (allocatedBy)
import Heddle.Testkit.Judging (whenOptimised)
import Heddle.Testkit.Written (written, writtenWithin)
import Numeric (showHex)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Decimal"
    [ testProperty "pokeDecimal: show" $
        forAll numbers $ \number ->
          ioProperty ((=== Char8.pack (show number)) <$> decimalText number),
      testProperty "decimalLength: length" $
        forAll numbers $ \number ->
          decimalLength number === length (show number),
      testProperty "pokeHex: showHex" $
        forAll numbers $ \number -> ioProperty $ do
          let word = fromIntegral number :: Word
          text <- writtenWithin 16 (`pokeHex` word)
          pure (text === Char8.pack (showHex word "") .&&. hexLength word === Char8.length text),
      testProperty "readDecimal: inverse" $
        forAll (abs <$> numbers `suchThat` (/= minBound)) $ \number -> ioProperty $ do
          text <- decimalText number
          (=== number) <$> readText text,
      testProperty "readDecimal: leading zeros are digits" $
        forAll (abs <$> numbers `suchThat` (/= minBound)) $ \number -> forAll (chooseInt (0, 40)) $ \zeros ->
          ioProperty ((=== number) <$> readText (Char8.replicate zeros '0' <> Char8.pack (show number))),
      testProperty "readDecimal: only invalid" $
        forAll notDecimals $ \text ->
          ioProperty (counterexample (show text) . (=== -1) <$> readText text),
      testProperty "pokeUnsigned: show" $
        forAll words64 $ \number -> ioProperty $ do
          text <- writtenWithin maxDecimalLength (`pokeUnsigned` number)
          pure (text === Char8.pack (show number) .&&. unsignedLength number === Char8.length text),
      testProperty "pokeDecimalFixed: padded" $
        forAll words64 $ \number -> forAll (chooseInt (1, 20)) $ \width -> ioProperty $ do
          text <- writtenWithin (max 8 width) (\p -> pokeDecimalFixed width p number)
          pure (text === lastOf width (show number)),
      testProperty "pokeHexFixed: padded" $
        forAll words64 $ \number -> forAll (chooseInt (1, 16)) $ \width -> ioProperty $ do
          text <- writtenWithin (max 8 width) (\p -> pokeHexFixed width p number)
          pure (text === lastOf width (showHex number "")),
      testProperty "decimal: show, for every type" $
        conjoin
          [ shows_ (Proxy :: Proxy Int),
            shows_ (Proxy :: Proxy Int8),
            shows_ (Proxy :: Proxy Int16),
            shows_ (Proxy :: Proxy Int32),
            shows_ (Proxy :: Proxy Int64),
            shows_ (Proxy :: Proxy Word),
            shows_ (Proxy :: Proxy Word8),
            shows_ (Proxy :: Proxy Word16),
            shows_ (Proxy :: Proxy Word32),
            shows_ (Proxy :: Proxy Word64)
          ],
      testProperty "integer: show" $
        forAll integers $ \number -> toByteString (integer number) === Char8.pack (show number),
      testCase "integersOfTwoWordsKeepTheirDigits" $
        -- Counting an integer's digits as a word's gave too few, and what wrote backwards from there
        -- ran below its memory.
        forM_ [2 ^ (64 :: Int), 2 ^ (64 :: Int) + 7, 10 ^ (40 :: Int), negate (2 ^ (64 :: Int)), 2 ^ (20000 :: Int)] $ \number ->
          toByteString (write (char7 '<') <> integer number <> write (char7 '>'))
            @?= Char8.pack ("<" <> show (number :: Integer) <> ">"),
      testCase "all numbers of few digits, and around every power of ten" $ do
        forM_ [0 .. 20000] $ \number -> do
          text <- writtenWithin maxDecimalLength (`pokeUnsigned` number)
          assertEqual (show number) (Char8.pack (show number)) text
        forM_ [10 ^ power + offset | power <- [4 .. 19 :: Int], offset <- [-3 .. 3]] $ \number -> do
          text <- writtenWithin maxDecimalLength (`pokeUnsigned` fromInteger number)
          assertEqual (show number) (Char8.pack (show number)) text,
      whenOptimised . testCase "nothing is allocated" $ do
        found <- allocatedBy writingNumbers
        found @?= 0,
      testCase "every pair of digits" $
        forM_ [0 .. 99] $ \number -> do
          text <- written 2 (`pokeDecimal2` number)
          assertEqual (show number) (padded 2 number) text,
      testCase "every four digits" $
        forM_ [0 .. 9999] $ \number -> do
          text <- written 4 (`pokeDecimal4` number)
          assertEqual (show number) (padded 4 number) text,
      testCase "minBound takes the most room" $ do
        text <- decimalText minBound
        Char8.length text @?= maxDecimalLength,
      testCase "the examples of the documentation" $ do
        decimalLength (-151) @?= 4
        hexLength 4096 @?= 4
    ]

decimalText :: Int -> IO ByteString
decimalText number = writtenWithin maxDecimalLength (`pokeDecimal` number)

-- | Write this many numbers into the same memory.
writingNumbers :: Int -> IO ()
writingNumbers n = allocaBytes 64 $ \p ->
  let go i
        | i == n = pure ()
        | otherwise = pokeDecimal p (i * 0x1e3779b97f4a7c15) >> go (i + 1)
   in go 0

readText :: ByteString -> IO Int
readText text = unsafeUseAsCStringLen text $ \(source, len) -> readDecimal (castPtr source) len

padded :: Int -> Int -> ByteString
padded width number = Char8.replicate (width - length (show number)) '0' <> Char8.pack (show number)

-- | The text of a piece, and that its bound holds.
shows_ :: forall a. (Bounded a, Decimal a, Integral a, Show a) => Proxy a -> Property
shows_ _ = forAll (frequency [(1, elements [minBound, maxBound, 0]), (4, arbitraryBoundedIntegral), (4, small)]) $ \(number :: a) ->
  ioProperty $ do
    text <- writtenWithin (writeBound (decimal number)) (pokeWrite (decimal number))
    pure (text === Char8.pack (show number))
  where
    small = fromIntegral <$> numbers

lastOf :: Int -> String -> ByteString
lastOf width digits = Char8.pack (drop (length digits) (replicate width '0' <> digits))

words64 :: Gen Word64
words64 = oneof [fromIntegral <$> numbers, arbitraryBoundedIntegral, unsafeShiftR <$> arbitraryBoundedIntegral <*> chooseInt (0, 63)]

-- | Of up to some thousand digits, and around powers of ten at which numbers are divided.
integers :: Gen Integer
integers =
  oneof
    [ arbitrary,
      toInteger <$> numbers,
      (\sign bits low -> sign * (2 ^ bits + low)) <$> elements [1, -1] <*> chooseInt (60, 9000) <*> arbitrary,
      (\sign power offset -> sign * (10 ^ power + offset)) <$> elements [1, -1] <*> elements [18 :: Int, 19, 20, 36, 37, 54, 72, 90, 144, 288, 576, 577] <*> choose (-2, 2),
      (*) <$> elements [1, -1] <*> choose (0, 10 ^ (700 :: Int))
    ]

-- | Every length, both sides of every power of ten and of two, and the bounds.
numbers :: Gen Int
numbers =
  oneof
    [ arbitrary,
      chooseInt (minBound, maxBound),
      elements [minBound, minBound + 1, maxBound, maxBound - 1],
      around 10 18,
      around 2 62
    ]
  where
    around :: Int -> Int -> Gen Int
    around base most = do
      power <- chooseInt (0, most)
      offset <- chooseInt (-2, 2)
      sign <- elements [1, -1]
      pure (sign * (base ^ power + offset))

-- | Never a number of digits alone that fits.
notDecimals :: Gen ByteString
notDecimals =
  oneof
    [ pure mempty,
      spoiled,
      (Char8.pack . show . (+ toInteger (maxBound :: Int))) . getPositive <$> (arbitrary :: Gen (Positive Integer)),
      do
        zeros <- chooseInt (0, 9)
        digits <- chooseInt (20, 60)
        first <- elements ['1' .. '9']
        rest <- vectorOf (digits - 1) (elements ['0' .. '9'])
        pure (Char8.replicate zeros '0' <> Char8.pack (first : rest))
    ]
  where
    spoiled = do
      before <- listOf (elements ['0' .. '9'])
      wrong <- oneof [elements "+-., _xXeE/:\0\r\n\t\xb2\xff", arbitrary `suchThat` notDigit]
      after <- listOf (elements ['0' .. '9'])
      pure (Char8.pack (before <> [wrong] <> after))
    notDigit char = char < '0' || (char > '9' && char < '\x100')
