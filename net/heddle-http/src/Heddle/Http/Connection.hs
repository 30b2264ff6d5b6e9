{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_GHC -fmax-worker-args=3 #-}

-- A connection's state is passed on whole: every function that hands it to another one, or to a closure, would have to
-- allocate it again if it got the fields as arguments.

-- |
-- Module      : Heddle.Http.Connection
-- Description : One connection's conversation
-- Stability   : internal, exempt from the version policy
--
-- Straight-line code: receive, parse, decide the framing, call the handler, send, continue
-- with the input that is buffered, and idle when there is none. It runs masked; handlers run
-- unmasked.
--
-- Cost per kept request: recv, send and a share of epoll_wait; one clock reading.
-- Owner: the connection's thread, on the connection's capability.
-- Shared writes per request: 0.
module Heddle.Http.Connection
  ( Upgrade,
    converse,
    converseFrom,
    refuseClearText,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Http.Body
import Heddle.Http.Connection.Ending
import Heddle.Http.Connection.FileTail
import Heddle.Http.Connection.Inside
import Heddle.Http.ConnectionState
import Heddle.Http.Context
import Heddle.Http.Duplex (Duplex)
import Heddle.Http.Exception (ConnectionLost (..), ReplyMisuse (..), isInterruption)
import Heddle.Http.Framing
import Heddle.Http.Handlers
import Heddle.Http.Head (minorVersion)
import Heddle.Http.Names (pattern MethodGet, pattern MethodHead)
import Heddle.Http.Output
import Heddle.Http.Parse
import Heddle.Http.RejectReason
import Heddle.Http.Reply
import Heddle.Http.ReplyCheck
import Heddle.Http.Request
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (Interest (..), Registration, deadlineOver, forgetHangUp, freshNow, hungUp, waitUntil)
import Heddle.IO.Service (After (IdleUntil), everActive, idleDeadline, markActive)
import Heddle.IO.Service qualified as Service (After (Done))
import Heddle.IO.Transport
import Heddle.Prim.Atomic (readWord)
import Heddle.Prim.Buffer (borrow, giveBack)
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (yield)

-- | Serve the requests that have arrived on a connection, until it idles or ends.
--
-- [Throws]: 'ConnectionLost', and asynchronous exceptions; the workspace is then left to
-- the collector, which costs less than a handler frame per request.
converse :: Context -> Upgrade -> Transport -> IO After
converse context upgrade transport = lending context upgrade transport begin

-- | Serves a connection that begins with the preface of HTTP/2, of which this was received.
type Upgrade = Context -> Transport -> ByteString -> IO After

-- | 'converse' after these bytes, at most as many as a head may have, were received.
converseFrom :: Context -> Upgrade -> Transport -> ByteString -> IO After
converseFrom context upgrade transport received = lending context upgrade transport $ \state -> do
  let ws = stateWork state
  set ws WorkBurst 0
  set ws WorkUsed 0
  set ws WorkFirst 1
  set ws WorkStart 0
  unsafeUseAsCStringLen received $ \(p, n) -> do
    copyBytes (inputPtr ws) (castPtr p) (min n (inputSize ws))
    set ws WorkEnd (min n (inputSize ws))
  -- More may have come since.
  set ws WorkShort 0
  nextHead state

-- Run with a borrowed workspace. This frame keeps the workspace alive until it is returned.
lending :: Context -> Upgrade -> Transport -> (ConnectionState -> IO Outcome) -> IO After
lending context upgrade transport act = do
  ws <- borrow (contextPool context)
  let !state = ConnectionState context transport ws (newOutput transport ws (contextSettings context) (contextDate context))
  outcome <- act state
  giveBack (contextPool context) ws
  case outcome of
    Over -> pure Service.Done
    Idle deadline -> pure (IdleUntil deadline)
    Unfinished partial deadline -> do
      waitUntil (transportRegistration transport) Readable deadline
      lending context upgrade transport $ \next' -> takeUp (stateWork next') partial >> moreHead next' deadline
    Discarding saved reply room deadline -> do
      waitUntil (transportRegistration transport) Readable deadline `onException` releaseReply reply
      lending context upgrade transport $ \next' -> discardOn next' saved reply room deadline
    Sending saved rest -> do
      r <- try (sendRest (settingReplyPace (contextSettings context)) transport rest)
      lending context upgrade transport (sentOn saved rest r)
    Lingering dropped deadline -> do
      waitUntil (transportRegistration transport) Readable deadline
      lending context upgrade transport (lingerOn deadline dropped)
    Elsewhere request action -> do
      unsafeUnmask action `catchSync` \e -> case fromException e of
        Just ConnectionLost -> pure ()
        Nothing -> settingFailed (contextSettings context) (Just request) e
      lending context upgrade transport $ \next' -> set (stateWork next') WorkUsed 0 >> linger next'
    Preface received -> upgrade context transport received

