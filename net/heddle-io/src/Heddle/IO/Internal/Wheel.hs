{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.IO.Internal.Wheel
-- Description : Hierarchical timing wheel over small integers
-- Stability   : internal, exempt from the version policy
--
-- Seven levels of 64 buckets; level l holds entries whose tick first differs from the
-- present one in the l-th group of six bits. Entries are indexes of registrations, linked through an
-- unboxed array, so that a million of them cost the collector nothing.
--
-- Invariant: every linked entry is in the future of the wheel's present, or at it.
-- Owner: one event manager's loop; no other thread touches it.
-- Cost: insert and remove O(1); advance O(fired + moved); 32 bytes an entry.
module Heddle.IO.Internal.Wheel
  ( -- * Life
    Wheel,
    newWheel,
    clearWheel,

    -- * Time
    Tick,
    tickCeiling,
    tickFloor,
    tickStart,
    noTick,

    -- * Entries
    insert,
    remove,
    nextTick,
    nextTurn,
    advance,
  )
where

import Control.Monad (when)
import Data.Bits (clearBit, countLeadingZeros, countTrailingZeros, setBit, shiftL, shiftR, xor, (.&.))
import Data.Foldable (for_)
import Heddle.Prim.Atomic (Ref, Words, growWords, newRef, newWords, readRef, readWord, wordCount, writeRef, writeWord)

-- | A wheel.
data Wheel = Wheel
  { -- | Entry + 1 at the head of each bucket; 0 for none.
    wheelHeads :: !Words,
    -- | One bit mask of used buckets per level, then the current tick.
    wheelMasks :: !Words,
    -- | Per entry: next + 1, previous + 1, bucket + 1 (0: not linked), tick.
    wheelLinks :: !(Ref Words)
  }

-- | About a millisecond (2^20 ns) of monotonic time.
type Tick = Int

levels :: Int
levels = 7

-- | A wheel whose current tick is this one.
--
-- [Cost]: 4 KB.
newWheel :: Tick -> IO Wheel
newWheel present = do
  masks <- newWords (levels + 1)
  writeWord masks levels present
  Wheel <$> newWords (levels * 64) <*> pure masks <*> (newWords (4 * 64) >>= newRef)

-- | Unlink every entry.
--
-- [Cost]: O(entries ever linked).
clearWheel :: Wheel -> IO ()
clearWheel w = do
  for_ [0 .. levels * 64 - 1] $ \i -> writeWord (wheelHeads w) i 0
  for_ [0 .. levels - 1] $ \i -> writeWord (wheelMasks w) i 0
  links <- readRef (wheelLinks w)
  size <- wordCount links
  for_ [0 .. size - 1] $ \i -> writeWord links i 0

-- | The first tick not before a monotonic time in nanoseconds.
tickCeiling :: Int -> Tick
tickCeiling n
  | n > maxBound - 0x100000 = noTick
  | otherwise = (n + 0xFFFFF) `shiftR` 20
{-# INLINE tickCeiling #-}

-- | The last tick not after a monotonic time in nanoseconds.
tickFloor :: Int -> Tick
tickFloor n = n `shiftR` 20
{-# INLINE tickFloor #-}

-- | When a tick begins, in nanoseconds.
tickStart :: Tick -> Int
tickStart t
  | t >= maxBound `shiftR` 20 = maxBound
  | otherwise = t `shiftL` 20

-- | Later than every tick.
noTick :: Tick
noTick = maxBound

-- | Link an entry at a tick (at the current one if that has passed), moving it there if it is
-- linked already.
insert :: Wheel -> Int -> Tick -> IO ()
insert w entry wanted = do
  links <- room w entry
  linked <- readWord links (4 * entry + 2)
  when (linked /= 0) (unlink w links entry linked)
  present <- readWord (wheelMasks w) levels
  let tick = min (max wanted present) (present + 1 `shiftL` 40)
      differing = tick `xor` present
      level = if differing < 64 then 0 else (63 - countLeadingZeros differing) `quot` 6
      position = (tick `shiftR` (6 * level)) .&. 63
      bucket = 64 * level + position
  first <- readWord (wheelHeads w) bucket
  writeWord links (4 * entry) first
  writeWord links (4 * entry + 1) 0
  writeWord links (4 * entry + 2) (bucket + 1)
  writeWord links (4 * entry + 3) tick
  when (first /= 0) (writeWord links (4 * (first - 1) + 1) (entry + 1))
  writeWord (wheelHeads w) bucket (entry + 1)
  mask <- readWord (wheelMasks w) level
  writeWord (wheelMasks w) level (mask `setBit` position)

-- | Unlink an entry; nothing happens when it is not linked.
remove :: Wheel -> Int -> IO ()
remove w entry = do
  links <- room w entry
  linked <- readWord links (4 * entry + 2)
  when (linked /= 0) (unlink w links entry linked)

unlink :: Wheel -> Words -> Int -> Int -> IO ()
unlink w links entry linked = do
  let bucket = linked - 1
  next <- readWord links (4 * entry)
  previous <- readWord links (4 * entry + 1)
  writeWord links (4 * entry + 2) 0
  when (next /= 0) (writeWord links (4 * (next - 1) + 1) previous)
  if previous /= 0
    then writeWord links (4 * (previous - 1)) next
    else do
      writeWord (wheelHeads w) bucket next
      when (next == 0) (clearUsed w bucket)

clearUsed :: Wheel -> Int -> IO ()
clearUsed w bucket = do
  mask <- readWord (wheelMasks w) (bucket `shiftR` 6)
  writeWord (wheelMasks w) (bucket `shiftR` 6) (mask `clearBit` (bucket .&. 63))

room :: Wheel -> Int -> IO Words
room w entry = do
  links <- readRef (wheelLinks w)
  size <- wordCount links
  if 4 * entry + 3 < size
    then pure links
    else do
      larger <- growWords links (max (2 * size) (4 * (entry + 1)))
      writeRef (wheelLinks w) larger
      pure larger

-- | A tick before which nothing is due: exact when it is near or when few entries are
-- linked around it, else the start of the range that holds the first one; 'noTick' when
-- nothing is linked.
--
-- [Cost]: O(1).
nextTick :: Wheel -> IO Tick
nextTick w = lowest w (\level position -> if level == 0 then bucketStart w level position else earliest w level position)

-- | When to visit a bucket next, to fire its entries or to spread them over lower levels.
--
-- [Cost]: O(1), less than 'nextTick'.
nextTurn :: Wheel -> IO Tick
nextTurn w = lowest w (bucketStart w)

lowest :: Wheel -> (Int -> Int -> IO Tick) -> IO Tick
lowest w found = go 0
  where
    go :: Int -> IO Tick
    go level
      | level == levels = pure noTick
      | otherwise = do
        mask <- readWord (wheelMasks w) level
        if mask == 0
          then go (level + 1)
          else found level (countTrailingZeros mask)
{-# INLINE lowest #-}

-- The first tick in a bucket, if it holds few entries.
earliest :: Wheel -> Int -> Int -> IO Tick
earliest w level position = do
  links <- readRef (wheelLinks w)
  first <- readWord (wheelHeads w) (64 * level + position)
  start <- bucketStart w level position
  let go :: Int -> Int -> Int -> IO Tick
      go count chain !best
        | chain == 0 = pure best
        | count == 0 = pure start
        | otherwise = do
          tick <- readWord links (4 * (chain - 1) + 3)
          next <- readWord links (4 * (chain - 1))
          go (count - 1) next (min best tick)
  go 64 first noTick

bucketStart :: Wheel -> Int -> Int -> IO Tick
bucketStart w level position = do
  present <- readWord (wheelMasks w) levels
  let above = 6 * (level + 1)
  pure $! ((present `shiftR` above) `shiftL` above) + (position `shiftL` (6 * level))

-- | Advance to a tick, unlinking each entry due by then and passing it to the action. The
-- action may insert entries at later ticks.
advance :: Wheel -> Tick -> (Int -> IO ()) -> IO ()
advance w target fire = step
  where
    step = do
      tick <- nextTurn w
      if tick > target
        then do
          present <- readWord (wheelMasks w) levels
          when (target > present) (writeWord (wheelMasks w) levels target)
        else do
          writeWord (wheelMasks w) levels tick
          level <- lowestUsed 0
          mask <- readWord (wheelMasks w) level
          let bucket = 64 * level + countTrailingZeros mask
          first <- readWord (wheelHeads w) bucket
          writeWord (wheelHeads w) bucket 0
          clearUsed w bucket
          hand level first
          step
    lowestUsed level = do
      mask <- readWord (wheelMasks w) level
      if mask /= 0 then pure level else lowestUsed (level + 1)
    hand :: Int -> Int -> IO ()
    hand level chain = when (chain /= 0) $ do
      let entry = chain - 1
      links <- readRef (wheelLinks w)
      next <- readWord links (4 * entry)
      tick <- readWord links (4 * entry + 3)
      writeWord links (4 * entry + 2) 0
      if level == 0 then fire entry else insert w entry tick
      hand level next
