-- | The chain of @Fused.hs@ in conduit and in pipes.
module Main
  ( main,
  )
where

import Data.Conduit ((.|))
import Data.Conduit qualified as C
import Data.Conduit.Combinators qualified as CC
import Data.Conduit.List qualified as CL
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import Pipes ((>->))
import Pipes qualified as P
import Pipes.Prelude qualified as PP

main :: IO ()
main = contenderMain (oneNumber "N") . map (uncurry contender) $ [("conduit", conduit), ("pipes", pipes)]

conduit :: Int -> IO Int
conduit n =
  C.runConduit $
    CC.enumFromTo 1 n
      .| CC.map (* 3)
      .| CC.filter odd
      .| (CL.mapAccum (\x before -> let !y = x + before in (y, y)) 0 >> pure ())
      .| CC.concatMap (\x -> [x .. x + 2])
      .| CC.take n
      .| CC.sum

pipes :: Int -> IO Int
pipes n =
  PP.sum $
    P.each [1 .. n]
      >-> PP.map (* 3)
      >-> PP.filter odd
      >-> (PP.scan (+) 0 id >-> PP.drop 1)
      >-> PP.mapFoldable (\x -> [x .. x + 2])
      >-> PP.take n
