{-# LANGUAGE MagicHash #-}

-- |
-- Module      : Heddle.Prim.Literal
-- Description : What the compiler makes of string literals
-- Stability   : stable
--
-- GHC keeps a literal as bytes and unpacks them into characters where a 'String' is wanted. A
-- type of its own bytes can take them as they are: 'literalBytes', with a rule for literals.
--
-- Cost: a literal is its bytes and a call.
-- Owner: the bytes of a literal belong to the program.
module Heddle.Prim.Literal
  ( literalBytes,
  )
where

import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeIndex, unsafePackCString)
import Data.Char (ord)
import Data.Word (Word8)
import GHC.Exts (Addr#, Ptr (..), unpackCString#, unpackCStringUtf8#)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | The characters in UTF-8; surrogates, which have no UTF-8, become U+FFFD.
--
-- Applied to a literal, in a module that is compiled with optimisation, it is the literal's own
-- bytes, without a copy (where the literal has no NUL and no surrogates).
--
-- [Cost]: O(n); of a literal, its length is counted and nothing allocated but the result.
--
-- >>> literalBytes "\955x"
-- "\206\187x"
literalBytes :: String -> ByteString
literalBytes = ByteString.pack . concatMap (utf8 . ord)
{-# NOINLINE literalBytes #-}

{-# RULES
"literalBytes/ASCII" forall a. literalBytes (unpackCString# a) = constantBytes a
"literalBytes/UTF-8" forall a. literalBytes (unpackCStringUtf8# a) = constantUtf8 a
  #-}

utf8 :: Int -> [Word8]
utf8 c
  | c < 0x80 = [fromIntegral c]
  | c < 0x800 = [0xc0 .|. top 6, rest 0]
  | c >= 0xd800 && c < 0xe000 = utf8 0xfffd
  | c < 0x10000 = [0xe0 .|. top 12, rest 6, rest 0]
  | otherwise = [0xf0 .|. top 18, rest 12, rest 6, rest 0]
  where
    top n = fromIntegral (c `unsafeShiftR` n)
    rest n = 0x80 .|. fromIntegral (c `unsafeShiftR` n .&. 0x3f)

-- Up to the NUL behind it.
constantBytes :: Addr# -> ByteString
constantBytes a = unsafeDupablePerformIO (ByteString.unsafePackCString (Ptr a))
{-# NOINLINE constantBytes #-}

constantUtf8 :: Addr# -> ByteString
constantUtf8 a = repaired (constantBytes a)
{-# NOINLINE constantUtf8 #-}

-- GHC writes NUL as C0 80, so that the end can be told, and surrogates as if they were
-- characters: ED, and A0 or more.
repaired :: ByteString -> ByteString
repaired text
  | any odd_ [0 .. ByteString.length text - 1] = ByteString.pack (go (ByteString.unpack text))
  | otherwise = text
  where
    odd_ i = case ByteString.unsafeIndex text i of
      0xc0 -> True
      0xed -> ByteString.unsafeIndex text (i + 1) >= 0xa0
      _ -> False
    go = \case
      0xc0 : _ : rest -> 0 : go rest
      0xed : b : _ : rest | b >= 0xa0 -> 0xef : 0xbf : 0xbd : go rest
      b : rest -> b : go rest
      [] -> []
