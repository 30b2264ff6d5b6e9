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
    openLabelled,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.List (intercalate)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (fromMaybe, isJust)
import Data.Traversable (for)
import Heddle.Gateway.Proxy (ProxySettings (..))
import Heddle.Http
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Registration (Registration)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, newTable, readRef, writeEntry)
import Heddle.Prim.Clock (monotonicNow)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile, openBeneath, readOnly)
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
import Heddle.Serve.OpenFile (Opening (..), newHasFile, openFollowing)
import Heddle.Serve.Policy (Policy (..), policyOf)
import Heddle.Serve.Redirect (redirectToHttps)
import Heddle.Serve.Root (Root, closeRoot, currentRoot, openRoot)
import Heddle.Serve.Routes
import Heddle.Serve.Site
import Heddle.Serve.Static
import Heddle.Serve.Status
import Heddle.Serve.UpstreamFigures (UpstreamFigures)
import Heddle.Serve.Users (Users, guarded, newVerified, openUsers)

-- | What sites are opened with.
data SitesContext = SitesContext
  { sitesRuntime :: !Runtime,
    sitesReserve :: !DescriptorReserve,
    -- | Hears of troubles.
    sitesTell :: !(String -> IO ()),
    sitesServerName :: !ByteString,
    -- | The port of the first address with TLS.
    sitesSecurePort :: !(Maybe Int),
    -- | Is told what there is to observe.
    sitesObserver :: !(Maybe Observer)
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
    -- | How to ask the caches of all capabilities how many bytes they have.
    openCaches :: !(Ref [IO Int])
  }

-- With its limits, and what makes the handlers of a capability.
data OpenSite = OpenSite
  { openSite :: !Site,
    openGuard :: !(Maybe Guard),
    openRoutes :: !Routes,
    -- What is behind routes.
    openUpstreams :: ![(RoutePattern, IO UpstreamFigures)],
    -- How many bytes its cache of files has, too.
    openHandlers :: !(IO (SiteHandlers, IO Int))
  }

-- | Open sites, run with them, close them.
--
-- [Blocks]: as the body does.
-- [Throws]: 'ServeError' before the body begins.
withSites :: SitesContext -> OnUnknownHost -> NonEmpty Site -> (OpenSites -> IO a) -> IO a
withSites context unknown sites body = case repeatedName (NonEmpty.toList sites) of
  Just name -> throwIO (TwoSites (renderHost name))
  Nothing -> go sites []
  where
    go (site :| others) opened = withSite context site $ \open -> case others of
      next : rest -> go (next :| rest) (open : opened)
      [] -> do
        let all' = NonEmpty.reverse (open :| opened)
        labelled <- labelledBy unknown all'
        metrics <- for (sitesObserver context) $ \observer -> observerView observer >>= newMetrics (capabilitiesOf (sitesRuntime context)) labelled . fmap viewMetrics
        newRef [] >>= body . OpenSites context unknown all' labelled metrics

withSite :: SitesContext -> Site -> (OpenSite -> IO a) -> IO a
withSite context site body = withRoot $ \root -> do
  when (null (siteDirectory site) && null (siteRoutes site)) (throwIO NothingToServe)
  indexes <- traverse fileNameBytes (siteIndexes site)
  let policy = policyOf (siteFiles site)
      follows = policyFollow policy
      static from prefix = StaticSite from prefix opening indexes (siteHidden site) (sitesServerName context) policy
      opening = Opening root (sitesReserve context) follows
      -- The files of a route have no routes within.
      files = OpenFiles $ \pattern' path with -> do
        name <- fileNameBytes path
        bracket (openRoot name) closeRoot $ \below -> do
          first <- newKept
          kept <- newTable capabilities first
          for_ [1 .. capabilities - 1] $ \i -> newKept >>= writeEntry kept i
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
          (ProgramRules (siteVariables site) (siteProgramLimit site) (siteProgramTime site))
          (siteRouteOrder site)
          (siteRoutes site)
          ( \plain -> do
              routes <- maybe (pure plain) (`withStatus` plain) (sitesObserver context)
              maybe (noPages site) (checkPages site indexes routes) root
              when (siteRedirectHttps site && null (sitesSecurePort context)) (throwIO NothingToRedirectTo)
              users <- openUsersOf
              guard <- newGuard (proxyTrusted (siteProxy site)) (siteGuard site)
              behind <- reverse <$> readRef upstreams
              body (OpenSite site guard routes behind (handlersFor context site (static opening "" routes) users guard))
          )
      )
  either (throwIO . CannotRoute) pure opened
  where
    capabilities = capabilitiesOf (sitesRuntime context)
    withStatus observer plain = maybe (throwIO (NotRouted (observerPrefix observer) "it is to be the status and another route.\n  Give --status another prefix.")) pure (observed observer plain)
    withRoot act = case siteDirectory site of
      Nothing -> act Nothing
      Just path -> do
        name <- fileNameBytes path
        bracket (naming (CannotServe path) (openRoot name)) closeRoot (act . Just)
    openUsersOf = for (fileUsers (siteFiles site)) $ \path -> do
      name <- fileNameBytes path
      openUsers name (sitesTell context) >>= either (throwIO . CannotUseUsers path) pure

