-- |
-- Module      : Heddle.Tls.Site
-- Description : Certificates and keys, checked and loaded
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- A site is what a server's, or a client's, sessions are made from: contexts of libssl with certificates, keys and
-- settings. It never changes. Sessions hold a reference until their handshake is over; the collector drops the owner's.
--
-- Cost: loading reads the files and takes some milliseconds for each certificate.
-- Owner: whoever holds the value; the C structure counts its references.
module Heddle.Tls.Site
  ( -- * Servers
    TlsSite,
    loadSite,
    loadSiteBy,
    siteConfig,
    siteOpener,
    siteNames,
    siteExpires,
    siteExpiries,
    siteFiles,
    siteSecret,
    withSite,

    -- * Clients
    ClientSite,
    loadClientSite,
    withClientSite,

    -- * Files
    FileOpener,
    FileStamp,
    stampOf,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_, traverse_)
import Data.Maybe (catMaybes, fromMaybe, maybeToList)
import Data.Word (Word8)
import Foreign.C.String (peekCString, withCString)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Heddle.Prim.Clock (EpochSeconds (..), epochNow, seconds)
import Heddle.Prim.Errno (Errno (..), describeErrno)
import Heddle.Prim.Exception (Exception, bracket, mask_, throwIO, try)
import Heddle.Prim.File (FileStatus (..), closeFile, fileStatus, openFile, readOnly, readSome)
import Heddle.Tls.Config
import Heddle.Tls.Foreign
import Heddle.Tls.Library (loadLibrary)
import Heddle.Tls.Problem
import System.Posix.Types (Fd)

-- | The certificates, keys and settings of a server, checked and ready.
data TlsSite = TlsSite
  { sitePointer :: !(ForeignPtr CSite),
    -- | What it was loaded from.
    siteConfig :: !TlsConfig,
    -- | How its files were opened.
    siteOpener :: !FileOpener,
    -- | The domain names of each certificate, in the order of 'tlsPairs'.
    siteNames :: ![[ByteString]],
    -- | When the first of its certificates expires.
    siteExpires :: !EpochSeconds,
    -- | When each of them does, in the order of 'tlsPairs'.
    siteExpiries :: ![EpochSeconds],
    -- | The files that it was loaded from, as they were.
    siteFiles :: ![(FilePath, FileStamp)],
    -- | What the keys of its tickets are made from; empty for a random one.
    siteSecret :: !ByteString
  }

-- | Use the pointer.
withSite :: TlsSite -> (Ptr CSite -> IO a) -> IO a
withSite = withForeignPtr . sitePointer

-- | A client's certificates and settings.
newtype ClientSite = ClientSite (ForeignPtr CSite)

-- | Use the pointer.
withClientSite :: ClientSite -> (Ptr CSite -> IO a) -> IO a
withClientSite (ClientSite site) = withForeignPtr site

-- | Load a server's certificates and keys, and check all that could make a handshake fail later: files can be read and
-- parsed, keys belong to certificates, certificates are valid today and in order, settings make sense. Each certificate
-- reports its first problem.
--
-- [Cost]: reads the files; some milliseconds for each certificate.
-- [Blocks]: holds an OS thread while it reads.
loadSite :: TlsConfig -> IO (Either [TlsProblem] TlsSite)
loadSite = loadSiteBy openDirectly

-- | 'loadSite' with files that somebody else opens, at every reload, too: for a server that has given up the right to read its keys
-- and has left it with another process.
loadSiteBy :: FileOpener -> TlsConfig -> IO (Either [TlsProblem] TlsSite)
loadSiteBy opener config = collecting $ do
  throwAll (settingProblems config)
  secret <- ticketSecret opener (tlsTickets config)
  site <- newSite (1 + (if tlsStrictNames config then 2 else 0)) (tlsLowest config) (tlsHighest config) asked
  withForeignPtr site $ \p -> do
    authorities <- traverse (addAuthorities opener p) source
    setCommon p (tlsProtocols config) (tlsTuning config)
    pairs <- allOf (map (addPair opener p) (tlsPairs config))
    finish p
    pure
      TlsSite
        { sitePointer = site,
          siteConfig = config,
          siteOpener = opener,
          siteNames = map loadedNames pairs,
          siteExpires = minimum (map loadedExpires pairs),
          siteExpiries = map loadedExpires pairs,
          siteFiles = catMaybes (concatMap loadedFiles pairs ++ maybeToList authorities),
          siteSecret = secret
        }
  where
    (asked, source) = case tlsClients config of
      NoClientCertificates -> (0, Nothing)
      WantClientCertificates s -> (1, Just s)
      RequireClientCertificates s -> (2, Just s)

-- Empty if there is none.
ticketSecret :: FileOpener -> TlsTickets -> IO ByteString
ticketSecret opener = \case
  OwnTickets -> pure B.empty
  SharedTickets secret -> secret <$ throwAll [setting short | B.length secret < 32]
  TicketSecretFile path -> do
    (secret, _) <- load opener (PemFile path)
    secret <$ throwAll [TlsProblem path (BadSetting short) | B.length secret < 32]
  where
    short = "a secret for tickets has at least 32 bytes"

