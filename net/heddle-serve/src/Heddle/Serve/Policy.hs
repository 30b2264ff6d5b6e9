{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Policy
-- Description : What the options say about a path, a file or a request
-- Stability   : internal, exempt from the version policy
--
-- 'FileOptions' in the form that replies are made with. Headers by path are decided when a file enters the cache,
-- and stand in its prebuilt reply; a cached file pays nothing for them.
--
-- Cost: see each function.
-- Owner: values.
module Heddle.Serve.Policy
  ( Policy (..),
    policyOf,

    -- * Paths
    nameOf,
    headersFor,
    mediaFor,

    -- * Requests
    Variant,
    plainVariant,
    variantWith,
    variantAccepted,
    withoutCodings,
    originNumber,
    originHeaders,
    preflightHeaders,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.List (elemIndex)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.Http (Header (..))
import Heddle.Http.UriPath (UriPath, pathRelative, pathTrailingSlash)
import Heddle.Serve.Coding (Accepted)
import Heddle.Serve.FileOptions
import Heddle.Serve.Glob (matches)
import Heddle.Serve.Mime (extensionOf, mediaType)

-- | The options, ready to be asked.
data Policy = Policy
  { policyRules :: ![HeaderRule],
    policyMedia :: !(Map ByteString ByteString),
    -- | Which origins may read replies.
    policyOrigins :: ![ByteString],
    -- | Send pages compressed, from siblings.
    policySiblings :: !Bool,
    -- | And compress what has none.
    policyCompresses :: !Bool,
    -- | Whether the reply to a path depends on the request's headers, so that the cache has to tell them apart.
    policyNegotiates :: !Bool,
    policyTag :: !TagParts,
    policyFallback :: !Bool,
    policyListings :: !Bool,
    policyFollow :: !Bool,
    -- | Files sent with an error's status, by status.
    policyErrorPages :: !(Map Int ByteString)
  }

-- | Prepare the options.
policyOf :: FileOptions -> Policy
policyOf options =
  Policy
    { policyRules = fileHeaderRules options,
      policyMedia = Map.fromList (fileMedia options),
      policyOrigins = if "*" `elem` fileOrigins options then ["*"] else fileOrigins options,
      policySiblings = fileCompression options /= CompressionOff,
      policyCompresses = fileCompression options == CompressionOn,
      policyNegotiates = fileCompression options /= CompressionOff || severalOrigins (fileOrigins options),
      policyTag = fileTag options,
      policyFallback = fileFallback options,
      policyListings = fileListings options,
      policyFollow = fileFollow options,
      policyErrorPages = Map.fromList [(status, argumentBytes path) | (status, path) <- fileErrorPages options]
    }
  where
    severalOrigins origins = length origins > 1 && "*" `notElem` origins

-- | A decoded path as patterns are matched with it.
--
-- [Cost]: a copy.
nameOf :: UriPath -> ByteString
nameOf path
  | C.null (pathRelative path) = "/"
  | otherwise = "/" <> pathRelative path <> (if pathTrailingSlash path then "/" else "")

-- | The headers by path of a reply about something with these names, each decoded and with a slash before it: the path of the
-- request, and the file that is sent; whether the reply is an error. For each header the last rule counts.
--
-- [Cost]: each pattern is matched with each name.
headersFor :: Policy -> Bool -> [ByteString] -> [Header]
headersFor policy isError names = filter sent (latest [header | HeaderRule scope glob header <- policyRules policy, not isError || scope == AllReplies, any (matches glob) names])
  where
    same a b = C.map toLower a == C.map toLower b
    sent (Header _ value) = not (C.null value)
    latest [] = []
    latest (Header name value : others)
      | any (\(Header other _) -> same name other) others = latest others
      | otherwise = Header name value : latest others

-- | The media type of a file.
--
-- [Cost]: O(log types).
mediaFor :: Policy -> ByteString -> ByteString
mediaFor policy name = case Map.lookup (extensionOf name) (policyMedia policy) of
  Just media | not (Map.null (policyMedia policy)) -> media
  _ -> mediaType name

-- Requests -----------------------------------------------------------------------

-- | What a reply depends on besides the path: what codings the client accepts, and the number of its origin.
type Variant = Int

-- | Of a site that does not negotiate.
plainVariant :: Variant
plainVariant = 0

-- | From an origin's number and the codings.
variantWith :: Int -> Accepted -> Variant
variantWith origin accepted = origin * 64 + accepted
{-# INLINE variantWith #-}

-- | The codings.
variantAccepted :: Variant -> Accepted
variantAccepted = (`rem` 64)

-- | The same for a client that accepts no coding.
withoutCodings :: Variant -> Variant
withoutCodings variant = variant - variantAccepted variant

-- | The number of an origin: 0 for one that may not read replies.
originNumber :: Policy -> Maybe ByteString -> Int
originNumber policy = \case
  Just origin | [_, _] <- take 2 (policyOrigins policy) -> maybe 0 (+ 1) (elemIndex (C.map toLower origin) (policyOrigins policy))
  _ -> 0

-- | Make what a reply says to pages of the request's origin. With one origin it is the same for all requests, since browsers
-- compare it; with several ones it names the one that asked.
--
-- [Source]: the Fetch standard, section 3.2.
originHeaders :: Policy -> Variant -> [Header]
originHeaders policy variant = case policyOrigins policy of
  [] -> []
  [origin] -> allow origin
  origins ->
    Header "Vary" "Origin" : case drop (variant `quot` 64 - 1) origins of
      origin : _ | variant >= 64 -> allow origin
      _ -> []
  where
    allow origin =
      [ Header "Access-Control-Allow-Origin" origin,
        Header "Access-Control-Expose-Headers" "Accept-Ranges, Content-Encoding, Content-Range, ETag"
      ]

-- | Make what the answer to a preflight adds: this names the headers that the page wants to send.
preflightHeaders :: Policy -> Variant -> Maybe ByteString -> [Header]
preflightHeaders policy variant wanted
  | null (policyOrigins policy) = []
  | otherwise =
    originHeaders policy variant
      ++ [Header "Access-Control-Allow-Methods" "GET, HEAD, OPTIONS"]
      ++ [Header "Access-Control-Allow-Headers" names | Just names <- [wanted]]
      ++ [Header "Access-Control-Max-Age" "86400", Header "Vary" "Access-Control-Request-Headers"]
