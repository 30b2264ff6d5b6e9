{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.H2.Stream
-- Description : One HTTP/2 stream: a request and its reply
-- Stability   : internal, exempt from the version policy
--
-- A stream has a workspace of its own, into which the session writes the request's head in
-- HTTP/1.1's form: the same parser, framing and handler as for HTTP/1 follow. "Heddle.Http.H2.Reply" sends the reply.
--
-- Cost: a thread, a workspace while the handler runs, one crossing for the head and one for a
-- reply of up to 64 KB.
-- Owner: the stream's thread.
module Heddle.Http.H2.Stream
  ( startStream,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_, traverse_)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Body
import Heddle.Http.Connection.Ending (beginsWithHead)
import Heddle.Http.Context
import Heddle.Http.Exception (ConnectionLost (..), ReplyMisuse (..), isInterruption)
import Heddle.Http.Framing
import Heddle.Http.H2.Reply
import Heddle.Http.H2.Rest
import Heddle.Http.H2.Session
import Heddle.Http.H2.State
import Heddle.Http.Handlers
import Heddle.Http.Output
import Heddle.Http.Parse hiding (Parsed (Done, More))
import Heddle.Http.Parse qualified as Parse
import Heddle.Http.RejectReason
import Heddle.Http.Reply
import Heddle.Http.ReplyCheck
import Heddle.Http.Request hiding (headers)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (freshNow, registrationCapability, wakeReader)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Buffer (borrow, giveBack)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMaskedOn, myThreadId)

-- | Answer a request: at once if the reply is at hand, else in a thread of its own.
--
-- [Cost]: a thread, if it is not answered at once.
-- [Blocks]: never.
-- [Masking]: the handler runs unmasked, the engine's part masked; a reply at hand is made masked.
startStream :: Http2 -> StreamName -> IO ()
startStream h2 name = case handlersAtOnce (contextHandlers (http2Context h2)) of
  Nothing -> newStream h2 name >>= \stream -> startThread h2 stream (serve h2 stream)
  Just quick -> do
    stream <- unlistedStream name
    serving <- equip h2 stream
    arrived <- arrive serving
    done <- case arrived of
      Complete False -> atOnce serving quick
      _ -> pure False
    if done
      then putAside serving >> endStream (http2Session h2) name
      else listStream h2 stream >> startThread h2 stream (dispatch serving arrived >>= finish serving)

startThread :: Http2 -> Stream -> IO () -> IO ()
startThread h2 stream act =
  -- The thread is named here, so that one that has not begun can be cancelled, too.
  (forkMaskedOn (registrationCapability (http2Registration h2)) (\_ -> runThread h2 stream act) >>= writeRef (streamThread stream) . Just)
    `onException` forgetStream h2 stream

runThread :: Http2 -> Stream -> IO () -> IO ()
runThread h2 stream act = do
  myThreadId >>= writeRef (streamThread stream) . Just
  -- Whatever ends it, asynchronous exceptions included, ends this stream only; 'endStream' tells the client.
  _ <- try act :: IO (Either SomeException ())
  -- Finite, and without a wait.
  uninterruptibleMask_ $ do
    endStream (http2Session h2) (streamName stream)
    state <- sessionState (http2Session h2)
    if stateWrites state then kick h2 else when (stateStreams state == 0) (wakeReader (http2Registration h2))
    forgetStream h2 stream

serve :: Http2 -> Stream -> IO ()
serve h2 stream = do
  serving <- equip h2 stream
  -- After an exception its workspace is left to the collector.
  arrive serving >>= dispatch serving >>= finish serving

