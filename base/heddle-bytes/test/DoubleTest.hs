-- | Doubles against arithmetic on integers, the read of the standard library, and Python.
module DoubleTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Ratio ((%))
import Data.Word (Word64)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import GHC.Float (castDoubleToWord64, castFloatToWord32, castWord32ToFloat, castWord64ToDouble, float2Double)
import Heddle.Bytes.Double
import Heddle.Bytes.Internal.Powers (binaryExponent, exactPower, firstPower, lastPower, powerOfTen)
import Heddle.Bytes.Internal.Word128 (Wide (..), timesHigh, timesWide)
import Heddle.Bytes.Put (toByteString, write)
import Heddle.Bytes.Write (doubleShortest)
import Heddle.Testkit.Guarded (guarded)
import Heddle.Testkit.Heap (allocatedBy)
import Heddle.Testkit.Judging (whenOptimised)
import Heddle.Testkit.Written (writtenWithin)
import System.Process (readProcess)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Double"
    [ testProperty "round trip" $
        forAll doubles $ \x -> ioProperty $ do
          text <- shown x
          back <- reading text
          pure . counterexample (Char8.unpack text) $
            castDoubleToWord64 back === castDoubleToWord64 x
              .&&. castDoubleToWord64 (read (Char8.unpack text)) === castDoubleToWord64 x,
      testProperty "shortest" $
        forAll (abs <$> doubles `suchThat` (/= 0)) $ \x -> ioProperty $ do
          text <- shown x
          pure (shortest (bounds (castDoubleToWord64 x) 52 1075) (toRational x) text),
      testProperty "shortest, of floats" $
        forAll (abs <$> floats `suchThat` (/= 0)) $ \x -> ioProperty $ do
          text <- shownFloat x
          pure (shortest (bounds (fromIntegral (castFloatToWord32 x)) 23 150) (toRational x) text),
      testCase "every power of two, and its neighbours" $
        forM_ ([1 .. 64] <> [bits + near | e <- [1 .. 2046], let bits = e * 2 ^ (52 :: Int), near <- [maxBound, 0, 1]]) $ \bits -> do
          let x = castWord64ToDouble bits
          text <- shown x
          back <- reading text
          assertEqual (Char8.unpack text) (castDoubleToWord64 x) (castDoubleToWord64 back)
          assertBool (Char8.unpack text) (isShortest (bounds bits 52 1075) (toRational x) text),
      testCase "every power of ten" $
        forM_ [-323 .. 308 :: Int] $ \e -> do
          x <- reading (Char8.pack ("1e" <> show e))
          assertEqual (show e) (fromRational (10 ^^ e)) x
          text <- shown x
          back <- reading text
          back @?= x
          assertBool (show text) (valueOf text == 10 ^^ e),
      testCase "the layout" $
        forM_ layouts $ \(x, expected) -> shown x >>= (@?= Char8.pack expected),
      testCase "the layout of floats" $ do
        shownFloat 0.1 >>= (@?= Char8.pack "0.1")
        shownFloat 3.4028235e38 >>= (@?= Char8.pack "3.4028235e38")
        shownFloat 1.0e-45 >>= (@?= Char8.pack "1e-45")
        shownFloat 16777216 >>= (@?= Char8.pack "16777216")
        shownFloat (-0) >>= (@?= Char8.pack "-0.0")
        shownFloat (1 / 0) >>= (@?= Char8.pack "Infinity")
        shownFloat (-1 / 0) >>= (@?= Char8.pack "-Infinity")
        shownFloat (0 / 0) >>= (@?= Char8.pack "NaN"),
      testProperty "nearest" $
        forAll ((,) <$> mantissas <*> chooseInt (-370, 320)) $ \(w, q) ->
          same (decimalToDouble w q) (fromRational (toRational w * 10 ^^ q)),
      testProperty "nearest, halfway between two doubles" $
        forAll halves $ \(w, q) -> same (decimalToDouble w q) (fromRational (toRational w * 10 ^^ q)),
      localOption (QuickCheckTests 1000) . testProperty "exact: any number of digits" $
        forAll longDecimals $ \text -> ioProperty $ do
          found <- reading (Char8.pack text)
          pure (same found (fromRational (valueOf (Char8.pack text)))),
      testCase "exact: next to the middle of two doubles" $
        forM_ middles $ \(text, expected) -> do
          found <- reading (Char8.pack text)
          assertEqual (take 60 text) (castDoubleToWord64 expected) (castDoubleToWord64 found),
      testCase "huge exponents and many digits end at once" $ do
        reading (Char8.pack "1e999999999999999999999") >>= (@?= 1 / 0)
        reading (Char8.pack "-1e999999999999999999999") >>= (@?= -1 / 0)
        reading (Char8.pack "1e-999999999999999999999") >>= (@?= 0)
        reading (Char8.pack "0e999999999999999999999") >>= (@?= 0)
        zero <- reading (Char8.pack "-1e-400")
        castDoubleToWord64 zero @?= 0x8000000000000000
        reading (Char8.pack (replicate 1000000 '9' <> "e-1000000")) >>= (@?= 1)
        reading (Char8.pack ("0." <> replicate 1000000 '0' <> "1e1000001")) >>= (@?= 1)
        reading (Char8.pack ("1" <> replicate 1000000 '0')) >>= (@?= 1 / 0),
      testProperty "nothing behind the text is read" $
        forAll (oneof [Char8.unpack <$> numbersOfJson, longDecimals, notNumbers]) $ \text -> ioProperty $ do
          expected <- castDoubleToWord64 <$> reading (Char8.pack text)
          found <- guarded (Char8.pack text) (fmap castDoubleToWord64 . reading)
          pure (found === (expected, expected)),
      testProperty "only invalid" $
        forAll notNumbers $ \text -> ioProperty (counterexample text . isNaN <$> reading (Char8.pack text)),
      testCase "entries: every power of the table" $
        forM_ [firstPower .. lastPower] $ \q -> do
          let Wide high low = powerOfTen q
              value = toInteger high * 2 ^ (64 :: Int) + toInteger low
              exact = 10 ^^ q / 2 ^^ (binaryExponent q - 127) :: Rational
          assertEqual (show q) (if q >= -27 && q < 0 then ceiling exact else floor exact) value
          assertBool (show q) (high >= 2 ^ (63 :: Int))
          assertBool (show q) ((q >= 0 && q <= 55) == (toRational value == exact))
          -- So that rounding up does not carry.
          assertBool (show q) (low /= maxBound),
      testCase "binaryExponent" $
        forM_ [firstPower .. lastPower] $ \q ->
          assertBool (show q) (2 ^^ binaryExponent q <= (10 ^^ q :: Rational) && (10 ^^ q :: Rational) < 2 ^^ (binaryExponent q + 1)),
      testCase "exact powers" $ forM_ [0 .. 22] $ \q -> toRational (exactPower q) @?= 10 ^ q,
      testProperty "timesWide" $ \a b ->
        let Wide high low = timesWide a b
         in toInteger high * 2 ^ (64 :: Int) + toInteger low === toInteger a * toInteger b .&&. timesHigh a b === high,
      whenOptimised . testCase "nothing is allocated for writing" $ do
        found <- allocatedBy $ \n -> allocaBytes maxDoubleLength $ \p ->
          let go i
                | i == n = pure ()
                | otherwise = pokeDouble p (fromIntegral i * 1.1e-7) >> pokeDouble p (fromIntegral i) >> pokeDouble p (-1.3e200 * fromIntegral i) >> pokeDouble p (1.0e15 * fromIntegral (i + 1000)) >> pokeDouble p (1.0e-200 / fromIntegral (i + 1)) >> go (i + 1)
           in go 0
        found @?= 0,
      testCase "the examples of the documentation" $ do
        decimalToDouble 15 (-1) @?= 1.5
        timesWide maxBound 2 @?= Wide 1 18446744073709551614
        timesHigh maxBound 2 @?= 1,
      localOption (QuickCheckTests 1) . testProperty "as Python has it" $
        forAll ((,) <$> vectorOf 3000 doubles <*> vectorOf 500 longDecimals) $ \(xs, texts) -> ioProperty $ do
          mine <- mapM shown xs
          values <- mapM (reading . Char8.pack) texts
          let -- What was written must be as short as what Python writes, and read there as the same.
              lines_ =
                [Char8.unpack m <> " " <> show (castDoubleToWord64 x) | (m, x) <- zip mine xs]
                  <> [t <> " " <> show (castDoubleToWord64 v) | (t, v) <- zip texts values]
          answer <- readProcess "python3" ["-c", python] (unlines lines_)
          pure (answer === "")
    ]

