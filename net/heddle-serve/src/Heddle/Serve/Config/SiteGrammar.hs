{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.SiteGrammar
-- Description : The keys of a host
-- Stability   : internal, exempt from the version policy
--
-- What a host says about files, clients, programs, other servers and routes.
--
-- Cost: that of the decoders.
-- Owner: values.
module Heddle.Serve.Config.SiteGrammar
  ( siteKeys,
    globWord,
    bodySize,
    unix,

    -- * Words, which the command line has, too
    compressions,
    tagParts,
    announces,
    parseBalance,
    parseCheckTarget,
    parseVariable,
    parseSize,
    addedPairs,
    addedRoutes,
  )
where

import Data.Bifunctor (bimap, first)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.List (isPrefixOf)
import Data.Maybe (isJust)
import Data.Set qualified as Set
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8With, encodeUtf8)
import Data.Text.Encoding.Error (lenientDecode)
import Heddle.Gateway.Proxy (Announce (..), Balance (..))
import Heddle.Http (Header (..))
import Heddle.Serve.Config.Codec
import Heddle.Serve.Config.Tree (Problem (..))
import Heddle.Serve.Config.Types
import Heddle.Serve.Config.Yaml
import Heddle.Serve.FileOptions
import Heddle.Serve.Forward (parseUpstreams)
import Heddle.Serve.Glob (Glob, parseGlob)
import Heddle.Serve.Guard (parseAccess, parseRate)
import Heddle.Serve.Listen (listenPlace, parseListen)
import Heddle.Serve.Routes (RouteOrder (..), parsePattern)
import Heddle.Serve.TargetTemplate (parseTarget)
import System.FilePath (isRelative, (</>))
import Text.Read (readMaybe)

