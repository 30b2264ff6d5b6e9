{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -Wno-deprecations #-}

-- wai deprecates writing the field requestBody, and has no other way in all versions that are admitted.

-- |
-- Module      : Network.Wai.Handler.Heddle.Variables
-- Description : WAI requests of CGI variables, and responses as programs give them
-- Stability   : hidden
--
-- What an application that runs as a program, by CGI or FastCGI, is told in variables becomes a request; its response
-- becomes a Status line, headers and content, which the web server frames.
--
-- Cost: O(variables).
-- Owner: values.
-- [Source]: RFC 3875.
module Network.Wai.Handler.Heddle.Variables
  ( requestOf,
    programVariables,
    answerWith,
    Sink (..),
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, byteString, intDec)
import Data.ByteString.Char8 qualified as C
import Data.CaseInsensitive qualified as CI
import Data.Char (toLower)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Data.Vault.Lazy qualified as Vault
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Network.HTTP.Types qualified as H
import Network.Socket (AddrInfo (..), AddrInfoFlag (..), SockAddr (..), defaultHints, getAddrInfo)
import Network.Wai (Application, defaultRequest)
import Network.Wai.Handler.Heddle.Invalid (WaiMisuse (..))
import Network.Wai.Internal (FilePart (..), Request (..), RequestBodyLength (..), Response (..), ResponseReceived (..))
import System.IO (IOMode (..), SeekMode (..), hSeek, withBinaryFile)

-- | The request that variables describe, with the action that gives the next piece of its body, empty at the end.
--
-- The path is @PATH_INFO@, below the program; the whole is in the variables.
--
-- [Cost]: O(variables).
-- [Blocks]: never.
requestOf :: [(ByteString, ByteString)] -> IO ByteString -> IO Request
requestOf given body = do
  remote <- address (var "REMOTE_ADDR") (var "REMOTE_PORT")
  pure
    defaultRequest
      { requestMethod = if B.null verb then "GET" else verb,
        httpVersion = case var "SERVER_PROTOCOL" of
          "HTTP/1.0" -> H.http10
          "HTTP/2.0" -> H.http20
          _ -> H.http11,
        rawPathInfo = if B.null path then "/" else C.intercalate "/" (map (H.urlEncode False) (C.split '/' path)),
        rawQueryString = if B.null asked then "" else C.cons '?' asked,
        requestHeaders = headers,
        isSecure = C.map toLower (var "HTTPS") `elem` ["on", "1"],
        remoteHost = remote,
        pathInfo = map (decodeUtf8With lenientDecode) (segments path),
        queryString = H.parseQuery asked,
        requestBody = if size == KnownLength' 0 then pure "" else body,
        vault = Vault.insert variablesKey variables Vault.empty,
        requestBodyLength = case size of
          KnownLength' n -> KnownLength (fromIntegral n)
          Unknown -> ChunkedBody,
        requestHeaderHost = lookup "Host" headers,
        requestHeaderRange = lookup "Range" headers,
        requestHeaderReferer = lookup "Referer" headers,
        requestHeaderUserAgent = lookup "User-Agent" headers
      }
  where
    variables = Map.fromList given
    var name = fromMaybe "" (Map.lookup name variables)
    verb = var "REQUEST_METHOD"
    path = var "PATH_INFO"
    asked = var "QUERY_STRING"
    segments p = if p == "/" || B.null p then [] else C.split '/' (if "/" `B.isPrefixOf` p then B.drop 1 p else p)
    headers =
      [(H.hContentType, v) | Just v <- [Map.lookup "CONTENT_TYPE" variables], not (B.null v)]
        ++ [(H.hContentLength, v) | Just v <- [Map.lookup "CONTENT_LENGTH" variables], not (B.null v)]
        ++ [(CI.mk (C.map (\c -> if c == '_' then '-' else c) (B.drop 5 n)), v) | (n, v) <- Map.toList variables, "HTTP_" `B.isPrefixOf` n]
    -- Without a length the body ends where the input does; but a method that has none has none.
    size = case C.readInt (var "CONTENT_LENGTH") of
      Just (n, "") | n >= 0 -> KnownLength' n
      _ -> if verb `elem` ["POST", "PUT", "PATCH"] then Unknown else KnownLength' 0

data Size = KnownLength' !Int | Unknown
  deriving stock (Eq)

-- A numeric address; looks nothing up.
address :: ByteString -> ByteString -> IO SockAddr
address host port
  | B.null host || C.elem '/' host || host == "unix:" = pure (SockAddrUnix "")
  | otherwise = do
    found <- trySync (getAddrInfo (Just defaultHints {addrFlags = [AI_NUMERICHOST, AI_NUMERICSERV]}) (Just (C.unpack host)) (Just (if B.null port then "0" else C.unpack port)))
    pure $ case found of
      Right (info : _) -> addrAddress info
      _ -> SockAddrUnix ""

-- | The variables of a request that came by CGI or FastCGI, such as @SCRIPT_NAME@; none for other requests.
--
-- [Cost]: a look-up.
programVariables :: Request -> Map ByteString ByteString
programVariables = fromMaybe Map.empty . Vault.lookup variablesKey . vault

variablesKey :: Vault.Key (Map ByteString ByteString)
variablesKey = unsafeGlobal Vault.newKey
{-# NOINLINE variablesKey #-}

-- | Where a response goes.
data Sink = Sink
  { sinkPut :: !(Builder -> IO ()),
    sinkFlush :: !(IO ())
  }

-- | Run an application for a request. It answers once; without an answer, or when it throws before one, the answer is
-- 500, and the exception is given to the hook. 'False' if the answer broke off.
--
-- [Blocks]: as the application does.
-- [Throws]: asynchronous exceptions.
answerWith :: (SomeException -> IO ()) -> Application -> Sink -> Request -> IO Bool
answerWith report application sink request = do
  begun <- newRef False
  let respond response = do
        twice <- readRef begun
        when twice (bug "the application has responded twice")
        writeRef begun True
        send sink request response
        pure ResponseReceived
  outcome <- trySync (application request respond)
  responded <- readRef begun
  case outcome of
    Right ResponseReceived | responded -> pure True
    _ -> do
      report (either id (\_ -> toException NeverResponded) outcome)
      unless responded (sinkPut sink (heading H.internalServerError500 [(H.hContentType, "text/plain; charset=utf-8")] <> "Something went wrong"))
      pure (not responded)

heading :: H.Status -> H.ResponseHeaders -> Builder
heading (H.Status code phrase) headers =
  "Status: " <> intDec code <> " " <> byteString (clean phrase) <> "\r\n"
    <> foldMap line headers
    <> (if any ((== H.hContentType) . fst) headers || code == 204 || code == 304 then mempty else "Content-Type: application/octet-stream\r\n")
    <> "\r\n"
  where
    line (n, v) = byteString (clean (CI.original n)) <> ": " <> byteString (clean v) <> "\r\n"
    -- A line of an application's must not become two.
    clean = B.filter (\b -> b /= 10 && b /= 13 && b /= 0)

send :: Sink -> Request -> Response -> IO ()
send sink request = \case
  ResponseBuilder status headers builder -> put (heading status headers <> if silent then mempty else builder)
  ResponseStream status headers body -> do
    put (heading status headers)
    unless silent (body put (sinkFlush sink))
  ResponseFile status headers path part -> withBinaryFile path ReadMode $ \handle -> do
    for' part (hSeek handle AbsoluteSeek . filePartOffset)
    put (heading status headers)
    unless silent (copy handle (maybe maxBound (fromIntegral . filePartByteCount) part))
  -- A program has no connection of its own.
  ResponseRaw _ backup -> send sink request backup
  where
    put = sinkPut sink
    silent = requestMethod request == H.methodHead
    for' m f = maybe (pure ()) f m
    copy handle left = unless (left <= (0 :: Int)) $ do
      piece <- B.hGetSome handle (min 65536 left)
      unless (B.null piece) (put (byteString piece) >> copy handle (left - B.length piece))
