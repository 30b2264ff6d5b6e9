-- |
-- Module      : Heddle.Bytes.Hash.String
-- Description : SipHash of strings, at once and piece by piece
-- Stability   : stable
--
-- SipHash of Aumasson and Bernstein: under a secret key, an attacker cannot choose strings
-- with equal hashes. With 1 and 3 rounds it is fast enough for tables; with 2 and 4 it is the
-- form that its authors published first, a message authentication code for short messages.
--
-- Cost: about 6 ns, and 1.4 ns for every 8 bytes; see each function.
-- Owner: values.
module Heddle.Bytes.Hash.String
  ( -- * Keys
    HashKey (..),
    processKey,
    newKey,
    keyFromBytes,

    -- * At once
    sipHash13,
    sipHash24,
    sipHash13Lazy,
    sipHash24Lazy,

    -- * Piece by piece
    Stream,
    Rounds (..),
    begin,
    update,
    finish,

    -- * From a state on

    -- | For the instances of "Heddle.Bytes.Hash".
    bytesFrom,
    lazyFrom,
    arrayFrom,
    arraysFrom,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftL, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Lazy qualified as Lazy
import Data.Foldable (forM_)
import Data.Foldable qualified as Foldable
import Data.Primitive.ByteArray
  ( ByteArray,
    MutableByteArray,
    copyByteArray,
    newByteArray,
    unsafeFreezeByteArray,
    writeByteArray,
  )
import Data.Word (Word64)
import Foreign.Ptr (plusPtr)
import Heddle.Bytes.Internal.Foreign.Hash qualified as Kernel
import Heddle.Bytes.Internal.Random (randomBytes, randomBytesOrStop)
import Heddle.Bytes.Internal.Sip (HashKey (..), Sip (..), start, withBytes)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Unsafe (unsafeDupable, unsafeInlined)

-- | The key of this process, from the system's generator (getrandom(2)), made at its first use. If the
-- system gives no random bytes, the process ends with a message; a fixed key would not protect it.
--
-- [Cost]: a system call, once.
processKey :: HashKey
processKey = unsafeGlobal (readKey <$> randomBytesOrStop "the key of hash tables" keyLength)
{-# NOINLINE processKey #-}

-- | A fresh key from the system's generator.
--
-- [Cost]: a system call, less than 1 us.
-- [Blocks]: holds an OS thread, until the generator of a machine that just started is ready.
-- [Throws]: 'Heddle.Prim.Exception.IOException' with the errno if the system gives no random bytes.
-- [Threads]: any.
newKey :: IO HashKey
newKey = readKey <$> randomBytes keyLength

-- | A key from 16 bytes, read as by the reference implementation; 'Nothing' for another number of bytes.
--
-- [Cost]: O(1).
--
-- >>> keyFromBytes "0123456789" == Nothing
-- True
keyFromBytes :: ByteString -> Maybe HashKey
keyFromBytes bytes
  | ByteString.length bytes == keyLength = Just (readKey bytes)
  | otherwise = Nothing

keyLength :: Int
keyLength = 16

readKey :: ByteString -> HashKey
readKey bytes = HashKey (word (ByteString.take 8 bytes)) (word (ByteString.drop 8 bytes))
  where
    word = ByteString.foldr' (\byte high -> (high `unsafeShiftL` 8) .|. fromIntegral byte) 0

-- | SipHash-1-3 of a string.
--
-- [Cost]: about 6 ns and 1.4 ns for every 8 bytes; 0 bytes.
-- [Source]: Aumasson and Bernstein, SipHash; O'Sullivan, "A fast new SipHash implementation
-- in Haskell".
--
-- Law (@reference@): the hash is that of an independent implementation.
-- Law (@plain@): the hash is that of "Heddle.Bytes.Hash.Plain".
--
-- >>> sipHash13 (HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908) "\0\1\2"
-- 10085823154776569851
sipHash13 :: HashKey -> ByteString -> Word64
sipHash13 key = bytesFrom (start key)
{-# INLINE sipHash13 #-}

-- | SipHash-2-4 of a string.
--
-- [Cost]: about 9 ns and 2.5 ns for every 8 bytes; 0 bytes.
-- [Source]: Aumasson and Bernstein, SipHash.
--
-- Law (@reference@): the hashes are the reference's test vectors.
-- Law (@plain@): the hash is that of "Heddle.Bytes.Hash.Plain".
--
-- >>> sipHash24 (HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908) "\0\1\2"
-- 9612764727700323885
sipHash24 :: HashKey -> ByteString -> Word64
sipHash24 key bytes
  | ByteString.length bytes <= Kernel.largestSlice =
    unsafeInlined (withBytes bytes (Kernel.hash24 (start key)))
  | otherwise = finish (update (begin SipHash24 key) bytes)
{-# INLINE sipHash24 #-}

-- | SipHash-1-3 of a lazy string.
--
-- [Cost]: as 'sipHash13', and for each chunk some 15 ns and 90 bytes.
--
-- Law (@chunks@): however it is cut, the hash is that of the whole.
sipHash13Lazy :: HashKey -> Lazy.ByteString -> Word64
sipHash13Lazy key = lazyFrom (start key)

-- | SipHash-2-4 of a lazy string.
--
-- [Cost]: as 'sipHash24', and for each chunk some 20 ns and 130 bytes.
--
-- Law (@chunks@): however it is cut, the hash is that of the whole.
sipHash24Lazy :: HashKey -> Lazy.ByteString -> Word64
sipHash24Lazy key = finish . Foldable.foldl' update (begin SipHash24 key) . Lazy.toChunks

-- | The variants of SipHash.
data Rounds
  = -- | One round for each word and three at the end.
    SipHash13
  | -- | Two rounds for each word and four at the end.
    SipHash24
  deriving stock (Bounded, Enum, Eq, Show)

-- | A hash in progress. It is a value, which can be continued in several ways.
data Stream = Stream !Rounds !ByteArray

-- | A stream before its first byte.
--
-- [Cost]: 96 bytes.
begin :: Rounds -> HashKey -> Stream
begin rounds key = Stream rounds (filled (`writeStart` start key))

-- | Hash more bytes.
--
-- [Cost]: O(bytes), as 'sipHash13'; 128 bytes. The capability is held for 32 KiB at a time.
--
-- Law (@chunks@): however a string is cut, the hash is that of the whole.
--
-- >>> finish (update (update (begin SipHash13 (HashKey 1 2)) "ab") "c") == sipHash13 (HashKey 1 2) "abc"
-- True
update :: Stream -> ByteString -> Stream
update (Stream rounds old) bytes = Stream rounds . filled $ \stream -> do
  copyByteArray stream 0 old 0 (8 * Kernel.streamWords)
  absorbSlices (roundsOf rounds) stream bytes

-- | The hash of the bytes so far.
--
-- [Cost]: about 5 ns.
finish :: Stream -> Word64
finish (Stream rounds stream) = Kernel.finish (roundsOf rounds) stream

roundsOf :: Rounds -> Int
roundsOf = \case
  SipHash13 -> 1
  SipHash24 -> 2

-- | SipHash-1-3 of a string, after what the state has absorbed.
--
-- [Cost]: as 'sipHash13'.
bytesFrom :: Sip -> ByteString -> Word64
bytesFrom s bytes
  | ByteString.length bytes <= Kernel.largestSlice =
    unsafeInlined (withBytes bytes (Kernel.hash13 s))
  | otherwise = piecesFrom s (\stream -> absorbSlices 1 stream bytes)
{-# INLINE bytesFrom #-}

-- | SipHash-1-3 of a lazy string, after what the state has absorbed.
--
-- [Cost]: as 'sipHash13Lazy'; as 'sipHash13' for one chunk.
lazyFrom :: Sip -> Lazy.ByteString -> Word64
lazyFrom s bytes = case Lazy.toChunks bytes of
  [] -> bytesFrom s ByteString.empty
  [only] -> bytesFrom s only
  chunks -> piecesFrom s (forM_ chunks . absorbSlices 1)

-- | SipHash-1-3 of the bytes of an array, after what the state has absorbed.
--
-- [Cost]: as 'sipHash13'.
-- [Units]: offset and length are in bytes.
arrayFrom :: Sip -> ByteArray -> Int -> Int -> Word64
arrayFrom s array offset len
  | len <= Kernel.largestSlice = Kernel.hash13Array s array offset len
  | otherwise = arraysFrom s [(array, offset, len)]
{-# INLINE arrayFrom #-}

-- | As 'arrayFrom', for bytes in several arrays.
--
-- [Cost]: as 'sipHash13Lazy'.
-- [Units]: offsets and lengths are in bytes.
arraysFrom :: Sip -> [(ByteArray, Int, Int)] -> Word64
arraysFrom s pieces = piecesFrom s $ \stream -> forM_ pieces $ \(array, offset, len) ->
  forSlices len $ \at n -> Kernel.updateArray 1 stream array (offset + at) n

-- | SipHash-1-3 of the bytes that an action puts into a stream.
piecesFrom :: Sip -> (MutableByteArray RealWorld -> IO ()) -> Word64
piecesFrom s fill = Kernel.finish 1 . filled $ \stream -> writeStart stream s *> fill stream
{-# NOINLINE piecesFrom #-}

absorbSlices :: Int -> MutableByteArray RealWorld -> ByteString -> IO ()
absorbSlices rounds stream bytes = withBytes bytes $ \p len ->
  forSlices len $ \at n -> Kernel.update rounds stream (p `plusPtr` at) n

-- | Call an action with offset and length of each slice of this many bytes.
forSlices :: Int -> (Int -> Int -> IO ()) -> IO ()
forSlices len act = go 0
  where
    go at
      | len - at <= Kernel.largestSlice = act at (len - at)
      | otherwise = act at Kernel.largestSlice *> go (at + Kernel.largestSlice)
{-# INLINE forSlices #-}

-- | The words of a stream that an action has filled.
filled :: (MutableByteArray RealWorld -> IO ()) -> ByteArray
filled fill = unsafeDupable $ do
  stream <- newByteArray (8 * Kernel.streamWords)
  fill stream
  unsafeFreezeByteArray stream

writeStart :: MutableByteArray RealWorld -> Sip -> IO ()
writeStart stream (Sip v0 v1 v2 v3) = do
  writeByteArray stream 0 v0
  writeByteArray stream 1 v1
  writeByteArray stream 2 v2
  writeByteArray stream 3 v3
  writeByteArray stream 4 (0 :: Word64)
  writeByteArray stream 5 (0 :: Word64)
