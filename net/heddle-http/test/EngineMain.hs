-- | The engine over real sockets, on both back ends.
module Main (main) where

import EngineBadInput qualified
import EngineConversation qualified
import EngineDeadlines qualified
import EngineInside qualified
import EngineParts qualified
import EngineTransport qualified
import Heddle.Testkit.Descriptors
import Test.Tasty
import Test.Tasty.Runners (NumThreads (..))

main :: IO ()
main = do
  before <- openDescriptors
  defaultMain . localOption (NumThreads 1) $
    testGroup
      "heddle-http engine"
      [ EngineConversation.tests,
        EngineParts.tests,
        EngineInside.tests,
        EngineBadInput.tests,
        EngineDeadlines.tests,
        EngineTransport.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
