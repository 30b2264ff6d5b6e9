-- |
-- Module      : Heddle.Prim.Global
-- Description : State of the whole process
-- Stability   : stable
--
-- For the few objects of which a process has exactly one.
--
-- Cost: the action's, once.
-- Owner: the process.
module Heddle.Prim.Global
  ( unsafeGlobal,
  )
where

import System.IO.Unsafe (unsafePerformIO)

-- | The result of an action, which runs once, when the result is first needed.
--
-- Unsafe: the definition that holds it must be at top level, of a type without
-- variables, and marked @NOINLINE@.
unsafeGlobal :: IO a -> a
unsafeGlobal = unsafePerformIO
{-# NOINLINE unsafeGlobal #-}
