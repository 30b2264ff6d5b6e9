{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Output
-- Description : Sending replies
-- Stability   : internal, exempt from the version policy
--
-- Small output gathers in the workspace while more requests wait in the input, so that a
-- pipelined burst is answered by one system call; a lone prebuilt reply goes out directly.
-- A first attempt that takes everything costs no clock reading and sets no deadline.
--
-- Cost: one system call per flush.
-- Owner: the connection's thread.
module Heddle.Http.Output
  ( Output (..),
    newOutput,
    Closing (..),
    sendReply,
    sendBeforeFile,
    lose,
    sendReady,
    refreshDate,
    replyHeaders,
    replyLines,
    writeHeadTo,
    headBound,
    flush,
    putBytes,
    sendPaced,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import Data.ByteString.Builder.Internal (BufferRange (..), BuildStep, fillWithBuildStep)
import Data.ByteString.Builder.Internal qualified as Internal
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal (createAndTrim')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toLower)
import Data.Foldable (for_)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Heddle.Bytes.Write (Write, hex, pokeWrite, writeBound)
import Heddle.Http.Date
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.Framing (wantsTrailers)
import Heddle.Http.Head (MethodCode)
import Heddle.Http.Names (pattern MethodHead)
import Heddle.Http.Reply
import Heddle.Http.SendFile (sendFileAt)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (closeRegistration)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Ref, newRef, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer, withBuffer)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception (finally, mask_, onException, throwIO, try, unsafeUnmask)

-- | What sending needs to know.
data Output = Output
  { outputTransport :: !Transport,
    outputWork :: !Workspace,
    outputSettings :: !Settings,
    outputDate :: !DateClock,
    -- | Header lines that all replies on this connection have.
    outputLines :: !ByteString
  }

-- | Where a connection's replies go.
newOutput :: Transport -> Workspace -> Settings -> DateClock -> Output
newOutput transport ws settings date = Output transport ws settings date secureLine
  where
    secureLine
      | isLayered transport && not (B.null strict) = B.concat ["Strict-Transport-Security: ", strict, "\r\n"]
      | otherwise = ""
    strict = settingStrictTransport settings
{-# INLINE newOutput #-}

-- | What the head says about the connection's future.
data Closing
  = -- | Nothing: it stays open, as HTTP/1.1 assumes.
    Stays
  | -- | It stays open; an HTTP/1.0 client does not assume that.
    StaysTold
  | -- | It closes after this reply.
    Closes
  deriving stock (Eq)

closingLine :: Closing -> ByteString
closingLine = \case
  Stays -> ""
  StaysTold -> "Connection: keep-alive\r\n"
  Closes -> "Connection: close\r\n"

-- | Send, or gather, a reply; answers whether the connection can still be kept (a stream
-- to an HTTP/1.0 client ends by closing). The content's length is left in 'WorkSent'.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'; what a stream's action throws.
sendReply :: Output -> Deadline -> Bool -> MethodCode -> Int -> Closing -> Reply -> IO Bool
sendReply !out !now !gather !method !minor !closing = \case
  Ready p -> do
    alive <- sendReady out now gather method closing p
    True <$ unless alive (lose out)
  Whole status headers content -> do
    let n = B.length content
        bare = statusForbidsContent status
    headOut out now status headers (if bare then Nothing else Just n) (closingLine closing)
    wholeContent out gather (method == MethodHead || bare) content
  Copied status given content -> do
    with <- isNoted ws NoteReply
    if with
      then linesHeaders given >>= \headers -> sendReply out now gather method minor closing (Whole status headers content)
      else copied out now gather method closing status given content
  Segments status headers segments release -> flip finally release $ do
    let total = sum (map segmentLength segments)
        bare = statusForbidsContent status
        silent = method == MethodHead || bare
    headOut out now status headers (if bare then Nothing else Just total) (closingLine closing)
    set ws WorkSent 0
    unless silent (for_ segments (sendSegment out))
    unless gather (flush out)
    pure True
  Stream status headers body
    | statusForbidsContent status || method == MethodHead -> headAlone out now gather minor closing status headers Nothing
    | otherwise -> do
      framed <- streamHead out now minor closing status headers
      trailers <- newRef B.empty
      unsafeUnmask (body (writerOf out framed) {writerTrailers = mask_ . putTrailers out trailers})
      readRef trailers >>= endStream out gather framed
  StreamOf status headers n body -> do
    let none = statusForbidsContent status
        announced = if none && status /= status304 then Nothing else Just n
    if none || method == MethodHead
      then headAlone out now gather minor closing status headers announced
      else do
        headOut out now status headers announced (closingLine closing)
        set ws WorkSent 0
        unsafeUnmask (body (writerOf out (Exactly n)))
        sent <- get ws WorkSent
        when (sent /= n) (throwIO (WrongLength n sent))
        unless gather (flush out)
        pure True
  BuiltOf status headers n builder -> do
    let none = statusForbidsContent status
        announced = if none && status /= status304 then Nothing else Just n
    if none || method == MethodHead
      then headAlone out now gather minor closing status headers announced
      else do
        headOut out now status headers announced (closingLine closing)
        set ws WorkSent 0
        used <- get ws WorkUsed
        let room = outputSize ws - used
            start = outputPtr ws `plusPtr` used
        Filled written next <- if room < 64 then pure (nothingYet builder) else unsafeUnmask (fillFrom start room builder)
        count out (Exactly n) written
        set ws WorkUsed (used + written)
        case next of
          Done -> pure ()
          _ -> unsafeUnmask (continueBuilder out (Exactly n) next)
        sent <- get ws WorkSent
        when (sent /= n) (throwIO (WrongLength n sent))
        unless gather (flush out)
        pure True
  Built status headers builder
    | statusForbidsContent status -> headAlone out now gather minor closing status headers Nothing
    | otherwise -> do
      set ws WorkSent 0
      -- The head is written when the length is known, into this space before the content.
      with <- replyHeaders out headers
      let before = headRoom (settingServerName (outputSettings out)) status with + B.length (outputLines out) + 60 + chunkBefore
      gathered <- get ws WorkUsed
      when (gathered > 0 && outputSize ws - gathered < before + 1024) (flush out)
      used <- get ws WorkUsed
      let room = outputSize ws - used - before - chunkAfter
          start = outputPtr ws `plusPtr` (used + before)
      Filled n after' <- if room < 64 then pure (nothingYet builder) else unsafeUnmask (fillFrom start room builder)
      case after' of
        Done -> do
          headOut out now status headers (Just n) (closingLine closing)
          unless (method == MethodHead) (putHere out (Exactly n) start n)
          unless gather (flush out)
          pure True
        _ | method == MethodHead -> headAlone out now gather minor closing status headers Nothing
        _ -> do
          framed <- streamHead out now minor closing status headers
          putHere out framed start n
          unsafeUnmask (continueBuilder out framed after')
          endStream out gather framed ""
  -- The engine runs the action after it has given the workspace back.
  Tunnel h _ -> do
    set ws WorkSent 0
    for_ h $ \(status, headers) ->
      headOut out now status headers Nothing (if status == status101 then "Connection: Upgrade\r\n" else "")
    flush out
    pure False
  Replied _ -> pure True
  where
    ws = outputWork out

-- | What comes before the part of a file with which a reply ends: its head, announcing this length, and other segments.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
sendBeforeFile :: Output -> Deadline -> Closing -> Status -> [Header] -> Int -> [Segment] -> IO ()
sendBeforeFile out now closing status headers total before = do
  headOut out now status headers (Just total) (closingLine closing)
  set (outputWork out) WorkSent 0
  for_ before (sendSegment out)
  flushMore out

sendSegment :: Output -> Segment -> IO ()
sendSegment out segment = do
  done <- case segment of
    SegmentBytes b -> B.length b <$ putBytes out b
    SegmentFile file offset n -> flushMore out >> sendFileAt (settingReplyPace (outputSettings out)) (outputTransport out) file offset n
  sent <- get (outputWork out) WorkSent
  set (outputWork out) WorkSent (sent + done)
  -- Short: the file shrank. Its length was announced, so the connection must close.
  when (done < segmentLength segment) (lose out)

-- The functions below are apart from 'sendReply', which would allocate their closures for every reply.

-- Content that follows its head, unless it is left out.
wholeContent :: Output -> Bool -> Bool -> ByteString -> IO Bool
wholeContent out gather silent content = do
  if silent
    then set (outputWork out) WorkSent 0
    else set (outputWork out) WorkSent (B.length content) >> putBytes out content
  unless gather (flush out)
  pure True
{-# NOINLINE wholeContent #-}

-- A head whose lines are written in place, and its content.
copied :: Output -> Deadline -> Bool -> MethodCode -> Closing -> Status -> Lines -> ByteString -> IO Bool
copied out now gather method closing status given content = do
  let !content' = if bare then Nothing else Just (B.length content)
  placeHead out now (headBound out status [] extra + linesRoom given) $ \p ->
    writeHeadWith out p status (linesDate given) (linesServer given) (linesWrite given) content' extra
  wholeContent out gather (method == MethodHead || bare) content
  where
    !bare = statusForbidsContent status
    !extra = closingLine closing
{-# NOINLINE copied #-}

-- A head without content.
headAlone :: Output -> Deadline -> Bool -> Int -> Closing -> Status -> [Header] -> Maybe Int -> IO Bool
headAlone out now gather minor closing status headers len = do
  let chunkedLine
        | isJust len || minor == 0 || statusForbidsContent status = ""
        | otherwise = "Transfer-Encoding: chunked\r\n"
  headOut out now status headers len (chunkedLine <> closingLine closing)
  set (outputWork out) WorkSent 0
  unless gather (flush out)
  pure True
{-# NOINLINE headAlone #-}

-- The head of content whose length is unknown.
streamHead :: Output -> Deadline -> Int -> Closing -> Status -> [Header] -> IO Framed
streamHead out now minor closing status headers
  | minor == 0 = ToTheEnd <$ lengthless (closingLine Closes)
  | otherwise = Chunks <$ lengthless ("Transfer-Encoding: chunked\r\n" <> closingLine closing)
  where
    lengthless extra = headOut out now status headers Nothing extra >> set (outputWork out) WorkSent 0
{-# NOINLINE streamHead #-}

-- The end of such content; whether the connection can be kept.
endStream :: Output -> Bool -> Framed -> ByteString -> IO Bool
endStream out gather framed trailers = case framed of
  Chunks -> True <$ (putBytes out "0\r\n" >> putBytes out trailers >> putBytes out "\r\n" >> unless gather (flush out))
  _ -> False <$ flush out
{-# NOINLINE endStream #-}

-- | Send, or gather, a prebuilt reply; 'False' when the client is gone.
--
-- [Cost]: one system call; nothing allocated.
-- [Blocks]: parks.
sendReady :: Output -> Deadline -> Bool -> MethodCode -> Closing -> Prebuilt -> IO Bool
sendReady out now gather method closing p = do
  refreshDate out now p
  used <- get ws WorkUsed
  let size = if method == MethodHead then prebuiltHead p else prebuiltSize p
  set ws WorkSent (size - prebuiltHead p)
  with <- isNoted ws NoteReply
  let !asBuilt = bare && not with
  if asBuilt && not gather && used == 0
    then withBuffer (prebuiltBuffer p) $ \b -> sendQuickly out b size
    else do
      r <- try (slowly asBuilt size)
      pure (either (\ConnectionLost -> False) (\() -> True) r)
  where
    ws = outputWork out
    -- The head as it was built says everything.
    bare = closing == Stays && B.null (outputLines out)
    slowly asBuilt size = do
      withBuffer (prebuiltBuffer p) $ \b ->
        if asBuilt
          then putRaw out b size
          else do
            -- The connection's lines go before the empty line that ends the head.
            putRaw out b (prebuiltHead p - 2)
            putBytes out (closingLine closing)
            replyLines out >>= putBytes out
            putRaw out (b `plusPtr` (prebuiltHead p - 2)) (size - prebuiltHead p + 2)
      unless gather (flush out)
{-# INLINE sendReady #-}

-- | Make a prebuilt reply show the current second.
--
-- [Cost]: two comparisons; a copy of the date once a second.
refreshDate :: Output -> Deadline -> Prebuilt -> IO ()
refreshDate out now p = do
  second <- currentSecond (outputDate out) now
  shown <- readWord (prebuiltShows p) 0
  when (shown /= second) $ do
    text <- dateText (outputDate out)
    -- One memcpy in an unsafe call: no thread of this capability sees half of it.
    _ <- withBuffer (prebuiltBuffer p) $ \b -> pokeBytes (b `plusPtr` prebuiltDateAt p) text
    writeWord (prebuiltShows p) 0 second
{-# INLINE refreshDate #-}

-- Send without gathering; 'False' when the client is gone.
sendQuickly :: Output -> Ptr Word8 -> Int -> IO Bool
sendQuickly out p n = do
  r <- writeNow (outputTransport out) p n
  if r == n then pure True else sendSlowly out p n (max 0 r)
{-# INLINE sendQuickly #-}

headOut :: Output -> Deadline -> Status -> [Header] -> Maybe Int -> ByteString -> IO ()
headOut out now status given len extra = do
  headers <- replyHeaders out given
  placeHead out now (headBound out status headers extra) (\p -> writeHeadTo out p status headers len extra)

-- Add a head, which takes at most this many bytes.
placeHead :: Output -> Deadline -> Int -> (Ptr Word8 -> IO (Ptr Word8)) -> IO ()
placeHead out now room writeTo = do
  _ <- currentSecond (outputDate out) now
  used <- get ws WorkUsed
  when (room > outputSize ws - used) (flush out)
  -- There is one call of the action, which would otherwise be a closure for every reply.
  large <- if room > outputSize ws then Just <$> newBuffer room else pure Nothing
  start <- get ws WorkUsed
  end <- writeTo (maybe (outputPtr ws `plusPtr` start) bufferPtr large)
  case large of
    Nothing -> set ws WorkUsed (end `minusPtr` outputPtr ws)
    Just buffer -> withBuffer buffer (\p -> sendPaced out p (end `minusPtr` p))
  where
    ws = outputWork out
{-# INLINE placeHead #-}

-- | The headers of a reply, with those that its request asked for ('NoteReply').
--
-- [Cost]: a load, if there are none.
replyHeaders :: Output -> [Header] -> IO [Header]
replyHeaders out given = do
  with <- isNoted ws NoteReply
  if not with
    then pure given
    else do
      more <- readRef (workHeaders ws)
      let lower = C.map toLower
      pure ([one | one@(Header name _) <- given, lower name `notElem` map (lower . fst) more] ++ map (uncurry Header) more)
  where
    ws = outputWork out
{-# INLINE replyHeaders #-}

-- | The lines that a prebuilt reply's head lacks: those of the connection, and those that its request asked for.
replyLines :: Output -> IO ByteString
replyLines out = do
  with <- isNoted ws NoteReply
  if not with
    then pure (outputLines out)
    else (\more -> B.concat (outputLines out : concat [[name, ": ", value, "\r\n"] | (name, value) <- more])) <$> readRef (workHeaders ws)
  where
    ws = outputWork out

-- | How much room 'writeHeadTo' may need.
--
-- [Units]: bytes.
headBound :: Output -> Status -> [Header] -> ByteString -> Int
headBound out status headers extra =
  headRoom (settingServerName (outputSettings out)) status headers + B.length extra + B.length (outputLines out)

-- | Write a head with the date's text as it is, and return the address after it.
writeHeadTo :: Output -> Ptr Word8 -> Status -> [Header] -> Maybe Int -> ByteString -> IO (Ptr Word8)
writeHeadTo out p status headers len extra = pokeHead p server status headers len lines' >>= dated out
  where
    !server = settingServerName (outputSettings out)
    !lines' = connectionLines out extra

-- The same with lines that an action writes; see 'pokeHeadWith'.
writeHeadWith :: Output -> Ptr Word8 -> Status -> Bool -> Bool -> (Ptr Word8 -> IO (Ptr Word8)) -> Maybe Int -> ByteString -> IO (Ptr Word8)
writeHeadWith out p status hasDate hasServer fields len extra = pokeHeadWith p server status hasDate hasServer fields len lines' >>= dated out
  where
    !server = settingServerName (outputSettings out)
    !lines' = connectionLines out extra

-- These lines, and those that all replies on the connection have.
connectionLines :: Output -> ByteString -> ByteString
connectionLines out extra = if B.null (outputLines out) then extra else extra <> outputLines out

-- Write the date where a head has left room for it; the head's end.
dated :: Output -> (Ptr Word8, Ptr Word8) -> IO (Ptr Word8)
dated out (dateAt, end) = do
  unless (dateAt == nullPtr) (void (dateText (outputDate out) >>= pokeBytes dateAt))
  pure end

-- | Add bytes to the output; what does not fit is sent.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
putBytes :: Output -> ByteString -> IO ()
putBytes out b = unsafeUseAsCStringLen b $ \(p, n) -> putRaw out (castPtr p) n

putRaw :: Output -> Ptr Word8 -> Int -> IO ()
putRaw out p n = do
  used <- get ws WorkUsed
  if n <= outputSize ws - used
    then do
      copyBytes (outputPtr ws `plusPtr` used) p n
      set ws WorkUsed (used + n)
    else do
      when (used > 0) (flushMore out)
      if n <= outputSize ws
        then copyBytes (outputPtr ws) p n >> set ws WorkUsed n
        else sendPaced out p n
  where
    ws = outputWork out

putChunk :: Output -> ByteString -> IO ()
putChunk out b = unless (B.null b) $ do
  let ws = outputWork out
      size = chunkSize (B.length b)
  used <- get ws WorkUsed
  when (outputSize ws - used < writeBound size) (flushMore out)
  at <- get ws WorkUsed
  end <- pokeWrite size (outputPtr ws `plusPtr` at)
  set ws WorkUsed (end `minusPtr` outputPtr ws)
  putBytes out b
  putBytes out "\r\n"

-- How content is framed.
data Framed
  = Chunks
  | -- | Its end is the connection's.
    ToTheEnd
  | -- | By the length announced.
    Exactly !Int

-- Writes content so framed. The actions may be called in any masking state.
writerOf :: Output -> Framed -> Writer
writerOf out framed =
  Writer
    { writerPut = mask_ . putPiece out framed,
      writerBuild = continueBuilder out framed . More 1 . runBuilder,
      writerFlush = mask_ (flush out),
      writerTrailers = \_ -> pure ()
    }

-- Note the trailers for the end, if the client wants any.
putTrailers :: Output -> Ref ByteString -> [Header] -> IO ()
putTrailers out trailers given = do
  fields <- trailerLines given
  base <- get (outputWork out) WorkBase
  wanted <- wantsTrailers (inputPtr (outputWork out) `plusPtr` base) (workHead (outputWork out))
  when wanted (writeRef trailers fields)

putPiece :: Output -> Framed -> ByteString -> IO ()
putPiece out framed b = do
  count out framed (B.length b)
  case framed of
    Chunks -> putChunk out b
    _ -> putBytes out b

-- Count content that is about to be sent.
count :: Output -> Framed -> Int -> IO ()
count out framed n = do
  sent <- get (outputWork out) WorkSent
  case framed of
    Exactly most | sent + n > most -> throwIO (WrongLength most (sent + n))
    _ -> pure ()
  set (outputWork out) WorkSent (sent + n)

-- Room for the size of a chunk, and for the end of one. A 'Write' may store beyond its bytes, up to
-- its bound.
chunkBefore, chunkAfter :: Int
chunkBefore = writeBound (chunkSize 0)
chunkAfter = writeBound "\r\n"

chunkSize :: Int -> Write
chunkSize n = hex (fromIntegral n) <> "\r\n"

-- What a builder has written, and what is left of it.
data Filled = Filled !Int !Next

nothingYet :: Builder -> Filled
nothingYet = Filled 0 . More 1 . runBuilder

-- Run a builder into memory, as far as it fits. Chunks that the builder wants inserted are copied. The first step is
-- taken here, because most builders need only one and 'runBuilder' allocates for each.
fillFrom :: Ptr Word8 -> Int -> Builder -> IO Filled
fillFrom start room builder = fillWithBuildStep (Internal.runBuilder builder) done full chunk (BufferRange start end)
  where
    !end = start `plusPtr` room
    done at () = pure (Filled (at `minusPtr` start) Done)
    full at least step = pure (Filled (at `minusPtr` start) (More least (stepWriter step)))
    chunk at b step = go (at `minusPtr` start) (Chunk b (stepWriter step))
    go !n = \case
      Chunk b step
        | n + B.length b <= room -> do
          _ <- pokeBytes (start `plusPtr` n) b
          (k, next) <- step (start `plusPtr` (n + B.length b)) (room - n - B.length b)
          go (n + B.length b + k) next
      next -> pure (Filled n next)
{-# NOINLINE fillFrom #-}

-- The rest of a builder, as 'runBuilder' has the whole.
stepWriter :: BuildStep () -> BufferWriter
stepWriter step p n = fillWithBuildStep step done full chunk (BufferRange p (p `plusPtr` n))
  where
    done at () = pure (at `minusPtr` p, Done)
    full at least next = pure (at `minusPtr` p, More least (stepWriter next))
    chunk at b next = pure (at `minusPtr` p, Chunk b (stepWriter next))

-- Run a builder into the output, which is sent whenever it is full. The builder runs in the
-- caller's masking state; until its bytes are counted in, an interruption loses only them.
continueBuilder :: Output -> Framed -> Next -> IO ()
continueBuilder out framed = \case
  Done -> pure ()
  Chunk b step -> mask_ (putPiece out framed b) >> continueBuilder out framed (More 1 step)
  More least step
    | least > outputSize ws - chunkBefore - chunkAfter -> do
      (b, next) <- createAndTrim' least (\p -> (\(n, next) -> (0, n, next)) <$> step p least)
      mask_ (putPiece out framed b)
      continueBuilder out framed next
    | otherwise -> do
      full <- (\used -> outputSize ws - used - chunkBefore - chunkAfter < max 64 least) <$> get ws WorkUsed
      when full (mask_ (flushMore out))
      used <- get ws WorkUsed
      let start = outputPtr ws `plusPtr` (used + chunkBefore)
      (n, next) <- step start (outputSize ws - used - chunkBefore - chunkAfter)
      mask_ (putHere out framed start n)
      continueBuilder out framed next
  where
    ws = outputWork out

-- Add bytes that stand in the output's free part, at least 'chunkBefore' bytes after its used part.
putHere :: Output -> Framed -> Ptr Word8 -> Int -> IO ()
putHere out framed start n = when (n > 0) $ do
  count out framed n
  used <- get ws WorkUsed
  let at = outputPtr ws `plusPtr` used
  case framed of
    Chunks -> do
      content <- pokeWrite (chunkSize n) at
      moveBytes content start n
      end <- pokeWrite "\r\n" (content `plusPtr` n)
      set ws WorkUsed (end `minusPtr` outputPtr ws)
    _ -> moveBytes at start n >> set ws WorkUsed (used + n)
  where
    ws = outputWork out

-- | Send what was gathered.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
flush :: Output -> IO ()
flush out = do
  used <- get (outputWork out) WorkUsed
  when (used > 0) $ do
    set (outputWork out) WorkUsed 0
    sendPaced out (outputPtr (outputWork out)) used
    keepAlive (workOutput (outputWork out))
{-# INLINE flush #-}

-- The same, announcing that more follows at once.
flushMore :: Output -> IO ()
flushMore out = do
  used <- get ws WorkUsed
  when (used > 0) $ do
    set ws WorkUsed 0
    set ws WorkPushed 1
    deadline <- paceDeadline (settingReplyPace (outputSettings out)) <$> monotonicNow <*> pure 0
    r <- writeMoreUntil (outputTransport out) (outputPtr ws) used deadline `onException` abandon out
    keepAlive (workOutput ws)
    when (r < 0) (lose out)
  where
    ws = outputWork out

-- | Send bytes at least at the settings' pace.
--
-- [Cost]: one system call when the socket has room.
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
sendPaced :: Output -> Ptr Word8 -> Int -> IO ()
sendPaced out p n = do
  set (outputWork out) WorkPushed 1
  alive <- sendQuickly out p n
  unless alive (lose out)

-- | An unknown part of the output is lost, so nothing may follow it on this connection.
--
-- [Throws]: 'ConnectionLost'.
lose :: Output -> IO a
lose out = abandon out >> throwIO ConnectionLost

-- Closes the socket; the connection's thread releases the layer when it ends.
abandon :: Output -> IO ()
abandon = void . closeRegistration . transportRegistration . outputTransport

-- The socket was full: send the rest at least at the settings' pace, window by window.
sendSlowly :: Output -> Ptr Word8 -> Int -> Int -> IO Bool
sendSlowly out p n sent = (monotonicNow >>= \began -> go sent began 0) `onException` abandon out
  where
    pace = settingReplyPace (outputSettings out)
    go done began moved
      | done >= n = pure True
      | otherwise = do
        r <- writeSomeUntil (outputTransport out) (p `plusPtr` done) (n - done) (paceDeadline pace began moved)
        if r < 0
          then pure False
          else do
            t <- monotonicNow
            if paceKept pace began (moved + r) t
              then go (done + r) t 0
              else go (done + r) began (moved + r)
{-# NOINLINE sendSlowly #-}
