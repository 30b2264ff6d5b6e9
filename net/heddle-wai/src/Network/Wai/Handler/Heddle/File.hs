{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.File
-- Description : Responses that are files
-- Stability   : hidden
--
-- A file with a part is sent as the application says. Without one the server answers conditions and
-- ranges itself, as Warp does; unlike Warp it does so only for a status of 200, so that a page for
-- 404 stays one, and it answers by an application's ETag too.
--
-- Cost: open, fstat, sendfile, close.
-- Owner: the reply's release action closes the file.
module Network.Wai.Handler.Heddle.File
  ( fileReply,

    -- * Asking about files
    FileInfo (..),
    getFileInfo,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Functor (void)
import Data.Int (Int64)
import Data.List.NonEmpty (NonEmpty (..))
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Bytes.HttpDate (formatHttpDate, parseHttpDate)
import Heddle.Http (Header (..), KnownHeader (..), Reply (..), Segment (..), Status)
import Heddle.Http qualified as Http
import Heddle.Http.Borrowed (preconditions)
import Heddle.Http.Conditional
import Heddle.Http.Range
import Heddle.Prim.Clock (EpochSeconds (..), epochNow)
import Heddle.Prim.Exception (mask_)
import Heddle.Prim.File
import Network.Wai (FilePart (..), Request)
import System.Posix.Types (EpochTime, Fd)

-- | What is known of a file.
data FileInfo = FileInfo
  { fileInfoName :: !FilePath,
    fileInfoSize :: !Integer,
    -- | When its content changed last.
    fileInfoTime :: !EpochTime,
    -- | The same, as a Last-Modified header has it.
    fileInfoDate :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Ask about a file that can be read. There is no cache: what it says is true now.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError' if there is no such file, it cannot be read, or is a directory or another special file.
getFileInfo :: Request -> FilePath -> IO FileInfo
getFileInfo _ path =
  mask_ (readable path >>= traverse (\(fd, file) -> file <$ closeFile fd)) >>= \case
    Nothing -> ioError (userError ("getFileInfo: " ++ show path ++ " is no file that can be read"))
    Just file -> do
      let modified = statusSeconds file
      pure (FileInfo path (fromIntegral (statusSize file)) (fromIntegral modified) (formatHttpDate (EpochSeconds modified)))

-- A regular file's descriptor, open for reading, and its status.
readable :: FilePath -> IO (Maybe (Fd, FileStatus))
readable path = do
  encoding <- getFileSystemEncoding
  name <- Foreign.withCStringLen encoding path B.packCStringLen
  opened <- if B.elem 0 name then pure (-1) else openFile name readOnly
  if opened < 0
    then pure Nothing
    else do
      let fd = fromIntegral opened :: Fd
      found <- fileStatus fd
      case found of
        Right file | statusKind file == RegularFile -> pure (Just (fd, file))
        _ -> Nothing <$ closeFile fd

-- | The reply that is a file; 404 if it cannot be read. The caller is masked until the engine
-- has the reply: it closes the file.
--
-- [Blocks]: holds an OS thread.
fileReply :: Http.Request -> Status -> [Header] -> FilePath -> Maybe FilePart -> IO Reply
fileReply request status headers path part = readable path >>= maybe (pure notFound) (uncurry decide)
  where
    notFound = Whole Http.status404 (Header "Content-Type" "text/plain; charset=utf-8" : without "content-type" headers) "File not found"
    decide fd file = case part of
      Just (FilePart offset count size) ->
        pure (piece fd status (addRange (fromIntegral offset) (fromIntegral count) (fromIntegral size) headers) (fromIntegral offset) (fromIntegral count))
      Nothing
        | status == Http.status200 -> conditional request headers fd file
        | otherwise -> pure (piece fd status headers 0 (statusSize file))

-- Conditions and ranges, in the order of RFC 9110, section 13.2.2.
conditional :: Http.Request -> [Header] -> Fd -> FileStatus -> IO Reply
conditional request given fd file = do
  conditions <- preconditions request
  method <- Http.method request
  range <- Http.header request HeaderRange
  now <- epochNow
  let size = statusSize file
      modified = EpochSeconds (statusSeconds file)
      ownModified = field "last-modified" given
      validators =
        Validators
          { currentETag = field "etag" given >>= parseETag,
            currentModified = maybe (Just modified) parseHttpDate ownModified
          }
      headers = maybe (Header "Last-Modified" (formatHttpDate modified) :) (const id) ownModified given
      -- A Range counts for GET only; Warp's clients also ask HEAD what they would get.
      ranged = method == Http.MethodGet || method == Http.MethodHead
      wanted = case range of
        Just value | ranged && maybe True (ifRangeHolds now validators) (ifRange conditions) -> parseRange value size
        _ -> RangeIgnored
      none code extra = Whole code (extra ++ headers) "" <$ closeFile fd
  case evaluate method (Just validators) conditions of
    NotModified -> none Http.status304 []
    PreconditionFailed -> none Http.status412 []
    Proceed -> case wanted of
      RangeUnsatisfiable -> none Http.status416 [Header "Content-Range" (contentRangeUnsatisfied size)]
      -- Several ranges would need a multipart body; RFC 9110, section 14.2, lets a server ignore them.
      RangeParts (one :| []) | rangeLength one < size -> do
        let offset = rangeFirst one
            count = rangeLength one
        pure (piece fd Http.status206 (addRange offset count size headers) offset count)
      _ -> pure (piece fd Http.status200 (addRange 0 size size headers) 0 size)

piece :: Fd -> Status -> [Header] -> Int64 -> Int64 -> Reply
piece fd status headers offset count =
  Segments status headers [SegmentFile fd offset (fromIntegral count)] (void (closeFile fd))

-- Accept-Ranges, and Content-Range for less than all, unless the application says them.
addRange :: Int64 -> Int64 -> Int64 -> [Header] -> [Header]
addRange offset count size headers = partial (absent "accept-ranges" (Header "Accept-Ranges" "bytes") headers)
  where
    partial
      | count == size || count <= 0 = id
      | otherwise = absent "content-range" (Header "Content-Range" (contentRange (ByteRange offset (offset + count - 1)) size))
    absent name header' list = case field name list of
      Nothing -> header' : list
      Just _ -> list

field :: ByteString -> [Header] -> Maybe ByteString
field lower headers = case [value | Header name value <- headers, isNamed lower name] of
  value : _ -> Just value
  [] -> Nothing

without :: ByteString -> [Header] -> [Header]
without lower headers = [one | one@(Header name _) <- headers, not (isNamed lower name)]

isNamed :: ByteString -> ByteString -> Bool
isNamed lower name = B.length name == B.length lower && C.map toLower name == lower
