{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Notes
-- Description : What a configuration says without effect
-- Stability   : internal, exempt from the version policy
--
-- Rules for files do not apply to the replies of programs and other servers. Whoever writes both expects that they do, so it is said.
--
-- Cost: O(rules times routes).
-- Owner: values.
module Heddle.Serve.Config.Notes
  ( configNotes,
  )
where

import Data.ByteString (ByteString)
import Data.List (intercalate)
import Data.Map.Strict qualified as Map
import Data.Maybe (catMaybes)
import Heddle.Serve.Config.Apply
import Heddle.Serve.Config.Codec (Written (..))
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.FileOptions (Compression (..))
import Heddle.Serve.Glob (Glob, matches)
import Heddle.Serve.Routes

-- | Rules without effect on some routes, each at its place, in the order of the files. None is a mistake: they have an effect on files.
configNotes :: Position -> Config -> [Problem]
configNotes at config = [Problem place (what ++ " has no effect on the replies of " ++ listed routes ++ ", which are passed on as they come") | ((place, what), routes) <- Map.toAscList found]
  where
    found = Map.map Map.keys (Map.fromListWith Map.union [((place, what), Map.singleton (renderPattern pattern') ()) | served <- servedSites at config, pattern' <- behind (servedSite served), (place, what) <- rulesFor (servedSite served) pattern'])
    behind site = [meant pattern' | (pattern', route) <- siteRouting site, not (null (routeProxy route)) || not (null (routeFastCgi route)) || not (null (routeScgi route)) || not (null (routeCgi route))]
    listed routes = case splitAt 3 routes of
      ([one], _) -> one
      (few, []) -> intercalate ", " (init few) ++ " and " ++ last few
      (few, more) -> intercalate ", " few ++ " and " ++ show (length more) ++ " more"

-- What a site says that a path below the pattern should have, and does not.
rulesFor :: SiteConfig -> RoutePattern -> [(Position, String)]
rulesFor site pattern' =
  [(writtenAt page, "the error-page for " ++ show (fst (meant page))) | page <- siteErrorPages site]
    ++ [(writtenAt header, "header") | (glob, headers) <- siteHeaders site, about (meant glob), header <- headers]
    ++ [(writtenAt header, "cache-control") | (glob, header) <- siteCaches site, about (meant glob)]
    ++ [(writtenAt origin, "cors") | origin <- take 1 (siteCors site)]
    ++ catMaybes
      [ (\word -> if meant word then Just (writtenAt word, "security-headers") else Nothing) =<< siteSecurity site,
        (\word -> if meant word == CompressionOff then Nothing else Just (writtenAt word, "compression")) =<< siteCompression site
      ]
  where
    about :: Glob -> Bool
    about glob = any (matches glob) (examples pattern')

-- Paths that the pattern takes.
examples :: RoutePattern -> [ByteString]
examples (RoutePattern prefix suffix) = case suffix of
  "" -> [top, below <> "x"]
  _ -> [below <> "x" <> suffix]
  where
    top = if prefix == "" then "/" else "/" <> prefix
    below = if prefix == "" then "/" else "/" <> prefix <> "/"
