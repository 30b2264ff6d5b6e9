{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Routes
-- Description : Which paths are not files
-- Stability   : stable
--
-- A route is a prefix, such as @\/cgi-bin@, and what answers below it; or a prefix and a suffix, such as @\/*.php@, for
-- files that are programs. Routes are compared with the decoded, dot-free path, segment by segment, so no spelling of a
-- path gets around them. A path with encoded slashes has a route if that is the same whether they separate segments or not. The longest prefix wins, and of two with one prefix, the one with a suffix; or the first in
-- their order, if the site says so.
--
-- Cost: a comparison for each route, paid by requests that the cache of files has no reply for.
-- Owner: values.
module Heddle.Serve.Routes
  ( -- * As users write them
    RouteSpec (..),
    RouteTarget (..),
    TryLast (..),
    RouteOrder (..),
    RoutePattern (..),
    parseRoute,
    parsePattern,
    renderPattern,
    repeatedPattern,
    servesAll,
    takesAll,

    -- * Looking them up
    Routes,
    Action (..),
    newRoutes,
    noRoutes,
    addRoute,
    routePatterns,
    routePosition,
    encodedPosition,
    findRoute,
    findEncoded,
    routeFor,
    routeForEncoded,
    Found (..),
    LocalFile (..),
    Redirected (..),
    afterRedirect,
    isUpToSuffix,
    mostRewrites,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (group, sort, sortOn)
import Data.Ord (Down (..))
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Heddle.Gateway.Place
import Heddle.Gateway.Proxy (Upstream)
import Heddle.Http (Header, Status)
import Heddle.Http.UriPath
import Heddle.Prim.Exception (Exception)
import Heddle.Serve.Listen (ListenPlace)
import Heddle.Serve.TargetTemplate (TargetTemplate)

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
  | -- | The files of another directory: the part of the path below the prefix is looked up in it.
    FilesIn !FilePath
  | -- | A redirection with this status (301, 302, 303, 307 or 308) to this address.
    RedirectTo !Status !TargetTemplate
  | -- | This reply.
    RespondWith !Status ![Header] !ByteString
  | -- | Whatever answers for this path and query instead.
    RewriteTo !TargetTemplate
  | -- | The first of these paths that names a file of the site's directory, or, with a slash at its end, a directory with an
    -- index. Whatever answers for that path answers.
    TryFiles ![TargetTemplate] !TryLast
  deriving stock (Eq, Show)

-- | What answers if there is none of the files.
data TryLast
  = -- | An error, 404 in most cases.
    TryStatus !Status
  | -- | Whatever answers for this path and query.
    TryPath !TargetTemplate
  deriving stock (Eq, Show)

-- | Which of the routes that match a path answers.
data RouteOrder
  = -- | The one with the longest prefix; of two with one prefix, the one with a suffix.
    LongestPrefix
  | -- | The first.
    AsWritten
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

-- | Read a prefix, or a prefix and a suffix, such as @\/*.php@.
--
-- >>> parsePattern "/blog/*.php"
-- Right (RoutePattern {patternPrefix = "blog", patternSuffix = ".php"})
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

-- | Test whether a pattern takes every path.
servesAll :: RoutePattern -> Bool
servesAll (RoutePattern prefix suffix) = B.null prefix && B.null suffix

-- | A pattern that occurs twice.
repeatedPattern :: [RouteSpec] -> Maybe RoutePattern
repeatedPattern specs = case [p | p : _ : _ <- group (sort (map specPattern specs))] of
  p : _ -> Just p
  [] -> Nothing

-- | The routes of a site, the first one that counts first.
data Routes = Routes !RouteOrder ![(RoutePattern, Action)]

-- | What a route does with a request.
data Action
  = -- | It answers.
    Through !Gateway
  | -- | It looks for files, and then for what is behind them.
    Trying ![TargetTemplate] !TryLast
  | -- | It lets another path answer.
    Rewriting !TargetTemplate

-- | Test whether one gateway answers every path.
--
-- [Cost]: two comparisons.
takesAll :: Routes -> Bool
takesAll = \case
  Routes _ [(pattern', Through _)] -> servesAll pattern'
  _ -> False

-- | Make routes of patterns, which must be different.
newRoutes :: RouteOrder -> [(RoutePattern, Action)] -> Routes
newRoutes order = Routes order . inOrder order

inOrder :: RouteOrder -> [(RoutePattern, a)] -> [(RoutePattern, a)]
inOrder = \case
  LongestPrefix -> sortOn (\(RoutePattern prefix suffix, _) -> Down (B.length prefix, B.length suffix))
  AsWritten -> id

-- | Files only.
noRoutes :: Routes
noRoutes = Routes LongestPrefix []

-- | One more route, the first one if routes have an order; 'Nothing' if there is one for its pattern.
addRoute :: RoutePattern -> Gateway -> Routes -> Maybe Routes
addRoute pattern' gateway (Routes order routes)
  | pattern' `elem` map fst routes = Nothing
  | otherwise = Just (newRoutes order ((pattern', Through gateway) : routes))

-- | The patterns, the first one that counts first.
routePatterns :: Routes -> [RoutePattern]
routePatterns (Routes _ routes) = map fst routes

-- | What a path is answered by.
data Found = Found
  { foundAction :: !Action,
    foundPlace :: !Place,
    -- | Whether the route is one of files that are programs, to which the rules for files apply.
    foundFile :: !Bool
  }

-- | A gateway's program names a path that no other gateway takes: let the site answer for it. Thrown by a gateway's handler.
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
findRoute (Routes _ routes) path = (\(pattern', action, place) -> Found action place (not (B.null (patternSuffix pattern')))) <$> firstFor routes path

-- | The route of a path that has encoded slashes, with the path in which they separate segments. The place is that in which they do not.
-- Without a route it is refused, for no file has such a name; and so it is if the two readings have different routes, because what is behind
-- one could take the path for the other's.
--
-- [Cost]: two comparisons for each route, and decoding twice.
findEncoded :: Routes -> ByteString -> Either PathError (UriPath, Found)
findEncoded (Routes _ routes) raw = (\(path, (pattern', action, place)) -> (path, Found action place (not (B.null (patternSuffix pattern'))))) <$> firstForEncoded routes raw

-- | 'routePosition' for a path that has encoded slashes.
--
-- [Cost]: as 'findEncoded'.
encodedPosition :: Routes -> ByteString -> Maybe Int
encodedPosition (Routes _ routes) raw = either (const Nothing) (\(_, (_, i, _)) -> Just i) (firstForEncoded (zip (map fst routes) [0 ..]) raw)

-- | 'routeFor' for a path that has encoded slashes; see 'findEncoded'.
--
-- [Cost]: as 'routeFor', twice.
routeForEncoded :: RouteOrder -> [(RoutePattern, a)] -> ByteString -> Either PathError (UriPath, (a, Place))
routeForEncoded order patterns raw = (\(path, (_, a, place)) -> (path, (a, place))) <$> firstForEncoded (inOrder order patterns) raw

-- | The place of a path's route in 'routePatterns'.
--
-- [Cost]: a comparison for each route.
routePosition :: Routes -> UriPath -> Maybe Int
routePosition (Routes _ routes) path = (\(_, i, _) -> i) <$> firstFor (zip (map fst routes) [0 ..]) path

-- | Find what stands for the pattern that answers a path, and the path's place below it.
--
-- [Cost]: O(patterns times their logarithm).
routeFor :: RouteOrder -> [(RoutePattern, a)] -> UriPath -> Maybe (a, Place)
routeFor order patterns path = (\(_, a, place) -> (a, place)) <$> firstFor (inOrder order patterns) path

firstForEncoded :: [(RoutePattern, a)] -> ByteString -> Either PathError (UriPath, (RoutePattern, a, Place))
firstForEncoded routes raw = do
  (octets, slashes) <- decodeBothWays raw
  case (firstFor routes octets, firstFor routes slashes) of
    -- Patterns are different.
    (Just found@(one, _, _), Just (other, _, _)) | one == other -> Right (slashes, found)
    _ -> Left PathEncodedSlash

firstFor :: [(RoutePattern, a)] -> UriPath -> Maybe (RoutePattern, a, Place)
firstFor routes path = go routes
  where
    relative = pathRelative path
    go = \case
      [] -> Nothing
      (pattern'@(RoutePattern prefix suffix), a) : others
        | isBelow prefix && (B.null suffix || isUpToSuffix suffix (placeRest place)) -> Just (pattern', a, place)
        | otherwise -> go others
        where
          place = placeOf prefix path
    isBelow prefix =
      B.null prefix
        || (prefix `B.isPrefixOf` relative && (B.length relative == B.length prefix || C.index relative (B.length prefix) == '/'))

-- | Test whether a segment ends in this suffix, which is not the whole segment.
--
-- [Cost]: O(length).
isUpToSuffix :: ByteString -> ByteString -> Bool
isUpToSuffix suffix = any (\part -> suffix `B.isSuffixOf` part && B.length part > B.length suffix) . C.split '/'

-- | A site whose rewrites lead in circles is answered with 500 after these.
mostRewrites :: Int
mostRewrites = 10
