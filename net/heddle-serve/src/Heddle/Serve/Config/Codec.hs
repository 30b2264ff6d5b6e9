{-# LANGUAGE DeriveFunctor #-}

-- |
-- Module      : Heddle.Serve.Config.Codec
-- Description : Reading, writing, merging and documenting a configuration by one definition
-- Stability   : internal, exempt from the version policy
--
-- A 'Codec' reads a value from YAML, writes it, and knows what may be written; 'Keys' do the same for the keys of a mapping, and merge
-- two of them. So the grammar that is printed, the configuration that is dumped, and what is understood cannot differ.
--
-- Cost: that of the decoders.
-- Owner: values.
module Heddle.Serve.Config.Codec
  ( -- * Values
    Written (..),
    onCommandLine,
    argument,
    Codec (..),
    word,
    resolved,
    choice,
    yesNoWord,
    number,
    path,
    severalOf,
    pairs,
    mappingOf,
    layersOf,
    object,
    judgedBy,

    -- * Keys
    Keys,
    mergeKeys,
    keyShapes,
    part,
    key,
    flag,
    listKey,
    appendKey,
    mergedKey,
    nestedKey,
    overPairs,

    -- * What may be written
    Shape (..),
    Key (..),
  )
where

import Control.Applicative ((<|>))
import Data.Maybe (fromMaybe)
import Heddle.Serve.Config.Decode
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Yaml
import System.FilePath (takeDirectory, (</>))

-- | A value, how it was written, and where. Values that were written alike are equal, wherever they were.
data Written a = Written
  { writtenAt :: !Position,
    writtenText :: !String,
    meant :: !a
  }
  deriving stock (Functor, Show)

instance Eq (Written a) where
  a == b = writtenText a == writtenText b

-- | The place of what is no file's.
onCommandLine :: Position
onCommandLine = Position "the command line" 0 0

-- | Read an argument of the command line.
argument :: (String -> Either String a) -> String -> Either String (Written a)
argument reader text = Written onCommandLine text <$> reader text

-- | A value in YAML.
data Codec a = Codec
  { codecDecoder :: !(Decoder a),
    codecEncode :: !(a -> Yaml),
    codecShape :: !Shape
  }

-- | What may be written.
data Shape
  = -- | A text: what it is, and examples.
    WordShape !String ![String]
  | ChoiceShape ![String]
  | YesNoShape
  | NumberShape !Int !Int
  | -- | Several, or one alone.
    SeveralShape !Shape
  | -- | A mapping whose keys are such texts.
    MappingShape !Shape !Shape
  | -- | A mapping with these keys; its name.
    ObjectShape !String ![Key]
  deriving stock (Eq, Show)

-- | A key of a mapping.
data Key = Key
  { keyName :: !String,
    keyShape :: !Shape,
    -- | What holds without it.
    keyDefault :: !String,
    keyText :: !String
  }
  deriving stock (Eq, Show)

-- | A text that a reader understands: what it is, and examples.
word :: String -> [String] -> (String -> Either String a) -> Codec (Written a)
word what examples reader = resolved what examples (\_ text -> (,) text <$> reader text) (YamlText . writtenText)

-- | The same with the directory of the file, which may change the text.
resolved :: String -> [String] -> (FilePath -> String -> Either String (String, a)) -> (Written a -> Yaml) -> Codec (Written a)
resolved what examples reader encode =
  Codec
    { codecDecoder = refine understood (placed (textWith what Right)),
      codecEncode = encode,
      codecShape = WordShape what examples
    }
  where
    understood (at@(Position file _ _), text) = uncurry (Written at) <$> reader (takeDirectory file) text

-- | One of some words.
choice :: String -> [(String, a)] -> Codec (Written a)
choice what choices =
  Codec
    { codecDecoder = (\(at, (name, value)) -> Written at name value) <$> placed (oneOf what [(name, (name, value)) | (name, value) <- choices]),
      codecEncode = YamlText . writtenText,
      codecShape = ChoiceShape (map fst choices)
    }

-- | @yes@ or @no@.
yesNoWord :: Codec (Written Bool)
yesNoWord =
  Codec
    { codecDecoder = (\(at, value) -> Written at (if value then "yes" else "no") value) <$> placed yesNo,
      codecEncode = YamlText . writtenText,
      codecShape = YesNoShape
    }

-- | A whole number within bounds, and what it is a number of.
number :: Int -> Int -> String -> Codec (Written Int)
number least most what =
  Codec
    { codecDecoder = (\(at, n) -> Written at (show n) n) <$> placed (wholeNumber least most what),
      codecEncode = YamlText . writtenText,
      codecShape = NumberShape least most
    }

-- | A path, relative to the file that it is in.
path :: String -> [String] -> Codec (Written FilePath)
path what examples = resolved what examples relative (YamlPath . writtenText)
  where
    relative directory text
      | null text = Left "a path is empty"
      | otherwise = let whole = if directory == "." then text else directory </> text in Right (whole, whole)

-- | Several, or one alone.
severalOf :: Codec a -> Codec [a]
severalOf (Codec decoder encode shape) =
  Codec
    { codecDecoder = oneOrMore decoder,
      codecEncode = YamlList . map encode,
      codecShape = SeveralShape shape
    }

-- | A mapping of texts to texts, both understood together; and a value's two texts.
pairs :: String -> Shape -> Shape -> (String -> String -> Either String a) -> (a -> (String, String)) -> Codec [Written a]
pairs what keys values reader apart =
  Codec
    { codecDecoder = judged (every . map understood) (entriesOf what anyText (placed anyText)),
      codecEncode = \given -> YamlMap [(name, YamlText value) | (name, value) <- map (apart . meant) given],
      codecShape = MappingShape keys values
    }
  where
    understood (name, (at, value)) = either (Left . pure . Problem at) (\a -> let (n, v) = apart a in Right (Written at (n ++ "=" ++ v) a)) (reader name value)
    every results = case concat [problems | Left problems <- results] of
      [] -> sequence results
      problems -> Left problems

-- | A mapping whose keys are data.
mappingOf :: String -> Codec (Written k) -> Codec v -> Codec [(Written k, v)]
mappingOf what (Codec readKey writeKey keys) (Codec readValue writeValue values) =
  Codec
    { codecDecoder = entriesOf what readKey readValue,
      codecEncode = \given -> YamlMap [(textOf (writeKey k), writeValue v) | (k, v) <- given],
      codecShape = MappingShape keys values
    }
  where
    textOf = \case
      YamlText text -> text
      YamlPath text -> text
      _ -> ""

-- | The same, or a list of such mappings, where a key may be given again in a later one.
layersOf :: Codec [(Written k, v)] -> Codec [(Written k, v)]
layersOf (Codec decoder encode shape) =
  Codec
    { codecDecoder = concat <$> oneOrMore decoder,
      codecEncode = \given -> case layers [] given of
        [one] -> encode one
        several -> YamlList (map encode several),
      codecShape = SeveralShape shape
    }
  where
    layers now [] = [reverse now | not (null now)]
    layers now (entry : others)
      | fst entry `elem` map fst now = reverse now : layers [entry] others
      | otherwise = layers (entry : now) others

-- | A mapping with these keys and no others.
object :: String -> Keys a a -> Codec a
object what keys =
  Codec
    { codecDecoder = objectOf what (keysFields keys),
      codecEncode = YamlMap . keysEncode keys,
      codecShape = ObjectShape what (keysShapes keys)
    }

-- | The same, where the value with its place must also hold up to this.
judgedBy :: (Position -> a -> Either [Problem] b) -> (b -> a) -> Codec a -> Codec b
judgedBy check back (Codec decoder encode shape) = Codec (judged (uncurry check) (placed decoder)) (encode . back) shape

-- | The keys of a mapping that is written from @o@ and read as @a@.
data Keys o a = Keys
  { keysFields :: !(Fields a),
    keysEncode :: !(o -> [(String, Yaml)]),
    -- | The first counts where both have something.
    keysMerge :: !(o -> o -> a),
    keysShapes :: ![Key]
  }

instance Functor (Keys o) where
  fmap f keys = keys {keysFields = f <$> keysFields keys, keysMerge = \a b -> f (keysMerge keys a b)}

instance Applicative (Keys o) where
  pure value = Keys (pure value) (const []) (\_ _ -> value) []
  f <*> x =
    Keys
      { keysFields = keysFields f <*> keysFields x,
        keysEncode = \o -> keysEncode f o ++ keysEncode x o,
        keysMerge = \a b -> keysMerge f a b (keysMerge x a b),
        keysShapes = keysShapes f ++ keysShapes x
      }

-- | Both; the first counts where both have something.
mergeKeys :: Keys a a -> a -> a -> a
mergeKeys = keysMerge

-- | List what may be written.
keyShapes :: Keys o a -> [Key]
keyShapes = keysShapes

-- | The keys of a part of the value.
part :: (o -> p) -> Keys p a -> Keys o a
part get keys = keys {keysEncode = keysEncode keys . get, keysMerge = \a b -> keysMerge keys (get a) (get b)}

-- | A key: its name, its default and meaning in words, and where its value is.
key :: String -> String -> String -> Codec a -> (o -> Maybe a) -> Keys o (Maybe a)
key name standard text codec get =
  Keys
    { keysFields = optionalKey name (codecDecoder codec),
      keysEncode = \o -> [(name, codecEncode codec value) | Just value <- [get o]],
      keysMerge = \a b -> get a <|> get b,
      keysShapes = [Key name (codecShape codec) standard text]
    }

-- | @yes@ or @no@, and @no@ without it.
flag :: String -> String -> (o -> Maybe (Written Bool)) -> Keys o (Maybe (Written Bool))
flag name text = key name "no" text yesNoWord

-- | A key for a list, of which one replaces the other.
listKey :: String -> String -> String -> Codec [a] -> (o -> [a]) -> Keys o [a]
listKey = mergedKey (\a b -> if null a then b else a)

-- | A key for a list, to which the one that counts is appended.
appendKey :: String -> String -> String -> Codec [a] -> (o -> [a]) -> Keys o [a]
appendKey = mergedKey (flip (++))

-- | A key for a list, with a function for two of them, of which the first counts.
mergedKey :: ([a] -> [a] -> [a]) -> String -> String -> String -> Codec [a] -> (o -> [a]) -> Keys o [a]
mergedKey merge name standard text codec get =
  Keys
    { keysFields = fromMaybe [] <$> optionalKey name (codecDecoder codec),
      keysEncode = \o -> [(name, codecEncode codec (get o)) | not (null (get o))],
      keysMerge = \a b -> merge (get a) (get b),
      keysShapes = [Key name (codecShape codec) standard text]
    }

-- | A key whose value has keys itself, all of which may be missing.
nestedKey :: Eq a => String -> String -> String -> a -> Keys a a -> (o -> a) -> Keys o a
nestedKey name what text none keys get =
  Keys
    { keysFields = fromMaybe none <$> optionalKey name (codecDecoder codec),
      keysEncode = \o -> [(name, codecEncode codec (get o)) | get o /= none],
      keysMerge = \a b -> keysMerge keys (get a) (get b),
      keysShapes = [Key name (codecShape codec) "" text]
    }
  where
    codec = object what keys

-- | The pairs of both; of those with one key, the first list's last.
overPairs :: Eq k => (a -> k) -> [a] -> [a] -> [a]
overPairs keyOf above below = foldr one [] (below ++ above)
  where
    one entry later = if keyOf entry `elem` map keyOf later then later else entry : later
