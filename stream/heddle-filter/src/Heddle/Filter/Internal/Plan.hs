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
import Data.Foldable qualified as Foldable
import Heddle.Bytes.Search (mostLiterals, needleLiterals)
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
  | -- | A match.
    Match !Pattern
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
  Matching p -> Just (Match p)
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
      Match pattern' ->
        "/" ++ Char8.unpack (patternText pattern') ++ "/"
          ++ case (patternNeedle pattern', patternSieve pattern') of
            (Just needle, _) -> " in rows with " ++ unwords' (map quoted (needleLiterals needle)) ++ ", which every match has"
            (_, Just _) -> ", after a search for sequences of bytes that every match has"
            _ -> ""
    unwords' = foldr1 (\a b -> a ++ " or " ++ b)
