-- |
-- Module      : Heddle.Filter.Internal.Vocabulary
-- Description : The language's named sets of bytes and translations
-- Stability   : internal, exempt from the version policy
--
-- Their members are those of the C locale.
--
-- Cost: none; constants.
-- Owner: none; constants.
module Heddle.Filter.Internal.Vocabulary
  ( namedSets,
    bytesSet,
    everything,
    nothing,
    namedTranslations,
  )
where

import Data.ByteString (ByteString)
import Data.Word (Word8)
import Heddle.Filter.Internal.Types

-- | The sets that the language has words for; each set's name is its word.
namedSets :: [ByteSet]
namedSets =
  [ byteSet "word" (not . isSpaceByte),
    byteSet "whitespace" isSpaceByte,
    byteSet "blank" (`elem` [0x20, 0x09]),
    byteSet "digits" (within 0x30 0x39),
    byteSet "letters" (\b -> within 0x41 0x5a b || within 0x61 0x7a b),
    byteSet "capitals" (within 0x41 0x5a),
    byteSet "controls" (\b -> b < 0x20 || b == 0x7f),
    byteSet "non-ascii" (>= 0x80),
    everything,
    nothing
  ]

-- | The set of the bytes in a text; the function writes the text in the set's name.
bytesSet :: (ByteString -> String) -> ByteString -> ByteSet
bytesSet quote text = byteSetFrom ("bytes " ++ quote text) text

-- | All bytes.
everything :: ByteSet
everything = byteSet "everything" (const True)

-- | No bytes.
nothing :: ByteSet
nothing = byteSet "nothing" (const False)

-- | The translations that the language has words for.
namedTranslations :: [Translation]
namedTranslations =
  [ translation "upper" (\b -> if within 0x61 0x7a b then b - 0x20 else b),
    translation "lower" (\b -> if within 0x41 0x5a b then b + 0x20 else b)
  ]

within :: Word8 -> Word8 -> Word8 -> Bool
within low high b = b >= low && b <= high

isSpaceByte :: Word8 -> Bool
isSpaceByte b = b == 0x20 || within 0x09 0x0d b
