module ProcessTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (catch, finally)
import Control.Monad (forM_, replicateM_)
import Data.List.NonEmpty qualified as NonEmpty
import Heddle.Serve.Internal
import Heddle.Testkit.Descriptors (openDescriptors)
import Heddle.Testkit.Watchdog
import SiteFixture (withDirectory)
import System.Directory (doesFileExist)
import System.Environment (setEnv)
import System.FilePath ((</>))
import System.Posix.Process (executeFile, forkProcess)
import System.Posix.Signals (raiseSignal, sigKILL, signalProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (within)

tests :: TestTree
tests =
  testGroup
    "the process"
    [ testProperty "what a successor is given, it reads" $ \(NonNegative ready) (listeners :: [(String, NonEmptyList (NonNegative Int))]) ->
        let handover = Handover (fromIntegral (ready :: Int)) [(spec, NonEmpty.fromList [fromIntegral fd | NonNegative fd <- fds]) | (spec, NonEmpty fds) <- listeners]
         in parseHandover (renderHandover handover) === Just handover,
      testCase "what is not a handover is none" $ map parseHandover ["", "3", "(3)", "(-1,[])", "(3,[(\":80\",[])])", "(3,[(\":80\",[-4])])"] @?= replicate 6 Nothing,
      testCase "sockets for another process are not taken" $ do
        setEnv "LISTEN_PID" "1"
        setEnv "LISTEN_FDS" "2"
        found <- takeInherited
        inheritedSockets found @?= []
        inheritedHandover found @?= Nothing,
      testCase "aSecondServerOpenedItsOwnPipeForSignals" $ do
        heard <- newEmptyMVar
        onSignals [(sigUSR2, putMVar heard (0 :: Int))]
        before <- length <$> openDescriptors
        forM_ [1 .. 200] $ \n -> onSignals [(sigUSR2, putMVar heard n)]
        now <- length <$> openDescriptors
        -- Other tests may run at the same time.
        assertBool (show (before, now)) (now < before + 150)
        raiseSignal sigUSR2
        within 60000000 "the signal" (takeMVar heard) >>= (@?= 200),
      testCase "aStartingWorkerMissedTheSignal: what is passed on while it starts reaches it" missed,
      testProperty "users: what is read is what is written" $ \name group ->
        let spec = UserSpec (filter (/= ':') ('u' : name)) (if null group then Nothing else Just group)
         in parseUser (renderUser spec) === Right spec
    ]

-- The worker has read its files, and does not serve yet, when its supervisor is told that there are new ones.
missed :: IO ()
missed = withDirectory $ \d -> forM_ [1, 3 :: Int] $ \times -> do
  begun <- newEmptyMVar
  serves <- newEmptyMVar
  let heard = d </> show times
  supervised <-
    newSupervised
      Supervision
        { superviseNumber = 1,
          superviseStart = \_ _ -> do
            -- The trap stands when the file does.
            pid <- forkProcess (executeFile "/bin/sh" False ["-c", "trap 'echo hup >>" ++ heard ++ "; exit 0' HUP; : >" ++ heard ++ "; while :; do sleep 0.1; done"] Nothing)
            _ <- eventually "the worker to have read its files" (doesFileExist heard) id
            putMVar begun pid
            Right (fromIntegral pid) <$ takeMVar serves,
          superviseSuccessor = pure (Left "none"),
          superviseTell = \_ -> pure ()
        }
  started <- newEmptyMVar
  _ <- forkIO (beginWorker supervised 0 >>= putMVar started)
  pid <- within 60000000 "the start" (takeMVar begun)
  flip finally (signalProcess sigKILL pid `catch` \(_ :: IOError) -> pure ()) $ do
    replicateM_ times (passSignal supervised sigHUP)
    putMVar serves ()
    within 60000000 "the worker" (takeMVar started) >>= (@?= Right ())
    _ <- eventually "the worker to hear it" (readFile heard) (== "hup\n")
    pure ()
