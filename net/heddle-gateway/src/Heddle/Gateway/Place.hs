-- |
-- Module      : Heddle.Gateway.Place
-- Description : Where below a prefix a request points
-- Stability   : stable
--
-- A server routes a request by its decoded path, once, and tells the gateway the two parts of that path: what the route
-- took, and what is left for the gateway to find its program, its script or its upstream's path by.
--
-- Invariant: neither part has an empty segment, a dot segment, NUL or a backslash, nor begins or ends with a slash.
-- Cost: none; values.
-- Owner: values.
module Heddle.Gateway.Place
  ( Place (..),
    Gateway,
    placeOf,
    placePath,
    pathBytes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Http (Handler)
import Heddle.Http.UriPath (UriPath, pathRelative, pathTrailingSlash)

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
    -- | How many local redirects have led here.
    placeHops :: !Int
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
      placeHops = 0
    }

-- | The whole path with its slashes, decoded: @\/cgi-bin\/list.cgi\/archive@.
--
-- [Cost]: a copy.
placePath :: Place -> ByteString
placePath place = B.concat [pathBytes (placePrefix place), pathBytes (placeRest place), if placeSlash place || isRoot then C.pack "/" else B.empty]
  where
    isRoot = B.null (placePrefix place) && B.null (placeRest place)

-- | A part with a slash before it; nothing for an empty one.
--
-- [Cost]: a copy.
pathBytes :: ByteString -> ByteString
pathBytes part = if B.null part then B.empty else C.cons '/' part
