{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Serve.Internal.Signal
-- Description : The signals that the server handles
-- Stability   : internal, exempt from the version policy
--
-- A handler runs in a Haskell thread of its own.
--
-- Cost: none until a signal arrives.
-- Owner: the process, which has one handler for each signal.
module Heddle.Serve.Internal.Signal
  ( onSignal,
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

import Control.Monad (void)
import Data.Bits (testBit)
import Data.List (stripPrefix)
import Data.Maybe (mapMaybe)
import Heddle.Prim.Exception (trySync)
import Numeric (readHex)
import System.Posix.Signals
  ( Handler (Catch, Ignore),
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

-- | Handle a signal by an action, which runs in a new thread each time.
onSignal :: Signal -> IO () -> IO ()
onSignal signal action = void (installHandler signal (Catch action) Nothing)

-- | Ignore a signal, in programs started by this one too.
ignoreSignal :: Signal -> IO ()
ignoreSignal signal = void (installHandler signal Ignore Nothing)

-- | Whether the process ignores a signal, as a program started by @nohup@ ignores SIGHUP. GHC's
-- runtime knows only the handlers that it installed itself, so this asks the kernel.
--
-- [Blocks]: reads @\/proc@; 'False' where that is missing.
ignoredSignal :: Signal -> IO Bool
ignoredSignal signal = either (const False) ignored <$> trySync (readFile "/proc/self/status" >>= \text -> length text `seq` pure text)
  where
    ignored text = case mapMaybe (stripPrefix "SigIgn:") (lines text) of
      line : _ | [(mask, "")] <- readHex (dropWhile (`elem` " \t") line) -> testBit (mask :: Integer) (fromIntegral signal - 1)
      _ -> False
