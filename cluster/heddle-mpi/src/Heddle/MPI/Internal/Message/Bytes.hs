-- |
-- Module      : Heddle.MPI.Internal.Message.Bytes
-- Description : Codecs of byte strings, texts and vectors of plain numbers
-- Stability   : internal, exempt from the version policy
--
-- All are runs of bytes in their memory representation. A large run is sent as a part, and
-- received as a slice of the buffer if its type allows that: byte strings, storable and
-- primitive vectors. The others are copied once.
--
-- Invariant: a slice starts at a multiple of 16.
-- Owner: memory must not be changed until it has been sent, nor a buffer after it was decoded.
-- Cost: one copy of a small run; none of a large one, except as said above.
module Heddle.MPI.Internal.Message.Bytes
  ( bytesCodec,
    lazyBytesCodec,
    shortBytesCodec,
    textCodec,
    storableVectorCodec,
    primitiveVectorCodec,
    byteArrayCodec,
    primArrayCodec,
    serializeCodec,
    binaryCodec,
  )
where

import Control.Monad (unless)
import Data.Binary qualified as Binary
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal (mallocByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Short.Internal qualified as Short (copyToPtr, createFromPtr)
import Data.Primitive.ByteArray
  ( ByteArray,
    cloneByteArray,
    copyByteArrayToPtr,
    isByteArrayPinned,
    sizeofByteArray,
  )
import Data.Primitive.ByteArray qualified as ByteArray (ByteArray (..))
import Data.Primitive.PrimArray (PrimArray (..))
import Data.Primitive.Types (Prim)
import Data.Primitive.Types qualified as Prim (sizeOf)
import Data.Serialize (Serialize)
import Data.Serialize qualified as Serialize
import Data.Text (Text)
import Data.Vector.Primitive qualified as Primitive
import Data.Vector.Storable qualified as Storable
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, castForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (Storable, peek, sizeOf)
import GHC.ForeignPtr (unsafeWithForeignPtr)
import Heddle.MPI.Internal.Message.Codec
import Heddle.MPI.Internal.Message.Elements (elementsCodec)
import Heddle.MPI.Internal.Message.TextUnits (peekText, pokeText, textBytes)
import Heddle.Prim.Buffer (arrayBuffer, bufferArray, bufferForeign, bufferPtr)
import Heddle.Prim.Exception (describeException, evaluate, trySync)

-- | A byte string.
--
-- [Cost]: O(1) for a large one, which is not copied.
bytesCodec :: Codec ByteString
bytesCodec = Varying (runBytes . ByteString.length) writeBytes readBytes

-- | A lazy byte string: the number of its chunks, and these.
--
-- [Cost]: linear in the chunks; large ones are not copied.
lazyBytesCodec :: Codec [ByteString] -> Codec Lazy.ByteString
lazyBytesCodec = mapCodec Lazy.fromChunks Lazy.toChunks
{-# INLINE lazyBytesCodec #-}

-- | A short byte string, always inside the header.
--
-- [Cost]: one copy.
shortBytesCodec :: Codec ShortByteString
shortBytesCodec = Varying ((8 +) . Short.length) put get
  where
    put w bytes =
      writeInside w (Short.length bytes) (\to -> Short.copyToPtr bytes 0 to (Short.length bytes))
    get r = readRun r Short.createFromPtr $ \offset n ->
      unsafeWithForeignPtr (bufferForeign (readerBuffer r) offset) (`Short.createFromPtr` n)

-- | A text: its array's contents, always inside the header.
--
-- [Cost]: one copy, and a check when it is read.
textCodec :: Codec Text
textCodec = Varying (\text -> 8 + textBytes text) put get
  where
    put w text = writeInside w (textBytes text) (pokeText text . castPtr)
    get r = do
      at <- consume r 0
      let make from n = peekText (castPtr from) n >>= either (refuse at) pure
      readRun r make $ \offset n ->
        unsafeWithForeignPtr (bufferForeign (readerBuffer r) offset) (`make` n)

-- | A storable vector. Every pattern of bits must be a value.
--
-- [Cost]: O(1) for a large one, which is not copied.
storableVectorCodec :: forall a. Storable a => Codec (Storable.Vector a)
storableVectorCodec
  -- Such as (): there is no memory to send, only their number.
  | sizeOf (undefined :: a) <= 0 =
    elementsCodec Storable.length Storable.toList Storable.fromListN $
      Fixed 0 (\_ x -> x `seq` pure ()) (peek . castPtr)
  | otherwise = Varying (\xs -> runBytes (each * Storable.length xs)) put get
  where
    each = sizeOf (undefined :: a)
    put w xs = case Storable.unsafeToForeignPtr0 xs of
      (memory, n) -> writeForeign w (castForeignPtr memory) (each * n)
    get r = do
      at <- consume r 0
      let vector memory n = pure $! Storable.unsafeFromForeignPtr0 (castForeignPtr memory) (n `quot` each)
      readRun
        r
        ( \from n -> do
            whole at each n
            memory <- mallocByteString n
            unsafeWithForeignPtr memory (\to -> copyBytes to from n)
            vector memory n
        )
        (\offset n -> whole at each n >> vector (bufferForeign (readerBuffer r) offset) n)
{-# INLINE storableVectorCodec #-}

writeForeign :: Writer -> ForeignPtr Word8 -> Int -> IO ()
writeForeign w memory n =
  writeRun w n (\to -> unsafeWithForeignPtr memory (\from -> copyBytes to from n)) (pure memory)

-- | Check that the bytes are a whole number of elements.
whole :: Ptr Word8 -> Int -> Int -> IO ()
whole at each n =
  unless (n `rem` each == 0) $
    refuse at ("expected whole elements of " ++ show each ++ " bytes, found " ++ show n ++ " bytes")

-- | Bytes of an array, given the first and their number.
data Slice = Slice !ByteArray !Int !Int

-- | A slice of an array, of elements of the given size.
sliceCodec :: Int -> Codec Slice
sliceCodec each = Varying (\(Slice _ _ n) -> runBytes n) writeSlice get
  where
    get r = do
      at <- consume r 0
      readRun
        r
        (\from n -> whole at each n >> copied from n)
        ( \offset n -> do
            whole at each n
            -- A vector counts its offset in elements.
            if offset `rem` each == 0
              then (\array -> Slice array offset n) <$> bufferArray (readerBuffer r)
              else copied (bufferPtr (readerBuffer r) `plusPtr` offset) n
        )
      where
        copied from n = (\array -> Slice array 0 n) <$> copiedArray r from n

writeSlice :: Writer -> Slice -> IO ()
writeSlice w (Slice array offset n) =
  writeRun w n (\to -> copyByteArrayToPtr to array offset n) $
    if isByteArrayPinned array
      then (`bufferForeign` offset) <$> arrayBuffer array
      else do
        memory <- mallocByteString n
        unsafeWithForeignPtr memory (\to -> copyByteArrayToPtr to array offset n)
        pure memory

-- | A copy of bytes of the buffer.
copiedArray :: Reader -> Ptr Word8 -> Int -> IO ByteArray
copiedArray r from n = do
  array <- bufferArray (readerBuffer r)
  pure $! cloneByteArray array (from `minusPtr` bufferPtr (readerBuffer r)) n

-- | A primitive vector. Every pattern of bits must be a value.
--
-- [Cost]: O(1) for a large one, which is not copied, if its array is pinned, as large ones are.
primitiveVectorCodec :: forall a. Prim a => Codec (Primitive.Vector a)
primitiveVectorCodec = mapCodec there back (sliceCodec each)
  where
    each = Prim.sizeOf (undefined :: a)
    there (Slice array offset n) = Primitive.Vector (offset `quot` each) (n `quot` each) array
    back (Primitive.Vector offset n array) = Slice array (each * offset) (each * n)
{-# INLINE primitiveVectorCodec #-}

-- | An array of bytes.
--
-- [Cost]: a large one is not copied when written, if it is pinned; one copy when read.
byteArrayCodec :: Codec ByteArray
byteArrayCodec = runArrayCodec 1

-- | An array of plain numbers. Every pattern of bits must be a value.
--
-- [Cost]: that of 'byteArrayCodec'.
primArrayCodec :: forall a. Prim a => Codec (PrimArray a)
primArrayCodec =
  mapCodec
    (\(ByteArray.ByteArray b) -> PrimArray b)
    (\(PrimArray b) -> ByteArray.ByteArray b)
    (runArrayCodec (Prim.sizeOf (undefined :: a)))
{-# INLINE primArrayCodec #-}

runArrayCodec :: Int -> Codec ByteArray
runArrayCodec each = Varying (runBytes . sizeofByteArray) (\w b -> writeSlice w (Slice b 0 (sizeofByteArray b))) get
  where
    get r = do
      at <- consume r 0
      readRun
        r
        (\from n -> whole at each n >> copiedArray r from n)
        (\offset n -> whole at each n >> copiedArray r (bufferPtr (readerBuffer r) `plusPtr` offset) n)

-- | cereal's encoding of the value, as a run.
--
-- [Cost]: cereal's.
serializeCodec :: Serialize a => Codec a
serializeCodec = Blob Serialize.encode $ \bytes ->
  guarded "cereal" $ case Serialize.runGetState Serialize.get bytes 0 of
    Left reason -> Left reason
    Right (x, rest)
      | ByteString.null rest -> Right x
      | otherwise -> Left (leftOver (ByteString.length rest))
{-# INLINE serializeCodec #-}

-- | binary's encoding of the value, as a run.
--
-- [Cost]: binary's, and a copy of what it wrote.
binaryCodec :: Binary.Binary a => Codec a
binaryCodec = Blob (Lazy.toStrict . Binary.encode) $ \bytes ->
  guarded "binary" $ case Binary.decodeOrFail (Lazy.fromStrict bytes) of
    Left (_, _, reason) -> Left reason
    Right (rest, _, x)
      | Lazy.null rest -> Right x
      | otherwise -> Left (leftOver (fromIntegral (Lazy.length rest)))
{-# INLINE binaryCodec #-}

-- | Other libraries' decoders may throw.
guarded :: String -> Either String a -> IO (Either String a)
guarded library result =
  trySync (evaluate (either id (`seq` "") result) >> pure result) >>= \case
    Left e -> pure (Left (explained (describeException e)))
    Right (Left reason) -> pure (Left (explained reason))
    Right (Right x) -> pure (Right x)
  where
    explained reason = "expected what " ++ library ++ " reads: " ++ reason

leftOver :: Int -> String
leftOver n = show n ++ " bytes are left over"
