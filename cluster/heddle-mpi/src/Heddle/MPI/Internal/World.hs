-- |
-- Module      : Heddle.MPI.Internal.World
-- Description : The beginning and the end of a process's part in a job
-- Stability   : internal, exempt from the version policy
--
-- Chooses the implementation, starts it on the engine's thread, runs the program, and ends both on
-- every path. A process that fails ends the whole job.
--
-- Cost: the implementation's start and end, tenths of a second.
-- Owner: the process, which can have one world, once.
module Heddle.MPI.Internal.World
  ( mpi,
    initialized,
    abort,
    implementation,
    tagUpperBound,
    wtime,
    wtick,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_, forever, unless, when)
import Data.Char (isDigit, toLower)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.C.String (peekCString, withCString)
import Foreign.C.Types (CDouble (..), CInt)
import Foreign.Marshal.Alloc (allocaBytes, allocaBytesAligned)
import Foreign.Ptr (nullPtr)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock (milliseconds)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork, forkBound, getCapabilities, getProcessors, nap, setCapabilities, threadedRuntime, unbound)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.Environment (getProgName, lookupEnv)
import System.Exit (ExitCode (..))
import System.IO (BufferMode (..), hFlush, hPutStrLn, hSetBuffering, stderr, stdout)
import Text.Read (readMaybe)

