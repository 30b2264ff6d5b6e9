-- |
-- Module      : Heddle.OpenFlow.Hosts
-- Description : Where hosts are: a table that the collector does not scan
-- Stability   : stable
--
-- Open addressing in one array of machine words: two words for a host, its key (VLAN and address) and its place
-- (switch, port and the minute in which it was last seen). The collector neither scans nor moves the array. A table
-- starts at the size that it is given and doubles up to its limit, so that a switch with few hosts costs little, and
-- a table that starts at its limit never has to rehash.
--
-- Invariant: a key of an array is set once, by compare-and-set, and stays; a place is replaced whole. So a reader
-- sees a host's old or new place and nothing else.
-- Cost: about two cache misses for a host in a large table.
-- Owner: any thread.
-- Shared writes per lookup: 0; per learning of a host that is known and has not moved: one a minute.
module Heddle.OpenFlow.Hosts
  ( Hosts,
    newHosts,
    hostsCapacity,
    hostsCount,

    -- * Keys and places
    HostKey,
    hostKey,
    Place,
    noPlace,
    placeOf,
    placeSwitch,
    placePort,

    -- * Use
    Learned (..),
    learnHost,
    learnHostThen,
    refreshHost,
    findHost,
    findHostThen,
    prefetchHosts,
    forgetPlace,
    forgetSwitch,
    forgetOlder,
    hostsList,

    -- * Bytes
    packed,
  )
where

