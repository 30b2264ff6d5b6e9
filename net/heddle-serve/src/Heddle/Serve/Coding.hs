{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Coding
-- Description : Content codings, and which of them a client wants
-- Stability   : internal, exempt from the version policy
--
-- What clients accept is reduced to the order in which they want br, zstd and gzip: sixteen
-- possibilities, so that a cache keyed by it stays small whatever clients send.
--
-- Cost: a client's list is read once per capability and then recognised by comparison.
-- Owner: values.
module Heddle.Serve.Coding
  ( Coding (..),
    codingName,
    codingSuffix,

    -- * What a client accepts
    Accepted,
    acceptsNothing,
    acceptedOf,
    wantedCodings,

    -- * What is worth it
    isCompressed,
    isCompressible,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.List (sortOn)
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))

-- | How a representation is coded. The order is the server's preference among codings that a client wants
-- equally.
data Coding = Brotli | Zstandard | Gzip | Identity
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | As Accept-Encoding and Content-Encoding name it.
codingName :: Coding -> ByteString
codingName = \case
  Brotli -> "br"
  Zstandard -> "zstd"
  Gzip -> "gzip"
  Identity -> "identity"

-- | End of the name of a compressed sibling.
codingSuffix :: Coding -> ByteString
codingSuffix = \case
  Brotli -> ".br"
  Zstandard -> ".zst"
  Gzip -> ".gz"
  Identity -> ""

-- | The codings that a client wants rather than none, as base-4 digits, the most wanted one lowest: below 64.
type Accepted = Int

-- | Nothing but the file as it is.
acceptsNothing :: Accepted
acceptsNothing = 0

-- | Read an Accept-Encoding.
--
-- >>> map wantedCodings [acceptedOf "gzip, deflate, br, zstd", acceptedOf "gzip;q=1.0, br;q=0.5, *;q=0"]
-- [[Brotli,Zstandard,Gzip],[Gzip,Brotli]]
--
-- [Cost]: O(length).
-- [Source]: RFC 9110, section 12.5.3.
acceptedOf :: ByteString -> Accepted
acceptedOf text = foldr (\coding rest -> rest * 4 + fromEnum coding + 1) 0 wanted
  where
    -- A stable sort: equally wanted codings stay in the server's order. What is wanted less than the file as it
    -- is could only be sent by mistake.
    wanted = [coding | (coding, q) <- sortOn (Down . snd) [(c, weight c) | c <- [Brotli, Zstandard, Gzip]], q > 0, q >= plain]
    given = take 32 (map element (C.split ',' text))
    weight coding = fromMaybe (fromMaybe 0 (lookup "*" given)) (firstOf (names coding))
    -- Not mentioned, it is acceptable but nobody's wish.
    plain = fromMaybe 0 (firstOf ["identity"])
    firstOf wantedNames = case [q | (name, q) <- given, name `elem` wantedNames] of
      q : _ -> Just q
      [] -> Nothing
    names coding = if coding == Gzip then ["gzip", "x-gzip"] else [codingName coding]

-- A name in lower case and its weight, in thousandths.
element :: ByteString -> (ByteString, Int)
element text = (C.map toLower (C.strip name), weightOf (B.drop 1 parameters))
  where
    (name, parameters) = C.break (== ';') text
    weightOf p = case C.break (== '=') (C.strip p) of
      (key, value) | C.map toLower (C.strip key) == "q" && not (B.null value) -> thousandths (C.strip (B.drop 1 value))
      _ -> 1000

-- A malformed weight is no wish.
thousandths :: ByteString -> Int
thousandths text = case C.uncons text of
  Just ('1', _) -> 1000
  Just ('0', rest)
    | Just ('.', digits) <- C.uncons rest, C.all isDigit digits -> maybe 0 fst (C.readInt (C.take 3 (digits <> "000")))
  _ -> 0

-- | The codings of an 'Accepted', the most wanted first.
--
-- [Cost]: none to speak of.
wantedCodings :: Accepted -> [Coding]
wantedCodings = go . (`rem` 64)
  where
    go 0 = []
    go n = case n `quotRem` 4 of
      (rest, digit) | digit > 0 -> toEnum (digit - 1) : go rest
      _ -> []

-- | Test whether files of this media type are compressed in themselves, so that no sibling is looked for.
isCompressed :: ByteString -> Bool
isCompressed media = any (`B.isPrefixOf` kind) ["video/", "audio/"] || ("image/" `B.isPrefixOf` kind && kind `notElem` plainImages) || kind `elem` packed
  where
    kind = bare media
    packed =
      [ "application/zip",
        "application/gzip",
        "application/x-gzip",
        "application/x-bzip2",
        "application/x-xz",
        "application/zstd",
        "application/x-7z-compressed",
        "application/x-rar-compressed",
        "application/vnd.rar",
        "application/java-archive",
        "application/epub+zip",
        "application/vnd.debian.binary-package",
        "font/woff",
        "font/woff2"
      ]

-- | Test whether files of this media type are worth the work of compressing them.
isCompressible :: ByteString -> Bool
isCompressible media =
  "text/" `B.isPrefixOf` kind
    || any (`B.isSuffixOf` kind) ["+xml", "+json"]
    || kind `elem` plainImages
    || kind
      `elem` [ "application/json",
               "application/javascript",
               "application/ecmascript",
               "application/xml",
               "application/wasm",
               "application/yaml",
               "application/toml",
               "application/sql",
               "application/rtf",
               "application/x-ndjson",
               "application/x-sh",
               "application/postscript",
               "application/vnd.ms-fontobject",
               "font/ttf",
               "font/otf"
             ]
  where
    kind = bare media

plainImages :: [ByteString]
plainImages = ["image/svg+xml", "image/bmp", "image/x-ms-bmp", "image/x-icon", "image/vnd.microsoft.icon"]

bare :: ByteString -> ByteString
bare = C.strip . C.map toLower . C.takeWhile (/= ';')
