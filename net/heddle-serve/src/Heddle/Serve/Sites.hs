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
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.List (intercalate)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (isJust)
import Data.Traversable (for)
import Heddle.Gateway.Proxy (ProxySettings (..))
import Heddle.Http
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Registration (Registration)
import Heddle.Prim.Atomic (newTable, writeEntry)
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
import Heddle.Serve.OpenFile (Opening (..), hasFile, openFollowing)
import Heddle.Serve.Policy (Policy (..), policyOf)
import Heddle.Serve.Redirect (redirectToHttps)
import Heddle.Serve.Root (Root, closeRoot, currentRoot, openRoot)
import Heddle.Serve.Routes
import Heddle.Serve.Site
import Heddle.Serve.Static
import Heddle.Serve.Users (Users, guarded, newVerified, openUsers)

-- | What sites are opened with.
data SitesContext = SitesContext
  { sitesRuntime :: !Runtime,
    sitesReserve :: !DescriptorReserve,
    -- | Hears of troubles.
    sitesTell :: !(String -> IO ()),
    sitesServerName :: !ByteString,
    -- | The port of the first address with TLS.
    sitesSecurePort :: !(Maybe Int)
  }

-- | Sites with what they consist of.
data OpenSites = OpenSites !SitesContext !OnUnknownHost !(NonEmpty OpenSite)

-- With its limits, and what makes the handlers of a capability.
data OpenSite = OpenSite
  { openSite :: !Site,
    openGuard :: !(Maybe Guard),
    openHandlers :: !(IO SiteHandlers)
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
      [] -> body (OpenSites context unknown (NonEmpty.reverse (open :| opened)))

withSite :: SitesContext -> Site -> (OpenSite -> IO a) -> IO a
withSite context site body = withRoot $ \root -> do
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
  opened <-
    try
      ( withGateways
          (sitesRuntime context)
          (sitesTell context)
          (siteDirectory site)
          (maybe (\_ -> pure False) (hasFile follows) root)
          files
          (siteProxy site)
          (ProgramRules (siteVariables site) (siteProgramLimit site) (siteProgramTime site))
          (siteRouteOrder site)
          (siteRoutes site)
          ( \routes -> do
              for_ root (checkPages site indexes routes)
              when (siteRedirectHttps site && null (sitesSecurePort context)) (throwIO NothingToRedirectTo)
              users <- openUsersOf
              guard <- newGuard (proxyTrusted (siteProxy site)) (siteGuard site)
              body (OpenSite site guard (handlersFor context site (static opening "" routes) users guard))
          )
      )
  either (throwIO . CannotRoute) pure opened
  where
    capabilities = capabilitiesOf (sitesRuntime context)
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
siteHandlers :: OpenSites -> IO SiteHandlers
siteHandlers (OpenSites _ unknown sites) = do
  made <- traverse openHandlers sites
  case (made, unknown) of
    (single :| [], FirstSite) -> pure single
    (first :| _, _) -> do
      hosts <- newHosts [(name, handlers) | (site, handlers) <- NonEmpty.toList (NonEmpty.zip sites made), name <- siteNames (openSite site)]
      let other = case unknown of
            FirstSite -> first
            Misdirected -> SiteHandlers (\_ -> pure misdirected) (\_ -> pure Nothing) (\_ -> pure Nothing)
          select request = (\case Just found -> found; Nothing -> other) <$> hostOf hosts request
          at part request = select request >>= \found -> part found request
      pure (SiteHandlers (at siteMain) (at siteAtOnce) (at siteCached))
  where
    misdirected = problem status421 "This server has no site of that name."

handlersFor :: SitesContext -> Site -> StaticSite -> Maybe Users -> Maybe Guard -> IO SiteHandlers
handlersFor context site static users guard = do
  kept <- newKept
  verified <- newVerified
  let redirecting = maybe id (\port -> if siteRedirectHttps site then redirectToHttps port else id) (sitesSecurePort context)
      answering = maybe (staticHandler static kept) (\known -> guarded known verified (staticRefusal static kept) (staticHandlerFor static kept)) users
  pure
    SiteHandlers
      { siteCached = if siteRedirectHttps site || isJust users || isJust guard then \_ -> pure Nothing else staticCached static kept,
        siteMain = maybe id (\g -> guardHandler g (staticRefusal static kept)) guard (redirecting answering),
        siteAtOnce = if siteRedirectHttps site || isJust users then \_ -> pure Nothing else maybe id guardAtOnce guard (staticAtOnce static kept)
      }

-- | For 'settingOpened': the limit of connections of the first site.
sitesConnections :: OpenSites -> Maybe (Registration -> IO (Maybe (IO ())))
sitesConnections (OpenSites context _ (first :| _)) = openGuard first >>= \g -> guardConnections g (sitesTell context)

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
