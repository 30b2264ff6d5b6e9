{-# LANGUAGE Safe #-}

-- | Programs in Safe Haskell.
module SafeUse (total, totalSparked, totalIO) where

import Heddle.Par qualified as Par
import Heddle.Par.IO qualified as ParIO
import Heddle.Par.Semaphore qualified as Semaphore
import Heddle.Par.Strategies (parList, rseq, using)

-- | The sum of the numbers up to this one.
total, totalSparked :: Int -> Int
total n = Par.runPar (Par.parMapReduce 10 (1, n) pure (+) 0)
totalSparked n = sum (map (+ 0) [1 .. n] `using` parList rseq)

totalIO :: Int -> IO Int
totalIO n = do
  units <- Semaphore.newSemaphore 1
  ParIO.runParIO (ParIO.spawn (pure (sum [1 .. n])) >>= ParIO.get) <* Semaphore.tryAcquire units
