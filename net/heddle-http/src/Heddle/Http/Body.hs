{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Body
-- Description : Reading a request's body
-- Stability   : stable
--
-- One step gives the next piece where it lies, whatever frames the body; all else is made of it.
--
-- Cost: a system call for each piece that has not been received; a 'ByteString' is a copy.
-- Owner: the connection's thread.
module Heddle.Http.Body
  ( readBody,
    readWholeBody,
    bodyLeft,
    limitBodyTo,

    -- * For the engine
    withBodyPiece,
    bodyUnread,
    discardBody,
    Discarded (..),
    discardNow,
    startBody,
    failing,
    bodyWindow,
    bodyWaited,
    noteShort,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as BI (create)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http.Chunked
import Heddle.Http.Framing (FramingResult (..))
import Heddle.Http.Head (headLength, shiftHeaders)
import Heddle.Http.Limits (Limits (..))
import Heddle.Http.RejectReason
import Heddle.Http.Request
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (forgetHangUp, hungUp, pattern TimedOutCode)
import Heddle.IO.Transport (Transport, holdsInput, readNow, readUntil)
import Heddle.Prim.Atomic (readRef)
import Heddle.Prim.Clock (Deadline (..), after, milliseconds, monotonicNow, never)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (throwIO)

-- | Prepare the workspace for a body so framed.
startBody :: Settings -> Workspace -> FramingResult -> Bool -> IO ()
startBody settings ws framing continue = do
  set ws WorkLeft $ case framing of
    Sized n -> n
    ChunkedBody -> -1
    _ -> 0
  set ws WorkContinue (if continue then 1 else 0)
  set ws WorkReplied 0
  set ws WorkCloses 0
  set ws WorkBodyBegan 0
  set ws WorkBodyTotal 0
  case framing of
    ChunkedBody -> resetChunkState (settingLimits settings) (workChunks ws)
    _ -> pure ()
{-# INLINE startBody #-}

-- | The next piece of the body; empty at its end.
--
-- [Cost]: a copy of the piece.
-- [Blocks]: parks.
-- [Throws]: 'BodyError'.
readBody :: Request -> IO ByteString
readBody request = bodyStep request $ \p n -> BI.create n (\q -> copyBytes q p n)

-- | Give the next piece of the body to an action, without a copy: its address and length. The answer is that of the action,
-- or 'Nothing' at the body's end.
--
-- [Cost]: none but the system call, when nothing of it has been received.
-- [Blocks]: parks.
-- [Throws]: 'BodyError'.
withBodyPiece :: Request -> (Ptr Word8 -> Int -> IO a) -> IO (Maybe a)
withBodyPiece request use = bodyStep request (\p n -> Just <$> use p n)
{-# INLINE withBodyPiece #-}

-- | The whole body; 'BodyRejected' with 413 if it is longer than this many bytes.
--
-- [Blocks]: parks.
-- [Throws]: 'BodyError'.
readWholeBody :: Request -> Int -> IO ByteString
readWholeBody request most = go 0 []
  where
    go n pieces
      | n > most = throwIO (BodyRejected status413 BodyTooLarge)
      | otherwise = do
        piece <- readBody request
        if B.null piece then pure (B.concat (reverse pieces)) else go (n + B.length piece) (piece : pieces)

-- | How many bytes of the body have not been read; 'Nothing' when that is unknown, in a body without
-- Content-Length before its end.
--
-- [Cost]: one load.
bodyLeft :: Request -> IO (Maybe Int)
bodyLeft request = known <$> get (requestWork request) WorkLeft
  where
    known left
      | left >= 0 = Just left
      | left <= -3 = Just (-3 - left)
      | otherwise = Nothing

-- | Let the body be at most this many bytes, for a request whose limit is lower than 'Heddle.Http.limitBody', which stays the limit
-- of what is higher. A body that announces more is refused at once, one that turns out longer when it is read.
--
-- [Cost]: three loads and two stores.
-- [Blocks]: never.
-- [Throws]: 'BodyError', 413.
-- [Threads]: the handler's, before it reads the body or replies.
limitBodyTo :: Request -> Int -> IO ()
limitBodyTo request given = do
  left <- bodyLeft request
  when (maybe False (> given) left) $ failing request (BodyRejected status413 BodyTooLarge)
  limitChunks (workChunks ws) most
  set ws WorkBodyMost most
  where
    ws = requestWork request
    most = min given (limitBody (settingLimits (requestSettings request)))

-- | Whether a part of the body has not been read.
bodyUnread :: Request -> IO Bool
bodyUnread request = (/= 0) <$> get (requestWork request) WorkLeft
{-# INLINE bodyUnread #-}

-- | Read and discard the rest, at most this many bytes; 'True' when that reached the end. A
-- client that still waits for 100 Continue sends nothing, and after a failure was thrown the
-- rest cannot be read: 'False' in both cases.
--
-- [Throws]: 'BodyError'.
discardBody :: Request -> Int -> IO Bool
discardBody request most = do
  owed <- get (requestWork request) WorkContinue
  left <- get (requestWork request) WorkLeft
  if left == 0 then pure True else if owed /= 0 || left > most then pure False else go most
  where
    go room
      | room < 0 = pure False
      | otherwise = do
        n <- bodyStep request (\_ n -> pure n)
        if n == 0 then pure True else go (room - n)

-- | How far 'discardNow' has come.
data Discarded
  = -- | The body's end was reached.
    DiscardedAll
  | -- | There is more than may be discarded.
    DiscardedEnough
  | -- | More must come by this time. The number is how many bytes may still be discarded.
    DiscardedSome !Int !Deadline

-- | 'discardBody' as far as it goes without waiting for the client. When more has come, call it again with the number of bytes and the
-- deadline that it gave; the first deadline is 'never'. Gathered output is sent before there is something to wait for.
--
-- [Cost]: a system call for each piece; none after a receive that took all there was.
-- [Blocks]: never, unless gathered output must be sent.
-- [Throws]: 'BodyError'.
discardNow :: Request -> Int -> Deadline -> IO Discarded
discardNow request most until' = do
  owed <- get ws WorkContinue
  left <- get ws WorkLeft
  start <- get ws WorkStart
  end <- get ws WorkEnd
  if
      | left == 0 -> pure DiscardedAll
      | owed /= 0 || left > most -> pure DiscardedEnough
      -- Most are there as a whole, and cost no closure.
      | left > 0 && left <= end - start -> DiscardedAll <$ (set ws WorkStart (start + left) >> set ws WorkLeft 0)
      | otherwise -> discardPieces request most until'
  where
    ws = requestWork request

discardPieces :: Request -> Int -> Deadline -> IO Discarded
discardPieces request most until' = get ws WorkBodyGot >>= \before -> go before most
  where
    ws = requestWork request
    go before room
      | room < 0 = pure DiscardedEnough
      | otherwise =
        bodyStepOr (\further -> fillNow request >>= \filled -> if filled then further else pure (-1)) request (\_ n -> pure n) >>= \case
          0 -> pure DiscardedAll
          -1 -> do
            requestFlush request
            got <- get ws WorkBodyGot
            -- A wait that brought nothing continues with its deadline.
            (now, deadline) <- if got == before && until' /= never then (\now -> (now, until')) <$> monotonicNow else bodyWindow (settingBodyPace (requestSettings request)) ws
            if now >= deadline then failing request BodyTooSlow else pure (DiscardedSome room deadline)
          n -> go before (room - n)
{-# NOINLINE discardPieces #-}

class Piece a where
  noPiece :: a

instance Piece ByteString where
  noPiece = B.empty

instance Piece (Maybe a) where
  noPiece = Nothing

instance Piece Int where
  noPiece = 0

bodyStep :: Piece a => Request -> (Ptr Word8 -> Int -> IO a) -> IO a
bodyStep request = bodyStepOr (fill request >>) request

-- The same with an action that receives more and goes on, or does something else.
bodyStepOr :: Piece a => (IO a -> IO a) -> Request -> (Ptr Word8 -> Int -> IO a) -> IO a
bodyStepOr filling request use = do
  left <- get ws WorkLeft
  case left of
    0 -> pure noPiece
    -1 -> chunked
    _
      | left > 0 -> sized left
      | otherwise -> streamed left
  where
    ws = requestWork request
    -- A stream of HTTP/2 counts where it receives.
    count n = get ws WorkBodyTotal >>= \total -> set ws WorkBodyTotal (total + n)
    sized left = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      if start == end
        then filling (sized left)
        else do
          let n = min left (end - start)
          set ws WorkStart (start + n)
          set ws WorkLeft (left - n)
          count n
          use (inputPtr ws `plusPtr` start) n
    chunked = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      chunkNext (workChunks ws) (inputPtr ws `plusPtr` start) (end - start) >>= \case
        ChunkMore used -> set ws WorkStart (start + used) >> filling chunked
        ChunkData offset n -> do
          set ws WorkStart (start + offset + n)
          count n
          use (inputPtr ws `plusPtr` (start + offset)) n
        ChunkEnd used -> do
          set ws WorkStart (start + used)
          set ws WorkLeft 0
          pure noPiece
        ChunkReject status reason -> failing request (BodyRejected status reason)
    streamed left = do
      makeRoom ws
      end <- get ws WorkEnd
      source <- readRef (workSource ws)
      n <- case source of
        NoSource -> pure 0
        Source pull _ _ -> pull (inputPtr ws `plusPtr` end) (inputSize ws - end)
      set ws WorkStart (end + n)
      set ws WorkEnd (end + n)
      set ws WorkLeft (if n == 0 then 0 else if left == -2 then -2 else left + n)
      if n > 0
        then use (inputPtr ws `plusPtr` end) n
        else -- Less than was announced.
          if left < -3 then failing request BodyCutShort else pure noPiece
{-# INLINE bodyStepOr #-}

-- | Throw a failure to read the body. The mark stops the engine from answering the error again if the
-- handler catches it.
failing :: Request -> BodyError -> IO a
failing request e = set (requestWork request) WorkContinue 2 >> throwIO e

-- | Before a wait for more of the body: the time now, and the time by which something must come.
--
-- Only time spent waiting counts against the client: the window moves by what the handler has taken since the last wait, so
-- a handler that takes long over each piece does not make its client look slow.
bodyWindow :: Pace -> Workspace -> IO (Deadline, Deadline)
bodyWindow pace ws = do
  Deadline now <- monotonicNow
  earlier <- get ws WorkBodyBegan
  ended <- get ws WorkBodyLast
  before <- get ws WorkBodyGot
  let began = earlier + (now - ended)
  -- A new window begins whenever the last one kept the pace, so that a fast start does not
  -- excuse a later stall.
  if earlier == 0 || paceKept pace (Deadline began) before (Deadline now)
    then set ws WorkBodyBegan now >> set ws WorkBodyGot 0
    else set ws WorkBodyBegan began
  since <- get ws WorkBodyBegan
  got <- get ws WorkBodyGot
  pure (Deadline now, paceDeadline pace (Deadline since) got)

-- | After such a wait.
bodyWaited :: Workspace -> IO ()
bodyWaited ws = monotonicNow >>= \(Deadline now) -> set ws WorkBodyLast now

-- Receive more of the body, into the buffer after the head.
fill :: Request -> IO ()
fill request = do
  requestFlush request
  (now, deadline) <- bodyWindow (settingBodyPace (requestSettings request)) ws
  makeRoom ws
  end <- get ws WorkEnd
  got <- get ws WorkBodyGot
  let room = inputSize ws - end
      soon = if requestPolls request then min deadline (after (milliseconds 100) now) else deadline
  r <- readUntil (requestTransport request) (inputPtr ws `plusPtr` end) room soon
  bodyWaited ws
  if r > 0
    then do
      set ws WorkEnd (end + r)
      set ws WorkBodyGot (got + r)
      noteShort (requestTransport request) ws r room
    else if r == TimedOutCode && soon < deadline then fill request else failing request (if r == TimedOutCode then BodyTooSlow else BodyCutShort)
  where
    ws = requestWork request

-- Receive more of the body if there is any; 'False' when it must be waited for.
fillNow :: Request -> IO Bool
fillNow request = do
  short <- get ws WorkShort
  hung <- hungUp (requestConn request)
  if short == 1 && not hung then pure False else makeRoom ws >> receive
  where
    ws = requestWork request
    receive = do
      end <- get ws WorkEnd
      let room = inputSize ws - end
      r <- readNow (requestTransport request) (inputPtr ws `plusPtr` end) room
      if r > 0
        then do
          set ws WorkEnd (end + r)
          got <- get ws WorkBodyGot
          set ws WorkBodyGot (got + r)
          noteShort (requestTransport request) ws r room
          pure True
        else case Errno (negate r) of
          EINTR -> receive
          -- Hung up, yet nothing to read: the next wait must not return at once.
          EAGAIN -> False <$ forgetHangUp (requestConn request)
          _ -> failing request BodyCutShort

-- | @noteShort transport workspace count room@ notes, after a read of @count@ bytes, whether it took
-- all that there was: then waiting for the socket misses nothing.
noteShort :: Transport -> Workspace -> Int -> Int -> IO ()
noteShort transport ws count room = do
  more <- if count < room then holdsInput transport else pure True
  set ws WorkShort (if more then 0 else 1)
{-# INLINE noteShort #-}

-- When little room is left, move the head to the front and the unread input after it.
makeRoom :: Workspace -> IO ()
makeRoom ws = do
  base <- get ws WorkBase
  headBytes <- headLength (workHead ws)
  start <- get ws WorkStart
  end <- get ws WorkEnd
  let size = inputSize ws
      p = inputPtr ws
  if start == end && size - (base + headBytes) >= 4096
    then set ws WorkStart (base + headBytes) >> set ws WorkEnd (base + headBytes)
    else when (size - end < 1024) $ do
      when (base > 0) $ do
        moveBytes p (p `plusPtr` base) headBytes
        added <- addedBytes ws
        when (added > 0) (shiftHeaders (workHead ws) (size - base) base)
      moveBytes (p `plusPtr` headBytes) (p `plusPtr` start) (end - start)
      set ws WorkBase 0
      set ws WorkStart headBytes
      set ws WorkEnd (headBytes + end - start)
