-- |
-- Module      : Jobs
-- Description : Starts jobs, and turns their results into tests
-- Stability   : internal to the tests
--
-- One job runs all cases for its number of ranks under one MPI; after a failure another job
-- continues after the case that failed. A job is killed when no case has ended for a minute; on a busy machine all of them may
-- take several.
--
-- Owner: the test program; every job has ended when a test has.
module Jobs
  ( jobTests,
    Job (..),
    runJob,
    runProgram,
    JobResult (..),
    implementations,
    writeProgram,
  )
where

import Control.Concurrent (killThread, threadDelay)
import Control.Concurrent.MVar
import Control.Monad (forM, unless, void)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Text
import Data.Either (fromRight)
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork)
import Ranks
import System.Directory (createDirectoryIfMissing, doesFileExist, getFileSize, getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (getEnvironment, getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL, signalProcessGroup)
import System.Process
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit (assertFailure, testCaseInfo)

-- | A job to start.
data Job = Job
  { -- | @alone@ needs no launcher.
    jobMpi :: !String,
    jobRanks :: !Int,
    -- | Of this program.
    jobArguments :: ![String],
    jobEnvironment :: ![(String, String)],
    -- | Seconds, after which it is killed; each progress begins them again.
    jobLimit :: !Int
  }

-- | The result of a job; 'Nothing' if it was killed.
data JobResult = JobResult
  { resultExit :: !(Maybe ExitCode),
    resultOutput :: !String,
    resultErrors :: !String
  }

-- | The MPIs that are tested.
implementations :: [String]
implementations = ["openmpi", "mpich", "alone"]

-- | Start a job of this program and wait for it.
runJob :: Job -> IO JobResult
runJob = runWatched (pure [])

-- Its progress is seen where this returns something else.
runWatched :: IO [Integer] -> Job -> IO JobResult
runWatched progress job = getExecutablePath >>= \self -> runProgramWatched progress self job

-- | Start a job of any program and wait for it.
runProgram :: FilePath -> Job -> IO JobResult
runProgram = runProgramWatched (pure [])

runProgramWatched :: IO [Integer] -> FilePath -> Job -> IO JobResult
runProgramWatched progress self job = do
  nothing <- openFile "/dev/null" ReadMode
  inherited <- getEnvironment
  let -- A job started inside a job would otherwise join the outer one.
      clean = [e | e@(name, _) <- inherited, not (any (`isPrefixOf` name) ["OMPI_", "PMI", "HEDDLE_MPI", "HYDI_", "MPIR_", "SLURM_"])]
      environment = jobEnvironment job ++ clean
      (command, arguments)
        | jobMpi job == "alone" = (self, jobArguments job)
        | otherwise = ("heddle-mpirun", ["--mpi", jobMpi job, "-n", show (jobRanks job), self] ++ jobArguments job)
      process =
        (proc command arguments)
          { env = Just environment,
            std_in = UseHandle nothing,
            std_out = CreatePipe,
            std_err = CreatePipe,
            create_group = True
          }
  withCreateProcess process $ \_ out err handle -> do
    output <- collect out
    errors <- collect err
    ended <- newEmptyMVar
    _ <- fork "test/wait" (waitForProcess handle >>= putMVar ended . Just)
    _ <- fork "test/limit" (progress >>= limit (jobLimit job) >> putMVar ended Nothing)
    code <- takeMVar ended
    case code of
      Nothing -> getPid handle >>= mapM_ (trySync . signalProcessGroup sigKILL)
      Just _ -> pure ()
    JobResult code <$> output <*> errors
  where
    limit left seen
      | left == 0 = pure ()
      | otherwise = do
        threadDelay 1000000
        now <- progress
        limit (if now == seen then left - 1 else jobLimit job) now
    -- What gives all that was written. The ranks of a launcher that was killed may live on and keep the pipe open, so it
    -- waits for its end half a minute; the reader must have ended before the pipe is closed.
    collect from = do
      parts <- newRef []
      done <- newEmptyMVar
      let go h = do
            part <- Bytes.hGetSome h 65536
            unless (Bytes.null part) (readRef parts >>= writeRef parts . (part :) >> go h)
      reader <- fork "test/read" (mapM_ go from `finally` putMVar done ())
      pure $ do
        ended <- timeout 30000000 (takeMVar done)
        killThread reader
        got <- Text.unpack . Bytes.concat . reverse <$> readRef parts
        pure (maybe (got ++ "\n(it was not closed)\n") (const got) ended)

-- | Write a script that can be started. Another process writes it: what a test beside this one starts at that moment would
-- inherit a descriptor of ours, and no program can be started that is open for writing.
writeProgram :: FilePath -> String -> IO ()
writeProgram file text = void (readProcess "sh" ["-c", "cat > \"$0\" && chmod u+x \"$0\"", file] text)

-- | A test for each case that a world of that size runs.
jobTests :: [Case] -> [TestTree]
jobTests cases =
  [ testGroup mpi [withResource (verdicts mpi n) (const (pure ())) (testsOf n) | n <- sizes mpi]
    | mpi <- implementations
  ]
  where
    sizes mpi = if mpi == "alone" then [1] else [1 .. 4]
    testsOf n get =
      testGroup
        (show n ++ if n == 1 then " rank" else " ranks")
        [testCaseInfo (caseName c) (get >>= judge i) | (i, c) <- zip [0 ..] cases, n `elem` caseSizes c]
    judge i results = case lookup i results of
      Just Passed -> pure ""
      Just (LeftOut text) -> pure ("left out: " ++ text)
      Just (Failed text) -> assertFailure text
      Just Began -> assertFailure "it did not end"
      Nothing -> assertFailure ("it did not begin" ++ maybe "" (\f -> ": " ++ show f) (lookup (-1) results))
    verdicts mpi n = do
      temporary <- getTemporaryDirectory
      pid <- getProcessID
      let directory = temporary ++ "/heddle-mpi-test-" ++ show pid ++ "-" ++ mpi ++ "-" ++ show n
      createDirectoryIfMissing True directory
      goFrom mpi n directory 0 `finally` removeDirectoryRecursive directory
    -- The verdicts of all ranks, including those of the jobs started after failures.
    goFrom = goAgain Nothing
    -- On a loaded machine Open MPI sometimes fails to spawn (MPI_ERR_INTERN); a case that ends so is run once more.
    goAgain again mpi n directory from = do
      let path = directory ++ "/from-" ++ show (from :: Int) ++ (if again == Just from then "-again" else "")
      let verdictsOf r = path ++ "." ++ show r
          written = forM [0 .. n - 1] (fmap (fromRight 0) . trySync . getFileSize . verdictsOf)
      result <- runWatched written (Job mpi n ["--cases", path, show from] [("HEDDLE_MPI_LEAKS", "1")] 300)
      ranks <- forM [0 .. n - 1] $ \r -> do
        let file = verdictsOf r
        there <- doesFileExist file
        if there then readVerdicts file else pure []
      let merged = [(i, worst [lastOf i rank | rank <- ranks]) | (i, c) <- zip [0 ..] cases, n `elem` caseSizes c, i >= from, any (any ((== i) . fst)) ranks]
          bad = [i | (i, v) <- merged, isBad v]
          outside = [(-1, Failed (told result)) | resultExit result /= Just ExitSuccess || leaks result]
      case bad of
        i : _
          | again /= Just i,
            text : _ <- [text | (k, Failed text) <- concat ranks, k == i, couldNotSpawn text] -> do
            hPutStrLn stderr ("\n" ++ mpi ++ ": " ++ caseName (cases !! i) ++ ": " ++ text ++ "; it is run once more")
            ([(k, v) | (k, v) <- merged, k < i] ++) <$> goAgain (Just i) mpi n directory i
          | otherwise -> do
            let explained = [(k, if k == i then explain result v else v) | (k, v) <- merged, k <= i]
            (explained ++) <$> goFrom mpi n directory (i + 1)
        []
          | null outside -> pure merged
          | otherwise -> pure (outside ++ [(k, if k == last' merged then Failed (told result) else v) | (k, v) <- merged])
    couldNotSpawn text = "spawn" `isPrefixOf` text && "MPI_ERR_INTERN" `isInfixOf` text
    last' merged = maximum (-1 : map fst merged)
    lastOf i rank = case [v | (k, v) <- rank, k == i] of
      [] -> Began
      vs -> last vs
    worst vs = case [v | v@(Failed _) <- vs] of
      v : _ -> v
      [] -> if Began `elem` vs then Began else head ([v | v@(LeftOut _) <- vs] ++ [Passed])
    isBad = \case
      Failed _ -> True
      Began -> True
      _ -> False
    explain result = \case
      Failed text -> Failed text
      _ -> Failed ("it did not end on every rank; " ++ told result)
    leaks result = "were not closed" `elem'` resultErrors result
    elem' needle text = any (needle `isPrefixOf`) (tails' text)
    tails' text = if null text then [] else text : tails' (drop 1 text)
    told result =
      "the job ended with " ++ maybe "a kill, for it took too long" show (resultExit result) ++ "\n" ++ resultOutput result ++ resultErrors result
