{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Users
-- Description : Basic authentication
-- Stability   : internal, exempt from the version policy
--
-- User names and hashed passwords from a file such as @htpasswd@ writes. The file is looked at again at most once a second,
-- when a request comes. Checking a password takes long on purpose, so each capability checks one at a time, and what was right is
-- remembered for all of them: clients send it with every request.
--
-- Cost: for a request with remembered credentials a copy, a look-up and a comparison; otherwise the hash's, in a safe
-- foreign call.
-- Owner: the users, and what was right, belong to all capabilities.
-- Shared writes per request: 0 with remembered credentials.
module Heddle.Serve.Users
  ( Users,
    openUsers,
    Checking,
    newChecking,
    newCheckingBy,
    guarded,

    -- * Parts, for tests
    parseUsers,
    credentialsOf,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Base64 qualified as Base64
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (createUptoN)
import Data.Char (toLower)
import Data.Foldable (for_)
import Data.List (delete, minimumBy)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe, isJust, listToMaybe)
import Data.Ord (comparing)
import Data.Word (Word64)
import Heddle.Bytes.Hash (hashWith, processKey)
import Heddle.Gateway.Proxy (Network, forwardedClients, peerAddressOf)
import Heddle.Http
import Heddle.Http.Borrowed (noteForLog, requestBegan)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (bracket, mask_, onException)
import Heddle.Prim.File
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Serve.ClientTable (ClientKey, clientKey)
import Heddle.Serve.FileReply (problem, withHeaders)
import Heddle.Serve.OpenFile (readLarge)
import Heddle.Serve.Password

-- | The users of a site.
data Users = Users
  { usersPath :: !ByteString,
    usersTable :: !(Ref Version),
    -- | Word 0: when the file was last looked at (monotonic nanoseconds).
    usersWords :: !Words,
    usersTrouble :: !(String -> IO ()),
    -- | What was found right, by its hash; of all capabilities, so that a password waits for no other one's check once it is known.
    usersProven :: !(Ref (Map Word64 Proven))
  }

-- One version of the file: its number, what tells it from others, and the hashes.
data Version = Version !Int !(Maybe FileStatus) !(Map ByteString ByteString)

-- | Read the users; what is wrong with the file otherwise. Later problems go to the action.
--
-- [Blocks]: holds an OS thread.
openUsers :: ByteString -> (String -> IO ()) -> IO (Either String Users)
openUsers path trouble = do
  Deadline now <- monotonicNow
  readUsers path >>= \case
    Left why -> pure (Left why)
    Right (status, table) -> do
      ws <- newWords 1
      writeWord ws 0 now
      ref <- newRef (Version 0 (Just status) table)
      Right . Users path ref ws trouble <$> newRef Map.empty

-- The largest file that is read.
mostOfFile :: Int
mostOfFile = 16777216

readUsers :: ByteString -> IO (Either String (FileStatus, Map ByteString ByteString))
readUsers path = mask_ $ do
  r <- openFile path readOnly
  if r < 0
    then pure (Left (describeErrno (Errno (negate r))))
    else do
      let fd = fromIntegral r
      found <- (fileStatus fd >>= either (pure . Left . describeErrno . Errno . negate) (content fd)) `onException` closeFile fd
      _ <- closeFile fd
      case found of
        Left why -> pure (Left why)
        Right (status, text) -> fmap ((,) status) <$> parseUsers text
  where
    content fd status
      | statusKind status /= RegularFile = pure (Left "it is not a file")
      | statusSize status > fromIntegral mostOfFile = pure (Left "it is larger than 16 MB")
      | otherwise = do
        let size = fromIntegral (statusSize status)
        text <- BI.createUptoN size (\p -> max 0 <$> readLarge fd p size)
        pure (if B.length text == size then Right (status, text) else Left "it is being changed")

-- | The users of a file's content. Empty lines and those that begin with @#@ mean nothing.
parseUsers :: ByteString -> IO (Either String (Map ByteString ByteString))
parseUsers text = go (zip [1 :: Int ..] (map (C.filter (/= '\r')) (C.lines text))) Map.empty
  where
    go [] found
      | Map.null found = pure (Left "it names no user")
      | otherwise = pure (Right found)
    go ((n, line) : rest) found
      | B.null (C.strip line) || "#" `B.isPrefixOf` line = go rest found
      | otherwise = case C.break (== ':') line of
        (user, hash)
          | B.null user || B.null hash -> complain n "is not USER:HASH"
          | Map.member user found -> complain n ("names " ++ C.unpack user ++ " again")
          | otherwise -> do
            known <- knownHash (B.drop 1 hash)
            if known
              then go rest (Map.insert user (B.drop 1 hash) found)
              else complain n ("has a hash that is weak or unknown; make the line with 'heddle password " ++ C.unpack user ++ "' or 'htpasswd -B'")
    complain n what = pure (Left ("line " ++ show n ++ " " ++ what))

-- The users as of a second before this time at most.
usersAt :: Users -> Deadline -> IO Version
usersAt users (Deadline now) = do
  before <- readWord (usersWords users) 0
  when (now - before >= 1000000000) $ do
    won <- compareAndSet (usersWords users) 0 before now
    when won (refresh users)
  readRef (usersTable users)

-- Read the file again if it is another one; a wrong one leaves the users as they were.
refresh :: Users -> IO ()
refresh users = do
  Version version status table <- readRef (usersTable users)
  found <- statusOf (usersPath users)
  when (found /= status) $
    readUsers (usersPath users) >>= \case
      Right (new, users') -> writeRef (usersTable users) (Version (version + 1) (Just new) users')
      Left why -> do
        -- Said once for each version.
        writeRef (usersTable users) (Version version found table)
        usersTrouble users ("the users in " ++ C.unpack (usersPath users) ++ " cannot be used, and the old ones stay: " ++ why)

statusOf :: ByteString -> IO (Maybe FileStatus)
statusOf path = mask_ $ do
  r <- openFile path readOnly
  if r < 0
    then pure Nothing
    else do
      status <- fileStatus (fromIntegral r) `onException` closeFile (fromIntegral r)
      either (const Nothing) Just status <$ closeFile (fromIntegral r)

-- Credentials ---------------------------------------------------------------------

-- | How a password is compared with a hash, the lock of whoever does so on a capability, and the clients of those that do or wait
-- for it.
data Checking = Checking !(ByteString -> ByteString -> IO Bool) !Lock !(Ref [Maybe ClientKey])

-- When it was found right, the version of the users that it was right for, and an Authorization as sent.
data Proven = Proven !Deadline !Int !ByteString

-- How many are remembered.
mostProven :: Int
mostProven = 1024

-- More requests than these that check or wait for it are refused: a check takes long, and whoever sends wrong passwords
-- would keep others out for as long as the queue is. One client may have half of the places, so that others find one.
mostWaiting, mostOfClient :: Int
mostWaiting = 16
mostOfClient = 8

-- | Nobody waits yet.
newChecking :: IO Checking
newChecking = newCheckingBy passwordMatches

-- | The same with another comparison, for tests.
newCheckingBy :: (ByteString -> ByteString -> IO Bool) -> IO Checking
newCheckingBy matches = Checking matches <$> newLock <*> newRef []

-- | @guarded trusted users checking refuse handler@ passes requests with the name and password of a user to the handler, with the
-- name, and answers others with 401, which @refuse@ may change, or with 503 while too many are being checked. A client behind a
-- trusted proxy is the one that the proxy names.
guarded :: [Network] -> Users -> Checking -> (Request -> Reply -> IO Reply) -> (Maybe ByteString -> Handler) -> Handler
guarded trusted users (Checking matches lock waiting) refuse handler request = do
  given <- fromMaybe "" <$> header request HeaderAuthorization
  table@(Version version _ _) <- usersAt users (requestBegan request)
  known <- isRemembered users version given
  if known
    then as (fst <$> credentialsOf given)
    else case credentialsOf given of
      Nothing -> refuse request unauthorized
      Just (user, password) -> do
        named <- forwardedClients trusted request
        let client = clientKey (fromMaybe (peerAddressOf (peer request)) (listToMaybe named))
        right <- bracket (modifyRef waiting (entered client)) (\inside -> when inside (modifyRef waiting (left client))) $ \inside ->
          if not inside
            then pure Nothing
            else fmap Just . withLock lock $ do
              -- Another request with the same may have been checked meanwhile.
              again <- isRemembered users version given
              if again then pure True else check matches table user password >>= \ok -> ok <$ when ok (remember users version given)
        case right of
          Just True -> as (Just user)
          Just False -> refuse request unauthorized
          Nothing -> refuse request (withHeaders [Header "Retry-After" "5"] (problem status503 "Too many passwords are being checked; try again."))
  where
    as user = for_ user (noteForLog request "remote_user") >> handler user request
    entered client others
      | length others >= mostWaiting || (isJust client && length (filter (== client) others) >= mostOfClient) = (others, False)
      | otherwise = (client : others, True)
    left client others = (delete client others, ())

-- For an unknown user a password is checked as well, so that the time does not tell which users there are, if
-- all hashes are of one kind and cost.
check :: (ByteString -> ByteString -> IO Bool) -> Version -> ByteString -> ByteString -> IO Bool
check matches (Version _ _ table) user password = case Map.lookup user table of
  Just hash -> matches password hash
  Nothing -> False <$ traverse (matches password . snd) (Map.lookupMin table)

isRemembered :: Users -> Int -> ByteString -> IO Bool
isRemembered users version given
  | B.null given = pure False
  | otherwise = same . Map.lookup (proofKey given) <$> readRef (usersProven users)
  where
    -- Found by a hash under a key of the process, so the time does not tell which was near.
    same = maybe False (\(Proven _ v text) -> v == version && sameSecret text given)

remember :: Users -> Int -> ByteString -> IO ()
remember users version given = do
  now <- monotonicNow
  modifyRef (usersProven users) $ \known ->
    let current = Map.filter (\(Proven _ v _) -> v == version) known
        oldest = fst (minimumBy (comparing (\(_, Proven at _ _) -> at)) (Map.toList current))
        room = if Map.size current < mostProven then current else Map.delete oldest current
     in (Map.insert (proofKey given) (Proven now version given) room, ())

proofKey :: ByteString -> Word64
proofKey = hashWith processKey

unauthorized :: Reply
unauthorized = withHeaders [Header "WWW-Authenticate" "Basic realm=\"restricted\", charset=\"UTF-8\""] (problem status401 "A name and a password are needed here.")

-- | The name and password in an Authorization.
--
-- >>> credentialsOf "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
-- Just ("Aladdin","open sesame")
--
-- [Source]: RFC 7617.
credentialsOf :: ByteString -> Maybe (ByteString, ByteString)
credentialsOf text = case C.break (== ' ') text of
  (scheme, rest) | C.map toLower scheme == "basic" -> do
    decoded <- either (const Nothing) Just (Base64.decode (C.strip rest))
    case C.break (== ':') decoded of
      (user, password) | not (B.null user) && not (B.null password) -> Just (user, B.drop 1 password)
      _ -> Nothing
  _ -> Nothing
