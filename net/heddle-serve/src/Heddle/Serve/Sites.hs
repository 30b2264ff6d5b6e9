{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Sites
-- Description : Sites that are open
-- Stability   : internal, exempt from the version policy
--
-- Opens what sites consist of: directories, gateways, users, limits. Of these it makes the handlers of each capability, which
-- find a request's site by its host. A server with one site looks for none.
--
-- Cost: with several sites, the look-up of "Heddle.Serve.Hosts" for each request.
-- Owner: 'withSites'.
module Heddle.Serve.Sites
  ( SitesContext (..),
    OpenSites,
    withSites,
    SiteHandlers (..),
    siteHandlers,
    sitesConnections,
    sitesView,
    siteMistakes,
    openLabelled,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.List (intercalate, nub)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (fromMaybe, isJust)
import Data.Traversable (for)
import Heddle.Gateway.Proxy (ProxySettings (..))
import Heddle.Http
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Registration (Registration)
import Heddle.Prim.Atomic (Table, modifyRef, newRef, readEntry, readRef)
import Heddle.Prim.Clock (monotonicNow)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile)
import Heddle.Serve.Behind
import Heddle.Serve.DescriptorReserve (DescriptorReserve)
import Heddle.Serve.Error
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.FileOptions
import Heddle.Serve.FileReply (problem)
import Heddle.Serve.Guard
import Heddle.Serve.HostName (renderHost)
import Heddle.Serve.Hosts
import Heddle.Serve.Metrics
import Heddle.Serve.OpenFile (Opening (..), newHasFile, openServed)
import Heddle.Serve.Policy (Policy (..), policyOf)
import Heddle.Serve.Redirect (redirectToHttps)
import Heddle.Serve.Root (Root, currentRoot)
import Heddle.Serve.Routes
import Heddle.Serve.Serving (onceAMinute)
import Heddle.Serve.Shared
import Heddle.Serve.Site
import Heddle.Serve.Static
import Heddle.Serve.Status
import Heddle.Serve.UpstreamFigures (UpstreamFigures)
import Heddle.Serve.Users (Users, guarded, newChecking)

-- | What sites are opened with.
data SitesContext = SitesContext
  { sitesRuntime :: !Runtime,
    sitesReserve :: !DescriptorReserve,
    -- | Hears of troubles.
    sitesTell :: !(String -> IO ()),
    sitesServerName :: !ByteString,
    -- | Asks for the port of the first address with TLS, if there is to be one. Sites are opened before addresses, so it is
    -- asked when a request is redirected there.
    sitesSecurePort :: !(Maybe (IO Int)),
    -- | Is told what there is to observe.
    sitesObserver :: !(Maybe Observer),
    -- | What sites have in common, and those of earlier generations.
    sitesShared :: !Shared
  }

-- | Sites with what they consist of.
data OpenSites = OpenSites
  { openContext :: !SitesContext,
    openUnknown :: !OnUnknownHost,
    openSites :: !(NonEmpty OpenSite),
    -- | What requests are told apart by.
    openLabelled :: !Labelled,
    -- | If somebody observes.
    openMetrics :: !(Maybe Metrics),
    openSharing :: !Sharing
  }

-- With its limits, and what makes the handlers of a capability.
data OpenSite = OpenSite
  { openSite :: !Site,
    openGuard :: !(Maybe Guard),
    openRoutes :: !Routes,
    -- What is behind routes.
    openUpstreams :: ![(RoutePattern, IO UpstreamFigures)],
    -- Of a capability.
    openHandlers :: !(Int -> IO SiteHandlers)
  }

-- | Open sites, run with them, close them.
--
-- [Blocks]: as the body does.
-- [Throws]: 'ServeError' before the body begins.
withSites :: SitesContext -> OnUnknownHost -> NonEmpty Site -> (OpenSites -> IO a) -> IO a
withSites context unknown sites body = case repeatedName (NonEmpty.toList sites) of
  Just name -> throwIO (TwoSites (renderHost name))
  Nothing -> withSharing (sitesShared context) capabilities $ \sharing -> do
    let go (site :| others) opened
          | all (closesItself . specTarget) (siteRoutes site) = withSite context sharing site pure >>= next
          | otherwise = withSite context sharing site next
          where
            next open = case others of
              following : rest -> go (following :| rest) (open : opened)
              [] -> allOpen sharing (NonEmpty.reverse (open :| opened))
    go sites []
  where
    capabilities = capabilitiesOf (sitesRuntime context)
    allOpen sharing opened = do
      labelled <- labelledBy unknown opened
      metrics <- for (sitesObserver context) $ \observer -> observerView observer >>= newMetrics capabilities labelled . fmap viewMetrics
      body (OpenSites context unknown opened labelled metrics sharing)
    -- Nothing of such a site has to be closed but what is shared. Thousands of brackets, one in another, would be a deep stack.
    closesItself = \case
      CgiDirectory _ -> False
      FastCgiServers _ -> False
      ScgiServers _ -> False
      ProxyTo _ -> False
      _ -> True

withSite :: SitesContext -> Sharing -> Site -> (OpenSite -> IO a) -> IO a
withSite context sharing site body = do
  root <- rootOf sharing site
  sequence_ (pagesOf site root ++ partsOf context sharing site)
  withRoutes context sharing site root (siteRoutes site) $ \routes behind static kept -> do
    users <- usersOf context sharing site
    guard <- newGuard (sharedRates sharing) (C.pack (unwords (map renderHost (siteNames site)))) (proxyTrusted (siteProxy site)) (siteGuard site)
    body (OpenSite site guard routes behind (handlersFor context site static kept users guard))

-- | Everything that is wrong with a site: what opening each part of it alone throws. 'withSites' throws the first.
--
-- [Blocks]: holds an OS thread while it looks.
siteMistakes :: SitesContext -> Sharing -> Site -> IO [ServeError]
siteMistakes context sharing site =
  try (rootOf sharing site) >>= \case
    -- The pages would be missing with the directory.
    Left e -> (e :) <$> wrong Nothing (partsOf context sharing site)
    Right root -> wrong root (pagesOf site root ++ partsOf context sharing site)
  where
    wrong root parts = (<>) <$> (concat <$> traverse failing parts) <*> routes root
    routes root = nub . concat <$> traverse (\specs -> failing (withRoutes context sharing site root specs (\_ _ _ _ -> pure ()))) (together : map (: []) (siteRoutes site))
    -- What they may not be beside each other. Several proxies of one pattern are one.
    together = [case specTarget spec of ProxyTo _ -> spec; _ -> spec {specTarget = TryFiles [] (TryStatus status404)} | spec <- siteRoutes site]
    failing act = either (: []) (const []) <$> try act

rootOf :: Sharing -> Site -> IO (Maybe Root)
rootOf sharing site = for (siteDirectory site) $ \path -> fileNameBytes path >>= naming (CannotServe path) . sharedRoot sharing

usersOf :: SitesContext -> Sharing -> Site -> IO (Maybe Users)
usersOf context sharing site = for (fileUsers (siteFiles site)) $ \path -> do
  name <- fileNameBytes path
  sharedUsers sharing name (sitesTell context) >>= either (throwIO . CannotUseUsers path) pure

-- What a site needs besides its directory, pages and routes; each throws what is wrong with it.
partsOf :: SitesContext -> Sharing -> Site -> [IO ()]
partsOf context sharing site =
  [ when (null (siteDirectory site) && null (siteRoutes site)) (throwIO NothingToServe),
    when (siteRedirectHttps site && null (sitesSecurePort context)) (throwIO NothingToRedirectTo),
    void (usersOf context sharing site)
  ]

-- Open routes, and run with them, what is behind them, the site's files and its caches.
withRoutes :: SitesContext -> Sharing -> Site -> Maybe Root -> [RouteSpec] -> (Routes -> [(RoutePattern, IO UpstreamFigures)] -> StaticSite -> Table Kept -> IO a) -> IO a
withRoutes context sharing site root specs body = do
  indexes <- traverse fileNameBytes (siteIndexes site)
  refused <- onceAMinute (sitesTell context)
  let policy = policyOf (siteFiles site)
      follows = policyFollow policy
      static from prefix taken = StaticSite from prefix opening indexes (siteHidden site) (sitesServerName context) policy taken refused
      opening = Opening root (sitesReserve context) follows
      -- All that a reply from a cache depends on.
      caches :: FilePath -> RoutePattern -> [RouteSpec] -> IO (Table Kept)
      caches path pattern' routes = sharedCaches sharing (C.pack (show ((path, siteDirectory site, pattern'), siteIndexes site, siteHidden site, siteFiles site, siteRouteOrder site, routes)))
      -- The files of a route have no routes within.
      files = OpenFiles $ \pattern' path with -> do
        below <- fileNameBytes path >>= sharedRoot sharing
        kept <- caches path pattern' []
        with (staticBelow (static opening {openingRoot = Just below} (patternPrefix pattern') noRoutes) kept)
  upstreams <- newRef []
  has <- maybe (pure (\_ -> pure False)) (newHasFile follows) root
  let watch pattern' figures = modifyRef upstreams (\others -> ((pattern', figures) : others, ()))
  opened <-
    try
      ( withGateways
          (sitesRuntime context)
          (sitesTell context)
          watch
          (siteDirectory site)
          has
          files
          (siteProxy site)
          (ProgramRules (siteVariables site) (siteProgramLimit site) (siteProgramTime site) (siteFastCgiKeep site))
          (siteRouteOrder site)
          (siteBodyLimits site)
          specs
          ( \plain -> do
              routes <- maybe (pure plain) (`withStatus` plain) (sitesObserver context)
              behind <- reverse <$> readRef upstreams
              kept <- caches "" (RoutePattern "" "") (siteRoutes site)
              body routes behind (static opening "" routes) kept
          )
      )
  either (throwIO . CannotRoute) pure opened
  where
    withStatus observer plain = maybe (throwIO (NotRouted (observerPrefix observer) "it is to be the status and another route.\n  Give --status another prefix.")) pure (observed observer plain)

