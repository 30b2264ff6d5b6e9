-- |
-- Module      : Heddle.Serve.FileCache
-- Description : Small files, ready to send, per capability
-- Stability   : internal, exempt from the version policy
--
-- A set-associative table from the path as sent to its prebuilt replies: 1,024 sets of four.
-- Only paths of existing files are entered, so a client cannot fill the table with invented
-- paths. Replacement is CLOCK with counters: a hit raises an entry's counter, up to three; the
-- hand lowers it when room is needed, and removes an entry at zero. So a crawl of the whole
-- site does not displace popular files, and files that become popular get in. An entry is
-- trusted for a second, then compared with the file.
--
-- Cost: a hit is a hash of the path, one comparison and four loads; nothing allocated. An
-- insertion moves the hand by a few entries, at worst four times round the table.
-- Owner: one capability; threads of others must not touch it.
-- Shared writes per hit: 0.
module Heddle.Serve.FileCache
  ( -- * The cache
    FileCache,
    newFileCache,
    lookupPath,
    insertEntry,
    removeEntry,

    -- * Entries
    Entry (..),
    Stamp (..),
    newEntry,
    entryChecked,
    markChecked,

    -- * What is not worth compressing
    isUseless,
    markUseless,
    oneCompression,

    -- * Facts
    cacheBudget,
    cacheHeld,
    sameBytes,
  )
where

