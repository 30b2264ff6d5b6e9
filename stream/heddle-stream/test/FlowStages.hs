{-# OPTIONS_GHC -O2 #-}

-- | Parts of flows that another module puts together.
module FlowStages
  ( scaled,
    running,
    tripled,
    numbers,
    total,
  )
where

import Data.Bits (xor)
import Heddle.Flow (Flow, Sink, Source, (>->), (|>))
import Heddle.Flow qualified as Flow

-- | Two stages in one.
scaled :: Flow Int Int
scaled = Flow.map (\x -> x * 3 + 1) >-> Flow.filter (\x -> x `rem` 8 /= 0)
{-# INLINE scaled #-}

running :: Flow Int Int
running = Flow.mapAccum (\t x -> let t' = t + x in (t', t' `xor` x)) 0
{-# INLINE running #-}

tripled :: Flow Int Int
tripled = Flow.concatMap (`Flow.countFrom` 3)
{-# INLINE tripled #-}

numbers :: Int -> Source Int
numbers n = Flow.range 1 n |> Flow.map (+ 1)
{-# INLINE numbers #-}

total :: Sink Int Int
total = Flow.filter (> 0) `Flow.into` Flow.sum
{-# INLINE total #-}
