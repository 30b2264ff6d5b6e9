{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Testkit.AccessLogLine
-- Description : A strict reader of Apache's combined log format
-- Stability   : internal, exempt from the version policy
--
-- Written from the format's description, independent of the server's writer: a byte that the format does not allow, an
-- unknown escape, or a line without an end is an error, where a lenient reader would pass over it.
--
-- Cost: linear in the log, several list cells a byte.
module Heddle.Testkit.AccessLogLine
  ( -- * Lines
    Entry (..),
    readEntry,

    -- * Whole logs
    readLog,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (digitToInt, isDigit)
import Data.Word (Word8)

-- | What a line says. The address and the time are as they stand in the line; the three texts in quotes are unescaped.
-- An absent size, which is written as a dash, is 0.
data Entry = Entry
  { entryPeer :: !ByteString,
    -- | As it stands in the line, a dash for none.
    entryUser :: !ByteString,
    entryTime :: !ByteString,
    entryRequest :: !ByteString,
    entryStatus :: !Int,
    entryBytes :: !Int,
    entryReferer :: !ByteString,
    entryAgent :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Read one line, without its newline; or say what is wrong with it.
readEntry :: ByteString -> Either String Entry
readEntry line = do
  if B.all printable line then Right () else Left "a byte outside printable ASCII"
  (peer, r1) <- word line
  (user, r2) <- expect "- " r1 >>= word
  r2' <- expect "[" r2
  let (time, r3) = C.break (== ']') r2'
  if validTime time then Right () else Left ("the time " ++ show time)
  r4 <- expect "] \"" r3
  (request, r5) <- quoted r4
  r6 <- expect " " r5
  (status, r7) <- word r6
  (size, r8) <- word r7
  r9 <- expect "\"" r8
  (referer, r10) <- quoted r9
  r11 <- expect " \"" r10
  (agent, r12) <- quoted r11
  if B.null r12 then Right () else Left ("words after the end: " ++ show r12)
  status' <- if B.length status == 3 then number status else Left ("the status " ++ show status)
  size' <- if size == "-" then Right 0 else number size
  Right (Entry peer user time request status' size' referer agent)
  where
    printable b = b >= 0x20 && b < 0x7F
    word s = case C.break (== ' ') s of
      (w, rest) | not (B.null w), not (B.null rest) -> Right (w, B.drop 1 rest)
      _ -> Left ("a word at " ++ show (B.take 40 s))
    expect what s = maybe (Left (show what ++ " at " ++ show (B.take 40 s))) Right (B.stripPrefix what s)
    number s
      | not (B.null s), C.all isDigit s = Right (read (C.unpack s))
      | otherwise = Left ("the number " ++ show s)

-- For example 21/Nov/2026:21:46:54 +0000.
validTime :: ByteString -> Bool
validTime t = B.length t == 26 && and (zipWith fits "dd/mmm/dddd:dd:dd:dd +dddd" (C.unpack t))
  where
    fits 'd' c = isDigit c
    fits 'm' c = c `elem` ['A' .. 'z']
    fits '+' c = c `elem` ['+', '-']
    fits p c = p == c

-- Up to the closing quote, unescaped; and what follows the quote.
quoted :: ByteString -> Either String (ByteString, ByteString)
quoted = go []
  where
    go acc s = case C.uncons s of
      Nothing -> Left "a closing quote"
      Just ('"', rest) -> Right (B.pack (reverse acc), rest)
      Just ('\\', rest) -> case C.uncons rest of
        Just (c, more) | c == '"' || c == '\\' -> go (byte c : acc) more
        Just ('x', more)
          | (h, left) <- B.splitAt 2 more,
            B.length h == 2,
            C.all (`elem` ("0123456789abcdef" :: String)) h ->
            go (fromIntegral (digitToInt (C.head h) * 16 + digitToInt (C.last h)) : acc) left
        _ -> Left ("an escape at " ++ show (B.take 10 s))
      Just (c, rest) -> go (byte c : acc) rest
    byte c = fromIntegral (fromEnum c) :: Word8

-- | Read a log, whose last line must end with a newline too. The error names the line by its number and its text.
readLog :: ByteString -> Either String [Entry]
readLog content
  | B.null content = Right []
  | C.last content /= '\n' = Left ("a newline at the end of " ++ show (B.drop (B.length content - 60) content))
  | otherwise = traverse numbered (zip [1 :: Int ..] (C.lines content))
  where
    numbered (n, line) = either (\e -> Left ("line " ++ show n ++ ": " ++ e ++ "; the line is " ++ show line)) Right (readEntry line)
