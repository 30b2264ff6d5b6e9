{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.Relay
-- Description : A request to a program, and its answer back
-- Stability   : stable
--
-- What CGI, FastCGI and SCGI have in common. While the handler's thread passes the program's output to the client, a
-- second thread passes the request's body to the program, and then watches whether the client stays: each direction
-- flows at its own pace, and neither is ever in memory as a whole, except that what a slow client has not taken of an answer waits there, up to
-- a size ("Heddle.Gateway.Backlog"), so that it does not occupy the program. A request without a body has no second thread, and one
-- whose body has been received before has one that only passes it on; when their program has been silent for 20 ms,
-- "Heddle.Gateway.Attend" watches their client.
--
-- Until the head of the answer has been understood, whatever fails is answered with a status. Afterwards the connection
-- is cut short, and the exception that says why is the engine's to report.
--
-- Invariant: when 'relay' returns or throws, both threads have left the backend alone, and it may be closed.
-- Cost: a thread for each request with a body; a copy of the body and one of the answer.
-- Owner: the handler's thread.
module Heddle.Gateway.Relay
  ( Backend (..),
    Output (..),
    RelaySettings (..),
    relay,
    Relayed (..),
    refusal,
    noteStatus,
    GatewayError (..),
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (traverse_)
import Data.Maybe (fromMaybe)
import Heddle.Gateway.Answer
import Heddle.Gateway.Attend
import Heddle.Gateway.Backlog
import Heddle.Gateway.Content
import Heddle.Gateway.Failure
import Heddle.Gateway.Helper
import Heddle.Http
import Heddle.Http.Borrowed (noteForLog, noteUpstreamTime, requestConn)
import Heddle.IO.Registration (Interest (..), hungUp, isClosing, waitUntil, wakeReader)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception

-- | A program that has been told of a request.
data Backend = Backend
  { -- | For the log: @program \/cgi-bin\/list.cgi@.
    backendName :: !String,
    -- | Pass on a piece of the body. 'False' if the program takes no more of it, which is not a failure.
    --
    -- It parks; another thread is in 'backendReceive' meanwhile.
    backendFeed :: !(ByteString -> IO Bool),
    -- | The body has ended.
    backendFed :: !(IO ()),
    -- | The next output, or 'Silent' if there is none by the deadline. It makes at least one attempt.
    backendReceive :: !(Deadline -> IO Output),
    -- | The answer is wanted no more: the program is told, and 'backendReceive' and 'backendFeed' return soon.
    -- Idempotent; any thread.
    --
    -- It does nothing after 'backendRelease'.
    backendAbort :: !(IO ()),
    -- | The whole answer has come, or it was aborted, though the client may not have taken it all: what answered can serve another
    -- request. Nothing is received afterwards; the thread that feeds may not have noticed. Idempotent; it may wait for a moment.
    backendRelease :: !(IO ())
  }

-- | What came from a program.
data Output
  = -- | Bytes, not none.
    Output !ByteString
  | -- | The regular end.
    Finished
  | -- | Nothing by the deadline.
    Silent
  | -- | Nothing more will come.
    Failed !Failure

-- | Bounds, and where to tell of troubles.
data RelaySettings = RelaySettings
  { -- | How long the program, while the client sends it nothing either, may give no output.
    relaySilence :: !Nanos,
    relayLimits :: !AnswerLimits,
    -- | Told of what the client is not told.
    relayTell :: !(String -> IO ()),
    -- | Of the gateway.
    relayAttendances :: !Attendances,
    -- | Of the gateway, for clients that read slowly.
    relayBacklog :: !Backlog
  }

-- | What became of a request.
data Relayed
  = -- | It was answered.
    Answered !Reply
  | -- | The program names another path of this server; nothing was answered.
    Elsewhere !ByteString
  | -- | Nothing was answered, and the program heard nothing of the body nor said anything.
    NotAnswered !Failure

-- | An answer that ended before it was whole: what gave it, and why it ended.
data GatewayError = GatewayError !String !Failure
  deriving stock (Eq)

instance Show GatewayError where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception GatewayError where
  displayException (GatewayError name failure) = name ++ " " ++ describeFailure failure

-- | The answer for a failure before the answer's beginning.
--
-- [Cost]: the text.
refusal :: Failure -> Reply
refusal failure = Whole status (Header "Content-Type" "text/plain; charset=utf-8" : [Header "Retry-After" "5" | status == status503]) (C.concat [C.pack (show (statusCode status)), " ", reasonPhrase status, "\n", why, "\n"])
  where
    status = failureStatus failure
    why = case failure of
      TooLate -> "What answers here did not do so in time."
      TooBusy -> "What answers here is busy; try again."
      _ -> "What answers here failed."

-- Words of the exchange.
pattern WordFed, WordGone, WordBegan :: Int
-- When the client last sent a piece that was passed on.
pattern WordFed = 0
-- 1: the client has gone, or its body is not what was announced.
pattern WordGone = 1
-- 1: a piece of the body was passed on.
pattern WordBegan = 2

-- | Pass a request on with its content, and its answer back.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; then the program is told, as when the client goes.
-- [Throws]: 'GatewayError' when the answer had begun; 'ConnectionLost' when the client has gone; a 'BodyError' when the
-- request's body was refused or came too slowly, of which the program sees only that it is told to end; an 'IOError' when
-- content that was received before cannot be read from its file.
-- [Threads]: the handler's.
relay :: RelaySettings -> Request -> Content -> Backend -> IO Relayed
relay settings request content backend = do
  words' <- newWords 4
  fault <- newRef Nothing
  start@(Deadline began) <- monotonicNow
  writeWord words' WordFed began
  major <- httpMajor request
  let gone = atomicWrite words' WordGone 1 >> backendAbort backend
      -- With HTTP/2 the engine interrupts the handler when the client goes.
      watches = major < 2
      readsClient = case content of
        Passing _ -> True
        _ -> False
  attended <- newRef (if watches && not readsClient then Nothing else Just (pure False))
  let watch = mask_ (attend (attendanceFor (relayAttendances settings) request) (requestConn request) gone >>= writeRef attended . Just)
      run = answer settings request backend start (Exchange words' fault attended watch) `onException` backendAbort backend
      -- The thread that found the client gone may not have aborted yet; afterwards its doing so changes nothing.
      leave = readRef attended >>= traverse_ (\over -> over >>= \found -> when found (backendAbort backend))
  case content of
    Passing _ -> askForBody request >> withHelper "gateway/client" (client request backend words' fault gone watches) run
    Received n open | n > 0 -> open >>= \piece -> withHelper "gateway/content" (feed backend words' piece `catchSync` \e -> writeRef fault (Just e) >> gone) run `finally` leave
    _ -> backendFed backend >> run `finally` leave

-- What the threads share: words, and what is wrong with the request's body; how the client ceases to be watched, once it is; and
-- how it comes to be, while the program is silent.
data Exchange = Exchange
  { exchangeWords :: !Words,
    exchangeFault :: !(Ref (Maybe SomeException)),
    exchangeAttended :: !(Ref (Maybe (IO Bool))),
    exchangeWatch :: !(IO ())
  }

-- The second thread. How long the client may take over its body, the engine judges, which counts only the time that the
-- client is waited for: a program that reads slowly does not make the client look slow.
client :: Request -> Backend -> Words -> Ref (Maybe SomeException) -> IO () -> Bool -> IO ()
client request backend words' fault gone watches = (feed backend words' (readBody request) >> when watches (watch >> gone)) `catchSync` failed
  where
    -- That the client has gone is no fault of the body, and is what 'received' takes the absence of one for.
    failed e = writeRef fault (if isGone e then Nothing else Just e) >> gone
    isGone e = case (fromException e, fromException e) of
      (Just BodyCutShort, _) -> True
      (_, Just ConnectionLost) -> True
      _ -> False
    registration = requestConn request
    -- Input that comes meanwhile is the next request's: its token goes back to the engine. Masked, so that no interruption
    -- comes between taking the token and noting it.
    watch = mask_ (looking False)
    looking taken = do
      hung <- hungUp registration
      closing <- isClosing registration
      unless (hung || closing) $ do
        waitUntil registration Readable never `onException` when taken (wakeReader registration)
        looking True

-- Pass the body on, up to its end or until the program takes no more of it. A piece that has been taken counts as begun,
-- whenever this is interrupted: without it the body is not whole any more.
feed :: Backend -> Words -> IO ByteString -> IO ()
feed backend words' next' = do
  piece <- mask_ (next' >>= \piece -> piece <$ unless (B.null piece) (writeWord words' WordBegan 1))
  if B.null piece
    then backendFed backend
    else do
      taken <- backendFeed backend piece
      Deadline now <- monotonicNow
      atomicWrite words' WordFed now
      when taken (feed backend words' next')

-- Receive. A program that was told to end because of the client has not failed, and an answer that it still ended in peace
-- is not one to this request.
received :: RelaySettings -> Backend -> Exchange -> Deadline -> IO Output
received settings backend exchange deadline =
  backendReceive backend deadline >>= \case
    Failed failure -> judged (Failed failure)
    Finished -> judged Finished
    other -> pure other
  where
    judged output = do
      left <- atomicRead (exchangeWords exchange) WordGone
      if left == 0
        then pure output
        else
          readRef (exchangeFault exchange) >>= \case
            Nothing -> throwIO ConnectionLost
            Just wrong -> do
              relayTell settings (backendName backend ++ " was ended: " ++ displayException wrong)
              throwIO wrong

-- Receive within the bounds; never 'Silent'.
next :: RelaySettings -> Backend -> Exchange -> IO Output
next settings backend exchange = do
  now <- monotonicNow
  let deadline = after (relaySilence settings) now
  attended <- readRef (exchangeAttended exchange)
  first <- if null attended then received settings backend exchange (min deadline (after (milliseconds 20) now)) else pure Silent
  case first of
    Silent -> when (null attended) (exchangeWatch exchange) >> go deadline
    output -> pure output
  where
    go deadline =
      received settings backend exchange deadline >>= \case
        Silent -> do
          fed <- atomicRead (exchangeWords exchange) WordFed
          now <- monotonicNow
          let later = after (relaySilence settings) (Deadline fed)
          if later > now then go later else Failed TooLate <$ backendAbort backend
        other -> pure other

-- What an output is to an answer of which so many bytes may still come.
data Taken
  = -- Nothing has come.
    NoPiece
  | -- Bytes, and how many may still come.
    Piece !ByteString !Int
  | -- The last bytes, and how many came beyond the promise.
    LastPiece !ByteString !Int
  | -- The end.
    NoMore
  | Broken !Failure

-- 'maxBound' is for an answer without a length.
takenAs :: Int -> Output -> Taken
takenAs left = \case
  Output bytes
    | n >= left -> LastPiece (B.take left bytes) (n - left)
    | otherwise -> Piece bytes (if left == maxBound then left else left - n)
    where
      n = B.length bytes
  Finished
    | left == maxBound || left == 0 -> NoMore
    | otherwise -> Broken EndedEarly
  Failed failure -> Broken failure
  Silent -> NoPiece

-- | Note for logs what a program or server has answered, or what its failure is answered with.
--
-- [Cost]: an allocation.
noteStatus :: Request -> Status -> IO ()
noteStatus request status = noteForLog request "upstream_status" (C.pack (show (statusCode status)))

answer :: RelaySettings -> Request -> Backend -> Deadline -> Exchange -> IO Relayed
answer settings request backend (Deadline start) exchange = heading 0 B.empty
  where
    limits = relayLimits settings
    took = monotonicNow >>= \(Deadline now) -> noteUpstreamTime request (Nanos (now - start))
    failed failure = do
      took
      answered (failureStatus failure)
      told (describeFailure failure)
      backendAbort backend
      pure (Answered (refusal failure))
    answered = noteStatus request
    told why = relayTell settings (backendName backend ++ " " ++ why)
    heading from bytes =
      next settings backend exchange >>= \case
        Output more -> do
          let bytes' = if B.null bytes then more else bytes <> more
          case splitHead from bytes' of
            Just (fields, rest)
              | B.length bytes' - B.length rest <= limitAnswerBytes limits -> headed fields rest
            _
              | B.length bytes' > limitAnswerBytes limits -> failed (BadAnswer ("its head has more than " ++ show (limitAnswerBytes limits) ++ " bytes"))
              -- The last line may end the head with what comes.
              | otherwise -> heading (fromMaybe (B.length bytes') (C.elemIndexEnd '\n' bytes')) bytes'
        Finished
          | B.null bytes -> nothing (BadAnswer "it said nothing")
          | otherwise -> failed (BadAnswer "it ended within the head")
        Failed failure | B.null bytes -> nothing failure
        Failed failure -> failed failure
        Silent -> failed TooLate
    nothing failure = do
      fed <- readWord (exchangeWords exchange) WordBegan
      case failure of
        EndedEarly | fed == 0 -> pure (NotAnswered failure)
        _ -> failed failure
    headed fields rest =
      took >> case readAnswer limits fields of
        Left why -> failed (BadAnswer why)
        Right (LocalRedirect path) -> do
          drain
          pure (Elsewhere path)
        Right (Answer status fields' len) -> do
          answered status
          verb <- method request
          let reset = status == status205
              silent = verb == MethodHead || reset || statusForbidsContent status
              begun body =
                try (replyNow request body >> when silent drain) >>= \case
                  Right () -> pure (Answered (Replied status))
                  Left broken@(GatewayError _ failure) -> do
                    -- Nothing has gone out yet if all there was is still being gathered.
                    out <- replyBegun request
                    if out then throwIO broken else failed failure
          case len of
            -- It has no content, whatever the program sends with it.
            _ | reset -> begun (Whole status fields' "")
            _ | silent -> begun (maybe (Stream status fields' nowhere) (\n -> StreamOf status fields' n nowhere) len)
            Just n
              | n == 0 -> begun (Whole status fields' "") <* surplus (B.length rest) Silent
              | otherwise -> begun (StreamOf status fields' n (\writer -> if B.null rest then started writer n rest Nothing else flow writer n (Output rest)))
            Nothing ->
              -- A small answer is whole by now.
              atOnce >>= \case
                Finished -> release >> begun (Whole status fields' rest)
                output -> begun (Stream status fields' (\writer -> started writer maxBound rest (Just output)))
    nowhere _ = pure ()
    atOnce = received settings backend exchange (Deadline 0)
    release = backendRelease backend
    -- What there is goes out together; before a wait, it goes out. The first argument is offered before the output.
    started writer left bytes output
      | B.null bytes = maybe atOnce pure output >>= flow writer left
      | otherwise = do
        n <- writerOffer writer bytes
        if n == B.length bytes then maybe atOnce pure output >>= flow writer left else behind writer left (B.drop n bytes) output
    flow :: Writer -> Int -> Output -> IO ()
    flow writer left output = case takenAs left output of
      NoPiece -> do
        sent <- writerTryFlush writer
        if sent then next settings backend exchange >>= flow writer left else behind writer left B.empty Nothing
      Piece bytes left' -> started writer left' bytes Nothing
      LastPiece bytes more -> do
        n <- writerOffer writer bytes
        lastly writer (B.drop n bytes) more
      NoMore -> release
      Broken failure -> cut failure
    -- All that was promised has come; the end should be next. If it is, nothing is held while the client takes the rest.
    lastly writer rest more = do
      output <- if more > 0 then pure Silent else atOnce
      case output of
        Finished -> release >> put writer rest
        _ -> do
          sent <- if B.null rest then writerTryFlush writer else pure False
          room <- takesMore (relayBacklog settings)
          if sent || not room
            then put writer rest >> surplus more output
            else passSlowly (relayBacklog settings) writer rest (pure B.empty) (surplus more output >> release)
    -- The client does not take what there is.
    behind writer left rest output = do
      room <- takesMore (relayBacklog settings)
      if not room
        then put writer rest >> writerFlush writer >> maybe atOnce pure output >>= flow writer left
        else do
          state <- newRef (left, output, Nothing)
          let pull = do
                (n, given, over) <- readRef state
                case over of
                  Just _ -> pure B.empty
                  Nothing -> maybe (next settings backend exchange) pure given >>= pulled n . takenAs n
              pulled n = \case
                NoPiece -> writeRef state (n, Nothing, Nothing) >> pull
                Piece bytes n' -> bytes <$ writeRef state (n', Nothing, Nothing)
                LastPiece bytes more -> bytes <$ writeRef state (0, Nothing, Just (surplus more Silent))
                NoMore -> pure B.empty
                Broken failure -> cut failure
              end = readRef state >>= \(_, _, over) -> fromMaybe (pure ()) over
          passSlowly (relayBacklog settings) writer rest pull (end >> release)
    put writer bytes = unless (B.null bytes) (writerPut writer bytes)
    -- Before the client has taken what came: what failed is held no longer.
    cut failure = backendAbort backend >> release >> throwIO (GatewayError (backendName backend) failure)
    -- What was sent beyond the promise, of which so much has come, and this.
    surplus more output
      | more > 0 = excess more
      | otherwise = case output of
        Output bytes -> excess (B.length bytes)
        Silent ->
          atOnce >>= \case
            Output bytes -> excess (B.length bytes)
            _ -> pure ()
        _ -> pure ()
    excess n = when (n > 0) $ do
      told "sent more than the Content-Length that it gave; the rest is dropped"
      drain
    -- Content that nobody gets: the program may finish its work.
    drain =
      next settings backend exchange >>= \case
        Output _ -> drain
        _ -> pure ()
