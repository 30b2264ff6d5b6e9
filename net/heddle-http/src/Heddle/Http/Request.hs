{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Request
-- Description : A request, as its handler sees it
-- Stability   : stable
--
-- A 'Request' is a view of the connection's workspace: it is valid until the handler
-- returns (or, in a stream, until the stream's action does), and what is taken out of it is
-- copied.
--
-- Cost: reading a field is a load; a 'ByteString' is a copy.
-- Owner: the connection's thread.
module Heddle.Http.Request
  ( -- * Requests
    Request (..),

    -- ** The request line
    method,
    methodBytes,
    target,
    rawPath,
    query,
    form,
    host,
    httpMajor,
    httpMinor,

    -- ** Headers
    header,
    headerNamed,
    headers,
    setRequestHeader,
    removeRequestHeader,

    -- ** The connection
    peer,
    isSecure,
    secureFacts,
    requestConn,

    -- * Bodies
    readBody,
    readWholeBody,
    bodyLeft,
    unpaced,
    askForBody,
    BodyError (..),

    -- * Replying early
    replyNow,
    replyBegun,
    replyInterim,
    declineBody,
    closeAfterReply,
    replyWithHeader,
    noteUpstreamTime,
    upstreamTime,

    -- * For the engine
    withHead,
    bodyUnread,
    withBodyPiece,
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
import Data.Bits (unsafeShiftL, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (create)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toLower)
import Data.Foldable (for_)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Chunked
import Heddle.Http.Exception (HttpException (..), fromHttp)
import Heddle.Http.Framing (FramingResult (..))
import Heddle.Http.Head hiding (requestMethod)
import Heddle.Http.Head qualified as Head
import Heddle.Http.Names (recogniseHeader)
import Heddle.Http.RejectReason
import Heddle.Http.Reply (Header (..), Reply, unsafeHeader)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO.Registration (Registration, forgetHangUp, hungUp, registrationPeer, pattern TimedOutCode)
import Heddle.IO.Transport (LayerFacts, Transport (..), holdsInput, isLayered, layerFacts, readNow, readUntil, transportRegistration)
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Clock (Deadline (..), Nanos (..), after, milliseconds, monotonicNow, never, seconds)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (Exception (..), throwIO)

-- | One request.
data Request = Request
  { -- | What carries the connection's bytes.
    requestTransport :: !Transport,
    requestWork :: !Workspace,
    requestSettings :: !Settings,
    -- | The capability it runs on, for state kept per capability.
    requestCapability :: !Int,
    -- | When its head was complete.
    requestBegan :: !Deadline,
    -- | Sends the gathered output, and the 100 Continue that the client still waits for.
    requestFlush :: !(IO ()),
    -- | Whether 'requestFlush' is also called ten times a second while the body is waited for.
    requestPolls :: !Bool,
    -- | 'replyNow'.
    requestReply :: !(Request -> Reply -> IO Int),
    -- | 'replyInterim'.
    requestEarly :: !(Status -> [Header] -> IO ())
  }

-- | A failure to read a body, thrown by 'readBody'. If the handler does not catch it, the
-- engine answers with its status and closes the connection; a handler that catches it
-- chooses the answer, and the connection closes too. A body that the handler does not read
-- is discarded before the reply begins; if an error is found in it, the refusal replaces the
-- reply.
data BodyError
  = -- | Malformed or too large.
    BodyRejected !Status !RejectReason
  | -- | Slower than the least rate.
    BodyTooSlow
  | -- | The client went away.
    BodyCutShort
  deriving stock (Eq)

instance Show BodyError where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception BodyError where
  toException = toException . HttpException
  fromException = fromHttp
  displayException = \case
    BodyRejected _ reason -> "request body rejected: " ++ C.unpack (rejectText reason)
    BodyTooSlow -> "request body came too slowly"
    BodyCutShort -> "the client went away before the end of the request body"

-- | Use the head's memory.
withHead :: Request -> (Ptr Word8 -> HeadTable -> IO a) -> IO a
withHead request use = do
  base <- get (requestWork request) WorkBase
  use (inputPtr (requestWork request) `plusPtr` base) (workHead (requestWork request))
{-# INLINE withHead #-}

slice :: Request -> (HeadTable -> IO Slice) -> IO ByteString
slice request part = withHead request $ \p table -> part table >>= copySlice p

-- | The method, if it is one of RFC 9110's or PATCH.
method :: Request -> IO MethodCode
method request = Head.requestMethod (workHead (requestWork request))
{-# INLINE method #-}

-- | The method's bytes.
methodBytes :: Request -> IO ByteString
methodBytes request = slice request methodSlice

-- | The target, as sent.
target :: Request -> IO ByteString
target request = slice request targetSlice

-- | The path, as sent (still escaped), without the query.
rawPath :: Request -> IO ByteString
rawPath request = slice request pathSlice

-- | What follows the question mark, as sent; empty without one.
query :: Request -> IO ByteString
query request = B.drop 1 <$> slice request querySlice

-- | The target's form.
form :: Request -> IO TargetForm
form request = targetForm (workHead (requestWork request))

-- | The requested host and port: of an absolute target, else of the Host header.
host :: Request -> IO ByteString
host request = slice request effectiveHost

-- | The x of HTTP/x.y.
--
-- [Cost]: one load.
httpMajor :: Request -> IO Int
httpMajor request = (+ 1) <$> get (requestWork request) WorkStream

-- | The y of HTTP/x.y.
--
-- [Cost]: two loads.
httpMinor :: Request -> IO Int
httpMinor request = do
  stream <- get (requestWork request) WorkStream
  if stream == 1 then pure 0 else minorVersion (workHead (requestWork request))

-- | The first value of a well-known header.
--
-- [Cost]: one load, and a copy.
header :: Request -> KnownHeader -> IO (Maybe ByteString)
header request known = withHead request $ \p table -> lookupKnown p table known

-- | The first value of a header, by name in any case.
--
-- [Cost]: O(headers).
headerNamed :: Request -> ByteString -> IO (Maybe ByteString)
headerNamed request name = withHead request $ \p table -> lookupHeader p table name

-- | All header lines in order.
--
-- [Cost]: O(bytes).
headers :: Request -> IO [(ByteString, ByteString)]
headers request = withHead request $ \p table ->
  reverse <$> foldHeaders table (\acc n v -> (\a b -> (a, b) : acc) <$> copySlice p n <*> copySlice p v) []

-- | Let the request have this header, as if the client had sent it once with this value: for every reader of the request,
-- a proxy, a program, the log. 'False' if there is no room (for all of a request, 1 KB) or if it is no header; then the
-- request has none of this name.
--
-- [Cost]: O(headers).
-- [Threads]: the handler's, before it reads the body or replies.
setRequestHeader :: Request -> ByteString -> ByteString -> IO Bool
setRequestHeader request name value = withHead request $ \p table -> do
  used <- addedBytes ws
  base <- get ws WorkBase
  capacity <- headCapacity table
  removeHeaders p table name
  count <- headerCount table
  let size = B.length name + B.length value
      at = inputSize ws - base + used
  if count >= capacity || used + size > addedRoom || B.null name || B.any (< 0x20) name || B.any control value
    then pure False
    else do
      put (p `plusPtr` at) name
      put (p `plusPtr` (at + B.length name)) value
      code <- recogniseHeader p at (B.length name) (at + B.length name)
      addHeader table count at (B.length name) (at + B.length name) (B.length value) code
      writeField table FieldHeaderCount (count + 1)
      notes <- get ws WorkNotes
      set ws WorkNotes (notes + size `unsafeShiftL` 2)
      pure True
  where
    ws = requestWork request
    put to bytes = unsafeUseAsCStringLen bytes (\(from, n) -> copyBytes to (castPtr from) n)
    control b = b < 0x20 && b /= 0x09 || b == 0x7F

-- | Let the request have no header of this name, in any case.
--
-- [Cost]: O(headers).
-- [Threads]: the handler's, before it reads the body or replies.
removeRequestHeader :: Request -> ByteString -> IO ()
removeRequestHeader request name = withHead request (\p table -> removeHeaders p table name)

-- | The connection. Its waits belong to the engine: a handler that has to wait uses
-- 'Heddle.Http.Borrowed.pauseRequestUntil', because the streams of an HTTP/2 connection share it.
requestConn :: Request -> Registration
requestConn = transportRegistration . requestTransport
{-# INLINE requestConn #-}

-- | Whether the request came by HTTPS.
isSecure :: Request -> Bool
isSecure = isLayered . requestTransport

-- | What is known of the TLS connection that the request came by: its version and cipher, the server
-- name that the client asked for, the client's certificate.
secureFacts :: Request -> Maybe LayerFacts
secureFacts request = case requestTransport request of
  Bare _ -> Nothing
  Layered _ layer -> Just (layerFacts layer)

-- | The peer's @sockaddr@.
peer :: Request -> ShortByteString
peer = registrationPeer . requestConn

-- Bodies ----------------------------------------------------------------------

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

-- | The same request, whose body may come as slowly as the client likes.
--
-- [Cost]: an allocation.
unpaced :: Request -> Request
unpaced request = request {requestSettings = (requestSettings request) {settingBodyPace = Pace (seconds 1000000000) 0}}

-- | Tell a client that waits for 100 Continue to send the body, and send what was gathered of earlier replies. After this
-- a thread may read the body while the handler's sends the reply by 'replyNow'; both end before the handler returns.
--
-- [Cost]: a load or two if there is nothing to send.
-- [Blocks]: parks.
-- [Throws]: when the client is gone, an 'HttpException'.
-- [Threads]: the handler's, before 'replyNow'.
askForBody :: Request -> IO ()
askForBody = requestFlush
{-# INLINE askForBody #-}

-- | Send a reply while the handler still runs, for a handler that has work to do afterwards or
-- that holds what the reply is made of. The handler then returns 'Replied'. The answer is
-- how many bytes of content were sent.
--
-- The body can be read after it, but if the client still waits for 100 Continue and the reply is
-- not a stream, it is told to send no body: read before replying. A tunnel runs within the call.
--
-- After an exception, 'replyBegun' says whether bytes of the reply may have been sent. If not, the
-- handler can reply again, or fail; if so, the connection closes when the handler returns.
--
-- [Blocks]: parks until the reply is in the kernel; with HTTP/2, in the stream's buffer.
-- [Throws]: 'UnsafeHeader', 'WrongLength', 'ReplyMisuse' on a second reply, what a reply's action or
-- builder throws; when the client is gone, an 'HttpException'.
-- [Threads]: the handler's.
replyNow :: Request -> Reply -> IO Int
replyNow request = requestReply request request
{-# INLINE replyNow #-}

-- | Whether 'replyNow' has begun to send, or has sent, a reply.
--
-- [Cost]: one load.
replyBegun :: Request -> IO Bool
replyBegun request = (/= 0) <$> get (requestWork request) WorkReplied

-- | Send an interim response such as 103 (Early Hints), before the reply. Clients of HTTP/1.0, which would take it for the
-- reply, are sent none; those of HTTP/2 no 101, which it does not have. Headers that cannot be sent are refused.
--
-- [Cost]: one system call.
-- [Blocks]: parks until it is in the kernel; with HTTP/2, never.
-- [Throws]: 'UnsafeHeader'; when the client is gone, an 'HttpException'.
-- [Threads]: the handler's, before it replies.
replyInterim :: Request -> Status -> [Header] -> IO ()
replyInterim = requestEarly
{-# INLINE replyInterim #-}

-- | If the client still waits for 100 Continue, let it wait: the body will not be read, and the connection closes after the
-- reply.
--
-- [Cost]: a load and a store.
-- [Threads]: the handler's, before it replies.
declineBody :: Request -> IO ()
declineBody request = do
  owed <- get (requestWork request) WorkContinue
  when (owed == 1) (set (requestWork request) WorkContinue 2)

-- | Close the connection after the reply to this request, which tells the client so if it has not
-- begun. With HTTP/2, the streams that are open end first.
--
-- [Cost]: one store.
-- [Threads]: the handler's.
closeAfterReply :: Request -> IO ()
closeAfterReply request = set (requestWork request) WorkCloses 1

-- | Let whatever reply the request gets have this header, instead of those of its name that the reply has itself; an error's too,
-- and that of a proxied server. A prebuilt reply has no other of this name.
--
-- [Cost]: an allocation; the reply is written with a copy of its head.
-- [Throws]: 'Heddle.Http.UnsafeHeader'.
-- [Threads]: the handler's, before it replies.
replyWithHeader :: Request -> ByteString -> ByteString -> IO ()
replyWithHeader request name value = do
  for_ (unsafeHeader [Header name value]) throwIO
  with <- isNoted ws NoteReply
  before <- if with then readRef (workHeaders ws) else pure []
  writeRef (workHeaders ws) ((name, value) : filter ((/= C.map toLower name) . C.map toLower . fst) before)
  notes <- get ws WorkNotes
  set ws WorkNotes (notes .|. NoteReply)
  where
    ws = requestWork request

-- | Note how long what answers a request behind this server took until its answer began, for logs; the last note counts.
--
-- [Cost]: two stores.
-- [Threads]: the handler's.
noteUpstreamTime :: Request -> Nanos -> IO ()
noteUpstreamTime request (Nanos took) = do
  set ws WorkUpstream took
  notes <- get ws WorkNotes
  set ws WorkNotes (notes .|. NoteUpstream)
  where
    ws = requestWork request

-- | What 'noteUpstreamTime' noted of the request; 'Nothing' if nothing behind this server was asked.
--
-- [Cost]: two loads.
-- [Threads]: the handler's; a log hook.
upstreamTime :: Request -> IO (Maybe Nanos)
upstreamTime request = do
  noted <- isNoted ws NoteUpstream
  if noted then Just . Nanos <$> get ws WorkUpstream else pure Nothing
  where
    ws = requestWork request

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
    sized left = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      if start == end
        then filling (sized left)
        else do
          let n = min left (end - start)
          set ws WorkStart (start + n)
          set ws WorkLeft (left - n)
          use (inputPtr ws `plusPtr` start) n
    chunked = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      chunkNext (workChunks ws) (inputPtr ws `plusPtr` start) (end - start) >>= \case
        ChunkMore used -> set ws WorkStart (start + used) >> filling chunked
        ChunkData offset n -> do
          set ws WorkStart (start + offset + n)
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
