{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Internal.Reduction
-- Description : Reductions of memory
-- Stability   : internal, exempt from the version policy
--
-- The reductions that "Heddle.MPI.Collective" exports: by MPI's operators where it has them, by trees of
-- messages with Haskell functions, and for a few elements by exchanges between pairs of ranks.
--
-- Cost: the implementation's, or a message for each level of a tree.
-- Owner: the operation owns its buffers until it is complete.
module Heddle.MPI.Internal.Reduction
  ( reduce,
    ireduce,
    reduceValue,
    allreduce,
    iallreduce,
    allreduceValue,
    scan,
    iscan,
    scanValue,
    exscan,
    iexscan,
    reduceScatter,
    ireduceScatter,
  )
where

import Control.Monad (when)
import Control.Monad.IO.Class (liftIO)
import Data.Maybe (isJust)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Collective
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign (Asked (..))
import Heddle.MPI.Internal.Operator (operatorCode)
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Steps (Steps)
import Heddle.MPI.Internal.Tree
import Heddle.MPI.Internal.Types
import Heddle.MPI.Operator
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Exception (evaluate, trySync)

-- Reduce by MPI if it has the operator, else by a tree.
reduction :: Comm 'Intra -> Operator a -> (CInt -> IO (Collective ())) -> (Comm 'Intra -> Steps ()) -> IO ()
reduction comm op mpis tree = maybe (collectively comm tree) (\code -> mpis code >>= performNow) (operatorCode op)

-- 'reduction' without waiting; a tree runs on a separate thread.
ireduction :: String -> Comm 'Intra -> Operator a -> (CInt -> IO (Collective ())) -> (Comm 'Intra -> Steps ()) -> IO (Request ())
ireduction name comm op mpis tree = case operatorCode op of
  Just code -> mpis code >>= beginNow
  Nothing -> collectivelyLater name comm tree

sameSize :: String -> Side -> Side -> IO ()
sameSize call out into =
  when (sideCount out /= sideCount into) . wrong InvalidCount call $
    show (sideCount out) ++ " elements cannot be reduced into " ++ show (sideCount into)

reduceC :: Element a => Comm 'Intra -> Rank -> Vector a -> Maybe (Mutable.IOVector a) -> CInt -> IO (Collective ())
reduceC comm root b c code = do
  out <- sendSide b
  (here, into) <- rootSide "reduce" comm root receiveSide c
  when here (sameSize "reduce" out into)
  pure (collective "reduce" kReduce comm (exchanging (out, sideCount out) (into, sideCount into)) {exchangeRoot = root, exchangeOperator = code})

-- | Combine the vectors of all ranks element by element; the root gets the result.
--
-- [Cost]: with a function, a message for each level of a tree.
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
-- [Source]: MPI 3.1, section 5.9.
reduce :: Element a => Comm 'Intra -> Rank -> Operator a -> Vector a -> Maybe (Mutable.IOVector a) -> IO ()
reduce comm !root op !b c = reduction comm op (reduceC comm root b c) (treeReduce root op b c)

-- | 'reduce', without waiting.
ireduce :: Element a => Comm 'Intra -> Rank -> Operator a -> Vector a -> Maybe (Mutable.IOVector a) -> IO (Request ())
ireduce comm root op b c = ireduction "mpi/ireduce" comm op (reduceC comm root b c) (treeReduce root op b c)

-- | Combine the values of all ranks; the root gets the result.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
reduceValue :: Element a => Comm 'Intra -> Rank -> Operator a -> a -> IO (Maybe a)
reduceValue comm root op a = do
  rank <- commRank comm
  into <- if rank == root then Just <$> Mutable.unsafeNew 1 else pure Nothing
  reduce comm root op (Vector.singleton a) into
  traverse (`Mutable.unsafeRead` 0) into

