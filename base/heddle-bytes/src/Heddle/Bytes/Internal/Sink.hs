-- |
-- Module      : Heddle.Bytes.Internal.Sink
-- Description : The memory that a builder fills
-- Stability   : internal; exempt from the version policy
--
-- A sink is a range of memory to fill and a way to get more. The end of the range is in a word of the sink; the
-- address of the next byte is passed from action to action ("Heddle.Prim.AddrState").
--
-- Invariant: after 'sinkMore' for n bytes there is room for n bytes.
-- Cost: a comparison for each piece, and rarely a call of 'sinkMore'.
-- Owner: the thread that runs the 'Put'.
module Heddle.Bytes.Internal.Sink
  ( -- * Sinks
    Sink,
    newSink,
    sinkEnd,
    setSinkEnd,
    sinkLevel,
    sinkPolicy,
    withSinkPolicy,
    sinkMore,
    addressOf,
    addressAt,

    -- * Pieces
    Write (..),
    pokeWrite,

    -- * Sequences
    Put,
    runPut,
    runningPut,
    write,
    writeBounded,
    slice,

    -- * Bytes and characters
    copySlice,
    copyInto,
    pokeUtf8,
  )
where

import Control.Monad (foldM)
import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Char (ord)
import Data.String (IsString (..))
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, minusPtr, plusPtr, ptrToIntPtr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff)
import Heddle.Prim.AddrState (AddrState, At (..), addrState, advancing, runAddrState)
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Cpu (level, levelCode)
import Heddle.Prim.Exception (assert)
import Heddle.Prim.Literal (FromLiteral (..), literal, literalLength)

-- | The memory that a 'Put' fills.
data Sink = Sink
  { -- | Word 0: the end of the memory that is being filled. Word 1: the level of the kernels to use. Word 2: what
    -- 'withSinkPolicy' has set.
    sinkWords :: !Words,
    -- | Given the end of the written bytes and how many more are needed: takes the bytes and returns where to
    -- continue.
    sinkMore :: !(Ptr Word8 -> Int -> IO (Ptr Word8)),
    -- | Writes a slice that is larger than the room left.
    sinkSlice :: !(Ptr Word8 -> ByteString -> IO (Ptr Word8))
  }

-- | A sink from its two actions, which get the sink itself, so that they can set its end.
--
-- [Cost]: some words.
newSink :: (Sink -> Ptr Word8 -> Int -> IO (Ptr Word8)) -> (Sink -> Ptr Word8 -> ByteString -> IO (Ptr Word8)) -> IO Sink
newSink more large = do
  words_ <- newWords 3
  writeWord words_ 1 (fromIntegral (levelCode level))
  let sink = Sink {sinkWords = words_, sinkMore = more sink, sinkSlice = large sink}
  pure sink

