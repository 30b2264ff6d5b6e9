-- |
-- Module      : Heddle.Measure.Statistics
-- Description : What repeated measurements say, and how sure it is
-- Stability   : stable
--
-- Summaries of samples in the order in which they were taken: neighbouring measurements of a program are
-- seldom independent, so intervals come from a block bootstrap. See Note [Intervals].
--
-- Cost: linear in the sample, times its logarithm where it is sorted; intervals take 'resamples' rounds of one
-- addition per block.
-- Owner: values. Everything is deterministic: a resampling function is given its seed.
module Heddle.Measure.Statistics
  ( -- * Samples
    Sample,
    sampleFromList,
    sampleToList,

    -- * Location and spread
    mean,
    variance,
    standardDeviation,
    quantile,
    median,
    midmean,

    -- * Outliers
    Outliers (..),
    tukeyOutliers,
    outlierCount,

    -- * Dependence
    autocorrelation,
    durbinWatson,
    effectiveSampleSize,

    -- * Intervals
    Interval (..),
    Seed (..),
    midmeanInterval,
    ratioInterval,
    independentRatio,
    blockLength,
    resamples,
    studentQuantile,

    -- * Growth
    Order (..),
    Fit (..),
    fitOrder,
    showFit,
    orderName,
    orderGrowth,

    -- * Densities
    density,
  )
where

