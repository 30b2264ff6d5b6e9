{-# LANGUAGE MagicHash #-}

-- |
-- Module      : Heddle.Prim.Literal
-- Description : String literals without a String
-- Stability   : stable
--
-- GHC compiles a string literal to bytes in the program and a call that builds a list of them. A type
-- with its own 'FromLiteral' gets the bytes instead: no list is built, and a literal is compiled to a call.
--
-- Cost: none with optimisation; without it, the list is built.
-- Owner: the program; the bytes never change.
module Heddle.Prim.Literal
  ( FromLiteral (..),
    literal,
    literalLength,
    inOnePiece,
  )
where

import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeIndex, unsafePackCString)
import Data.Char (ord)
import Data.Word (Word8)
import Foreign.Ptr (castPtr)
import GHC.Exts (Int (I#), Ptr (..), cstringLength#, lazy, unpackCString#, unpackCStringUtf8#)
import System.IO.Unsafe (unsafeDupablePerformIO)

-- | Types with literals.
class FromLiteral a where
  -- | From ASCII bytes other than 0, followed by a 0.
  fromAscii :: Ptr Word8 -> a

  -- | From characters in GHC's variant of UTF-8, followed by a 0: NUL is C0 80, and surrogates have three bytes
  -- like other characters.
  fromModifiedUtf8 :: Ptr Word8 -> a

  -- | From an ordinary 'String'.
  fromCharacters :: String -> a

-- | The definition of 'Data.String.fromString' for a type that can use a literal's bytes.
--
-- [Cost]: for a literal, that of the address.

{- HLINT ignore literal "Eta reduce" -}
-- Not a synonym of the method, which GHC would resolve before the rules apply.
literal :: FromLiteral a => String -> a
literal characters = fromCharacters characters
-- In phase 1 GHC has undone its rewriting of literals for list fusion.
{-# NOINLINE [0] literal #-}

{-# RULES
"literal/ASCII" forall a. literal (unpackCString# a) = fromAscii (Ptr a)
"literal/UTF-8" forall a. literal (unpackCStringUtf8# a) = fromModifiedUtf8 (Ptr a)
  #-}

-- | The bytes before the 0.
--
-- [Cost]: none: the compiler computes it.
-- [Units]: bytes.
literalLength :: Ptr Word8 -> Int
literalLength (Ptr a) = I# (cstringLength# a)
{-# INLINE literalLength #-}

-- | For the result of a method that is not inlined: callers get a pointer to it. Without this, GHC 9.4 and later
-- return the fields of the fields, and compile into every literal the code that puts them together.
--
-- [Cost]: none.
inOnePiece :: a -> a
inOnePiece = lazy
{-# INLINE inOnePiece #-}

-- | UTF-8. A literal without NUL and surrogates becomes the program's own bytes, without a copy. Surrogates,
-- which have no UTF-8 form, become U+FFFD.
--
-- [Cost]: O(n). For a literal, its length is counted, and only the result is allocated.
--
-- >>> literal "\955x" :: ByteString
-- "\206\187x"
instance FromLiteral ByteString where
  fromAscii = constantBytes
  fromModifiedUtf8 = constantUtf8
  fromCharacters = encoded
  {-# INLINE fromAscii #-}
  {-# INLINE fromModifiedUtf8 #-}
  {-# INLINE fromCharacters #-}

encoded :: String -> ByteString
encoded = ByteString.pack . concatMap (utf8 . ord)
{-# NOINLINE encoded #-}

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

-- The bytes up to the final 0.
constantBytes :: Ptr Word8 -> ByteString
constantBytes p = unsafeDupablePerformIO (ByteString.unsafePackCString (castPtr p))
{-# NOINLINE constantBytes #-}

constantUtf8 :: Ptr Word8 -> ByteString
constantUtf8 p = repaired (constantBytes p)
{-# NOINLINE constantUtf8 #-}

-- GHC writes NUL as C0 80, so that the final 0 is unambiguous, and surrogates as if they were characters:
-- ED followed by A0 or more.
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
