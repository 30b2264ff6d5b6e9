-- |
-- Module      : Heddle.Serve.Process
-- Description : The process: its number in a file, and whose it is
-- Stability   : internal, exempt from the version policy
--
-- Cost: some system calls at start and end.
-- Owner: 'withPidFile' removes its file.
module Heddle.Serve.Process
  ( withPidFile,
    UserSpec (..),
    parseUser,
    renderUser,
    becomeUser,
    lookUpUser,
  )
where

import Control.Monad (void, when)
import Data.Foldable (fold)
import Heddle.Prim.Exception
import System.Directory (removeFile)
import System.IO.Error (isDoesNotExistError)
import System.Posix.Files (rename)
import System.Posix.Process (getProcessID)
import System.Posix.Types (GroupID, UserID)
import System.Posix.User
import Text.Read (readMaybe)

-- | Write the process id and a newline into a file, replacing it in one step, and remove it at the end if it is still this
-- process's: a successor has written its own.
--
-- [Blocks]: holds an OS thread while it writes.
-- [Throws]: 'IOException'.
withPidFile :: FilePath -> IO a -> IO a
withPidFile path body = do
  me <- show <$> getProcessID
  let new = path ++ ".new"
      line = me ++ "\n"
      -- Another process has written its own, or the file is gone, or its directory is not this user's any more.
      remove = void . trySync $ do
        now <- readFile path
        when (now == line) (removeFile path)
  bracket_ ((writeFile new line >> rename new path) `onException` trySync (removeFile new)) remove body

-- | A user by name or number, and perhaps another group than the user's.
data UserSpec = UserSpec {userWanted :: !String, groupWanted :: !(Maybe String)}
  deriving stock (Eq, Show)

-- | Read @USER@ or @USER:GROUP@.
parseUser :: String -> Either String UserSpec
parseUser text = case break (== ':') text of
  ("", _) -> Left "expected USER or USER:GROUP, such as www-data"
  (_, ":") -> Left "after ':' a group is needed"
  (user, "") -> Right (UserSpec user Nothing)
  (user, _ : group) -> Right (UserSpec user (Just group))

-- | As 'parseUser' reads it.
renderUser :: UserSpec -> String
renderUser (UserSpec user group) = user ++ maybe "" (':' :) group

-- | Give up the rights of the present user for good: groups first, and the C library changes all threads. Nothing happens in a process that
-- is the wanted user already, such as one that a service manager started so, or a successor.
--
-- [Blocks]: holds an OS thread while users are looked up.
-- [Throws]: never; what is wrong is the answer.
becomeUser :: UserSpec -> IO (Either String ())
becomeUser spec@(UserSpec user group) =
  lookUpUser spec >>= \case
    Left why -> pure (Left why)
    Right (name, uid, gid) -> do
      (mine, mineToo) <- (,) <$> getEffectiveUserID <*> getEffectiveGroupID
      if mine == uid && mineToo == gid
        then pure (Right ())
        else do
          others <- maybe (map groupID . filter ((name `elem`) . groupMembers) <$> getAllGroupEntries) (const (pure [])) group
          changed <- try (setGroups (gid : others) >> setGroupID gid >> setUserID uid)
          pure $ case changed of
            Left (e :: IOException) -> Left ("this process may not become " ++ user ++ ": " ++ displayException e)
            Right () -> Right ()

-- | The user, by name and number, and the group that a name or number stands for, or why there is none.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: never.
lookUpUser :: UserSpec -> IO (Either String (String, UserID, GroupID))
lookUpUser (UserSpec user group) = do
  found <- try (maybe (getUserEntryForName user) (getUserEntryForID . fromIntegral) (numbered user))
  case found of
    Left e -> pure (Left (missing "user" user e))
    Right entry -> do
      groupFound <- try (maybe (pure (userGroupID entry)) (fmap groupID . groupNamed) group)
      pure $ case groupFound of
        Left e -> Left (missing "group" (fold group) e)
        Right gid -> Right (userName entry, userID entry, gid)
  where
    missing what name e = if isDoesNotExistError e then "there is no " ++ what ++ " " ++ name else show e
    groupNamed name = maybe (getGroupEntryForName name) (getGroupEntryForID . fromIntegral) (numbered name)
    -- The last number means none.
    numbered name = readMaybe name >>= \n -> if n >= 0 && n < (4294967295 :: Int) then Just n else Nothing