-- | Load what a client needs, with the same checks.
--
-- [Cost]: reads the files; with the system's authorities, 10 ms.
-- [Blocks]: holds an OS thread while it reads.
loadClientSite :: TlsClientConfig -> IO (Either [TlsProblem] ClientSite)
loadClientSite config = collecting $ do
  throwAll (protocolProblems (clientProtocols config) ++ versionProblems (clientLowest config) (clientHighest config))
  site <- newSite (if clientTrust config == TrustEverybody then 4 else 0) (clientLowest config) (clientHighest config) 0
  withForeignPtr site $ \p -> do
    case clientTrust config of
      TrustSystem -> reporting "the system's authorities" "" (c_siteRoots p)
      TrustOnly source -> void (addAuthorities openDirectly p source)
      TrustEverybody -> pure ()
    setCommon p (clientProtocols config) (clientTuning config)
    traverse_ (addPair openDirectly p) (clientPair config)
    finish p
  pure (ClientSite site)

-- Settings ---------------------------------------------------------------------

settingProblems :: TlsConfig -> [TlsProblem]
settingProblems config =
  [setting "a server needs a certificate: tlsPairs is empty" | null (tlsPairs config)]
    ++ versionProblems (tlsLowest config) (tlsHighest config)
    ++ protocolProblems (tlsProtocols config)
    ++ [setting "at least one handshake may be unfinished: tlsUnfinished is below 1" | tlsUnfinished config < 1]
    ++ [setting "a period of ticket keys is at least a second" | tlsTicketPeriod config < seconds 1]
    ++ [ setting "a period of the keys of a shared secret is at least ten minutes, because its chain begins in 2024"
         | tlsTicketPeriod config < seconds 600,
           tlsTickets config /= OwnTickets
       ]

versionProblems :: TlsVersion -> TlsVersion -> [TlsProblem]
versionProblems lowest highest = [setting "the lowest version is above the highest" | lowest > highest]

protocolProblems :: [ByteString] -> [TlsProblem]
protocolProblems names = [setting ("an application protocol has 1 to 255 bytes, not " ++ show (B.length name)) | name <- names, B.null name || B.length name > 255]

setting :: String -> TlsProblem
setting = TlsProblem "TLS settings" . BadSetting

newSite :: CInt -> TlsVersion -> TlsVersion -> CInt -> IO (ForeignPtr CSite)
newSite flags lowest highest asked = mask_ $ do
  loadLibrary
  p <- c_siteNew flags (number lowest) (number highest) asked
  when (p == nullPtr) outOfMemory
  newForeignPtr p_siteRelease p
  where
    number = \case
      Tls12 -> 0x303
      Tls13 -> 0x304

setCommon :: Ptr CSite -> [ByteString] -> TlsTuning -> IO ()
setCommon p protocols tuning = do
  r <- bytesOf (B.concat [B.cons (fromIntegral (B.length name)) name | name <- protocols]) $ \q n -> c_siteAlpn p q (fromIntegral n)
  when (r < 0) outOfMemory
  withCString (tuningCiphers tuning) $ \ciphers -> withCString (tuningSuites tuning) $ \suites ->
    withCString (tuningGroups tuning) $ \groups -> allocaBytes 256 $ \text -> do
      done <- c_siteTuning p ciphers suites groups text
      when (done < 0) (peekCString text >>= \why -> throwAll [TlsProblem "TLS settings" (Refused why)])

finish :: Ptr CSite -> IO ()
finish p = c_siteFinish p >>= \r -> when (r < 0) outOfMemory

-- Certificates -----------------------------------------------------------------

-- What is kept of a certificate.
data Loaded = Loaded
  { loadedNames :: ![ByteString],
    loadedExpires :: !EpochSeconds,
    loadedFiles :: ![Maybe (FilePath, FileStamp)]
  }

addAuthorities :: FileOpener -> Ptr CSite -> PemSource -> IO (Maybe (FilePath, FileStamp))
addAuthorities opener p source = do
  (bytes, file) <- load opener source
  reporting (sourceName source) "" $ \report -> bytesOf bytes (\q n -> c_siteAuthorities p q (fromIntegral n) report)
  pure file

