{-# LANGUAGE ViewPatterns #-}

-- | Messages from rank 0 to rank 1, 16 at a time, which rank 1 then confirms by one byte. The twin in C
-- is @c/mpi_bandwidth.c@.
module Main
  ( main,
  )
where

import Control.Monad (replicateM, replicateM_)
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word8)
import Heddle.MPI
import Heddle.MPI.Fast
import Samples
import System.Environment (getArgs)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [bytes, messages, times]) -> mpi $ do
      -- Each message of a window has memory of its own.
      buffers <- replicateM window (Mutable.replicate bytes (1 :: Word8))
      let windows = (messages + window - 1) `div` window
      sampled times window windows (windowsOf buffers)
    _ -> usage "BYTES MESSAGES TIMES"

window :: Int
window = 16

windowsOf :: [Mutable.IOVector Word8] -> Int -> IO Double
windowsOf buffers windows = do
  rank <- commRank commWorld
  let tagged = zip [0 ..] buffers
      confirmed = toTag window
  replicateM_ windows $
    if rank == 0
      then do
        mapM (uncurry (isend commWorld 1)) tagged >>= mapM_ wait
        (_ :: Word8, _) <- recvValue commWorld 1 confirmed
        pure ()
      else do
        mapM (uncurry (irecv commWorld 0)) tagged >>= mapM_ wait
        sendValue commWorld 0 confirmed (1 :: Word8)
  pure (fromIntegral (windows * window))
