{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Signals
-- Description : What the signals of administrators do
-- Stability   : internal, exempt from the version policy
--
-- Cost: none until a signal arrives.
-- Owner: the process, which has one handler for each signal.
module Heddle.Serve.Signals
  ( handleSignals,
  )
where

import Heddle.Prim.Atomic
import Heddle.Prim.File (closeFile, openFile, readOnly)
import Heddle.Serve.Signal

-- | The first signal to stop, the second one, the one to open logs again, the one to load the configuration again, and the one
-- to start a successor.
handleSignals :: IO () -> IO () -> IO () -> IO () -> IO () -> IO ()
handleSignals atFirst atSecond onReopen onReload onSuccessor = do
  signals <- newWords 1
  terminal <- (&&) <$> hasTerminal <*> (not <$> ignoredSignal sigHUP)
  let onStop = do
        before <- fetchAdd signals 0 1
        if before == 0 then atFirst else atSecond
      onHangUp = do
        there <- if terminal then hasTerminal else pure True
        if there then onReload else onStop
  onSignals ([(signal, onStop) | signal <- [sigTERM, sigINT, sigQUIT]] ++ [(sigUSR1, onReopen), (sigUSR2, onSuccessor), (sigHUP, onHangUp)])

-- Whether the process has a controlling terminal.
hasTerminal :: IO Bool
hasTerminal = do
  r <- openFile "/dev/tty" readOnly
  if r < 0 then pure False else True <$ closeFile (fromIntegral r)
