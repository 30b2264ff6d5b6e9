{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.UriPath
-- Description : The path of a request, decoded once and normalised
-- Stability   : stable
--
-- Turns the path of a request target into a relative path: percent-escapes are decoded
-- once, dot segments are resolved after that, and an ambiguous path is refused. Routing and opening of
-- files both start from the result, never from the raw bytes.
--
-- Invariant: 'pathRelative' has no empty segment, no @.@ or @..@ segment, no NUL and
-- no backslash, and neither begins nor ends with a slash; except that NUL stands for an encoded slash in one of the paths of
-- 'decodeBothWays'.
--
-- Everything here is pure.
module Heddle.Http.UriPath
  ( -- * Paths
    UriPath,
    pathRelative,
    pathTrailingSlash,

    -- * Decoding
    decodePath,
    decodeBothWays,
    PathError (..),
    pathErrorStatus,
    pathErrorText,

    -- * Encoding
    encodePath,
    escapedPath,
    isCanonical,
  )
where

import Control.Monad (when)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (unsafeCreateUptoN)
import Data.ByteString.Unsafe qualified as B (unsafeDrop, unsafeIndex)
import Data.Word (Word8)
import Foreign.Storable (pokeByteOff)
import Heddle.Http.Scan (hexValue, isHexByte, isPathByte)
import Heddle.Http.Status (Status, status400, status404)

-- | A decoded path.
data UriPath = UriPath
  { -- | The path below the root, such as @docs\/index.html@; empty for the root.
    --
    -- [Cost]: none.
    --
    -- @since 0.1.0.0
    pathRelative :: !ByteString,
    -- | Whether the path ended in a slash or a dot segment, and so names a
    -- directory; always so for the root.
    --
    -- [Cost]: none.
    --
    -- @since 0.1.0.0
    pathTrailingSlash :: !Bool
  }
  deriving stock (Eq, Show)

-- | Why a path is refused.
data PathError
  = -- | It does not begin with a slash.
    PathNotAbsolute
  | -- | A percent sign without two hexadecimal digits.
    PathBadEscape
  | -- | An encoded NUL, or a raw one.
    PathNul
  | -- | An encoded slash: whether it separates segments is a matter of opinion.
    PathEncodedSlash
  | -- | A backslash, encoded or not: some systems and programs take it for a slash.
    PathBackslash
  | -- | More @..@ than segments before it.
    PathAboveRoot
  deriving stock (Bounded, Enum, Eq, Show)

-- | The status that answers a refused path: 400 where the syntax is wrong, 404
-- where no such file can be.
--
-- [Cost]: O(1).
--
-- @since 0.1.0.0
pathErrorStatus :: PathError -> Status
pathErrorStatus = \case
  PathNotAbsolute -> status400
  PathBadEscape -> status400
  PathNul -> status404
  PathEncodedSlash -> status404
  PathBackslash -> status404
  PathAboveRoot -> status404

-- | One sentence for the client's author.
--
-- [Cost]: O(1); the result is shared.
--
-- @since 0.1.0.0
pathErrorText :: PathError -> ByteString
pathErrorText = \case
  PathNotAbsolute -> "The path does not begin with a slash."
  PathBadEscape -> "A percent sign in the path is not followed by two hexadecimal digits."
  PathNul -> "The path contains NUL."
  PathEncodedSlash -> "The path contains an encoded slash."
  PathBackslash -> "The path contains a backslash."
  PathAboveRoot -> "The path climbs above the root."

-- | Decode the path of a request target: raw bytes, without the query.
--
-- Slashes in a row count as one, as they do for the file system. Escapes that
-- decode to @.@ count as dots: @%2e%2e@ is @..@. The first fault from the left is
-- the one reported, except that climbing above the root is found last. An empty
-- path, as in @http:\/\/host@, is the root.
--
-- >>> fmap pathRelative (decodePath "/a/./b%20c//../d")
-- Right "a/d"
--
-- Law (@once@): for a path @p@ that decodes, @decodePath (encodePath p)@ is @Right p@.
--
-- [Cost]: O(length); a path that is plain already is not copied.
-- [Source]: RFC 3986, sections 2.1 and 5.2.4; RFC 9110, section 4.2.3.
--
-- @since 0.1.0.0
decodePath :: ByteString -> Either PathError UriPath
decodePath raw
  | B.null raw = Right (UriPath B.empty True)
  | B.unsafeIndex raw 0 /= 0x2F = Left PathNotAbsolute
  | isPlain raw = Right $! plain raw
  | otherwise = unescape Refused raw >>= resolve

-- | Decode a path that may have encoded slashes in both ways in which servers read them: as octets of their segments, and as
-- separators. In the first path NUL, which is no octet of a path, stands for each of them; it is for choosing by segments, and names
-- no file. 'escapedPath' spells it @%2F@ again. The second is a path like any other.
--
-- Only if both lead to the same thing does a decision about the path hold for whatever server it is passed on to as it came.
-- A path with an encoded slash and a dot segment in any reading is refused: a server could resolve the one before it decodes
-- the other, or after it, and no two would agree on what is meant.
--
-- >>> fmap (\(octets, slashes) -> (pathRelative octets, pathRelative slashes)) (decodeBothWays "/a%2Fb")
-- Right ("a\NULb","a/b")
--
-- [Cost]: O(length).
-- [Source]: RFC 3986, section 2.2.
decodeBothWays :: ByteString -> Either PathError (UriPath, UriPath)
decodeBothWays raw = case B.uncons raw of
  Nothing -> Right (UriPath B.empty True, UriPath B.empty True)
  Just (0x2F, _) -> do
    octets <- unescape Octet raw
    slashes <- unescape Separator raw
    when (B.elem 0 octets && any (`elem` [".", ".."]) (B.split 0x2F slashes)) (Left PathEncodedSlash)
    (,) <$> resolve octets <*> resolve slashes
  Just _ -> Left PathNotAbsolute

-- What an encoded slash is.
data EncodedSlash = Refused | Octet | Separator
  deriving stock (Eq)

-- | Whether there is nothing to decode, resolve or refuse.
isPlain :: ByteString -> Bool
isPlain raw = not (B.elem 0x25 raw || B.elem 0x5C raw || B.elem 0 raw) && segments raw
  where
    -- No segment but the last one is empty, and none begins with a dot.
    segments rest = case B.elemIndex 0x2F rest of
      Just i | i + 1 < B.length rest -> case B.unsafeIndex rest (i + 1) of
        0x2F -> False
        0x2E -> False
        _ -> segments (B.unsafeDrop (i + 1) rest)
      _ -> True

plain :: ByteString -> UriPath
plain raw = case B.unsnoc (B.drop 1 raw) of
  Nothing -> UriPath B.empty True
  Just (front, 0x2F) -> UriPath front True
  Just _ -> UriPath (B.drop 1 raw) False

-- | Replace each escape by its byte.
unescape :: EncodedSlash -> ByteString -> Either PathError ByteString
unescape slash raw = case firstError 0 of
  Just problem -> Left problem
  Nothing -> Right (B.unsafeCreateUptoN (B.length raw) (\to -> fill to 0 0))
  where
    len = B.length raw
    at = B.unsafeIndex raw
    escaped i = fromIntegral ((hexValue (at (i + 1)) `unsafeShiftL` 4) .|. hexValue (at (i + 2))) :: Word8

    firstError !i
      | i >= len = Nothing
      | at i == 0 = Just PathNul
      | at i == 0x5C = Just PathBackslash
      | at i /= 0x25 = firstError (i + 1)
      | i + 2 >= len || not (isHexByte (at (i + 1)) && isHexByte (at (i + 2))) = Just PathBadEscape
      | otherwise = case escaped i of
        0 -> Just PathNul
        0x2F | slash == Refused -> Just PathEncodedSlash
        0x5C -> Just PathBackslash
        _ -> firstError (i + 3)

    fill to !i !o
      | i >= len = pure o
      | at i == 0x25 = pokeByteOff to o (if slash == Octet && escaped i == 0x2F then 0 else escaped i) >> fill to (i + 3) (o + 1)
      | otherwise = pokeByteOff to o (at i) >> fill to (i + 1) (o + 1)

-- | Drop empty and dot segments.
resolve :: ByteString -> Either PathError UriPath
resolve path = go [] (B.split 0x2F (B.drop 1 path))
  where
    go above = \case
      [] -> Right (finish above True)
      [final]
        | B.null final || final == "." -> Right (finish above True)
        | final == ".." -> climb above (\rest -> Right (finish rest True))
        | otherwise -> Right (finish (final : above) False)
      segment : rest
        | B.null segment || segment == "." -> go above rest
        | segment == ".." -> climb above (`go` rest)
        | otherwise -> go (segment : above) rest

    climb above continue = case above of
      [] -> Left PathAboveRoot
      _ : rest -> continue rest

    finish above slash = UriPath (B.intercalate "/" (reverse above)) (slash || null above)

-- | Spell a path as a request target or a Location: a leading slash, everything
-- escaped that needs it, and a trailing slash if it has one.
--
-- The result has no second slash behind the first, so a browser cannot take it for
-- the name of another host.
--
-- [Cost]: O(length).
-- [Source]: RFC 3986, section 3.3.
--
-- @since 0.1.0.0
encodePath :: UriPath -> ByteString
encodePath (UriPath relative slash) =
  B.concat ["/", escapedPath relative, if slash && not (B.null relative) then "/" else ""]

-- | Escape every byte of a decoded path, or of a part of one, that does not stand for itself; NUL stands for an encoded slash.
--
-- [Cost]: O(length); no copy if there is nothing to escape.
escapedPath :: ByteString -> ByteString
escapedPath relative
  | B.all isPathByte relative = relative
  | otherwise = B.unsafeCreateUptoN (3 * B.length relative) (\to -> fill to 0 0)
  where
    fill to !i !o
      | i >= B.length relative = pure o
      | isPathByte byte = pokeByteOff to o byte >> fill to (i + 1) (o + 1)
      | otherwise = do
        pokeByteOff to o (0x25 :: Word8)
        pokeByteOff to (o + 1) (hexDigit (spelt `unsafeShiftR` 4))
        pokeByteOff to (o + 2) (hexDigit (spelt .&. 15))
        fill to (i + 1) (o + 3)
      where
        byte = B.unsafeIndex relative i
        spelt = if byte == 0 then 0x2F else byte

    hexDigit :: Word8 -> Word8
    hexDigit n
      | n < 10 = 0x30 + n
      | otherwise = 0x37 + n

-- | Whether the raw path is the one canonical spelling of what it decodes to; see
-- Note [Canonical spellings].
--
-- [Cost]: O(length).
--
-- @since 0.1.0.0
isCanonical :: ByteString -> UriPath -> Bool
isCanonical raw path = raw == encodePath path

-- Note [Canonical spellings]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A cache keyed by raw bytes must not hold one file under many spellings, or a
-- client could fill it with @/a@, @/%61@, @/./a@ and so on. Each path therefore has
-- one canonical spelling, that of 'encodePath', and only that is worth a key.
-- Demanding that raw and decoded bytes be equal would do as well, but would keep
-- every file with a space or a letter beyond ASCII out of the cache for good.
