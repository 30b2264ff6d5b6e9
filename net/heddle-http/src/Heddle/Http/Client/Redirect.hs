{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Redirect
-- Description : Where a redirection leads
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- The request that a redirection asks for: its address, its method, and which headers it may keep.
--
-- Cost: O(bytes).
-- Owner: values.
module Heddle.Http.Client.Redirect
  ( redirected,
    redirectedWhen,
    resolveReference,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlpha, isAlphaNum, toLower)
import Heddle.Http.Client.Ask
import Heddle.Http.Client.Error (Failure (..))
import Heddle.Http.Client.Url
import Heddle.Http.Reply (Header (..))

-- | @redirected code location request@ is the request that follows a response with this status and this Location:
-- 'Nothing' if the response is no redirection, or if the body cannot be sent again.
--
-- After 303, and after 301 and 302 to a POST, the method is GET (HEAD stays), and the body and the headers that describe it are
-- dropped. When the origin changes, Authorization, Cookie, Proxy-Authorization and a Host of the request's own are dropped.
--
-- [Cost]: O(bytes of the head).
-- [Source]: RFC 9110, section 15.4.
redirected :: Int -> Maybe ByteString -> ClientRequest -> Either Failure (Maybe ClientRequest)
redirected code location request = redirectedWhen (replays (requestBody request)) code location request

-- | The same for a request without its body, of which is known whether it can be repeated.
--
-- [Cost]: O(bytes of the head).
redirectedWhen :: Bool -> Int -> Maybe ByteString -> ClientRequest -> Either Failure (Maybe ClientRequest)
redirectedWhen repeats code location request = case location of
  Just reference
    | code `elem` [301, 302, 303, 307, 308],
      requestMethod request /= "CONNECT",
      rewrites || repeats ->
      case resolveReference (Url (requestOrigin request) (requestTarget request)) reference of
        Left e -> Left (BadRedirect (describeUrlError e))
        Right url -> Right (Just (follow url))
  _ -> Right Nothing
  where
    verb = requestMethod request
    rewrites = (code == 303 && verb /= "GET" && verb /= "HEAD") || (code `elem` [301, 302] && verb == "POST")
    follow url =
      (if rewrites then request {requestMethod = "GET", requestBody = NoRequestBody, requestExpect = False} else request)
        { requestOrigin = urlOrigin url,
          requestTarget = urlTarget url,
          requestHost = if same then requestHost request else Nothing,
          requestHeaders = filter keeps (requestHeaders request)
        }
      where
        same = urlOrigin url == requestOrigin request
        keeps (Header n _) =
          let name = C.map toLower n
           in (same || name `notElem` ["authorization", "cookie", "proxy-authorization"])
                && not (rewrites && "content-" `B.isPrefixOf` name)

-- | The address that a reference in a response means. A reference to a Unix socket is refused.
--
-- [Cost]: O(bytes).
-- [Source]: RFC 3986, section 5.2.
resolveReference :: Url -> ByteString -> Either UrlError Url
resolveReference base reference
  | hasScheme text = case parseUrl text of
    Right url | UnixSocket _ <- originPlace (urlOrigin url) -> Left UrlScheme
    other -> normal <$> other
  | "//" `B.isPrefixOf` text = case originPlace (urlOrigin base) of
    UnixSocket _ -> Left UrlScheme
    Tcp _ _ -> normal <$> parseUrl ((if originSecure (urlOrigin base) then "https:" else "http:") <> text)
  | B.null text = Right base
  | not (B.all isTargetByte text) = Left UrlPath
  | otherwise =
    Right . normal . Url (urlOrigin base) $
      if
          | "/" `B.isPrefixOf` text -> text
          | "?" `B.isPrefixOf` text -> basePath <> text
          | otherwise -> fst (C.spanEnd (/= '/') basePath) <> text
  where
    text = C.takeWhile (/= '#') reference
    basePath = C.takeWhile (/= '?') (urlTarget base)
    normal url =
      let (path, query) = C.break (== '?') (urlTarget url)
       in url {urlTarget = withoutDots path <> query}

-- A letter, then letters, digits and three signs, then a colon, before any slash.
hasScheme :: ByteString -> Bool
hasScheme text = case C.uncons name of
  Just (c, _) -> isAlpha c && C.all (\b -> isAlphaNum b || b `elem` ("+-." :: String)) name && ":" `B.isPrefixOf` after
  Nothing -> False
  where
    (name, after) = C.break (`elem` (":/?" :: String)) text

-- Remove the segments . and .. of an absolute path; .. at the root stays there.
withoutDots :: ByteString -> ByteString
withoutDots path = B.concat (concatMap (\segment -> ["/", segment]) (reverse (go [] (drop 1 (C.split '/' path)))))
  where
    go kept = \case
      [] -> kept
      ["."] -> "" : kept
      [".."] -> "" : drop 1 kept
      "." : rest -> go kept rest
      ".." : rest -> go (drop 1 kept) rest
      segment : rest -> go (segment : kept) rest
