{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Random
-- Description : Cryptographically secure random bytes, for keys
-- Stability   : internal, exempt from the version policy
--
-- getrandom(2): the kernel's generator.
--
-- Cost: a system call of less than 1 us. It waits only while the machine is starting.
-- Owner: the caller.
module Heddle.Bytes.Internal.Random
  ( randomBytes,
    randomBytesOrStop,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal qualified as ByteString (create)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (IOException, catch, throwIO)
import System.Exit (ExitCode (..))
import System.Posix.Process (exitImmediately)

-- | This many random bytes. Interrupted calls and short answers are continued.
--
-- [Cost]: a system call for up to 256 bytes.
-- [Blocks]: holds an OS thread, until the generator of a machine that just started is ready.
-- [Throws]: 'IOException' with the errno if the kernel has no generator or forbids its use.
-- [Units]: bytes.
randomBytes :: Int -> IO ByteString
randomBytes count = ByteString.create count (fill count)
  where
    fill :: Int -> Ptr Word8 -> IO ()
    fill left target
      | left <= 0 = pure ()
      | otherwise = do
        got <- fromIntegral <$> c_random target (fromIntegral left)
        case () of
          _
            | got > 0 -> fill (left - got) (target `plusPtr` got)
            | Errno (negate got) == EINTR -> fill left target
            | otherwise ->
              throwErrnoFor "getrandom: random bytes from the system" (if got == 0 then EIO else Errno (negate got))

-- | As 'randomBytes', for programs that cannot continue without the bytes. If the system gives none, this prints
-- a message that names their purpose and ends the process at once with status 1. No handler runs, because no
-- part of the program could continue.
--
-- [Cost]: as 'randomBytes'.
-- [Blocks]: as 'randomBytes'.
-- [Throws]: nothing.
-- [Units]: bytes.
randomBytesOrStop :: String -> Int -> IO ByteString
randomBytesOrStop purpose count = randomBytes count `catch` stop
  where
    stop :: IOException -> IO a
    stop e = do
      complain . Char8.pack $
        "heddle: cannot get random bytes for " <> purpose <> ": getrandom: " <> maybe (show e) describeErrno (errnoOf e)
          <> ".\n  Nothing else is safe to use for them, so this program stops.\n"
          <> "  Allow the system call getrandom (Linux 3.17 or later), for example in the seccomp profile of a container.\n"
      _ <- exitImmediately (ExitFailure 1)
      throwIO e
    -- Not through a Handle, whose lock this thread may hold.
    complain text = ByteString.unsafeUseAsCStringLen text (\(p, n) -> void (c_write 2 (castPtr p) (fromIntegral n)))

-- Safe: waits while the machine has just started.
foreign import ccall safe "heddle_random" c_random :: Ptr Word8 -> CSize -> IO CLong

-- Safe: the standard error output may be a pipe that is full.
foreign import ccall safe "write" c_write :: CInt -> Ptr Word8 -> CSize -> IO CLong
