{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.StaticFile
-- Description : One file as a reply
-- Stability   : internal, exempt from the version policy
--
-- Of a file that was found, chooses the coding that the client wants most, and sends it: a small one from memory, where the
-- capability keeps it, a large one by sendfile(2).
--
-- Cost: fstat, read and close for a small file that is not kept; sendfile for a large one.
-- Owner: one 'Kept' per capability.
module Heddle.Serve.StaticFile
  ( serveFile,
    Choice (..),
    choose,
    sameChoice,
  )
where

import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.Range (ByteRange (..), rangeLength)
import Heddle.Http.UriPath
import Heddle.Prim.Buffer (Buffer, newBuffer, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Exception (onException)
import Heddle.Prim.File
import Heddle.Serve.Coding
import Heddle.Serve.Compress
import Heddle.Serve.FileCache
import Heddle.Serve.FileReply
import Heddle.Serve.OpenFile
import Heddle.Serve.Policy
import Heddle.Serve.Serving
import System.Posix.Types (Fd)

-- Larger files are sent from the page cache instead of kept in memory.
smallFile :: Int64
smallFile = 65536

-- | What is sent for a file.
data Choice = Choice
  { -- The file itself or a compressed sibling, open.
    choiceFile :: !OpenFile,
    choiceCoding :: !Coding,
    -- Whether the server has to make this coding from the file.
    choiceMakes :: !Bool
  }

-- | Choose by what the client accepts. A sibling that is older than its file is stale. The file is closed if a sibling
-- is taken.
choose :: Serving -> OpenFile -> IO Choice
choose serving file
  | not (policySiblings policy) || null wanted || isCompressed media = pure plain
  | otherwise = go wanted `onException` closeOpened file
  where
    policy = policyHere serving
    wanted = wantedCodings (variantAccepted (servingVariant serving))
    media = mediaFor policy (openName file)
    plain = Choice file Identity False
    size = statusSize (openStatus file)
    worthIt = policyCompresses policy && isCompressible media && size >= smallestCompressed && size <= largestCompressed
    go = \case
      coding : others ->
        openHere (staticOpening (servingSite serving)) (servingRequest serving) (openName file <> codingSuffix coding) >>= \case
          Right sibling
            | statusKind (openStatus sibling) == RegularFile && modified sibling >= modified file -> Choice sibling coding False <$ closeOpened file
            | otherwise -> closeOpened sibling >> go others
          Left _ -> go others
      []
        | worthIt,
          coding : _ <- wanted -> do
          useless <- isUseless (keptFiles (servingKept serving)) (stampOf (openStatus file))
          pure (if useless then plain else Choice file coding True)
        | otherwise -> pure plain
    -- In whole seconds, since compressors copy a file's time, and not all its digits.
    modified = statusSeconds . openStatus

-- | Answer with an open regular file at this path, which is closed in the end.
serveFile :: Serving -> Maybe ByteString -> UriPath -> OpenFile -> IO Reply
serveFile serving key path file = do
  choice <- choose serving file
  sendChoice serving {servingOld = Nothing} (About key (openName file) (nameOf path)) (servingOld serving) choice

-- Where a file was found: the key of the cache, its name beneath the root, and the path that was requested.
data About = About !(Maybe ByteString) !ByteString !ByteString

-- Remember what was chosen if it is small, otherwise send it from the page cache.
sendChoice :: Serving -> About -> Maybe Entry -> Choice -> IO Reply
sendChoice serving about@(About key name asked) old choice = case old of
  Just entry
    | entrySettled entry && Just (entryPath entry) == key && entryFile entry == name && sameChoice choice entry -> do
      closeOpened file
      markChecked entry (requestBegan request)
      insertEntry cache entry
      current serving entry
  _
    | choiceMakes choice -> compressing
    | representationSize representation <= smallFile -> do
      content <- readWhole readFully file `onException` closeOpened file
      closeOpened file
      case content of
        Nothing -> finish serving (problem status503 "The file is being changed; try again.")
        Just buffer -> keep buffer representation
    | otherwise -> do
      reply <- (conditionalReply request (servingMethod serving) representation (fileContent file representation) >>= finish serving) `onException` closeOpened file
      releasing file reply
  where
    file = choiceFile choice
    request = servingRequest serving
    cache = keptFiles (servingKept serving)
    policy = policyHere serving
    media = mediaFor policy name
    alone = not (policySiblings policy) || isCompressed media
    more =
      [Header "Vary" "Accept-Encoding" | not alone]
        ++ originHeaders policy (servingVariant serving)
        ++ headersFor policy False [asked, "/" <> name]
    representation = representationOf (policyTag policy) media (openStatus file) (choiceCoding choice) (choiceMakes choice) more
    keep buffer what = do
      entry <- newEntryOf serving about alone (openStatus file) what buffer
      for_ key (\_ -> insertEntry cache entry)
      current serving entry
    -- The plain file is sent, but not remembered, while this capability compresses another one, or when nothing would
    -- be remembered.
    compressing = do
      made <- maybe (pure Nothing) (const (oneCompression cache compressNow)) key `onException` closeOpened file
      case made of
        Just (Just (buffer, n)) -> closeOpened file >> keep buffer representation {representationSize = fromIntegral n}
        Just Nothing -> markUseless cache (stampOf (openStatus file)) >> sendChoice serving about Nothing plain
        Nothing -> sendChoice serving (About Nothing name asked) Nothing plain
    plain = Choice file Identity False
    compressNow =
      readWhole readLarge file >>= \case
        Nothing -> pure Nothing
        Just buffer -> withBuffer buffer $ \p -> compressed (choiceCoding choice) p (fromIntegral (statusSize (openStatus file)))

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

-- A file's content; 'Nothing' if it becomes shorter meanwhile.
readWhole :: (Fd -> Ptr Word8 -> Int -> IO Int) -> OpenFile -> IO (Maybe Buffer)
readWhole reading file = do
  let size = fromIntegral (statusSize (openStatus file)) :: Int
  content <- newBuffer (max 1 size)
  n <- withBuffer content (\p -> reading (openFd file) p size)
  pure (if n == size then Just content else Nothing)

-- The entry of a file whose content, as it is sent, is in the buffer.
newEntryOf :: Serving -> About -> Bool -> FileStatus -> Representation -> Buffer -> IO Entry
newEntryOf serving (About key name _) alone status representation content = do
  let size = fromIntegral (representationSize representation) :: Int
      fill p = withBuffer content $ \q -> copyBytes p q size
  reply <- newPrebuilt server status200 (fileHeaders representation WholeFile) (ContentOf size fill)
  unchanged <- newPrebuilt server status304 (fileHeaders representation Unchanged) NoContent
  EpochSeconds second <- epochNow
  newEntry (requestBegan (servingRequest serving)) $ \ws ->
    Entry
      { entryPath = fromMaybe "" key,
        entryVariant = if alone then withoutCodings (servingVariant serving) else servingVariant serving,
        entryAlone = alone,
        entryFile = name,
        entrySettled = second - max (statusSeconds status) (statusChanged status) > 2,
        entryStamp = stampOf status,
        entryRepresentation = representation,
        entryReply = reply,
        entryUnchanged = unchanged,
        entryWords = ws
      }
  where
    server = staticServerName (servingSite serving)

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

-- | Test whether an entry of the cache is this version of the file in this coding.
sameChoice :: Choice -> Entry -> Bool
sameChoice choice entry =
  stampOf (openStatus (choiceFile choice)) == entryStamp entry && choiceCoding choice == representationCoding (entryRepresentation entry)
