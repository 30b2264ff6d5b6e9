-- |
-- Module      : Rendezvous.ProducerConsumer
-- Description : Figure 4: one makes what another uses up
-- Stability   : example
--
-- The consumer works on one item while the producer makes the next. As in the paper, -1 is the end.
module Rendezvous.ProducerConsumer
  ( Goods (..),
    sequential,
    det,
  )
where

import Heddle.Rendezvous
import Rendezvous.Numbers (busy)

-- | What is produced.
data Goods = Goods
  { goodsCount :: !Int,
    -- | Steps of work to make an item, and to use it up.
    goodsWork :: !Int
  }

produceData :: Goods -> Int -> Int
produceData goods i
  | i == goodsCount goods = -1
  | otherwise = fromIntegral (busy (goodsWork goods) (fromIntegral i) `rem` 1000000)

consumeData :: Goods -> Int -> Int -> Int
consumeData goods total item =
  (total + fromIntegral (busy (goodsWork goods) (fromIntegral item) `rem` 1000000)) `rem` 1000000007

-- | One item after the other.
sequential :: Goods -> Int
sequential goods = go 0 0
  where
    go !total i = case produceData goods i of
      -1 -> total
      item -> go (consumeData goods total item) (i + 1)

-- | Figure 4.
det :: Goods -> Int
det goods = runDet $ do
  c <- newChan "c"
  par $
    branch (out c) (`produce` 0)
      *> branch (inp c) (`consume` 0)
  where
    produce :: Out s Int -> Int -> Det s ()
    produce o i = do
      let item = produceData goods i
      send o item
      if item == -1 then pure () else produce o (i + 1)

    consume :: In s Int -> Int -> Det s Int
    consume i !total = do
      item <- recv i
      if item == -1 then pure total else consume i (consumeData goods total item)
