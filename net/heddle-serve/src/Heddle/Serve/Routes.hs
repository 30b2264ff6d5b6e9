{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Routes
-- Description : Which paths are not files
-- Stability   : stable
--
-- A route is a prefix, such as @\/cgi-bin@, and what answers below it; or a prefix and a suffix, such as @\/*.php@, for
-- files that are programs. Routes are compared with the decoded, dot-free path, segment by segment, so no spelling of a
-- path gets around them. The longest prefix wins; of two with one prefix, the one with a suffix.
--
-- Cost: a comparison for each route, paid by requests that the cache of files has no reply for.
-- Owner: values.
module Heddle.Serve.Routes
  ( -- * As users write them
    RouteSpec (..),
    RouteTarget (..),
    RoutePattern (..),
    parseRoute,
    parsePattern,
    renderPattern,
    repeatedPattern,
    servesAll,

    -- * Looking them up
    Routes,
    newRoutes,
    noRoutes,
    addRoute,
    routePatterns,
    routePosition,
    findRoute,
    Found (..),
    LocalFile (..),
    Redirected (..),
    afterRedirect,
    isUpToSuffix,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (group, sort, sortOn)
import Data.Maybe (listToMaybe)
import Data.Ord (Down (..))
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Heddle.Gateway.Place
import Heddle.Gateway.Proxy (Upstream)
import Heddle.Http.UriPath
import Heddle.Prim.Exception (Exception)
import Heddle.Serve.Listen (ListenPlace)

-- | A pattern of paths, and what answers them.
data RouteSpec = RouteSpec
  { specPattern :: !RoutePattern,
    specTarget :: !RouteTarget
  }
  deriving stock (Eq, Show)

-- | What answers below a prefix.
data RouteTarget
  = -- | The programs of a directory.
    CgiDirectory !FilePath
  | -- | Servers that speak FastCGI.
    FastCgiServers ![ListenPlace]
  | -- | Servers that speak SCGI.
    ScgiServers ![ListenPlace]
  | -- | These HTTP servers.
    ProxyTo ![Upstream]
  deriving stock (Eq, Show)

-- | Which paths.
data RoutePattern = RoutePattern
  { -- | Decoded, without slashes at its ends; empty for the root.
    patternPrefix :: !ByteString,
    -- | The end of the name of a segment below the prefix, such as @.php@; empty for every path below the prefix.
    patternSuffix :: !ByteString
  }
  deriving stock (Eq, Ord, Show)

-- | Read @PREFIX=TARGET@ with a reader of the target.
--
-- >>> parseRoute (Right . CgiDirectory) "/cgi-bin=/usr/lib/cgi-bin"
-- Right (RouteSpec {specPattern = RoutePattern {patternPrefix = "cgi-bin", patternSuffix = ""}, specTarget = CgiDirectory "/usr/lib/cgi-bin"})
parseRoute :: (String -> Either String RouteTarget) -> String -> Either String RouteSpec
parseRoute readTarget text = case break (== '=') text of
  (_, "") -> Left ("expected PREFIX=TARGET, and there is no '=' in '" ++ text ++ "'")
  ("", _) -> Left ("there is no prefix in '" ++ text ++ "'; write / for all paths")
  (_, "=") -> Left ("expected PREFIX=TARGET, and nothing follows '=' in '" ++ text ++ "'")
  (prefix, rest) -> RouteSpec <$> parsePattern prefix <*> readTarget (drop 1 rest)

-- | Read a prefix, or a prefix and a suffix such as @\/*.php@.
parsePattern :: String -> Either String RoutePattern
parsePattern text = case decodePath (encodeUtf8 (T.pack text)) of
  Left PathNotAbsolute -> Left ("the prefix '" ++ text ++ "' does not begin with a slash; write /" ++ text)
  Left e -> Left ("the prefix '" ++ text ++ "' is not a path: " ++ C.unpack (pathErrorText e))
  Right path -> case C.unsnoc before of
    _ | not ("*." `B.isPrefixOf` final) -> if C.elem '*' relative then Left anywhere else Right (RoutePattern relative "")
    _ | C.elem '*' before || C.elem '*' (B.drop 1 final) || B.length final < 3 || pathTrailingSlash path -> Left anywhere
    Just (prefix, _) -> Right (RoutePattern prefix (B.drop 1 final))
    Nothing -> Right (RoutePattern "" (B.drop 1 final))
    where
      relative = pathRelative path
      (before, final) = C.breakEnd (== '/') relative
      anywhere = "in the prefix '" ++ text ++ "', '*' is not understood; it may only begin the last part, as in /*.php"

-- | As 'parseRoute' reads it.
renderPattern :: RoutePattern -> String
renderPattern (RoutePattern prefix suffix)
  | B.null suffix = if B.null prefix then "/" else C.unpack (pathBytes prefix)
  | otherwise = C.unpack (pathBytes prefix <> "/*" <> suffix)

-- | Whether a pattern takes every path.
servesAll :: RoutePattern -> Bool
servesAll (RoutePattern prefix suffix) = B.null prefix && B.null suffix

-- | A pattern that occurs twice.
repeatedPattern :: [RouteSpec] -> Maybe RoutePattern
repeatedPattern specs = case [p | p : _ : _ <- group (sort (map specPattern specs))] of
  p : _ -> Just p
  [] -> Nothing

-- | The routes of a site, the most particular first.
newtype Routes = Routes [(RoutePattern, Gateway)]

-- | Make routes of patterns, which must be different.
newRoutes :: [(RoutePattern, Gateway)] -> Routes
newRoutes = Routes . sortOn (\(RoutePattern prefix suffix, _) -> Down (B.length prefix, B.length suffix))

-- | One more route; 'Nothing' if there is one for its pattern.
addRoute :: RoutePattern -> Gateway -> Routes -> Maybe Routes
addRoute pattern' gateway (Routes routes)
  | pattern' `elem` map fst routes = Nothing
  | otherwise = Just (newRoutes ((pattern', gateway) : routes))

-- | The patterns, the most particular first.
routePatterns :: Routes -> [RoutePattern]
routePatterns (Routes routes) = map fst routes

-- | Files only.
noRoutes :: Routes
noRoutes = Routes []

-- | What a path is answered by.
data Found = Found
  { foundGateway :: !Gateway,
    foundPlace :: !Place,
    -- | Whether the route is one of files that are programs, to which the rules for files apply.
    foundFile :: !Bool
  }

-- | A gateway's program names a path that no route takes: answer with that file instead. Thrown by a gateway's handler.
data LocalFile = LocalFile !UriPath !Redirected
  deriving stock (Show)

-- | What a local redirect leaves of the request: the new query, and how many of them have led here ('placeHops'). An index
-- file may be a program, which redirects again.
data Redirected = Redirected !ByteString !Int
  deriving stock (Eq, Show)

instance Exception LocalFile

-- | The same route, asked after a local redirect.
--
-- [Cost]: an allocation.
afterRedirect :: Redirected -> Found -> Found
afterRedirect (Redirected asked hops) found = found {foundPlace = (foundPlace found) {placeQuery = Just asked, placeHops = hops}}

-- | The route of a path.
--
-- [Cost]: a comparison for each route.
findRoute :: Routes -> UriPath -> Maybe Found
findRoute (Routes routes) path = listToMaybe [found | (pattern', gateway) <- routes, Just found <- [matched path pattern' gateway]]

-- | The place of a path's route in 'routePatterns'.
--
-- [Cost]: a comparison for each route.
routePosition :: Routes -> UriPath -> Maybe Int
routePosition (Routes routes) path = listToMaybe [i | (i, (pattern', gateway)) <- zip [0 ..] routes, Just _ <- [matched path pattern' gateway]]

matched :: UriPath -> RoutePattern -> Gateway -> Maybe Found
matched path (RoutePattern prefix suffix) gateway
  | not isBelow = Nothing
  | B.null suffix = Just (Found gateway place False)
  | isUpToSuffix suffix (placeRest place) = Just (Found gateway place True)
  | otherwise = Nothing
  where
    place = placeOf prefix path
    relative = pathRelative path
    isBelow =
      B.null prefix
        || (prefix `B.isPrefixOf` relative && (B.length relative == B.length prefix || C.index relative (B.length prefix) == '/'))

-- | Whether a segment ends in this suffix, which is not the whole segment.
--
-- [Cost]: O(length).
isUpToSuffix :: ByteString -> ByteString -> Bool
isUpToSuffix suffix = any (\part -> suffix `B.isSuffixOf` part && B.length part > B.length suffix) . C.split '/'