addPair :: FileOpener -> Ptr CSite -> TlsPair -> IO Loaded
addPair opener p pair = do
  loads <- allOf [load opener (pairChain pair), load opener (pairKey pair)]
  staple <- traverse (load opener . PemFile) (pairStaple pair)
  let (bytes, files) = unzip (loads ++ maybeToList staple)
      room = B.length (head bytes) + 64
  EpochSeconds now <- epochNow
  allocaBytes room $ \names -> allocaBytes reportSize $ \report -> do
    r <- bytesOf (head bytes) $ \chain m -> bytesOf (bytes !! 1) $ \key n -> bytesOf (maybe B.empty fst staple) $ \answer o ->
      c_siteAdd p chain (fromIntegral m) key (fromIntegral n) answer (fromIntegral o) now names (fromIntegral room) report
    when (r < 0) (problemOf (pairStaple pair) (sourceName (pairChain pair)) (sourceName (pairKey pair)) report)
    used <- reportNames report
    text <- B.packCStringLen (castPtr names, used)
    until' <- reportUntil report
    pure (Loaded (filter (not . B.null) (B.split 0 text)) (EpochSeconds (fromIntegral until')) files)

reporting :: String -> String -> (Ptr Word8 -> IO CInt) -> IO ()
reporting place key call = allocaBytes reportSize $ \report -> do
  r <- call report
  when (r < 0) (problemOf Nothing place key report)

-- The codes are those of heddle_tls.h.
problemOf :: Maybe FilePath -> String -> String -> Ptr Word8 -> IO a
problemOf staple chain key report = do
  code <- reportCode report
  index <- reportIndex report
  from <- reportFrom report
  until' <- reportUntil report
  why <- peekCString (castPtr (report `plusPtr` reportText))
  throwIO . Problems . pure $ case code of
    1 -> TlsProblem chain NoCertificate
    2 -> TlsProblem chain (BadCertificate index why)
    3 -> TlsProblem key NoKey
    4 -> TlsProblem key (BadKey why)
    5 -> TlsProblem key EncryptedKey
    6 -> TlsProblem key (KeyMismatch chain)
    7 -> TlsProblem chain (NotYetValid index (EpochSeconds (fromIntegral from)))
    8 -> TlsProblem chain (Expired index (EpochSeconds (fromIntegral until')))
    9 -> TlsProblem chain (WrongOrder index)
    11 -> TlsProblem (fromMaybe chain staple) (BadStaple why)
    12 -> TlsProblem chain NoDomainName
    _ -> TlsProblem chain (Refused why)

-- Files ------------------------------------------------------------------------

-- | How a file is opened for reading, by its name as the system has it: a descriptor, which the caller closes, or minus the error number.
type FileOpener = ByteString -> IO Int

openDirectly :: FileOpener
openDirectly path = openFile path readOnly

-- | What tells one state of a file from another.
newtype FileStamp = FileStamp FileStatus
  deriving stock (Eq)

-- | A file's present stamp; 'Nothing' if it cannot be opened.
--
-- [Blocks]: holds an OS thread.
stampOf :: FileOpener -> FilePath -> IO (Maybe FileStamp)
stampOf opener path = either (const Nothing) (fmap FileStamp) <$> (try (withFile opener path (fmap (either (const Nothing) Just) . fileStatus)) :: IO (Either Problems (Maybe FileStatus)))

withFile :: FileOpener -> FilePath -> (Fd -> IO a) -> IO a
withFile opener path = bracket open closeFile
  where
    open = do
      fd <- withCString path B.packCString >>= opener
      if fd < 0 then unreadable path fd else pure (fromIntegral fd)

unreadable :: FilePath -> Int -> IO a
unreadable path code = throwIO (Problems [TlsProblem path (Unreadable (describeErrno (Errno (negate code))))])

-- The bytes, and the stamp of the very file that they were read from.
load :: FileOpener -> PemSource -> IO (ByteString, Maybe (FilePath, FileStamp))
load opener = \case
  PemBytes _ bytes -> pure (bytes, Nothing)
  PemFile path -> withFile opener path $ \fd -> do
    status <- fileStatus fd >>= either (unreadable path) pure
    bytes <- allocaBytes pieceBytes (readPieces path fd [] 0)
    pure (bytes, Just (path, FileStamp status))
  where
    pieceBytes = 65536
    readPieces path fd pieces total buffer = do
      n <- readSome fd buffer pieceBytes
      case () of
        _
          | n < 0 -> unreadable path n
          | n == 0 -> pure (B.concat (reverse pieces))
          | total + n > largest -> throwIO (Problems [TlsProblem path (Unreadable "it has more than 16 MB")])
          | otherwise -> do
            piece <- B.packCStringLen (castPtr buffer, n)
            readPieces path fd (piece : pieces) (total + n) buffer
    largest = 16000000 :: Int

bytesOf :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
bytesOf bytes use = unsafeUseAsCStringLen bytes (\(p, n) -> use (castPtr p) n)

-- Problems ---------------------------------------------------------------------

-- Never leaves this module.
newtype Problems = Problems [TlsProblem]
  deriving stock (Show)

instance Exception Problems

collecting :: IO a -> IO (Either [TlsProblem] a)
collecting body = either (\(Problems problems) -> Left problems) Right <$> try body

throwAll :: [TlsProblem] -> IO ()
throwAll problems = unless (null problems) (throwIO (Problems problems))

-- All results, or all problems.
allOf :: [IO a] -> IO [a]
allOf actions = do
  results <- traverse try actions
  for_ [concat [problems | Left (Problems problems) <- results]] throwAll
  pure [x | Right x <- results]

outOfMemory :: IO a
outOfMemory = throwIO (Problems [TlsProblem "TLS" (Refused "memory has run out")])