-- | Prints the lines whose number is not the double of these bits, or has more digits than repr.
python :: String
python =
  unlines
    [ "import struct, sys",
      "def digits(t):",
      "    return t.lstrip('-').split('e')[0].replace('.', '').strip('0')",
      "for i, line in enumerate(sys.stdin):",
      "    text, bits = line.split()",
      "    x = float(text)",
      "    if struct.unpack('<Q', struct.pack('<d', x))[0] != int(bits):",
      "        print('value', line)",
      "    if i < 3000 and digits(text) != digits(repr(x)):",
      "        print('digits', line, repr(x))"
    ]

layouts :: [(Double, String)]
layouts =
  [ (0, "0"),
    (-0, "-0.0"),
    (1, "1"),
    (-1, "-1"),
    (100, "100"),
    (1.5, "1.5"),
    (0.1, "0.1"),
    (123.456, "123.456"),
    (-0.000001, "-0.000001"),
    (1.5e-6, "0.0000015"),
    (1.0e-7, "1e-7"),
    (1.5e-7, "1.5e-7"),
    (123456789012345680000, "123456789012345680000"),
    (1.0e20, "100000000000000000000"),
    (1.0e21, "1e21"),
    (1.5e300, "1.5e300"),
    (5.0e-324, "5e-324"),
    (2.2250738585072011e-308, "2.225073858507201e-308"),
    (2.2250738585072014e-308, "2.2250738585072014e-308"),
    (-1.7976931348623157e308, "-1.7976931348623157e308"),
    (-1.2345678901234567e-6, "-0.0000012345678901234567"),
    (9007199254740993, "9007199254740992"),
    (0.3, "0.3"),
    (0.1 + 0.2, "0.30000000000000004"),
    (1 / 0, "Infinity"),
    (-1 / 0, "-Infinity"),
    (0 / 0, "NaN")
  ]

