{-# LANGUAGE DeriveFunctor #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Decode
-- Description : From YAML to values, with all problems and their places
-- Stability   : internal
--
-- Decoders that go on after a problem: whoever writes a configuration sees everything that is wrong with it at once, each
-- with file, line and column. A key that is not known comes with the nearest that is.
--
-- HsYAML reads the syntax. All scalars are texts here: what a scalar means is decided by the key that it belongs to, so
-- that @no@ can be the name of a host, and @8080@ a port, quoted or not.
--
-- Cost: linear in the file.
-- Owner: values.
module Heddle.Serve.Config.Decode
  ( -- * Documents
    Place (..),
    Problem (..),
    describeProblem,
    Source (..),
    decodeDocument,

    -- * Decoders
    Decoder,
    text,
    refine,
    oneOf,
    listOf,
    oneOrMore,
    mappingOf,
    located,
    Located (..),

    -- * Mappings with known keys
    Fields,
    fields,
    required,
    optionalField,
    withDefault,

    -- * Alternatives by shape
    byShape,
  )
where

import Data.ByteString.Lazy qualified as L
import Data.List (foldl', intercalate, isPrefixOf, sortOn)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.YAML (Doc (..), Node (..), Pos (..), Scalar (..), decodeNode', failsafeSchemaResolver)

-- Places and problems ----------------------------------------------------------------

-- | Line and column count from 1.
data Place = Place {placeFile :: !FilePath, placeLine :: !Int, placeColumn :: !Int}
  deriving stock (Eq, Ord, Show)

-- | What is wrong, and where.
data Problem = Problem {problemPlace :: !Place, problemText :: !String}
  deriving stock (Eq, Ord, Show)

-- | As compilers write it: @file:line:column: what@.
describeProblem :: Problem -> String
describeProblem (Problem (Place file line column) what) = file ++ ":" ++ show line ++ ":" ++ show column ++ ": " ++ what

-- | Where a text comes from, and the variables that it may name.
data Source = Source {sourceFile :: !FilePath, sourceVariable :: !(String -> Maybe String)}

-- | A value, and where it is written.
data Located a = Located {locatedAt :: !Place, locatedValue :: !a}
  deriving stock (Eq, Functor, Show)

-- Decoders ---------------------------------------------------------------------------

-- | A value, or all problems that were found.
data Checked a = Wrong !([Problem] -> [Problem]) | Fine a
  deriving stock (Functor)

instance Applicative Checked where
  pure = Fine
  Wrong e <*> Wrong e' = Wrong (e . e')
  Wrong e <*> Fine _ = Wrong e
  Fine _ <*> Wrong e = Wrong e
  Fine f <*> Fine a = Fine (f a)

-- | How to understand a node.
newtype Decoder a = Decoder {decodeAt :: Source -> Node Pos -> Checked a}
  deriving stock (Functor)

-- | One YAML document. An empty file is an empty mapping.
--
-- [Cost] Linear in the file.
decodeDocument :: Source -> Decoder a -> L.ByteString -> Either [Problem] a
decodeDocument source decoder bytes = case decodeNode' failsafeSchemaResolver False False bytes of
  Left (pos, why) -> Left [Problem (placeOf source pos) (explained why)]
  Right [] -> decodeDocument source decoder "{}"
  Right [Doc root] -> case decodeAt decoder source root of
    Fine a -> Right a
    Wrong problems -> Left (sortOn problemPlace (problems []))
  Right (_ : Doc second : _) -> Left [problemAt source second "a second document begins here; a configuration is one"]
  where
    explained why
      | "Duplicate key" `isPrefixOf` why = "this key is in the mapping already"
      | otherwise = "this is not YAML: " ++ concatMap (\c -> if c == '\n' then "end of line" else [c]) why

