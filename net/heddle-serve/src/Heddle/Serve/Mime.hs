{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Mime
-- Description : Media types by file name
-- Stability   : internal, exempt from the version policy
--
-- The mime-types package's table, with additions and corrections.
--
-- Cost: a map lookup per file read, none per request.
-- Owner: a constant.
module Heddle.Serve.Mime
  ( mediaType,
    extensionOf,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Map.Strict qualified as Map
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Network.Mime (MimeMap, defaultMimeMap, defaultMimeType, mimeByExt)

-- | The Content-Type for a file name, with the character set for text.
--
-- >>> mediaType "index.html"
-- "text/html; charset=utf-8"
--
-- [Cost]: O(log types).
mediaType :: ByteString -> ByteString
mediaType name
  | "text/" `B.isPrefixOf` found || found `elem` textual = found <> "; charset=utf-8"
  | otherwise = found
  where
    found = mimeByExt types defaultMimeType (decodeUtf8With lenientDecode name)
    textual = ["application/json", "application/xml", "application/manifest+json", "application/rss+xml", "application/atom+xml"]

-- | Find what follows the last dot of a file's name, in lower case; empty without one.
--
-- [Cost]: O(length).
extensionOf :: ByteString -> ByteString
extensionOf path = case C.breakEnd (== '.') (snd (C.breakEnd (== '/') path)) of
  ("", _) -> ""
  (_, extension) -> C.map toLower extension

types :: MimeMap
types = Map.union ours defaultMimeMap
  where
    ours =
      Map.fromList
        [ ("js", "text/javascript"),
          ("mjs", "text/javascript"),
          ("cjs", "text/javascript"),
          ("geojson", "application/geo+json"),
          ("jsonld", "application/ld+json"),
          ("glb", "model/gltf-binary"),
          ("gltf", "model/gltf+json"),
          ("usdz", "model/vnd.usdz+zip"),
          ("apng", "image/apng"),
          ("jxl", "image/jxl"),
          ("heic", "image/heic"),
          ("heif", "image/heif"),
          ("vtt", "text/vtt"),
          ("m3u8", "application/vnd.apple.mpegurl"),
          ("mpd", "application/dash+xml"),
          ("m4s", "video/iso.segment"),
          -- Segments of HLS; browsers do not run TypeScript.
          ("ts", "video/mp2t"),
          ("mts", "video/mp2t"),
          ("wasm", "application/wasm"),
          ("avif", "image/avif"),
          ("webp", "image/webp"),
          ("woff", "font/woff"),
          ("woff2", "font/woff2"),
          ("ttf", "font/ttf"),
          ("otf", "font/otf"),
          ("webmanifest", "application/manifest+json"),
          ("map", "application/json"),
          ("md", "text/markdown"),
          ("opus", "audio/ogg"),
          ("flac", "audio/flac"),
          ("mkv", "video/x-matroska"),
          ("ico", "image/vnd.microsoft.icon"),
          ("7z", "application/x-7z-compressed"),
          ("zst", "application/zstd"),
          ("yaml", "application/yaml"),
          ("yml", "application/yaml"),
          ("log", "text/plain")
        ]
        `Map.union` Map.fromList [(extension, "text/plain") | extension <- sources]
    -- Shown by browsers instead of downloaded.
    sources = ["hs", "lhs", "cabal", "py", "c", "h", "cc", "cpp", "hpp", "rs", "go", "java", "sh", "rb", "pl", "lua", "ml", "toml", "ini", "conf", "cfg", "diff", "patch"]
