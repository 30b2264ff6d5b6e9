-- | Servers' CPU time against what they say of themselves, and load.
module ServerTest (tests) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_, when)
import Heddle.Measure.Server
import Heddle.Prim.Clock (Nanos (..))
import System.Environment (getExecutablePath)
import System.IO (hClose, hFlush, hGetLine, hPutStrLn)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Server"
    [ testCase "aStalledServerIsNotHidden" $ do
        -- A request each millisecond, and one that takes 100 of them: 51 were due 50 ms or more before it ended.
        h <- openLoop (Load 1000 200) (\k -> when (k == 50) (threadDelay 100000))
        valueCount h @?= 200
        assertBool (show (counts h)) (quantile 0.75 h >= 50000000),
      testCase "aProcessWhoseThreadsCannotBeReadHadNone" $ do
        this <- getExecutablePath
        -- Without the run-time system's ticker, which may want a descriptor after the program has begun.
        said <- readProcess this ["program", "threads-without-descriptors", "+RTS", "-V0", "-RTS"] ""
        said @?= "thrown\n",
      testCase "CPU time of another process" $ do
        this <- getExecutablePath
        withCreateProcess (proc this ["program", "server"]) {std_in = CreatePipe, std_out = CreatePipe} $ \to from _ process -> case (to, from) of
          (Just input, Just answers) ->
            getPid process >>= \case
              Nothing -> assertFailure "no process"
              Just pid -> do
                used <- measureServer (fromIntegral pid) $ do
                  hPutStrLn input "3000000" >> hFlush input
                  own <- read <$> hGetLine answers
                  pure (own :: Int)
                threads <- threadUse (fromIntegral pid)
                hPutStrLn input "end" >> hClose input
                _ <- hGetLine answers
                _ <- waitForProcess process
                gone <- measureServer (fromIntegral pid) (pure 1)
                gone @?= Nothing
                goneToo <- threadUse (fromIntegral pid)
                goneToo @?= Nothing
                assertBool (show threads) (any (any ((> 0) . (\(Nanos n) -> n) . threadRan)) threads)
                forM_ used $ \use -> do
                  let Nanos cpu = serverCpu use
                  -- Its own clock ran while it was started, too.
                  assertBool (show use) (cpu > 0 && cpu < 2 * operations use + 100000000)
          _ -> assertFailure "no pipes"
    ]
