{-# LANGUAGE OverloadedStrings #-}

-- | Files that cannot be used, each with its message; certificates for development; reloading.
module SiteTest (tests) where

import Control.Concurrent (forkIO, killThread, yield)
import Control.Concurrent.MVar
import Control.Exception (bracket, try)
import Control.Monad (forM_, replicateM_, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.IORef
import Data.List (isInfixOf, isPrefixOf)
import Fixture
import Heddle.Prim.Clock (milliseconds, seconds)
import Heddle.Prim.Exception (displayException)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import System.Directory
import Test.Tasty
import Test.Tasty.HUnit

tests :: Folder -> TestTree
tests folder =
  testGroup
    "sites"
    [ testGroup "refused, with file and reason" (refusals folder),
      testGroup "settings" (settings folder),
      testGroup "clients" (clientSites folder),
      testCase "all problems are reported" $ do
        outcome <- loadSite (defaultTlsConfig [pair folder "expired", pair folder "good", pairWith folder "good.pem" "rsa.key"])
        either length (const 0) outcome @?= 2,
      testGroup "self-signed" selfs,
      testGroup "reloading" (reloads folder)
    ]

refusals :: Folder -> [TestTree]
refusals folder =
  [ testCase what $ do
      outcome <- loadSite (defaultTlsConfig (pairs folder))
      case outcome of
        Right _ -> assertFailure "it was taken"
        Left [problem] -> do
          let text = displayException problem
          assertBool text (((folder ++ "/" ++ file ++ ": ") `isPrefixOf` text) && (part `isInfixOf` text))
        Left problems -> assertFailure (show problems)
    | (what, pairs, file, part) <-
        [ ("missing certificate", one "absent.pem" "good.key", "absent.pem", "ENOENT"),
          ("missing key", one "good.pem" "absent.key", "absent.key", "ENOENT"),
          ("a folder", one "." "good.key", ".", "EISDIR"),
          ("no PEM", one "garbage.pem" "good.key", "garbage.pem", "has no certificate"),
          ("empty", one "empty.pem" "good.key", "empty.pem", "has no certificate"),
          ("a key for a certificate", one "good.key" "good.key", "good.key", "has no certificate"),
          ("garbled certificate", one "broken.pem" "good.key", "broken.pem", "certificate 1 is damaged"),
          ("no key", one "good.pem" "garbage.pem", "garbage.pem", "has no private key"),
          ("a certificate for a key", one "good.pem" "good.pem", "good.pem", "has no private key"),
          ("empty key", one "good.pem" "empty.pem", "empty.pem", "has no private key"),
          ("garbled key", one "good.pem" "broken.key", "broken.key", "the private key is damaged"),
          ("encrypted key", one "good.pem" "locked.key", "locked.key", "is encrypted"),
          ("another's key", one "good.pem" "a.key", "a.key", "does not belong to the first certificate of"),
          ("another kind of key", one "good.pem" "rsa.key", "rsa.key", "does not belong"),
          ("expired", one "expired.pem" "expired.key", "expired.pem", "certificate 1 expired on "),
          ("not yet valid", one "future.pem" "future.key", "future.pem", "certificate 1 is valid only from "),
          ("order", one "disordered.pem" "inter.key", "disordered.pem", "certificate 1 was not issued by certificate 2"),
          ("a gap", one "gap.pem" "deep.key", "gap.pem", "certificate 1 was not issued by certificate 2"),
          ("too weak", one "weak.pem" "weak.key", "weak.pem", "too small"),
          ("no domain name", \f -> [pair f "good", pair f "nameless"], "nameless.pem", "has no domain name"),
          ("a staple that is none", staple "good.pem" "good.ocsp", "good.ocsp", "issuer's certificate is not in the chain"),
          ("a garbled staple", staple "goodchain.pem" "garbage.pem", "garbage.pem", "no OCSP response"),
          ("a staple that another authority has signed", staple "goodchain.pem" "forged.ocsp", "forged.ocsp", "not signed"),
          ("a missing staple", staple "goodchain.pem" "absent.ocsp", "absent.ocsp", "ENOENT")
        ]
  ]
    ++ [ testCase "a staple for another certificate" $ do
           B.readFile (folder ++ "/a.pem") >>= \a -> B.readFile (folder ++ "/ca.pem") >>= \ca -> B.writeFile (folder ++ "/achain.pem") (a <> ca)
           outcome <- loadSite (defaultTlsConfig [(pairWith folder "achain.pem" "a.key") {pairStaple = Just (folder ++ "/good.ocsp")}])
           either (map displayException) (const []) outcome @?= [folder ++ "/good.ocsp: cannot be stapled: it is about another certificate"],
         testCase "a staple that the authority's responder has signed" $
           void (siteOf (defaultTlsConfig [(pairWith folder "goodchain.pem" "good.key") {pairStaple = Just (folder ++ "/delegated.ocsp")}])),
         testCase "the only certificate needs no domain name" $ void (site folder ["nameless"]),
         testCase "a good chain" $ void (siteOf (defaultTlsConfig [pairWith folder "ordered.pem" "deep.key"])),
         testCase "cut anywhere, the files are refused, or are whole enough" $ do
           bytes <- B.readFile (folder ++ "/ordered.pem")
           key <- B.readFile (folder ++ "/deep.key")
           taken <- newIORef (0 :: Int)
           forM_ [0, 37 .. B.length bytes] $ \n -> do
             outcome <- loadSite (defaultTlsConfig [TlsPair (PemBytes "cut" (B.take n bytes)) (PemBytes "key" key) Nothing])
             either (const (pure ())) (const (modifyIORef' taken (+ 1))) outcome
           forM_ [0, 7 .. B.length key - 30] $ \n -> do
             outcome <- loadSite (defaultTlsConfig [TlsPair (PemBytes "chain" bytes) (PemBytes "cut" (B.take n key)) Nothing])
             either (const (pure ())) (const (assertFailure ("a key of " ++ show n ++ " bytes was taken"))) outcome
           -- Cut between the certificates, or within the last line's end.
           readIORef taken >>= \n -> assertBool (show n) (n >= 1 && n < B.length bytes `quot` 37)
       ]
  where
    one chain key f = [pairWith f chain key]
    staple chain answer f = [(pairWith f chain "good.key") {pairStaple = Just (f ++ "/" ++ answer)}]

settings :: Folder -> [TestTree]
settings folder =
  [ testCase what $ do
      outcome <- loadSite (change (defaultTlsConfig [pair folder "good"]))
      case outcome of
        Left (problem : _) -> assertBool (show problem) (part `isInfixOf` displayException problem)
        _ -> assertFailure "it was taken"
    | (what, change, part) <-
        [ ("no certificate", \c -> c {tlsPairs = []}, "needs a certificate"),
          ("versions", \c -> c {tlsLowest = Tls13, tlsHighest = Tls12}, "above the highest"),
          ("an empty protocol", \c -> c {tlsProtocols = [""]}, "1 to 255 bytes"),
          ("a long protocol", \c -> c {tlsProtocols = [B.replicate 256 65]}, "1 to 255 bytes"),
          ("a short secret", \c -> c {tlsTickets = SharedTickets "short"}, "at least 32 bytes"),
          ("a short period of a shared secret", \c -> c {tlsTickets = SharedTickets (B.replicate 32 1), tlsTicketPeriod = seconds 599}, "at least ten minutes"),
          ("a period", \c -> c {tlsTicketPeriod = milliseconds 10}, "at least a second"),
          ("ciphers", \c -> c {tlsTuning = defaultTlsTuning {tuningCiphers = "NONSENSE"}}, "no cipher match"),
          ("groups", \c -> c {tlsTuning = defaultTlsTuning {tuningGroups = "nonsense"}}, "refused"),
          ("authorities", \c -> c {tlsClients = RequireClientCertificates (PemFile (folder ++ "/garbage.pem"))}, "has no certificate")
        ]
  ]

clientSites :: Folder -> [TestTree]
clientSites folder =
  [ testCase what $ do
      outcome <- newTlsClient config
      case outcome of
        Left (problem : _) -> assertBool (show problem) (part `isInfixOf` displayException problem)
        _ -> assertFailure "it was taken"
    | (what, config, part) <-
        [ ("authorities that are missing", defaultTlsClientConfig {clientTrust = TrustOnly (PemFile "/absent.pem")}, "ENOENT"),
          ("a pair that does not fit", (trusting folder) {clientPair = Just (pairWith folder "good.pem" "a.key")}, "does not belong"),
          ("versions", (trusting folder) {clientLowest = Tls13, clientHighest = Tls12}, "above the highest")
        ]
  ]

selfs :: [TestTree]
selfs =
  [ testCase (show names') $ do
      outcome <- try (selfSigned names')
      case outcome of
        Left (e :: TlsProblem) -> assertBool (show e) (not fine)
        Right _ -> assertBool "it was made" fine
    | (names', fine) <-
        [ (["localhost"], True),
          (["127.0.0.1", "::1", "a.example"], True),
          ([], False),
          ([""], False),
          (["a,DNS:b"], False),
          (["a b"], False),
          (["\228.example"], False),
          (["1.2.3"], False),
          ([replicate 254 'a'], False)
        ]
  ]

reloads :: Folder -> [TestTree]
reloads folder =
  [ testCase "changed files are loaded, bad ones are not; links are followed" . nothingIsLeft $ do
      -- As an ACME client keeps them: live/ has links into archive/.
      let live = folder ++ "/live"
          link name target = do
            createFileLink (folder ++ "/" ++ target) (live ++ "/new")
            renameFile (live ++ "/new") (live ++ "/" ++ name)
      createDirectory live
      link "chain" "good.pem"
      link "key" "good.key"
      loaded <- siteOf (defaultTlsConfig [pemFiles (live ++ "/chain") (live ++ "/key")])
      withEcho loaded $ \echo -> do
        let look = reloadWhenChanged (echoListener echo)
            given = siteNames <$> listenerSite (echoListener echo)
        look >>= isUnchanged
        link "chain" "a.pem"
        look >>= \case
          KeptOld [problem] -> assertBool (show problem) ("does not belong" `isInfixOf` displayException problem)
          _ -> assertFailure "a half-written pair was not refused"
        -- It was reported; it is not reported again.
        look >>= isUnchanged
        given >>= (@?= [["localhost"]])
        link "key" "a.key"
        look >>= \case
          Reloaded _ -> pure ()
          _ -> assertFailure "the new pair was not loaded"
        given >>= (@?= [["a.example", "www.a.example"]])
        tls <- client (trusting folder)
        connecting echo tls "a.example" (\t _ -> ask t "x")
        removeFile (live ++ "/key")
        look >>= \case
          KeptOld [problem] -> assertBool (show problem) ("ENOENT" `isInfixOf` displayException problem)
          _ -> assertFailure "a missing key was not refused"
        connecting echo tls "a.example" (\t _ -> ask t "x")
        link "key" "good.key"
        link "chain" "good.pem"
        look >>= \case
          Reloaded _ -> pure ()
          _ -> assertFailure "the old pair was not loaded"
      removeDirectoryRecursive live,
    testCase "reloadEvery reports" . nothingIsLeft $ do
      copyFile (folder ++ "/good.pem") (folder ++ "/moving.pem")
      loaded <- siteOf (defaultTlsConfig [pairWith folder "moving.pem" "good.key"])
      withEcho loaded $ \echo -> do
        told <- newEmptyMVar
        bracket (forkIO (reloadEvery (echoListener echo) (milliseconds 5) (putMVar told))) killThread $ \_ -> do
          copyFile (folder ++ "/a.pem") (folder ++ "/moving.pem")
          patiently "a report" (takeMVar told) >>= \case
            KeptOld (_ : _) -> pure ()
            _ -> assertFailure "not kept",
    testCase "while connections come and go" . nothingIsLeft $ do
      sites <- mapM (\name -> siteOf (defaultTlsConfig [pair folder name, pair folder "wild"])) ["good", "a", "rsa"]
      tls <- client (trusting folder)
      withEcho (head sites) $ \echo -> connecting echo tls "x.wild.example" $ \old _ -> do
        stop <- newIORef False
        stopped <- newEmptyMVar
        _ <- forkIO $ do
          let swapping = do
                -- A loop that allocates nothing would never let the collector begin.
                for_ sites (\s -> swapSite (echoListener echo) s >> yield)
                done <- readIORef stop
                unless done swapping
          swapping
          putMVar stopped ()
        replicateM_ 100 $ do
          connecting echo tls "x.wild.example" (\t _ -> ask t (C.replicate 3000 'x'))
          ask old "still here"
        writeIORef stop True
        patiently "the swapping to end" (takeMVar stopped)
        counts <- tlsCounts (echoListener echo)
        -- Tickets outlive a reload; the open connection and the first after it had none.
        counts @?= TlsCounts 2 99 0 0 0
  ]
  where
    isUnchanged = \case
      Unchanged -> pure ()
      Reloaded _ -> assertFailure "reloaded"
      KeptOld problems -> assertFailure (show problems)
