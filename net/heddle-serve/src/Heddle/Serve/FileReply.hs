{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.FileReply
-- Description : What is answered about a file
-- Stability   : internal, exempt from the version policy
--
-- The headers of every reply about a file, and the choice between the whole file, parts of
-- it, 304, 412 and 416. The caller provides the content, from the cache or a descriptor: see
-- 'Content'.
--
-- Cost: none for a cached file requested without conditions and ranges, which does not come here.
-- Owner: values.
module Heddle.Serve.FileReply
  ( -- * A version of a file
    Representation (..),
    representationOf,

    -- * Headers
    FileReply (..),
    fileHeaders,

    -- * Conditions and ranges
    Content (..),
    conditionalReply,

    -- * Replies without a file
    problem,
    notFound,
    refusalOf,
    notAFile,
    noIndex,
    withHeaders,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Int (Int64)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Http
import Heddle.Http.Borrowed (preconditions)
import Heddle.Http.Conditional
import Heddle.Http.Range
import Heddle.Prim.Clock (EpochSeconds (..), epochNow)
import Heddle.Prim.Errno
import Heddle.Prim.File (FileStatus (..))
import Heddle.Serve.Coding (Coding (..), codingName)
import Heddle.Serve.FileOptions (TagParts (..))
import Numeric (showHex)

-- | One version of a file, as HTTP describes it.
--
-- [Source]: RFC 9110, section 3.2.
data Representation = Representation
  { representationValidators :: !Validators,
    -- | The Content-Type.
    representationMedia :: !ByteString,
    -- | In bytes, as it is sent.
    representationSize :: !Int64,
    -- | How it is coded.
    representationCoding :: !Coding,
    -- | Headers of all replies about it, such as Vary and those that the options add.
    representationMore :: ![Header]
  }
  deriving stock (Eq, Show)

-- | Describe what a file is sent as: its media type, its status, its coding, whether the server made that coding from the file, and
-- further headers.
representationOf :: TagParts -> ByteString -> FileStatus -> Coding -> Bool -> [Header] -> Representation
representationOf parts media status coding made more =
  Representation
    { representationValidators = validatorsOf parts status (if made then "-" <> codingName coding else ""),
      representationMedia = media,
      representationSize = statusSize status,
      representationCoding = coding,
      representationMore = more
    }

-- A compressed sibling is a file of its own, with a tag of its own; what the server makes from a file shares the
-- file's times and inode, so the tag names the coding.
validatorsOf :: TagParts -> FileStatus -> ByteString -> Validators
validatorsOf parts status suffix =
  Validators
    { currentETag = Just (ETag False tag),
      currentModified = Just (EpochSeconds (statusSeconds status))
    }
  where
    -- Copying, by tar or into an image of a container, often keeps whole seconds only.
    tag = case parts of
      TagOfMtimeAndSize -> C.intercalate "-" (map hex [statusSeconds status, statusSize status]) <> suffix
      TagOfAll -> whole
    -- The time of change is part of the tag because no program can set it back, as rsync and
    -- tar do with the time of modification.
    whole = C.intercalate "-" (map hex [statusSize status, modified, changed, statusInode status]) <> suffix
    modified = statusSeconds status * 1000000000 + statusNanos status
    changed = statusChanged status * 1000000000 + statusChangedNanos status
    hex n = C.pack (showHex (fromIntegral n :: Word) "")

-- | The kinds of reply about a file that exists.
data FileReply
  = -- | 200.
    WholeFile
  | -- | 206 with one part.
    OnePart !ByteRange
  | -- | 206 with several parts, separated by this boundary.
    SeveralParts !ByteString
  | -- | 304.
    Unchanged
  | -- | 412.
    ConditionFailed
  | -- | 416.
    NoSuchPart

-- | The headers of a reply about a file. All of them are listed here and nowhere else; the
-- engine adds Date, Server, Content-Length and Connection.
--
-- A header that clients and caches may need, such as Cache-Control, belongs to @always@: RFC
-- 9110 (sections 15.3.7 and 15.4.5) wants it in 206 and 304 as in 200.
fileHeaders :: Representation -> FileReply -> [Header]
fileHeaders file = \case
  WholeFile -> contentType (representationMedia file) : coded ++ always
  OnePart range -> contentRangeIs (contentRange range size) : contentType (representationMedia file) : coded ++ always
  SeveralParts boundary -> contentType ("multipart/byteranges; boundary=" <> boundary) : coded ++ always
  Unchanged -> always
  ConditionFailed -> validators
  NoSuchPart -> [contentRangeIs (contentRangeUnsatisfied size)]
  where
    always = validators ++ Header "Accept-Ranges" "bytes" : representationMore file
    coded = [Header "Content-Encoding" (codingName (representationCoding file)) | representationCoding file /= Identity]
    validators =
      [Header "ETag" (renderETag tag) | Just tag <- [currentETag (representationValidators file)]]
        ++ [Header "Last-Modified" (formatHttpDate time) | Just time <- [currentModified (representationValidators file)]]
    contentType = Header "Content-Type"
    contentRangeIs = Header "Content-Range"
    size = representationSize file

-- | How the content of a representation is sent.
data Content = Content
  { -- | 200 with all of it.
    contentWhole :: Reply,
    -- | 304.
    contentUnchanged :: Reply,
    -- | The content of a 206.
    contentPart :: ByteRange -> IO Segment
  }

-- | Answer GET or HEAD for a file that exists: conditions first, then ranges.
--
-- [Source]: RFC 9110, section 13.2.2.
conditionalReply :: Request -> MethodCode -> Representation -> Content -> IO Reply
conditionalReply request code file content = do
  conditions <- preconditions request
  case evaluate code (Just (representationValidators file)) conditions of
    NotModified -> pure (contentUnchanged content)
    PreconditionFailed ->
      pure (withHeaders (fileHeaders file ConditionFailed) (problem status412 "The file is not in the state that the request asks for."))
    Proceed ->
      rangesAsked request code file conditions >>= \case
        RangeIgnored -> pure (contentWhole content)
        RangeUnsatisfiable ->
          pure (withHeaders (fileHeaders file NoSuchPart) (problem status416 "No part of the file lies in the range asked for."))
        RangeParts (range :| []) -> onePart file content range
        RangeParts ranges -> severalParts file content ranges

-- A Range header counts in a GET whose If-Range, if there is one, holds.
rangesAsked :: Request -> MethodCode -> Representation -> Preconditions -> IO RangeAnswer
rangesAsked request code file conditions
  | code /= MethodGet = pure RangeIgnored
  | otherwise = do
    asked <- header request HeaderRange
    now <- epochNow
    pure $ case asked of
      Just ranges
        | maybe True (ifRangeHolds now (representationValidators file)) (ifRange conditions) ->
          parseRange ranges (representationSize file)
      _ -> RangeIgnored

onePart :: Representation -> Content -> ByteRange -> IO Reply
onePart file content range = do
  segment <- contentPart content range
  pure (Segments status206 (fileHeaders file (OnePart range)) [segment] (pure ()))

severalParts :: Representation -> Content -> NonEmpty ByteRange -> IO Reply
severalParts file content ranges = do
  parts <- traverse part (NonEmpty.toList ranges)
  pure (Segments status206 (fileHeaders file (SeveralParts boundary)) (concat parts ++ [SegmentBytes end]) (pure ()))
  where
    boundary = "heddle-" <> maybe "part" (B.filter (/= 34) . etagOpaque) (currentETag (representationValidators file))
    part range = do
      segment <- contentPart content range
      pure [SegmentBytes (opening range), segment]
    opening range =
      B.concat
        [ "\r\n--",
          boundary,
          "\r\nContent-Type: ",
          representationMedia file,
          "\r\nContent-Range: ",
          contentRange range (representationSize file),
          "\r\n\r\n"
        ]
    end = B.concat ["\r\n--", boundary, "--\r\n"]

-- | An error page of one sentence.
problem :: Status -> ByteString -> Reply
problem status text =
  Whole
    status
    [Header "Content-Type" "text/html; charset=utf-8"]
    (B.concat ["<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>", code, "</title>\n<h1>", code, "</h1>\n<p>", text, "</p>\n"])
  where
    code = C.pack (show (statusCode status)) <> " " <> reasonPhrase status

-- | Choose the answer for a path that cannot be opened: this status and sentence; 'Nothing' if there is no file there, which
-- another page may answer for.
refusalOf :: Errno -> Maybe (Status, ByteString)
refusalOf e
  | e `elem` [ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL] = Nothing
  -- A socket, or a device without a driver.
  | e `elem` [ENXIO, ENODEV] = Just notAFile
  | e `elem` [EACCES, EPERM] = Just (status403, "The server may not read this file.")
  | e == EXDEV = Just (status403, "A symbolic link leads out of the site.")
  | e `elem` [EMFILE, ENFILE, ENOMEM, EAGAIN] = Just (status503, "The server is out of descriptors or memory; try again.")
  | otherwise = Just (status500, "The file could not be opened.")

-- | For what is neither a file nor a directory.
notAFile :: (Status, ByteString)
notAFile = (status403, "This is not a file.")

-- | For a directory.
noIndex :: (Status, ByteString)
noIndex = (status403, "This directory has no index, and listings are off.")

-- | 404.
notFound :: Reply
notFound = problem status404 "There is nothing at this address."

-- | Put headers before those of a 'Whole' reply.
withHeaders :: [Header] -> Reply -> Reply
withHeaders extra = \case
  Whole status headers' body -> Whole status (extra ++ headers') body
  reply -> reply
