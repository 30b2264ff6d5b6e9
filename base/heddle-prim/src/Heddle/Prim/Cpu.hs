-- |
-- Module      : Heddle.Prim.Cpu
-- Description : The vector instructions of this processor
-- Stability   : stable
--
-- Kernels exist at several levels, from plain C up, with the same results. Programs use 'level'; tests and
-- measurements use each of 'levels'.
--
-- Cost: the processor is asked once, at the first use.
-- Owner: the process.
module Heddle.Prim.Cpu
  ( Level (..),
    level,
    levelCode,
    levels,
  )
where

import Data.Char (toLower)
import Foreign.C.Types (CInt (..))
import Heddle.Prim.Global (unsafeGlobal)
import System.Environment (lookupEnv)

-- | The instructions that a kernel may use; each level includes those before it.
data Level
  = -- | What every processor of this kind has.
    Plain
  | -- | SSSE3, SSE4.1, SSE4.2 and POPCNT.
    Sse4
  | -- | AVX2, BMI1, BMI2 and LZCNT.
    Avx2
  | -- | AVX-512 as of Ice Lake and Zen 4: F, DQ, CD, BW, VL, VBMI, VBMI2.
    Avx512
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | The highest level of this machine, or a lower one named by the environment variable @HEDDLE_CPU@:
-- @plain@, @sse4@, @avx2@ or @avx512@.
--
-- [Cost]: asked once, at the first use.
level :: Level
level = unsafeGlobal $ do
  asked <- lookupEnv "HEDDLE_CPU"
  pure (maybe best (min best) (asked >>= named))
  where
    named text = lookup (map toLower text) [(map toLower (show one), one) | one <- [minBound ..]]
{-# NOINLINE level #-}

-- | The number of a level in C (@heddle_cpu.h@).
levelCode :: Level -> CInt
levelCode = fromIntegral . fromEnum
{-# INLINE levelCode #-}

-- | All levels of this machine; @HEDDLE_CPU@ does not limit them.
levels :: [Level]
levels = [minBound .. best]

best :: Level
best = toEnum (fromIntegral (unsafeGlobal c_best))
{-# NOINLINE best #-}

-- Unsafe: asks the processor.
foreign import ccall unsafe "heddle_cpu_best" c_best :: IO CInt
