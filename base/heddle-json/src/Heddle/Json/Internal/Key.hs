-- |
-- Module      : Heddle.Json.Internal.Key
-- Description : Keys of records, compared as words
-- Stability   : internal; exempt from the version policy
--
-- A key is stored as the bytes that a text has: in quotes and followed by a colon. Checking for an
-- expected key takes a comparison for each eight bytes. A table finds a key among many.
--
-- Cost: each function's.
-- Owner: values.
module Heddle.Json.Internal.Key
  ( -- * Keys
    Key,
    newKey,
    keyText,
    keySize,
    isKey,

    -- * Many
    Keys,
    newKeys,
    findKey,
  )
where

import Data.Bits (complement, unsafeShiftL, unsafeShiftR, xor, (.&.), (.|.))
import Data.ByteString qualified as ByteString
import Data.Primitive.Array (Array, arrayFromListN, indexArray, sizeofArray)
import Data.Primitive.ByteArray (ByteArray, byteArrayFromList, indexByteArray)
import Data.Primitive.PrimArray (PrimArray, indexPrimArray, primArrayFromList)
import Data.String (IsString (..))
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, minusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Utf8 qualified as Utf8 (encode)

-- | A record's key.
data Key = Key
  { -- | The key itself.
    keyText :: !Text,
    -- | Its length in a text, with quotes and colon, in bytes; 0 if it needs escapes.
    keySize :: !Int,
    -- | Its length in UTF-8 without them, in bytes.
    keyLength :: !Int,
    -- The bits of its last word that belong to it.
    keyMask :: !Word64,
    -- Its bytes, padded with zeros to a multiple of eight.
    keyBytes :: !ByteArray
  }

instance IsString Key where
  fromString = newKey . Text.pack

instance Show Key where
  showsPrec d = showsPrec d . keyText

-- | The key of this text.
--
-- [Cost]: O(length).
newKey :: Text -> Key
newKey text =
  Key
    { keyText = text,
      keySize = if Text.any (\c -> c < ' ' || c == '"' || c == '\\') text then 0 else size,
      keyLength = length utf8,
      keyMask = complement 0 `unsafeShiftR` (8 * (padding .&. 7)),
      keyBytes = byteArrayFromList (quoted ++ replicate padding 0)
    }
  where
    utf8 = ByteString.unpack (Utf8.encode text)
    quoted = 0x22 : utf8 ++ [0x22, 0x3a] :: [Word8]
    size = length quoted
    padding = negate size .&. 7

-- | Does this key, with its quotes and its colon, begin here?
--
-- [Cost]: a comparison for each eight bytes.
isKey :: Key -> Ptr Word8 -> Ptr Word8 -> IO Bool
isKey key p end
  | size == 0 || end `minusPtr` p < size = pure False
  | end `minusPtr` p < size + 7 = byBytes 0
  | otherwise = byWords 0 0
  where
    size = keySize key
    byWords !i !at
      | at + 8 < size = do
        w <- peekByteOff p at
        if w == (indexByteArray (keyBytes key) i :: Word64) then byWords (i + 1) (at + 8) else pure False
      | otherwise = do
        w <- peekByteOff p at
        pure (w .&. keyMask key == indexByteArray (keyBytes key) i)
    byBytes !i
      | i >= size = pure True
      | otherwise = do
        c <- peekByteOff p i
        if c == (indexByteArray (keyBytes key) i :: Word8) then byBytes (i + 1) else pure False
{-# INLINE isKey #-}

-- | The keys of a record in their order, with a hash table.
data Keys = Keys
  { keysAll :: !(Array Key),
    -- | The keys' numbers by hash; -1 in free places. Its size is a power of two.
    keysTable :: !(PrimArray Int)
  }

-- | Build the table.
--
-- [Cost]: O(n).
newKeys :: [Key] -> Keys
newKeys keys = Keys {keysAll = array, keysTable = primArrayFromList (foldl insert (replicate size (-1)) [0 .. n - 1])}
  where
    n = length keys
    array = arrayFromListN n keys
    size = head [s | s <- iterate (* 2) 4, s >= 2 * n]
    insert table i = go (keyHash (indexArray array i) .&. (size - 1))
      where
        go at
          | table !! at < 0 = take at table ++ i : drop (at + 1) table
          | otherwise = go ((at + 1) .&. (size - 1))

-- | The number of the key with these bytes, or -1. The address is that of the opening quote, the length
-- that of the contents, whose escapes are resolved. A quote must follow them.
--
-- [Cost]: usually a few comparisons.
findKey :: Keys -> Ptr Word8 -> Int -> IO Int
findKey keys p len = do
  hash <- bytesHash p len
  go (hash .&. mask)
  where
    table = keysTable keys
    mask = sizeofTable - 1
    sizeofTable = tableSize (sizeofArray (keysAll keys)) 4
    go !at
      | i < 0 = pure (-1)
      | otherwise = do
        same <- equal (indexArray (keysAll keys) i)
        if same then pure i else go ((at + 1) .&. mask)
      where
        i = indexPrimArray table at
    equal key
      | keyLength key /= len = pure False
      | otherwise = byBytes (keyBytes key) 0
    byBytes bytes !i
      | i > len - 7 = rest bytes i
      | otherwise = do
        w <- peekByteOff p i
        if w == (wordAt bytes i :: Word64) then byBytes bytes (i + 8) else pure False
    rest bytes !i
      | i > len = pure True
      | otherwise = do
        c <- peekByteOff p i
        if c == (indexByteArray bytes i :: Word8) then rest bytes (i + 1) else pure False
    wordAt bytes i = indexByteArray bytes (i `unsafeShiftR` 3)

tableSize :: Int -> Int -> Int
tableSize n size
  | size >= 2 * n = size
  | otherwise = tableSize n (2 * size)

-- Hashes the length and the first and last bytes.
keyHash :: Key -> Int
keyHash key = mix (keyLength key) (byte 1) (byte (if len == 0 then 1 else 2)) (byte len) (byte ((len + 1) `quot` 2))
  where
    len = keyLength key
    byte i = indexByteArray (keyBytes key) i :: Word8

-- For an empty string, these are its quotes.
bytesHash :: Ptr Word8 -> Int -> IO Int
bytesHash p len = mix len <$> byte (1 :: Int) <*> byte (if len == 0 then 1 else 2) <*> byte len <*> byte ((len + 1) `quot` 2)
  where
    byte = peekByteOff p
{-# INLINE bytesHash #-}

mix :: Int -> Word8 -> Word8 -> Word8 -> Word8 -> Int
mix len a b c d =
  fromIntegral ((word * 0x9e3779b97f4a7c15) `unsafeShiftR` 40 :: Word64)
  where
    word = fromIntegral len `xor` at a 8 .|. at b 16 .|. at c 24 .|. at d 32
    at byte n = fromIntegral byte `unsafeShiftL` n
