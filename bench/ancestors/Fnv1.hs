-- | FNV-1, the hash of strings of the hashable package before its version 1.2: what O'Sullivan's posts "A
-- fast new SipHash implementation in Haskell" and "A major new release of the Haskell hashable library"
-- measure against. The loop was C then, too; the start was fixed.
module Fnv1
  ( fnv1,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Internal (accursedUnutterablePerformIO)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Foreign.C.String (CString)

-- | The hash that every program had of this string.
fnv1 :: ByteString -> Int
fnv1 bytes = accursedUnutterablePerformIO . unsafeUseAsCStringLen bytes $ \(p, len) -> c_fnv p len (-3750763034362895579)
{-# INLINE fnv1 #-}

-- Unsafe: computes.
foreign import ccall unsafe "ancestor_fnv1" c_fnv :: CString -> Int -> Int -> IO Int
