{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Dirent
-- Description : Fields of a directory entry, where the kernel left it
-- Stability   : internal, exempt from the version policy
--
-- The kernel's @struct linux_dirent64@, read in place.
--
-- Cost: a load or two each.
-- Owner: the worker whose buffer holds the entry.
module Heddle.Walk.Internal.Dirent
  ( entrySize,
    entryType,
    namePointer,
    nameLength,
    isDot,
    directoryKind,
    linkKind,
  )
where

import Data.Bits (countTrailingZeros, unsafeShiftR, xor, (.&.), (.|.))
import Data.Word (Word16, Word64, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)

kindOffset, nameOffset, sizeOffset :: Int
sizeOffset = 16
kindOffset = 18
nameOffset = 19

-- | Values of @d_type@.
directoryKind, linkKind :: Int
directoryKind = 4
linkKind = 10

-- | Bytes from this entry to the next one.
entrySize :: Ptr Word8 -> IO Int
entrySize p = do
  n <- peekByteOff p sizeOffset
  pure $! fromIntegral (n :: Word16)
{-# INLINE entrySize #-}

-- | The @d_type@.
entryType :: Ptr Word8 -> IO Int
entryType p = do
  kind <- peekByteOff p kindOffset
  pure $! fromIntegral (kind :: Word8)
{-# INLINE entryType #-}

-- | Where the name begins.
namePointer :: Ptr Word8 -> Ptr Word8
namePointer p = p `plusPtr` nameOffset
{-# INLINE namePointer #-}

-- | Is it the directory itself, or its parent?
isDot :: Ptr Word8 -> IO Bool
isDot p = do
  a <- peekByteOff p nameOffset
  if a /= (46 :: Word8)
    then pure False
    else do
      b <- peekByteOff p (nameOffset + 1)
      d <- peekByteOff p (nameOffset + 2)
      pure (b == (0 :: Word8) || (b == 46 && d == (0 :: Word8)))
{-# INLINE isDot #-}

-- | The length of the name of an entry of this size.
--
-- The NUL is in an entry's last eight bytes, of which in the shortest entries three are the
-- header's; what follows the NUL is not defined.
nameLength :: Ptr Word8 -> Int -> IO Int
nameLength p size = do
  end <- peekByteOff p (size - 8)
  let word = if size == 24 then end .|. 0xFFFFFF else end :: Word64
      zeros = (word - 0x0101010101010101) .&. (word `xor` 0xFFFFFFFFFFFFFFFF) .&. 0x8080808080808080
  pure $! size - 8 + countTrailingZeros zeros `unsafeShiftR` 3 - nameOffset
{-# INLINE nameLength #-}
