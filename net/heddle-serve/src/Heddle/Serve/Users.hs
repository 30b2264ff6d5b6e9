{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Users
-- Description : Basic authentication
-- Stability   : internal, exempt from the version policy
--
-- User names and hashed passwords from a file such as @htpasswd@ writes. The file is looked at again at most once a second,
-- when a request comes. Checking a password takes long on purpose, so each capability checks one at a time, and remembers
-- what was right: clients send it with every request.
--
-- Cost: for a request with remembered credentials a copy and a few comparisons; otherwise the hash's, in a safe
-- foreign call.
-- Owner: the users belong to all capabilities, what was right to one.
module Heddle.Serve.Users
  ( Users,
    openUsers,
    Verified,
    newVerified,
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
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Heddle.Http
import Heddle.Http.Borrowed (requestBegan)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (bracket, mask_, onException)
import Heddle.Prim.File
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Serve.FileReply (problem, withHeaders)
import Heddle.Serve.OpenFile (readLarge)
import Heddle.Serve.Password

-- | The users of a site.
data Users = Users
  { usersPath :: !ByteString,
    usersTable :: !(Ref Version),
    -- | Word 0: when the file was last looked at (monotonic nanoseconds).
    usersWords :: !Words,
    usersTrouble :: !(String -> IO ())
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
      pure (Right (Users path ref ws trouble))

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

-- | The credentials that a capability found right, newest first; the lock of whoever checks some; and how many requests check
-- or wait for it.
data Verified = Verified !(Ref [Proven]) !Lock !Words

-- An Authorization as sent, and the version of the users that it was right for.
data Proven = Proven !Int !ByteString

-- How many are remembered.
mostVerified :: Int
mostVerified = 64

-- More requests than these that check or wait for it are refused: a check takes long, and whoever sends wrong passwords
-- would keep others out for as long as the queue is.
mostWaiting :: Int
mostWaiting = 16

-- | None yet.
newVerified :: IO Verified
newVerified = Verified <$> newRef [] <*> newLock <*> newWords 1

-- | @guarded users verified refuse handler@ passes requests with the name and password of a user to the handler, with the
-- name, and answers others with 401, which @refuse@ may change, or with 503 while too many are being checked.
guarded :: Users -> Verified -> (Request -> Reply -> IO Reply) -> (Maybe ByteString -> Handler) -> Handler
guarded users verified@(Verified _ lock waiting) refuse handler request = do
  given <- fromMaybe "" <$> header request HeaderAuthorization
  table@(Version version _ _) <- usersAt users (requestBegan request)
  known <- isRemembered verified version given
  if known
    then handler (fst <$> credentialsOf given) request
    else case credentialsOf given of
      Nothing -> refuse request unauthorized
      Just (user, password) -> do
        right <- bracket (fetchAdd waiting 0 1) (\_ -> fetchAdd waiting 0 (-1)) $ \before ->
          if before >= mostWaiting
            then pure Nothing
            else fmap Just . withLock lock $ do
              -- Another request with the same may have been checked meanwhile.
              again <- isRemembered verified version given
              if again then pure True else check table user password >>= \ok -> ok <$ when ok (remember verified version given)
        case right of
          Just True -> handler (Just user) request
          Just False -> refuse request unauthorized
          Nothing -> refuse request (withHeaders [Header "Retry-After" "5"] (problem status503 "Too many passwords are being checked; try again."))

-- For an unknown user a password is checked as well, so that the time does not tell which users there are, if
-- all hashes are of one kind and cost.
check :: Version -> ByteString -> ByteString -> IO Bool
check (Version _ _ table) user password = case Map.lookup user table of
  Just hash -> passwordMatches password hash
  Nothing -> False <$ traverse (passwordMatches password . snd) (Map.lookupMin table)

isRemembered :: Verified -> Int -> ByteString -> IO Bool
isRemembered (Verified ref _ _) version given = do
  known <- readRef ref
  -- All are compared, so that the time does not tell which was near.
  pure (not (B.null given) && sum (map same known) /= 0)
  where
    same (Proven v text) = if sameSecret text given && v == version then 1 else 0 :: Int

remember :: Verified -> Int -> ByteString -> IO ()
remember (Verified ref _ _) version given =
  modifyRef ref (\known -> (Proven version given : take (mostVerified - 1) [one | one@(Proven v _) <- known, v == version], ()))

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
