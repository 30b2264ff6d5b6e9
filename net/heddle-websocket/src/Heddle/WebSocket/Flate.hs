{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Flate
-- Description : zlib's streams, one of each kind per capability
-- Stability   : hidden
--
-- A compressor is 256 KB and a decompressor 40 KB of zlib's memory. No message depends on an earlier one, so
-- connections own none of them: a message borrows one. Each capability keeps one of a kind for the next message;
-- others, which exist only while messages are half read, are freed when they come back.
--
-- Invariant: a stream that its borrower loses to an exception is freed by its finalizer.
-- Cost: borrowing is a compare-and-set and zlib's reset.
-- Owner: the borrower.
-- Shared writes per message: 0; the places of different capabilities are different objects.
module Heddle.WebSocket.Flate
  ( Flate,
    Kind (..),
    borrowFlate,
    giveBackFlate,
    Stepped (..),
    deflateStep,
    inflateStep,
    inflateWhole,
    flateCount,
  )
where

import Control.Monad (when)
import Data.Bits (shiftR, (.&.))
import Data.Int (Int64)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromList)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, finalizeForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Ptr (Ptr, nullPtr)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Errno (throwErrnoFor, pattern ENOMEM)
import Heddle.Prim.Exception (mask_)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Thread (myCapability)

data Raw

-- | A compressor or a decompressor.
type Flate = ForeignPtr Raw

-- | What a stream does.
data Kind
  = Inflates
  | -- | Level, and the window's bits, 9 to 15.
    Deflates !Int !Int
  deriving stock (Eq, Show)

-- The places of the streams that wait for a message, by capability and kind. Programs with more capabilities share.
places :: SmallArray (Ref (Maybe Flate))
places = unsafeGlobal (smallArrayFromList <$> traverse (const (newRef Nothing)) [1 .. capabilities * kinds])
{-# NOINLINE places #-}

capabilities, kinds :: Int
capabilities = 64
kinds = 1 + 9 * 7

placeOf :: Kind -> Int -> Ref (Maybe Flate)
placeOf kind capability = indexSmallArray places ((capability .&. (capabilities - 1)) * kinds + number)
  where
    number = case kind of
      Inflates -> 0
      Deflates level bits -> 1 + (level - 1) * 7 + (bits - 9)

-- | A stream at the beginning of a message.
--
-- [Cost]: a compare-and-set and a reset; memory if the capability's own is lent.
-- [Blocks]: never.
-- [Throws]: 'IOError' (ENOMEM).
borrowFlate :: Kind -> IO Flate
borrowFlate kind = mask_ $ do
  capability <- myCapability
  kept <- modifyRef (placeOf kind capability) (\there -> (Nothing, there))
  case kept of
    Just flate -> flate <$ withForeignPtr flate c_reset
    Nothing -> do
      raw <- case kind of
        Inflates -> c_inflater
        Deflates level bits -> c_deflater (fromIntegral level) (fromIntegral bits)
      when (raw == nullPtr) $ throwErrnoFor "permessage-deflate: memory for zlib" ENOMEM
      newForeignPtr c_free raw

-- | Keep it for the next message on this capability, or free it.
--
-- [Cost]: a compare-and-set.
-- [Blocks]: never.
giveBackFlate :: Kind -> Flate -> IO ()
giveBackFlate kind flate = mask_ $ do
  capability <- myCapability
  kept <- modifyRef (placeOf kind capability) $ \case
    Nothing -> (Just flate, True)
    other -> (other, False)
  if kept then pure () else finalizeForeignPtr flate

-- | How far a step came: bytes read, and bytes written.
data Stepped = Stepped !Int !Int | Malformed

stepped :: Int64 -> Stepped
stepped r
  | r < 0 = Malformed
  | otherwise = Stepped (fromIntegral (r `shiftR` 32)) (fromIntegral (r .&. 0xffffffff))
{-# INLINE stepped #-}

-- | @deflateStep flate from count to room finish@.
--
-- [Cost]: at level 1 about 10 ns a byte; pass at most 16 KiB.
-- [Blocks]: never.
deflateStep :: Flate -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Bool -> IO Stepped
deflateStep flate from count to room finish =
  withForeignPtr flate $ \raw ->
    stepped <$> c_deflate raw from (fromIntegral count) to (fromIntegral room) (if finish then 1 else 0)

-- | @inflateStep flate from count to room@.
--
-- [Cost]: about 3 ns a byte of output; pass at most 32 KiB of room.
-- [Blocks]: never.
inflateStep :: Flate -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Stepped
inflateStep flate from count to room =
  withForeignPtr flate $ \raw -> stepped <$> c_inflate raw from (fromIntegral count) to (fromIntegral room)

-- | Whether the message is complete (see @heddle_deflate.h@).
--
-- [Cost]: O(1).
-- [Blocks]: never.
inflateWhole :: Flate -> IO Bool
inflateWhole flate = withForeignPtr flate (fmap (/= 0) . c_whole)

-- | How many streams exist, lent and kept.
--
-- [Cost]: one read.
-- [Blocks]: never.
flateCount :: IO Int
flateCount = fromIntegral <$> c_count

-- All unsafe: they allocate or compute on at most 32 KiB, and do not sleep.
foreign import ccall unsafe "heddle_deflater" c_deflater :: CInt -> CInt -> IO (Ptr Raw)

foreign import ccall unsafe "heddle_inflater" c_inflater :: IO (Ptr Raw)

foreign import ccall "&heddle_flate_free" c_free :: FinalizerPtr Raw

foreign import ccall unsafe "heddle_flate_reset" c_reset :: Ptr Raw -> IO CInt

foreign import ccall unsafe "heddle_deflate_step" c_deflate :: Ptr Raw -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> CInt -> IO Int64

foreign import ccall unsafe "heddle_inflate_step" c_inflate :: Ptr Raw -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO Int64

foreign import ccall unsafe "heddle_inflate_whole" c_whole :: Ptr Raw -> IO CInt

foreign import ccall unsafe "heddle_flate_count" c_count :: IO Int64
