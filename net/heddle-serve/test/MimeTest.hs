{-# LANGUAGE OverloadedStrings #-}

module MimeTest (tests) where

import Data.ByteString.Char8 qualified as C
import Data.Char (toUpper)
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Mime"
    [ testGroup "by the last extension" [testCase (C.unpack name) (mediaType name @?= expected) | (name, expected) <- rows],
      testProperty "directories and case do not matter" $
        forAll (elements (map fst rows)) $ \name ->
          mediaType ("some.dir/" <> name) === mediaType name
            .&&. (mediaType (C.map toUpper name) === mediaType name),
      testProperty "any bytes have some type, fit for a header" $ \bytes ->
        let found = mediaType (C.pack bytes)
         in counterexample (show found) (C.elem '/' found && C.all (\c -> c >= ' ' && c < '\DEL') found)
    ]
  where
    rows =
      [ ("index.html", "text/html; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.mjs", "text/javascript; charset=utf-8"),
        ("data.json", "application/json; charset=utf-8"),
        ("feed.xml", "application/xml; charset=utf-8"),
        ("notes.txt", "text/plain; charset=utf-8"),
        ("readme.md", "text/markdown; charset=utf-8"),
        ("image.png", "image/png"),
        ("image.avif", "image/avif"),
        ("image.webp", "image/webp"),
        ("image.svg", "image/svg+xml"),
        ("photo.jpeg", "image/jpeg"),
        ("favicon.ico", "image/vnd.microsoft.icon"),
        ("font.woff2", "font/woff2"),
        ("code.wasm", "application/wasm"),
        ("paper.pdf", "application/pdf"),
        ("film.mp4", "video/mp4"),
        -- suffixesOfTheWebHadNoType
        ("segment.ts", "video/mp2t"),
        ("CLIP.MTS", "video/mp2t"),
        ("scene.glb", "model/gltf-binary"),
        ("scene.gltf", "model/gltf+json"),
        ("map.geojson", "application/geo+json"),
        ("thing.jsonld", "application/ld+json"),
        ("image.jxl", "image/jxl"),
        ("image.apng", "image/apng"),
        ("photo.heic", "image/heic"),
        ("film.mpd", "application/dash+xml"),
        ("film.m3u8", "application/vnd.apple.mpegurl"),
        ("words.vtt", "text/vtt; charset=utf-8"),
        ("module.cjs", "text/javascript; charset=utf-8"),
        ("no-extension", "application/octet-stream"),
        ("unknown.qqq", "application/octet-stream")
      ]
