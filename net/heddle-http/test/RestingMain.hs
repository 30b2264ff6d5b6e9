-- | What HTTP/2 connections hold while they idle, and that they go on afterwards: in a process that does nothing else, because all
-- of its memory is counted.
module Main (main) where

import Control.Monad (when)
import Data.Int (Int64)
import EngineFixture (onBothBackends)
import H2Fixture
import Heddle.Http.Internal (liveSessions, restingSessions)
import Heddle.IO (BackendChoice)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Testkit.Watchdog
import System.Environment (setEnv)
import System.IO (hFlush, hGetLine, hPutStrLn)
import Test.Tasty
import Test.Tasty.HUnit (testCase, (@?=))

main :: IO ()
main = do
  -- One after the other. As a local option it has no effect.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain (testGroup "heddle-http resting" [onBothBackends "idle" tests])

tests :: BackendChoice -> [TestTree]
tests backend =
  [ testCase ("anIdleSessionKeptItsZeros: " ++ name) (mapM_ (rests peer most) [Clear, Agreed])
    | (name, peer, most) <-
        [ ("without a request", "rests_unused", 2000),
          ("after requests of 14 fields", "rests_used", 5500),
          ("with full tables", "rests_full", 21500)
        ]
  ]
  where
    rests peer most kind =
      withSite backend kind settings $ \at -> do
        seen <- newRef (0, 0)
        talkToPeer at peer 0 $ \input output -> do
          count <- read <$> hGetLine output
          -- Some of them rest only when the connection's thread has been given up, a second after its last request.
          _ <- eventually "every session to rest" restingSessions (== count)
          held <- c_held
          hPutStrLn input "on" >> hFlush input
          hGetLine output >>= (@?= "answered")
          restingSessions >>= (@?= 0)
          hPutStrLn input "on" >> hFlush input
          writeRef seen (count, held)
        _ <- eventually "every session to end" liveSessions (== 0)
        left <- c_held
        (count, held) <- readRef seen
        let each = (held - left) `quot` fromIntegral count
        when (each > most) $ unexpected ("at most " ++ show most ++ " bytes for each session") (show each)

foreign import ccall unsafe "heddle_test_held" c_held :: IO Int64
