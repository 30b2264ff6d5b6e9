-- |
-- Module      : Heddle.Json.Internal.Path
-- Description : Finds the path to a byte of a JSON text
-- Stability   : internal; exempt from the version policy
--
-- Decoders do not keep track of their path. After an error, the text is read again up to its place.
--
-- Cost: O(offset); a few words for each open bracket.
-- Owner: values.
module Heddle.Json.Internal.Path
  ( pathTo,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeIndex)
import Data.Char (chr, isHexDigit)
import Data.Text qualified as Text
import Data.Word (Word8)
import Heddle.Bytes.Utf8 qualified as Utf8 (decodeReplacing)
import Heddle.Json.Malformed
import Numeric (readHex)

-- An open array or object, and the position in it.
data Frame
  = -- | Before or in a key, or after a member.
    Between
  | -- | At the value of a key: the key's offset and length.
    Member !Int !Int
  | -- | At the element of this number, or after it.
    Element !Int !Bool

-- | The path of the value that contains this byte or begins there. Keys, bytes between values, and a closing bracket
-- that follows a value or its opening bracket belong to the object or array. The text before the byte must be
-- well-formed.
--
-- [Cost]: O(offset).
-- [Units]: bytes.
pathTo :: ByteString -> Int -> [Step]
pathTo text offset = go 0 []
  where
    end = min offset (ByteString.length text)

    go :: Int -> [Frame] -> [Step]
    go !i frames
      | i >= end = path (closed frames)
      | otherwise = case unsafeIndex text i of
        0x7b -> go (i + 1) (Between : frames)
        0x5b -> go (i + 1) (Element 0 True : frames)
        0x7d -> go (i + 1) (done (drop 1 frames))
        0x5d -> go (i + 1) (done (drop 1 frames))
        0x2c -> case frames of
          Element n _ : rest -> go (i + 1) (Element (n + 1) True : rest)
          _ -> go (i + 1) frames
        0x22 ->
          let close = closing (i + 1)
           in if close >= end
                then path frames
                else case frames of
                  Between : rest -> afterKey (close + 1) (i + 1) (close - i - 1) rest
                  _ -> go (close + 1) (done frames)
        c
          | blank c || c == 0x3a -> go (i + 1) frames
          | otherwise ->
            let rest = scalar (i + 1)
             in if rest >= end && not (complete i) then path frames else go rest (done frames)

    -- After a key, its value begins with the colon.
    afterKey !i at len rest
      | i >= end = path (Between : rest)
      | unsafeIndex text i == 0x3a = go (i + 1) (Member at len : rest)
      | otherwise = afterKey (i + 1) at len rest

    -- A value ended.
    done (Member _ _ : rest) = Between : rest
    done (Element n _ : rest) = Element n False : rest
    done frames = frames

    -- A bracket that closes an empty array belongs to the array, not to an element.
    closed (Element 0 True : rest) | bracketHere = Element 0 False : rest
    closed frames = frames

    -- Does a number or literal that begins here end right before the byte, so that the byte follows it? A number ends
    -- with a digit. Literals before the byte are well-formed, so the length decides whether one is complete.
    complete i
      | not (end < ByteString.length text && structural (unsafeIndex text end)) = False
      | first == 0x74 || first == 0x6e = end - i == 4
      | first == 0x66 = end - i == 5
      | otherwise = let c = unsafeIndex text (end - 1) in c - 0x30 < 10
      where
        first = unsafeIndex text i

    bracketHere = offset < ByteString.length text && unsafeIndex text offset == 0x5d

    closing !i
      | i >= end = end
      | otherwise = case unsafeIndex text i of
        0x22 -> i
        0x5c -> closing (i + 2)
        _ -> closing (i + 1)

    scalar !i
      | i < end && not (structural (unsafeIndex text i)) = scalar (i + 1)
      | otherwise = i

    path frames = reverse (concatMap step frames)
    step = \case
      Between -> []
      Member at len -> [InKey (contents (ByteString.take len (ByteString.drop at text)))]
      Element n True -> [InElement n]
      Element _ False -> []

blank :: Word8 -> Bool
blank c = c == 0x20 || c == 0x0a || c == 0x0d || c == 0x09

structural :: Word8 -> Bool
structural c = blank c || c == 0x2c || c == 0x5d || c == 0x7d || c == 0x3a || c == 0x22 || c == 0x5b || c == 0x7b

-- A valid key with its escapes resolved.
contents :: ByteString -> Text.Text
contents raw = case Char8.break (== '\\') raw of
  (plain, escaped)
    | ByteString.null escaped -> utf8 plain
    | otherwise ->
      let (char, rest) = escape (Char8.drop 1 escaped)
       in utf8 plain <> Text.singleton char <> contents rest
  where
    utf8 = Utf8.decodeReplacing
    escape s = case Char8.uncons s of
      Just ('u', digits)
        | 0xd800 <= high && high < 0xdc00 -> (chr (0x10000 + (high - 0xd800) * 0x400 + (unit (Char8.drop 6 digits) - 0xdc00) `mod` 0x400), Char8.drop 10 digits)
        | otherwise -> (chr high, Char8.drop 4 digits)
        where
          high = unit digits
      Just ('n', rest) -> ('\n', rest)
      Just ('t', rest) -> ('\t', rest)
      Just ('r', rest) -> ('\r', rest)
      Just ('b', rest) -> ('\b', rest)
      Just ('f', rest) -> ('\f', rest)
      Just (c, rest) -> (c, rest)
      Nothing -> ('\\', s)
    unit s = case readHex (takeWhile isHexDigit (Char8.unpack (Char8.take 4 s))) of
      [(n, "")] -> n
      _ -> 0xfffd :: Int
