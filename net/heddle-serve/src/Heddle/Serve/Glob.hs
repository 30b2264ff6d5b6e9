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
-- Cost: some instructions for each byte of the path, whatever the pattern is (times a 64th of its length if that is over
-- 63); not on the path of a cached file.
-- Owner: values.
module Heddle.Serve.Glob
  ( Glob,
    parseGlob,
    everything,
    matches,
  )
where

import Data.Bits (Bits, bit, shiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word64, Word8)

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

-- | Test whether a path, decoded and with its slash at the beginning, matches.
--
-- >>> fmap (`matches` "/assets/app.js") (parseGlob "*.js")
-- Right True
-- >>> fmap (`matches` "/assets/app.js") (parseGlob "/assets/**")
-- Right True
-- >>> fmap (`matches` "/a/b/app.js") (parseGlob "/a/*.js")
-- Right False
--
-- [Cost]: O(path) for patterns of up to 63 tokens.
matches :: Glob -> ByteString -> Bool
matches (Glob nameOnly alternatives) path = any (`run` subject) alternatives
  where
    subject
      | nameOnly = snd (C.breakEnd (== '/') path)
      | otherwise = path

-- The places in the pattern where a match may be, as the bits of a number, after each byte: no backtracking, so a path cannot
-- make it slow. Nearly all patterns fit a machine word.
run :: [Token] -> ByteString -> Bool
run pattern'
  | length glob < 64 = simulate (machineOf glob :: Machine Word64)
  | otherwise = simulate (machineOf glob :: Machine Integer)
  where
    glob = reduced pattern'

-- Without neighbours that match nothing, except whole segments before a part of one.
reduced :: [Token] -> [Token]
reduced = \case
  a : b : rest | Just one <- joined a b -> reduced (one : rest)
  a : rest -> a : reduced rest
  [] -> []
  where
    joined a b = case (a, b) of
      (Part, Part) -> Just Part
      (Segments, Segments) -> Just Segments
      (Segments, Part) -> Nothing
      _ | a `elem` nullable && b `elem` nullable -> Just Parts
      _ -> Nothing
    nullable = [Part, Parts, Segments]

-- A token is a bit, and the end is the bit after the last one.
data Machine word = Machine
  { -- | The places that a byte moves past, by byte.
    machineBytes :: !(IntMap.IntMap word),
    -- | Those that any byte but a slash moves past.
    machineAny :: !word,
    -- | Those that stay at any byte but a slash, at any byte, and at a slash.
    machinePart, machineParts, machineSegments :: !word,
    machineEnd :: !word
  }

machineOf :: (Bits word, Num word) => [Token] -> Machine word
machineOf glob =
  Machine
    { machineBytes = IntMap.fromListWith (.|.) [(fromIntegral b, bit i) | (i, Byte b) <- numbered],
      machineAny = places AnyByte,
      machinePart = places Part,
      machineParts = places Parts,
      machineSegments = places Segments,
      machineEnd = bit (length glob)
    }
  where
    numbered = zip [0 ..] glob
    places token = foldl (.|.) 0 [bit i | (i, t) <- numbered, t == token]
{-# INLINEABLE machineOf #-}

simulate :: (Bits word, Num word) => Machine word -> ByteString -> Bool
simulate machine = go (closure 1) 0
  where
    -- At these places, and within a segment that these places pass over.
    go at within text = case B.uncons text of
      _ | at .|. within == 0 -> False
      Nothing -> at .&. machineEnd machine /= 0
      Just (byte, rest)
        | byte == 47 -> go (closure (moved byte at .|. (at .&. machineParts machine) .|. inSegments)) 0 rest
        | otherwise -> go (closure (moved byte at .|. ((at .&. machineAny machine) `shiftL` 1) .|. (at .&. (machinePart machine .|. machineParts machine)))) inSegments rest
        where
          inSegments = (at .&. machineSegments machine) .|. within
    moved byte at = (at .&. IntMap.findWithDefault 0 (fromIntegral byte) (machineBytes machine)) `shiftL` 1
    -- What matches nothing can be passed by: two of them in a row at most, see 'reduced'.
    closure = pass . pass
    pass at = at .|. ((at .&. nullable) `shiftL` 1)
    nullable = machinePart machine .|. machineParts machine .|. machineSegments machine
{-# SPECIALIZE simulate :: Machine Word64 -> ByteString -> Bool #-}
