-- |
-- Module      : Heddle.Tls.Library
-- Description : libssl, loaded when it is first needed
-- Stability   : hidden
--
-- A program that is linked with libssl and libcrypto takes 0.8 ms longer to start, most of it for the pages that
-- their relocations write. A command with many uses pays that for each of them, so the shim loads libssl itself: see
-- @cbits/heddle_openssl.h@.
--
-- Cost: about 1 ms once in a process; then one load and a call.
-- Owner: the process, which keeps it.
module Heddle.Tls.Library
  ( loadLibrary,
  )
where

import Control.Monad (when)
import Foreign.C.String (peekCString)
import Foreign.Marshal.Alloc (allocaBytes)
import Heddle.Prim.Exception (throwIO)
import Heddle.Tls.Foreign (c_load)
import Heddle.Tls.Problem (TlsProblem (..), TlsReason (..))

-- | Load libssl, unless it has been loaded. It goes before the first of the shim's functions that calls libssl: those
-- that make sites and certificates, and those that read them.
--
-- [Cost]: about 1 ms the first time.
-- [Blocks]: holds an OS thread while the files are read.
-- [Throws]: 'TlsProblem' if libssl, of the release that this was compiled for, is not installed.
-- [Threads]: any.
loadLibrary :: IO ()
loadLibrary = allocaBytes 256 $ \text -> do
  r <- c_load text
  when (r < 0) (peekCString text >>= \why -> throwIO (TlsProblem "libssl" (Unreadable why)))
