{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.AccessLog
-- Description : A ring of lines per capability, one writer
-- Stability   : stable
--
-- Each capability formats its lines into its own ring; one thread writes the rings to the
-- file, when 64 KB wait or 200 ms after the first line. A line is always whole. When a disk
-- stalls, connections wait up to a second for room; then lines are dropped, counted and
-- reported.
--
-- Cost: about 400 ns a line; one write(2) per 64 KB; nothing while idle.
-- Owner: the writer thread @serve/access-log@ owns the file.
-- Shared writes per line: 0 (the ring belongs to the capability).
-- [Source]: Mighttpd, section on logging.
module Heddle.Serve.AccessLog
  ( AccessLog,
    withAccessLog,
    accessLogHook,
    reopen,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.Foldable (for_)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Http
import Heddle.Http.Request (Request (..))
import Heddle.Http.Workspace (Workspace (..))
import Heddle.IO.Internal
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File
import Heddle.Prim.Ring
import Heddle.Prim.Thread (fork, yield)
import Heddle.Prim.WaitCell
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.LogLine
import System.Posix.Types (Fd)

-- | An open access log.
data AccessLog = AccessLog
  { logRings :: ![Ring],
    -- | A timer slot: its write cell wakes the writer.
    logWake :: !Slot,
    -- | Word 0: the writer rests and wants to be woken by the first line; 8: reopen; 16:
    -- end; 24: lines dropped; 25: the file ends in half
    -- a line.
    logWords :: !Words,
    logEnded :: !WaitCell,
    logPath :: !(Maybe FilePath),
    logFile :: !(Ref Fd),
    -- | Hears of lines dropped and writes that fail.
    logTrouble :: !(String -> IO ())
  }

-- Small enough to stay in the core's cache.
ringSize :: Int
ringSize = 262144

-- Wake the writer at once when so much waits.
eager :: Int
eager = 65536

-- | Open a log (@-@ is standard output; the function wraps the opening of a file), run,
-- write what waits, close.
--
-- [Blocks]: opening, and ending, hold an OS thread.
-- [Throws]: 'IOError' when the file cannot be opened.
withAccessLog :: Runtime -> (IO Fd -> IO Fd) -> FilePath -> (String -> IO ()) -> (AccessLog -> IO a) -> IO a
withAccessLog runtime opening path report = bracket open close
  where
    -- A report that cannot be written must not end the writer.
    trouble = void . trySync . report
    toFile = if path == "-" then Nothing else Just path
    open = do
      fd <- maybe (pure 1) (opening . openLog) toFile
      rings <- mapM (\_ -> newRing ringSize) [1 .. capabilitiesOf runtime]
      wake <- timerSlot
      ws <- newWords 32
      ended <- newWaitCell
      file <- newRef fd
      let log' = AccessLog rings wake ws ended toFile file trouble
      _ <- fork "serve/access-log" (writer log' `finally` unpark ended)
      pure log'
    timerSlot = newSlot (managerOn runtime 0) TimerOnly (-1) mempty Attached (\_ -> pure ())
    close log' = uninterruptibleMask_ $ do
      -- Finite: the writer writes what waits and ends.
      atomicWrite (logWords log') 16 1
      unpark (slotWrite (logWake log'))
      park (logEnded log')
      void (closeSlot (logWake log'))
      when (isJust toFile) $ readRef (logFile log') >>= void . closeFile

openLog :: FilePath -> IO Fd
openLog path = do
  name <- fileNameBytes path
  fromIntegral <$> checked path (openFile name appendCreate)

-- | Open the log's file anew, after it was moved away.
reopen :: AccessLog -> IO ()
reopen log' = do
  atomicWrite (logWords log') 8 1
  unpark (slotWrite (logWake log'))

-- | What a capability calls per reply.
accessLogHook :: AccessLog -> Int -> IO LogHook
accessLogHook log' capability = do
  clock <- newLogClock
  let ring = logRings log' !! capability
  pure $ \request what status bytes -> withBuffer (workScratch (requestWork request)) $ \p -> do
    end <- pokeLogLine clock request what status bytes p
    let n = end `minusPtr` p
        put deadline = do
          waiting <- putLine ring p n
          if waiting >= 0 then announce waiting n else full deadline
        -- The connection's own slot keeps the time; the writer empties a ring at once.
        full deadline = do
          unpark (slotWrite (logWake log'))
          now <- monotonicNow
          let limit = if deadline == never then after (seconds 1) now else deadline
          if now >= limit
            then void (fetchAdd (logWords log') 24 1)
            else do
              _ <- reset (slotWrite (requestConn request))
              restUntil (requestConn request) (min limit (after (milliseconds 5) now))
              put limit
    put never
  where
    announce waiting n = do
      resting <- atomicRead (logWords log') 0
      when (resting == 1) $ do
        won <- compareAndSet (logWords log') 0 1 0
        when won (unpark (slotWrite (logWake log')))
      -- The line that crosses the threshold wakes the writer, not each one after it.
      when (waiting >= eager && waiting - n < eager) $ unpark (slotWrite (logWake log'))
{-# INLINE accessLogHook #-}

-- Park on a connection's slot, whatever its socket is ready for.
restUntil :: Slot -> Deadline -> IO ()
restUntil slot deadline = do
  armUntil slot Writable deadline
  closing <- isClosing slot
  if closing then yield else park (slotWrite slot)

-- The writer ---------------------------------------------------------------------

writer :: AccessLog -> IO ()
writer log' = go
  where
    ws = logWords log'
    cell = slotWrite (logWake log')
    go = do
      _ <- reset cell
      again <- atomicRead ws 8
      ending <- (||) <$> ((== 1) <$> atomicRead ws 16) <*> isClosing (logWake log')
      passes <- traverse (drain log') (logRings log')
      -- What was logged before the request to reopen belongs to the old file.
      when (again == 1) (atomicWrite ws 8 0 >> reopenNow log')
      dropped <- readWord ws 24
      when (dropped > 0) $ do
        _ <- fetchAdd ws 24 (negate dropped)
        logTrouble log' ("access log: " ++ show dropped ++ " lines were dropped: the disk does not keep up")
      case maximum passes of
        More -> go
        Wrote -> unless ending gather >> go
        Nothing' -> unless ending (rest >> go)
    -- Lines are coming: let them gather.
    gather = do
      deadline <- deadlineIn (milliseconds 200)
      waitUntil (logWake log') Writable deadline
    -- Sleep until the first line; look again after saying so.
    rest = do
      atomicWrite ws 0 1
      more <- or <$> traverse (\r -> pending r (\_ n -> pure (n > 0))) (logRings log')
      if more then atomicWrite ws 0 0 else waitUntil (logWake log') Writable never >> firstLine
    firstLine = do
      _ <- reset cell
      ending <- atomicRead ws 16
      unless (ending == 1) gather

-- What a pass over one ring did: nothing, all there was, or its share of more.
data Pass = Nothing' | Wrote | More
  deriving stock (Eq, Ord)

-- At most so many pieces at a time, so that one busy ring does not hold up the others.
share :: Int
share = 4

drain :: AccessLog -> Ring -> IO Pass
drain log' ring = go 0
  where
    go :: Int -> IO Pass
    go pieces
      | pieces == share = pure More
      | otherwise = do
        n <- pending ring $ \p n -> n <$ when (n > 0) (writePiece log' p n)
        if n == 0
          then pure (if pieces == 0 then Nothing' else Wrote)
          else consume ring n >> go (pieces + 1)

-- Write a piece whole, or say what failed. After half a line the next piece begins on a
-- line of its own.
writePiece :: AccessLog -> Ptr Word8 -> Int -> IO ()
writePiece log' p n = do
  fd <- readRef (logFile log')
  torn <- readWord (logWords log') 25
  when (torn == 1) $ do
    r <- B.useAsCString "\n" (\line -> writeWhole fd (castPtr line) 1)
    when (r == 1) (writeWord (logWords log') 25 0)
  let step done = when (done < n) $ do
        r <- writeWhole fd (p `plusPtr` done) (n - done)
        if r > 0
          then step (done + r)
          else case Errno (negate r) of
            EINTR -> step done
            e -> do
              when (done > 0) (writeWord (logWords log') 25 1)
              logTrouble log' ("access log: " ++ fromMaybe "standard output" (logPath log') ++ ": " ++ describeErrno e ++ "; lines are lost")
  step 0

reopenNow :: AccessLog -> IO ()
reopenNow log' = for_ (logPath log') $ \path -> do
  opened <- trySync (openLog path)
  case opened of
    Right fd -> do
      old <- readRef (logFile log')
      writeRef (logFile log') fd
      void (closeFile old)
    Left e -> logTrouble log' ("access log: cannot reopen: " ++ displayException e)
