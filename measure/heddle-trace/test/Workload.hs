-- | What logs of this runtime are about: two threads that wake each other, sparks, messages, a collection.
module Workload
  ( workload,
    withWorkload,
  )
where

import Control.Concurrent
import Control.Monad (forM_)
import Data.ByteString qualified as B
import Debug.Trace (traceEventIO, traceMarkerIO)
import GHC.Conc (labelThread)
import Heddle.Prim.Thread (spark)
import Heddle.Prim.Trace (mark)
import Logs
import System.Environment (getExecutablePath)
import System.Mem (performMajorGC)
import System.Process (callProcess)

-- | The program.
workload :: IO ()
workload = do
  ping <- newEmptyMVar
  pong <- newEmptyMVar
  t <- forkIO (forM_ [1 .. 50 :: Int] (\i -> takeMVar ping >> traceEventIO ("turn " ++ show i) >> putMVar pong ()))
  labelThread t "pong"
  forM_ [1 .. 50 :: Int] (\i -> spark (sum [1 .. i]) >> putMVar ping () >> takeMVar pong)
  mapM_ mark [minBound ..]
  traceMarkerIO "done"
  performMajorGC

-- | The log of such a program, with these classes of events (@-l@). It is a process of its own: a log of this one would slow all tests
-- down.
withWorkload :: String -> (FilePath -> IO a) -> IO a
withWorkload classes act = withBytes B.empty $ \path -> do
  program <- getExecutablePath
  callProcess program ["workload", "+RTS", "-N2", classes, "-ol" ++ path, "-RTS"]
  act path
