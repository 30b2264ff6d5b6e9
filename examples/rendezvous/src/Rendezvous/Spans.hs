-- |
-- Module      : Rendezvous.Spans
-- Description : Arrays cut into pieces
-- Stability   : example
--
-- A piece of an array is named, not copied: where it begins and how long it is. Cutting a list, as the
-- paper did, is a walk along it; this is arithmetic.
module Rendezvous.Spans
  ( Span (..),
    spansOf,
    pieces,
  )
where

import Control.DeepSeq (NFData (..))

-- | Where it begins, and how long it is.
data Span = Span
  { spanStart :: !Int,
    spanLength :: !Int
  }
  deriving stock (Eq, Show)

-- | Evaluated completely as soon as it is evaluated: its fields are strict.
instance NFData Span where
  rnf Span {} = ()

-- | So many elements in spans of this length; the last may be shorter.
spansOf :: Int -> Int -> [Span]
spansOf size whole = [Span start (min step (whole - start)) | start <- [0, step .. whole - 1]]
  where
    step = max 1 size

-- | So many elements in about this many spans, no two of which differ by more than one element. Fewer
-- elements than spans: one each.
pieces :: Int -> Int -> [Span]
pieces count whole = [Span (edge i) (edge (i + 1) - edge i) | i <- [0 .. n - 1]]
  where
    n = max 1 (min count whole)
    edge i = i * whole `quot` n
