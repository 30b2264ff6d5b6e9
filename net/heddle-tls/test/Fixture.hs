{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Certificates made by openssl, an echo server over TLS, and clients.
module Fixture
  ( -- * Certificates
    Folder,
    withFolder,
    pair,
    pairWith,
    siteOf,
    site,
    trusting,

    -- * A server
    Echo (..),
    withEcho,
    withEchoOn,
    echoPort,
    reports,

    -- * Two ends
    betweenWith,
    onePort,

    -- * Clients
    client,
    connecting,
    connectingWith,
    ask,
    readAll,
    readSome,
    writeAll,
    rawSocket,
    patience',

    -- * Content
    variedBytes,
    withFileOf,

    -- * Leaks
    nothingIsLeft,

    -- * Programs
    sClient,
    runTool,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (bracket, evaluate, finally, mask, mask_, onException)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Heddle.IO
  ( BackendChoice (..),
    Config (..),
    ListenOptions (..),
    Listener,
    Runtime,
    Spread (..),
    accept,
    connectUntil,
    defaultConfig,
    defaultListenOptions,
    listenerAddress,
    withListener,
    withRuntime,
  )
import Heddle.IO.Registration
import Heddle.IO.Service
import Heddle.IO.Transport
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline, deadlineIn, milliseconds, seconds)
import Heddle.Prim.Errno (errnoNumber, pattern EAGAIN)
import Heddle.Prim.Exception (SomeException, describeException)
import Heddle.Prim.Thread (forkOn)
import Heddle.Testkit.Descriptors (openDescriptor, openDescriptors)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Network.Socket qualified as N
import System.Directory (createDirectory, getTemporaryDirectory, removePathForcibly)
import System.Exit (ExitCode (..))
import System.IO (hClose, hSetBinaryMode)
import System.Posix.IO (OpenMode (..), closeFd)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)
import System.Process

-- | A folder with certificates.
type Folder = FilePath

-- | Make the folder once for the whole suite.
withFolder :: (Folder -> IO a) -> IO a
withFolder = bracket make removePathForcibly
  where
    make = do
      base <- getTemporaryDirectory
      pid <- getProcessID
      let folder = base ++ "/heddle-tls-test-" ++ show pid
      createDirectory folder
      (code, _, err) <- runTool "bash" ["-c", script] (Just folder) ""
      unless (code == ExitSuccess) (unexpected "certificates" (C.unpack err))
      pure folder

-- issue NAME ISSUER KEY NAMES FROM UNTIL EXTENSIONS…: NAME.key, NAME.pem
script :: String
script =
  unlines
    [ "set -e",
      "printf '%s\\n' '[ca]' 'default_ca=d' '[d]' 'database=index' 'serial=serial' 'new_certs_dir=.' 'default_md=sha256' 'policy=p' 'unique_subject=no' 'copy_extensions=copy' '[p]' 'commonName=supplied' > ca.cnf",
      "printf '%s\\n' '[req]' 'distinguished_name=n' '[n]' > req.cnf",
      "touch index; echo 1000 > serial",
      "day() { date -u -d \"$1\" +%Y%m%d%H%M%SZ; }",
      "ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256'",
      "root() { openssl req -x509 -config req.cnf $ec -nodes -keyout $1.key -out $1.pem -days 30 -subj \"/CN=$1\" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign,digitalSignature 2>/dev/null; }",
      "issue() { name=$1 issuer=$2 key=$3 alt=$4 from=$5 until=$6; shift 6",
      "  openssl req -new -config req.cnf $key -nodes -keyout $name.key -out $name.csr -subj \"/CN=$name\" ${alt:+-addext subjectAltName=$alt} \"$@\" 2>/dev/null",
      "  openssl ca -batch -notext -config ca.cnf -cert $issuer.pem -keyfile $issuer.key -in $name.csr -out $name.pem -startdate $(day \"$from\") -enddate $(day \"$until\") 2>/dev/null; }",
      "root ca; root other",
      "issue good ca \"$ec\" DNS:localhost,IP:127.0.0.1 yesterday '30 days'",
      "issue a ca \"$ec\" DNS:a.example,DNS:www.A.example yesterday '20 days'",
      "issue wild ca \"$ec\" DNS:*.wild.example yesterday '30 days'",
      "issue rsa ca '-newkey rsa:2048' DNS:rsa.example yesterday '30 days'",
      "issue ed ca '-newkey ed25519' DNS:ed.example yesterday '30 days'",
      "issue expired ca \"$ec\" DNS:old.example '10 days ago' yesterday",
      "issue future ca \"$ec\" DNS:new.example tomorrow '30 days'",
      "issue nameless ca \"$ec\" IP:127.0.0.1 yesterday '30 days'",
      "issue client ca \"$ec\" '' yesterday '30 days'",
      "issue stranger other \"$ec\" '' yesterday '30 days'",
      "issue inter ca \"$ec\" '' yesterday '30 days' -addext basicConstraints=critical,CA:TRUE",
      "issue deep inter \"$ec\" DNS:deep.example yesterday '30 days'",
      "cat deep.pem inter.pem > ordered.pem; cat inter.pem deep.pem > disordered.pem; cat deep.pem ca.pem > gap.pem",
      "openssl pkey -in good.key -aes256 -passout pass:x -out locked.key",
      "echo hello > garbage.pem; : > empty.pem",
      "sed 's/^MII/MIX/' good.pem > broken.pem; sed '2s/^...../AAAAA/' good.key > broken.key",
      "openssl req -x509 -config req.cnf -newkey rsa:1024 -nodes -keyout weak.key -out weak.pem -days 30 -subj /CN=weak.example 2>/dev/null",
      "openssl ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert good.pem -respout good.ocsp -ndays 5 >/dev/null 2>&1",
      "openssl ocsp -index index -rsigner other.pem -rkey other.key -CA ca.pem -issuer ca.pem -cert good.pem -respout forged.ocsp -ndays 5 >/dev/null 2>&1 || true",
      "issue responder ca \"$ec\" '' yesterday '30 days' -addext extendedKeyUsage=OCSPSigning",
      "openssl ocsp -index index -rsigner responder.pem -rkey responder.key -CA ca.pem -issuer ca.pem -cert good.pem -respout delegated.ocsp -ndays 5 >/dev/null 2>&1",
      "cat good.pem ca.pem > goodchain.pem",
      "test -s good.ocsp; test -s forged.ocsp; test -s delegated.ocsp"
    ]

