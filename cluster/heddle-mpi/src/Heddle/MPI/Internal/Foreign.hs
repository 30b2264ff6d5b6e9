-- |
-- Module      : Heddle.MPI.Internal.Foreign
-- Description : Imports of the C functions
-- Stability   : internal, exempt from the version policy
--
-- The functions of @cbits/heddle_mpi.c@ and @heddle_mpi_engine.c@.
--
-- A function that starts an operation is imported twice. The unsafe form ("held") tests for a few
-- microseconds and waits for no other process; it is for operations of at most 'bulkBytes'. The
-- safe form gives up the capability.
--
-- Cost: an unsafe call, a few nanoseconds; a safe one, about a hundred.
module Heddle.MPI.Internal.Foreign
  ( -- * Outcomes
    Outcome (..),
    Slot,
    outcomeBytes,
    peekOutcome,
    bulkBytes,

    -- * Life
    c_guess,
    c_launched,
    c_has_provider,
    c_begin,
    c_end,
    c_abort,
    c_error_class,
    c_error_text,
    c_version,
    c_is_running,
    c_clock,
    c_clock_tick,
    c_greatest_tag,
    c_parent,
    c_joined,
    c_open_handles,
    c_unfinished,

    -- * The engine
    c_configure,
    c_engine,
    c_engine_poll,
    c_engine_stop,
    EngineThread,
    c_thread_begin,
    c_thread_wait,
    c_wait,
    c_wait_held,
    c_register,
    c_watch,
    c_cancel,

    -- * Point to point
    c_send,
    c_send_held,
    c_recv,
    c_recv_held,
    c_mprobe,
    c_mprobe_held,
    c_mrecv,
    c_mrecv_held,
    c_iprobe,
    c_keep,
    c_send_init,
    c_recv_init,
    c_start,
    c_start_held,
    c_persistent_free,

    -- * Collectives
    Asked (..),
    withAsked,
    c_collective,
    c_collective_held,
  )
where

import Data.Int (Int32, Int64)
import Data.Word (Word8)
import Foreign.C.Types (CChar, CDouble (..), CInt (..))
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.StablePtr (StablePtr, castPtrToStablePtr)
import Foreign.Storable (peekByteOff, pokeByteOff)

-- | An outstanding operation; 0 is none.
type Slot = Int64

-- | The outcome of an operation.
data Outcome = Outcome
  { -- | The rank of the sender.
    outcomeSource :: !Int32,
    -- | Its tag.
    outcomeTag :: !Int32,
    -- | An error, or 0.
    outcomeError :: !Int32,
    outcomeCancelled :: !Bool,
    -- | With 'outcomeCancelled': a message that was given back waits for this receive, which has to be started again.
    outcomeAgain :: !Bool,
    -- | After an error: MPI may go on with the operation, so its memory must never be freed.
    outcomeLost :: !Bool,
    -- | The number of bytes received; negative if the implementation does not report it.
    outcomeReceived :: !Int64,
    -- | The message that a matched probe found. After an error, the slot in which a collective goes on
    -- whose communicator was closed.
    outcomeMessage :: !Int64,
    -- | The continuation that was registered for the slot.
    outcomeOwner :: !(Maybe (StablePtr (Outcome -> IO ())))
  }

-- | The size of a @struct heddle_mpi_outcome@.
outcomeBytes :: Int
outcomeBytes = 48

-- | Read what C wrote.
peekOutcome :: Ptr Outcome -> IO Outcome
peekOutcome p = do
  owner <- peekByteOff p 40
  cancelled <- peekByteOff p 12 :: IO Int32
  lost <- peekByteOff p 24 :: IO Int64
  Outcome
    <$> peekByteOff p 0
    <*> peekByteOff p 4
    <*> peekByteOff p 8
    <*> pure (cancelled /= 0)
    <*> pure (cancelled == 2)
    <*> pure (lost /= 0)
    <*> peekByteOff p 16
    <*> peekByteOff p 32
    <*> pure (if owner == nullPtr then Nothing else Just (castPtrToStablePtr owner))

-- | Larger operations, in bytes, are started and waited for without the capability.
bulkBytes :: Int
bulkBytes = 65536

-- These calls are safe: they may load a library or wait for other processes.

foreign import ccall unsafe "heddle_mpi_guess" c_guess :: IO CInt -- reads the environment

foreign import ccall unsafe "heddle_mpi_launched" c_launched :: IO CInt -- reads the environment

foreign import ccall unsafe "heddle_mpi_has_provider" c_has_provider :: CInt -> IO CInt -- reads a constant

foreign import ccall safe "heddle_mpi_begin" c_begin :: CInt -> Ptr CChar -> IO CInt

foreign import ccall safe "heddle_mpi_end" c_end :: IO CInt

foreign import ccall safe "heddle_mpi_abort" c_abort :: CInt -> IO ()

foreign import ccall unsafe "heddle_mpi_error_class" c_error_class :: CInt -> IO CInt -- looks into a table

foreign import ccall unsafe "heddle_mpi_error_text" c_error_text :: CInt -> Ptr CChar -> CInt -> IO () -- copies a text

foreign import ccall unsafe "heddle_mpi_version" c_version :: Ptr CChar -> CInt -> IO CInt -- copies a text

foreign import ccall unsafe "heddle_mpi_is_running" c_is_running :: IO CInt -- reads a flag

foreign import ccall unsafe "heddle_mpi_clock" c_clock :: IO CDouble -- reads the clock

foreign import ccall unsafe "heddle_mpi_clock_tick" c_clock_tick :: IO CDouble -- reads a constant

foreign import ccall unsafe "heddle_mpi_greatest_tag" c_greatest_tag :: IO CInt -- reads a variable

