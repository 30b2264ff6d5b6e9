{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.HeddleTLS
-- Description : WAI applications over TLS
-- Stability   : stable
--
-- warp-tls's names on heddle-tls: a program that imports "Network.Wai.Handler.WarpTLS" imports this
-- module instead.
--
-- > runTLS (tlsSettings "fullchain.pem" "privkey.pem") (setPort 443 defaultSettings) application
--
-- Certificates are checked before serving begins, and files that change are loaded again within a
-- minute, without a restart. TLS itself is libssl's; "Heddle.Tls" has what this module
-- does not name.
--
-- Cost: of a kept request, a few microseconds of encryption.
-- Owner: the call that runs a server.
module Network.Wai.Handler.HeddleTLS
  ( -- * Servers
    runTLS,
    runTLSSocket,

    -- * Settings
    TLSSettings (..),
    defaultTlsSettings,
    OnInsecure (..),

    -- ** From files
    tlsSettings,
    tlsSettingsChain,

    -- ** From memory
    tlsSettingsMemory,
    tlsSettingsChainMemory,

    -- * In applications
    getClientCertificate,
    tlsFacts,
    LayerFacts (..),

    -- * Exceptions
    TlsProblems (..),
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.List (intercalate)
import Heddle.Http (LayerFacts (..), OnClearText (..), Scheme (..), status426)
import Heddle.Http qualified as Http (Settings (..))
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (Exception (..), throwIO)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (labelMe)
import Heddle.Scope (withTask)
import Heddle.Tls
import Network.Socket (Socket)
import Network.Wai (Application, Request)
import Network.Wai.Handler.Heddle.Request (tlsFacts)
import Network.Wai.Handler.Heddle.Run
import Network.Wai.Handler.Heddle.Settings (Settings (settingsHttp2))

-- | Certificates, and how to treat clients. Make one with 'tlsSettings' and change fields.
data TLSSettings = TLSSettings
  { -- | The certificates, keys and protocol settings, with everything that "Heddle.Tls" offers.
    tlsConfig :: !TlsConfig,
    -- | What a client that speaks HTTP gets. Default: 426 and a sentence.
    onInsecure :: !OnInsecure,
    -- | Ask clients for a certificate, which must lead to one of 'tlsClientAuthorities'; without those, and without
    -- 'tlsClients' of 'tlsConfig', a server does not start. Default: 'False'.
    tlsWantClientCert :: !Bool,
    -- | PEM files with the authorities of clients' certificates.
    tlsClientAuthorities :: !(Maybe FilePath),
    -- | The versions that are spoken, of those that 'tlsConfig' admits. Default: both.
    tlsAllowedVersions :: ![TlsVersion],
    -- | Called when certificates have been loaded again, or could not be: a line for the operator.
    -- Default: to the standard error.
    tlsReloaded :: !(String -> IO ())
  }

-- | What a client that speaks HTTP on the port of TLS gets.
data OnInsecure
  = -- | 426 and this text.
    DenyInsecure !L.ByteString
  | -- | The application's response; 'Network.Wai.isSecure' tells it.
    AllowInsecure

-- | What is wrong with certificates or keys at start.
newtype TlsProblems = TlsProblems [TlsProblem]

instance Show TlsProblems where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception TlsProblems where
  displayException (TlsProblems problems) = intercalate "\n" (map displayException problems)

-- | The files @certificate.pem@ and @key.pem@, as in warp-tls.
defaultTlsSettings :: TLSSettings
defaultTlsSettings = tlsSettings "certificate.pem" "key.pem"

-- | The file of a certificate, with its issuers' after it, and that of its key.
tlsSettings :: FilePath -> FilePath -> TLSSettings
tlsSettings cert key = settingsOf (pemFiles cert key)

-- | The certificate, its issuers', and its key. The files are read once: changes need a restart.
--
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: 'IOError' when a file cannot be read.
tlsSettingsChain :: FilePath -> [FilePath] -> FilePath -> IO TLSSettings
tlsSettingsChain cert chain key = tlsSettingsChainMemory <$> B.readFile cert <*> traverse B.readFile chain <*> B.readFile key

-- | A certificate, with its issuers' after it, and its key, in PEM.
tlsSettingsMemory :: ByteString -> ByteString -> TLSSettings
tlsSettingsMemory cert = tlsSettingsChainMemory cert []

-- | A certificate, its issuers', and its key, in PEM.
tlsSettingsChainMemory :: ByteString -> [ByteString] -> ByteString -> TLSSettings
tlsSettingsChainMemory cert chain key =
  settingsOf (TlsPair (PemBytes "the certificate" (B.intercalate "\n" (cert : chain))) (PemBytes "the key" key) Nothing)

settingsOf :: TlsPair -> TLSSettings
settingsOf pair =
  TLSSettings
    { tlsConfig = defaultTlsConfig [pair],
      onInsecure = DenyInsecure "This server only accepts secure HTTPS connections.",
      tlsWantClientCert = False,
      tlsClientAuthorities = Nothing,
      tlsAllowedVersions = [minBound ..],
      tlsReloaded = putErrorLine . ("heddle-wai: " ++)
    }

-- | 'Network.Wai.Handler.Heddle.runSettings' over TLS.
--
-- [Blocks]: parks.
-- [Throws]: 'TlsProblems', and 'IOError' when the port cannot be listened on.
runTLS :: TLSSettings -> Settings -> Application -> IO ()
runTLS tls settings application = withFront tls settings $ \front -> runFront front settings application

-- | 'Network.Wai.Handler.Heddle.runSettingsSocket' over TLS.
--
-- [Blocks]: parks.
-- [Throws]: 'TlsProblems'.
runTLSSocket :: TLSSettings -> Settings -> Socket -> Application -> IO ()
runTLSSocket tls settings socket application = withFront tls settings $ \front -> runFrontSocket front settings socket application

withFront :: TLSSettings -> Settings -> (Front -> IO a) -> IO a
withFront tls settings body
  -- To serve without asking would look as if nobody had a certificate.
  | tlsWantClientCert tls, NoClientCertificates <- clients = throwIO (TlsProblems [TlsProblem "tlsWantClientCert" (BadSetting "needs tlsClientAuthorities, which clients' certificates must lead to")])
  | otherwise =
    loadSite config >>= \case
      Left problems -> throwIO (TlsProblems problems)
      Right site -> do
        listener <- newTlsListener site
        withTask (labelMe "wai/certificates" >> reloadEvery listener (seconds 60) tell) $ \_ ->
          body (Front (Encrypted (tlsOpening listener)) adjust)
  where
    config =
      (tlsConfig tls)
        { tlsProtocols = ["h2" | settingsHttp2 settings] ++ ["http/1.1"],
          tlsClients = clients,
          tlsLowest = maximum [tlsLowest (tlsConfig tls), minimum (maxBound : tlsAllowedVersions tls)],
          tlsHighest = minimum [tlsHighest (tlsConfig tls), maximum (minBound : tlsAllowedVersions tls)]
        }
    clients = case tlsClientAuthorities tls of
      Just file | tlsWantClientCert tls -> WantClientCertificates (PemFile file)
      _ -> tlsClients (tlsConfig tls)
    adjust engine = case onInsecure tls of
      AllowInsecure -> engine {Http.settingOnClearText = ServeClearText}
      DenyInsecure text -> engine {Http.settingOnClearText = RefuseClearText status426 (L.toStrict text)}
    tell = \case
      Unchanged -> pure ()
      Reloaded _ -> tlsReloaded tls "new certificates are in use"
      KeptOld problems -> tlsReloaded tls ("new certificates cannot be used, and the old ones stay: " ++ intercalate "; " (map displayException problems))

-- | The certificate that the client has shown, in DER, if it was asked for one.
getClientCertificate :: Request -> Maybe ByteString
getClientCertificate request = tlsFacts request >>= factPeerCertificate
