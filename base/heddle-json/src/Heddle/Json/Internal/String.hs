{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Json.Internal.String
-- Description : JSON strings as Text and as bytes
-- Stability   : internal; exempt from the version policy
--
-- Most strings are short and ASCII: they are scanned once and copied. Others are scanned for their end, scanned
-- for the size of the result, and read a third time to check and copy them.
--
-- Cost: O(bytes), a vector at a time in ASCII without escapes.
-- Owner: the thread that decodes.
module Heddle.Json.Internal.String
  ( text,
    textFrom,
    textContents,
    bytesFrom,
    shortFrom,
    inputSlice,
    unescaped,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as ByteString (fromForeignPtr)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short.Internal qualified as Short (ShortByteString (..))
import Data.Primitive.ByteArray
import Data.Primitive.PrimArray (MutablePrimArray (..))
import Data.Primitive.Ptr (copyPtrToMutablePrimArray)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Heddle.Bytes.TextArray (unitSize, unsafeText)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.TextUnits
import Heddle.Prim.AddrState (At (..))
import Heddle.Prim.Buffer (arrayBuffer, bufferForeign, foreignAddress)

-- | A string as Text.
--
-- [Cost]: O(length).
text :: Decoder Text
text = decoder textFrom

-- | The string that begins here.
--
-- [Cost]: O(bytes).
textFrom :: Env -> Ptr Word8 -> IO (At Text)
textFrom env p = do
  c <- byteAt env p
  if c /= 0x22
    then wrongKind env p "a string"
    else do
      a <- closeString env (p `plusPtr` 1)
      x <- textContents env (p `plusPtr` 1) a
      pure (At (p `plusPtr` (answerOffset a + 2)) x)
{-# INLINE textFrom #-}

-- | The text of a string whose contents begin here, after the quote; the answer says where they end.
--
-- [Cost]: O(bytes).
textContents :: Env -> Ptr Word8 -> Answer -> IO Text
textContents env p a
  | isPlain a && len <= sliceSize =
    if len == 0
      then pure Text.empty
      else do
        array <- newByteArray (unitSize * len)
        fillPlain (envLevel env) p len array
        frozen <- unsafeFreezeByteArray array
        pure (unsafeText frozen 0 len)
  | otherwise = longText env p len
  where
    len = answerOffset a
{-# INLINE textContents #-}

longText :: Env -> Ptr Word8 -> Int -> IO Text
longText env p len = do
  most <- sliced env p len mostUnits
  array <- newByteArray (unitSize * most)
  used <- copied env p len (\from to at -> fillContents (envLevel env) from to array at (envWords env))
  frozen <- fitted array (unitSize * most) (unitSize * used)
  pure (unsafeText frozen 0 used)
{-# NOINLINE longText #-}

-- The sum of a kernel's results over slices.
sliced :: Env -> Ptr Word8 -> Int -> (CInt -> Ptr Word8 -> Ptr Word8 -> IO Int) -> IO Int
sliced env p len count = go p 0
  where
    end = p `plusPtr` len
    go from !total
      | end `minusPtr` from <= sliceSize = (total +) <$> count (envLevel env) from end
      | otherwise = do
        n <- count (envLevel env) from (from `plusPtr` sliceSize)
        go (from `plusPtr` sliceSize) (total + n)

-- Copy contents in slices; returns where they end in the result.
copied :: Env -> Ptr Word8 -> Int -> (Ptr Word8 -> Ptr Word8 -> Int -> IO Answer) -> IO Int
copied env p len copy = go p 0
  where
    end = p `plusPtr` len
    go from !at = do
      let stop = if end `minusPtr` from > sliceSize then from `plusPtr` sliceSize else end
      a <- copy from stop at
      at' <- readByteArray (envWords env) 0
      let next = from `plusPtr` answerOffset a
      if
          | stop < end && (answerStatus a == 0 || answerStatus a == 2) -> go next at'
          | answerStatus a == 0 -> pure at'
          | otherwise -> refuseContents env next end (answerStatus a)
{-# INLINE copied #-}

-- Cut the array to this size. A large one keeps its memory when it is cut, so it is copied.
fitted :: MutableByteArray RealWorld -> Int -> Int -> IO ByteArray
fitted array size used
  | used == size = unsafeFreezeByteArray array
  | size < 3000 || used > size - size `quot` 8 = shrinkMutableByteArray array used >> unsafeFreezeByteArray array
  | otherwise = do
    exact <- newByteArray used
    copyMutableByteArray exact 0 array 0 used
    unsafeFreezeByteArray exact

-- | The UTF-8 of the string that begins here: a slice of the text if it has no escapes.
--
-- [Cost]: O(bytes).
bytesFrom :: Env -> Ptr Word8 -> IO (At ByteString)
bytesFrom env p = rawFrom env p (\from len -> pure (inputSlice env from len)) (unescaped env)

-- | A slice of the text, which it keeps alive.
--
-- [Cost]: O(1).
inputSlice :: Env -> Ptr Word8 -> Int -> ByteString
inputSlice env from = ByteString.fromForeignPtr (envInput env) (from `minusPtr` foreignAddress (envInput env))
{-# INLINE inputSlice #-}

-- | Copy the contents of a string as UTF-8 into new memory, which may be larger than the result.
--
-- [Cost]: O(bytes).
unescaped :: Env -> Ptr Word8 -> Int -> IO ByteString
unescaped env from len = do
  array <- newPinnedByteArray len
  used <- copied env from len (\a b at -> toUtf8 (envLevel env) a b array at (envWords env))
  buffer <- unsafeFreezeByteArray array >>= arrayBuffer
  pure (ByteString.fromForeignPtr (bufferForeign buffer 0) 0 used)
{-# NOINLINE unescaped #-}

-- | As 'bytesFrom', always a copy.
--
-- [Cost]: O(bytes).
shortFrom :: Env -> Ptr Word8 -> IO (At ShortByteString)
shortFrom env p = rawFrom env p copy $ \from len -> do
  array <- newByteArray len
  used <- copied env from len (\a b at -> toUtf8 (envLevel env) a b array at (envWords env))
  short <$> fitted array len used
  where
    copy from len = do
      array@(MutableByteArray bytes) <- newByteArray len
      copyPtrToMutablePrimArray (MutablePrimArray bytes) 0 from len
      short <$> unsafeFreezeByteArray array
    short (ByteArray array) = Short.SBS array

-- Check the string, then call the first function if it has no escapes, and the second if it has.
rawFrom :: Env -> Ptr Word8 -> (Ptr Word8 -> Int -> IO a) -> (Ptr Word8 -> Int -> IO a) -> IO (At a)
rawFrom env p asIs other = do
  c <- byteAt env p
  if c /= 0x22
    then wrongKind env p "a string"
    else do
      let from = p `plusPtr` 1
      a <- closeString env from
      let len = answerOffset a
          to = from `plusPtr` len
      x <-
        if
            | hasEscapes a -> other from len
            | hasHigh a -> checkString env from to >> asIs from len
            | otherwise -> asIs from len
      pure (At (to `plusPtr` 1) x)
{-# INLINE rawFrom #-}