-- | What a capability answers with.
data SiteHandlers = SiteHandlers
  { siteMain :: !Handler,
    -- | For 'handlersAtOnce'.
    siteAtOnce :: !(Request -> IO (Maybe Reply)),
    -- | What 'siteMain' would answer, if that is in memory and needs nothing that is open.
    siteCached :: !(Request -> IO (Maybe Reply))
  }

-- | The handlers of one capability, with its caches.
siteHandlers :: OpenSites -> Int -> IO SiteHandlers
siteHandlers sites capability = do
  made <- for (openSites sites) $ \site -> (,) site <$> openHandlers site capability
  maybe id counted (openMetrics sites) <$> case (made, openUnknown sites) of
    ((_, single) :| [], FirstSite) -> pure single
    ((_, first) :| _, unknown) -> do
      hosts <- newHosts [(name, handlers) | (site, handlers) <- NonEmpty.toList made, name <- siteNames (openSite site)]
      let other = case unknown of
            FirstSite -> first
            Misdirected -> SiteHandlers (\_ -> pure misdirected) (\_ -> pure Nothing) (\_ -> pure Nothing)
          at part request = hostOf hosts request >>= \found -> part (fromMaybe other found) request
      pure (SiteHandlers (at siteMain) (at siteAtOnce) (at siteCached))
  where
    misdirected = problem status421 "This server has no site of that name."
    counted metrics (SiteHandlers main atOnce cached) = SiteHandlers (counting metrics capability main) (countingAtOnce metrics capability atOnce) (countingAtOnce metrics capability cached)

