-- |
-- Module      : Heddle.Serve.Config.NginxSyntax
-- Description : The syntax of nginx's configurations
-- Stability   : internal, exempt from the version policy
--
-- Directives with their lines. What they mean is in "Heddle.Serve.Config.Nginx".
--
-- Cost: O(size).
-- Owner: values.
module Heddle.Serve.Config.NginxSyntax
  ( Directive (..),
    parseNginx,
    valueOf,
    untranslated,
  )
where

import Data.Char (isSpace)
import Data.List (stripPrefix)
import Data.Maybe (listToMaybe, mapMaybe)
import Heddle.Serve.Config.Import
import Heddle.Serve.Config.Tree

-- | A directive: its line, its name and arguments, and those in its block.
data Directive = Directive
  { directiveLine :: !Int,
    directiveWords :: ![String],
    directiveBlock :: ![Directive]
  }
  deriving stock (Eq, Show)

data Token = Word' !Int !String | Open !Int | Close !Int | End !Int

tokens :: String -> [Token]
tokens = go 1
  where
    go _ [] = []
    go n (c : rest)
      | c == '\n' = go (n + 1) rest
      | isSpace c = go n rest
      | c == '#' = go n (dropWhile (/= '\n') rest)
      | c == '{' = Open n : go n rest
      | c == '}' = Close n : go n rest
      | c == ';' = End n : go n rest
      | c `elem` "\"'" = quoted n n c "" rest
      | otherwise = bare n "" (c : rest)
    quoted from n q done = \case
      '\\' : c : rest -> quoted from (after n c) q (escaped c ++ done) rest
      c : rest
        | c == q -> Word' from (reverse done) : go n rest
        | otherwise -> quoted from (after n c) q (c : done) rest
      [] -> [Word' from (reverse done)]
    bare n done text = case text of
      '$' : '{' : rest -> let (name, more) = break (== '}') rest in bare n (reverse ("${" ++ name ++ "}") ++ done) (drop 1 more)
      '\\' : c : rest -> bare (after n c) (escaped c ++ done) rest
      c : rest | not (isSpace c) && c `notElem` "{;" -> bare n (c : done) rest
      _ -> Word' n (reverse done) : go n text
    after n c = if c == '\n' then n + 1 else n
    -- Reversed. Where nginx knows no escape, such as in a regular expression's '\.', the backslash stays.
    escaped = \case
      't' -> "\t"
      'r' -> "\r"
      'n' -> "\n"
      c
        | c `elem` "\"'\\" -> [c]
        | otherwise -> [c, '\\']

-- | Directives, or where the text is not nginx's.
parseNginx :: FilePath -> String -> Either Problem [Directive]
parseNginx file text =
  block (tokens text) >>= \case
    (directives, []) -> Right directives
    (_, token : _) -> Left (problem (lineOf token) "'}' closes nothing")
  where
    problem line = Problem (Position file line 1)
    block = go []
    go done = \case
      Word' line name : rest -> do
        (directive, more) <- arguments line [name] rest
        go (directive : done) more
      other -> Right (reverse done, other)
    arguments line names = \case
      Word' _ name : rest -> arguments line (name : names) rest
      End _ : rest -> Right (Directive line (reverse names) [], rest)
      Open at : rest ->
        block rest >>= \case
          (inner, Close _ : more) -> Right (Directive line (reverse names) inner, more)
          _ -> Left (problem at "'{' is not closed")
      _ -> Left (problem line ("the directive '" ++ last names ++ "' has no ';' after it"))
    lineOf = \case
      Word' n _ -> n
      Open n -> n
      Close n -> n
      End n -> n

-- | Find what an argument such as zone=NAME says.
valueOf :: String -> [String] -> Maybe String
valueOf name = listToMaybe . mapMaybe (stripPrefix name)

-- | Say that a directive has no counterpart.
untranslated :: FilePath -> Directive -> Translation
untranslated file (Directive line names _) = left file line (unwords names)
