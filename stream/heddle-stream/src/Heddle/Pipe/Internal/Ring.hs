-- |
-- Module      : Heddle.Pipe.Internal.Ring
-- Description : A bounded queue between two threads
-- Stability   : internal
--
-- One thread puts, one takes. Each writes its own index and reads the other's, and keeps a
-- copy of what it last saw of it, so that in a stream that flows the two seldom touch each
-- other's lines. Who finds nothing looks again for a moment, says that it waits, looks once
-- more, and parks.
--
-- Barriers: an index is written after the entry ('atomicWrite'), and read before it
-- ('atomicRead'). @waiting@ is written before the last look at the index, and read after the
-- index is written, both sequentially consistent: so one of the two sees the other.
--
-- Cost: 10 to 20 ns for each value on either side; parking and waking some microseconds.
-- Owner: as said at each.
module Heddle.Pipe.Internal.Ring
  ( Ring,
    newRing,
    put,
    finish,
    Taken (..),
    take,
    awaitFinish,
  )
where

import Control.Monad (when)
import Heddle.Prim.Atomic
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import Prelude hiding (take)

-- | A queue of @a@s that ends with an @r@.
data Ring a r = Ring
  { entries :: !(Table (Maybe a)),
    words' :: !Words,
    -- | Wakes who puts.
    roomCell :: !WaitCell,
    -- | Wakes who takes.
    itemCell :: !WaitCell,
    outcome :: !(Ref (Maybe r))
  }

-- What is in which word, each with a line or two of its own.
putIndex, takeIndex, putSeen, takeSeen, putWaits, takeWaits, isFinished :: Int
putIndex = 16
takeSeen = 32 -- what who puts has seen of takeIndex
takeIndex = 48
putSeen = 64 -- what who takes has seen of putIndex
putWaits = 80
takeWaits = 96
isFinished = 112

-- | A queue for so many, at least one.
newRing :: Int -> IO (Ring a r)
newRing n = Ring <$> newTable (max 1 n) Nothing <*> newWords 128 <*> newWaitCell <*> newWaitCell <*> newRef Nothing

-- | Add one at the end.
--
-- [Blocks]: parks while it is full.
-- [Masking]: interruptible.
-- [Threads]: one.
put :: Ring a r -> a -> IO ()
put ring a = do
  let ws = words' ring
      size = tableSize (entries ring)
  i <- readWord ws putIndex
  seen <- readWord ws takeSeen
  when (i - seen >= size) $
    waitUntil ws putWaits (roomCell ring) (\free -> i - free < size) (atomicRead ws takeIndex) >>= writeWord ws takeSeen
  writeEntry (entries ring) (i `rem` size) (Just a)
  atomicWrite ws putIndex (i + 1)
  wake ws takeWaits (itemCell ring)
{-# INLINE put #-}

-- | There will be no more, and this is the outcome.
--
-- [Blocks]: never.
-- [Threads]: the one that puts.
finish :: Ring a r -> r -> IO ()
finish ring r = do
  writeRef (outcome ring) (Just r)
  atomicWrite (words' ring) isFinished 1
  unpark (itemCell ring)

-- | What there was to take.
data Taken a r = Item a | Finished r

-- | The first one, or the outcome after all of them.
--
-- [Blocks]: parks while it is empty.
-- [Masking]: interruptible.
-- [Threads]: one.
take :: Ring a r -> IO (Taken a r)
take ring = do
  i <- readWord ws takeIndex
  seen <- readWord ws putSeen
  if seen > i then item i else look i
  where
    ws = words' ring
    size = tableSize (entries ring)
    look i = do
      -- In this order: what was put before it finished is seen then.
      seen <- waitUntil ws takeWaits (itemCell ring) (\(n, done) -> n > i || done == 1) $ do
        done <- atomicRead ws isFinished
        n <- atomicRead ws putIndex
        pure (n, done)
      writeWord ws putSeen (fst seen)
      if fst seen > i then item i else readRef (outcome ring) >>= maybe (look i) (pure . Finished)
    item i = do
      entry <- readEntry (entries ring) (i `rem` size)
      writeEntry (entries ring) (i `rem` size) Nothing
      atomicWrite ws takeIndex (i + 1)
      wake ws putWaits (roomCell ring)
      maybe (take ring) (pure . Item) entry
{-# INLINE take #-}

-- | Wait for the outcome, whatever is still in the queue.
--
-- [Blocks]: parks.
-- [Threads]: the one that takes.
awaitFinish :: Ring a r -> IO ()
awaitFinish ring =
  atomicRead (words' ring) isFinished >>= \done -> when (done == 0) $ do
    park (itemCell ring)
    awaitFinish ring

-- | Look until there is what is looked for: some times at once, then whenever woken.
waitUntil :: Words -> Int -> WaitCell -> (a -> Bool) -> IO a -> IO a
waitUntil ws waits cell good look = spin (64 :: Int)
  where
    spin n = look >>= \a -> if good a then pure a else if n > 0 then spin (n - 1) else waiting
    waiting = do
      atomicWrite ws waits 1
      a <- look
      if good a
        then a <$ atomicWrite ws waits 0
        else park cell >> waiting
{-# INLINE waitUntil #-}

-- | Wake the other, if it waits.
wake :: Words -> Int -> WaitCell -> IO ()
wake ws waits cell =
  atomicRead ws waits >>= \w -> when (w == 1) $ do
    atomicWrite ws waits 0
    unpark cell
{-# INLINE wake #-}
