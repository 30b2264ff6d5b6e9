{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Sip
-- Description : SipHash in plain Haskell
-- Stability   : internal; exempt from the version policy
--
-- The state and the rounds of SipHash, and the hash of a string, which tests compare with the C kernels.
-- The rounds are in continuation-passing style, so that they are unrolled at their uses and the state
-- stays in registers.
--
-- Cost: a round is 14 operations; GHC's native code generator has no rotations, so each of the six takes
-- three instructions. 0 bytes.
-- Owner: values.
module Heddle.Bytes.Internal.Sip
  ( -- * Keys
    HashKey (..),

    -- * States
    Sip (..),
    start,
    sipRound,
    runRounds,
    absorbWord,
    finishWords,

    -- * Whole strings
    plainHash,
    withBytes,
  )
where

import Data.Bits (complement, unsafeShiftL, unsafeShiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Word (Word64, Word8, byteSwap64)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Unsafe (unsafeInlined)

-- | A key: 128 bits that an attacker must not know. It has no 'Show' instance, which keeps keys out of
-- logs.
data HashKey = HashKey !Word64 !Word64
  deriving stock (Eq)

-- | The state after the words absorbed so far.
data Sip = Sip !Word64 !Word64 !Word64 !Word64

-- | The state before the first word.
start :: HashKey -> Sip
start (HashKey k0 k1) =
  Sip
    (k0 `xor` 0x736f6d6570736575)
    (k1 `xor` 0x646f72616e646f6d)
    (k0 `xor` 0x6c7967656e657261)
    (k1 `xor` 0x7465646279746573)
{-# INLINE start #-}

-- | One round; the argument is the continuation.
sipRound :: (Sip -> r) -> Sip -> r
sipRound k (Sip v0 v1 v2 v3) = k (Sip (rotate a0 32 + b3) c1 (rotate d2 32) c3)
  where
    !a0 = v0 + v1
    !a2 = v2 + v3
    !b1 = rotate v1 13 `xor` a0
    !b3 = rotate v3 16 `xor` a2
    !d0 = rotate a0 32 + b3
    !d2 = a2 + b1
    !c1 = rotate b1 17 `xor` d2
    !c3 = rotate b3 21 `xor` d0
{-# INLINE sipRound #-}

-- | This many rounds: 1 or 3 of SipHash-1-3, 2 or 4 of SipHash-2-4.
runRounds :: Int -> (Sip -> r) -> Sip -> r
runRounds 1 k = sipRound k
runRounds 2 k = sipRound (sipRound k)
runRounds 3 k = sipRound (sipRound (sipRound k))
runRounds _ k = sipRound (sipRound (sipRound (sipRound k)))
{-# INLINE runRounds #-}

-- | Absorb a word, with this many rounds.
compress :: Int -> Word64 -> (Sip -> r) -> Sip -> r
compress rounds m k (Sip v0 v1 v2 v3) =
  runRounds rounds (\(Sip w0 w1 w2 w3) -> k (Sip (w0 `xor` m) w1 w2 w3)) (Sip v0 v1 v2 (v3 `xor` m))
{-# INLINE compress #-}

finalize :: Int -> Sip -> Word64
finalize rounds (Sip v0 v1 v2 v3) =
  runRounds (rounds + 2) (\(Sip w0 w1 w2 w3) -> w0 `xor` w1 `xor` w2 `xor` w3) (Sip v0 v1 (v2 `xor` 0xff) v3)
{-# INLINE finalize #-}

-- | Absorb a word, with the one round of SipHash-1-3.
--
-- [Cost]: about 2 ns.
absorbWord :: Word64 -> Sip -> Sip
absorbWord m = compress 1 m id

-- | The hash of the words that were absorbed, with the three rounds of SipHash-1-3.
--
-- [Cost]: about 5 ns.
finishWords :: Sip -> Word64
finishWords = finalize 1

-- | The hash of a string with 1 and 3 rounds (the first argument is 1) or 2 and 4 (2), after
-- the words that the state has absorbed.
--
-- [Cost]: O(bytes); 0 bytes.
plainHash :: Int -> Sip -> ByteString -> Word64
plainHash 1 = plain 1
plainHash _ = plain 2
{-# INLINE plainHash #-}

plain :: Int -> Sip -> ByteString -> Word64
plain rounds s0 bytes = unsafeInlined . withBytes bytes $ \start_ len ->
  let words_ = len .&. complement 7
      go !i !s
        | i < words_ = do
          m <- wordAt start_ i
          compress rounds m (go (i + 8)) s
        | otherwise = do
          m <- lastWord (start_ `plusPtr` i) len
          compress rounds m (pure . finalize rounds) s
   in go 0 s0
{-# INLINE plain #-}

-- | Call the action with a string's address and length. Unlike GHC 9.0's 'withForeignPtr' it does not
-- allocate the result, but the action must end.
withBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
withBytes bytes use = case ByteString.toForeignPtr bytes of
  (memory, offset, len) -> do
    x <- use (foreignAddress memory `plusPtr` offset) len
    touchForeignPtr memory
    pure x
{-# INLINE withBytes #-}

-- | The 8 bytes at an offset.
wordAt :: Ptr Word8 -> Int -> IO Word64
wordAt p i = case targetByteOrder of
  LittleEndian -> peekByteOff p i
  BigEndian -> byteSwap64 <$> peekByteOff p i
{-# INLINE wordAt #-}

-- | The bytes after the last whole word, with the length in the top byte.
lastWord :: Ptr Word8 -> Int -> IO Word64
lastWord p len = case len .&. 7 of
  0 -> pure top
  1 -> byte 0 top
  2 -> byte 1 top >>= byte 0
  3 -> byte 2 top >>= byte 1 >>= byte 0
  4 -> byte 3 top >>= byte 2 >>= byte 1 >>= byte 0
  5 -> byte 4 top >>= byte 3 >>= byte 2 >>= byte 1 >>= byte 0
  6 -> byte 5 top >>= byte 4 >>= byte 3 >>= byte 2 >>= byte 1 >>= byte 0
  _ -> byte 6 top >>= byte 5 >>= byte 4 >>= byte 3 >>= byte 2 >>= byte 1 >>= byte 0
  where
    top = fromIntegral len `unsafeShiftL` 56
    byte i w = do
      b <- peekByteOff p i :: IO Word8
      pure (w .|. (fromIntegral b `unsafeShiftL` (8 * i)))
{-# INLINE lastWord #-}

rotate :: Word64 -> Int -> Word64
rotate w by = (w `unsafeShiftL` by) .|. (w `unsafeShiftR` (64 - by))
{-# INLINE rotate #-}
