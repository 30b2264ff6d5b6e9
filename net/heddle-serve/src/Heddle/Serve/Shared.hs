{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Shared
-- Description : What sites have in common
-- Stability   : internal, exempt from the version policy
--
-- Thousands of sites often have one directory, and a reload changes few of them. So directories, and the caches of files that
-- equal options make equal, are opened once, however many sites and generations use them; the last generation that does closes
-- them. The clients of all rates are in one table.
--
-- Cost: a look into a map for each site, when it is opened.
-- Owner: the server; a generation holds what it uses, by 'withSharing'.
module Heddle.Serve.Shared
  ( -- * Of a server
    Shared,
    newShared,

    -- * Of a generation
    Sharing,
    withSharing,
    sharedRoot,
    sharedCaches,
    sharedUsers,
    sharedRates,
    sharingHeld,
  )
where

import Data.ByteString (ByteString)
import Data.Foldable (for_, traverse_)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.Prim.Atomic
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Serve.ClientTable (RateTable, newRateTable)
import Heddle.Serve.Root (Root, closeRoot, openRoot, refreshRoot)
import Heddle.Serve.Serving (Kept, doubtKept, keptBytes, newKept)
import Heddle.Serve.Users (Users, openUsers)

-- | What the sites of a server have in common, and how many generations hold each.
data Shared = Shared
  { -- | Generations are opened one at a time, but they end at any time.
    sharedLock :: !Lock,
    -- | By path.
    sharedRoots :: !(Ref (Map ByteString (Held Root))),
    -- | By all that a cached reply depends on.
    sharedKept :: !(Ref (Map ByteString (Held (Table Kept)))),
    sharedTable :: !(Ref (Maybe RateTable))
  }

data Held a = Held !Int !a

-- | Nothing yet.
newShared :: IO Shared
newShared = Shared <$> newLock <*> newRef Map.empty <*> newRef Map.empty <*> newRef Nothing

-- | What one generation uses of it, and how many capabilities have caches.
data Sharing = Sharing
  { sharingAll :: !Shared,
    sharingCapabilities :: !Int,
    sharingRoots :: !(Ref (Map ByteString Root)),
    sharingKept :: !(Ref (Map ByteString (Table Kept))),
    sharingUsers :: !(Ref (Map ByteString Users))
  }

-- | Run with what a generation uses, for this number of capabilities; afterwards what no other one uses is closed.
--
-- [Blocks]: as the body does.
withSharing :: Shared -> Int -> (Sharing -> IO a) -> IO a
withSharing shared capabilities = bracket (Sharing shared capabilities <$> newRef Map.empty <*> newRef Map.empty <*> newRef Map.empty) $ \sharing ->
  withLock (sharedLock shared) $ do
    roots <- readRef (sharingRoots sharing)
    kept <- readRef (sharingKept sharing)
    for_ (Map.keys roots) $ \path -> released (sharedRoots shared) path >>= traverse_ closeRoot
    for_ (Map.keys kept) $ \key -> released (sharedKept shared) key

-- | The directory of a path, as it is now.
--
-- [Blocks]: holds an OS thread the first time.
-- [Throws]: as 'openRoot'.
sharedRoot :: Sharing -> ByteString -> IO Root
sharedRoot sharing path = held sharing sharedRoots sharingRoots path (openRoot path) refreshRoot

-- | The caches of the capabilities for what a description says: two sites with one description answer alike. What an earlier
-- generation has kept is compared with the disk before it is used.
sharedCaches :: Sharing -> ByteString -> IO (Table Kept)
sharedCaches sharing key = held sharing sharedKept sharingKept key made (\caches -> for_ (places caches) (\i -> readEntry caches i >>= doubtKept))
  where
    made = do
      caches <- newKept >>= newTable (sharingCapabilities sharing)
      caches <$ for_ (drop 1 (places caches)) (\i -> newKept >>= writeEntry caches i)

places :: Table a -> [Int]
places table = [0 .. tableSize table - 1]

-- | The users of a file. Each generation reads it anew.
--
-- [Blocks]: holds an OS thread the first time.
sharedUsers :: Sharing -> ByteString -> (String -> IO ()) -> IO (Either String Users)
sharedUsers sharing path trouble =
  readRef (sharingUsers sharing) >>= \known -> case Map.lookup path known of
    Just users -> pure (Right users)
    Nothing -> do
      opened <- openUsers path trouble
      for_ opened $ \users -> writeRef (sharingUsers sharing) (Map.insert path users known)
      pure opened

-- | The table of clients and rates. Each site counts with keys of its own.
--
-- [Cost]: 1 MB the first time.
sharedRates :: Sharing -> IO RateTable
sharedRates sharing = withLock (sharedLock shared) $ readRef (sharedTable shared) >>= maybe made pure
  where
    shared = sharingAll sharing
    made = do
      table <- newRateTable 16384
      table <$ writeRef (sharedTable shared) (Just table)

-- | List how to ask each cache of the generation how many bytes of replies it has.
sharingHeld :: Sharing -> IO [IO Int]
sharingHeld sharing = do
  kept <- readRef (sharingKept sharing)
  pure [readEntry caches i >>= keptBytes | caches <- Map.elems kept, i <- places caches]

-- What the generation uses already, or what another one has opened and this brings up to date, or something new.
held :: Sharing -> (Shared -> Ref (Map ByteString (Held a))) -> (Sharing -> Ref (Map ByteString a)) -> ByteString -> IO a -> (a -> IO ()) -> IO a
held sharing everywhere here key make again =
  readRef (here sharing) >>= \mine -> case Map.lookup key mine of
    Just one -> pure one
    Nothing -> withLock (sharedLock (sharingAll sharing)) $ do
      all' <- Map.lookup key <$> readRef known
      a <- case all' of
        Just (Held _ one) -> one <$ again one
        Nothing -> make
      modifyRef known (\others -> (Map.insert key (Held (maybe 1 (\(Held n _) -> n + 1) all') a) others, ()))
      modifyRef (here sharing) (\others -> (Map.insert key a others, ()))
      pure a
  where
    known = everywhere (sharingAll sharing)

-- What nobody holds any more.
released :: Ref (Map ByteString (Held a)) -> ByteString -> IO (Maybe a)
released ref key = modifyRef ref $ \known -> case Map.lookup key known of
  Just (Held n a)
    | n > 1 -> (Map.insert key (Held (n - 1) a) known, Nothing)
    | otherwise -> (Map.delete key known, Just a)
  Nothing -> (known, Nothing)
