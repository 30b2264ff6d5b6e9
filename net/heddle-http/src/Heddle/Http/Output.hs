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
import Data.ByteString.Builder.Extra (Next (..))
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Foldable (for_)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, minusPtr, nullPtr, plusPtr)
import Heddle.Http.Content
import Heddle.Http.Date
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.Head (MethodCode)
import Heddle.Http.Names (pattern MethodHead)
import Heddle.Http.Reply
import Heddle.Http.SendFile (sendFileAt)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.Prim.Atomic (newRef, readRef, readWord, writeWord)
import Heddle.Prim.Buffer (bufferPtr, newBuffer, withBuffer)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (finally, mask_, throwIO, try, unsafeUnmask)

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
