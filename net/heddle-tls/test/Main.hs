-- | Runs every test of heddle-tls, one at a time: leaks are counted over the whole process.
module Main (main) where

import FailureTest qualified
import FaultTest qualified
import Fixture (withFolder)
import FloodTest qualified
import HandshakeTest qualified
import Heddle.Prim.Clock (nanos)
import Heddle.Testkit.Descriptors (noDescriptorIsLeft, openDescriptors)
import Heddle.Timer (sleepFor)
import KernelTest qualified
import SiteTest qualified
import System.Environment (setEnv)
import Test.Tasty
import TransferTest qualified

main :: IO ()
main = do
  setEnv "TASTY_NUM_THREADS" "1"
  FailureTest.startFailing
  -- The system's runtime, which sleepFor uses, stays.
  sleepFor (nanos 1)
  before <- openDescriptors
  withFolder $ \folder ->
    defaultMain $
      testGroup
        "heddle-tls"
        [ HandshakeTest.tests folder,
          SiteTest.tests folder,
          TransferTest.tests folder,
          KernelTest.tests folder,
          FailureTest.tests folder,
          FaultTest.tests folder,
          FloodTest.tests folder,
          noDescriptorIsLeft before
        ]
