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
-- Cost: O(size of the text, with each alias as long as what it names), which has a limit.
-- Owner: values.
module Heddle.Serve.Config.Tree
  ( Position (..),
    Problem (..),
    renderProblem,
    renderPlace,
    Node (..),
    Value (..),
    parseTree,
  )
where

import Data.ByteString (ByteString)
import Data.Char (isAlphaNum, isAscii, isControl)
import Data.Foldable (for_)
import Data.List (isInfixOf)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Heddle.Serve.Config.Events
import Heddle.Serve.Config.Source (refusedSource)

-- | A file, and line and column from 1.
data Position = Position !FilePath !Int !Int
  deriving stock (Eq, Ord, Show)

-- | What is wrong, and where.
data Problem = Problem !Position !String
  deriving stock (Eq, Ord, Show)

-- | @FILE:LINE:COLUMN: text@, in one line without control characters, which terminals would obey. A line 0 is that of no file, and left out.
renderProblem :: Problem -> String
renderProblem (Problem (Position file line column) text) = concatMap visible (file ++ (if line == 0 then "" else ":" ++ show line ++ ":" ++ show column) ++ ": " ++ text)
  where
    visible c = if isControl c then init (drop 1 (show c)) else [c]

-- | @FILE:LINE@.
renderPlace :: Position -> String
renderPlace (Position file line _) = if line == 0 then file else file ++ ":" ++ show line

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
  | -- | A text that could not be made, and why. Whoever wants a value here reports it.
    Wrong !String
  deriving stock (Eq, Show)

-- | Read one document; an empty one is an empty mapping. The function looks environment variables up. After a mistake in the syntax
-- nothing further is read.
--
-- [Cost]: O(length).
parseTree :: (Text -> Maybe Text) -> FilePath -> ByteString -> Either Problem Node
parseTree environment file content = do
  for_ (refusedSource content) (\(line, column, why) -> Left (Problem (Position file line column) why))
  let (events, end) = eventsOf content
  for_ end (\(mark, why) -> Left (Problem (place mark) ("this is not YAML: " ++ why ++ adviceAt mark why)))
  case [(place mark, event) | (mark, event) <- events] of
    [] -> Right (Node (Position file 1 1) (Mapping []))
    placed -> do
      (node, rest, _) <- tree (Known Map.empty mostValues) placed
      case rest of
        [] -> Right (substituted environment node)
        (at, _) : _ -> Left (Problem at "a second document begins here, and a configuration is one document")
  where
    place (Mark line column) = Position file line column
    -- Only where a value was expected is the character the one that is wrong.
    adviceAt (Mark line column) why = case T.uncons (T.drop (column - 1) (lineAt line)) of
      Just ('\t', _) -> "; YAML is indented with spaces"
      Just (c, _) | c `elem` (":@`%*&!|>" :: String), any (`isInfixOf` why) ["expected node content", "cannot start any token"] -> "; a value that begins with " ++ [c] ++ " is written in quotes"
      _ -> ""
    lineAt line = T.concat (take 1 (drop (line - 1) (T.lines (decodeUtf8With lenientDecode content))))

-- What anchors name, with its number of values; and how many values there may still be.
data Known = Known !(Map Text (Int, Node)) !Int

-- Aliases of aliases make a file of some lines longer than any memory.
mostValues :: Int
mostValues = 1000000

type Events = [(Position, Event)]

-- One value, the events after it, and what is known then.
tree :: Known -> Events -> Either Problem (Node, Events, Known)
tree (Known anchors left) = \case
  (at, ScalarEvent anchor plain text) : rest -> named anchor (Node at (Scalar plain text)) rest one
  (at, ListBegins anchor) : rest -> do
    (items, after, inner) <- several one rest []
    named anchor (Node at (List items)) after inner
  (at, MappingBegins anchor) : rest -> do
    (items, after, inner) <- several one rest []
    named anchor (Node at (Mapping (pairs items))) after inner
  (at, AliasEvent name) : rest -> case Map.lookup name anchors of
    Just (size, Node _ value)
      | size > left -> Left (Problem at ("with what this stands for, the configuration has more than " ++ show mostValues ++ " values"))
      | otherwise -> Right (Node at value, rest, Known anchors (left - size))
    Nothing -> Left (Problem at ("no value before this has the anchor &" ++ T.unpack name))
  (at, _) : _ -> Left (Problem at "a value is missing here")
  [] -> Left (Problem (Position "the configuration" 0 0) "it ends where a value is missing")
  where
    one = Known anchors (left - 1)
    named anchor node rest (Known inner now) = Right (node, rest, Known (maybe inner (\name -> Map.insert name (left - now, node) inner) anchor) now)
    pairs (key : value : others) = (key, value) : pairs others
    pairs _ = []

-- The values up to the end of their list or mapping.
several :: Known -> Events -> [Node] -> Either Problem ([Node], Events, Known)
several known events found = case events of
  (_, Ends) : rest -> Right (reverse found, rest, known)
  _ -> do
    (node, rest, more) <- tree known events
    several more rest (node : found)

-- Variables in all values; keys stay as they are.
substituted :: (Text -> Maybe Text) -> Node -> Node
substituted environment (Node at value) =
  Node at $ case value of
    Scalar plain text -> either Wrong (Scalar plain) (expanded environment text)
    List nodes -> List (map (substituted environment) nodes)
    Mapping entries -> Mapping [(key, substituted environment node) | (key, node) <- entries]
    Wrong why -> Wrong why

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