-- | A certificate of the folder with its key.
pair :: Folder -> String -> TlsPair
pair folder name = pairWith folder (name ++ ".pem") (name ++ ".key")

-- | Two files of the folder.
pairWith :: Folder -> FilePath -> FilePath -> TlsPair
pairWith folder chain key = pemFiles (folder ++ "/" ++ chain) (folder ++ "/" ++ key)

-- | Load, or fail.
siteOf :: TlsConfig -> IO TlsSite
siteOf config = loadSite config >>= either (unexpected "a site" . show) pure

-- | A site with these certificates.
site :: Folder -> [String] -> IO TlsSite
site folder names = siteOf (defaultTlsConfig (map (pair folder) names))

-- | Settings of a client that believes the folder's authority.
trusting :: Folder -> TlsClientConfig
trusting folder = defaultTlsClientConfig {clientTrust = TrustOnly (PemFile (folder ++ "/ca.pem"))}

-- | A client, or fail.
client :: TlsClientConfig -> IO TlsClient
client config = newTlsClient config >>= either (unexpected "a client" . show) pure

-- | An echo server.
data Echo = Echo
  { echoRuntime :: !Runtime,
    echoAddress :: !SockAddr,
    echoListener :: !TlsListener,
    echoService :: !Service,
    -- | How each opening ended, in order.
    echoReports :: !(IORef [Either String LayerFacts]),
    -- | Bytes of peers that do not speak TLS.
    echoPlain :: !(IORef [ByteString]),
    echoFailures :: !(IORef [SomeException])
  }

-- | Its port.
echoPort :: Echo -> Int
echoPort echo = case echoAddress echo of
  SockAddrInet port _ -> fromIntegral port
  _ -> 0

-- | How openings ended so far, in order.
reports :: Echo -> IO [Either String LayerFacts]
reports = fmap reverse . readIORef . echoReports

-- | Serve while the body runs; no failure of a handler is accepted, and every session ends.
withEcho :: TlsSite -> (Echo -> IO a) -> IO a
withEcho = withEchoOn Epoll 20000

-- | With a back end and a limit for handshakes in milliseconds.
withEchoOn :: BackendChoice -> Int -> TlsSite -> (Echo -> IO a) -> IO a
withEchoOn backend limit loaded body = withRuntime defaultConfig {configBackend = backend} $ \runtime ->
  withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
    bracket (start runtime listener) stop $ \echo -> do
      r <- body echo
      failures <- readIORef (echoFailures echo)
      unless (null failures) (unexpected "no failure of a handler" (unlines (map describeException failures)))
      pure r
  where
    start :: Runtime -> Listener -> IO Echo
    start runtime listener = do
      tls <- newTlsListener loaded
      seen <- newIORef []
      plain <- newIORef []
      failures <- newIORef []
      let options = defaultServiceOptions {serviceName = "tls/echo", serviceFirstByte = milliseconds limit, serviceFailed = push failures, servicePaused = \_ -> pure ()}
      services <- startSessions options [(listener, conversation tls seen plain limit)]
      pure (Echo runtime (listenerAddress listener) tls (head services) seen plain failures)
    stop echo = do
      stopAccepting (echoService echo)
      closeConnections (echoService echo)
      deadline <- deadlineIn (seconds 20)
      drained <- awaitDrainedUntil (echoService echo) deadline
      endService (echoService echo)
      unless drained (unexpected "every connection to end" "some are open")

