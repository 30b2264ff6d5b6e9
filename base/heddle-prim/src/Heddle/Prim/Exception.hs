{-# LANGUAGE MagicHash #-}
-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Prim.Exception
-- Description : Exceptions: the only module that imports Control.Exception
-- Stability   : stable
--
-- Re-exports what Heddle uses of "Control.Exception" and adds handlers that catch synchronous exceptions
-- only, so that a cancellation is never swallowed.
--
-- Cost: that of the underlying handler frames.
-- Owner: nothing is stored.
module Heddle.Prim.Exception
  ( -- * Raising
    Exception (..),
    SomeException (..),
    throwIO,
    throw,
    throwTo,
    ioError,

    -- * Asynchronous and control exceptions
    SomeAsyncException (..),
    AsyncException (..),
    asyncExceptionToException,
    asyncExceptionFromException,
    isAsynchronous,

    -- * Catching
    catch,
    try,
    handleJust,
    trySync,
    catchSync,
    reportUncaught,

    -- * Telling
    describeException,

    -- * Cleaning up
    bracket,
    bracket_,
    bracketOnError,
    finally,
    onException,

    -- * Masking
    MaskingState (..),
    mask,
    mask_,
    uninterruptibleMask,
    uninterruptibleMask_,
    getMaskingState,
    interruptible,
    allowInterrupt,
    unsafeUnmask,
    unsafeMask,

    -- * Other exceptions and bugs
    IOException,
    BlockedIndefinitelyOnMVar (..),
    BlockedIndefinitelyOnSTM (..),
    HeddleBug (..),
    bug,
    assert,
    evaluate,
  )
where

import Control.Exception
import GHC.Conc (getUncaughtExceptionHandler)
import GHC.Exts (maskAsyncExceptions#)
import GHC.IO (IO (..), unsafeUnmask)
import GHC.Stack (CallStack, HasCallStack, callStack, prettyCallStack)

-- | A broken invariant of Heddle itself: please report it.
data HeddleBug = HeddleBug String CallStack

instance Show HeddleBug where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception HeddleBug where
  displayException (HeddleBug what stack) =
    "bug in Heddle, please report: " ++ what ++ "\n" ++ prettyCallStack stack

-- | Stop with a 'HeddleBug'.
--
-- [Throws]: 'HeddleBug', always.
bug :: HasCallStack => String -> IO a
bug what = throwIO (HeddleBug what callStack)

-- | Mask, without restoring afterwards. Code that continues by tail calls can alternate it with
-- 'unsafeUnmask' without growing the stack.
--
-- Unsafe: must not run inside 'uninterruptibleMask', which it would weaken.
--
-- [Cost]: about 3 ns.
-- [Blocks]: never.
unsafeMask :: IO a -> IO a
unsafeMask (IO io) = IO (maskAsyncExceptions# io)
{-# INLINE unsafeMask #-}

-- | Whether it was thrown by another thread ('throwTo') and so must not be swallowed.
isAsynchronous :: SomeException -> Bool
isAsynchronous e = case fromException e of
  Just (SomeAsyncException _) -> True
  Nothing -> False

-- | Like 'try' for every synchronous exception.
--
-- [Throws]: asynchronous exceptions pass through.
trySync :: IO a -> IO (Either SomeException a)
trySync body = (Right <$> body) `catchSync` (pure . Left)

-- | Like 'catch' for every synchronous exception.
--
-- [Throws]: asynchronous exceptions pass through.
catchSync :: IO a -> (SomeException -> IO a) -> IO a
catchSync body handler =
  body `catch` \e ->
    if isAsynchronous e then throwIO e else handler e

-- | What the exception says of itself. 'displayException' of a 'SomeException' puts a backtrace behind it in GHC 9.10,
-- and the end of a line where there is none.
--
-- [Cost]: that of its 'displayException'.
describeException :: SomeException -> String
describeException (SomeException e) = displayException e

-- | Call the program's handler of uncaught exceptions, which prints to standard error unless
-- 'GHC.Conc.setUncaughtExceptionHandler' has replaced it. For failures that no caller can receive any
-- more.
--
-- [Cost]: the handler's.
-- [Throws]: nothing synchronous: a report that fails is dropped.
reportUncaught :: SomeException -> IO ()
reportUncaught e = (getUncaughtExceptionHandler >>= \handler -> handler e) `catchSync` \_ -> pure ()
