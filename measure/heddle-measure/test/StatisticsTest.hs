-- | Statistics against the package @statistics@ and published numbers; the promises of intervals on synthetic data.
module StatisticsTest (tests) where

import Control.Monad (forM_)
import Data.Bits (shiftR, xor)
import Data.List (foldl', isInfixOf)
import Data.Vector.Unboxed qualified as Vector
import Data.Word (Word64)
import Foreign.Storable (pokeElemOff)
import Heddle.Measure.Samples (Field (..), column, newSamples, perIteration, record, sampleCount)
import Heddle.Measure.Statistics
import Heddle.Testkit.Heap (liveBytes)
import Numeric (showFFloat)
import Statistics.Autocorrelation qualified as Peer
import Statistics.Distribution qualified as Distribution (quantile)
import Statistics.Distribution.StudentT qualified as Distribution (studentT)
import Statistics.Quantile qualified as Peer (quantile, s)
import Statistics.Sample qualified as Peer (fastVarianceUnbiased, mean)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, testCaseInfo, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Statistics"
    [ againstStatistics,
      published,
      promises,
      growths,
      testCase "samples are outside the heap" samplesOutside,
      testCase "a row that fails is not there" $ do
        table <- newSamples 1
        forM_ [1 .. 40 :: Int] $ \i -> record table (\row -> mapM_ (\f -> pokeElemOff row (fromEnum f) (fromIntegral (i * (1 + fromEnum f)))) [minBound .. maxBound :: Field])
        n <- sampleCount table
        n @?= 40
        walls <- column table Wall
        sampleToList walls @?= [2 * fromIntegral i | i <- [1 .. 40 :: Int]]
        each <- perIteration table Cpu
        fmap sampleToList each @?= Just (replicate 40 3)
    ]

againstStatistics :: TestTree
againstStatistics =
  testGroup
    "like the package statistics"
    [ testProperty "mean" $ \(Series xs) -> close 1e-9 (Peer.mean (Vector.fromList xs)) (mean (sampleFromList xs)),
      testProperty "variance" $ \(Series xs) -> close 1e-6 (Peer.fastVarianceUnbiased (Vector.fromList xs)) (variance (sampleFromList xs)),
      testProperty "quantiles (type 7)" $ \(Series xs) -> forAll (choose (0, 20)) $ \k ->
        close 1e-9 (Peer.quantile Peer.s k 20 (Vector.fromList xs)) (quantile (fromIntegral k / 20) (sampleFromList xs)),
      testProperty "autocorrelations" $ \(Series xs) -> forAll (choose (0, length xs - 2)) $ \lag ->
        let (theirs, _, _) = Peer.autocorrelation (Vector.fromList xs) in close 1e-6 (theirs Vector.! lag) (autocorrelation lag (sampleFromList xs)),
      testCase "Student's quantile" $
        forM_ [2, 2.5, 3, 5, 9, 30, 100, 1000] $ \v ->
          let theirs = Distribution.quantile (Distribution.studentT v) 0.975 in assertBool (show (v, theirs, studentQuantile v)) (abs (studentQuantile v - theirs) <= 0.01 * theirs)
    ]
  where
    close allowed theirs ours = counterexample (show (theirs, ours)) (abs (theirs - ours) <= allowed * (1 + abs theirs))

-- | At least 4 values that are not all equal.
newtype Series = Series [Double]
  deriving stock (Show)

instance Arbitrary Series where
  arbitrary = Series <$> (choose (4, 60) >>= \n -> vectorOf n (choose (-100, 100))) `suchThat` (\xs -> minimum xs < maximum xs)

published :: TestTree
published =
  testGroup
    "published examples"
    [ testCase "autocorrelations of R's lh: 0.576, 0.182, -0.145" $
        map (three . (`autocorrelation` lh)) [1, 2, 3] @?= ["0.576", "0.182", "-0.145"],
      testCase "the interquartile mean of Wikipedia: 6.5" $ midmean (sampleFromList [5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6]) @?= 6.5,
      testCase "Durbin-Watson by hand" $ do
        durbinWatson (sampleFromList (take 10 (cycle [1, -1]))) @?= 3.6
        durbinWatson (sampleFromList [1 .. 5]) @?= 0.4
        durbinWatson (sampleFromList [7, 7, 7]) @?= 2,
      testCase "outliers by hand" $ do
        -- Quartiles 25 and 75: mild beyond -50 and 150, severe beyond -125 and 225.
        let with more = tukeyOutliers (sampleFromList ([0 .. 100] ++ more))
        with [] @?= Outliers 0 0 0 0
        outlierCount (with [170, -70, 1000, -1000]) @?= 4
        with [170, -70, 1000, -1000] @?= Outliers 1 1 1 1,
      testCase "empty and single samples" $ do
        let (none, one) = (sampleFromList [], sampleFromList [3])
        map mean [none, one] @?= [0, 3]
        map median [none, one] @?= [0, 3]
        map effectiveSampleSize [none, one] @?= [0, 1]
        midmeanInterval (Seed 1) one @?= Interval 3 3 3
        density 10 one @?= []
    ]
  where
    three x = showFFloat (Just 3) x ""
    lh = sampleFromList [2.4, 2.4, 2.4, 2.2, 2.1, 1.5, 2.3, 2.3, 2.5, 2.0, 1.9, 1.7, 2.2, 1.8, 3.2, 3.2, 2.7, 2.2, 2.2, 1.9, 1.9, 1.8, 2.7, 3.0, 2.3, 2.0, 2.0, 2.9, 2.9, 2.7, 2.7, 2.3, 2.6, 2.4, 1.8, 1.7, 1.5, 1.4, 2.1, 3.3, 3.5, 3.5, 3.1, 2.6, 2.1, 3.4, 3.0, 2.9]

promises :: TestTree
promises =
  testGroup
    "promises on synthetic data"
    [ testGroup
        "a 95 % interval covers the true value"
        [ testCaseInfo ("correlation " ++ show rho ++ ", " ++ show n ++ " values, seed " ++ show seed) $ do
            let repetitions = 1000
                covered = length (filter id [l <= 100 && 100 <= u | i <- [1 .. repetitions], let Interval _ l u = midmeanInterval (Seed i) (autoregressive rho n (seed + i))])
                share = fromIntegral covered / fromIntegral repetitions :: Double
            -- Of fewer than 20 values too few are between the quartiles to know the spread well.
            assertBool (show share) (share >= (if n < 20 then 0.91 else 0.93) && share <= 0.97)
            pure (showFFloat (Just 1) (100 * share) " %")
          | (rho, n, seed) <- [(0, 5, 10000000), (0, 10, 11000000), (0, 20, 1000000), (0, 100, 2000000), (0.3, 100, 3000000), (0.6, 100, 4000000), (0.6, 200, 5000000), (0.8, 200, 6000000)]
        ],
      testCaseInfo "the same against the same on a drifting machine, seed 7000000: at most 66 alarms of 1,000" $ do
        let alarms = length (filter id [l > 1 || u < 1 | i <- [1 .. 1000], let (xs, ys) = noisyPair (7000000 + i), Just (Interval _ l u) <- [ratioInterval (Seed i) xs ys]])
        -- The 99 % bound of a binomial distribution with 5 %.
        assertBool (show alarms) (alarms <= 66)
        pure (show alarms ++ " alarms"),
      testCaseInfo "a difference of 2 % is found, seed 8000000" $ do
        let found = length (filter id [l > 1 | i <- [1 .. 200], let (xs, ys) = noisyPair (8000000 + i), Just (Interval _ l _) <- [ratioInterval (Seed i) (sampleFromList (map (* 1.02) (sampleToList xs))) ys]])
        assertBool (show found) (found >= 180)
        pure (show found ++ " of 200"),
      testCase "the effective size of autocorrelated samples" $
        forM_ [0, 0.3, 0.6, 0.8] $ \rho -> do
          let n = 2000
              average = sum [effectiveSampleSize (autoregressive rho n (9000000 + i)) | i <- [1 .. 20]] / 20
              expected = fromIntegral n * (1 - rho) / (1 + rho)
          assertBool (show (rho, average, expected)) (abs (average - expected) < 0.25 * expected),
      testProperty "intervals contain their estimate" $ \(Series xs) (seed :: Word64) ->
        let Interval e l u = midmeanInterval (Seed seed) (sampleFromList xs) in counterexample (show (l, e, u)) (l <= e && e <= u),
      testCase "ratios of independent estimates" $ do
        let as = independentRatio (Interval 2 1.9 2.1) (Interval 1 0.95 1.05)
        assertBool (show as) (any (\(Interval e l u) -> e == 2 && l > 1.8 && l < 1.9 && u > 2.1 && u < 2.2) as),
      testCase "aBaselineOfNearlyZeroGaveInfinity: independent estimates" $ do
        let (one, none, negative, reaching) = (Interval 1 0.9 1.1, Interval 0 0 0, Interval (-1) (-2) 1, Interval 0.01 0 1)
        forM_ [(none, none), (one, none), (none, one), (negative, one), (one, negative), (one, reaching), (Interval 1e300 1e300 1e300, Interval 1e-300 1e-300 1e-300), (one, Interval (0 / 0) 1 1)] $ \(a, b) ->
          assertEqual (show (a, b)) Nothing (independentRatio a b)
        -- A first time that reaches to 0 has a ratio that does so, too.
        fmap lower (independentRatio reaching one) @?= Just 0,
      testCase "aBaselineOfNearlyZeroGaveInfinity: paired rounds" $ do
        let rounds = [10, 11 .. 21]
            ratio xs ys = ratioInterval (Seed 1) (sampleFromList xs) (sampleFromList ys)
            lacking n = replicate n 0 ++ drop n rounds
        forM_ [([], []), (0 <$ rounds, 0 <$ rounds), (rounds, 0 <$ rounds), (0 <$ rounds, rounds), (map negate rounds, rounds), (rounds, lacking 4), (lacking 2, reverse (lacking 2))] $ \(xs, ys) ->
          assertEqual (show (xs, ys)) Nothing (ratio xs ys)
        -- A quarter of them may be disturbed.
        ratio rounds (lacking 3) @?= Just (Interval 1 1 1)
    ]

growths :: TestTree
growths =
  testGroup
    "growth"
    $ [ testCase (orderName order) $ do
          let sizes = [100, 200 .. 3200] ++ [6400, 12800, 25600]
              times = [(50 + 3 * orderGrowth order n) * (1 + 0.01 * e) | (n, e) <- zip sizes (normals 42)]
          fmap fitted (fitOrder (zip sizes times)) @?= Just order
        | order <- [Constant, Logarithmic, Linear, Linearithmic, Quadratic, QuadraticLog, Cubic]
      ]
      ++ [ testGroup
             "slowerStepsWereClearlyALogarithm: an order with a logarithm is never clear"
             [ testCase what $ do
                 let told = maybe "" showFit (fitOrder points)
                 assertBool told (all (`isInfixOf` told) wanted && not (any (`isInfixOf` told) unwanted))
               | let sizes = [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000]
                     noisy t = zipWith (\n e -> (n, t n * (1 + 0.002 * e))) sizes (normals 7),
                 (what, points, wanted, unwanted) <-
                   [ ("a list that leaves the caches", noisy (\n -> n * (3 + 0.35 * log (n / 1000))), ["O(n log n) or O(n) "], ["clear", "probable"]),
                     ("n log n", noisy (\n -> 3 * n * log n), ["O(n log n) or O(n) "], ["clear", "probable"]),
                     ("log n", noisy (\n -> 20 * log n), ["O(log n) or O(1) "], ["clear", "probable"]),
                     ("n^2 log n", noisy (\n -> n * n * log n), ["O(n^2 log n) or O(n^2) "], ["clear", "probable"]),
                     ("n", noisy (\n -> 100 + 3 * n), ["O(n) (clear"], [" or "]),
                     ("n^2", noisy (\n -> 100 + n * n), ["O(n^2) (clear"], [" or "])
                   ]
             ]
         ]

-- | A first-order autoregressive sequence around 100, with standard deviation 1.
autoregressive :: Double -> Int -> Word64 -> Sample
autoregressive rho n seed = case normals seed of
  first : steps -> sampleFromList (map (100 +) (take n (scanl (\x e -> rho * x + sqrt (1 - rho * rho) * e) first steps)))
  [] -> sampleFromList []

-- | Two alternatives that are the same, measured in 100 rounds by a machine whose speed wanders by some 10 %, with
-- noise of 1 % and, in one sample of 20, an interruption.
noisyPair :: Word64 -> (Sample, Sample)
noisyPair seed = (side 1, side 2)
  where
    n = 100
    speeds = sampleToList (autoregressive 0.95 n seed)
    side k = sampleFromList [(1000 + 100 * (speed - 100)) * (1 + 0.01 * e) * (if p < 0.05 then 1.5 else 1) | (speed, e, p) <- zip3 speeds (normals (seed * 7 + k)) (uniforms (seed * 13 + k))]

normals :: Word64 -> [Double]
normals = pairs . uniforms
  where
    pairs (u : v : more) = let r = sqrt (-2 * log (1 - u)) in r * cos (2 * pi * v) : r * sin (2 * pi * v) : pairs more
    pairs _ = []

uniforms :: Word64 -> [Double]
uniforms seed = [fromIntegral (scramble (seed * 0x2545f4914f6cdd1d + k * 0x9e3779b97f4a7c15) `shiftR` 11) / 9007199254740992 | k <- [1 ..]]
  where
    scramble z = foldl' (\x m -> (x `xor` (x `shiftR` 29)) * m) z [0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93]

samplesOutside :: IO ()
samplesOutside = do
  table <- newSamples 16
  before <- liveBytes
  forM_ [1 .. 100000 :: Int] $ \i -> record table (\row -> pokeElemOff row 0 (fromIntegral i))
  after <- liveBytes
  n <- sampleCount table
  n @?= 100000
  -- 100,000 rows are 6.4 MB.
  assertBool (show (before, after)) (after < before + 200000)
