{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Messages
-- Description : A log's messages for a page
-- Stability   : internal
--
-- A page has all messages, or the first ones if there are very many. Their times and cores are columns of the page's
-- data, since its timeline draws them. Their texts are scripts of 'chunkSize' texts each, which the page reads when it
-- shows or searches them, so that a browser need not parse them to open it.
--
-- Cost: each message's bytes on the page, at most 'maxBytes' in all; nothing without messages.
-- Owner: values.
module Heddle.Trace.Messages
  ( Messages,
    none,
    add,
    messageCount,
    heldCount,
    chunkSize,
    maxBytes,
    timeColumn,
    coreColumn,
    textScripts,
    jsonString,
    commas,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Builder
import Data.ByteString.Lazy qualified as Lazy
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build qualified as Json

-- | The messages until now.
data Messages = Messages
  { -- | All of them.
    messageCount :: !Int,
    -- | Those that are kept: the first ones.
    heldCount :: !Int,
    -- The bytes that these take.
    heldBytes :: !Int,
    -- Fewer than a chunk, newest first, and whole chunks, newest first.
    recent :: ![Message],
    chunks :: ![Chunk]
  }

-- Core, time, text.
data Message = Message !Int !Int !ByteString

-- Times, cores and texts, with commas.
data Chunk = Chunk !ByteString !ByteString !ByteString

-- | No messages.
none :: Messages
none = Messages 0 0 0 [] []

-- | Texts in one script.
chunkSize :: Int
chunkSize = 4096

-- | As much of messages as a page has: of usual ones some hundred thousand. A browser opens that in a few seconds.
maxBytes :: Int
maxBytes = 32 * 1024 * 1024

-- | A message's core, time and text. After the first one that has no room, none is kept.
add :: Int -> Int -> ByteString -> Messages -> Messages
add core time text m
  | heldCount m < messageCount m || size > maxBytes = m {messageCount = messageCount m + 1}
  | heldCount m `mod` chunkSize == chunkSize - 1 = next {recent = [], chunks = chunk (recent next) : chunks m}
  | otherwise = next
  where
    json = jsonString text
    -- With its number of a time and of a core.
    size = heldBytes m + Bytes.length json + 24
    next =
      m
        { messageCount = messageCount m + 1,
          heldCount = heldCount m + 1,
          heldBytes = size,
          recent = Message core time json : recent m
        }

chunk :: [Message] -> Chunk
chunk newestFirst = Chunk (column time) (column core) (column text)
  where
    messages = reverse newestFirst
    column of' = Lazy.toStrict (toLazyByteString (commas (map of' messages)))
    time (Message _ t _) = intDec t
    core (Message c _ _) = intDec c
    text (Message _ _ s) = byteString s

-- | Values with commas between them.
commas :: [Builder] -> Builder
commas [] = mempty
commas (x : xs) = x <> foldMap ("," <>) xs

allChunks :: Messages -> [Chunk]
allChunks m = reverse ([chunk (recent m) | not (null (recent m))] ++ chunks m)

-- | The times of those that are kept, and their cores (-1: none), as JSON.
timeColumn, coreColumn :: Messages -> Builder
timeColumn m = "[" <> commas [byteString times | Chunk times _ _ <- allChunks m] <> "]"
coreColumn m = "[" <> commas [byteString cores | Chunk _ cores _ <- allChunks m] <> "]"

-- | A script for each chunk, with a list of its texts.
textScripts :: Messages -> Builder
textScripts = foldMap script . allChunks
  where
    script (Chunk _ _ texts) =
      "<script class=\"texts\" type=\"application/json\">[" <> byteString texts <> "]</script>\n"

-- | JSON inside a script element: no string of the log can end it. Invalid UTF-8 is repaired.
jsonString :: ByteString -> ByteString
jsonString = Bytes.intercalate "\\u003c" . Bytes.split 0x3c . toByteString . Json.encode . Json.utf8
