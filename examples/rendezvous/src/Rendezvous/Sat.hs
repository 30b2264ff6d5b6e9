-- |
-- Module      : Rendezvous.Sat
-- Description : Figures 21 and 22: is there a model?
-- Stability   : example
--
-- For the first few decisions both values are tried at the same time; below them, one solver each.
module Rendezvous.Sat
  ( sequential,
    parPseq,
    det,
    detLeftmost,
  )
where

import Control.Parallel (pseq)
import Control.Parallel qualified as Sparks (par)
import Data.Bits (xor)
import Data.Primitive.PrimArray (PrimArray)
import Heddle.Rendezvous
import Rendezvous.Farm (work)
import Rendezvous.Sat.Formula
import Rendezvous.Sat.Solver

-- | One solver.
sequential :: Formula -> Answer
sequential formula = solveUnder formula []

-- | A spark for the second value of each of the first so many decisions.
parPseq :: Int -> Formula -> Answer
parPseq depth formula = go depth []
  where
    go 0 decisions = solveUnder formula decisions
    go left decisions = case decide formula decisions of
      Refuted -> Unsatisfiable
      Complete model -> Satisfiable model
      Decide l ->
        let first = go (left - 1) (decisions <> [l])
            second = go (left - 1) (decisions <> [l `xor` 1])
         in second `Sparks.par` (first `pseq` first `orElse` second)

-- | Figure 22: two branches for each of the first so many decisions. As in the paper, nobody is stopped when
-- another finds a model.
det :: Int -> Formula -> Answer
det depth formula = runDet (go depth [])
  where
    go :: Int -> [Int] -> Det s Answer
    go 0 decisions = work (solveUnder formula) decisions
    go left decisions =
      work (decide formula) decisions >>= \case
        Refuted -> pure Unsatisfiable
        Complete model -> pure (Satisfiable model)
        Decide l ->
          par $
            orElse
              <$> branch () (\() -> go (left - 1) (decisions <> [l]))
              <*> branch () (\() -> go (left - 1) (decisions <> [l `xor` 1]))

-- | The same, but a model makes what lies to its right unnecessary. It is the same model.
detLeftmost :: Int -> Formula -> Answer
detLeftmost depth formula = runDet (maybe Unsatisfiable Satisfiable <$> go depth [])
  where
    go :: Int -> [Int] -> Det s (Maybe (PrimArray Int))
    go 0 decisions = models <$> work (solveUnder formula) decisions
    go left decisions =
      work (decide formula) decisions >>= \case
        Refuted -> pure Nothing
        Complete model -> pure (Just model)
        Decide l -> leftmost [Closed (go (left - 1) (decisions <> [l])), Closed (go (left - 1) (decisions <> [l `xor` 1]))]
    models = \case
      Satisfiable model -> Just model
      Unsatisfiable -> Nothing

orElse :: Answer -> Answer -> Answer
orElse first second = case first of
  Satisfiable _ -> first
  Unsatisfiable -> second
