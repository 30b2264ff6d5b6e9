-- | N items through very many stages, composed from the left or from the right.
module Main
  ( main,
  )
where

import Data.Conduit ((.|))
import Data.Conduit qualified as C
import Data.Conduit.Combinators qualified as CC
import Data.Foldable qualified as Foldable
import Heddle.Measure.Contender (contender, contenderMain, twoNumbers)
import Heddle.Pipe qualified as H
import Pipes ((>->))
import Pipes qualified as P
import Pipes.Prelude qualified as PP

main :: IO ()
main =
  contenderMain (twoNumbers "N" "STAGES") . map (\(name, work) -> contender name (uncurry work)) $
    [ ("pipe-left", \n stages -> H.runPipe (Foldable.foldl' (H..|) (pipeSource n) (replicate stages pipeStage) H..| pipeSum 0)),
      ("pipe-right", \n stages -> H.runPipe (pipeSource n H..| foldr (H..|) (pipeSum 0) (replicate stages pipeStage))),
      ("conduit", \n stages -> C.runConduit (CC.enumFromTo 1 n .| foldr (.|) CC.sum (replicate stages conduitStage))),
      ("pipes", \n stages -> PP.sum (Foldable.foldl' (>->) (P.each [1 .. n]) (replicate stages pipesStage)))
    ]

pipeSource :: Int -> H.Pipe H.Void Int ()
pipeSource n = go 1
  where
    go k
      | k > n = pure ()
      | otherwise = H.yield k >> go (k + 1)

pipeStage :: H.Pipe Int Int ()
pipeStage = H.await >>= maybe (pure ()) (\x -> H.yield x >> pipeStage)
{-# NOINLINE pipeStage #-}

pipeSum :: Int -> H.Pipe Int o Int
pipeSum !found = H.await >>= maybe (pure found) (pipeSum . (found +))

conduitStage :: C.ConduitT Int Int IO ()
conduitStage = C.awaitForever C.yield
{-# NOINLINE conduitStage #-}

pipesStage :: P.Pipe Int Int IO r
pipesStage = P.for P.cat P.yield
{-# NOINLINE pipesStage #-}
