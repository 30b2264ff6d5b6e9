-- | The engine over real sockets, on both back ends.
module Main (main) where

import EngineBadInput qualified
import EngineConversation qualified
import EngineDeadlines qualified
import Heddle.Http.RawClient (eventually)
import System.Directory (listDirectory)
import Test.Tasty
import Test.Tasty.HUnit (testCase)
import Test.Tasty.Runners (NumThreads (..))

main :: IO ()
main = do
  before <- descriptors
  defaultMain . localOption (NumThreads 1) $
    testGroup
      "heddle-http engine"
      [ EngineConversation.tests,
        EngineBadInput.tests,
        EngineDeadlines.tests,
        -- Last: tests run one after the other.
        testCase "no descriptor is left" $ do
          _ <- eventually ("at most " ++ show before ++ " descriptors") descriptors (<= before)
          pure ()
      ]

descriptors :: IO Int
descriptors = length <$> listDirectory "/proc/self/fd"
