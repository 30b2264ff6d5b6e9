-- |
-- Module      : LauncherTest
-- Description : heddle-mpirun: what it starts, and what it refuses
--
-- Jobs of shells, which any launcher starts as it does programs with MPI.
module LauncherTest
  ( tests,
    cases,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_)
import Data.Char (digitToInt)
import Data.List (isInfixOf, isPrefixOf, sort)
import Heddle.Prim.Exception (finally, trySync)
import Heddle.Prim.Thread (getCapabilities)
import Jobs (writeProgram)
import Ranks (Case, anywhere, (===))
import System.Directory
import System.Environment (getEnvironment, lookupEnv)
import System.Exit (ExitCode (..))
import System.IO (hClose, hGetLine)
import System.Posix.Files (createSymbolicLink)
import System.Posix.Process (getProcessID)
import System.Posix.Signals (Signal, nullSignal, sigINT, sigKILL, sigTERM, signalProcess, signalProcessGroup)
import System.Process
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

-- | In a job: the capabilities are those that the launcher wants, whatever the program was linked with.
cases :: [Case]
cases =
  [ anywhere "the launcher says how many capabilities there are" $
      lookupEnv "HEDDLE_MPI_CAPABILITIES" >>= mapM_ (\wanted -> getCapabilities >>= \n -> show n === wanted)
  ]

-- | The command itself.
tests :: TestTree
tests =
  testGroup
    "heddle-mpirun"
    ( [ testGroup mpi (map ($ mpi) [arguments, runtimeOptions, directory, crowd, exitCode, interrupted "Ctrl-C" sigINT, interrupted "SIGTERM" sigTERM])
        | mpi <- ["openmpi", "mpich"]
      ]
        ++ [choice, releases, settings, quickJobs, quoting, refusals, help]
    )

-- Running ---------------------------------------------------------------------

-- Variables of an outer job, and of the user's settings.
clean :: [(String, String)] -> [(String, String)]
clean = filter (\(name, _) -> not (any (`isPrefixOf` name) ["OMPI_", "PMI", "HEDDLE_MPI", "HYDI_", "MPIR_", "SLURM_"]))

runIn :: Maybe FilePath -> [(String, String)] -> [String] -> IO (ExitCode, String, String)
runIn folder more given = do
  inherited <- clean <$> getEnvironment
  command <- findExecutable "heddle-mpirun" >>= maybe (assertFailure "heddle-mpirun is not on the PATH") pure
  let environment = more ++ filter ((`notElem` map fst more) . fst) inherited
      process = (proc command given) {env = Just environment, cwd = folder}
  readAgain (timeout 60000000 (readCreateProcessWithExitCode process "") >>= maybe (assertFailure (unwords given ++ ": did not end")) pure)

-- MPICH's launcher tells its helpers of the end of standard input when they may have ended. It then dies of SIGPIPE: MPICH
-- 4.0.2's in 2 of 900 jobs of nine /bin/true. Or, where it ignores that, it ends with 255: on a loaded machine in 11 of 300
-- jobs of one /bin/true. The job has succeeded nevertheless, so it is run again.
readAgain :: IO (ExitCode, String, String) -> IO (ExitCode, String, String)
readAgain act = attempt (1 :: Int)
  where
    attempt n =
      act >>= \case
        (ExitFailure (-13), _, _) | n < 5 -> attempt (n + 1)
        (ExitFailure 255, _, err) | n < 5, "HYDU_sock_write" `isInfixOf` err -> attempt (n + 1)
        (ExitSuccess, out, err) -> pure (ExitSuccess, out, unlines (filter (not . toldTooLate) (lines err)))
        result -> pure result

-- Where it does not die, it may say that it could not tell its helper of the end of standard input: that one has ended, and
-- the job has succeeded.
toldTooLate :: String -> Bool
toldTooLate line = "[mpiexec@" `isPrefixOf` line && any (`isInfixOf` line) ["HYDU_sock_write", "send_hdr_downstream"]

run :: [String] -> IO (ExitCode, String, String)
run = runIn Nothing []

