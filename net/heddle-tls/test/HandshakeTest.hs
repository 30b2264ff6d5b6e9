{-# LANGUAGE OverloadedStrings #-}

-- | Versions, names, protocols, client certificates, tickets: between our client, our server and openssl's.
module HandshakeTest (tests) where

import Control.Exception (bracket)
import Control.Monad (forM_, replicateM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Fixture
import Heddle.IO.Transport
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import System.Exit (ExitCode (..))
import System.IO (IOMode (ReadWriteMode), hClose, openFile)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit

tests :: Folder -> TestTree
tests folder =
  testGroup
    "handshakes"
    [ testGroup "versions" (versions folder),
      testGroup "names" (names folder),
      testGroup "application protocols" (protocols folder),
      testGroup "client certificates" (clients folder),
      testGroup "trust" (trust folder),
      testGroup "tickets" (tickets folder),
      testGroup "keys" (keys folder),
      testGroup "openssl" (withOpenssl folder)
    ]

has :: ByteString -> ByteString -> Assertion
has text part = assertBool (C.unpack part ++ " in:\n" ++ C.unpack text) (part `B.isInfixOf` text)

-- The only report of a server.
failedWith :: Echo -> String -> Assertion
failedWith echo part = do
  seen <- eventually "an opening that fails" (reports echo) (not . null)
  case last seen of
    Left why -> C.pack why `has` C.pack part
    Right facts -> assertFailure ("opened: " ++ show facts)

versions :: Folder -> [TestTree]
versions folder =
  [ testCase (show v) . nothingIsLeft $ do
      loaded <- site folder ["good"]
      tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
      withEcho loaded $ \echo -> do
        connecting echo tls "localhost" $ \transport facts -> do
          factVersion facts @?= text
          factCipher facts @?= cipher
          factProtocol facts @?= ""
          ask transport "hello"
          ask transport (B.replicate 100000 7)
        seen <- reports echo
        [(factVersion f, factCipher f, factServerName f, factPeerCertificate f) | Right f <- seen] @?= [(text, cipher, "localhost", Nothing)]
    | (v, text, cipher) <- [(Tls12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), (Tls13, "TLSv1.3", "TLS_AES_128_GCM_SHA256")]
  ]
    ++ [ testCase "no version in common" . nothingIsLeft $ do
           loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsLowest = Tls13}
           tls <- client (trusting folder) {clientHighest = Tls12}
           withEcho loaded $ \echo -> do
             connectingWith echo tls "localhost" $ either (\why -> C.pack why `has` "protocol version") (const (assertFailure "opened"))
             echo `failedWith` "protocol",
         testCase "TLS 1.1 is refused" . nothingIsLeft $ do
           loaded <- site folder ["good"]
           withEcho loaded $ \echo -> do
             _ <- sClient echo ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"] "quit\n"
             echo `failedWith` "protocol"
       ]

-- The certificate that a client is given for a name.
givenFor :: Echo -> String -> IO ByteString
givenFor echo name = do
  (_, out) <- sClient echo (if null name then ["-noservername"] else ["-servername", name]) "quit\n"
  -- OpenSSL 3.5 writes no spaces.
  pure (C.unwords [C.filter (/= ' ') line | line <- C.lines out, "subject=" `B.isPrefixOf` line])

names :: Folder -> [TestTree]
names folder =
  [ testCase "exact, wildcard, unknown, none" . nothingIsLeft $ do
      loaded <- site folder ["good", "a", "wild"]
      siteNames loaded @?= [["localhost"], ["a.example", "www.a.example"], ["*.wild.example"]]
      withEcho loaded $ \echo ->
        forM_ expected $ \(name, owner) -> givenFor echo name >>= \given -> (name, given) @?= (name, "subject=CN=" <> owner),
    testCase "strict" . nothingIsLeft $ do
      loaded <- siteOf (defaultTlsConfig (map (pair folder) ["good", "a"])) {tlsStrictNames = True}
      withEcho loaded $ \echo -> do
        given <- givenFor echo "a.example"
        given @?= "subject=CN=a"
        forM_ ["unknown.example", ""] $ \name -> do
          (_, out) <- sClient echo (if null name then ["-noservername"] else ["-servername", name]) ""
          out `has` "unrecognized name"
        echo `failedWith` "asks for no name"
  ]
  where
    expected =
      [ ("a.example", "a"),
        ("WWW.a.Example", "a"),
        ("x.wild.example", "wild"),
        ("x.y.wild.example", "good"),
        ("wild.example", "good"),
        ("localhost", "good"),
        ("nobody.example", "good"),
        ("", "good")
      ]

protocols :: Folder -> [TestTree]
protocols folder =
  [ testCase name . nothingIsLeft $ do
      loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsProtocols = ours}
      tls <- client (trusting folder) {clientProtocols = theirs, clientHighest = v}
      withEcho loaded $ \echo ->
        connectingWith echo tls "localhost" $ \r -> case (r, chosen) of
          (Right (transport, facts), Just p) -> do
            factProtocol facts @?= p
            ask transport "x"
            seen <- reports echo
            [factProtocol f | Right f <- seen] @?= [p]
          (Left why, Nothing) -> C.pack why `has` "no application protocol"
          (Left why, Just _) -> assertFailure why
          (Right (_, facts), Nothing) -> assertFailure (show facts)
    | v <- [Tls12, Tls13],
      (what, ours, theirs, chosen) <-
        [ ("the server's order decides", ["h2", "http/1.1"], ["http/1.1", "h2"], Just "h2"),
          ("the only one in common", ["h2", "http/1.1"], ["spdy/1", "http/1.1"], Just "http/1.1"),
          ("none in common is refused", ["h2"], ["http/1.1"], Nothing),
          ("the client offers none", ["h2"], [], Just ""),
          ("the server knows none", [], ["h2"], Just "")
        ],
      let name = show v ++ ": " ++ what
  ]

