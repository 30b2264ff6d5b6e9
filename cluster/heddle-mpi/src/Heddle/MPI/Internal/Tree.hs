{-# LANGUAGE DataKinds #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Internal.Tree
-- Description : Reductions with Haskell functions
-- Stability   : internal, exempt from the version policy
--
-- Binary trees of messages on a duplicate of the communicator. Adjacent ranges of ranks are
-- combined with the lower ranks on the left, so an operation need not be commutative, and the
-- result depends only on the values and the number of ranks. A result for all ranks is computed
-- once and copied.
--
-- A function that throws on one rank does not leave the others waiting: the rank sends the failure
-- in place of its value, and all ranks throw.
--
-- Cost: one message for each level of the tree, and a broadcast if all ranks get the result. For a
-- few elements the ranks exchange values in pairs, in rounds of half a round trip each, which is
-- faster than MPI's own collectives.
-- Owner: each rank's calling thread, while it has its turn on the duplicate that it passes in.
module Heddle.MPI.Internal.Tree
  ( -- * Reductions of a few elements
    Wings (..),
    wingsOf,
    wingsOfOne,
    butterfly,
    butterflyBytes,
    verdict,

    -- * Reductions of vectors, element by element
    treeReduce,
    treeAllreduce,
    treeScan,

    -- * Reductions of any values
    climb,
    prefixes,
  )
where

import Control.Monad (forM_, when)
import Control.Monad.IO.Class (liftIO)
import Control.Monad.Primitive (touch)
import Data.Bits (xor)
import Data.Either (fromRight)
import Data.Int (Int64)
import Data.Maybe (isJust)
import Data.Primitive.ByteArray (mutableByteArrayContents, newAlignedPinnedByteArray)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekElemOff, poke, pokeElemOff)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Collective
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign (Outcome, outcomeBytes)
import Heddle.MPI.Internal.Point
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.Types
import Heddle.MPI.Operator
import Heddle.Prim.Exception

-- The tag of all tree messages; their order distinguishes them.
treeTag :: Tag
treeTag = 1

-- | The most bytes of a message that MPI sends eagerly, before a receive is posted.
butterflyBytes :: Int
butterflyBytes = 1024

-- | The memory of a 'butterfly': this rank's elements, the arriving ones, C's outcomes, and the
-- action that keeps all of it alive.
data Wings a = Wings !(Ptr a) !(Ptr a) !(Ptr Outcome) !(IO ())

