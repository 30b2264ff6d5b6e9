-- |
-- Module      : Heddle.Tls.Config
-- Description : Settings of servers and clients
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- Cost: values.
-- Owner: values.
module Heddle.Tls.Config
  ( -- * Servers
    TlsConfig (..),
    defaultTlsConfig,
    TlsPair (..),
    pemFiles,
    PemSource (..),
    sourceName,
    ClientCertificates (..),
    TlsTickets (..),
    tlsFiles,

    -- * Clients
    TlsClientConfig (..),
    defaultTlsClientConfig,
    Trust (..),

    -- * Both
    TlsVersion (..),
    TlsTuning (..),
    defaultTlsTuning,
  )
where

import Data.ByteString (ByteString)
import Data.Maybe (mapMaybe)
import Heddle.Prim.Clock (Nanos, seconds)

-- | A version of the protocol.
data TlsVersion = Tls12 | Tls13
  deriving stock (Eq, Ord, Show, Enum, Bounded)

-- | Where PEM comes from.
data PemSource
  = -- | A file; symbolic links are followed each time that it is read.
    PemFile !FilePath
  | -- | Bytes, and a name for messages.
    PemBytes !String !ByteString
  deriving stock (Eq)

-- | The name that messages have for it.
sourceName :: PemSource -> String
sourceName = \case
  PemFile path -> path
  PemBytes name _ -> name

-- | A certificate.
data TlsPair = TlsPair
  { -- | The certificate, followed by those of its issuers.
    pairChain :: !PemSource,
    pairKey :: !PemSource,
    -- | A file with an OCSP response in DER, to be stapled. Its signature is checked with the issuer's certificate, which
    -- the chain must have.
    pairStaple :: !(Maybe FilePath)
  }
  deriving stock (Eq)

-- | A certificate's chain and key in two files.
pemFiles :: FilePath -> FilePath -> TlsPair
pemFiles chain key = TlsPair (PemFile chain) (PemFile key) Nothing

-- | Whether clients show certificates. The source has the certificates that theirs must lead to.
data ClientCertificates
  = -- | They are not asked.
    NoClientCertificates
  | -- | They are asked; one that is shown must be good.
    WantClientCertificates !PemSource
  | -- | A handshake without one fails.
    RequireClientCertificates !PemSource
  deriving stock (Eq)

-- | Where ticket keys come from.
data TlsTickets
  = -- | From a secret drawn at random: tickets are good for this listener.
    OwnTickets
  | -- | From a secret of at least 32 bytes: tickets are good for all listeners, on all machines, with the same secret and
    -- the same 'tlsTicketPeriod'.
    SharedTickets !ByteString
  | -- | The same with the bytes of a file, which is read with the certificates.
    TicketSecretFile !FilePath
  deriving stock (Eq)

-- | Settings in OpenSSL's syntax; empty for ours. Leave them empty unless a policy demands otherwise.
data TlsTuning = TlsTuning
  { -- | Cipher suites of TLS 1.2.
    tuningCiphers :: !String,
    -- | Cipher suites of TLS 1.3.
    tuningSuites :: !String,
    -- | Groups of the key exchange.
    tuningGroups :: !String
  }
  deriving stock (Eq, Show)

-- | ECDHE with AES-GCM or ChaCha20-Poly1305; X25519, P-256, P-384, and before them X25519MLKEM768 where libssl has it.
defaultTlsTuning :: TlsTuning
defaultTlsTuning = TlsTuning "" "" ""

-- | How a server treats its clients.
data TlsConfig = TlsConfig
  { -- | A client is given the certificate with the name that it asks for: the name itself, or @*@ in the place of its
    -- first label. The first certificate is for everybody else.
    tlsPairs :: ![TlsPair],
    -- | Refuse a client that asks for no name, or for one that no certificate has.
    tlsStrictNames :: !Bool,
    tlsLowest :: !TlsVersion,
    tlsHighest :: !TlsVersion,
    -- | Application protocols (ALPN), the preferred one first. A client that offers protocols, but none of these, is
    -- refused. Empty: the extension is ignored.
    tlsProtocols :: ![ByteString],
    tlsClients :: !ClientCertificates,
    tlsTickets :: !TlsTickets,
    -- | How long a key makes tickets; it accepts them for three such periods more. At least a second, and with
    -- a shared secret ten minutes.
    tlsTicketPeriod :: !Nanos,
    -- | How many handshakes of a capability may be unfinished, each with its 47 KB. When there is one more, the oldest is
    -- closed: choose more than a capability begins within a client's round trip. At least one.
    tlsUnfinished :: !Int,
    -- | When a session of TLS 1.3 sends a long file, let the kernel encrypt what follows, and send files with sendfile, if it
    -- has kTLS when the listener is made (Linux's module @tls@). Such a session ends if its client asks for new keys.
    tlsKernel :: !Bool,
    tlsTuning :: !TlsTuning
  }
  deriving stock (Eq)

-- | TLS 1.2 and 1.3, the given certificates, no application protocols, no client certificates, a new ticket key every six
-- hours, 2,048 unfinished handshakes: a capability computes as many in 0.4 s, longer than a round trip; kTLS.
defaultTlsConfig :: [TlsPair] -> TlsConfig
defaultTlsConfig pairs =
  TlsConfig
    { tlsPairs = pairs,
      tlsStrictNames = False,
      tlsLowest = Tls12,
      tlsHighest = Tls13,
      tlsProtocols = [],
      tlsClients = NoClientCertificates,
      tlsTickets = OwnTickets,
      tlsTicketPeriod = seconds (6 * 3600),
      tlsUnfinished = 2048,
      tlsKernel = True,
      tlsTuning = defaultTlsTuning
    }

-- | The files that a server's settings name.
tlsFiles :: TlsConfig -> [FilePath]
tlsFiles config =
  [path | pair <- tlsPairs config, PemFile path <- [pairChain pair, pairKey pair]]
    ++ mapMaybe pairStaple (tlsPairs config)
    ++ [path | WantClientCertificates (PemFile path) <- [tlsClients config]]
    ++ [path | RequireClientCertificates (PemFile path) <- [tlsClients config]]
    ++ [path | TicketSecretFile path <- [tlsTickets config]]

-- | Whom a client believes.
data Trust
  = -- | The system's authorities: the file named by @SSL_CERT_FILE@, or the distribution's.
    TrustSystem
  | -- | The certificates of this source, and no others.
    TrustOnly !PemSource
  | -- | Everybody. Anyone on the way can read and change everything.
    TrustEverybody
  deriving stock (Eq)

-- | How a client treats its servers.
data TlsClientConfig = TlsClientConfig
  { clientTrust :: !Trust,
    -- | Offered application protocols, the preferred one first.
    clientProtocols :: ![ByteString],
    -- | Shown to servers that ask for a certificate.
    clientPair :: !(Maybe TlsPair),
    clientLowest :: !TlsVersion,
    clientHighest :: !TlsVersion,
    clientTuning :: !TlsTuning
  }
  deriving stock (Eq)

-- | The system's authorities, TLS 1.2 and 1.3, no application protocols, no certificate.
defaultTlsClientConfig :: TlsClientConfig
defaultTlsClientConfig =
  TlsClientConfig
    { clientTrust = TrustSystem,
      clientProtocols = [],
      clientPair = Nothing,
      clientLowest = Tls12,
      clientHighest = Tls13,
      clientTuning = defaultTlsTuning
    }
