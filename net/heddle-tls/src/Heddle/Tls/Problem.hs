-- |
-- Module      : Heddle.Tls.Problem
-- Description : What is wrong with certificates, keys and settings
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- Each problem names a file, or a setting, and a reason; 'displayException' adds what to do.
--
-- Cost: values.
-- Owner: values.
module Heddle.Tls.Problem
  ( TlsProblem (..),
    TlsReason (..),
  )
where

import Data.ByteString.Char8 qualified as C
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Prim.Clock (EpochSeconds)
import Heddle.Prim.Exception (Exception (..))

-- | A file or a setting, and what is wrong with it.
data TlsProblem = TlsProblem
  { problemPlace :: !FilePath,
    problemReason :: !TlsReason
  }
  deriving stock (Eq)

-- | Certificates are counted from 1, in the order of the file.
data TlsReason
  = -- | What the system said.
    Unreadable !String
  | NoCertificate
  | -- | The number of the certificate, and what libssl said.
    BadCertificate !Int !String
  | NoKey
  | BadKey !String
  | EncryptedKey
  | -- | The key does not belong to the first certificate of this file.
    KeyMismatch !FilePath
  | -- | Valid only from that moment on.
    NotYetValid !Int !EpochSeconds
  | -- | Valid until that moment.
    Expired !Int !EpochSeconds
  | -- | This certificate was not issued by the next one in the file.
    WrongOrder !Int
  | -- | libssl refuses it, and why.
    Refused !String
  | -- | The OCSP answer cannot be used, and why.
    BadStaple !String
  | -- | The certificate is not the first of the site and has no domain name.
    NoDomainName
  | -- | A setting makes no sense, and why.
    BadSetting !String
  deriving stock (Eq, Show)

instance Show TlsProblem where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception TlsProblem where
  displayException (TlsProblem place reason) = place ++ ": " ++ describe reason

describe :: TlsReason -> String
describe = \case
  Unreadable why -> "cannot be read: " ++ why
  NoCertificate -> "has no certificate.\n  A PEM file with lines BEGIN CERTIFICATE is expected."
  BadCertificate n why -> "certificate " ++ show n ++ " is damaged: " ++ why
  NoKey -> "has no private key.\n  A PEM file with a line BEGIN PRIVATE KEY is expected."
  BadKey why -> "the private key is damaged: " ++ why
  EncryptedKey -> "the private key is encrypted.\n  Decrypt it: openssl pkey -in FILE -out NEW, and let only the server read it."
  KeyMismatch chain -> "this key does not belong to the first certificate of " ++ chain
  NotYetValid n time -> "certificate " ++ show n ++ " is valid only from " ++ date time ++ ".\n  Is the clock of this machine right?"
  Expired n time -> "certificate " ++ show n ++ " expired on " ++ date time ++ ".\n  Renew it, or correct the clock of this machine."
  WrongOrder n ->
    "certificate " ++ show n ++ " was not issued by certificate " ++ show (n + 1)
      ++ ".\n  The server's own certificate comes first, then its issuer, then that one's."
  Refused why -> "is refused: " ++ why
  BadStaple why -> "cannot be stapled: " ++ why
  NoDomainName -> "certificate 1 has no domain name, so no client would be given it.\n  Put it first, as the default, or leave it out."
  BadSetting why -> why
  where
    date = C.unpack . formatHttpDate
