-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Deque
-- Description : Work-stealing deques
-- Stability   : internal
--
-- The deque of Chase and Lev: its owner pushes and pops at the bottom, thieves take from
-- the top. Indices only grow; they go round in a "Heddle.Sched.Ring".
--
-- Cost: a push is two stores; a pop one locked instruction; a steal one compare-and-set.
-- Owner: one worker; 'steal' is for any thread.
module Heddle.Sched.Deque
  ( Deque,
    newDeque,

    -- * The owner's end
    reserve,
    push,
    popOr,
    scrub,

    -- * The thieves' end
    Stolen (..),
    steal,
    offers,
  )
where

import Control.Monad (forM_, when)
import Heddle.Prim.Atomic
  ( Ref,
    Table,
    Words,
    atomicRead,
    compareAndSet,
    fetchAdd,
    newRef,
    newTable,
    newWords,
    readAcquire,
    readEntry,
    readRef,
    readWord,
    tableSize,
    writeEntry,
    writeRef,
    writeRelease,
    writeWord,
  )
import Heddle.Sched.Ring (doubled, slotOf)

-- | A deque that grows as needed.
data Deque a = Deque
  { -- | Bottom and the scrubbed index (the owner's line), and top (the thieves').
    dequeWords :: !Words,
    -- | Replaced by one twice as large when full; thieves may still read the old one.
    dequeTable :: !(Ref (Table a)),
    -- | What an empty slot holds, so that it keeps nothing alive.
    dequeVoid :: a
  }

bottomWord, scrubbedWord, topWord, dequeWordCount :: Int
bottomWord = 0
scrubbedWord = 1
topWord = 8
dequeWordCount = 16

-- | An empty deque, of a capacity that is a power of two.
--
-- [Cost]: O(capacity).
newDeque :: Int -> a -> IO (Deque a)
newDeque capacity void = do
  w <- newWords dequeWordCount
  table <- newTable capacity void >>= newRef
  pure (Deque w table void)

-- | Make sure that one 'push' fits.
--
-- [Cost]: two reads; now and then a copy.
-- [Threads]: the owner.
reserve :: Deque a -> IO ()
reserve d = do
  bottom <- readWord (dequeWords d) bottomWord
  top <- readAcquire (dequeWords d) topWord
  table <- readRef (dequeTable d)
  when (bottom - top >= tableSize table) (grow d bottom top table)
{-# INLINE reserve #-}

-- Strict, so that 'reserve' allocates nothing to call it: scripts/check_safe_points.py looks for
-- its worker.
grow :: Deque a -> Int -> Int -> Table a -> IO ()
grow !d !bottom !top !table = doubled table (dequeVoid d) top bottom >>= writeRef (dequeTable d)
{-# NOINLINE grow #-}

-- | Push at the bottom, after 'reserve'. Allocates nothing, so that no asynchronous
-- exception falls into it.
--
-- [Cost]: two stores, plain ones on x86-64; see Note [Order of stores].
-- [Threads]: the owner.
push :: Deque a -> a -> IO ()
push d !x = do
  bottom <- readWord (dequeWords d) bottomWord
  table <- readRef (dequeTable d)
  writeEntry table (slotOf table bottom) x
  writeRelease (dequeWords d) bottomWord (bottom + 1)
{-# INLINE push #-}

-- | Pop the newest entry, or do the first action when there is none. Always a full barrier.
--
-- [Cost]: one locked instruction, two for the last element.
-- [Threads]: the owner.
popOr :: Deque a -> IO b -> (a -> IO b) -> IO b
popOr d none some = do
  let w = dequeWords d
  before <- fetchAdd w bottomWord (-1)
  let i = before - 1
  top <- readWord w topWord
  if top > i
    then writeWord w bottomWord before >> none
    else do
      table <- readRef (dequeTable d)
      let slot = slotOf table i
      x <- readEntry table slot
      if top < i
        then writeEntry table slot (dequeVoid d) >> some x
        else do
          won <- compareAndSet w topWord top (top + 1)
          writeWord w bottomWord before
          writeEntry table slot (dequeVoid d)
          if won then some x else none
{-# INLINE popOr #-}

-- | Clear the slots of stolen entries, which they would keep alive.
--
-- [Cost]: O(steals since the last time), at most the capacity.
-- [Threads]: the owner.
scrub :: Deque a -> IO ()
scrub d = do
  top <- readAcquire (dequeWords d) topWord
  scrubbed <- readWord (dequeWords d) scrubbedWord
  when (top /= scrubbed) (scrubTo d scrubbed top)
{-# INLINE scrub #-}

scrubTo :: Deque a -> Int -> Int -> IO ()
scrubTo d scrubbed top = do
  bottom <- readWord (dequeWords d) bottomWord
  table <- readRef (dequeTable d)
  -- Slots of lower indices hold entries that have been pushed since.
  forM_ [max scrubbed (bottom - tableSize table) .. top - 1] $ \i -> writeEntry table (slotOf table i) (dequeVoid d)
  writeWord (dequeWords d) scrubbedWord top
{-# NOINLINE scrubTo #-}

-- | How a steal ended.
data Stolen a
  = -- | The deque is empty.
    Nothing'
  | -- | Another thread took the oldest entry first; there may be more.
    Lost
  | -- | The oldest entry is not acceptable to this thief.
    Refused
  | -- | The oldest entry.
    Stolen a

-- | Take the oldest, if it is acceptable.
--
-- [Cost]: two reads when empty; else one compare-and-set.
-- [Threads]: any.
steal :: Deque a -> (a -> Bool) -> IO (Stolen a)
steal d acceptable = do
  let w = dequeWords d
  top <- atomicRead w topWord
  bottom <- atomicRead w bottomWord
  if top >= bottom
    then pure Nothing'
    else do
      table <- readRef (dequeTable d)
      x <- readEntry table (slotOf table top)
      if acceptable x
        then do
          won <- compareAndSet w topWord top (top + 1)
          pure (if won then Stolen x else Lost)
        else do
          top' <- atomicRead w topWord
          pure (if top' == top then Refused else Lost)

-- | Is there an oldest entry, and is it acceptable?
--
-- [Cost]: two reads when empty.
-- [Threads]: any.
offers :: Deque a -> (a -> Bool) -> IO Bool
offers d acceptable = do
  let w = dequeWords d
  top <- atomicRead w topWord
  bottom <- atomicRead w bottomWord
  if top >= bottom
    then pure False
    else do
      table <- readRef (dequeTable d)
      acceptable <$> readEntry table (slotOf table top)

-- Note [Order of stores]
-- ~~~~~~~~~~~~~~~~~~~~~~
-- A thief that sees the new bottom must see the slot (and what the pushed value refers to,
-- and the counts of its scope): 'push' releases the bottom, the thief
-- acquires it. 'popOr' lowers the bottom, and then reads the top, after a full barrier;
-- 'steal' raises the top by another. The owner writes to a slot again only after it has
-- acquired the top that a thief raised when it had read that slot.
--
-- The owner clears a slot only after it has taken its element: by index when older ones
-- remain, or by winning (or losing) the compare-and-set on top when it was the last. A
-- thief that read the slot before loses that compare-and-set, so it never keeps a
-- cleared one. So does a thief that reads a slot below the top, which 'scrub' may have
-- cleared.
