-- |
-- Module      : FailureTest
-- Description : Ranks that fail, and programs that are started wrongly
--
-- Each case is a separate job, which must end by itself within seconds and report the reason.
module FailureTest
  ( tests,
    failing,
  )
where

import Control.Concurrent (forkIO, myThreadId)
import Control.Monad (forM_, forever, unless, void)
import Data.List (isInfixOf, isPrefixOf)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import Heddle.MPI.Fast qualified as Fast
import Heddle.MPI.Simple
import Heddle.Prim.Exception
import Jobs
import System.Environment (setEnv)
import System.Exit (ExitCode (..), exitWith)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (sigKILL, signalProcess)
import System.Process (readProcess)
import Test.Tasty
import Test.Tasty.HUnit

-- | The part of a rank in a failing job.
failing :: [String] -> IO ()
failing = \case
  ["throws"] -> mpi $ do
    rank <- commRank commWorld
    if rank == 1 then throwIO (userError "the sky is falling") else void (waitForNobody rank)
  ["exits"] -> mpi $ do
    rank <- commRank commWorld
    if rank == 0 then exitWith (ExitFailure 7) else void (waitForNobody rank)
  ["is-killed"] -> mpi $ do
    rank <- commRank commWorld
    if rank == 1 then getProcessID >>= signalProcess sigKILL >> forever (waitForNobody rank) else void (waitForNobody rank)
  -- One rank's value is an exit; the others learn of it in the same collective.
  ["exits-together"] -> mpi $ do
    rank <- commRank commWorld
    barrier commWorld
    void (allgather commWorld (if rank == 1 then throw (ExitFailure 7) else 1 :: Int))
  ["aborts"] -> mpi $ do
    rank <- commRank commWorld
    if rank == 1 then abort 9 else void (waitForNobody rank)
  ["exits-all"] -> mpi $ do
    rank <- commRank commWorld
    barrier commWorld
    exitWith (ExitFailure (20 + fromIntegral rank))
  -- What is thrown to the thread that has called 'mpi' reaches the program, which catches it and goes on.
  ["thrown-to-main"] -> do
    caller <- myThreadId
    mpi $ do
      rank <- commRank commWorld
      _ <- forkIO (throwTo caller (userError "from another thread"))
      caught <- try (waitForNobody rank)
      n <- allreduce commWorld (+) (1 :: Int)
      size <- commSize commWorld
      case caught of
        Left e | n == size -> putStrLn ("caught " ++ show (e :: IOException))
        _ -> throwIO (userError "no exception")
  ["before"] -> void (commSize commWorld)
  ["after"] -> mpi (pure ()) >> void (commSize commWorld)
  ["twice"] -> mpi (pure ()) >> mpi (pure ())
  ["arguments"] -> mpi $ do
    v <- Mutable.replicate 4 (0 :: Int)
    forM_
      [ void (Fast.recvValue commWorld 99 0 :: IO (Int, Status)),
        Fast.sendValue commWorld (-7) 0 (1 :: Int),
        Fast.sendValue commWorld 0 (-5) (1 :: Int),
        Fast.send commWorld 99 0 v,
        void (Fast.recvNew commWorld 0 0 (-1) :: IO (Vector Int, Status)),
        void (Fast.sendInit commWorld 99 0 v)
      ]
      ( \action ->
          trySync action >>= \case
            Left e
              | Just problem <- fromException e,
                errorClass problem `elem` [InvalidRank, InvalidTag, InvalidCount] ->
                pure ()
              | otherwise -> throwIO e
            Right () -> throwIO (userError "nothing was wrong")
      )
    putStrLn "all refused"
  ["world"] -> mpi (pure ())
  ["launcher"] -> setEnv "HEDDLE_MPI" "mpich" >> mpi (pure ())
  role -> throwIO (userError ("no such role: " ++ show role))
  where
    -- A message that nobody sends.
    waitForNobody rank = recv commWorld rank 1 :: IO (Int, Status)

