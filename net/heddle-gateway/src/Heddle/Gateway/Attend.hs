-- |
-- Module      : Heddle.Gateway.Attend
-- Description : Clients that go while an upstream or a program is silent
-- Stability   : internal, exempt from the version policy
--
-- A request's thread waits for its upstream, so it would learn of its client's end only when it writes. Requests whose upstream has been silent for
-- some time are entered here; every 20 ms one thread looks at the clients of all of them, which is a load for each, and
-- gives up the requests of those that have gone. Requests that are answered quickly are never entered.
--
-- A client that has only ended its sending direction counts as gone, as for nginx: the two cannot be told apart.
--
-- Protocol: an entry's word goes from 0 to 1 (the thread has found the client gone, and gives the request up) or to 2 (the wait
-- is over), by compare-and-set, so a connection that has been returned to its pool is never closed.
-- Cost: of a slow request, two changes of a map; while there are any, a thread that wakes 50 times a second.
-- Owner: any thread.
module Heddle.Gateway.Attend
  ( Attendance,
    newAttendance,
    closeAttendance,
    attend,
    attendedNow,

    -- * For each capability
    Attendances,
    withAttendances,
    attendanceFor,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_, traverse_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Heddle.Http (Request)
import Heddle.Http.Borrowed (requestCapability)
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Parker (Parker, closeParker, isClosed, newParker, parkUntil, prepare)
import Heddle.IO.Registration (Registration, isClosing, peerHungUp)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (deadlineIn, milliseconds)
import Heddle.Prim.Exception (bracket)
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
    entryGiveUp :: !(IO ()),
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

-- | Enter a request: its client, and what gives the request up, which neither throws nor takes long. The action that is returned removes it,
-- once, and answers whether the client was found gone; another thread may then still be giving it up.
--
-- [Blocks]: never.
attend :: Attendance -> Registration -> IO () -> IO (IO Bool)
attend attendance client giveUp = do
  gone <- hasGone client
  if gone
    then pure True <$ giveUp
    else do
      state <- newWords 1
      number <- modifyRef (attendanceEntries attendance) $ \(Entries next entries) ->
        (Entries (next + 1) (IntMap.insert next (Entry client giveUp state) entries), next)
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
    when won (void (fork "gateway/attend" (looking attendance)))

looking :: Attendance -> IO ()
looking attendance = do
  prepare parker
  next <- deadlineIn (milliseconds 20)
  parkUntil parker next
  closed <- isClosed parker
  Entries _ entries <- readRef (attendanceEntries attendance)
  for_ entries $ \entry -> do
    gone <- hasGone (entryClient entry)
    when gone $ do
      won <- compareAndSet (entryState entry) 0 0 1
      when won (entryGiveUp entry)
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

-- By its own side's closing, too.
hasGone :: Registration -> IO Bool
hasGone client = peerHungUp client >>= \hung -> if hung then pure True else isClosing client

-- | One for each capability, without shared writes between them.
newtype Attendances = Attendances (SmallArray Attendance)

-- | Run with them, and end their threads.
--
-- [Blocks]: as the body does.
withAttendances :: Runtime -> (Attendances -> IO a) -> IO a
withAttendances runtime = bracket open (\(Attendances all') -> traverse_ closeAttendance all')
  where
    open = Attendances . smallArrayFromList <$> traverse (const (newAttendance runtime)) [1 .. capabilitiesOf runtime]

-- | That of the request's capability.
attendanceFor :: Attendances -> Request -> Attendance
attendanceFor (Attendances all') request = indexSmallArray all' (requestCapability request `mod` sizeofSmallArray all')
