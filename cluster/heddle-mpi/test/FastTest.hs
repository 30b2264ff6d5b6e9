{-# LANGUAGE TypeApplications #-}

-- | Memory from process to process.
module FastTest
  ( cases,
  )
where

import Control.Concurrent (threadDelay)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, when, (>=>))
import Control.Monad.Primitive (RealWorld)
import Data.ByteString qualified as Bytes
import Data.Primitive.PrimArray
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Foreign.C.Types (CInt (..))
import Heddle.MPI
import Heddle.MPI.Collective (allgatherValue, barrier)
import Heddle.MPI.Fast
import Heddle.Prim.Clock (deadlineIn, milliseconds, monotonicNow, seconds)
import Heddle.Prim.Exception (throwIO, trySync)
import Heddle.Prim.Thread (fork)
import Ranks
import System.Mem (performGC, performMajorGC)

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
    anywhere "ready mode, to a receive that is posted" $ do
      (rank, size) <- place
      let mine = Vector.generate 100000 (+ rank)
          to = toRank ((rank + 1) `mod` size)
          from = (rank - 1) `mod` size
      forM_ [rsend commWorld to 3 mine, irsend commWorld to 3 mine >>= wait] $ \sending -> do
        request <- irecvNew commWorld (toRank from) 3 100000
        barrier commWorld
        sending
        (got, status) <- wait request
        assert "what was sent" (got == Vector.generate 100000 (+ from))
        statusSource status === toRank from,
    anywhere "MPI's clock ticks" $ do
      initialized >>= (=== True)
      tick <- wtick
      begun <- wtime
      let later = wtime >>= \now -> if now > begun then pure now else later
      now <- later
      assert (show tick ++ " s for a tick") (tick > 0 && tick < 1)
      assert "a tick passed" (now - begun >= tick * 0.5),
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
      pure (),
    onRanks [2 .. 4] "probes, and messages that were found" $ do
      (rank, size) <- place
      let to = toRank ((rank + 1) `mod` size)
          from = toRank ((rank - 1) `mod` size)
          mine = Vector.generate 10 (+ rank) :: Vector.Vector Int
      nothing <- iprobe commWorld from 4
      nothing === Nothing
      barrier commWorld
      bsend commWorld to 4 mine
      status <- probe commWorld from anyTag
      (statusSource status, statusTag status, statusCount @Int status) === (from, 4, Just 10)
      (got, _) <- recvNew commWorld from 4 100
      got === Vector.map (\x -> x - rank + (rank - 1) `mod` size) mine
      bsend commWorld to 5 mine
      found <- mprobe commWorld anySource 5
      statusCount @Int (foundStatus found) === Just 10
      (again, _) <- mrecvNew found
      again === got
      throws [InvalidRequest] (mrecvNew found :: IO (Vector.Vector Int, Status))
      bsend commWorld to 6 mine
      later <- improbe commWorld from 6 >>= wait
      into <- Mutable.new 10
      _ <- mrecv later into
      Vector.freeze into >>= (=== got),
    onRanks [2 .. 4] "persistent requests" $ do
      (rank, size) <- place
      out <- Mutable.replicate 3 (0 :: Double)
      into <- Mutable.replicate 3 (0 :: Double)
      sender <- sendInit commWorld (toRank ((rank + 1) `mod` size)) 8 out
      receiver <- recvInit commWorld (toRank ((rank - 1) `mod` size)) 8 into
      forM_ [1 .. 20] $ \i -> do
        Mutable.set out (fromIntegral rank + i)
        receive <- startRequest receiver
        sent <- startRequest sender
        status <- wait receive
        wait sent
        statusBytes status === 24
        x <- Mutable.read into 2
        x === fromIntegral ((rank - 1) `mod` size) + i
      closePersistent sender
      closePersistent receiver
      throws [AlreadyClosed] (closePersistent sender)
      throws [AlreadyClosed] (startRequest receiver >>= wait),
    anywhere "a persistent send of an unpinned array sends what is in it each time" $ do
      (rank, size) <- place
      out <- newPrimArray 3 :: IO (MutablePrimArray RealWorld Int)
      into <- newPrimArray 3 :: IO (MutablePrimArray RealWorld Int)
      sender <- sendInit commWorld (toRank ((rank + 1) `mod` size)) 8 out
      receiver <- recvInit commWorld (toRank ((rank - 1) `mod` size)) 8 into
      forM_ [1 .. 20] $ \i -> do
        setPrimArray out 0 3 (100 * i + rank)
        receive <- startRequest receiver
        sent <- startRequest sender
        _ <- wait receive
        wait sent
        got <- primArrayToList <$> freezePrimArray into 0 3
        got === replicate 3 (100 * i + (rank - 1) `mod` size)
      closePersistent sender
      setPrimArray into 0 3 5
      closePersistent receiver
      freezePrimArray into 0 3 >>= (=== [5, 5, 5]) . primArrayToList,
    anywhere "a persistent request that is under way is neither started nor closed" $ do
      (rank, _) <- place
      into <- Mutable.replicate 1 (0 :: Int)
      receiver <- recvInit commWorld (toRank rank) 9 into
      first <- startRequest receiver
      throws [InvalidRequest] (startRequest receiver)
      throws [InvalidRequest] (closePersistent receiver)
      sendValue commWorld (toRank rank) 9 (3 :: Int)
      _ <- wait first
      second <- startRequest receiver
      cancel second >>= (=== True)
      -- A cancelled or failed persistent request can be started again.
      third <- startRequest receiver
      send commWorld (toRank rank) 9 (Vector.fromList [1, 2, 3 :: Int])
      -- Open MPI 4.1 does not report this error.
      _ <- trySync (wait third)
      fourth <- startRequest receiver
      sendValue commWorld (toRank rank) 9 (4 :: Int)
      _ <- wait fourth
      Mutable.read into 0 >>= (=== 4)
      closePersistent receiver,
    anywhere "the table of operations shrinks after 5,000 receives" $ do
      (rank, _) <- place
      into <- Mutable.replicate 1 (0 :: Int)
      requests <- forM [1 .. 5000] (\i -> irecv commWorld (toRank rank) (toTag (i :: Int)) into)
      most <- c_engine_capacity
      assert (show most ++ " entries") (most >= 5000)
      forM_ [5000, 4999 .. 1] (\i -> sendValue commWorld (toRank rank) (toTag (i :: Int)) i)
      mapM_ wait requests
      deadline <- deadlineIn (seconds 30)
      let shrunk = do
            n <- c_engine_capacity
            over <- (>= deadline) <$> monotonicNow
            assert (show n ++ " entries are left") (n < 2048 || not over)
            when (n >= 2048) (threadDelay 1000 >> shrunk)
      shrunk
      -- Slots from before the table shrank are not taken for present ones.
      again <- forM [1 .. 1500] (\i -> irecv commWorld (toRank rank) (toTag (i :: Int)) into)
      mapM_ wait requests
      forM_ [1 .. 1500] (\i -> sendValue commWorld (toRank rank) (toTag (i :: Int)) i)
      mapM_ wait again,
    onRanks [2 .. 4] "messages that are too long, or no whole number of elements" $ do
      (rank, _) <- place
      when (rank == 0) $ do
        send commWorld 1 1 (Vector.replicate 10 (0 :: Int))
        send commWorld 1 2 (Bytes.replicate 13 7)
        sendValue commWorld 1 3 (1 :: Int)
        sendValue commWorld 1 4 (9 :: Int)
      when (rank == 1) $ do
        short <- Mutable.new 5 :: IO (Mutable.IOVector Int)
        throws [Truncated] (recv commWorld 0 1 short)
        throws [SizeMismatch] (recvNew commWorld 0 2 10 :: IO (Vector.Vector Int, Status))
        throws [Truncated, SizeMismatch] (recvValue commWorld 0 3 :: IO (Char, Status))
        (v, _) <- recvValue commWorld 0 4
        v === (9 :: Int),
    anywhere "nobody is nobody" $ do
      sendValue commWorld noRank 1 (1 :: Int)
      into <- Mutable.replicate 1 (5 :: Int)
      status <- recv commWorld noRank 1 into
      (statusSource status, statusBytes status) === (noRank, 0)
      x <- Mutable.read into 0
      x === 5,
    onRanks [2 .. 4] "requests that are dropped are done all the same, whatever is collected" $ do
      (rank, size) <- place
      let to = toRank ((rank + 1) `mod` size)
          from = toRank ((rank - 1) `mod` size)
      forM_ [1 .. 20 :: Int] $ \i -> do
        _ <- isend commWorld to 1 (Vector.replicate 20000 i)
        performMajorGC
        _ <- Mutable.replicate 20000 (-1 :: Int)
        performGC
        (got, _) <- recvNew commWorld from 1 20000
        assert "what was sent" (Vector.all (== i) got),
    onRanks [2, 3] "two threads of each rank at once" $ do
      (rank, size) <- place
      let to = toRank ((rank + 1) `mod` size)
          from = toRank ((rank - 1) `mod` size)
          talk tag = forM_ [1 .. 300 :: Int] $ \i -> do
            sent <- isend commWorld to tag (Vector.replicate (i * 7) (i + fromEnum tag))
            (got, _) <- recvNew commWorld from tag 3000
            assert "what was sent" (got == Vector.replicate (i * 7) (i + fromEnum tag))
            wait sent
      ended <- forM [11, 12, 13] $ \tag -> do
        cell <- newEmptyMVar
        _ <- fork "test/talk" (trySync (talk tag) >>= putMVar cell)
        pure cell
      mapM_ (takeMVar >=> either throwIO pure) ended,
    onRanks [2] "500 threads that wait, each for its tag" $ do
      (rank, _) <- place
      let n = 500 :: Int
      if rank == 0
        then do
          cells <- forM [1 .. n] $ \i -> do
            cell <- newEmptyMVar
            _ <- fork "test/waits" (trySync (recvValue commWorld 1 (toTag i)) >>= putMVar cell)
            pure cell
          sendValue commWorld 1 0 n
          got <- mapM (takeMVar >=> either throwIO pure) cells
          map fst got === map (* 3) [1 .. n]
        else do
          _ <- recvValue commWorld 0 0 :: IO (Int, Status)
          forM_ [n, n - 1 .. 1] (\i -> sendValue commWorld 0 (toTag i) (3 * i)),
    anywhere "a deadline that passes, and a receive that is cancelled" $ do
      (rank, _) <- place
      into <- Mutable.replicate 1 (0 :: Int)
      request <- irecv commWorld (toRank rank) 21 into
      soon <- deadlineIn (milliseconds 20)
      waitUntil soon request >>= (=== Nothing)
      cancel request >>= (=== True)
      throws [Cancelled] (wait request)
      cancel request >>= (=== True),
    onRanks [2] "a message of more than 2 GiB, where there is the memory" $ do
      (rank, _) <- place
      enough <- (>= 12000000) <$> availableKilobytes
      both <- allgatherValue commWorld (if enough then 1 else 0 :: Int)
      let n = 268435456 + 1000
      when (Vector.sum both == 2) $
        if rank == 0
          then do
            big <- Mutable.replicate n (1 :: Double)
            Mutable.write big (n - 1) 77
            send commWorld 1 1 big
          else do
            big <- Mutable.new n
            status <- recv commWorld 0 1 big
            statusCount @Double status === Just n
            end <- (,) <$> Mutable.read big (n - 2) <*> Mutable.read big (n - 1)
            end === (1 :: Double, 77)
  ]

foreign import ccall unsafe "heddle_mpi_engine_capacity" c_engine_capacity :: IO CInt -- a lock kept for a moment

-- A value of /proc/meminfo.
availableKilobytes :: IO Int
availableKilobytes = do
  text <- readFile "/proc/meminfo"
  pure (sum [read n | "MemAvailable:" : n : _ <- map words (lines text)])

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
