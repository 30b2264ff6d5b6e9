-- |
-- Module      : Main
-- Description : Tests of the reverse proxy
module Main
  ( main,
  )
where

import Heddle.Prim.Clock (milliseconds)
import Heddle.Testkit.Descriptors (noDescriptorIsLeft, openDescriptors)
import Heddle.Timer (sleepFor)
import ProxyBadUpstream qualified
import ProxyConversation qualified
import ProxyParts qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  -- One after the other: descriptors are counted.
  setEnv "TASTY_NUM_THREADS" "1"
  -- The system's runtime opens its descriptors at its first use.
  sleepFor (milliseconds 1)
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-gateway-proxy"
      [ ProxyParts.tests,
        ProxyConversation.tests,
        ProxyBadUpstream.tests,
        noDescriptorIsLeft before
      ]
