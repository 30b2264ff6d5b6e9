{-# LANGUAGE OverloadedStrings #-}

-- | Applications over TLS, with curl as the client.
module Secure
  ( tests,
    testCertificate,
  )
where

import Control.Concurrent.MVar (newEmptyMVar, putMVar, takeMVar)
import Control.Exception (bracket, try)
import Control.Monad (unless)
import Data.ByteString qualified as B
import Data.ByteString.Lazy.Char8 qualified as LC
import Data.List (isInfixOf)
import Heddle.Scope (withTask)
import Heddle.Tls (ClientCertificates (..), PemSource (..), TlsConfig (..), TlsVersion (..), selfSigned)
import Network.HTTP.Types (status200)
import Network.Socket (close)
import Network.Wai (Application, isSecure, responseLBS)
import Network.Wai.Handler.Heddle hiding (run)
import Network.Wai.Handler.HeddleTLS
import System.Directory (removePathForcibly)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Temp (mkdtemp)
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "over TLS"
    [ testCase "isSecure, and both versions" $
        serving id $ \port -> do
          curl ["-k", "--tlsv1.3", url port] >>= (@?= "secure, no certificate")
          curl ["-k", "--tls-max", "1.2", url port] >>= (@?= "secure, no certificate"),
      testCase "HTTP/2, unless it is disabled" $ do
        let version = ["-k", "-w", ", HTTP/%{http_version}"]
        serving id $ \port -> curl (version ++ [url port]) >>= (@?= "secure, no certificate, HTTP/2")
        servingWith (setHTTP2Disabled defaultSettings) id $ \port -> curl (version ++ [url port]) >>= (@?= "secure, no certificate, HTTP/1.1"),
      testCase "only the allowed versions" $
        serving (\tls -> tls {tlsAllowedVersions = [Tls13]}) $ \port -> do
          curl ["-k", url port] >>= (@?= "secure, no certificate")
          (code, _, _) <- run ["-k", "--tls-max", "1.2", url port]
          code @?= ExitFailure 35,
      testCase "a client's certificate" $
        withClientPair $ \cert key ->
          serving (\tls -> tls {tlsWantClientCert = True, tlsClientAuthorities = Just cert}) $ \port -> do
            curl ["-k", url port] >>= (@?= "secure, no certificate")
            curl ["-k", "--cert", cert, "--key", key, url port] >>= (@?= "secure, a certificate"),
      testCase "a client's certificate that is required" $
        withClientPair $ \cert key ->
          serving (\tls -> tls {tlsConfig = (tlsConfig tls) {tlsClients = RequireClientCertificates (PemFile cert)}}) $ \port -> do
            (code, _, _) <- run ["-k", url port]
            (code == ExitSuccess) @?= False
            curl ["-k", "--cert", cert, "--key", key, url port] >>= (@?= "secure, a certificate"),
      testCase "plain HTTP is refused in our words" $
        serving (\tls -> tls {onInsecure = DenyInsecure "Not without TLS."}) $ \port -> do
          text <- curl ["-i", insecure port]
          ("HTTP/1.1 426" `isInfixOf` text, "Not without TLS." `isInfixOf` text) @?= (True, True),
      testCase "plain HTTP is served, if that is wanted" $
        serving (\tls -> tls {onInsecure = AllowInsecure}) $ \port -> do
          curl [insecure port] >>= (@?= "insecure, no certificate")
          curl ["-k", url port] >>= (@?= "secure, no certificate"),
      testCase "a wish for certificates without authorities is refused" . withPair "localhost" $ \cert key -> do
        outcome <- tryProblems (runTLS (tlsSettings cert key) {tlsWantClientCert = True} (setBeforeMainLoop (fail "it serves") (setPort 0 defaultSettings)) application)
        outcome @?= "tlsWantClientCert: needs tlsClientAuthorities, which clients' certificates must lead to",
      testCase "files that are missing are named" $ do
        outcome <- tryProblems (runTLS (tlsSettings "/no/such/cert.pem" "/no/such/key.pem") (setPort 0 defaultSettings) application)
        isInfixOf "/no/such/cert.pem: cannot be read" outcome @?= True
    ]
  where
    url port = "https://localhost:" ++ show port ++ "/"
    insecure port = "http://localhost:" ++ show port ++ "/"
    tryProblems action = either (\e -> show (e :: TlsProblems)) (const "it served") <$> try action

application :: Application
application request respond =
  respond . responseLBS status200 [] . LC.pack $
    (if isSecure request then "secure, " else "insecure, ") ++ maybe "no certificate" (const "a certificate") (getClientCertificate request)

-- While the action runs, serve on a free port with a certificate for localhost.
serving :: (TLSSettings -> TLSSettings) -> (Port -> IO a) -> IO a
serving = servingWith defaultSettings

servingWith :: Settings -> (TLSSettings -> TLSSettings) -> (Port -> IO a) -> IO a
servingWith given change action = withPair "localhost" $ \cert key ->
  bracket openFreePort (close . snd) $ \(port, socket) -> do
    ready <- newEmptyMVar
    let settings = setBeforeMainLoop (putMVar ready ()) given
    withTask (runTLSSocket (change (tlsSettings cert key)) settings socket application) $ \_ -> takeMVar ready >> action port

-- A client's certificate, which may not be one for servers.
withClientPair :: (FilePath -> FilePath -> IO a) -> IO a
withClientPair action = withTemporaryDirectory $ \d -> do
  (code, _, said) <-
    readProcessWithExitCode
      "openssl"
      ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=client", "-keyout", d </> "key.pem", "-out", d </> "cert.pem"]
      ""
  unless (code == ExitSuccess) (assertFailure said)
  action (d </> "cert.pem") (d </> "key.pem")

-- | Settings with a certificate for localhost.
testCertificate :: (TLSSettings -> IO a) -> IO a
testCertificate action = withPair "localhost" (\cert key -> action (tlsSettings cert key))

withTemporaryDirectory :: (FilePath -> IO a) -> IO a
withTemporaryDirectory = bracket (mkdtemp "/tmp/heddle-wai-") removePathForcibly

withPair :: String -> (FilePath -> FilePath -> IO a) -> IO a
withPair name action = withTemporaryDirectory $ \d -> do
  (cert, key) <- selfSigned [name]
  B.writeFile (d </> "cert.pem") cert
  B.writeFile (d </> "key.pem") key
  action (d </> "cert.pem") (d </> "key.pem")

run :: [String] -> IO (ExitCode, String, String)
run arguments = readProcessWithExitCode "curl" (["-sS", "--max-time", "20"] ++ arguments) ""

curl :: [String] -> IO String
curl arguments =
  run arguments >>= \case
    (ExitSuccess, out, _) -> pure out
    other -> assertFailure ("curl " ++ unwords arguments ++ ": " ++ show other)
