module DecimalTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.Decimal
import Numeric (showHex)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck
import Written (written)

tests :: TestTree
tests =
  testGroup
    "Decimal"
    [ testProperty "pokeDecimal: show" $
        forAll numbers $ \number ->
          ioProperty ((=== Char8.pack (show number)) <$> decimal number),
      testProperty "decimalLength: length" $
        forAll numbers $ \number ->
          decimalLength number === length (show number),
      testProperty "pokeHex: showHex" $
        forAll numbers $ \number -> ioProperty $ do
          let word = fromIntegral number :: Word
          text <- written 16 (`pokeHex` word)
          pure (text === Char8.pack (showHex word "") .&&. hexLength word === Char8.length text),
      testProperty "readDecimal: inverse" $
        forAll (abs <$> numbers `suchThat` (/= minBound)) $ \number -> ioProperty $ do
          text <- decimal number
          (=== number) <$> readText text,
      testProperty "readDecimal: leading zeros are digits" $
        forAll (abs <$> numbers `suchThat` (/= minBound)) $ \number -> forAll (chooseInt (0, 40)) $ \zeros ->
          ioProperty ((=== number) <$> readText (Char8.replicate zeros '0' <> Char8.pack (show number))),
      testProperty "readDecimal: only invalid" $
        forAll notDecimals $ \text ->
          ioProperty (counterexample (show text) . (=== -1) <$> readText text),
      testCase "every pair of digits" $
        forM_ [0 .. 99] $ \number -> do
          text <- written 2 (`pokeDecimal2` number)
          assertEqual (show number) (padded 2 number) text,
      testCase "every four digits" $
        forM_ [0 .. 9999] $ \number -> do
          text <- written 4 (`pokeDecimal4` number)
          assertEqual (show number) (padded 4 number) text,
      testCase "minBound takes the most room" $ do
        text <- decimal minBound
        Char8.length text @?= maxDecimalLength,
      testCase "the examples of the documentation" $ do
        decimalLength (-151) @?= 4
        hexLength 4096 @?= 4
    ]

decimal :: Int -> IO ByteString
decimal number = written (decimalLength number) (`pokeDecimal` number)

readText :: ByteString -> IO Int
readText text = unsafeUseAsCStringLen text $ \(source, len) -> readDecimal (castPtr source) len

padded :: Int -> Int -> ByteString
padded width number = Char8.replicate (width - length (show number)) '0' <> Char8.pack (show number)

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
