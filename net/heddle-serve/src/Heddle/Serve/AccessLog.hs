{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Serve.AccessLog
-- Description : A ring of lines per capability, one writer
-- Stability   : internal, exempt from the version policy
--
-- Each capability formats its lines into its own ring. One thread writes all rings to the
-- file, as soon as a ring holds 64 KB or 200 ms after the first line. Lines are never split.
--
-- When the file accepts no data (a stalled disk, a pipe that nobody reads), requests wait up
-- to one second for room in the ring. After that the log is stalled until the writer makes
-- progress: lines that do not fit are dropped at once and counted, and a second thread
-- reports their number at most every ten seconds. Closing the log waits while the writer
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
    accessLogHook,
    reopen,
    abandon,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.Foldable (for_)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Parker (Parker, closeParker, newParker)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File
import Heddle.Prim.Thread (fork)
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.Internal.LogRing
import Heddle.Serve.LogFormat
import Heddle.Serve.LogLine
import System.Posix.IO (FdOption (NonBlockingRead), setFdOption)
import System.Posix.Types (Fd)

-- | An open access log.
data AccessLog = AccessLog
  { logRings :: ![LogRing],
    -- | Where the writer parks.
    logWake :: !Parker,
    -- | See the @Log…@ patterns.
    logWords :: !Words,
    -- | Where the reporter parks.
    logReport :: !Parker,
    -- | Where the closing thread waits for the writer's end.
    logEnded :: !Parker,
    logPath :: !(Maybe FilePath),
    logFile :: !(Ref Fd),
    -- | Called with a message about dropped lines or a failed write.
    logTrouble :: !(String -> IO ())
  }

-- 1: the writer is asleep; the first line must wake it.
pattern LogResting, LogReopen, LogEnding, LogDropped, LogTorn, LogStalled, LogProgress, LogOver, LogAbandoned :: Int
pattern LogResting = 0
-- 1: the writer must reopen the file.
pattern LogReopen = 8
-- 1: the writer must write the pending lines and end.
pattern LogEnding = 16
-- The number of dropped lines not yet reported.
pattern LogDropped = 24
-- 1: the file ends in an incomplete line. Only the writer uses this word.
pattern LogTorn = 32
-- 1: a line has waited a second for room, and the writer has made no progress since.
pattern LogStalled = 40
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

-- | @withAccessLog runtime opening path report body@ opens a log, runs the body, writes the
-- pending lines and closes the log. The path @-@ is standard output; @opening@ wraps the
-- opening of a file. Only the log's threads and the closing thread call @report@, so one that
-- blocks delays no request.
--
-- [Blocks]: opening holds an OS thread; closing parks while the writer makes progress.
-- [Throws]: 'IOError' when the file cannot be opened; ENXIO for a FIFO without a reader.
withAccessLog :: Runtime -> (IO Fd -> IO Fd) -> FilePath -> (String -> IO ()) -> (AccessLog -> IO a) -> IO a
withAccessLog runtime opening path report = bracket open close
  where
    -- A report that cannot be written must not end the thread that makes it.
    trouble = void . trySync . report
    toFile = if path == "-" then Nothing else Just path
    open = do
      fd <- maybe (pure 1) (opening . openLog) toFile
      rings <- mapM (\_ -> newLogRing ringSize) [1 .. capabilitiesOf runtime]
      log' <- AccessLog rings <$> newParker runtime <*> newWords 64 <*> newParker runtime <*> newParker runtime <*> pure toFile <*> newRef fd <*> pure trouble
      _ <- fork "serve/access-log" (writer log' `finally` over log')
      log' <$ fork "serve/access-log-report" (reporter log')
    over log' = do
      when (isJust toFile) $ readRef (logFile log') >>= void . closeFile
      atomicWrite (logWords log') LogOver 1
      Parker.unpark (logEnded log')
    close log' = uninterruptibleMask_ $ do
      atomicWrite (logWords log') LogEnding 1
      Parker.unpark (logWake log')
      ended <- awaitEnd log'
      dropped <- atomicRead (logWords log') LogDropped
      left <- if ended then pure 0 else sum <$> traverse pendingBytes (logRings log')
      when (dropped > 0) (reportDropped log')
      unless ended $ trouble ("access log: " ++ logName log' ++ " takes nothing; " ++ show left ++ " bytes of lines are not written")
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
logName = fromMaybe "standard output" . logPath

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
  _ <- fetchAdd (logWords log') LogDropped (negate n)
  logTrouble log' ("access log: " ++ show n ++ (if n == 1 then " line was" else " lines were") ++ " dropped: " ++ logName log' ++ " does not keep up")

openLog :: FilePath -> IO Fd
openLog path = do
  name <- fileNameBytes path
  fd <- fromIntegral <$> checked path (openFile name appendCreate)
  -- Opening must not wait for a FIFO's reader; the writer's writes may.
  fd <$ setFdOption fd NonBlockingRead False `onException` closeFile fd

-- | Make the writer reopen the log's file, which may have been moved away.
reopen :: AccessLog -> IO ()
reopen log' = do
  atomicWrite (logWords log') LogReopen 1
  Parker.unpark (logWake log')

-- | The hook that a capability calls for each reply: format the line in the request's scratch
-- memory, then put it into the capability's ring.
accessLogHook :: AccessLog -> LogFormat -> Int -> IO LogHook
accessLogHook log' = \case
  -- A known function for the usual format.
  Combined -> hookWith log' pokeLogLine
  format -> hookWith log' (pokeLineAs format)

hookWith :: AccessLog -> (LogClock -> Request -> Logged -> Status -> Int -> Ptr Word8 -> IO (Ptr Word8)) -> Int -> IO LogHook
hookWith log' pokeLine capability = do
  clock <- newLogClock
  let ring = logRings log' !! capability
  pure $ \request what status bytes -> withScratch request $ \p -> do
    end <- pokeLine clock request what status bytes p
    let n = end `minusPtr` p
        put deadline = do
          waiting <- putLine ring p n
          if waiting >= 0 then announce waiting n else full deadline
        -- Pauses of 5 ms are enough: the writer frees ring space as soon as it has written.
        full deadline = do
          Parker.unpark (logWake log')
          now <- monotonicNow
          stalled <- atomicRead ws LogStalled
          let limit = if deadline == never then after (seconds 1) now else deadline
          if stalled == 1 || now >= limit
            then do
              when (stalled == 0) (atomicWrite ws LogStalled 1)
              before <- fetchAdd ws LogDropped 1
              when (before == 0) (Parker.unpark (logReport log'))
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
      passes <- traverse (drain log') (logRings log')
      -- What was logged before the request to reopen belongs to the old file.
      when (again == 1) (atomicWrite ws LogReopen 0 >> reopenNow log')
      case maximum passes of
        More -> go
        Wrote -> unless ending gather >> go
        Nothing' -> unless ending (rest >> go)
    -- Wait before the next pass, so that one write takes many lines.
    gather = do
      deadline <- deadlineIn (milliseconds 200)
      Parker.parkUntil parker deadline
    -- Sleep until the first line. LogResting is set before the rings are checked once more, so
    -- a line put in between either is found by the check or wakes the writer.
    rest = do
      atomicWrite ws LogResting 1
      more <- or <$> traverse (\r -> pending r (\_ n -> pure (n > 0))) (logRings log')
      if more then atomicWrite ws LogResting 0 else Parker.parkUntil parker never >> firstLine
    firstLine = do
      Parker.prepare parker
      ending <- atomicRead ws LogEnding
      unless (ending == 1) gather

-- What a pass over one ring wrote: nothing, all pending lines, or 'share' pieces with more left.
data Pass = Nothing' | Wrote | More
  deriving stock (Eq, Ord)

-- The most pieces to write in one pass, so that a busy ring does not delay the others.
share :: Int
share = 4

drain :: AccessLog -> LogRing -> IO Pass
drain log' ring = go 0
  where
    go :: Int -> IO Pass
    go pieces
      | pieces == share = pure More
      | otherwise = do
        n <- pending ring $ \p n -> n <$ when (n > 0) (writePiece log' p n)
        if n == 0
          then pure (if pieces == 0 then Nothing' else Wrote)
          else do
            consume ring n
            progress <- readWord ws LogProgress
            atomicWrite ws LogProgress (progress + 1)
            stalled <- atomicRead ws LogStalled
            when (stalled == 1) (atomicWrite ws LogStalled 0)
            go (pieces + 1)
    ws = logWords log'

-- Write a whole piece, or report the failure. If a failure left an incomplete line in the file,
-- the next piece starts with a newline.
writePiece :: AccessLog -> Ptr Word8 -> Int -> IO ()
writePiece log' p n = do
  fd <- readRef (logFile log')
  torn <- readWord (logWords log') LogTorn
  when (torn == 1) $ do
    r <- B.useAsCString "\n" (\line -> writeWhole fd (castPtr line) 1)
    when (r == 1) (writeWord (logWords log') LogTorn 0)
  let step done = when (done < n) $ do
        r <- writeWhole fd (p `plusPtr` done) (n - done)
        if r > 0
          then step (done + r)
          else case Errno (negate r) of
            EINTR -> step done
            e -> do
              when (done > 0) (writeWord (logWords log') LogTorn 1)
              logTrouble log' ("access log: " ++ logName log' ++ ": " ++ describeErrno e ++ "; lines are lost")
  step 0

reopenNow :: AccessLog -> IO ()
reopenNow log' = for_ (logPath log') $ \path -> do
  opened <- trySync (openLog path)
  case opened of
    Right fd -> do
      old <- readRef (logFile log')
      writeRef (logFile log') fd
      void (closeFile old)
    Left e -> logTrouble log' ("access log: cannot reopen: " ++ describeException e)

-- Note [Threads left behind]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- The writer and the reporter are not tasks of a heddle-scope scope, because a scope ends only
-- after its tasks, and neither a write to a stalled disk nor a report to a pipe that nobody
-- reads can be interrupted. Closing the log waits while the writer makes progress, and then
-- leaves both threads behind.