-- | Next to the middle of two doubles, and what they are read as.
middles :: [(String, Double)]
middles =
  [ ("9007199254740993", 9007199254740992),
    ("9007199254740993.0", 9007199254740992),
    ("9007199254740993." <> replicate 900 '0' <> "1", 9007199254740994),
    ("9007199254740992." <> replicate 900 '9', 9007199254740992),
    ("9007199254740995", 9007199254740996),
    ("1.7976931348623158e308", 1.7976931348623157e308),
    ("1.7976931348623159e308", 1 / 0),
    (largest, 1 / 0),
    (init largest <> "1", 1.7976931348623157e308),
    ("2.2250738585072011e-308", castWord64ToDouble 0xfffffffffffff),
    ("2.2250738585072012e-308", castWord64ToDouble 0x10000000000000),
    ("4.9406564584124654e-324", castWord64ToDouble 1),
    ("2.4703282292062327e-324", 0),
    ("2.4703282292062328e-324", castWord64ToDouble 1),
    (decimals (1 % (2 ^ (1075 :: Int))) 1075, 0),
    (decimals (1 % (2 ^ (1075 :: Int))) 1075 <> "1", castWord64ToDouble 1),
    (decimals (3 % (2 ^ (1075 :: Int))) 1075, castWord64ToDouble 2)
  ]
  where
    -- Halfway between the largest double and what would be the next.
    largest = show ((2 ^ (54 :: Int) - 1) * 2 ^ (970 :: Int) :: Integer)

