-- |
-- Module      : Heddle.Prim.Barrier
-- Description : A memory barrier that every thread of the process passes
-- Stability   : stable
--
-- Where one side of a protocol runs often and the other seldom, the seldom one can pay for
-- both: after 'barrierEverywhere' every store that another thread made before it is
-- visible here, and every read that one makes after it sees what was stored here.
--
-- Cost: some microseconds, and an interrupt of every core that runs a thread of ours.
-- Owner: nothing is stored.
module Heddle.Prim.Barrier
  ( canBarrierEverywhere,
    barrierEverywhere,
  )
where

import Control.Monad (unless)
import Foreign.C.Types (CInt (..))
import Heddle.Prim.Exception (bug)
import Heddle.Prim.Global (unsafeGlobal)

-- | Does the system offer it? Linux does since 4.14, unless something forbids it.
--
-- [Cost]: nothing in a program: it registers before @main@ (@cbits/heddle_barrier.c@). Where this
-- is loaded into a process with threads, as by GHCi, 10 to 15 ms at the first use.
canBarrierEverywhere :: Bool
canBarrierEverywhere = unsafeGlobal ((== 0) <$> c_register)
{-# NOINLINE canBarrierEverywhere #-}

-- | Have every thread of the process pass a full barrier. Only if 'canBarrierEverywhere'.
--
-- [Cost]: a system call of some microseconds.
-- [Blocks]: never; the kernel waits for the other cores' interrupts, not for threads.
barrierEverywhere :: IO ()
barrierEverywhere = do
  -- Registered first.
  answer <- if canBarrierEverywhere then c_barrier else pure (-1)
  unless (answer == 0) (bug ("membarrier answered " ++ show answer))

-- Unsafe: a system call that finds the process registered (see cbits/heddle_barrier.c).
foreign import ccall unsafe "heddle_barrier_register" c_register :: IO CInt

-- Unsafe: microseconds, waiting for other cores' interrupts, not for threads.
foreign import ccall unsafe "heddle_barrier" c_barrier :: IO CInt