clients :: Folder -> [TestTree]
clients folder =
  [ testCase (show v ++ ", " ++ what) . nothingIsLeft $ do
      loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsClients = mode (PemFile (folder ++ "/ca.pem"))}
      tls <- client (trusting folder) {clientPair = pair folder <$> shown, clientLowest = v, clientHighest = v}
      withEcho loaded $ \echo ->
        connectingWith echo tls "localhost" $ \r -> case refused of
          Nothing -> case r of
            Left why -> assertFailure why
            Right (transport, _) -> do
              ask transport "x"
              seen <- reports echo
              [factPeerCertificate f /= Nothing | Right f <- seen] @?= [shown /= Nothing]
          Just part -> do
            -- With TLS 1.3 the client learns of it only when it reads.
            case r of
              Left _ -> pure ()
              Right (transport, _) -> readSome transport 10 >>= \got -> assertBool (show got) (either (< 0) B.null got)
            echo `failedWith` part
    | v <- [Tls12, Tls13],
      (what, mode, shown, refused) <-
        [ ("required, shown", RequireClientCertificates, Just "client", Nothing),
          ("required, missing", RequireClientCertificates, Nothing, Just "peer did not return a certificate"),
          ("required, of another authority", RequireClientCertificates, Just "stranger", Just "certificate"),
          ("wanted, shown", WantClientCertificates, Just "client", Nothing),
          ("wanted, missing", WantClientCertificates, Nothing, Nothing),
          ("wanted, of another authority", WantClientCertificates, Just "stranger", Just "certificate")
        ]
  ]

trust :: Folder -> [TestTree]
trust folder =
  [ testCase what . nothingIsLeft $ do
      loaded <- site folder ["good"]
      tls <- client config
      withEcho loaded $ \echo ->
        connectingWith echo tls host $ \r -> case (r, refused) of
          (Right (transport, _), Nothing) -> ask transport "x"
          (Left why, Just part) -> C.pack why `has` part
          (Left why, Nothing) -> assertFailure why
          (Right _, Just part) -> assertFailure ("opened in spite of: " ++ C.unpack part)
    | (what, config, host, refused) <-
        [ ("the right name", trusting folder, "localhost", Nothing),
          ("the right address", trusting folder, "127.0.0.1", Nothing),
          ("another name", trusting folder, "other.example", Just "hostname mismatch"),
          ("another address", trusting folder, "127.0.0.2", Just "IP address mismatch"),
          ("the server's certificate itself", defaultTlsClientConfig {clientTrust = TrustOnly (PemFile (folder ++ "/good.pem"))}, "localhost", Nothing),
          ("another authority", defaultTlsClientConfig {clientTrust = TrustOnly (PemFile (folder ++ "/other.pem"))}, "localhost", Just "unable to get local issuer"),
          ("the system's authorities", defaultTlsClientConfig, "localhost", Just "unable to get local issuer"),
          ("everybody", defaultTlsClientConfig {clientTrust = TrustEverybody}, "other.example", Nothing),
          ("an empty name", trusting folder, "", Just "name"),
          ("a name with a zero byte", trusting folder, "localhost\0.example", Just "name")
        ]
  ]
    ++ [ testCase "our own certificate for development" . nothingIsLeft $ do
           (certificate, key) <- selfSigned ["localhost", "127.0.0.1", "::1", "*.dev.example"]
           loaded <- siteOf (defaultTlsConfig [TlsPair (PemBytes "c" certificate) (PemBytes "k" key) Nothing])
           siteNames loaded @?= [["localhost", "*.dev.example"]]
           tls <- client defaultTlsClientConfig {clientTrust = TrustOnly (PemBytes "c" certificate)}
           withEcho loaded $ \echo -> do
             forM_ ["localhost", "127.0.0.1", "a.dev.example"] $ \host -> connecting echo tls host (\t _ -> ask t "x")
             B.writeFile (folder ++ "/self.pem") certificate
             (_, out) <- sClient echo ["-CAfile", folder ++ "/self.pem", "-verify_return_error", "-verify_hostname", "localhost"] "quit\n"
             out `has` "Verify return code: 0 (ok)"
       ]

