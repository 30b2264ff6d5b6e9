{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Sched.Internal.Barrier
-- Description : membarrier(2): the heavy half of an asymmetric fence
-- Stability   : internal, exempt from the version policy
--
-- In a protocol whose one side runs often and whose other side runs rarely, the rare side can issue
-- the barriers of both. After 'barrierEverywhere', every store that another thread made before it is
-- visible to the caller, and every read that another thread makes after it sees the caller's stores.
--
-- Cost: some microseconds, and an interrupt of every core that runs a thread of this process.
-- Owner: nothing is stored.
module Heddle.Sched.Internal.Barrier
  ( canBarrierEverywhere,
    barrierEverywhere,
  )
where

import Control.Monad (unless)
import Foreign.C.Types (CInt (..))
import Heddle.Prim.Exception (bug)
import Heddle.Prim.Global (unsafeGlobal)

-- | Whether the kernel offers membarrier: Linux since 4.14, unless a seccomp filter forbids it.
--
-- [Cost]: none in a compiled program, which registers before @main@ (@cbits/heddle_barrier.c@). In a
-- process that already has threads when this is loaded, such as GHCi, 10 to 15 ms at the first use.
canBarrierEverywhere :: Bool
canBarrierEverywhere = unsafeGlobal ((== 0) <$> c_register)
{-# NOINLINE canBarrierEverywhere #-}

-- | Make every thread of the process pass a full barrier. Requires 'canBarrierEverywhere'.
--
-- [Cost]: a system call of some microseconds.
-- [Blocks]: never; the kernel waits for the other cores' interrupts, not for threads.
barrierEverywhere :: IO ()
barrierEverywhere = do
  -- Reading canBarrierEverywhere registers the process.
  answer <- if canBarrierEverywhere then c_barrier else pure (-1)
  unless (answer == 0) (bug ("membarrier answered " ++ show answer))

-- Unsafe: a system call that finds the process registered (see cbits/heddle_barrier.c).
foreign import ccall unsafe "heddle_barrier_register" c_register :: IO CInt

-- Unsafe: microseconds, waiting for other cores' interrupts, not for threads.
foreign import ccall unsafe "heddle_barrier" c_barrier :: IO CInt
