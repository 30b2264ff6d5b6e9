-- |
-- Module      : Heddle.Sched.Bag
-- Description : A list that forgets what is no longer needed
-- Stability   : internal
--
-- What a scope has to know until it ends: its failures, and the scopes inside it. Either may come
-- without end in a run that goes on for ever, so a bag that has doubled drops what it no longer needs.
--
-- Cost: adding is O(1) amortised.
-- Owner: the scope; any worker may add.
module Heddle.Sched.Bag
  ( Bag,
    newBag,
    addTo,
    inBag,
  )
where

import Control.Monad (filterM, when)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)

-- | The newest is first.
newtype Bag a = Bag (Ref (Contents a))

-- How often it has been sifted, how many there are, how many there may be before it is sifted
-- again, and they.
data Contents a = Contents !Int !Int !Int [a]

-- | An empty bag.
--
-- [Cost]: two words.
newBag :: IO (Bag a)
newBag = Bag <$> newRef nothing

-- One for all, so that a bag that stays empty is a reference only.
nothing :: Contents a
nothing = Contents 0 0 firstLimit []

-- | How many a bag keeps before it looks which are still needed.
firstLimit :: Int
firstLimit = 64

-- | Add one. If there are many, the action tells which are still needed.
--
-- [Cost]: O(1) amortised: a bag looks at all again when there are twice as many as it found needed.
-- [Threads]: any.
addTo :: Bag a -> (a -> IO Bool) -> a -> IO ()
addTo bag@(Bag ref) isNeeded x = do
  many <- modifyRef ref $ \(Contents sifted n limit xs) -> (Contents sifted (n + 1) limit (x : xs), n + 1 >= limit)
  when many (sift bag isNeeded)

-- | Drop those that are not needed; those that others add meanwhile stay.
sift :: Bag a -> (a -> IO Bool) -> IO ()
sift (Bag ref) isNeeded = do
  Contents sifted n _ xs <- readRef ref
  needed <- filterM isNeeded xs
  let many = length needed
  modifyRef ref $ \now@(Contents sifted' n' _ xs') ->
    if sifted' /= sifted
      then (now, ())
      else
        let size = many + n' - n
         in (Contents (sifted + 1) size (max firstLimit (2 * size)) (take (n' - n) xs' ++ needed), ())

-- | All that are in the bag, the newest first.
--
-- [Cost]: one read.
inBag :: Bag a -> IO [a]
inBag (Bag ref) = (\(Contents _ _ _ xs) -> xs) <$> readRef ref