-- | A scalar as it is written, with the variables in it: @${NAME}@, or @${NAME:-what to take if it is not set}@; @$$@ is a
-- dollar.
text :: Decoder Text
text = Decoder $ \source node -> case node of
  Scalar _ (SStr t) -> expand source node t
  Scalar _ (SUnknown _ t) -> expand source node t
  Anchor _ _ inner -> decodeAt text source inner
  _ -> wrong source node ("a single value is expected here, not " ++ shapeOf node)
  where
    expand source node t = case withVariables (sourceVariable source) (Text.unpack t) of
      Left why -> wrong source node why
      Right expanded -> Fine (Text.pack expanded)

withVariables :: (String -> Maybe String) -> String -> Either String String
withVariables variable = go
  where
    go = \case
      '$' : '$' : rest -> ('$' :) <$> go rest
      '$' : '{' : rest -> case break (== '}') rest of
        (inside, '}' : after) -> do
          let (name, fallback) = break (== ':') inside
          value <- case (variable name, fallback) of
            (Just v, _) -> Right v
            (Nothing, ':' : '-' : other) -> Right other
            _ -> Left ("the variable " ++ name ++ " is not set; ${" ++ name ++ ":-...} gives a value for that case")
          (value ++) <$> go after
        _ -> Left "${ without a }; a dollar is written $$"
      c : rest -> (c :) <$> go rest
      [] -> Right []

-- | A further step, which may refuse; its problem is at the node.
refine :: (a -> Either String b) -> Decoder a -> Decoder b
refine step decoder = Decoder $ \source node -> case decodeAt decoder source node of
  Wrong problems -> Wrong problems
  Fine a -> either (wrong source node) Fine (step a)