allreduceC :: Element a => String -> KindCode -> Comm 'Intra -> Vector a -> Mutable.IOVector a -> CInt -> IO (Collective ())
allreduceC call kind comm b c code = do
  out <- sendSide b
  into <- receiveSide c
  sameSize call out into
  pure (collective call kind comm (exchanging (out, sideCount out) (into, sideCount into)) {exchangeOperator = code})
{-# INLINE allreduceC #-}

-- | Combine the vectors of all ranks element by element; every rank gets the result.
--
-- [Cost]: with one of MPI's operators, rounds of messages between pairs for up to a kilobyte, and
-- MPI's collective for more; with a function, two messages for each level of a tree. The first call
-- on a communicator duplicates it.
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'; what the function throws.
allreduce :: forall a. Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO ()
allreduce comm op b c
  | few,
    Mutable.length c == n,
    isJust (operatorCode op) = collectivelyInPhases comm $ \shadow -> do
    Vector.unsafeCopy c b
    let (here, _) = Mutable.unsafeToForeignPtr0 c
    wings <- wingsOf (foreignAddress here) n (touchForeignPtr here)
    butterfly "allreduce" shadow (operatorFunction op) n wings Nothing (pure ())
  | otherwise = reduction comm op (allreduceC "allreduce" kAllreduce comm b c) (treeAllreduce op b c)
  where
    n = Vector.length b
    few = n * elementBytes @a <= butterflyBytes
{-# INLINE allreduce #-}

-- | 'allreduce', without waiting.
iallreduce :: Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO (Request ())
iallreduce comm op b c = ireduction "mpi/iallreduce" comm op (allreduceC "iallreduce" kAllreduce comm b c) (treeAllreduce op b c)

-- | Combine the values of all ranks; every rank gets the result.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'; what the function throws.
allreduceValue :: forall a. Element a => Comm 'Intra -> Operator a -> a -> IO a
allreduceValue comm op a
  | isJust (operatorCode op) = do
    value <- trySync (evaluate a)
    collectivelyInPhases comm $ \shadow -> do
      wings@(Wings mine _ _ _) <- wingsOfOne
      mapM_ (poke mine) value
      butterfly "allreduceValue" shadow (operatorFunction op) 1 wings (either Just (const Nothing) value) (peek mine)
  | otherwise = do
    into <- Mutable.unsafeNew 1
    allreduce comm op (Vector.singleton a) into
    Mutable.unsafeRead into 0
{-# INLINE allreduceValue #-}

-- | Combine the vectors of the ranks up to and including this one.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scan :: Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO ()
scan comm op !b !c = reduction comm op (allreduceC "scan" kScan comm b c) (treeScan True op b c)

-- | 'scan', without waiting.
iscan :: Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO (Request ())
iscan comm op b c = ireduction "mpi/iscan" comm op (allreduceC "iscan" kScan comm b c) (treeScan True op b c)

-- | Combine the values of the ranks up to and including this one.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scanValue :: Element a => Comm 'Intra -> Operator a -> a -> IO a
scanValue comm op a = do
  into <- Mutable.unsafeNew 1
  scan comm op (Vector.singleton a) into
  Mutable.unsafeRead into 0

-- | Combine the vectors of the ranks before this one; on rank 0 the buffer is unchanged.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
exscan :: Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO ()
exscan comm op !b !c = reduction comm op (allreduceC "exscan" kExscan comm b c) (treeScan False op b c)

-- | 'exscan', without waiting.
iexscan :: Element a => Comm 'Intra -> Operator a -> Vector a -> Mutable.IOVector a -> IO (Request ())
iexscan comm op b c = ireduction "mpi/iexscan" comm op (allreduceC "iexscan" kExscan comm b c) (treeScan False op b c)

reduceScatterC :: Element a => Comm 'Intra -> Vector a -> [Int] -> Mutable.IOVector a -> CInt -> IO (Collective ())
reduceScatterC comm b counts c code = do
  out <- sendSide b
  into <- receiveSide c
  size <- commSize comm
  rank <- commRank comm
  (p, _, keep) <- withParts "reduceScatter" size (unitsEach b) out (consecutive counts)
  when (sum counts /= Vector.length b) . wrong InvalidCount "reduceScatter" $
    "the counts add up to " ++ show (sum counts) ++ ", not to the " ++ show (Vector.length b) ++ " elements that are sent"
  fits "reduceScatter" out into (unitsEach b * (counts !! fromIntegral rank))
  let more asked = asked {askedReceiveCounts = p}
  pure (collective "reduceScatter" kReduceScatter comm (exchanging (out, sideCount out) (into, 0)) {exchangeOperator = code, exchangeArrays = more, exchangeKeep = keep})

-- | Combine the vectors of all ranks element by element; each rank gets a part of the result. The
-- list has the length of each rank's part.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
reduceScatter :: Element a => Comm 'Intra -> Operator a -> Vector a -> [Int] -> Mutable.IOVector a -> IO ()
reduceScatter comm op !b counts !c = reduction comm op (reduceScatterC comm b counts c) (treeReduceScatter op b counts c)

-- | 'reduceScatter', without waiting.
ireduceScatter :: Element a => Comm 'Intra -> Operator a -> Vector a -> [Int] -> Mutable.IOVector a -> IO (Request ())
ireduceScatter comm op b counts c =
  ireduction "mpi/ireduceScatter" comm op (reduceScatterC comm b counts c) (treeReduceScatter op b counts c)

treeReduceScatter :: Element a => Operator a -> Vector a -> [Int] -> Mutable.IOVector a -> Comm 'Intra -> Steps ()
treeReduceScatter op b counts c shadow = do
  (size, rank) <- liftIO (shapeOf shadow)
  when (length counts /= size || any (< 0) counts || sum counts /= Vector.length b || Mutable.length c < (counts !! rank)) . liftIO . agreed $
    wrong InvalidCount "reduceScatter" ("counts " ++ show counts ++ " for " ++ show (Vector.length b) ++ " elements")
  whole <- liftIO (Mutable.unsafeNew (Vector.length b))
  treeAllreduce op b whole shadow
  let from = sum (take rank counts)
  liftIO (Mutable.copy (Mutable.take (counts !! rank) c) (Mutable.slice from (counts !! rank) whole))
