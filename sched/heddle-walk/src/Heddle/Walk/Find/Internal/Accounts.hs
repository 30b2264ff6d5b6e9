{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Accounts
-- Description : Names of users, groups and file systems, asked for once
-- Stability   : internal, exempt from the version policy
--
-- A worker that finds a name missing looks it up and adds it; two workers may look up the same
-- name at the same time, and get the same answer.
--
-- Cost: a map's look-up; the first time, the C library's.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Accounts
  ( Accounts,
    newAccounts,
    nameOf,
    hasName,

    -- * File systems
    fileSystemOf,
    learnMounts,
    MountsUnreadable,
    mountsProblem,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (fromMaybe, mapMaybe)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Errno (Errno, errnoOf, pattern EIO)
import Heddle.Prim.Exception (Exception, IOException, bracket, throwIO, try)
import Heddle.Prim.File (readOnlyWaiting)
import Heddle.Walk.Find.Internal.Settings (errnoText)
import Heddle.Walk.Find.Internal.System (Account (..), accountName, openNamed, readText)
import System.Posix.IO.ByteString (closeFd)

-- | What is known so far.
data Accounts = Accounts
  { knownUsers :: !(Ref (IntMap (Maybe ByteString))),
    knownGroups :: !(Ref (IntMap (Maybe ByteString))),
    -- | By device; read from the kernel when a device is missing.
    knownMounts :: !(Ref (IntMap ByteString))
  }

-- | Nothing is known.
newAccounts :: IO Accounts
newAccounts = Accounts <$> newRef IntMap.empty <*> newRef IntMap.empty <*> newRef IntMap.empty

-- | The name of a number, if it has one.
--
-- [Blocks]: holds an OS thread the first time.
-- [Threads]: any.
nameOf :: Accounts -> Account -> Int -> IO (Maybe ByteString)
nameOf accounts account number = do
  let known = case account of User -> knownUsers accounts; Group -> knownGroups accounts
  found <- IntMap.lookup number <$> readRef known
  case found of
    Just name -> pure name
    Nothing -> do
      name <- accountName account (fromIntegral number)
      modifyRef known (\names -> (IntMap.insert number name names, ()))
      pure name

-- | Has it a name?
hasName :: Accounts -> Account -> Int -> IO Bool
hasName accounts account number = maybe False (const True) <$> nameOf accounts account number

-- | The kernel's table of mounts could not be read: no answer about a file system would be true.
newtype MountsUnreadable = MountsUnreadable Errno
  deriving stock (Show)

instance Exception MountsUnreadable

-- | A message for the user, without the program's name.
mountsProblem :: MountsUnreadable -> ByteString
mountsProblem (MountsUnreadable e) =
  Char8.pack "cannot read mounted file system list, /proc/self/mountinfo: " <> errnoText e

-- | Read the table of mounts before it is needed, so that a search that depends on it fails before it acts.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'MountsUnreadable'.
learnMounts :: Accounts -> IO ()
learnMounts accounts = do
  mounts <- parseMounts <$> readMounts
  modifyRef (knownMounts accounts) (\old -> (IntMap.union mounts old, ()))

-- | The type of the file system on a device; "unknown" if no mount has it, as subvolumes of btrfs.
--
-- [Blocks]: holds an OS thread the first time.
-- [Throws]: 'MountsUnreadable'.
-- [Threads]: any.
fileSystemOf :: Accounts -> Int -> IO ByteString
fileSystemOf accounts device = do
  known <- readRef (knownMounts accounts)
  case IntMap.lookup device known of
    Just kind -> pure kind
    Nothing -> do
      -- Read again for each new device: it may have been mounted since.
      learnMounts accounts
      modifyRef (knownMounts accounts) $ \mounts ->
        let kind = IntMap.findWithDefault (Char8.pack "unknown") device mounts
         in (IntMap.insert device kind mounts, kind)

-- Not through a handle: find runs without GHC's event manager.
readMounts :: IO ByteString
readMounts =
  try (bracket (openNamed (Char8.pack "/proc/self/mountinfo") readOnlyWaiting) closeFd readText) >>= \case
    Right text -> pure text
    Left (e :: IOException) -> throwIO (MountsUnreadable (fromMaybe EIO (errnoOf e)))

-- Each line: number, parent, major:minor, root, mount point, options, tags, a minus sign,
-- the type, and more. Later mounts hide earlier ones.
parseMounts :: ByteString -> IntMap ByteString
parseMounts = IntMap.fromList . mapMaybe line . Char8.lines
  where
    line l = case Char8.words l of
      _ : _ : numbers : rest
        | Just (major, colonMinor) <- Char8.readInt numbers,
          Just (minor, _) <- Char8.readInt (Bytes.drop 1 colonMinor),
          _ : kind : _ <- dropWhile (/= Char8.pack "-") rest ->
          Just (deviceNumber major minor, kind)
      _ -> Nothing
    -- As makedev(3) of the GNU C library.
    deviceNumber major minor =
      (minor `rem` 256) + 256 * (major `rem` 4096) + (minor `quot` 256) * 1048576 + (major `quot` 4096) * 17592186044416
