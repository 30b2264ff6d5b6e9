-- | JSON from typed values: three documents, encoded N times, by heddle-json and by aeson; and a list of whole numbers,
-- all that it can express, by the Build that the seed prints as well.
--
-- The answer is the length in units of 64 KiB, because floating point numbers are written differently (1.5e-2 or 0.015).
module Main
  ( main,
  )
where

import Control.DeepSeq (NFData, force)
import Control.Exception (evaluate)
import Data.Aeson (FromJSON, ToJSON)
import Data.Aeson qualified as Aeson
import Data.ByteString qualified as ByteString
import Data.ByteString.Lazy qualified as Lazy
import Data.Text.Lazy.Builder (toLazyText)
import Data.Text.Lazy.Encoding (encodeUtf8)
import Documents
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Encode (ToJson, encodeJson)
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import SeedBuild qualified
import System.IO.Unsafe (unsafeInterleaveIO)

main :: IO ()
main = do
  -- Read and decoded when a way needs it first: in the run that is not counted.
  twitter <- unsafeInterleaveIO (document "twitter") :: IO Search
  records <- unsafeInterleaveIO (document "records") :: IO [Record]
  numbers <- unsafeInterleaveIO (document "numbers") :: IO Numbers
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("heddle-twitter", heddle twitter),
      ("aeson-twitter", aeson twitter),
      ("heddle-records", heddle records),
      ("aeson-records", aeson records),
      ("heddle-numbers", heddle numbers),
      ("aeson-numbers", aeson numbers),
      ("heddle-counts", heddle (counts numbers)),
      ("aeson-counts", aeson (counts numbers)),
      ("ancestor-counts", ancestor (counts numbers))
    ]

document :: (FromJSON a, NFData a) => String -> IO a
document file = do
  bytes <- readDocument file
  either fail (evaluate . force) (Aeson.eitherDecodeStrict bytes)

heddle :: ToJson a => a -> Int -> IO Int
heddle = passes (ByteString.length . toByteString . encodeJson)
{-# INLINE heddle #-}

-- | Strict output too, as one who sends it needs it.
aeson :: ToJSON a => a -> Int -> IO Int
aeson = passes (ByteString.length . Lazy.toStrict . Aeson.encode)
{-# INLINE aeson #-}

ancestor :: [Int] -> Int -> IO Int
ancestor = passes (strictLength . encodeUtf8 . toLazyText . SeedBuild.run . SeedBuild.array . foldMap SeedBuild.int)
  where
    strictLength = ByteString.length . Lazy.toStrict

passes :: (a -> Int) -> a -> Int -> IO Int
passes once x n = go n 0
  where
    go :: Int -> Int -> IO Int
    go 0 !total = pure total
    go k total = again once x >>= \len -> go (k - 1) (total + len)
{-# INLINE passes #-}

-- | Once more: not a value that is shared.
again :: (a -> Int) -> a -> IO Int
again once x = evaluate (once x `quot` 65536)
{-# NOINLINE again #-}
