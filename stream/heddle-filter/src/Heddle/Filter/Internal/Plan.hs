-- |
-- Module      : Heddle.Filter.Internal.Plan
-- Description : Plans: how a stage runs, partly on blocks of rows
-- Stability   : internal, exempt from the version policy
--
-- A plan has a front, which runs on blocks of whole rows, in parallel if the input is large
-- enough, and a rest, which gets the front's output in order and runs as a machine.
--
-- Cost: linear in the stage.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Plan
  ( Plan (..),
    Front (..),
    Search (..),
    Test (..),
    compile,
    uncompiled,
    isNothingGained,
    explain,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlphaNum, isAscii)
import Data.Foldable qualified as Foldable
import Data.List (maximumBy)
import Data.Ord (comparing)
import Heddle.Bytes.Search (mostLiterals)
import Heddle.Filter.Internal.Print
import Heddle.Filter.Internal.Rewrite
import Heddle.Filter.Internal.RowParallel
import Heddle.Filter.Internal.Types

-- | How a stage is run: made by 'compile' or 'uncompiled'.
data Plan = Plan
  { planFront :: !Front,
    planRest :: !Stage,
    -- | The laws that rewrote the stage.
    planLaws :: [Applied]
  }
  deriving stock (Eq, Show)

-- | What is done to each block of whole rows, in this order: search for rows, apply a stage to
-- them, count in its output.
data Front = Front
  { frontSearch :: !(Maybe Search),
    frontStage :: !Stage,
    frontCount :: !(Maybe Splitter)
  }
  deriving stock (Eq, Show)

-- | Which rows are searched for.
data Search = Search
  { -- | The rows that pass the test, or those that do not?
    searchPassing :: !Bool,
    searchTest :: !Test,
    -- | If they are numbered, what to put between number and row.
    searchNumber :: !(Maybe ByteString)
  }
  deriving stock (Eq, Show)

-- | What a row must contain.
data Test
  = -- | One of these texts.
    Texts !CaseRule [ByteString]
  | -- | A match; with a text that every match contains, if one is known.
    Match !Pattern !(Maybe ByteString)
  deriving stock (Eq, Show)

-- | A plan without laws and without a front: the stage runs as one machine, as it is written.
--
-- [Cost]: constant.
uncompiled :: Stage -> Plan
uncompiled stage = Plan (Front Nothing Identity Nothing) stage []

-- | Rewrite a stage by laws, and make a plan of it.
--
-- [Cost]: linear in the stage.
compile :: Stage -> Plan
compile stage = Plan front (chain rest) laws
  where
    (rewritten, laws) = rewrite stage
    (front, rest) = divide (links rewritten)
    divide stages = case stages of
      If s Identity Suppress : others
        | Just search <- searching s -> onward (Just search) others
      ForEach s (Number between) Suppress : others
        | Just search <- searching s -> (Front (Just search {searchNumber = Just between}) Identity Nothing, others)
      Count s : others
        | Just search <- searching s -> (Front (Just search) Identity (Just Row), others)
      others -> onward Nothing others
    onward search stages = case rowParallelPrefix True stages of
      (local, True, Count s : others) | isCountRowParallel s -> (Front search (chain local) (Just s), others)
      (local, _, others) -> (Front search (chain local) Nothing, others)

-- The row-parallel stages at the beginning, whether the output of the last is whole rows, and
-- the other stages. The output of one must be whole rows, unless the next works byte by byte.
rowParallelPrefix :: Bool -> [Stage] -> ([Stage], Bool, [Stage])
rowParallelPrefix whole = \case
  s : ss
    | isRowParallel s,
      whole || isPointwise s ->
      let (local, whole', others) = rowParallelPrefix (whole && endsRows s) ss in (s : local, whole', others)
  ss -> ([], whole, ss)

links :: Stage -> [Stage]
links stage = snd (go stage) []
  where
    go = \case
      a :> b -> let ((fa, as), (fb, bs)) = (go a, go b) in (chained fa fb, as . bs)
      -- A row-parallel stage needs no thread of its own; for others the boundary is kept.
      a :|| b ->
        let ((fa, as), (fb, bs)) = (go a, go b)
         in (chained fa fb, if factRowParallel fa then as . bs else ((a :|| b) :))
      one -> (stageFacts one, (one :))

chain :: [Stage] -> Stage
chain = \case
  [] -> Identity
  s : ss -> Foldable.foldl' (:>) s ss

-- | Would the front only cut the input into blocks?
isNothingGained :: Front -> Bool
isNothingGained front = frontSearch front == Nothing && frontStage front == Identity && frontCount front == Nothing

-- The search for rows that have, or do not have, something that can be searched for.
searching :: Splitter -> Maybe Search
searching s = do
  (passing, sought) <- rowTest s
  test <- testFor sought
  pure (Search passing test Nothing)

testFor :: Splitter -> Maybe Test
testFor = \case
  Matching p -> Just (Match p (required (patternCase p) (patternText p)))
  s -> do
    (rule, texts) <- literals s
    if length texts <= mostLiterals then Just (Texts rule texts) else Nothing

-- Texts of which a row must contain one, all with the same rule. A text with a newline cannot be
-- searched for within rows.
literals :: Splitter -> Maybe (CaseRule, [ByteString])
literals = fmap (\(rule, texts) -> (rule, texts [])) . go
  where
    go = \case
      Substring rule text | not (Bytes.null text), Bytes.notElem 0x0a text -> Just (rule, (text :))
      Or a b -> do
        (rule, texts) <- go a
        (rule', texts') <- go b
        if rule == rule' then Just (rule, texts . texts') else Nothing
      _ -> Nothing

