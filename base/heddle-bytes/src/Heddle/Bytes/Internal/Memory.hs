{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Memory
-- Description : Memory outside the heap that grows without a copy
-- Stability   : internal; exempt from the version policy
--
-- Memory for large results, from malloc and beyond 1 MiB from mmap, which grows by moving its pages. A
-- finalizer frees it, also if the writer was interrupted. The collector does not see how large it is, so
-- it is told to run after much of it has been allocated.
--
-- Cost: a system call each time it doubles, from 1 MiB on; below, the C library may copy.
-- Owner: the foreign pointer; the thread that made it, until it is shared.
module Heddle.Bytes.Internal.Memory
  ( Memory,
    newMemory,
    growMemory,
    memoryAddress,
    finishedMemory,
    memoriesCounted,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as ByteString (fromForeignPtr)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr, plusForeignPtr, withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr)
import Foreign.Storable (peek)
import Heddle.Prim.Exception (ioError, mask_)
import System.IO.Error (fullErrorType, mkIOError)
import System.Mem (performMajorGC, performMinorGC)
import Prelude hiding (ioError)

-- | A block of memory that can grow.
newtype Memory = Memory (ForeignPtr Word8)

-- | Allocate this many bytes.
--
-- [Cost]: the C library's or the system's.
-- [Throws]: 'IOError' when memory is short.
newMemory :: Int -> IO Memory
newMemory size = mask_ $ do
  cell <- c_new (fromIntegral size)
  when (cell == nullPtr) (noMemory size)
  Memory <$> newForeignPtr c_free cell

-- | Grow it to this many bytes. Its contents stay.
--
-- [Cost]: a system call; below 1 MiB perhaps a copy.
-- [Throws]: 'IOError' when memory is short.
growMemory :: Memory -> Int -> IO ()
growMemory (Memory cell) size = do
  failed <- withForeignPtr cell (\p -> c_resize p (fromIntegral size))
  when (failed /= 0) (noMemory size)

noMemory :: Int -> IO a
noMemory size = ioError (mkIOError fullErrorType ("writing a result of " <> show size <> " bytes: no memory left") Nothing Nothing)

-- | Its address, valid until it grows.
memoryAddress :: Memory -> IO (Ptr Word8)
memoryAddress (Memory cell) = withForeignPtr cell (peek . castPtr)

-- | The first bytes as a string. The memory must not be written to afterwards.
--
-- [Cost]: a system call, no copy; from time to time a garbage collection.
finishedMemory :: Memory -> Int -> IO ByteString
finishedMemory memory@(Memory cell) used = do
  withForeignPtr cell (\p -> c_trim p (fromIntegral used))
  address <- memoryAddress memory
  collectIfDue
  -- The pointer into the memory keeps the cell, whose finalizer frees both.
  withForeignPtr cell $ \p ->
    pure (ByteString.fromForeignPtr (cell `plusForeignPtr` (address `minusPtr` p)) 0 used)

collectIfDue :: IO ()
collectIfDue =
  c_due >>= \case
    0 -> pure ()
    1 -> performMinorGC
    _ -> performMajorGC >> c_collected

-- | The number of these blocks in the process, for tests of their release.
memoriesCounted :: IO Int64
memoriesCounted = c_count

-- Unsafe: memory management of the C library and of the system, which never sleeps.
foreign import ccall unsafe "heddle_memory_new" c_new :: CSize -> IO (Ptr Word8)

-- Unsafe: as above; copies less than 1 MiB.
foreign import ccall unsafe "heddle_memory_resize" c_resize :: Ptr Word8 -> CSize -> IO CInt

-- Unsafe: as above.
foreign import ccall unsafe "heddle_memory_trim" c_trim :: Ptr Word8 -> CSize -> IO ()

foreign import ccall "&heddle_memory_free" c_free :: FinalizerPtr Word8

-- Unsafe: reads a word.
foreign import ccall unsafe "heddle_memory_count" c_count :: IO Int64

-- Unsafe: reads and writes a few words.
foreign import ccall unsafe "heddle_memory_due" c_due :: IO CInt

-- Unsafe: writes a word.
foreign import ccall unsafe "heddle_memory_collected" c_collected :: IO ()
