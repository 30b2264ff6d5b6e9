-- |
-- Module      : Heddle.MPI.Internal.Error
-- Description : What goes wrong
-- Stability   : internal, exempt from the version policy
--
-- One exception, with the class of the error, the call, and what the implementation says.
--
-- Cost: nothing where nothing goes wrong but a comparison for each call.
module Heddle.MPI.Internal.Error
  ( MPIError (..),
    ErrorClass (..),
    errorFrom,
    failWith,
    check,
    wrong,

    -- * In collectives
    agreed,
    disagreement,

    -- * Whose error
    thisRank,
    setThisRank,
  )
where

import Control.Monad (when)
import Data.Word (Word8)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Storable (pokeByteOff)
import Heddle.MPI.Internal.Foreign
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)

-- | What kind of error it is: those of the standard, in its order, and Heddle's own.
data ErrorClass
  = -- | No error at all; never thrown.
    Success
  | InvalidBuffer
  | InvalidCount
  | InvalidType
  | InvalidTag
  | InvalidCommunicator
  | InvalidRank
  | InvalidRequest
  | InvalidRoot
  | InvalidGroup
  | InvalidOperator
  | InvalidTopology
  | InvalidDimensions
  | -- | Another argument is wrong.
    InvalidArgument
  | UnknownError
  | -- | A message is longer than what it was to be received into.
    Truncated
  | OtherError
  | -- | An error inside of the implementation.
    InternalError
  | Pending
  | AccessDenied
  | InvalidFileMode
  | BadFileName
  | DuplicateRepresentation
  | FileExists
  | FileInUse
  | InvalidFile
  | InvalidInfo
  | InputOutput
  | NotTheSame
  | NoSpace
  | NoSuchFile
  | InvalidPort
  | QuotaExceeded
  | ReadOnlyFile
  | InvalidService
  | -- | Processes could not be started.
    SpawnFailed
  | UnsupportedRepresentation
  | UnsupportedOperation
  | OutOfMemory
  | InvalidName
  | -- | Before 'Heddle.MPI.mpi'.
    NotStarted
  | -- | After 'Heddle.MPI.mpi': a process can be in one world only, once.
    AlreadyFinished
  | -- | A communicator, a file, a type that was closed.
    AlreadyClosed
  | -- | This implementation cannot do that.
    Unsupported
  | -- | More elements than this call can carry.
    TooLarge
  | -- | The implementation's library cannot be opened.
    NoLibrary
  | -- | The program was built without the headers of that implementation.
    NoProvider
  | -- | The implementation is without support for threads.
    NoThreads
  | -- | Processes were started by the launcher of another implementation, or of none.
    LauncherMismatch
  | -- | Bytes that are no value of the type wanted.
    DecodeError
  | -- | Another process could not do its part of a collective.
    RemoteError
  | -- | A message is not a whole number of elements.
    SizeMismatch
  | -- | The operation was cancelled.
    Cancelled
  | -- | A static closure or a compact region comes from another program.
    BuildMismatch
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | An operation failed. The communicator stays usable, as far as the implementation says so.
data MPIError = MPIError
  { errorClass :: !ErrorClass,
    -- | The implementation's code; negative for errors of Heddle's own.
    errorCode :: !Int,
    -- | What was called.
    errorCall :: !String,
    -- | What the implementation says.
    errorText :: !String,
    -- | The rank in the world of the process that met the error; -1 outside of a world.
    errorRank :: !Int
  }
  deriving stock (Eq, Show)

instance Exception MPIError where
  displayException e =
    errorCall e ++ who ++ ": " ++ explanation ++ " (" ++ show (errorClass e) ++ code ++ ")" ++ advice (errorClass e)
    where
      who = if errorRank e >= 0 then " on rank " ++ show (errorRank e) else ""
      code = if errorCode e > 0 then ", code " ++ show (errorCode e) else ""
      explanation = if null (errorText e) then meaning (errorClass e) else errorText e

