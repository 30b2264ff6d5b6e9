-- |
-- Module      : Heddle.Serve.Listen
-- Description : Addresses as users write them
-- Stability   : stable
--
-- @8080@, @:8080@, @127.0.0.1:8080@, @[::1]:8080@, @localhost:8080@, @unix:\/path@, @systemd@, @systemd:NAME@, and the
-- same after @https:\/\/@.
--
-- Cost: a name look-up when the host is a name.
-- Owner: values.
module Heddle.Serve.Listen
  ( ListenSpec (..),
    Protocol (..),
    ListenPlace (..),
    parseListen,
    renderListen,
    resolveListen,
    listenUrl,
    defaultListenPort,
    withPortOf,
    portOf,
  )
where

import Data.ByteString qualified as B
import Data.List (isPrefixOf, nub, stripPrefix)
import Data.Maybe (fromMaybe)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import GHC.IO.Exception (ioe_description)
import Heddle.Prim.Exception (try)
import Network.Socket
import Text.Read (readMaybe)

-- | What to speak, and where to listen.
data ListenSpec = ListenSpec
  { listenProtocol :: !Protocol,
    listenPlace :: !ListenPlace
  }
  deriving stock (Eq, Show)

-- | What the clients of an address speak.
data Protocol = Http | Https
  deriving stock (Eq, Show)

-- | Where to listen.
data ListenPlace
  = -- | Host (empty: every IPv4 and IPv6 address) and port.
    ListenHost !String !Int
  | -- | A Unix socket's path.
    ListenUnix !FilePath
  | -- | The sockets that systemd has passed: those with this name, or all if it is empty.
    ListenInherited !String
  deriving stock (Eq, Show)

-- | The port of an address that names none: 8080.
defaultListenPort :: Int
defaultListenPort = 8080

-- | Read an address. Without a port it is 8080, or the scheme's own if there is a scheme.
--
-- >>> parseListen "[::1]:80"
-- Right (ListenSpec {listenProtocol = Http, listenPlace = ListenHost "::1" 80})
-- >>> parseListen "https://www.example.org"
-- Right (ListenSpec {listenProtocol = Https, listenPlace = ListenHost "www.example.org" 443})
parseListen :: String -> Either String ListenSpec
parseListen text
  | Just rest <- stripPrefix "https://" text = ListenSpec Https <$> parsePlace 443 (withoutSlash rest)
  | Just rest <- stripPrefix "http://" text = ListenSpec Http <$> parsePlace 80 (withoutSlash rest)
  | otherwise = ListenSpec Http <$> parsePlace defaultListenPort text
  where
    -- As copied from a browser.
    withoutSlash rest = if "unix:" `isPrefixOf` rest then rest else fromMaybe rest (stripSuffix "/" rest)
    stripSuffix end = fmap reverse . stripPrefix (reverse end) . reverse

parsePlace :: Int -> String -> Either String ListenPlace
parsePlace standard text
  | "unix:" `isPrefixOf` text = case drop 5 text of
    "" -> Left "after 'unix:' a path is needed, such as unix:/run/site.sock"
    path
      | B.length (encodeUtf8 (T.pack path)) > 107 -> Left "a Unix socket's path has at most 107 bytes"
      | otherwise -> Right (ListenUnix path)
  | text == "systemd" = Right (ListenInherited "")
  | Just name <- stripPrefix "systemd:" text, not (isPort name) = if null name then Left "after 'systemd:' a socket's name is needed, as its FileDescriptorName says" else Right (ListenInherited name)
  | '[' : rest <- text = case break (== ']') rest of
    (host, ']' : ':' : p) | ':' `elem` host -> ListenHost host <$> port p
    (host, "]") | ':' `elem` host -> Right (ListenHost host standard)
    _ -> wrong
  | otherwise = case break (== ':') (reverse text) of
    (_, "") | all (`elem` ['0' .. '9']) text && not (null text) -> ListenHost "" <$> port text
    (_, "") | not (null text) && '/' `notElem` text -> Right (ListenHost text standard)
    (p, ':' : host)
      | '/' `elem` host -> wrong
      | ':' `elem` host -> Left "write an IPv6 address in brackets, such as [::1]:8080"
      | otherwise -> ListenHost (reverse host) <$> port (reverse p)
    _ -> wrong
  where
    wrong = Left "expected ADDRESS:PORT, such as 127.0.0.1:8080, [::1]:8080, :8080, unix:/run/site.sock or https://:8443"
    -- A host may be called systemd.
    isPort name = not (null name) && all (`elem` ['0' .. '9']) name
    port p = case readMaybe p of
      Just n | all (`elem` ['0' .. '9']) p, n >= 0, n <= (65535 :: Int) -> Right n
      _ -> Left ("'" ++ p ++ "' is not a port; ports go from 0 (any free one) to 65535")