equip :: Http2 -> Stream -> IO Serving
equip h2 stream = do
  ws <- borrow (contextPool context)
  set ws WorkStream 1
  set ws WorkBase 0
  set ws WorkStart 0
  set ws WorkEnd 0
  set ws WorkUsed 0
  set ws WorkSent 0
  set ws WorkLeft 0
  set ws WorkContinue 0
  set ws WorkReplied 0
  set ws WorkCloses 0
  set ws WorkNotes 0
  set ws WorkBurst 0
  set ws WorkBodyTotal 0
  set ws WorkBodyMost (limitBody (settingLimits (contextSettings context)))
  serving <- Serving h2 stream ws (newOutput (http2Transport h2) ws (contextSettings context) (contextDate context)) <$> newRef NoHead
  writeRef (workSource ws) (Source (pull serving) (pauseStream h2 stream) (giveUp serving))
  pure serving
  where
    context = http2Context h2

-- Give the workspace back.
putAside :: Serving -> IO ()
putAside serving = do
  set ws WorkStream 0
  writeRef (workSource ws) NoSource
  giveBack (contextPool (contextOf serving)) ws
  where
    ws = servingWork serving

-- Requests ------------------------------------------------------------------------

-- What has arrived of a request.
data Arrived
  = -- The stream is closed already.
    ClosedStream
  | Refused !RejectReason
  | -- A head; the flag says that a body follows.
    Complete !Bool

arrive :: Serving -> IO Arrived
arrive serving = do
  r <- copyHead (http2Session h2) (streamName (servingStream serving)) (inputPtr ws) (inputSize ws)
  case r of
    Gone -> pure ClosedStream
    TooLarge -> pure (Refused HeadTooLarge)
    Malformed -> pure (Refused BadHeaderValue)
    _ -> do
      let size = min (lowHalf r) (inputSize ws)
      set ws WorkEnd size
      startHead (workHead ws)
      parseHead (settingLimits settings) (inputPtr ws) size (workHead ws) >>= \case
        Parse.Done n -> do
          set ws WorkStart n
          set ws WorkEnd n
          pure (Complete (highHalf r == 0))
        Reject _ reason -> pure (Refused reason)
        Parse.More -> pure (Refused HeadTooLarge)
  where
    h2 = servingHttp2 serving
    ws = servingWork serving
    settings = settingsOf serving

-- What is to be done at the bottom of the thread's stack.
data Outcome
  = -- | Nothing more.
    Settled
  | -- | The client does not take the rest at once: the request, its status, how much was sent, what is left, what releases it.
    Waiting !Suspended !Status !Int ![Piece] !(IO ())

-- | Wait, if need be, without the workspace, without a descriptor of the stream's own, and without the part of the stack that
-- the handler needed.
finish :: Serving -> Outcome -> IO ()
finish serving outcome = do
  -- Taken out now: what looked at it later would keep the workspace.
  let !h2 = servingHttp2 serving
      !stream = servingStream serving
  putAside serving
  case outcome of
    Settled -> pure ()
    Waiting saved status sent pieces release -> do
      count <- newRef sent
      (pieces', release') <- shareFiles (http2Context h2) pieces release
      r <- try (sendRest h2 stream (\n -> readRef count >>= writeRef count . (+ n)) pieces' `finally` release')
      resumed <- equip h2 stream
      resume (servingWork resumed) saved
      readRef count >>= set (servingWork resumed) WorkSent
      for_ (failure r) $ \e -> do
        unless (isInterruption e || isLost e) $ requestFailed (requestAt resumed (suspendedBegan saved)) e
        unless (isLost e) (giveUp resumed)
      logged resumed (requestAt resumed (suspendedBegan saved)) LoggedRequest status
      putAside resumed
      for_ (failure r) $ \e -> when (isInterruption e) (throwIO e)
  where
    failure = either Just (const Nothing)

dispatch :: Serving -> Arrived -> IO Outcome
dispatch serving = \case
  ClosedStream -> pure Settled
  Refused reason -> Settled <$ refuse serving LoggedGarbage (rejectStatus reason) (rejectText reason)
  Complete bodied -> handle serving bodied