import Data.Bits (shiftR, xor)
import Data.List (sortOn)
import Data.Primitive.PrimArray (PrimArray, emptyPrimArray, foldlPrimArray', generatePrimArray, indexPrimArray, mapPrimArray, primArrayFromList, primArrayToList, sizeofPrimArray)
import Data.Word (Word64)
import Heddle.Measure.Sort (sorted)
import Numeric (showFFloat)

-- | Measurements in the order in which they were taken.
type Sample = PrimArray Double

-- | A sample of these values.
sampleFromList :: [Double] -> Sample
sampleFromList = primArrayFromList

-- | Its values, in order.
sampleToList :: Sample -> [Double]
sampleToList = primArrayToList

count :: Sample -> Double
count = fromIntegral . sizeofPrimArray

-- | The arithmetic mean; of an empty sample, 0.
mean :: Sample -> Double
mean xs
  | sizeofPrimArray xs == 0 = 0
  | otherwise = foldlPrimArray' (+) 0 xs / count xs

-- | The unbiased variance; of fewer than two values, 0.
variance :: Sample -> Double
variance xs
  | sizeofPrimArray xs < 2 = 0
  | otherwise = foldlPrimArray' (\s x -> s + (x - m) * (x - m)) 0 xs / (count xs - 1)
  where
    m = mean xs

-- | The square root of 'variance'.
standardDeviation :: Sample -> Double
standardDeviation = sqrt . variance

-- | The quantile for a probability between 0 and 1, interpolated as R's default (type 7) does; of an empty
-- sample, 0.
quantile :: Double -> Sample -> Double
quantile p = quantileOfSorted p . sorted

quantileOfSorted :: Double -> Sample -> Double
quantileOfSorted p xs
  | n == 0 = 0
  | otherwise = low + (position - fromIntegral under) * (at (min (n - 1) (under + 1)) - low)
  where
    n = sizeofPrimArray xs
    position = max 0 (min 1 p) * fromIntegral (n - 1)
    under = min (n - 1) (floor position)
    at = indexPrimArray xs
    low = at under

-- | The middle value.
median :: Sample -> Double
median = quantile 0.5

-- | The mean of the middle half of the sorted values. A quarter of the values may be disturbed in either
-- direction without moving it far, and unlike the median it varies smoothly. Of five or six values it is their median, of
-- fewer their mean.
midmean :: Sample -> Double
midmean xs
  | n == 0 = 0
  | otherwise = foldl (\s i -> s + indexPrimArray ys i) 0 [cut .. n - cut - 1] / fromIntegral (n - 2 * cut)
  where
    n = sizeofPrimArray xs
    cut = outerQuarter n
    ys = sorted xs

-- How many values of a sample are left out at either end: a quarter. The middle half of five or six would be too few to know how
-- much it varies, but between the least and the greatest of them lies the median of all with a probability of 94 % or
-- more; of fewer, none is left out.
outerQuarter :: Int -> Int
outerQuarter n
  | n < 5 = 0
  | hasFew n = (n - 1) `div` 2
  | otherwise = n `div` 4

hasFew :: Int -> Bool
hasFew n = n == 5 || n == 6

-- | Values outside Tukey's fences: mild beyond 1.5 interquartile ranges from the quartiles, severe beyond 3.
data Outliers = Outliers
  { lowSevere :: !Int,
    lowMild :: !Int,
    highMild :: !Int,
    highSevere :: !Int
  }
  deriving stock (Eq, Show)

-- | Count the values outside the fences.
tukeyOutliers :: Sample -> Outliers
tukeyOutliers xs = foldlPrimArray' classify (Outliers 0 0 0 0) ys
  where
    ys = sorted xs
    (q1, q3) = (quantileOfSorted 0.25 ys, quantileOfSorted 0.75 ys)
    range = q3 - q1
    classify o x
      | x < q1 - 3 * range = o {lowSevere = lowSevere o + 1}
      | x < q1 - 1.5 * range = o {lowMild = lowMild o + 1}
      | x > q3 + 3 * range = o {highSevere = highSevere o + 1}
      | x > q3 + 1.5 * range = o {highMild = highMild o + 1}
      | otherwise = o

-- | All of them.
outlierCount :: Outliers -> Int
outlierCount (Outliers a b c d) = a + b + c + d

-- | The correlation of each value with the one that follows it at this distance.
autocorrelation :: Int -> Sample -> Double
autocorrelation lag xs
  | total <= 0 || lag >= n = 0
  | otherwise = sum [(at i - m) * (at (i + lag) - m) | i <- [0 .. n - lag - 1]] / total
  where
    n = sizeofPrimArray xs
    at = indexPrimArray xs
    m = mean xs
    total = foldlPrimArray' (\s x -> s + (x - m) * (x - m)) 0 xs

-- | The Durbin–Watson statistic of the deviations from the mean: 2 for independent values, towards 0 where
-- neighbours are alike, towards 4 where they alternate. A constant sample has 2.
durbinWatson :: Sample -> Double
durbinWatson xs
  | total <= 0 = 2
  | otherwise = sum [square (at (i + 1) - at i) | i <- [0 .. sizeofPrimArray xs - 2]] / total
  where
    at = indexPrimArray xs
    m = mean xs
    total = foldlPrimArray' (\s x -> s + square (x - m)) 0 xs

square :: Double -> Double
square x = x * x

-- | How many independent values would say as much: the number divided by the autocorrelation time, whose sum
-- ends where pairs of autocorrelations are no longer positive (Geyer's initial positive sequence). Between 1
-- and the number of values.
effectiveSampleSize :: Sample -> Double
effectiveSampleSize xs
  | n < 4 || variance xs <= 0 = count xs
  | otherwise = max 1 (min (count xs) (count xs / time))
  where
    n = sizeofPrimArray xs
    pairs = takeWhile (> 0) [autocorrelation (2 * k) xs + autocorrelation (2 * k + 1) xs | k <- [0 .. n `div` 4]]
    time = max 1 (2 * sum pairs - 1)

-- | An estimate and the bounds of its 95 % interval.
data Interval = Interval
  { estimate :: !Double,
    lower :: !Double,
    upper :: !Double
  }
  deriving stock (Eq, Show)

-- | The beginning of a deterministic random sequence.
newtype Seed = Seed Word64
  deriving stock (Eq, Show)

-- | How many times an interval's sample is drawn again: 1,000.
resamples :: Int
resamples = 1000

-- | The 'midmean' with its 95 % interval. That of five or six values reaches from the least to the greatest.
midmeanInterval :: Seed -> Sample -> Interval
midmeanInterval seed xs
  | hasFew (sizeofPrimArray xs) = Interval middle (quantile 0 xs) (quantile 1 xs)
  | otherwise = Interval middle (middle + low) (middle + high)
  where
    middle = midmean xs
    (low, high) = deviations seed (influence xs)

-- | The ratio of paired times, the first divided by the second, with its 95 % interval: the midmean of the
-- logarithms of the rounds' ratios. Pairs with a time that is not positive are left out; 'Nothing' if those are
-- more than a quarter, which is as many as cannot move a midmean far: such times are too small to compare.
ratioInterval :: Seed -> Sample -> Sample -> Maybe Interval
ratioInterval seed xs ys
  | null logs || 4 * length logs < 3 * length pairs = Nothing
  | otherwise = bounded (Interval (exp e) (exp l) (exp u))
  where
    Interval e l u = midmeanInterval seed (sampleFromList logs)
    pairs = zip (primArrayToList xs) (primArrayToList ys)
    logs = [log (x / y) | (x, y) <- pairs, x > 0, y > 0]

-- | The ratio of two estimates that were measured apart, the first divided by the second. Its interval
-- assumes that their errors are independent, which is untrue of runs on a machine whose speed changes between
-- them: where it matters, measure both in one run. 'Nothing' if they are too small to compare: an estimate is not
-- positive, or the interval of the second reaches to 0, so that the ratio has no upper bound.
independentRatio :: Interval -> Interval -> Maybe Interval
independentRatio (Interval a al ah) (Interval b bl bh)
  | a > 0 && b > 0 = bounded (Interval ratio (ratio * exp (negate (norm (relative a al) (relative bh b)))) (ratio * exp (norm (relative ah a) (relative b bl))))
  | otherwise = Nothing
  where
    ratio = a / b
    relative high low = if low > 0 then log (high / low) else 1 / 0
    norm x y = sqrt (x * x + y * y)

-- An interval without bounds says nothing.
bounded :: Interval -> Maybe Interval
bounded interval@(Interval e l u)
  | any (\x -> isNaN x || isInfinite x) [e, l, u] = Nothing
  | otherwise = Just interval

-- | How much each value moves the midmean, in the first order: values outside the quartiles count as the
-- quartile. The mean of these is 0.
influence :: Sample -> Sample
influence xs
  | n == 0 = xs
  | otherwise = mapPrimArray (\x -> fromIntegral n / fromIntegral (n - 2 * cut) * (x - m)) clipped
  where
    n = sizeofPrimArray xs
    ys = sorted xs
    cut = outerQuarter n
    (low, high) = (indexPrimArray ys cut, indexPrimArray ys (n - cut - 1))
    clipped = mapPrimArray (max low . min high) xs
    m = mean clipped

-- | The deviations of the mean that a 95 % interval reaches; see Note [Intervals].
deviations :: Seed -> Sample -> (Double, Double)
deviations (Seed seed) xs
  | n < 2 = (0, 0)
  | otherwise = (negate (scale * quantileOfSorted 0.975 means), negate (scale * quantileOfSorted 0.025 means))
  where
    n = sizeofPrimArray xs
    len = blockLength xs
    blocks = max 1 (n `div` len)
    rho = whitening xs
    -- Sums over the blocks that begin at each value, around the end.
    sums = generatePrimArray n $ \i -> sum [indexPrimArray xs ((i + k) `mod` n) | k <- [0 .. len - 1]]
    means = sorted (sampleFromList (draw resamples (mix seed)))
    draw :: Int -> Word64 -> [Double]
    draw 0 _ = []
    draw k s = let (total, s') = blockSum blocks 0 s in total / fromIntegral (blocks * len) : draw (k - 1) s'
    blockSum :: Int -> Double -> Word64 -> (Double, Word64)
    blockSum 0 !total !s = (total, s)
    blockSum k total s = blockSum (k - 1) (total + indexPrimArray sums (below n s)) (s + 0x9e3779b97f4a7c15)
    scale = studentQuantile (min (fromIntegral n / fromIntegral len) inside - 1) / 1.959964 * sqrt (shrinkage * tapering)
    -- Those outside the quartiles say little of the spread.
    inside = fromIntegral (n - 2 * outerQuarter n)
    -- Around their own mean, fewer blocks vary less.
    shrinkage = fromIntegral n / fromIntegral (max 1 (n - 2 * len + 1))
    -- Blocks cut correlations at their ends; how much, for a sequence whose correlations fall geometrically.
    tapering
      | rho <= 0 = 1
      | otherwise = full / max 1 (full - 2 * rho * (1 - rho ^ len) / (fromIntegral len * square (1 - rho)))
    full = (1 + rho) / (1 - rho)

-- | The first autocorrelation, with its bias in small samples removed, and at most 0.95.
whitening :: Sample -> Double
whitening xs
  | n < 3 = 0
  | corrected <= 0.5 / sqrt n = 0
  | otherwise = min 0.95 corrected
  where
    n = count xs
    r = autocorrelation 1 xs
    corrected = r + (1 + 4 * r) / n

-- | The length of the bootstrap's blocks: 1 where neighbours are not correlated, longer the more they are, and
-- at most a fifth of the sample.
blockLength :: Sample -> Int
blockLength xs
  | rho <= 0 = 1
  | otherwise = max 1 (min (sizeofPrimArray xs `div` 5) (ceiling ((6 * square (rho / (1 - square rho)) * count xs) ** (1 / 3 :: Double))))
  where
    rho = whitening xs

-- | A number below the first, from a counter.
below :: Int -> Word64 -> Int
below n s = floor (fromIntegral (mix s `shiftR` 11) * (1 / 9007199254740992) * fromIntegral n :: Double)

-- | SplitMix64's output function.
mix :: Word64 -> Word64
mix z0 = z2 `xor` (z2 `shiftR` 31)
  where
    z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xbf58476d1ce4e5b9
    z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94d049bb133111eb

-- | The 97.5 % quantile of Student's distribution for this number of degrees of freedom, at least 1: what replaces
-- 1.96 where the spread is itself estimated. Accurate to 1 % from 2 degrees on.
studentQuantile :: Double -> Double
studentQuantile freedom
  | v < 2 = 12.706 ** (2 - v) * 4.303 ** (v - 1)
  | otherwise = z + (z ** 3 + z) / (4 * v) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * v ** 2) + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * v ** 3) + fourth
  where
    v = max 1 freedom
    z = 1.959964
    fourth = (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / (92160 * v ** 4)

-- | How time grows with the size of the input.
data Order = Constant | Logarithmic | Linear | Linearithmic | Quadratic | QuadraticLog | Cubic
  deriving stock (Bounded, Enum, Eq, Show)

-- | As it is written: @O(n log n)@.
orderName :: Order -> String
orderName = \case
  Constant -> "O(1)"
  Logarithmic -> "O(log n)"
  Linear -> "O(n)"
  Linearithmic -> "O(n log n)"
  Quadratic -> "O(n^2)"
  QuadraticLog -> "O(n^2 log n)"
  Cubic -> "O(n^3)"

-- | The function of the size, without constants.
orderGrowth :: Order -> Double -> Double
orderGrowth order n = case order of
  Constant -> 0
  Logarithmic -> log n
  Linear -> n
  Linearithmic -> n * log n
  Quadratic -> n * n
  QuadraticLog -> n * n * log n
  Cubic -> n * n * n

-- | Time as a constant and a multiple of a function of the size.
data Fit = Fit
  { fitted :: !Order,
    -- | The part that does not grow.
    fitConstant :: !Double,
    -- | What one unit of the function costs.
    fitFactor :: !Double,
    -- | Between 0 and 1: the Akaike weight of this order among all that were tried. Not a probability that the
    -- order is true; the true one may not be among them.
    fitConfidence :: !Double,
    -- | The order with the next lower weight.
    fitRunnerUp :: !Order
  }
  deriving stock (Eq, Show)

-- | The order that explains sizes (positive) and times (positive) best by their relative errors, both parts
-- not negative. 'Nothing' for fewer than four different points, which any order nearly fits.
fitOrder :: [(Double, Double)] -> Maybe Fit
fitOrder points
  | length usable < 4 || minimum (map fst usable) >= maximum (map fst usable) = Nothing
  | otherwise = case sortOn (\(_, score, _) -> score) (map try [minBound ..]) of
    (best, bestScore, (a, b)) : (second, secondScore, _) : others ->
      let weights = map (\score -> exp ((bestScore - score) / 2)) (bestScore : secondScore : [s | (_, s, _) <- others])
       in Just (Fit best a b (1 / sum weights) second)
    _ -> Nothing
  where
    usable = [(n, t) | (n, t) <- points, n > 0, t > 0]
    m = fromIntegral (length usable) :: Double
    try order = (order, criterion (if order == Constant then 1 else 2) (residual order solution), solution)
      where
        solution = solve order
    -- A relative error of 0.01 % is taken for none: no clock measures better.
    criterion k rss = m * log (rss / m + 1e-8) + 2 * k + 2 * k * (k + 1) / max 1 (m - k - 1)
    residual order (a, b) = sum [square ((t - a - b * orderGrowth order n) / t) | (n, t) <- usable]
    solve order
      | order == Constant || b <= 0 = (onlyConstant, 0)
      | a < 0 = (0, onlyFactor)
      | otherwise = (a, b)
      where
        -- Least squares for 1 = a (1/t) + b (g/t).
        us = [1 / t | (_, t) <- usable]
        vs = [orderGrowth order n / t | (n, t) <- usable]
        (suu, svv, suv) = (sum (map square us), sum (map square vs), sum (zipWith (*) us vs))
        (su, sv) = (sum us, sum vs)
        det = suu * svv - suv * suv
        b = (suu * sv - suv * su) / det
        a = (svv * su - suv * sv) / det
        onlyConstant = su / suu
        onlyFactor = sv / svv

-- | The order and how clear it is, in a few words. An order with a logarithm is never clear: caches and the collector slow
-- down the steps of larger inputs, which in the sizes that can be measured looks like a logarithm.
--
-- >>> fmap showFit (fitOrder [(n, 3 * n) | n <- [1000, 2000 .. 9000]])
-- Just "O(n) (clear: weight 1.00 among the orders tried)"
showFit :: Fit -> String
showFit fit
  | fitConfidence fit < 0.75 = name ++ " or " ++ next ++ " (undecided" ++ weight ++ "; give it sizes further apart)"
  | Just other <- lessALogarithm =
    name ++ " or " ++ orderName other ++ " (" ++ drop 2 weight ++ "; slower steps, by caches or the collector, look like a logarithm)"
  | fitConfidence fit >= 0.95 = name ++ " (clear" ++ weight ++ " among the orders tried)"
  | otherwise = name ++ " (probable" ++ weight ++ "; next " ++ next ++ ")"
  where
    name = orderName (fitted fit)
    next = orderName (fitRunnerUp fit)
    weight = ": weight " ++ showFFloat (Just 2) (fitConfidence fit) ""
    lessALogarithm = case fitted fit of
      Logarithmic -> Just Constant
      Linearithmic -> Just Linear
      QuadraticLog -> Just Quadratic
      _ -> Nothing

-- | A kernel estimate of the density at this number of places from the least to the greatest value, with Silverman's
-- bandwidth: places and heights. A constant sample has none.
--
-- [Cost]: places times values.
density :: Int -> Sample -> [(Double, Double)]
density places xs
  | sizeofPrimArray xs < 2 || width <= 0 || high <= low = []
  | otherwise = [(x, height x) | k <- [0 .. places - 1], let x = low + fromIntegral k * (high - low) / fromIntegral (max 1 (places - 1))]
  where
    ys = if sizeofPrimArray xs == 0 then emptyPrimArray else sorted xs
    (low, high) = (quantileOfSorted 0 ys, quantileOfSorted 1 ys)
    range = (quantileOfSorted 0.75 ys - quantileOfSorted 0.25 ys) / 1.34
    deviation = standardDeviation xs
    width = 0.9 * (if range > 0 then min deviation range else deviation) * count xs ** (-0.2)
    height x = foldlPrimArray' (\s y -> s + exp (-0.5 * square ((x - y) / width))) 0 xs / (count xs * width * 2.5066282746)

-- Note [Intervals]
-- ~~~~~~~~~~~~~~~~
-- Resampling single values assumes that they are independent, and then 95 % intervals of a correlated sequence
-- cover far less than 95 %. A block bootstrap keeps neighbours together. Three corrections make it cover
-- what it promises in small samples, which `test/StatisticsTest.hs` checks on first-order autoregressive
-- sequences: Student's quantile instead of the normal one, with the degrees of freedom of the blocks, or of the
-- values between the quartiles if those are fewer (as Tukey and McLaughlin do for trimmed means); the variance
-- lost because blocks vary around their own mean; and the correlation that is cut at the ends of blocks,
-- estimated from the first autocorrelation.
--
-- The midmean is resampled by its influence function, which turns it into a mean: a resample then costs
-- one addition for each block instead of sorting.
