-- | The engine over real sockets, on both back ends.
module Main (main) where

import Control.Exception (IOException, try)
import Data.List (isSuffixOf)
import EngineBadInput qualified
import EngineConversation qualified
import EngineDeadlines qualified
import EngineParts qualified
import Heddle.Http.RawClient (eventually)
import System.Directory (getSymbolicLinkTarget, listDirectory)
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
        EngineParts.tests,
        EngineBadInput.tests,
        EngineDeadlines.tests,
        -- Last: tests run one after the other.
        testCase "no descriptor is left" $ do
          _ <- eventually ("at most these descriptors: " ++ show before) descriptors ((<= length before) . length)
          pure ()
      ]

-- What each open descriptor is, but for GHC's own timer, which may come late; the one that
-- lists them is gone by then.
descriptors :: IO [String]
descriptors = listDirectory "/proc/self/fd" >>= fmap (filter (not . isSuffixOf "[timerfd]") . concat) . mapM target
  where
    target fd = either (const [] :: IOException -> [String]) (\t -> [fd ++ " " ++ t]) <$> try (getSymbolicLinkTarget ("/proc/self/fd/" ++ fd))