import Control.Monad (void, when)
import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Word (Word16, Word64, Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Hash (newKey, sipHash13)
import Heddle.OpenFlow.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Lock (Lock, newLock, withLock)

-- | A table of hosts.
data Hosts = Hosts
  { hostsSlots :: !(Ref Slots),
    hostsSeed :: !Int,
    -- | The most hosts.
    hostsCapacity :: !Int,
    -- | Word 0: the minute.
    hostsCounts :: !Words,
    -- | Held while the slots are replaced.
    hostsGrowing :: !Lock
  }

-- The slots; their number less one, which is a power of two less one; how many may be used; word 0: how many are.
data Slots = Slots !Words !Int !Int !Words

-- | A VLAN and an address, as one word.
newtype HostKey = HostKey Int
  deriving stock (Eq)

-- | The lower 12 bits of a VLAN tag, 0 without one, and an address.
hostKey :: Word16 -> Mac -> HostKey
hostKey vlan (Mac mac) = HostKey (1 `shiftL` 60 .|. (fromIntegral vlan .&. 0xfff) `shiftL` 48 .|. fromIntegral mac)
{-# INLINE hostKey #-}

-- | A switch's number and a port.
newtype Place = Place Int
  deriving stock (Eq, Show)

-- | No place: the host is not known.
noPlace :: Place
noPlace = Place 0

-- | The place of a port of a switch by its number, below 2^19 - 1.
placeOf :: Int -> PortNo -> Place
-- The switch's number in 19 bits above the port, plus one, so that no place is 0; the minute, in 11 bits, above both.
placeOf switch (PortNo port) = Place (((switch + 1) .&. 0x7ffff) `shiftL` 32 .|. fromIntegral port)
{-# INLINE placeOf #-}

-- | The switch's number.
placeSwitch :: Place -> Int
placeSwitch (Place w) = ((w `shiftR` 32) .&. 0x7ffff) - 1
{-# INLINE placeSwitch #-}

-- | The port.
placePort :: Place -> PortNo
placePort (Place w) = PortNo (fromIntegral w)
{-# INLINE placePort #-}

whereMask :: Int
whereMask = 1 `shiftL` 51 - 1

-- | @newHosts first most@: a table that has room for @first@ hosts at first, and for @most@ at last. It has at most
-- three times as many slots of 16 bytes.
--
-- [Cost]: O(first).
newHosts :: Int -> Int -> IO Hosts
newHosts first most = do
  key <- newKey
  slots <- newSlots (min first most)
  counts <- newWords 1
  -- Addresses are chosen by hosts: without a secret, they could choose those that meet in one slot.
  Hosts <$> newRef slots <*> pure (fromIntegral (sipHash13 key B.empty)) <*> pure most <*> pure counts <*> newLock

newSlots :: Int -> IO Slots
newSlots room = do
  ws <- newWords (2 * n)
  Slots ws (n - 1) room <$> newWords 1
  where
    n = head [size | k <- [4 :: Int ..], let size = 1 `shiftL` k, size >= room + room `quot` 3]

-- | The number of hosts that have a slot; also those that were forgotten since the slots were last replaced.
hostsCount :: Hosts -> IO Int
hostsCount hosts = readRef (hostsSlots hosts) >>= \(Slots _ _ _ used) -> readWord used 0

scatter :: Int -> Int
scatter x0 = fromIntegral (x2 `xor` (x2 `shiftR` 32))
  where
    x1 = (fromIntegral x0 :: Word64) * 0x9e3779b97f4a7c15
    x2 = (x1 `xor` (x1 `shiftR` 29)) * 0xbf58476d1ce4e5b9
{-# INLINE scatter #-}

slotOf :: Hosts -> Int -> Int -> Int
slotOf hosts mask key = scatter (key `xor` hostsSeed hosts) .&. mask
{-# INLINE slotOf #-}

-- | The result of learning.
data Learned
  = -- | The host was there.
    Known
  | -- | It is new.
    Added
  | -- | It was elsewhere.
    Moved
  | -- | There is no room for it.
    HostsFull
  deriving stock (Eq, Show)

-- | A host was seen at a place.
--
-- [Cost]: a probe; a store if it has moved, or was not seen in this minute.
-- [Blocks]: never.
-- [Threads]: any.
learnHost :: Hosts -> HostKey -> Place -> IO Learned
learnHost hosts key place = learnHostThen hosts key place pure

-- | 'learnHost' with a continuation, which keeps a caller's loop free of allocation.
--
-- [Cost]: as 'learnHost'.
learnHostThen :: Hosts -> HostKey -> Place -> (Learned -> IO r) -> IO r
learnHostThen hosts (HostKey key) (Place place) next = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  minute <- readWord (hostsCounts hosts) 0
  let !new = place .|. minute `shiftL` 51
      !first = slotOf hosts mask key
      probe !slot !steps = do
        found <- atomicRead ws (2 * slot)
        case () of
          _
            | found == key -> do
              old <- readWord ws (2 * slot + 1)
              if old == new
                then next Known
                else do
                  atomicWrite ws (2 * slot + 1) new
                  next (if old .&. whereMask == place then Known else if old .&. whereMask == 0 then Added else Moved)
            | found /= 0 && steps <= mask -> probe ((slot + 1) .&. mask) (steps + 1)
            | otherwise -> addHost hosts key new >>= next
  probe first (0 :: Int)
{-# INLINE learnHostThen #-}

-- | A host is in use at a place: it counts as seen in this minute if it was last seen there. News that is late cannot
-- move a host, nor bring back one that was forgotten.
--
-- [Cost]: a probe; a compare-and-set if it was not seen in this minute.
-- [Blocks]: never.
-- [Threads]: any.
refreshHost :: Hosts -> HostKey -> Place -> IO ()
refreshHost hosts (HostKey key) (Place place) = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  minute <- readWord (hostsCounts hosts) 0
  let new = place .|. minute `shiftL` 51
      probe slot steps = do
        found <- atomicRead ws (2 * slot)
        case () of
          _
            | found == key -> do
              old <- readWord ws (2 * slot + 1)
              when (old /= new && old .&. whereMask == place) (void (compareAndSet ws (2 * slot + 1) old new))
            | found /= 0 && steps <= mask -> probe ((slot + 1) .&. mask) (steps + 1)
            | otherwise -> pure ()
  probe (slotOf hosts mask key) (0 :: Int)

-- A host without a slot.
addHost :: Hosts -> Int -> Int -> IO Learned
addHost hosts key new = readRef (hostsSlots hosts) >>= \slots@(Slots _ mask _ _) -> probe slots (slotOf hosts mask key) (0 :: Int)
  where
    probe slots@(Slots ws mask room used) slot steps = do
      found <- atomicRead ws (2 * slot)
      case () of
        _
          | found == key -> Added <$ atomicWrite ws (2 * slot + 1) new
          | found == 0 -> do
            n <- readWord used 0
            if n >= room
              then if room >= hostsCapacity hosts then pure HostsFull else enlarge hosts room >> addHost hosts key new
              else do
                won <- compareAndSet ws (2 * slot) 0 key
                if won
                  then do
                    atomicWrite ws (2 * slot + 1) new
                    Added <$ fetchAdd used 0 1
                  else probe slots slot steps
          | steps > mask -> pure HostsFull
          | otherwise -> probe slots ((slot + 1) .&. mask) (steps + 1)
{-# NOINLINE addHost #-}

-- Twice as many slots, unless another thread has replaced them.
enlarge :: Hosts -> Int -> IO ()
enlarge hosts before = withLock (hostsGrowing hosts) $ do
  Slots _ _ room _ <- readRef (hostsSlots hosts)
  when (room == before) $ replaceSlots hosts (min (hostsCapacity hosts) (2 * before))
{-# NOINLINE enlarge #-}

-- Copy all hosts that are not forgotten. What other threads learn meanwhile may be lost: they learn it again from the
-- host's next packet. The lock is held.
replaceSlots :: Hosts -> Int -> IO ()
replaceSlots hosts room = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  new@(Slots ws' mask' _ used) <- newSlots room
  let copy slot = when (slot <= mask) $ do
        key <- readWord ws (2 * slot)
        w <- readWord ws (2 * slot + 1)
        when (key /= 0 && w .&. whereMask /= 0) (place key w (slotOf hosts mask' key))
        copy (slot + 1)
      place key w slot = do
        there <- readWord ws' (2 * slot)
        if there /= 0
          then place key w ((slot + 1) .&. mask')
          else do
            writeWord ws' (2 * slot) key
            writeWord ws' (2 * slot + 1) w
            readWord used 0 >>= writeWord used 0 . (+ 1)
  copy 0
  writeRef (hostsSlots hosts) new

-- | The place of a host, or 'noPlace'.
--
-- [Cost]: a probe.
-- [Blocks]: never.
-- [Threads]: any.
findHost :: Hosts -> HostKey -> IO Place
findHost hosts key = findHostThen hosts key pure

-- | 'findHost' with a continuation, as 'learnHostThen'.
findHostThen :: Hosts -> HostKey -> (Place -> IO r) -> IO r
findHostThen hosts (HostKey key) next = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  let probe !slot !steps = do
        found <- readWord ws (2 * slot)
        case () of
          _
            | found == key -> readWord ws (2 * slot + 1) >>= \w -> next (Place (w .&. whereMask))
            | found /= 0 && steps <= mask -> probe ((slot + 1) .&. mask) (steps + 1)
            | otherwise -> next noPlace
  probe (slotOf hosts mask key) (0 :: Int)
{-# INLINE findHostThen #-}

-- | Bring the slots of two hosts near, which will be looked up soon: a table that is larger than the caches then
-- costs a fraction of its cache misses.
--
-- [Cost]: two hashes.
-- [Blocks]: never.
-- [Threads]: any.
prefetchHosts :: Hosts -> HostKey -> HostKey -> IO ()
prefetchHosts hosts (HostKey a) (HostKey b) = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  prefetchWord ws (2 * slotOf hosts mask a)
  prefetchWord ws (2 * slotOf hosts mask b)
{-# INLINE prefetchHosts #-}

-- | Forget all hosts of a place, or of a switch's number. Their keys stay, and are used when they are seen again.
--
-- [Cost]: O(slots).
-- [Threads]: any.
forgetPlace :: Hosts -> Place -> IO ()
forgetPlace hosts (Place place) = forgetWhere hosts (\w -> w .&. whereMask == place)

-- | Forget all hosts of a switch.
--
-- [Cost]: O(slots).
-- [Threads]: any.
forgetSwitch :: Hosts -> Int -> IO ()
forgetSwitch hosts number = forgetWhere hosts (\w -> w .&. whereMask /= 0 && placeSwitch (Place w) == number)

-- | Begin the next minute, and forget hosts that were not seen in this many minutes (below 2048).
--
-- [Cost]: O(slots).
-- [Threads]: one, once a minute.
forgetOlder :: Hosts -> Int -> IO ()
forgetOlder hosts minutes = do
  now <- (\m -> (m + 1) .&. 0x7ff) <$> readWord (hostsCounts hosts) 0
  atomicWrite (hostsCounts hosts) 0 now
  forgetWhere hosts (\w -> w .&. whereMask /= 0 && ((now - (w `shiftR` 51)) .&. 0x7ff) > minutes)
  -- Slots of forgotten hosts are used by others only after they were replaced.
  withLock (hostsGrowing hosts) $ do
    Slots _ _ room used <- readRef (hostsSlots hosts)
    n <- readWord used 0
    alive <- length <$> hostsList hosts
    when (2 * alive < n && n > 64) $ replaceSlots hosts room

forgetWhere :: Hosts -> (Int -> Bool) -> IO ()
forgetWhere hosts old = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  let go slot = when (slot <= mask) $ do
        w <- readWord ws (2 * slot + 1)
        -- A host that was seen meanwhile has another word, and stays.
        when (w /= 0 && old w) (void (compareAndSet ws (2 * slot + 1) w 0))
        go (slot + 1)
  go 0

-- | All hosts: VLAN, address, place.
--
-- [Cost]: O(slots).
-- [Threads]: any.
hostsList :: Hosts -> IO [(Word16, Mac, Place)]
hostsList hosts = do
  Slots ws mask _ _ <- readRef (hostsSlots hosts)
  let go slot rest
        | slot < 0 = pure rest
        | otherwise = do
          key <- readWord ws (2 * slot)
          w <- readWord ws (2 * slot + 1)
          go (slot - 1) (if key /= 0 && w .&. whereMask /= 0 then (fromIntegral ((key `shiftR` 48) .&. 0xfff), Mac (fromIntegral (key .&. 0xffffffffffff)), Place (w .&. whereMask)) : rest else rest)
  go mask []

-- | A copy of memory.
packed :: Ptr Word8 -> Int -> IO ByteString
packed p n = B.packCStringLen (castPtr p, n)
