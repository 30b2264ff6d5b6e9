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
import ProxyConnections qualified
import ProxyConversation qualified
import ProxyParts qualified
import ProxyPeers qualified
import ProxySmuggling qualified
import ProxyTunnels qualified
import System.Environment (setEnv)
import System.Posix.Resource (Resource (..), ResourceLimits (..), getResourceLimit, setResourceLimit)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  -- One after the other: descriptors are counted.
  setEnv "TASTY_NUM_THREADS" "1"
  -- Five hundred WebSockets have four descriptors each in this process.
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = hardLimit limits}
  -- The system's runtime opens its descriptors at its first use.
  sleepFor (milliseconds 1)
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-gateway-proxy"
      [ ProxyParts.tests,
        ProxyConversation.tests,
        ProxyBadUpstream.tests,
        ProxyConnections.tests,
        ProxyTunnels.tests,
        ProxyPeers.tests,
        ProxySmuggling.tests,
        noDescriptorIsLeft before
      ]
