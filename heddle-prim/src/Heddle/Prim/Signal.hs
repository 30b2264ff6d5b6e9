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
    Signal,
    sigHUP,
    sigINT,
    sigPIPE,
    sigTERM,
    sigUSR1,
  )
where

import Control.Monad (void)
import System.Posix.Signals
  ( Handler (Catch, Ignore),
    Signal,
    installHandler,
    sigHUP,
    sigINT,
    sigPIPE,
    sigTERM,
    sigUSR1,
  )

-- | Run an action, in a thread of its own, at each such signal.
onSignal :: Signal -> IO () -> IO ()
onSignal signal action = void (installHandler signal (Catch action) Nothing)

-- | Let such signals pass without effect.
ignoreSignal :: Signal -> IO ()
ignoreSignal signal = void (installHandler signal Ignore Nothing)