foreign import ccall safe "heddle_mpi_parent" c_parent :: Ptr Int64 -> IO CInt

foreign import ccall unsafe "heddle_mpi_joined" c_joined :: IO CInt -- reads a variable

foreign import ccall unsafe "heddle_mpi_handles_open" c_open_handles :: CInt -> IO CInt -- a lock kept for a moment

foreign import ccall unsafe "heddle_mpi_unfinished" c_unfinished :: IO CInt -- reads a variable

foreign import ccall unsafe "heddle_mpi_configure" c_configure :: Int64 -> Int64 -> CInt -> IO () -- writes variables

foreign import ccall safe "heddle_mpi_engine" c_engine :: Ptr Outcome -> CInt -> CInt -> IO CInt

-- With patience 0 it tests once. Used only by the runtime without threads, where a safe call would
-- block the program as well.
foreign import ccall unsafe "heddle_mpi_engine" c_engine_poll :: Ptr Outcome -> CInt -> CInt -> IO CInt

foreign import ccall unsafe "heddle_mpi_engine_stop" c_engine_stop :: IO () -- a lock kept for a moment

-- | An OS thread whose end can be waited for.
data EngineThread

foreign import ccall unsafe "heddle_mpi_thread_begin" c_thread_begin :: IO (Ptr EngineThread) -- allocates a word

-- Safe: it waits.
foreign import ccall safe "heddle_mpi_thread_wait" c_thread_wait :: Ptr EngineThread -> IO ()

foreign import ccall safe "heddle_mpi_wait" c_wait :: Slot -> Int64 -> CInt -> Ptr Outcome -> IO CInt

foreign import ccall unsafe "heddle_mpi_wait" c_wait_held :: Slot -> Int64 -> CInt -> Ptr Outcome -> IO CInt -- tests for its budget

foreign import ccall unsafe "heddle_mpi_register" c_register :: Slot -> StablePtr (Outcome -> IO ()) -> IO () -- a lock kept for a moment

foreign import ccall unsafe "heddle_mpi_watch" c_watch :: Slot -> IO () -- a lock kept for a moment

foreign import ccall safe "heddle_mpi_cancel" c_cancel :: Slot -> IO CInt

foreign import ccall safe "heddle_mpi_send" c_send :: Int64 -> CInt -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_send" c_send_held :: Int64 -> CInt -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- starts, and tests for its budget

foreign import ccall safe "heddle_mpi_recv" c_recv :: Int64 -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_recv" c_recv_held :: Int64 -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- starts, and tests for its budget

foreign import ccall safe "heddle_mpi_mprobe" c_mprobe :: Int64 -> CInt -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_mprobe" c_mprobe_held :: Int64 -> CInt -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- tests for its budget

foreign import ccall safe "heddle_mpi_mrecv" c_mrecv :: Int64 -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_mrecv" c_mrecv_held :: Int64 -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- starts, and tests for its budget

foreign import ccall safe "heddle_mpi_iprobe" c_iprobe :: Int64 -> CInt -> CInt -> Ptr Outcome -> IO CInt

foreign import ccall safe "heddle_mpi_keep" c_keep :: Int64 -> CInt -> CInt -> CInt -> Int64 -> Ptr Word8 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_send_init" c_send_init :: Int64 -> CInt -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_recv_init" c_recv_init :: Int64 -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_start" c_start :: Int64 -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_start" c_start_held :: Int64 -> CInt -> CInt -> Ptr Word8 -> Int64 -> Int64 -> Int64 -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- starts, and tests for its budget

foreign import ccall safe "heddle_mpi_persistent_free" c_persistent_free :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_collective" c_collective :: Ptr Asked -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall unsafe "heddle_mpi_collective" c_collective_held :: Ptr Asked -> CInt -> Int64 -> CInt -> Ptr Outcome -> IO Slot -- starts, and tests for its budget

-- | The arguments of a collective; those that its kind does not use are 0. The arrays must stay
-- allocated until it is complete.
data Asked = Asked
  { askedComm :: !Int64,
    askedSendType :: !Int64,
    askedReceiveType :: !Int64,
    askedSend :: !(Ptr Word8),
    askedReceive :: !(Ptr Word8),
    askedSends :: !Int64,
    askedReceives :: !Int64,
    askedSendCounts :: !(Ptr Int64),
    askedSendOffsets :: !(Ptr Int64),
    askedReceiveCounts :: !(Ptr Int64),
    askedReceiveOffsets :: !(Ptr Int64),
    askedKind :: !CInt,
    askedRoot :: !CInt,
    askedOp :: !CInt
  }

-- | Pass the arguments as C's structure.
withAsked :: Asked -> (Ptr Asked -> IO a) -> IO a
withAsked asked use = allocaBytesAligned 104 8 $ \p -> do
  pokeByteOff p 0 (askedComm asked)
  pokeByteOff p 8 (askedSendType asked)
  pokeByteOff p 16 (askedReceiveType asked)
  pokeByteOff p 24 (askedSend asked)
  pokeByteOff p 32 (askedReceive asked)
  pokeByteOff p 40 (askedSends asked)
  pokeByteOff p 48 (askedReceives asked)
  pokeByteOff p 56 (askedSendCounts asked)
  pokeByteOff p 64 (askedSendOffsets asked)
  pokeByteOff p 72 (askedReceiveCounts asked)
  pokeByteOff p 80 (askedReceiveOffsets asked)
  pokeByteOff p 88 (askedKind asked)
  pokeByteOff p 92 (askedRoot asked)
  pokeByteOff p 96 (askedOp asked)
  use (castPtr p)
{-# INLINE withAsked #-}
