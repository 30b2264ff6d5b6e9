-- |
-- Module      : Heddle.Bytes.Utf8
-- Description : UTF-8: checking, decoding, repairing, encoding
-- Stability   : stable
--
-- Checked bytes become a 'Utf8' without a copy. Text in chunks is checked and decoded as it arrives; the
-- results do not depend on how it is cut. Invalid bytes are reported with their offset and length, or
-- replaced as browsers do it.
--
-- Invariant: no byte outside of a slice is read, and no result depends on the processor.
-- Cost: linear, by the machine's widest vector instructions ("Heddle.Prim.Cpu"); a call holds the
-- capability for at most 32 KiB.
-- Owner: values; a 'Utf8' keeps the memory alive of which it is a slice.
module Heddle.Bytes.Utf8
  ( -- * Valid text
    Utf8,
    validate,
    Invalid (..),
    toByteString,

    -- ** Text
    toText,
    fromText,
    toShortText,
    fromShortText,

    -- ** Characters
    length,
    splitAt,
    splitAtByte,

    -- * Bytes and Text
    decode,
    encode,

    -- * Repair
    decodeReplacing,
    repair,

    -- * Chunks
    State,
    Verdict (..),
    start,
    feed,
    finish,
    feedText,

    -- ** With replacement
    Replacing,
    replacing,
    feedReplacing,
    finishReplacing,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeDrop, unsafeIndex, unsafeTake)
import Data.Text (Text)
import Data.Text.Short (ShortText)
import Data.Text.Short qualified as ShortText (toByteString)
import Data.Text.Short.Unsafe qualified as ShortText (fromByteStringUnsafe)
import Heddle.Bytes.Internal.Utf8
import Heddle.Bytes.Internal.Utf8Chunks
import Heddle.Prim.Unsafe (unsafeDupable, unsafeInlined)
import Prelude hiding (length, splitAt)

-- | The bytes as text if they are valid; otherwise the first invalid place.
--
-- [Cost]: O(n), by the machine's vectors; nothing is copied.
-- [Units]: the offset is in bytes.
-- [Source]: RFC 3629; Keiser and Lemire, Validating UTF-8 in less than one instruction per byte.
--
-- Law (@automaton@): the result is that of an automaton for RFC 3629's grammar.
--
-- >>> validate "caf\xc3\xa9"
-- Right "caf\233"
-- >>> validate "caf\xc3"
-- Left (Invalid {offset = 3, subpart = 1})
--
-- @since 0.1.0.0
validate :: ByteString -> Either Invalid Utf8
validate text = unsafeInlined . withBytes text $ \p n -> do
  valid <- validPrefix p n
  maybe (Right (Utf8 text)) Left <$> invalidBehind p n valid

-- | The bytes of a text.
--
-- [Cost]: none.
--
-- @since 0.1.0.0
toByteString :: Utf8 -> ByteString
toByteString (Utf8 text) = text

-- | As 'Text'.
--
-- [Cost]: O(n); the text, of exactly its size.
--
-- Law (@text@): the result is that of Data.Text.Encoding.decodeUtf8.
--
-- >>> toText "na\239ve"
-- "na\239ve"
--
-- @since 0.1.0.0
toText :: Utf8 -> Text
toText (Utf8 text) = unsafeDupable (withBytes text textOfPtr)

-- | From 'Text'.
--
-- [Cost]: O(n); exactly the bytes.
--
-- Law (@text@): 'toText' is its inverse.
--
-- @since 0.1.0.0
fromText :: Text -> Utf8
fromText = Utf8 . encode

-- | As 'ShortText', in unpinned memory.
--
-- [Cost]: a copy.
--
-- @since 0.1.0.0
toShortText :: Utf8 -> ShortText
toShortText (Utf8 text) = ShortText.fromByteStringUnsafe text

-- | From 'ShortText'.
--
-- [Cost]: a copy.
--
-- Law (@short@): 'toShortText' is its inverse.
--
-- @since 0.1.0.0
fromShortText :: ShortText -> Utf8
fromShortText = Utf8 . ShortText.toByteString

