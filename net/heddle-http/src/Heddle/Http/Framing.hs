{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Framing
-- Description : Where a request ends, and what follows it
-- Stability   : internal, exempt from the version policy
--
-- The only place that reads Content-Length, Transfer-Encoding, Connection, TE and
-- Expect. Two parties that disagree about the end of a request can be made to
-- smuggle a second one past each other; so whatever could be read in two ways is
-- refused here, and nowhere else decided.
--
-- Precondition of everything here: 'Heddle.Http.Parse.parseHead' said
-- 'Heddle.Http.Parse.Done' for this buffer and table.
--
-- Cost: O(1) for a request without these headers. Nothing blocks or throws.
module Heddle.Http.Framing
  ( -- * The end of a request
    FramingResult (..),
    framingOf,

    -- * What follows
    Persistence (..),
    persistenceOf,
    connectionLists,

    -- * After the content
    wantsTrailers,

    -- * Before the body
    Expectation (..),
    expectsContinue,
  )
where

import Data.ByteString (ByteString)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Bytes.Decimal (readDecimal)
import Heddle.Http.Head
  ( HeadTable,
    Slice (..),
    foldKnown,
    knownCount,
    knownSlice,
    minorVersion,
    sliceEquals,
  )
import Heddle.Http.Names (KnownHeader (..))
import Heddle.Http.Parse (Limits (..))
import Heddle.Http.RejectReason (RejectReason (..), rejectStatus)
import Heddle.Http.Scan (blankEnd, byteAt, findByte, isDigitByte, trimEnd)
import Heddle.Http.Status (Status)

-- | How long the body of a request is.
data FramingResult
  = -- | There is none.
    NoBody
  | -- | This many bytes; 0 only if Content-Length is 0.
    Sized !Int
  | -- | Chunks, to be read by "Heddle.Http.Chunked".
    ChunkedBody
  | -- | Unclear, unknown or too large: answer the status, and close.
    FramingReject !Status !RejectReason
  deriving stock (Eq, Show)

-- | Decide the framing of a request.
--
-- Refused are: both headers, or more than one Content-Length, even of equal
-- values; a length that is not only digits; Transfer-Encoding in
-- HTTP/1.0; @chunked@ missing, repeated or not last, and empty list elements; any
-- other coding before a last @chunked@ (501); a length above 'limitBody' (413).
--
-- [Cost]: O(1) without a body, otherwise O(length of the values).
-- [Source]: RFC 9112, sections 6.1 to 6.3.
framingOf :: Limits -> Ptr Word8 -> HeadTable -> IO FramingResult
framingOf !limits !buffer !table = do
  lengths <- knownCount table HeaderContentLength
  codings <- knownCount table HeaderTransferEncoding
  case (lengths, codings) of
    (0, 0) -> pure NoBody
    (1, 0) -> knownSlice table HeaderContentLength >>= sized limits buffer
    (_, 0) -> refused RepeatedLength
    (0, _) -> chunked buffer table codings
    _ -> refused LengthWithCoding

refused :: RejectReason -> IO FramingResult
refused reason = pure (FramingReject (rejectStatus reason) reason)

sized :: Limits -> Ptr Word8 -> Slice -> IO FramingResult
sized limits buffer (Slice offset len) = do
  size <- readDecimal (buffer `plusPtr` offset) len
  if
      | size < 0 -> do
        digits <- allDigits offset
        -- A number that overflows an 'Int' is too large as well.
        refused (if len > 0 && digits then BodyTooLarge else BadLength)
      | size > limitBody limits -> refused BodyTooLarge
      | otherwise -> pure (Sized size)
  where
    allDigits !i
      | i >= offset + len = pure True
      | otherwise = do
        byte <- byteAt buffer i
        if isDigitByte byte then allDigits (i + 1) else pure False

-- | Only a single @chunked@ is accepted; the rest finds the right refusal.
chunked :: Ptr Word8 -> HeadTable -> Int -> IO FramingResult
chunked buffer table lineCount = do
  minor <- minorVersion table
  value <- knownSlice table HeaderTransferEncoding
  alone <- sliceEquals buffer value "chunked"
  if
      | minor == 0 -> refused CodingInHttp10
      | alone && lineCount == 1 -> pure ChunkedBody
      | otherwise -> do
        seen <- foldElements buffer table HeaderTransferEncoding element (Codings 0 False False)
        refused $
          if codingsChunked seen == 1 && codingsLast seen && not (codingsEmpty seen)
            then UnknownCoding
            else BadCoding
  where
    element seen slice = do
      isChunked <- sliceEquals buffer slice "chunked"
      pure
        Codings
          { codingsChunked = codingsChunked seen + (if isChunked then 1 else 0),
            codingsLast = isChunked,
            codingsEmpty = codingsEmpty seen || sliceLength slice == 0
          }

-- | What a list of transfer codings holds.
data Codings = Codings
  { codingsChunked :: !Int,
    -- | Whether the last element is @chunked@.
    codingsLast :: !Bool,
    -- | Whether an element is empty.
    codingsEmpty :: !Bool
  }

-- | Fold over the elements of a header that is a list, over all its lines,
-- without white space around them; empty elements included.
foldElements :: Ptr Word8 -> HeadTable -> KnownHeader -> (a -> Slice -> IO a) -> a -> IO a
foldElements buffer table known step = foldKnown table known $ \start (Slice offset len) -> do
  let !end = offset + len
      go !i acc = do
        comma <- findByte 0x2C buffer i end
        from <- blankEnd buffer i comma
        to <- trimEnd buffer from comma
        next <- step acc (Slice from (to - from))
        if comma >= end then pure next else go (comma + 1) next
  go offset start
{-# INLINE foldElements #-}

-- | Whether the connection outlives the response.
data Persistence
  = -- | The next request may follow.
    KeepAlive
  | -- | Nothing may follow.
    Close
  deriving stock (Bounded, Enum, Eq, Show)

-- | What the client wants: @close@ in Connection closes; otherwise HTTP\/1.1 keeps
-- the connection, and HTTP\/1.0 does only with @keep-alive@ (which the response
-- must then repeat).
--
-- [Cost]: O(1) without Connection, otherwise O(length of the values).
-- [Source]: RFC 9112, section 9.3.
persistenceOf :: Ptr Word8 -> HeadTable -> IO Persistence
persistenceOf !buffer !table = do
  minor <- minorVersion table
  count <- knownCount table HeaderConnection
  if count == 0
    then pure $! (if minor == 0 then Close else KeepAlive)
    else do
      close <- connectionLists buffer table "close"
      kept <- if minor == 0 then connectionLists buffer table "keep-alive" else pure True
      pure $! (if kept && not close then KeepAlive else Close)

-- | Whether Connection lists an option, letters compared without regard to case.
--
-- [Cost]: O(1) without Connection, otherwise O(length of the values).
-- [Source]: RFC 9110, section 7.6.1.
connectionLists :: Ptr Word8 -> HeadTable -> ByteString -> IO Bool
connectionLists !buffer !table option =
  foldElements buffer table HeaderConnection step False
  where
    step found slice
      | found = pure True
      | otherwise = sliceEquals buffer slice option

-- | Whether the client has said @TE: trailers@.
--
-- [Cost]: O(1) without TE, otherwise O(length of the values).
-- [Source]: RFC 9110, section 10.1.4.
wantsTrailers :: Ptr Word8 -> HeadTable -> IO Bool
wantsTrailers !buffer !table = foldElements buffer table HeaderTe step False
  where
    step found slice
      | found = pure True
      | otherwise = sliceEquals buffer slice "trailers"

-- | What the client awaits before it sends its body.
data Expectation
  = -- | Nothing.
    ExpectNothing
  | -- | The interim response 100, or the final one.
    ExpectContinue
  | -- | Something unknown: answer 417 ('UnknownExpectation').
    ExpectUnknown
  deriving stock (Bounded, Enum, Eq, Show)

-- | The client's expectation. HTTP\/1.0 has none, whatever the header says.
--
-- [Cost]: O(1) without Expect, otherwise O(length of the values).
-- [Source]: RFC 9110, section 10.1.1.
expectsContinue :: Ptr Word8 -> HeadTable -> IO Expectation
expectsContinue !buffer !table = do
  minor <- minorVersion table
  if minor == 0
    then pure ExpectNothing
    else foldElements buffer table HeaderExpect step ExpectNothing
  where
    step ExpectUnknown _ = pure ExpectUnknown
    step sofar (Slice _ 0) = pure sofar
    step _ slice = do
      isContinue <- sliceEquals buffer slice "100-continue"
      pure $! (if isContinue then ExpectContinue else ExpectUnknown)
