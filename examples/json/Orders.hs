{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Sums the orders of each customer: orders as JSON Lines come in, a line of JSON for each customer goes
-- out. Any number of orders takes the memory of the customers.
module Main
  ( main,
  )
where

import Data.ByteString qualified as ByteString
import Data.Foldable (for_)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import GHC.Generics (Generic)
import Heddle.Bytes.Put (hPut)
import Heddle.Json
import Heddle.Json.Stream (forEach, values)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import System.Exit (die)
import System.IO (stdin, stdout)

data Order = Order {customer :: !Text, items :: ![Item]}
  deriving stock (Generic)
  deriving anyclass (FromJson)

data Item = Item {price :: !Double, count :: !(Maybe Int)}
  deriving stock (Generic)
  deriving anyclass (FromJson)

data Total = Total {name :: !Text, orders :: !Int, amount :: !Double}
  deriving stock (Generic)
  deriving anyclass (ToJson)

main :: IO ()
main = do
  totals <- newRef (Map.empty :: Map Text Total)
  result <- forEach (values defaultLimits decodeJson) (ByteString.hGetSome stdin 65536) $ \order -> do
    seen <- readRef totals
    writeRef totals $! Map.insertWith add (customer order) (one order) seen
  either (die . showMalformed) pure result
  seen <- readRef totals
  for_ seen $ \total -> hPut stdout (encodeJson total <> "\n")
  where
    one (Order who what) = Total who 1 (sum [price i * maybe 1 fromIntegral (count i) | i <- what])
    add (Total _ m a) (Total who n b) = Total who (m + n) (a + b)
    showMalformed e = "orders: byte " <> show (malformedOffset e) <> ", " <> showPath (malformedPath e) <> ": " <> showReason (malformedReason e)
