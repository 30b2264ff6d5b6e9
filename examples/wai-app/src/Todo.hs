{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE TupleSections #-}

-- | A to-do list that several people see change: a page, a JSON API, and a WebSocket that tells every page
-- about every change. A plain WAI application, so it runs on any WAI server.
--
-- > GET    /api/items        every item
-- > POST   /api/items        {"text": "buy milk"}: a new item
-- > PUT    /api/items/7      {"done": true}, {"text": "…"} or both
-- > DELETE /api/items/7
-- > GET    /live             a WebSocket: the whole list, at once and after each change
module Todo
  ( newTodo,
  )
where

import Control.Concurrent.STM
import Control.Exception (catch)
import Control.Monad (forever, guard, void)
import Data.Aeson (Value, eitherDecode, encode, object, withObject, (.:), (.:?), (.=))
import Data.Aeson.Types (parseEither)
import Data.ByteString.Lazy qualified as L
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Read (decimal)
import Heddle.Scope (race)
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.WebSockets (websocketsOr)
import Network.WebSockets qualified as Sockets
import Page (page)

-- | What to do, and whether it is done.
data Item = Item !Text !Bool

-- | The items by number, the next number, and how many changes there have been.
data List = List {listItems :: !(IntMap Item), listNext :: !Int, listChanges :: !Int}

-- | An application with an empty list of its own.
newTodo :: IO Application
newTodo = do
  list <- newTVarIO (List IntMap.empty 1 0)
  pure (websocketsOr Sockets.defaultConnectionOptions (live list) (answer list))

-- The page and the API --------------------------------------------------------------

answer :: TVar List -> Application
answer list request respond = case (requestMethod request, pathInfo request) of
  ("GET", []) -> respond (responseLBS status200 [(hContentType, "text/html; charset=utf-8"), (hCacheControl, "no-cache")] page)
  ("GET", ["api", "items"]) -> readTVarIO list >>= json status200 . shown
  ("POST", ["api", "items"]) ->
    withBody (.: "text") $ \text -> do
      new <- change list $ \old ->
        let n = listNext old in Just (old {listItems = IntMap.insert n (Item text False) (listItems old), listNext = n + 1}, n)
      maybe (refuse status503 "the list is full") (json status201 . itemValue . (,Item text False)) new
  ("PUT", ["api", "items", number]) ->
    withBody (\o -> (,) <$> o .:? "text" <*> o .:? "done") $ \(text, done) ->
      onItem number $ \(Item text' done') -> Just (Item (fromMaybe text' text) (fromMaybe done' done))
  ("DELETE", ["api", "items", number]) -> onItem number (const Nothing)
  (_, []) -> refuse status405 "only GET"
  (_, "api" : "items" : _) -> refuse status405 "no such method for items"
  _ -> refuse status404 "nothing here"
  where
    json status value = respond (responseLBS status [(hContentType, "application/json")] (encode value))
    refuse status why = json status (object ["error" .= (why :: String)])
    withBody parser act = do
      body <- readAtMost 10000 request
      case body >>= \bytes -> eitherDecode bytes >>= parseEither (withObject "an item" parser) of
        Left why -> refuse status400 why
        Right parsed -> act parsed
    onItem number update = case decimal number of
      Right (n, "") -> do
        found <- change list $ \old -> do
          guard (IntMap.member n (listItems old))
          Just (old {listItems = IntMap.update update n (listItems old)}, ())
        maybe (refuse status404 "no such item") (\() -> respond (responseLBS status204 [] "")) found
      _ -> refuse status404 "no such item"

-- A body, if it is at most so long.
readAtMost :: Int -> Request -> IO (Either String L.ByteString)
readAtMost most request = go 0 []
  where
    go n pieces
      | n > most = pure (Left "the body is too long")
      | otherwise = do
        piece <- L.fromStrict <$> getRequestBodyChunk request
        if L.null piece then pure (Right (L.concat (reverse pieces))) else go (n + fromIntegral (L.length piece)) (piece : pieces)

-- Change the list, if it can be, and count the change. A list has room for a thousand items.
change :: TVar List -> (List -> Maybe (List, a)) -> IO (Maybe a)
change list update = atomically $ do
  old <- readTVar list
  case update old of
    Just (new, result) | IntMap.size (listItems new) <= 1000 -> do
      writeTVar list new {listChanges = listChanges old + 1}
      pure (Just result)
    _ -> pure Nothing

shown :: List -> [Value]
shown = map itemValue . IntMap.toList . listItems

itemValue :: (Int, Item) -> Value
itemValue (n, Item text done) = object ["id" .= n, "text" .= Text.take 500 text, "done" .= done]

-- The WebSocket ---------------------------------------------------------------------

-- Each page has one: it is sent the list whenever that has changed since the last time, so a slow page
-- misses steps but never the end. It ends when the page goes away.
live :: TVar List -> Sockets.ServerApp
live list pending
  | Sockets.requestPath (Sockets.pendingRequest pending) /= "/live" = Sockets.rejectRequest pending "only /live is a WebSocket"
  | otherwise = do
    socket <- Sockets.acceptRequest pending
    void (race (telling socket (-1)) (hearing socket)) `catch` \(_ :: Sockets.ConnectionException) -> pure ()
  where
    telling :: Sockets.Connection -> Int -> IO ()
    telling socket seen = do
      now <- atomically $ do
        now <- readTVar list
        check (listChanges now /= seen)
        pure now
      Sockets.sendTextData socket (encode (shown now))
      telling socket (listChanges now)
    -- Nothing is said here; reading answers pings and notices the end.
    hearing socket = forever (Sockets.receive socket) :: IO ()
