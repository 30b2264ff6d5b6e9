-- | So many numbers of all lengths, each with a comma behind it, into memory.
--
-- The numbers' logarithms are even, so that each length is as frequent as the next. The answer is
-- the sum of the bytes.
module Main
  ( main,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Builder.Prim ((>$<), (>*<))
import Data.ByteString.Builder.Prim qualified as Prim
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.IORef (modifyIORef', newIORef, readIORef)
import Data.Primitive.PrimArray
import Data.Text (Text)
import Data.Text.Foreign qualified as Text (useAsPtr)
import Data.Text.Lazy qualified as LazyText
import Data.Text.Lazy.Builder qualified as Text
import Data.Word (Word64)
import Foreign.C.Types (CChar, CSize (..))
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Put (Put, drainTo, toByteString, write)
import Heddle.Bytes.Write (char7, decimal)
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import RenderedNumbers qualified as Ancestor

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("heddle-blocks", inBlocks heddle),
      ("bytestring-strict", strict (Lazy.toStrict . Builder.toLazyByteString . unfolded)),
      ("heddle", strict (\n -> toByteString (heddle n 0))),
      ("bytestring", lazily (`plain` 0)),
      ("bytestring-list", lazily list),
      ("bytestring-prim", lazily unfolded),
      ("heddle-small", small (\from to -> toByteString (heddle to from))),
      ("bytestring-small", small (\from to -> Lazy.toStrict (Builder.toLazyByteString (plain to from)))),
      ("show", texts Ancestor.shown),
      ("naive", texts Ancestor.naive),
      ("count4-one", texts Ancestor.byFours),
      ("count-one", texts Ancestor.byTwelves),
      ("count-two-quot-rem", texts Ancestor.twoDigitsQuotAndRem),
      ("count-two", texts Ancestor.twoDigits)
    ]

-- | The same numbers for everybody, made before anything is timed.
numbers :: PrimArray Word64
numbers = runPrimArray $ do
  array <- newPrimArray 65536
  let go i s
        | i == 65536 = pure ()
        | otherwise = do
          let a = step s
              b = step a
          writePrimArray array i (a `unsafeShiftR` fromIntegral (b .&. 63))
          go (i + 1) b
  go 0 88172645463325252
  pure array
  where
    step :: Word64 -> Word64
    step x0 =
      let x1 = x0 `xor` (x0 `unsafeShiftL` 13)
          x2 = x1 `xor` (x1 `unsafeShiftR` 7)
       in x2 `xor` (x2 `unsafeShiftL` 17)
{-# NOINLINE numbers #-}

number :: Int -> Word64
number i = indexPrimArray numbers (i .&. 65535)
{-# INLINE number #-}

heddle :: Int -> Int -> Put
heddle n i
  | i == n = mempty
  | otherwise = write (decimal (number i) <> char7 ',') <> heddle n (i + 1)

plain :: Int -> Int -> Builder.Builder
plain n i
  | i == n = mempty
  | otherwise = Builder.word64Dec (number i) <> Builder.char7 ',' <> plain n (i + 1)

list :: Int -> Builder.Builder
list n = Prim.primMapListBounded ((\x -> (x, ',')) >$< Prim.word64Dec >*< Prim.liftFixedToBounded Prim.char7) (map number [0 .. n - 1])

unfolded :: Int -> Builder.Builder
unfolded n = Prim.primUnfoldrBounded ((\x -> (x, ',')) >$< Prim.word64Dec >*< Prim.liftFixedToBounded Prim.char7) next 0
  where
    next i
      | i == n = Nothing
      | otherwise = Just (number i, i + 1)

strict :: (Int -> ByteString) -> Int -> IO Int
strict f n = sumOf (f n)

-- | A block of 32 KiB after the other, as lazy strings are consumed.
inBlocks :: (Int -> Int -> Put) -> Int -> IO Int
inBlocks f n = do
  total <- newIORef 0
  drainTo (\p len -> c_sum (castPtr p) (fromIntegral len) >>= \part -> modifyIORef' total (+ fromIntegral part)) (f n 0)
  readIORef total

lazily :: (Int -> Builder.Builder) -> Int -> IO Int
lazily f n = sum <$> mapM sumOf (Lazy.toChunks (Builder.toLazyByteString (f n)))

-- | Eight numbers in each of many strict results.
small :: (Int -> Int -> ByteString) -> Int -> IO Int
small f n = go 0 0
  where
    go i !found
      | i == n = pure found
      | otherwise = do
        let next = min n (i + 8)
        s <- sumOf (f i next)
        go next (found + s)

-- | The blog's renderers, into the text package's builder.
texts :: (Word64 -> Text.Builder) -> Int -> IO Int
texts f n = sum <$> mapM sumOfText (LazyText.toChunks (Text.toLazyText (go 0)))
  where
    go i
      | i == n = mempty
      | otherwise = f (number i) <> Text.singleton ',' <> go (i + 1)
{-# INLINE texts #-}

-- | Of ASCII: each unit is a byte, and one that is 0.
sumOfText :: Text -> IO Int
sumOfText text = Text.useAsPtr text $ \p n -> fromIntegral <$> c_sum (castPtr p) (2 * fromIntegral n)

sumOf :: ByteString -> IO Int
sumOf text = ByteString.unsafeUseAsCStringLen text $ \(p, n) -> fromIntegral <$> c_sum p (fromIntegral n)

-- Unsafe: only reads memory.
foreign import ccall unsafe "bench_sum" c_sum :: Ptr CChar -> CSize -> IO Word64
