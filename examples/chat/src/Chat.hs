{-# LANGUAGE OverloadedStrings #-}

-- | Rooms in which everybody hears everybody. A member's first message is the room and the name, with a tab between
-- them; each further one is said in the room. A member has a bounded queue: one who does not read as fast as the others
-- talk is dropped, with a reason, and delays nobody.
module Chat
  ( Rooms,
    newRooms,
    members,
    chat,
  )
where

import Chat.Page (page)
import Control.Monad (forever, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Either (fromRight)
import Data.Foldable (for_)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Word (Word8)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Channel
import Heddle.Http
import Heddle.Prim.Atomic (Ref, Words, fetchAdd, modifyRef, newRef, newWords, readRef)
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (bracket)
import Heddle.Scope (race)
import Heddle.WebSocket

-- | All rooms, and a counter for the members' numbers.
data Rooms = Rooms !(Ref (Map Utf8 Room)) !Words !Int

type Room = Map Int Member

-- | What a member has yet to read, and whether it was dropped.
data Member = Member !(Channel Utf8) !(Channel ())

-- | No rooms yet. A member may have this many lines to read.
newRooms :: Int -> IO Rooms
newRooms most = (\rooms counter -> Rooms rooms counter most) <$> newRef Map.empty <*> newWords 1

-- | How many members are in a room.
members :: Rooms -> Utf8 -> IO Int
members (Rooms rooms _ _) room = maybe 0 Map.size . Map.lookup room <$> readRef rooms

-- | The page, and the WebSocket behind it.
chat :: Rooms -> Handler
chat rooms request = do
  path <- rawPath request
  case path of
    "/" -> pure (Whole status200 [Header "Content-Type" "text/html; charset=utf-8"] page)
    "/chat" -> websocket defaultWebSocketOptions {optionMessageLimit = 4096, optionSend = seconds 10} (session rooms) request
    _ -> pure (Whole status404 [Header "Content-Type" "text/plain; charset=utf-8"] "There is nothing at this address.\n")

session :: Rooms -> Connection -> IO ()
session rooms conn = do
  hello <- receive conn
  case hello of
    TextMessage text
      | (room, rest) <- B.break (== tab) (Utf8.toByteString text),
        Just name <- B.stripPrefix (B.singleton tab) rest,
        good room,
        good name,
        Right room' <- Utf8.validate room,
        Right name' <- Utf8.validate name ->
        talk rooms conn room' name'
    _ -> close conn PolicyViolation "say a room and a name first"
  where
    good s = not (B.null s) && B.length s <= 160 && B.all (>= 32) s

tab :: Word8
tab = 9

talk :: Rooms -> Connection -> Utf8 -> Utf8 -> IO ()
talk rooms conn room name =
  bracket enter leave $ \(Member queue dropped, _) -> do
    say "joined" mempty
    -- The one that ends first ends the others.
    _ <- race (forever listen) (race (forever (recv queue >>= sendText conn)) (recv dropped))
    -- Listening and sending end by exceptions only.
    close conn PolicyViolation "too slow for this room"
  where
    Rooms table counter most = rooms
    enter = do
      member <- Member <$> newBounded most <*> newBounded 1
      number <- fetchAdd counter 0 1
      modifyRef table (\all' -> (Map.insertWith Map.union room (Map.singleton number member) all', ()))
      pure (member, number)
    leave (_, number) = do
      remove number
      say "left" mempty
    remove number = modifyRef table (\all' -> (Map.update (nothingIfEmpty . Map.delete number) room all', ()))
    nothingIfEmpty m = if Map.null m then Nothing else Just m
    listen =
      receive conn >>= \case
        TextMessage text -> say "said" (oneLine text)
        BinaryMessage _ -> close conn UnsupportedData "only text is understood here"
    -- To each member of the room, without waiting for any.
    say :: Utf8 -> Utf8 -> IO ()
    say kind text = do
      present <- Map.findWithDefault Map.empty room <$> readRef table
      for_ (Map.toList present) $ \(number, Member queue dropped) -> do
        kept <- trySend queue (kind <> "\t" <> name <> "\t" <> text)
        unless kept $ remove number >> void (trySend dropped ())

-- Tabs and ends of lines would be taken for ours.
oneLine :: Utf8 -> Utf8
oneLine text
  | B.all (>= 32) bytes = text
  | otherwise = fromRight mempty (Utf8.validate (B.map (\b -> if b < 32 then 32 else b) bytes))
  where
    bytes = Utf8.toByteString text :: ByteString
