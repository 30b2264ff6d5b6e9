-- |
-- Module      : Heddle.Serve.Certificates
-- Description : What the addresses after https:// are served with
-- Stability   : internal, exempt from the version policy
--
-- Loads the site's certificates before serving begins, and again when their files have changed: once
-- a minute, and at the signals that reopen the log. ACME clients that renew them need no hook.
--
-- Cost: a stat of each file a minute.
-- Owner: 'withCertificates'.
module Heddle.Serve.Certificates
  ( ServeTls (..),
    Certificates,
    withCertificates,
    openingOf,
    expiriesOf,
    handshakesOf,
    reload,
    describeReload,
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
  | -- | Made at start, for development: clients must be told to trust it.
    TlsSelfSigned

-- | The certificates in use.
newtype Certificates = Certificates TlsListener

-- | Load the certificates, and keep them current while the body runs; the action is told of
-- each change, with 'Left' if the new files cannot be used.
--
-- [Blocks]: as the body does.
withCertificates :: Runtime -> ServeTls -> [ListenSpec] -> (Either String String -> IO ()) -> (Either [TlsProblem] (Maybe Certificates) -> IO a) -> IO a
withCertificates runtime source places tell body = case source of
  NoTls -> body (Right Nothing)
  TlsOf config -> using config
  TlsSelfSigned -> do
    pair <- selfSignedPair names
    using (defaultTlsConfig [pair])
  where
    using config =
      loadSite config {tlsProtocols = protocols} >>= \case
        Left problems -> body (Left problems)
        Right site -> do
          listener <- newTlsListener site
          withTask (labelMe "serve/certificates" >> eachMinute (reload (Certificates listener) tell)) $ \_ ->
            body (Right (Just (Certificates listener)))
    eachMinute act = withParker runtime $ \parker -> forever $ do
      deadline <- deadlineIn (seconds 60)
      _ <- awaitUntil parker deadline (pure (Nothing :: Maybe ()))
      act
    protocols = [C.pack "h2", C.pack "http/1.1"]
    -- What a browser on this machine may call it.
    names = nub ([host | ListenSpec Https (ListenHost host _) <- places, host `notElem` ["", "0.0.0.0", "::"]] ++ ["localhost", "127.0.0.1", "::1"])

-- | How connections of an address begin.
openingOf :: Certificates -> Scheme
openingOf (Certificates listener) = Encrypted (tlsOpening listener)

-- | The names of each certificate in use, and when it expires.
expiriesOf :: Certificates -> IO [([ByteString], EpochSeconds)]
expiriesOf (Certificates listener) = (\site -> zip (siteNames site) (siteExpiries site)) <$> listenerSite listener

-- | How many handshakes there were.
handshakesOf :: Certificates -> IO TlsCounts
handshakesOf (Certificates listener) = tlsCounts listener

-- | Load the files again if they have changed.
--
-- [Blocks]: holds an OS thread while it reads.
reload :: Certificates -> (Either String String -> IO ()) -> IO ()
reload (Certificates listener) tell = reloadWhenChanged listener >>= tellReload tell

tellReload :: (Either String String -> IO ()) -> Reload -> IO ()
tellReload tell outcome = for_ (describeReload outcome) tell

-- | A line for the operator, if there is something to say.
describeReload :: Reload -> Maybe (Either String String)
describeReload = \case
  Unchanged -> Nothing
  Reloaded site -> Just (Right ("new certificates are in use; the first expires on " ++ C.unpack (formatHttpDate (siteExpires site))))
  KeptOld problems -> Just (Left ("the new certificates cannot be used, and the old ones stay: " ++ intercalate "; " (map displayException problems)))
