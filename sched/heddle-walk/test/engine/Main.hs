-- |
-- Module      : Main
-- Description : Tests of the walking engine
-- Stability   : test
module Main (main) where

import ExtremeTest qualified
import GnuTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import SegmentTest qualified
import StopTest qualified
import System.Environment (getArgs, setEnv)
import System.Posix.Resource
  ( Resource (ResourceOpenFiles),
    ResourceLimit (ResourceLimit),
    ResourceLimits (..),
    getResourceLimit,
    setResourceLimit,
  )
import Test.Tasty

main :: IO ()
main =
  getArgs >>= \case
    "child" : arguments -> ExtremeTest.child arguments
    _ -> do
      -- One after the other: they count descriptors.
      setEnv "TASTY_NUM_THREADS" "1"
      fewerDescriptors
      defaultMain . limitEach 600000000 $
        testGroup "heddle-walk" [GnuTest.tests, StopTest.tests, SegmentTest.tests, ExtremeTest.tests]

-- The usual limit, so that deep trees come up against it everywhere; and who closes every
-- possible descriptor for a child is not busy for minutes where there may be a billion.
fewerDescriptors :: IO ()
fewerDescriptors = do
  limits <- getResourceLimit ResourceOpenFiles
  let few = case softLimit limits of
        ResourceLimit n -> min 1024 n
        _ -> 1024
  setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit few}
