{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Address
-- Description : Socket addresses, to and from the kernel's form
-- Stability   : internal, exempt from the version policy
--
-- network's 'SockAddr' outside, the kernel's bytes inside.
--
-- Cost: a copy each way.
-- Owner: values.
module Heddle.IO.Internal.Address
  ( -- * Kernel form
    withAddress,
    peerBytes,
    decodeAddress,
    nameOf,
    addressRoom,

    -- * Facts
    familyOf,
    renderAddress,
  )
where

import Control.Monad (when)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCString)
import Data.Int (Int32)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peek, poke)
import Heddle.Prim.Errno (checked)
import Heddle.Prim.Socket (pattern FamilyInet, pattern FamilyInet6, pattern FamilyUnix)
import Network.Socket (SockAddr (..))
import Network.Socket.Address (peekSocketAddress, pokeSocketAddress, sizeOfSocketAddress)

-- | Large enough for every kind of address.
--
-- [Units]: bytes.
addressRoom :: Int
addressRoom = 128

-- | Use the kernel's form of an address: pointer and length.
withAddress :: SockAddr -> (Ptr () -> Int -> IO a) -> IO a
withAddress address use = allocaBytes (max n addressRoom) $ \p -> do
  pokeSocketAddress p address
  use p n
  where
    n = sizeOfSocketAddress address

-- | A copy of this many bytes that the kernel wrote.
peerBytes :: Ptr a -> Int -> IO ShortByteString
peerBytes p n
  | n <= 0 = pure Short.empty
  | otherwise = do
    view <- unsafePackCStringLen (castPtr p, min addressRoom n)
    pure $! Short.toShort view

-- | The address in bytes kept by 'peerBytes'; 'Nothing' for a nameless Unix peer.
decodeAddress :: ShortByteString -> IO (Maybe SockAddr)
decodeAddress bytes
  | Short.length bytes <= 2 = pure Nothing
  | otherwise = unsafeUseAsCString (Short.fromShort bytes <> "\0") (fmap Just . peekSocketAddress . castPtr)

-- | Ask the kernel for a name: 'Heddle.Prim.Socket.localName' and the like.
--
-- [Throws]: 'IOError'.
nameOf :: String -> (Ptr () -> Ptr Int32 -> IO Int) -> IO (Maybe SockAddr)
nameOf what call = allocaBytes addressRoom $ \p -> allocaBytes 4 $ \lengthP -> do
  poke lengthP (fromIntegral addressRoom)
  r <- checked what (call p lengthP)
  when (r < 0) (pure ())
  n <- peek lengthP
  peerBytes p (fromIntegral n) >>= decodeAddress

-- | The kernel's number of the address's family.
familyOf :: SockAddr -> Int
familyOf = \case
  SockAddrUnix _ -> FamilyUnix
  SockAddrInet _ _ -> FamilyInet
  SockAddrInet6 {} -> FamilyInet6

-- | As users write it: @127.0.0.1:80@, @[::1]:80@, @unix:\/run\/x.sock@.
renderAddress :: SockAddr -> String
renderAddress = \case
  SockAddrUnix path -> "unix:" ++ path
  address -> show address