tickets :: Folder -> [TestTree]
tickets folder =
  [ testGroup
      (show v)
      [ testCase "resumed, also after keys have changed, and not for ever" . nothingIsLeft $ do
          loaded <- site folder ["good"]
          tls <- versioned
          withEcho loaded $ \echo -> do
            let visit = connecting echo tls "localhost" (\t _ -> ask t "x")
                counts full resumed = tlsCounts (echoListener echo) >>= (@?= TlsCounts full resumed 0 0 0)
            visit
            counts 1 0
            visit
            counts 1 1
            -- A ticket that was got by a ticket.
            visit
            counts 1 2
            replicateM_ 3 (rotateTicketKeys (echoListener echo))
            visit
            counts 1 3
            -- The ticket was renewed with the present key.
            replicateM_ 3 (rotateTicketKeys (echoListener echo))
            visit
            counts 1 4
            replicateM_ 4 (rotateTicketKeys (echoListener echo))
            visit
            counts 2 4
            visit
            counts 2 5,
        testCase "two listeners with one secret" . nothingIsLeft $ do
          loaded <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsTickets = SharedTickets (B.replicate 32 1)}
          tls <- versioned
          withEcho loaded $ \one -> withEcho loaded $ \two -> do
            connecting one tls "localhost" (\t _ -> ask t "x")
            -- The other one may be a period behind.
            rotateTicketKeys (echoListener one)
            connecting two tls "localhost" (\t _ -> ask t "x")
            tlsCounts (echoListener two) >>= (@?= TlsCounts 0 1 0 0 0)
            connecting one tls "localhost" (\t _ -> ask t "x")
            tlsCounts (echoListener one) >>= (@?= TlsCounts 1 1 0 0 0),
        testCase "two listeners with secrets of their own" . nothingIsLeft $ do
          loaded <- site folder ["good"]
          tls <- versioned
          withEcho loaded $ \one -> withEcho loaded $ \two -> do
            connecting one tls "localhost" (\t _ -> ask t "x")
            connecting two tls "localhost" (\t _ -> ask t "x")
            tlsCounts (echoListener two) >>= (@?= TlsCounts 1 0 0 0 0),
        testCase "not past a demand for certificates" . nothingIsLeft $ do
          let authority = PemFile (folder ++ "/ca.pem")
              secret = SharedTickets (B.replicate 40 2)
          wanting <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsTickets = secret, tlsClients = WantClientCertificates authority}
          requiring <- siteOf (defaultTlsConfig [pair folder "good"]) {tlsTickets = secret, tlsClients = RequireClientCertificates authority}
          tls <- versioned
          withEcho wanting $ \one -> withEcho requiring $ \two -> do
            connecting one tls "localhost" (\t _ -> ask t "x")
            connectingWith two tls "localhost" $ either (const (pure ())) (\(t, _) -> void (readSome t 1))
            _ <- eventually "a failure" (tlsCounts (echoListener two)) ((== 1) . countFailed)
            tlsCounts (echoListener two) >>= (@?= TlsCounts 0 0 1 0 0),
        testCase "openssl's client, twice" . nothingIsLeft $ do
          loaded <- site folder ["good"]
          withEcho loaded $ \echo -> do
            let file = folder ++ "/" ++ show v ++ ".session"
                flag = if v == Tls12 then "-tls1_2" else "-tls1_3"
            (_, first) <- sClient echo [flag, "-sess_out", file] "hello\nquit\n"
            first `has` "New, TLSv1"
            (_, second) <- sClient echo [flag, "-sess_in", file] "hello\nquit\n"
            second `has` "Reused, TLSv1"
            tlsCounts (echoListener echo) >>= (@?= TlsCounts 1 1 0 0 0)
      ]
    | v <- [Tls12, Tls13],
      let versioned = client (trusting folder) {clientLowest = v, clientHighest = v}
  ]

