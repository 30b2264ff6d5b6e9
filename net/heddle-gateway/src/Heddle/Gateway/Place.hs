{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Place
-- Description : Where below a prefix a request points
-- Stability   : stable
--
-- A server routes a request by its decoded path, once, and tells the gateway the two parts of that path: what the route
-- took, and what is left for the gateway to find its program, its script or its upstream's path by.
--
-- Invariant: neither part has an empty segment, a dot segment or a backslash, nor begins or ends with a slash. NUL in the second part
-- stands for an encoded slash.
-- Cost: none; values.
-- Owner: values.
module Heddle.Gateway.Place
  ( Place (..),
    Gateway,
    placeOf,
    withSlashes,
    placePath,
    placeBelow,
    pathBytes,
    hidesDots,
    hidesDotsReply,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Http (Handler, Header (..), Reply (..), status400)
import Heddle.Http.UriPath (UriPath, decodePath, escapedPath, pathRelative, pathTrailingSlash)

-- | A decoded path in two parts.
data Place = Place
  { -- | The route's part, such as @cgi-bin@; empty for the root.
    placePrefix :: !ByteString,
    -- | The part below it, such as @list.cgi\/archive@; empty for the prefix itself.
    placeRest :: !ByteString,
    -- | Whether the path ends in a slash.
    placeSlash :: !Bool,
    -- | After a local redirect, the new query; the request's method is then as good as GET, and its body has been read or
    -- is nobody's.
    placeQuery :: !(Maybe ByteString),
    -- | After a rewrite, the new query; the request's method and body stay. The path above is the new one.
    placeRewritten :: !(Maybe ByteString),
    -- | How many local redirects have led here.
    placeHops :: !Int,
    -- | The user whose name and password the server has found right.
    placeUser :: !(Maybe ByteString)
  }
  deriving stock (Eq, Show)

-- | Answers requests for what is below a prefix.
type Gateway = Place -> Handler

-- | A path below a prefix that it begins with; see 'placePrefix' for the prefix's form.
--
-- [Cost]: O(1).
placeOf :: ByteString -> UriPath -> Place
placeOf prefix path =
  Place
    { placePrefix = prefix,
      placeRest = if B.null prefix then pathRelative path else B.drop (B.length prefix + 1) (pathRelative path),
      placeSlash = pathTrailingSlash path,
      placeQuery = Nothing,
      placeRewritten = Nothing,
      placeHops = 0,
      placeUser = Nothing
    }

-- | The place with encoded slashes taken for separators, as programs get paths decoded; 'Nothing' if that leads out of the prefix.
--
-- [Cost]: a search for one; with one, some copies.
withSlashes :: Place -> Maybe Place
withSlashes place
  | B.notElem 0 (placeRest place) = Just place
  | otherwise = case decodePath (escapedPath (B.map (\b -> if b == 0 then 0x2F else b) (placePath place))) of
    Right path | isBelow (pathRelative path) -> let read' = placeOf prefix path in Just place {placeRest = placeRest read', placeSlash = placeSlash read'}
    _ -> Nothing
  where
    prefix = placePrefix place
    isBelow relative = B.null prefix || relative == prefix || (prefix <> C.pack "/") `B.isPrefixOf` relative

-- | The whole path with its slashes, decoded: @\/cgi-bin\/list.cgi\/archive@.
--
-- [Cost]: a copy.
placePath :: Place -> ByteString
placePath place = B.concat [pathBytes (placePrefix place), pathBytes (placeRest place), if placeSlash place || isRoot then C.pack "/" else B.empty]
  where
    isRoot = B.null (placePrefix place) && B.null (placeRest place)

-- | The path below the prefix as the client sees it, decoded: @\/list.cgi\/archive@, and @\/@ for the prefix with a slash.
-- RFC 3875 takes one slash for a path like any other: without it, a program's router would redirect @\/app\/@ to itself.
--
-- [Cost]: a copy.
placeBelow :: Place -> ByteString
placeBelow place = pathBytes (placeRest place) <> (if placeSlash place then C.pack "/" else B.empty)

-- | A part with a slash before it; nothing for an empty one.
--
-- [Cost]: a copy.
pathBytes :: ByteString -> ByteString
pathBytes part = if B.null part then B.empty else C.cons '/' part

-- | Whether a segment of a decoded path is a dot segment with a parameter, such as @..;x@. Servers that take parameters out
-- of a path, as Tomcat does, then resolve the dots, and would climb out of what a route is for.
--
-- >>> hidesDots "app/..;x/manager"
-- True
--
-- [Cost]: O(length).
hidesDots :: ByteString -> Bool
hidesDots path = C.elem ';' path && any hides (C.split '/' path)
  where
    hides segment = case C.break (== ';') segment of
      (before, rest) -> not (B.null rest) && before `elem` [".", ".."]

-- | The answer to a request for such a path.
hidesDotsReply :: Reply
hidesDotsReply = Whole status400 [Header "Content-Type" "text/plain; charset=utf-8"] "400 Bad Request\nThe path has a dot segment with a parameter.\n"
