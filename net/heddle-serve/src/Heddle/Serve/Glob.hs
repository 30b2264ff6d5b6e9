{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Glob
-- Description : Patterns for paths of a site
-- Stability   : internal, exempt from the version policy
--
-- @*@ stands for bytes other than a slash, @**@ for any bytes, @?@ for one byte other than a slash,
-- @{a,b}@ for either alternative; a backslash takes the next byte as it is. A pattern without a slash is matched
-- against the last part of a path, any other against the whole path.
--
-- Cost: length of the path times length of the pattern, whatever the pattern; not on the path of a cached file.
-- Owner: values.
module Heddle.Serve.Glob
  ( Glob,
    parseGlob,
    everything,
    matches,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IntSet qualified as Set
import Data.List qualified as List
import Data.Word (Word8)

-- | A pattern: whether it is for the last part only, and its alternatives.
data Glob = Glob !Bool ![[Token]]
  deriving stock (Eq, Show)

data Token
  = Byte !Word8
  | -- | @?@
    AnyByte
  | -- | @*@
    Part
  | -- | @**@
    Parts
  | -- | @**\/@: whole segments, or nothing.
    Segments
  deriving stock (Eq, Show)

-- | The pattern that every path matches.
everything :: Glob
everything = Glob False [[Parts]]

-- Alternatives multiply; more would be a mistake.
mostAlternatives :: Int
mostAlternatives = 256

-- | Read a pattern.
--
-- [Cost]: O(length of all its alternatives).
parseGlob :: ByteString -> Either String Glob
parseGlob text
  | B.null text = Left "a pattern is empty"
  | otherwise = do
    alternatives <- expand (C.unpack text)
    if length (take (mostAlternatives + 1) alternatives) > mostAlternatives
      then Left ("the pattern '" ++ C.unpack text ++ "' has more than " ++ show mostAlternatives ++ " alternatives")
      else pure (Glob nameOnly (map (tokens . anchored) alternatives))
  where
    nameOnly = '/' `C.notElem` text
    -- Paths begin with a slash.
    anchored pieces = case pieces of
      _ | nameOnly -> pieces
      Left '/' : _ -> pieces
      Right '*' : Right '*' : _ -> pieces
      _ -> Left '/' : pieces

-- A byte as it is (Left), or one with a meaning (Right); an alternative each.
expand :: String -> Either String [[Either Char Char]]
expand = go
  where
    go = \case
      [] -> Right [[]]
      ['\\'] -> Left "a pattern ends in a backslash; write two for a backslash itself"
      '\\' : c : rest -> map (Left c :) <$> go rest
      '{' : rest -> do
        (choices, after) <- choicesOf rest [""]
        inner <- concat <$> traverse go choices
        outer <- go after
        pure [a ++ b | a <- inner, b <- outer]
      '}' : _ -> Left "a pattern has a } without its {"
      c : rest
        | c == '*' || c == '?' -> map (Right c :) <$> go rest
        | otherwise -> map (Left c :) <$> go rest
    -- The alternatives up to the brace that closes, reversed while they are read.
    choicesOf text found = case (text, found) of
      ([], _) -> Left "a pattern has a { without its }"
      ('\\' : c : rest, now : others) -> choicesOf rest ((c : '\\' : now) : others)
      ('{' : _, _) -> Left "a pattern has braces within braces"
      (',' : rest, _) -> choicesOf rest ("" : found)
      ('}' : rest, _) -> Right (map reverse (reverse found), rest)
      (c : rest, now : others) -> choicesOf rest ((c : now) : others)
      (_, []) -> Left "a pattern has a { without its }"

tokens :: [Either Char Char] -> [Token]
tokens = \case
  Right '*' : Right '*' : Left '/' : rest -> Segments : tokens rest
  Right '*' : Right '*' : rest -> Parts : tokens rest
  Right '*' : rest -> Part : tokens rest
  Right _ : rest -> AnyByte : tokens rest
  Left c : rest -> Byte (B.head (C.singleton c)) : tokens rest
  [] -> []

-- | Whether a path, decoded and with its slash at the beginning, matches.
--
-- >>> fmap (`matches` "/assets/app.js") (parseGlob "*.js")
-- Right True
-- >>> fmap (`matches` "/assets/app.js") (parseGlob "/assets/**")
-- Right True
-- >>> fmap (`matches` "/a/b/app.js") (parseGlob "/a/*.js")
-- Right False
--
-- [Cost]: O(path times pattern).
matches :: Glob -> ByteString -> Bool
matches (Glob nameOnly alternatives) path = any (`run` subject) alternatives
  where
    subject
      | nameOnly = snd (C.breakEnd (== '/') path)
      | otherwise = path

-- All places in the pattern where a match may be, after each byte: no backtracking, so a path cannot make it slow.
run :: [Token] -> ByteString -> Bool
run glob subject = end `Set.member` B.foldl' step (closure (Set.singleton 0)) subject
  where
    numbered = zip [0 ..] glob
    end = length glob
    -- What matches nothing can be passed by.
    closure places = List.foldl' pass places numbered
    pass places (i, token)
      | i `Set.member` places && token `elem` [Part, Parts, Segments] = Set.insert (i + 1) places
      | otherwise = places
    step places byte = closure (Set.unions ([advance i token byte | (i, token) <- numbered, i `Set.member` places] ++ [within (negate p - 1) byte | p <- Set.elems places, p < 0]))
    advance :: Int -> Token -> Word8 -> Set.IntSet
    advance i token byte = case token of
      Byte b -> if b == byte then Set.singleton (i + 1) else Set.empty
      AnyByte -> if byte == slash then Set.empty else Set.singleton (i + 1)
      Part -> if byte == slash then Set.empty else Set.singleton i
      Parts -> Set.singleton i
      Segments -> within i byte
    -- Only after a slash may what follows begin: a place inside a segment is a negative number.
    within i byte = Set.singleton (if byte == slash then i else negate i - 1)
    slash = 47
