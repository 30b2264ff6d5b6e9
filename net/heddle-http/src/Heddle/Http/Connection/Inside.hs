{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -fmax-worker-args=3 #-}

-- For the option see "Heddle.Http.Connection".

-- |
-- Module      : Heddle.Http.Connection.Inside
-- Description : What a handler can do on its connection
-- Stability   : internal, exempt from the version policy
--
-- The actions in a 'Request': replies, interim replies and tunnels while the handler runs, and the body's 100 Continue.
--
-- Cost: see each function.
-- Owner: the connection's thread.
module Heddle.Http.Connection.Inside
  ( requestAt,
    beforeBody,
    duplexHere,
    Dropped (..),
    dropBody,
    logged,
  )
where

import Control.Monad (when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Http.Body
import Heddle.Http.ConnectionState
import Heddle.Http.Context
import Heddle.Http.Duplex (Duplex, newDuplex)
import Heddle.Http.Exception (ReplyMisuse (..))
import Heddle.Http.Framing
import Heddle.Http.Handlers
import Heddle.Http.Head (minorVersion)
import Heddle.Http.Output
import Heddle.Http.Reply
import Heddle.Http.ReplyCheck
import Heddle.Http.Request
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (freshNow)
import Heddle.Prim.Atomic (readWord)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception

-- | The request whose head the workspace holds, which came then.
--
-- [Cost]: nothing, where it is inlined.
requestAt :: ConnectionState -> Deadline -> Request
requestAt state now =
  Request
    { requestTransport = stateTransport state,
      requestWork = stateWork state,
      requestSettings = settingsOf state,
      requestCapability = contextCapability (stateContext state),
      requestBegan = now,
      requestFlush = mask_ (beforeBody state),
      requestPolls = False,
      requestReply = \request reply -> mask_ (replyInside state request reply),
      requestEarly = \status given -> mask_ (interimInside state status given)
    }
{-# INLINE requestAt #-}

-- | Before waiting for a body: send the gathered replies, and 100 Continue if it is owed.
{-# NOINLINE beforeBody #-}
beforeBody :: ConnectionState -> IO ()
beforeBody state = do
  let ws = stateWork state
  -- After 'replyNow' the output belongs to the reply, which another thread may be writing.
  replied <- get ws WorkReplied
  when (replied == 0) $ do
    owed <- get ws WorkContinue
    when (owed == 1) $ do
      set ws WorkContinue 0
      putBytes (stateOutput state) "HTTP/1.1 100 Continue\r\n\r\n"
    flush (stateOutput state)

-- Reply while the handler runs. Until output has been sent, a failure takes the reply back.
{-# NOINLINE replyInside #-}
replyInside :: ConnectionState -> Request -> Reply -> IO Int
replyInside state request given = do
  let ws = stateWork state
      out = stateOutput state
  replied <- get ws WorkReplied
  when (replied /= 0) (releaseReply given >> throwIO RepliedTwice)
  unread <- bodyUnread request
  reply <- case checkReply given of
    Sound -> pure given
    Unsound e -> releaseReply given >> throwIO e
    Amended make closing -> do
      when (unread && mayReadBody given) (beforeBody state)
      when closing (set ws WorkCloses 1)
      unsafeUnmask make `onException` releaseReply given
  -- The body may be read later, but 100 Continue cannot be sent then. If it is still owed, the client
  -- is told not to send the body, unless the reply is a stream, which may read it.
  when (unread && mayReadBody reply) (beforeBody state)
  owed <- get ws WorkContinue
  base <- get ws WorkBase
  persistence <- persistenceOf (inputPtr ws `plusPtr` base) (workHead ws)
  minor <- minorVersion (workHead ws)
  code <- method request
  draining <- readWord (contextDraining (stateContext state)) 0
  wanted <- get ws WorkCloses
  now <- freshNow (stateConn state)
  -- All that is needed of the reply after it was sent: the reply would keep content that is lazy.
  let closes = persistence == Close || draining /= 0 || wanted /= 0 || (unread && owed /= 0)
      !closing
        | closes = Closes
        | minor == 0 = StaysTold
        | otherwise = Stays
      !status = replyStatus reply
      !tunnel = case reply of Tunnel _ action -> Just action; _ -> Nothing
  -- What an earlier request left in the output is sent with this reply, or without it.
  before <- get ws WorkUsed
  set ws WorkPushed 0
  set ws WorkReplied 1
  try (sendReply out now False code minor closing reply) >>= \case
    Right stays -> do
      case tunnel of
        Just action -> tunnelHere state action >> set ws WorkReplied 4
        Nothing -> set ws WorkReplied (if closes || not stays then 3 else 2)
      logged state request LoggedRequest status
      get ws WorkSent
    Left e -> do
      pushed <- get ws WorkPushed
      if pushed == 0
        then set ws WorkUsed before >> set ws WorkReplied 0
        else logged state request LoggedRequest status
      throwIO (e :: SomeException)

-- An interim response, behind what earlier requests left in the output.
{-# NOINLINE interimInside #-}
interimInside :: ConnectionState -> Status -> [Header] -> IO ()
interimInside state status given = do
  fields <- interimLines given
  replied <- get (stateWork state) WorkReplied
  minor <- minorVersion (workHead (stateWork state))
  when (replied == 0 && minor > 0 && statusCode status >= 100 && statusCode status < 200) $ do
    let out = stateOutput state
    putBytes out (C.concat ["HTTP/1.1 ", C.pack (show (statusCode status)), " ", reasonPhrase status, "\r\n"])
    putBytes out fields
    putBytes out "\r\n"
    flush out

-- A tunnel inside a handler, which still holds the workspace.
{-# NOINLINE tunnelHere #-}
tunnelHere :: ConnectionState -> (Duplex -> IO ()) -> IO ()
tunnelHere state action = duplexHere state >>= unsafeUnmask . action

-- | The connection as a tunnel gets it: it begins with what was received after the request's head.
--
-- [Cost]: a copy of that.
duplexHere :: ConnectionState -> IO Duplex
duplexHere state = do
  let ws = stateWork state
  start <- get ws WorkStart
  end <- get ws WorkEnd
  -- A tunnel may last, so it shall not keep an empty string's memory.
  received <- if start == end then pure B.empty else B.packCStringLen (castPtr (inputPtr ws `plusPtr` start), end - start)
  newDuplex (stateTransport state) (settingReplyPace (settingsOf state)) received

-- | Call the log hook, if there is one.
logged :: ConnectionState -> Request -> Logged -> Status -> IO ()
logged state request what status = case contextLog (stateContext state) of
  Nothing -> pure ()
  Just hook -> get (stateWork state) WorkSent >>= hook request what status
{-# INLINE logged #-}

-- | The state of a body that the handler did not read to its end.
data Dropped
  = -- | Nothing of it is left.
    Dropped
  | -- | Too much is left, or the client's end came first: the connection must close.
    LeftOver
  | -- | It is malformed, too large or too slow.
    Faulty !BodyError
  deriving stock (Eq)

-- | Drop what the handler has left of the body, within the limit of the settings.
--
-- [Blocks]: parks.
dropBody :: ConnectionState -> Request -> IO Dropped
dropBody state request =
  try (discardBody request (settingDiscard (settingsOf state))) >>= \case
    Right whole -> pure (if whole then Dropped else LeftOver)
    Left BodyCutShort -> pure LeftOver
    Left failure -> pure (Faulty failure)
{-# NOINLINE dropBody #-}
