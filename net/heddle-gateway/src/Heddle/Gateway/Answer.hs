{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Answer
-- Description : The head of a program's answer
-- Stability   : stable
--
-- Programs of CGI, FastCGI and SCGI answer with header lines, an empty line and content. This reads the lines, decides the
-- status, and keeps what may go to the client: nothing that frames a message or belongs to one connection gets through,
-- and a line that two readers could understand differently is refused.
--
-- Cost: O(bytes).
-- Owner: values.
-- [Source]: RFC 3875, section 6.
module Heddle.Gateway.Answer
  ( Answer (..),
    AnswerLimits (..),
    defaultAnswerLimits,
    splitHead,
    readAnswer,
    isHopByHop,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.Foldable (foldlM)
import Data.Word (Word8)
import Heddle.Gateway.Ascii (lowered)
import Heddle.Http

-- | What the head says.
data Answer
  = -- | Status, headers for the client, and how long the content says it is.
    Answer !Status ![Header] !(Maybe Int)
  | -- | Answer with another path of this server instead: path and query, as in a request.
    LocalRedirect !ByteString
  deriving stock (Eq, Show)

-- | How large a head may be.
data AnswerLimits = AnswerLimits
  { -- | Bytes.
    limitAnswerBytes :: !Int,
    -- | Header lines.
    limitAnswerLines :: !Int
  }
  deriving stock (Eq, Show)

-- | 64 KB and 200 lines.
defaultAnswerLimits :: AnswerLimits
defaultAnswerLimits = AnswerLimits 65536 200

-- | @splitHead from bytes@ looks for the empty line that ends a head, whose lines end in LF or CRLF: the lines, and what
-- follows them. Before @from@ no line ends that is followed by the empty one.
--
-- [Cost]: O(bytes after @from@).
splitHead :: Int -> ByteString -> Maybe ([ByteString], ByteString)
splitHead from bytes = case C.elemIndex '\n' (B.drop from bytes) of
  Nothing -> Nothing
  Just i
    | end <- from + i,
      rest <- B.drop (end + 1) bytes ->
      if
          -- A head without lines.
          | B.all (== 13) (B.take end bytes) && end <= 1 -> Just ([], rest)
          | "\n" `B.isPrefixOf` rest -> Just (linesOf end, B.drop 1 rest)
          | "\r\n" `B.isPrefixOf` rest -> Just (linesOf end, B.drop 2 rest)
          | otherwise -> splitHead (end + 1) bytes
  where
    linesOf end = map (\line -> if "\r" `B.isSuffixOf` line then B.init line else line) (C.split '\n' (B.take end bytes))

-- What the lines have said so far.
data Seen = Seen
  { seenStatus :: !(Maybe Status),
    seenLocation :: !(Maybe ByteString),
    seenLength :: !(Maybe Int),
    seenType :: !Bool,
    -- Newest first.
    seenHeaders :: ![Header]
  }

-- | Understand the lines of a head, or say what is wrong with them. Without a Content-Type, a Location and a Status it is
-- text with status 200.
--
-- A first line such as @HTTP\/1.1 200 OK@ is taken for the status: programs with non-parsed headers send one.
readAnswer :: AnswerLimits -> [ByteString] -> Either String Answer
readAnswer limits given
  | length given > limitAnswerLines limits = Left ("it has more than " ++ show (limitAnswerLines limits) ++ " header lines")
  | otherwise = do
    (status, fields) <- case given of
      first : others | "HTTP/" `B.isPrefixOf` first -> do
        status <- readStatus (C.dropWhile (== ' ') (C.dropWhile (/= ' ') first))
        pure (Just status, others)
      _ -> Right (Nothing, given)
    decide =<< foldlM field (Seen status Nothing Nothing False []) fields

field :: Seen -> ByteString -> Either String Seen
field seen line
  | B.null name || B.length rest == 0 = Left ("the line " ++ shown line ++ " is no header")
  | not (B.all isToken name) = Left ("the header name " ++ shown name ++ " has characters that none may have")
  | B.any isControl value = Left ("the header " ++ shown name ++ " has control characters")
  | otherwise = case lowered name of
    "status"
      | Nothing <- seenStatus seen -> (\s -> seen {seenStatus = Just s}) <$> readStatus value
      | otherwise -> Left "it has two statuses"
    "location"
      | Nothing <- seenLocation seen -> Right seen {seenLocation = Just value}
      | otherwise -> Left "it has two Locations"
    "content-length" -> do
      n <- readLength value
      case seenLength seen of
        Just m | m /= n -> Left "it has two lengths"
        _ -> Right seen {seenLength = Just n}
    "content-type"
      | seenType seen -> Left "it has two content types"
      | otherwise -> Right (kept seen {seenType = True})
    "transfer-encoding" -> Left "it has a Transfer-Encoding, which is the server's matter"
    lower
      | isHopByHop lower || "x-cgi-" `B.isPrefixOf` lower -> Right seen
      | otherwise -> Right (kept seen)
  where
    (name, rest) = C.break (== ':') line
    value = trim (B.drop 1 rest)
    kept s = s {seenHeaders = Header name value : seenHeaders s}

decide :: Seen -> Either String Answer
decide seen = case (seenStatus seen, seenLocation seen) of
  (Nothing, Nothing)
    | seenType seen -> Right (Answer status200 headers' (seenLength seen))
    -- RFC 3875 wants one of them. Other servers pass such an answer on, and what it is nobody can say, so it is no page.
    | otherwise -> Right (Answer status200 (Header "Content-Type" "text/plain" : headers') (seenLength seen))
  (Just status, location) -> Right (Answer status (maybe id (\l -> (Header "Location" l :)) location headers') (if statusForbidsContent status then Nothing else seenLength seen))
  (Nothing, Just location)
    | "/" `B.isPrefixOf` location && not ("//" `B.isPrefixOf` location) && not (seenType seen) -> Right (LocalRedirect location)
    | otherwise -> Right (Answer status302 (Header "Location" location : headers') (seenLength seen))
  where
    headers' = reverse (seenHeaders seen)

-- Three digits, then perhaps words. An interim status is not for programs.
readStatus :: ByteString -> Either String Status
readStatus value
  | B.length digits == 3 && code >= 200 && code <= 599 && (B.null rest || " " `B.isPrefixOf` rest) =
    if B.any isControl rest then wrong else Right (statusWith code (let words' = trim rest in if B.null words' then usual else words'))
  | otherwise = wrong
  where
    (digits, rest) = C.span isDigit value
    code = C.foldl' (\n c -> n * 10 + fromEnum c - 48) 0 digits
    usual = reasonPhrase (statusFor code)
    wrong = Left (shown value ++ " is no status")

readLength :: ByteString -> Either String Int
readLength value
  | not (B.null value) && C.all isDigit value && B.length value <= 18 = Right (C.foldl' (\n c -> n * 10 + fromEnum c - 48) 0 value)
  | otherwise = Left (shown value ++ " is no Content-Length")

-- | Whether a header (in lower case) belongs to one connection and is never passed on.
--
-- [Source]: RFC 9110, section 7.6.1.
isHopByHop :: ByteString -> Bool
isHopByHop lower =
  lower `elem` ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]

trim :: ByteString -> ByteString
trim = C.dropWhileEnd blank . C.dropWhile blank
  where
    blank c = c == ' ' || c == '\t'

isControl :: Word8 -> Bool
isControl b = (b < 0x20 && b /= 9) || b == 0x7F

isToken :: Word8 -> Bool
isToken b = (b >= 0x61 && b <= 0x7A) || (b >= 0x41 && b <= 0x5A) || (b >= 0x30 && b <= 0x39) || b `B.elem` "!#$%&'*+-.^_`|~"

shown :: ByteString -> String
shown = show . B.take 80
