{-# LANGUAGE OverloadedStrings #-}

-- | Each system call fails in turn, with each error that it can have; each allocation of libssl fails. The peer is told or
-- disconnected, nothing is left, and the server serves the next.
module FailureTest (startFailing, liveAllocations, Call (..), failing, tests) where

import Control.Exception (SomeException, bracket, bracket_, try)
import Control.Monad (forM, forM_, unless, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef (atomicModifyIORef')
import Data.List (isInfixOf)
import Fixture
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..), CLong (..))
import Heddle.Prim.Errno
import Heddle.Prim.Exception (displayException)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import System.Directory (copyFile, removeFile)
import Test.Tasty
import Test.Tasty.HUnit

-- Unsafe: sets a few words.
foreign import ccall unsafe "faults_start" c_start :: IO CInt

-- Unsafe: sets a few words.
foreign import ccall unsafe "faults_want" c_want :: CInt -> CInt -> CInt -> CString -> IO ()

-- Unsafe: sets a few words.
foreign import ccall unsafe "faults_end" c_end :: IO CInt

-- Unsafe: reads a word.
foreign import ccall unsafe "faults_seen" c_seen :: CInt -> IO CLong

-- Unsafe: reads a word.
foreign import ccall unsafe "faults_allocated" c_allocated :: IO CLong

-- | Allocations of libssl and of the shim that are not freed.
liveAllocations :: IO Int
liveAllocations = fromIntegral <$> c_allocated

-- | In the order of test/cbits/faults.c.
data Call = Receive | Send | Accept | Register | Open | Status | Read | Allocate | Option
  deriving stock (Enum, Eq, Show)

-- | Before anything uses libssl.
startFailing :: IO ()
startFailing = c_start >>= \r -> when (r /= 1) (unexpected "to be libssl's allocator" "it has allocated already")

-- | Number @n@ of these calls, from 0 on, fails during the body, where the path has this part. Whether one did.
failing :: Call -> Errno -> Int -> String -> IO a -> IO (a, Bool)
failing call e n path body = do
  r <- bracket_ (withCString path (c_want (number call) (fromIntegral (errnoNumber e)) (fromIntegral n))) c_end body
  failed <- c_end
  pure (r, failed /= 0)

number :: Call -> CInt
number = fromIntegral . fromEnum

tests :: Folder -> TestTree
tests folder =
  testGroup
    "failures"
    [ testGroup "of a system call" (systemCalls folder),
      testGroup "of a file, at start" (files folder),
      testCase "of a file, at reload: what was loaded stays, and a failure that passes is forgotten" (reload folder),
      testCase "of each allocation in a conversation" (allocations folder),
      testCase "of allocations while a site is loaded" (loading folder)
    ]

-- One conversation; the client's answers are either right or missing.
converse :: Echo -> TlsClient -> IO (Either SomeException ())
converse echo tls = do
  r <- try . patiently "an end of the conversation" $
    connectingWith echo tls "localhost" $ \case
      Left why -> pure (Left why)
      Right (transport, _) -> do
        writeAll transport message
        Right <$> readAll transport (B.length message)
  case r of
    Right (Right got) | B.isPrefixOf got message -> pure ()
    Right (Right got) -> assertFailure ("the answer was " ++ show got)
    Right (Left why) -> assertBool "a reason" (not (null why))
    Left _ -> pure ()
  pure (void r)
  where
    message = C.pack (take 3000 (cycle "the quick brown fox "))

systemCalls :: Folder -> [TestTree]
systemCalls folder =
  [ testCase (show call ++ ": " ++ describeErrno e) . nothingIsLeft $ do
      loaded <- site folder ["good"]
      withEcho loaded $ \echo -> do
        hits <- forM [0 .. 11] $ \n -> do
          tls <- client (trusting folder)
          (r, failed) <- failing call e n "" (converse echo tls)
          case r of
            Left why | harmless || not failed -> assertFailure ("call " ++ show n ++ ": " ++ displayException why)
            _ -> pure ()
          pure failed
        assertBool "the first call failed" (head hits)
        -- A connection that cannot be registered is reported.
        when (call == Register) $ atomicModifyIORef' (echoFailures echo) (const ([], ()))
        -- The server is as good as before.
        tls <- client (trusting folder)
        connecting echo tls "localhost" (\t _ -> ask t "x")
    | (call, errors, harmless) <-
        [ (Receive, [EINTR], True),
          (Receive, [ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOMEM, EIO], False),
          (Send, [EINTR], True),
          (Send, [EPIPE, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENOBUFS, ENOMEM], False),
          -- The connection waits in the queue meanwhile.
          (Accept, [EINTR, ECONNABORTED, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EPROTO], True),
          (Register, [ENOMEM, ENOSPC], False)
        ],
      e <- errors
  ]

files :: Folder -> [TestTree]
files folder =
  [ testCase (show call ++ " of " ++ file ++ ": " ++ describeErrno e) . nothingIsLeft $ do
      let load = loadSite (defaultTlsConfig [pair folder "good"])
      (r, failed) <- failing call e 0 file load
      assertBool "it failed" failed
      case r of
        Left [problem] -> do
          let text = displayException problem
          assertBool text (("/" ++ file) `isInfixOf` text && describeErrno e `isInfixOf` text)
        Left problems -> assertFailure (show problems)
        Right _ -> assertFailure "loaded"
      void (load >>= either (unexpected "a site" . show) pure)
    | file <- ["good.pem", "good.key"],
      (call, errors) <- [(Open, [EACCES, EMFILE, ENFILE, ENOMEM, ELOOP, EIO]), (Status, [EIO, ENOMEM]), (Read, [EIO, EISDIR, ENOMEM])],
      e <- errors
  ]

reload :: Folder -> IO ()
reload folder = nothingIsLeft . bracket fresh (\_ -> mapM_ removeFile [folder ++ "/turning.pem", folder ++ "/turning.key"]) $ \_ -> do
  loaded <- siteOf (defaultTlsConfig [pair folder "turning"])
  withEcho loaded $ \echo -> do
    let look = reloadWhenChanged (echoListener echo)
        serves name = client (trusting folder) >>= \tls -> connecting echo tls name (\t _ -> ask t "x")
        -- Looking opens and asks each file before anything is loaded.
        failures = [(Open, 1), (Status, 1), (Read, 0)]
    forM_ [(file, call, n, e) | file <- ["turning.pem", "turning.key"], (call, n) <- failures, e <- [EIO, ENOMEM]] $ \(file, call, n, e) -> do
      turn "a"
      (r, failed) <- failing call e n file look
      assertBool ("it failed: " ++ show (file, call)) failed
      case r of
        KeptOld [problem] -> assertBool (show problem) (file `isInfixOf` show problem && describeErrno e `isInfixOf` show problem)
        KeptOld problems -> assertFailure (show problems)
        Unchanged -> assertFailure "unchanged"
        Reloaded _ -> assertFailure "reloaded"
      serves "localhost"
      -- The files are as they were when they were refused.
      look >>= \case
        Reloaded _ -> pure ()
        KeptOld problems -> assertFailure (show problems)
        Unchanged -> assertFailure "a failure that has passed was remembered"
      serves "a.example"
      turn "good"
      look >>= \case
        Reloaded _ -> pure ()
        _ -> assertFailure "the first pair was not loaded again"
  where
    fresh = turn "good"
    turn name = forM_ [".pem", ".key"] $ \end -> copyFile (folder ++ "/" ++ name ++ end) (folder ++ "/turning" ++ end)

-- Each allocation of a conversation, the client's and the server's, those of libssl and of the shim.
allocations :: Folder -> IO ()
allocations folder = nothingIsLeft $ do
  loaded <- site folder ["good"]
  withEcho loaded $ \echo -> do
    tls <- client (trusting folder)
    _ <- converse echo tls
    count <- allocationsOf (converse echo tls)
    assertBool (show count) (count > 100)
    failures <- forM [0 .. count :: Int] $ \n -> do
      (r, failed) <- failing Allocate ENOMEM n "" (converse echo tls)
      unless failed (either (assertFailure . displayException) pure r)
      pure (either (const 1) (const 0) r)
    -- Some are survived.
    assertBool (show failures) (sum failures > (10 :: Int))
    connecting echo tls "localhost" (\t _ -> ask t "x")

-- With a staple, authorities, a name for each kind of table.
loading :: Folder -> IO ()
loading folder = nothingIsLeft $ do
  let load = loadSite (defaultTlsConfig [(pair folder "goodchain") {pairKey = PemFile (folder ++ "/good.key"), pairStaple = Just (folder ++ "/good.ocsp")}, pair folder "a"]) {tlsClients = WantClientCertificates (PemFile (folder ++ "/ca.pem")), tlsProtocols = ["http/1.1"]}
  _ <- load
  count <- allocationsOf load
  failures <- forM [0, 23 .. count :: Int] $ \n -> do
    (r, failed) <- failing Allocate ENOMEM n "" load
    unless failed (either (assertFailure . show) (const (pure ())) r)
    pure (either (const 1) (const 0) r)
  assertBool (show failures) (sum failures > (10 :: Int))
  either (assertFailure . show) (const (pure ())) =<< load

-- How many allocations an action makes, when none fails.
allocationsOf :: IO a -> IO Int
allocationsOf act = do
  withCString "" (c_want (-1) 0 0)
  _ <- act
  fromIntegral <$> c_seen (number Allocate)