-- A text that every match of an expression contains: the longest run of plain characters outside
-- groups, if there are no alternatives.
required :: CaseRule -> ByteString -> Maybe ByteString
required rule text
  | Char8.any (`elem` "|\n") text = Nothing
  | otherwise = case filter ((>= 2) . length) (concatMap certain (runsOf (Char8.unpack text))) of
    [] -> Nothing
    found -> Just (Char8.pack (maximumBy (comparing length) found))
  where
    -- Where case does not matter, some letters beyond ASCII, such as the Kelvin sign, match
    -- ASCII letters.
    certain run = case rule of
      CaseMatters -> [run]
      IgnoreAsciiCase -> words (map (\c -> if isAscii c && c `notElem` " kKsSiI" then c else ' ') run)
    runsOf = go []
    -- The first argument is the present run so far, reversed.
    go run = \case
      [] -> [reverse run]
      '\\' : c : rest
        -- A backslash before a letter or digit has a special meaning.
        | isAlphaNum c || c `elem` "<>`'" -> reverse run : go [] (skipRepeat rest)
        | otherwise -> plainChar c run rest
      '[' : rest -> reverse run : go [] (skipRepeat (skipSet rest))
      '(' : rest -> reverse run : go [] (skipRepeat (skipGroup (1 :: Int) rest))
      c : rest
        | c `elem` ".^$*+?{})" -> reverse run : go [] (skipRepeat rest)
        | otherwise -> plainChar c run rest
    plainChar c run rest
      -- The byte may be a part of a character, and a repetition would mean the whole character.
      | not (isAscii c) = reverse run : go [] (skipRepeat rest)
      | otherwise = case span (== '+') rest of
        -- The character may be missing.
        (_, r : _) | r `elem` "*?{" -> reverse run : go [] (skipRepeat rest)
        ([], _) -> go (c : run) rest
        -- The character is there, perhaps several times before what follows.
        (_, more) -> reverse (c : run) : go [] more
    skipRepeat = \case
      '{' : rest -> skipRepeat (drop 1 (dropWhile (/= '}') rest))
      c : rest | c `elem` "*+?" -> skipRepeat rest
      rest -> rest
    skipSet = \case
      '^' : ']' : rest -> closing rest
      ']' : rest -> closing rest
      rest -> closing rest
    closing = \case
      '[' : c : rest | c `elem` ".:=" -> closing (named c rest)
      ']' : rest -> rest
      _ : rest -> closing rest
      [] -> []
    named c = \case
      a : ']' : rest | a == c -> rest
      _ : rest -> named c rest
      [] -> []
    skipGroup depth = \case
      [] -> []
      '\\' : _ : rest -> skipGroup depth rest
      '[' : rest -> skipGroup depth (skipSet rest)
      '(' : rest -> skipGroup (depth + 1) rest
      ')' : rest -> if depth == 1 then rest else skipGroup (depth - 1) rest
      _ : rest -> skipGroup depth rest

-- | A plan in words: the laws that were applied, what is done to blocks of rows, and what is
-- done to the output of that.
--
-- [Units]: the number of cores.
explain :: Stage -> Int -> Plan -> String
explain stage jobs p =
  unlines $
    ["as written: " ++ printStage stage]
      ++ concatMap law (planLaws p)
      ++ [ "block by block" ++ (if jobs > 1 then " of whole rows, on up to " ++ show jobs ++ " cores at once:" else ":")
           | not (null front)
         ]
      ++ map ("  " ++) front
      ++ ["then, in order:" | not (null front), not (null rest)]
      ++ ["piece by piece:" | null front]
      ++ map ("  " ++) (if null front && null rest then ["copy"] else rest)
  where
    law (Applied l before after) =
      ["law: " ++ lawText l, "  " ++ before, "  = " ++ after]
    Front sought local counted = planFront p
    front = maybe [] searchText sought ++ [printStage local | local /= Identity] ++ maybe [] countText counted
    rest = case planRest p of
      Identity -> []
      s -> [printStage s]
    searchText s =
      [ "search for " ++ testText (searchTest s) ++ "; only around what is found look for the row's ends"
          ++ "   (law: select row having t = the rows around what t finds)"
      ]
        ++ ["take the rows between those" | not (searchPassing s)]
        ++ ["number them by counting newlines between what is found   (law: the number of a row = 1 + newlines before it)" | Just _ <- [searchNumber s]]
        ++ ["count rows instead of giving them   (law: count row of blocks = the sum)" | local == Identity, Just Row <- [counted]]
    countText s
      | Just _ <- sought, local == Identity, s == Row = []
      | otherwise = ["count " ++ printSplitter s ++ " of each block, and add   (law: the count of whole rows = the sum of the blocks' counts)"]
    testText = \case
      Texts rule texts -> unwords' (map quoted texts) ++ (if rule == IgnoreAsciiCase then ", whatever the case" else "")
      Match pattern' literal ->
        "/" ++ Char8.unpack (patternText pattern') ++ "/"
          ++ maybe "" (\t -> " in rows with " ++ quoted t ++ ", which every match has") literal
    unwords' = foldr1 (\a b -> a ++ " or " ++ b)