withFolder :: String -> (FilePath -> IO a) -> IO a
withFolder name use = do
  temporary <- getTemporaryDirectory >>= canonicalizePath
  pid <- getProcessID
  let folder = temporary ++ "/heddle-mpirun-test-" ++ name ++ "-" ++ show pid
  createDirectoryIfMissing True folder
  use folder `finally` removeDirectoryRecursive folder

-- Jobs ------------------------------------------------------------------------

arguments, runtimeOptions, directory, crowd, exitCode :: String -> TestTree
arguments mpi = testCase "arguments arrive as they are" $ do
  let odd' = ["a b", "", "-n", "--help", "it's", "$HOME", "é", "a:b"]
  (code, out, err) <- run (["--mpi", mpi, "-n", "2", "sh", "-c", "printf '%s\\n' \"$#\" \"$@\"", "sh"] ++ odd')
  (code, err) @?= (ExitSuccess, "")
  sort (lines out) @?= sort (concat (replicate 2 (show (length odd') : odd')))
runtimeOptions mpi = testCase "launcherTookTheProgramsRuntimeOptions" $ do
  let given = ["+RTS", "-A1m", "--no-such-flag", "-RTS"]
  (code, out, err) <- runIn Nothing [("GHCRTS", "--no-such-flag")] (["--mpi", mpi, "-n", "2", "sh", "-c", "echo \"$GHCRTS $*\"", "sh"] ++ given)
  (code, err) @?= (ExitSuccess, "")
  lines out @?= replicate 2 (unwords ("--no-such-flag" : given))
directory mpi = testCase "the working directory is the caller's, and a program there is found" $
  withFolder ("directory-" ++ mpi) $ \folder -> do
    let script = folder ++ "/a program"
    writeProgram script "#!/bin/sh\npwd\n"
    forM_ ["a program", "./a program", script] $ \name -> do
      (code, out, err) <- runIn (Just folder) [] ["--mpi", mpi, "-n", "2", name]
      (code, err, lines out) @?= (ExitSuccess, "", [folder, folder])
crowd mpi = testCase "more processes than cores" $ do
  (code, out, err) <- run ["--mpi", mpi, "-n", "9", "sh", "-c", "echo $HEDDLE_MPI $HEDDLE_MPI_CAPABILITIES"]
  (code, err, lines out) @?= (ExitSuccess, "", replicate 9 (mpi ++ " 1"))
exitCode mpi = testCase "the job's exit code" $ do
  (code, _, _) <- run ["--mpi", mpi, "-n", "2", "sh", "-c", "exit 7"]
  code @?= ExitFailure 7

-- heddle-mpirun becomes the launcher, so the caller's signals reach it, and the job ends with it.
interrupted :: String -> Signal -> String -> TestTree
interrupted name signal mpi = testCase (name ++ " ends the job") $ do
  inherited <- clean <$> getEnvironment
  let process = (proc "heddle-mpirun" ["--mpi", mpi, "-n", "2", "sh", "-c", "echo $$; exec sleep 1000"]) {env = Just inherited, std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe, create_group = True}
  withCreateProcess process $ \into out _ handle -> do
    mapM_ hClose into
    started <- timeout 30000000 (mapM (\h -> (\a b -> map read [a, b]) <$> hGetLine h <*> hGetLine h) out)
    pid <- getPid handle
    case (started, pid) of
      (Just (Just ranks), Just launcher) -> do
        signalProcess signal launcher
        ended <- timeout 30000000 (waitForProcess handle)
        -- The exit code depends on which process notices first; MPICH's launcher may report success.
        if ended == Nothing then signalProcessGroup sigKILL launcher >> assertFailure "it did not end" else gone (ranks :: [Int])
      _ -> mapM_ (signalProcessGroup sigKILL) pid >> assertFailure "the job did not start"
  where
    -- The launcher may be done just before its processes are.
    gone ranks = timeout 60000000 (waitGone ranks) >>= maybe (assertFailure "a rank lives on") pure
    waitGone ranks = do
      living <- or <$> mapM (fmap (either (const False) (const True)) . trySync . signalProcess nullSignal . fromIntegral) ranks
      if living then threadDelay 10000 >> waitGone ranks else pure ()

-- Choices ---------------------------------------------------------------------

-- Folders with links to none, one or both launchers.
choice :: TestTree
choice = testCase "the launcher that is there; of two, Open MPI's, or the one that is asked for" $
  withFolder "choice" $ \folder -> do
    let launchers = [("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.mpich")]
    forM_ [("openmpi", ["openmpi"]), ("mpich", ["mpich"]), ("both", ["openmpi", "mpich"]), ("none", [])] $ \(name, which) -> do
      createDirectory (folder ++ "/" ++ name)
      forM_ [file | (mpi, file) <- launchers, mpi `elem` which] $ \file ->
        findExecutable file >>= mapM_ (\path -> createSymbolicLink path (folder ++ "/" ++ name ++ "/" ++ file))
    let chosen name more given = runIn Nothing (("PATH", folder ++ "/" ++ name) : more) (["--show"] ++ given ++ ["-n", "2", "/bin/sh"])
        starts mpi (code, out, err) = do
          (code, err) @?= (ExitSuccess, "")
          assertBool out (("HEDDLE_MPI=" ++ mpi ++ " ") `isInfixOf` out)
        refused text (code, _, err) = do
          code @?= ExitFailure 2
          assertBool err (text `isInfixOf` err)
    chosen "openmpi" [] [] >>= starts "openmpi"
    chosen "mpich" [] [] >>= starts "mpich"
    chosen "both" [] [] >>= starts "openmpi"
    chosen "both" [] ["--mpi", "mpich"] >>= starts "mpich"
    chosen "both" [("HEDDLE_MPI", "mpich")] [] >>= starts "mpich"
    chosen "both" [("HEDDLE_MPI", "mpich")] ["--mpi", "openmpi"] >>= starts "openmpi"
    chosen "none" [] [] >>= refused "there is no launcher of any MPI on the PATH"
    chosen "mpich" [] ["--mpi", "openmpi"] >>= refused "apt-get install openmpi-bin"
    chosen "openmpi" [("HEDDLE_MPI", "mpich")] [] >>= refused "apt-get install mpich"

-- Launchers that say of themselves what those of several releases do.
releases :: TestTree
releases = testCase "openMpi4GotTheSettingsOfAnotherRelease" $
  withFolder "releases" $ \folder ->
    forM_ told $ \(text, setting) -> do
      let launcher = folder ++ "/mpirun.openmpi"
      writeProgram launcher ("#!/bin/sh\necho '" ++ text ++ "'\n")
      (code, out, err) <- runIn Nothing [("PATH", folder)] ["--show", "-n", "2", "/bin/sh"]
      (code, err) @?= (ExitSuccess, "")
      assertBool (text ++ ": " ++ out) ((" " ++ setting ++ "=") `isInfixOf` out)
  where
    told =
      [ ("mpirun.openmpi (OpenRTE) 4.1.4", "OMPI_MCA_rmaps_base_oversubscribe"),
        ("mpirun.openmpi (Open MPI) 5.0.7", "PRTE_MCA_rmaps_default_mapping_policy"),
        ("prterun (PRRTE) 3.0.8", "PRTE_MCA_rmaps_default_mapping_policy"),
        ("mpirun.openmpi (Open MPI) 6.0.0rc2", "PRTE_MCA_mapby"),
        ("a launcher without a version", "PRTE_MCA_mapby")
      ]

settings :: TestTree
settings = testCase "an option comes before its variable, a variable before what is usual" $ do
  let shown more given = do
        (code, out, err) <- runIn Nothing more (given ++ ["--mpi", "mpich", "-n", "2", "sh", "-c", "echo $HEDDLE_MPI_CAPABILITIES,$HEDDLE_MPI_SPIN,$MPIR_CVAR_POLLS_BEFORE_YIELD"])
        (code, err) @?= (ExitSuccess, "")
        pure (lines out)
  shown [("HEDDLE_MPI_CAPABILITIES", "3"), ("MPIR_CVAR_POLLS_BEFORE_YIELD", "5")] [] >>= (@?= ["3,,5", "3,,5"])
  shown [("HEDDLE_MPI_CAPABILITIES", "3")] ["--capabilities", "4", "--spin", "70"] >>= (@?= ["4,70,", "4,70,"])

-- Seen with MPICH 4.2 on a busy machine: one quick job in five ended by SIGPIPE, because its launcher told processes that
-- had ended of the end of their standard input.
quickJobs :: TestTree
quickJobs = testCase "aQuickJobOfMpichEndedBySigPipe" $ do
  (code, out, err) <- run ["--mpi", "mpich", "-n", "1", "sh", "-c", script]
  (code, err) @?= (ExitSuccess, "")
  map ignoresSigPipe (lines out) @?= [False, True]
  where
    -- The signals that a process ignores: of the shell itself, and of the launcher, which is its parent's parent.
    script = "for p in $$ $(sed -n 's/^PPid:.//p' /proc/$PPID/status); do sed -n 's/^SigIgn:.//p' /proc/$p/status; done"
    -- Signal 13 is bit 12 of the mask: the last bit of the fourth hexadecimal digit from the right.
    ignoresSigPipe mask = odd (digitToInt (reverse mask !! 3))

quoting :: TestTree
quoting = testCase "--show prints what a shell runs" $ do
  (code, out, err) <- run ["--show", "--mpi", "mpich", "-n", "2", "sh", "-c", "printf '%s|' \"$@\"", "sh", "a b", "it's", ""]
  (code, err) @?= (ExitSuccess, "")
  (code', out', _) <- readAgain (readProcessWithExitCode "sh" ["-c", out] "")
  (code', sort out') @?= (ExitSuccess, sort (concat (replicate 2 "a b|it's||")))

refusals :: TestTree
refusals =
  testGroup
    "exit code 2, and what is wrong"
    [ refused "no arguments" [] "Usage: heddle-mpirun",
      refused "no program" ["-n", "2"] "PROGRAM",
      refused "no number of processes" ["sh"] "-n|--ranks N",
      refused "no processes" ["-n", "0", "sh"] "not a number of processes",
      refused "not a number" ["-n", "two", "sh"] "not a number of processes",
      refused "more than a machine word" ["-n", "18446744073709551618", "sh"] "not a number of processes",
      refused "negative spin" ["--spin", "-1", "-n", "2", "sh"] "not a number of microseconds",
      refused "another MPI" ["--mpi", "lam", "-n", "2", "sh"] "not openmpi or mpich: lam",
      refused "a program that is nowhere" ["-n", "2", "no-such-program"] "there is no program no-such-program on the PATH",
      refused "a path that leads nowhere" ["-n", "2", "./no/such"] "there is no program ./no/such.",
      refused "a directory" ["-n", "2", "/"] "/ is a directory",
      testCase "a file that is no program" . withFolder "refusals" $ \folder -> do
        let file = folder ++ "/text"
        writeFile file "text\n"
        refuses ["-n", "2", file] ("chmod +x " ++ file),
      refused "a colon, which would begin another program" ["-n", "2", "sh", ":", "sh"] "there is no way to pass it on"
    ]
  where
    refused name given text = testCase name (refuses given text)
    refuses given text = do
      (code, out, err) <- run given
      (code, out) @?= (ExitFailure 2, "")
      assertBool err (text `isInfixOf` err)

help :: TestTree
help = testCase "--help tells of the variables" $ do
  (code, out, err) <- run ["--help"]
  (code, err) @?= (ExitSuccess, "")
  forM_ ["HEDDLE_MPI_LIBRARY", "HEDDLE_MPI_CAPABILITIES", "HEDDLE_MPI_SPIN", "HEDDLE_MPI_NAP", "HEDDLE_MPI_LEAKS", "OMPI_MCA_"] $ \name ->
    assertBool name (name `isInfixOf` out)
