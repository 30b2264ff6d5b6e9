{-# LANGUAGE ViewPatterns #-}

-- | Messages of eight bytes from rank 0 to rank 1, which has posted all receives before, in the reverse
-- order: each message is the last that is looked for. The twin in C is @c/mpi_reverse.c@.
module Main
  ( main,
  )
where

import Control.Monad (forM)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import Heddle.MPI.Fast (irecv, isend)
import Samples
import System.Environment (getArgs)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [messages, times]) -> mpi $ do
      rank <- commRank commWorld
      buffers <- mapM Mutable.new [1 | _ <- [1 .. messages]] :: IO [Mutable.IOVector Int]
      sampled times messages 1 $ \_ -> do
        receives <- forM (if rank == 1 then zip [messages - 1, messages - 2 ..] buffers else []) $ \(tag, buffer) ->
          irecv commWorld 0 (toTag tag) buffer
        barrier commWorld
        sends <- forM (if rank == 0 then [0 .. messages - 1] else []) $ \tag ->
          isend commWorld 1 (toTag tag) (Vector.singleton tag)
        mapM_ wait sends
        mapM_ wait receives
        barrier commWorld
        pure (fromIntegral messages)
    _ -> usage "MESSAGES TIMES"
