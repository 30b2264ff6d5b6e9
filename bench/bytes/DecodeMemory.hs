-- | How much memory decoding takes at most, in relation to its result. Prints @memory PEAK RESULT@, in bytes: the
-- memory of the process at its peak less that before, the input being there, and the size of the result.
--
-- @PROGRAM heddle|aeson COPIES +RTS -T -A1m -O4g@: with the last option the result is never moved once more while it grows.
module Main
  ( main,
  )
where

import Control.DeepSeq (force)
import Control.Exception (evaluate)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import DecodeInstances ()
import Documents
import GHC.Stats
import Heddle.Json.FromJson (decodeJson)
import System.Environment (getArgs)
import System.Exit (die)
import System.Mem (performMajorGC)
import Text.Printf (printf)

main :: IO ()
main =
  getArgs >>= \case
    ["heddle", n] -> run (either (Left . show) Right . decodeJson) (read n)
    ["aeson", n] -> run Aeson.eitherDecodeStrict' (read n)
    _ -> die "usage: bench-bytes-decode-memory heddle|aeson COPIES"

run :: (ByteString -> Either String [[Record]]) -> Int -> IO ()
run decode n = do
  one <- readDocument "records"
  input <- evaluate (Char8.cons '[' (Char8.snoc (ByteString.intercalate (Char8.singleton ',') (replicate n one)) ']'))
  performMajorGC
  before <- getRTSStats
  result <- either fail (evaluate . force) (decode input)
  peak <- getRTSStats
  performMajorGC
  after <- getRTSStats
  let live = gcdetails_live_bytes . gc
  printf
    "memory %d %d\n"
    (max_mem_in_use_bytes peak - gcdetails_mem_in_use_bytes (gc before))
    (live after - live before)
  -- Both are there until here.
  if sum (map length result) + ByteString.length input == 0 then fail "nothing" else pure ()
