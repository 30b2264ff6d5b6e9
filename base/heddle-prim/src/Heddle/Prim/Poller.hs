-- |
-- Module      : Heddle.Prim.Poller
-- Description : epoll, poll and eventfd
-- Stability   : stable
--
-- The kernel's event notification, one function per system call. Results are counts, or
-- minus the error number ("Heddle.Prim.Errno").
--
-- Cost: one system call each.
-- Owner: one event manager per epoll descriptor.
module Heddle.Prim.Poller
  ( -- * epoll
    epollCreate,
    renewEpoll,
    epollAdd,
    epollDelete,
    epollPoll,
    epollWait,
    eventBytes,
    peekEventBits,
    peekEventTag,

    -- * Event bits
    eventIn,
    eventOut,
    eventError,
    eventInvalid,
    eventHangUp,
    eventReadHangUp,
    eventEdge,

    -- * poll
    pollNow,
    pollWait,
    pollOne,
    pollBytes,
    pokePoll,
    peekPoll,

    -- * eventfd
    newEventFd,
    renewEventFd,
    signalEventFd,
    drainEventFd,
  )
where

import Data.Int (Int16, Int32)
import Data.Word (Word32, Word64, Word8)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import System.Posix.Types (Fd (..))

-- | A new epoll descriptor, closed on exec.
epollCreate :: IO Int
epollCreate = fromIntegral <$> c_create

-- | @epollAdd epoll fd bits tag@.
epollAdd :: Fd -> Fd -> Word32 -> Word64 -> IO Int
epollAdd (Fd ep) (Fd fd) bits tag = fromIntegral <$> c_add ep fd bits tag

-- | Remove a descriptor.
epollDelete :: Fd -> Fd -> IO Int
epollDelete (Fd ep) (Fd fd) = fromIntegral <$> c_del ep fd

