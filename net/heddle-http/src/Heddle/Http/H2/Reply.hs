{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.H2.Reply
-- Description : Sending the reply of one HTTP/2 stream
-- Stability   : internal, exempt from the version policy
--
-- A reply's head is written in HTTP/1.1's form, and the session makes fields of it. Content passes through the
-- session's buffer of the stream, which is bounded, also by the client's windows: a handler that writes waits for the client, a
-- small reply does not. Of a reply that is there the rest is left to "Heddle.Http.H2.Rest".
--
-- Cost: one crossing for a reply of up to 64 KB; a copy of the content.
-- Owner: the stream's thread.
module Heddle.Http.H2.Reply
  ( Serving (..),
    KeptHead (..),
    contextOf,
    settingsOf,
    Remaining (..),
    send,
    settle,
    sendHeadHere,
    giveUp,
    forbiddenByHttp2,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder.Extra (Next (..), runBuilder)
import Data.ByteString.Internal (createAndTrim')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Heddle.Http.Context
import Heddle.Http.Date (currentSecond)
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.H2.Rest
import Heddle.Http.H2.Session
import Heddle.Http.H2.State
import Heddle.Http.Head (MethodCode)
import Heddle.Http.Names (pattern MethodHead)
import Heddle.Http.Output
import Heddle.Http.Reply
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (borrowBuffer, giveBackBuffer)
import Heddle.Prim.Atomic (Ref, readRef, writeRef)
import Heddle.Prim.Buffer (bufferPtr, bufferSize, keepAlive, newBuffer, withBuffer)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, myThreadId)

-- | What answering a request needs.
data Serving = Serving
  { servingHttp2 :: !Http2,
    servingStream :: !Stream,
    servingWork :: !Workspace,
    servingOutput :: !Output,
    servingHead :: !(Ref KeptHead)
  }

-- | The head of a stream that waits for content, and the thread that runs the stream.
data KeptHead = NoHead | KeptHead !ThreadId !ByteString

-- | The context of its connection.
contextOf :: Serving -> Context
contextOf = http2Context . servingHttp2

-- | The settings of its connection.
settingsOf :: Serving -> Settings
settingsOf = contextSettings . contextOf

-- | A field that libnghttp2 refuses. It does not say which.
forbiddenByHttp2 :: UnsafeHeader
forbiddenByHttp2 = UnsafeHeader (Header "(one that HTTP/2 forbids)" "")

-- | What 'sourcePull' and the others do for a stream that is given up.
--
-- [Blocks]: never.
giveUp :: Serving -> IO ()
giveUp serving = do
  resetStream (http2Session (servingHttp2 serving)) (streamName (servingStream serving)) internalError OwnFault
  kick (servingHttp2 serving)

internalError, cancelled :: Int
internalError = 2
cancelled = 8

-- | What is left of a reply.
data Remaining
  = -- | Nothing.
    NothingLeft
  | -- | This, which the client does not take at once, and what releases it.
    SomeLeft ![Piece] !(IO ())

-- | Send what is left while the workspace is held.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
settle :: Serving -> Remaining -> IO ()
settle serving = \case
  NothingLeft -> pure ()
  SomeLeft pieces release -> sendRest (servingHttp2 serving) (servingStream serving) (counted serving) pieces `finally` release

counted :: Serving -> Int -> IO ()
counted serving n = get (servingWork serving) WorkSent >>= \sent -> set (servingWork serving) WorkSent (sent + n)

-- | Send a reply. The content's length is left in 'WorkSent'; that of what is left is not in it.
--
-- [Throws]: 'ConnectionLost'; what a stream's action throws.
--
-- If it may wait, the head of a stream is kept until there is content, or it is flushed or ends: a
-- stream that throws before can still be replaced by another reply.
send :: Bool -> Serving -> Deadline -> MethodCode -> Reply -> IO Remaining
send mayWait serving now code = \case
  Ready p -> do
    refreshDate (servingOutput serving) now p
    let content = if code == MethodHead then 0 else prebuiltSize p - prebuiltHead p
    withBuffer (prebuiltBuffer p) $ \b ->
      withLines b (prebuiltHead p) $ \h n ->
        left content (PiecePrebuilt p (prebuiltHead p) content) =<< begin serving h n (b `plusPtr` prebuiltHead p) content True
  Whole status headers content -> do
    let bare = statusForbidsContent status
        sent = if bare || code == MethodHead then B.empty else content
    withHeadOf status headers (if bare then Nothing else Just (B.length content)) $ \h n ->
      unsafeUseAsCStringLen sent $ \(p, count) -> begin serving h n (castPtr p) count True >>= left count (PieceBytes sent)
  Copied status given content -> linesHeaders given >>= \headers -> send mayWait serving now code (Whole status headers content)
  Segments status headers segments release -> flip onException release $ do
    let bare = statusForbidsContent status
        total = sum (map segmentLength segments)
        silent = bare || code == MethodHead || total == 0
    _ <- withHeadOf status headers (if bare then Nothing else Just total) $ \h n -> begin serving h n nullPtr 0 silent
    (accepted, rest) <- if silent then pure (0, []) else offer (servingHttp2 serving) (streamName (servingStream serving)) (filter ((> 0) . pieceLength) (map piece segments))
    counted serving accepted
    if null rest then NothingLeft <$ release else pure (SomeLeft rest release)
  Stream status headers body
    | statusForbidsContent status || code == MethodHead -> headAlone status headers Nothing
    | otherwise -> do
      streamHead status headers Nothing
      unsafeUnmask (body (writerOf serving maxBound))
      sendHead serving
      NothingLeft <$ put serving nullPtr 0 True
  BuiltOf status headers n builder -> send mayWait serving now code (StreamOf status headers n (`writerBuild` builder))
  StreamOf status headers n body -> do
    let none = statusForbidsContent status
        announced = if none && status /= status304 then Nothing else Just n
    if none || code == MethodHead
      then headAlone status headers announced
      else do
        streamHead status headers announced
        unsafeUnmask (body (writerOf serving n))
        sent <- get ws WorkSent
        when (sent /= n) (throwIO (WrongLength n sent))
        sendHead serving
        NothingLeft <$ put serving nullPtr 0 True
  Built status headers builder
    | statusForbidsContent status -> headAlone status headers Nothing
    | otherwise -> do
      buffer <- borrowBuffer registration
      let p = bufferPtr buffer
      (n, rest) <- unsafeUnmask (runBuilder builder p (bufferSize buffer))
      ended <- case rest of
        Done -> withHeadOf status headers (Just n) $ \h size -> do
          accepted <- begin serving h size p n True
          if accepted == n
            then pure NothingLeft
            else (\bytes -> SomeLeft [PieceBytes bytes] (pure ())) <$> B.packCStringLen (castPtr (p `plusPtr` accepted), n - accepted)
        _
          | code == MethodHead -> headAlone status headers Nothing
          | otherwise -> do
            headFirst status headers Nothing
            putCounted serving maxBound p n
            unsafeUnmask (continueBuilder serving maxBound rest)
            NothingLeft <$ put serving nullPtr 0 True
      keepAlive buffer
      ended <$ giveBackBuffer registration buffer
  Tunnel _ _ -> pure NothingLeft
  Replied _ -> pure NothingLeft
  where
    ws = servingWork serving
    registration = http2Registration (servingHttp2 serving)
    out = servingOutput serving
    headAlone status headers len = NothingLeft <$ withHeadOf status headers len (\h n -> begin serving h n nullPtr 0 True)
    headFirst status headers len = withHeadOf status headers len (\h n -> void (begin serving h n nullPtr 0 False))
    streamHead status headers len
      | mayWait = do
        set ws WorkSent 0
        set ws WorkUsed 0
        withHeadOf status headers len (\h n -> B.packCStringLen (castPtr h, n)) >>= \kept -> myThreadId >>= \me -> writeRef (servingHead serving) (KeptHead me kept)
      | otherwise = headFirst status headers len
    left count whole accepted = pure $ case whole of
      _ | accepted == count -> NothingLeft
      PieceBytes b -> SomeLeft [PieceBytes (B.drop accepted b)] (pure ())
      PiecePrebuilt p at n -> SomeLeft [PiecePrebuilt p (at + accepted) (n - accepted)] (pure ())
      other -> SomeLeft [other] (pure ())
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
      SegmentBytes bytes -> PieceBytes bytes
      SegmentFile file offset n -> PieceFile file offset n

-- Writes content of at most this many bytes. The actions may be called in any masking state.
writerOf :: Serving -> Int -> Writer
writerOf serving most =
  Writer
    { writerPut = mask_ . putPiece serving most,
      writerBuild = continueBuilder serving most . More 1 . runBuilder,
      writerFlush = mask_ (sendHead serving >> set (servingWork serving) WorkUsed 0 >> kick (servingHttp2 serving)),
      writerTrailers = mask_ . putTrailers serving,
      writerOffer = mask_ . offerPiece serving most,
      writerTryFlush = True <$ mask_ (sendHead serving >> set (servingWork serving) WorkUsed 0 >> kick (servingHttp2 serving))
    }

-- Take what the session has room for. What is left is not kept for later, as "Heddle.Http.H2.Rest" does: the writer has it.
offerPiece :: Serving -> Int -> ByteString -> IO Int
offerPiece serving most bytes = unsafeUseAsCStringLen bytes $ \(p, n) -> do
  sent <- get ws WorkSent
  when (n > most - sent) (throwIO (WrongLength most (sent + n)))
  sendHead serving
  r <- writeOutput (http2Session h2) (streamName (servingStream serving)) (castPtr p) n False
  when (r < 0) (throwIO ConnectionLost)
  set ws WorkSent (sent + r)
  gathered <- get ws WorkUsed
  if r < n || gathered + r >= 16384 then set ws WorkUsed 0 >> kick h2 else set ws WorkUsed (gathered + r)
  pure r
  where
    ws = servingWork serving
    h2 = servingHttp2 serving

putTrailers :: Serving -> [Header] -> IO ()
putTrailers serving given = do
  fields <- trailerLines given
  sendHead serving
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
  sendHead serving
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

-- The head of a stream, if it still waits for content.
sendHead :: Serving -> IO ()
sendHead serving =
  readRef (servingHead serving) >>= \case
    NoHead -> pure ()
    KeptHead _ kept -> do
      unsafeUseAsCStringLen kept $ \(h, n) -> void (begin serving (castPtr h) n nullPtr 0 False)
      -- Not before: if it was refused, so is whatever a stream writes that goes on all the same.
      writeRef (servingHead serving) NoHead

-- | Send the head that still waits for content, if it is that of a stream which this thread runs. For when the thread waits for
-- the request's body, which a client may send only when it has the head. Other threads leave the head to the stream.
--
-- [Blocks]: never.
-- [Throws]: 'UnsafeHeader'; 'ConnectionLost'.
sendHeadHere :: Serving -> IO ()
sendHeadHere serving =
  readRef (servingHead serving) >>= \case
    NoHead -> pure ()
    KeptHead thread _ -> myThreadId >>= \me -> when (me == thread) (sendHead serving)

-- The head, and content, of which so much was accepted.
begin :: Serving -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Bool -> IO Int
begin serving h headBytes p n complete = do
  set ws WorkSent 0
  set ws WorkUsed 0
  atOnce <- get ws WorkBurst
  r <- beginReply (http2Session h2) (streamName (servingStream serving)) h headBytes p n (if not complete then Continues else if atOnce == 1 then EndsAtOnce else Ends)
  case r of
    Malformed -> throwIO forbiddenByHttp2
    _ | r < 0 -> throwIO ConnectionLost
    _ -> do
      set ws WorkSent r
      r <$ set ws WorkPushed 1
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