-- | Memory for @n@ elements that the given action keeps alive.
wingsOf :: forall a. Element a => Ptr a -> Int -> IO () -> IO (Wings a)
wingsOf mine n keep = do
  memory <- newAlignedPinnedByteArray (outcomeBytes + n * elementBytes @a) 16
  let p = mutableByteArrayContents memory
  pure (Wings mine (castPtr (p `plusPtr` outcomeBytes)) (castPtr p) (keep >> touch memory))
{-# INLINE wingsOf #-}

-- | Memory for one element, which the caller writes.
wingsOfOne :: forall a. Element a => IO (Wings a)
wingsOfOne = do
  memory <- newAlignedPinnedByteArray (outcomeBytes + 2 * each) 16
  let p = mutableByteArrayContents memory
  pure (Wings (castPtr (p `plusPtr` outcomeBytes)) (castPtr (p `plusPtr` (outcomeBytes + each))) (castPtr p) (touch memory))
  where
    each = (elementBytes @a + 15) `div` 16 * 16
{-# INLINE wingsOfOne #-}

-- | Combine a few elements of all ranks in place, on every rank, then run the continuation.
-- Partners exchange their elements and combine them in the order of the ranks, so both get the same
-- bits. If the number of ranks is not a power of two, some ranks let a neighbour take part for them.
--
-- A rank without a value, or that received a message of another length, sends empty messages from
-- then on, and so does a rank that receives one. Data from every rank reaches every other one, so
-- all ranks fail, and no message is left over.
--
-- [Cost]: a few closures per call; no allocation for a message that is complete at once. See
-- 'startAmong'.
-- [Blocks]: never; each phase starts the next one.
butterfly :: forall a r. Element a => String -> Comm 'Intra -> (a -> a -> a) -> Int -> Wings a -> Maybe SomeException -> IO r -> IO (Next r)
butterfly call shadow f n (Wings mine theirs p keep) nothing result = do
  Lent at count type' each _ _ <- lendOut (mine, n)
  (size, rank) <- shapeOf shadow
  let !full = powerWithin size 1
      combine before = go 0
        where
          go !i
            | i >= n = pure ()
            | otherwise = do
              x <- peekElemOff mine i
              y <- peekElemOff theirs i
              pokeElemOff mine i (if before then f y x else f x y)
              go (i + 1)
      flight =
        Flight
          { flightCall = call,
            flightComm = shadow,
            flightMine = at,
            flightTheirs = castPtr theirs,
            flightCount = count,
            flightBytes = count * each,
            flightType = type',
            flightOutcome = p,
            flightKeep = keep,
            flightCombine = combine,
            flightResult = result,
            flightFull = full,
            flightBeyond = size - full,
            flightRank = rank
          }
  fly flight nothing
{-# INLINEABLE butterfly #-}

-- A 'butterfly' on elements of any type. It is long, so it is compiled once for all types.
data Flight r = Flight
  { flightCall :: !String,
    flightComm :: !(Comm 'Intra),
    -- This rank's elements, and the buffer for the arriving ones.
    flightMine, flightTheirs :: !(Ptr Word8),
    -- In elements of MPI's type, and in bytes.
    flightCount, flightBytes :: !Int,
    flightType :: !Datatype,
    flightOutcome :: !(Ptr Outcome),
    flightKeep :: !(IO ()),
    -- Whether the arrived elements are from a lower rank.
    flightCombine :: !(Bool -> IO ()),
    flightResult :: !(IO r),
    -- The greatest power of two that is at most the number of ranks, and the remainder.
    flightFull, flightBeyond, flightRank :: !Int
  }

fly :: Flight r -> Maybe SomeException -> IO (Next r)
fly !x nothing
  | not (stands x) = rounds x True 1 nothing
  | even (flightRank x) = offer x True (flightRank x + 1) nothing (\patient _ _ -> lastly x patient)
  | otherwise = accept x True (flightTheirs x) (flightRank x - 1) (\patient e got -> firstly x patient nothing e got)
{-# NOINLINE fly #-}

powerWithin :: Int -> Int -> Int
powerWithin size k = if 2 * k <= size then powerWithin size (2 * k) else k

-- Whether this rank is one of two neighbours of which the odd one takes part for both.
stands :: Flight r -> Bool
stands x = flightRank x < 2 * flightBeyond x
{-# INLINE stands #-}

-- This rank's number among the participants, its partner's number at this step, and the partner's
-- rank.
number, partner, partnerRank :: Flight r -> Int -> Int
number x _ = if stands x then flightRank x `div` 2 else flightRank x - flightBeyond x
partner x step = number x step `xor` step
partnerRank x step = let r = partner x step in if r < flightBeyond x then 2 * r + 1 else r + flightBeyond x
{-# INLINE number #-}
{-# INLINE partner #-}
{-# INLINE partnerRank #-}

-- Small enough that MPI sends it eagerly.
offer :: Flight r -> Bool -> Int -> Maybe SomeException -> (Bool -> CInt -> Int64 -> IO (Next r)) -> IO (Next r)
offer x patient to problem =
  startAmong patient (flightOutcome x) (flightKeep x) $
    sending (flightCall x) Standard (flightComm x) (Rank to) treeTag (Lent (flightMine x) n (flightType x) 1 (pure ()) (pure ()))
  where
    n = if isJust problem then 0 else flightCount x
{-# INLINE offer #-}

accept :: Flight r -> Bool -> Ptr Word8 -> Int -> (Bool -> CInt -> Int64 -> IO (Next r)) -> IO (Next r)
accept x patient into from =
  startAmong patient (flightOutcome x) (flightKeep x) $
    (receiving (flightCall x) (flightComm x) (Rank from) treeTag (Lent into (flightCount x) (flightType x) 1 (pure ()) (pure ()))) {startTells = True}
{-# INLINE accept #-}

-- Run the steps from this one on.
rounds :: Flight r -> Bool -> Int -> Maybe SomeException -> IO (Next r)
rounds !x !patient !step !problem
  | step < flightFull x = offer x patient (partnerRank x step) problem (\patient' _ _ -> exchange x patient' step problem)
  | stands x = offer x patient (flightRank x - 1) problem (\_ _ _ -> landed x problem)
  | otherwise = landed x problem

-- After this rank's elements are sent.
exchange :: Flight r -> Bool -> Int -> Maybe SomeException -> IO (Next r)
exchange !x !patient !step !problem =
  accept x patient (flightTheirs x) (partnerRank x step) (\patient' e got -> merge x patient' step problem e got)
{-# NOINLINE exchange #-}

-- After the partner's elements have arrived.
merge :: Flight r -> Bool -> Int -> Maybe SomeException -> CInt -> Int64 -> IO (Next r)
merge !x !patient !step !problem !e !got =
  judge x (partnerRank x step) e got problem >>= combined x (partner x step < number x step) >>= rounds x patient (2 * step)
{-# NOINLINE merge #-}

-- After the elements of the neighbour that this rank takes part for have arrived.
firstly :: Flight r -> Bool -> Maybe SomeException -> CInt -> Int64 -> IO (Next r)
firstly !x !patient nothing !e !got =
  judge x (flightRank x - 1) e got nothing >>= combined x True >>= rounds x patient 1
{-# NOINLINE firstly #-}

-- The neighbour takes part for this rank.
lastly :: Flight r -> Bool -> IO (Next r)
lastly !x !patient =
  accept x patient (flightMine x) (flightRank x + 1) (\_ e got -> judge x (flightRank x + 1) e got Nothing >>= landed x)
{-# NOINLINE lastly #-}

landed :: Flight r -> Maybe SomeException -> IO (Next r)
landed x = \case
  Nothing -> Finished <$> flightResult x <* flightKeep x
  Just e -> agreed (throwIO e)

combined :: Flight r -> Bool -> Maybe SomeException -> IO (Maybe SomeException)
combined x before = \case
  Nothing -> problemOf (flightCombine x before)
  problem -> pure problem
{-# INLINE combined #-}

-- Whether and how a message is wrong, given its rank, error and size in bytes.
judge :: Flight r -> Int -> CInt -> Int64 -> Maybe SomeException -> IO (Maybe SomeException)
judge x from e got = \case
  Nothing
    | e == 0, fromIntegral got == flightBytes x -> pure Nothing
    | otherwise -> misfit (flightCall x) from e (fromIntegral got) (flightBytes x)
  problem -> pure problem
{-# INLINE judge #-}

misfit :: String -> Int -> CInt -> Int -> Int -> IO (Maybe SomeException)
misfit call from e got bytes
  | e /= 0 = do
    failure <- errorFrom call e
    if errorClass failure == Truncated then problemOf (mismatch "more") else throwIO failure
  | got == 0 = problemOf (wrong RemoteError call ("rank " ++ show from ++ " could not do its part"))
  | otherwise = problemOf (mismatch (show got))
  where
    mismatch has = wrong SizeMismatch call ("rank " ++ show from ++ " has " ++ has ++ " bytes, this one " ++ show bytes)
{-# NOINLINE misfit #-}

problemOf :: IO () -> IO (Maybe SomeException)
problemOf action = (Nothing <$ action) `catchSync` (pure . Just)
{-# INLINE problemOf #-}

-- | Agree on success: if any rank failed, all ranks throw. A rank with an exception of its own
-- throws that; the others throw 'RemoteError' with the lowest failed rank. Takes the duplicate.
--
-- [Blocks]: until all ranks have reported.
-- [Throws]: the exception given, or an 'MPIError' of class 'RemoteError'.
verdict :: String -> Comm 'Intra -> Maybe SomeException -> Steps ()
verdict call shadow problem = do
  first <- phased $ do
    wings@(Wings mine _ _ _) <- wingsOfOne @Int
    Rank rank <- commRank shadow
    poke mine (maybe maxBound (const rank) problem)
    butterfly call shadow min 1 wings Nothing (peek mine)
  liftIO . agreed $ case problem of
    Just e -> throwIO e
    Nothing -> when (first /= maxBound) (wrong RemoteError call ("rank " ++ show first ++ " could not do its part"))

-- | Combine the values of all ranks at rank 0; other ranks return the value of a range. Takes the
-- ways to receive from a rank, to send to one, and to combine a value with that of higher ranks.
climb :: Monad m => Int -> Int -> (Int -> m b) -> (Int -> a -> m ()) -> (a -> b -> m a) -> a -> m a
climb size rank receive give combine = go 1
  where
    go step a
      | step >= size = pure a
      | odd (rank `div` step) = a <$ give (rank - step) a
      | rank + step < size = receive (rank + step) >>= combine a >>= go (2 * step)
      | otherwise = go (2 * step) a

-- | Combine the values of the ranks before this one, if there are any. In each round every rank
-- sends its combined value to a rank at twice the distance of the round before.
prefixes :: Monad m => Int -> Int -> (Int -> m b) -> (Int -> a -> m c) -> (c -> m ()) -> (b -> a -> m a) -> (b -> Maybe p -> m (Maybe p)) -> a -> m (Maybe p)
prefixes size rank receive give given combine before = go 1 Nothing
  where
    go step prefix a
      | step >= size = pure prefix
      | otherwise = do
        giving <- if rank + step < size then Just <$> give (rank + step) a else pure Nothing
        (prefix', a') <-
          if rank >= step
            then do
              b <- receive (rank - step)
              (,) <$> before b prefix <*> combine b a
            else pure (prefix, a)
        mapM_ given giving
        go (2 * step) prefix' a'

-- A value, or the exception that prevented it.
type Made a = Either SomeException (Vector a)

-- A vector that could not be computed is sent as an empty one.
receiveFrom :: Element a => Comm 'Intra -> Int -> Int -> Steps (Made a)
receiveFrom comm n r = do
  (v, _) <- arrivingNew comm (Rank r) treeTag n
  if Vector.length v == n
    then pure (Right v)
    else liftIO . trySync $ wrong SizeMismatch "reduce" ("rank " ++ show r ++ " has " ++ show (Vector.length v) ++ " elements, this one " ++ show n)

zipped :: Element a => (a -> a -> a) -> Made a -> Made a -> Steps (Made a)
zipped f x y = computing . trySync $ do
  a <- either throwIO pure x
  b <- either throwIO pure y
  evaluate (Vector.zipWith f a b)

-- Combine the vectors of all ranks at rank 0.
reduced :: Element a => Comm 'Intra -> Operator a -> Vector a -> Steps (Made a)
reduced shadow op b = do
  (size, rank) <- liftIO (shapeOf shadow)
  climb
    size
    rank
    (receiveFrom shadow (Vector.length b))
    (\r -> leaving shadow (Rank r) treeTag . fromRight (Vector.take 0 b))
    (zipped (operatorFunction op))
    (Right b)

-- | 'Heddle.MPI.Collective.reduce' with a Haskell function.
treeReduce :: Element a => Rank -> Operator a -> Vector a -> Maybe (Mutable.IOVector a) -> Comm 'Intra -> Steps ()
treeReduce root op b into shadow = do
  (size, rank) <- liftIO (shapeOf shadow)
  when (root < 0 || fromIntegral root >= size) . liftIO . agreed $
    wrong InvalidRoot "reduce" (show root ++ " of " ++ show size ++ " ranks")
  result <- reduced shadow op b
  let n = Vector.length b
      give = leaving shadow root treeTag
  final <-
    if root == 0
      then pure result
      else case (rank, Rank rank == root) of
        (0, _) -> result <$ either (const (give (Vector.take 0 b))) give result
        (_, True) -> receiveFrom shadow n 0
        _ -> pure result
  answer <- liftIO . trySync $ case final of
    Left e -> throwIO e
    Right v -> when (Rank rank == root) (maybe (wrong InvalidBuffer "reduce" "the root has no buffer") (copyInto "reduce" v) into)
  verdict "reduce" shadow (either Just (const Nothing) answer)

-- | 'Heddle.MPI.Collective.allreduce' with a Haskell function, or on a few elements.
treeAllreduce :: forall a. Element a => Operator a -> Vector a -> Mutable.IOVector a -> Comm 'Intra -> Steps ()
treeAllreduce op b into shadow = do
  when (Mutable.length into /= Vector.length b) . liftIO . agreed $
    wrong InvalidCount "allreduce" (show (Vector.length b) ++ " elements cannot be reduced into " ++ show (Mutable.length into))
  (_, rank) <- liftIO (shapeOf shadow)
  result <- reduced shadow op b
  copied <- liftIO (trySync (either throwIO (\v -> when (rank == 0) (copyInto "allreduce" v into)) result))
  verdict "allreduce" shadow (either Just (const Nothing) copied)
  side <- liftIO (receiveSide into)
  performingIt (collective "allreduce" kBcast shadow (exchanging (noSide, 0) (side, sideCount side)))

-- | 'Heddle.MPI.Collective.scan' and 'Heddle.MPI.Collective.exscan' with a Haskell function.
treeScan :: Element a => Bool -> Operator a -> Vector a -> Mutable.IOVector a -> Comm 'Intra -> Steps ()
treeScan inclusive op b into shadow = do
  (size, rank) <- liftIO (shapeOf shadow)
  let f = operatorFunction op
      behind = zipped f
      give r = liftIO . isend shadow (Rank r) treeTag . fromRight (Vector.take 0 b)
  prefix <-
    prefixes
      size
      rank
      (receiveFrom shadow (Vector.length b))
      give
      waiting
      behind
      (\x p -> Just <$> maybe (pure x) (behind x) p)
      (Right b)
  whole <- if inclusive then Just <$> maybe (pure (Right b)) (\p -> zipped f p (Right b)) prefix else pure prefix
  answer <- liftIO (trySync (forM_ whole (either throwIO (\v -> copyInto "scan" v into))))
  verdict "scan" shadow (either Just (const Nothing) answer)

copyInto :: Element a => String -> Vector a -> Mutable.IOVector a -> IO ()
copyInto call v into
  | Mutable.length into /= Vector.length v =
    wrong InvalidCount call (show (Vector.length v) ++ " elements cannot be reduced into " ++ show (Mutable.length into))
  | otherwise = Vector.unsafeCopy into v