keys :: Folder -> [TestTree]
keys folder =
  [ testCase name . nothingIsLeft $ do
      loaded <- site folder [name]
      forM_ [Tls12, Tls13] $ \v -> do
        tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
        withEcho loaded $ \echo -> replicateM_ 3 (connecting echo tls (C.pack name <> ".example") (\t _ -> ask t "hello"))
    | name <- ["rsa", "ed"]
  ]
    ++ [ testCase "a group that must be asked for again (HelloRetryRequest)" . nothingIsLeft $ do
           loaded <- siteOf (defaultTlsConfig [pair folder "rsa"]) {tlsTuning = defaultTlsTuning {tuningGroups = "P-384"}}
           withEcho loaded $ \echo -> do
             (_, out) <- sClient echo ["-groups", "X25519:P-384", "-tls1_3", "-CAfile", folder ++ "/ca.pem"] "hello\nquit\n"
             out `has` "Verify return code: 0 (ok)"
             out `has` "hello",
         testCase "an OCSP answer is stapled" . nothingIsLeft $ do
           let stapled = (pairWith folder "goodchain.pem" "good.key") {pairStaple = Just (folder ++ "/good.ocsp")}
           loaded <- siteOf (defaultTlsConfig [stapled])
           withEcho loaded $ \echo -> do
             (_, out) <- sClient echo ["-status", "-CAfile", folder ++ "/ca.pem"] "quit\n"
             out `has` "OCSP Response Status: successful"
       ]

withOpenssl :: Folder -> [TestTree]
withOpenssl folder =
  [ testCase "s_client verifies and talks" . nothingIsLeft $ do
      loaded <- siteOf (defaultTlsConfig [pairWith folder "ordered.pem" "deep.key"])
      withEcho loaded $ \echo -> do
        (code, out) <- sClient echo ["-CAfile", folder ++ "/ca.pem", "-verify_return_error", "-servername", "deep.example"] "good day\nquit\n"
        code @?= ExitSuccess
        out `has` "good day"
        out `has` "Verify return code: 0 (ok)",
    testCase "renegotiation is refused" . nothingIsLeft $ do
      loaded <- site folder ["good"]
      withEcho loaded $ \echo -> do
        (_, out, err) <-
          runTool "openssl" ["s_client", "-connect", "127.0.0.1:" ++ show (echoPort echo), "-tls1_2"] Nothing "R\n"
        (out <> err) `has` "no renegotiation",
    testCase "plain HTTP on the port" . nothingIsLeft $ do
      loaded <- site folder ["good"]
      withEcho loaded $ \echo -> rawSocket echo $ \s -> do
        NB.sendAll s "GET / HTTP/1.1\r\n\r\n"
        end <- NB.recv s 100
        end @?= ""
        plain <- readIORef (echoPlain echo)
        plain @?= ["GET / HTTP/1.1\r\n\r\n"]
        reports echo >>= (@?= 0) . length,
    testCase "our client and s_server" . nothingIsLeft $ do
      loaded <- site folder ["good"]
      -- The echo server is only here for its runtime.
      withEcho loaded $ \echo -> forM_ [Tls12, Tls13] $ \v ->
        withServer folder ["-rev"] $ \port -> do
          tls <- client (trusting folder) {clientLowest = v, clientHighest = v}
          connecting echo {echoAddress = N.SockAddrInet (fromIntegral port) (N.tupleToHostAddress (127, 0, 0, 1))} tls "localhost" $ \t _ -> do
            writeAll t "olleh\n"
            readAll t 6 >>= (@?= "hello\n")
  ]

-- openssl s_server on a free port.
withServer :: Folder -> [String] -> (Int -> IO a) -> IO a
withServer folder options body = do
  port <- bracket (N.socket N.AF_INET N.Stream N.defaultProtocol) N.close $ \s -> do
    N.bind s (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))
    fromIntegral <$> N.socketPort s
  let arguments = ["s_server", "-accept", "127.0.0.1:" ++ show port, "-cert", folder ++ "/good.pem", "-key", folder ++ "/good.key", "-quiet"] ++ options
  bracket
    -- Not NoStream: the next descriptor, a connection's, would be its standard output.
    (openFile "/dev/null" ReadWriteMode >>= \null' -> createProcess (proc "openssl" arguments) {std_in = CreatePipe, std_out = UseHandle null', std_err = UseHandle null'})
    (\(input, _, _, h) -> terminateProcess h >> waitForProcess h >> mapM_ hClose input)
    $ \_ -> do
      _ <- eventually "s_server to listen" (listens port) id
      body port
  where
    listens :: Int -> IO Bool
    listens port = do
      table <- C.readFile "/proc/net/tcp"
      pure (any (\line -> case C.words line of (_ : local : _ : "0A" : _) -> C.drop 9 local == hex port; _ -> False) (C.lines table))
    hex n = C.pack (let digits = showHex' n in replicate (4 - length digits) '0' ++ digits)
    showHex' n = if n < 16 then [digit n] else showHex' (n `quot` 16) ++ [digit (n `rem` 16)]
    digit n = "0123456789ABCDEF" !! n
