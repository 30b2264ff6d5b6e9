-- |
-- Module      : Mpi.Shares
-- Description : Who does what
-- Stability   : example
--
-- Deals work that is counted to ranks; no rank has more than one piece more than another.
--
-- Cost: O(1).
-- Owner: pure.
module Mpi.Shares
  ( Share (..),
    shareOf,
  )
where

-- | Consecutive pieces: the first one, and how many.
data Share = Share
  { shareStart :: !Int,
    shareSize :: !Int
  }
  deriving stock (Eq, Show)

-- | Of so many pieces, dealt to so many, the share of this one. The remainder goes to the first ones.
shareOf :: Int -> Int -> Int -> Share
shareOf pieces many who = Share (who * each + min who more) (each + if who < more then 1 else 0)
  where
    (each, more) = pieces `quotRem` many
