-- | So many doubles written, each with a comma behind it, or read, each from its shortest decimal.
--
-- Half of them are of any size, half have few digits. The answer of a writer is the length of the text
-- (where it is the shortest), of a reader the sum of the doubles' bits.
module Main
  ( main,
  )
where

import Data.Aeson.Encoding qualified as Aeson
import Data.Attoparsec.ByteString.Char8 qualified as Attoparsec
import Data.Bits (unsafeShiftL, unsafeShiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Builder.Scientific qualified as Scientific
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCString)
import Data.Primitive.PrimArray
import Data.Scientific qualified as Scientific
import Data.Word (Word64)
import Foreign.Ptr (castPtr, plusPtr)
import GHC.Float (castDoubleToWord64, castWord64ToDouble)
import Heddle.Bytes.Double (readDouble)
import Heddle.Bytes.Put (Put, toByteString, write)
import Heddle.Bytes.Write (char7, doubleShortest)
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("write-heddle", \n -> pure (ByteString.length (toByteString (heddle n 0)))),
      ("write-bytestring", lazily Builder.doubleDec),
      ("write-scientific", lazily (Scientific.scientificBuilder . Scientific.fromFloatDigits)),
      ("write-aeson", lazily (Aeson.fromEncoding . Aeson.double)),
      ("read-heddle", readHeddle),
      ("read-attoparsec", reading (either error id . Attoparsec.parseOnly Attoparsec.double)),
      ("read-scientific", reading (either error Scientific.toRealFloat . Attoparsec.parseOnly Attoparsec.scientific)),
      ("read-read", reading (read . Char8.unpack))
    ]

count :: Int
count = 16384

numbers :: PrimArray Double
numbers = runPrimArray $ do
  array <- newPrimArray count
  let go i s
        | i == count = pure ()
        | otherwise = do
          let a = step s
          writePrimArray array i (if even i then anySize a else fromIntegral (a .&. 0xfffff) / 100)
          go (i + 1) a
  go 0 88172645463325252
  pure array
  where
    -- No infinities, and nothing that is no number.
    anySize a = castWord64ToDouble (if (a `unsafeShiftR` 52) .&. 0x7ff == 0x7ff then a `xor` 0x0010000000000000 else a)
    step :: Word64 -> Word64
    step x0 =
      let x1 = x0 `xor` (x0 `unsafeShiftL` 13)
          x2 = x1 `xor` (x1 `unsafeShiftR` 7)
       in x2 `xor` (x2 `unsafeShiftL` 17)
{-# NOINLINE numbers #-}

number :: Int -> Double
number i = indexPrimArray numbers (i .&. (count - 1))
{-# INLINE number #-}

heddle :: Int -> Int -> Put
heddle n i
  | i == n = mempty
  | otherwise = write (doubleShortest (number i) <> char7 ',') <> heddle n (i + 1)

lazily :: (Double -> Builder.Builder) -> Int -> IO Int
lazily f n = pure (fromIntegral (Lazy.length (Builder.toLazyByteString (go 0))))
  where
    go i
      | i == n = mempty
      | otherwise = f (number i) <> Builder.char7 ',' <> go (i + 1)

-- | The shortest decimals of the numbers, each with a comma behind it, and where each begins.
texts :: ByteString
texts = toByteString (heddle count 0)
{-# NOINLINE texts #-}

places :: PrimArray Int
places = primArrayFromList (0 : map (+ 1) (ByteString.elemIndices 0x2c texts))
{-# NOINLINE places #-}

readHeddle :: Int -> IO Int
readHeddle n = ByteString.unsafeUseAsCString texts $ \p ->
  let go i !found
        | i == n = pure found
        | otherwise = do
          let k = i .&. (count - 1)
              from = indexPrimArray places k
          x <- readDouble (castPtr p `plusPtr` from) (indexPrimArray places (k + 1) - 1 - from)
          go (i + 1) (found + fromIntegral (castDoubleToWord64 x))
   in go 0 0

reading :: (ByteString -> Double) -> Int -> IO Int
reading f n = pure (go 0 0)
  where
    go i !found
      | i == n = found
      | otherwise =
        let k = i .&. (count - 1)
            from = indexPrimArray places k
            text = ByteString.take (indexPrimArray places (k + 1) - 1 - from) (ByteString.drop from texts)
         in go (i + 1) (found + fromIntegral (castDoubleToWord64 (f text)))
