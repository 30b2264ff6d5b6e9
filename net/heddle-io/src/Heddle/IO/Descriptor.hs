-- |
-- Module      : Heddle.IO.Descriptor
-- Description : Waiting on any descriptor, and callbacks
-- Stability   : hidden; "Heddle.IO" exports it
--
-- The interface of GHC's event manager over Heddle's. Waits have level semantics. A
-- callback runs in the thread of its subscription, which does nothing else: a callback
-- may park, and none delays another.
--
-- Cost: that of "Heddle.IO.Internal.DescriptorWaiter"; a subscription is a thread.
-- Owner: the caller keeps the descriptor, open while it is waited on.
-- [Source]: Mio, sections 2.2 and 4.3.
module Heddle.IO.Descriptor
  ( threadWaitRead,
    threadWaitWrite,
    threadWaitReadUntil,
    threadWaitWriteUntil,
    Event,
    evtRead,
    evtWrite,
    eventIs,
    FdKey,
    keyFd,
    registerFd,
    unregisterFd,
  )
where

import Control.Monad (void, when)
import Data.Bits ((.&.), (.|.))
import Data.Foldable (for_)
import Data.List (intercalate)
import Data.Traversable (for)
import Heddle.IO.Internal.DescriptorWaiter (readableBits, readyNow, waitOnUntil)
import Heddle.IO.Internal.Runtime (Runtime)
import Heddle.IO.Internal.Types (Interest (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline, never)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, fork)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.Posix.Types (Fd)

-- | Park until the descriptor can be read, has ended or has an error.
--
-- [Cost]: one poll(2) if it can; otherwise about 2 µs more.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: 'IOError': EBADF; EPERM if it is not pollable (a disk file is always ready);
-- EEXIST if a 'Heddle.IO.Conn' of this runtime owns it.
-- [Threads]: any number on one descriptor.
-- [Source]: Mio, figure 3.
threadWaitRead :: Runtime -> Fd -> IO ()
threadWaitRead runtime fd = void (waitOnUntil runtime fd Readable never)

-- | Park until the descriptor can be written or has an error.
--
-- [Cost]: as 'threadWaitRead'.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: as 'threadWaitRead'.
-- [Threads]: any number on one descriptor.
-- [Source]: Mio, figure 3.
threadWaitWrite :: Runtime -> Fd -> IO ()
threadWaitWrite runtime fd = void (waitOnUntil runtime fd Writable never)

-- | 'threadWaitRead'; 'False' when the deadline passed first.
--
-- [Cost]: as 'threadWaitRead'.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: as 'threadWaitRead'.
-- [Threads]: any number on one descriptor, each with its own deadline.
threadWaitReadUntil :: Runtime -> Fd -> Deadline -> IO Bool
threadWaitReadUntil runtime fd = waitOnUntil runtime fd Readable

-- | 'threadWaitWrite'; 'False' when the deadline passed first.
--
-- [Cost]: as 'threadWaitRead'.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: as 'threadWaitRead'.
-- [Threads]: any number on one descriptor, each with its own deadline.
threadWaitWriteUntil :: Runtime -> Fd -> Deadline -> IO Bool
threadWaitWriteUntil runtime fd = waitOnUntil runtime fd Writable

-- | What may happen on a descriptor; '<>' is both.
newtype Event = Event Int
  deriving stock (Eq)

instance Semigroup Event where
  Event a <> Event b = Event (a .|. b)

instance Monoid Event where
  mempty = Event 0

instance Show Event where
  show e = "[" ++ intercalate "," (["evtRead" | e `eventIs` evtRead] ++ ["evtWrite" | e `eventIs` evtWrite]) ++ "]"

-- | It can be read.
evtRead :: Event
evtRead = Event 1

-- | It can be written.
evtWrite :: Event
evtWrite = Event 2

-- | Whether two events have a direction in common.
eventIs :: Event -> Event -> Bool
eventIs (Event a) (Event b) = a .&. b /= 0

-- | A subscription.
data FdKey = FdKey
  { -- | The descriptor subscribed to.
    keyFd :: !Fd,
    -- | By direction: 0 waiting, 1 calling back; with 2, ended. 0 -> 1 -> 0 by its thread,
    -- 2 added by 'unregisterFd'.
    keyStates :: !Words,
    keyThreads :: !(Ref [(Direction, ThreadId)])
  }

instance Show FdKey where
  show key = "FdKey " ++ show (keyFd key)

-- | Call back whenever the descriptor is ready, in a thread of the subscription's own, one
-- call at a time in each direction, until 'unregisterFd'. A callback that leaves the
-- descriptor ready is called again at once. A callback that throws ends its subscription, and
-- the exception is reported like that of any thread.
--
-- [Cost]: a thread in each direction.
-- [Blocks]: never.
-- [Masking]: callbacks run unmasked.
-- [Throws]: 'IOError' (EBADF).
-- [Threads]: any number of subscriptions to one descriptor.
-- [Source]: Mio, sections 2.2 and 4.3.
registerFd :: Runtime -> (FdKey -> Event -> IO ()) -> Fd -> Event -> IO FdKey
registerFd runtime callback fd event = mask_ $ do
  _ <- readyNow fd readableBits
  states <- newWords 2
  threads <- newRef []
  let key = FdKey fd states threads
  starts <- for (filter (eventIs event . way) [minBound ..]) $ \direction -> do
    start <- newWaitCell
    t <-
      fork ("io/callback/" ++ show fd ++ "/" ++ show direction) $
        mask_ (park start >> subscribed runtime callback key direction)
    modifyRef threads (\ts -> ((direction, t) : ts, ()))
    pure start
  key <$ for_ starts unpark

data Direction = Reading | Writing
  deriving stock (Bounded, Enum, Show)

way :: Direction -> Event
way Reading = evtRead
way Writing = evtWrite

-- Masked, so that 'unregisterFd' interrupts it only where it parks.
subscribed :: Runtime -> (FdKey -> Event -> IO ()) -> FdKey -> Direction -> IO ()
subscribed runtime callback key direction = go
  where
    move = compareAndSet (keyStates key) (fromEnum direction)
    go = do
      _ <- waitOnUntil runtime (keyFd key) (case direction of Reading -> Readable; Writing -> Writable) never
      begun <- move 0 1
      when begun $ do
        unsafeUnmask (callback key (way direction))
        on <- move 1 0
        when on go

-- | End a subscription: no callback begins after this; one in progress continues. Idempotent,
-- and allowed in the callback.
--
-- [Cost]: an exception to a thread in each direction.
-- [Blocks]: until the subscription's threads have left their waits.
-- [Masking]: interruptible.
-- [Threads]: any.
-- [Source]: Mio, section 2.2.
unregisterFd :: FdKey -> IO ()
unregisterFd key = do
  threads <- readRef (keyThreads key)
  waiting <- for threads $ \(direction, t) -> do
    old <- fetchOr (keyStates key) (fromEnum direction) 2
    pure [t | old == 0]
  for_ (concat waiting) (`throwTo` ThreadKilled)
