-- |
-- Module      : Heddle.Serve.Password
-- Description : Hashed passwords
-- Stability   : stable
--
-- bcrypt, and what else libxcrypt knows that is not weak, in the form that @htpasswd@ and @mkpasswd@ write.
--
-- Cost: milliseconds to a second for a password, as its hash says; in safe foreign calls.
-- Owner: values.
module Heddle.Serve.Password
  ( hashPassword,
    longestPassword,
    passwordMatches,
    knownHash,
    sameSecret,
  )
where

import Data.Bits (xor, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.List qualified as List
import Data.Word (Word8)
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)

-- | bcrypt takes no notice of what follows.
--
-- [Units]: bytes.
longestPassword :: Int
longestPassword = 72

-- | Hash a password by bcrypt with a new salt, at a cost from 4 to 31: a step doubles the time. 'Nothing' for a password
-- that is empty, too long or holds a NUL, and when there is no memory.
--
-- [Blocks]: holds an OS thread.
hashPassword :: Int -> ByteString -> IO (Maybe ByteString)
hashPassword cost password
  | B.null password || B.length password > longestPassword || B.elem 0 password = pure Nothing
  | otherwise = B.useAsCString password $ \p -> allocaBytes room $ \out -> do
    n <- c_hash p (fromIntegral cost) out (fromIntegral room)
    if n < 0 then pure Nothing else Just <$> B.packCStringLen (out, fromIntegral n)
  where
    room = 512

-- | Test whether a password has a hash.
--
-- [Blocks]: holds an OS thread.
passwordMatches :: ByteString -> ByteString -> IO Bool
passwordMatches password hash
  | B.elem 0 password = pure False
  | otherwise = B.useAsCString password $ \p -> B.useAsCString hash (fmap (== 1) . c_matches p)

-- | Test whether this is a hash of a kind that resists guessing: bcrypt, yescrypt, scrypt, or SHA-2 in many rounds.
knownHash :: ByteString -> IO Bool
knownHash hash
  | not (any (`B.isPrefixOf` hash) strong) || B.elem 0 hash = pure False
  | C.pack "$2" `B.isPrefixOf` hash && B.length hash /= 60 = pure False
  | otherwise = B.useAsCString hash (fmap (== 1) . c_known)
  where
    strong = map C.pack ["$2a$", "$2b$", "$2y$", "$y$", "$gy$", "$7$", "$6$", "$5$"]

-- | Test whether two secrets are the same, in a time that depends on their lengths only.
sameSecret :: ByteString -> ByteString -> Bool
sameSecret a b = B.length a == B.length b && List.foldl' (.|.) (0 :: Word8) [B.unsafeIndex a i `xor` B.unsafeIndex b i | i <- [0 .. B.length a - 1]] == 0

foreign import ccall safe "heddle_password_hash" c_hash :: Ptr CChar -> CInt -> Ptr CChar -> CInt -> IO CInt

foreign import ccall safe "heddle_password_matches" c_matches :: Ptr CChar -> Ptr CChar -> IO CInt

-- Unsafe: reads the beginning of a short text.
foreign import ccall unsafe "heddle_password_known" c_known :: Ptr CChar -> IO CInt
