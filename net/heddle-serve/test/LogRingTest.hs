{-# LANGUAGE OverloadedStrings #-}

-- | The access log's ring.
module LogRingTest (tests) where

import Control.Monad (forM)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Serve.Internal.LogRing
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "the log's ring"
    [ testCase "lines go through whole, in order, around the end" $ do
        ring <- newLogRing 64
        let put s = unsafeUseAsCStringLen s (\(p, n) -> putLine ring (castPtr p :: Ptr Word8) n)
            takeAll' = do
              piece <- pending ring (\p n -> B.packCStringLen (castPtr p, n))
              if B.null piece then pure B.empty else consume ring (B.length piece) >> (piece <>) <$> takeAll'
            lines' = [C.pack (show i ++ replicate (i `mod` 20) '.' ++ "\n") | i <- [1 .. 200 :: Int]]
        got <- forM lines' $ \l -> do
          held <- put l
          held @?= B.length l
          takeAll'
        got @?= lines',
      testCase "what does not fit is refused whole" $ do
        ring <- newLogRing 16
        let put s = unsafeUseAsCStringLen s (\(p, n) -> putLine ring (castPtr p :: Ptr Word8) n)
        put "0123456789" >>= (@?= 10)
        put "0123456" >>= (@?= (-1))
        put "012345" >>= (@?= 16)
        put "x" >>= (@?= (-1))
        consume ring 1
        put "x" >>= (@?= 16)
    ]
