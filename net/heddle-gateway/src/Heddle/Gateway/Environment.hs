{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Environment
-- Description : What a program is told of a request
-- Stability   : stable
--
-- The meta-variables of RFC 3875, and those that PHP and others expect besides, of which CGI makes environment variables,
-- and FastCGI and SCGI parameters.
--
-- Invariant: a header of the request becomes @HTTP_@ and its name, and nothing else. @Proxy@ is left out, since programs
-- take @HTTP_PROXY@ for a setting of their user's; a name with an underscore is left out, since it would pass for another
-- header; headers of the connection are the server's own.
-- Cost: O(headers); a system call for the server's port.
-- Owner: the handler.
-- [Source]: RFC 3875, section 4.1.
module Heddle.Gateway.Environment
  ( Variables,
    Script (..),
    variablesOf,
    splitScript,
  )
where

import Data.Bits (shiftR, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Heddle.Gateway.Answer (isHopByHop)
import Heddle.Gateway.Ascii
import Heddle.Gateway.Content
import Heddle.Gateway.Place
import Heddle.Http
import Heddle.Http.Borrowed (requestConn)
import Heddle.IO (localAddress, peerAddress)
import Heddle.IO.Registration (connectionOf)
import Network.Socket (HostName, NameInfoFlag (..), SockAddr (..), getNameInfo, hostAddressToTuple)

-- | Names and values.
type Variables = [(ByteString, ByteString)]

-- | The program that is asked.
data Script = Script
  { -- | The part of the path that leads to it, as in @\/cgi-bin\/list.cgi@.
    scriptName :: !ByteString,
    -- | The part after that, as in @\/archive@; empty if there is none.
    scriptInfo :: !ByteString,
    -- | Its file.
    scriptFile :: !ByteString,
    -- | The directory that paths are files of, without a slash at its end.
    scriptRoot :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Split a path behind the first segment that ends in one of these suffixes; without any, all of the path is the script.
--
-- >>> splitScript [".php"] "/blog/index.php/2011/10"
-- ("/blog/index.php","/2011/10")
--
-- [Cost]: O(length).
splitScript :: [ByteString] -> ByteString -> (ByteString, ByteString)
splitScript suffixes path = go 0
  where
    go from = case C.elemIndex '/' (B.drop (from + 1) path) of
      Nothing -> (path, "")
      Just i
        | end <- from + 1 + i -> if any (`B.isSuffixOf` B.take end path) suffixes then B.splitAt end path else go end

-- | The variables of a request for a script. The last of two with one name counts.
--
-- [Cost]: O(bytes of the head); one system call.
-- [Blocks]: never.
-- [Threads]: the handler's.
variablesOf :: Request -> Place -> Content -> Script -> IO Variables
variablesOf request place content script = do
  verb <- methodBytes request
  requested <- target request
  asked <- query request
  authority <- host request
  major <- httpMajor request
  minor <- httpMinor request
  fields <- headers request
  let conn = connectionOf (requestConn request)
  (remote, remotePort) <- peerAddress conn >>= maybe (pure ("", "")) numbers
  (here, port) <- localAddress conn >>= maybe (pure ("", "")) numbers
  let (name, askedPort) = splitAuthority authority
      usual = if isSecure request then "443" else "80"
      fieldOf wanted = Map.lookup wanted gathered
      gathered = Map.fromListWith (\new old -> (fst old, snd old <> (if fst old == "cookie" then "; " else ", ") <> snd new)) [(name', (name', v)) | (n, v) <- fields, let name' = lowered n]
      passed = [("HTTP_" <> B.map variable n, v) | (n, (_, v)) <- Map.toList gathered, passes n]
      -- After a local redirect the query is the redirect's, the method is GET, and there is no content.
      (verb', asked') = case placeQuery place of
        Nothing -> (verb, fromMaybe asked (placeRewritten place))
        Just given -> (if verb == "HEAD" then verb else "GET", given)
      len = case content of
        Contentless | null (placeQuery place), fmap snd (fieldOf "content-length") == Just "0" -> Just 0
        Contentless -> Nothing
        Passing n -> Just n
        -- Whether empty content of HTTP/2 is known to be so depends on when its frames come.
        Received n _ -> if n > 0 then Just n else Nothing
  pure . concat $
    [ [ ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "heddle"),
        ("SERVER_PROTOCOL", protocol major minor),
        ("SERVER_NAME", if B.null name then here else name),
        ("SERVER_PORT", if not (B.null port) then port else if B.null askedPort then usual else askedPort),
        ("SERVER_ADDR", here),
        ("REQUEST_METHOD", verb'),
        ("REQUEST_URI", pathOf requested),
        ("REQUEST_SCHEME", if isSecure request then "https" else "http"),
        ("QUERY_STRING", asked'),
        ("SCRIPT_NAME", scriptName script),
        ("SCRIPT_FILENAME", scriptFile script),
        ("PATH_INFO", scriptInfo script),
        ("DOCUMENT_ROOT", scriptRoot script),
        ("DOCUMENT_URI", placePath place),
        ("REMOTE_ADDR", remote),
        ("REMOTE_PORT", remotePort),
        -- php-cgi answers nobody who does not set it.
        ("REDIRECT_STATUS", "200")
      ],
      [("PATH_TRANSLATED", scriptRoot script <> scriptInfo script) | not (B.null (scriptInfo script))],
      [("HTTPS", "on") | isSecure request],
      concat [[("AUTH_TYPE", "Basic"), ("REMOTE_USER", user)] | Just user <- [placeUser place]],
      -- Of an absolute target, whose Host header does not count.
      [("HTTP_HOST", authority) | not (B.null authority)],
      [("CONTENT_LENGTH", decimal n) | Just n <- [len]],
      [("CONTENT_TYPE", v) | placeQuery place == Nothing, Just (_, v) <- [fieldOf "content-type"]],
      passed
    ]
  where
    variable b = if b == 0x2D then 0x5F else upperByte b
    -- A password that the server has verified is not the program's business (RFC 3875, section 4.1.18).
    passes n = (null (placeUser place) || n /= "authorization") && not (C.elem '_' n) && not (isHopByHop n) && n `notElem` ["content-length", "content-type", "host", "proxy", "proxy-authorization"]

protocol :: Int -> Int -> ByteString
protocol 1 1 = "HTTP/1.1"
protocol major minor = B.concat ["HTTP/", decimal major, ".", decimal minor]

-- The path and query of a target, which may be a whole URL.
pathOf :: ByteString -> ByteString
pathOf given
  | "/" `B.isPrefixOf` given = given
  | (_, rest) <- B.breakSubstring "://" given, not (B.null rest) = let path = C.dropWhile (\c -> c /= '/' && c /= '?') (B.drop 3 rest) in if "/" `B.isPrefixOf` path then path else "/" <> path
  | otherwise = given

-- Host and port of an authority; an IPv6 address keeps its brackets.
splitAuthority :: ByteString -> (ByteString, ByteString)
splitAuthority authority = case C.uncons authority of
  Just ('[', _) | (inside, rest) <- C.break (== ']') authority -> (inside <> B.take 1 rest, B.drop 2 rest)
  _ -> let (name, rest) = C.break (== ':') authority in (name, B.drop 1 rest)

numbers :: SockAddr -> IO (ByteString, ByteString)
numbers address = case address of
  SockAddrUnix _ -> pure ("unix:", "")
  SockAddrInet port there
    | (a, b, c, d) <- hostAddressToTuple there -> pure (dotted (map fromIntegral [a, b, c, d]), decimal (fromIntegral port))
  -- An address of IPv4 that has come by a socket of IPv6, or in a header of the PROXY protocol.
  SockAddrInet6 port _ (0, 0, 0xFFFF, w) _ -> pure (dotted [fromIntegral (w `shiftR` i .&. 0xFF) | i <- [24, 16, 8, 0]], decimal (fromIntegral port))
  _ -> do
    (name, port) <- getNameInfo [NI_NUMERICHOST, NI_NUMERICSERV] True True address :: IO (Maybe HostName, Maybe HostName)
    pure (maybe "" C.pack name, maybe "" C.pack port)