-- Whether the request, which has no body, was answered. Nothing here waits: the reply fits into what a
-- stream may hold back.
atOnce :: Serving -> (Request -> IO (Maybe Reply)) -> IO Bool
atOnce serving quick = do
  base <- get ws WorkBase
  let p = inputPtr ws `plusPtr` base
  framing <- framingOf (settingLimits settings) p (workHead ws)
  expectation <- expectsContinue p (workHead ws)
  case (framing, expectation) of
    (NoBody, ExpectNothing) -> do
      now <- freshNow (http2Registration (servingHttp2 serving))
      let request = requestAt serving now
      made <- try (quick request >>= traverse evaluate)
      case made of
        Right (Just reply)
          | Sound <- checkReply reply -> do
            fit <- fits reply
            if fit
              then do
                set ws WorkBurst 1
                True <$ answer serving request reply <* set ws WorkBurst 0
              else False <$ releaseReply reply
        -- What is wrong with it, the main handler will find as well.
        Right unfit -> False <$ traverse_ releaseReply unfit
        Left e -> if isInterruption e then throwIO e else pure False
    _ -> pure False
  where
    ws = servingWork serving
    settings = settingsOf serving
    fits = \case
      Ready p -> hasRoom (prebuiltSize p - prebuiltHead p)
      Whole _ _ content -> hasRoom (B.length content)
      _ -> pure False
    -- A page of memory is there for each stream, whatever the client's windows.
    hasRoom n
      | n <= 4096 = pure True
      | otherwise = (>= n) <$> outputRoom (http2Session (servingHttp2 serving)) (streamName (servingStream serving))

-- The head is complete: decide, call the handler, answer. The flag says that a body follows.
handle :: Serving -> Bool -> IO Outcome
handle serving bodied = do
  base <- get ws WorkBase
  let p = inputPtr ws `plusPtr` base
  framingOf (settingLimits settings) p (workHead ws) >>= \case
    FramingReject status reason -> Settled <$ refuse serving LoggedRequest status (rejectText reason)
    framing ->
      expectsContinue p (workHead ws) >>= \case
        ExpectUnknown -> Settled <$ refuse serving LoggedRequest status417 (rejectText UnknownExpectation)
        expectation -> do
          set ws WorkLeft $ case framing of
            _ | not bodied -> 0
            Sized n -> -3 - n
            _ -> -2
          set ws WorkContinue (if bodied && expectation == ExpectContinue then 1 else 0)
          set ws WorkBodyBegan 0
          now <- freshNow (http2Registration (servingHttp2 serving))
          let request = requestAt serving now
          -- A reply that throws when it is looked at is the handler's failure.
          reply <- try (unsafeUnmask (contextHandler (contextOf serving) request >>= evaluate))
          replied <- get ws WorkReplied
          outcome <- case reply of
            Right r
              | replied == 0 -> answer serving request r
              | otherwise -> Settled <$ releaseReply r
            Left e -> handlerFailed serving request e
          wanted <- get ws WorkCloses
          outcome <$ when (wanted /= 0) (goAway (http2Session (servingHttp2 serving)))
  where
    ws = servingWork serving
    settings = settingsOf serving

requestAt :: Serving -> Deadline -> Request
requestAt serving now =
  Request
    { requestTransport = http2Transport (servingHttp2 serving),
      requestWork = servingWork serving,
      requestSettings = settingsOf serving,
      requestCapability = contextCapability (contextOf serving),
      requestBegan = now,
      requestFlush = mask_ (beforeBody serving),
      requestPolls = False,
      requestReply = \request reply -> mask_ (replyInside serving request reply),
      requestEarly = \status given -> mask_ (interimInside serving status given)
    }

-- Before waiting for a body: 100 Continue if it is owed, and what else there is to send.
beforeBody :: Serving -> IO ()
beforeBody serving = do
  owed <- get ws WorkContinue
  replied <- get ws WorkReplied
  when (owed == 1 && replied == 0) $ do
    set ws WorkContinue 0
    void (interim serving "HTTP/1.1 100 Continue\r\n\r\n")
  state <- sessionState (http2Session h2)
  when (stateWrites state) (kick h2)
  where
    ws = servingWork serving
    h2 = servingHttp2 serving

