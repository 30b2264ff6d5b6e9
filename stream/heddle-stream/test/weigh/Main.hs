-- | What flows allocate, weighed: as much for a million elements as for a thousand.
module Main (main) where

import Data.Foldable (for_)
import Data.Version (versionBranch)
import Heddle.Flow (run, (|>))
import Heddle.Flow qualified as Flow
import System.Info (compilerVersion)
import Weigh

main :: IO ()
main = mainWith $
  for_ [1000, 1000000] $ \n -> do
    -- A byte for each element of the larger ones would be a million.
    weighed "four stages" 0 n (\k -> Flow.range 1 k |> Flow.map (+ 3) |> Flow.filter odd |> Flow.postscan (+) 0 |> Flow.take k `run` Flow.sum)
    -- Since GHC 9.4 each run of the inner loop puts the sum into a box.
    weighed "a loop in the loop" (if versionBranch compilerVersion >= [9, 4] then 16 else 0) n (\k -> Flow.range 1 k |> Flow.map (+ 3) |> Flow.filter odd |> Flow.concatMap (`Flow.countFrom` 3) |> Flow.take k `run` Flow.sum)
    weighed "two sinks side by side" 0 n (\k -> Flow.range 1 k |> Flow.filter odd `run` ((+) <$> Flow.sum <*> Flow.length))
  where
    weighed name bytes n chain = validateAction (name ++ ", " ++ show n) chain n (maxAllocs (65536 + fromIntegral (bytes * n)))
