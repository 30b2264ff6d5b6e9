-- |
-- Module      : Heddle.MPI.Internal.Error
-- Description : The package's exception and its error classes
-- Stability   : internal, exempt from the version policy
--
-- 'MPIError' is the package's root exception: the class of the error, the failed call, and the
-- implementation's message.
--
-- Cost: without an error, one comparison for each call.
module Heddle.MPI.Internal.Error
  ( MPIError (..),
    ErrorClass (..),
    errorFrom,
    failWith,
    check,
    wrong,
    unheard,

    -- * In collectives
    agreed,
    disagreement,

    -- * Whose error
    thisRank,
    setThisRank,
  )
where

import Control.Monad (unless, when)
import Data.Word (Word8)
import Foreign.C.String (peekCString)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Storable (pokeByteOff)
import Heddle.MPI.Internal.Foreign
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)

-- | The class of an error: MPI's error classes in the order of the standard, then Heddle's own.
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
  | -- | An error inside the implementation.
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
  | -- | A call before 'Heddle.MPI.mpi'.
    NotStarted
  | -- | A call after 'Heddle.MPI.mpi' has ended. A process can enter a world only once.
    AlreadyFinished
  | -- | The communicator, file or other object has been closed.
    AlreadyClosed
  | -- | This implementation does not support the operation.
    Unsupported
  | -- | More elements than the call supports.
    TooLarge
  | -- | The implementation's library cannot be opened.
    NoLibrary
  | -- | The program was built without the headers of this implementation.
    NoProvider
  | -- | The implementation does not support threads.
    NoThreads
  | -- | The processes were started by the launcher of another implementation, or by an unknown one.
    LauncherMismatch
  | -- | The bytes of a message are not a value of the expected type.
    DecodeError
  | -- | Another process failed in its part of a collective.
    RemoteError
  | -- | A message is not a whole number of elements.
    SizeMismatch
  | -- | The operation was cancelled.
    Cancelled
  | -- | A static closure or a compact region comes from another program.
    BuildMismatch
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | An operation failed. The communicator stays usable as far as the implementation guarantees that.
data MPIError = MPIError
  { errorClass :: !ErrorClass,
    -- | The implementation's code; negative for errors of Heddle's own.
    errorCode :: !Int,
    -- | The name of the function that failed.
    errorCall :: !String,
    -- | The implementation's message.
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

-- The text for an error of Heddle's own that has no other message.
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

-- | The exception for a nonzero code.
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

-- | Throw the exception for a nonzero code.
failWith :: String -> CInt -> IO a
failWith call code = errorFrom call code >>= throwIO

-- | Run an action and throw unless its code is 0.
check :: String -> IO CInt -> IO ()
check call action = action >>= \code -> when (code /= 0) (failWith call code)
{-# INLINE check #-}

-- | Throw an error that Heddle itself detects, before or after a call of MPI.
wrong :: ErrorClass -> String -> String -> IO a
wrong class' call text = thisRank >>= throwIO . MPIError class' (-1) call text

-- | Close an object for a caller that has gone: data may be lost, so the error goes to the program's handler of uncaught
-- exceptions. It is no error that the object, or the world, has been closed meanwhile.
--
-- [Throws]: what is no 'MPIError'.
unheard :: IO () -> IO ()
unheard closing = closing `catch` \e -> unless (errorClass e `elem` [AlreadyClosed, AlreadyFinished]) (reportUncaught (toException e))

-- | Wraps the exception of a collective whose messages are complete on this rank: either all ranks
-- have agreed to fail, or nothing was sent. Any other exception leaves the collective unfinished.
-- 'Heddle.MPI.Internal.Types.collectively' removes the wrapper.
newtype Agreed = Agreed SomeException

instance Show Agreed where
  showsPrec d (Agreed e) = showsPrec d e

instance Exception Agreed where
  displayException (Agreed e) = describeException e

-- | Wrap the synchronous exceptions of an action in 'Agreed'.
agreed :: IO a -> IO a
agreed action = trySync action >>= either (throwIO . Agreed) pure

-- | Remove the wrapper: the exception for the caller, and whether the collective is unfinished.
disagreement :: SomeException -> (SomeException, Bool)
disagreement e = case fromException e of
  Just (Agreed inner) -> (inner, False)
  Nothing -> (e, True)

-- | This process's rank in the world, for error messages; -1 outside a world.
thisRank :: IO Int
thisRank = readRef rankRef

-- | Set the rank that errors report.
setThisRank :: Int -> IO ()
setThisRank = writeRef rankRef

rankRef :: Ref Int
rankRef = unsafeGlobal (newRef (-1))
{-# NOINLINE rankRef #-}
