{-# LANGUAGE OverloadedStrings #-}

-- | String literals: their bytes, and how large they make a program.
module LiteralTest
  ( tests,
    packageDatabase,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.List (isPrefixOf)
import Data.String (fromString)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Heddle.Bytes.Put
import System.Directory (createDirectoryIfMissing, doesDirectoryExist, getTemporaryDirectory, listDirectory, removePathForcibly)
import System.Environment (getExecutablePath)
import System.FilePath (takeDirectory, (</>))
import System.Process (callProcess, readProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Literal"
    [ testCase "literals: their bytes" $ do
        bothOf "" "" >>= (@?= "")
        bothOf "a" "a" >>= (@?= "a")
        bothOf "a literal longer than sixteen bytes" "a literal longer than sixteen bytes" >>= (@?= "a literal longer than sixteen bytes")
        bothOf "a\0b" "a\0b" >>= (@?= "a\0b")
        bothOf "\0" "\0" >>= (@?= "\0")
        bothOf "K\246ln \8364 \128169" "K\246ln \8364 \128169" >>= (@?= Text.encodeUtf8 (Text.pack "K\246ln \8364 \128169"))
        bothOf "<\55296\57343\55295>" "<\55296\57343\55295>" >>= (@?= "<\239\191\189\239\191\189\237\159\191>"),
      testProperty "literals: what is none" $ \chars ->
        let expected = Text.encodeUtf8 (Text.pack chars)
         in toByteString (fromString chars) === expected .&&. toByteString (write (fromString chars)) === expected,
      testCase "a literal costs bytes, not code" $ do
        puts <- sizePerLiteral "Put" (\n -> "p" <> show n <> " :: Put\np" <> show n <> " = " <> show (name n))
        writes <- sizePerLiteral "Write" (\n -> "w" <> show n <> " :: Write\nw" <> show n <> " = " <> show (name n))
        inside <- sizePerLiteral "Put" (\n -> (if n == 1 then "all :: Put\nall = mempty" else "") <> " <> " <> show (name n))
        texts <- sizePerLiteral "Utf8" (\n -> "t" <> show n <> " :: Utf8\nt" <> show n <> " = " <> show (name n))
        names <- sizePerLiteral "Name" (\n -> "k" <> show n <> " :: Name\nk" <> show n <> " = " <> show (name n))
        keys <- sizePerLiteral "Fields" (\n -> (if n == 1 then "all :: Int -> Fields\nall n = mempty" else "") <> " <> " <> show (name n) <> " <:> int n")
        let found = show [("a Put" :: String, puts), ("a Write", writes), ("inside of a Put", inside), ("a Utf8", texts), ("a key", names), ("a key and its value", keys)]
        assertBool found (puts <= 220 && writes <= 280 && inside <= 100 && texts <= 220 && names <= 250 && keys <= 500)
    ]
  where
    name :: Int -> String
    name n = "literal number " <> show n

bothOf :: Put -> Write -> IO ByteString
bothOf put piece = do
  toByteString (write piece) @?= toByteString put
  let b = toByteString put
  ByteString.length b @?= ByteString.length (toByteString put)
  pure b

-- | The bytes of code and data that each of a hundred literals adds to a module compiled with
-- optimisation, its own bytes included.
sizePerLiteral :: String -> (Int -> String) -> IO Int
sizePerLiteral type_ line = do
  one <- sizeWith 1
  many <- sizeWith 101
  pure ((many - one) `quot` 100)
  where
    sizeWith :: Int -> IO Int
    sizeWith count = do
      database <- packageDatabase
      temporary <- getTemporaryDirectory
      let folder = temporary </> ("heddle-literals-" <> type_ <> show count)
          file = folder </> "Literals.hs"
      removePathForcibly folder
      createDirectoryIfMissing True folder
      writeFile file $
        unlines
          [ "{-# LANGUAGE OverloadedStrings #-}",
            "module Literals where",
            "import Heddle.Bytes.Json.Build (Fields, Name, int, (<:>))",
            "import Heddle.Bytes.Put",
            "import Heddle.Bytes.Utf8 (Utf8)",
            "import Prelude hiding (all)"
          ]
          <> unlines (map line [1 .. count])
      callProcess "ghc" ["-v0", "-O2", "-c", "-package-db", database, "-package", "heddle-bytes", "-outputdir", folder, file]
      sizes <- readProcess "size" [folder </> "Literals.o"] ""
      removePathForcibly folder
      case map words (lines sizes) of
        [_, text' : data_ : _] -> pure (read text' + read data_)
        _ -> fail ("unexpected output of size: " <> sizes)

-- | Where this package is registered before it is installed: above the test program.
packageDatabase :: IO FilePath
packageDatabase = getExecutablePath >>= go . takeDirectory
  where
    go folder = do
      found <- doesDirectoryExist (folder </> "packagedb")
      if found
        then do
          databases <- filter ("ghc-" `isPrefixOf`) <$> listDirectory (folder </> "packagedb")
          case databases of
            [one] -> pure (folder </> "packagedb" </> one)
            _ -> fail ("not one package database in " <> folder)
        else
          if takeDirectory folder == folder
            then fail "no package database above the test program"
            else go (takeDirectory folder)
