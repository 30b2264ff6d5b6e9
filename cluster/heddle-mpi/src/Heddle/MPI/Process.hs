{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Process
-- Description : Spawning processes, and connecting to other jobs
-- Stability   : stable
--
-- A job can start processes while it runs, and two jobs, or parts of one, can connect through a
-- port. Both give an intercommunicator. The remote side is a world of its own, with its own
-- 'Heddle.MPI.commWorld'. A failing process ends the processes that it is connected to, as far as
-- the implementation supports that.
--
-- Spawned programs call 'Heddle.MPI.mpi' like any other. They run under the implementation that
-- spawned them, because its launcher passes @HEDDLE_MPI@ on.
--
-- All of this needs a launcher; without one the functions throw 'Unsupported'.
--
-- Cost: tenths of a second for each process.
-- Owner: both sides disconnect each connection that they make, because a job waits at its end for
-- all jobs that it is still connected to.
module Heddle.MPI.Process
  ( -- * Spawning
    spawn,
    parent,

    -- * Connecting
    Port (..),
    openPort,
    closePort,
    withPort,
    accept,
    connect,

    -- * Ending
    withConnection,
    disconnect,
  )
where

import Control.Monad (unless, when)
import Data.Int (Int32, Int64)
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes, allocaBytesAligned)
import Foreign.Marshal.Array (withArray0)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peek, poke, pokeByteOff)
import Heddle.MPI.Internal.Argument
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Types
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import System.Environment (lookupEnv)

-- | Start processes of a program; they are the remote side of the result. Only the root's program,
-- arguments and number of processes count. The program is looked up in @PATH@ as by a shell, and
-- must exist on the root's machine.
--
-- The root checks its arguments and tells the other ranks the outcome before MPI is called, because
-- neither implementation survives a missing program.
--
-- [Cost]: tenths of a second for each process, and a broadcast.
-- [Blocks]: collective, until all new processes have called 'Heddle.MPI.mpi'; holds an OS thread.
-- [Masking]: not interruptible.
-- [Throws]: 'MPIError': 'InvalidRoot'; at the root 'InvalidArgument' for less than one process or
-- for an argument that is empty or has more than one line, and 'SpawnFailed' if there is no such
-- program; then 'RemoteError' on the other ranks; 'Unsupported' without a launcher.
-- [Source]: MPI 3.1, section 10.3.2.
spawn :: Comm 'Intra -> Rank -> FilePath -> [String] -> Int -> IO (Comm 'Inter)
spawn comm root program arguments count = mask_ $ do
  r <- rootOf "spawn" comm root
  own <- commRank comm
  if own == root
    then do
      refused <- try (checkSpawn program arguments count)
      _ <- tellAll comm r (either (const 1) (const 0) refused)
      either (throwIO :: MPIError -> IO ()) pure refused
      withNative "spawn" program $ \p -> withAll arguments $ \as ->
        newCommFrom "spawn" (c_comm_spawn (commHandle comm) r p as (fromIntegral count))
    else do
      refused <- tellAll comm r 0
      when (refused /= 0) (wrong RemoteError "spawn" ("the root, rank " ++ show root ++ ", has found that it cannot be done"))
      withNative "spawn" "" $ \p -> withAll [] $ \as ->
        newCommFrom "spawn" (c_comm_spawn (commHandle comm) r p as 1)
  where
    withAll texts use = go [] texts
      where
        go found = \case
          [] -> withArray0 nullPtr (reverse found) use
          text : others -> withNative "spawn" text (\p -> go (p : found) others)

checkSpawn :: FilePath -> [String] -> Int -> IO ()
checkSpawn program arguments count = do
  when (count < 1) (wrong InvalidArgument "spawn" (show count ++ " processes"))
  _ <- toInt InvalidArgument "spawn" "the number of processes" count
  -- MPICH's launcher stops at an empty argument and truncates one at a line break.
  when (any (\text -> null text || any (`elem` "\n\0") text) (program : arguments)) $
    wrong InvalidArgument "spawn" "the program, or an argument, is empty, has more than one line, or a zero"
  places <- if '/' `elem` program then pure [program] else maybe [] (map (++ '/' : program) . paths) <$> lookupEnv "PATH"
  there <- or <$> mapM executable places
  unless there (wrong SpawnFailed "spawn" ("there is no program " ++ program))
  where
    paths text = case break (== ':') text of
      (first, _ : others) -> first : paths others
      (first, []) -> [first]
    -- The file is executable and not a directory.
    executable path = (&&) <$> accessible path 1 <*> (not <$> accessible (path ++ "/.") 0)
    accessible path how = (== 0) <$> withNative "spawn" path (`c_access` how)

-- Broadcast the root's number.
tellAll :: Comm 'Intra -> CInt -> Int32 -> IO Int32
tellAll comm root mine = alloca $ \p -> allocaBytesAligned outcomeBytes 8 $ \outcome -> do
  poke p mine
  let asked =
        Asked
          { askedComm = commHandle comm,
            askedSendType = 0,
            askedReceiveType = 19,
            askedSend = nullPtr,
            askedReceive = castPtr p,
            askedSends = 0,
            askedReceives = 1,
            askedSendCounts = nullPtr,
            askedSendOffsets = nullPtr,
            askedReceiveCounts = nullPtr,
            askedReceiveOffsets = nullPtr,
            askedKind = 1,
            askedRoot = root,
            askedOp = -1
          }
  _ <- withAsked asked (\a -> c_collective a 1 0 0 outcome)
  told <- peekOutcome outcome
  check "spawn" (pure (fromIntegral (outcomeError told)))
  peek p

