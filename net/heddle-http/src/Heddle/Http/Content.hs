{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Content
-- Description : Content on its way to a client of HTTP/1
-- Stability   : hidden; "Heddle.Http.Output" exports what others need
--
-- Gathers bytes in the workspace, frames them, and sends them at least at the settings' pace. A writer that has something else to do than to
-- wait for the client offers its bytes, and learns how many of them were taken.
--
-- Cost: one system call per flush.
-- Owner: the connection's thread.
module Heddle.Http.Content
  ( Output (..),
    newOutput,

    -- * Framing
    Framed (..),
    writerOf,
    putTrailers,
    count,
    chunkBefore,
    chunkAfter,

    -- * Builders
    Filled (..),
    nothingYet,
    fillFrom,
    continueBuilder,
    putHere,

    -- * Bytes
    putBytes,
    putRaw,
    flush,
    flushMore,
    sendPaced,
    sendQuickly,
    lose,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder.Extra (BufferWriter, Next (..), runBuilder)
import Data.ByteString.Builder.Internal (BufferRange (..), BuildStep, fillWithBuildStep)
import Data.ByteString.Builder.Internal qualified as Internal
import Data.ByteString.Internal (createAndTrim')
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Bytes.Write (Write, hex, pokeWrite, writeBound)
import Heddle.Http.Date
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.Framing (wantsTrailers)
import Heddle.Http.Reply
import Heddle.Http.Settings
import Heddle.Http.Workspace
import Heddle.IO.Registration (Interest (..), attempt, closeRegistration)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Ref, writeRef)
import Heddle.Prim.Buffer (keepAlive)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN)
import Heddle.Prim.Exception (mask_, onException, throwIO)
import Heddle.Prim.Poller (eventOut, pollOne)

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

-- | Send without gathering; 'False' when the client is gone.
sendQuickly :: Output -> Ptr Word8 -> Int -> IO Bool
sendQuickly out p n = do
  r <- writeNow (outputTransport out) p n
  if r == n then pure True else sendSlowly out p n (max 0 r)
{-# INLINE sendQuickly #-}

-- | Add bytes to the output; what does not fit is sent.
--
-- [Blocks]: parks.
-- [Throws]: 'ConnectionLost'.
putBytes :: Output -> ByteString -> IO ()
putBytes out b = unsafeUseAsCStringLen b $ \(p, n) -> putRaw out (castPtr p) n

-- | The same for memory.
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

-- | How content is framed.
data Framed
  = Chunks
  | -- | Its end is the connection's.
    ToTheEnd
  | -- | By the length announced.
    Exactly !Int

-- | Writes content so framed. The actions may be called in any masking state.
writerOf :: Output -> Framed -> Writer
writerOf out framed =
  Writer
    { writerPut = mask_ . putPiece out framed,
      writerBuild = continueBuilder out framed . More 1 . runBuilder,
      writerFlush = mask_ (flush out),
      writerTrailers = \_ -> pure (),
      writerOffer = mask_ . offer out framed,
      writerTryFlush = mask_ (tryFlush out)
    }

-- Take what can be taken without waiting: what fits into the output, after what is in it has been sent as far as the socket takes it. Chunks are
-- as large as the output, so that no part of one is left.
offer :: Output -> Framed -> ByteString -> IO Int
offer out framed bytes = go 0
  where
    ws = outputWork out
    total = B.length bytes
    around = case framed of
      Chunks -> chunkBefore + chunkAfter
      _ -> 0
    go done
      | done >= total = pure done
      | otherwise = do
        used <- get ws WorkUsed
        let left = B.drop done bytes
            room = outputSize ws - used - around
            n = min room (B.length left)
        if n == B.length left || n >= 2048
          then putPiece out framed (B.take n left) >> go (done + n)
          else do
            sent <- tryFlush out
            if not sent
              then pure done
              else case framed of
                Chunks -> go done
                -- Nothing is gathered, so that they can go directly.
                _
                  | B.length left > outputSize ws,
                    not (isLayered (outputTransport out)) -> do
                    r <- unsafeUseAsCStringLen left (\(p, k) -> writeNow (outputTransport out) (castPtr p) k)
                    when (r > 0) (count out framed r >> set ws WorkPushed 1)
                    if r == B.length left then pure total else pure (done + max 0 r)
                _ -> go done

-- Send what was gathered as far as that is possible without waiting; whether all of it was.
tryFlush :: Output -> IO Bool
tryFlush out = do
  used <- get ws WorkUsed
  if used == 0
    then pure True
    else
      if isLayered transport
        then do
          -- A layer's write cannot be tried. It is short enough for a socket that has room.
          ready <- attempt (transportRegistration transport) Writable (Deadline 0) $ \fd -> do
            r <- pollOne fd eventOut
            pure (if r == 0 then negate (errnoNumber EAGAIN) else r)
          if ready < 0 then pure False else True <$ flush out
        else do
          r <- writeNow transport (outputPtr ws) used
          when (r > 0) $ do
            set ws WorkPushed 1
            when (r < used) (moveBytes (outputPtr ws) (outputPtr ws `plusPtr` r) (used - r))
            set ws WorkUsed (used - r)
          keepAlive (workOutput ws)
          pure (r == used)
  where
    ws = outputWork out
    transport = outputTransport out

-- | Note the trailers for the end, if the client wants any.
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

-- | Count content that is about to be sent.
count :: Output -> Framed -> Int -> IO ()
count out framed n = do
  sent <- get (outputWork out) WorkSent
  case framed of
    Exactly most | sent + n > most -> throwIO (WrongLength most (sent + n))
    _ -> pure ()
  set (outputWork out) WorkSent (sent + n)

-- | Room for the size of a chunk, and for the end of one. A 'Write' may store beyond its bytes, up to
-- its bound.
chunkBefore, chunkAfter :: Int
chunkBefore = writeBound (chunkSize 0)
chunkAfter = writeBound "\r\n"

chunkSize :: Int -> Write
chunkSize n = hex (fromIntegral n) <> "\r\n"

-- | What a builder has written, and what is left of it.
data Filled = Filled !Int !Next

-- | Nothing written, all of it left.
nothingYet :: Builder -> Filled
nothingYet = Filled 0 . More 1 . runBuilder

-- | Run a builder into memory, as far as it fits. Chunks that the builder wants inserted are copied. The first step is
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

-- | Run a builder into the output, which is sent whenever it is full. The builder runs in the
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

-- | Add bytes that stand in the output's free part, at least 'chunkBefore' bytes after its used part.
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

-- | The same, announcing that more follows at once.
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
