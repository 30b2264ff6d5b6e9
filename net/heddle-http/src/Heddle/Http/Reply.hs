{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Reply
-- Description : What a handler answers
-- Stability   : stable
--
-- A 'Reply' says what to send; the engine adds the date, the server's name, the framing
-- and the connection headers, leaves the content out for HEAD, and sends.
--
-- Cost: values; a 'Prebuilt' holds its head and content in one pinned buffer.
-- Owner: the engine, from the handler's return on.
module Heddle.Http.Reply
  ( -- * Replies
    Reply (..),
    module Heddle.Http.Fields,
    WrongLength (..),
    Segment (..),
    segmentLength,
    Lines (..),
    replyStatus,
    plain,
    mayReadBody,
    releaseReply,

    -- * Streams
    Writer (..),

    -- * Prebuilt replies
    Prebuilt (..),
    newPrebuilt,
    PrebuiltBody (..),
    statusFault,

    -- * Writing heads
    headRoom,
    pokeHead,
    pokeHeadWith,
    pokeBytes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, minusPtr, nullPtr, plusPtr)
import Heddle.Bytes.HttpDate (httpDateLength)
import Heddle.Bytes.Write (bytes, decimal, pokeWrite)
import Heddle.Http.Duplex (Duplex)
import Heddle.Http.Exception (HttpException (..), UnsendableReply (..), fromHttp)
import Heddle.Http.Fields
import Heddle.Http.Status
import Heddle.Prim.Atomic (Words, newWords)
import Heddle.Prim.Buffer (Buffer, newBuffer, withBuffer)
import Heddle.Prim.Exception (Exception (..), throwIO)
import System.Posix.Types (Fd)

-- | The content of a 'StreamOf' reply was not as long as announced: bytes announced, and bytes
-- written or about to be.
data WrongLength = WrongLength !Int !Int
  deriving stock (Eq)

instance Show WrongLength where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception WrongLength where
  toException = toException . HttpException
  fromException = fromHttp
  displayException (WrongLength announced written) =
    "a reply announced " ++ show announced ++ " bytes of content, and its handler wrote " ++ show written

-- | A piece of content.
data Segment
  = SegmentBytes !ByteString
  | -- | Descriptor, offset and length in bytes, sent by sendfile(2).
    SegmentFile !Fd !Int64 !Int

-- | How long a piece is.
--
-- [Units]: bytes.
segmentLength :: Segment -> Int
segmentLength = \case
  SegmentBytes b -> B.length b
  SegmentFile _ _ n -> n

-- | Header lines that are known to be whole and safe, such as lines that a parser has found in a message: nothing of them is checked.
data Lines = Lines
  { -- | The most bytes that they take.
    linesRoom :: !Int,
    -- | Whether Date is among them, and whether Server.
    linesDate :: !Bool,
    linesServer :: !Bool,
    -- | Writes them to an address, each with its CRLF, and returns their end. None of them frames the message.
    linesWrite :: !(Ptr Word8 -> IO (Ptr Word8)),
    -- | The same as a list, for HTTP/2, and for replies that get further headers.
    linesHeaders :: !(IO [Header])
  }

-- | A handler's answer.
--
-- The status is one of 200 to 999, except that of a 'Tunnel', and no length is negative; 205 has no content. The engine answers 500
-- instead of another reply, and reports 'UnsendableReply'. It frames messages itself: of a handler's Content-Length,
-- Transfer-Encoding, Keep-Alive and Proxy-Connection nothing is sent, and @Connection: close@ closes the
-- connection of HTTP/1.
data Reply
  = -- | Sent as it is, with the current date: one system call.
    Ready !Prebuilt
  | -- | Status, headers, content.
    Whole !Status ![Header] !ByteString
  | -- | 'Whole' whose header lines are written where they are sent, as those that a gateway passes on.
    Copied !Status !Lines !ByteString
  | -- | Status, headers, pieces of content, and what releases them afterwards. Their list is held until then, because the
    -- length is announced.
    Segments !Status ![Header] ![Segment] !(IO ())
  | -- | Content written by a builder. If all of it fits the connection's output, its length is
    -- announced; otherwise it is sent as a stream. A builder that fails before then is a
    -- handler that failed.
    Built !Status ![Header] !Builder
  | -- | 'StreamOf' whose content a builder writes.
    BuiltOf !Status ![Header] !Int !Builder
  | -- | Content of exactly this many bytes, written by the action: 'WrongLength' if it writes
    -- more or fewer, and the connection closes.
    StreamOf !Status ![Header] !Int !(Writer -> IO ())
  | -- | Content of unknown length, written by the action: chunked for HTTP/1.1, ended by
    -- closing for HTTP/1.0.
    Stream !Status ![Header] !(Writer -> IO ())
  | -- | Leave HTTP: send this head, if any, then give the connection to the action, which runs
    -- unmasked. The connection closes when the action ends. The engine adds
    -- @Connection: Upgrade@ to a head of status 101, and announces no content. Without a head
    -- the action writes what a client expects itself. The request can be read only until the
    -- handler has returned. HTTP/2 answers 501 instead.
    Tunnel !(Maybe (Status, [Header])) !(Duplex -> IO ())
  | -- | The handler has replied already, by 'Heddle.Http.replyNow', with this status.
    Replied !Status

-- | The status of a reply.
replyStatus :: Reply -> Status
replyStatus = \case
  Ready p -> prebuiltStatus p
  Whole s _ _ -> s
  Copied s _ _ -> s
  Segments s _ _ _ -> s
  Stream s _ _ -> s
  Built s _ _ -> s
  BuiltOf s _ _ _ -> s
  StreamOf s _ _ _ -> s
  Tunnel h _ -> maybe status101 fst h
  Replied s -> s

-- | A refusal.
plain :: Status -> ByteString -> Reply
plain status text =
  Whole
    status
    [Header "Content-Type" "text/plain; charset=utf-8"]
    (C.concat [C.pack (show (statusCode status)), " ", reasonPhrase status, "\n", text, "\n"])

-- | Whether a reply's action may read the request's body.
mayReadBody :: Reply -> Bool
mayReadBody = \case
  Stream {} -> True
  StreamOf {} -> True
  -- It may read the body lazily.
  BuiltOf {} -> True
  -- What is left of the body is the tunnel's.
  Tunnel {} -> True
  _ -> False
{-# INLINE mayReadBody #-}

-- | Release a reply that is not sent.
releaseReply :: Reply -> IO ()
releaseReply = \case
  Segments _ _ _ release -> release
  _ -> pure ()

-- | Where a stream's content goes. Each action throws when the connection is lost.
data Writer = Writer
  { -- | Add bytes.
    writerPut :: ByteString -> IO (),
    -- | Add what a builder writes, directly into the output.
    writerBuild :: Builder -> IO (),
    -- | Send what was added.
    writerFlush :: IO (),
    -- | The fields that follow the content, in place of earlier ones. They reach clients of HTTP/2, and those of HTTP/1.1 that
    -- have sent @TE: trailers@ if the length of the content was not announced; others are sent none. A request's
    -- trailers are sent if its body is chunked.
    writerTrailers :: [Header] -> IO (),
    -- | Add bytes as far as that is possible without waiting for the peer: how many, from their beginning. For who has something else to do
    -- meanwhile; a request's writer takes all of them, and waits.
    writerOffer :: ByteString -> IO Int,
    -- | Send what was added as far as that is possible without waiting: whether all of it was. With HTTP/2 it always is, as far as
    -- the connection's other streams are concerned.
    writerTryFlush :: IO Bool
  }

-- | A reply in the form it is sent in.
data Prebuilt = Prebuilt
  { prebuiltStatus :: !Status,
    -- | Head, then content.
    prebuiltBuffer :: !Buffer,
    -- | The head's length, its empty line included.
    prebuiltHead :: !Int,
    -- | The length of head and content.
    prebuiltSize :: !Int,
    -- | Where the date is.
    prebuiltDateAt :: !Int,
    -- | Word 0: the second (since 1970) that the date shows.
    prebuiltShows :: !Words
  }

-- | The content of a prebuilt reply.
data PrebuiltBody
  = -- | None. No length is announced for 304 and 204.
    NoContent
  | -- | This many bytes, filled in by the action.
    ContentOf !Int (Ptr Word8 -> IO ())

-- | Build a reply once, to be sent often by one capability. Headers that frame messages are left out, and so is content that the status
-- forbids; no content for another status is content of length 0.
--
-- [Cost]: a pinned buffer of its size.
-- [Throws]: 'UnsafeHeader', 'UnsendableReply'.
-- [Threads]: the date is changed in place, so a prebuilt reply belongs to one capability.
newPrebuilt :: ByteString -> Status -> [Header] -> PrebuiltBody -> IO Prebuilt
newPrebuilt server status given body = do
  let (len, fill) = case body of
        _ | statusForbidsContent status -> (Nothing, \_ -> pure ())
        NoContent -> (Just 0, \_ -> pure ())
        ContentOf n f -> (Just n, f)
  for_ (statusFault status (fromMaybe 0 len)) throwIO
  framing <- case checkHeaders given of
    HeaderUnsafe one -> throwIO (UnsafeHeader one)
    HeadersFine -> pure given
    HeadersFrame -> pure (fst (withoutFraming given))
  -- Its date is always the current one.
  let headers = [one | one@(Header name _) <- framing, not (name `isNamed` "date")]
  buffer <- newBuffer (headRoom server status headers + fromMaybe 0 len)
  shows' <- newWords 1
  withBuffer buffer $ \p -> do
    (dateAt, end) <- pokeHead p server status headers len ""
    fill end
    pure
      Prebuilt
        { prebuiltStatus = status,
          prebuiltBuffer = buffer,
          prebuiltHead = end `minusPtr` p,
          prebuiltSize = (end `minusPtr` p) + fromMaybe 0 len,
          prebuiltDateAt = dateAt `minusPtr` p,
          prebuiltShows = shows'
        }

-- | What is wrong with a status, for content of this length.
--
-- [Cost]: O(1).
-- [Source]: RFC 9110, sections 15 and 15.3.6.
statusFault :: Status -> Int -> Maybe UnsendableReply
statusFault status n
  | code < 200 || code > 999 = Just (NoFinalStatus code)
  | n < 0 = Just (NegativeLength n)
  | code == 205 && n > 0 = Just (ContentForbidden code)
  | otherwise = Nothing
  where
    code = statusCode status
{-# INLINE statusFault #-}

-- | How much room 'pokeHead' may need.
--
-- [Units]: bytes.
headRoom :: ByteString -> Status -> [Header] -> Int
headRoom server status = go (256 + B.length server + B.length (reasonPhrase status))
  where
    go !room [] = room
    go room (Header n v : others) = go (room + B.length n + B.length v + 4) others

-- With fewer arguments pokeHeadWith is not inlined.
{- HLINT ignore pokeHead "Eta reduce" -}

-- | Write a head: where the date belongs ('httpDateLength' bytes, left unwritten), and
-- the end. A Date or Server among the headers is sent instead of ours; with such a Date the first
-- address is null. The length is announced when given; extra header lines (each with its CRLF) go
-- last.
pokeHead :: Ptr Word8 -> ByteString -> Status -> [Header] -> Maybe Int -> ByteString -> IO (Ptr Word8, Ptr Word8)
pokeHead p0 server status headers len extra = pokeHeadWith p0 server status (names "date") (names "server") (`fields` headers) len extra
  where
    names field = any (\(Header name _) -> name `isNamed` field) headers
    fields !p [] = pure p
    fields p (Header n v : others) = do
      next <- pokeWrite (bytes n <> ": " <> bytes v <> "\r\n") p
      fields next others
{-# INLINE pokeHead #-}

-- | The same with header lines that an action writes: whether Date is among them, and whether Server.
pokeHeadWith :: Ptr Word8 -> ByteString -> Status -> Bool -> Bool -> (Ptr Word8 -> IO (Ptr Word8)) -> Maybe Int -> ByteString -> IO (Ptr Word8, Ptr Word8)
pokeHeadWith p0 server status hasDate hasServer fields len extra = do
  start <- pokeStatus status p0
  (dateAt, p1) <-
    if hasDate
      then pure (nullPtr, start)
      else do
        at <- pokeWrite "Date: " start
        next <- pokeWrite "\r\n" (at `plusPtr` httpDateLength)
        pure (at, next)
  p2 <- if B.null server || hasServer then pure p1 else pokeWrite ("Server: " <> bytes server <> "\r\n") p1
  p3 <- fields p2
  p4 <- case len of
    Nothing -> pure p3
    Just n -> pokeWrite ("Content-Length: " <> decimal n <> "\r\n") p3
  end <- pokeWrite (bytes extra <> "\r\n") p4
  pure (dateAt, end)
-- Where it is not inlined, each head has closures for the action and the questions, and boxes for the pair.
{-# INLINE pokeHeadWith #-}

-- | Copy bytes to an address, and return the address after them.
pokeBytes :: Ptr Word8 -> ByteString -> IO (Ptr Word8)
pokeBytes p b = pokeWrite (bytes b) p
{-# INLINE pokeBytes #-}

pokeStatus :: Status -> Ptr Word8 -> IO (Ptr Word8)
pokeStatus status p
  | statusCode status == 200 && reasonPhrase status == "OK" = pokeWrite "HTTP/1.1 200 OK\r\n" p
  | otherwise = pokeWrite ("HTTP/1.1 " <> decimal (statusCode status) <> " " <> bytes (reasonPhrase status) <> "\r\n") p
