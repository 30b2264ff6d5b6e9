-- | The client over real sockets, on both back ends.
module Main (main) where

import ClientBadInput qualified
import ClientBodies qualified
import ClientConversation qualified
import ClientDeadlines qualified
import ClientInterruption qualified
import ClientLazyBodies qualified
import ClientParsing qualified
import ClientPeers qualified
import ClientPool qualified
import ClientRedirect qualified
import Heddle.IO (milliseconds)
import Heddle.Testkit.Descriptors
import Heddle.Timer (sleepFor)
import System.Environment (setEnv)
import Test.Tasty

main :: IO ()
main = do
  -- One after the other: descriptors are counted.
  setEnv "TASTY_NUM_THREADS" "1"
  -- The system's runtime opens its descriptors at its first use.
  sleepFor (milliseconds 1)
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-http client"
      [ ClientParsing.tests,
        ClientPool.tests,
        ClientRedirect.tests,
        ClientConversation.tests,
        ClientBodies.tests,
        ClientLazyBodies.tests,
        ClientBadInput.tests,
        ClientDeadlines.tests,
        ClientInterruption.tests,
        ClientPeers.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
