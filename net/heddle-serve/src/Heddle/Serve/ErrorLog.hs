{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.ErrorLog
-- Description : The server's own messages, with time and level
-- Stability   : internal, exempt from the version policy
--
-- A line for each message. Control characters in it, which clients may have chosen, are replaced, so a message is one line.
-- What cannot be written goes to standard error.
--
-- Cost: a system call for a message.
-- Owner: the thread that writes messages opens the file again; any thread may ask for that.
module Heddle.Serve.ErrorLog
  ( ErrorLog,
    withErrorLog,
    logMessage,
    reopenErrors,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (create)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (isControl)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Foreign.Ptr (castPtr)
import Heddle.Bytes.HttpDate (logTimeLength, pokeLogTime)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Message (putErrorLine)
import Heddle.Serve.IsoTime (isoFromLogTime)
import Heddle.Serve.LogSink
import Heddle.Serve.LogTarget
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)

-- | An open log of messages.
data ErrorLog = ErrorLog
  { errorSink :: !LogSink,
    errorLevel :: !Severity,
    -- | Word 0: 1 to open the file again before the next message.
    errorWords :: !Words
  }

-- | Open a log for messages that matter at least so much, and close it when the body has ended.
--
-- [Blocks]: opening holds an OS thread.
-- [Throws]: 'IOError', as 'openSink'.
withErrorLog :: (IO Fd -> IO Fd) -> LogTarget -> Severity -> (ErrorLog -> IO a) -> IO a
withErrorLog wrap target level = bracket open (closeSink . errorSink)
  where
    open = openSink wrap noRotation target >>= \sink -> ErrorLog sink level <$> newWords 1

-- | Open the file again before the next message.
--
-- [Blocks]: never.
reopenErrors :: ErrorLog -> IO ()
reopenErrors log' = atomicWrite (errorWords log') 0 1

-- | Write a message.
--
-- [Blocks]: holds an OS thread.
-- [Threads]: one at a time.
logMessage :: ErrorLog -> Severity -> String -> IO ()
logMessage log' severity message = unless (severity > errorLevel log') $ do
  again <- atomicRead (errorWords log') 0
  when (again == 1) $ do
    atomicWrite (errorWords log') 0 0
    reopened <- trySync (reopenSink (errorSink log'))
    either (\e -> putErrorLine ("heddle serve: error log: cannot reopen: " ++ describeException e)) pure reopened
  now <- epochNow
  ahead <- utcOffsetMinutes now
  local <- BI.create logTimeLength (\p -> void (pokeLogTime p now ahead))
  pid <- getProcessID
  let stamp = B.concat [isoFromLogTime local, " [", C.pack (severityName severity), "] heddle[", C.pack (show pid), "]: "]
      line = B.concat [if isStamped then stamp else B.empty, encodeUtf8 (T.pack (map (\c -> if isControl c then ' ' else c) (take 4000 message))), "\n"]
  (_, failed) <- unsafeUseAsCStringLen line (\(p, n) -> writeLines (errorSink log') (const (pure ())) severity (castPtr p) n)
  case failed of
    Nothing -> pure ()
    Just e -> putErrorLine ("heddle serve: " ++ message ++ "\nheddle serve: error log: " ++ sinkName (errorSink log') ++ ": " ++ describeErrno e)
  where
    -- Daemons add time and level themselves.
    isStamped = case sinkTargetOf (errorSink log') of
      LogSyslog _ _ -> False
      LogJournald _ -> False
      _ -> True
