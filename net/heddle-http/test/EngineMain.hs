-- | The engine over real sockets, on both back ends.
module Main (main) where

import EngineAdded qualified
import EngineBadInput qualified
import EngineConversation qualified
import EngineDeadlines qualified
import EngineFailures qualified
import EngineInside qualified
import EngineParts qualified
import EngineProxied qualified
import EngineTransport qualified
import Heddle.Testkit.Descriptors
import System.Environment (setEnv)
import Test.Tasty

main :: IO ()
main = do
  -- One after the other: what is left is looked for at the end.
  setEnv "TASTY_NUM_THREADS" "1"
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-http engine"
      [ EngineConversation.tests,
        EngineFailures.tests,
        EngineParts.tests,
        EngineInside.tests,
        EngineAdded.tests,
        EngineBadInput.tests,
        EngineDeadlines.tests,
        EngineTransport.tests,
        EngineProxied.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
