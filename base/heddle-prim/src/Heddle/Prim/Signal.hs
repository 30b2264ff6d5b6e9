-- |
-- Module      : Heddle.Prim.Signal
-- Description : Signals as actions
-- Stability   : stable
--
-- The signals that servers answer to.
--
-- Cost: none until one comes.
-- Owner: the process.
module Heddle.Prim.Signal
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
  )

-- | Run an action, in a thread of its own, at each such signal.
onSignal :: Signal -> IO () -> IO ()
onSignal signal action = void (installHandler signal (Catch action) Nothing)

-- | Let such signals pass without effect.
ignoreSignal :: Signal -> IO ()
ignoreSignal signal = void (installHandler signal Ignore Nothing)

-- | Does the process ignore a signal, as a program started by @nohup@ ignores SIGHUP? GHC's
-- runtime answers only for what it installed itself, so this asks the kernel.
--
-- [Blocks]: reads @\/proc@; 'False' where that is missing.
ignoredSignal :: Signal -> IO Bool
ignoredSignal signal = either (const False) ignored <$> trySync (readFile "/proc/self/status" >>= \text -> length text `seq` pure text)
  where
    ignored text = case mapMaybe (stripPrefix "SigIgn:") (lines text) of
      line : _ | [(mask, "")] <- readHex (dropWhile (`elem` " \t") line) -> testBit (mask :: Integer) (fromIntegral signal - 1)
      _ -> False