import Control.Monad (forM, forM_, void, when)
import Data.Bits (unsafeShiftL, unsafeShiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Http (Prebuilt)
import Heddle.Http.Borrowed (prebuiltSize)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Prim.Exception (finally, mask_)
import Heddle.Serve.FileReply (Representation)
import Heddle.Serve.Policy (Variant)

-- | What identifies a version of a file.
data Stamp = Stamp
  { stampSize :: !Int64,
    stampSeconds :: !Int64,
    stampNanos :: !Int64,
    stampInode :: !Int64,
    stampDevice :: !Int64,
    -- | Programs can set the time of modification back, but not this one.
    stampChanged :: !Int64,
    stampChangedNanos :: !Int64
  }
  deriving stock (Eq, Show)

-- | A small file.
data Entry = Entry
  { -- | The path as clients send it.
    entryPath :: !ByteString,
    -- | What else of a request the reply depends on; see "Heddle.Serve.Policy".
    entryVariant :: !Variant,
    -- | Whether no request gets it in another coding.
    entryAlone :: !Bool,
    -- | The file beneath the root.
    entryFile :: !ByteString,
    -- | Whether the file's last change was more than two seconds old when it was read.
    entrySettled :: !Bool,
    entryStamp :: !Stamp,
    entryRepresentation :: !Representation,
    -- | 200 with the content.
    entryReply :: !Prebuilt,
    -- | 304.
    entryUnchanged :: !Prebuilt,
    -- | Word 0: when it was last found current; 1: its uses, from 0 to 'mostUses'.
    entryWords :: !Words
  }

-- | An entry that was compared with its file just now. Its counter starts at 1, so the hand
-- passes it once before it removes it.
newEntry :: Deadline -> (Words -> Entry) -> IO Entry
newEntry now make = do
  ws <- newWords 2
  let entry = make ws
  writeWord ws 1 1
  entry <$ markChecked entry now

-- | When the entry was last found current.
entryChecked :: Entry -> IO Deadline
entryChecked entry = Deadline <$> readWord (entryWords entry) 0
{-# INLINE entryChecked #-}

-- | Record that the file was found unchanged at this time.
markChecked :: Entry -> Deadline -> IO ()
markChecked entry (Deadline now) = writeWord (entryWords entry) 0 now

-- | The table.
data FileCache = FileCache
  { cacheTable :: !(Table (Maybe Entry)),
    -- | Word 0: bytes held; 1: the hand, a place in the table; 2: insertions into full sets; 3: 1 while a thread
    -- compresses.
    cacheWords :: !Words,
    -- | Files that compressing makes no smaller, each at a place that its inode gives.
    cacheUseless :: !(Table (Maybe Stamp))
  }

sets, ways :: Int
sets = 1024
ways = 4

-- A counter stops here, so that a hit on a popular file writes nothing.
mostUses :: Int
mostUses = 3

-- | How many bytes of replies one capability keeps.
--
-- [Units]: bytes.
cacheBudget :: Int
cacheBudget = 67108864

-- | How many bytes of replies it has.
--
-- [Units]: bytes.
-- [Threads]: any; what another capability does meanwhile may not be counted.
cacheHeld :: FileCache -> IO Int
cacheHeld cache = atomicRead (cacheWords cache) 0

-- | An empty cache.
--
-- [Cost]: 32 KB.
newFileCache :: IO FileCache
newFileCache = FileCache <$> newTable (sets * ways) Nothing <*> newWords 4 <*> newTable uselessPlaces Nothing

uselessPlaces :: Int
uselessPlaces = 256

-- | Whether compressing this version of a file was tried, and made it no smaller.
--
-- [Cost]: one comparison.
isUseless :: FileCache -> Stamp -> IO Bool
isUseless cache stamp = (== Just stamp) <$> readEntry (cacheUseless cache) (uselessPlace stamp)

-- | Remember it; the files of 256 inodes are remembered.
markUseless :: FileCache -> Stamp -> IO ()
markUseless cache stamp = writeEntry (cacheUseless cache) (uselessPlace stamp) (Just stamp)

uselessPlace :: Stamp -> Int
uselessPlace stamp = fromIntegral (stampInode stamp) .&. (uselessPlaces - 1)

-- | Run unless another thread of the capability is inside; then 'Nothing' at once. So compressing takes at most
-- one OS thread for each capability.
--
-- [Blocks]: as the action does.
oneCompression :: FileCache -> IO a -> IO (Maybe a)
oneCompression cache act = mask_ $ do
  mine <- compareAndSet (cacheWords cache) 3 0 1
  if mine then Just <$> (act `finally` atomicWrite (cacheWords cache) 3 0) else pure Nothing

-- | The entry of a path in memory.
--
-- [Cost]: O(length); no allocation.
lookupPath :: FileCache -> Variant -> Ptr Word8 -> Int -> IO (Maybe Entry)
lookupPath cache variant p n = do
  h <- hashPath variant p n
  go (setOf h) 0
  where
    go :: Int -> Int -> IO (Maybe Entry)
    go base way
      | way == ways = pure Nothing
      | otherwise =
        readEntry (cacheTable cache) (base + way) >>= \case
          found@(Just entry) | B.length (entryPath entry) == n && entryVariant entry == variant -> do
            same <- equals (entryPath entry)
            if same
              then do
                uses <- readWord (entryWords entry) 1
                when (uses < mostUses) (writeWord (entryWords entry) 1 (uses + 1))
                pure found
              else go base (way + 1)
          _ -> go base (way + 1)
    equals path = unsafeUseAsCStringLen path $ \(q, _) -> sameBytes p (castPtr q) n
{-# INLINE lookupPath #-}

-- | Add an entry. It replaces one of the same path, or the least used one of a full set;
-- further entries are removed until the budget is kept.
--
-- [Cost]: O(ways), and the hand's way to entries that are not used.
insertEntry :: FileCache -> Entry -> IO ()
insertEntry cache entry = do
  removeEntry cache entry
  base <- setOfEntry entry
  let size = entrySize entry
  when (size <= cacheBudget) $ do
    place <- leastUsed cache base
    readEntry (cacheTable cache) place >>= mapM_ (evict cache place)
    makeRoom cache (cacheBudget - size)
    writeEntry (cacheTable cache) place (Just entry)
    void (fetchAdd (cacheWords cache) 0 size)

-- A free place of a set, or that of its least used entry. Each call lowers the counters of
-- the other entries, because otherwise an entry that was popular once would stay for ever. Equally used
-- entries are replaced in turn.
leastUsed :: FileCache -> Int -> IO Int
leastUsed cache base = do
  turn <- readWord (cacheWords cache) 2
  let place way = base + ((turn + way) .&. (ways - 1))
      choose :: Int -> Int -> Int -> IO Int
      choose way best bestUses
        | way == ways = do
          writeWord (cacheWords cache) 2 (turn + 1)
          when (bestUses > 0) $ forM_ [base .. base + ways - 1] $ \at -> readEntry (cacheTable cache) at >>= mapM_ countDown
          pure best
        | otherwise =
          readEntry (cacheTable cache) (place way) >>= \case
            Nothing -> pure (place way)
            Just e -> do
              uses <- readWord (entryWords e) 1
              if uses < bestUses then choose (way + 1) (place way) uses else choose (way + 1) best bestUses
  choose 0 base maxBound

-- Move the hand until at most this number of bytes is held: it lowers an entry's counter, or
-- removes an entry whose counter is 0.
makeRoom :: FileCache -> Int -> IO ()
makeRoom cache most = go
  where
    go = do
      held <- readWord (cacheWords cache) 0
      when (held > most) $ do
        hand <- readWord (cacheWords cache) 1
        when (hand == 0) recount
        writeWord (cacheWords cache) 1 (if hand + 1 == sets * ways then 0 else hand + 1)
        readEntry (cacheTable cache) hand >>= \case
          Nothing -> pure ()
          Just e -> do
            uses <- readWord (entryWords e) 1
            if uses > 0 then countDown e else evict cache hand e
        go
    -- A capability may switch threads within an insertion, which leaves the sum wrong by an
    -- entry. So each round of the hand starts by counting again.
    recount = do
      sizes <- forM [0 .. sets * ways - 1] (fmap (maybe 0 entrySize) . readEntry (cacheTable cache))
      writeWord (cacheWords cache) 0 (sum sizes)

countDown :: Entry -> IO ()
countDown e = do
  uses <- readWord (entryWords e) 1
  when (uses > 0) (writeWord (entryWords e) 1 (uses - 1))

evict :: FileCache -> Int -> Entry -> IO ()
evict cache place e = do
  writeEntry (cacheTable cache) place Nothing
  void (fetchAdd (cacheWords cache) 0 (negate (entrySize e)))

-- | Forget the entry with this one's path and variant.
--
-- [Cost]: O(ways).
removeEntry :: FileCache -> Entry -> IO ()
removeEntry cache entry = do
  base <- setOfEntry entry
  go base 0
  where
    go :: Int -> Int -> IO ()
    go base way = when (way < ways) $ do
      readEntry (cacheTable cache) (base + way) >>= \case
        Just e | entryPath e == entryPath entry && entryVariant e == entryVariant entry -> evict cache (base + way) e
        _ -> pure ()
      go base (way + 1)

entrySize :: Entry -> Int
entrySize e = prebuiltSize (entryReply e) + prebuiltSize (entryUnchanged e) + 512

setOfEntry :: Entry -> IO Int
setOfEntry entry = setOf <$> unsafeUseAsCStringLen (entryPath entry) (\(p, n) -> hashPath (entryVariant entry) (castPtr p) n)

setOf :: Word64 -> Int
setOf h = fromIntegral ((h `unsafeShiftR` 40) .&. fromIntegral (sets - 1)) * ways
{-# INLINE setOf #-}

-- Eight bytes at a time. The hash needs no secret, because only names of existing files are
-- entered.
hashPath :: Variant -> Ptr Word8 -> Int -> IO Word64
hashPath variant p n = go 0 (fromIntegral (n + variant * 65536))
  where
    go :: Int -> Word64 -> IO Word64
    go i h
      | i + 8 <= n = do
        w <- peekByteOff p i
        go (i + 8) (mix h w)
      | i < n = tailOf i 0 h
      | otherwise = pure h
    tailOf :: Int -> Word64 -> Word64 -> IO Word64
    tailOf i w h
      | i == n = pure (mix h w)
      | otherwise = do
        b <- peekByteOff p i :: IO Word8
        tailOf (i + 1) ((w `unsafeShiftL` 8) + fromIntegral b) h
    mix :: Word64 -> Word64 -> Word64
    mix h w = let x = (h `xor` w) * 0x9E3779B97F4A7C15 in x `xor` (x `unsafeShiftR` 29)
{-# INLINE hashPath #-}

-- | Whether two pieces of memory of this length are the same.
--
-- [Cost]: O(length); eight bytes at a time.
sameBytes :: Ptr Word8 -> Ptr Word8 -> Int -> IO Bool
sameBytes p q n = go 0
  where
    go :: Int -> IO Bool
    go i
      | i + 8 <= n = do
        a <- peekByteOff p i :: IO Word64
        b <- peekByteOff q i
        if a == b then go (i + 8) else pure False
      | i < n = do
        a <- peekByteOff p i :: IO Word8
        b <- peekByteOff q i
        if a == b then go (i + 1) else pure False
      | otherwise = pure True
