{-# LANGUAGE RankNTypes #-}

-- | Programs on all ranks against what one process computes, and programs that do not typecheck.
module SpmdTest
  ( cases,
  )
where

import Control.Exception (TypeError)
import Control.Monad (forM_, void)
import Data.List qualified as List
import Heddle.MPI
import Heddle.MPI.Spmd
import Heddle.Prim.Exception (try, trySync)
import Ranks
import SpmdMistyped
import System.IO.Unsafe (unsafePerformIO)

cases :: [Case]
cases =
  [ anywhere "spmd: broadcast, gatherAll, reduceAll, scanAll agree with lists" $ do
      (r, n) <- place
      forM_ [0 .. n - 1] $ \root -> do
        got <- runGlobal commWorld (local (\k -> replicate (fromIntegral k) 'x') >>= broadcast (toRank root))
        got === replicate root 'x'
      all' <- runGlobal commWorld (thisRank >>= gatherAll . fmap (* 3))
      all' === map toRank [0, 3 .. 3 * (n - 1)]
      total <- runGlobal commWorld (local show >>= reduceAll (++))
      total === concatMap show [0 .. n - 1]
      upTo <- runLocal commWorld (local show >>= scanAll (++))
      upTo === concatMap show [0 .. r],
    anywhere "spmd: global and local values are applicative" $ do
      (r, n) <- place
      answer <- runLocal commWorld $ do
        me <- local fromIntegral
        count <- size
        total <- reduceAll (+) me
        pure ((,,) <$> me <*> spread total <*> pure count)
      answer === (r :: Int, sum [0 .. n - 1], n),
    anywhere "spmd: blocks of a list, without communication" $ do
      (r, n) <- place
      forM_ [0, 1, 5, 8, 100] $ \m -> do
        mine <- runLocal commWorld (scatterBlocks (pure [1 .. m :: Int]))
        let (from, count) = blockOf m n r
        mine === [from + 1 .. from + count]
        back <- runGlobal commWorld (scatterBlocks (pure [1 .. m]) >>= gatherAll)
        concat back === [1 .. m]
        assert "parts are even" (maximum (map length back) - minimum (map length back) <= 1),
    anywhere "spmd: transpose, shift, neighbours" $ do
      (r, n) <- place
      turned <- runLocal commWorld (local (\k -> [(fromIntegral k, i) | i <- [0 .. n - 1]]) >>= transpose)
      turned === [(i, r) | i <- [0 .. n - 1]]
      forM_ [-5 .. 5] $ \by -> do
        got <- runLocal commWorld (local (replicate 2000 . fromIntegral) >>= shift by)
        got === replicate 2000 ((r - by) `mod` n)
      around <- runLocal commWorld (local (\k -> ("low of " ++ show k, "high of " ++ show k)) >>= neighbours)
      around
        === ( if r > 0 then Just ("high of " ++ show (r - 1)) else Nothing,
              if r < n - 1 then Just ("low of " ++ show (r + 1)) else Nothing
            ),
    anywhere "spmd: branches and loops by global values" $ do
      (_, n) <- place
      steps <- runGlobal commWorld $ do
        start <- local (\k -> (fromIntegral k, 0 :: Int))
        let largest = reduceAll max . fmap fst
        end <- iterateWhile (fmap (fmap (< 50)) . largest) (pure . fmap (\(x, k) -> (x + 7 :: Int, k + 1))) start
        counts <- gatherAll (snd <$> end)
        withGlobal counts $ \ks -> branch (pure (List.length (List.nub ks) == 1)) (pure (head <$> counts)) (pure (pure (-1)))
      steps === length (takeWhile (< 50) [n - 1, n + 6 ..])
      -- The branch that is not chosen does not run.
      chosen <- runGlobal commWorld (branch (pure False) (local (const 'a') >>= broadcast 99) (local (const 'b') >>= broadcast 0))
      chosen === 'b',
    anywhere "spmd: a global number is the same to the last bit" $ do
      let program :: Spmd s (Global s [Double])
          program = do
            x <- local (\k -> 1 / (3 + fromIntegral k) :: Double)
            total <- reduceAll (+) x
            gatherAll (spread total)
      totals <- runGlobal commWorld program
      assert "the same everywhere" (all (== head totals) totals),
    anywhere "spmd: reduceBlocks does not depend on the number of ranks" $ do
      forM_ [1, 2, 3, 7, 64, 100] $ \blocks -> do
        let value b = sum [1 / fromIntegral (b * 1000 + i + 1) | i <- [0 .. 99 :: Int]] :: Double
        got <- runGlobal commWorld (reduceBlocks blocks (+) value)
        got === pairwise (+) (map value [0 .. blocks - 1])
        text <- runGlobal commWorld (reduceBlocks blocks (++) show)
        text === concatMap show [0 .. blocks - 1]
      throws [InvalidArgument] (runGlobal commWorld (reduceBlocks 0 (+) id)),
    anywhere "spmd: what should be the same, and is or is not" $ do
      (_, n) <- place
      same <- runGlobal commWorld (local (const "same") >>= agree)
      same === "same"
      if n == 1
        then runGlobal commWorld (thisRank >>= agree) >>= (=== 0)
        else throws [NotTheSame] (runGlobal commWorld (thisRank >>= agree)),
    anywhere "spmd: a failure on one rank is an exception on all" $ do
      (_, n) <- place
      let bad k = if fromIntegral k == n - 1 then error "bad" else [k]
          failed :: (forall s. Spmd s ()) -> IO ()
          failed program = trySync (runSpmd commWorld program) >>= \x -> either (const True) (const False) x === True
      failed (void (local bad >>= gatherAll))
      failed (void (local bad >>= strictly >>= reduceAll (++)))
      failed (void (local bad >>= shift 1))
      failed (local (\k -> (bad k, bad k)) >>= \l -> if n > 1 then void (neighbours l) else void (gatherAll l))
      failed (void (unsafeLocalIO (\k -> if fromIntegral k == n - 1 then ioError (userError "no") else pure 'x')))
      failed (void (onRank (toRank (n - 1)) (pure (ioError (userError "no")))))
      failed (void (local (const 'x') >>= broadcast 99))
      ok <- runGlobal commWorld (thisRank >>= gatherAll)
      ok === map toRank [0 .. n - 1],
    anywhere "spmd: effects" $ do
      (_, n) <- place
      squares <- runGlobal commWorld (unsafeLocalIO (\k -> pure (k * k)) >>= gatherAll)
      squares === [toRank k * toRank k | k <- [0 .. n - 1]]
      runSpmd commWorld (thisRank >>= onRank 0 . fmap (\k -> assert "it is rank 0" (k == 0))),
    onRanks [1, 2] "spmd: programs whose ranks might part do not typecheck" $
      forM_ mistyped $ \(name, program) ->
        try program >>= \case
          Left e -> assert "what the compiler said is not empty" (not (null (show (e :: TypeError))))
          Right () -> assert (name ++ " typechecks") False,
    onRanks [1, 2] "spmd: their twins that do typecheck run" $ do
      welltyped
      runSpmd commWorld (say (pure "")),
    onRanks [1, 2] "spmd: evaluating is local" $ do
      -- An unused value is not evaluated.
      runSpmd commWorld (void (local (\_ -> unsafePerformIO (ioError (userError "evaluated")) :: ())))
  ]

-- The tree of reduceBlocks.
pairwise :: (a -> a -> a) -> [a] -> a
pairwise f = \case
  [a] -> a
  as -> pairwise f (level as)
  where
    level = \case
      a : b : others -> f a b : level others
      others -> others

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
