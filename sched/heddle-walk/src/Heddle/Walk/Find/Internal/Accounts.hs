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
    fileSystemOf,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (mapMaybe)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Exception (trySync)
import Heddle.Walk.Find.Internal.System (Account (..), accountName)

-- | What is known so far.
data Accounts = Accounts
  { knownUsers :: !(Ref (IntMap (Maybe ByteString))),
    knownGroups :: !(Ref (IntMap (Maybe ByteString))),
    -- | By device; read from the kernel when first needed.
    knownMounts :: !(Ref (Maybe (IntMap ByteString)))
  }

-- | Nothing is known.
newAccounts :: IO Accounts
newAccounts = Accounts <$> newRef IntMap.empty <*> newRef IntMap.empty <*> newRef Nothing

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

-- | The type of the file system on a device.
--
-- [Blocks]: holds an OS thread the first time.
-- [Threads]: any.
fileSystemOf :: Accounts -> Int -> IO ByteString
fileSystemOf accounts device = do
  known <-
    readRef (knownMounts accounts) >>= \case
      Just mounts -> pure mounts
      Nothing -> do
        text <- trySync (Bytes.readFile "/proc/self/mountinfo")
        let mounts = either (const IntMap.empty) parseMounts text
        modifyRef (knownMounts accounts) (const (Just mounts, ()))
        pure mounts
  pure (IntMap.findWithDefault (Char8.pack "unknown") device known)

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
