{-# LANGUAGE DataKinds #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Internal.Tree
-- Description : Reductions with Haskell functions
-- Stability   : internal, exempt from the version policy
--
-- Binary trees of messages on a duplicate of the communicator. Neighbouring ranges of ranks are
-- combined, the lower ones on the left: so an operation need not be commutative, and what comes
-- out depends on the number of ranks only. What all ranks get is made once, and copied.
--
-- A function that throws on one rank does not leave the others waiting: what cannot be made is
-- told in its place, and all ranks throw.
--
-- Cost: a message up for each level of the tree; for all ranks, a broadcast. Of a few elements,
-- all ranks exchange theirs in rounds of half a round trip, faster than MPI's own collectives.
-- Owner: the calling thread of each rank, when it is its turn on the duplicate, which all of this
-- is given.
module Heddle.MPI.Internal.Tree
  ( -- * Of a few elements
    Wings (..),
    butterfly,
    butterflyBytes,
    verdict,

    -- * Of vectors, element by element
    treeReduce,
    treeAllreduce,
    treeScan,

    -- * Of anything
    climb,
    prefixes,
  )
where

import Control.Monad (forM_, when)
import Data.Bits (xor)
import Data.Either (fromRight)
import Data.Maybe (isJust)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekElemOff, poke, pokeElemOff)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Collective
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign (Outcome (..))
import Heddle.MPI.Internal.Point
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.MPI.Operator
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Exception

-- The tag of all messages of trees: their order tells them apart.
treeTag :: Tag
treeTag = 1

-- | Up to so many bytes a message is sent at once, whether or not somebody receives.
butterflyBytes :: Int
butterflyBytes = 1024

-- | The memory of a 'butterfly': what this rank has, what arrives, and what keeps both.
data Wings a = Wings !(Ptr a) !(Ptr a) !(IO ())

