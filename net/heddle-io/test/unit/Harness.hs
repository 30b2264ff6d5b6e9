-- | What the tests share: runtimes of both kinds, pairs of connections, descriptors, children.
module Harness
  ( bothBackends,
    soon,
    late,
    withLoopback,
    withPair,
    withUnixPair,
    withPipe,
    retire,
    loopback,
    openDescriptors,
    waitTicker,
    withoutLeak,
    got,
    expectIOError,
    child,
    module Heddle.Testkit.Threads,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.IO
import Heddle.Prim.Errno (Errno, errnoOf)
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.Threads
import Network.Socket qualified as N
import System.Directory (getSymbolicLinkTarget, listDirectory)
import System.Environment (getEnvironment, getExecutablePath)
import System.Exit (ExitCode)
import System.Posix.IO (OpenMode (..), closeFd, createPipe, dupTo)
import System.Posix.Types (Fd)
import System.Process (CreateProcess (..), proc, readCreateProcessWithExitCode)
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit

-- | The test once for each back end, in a runtime of its own that must leak nothing.
bothBackends :: TestName -> (Runtime -> Assertion) -> TestTree
bothBackends name body =
  testGroup name [testIn (show b) (withoutLeak (withRuntime defaultConfig {configBackend = b} body)) | b <- [Epoll, Poll]]

-- | A deadline that comes, when it has to.
soon :: IO Deadline
soon = deadlineIn (milliseconds 30)

-- | A deadline that does not come in a test that passes.
late :: IO Deadline
late = deadlineIn (seconds 50)

loopback :: N.SockAddr
loopback = N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1))

withLoopback :: Runtime -> (Listener -> IO a) -> IO a
withLoopback runtime = withListener runtime defaultListenOptions loopback

-- | Two ends of a TCP connection: the connecting one and the accepted one.
withPair :: Runtime -> (Conn -> Conn -> IO a) -> IO a
withPair runtime body = withLoopback runtime $ \listener -> do
  deadline <- late
  bracket (connectUntil runtime (listenerAddress listener) deadline >>= either throwIO pure) close $ \a ->
    bracket (accept listener) close (body a)

-- | Two ends of a Unix socket pair, adopted.
withUnixPair :: Runtime -> (Conn -> Conn -> IO a) -> IO a
withUnixPair runtime body = do
  (x, y) <- N.socketPair N.AF_UNIX N.Stream N.defaultProtocol
  bracket (adopt runtime x) close $ \a -> bracket (adopt runtime y) close (body a)

-- | A pipe's reading and writing end; a body that ends one early uses 'retire'.
withPipe :: ((Fd, Fd) -> IO a) -> IO a
withPipe = bracket createPipe (\(r, w) -> quietly (closeFd r) >> quietly (closeFd w))
  where
    quietly act = void (try act :: IO (Either IOException ()))

-- | Close the file of a descriptor, and keep its number occupied: 'withPipe' closes the number
-- later, when it must not belong to another file.
retire :: Fd -> IO ()
retire fd = bracket (openDescriptor "/dev/null" ReadOnly) closeFd (\null' -> void (dupTo null' fd))

-- | The process's descriptors, and what they refer to.
openDescriptors :: IO [(Fd, String)]
openDescriptors = listDirectory "/proc/self/fd" >>= fmap concat . mapM named
  where
    named fd =
      try (getSymbolicLinkTarget ("/proc/self/fd/" ++ fd)) >>= \case
        Left e -> const (pure []) (e :: IOException) -- the directory's own, closed by now
        Right target -> pure [(read fd, target)]

-- The timer of GHC's runtime system. A separate thread creates it some time after the program
-- has begun, and ends the process if that fails.
isTicker :: (Fd, String) -> Bool
isTicker (_, target) = target == "anon_inode:[timerfd]"

-- | Wait until GHC's runtime system has made all the descriptors that it needs.
waitTicker :: IO ()
waitTicker = waitUntilTrue (any isTicker <$> openDescriptors)

-- | Fail if the body leaves descriptors open.
withoutLeak :: IO a -> IO a
withoutLeak body = do
  _ <- systemRuntime
  before <- counted
  r <- body
  r <$ settled (length before) (10000 :: Int)
  where
    counted = filter (not . isTicker) <$> openDescriptors
    -- Other threads of the runtime system may hold descriptors temporarily.
    settled before tries = do
      now <- counted
      if length now <= before
        then pure ()
        else if tries == 0 then assertEqual ("open descriptors: " ++ show now) before (length now) else yield >> settled before (tries - 1)

-- | The bytes received.
got :: RecvResult ByteString -> IO ByteString
got = \case
  Got b -> pure b
  other -> assertFailure ("expected bytes, not " ++ show (fmap' B.length other))
  where
    fmap' f = \case
      Got b -> Got (f b)
      Eof -> Eof
      TimedOut -> TimedOut
      Closed -> Closed

-- | Expect an 'IOException' with this errno.
expectIOError :: Errno -> IO a -> Assertion
expectIOError wanted body =
  try body >>= \case
    Left e -> assertEqual (show e) (Just wanted) (errnoOf e)
    Right _ -> assertFailure ("expected " ++ show wanted)

-- | Run this program in a child process, which may run many tests, under a deadline of ten minutes, with a scenario's name in
-- @HEDDLE_TEST_CHILD@ and other variables: exit code, output, errors.
child :: String -> [(String, String)] -> [String] -> IO (ExitCode, String, String)
child scenario variables arguments = do
  program <- getExecutablePath
  inherited <- getEnvironment
  let ours = ("HEDDLE_TEST_CHILD", scenario) : variables
      environment = ours ++ filter ((`notElem` map fst ours) . fst) inherited
  timeout 600000000 (readCreateProcessWithExitCode (proc program arguments) {env = Just environment} "")
    >>= maybe (assertFailure ("the child process " ++ scenario ++ " did not end")) pure