-- | Where the memory ends.
--
-- [Cost]: two memory accesses.
sinkEnd :: Sink -> IO (Ptr Word8)
sinkEnd sink = addressAt <$> readWord (sinkWords sink) 0
{-# INLINE sinkEnd #-}

-- | Continue in memory that ends here.
--
-- [Cost]: two memory accesses.
setSinkEnd :: Sink -> Ptr Word8 -> IO ()
setSinkEnd sink end = writeWord (sinkWords sink) 0 (addressOf end)
{-# INLINE setSinkEnd #-}

-- | The level of the kernels, as C has it; reading it here is cheaper than computing it.
--
-- [Cost]: two memory accesses.
sinkLevel :: Sink -> IO CInt
sinkLevel sink = fromIntegral <$> readWord (sinkWords sink) 1
{-# INLINE sinkLevel #-}

-- | A number that an encoder hands down to the pieces inside it, such as its policy for values that its format does
-- not have; 0 unless 'withSinkPolicy' has set another one.
--
-- [Cost]: two memory accesses.
sinkPolicy :: Sink -> IO Int
sinkPolicy sink = readWord (sinkWords sink) 2
{-# INLINE sinkPolicy #-}

-- | A builder under another policy.
--
-- [Cost]: four memory accesses.
withSinkPolicy :: Int -> Put -> Put
withSinkPolicy policy put = runningPut $ \sink p -> do
  before <- sinkPolicy sink
  writeWord (sinkWords sink) 2 policy
  end <- runPut put sink p
  writeWord (sinkWords sink) 2 before
  pure end

-- | An address as a word.
addressOf :: Ptr Word8 -> Int
addressOf p = case ptrToIntPtr p of IntPtr n -> n
{-# INLINE addressOf #-}

-- | The inverse of 'addressOf'.
addressAt :: Int -> Ptr Word8
addressAt = intPtrToPtr . IntPtr
{-# INLINE addressAt #-}

-- | A bounded primitive: the most bytes that it takes, and the action that writes them and returns the end.
data Write = Write !Int (Ptr Word8 -> IO (Ptr Word8))

-- | Writes one after the other, with one check for both.
instance Semigroup Write where
  Write m f <> Write n g = Write (m + n) (\p -> f p >>= g)
  {-# INLINE (<>) #-}

instance Monoid Write where
  mempty = Write 0 pure
  {-# INLINE mempty #-}

-- | Write a piece at an address with room for its bound.
--
-- [Cost]: the piece's.
pokeWrite :: Write -> Ptr Word8 -> IO (Ptr Word8)
pokeWrite (Write bound f) p = f p >>= within bound p
{-# INLINE pokeWrite #-}

-- | Assert, if the library was built with the flag @check-bounds@, that a piece ended within its bound.
within :: Int -> Ptr Word8 -> Ptr Word8 -> IO (Ptr Word8)
within bound p end = assert (end >= p && end `minusPtr` p <= bound) (pure end)
{-# INLINE within #-}

-- | A builder: a sequence of pieces.
newtype Put = Put (AddrState Sink ())

-- | Writes one after the other.
instance Semigroup Put where
  Put a <> Put b = Put (a *> b)
  {-# INLINE (<>) #-}

instance Monoid Put where
  mempty = Put (pure ())
  {-# INLINE mempty #-}

-- | Run it from an address; returns the end.
--
-- [Cost]: the pieces'.
runPut :: Put -> Sink -> Ptr Word8 -> IO (Ptr Word8)
runPut (Put w) sink p = do
  At end () <- runAddrState w sink p
  pure end
{-# INLINE runPut #-}

-- | A builder from an action, which gets the sink and the address to write to and returns the end.
--
-- [Cost]: the action's.
runningPut :: (Sink -> Ptr Word8 -> IO (Ptr Word8)) -> Put
runningPut = Put . advancing
{-# INLINE runningPut #-}

-- | A bounded primitive as a builder: makes room for it if needed.
--
-- [Cost]: one comparison, and the piece's.
write :: Write -> Put
write (Write bound f) = writeBounded bound f
{-# INLINE write #-}

-- | 'write' of an unpacked primitive.
writeBounded :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> Put
writeBounded bound f = Put . advancing $ \sink p -> do
  end <- sinkEnd sink
  -- One continuation for both cases, so that the piece's code is generated once.
  at <- if bound <= end `minusPtr` p then pure p else sinkMore sink p bound
  f at >>= within bound at
{-# INLINE writeBounded #-}

-- | Existing bytes. They are copied if there is room; otherwise the sink decides how.
--
-- [Cost]: a copy.
slice :: ByteString -> Put
slice text = Put . advancing $ \sink p -> do
  end <- sinkEnd sink
  if ByteString.length text <= end `minusPtr` p then copySlice p text else sinkSlice sink p text

-- | Copy bytes to an address with room for them; returns the end.
--
-- [Cost]: a copy.
copySlice :: Ptr Word8 -> ByteString -> IO (Ptr Word8)
copySlice p text = do
  copyInto p (foreignAddress from `plusPtr` offset) len
  -- The copy always ends, so this keeps the bytes alive; 'withForeignPtr' would allocate.
  touchForeignPtr from
  pure (p `plusPtr` len)
  where
    (from, offset, len) = ByteString.toForeignPtr text
{-# INLINE copySlice #-}

-- | Copy bytes; up to 16 without a call.
--
-- [Cost]: for up to 16 bytes two loads and two stores, which may overlap.
copyInto :: Ptr Word8 -> Ptr Word8 -> Int -> IO ()
copyInto !to !from !len
  | len > 16 = copyBytes to from len
  | len >= 8 = do
    first <- peek (castPtr from) :: IO Word64
    last_ <- peek (castPtr from `plusPtr` (len - 8)) :: IO Word64
    poke (castPtr to) first
    poke (castPtr to `plusPtr` (len - 8)) last_
  | len >= 4 = do
    first <- peek (castPtr from) :: IO Word32
    last_ <- peek (castPtr from `plusPtr` (len - 4)) :: IO Word32
    poke (castPtr to) first
    poke (castPtr to `plusPtr` (len - 4)) last_
  | len > 0 = do
    -- One to three bytes: the first, the middle and the last one.
    first <- peek from
    middle <- peekByteOff from (len `unsafeShiftR` 1) :: IO Word8
    last_ <- peekByteOff from (len - 1) :: IO Word8
    poke to first
    pokeByteOff to (len `unsafeShiftR` 1) middle
    pokeByteOff to (len - 1) last_
  | otherwise = pure ()
{-# NOINLINE copyInto #-}

-- * Literals

-- A literal is compiled to a call of one of the workers below, with the address and the number of its
-- bytes. So the workers must not be inlined.

-- | A literal costs its bytes and a call, not code; see "Heddle.Prim.Literal".
--
-- Law (@literals@): the bytes are those of the characters in UTF-8, surrogates as U+FFFD.
-- [Source]: O'Sullivan, on text's literals.
instance IsString Put where
  fromString = literal
  {-# INLINE fromString #-}

instance FromLiteral Put where
  fromAscii bytes = putAscii bytes (literalLength bytes)
  {-# INLINE fromAscii #-}
  fromModifiedUtf8 bytes = putModifiedUtf8 bytes (literalLength bytes)
  {-# INLINE fromModifiedUtf8 #-}
  fromCharacters = foldMap (\c -> writeBounded 4 (`pokeUtf8` c))

-- | Its bound is the number of the literal's bytes.
instance IsString Write where
  fromString = literal
  {-# INLINE fromString #-}

instance FromLiteral Write where
  fromAscii bytes = Write len (\p -> copyInto p bytes len >> pure (p `plusPtr` len))
    where
      len = literalLength bytes
  {-# INLINE fromAscii #-}
  fromModifiedUtf8 bytes = Write (literalLength bytes) $ \p -> do
    At end () <- runAddrState modifiedUtf8 bytes p
    pure end
  {-# INLINE fromModifiedUtf8 #-}
  fromCharacters chars = Write (4 * length chars) (\p -> foldM pokeUtf8 p chars)

putAscii :: Ptr Word8 -> Int -> Put
putAscii !bytes !len = writeBounded len (\p -> copyInto p bytes len >> pure (p `plusPtr` len))
{-# NOINLINE putAscii #-}

putModifiedUtf8 :: Ptr Word8 -> Int -> Put
putModifiedUtf8 !bytes !len = writeBounded len $ \p -> do
  At end () <- runAddrState modifiedUtf8 bytes p
  pure end
{-# NOINLINE putModifiedUtf8 #-}

-- | Convert GHC's encoding of a literal, which ends with 0, to UTF-8: C0 80 stands for NUL, and ED A0 to
-- ED BF begin surrogates.
modifiedUtf8 :: AddrState (Ptr Word8) ()
modifiedUtf8 = addrState go
  where
    go from to =
      peek from >>= \case
        0 -> pure (At to ())
        0xc0 -> poke to 0 >> go (from `plusPtr` 2) (to `plusPtr` 1)
        0xed -> do
          second <- peekByteOff from 1 :: IO Word8
          if second >= 0xa0
            then do
              poke to 0xef
              pokeByteOff to 1 (0xbf :: Word8)
              pokeByteOff to 2 (0xbd :: Word8)
              go (from `plusPtr` 3) (to `plusPtr` 3)
            else poke to 0xed >> go (from `plusPtr` 1) (to `plusPtr` 1)
        byte -> poke to byte >> go (from `plusPtr` 1) (to `plusPtr` 1)
{-# NOINLINE modifiedUtf8 #-}

-- | Write a character in UTF-8, a surrogate as U+FFFD, in up to four bytes; returns the end.
--
-- [Cost]: one to four stores.
pokeUtf8 :: Ptr Word8 -> Char -> IO (Ptr Word8)
pokeUtf8 p char = go (ord char)
  where
    go c
      | c < 0x80 = do
        poke p (fromIntegral c)
        pure (p `plusPtr` 1)
      | c < 0x800 = do
        pokeByteOff p 0 (fromIntegral (0xc0 .|. (c `unsafeShiftR` 6)) :: Word8)
        pokeByteOff p 1 (continuation c)
        pure (p `plusPtr` 2)
      | c < 0x10000 = do
        let c' = if c .&. 0xf800 == 0xd800 then 0xfffd else c
        pokeByteOff p 0 (fromIntegral (0xe0 .|. (c' `unsafeShiftR` 12)) :: Word8)
        pokeByteOff p 1 (continuation (c' `unsafeShiftR` 6))
        pokeByteOff p 2 (continuation c')
        pure (p `plusPtr` 3)
      | otherwise = do
        pokeByteOff p 0 (fromIntegral (0xf0 .|. (c `unsafeShiftR` 18)) :: Word8)
        pokeByteOff p 1 (continuation (c `unsafeShiftR` 12))
        pokeByteOff p 2 (continuation (c `unsafeShiftR` 6))
        pokeByteOff p 3 (continuation c)
        pure (p `plusPtr` 4)
    continuation :: Int -> Word8
    continuation c = fromIntegral (0x80 .|. (c .&. 0x3f))
{-# INLINE pokeUtf8 #-}
