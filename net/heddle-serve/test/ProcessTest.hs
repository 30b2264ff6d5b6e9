module ProcessTest (tests) where

import Control.Concurrent.MVar
import Control.Monad (forM_)
import Data.List.NonEmpty qualified as NonEmpty
import Heddle.Serve.Internal
import Heddle.Testkit.Descriptors (openDescriptors)
import Heddle.Testkit.Watchdog
import System.Environment (setEnv)
import System.Posix.Signals (raiseSignal)
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
      testProperty "users: what is read is what is written" $ \name group ->
        let spec = UserSpec (filter (/= ':') ('u' : name)) (if null group then Nothing else Just group)
         in parseUser (renderUser spec) === Right spec
    ]
