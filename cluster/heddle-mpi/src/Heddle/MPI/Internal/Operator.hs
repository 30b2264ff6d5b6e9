-- |
-- Module      : Heddle.MPI.Internal.Operator
-- Description : MPI's number of an operator, and the function
-- Stability   : internal, exempt from the version policy
--
-- Cost: a word and a pointer.
-- Owner: pure values.
module Heddle.MPI.Internal.Operator
  ( Operator (..),
  )
where

import Foreign.C.Types (CInt)

-- | An associative operation: it need not be commutative, and is applied in the order of the
-- ranks.
data Operator a = Operator
  { -- | MPI's operator, if it has one for the type.
    operatorCode :: !(Maybe CInt),
    -- | The function.
    operatorFunction :: a -> a -> a
  }
