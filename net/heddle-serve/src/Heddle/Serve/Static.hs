{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Static
-- Description : Files beneath a root, over HTTP
-- Stability   : internal, exempt from the version policy
--
-- A path is decoded once and opened beneath the root by openat2(2), so that neither dots
-- nor symbolic links lead out. Small files are cached with their whole reply; large ones go
-- by sendfile(2). Conditions and ranges follow RFC 9110. Of a file that has compressed siblings, or that the
-- server may compress, a client gets the coding that it wants most; each is cached like a small file.
--
-- Cost: a hit is one system call, whatever the options; a large file openat2, fstat, sendfile, close.
-- Owner: one 'Kept' per capability.
module Heddle.Serve.Static
  ( StaticSite (..),
    Kept,
    newKept,
    keptBytes,
    doubtKept,
    staticHandler,
    staticHandlerFor,
    staticBelow,
    staticAtOnce,
    staticCached,
    staticRefusal,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Gateway.Place (Gateway, Place (..), placePath)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Http.UriPath
import Heddle.Prim.Atomic (Table, readEntry)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception (mask_, try, unsafeUnmask)
import Heddle.Prim.File
import Heddle.Serve.Coding
import Heddle.Serve.FileCache
import Heddle.Serve.FileName (isHiddenPath)
import Heddle.Serve.FileReply
import Heddle.Serve.Listing
import Heddle.Serve.Negotiate
import Heddle.Serve.OpenFile
import Heddle.Serve.Policy
import Heddle.Serve.Redirect (fillingOf)
import Heddle.Serve.Routes
import Heddle.Serve.Serving
import Heddle.Serve.StaticFile
import Heddle.Serve.TargetTemplate (TargetTemplate, fillTarget)

-- | Answer one request from the site, through a capability's cache.
staticHandler :: StaticSite -> Kept -> Handler
staticHandler site kept = staticHandlerFor site kept Nothing

-- | The same for a user whose password was right.
staticHandlerFor :: StaticSite -> Kept -> Maybe ByteString -> Handler
staticHandlerFor site kept user request = do
  code <- method request
  variant <- variantOf (staticPolicy site) (keptMemo kept) request
  let !serving = servingOf site kept request code variant user
  -- Nothing is cached that a route answers for.
  if readsFiles code && not (takesAll (staticRoutes site))
    then do
      found <- withPath request (lookupVariant (keptFiles kept) variant)
      case found of
        Just entry -> do
          checked' <- entryChecked entry
          if requestBegan request < after (seconds 1) checked'
            then current serving entry
            else mask_ (revalidate serving entry)
        Nothing -> routed serving
    else routed serving

-- | The files of a directory as a route's gateway; each capability has its cache.
staticBelow :: StaticSite -> Table Kept -> Gateway
staticBelow site caches place request = do
  kept <- readEntry caches (requestCapability request)
  raw <- rawPath request
  if decodePath raw == here
    then staticHandlerFor site kept (placeUser place) request
    else do
      -- A rewrite has led here, and the cache is one of the paths of requests.
      serving <- (\code variant -> servingOf site kept request code variant (placeUser place)) <$> method request <*> variantOf (staticPolicy site) (keptMemo kept) request
      either (const (mask_ (finish serving notFound))) (resolve serving Nothing) here
  where
    here = decodePath (escapedPath (placePath place))

-- What the cache does not answer; see Note [Routes and the cache].
routed :: Serving -> IO Reply
routed serving = do
  raw <- rawPath (servingRequest serving)
  case decodePath raw of
    Left PathEncodedSlash -> encoded serving raw
    Left e
      | readsFiles (servingMethod serving) -> mask_ (finish serving (problem (pathErrorStatus e) (pathErrorText e)))
      | otherwise -> mask_ (otherMethod serving)
    -- Only the canonical spelling is remembered, or one file could fill the cache.
    Right path -> resolve serving (if isCanonical raw path then Just raw else Nothing) path

-- A path with encoded slashes names no file, but a route may answer for it.
encoded :: Serving -> ByteString -> IO Reply
encoded serving raw = case findEncoded (staticRoutes site) raw of
  Right (path, found)
    | not (foundFile found && isHidden site (pathRelative path)) -> case foundAction found of
      Through gateway -> throughRoute serving gateway (foundPlace found)
      Rewriting address -> rewritten serving (foundPlace found) address
      Trying candidates final -> tryFiles serving Nothing path (foundPlace found) candidates final
    | otherwise -> mask_ (finish serving notFound)
  Left e
    | readsFiles (servingMethod serving) -> mask_ (finish serving (problem (pathErrorStatus e) (pathErrorText e)))
    | otherwise -> mask_ (otherMethod serving)
  where
    site = servingSite serving

readsFiles :: MethodCode -> Bool
readsFiles code = code == MethodGet || code == MethodHead

-- Whatever answers for a path, that of the request or one that a rewrite or a program names; and the key under which a small
-- file found there is cached.
resolve :: Serving -> Maybe ByteString -> UriPath -> IO Reply
resolve serving key path = decide serving key path (findRoute (staticRoutes (servingSite serving)) path)

-- By this route of it, if there is one.
decide :: Serving -> Maybe ByteString -> UriPath -> Maybe Found -> IO Reply
decide serving key path = \case
  Just found
    | not (foundFile found && isHidden site (pathRelative path)) -> case foundAction found of
      Through gateway -> throughRoute serving gateway (foundPlace found)
      Rewriting address -> rewritten serving (foundPlace found) address
      Trying candidates final -> tryFiles serving key path (foundPlace found) candidates final
  _
    | not (readsFiles (servingMethod serving)) -> mask_ (otherMethod serving)
    | isHidden site (pathRelative path) -> mask_ (missing serving (finish serving notFound))
    | otherwise -> mask_ (servePath serving key path)
  where
    site = servingSite serving

-- A gateway's answer, or that for the path that its program names instead.
throughRoute :: Serving -> Gateway -> Place -> IO Reply
throughRoute serving gateway given =
  try (gateway place (servingRequest serving)) >>= \case
    Right reply -> pure reply
    -- A gateway would have answered for the path itself, unless it is the one that has left it to others.
    Left (LocalFile path redirected) ->
      decide (asGet redirected) Nothing path $ case findRoute (staticRoutes (servingSite serving)) path of
        Just found | Through _ <- foundAction found -> Nothing
        other -> other
  where
    !place = placeFor serving given
    -- Whatever the request was.
    asGet redirected = serving {servingRedirected = Just redirected, servingMethod = if servingMethod serving == MethodHead then MethodHead else MethodGet, servingOld = Nothing}

-- The place with the query that counts by now.
placeFor :: Serving -> Place -> Place
placeFor serving place = case servingRedirected serving of
  Just (Redirected asked hops) -> place {placeQuery = Just asked, placeHops = hops, placeUser = servingUser serving}
  Nothing -> place {placeRewritten = servingAsked serving, placeUser = servingUser serving}

-- Another path is to answer. A target without a question mark keeps the query.
rewritten :: Serving -> Place -> TargetTemplate -> IO Reply
rewritten serving place address
  | servingHops serving >= mostRewrites = mask_ (finish serving (problem status500 "The rules for this address lead in circles."))
  | otherwise = do
    (path, asked) <- C.break (== '?') . fillTarget address <$> fillingOf (placeFor serving place) (servingRequest serving)
    let next = (if B.null asked then id else withQuery (B.drop 1 asked)) serving {servingHops = servingHops serving + 1, servingOld = Nothing}
    case decodePath path of
      Right decoded -> resolve next Nothing decoded
      Left PathEncodedSlash -> encoded next path
      Left _ -> mask_ (finish serving notFound)
  where
    withQuery asked next = case servingRedirected next of
      Just (Redirected _ hops) -> next {servingRedirected = Just (Redirected asked hops)}
      Nothing -> next {servingAsked = Just asked}

-- The first path that there is a file for; otherwise what comes last.
tryFiles :: Serving -> Maybe ByteString -> UriPath -> Place -> [TargetTemplate] -> TryLast -> IO Reply
tryFiles serving key path place candidates final = do
  filling <- fillingOf (placeFor serving place) (servingRequest serving)
  let go = \case
        [] -> case final of
          TryStatus status -> mask_ (finish serving (problem status "There is nothing at this address."))
          TryPath address -> rewritten serving place address
        one : others -> case decodePath (C.takeWhile (/= '?') (fillTarget one filling)) of
          Right candidate | not (isHidden site (pathRelative candidate)) -> do
            found <- mask_ (isThere serving candidate)
            if found then answer candidate else go others
          _ -> go others
  go candidates
  where
    site = servingSite serving
    answer candidate = case findRoute (staticRoutes site) candidate of
      -- It is a program.
      Just found | Through gateway <- foundAction found -> throughRoute serving gateway (foundPlace found)
      _
        | not (readsFiles (servingMethod serving)) -> mask_ (otherMethod serving)
        | pathTrailingSlash candidate && not (pathTrailingSlash path) && pathRelative candidate == pathRelative path -> redirectToDirectory serving path >>= mask_ . finish serving
        | otherwise -> mask_ (servePath serving (if candidate == path then key else Nothing) candidate)

-- Whether a path names a regular file, or with a slash at its end a directory with an index.
isThere :: Serving -> UriPath -> IO Bool
isThere serving path
  | pathTrailingSlash path = anyIndex (staticIndexes site)
  | otherwise = isFile (beneath site path)
  where
    site = servingSite serving
    anyIndex = \case
      [] -> pure False
      name : others -> isFile (inDirectory (beneath site path) name) >>= \there -> if there then pure True else anyIndex others
    isFile name =
      openHere (staticOpening site) (servingRequest serving) name >>= \case
        Left _ -> pure False
        Right file -> (statusKind (openStatus file) == RegularFile) <$ closeOpened file

-- A path's part that is the files'.
beneath :: StaticSite -> UriPath -> ByteString
beneath site path
  | B.null (staticPrefix site) = pathRelative path
  | otherwise = B.drop (B.length (staticPrefix site) + 1) (pathRelative path)

inDirectory :: ByteString -> ByteString -> ByteString
inDirectory directory name
  | B.null directory = name
  | otherwise = directory <> "/" <> name

-- | The reply to a request for a whole file that is in the cache and known to be current.
--
-- It never answers for a route: see Note [Routes and the cache].
--
-- [Blocks]: never.
staticAtOnce :: StaticSite -> Kept -> Request -> IO (Maybe Reply)
staticAtOnce site kept request = withCurrent site kept request $ \_ entry special -> pure (if special then Nothing else Just (Ready (entryReply entry)))

-- | A reply from the cache that needs nothing else: the file, parts of it, or that it is unchanged. 'staticHandler' makes the
-- same.
--
-- [Blocks]: never.
staticCached :: StaticSite -> Kept -> Request -> IO (Maybe Reply)
staticCached site kept request = withCurrent site kept request $ \code entry special ->
  if special
    then fromMemory <$> conditionalReply request code (entryRepresentation entry) (cachedContent entry)
    else pure (Just (Ready (entryReply entry)))
  where
    fromMemory reply = case reply of
      Ready _ -> Just reply
      Segments {} -> Just reply
      -- It may get an error's page.
      _ -> Nothing

-- An answer from the request's entry in the cache, if the entry is known to be current. The action also learns whether the request
-- has conditions, or asks for parts.
withCurrent :: StaticSite -> Kept -> Request -> (MethodCode -> Entry -> Bool -> IO (Maybe Reply)) -> IO (Maybe Reply)
withCurrent site kept request answer = do
  code <- method request
  if not (readsFiles code)
    then pure Nothing
    else do
      variant <- variantOf (staticPolicy site) (keptMemo kept) request
      withPath request (lookupVariant (keptFiles kept) variant) >>= \case
        Nothing -> pure Nothing
        Just entry -> do
          checked' <- entryChecked entry
          conditional <- isConditional request
          ranged <- hasHeader request HeaderRange
          if requestBegan request < after (seconds 1) checked' then answer code entry (conditional || ranged) else pure Nothing
{-# INLINE withCurrent #-}

-- A file that is compressed in itself is cached once, for clients that accept no coding.
lookupVariant :: FileCache -> Variant -> Ptr Word8 -> Int -> IO (Maybe Entry)
lookupVariant cache variant p n = do
  found <- lookupPath cache variant p n
  case found of
    Nothing | variantAccepted variant /= acceptsNothing -> do
      plain <- lookupPath cache (withoutCodings variant) p n
      pure $ case plain of
        Just entry | entryAlone entry -> plain
        _ -> Nothing
    _ -> pure found
{-# INLINE lookupVariant #-}

otherMethod :: Serving -> IO Reply
otherMethod serving
  | code == MethodOptions = do
    asked <- hasHeader request HeaderAccessControlRequestMethod
    wanted <- header request HeaderAccessControlRequestHeaders
    let more = if asked then preflightHeaders policy (servingVariant serving) wanted else originHeaders policy (servingVariant serving)
    pure (Whole status204 (allow : more) "")
  | code == MethodOther = finish serving (problem status501 "This method is not known here.")
  | otherwise = finish serving (withHeaders [allow] (problem status405 "Only GET, HEAD and OPTIONS are served here."))
  where
    code = servingMethod serving
    request = servingRequest serving
    policy = policyHere serving
    allow = Header "Allow" "GET, HEAD, OPTIONS"

-- | A reply that another part of the server makes instead of the site: it gets the headers for its path, and an error's page.
--
-- [Blocks]: holds an OS thread if the page has to be read.
staticRefusal :: StaticSite -> Kept -> Request -> Reply -> IO Reply
staticRefusal site kept request reply = do
  code <- method request
  variant <- variantOf (staticPolicy site) (keptMemo kept) request
  mask_ (finish (servingOf site kept request code variant Nothing) reply)

-- A cached file that was last compared with the disk more than a second ago.
revalidate :: Serving -> Entry -> IO Reply
revalidate serving entry =
  openHere (staticOpening (servingSite serving)) request (entryFile entry) >>= \case
    -- Without a descriptor to check with, the cached version is better than an error.
    Left e | e `elem` [EMFILE, ENFILE, ENOMEM] -> current serving entry
    Left _ -> anew
    Right file
      | statusKind (openStatus file) == RegularFile -> do
        choice <- choose serving file
        closeOpened (choiceFile choice)
        if trusted && chosen choice
          then markChecked entry (requestBegan request) >> current serving entry
          else anew
      | otherwise -> closeOpened file >> anew
  where
    cache = keptFiles (servingKept serving)
    request = servingRequest serving
    anew = do
      removeEntry cache entry
      unsafeUnmask (routed serving {servingOld = Just entry})
    chosen choice = sameChoice choice entry
    -- A file read right after it changed may have changed again within the same tick of its
    -- clock; and another index may have come before this one.
    trusted = entrySettled entry && not ("/" `B.isSuffixOf` entryPath entry)

isHidden :: StaticSite -> ByteString -> Bool
isHidden site path = not (staticHidden site) && isHiddenPath path

-- There is nothing at the path: the fallback page, or this reply.
missing :: Serving -> IO Reply -> IO Reply
missing serving reply
  | policyFallback (policyHere serving) && not (servingFallback serving) = do
    found <- unsafeUseAsCStringLen "/" (\(p, n) -> lookupVariant (keptFiles (servingKept serving)) (servingVariant serving) (castPtr p) n)
    case found of
      Just entry -> do
        checked' <- entryChecked entry
        if requestBegan (servingRequest serving) < after (seconds 1) checked'
          then current serving entry
          else page (Just entry)
      Nothing -> page Nothing
  | otherwise = reply
  where
    -- As if the root had been asked for.
    page old = case decodePath (rootPath <> "/") of
      Right root -> servePath serving {servingFallback = True, servingOld = old} (Just "/") root
      Left _ -> reply
    rootPath = if B.null (staticPrefix site) then "" else "/" <> escapedPath (staticPrefix site)
    site = servingSite serving

-- A decoded path, and the key under which a small file found there is cached.
servePath :: Serving -> Maybe ByteString -> UriPath -> IO Reply
servePath serving key path =
  openHere (staticOpening (servingSite serving)) request relative >>= \case
    Left e -> openFailed serving e
    Right file -> case statusKind (openStatus file) of
      RegularFile
        | pathTrailingSlash path && not atRoot -> closeOpened file >> missing serving (finish serving notFound)
        | otherwise -> serveFile serving key path file
      Directory -> do
        closeOpened file
        if pathTrailingSlash path || atRoot
          then serveIndex serving key path (staticIndexes (servingSite serving))
          else redirectToDirectory serving path >>= finish serving
      OtherKind -> closeOpened file >> refuse serving notAFile
  where
    request = servingRequest serving
    relative = beneath (servingSite serving) path
    atRoot = B.null (pathRelative path)

-- The first index that a directory has.
serveIndex :: Serving -> Maybe ByteString -> UriPath -> [ByteString] -> IO Reply
serveIndex serving _ path []
  | policyListings (policyHere serving) = do
    listed <- listingReply (listingRules serving) (staticOpening (servingSite serving)) (servingRequest serving) (beneath (servingSite serving) path) path
    either (openFailed serving) (finish serving) listed
  | otherwise = missing serving (refuse serving noIndex)
serveIndex serving key path (name : others) =
  openHere (staticOpening (servingSite serving)) (servingRequest serving) inside >>= \case
    Right file
      | statusKind (openStatus file) == RegularFile -> case byRoute of
        -- The index is a program's, such as index.php, whose text is nobody's business.
        Just found | Through gateway <- foundAction found -> closeOpened file >> unsafeUnmask (throughRoute serving gateway (foundPlace found))
        _ -> serveFile serving key path file
      | otherwise -> closeOpened file >> next
    Left e
      | e `elem` [ENOENT, ENOTDIR] -> next
      | otherwise -> openFailed serving e
  where
    next = serveIndex serving key path others
    byRoute = findRoute (staticRoutes (servingSite serving)) path {pathRelative = inDirectory (pathRelative path) name, pathTrailingSlash = False}
    inside = inDirectory (beneath (servingSite serving) path) name

listingRules :: Serving -> ListingRules
listingRules serving = ListingRules {listsHidden = staticHidden (servingSite serving)}

redirectToDirectory :: Serving -> UriPath -> IO Reply
redirectToDirectory serving path = do
  q <- case (servingRedirected serving, servingAsked serving) of
    (Just (Redirected asked _), _) -> pure asked
    (Nothing, Just asked) -> pure asked
    _ -> query (servingRequest serving)
  let location = encodePath path {pathTrailingSlash = True} <> (if B.null q then "" else "?" <> q)
  pure (withHeaders [Header "Location" location] (problem status301 "The directory is at this address with a slash."))

openFailed :: Serving -> Errno -> IO Reply
openFailed serving = maybe (missing serving (finish serving notFound)) (refuse serving) . refusalOf

-- Note [Routes and the cache]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Routes are looked up only when the cache has nothing: a hit costs what it costs without routes. That is right because
-- routes never change while the site is served, and an entry is made only for a path, in its canonical spelling, that no route
-- takes, or that a route gave to the file of that path ('tryFiles', which caches under the path that was asked for, and only
-- if it is the file's own). 'revalidate' looks the routes up again when the file is no longer the same.
