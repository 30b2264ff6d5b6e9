-- |
-- Module      : Heddle.Filter.Internal.Required
-- Description : Texts of which every match of a regular expression contains one
-- Stability   : internal, exempt from the version policy
--
-- Searching for texts takes a tenth of a nanosecond for each byte, the C library's matcher several. So it is asked only about
-- rows that contain a text which every match has: in a chain, the longest run of plain characters; among alternatives, one
-- from each. A group that must be there is searched in turn.
--
-- Cost: linear in the expression.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Required
  ( requiredTexts,
    skipSet,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlphaNum, isAscii)
import Data.List (maximumBy, nub)
import Data.Ord (comparing)
import Heddle.Bytes.Search (CaseRule (..), mostLiterals)

-- | Texts of which each match contains at least one, if there are some that are worth searching for.
requiredTexts :: CaseRule -> ByteString -> Maybe [ByteString]
requiredTexts rule text
  | Char8.elem '\n' text = Nothing
  | otherwise = map Char8.pack <$> whole (alternatives rule (Char8.unpack text))
  where
    -- At the top, a closing parenthesis without an opening one is a plain character.
    whole = \case
      (found, []) -> found
      _ -> Nothing

-- One of these is in every match.
type Texts = [String]

-- What alternatives require, up to the parenthesis that closes them.
alternatives :: CaseRule -> String -> (Maybe Texts, String)
alternatives rule = go []
  where
    go before t = case branch rule t of
      (found, '|' : rest) -> go (found : before) rest
      (found, rest) -> (joined (found : before), rest)
    joined branches = case nub . concat <$> sequence (reverse branches) of
      Just texts | length texts <= mostLiterals -> Just texts
      _ -> Nothing

-- What one alternative requires, and what follows it: a bar, a closing parenthesis, or nothing.
branch :: CaseRule -> String -> (Maybe Texts, String)
branch rule = go [] []
  where
    -- The candidates so far, and the present run of plain characters, reversed.
    go found run = \case
      [] -> (best (ended found run), [])
      rest@('|' : _) -> (best (ended found run), rest)
      rest@(')' : _) -> (best (ended found run), rest)
      '\\' : c : rest
        -- A backslash before a letter or digit has a special meaning.
        | isAlphaNum c || c `elem` "<>`'" -> go (ended found run) [] (skipRepeat rest)
        | otherwise -> plain found c run rest
      '[' : rest -> go (ended found run) [] (skipRepeat (skipSet rest))
      '(' : rest ->
        let (inner, behind) = alternatives rule rest
            after = drop 1 behind
         in go (if mayBeMissing after then ended found run else maybe id (:) inner (ended found run)) [] (skipRepeat after)
      c : rest
        | c `elem` ".^$*+?{}" -> go (ended found run) [] (skipRepeat rest)
        | otherwise -> plain found c run rest
    ended found run = map (: []) (certain (reverse run)) ++ found
    plain found c run rest
      -- The byte may be a part of a character, and a repetition would mean the whole character.
      | not (isAscii c) = go (ended found run) [] (skipRepeat rest)
      | mayBeMissing rest = go (ended found run) [] (skipRepeat rest)
      | otherwise = case span (== '+') rest of
        ([], _) -> go found (c : run) rest
        -- The character is there, perhaps several times before what follows.
        (_, more) -> go (ended found (c : run)) [] more
    -- Where case does not matter, some letters beyond ASCII, such as the Kelvin sign, match ASCII letters.
    certain run = filter ((>= 2) . length) $ case rule of
      CaseMatters -> [run]
      IgnoreAsciiCase -> words (map (\c -> if isAscii c && c `notElem` " kKsSiI" then c else ' ') run)

-- The candidate that is found least often: long texts, and few.
best :: [Texts] -> Maybe Texts
best = \case
  [] -> Nothing
  candidates -> Just (maximumBy (comparing worth) (reverse candidates))
  where
    worth texts = minimum (map length texts) - length texts

-- Does a repetition follow that allows none?
mayBeMissing :: String -> Bool
mayBeMissing rest = take 1 (dropWhile (== '+') rest) `elem` ["*", "?", "{"]

skipRepeat :: String -> String
skipRepeat = \case
  '{' : rest -> skipRepeat (drop 1 (dropWhile (/= '}') rest))
  c : rest | c `elem` "*+?" -> skipRepeat rest
  rest -> rest

-- | What is behind a set, whose opening bracket has been read.
skipSet :: String -> String
skipSet = \case
  '^' : ']' : rest -> closing rest
  ']' : rest -> closing rest
  rest -> closing rest
  where
    closing = \case
      '[' : c : rest | c `elem` ".:=" -> closing (named c rest)
      ']' : rest -> rest
      _ : rest -> closing rest
      [] -> []
    named c = \case
      a : ']' : rest | a == c -> rest
      _ : rest -> named c rest
      [] -> []