-- | As 'parseListen' reads it.
renderListen :: ListenSpec -> String
renderListen (ListenSpec protocol place) = case protocol of
  Https -> "https://" ++ renderPlace place
  Http -> renderPlace place

renderPlace :: ListenPlace -> String
renderPlace = \case
  ListenUnix path -> "unix:" ++ path
  ListenInherited name -> if null name then "systemd" else "systemd:" ++ name
  ListenHost host p
    | ':' `elem` host -> "[" ++ host ++ "]:" ++ show p
    | otherwise -> host ++ ":" ++ show p

-- | The socket addresses of a place; a name may have several, and what is inherited has none to bind.
--
-- [Blocks]: holds an OS thread while a name is looked up.
resolveListen :: ListenPlace -> IO (Either String [SockAddr])
resolveListen = \case
  ListenUnix path -> pure (Right [SockAddrUnix path])
  ListenInherited _ -> pure (Right [])
  ListenHost host p -> do
    let hints = defaultHints {addrFlags = [AI_PASSIVE], addrSocketType = Stream}
    found <- try (getAddrInfo (Just hints) (if null host then Nothing else Just host) (Just (show p)))
    pure $ case found of
      Right infos@(_ : _) -> Right (nub (map addrAddress infos))
      Right [] -> Left "the name has no address"
      -- "Temporary failure in name resolution" is not the name's fault.
      Left e -> Left ("the name is unknown or not an address of this machine: " ++ ioe_description e)

-- | The URL to open for a place that listens at such an address.
listenUrl :: ListenSpec -> SockAddr -> String
listenUrl (ListenSpec protocol place) address = case (place, address) of
  (ListenUnix path, _) -> unix path
  (ListenInherited _, SockAddrUnix path) -> unix path
  (ListenInherited _, SockAddrInet p _) -> scheme ++ named (numeric address) ++ suffix (fromIntegral p)
  (ListenInherited _, SockAddrInet6 p _ _ _) -> scheme ++ named (numeric address) ++ suffix (fromIntegral p)
  (ListenHost host _, SockAddrInet p _) -> scheme ++ named host ++ suffix (fromIntegral p)
  (ListenHost host _, SockAddrInet6 p _ _ _) -> scheme ++ named host ++ suffix (fromIntegral p)
  (ListenHost host p, _) -> scheme ++ named host ++ suffix p
  where
    (scheme, usual) = case protocol of
      Http -> ("http://", 80)
      Https -> ("https://", 443)
    named host
      | null host || host == "0.0.0.0" || host == "::" = "localhost"
      | ':' `elem` host = "[" ++ host ++ "]"
      | otherwise = host
    unix path = (if protocol == Https then "https://" else "") ++ "unix:" ++ path
    -- Without the port and the brackets.
    numeric a = reverse (filter (`notElem` "[]") (drop 1 (dropWhile (/= ':') (reverse (show a)))))
    suffix :: Int -> String
    suffix p = if p == usual then "" else ":" ++ show p

-- | An address with the port of another one.
withPortOf :: SockAddr -> SockAddr -> SockAddr
withPortOf from to = case (port from, to) of
  (Just p, SockAddrInet _ host) -> SockAddrInet p host
  (Just p, SockAddrInet6 _ flow host scope) -> SockAddrInet6 p flow host scope
  _ -> to
  where
    port = fmap fromIntegral . portOf

-- | The port of an address; a Unix socket has none.
portOf :: SockAddr -> Maybe Int
portOf = \case
  SockAddrInet p _ -> Just (fromIntegral p)
  SockAddrInet6 p _ _ _ -> Just (fromIntegral p)
  _ -> Nothing
