-- |
-- Module      : Heddle.Serve.Config.Check
-- Description : Whether a configuration can be served
-- Stability   : internal, exempt from the version policy
--
-- Sites are opened as for serving ("Heddle.Serve.Judge"), and closed again; certificates are loaded; addresses, logs and the user are
-- looked at. Nothing is asked of other servers, listened to, or changed.
--
-- Cost: that of opening the sites, twice if nothing is wrong with them.
-- Owner: values.
module Heddle.Serve.Config.Check
  ( checkConfig,
    checkRest,
  )
where

import Data.Either (fromLeft)
import Data.Maybe (fromMaybe, listToMaybe, maybeToList)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (displayException, try)
import Heddle.Serve.Behind (NotRouted (..))
import Heddle.Serve.Certificates (ServeTls (..))
import Heddle.Serve.Config.Apply
import Heddle.Serve.Config.Codec (Written (..), onCommandLine)
import Heddle.Serve.Config.Decode (inOrder)
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.Error
import Heddle.Serve.Judge
import Heddle.Serve.Listen
import Heddle.Serve.LogTarget
import Heddle.Serve.Process (lookUpUser)
import Heddle.Tls (loadSite, selfSignedPair)
import System.Directory (doesDirectoryExist, doesPathExist)
import System.FilePath (takeDirectory)
import System.Posix.Files (fileAccess)

-- | List what cannot be served, in the order of the files. The place is for what is missing altogether.
--
-- [Blocks]: holds an OS thread while it looks.
checkConfig :: Position -> Config -> IO [Problem]
checkConfig at config = do
  let applied = optionsOf at config
      own = fromLeft [] applied
  found <- checkRest at config
  -- What is wrong with values together is often found again where it is used.
  case own ++ [problem | problem@(Problem from _) <- found, from == onCommandLine || from `notElem` [known | Problem known _ <- own]] of
    [] | Right options <- applied -> either (\e -> [Problem at (sentence e)]) (const []) <$> try (checkSites options)
    problems -> pure (inOrder problems)

-- | Only what names something that is not there or cannot be used. This can also be asked of a configuration that lacks something.
--
-- [Blocks]: holds an OS thread while it looks.
checkRest :: Position -> Config -> IO [Problem]
checkRest at config = do
  let server = configServer config
      certificates = concatMap pairsOf (serverCertificates server : map hostCertificates (configHosts config))
      policy = serverTlsPolicy server
      logs = [(CannotLog file, Written from name file) | Written from name (LogFile file) <- maybeToList (logAccess (configLogs config)) ++ maybeToList (logError (configLogs config))]
      listening = map meant (serverListen server)
  -- What a site lacks altogether, 'optionsOf' says, or a mistake has left it out.
  sites <- withJudge listening (statusOf config) $ \mistakes -> concat <$> traverse (\served -> map (placed served) . filter (/= NothingToServe) <$> mistakes (siteOf (serverTrusted server) served)) (servedSites at config)
  found <-
    sequence $
      [either (\why -> [Problem (writtenAt user) why]) (const []) <$> lookUpUser (meant user) | Just user <- [serverUser server]]
        ++ [loadable from (tlsConfigOf noTlsPolicy [pair]) | (from, pair) <- certificates]
        ++ [underPolicy ca noTlsPolicy {policyClientCa = Just ca} | Just ca <- [policyClientCa policy]]
        ++ [underPolicy secret noTlsPolicy {policyTicketSecret = Just secret} | Just secret <- [policyTicketSecret policy]]
        ++ [written False file wrong | (wrong, file) <- logs]
        -- It is written beside, and renamed.
        ++ [written True file (CannotWritePid (meant file)) | Just file <- [serverPidFile server]]
        ++ map (addressOf (tlsOf config)) (serverListen server)
  pure (inOrder (sites ++ concat found))
  where
    loadable from tls =
      loadSite tls >>= \case
        Left problems -> pure [Problem from (displayException problem) | problem <- problems]
        Right _ -> pure []
    -- With any certificate.
    underPolicy file policy = selfSignedPair ["localhost"] >>= loadable (writtenAt file) . tlsConfigOf policy . pure

-- An error of a site, at the place that names what it is about.
placed :: Served -> ServeError -> Problem
placed (Served from _ site) e = Problem at (sentence e)
  where
    at = fromMaybe from . listToMaybe $ case e of
      CannotServe _ _ -> maybeToList (writtenAt <$> siteRoot site)
      CannotUsePage "--spa" _ _ -> maybeToList (writtenAt <$> siteSpa site)
      CannotUsePage _ path _ -> [writtenAt page | page <- siteErrorPages site, snd (meant page) == path]
      CannotUseUsers _ _ -> maybeToList (writtenAt <$> siteUsers site)
      NothingToRedirectTo -> maybeToList (writtenAt <$> siteRedirectsHttps site)
      CannotRoute (NotRouted pattern' _) -> [fromMaybe (writtenAt prefix) (targetAt route) | (prefix, route) <- siteRouting site, meant prefix == pattern']
      _ -> []
    targetAt route = listToMaybe (maybeToList (writtenAt <$> routeFiles route) ++ maybeToList (writtenAt <$> routeCgi route) ++ map writtenAt (routeFastCgi route) ++ map writtenAt (routeScgi route) ++ map writtenAt (routeProxy route))

-- Without the advice, which is about options.
sentence :: ServeError -> String
sentence e = case reverse (takeWhile (/= '\n') (displayException e)) of
  '.' : rest -> reverse rest
  _ -> takeWhile (/= '\n') (displayException e)

-- Whether an address could be listened to, if it is free.
addressOf :: ServeTls -> Written ListenSpec -> IO [Problem]
addressOf tls address = do
  resolved <- resolveListen place
  there <- case place of
    ListenUnix path -> doesDirectoryExist (takeDirectory path)
    _ -> pure True
  pure . map (Problem (writtenAt address) . sentence) $
    [CannotResolve name why | Left why <- [resolved]]
      ++ [CannotListen name ENOENT | not there]
      ++ [NoCertificateFor name | protocol == Https, tls == NoTls]
  where
    ListenSpec protocol place = meant address
    name = renderListen (meant address)

-- Whether a file could be written, or replaced, which is not tried.
written :: Bool -> Written FilePath -> (Errno -> ServeError) -> IO [Problem]
written replaced file wrong = do
  there <- doesPathExist path
  directory <- doesDirectoryExist path
  inside <- doesDirectoryExist (takeDirectory path)
  may <- if there && not replaced then fileAccess path False True False else if inside then fileAccess (takeDirectory path) False True True else pure True
  pure [Problem (writtenAt file) (sentence (wrong e)) | e : _ <- [[EISDIR | directory] ++ [ENOENT | not there, not inside] ++ [EACCES | not may]]]
  where
    path = meant file
