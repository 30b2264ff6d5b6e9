{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Client.Sending
-- Description : Sending a request, up to the head of its response
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- While a body is being sent, the connection is looked at for an answer between two pieces, and every tenth of a second
-- while the peer takes nothing: an answer ends the sending (Note [Early answers]).
--
-- Cost: one system call for a request without a body.
-- Owner: the thread that makes the request.
module Heddle.Http.Client.Sending
  ( ask,
  )
where

import Control.Monad (join, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Lazy qualified as L
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Bytes.Write (hex, pokeWrite, writeBound)
import Heddle.Http.Client.Answer
import Heddle.Http.Client.Ask
import Heddle.Http.Client.Connect (failureOf)
import Heddle.Http.Client.Error
import Heddle.Http.Client.Exchange
import Heddle.Http.Client.Settings
import Heddle.Http.Reply (Writer (..), trailerLines)
import Heddle.Http.Settings (paceDeadline, paceKept)
import Heddle.Http.Workspace
import Heddle.IO.Registration (Interest (..), attempt, borrowBuffer, giveBackBuffer, waitUntil, pattern TimedOutCode)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline, Nanos, after, deadlineIn, milliseconds, monotonicNow, seconds)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EPIPE)
import Heddle.Prim.Exception
import Heddle.Prim.File (readAt)
import Heddle.Prim.Poller (eventOut, pollOne)
import System.Posix.Types (Fd)

-- How sending ended.
data SendEnd
  = AllSent
  | -- | An answer has come, or the peer's end.
    Answered
  | -- | The connection takes no more; the code.
    Refused !Int

-- | Send the request, and read up to the head of its final response: what follows that head, or why there is
-- none.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; interruptible while parked, and then the connection must be closed.
-- [Throws]: what the request's own actions throw.
ask :: Exchange -> IO (Either Failure Content)
ask ex =
  sendRequest ex >>= \case
    Left failure -> pure (Left failure)
    Right AllSent -> do
      setFlag ex FlagSent 1
      !deadline <- earlier ex <$> deadlineIn (clientHead (exchangeSettings ex))
      heard <- flag ex FlagHeard
      case exchangeTransport ex of
        -- The last attempt to read, if any, found nothing; see Note [Waiting first].
        Bare registration | heard == 0 -> do
          !soon <- min deadline <$> untakenUntil ex
          case requestAttended (exchangeRequest ex) of
            Nothing -> waitUntil registration Readable soon
            Just _ -> deadlineSoon registration soon >>= waitUntil registration Readable
        _ -> pure ()
      awaitHead ex Nothing deadline
    Right Answered -> deadlineIn (clientHead (exchangeSettings ex)) >>= awaitHead ex Nothing . earlier ex
    -- A peer that refuses a body may have said why before it closed.
    Right (Refused code)
      | code == GivenUpCode -> pure (Left GivenUp)
      | code == TimedOutCode -> pure (Left (TooSlow SendingRequest))
      | otherwise -> deadlineIn lastWords >>= awaitHead ex (Just (failureOf SendingRequest code)) . earlier ex

-- How long to wait for an answer after the connection has refused to take more.
lastWords :: Nanos
lastWords = seconds 1

-- Ends a writer whose bytes are not wanted any more. Thrown to the writer's action only.
newtype StopSending = StopSending SendEnd

instance Show StopSending where
  show _ = "the request's body is not wanted any more"

instance Exception StopSending where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

sendRequest :: Exchange -> IO (Either Failure SendEnd)
sendRequest ex =
  thenGo (putPiece ex (preparedHead (exchangePrepared ex))) $
    if preparedExpects (exchangePrepared ex)
      then
        thenGo (flushOut ex) $
          deadlineIn (clientContinue settings) >>= awaitContinue ex . earlier ex >>= \case
            True -> pure (Right Answered)
            False -> body
      else body
  where
    settings = exchangeSettings ex
    thenGo first next =
      first >>= \case
        AllSent -> next
        other -> pure (Right other)
    body =
      takeBody ex >>= \case
        NoRequestBody -> Right <$> flushOut ex
        BodyBytes b -> Right <$> (putPiece ex b >>= andFlush)
        BodyFile file offset n -> thenGo (flushOut ex) (sendFilePieces ex file offset (max 0 n))
        BodySized n action -> written (Just (max 0 n)) action
        BodyChunked action -> written Nothing action
    andFlush = \case
      AllSent -> flushOut ex
      other -> pure other
    -- The action runs in the caller's masking state. It may catch the exception that ends it, so the outcome
    -- is kept apart.
    written size action = do
      stopped <- newRef Nothing
      total <- newRef (0 :: Int)
      trailers <- newRef B.empty
      let stop end = writeRef stopped (Just end) >> throwIO (StopSending end)
          orStop end = case end of
            AllSent -> pure ()
            _ -> stop end
          guarded step = mask_ (readRef stopped >>= maybe step (throwIO . StopSending))
          put b = guarded . unless (B.null b) $ do
            before <- readRef total
            let now = before + B.length b
            writeRef total now
            -- More than announced would be read as the next request.
            if maybe False (now >) size then stop AllSent else (if maybe True (const False) size then putChunk ex b else putPiece ex b) >>= orStop
          -- A writer that waits between two pieces learns here of an answer that has come meanwhile.
          flush' = guarded (flushMoreOut ex >>= orStop)
      outcome <- trySyncOrStop (exchangeRestore ex (action (Writer put (mapM_ put . L.toChunks . toLazyByteString) flush' (\given -> trailerLines given >>= writeRef trailers) (\b -> B.length b <$ put b) (True <$ flush'))))
      end <- readRef stopped
      count <- readRef total
      case (outcome, end, size) of
        (_, Just AllSent, Just n) -> pure (Left (BodyLengthDiffers n count))
        (_, Just early, _) -> pure (Right early)
        (Left e, Nothing, _) -> throwIO e
        (Right (), Nothing, Just n) | count /= n -> pure (Left (BodyLengthDiffers n count))
        (Right (), Nothing, Just _) -> Right <$> flushOut ex
        (Right (), Nothing, Nothing) -> do
          fields <- readRef trailers
          Right <$> (putPiece ex (B.concat ["0\r\n", fields, "\r\n"]) >>= andFlush)
    trySyncOrStop action =
      try action >>= \case
        Left e
          | Just (StopSending _) <- fromException e -> pure (Right ())
          | isAsynchronous e -> throwIO e
          | otherwise -> pure (Left e)
        Right () -> pure (Right ())

