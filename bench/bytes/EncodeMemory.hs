-- | How much memory encoding takes at most, in relation to its result. Prints @memory PEAK RESULT@, in bytes: the
-- memory of the process at its peak less what the document takes, and the size of the result, which the peak includes.
--
-- The peak is the system's (memory outside of the heap counts), from when the document is there. The document takes
-- what the process has then, less what of its heap is free, for that may be used by the encoder. It need not be, so
-- that some MiB of the peak are the program's own: use many copies.
--
-- @PROGRAM heddle|aeson COPIES@, such as 60.
module Main
  ( main,
  )
where

import Control.DeepSeq (force)
import Control.Exception (evaluate)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Lazy qualified as Lazy
import Documents (Record, readDocument)
import GHC.Stats
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Encode (encodeJson)
import System.Environment (getArgs)
import System.Exit (die)
import System.Mem (performMajorGC)
import Text.Printf (printf)

main :: IO ()
main =
  getArgs >>= \case
    ["heddle", n] -> run (toByteString . encodeJson) (read n)
    -- Strict output too, as one who sends it needs it.
    ["aeson", n] -> run (Lazy.toStrict . Aeson.encode) (read n)
    _ -> die "usage: bench-bytes-encode-memory heddle|aeson COPIES"

run :: ([[Record]] -> ByteString) -> Int -> IO ()
run encoder n = do
  one <- readDocument "records" >>= either fail (evaluate . force) . Aeson.eitherDecodeStrict'
  document <- evaluate (force (replicate n one))
  -- What is encoded first of a type, such as its keys, is made once.
  _ <- evaluate (encoder [take 1 one])
  performMajorGC
  performMajorGC
  heap <- gc <$> getRTSStats
  before <- status "VmRSS:"
  -- The peak begins here.
  writeFile "/proc/self/clear_refs" "5"
  result <- evaluate (encoder document)
  peak <- status "VmHWM:"
  let free = fromIntegral (gcdetails_mem_in_use_bytes heap - gcdetails_live_bytes heap)
  printf "memory %d %d\n" (peak - (before - free)) (ByteString.length result)
  -- It is there until here.
  if length document + ByteString.length result == 0 then fail "nothing" else pure ()

-- | What the system says of this process.
status :: String -> IO Int
status name = do
  entries <- map words . lines <$> readFile "/proc/self/status"
  case [read kilobytes | [key, kilobytes, "kB"] <- entries, key == name] of
    [kilobytes] -> pure (1024 * kilobytes)
    _ -> fail ("no " <> name)
