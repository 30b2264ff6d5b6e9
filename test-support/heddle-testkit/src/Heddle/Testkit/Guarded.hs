-- | Strings that lie right before and right after memory that must not be touched.
module Heddle.Testkit.Guarded
  ( guarded,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, nullPtr, plusPtr, ptrToIntPtr)

-- | Run an action on a copy that ends right before an inaccessible page, and on one that begins right after such a
-- page. A read outside ends the program (SIGSEGV). The copies are only there during the
-- action.
guarded :: ByteString -> (ByteString -> IO a) -> IO (a, a)
guarded bytes use = do
  memory <- c_mmap nullPtr (fromIntegral (room + 2 * page)) 3 0x22 (-1) 0
  when (ptrToIntPtr memory == IntPtr (-1)) $ fail "mmap: no memory"
  let body = memory `plusPtr` page
  forbid memory
  forbid (body `plusPtr` room)
  low <- at body
  high <- at (body `plusPtr` (room - len))
  _ <- c_munmap memory (fromIntegral (room + 2 * page))
  pure (high, low)
  where
    len = ByteString.length bytes
    page = 4096
    room = max page ((len + page - 1) `div` page * page)
    forbid p = do
      failed <- c_mprotect p (fromIntegral page) 0
      when (failed /= 0) $ fail "mprotect: not done"
    at target = do
      unsafeUseAsCStringLen bytes $ \(from, n) -> copyBytes target (castPtr from) n
      unsafePackCStringLen (castPtr target, len) >>= use

-- Unsafe: reserves addresses.
foreign import ccall unsafe "mmap" c_mmap :: Ptr () -> CSize -> CInt -> CInt -> CInt -> CSize -> IO (Ptr ())

-- Unsafe: changes a table of the kernel.
foreign import ccall unsafe "mprotect" c_mprotect :: Ptr () -> CSize -> CInt -> IO CInt

-- Unsafe: gives addresses back.
foreign import ccall unsafe "munmap" c_munmap :: Ptr () -> CSize -> IO CInt
