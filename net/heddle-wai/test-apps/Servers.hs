{-# LANGUAGE OverloadedStrings #-}

-- | An application on both servers, and what they say.
module Servers
  ( withBoth,
    Ask,
    Said,
    says,
    contains,
    hasCode,
    body,
    header',
    between,
    form,
    json,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.List (sort)
import Heddle.Testkit.Watchdog
import Network.HTTP.Client (Manager)
import Network.HTTP.Client qualified as Client
import Network.HTTP.Types
import Network.Wai (Application)
import Network.Wai.Handler.Heddle qualified as Heddle
import Network.Wai.Handler.Warp qualified as Warp

-- | Method, target, headers, body; the answer is Heddle's.
type Ask = Method -> String -> RequestHeaders -> ByteString -> IO Said

-- | Code, headers, body.
data Said = Said !Int !ResponseHeaders !ByteString
  deriving stock (Show)

-- | Make the application twice, run each on a server of its own, and talk to both at once. They may differ
-- in framing, dates, cookies' secrets and the server's name.
withBoth :: IO Application -> (Ask -> IO a) -> IO a
withBoth make act = do
  manager <- Client.newManager Client.defaultManagerSettings
  Heddle.withApplicationSettings (Heddle.setOnException (\_ _ -> pure ()) Heddle.defaultSettings) make $ \ours ->
    Warp.withApplicationSettings (Warp.setOnException (\_ _ -> pure ()) Warp.defaultSettings) make $ \theirs ->
      act $ \verb target headers content -> do
        said <- askOne manager ours verb target headers content
        -- A second Yesod site shares the key of its sessions, so cookies are good for both.
        other <- askOne manager theirs verb target headers content
        unless (comparable said == comparable other) $ unexpected ("as Warp: " ++ show other) (show said)
        pure said
  where
    comparable (Said code headers _) =
      (code, sort [name | (name, _) <- headers, name `notElem` ["Date", "Server", "Transfer-Encoding", "Content-Length", "Connection", "Last-Modified", "Accept-Ranges"]])

askOne :: Manager -> Int -> Ask
askOne manager port verb target headers content = do
  request <- Client.parseRequest ("http://127.0.0.1:" ++ show port ++ target)
  answer <-
    patiently ("an answer to " ++ show (verb, target)) $
      Client.httpLbs request {Client.method = verb, Client.requestHeaders = headers ++ [("Accept-Encoding", "identity") | "Accept-Encoding" `notElem` map fst headers], Client.requestBody = Client.RequestBodyBS content, Client.decompress = const False} manager
  pure (Said (statusCode (Client.responseStatus answer)) (Client.responseHeaders answer) (L.toStrict (Client.responseBody answer)))

says :: Int -> ByteString -> Said -> IO ()
says code expected said@(Said code' _ got) =
  unless (code == code' && expected == got) $ unexpected (show (code, B.take 200 expected)) (show said)

contains :: Int -> ByteString -> Said -> IO ()
contains code expected said@(Said code' _ got) =
  unless (code == code' && expected `B.isInfixOf` got) $ unexpected (show (code, expected)) (show said)

hasCode :: Int -> Said -> IO ()
hasCode code said@(Said code' _ _) = unless (code == code') $ unexpected (show code) (show said)

body :: Said -> ByteString
body (Said _ _ content) = content

header' :: HeaderName -> Said -> Maybe ByteString
header' name (Said _ headers _) = lookup name headers

-- | What stands between two texts.
between :: ByteString -> ByteString -> ByteString -> ByteString
between from to text = fst (B.breakSubstring to (B.drop (B.length from) (snd (B.breakSubstring from text))))

form, json :: Header
form = ("Content-Type", "application/x-www-form-urlencoded")
json = ("Content-Type", "application/json")
