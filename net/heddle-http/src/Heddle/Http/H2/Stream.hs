{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.H2.Stream
-- Description : One HTTP/2 stream: a request and its reply
-- Stability   : internal, exempt from the version policy
--
-- A stream has a workspace of its own, into which the session writes the request's head in
-- HTTP/1.1's form: the same parser, framing and handler as for HTTP/1 follow. A reply's head is
-- written in HTTP/1.1's form too, and the session makes fields of it. Content passes through the
-- session's buffer of the stream, which is bounded: a handler waits for the client, a small reply
-- does not.
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
import Data.ByteString.Builder.Extra (Next (..), runBuilder)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal (createAndTrim')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_, traverse_)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Heddle.Http.Connection (beginsWithHead)
import Heddle.Http.Context
import Heddle.Http.Date (currentSecond)
import Heddle.Http.Exception (ConnectionLost (..), ReplyMisuse (..))
import Heddle.Http.Framing
import Heddle.Http.H2.Limits (Http2Limits (..))
import Heddle.Http.H2.Session
import Heddle.Http.H2.State
import Heddle.Http.Handlers
import Heddle.Http.Head (MethodCode)
import Heddle.Http.Names (pattern MethodHead)
import Heddle.Http.Output
import Heddle.Http.Parse hiding (Parsed (Done, More))
import Heddle.Http.Parse qualified as Parse
import Heddle.Http.RejectReason
import Heddle.Http.Reply
import Heddle.Http.Request hiding (headers)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (borrowBuffer, freshNow, giveBackBuffer, registrationCapability, wakeReader)
import Heddle.Prim.Atomic (writeRef)
import Heddle.Prim.Buffer (borrow, bufferPtr, bufferSize, giveBack, keepAlive, newBuffer, withBuffer)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt, readAtNoWait)
import Heddle.Prim.Thread (forkMaskedOn, myThreadId)
import System.Posix.Types (Fd)

-- What the functions of this module share.
data Serving = Serving
  { servingHttp2 :: !Http2,
    servingStream :: !Stream,
    servingWork :: !Workspace,
    servingOutput :: !Output
  }

contextOf :: Serving -> Context
contextOf = http2Context . servingHttp2

settingsOf :: Serving -> Settings
settingsOf = contextSettings . contextOf

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
      else listStream h2 stream >> startThread h2 stream (dispatch serving arrived >> putAside serving)

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
  arrive serving >>= dispatch serving
  -- After an exception its workspace is left to the collector.
  putAside serving

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
  let serving = Serving h2 stream ws (newOutput (http2Transport h2) ws (contextSettings context) (contextDate context))
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

dispatch :: Serving -> Arrived -> IO ()
dispatch serving = \case
  ClosedStream -> pure ()
  Refused reason -> refuse serving LoggedGarbage (rejectStatus reason) (rejectText reason)
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
      made <- try (quick request)
      case made of
        Right (Just reply)
          | Nothing <- unsafeReply reply, fits reply -> True <$ answer serving request reply
        -- What is wrong with it, the main handler will find as well.
        Right unfit -> False <$ traverse_ releaseReply unfit
        Left e -> if isAsynchronous e then throwIO e else pure False
    _ -> pure False
  where
    ws = servingWork serving
    settings = settingsOf serving
    room = http2Output (settingHttp2Limits settings)
    fits = \case
      Ready p -> prebuiltSize p - prebuiltHead p <= room
      Whole _ _ content -> B.length content <= room
      _ -> False

-- The head is complete: decide, call the handler, answer. The flag says that a body follows.
handle :: Serving -> Bool -> IO ()
handle serving bodied = do
  base <- get ws WorkBase
  let p = inputPtr ws `plusPtr` base
  framingOf (settingLimits settings) p (workHead ws) >>= \case
    FramingReject status reason -> refuse serving LoggedRequest status (rejectText reason)
    framing ->
      expectsContinue p (workHead ws) >>= \case
        ExpectUnknown -> refuse serving LoggedRequest status417 (rejectText UnknownExpectation)
        expectation -> do
          set ws WorkLeft $ case framing of
            _ | not bodied -> 0
            Sized n -> -3 - n
            _ -> -2
          set ws WorkContinue (if bodied && expectation == ExpectContinue then 1 else 0)
          set ws WorkBodyBegan 0
          set ws WorkBodyTotal 0
          now <- freshNow (http2Registration (servingHttp2 serving))
          let request = requestAt serving now
          reply <- try (unsafeUnmask (contextHandler (contextOf serving) request))
          replied <- get ws WorkReplied
          case reply of
            Right r
              | replied == 0 -> answer serving request r
              | otherwise -> releaseReply r
            Left e -> handlerFailed serving request e
          wanted <- get ws WorkCloses
          when (wanted /= 0) $ goAway (http2Session (servingHttp2 serving))
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
  for_ (unsafeHeader given) throwIO
  replied <- get (servingWork serving) WorkReplied
  when (replied == 0 && statusCode status >= 100 && statusCode status < 200 && status /= status101) $ do
    r <- interim serving (B.concat ("HTTP/1.1 " : C.pack (show (statusCode status)) : "\r\n" : concat [[name, ": ", value, "\r\n"] | Header name value <- given] ++ ["\r\n"]))
    case r of
      Malformed -> throwIO forbiddenByHttp2
      _ -> kick (servingHttp2 serving)

-- libnghttp2 does not say which.
forbiddenByHttp2 :: UnsafeHeader
forbiddenByHttp2 = UnsafeHeader (Header "(one that HTTP/2 forbids)" "")

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
        if total + n > limitBody (settingLimits settings) then fails (BodyRejected status413 BodyTooLarge) else pure n
    fails = failing (requestAt serving (Deadline 0))

-- What 'sourcePull' and the others do for a stream that is given up.
giveUp :: Serving -> IO ()
giveUp serving = do
  resetStream (http2Session (servingHttp2 serving)) (streamName (servingStream serving)) internalError OwnFault
  kick (servingHttp2 serving)

internalError, cancelled :: Int
internalError = 2
cancelled = 8

handlerFailed :: Serving -> Request -> SomeException -> IO ()
handlerFailed serving request e
  | Just ConnectionLost <- fromException e = pure ()
  | isAsynchronous e = throwIO e
  | otherwise = do
    replied <- get (servingWork serving) WorkReplied
    case fromException e of
      Just failure -> when (replied == 0) (bodyFailed failure)
      Nothing -> do
        settingFailed (settingsOf serving) e
        when (replied == 0) $ answer serving request (plain status500 "The server failed to answer this request.")
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
  try (send serving now code (plain status text)) >>= \case
    Left ConnectionLost -> pure ()
    Right () -> pure ()
  logged serving request what status

logged :: Serving -> Request -> Logged -> Status -> IO ()
logged serving request what status = case contextLog (contextOf serving) of
  Nothing -> pure ()
  -- It may run in the connection's thread, which must go on.
  Just hook -> get (servingWork serving) WorkSent >>= \sent -> hook request what status sent `catchSync` settingFailed (settingsOf serving)

-- Replies -------------------------------------------------------------------------

answer :: Serving -> Request -> Reply -> IO ()
answer serving request reply
  | Tunnel {} <- reply = answer serving request noTunnel
  | Just unsafe <- unsafeReply reply = releaseReply reply >> failed500 serving (toException unsafe) "The server made a malformed reply."
  | Replied _ <- reply = failed500 serving (toException NotReplied) "The server failed to answer this request."
  | otherwise =
    try (sendNow serving request reply) >>= \case
      Right () -> logged serving request LoggedRequest (replyStatus reply)
      Left e -> do
        begun <- get (servingWork serving) WorkPushed
        if begun == 0 && not (isAsynchronous e) && not (isLost e)
          then failed500 serving e "The server failed to answer this request."
          else do
            unless (isAsynchronous e || isLost e || isBodyError e) $ settingFailed (settingsOf serving) e
            unless (isLost e) (giveUp serving)
            logged serving request LoggedRequest (replyStatus reply)
            when (isAsynchronous e) (throwIO e)
  where
    isBodyError e = case fromException e of
      Just (_ :: BodyError) -> True
      Nothing -> False

isLost :: SomeException -> Bool
isLost e = case fromException e of
  Just ConnectionLost -> True
  Nothing -> False

-- Nothing of the reply was sent, so another can be.
failed500 :: Serving -> SomeException -> ByteString -> IO ()
failed500 serving e text = do
  settingFailed (settingsOf serving) e
  refuse serving LoggedRequest status500 text

sendNow :: Serving -> Request -> Reply -> IO ()
sendNow serving request reply = do
  set (servingWork serving) WorkPushed 0
  -- A stream may still read the body, and 100 Continue cannot come after its head.
  case reply of
    Stream {} -> beforeBody serving
    StreamOf {} -> beforeBody serving
    BuiltOf {} -> beforeBody serving
    _ -> pure ()
  now <- freshNow (http2Registration (servingHttp2 serving))
  code <- method request
  send serving now code reply

-- 'replyNow'.
replyInside :: Serving -> Request -> Reply -> IO Int
replyInside serving request given = do
  replied <- get ws WorkReplied
  when (replied /= 0) (releaseReply reply >> throwIO RepliedTwice)
  for_ (unsafeReply reply) (\e -> releaseReply reply >> throwIO e)
  try (sendNow serving request reply <* set ws WorkReplied 2) >>= \case
    Right () -> do
      kick (servingHttp2 serving)
      logged serving request LoggedRequest (replyStatus reply)
      get ws WorkSent
    Left e -> do
      begun <- get ws WorkPushed
      when (begun /= 0) $ do
        set ws WorkReplied 1
        unless (isLost e) (giveUp serving)
        logged serving request LoggedRequest (replyStatus reply)
      throwIO (e :: SomeException)
  where
    ws = servingWork serving
    reply = case given of
      Tunnel {} -> noTunnel
      other -> other

noTunnel :: Reply
noTunnel = plain status501 "HTTP/2 connections carry no other protocol."

-- The content's length is left in 'WorkSent'.
--
-- [Throws]: 'ConnectionLost'; what a stream's action throws.
send :: Serving -> Deadline -> MethodCode -> Reply -> IO ()
send serving now code = \case
  Ready p -> do
    refreshDate (servingOutput serving) now p
    let content = if code == MethodHead then 0 else prebuiltSize p - prebuiltHead p
    withBuffer (prebuiltBuffer p) $ \b ->
      withLines b (prebuiltHead p) $ \h n ->
        begin serving h n (b `plusPtr` prebuiltHead p) content True
  Whole status headers content -> do
    let bare = statusForbidsContent status
        sent = if bare || code == MethodHead then B.empty else content
    withHeadOf status headers (if bare then Nothing else Just (B.length content)) $ \h n ->
      unsafeUseAsCStringLen sent $ \(p, count) -> begin serving h n (castPtr p) count True
  Copied status given content -> linesHeaders given >>= \headers -> send serving now code (Whole status headers content)
  Segments status headers segments release -> flip finally release $ do
    let bare = statusForbidsContent status
        total = sum (map segmentLength segments)
        silent = bare || code == MethodHead || total == 0
    withHeadOf status headers (if bare then Nothing else Just total) $ \h n -> begin serving h n nullPtr 0 silent
    unless silent $ mapM_ piece segments >> put serving nullPtr 0 True
  Stream status headers body
    | statusForbidsContent status || code == MethodHead -> headAlone status headers Nothing
    | otherwise -> do
      headFirst status headers Nothing
      unsafeUnmask (body (writerOf serving maxBound))
      put serving nullPtr 0 True
  BuiltOf status headers n builder -> send serving now code (StreamOf status headers n (`writerBuild` builder))
  StreamOf status headers n body -> do
    let none = statusForbidsContent status
        announced = if none && status /= status304 then Nothing else Just n
    if none || code == MethodHead
      then headAlone status headers announced
      else do
        headFirst status headers announced
        unsafeUnmask (body (writerOf serving n))
        sent <- get ws WorkSent
        when (sent /= n) (throwIO (WrongLength n sent))
        put serving nullPtr 0 True
  Built status headers builder
    | statusForbidsContent status -> headAlone status headers Nothing
    | otherwise -> do
      buffer <- borrowBuffer registration
      let p = bufferPtr buffer
      (n, rest) <- unsafeUnmask (runBuilder builder p (bufferSize buffer))
      case rest of
        Done -> withHeadOf status headers (Just n) $ \h size -> begin serving h size p n True
        _
          | code == MethodHead -> headAlone status headers Nothing
          | otherwise -> do
            headFirst status headers Nothing
            putCounted serving maxBound p n
            unsafeUnmask (continueBuilder serving maxBound rest)
            put serving nullPtr 0 True
      keepAlive buffer
      giveBackBuffer registration buffer
  Tunnel _ _ -> pure ()
  Replied _ -> pure ()
  where
    ws = servingWork serving
    registration = http2Registration (servingHttp2 serving)
    out = servingOutput serving
    headAlone status headers len = withHeadOf status headers len $ \h n -> begin serving h n nullPtr 0 True
    headFirst status headers len = withHeadOf status headers len $ \h n -> begin serving h n nullPtr 0 False
    -- The lines that all replies on the connection have, before the empty line.
    withLines b n use = do
      more <- replyLines out
      if B.null more
        then use b n
        else do
          buffer <- newBuffer (n + B.length more)
          withBuffer buffer $ \h -> do
            copyBytes h b (n - 2)
            end <- pokeBytes (h `plusPtr` (n - 2)) (more <> "\r\n")
            use h (end `minusPtr` h)
    withHeadOf status given len use = do
      headers <- replyHeaders out given
      _ <- currentSecond (outputDate out) now
      let room = headBound out status headers ""
          write h = writeHeadTo out h status headers len "" >>= \end -> use h (end `minusPtr` h)
      if room <= outputSize ws
        then write (outputPtr ws)
        else newBuffer room >>= \buffer -> withBuffer buffer write
    piece = \case
      SegmentBytes bytes -> unsafeUseAsCStringLen bytes $ \(p, n) -> when (n > 0) (put serving (castPtr p) n False)
      SegmentFile file offset n -> putFile serving file offset n

-- Writes content of at most this many bytes. The actions may be called in any masking state.
writerOf :: Serving -> Int -> Writer
writerOf serving most =
  Writer
    { writerPut = mask_ . putPiece serving most,
      writerBuild = continueBuilder serving most . More 1 . runBuilder,
      writerFlush = mask_ (set (servingWork serving) WorkUsed 0 >> kick (servingHttp2 serving)),
      writerTrailers = mask_ . putTrailers serving
    }

putTrailers :: Serving -> [Header] -> IO ()
putTrailers serving given = do
  fields <- trailerLines given
  r <- unsafeUseAsCStringLen (fields <> "\r\n") $ \(p, n) ->
    setTrailers (http2Session (servingHttp2 serving)) (streamName (servingStream serving)) (castPtr p) n
  case r of
    Malformed -> throwIO forbiddenByHttp2
    _ -> when (r < 0) (throwIO ConnectionLost)

putPiece :: Serving -> Int -> ByteString -> IO ()
putPiece serving most bytes = unsafeUseAsCStringLen bytes $ \(p, n) -> putCounted serving most (castPtr p) n

-- Now and then what was written is sent, without being asked for.
putCounted :: Serving -> Int -> Ptr Word8 -> Int -> IO ()
putCounted serving most p n = when (n > 0) $ do
  sent <- get ws WorkSent
  when (n > most - sent) (throwIO (WrongLength most (sent + n)))
  put serving p n False
  gathered <- get ws WorkUsed
  if gathered + n >= 16384 then set ws WorkUsed 0 >> kick (servingHttp2 serving) else set ws WorkUsed (gathered + n)
  where
    ws = servingWork serving

-- Run a builder into the workspace's output, which holds the head no more, in the caller's masking state.
continueBuilder :: Serving -> Int -> Next -> IO ()
continueBuilder serving most = \case
  Done -> pure ()
  Chunk bytes step -> mask_ (putPiece serving most bytes) >> continueBuilder serving most (More 1 step)
  More least step
    | least > outputSize ws -> do
      (bytes, next) <- createAndTrim' least (\p -> (\(n, next) -> (0, n, next)) <$> step p least)
      mask_ (putPiece serving most bytes)
      continueBuilder serving most next
    | otherwise -> do
      (n, next) <- step (outputPtr ws) (outputSize ws)
      mask_ (putCounted serving most (outputPtr ws) n)
      continueBuilder serving most next
  where
    ws = servingWork serving

-- The head, and content.
begin :: Serving -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Bool -> IO ()
begin serving h headBytes p n complete = do
  set ws WorkSent 0
  set ws WorkUsed 0
  r <- beginReply (http2Session h2) (streamName (servingStream serving)) h headBytes p n complete
  case r of
    Malformed -> throwIO forbiddenByHttp2
    _ | r < 0 -> throwIO ConnectionLost
    _ -> do
      set ws WorkSent r
      set ws WorkPushed 1
      when (r < n) $ put serving (p `plusPtr` r) (n - r) complete
  where
    ws = servingWork serving
    h2 = servingHttp2 serving

-- More content, at least at the settings' pace.
put :: Serving -> Ptr Word8 -> Int -> Bool -> IO ()
put serving p n complete = do
  r <- output p n
  if r == n then count n else moved r r
  where
    h2 = servingHttp2 serving
    ws = servingWork serving
    name = streamName (servingStream serving)
    pace = settingReplyPace (settingsOf serving)
    output q left = writeOutput (http2Session h2) name q left complete
    count r = get ws WorkSent >>= \sent -> set ws WorkSent (sent + r)
    moved done r
      | r < 0 = throwIO ConnectionLost
      | otherwise = count r >> monotonicNow >>= \began -> waiting done began 0
    waiting done began since = do
      kick h2
      -- Nothing is asked before the last wait has ended, or the event would be lost.
      r <- awaitStream h2 (servingStream serving) ForRoom (paceDeadline pace began since) $ do
        r <- output (p `plusPtr` done) (n - done)
        pure (if r == 0 then Nothing else Just r)
      case r of
        Nothing -> do
          resetStream (http2Session h2) name cancelled Provoked
          kick h2
          throwIO ConnectionLost
        Just k
          | k < 0 -> throwIO ConnectionLost
          | done + k == n -> count k
          | otherwise -> do
            count k
            now <- monotonicNow
            if paceKept pace began (since + k) now then waiting (done + k) now 0 else waiting (done + k) began (since + k)

-- A part of a file, through one of the capability's buffers.
putFile :: Serving -> Fd -> Int64 -> Int -> IO ()
putFile serving file offset0 n0 = do
  buffer <- borrowBuffer registration
  whole <- go (bufferPtr buffer) (bufferSize buffer) offset0 n0
  keepAlive buffer
  giveBackBuffer registration buffer
  -- Its length was announced, so the stream cannot end well.
  unless whole $ giveUp serving >> throwIO ConnectionLost
  where
    h2 = servingHttp2 serving
    registration = http2Registration h2
    go p size offset left
      | left == 0 = pure True
      | otherwise = do
        let count = min size left
        quick <- readAtNoWait file p count offset
        r <- if quick > 0 then pure quick else readAt file p count offset
        if r <= 0 then pure False else put serving p r False >> go p size (offset + fromIntegral r) (left - r)