-- Check the root: the same answer on all ranks.
rootOf :: String -> Comm kind -> Rank -> IO CInt
rootOf call comm root = commSize comm >>= \size -> checkRank InvalidRoot call "the root" size root

-- | The processes that spawned this one; 'Nothing' if it was not spawned or the communicator has
-- been closed. Every call returns the same communicator.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
parent :: IO (Maybe (Comm 'Inter))
parent = withLock parentLock $ do
  h <- answer "parent" 0 c_parent
  known <- readRef parentRef
  case known of
    _ | h == 0 -> pure Nothing
    Just comm | commHandle comm == h -> pure known
    _ -> do
      comm <- Just <$> commFrom h
      comm <$ writeRef parentRef comm

parentRef :: Ref (Maybe (Comm 'Inter))
parentRef = unsafeGlobal (newRef Nothing)
{-# NOINLINE parentRef #-}

parentLock :: Lock
parentLock = unsafeGlobal newLock
{-# NOINLINE parentLock #-}

-- | An address that another job can connect to. The program passes its text to the other job.
newtype Port = Port
  { -- | The implementation's name of the port.
    portName :: String
  }
  deriving stock (Eq, Ord, Read, Show)

-- | Open a port. Close it with 'closePort'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'Unsupported' without a launcher.
openPort :: IO Port
openPort = allocaBytes capacity $ \p -> do
  pokeByteOff p 0 (0 :: CChar)
  check "openPort" (c_port_open p (fromIntegral capacity))
  Port <$> peekUtf8 p
  where
    capacity = 4096

-- | Close a port; established connections stay.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
closePort :: Port -> IO ()
closePort (Port name) = withNative "closePort" name (check "closePort" . c_port_close)

-- | 'openPort', closed on every path.
--
-- [Throws]: 'MPIError', and what the body throws.
withPort :: (Port -> IO a) -> IO a
withPort = bracket openPort closePort

-- | Wait until another job connects to a port that the root has opened.
--
-- [Blocks]: collective, until somebody connects; holds an OS thread.
-- [Masking]: not interruptible.
-- [Throws]: 'MPIError': 'InvalidRoot'; 'Unsupported' without a launcher.
-- [Source]: MPI 3.1, section 10.4.2.
accept :: Port -> Comm 'Intra -> Rank -> IO (Comm 'Inter)
accept = join' "accept" c_comm_accept

-- | Connect to a port at which another job accepts; only the root's argument counts. After a
-- failure Open MPI leaves a communicator of several processes unusable, so a connection that may
-- fail is better made by one process, with 'Heddle.MPI.commSelf'.
--
-- [Blocks]: collective, until they accept; holds an OS thread.
-- [Masking]: not interruptible.
-- [Throws]: 'MPIError': 'InvalidRoot'; 'InvalidPort' if there is no such port, as far as the
-- implementation knows; 'Unsupported' without a launcher.
-- [Source]: MPI 3.1, section 10.4.3.
connect :: Port -> Comm 'Intra -> Rank -> IO (Comm 'Inter)
connect = join' "connect" c_comm_connect

join' :: String -> (Ptr CChar -> Int64 -> CInt -> Ptr Int64 -> IO CInt) -> Port -> Comm 'Intra -> Rank -> IO (Comm 'Inter)
join' call enter (Port name) comm root = do
  r <- rootOf call comm root
  withNative call name $ \p -> newCommFrom call (enter p (commHandle comm) r)

-- | Connect with the given action, run the body, and 'disconnect'. After an exception in the body
-- the connection is closed without waiting for the other side.
--
-- [Blocks]: at the end, until the other side disconnects.
-- [Throws]: what the action, the body and 'disconnect' throw.
withConnection :: IO (Comm 'Inter) -> (Comm 'Inter -> IO a) -> IO a
withConnection make body = mask $ \restore -> do
  comm <- make
  a <- restore (body comm) `onException` closeComm comm
  a <$ disconnect comm

-- | Close a communicator after all its messages are complete. If nothing else connects the two
-- sides, they no longer wait for each other at their end.
--
-- [Blocks]: collective, on both sides.
-- [Throws]: 'MPIError': 'AlreadyClosed', or 'InvalidCommunicator' for a predefined
-- communicator.
disconnect :: Comm kind -> IO ()
disconnect = closeCommWith "disconnect" c_comm_disconnect

foreign import ccall safe "heddle_mpi_comm_spawn" c_comm_spawn :: Int64 -> CInt -> Ptr CChar -> Ptr (Ptr CChar) -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_port_open" c_port_open :: Ptr CChar -> CInt -> IO CInt

foreign import ccall safe "heddle_mpi_port_close" c_port_close :: Ptr CChar -> IO CInt

foreign import ccall safe "heddle_mpi_comm_accept" c_comm_accept :: Ptr CChar -> Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_connect" c_comm_connect :: Ptr CChar -> Int64 -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_comm_disconnect" c_comm_disconnect :: Int64 -> IO CInt

foreign import ccall safe "access" c_access :: Ptr CChar -> CInt -> IO CInt
