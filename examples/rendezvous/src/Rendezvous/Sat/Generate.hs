-- |
-- Module      : Rendezvous.Sat.Generate
-- Description : An unsatisfiable formula from a seed
-- Stability   : example
--
-- The paper's formula, 600 variables and 2,500 clauses, was never published. A random one of that size with
-- three literals in each clause lies where such formulas are hardest, and no solver without learning gets to
-- its end. So a formula has two parts:
--
-- * the core, random clauses over some of the variables, more of them for each variable than random clauses
--   with a model have: here is what has to be refuted, and how long it takes is a matter of the core's size;
-- * the rest, random clauses over the other variables, kept only where a hidden assignment makes them true:
--   here is nothing to refute.
--
-- Which variables are the core's is shuffled, and so are the clauses.
module Rendezvous.Sat.Generate
  ( Recipe (..),
    paperSized,
    generate,
  )
where

import Data.Bits (testBit)
import Data.List (nub, sortOn)
import Data.Word (Word64)
import Rendezvous.Numbers
import Rendezvous.Sat.Dimacs (Dimacs (..))

-- | Sizes, and the seed.
data Recipe = Recipe
  { recipeVariables :: !Int,
    recipeClauses :: !Int,
    recipeCoreVariables :: !Int,
    recipeCoreClauses :: !Int,
    recipeSeed :: !Word64
  }

-- | As many variables and clauses as in section 6.2.2.
paperSized :: Recipe
paperSized = Recipe 600 2500 320 1600 22

-- | The formula of a recipe whose core, and whose rest unless it has no clauses, have three variables at
-- least.
generate :: Recipe -> Dimacs
generate (Recipe variables clauses coreVariables coreClauses seed) =
  Dimacs variables (shuffled (seed + 3) (core <> rest))
  where
    core = take coreClauses (randomClauses (seed + 1) (take coreVariables names))
    rest = take (clauses - coreClauses) (filter (any holds) (randomClauses (seed + 2) (drop coreVariables names)))
    names = shuffled seed [1 .. variables]
    -- The hidden assignment.
    holds n = testBit (numberAt (seed + 4) (abs n)) 0 == (n > 0)

-- Three different variables, each negated or not.
randomClauses :: Word64 -> [Int] -> [[Int]]
randomClauses seed names = go (numbers seed)
  where
    size = length names
    go = \case
      a : b : c : signs : later
        | length (nub picked) == 3 -> zipWith signed [0 ..] picked : go later
        | otherwise -> go later
        where
          picked = map (below size) [a, b, c]
          signed bit i = if testBit signs bit then names !! i else negate (names !! i)
      _ -> []

shuffled :: Word64 -> [a] -> [a]
shuffled seed list = map snd (sortOn fst (zip (numbers seed) list))