-- | What a capability answers with.
data SiteHandlers = SiteHandlers
  { siteMain :: !Handler,
    -- | For 'handlersAtOnce'.
    siteAtOnce :: !(Request -> IO (Maybe Reply)),
    -- | What 'siteMain' would answer, if that is in memory and needs nothing that is open.
    siteCached :: !(Request -> IO (Maybe Reply))
  }

-- | The handlers of one capability, with caches of their own.
siteHandlers :: OpenSites -> Int -> IO SiteHandlers
siteHandlers sites capability = do
  made <- for (openSites sites) $ \site -> do
    (handlers, held) <- openHandlers site
    (site, handlers) <$ modifyRef (openCaches sites) (\others -> (held : others, ()))
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

-- | What there is to observe, if somebody does; once all handlers are made.
sitesView :: OpenSites -> IO (Maybe View)
sitesView sites = for (openMetrics sites) $ \metrics -> View metrics (concatMap upstreams (openSites sites)) <$> readRef (openCaches sites)
  where
    upstreams site = [((case openSites sites of _ :| [] -> id; _ -> labelOf (openSite site)) (C.pack (renderPattern pattern')), figures) | (pattern', figures) <- openUpstreams site]

handlersFor :: SitesContext -> Site -> StaticSite -> Maybe Users -> Maybe Guard -> IO (SiteHandlers, IO Int)
handlersFor context site static users guard = do
  kept <- newKept
  verified <- newVerified
  let redirecting = maybe id (\port -> if siteRedirectHttps site then redirectToHttps port else id) (sitesSecurePort context)
      answering = maybe (staticHandler static kept) (\known -> guarded known verified (staticRefusal static kept) (staticHandlerFor static kept)) users
  pure
    ( SiteHandlers
        { siteMain = maybe id (\g -> guardHandler g (staticRefusal static kept)) guard (redirecting answering),
          siteAtOnce = if siteRedirectHttps site || isJust users || takesAll (staticRoutes static) then \_ -> pure Nothing else maybe id guardAtOnce guard (staticAtOnce static kept),
          siteCached = if siteRedirectHttps site || isJust users || isJust guard || takesAll (staticRoutes static) then \_ -> pure Nothing else staticCached static kept
        },
      keptBytes kept
    )

-- | For 'settingOpened': the limit of connections of the first site.
sitesConnections :: OpenSites -> Maybe (Registration -> IO (Maybe (IO ())))
sitesConnections sites = openGuard (NonEmpty.head (openSites sites)) >>= \g -> guardConnections g (sitesTell (openContext sites))

-- Without a directory there are no pages.
noPages :: Site -> IO ()
noPages site =
  for_ ([("--error-page", path) | (_, path) <- fileErrorPages (siteFiles site)] ++ [("--spa", intercalate " or " (siteIndexes site)) | fileFallback (siteFiles site)]) $ \(option, path) ->
    throwIO (CannotUsePage option path "no directory is served")

-- The pages that options name must be there, or their mistake would show at the first error only.
checkPages :: Site -> [ByteString] -> Routes -> Root -> IO ()
checkPages site indexes routes root = do
  for_ (fileErrorPages (siteFiles site)) $ \(_, path) -> do
    when (isRouted (argumentBytes path)) (throwIO (CannotUsePage "--error-page" path "a route answers for it, so it is not a page"))
    look (argumentBytes path) >>= \e -> for_ e (throwIO . CannotUsePage "--error-page" path)
  when (fileFallback (siteFiles site)) $ do
    found <- traverse look indexes
    case sequence found of
      Just (e : _) -> throwIO (CannotUsePage "--spa" (intercalate " or " (siteIndexes site)) e)
      _ -> pure ()
  where
    look path = do
      now <- monotonicNow
      directory <- currentRoot root now
      r <- (if fileFollow (siteFiles site) then openFollowing directory path else openBeneath directory path readOnly)
      if r < 0 then pure (Just (describeErrno (Errno (negate r)))) else Nothing <$ closeFile (fromIntegral r)
    -- The text of a program is nobody's business.
    isRouted path = case decodePath ("/" <> path) of
      Right decoded | Just found <- findRoute routes decoded, Through _ <- foundAction found -> True
      _ -> False
