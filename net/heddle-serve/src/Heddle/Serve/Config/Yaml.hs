-- |
-- Module      : Heddle.Serve.Config.Yaml
-- Description : Writing YAML
-- Stability   : internal, exempt from the version policy
--
-- Texts, lists and mappings in block style, quoted only where a reader could take a text for something else. What is written here is
-- read back to the same value by "Heddle.Serve.Config.Tree": @${@ is written as @$${@.
--
-- Cost: O(size of the text).
-- Owner: values.
module Heddle.Serve.Config.Yaml
  ( Yaml (..),
    renderYaml,
  )
where

import Data.Char (isAlphaNum, isAscii, isPrint, ord, toLower)
import Data.Text (Text)
import Data.Text qualified as T
import Numeric (showHex)

-- | What can be written.
data Yaml
  = YamlText !String
  | -- | A path; a relative one is written after the directory that it is relative to.
    YamlPath !FilePath
  | YamlList ![Yaml]
  | YamlMap ![(String, Yaml)]
  deriving stock (Eq, Show)

-- | The text of a document, with a directory for relative paths, which is empty or ends in a slash.
--
-- [Cost]: O(size).
renderYaml :: FilePath -> Yaml -> Text
renderYaml base = T.pack . unlines . document
  where
    document = \case
      YamlMap [] -> ["{}"]
      value -> block value
    block = \case
      YamlText text -> [scalar text]
      YamlPath path -> [scalar (absolute path)]
      YamlList [] -> ["[]"]
      YamlList items -> concatMap (hung "- " . block) items
      YamlMap [] -> ["{}"]
      YamlMap given -> concatMap entry given
    entry (key, value) = case value of
      YamlList items@(_ : _)
        | Just inline <- short items -> [scalar key ++ ": " ++ inline]
        | otherwise -> (scalar key ++ ":") : map ("  " ++) (block value)
      YamlMap (_ : _) -> (scalar key ++ ":") : map ("  " ++) (block value)
      _ -> map ((scalar key ++ ": ") ++) (block value)
    hung mark = zipWith (++) (mark : repeat (map (const ' ') mark))
    -- Lists of a few words are read best on one line.
    short items = do
      words' <- traverse word items
      let inline = "[" ++ foldr1 (\a b -> a ++ ", " ++ b) words' ++ "]"
      if length inline <= 72 then Just inline else Nothing
    word = \case
      YamlText text -> Just (scalar text)
      YamlPath path -> Just (scalar (absolute path))
      _ -> Nothing
    absolute path = case path of
      '/' : _ -> path
      _ -> base ++ path

scalar :: String -> String
scalar text
  | plain text = text
  | otherwise = "\"" ++ concatMap character (escaped text) ++ "\""
  where
    plain t = case t of
      first : _ -> (isWord first || first `elem` "/.") && all (\c -> isWord c || c `elem` "/.-+_=") t && map toLower t `notElem` ["null", "true", "false"] && t `notElem` ["-", ".", ".."]
      [] -> False
    isWord c = isAscii c && isAlphaNum c
    escaped t = case t of
      '$' : '{' : rest -> "$${" ++ escaped rest
      c : rest -> c : escaped rest
      [] -> []
    character c
      | c == '"' || c == '\\' = ['\\', c]
      | c == '\n' = "\\n"
      | c == '\t' = "\\t"
      | isPrint c = [c]
      | ord c < 256 = "\\x" ++ digits 2 c
      | ord c < 65536 = "\\u" ++ digits 4 c
      | otherwise = "\\U" ++ digits 8 c
    digits n c = let hex = showHex (ord c) "" in replicate (n - length hex) '0' ++ hex
