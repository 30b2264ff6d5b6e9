-- |
-- Module      : Heddle.Serve.Certificates
-- Description : What the addresses after https:// are served with
-- Stability   : internal, exempt from the version policy
--
-- Loads the site's certificates before serving begins, and again when their files have changed: once
-- a minute, and at the signals that reopen the log. ACME clients that renew them need no hook, also where only root may read the keys
-- ("Heddle.Serve.Keeper").
--
-- Cost: a stat of each file a minute.
-- Owner: 'withCertificates'.
module Heddle.Serve.Certificates
  ( ServeTls (..),
    Certificates,
    withCertificates,
    prepareCertificates,
    openingOf,
    expiriesOf,
    handshakesOf,
    reload,
    describeReload,
    certificateFiles,
  )
where

import Control.Monad (forever)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.List (intercalate, nub)
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Http (Scheme (..))
import Heddle.IO (Runtime)
import Heddle.IO.Parker (awaitUntil, withParker)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Clock (EpochSeconds, deadlineIn, seconds)
import Heddle.Prim.Exception (displayException)
import Heddle.Prim.Thread (labelMe)
import Heddle.Scope (withTask)
import Heddle.Serve.Listen
import Heddle.Tls

-- | Where certificates come from.
data ServeTls
  = -- | There are none.
    NoTls
  | -- | From files.
    TlsOf !TlsConfig
  | -- | Made at start, for development: clients must be told to trust it. The settings have no certificate.
    TlsSelfSigned !TlsConfig
  deriving stock (Eq)

-- | How files are opened, the certificates in use, where they come from, and the secret of tickets that other processes have.
data Certificates = Certificates !FileOpener !(Ref (Maybe TlsListener)) !(Ref ServeTls) !(Maybe ByteString)

-- | Load the certificates, and keep them current while the body runs; the action is told of
-- each change, with 'Left' if the new files cannot be used. Session tickets are made from the secret, if there is one and the settings
-- have none.
--
-- [Blocks]: as the body does.
withCertificates :: Runtime -> FileOpener -> Maybe ByteString -> ServeTls -> [ListenSpec] -> (Either String String -> IO ()) -> (Either [TlsProblem] Certificates -> IO a) -> IO a
withCertificates runtime opener secret source places tell body =
  load opener secret source places >>= \case
    Left problems -> body (Left problems)
    Right site -> do
      certificates <- Certificates opener <$> (traverse newTlsListener site >>= newRef) <*> newRef source <*> pure secret
      withTask (labelMe "serve/certificates" >> eachMinute (reload certificates tell)) (const (body (Right certificates)))
  where
    eachMinute act = withParker runtime $ \parker -> forever $ do
      deadline <- deadlineIn (seconds 60)
      _ <- awaitUntil parker deadline (pure (Nothing :: Maybe ()))
      act

load :: FileOpener -> Maybe ByteString -> ServeTls -> [ListenSpec] -> IO (Either [TlsProblem] (Maybe TlsSite))
load opener secret source places = case source of
  NoTls -> pure (Right Nothing)
  TlsOf config -> using config
  TlsSelfSigned config -> do
    pair <- selfSignedPair names
    using config {tlsPairs = [pair]}
  where
    using config = fmap Just <$> loadSiteBy opener config {tlsProtocols = protocols, tlsTickets = case tlsTickets config of OwnTickets -> maybe OwnTickets SharedTickets secret; other -> other}
    protocols = [C.pack "h2", C.pack "http/1.1"]
    -- What a browser on this machine may call it.
    names = nub ([host | ListenSpec Https (ListenHost host _) <- places, host `notElem` ["", "0.0.0.0", "::"]] ++ ["localhost", "127.0.0.1", "::1"])

-- | Load certificates from another place, if it is another one; the answer takes them up. Otherwise it looks whether the files have
-- changed, as 'reload' does.
--
-- [Blocks]: holds an OS thread while it reads.
prepareCertificates :: Certificates -> ServeTls -> [ListenSpec] -> (Either String String -> IO ()) -> IO (Either [TlsProblem] (IO ()))
prepareCertificates certificates@(Certificates opener listener from secret) source places tell = do
  before <- readRef from
  if before == source
    then pure (Right (reload certificates tell))
    else fmap takeUp <$> load opener secret source places
  where
    takeUp site = do
      writeRef from source
      for_ site $ \new ->
        readRef listener >>= \case
          Just known -> swapSite known new
          Nothing -> newTlsListener new >>= writeRef listener . Just

-- | The files that they come from.
certificateFiles :: ServeTls -> [FilePath]
certificateFiles = \case
  NoTls -> []
  TlsOf config -> tlsFiles config
  TlsSelfSigned config -> tlsFiles config

-- | Tell how connections of an address begin, if there are certificates.
openingOf :: Certificates -> IO (Maybe Scheme)
openingOf (Certificates _ listener _ _) = fmap (Encrypted . tlsOpening) <$> readRef listener

-- | The names of each certificate in use, and when it expires.
expiriesOf :: Certificates -> IO [([ByteString], EpochSeconds)]
expiriesOf (Certificates _ listener _ _) = readRef listener >>= maybe (pure []) (fmap (\site -> zip (siteNames site) (siteExpiries site)) . listenerSite)

-- | Count the handshakes, if there are certificates.
handshakesOf :: Certificates -> IO (Maybe TlsCounts)
handshakesOf (Certificates _ listener _ _) = readRef listener >>= traverse tlsCounts

-- | Load the files again if they have changed.
--
-- [Blocks]: holds an OS thread while it reads.
reload :: Certificates -> (Either String String -> IO ()) -> IO ()
reload (Certificates _ listener _ _) tell = readRef listener >>= \known -> for_ known (\l -> reloadWhenChanged l >>= tellReload tell)

tellReload :: (Either String String -> IO ()) -> Reload -> IO ()
tellReload tell outcome = for_ (describeReload outcome) tell

-- | A line for the operator, if there is something to say.
describeReload :: Reload -> Maybe (Either String String)
describeReload = \case
  Unchanged -> Nothing
  Reloaded site -> Just (Right ("new certificates are in use; the first expires on " ++ C.unpack (formatHttpDate (siteExpires site))))
  KeptOld problems -> Just (Left ("the new certificates cannot be used, and the old ones stay: " ++ intercalate "; " (map displayException problems)))