-- | The number of characters.
--
-- [Cost]: O(n), by the machine's vectors; nothing is allocated.
--
-- Law (@length@): it is the length of 'toText'.
--
-- >>> length "\955x"
-- 2
--
-- @since 0.1.0.0
length :: Utf8 -> Int
length (Utf8 text) = unsafeInlined (withBytes text characters)

-- | This many first characters, and the rest.
--
-- [Cost]: O(n) in the first part, by the machine's vectors; nothing is copied.
--
-- Law (@split@): the same as Data.Text.splitAt.
--
-- >>> splitAt 1 "\955x"
-- ("\955","x")
--
-- @since 0.1.0.0
splitAt :: Int -> Utf8 -> (Utf8, Utf8)
splitAt n (Utf8 text) = splitBytes (unsafeInlined (withBytes text (placeOf n))) text

-- | Split after this many bytes, or up to three fewer, where a character ends.
--
-- [Cost]: O(1); nothing is copied.
-- [Units]: bytes.
--
-- Law (@split-byte@): the parts joined are the text. The first has at most this many bytes, and at most three
-- fewer unless it is the whole text.
--
-- >>> splitAtByte 2 "x\955"
-- ("x","\955")
--
-- @since 0.1.0.0
splitAtByte :: Int -> Utf8 -> (Utf8, Utf8)
splitAtByte n (Utf8 text)
  | n <= 0 = (mempty, Utf8 text)
  | n >= ByteString.length text = (Utf8 text, mempty)
  | otherwise = splitBytes (back n) text
  where
    back at
      | b >= 0x80 && b < 0xc0 = back (at - 1)
      | otherwise = at
      where
        b = ByteString.unsafeIndex text at

splitBytes :: Int -> ByteString -> (Utf8, Utf8)
splitBytes at text = (Utf8 (ByteString.unsafeTake at text), Utf8 (ByteString.unsafeDrop at text))

-- | The text of the bytes, or the first invalid place.
--
-- [Cost]: O(n): the bytes are checked and counted, then written.
--
-- Law (@decode@): 'validate', then 'toText'.
--
-- >>> decode "\xe2\x82\xac"
-- Right "\8364"
-- >>> decode "x\xed\xa0\x80"
-- Left (Invalid {offset = 1, subpart = 1})
--
-- @since 0.1.0.0
decode :: ByteString -> Either Invalid Text
decode text = unsafeDupable . withBytes text $ \p n -> do
  Measured valid count <- validUnits p n
  invalidBehind p n valid >>= \case
    Just bad -> pure (Left bad)
    Nothing -> Right <$> newText count (\array -> void (fillUnits p n array 0 count))

-- | The UTF-8 bytes of a text.
--
-- [Cost]: O(n); exactly the bytes.
--
-- Law (@encode@): they are those of Data.Text.Encoding.encodeUtf8.
--
-- >>> encode "\8364"
-- "\226\130\172"
--
-- @since 0.1.0.0
encode :: Text -> ByteString
encode text = unsafeDupable (utf8OfText text)

-- | The text, with U+FFFD for each invalid maximal subpart, as in browsers and by Python's @replace@.
--
-- [Cost]: O(n), even if nothing is valid; the text, of exactly its size.
-- [Source]: WHATWG, Encoding Standard, UTF-8 decoder; the Unicode Standard, section 3.9.
--
-- Law (@python@): the result is Python's.
--
-- >>> decodeReplacing "a\xf0\x90\x80\&b\xed\xa0\x80"
-- "a\65533b\65533\65533\65533"
--
-- @since 0.1.0.0
decodeReplacing :: ByteString -> Text
decodeReplacing = replacedText

-- | As 'decodeReplacing', in UTF-8.
--
-- [Cost]: O(n), even if nothing is valid; valid text is not copied.
--
-- Law (@repair@): 'toText' of it is 'decodeReplacing'.
--
-- >>> repair "a\xff"
-- "a\65533"
--
-- @since 0.1.0.0
repair :: ByteString -> Utf8
repair = Utf8 . repairedBytes
