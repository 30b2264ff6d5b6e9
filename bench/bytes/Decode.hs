{-# LANGUAGE DuplicateRecordFields #-}

-- | Decoding JSON to types, Heddle against aeson, each with derived instances. Every pass decodes a whole
-- document and evaluates all of the result.
module Main
  ( main,
  )
where

import Control.DeepSeq (NFData, force)
import Control.Exception (evaluate)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.IORef (newIORef, readIORef)
import Data.Text qualified as Text
import DecodeInstances ()
import Documents
import Heddle.Json.FromJson (decodeJson)
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("heddle-twitter", passes "twitter" decodeJson search),
      ("aeson-twitter", passes "twitter" Aeson.eitherDecodeStrict' search),
      ("heddle-records", passes "records" decodeJson records),
      ("aeson-records", passes "records" Aeson.eitherDecodeStrict' records),
      ("heddle-numbers", passes "numbers" decodeJson numbers),
      ("aeson-numbers", passes "numbers" Aeson.eitherDecodeStrict' numbers)
    ]

passes :: (NFData a, Show e) => String -> (ByteString -> Either e a) -> (a -> Int) -> Int -> IO Int
passes file decode answer n = do
  document <- readDocument file >>= newIORef
  let go :: Int -> Int -> IO Int
      go 0 total = pure total
      go left total = do
        input <- readIORef document
        value <- either (fail . show) (evaluate . force) (decode input)
        go (left - 1) $! (31 * total + answer value) `rem` 1000000007
  go n 0

search :: Search -> Int
search s = sum (map status (statuses s))
  where
    status (Status {id = i, text = t, user = User {followers_count = c}}) = i `rem` 1000003 + Text.length t + c

records :: [Record] -> Int
records = sum . map (\(Record {id = i, name = t, balance = b, tags = l}) -> i + Text.length t + truncate b + length l)

numbers :: Numbers -> Int
numbers (Numbers {lines = l, measured = m, counts = c}) =
  sum (map (`rem` 1000003) c) + length m + truncate (sum (map (sum . map fst) l))