-- What an error of Heddle's own means, where nothing else is known.
meaning :: ErrorClass -> String
meaning = \case
  NotStarted -> "there is no world yet"
  AlreadyFinished -> "the world has ended"
  AlreadyClosed -> "this object has been closed"
  Unsupported -> "not supported by this implementation of MPI"
  TooLarge -> "too many elements for this call"
  OutOfMemory -> "out of memory"
  NoThreads -> "the implementation grants less than MPI_THREAD_MULTIPLE"
  NoProvider -> "this program was built without the headers of that implementation of MPI"
  c -> show c

advice :: ErrorClass -> String
advice = \case
  NotStarted -> ".\n  Communicate inside of mpi."
  AlreadyFinished -> ".\n  A process can call mpi once; everything that communicates belongs inside."
  NoLibrary -> ".\n  Install it (Debian: openmpi-bin, or mpich), or name the file in HEDDLE_MPI_LIBRARY."
  NoProvider -> ".\n  Install libopenmpi-dev or libmpich-dev, and build heddle-mpi again."
  LauncherMismatch ->
    ".\n  Start it with heddle-mpirun, or with the launcher of the same MPI; HEDDLE_MPI says which that is."
      ++ "\n  Slurm: srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH."
  _ -> ""

-- The order of enum heddle_mpi_error.
ownClasses :: [ErrorClass]
ownClasses =
  [NotStarted, AlreadyFinished, AlreadyClosed, Unsupported, TooLarge, OutOfMemory, NoLibrary, NoProvider, InvalidArgument, NoThreads]

-- | The exception for a code, other than 0.
errorFrom :: String -> CInt -> IO MPIError
errorFrom call code = do
  class' <- fromIntegral <$> c_error_class code
  text <- allocaBytes 1024 $ \p -> do
    pokeByteOff p 0 (0 :: Word8)
    c_error_text code p 1024
    peekCString p
  MPIError (classOf class') (fromIntegral code) call text <$> thisRank
  where
    classOf n
      | n >= 0 && n < fromEnum NotStarted = toEnum n
      | n < 0 && negate n <= length ownClasses = ownClasses !! (negate n - 1)
      | otherwise = OtherError

-- | Throw it.
failWith :: String -> CInt -> IO a
failWith call code = errorFrom call code >>= throwIO

-- | Throw, unless the code is 0.
check :: String -> IO CInt -> IO ()
check call action = action >>= \code -> when (code /= 0) (failWith call code)
{-# INLINE check #-}

-- | An error that is found before MPI is called, or behind it.
wrong :: ErrorClass -> String -> String -> IO a
wrong class' call text = thisRank >>= throwIO . MPIError class' (-1) call text

-- | What a collective throws although its messages are complete on this rank: either all ranks
-- have agreed to fail, or nothing was sent. Any other exception leaves it unfinished. Only
-- 'Heddle.MPI.Internal.Types.collectively' catches this.
newtype Agreed = Agreed SomeException

instance Show Agreed where
  showsPrec d (Agreed e) = showsPrec d e

instance Exception Agreed where
  displayException (Agreed e) = displayException e

-- | What this throws is agreed.
agreed :: IO a -> IO a
agreed action = trySync action >>= either (throwIO . Agreed) pure

-- | The exception for the caller of a collective, and whether the collective is unfinished.
disagreement :: SomeException -> (SomeException, Bool)
disagreement e = case fromException e of
  Just (Agreed inner) -> (inner, False)
  Nothing -> (e, True)

-- | This process's rank in the world, for messages; -1 outside of one.
thisRank :: IO Int
thisRank = readRef rankRef

-- | Known from now on.
setThisRank :: Int -> IO ()
setThisRank = writeRef rankRef

rankRef :: Ref Int
rankRef = unsafeGlobal (newRef (-1))
{-# NOINLINE rankRef #-}
