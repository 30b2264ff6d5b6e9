{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Rendezvous.Pipeline
-- Description : Figure 5: stages between an input and an output
-- Stability   : example
--
-- The paper's pipeline runs for ever; this one ends. When the input has ended, the first stage's next
-- receive says so, and the end travels from stage to stage.
module Rendezvous.Pipeline
  ( Flow (..),
    sequential,
    det,
    detPrinting,
  )
where

import Data.Bits (xor)
import Heddle.Rendezvous
import Rendezvous.Numbers (busy)

-- | What flows.
data Flow = Flow
  { flowStages :: !Int,
    flowItems :: !Int,
    -- | Steps of work for an item in a stage.
    flowWork :: !Int
  }

-- What a stage makes of a value.
process :: Flow -> Int -> Int -> Int
process flow stage value = fromIntegral (busy (flowWork flow) (fromIntegral (value + stage)) `rem` 1000000)

-- The answer depends on the order of the values, too.
digest :: Int -> Int -> Int
digest total value = ((total * 31) `xor` value) `rem` 1000000007

-- | Each item through all stages, one after the other.
sequential :: Flow -> Int
sequential flow = go 0 0
  where
    go !total i
      | i == flowItems flow = total
      | otherwise = go (digest total (through i 1)) (i + 1)
    through !value stage
      | stage > flowStages flow = value
      | otherwise = through (process flow stage value) (stage + 1)

-- | Figure 5, with any number of stages.
det :: Flow -> Int
det flow = runDet (connected () (\() _ -> pure ()) flow)

-- | The same, with an output that prints each value, as the paper's does. Only the output is granted the
-- world, so the order of the lines is that of the values.
detPrinting :: Flow -> IO Int
detPrinting flow = runDetIO (\world -> connected world (\mine value -> io mine (print value)) flow)

-- Everything but what the output does with a value, and what that is granted for it.
connected :: forall s g. Grant s g => g -> (forall t. Given t g -> Int -> Det t ()) -> Flow -> Det s Int
connected grant each flow = do
  c0 <- newChan "c0"
  channels <- mapM (newChan . ('c' :) . show) [1 .. flowStages flow]
  let links = zip3 [1 ..] (c0 : channels) channels
  par $
    branch (out c0) (\o -> mapM_ (send o) [0 .. flowItems flow - 1])
      *> traverse (\(stage, before, after) -> branch (inp before, out after) (uncurry (processing stage))) links
      *> branch (inp (last (c0 : channels)), grant) (\(i, given) -> outputting i (each given) 0)
  where
    processing :: Int -> In t Int -> Out t Int -> Det t ()
    processing stage i o = untilEnd i (pure ()) $ \value -> do
      send o (process flow stage value)
      processing stage i o

    outputting :: In t Int -> (Int -> Det t ()) -> Int -> Det t Int
    outputting i use !total = untilEnd i (pure total) $ \value -> do
      use value
      outputting i use (digest total value)

-- What to do at the end, and with a value.
untilEnd :: In t a -> Det t b -> (a -> Det t b) -> Det t b
untilEnd i end use =
  tryDet (recv i) >>= \case
    Left WriterEnded {} -> end
    Right value -> use value
