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
      testCase "tornByTheRingsEnd: what the consumer gets at a time ends where a line ends" $ do
        ring <- newLogRing 64
        let put s = unsafeUseAsCStringLen s (\(p, n) -> putLine ring (castPtr p :: Ptr Word8) n)
            taken = pending ring (\p n -> B.packCStringLen (castPtr p, n)) >>= \piece -> piece <$ consume ring (B.length piece)
            fill i = put (C.pack (show (i :: Int) ++ replicate (i `mod` 17) '.' ++ "\n")) >>= \held -> if held >= 0 then fill (i + 1) else pure i
            go i pieces
              | i > 500 = pure (reverse pieces)
              | otherwise = do
                next <- fill i
                piece <- taken
                go next (piece : pieces)
        pieces <- go 1 []
        assertBool (show pieces) (all (\piece -> not (B.null piece) && C.last piece == '\n') pieces)
        let numbers = map (C.takeWhile (/= '.')) (C.lines (B.concat pieces))
        numbers @?= take (length numbers) (map (C.pack . show) [1 :: Int ..]),
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
