{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE Safe #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE UndecidableInstances #-}

-- | A program in Safe Haskell. All its branches are lambdas without annotations.
module SafeUse (squares) where

import Control.Monad (forM_, replicateM)
import GHC.Generics (Generic)
import Heddle.Rendezvous

-- | What the branch that squares is granted.
data Work s = Work (Reading s Int) (Writing s Int)
  deriving stock (Generic)

data Ends t = Ends (In t Int) (Out t Int)
  deriving stock (Generic)

instance s ~ s' => Grant s (Work s') where
  type Given t (Work s') = Ends t

-- | Computed by branches of several kinds of grants.
squares :: Int -> [Int]
squares n = runDet $ do
  numbers <- newChan "numbers"
  results <- newChan "results"
  par $
    branch (Just (inp results)) (maybe (pure []) (replicateM n . recv))
      <* branch (out numbers) (forM_ [1 .. n] . send)
      <* branch [Work (inp numbers) (out results)] (mapM_ (\(Ends i o) -> forM_ [1 .. n] (\_ -> recv i >>= \x -> send o (x * x))))
