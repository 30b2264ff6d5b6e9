{-# LANGUAGE Safe #-}

-- | A program in Safe Haskell. All its branches are lambdas without annotations.
module SafeUse (squares) where

import Control.Monad (forM_, replicateM)
import Heddle.Rendezvous

-- | Computed by branches of several kinds of grants.
squares :: Int -> [Int]
squares n = runDet $ do
  numbers <- newChan "numbers"
  results <- newChan "results"
  par $
    branch (Just (inp results)) (maybe (pure []) (replicateM n . recv))
      <* branch (out numbers) (forM_ [1 .. n] . send)
      <* branch [(inp numbers, out results)] (mapM_ (\(i, o) -> forM_ [1 .. n] (\_ -> recv i >>= \x -> send o (x * x))))
