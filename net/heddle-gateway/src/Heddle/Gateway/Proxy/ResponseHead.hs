{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.ResponseHead
-- Description : The headers that a proxy passes to its client
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- Leaves out what belongs to the upstream's connection or frames its message, and makes addresses of the upstream those of the
-- client: in Location, and in the paths and domains of cookies.
--
-- Cost: O(headers); values are not copied unless they change.
-- Owner: the headers are valid as long as the response.
-- Source: RFC 9110, section 7.6.1; RFC 6265, section 5.2.
module Heddle.Gateway.Proxy.ResponseHead
  ( Rewriting (..),
    passedHeaders,
    passedLines,
    passedInterim,
    offeredUpgrades,
    announcedLength,
    statusOf,

    -- * Parts
    rewriteLocation,
    rewriteCookie,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Data.Char (isDigit)
import Data.Foldable (asum)
import Data.Maybe (fromMaybe, mapMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Write (pokeWrite)
import Heddle.Gateway.Ascii (lowered)
import Heddle.Http
import Heddle.Http.Borrowed (Lines (..))
import Heddle.Http.Client

-- | How addresses correspond.
data Rewriting = Rewriting
  { -- | Of the client's paths.
    rewritingPrefix :: !ByteString,
    -- | Of the upstream's.
    rewritingBase :: !ByteString,
    -- | Names of the upstream with and without its port, in lower case.
    rewritingNames :: ![ByteString],
    -- | The host of those, which cookies may name.
    rewritingHost :: !ByteString
  }

-- | The status with its words.
statusOf :: Response -> IO Status
statusOf response
  | code == 200 = pure status200
  | otherwise = statusWith code <$> responseReason response
  where
    code = statusCode (responseStatus response)

-- | The length that a response announces though it has no content: to HEAD, and of status 304.
announcedLength :: Response -> IO (Maybe Int)
announcedLength response = alone <$> foldResponseHeaders response framing []
  where
    framing acc known _ _ v vn
      | known == fromEnum HeaderContentLength || known == fromEnum HeaderTransferEncoding = (: acc) <$> borrowed v vn
      | otherwise = pure acc
    alone = \case
      [digits] | not (B.null digits), B.length digits <= 18, C.all isDigit digits -> fst <$> C.readInt digits
      -- None, or a contradiction.
      _ -> Nothing

-- | The headers for the client, with Trailer if it is sent trailers. Their bytes are the response's.
passedHeaders :: Rewriting -> Bool -> Response -> IO [Header]
passedHeaders rewriting trailers response = do
  named <- foldResponseHeaders response options []
  reverse <$> foldResponseHeaders response (pass named) []
  where
    options acc known _ _ v vn
      | known /= fromEnum HeaderConnection = pure acc
      | otherwise = do
        value <- borrowed v vn
        pure (if value == "keep-alive" || value == "close" then acc else [one | option <- listed value, let { one = lowered option }, one `notElem` ["close", "keep-alive", "upgrade"]] ++ acc)
    pass named acc known n nn v vn
      | known >= 0 && isLeftOut (toEnum known) && not (trailers && known == fromEnum HeaderTrailer) = pure acc
      | otherwise = do
        name <- borrowed n nn
        value <- borrowed v vn
        pure $
          if
              | not (null named) && lowered name `elem` named -> acc
              | known == fromEnum HeaderLocation -> Header name (rewriteLocation rewriting value) : acc
              | known == fromEnum HeaderSetCookie -> Header name (rewriteCookie rewriting value) : acc
              | otherwise -> Header name value : acc

-- | The protocols of a response of status 426, which says by them what it requires.
--
-- [Source]: RFC 9110, sections 15.5.22 and 7.8.
offeredUpgrades :: Response -> IO [Header]
offeredUpgrades response = do
  values <- reverse <$> foldResponseHeaders response (\acc known _ _ v vn -> if known == fromEnum HeaderUpgrade && vn > 0 then (: acc) <$> B.packCStringLen (castPtr v, vn) else pure acc) []
  pure (if null values then [] else [Header "Upgrade" (B.intercalate ", " values), Header "Connection" "Upgrade"])

-- | The same as lines, if none of them must change, for a client of HTTP/1 that is sent no trailers. They can be written as long as
-- the response is valid.
passedLines :: Rewriting -> Response -> IO (Maybe Lines)
passedLines rewriting response = do
  seen <- foldResponseHeaders response look (Seen 0 False False True)
  pure $
    if seenPlain seen
      then
        Just
          Lines
            { linesRoom = seenRoom seen,
              linesDate = seenDate seen,
              linesServer = seenServer seen,
              linesWrite = copyLines response,
              linesHeaders = passedHeaders rewriting False response
            }
      else Nothing
  where
    look seen known _ nn v vn
      | known == fromEnum HeaderConnection = do
        value <- borrowed v vn
        pure (if value == "keep-alive" || value == "close" || lowered value `elem` ["keep-alive", "close"] then seen else seen {seenPlain = False})
      | known == fromEnum HeaderDate = pure grown {seenDate = True}
      | known == fromEnum HeaderServer = pure grown {seenServer = True}
      | known == fromEnum HeaderLocation || known == fromEnum HeaderSetCookie = pure grown {seenPlain = False}
      | otherwise = pure grown
      where
        !grown = seen {seenRoom = seenRoom seen + nn + vn + 4}

-- What the header lines are, so far.
data Seen = Seen
  { -- Bytes, at most.
    seenRoom :: !Int,
    seenDate :: !Bool,
    seenServer :: !Bool,
    -- None must change.
    seenPlain :: !Bool
  }

-- Where to write, and lines that lie in a row and have not been copied yet: their beginning and end.
data Run = Run !(Ptr Word8) !(Ptr Word8) !(Ptr Word8)

-- Write the lines that are passed on. Those that came as they are written, with one space and nothing after the value, are copied together.
copyLines :: Response -> Ptr Word8 -> IO (Ptr Word8)
copyLines response to = foldResponseHeaders response line (Run to nullPtr nullPtr) >>= ended
  where
    line run@(Run at from end) known n nn v vn
      | known >= 0 && isLeftOut (toEnum known) = pure run
      | otherwise = do
        blank <- peekByteOff v (-1) :: IO Word8
        next <- peekByteOff v vn :: IO Word8
        if
            | v `minusPtr` n /= nn + 2 || blank /= 0x20 || next /= 0x0D -> do
              p <- ended run >>= pieces n nn v vn
              pure (Run p nullPtr nullPtr)
            | n == end -> pure (Run at from (v `plusPtr` (vn + 2)))
            | otherwise -> do
              p <- ended run
              pure (Run p n (v `plusPtr` (vn + 2)))
    ended (Run at from end) = do
      let size = end `minusPtr` from
      when (size > 0) (copyBytes at from size)
      pure (at `plusPtr` size)
    pieces n nn v vn p = do
      copyBytes p n nn
      q <- pokeWrite ": " (p `plusPtr` nn)
      copyBytes q v vn
      pokeWrite "\r\n" (q `plusPtr` vn)

borrowed :: Ptr Word8 -> Int -> IO ByteString
borrowed p n = unsafePackCStringLen (castPtr p, n)
{-# INLINE borrowed #-}

isLeftOut :: KnownHeader -> Bool
isLeftOut = \case
  HeaderConnection -> True
  HeaderContentLength -> True
  HeaderTransferEncoding -> True
  HeaderUpgrade -> True
  HeaderTe -> True
  HeaderTrailer -> True
  HeaderKeepAlive -> True
  HeaderProxyConnection -> True
  _ -> False

-- | The headers of an interim response, or the trailers, for the client.
passedInterim :: [(ByteString, ByteString)] -> [Header]
passedInterim fields = [Header n v | (n, v) <- fields, lowered n `notElem` names, lowered n `notElem` named]
  where
    names = ["connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "keep-alive", "proxy-connection"]
    named = [lowered option | (n, v) <- fields, lowered n == "connection", option <- listed v]

listed :: ByteString -> [ByteString]
listed value = [part | raw <- C.split ',' value, let part = trim raw, not (B.null part)]

trim :: ByteString -> ByteString
trim = C.dropWhileEnd blank . C.dropWhile blank
  where
    blank c = c == ' ' || c == '\t'

-- The client's path for one of the upstream's.
clientPath :: Rewriting -> ByteString -> Maybe ByteString
clientPath rewriting path = case B.stripPrefix (rewritingBase rewriting) path of
  Just rest
    | B.null rest || C.head rest `elem` ("/?#" :: String) ->
      -- Two slashes at the beginning would name a host.
      Just ("/" <> C.dropWhile (`elem` ("/\\" :: String)) (rewritingPrefix rewriting <> rest))
  _ -> Nothing

-- | A Location, with an address of the upstream made one of the client's. Other addresses stay.
--
-- [Cost]: O(length).
rewriteLocation :: Rewriting -> ByteString -> ByteString
rewriteLocation rewriting value
  | Just path <- asum (map own ["http://", "https://"]) = fromMaybe value (clientPath rewriting path)
  | "/" `B.isPrefixOf` value,
    not ("//" `B.isPrefixOf` value),
    rewritingBase rewriting /= rewritingPrefix rewriting =
    fromMaybe value (clientPath rewriting value)
  | otherwise = value
  where
    own scheme
      | lowered (B.take (B.length scheme) value) == scheme,
        (authority, path) <- C.break (`elem` ("/?#" :: String)) (B.drop (B.length scheme) value),
        lowered authority `elem` rewritingNames rewriting =
        Just path
      | otherwise = Nothing

-- | A Set-Cookie, with the upstream's path made the client's, and without the upstream's domain.
--
-- [Cost]: O(length).
rewriteCookie :: Rewriting -> ByteString -> ByteString
rewriteCookie rewriting value
  | null (drop 1 parts) || unchanged = value
  | otherwise = B.intercalate ";" (take 1 parts ++ mapMaybe attribute (drop 1 parts))
  where
    parts = C.split ';' value
    unchanged = rewritingBase rewriting == rewritingPrefix rewriting && B.null (rewritingHost rewriting)
    attribute part = case C.break (== '=') part of
      (name, rest) -> case lowered (trim name) of
        "path" | Just path <- clientPath rewriting (trim (B.drop 1 rest)), "/" `B.isPrefixOf` trim (B.drop 1 rest) -> Just (" Path=" <> path)
        "domain" | lowered (C.dropWhile (== '.') (trim (B.drop 1 rest))) == rewritingHost rewriting -> Nothing
        _ -> Just part
