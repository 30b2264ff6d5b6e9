-- | @heddle serve@ over TLS: certificates, renewals, redirections, and what curl and OpenSSL think of it.
module TlsTest (tests) where

import Control.Exception (finally)
import Control.Monad (forM_, replicateM, replicateM_, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isPrefixOf, tails)
import Heddle.Testkit.Watchdog (eventually, unexpected)
import Program
import System.Directory (createDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink, setFileMode)
import System.Posix.Signals (sigHUP, sigTERM, sigUSR2, signalProcess)
import System.Posix.User (getEffectiveUserID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testGroup "heddle serve over TLS" (serving ++ http2 ++ names ++ renewing ++ redirecting ++ policy ++ refusing)

-- A site with a large file.
withSite :: (FilePath -> IO a) -> IO a
withSite act = withDirectory $ \d -> do
  B.writeFile (d </> "index.html") (C.pack "<!doctype html><title>secure</title>")
  B.writeFile (d </> "big.bin") large
  act d

large :: B.ByteString
large = B.concat (replicate 40000 (C.pack "0123456789 a line of a file that goes through a layer\r\n"))

curl :: [String] -> IO Ended
curl arguments = runTool "curl" (["-sS", "--max-time", "20"] ++ arguments)

-- What curl printed; it must have succeeded.
fetched :: [String] -> IO String
fetched arguments = do
  ended <- curl arguments
  if endedCode ended == ExitSuccess then pure (C.unpack (endedOut ended)) else unexpected ("curl " ++ unwords arguments ++ " to succeed") (show ended)

openssl :: [String] -> IO String
openssl arguments = do
  ended <- runTool "openssl" arguments
  if endedCode ended == ExitSuccess then pure (C.unpack (endedOut ended)) else unexpected ("openssl " ++ unwords arguments ++ " to succeed") (show ended)

urlOf :: Program -> String -> IO String
urlOf program scheme = case filter (scheme `isPrefixOf`) (programUrls program) of
  u : _ -> pure u
  [] -> unexpected ("a URL that begins with " ++ scheme) (show (programUrls program))

portOf :: String -> String
portOf = reverse . takeWhile (/= ':') . reverse

-- How often a text has a part.
occurrences :: String -> String -> Int
occurrences part text = length (filter (part `isPrefixOf`) (tails text))

secure :: [String]
secure = ["--listen", "https://localhost:0", "--tls-self-signed"]

-- A certificate for a name, and its key, in these files.
makePair :: FilePath -> FilePath -> String -> IO ()
makePair cert key name =
  void $ openssl ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=" ++ name, "-addext", "subjectAltName=DNS:" ++ name, "-keyout", key, "-out", cert]

serving :: [TestTree]
serving =
  [ testCase "a self-signed certificate: pages, parts, a large file, both versions" $
      withSite $ \d -> withProgram (["serve", d] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        forM_ [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]] $ \version -> do
          fetched (["-k", u ++ "/"] ++ version) >>= contains "<title>secure</title>"
          fetched (["-k", "-r", "0-9", u ++ "/big.bin"] ++ version) >>= (@?= "0123456789")
          ended <- curl (["-k", u ++ "/big.bin"] ++ version)
          (endedCode ended, endedOut ended == large) @?= (ExitSuccess, True),
    testCase "long files and a page on one connection; the kernel encrypts, where it can and may" $
      forM_ [(["--tls-no-kernel"], False), ([], True)] $ \(more, may) ->
        withSite $ \d -> withProgram (["serve", d, "--status", "/status"] ++ more ++ secure) $ \program -> do
          u <- urlOf program "https://"
          -- Where it may, the server has asked for the module.
          has <- elem (C.pack "tls") . C.words <$> B.readFile "/proc/sys/net/ipv4/tcp_available_ulp"
          ended <- curl ["-k", "--http1.1", u ++ "/big.bin", u ++ "/", u ++ "/big.bin"]
          page <- B.readFile (d </> "index.html")
          (endedCode ended, endedOut ended == large <> page <> large) @?= (ExitSuccess, True)
          fetched ["-k", u ++ "/status/metrics"] >>= contains ("heddle_tls_kernel_sessions_total " ++ (if may && has then "1" else "0") ++ "\n"),
    testCase "a client that was not told to trust it refuses" $
      withSite $ \d -> withProgram (["serve", d] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        ended <- curl [u ++ "/"]
        endedCode ended @?= ExitFailure 60,
    testCase "the access log is as without TLS" $
      withSite $ \d -> do
        withProgram (["serve", d, "--access-log", d </> "log"] ++ secure) $ \program -> do
          u <- urlOf program "https://"
          _ <- fetched ["-k", "--http1.1", "-A", "me", u ++ "/?q"]
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        readFile (d </> "log") >>= contains "\"GET /?q HTTP/1.1\" 200 36 \"-\" \"me\"",
    testCase "a client that speaks plain HTTP is told so" $
      withSite $ \d -> withProgram (["serve", d] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        text <- fetched ["-i", "http://localhost:" ++ portOf u ++ "/"]
        contains "HTTP/1.1 400" text
        contains "This port speaks HTTPS" text
  ]

http2 :: [TestTree]
http2 =
  [ testCase "HTTP/2: from the disk, from the cache, conditions, ranges, a large file, the log" $
      withSite $ \d -> do
        withProgram (["serve", d, "--access-log", d </> "log"] ++ secure) $ \program -> do
          u <- urlOf program "https://"
          -- The second time the file is in the cache of the core that this connection is on.
          first <- fetched ["-k", "-i", "--http2", u ++ "/", u ++ "/"]
          occurrences "HTTP/2 200" first @?= 2
          contains "<title>secure</title>" first
          let tag = takeWhile (/= '\r') (drop 6 (head (filter (isPrefixOf "etag: ") (lines first))))
          again <- fetched ["-k", "-i", "--http2", u ++ "/", u ++ "/", "-H", "If-None-Match: " ++ tag]
          occurrences "HTTP/2 304" again @?= 2
          fetched ["-k", "--http2", "-r", "10-19", u ++ "/index.html", u ++ "/index.html"] >>= (@?= "html><titlhtml><titl")
          ended <- curl ["-k", "--http2", u ++ "/big.bin"]
          (endedCode ended, endedOut ended == large) @?= (ExitSuccess, True)
          headOnly <- fetched ["-k", "-I", "--http2", u ++ "/", u ++ "/"]
          occurrences "content-length: 36" headOnly @?= 2
          fetched ["-k", "-i", "--http2", u ++ "/missing"] >>= contains "HTTP/2 404"
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        logged <- readFile (d </> "log")
        occurrences "\"GET / HTTP/2.0\" 200 36" logged @?= 2
        contains "\"HEAD / HTTP/2.0\" 200 -" logged,
    testCase "HTTP/2 without TLS, by prior knowledge" $
      withSite $ \d -> withProgram (["serve", d] ++ free) $ \program -> do
        u <- urlOf program "http://"
        fetched ["-i", "--http2-prior-knowledge", u ++ "/"] >>= contains "HTTP/2 200"
        fetched ["-i", "--http2", u ++ "/"] >>= contains "HTTP/1.1 200",
    testCase "Chromium loads a page by HTTP/2, and its script" $
      withDirectory $ \d -> do
        B.writeFile (d </> "index.html") (C.pack "<!doctype html><title>h2</title><p id='out'>waiting</p><script src='script.js'></script>")
        B.writeFile (d </> "script.js") (C.pack "fetch('data.json').then(r => r.json()).then(j => { document.getElementById('out').textContent = j.n + ' by ' + performance.getEntriesByType('navigation')[0].nextHopProtocol; });")
        B.writeFile (d </> "data.json") (C.pack "{\"n\": 42}")
        withProgram (["serve", d] ++ secure) $ \program -> do
          u <- urlOf program "https://"
          ended <-
            runToolIn
              [("HOME", d)]
              "chromium"
              ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--ignore-certificate-errors", "--user-data-dir=" ++ d </> "profile", "--virtual-time-budget=10000", "--dump-dom", u ++ "/"]
          contains "42 by h2" (C.unpack (endedOut ended))
  ]

names :: [TestTree]
names =
  [ testCase "each client gets the certificate of the name that it asks for, others the first" $
      withSite $ \d -> do
        forM_ ["one.test", "two.test"] $ \name -> makePair (d </> name ++ ".pem") (d </> name ++ ".key") name
        let pairs = concat [["--tls-cert", d </> n ++ ".pem", "--tls-key", d </> n ++ ".key"] | n <- ["one.test", "two.test"]]
        withProgram (["serve", d, "--listen", "https://localhost:0"] ++ pairs) $ \program -> do
          port <- portOf <$> urlOf program "https://"
          forM_ ["one.test", "two.test"] $ \name -> do
            let at = ["--resolve", name ++ ":" ++ port ++ ":127.0.0.1", "https://" ++ name ++ ":" ++ port ++ "/"]
            fetched (["--cacert", d </> name ++ ".pem"] ++ at) >>= contains "secure"
          subject port "three.test" >>= contains "one.test"
  ]
  where
    subject port name = C.unpack . endedOut <$> runTool "sh" ["-c", "openssl s_client -connect localhost:" ++ port ++ " -servername " ++ name ++ " </dev/null 2>/dev/null | openssl x509 -noout -subject"]

renewing :: [TestTree]
renewing =
  [ testCase "SIGHUP takes up renewed files; files that cannot be used leave the old ones" $
      withSite $ \d -> do
        let cert = d </> "cert.pem"
            key = d </> "key.pem"
            replace file text = writeFile (file ++ ".new") text >> renameFile (file ++ ".new") file
        makePair cert key "old.test"
        withProgram ["serve", d, "--listen", "https://localhost:0", "--tls-cert", cert, "--tls-key", key] $ \program -> do
          port <- portOf <$> urlOf program "https://"
          shown port >>= contains "old.test"
          makePair (d </> "c2") (d </> "k2") "new.test"
          renameFile (d </> "c2") cert
          renameFile (d </> "k2") key
          signal program sigHUP
          _ <- eventually "a message that certificates are new" (programOut program) (has "new certificates are in use")
          shown port >>= contains "new.test"
          replace cert "nonsense"
          signal program sigHUP
          _ <- eventually "a message that they cannot be used" (programErr program) (has "the old ones stay")
          programErr program >>= contains (cert ++ ": has no certificate")
          shown port >>= contains "new.test",
    testCase "keysThatOnlyRootMayReadWereNotRenewed: --user, one process and two, and a successor" $ do
      me <- getEffectiveUserID
      if me /= 0
        then putStrLn "skipped: root's rights are needed"
        else forM_ [[], ["--processes", "2"]] $ \processes ->
          withSite $ \d -> do
            -- As an ACME client leaves them: directories of root's, and links to the present version.
            let live = d </> "live"
                keys n = d </> "archive" </> n
                pids = d </> "run" </> "pid"
                links n = forM_ ["cert.pem", "key.pem"] $ \file -> do
                  createSymbolicLink (keys n </> file) (live </> (file ++ ".new"))
                  renameFile (live </> (file ++ ".new")) (live </> file)
                renewed n = do
                  createDirectory (keys n)
                  makePair (keys n </> "cert.pem") (keys n </> "key.pem") (n ++ ".test")
                  setFileMode (keys n </> "key.pem") 0o600
                  links n
            forM_ ["live", "archive", "run", "site"] (createDirectory . (d </>))
            forM_ ["live", "archive"] $ \folder -> setFileMode (d </> folder) 0o700
            setFileMode d 0o755
            forM_ ["run", "site"] $ \folder -> setFileMode (d </> folder) 0o777
            renewed "first"
            let arguments = ["serve", d </> "site", "--user", "nobody", "--pid-file", pids, "--listen", "https://localhost:0", "--tls-cert", live </> "cert.pem", "--tls-key", live </> "key.pem"]
            withProgram (arguments ++ processes) $ \program -> flip finally (endOf pids) $ do
              port <- portOf <$> urlOf program "https://"
              shown port >>= contains "first.test"
              let renewedTo n = do
                    renewed n
                    readPid pids >>= signalProcess sigHUP
                    eventually "every process to serve the new certificate" (replicateM 8 (shown port)) (all (has (n ++ ".test")))
              _ <- renewedTo "second"
              before <- readPid pids
              signalProcess sigUSR2 before
              _ <- eventually "a successor" (readPid pids) (/= before)
              _ <- renewedTo "third"
              programErr program >>= (@?= "")
  ]
  where
    shown port = C.unpack . endedOut <$> runTool "sh" ["-c", "openssl s_client -connect localhost:" ++ port ++ " </dev/null 2>/dev/null | openssl x509 -noout -subject"]
    has part text = C.pack part `C.isInfixOf` C.pack text

redirecting :: [TestTree]
redirecting =
  [ testCase "--redirect-https and --hsts" $
      withSite $ \d -> withProgram (["serve", d, "--redirect-https", "--hsts", "1000", "--listen", "localhost:0"] ++ secure) $ \program -> do
        plain <- urlOf program "http://"
        u <- urlOf program "https://"
        answer <- fetched ["-i", plain ++ "/a%20b?c=d"]
        contains "HTTP/1.1 308 Permanent Redirect" answer
        contains ("Location: " ++ u ++ "/a%20b?c=d\r\n") answer
        C.isInfixOf (C.pack "Strict-Transport-Security") (C.pack answer) @?= False
        fetched ["-k", "-L", plain ++ "/"] >>= contains "secure"
        fetched ["-k", "-i", "--http1.1", u ++ "/"] >>= contains "Strict-Transport-Security: max-age=1000\r\n"
        fetched ["-k", "-i", "--http2", u ++ "/"] >>= contains "strict-transport-security: max-age=1000\r\n"
        fetched ["-i", plain ++ "/.well-known/acme-challenge/token"] >>= contains "HTTP/1.1 404"
  ]

policy :: [TestTree]
policy =
  [ testCase "--tls-client-ca: only clients with a certificate of the authority" $
      withAuthority $ \d -> withProgram (["serve", d, "--tls-client-ca", d </> "ca.pem"] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        forM_ [["--tls-max", "1.2"], ["--tlsv1.3"]] $ \version -> do
          fetched (["-k", u ++ "/"] ++ version ++ showing d "client") >>= contains "secure"
          forM_ [[], showing d "stranger"] $ \shown -> do
            ended <- curl (["-k", u ++ "/"] ++ version ++ shown)
            (endedCode ended == ExitSuccess, endedOut ended) @?= (False, B.empty),
    testCase "--tls-client-optional: clients without one, too, but none with another authority's" $
      withAuthority $ \d -> withProgram (["serve", d, "--tls-client-ca", d </> "ca.pem", "--tls-client-optional"] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        forM_ [[], showing d "client"] $ \shown -> fetched (["-k", u ++ "/"] ++ shown) >>= contains "secure"
        ended <- curl (["-k", u ++ "/"] ++ showing d "stranger")
        (endedCode ended == ExitSuccess, endedOut ended) @?= (False, B.empty),
    testCase "the log has the subject of a client's certificate" $
      withAuthority $ \d -> do
        let log' = d </> "log"
        withProgram (["serve", d, "--cores", "1", "--tls-client-ca", d </> "ca.pem", "--tls-client-optional", "--access-log", log', "--log-format", "$ssl_client_s_dn"] ++ secure) $ \program -> do
          u <- urlOf program "https://"
          forM_ [["--http1.1"], ["--http2"]] $ \version -> forM_ [showing d "client", []] $ \shown -> fetched (["-k", u ++ "/"] ++ version ++ shown)
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        B.readFile log' >>= (@?= C.pack (concat (replicate 2 "CN=client.test\n-\n"))),
    testCase "--tls-minimum 1.3: no client of TLS 1.2" $
      withSite $ \d -> withProgram (["serve", d, "--tls-minimum", "1.3"] ++ secure) $ \program -> do
        u <- urlOf program "https://"
        fetched ["-k", u ++ "/"] >>= contains "secure"
        ended <- curl ["-k", "--tls-max", "1.2", u ++ "/"]
        endedCode ended @?= ExitFailure 35,
    testCase "--tls-staple: the OCSP response comes with the handshake" $
      withAuthority $ \d -> do
        _ <- sh d "printf 'V\\t350101000000Z\\t\\t1000\\tunknown\\t/CN=good.test\\n' >index; openssl ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert good.pem -respout good.ocsp -ndays 5"
        let files = ["--tls-cert", d </> "chain.pem", "--tls-key", d </> "good.key"]
        withProgram (["serve", d, "--listen", "https://localhost:0", "--tls-staple", d </> "good.ocsp"] ++ files) $ \program -> do
          port <- portOf <$> urlOf program "https://"
          sh d ("openssl s_client -connect localhost:" ++ port ++ " -servername good.test -status </dev/null 2>&1") >>= contains "OCSP Response Status: successful",
    testCase "--tls-ticket-secret: a session is resumed with another server" $
      withSite $ \d -> do
        B.writeFile (d </> "secret") (B.replicate 32 120)
        let arguments = ["serve", d, "--tls-ticket-secret", d </> "secret"] ++ secure
        withProgram arguments $ \one -> withProgram arguments $ \other -> do
          session <- sessionWith d one
          session `resumedWith` other >>= (@?= True),
    testCase "without it, a session is not resumed with another server" $
      withSite $ \d -> withProgram (["serve", d] ++ secure) $ \one -> withProgram (["serve", d] ++ secure) $ \other -> do
        session <- sessionWith d one
        session `resumedWith` one >>= (@?= True)
        session `resumedWith` other >>= (@?= False),
    testCase "--processes: a session is resumed with every worker, and with the successor" $
      withSite $ \d -> withProgram (["serve", d, "--processes", "3", "--pid-file", d </> "pid"] ++ secure) $ \program -> flip finally (endOf (d </> "pid")) $ do
        session <- sessionWith d program
        -- The kernel chooses the worker.
        replicateM_ 20 (session `resumedWith` program >>= (@?= True))
        signal program sigUSR2
        _ <- eventually "a successor" (programOut program) (\out -> C.pack "serves from now on" `C.isInfixOf` C.pack out)
        replicateM_ 10 (session `resumedWith` program >>= (@?= True))
  ]
  where
    showing d name = ["--cert", d </> name ++ ".pem", "--key", d </> name ++ ".key"]
    sh d script = C.unpack . endedOut <$> runTool "sh" ["-c", "cd " ++ d ++ " && { " ++ script ++ "\n}"]
    withAuthority act = withSite $ \d -> do
      let new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
          issue name serial = new ++ "-subj /CN=" ++ name ++ ".test -addext subjectAltName=DNS:" ++ name ++ ".test -keyout " ++ name ++ ".key -out request && openssl x509 -req -in request -CA ca.pem -CAkey ca.key -set_serial 0x" ++ serial ++ " -days 2 -copy_extensions copy -out " ++ name ++ ".pem\n"
      _ <- sh d (new ++ "-x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem\n" ++ issue "good" "1000" ++ issue "client" "1001" ++ "cat good.pem ca.pem >chain.pem")
      makePair (d </> "stranger.pem") (d </> "stranger.key") "stranger.test"
      act d
    -- With TLS 1.2 the ticket comes within the handshake.
    client program more = do
      port <- portOf <$> urlOf program "https://"
      C.unpack . endedOut <$> runTool "sh" ["-c", "openssl s_client -connect localhost:" ++ port ++ " -tls1_2 " ++ more ++ " </dev/null 2>&1"]
    sessionWith d program = do
      let file = d </> "session"
      client program ("-sess_out " ++ file) >>= contains "New, TLSv1.2"
      pure file
    resumedWith file program = do
      said <- client program ("-sess_in " ++ file)
      if occurrences "Reused, TLSv1.2" said > 0 then pure True else False <$ contains "New, TLSv1.2" said

refusing :: [TestTree]
refusing =
  [ refused "an address with TLS, without a certificate" ["--listen", "https://localhost:0"] ["no certificate for https://localhost:0", "--tls-self-signed"],
    refused "a certificate without its key" ["--listen", "https://localhost:0", "--tls-cert", "/etc/hosts"] ["each --tls-cert needs its --tls-key"],
    refused "files as well as a self-signed one" ["--tls-self-signed", "--tls-cert", "a", "--tls-key", "b"] ["leave out --tls-cert"],
    refused "more OCSP responses than certificates" ["--listen", "https://localhost:0", "--tls-self-signed", "--tls-staple", "a"] ["--tls-self-signed makes its own certificate"],
    refused "clients' certificates without an authority" ("--tls-client-optional" : secure) ["--tls-client-optional needs --tls-client-ca"],
    refused "a ticket secret that is too short" (["--tls-ticket-secret", "/dev/null"] ++ secure) ["/dev/null: a secret for tickets has at least 32 bytes"],
    refused "a file that is missing" ["--listen", "https://localhost:0", "--tls-cert", "/no/such.pem", "--tls-key", "/no/such.key"] ["/no/such.pem: cannot be read", "ENOENT"],
    refused "no address to redirect to" ["--redirect-https", "--listen", "localhost:0"] ["no address to redirect to"],
    testCase "a key that belongs to another certificate" $
      withSite $ \d -> do
        makePair (d </> "a.pem") (d </> "a.key") "a.test"
        makePair (d </> "b.pem") (d </> "b.key") "b.test"
        ended <- runTool "heddle" ["serve", d, "--listen", "https://localhost:0", "--tls-cert", d </> "a.pem", "--tls-key", d </> "b.key"]
        endedCode ended @?= ExitFailure 2
        contains "does not belong to the first certificate" (endedErr ended)
  ]
  where
    refused name arguments parts = testCase name $ do
      ended <- runTool "heddle" (["serve", "/tmp"] ++ arguments)
      endedCode ended @?= ExitFailure 2
      forM_ parts $ \part -> contains part (endedErr ended)
