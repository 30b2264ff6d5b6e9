{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE TupleSections #-}

-- |
-- Module      : Heddle.Serve.AccessLog
-- Description : A ring of lines per capability, one writer
-- Stability   : internal, exempt from the version policy
--
-- Each capability formats its lines into its own ring. One thread writes all rings to the
-- file, as soon as a ring holds 64 KB or 200 ms after the first line. Lines are never split. The rings of a log that is a file
-- outlive a process that is killed; see "Heddle.Serve.LogPending".
--
-- When the file accepts no data (a stalled disk, a pipe that nobody reads), requests wait up
-- to one second for room in the ring. After that the log is stalled until the writer makes
-- progress: lines that do not fit are dropped at once and counted, and a second thread
-- reports their number at most every ten seconds. Lines that the file refuses (a full disk) are
-- counted likewise. With 'Block' requests wait on, and the writer tries refused lines again, with
-- 'DropAtOnce' they do not wait at all. Closing the log waits while the writer
-- makes progress, for ten seconds at most; after a second without progress it leaves the
-- writer behind.
--
-- Cost: about 400 ns a line; one write(2) per 64 KB; nothing while idle.
-- Owner: the writer thread @serve/access-log@ owns the file and closes it, whenever it ends; see Note [Threads left behind].
-- Shared writes per line: 0 (the ring belongs to the capability).
-- [Source]: Mighttpd, section on logging.
module Heddle.Serve.AccessLog
  ( AccessLog,
    withAccessLog,
    withOrderedLog,
    accessLogHook,
    reopen,
    abandon,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Gateway.Proxy (Network)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Parker (Parker, closeParker, newParker)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork, nap)
import Heddle.Serve.Internal.LogRing
import Heddle.Serve.LogFilter (newSelection)
import Heddle.Serve.LogFormat
import Heddle.Serve.LogLine
import Heddle.Serve.LogOptions
import Heddle.Serve.LogOrder
import Heddle.Serve.LogPending
import Heddle.Serve.LogSink
import Heddle.Serve.LogTarget
import System.Posix.Types (Fd)

-- | An open access log.
data AccessLog = AccessLog
  { logRings :: ![LogRing],
    -- | Where they are, if a file has them.
    logPending :: !(Maybe PendingFile),
    -- | Where the writer parks.
    logWake :: !Parker,
    -- | See the @Log…@ patterns.
    logWords :: !Words,
    -- | Where the reporter parks.
    logReport :: !Parker,
    -- | Where the closing thread waits for the writer's end.
    logEnded :: !Parker,
    logSink :: !LogSink,
    logOptions :: !LogOptions,
    -- | If lines are to come in order.
    logOrder :: !(Maybe (Ref ReorderBuffer)),
    -- | Why the file has refused lines since the last report.
    logRefused :: !(Ref (Maybe Errno)),
    -- | Called with a message about dropped lines or a failed write.
    logTrouble :: !(String -> IO ())
  }

-- 1: the writer is asleep; the first line must wake it.
pattern LogResting, LogReopen, LogEnding, LogDropped, LogStalled, LogProgress, LogOver, LogAbandoned, LogTold :: Int
pattern LogResting = 0
-- 1: the writer must reopen the file.
pattern LogReopen = 8
-- 1: the writer must write the pending lines and end.
pattern LogEnding = 16
-- The number of dropped lines not yet reported.
pattern LogDropped = 24
-- 1: a line has waited a second for room, and the writer has made no progress since.
pattern LogStalled = 40
-- When a refusal may be reported again. Only the writer uses this word.
pattern LogTold = 32
-- How many pieces have been written. Only the writer writes this word.
pattern LogProgress = 48
-- 1: the writer has ended.
pattern LogOver = 49
-- 1: the closing thread must stop waiting for the writer's end.
pattern LogAbandoned = 56

-- Small enough to stay in the core's cache.
ringSize :: Int
ringSize = 262144

-- Wake the writer at once when this many bytes are pending.
eager :: Int
eager = 65536

-- How long a line is kept so that those of requests that began earlier can come before it. A line is put right after its reply was sent,
-- so this is how far a thread may be delayed between both.
orderWindow :: Nanos
orderWindow = milliseconds 200

-- | @withAccessLog runtime opening options place report body@ opens a log, runs the body, writes the
-- pending lines and closes the log. @opening@ wraps the
-- opening of a file. Only the log's threads and the closing thread call @report@, so one that
-- blocks delays no request.
--
-- [Blocks]: opening holds an OS thread; closing parks while the writer makes progress.
-- [Throws]: 'IOError' when the target cannot be opened; ENXIO for a FIFO without a reader.
withAccessLog :: Runtime -> (IO Fd -> IO Fd) -> LogOptions -> LogTarget -> (String -> IO ()) -> (AccessLog -> IO a) -> IO a
withAccessLog = withLogOf False

-- | The same, with the lines of all capabilities in the order in which their requests began, up to 250 ms late: those of a client that
-- makes one request after the other are in order, on whatever cores they were served. Lines of a process that is killed are lost.
--
-- [Blocks]: as 'withAccessLog'.
-- [Throws]: as 'withAccessLog'.
withOrderedLog :: Runtime -> (IO Fd -> IO Fd) -> LogOptions -> LogTarget -> (String -> IO ()) -> (AccessLog -> IO a) -> IO a
withOrderedLog = withLogOf True

withLogOf :: Bool -> Runtime -> (IO Fd -> IO Fd) -> LogOptions -> LogTarget -> (String -> IO ()) -> (AccessLog -> IO a) -> IO a
withLogOf ordered runtime opening options place report = bracket open close
  where
    -- A report that cannot be written must not end the thread that makes it.
    trouble = void . trySync . report
    open = do
      sink <- openSink opening (logRotation options) place
      file <- openRings sink `onException` closeSink sink
      rings <- maybe (mapM (\_ -> newLogRing ringSize) [1 .. capabilitiesOf runtime]) (pure . pendingRings) file
      order <- if ordered then Just <$> newRef noLines else pure Nothing
      log' <-
        ((\wake ws again ended refused -> AccessLog rings file wake ws again ended sink options order refused trouble) <$> newParker runtime <*> newWords 64 <*> newParker runtime <*> newParker runtime <*> newRef Nothing)
          `onException` (closeSink sink >> for_ file closePending)
      _ <- fork "serve/access-log" (writer log' `finally` over log')
      log' <$ fork "serve/access-log-report" (reporter log')
    -- What a process that was killed has left is written before the first line of this one.
    openRings sink =
      sinkFile sink >>= \case
        Nothing -> pure Nothing
        -- Whoever wrote what is left would not know of stamps.
        _ | ordered -> pure Nothing
        Just (fd, path) -> do
          r <- openPending (trouble . ("access log: " ++)) path fd (rotateKeep (logRotation options)) (capabilitiesOf runtime) ringSize
          noteFile sink
          case r of
            Right file -> pure (Just file)
            Left why -> Nothing <$ trouble ("access log: " ++ why ++ "; lines that are not written yet are lost if this process is killed")
    over log' = do
      closeSink (logSink log')
      for_ (logPending log') closePending
      atomicWrite (logWords log') LogOver 1
      Parker.unpark (logEnded log')
    close log' = uninterruptibleMask_ $ do
      atomicWrite (logWords log') LogEnding 1
      Parker.unpark (logWake log')
      ended <- awaitEnd log'
      dropped <- atomicRead (logWords log') LogDropped
      left <- if ended then pure 0 else sum <$> traverse pendingBytes (logRings log')
      when (dropped > 0) (reportDropped log')
      unless ended $ trouble ("access log: " ++ logName log' ++ " takes nothing; " ++ show left ++ " bytes of lines are not written" ++ foldMap (\file -> "; they stay in " ++ pendingPath file ++ " for the next start") (logPending log'))
      Parker.unpark (logReport log')
      mapM_ (closeParker . ($ log')) [logWake, logReport, logEnded]

-- Wait for the writer's end: 'False' after a second without progress, after ten seconds in
-- all, or after 'abandon'. The wait is finite, so the caller may make it uninterruptible.
awaitEnd :: AccessLog -> IO Bool
awaitEnd log' = do
  limit <- deadlineIn (seconds 10)
  let go before deadline = do
        Parker.prepare parker
        over <- atomicRead ws LogOver
        abandoned <- atomicRead ws LogAbandoned
        progress <- atomicRead ws LogProgress
        now <- monotonicNow
        let next = if progress == before then deadline else after (seconds 1) now
        stopped <- Parker.isClosed parker
        if over == 1
          then pure True
          else
            if abandoned == 1 || stopped || now >= min limit next
              then pure False
              else Parker.parkUntil parker (min limit next) >> go progress next
  go (-1) never
  where
    ws = logWords log'
    parker = logEnded log'

-- | Make 'withAccessLog' end without waiting for pending lines.
--
-- [Blocks]: never.
abandon :: AccessLog -> IO ()
abandon log' = do
  atomicWrite (logWords log') LogAbandoned 1
  Parker.unpark (logEnded log')

logName :: AccessLog -> String
logName = sinkName . logSink

-- Reports dropped lines from a thread of its own, because the writer may be stuck in a write.
reporter :: AccessLog -> IO ()
reporter log' = go
  where
    ws = logWords log'
    parker = logReport log'
    over = (||) <$> ((== 1) <$> atomicRead ws LogEnding) <*> Parker.isClosed parker
    go = do
      Parker.prepare parker
      ended <- over
      unless ended $ do
        dropped <- atomicRead ws LogDropped
        if dropped == 0
          then Parker.parkUntil parker never
          else reportDropped log' >> deadlineIn (seconds 10) >>= pause
        go
    -- Lines dropped during the pause are counted in the next report.
    pause deadline = do
      Parker.prepare parker
      ended <- over
      late <- Parker.isPast parker deadline
      unless (ended || late) (Parker.parkUntil parker deadline >> pause deadline)

reportDropped :: AccessLog -> IO ()
reportDropped log' = do
  n <- atomicRead (logWords log') LogDropped
  -- The reporter and the closing thread may both come here.
  mine <- compareAndSet (logWords log') LogDropped n 0
  if not mine
    then reportDropped log'
    else when (n > 0) $ do
      why <- modifyRef (logRefused log') (Nothing,)
      logTrouble log' ("access log: " ++ show n ++ (if n == 1 then " line was" else " lines were") ++ " dropped: " ++ logName log' ++ maybe " does not keep up" ((": " ++) . describeErrno) why)

-- Count dropped lines, and have the first ones reported.
countDropped :: AccessLog -> Int -> IO ()
countDropped log' n = do
  before <- fetchAdd (logWords log') LogDropped n
  when (before == 0) (Parker.unpark (logReport log'))

-- | Make the writer reopen the log's file, which may have been moved away.
reopen :: AccessLog -> IO ()
reopen log' = do
  atomicWrite (logWords log') LogReopen 1
  Parker.unpark (logWake log')

-- | The hook that a capability calls for each reply: format the line in the request's scratch
-- memory, then put it into the capability's ring. The lines name the client that a proxy in these networks names.
accessLogHook :: AccessLog -> [Network] -> LogFormat -> Int -> IO LogHook
accessLogHook log' trusted format capability = do
  hook <- case format of
    _ | isJust (logOrder log') -> hookWith log' trusted (\clock request what status sent p -> pokeStamp (requestBegan request) p >>= pokeLineAs format clock request what status sent) capability
    -- A known function for the usual format.
    Combined -> hookWith log' trusted pokeLogLine capability
    _ -> hookWith log' trusted (pokeLineAs format) capability
  selected <- newSelection (logFilter (logOptions log'))
  pure $ case selected of
    Nothing -> hook
    Just wanted -> \request what status bytes -> wanted request what status >>= \yes -> when yes (hook request what status bytes)

hookWith :: AccessLog -> [Network] -> (LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)) -> Int -> IO LogHook
hookWith log' trusted pokeLine capability = do
  clock <- newLogClockTrusting trusted
  let ring = logRings log' !! capability
  pure $ \request what status bytes -> withScratch request $ \p -> do
    end <- pokeLine clock request what status bytes p
    let n = end `minusPtr` p
        put deadline = do
          waiting <- putLine ring p n
          if waiting >= 0 then announce waiting n else refused deadline
        refused = case logFull (logOptions log') of
          WaitThenDrop -> full
          DropAtOnce -> \_ -> Parker.unpark (logWake log') >> countDropped log' 1
          Block -> blocked
        -- Until the log is closed, which waits for no request.
        blocked _ = do
          Parker.unpark (logWake log')
          ending <- (||) <$> ((== 1) <$> atomicRead ws LogEnding) <*> ((== 1) <$> atomicRead ws LogAbandoned)
          if ending
            then countDropped log' 1
            else deadlineIn (milliseconds 5) >>= pauseRequestUntil request >> put never
        -- Pauses of 5 ms are enough: the writer frees ring space as soon as it has written.
        full deadline = do
          Parker.unpark (logWake log')
          now <- monotonicNow
          stalled <- atomicRead ws LogStalled
          let limit = if deadline == never then after (seconds 1) now else deadline
          if stalled == 1 || now >= limit
            then do
              when (stalled == 0) (atomicWrite ws LogStalled 1)
              countDropped log' 1
            else do
              pauseRequestUntil request (min limit (after (milliseconds 5) now))
              put limit
    put never
  where
    ws = logWords log'
    announce waiting n = do
      resting <- atomicRead ws LogResting
      when (resting == 1) $ do
        won <- compareAndSet ws LogResting 1 0
        when won (Parker.unpark (logWake log'))
      -- Only the line that crosses the threshold wakes the writer, not every line after it.
      when (waiting >= eager && waiting - n < eager) $ Parker.unpark (logWake log')
{-# INLINE hookWith #-}

-- The writer ---------------------------------------------------------------------

writer :: AccessLog -> IO ()
writer log' = go
  where
    ws = logWords log'
    parker = logWake log'
    go = do
      Parker.prepare parker
      again <- atomicRead ws LogReopen
      ending <- (||) <$> ((== 1) <$> atomicRead ws LogEnding) <*> Parker.isClosed parker
      passes <- case logOrder log' of
        Nothing -> traverse (uncurry (drain log')) (zip [0 ..] (logRings log'))
        Just order -> pure <$> drainInOrder log' order ending
      -- What was logged before the request to reopen belongs to the old file.
      when (again == 1) (atomicWrite ws LogReopen 0 >> reopenNow log')
      case maximum passes of
        More -> go
        Wrote -> unless ending gather >> go
        Nothing' -> unless ending (rest >> go)
    -- Wait before the next pass, so that one write takes many lines.
    gather = do
      deadline <- deadlineIn (milliseconds (if isJust (logOrder log') then 50 else 200))
      Parker.parkUntil parker deadline
    -- Sleep until the first line. LogResting is set before the rings are checked once more, so
    -- a line put in between either is found by the check or wakes the writer.
    rest = do
      atomicWrite ws LogResting 1
      more <- or <$> traverse (\r -> pending r (\_ n -> pure (n > 0))) (logRings log')
      if more then atomicWrite ws LogResting 0 else Parker.parkUntil parker never >> awoken
    awoken = do
      Parker.prepare parker
      ending <- atomicRead ws LogEnding
      unless (ending == 1) gather

-- What a pass over one ring wrote: nothing, all pending lines, or 'share' pieces with more left.
data Pass = Nothing' | Wrote | More
  deriving stock (Eq, Ord)

-- The most pieces to write in one pass, so that a busy ring does not delay the others.
share :: Int
share = 4

drain :: AccessLog -> Int -> LogRing -> IO Pass
drain log' number ring = go 0
  where
    go :: Int -> IO Pass
    go pieces
      | pieces == share = pure More
      | otherwise = do
        n <- pending ring $ \p n -> n <$ when (n > 0) (ringTail ring >>= \at -> writePiece log' (noting at) p n)
        if n == 0
          then pure (if pieces == 0 then Nothing' else Wrote)
          else do
            consume ring n
            for_ (logPending log') forgetNote
            progressed log'
            go (pieces + 1)
    noting :: Int64 -> Int -> Int -> SinkPlace -> IO ()
    noting at done n place = for_ (logPending log') $ \file -> note file number (at + fromIntegral done) n place

-- All rings, and what is due of their lines. The time is read before the rings: a line that is put into one that was looked at already
-- has a later stamp than all that is written now, if its client waited for the replies before; see 'orderWindow'.
drainInOrder :: AccessLog -> Ref ReorderBuffer -> Bool -> IO Pass
drainInOrder log' order ending = do
  Deadline now <- monotonicNow
  took <- or <$> traverse (takeLines share) (logRings log')
  (due, rest) <- takeUntil (if ending then never else Deadline (now - nanosCount orderWindow)) <$> readRef order
  writeRef order rest
  unless (B.null due) $ do
    unsafeUseAsCStringLen due (\(p, n) -> writePiece log' (\_ _ _ -> pure ()) (castPtr p) n)
    progressed log'
  pure (if took || not (isEmptyBuffer rest) || not (B.null due) then Wrote else Nothing')
  where
    takeLines :: Int -> LogRing -> IO Bool
    takeLines pieces ring = do
      n <- pending ring $ \p n -> n <$ when (n > 0) (B.packCStringLen (castPtr p, n) >>= \given -> readRef order >>= writeRef order . addStamped given)
      if n == 0 then pure False else consume ring n >> True <$ when (pieces > 1) (void (takeLines (pieces - 1) ring))

-- Something was written.
progressed :: AccessLog -> IO ()
progressed log' = do
  progress <- readWord ws LogProgress
  atomicWrite ws LogProgress (progress + 1)
  stalled <- atomicRead ws LogStalled
  when (stalled == 1) (atomicWrite ws LogStalled 0)
  where
    ws = logWords log'

-- Write whole lines, or count those that the target refuses. With 'Block' they are written later. The action is told before each
-- write where in the lines it begins, and how much it is.
writePiece :: AccessLog -> (Int -> Int -> SinkPlace -> IO ()) -> Ptr Word8 -> Int -> IO ()
writePiece log' noting p n = do
  (done, failed) <- writeLinesNoting (logSink log') (noting 0 n) (\what -> logTrouble log' ("access log: " ++ what)) SeverityInfo p n
  for_ failed $ \e -> do
    let rest = p `plusPtr` done
    if logFull (logOptions log') == Block
      then do
        now <- monotonicNow
        told <- readWord ws LogTold
        -- The clock's zero is long past.
        when (deadlineNanos now >= told) $ do
          writeWord ws LogTold (deadlineNanos (after (seconds 10) now))
          logTrouble log' ("access log: " ++ logName log' ++ ": " ++ describeErrno e ++ "; requests wait when the buffers are full")
        -- Closing the log leaves this thread behind when it makes no progress.
        nap (milliseconds 500)
        -- The lines may be wanted in another file, which has room.
        again <- atomicRead ws LogReopen
        when (again == 1) (atomicWrite ws LogReopen 0 >> reopenNow log')
        writePiece log' (noting . (done +)) rest (n - done)
      else do
        refused <- B.count 10 <$> unsafePackCStringLen (castPtr rest, n - done)
        writeRef (logRefused log') (Just e)
        countDropped log' refused
  where
    ws = logWords log'

reopenNow :: AccessLog -> IO ()
reopenNow log' = trySync (reopenSink (logSink log')) >>= either (\e -> logTrouble log' ("access log: cannot reopen: " ++ describeException e)) pure

-- Note [Threads left behind]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- The writer and the reporter are not tasks of a heddle-scope scope, because a scope ends only
-- after its tasks, and neither a write to a stalled disk nor a report to a pipe that nobody
-- reads can be interrupted. Closing the log waits while the writer makes progress, and then
-- leaves both threads behind.