-- Receive without waiting.
begin :: ConnectionState -> IO Outcome
begin state = do
  let ws = stateWork state
  set ws WorkBurst 0
  set ws WorkUsed 0
  set ws WorkFirst 1
  deadline <- idleDeadline (stateConn state)
  receiveFresh state deadline

-- Close if nothing has arrived by the deadline.
receiveFresh :: ConnectionState -> Deadline -> IO Outcome
receiveFresh state deadline = do
  let ws = stateWork state
      size = inputSize ws
  n <- readNow (stateTransport state) (inputPtr ws) size
  if n > 0
    then do
      set ws WorkStart 0
      set ws WorkEnd n
      noteShort (stateTransport state) ws n size
      nextHead state
    else again n
  where
    again n
      | n == 0 = pure Over
      | Errno (negate n) == EINTR = receiveFresh state deadline
      | Errno (negate n) == EAGAIN = do
        -- A spurious wake-up: wait again, with the same deadline.
        late <- deadlineOver (stateConn state) deadline
        draining <- readWord (contextDraining (stateContext state)) 0
        pure (if late || draining == 2 then Over else Idle deadline)
      | otherwise = pure Over

-- Parse the head that begins at the unread input.
nextHead :: ConnectionState -> IO Outcome
nextHead state = do
  let ws = stateWork state
  start <- get ws WorkStart
  set ws WorkBase start
  set ws WorkNotes 0
  set ws WorkBodyTotal 0
  startHead (workHead ws)
  parseOn state never

parseOn :: ConnectionState -> Deadline -> IO Outcome
parseOn state deadline = do
  let ws = stateWork state
  base <- get ws WorkBase
  end <- get ws WorkEnd
  parseHead (settingLimits (settingsOf state)) (inputPtr ws `plusPtr` base) (end - base) (workHead ws) >>= \case
    Done n -> set ws WorkStart (base + n) >> serveRequest state
    Reject status reason -> do
      preface <- beginsHttp2 state
      if preface then Preface <$> unparsed ws else reject state LoggedGarbage status reason
    More -> do
      deadline' <- if deadline == never then deadlineIn (settingHead (settingsOf state)) else pure deadline
      moreHead state deadline'

