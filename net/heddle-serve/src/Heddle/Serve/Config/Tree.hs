{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Tree
-- Description : YAML with the place of everything
-- Stability   : internal, exempt from the version policy
--
-- A document as a tree in which each value and each key knows its file, line and column. Built from the parser's events and not
-- from its own tree, which is a map: that has lost the order of keys and the places of repeated ones. In every value @${NAME}@
-- stands for an environment variable, @${NAME:-default}@ for one with a default, and @$${@ for @${@ itself.
--
-- Cost: O(size of the text); an alias shares what it names.
-- Owner: values.
module Heddle.Serve.Config.Tree
  ( Position (..),
    Problem (..),
    renderProblem,
    Node (..),
    Value (..),
    parseTree,
  )
where

import Data.ByteString.Lazy (ByteString)
import Data.Char (isAlphaNum, isAscii, isControl)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import Data.Text qualified as T
import Data.YAML.Event hiding (Scalar)
import Data.YAML.Event qualified as Yaml

-- | A file, and line and column from 1.
data Position = Position !FilePath !Int !Int
  deriving stock (Eq, Ord, Show)

-- | What is wrong, and where.
data Problem = Problem !Position !String
  deriving stock (Eq, Ord, Show)

-- | @FILE:LINE:COLUMN: text@. A line 0 is that of no file, and left out.
renderProblem :: Problem -> String
renderProblem (Problem (Position file line column) text) = file ++ (if line == 0 then "" else ":" ++ show line ++ ":" ++ show column) ++ ": " ++ text

-- | A value and where it begins.
data Node = Node
  { nodePosition :: !Position,
    nodeValue :: !Value
  }
  deriving stock (Eq, Show)

-- | Keys are in the order of the file and may repeat.
data Value
  = -- | Without its quotes; whether it was written without quotes.
    Scalar !Bool !Text
  | List ![Node]
  | Mapping ![(Node, Node)]
  deriving stock (Eq, Show)

-- | Read one document; an empty one is an empty mapping. The function looks environment variables up. All missing variables are
-- reported; after a mistake in the syntax nothing further is.
--
-- [Cost]: O(length).
parseTree :: (Text -> Maybe Text) -> FilePath -> ByteString -> Either [Problem] Node
parseTree environment file text = do
  events <- traverse event (parseEvents text)
  case [e | e@(_, what) <- events, significant what] of
    [] -> Right (Node (Position file 1 1) (Mapping []))
    significants -> do
      (node, rest, _) <- tree Map.empty significants
      case rest of
        [] -> substituted environment node
        (at, _) : _ -> Left [Problem at "a second document begins here, and a configuration is one document"]
  where
    event = \case
      Left (pos, why) -> Left [Problem (place pos) ("this is not YAML: " ++ concatMap visible why)]
      Right (EvPos what pos) -> Right (place pos, what)
    -- The parser quotes the character that it did not expect.
    visible c = if isControl c then init (drop 1 (show c)) else [c]
    place pos = Position file (posLine pos) (posColumn pos + 1)
    significant = \case
      StreamStart -> False
      StreamEnd -> False
      DocumentStart _ -> False
      DocumentEnd _ -> False
      Comment _ -> False
      _ -> True

type Anchors = Map Text Node

type Events = [(Position, Event)]

-- One value, the events after it, and the anchors known then.
tree :: Anchors -> Events -> Either [Problem] (Node, Events, Anchors)
tree known = \case
  (at, Yaml.Scalar anchor _ style text) : rest -> named anchor (Node at (Scalar (style == Plain) text)) rest known
  (at, SequenceStart anchor _ _) : rest -> do
    (items, after, inner) <- several known rest []
    named anchor (Node at (List items)) after inner
  (at, MappingStart anchor _ _) : rest -> do
    (items, after, inner) <- several known rest []
    named anchor (Node at (Mapping (pairs items))) after inner
  (at, Alias name) : rest -> case Map.lookup name known of
    Just (Node _ value) -> Right (Node at value, rest, known)
    Nothing -> Left [Problem at ("no value before this has the anchor &" ++ T.unpack name)]
  (at, _) : _ -> Left [Problem at "a value is missing here"]
  [] -> Left []
  where
    named anchor node rest anchors = Right (node, rest, maybe anchors (\name -> Map.insert name node anchors) anchor)
    pairs (key : value : others) = (key, value) : pairs others
    pairs _ = []

-- The values up to the end of their list or mapping.
several :: Anchors -> Events -> [Node] -> Either [Problem] ([Node], Events, Anchors)
several known events found = case events of
  (_, SequenceEnd) : rest -> Right (reverse found, rest, known)
  (_, MappingEnd) : rest -> Right (reverse found, rest, known)
  _ -> do
    (node, rest, more) <- tree known events
    several more rest (node : found)

-- Variables in all values; keys stay as they are.
substituted :: (Text -> Maybe Text) -> Node -> Either [Problem] Node
substituted environment (Node at value) =
  Node at <$> case value of
    Scalar plain text -> Scalar plain <$> either (Left . pure . Problem at) Right (expanded environment text)
    List nodes -> List <$> every (map (substituted environment) nodes)
    Mapping entries -> Mapping . zip (map fst entries) <$> every (map (substituted environment . snd) entries)
  where
    every results = case [problem | Left problems <- results, problem <- problems] of
      [] -> sequence results
      problems -> Left problems

expanded :: (Text -> Maybe Text) -> Text -> Either String Text
expanded environment text = case T.breakOn "${" text of
  (_, "") -> Right text
  (before, rest)
    | "$" `T.isSuffixOf` before -> ((T.init before <> "${") <>) <$> expanded environment (T.drop 2 rest)
    | otherwise -> case T.breakOn "}" (T.drop 2 rest) of
      (_, "") -> Left "'${' has no '}' after it; write $${ for the characters themselves"
      (inside, after) -> do
        value <- variable inside
        ((before <> value) <>) <$> expanded environment (T.drop 1 after)
  where
    variable inside = case T.breakOn ":-" inside of
      (name, given)
        | T.null name || not (T.all isName name) -> Left ("'${" ++ T.unpack inside ++ "}' does not name a variable; write ${NAME} or ${NAME:-default}")
        | otherwise -> case (environment name, given) of
          (Just value, _) -> Right value
          (Nothing, "") -> Left ("the environment has no variable " ++ T.unpack name ++ "; set it, or write ${" ++ T.unpack name ++ ":-default}")
          (Nothing, _) -> Right (T.drop 2 given)
    isName c = isAscii c && (isAlphaNum c || c == '_')
