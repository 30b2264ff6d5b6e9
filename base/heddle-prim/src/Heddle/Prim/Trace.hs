{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
-- Also in builds without optimisation: a marker that is off must allocate nothing.
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Prim.Trace
-- Description : Markers of Heddle's event managers and workers in GHC's event log
-- Stability   : stable
--
-- The runtime's event log says that a thread waits for an @MVar@. A marker says what for: a descriptor, a deadline, work. Markers are
-- the log's binary user events with a constant text, such as @heddle io park@, written by the thread that does it. @heddle trace@
-- reads them.
--
-- Cost: while there is no log, a load and a branch, 0 bytes; with a log, an event of some dozens of bytes in the core's buffer.
-- Owner: the process.
module Heddle.Prim.Trace
  ( Marker (..),
    mark,
    markerText,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString.Unsafe (unsafePackAddressLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek, poke)
import GHC.Exts (Addr#, Int (I#), Int#, cstringLength#, traceBinaryEvent#)
import GHC.IO (IO (..))
import GHC.RTS.Flags (DoTrace (..), TraceFlags (..), getTraceFlags)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | What Heddle does between a program's own lines.
data Marker
  = -- | A thread links a registration to an earlier deadline.
    IoArm
  | -- | An event manager has a batch of events, and wakes the threads that wait for them.
    IoDispatch
  | -- | A thread begins to wait for a descriptor.
    IoPark
  | -- | An event manager wakes a thread.
    IoUnpark
  | -- | An event manager begins to wait in the kernel.
    IoSleep
  | -- | A worker begins the run that a caller has given to it.
    SchedRun
  | -- | A worker has nothing left to do, and looks at others' work.
    SchedSearch
  | -- | A worker begins work that it has stolen.
    SchedSteal
  | -- | A worker begins to wait until it is woken for work.
    SchedSleep
  | -- | Whoever has made work wakes a worker for it.
    SchedUnpark
  deriving stock (Bounded, Enum, Eq, Show)

-- | Write a marker into the event log, if there is one and it has user events (@+RTS -l@).
--
-- [Cost]: a load and a branch without a log; 0 bytes.
-- [Blocks]: never; with a log, the runtime may write a full buffer to the log's file.
-- [Threads]: any.
mark :: Marker -> IO ()
mark m = peek wanted >>= \w -> unless (w == 0) (emit m)
{-# INLINE mark #-}

-- | A marker's text in the log.
--
-- [Cost]: O(1).
markerText :: Marker -> ByteString
markerText m = case textOf m of
  Text a -> unsafeDupable (unsafePackAddressLen (I# (cstringLength# a)) a)

data Text = Text Addr#

textOf :: Marker -> Text
textOf = \case
  IoArm -> Text "heddle io arm"#
  IoDispatch -> Text "heddle io dispatch"#
  IoPark -> Text "heddle io park"#
  IoUnpark -> Text "heddle io unpark"#
  IoSleep -> Text "heddle io sleep"#
  SchedRun -> Text "heddle sched run"#
  SchedSearch -> Text "heddle sched search"#
  SchedSteal -> Text "heddle sched steal"#
  SchedSleep -> Text "heddle sched sleep"#
  SchedUnpark -> Text "heddle sched unpark"#

emit :: Marker -> IO ()
emit m = do
  w <- peek wanted
  when (w == undecided) $ do
    flags <- getTraceFlags
    poke wanted (case tracing flags of TraceEventLog | user flags -> 1; _ -> 0)
  on <- peek wanted
  unless (on == 0) $ case textOf m of
    Text a -> binaryEvent a (cstringLength# a)
{-# NOINLINE emit #-}

binaryEvent :: Addr# -> Int# -> IO ()
binaryEvent a n = IO (\s -> case traceBinaryEvent# a n s of s' -> (# s', () #))

-- Of 'heddle_trace_markers': the first marker of the process reads the runtime's flags.
undecided :: Word8
undecided = 2

-- In C, so that its address is a constant of the code.
foreign import ccall "&heddle_trace_markers" wanted :: Ptr Word8