-- | The keys of a host, which may also stand at the top of the file.
siteKeys :: Keys SiteConfig SiteConfig
siteKeys =
  SiteConfig
    <$> key "root" "none" "The directory to serve" (path "a directory" ["/srv/www"]) siteRoot
    <*> listKey "index" "index.html, index.htm" "Names of a directory's index" (severalOf (word "a file's name" ["index.html", "index.php"] indexName)) siteIndex
    <*> flag "hidden" "Serve names that begin with a dot, too" siteDotted
    <*> flag "security-headers" "Send headers that make browsers more careful" siteSecurity
    <*> appendKey "cache-control" "none" "Cache-Control for replies about paths that match, but not of errors" (layersOf (mappingOf "patterns and values" globWord (headerValue "Cache-Control"))) siteCaches
    <*> appendKey "header" "none" "Headers for replies about paths that match; the last one for a header counts, and an empty value removes it" (layersOf (mappingOf "patterns and headers" globWord (headerLines False))) siteHeaders
    <*> listKey "cors" "none" "Let pages of these origins read replies; * for all" (severalOf (word "an origin" ["https://app.example.org", "*"] parseOrigin)) siteCors
    <*> mergedKey addedPairs "mime" "" "Media types by extension" (pairs "extensions and types" (WordShape "an extension" ["glb"]) (WordShape "a media type" ["model/gltf-binary"]) (\extension media -> parseMediaRule (extension ++ "=" ++ media)) (bimap C.unpack C.unpack)) siteMedia
    <*> flag "spa" "Answer paths without a file with the root's index, and status 200" siteSpa
    <*> mergedKey addedPairs "error-page" "none" "Files of the root that are sent with errors of a status" (pairs "statuses and files" (WordShape "a status" ["404"]) (WordShape "a file of the root" ["404.html"]) (\status file -> parseErrorPage (status ++ "=" ++ file)) (first show)) siteErrorPages
    <*> flag "autoindex" "List directories that have no index" siteAutoindex
    <*> key "compression" "off" "static: send FILE.br, FILE.zst or FILE.gz instead of FILE; on: also compress what has none" (choice "a way of compression" compressions) siteCompression
    <*> key "etag" "all" "all: of size, times and inode, which no program can set back; mtime-size: of what copies of a file on other machines have in common" (choice "what an ETag is made of" tagParts) siteTag
    <*> flag "follow-symlinks" "Serve what symbolic links lead to outside the root" siteFollow
    <*> key "basic-auth" "none" "Ask for a name and password of this file" (path "a file" ["/etc/heddle/users"]) siteUsers
    <*> listKey "access" "all" "Who is answered: the first that matches counts, and without one the opposite of the last" (severalOf accessCodec) siteAccess
    <*> key "rate-limit" "no limit" "Requests of each client a second (/m: a minute, /h: an hour), and how many may come at once" (word "a rate" ["10/s", "10/s:20"] parseRate) siteRate
    <*> flag "redirect-https" "Redirect requests without TLS to the first address with it" siteRedirectsHttps
    <*> key "proxy-timeout" "60" "Seconds that a server behind may take until its answer begins, and between parts of it" (number 1 1000000 "a number of seconds") siteProxyTimeout
    <*> key "proxy-connections" "no limit" "The most connections to each server behind, of all cores together; further requests wait, first come, first served" (number 1 1000000 "a number of connections") siteProxyConnections
    <*> key "proxy-idle" "60" "Seconds that an unused connection to a server behind is kept; with 0 each request has a connection of its own" (number 0 1000000 "a number of seconds") siteProxyIdle
    <*> key "proxy-balance" "turn" "Which of several servers gets a request: turn, least, address, or header:NAME" (word "turn, least, address or header:NAME" ["least", "header:X-User"] parseBalance) siteBalance
    <*> key "proxy-check" "none" "Ask each server behind for this path every 5 s, and leave out those that do not answer with 200 to 399" (word "a path" ["/health"] parseCheckTarget) siteCheck
    <*> key "proxy-announce" "no" "Tell servers behind the client's address by the PROXY protocol" (choice "a version of the PROXY protocol" announces) siteAnnounce
    <*> mergedKey addedPairs "program-env" "none" "Variables for programs of CGI, FastCGI and SCGI" (pairs "variables" (WordShape "a name" ["GIT_PROJECT_ROOT"]) (WordShape "a value" ["/srv/git"]) variable (bimap text text)) siteProgramEnv
    <*> key "program-limit" "64" "How many programs of one cgi route may run at once; further requests wait" (number 1 100000 "a number of programs") siteProgramMost
    <*> key "program-time" "3600" "Seconds that a program of cgi may run" (number 1 1000000 "a number of seconds") siteProgramSeconds
    <*> key "fastcgi-keep" "0" "Unused connections that each route to FastCGI keeps; with php-fpm each occupies a process" (number 0 100000 "a number of connections") siteFastCgiKept
    <*> key "route-order" "longest" "Which of several routes for a path answers: longest for the one with the longest prefix, written for the first" (choice "an order of routes" [("longest", LongestPrefix), ("written", AsWritten)]) siteOrder
    <*> mergedKey addedRoutes "routes" "none" "What answers for paths below a prefix, or for files such as /*.php" (mappingOf "prefixes and routes" (word "a prefix" ["/api", "/*.php", "/"] parsePattern) routeCodec) siteRouting
  where
    text = T.unpack . decodeUtf8With lenientDecode
    indexName name = if null name then Left "the name of a file is empty" else Right name

-- | Later pairs replace those of one key.
addedPairs :: Eq k => [Written (k, v)] -> [Written (k, v)] -> [Written (k, v)]
addedPairs = overPairs (fst . meant)

-- | Routes that count replace those of one prefix.
addedRoutes :: Ord p => [(Written p, RouteConfig)] -> [(Written p, RouteConfig)] -> [(Written p, RouteConfig)]
addedRoutes above below = [route | route@(prefix, _) <- below, Set.notMember (meant prefix) replaced] ++ above
  where
    replaced = Set.fromList (map (meant . fst) above)

-- | A pattern of paths.
globWord :: Codec (Written Glob)
globWord = word "a pattern" ["*.html", "/assets/**"] (parseGlob . argumentBytes)

headerValue :: String -> Codec (Written Header)
headerValue name = word ("a value of " ++ name) ["no-cache", "public, max-age=3600"] (headerOf name)

-- Names and values. A fixed reply has no file, so it may say its type itself.
headerLines :: Bool -> Codec [Written Header]
headerLines fixed = pairs "headers" (WordShape "a header's name" ["X-Robots-Tag"]) (WordShape "its value" ["noindex"]) (if fixed then replyHeaderOf else headerOf) (\(Header name value) -> (C.unpack name, C.unpack value))

