{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Ask
-- Description : Requests to send
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- A 'ClientRequest' is checked before a connection is used: what could end its line early, or contradict
-- the framing that the client writes, is refused.
--
-- Cost: O(bytes of the head).
-- Owner: values.
module Heddle.Http.Client.Ask
  ( ClientRequest (..),
    RequestBody (..),
    requestTo,
    requestUrl,

    -- * For the exchange
    Prepared (..),
    prepare,
    isIdempotent,
    replays,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Int (Int64)
import Heddle.Http.Client.Answer (Asked (..))
import Heddle.Http.Client.Error (Failure (..))
import Heddle.Http.Client.Settings
import Heddle.Http.Client.Url
import Heddle.Http.Reply (Header (..), Writer)
import Heddle.Http.Scan (isFieldByte, isTokenByte)
import Heddle.IO.Registration (Registration)
import Heddle.Prim.Clock (Deadline, never)
import System.Posix.Types (Fd)

-- | What to ask, and of whom.
data ClientRequest = ClientRequest
  { requestOrigin :: !Origin,
    requestMethod :: !ByteString,
    -- | Path and query; @host:port@ for CONNECT; @*@ for OPTIONS.
    requestTarget :: !ByteString,
    -- | Not Host, Connection, Upgrade, Expect or a header of framing: these follow from the other fields.
    requestHeaders :: ![Header],
    requestBody :: !RequestBody,
    -- | What Host says, if not the origin: for a proxy that passes its client's on.
    requestHost :: !(Maybe ByteString),
    -- | The other protocol to switch to. The server's agreement is a response of status 101.
    requestUpgrade :: !(Maybe ByteString),
    -- | Whether to send @Expect: 100-continue@ and wait for the server's word before the body.
    requestExpect :: !Bool,
    -- | Whether the connection shall close after the response.
    requestClose :: !Bool,
    -- | When the whole must be over, besides the settings' deadlines for its parts.
    requestUntil :: !Deadline,
    -- | Called with the status and the headers of each interim response but 100.
    requestInterim :: !(Int -> [(ByteString, ByteString)] -> IO ()),
    -- | For a gateway that writes heads itself: all lines of the head to send, with the empty line. Nothing of it is checked, and no proxy is used. It must agree with the
    -- other fields about the method, the framing of the body, Expect and Upgrade; 'requestHeaders' is not used.
    requestWritten :: !(Maybe ByteString),
    -- | What to send on the connection before anything else, also before TLS, such as the PROXY protocol's
    -- line. Unless it is empty, the request has a connection of its own, which closes afterwards.
    requestPreamble :: !ByteString,
    -- | Called with the connection when the server has been silent for 20 ms, again for each such wait. The action that it returns is called when the wait
    -- is over, and answers whether the request shall be given up ('GivenUp'); to end the wait, close the
    -- connection.
    requestAttended :: !(Maybe (Registration -> IO (IO Bool)))
  }

-- | The body of a request. What is given to a 'Writer' has been sent or copied when the call returns, so its memory may
-- be reused then.
data RequestBody
  = -- | None.
    NoRequestBody
  | BodyBytes !ByteString
  | -- | As many bytes as announced, written by the action.
    BodySized !Int (Writer -> IO ())
  | -- | Bytes of a length unknown before, written by the action, sent in chunks.
    BodyChunked (Writer -> IO ())
  | -- | A part of a file: descriptor, offset and length in bytes, sent by sendfile(2).
    BodyFile !Fd !Int64 !Int

-- | A request without headers and body.
requestTo :: ByteString -> Origin -> ByteString -> ClientRequest
requestTo verb origin path =
  ClientRequest
    { requestOrigin = origin,
      requestMethod = verb,
      requestTarget = path,
      requestHeaders = [],
      requestBody = NoRequestBody,
      requestHost = Nothing,
      requestUpgrade = Nothing,
      requestExpect = False,
      requestClose = False,
      requestUntil = never,
      requestInterim = \_ _ -> pure (),
      requestWritten = Nothing,
      requestPreamble = B.empty,
      requestAttended = Nothing
    }

-- | A GET of an address.
requestUrl :: Url -> ClientRequest
requestUrl url = requestTo "GET" (urlOrigin url) (urlTarget url)

-- | A request in the form it is sent in.
data Prepared = Prepared
  { -- | The origin whose connections can be used: the proxy's for @http@ through one.
    preparedOrigin :: !Origin,
    preparedHead :: !ByteString,
    preparedAsked :: !Asked,
    -- | Whether to wait for 100 (Continue).
    preparedExpects :: !Bool
  }

-- | Check a request, and write its head.
prepare :: ClientSettings -> ClientRequest -> Either Failure Prepared
prepare settings request
  | Just written <- requestWritten request = Right $! Prepared origin written asked expects
  | B.null verb || not (B.all isTokenByte verb) = Left BadMethodName
  | B.null target || not (B.all isTargetByte target) || not targetFits = Left BadRequestTarget
  | Just bad <- firstUnsafe headers = Left (UnsafeRequestHeader bad)
  | Just ours <- firstReserved headers = Left (ReservedHeader ours)
  | Just name <- requestHost request, not (isValue name) || B.null name = Left (UnsafeRequestHeader "Host")
  | Just name <- requestUpgrade request, not (isValue name) || B.null name = Left (UnsafeRequestHeader "Upgrade")
  | otherwise =
    Right
      Prepared
        { preparedOrigin = maybe origin proxyOrigin viaProxy,
          preparedHead = headBytes,
          preparedAsked = asked,
          preparedExpects = expects
        }
  where
    asked
      | verb == "HEAD" = AskedHead
      | verb == "CONNECT" = AskedTunnel
      | Just _ <- requestUpgrade request = AskedUpgrade
      | otherwise = AskedContent
    verb = requestMethod request
    target = requestTarget request
    origin = requestOrigin request
    headers = requestHeaders request
    targetFits =
      if
          | verb == "CONNECT" -> not ("/" `B.isPrefixOf` target)
          | target == "*" -> verb == "OPTIONS"
          | otherwise -> "/" `B.isPrefixOf` target
    -- A request by clear text names its whole address to the proxy.
    viaProxy = case originPlace origin of
      UnixSocket _ -> Nothing
      Tcp _ _ -> if originSecure origin || verb == "CONNECT" then Nothing else clientProxy settings
    expects = requestExpect request && hasBody
    hasBody = case requestBody request of
      NoRequestBody -> False
      BodyBytes b -> not (B.null b)
      BodySized n _ -> n > 0
      BodyChunked _ -> True
      BodyFile _ _ n -> n > 0
    headBytes =
      B.concat . concat $
        [ [verb, " "],
          if
              | Just _ <- viaProxy -> ["http://", originAuthority origin, if target == "*" then "" else target]
              | otherwise -> [target],
          [" HTTP/1.1\r\nHost: ", authority, "\r\n"],
          [line | not (B.null (clientAgent settings)), not (given "user-agent"), line <- ["User-Agent: ", clientAgent settings, "\r\n"]],
          concat [[name, ": ", value, "\r\n"] | Header name value <- headers],
          concat [["Proxy-Authorization: ", value, "\r\n"] | Just (Just value) <- [proxyAuthorization <$> viaProxy]],
          framing,
          ["Expect: 100-continue\r\n" | expects],
          connection,
          ["\r\n"]
        ]
    authority = case requestHost request of
      Just name -> name
      Nothing -> if verb == "CONNECT" then target else originAuthority origin
    framing = case requestBody request of
      -- A server could wait for the body of a method that usually has one.
      NoRequestBody -> ["Content-Length: 0\r\n" | verb `elem` ["POST", "PUT", "PATCH"]]
      BodyBytes b -> len (B.length b)
      BodySized n _ -> len n
      BodyFile _ _ n -> len n
      BodyChunked _ -> ["Transfer-Encoding: chunked\r\n"]
    len n = ["Content-Length: ", C.pack (show (max 0 n)), "\r\n"]
    connection = case requestUpgrade request of
      Just protocol -> ["Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n"]
      Nothing -> ["Connection: close\r\n" | requestClose request]
    given name = or [C.map toLower n == name | Header n _ <- headers]

firstUnsafe :: [Header] -> Maybe ByteString
firstUnsafe headers = case [n | Header n v <- headers, B.null n || not (B.all isTokenByte n) || not (isValue v)] of
  n : _ -> Just n
  [] -> Nothing

isValue :: ByteString -> Bool
isValue = B.all isFieldByte

firstReserved :: [Header] -> Maybe ByteString
firstReserved headers = case [n | Header n _ <- headers, C.map toLower n `elem` reserved] of
  n : _ -> Just n
  [] -> Nothing
  where
    reserved = ["host", "connection", "content-length", "transfer-encoding", "upgrade", "expect", "keep-alive", "proxy-connection", "trailer", "te"]

-- | Whether the method may be sent twice without a further effect.
--
-- [Source]: RFC 9110, section 9.2.2.
isIdempotent :: ByteString -> Bool
isIdempotent verb = verb `elem` ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"]

-- | Whether the body can be sent again.
replays :: RequestBody -> Bool
replays = \case
  NoRequestBody -> True
  BodyBytes _ -> True
  BodyFile {} -> True
  BodySized _ _ -> False
  BodyChunked _ -> False
