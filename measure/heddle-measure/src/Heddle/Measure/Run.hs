-- |
-- Module      : Heddle.Measure.Run
-- Description : Running benchmarks in rounds, and what came out
-- Stability   : stable
--
-- A benchmark is calibrated so that a sample lasts long enough for the clock, and then sampled until its time is
-- up. Alternatives are sampled together: each round has one sample of each, in a random order.
--
-- Cost: a sample adds about two microseconds, outside of what is measured.
-- Owner: the calling thread runs everything. Samples are in "Heddle.Measure.Samples", outside the heap.
module Heddle.Measure.Run
  ( -- * How to measure
    Settings (..),
    defaultSettings,

    -- * Benchmarks that run together
    Case (..),
    Session (..),
    sessions,
    benchmarkPaths,
    caseName,
    Against (..),
    Together (..),

    -- * Running
    Outcome (..),
    Measured (..),
    Summary (..),
    loopOverhead,
    runSession,
    adjustedTimes,
  )
where

import Control.Monad (unless, when)
import Data.Bits (xor)
import Data.Either (fromRight)
import Data.List (intercalate, sortOn)
import Data.Maybe (fromMaybe)
import Data.Word (Word64)
import GHC.IO.Exception (AllocationLimitExceeded (..))
import Heddle.Measure.Benchmark
import Heddle.Measure.Counters (Counters, CpuClock (..), Reading (..), measured, sampleInto)
import Heddle.Measure.Samples
import Heddle.Measure.Statistics
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock (Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception
import Numeric (showFFloat)
import System.Mem (disableAllocationLimit, enableAllocationLimit, performMajorGC, performMinorGC, setAllocationCounter)
import System.Timeout (timeout)

-- | How long and how carefully to measure.
data Settings = Settings
  { -- | Seconds for each benchmark.
    timeLimit :: !Double,
    -- | How long a sample should last, in milliseconds.
    sampleLength :: !Double,
    -- | The least number of samples of each, even if that takes longer.
    fewestSamples :: !Int,
    -- | The greatest number of samples of each.
    mostSamples :: !Int,
    -- | How many bytes a sample may allocate before the benchmark is ended.
    allocationLimit :: !Int,
    -- | Seconds after which a sample is interrupted and the benchmark ended. A loop that allocates nothing cannot be
    -- interrupted, unless it is compiled with @-fno-omit-yields@.
    sampleTimeout :: !Double,
    -- | Whose CPU time counts.
    cpuTimeOf :: !CpuClock,
    -- | Decides the order of alternatives and the drawing of resamples.
    randomSeed :: !Word64
  }
  deriving stock (Eq, Show)

-- | 2 seconds for each benchmark in samples of 10 ms, 5 to 1,000 of them; at most 4 GiB and 100 seconds for a
-- sample; the process' CPU.
defaultSettings :: Settings
defaultSettings = Settings 2 10 5 1000 (4 * 1024 * 1024 * 1024) 100 ProcessCpu 1

-- | A benchmark and where it stands.
data Case = Case
  { casePath :: [String],
    caseWork :: Benchmarkable,
    -- | With what 'Heddle.Measure.bcompare' compares it.
    caseAgainst :: Maybe Against
  }

-- | The path as one text: @group/name@.
caseName :: [String] -> String
caseName = intercalate "/"

-- | What runs in the same rounds: one benchmark, or several under a name.
data Session = Session
  { sessionPath :: [String],
    sessionKind :: Maybe Together,
    sessionCases :: [Case]
  }

-- | Visit the sessions whose benchmarks the predicate takes by their paths. Environments are made when the first
-- benchmark below them is visited, and released after the last one.
--
-- [Throws]: what making or releasing an environment throws goes to the second argument, with the path.
sessions :: ([String] -> Bool) -> ([String] -> SomeException -> IO ()) -> (Session -> IO ()) -> [Benchmark] -> IO ()
sessions wanted failed visit = mapM_ (go [] Nothing)
  where
    go above against = \case
      Leaf name work -> let path = above ++ [name] in visiting (Session path Nothing [Case path work against | wanted path])
      Group name inner -> mapM_ (go (above ++ [name]) against) inner
      Compared other inner -> go above (Just other) inner
      Together kind name inner -> together (above ++ [name]) kind against inner (visiting . Session (above ++ [name]) (Just kind))
      Environment make clean inner -> do
        needed <- trySync (evaluate (any wanted (pathsBelow above (inner unmade))))
        -- Names that depend on what is made are not known before.
        when (fromRight True needed) $
          withEnvironment above (inner unmade) make clean (go above against . inner)

    visiting session
      | null (sessionCases session) = pure ()
      | otherwise = visit session

    -- Environments inside alternatives stay open for all of their rounds.
    together path kind against inner continue = case inner of
      [] -> continue []
      Leaf name work : rest ->
        let here = path ++ [name]
         in together path kind against rest (continue . ([Case here work against | wanted here] ++))
      Group name below : rest ->
        together (path ++ [name]) kind against below (\found -> together path kind against rest (continue . (found ++)))
      Together _ name below : rest -> together path kind against (Group name below : rest) continue
      Compared other below : rest ->
        together path kind (Just other) [below] (\found -> together path kind against rest (continue . (found ++)))
      Environment make clean below : rest -> do
        begun <- newRef False
        withEnvironment path (below unmade) make clean (\e -> writeRef begun True >> together path kind against (below e : rest) continue)
        continued <- readRef begun
        unless continued (together path kind against rest continue)

    withEnvironment above names make clean body = mask $ \restore ->
      trySync (restore make) >>= \case
        Left why -> restore $ do
          known <- trySync (let paths = filter wanted (pathsBelow above names) in paths <$ evaluate (length (concat (concat paths))))
          mapM_ (`failed` why) (fromRight [above] known)
        Right e -> do
          -- What ended the benchmarks is thrown, whatever the release says after it.
          () <- restore (body e) `onException` trySync (clean e)
          trySync (clean e) >>= either (failed (above ++ ["release of the environment"])) pure

pathsBelow :: [String] -> Benchmark -> [[String]]
pathsBelow above = \case
  Leaf name _ -> [above ++ [name]]
  Group name inner -> concatMap (pathsBelow (above ++ [name])) inner
  Together _ name inner -> concatMap (pathsBelow (above ++ [name])) inner
  Compared _ inner -> pathsBelow above inner
  Environment _ _ inner -> pathsBelow above (inner unmade)

unmade :: e
unmade = error "Heddle.Measure: the names of benchmarks depend on their environment"

-- | The paths of all benchmarks. An environment is made only if the names below it depend on it.
--
-- [Throws]: what making or releasing such an environment throws.
benchmarkPaths :: [Benchmark] -> IO [[String]]
benchmarkPaths = fmap concat . mapM (go [])
  where
    go above = \case
      Leaf name _ -> pure [above ++ [name]]
      Group name inner -> concat <$> mapM (go (above ++ [name])) inner
      Together _ name inner -> concat <$> mapM (go (above ++ [name])) inner
      Compared _ inner -> go above inner
      Environment make clean inner -> do
        known <- trySync (let names = pathsBelow above (inner unmade) in names <$ evaluate (length (concat (concat names))))
        either (const (bracket make clean (go above . inner))) pure known

-- | How a benchmark ended.
data Outcome
  = -- | What went wrong, as a sentence.
    Failed String
  | Finished !Measured

-- | A benchmark's samples and what they say.
data Measured = Measured
  { samplesOf :: !Samples,
    summary :: !Summary
  }

-- | What is known of a benchmark, for one run of it: times in nanoseconds, memory in bytes.
data Summary = Summary
  { sampleTotal :: !Int,
    iterationsEach :: !Int,
    -- | The midmean of wall time.
    wallTime :: !Interval,
    cpuTime :: !Interval,
    fastest :: !Double,
    medianTime :: !Double,
    deviation :: !Double,
    allocated :: !(Maybe Double),
    copied :: !(Maybe Double),
    collecting :: !(Maybe Double),
    instructions :: !(Maybe Double),
    cacheMisses :: !(Maybe Double),
    outliers :: !Outliers,
    serialCorrelation :: !Double,
    effectiveSamples :: !Double,
    -- | What makes the numbers doubtful, in plain words.
    warnings :: ![String]
  }

-- | The wall time of the loop around one run, in nanoseconds: the least of several samples.
--
-- [Cost]: about 20 ms.
loopOverhead :: Counters -> IO Double
loopOverhead counters = minimum <$> mapM (const once) [1 .. 20 :: Int]
  where
    once = do
      ((), reading) <- measured counters (withEmpty 100000)
      pure (fromIntegral (readWall reading) / 100000)
    withEmpty n = case emptyLoop of
      Benchmarkable make _ loop _ -> make n >>= \e -> loop e n

-- | Run a session: calibrate each benchmark, then take samples in rounds. A benchmark that fails is left out of the
-- following rounds, and the others go on. The action is told the share of the time that has passed.
--
-- [Throws]: asynchronous exceptions only.
runSession :: Settings -> Counters -> Double -> (Double -> IO ()) -> Session -> IO [(Case, Outcome)]
runSession settings counters overhead progress session = do
  performMajorGC
  paces <- mapM pace (sessionCases session) >>= calibrateTogether settings counters
  begun <- mapM start (numbersOfRuns settings (sessionKind session) paces)
  started <- monotonicNow
  ended <- rounds started 0 begun
  mapM conclude ended
  where
    budget = timeLimit settings * 1e9 * fromIntegral (length (sessionCases session))

    pace c = (,) c <$> guarded settings (calibrate settings counters (caseWork c))

    start = \case
      (c, Left why) -> pure (c, Left why)
      (c, Right n) -> do
        table <- newSamples (mostSamples settings)
        pure (c, Right (n, table))

    rounds started number running
      | number >= mostSamples settings || all (isLeft . snd) running = pure running
      | otherwise = do
        now <- monotonicNow
        let Nanos passed = elapsed started now
            share = min 1 (fromIntegral passed / budget)
        progress share
        if share >= 1 && number >= fewestSamples settings
          then pure running
          else do
            let order = shuffled (randomSeed settings + fromIntegral number) (zip [0 :: Int ..] running)
            after' <- mapM (\(i, r) -> (,) i <$> oneSample r) order
            rounds started (number + 1) (map snd (sortOn fst after'))

    oneSample running@(_, Left _) = pure running
    oneSample (c, Right (n, table)) = do
      performMinorGC
      result <- guarded settings (sampleOf counters (caseWork c) n table)
      pure (c, (n, table) <$ result)

    conclude (c, Left why) = pure (c, Failed why)
    conclude (c, Right (n, table)) = do
      s <- summarise settings overhead n table
      s `seq` pure (c, Finished (Measured table s))

isLeft :: Either a b -> Bool
isLeft = either (const True) (const False)

-- | One sample with this number of runs, in a new row.
sampleOf :: Counters -> Benchmarkable -> Int -> Samples -> IO ()
sampleOf counters (Benchmarkable make free loop _) n table =
  bracket (make n) (free n) $ \e -> record table (sampleInto counters n (loop e n))

-- | The time of a benchmark's runs, as calibration has found it.
data Pace = Pace
  { -- | Number of runs in a reading.
    paceRuns :: !Int,
    -- | Time of all readings, in nanoseconds.
    paceSpent :: !Double,
    -- | Wall-clock time of a run, in nanoseconds.
    paceWall :: !Double,
    -- | CPU time of a run, in nanoseconds.
    paceCpu :: !Double
  }

-- | Double the number of runs until a reading is exact; 'Nothing' where a sample has one run. A reading is then a
-- fortieth of a sample, so on a busy machine some are not interrupted.
--
-- [Cost]: the runs of two readings twice, and at least one run.
calibrate :: Settings -> Counters -> Benchmarkable -> IO (Maybe Pace)
calibrate settings counters work@(Benchmarkable _ _ _ alone)
  | alone = Nothing <$ reading 1
  | otherwise = Just <$> go 1
  where
    reading = calibrationReading settings counters work
    go n = do
      first <- reading n
      found <- if isExact first && not (isLong first) then leastOf first <$> reading n else pure first
      if isExact found || n >= 2 ^ (36 :: Int) then pure found else go (2 * n)
    isExact p = fromIntegral (paceRuns p) * paceWall p >= sampleLength settings * 1e6 / 40

-- | The least of five readings of each benchmark, read in turn, and of more while they make a time much shorter. A
-- machine can be several times slower for some milliseconds; were one benchmark read five times and then the next one,
-- alternatives of one speed would seem to differ. So what was read of each one alone does not count.
--
-- [Cost]: five readings of each benchmark, at most sixteen; no more once they have taken half a second.
calibrateTogether :: Settings -> Counters -> [(Case, Either String (Maybe Pace))] -> IO [(Case, Either String (Maybe Pace))]
calibrateTogether settings counters alone = mapM (again afresh) alone >>= go (2 :: Int)
  where
    go number paces = do
      next <- mapM (again leastOf) paces
      if number >= 16 || number >= 5 && not (or (zipWith isShorter paces next)) then pure next else go (number + 1) next
    again merge = \case
      (c, Right (Just p))
        | not (isLong p) ->
          (,) c . fmap (Just . merge p) <$> guarded settings (calibrationReading settings counters (caseWork c) (paceRuns p))
      settled -> pure settled
    isShorter (_, Right (Just p)) (_, Right (Just q)) = paceWall q < 0.8 * paceWall p
    isShorter _ _ = False
    afresh p q = q {paceSpent = paceSpent p + paceSpent q}

-- | One reading of this many runs. It may allocate what a sample may.
calibrationReading :: Settings -> Counters -> Benchmarkable -> Int -> IO Pace
calibrationReading settings counters (Benchmarkable make free loop _) n = do
  allowance settings
  r <- bracket (make n) (free n) (\e -> snd <$> measured counters (loop e n))
  let each field = max 1e-3 (fromIntegral (field r) / fromIntegral n)
  pure (Pace n (fromIntegral (readWall r)) (each readWall) (each readCpu))

leastOf :: Pace -> Pace -> Pace
leastOf (Pace n spent wall cpu) (Pace _ spent' wall' cpu') = Pace n (spent + spent') (min wall wall') (min cpu cpu')

-- | Whether the readings took more than half a second, after which there are no more.
isLong :: Pace -> Bool
isLong p = paceSpent p > 5e8

-- | Number of runs that last as long as a sample should. Alternatives of about one speed have the same number, which the
-- slowest decides: samples of different lengths are interrupted by other programs differently often, and then seem
-- to differ themselves. About one speed is: at most four times the time, by the wall or of the CPU, where no other program counts.
numbersOfRuns :: Settings -> Maybe Together -> [(Case, Either String (Maybe Pace))] -> [(Case, Either String Int)]
numbersOfRuns settings kind paces = case kind of
  Just Alternatives -> zipWith (\i (c, p) -> (c, together i <$> p)) [0 ..] paces
  _ -> [(c, runsOf <$> p) | (c, p) <- paces]
  where
    runsOf = maybe 1 (\p -> max 1 (round (sampleLength settings * 1e6 / paceWall p)))
    together i p = case [members | members <- groups, i `elem` map fst members] of
      members : _ -> minimum (map (runsOf . snd) members)
      [] -> runsOf p
    -- The head of a group is its fastest member.
    groups = foldr grouped [] (sortOn (runsOf . snd) [(i, p) | (i, (_, Right p@(Just _))) <- zip [0 :: Int ..] paces])
    grouped p = \case
      (q : others) : rest | alike (snd p) (snd q) -> (q : p : others) : rest
      group : rest -> group : grouped p rest
      [] -> [[p]]
    alike (Just p) (Just q) = near (paceWall p) (paceWall q) || near (paceCpu p) (paceCpu q)
    alike _ _ = False
    near x y = max x y <= 4 * min x y

-- | Run an action with the limits. What it throws, and running into a limit, becomes a sentence; other exceptions
-- from outside pass.
guarded :: Settings -> IO a -> IO (Either String a)
guarded settings action = fromMaybe (Left late) <$> timeout (round (1e6 * sampleTimeout settings)) limited
  where
    late = "did not end within " ++ show (sampleTimeout settings) ++ " s; if it should take longer, raise --timeout"
    limited = do
      result <- try ((allowance settings >> enableAllocationLimit >> action) `finally` disableAllocationLimit)
      case result of
        Right value -> pure (Right value)
        Left e
          | Just AllocationLimitExceeded <- fromException e ->
            pure (Left ("allocated more than " ++ show (allocationLimit settings `div` 1048576) ++ " MiB in one sample; if it should, raise --allocation-limit"))
          | Just StackOverflow <- fromException e -> pure (Left "overflowed the stack")
          | Just HeapOverflow <- fromException e -> pure (Left "overflowed the heap")
          | isAsynchronous e -> throwIO e
          | otherwise -> pure (Left ("threw: " ++ describeException e))

-- How much this thread may allocate from now on.
allowance :: Settings -> IO ()
allowance settings = setAllocationCounter (fromIntegral (allocationLimit settings))

shuffled :: Word64 -> [a] -> [a]
shuffled seed = map snd . sortOn fst . zip (tail (iterate scramble (scramble seed)))
  where
    scramble x = let y = (x `xor` (x `div` 2147483648)) * 0x9e3779b97f4a7c15 in y `xor` (y `div` 4294967296) + 0x632be59bd9b4e019

-- | Wall times of one run, in the order in which they were measured, without the loop's time.
adjustedTimes :: Double -> Samples -> IO Sample
adjustedTimes overhead table =
  sampleFromList . map (\t -> max 0 (t - overhead)) . maybe [] sampleToList <$> perIteration table Wall

summarise :: Settings -> Double -> Int -> Samples -> IO Summary
summarise settings overhead n table = do
  times <- adjustedTimes overhead table
  cpus <- sampleFromList . map (\t -> max 0 (t - overhead)) . maybe [] sampleToList <$> perIteration table Cpu
  number <- sampleCount table
  let each field = fmap mean <$> perIteration table field
  bytes <- each Allocated
  moved <- each Copied
  gc <- each Gc
  instrs <- each Instructions
  misses <- each CacheMisses
  let seed = Seed (randomSeed settings)
      wall = midmeanInterval seed times
      cpu = midmeanInterval seed cpus
      out = tukeyOutliers times
      watson = durbinWatson times
      effective = effectiveSampleSize times
      spread = if estimate wall > 0 then (upper wall - lower wall) / 2 / estimate wall else 0
      notes =
        ["no time is left when the loop's " ++ short overhead ++ " ns are subtracted: the compiler may have removed the work, or it is nearly nothing" | estimate wall <= 0]
          ++ ["only " ++ show number ++ " samples: the interval is rough; give it more time with --time-limit" | number < 20]
          ++ ["the interval is " ++ show (round (200 * spread) :: Int) ++ "% wide: the machine is busy, or the work varies" | spread > 0.05]
          ++ [show (outlierCount out) ++ " of " ++ show number ++ " samples are outliers: something else used the machine, or the work varies" | 10 * outlierCount out > number]
          ++ [ "neighbouring samples are alike (Durbin-Watson " ++ short watson ++ "): " ++ show number ++ " samples say as much as "
                 ++ show (round effective :: Int)
                 ++ " independent ones; the interval takes it into account"
               | watson < 1.2,
                 effective < fromIntegral number / 3
             ]
  pure
    $! Summary
      { sampleTotal = number,
        iterationsEach = n,
        wallTime = wall,
        cpuTime = cpu,
        fastest = quantile 0 times,
        medianTime = median times,
        deviation = standardDeviation times,
        allocated = fmap (max 0) bytes,
        copied = moved,
        collecting = gc,
        instructions = instrs,
        cacheMisses = misses,
        outliers = out,
        serialCorrelation = watson,
        effectiveSamples = effective,
        warnings = foldr (seq . length) notes notes
      }
  where
    short x = showFFloat (Just 2) x ""
