{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.WebSocket.Extension
-- Description : permessage-deflate agreed on
-- Stability   : hidden
--
-- Both sides give up the context between messages, so no connection owns zlib's memory.
--
-- Cost: O(bytes) of the header.
-- Owner: values.
module Heddle.WebSocket.Extension
  ( Extension (..),
    parseExtensions,
    acceptOffers,
    deflateOffer,
    judgeAnswer,
    isToken,
    tokensOf,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.List (nub)
import Data.Maybe (isJust, listToMaybe, mapMaybe)
import Data.Word (Word8)
import Heddle.WebSocket.Deflate (Deflating (..))
import Heddle.WebSocket.Options (DeflateOptions (..))

-- | A name and its parameters.
data Extension = Extension !ByteString ![(ByteString, Maybe ByteString)]
  deriving stock (Eq, Show)

-- | The value of a @Sec-WebSocket-Extensions@ header; 'Nothing' if it is malformed. Several headers are one, joined by
-- commas.
--
-- [Source]: RFC 6455, section 9.1.
parseExtensions :: ByteString -> Maybe [Extension]
parseExtensions = elements . spaces
  where
    elements s
      | C.null s = Just []
      | C.head s == ',' = elements (spaces (C.tail s))
      | otherwise = do
        (name, r) <- token s
        (params, r') <- parameters (spaces r)
        (Extension name params :) <$> if C.null r' then Just [] else if C.head r' == ',' then elements (spaces (C.tail r')) else Nothing
    parameters s
      | C.null s || C.head s /= ';' = Just ([], s)
      | otherwise = do
        (name, r) <- token (spaces (C.tail s))
        (value, r') <- given (spaces r)
        (rest, r'') <- parameters (spaces r')
        Just ((C.map toLower name, value) : rest, r'')
    given s
      | C.null s || C.head s /= '=' = Just (Nothing, s)
      | otherwise = do
        (value, r) <- valueOf (spaces (C.tail s))
        Just (Just value, r)
    -- A quoted value must be a token, too.
    valueOf s
      | "\"" `C.isPrefixOf` s = case quoted (C.tail s) of
        Just (value, r) | isToken value -> Just (value, r)
        _ -> Nothing
      | otherwise = token s
    quoted s = case C.break (\c -> c == '"' || c == '\\') s of
      (a, r)
        | C.null r -> Nothing
        | C.head r == '"' -> Just (a, C.tail r)
        | otherwise -> do
          (c, r') <- C.uncons (C.tail r)
          (b, r'') <- quoted r'
          Just (C.concat [a, C.singleton c, b], r'')
    token s = case B.span isTokenByte s of
      (t, r) | not (B.null t) -> Just (t, r)
      _ -> Nothing
    spaces = C.dropWhile (\c -> c == ' ' || c == '\t')

-- | Whether these bytes are a token of RFC 9110.
--
-- [Cost]: O(n).
isToken :: ByteString -> Bool
isToken s = not (B.null s) && B.all isTokenByte s

-- A byte of a token.
isTokenByte :: Word8 -> Bool
isTokenByte b = b >= 0x30 && b <= 0x39 || b >= 0x41 && b <= 0x5a || b >= 0x61 && b <= 0x7a || b `elem` [0x21, 0x23, 0x24, 0x25, 0x26, 0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e, 0x5f, 0x60, 0x7c, 0x7e]

-- | The tokens of a list; 'Nothing' if an element is none.
--
-- [Cost]: O(n).
tokensOf :: ByteString -> Maybe [ByteString]
tokensOf s = if all isToken elements then Just elements else Nothing
  where
    elements = filter (not . B.null) (map trim (C.split ',' s))
    trim = C.dropWhileEnd space . C.dropWhile space
    space c = c == ' ' || c == '\t'

-- | The first offer that can be accepted, and the answer.
--
-- [Source]: RFC 7692, section 7.1.
acceptOffers :: DeflateOptions -> [Extension] -> Maybe (Deflating, ByteString)
acceptOffers options = listToMaybe . mapMaybe accept
  where
    accept (Extension name params)
      | C.map toLower name /= "permessage-deflate" || repeated params = Nothing
      | otherwise = do
        bits <- foldr (\param rest -> rest >>= \acc -> one acc param) (Just Nothing) params
        let answer = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        case bits of
          Nothing -> Just (deflating options 15, answer)
          -- zlib has no window of 256 bytes.
          Just 8 -> Nothing
          Just n -> Just (deflating options n, answer <> "; server_max_window_bits=" <> C.pack (show n))
    one acc = \case
      ("server_no_context_takeover", Nothing) -> Just acc
      ("client_no_context_takeover", Nothing) -> Just acc
      ("client_max_window_bits", Nothing) -> Just acc
      ("client_max_window_bits", Just value) -> acc <$ windowBits value
      ("server_max_window_bits", Just value) -> Just <$> windowBits value
      _ -> Nothing

-- | A client's offer.
deflateOffer :: ByteString
deflateOffer = "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"

-- | A server's answer to 'deflateOffer' (or to no offer): what was agreed on, or why it is not valid.
--
-- [Source]: RFC 7692, section 7.1.
judgeAnswer :: Maybe DeflateOptions -> [Extension] -> Either String (Maybe Deflating)
judgeAnswer _ [] = Right Nothing
judgeAnswer (Just options) [Extension name params]
  | C.map toLower name == "permessage-deflate" && not (repeated params) && all known params =
    if ("server_no_context_takeover", Nothing) `elem` params
      then Right (Just agreed)
      else Left "the server did not agree to compress messages apart from each other"
  where
    agreed = case [bits | ("client_max_window_bits", Just value) <- params, Just bits <- [windowBits value]] of
      -- zlib has no window of 256 bytes, and a side may send its messages as they are.
      8 : _ -> (deflating options 9) {deflatingThreshold = maxBound}
      bits : _ -> deflating options bits
      [] -> deflating options 15
    known = \case
      ("server_no_context_takeover", Nothing) -> True
      ("client_no_context_takeover", Nothing) -> True
      ("server_max_window_bits", Just value) -> isJust (windowBits value)
      ("client_max_window_bits", Just value) -> isJust (windowBits value)
      _ -> False
judgeAnswer _ (Extension name _ : _) = Left ("the server uses an extension that was not offered, or not so: " ++ C.unpack name)

deflating :: DeflateOptions -> Int -> Deflating
deflating options bits = Deflating (max 1 (min 9 (deflateLevel options))) bits (max 0 (deflateThreshold options))

repeated :: [(ByteString, Maybe ByteString)] -> Bool
repeated params = length (nub (map fst params)) /= length params

windowBits :: ByteString -> Maybe Int
windowBits s
  | not (B.null s), B.length s <= 2, C.all isDigit s, C.head s /= '0', n >= 8, n <= 15 = Just n
  | otherwise = Nothing
  where
    n = C.foldl' (\acc c -> acc * 10 + fromEnum c - 48) 0 s