takeBody :: Exchange -> IO RequestBody
takeBody ex = do
  body <- readRef (exchangeBody ex)
  unless (replays body) (writeRef (exchangeBody ex) NoRequestBody)
  pure body

-- Wait for 100 (Continue): whether a final answer came instead.
awaitContinue :: Exchange -> Deadline -> IO Bool
awaitContinue ex deadline = do
  done <- progress ex
  continue <- flag ex FlagContinue
  case done of
    Just _ -> pure True
    Nothing
      | continue == 1 -> pure False
      | otherwise -> do
        makeHeadRoom ex
        r <- takeIn ex (readAttended ex deadline)
        if r > 0 then awaitContinue ex deadline else pure (r /= TimedOutCode)

putPiece :: Exchange -> ByteString -> IO SendEnd
putPiece ex b = unsafeUseAsCStringLen b $ \(p, n) -> putMemory ex (castPtr p) n

-- Gather, or send what does not fit.
putMemory :: Exchange -> Ptr Word8 -> Int -> IO SendEnd
putMemory ex p n = do
  used <- get ws WorkUsed
  if n <= outputSize ws - used
    then do
      copyBytes (outputPtr ws `plusPtr` used) p n
      AllSent <$ set ws WorkUsed (used + n)
    else
      flushMoreOut ex >>= \case
        AllSent
          | n <= outputSize ws -> copyBytes (outputPtr ws) p n >> AllSent <$ set ws WorkUsed n
          | otherwise -> sendMemory ex p n
        other -> pure other
  where
    ws = exchangeWork ex

putChunk :: Exchange -> ByteString -> IO SendEnd
putChunk ex b = do
  let ws = exchangeWork ex
      size = hex (fromIntegral (B.length b)) <> "\r\n"
  used <- get ws WorkUsed
  room <- if outputSize ws - used < writeBound size then flushMoreOut ex else pure AllSent
  case room of
    AllSent -> do
      at <- get ws WorkUsed
      end <- pokeWrite size (outputPtr ws `plusPtr` at)
      set ws WorkUsed (end `minusPtr` outputPtr ws)
      putPiece ex b >>= \case
        AllSent -> putPiece ex "\r\n"
        other -> pure other
    other -> pure other

flushOut, flushMoreOut :: Exchange -> IO SendEnd
flushOut ex = do
  let ws = exchangeWork ex
  used <- get ws WorkUsed
  if used == 0
    then pure AllSent
    else do
      set ws WorkUsed 0
      sendMemory ex (outputPtr ws) used
-- Between two pieces the peer may have answered.
flushMoreOut ex = do
  came <- answered ex
  if came then pure Answered else flushOut ex

-- | Send bytes at least at the settings' pace, unless an answer comes.
sendMemory :: Exchange -> Ptr Word8 -> Int -> IO SendEnd
sendMemory ex p n = do
  r <- writeNow (exchangeTransport ex) p n
  if r == n then pure AllSent else paced ex n (max 0 r) write
  where
    transport = exchangeTransport ex
    write done soon due
      -- A layer's write that has run out of time has sent a part of what it made, and cannot be repeated. So the
      -- short wait is for room in the socket, and the write has all the time.
      | isLayered transport = do
        room <- attempt (transportRegistration transport) Writable soon $ \fd -> do
          r <- pollOne fd eventOut
          pure (if r == 0 then negate (errnoNumber EAGAIN) else r)
        if room < 0
          then pure room
          else do
            r <- writeSomeUntil transport (p `plusPtr` done) (n - done) due
            pure (if r == TimedOutCode then OutOfTime else r)
      | otherwise = writeSomeUntil transport (p `plusPtr` done) (n - done) soon