-- Whether a head that was refused is the beginning of HTTP/2's preface, and that of the connection.
beginsHttp2 :: ConnectionState -> IO Bool
beginsHttp2 state = do
  first <- get (stateWork state) WorkFirst
  active <- everActive (stateConn state)
  received <- if first == 1 && not active && settingHttp2 (settingsOf state) then unparsed (stateWork state) else pure B.empty
  pure (B.length received >= 16 && B.isPrefixOf (B.take 24 received) "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
{-# NOINLINE beginsHttp2 #-}

-- A copy of the input from the current head on.
unparsed :: Workspace -> IO ByteString
unparsed ws = do
  base <- get ws WorkBase
  end <- get ws WorkEnd
  B.packCStringLen (castPtr (inputPtr ws `plusPtr` base), end - base)

moreHead :: ConnectionState -> Deadline -> IO Outcome
moreHead state deadline = do
  let ws = stateWork state
      registration = stateConn state
      size = inputSize ws
  flush (stateOutput state)
  base <- get ws WorkBase
  end <- get ws WorkEnd
  when (base > 0 && size - end < 4096) $ do
    moveBytes (inputPtr ws) (inputPtr ws `plusPtr` base) (end - base)
    set ws WorkBase 0
    set ws WorkEnd (end - base)
  end' <- get ws WorkEnd
  short <- get ws WorkShort
  let room = size - end'
      receive = do
        n <- readNow (stateTransport state) (inputPtr ws `plusPtr` end') room
        if n > 0
          then do
            set ws WorkEnd (end' + n)
            noteShort (stateTransport state) ws n room
            parseOn state deadline
          else nothing n
      nothing n
        | Errno (negate n) == EINTR = receive
        | n < 0 && Errno (negate n) == EAGAIN = do
          -- The peer hung up but there is nothing to read: without this the next wait would
          -- return at once.
          hung <- hungUp registration
          when hung (forgetHangUp registration)
          await
        | otherwise = pure Over
      await = do
        late <- deadlineOver registration deadline
        if late
          then refuse state LoggedGarbage status408 "The request did not arrive in time."
          else (`Unfinished` deadline) <$> putAway ws
  -- After a receive that took all there was, another one would find nothing.
  hungUp registration >>= \hung -> if short == 1 && not hung then await else receive

-- The head is complete: decide, call the handler, answer.
serveRequest :: ConnectionState -> IO Outcome
serveRequest state = do
  let ws = stateWork state
      settings = settingsOf state
  base <- get ws WorkBase
  let p = inputPtr ws `plusPtr` base
      table = workHead ws
  framing <- framingOf (settingLimits settings) p table
  case framing of
    FramingReject status reason -> reject state LoggedRequest status reason
    _ -> do
      expectation <- expectsContinue p table
      case expectation of
        ExpectUnknown -> reject state LoggedRequest status417 UnknownExpectation
        _ -> do
          startBody settings ws framing (expectation == ExpectContinue && framing /= NoBody)
          now <- freshNow (stateConn state)
          let request = requestAt state now
          -- 'Right' is applied inside, because a call that is a bare argument is allocated as a thunk; and the reply is
          -- evaluated there, because a reply that throws is the handler's failure.
          reply <- unsafeUnmask (contextHandler (stateContext state) request >>= \ !r -> pure (Right r)) `catch` (pure . Left)
          replied <- get ws WorkReplied
          case reply of
            Right r
              | replied == 0 -> answer state request r
              | otherwise -> releaseReply r >> repliedInside state request
            Left e -> handlerFailed state request e

answer :: ConnectionState -> Request -> Reply -> IO Outcome
answer state request reply
  | Replied _ <- reply = repliedInside state request
  | otherwise = case checkReply reply of
    Sound -> answerSound state request reply
    unsound -> answerUnsound state request reply unsound
{-# INLINE answer #-}

-- A reply that can be sent.
answerSound :: ConnectionState -> Request -> Reply -> IO Outcome
answerSound state request reply = do
  unread <- bodyUnread request
  -- Drop what the handler left of the body before the reply: only then is it known whether
  -- the connection can be kept, and a faulty body is refused instead of answered. A stream
  -- may still read its body.
  if unread && not (mayReadBody reply)
    then discard state request Nothing reply (settingDiscard (settingsOf state)) never
    else answerKnowing state request reply unread True
{-# INLINE answerSound #-}

-- The other replies.
answerUnsound :: ConnectionState -> Request -> Reply -> Checked -> IO Outcome
answerUnsound state request reply = \case
  Sound -> answerSound state request reply
  Unsound e -> do
    requestFailed request e
    releaseReply reply
    answerUnsound state request (plain status500 "The server made a malformed reply.") Sound
  Amended make closes -> do
    unread <- bodyUnread request
    -- It may read the body.
    when (unread && mayReadBody reply) (beforeBody state)
    when closes (set (stateWork state) WorkCloses 1)
    try (unsafeUnmask make) >>= \case
      Right amended -> answerUnsound state request amended Sound
      Left e -> releaseReply reply >> handlerFailed state request e
{-# NOINLINE answerUnsound #-}

-- Discard what has come of a body, and answer when that was all. While more must come, the workspace is lent to others.
discard :: ConnectionState -> Request -> Maybe Suspended -> Reply -> Int -> Deadline -> IO Outcome
discard state request earlier reply room deadline =
  (try (discardNow request room deadline) `onException` releaseReply reply) >>= \case
    Right DiscardedAll -> answerKnowing state request reply True True
    Right DiscardedEnough -> answerKnowing state request reply True False
    Right (DiscardedSome room' deadline') -> do
      saved <- case earlier of
        Nothing -> suspend ws (requestBegan request)
        Just saved -> saved <$ suspendAgain ws saved
      pure (Discarding saved reply room' deadline')
    Left BodyCutShort -> answerKnowing state request reply True False
    Left failure -> releaseReply reply >> bodyFailed state failure
  where
    ws = stateWork state
{-# NOINLINE discard #-}

discardOn :: ConnectionState -> Suspended -> Reply -> Int -> Deadline -> IO Outcome
discardOn state saved reply room deadline = do
  resume (stateWork state) saved
  bodyWaited (stateWork state)
  discard state (requestAt state (suspendedBegan saved)) (Just saved) reply room deadline

-- Answer after the body was dropped or left to a stream. The last argument says whether the
-- connection can be kept as far as the body is concerned.
answerKnowing :: ConnectionState -> Request -> Reply -> Bool -> Bool -> IO Outcome
answerKnowing state request reply unread kept = do
  let ws = stateWork state
      context = stateContext state
      table = workHead ws
  base <- get ws WorkBase
  persistence <- persistenceOf (inputPtr ws `plusPtr` base) table
  minor <- minorVersion table
  code <- method request
  draining <- readWord (contextDraining context) 0
  now <- freshNow (stateConn state)
  wanted <- get ws WorkCloses
  -- All that is needed of the reply after it was sent, see Note [Replies that are sent].
  let !status = replyStatus reply
      !bodyLater = unread && mayReadBody reply
      !quick = case reply of Ready _ -> not unread; _ -> False
      !tunnel = case reply of Tunnel _ action -> Just action; _ -> Nothing
  -- A stream may read the body. 100 Continue must precede the head of its reply.
  when bodyLater (beforeBody state)
  start <- get ws WorkStart
  end <- get ws WorkEnd
  let closes = persistence == Close || draining /= 0 || wanted /= 0 || not kept
      closing
        | closes = Closes
        | minor == 0 = StaysTold
        | otherwise = Stays
      gather = start < end && not closes
  r <- case reply of
    -- No handler frame for the reply that is sent most.
    Ready p -> do
      alive <- sendReady (stateOutput state) now gather code closing p
      pure (if alive then Answered True else Failed (toException ConnectionLost))
    Segments _ given segments release
      | SegmentFile file offset n : before <- reverse segments,
        start == end,
        not (code == MethodHead || statusForbidsContent status || isLayered (stateTransport state)) ->
        answerByFile state request now closing (reverse before) given (Rest status release file offset n closes kept)
    _ -> attemptReply (sendReply (stateOutput state) now gather code minor closing reply)
  case r of
    Answered stays -> do
      logged state request LoggedRequest status
      case tunnel of
        Just action -> leave state request action
        Nothing -> do
          whole <- if bodyLater then (== Dropped) <$> dropBody state request else pure kept
          if closes || not stays || not whole
            then flush (stateOutput state) >> (if whole then pure Over else linger state)
            else next state =<< if quick then pure now else freshNow (stateConn state)
    Slow saved rest -> pure (Sending saved rest)
    Failed e -> replyFailed state request status e
{-# INLINE answerKnowing #-}

attemptReply :: IO Bool -> IO Sent
attemptReply act = either Failed Answered <$> try act
{-# INLINE attemptReply #-}

replyFailed :: ConnectionState -> Request -> Status -> SomeException -> IO Outcome
replyFailed state request status e = do
  logged state request LoggedRequest status
  case fromException e of
    Just ConnectionLost -> pure Over
    Nothing
      | isInterruption e -> throwIO e
      | otherwise -> do
        -- A body that fails under a stream's action is the client's fault, not ours.
        unless (isBodyError e) (requestFailed request e)
        -- Send what was gathered, earlier replies included, but no last chunk.
        linger state
  where
    isBodyError failure = case fromException failure of
      Just (_ :: BodyError) -> True
      Nothing -> False
{-# NOINLINE replyFailed #-}

-- Go on after the rest of a reply: how much of it was sent, or why not.
sentOn :: Suspended -> Rest -> Either SomeException Int -> ConnectionState -> IO Outcome
sentOn saved rest r state = do
  resume ws saved
  sent <- get ws WorkSent
  for_ r $ \done -> set ws WorkSent (sent + done)
  case r of
    Right done | done == restCount rest -> do
      logged state request LoggedRequest (restStatus rest)
      if restCloses rest || not (restKept rest)
        then if restKept rest then pure Over else linger state
        else next state =<< freshNow (stateConn state)
    -- The length was announced, so nothing may follow.
    Right _ -> try (lose (stateOutput state)) >>= either (replyFailed state request (restStatus rest)) pure
    Left e -> replyFailed state request (restStatus rest) e
  where
    ws = stateWork state
    request = requestAt state (suspendedBegan saved)

-- The handler has replied: continue after the reply.
{-# NOINLINE repliedInside #-}
repliedInside :: ConnectionState -> Request -> IO Outcome
repliedInside state request =
  get ws WorkReplied >>= \case
    -- It has not; its own bug.
    0 -> do
      requestFailed request (toException NotReplied)
      answerUnsound state request (plain status500 "The server failed to answer this request.") Sound
    -- It has caught the failure of its reply.
    1 -> linger state
    4 -> linger state
    done -> do
      unread <- bodyUnread request
      whole <- if unread then (== Dropped) <$> dropBody state request else pure True
      if done == 3 || not whole
        then flush (stateOutput state) >> (if whole then pure Over else linger state)
        else next state =<< freshNow (stateConn state)
  where
    ws = stateWork state

-- The tunnel begins with what was received after the request's head.
leave :: ConnectionState -> Request -> (Duplex -> IO ()) -> IO Outcome
leave state request action = Elsewhere <$> failedRequest request <*> (action <$> duplexHere state)
{-# NOINLINE leave #-}

{-# NOINLINE handlerFailed #-}
handlerFailed :: ConnectionState -> Request -> SomeException -> IO Outcome
handlerFailed state request e
  | Just ConnectionLost <- fromException e = pure Over
  | isInterruption e = throwIO e
  | otherwise = do
    replied <- get (stateWork state) WorkReplied
    case fromException e of
      Just failure -> if replied == 0 then bodyFailed state failure else linger state
      Nothing -> do
        requestFailed request e
        if replied == 0 then failed500 else linger state
  where
    failed500 = answerUnsound state request (plain status500 "The server failed to answer this request.") Sound

-- After a reply on a connection that stays open: the next request, or idle.
next :: ConnectionState -> Deadline -> IO Outcome
next state now = do
  let ws = stateWork state
  set ws WorkFirst 0
  start <- get ws WorkStart
  end <- get ws WorkEnd
  if start < end
    then do
      burst <- get ws WorkBurst
      if burst == 15
        then do
          flush (stateOutput state)
          set ws WorkBurst 0
          yield
        else set ws WorkBurst (burst + 1)
      nextHead state
    else do
      flush (stateOutput state)
      short <- get ws WorkShort
      hung <- hungUp (stateConn state)
      markActive (stateConn state)
      if short == 1 && not hung
        then pure (Idle (after (settingIdle (settingsOf state)) now))
        else receiveFresh state (after (settingIdle (settingsOf state)) now)
{-# INLINE next #-}

-- | Answer a client that speaks HTTP where TLS is spoken.
--
-- [Blocks]: parks.
refuseClearText :: Context -> Registration -> Status -> ByteString -> IO After
refuseClearText context registration status text = lending context (\_ _ _ -> pure Service.Done) (Bare registration) $ \state -> do
  let ws = stateWork state
  set ws WorkUsed 0
  set ws WorkSent 0
  set ws WorkNotes 0
  now <- monotonicNow
  _ <- sendReply (stateOutput state) now False MethodGet 1 Closes (plain status text)
  linger state

-- Note [Replies that are sent]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Content may be lazy: it comes into being while it is sent, and is garbage as soon as it was. A reply that is
-- looked at afterwards, were it for its status only, would keep all of it until then. So what is needed of
-- a reply later is taken out, and evaluated, before it is sent.
