{-# LANGUAGE OverloadedStrings #-}

module UriPathTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (chr, isHexDigit)
import Data.Either (isRight)
import Data.List (intercalate)
import Heddle.Http.Internal (statusCode)
import Heddle.Http.UriPath
import Numeric (readHex)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "UriPath"
    [ testGroup "decodePath" [testCase (show raw) (summary (decodePath raw) @?= expected) | (raw, expected) <- table],
      localOption (QuickCheckTests 5000) $
        testGroup
          "laws"
          [ testProperty "agrees with the oracle" . forAll rawPath $ \raw -> summary (decodePath raw) === oracle (C.unpack raw),
            testProperty "agrees with the oracle on random bytes" $ \bytes ->
              let raw = B.pack (0x2F : bytes) in summary (decodePath raw) === oracle (C.unpack raw),
            testProperty "once" . forAll rawPath $ \raw -> case decodePath raw of
              Left _ -> property True
              Right path -> decodePath (encodePath path) === Right path,
            testProperty "encoded slashes are octets or separators, and nothing else changes" . forAll rawPath $ \raw -> case decodeBothWays raw of
              Left _ -> property (not (isRight (decodePath raw)))
              -- Read again with slashes, the first is the second: nothing can be resolved in between.
              Right (octets, slashes)
                | decodePath (withoutEncoded (encodePath octets)) /= Right slashes -> counterexample (show (octets, slashes)) False
              Right (octets, slashes) ->
                conjoin
                  [ property (B.notElem 0 (pathRelative slashes)),
                    decodePath (withoutEncoded raw) === Right slashes,
                    decodeBothWays (encodePath octets) `named` Right octets,
                    if B.elem 0 (pathRelative octets) then decodePath (encodePath octets) === Left PathEncodedSlash else property (isRight (decodePath (encodePath octets)))
                  ]
                where
                  -- Of the first reading only: the second one has other dots.
                  named got wanted = fmap fst got === wanted,
            testProperty "clean" . forAll rawPath $ \raw -> case decodePath raw of
              Left _ -> property True
              Right path ->
                let segments = B.split 0x2F (pathRelative path)
                 in conjoin
                      [ property (all (`notElem` ["", ".", ".."]) segments || B.null (pathRelative path)),
                        property (B.all (`notElem` [0, 0x5C]) (pathRelative path))
                      ],
            testProperty "what is encoded is canonical" . forAll rawPath $ \raw -> case decodePath raw of
              Left _ -> property True
              Right path -> property (isCanonical (encodePath path) path),
            testProperty "a location never names a host" . forAll rawPath $ \raw -> case decodePath raw of
              Left _ -> property True
              Right path -> property (not ("//" `B.isPrefixOf` encodePath path)),
            testProperty "only invalid" . forAll invalid $ \raw -> not (isRight (decodePath raw))
          ],
      testCase "canonical spellings" $ do
        let canonical raw = either (const False) (isCanonical raw) (decodePath raw)
        map canonical ["/", "/a", "/a/", "/a%20b", "/%C3%A9", "/a:b@c"] @?= replicate 6 True
        map canonical ["", "//", "/./a", "/%61", "/a%2e", "/a//b", "/a/..", "/%c3%a9"] @?= replicate 8 False,
      testCase "statuses" $
        map (statusCode . pathErrorStatus) [minBound .. maxBound] @?= [400, 400, 404, 404, 404, 404]
    ]

-- With each encoded slash as one.
withoutEncoded :: ByteString -> ByteString
withoutEncoded raw = case B.breakSubstring "%2" raw of
  (a, b)
    | B.length b >= 3, C.index b 2 `elem` ("fF" :: String) -> a <> "/" <> withoutEncoded (B.drop 3 b)
    | B.length b >= 2 -> a <> "%2" <> withoutEncoded (B.drop 2 b)
    | otherwise -> raw

summary :: Either PathError UriPath -> Either PathError (ByteString, Bool)
summary = fmap (\path -> (pathRelative path, pathTrailingSlash path))

table :: [(ByteString, Either PathError (ByteString, Bool))]
table =
  [ ("/", Right ("", True)),
    ("", Right ("", True)),
    ("/a", Right ("a", False)),
    ("/a/", Right ("a", True)),
    ("/a/b.html", Right ("a/b.html", False)),
    ("//a///b//", Right ("a/b", True)),
    ("/a/./b", Right ("a/b", False)),
    ("/a/../b", Right ("b", False)),
    ("/a/..", Right ("", True)),
    ("/a/b/..", Right ("a", True)),
    ("/a/.", Right ("a", True)),
    ("/a/%2e%2E/b", Right ("b", False)),
    ("/.a", Right (".a", False)),
    ("/...", Right ("...", False)),
    ("/..a/b..", Right ("..a/b..", False)),
    ("/a%20b", Right ("a b", False)),
    ("/%C3%A9", Right ("\xC3\xA9", False)),
    ("/a+b", Right ("a+b", False)),
    ("/%252e", Right ("%2e", False)),
    ("/%2525", Right ("%25", False)),
    ("/..", Left PathAboveRoot),
    ("/../etc/passwd", Left PathAboveRoot),
    ("/a/../../b", Left PathAboveRoot),
    ("/%2e%2e/b", Left PathAboveRoot),
    ("/a//../../b", Left PathAboveRoot),
    ("/%", Left PathBadEscape),
    ("/%4", Left PathBadEscape),
    ("/%zz", Left PathBadEscape),
    ("/a%2", Left PathBadEscape),
    ("/%00", Left PathNul),
    ("/a%2Fb", Left PathEncodedSlash),
    ("/..%2f..", Left PathEncodedSlash),
    ("/a\\b", Left PathBackslash),
    ("/..%5c..", Left PathBackslash),
    ("a", Left PathNotAbsolute)
  ]

rawPath :: Gen ByteString
rawPath = ("/" <>) . B.concat <$> listOf piece
  where
    piece =
      frequency
        [ (6, elements ["/", "/", "a", "b", ".", "..", "/..", "/.", "%20", "%2e", "%2E", "%c3%a9", "%25", "~", "index.html"]),
          (1, elements ["%", "%0", "%00", "%2f", "%5C", "\\", "%g0"])
        ]

-- | Paths with one fault each, in a place where it counts.
invalid :: Gen ByteString
invalid = do
  fault <- elements ["%", "%1", "%g1", "%1g", "%00", "%2f", "%2F", "%5c", "%5C", "\\", "a/../..", "%2e%2e/.."]
  before <- elements ["/", "/x", "//x/../"]
  pure (if fault `elem` ["a/../..", "%2e%2e/.."] then "/" <> fault else before <> fault)

-- | The same on lists, by the definition.
oracle :: String -> Either PathError (ByteString, Bool)
oracle raw = do
  decoded <- unescape raw
  let segments = drop 1 (splitSlash decoded)
      directory = last segments `elem` ["", ".", ".."]
  kept <- walk [] (filter (`notElem` ["", "."]) segments)
  pure (C.pack (intercalate "/" kept), directory || null kept)
  where
    unescape = \case
      '%' : a : b : rest
        | isHexDigit a,
          isHexDigit b -> case chr (fst (head (readHex [a, b]))) of
          '\0' -> Left PathNul
          '/' -> Left PathEncodedSlash
          '\\' -> Left PathBackslash
          c -> (c :) <$> unescape rest
      '%' : _ -> Left PathBadEscape
      '\0' : _ -> Left PathNul
      '\\' : _ -> Left PathBackslash
      c : rest -> (c :) <$> unescape rest
      "" -> Right ""
    walk above = \case
      [] -> Right (reverse above)
      ".." : rest -> if null above then Left PathAboveRoot else walk (drop 1 above) rest
      segment : rest -> walk (segment : above) rest
    splitSlash text = case break (== '/') text of
      (part, _ : rest) -> part : splitSlash rest
      (part, "") -> [part]
