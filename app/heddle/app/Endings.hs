-- |
-- Module      : Endings
-- Description : How the command ends, and by which signals
--
-- A command ends without the runtime's clean-up (@hs_exit@), which waits up to 10 ms for its
-- timer's thread. Signals keep the dispositions that the process was started with; see also
-- @cbits/heddle_main.c@.
module Endings
  ( inheritInterrupt,
    endByBrokenPipe,
    endWith,
  )
where

import Control.Monad (void)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (IOException, displayException, try)
import System.Exit (ExitCode (..))
import System.IO (hFlush, hPutStrLn, stderr, stdout)
import System.Posix.Process (exitImmediately)

-- | Restore the handling of interrupts from before GHC's start of @main@: an interrupt ends the process
-- at once, or does nothing if the parent ignores SIGINT.
inheritInterrupt :: IO ()
inheritInterrupt = c_inherit_interrupt

-- | Standard output has lost its reader: end by SIGPIPE, as every C program does. Returns where
-- that signal is ignored; the caller then reports the error.
endByBrokenPipe :: IO ()
endByBrokenPipe = c_end_by_broken_pipe

-- | Write out what the standard handles still hold, and end the process. Where standard output
-- cannot be written, say so and end with 2.
endWith :: ExitCode -> IO ()
endWith code = do
  flushed <- try (hFlush stdout)
  end <- case flushed of
    Right () -> pure code
    Left (e :: IOException) -> do
      void (tryIO (hPutStrLn stderr ("heddle: standard output: " ++ maybe (displayException e) describeErrno (errnoOf e))))
      pure (ExitFailure 2)
  void (tryIO (hFlush stderr))
  exitImmediately end
  where
    tryIO :: IO () -> IO (Either IOException ())
    tryIO = try

-- Unsafe: sets a signal's disposition.
foreign import ccall unsafe "heddle_inherit_interrupt" c_inherit_interrupt :: IO ()

-- Unsafe: the same, and may end the process.
foreign import ccall unsafe "heddle_end_by_broken_pipe" c_end_by_broken_pipe :: IO ()