-- | Run a program as part of a job, under the implementation of MPI whose launcher started it;
-- without a launcher, in a world of one process.
--
-- An uncaught exception is reported with the rank and ends the whole job, because the other
-- processes would otherwise wait for ever. So does an exit with a failure. If several ranks fail
-- within a quarter of a second, the job's exit code is the lowest rank's; see
-- Note [Which rank's exit code].
--
-- The program runs on a thread that is not bound to an OS thread, because every hand-over between a bound
-- thread and another one takes tens of microseconds. MPI is started with @MPI_THREAD_MULTIPLE@, so any
-- thread may call it. An exception that is thrown to the caller reaches the program. A library that has to
-- be called from the main OS thread, such as one for windows, is started by 'main' itself, with 'mpi' on
-- another thread.
--
-- [Cost]: the implementation's start and end; a thread if the caller is bound.
-- [Blocks]: at the end, until all processes have reached it.
-- [Throws]: 'MPIError' if the implementation is missing, or the launcher belongs to another one.
-- [Threads]: one at a time, once per process.
-- [Source]: Monad.Reader 19, listing 4.
mpi :: IO a -> IO a
mpi program = mask $ \restore -> do
  which <- chosen
  end <- start which
  rank <- commRank commWorld
  size <- commSize commWorld
  setThisRank (fromIntegral rank)
  mismatch which size >>= mapM_ (\e -> end >> throwIO e)
  result <- try (restore (unbound program))
  hFlush stdout
  joined <- c_joined
  case result of
    Right a -> a <$ (closeShadow commWorld >> closeShadow commSelf >> end)
    Left e
      | Just ExitSuccess <- fromException e -> end >> throwIO e
      -- The runtime reports the exception. MPI's end would wait for spawned or connected processes.
      | size == 1 && joined == 0 -> end >> throwIO e
      | Just (ExitFailure code) <- fromException e -> endAll (graceOf rank) code
      | otherwise -> do
        name <- getProgName
        hSetBuffering stderr (BlockBuffering Nothing)
        hPutStrLn stderr (name ++ ": rank " ++ show rank ++ " of " ++ show size ++ ": " ++ describeException e)
        endAll (graceOf rank + (if isConsequence e then 2000 else 0)) 1
  where
    -- Milliseconds; never 0, because MPICH's launcher takes no more output from a process that
    -- aborts.
    graceOf rank = 5 + 250 * fromIntegral (min 4 rank)
    isConsequence e = (errorClass <$> fromException e) == Just RemoteError
    endAll :: Int -> Int -> IO a
    endAll grace code = do
      hFlush stderr
      nap (milliseconds grace)
      c_abort (fromIntegral code)
      bug "MPI did not end the job"

-- The implementations, with their names in HEDDLE_MPI and their numbers in C.
names :: [(String, CInt)]
names = [("alone", 0), ("none", 0), ("openmpi", 1), ("mpich", 2)]

nameOf :: CInt -> String
nameOf which = case which of
  1 -> "Open MPI"
  2 -> "MPICH"
  _ -> "no MPI"

chosen :: IO CInt
chosen =
  lookupEnv "HEDDLE_MPI" >>= \case
    Just name
      | not (null name) -> case lookup (map toLower name) names of
        Just which -> pure which
        Nothing -> wrong InvalidArgument "mpi" ("HEDDLE_MPI is " ++ show name ++ ", not one of openmpi, mpich, alone")
    _ -> c_guess

-- Start MPI on a new thread, which then becomes the engine; returns the action that ends it.
start :: CInt -> IO (IO ())
start which = do
  available <- c_has_provider which
  when (available == 0) (wrong NoProvider "mpi" ("this program was built without the headers of " ++ nameOf which))
  library <- lookupEnv "HEDDLE_MPI_LIBRARY"
  configure
  let begin' = maybe ($ nullPtr) withCString library (c_begin which)
  if threadedRuntime
    then do
      begun <- newWaitCell
      ended <- newWaitCell
      answer <- newRef Nothing
      thread <- newRef nullPtr
      _ <- forkBound "mpi/engine" . mask_ $ do
        c_thread_begin >>= writeRef thread
        result <- try (check "mpi" begin')
        writeRef answer (Just (result :: Either SomeException ()))
        unpark begun
        when (either (const False) (const True) result) $ do
          engine
          ending <- try (check "finalize" c_end)
          writeRef answer (Just ending)
          unpark ended
      uninterruptibleMask_ (park begun)
      -- The program may end as soon as this returns or throws; see heddle_mpi_engine.c on why its OS thread ends first.
      let gone = readRef thread >>= c_thread_wait
      readRef answer >>= mapM_ (either (\e -> gone >> throwIO e) pure)
      pure $ do
        c_engine_stop
        uninterruptibleMask_ (park ended)
        gone
        tellUnfinished
        readRef answer >>= mapM_ (either throwIO pure)
    else do
      check "mpi" begin'
      poller <- fork "mpi/engine" (forever (pollEngine >> threadDelay 500))
      pure $ do
        throwTo poller ThreadKilled
        check "finalize" c_end
        tellUnfinished

-- The engine's loop: run the continuations of complete operations until the end.
engine :: IO ()
engine = allocaBytesAligned (engineBatch * outcomeBytes) 8 go
  where
    go p = do
      n <- c_engine p (fromIntegral engineBatch) 1
      when (n >= 0) (runOutcomes p (fromIntegral n) >> go p)

-- Set how long waiters test and the number of capabilities, from the environment.
configure :: IO ()
configure = do
  numberFrom 1 256 "capabilities" "HEDDLE_MPI_CAPABILITIES" >>= mapM_ capabilities
  processors <- getProcessors
  local <- localRanks
  let crowded = local > processors
  spin <- microsecondsFrom "HEDDLE_MPI_SPIN" (if crowded then 20 else 1000)
  longest <- microsecondsFrom "HEDDLE_MPI_NAP" 1000
  c_configure (spin * 1000) (longest * 1000) (if crowded then 1 else 0)
  where
    microsecondsFrom name otherwise' = fromMaybe otherwise' <$> numberFrom 0 1000000000 "microseconds" name
    -- The runtime without threads has one capability.
    capabilities wanted = when threadedRuntime $ do
      now <- getCapabilities
      when (now /= fromIntegral wanted) (setCapabilities (fromIntegral wanted))

-- A setting from the environment, if there is one.
numberFrom :: Int64 -> Int64 -> String -> String -> IO (Maybe Int64)
numberFrom least most what name =
  lookupEnv name >>= \case
    Nothing -> pure Nothing
    Just text -> case readMaybe text of
      Just n | n >= toInteger least && n <= toInteger most -> pure (Just (fromInteger n))
      _ -> wrong InvalidArgument "mpi" (name ++ " is " ++ show text ++ ", not a number of " ++ what ++ " from " ++ show least ++ " to " ++ show most)

-- The number of the job's processes on this machine, according to the launcher.
localRanks :: IO Int
localRanks = go ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_TASKS_PER_NODE"]
  where
    go = \case
      [] -> pure 1
      -- Slurm gives a list, such as 4(x2),3, of which the first number is used.
      name : others -> lookupEnv name >>= maybe (go others) (pure . fromMaybe 1 . readMaybe . takeWhile isDigit)

-- Under a launcher that the implementation does not know, processes do not find each other.
mismatch :: CInt -> Int -> IO (Maybe MPIError)
mismatch which size = do
  launched <- fromIntegral <$> c_launched
  pure (if size == 1 && launched > 1 then Just (MPIError LauncherMismatch (-1) "mpi" (text launched) (-1)) else Nothing)
  where
    text launched =
      "the launcher has started " ++ show (launched :: Int) ++ " or more processes, but "
        ++ if which == 0 then "it is not known to be one of MPI" else nameOf which ++ " knows of this one only: it is the launcher of another MPI, or of none"

tellUnfinished :: IO ()
tellUnfinished = do
  sends <- c_unfinished
  when (sends > 0) (tell (show sends ++ " sends that nobody has received were given up"))
  wanted <- lookupEnv "HEDDLE_MPI_LEAKS"
  unless (wanted == Nothing) $
    forM_ (zip [1 ..] ["communicators", "groups", "types", "files", "persistent requests"]) $ \(kind, what) -> do
      open <- c_open_handles kind
      when (open > 0) (tell (show open ++ " " ++ what ++ " were not closed"))
  where
    tell text = do
      name <- getProgName
      rank <- thisRank
      hPutStrLn stderr (name ++ ": rank " ++ show rank ++ ": " ++ text)

-- | Ask if 'mpi' is running.
initialized :: IO Bool
initialized = (/= 0) <$> c_is_running

-- | End all processes of the job at once, with the given exit code.
--
-- [Blocks]: does not return.
abort :: Int -> IO a
abort code = do
  hFlush stdout
  hFlush stderr
  c_abort (fromIntegral code)
  bug "MPI did not end the job"

-- | The name and version of the MPI in use.
--
-- [Throws]: 'MPIError' outside of 'mpi'.
implementation :: IO String
implementation = allocaBytes 8200 $ \p -> check "implementation" (c_version p 8192) >> peekCString p

-- | The greatest tag that the implementation accepts.
--
-- [Throws]: 'MPIError' outside of 'mpi'.
tagUpperBound :: IO Tag
tagUpperBound = do
  n <- c_greatest_tag
  if n < 0 then failWith "tagUpperBound" n else pure (Tag (fromIntegral n))

-- | MPI's clock, in seconds since an arbitrary time in the past.
--
-- [Throws]: 'MPIError' outside of 'mpi'.
wtime :: IO Double
wtime = clockFrom c_clock "wtime"

-- | The resolution of 'wtime' in seconds.
--
-- [Throws]: 'MPIError' outside of 'mpi'.
wtick :: IO Double
wtick = clockFrom c_clock_tick "wtick"

clockFrom :: IO CDouble -> String -> IO Double
clockFrom read' call = do
  CDouble t <- read'
  if t < 0 then wrong NotStarted call "" else pure t

-- Note [Which rank's exit code]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A launcher reports the code of whichever rank aborts first, and then kills the others. If
-- several ranks fail together, that is a race, and the job's exit code would vary between runs.
-- So a failing rank waits before it aborts: a quarter of a second for each rank below it, up to a
-- second, and two seconds more if it only reports another rank's failure (RemoteError). A rank
-- that comes first in this order and fails at the same time has then already ended the job.
-- Failures that are further apart cannot be ordered: the first of them ends the job.
