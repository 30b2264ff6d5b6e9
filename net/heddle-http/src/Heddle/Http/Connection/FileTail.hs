{-# OPTIONS_GHC -fmax-worker-args=3 #-}

-- For the option see "Heddle.Http.Connection".

-- |
-- Module      : Heddle.Http.Connection.FileTail
-- Description : Replies that end with a part of a file
-- Stability   : internal, exempt from the version policy
--
-- Cost: sendfile(2); a client that is slow is waited for without the workspace.
-- Owner: the connection's thread.
module Heddle.Http.Connection.FileTail
  ( answerByFile,
    sendRest,
  )
where

import Heddle.Http.ConnectionState
import Heddle.Http.Output
import Heddle.Http.Reply
import Heddle.Http.Request
import Heddle.Http.SendFile
import Heddle.Http.Settings
import Heddle.Http.Workspace
import Heddle.IO.Transport
import Heddle.Prim.Clock
import Heddle.Prim.Exception

-- | Send a reply that ends with a part of a file. Most clients take a file faster than it is sent. One that does not is waited for without the workspace.
answerByFile :: ConnectionState -> Request -> Deadline -> Closing -> [Segment] -> [Header] -> Rest -> IO Sent
answerByFile state request now closing before given rest =
  try (sendBeforeFile (stateOutput state) now closing (restStatus rest) given (sum (map segmentLength before) + restCount rest) before) >>= \case
    Left e -> Failed e <$ release
    Right () -> do
      done <- sendFileNow (stateTransport state) (restFile rest) (restOffset rest) (restCount rest)
      sent <- get ws WorkSent
      set ws WorkSent (sent + done)
      if done == restCount rest
        then Answered True <$ release
        else do
          saved <- suspend ws (requestBegan request) `onException` release
          pure (Slow saved rest {restOffset = restOffset rest + fromIntegral done, restCount = restCount rest - done})
  where
    ws = stateWork state
    release = restRelease rest
{-# NOINLINE answerByFile #-}

-- | The rest of the file, at the settings' pace: how much of it was sent. The reply is released.
--
-- [Blocks]: parks.
sendRest :: Pace -> Transport -> Rest -> IO Int
sendRest pace transport rest = sendFileAt pace transport (restFile rest) (restOffset rest) (restCount rest) `finally` restRelease rest
