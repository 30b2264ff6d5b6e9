-- |
-- Module      : Heddle.Serve.Config.Document
-- Description : The grammar of a configuration, for readers and for editors
-- Stability   : internal, exempt from the version policy
--
-- Tables in Markdown for the manual, and a JSON schema, both from the definitions that read a file.
--
-- Cost: values.
-- Owner: values.
module Heddle.Serve.Config.Document
  ( referenceText,
    schemaText,
  )
where

import Data.List (intercalate, nub)
import Heddle.Serve.Config.Codec (Codec (..), Key (..), Shape (..))
import Heddle.Serve.Config.Grammar

-- | A table of keys for each kind of mapping, in Markdown.
referenceText :: String
referenceText = intercalate "\n" (map section (objectsOf [] (codecShape configCodec)))
  where
    section (name, keys) =
      unlines $
        ["### Keys of " ++ name, "", "| Key | Value | Default | Meaning |", "|---|---|---|---|"]
          ++ ["| `" ++ keyName k ++ "` | " ++ cell (shapeText (keyShape k)) ++ " | " ++ cell (keyDefault k) ++ " | " ++ cell (keyText k) ++ " |" | k <- keys]
          ++ ["| `include` | a file's name or a pattern, or a list of them | none | The keys of these files stand here |" | name == "the configuration"]
    cell = concatMap (\c -> if c == '|' then "\\|" else [c])

-- Each kind once, outer ones first. A host says what the top can say, and the manual refers to that.
objectsOf :: [String] -> Shape -> [(String, [Key])]
objectsOf seen shape = case shape of
  ObjectShape name keys
    | name `elem` seen -> []
    | otherwise -> (name, own name keys) : go (name : seen) (map keyShape keys)
  SeveralShape inner -> objectsOf seen inner
  MappingShape _ inner -> objectsOf seen inner
  _ -> []
  where
    go _ [] = []
    go known (one : others) = let found = objectsOf known one in found ++ go (known ++ map fst found) others
    own name keys
      | name == "a host" = [k | k <- keys, keyName k `elem` ["names", "max-body", "tls-cert", "tls-key", "tls-staple"]]
      | otherwise = keys

shapeText :: Shape -> String
shapeText = \case
  WordShape what examples -> what ++ such examples
  ChoiceShape names -> intercalate ", " (map code names)
  YesNoShape -> "`yes`, `no`"
  NumberShape least most -> show least ++ " to " ++ show most
  SeveralShape inner -> shapeText inner ++ ", or a list"
  MappingShape keys values -> "a mapping of " ++ plainText keys ++ " to " ++ plainText values
  ObjectShape name _ -> name
  where
    such examples = if null examples then "" else ": " ++ intercalate ", " (map code examples)
    code s = "`" ++ s ++ "`"
    plainText = \case
      WordShape what _ -> what
      other -> shapeText other

-- | A JSON schema (draft 7) for editors.
schemaText :: String
schemaText = unlines (render 0 (Map' (("$schema", Text' "http://json-schema.org/draft-07/schema#") : ("title", Text' "heddle serve") : schemaOf True (codecShape configCodec))))

data Json = Text' !String | Number' !Int | Bool' !Bool | List' ![Json] | Map' ![(String, Json)]

-- Includes may stand in any mapping.
schemaOf :: Bool -> Shape -> [(String, Json)]
schemaOf top = \case
  WordShape what examples -> [("type", List' [Text' "string", Text' "number"]), ("description", Text' what)] ++ [("examples", List' (map Text' examples)) | not (null examples)]
  ChoiceShape names -> [("enum", List' (concatMap both names))]
  YesNoShape -> [("enum", List' (Bool' True : Bool' False : map Text' ["yes", "no", "on", "off"]))]
  NumberShape least most -> [("type", Text' "integer"), ("minimum", Number' least), ("maximum", Number' most)]
  SeveralShape inner -> [("oneOf", List' [Map' (schemaOf False inner), Map' [("type", Text' "array"), ("items", Map' (schemaOf False inner))]])]
  MappingShape _ values -> [("type", Text' "object"), ("additionalProperties", Map' (schemaOf False values))]
  ObjectShape _ keys -> [("type", Text' "object"), ("additionalProperties", Bool' False), ("properties", Map' (include ++ [(keyName k, Map' (described k)) | k <- keys]))]
  where
    described k = [("description", Text' (keyText k)) | not (null (keyText k))] ++ [entry | entry@(name, _) <- schemaOf False (keyShape k), name /= "description"]
    include = [("include", Map' (("description", Text' (if top then "Files whose keys stand here" else "Files whose keys stand in this mapping")) : [e | e@(n, _) <- schemaOf False (SeveralShape (WordShape "a file's name or a pattern" ["sites/*.yaml"])), n /= "description"]))]
    -- YAML reads 421 as a number, and off as a truth value.
    both name = nub [name] >>= \n -> Text' n : ([Number' (read n) | all (`elem` ['0' .. '9']) n] ++ [Bool' (n == "on") | n `elem` ["on", "off"]])

render :: Int -> Json -> [String]
render depth = \case
  Text' s -> [quoted s]
  Number' n -> [show n]
  Bool' b -> [if b then "true" else "false"]
  List' items | Just words' <- traverse simple items -> ["[" ++ intercalate ", " words' ++ "]"]
  List' items -> bracketed "[" "]" (map (render (depth + 1)) items)
  Map' [] -> ["{}"]
  Map' entries -> bracketed "{" "}" [hung (quoted name ++ ": ") (render (depth + 1) value) | (name, value) <- entries]
  where
    simple = \case
      Text' s -> Just (quoted s)
      Number' n -> Just (show n)
      Bool' b -> Just (if b then "true" else "false")
      _ -> Nothing
    bracketed open close parts = [open] ++ concat (commas (map (map ("  " ++)) parts)) ++ [close]
    commas = \case
      [] -> []
      [one] -> [one]
      one : others -> (init one ++ [last one ++ ","]) : commas others
    hung name = \case
      first : others -> (name ++ first) : others
      [] -> [name]
    quoted s = "\"" ++ concatMap (\c -> if c `elem` "\"\\" then ['\\', c] else [c]) s ++ "\""
