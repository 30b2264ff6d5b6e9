-- |
-- Module      : Heddle.Serve.Config.Check
-- Description : Whether what a configuration names is there
-- Stability   : internal, exempt from the version policy
--
-- Directories, programs, pages, passwords and certificates are looked at as the server would, and nothing is started or changed.
--
-- Cost: some system calls for each name.
-- Owner: values.
module Heddle.Serve.Config.Check
  ( checkConfig,
    checkRest,
  )
where

import Data.Either (fromLeft)
import Data.Maybe (maybeToList)
import Heddle.Prim.Exception (displayException)
import Heddle.Serve.Config.Apply
import Heddle.Serve.Config.Codec (Written (..))
import Heddle.Serve.Config.Decode (inOrder)
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.LogTarget
import Heddle.Serve.Process (lookUpUser)
import Heddle.Serve.Users (openUsers)
import Heddle.Tls (loadSite, selfSignedPair)
import System.Directory (doesDirectoryExist, doesFileExist, doesPathExist)
import System.FilePath (takeDirectory, (</>))

-- | What cannot be served, in the order of the files. The place is for what is missing altogether.
--
-- [Blocks]: holds an OS thread while it looks.
checkConfig :: Position -> Config -> IO [Problem]
checkConfig at config = inOrder . (fromLeft [] (optionsOf at config) ++) <$> checkRest at config

-- | Only what names something that is not there or cannot be used. This can also be asked of a configuration that lacks something.
--
-- [Blocks]: holds an OS thread while it looks.
checkRest :: Position -> Config -> IO [Problem]
checkRest at config = do
  let sites = servedSites at config
      server = configServer config
      certificates = concatMap pairsOf (serverCertificates server : map hostCertificates (configHosts config))
      policy = serverTlsPolicy server
      logs = [Written from name file | Written from name (LogFile file) <- maybeToList (logAccess (configLogs config)) ++ maybeToList (logError (configLogs config))]
  found <-
    sequence $
      concatMap (siteChecks . servedSite) sites
        ++ [either (\why -> [Problem (writtenAt user) why]) (const []) <$> lookUpUser (meant user) | Just user <- [serverUser server]]
        ++ [loadable from (tlsConfigOf noTlsPolicy [pair]) | (from, pair) <- certificates]
        ++ [underPolicy ca noTlsPolicy {policyClientCa = Just ca} | Just ca <- [policyClientCa policy]]
        ++ [underPolicy secret noTlsPolicy {policyTicketSecret = Just secret} | Just secret <- [policyTicketSecret policy]]
        ++ [there doesDirectoryExist (takeDirectory (meant file)) "the directory" file | file <- logs ++ maybeToList (serverPidFile server)]
  pure (inOrder (concat found))
  where
    loadable from tls =
      loadSite tls >>= \case
        Left problems -> pure [Problem from (displayException problem) | problem <- problems]
        Right _ -> pure []
    -- With any certificate.
    underPolicy file policy = selfSignedPair ["localhost"] >>= loadable (writtenAt file) . tlsConfigOf policy . pure

siteChecks :: SiteConfig -> [IO [Problem]]
siteChecks site =
  [there doesDirectoryExist (meant root) "the directory" root | Just root <- [siteRoot site]]
    ++ [users file | Just file <- [siteUsers site]]
    ++ [there doesFileExist (meant root </> snd (meant page)) "the page" page | Just root <- [siteRoot site], page <- siteErrorPages site]
    ++ concatMap (routeChecks . snd) (siteRouting site)
  where
    users file = do
      name <- fileNameBytes (meant file)
      openUsers name (const (pure ())) >>= either (\why -> pure [Problem (writtenAt file) ("cannot use the users in " ++ meant file ++ ": " ++ why)]) (const (pure []))

routeChecks :: RouteConfig -> [IO [Problem]]
routeChecks route =
  [there doesDirectoryExist (meant directory) "the directory" directory | Just directory <- [routeFiles route]]
    ++ [there doesPathExist (meant program) "the directory or program" program | Just program <- [routeCgi route]]

there :: (FilePath -> IO Bool) -> FilePath -> String -> Written a -> IO [Problem]
there exists path' what written = do
  yes <- exists path'
  pure [Problem (writtenAt written) (what ++ " " ++ path' ++ " is not there") | not yes]