-- A file in pieces of 4 MB, between which the peer may have answered.
sendFilePieces :: Exchange -> Fd -> Int64 -> Int -> IO (Either Failure SendEnd)
sendFilePieces ex file offset n
  | isLayered transport = copyFilePieces ex file offset n
  | otherwise = newRef 0 >>= \total -> go total 0
  where
    transport = exchangeTransport ex
    go total done
      | done >= n = pure (Right AllSent)
      | otherwise = do
        came <- if done > 0 then answered ex else pure False
        if came then pure (Right Answered) else piece total done (min 0x400000 (n - done))
    piece total done size =
      paced ex size 0 (\sent soon _ -> writeRef total (done + sent) >> step (offset + fromIntegral (done + sent)) (size - sent) soon) >>= \case
        AllSent -> go total (done + size)
        Refused FileEnded -> Left . BodyLengthDiffers n <$> readRef total
        other -> pure (Right other)
    -- 0 has three meanings: the time is over, the file has ended, the connection has failed.
    step at left deadline = do
      r <- writeFilePaced transport file at left (\_ -> pure deadline)
      now <- monotonicNow
      if
          | r > 0 -> pure r
          | now >= deadline -> pure TimedOutCode
          | otherwise -> allocaBytes 1 $ \p -> do
            got <- readAt file p 1 at
            pure (if got == 0 then FileEnded else negate (errnoNumber (if got < 0 then Errno (negate got) else EPIPE)))

-- A file through a layer, which would not say whether a short write can be continued.
copyFilePieces :: Exchange -> Fd -> Int64 -> Int -> IO (Either Failure SendEnd)
copyFilePieces ex file offset n = do
  buffer <- borrowBuffer registration
  r <- withBuffer buffer $ \p -> go p (bufferSize buffer) 0
  giveBackBuffer registration buffer
  pure r
  where
    registration = transportRegistration (exchangeTransport ex)
    go p size done
      | done >= n = pure (Right AllSent)
      | otherwise = do
        came <- if done > 0 then answered ex else pure False
        if came
          then pure (Right Answered)
          else do
            got <- readAt file p (min size (n - done)) (offset + fromIntegral done)
            if
                | got < 0 -> pure (Left (failureOf SendingRequest got))
                | got == 0 -> pure (Left (BodyLengthDiffers n done))
                | otherwise ->
                  sendMemory ex p got >>= \case
                    AllSent -> go p size (done + got)
                    other -> pure (Right other)

-- No system call answers with these: the file is shorter than announced; a layer's write has run out of time.
pattern FileEnded, OutOfTime :: Int
pattern FileEnded = -100010
pattern OutOfTime = -100011

-- Windows of the pace, each in waits of a tenth of a second, between which the peer may have answered.
-- The step is given what was sent, when to stop waiting, and when the pace ends.
paced :: Exchange -> Int -> Int -> (Int -> Deadline -> Deadline -> IO Int) -> IO SendEnd
paced ex n sent step = do
  began <- monotonicNow
  go sent began 0
  where
    pace = clientSendPace (exchangeSettings ex)
    givenUp = case requestAttended (exchangeRequest ex) of
      Nothing -> pure False
      Just attend -> join (attend (transportRegistration (exchangeTransport ex)))
    go done began moved
      | done >= n = pure AllSent
      | otherwise = do
        now <- monotonicNow
        let due = earlier ex (paceDeadline pace began moved)
        r <- step done (min due (after (milliseconds 100) now)) due
        t <- monotonicNow
        case () of
          _
            | r > 0 && paceKept pace began (moved + r) t -> go (done + r) t 0
            | r > 0 -> go (done + r) began (moved + r)
            | r == TimedOutCode || r == 0 || r == OutOfTime -> do
              way <- untakenUntil ex
              when (t >= way) (notTaken ex)
              given <- givenUp
              came <- answered ex
              case () of
                _
                  | given -> pure (Refused GivenUpCode)
                  | came -> pure Answered
                  | t >= due || r == OutOfTime -> pure (Refused TimedOutCode)
                  | otherwise -> go done began moved
            | otherwise -> pure (Refused r)

-- Note [Waiting first]
-- ~~~~~~~~~~~~~~~~~~~~
-- No answer is there right after the request was sent, so a first attempt to receive would be a system call for nothing.
-- A wait may begin without it when no byte can be left in the socket: the last read of a kept connection took all that
-- there was, or left a token ('Heddle.Http.Client.Connect.isStale' has looked), and what comes on any connection after the last
-- attempt, or after it was opened, leaves one. A layer may hold bytes of its own, so it is asked first.

-- Note [Early answers]
-- ~~~~~~~~~~~~~~~~~~~~
-- A server may answer before it has read the body, for instance with 413, and then close or read no further. A client
-- that only sends would wait until its pace ends, or lose the answer to the reset. A thread can wait for one direction
-- of a connection only, and a second thread would share a layer that one thread uses. So the waits for
-- writing are cut into tenths of a second, and after each of them the input is looked at. This costs ten
-- system calls a second, only while the peer takes nothing.
