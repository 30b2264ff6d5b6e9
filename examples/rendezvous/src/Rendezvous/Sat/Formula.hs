-- |
-- Module      : Rendezvous.Sat.Formula
-- Description : Clauses in flat arrays
-- Stability   : example
--
-- A literal is twice its variable, counted from 0, plus 1 if the variable is negated. Clauses, and for each
-- literal the clauses that have it, lie in arrays one after the other, so that a solver walks along them
-- without following pointers.
module Rendezvous.Sat.Formula
  ( -- * Formulas
    Formula (..),
    formulaOf,
    clauseCount,

    -- * Literals
    literalOf,
    numberOf,

    -- * Models
    Answer (..),
    satisfies,
    modelNumbers,
  )
where

import Control.Monad (forM_)
import Data.Bits (shiftR, testBit, xor)
import Data.List (nub)
import Data.Primitive.PrimArray

-- | Some variables, and clauses all of which are to hold.
data Formula = Formula
  { formulaVariables :: !Int,
    -- | Where each clause begins among the literals, and where the last ends.
    formulaStarts :: !(PrimArray Int),
    formulaLiterals :: !(PrimArray Int),
    -- | Where the clauses of each literal begin, and where the last one's end.
    formulaHolderStarts :: !(PrimArray Int),
    formulaHolders :: !(PrimArray Int)
  }

-- | So many variables, and clauses as DIMACS has them: variable 3 is 3, or -3 when it is negated. A literal
-- that comes twice counts once; a clause with a literal and its negation always holds, and is left out.
formulaOf :: Int -> [[Int]] -> Formula
formulaOf variables numbered = Formula variables starts literals holderStarts holders
  where
    clauses = filter (not . always) (map (nub . map literalOf) numbered)
    always clause = any ((`elem` clause) . (`xor` 1)) clause
    starts = primArrayFromList (scanl (+) 0 (map length clauses))
    literals = primArrayFromList (concat clauses)

    counts = runPrimArray $ do
      table <- newPrimArray (2 * variables)
      setPrimArray table 0 (2 * variables) 0
      forM_ (concat clauses) $ \l -> readPrimArray table l >>= writePrimArray table l . (+ 1)
      pure table
    holderStarts = primArrayFromList (scanl (+) 0 (primArrayToList counts))
    holders = runPrimArray $ do
      next <- newPrimArray (2 * variables)
      copyPrimArray next 0 holderStarts 0 (2 * variables)
      table <- newPrimArray (sizeofPrimArray literals)
      forM_ (zip [0 ..] clauses) $ \(c, clause) -> forM_ clause $ \l -> do
        slot <- readPrimArray next l
        writePrimArray table slot c
        writePrimArray next l (slot + 1)
      pure table

-- | How many clauses there are.
clauseCount :: Formula -> Int
clauseCount formula = sizeofPrimArray (formulaStarts formula) - 1

-- | From DIMACS.
literalOf :: Int -> Int
literalOf n = if n > 0 then 2 * (n - 1) else 2 * (negate n - 1) + 1

-- | To DIMACS.
numberOf :: Int -> Int
numberOf l = let n = l `shiftR` 1 + 1 in if testBit l 0 then negate n else n

-- | For each variable whether it is true (1) or false (0); or none will do.
data Answer = Satisfiable !(PrimArray Int) | Unsatisfiable
  deriving stock (Eq, Show)

-- | Does every clause hold? The clauses are as DIMACS has them.
satisfies :: PrimArray Int -> [[Int]] -> Bool
satisfies model = all (any holds)
  where
    holds n = (indexPrimArray model (abs n - 1) == 1) == (n > 0)

-- | A model as DIMACS has it: each variable, negated when it is false.
modelNumbers :: PrimArray Int -> [Int]
modelNumbers model = [if value == 1 then n else negate n | (n, value) <- zip [1 ..] (primArrayToList model)]
