{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Check
-- Description : Asking upstreams whether they are well
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- One thread for each upstream asks for a path now and then. A status from 200 to 399 is a good sign; another one, or none in time, takes the
-- upstream out until a good one comes.
--
-- Cost: a request for each upstream and interval.
-- Owner: 'withChecks', which ends the threads.
module Heddle.Gateway.Proxy.Check
  ( withChecks,
  )
where

import Control.Monad (unless, when)
import Heddle.Gateway.Proxy.Balance
import Heddle.Gateway.Proxy.Settings
import Heddle.Http.Client
import Heddle.IO (Runtime)
import Heddle.IO.Parker (Parker, closeParker, isClosed, newParker, parkUntil, prepare)
import Heddle.Prim.Clock (deadlineIn)
import Heddle.Prim.Exception (bracket, describeException, finally, mask_, onException, trySync, uninterruptibleMask_)
import Heddle.Prim.Thread (forkMasked, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | Run while the upstreams are checked.
--
-- [Blocks]: as the body does; then until the checks under way have been cut.
withChecks :: Runtime -> ProxySettings -> Client -> Check -> [Member] -> IO a -> IO a
withChecks runtime settings forwarding check members body =
  bracket (newClientOn runtime clientSettings) closeClient $ \client ->
    bracket (started client members) ended (const body)
  where
    clientSettings =
      defaultClientSettings
        { clientConnect = checkWithin check,
          clientHead = checkWithin check,
          clientSecure = proxySecure settings,
          clientAgent = "heddle-check"
        }
    started client = \case
      [] -> pure []
      member : others -> do
        one <- start client member
        rest <- started client others `onException` ended [one]
        pure (one : rest)
    start :: Client -> Member -> IO (Parker, WaitCell, Client)
    start client member = mask_ $ do
      parker <- newParker runtime
      over <- newWaitCell
      _ <-
        forkMasked (\restore -> (labelMe ("gateway/proxy/check/" ++ memberName member) >> restore (checking settings forwarding check client parker member)) `finally` unpark over)
          `onException` closeParker parker
      pure (parker, over, client)
    -- A request under way ends by its own deadline.
    ended threads = do
      mapM_ (\(parker, _, _) -> closeParker parker) threads
      mapM_ (\(_, over, _) -> uninterruptibleMask_ (park over)) threads

checking :: ProxySettings -> Client -> Check -> Client -> Parker -> Member -> IO ()
checking settings forwarding check client parker member = go
  where
    origin = urlOrigin (upstreamUrl (memberUpstream member))
    -- An upstream that serves one connection after the other would wait at a kept one: at the check's, or at one of the requests'.
    asked deadline =
      (requestTo "GET" origin (checkTarget check))
        { requestUntil = deadline,
          requestClose = True,
          requestAttended = Just (\_ -> (False <$) <$> makeWay forwarding origin)
        }
    go = do
      prepare parker
      closed <- isClosed parker
      unless closed $ do
        deadline <- deadlineIn (checkWithin check)
        result <- trySync $ withResponse client (asked deadline) (pure . statusCode . responseStatus)
        -- Whatever keeps it from answering in time is what a check looks for; the message has the cause.
        let up = either (const False) (\code -> code >= 200 && code < 400) result
        news <- markChecked member up
        when news . proxyFailed settings $
          memberName member ++ (if up then " is well again" else " is left out, as its check failed: " ++ either describeException (\code -> "status " ++ show code) result)
        next <- deadlineIn (checkEvery check)
        parkUntil parker next
        go
