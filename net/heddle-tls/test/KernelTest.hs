{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | kTLS: the kernel goes on from where libssl was. Where the kernel has none these tests are skipped: @make test-ktls@ runs them in
-- Debian's User Mode Linux, which has it.
module KernelTest (tests) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import FailureTest (Call (..), failing)
import Fixture
import Foreign.C.Types (CInt (..), CLong (..))
import Foreign.Ptr (castPtr)
import Heddle.IO.Transport
import Heddle.Prim.Clock (deadlineIn, milliseconds)
import Heddle.Prim.Errno (Errno, errnoNumber, pattern ENOENT, pattern ENOMEM, pattern ENOTCONN, pattern EPIPE, pattern EPROTO)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Network.Socket (SockAddr (..))
import System.Environment (lookupEnv)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Types (Fd)
import Test.Tasty
import Test.Tasty.HUnit

-- Safe: a blocking socket.
foreign import ccall safe "peer_reads" peerReads :: CInt -> CLong -> CInt -> CInt -> IO CLong

tests :: Folder -> TestTree
tests folder
  | not kernelHas =
    testGroup
      "kTLS"
      [ testCase "(skipped: this kernel has none)" (lookupEnv "HEDDLE_KTLS" >>= (@?= Nothing)),
        testCase "left to libssl: a kernel that refuses a socket" (refused folder ENOTCONN 0)
      ]
  | otherwise =
    testGroup
      "kTLS"
      [ testGroup "text and files, in turn" [testCase suite (inTurn folder suite) | suite <- suites],
        testCase "the kernel goes on after short records of libssl" (peerOf folder NeverAsk 1000 >>= (@?= (long + 1, 1))),
        testCase "both directions at once" (both folder),
        testGroup
          "left to libssl"
          [ testCase "TLS 1.2" (staysWith folder (\c -> c {clientHighest = Tls12}) id long),
            testCase "a short file" (staysWith folder id id 200000),
            testCase "a server that does not want it" (staysWith folder id (\c -> c {tlsKernel = False}) long),
            testCase "a kernel that refuses a socket" (refused folder ENOMEM 1),
            testCase "a kernel that refuses the keys" (refused folder ENOENT 2),
            testCase "a session whose keys were changed" (peerOf folder AskBefore 0 >>= (@?= (long + 1, 0)))
          ],
        testCase "a session that asks the kernel for new keys ends" (peerOf folder AskAfter 0 >>= (@?= (long, 1))),
        testGroup
          "a part of a file is not taken for the whole"
          [ testCase "a client that does not read" (notRead folder),
            testCase "a sender that is killed" (killed folder),
            testCase "a file that has become shorter" (shorter folder)
          ]
      ]
  where
    suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]