push :: IORef [a] -> a -> IO ()
push ref x = atomicModifyIORef' ref (\xs -> (x : xs, ()))

-- The handler of one connection: it echoes, and ends after a piece that ends with "quit\n".
conversation :: TlsListener -> IORef [Either String LayerFacts] -> IORef [ByteString] -> Int -> IO (Registration -> IO After)
conversation tls seen plain limit = do
  state <- newIORef Nothing
  pure $ \registration -> do
    open <- readIORef state
    case open of
      Just layer -> run registration layer
      Nothing -> do
        deadline <- deadlineIn (milliseconds limit)
        tlsOpening tls registration deadline >>= \case
          Opened layer -> do
            push seen (Right (layerFacts layer))
            writeIORef state (Just layer)
            run registration layer
          OtherProtocol bytes -> Done <$ push plain bytes
          NotOpened why -> Done <$ push seen (Left why)
  where
    run registration layer = talk registration (Layered registration layer) `onException` closeTransport (Layered registration layer)

talk :: Registration -> Transport -> IO After
talk registration transport = do
  buffer <- borrowBuffer registration
  next <- withBuffer buffer $ \p -> do
    let size = bufferSize buffer
        go = do
          n <- readNow transport p size
          if n > 0
            then do
              deadline <- deadlineIn (seconds 20)
              bytes <- B.packCStringLen (castPtr p, n)
              sent <- writeUntil transport p n deadline
              if sent /= n
                then pure Done
                else
                  if "quit\n" `B.isSuffixOf` bytes
                    then Done <$ endWriting transport
                    else do
                      -- Input that is held causes no further event; the rest will.
                      markActive registration
                      held <- holdsInput transport
                      if held then go else IdleUntil <$> deadlineIn (seconds 60)
            else
              if n == negate (errnoNumber EAGAIN)
                then do
                  held <- holdsInput transport
                  if held then go else IdleUntil <$> deadlineIn (seconds 60)
                else pure Done
    go
  giveBackBuffer registration buffer
  case next of
    Done -> Done <$ closeTransport transport
    idle -> pure idle

-- | A session between two ends in this process: the listener, the client's end, the server's.
betweenWith :: TlsConfig -> TlsClientConfig -> (TlsListener -> Transport -> Transport -> IO a) -> IO a
betweenWith config clientConfig body = nothingIsLeft $ do
  to <- client clientConfig
  onePort config $ \runtime address tls accepted -> do
    server <- newEmptyMVar
    _ <- forkOn 1 "test/accept" (accepted >>= putMVar server)
    deadline <- patience'
    Right conn <- connectUntil runtime address deadline
    Opened near <- mask_ (tlsConnecting to "localhost" (registrationOf conn) deadline)
    far <- patiently "the server's side" (takeMVar server)
    bracket (pure (Layered (registrationOf conn) near, far)) (\(a, b) -> closeTransport a >> closeTransport b) (uncurry (body tls))

