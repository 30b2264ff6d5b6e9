-- | N binds, nested to the left, each of which yields a number; and the sum of these.
module Main
  ( main,
  )
where

import Data.Conduit ((.|))
import Data.Conduit qualified as C
import Data.Conduit.Combinators qualified as CC
import Data.Foldable qualified as Foldable
import Heddle.Coroutine qualified as T
import Heddle.Coroutine.Article qualified as A
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import Heddle.Pipe qualified as H
import Pipes qualified as P
import Pipes.Prelude qualified as PP

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("pipe", pipe),
      ("coroutine", coroutine),
      ("article", article),
      ("conduit", conduit),
      ("pipes", pipes)
    ]

-- | Given how to yield.
nested :: Monad m => (Int -> m ()) -> Int -> m Int
nested yield n = Foldable.foldl' (\numbers _ -> numbers >>= \k -> yield k >> pure (k + 1)) (pure 1) [1 .. n]
{-# INLINE nested #-}

pipe :: Int -> IO Int
pipe n = H.runPipe (nested H.yield n H..| pipeSum 0)

pipeSum :: Int -> H.Pipe Int o Int
pipeSum !found = H.await >>= maybe (pure found) (pipeSum . (found +))

coroutine :: Int -> IO Int
coroutine n = snd <$> T.pipe2 (nested T.yield n) (coroutineSum 0)

coroutineSum :: Int -> T.Iteratee (Maybe Int) IO Int
coroutineSum !found = T.await >>= maybe (pure found) (coroutineSum . (found +))

article :: Int -> IO Int
article n = snd <$> A.pipe2 (nested A.yield n) (articleSum 0)

articleSum :: Int -> A.Iteratee (Maybe Int) IO Int
articleSum !found = A.await >>= maybe (pure found) (articleSum . (found +))

conduit :: Int -> IO Int
conduit n = C.runConduit ((nested C.yield n >> pure ()) .| CC.sum)

pipes :: Int -> IO Int
pipes n = PP.sum (nested P.yield n >> pure ())