-- Requests are told apart by their routes; of several sites, by the site first.
labelledBy :: OnUnknownHost -> NonEmpty OpenSite -> IO Labelled
labelledBy unknown sites = case (sites, unknown) of
  (single :| [], FirstSite) -> pure (ofRoutes (openRoutes single))
  _ -> do
    let each = [(openSite site, ofRoutes (openRoutes site)) | site <- NonEmpty.toList sites]
        firsts = scanl (+) 0 [length labels | (_, Labelled labels _) <- each]
        known = [(site, (+ from) <$$> numberOf) | (from, (site, Labelled _ numberOf)) <- zip firsts each]
        other = case (unknown, known) of
          (FirstSite, (_, numberOf) : _) -> numberOf
          _ -> \_ -> pure (sum [length labels | (_, Labelled labels _) <- each])
    hosts <- newHosts [(name, numberOf) | (site, numberOf) <- known, name <- siteNames site]
    pure (Labelled (concat [map (labelOf site) labels | (site, Labelled labels _) <- each] ++ ["misdirected" | unknown == Misdirected]) (\request -> hostOf hosts request >>= \found -> fromMaybe other found request))
  where
    f <$$> numberOf = fmap f . numberOf

-- A label of one of several sites, such as @www.example.org\/app@.
labelOf :: Site -> ByteString -> ByteString
labelOf site label = name <> (if "/" `B.isPrefixOf` label then "" else " ") <> label
  where
    name = case siteNames site of
      first : _ -> C.pack (renderHost first)
      [] -> "default"

