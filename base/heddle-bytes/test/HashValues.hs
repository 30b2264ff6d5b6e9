{-# LANGUAGE OverloadedStrings #-}

-- | What the tests of hashes share.
module HashValues
  ( reference,
    withKey,
    cut,
    allocated,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Word (Word64)
import Heddle.Bytes.Hash (HashKey (..))
import Heddle.Prim.Exception (evaluate)
import System.Mem (getAllocationCounter)
import Test.Tasty.HUnit (assertBool)
import Test.Tasty.QuickCheck hiding (total)

-- | The key of the vectors: the bytes 0 to 15.
reference :: HashKey
reference = HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908

-- | Under any key.
withKey :: Testable a => (HashKey -> a) -> Property
withKey f = forAll (oneof [pure (0, 0), (,) <$> chooseAny <*> chooseAny]) (f . uncurry HashKey)

-- | Pieces of every small size, many of them empty.
cut :: Gen [ByteString]
cut = listOf (oneof [pure "", piece 9, piece 40])
  where
    piece most = chooseInt (0, most) >>= \n -> ByteString.pack <$> vectorOf n chooseAny

-- | Fails when the function allocates.
allocated :: String -> (Int -> Word64) -> IO ()
allocated what f = do
  before <- getAllocationCounter
  let go :: Int -> Word64 -> Word64
      go 0 !total = total
      go i !total = go (i - 1) (total + f i)
  _ <- evaluate (go rounds 0)
  afterwards <- getAllocationCounter
  let each = fromIntegral (before - afterwards) / fromIntegral rounds :: Double
  assertBool (what <> ": " <> show each <> " bytes for each") (each < 0.5)
  where
    rounds = 10000
{-# INLINE allocated #-}
