{-# LANGUAGE OverloadedStrings #-}

-- | Patterns for paths, and what clients accept.
module PolicyTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.List (intercalate, nub, sortBy)
import Data.Ord (comparing)
import Heddle.Prim.Clock (EpochSeconds (..))
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Policy"
    [ testGroup "patterns" [testCase (C.unpack glob ++ " and " ++ C.unpack path) (fmap (`matches` path) (parseGlob glob) @?= Right expected) | (glob, path, expected) <- rows],
      testProperty "slowPattern: many stars and a path that does not match take no time" $
        forAll (choose (1, 60)) $ \n -> fmap (`matches` C.replicate 2000 'a') (parseGlob (B.concat (replicate n "*a") <> "b")) === Right False,
      testProperty "a pattern without anything special matches itself alone" $ \(Plain path) (Plain other) ->
        fmap (`matches` ("/" <> path)) (parseGlob ("/" <> path)) === Right True
          .&&. fmap (`matches` ("/" <> other)) (parseGlob ("/" <> path)) === Right (path == other),
      testProperty "agreesWithBacktracking: stars, as a simple matcher has it" $ \(Stars glob) (Plain path) ->
        fmap (`matches` ("/" <> path)) (parseGlob ("/" <> glob)) === Right (simple (C.unpack glob) (C.unpack path)),
      testGroup "patterns that are none" [testCase (show glob) (assertBool "expected a complaint" (either (const True) (const False) (parseGlob glob))) | glob <- ["", "{a", "a}", "{a,{b}}", "a\\", B.concat (replicate 9 "{a,b}")]],
      testProperty "whatever a client accepts is one of sixteen orders, without doubles" $ \(Accept text) ->
        let wanted = wantedCodings (acceptedOf text)
         in nub wanted === wanted .&&. counterexample (show wanted) (Identity `notElem` wanted),
      testCase "all sixteen orders come back" $ do
        let orders = nub [wantedCodings (acceptedOf (C.pack (intercalate "," [name ++ ";q=0." ++ show q | (name, q) <- zip ["br", "gzip", "zstd"] qs]))) | qs <- sequence [[0 .. 3], [0 .. 3], [0 .. 3 :: Int]]]
        length orders @?= 16,
      testProperty "bytes that are no list at all are no wish that fails" $ \bytes -> wantedCodings (acceptedOf (B.pack bytes)) `seq` True,
      testCase "times" $ do
        isoTime (EpochSeconds 1795545067) @?= "2026-11-24T18:31:07Z"
        isoFromLogTime "21/Nov/2026:20:14:07 +0100" @?= "2026-11-21T20:14:07+01:00",
      testCase "sizes" $
        map humanSize [0, 999, 1000, 1049, 9949, 9950, 999499, 999500, 123456789, 1000000000000] @?= ["0 B", "999 B", "1.0 kB", "1.0 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB", "123 MB", "1.0 TB"],
      testProperty "agreesWithPieces: names in the order of their pieces" $ \(names :: [Name]) ->
        let items = [Item text False 0 (EpochSeconds 0) | Name text <- names]
         in map itemName (sortItems (Order ByName False) items) === sortBy (comparing pieces <> compare) (map itemName items),
      testProperty "a sorted listing holds what it was given, directories first" $ \names ->
        let items = [Item (B.pack name) isDirectory size (EpochSeconds 0) | (name, isDirectory, size) <- names]
            sorted = sortItems (Order ByName False) items
         in length sorted === length items .&&. map itemDirectory sorted === replicate (length (filter itemDirectory items)) True ++ replicate (length (filter (not . itemDirectory) items)) False
    ]

newtype Name = Name ByteString
  deriving stock (Show)

instance Arbitrary Name where
  arbitrary = Name . C.pack <$> resize 12 (listOf (elements "aAbB01923-\1\2\255"))

-- Numbers by value, words without regard to case.
pieces :: ByteString -> [Either Integer String]
pieces text = case C.span isDigit text of
  ("", "") -> []
  ("", _) -> let (word, rest) = C.break isDigit text in Right (map toLower (C.unpack word)) : pieces rest
  (digits, rest) -> Left (read (C.unpack digits)) : pieces rest

rows :: [(ByteString, ByteString, Bool)]
rows =
  [ ("*", "/", True),
    ("*", "/a/b", True),
    ("*.js", "/a/b.js", True),
    ("*.js", "/b.jsx", False),
    ("/*.js", "/b.js", True),
    ("/*.js", "/a/b.js", False),
    ("/a/**", "/a/", True),
    ("/a/**", "/a/b/c", True),
    ("/a/**", "/a", False),
    ("/a/**", "/ab", False),
    ("a/*", "/a/b", True),
    ("**", "/", True),
    ("**/x", "/x", True),
    ("**/x", "/a/b/x", True),
    ("**/x", "/a/bx", False),
    ("/a/**/b", "/a/b", True),
    ("/a/**/b", "/a/c/d/b", True),
    ("/a/**/b", "/a/cb", False),
    ("/**/*.js", "/b.js", True),
    ("/**/*.js", "/a/c/b.js", True),
    ("/**/*.js", "/a/b.jsx", False),
    ("***/x", "/a/x", True),
    ("**/**/x", "/x", True),
    ("**/**", "/a", True),
    (B.replicate 100 63 <> "**", "/" <> B.replicate 99 97, False),
    ("/" <> B.replicate 100 63 <> "/**/*", "/" <> B.replicate 100 97 <> "/b/c", True),
    ("?.txt", "/a.txt", True),
    ("?.txt", "/.txt", False),
    ("*.{js,css}", "/a.css", True),
    ("*.{js,css}", "/a.html", False),
    ("{a,b}{1,2}", "/b1", True),
    ("\\*", "/*", True),
    ("\\*", "/a", False),
    ("*.{a\\,b,c}", "/x.a,b", True)
  ]

newtype Plain = Plain ByteString
  deriving stock (Show)

instance Arbitrary Plain where
  arbitrary = Plain . C.pack <$> listOf (elements "abc./")

newtype Stars = Stars ByteString
  deriving stock (Show)

instance Arbitrary Stars where
  -- Two stars have another meaning.
  arbitrary = Stars . C.pack . single <$> listOf (elements "abc./*")
    where
      single = \case
        '*' : '*' : rest -> single ('*' : rest)
        c : rest -> c : single rest
        [] -> []

simple :: String -> String -> Bool
simple = \case
  [] -> null
  '*' : rest -> \text ->
    simple rest text || case text of
      c : after | c /= '/' -> simple ('*' : rest) after
      _ -> False
  c : rest -> \case
    d : after | c == d -> simple rest after
    _ -> False

newtype Accept = Accept ByteString
  deriving stock (Show)

instance Arbitrary Accept where
  arbitrary = do
    parts <- listOf ((,) <$> elements ["br", "gzip", "zstd", "identity", "*", "deflate", "x-gzip", ""] <*> elements ["", ";q=0", ";q=1", ";q=0.5", "; q=0.001", ";q=", ";x=1", ";q=0.9999"])
    pure (Accept (C.intercalate ", " [name <> q | (name, q) <- parts]))
