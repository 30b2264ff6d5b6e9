{-# LANGUAGE GeneralizedNewtypeDeriving #-}

-- |
-- Module      : Heddle.Prim.WaitCell
-- Description : One token that parks and wakes threads
-- Stability   : stable
--
-- A wait cell is idle, ready (holds a token) or parked on. 'unpark' leaves a token, or hands it to the
-- thread that has waited longest; 'park' takes one. Tokens do not accumulate, and spurious wake-ups are
-- allowed: a woken thread checks its condition again.
--
-- Protocol: 'reset' before the check (the system call), 'park' after it. 'park' then sees a token that was
-- left between the two.
--
-- Cost: 32 bytes a cell; park allocates GHC's 24-byte queue node.
-- Owner: its creator; any thread may use it.
module Heddle.Prim.WaitCell
  ( WaitCell,
    newWaitCell,
    unpark,
    reset,
    park,
  )
where

import Control.Concurrent.MVar (MVar, newEmptyMVar, takeMVar, tryPutMVar, tryTakeMVar)
import Control.Monad (void)

-- | A cell with at most one token.
newtype WaitCell = WaitCell (MVar ())
  deriving newtype (Eq)

-- | A cell without a token.
--
-- [Cost]: O(1); 32 bytes.
-- [Blocks]: never.
newWaitCell :: IO WaitCell
newWaitCell = WaitCell <$> newEmptyMVar

-- | Leave a token, or hand it to the thread that has waited longest.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
unpark :: WaitCell -> IO ()
unpark (WaitCell m) = void (tryPutMVar m ())
{-# INLINE unpark #-}

-- | Drop the token; 'True' when there was one.
--
-- [Cost]: O(1).
-- [Blocks]: never.
reset :: WaitCell -> IO Bool
reset (WaitCell m) = tryTakeMVar m >>= \t -> pure (t == Just ())
{-# INLINE reset #-}

-- | Take a token, parking the thread until there is one.
--
-- [Cost]: O(1).
-- [Blocks]: parks the thread; the capability runs on.
-- [Masking]: interruptible, even inside 'Heddle.Prim.Exception.mask'.
park :: WaitCell -> IO ()
park (WaitCell m) = takeMVar m
{-# INLINE park #-}
