-- |
-- Module      : Rendezvous.Sat.Solver
-- Description : Boolean satisfiability without learning
-- Stability   : example
--
-- Davis, Putnam, Logemann and Loveland's search: assign what clauses with one literal left demand; then pick
-- a variable, and try it true and false.
--
-- Which variable is picked, and which value comes first, depends on the assignment only, not on how it came
-- about. So the search below a few decisions is the same wherever it runs, and the model that is found first
-- from the left is the same model.
--
-- Cost: for each assignment a walk along the clauses of the variable, and for each decision a walk along all
-- clauses; nothing is allocated in either.
module Rendezvous.Sat.Solver
  ( solveUnder,
    Next (..),
    decide,
  )
where

import Control.Monad (forM_)
import Control.Monad.ST (ST, runST)
import Data.Bits (shiftL, xor)
import Data.Primitive.PrimArray
import Rendezvous.Sat.Formula

-- | What there is after some decisions.
data Next
  = -- | No model has these decisions.
    Refuted
  | -- | The search would try this literal first, then its negation.
    Decide !Int
  | -- | Every clause holds.
    Complete !(PrimArray Int)

-- | Search below these decisions, the first first.
solveUnder :: Formula -> [Int] -> Answer
solveUnder formula decisions = runST $ do
  state <- begin formula
  ok <- assume formula state decisions
  found <- if ok then search formula state else pure False
  if found then Satisfiable <$> model formula state else pure Unsatisfiable

-- | How the search goes on after these decisions.
decide :: Formula -> [Int] -> Next
decide formula decisions = runST $ do
  state <- begin formula
  ok <- assume formula state decisions
  if not ok
    then pure Refuted
    else
      pick formula state >>= \case
        -1 -> Complete <$> model formula state
        l -> pure (Decide l)

-- What a search changes.
data State s = State
  { -- By literal: 1 true, -1 false, 0 neither.
    stateValues :: !(MutablePrimArray s Int),
    -- By clause: how many of its literals are neither true nor false, plus oneTrue for each that is true.
    -- See Note [Counting].
    stateClauses :: !(MutablePrimArray s Int),
    -- The literals that are true, in the order of becoming so.
    stateTrail :: !(MutablePrimArray s Int),
    -- How many those are, and how many of them have been counted.
    stateSizes :: !(MutablePrimArray s Int),
    -- By literal: for pick.
    stateWeights :: !(MutablePrimArray s Int)
  }

oneTrue :: Int
oneTrue = 1 `shiftL` 24

begin :: Formula -> ST s (State s)
begin formula = do
  let literals = 2 * formulaVariables formula
      clauses = clauseCount formula
      starts = formulaStarts formula
  values <- newPrimArray literals
  setPrimArray values 0 literals 0
  counts <- newPrimArray clauses
  forM_ [0 .. clauses - 1] $ \c -> writePrimArray counts c (indexPrimArray starts (c + 1) - indexPrimArray starts c)
  trail <- newPrimArray (formulaVariables formula)
  sizes <- newPrimArray 2
  setPrimArray sizes 0 2 0
  weights <- newPrimArray literals
  pure (State values counts trail sizes weights)

-- What the clauses demand by themselves, then each decision; can it be?
assume :: Formula -> State s -> [Int] -> ST s Bool
assume formula state decisions = do
  ok <- demanded 0
  if ok then go decisions else pure False
  where
    go [] = pure True
    go (l : rest) = do
      value <- readPrimArray (stateValues state) l
      ok <- case value of
        0 -> assign state l >> propagate formula state
        _ -> pure (value == 1)
      if ok then go rest else pure False

    -- A clause that begins with no literal can not hold; one that begins with one demands it.
    demanded c
      | c == clauseCount formula = propagate formula state
      | otherwise = case indexPrimArray (formulaStarts formula) (c + 1) - start of
        0 -> pure False
        1 -> do
          let l = indexPrimArray (formulaLiterals formula) start
          value <- readPrimArray (stateValues state) l
          case value of
            0 -> assign state l >> demanded (c + 1)
            1 -> demanded (c + 1)
            _ -> pure False
        _ -> demanded (c + 1)
      where
        start = indexPrimArray (formulaStarts formula) c

-- Is there a model? If not, everything is as it was.
search :: Formula -> State s -> ST s Bool
search formula state =
  pick formula state >>= \case
    -1 -> pure True
    l -> do
      mark <- readPrimArray (stateSizes state) 0
      found <- try mark l
      if found then pure True else try mark (l `xor` 1)
  where
    try mark l = do
      assign state l
      ok <- propagate formula state
      found <- if ok then search formula state else pure False
      if found then pure True else False <$ undo formula state mark

