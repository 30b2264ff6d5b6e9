{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Poll
-- Description : The poll(2) back end
-- Stability   : internal, exempt from the version policy
--
-- For machines without epoll, and as a second implementation of the contract. poll is
-- level-triggered, so each wait is announced ('Enable') and an announcement ends with its
-- event, as in Mio.
--
-- Cost: O(announced waits) per poll.
-- Owner: one per event manager; all state belongs to its loop.
-- [Source]: Mio, section 4.1.
module Heddle.IO.Internal.Poll
  ( newPoll,
  )
where

import Control.Monad (when)
import Data.Bits (complement, (.&.), (.|.))
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word32, Word64, Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (pokeByteOff)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, keepAlive, newBuffer)
import Heddle.Prim.Errno (Errno (..), pattern EEXIST, pattern EPERM)
import Heddle.Prim.File (FileKind (..), FileStatus (..), fileStatus)
import Heddle.Prim.Poller
import System.Posix.Types (Fd)

data Watched = Watched !Fd !Word64 !Word32

data State = State
  { -- | By registration index.
    stateWatched :: !(Ref (IntMap Watched)),
    stateEntries :: !(Ref Buffer),
    -- | Every descriptor added and not removed, with device and inode; any thread's.
    stateAdded :: !(Ref (IntMap (Int64, Int64)))
  }

-- | A poll back end. It owns no descriptor of its own.
newPoll :: Fd -> Word64 -> IO Backend
newPoll wakeFd wakeTag = do
  state <- State <$> newRef IntMap.empty <*> (newBuffer (64 * pollBytes) >>= newRef) <*> newRef IntMap.empty
  pure
    Backend
      { backendName = "poll",
        backendAdd = \fd _ -> add state fd,
        backendRemove = \fd -> 0 <$ modifyRef (stateAdded state) (\s -> (IntMap.delete (fromIntegral fd) s, ())),
        backendOneshot = True,
        backendEnable = \registration interest -> do
          let bits = case interest of
                Readable -> eventIn .|. eventReadHangUp
                Writable -> eventOut
              entry = Watched (registrationFd registration) (registrationTag (registrationStamp registration) (registrationIndex registration)) bits
              merge (Watched fd tag new) (Watched _ oldTag old)
                | oldTag == tag = Watched fd tag (new .|. old)
                | otherwise = Watched fd tag new
          watched <- readRef (stateWatched state)
          writeRef (stateWatched state) (IntMap.insertWith merge (registrationIndex registration) entry watched),
        backendForget = \registration -> do
          watched <- readRef (stateWatched state)
          writeRef (stateWatched state) (IntMap.delete (registrationIndex registration) watched),
        backendPoll = look state wakeFd wakeTag pollNow,
        backendWait = \events ms -> look state wakeFd wakeTag (\p n -> pollWait p n ms) events,
        -- It owns no descriptor.
        backendRenew = pure 0,
        backendClose = pure ()
      }

-- poll accepts every descriptor; refuse what epoll refuses, to have one contract.
add :: State -> Fd -> IO Int
add state fd = do
  bits <- pollOne fd 0
  status <- fileStatus fd
  case status of
    Left failed -> pure failed
    Right s
      | statusKind s /= OtherKind -> pure (refused EPERM)
      | bits < 0 -> pure bits
      | otherwise -> do
        -- As with epoll, a number that is another file's by now is a new registration.
        let file = (statusDevice s, statusInode s)
        added <- modifyRef (stateAdded state) $ \old ->
          (IntMap.insert (fromIntegral fd) file old, IntMap.lookup (fromIntegral fd) old /= Just file)
        pure (if added then 0 else refused EEXIST)
  where
    refused = negate . errnoNumber

look :: State -> Fd -> Word64 -> (Ptr Word8 -> Int -> IO Int) -> Ptr Word8 -> IO Int
look state wakeFd wakeTag call events = do
  watched <- readRef (stateWatched state)
  let count = 1 + IntMap.size watched
  entries <- entriesFor state count
  let p = bufferPtr entries
      registrations = IntMap.elems watched
  pokePoll p 0 wakeFd eventIn
  for_ (zip [1 ..] registrations) $ \(i, Watched fd _ bits) -> pokePoll p i fd bits
  n <- call p count
  ready <- if n <= 0 then pure n else collect p registrations
  keepAlive entries
  pure ready
  where
    collect p registrations = do
      wake <- peekPoll p 0
      start <-
        if wake == 0
          then pure 0
          else do
            _ <- drainEventFd wakeFd
            1 <$ emit 0 wakeTag wake
      go p (1 :: Int) registrations start
    go _ _ [] k = pure k
    go _ _ _ k | k == eventCapacity = pure k
    go p i (Watched fd tag bits : rest) k = do
      got <- peekPoll p i
      if got == 0
        then go p (i + 1) rest k
        else do
          emit k tag got
          let index = fromIntegral (tag .&. 0xFFFFFFFF)
              left = bits .&. complement (got .|. (if got .&. hangs /= 0 then bits else 0))
              left' = if left .&. (eventIn .|. eventOut) == 0 then 0 else left
          watched <- readRef (stateWatched state)
          writeRef (stateWatched state) $
            if left' == 0
              then IntMap.delete index watched
              else IntMap.insert index (Watched fd tag left') watched
          go p (i + 1) rest (k + 1)
    hangs = eventError .|. eventHangUp .|. eventInvalid
    -- A closed descriptor is an error to its waiters, who then look themselves.
    emit :: Int -> Word64 -> Word32 -> IO ()
    emit k tag bits = do
      pokeByteOff events (eventBytes * k) (if bits .&. eventInvalid /= 0 then bits .|. eventError else bits)
      pokeByteOff events (eventBytes * k + eventBytes - 8) tag

entriesFor :: State -> Int -> IO Buffer
entriesFor state count = do
  old <- readRef (stateEntries state)
  when (bufferSize old < count * pollBytes) $
    newBuffer (2 * count * pollBytes) >>= writeRef (stateEntries state)
  readRef (stateEntries state)
