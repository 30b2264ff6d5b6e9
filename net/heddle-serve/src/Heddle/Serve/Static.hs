{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Static
-- Description : Files beneath a root, over HTTP
-- Stability   : internal, exempt from the version policy
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
    staticAtOnce,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.Range (ByteRange (..), rangeLength)
import Heddle.Http.UriPath
import Heddle.Prim.Buffer (newBuffer, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception (mask_, onException, try, unsafeUnmask)
import Heddle.Prim.File
import Heddle.Serve.DescriptorReserve
import Heddle.Serve.FileCache
import Heddle.Serve.FileReply
import Heddle.Serve.Root
import Heddle.Serve.Routes
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
    siteReserve :: !DescriptorReserve,
    -- | Answered by gateways.
    siteRoutes :: !Routes
  }

-- Larger files are sent from the page cache instead of kept in memory.
smallFile :: Int64
smallFile = 65536

-- | Answer one request from the site, through a capability's cache.
staticHandler :: Site -> FileCache -> Handler
staticHandler site cache request = do
  code <- method request
  if code == MethodGet || code == MethodHead
    then do
      found <- withPath request (lookupPath cache)
      let serving = Serving site cache request code
      case found of
        Just entry -> do
          checked' <- entryChecked entry
          if requestBegan request < after (seconds 1) checked'
            then current request code entry
            else mask_ (revalidate serving entry)
        Nothing -> routed site cache request (uncached serving)
    else routed site cache request (\_ _ -> pure (otherMethod code))

-- What the routes do not take; see Note [Routes and the cache].
routed :: Site -> FileCache -> Request -> (ByteString -> Either PathError UriPath -> IO Reply) -> IO Reply
routed site cache request file = do
  raw <- rawPath request
  let decoded = decodePath raw
  case decoded of
    Right path
      | Just found <- findRoute (siteRoutes site) path,
        not (foundFile found && isHidden site (pathRelative path)) ->
        throughRoute site cache request found
    _ -> file raw decoded
{-# INLINE routed #-}

-- A gateway's answer, or the file that its program names instead.
throughRoute :: Site -> FileCache -> Request -> Found -> IO Reply
throughRoute site cache request found =
  try (foundGateway found (foundPlace found) request) >>= \case
    Right reply -> pure reply
    -- GET, whatever the request was.
    Left (LocalFile path) -> do
      code <- method request
      if isHidden site (pathRelative path)
        then pure notFound
        else mask_ (servePath (Serving site cache request (if code == MethodHead then MethodHead else MethodGet)) Nothing path)

-- | The reply to a request for a whole file that is in the cache and known to be current.
--
-- It never answers for a route: see Note [Routes and the cache].
--
-- [Blocks]: never.
staticAtOnce :: FileCache -> Request -> IO (Maybe Reply)
staticAtOnce cache request = do
  code <- method request
  if code /= MethodGet && code /= MethodHead
    then pure Nothing
    else
      withPath request (lookupPath cache) >>= \case
        Nothing -> pure Nothing
        Just entry -> do
          checked' <- entryChecked entry
          conditional <- isConditional request
          ranged <- hasHeader request HeaderRange
          pure (if requestBegan request < after (seconds 1) checked' && not (conditional || ranged) then Just (Ready (entryReply entry)) else Nothing)

otherMethod :: MethodCode -> Reply
otherMethod code
  | code == MethodOptions = Whole status204 [allow] ""
  | code == MethodOther = problem status501 "This method is not known here."
  | otherwise = withHeaders [allow] (problem status405 "Only GET, HEAD and OPTIONS are served here.")
  where
    allow = Header "Allow" "GET, HEAD, OPTIONS"

-- A GET or HEAD that the cache alone cannot answer.
data Serving = Serving
  { servingSite :: !Site,
    servingCache :: !FileCache,
    servingRequest :: !Request,
    -- GET or HEAD.
    servingMethod :: !MethodCode
  }

-- A cached file that is known to be current.
current :: Request -> MethodCode -> Entry -> IO Reply
current request code entry = do
  conditional <- isConditional request
  ranged <- hasHeader request HeaderRange
  if not (conditional || ranged)
    then pure (Ready (entryReply entry))
    else conditionalReply request code (entryRepresentation entry) (cachedContent entry)
{-# INLINE current #-}

cachedContent :: Entry -> Content
cachedContent entry =
  Content
    { contentWhole = Ready (entryReply entry),
      contentUnchanged = Ready (entryUnchanged entry),
      contentPart = \range ->
        SegmentBytes <$> prebuiltPart (entryReply entry) (fromIntegral (rangeFirst range)) (fromIntegral (rangeLength range))
    }

-- A cached file that was last compared with the disk more than a second ago.
revalidate :: Serving -> Entry -> IO Reply
revalidate serving entry = do
  same <- withOpened site request (entryFile entry) $ \file ->
    pure (statusKind (openStatus file) == RegularFile && stampOf (openStatus file) == entryStamp entry)
  case same of
    Right True | trusted -> markChecked entry (requestBegan request) >> current request code entry
    -- Without a descriptor to check with, the cached version is better than an error.
    Left e | e `elem` [EMFILE, ENFILE, ENOMEM] -> current request code entry
    _ -> removeEntry cache (entryPath entry) >> (rawPath request >>= \raw -> uncached serving raw (decodePath raw))
  where
    site = servingSite serving
    cache = servingCache serving
    request = servingRequest serving
    code = servingMethod serving
    -- A file read right after it changed may have changed again within the same tick of its
    -- clock; and another index may have come before this one.
    trusted = entrySettled entry && not ("/" `B.isSuffixOf` entryPath entry)

-- A path that is not in the cache, as sent and decoded. Masked where a descriptor is open before the reply has it.
uncached :: Serving -> ByteString -> Either PathError UriPath -> IO Reply
uncached serving raw = \case
  Left e -> pure (problem (pathErrorStatus e) (pathErrorText e))
  Right path
    | isHidden (servingSite serving) (pathRelative path) -> pure notFound
    -- Only the canonical spelling is remembered, or one file could fill the cache.
    | otherwise -> mask_ (servePath serving (if isCanonical raw path then Just raw else Nothing) path)

isHidden :: Site -> ByteString -> Bool
isHidden site path = not (siteHidden site) && any (\part -> "." `B.isPrefixOf` part && part /= ".well-known") (C.split '/' path)

-- A decoded path, and the key under which a small file found there is cached.
servePath :: Serving -> Maybe ByteString -> UriPath -> IO Reply
servePath serving key path =
  openHere (servingSite serving) request relative >>= \case
    Left e -> pure (openFailed e)
    Right file -> case statusKind (openStatus file) of
      RegularFile
        | pathTrailingSlash path && not atRoot -> notFound <$ closeOpened file
        | otherwise -> serveFile serving key file
      Directory -> do
        closeOpened file
        if pathTrailingSlash path || atRoot
          then serveIndex serving key path (siteIndexes (servingSite serving))
          else redirectToDirectory request path
      OtherKind -> problem status403 "This is not a file." <$ closeOpened file
  where
    request = servingRequest serving
    relative = pathRelative path
    atRoot = B.null relative

-- The first index that a directory has.
serveIndex :: Serving -> Maybe ByteString -> UriPath -> [ByteString] -> IO Reply
serveIndex _ _ _ [] = pure (problem status403 "This directory has no index, and listings are off.")
serveIndex serving key path (name : others) =
  openHere (servingSite serving) (servingRequest serving) inside >>= \case
    Right file
      | statusKind (openStatus file) == RegularFile -> case byRoute of
        -- The index is a program's, such as index.php, whose text is nobody's business.
        Just found -> closeOpened file >> unsafeUnmask (throughRoute (servingSite serving) (servingCache serving) (servingRequest serving) found)
        Nothing -> serveFile serving key file
      | otherwise -> closeOpened file >> next
    Left e
      | e `elem` [ENOENT, ENOTDIR] -> next
      | otherwise -> pure (openFailed e)
  where
    next = serveIndex serving key path others
    byRoute = findRoute (siteRoutes (servingSite serving)) path {pathRelative = inside, pathTrailingSlash = False}
    directory = pathRelative path
    inside
      | B.null directory = name
      | otherwise = directory <> "/" <> name

redirectToDirectory :: Request -> UriPath -> IO Reply
redirectToDirectory request path = do
  q <- query request
  let location = encodePath path {pathTrailingSlash = True} <> (if B.null q then "" else "?" <> q)
  pure (withHeaders [Header "Location" location] (problem status301 "The directory is at this address with a slash."))

-- An open regular file: remember it if it is small, otherwise send it from the page cache.
serveFile :: Serving -> Maybe ByteString -> OpenFile -> IO Reply
serveFile serving key file
  | representationSize representation <= smallFile = do
    made <- remember serving key file representation `onException` closeOpened file
    closeOpened file
    case made of
      Nothing -> pure (problem status503 "The file is being changed; try again.")
      Just entry -> do
        for_ key (\_ -> insertEntry (servingCache serving) entry)
        current request code entry
  | otherwise = do
    reply <- conditionalReply request code representation (fileContent file representation) `onException` closeOpened file
    releasing file reply
  where
    request = servingRequest serving
    code = servingMethod serving
    representation = representationOf (openName file) (openStatus file)

fileContent :: OpenFile -> Representation -> Content
fileContent file representation =
  Content
    { contentWhole = Segments status200 (fileHeaders representation WholeFile) [part 0 (representationSize representation)] (pure ()),
      contentUnchanged = Whole status304 (fileHeaders representation Unchanged) "",
      contentPart = \range -> pure (part (rangeFirst range) (rangeLength range))
    }
  where
    part offset n = SegmentFile (openFd file) offset (fromIntegral n)

-- The descriptor is closed after the reply, or at once if the reply does not need it.
releasing :: OpenFile -> Reply -> IO Reply
releasing file = \case
  Segments status fields parts release
    | any fromFile parts -> pure (Segments status fields parts (release >> closeOpened file))
  reply -> reply <$ closeOpened file
  where
    fromFile = \case SegmentFile {} -> True; SegmentBytes _ -> False

-- Read a small file whole; 'Nothing' if it changes meanwhile.
remember :: Serving -> Maybe ByteString -> OpenFile -> Representation -> IO (Maybe Entry)
remember serving key file representation = do
  content <- newBuffer (max 1 size)
  n <- withBuffer content (\p -> readFully (openFd file) p size)
  if n /= size
    then pure Nothing
    else do
      let fill p = withBuffer content $ \q -> copyBytes p q size
      reply <- newPrebuilt server status200 (fileHeaders representation WholeFile) (ContentOf size fill)
      unchanged <- newPrebuilt server status304 (fileHeaders representation Unchanged) NoContent
      EpochSeconds second <- epochNow
      Just <$> newEntry (requestBegan (servingRequest serving)) (entryWith reply unchanged second)
  where
    server = siteServerName (servingSite serving)
    status = openStatus file
    size = fromIntegral (representationSize representation) :: Int
    entryWith reply unchanged second ws =
      Entry
        { entryPath = fromMaybe "" key,
          entryFile = openName file,
          entrySettled = second - max (statusSeconds status) (statusChanged status) > 2,
          entryStamp = stampOf status,
          entryRepresentation = representation,
          entryReply = reply,
          entryUnchanged = unchanged,
          entryWords = ws
        }

stampOf :: FileStatus -> Stamp
stampOf status =
  Stamp
    { stampSize = statusSize status,
      stampSeconds = statusSeconds status,
      stampNanos = statusNanos status,
      stampInode = statusInode status,
      stampDevice = statusDevice status,
      stampChanged = statusChanged status,
      stampChangedNanos = statusChangedNanos status
    }

-- Read this number of bytes from the start; fewer only at the file's end or after an error.
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

-- A file or directory that is open.
data OpenFile = OpenFile
  { -- Its path beneath the root.
    openName :: !ByteString,
    openFd :: !Fd,
    openStatus :: !FileStatus
  }

closeOpened :: OpenFile -> IO ()
closeOpened = void . closeFile . openFd

openHere :: Site -> Request -> ByteString -> IO (Either Errno OpenFile)
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
        Right status -> pure (Right (OpenFile relative fd status))
        Left e -> Left (Errno (negate e)) <$ closeFile fd
  where
    exhausted r = Errno (negate r) `elem` [EMFILE, ENFILE]
    -- Other requests release descriptors within milliseconds, so wait instead of refusing.
    patiently tries root path = do
      r <- withReserved (siteReserve site) (openBeneath root path readOnly)
      if exhausted r && tries > 0
        then do
          deadlineIn (milliseconds 10) >>= pauseRequestUntil request
          patiently (tries - 1) root path
        else pure r

withOpened :: Site -> Request -> ByteString -> (OpenFile -> IO a) -> IO (Either Errno a)
withOpened site request relative use =
  openHere site request relative >>= \case
    Left e -> pure (Left e)
    Right file -> do
      r <- use file `onException` closeOpened file
      Right r <$ closeOpened file

openFailed :: Errno -> Reply
openFailed e
  | e `elem` [ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL] = notFound
  -- A socket, or a device without a driver.
  | e `elem` [ENXIO, ENODEV] = problem status403 "This is not a file."
  | e `elem` [EACCES, EPERM] = problem status403 "The server may not read this file."
  | e == EXDEV = problem status403 "This path leads out of the site."
  | e `elem` [EMFILE, ENFILE, ENOMEM, EAGAIN] = problem status503 "The server is out of descriptors or memory; try again."
  | otherwise = problem status500 "The file could not be opened."

-- Note [Routes and the cache]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Routes are looked up only when the cache has nothing: a hit costs what it costs without routes. That is right because
-- routes never change while the site is served, and an entry is made only by a request that no route took, for a path in
-- its canonical spelling. So no path of a route is ever in the cache. 'revalidate' replaces an entry under the path
-- that it had, which no route takes either.