interim :: Serving -> ByteString -> IO Int
interim serving text = unsafeUseAsCStringLen text $ \(p, n) ->
  sendInterim (http2Session (servingHttp2 serving)) (streamName (servingStream serving)) (castPtr p) n

-- 'replyInterim'. HTTP/2 has no 101 (RFC 9113, section 8.6).
interimInside :: Serving -> Status -> [Header] -> IO ()
interimInside serving status given = do
  fields <- interimLines given
  replied <- get (servingWork serving) WorkReplied
  when (replied == 0 && statusCode status >= 100 && statusCode status < 200 && status /= status101) $ do
    r <- interim serving (B.concat ["HTTP/1.1 ", C.pack (show (statusCode status)), "\r\n", fields, "\r\n"])
    case r of
      Malformed -> throwIO forbiddenByHttp2
      _ -> kick (servingHttp2 serving)

-- 'sourcePull': the stream's body.
pull :: Serving -> Ptr Word8 -> Int -> IO Int
pull serving p room = mask_ $ do
  r <- input
  if r == NothingYet then wait else took r
  where
    h2 = servingHttp2 serving
    ws = servingWork serving
    settings = settingsOf serving
    input = readInput (http2Session h2) (streamName (servingStream serving)) p room
    wait = do
      sendHeadHere serving
      beforeBody serving
      (_, deadline) <- bodyWindow (settingBodyPace settings) ws
      r <- awaitStream h2 (servingStream serving) ForInput deadline ((\r -> if r == NothingYet then Nothing else Just r) <$> input)
      bodyWaited ws
      maybe (fails BodyTooSlow) took r
    took r
      | r == 0 = pure 0
      | r < 0 = fails BodyCutShort
      | otherwise = do
        let n = lowHalf r
        when (highHalf r == 1) (kick h2)
        total <- get ws WorkBodyTotal
        set ws WorkBodyTotal (total + n)
        got <- get ws WorkBodyGot
        set ws WorkBodyGot (got + n)
        most <- get ws WorkBodyMost
        if total + n > most then fails (BodyRejected status413 BodyTooLarge) else pure n
    fails = failing (requestAt serving (Deadline 0))

handlerFailed :: Serving -> Request -> SomeException -> IO Outcome
handlerFailed serving request e
  | Just ConnectionLost <- fromException e = pure Settled
  | isInterruption e = throwIO e
  | otherwise = do
    replied <- get (servingWork serving) WorkReplied
    case fromException e of
      Just failure -> Settled <$ when (replied == 0) (bodyFailed failure)
      Nothing -> do
        requestFailed request e
        if replied == 0 then answer serving request (plain status500 "The server failed to answer this request.") else pure Settled
  where
    bodyFailed = \case
      BodyRejected status reason -> refuse serving LoggedRequest status (rejectText reason)
      BodyTooSlow -> refuse serving LoggedRequest status408 "The request's body did not arrive in time."
      BodyCutShort -> pure ()

refuse :: Serving -> Logged -> Status -> ByteString -> IO ()
refuse serving what status text = do
  now <- monotonicNow
  let request = requestAt serving now
  code <- case what of
    LoggedRequest -> method request
    LoggedGarbage -> beginsWithHead (servingWork serving)
  try (send False serving now code (plain status text) >>= settle serving) >>= \case
    Left ConnectionLost -> pure ()
    Right () -> pure ()
  logged serving request what status

logged :: Serving -> Request -> Logged -> Status -> IO ()
logged serving request what status = case contextLog (contextOf serving) of
  Nothing -> pure ()
  -- It may run in the connection's thread, which must go on.
  Just hook -> get (servingWork serving) WorkSent >>= \sent -> hook request what status sent `catchSync` requestFailed request

-- Replies -------------------------------------------------------------------------

