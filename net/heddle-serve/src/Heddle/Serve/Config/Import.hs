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

import Data.List (foldl')
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

-- | One mapping: lists and mappings of one key are joined, and of several texts the last counts.
merged :: [(String, Yaml)] -> [(String, Yaml)]
merged = foldl' add []
  where
    add before (key, value) = case break ((== key) . fst) before of
      (earlier, (_, was) : later) -> earlier ++ (key, both was value) : later
      _ -> before ++ [(key, value)]
    both (YamlList a) (YamlList b) = YamlList (a ++ [item | item <- b, item `notElem` a])
    both (YamlMap a) (YamlMap b) = YamlMap (merged (a ++ b))
    both _ value = value

-- | A list of texts.
texts :: [String] -> Yaml
texts = YamlList . map YamlText
