{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Static
-- Description : Files beneath a root, over HTTP
-- Stability   : stable
--
-- A path is decoded once and opened beneath the root by openat2(2), so that neither dots
-- nor symbolic links lead out. Small files are cached with their whole reply; large ones go
-- by sendfile(2). Conditions and ranges follow RFC 9110.
--
-- Cost: a hit is one system call; a large file openat2, fstat, sendfile, close.
-- Owner: one 'FileCache' per capability.
module Heddle.Serve.Static
  ( Site (..),
    staticHandler,

    -- * The root
    Root,
    openRoot,
    closeRoot,
    lookAgain,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Http
import Heddle.Http.Conditional
import Heddle.Http.Head (Slice (..), pathSlice)
import Heddle.Http.Head qualified as Head
import Heddle.Http.Range
import Heddle.Http.Reply (Prebuilt (..))
import Heddle.Http.Request (Request (..), withHead)
import Heddle.Http.UriPath
import Heddle.IO.Registration (pauseUntil)
import Heddle.Prim.Atomic (Words, compareAndSet, newWords, readWord, writeWord)
import Heddle.Prim.Buffer (newBuffer, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception (mask_, onException)
import Heddle.Prim.File
import Heddle.Serve.FileCache
import Heddle.Serve.Mime
import Heddle.Serve.Reserve
import Numeric (showHex)
import System.Posix.Types (Fd)

-- | What is served.
data Site = Site
  { -- | The root directory.
    siteRoot :: !Root,
    -- | Names tried, in order, for a directory.
    siteIndexes :: ![ByteString],
    -- | Serve names that begin with a dot (@.well-known@ always is).
    siteHidden :: !Bool,
    -- | The server's name, for prebuilt replies.
    siteServerName :: !ByteString,
    -- | Descriptors for files when clients have taken all others.
    siteReserve :: !Reserve
  }

-- | The directory that a path stands for, looked up again at most once a second, so that a
-- symbolic link can be switched to another directory.
data Root = Root
  { rootPath :: !ByteString,
    -- | Always this number; see 'lookAgain'.
    rootFd :: !Fd,
    -- | Word 0: when the path was last looked up (monotonic nanoseconds); shared, written by
    -- a miss or a check of a cached file, never by a hit.
    rootWords :: !Words
  }

-- | Open a root directory; close it with 'closeRoot'.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError': ENOENT, ENOTDIR, EACCES.
openRoot :: ByteString -> IO Root
openRoot path = mask_ $ do
  ws <- newWords 1
  Deadline now <- monotonicNow
  writeWord ws 0 now
  fd <- fromIntegral <$> checked (C.unpack path) (openFile path directoryOnly)
  pure (Root path fd ws)

-- | Give the root's descriptor back.
closeRoot :: Root -> IO ()
closeRoot = void . closeFile . rootFd

-- | Look the root's path up now. Another directory takes the old one's place under the same
-- descriptor number, in one step: a request that is opening a file keeps what it began with.
-- If the path stands for no directory at the moment, the old one stays.
--
-- [Blocks]: holds an OS thread.
-- [Threads]: any.
lookAgain :: Root -> IO ()
lookAgain root = mask_ $ do
  r <- openFile (rootPath root) directoryOnly
  when (r >= 0) $ do
    let new = fromIntegral r
    same <- (==) <$> identity new <*> identity (rootFd root)
    unless same (void (replaceFile new (rootFd root)))
    void (closeFile new)
  where
    identity fd = either (const Nothing) (\s -> Just (statusDevice s, statusInode s)) <$> fileStatus fd

-- The root as it was a second ago at most.
currentRoot :: Root -> Deadline -> IO Fd
currentRoot root (Deadline now) = do
  before <- readWord (rootWords root) 0
  when (now - before >= 1000000000) $ do
    won <- compareAndSet (rootWords root) 0 before now
    when won (lookAgain root)
  pure (rootFd root)

-- Larger files are not kept in memory but sent from the page cache.
smallFile :: Int64
smallFile = 65536

-- | Answer one request from the site, through a capability's cache.
staticHandler :: Site -> FileCache -> Handler
staticHandler site cache request = do
  code <- method request
  if code == MethodGet || code == MethodHead
    then do
      found <- withHead request $ \p table -> do
        Slice offset n <- pathSlice table
        lookupPath cache (p `plusPtr` offset) n
      case found of
        Just entry -> do
          checked' <- entryChecked entry
          if requestBegan request < after (seconds 1) checked'
            then current request code entry
            else mask_ (revalidate site cache request code entry)
        -- Masked: a descriptor is open between here and the reply.
        Nothing -> mask_ (uncached site cache request code)
    else other code
  where
    other code
      | code == MethodOptions = pure (Whole status204 [allow] "")
      | code == MethodOther = pure (problem status501 "This method is not known here.")
      | otherwise = pure (withHeaders [allow] (problem status405 "Only GET, HEAD and OPTIONS are served here."))
    allow = Header "Allow" "GET, HEAD, OPTIONS"

-- A cached file that is known to be current.
current :: Request -> MethodCode -> Entry -> IO Reply
current request code entry = do
  special <- withHead request $ \_ table -> do
    conditions <- hasPreconditions table
    ranges <- Head.knownCount table HeaderRange
    pure (conditions || ranges > 0)
  if not special
    then pure (Ready (entryReply entry))
    else do
      let reply = entryReply entry
          size = stampSize (entryStamp entry)
      deciding request code (entryValidators entry) (entryMedia entry) size (Ready (entryReply entry)) (Ready (entryUnchanged entry)) $ \(ByteRange from to) ->
        SegmentBytes <$> copyOut reply (fromIntegral from) (fromIntegral (to - from + 1))
{-# INLINE current #-}

copyOut :: Prebuilt -> Int -> Int -> IO ByteString
copyOut reply from n = withBuffer (prebuiltBuffer reply) $ \p ->
  B.packCStringLen (castPtr p `plusPtr` (prebuiltHead reply + from), n)

revalidate :: Site -> FileCache -> Request -> MethodCode -> Entry -> IO Reply
revalidate site cache request code entry = do
  same <- withOpened site request (entryFile entry) (\_ status -> pure (statusKind status == RegularFile && stampOf status == entryStamp entry))
  case same of
    Right True | trusted -> markChecked entry (requestBegan request) >> current request code entry
    -- What is at hand is better than nothing.
    Left e | e `elem` [EMFILE, ENFILE, ENOMEM] -> current request code entry
    _ -> removeEntry cache (entryPath entry) >> uncached site cache request code
  where
    -- A file read right after it changed may have changed again within the same tick of its
    -- clock; and another index may have come before this one.
    trusted = entrySettled entry && not ("/" `B.isSuffixOf` entryPath entry)

-- Conditions first, then ranges (RFC 9110, section 13.2.2).
deciding ::
  Request ->
  MethodCode ->
  Validators ->
  ByteString ->
  Int64 ->
  Reply ->
  Reply ->
  (ByteRange -> IO Segment) ->
  IO Reply
deciding request code validators media size whole unchanged part = do
  preconditions <- withHead request preconditionsOf
  case evaluate code (Just validators) preconditions of
    NotModified -> pure unchanged
    PreconditionFailed -> pure (withHeaders (validatorHeaders validators) (problem status412 "The file is not in the state that the request asks for."))
    Proceed -> do
      asked <- header request HeaderRange
      second <- epochNow
      case asked of
        Just ranges
          | code == MethodGet,
            maybe True (ifRangeHolds second validators) (ifRange preconditions) ->
            case parseRange ranges size of
              RangeIgnored -> pure whole
              RangeUnsatisfiable ->
                pure (withHeaders [Header "Content-Range" (contentRangeUnsatisfied size)] (problem status416 "No part of the file lies in the range asked for."))
              RangeParts (one :| []) -> do
                segment <- part one
                pure (Segments status206 (Header "Content-Range" (contentRange one size) : Header "Content-Type" media : common) [segment] (pure ()))
              RangeParts parts -> multipart parts
        _ -> pure whole
  where
    common = fileHeaders validators
    multipart parts = do
      pieces <- mapM (\r -> (,) r <$> part r) (NonEmpty.toList parts)
      let boundary = "heddle-" <> maybe "part" (B.filter (/= 34) . etagOpaque) (currentETag validators)
          opening r =
            B.concat
              ["\r\n--", boundary, "\r\nContent-Type: ", media, "\r\nContent-Range: ", contentRange r size, "\r\n\r\n"]
          segments = concat [[SegmentBytes (opening r), s] | (r, s) <- pieces]
      pure $
        Segments
          status206
          (Header "Content-Type" ("multipart/byteranges; boundary=" <> boundary) : common)
          (segments ++ [SegmentBytes ("\r\n--" <> boundary <> "--\r\n")])
          (pure ())

-- A path that is not in the cache.
uncached :: Site -> FileCache -> Request -> MethodCode -> IO Reply
uncached site cache request code = do
  raw <- rawPath request
  case decodePath raw of
    Left e -> pure (problem (pathErrorStatus e) (pathErrorText e))
    Right path
      | not (siteHidden site) && hidden (pathRelative path) -> pure notFound
      | otherwise -> file raw path
  where
    file raw path = do
      opened <- openHere site request (pathRelative path)
      case opened of
        Left e -> pure (openFailed e)
        Right (fd, status) -> case statusKind status of
          RegularFile
            | pathTrailingSlash path && not (B.null (pathRelative path)) -> notFound <$ closeFile fd
            | otherwise -> serveOpened site cache request code (keyOf raw path) (pathRelative path) fd status
          Directory -> do
            _ <- closeFile fd
            if pathTrailingSlash path || B.null (pathRelative path)
              then index raw path (siteIndexes site)
              else redirect path
          OtherKind -> problem status403 "This is not a file." <$ closeFile fd
    index _ _ [] = pure (problem status403 "This directory has no index, and listings are off.")
    index raw path (name : rest) = do
      let inside
            | B.null (pathRelative path) = name
            | otherwise = pathRelative path <> "/" <> name
      opened <- openHere site request inside
      case opened of
        Right (fd, status)
          | statusKind status == RegularFile -> serveOpened site cache request code (keyOf raw path) inside fd status
          | otherwise -> closeFile fd >> index raw path rest
        Left e
          | e `elem` [ENOENT, ENOTDIR] -> index raw path rest
          | otherwise -> pure (openFailed e)
    -- Only the canonical spelling is remembered, or one file could fill the cache.
    keyOf raw path = if isCanonical raw path then Just raw else Nothing
    redirect path = do
      q <- query request
      let place = encodePath path {pathTrailingSlash = True} <> (if B.null q then "" else "?" <> q)
      pure (withHeaders [Header "Location" place] (problem status301 "The directory is at this address with a slash."))

hidden :: ByteString -> Bool
hidden path = any (\part -> "." `B.isPrefixOf` part && part /= ".well-known") (C.split '/' path)

-- An open regular file: remember it if it is small, else send it from the page cache.
serveOpened :: Site -> FileCache -> Request -> MethodCode -> Maybe ByteString -> ByteString -> Fd -> FileStatus -> IO Reply
serveOpened site cache request code key relative fd status
  | statusSize status <= smallFile = do
    made <- remember site (requestBegan request) (fromMaybe "" key) relative fd status `onException` closeFile fd
    _ <- closeFile fd
    case made of
      Nothing -> pure (problem status503 "The file is being changed; try again.")
      Just entry -> do
        for_ key (\_ -> insertEntry cache entry)
        current request code entry
  | otherwise = do
    let size = statusSize status
        validators = validatorsOf status
        media = mediaType relative
        base = Header "Content-Type" media : fileHeaders validators
        segment (ByteRange from to) = pure (SegmentFile fd from (fromIntegral (to - from + 1)))
        whole = Segments status200 base [SegmentFile fd 0 (fromIntegral size)] (pure ())
    reply <-
      deciding request code validators media size whole (Whole status304 (fileHeaders validators) "") segment
        `onException` closeFile fd
    releasing fd reply

-- The descriptor is closed after the reply, or at once if the reply does not need it.
releasing :: Fd -> Reply -> IO Reply
releasing fd = \case
  Segments s h parts release | any fromFile parts -> pure (Segments s h parts (release >> void (closeFile fd)))
  reply -> reply <$ closeFile fd
  where
    fromFile = \case SegmentFile {} -> True; SegmentBytes _ -> False

-- Read a small file whole; 'Nothing' if it changes meanwhile.
remember :: Site -> Deadline -> ByteString -> ByteString -> Fd -> FileStatus -> IO (Maybe Entry)
remember site now raw relative fd status = do
  let size = fromIntegral (statusSize status) :: Int
      validators = validatorsOf status
      media = mediaType relative
  content <- newBuffer (max 1 size)
  n <- withBuffer content (\p -> readFully fd p size)
  if n /= size
    then pure Nothing
    else do
      let fill p = withBuffer content $ \q -> copyBytes p q size
      reply <- newPrebuilt (siteServerName site) status200 (Header "Content-Type" media : fileHeaders validators) (ContentOf size fill)
      unchanged <- newPrebuilt (siteServerName site) status304 (fileHeaders validators) NoContent
      EpochSeconds second <- epochNow
      let settled = second - max (statusSeconds status) (statusChanged status) > 2
      Just <$> newEntry now (Entry raw relative settled (stampOf status) validators media reply unchanged)

-- | Read so many bytes from the start; fewer only at the file's end or after an error.
readFully :: Fd -> Ptr Word8 -> Int -> IO Int
readFully fd p size = go 0
  where
    go done
      | done >= size = pure done
      | otherwise = do
        quick <- readAtNoWait fd (p `plusPtr` done) (size - done) (fromIntegral done)
        n <- if quick > 0 then pure quick else readAt fd (p `plusPtr` done) (size - done) (fromIntegral done)
        if n > 0
          then go (done + n)
          else if Errno (negate n) == EINTR then go done else pure done

-- Opening ----------------------------------------------------------------------

openHere :: Site -> Request -> ByteString -> IO (Either Errno (Fd, FileStatus))
openHere site request relative = do
  let path = if B.null relative then "." else relative
  root <- currentRoot (siteRoot site) (requestBegan request)
  cached <- openBeneathCached root path readOnly
  r <-
    if cached >= 0 || Errno (negate cached) `elem` [ENOENT, ENOTDIR, EXDEV]
      then pure cached
      else openBeneath root path readOnly
  got <- if exhausted r then patiently (20 :: Int) root path else pure r
  if got < 0
    then pure (Left (Errno (negate got)))
    else do
      let fd = fromIntegral got
      fileStatus fd `onException` closeFile fd >>= \case
        Right status -> pure (Right (fd, status))
        Left e -> Left (Errno (negate e)) <$ closeFile fd
  where
    exhausted r = Errno (negate r) `elem` [EMFILE, ENFILE]
    -- Other requests give descriptors back within milliseconds; a client rather waits.
    patiently tries root path = do
      r <- lending (siteReserve site) (openBeneath root path readOnly)
      if exhausted r && tries > 0
        then do
          deadlineIn (milliseconds 10) >>= pauseUntil (requestConn request)
          patiently (tries - 1) root path
        else pure r

withOpened :: Site -> Request -> ByteString -> (Fd -> FileStatus -> IO a) -> IO (Either Errno a)
withOpened site request relative use =
  openHere site request relative >>= \case
    Left e -> pure (Left e)
    Right (fd, status) -> do
      r <- use fd status `onException` closeFile fd
      Right r <$ closeFile fd

openFailed :: Errno -> Reply
openFailed e
  | e `elem` [ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL] = notFound
  -- A socket, or a device without a driver.
  | e `elem` [ENXIO, ENODEV] = problem status403 "This is not a file."
  | e `elem` [EACCES, EPERM] = problem status403 "The server may not read this file."
  | e == EXDEV = problem status403 "This path leads out of the site."
  | e `elem` [EMFILE, ENFILE, ENOMEM, EAGAIN] = problem status503 "The server is out of descriptors or memory; try again."
  | otherwise = problem status500 "The file could not be opened."

notFound :: Reply
notFound = problem status404 "There is nothing at this address."

-- Headers -----------------------------------------------------------------------

stampOf :: FileStatus -> Stamp
stampOf s = Stamp (statusSize s) (statusSeconds s) (statusNanos s) (statusInode s) (statusDevice s) (statusChanged s) (statusChangedNanos s)

validatorsOf :: FileStatus -> Validators
validatorsOf s =
  Validators
    { currentETag = Just (ETag False tag),
      currentModified = Just (EpochSeconds (statusSeconds s))
    }
  where
    -- The time of change, too: nobody can set it back, as rsync and tar set the other one.
    tag = C.intercalate "-" (map hex [statusSize s, time (statusSeconds s) (statusNanos s), time (statusChanged s) (statusChangedNanos s), statusInode s])
    time second rest = second * 1000000000 + rest
    hex n = C.pack (showHex (fromIntegral n :: Word) "")

validatorHeaders :: Validators -> [Header]
validatorHeaders v =
  maybe [] (\t -> [Header "ETag" (renderETag t)]) (currentETag v)
    ++ maybe [] (\m -> [Header "Last-Modified" (formatHttpDate m)]) (currentModified v)

fileHeaders :: Validators -> [Header]
fileHeaders v = validatorHeaders v ++ [Header "Accept-Ranges" "bytes"]

problem :: Status -> ByteString -> Reply
problem status text =
  Whole
    status
    [Header "Content-Type" "text/html; charset=utf-8"]
    (B.concat ["<!doctype html>\n<title>", code, "</title>\n<h1>", code, "</h1>\n<p>", text, "</p>\n"])
  where
    code = C.pack (show (statusCode status)) <> " " <> reasonPhrase status

withHeaders :: [Header] -> Reply -> Reply
withHeaders extra = \case
  Whole s h b -> Whole s (extra ++ h) b
  reply -> reply
