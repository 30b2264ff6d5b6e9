{-# LANGUAGE DataKinds #-}
{-# LANGUAGE OverloadedStrings #-}

-- | The decoder and the encoder against Python's json module and node's JSON.
module JsonOracleTest
  ( tests,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (forM_, unless)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Text (Text)
import Data.Text qualified as Text
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build (Build, Card (..), Mixed, mixed)
import Heddle.Json.Build qualified as Build
import Heddle.Json.Decode
import Heddle.Json.Malformed
import JsonGen (document, loose, mutant, wrong, wrongText)
import Oracle
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertEqual, assertFailure, testCase)
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Json.Decode, Json.Build: other readers"
    [ withOracle make $ \oracle ->
        testGroup
          name
          [ testCase "texts mean what it says, or are refused by both" (decoding oracle),
            testCase "what is built means what it was built of" (building oracle)
          ]
      | (name, make) <- [("python", python), ("node", node)]
    ]

-- Lone surrogates, which both take, are left out.
decoding :: IO Oracle -> IO ()
decoding make = do
  oracle <- make
  texts <- generate (vectorOf 2000 (oneof [document, document, mutant, wrongText <$> wrong loose]))
  forM_ texts $ \input -> case decode loose {limitDuplicates = DuplicatesLast} value input of
    Right found -> assertEqual (show input) (Valid (canonical found)) =<< ask oracle input
    Left e ->
      unless (malformedReason e == LoneSurrogate || beyond (malformedReason e)) $
        ask oracle input >>= \case
          Invalid -> pure ()
          Valid _ -> assertFailure (show (input, e))
  where
    -- Valid JSON beyond the decoders' limits.
    beyond = \case
      TooDeep _ -> True
      TooLarge _ -> True
      NumberTooLong _ -> True
      _ -> False

building :: IO Oracle -> IO ()
building make = do
  oracle <- make
  values <- generate (vectorOf 1000 (resize 30 canon))
  forM_ values $ \one ->
    let written = toByteString (Build.encode (built one))
     in assertEqual (show written) (Valid (canonical one)) =<< ask oracle written

-- | Any value; a number that no double has is infinite, as it is to them.
value :: Decoder Canon
value = byKind $ \case
  KindNull -> CNull <$ null_
  KindBool -> CBool <$> bool
  KindNumber -> CNumber <$> (double <|> (infinite <$> number))
  KindString -> CString <$> text
  KindArray -> CArray <$> list value
  KindObject -> CObject . reverse <$> foldMembers (\members key x -> (key, x) : members) [] value
  where
    infinite digits = if ByteString.isPrefixOf "-" (Char8.dropWhile (== ' ') digits) then -1 / 0 else 1 / 0

built :: Canon -> Build 'One Mixed
built = \case
  CNull -> mixed Build.null_
  CBool b -> mixed (Build.bool b)
  CNumber n -> mixed (Build.double n)
  CString t -> mixed (Build.text t)
  CArray xs -> mixed (Build.arrayOf built xs)
  CObject pairs -> mixed (Build.object (foldMap (\(key, x) -> Build.nameText key Build.<:> built x) pairs))

canon :: Gen Canon
canon = sized go
  where
    go n
      | n <= 1 = leaf
      | otherwise =
        oneof
          [ leaf,
            CArray <$> (choose (0, 6) >>= \k -> vectorOf k (go (n `quot` 3))),
            CObject <$> (choose (0, 6) >>= \k -> vectorOf k ((,) <$> string_ <*> go (n `quot` 3)))
          ]
    leaf = oneof [pure CNull, CBool <$> arbitrary, CNumber <$> finite, CString <$> string_]
    finite = oneof [arbitrary, fromIntegral <$> (arbitrary :: Gen Int), (/ 3) . fromInteger <$> choose (-(10 ^ (30 :: Int)), 10 ^ (30 :: Int)), elements [0, -0.0, 5.0e-324, 1.7976931348623157e308, 1e21, 1e-7]]
    string_ :: Gen Text
    string_ = Text.filter (\c -> c < '\xd800' || c > '\xdfff') . Text.pack <$> listOf (oneof [arbitrary, elements "\"\\/\0\n\x1f\x7f\x2028\x2029\&é漢\x1f600\x10ffff"])
