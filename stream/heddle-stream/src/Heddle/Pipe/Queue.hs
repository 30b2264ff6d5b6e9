-- |
-- Module      : Heddle.Pipe.Queue
-- Description : A bounded queue from one thread to another
-- Stability   : stable
--
-- A single-producer, single-consumer queue. Each thread writes its own index and keeps a
-- copy of what it last saw of the other's, so that while both run they seldom touch each
-- other's cache lines. A thread that has to wait spins briefly, announces that it waits,
-- looks once more, and parks.
--
-- Barriers: an index is written after the entry ('atomicWrite'), and read before it
-- ('atomicRead'). A thread sets its @waits@ word before its last look at the index, and the
-- other reads that word after writing the index, both sequentially consistent: so one of the
-- two sees the other.
--
-- Cost: 10 to 20 ns for each item on either side; parking and waking take some microseconds.
-- Owner: one thread puts, one takes; either may be cancelled while it waits.
module Heddle.Pipe.Queue
  ( Queue,
    newQueue,

    -- * The producer
    put,
    finish,
    isWanted,

    -- * The consumer
    take,
    Taken (..),
    refuse,
    awaitFinish,
  )
where

import Control.Monad (when)
import Heddle.Prim.Atomic
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import Prelude hiding (take)

-- | A queue of items that ends with an outcome.
data Queue item outcome = Queue
  { entries :: !(Table (Maybe item)),
    queueWords :: !Words,
    -- | Wakes the producer.
    roomCell :: !WaitCell,
    -- | Wakes the consumer.
    itemCell :: !WaitCell,
    queueOutcome :: !(Ref (Maybe outcome))
  }

-- The words' indices, each on its own cache lines.
putIndex, takeIndex, putSeen, takeSeen, putWaits, takeWaits, isFinished, isRefused :: Int
putIndex = 16
takeSeen = 32 -- what the producer has seen of takeIndex
takeIndex = 48
putSeen = 64 -- what the consumer has seen of putIndex
putWaits = 80
takeWaits = 96
isFinished = 112
isRefused = 128

-- | An empty queue.
--
-- [Units]: how many items it holds; at least one.
newQueue :: Int -> IO (Queue item outcome)
newQueue size = Queue <$> newTable (max 1 size) Nothing <*> newWords 144 <*> newWaitCell <*> newWaitCell <*> newRef Nothing

-- | Add an item at the end. 'False': the consumer wants no more, and the item is dropped.
--
-- [Cost]: 10 to 20 ns.
-- [Blocks]: parks while the queue is full.
-- [Masking]: interruptible.
-- [Threads]: the producer.
put :: Queue item outcome -> item -> IO Bool
put queue item = do
  let ws = queueWords queue
      size = tableSize (entries queue)
  index <- readWord ws putIndex
  seen <- readWord ws takeSeen
  when (index - seen >= size) $
    waitUntil ws putWaits (roomCell queue) (\free -> index - free < size) (atomicRead ws takeIndex) >>= writeWord ws takeSeen
  refused <- atomicRead ws isRefused
  if refused == 1
    then pure False
    else do
      writeEntry (entries queue) (index `rem` size) (Just item)
      atomicWrite ws putIndex (index + 1)
      wake ws takeWaits (itemCell queue)
      pure True
{-# INLINE put #-}

-- | End the queue: after the items that are in it, the consumer gets this outcome.
--
-- [Blocks]: never.
-- [Threads]: the producer.
finish :: Queue item outcome -> outcome -> IO ()
finish queue outcome = do
  writeRef (queueOutcome queue) (Just outcome)
  atomicWrite (queueWords queue) isFinished 1
  unpark (itemCell queue)

-- | Has the consumer not refused more? 'put' reports it, too.
--
-- [Blocks]: never.
-- [Threads]: any.
isWanted :: Queue item outcome -> IO Bool
isWanted queue = (== 0) <$> atomicRead (queueWords queue) isRefused

-- | The result of 'take'.
data Taken item outcome = Item item | Finished outcome

-- | The first item, or the outcome once all items have been taken.
--
-- [Cost]: 10 to 20 ns.
-- [Blocks]: parks while the queue is empty.
-- [Masking]: interruptible.
-- [Threads]: the consumer.
take :: Queue item outcome -> IO (Taken item outcome)
take queue = do
  index <- readWord ws takeIndex
  seen <- readWord ws putSeen
  if seen > index then takeEntry index else look index
  where
    ws = queueWords queue
    size = tableSize (entries queue)
    look index = do
      -- In this order: a producer that has finished has put all its items.
      (seen, _) <- waitUntil ws takeWaits (itemCell queue) (\(n, done) -> n > index || done == 1) $ do
        done <- atomicRead ws isFinished
        n <- atomicRead ws putIndex
        pure (n, done)
      writeWord ws putSeen seen
      if seen > index then takeEntry index else readRef (queueOutcome queue) >>= maybe (look index) (pure . Finished)
    takeEntry index = do
      entry <- readEntry (entries queue) (index `rem` size)
      writeEntry (entries queue) (index `rem` size) Nothing
      atomicWrite ws takeIndex (index + 1)
      wake ws putWaits (roomCell queue)
      maybe (take queue) (pure . Item) entry
{-# INLINE take #-}

-- | Want no more: from now on 'put' answers 'False', and one that waits for room returns.
-- What is still in the queue is dropped. After this, the consumer may call 'awaitFinish' but
-- not 'take'.
--
-- [Blocks]: never.
-- [Threads]: the consumer.
refuse :: Queue item outcome -> IO ()
refuse queue = do
  atomicWrite (queueWords queue) isRefused 1
  -- A producer that waits sees room, and then that it is refused: it waits for one word only.
  atomicWrite (queueWords queue) takeIndex maxBound
  unpark (roomCell queue)

-- | Wait until the producer has finished, whatever is still in the queue.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: the consumer.
awaitFinish :: Queue item outcome -> IO ()
awaitFinish queue =
  atomicRead (queueWords queue) isFinished >>= \done -> when (done == 0) $ do
    park (itemCell queue)
    awaitFinish queue

-- Read until the answer is good: some times at once, then after each wake-up.
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

-- Wake the other thread if it waits.
wake :: Words -> Int -> WaitCell -> IO ()
wake ws waits cell =
  atomicRead ws waits >>= \w -> when (w == 1) $ do
    atomicWrite ws waits 0
    unpark cell
{-# INLINE wake #-}
