-- | The sum of the primes to N, by a sieve that grows: behind each prime that it finds it puts a filter in
-- front of itself, so the last number passes as many stages as there are primes.
module Main
  ( main,
  )
where

import Data.Conduit ((.|))
import Data.Conduit qualified as C
import Data.Conduit.Combinators qualified as CC
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import Heddle.Pipe qualified as H
import Pipes ((>->))
import Pipes qualified as P
import Pipes.Prelude qualified as PP

main :: IO ()
main = contenderMain (oneNumber "N") . map (uncurry contender) $ [("pipe", pipe), ("conduit", conduit), ("pipes", pipes)]

-- * Heddle.Pipe

pipe :: Int -> IO Int
pipe n = H.runPipe (source 2 H..| pipeSieve H..| pipeSum 0)
  where
    source k
      | k > n = pure ()
      | otherwise = H.yield k >> source (k + 1)

pipeSieve :: H.Pipe Int Int ()
pipeSieve = H.await >>= maybe (pure ()) (\p -> H.yield p >> (H.filter (`isNoMultipleOf` p) H..| pipeSieve))

pipeSum :: Int -> H.Pipe Int o Int
pipeSum !found = H.await >>= maybe (pure found) (pipeSum . (found +))

-- * conduit

conduit :: Int -> IO Int
conduit n = C.runConduit (CC.enumFromTo 2 n .| conduitSieve .| CC.sum)

conduitSieve :: C.ConduitT Int Int IO ()
conduitSieve = C.await >>= maybe (pure ()) (\p -> C.yield p >> (CC.filter (`isNoMultipleOf` p) .| conduitSieve))

-- * pipes

pipes :: Int -> IO Int
pipes n = PP.sum (P.each [2 .. n] >-> pipesSieve)

pipesSieve :: P.Pipe Int Int IO r
pipesSieve = P.await >>= \p -> P.yield p >> (PP.filter (`isNoMultipleOf` p) >-> pipesSieve)

isNoMultipleOf :: Int -> Int -> Bool
isNoMultipleOf x p = x `rem` p /= 0
