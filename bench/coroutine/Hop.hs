{-# LANGUAGE RankNTypes #-}

-- | What an item costs in one stage more that only passes it on, and that the compiler cannot see through.
--
-- A source of the numbers to N, so many such stages, their sum. The cost of a hop is the difference
-- between two numbers of stages. Each library composes in the way that it prefers.
module Main
  ( main,
  )
where

import Data.Conduit ((.|))
import Data.Conduit qualified as C
import Data.Conduit.Combinators qualified as CC
import Heddle.Coroutine qualified as T
import Heddle.Coroutine.Article qualified as A
import Heddle.Measure.Contender (contender, contenderMain, twoNumbers)
import Heddle.Pipe qualified as H
import Pipes ((>->))
import Pipes qualified as P
import Pipes.Prelude qualified as PP

main :: IO ()
main =
  contenderMain (twoNumbers "N" "STAGES") . map (\(name, work) -> contender name (uncurry work)) $
    [ ("pipe", pipe),
      ("coroutine", coroutine),
      ("article", article),
      ("conduit", conduit),
      ("conduit-left", conduitLeft),
      ("pipes", pipes)
    ]

-- * Heddle.Pipe

pipe :: Int -> Int -> IO Int
pipe n stages = H.runPipe (through stages (source 1) H..| pipeSum 0)
  where
    source k
      | k > n = pure ()
      | otherwise = H.yield k >> source (k + 1)
    through :: Int -> H.Pipe i Int () -> H.Pipe i Int ()
    through 0 p = p
    through k p = through (k - 1) (p H..| pipeStage)

pipeStage :: H.Pipe Int Int ()
pipeStage = H.await >>= maybe (pure ()) (\x -> H.yield x >> pipeStage)
{-# NOINLINE pipeStage #-}

pipeSum :: Int -> H.Pipe Int o Int
pipeSum !found = H.await >>= maybe (pure found) (pipeSum . (found +))

-- * Heddle.Coroutine

coroutine :: Int -> Int -> IO Int
coroutine n stages = through stages (T.fromGenerator (source 1)) (\t -> snd <$> T.run (T.toTrampoline (t T.=>= coroutineSum 0)))
  where
    source :: Int -> T.Generator Int IO ()
    source k
      | k > n = pure ()
      | otherwise = T.yield k >> source (k + 1)
    -- The result is a tuple more with each stage.
    through :: Int -> T.Transducer T.Naught Int IO x -> (forall y. T.Transducer T.Naught Int IO y -> r) -> r
    through 0 t use = use t
    through k t use = through (k - 1) (t T.=>= coroutineStage) use

coroutineStage :: T.Transducer Int Int IO ()
coroutineStage = T.awaitT >>= maybe (pure ()) (\x -> T.yieldT x >> coroutineStage)
{-# NOINLINE coroutineStage #-}

coroutineSum :: Int -> T.Transducer Int T.Naught IO Int
coroutineSum !found = T.awaitT >>= maybe (pure found) (coroutineSum . (found +))

-- * The article's listings

article :: Int -> Int -> IO Int
article n stages = through stages (A.fromGenerator (source 1)) (\t -> snd <$> A.run (A.toTrampoline (t A.=>= articleSum 0)))
  where
    source :: Int -> A.Generator Int IO ()
    source k
      | k > n = pure ()
      | otherwise = A.yield k >> source (k + 1)
    through :: Int -> A.Transducer T.Naught Int IO x -> (forall y. A.Transducer T.Naught Int IO y -> r) -> r
    through 0 t use = use t
    through k t use = through (k - 1) (t A.=>= articleStage) use

articleStage :: A.Transducer Int Int IO ()
articleStage = A.awaitT >>= maybe (pure ()) (\x -> A.yieldT x >> articleStage)
{-# NOINLINE articleStage #-}

articleSum :: Int -> A.Transducer Int T.Naught IO Int
articleSum !found = A.awaitT >>= maybe (pure found) (articleSum . (found +))

-- * conduit

conduit :: Int -> Int -> IO Int
conduit n stages = C.runConduit (CC.enumFromTo 1 n .| through stages)
  where
    through :: Int -> C.ConduitT Int o IO Int
    through 0 = CC.sum
    through k = conduitStage .| through (k - 1)

-- | Not as @.|@ associates, and faster.
conduitLeft :: Int -> Int -> IO Int
conduitLeft n stages = C.runConduit (through stages (CC.enumFromTo 1 n) .| CC.sum)
  where
    through :: Int -> C.ConduitT () Int IO () -> C.ConduitT () Int IO ()
    through 0 c = c
    through k c = through (k - 1) (c .| conduitStage)

conduitStage :: C.ConduitT Int Int IO ()
conduitStage = C.awaitForever C.yield
{-# NOINLINE conduitStage #-}

-- * pipes

pipes :: Int -> Int -> IO Int
pipes n stages = PP.sum (through stages (P.each [1 .. n]))
  where
    through :: Int -> P.Producer Int IO () -> P.Producer Int IO ()
    through 0 p = p
    through k p = through (k - 1) (p >-> pipesStage)

pipesStage :: P.Pipe Int Int IO r
pipesStage = P.for P.cat P.yield
{-# NOINLINE pipesStage #-}
