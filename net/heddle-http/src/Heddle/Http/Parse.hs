{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE ViewPatterns #-}

-- |
-- Module      : Heddle.Http.Parse
-- Description : Request line and headers, strictly, into a table
-- Stability   : internal, exempt from the version policy
--
-- Parses the head of an HTTP/1 request from a buffer that may still be filling.
-- Every sequence of bytes gets an answer, and the answer does not depend on how
-- the bytes were split into pieces; see Note [Resuming].
--
-- Owner: the connection whose table is being filled.
-- Cost: O(bytes) over all calls for one head; 0 bytes allocated. Nothing blocks,
-- throws or calls the system.
module Heddle.Http.Parse
  ( -- * Limits
    Limits (..),
    defaultLimits,

    -- * Parsing
    Parsed (More, Reject, Done),
    parseHead,
    startHead,

    -- * Parts
    AuthorityPort (..),
    checkAuthority,
  )
where

import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Authority
import Heddle.Http.Head
  ( Field (..),
    HeadTable,
    Phase (..),
    Slice (..),
    TargetForm (..),
    addHeader,
    headCapacity,
    headLength,
    knownCount,
    knownSlice,
    minorVersion,
    readField,
    readPhase,
    startHead,
    writeField,
  )
import Heddle.Http.Limits
import Heddle.Http.Names
  ( KnownHeader (HeaderHost),
    MethodCode (..),
    recogniseHeader,
    recogniseMethod,
  )
import Heddle.Http.RejectReason (RejectReason (..), rejectStatus)
import Heddle.Http.Scan
  ( blankEnd,
    byteAt,
    findByte,
    isBlank,
    isDigitByte,
    lowerByte,
    nameEnd,
    targetEnd,
    tokenEnd,
    trimEnd,
    valueEnd,
    word64At,
  )
import Heddle.Http.Status (Status)

-- | What the bytes so far are: the start of a head ('More'), malformed
-- ('Reject', with the status to answer and the reason), or a whole head
-- ('Done', with its length).
--
-- A number underneath, so that returning one allocates nothing.
newtype Parsed = Parsed Int
  deriving stock (Eq)

instance Show Parsed where
  showsPrec d parsed = showParen (d > 10) $ case parsed of
    More -> showString "More"
    Reject status reason -> showString "Reject " . showsPrec 11 status . showChar ' ' . showsPrec 11 reason
    Done consumed -> showString "Done " . showsPrec 11 consumed

-- | The head is not complete yet; call 'parseHead' again with more bytes.
pattern More :: Parsed
pattern More = Parsed (-1)

-- | The head is malformed: answer this status, and close.
pattern Reject :: Status -> RejectReason -> Parsed
pattern Reject status reason <- (rejection -> Just (status, reason))

-- | The head is complete and valid; its length in bytes.
pattern Done :: Int -> Parsed
pattern Done consumed <-
  (finished -> Just consumed)
  where
    Done consumed = Parsed consumed

{-# COMPLETE More, Reject, Done #-}

finished :: Parsed -> Maybe Int
finished (Parsed n)
  | n >= 0 = Just n
  | otherwise = Nothing
{-# INLINE finished #-}

rejection :: Parsed -> Maybe (Status, RejectReason)
rejection (Parsed n)
  | n <= -2 = let reason = toEnum (-2 - n) in Just (rejectStatus reason, reason)
  | otherwise = Nothing
{-# INLINE rejection #-}

refuse :: RejectReason -> Parsed
refuse reason = Parsed (-2 - fromEnum reason)
{-# INLINE refuse #-}

-- | Parse what a buffer holds of one head, given the number of bytes in it. They must
-- begin with all bytes that earlier calls for this head were given. Call 'startHead'
-- before each head, also after 'Reject' or 'Done'.
--
-- A line is refused when it is complete, and so at the latest when it exceeds its
-- limit; the first faulty line decides. A method that is a token is accepted,
-- known or not.
--
-- Law (splitting): the last answer is that of one call with all the bytes.
--
-- [Cost]: O(new bytes + lines completed); 0 bytes.
-- [Source]: RFC 9112, sections 2.2, 3 and 5.
parseHead :: Limits -> Ptr Word8 -> Int -> HeadTable -> IO Parsed
parseHead limits buffer available table = do
  parsed <- parseLines limits buffer available table
  -- Only here does the length enter the answer: every other answer is a constant.
  if parsed == complete then Done <$> headLength table else pure parsed
{-# INLINE parseHead #-}

-- | The answer for a whole head, before its length is put in.
complete :: Parsed
complete = Parsed 0

parseLines :: Limits -> Ptr Word8 -> Int -> HeadTable -> IO Parsed
parseLines !limits !buffer !available !table = do
  lineStart <- readField table FieldLineStart
  scanned <- readField table FieldScan
  capacity <- headCapacity table
  let job =
        Job
          { jobLimits = limits,
            jobHeaders = min capacity (limitHeaders limits),
            jobBuffer = buffer,
            jobEnd = min available (limitHeadBytes limits),
            jobTable = table
          }
  if scanned > lineStart
    then do
      -- An earlier call tried this line: only its LF makes another try worth it.
      feed <- findByte 0x0A buffer scanned (jobEnd job)
      if feed >= jobEnd job then unfinished job lineStart else resume job lineStart
    else resume job lineStart

-- | What one call works on; unpacked into registers by GHC.
data Job = Job
  { jobLimits :: !Limits,
    -- | Most header lines: the limit, or the table's capacity.
    jobHeaders :: !Int,
    jobBuffer :: !(Ptr Word8),
    -- | Bytes available, at most the limit: nothing beyond it is ever read.
    jobEnd :: !Int,
    jobTable :: !HeadTable
  }

resume :: Job -> Int -> IO Parsed
resume job lineStart = do
  phase <- readPhase (jobTable job)
  case phase of
    AtHeader -> do
      count <- readField (jobTable job) FieldHeaderCount
      headerLines job lineStart count
    _ -> firstLine job phase lineStart

-- | The line has no end yet: remember how far it was searched. Precondition: there
-- is no LF in the part of the line that has arrived.
unfinished :: Job -> Int -> IO Parsed
unfinished Job {jobLimits = limits, jobEnd = end, jobTable = table} !lineStart
  | end >= limitHeadBytes limits = do
    phase <- readPhase table
    pure $! (if phase == AtHeader then refuse HeadTooLarge else refuse TargetTooLong)
  | otherwise = do
    writeField table FieldLineStart lineStart
    writeField table FieldScan end
    pure More
{-# NOINLINE unfinished #-}

-- | The line is malformed. It is refused only when it is complete, so that the
-- answer does not depend on how the bytes arrived.
malformed :: Job -> Int -> RejectReason -> IO Parsed
malformed job !lineStart !reason = do
  feed <- findByte 0x0A (jobBuffer job) lineStart (jobEnd job)
  if feed >= jobEnd job then unfinished job lineStart else pure $! refuse reason
{-# NOINLINE malformed #-}

-- | An empty line, or the request line.
firstLine :: Job -> Phase -> Int -> IO Parsed
firstLine job@Job {jobBuffer = buffer, jobEnd = end, jobTable = table} !phase !start
  | start >= end = unfinished job start
  | otherwise = do
    byte <- byteAt buffer start
    case byte of
      0x0D
        | start + 1 >= end -> unfinished job start
        | otherwise -> do
          next <- byteAt buffer (start + 1)
          case phase of
            _ | next /= 0x0A -> malformed job start BareCarriageReturn
            AtStart -> do
              writeField table FieldPhase (fromEnum AfterEmptyLine)
              writeField table FieldLineStart (start + 2)
              firstLine job AfterEmptyLine (start + 2)
            _ -> malformed job start EmptyRequestLine
      0x0A -> malformed job start BareLineFeed
      _ -> requestLine job start

-- | @method SP target SP version CRLF@.
requestLine :: Job -> Int -> IO Parsed
requestLine job@Job {jobBuffer = buffer, jobEnd = end, jobTable = table} !start = do
  space <- tokenEnd buffer start end
  if space >= end
    then unfinished job start
    else do
      byte <- byteAt buffer space
      if byte /= 0x20 || space == start
        then malformed job start (afterMethod byte)
        else do
          method <- recogniseMethod buffer start (space - start) end
          let !target = space + 1
          stop <- targetEnd buffer target end
          if stop >= end
            then unfinished job start
            else do
              after <- byteAt buffer stop
              if after /= 0x20
                then malformed job start (afterTarget after)
                else
                  if stop == target
                    then malformed job start BadRequestLine
                    else do
                      writeField table FieldMethodOffset start
                      writeField table FieldMethodLength (space - start)
                      writeField table FieldTargetOffset target
                      writeField table FieldTargetLength (stop - target)
                      versionPart job start method (stop + 1)
  where
    afterMethod byte
      | byte == 0x0A || byte == 0x0D || byte == 0x20 = BadRequestLine
      | otherwise = BadMethod
    afterTarget byte
      | byte == 0x0A || byte == 0x0D = BadRequestLine
      | otherwise = BadTarget

-- | @HTTP\/1.x CRLF@, and then what depends on the whole line.
versionPart :: Job -> Int -> MethodCode -> Int -> IO Parsed
versionPart job@Job {jobBuffer = buffer, jobEnd = end, jobTable = table} !start !method !version
  | version + 10 <= end = do
    word <- word64At buffer version
    cr <- byteAt buffer (version + 8)
    lf <- byteAt buffer (version + 9)
    case word of
      0x312E312F50545448 | cr == 0x0D, lf == 0x0A -> accepted 1
      0x302E312F50545448 | cr == 0x0D, lf == 0x0A -> accepted 0
      _ -> spelt 0 "HTTP/"
  | otherwise = spelt 0 "HTTP/"
  where
    accepted !minor = do
      writeField table FieldMinorVersion minor
      targetPart job start method (version + 10)

    -- Anything but the two usual spellings, byte by byte.
    spelt :: Int -> String -> IO Parsed
    spelt !i = \case
      expected : others ->
        byteOr (version + i) $ \byte ->
          if fromIntegral byte == fromEnum expected
            then spelt (i + 1) others
            else malformed job start BadVersion
      [] ->
        versionByte isDigitByte (version + 5) $ \major ->
          versionByte (== 0x2E) (version + 6) $ \_ ->
            versionByte isDigitByte (version + 7) $ \minor ->
              byteOr (version + 8) $ \case
                0x0D -> byteOr (version + 9) $ \lf ->
                  if
                      | lf /= 0x0A -> malformed job start BareCarriageReturn
                      | major /= 0x31 -> malformed job start UnsupportedVersion
                      | otherwise -> accepted (if minor == 0x30 then 0 else 1)
                0x0A -> malformed job start BareLineFeed
                _ -> malformed job start BadVersion

    -- Each byte is checked before the next is read, because it may be the line's end.
    versionByte allowed i continue = byteOr i $ \byte ->
      if allowed byte then continue byte else malformed job start BadVersion

    byteOr i continue
      | i >= end = unfinished job start
      | otherwise = byteAt buffer i >>= continue

-- | Which form the target has; the line is complete by now.
targetPart :: Job -> Int -> MethodCode -> Int -> IO Parsed
targetPart job@Job {jobLimits = limits, jobBuffer = buffer, jobTable = table} !start method@(MethodCode code) !next = do
  target <- readField table FieldTargetOffset
  len <- readField table FieldTargetLength
  let !stop = target + len
  first <- byteAt buffer target
  hash <- findByte 0x23 buffer target stop
  if
      | len > limitTarget limits -> malformed job start TargetTooLong
      | hash < stop -> malformed job start BadTarget
      | method == MethodConnect -> do
        port <- checkAuthority buffer (Slice target len)
        if port == PortGiven
          then do
            authority target len
            path stop stop
            accept AuthorityForm
          else malformed job start BadAuthority
      | first == 0x2F -> do
        query <- findByte 0x3F buffer target stop
        path target query
        accept OriginForm
      | first == 0x2A && len == 1 && method == MethodOptions -> do
        path stop stop
        accept AsteriskForm
      | otherwise -> do
        from <- schemeEnd buffer target stop
        if from == target
          then malformed job start BadTarget
          else do
            slash <- findByte 0x2F buffer from stop
            query <- findByte 0x3F buffer from stop
            let !end = min slash query
            port <- checkAuthority buffer (Slice from (end - from))
            if port == BadPort || end == from
              then malformed job start BadAuthority
              else do
                authority from (end - from)
                path end query
                accept AbsoluteForm
  where
    authority offset len = do
      writeField table FieldAuthorityOffset offset
      writeField table FieldAuthorityLength len
    path offset end = do
      writeField table FieldPathOffset offset
      writeField table FieldPathLength (end - offset)
    accept form = do
      writeField table FieldMethod code
      writeField table FieldTargetForm (fromEnum form)
      writeField table FieldPhase (fromEnum AtHeader)
      headerLines job next 0

-- | The index after @http:\/\/@ or @https:\/\/@ at the start of a target, or that start.
schemeEnd :: Ptr Word8 -> Int -> Int -> IO Int
schemeEnd buffer target stop = do
  plain <- matches target "http"
  if not plain
    then pure target
    else do
      secure <- matches (target + 4) "s"
      let after = if secure then target + 5 else target + 4
      slashes <- matches after "://"
      pure $! (if slashes then after + 3 else target)
  where
    matches :: Int -> String -> IO Bool
    matches !i = \case
      [] -> pure True
      expected : others
        | i >= stop -> pure False
        | otherwise -> do
          byte <- byteAt buffer i
          if fromIntegral (lowerByte byte) == fromEnum expected
            then matches (i + 1) others
            else pure False

-- | Parse header lines from the start of one, given the number of lines already in the table.
headerLines :: Job -> Int -> Int -> IO Parsed
headerLines job@Job {jobBuffer = buffer, jobEnd = end, jobTable = table} = line
  where
    line !start !count = do
      colon <- nameEnd buffer start end
      if colon >= end
        then pause start count
        else do
          byte <- byteAt buffer colon
          if byte == 0x3A && colon > start
            then do
              known <- recogniseHeader buffer start (colon - start) end
              stop <- if known >= 0 then pure colon else tokenEnd buffer start colon
              if stop == colon
                then valuePart start count colon known
                else wrong start count BadHeaderName
            else oddLine start count colon byte

    -- A line that does not begin with a name and a colon: perhaps the last one.
    oddLine !start !count !colon byte
      | colon > start = wrong start count $ case byte of
        0x0A -> MissingColon
        0x0D -> MissingColon
        _ | isBlank byte -> SpaceBeforeColon
        _ -> BadHeaderName
      | otherwise = case byte of
        0x0D
          | start + 1 >= end -> pause start count
          | otherwise -> do
            next <- byteAt buffer (start + 1)
            if next == 0x0A
              then finish (start + 2) count
              else wrong start count BareCarriageReturn
        0x0A -> wrong start count BareLineFeed
        0x3A -> wrong start count EmptyHeaderName
        _ | isBlank byte -> wrong start count FoldedHeader
        _ -> wrong start count BadHeaderName

    valuePart !start !count !colon !known = do
      from <- blankEnd buffer (colon + 1) end
      cr <- valueEnd buffer from end
      if cr + 1 >= end
        then tooShort start count cr
        else do
          byte <- byteAt buffer cr
          lf <- byteAt buffer (cr + 1)
          if byte == 0x0D && lf == 0x0A
            then
              if count >= jobHeaders job
                then wrong start count TooManyHeaders
                else do
                  to <- trimEnd buffer from cr
                  addHeader table count start (colon - start) from (to - from) known
                  line (cr + 2) (count + 1)
            else wrong start count (controlReason byte)

    -- At most one byte follows the value: that byte may already be wrong.
    tooShort !start !count !cr
      | cr >= end = pause start count
      | otherwise = do
        byte <- byteAt buffer cr
        if byte == 0x0D then pause start count else wrong start count (controlReason byte)

    controlReason :: Word8 -> RejectReason
    controlReason = \case
      0x0A -> BareLineFeed
      0x0D -> BareCarriageReturn
      _ -> BadHeaderValue

    pause start count = writeField table FieldHeaderCount count >> unfinished job start
    wrong start count reason = writeField table FieldHeaderCount count >> malformed job start reason

    finish !consumed !count = do
      writeField table FieldHeaderCount count
      writeField table FieldHeadLength consumed
      checkHost job

-- | What the whole head must satisfy: one valid Host, and none only in HTTP/1.0.
checkHost :: Job -> IO Parsed
checkHost Job {jobBuffer = buffer, jobTable = table} = do
  hosts <- knownCount table HeaderHost
  minor <- minorVersion table
  case hosts of
    0
      | minor == 0 -> pure complete
      | otherwise -> pure (refuse MissingHost)
    1 -> do
      host <- knownSlice table HeaderHost
      port <- checkAuthority buffer host
      pure $! (if port == BadPort then refuse BadHost else complete)
    _ -> pure (refuse RepeatedHost)

-- Note [Resuming]
-- ~~~~~~~~~~~~~~~
-- A head is parsed line by line, each in one pass. When the bytes end inside a
-- line, the table keeps where the line starts and how far it was looked at; the
-- next call searches only the new bytes for LF, and parses the line again, from
-- its start, when there is one. So each byte is looked at no more than three
-- times, however small the pieces.
--
-- Answers depend on complete lines only: 'malformed' says nothing until the line
-- has its LF, and everything beyond 'limitHeadBytes' is invisible ('jobEnd'), so
-- that "too large" is decided by the first byte that does not fit, whether it has
-- arrived with others or alone.