-- | One of these words.
oneOf :: [(Text, a)] -> Decoder a
oneOf words' = refine find text
  where
    find t = maybe (Left (unknown "value" (map fst words') t)) Right (lookup t words')

-- | A sequence.
listOf :: Decoder a -> Decoder [a]
listOf decoder = Decoder $ \source node -> case node of
  Sequence _ _ nodes -> traverse (decodeAt decoder source) nodes
  Anchor _ _ inner -> decodeAt (listOf decoder) source inner
  _ -> wrong source node ("a list is expected here, not " ++ shapeOf node)

-- | A sequence, or a single element without it.
oneOrMore :: Decoder a -> Decoder [a]
oneOrMore decoder = Decoder $ \source node -> case node of
  Sequence {} -> decodeAt (listOf decoder) source node
  Anchor _ _ inner -> decodeAt (oneOrMore decoder) source inner
  _ -> (: []) <$> decodeAt decoder source node

-- | A mapping from keys of the user's choice, in the order in which they are written.
mappingOf :: (Text -> Either String k) -> Decoder a -> Decoder [(k, a)]
mappingOf key decoder = Decoder $ \source node -> inMapping source node $ \entries ->
  traverse (\(name, keyNode, value) -> (,) <$> either (wrong source keyNode) Fine (key name) <*> decodeAt decoder source value) entries

-- | With its place.
located :: Decoder a -> Decoder (Located a)
located decoder = Decoder $ \source node -> Located (placeOf source (positionOf node)) <$> decodeAt decoder source node

-- | By what is written: a scalar, a sequence, or a mapping. 'Nothing' refuses a shape.
byShape :: String -> Maybe (Decoder a) -> Maybe (Decoder a) -> Maybe (Decoder a) -> Decoder a
byShape expected scalar sequence' mapping = Decoder go
  where
    go source node = case node of
      Scalar {} -> given source node scalar
      Sequence {} -> given source node sequence'
      Mapping {} -> given source node mapping
      Anchor _ _ inner -> go source inner
    given source node = maybe (wrong source node (expected ++ " is expected here, not " ++ shapeOf node)) (\d -> decodeAt d source node)

-- Mappings with known keys -----------------------------------------------------------

-- | What a mapping has, and the keys that it may have.
data Fields a = Fields ![Text] !(Source -> Node Pos -> Map Text (Node Pos) -> Checked a)
  deriving stock (Functor)

instance Applicative Fields where
  pure a = Fields [] (\_ _ _ -> Fine a)
  Fields names f <*> Fields names' f' = Fields (names ++ names') (\source node entries -> f source node entries <*> f' source node entries)

-- | A mapping that has these fields and no others.
fields :: Fields a -> Decoder a
fields (Fields names decode) = Decoder $ \source node -> inMapping source node $ \entries ->
  traverse (known source) [(name, keyNode) | (name, keyNode, _) <- entries]
    *> decode source node (Map.fromList [(name, value) | (name, _, value) <- entries])
  where
    known source (name, keyNode)
      | name `elem` names = Fine ()
      | otherwise = wrong source keyNode (unknown "key" names name)

-- | The field has to be there.
required :: Text -> Decoder a -> Fields a
required name decoder = Fields [name] $ \source node entries ->
  maybe (wrong source node ("the key '" ++ Text.unpack name ++ "' is missing")) (decodeAt decoder source) (Map.lookup name entries)

-- | The field may be there.
optionalField :: Text -> Decoder a -> Fields (Maybe a)
optionalField name decoder = Fields [name] $ \source _ entries -> traverse (decodeAt decoder source) (Map.lookup name entries)

-- | The field, or this.
withDefault :: a -> Text -> Decoder a -> Fields a
withDefault usual name decoder = fromMaybe usual <$> optionalField name decoder

-- Nodes ------------------------------------------------------------------------------

inMapping :: Source -> Node Pos -> ([(Text, Node Pos, Node Pos)] -> Checked a) -> Checked a
inMapping source node body = case node of
  Mapping _ _ entries -> case traverse named (sortOn (posByteOffset . positionOf . fst) (Map.toList entries)) of
    Fine found -> body found
    Wrong problems -> Wrong problems
  Anchor _ _ inner -> inMapping source inner body
  -- A key with nothing after it.
  Scalar _ (SUnknown _ "") -> body []
  _ -> wrong source node ("keys with values are expected here, not " ++ shapeOf node)
  where
    named (keyNode, value) = case keyNode of
      Scalar _ (SStr t) -> Fine (t, keyNode, value)
      Scalar _ (SUnknown _ t) -> Fine (t, keyNode, value)
      _ -> wrong source keyNode "a key is a single value"

shapeOf :: Node Pos -> String
shapeOf = \case
  Scalar _ (SUnknown _ "") -> "nothing"
  Scalar {} -> "a single value"
  Mapping {} -> "keys with values"
  Sequence {} -> "a list"
  Anchor _ _ inner -> shapeOf inner

positionOf :: Node Pos -> Pos
positionOf = \case
  Scalar pos _ -> pos
  Mapping pos _ _ -> pos
  Sequence pos _ _ -> pos
  Anchor pos _ _ -> pos

placeOf :: Source -> Pos -> Place
placeOf source pos = Place (sourceFile source) (max 1 (posLine pos)) (posColumn pos + 1)

problemAt :: Source -> Node Pos -> String -> Problem
problemAt source node = Problem (placeOf source (positionOf node))

wrong :: Source -> Node Pos -> String -> Checked a
wrong source node what = Wrong (problemAt source node what :)

-- The nearest word if it is near, else all of them.
unknown :: String -> [Text] -> Text -> String
unknown what words' given = case sortOn fst [(editDistance (Text.unpack given) (Text.unpack word), word) | word <- words'] of
  (distance, nearest) : _
    | distance <= max 1 (Text.length given `div` 3) -> said ++ "; did you mean '" ++ Text.unpack nearest ++ "'?"
  _ -> said ++ "; there are " ++ intercalate ", " (map Text.unpack words')
  where
    said = "'" ++ Text.unpack given ++ "' is not a known " ++ what

-- How many letters have to be inserted, removed or replaced.
editDistance :: String -> String -> Int
editDistance from to = last (foldl' row [0 .. length to] from)
  where
    row above c = scanl step (head' above + 1) (zip3 to above (drop 1 above))
      where
        step left (d, diagonal, up) = minimum [left + 1, up + 1, diagonal + fromEnum (c /= d)]
    head' = foldr const 0
