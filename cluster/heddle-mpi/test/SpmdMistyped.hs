{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fdefer-type-errors -fno-defer-typed-holes -fno-defer-out-of-scope-variables -Wno-deferred-type-errors -Wno-unused-matches -Wno-unused-local-binds #-}

-- | Programs that do not typecheck. The compiler defers their type errors, which are thrown when
-- the program runs.
module SpmdMistyped
  ( mistyped,
    welltyped,
  )
where

import Control.Monad (void)
import Data.Coerce (coerce)
import Heddle.MPI
import Heddle.MPI.Spmd

{- HLINT ignore "Avoid lambda" -}
{- HLINT ignore "Use >>" -}

-- | With their names.
mistyped :: [(String, IO ())]
mistyped =
  [ ("ifOnLocal", ifOnLocal),
    ("branchOnLocal", branchOnLocal),
    ("loopOnLocal", loopOnLocal),
    ("collectiveInLocal", collectiveInLocal),
    ("functionOfRank", functionOfRank),
    ("localAsGlobal", localAsGlobal),
    ("escaped", escaped),
    ("ofOtherRun", ofOtherRun),
    ("coercedToOtherRun", coercedToOtherRun),
    ("coercedToPlain", coercedToPlain),
    ("effectInside", effectInside)
  ]

ifOnLocal :: IO ()
ifOnLocal = runSpmd commWorld $ do
  me <- thisRank
  if me == 0 then void (gatherAll me) else pure ()

branchOnLocal :: IO ()
branchOnLocal = runSpmd commWorld $ do
  me <- thisRank
  branch ((== 0) <$> me) (void (gatherAll me)) (pure ())

loopOnLocal :: IO ()
loopOnLocal = runSpmd commWorld (whileGlobal (local (const False)) (pure ()))

collectiveInLocal :: IO ()
collectiveInLocal = runSpmd commWorld $ do
  me <- thisRank
  _ <- fmap (\k -> gatherAll k) me
  pure ()

functionOfRank :: IO ()
functionOfRank = runSpmd commWorld $ do
  me <- thisRank
  f <- local (\k -> if k == 0 then max else min)
  void (reduceAll f me)

localAsGlobal :: IO ()
localAsGlobal = runSpmd commWorld (local (const "x") >>= say)

escaped :: IO ()
escaped = do
  me <- runSpmd commWorld thisRank
  void (runSpmd commWorld (gatherAll me))

ofOtherRun :: IO ()
ofOtherRun = runSpmd commWorld outer
  where
    outer :: forall s. Spmd s ()
    outer = do
      me <- thisRank
      unsafeLocalIO (\_ -> runSpmd commSelf (void (gatherAll me))) >>= \_ -> pure ()

coercedToOtherRun :: IO ()
coercedToOtherRun = runSpmd commWorld outer
  where
    outer :: forall s. Spmd s ()
    outer = do
      me <- thisRank
      unsafeLocalIO (\_ -> runSpmd commSelf (void (gatherAll (coerce me `asLocal` (0 :: Rank))))) >>= \_ -> pure ()
    asLocal :: Local t a -> a -> Local t a
    asLocal l _ = l

coercedToPlain :: IO ()
coercedToPlain = runSpmd commWorld $ do
  me <- thisRank
  if (coerce me :: Int) == 0 then void (gatherAll me) else pure ()

effectInside :: IO ()
effectInside = runSpmd commWorld (putStrLn "" >> pure ())

-- | The programs with the types that they should have had.
welltyped :: IO ()
welltyped = do
  runSpmd commWorld $ do
    me <- thisRank
    total <- reduceAll max me
    branch ((== 0) <$> total) (void (gatherAll me)) (pure ())
  runSpmd commWorld (whileGlobal (pure (pure False)) (pure ()))
  runSpmd commWorld $ do
    me <- thisRank
    unsafeLocalIO (\_ -> runSpmd commSelf (void (thisRank >>= gatherAll))) >>= \_ -> void (gatherAll me)
