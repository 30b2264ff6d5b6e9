{-# LANGUAGE TypeApplications #-}

-- | Memory from process to process.
module FastTest
  ( cases,
  )
where

import Control.Monad (forM, forM_)
import Data.ByteString qualified as Bytes
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Fast
import Ranks

cases :: [Case]
cases =
  [ anywhere "a ring of vectors by sendrecv" $ do
      (rank, size) <- place
      let mine = Vector.generate 1000 (\i -> fromIntegral (i + rank)) :: Vector.Vector Double
      theirs <- Mutable.new 1000
      status <- sendrecv commWorld (toRank ((rank + 1) `mod` size)) 7 mine (toRank ((rank - 1) `mod` size)) 7 theirs
      got <- Vector.freeze theirs
      got === Vector.map (\x -> x - fromIntegral rank + fromIntegral ((rank - 1) `mod` size)) mine
      statusCount @Double status === Just 1000
      statusTag status === 7,
    onRanks [2 .. 4] "large messages, of more than what is sent at once" $ do
      (rank, size) <- place
      let mine = Bytes.replicate 5000000 (fromIntegral rank)
      requests <- forM [r | r <- [0 .. size - 1], r /= rank] (\r -> isend commWorld (toRank r) 1 mine)
      forM_ [r | r <- [0 .. size - 1], r /= rank] $ \r -> do
        (got, status) <- recvNew @Int commWorld (toRank r) 1 1000000
        statusBytes status === 5000000
        Vector.length got === 625000
        Vector.all (== r * 0x0101010101010101) got === True
      _ <- waitAll requests
      pure ()
  ]

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
