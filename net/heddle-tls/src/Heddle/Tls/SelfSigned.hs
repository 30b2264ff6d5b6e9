-- |
-- Module      : Heddle.Tls.SelfSigned
-- Description : Certificates for development
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- Cost: 1 ms.
-- Owner: values.
module Heddle.Tls.SelfSigned
  ( selfSigned,
    selfSignedPair,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Char (isAlphaNum, isAscii, isDigit, isHexDigit)
import Data.List (intercalate)
import Foreign.C.String (peekCString, withCString)
import Foreign.C.Types (CSize)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Foreign.Storable (peekElemOff, pokeElemOff, sizeOf)
import Heddle.Prim.Exception (throwIO)
import Heddle.Tls.Config
import Heddle.Tls.Foreign
import Heddle.Tls.Library (loadLibrary)
import Heddle.Tls.Problem

-- | A certificate and its key, both in PEM, for these domain names and addresses: P-256, signed by itself, valid for 90
-- days. Clients believe it only if they are told to.
--
-- [Cost]: 1 ms.
-- [Blocks]: never.
-- [Throws]: 'TlsProblem' if there is no name, or one that no certificate can have.
selfSigned :: [String] -> IO (ByteString, ByteString)
selfSigned names = do
  unless (not (null names) && all plausible names) $
    throwIO (TlsProblem "self-signed certificate" (BadSetting ("these are not all domain names or addresses: " ++ show names)))
  loadLibrary
  withCString (take 64 (head names)) $ \common -> withCString (intercalate "," (map entry names)) $ \alternatives ->
    allocaBytes room $ \certificate -> allocaBytes room $ \key -> allocaBytes 16 $ \sizes -> allocaBytes 256 $ \text -> do
      pokeElemOff sizes 0 (fromIntegral room)
      pokeElemOff sizes 1 (fromIntegral room)
      r <- c_selfSigned common alternatives 90 certificate sizes key (sizes `plusPtr` sizeOf (0 :: CSize)) text
      if r < 0
        then peekCString text >>= \why -> throwIO (TlsProblem "self-signed certificate" (Refused why))
        else do
          m <- peekElemOff sizes 0
          n <- peekElemOff sizes 1
          (,) <$> B.packCStringLen (castPtr certificate, size m) <*> B.packCStringLen (castPtr key, size n)
  where
    room = 65536 :: Int
    size :: CSize -> Int
    size = fromIntegral
    entry name = (if isAddress name then "IP:" else "DNS:") ++ name

-- The extension's text has commas and colons of its own, so nothing else may have them.
plausible :: String -> Bool
plausible name = not (null name) && length name <= 253 && (isAddress name || all (\c -> isAscii c && (isAlphaNum c || c `elem` "-._*")) name)

isAddress :: String -> Bool
isAddress name = (':' `elem` name && all (\c -> isHexDigit c || c `elem` ":.") name) || all (\c -> isDigit c || c == '.') name

-- | 'selfSigned' as a pair that can be loaded.
--
-- [Throws]: as 'selfSigned'.
selfSignedPair :: [String] -> IO TlsPair
selfSignedPair names = do
  (certificate, key) <- selfSigned names
  pure (TlsPair (PemBytes "self-signed certificate" certificate) (PemBytes "self-signed key" key) Nothing)
