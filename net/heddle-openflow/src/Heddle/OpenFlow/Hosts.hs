-- |
-- Module      : Heddle.OpenFlow.Hosts
-- Description : Where hosts are: a table that the collector does not scan
-- Stability   : stable
--
-- Open addressing in one array of machine words: two words for a host, its key (VLAN and address) and its place (switch,
-- port and the minute in which it was last seen). The array has a fixed size, so no insertion has to rehash; the collector
-- neither scans nor moves it.
--
-- Invariant: a key is set once, by compare-and-set, and stays; a place is replaced whole. So a reader sees a host's old or
-- new place and nothing else.
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
    findHost,
    forgetPlace,
    forgetSwitch,
    forgetOlder,
    hostsList,

    -- * Bytes
    packed,
  )
where

import Control.Monad (when)
import Data.Bits (shiftL, shiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Word (Word16, Word64, Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Bytes.Hash (newKey, sipHash13)
import Heddle.OpenFlow.Types
import Heddle.Prim.Atomic

-- | A table of hosts.
data Hosts = Hosts
  { hostsWords :: !Words,
    -- | The number of slots less one; a power of two less one.
    hostsMask :: !Int,
    hostsSeed :: !Int,
    hostsRoom :: !Int,
    -- | Word 0: hosts; word 8: the minute.
    hostsCounts :: !Words
  }

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

noPlace :: Place
noPlace = Place 0

-- The switch's number in 19 bits above the port, plus one, so that no place is 0; the minute, in 11 bits, above both.
placeOf :: Int -> PortNo -> Place
placeOf switch (PortNo port) = Place (((switch + 1) .&. 0x7ffff) `shiftL` 32 .|. fromIntegral port)
{-# INLINE placeOf #-}

placeSwitch :: Place -> Int
placeSwitch (Place w) = ((w `shiftR` 32) .&. 0x7ffff) - 1
{-# INLINE placeSwitch #-}

placePort :: Place -> PortNo
placePort (Place w) = PortNo (fromIntegral w)
{-# INLINE placePort #-}

whereMask :: Int
whereMask = 1 `shiftL` 51 - 1

-- | A table for at least this many hosts. It has up to twice as many slots of 16 bytes, and one of 8 more for each 4.
--
-- [Cost]: O(capacity).
newHosts :: Int -> IO Hosts
newHosts capacity = do
  let slots = head [n | k <- [4 :: Int ..], let n = 1 `shiftL` k, n >= capacity + capacity `quot` 3]
  key <- newKey
  counts <- newWords 16
  ws <- newWords (2 * slots)
  -- Addresses are chosen by hosts: without a secret, they could choose those that meet in one slot.
  pure (Hosts ws (slots - 1) (fromIntegral (sipHash13 key B.empty)) capacity counts)

hostsCapacity :: Hosts -> Int
hostsCapacity = hostsRoom

hostsCount :: Hosts -> IO Int
hostsCount hosts = readWord (hostsCounts hosts) 0

scatter :: Int -> Int
scatter x0 = fromIntegral (x3 `xor` (x3 `shiftR` 32))
  where
    x1 = (fromIntegral x0 :: Word64) * 0x9e3779b97f4a7c15
    x2 = (x1 `xor` (x1 `shiftR` 29)) * 0xbf58476d1ce4e5b9
    x3 = x2 `xor` (x2 `shiftR` 32)
{-# INLINE scatter #-}

slotOf :: Hosts -> Int -> Int
slotOf hosts key = scatter (key `xor` hostsSeed hosts) .&. hostsMask hosts
{-# INLINE slotOf #-}

-- | What learning came to.
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
learnHost hosts (HostKey key) (Place place) = probe (slotOf hosts key) (0 :: Int)
  where
    ws = hostsWords hosts
    counts = hostsCounts hosts
    probe slot steps = do
      found <- atomicRead ws (2 * slot)
      case () of
        _
          | found == key -> do
            old <- readWord ws (2 * slot + 1)
            minute <- readWord counts 8
            let new = place .|. minute `shiftL` 51
            if old == new
              then pure Known
              else do
                atomicWrite ws (2 * slot + 1) new
                pure (if old .&. whereMask == place then Known else if old .&. whereMask == 0 then Added else Moved)
          | found == 0 -> do
            n <- readWord counts 0
            if n >= hostsRoom hosts
              then pure HostsFull
              else do
                won <- compareAndSet ws (2 * slot) 0 key
                if won
                  then do
                    minute <- readWord counts 8
                    atomicWrite ws (2 * slot + 1) (place .|. minute `shiftL` 51)
                    Added <$ fetchAdd counts 0 1
                  else probe slot steps
          | steps > hostsMask hosts -> pure HostsFull
          | otherwise -> probe ((slot + 1) .&. hostsMask hosts) (steps + 1)
{-# INLINE learnHost #-}

-- | Where a host is, or 'noPlace'.
--
-- [Cost]: a probe.
-- [Blocks]: never.
-- [Threads]: any.
findHost :: Hosts -> HostKey -> IO Place
findHost hosts (HostKey key) = probe (slotOf hosts key) (0 :: Int)
  where
    ws = hostsWords hosts
    probe slot steps = do
      found <- readWord ws (2 * slot)
      case () of
        _
          | found == key -> Place . (.&. whereMask) <$> readWord ws (2 * slot + 1)
          | found == 0 || steps > hostsMask hosts -> pure noPlace
          | otherwise -> probe ((slot + 1) .&. hostsMask hosts) (steps + 1)
{-# INLINE findHost #-}

-- | Forget all hosts of a place, or of a switch's number. Their keys stay, and are used when they are seen again.
--
-- [Cost]: O(slots).
-- [Threads]: any.
forgetPlace :: Hosts -> Place -> IO ()
forgetPlace hosts (Place place) = forgetWhere hosts (\w -> w .&. whereMask == place)

forgetSwitch :: Hosts -> Int -> IO ()
forgetSwitch hosts number = forgetWhere hosts (\w -> w .&. whereMask /= 0 && placeSwitch (Place w) == number)

-- | Begin the next minute, and forget hosts that were not seen in this many minutes (below 2048).
--
-- [Cost]: O(slots).
-- [Threads]: one, once a minute.
forgetOlder :: Hosts -> Int -> IO ()
forgetOlder hosts minutes = do
  now <- (\m -> (m + 1) .&. 0x7ff) <$> readWord (hostsCounts hosts) 8
  atomicWrite (hostsCounts hosts) 8 now
  forgetWhere hosts (\w -> w .&. whereMask /= 0 && ((now - (w `shiftR` 51)) .&. 0x7ff) > minutes)

forgetWhere :: Hosts -> (Int -> Bool) -> IO ()
forgetWhere hosts old = go 0
  where
    ws = hostsWords hosts
    go slot = when (slot <= hostsMask hosts) $ do
      w <- readWord ws (2 * slot + 1)
      -- A host that was seen meanwhile has another word, and stays.
      when (w /= 0 && old w) (() <$ compareAndSet ws (2 * slot + 1) w 0)
      go (slot + 1)

-- | All hosts: VLAN, address, place.
--
-- [Cost]: O(slots).
-- [Threads]: any.
hostsList :: Hosts -> IO [(Word16, Mac, Place)]
hostsList hosts = go (hostsMask hosts) []
  where
    ws = hostsWords hosts
    go slot rest
      | slot < 0 = pure rest
      | otherwise = do
        key <- readWord ws (2 * slot)
        w <- readWord ws (2 * slot + 1)
        go (slot - 1) (if key /= 0 && w .&. whereMask /= 0 then (fromIntegral ((key `shiftR` 48) .&. 0xfff), Mac (fromIntegral (key .&. 0xffffffffffff)), Place (w .&. whereMask)) : rest else rest)

-- | A copy of memory.
packed :: Ptr Word8 -> Int -> IO ByteString
packed p n = B.packCStringLen (castPtr p, n)