-- | A rational's first digits, without an exponent.
decimals :: Rational -> Int -> String
decimals r n = case properFraction r of
  (whole, fraction) -> show (whole :: Integer) <> "." <> drop 1 (show (10 ^ n + floor (fraction * 10 ^ n) :: Integer))

-- | Below and above the number of these bits, what still reads as it; and do the ends?
bounds :: Word64 -> Int -> Int -> (Rational, Rational, Bool)
bounds bits width bias = (half (middleOf (below + value)), half (middleOf (value + above)), even bits)
  where
    half = (/ 2)
    middleOf = id
    value = at bits
    above = at (bits + 1)
    below = at (bits - 1)
    at b
      | biased == 0 = toRational fraction * 2 ^^ (1 - bias)
      | otherwise = toRational (fraction + 2 ^ width) * 2 ^^ (fromIntegral biased - bias)
      where
        fraction = b `mod` (2 ^ width)
        biased = b `div` (2 ^ width)

shortest :: (Rational, Rational, Bool) -> Rational -> ByteString -> Property
shortest range x text = counterexample (Char8.unpack text) (isShortest range x text)

-- | Does it lie within the bounds, does nothing with fewer digits, and nothing with as many nearer to
-- the number?
isShortest :: (Rational, Rational, Bool) -> Rational -> ByteString -> Bool
isShortest (low, high, closed) x text =
  inside value && not (any inside fewer) && all (\other -> not (inside other) || abs (other - x) >= abs (value - x)) neighbours
  where
    value = valueOf text
    inside r = if closed then r >= low && r <= high else r > low && r < high
    -- The value is a whole number of these.
    (digits, unit) = significantDigits text
    neighbours = [value - unit, value + unit]
    -- With one digit less: the multiples of ten units around.
    fewer
      | digits < 10 = []
      | otherwise = [10 * unit * fromInteger (digits `div` 10), 10 * unit * fromInteger (digits `div` 10 + 1)]

-- | Without zeros at the end, and the power of ten that goes with them.
significantDigits :: ByteString -> (Integer, Rational)
significantDigits text = go (numeratorOf digits) (10 ^^ e)
  where
    (digits, e) = parts text
    numeratorOf = read :: String -> Integer
    go n unit
      | n /= 0 && n `mod` 10 == 0 = go (n `div` 10) (10 * unit)
      | otherwise = (n, unit)

valueOf :: ByteString -> Rational
valueOf text
  | Char8.isPrefixOf (Char8.pack "-") text = negate (valueOf (Char8.drop 1 text))
  | otherwise = case parts text of (digits, e) -> toRational (read digits :: Integer) * 10 ^^ e

-- | All digits without the point, and the exponent of ten.
parts :: ByteString -> (String, Int)
parts text = (filter (/= '.') mantissa, given - length (drop 1 (dropWhile (/= '.') mantissa)))
  where
    (mantissa, rest) = break (`elem` "eE") (Char8.unpack text)
    given = case drop 1 rest of
      "" -> 0
      '+' : e -> read e
      e -> read e

same :: Double -> Double -> Property
same found expected = castDoubleToWord64 found === castDoubleToWord64 expected

shown :: Double -> IO ByteString
shown x = writtenWithin maxDoubleLength (`pokeDouble` x)

shownFloat :: Float -> IO ByteString
shownFloat x = writtenWithin maxFloatLength (`pokeFloat` x)

reading :: ByteString -> IO Double
reading text = unsafeUseAsCStringLen text $ \(p, n) -> readDouble (castPtr p) n

finite :: Double -> Bool
finite x = not (isNaN x || isInfinite x)

