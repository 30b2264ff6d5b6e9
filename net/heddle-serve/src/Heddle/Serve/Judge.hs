-- |
-- Module      : Heddle.Serve.Judge
-- Description : Whether sites can be served
-- Stability   : internal, exempt from the version policy
--
-- There is one judge of sites: opening them. It decides when serving begins, at a reload, and for @--check@, so none of them can say
-- what another denies.
--
-- Cost: that of opening the sites.
-- Owner: what it opens is closed before it returns.
module Heddle.Serve.Judge
  ( checkSites,
    withJudge,
    expectsSecurePort,
  )
where

import Control.Monad (guard)
import Heddle.Gateway.Proxy (ProxySettings (..))
import Heddle.Http (Settings (..), defaultSettings)
import Heddle.IO (capabilitiesOf, defaultConfig, withRuntime)
import Heddle.Serve.DescriptorReserve (noReserve)
import Heddle.Serve.Error
import Heddle.Serve.Listen
import Heddle.Serve.Options
import Heddle.Serve.Shared
import Heddle.Serve.Site
import Heddle.Serve.Sites
import Heddle.Serve.Status

-- | Open the sites and close them, so that what is wrong with them is thrown.
--
-- [Blocks]: holds an OS thread while it looks.
-- [Throws]: 'ServeError'.
checkSites :: ServeOptions -> IO ()
checkSites options = withContext (serveListen options) (serveStatus options) $ \context ->
  withSites context (serveUnknown options) (unasked <$> serveSites options) (const (pure ()))

-- | Run with what says everything that is wrong with a site, beside these addresses and this status.
--
-- [Blocks]: as the body does.
withJudge :: [ListenSpec] -> Maybe StatusOptions -> ((Site -> IO [ServeError]) -> IO a) -> IO a
withJudge places status body = withContext places status $ \context ->
  withSharing (sitesShared context) (capabilitiesOf (sitesRuntime context)) $ \sharing -> body (siteMistakes context sharing . unasked)

withContext :: [ListenSpec] -> Maybe StatusOptions -> (SitesContext -> IO a) -> IO a
withContext places status body = withRuntime defaultConfig $ \runtime -> do
  observer <- traverse (newObserver (capabilitiesOf runtime) Nothing) status
  newShared >>= body . SitesContext runtime noReserve (const (pure ())) (settingServerName defaultSettings) (pure 0 <$ guard (expectsSecurePort places)) observer

-- Nobody needs to know yet which servers are up.
unasked :: Site -> Site
unasked site = site {siteProxy = (siteProxy site) {proxyCheck = Nothing}}

-- | Test whether an address with TLS is to have a port. Only the socket itself tells it for one that systemd passes.
expectsSecurePort :: [ListenSpec] -> Bool
expectsSecurePort places = or [True | ListenSpec Https place <- places, notUnix place]
  where
    notUnix = \case
      ListenUnix _ -> False
      _ -> True