-- | Collect the events that are ready now: the memory for them, and how many fit.
--
-- [Blocks]: never.
epollPoll :: Fd -> Ptr Word8 -> Int -> IO Int
epollPoll (Fd ep) p n = fromIntegral <$> c_wait_now ep p (fromIntegral n) 0
{-# INLINE epollPoll #-}

-- | Wait this many milliseconds (for ever: -1).
--
-- [Blocks]: holds an OS thread; the capability runs on.
epollWait :: Fd -> Ptr Word8 -> Int -> Int -> IO Int
epollWait (Fd ep) p n ms = fromIntegral <$> c_wait ep p (fromIntegral n) (fromIntegral ms)
{-# INLINE epollWait #-}

-- | The size of one event (packed, as on x86-64).
--
-- [Units]: bytes.
eventBytes :: Int
eventBytes = fromIntegral c_event_bytes

-- | The bits of event number i.
peekEventBits :: Ptr Word8 -> Int -> IO Word32
peekEventBits p i = peekByteOff p (eventBytes * i)
{-# INLINE peekEventBits #-}

-- | The tag of event number i.
peekEventTag :: Ptr Word8 -> Int -> IO Word64
peekEventTag p i = peekByteOff p (eventBytes * i + eventBytes - 8)
{-# INLINE peekEventTag #-}

-- | Readable.
eventIn :: Word32
eventIn = 0x1

-- | Writable.
eventOut :: Word32
eventOut = 0x4

-- | An error is pending.
eventError :: Word32
eventError = 0x8

-- | No open descriptor has the number (POLLNVAL). Only poll(2) says this.
eventInvalid :: Word32
eventInvalid = 0x20

-- | Both directions are over.
eventHangUp :: Word32
eventHangUp = 0x10

-- | The peer will send no more.
eventReadHangUp :: Word32
eventReadHangUp = 0x2000

-- | Edge-triggered: report changes, not states.
eventEdge :: Word32
eventEdge = 0x80000000

-- | poll(2) over this many entries, without waiting.
--
-- [Blocks]: never.
pollNow :: Ptr Word8 -> Int -> IO Int
pollNow p n = fromIntegral <$> c_poll_now p (fromIntegral n) 0

-- | poll(2), waiting this many milliseconds (for ever: -1).
--
-- [Blocks]: holds an OS thread; the capability runs on.
pollWait :: Ptr Word8 -> Int -> Int -> IO Int
pollWait p n ms = fromIntegral <$> c_poll p (fromIntegral n) (fromIntegral ms)

-- | Which of these poll bits are set for one descriptor now.
--
-- [Blocks]: never.
pollOne :: Fd -> Word32 -> IO Int
pollOne (Fd fd) bits = fromIntegral <$> c_poll_one fd (fromIntegral bits)

-- | The size of a poll entry.
--
-- [Units]: bytes.
pollBytes :: Int
pollBytes = 8

-- | Fill poll entry number i.
pokePoll :: Ptr Word8 -> Int -> Fd -> Word32 -> IO ()
pokePoll p i (Fd fd) bits = do
  pokeByteOff p (8 * i) (fromIntegral fd :: Int32)
  pokeByteOff p (8 * i + 4) (fromIntegral bits :: Int16)
  pokeByteOff p (8 * i + 6) (0 :: Int16)

-- | The resulting bits in poll entry number i.
peekPoll :: Ptr Word8 -> Int -> IO Word32
peekPoll p i = (\b -> fromIntegral (b :: Int16)) <$> peekByteOff p (8 * i + 6)

-- | A new eventfd, non-blocking, closed on exec.
newEventFd :: IO Int
newEventFd = fromIntegral <$> c_eventfd

-- | Replace an eventfd by a new one with the same number.
renewEventFd :: Fd -> IO Int
renewEventFd (Fd fd) = fromIntegral <$> c_eventfd_renew fd

-- | Replace an epoll descriptor by a new one with the same number and no registrations.
renewEpoll :: Fd -> IO Int
renewEpoll (Fd ep) = fromIntegral <$> c_epoll_renew ep

-- | Add one to an eventfd.
--
-- [Blocks]: never.
signalEventFd :: Fd -> IO Int
signalEventFd (Fd fd) = fromIntegral <$> c_signal fd

-- | Reset an eventfd to 0.
--
-- [Blocks]: never.
drainEventFd :: Fd -> IO Int
drainEventFd (Fd fd) = allocaBytes 8 $ \p -> fromIntegral <$> c_read fd p 8

-- Unsafe: allocates in the kernel and returns.
foreign import ccall unsafe "heddle_epoll_create" c_create :: IO CLong

-- Unsafe: takes the epoll's mutex, held only for bounded kernel work.
foreign import ccall unsafe "heddle_epoll_add" c_add :: CInt -> CInt -> Word32 -> Word64 -> IO CLong

-- Unsafe: takes the epoll's mutex, held only for bounded kernel work.
foreign import ccall unsafe "heddle_epoll_del" c_del :: CInt -> CInt -> IO CLong

-- Unsafe: called with time-out 0 only, which never sleeps.
foreign import ccall unsafe "heddle_epoll_wait" c_wait_now :: CInt -> Ptr Word8 -> CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_epoll_wait" c_wait :: CInt -> Ptr Word8 -> CInt -> CInt -> IO CLong

-- Unsafe: called with time-out 0 only, which never sleeps.
foreign import ccall unsafe "heddle_poll" c_poll_now :: Ptr Word8 -> CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_poll" c_poll :: Ptr Word8 -> CInt -> CInt -> IO CLong

-- Unsafe: one descriptor, time-out 0.
foreign import ccall unsafe "heddle_poll_one" c_poll_one :: CInt -> CInt -> IO CLong

-- Unsafe: allocates in the kernel and returns.
foreign import ccall unsafe "heddle_eventfd" c_eventfd :: IO CLong

-- Unsafe: allocates in the kernel and returns.
foreign import ccall unsafe "heddle_eventfd_renew" c_eventfd_renew :: CInt -> IO CLong

-- Unsafe: allocates in the kernel and returns.
foreign import ccall unsafe "heddle_epoll_renew" c_epoll_renew :: CInt -> IO CLong

-- Unsafe: the descriptor is non-blocking.
foreign import ccall unsafe "heddle_eventfd_write" c_signal :: CInt -> IO CLong

-- Unsafe: the descriptor is a non-blocking eventfd.
foreign import ccall unsafe "heddle_read" c_read :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: returns a constant.
foreign import ccall unsafe "heddle_event_bytes" c_event_bytes :: CInt