doubles :: Gen Double
doubles = bothSigns (oneof kinds) `suchThat` finite
  where
    kinds =
      [ castWord64ToDouble <$> arbitraryBoundedRandom,
        arbitrary,
        fromIntegral <$> (arbitraryBoundedRandom :: Gen Int),
        fromIntegral <$> chooseInt (0, 100000),
        (\k near -> castWord64ToDouble (castDoubleToWord64 (2 ^^ k) + near)) <$> chooseInt (-1022, 1023) <*> chooseEnum (0, 2),
        (\k m -> fromRational (toRational m * 10 ^^ k)) <$> chooseInt (-320, 300) <*> chooseInt (1, 99999),
        (\m k -> fromIntegral m / 10 ^ k) <$> chooseInt (0, 10000000) <*> chooseInt (0, 8),
        castWord64ToDouble <$> choose (1, 0xfffffffffffff),
        (\m -> 9007199254740992 + 2 * fromIntegral m) <$> chooseInt (0, 1000000000),
        pure 0,
        float2Double <$> arbitrary
      ]

bothSigns :: Gen Double -> Gen Double
bothSigns gen = ($) <$> elements [id, negate] <*> gen

floats :: Gen Float
floats =
  oneof [castWord32ToFloat <$> arbitraryBoundedRandom, arbitrary, fromIntegral <$> chooseInt (0, 100000000), castWord32ToFloat <$> choose (1, 0x7fffff)]
    `suchThat` (\x -> not (isNaN x || isInfinite x))

-- | Of all lengths.
mantissas :: Gen Word64
mantissas = oneof [arbitraryBoundedRandom, (\w k -> w `div` 2 ^ k) <$> arbitraryBoundedRandom <*> chooseInt (0, 63), elements [0, 1, maxBound, 2 ^ (53 :: Int), 2 ^ (53 :: Int) + 1, 10 ^ (19 :: Int)]]

-- | Numbers with 54 bits: each lies halfway between two doubles.
halves :: Gen (Word64, Int)
halves = do
  odd_ <- (\w -> 2 ^ (53 :: Int) + 2 * (w `mod` 2 ^ (52 :: Int)) + 1) <$> arbitraryBoundedRandom
  q <- chooseInt (-4, 4)
  shift <- chooseInt (0, 10)
  let value = toRational (odd_ :: Word64) * 2 ^ shift * 10 ^^ negate q
  pure (if value == fromInteger (truncate value) && value < 2 ^ (64 :: Int) then (truncate value, q) else (odd_, 0))

-- | Many digits, often those of a number halfway between two doubles.
longDecimals :: Gen String
longDecimals =
  oneof
    [ do
        whole <- digitsOf 1 40
        fraction <- digitsOf 1 900
        e <- chooseInt (-340, 320)
        pure (noZeros whole <> "." <> fraction <> "e" <> show e),
      do
        x <- doubles
        let bits = castDoubleToWord64 (abs x)
            next = castWord64ToDouble (bits + 1)
            middle = (toRational (abs x) + toRational (if finite next then next else abs x)) / 2
        if middle < 1.0e-60 || middle > 1.0e60
          then noZeros <$> digitsOf 20 400
          else do
            more <- elements ["", "0", "1", replicate 50 '0' <> "1"]
            pure (decimals middle 260 <> more),
      noZeros <$> digitsOf 20 1200
    ]
  where
    digitsOf least most = do
      count <- chooseInt (least, most)
      vectorOf count (elements ['0' .. '9'])
    noZeros digits = case dropWhile (== '0') digits of
      "" -> "0"
      rest -> rest

numbersOfJson :: Gen ByteString
numbersOfJson = toByteString . write . doubleShortest <$> doubles

-- | Never a number of JSON.
notNumbers :: Gen String
notNumbers =
  oneof
    [ elements
        ["", "-", "+1", "01", "-01", "00", ".5", "1.", "-.5", "1.e5", "1e", "1e+", "1E-", "e5", "1e5.", "1e5e5", "--1", "1-", "0x10", "NaN", "Infinity", "-Infinity", "1_000", "1,5", " 1", "1 ", "1\0", "\65297"],
      do
        good <- show <$> (arbitrary :: Gen Int)
        place <- chooseInt (0, length good)
        wrong <- elements "x +,/:\0g_"
        pure (take place good <> [wrong] <> drop place good),
      do
        zeros <- chooseInt (1, 30)
        digits <- show <$> chooseInt (0, 99999)
        pure (replicate zeros '0' <> digits)
    ]
