-- |
-- Module      : Heddle.Serve.FileCache
-- Description : Small files, ready to send, per capability
-- Stability   : internal, exempt from the version policy
--
-- A set-associative table from the path as sent to its prebuilt replies: up to 1,024 sets of four. A cache
-- without entries has no table, so that a server of many sites pays for those that are asked; a set that is
-- full makes the table larger while it may be.
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
    doubtEntries,

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

import Control.Monad (filterM, forM, forM_, void, when)
import Data.Bits (unsafeShiftL, unsafeShiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (isJust, isNothing)
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
  { cacheSlots :: !(Ref Slots),
    -- | Word 0: bytes held; 1: the hand, a place in the table; 2: insertions into full sets; 3: 1 while a thread
    -- compresses.
    cacheWords :: !Words,
    -- | Files that compressing makes no smaller, each at a place that its inode gives; none before the first.
    cacheUseless :: !(Ref (Maybe (Table (Maybe Stamp))))
  }

-- The table, in sets of 'ways' places. The number of sets is a power of two.
data Slots = NoSlots | Slots !(Table (Maybe Entry))

fewestSets, mostSets, ways :: Int
fewestSets = 8
mostSets = 1024
ways = 4

-- A counter stops here, so that a hit on a popular file writes nothing.
mostUses :: Int
mostUses = 3

-- | Limit of the bytes of replies that one capability keeps.
--
-- [Units]: bytes.
cacheBudget :: Int
cacheBudget = 67108864

-- | Count the bytes of replies in it.
--
-- [Units]: bytes.
-- [Threads]: any; what another capability does meanwhile may not be counted.
cacheHeld :: FileCache -> IO Int
cacheHeld cache = atomicRead (cacheWords cache) 0

-- | An empty cache.
--
-- [Cost]: some words; up to 32 KB once it has entries.
newFileCache :: IO FileCache
newFileCache = FileCache <$> newRef NoSlots <*> newWords 4 <*> newRef Nothing

uselessPlaces :: Int
uselessPlaces = 256

-- | Test whether compressing this version of a file was tried, and made it no smaller.
--
-- [Cost]: one comparison.
isUseless :: FileCache -> Stamp -> IO Bool
isUseless cache stamp = readRef (cacheUseless cache) >>= maybe (pure False) (\table -> (== Just stamp) <$> readEntry table (uselessPlace stamp))

-- | Remember it; the files of 256 inodes are remembered.
markUseless :: FileCache -> Stamp -> IO ()
markUseless cache stamp = readRef (cacheUseless cache) >>= maybe begun pure >>= \table -> writeEntry table (uselessPlace stamp) (Just stamp)
  where
    begun = do
      table <- newTable uselessPlaces Nothing
      table <$ writeRef (cacheUseless cache) (Just table)

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
lookupPath cache variant p n =
  readRef (cacheSlots cache) >>= \case
    NoSlots -> pure Nothing
    Slots table -> do
      h <- hashPath variant p n
      go table (setOf table h) 0
  where
    go :: Table (Maybe Entry) -> Int -> Int -> IO (Maybe Entry)
    go table base way
      | way == ways = pure Nothing
      | otherwise =
        readEntry table (base + way) >>= \case
          found@(Just entry) | B.length (entryPath entry) == n && entryVariant entry == variant -> do
            same <- equals (entryPath entry)
            if same
              then do
                uses <- readWord (entryWords entry) 1
                when (uses < mostUses) (writeWord (entryWords entry) 1 (uses + 1))
                pure found
              else go table base (way + 1)
          _ -> go table base (way + 1)
    equals path = unsafeUseAsCStringLen path $ \(q, _) -> sameBytes p (castPtr q) n
{-# INLINE lookupPath #-}

-- | Add an entry. It replaces one of the same path, or the least used one of a full set;
-- further entries are removed until the budget is kept.
--
-- [Cost]: O(ways), and the hand's way to entries that are not used. A table that grows is copied, at most three times.
insertEntry :: FileCache -> Entry -> IO ()
insertEntry cache entry = do
  removeEntry cache entry
  let size = entrySize entry
  when (size <= cacheBudget) $ do
    table <- tableFor cache entry
    place <- setOfEntry table entry >>= leastUsed cache table
    readEntry table place >>= mapM_ (evict cache table place)
    makeRoom cache table (cacheBudget - size)
    writeEntry table place (Just entry)
    void (fetchAdd (cacheWords cache) 0 size)

-- The table, made larger as long as the entry's set is full and that helps.
tableFor :: FileCache -> Entry -> IO (Table (Maybe Entry))
tableFor cache entry =
  readRef (cacheSlots cache) >>= \case
    NoSlots -> newTable (fewestSets * ways) Nothing >>= begun
    Slots table -> widened table
  where
    begun table = table <$ writeRef (cacheSlots cache) (Slots table)
    widened table
      | setsOf table >= mostSets = pure table
      | otherwise = do
        base <- setOfEntry table entry
        full <- all isJust <$> traverse (readEntry table . (base +)) [0 .. ways - 1]
        if full then larger table >>= begun >>= widened else pure table
    larger table = do
      wider <- newTable (min (tableSize table * 8) (mostSets * ways)) Nothing
      writeWord (cacheWords cache) 1 0
      forM_ [0 .. tableSize table - 1] $ \i -> readEntry table i >>= mapM_ (moved wider)
      pure wider
    -- The entries of one set come from one set, so there is room.
    moved wider one = do
      base <- setOfEntry wider one
      free <- filterM (fmap isNothing . readEntry wider . (base +)) [0 .. ways - 1]
      for_ (take 1 free) $ \way -> writeEntry wider (base + way) (Just one)

-- A free place of a set, or that of its least used entry. Each call lowers the counters of
-- the other entries, because otherwise an entry that was popular once would stay for ever. Equally used
-- entries are replaced in turn.
leastUsed :: FileCache -> Table (Maybe Entry) -> Int -> IO Int
leastUsed cache table base = do
  turn <- readWord (cacheWords cache) 2
  let place way = base + ((turn + way) .&. (ways - 1))
      choose :: Int -> Int -> Int -> IO Int
      choose way best bestUses
        | way == ways = do
          writeWord (cacheWords cache) 2 (turn + 1)
          when (bestUses > 0) $ forM_ [base .. base + ways - 1] $ \at -> readEntry table at >>= mapM_ countDown
          pure best
        | otherwise =
          readEntry table (place way) >>= \case
            Nothing -> pure (place way)
            Just e -> do
              uses <- readWord (entryWords e) 1
              if uses < bestUses then choose (way + 1) (place way) uses else choose (way + 1) best bestUses
  choose 0 base maxBound

-- Move the hand until at most this number of bytes is held: it lowers an entry's counter, or
-- removes an entry whose counter is 0.
makeRoom :: FileCache -> Table (Maybe Entry) -> Int -> IO ()
makeRoom cache table most = go
  where
    go = do
      held <- readWord (cacheWords cache) 0
      when (held > most) $ do
        hand <- readWord (cacheWords cache) 1
        when (hand == 0) recount
        writeWord (cacheWords cache) 1 (if hand + 1 >= tableSize table then 0 else hand + 1)
        readEntry table hand >>= \case
          Nothing -> pure ()
          Just e -> do
            uses <- readWord (entryWords e) 1
            if uses > 0 then countDown e else evict cache table hand e
        go
    -- A capability may switch threads within an insertion, which leaves the sum wrong by an
    -- entry. So each round of the hand starts by counting again.
    recount = do
      sizes <- forM [0 .. tableSize table - 1] (fmap (maybe 0 entrySize) . readEntry table)
      writeWord (cacheWords cache) 0 (sum sizes)

countDown :: Entry -> IO ()
countDown e = do
  uses <- readWord (entryWords e) 1
  when (uses > 0) (writeWord (entryWords e) 1 (uses - 1))

evict :: FileCache -> Table (Maybe Entry) -> Int -> Entry -> IO ()
evict cache table place e = do
  writeEntry table place Nothing
  void (fetchAdd (cacheWords cache) 0 (negate (entrySize e)))

-- | Forget the entry with this one's path and variant.
--
-- [Cost]: O(ways).
removeEntry :: FileCache -> Entry -> IO ()
removeEntry cache entry =
  readRef (cacheSlots cache) >>= \case
    NoSlots -> pure ()
    Slots table -> setOfEntry table entry >>= \base -> go table base 0
  where
    go :: Table (Maybe Entry) -> Int -> Int -> IO ()
    go table base way = when (way < ways) $ do
      readEntry table (base + way) >>= \case
        Just e | entryPath e == entryPath entry && entryVariant e == entryVariant entry -> evict cache table (base + way) e
        _ -> pure ()
      go table base (way + 1)

-- | Let every entry be compared with its file before it is used again.
--
-- [Cost]: O(entries).
-- [Threads]: any; what the owner compares meanwhile may count as compared.
doubtEntries :: FileCache -> IO ()
doubtEntries cache =
  readRef (cacheSlots cache) >>= \case
    NoSlots -> pure ()
    Slots table -> forM_ [0 .. tableSize table - 1] $ \i -> readEntry table i >>= mapM_ (`markChecked` Deadline minBound)

entrySize :: Entry -> Int
entrySize e = prebuiltSize (entryReply e) + prebuiltSize (entryUnchanged e) + 512

setOfEntry :: Table (Maybe Entry) -> Entry -> IO Int
setOfEntry table entry = setOf table <$> unsafeUseAsCStringLen (entryPath entry) (\(p, n) -> hashPath (entryVariant entry) (castPtr p) n)

setsOf :: Table (Maybe Entry) -> Int
setsOf table = tableSize table `unsafeShiftR` 2
{-# INLINE setsOf #-}

setOf :: Table (Maybe Entry) -> Word64 -> Int
setOf table h = fromIntegral ((h `unsafeShiftR` 40) .&. fromIntegral (setsOf table - 1)) * ways
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

-- | Test whether two pieces of memory of this length are the same.
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