-- | Combine a few elements of all ranks, in place, on every rank, and then do this. Partners
-- exchange what they have, and combine it in the order of the ranks, so that both get the same
-- bits; of ranks beyond a power of two, every second waits for its neighbour.
--
-- A rank that has nothing to give, or has been sent something of another length, sends empty
-- messages from then on; a rank that receives one does the same. Every rank is reached by every
-- other one, so all fail, and no message is left over.
--
-- [Blocks]: never; its phases follow one another.
butterfly :: forall a r. Element a => String -> Comm 'Intra -> (a -> a -> a) -> Int -> Wings a -> Maybe SomeException -> IO r -> IO (Next r)
butterfly call shadow f n (Wings mine theirs keep) nothing result = do
  (size, rank) <- place shadow
  let full = power 1
        where
          power k = if 2 * k <= size then power (2 * k) else k
      beyond = size - full
      real r = if r < beyond then 2 * r + 1 else r + beyond
      rounds final step me problem
        | step < full = do
          let partner = me `xor` step
              at = real partner
          -- So small that it goes at once, whether or not somebody receives it.
          give at problem . receive theirs at problem $ \problem' ->
            combine (partner < me) problem' >>= rounds final (2 * step) me
        | otherwise = final problem
  if rank >= 2 * beyond
    then rounds end 1 (rank - beyond) nothing
    else
      if even rank
        then give (rank + 1) nothing (receive mine (rank + 1) nothing end)
        else receive theirs (rank - 1) nothing $ \problem -> do
          problem' <- combine True problem
          rounds (\last' -> give (rank - 1) last' (end last')) 1 (rank `div` 2) problem'
  where
    bytes = n * elementBytes @a
    end = maybe (Finished <$> result <* keep) (agreed . throwIO)
    give :: Int -> Maybe SomeException -> IO (Next r) -> IO (Next r)
    give to problem next = do
      lent <- lendOut (mine, if isJust problem then 0 else n)
      pure (ThenSend (sending call Standard shadow (Rank to) treeTag lent) (keep >> next))
    receive :: Ptr a -> Int -> Maybe SomeException -> (Maybe SomeException -> IO (Next r)) -> IO (Next r)
    receive into from problem next = do
      lent <- lendOut (into, n)
      pure . Then (receiving call shadow (Rank from) treeTag lent) {startTells = True} $ \outcome -> do
        keep
        maybe (judge from outcome) (pure . Just) problem >>= next
    judge from outcome
      | outcomeError outcome /= 0 = do
        e <- errorFrom call (fromIntegral (outcomeError outcome))
        if errorClass e == Truncated then problemOf (mismatch from "more") else throwIO e
      | got == bytes = pure Nothing
      | got == 0 = problemOf (wrong RemoteError call ("rank " ++ show from ++ " could not do its part"))
      | otherwise = problemOf (mismatch from (show got))
      where
        got = fromIntegral (outcomeReceived outcome)
    mismatch from has = wrong SizeMismatch call ("rank " ++ show from ++ " has " ++ has ++ " bytes, this one " ++ show bytes)
    combine theirsFirst = \case
      Nothing -> problemOf . forM_ [0 .. n - 1] $ \i -> do
        x <- peekElemOff mine i
        y <- peekElemOff theirs i
        pokeElemOff mine i (if theirsFirst then f y x else f x y)
      problem -> pure problem
    problemOf action = either Just (const Nothing) <$> trySync action
{-# INLINEABLE butterfly #-}

-- | All ranks tell whether they could do their part; if one could not, all throw: those with
-- their own exception that, the others that rank's number. Given a duplicate.
--
-- [Blocks]: until all have told.
-- [Throws]: the exception given, or an 'MPIError' of class 'RemoteError'.
verdict :: String -> Comm 'Intra -> Maybe SomeException -> IO ()
verdict call shadow problem = do
  memory <- newBuffer 16
  Rank rank <- commRank shadow
  let mine = castPtr (bufferPtr memory) :: Ptr Int
  poke mine (maybe maxBound (const rank) problem)
  first <- performPhases (butterfly call shadow min 1 (Wings mine (mine `plusPtr` 8) (keepAlive memory)) Nothing (peek mine))
  agreed $ case problem of
    Just e -> throwIO e
    Nothing -> when (first /= maxBound) (wrong RemoteError call ("rank " ++ show first ++ " could not do its part"))

-- | The value of all ranks combined, at rank 0; elsewhere that of some. Given how to receive
-- from a rank, how to send to one, and how to combine what is here with what is behind it.
climb :: Int -> Int -> (Int -> IO b) -> (Int -> a -> IO ()) -> (a -> b -> IO a) -> a -> IO a
climb size rank receive give combine = go 1
  where
    go step a
      | step >= size = pure a
      | odd (rank `div` step) = a <$ give (rank - step) a
      | rank + step < size = receive (rank + step) >>= combine a >>= go (2 * step)
      | otherwise = go (2 * step) a

-- | The values of the ranks before this one combined, if there are any: in rounds, in each of
-- which everybody gives what it has combined to a rank twice as far.
prefixes :: Int -> Int -> (Int -> IO b) -> (Int -> a -> IO c) -> (c -> IO ()) -> (b -> a -> IO a) -> (b -> Maybe p -> IO (Maybe p)) -> a -> IO (Maybe p)
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

place :: Comm kind -> IO (Int, Int)
place comm = (\size (Rank rank) -> (size, rank)) <$> commSize comm <*> commRank comm

-- What could be made, or why not.
type Made a = Either SomeException (Vector a)

-- Instead of a vector that could not be made an empty one is sent.
receiveFrom :: Element a => Comm 'Intra -> Int -> Int -> IO (Made a)
receiveFrom comm n r = do
  (v, _) <- recvNew comm (Rank r) treeTag n
  if Vector.length v == n
    then pure (Right v)
    else trySync (wrong SizeMismatch "reduce" ("rank " ++ show r ++ " has " ++ show (Vector.length v) ++ " elements, this one " ++ show n))

zipped :: Element a => (a -> a -> a) -> Made a -> Made a -> IO (Made a)
zipped f x y = trySync $ do
  a <- either throwIO pure x
  b <- either throwIO pure y
  evaluate (Vector.zipWith f a b)

-- The vectors of all ranks combined, at rank 0.
reduced :: Element a => Comm 'Intra -> Operator a -> Vector a -> IO (Made a)
reduced shadow op b = do
  (size, rank) <- place shadow
  climb
    size
    rank
    (receiveFrom shadow (Vector.length b))
    (\r -> send shadow (Rank r) treeTag . fromRight (Vector.take 0 b))
    (zipped (operatorFunction op))
    (Right b)

-- | 'Heddle.MPI.Collective.reduce', with a function.
treeReduce :: Element a => Rank -> Operator a -> Vector a -> Maybe (Mutable.IOVector a) -> Comm 'Intra -> IO ()
treeReduce root op b into shadow = do
  (size, rank) <- place shadow
  when (root < 0 || fromIntegral root >= size) . agreed $
    wrong InvalidRoot "reduce" (show root ++ " of " ++ show size ++ " ranks")
  result <- reduced shadow op b
  let n = Vector.length b
      give = send shadow root treeTag
  final <-
    if root == 0
      then pure result
      else case (rank, Rank rank == root) of
        (0, _) -> result <$ either (const (give (Vector.take 0 b))) give result
        (_, True) -> receiveFrom shadow n 0
        _ -> pure result
  answer <- trySync $ case final of
    Left e -> throwIO e
    Right v -> when (Rank rank == root) (maybe (wrong InvalidBuffer "reduce" "the root has no buffer") (copyInto "reduce" v) into)
  verdict "reduce" shadow (either Just (const Nothing) answer)

-- | 'Heddle.MPI.Collective.allreduce', with a function, or of a few elements.
treeAllreduce :: forall a. Element a => Operator a -> Vector a -> Mutable.IOVector a -> Comm 'Intra -> IO ()
treeAllreduce op b into shadow = do
  when (Mutable.length into /= Vector.length b) . agreed $
    wrong InvalidCount "allreduce" (show (Vector.length b) ++ " elements cannot be reduced into " ++ show (Mutable.length into))
  (_, rank) <- place shadow
  result <- reduced shadow op b
  copied <- trySync (either throwIO (\v -> when (rank == 0) (copyInto "allreduce" v into)) result)
  verdict "allreduce" shadow (either Just (const Nothing) copied)
  side <- receiveSide into
  performNow (collective "allreduce" kBcast shadow 0 (-1) False (noSide, 0) (side, sideCount side) id (pure ()))

-- | 'Heddle.MPI.Collective.scan' and 'Heddle.MPI.Collective.exscan', with a function.
treeScan :: Element a => Bool -> Operator a -> Vector a -> Mutable.IOVector a -> Comm 'Intra -> IO ()
treeScan inclusive op b into shadow = do
  (size, rank) <- place shadow
  let f = operatorFunction op
      behind = zipped f
      give r = isend shadow (Rank r) treeTag . fromRight (Vector.take 0 b)
  prefix <-
    prefixes
      size
      rank
      (receiveFrom shadow (Vector.length b))
      give
      wait
      behind
      (\x p -> Just <$> maybe (pure x) (behind x) p)
      (Right b)
  answer <- trySync $ do
    whole <- if inclusive then Just <$> maybe (pure (Right b)) (\p -> zipped f p (Right b)) prefix else pure prefix
    forM_ whole (either throwIO (\v -> copyInto "scan" v into))
  verdict "scan" shadow (either Just (const Nothing) answer)

copyInto :: Element a => String -> Vector a -> Mutable.IOVector a -> IO ()
copyInto call v into
  | Mutable.length into /= Vector.length v =
    wrong InvalidCount call (show (Vector.length v) ++ " elements cannot be reduced into " ++ show (Mutable.length into))
  | otherwise = Vector.unsafeCopy into v