kernelHas :: Bool
kernelHas = unsafePerformIO (elem "tls" . C.words <$> B.readFile "/proc/sys/net/ipv4/tcp_available_ulp")
{-# NOINLINE kernelHas #-}

-- More than the socket's buffers have room for.
long :: Int
long = 12000000

content :: ByteString
content = variedBytes 7 long

withContent :: Folder -> (Fd -> IO a) -> IO a
withContent folder = withFileOf folder content

server :: Folder -> TlsConfig
server folder = defaultTlsConfig [pair folder "good"]

kernelCount :: TlsListener -> IO Int
kernelCount = fmap countKernel . tlsCounts

-- | Run the action in a thread of its own; the answer waits for its end, and fails as it has.
beside :: IO a -> IO (IO a)
beside action = do
  done <- newEmptyMVar
  _ <- forkIO (try action >>= putMVar done)
  pure (patiently "the other thread" (takeMVar done) >>= either (\(e :: SomeException) -> unexpected "no failure" (show e)) pure)

-- A part of the file, as it came.
sendAcross :: Transport -> Transport -> Fd -> Int -> Int -> IO ()
sendAcross near far fd offset count = do
  sent <- beside (writeFilePaced far fd (fromIntegral offset) count (const patience'))
  got <- readAll near count
  sent >>= (@?= count)
  assertBool "the file" (got == B.take count (B.drop offset content))

inTurn :: Folder -> String -> IO ()
inTurn folder suite = withContent folder $ \fd ->
  betweenWith (server folder) {tlsTuning = defaultTlsTuning {tuningSuites = suite}} (trusting folder) $ \tls near far -> do
    let text = B.replicate 100000 11
        say from to = do
          written <- beside (writeAll from text)
          got <- readAll to (B.length text)
          assertBool "the text" (got == text)
          written
    say far near
    say near far
    forM_ [(0, long), (12345, 3000000), (77, 10)] $ \(offset, count) -> do
      sendAcross near far fd offset count
      kernelCount tls >>= (@?= 1)
      say far near
      say near far
    -- A farewell, made by the kernel: without it a client's read would fail.
    endWriting far >>= (@?= 0)
    readSome near 10 >>= (@?= Right "")

both :: Folder -> IO ()
both folder = withContent folder $ \fd -> betweenWith (server folder) (trusting folder) $ \tls near far -> do
  written <- beside (writeAll near content)
  received <- beside (readAll far long)
  sendAcross near far fd 0 long
  written
  received >>= \back -> assertBool "what came up" (back == content)
  kernelCount tls >>= (@?= 1)

staysWith :: Folder -> (TlsClientConfig -> TlsClientConfig) -> (TlsConfig -> TlsConfig) -> Int -> IO ()
staysWith folder ofClient ofServer count = withContent folder $ \fd ->
  betweenWith (ofServer (server folder)) (ofClient (trusting folder)) $ \tls near far -> do
    sendAcross near far fd 0 count
    kernelCount tls >>= (@?= 0)

-- The first such call is the listener's.
refused :: Folder -> Errno -> Int -> IO ()
refused folder e n = failing Option e n "" (staysWith folder id id long) >>= \(_, failed) -> assertBool "the call failed" failed

-- When a peer asks for new keys: before the file, or after it.
data Ask = NeverAsk | AskBefore | AskAfter
  deriving stock (Enum)

-- Serve a peer of libssl's: a byte, the file, a byte and its echo. How many bytes it got, and how many sessions the kernel had.
peerOf :: Folder -> Ask -> Int -> IO (Int, Int)
peerOf folder asks segment = nothingIsLeft . withContent folder $ \fd -> onePort (server folder) $ \_ address tls accepted -> do
  ended <- newEmptyMVar
  _ <- forkIO $ do
    r <- try $
      bracket accepted closeTransport $ \transport -> do
        _ <- readAll transport 1
        deadline <- patience'
        _ <- writeFilePaced transport fd 0 long (const (pure deadline))
        readAll transport 1 >>= writeAll transport
    putMVar ended (r :: Either SomeException ())
  got <- peerReads (portOf address) (fromIntegral long) (fromIntegral (fromEnum asks)) (fromIntegral segment)
  _ <- patiently "the server's end" (takeMVar ended)
  (,) (fromIntegral got) <$> kernelCount tls
  where
    portOf = \case
      SockAddrInet port _ -> fromIntegral port
      _ -> 0

-- What comes is a part of the file, and then a failure.
partOnly :: Transport -> IO ()
partOnly near = go 0
  where
    go n =
      readSome near 65536 >>= \case
        Right piece
          | B.null piece -> assertFailure ("a clean end after " ++ show n ++ " bytes")
          | otherwise -> do
            assertBool "the part" (piece == B.take (B.length piece) (B.drop n content))
            go (n + B.length piece)
        Left code -> code @?= negate (errnoNumber EPROTO)

notRead :: Folder -> IO ()
notRead folder = withContent folder $ \fd -> betweenWith (server folder) (trusting folder) $ \tls near far -> do
  r <- patiently "the file to be given up" (writeFilePaced far fd 0 long (\_ -> deadlineIn (milliseconds 50)))
  assertBool (show r) (r < long)
  kernelCount tls >>= (@?= 1)
  again <- deadlineIn (milliseconds 20) >>= \d -> unsafeUseAsCStringLen "x" (\(p, n) -> writeSomeUntil far (castPtr p) n d)
  again @?= negate (errnoNumber EPIPE)
  closeTransport far
  partOnly near

killed :: Folder -> IO ()
killed folder = withContent folder $ \fd -> betweenWith (server folder) (trusting folder) $ \tls near far -> do
  ended <- newEmptyMVar
  sender <- forkIO (try (writeFilePaced far fd 0 long (const patience')) >>= \r -> putMVar ended (r :: Either SomeException Int))
  _ <- eventually "the kernel" (kernelCount tls) (== 1)
  performMajorGC
  killThread sender
  patiently "the sender" (takeMVar ended) >>= either (const (pure ())) (assertFailure . show)
  closeTransport far
  partOnly near

shorter :: Folder -> IO ()
shorter folder = withFileOf folder (B.take 1000000 content) $ \fd -> betweenWith (server folder) (trusting folder) $ \_ near far -> do
  sent <- beside (writeFilePaced far fd 0 long (const patience'))
  got <- readAll near 1000000
  assertBool "the file" (got == B.take 1000000 content)
  sent >>= (@?= 1000000)
  closeTransport far
  readSome near 10 >>= (@?= Left (negate (errnoNumber EPROTO)))
