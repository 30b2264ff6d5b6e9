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
    noteForLog,
    notedForLog,

    -- * For the engine
    failedRequest,
    requestFailed,
    withHead,
  )
where

import Control.Monad (when)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toLower)
import Data.Either (fromRight)
import Data.Foldable (for_)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Exception (HttpException (..), fromHttp)
import Heddle.Http.FailedRequest
import Heddle.Http.Head hiding (requestMethod)
import Heddle.Http.Head qualified as Head
import Heddle.Http.HeadLookup
import Heddle.Http.Names (recogniseHeader)
import Heddle.Http.RejectReason
import Heddle.Http.Reply (Header (..), Reply, unsafeHeader)
import Heddle.Http.Scan (visibleEnd)
import Heddle.Http.Settings
import Heddle.Http.Status
import Heddle.Http.Workspace
import Heddle.IO (peerAddress)
import Heddle.IO.Registration (Registration, connectionOf, registrationPeer)
import Heddle.IO.Transport (LayerFacts, Transport (..), isLayered, layerFacts, transportRegistration)
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Clock (Deadline (..), Nanos (..), seconds)
import Heddle.Prim.Exception (Exception (..), SomeException, throwIO, trySync)
import Heddle.Prim.Unsafe (unsafeDupable)

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

-- | The target, as sent; but bytes beyond ASCII, which some programs send as they are, are percent-encoded, as they must be in
-- whatever the target is put into.
--
-- [Cost]: a copy; two, with such bytes.
-- [Source]: RFC 3986, section 2.1.
target :: Request -> IO ByteString
target request = asciiOnly <$> slice request targetSlice

-- | The path, as sent (still escaped), without the query; bytes beyond ASCII as for 'target'.
rawPath :: Request -> IO ByteString
rawPath request = asciiOnly <$> slice request pathSlice

-- | What follows the question mark, as sent; empty without one; bytes beyond ASCII as for 'target'.
query :: Request -> IO ByteString
query request = asciiOnly . B.drop 1 <$> slice request querySlice

asciiOnly :: ByteString -> ByteString
asciiOnly bytes
  | unsafeDupable (unsafeUseAsCStringLen bytes (\(p, n) -> (== n) <$> visibleEnd (castPtr p) 0 n)) = bytes
  | otherwise = B.concatMap (\b -> if b < 0x80 then B.singleton b else B.pack [0x25, digit (b `unsafeShiftR` 4), digit (b .&. 15)]) bytes
  where
    digit d = if d < 10 then 0x30 + d else 0x37 + d

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

-- | The value of a well-known header. A list on several lines is one list, so their values are joined with @, @ between, those of
-- Cookie with @; @. What may be there only once, such as Range or a date, becomes a value that is none of its kind.
--
-- [Cost]: two loads, and a copy; with several lines O(headers).
-- [Source]: RFC 9110, section 5.2.
header :: Request -> KnownHeader -> IO (Maybe ByteString)
header request known = withHead request $ \p table -> lookupKnown p table known

-- | The value of a header, by name in any case; that of several lines as 'header' has it.
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
      set ws WorkNotes (notes + size `unsafeShiftL` 3)
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

-- | The request's parts that a report names.
--
-- [Cost]: copies.
-- [Threads]: as for the parts themselves.
failedRequest :: Request -> IO FailedRequest
failedRequest request = FailedRequest <$> methodBytes request <*> target request <*> (fromRight Nothing <$> trySync (peerAddress (connectionOf (requestConn request))))

-- | Tell of an exception that failed the request.
--
-- [Cost]: copies, and the hook.
requestFailed :: Request -> SomeException -> IO ()
requestFailed request e = failedRequest request >>= \failed -> settingFailed (requestSettings request) (Just failed) e
{-# NOINLINE requestFailed #-}

-- Bodies and replies -------------------------------------------------------------

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
-- [Throws]: 'UnsafeHeader', 'UnsendableReply', 'WrongLength', 'ReplyMisuse' on a second reply, what a reply's action or
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
-- reply, are sent none; those of HTTP/2 no 101, which it does not have. Headers that cannot be sent are
-- refused, and those that frame messages left out.
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
-- and that of a proxied server. A prebuilt reply has no other of this name. A header that frames messages is refused.
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

-- | Note something about the request for log hooks, under a name, such as the user whose password was right. Several notes of one
-- name are a list.
--
-- [Cost]: an allocation.
-- [Threads]: the handler's.
noteForLog :: Request -> ByteString -> ByteString -> IO ()
noteForLog request name value = do
  with <- isNoted ws NoteLog
  before <- if with then readRef (workLogged ws) else pure []
  writeRef (workLogged ws) ((name, value) : before)
  notes <- get ws WorkNotes
  set ws WorkNotes (notes .|. NoteLog)
  where
    ws = requestWork request

-- | What 'noteForLog' noted under a name; several notes in their order, with commas between.
--
-- [Cost]: a load if nothing was noted; otherwise O(notes).
-- [Threads]: the handler's; a log hook.
notedForLog :: Request -> ByteString -> IO (Maybe ByteString)
notedForLog request name = do
  with <- isNoted ws NoteLog
  notes <- if with then readRef (workLogged ws) else pure []
  pure $ case [value | (n, value) <- notes, n == name] of
    [] -> Nothing
    values -> Just (B.intercalate (C.pack ", ") (reverse values))
  where
    ws = requestWork request