answer :: Serving -> Request -> Reply -> IO Outcome
answer serving request reply
  | Tunnel {} <- reply = answer serving request noTunnel
  | Replied _ <- reply = failed500 serving request (toException NotReplied) "The server failed to answer this request."
  | otherwise = case checkReply reply of
    Sound -> answerSound serving request reply
    Unsound e -> releaseReply reply >> failed500 serving request e "The server made a malformed reply."
    -- What closes a connection of HTTP/1 is of no concern here.
    Amended make _ -> do
      when (mayReadBody reply) (beforeBody serving)
      -- An interruption may be pending, even where nothing of the handler runs.
      try (unsafeUnmask make) >>= either (\e -> releaseReply reply >> handlerFailed serving request e) (answerSound serving request)

-- A reply that can be sent.
answerSound :: Serving -> Request -> Reply -> IO Outcome
answerSound serving request reply
  | !status <- replyStatus reply =
    -- After it was sent the reply is not looked at, because it would keep content that is lazy.
    try (sendNow False serving request reply) >>= \case
      Right NothingLeft -> Settled <$ logged serving request LoggedRequest status
      Right (SomeLeft pieces release) -> do
        saved <- suspend (servingWork serving) (requestBegan request) `onException` release
        sent <- get (servingWork serving) WorkSent
        pure (Waiting saved status sent pieces release)
      Left e -> do
        begun <- get (servingWork serving) WorkPushed
        if begun == 0 && not (isInterruption e) && not (isLost e)
          then failed500 serving request e "The server failed to answer this request."
          else do
            unless (isInterruption e || isLost e || isBodyError e) $ requestFailed request e
            unless (isLost e) (giveUp serving)
            logged serving request LoggedRequest status
            if isInterruption e then throwIO e else pure Settled
  where
    isBodyError e = case fromException e of
      Just (_ :: BodyError) -> True
      Nothing -> False

isLost :: SomeException -> Bool
isLost e = case fromException e of
  Just ConnectionLost -> True
  Nothing -> False

-- Nothing of the reply was sent, so another can be.
failed500 :: Serving -> Request -> SomeException -> ByteString -> IO Outcome
failed500 serving request e text = do
  requestFailed request e
  Settled <$ refuse serving LoggedRequest status500 text

-- The flag is that of 'send'. A handler that has returned may read the body in its stream, for which a client
-- may wait for the head; so its head does not wait. One that has not returned sends it at the latest before it
-- waits for the body.
sendNow :: Bool -> Serving -> Request -> Reply -> IO Remaining
sendNow mayWait serving request reply = do
  set (servingWork serving) WorkPushed 0
  -- A stream may still read the body, and 100 Continue cannot come after its head.
  case reply of
    Stream {} -> beforeBody serving
    StreamOf {} -> beforeBody serving
    BuiltOf {} -> beforeBody serving
    _ -> pure ()
  now <- freshNow (http2Registration (servingHttp2 serving))
  code <- method request
  send mayWait serving now code reply

-- 'replyNow'.
replyInside :: Serving -> Request -> Reply -> IO Int
replyInside serving request given = do
  replied <- get ws WorkReplied
  when (replied /= 0) (releaseReply asked >> throwIO RepliedTwice)
  reply <- case checkReply asked of
    Sound -> pure asked
    Unsound e -> releaseReply asked >> throwIO e
    Amended make _ -> when (mayReadBody asked) (beforeBody serving) >> (unsafeUnmask make `onException` releaseReply asked)
  let !status = replyStatus reply
  try ((sendNow True serving request reply >>= settle serving) <* set ws WorkReplied 2) >>= \case
    Right () -> do
      kick (servingHttp2 serving)
      logged serving request LoggedRequest status
      get ws WorkSent
    Left e -> do
      -- Nor does a later wait for the body send the head of what has failed.
      writeRef (servingHead serving) NoHead
      begun <- get ws WorkPushed
      when (begun /= 0) $ do
        set ws WorkReplied 1
        unless (isLost e) (giveUp serving)
        logged serving request LoggedRequest status
      throwIO (e :: SomeException)
  where
    ws = servingWork serving
    asked = case given of
      Tunnel {} -> noTunnel
      other -> other

noTunnel :: Reply
noTunnel = plain status501 "HTTP/2 connections carry no other protocol."
