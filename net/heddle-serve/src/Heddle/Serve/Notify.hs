{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Notify
-- Description : Telling systemd how the server is
-- Stability   : internal, exempt from the version policy
--
-- The protocol of "sd_notify(3)": datagrams to the Unix socket that @NOTIFY_SOCKET@ names. Without the variable nothing is
-- sent. The watchdog's message says that every capability's event manager has answered: a thread on each one parks for a
-- millisecond, and systemd is told when all have come back.
--
-- Cost: a system call for each message; the watchdog costs a thread and, at half of systemd's interval, a timer on each
-- capability.
-- Owner: 'withNotify' closes the socket and ends the watchdog.
module Heddle.Serve.Notify
  ( Notify,
    notifyVariables,
    withNotify,
    notifyServing,
    notifyReloading,
    notifyReady,
    notifyStopping,
    notifySuccessor,
  )
where

import Control.Monad (forever, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Clock (Deadline (..), Nanos, deadlineIn, microseconds, milliseconds, monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkOn, labelMe)
import Heddle.Prim.WaitCell
import Heddle.Scope (withTask)
import Network.Socket
import Network.Socket.ByteString (sendTo)
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.Process (getProcessID)
import Text.Read (readMaybe)

-- | Where to tell, if somebody listens.
data Notify = Notify
  { notifySocket :: !(Maybe (Socket, SockAddr)),
    -- | The variables that say so, for a successor.
    notifyVariables :: ![(String, String)]
  }

-- | With the socket that the environment names, and a watchdog if systemd asks for one. The variables are removed, so that
-- no program started by this one reports in its place.
--
-- [Blocks]: as the body does.
withNotify :: Runtime -> (Notify -> IO a) -> IO a
withNotify runtime body = do
  named <- lookupEnv "NOTIFY_SOCKET"
  interval <- (>>= readMaybe) <$> lookupEnv "WATCHDOG_USEC"
  watched <- (>>= readMaybe) <$> lookupEnv "WATCHDOG_PID"
  for_ ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] unsetEnv
  me <- toInteger <$> getProcessID
  bracket (traverse open (named >>= addressOf)) (mapM_ (close . fst)) $ \there -> do
    let channel = Notify there ([("NOTIFY_SOCKET", name) | Just name <- [named]] ++ [("WATCHDOG_USEC", show n) | Just n <- [interval]])
    case interval of
      Just n
        | Just _ <- there, maybe True (== me) watched, n > 0 -> withTask (labelMe "serve/watchdog" >> watchdog runtime channel (microseconds (n `quot` 2))) (const (body channel))
      _ -> body channel
  where
    open address = do
      s <- socket AF_UNIX Datagram defaultProtocol
      pure (s, address)
    -- @ stands for the zero byte of an abstract address.
    addressOf = \case
      '@' : rest -> Just (SockAddrUnix ('\0' : rest))
      path@('/' : _) -> Just (SockAddrUnix path)
      _ -> Nothing

-- | The server accepts connections at these URLs.
--
-- [Blocks]: as all messages, until there is room in the socket's queue, which systemd reads.
notifyServing :: Notify -> [String] -> IO ()
notifyServing channel urls = notify channel ["READY=1", "STATUS=serving " <> C.pack (unwords urls)]

-- | It opens its files again; 'notifyReady' says when that is done.
notifyReloading :: Notify -> IO ()
notifyReloading channel = do
  now <- deadlineNanos <$> monotonicNow
  notify channel ["RELOADING=1", "MONOTONIC_USEC=" <> C.pack (show (now `quot` 1000))]

-- | A reload has ended.
notifyReady :: Notify -> IO ()
notifyReady channel = notify channel ["READY=1"]

-- | It accepts no more.
notifyStopping :: Notify -> IO ()
notifyStopping channel = notify channel ["STOPPING=1", "STATUS=waiting for open connections"]

-- | Another process is the service now. What it has told systemd so far did not count, so this restarts the watchdog's time.
notifySuccessor :: Notify -> Int -> IO ()
notifySuccessor channel pid = notify channel ["MAINPID=" <> C.pack (show pid), "WATCHDOG=1"]

-- That nobody receives it is not an error of the server.
notify :: Notify -> [ByteString] -> IO ()
notify channel assignments = for_ (notifySocket channel) $ \(s, address) -> void (trySync (sendTo s (B.intercalate "\n" assignments) address))

-- At half of the interval, if all event managers answer, one after the other.
watchdog :: Runtime -> Notify -> Nanos -> IO ()
watchdog runtime channel interval = forever $ do
  for_ [0 .. capabilitiesOf runtime - 1] $ \i -> do
    answered <- newWaitCell
    _ <- forkOn i "serve/watchdog" (rest (milliseconds 1) >> unpark answered)
    park answered
  notify channel ["WATCHDOG=1"]
  rest interval
  where
    rest time = Parker.withParker runtime $ \parker -> do
      deadline <- deadlineIn time
      void (Parker.awaitUntil parker deadline (pure (Nothing :: Maybe ())))