-- | A listener at an address, and an action that accepts a session.
onePort :: TlsConfig -> (Runtime -> SockAddr -> TlsListener -> IO Transport -> IO a) -> IO a
onePort config body = do
  tls <- siteOf config >>= newTlsListener
  withRuntime defaultConfig $ \runtime -> withListener runtime defaultListenOptions (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
    body runtime (listenerAddress listener) tls $ do
      conn <- accept listener
      deadline <- patience'
      mask_ (tlsOpening tls (registrationOf conn) deadline) >>= \case
        Opened layer -> pure (Layered (registrationOf conn) layer)
        _ -> unexpected "a session" "none"

-- | Connect a client of this name, and run the body with the transport or why there is none.
connectingWith :: Echo -> TlsClient -> ByteString -> (Either String (Transport, LayerFacts) -> IO a) -> IO a
connectingWith echo tls host body = mask $ \restore -> do
  deadline <- patience'
  connectUntil (echoRuntime echo) (echoAddress echo) deadline >>= \case
    Left e -> unexpected "a connection" (show e)
    Right conn -> do
      let registration = registrationOf conn
      opened <- tlsConnecting tls host registration deadline `onException` closeRegistration registration
      case opened of
        Opened layer -> restore (body (Right (Layered registration layer, layerFacts layer))) `finally` closeTransport (Layered registration layer)
        NotOpened why -> restore (body (Left why)) `finally` closeRegistration registration
        OtherProtocol bytes -> void (closeRegistration registration) >> unexpected "an opening" (show bytes)

-- | The same, where it must open.
connecting :: Echo -> TlsClient -> ByteString -> (Transport -> LayerFacts -> IO a) -> IO a
connecting echo tls host body = connectingWith echo tls host (either (unexpected "an open session") (uncurry body))

-- | Twenty seconds from now.
patience' :: IO Deadline
patience' = deadlineIn (seconds 20)

-- | Write all of it, or fail.
writeAll :: Transport -> ByteString -> IO ()
writeAll transport bytes = do
  deadline <- patience'
  r <- unsafeUseAsCStringLen bytes $ \(p, n) -> writeUntil transport (castPtr p) n deadline
  when (r /= B.length bytes) (unexpected "all written" (show r))

-- | Read at most this many bytes: a piece, or a code.
readSome :: Transport -> Int -> IO (Either Int ByteString)
readSome transport n = allocaBytes n $ \p -> do
  deadline <- patience'
  r <- readUntil transport p n deadline
  if r < 0 then pure (Left r) else Right <$> B.packCStringLen (castPtr p, r)

-- | Read exactly this many bytes, or up to the end.
readAll :: Transport -> Int -> IO ByteString
readAll transport = fmap B.concat . go
  where
    go n
      | n <= 0 = pure []
      | otherwise =
        readSome transport (min 65536 n) >>= \case
          Left code -> unexpected "bytes" ("the code " ++ show code)
          Right piece
            | B.null piece -> pure []
            | otherwise -> (piece :) <$> go (n - B.length piece)

-- | Send, and expect the same back.
ask :: Transport -> ByteString -> IO ()
ask transport bytes = do
  writeAll transport bytes
  back <- readAll transport (B.length bytes)
  when (back /= bytes) (unexpected (show (B.take 100 bytes)) (show (B.take 100 back)))

-- | A blocking socket connected to the server.
rawSocket :: Echo -> (N.Socket -> IO a) -> IO a
rawSocket echo = bracket open N.close
  where
    open = do
      s <- N.socket N.AF_INET N.Stream N.defaultProtocol
      N.connect s (echoAddress echo) `onException` N.close s
      pure s

-- | So many bytes, which differ everywhere, from a seed.
variedBytes :: Int -> Int -> ByteString
variedBytes seed n = fst (B.unfoldrN n (\x -> Just (fromIntegral (x `quot` 65536), (x * 1103515245 + 12345) `rem` 2147483648)) (seed + 1))

-- | A file of the folder with these bytes, opened for the body.
withFileOf :: Folder -> ByteString -> (Fd -> IO a) -> IO a
withFileOf folder bytes use = do
  let path = folder ++ "/file"
  B.writeFile path bytes
  bracket (openDescriptor path ReadOnly) closeFd use

-- | After the body, as many sessions and descriptors are alive as before it, or fewer.
nothingIsLeft :: IO a -> IO a
nothingIsLeft body = do
  sessions <- liveSessions
  descriptors <- openDescriptors
  r <- body
  void (eventually ("at most " ++ show sessions ++ " sessions") liveSessions (<= sessions))
  void (eventually ("at most these descriptors: " ++ show descriptors) openDescriptors ((<= length descriptors) . length))
  pure r

-- | @openssl s_client@ to the server, with this input; all that it prints.
sClient :: Echo -> [String] -> ByteString -> IO (ExitCode, ByteString)
sClient echo options input = do
  (code, out, err) <- runTool "openssl" (["s_client", "-connect", "127.0.0.1:" ++ show (echoPort echo), "-ign_eof"] ++ options) Nothing input
  pure (code, out <> err)

-- | Run a program: its status, output and errors. It is ended with the test.
runTool :: FilePath -> [String] -> Maybe FilePath -> ByteString -> IO (ExitCode, ByteString, ByteString)
runTool program arguments folder input =
  patiently program $
    withCreateProcess (proc program arguments) {cwd = folder, std_in = CreatePipe, std_out = CreatePipe, std_err = CreatePipe} $
      \toProgram fromProgram errors handle -> case (toProgram, fromProgram, errors) of
        (Just i, Just o, Just e) -> do
          mapM_ (`hSetBinaryMode` True) [i, o, e]
          errorsRead <- newEmptyMVar
          forkRead e errorsRead
          B.hPut i input
          hClose i
          out <- B.hGetContents o
          _ <- evaluate (B.length out)
          err <- takeMVar errorsRead
          code <- waitForProcess handle
          pure (code, out, err)
        _ -> unexpected "pipes" "none"
  where
    forkRead h var = void (forkIO (B.hGetContents h >>= putMVar var))
