{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Connection
-- Description : One connection's conversation
-- Stability   : internal; exempt from the version policy
--
-- Straight-line code: receive, parse, decide the framing, call the handler, send, go on
-- with what is buffered, and idle when there is nothing. Runs masked; handlers run
-- unmasked.
--
-- Cost per kept request: recv, send and a share of epoll_wait; one clock reading.
-- Owner: the connection's thread, on the connection's capability.
-- Shared writes per request: 0.
module Heddle.Http.Connection
  ( Context (..),
    Handler,
    LogHook,
    Logged (..),
    newContext,
    converse,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Foreign.Marshal.Utils (moveBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Http.Date
import Heddle.Http.Framing
import Heddle.Http.Names (MethodCode, pattern MethodGet, pattern MethodHead)
import Heddle.Http.Output
import Heddle.Http.Parse
import Heddle.Http.Reply
import Heddle.Http.Request
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration
import Heddle.IO.Service (After (IdleUntil), idleDeadline, markActive)
import Heddle.IO.Service qualified as Service (After (Done))
import Heddle.Prim.Atomic (Words, readWord)
import Heddle.Prim.Buffer (Pool, borrow, giveBack, newPool)
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (yield)

-- | Answers one request.
type Handler = Request -> IO Reply

-- | What a log line is about.
data Logged
  = -- | A request that was parsed.
    LoggedRequest
  | -- | Bytes that made none; only their beginning can be shown.
    LoggedGarbage

-- | Called once per reply, after it was sent or given up: with the request, what it is,
-- the status and the bytes of content sent.
type LogHook = Request -> Logged -> Status -> Int -> IO ()

-- | What the connections of one capability share.
data Context = Context
  { contextSettings :: !Settings,
    contextCapability :: !Int,
    contextPool :: !(Pool Workspace),
    contextDate :: !DateClock,
    contextHandler :: !Handler,
    contextLog :: !(Maybe LogHook),
    -- | Word 0 is 1 while the server drains and 2 when idle connections are to close; shared
    -- by all capabilities, written twice.
    contextDraining :: !Words
  }

-- | The context of a capability.
newContext :: Settings -> Int -> Words -> Handler -> Maybe LogHook -> IO Context
newContext given capability draining handler hook = do
  -- A report that cannot be made must not end the connection that makes it.
  let settings = given {settingFailed = void . trySync . settingFailed given}
  pool <- newPool 64 (newWorkspace (settingLimits settings))
  date <- newDateClock
  pure (Context settings capability pool date handler hook draining)

-- | Serve what a connection has to say now.
--
-- [Throws]: 'ConnectionLost', and asynchronous exceptions; the workspace is then left to
-- the collector, which costs less than a handler frame per request.
converse :: Context -> Registration -> IO After
converse context registration = lending context registration begin

-- Talk with a borrowed workspace, which the caller's frame keeps until it is given back.
lending :: Context -> Registration -> (Talk -> IO Outcome) -> IO After
lending context registration act = do
  ws <- borrow (contextPool context)
  outcome <- act (Talk context registration ws (Output registration ws (contextSettings context) (contextDate context)))
  giveBack (contextPool context) ws
  case outcome of
    Over -> pure Service.Done
    Idle deadline -> pure (IdleUntil deadline)
    Unfinished partial deadline -> do
      waitUntil registration Readable deadline
      lending context registration $ \talk -> takeUp (talkWork talk) partial >> moreHead talk deadline

-- What to do after giving the workspace back.
data Outcome
  = -- | Close.
    Over
  | -- | Nothing until something comes, at most until then.
    Idle !Deadline
  | -- | The same, with the beginning of a head.
    Unfinished !Partial !Deadline

data Talk = Talk
  { talkContext :: !Context,
    talkConn :: !Registration,
    talkWork :: !Workspace,
    talkOutput :: !Output
  }

settingsOf :: Talk -> Settings
settingsOf = contextSettings . talkContext
{-# INLINE settingsOf #-}

-- Look for input without waiting.
begin :: Talk -> IO Outcome
begin talk = do
  let ws = talkWork talk
  set ws WorkBurst 0
  set ws WorkUsed 0
  deadline <- idleDeadline (talkConn talk)
  receiveFresh talk deadline

-- Nothing by the deadline: the connection has idled enough.
receiveFresh :: Talk -> Deadline -> IO Outcome
receiveFresh talk deadline = do
  let ws = talkWork talk
      size = inputSize ws
  n <- receiveNow (talkConn talk) (inputPtr ws) size
  if n > 0
    then do
      set ws WorkStart 0
      set ws WorkEnd n
      set ws WorkShort (if n < size then 1 else 0)
      nextHead talk
    else again n
  where
    again n
      | n == 0 = pure Over
      | Errno (negate n) == EINTR = receiveFresh talk deadline
      | Errno (negate n) == EAGAIN = do
        -- Nothing after all: back to waiting, by the same deadline.
        late <- deadlineOver (talkConn talk) deadline
        draining <- readWord (contextDraining (talkContext talk)) 0
        pure (if late || draining == 2 then Over else Idle deadline)
      | otherwise = pure Over

-- Parse the head that begins at the unread input.
nextHead :: Talk -> IO Outcome
nextHead talk = do
  let ws = talkWork talk
  start <- get ws WorkStart
  set ws WorkBase start
  startHead (workHead ws)
  parseOn talk never

parseOn :: Talk -> Deadline -> IO Outcome
parseOn talk deadline = do
  let ws = talkWork talk
  base <- get ws WorkBase
  end <- get ws WorkEnd
  parseHead (settingLimits (settingsOf talk)) (inputPtr ws `plusPtr` base) (end - base) (workHead ws) >>= \case
    Done n -> set ws WorkStart (base + n) >> serveRequest talk
    Reject status why -> reject talk LoggedGarbage status why
    More -> do
      deadline' <- if deadline == never then deadlineIn (settingHead (settingsOf talk)) else pure deadline
      moreHead talk deadline'

moreHead :: Talk -> Deadline -> IO Outcome
moreHead talk deadline = do
  let ws = talkWork talk
      registration = talkConn talk
      size = inputSize ws
  flush (talkOutput talk)
  base <- get ws WorkBase
  end <- get ws WorkEnd
  when (base > 0 && size - end < 4096) $ do
    moveBytes (inputPtr ws) (inputPtr ws `plusPtr` base) (end - base)
    set ws WorkBase 0
    set ws WorkEnd (end - base)
  end' <- get ws WorkEnd
  let room = size - end'
      receive = do
        n <- receiveNow registration (inputPtr ws `plusPtr` end') room
        if n > 0
          then do
            set ws WorkEnd (end' + n)
            set ws WorkShort (if n < room then 1 else 0)
            parseOn talk deadline
          else nothing n
      nothing n
        | Errno (negate n) == EINTR = receive
        | n < 0 && Errno (negate n) == EAGAIN = do
          late <- deadlineOver registration deadline
          -- Hung up, yet nothing to read: the next look must not come at once.
          hung <- hungUp registration
          when hung (forgetHangUp registration)
          if late
            then refuse talk LoggedGarbage status408 "The request did not arrive in time."
            else (`Unfinished` deadline) <$> putAway ws
        | otherwise = pure Over
  receive

-- The head is complete: decide, call the handler, answer.
serveRequest :: Talk -> IO Outcome
serveRequest talk = do
  let ws = talkWork talk
      settings = settingsOf talk
  base <- get ws WorkBase
  let p = inputPtr ws `plusPtr` base
      table = workHead ws
  framing <- framingOf (settingLimits settings) p table
  case framing of
    FramingReject status why -> reject talk LoggedRequest status why
    _ -> do
      expectation <- expectsContinue p table
      case expectation of
        ExpectUnknown -> reject talk LoggedRequest status417 UnknownExpectation
        _ -> do
          startBody settings ws framing (expectation == ExpectContinue && framing /= NoBody)
          now <- freshNow (talkConn talk)
          let request = requestAt talk now
          reply <- try (unsafeUnmask (contextHandler (talkContext talk) request))
          case reply of
            Right r -> answer talk request r
            Left e -> handlerFailed talk request e

requestAt :: Talk -> Deadline -> Request
requestAt talk now =
  Request
    { requestConn = talkConn talk,
      requestWork = talkWork talk,
      requestSettings = settingsOf talk,
      requestCapability = contextCapability (talkContext talk),
      requestBegan = now,
      requestFlush = mask_ (beforeBody talk)
    }
{-# INLINE requestAt #-}

-- Before waiting for a body: what was gathered goes out, and the client is told to go on.
beforeBody :: Talk -> IO ()
beforeBody talk = do
  let ws = talkWork talk
  owed <- get ws WorkContinue
  when (owed == 1) $ do
    set ws WorkContinue 0
    putBytes (talkOutput talk) "HTTP/1.1 100 Continue\r\n\r\n"
  flush (talkOutput talk)

answer :: Talk -> Request -> Reply -> IO Outcome
answer talk request reply
  | unsafeReply reply = do
    settingFailed (settingsOf talk) (toException (userError "a handler's header holds CR, LF or NUL"))
    releaseReply reply
    answer talk request (plain status500 "The server made a malformed reply.")
  | otherwise = do
    unread <- bodyUnread request
    -- What the handler left of the body is dropped before the reply, so that the
    -- connection header can say what will happen, and so that a faulty body is answered as
    -- such; a stream may still read it.
    dropped <-
      if unread && not (streams reply)
        then dropBody talk request `onException` releaseReply reply
        else pure Dropped
    case dropped of
      Faulty failure -> releaseReply reply >> bodyFailed talk failure
      _ -> answerKnowing talk request reply unread (dropped == Dropped)
{-# INLINE answer #-}

-- The body is dropped, or left to a stream; the second flag says whether the connection can
-- be kept for all that is known.
answerKnowing :: Talk -> Request -> Reply -> Bool -> Bool -> IO Outcome
answerKnowing talk request reply unread kept = do
  let ws = talkWork talk
      context = talkContext talk
      table = workHead ws
  base <- get ws WorkBase
  persistence <- persistenceOf (inputPtr ws `plusPtr` base) table
  minor <- httpMinor request
  code <- method request
  draining <- readWord (contextDraining context) 0
  now <- freshNow (talkConn talk)
  -- A stream may read the body; once its head is out it is too late to ask for it.
  when (unread && streams reply) (beforeBody talk)
  start <- get ws WorkStart
  end <- get ws WorkEnd
  let quick = case reply of Ready _ -> not unread; _ -> False
      closes = persistence == Close || draining /= 0 || not kept
      closing
        | closes = Closes
        | minor == 0 = StaysTold
        | otherwise = Stays
      gather = start < end && not closes
  r <- case reply of
    -- No handler frame for the reply that is sent most.
    Ready p -> do
      alive <- sendReady (talkOutput talk) now gather code closing p
      pure (if alive then Right True else Left (toException ConnectionLost))
    _ -> try (sendReply (talkOutput talk) now gather code minor closing reply)
  case r of
    Right stays -> do
      logged talk request LoggedRequest (replyStatus reply)
      whole <- if unread && streams reply then (== Dropped) <$> dropBody talk request else pure kept
      if closes || not stays || not whole
        then flush (talkOutput talk) >> (if whole then pure Over else linger talk)
        else next talk =<< if quick then pure now else freshNow (talkConn talk)
    Left e -> do
      logged talk request LoggedRequest (replyStatus reply)
      case fromException e of
        Just ConnectionLost -> pure Over
        Nothing
          | isAsynchronous e -> throwIO e
          | otherwise -> do
            -- A body that fails under a stream's action is the client's fault, not ours.
            unless (isBodyError e) (settingFailed (settingsOf talk) e)
            -- What was gathered goes out, earlier replies among it; no last chunk.
            linger talk
  where
    isBodyError e = case fromException e of
      Just (_ :: BodyError) -> True
      Nothing -> False
{-# INLINE answerKnowing #-}

-- What became of a body that the handler did not read to its end.
data Dropped
  = -- | Nothing of it is left.
    Dropped
  | -- | Too much is left, or the client's end came first: the connection must close.
    LeftOver
  | -- | It is malformed, too large or too slow.
    Faulty !BodyError
  deriving stock (Eq)

dropBody :: Talk -> Request -> IO Dropped
dropBody talk request =
  try (discardBody request (settingDiscard (settingsOf talk))) >>= \case
    Right whole -> pure (if whole then Dropped else LeftOver)
    Left BodyCutShort -> pure LeftOver
    Left failure -> pure (Faulty failure)
{-# NOINLINE dropBody #-}

streams :: Reply -> Bool
streams = \case
  Stream {} -> True
  _ -> False
{-# INLINE streams #-}

unsafeReply :: Reply -> Bool
unsafeReply = \case
  Ready _ -> False
  Whole _ h _ -> not (headersAreSafe h)
  Segments _ h _ _ -> not (headersAreSafe h)
  Stream _ h _ -> not (headersAreSafe h)
{-# INLINE unsafeReply #-}

releaseReply :: Reply -> IO ()
releaseReply = \case
  Segments _ _ _ release -> release
  _ -> pure ()

logged :: Talk -> Request -> Logged -> Status -> IO ()
logged talk request what status = case contextLog (talkContext talk) of
  Nothing -> pure ()
  Just hook -> get (talkWork talk) WorkSent >>= hook request what status
{-# INLINE logged #-}

handlerFailed :: Talk -> Request -> SomeException -> IO Outcome
handlerFailed talk request e
  | Just failure <- fromException e = bodyFailed talk failure
  | Just ConnectionLost <- fromException e = pure Over
  | isAsynchronous e = throwIO e
  | otherwise = do
    settingFailed (settingsOf talk) e
    answer talk request (plain status500 "The server failed to answer this request.")

-- The reply has not begun, so the client hears what was wrong with its body.
bodyFailed :: Talk -> BodyError -> IO Outcome
bodyFailed talk = \case
  BodyRejected status why -> reject talk LoggedRequest status why
  BodyTooSlow -> refuse talk LoggedRequest status408 "The request's body did not arrive in time."
  BodyCutShort -> pure Over

-- After a reply on a connection that stays: the next request, or rest.
next :: Talk -> Deadline -> IO Outcome
next talk now = do
  let ws = talkWork talk
  start <- get ws WorkStart
  end <- get ws WorkEnd
  if start < end
    then do
      burst <- get ws WorkBurst
      if burst == 15
        then do
          flush (talkOutput talk)
          set ws WorkBurst 0
          yield
        else set ws WorkBurst (burst + 1)
      nextHead talk
    else do
      flush (talkOutput talk)
      short <- get ws WorkShort
      hung <- hungUp (talkConn talk)
      markActive (talkConn talk)
      if short == 1 && not hung
        then pure (Idle (after (settingIdle (settingsOf talk)) now))
        else receiveFresh talk (after (settingIdle (settingsOf talk)) now)
{-# INLINE next #-}

-- Refusals ---------------------------------------------------------------------

reject :: Talk -> Logged -> Status -> Why -> IO Outcome
reject talk what status why = refuse talk what status (whyText why)

-- Answer an error and close, so that nothing after it can be taken for a request.
refuse :: Talk -> Logged -> Status -> ByteString -> IO Outcome
refuse talk what status text = do
  now <- monotonicNow
  code <- case what of
    LoggedRequest -> method request0
    LoggedGarbage -> beginsWithHead (talkWork talk)
  set (talkWork talk) WorkSent 0
  _ <- sendReply (talkOutput talk) now False code 1 Closes (plain status text)
  logged talk (requestAt talk now) what status
  linger talk
  where
    request0 = requestAt talk (Deadline 0)

-- The head was refused before its method was stored; an answer to HEAD has no content all
-- the same, or a client that pairs answers with methods would take it for the next answer.
beginsWithHead :: Workspace -> IO MethodCode
beginsWithHead ws = do
  base <- get ws WorkBase
  end <- get ws WorkEnd
  bytes <- B.packCStringLen (castPtr (inputPtr ws `plusPtr` base), min 7 (end - base))
  pure (if any (`B.isPrefixOf` bytes) ["HEAD ", "\r\nHEAD "] then MethodHead else MethodGet)

plain :: Status -> ByteString -> Reply
plain status text =
  Whole
    status
    [Header "Content-Type" "text/plain; charset=utf-8"]
    (C.concat [C.pack (show (statusCode status)), " ", reasonPhrase status, "\n", text, "\n"])

-- Closing while the client still sends makes the kernel answer with a reset, which may
-- destroy the reply on its way. So: end our side, read on a little, then close.
linger :: Talk -> IO Outcome
linger talk = do
  flush (talkOutput talk)
  _ <- endSending registration
  deadline <- deadlineIn (seconds 2)
  go deadline (0 :: Int)
  where
    registration = talkConn talk
    ws = talkWork talk
    go deadline dropped
      | dropped > 262144 = pure Over
      | otherwise = do
        n <- receiveUntil registration (inputPtr ws) (inputSize ws) deadline
        if n > 0 then go deadline (dropped + n) else pure Over