-- The literal becomes true; it has no value yet.
assign :: State s -> Int -> ST s ()
assign State {stateValues = values, stateTrail = trail, stateSizes = sizes} l = do
  writePrimArray values l 1
  writePrimArray values (l `xor` 1) (-1)
  size <- readPrimArray sizes 0
  writePrimArray trail size l
  writePrimArray sizes 0 (size + 1)
{-# INLINE assign #-}

-- Count what has not been counted, and assign what clauses demand, until nothing is left to do; or a clause
-- has only false literals.
propagate :: forall s. Formula -> State s -> ST s Bool
propagate formula state@State {stateValues = values, stateClauses = counts, stateTrail = trail, stateSizes = sizes} = do
  size <- readPrimArray sizes 0
  counted <- readPrimArray sizes 1
  if counted == size
    then pure True
    else do
      l <- readPrimArray trail counted
      writePrimArray sizes 1 (counted + 1)
      eachHolder formula l (\c -> change c (oneTrue - 1))
      ok <- falsify (holdersStart formula (l `xor` 1)) (holdersStart formula ((l `xor` 1) + 1)) True
      if ok then propagate formula state else pure False
  where
    change c by = readPrimArray counts c >>= writePrimArray counts c . (+ by)

    -- To the end even after a conflict: undo takes a literal's counts back as a whole.
    falsify :: Int -> Int -> Bool -> ST s Bool
    falsify i end !ok
      | i == end = pure ok
      | otherwise = do
        let c = indexPrimArray (formulaHolders formula) i
        left <- subtract 1 <$> readPrimArray counts c
        writePrimArray counts c left
        case left of
          0 -> falsify (i + 1) end False
          1 -> demand (indexPrimArray (formulaStarts formula) c) (indexPrimArray (formulaStarts formula) (c + 1)) >> falsify (i + 1) end ok
          _ -> falsify (i + 1) end ok

    -- The clause's one literal without value. There may be none: what is on the trail and not yet counted
    -- has a value already. Then the clause shows itself when that is counted.
    demand i end
      | i == end = pure ()
      | otherwise = do
        let l = indexPrimArray (formulaLiterals formula) i
        value <- readPrimArray values l
        if value == 0 then assign state l else demand (i + 1) end

-- Back to this many assignments.
undo :: Formula -> State s -> Int -> ST s ()
undo formula State {stateValues = values, stateClauses = counts, stateTrail = trail, stateSizes = sizes} mark = do
  size <- readPrimArray sizes 0
  counted <- readPrimArray sizes 1
  go size counted
  writePrimArray sizes 0 mark
  writePrimArray sizes 1 (min mark counted)
  where
    go size counted
      | size == mark = pure ()
      | otherwise = do
        l <- readPrimArray trail (size - 1)
        writePrimArray values l 0
        writePrimArray values (l `xor` 1) 0
        if size > counted
          then pure ()
          else do
            eachHolder formula l (\c -> readPrimArray counts c >>= writePrimArray counts c . subtract (oneTrue - 1))
            eachHolder formula (l `xor` 1) (\c -> readPrimArray counts c >>= writePrimArray counts c . (+ 1))
        go (size - 1) counted

-- The next decision, or -1 when every clause holds. Clauses that do not hold yet vote for their literals,
-- the shorter the louder; the variable is taken that has loud votes on both sides, and its louder side.
pick :: forall s. Formula -> State s -> ST s Int
pick formula State {stateValues = values, stateClauses = counts, stateWeights = weights} = do
  setPrimArray weights 0 (2 * formulaVariables formula) 0
  open <- vote 0 False
  if open then elect 0 (-1) (-1) else pure (-1)
  where
    clauses = clauseCount formula

    vote c !open
      | c == clauses = pure open
      | otherwise = do
        count <- readPrimArray counts c
        if count >= oneTrue
          then vote (c + 1) open
          else do
            ballot (weight count) (indexPrimArray (formulaStarts formula) c) (indexPrimArray (formulaStarts formula) (c + 1))
            vote (c + 1) True

    ballot !w i end
      | i == end = pure ()
      | otherwise = do
        let l = indexPrimArray (formulaLiterals formula) i
        readPrimArray weights l >>= writePrimArray weights l . (+ w)
        ballot w (i + 1) end

    weight :: Int -> Int
    weight left = case left of
      2 -> 25
      3 -> 5
      _ -> 1

    elect :: Int -> Int -> Int -> ST s Int
    elect l !best !most
      | l == 2 * formulaVariables formula = pure best
      | otherwise = do
        value <- readPrimArray values l
        if value /= 0
          then elect (l + 2) best most
          else do
            yes <- readPrimArray weights l
            no <- readPrimArray weights (l + 1)
            let score = (yes + 1) * (no + 1)
            if yes + no > 0 && score > most
              then elect (l + 2) (if yes >= no then l else l + 1) score
              else elect (l + 2) best most

-- Variables without a value do not matter: they are false.
model :: Formula -> State s -> ST s (PrimArray Int)
model formula state = do
  result <- newPrimArray (formulaVariables formula)
  forM_ [0 .. formulaVariables formula - 1] $ \v -> do
    value <- readPrimArray (stateValues state) (2 * v)
    writePrimArray result v (if value == 1 then 1 else 0)
  unsafeFreezePrimArray result

holdersStart :: Formula -> Int -> Int
holdersStart formula = indexPrimArray (formulaHolderStarts formula)
{-# INLINE holdersStart #-}

eachHolder :: Formula -> Int -> (Int -> ST s ()) -> ST s ()
eachHolder formula l act = go (holdersStart formula l)
  where
    end = holdersStart formula (l + 1)
    go i
      | i == end = pure ()
      | otherwise = act (indexPrimArray (formulaHolders formula) i) >> go (i + 1)
{-# INLINE eachHolder #-}

-- Note [Counting]
-- ~~~~~~~~~~~~~~~
-- A literal gets its value when it goes on the trail, and is counted when propagate comes to it: then each
-- clause that has it trades one literal without value for a true one, and each clause that has its negation
-- loses one. A clause is open while its count is below oneTrue; it is in conflict at 0, and demands a
-- literal at 1.
