-- | Threads that take and give back units of one semaphore, as often as they can: a thread on each
-- capability, with the book's two semaphores and with ours. The answer is how many units were refused.
module Main
  ( main,
  )
where

import Control.Concurrent (forkOn, getNumCapabilities, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM)
import Heddle.Measure.Contender (Contender, contender, contenderMain, twoNumbers)
import Heddle.Par.Semaphore

main :: IO ()
main =
  contenderMain
    (twoNumbers "SIZE" "GRAIN")
    [ semaphore "mvar" newNBSem tryAcquireNBSem releaseNBSem,
      semaphore "atomic" newAtomicNBSem tryWaitNBSem signalNBSem,
      semaphore "fetch-add" newSemaphore tryAcquire release
    ]

-- | There are enough units for everybody, so none is refused.
semaphore :: String -> (Int -> IO s) -> (s -> IO Bool) -> (s -> IO ()) -> Contender (Int, Int)
semaphore name new acquire release' = contender name $ \(size, _) -> do
  capabilities <- getNumCapabilities
  units <- new (4 * capabilities)
  ends <- forM [0 .. capabilities - 1] $ \capability -> do
    end <- newEmptyMVar
    _ <- forkOn capability (rounds units size 0 >>= putMVar end)
    pure end
  sum <$> mapM takeMVar ends
  where
    rounds units = go
      where
        go :: Int -> Int -> IO Int
        go 0 !refused = pure refused
        go n !refused = do
          taken <- acquire units
          if taken then release' units >> go (n - 1) refused else go (n - 1) (refused + 1)
{-# INLINE semaphore #-}
