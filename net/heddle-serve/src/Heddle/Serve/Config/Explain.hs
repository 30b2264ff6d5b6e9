{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Explain
-- Description : What a request would get, and which lines say so
-- Stability   : internal, exempt from the version policy
--
-- Follows a request through hosts, routes and files as the server does, without one. Files are looked up, since the answer depends on
-- them; programs and other servers are not asked.
--
-- Cost: some system calls.
-- Owner: values.
module Heddle.Serve.Config.Explain
  ( explain,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isUpper, toLower)
import Data.Foldable (find)
import Data.List (isPrefixOf, sortOn)
import Data.Maybe (isJust, isNothing, listToMaybe)
import Data.Ord (Down (..))
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Heddle.Gateway.Place (Place (..), placePath)
import Heddle.Http (Header (..), statusCode)
import Heddle.Http.UriPath
import Heddle.Prim.Errno
import Heddle.Prim.File (FileKind (..))
import Heddle.Serve.Config.Apply
import Heddle.Serve.Config.Codec (Written (..))
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.FileName (isHiddenPath)
import Heddle.Serve.FileOptions (HeaderRule (..), argumentBytes, securityRules)
import Heddle.Serve.FileReply (notAFile, refusalOf)
import Heddle.Serve.Glob (matches)
import Heddle.Serve.HostName
import Heddle.Serve.OpenFile (kindServed)
import Heddle.Serve.Policy (nameOf)
import Heddle.Serve.Redirect (isChallenge)
import Heddle.Serve.Routes
import Heddle.Serve.TargetTemplate
import System.FilePath ((</>))

-- One thing that is known of the answer, and the place that says so.
data Line = Line !String !String !(Maybe Position)

-- What is asked for.
data Asked = Asked
  { askedSecure :: !Bool,
    askedAuthority :: !ByteString,
    -- | Of the request; errors get the headers for it, whatever it was rewritten to.
    askedFirst :: !ByteString,
    askedPath :: !ByteString,
    askedQuery :: !ByteString
  }

-- | Explain a request such as @GET https:\/\/www.example.org\/a?b@. Without a host, the first site's answer is explained.
--
-- [Blocks]: holds an OS thread while it looks for files.
explain :: Position -> Config -> String -> IO (Either String [String])
explain at config request = case words request of
  [method, url] | all isUpper method -> traverse (fmap (aligned . (Line "request" (method ++ " " ++ url) Nothing :)) . hostLines at config) (parseAsked url)
  [url] | not (all isUpper url) -> explain at config ("GET " ++ url)
  _ -> pure (Left ("expected a method and an address, such as 'GET https://www.example.org/a', not '" ++ request ++ "'"))

aligned :: [Line] -> [String]
aligned lines' = [pad name ++ what ++ maybe "" (\at -> " [" ++ renderPlace at ++ "]") from | Line name what from <- lines']
  where
    pad name = name ++ ": " ++ replicate (longest - length name) ' '
    longest = maximum [length name | Line name _ _ <- lines']

parseAsked :: String -> Either String Asked
parseAsked url
  | "/" `isPrefixOf` url = Right (asked False "" url)
  | otherwise = case [(secure, drop (length scheme) url) | (scheme, secure) <- [("http://", False), ("https://", True)], scheme `isPrefixOf` map toLower (take (length scheme) url)] of
    (secure, rest) : _ | (authority@(_ : _), path) <- break (`elem` ("/?#" :: String)) rest -> Right (asked secure authority (if "/" `isPrefixOf` path then path else '/' : path))
    _ -> Left ("'" ++ url ++ "' is not an address; it begins with http://, https:// or /")
  where
    asked secure authority given =
      let (path, rest) = break (== '?') (takeWhile (/= '#') given)
       in Asked secure (argumentBytes authority) (argumentBytes path) (argumentBytes path) (argumentBytes (drop 1 rest))

hostLines :: Position -> Config -> Asked -> IO [Line]
hostLines at config asked = case [(name, served) | served <- sites, name <- servedNames served, meant name == ExactHost host] ++ wildcards of
  (name, served) : _ -> (Line "host" (writtenText name) (Just (writtenAt name)) :) <$> siteLines asked served
  [] -> case sites of
    served : _ | B.null host || firstAnswers -> (Line "host" (if B.null host then "none; the first site answers" else "no host has this name; the first site answers") (Just (maybe (servedAt served) writtenAt (listToMaybe (servedNames served)))) :) <$> siteLines asked served
    _ -> pure [Line "host" "no host has this name" (writtenAt <$> configUnknown config), Line "status" "421" Nothing]
  where
    sites = servedSites at config
    host = normalHost (askedAuthority asked)
    wildcards = sortOn (\(name, _) -> Down (length (writtenText name))) [(name, served) | served <- sites, name <- servedNames served, isWildcard (meant name), hostMatches (meant name) host]
    isWildcard = \case
      HostsBelow _ -> True
      ExactHost _ -> False
    firstAnswers = case meant <$> configUnknown config of
      Just UnknownFirst -> True
      Just UnknownMisdirected -> False
      Nothing -> isJust (ownSite config)

siteLines :: Asked -> Served -> IO [Line]
siteLines asked served
  | Just word <- siteRedirectsHttps site, meant word, not (askedSecure asked), not (B.null (askedAuthority asked)), not (isChallenge (askedFirst asked)) = pure (guards ++ [Line "handler" "redirection to HTTPS" (Just (writtenAt word)), Line "status" "308" Nothing])
  | otherwise = (guards ++) <$> pathLines 0 (siteRouting site) asked site
  where
    site = servedSite served
    guards =
      concat
        [ [Line "allow" (unwords (map writtenText networks)) (Just (writtenAt one)) | AccessConfig networks@(one : _) _ <- [rule]] ++ [Line "deny" (unwords (map writtenText networks)) (Just (writtenAt one)) | AccessConfig _ networks@(one : _) <- [rule]]
          | rule <- siteAccess site
        ]
        ++ [Line "rate-limit" (writtenText rate) (Just (writtenAt rate)) | Just rate <- [siteRate site]]
        ++ [Line "basic-auth" (writtenText users) (Just (writtenAt users)) | Just users <- [siteUsers site]]

pathLines :: Int -> [(Written RoutePattern, RouteConfig)] -> Asked -> SiteConfig -> IO [Line]
pathLines hops routes asked site
  | hops > mostRewrites = pure (errorLines asked site 500 " (rewrites go round in a circle)" Nothing)
  | otherwise = case decodePath (askedPath asked) of
    Left PathEncodedSlash
      | Right (path, ((pattern', route), place)) <- routeForEncoded order [(meant pattern', (pattern', route)) | (pattern', route) <- routes] (askedPath asked),
        isNothing (routeFiles route),
        B.null (patternSuffix (meant pattern')) || not (isHiddenFor site (pathRelative path)) ->
        (Line "route" (writtenText pattern') (Just (writtenAt pattern')) :) <$> routeLines hops routes asked site path place pattern' route
    Left e
      | hops > 0 -> pure (errorLines asked site 404 " (that is no path)" Nothing)
      | otherwise -> pure (errorLines asked site (statusCode (pathErrorStatus e)) (": " ++ C.unpack (pathErrorText e)) Nothing)
    Right path -> case routeFor order [(meant pattern', (pattern', route)) | (pattern', route) <- routes] path of
      Nothing -> (Line "route" "none" Nothing :) <$> rootLines path asked site
      -- The rules for files apply to files that are programs.
      Just ((pattern', _), _) | not (B.null (patternSuffix (meant pattern'))), isHiddenFor site (pathRelative path) -> (Line "route" (writtenText pattern') (Just (writtenAt pattern')) :) <$> rootLines path asked site
      Just ((pattern', route), place) -> (Line "route" (writtenText pattern') (Just (writtenAt pattern')) :) <$> routeLines hops routes asked site path place pattern' route
  where
    order = maybe LongestPrefix meant (siteOrder site)

-- The status of an error, with what replies without a file get besides.
errorLines :: Asked -> SiteConfig -> Int -> String -> Maybe Position -> [Line]
errorLines asked site status why from = Line "status" (show status ++ why) from : besides asked site status

-- The headers for the path of the request, and the error's page.
besides :: Asked -> SiteConfig -> Int -> [Line]
besides asked site status = map (uncurry headerLine) (headersAt site (status >= 400) [first]) ++ [Line "error-page" (snd (meant page)) (Just (writtenAt page)) | page <- siteErrorPages site, fst (meant page) == status]
  where
    first = either (const (askedFirst asked)) nameOf (decodePath (askedFirst asked))

routeLines :: Int -> [(Written RoutePattern, RouteConfig)] -> Asked -> SiteConfig -> UriPath -> Place -> Written RoutePattern -> RouteConfig -> IO [Line]
routeLines hops routes asked site path place pattern' route
  | Just directory <- routeFiles route = fileLines directory (placeRest place) (placeSlash place) path asked site
  | Just directory <- routeCgi route = pure (handler "CGI, " directory : longest)
  | servers@(_ : _) <- routeFastCgi route = pure (several "FastCGI, " servers : longest)
  | servers@(_ : _) <- routeScgi route = pure (several "SCGI, " servers : longest)
  | servers@(_ : _) <- routeProxy route = pure (several "proxy, " servers : longest)
  | Just target <- routeRedirect route = pure [handler "redirection to " target {writtenText = text (fillTarget (meant target) filling)}, maybe (Line "status" "302" Nothing) (\status -> Line "status" (writtenText status) (Just (writtenAt status))) (routeStatus route)]
  | Just status <- routeRespond route = pure (Line "handler" "fixed reply" (Just (writtenAt status)) : Line "status" (writtenText status) (Just (writtenAt status)) : [headerLine (Just (writtenAt header)) (meant header) | header <- routeReplyHeaders route])
  | Just target <- routeRewrite route = rewritten (handler "rewrite to " target {writtenText = text (fillTarget (meant target) filling)}) (fillTarget (meant target) filling)
  | otherwise = trying (routeTryFiles route)
  where
    longest = [Line "max-body" (writtenText size) (Just (writtenAt size)) | Just size <- [routeMaxBody route]]
    handler what given = Line "handler" (what ++ writtenText given) (Just (writtenAt given))
    several what servers = Line "handler" (what ++ unwords (map writtenText servers)) (writtenAt <$> listToMaybe servers)
    filling =
      Filling
        { fillScheme = if askedSecure asked then "https" else "http",
          fillHost = normalHost (askedAuthority asked),
          fillAuthority = askedAuthority asked,
          fillPath = escapedPath (placePath place),
          fillRest = escapedPath (placeRest place) <> (if placeSlash place && not (B.null (placeRest place)) then "/" else ""),
          fillQuery = askedQuery asked
        }
    rewritten line to =
      let (newPath, newQuery) = C.break (== '?') to
       in (line :) <$> pathLines (hops + 1) routes asked {askedPath = newPath, askedQuery = if B.null newQuery then askedQuery asked else B.drop 1 newQuery} site
    -- What is found is answered as any other path, but not looked for again.
    trying = \case
      [] -> case routeElse route of
        Nothing -> pure (errorLines asked site 404 "" Nothing)
        Just other -> case meant other of
          Left status -> pure (errorLines asked site status "" (Just (writtenAt other)))
          Right target -> rewritten (handler "rewrite to " other {writtenText = text (fillTarget target filling)}) (fillTarget target filling)
      target : others -> do
        let candidate = C.takeWhile (/= '?') (fillTarget (meant target) filling)
        there <- exists candidate
        (Line "try-files" (text candidate ++ (if there then "" else ", which is not there")) (Just (writtenAt target)) :)
          <$> if there then pathLines (hops + 1) [r | r@(p, _) <- routes, p /= pattern'] asked {askedPath = candidate} site else trying others
    exists candidate = case (decodePath candidate, siteRoot site) of
      (Right found, Just root)
        | isHiddenFor site (pathRelative found) -> pure False
        | pathTrailingSlash found || B.null (pathRelative found) -> isJust <$> firstM (isFile . inside (pathRelative found)) (indexNames site)
        | otherwise -> isFile (pathRelative found)
        where
          isFile name = (== Right RegularFile) <$> kindServed (follows site) (meant root) name
      _ -> pure False

isHiddenFor :: SiteConfig -> ByteString -> Bool
isHiddenFor site path = maybe True (not . meant) (siteDotted site) && isHiddenPath path

rootLines :: UriPath -> Asked -> SiteConfig -> IO [Line]
rootLines path asked site = case siteRoot site of
  Nothing -> pure (errorLines asked site 404 "" Nothing)
  Just root -> fileLines root (pathRelative path) (pathTrailingSlash path) path asked site

indexNames :: SiteConfig -> [FilePath]
indexNames site = if null (siteIndex site) then ["index.html", "index.htm"] else map meant (siteIndex site)

follows :: SiteConfig -> Bool
follows site = maybe False meant (siteFollow site)

-- A name in a directory beneath the root.
inside :: ByteString -> FilePath -> ByteString
inside directory name = (if B.null directory then "" else directory <> "/") <> argumentBytes name

firstM :: (a -> IO Bool) -> [a] -> IO (Maybe a)
firstM holds = \case
  [] -> pure Nothing
  one : others -> holds one >>= \yes -> if yes then pure (Just one) else firstM holds others

-- A file of a directory: its name there, whether a slash came after it, and the path that led to it. 'kindServed' and 'refusalOf' decide,
-- as they do for a request; the order of the steps is that of @servePath@ in "Heddle.Serve.Static".
fileLines :: Written FilePath -> ByteString -> Bool -> UriPath -> Asked -> SiteConfig -> IO [Line]
fileLines directory relative slash path asked site
  | isHiddenFor site relative = maybe (failing 404 " (a name begins with a dot)" (writtenAt <$> siteDotted site)) fallback spa
  | otherwise =
    look relative >>= \case
      Left e -> refused e
      Right RegularFile
        | slash && not atRoot -> missing " (no such file)"
        | otherwise -> found (Line "file" whole Nothing) ["/" <> relative]
      Right Directory
        | slash || atRoot -> index (indexNames site)
        | otherwise -> failing 301 " (to the same path with a slash)" Nothing
      Right OtherKind -> refusedWith notAFile
  where
    atRoot = B.null (pathRelative path)
    look = kindServed (follows site) (meant directory)
    index = \case
      [] | Just word <- siteAutoindex site, meant word -> found (Line "file" (whole ++ ", as a listing") (Just (writtenAt word))) []
      [] -> maybe (failing 403 " (a directory without an index)" Nothing) fallback spa
      name : others ->
        look (inside relative name) >>= \case
          Right RegularFile -> case decodePath ("/" <> inside (pathRelative path) name) of
            -- The index is a program's.
            Right at | Just ((pattern', route), place) <- programFor at -> (handler :) . (Line "route" (writtenText pattern') (Just (writtenAt pattern')) :) <$> routeLines 0 (siteRouting site) asked site at place pattern' route
            _ -> found (Line "file" (whole </> name) Nothing) ["/" <> inside relative name]
          Right _ -> index others
          Left e
            | e `elem` [ENOENT, ENOTDIR] -> index others
            | otherwise -> refused e
    programFor at = case routeFor (maybe LongestPrefix meant (siteOrder site)) [(meant pattern', (pattern', route)) | (pattern', route) <- siteRouting site] at of
      found'@(Just ((_, route), _)) | null (routeRewrite route), null (routeTryFiles route), fmap meant (siteRoot site) == Just (meant directory) -> found'
      _ -> Nothing
    refused e = maybe (missing " (no such file)") refusedWith (refusalOf e)
    refusedWith (status, why) = failing (statusCode status) (": " ++ C.unpack why) Nothing
    missing why = maybe (failing 404 why Nothing) fallback spa
    spa = find meant (siteSpa site)
    fallback word = found (Line "file" "the root's index, since there is no such file" (Just (writtenAt word))) ["/index.html"]
    whole = if B.null relative then meant directory else meant directory </> text relative
    handler = Line "handler" ("files, " ++ writtenText directory) (Just (writtenAt directory))
    found line names = pure (handler : line : map (uncurry headerLine) (headersAt site False (nameOf path : names)))
    failing status why from = pure (handler : errorLines asked site status why from)

-- The headers by path, as 'Heddle.Serve.Policy.headersFor' finds them.
headersAt :: SiteConfig -> Bool -> [ByteString] -> [(Maybe Position, Header)]
headersAt site isError names = latest [rule | rule@(glob, notErrors, _, _) <- rules, not (isError && notErrors), any (matches glob) names]
  where
    rules =
      [(glob, False, header, writtenAt <$> siteSecurity site) | maybe False meant (siteSecurity site), HeaderRule _ glob header <- securityRules]
        ++ [(meant glob, True, meant header, Just (writtenAt header)) | (glob, header) <- siteCaches site]
        ++ [(meant glob, False, meant header, Just (writtenAt header)) | (glob, headers) <- siteHeaders site, header <- headers]
    latest [] = []
    latest ((_, _, header@(Header name value), from) : others)
      | or [C.map toLower name == C.map toLower other | (_, _, Header other _, _) <- others] = latest others
      | B.null value = latest others
      | otherwise = (from, header) : latest others

headerLine :: Maybe Position -> Header -> Line
headerLine from (Header name value) = Line "header" (C.unpack name ++ ": " ++ C.unpack value) from

text :: ByteString -> String
text = T.unpack . decodeUtf8With lenientDecode
