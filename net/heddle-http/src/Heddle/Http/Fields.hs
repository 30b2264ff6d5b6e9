{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Fields
-- Description : Header lines that handlers give
-- Stability   : stable
--
-- Which of them can be sent, and which the engine writes itself because they frame messages or speak of the connection. A line
-- that ends early, or a second Content-Length, would make a client find the end of the message in another place.
--
-- Cost: O(bytes), eight at a time; nothing is allocated where nothing is wrong.
-- Owner: values.
module Heddle.Http.Fields
  ( Header (..),
    UnsafeHeader (..),
    unsafeHeader,
    HeaderCheck (..),
    checkHeaders,
    withoutFraming,
    interimLines,
    trailerLines,
    isNamed,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Char (toLower)
import Foreign.Ptr (castPtr)
import Heddle.Http.Exception (HttpException (..), fromHttp)
import Heddle.Http.Scan (controlEnd, lowerByte, tokenEnd)
import Heddle.Prim.Exception (Exception (..), throwIO)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | A header line of a reply: name and value.
data Header = Header !ByteString !ByteString
  deriving stock (Eq, Show)

-- | A handler's header that cannot be sent: its name is no token, a CR, LF or NUL in its value would end its line early, or it
-- frames messages, which is the engine's business.
--
-- [Source]: RFC 9110, sections 5.1, 5.5 and 5.6.2.
newtype UnsafeHeader = UnsafeHeader Header
  deriving stock (Eq)

instance Show UnsafeHeader where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

-- The value may be a secret, such as a cookie.
instance Exception UnsafeHeader where
  toException = toException . HttpException
  fromException = fromHttp
  displayException (UnsafeHeader (Header name _)) =
    "cannot send the reply's header " ++ show name ++ ": its name is no token, its value holds CR, LF or NUL, or it frames messages"

-- | The first header that cannot be set from outside a reply: unsafe, or one that frames messages.
--
-- [Cost]: O(bytes).
unsafeHeader :: [Header] -> Maybe UnsafeHeader
unsafeHeader given = case checkHeaders given of
  HeadersFine -> Nothing
  HeaderUnsafe one -> Just (UnsafeHeader one)
  HeadersFrame -> case [one | one@(Header name _) <- given, frames name] of
    one : _ -> Just (UnsafeHeader one)
    [] -> Nothing

-- | What headers are.
data HeaderCheck
  = -- | All of them can be sent.
    HeadersFine
  | -- | Some frame the message or speak of the connection: see 'withoutFraming'.
    HeadersFrame
  | -- | The first one whose name is no token or whose value would end its line early.
    HeaderUnsafe !Header

-- | Look at headers before they are sent.
--
-- [Cost]: O(bytes).
checkHeaders :: [Header] -> HeaderCheck
checkHeaders = go HeadersFine
  where
    go !found [] = found
    go found (one@(Header name value) : others)
      | not (isToken name && isValue value) = HeaderUnsafe one
      | frames name = go HeadersFrame others
      | otherwise = go found others
    isToken name = not (B.null name) && unsafeDupable (unsafeUseAsCStringLen name (\(p, n) -> (== n) <$> tokenEnd (castPtr p) 0 n))
    -- Hardly any value has a control character, so one search for all of them mostly answers.
    isValue b = unsafeDupable (unsafeUseAsCStringLen b (\(p, n) -> (== n) <$> controlEnd (castPtr p) 0 n)) || not (B.elem 13 b || B.elem 10 b || B.elem 0 b)

-- Fields that the engine writes.
frames :: ByteString -> Bool
frames name = case B.length name of
  10 -> name `isNamed` "connection" || name `isNamed` "keep-alive"
  14 -> name `isNamed` "content-length"
  16 -> name `isNamed` "proxy-connection"
  17 -> name `isNamed` "transfer-encoding"
  _ -> False

-- | The headers without those that frame messages, and whether the connection shall close after this one. Of Connection
-- the options other than close and keep-alive stay, such as Upgrade.
--
-- [Cost]: O(bytes).
-- [Source]: RFC 9110, section 7.6.1.
withoutFraming :: [Header] -> ([Header], Bool)
withoutFraming given = (concatMap kept given, any closes given)
  where
    kept one@(Header name value)
      | not (frames name) = [one]
      | name `isNamed` "connection", options@(_ : _) <- filter passes (optionsOf value) = [Header name (B.intercalate ", " options)]
      | otherwise = []
    closes (Header name value) = name `isNamed` "connection" && any (`isNamed` "close") (optionsOf value)
    passes option = not (option `isNamed` "close" || option `isNamed` "keep-alive")
    optionsOf value = filter (not . B.null) (map trim (C.split ',' value))
    trim = C.dropWhileEnd blank . C.dropWhile blank
    blank c = c == ' ' || c == '\t'

-- | The header lines of an interim response, which has no content to frame.
--
-- [Cost]: O(bytes).
-- [Throws]: 'UnsafeHeader'.
interimLines :: [Header] -> IO ByteString
interimLines given = case checkHeaders given of
  HeaderUnsafe one -> throwIO (UnsafeHeader one)
  HeadersFine -> pure (linesOf given)
  HeadersFrame -> pure (linesOf (fst (withoutFraming given)))
  where
    linesOf fields = B.concat [part | Header name value <- fields, part <- [name, ": ", value, "\r\n"]]

-- | Trailers as lines. What frames a message, routes it, authenticates or says how to read its content must stand before
-- the content, so such fields are left out.
--
-- [Cost]: O(bytes).
-- [Throws]: 'UnsafeHeader'.
-- [Source]: RFC 9110, section 6.5.1.
trailerLines :: [Header] -> IO ByteString
trailerLines given = do
  case checkHeaders given of
    HeaderUnsafe one -> throwIO (UnsafeHeader one)
    _ -> pure ()
  pure (B.concat [part | Header name value <- given, let lower = C.map toLower name, lower `notElem` early, not ("if-" `B.isPrefixOf` lower), part <- [name, ": ", value, "\r\n"]])
  where
    early =
      [ "age",
        "authorization",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expect",
        "expires",
        "host",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "retry-after",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
        "www-authenticate"
      ]

-- | Whether a name is this one, given in lower case.
isNamed :: ByteString -> ByteString -> Bool
isNamed name lower = B.length name == B.length lower && same 0
  where
    same !i = i >= B.length lower || (lowerByte (B.unsafeIndex name i) == B.unsafeIndex lower i && same (i + 1))
