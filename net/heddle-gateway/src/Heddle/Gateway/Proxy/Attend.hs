-- |
-- Module      : Heddle.Gateway.Proxy.Attend
-- Description : Clients that go while an upstream is silent
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- A request's thread waits for its upstream, so it would learn of its client's end only when it writes. Requests whose upstream has been silent for
-- some time are entered here; every 20 ms one thread looks at the clients of all of them, which is a load for each, and
-- closes the upstream's connection of those that have gone. Requests that are answered quickly are never entered.
--
-- A client that has only ended its sending direction counts as gone, as for nginx: the two cannot be told apart.
--
-- Protocol: an entry's word goes from 0 to 1 (the thread has found the client gone, and closes the upstream's connection) or to 2 (the wait
-- is over), by compare-and-set, so a connection that has been returned to its pool is never closed.
-- Cost: of a slow request, two changes of a map; while there are any, a thread that wakes 50 times a second.
-- Owner: any thread.
module Heddle.Gateway.Proxy.Attend
  ( Attendance,
    newAttendance,
    closeAttendance,
    attend,
    attendedNow,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.IO (Runtime)
import Heddle.IO.Parker (Parker, closeParker, isClosed, newParker, parkUntil, prepare)
import Heddle.IO.Registration (Registration, closeRegistration, peerHungUp)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (deadlineIn, milliseconds)
import Heddle.Prim.Thread (fork)

-- | The slow requests of one capability.
data Attendance = Attendance
  { attendanceEntries :: !(Ref Entries),
    attendanceParker :: !Parker,
    -- | Word 0: whether the thread runs.
    attendanceRuns :: !Words
  }

-- The next number, and the entries by number.
data Entries = Entries !Int !(IntMap Entry)

data Entry = Entry
  { entryClient :: !Registration,
    entryUpstream :: !Registration,
    entryState :: !Words
  }

-- | Without entries, and without a thread.
newAttendance :: Runtime -> IO Attendance
newAttendance runtime = Attendance <$> newRef (Entries 0 IntMap.empty) <*> newParker runtime <*> newWords 1

-- | End the thread.
closeAttendance :: Attendance -> IO ()
closeAttendance = closeParker . attendanceParker

-- | How many requests are entered.
attendedNow :: Attendance -> IO Int
attendedNow attendance = (\(Entries _ entries) -> IntMap.size entries) <$> readRef (attendanceEntries attendance)

-- | Enter a request: its client and its upstream. The action that is returned removes it, once, and answers whether the client was found
-- gone.
--
-- [Blocks]: never.
attend :: Attendance -> Registration -> Registration -> IO (IO Bool)
attend attendance client upstream = do
  gone <- peerHungUp client
  if gone
    then pure True <$ closeRegistration upstream
    else do
      state <- newWords 1
      number <- modifyRef (attendanceEntries attendance) $ \(Entries next entries) ->
        (Entries (next + 1) (IntMap.insert next (Entry client upstream state) entries), next)
      start attendance
      pure $ do
        over <- compareAndSet state 0 0 2
        modifyRef (attendanceEntries attendance) $ \(Entries next entries) -> (Entries next (IntMap.delete number entries), ())
        pure (not over)

start :: Attendance -> IO ()
start attendance = do
  running <- atomicRead (attendanceRuns attendance) 0
  when (running == 0) $ do
    won <- compareAndSet (attendanceRuns attendance) 0 0 1
    when won (void (fork "gateway/proxy/attend" (looking attendance)))

looking :: Attendance -> IO ()
looking attendance = do
  prepare parker
  next <- deadlineIn (milliseconds 20)
  parkUntil parker next
  closed <- isClosed parker
  Entries _ entries <- readRef (attendanceEntries attendance)
  for_ entries $ \entry -> do
    gone <- peerHungUp (entryClient entry)
    when gone $ do
      won <- compareAndSet (entryState entry) 0 0 1
      when won (void (closeRegistration (entryUpstream entry)))
  case () of
    _
      | closed -> pure ()
      | IntMap.null entries -> do
        atomicWrite (attendanceRuns attendance) 0 0
        -- One may have been entered between the two.
        late <- attendedNow attendance
        unless (late == 0) (start attendance)
      | otherwise -> looking attendance
  where
    parker = attendanceParker attendance
