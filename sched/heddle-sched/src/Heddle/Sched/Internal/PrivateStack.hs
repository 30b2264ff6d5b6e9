-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Sched.Internal.PrivateStack
-- Description : A LIFO stack whose owner pays no locked instruction
-- Stability   : internal, exempt from the version policy
--
-- For work that its owner mostly pops again itself. The thief bears the cost of
-- synchronisation: it makes every core pass a barrier (membarrier), and steals half of the
-- entries in return. See Note [Whose barrier].
--
-- Cost: a push is three stores, a pop two stores and two reads; a steal some microseconds.
-- Owner: one worker; 'takeHalf' is for any thread.
module Heddle.Sched.Internal.PrivateStack
  ( PrivateStack,
    newPrivateStack,
    isPossible,

    -- * The owner's end
    makeRoom,
    pushPrivate,
    popPrivate,
    liftPrivate,
    putBack,
    popSlowly,
    topOfPrivate,
    isEmptied,

    -- * The thieves' end
    offersSome,
    takeHalf,
  )
where

import Control.Monad (forM, forM_, when)
import Heddle.Prim.Atomic
  ( Ref,
    Table,
    Words,
    atomicRead,
    atomicWrite,
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
import Heddle.Prim.Exception (uninterruptibleMask_)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Sched.Internal.Barrier (barrierEverywhere, canBarrierEverywhere)
import Heddle.Sched.Ring (doubled, slotOf)

-- | The entries from top to bottom are there.
data PrivateStack a = PrivateStack
  { -- | Bottom, and the index above which every slot is void (the owner's line); top, and
    -- the top below which thieves have finished (the thieves').
    stackWords :: !Words,
    stackTable :: !(Ref (Table a)),
    -- | Held by a thief, and by the owner while it waits for one.
    stackLock :: !Lock,
    -- | What an empty slot holds, so that it keeps nothing alive.
    stackVoid :: a
  }

bottomWord, highWord, topWord, finishedWord, stackWordCount :: Int
bottomWord = 0
highWord = 1
topWord = 8
finishedWord = 9
stackWordCount = 16

-- | An empty stack, of a capacity that is a power of two.
--
-- [Cost]: O(capacity).
newPrivateStack :: Int -> a -> IO (PrivateStack a)
newPrivateStack capacity void = do
  w <- newWords stackWordCount
  table <- newTable capacity void >>= newRef
  lock <- newLock
  pure (PrivateStack w table lock void)

-- | Does the system let one thread make all pass a barrier?
isPossible :: Bool
isPossible = canBarrierEverywhere

-- | Make sure that one 'pushPrivate' fits.
--
-- [Cost]: two reads; now and then a copy.
-- [Threads]: the owner.
makeRoom :: PrivateStack a -> IO ()
makeRoom p = do
  bottom <- readWord (stackWords p) bottomWord
  finished <- readAcquire (stackWords p) finishedWord
  table <- readRef (stackTable p)
  when (bottom - finished >= tableSize table) (grow p)
{-# INLINE makeRoom #-}

-- | A table of twice the size. Under the lock: a thief clears what it has taken in the table
-- that it knows, and a copy made meanwhile would keep that alive.
grow :: PrivateStack a -> IO ()
-- No thread parks with the lock held, so the wait for it is a matter of microseconds; and an
-- exception must not leave a worker here, between tasks.
grow p = uninterruptibleMask_ . withLock (stackLock p) $ do
  bottom <- readWord (stackWords p) bottomWord
  finished <- readWord (stackWords p) finishedWord
  table <- readRef (stackTable p)
  doubled table (stackVoid p) finished bottom >>= writeRef (stackTable p)
{-# NOINLINE grow #-}

-- | Push, after 'makeRoom'. Allocates nothing.
--
-- [Cost]: three stores.
-- [Threads]: the owner.
pushPrivate :: PrivateStack a -> a -> IO ()
pushPrivate p !x = do
  bottom <- readWord (stackWords p) bottomWord
  table <- readRef (stackTable p)
  writeEntry table (slotOf table bottom) x
  writeWord (stackWords p) highWord (bottom + 1)
  writeRelease (stackWords p) bottomWord (bottom + 1)
{-# INLINE pushPrivate #-}

-- | Pop the newest entry. If there is none, or a thief may be taking it, do the first action:
-- 'popSlowly' finds out which.
--
-- [Cost]: three stores and three reads, nothing locked.
-- [Threads]: the owner.
popPrivate :: PrivateStack a -> IO b -> (a -> IO b) -> IO b
popPrivate p none some = do
  let w = stackWords p
  before <- readWord w bottomWord
  top <- readWord w topWord
  if top >= before
    then none
    else do
      let i = before - 1
      writeWord w bottomWord i
      -- Not to be moved before the store by the compiler; see the Note for the processor.
      top' <- readAcquire w topWord
      if top' > i
        then do
          writeWord w bottomWord before
          none
        else do
          table <- readRef (stackTable p)
          let slot = slotOf table i
          x <- readEntry table slot
          writeEntry table slot (stackVoid p)
          some x
{-# INLINE popPrivate #-}

-- | 'popPrivate', but the slot keeps what was there until something else is pushed or
-- popped; so 'putBack' costs next to nothing.
--
-- [Cost]: a store and five reads, nothing locked.
-- [Threads]: the owner.
liftPrivate :: PrivateStack a -> IO b -> (a -> IO b) -> IO b
liftPrivate p none some = do
  let w = stackWords p
  before <- readWord w bottomWord
  top <- readWord w topWord
  if top >= before
    then none
    else do
      let i = before - 1
      writeWord w bottomWord i
      top' <- readAcquire w topWord
      if top' > i
        then do
          writeWord w bottomWord before
          none
        else do
          table <- readRef (stackTable p)
          high <- readWord w highWord
          when (high > before) (clearAbove p before high)
          readEntry table (slotOf table i) >>= some
{-# INLINE liftPrivate #-}

-- | Undo a 'liftPrivate', if nothing has been pushed since.
--
-- [Cost]: a store.
-- [Threads]: the owner.
putBack :: PrivateStack a -> IO ()
putBack p = do
  bottom <- readWord (stackWords p) bottomWord
  writeRelease (stackWords p) bottomWord (bottom + 1)
{-# INLINE putBack #-}

clearAbove :: PrivateStack a -> Int -> Int -> IO ()
clearAbove p from to = do
  table <- readRef (stackTable p)
  forM_ [from .. to - 1] $ \i -> writeEntry table (slotOf table i) (stackVoid p)
  writeWord (stackWords p) highWord from
{-# NOINLINE clearAbove #-}

-- | Is the stack certainly empty? A thief in the middle of a steal may put entries back.
--
-- [Cost]: two reads.
-- [Threads]: the owner.
isEmptied :: PrivateStack a -> IO Bool
isEmptied p = (<=) <$> readWord (stackWords p) bottomWord <*> readWord (stackWords p) finishedWord
{-# INLINE isEmptied #-}

-- | Look at the newest entry, or do the first action when there is none.
--
-- [Cost]: three reads.
-- [Threads]: the owner. A thief may take it the next moment, or have put the void there.
topOfPrivate :: PrivateStack a -> IO b -> (a -> IO b) -> IO b
topOfPrivate p none some = do
  emptied <- isEmptied p
  if emptied
    then none
    else do
      bottom <- readWord (stackWords p) bottomWord
      table <- readRef (stackTable p)
      readEntry table (slotOf table (bottom - 1)) >>= some

-- | What 'popPrivate' does when it has found nothing: pop after any thief has finished.
--
-- [Threads]: the owner.
-- [Blocks]: for the time of a theft.
popSlowly :: PrivateStack a -> IO (Maybe a)
popSlowly p = withLock (stackLock p) (popPrivate p (pure Nothing) (pure . Just))

-- The thieves' end -----------------------------------------------------------

-- | Is there an oldest entry, and is it acceptable?
--
-- [Cost]: two reads, if not.
-- [Threads]: any.
offersSome :: PrivateStack a -> (a -> Bool) -> IO Bool
offersSome p acceptable = do
  top <- atomicRead (stackWords p) topWord
  bottom <- atomicRead (stackWords p) bottomWord
  if top >= bottom
    then pure False
    else do
      table <- readRef (stackTable p)
      acceptable <$> readEntry table (slotOf table top)

-- | Take the older half, up to the first entry that is not acceptable.
--
-- [Cost]: some microseconds: a system call that interrupts every core this process runs on.
-- [Threads]: any but the owner.
-- [Blocks]: while another thief takes its half.
takeHalf :: PrivateStack a -> (a -> Bool) -> IO [a]
takeHalf p acceptable = withLock (stackLock p) $ do
  let w = stackWords p
  top <- readWord w topWord
  bottom <- atomicRead w bottomWord
  let half = (bottom - top + 1) `quot` 2
  if half <= 0
    then pure []
    else do
      atomicWrite w topWord (top + half)
      barrierEverywhere
      -- Lower if the owner began to pop before the barrier.
      bottom' <- atomicRead w bottomWord
      table <- readRef (stackTable p)
      let offered = max 0 (min half (bottom' - top))
      found <- forM [top .. top + offered - 1] (readEntry table . slotOf table)
      let taken = takeWhile acceptable found
          top' = top + length taken
      forM_ [top .. top' - 1] $ \i -> writeEntry table (slotOf table i) (stackVoid p)
      atomicWrite w topWord top'
      atomicWrite w finishedWord top'
      pure taken

-- Note [Whose barrier]
-- ~~~~~~~~~~~~~~~~~~~~
-- The owner announces what it pops by lowering the bottom, then reads the top; a thief
-- announces what it takes by raising the top, then reads the bottom. For one of them to
-- see the other, each needs a full barrier in between. The owner's is left out: the
-- thief's is one that passes on every core (membarrier). If the owner's store lies before
-- that, the thief sees it; if it lies after, so does the owner's read of the top, which
-- then is the new one, and the owner backs out.
--
-- A thief that sees fewer entries than it announced, or accepts none, lowers the top again.
-- So an owner that finds nothing may have looked at such a moment. The finished top tells it
-- whether something may be left, and then it waits for the lock. A push while the top is too
-- high does no harm: either the thief sees the new bottom, and with it the new entry, or it
-- lowers the top below it.
--
-- A push releases the bottom, which the thief acquires before it reads the slot. The order of
-- the owner's lowered bottom and its read of the top needs no fence on any machine: the
-- thief's barrier falls before the one or after the other, since a processor moves neither
-- across it.
--
-- A slot is the owner's again when the thief has read it: the finished top says so.