accessCodec :: Codec AccessConfig
accessCodec =
  judgedBy check id . object "a rule of access" $
    AccessConfig
      <$> listKey "allow" "" "Networks that are answered; all for everybody" networks accessAllow
      <*> listKey "deny" "" "Networks that get 403" networks accessDeny
  where
    networks = severalOf (word "a network" ["10.0.0.0/8", "2001:db8::/32", "unix", "all"] parseAccess)
    check at rule
      | null (accessAllow rule) == null (accessDeny rule) = Left [Problem at "a rule of access has either 'allow' or 'deny'; write a list of rules for several"]
      | otherwise = Right rule

routeCodec :: Codec RouteConfig
routeCodec =
  judgedBy check id . object "a route" $
    RouteConfig
      <$> key "files" "" "The files of another directory" (path "a directory" ["/srv/downloads"]) routeFiles
      <*> key "cgi" "" "The programs of a directory, or one program (CGI)" (path "a directory" ["/usr/lib/cgi-bin"]) routeCgi
      <*> listKey "fastcgi" "" "FastCGI servers: HOST:PORT or unix:PATH" servers routeFastCgi
      <*> listKey "scgi" "" "SCGI servers" servers routeScgi
      <*> listKey "proxy" "" "HTTP servers: http://, https:// or unix:PATH, with *N behind it for a weight" (severalOf (word "a server's URL" ["http://127.0.0.1:3000", "http://b.example*3"] parseUpstreams)) routeProxy
      <*> key "redirect" "" "Redirect to an address, which may have variables: $uri, $request_uri, $rest, $host and others" target routeRedirect
      <*> key "respond" "" "Reply with this status" (number 200 599 "a status") routeRespond
      <*> key "rewrite" "" "Let whatever answers for this path and query answer" inner routeRewrite
      <*> listKey "try-files" "" "The first of these that names a file of the root, or with a slash at its end a directory with an index" (severalOf inner) routeTryFiles
      <*> key "status" "302" "The status of a redirection" (choice "a status of redirections" [(show n, n) | n <- [301, 302, 303, 307, 308 :: Int]]) routeStatus
      <*> key "body" "the status in words" "The body of `respond`" (word "a text" ["ok"] Right) routeBody
      <*> listKey "headers" "none" "Headers of `respond`" (headerLines True) routeReplyHeaders
      <*> key "else" "404" "When none of `try-files` is there: the status of an error, or a path" (word "a status of an error, or a path" ["404", "/index.php?$args"] parseElse) routeElse
      <*> key "max-body" "that of the host" "The longest body of a request for these programs or servers; it may be more or less than that of the host and the server" bodySize routeMaxBody
  where
    target = word "a path or an address" ["/index.html", "https://www.example.org$request_uri"] parseTarget
    inner = word "a path" ["/index.html", "$uri"] parseInner
    -- Only what begins with a slash is a path.
    parseInner given
      | any (`isPrefixOf` given) ["/", "$uri", "$request_uri", "${uri}", "${request_uri}"] = parseTarget given
      | otherwise = Left ("'" ++ given ++ "' is not a path; it begins with a slash, $uri or $request_uri")
    servers = severalOf (resolved "a server's address" ["127.0.0.1:9000", "unix:/run/php/php-fpm.sock"] (unix (fmap listenPlace . parseListen)) (YamlText . writtenText))
    parseElse given = case readMaybe given of
      Just n | n >= 400 && n <= (599 :: Int) -> Right (Left n)
      _ | "/" `isPrefixOf` given -> Right <$> parseTarget given
      _ -> Left ("'" ++ given ++ "' is neither the status of an error (400 to 599) nor a path")
    check at route = case problems at route of
      [] -> Right route
      found -> Left found
    problems at route =
      [Problem at ("a route has one of files, cgi, fastcgi, scgi, proxy, redirect, respond, rewrite and try-files" ++ (if null kinds then "" else ", and this has " ++ unwords kinds)) | length kinds /= 1]
        ++ [Problem (writtenAt size) "'max-body' belongs to a route with cgi, fastcgi, scgi or proxy; others take no body" | length kinds == 1, all (`notElem` ["cgi", "fastcgi", "scgi", "proxy"]) kinds, Just size <- [routeMaxBody route]]
        ++ [Problem at ("'" ++ name ++ "' belongs to a route with '" ++ kind ++ "'") | length kinds == 1, (name, kind, True) <- parts, kind `notElem` kinds]
      where
        kinds = [name | (name, True) <- [("files", isJust (routeFiles route)), ("cgi", isJust (routeCgi route)), ("fastcgi", filled routeFastCgi), ("scgi", filled routeScgi), ("proxy", filled routeProxy), ("redirect", isJust (routeRedirect route)), ("respond", isJust (routeRespond route)), ("rewrite", isJust (routeRewrite route)), ("try-files", filled routeTryFiles)]]
        parts = [("status", "redirect", isJust (routeStatus route)), ("body", "respond", isJust (routeBody route)), ("headers", "respond", filled routeReplyHeaders), ("else", "try-files", isJust (routeElse route))]
        filled :: (RouteConfig -> [a]) -> Bool
        filled get = not (null (get route))

