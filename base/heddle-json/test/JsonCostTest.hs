{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What decoding allocates: it repeats exactly.
module JsonCostTest
  ( tests,
  )
where

import Control.Exception (evaluate)
import Control.Monad (replicateM_)
import Data.ByteString (ByteString)
import GHC.Generics (Generic)
import Heddle.Json.Decode (Decoder, decode, int, list, record, required)
import Heddle.Json.FromJson (FromJson (..))
import Heddle.Json.Options (defaultLimits)
import Heddle.Prim.Atomic (newRef, readRef)
import Heddle.Testkit.Heap (allocatedBy)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase)

tests :: TestTree
tests =
  testGroup
    "Json.Decode: cost"
    [ -- They were computed again for each value when the decoder was taken for one that runs once.
      testCase "decoderTablesAreMadeOnce" $ do
        derived <- perRecord (fromJson :: Decoder [Point])
        written <- perRecord (list point)
        let found = show (derived, written) <> " bytes for a record of three numbers: derived, written out"
        assertBool found (derived <= 1000 && written <= 1000)
    ]

data Point = Point {abscissa :: !Int, ordinate :: !Int, applicate :: !Int}
  deriving stock (Generic)
  deriving anyclass (FromJson)

point :: Decoder Point
point = record (Point <$> required "abscissa" int <*> required "ordinate" int <*> required "applicate" int)

-- | The bytes for each of 100 records.
perRecord :: Decoder [Point] -> IO Int
perRecord decoder = do
  text <- newRef ("[" <> mconcat (replicate 99 (one <> ",")) <> one <> "]")
  total <- allocatedBy (`replicateM_` (readRef text >>= evaluate . either (error . show) sum' . decode defaultLimits decoder))
  pure (total `quot` 100)
  where
    one = "{\"abscissa\":1,\"ordinate\":2,\"applicate\":3}" :: ByteString
    sum' points = sum [x + y + z | Point x y z <- points]