-- | Collect what there is to observe, if somebody does; once all handlers are made.
sitesView :: OpenSites -> IO (Maybe View)
sitesView sites = for (openMetrics sites) $ \metrics -> View metrics (concatMap upstreams (openSites sites)) <$> sharingHeld (openSharing sites)
  where
    upstreams site = [((case openSites sites of _ :| [] -> id; _ -> labelOf (openSite site)) (C.pack (renderPattern pattern')), figures) | (pattern', figures) <- openUpstreams site]

handlersFor :: SitesContext -> Site -> StaticSite -> Table Kept -> Maybe Users -> Maybe Guard -> Int -> IO SiteHandlers
handlersFor context site static caches users guard capability = do
  kept <- readEntry caches capability
  checking <- newChecking
  let redirecting = maybe id (\port -> if siteRedirectHttps site then redirectToHttps port else id) (sitesSecurePort context)
      answering = maybe (staticHandler static kept) (\known -> guarded (proxyTrusted (siteProxy site)) known checking (staticRefusal static kept) (staticHandlerFor static kept)) users
  pure
    SiteHandlers
      { siteMain = maybe id (\g -> guardHandler g (staticRefusal static kept)) guard (redirecting answering),
        siteAtOnce = if siteRedirectHttps site || isJust users || takesAll (staticRoutes static) then \_ -> pure Nothing else maybe id guardAtOnce guard (staticAtOnce static kept),
        siteCached = if siteRedirectHttps site || isJust users || isJust guard || takesAll (staticRoutes static) then \_ -> pure Nothing else staticCached static kept
      }

-- | For 'settingOpened': the limit of connections of the first site.
sitesConnections :: OpenSites -> Maybe (Registration -> IO (Maybe (IO ())))
sitesConnections sites = openGuard (NonEmpty.head (openSites sites)) >>= \g -> guardConnections g (sitesTell (openContext sites))

-- Without a directory there are no pages.
noPages :: Site -> [IO ()]
noPages site =
  [ throwIO (CannotUsePage option path "no directory is served")
    | (option, path) <- [("--error-page", path) | (_, path) <- fileErrorPages (siteFiles site)] ++ [("--spa", intercalate " or " (siteIndexes site)) | fileFallback (siteFiles site)]
  ]

-- The pages that options name must be there, or their mistake would show at the first error only.
pagesOf :: Site -> Maybe Root -> [IO ()]
pagesOf site = maybe (noPages site) (pagesIn site)

pagesIn :: Site -> Root -> [IO ()]
pagesIn site root = map errorPage (fileErrorPages (siteFiles site)) ++ [fallback | fileFallback (siteFiles site)]
  where
    errorPage (_, path) = do
      when (isRouted (argumentBytes path)) (throwIO (CannotUsePage "--error-page" path "a route answers for it, so it is not a page"))
      look (argumentBytes path) >>= \e -> for_ e (throwIO . CannotUsePage "--error-page" path)
    fallback = do
      found <- traverse (\name -> fileNameBytes name >>= look) (siteIndexes site)
      case sequence found of
        Just (e : _) -> throwIO (CannotUsePage "--spa" (intercalate " or " (siteIndexes site)) e)
        _ -> pure ()
    look path = do
      now <- monotonicNow
      directory <- currentRoot root now
      r <- openServed (fileFollow (siteFiles site)) directory path
      if r < 0 then pure (Just (describeErrno (Errno (negate r)))) else Nothing <$ closeFile (fromIntegral r)
    -- The text of a program is nobody's business.
    isRouted path = case decodePath ("/" <> path) of
      Right decoded | Just (to, _) <- routeFor (siteRouteOrder site) [(specPattern spec, specTarget spec) | spec <- siteRoutes site] decoded -> answers to
      _ -> False
    answers = \case
      RewriteTo _ -> False
      TryFiles _ _ -> False
      _ -> True
