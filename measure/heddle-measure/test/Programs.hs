-- | The benchmark programs that the suite starts: this executable with the name of one as its first argument.
module Programs
  ( programs,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (forever)
import CriterionFile qualified
import Data.List (sort)
import Heddle.Measure
import Heddle.Measure.Contender
import Heddle.Measure.Run (Settings (..), defaultSettings)
import Heddle.Measure.Server (threadUse)
import Heddle.Prim.Exception (IOException, bug, evaluate, try)
import System.CPUTime (getCPUTime)
import System.IO (hFlush, stdout)
import System.IO.Error (isFullError)
import System.Posix.Process (getProcessID)
import System.Posix.Resource (Resource (..), ResourceLimit (..), ResourceLimits (..), getResourceLimit, setResourceLimit)
import TastyBenchFile qualified

programs :: [(String, IO ())]
programs =
  [ ("criterion", CriterionFile.main),
    ("tasty-bench", TastyBenchFile.main),
    ("ordinary", short ordinary),
    ("bad", short bad),
    ("bounds", short [bench "one" (whnf sumTo 100), bcompareWithin 0 0.5 "one" (bench "hundredfold" (whnf sumTo 10000))]),
    ("drift", defaultMainWith quick {sampleLength = 0.2} [bench ("exp " ++ show i) (whnf exp (1.5 :: Double)) | i <- [1 .. 1000 :: Int]]),
    -- A sample has so many runs that one run takes nearly nothing, even in a sample that was stopped for a minute.
    ("void", defaultMainWith quick {sampleLength = 100, allocationLimit = 2 ^ (40 :: Int), sampleTimeout = 1000} void),
    ("server", server),
    ("threads-without-descriptors", threadsWithoutDescriptors),
    ("interrupted-naming", interrupted (env (["never named"] <$ here) (\names -> bgroup "dependent" [bench name (whnf sumTo 10) | name <- names]))),
    ("interrupted-making", interrupted (env here (bench "never made" . whnf id))),
    ("interrupted-releasing", interrupted (envWithCleanup (pure ()) (const here) (bench "released" . whnf id))),
    ("interrupted-sample", interrupted (bench "never measured" (whnfIO here))),
    ("interrupted-alternatives", interrupted (versus "together" [bench "one" (whnf sumTo 10), bench "never measured" (whnfIO here)])),
    ("contender", contenderMain (oneNumber "N") [contender "sum" (pure . sumTo), contenderWith "prepared" (\n -> n <$ putStrLn "prepared") (\n _ -> pure (sumTo n)), contender "throws" (const (bug "on purpose"))]),
    ("contender-of-two", contenderMain (twoNumbers "N" "M") [contender "product" (\(n, m) -> n * m <$ putStrLn "done")])
  ]
  where
    short = defaultMainWith quick

quick :: Settings
quick = defaultSettings {timeLimit = 0.03, sampleLength = 1, allocationLimit = 64 * 1048576, sampleTimeout = 2}

sumTo :: Int -> Int
sumTo n = sum [1 .. n]

ordinary :: [Benchmark]
ordinary =
  [ bgroup "group <b>" [bench "sort" (nf sort (reverse [1 .. 50 :: Int])), bench "sum" (whnf sumTo 50)],
    versus "alternatives" [bench "first" (whnf sumTo 100), bgroup "inner" [bench "second" (whnf sumTo 100)]],
    scaling "sizes" [100, 200, 400, 800, 1600, 3200] (whnf sumTo),
    envWithCleanup (putStrLn "made" >> pure 'x') (const (putStrLn "released")) $ \c -> bench "with environment" (whnf succ c),
    env (pure ["late"]) $ \names -> bgroup "dependent" [bench name (whnf sumTo 10) | name <- names]
  ]

bad :: [Benchmark]
bad =
  [ bench "throws" (whnfIO (bug "on purpose" :: IO ())),
    bench "throws late" (whnf (\n -> if n > (0 :: Int) then error "pure" else n) 1),
    bench "allocates" (whnf (\n -> sum [n ..]) (1 :: Integer)),
    bench "waits" (whnfIO (threadDelay 1000000000)),
    envWithCleanup (bug "no environment" :: IO Char) (const (putStrLn "never")) $ \c -> bench "unmade" (whnf succ c),
    envWithCleanup (pure 'x') (const (putStrLn "released")) $ \_ -> bench "inside" (whnfIO (bug "inside" :: IO ())),
    versus "together" [bench "good" (whnf sumTo 100), bench "bad" (whnfIO (bug "one of two" :: IO ())), bench "other" (whnf sumTo 100)],
    bench "nothing" (whnf id ()),
    bench "last" (whnf sumTo 100)
  ]

void :: [Benchmark]
void =
  [ versus "neither" [bench "first" nothing, bench "second" nothing],
    bcompare "neither/first" (bench "after" nothing),
    scaling "sizes" [100, 200, 400, 800, 1600] (const nothing),
    bench "some" (whnf sumTo 1000),
    bcompareWithin 0 0.5 "neither/first" (bench "more" (whnf sumTo 1000)),
    bcompareWithin 2 3 "some" (bench "less" nothing),
    versus "mixed" [bench "first" (whnf sumTo 1000), bench "second" nothing],
    versus "mixed, too" [bench "first" nothing, bench "second" (whnf sumTo 1000)]
  ]
  where
    nothing = toBenchmarkable (const (pure ()))

-- | What a process with the greatest descriptor that it may have learns of its own threads.
threadsWithoutDescriptors :: IO ()
threadsWithoutDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit 0}
  own <- fromIntegral <$> getProcessID
  found <- try (threadUse own)
  putStrLn (either (\e -> if isFullError e then "thrown" else show (e :: IOException)) (const "an answer") found)

-- | A benchmark that waits where somebody is to interrupt it, and one that must not run after that.
interrupted :: Benchmark -> IO ()
interrupted waits = defaultMainWith quick {sampleTimeout = 1000} [waits, bench "after the interrupt" (whnf sumTo 10)]

-- | Say so, and wait for ever.
here :: IO ()
here = putStrLn "here" >> hFlush stdout >> forever (threadDelay 1000000)

-- | For each line of input, some CPU time; answers with how much.
server :: IO ()
server = do
  begun <- getCPUTime
  line <- getLine
  _ <- evaluate (sumTo (read line))
  ended <- getCPUTime
  print ((ended - begun) `div` 1000)
  hFlush stdout
  getLine >>= putStrLn