-- | Read an address whose Unix socket may be relative to a directory.
unix :: (String -> Either String a) -> FilePath -> String -> Either String (String, a)
unix reader directory text = (,) whole <$> reader whole
  where
    whole = go "" text
    go before rest = case rest of
      _ | Just socket <- after "unix:" rest, isRelative socket, not (null socket), directory /= "." -> reverse before ++ "unix:" ++ directory </> socket
      c : more -> go (c : before) more
      [] -> text
    after prefix t = if prefix `isPrefixOf` t then Just (drop (length prefix) t) else Nothing

-- | Ways of compression by name.
compressions :: [(String, Compression)]
compressions = [("off", CompressionOff), ("static", CompressionStatic), ("on", CompressionOn)]

-- | Parts that ETags are made of, by name.
tagParts :: [(String, TagParts)]
tagParts = [("all", TagOfAll), ("mtime-size", TagOfMtimeAndSize)]

-- | Versions of the PROXY protocol by name.
announces :: [(String, Announce)]
announces = [("v1", AnnounceV1), ("v2", AnnounceV2)]

-- | @turn@, @least@, @address@ or @header:NAME@.
parseBalance :: String -> Either String Balance
parseBalance = \case
  "turn" -> Right InTurn
  "least" -> Right LeastBusy
  "address" -> Right ByAddress
  'h' : 'e' : 'a' : 'd' : 'e' : 'r' : ':' : name | not (null name) -> Right (ByHeader (C.pack name))
  other -> Left ("'" ++ other ++ "' is none of turn, least, address and header:NAME")

-- | A path to ask for.
parseCheckTarget :: String -> Either String ByteString
parseCheckTarget text
  | take 1 text == "/" && all (\c -> c > ' ' && c < '\DEL' && c /= '#') text = Right (C.pack text)
  | otherwise = Left ("'" ++ text ++ "' is not a path; it begins with a slash, and other characters than ASCII are percent-encoded")

-- | Read @NAME=VALUE@.
parseVariable :: String -> Either String (ByteString, ByteString)
parseVariable text = case break (== '=') text of
  (name, '=' : value) | not (null name) -> variable name value
  _ -> Left ("expected NAME=VALUE, not '" ++ text ++ "'")

variable :: String -> String -> Either String (ByteString, ByteString)
variable name value
  | null name || '=' `elem` name = Left ("'" ++ name ++ "' is not the name of a variable")
  | '\0' `elem` name ++ value = Left "a variable holds no zero byte"
  | otherwise = Right (encodeUtf8 (T.pack name), encodeUtf8 (T.pack value))

-- | A size of bodies.
bodySize :: Codec (Written Int)
bodySize = word "a size" ["64k", "10M", "1G"] parseSize

-- | A number of bytes.
--
-- >>> parseSize "64k"
-- Right 65536
parseSize :: String -> Either String Int
parseSize text = case span isDigit text of
  (digits, unit)
    | not (null digits) && length digits <= 15,
      Just factor <- lookup (map toLower unit) [("", 1), ("k", 1024), ("m", 1048576), ("g", 1073741824)],
      let n = read digits :: Integer,
      n >= 1 && n * factor <= 1152921504606846976 ->
      Right (fromIntegral (n * factor))
  _ -> Left ("'" ++ text ++ "' is not a size such as 100000, 64k, 10M or 1G")
