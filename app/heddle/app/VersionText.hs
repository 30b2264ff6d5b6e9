{-# LANGUAGE CPP #-}

-- |
-- Module      : VersionText
-- Description : What heddle --version prints
--
-- One line with what a bug report needs. A module of its own, because the version is a macro of Cabal's.
module VersionText
  ( versionText,
    versionNumber,
  )
where

import Data.Version (showVersion)
import Heddle.Prim.Cpu (Level (..), level)
import System.Info (arch, compilerName, fullCompilerVersion)

-- | The program's version, compiler and architecture, and the level of the kernels that it uses on this machine.
versionText :: String
versionText =
  concat ["heddle ", versionNumber, " (", compilerName, " ", showVersion fullCompilerVersion, ", ", arch, ", ", kernels, " kernels)"]
  where
    kernels = case level of
      Plain -> "plain"
      Sse4 -> "SSE4"
      Avx2 -> "AVX2"
      Avx512 -> "AVX-512"

-- | The program's version alone.
versionNumber :: String
versionNumber = CURRENT_PACKAGE_VERSION