tests :: TestTree
tests =
  testGroup "jobs that fail" $
    [ testGroup
        mpi'
        [ ends mpi' 3 "throws" [1] ["rank 1 of 3", "the sky is falling"],
          ends mpi' 2 "exits" [7] [],
          ends mpi' 3 "exits-together" [7] [],
          killedRank mpi',
          ends mpi' 2 "aborts" [9] [],
          testCase "exitCodeWasThatOfWhoeverAbortedFirst" (mostlyLowest mpi'),
          succeeds mpi' 2 "thrown-to-main" "caught user error (from another thread)",
          ends mpi' 2 "before" [] ["NotStarted"],
          ends mpi' 2 "after" [] ["AlreadyFinished"],
          ends mpi' 2 "twice" [] ["AlreadyFinished"],
          succeeds mpi' 2 "arguments" "all refused"
        ]
      | mpi' <- ["openmpi", "mpich"]
    ]
      ++ [ testGroup
             "alone"
             [ succeeds "alone" 1 "thrown-to-main" "caught user error (from another thread)",
               ends "alone" 1 "before" [] ["NotStarted"],
               ends "alone" 1 "after" [] ["AlreadyFinished"],
               succeeds "alone" 1 "arguments" "all refused"
             ],
           testCase "N processes of a launcher that no MPI knows are not N worlds" . forM_ unknown $ \environment -> do
             result <- runJob (Job "alone" 1 ["--fails", "world"] environment 30)
             assertBool (show environment ++ show' result) ("LauncherMismatch" `isInfixOf` resultErrors result),
           testCase "one process of such a launcher is a world" . forM_ single $ \environment -> do
             result <- runJob (Job "alone" 1 ["--fails", "world"] environment 30)
             assertBool (show environment ++ show' result) (resultExit result == Just ExitSuccess),
           testCase "under PMIx, Open MPI is taken" $ do
             let pmix = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "test"), ("HEDDLE_MPI_LIBRARY", "/nonexistent/libmpi.so")]
             result <- runJob (Job "alone" 1 ["--fails", "world"] pmix 30)
             assertBool (show' result) ("NoLibrary" `isInfixOf` resultErrors result),
           testCase "the launcher of another MPI" $ do
             result <- runJob (Job "openmpi" 2 ["--fails", "launcher"] [] 30)
             -- MPICH 5 ends the process itself.
             assertBool (show' result) (any (`isInfixOf` resultErrors result) ["LauncherMismatch", "unsupported PMI version PMIx"])
         ]

-- What srun and PMIx servers set.
unknown, single :: [[(String, String)]]
unknown =
  [ [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4")],
    [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "test"), ("HEDDLE_MPI", "alone")],
    [("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "test"), ("HEDDLE_MPI", "alone")]
  ]
single =
  [ [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")],
    -- In a batch script, outside a step.
    [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")],
    [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "test"), ("HEDDLE_MPI", "alone")]
  ]

-- The exit code is that of the lowest rank, unless the system has let that wait for a quarter of a second: in 3 of 10 jobs
-- at least.
mostlyLowest :: String -> Assertion
mostlyLowest mpi' = go []
  where
    go codes
      | length (filter (== lowest) codes) == 3 = pure ()
      | length codes == 10 = assertFailure (show codes)
      | otherwise = do
        code <- resultExit <$> runJob (Job mpi' 3 ["--fails", "exits-all"] [] 30)
        assertBool (show code) (code `elem` map (Just . ExitFailure) [20, 21, 22])
        go (code : codes)
    lowest = Just (ExitFailure 20)

-- The job ends by itself, before it is killed after 30 seconds, with one of the given exit codes, if any, and the given words
-- in its output.
ends :: String -> Int -> String -> [Int] -> [String] -> TestTree
ends mpi' n role codes texts = testCase role $ do
  result <- runJob (Job mpi' n ["--fails", role] [] 30)
  case resultExit result of
    Just (ExitFailure code) -> unless (null codes || code `elem` codes) (assertFailure ("code " ++ show code ++ "\n" ++ show' result))
    _ -> assertFailure (show' result)
  forM_ texts $ \text -> assertBool (text ++ " is not in\n" ++ show' result) (text `isInfixOf` resultErrors result)

-- Also where the launcher tells of success: the job ends.
killedRank :: String -> TestTree
killedRank mpi' = testCase "is-killed" $ do
  forgets <- if mpi' == "mpich" then forgetfulLauncher else pure False
  result <- runJob (Job mpi' 3 ["--fails", "is-killed"] [] 60)
  case resultExit result of
    Just ExitSuccess | forgets -> pure ()
    Just (ExitFailure _) -> pure ()
    _ -> assertFailure (show' result)

-- MPICH 4.1 to 4.2 forget the exit code of a killed process when another's end is seen before it is waited for
-- (https://github.com/pmodels/mpich/issues/7057): 4.2.1 in 25 of 100 jobs of a C program.
forgetfulLauncher :: IO Bool
forgetfulLauncher = do
  said <- readProcess "mpiexec.mpich" ["--version"] ""
  pure (or [any (`isPrefixOf` version) ["4.1.", "4.2."] | ["Version:", version] <- words <$> lines said])

succeeds :: String -> Int -> String -> String -> TestTree
succeeds mpi' n role text = testCase role $ do
  result <- runJob (Job mpi' n ["--fails", role] [] 30)
  assertBool (show' result) (resultExit result == Just ExitSuccess && text `isInfixOf` resultOutput result)

show' :: JobResult -> String
show' result = show (resultExit result) ++ "\n" ++ resultOutput result ++ resultErrors result
