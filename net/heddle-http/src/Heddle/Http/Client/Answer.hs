{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Answer
-- Description : The head of a response, and where its content ends
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- Reads a status line and hands the header lines to the parser of requests, so that there is
-- one parser of header lines. The result lies in a 'HeadTable': the code where a method
-- has its own, the reason phrase where a target lies.
--
-- Owner: the connection whose table is being filled.
-- Cost: O(bytes) over all calls for one head; nothing is allocated for a header line. Nothing
-- blocks, throws or calls the system.
module Heddle.Http.Client.Answer
  ( -- * Parsing
    AnswerParsed (..),
    parseAnswer,
    AnswerFault (..),
    describeFault,
    answerCode,

    -- * Framing
    Content (..),
    Asked (..),
    contentOf,
  )
where

import Data.Bits ((.&.))
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Framing (FramingResult (..), framingOf)
import Heddle.Http.Head (Field (..), HeadTable, Phase (..), headLength, readField, readPhase, writeField)
import Heddle.Http.Parse (Limits (..), Parsed (..), parseHead)
import Heddle.Http.RejectReason
import Heddle.Http.Scan (byteAt, findByte, isDigitByte, valueEnd, word64At)

-- | What the bytes so far are.
data AnswerParsed
  = -- | The start of a head.
    AnswerMore
  | -- | A whole head; its length.
    AnswerDone !Int
  | AnswerWrong !AnswerFault
  deriving stock (Eq, Show)

-- | What is wrong with a response.
data AnswerFault
  = -- | It does not begin with @HTTP\/1.@: the peer speaks another protocol.
    NotHttp
  | -- | The status line is not version, space, three digits, space, phrase.
    BadStatusLine
  | -- | A code below 100 or above 599.
    BadStatusCode
  | -- | A header line, the framing or a chunk; the words are those for requests.
    Malformed !RejectReason
  | -- | 101 to a request that asked for no other protocol.
    UnaskedSwitch
  | -- | More interim responses than a final one can need.
    InterimFlood
  deriving stock (Eq, Ord, Show)

-- | A sentence about a response.
describeFault :: AnswerFault -> String
describeFault = \case
  NotHttp -> "it does not begin with HTTP/1: the peer speaks another protocol"
  BadStatusLine -> "its status line is malformed"
  BadStatusCode -> "its status is not a number from 100 to 599"
  UnaskedSwitch -> "it switches to another protocol, which the request did not ask for"
  InterimFlood -> "too many interim responses precede the final one"
  Malformed reason -> case reason of
    HeadTooLarge -> "its head is larger than the limit"
    TooManyHeaders -> "it has more header lines than the limit"
    TrailersTooLarge -> "its trailers are larger than the limit"
    BodyTooLarge -> "its content is larger than the limit"
    ChunkExtensionsTooLong -> "its chunk extensions are longer than the limit"
    LengthWithCoding -> "it has both Content-Length and Transfer-Encoding"
    RepeatedLength -> "it has more than one Content-Length"
    UnknownCoding -> "it has a transfer coding other than chunked"
    _ -> C.unpack (rejectText reason)

-- | Parse what a buffer holds of one response's head. The rules are those of
-- 'Heddle.Http.Parse.parseHead': the bytes begin with all bytes of earlier calls for this head, and
-- 'Heddle.Http.Parse.startHead' precedes each head.
--
-- Law (splitting): the last answer is that of one call with all the bytes.
--
-- [Cost]: O(new bytes + lines completed).
-- [Source]: RFC 9112, sections 4 and 5.
parseAnswer :: Limits -> Ptr Word8 -> Int -> HeadTable -> IO AnswerParsed
parseAnswer !limits !buffer !available !table =
  readPhase table >>= \case
    AtHeader -> fieldLines limits buffer available table
    _ -> do
      begun <- if available >= 8 then (\w -> w .&. 0x00FFFFFFFFFFFFFF == 0x002E312F50545448) <$> word64At buffer 0 else pure False
      foreign' <- if begun then pure False else otherProtocol buffer (min available 7) 0
      if foreign' then pure (AnswerWrong NotHttp) else statusLine limits buffer available table

-- Whether the first bytes, at most seven, differ from HTTP/1. already. The caller has compared them as one word, if they are there.
otherProtocol :: Ptr Word8 -> Int -> Int -> IO Bool
otherProtocol !buffer !end !i
  | i >= end = pure False
  | otherwise = do
    byte <- byteAt buffer i
    if byte == B.unsafeIndex "HTTP/1." i then otherProtocol buffer end (i + 1) else pure True

-- The line is looked at when it is complete.
statusLine :: Limits -> Ptr Word8 -> Int -> HeadTable -> IO AnswerParsed
statusLine limits buffer available table = do
  let end = min available (limitHeadBytes limits)
  scanned <- readField table FieldScan
  feed <- findByte 0x0A buffer scanned end
  if
      | feed < end -> wholeLine feed
      | end >= limitHeadBytes limits -> pure (AnswerWrong (Malformed HeadTooLarge))
      | otherwise -> AnswerMore <$ writeField table FieldScan end
  where
    -- HTTP/1.x SP ddd, then CR LF, or SP and a phrase. Peers leave the space out together with
    -- the phrase.
    wholeLine feed
      | feed < 13 = pure (AnswerWrong BadStatusLine)
      | otherwise = do
        minor <- byteAt buffer 7
        space <- byteAt buffer 8
        hundreds <- byteAt buffer 9
        tens <- byteAt buffer 10
        ones <- byteAt buffer 11
        after <- byteAt buffer 12
        stop <- valueEnd buffer 12 feed
        let digit d = fromIntegral d - 48 :: Int
            !code = 100 * digit hundreds + 10 * digit tens + digit ones
        if
            | not (isDigitByte minor) || space /= 0x20 || not (isDigitByte hundreds && isDigitByte tens && isDigitByte ones) -> pure (AnswerWrong BadStatusLine)
            -- Nothing but the CR may stop the scan.
            | stop /= feed - 1 -> pure (AnswerWrong (if stop >= feed then Malformed BareLineFeed else BadStatusLine))
            | after /= 0x20 && feed /= 13 -> pure (AnswerWrong BadStatusLine)
            | code < 100 || code > 599 -> pure (AnswerWrong BadStatusCode)
            | otherwise -> do
              cr <- byteAt buffer stop
              if cr /= 0x0D
                then pure (AnswerWrong BadStatusLine)
                else do
                  writeField table FieldMethod code
                  writeField table FieldMinorVersion (if minor == 0x30 then 0 else 1)
                  writeField table FieldTargetOffset (min stop 13)
                  writeField table FieldTargetLength (max 0 (stop - 13))
                  writeField table FieldPhase (fromEnum AtHeader)
                  writeField table FieldLineStart (feed + 1)
                  writeField table FieldScan (feed + 1)
                  fieldLines limits buffer available table

-- The parser of requests, which ends by checking Host. Those three reasons come from that last
-- check only, when all else was found right; a response has no Host to check.
fieldLines :: Limits -> Ptr Word8 -> Int -> HeadTable -> IO AnswerParsed
fieldLines limits buffer available table =
  parseHead limits buffer available table >>= \case
    Done n -> pure (AnswerDone n)
    More -> pure AnswerMore
    Reject _ reason
      | reason == MissingHost || reason == RepeatedHost || reason == BadHost -> AnswerDone <$> headLength table
      | otherwise -> pure (AnswerWrong (Malformed reason))

-- | The status code of a parsed head.
--
-- [Cost]: one load.
answerCode :: HeadTable -> IO Int
answerCode table = readField table FieldMethod
{-# INLINE answerCode #-}

-- | What of the request decides the framing of its response.
data Asked
  = -- | HEAD: no content follows.
    AskedHead
  | -- | CONNECT: a tunnel follows success.
    AskedTunnel
  | -- | A request with Upgrade: 101 is expected.
    AskedUpgrade
  | AskedContent
  deriving stock (Eq, Show)

-- | What follows a head.
data Content
  = -- | Nothing.
    NoContent
  | -- | This many bytes.
    SizedContent !Int
  | -- | Chunks.
    ChunkedContent
  | -- | What comes until the peer closes.
    UntilClose
  | -- | An interim response: another head follows.
    Interim
  | -- | Another protocol.
    Switched
  | -- | That, and the connection must not be used for another request.
    Unkept !Content
  | -- | Unclear: the connection must close.
    ContentWrong !AnswerFault
  deriving stock (Eq, Show)

-- | Decide what follows a head. The precondition is 'AnswerDone' for this buffer and table.
--
-- An interim response, one of status 204 or 304, the answer to HEAD and agreement to CONNECT and Upgrade end with the head,
-- whatever their fields say. Where these announce content, or contradict each other, the peer may send some, so the connection
-- is not used again.
--
-- [Cost]: O(length of the framing headers).
-- [Source]: RFC 9112, section 6.3, and stricter: where two readers could find different ends, the
-- response is refused.
contentOf :: Limits -> Asked -> Ptr Word8 -> HeadTable -> IO Content
contentOf limits asked buffer table = do
  code <- answerCode table
  framing <- framingOf limits buffer table
  pure $
    if
        | code == 101 -> if asked == AskedUpgrade then Switched else ContentWrong UnaskedSwitch
        | code < 200 -> ended (announces framing) Interim
        | asked == AskedTunnel && code < 300 -> Switched
        | code == 204 -> ended (announces framing) NoContent
        -- The length announced is that of another message.
        | asked == AskedHead || code == 304 -> ended (contradicts framing) NoContent
        | otherwise -> case framing of
          FramingReject _ reason -> ContentWrong (Malformed reason)
          Sized 0 -> NoContent
          Sized n -> SizedContent n
          ChunkedBody -> ChunkedContent
          NoBody -> UntilClose
  where
    ended wrong content = if wrong then Unkept content else content
    -- A length of 0 contradicts nothing.
    announces = \case
      Sized n -> n > 0
      NoBody -> False
      _ -> True
    contradicts = \case
      FramingReject _ reason -> reason /= BodyTooLarge
      _ -> False
