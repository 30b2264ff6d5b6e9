-- |
-- Module      : Heddle.Serve.Config.Import
-- Description : Configurations of other servers: what translations have in common
-- Stability   : internal, exempt from the version policy
--
-- A translation collects keys in their order and notes what has no counterpart, with its line, so that nothing is lost silently.
--
-- Cost: O(size).
-- Owner: values.
module Heddle.Serve.Config.Import
  ( Imported (..),
    importedText,
    Translation (..),
    says,
    none,
    left,
    leftAt,
    noted,
    merged,
    texts,
  )
where

import Data.List (foldl', sortOn)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Yaml

-- | A translated configuration, and what was left out or is not quite the same.
data Imported = Imported
  { importedYaml :: !Yaml,
    importedLeft :: ![Problem]
  }
  deriving stock (Eq, Show)

-- | The configuration as text.
importedText :: Imported -> Text
importedText = renderYaml "" . importedYaml

-- | Keys, and notes.
data Translation = Translation ![(String, Yaml)] ![Problem]

instance Semigroup Translation where
  Translation a b <> Translation c d = Translation (a ++ c) (b ++ d)

instance Monoid Translation where
  mempty = Translation [] []

-- | A key.
says :: String -> Yaml -> Translation
says key value = Translation [(key, value)] []

-- | Translate what needs no key, because the server does so anyway.
none :: Translation
none = mempty

-- | Report what has no counterpart.
left :: FilePath -> Int -> String -> Translation
left file line what = leftAt (Position file line 1) ("not translated: " ++ what)

-- | A note about a line.
leftAt :: Position -> String -> Translation
leftAt at what = Translation [] [Problem at what]

-- | The same about a line of a file.
noted :: FilePath -> Int -> String -> Translation
noted file line = leftAt (Position file line 1)

-- | One mapping: lists and mappings of one key are joined, and of several texts the last counts. Keys stand where they
-- came first.
--
-- Cost: O(n log n) for n keys, and the square of the items of lists that are joined.
merged :: [(String, Yaml)] -> [(String, Yaml)]
merged entries = [(key, joined values) | (_, key, values) <- sortOn (\(at, _, _) -> at) found]
  where
    found = [(at, key, values) | (key, (at, values)) <- Map.toList (foldl' add Map.empty (zip [0 :: Int ..] entries))]
    add known (at, (key, value)) = Map.insertWith (\_ (first, values) -> (first, value : values)) key (at, [value]) known
    -- The newest comes first. What is of another kind replaces what was before it.
    joined = \case
      newest@(YamlMap _) : older@(YamlMap _ : _) -> YamlMap (merged (concat (reverse [keys | YamlMap keys <- takeWhile isMap (newest : older)])))
      YamlList newest : older@(YamlList _ : _) -> YamlList (foldl' union' [] (reverse (newest : [items | YamlList items <- takeWhile isList older])))
      values -> head values
    union' before items = before ++ filter (`notElem` before) items
    isMap = \case
      YamlMap _ -> True
      _ -> False
    isList = \case
      YamlList _ -> True
      _ -> False

-- | A list of texts.
texts :: [String] -> Yaml
texts = YamlList . map YamlText
