-- |
-- Module      : Heddle.Serve.Signal
-- Description : Signals that a server handles
-- Stability   : stable
--
-- A handler runs in a Haskell thread of its own. The signals do not come by GHC's event manager, which an interrupted read can end;
-- see @cbits/heddle_signal.c@.
--
-- Cost: an OS thread, which waits, once a signal is handled.
-- Owner: the process, which has one handler for each signal.
module Heddle.Serve.Signal
  ( onSignals,
    ignoreSignal,
    ignoredSignal,
    Signal,
    sigHUP,
    sigINT,
    sigPIPE,
    sigQUIT,
    sigTERM,
    sigUSR1,
    sigUSR2,
  )
where

import Control.Monad (void, when)
import Data.Bits (testBit)
import Data.Foldable (for_)
import Data.List (stripPrefix)
import Data.Maybe (mapMaybe)
import Foreign.C.Types (CInt (..))
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..), throwErrnoFor)
import Heddle.Prim.Exception (mask, trySync)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Thread (fork)
import Numeric (readHex)
import System.Posix.Signals
  ( Handler (Ignore),
    Signal,
    installHandler,
    sigHUP,
    sigINT,
    sigPIPE,
    sigQUIT,
    sigTERM,
    sigUSR1,
    sigUSR2,
  )

-- | Handle signals by actions, each of which runs in a new thread each time. The actions take the place of those of earlier
-- calls; a signal that had one and has none now does nothing.
--
-- [Cost]: some system calls, and a thread the first time.
-- [Threads]: any.
-- [Throws]: 'IOException' when the process has no descriptor left.
onSignals :: [(Signal, IO ())] -> IO ()
onSignals given = mask $ \restore -> do
  r <- c_open
  check r
  writeRef actions given
  when (r == 0) (void (fork "serve/signals" (restore listen)))
  for_ given (\(signal, _) -> c_tell signal >>= check)
  where
    check r = when (r < 0) (throwErrnoFor "signals" (Errno (fromIntegral (negate r))))
    listen = do
      signal <- c_next
      when (signal > 0) $ do
        known <- readRef actions
        for_ (lookup signal known) (fork ("serve/signal/" ++ show signal))
        listen

-- What signals do at present.
actions :: Ref [(Signal, IO ())]
actions = unsafeGlobal (newRef [])
{-# NOINLINE actions #-}

-- | Ignore a signal, in programs started by this one too.
ignoreSignal :: Signal -> IO ()
ignoreSignal signal = void (installHandler signal Ignore Nothing)

-- | Ask whether the process ignores a signal, as a program started by @nohup@ ignores SIGHUP. GHC's
-- runtime knows only the handlers that it installed itself, so this asks the kernel.
--
-- [Blocks]: reads @\/proc@; 'False' where that is missing.
ignoredSignal :: Signal -> IO Bool
ignoredSignal signal = either (const False) ignored <$> trySync (readFile "/proc/self/status" >>= \text -> length text `seq` pure text)
  where
    ignored text = case mapMaybe (stripPrefix "SigIgn:") (lines text) of
      line : _ | [(signals, "")] <- readHex (dropWhile (`elem` " \t") line) -> testBit (signals :: Integer) (fromIntegral signal - 1)
      _ -> False

-- Unsafe: makes a pipe.
foreign import ccall unsafe "heddle_signal_open" c_open :: IO CInt

-- Unsafe: sets a signal's disposition.
foreign import ccall unsafe "heddle_signal_tell" c_tell :: CInt -> IO CInt

-- Safe: waits for a signal.
foreign import ccall safe "heddle_signal_next" c_next :: IO CInt
