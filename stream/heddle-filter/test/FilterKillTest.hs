{-# LANGUAGE OverloadedStrings #-}

-- | Runs that are killed, or whose sinks and sources throw, at any point: threads and commands
-- have ended when the run has, descriptors are closed, and the exception is the right one.
module FilterKillTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad (replicateM_, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import FilterGen (streams)
import FilterHarness
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Heddle.Filter
import System.Directory (removeDirectoryRecursive)
import Test.QuickCheck (Gen, chooseInt, elements, frequency, generate, vectorOf)
import Test.Tasty (TestTree, testGroup, withResource)
import Test.Tasty.HUnit (assertEqual, assertFailure, testCase)

tests :: TestTree
tests =
  withResource newDirectory removeDirectoryRecursive $ \directory ->
    testGroup
      "killed runs"
      [ testCase "30000 runs with threads, killed or failing anywhere, leave nothing" $
          several 30000 (directory >>= mishap threaded (yields <$> chooseInt (0, 150)) 1),
        testCase "10000 failures behind '||' at the time that the run is killed" $
          several 10000 (directory >>= mishap boundaries (yields <$> chooseInt (0, 30)) 1),
        testCase "2500 runs with commands, killed or failing anywhere, leave nothing" $
          several 2500 (directory >>= mishap commands (threadDelay <$> chooseInt (0, 5000)) 1),
        testCase "400 runs with commands, killed twice, leave nothing" $
          several 400 (directory >>= mishap (stubborn ++ commands) (threadDelay <$> chooseInt (0, 4000)) 2)
      ]
  where
    -- A limit for each: closing the descriptors of a child takes as long as the machine's limit of them wants.
    several n run = leavesNothing (replicateM_ n (quickly 60 run))
    yields n = replicateM_ n yield

threaded, boundaries, commands, stubborn :: [ByteString]
threaded =
  [ "upper || lower",
    "id || id || count",
    "select row having \"a\" || head 3",
    "select row having \"a\" numbered",
    "count row having /b+/",
    "foreach row then fields 1 || upper end || numbers",
    "concat (upper || id, id) || zip (id, numbers || id)",
    "replace \"a\" with \"xyz\" || tail 2",
    "lower"
  ]
boundaries = ["upper || id", "id || id || id", "count \"a\" || id"]
commands =
  [ "command \"cat\"",
    "command \"cat\" || command \"cat\" | upper",
    "foreach row then command \"cat\" end | head 2",
    "command \"yes\" | head 50 || id",
    "command \"yes\" | count",
    "command \"sleep 5; true\"",
    "upper || command \"true\"",
    "if row having \"a\" then command \"cat\" else command \"sleep 5\" end"
  ]
-- They do not end when they are asked to.
stubborn = ["command \"trap '' TERM; while :; do sleep 0.1; done\"", "foreach row then command \"trap '' TERM; while :; do sleep 0.1; done\" end"]

data Boom = BoomInSink | BoomInSource
  deriving stock (Eq, Show)

instance Exception Boom

-- A run with something wrong, often: a sink or a source that throws, or a thread that kills it,
-- this many times.
mishap :: [ByteString] -> Gen (IO ()) -> Int -> FilePath -> IO ()
mishap expressions delay kills directory = do
  expression <- generate (elements expressions)
  stage <- stageOf expression
  text <- Bytes.concat <$> generate (chooseInt (1, 20) >>= \n -> vectorOf n streams)
  options <- generate $ do
    jobs <- chooseInt (1, 3)
    block <- elements [16, 64, 4096]
    part <- elements [32, 100]
    pure defaultFilterOptions {filterJobs = jobs, filterBlockSize = block, filterPartSize = part}
  sinkThrows <- generate (sometimes 8)
  sourceThrows <- generate (sometimes 8)
  killed <- generate (elements [True, False])
  wait <- generate (vectorOf kills delay)
  fromFile <- generate (elements [True, False])
  inside <- newIORef (0 :: Int)
  source <- if fromFile then writtenFile directory 0 text else throwingSource inside sourceThrows text
  sink <- throwingSink inside sinkThrows
  result <- newEmptyMVar
  let endless = any (`Bytes.isInfixOf` expression) ["sleep", "yes"]
  running <- mask_ (forkIOWithUnmask (\unmask -> try (unmask (runPlan options (compile stage) [source] sink)) >>= putMVar result))
  -- A stage that does not end by itself is killed.
  when (killed || kills > 1 || endless) $ mapM_ (\w -> w >> void (forkIO (killThread running))) wait
  r <- takeMVar result
  left <- readIORef inside
  assertEqual "threads in sinks and sources" 0 left
  case r of
    Right () -> pure ()
    Left e
      | Just ThreadKilled <- fromException e -> pure ()
      | Just BoomInSink <- fromException e, sinkThrows /= Nothing -> pure ()
      | Just BoomInSource <- fromException e, sourceThrows /= Nothing, not fromFile -> pure ()
      | otherwise -> assertFailure ("an exception of its own: " ++ show e)
  where
    sometimes n = frequency [(1, pure Nothing), (1, Just <$> chooseInt (0, n))]

throwingSink :: IORef Int -> Maybe Int -> IO Sink
throwingSink inside at = do
  count <- newIORef 0
  let step = within inside $ do
        n <- atomicModifyIORef' count (\n -> (n + 1, n))
        when (Just n == at) (throwIO BoomInSink)
  pure (Sink (\piece -> True <$ (step >> evaluate (Bytes.length piece))) step)

throwingSource :: IORef Int -> Maybe Int -> ByteString -> IO Source
throwingSource inside at text = do
  rest <- newIORef text
  count <- newIORef 0
  pure . readerSource "reader" $ \p room -> within inside $ do
    n <- atomicModifyIORef' count (\n -> (n + 1, n))
    when (Just n == at) (throwIO BoomInSource)
    piece <- atomicModifyIORef' rest (\bytes -> let (a, b) = Bytes.splitAt (min 20 room) bytes in (b, a))
    Bytes.unsafeUseAsCStringLen piece (\(from, size) -> copyBytes p (castPtr from) size)
    pure (Bytes.length piece)

-- Count the threads that are in it.
within :: IORef Int -> IO a -> IO a
within inside = bracket_ (change 1) (change (-1))
  where
    change n = atomicModifyIORef' inside (\k -> (k + n, ()))
