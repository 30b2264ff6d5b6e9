-- | What heddle-measure promises, measured on this machine.
--
-- @drift COPIES MS@: this number of copies of one benchmark, each for MS milliseconds; the time of the last tenth over that of
-- the first, and its interval.
--
-- @alarms COMPARISONS SAMPLES MICROSECONDS@: a benchmark against itself, in so many samples of this length; how many of the 95 %
-- intervals do not contain 1.
--
-- @overhead MICROSECONDS SAMPLES@: samples of this length; the time for all over that of a bare loop which does the work as often.
--
-- @coverage REPETITIONS@: how many percent of the intervals contain the true value, for synthetic samples whose neighbours are
-- correlated; a line for each correlation and number of values.
module Main
  ( main,
  )
where

import Control.Monad (forM, forM_)
import Data.Bits (shiftR, xor)
import Data.List (foldl')
import Data.Word (Word64)
import Heddle.Measure (Benchmark, bench, versus, whnf)
import Heddle.Measure.Counters (Counters, withCounters)
import Heddle.Measure.Run
import Heddle.Measure.Samples (Field (..), column)
import Heddle.Measure.Statistics
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock (Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception (evaluate, throwIO)
import Numeric (showFFloat)
import System.Environment (getArgs)
import System.Exit (die)
import Text.Read (readMaybe)

main :: IO ()
main =
  getArgs >>= \arguments -> case (take 1 arguments, mapM readMaybe (drop 1 arguments)) of
    (["drift"], Just [copies, ms]) | copies >= 20, ms > 0 -> drift copies (fromIntegral ms)
    (["alarms"], Just [comparisons, samples, micros]) | comparisons > 0, samples > 1, micros > 0 -> alarms comparisons samples (fromIntegral micros)
    (["overhead"], Just [micros, samples]) | micros > 0, samples > 1 -> overheadOf (fromIntegral micros) samples
    (["coverage"], Just [repetitions]) | repetitions > 0 -> coverage repetitions
    _ -> die "usage: bench-measure drift COPIES MS | alarms COMPARISONS SAMPLES MICROSECONDS | overhead MICROSECONDS SAMPLES | coverage REPETITIONS"

-- | Run benchmarks as 'Heddle.Measure.defaultMain' does; the outcomes are kept until the end, as there.
runAll :: Settings -> [Benchmark] -> (Counters -> Double -> Session -> IO a) -> IO [a]
runAll settings benchmarks visit = withCounters (cpuTimeOf settings) $ \counters -> do
  overhead <- loopOverhead counters
  results <- newRef []
  sessions (const True) (\_ why -> throwIO why) (\session -> visit counters overhead session >>= \a -> readRef results >>= writeRef results . (a :)) benchmarks
  reverse <$> readRef results

finished :: [(Case, Outcome)] -> IO [Measured]
finished outcomes = forM outcomes $ \case
  (_, Finished m) -> pure m
  (c, Failed why) -> die (caseName (casePath c) ++ ": " ++ why)

-- Without a ratio nothing was found out: neither an alarm nor none.
comparable :: Maybe Interval -> IO Interval
comparable = maybe (die "the times are too small to compare") pure

-- The machine's speed wanders in the minute that this takes, so each copy is divided by a bare loop that ran just before.
drift :: Int -> Double -> IO ()
drift copies ms = do
  found <- runAll settings [bench ("exp " ++ show i) (whnf exp (1.5 :: Double)) | i <- [1 .. copies]] $ \counters overhead session -> do
    bare <- minimum <$> mapM (const (bareLoop 20000)) [1 .. 5 :: Int]
    outcomes <- runSession settings counters overhead (const (pure ())) session
    measured <- finished outcomes
    -- The samples stay reachable, as they do in a program with reports.
    pure (sum (map (fastest . summary) measured) / bare, measured)
  let tenth = copies `div` 10
      side = midmeanInterval (Seed 1) . sampleFromList . map fst
  Interval e l u <- comparable (independentRatio (side (drop (copies - tenth) found)) (side (take tenth found)))
  putStrLn (unwords ["drift", decimals e, decimals l, decimals u, "kept", show (length (concatMap snd found))])
  where
    settings = defaultSettings {timeLimit = ms / 1000, sampleLength = 1}

alarms :: Int -> Int -> Double -> IO ()
alarms comparisons samples micros = do
  found <- runAll settings [versus (show i) [bench "one" (whnf sumTo 100), bench "other" (whnf sumTo 100)] | i <- [1 .. comparisons]] $ \counters overhead session -> do
    outcomes <- runSession settings counters overhead (const (pure ())) session
    times <- finished outcomes >>= mapM (adjustedTimes overhead . samplesOf)
    case times of
      [one, other] -> do
        Interval _ l u <- comparable (ratioInterval (Seed 1) other one)
        evaluate (l > 1 || u < 1)
      _ -> die "not two alternatives"
  putStrLn (unwords ["alarms", show (length (filter id found)), "of", show comparisons])
  where
    settings = defaultSettings {timeLimit = 0.000001, sampleLength = micros / 1000, fewestSamples = samples, mostSamples = samples}

-- Between the first call of the progress action and the last, there are all rounds but the one after the last call.
overheadOf :: Double -> Int -> IO ()
overheadOf micros samples = do
  found <- runAll settings [bench "sum" (whnf sumTo 100)] $ \counters overhead session -> do
    calls <- newRef []
    outcomes <- runSession settings counters overhead (\_ -> monotonicNow >>= \now -> readRef calls >>= writeRef calls . (now :)) session
    rounds <- readRef calls
    measured <- finished outcomes
    iterations <- mapM (\m -> sampleToList <$> column (samplesOf m) Iterations) measured
    case (rounds, concat iterations) of
      (final : earlier@(_ : _), n : _) -> do
        bare <- midmean . sampleFromList <$> mapM (const (bareLoop (round n))) earlier
        let Nanos took = elapsed (last earlier) final
        pure (fromIntegral took / fromIntegral (length earlier) / bare / n)
      _ -> die "too few samples"
  forM_ found $ \ratio -> putStrLn (unwords ["overhead", decimals ratio])
  where
    settings = defaultSettings {timeLimit = 0.000001, sampleLength = micros / 1000, fewestSamples = samples, mostSamples = samples}

-- | Nanoseconds for each pass of a loop that does nothing but the work.
bareLoop :: Int -> IO Double
bareLoop n = do
  input <- newRef 100
  begun <- monotonicNow
  let go :: Int -> IO ()
      go 0 = pure ()
      go k = readRef input >>= evaluate . sumTo >> go (k - 1)
  go n
  ended <- monotonicNow
  let Nanos took = elapsed begun ended
  pure (fromIntegral took / fromIntegral n)

sumTo :: Int -> Int
sumTo = go 0
  where
    go !total 0 = total
    go total k = go (total + k) (k - 1)
{-# NOINLINE sumTo #-}

coverage :: Int -> IO ()
coverage repetitions =
  forM_ [(0, 5), (0, 10), (0, 20), (0, 100), (0.3, 100), (0.6, 100), (0.8, 200)] $ \(rho, n) -> do
    let within i = let Interval _ l u = midmeanInterval (Seed i) (autoregressive rho n i) in l <= 100 && 100 <= u
        covered = length (filter within [1 .. fromIntegral repetitions])
    putStrLn (unwords ["coverage", show rho, show n, decimals (100 * fromIntegral covered / fromIntegral repetitions)])

-- | A first-order autoregressive sequence around 100, with standard deviation 1.
autoregressive :: Double -> Int -> Word64 -> Sample
autoregressive rho n seed = case normals seed of
  first : steps -> sampleFromList (map (100 +) (take n (scanl (\x e -> rho * x + sqrt (1 - rho * rho) * e) first steps)))
  [] -> sampleFromList []

normals :: Word64 -> [Double]
normals seed = pairs [uniform k | k <- [1 ..]]
  where
    pairs (u : v : more) = let r = sqrt (-2 * log (1 - u)) in r * cos (2 * pi * v) : r * sin (2 * pi * v) : pairs more
    pairs _ = []
    uniform k = fromIntegral (scramble (seed * 0x2545f4914f6cdd1d + k * 0x9e3779b97f4a7c15) `shiftR` 11) / 9007199254740992
    scramble z = foldl' (\x m -> (x `xor` (x `shiftR` 29)) * m) z [0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93]

decimals :: Double -> String
decimals x = showFFloat (Just 5) x ""
