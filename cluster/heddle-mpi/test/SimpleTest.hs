{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}

-- | Values from process to process.
module SimpleTest
  ( cases,
  )
where

import Control.Concurrent (forkIO, isCurrentThreadBound)
import Control.Concurrent.STM (atomically, orElse)
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import GHC.Generics (Generic)
import Heddle.MPI
import Heddle.MPI.Collective qualified as Fast
import Heddle.MPI.Operator (operator)
import Heddle.MPI.Simple
import Heddle.Prim.Exception (trySync)
import Ranks

data Reading = Reading
  { readingName :: String,
    readingValues :: Vector Double,
    readingRaw :: ByteString,
    readingNext :: Maybe Reading
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

reading :: Int -> Int -> Reading
reading n r = Reading ("of " ++ show r) (Vector.generate n fromIntegral) (Bytes.replicate n (fromIntegral r)) (if n > 0 then Just (reading (n `div` 4) r) else Nothing)

cases :: [Case]
cases =
  [ onRanks [2 .. 4] "values of many types, from rank to rank" $ do
      (r, size) <- place
      let to = toRank ((r + 1) `mod` size)
          from = toRank ((r - 1) `mod` size)
          left = (r - 1) `mod` size
          pass :: (Message a, Eq a, Show a) => (Int -> a) -> IO ()
          pass make = do
            (got, status) <- sendrecv commWorld to 3 (make r) from 3
            got === make left
            statusSource status === from
            statusTag status === 3
      pass (const ())
      pass (fromIntegral :: Int -> Double)
      pass show
      pass (\i -> (i, Just (even i), [Left i, Right "x"] :: [Either Int String]))
      pass (\i -> Map.fromList [(show k, [k .. k + i]) | k <- [1 .. 50]] :: Map String [Int])
      forM_ [0, 3, 100, 1000, 100000, 3000000] (pass . reading),
    onRanks [2 .. 4] "tags tell messages apart, in any order" $ do
      (r, size) <- place
      when (r == 0) (forM_ [1 .. size - 1] (\k -> forM_ [1 .. 20 :: Int] (\i -> send commWorld (toRank k) (toTag i) (i * k))))
      when (r > 0) $ do
        got <- forM [20, 19 .. 1 :: Int] (\i -> fst <$> recv commWorld 0 (toTag i))
        got === [i * r | i <- [20, 19 .. 1]],
    onRanks [2 .. 4] "from anybody, with any tag" $ do
      (r, size) <- place
      if r == 0
        then do
          got <- replicateM (size - 1) (recv commWorld anySource anyTag)
          forM_ got (\(v, status) -> (v, statusTag status) === (fromIntegral (statusSource status) * 7 :: Int, toTag (fromEnum (statusSource status))))
        else send commWorld 0 (toTag r) (r * 7),
    onRanks [2 .. 4] "readyModeOfAValueWhoseReceiverProbes" $ do
      (r, size) <- place
      if r == 0
        then do
          waiting <- forM [1 .. size - 1] (\from -> irecv commWorld (toRank from) 1)
          forM_ [1 .. size - 1] (\to -> send commWorld (toRank to) 2 ())
          forM_ (zip [1 ..] waiting) $ \(from, request) -> do
            (got, _) <- wait request
            got === reading 100000 from
        else do
          ((), _) <- recv commWorld 0 2
          rsend commWorld 0 1 (reading 100000 r),
    -- Every hand-over to a bound thread takes tens of microseconds.
    anywhere "theProgramRanOnABoundThread" (isCurrentThreadBound >>= (=== False)),
    anywhere "aCollectiveOfValuesForkedAThread" $ do
      (r, size) <- place
      let root = toRank (size - 1)
      forM_
        [ void (bcast commWorld root r),
          void (gather commWorld root (replicate 2000 r)),
          void (scatter commWorld root [0 .. size - 1]),
          void (allgather commWorld r),
          void (alltoall commWorld (replicate size r)),
          void (reduce commWorld root (+) r),
          void (allreduce commWorld (+) r),
          void (scan commWorld (+) r),
          void (exscan commWorld (+) r),
          void (Fast.allreduceValue commWorld (operator (+)) r)
        ]
        $ \collective -> do
          -- The first one makes the duplicate of the communicator.
          collective
          before <- nextThread
          replicateM_ 50 collective
          after <- nextThread
          assert (show (after - before - 1) ++ " threads for 50 calls") (after - before < 25),
    anywhere "aRootWithoutAListLeftTheOthersWaiting" $ do
      (_, size) <- place
      for' <- trySync (scatter commWorld 0 (error "no list" :: [Int]))
      assert "all throw" (either (const True) (const False) for')
      scatter commWorld 0 [1 .. size] >>= \n -> commRank commWorld >>= \r -> n === fromEnum r + 1,
    anywhere "to oneself, without waiting" $ do
      (r, _) <- place
      a <- isend commWorld (toRank r) 1 (reading 100000 r)
      b <- issend commWorld (toRank r) 2 "second"
      (second, _) <- recv commWorld (toRank r) 2
      second === "second"
      (got, _) <- recv commWorld (toRank r) 1
      got === reading 100000 r
      wait a
      wait b,
    anywhere "requests in transactions" $ do
      (r, _) <- place
      late <- irecv commWorld (toRank r) 5 :: IO (Request (Int, Status))
      soon <- irecv commWorld (toRank r) 6 :: IO (Request (Int, Status))
      bsend commWorld (toRank r) 6 (1 :: Int)
      first <- atomically ((Left . fst <$> await late) `orElse` (Right . fst <$> await soon))
      first === Right 1
      again <- fst <$> wait soon
      again === 1
      nothing <- test late
      fmap fst nothing === Nothing
      bsend commWorld (toRank r) 5 (2 :: Int)
      (i, (v, _)) <- waitAny [late]
      (i, v) === (0, 2),
    anywhere "a receive that is cancelled" $ do
      (r, _) <- place
      request <- irecv commWorld (toRank r) 9 :: IO (Request (Int, Status))
      gone <- cancel request
      gone === True
      throws [Cancelled] (wait request)
      bsend commWorld (toRank r) 9 (4 :: Int)
      (v, _) <- recv commWorld (toRank r) 9
      v === (4 :: Int),
    onRanks [2 .. 4] "bytes that are no value of the type: the message is consumed" $ do
      (r, _) <- place
      when (r == 1) (send commWorld 0 1 "text" >> send commWorld 0 1 (42 :: Int))
      when (r == 0) $ do
        throws [DecodeError] (recv commWorld 1 1 :: IO ([Maybe Double], Status))
        (v, _) <- recv commWorld 1 1
        v === (42 :: Int),
    anywhere "a value that cannot be evaluated is not sent" $ do
      (r, _) <- place
      outcome <- trySync (send commWorld (toRank r) 1 [1, error "no" :: Int])
      either (const True) (const False) outcome === True,
    anywhere "collectives of small and large values" . eachRoot $ \root -> do
      (r, size) <- place
      forM_ [0, 10, 60, 200, 5000, 200000] $ \n -> do
        let mine = reading (n * (r + 1)) r
            all' = [reading (n * (k + 1)) k | k <- [0 .. size - 1]]
        v <- bcast commWorld root (if toRank r == root then reading n 77 else error "not evaluated")
        v === reading n 77
        g <- gather commWorld root mine
        g === (if toRank r == root then Just all' else Nothing)
        s <- scatter commWorld root (if toRank r == root then all' else [])
        s === mine
        a <- allgather commWorld mine
        a === all'
        t <- alltoall commWorld [reading (n * (k + 1)) (10 * r + k) | k <- [0 .. size - 1]]
        t === [reading (n * (r + 1)) (10 * k + r) | k <- [0 .. size - 1]],
    anywhere "the names of the article" $ do
      (r, size) <- place
      if r == 0
        then do
          got <- gatherRecv commWorld 0 (show r)
          got === map show [0 .. size - 1]
          bcastSend commWorld 0 "to all"
          mine <- scatterSend commWorld 0 [1 .. size]
          mine === 1
        else do
          gatherSend commWorld 0 (show r)
          got <- bcastRecv commWorld 0
          got === "to all"
          mine <- scatterRecv commWorld 0
          mine === r + 1,
    anywhere "reductions are in the order of the ranks" . eachRoot $ \root -> do
      (r, size) <- place
      let mine = [r, 10 * r]
          all' = concat [[k, 10 * k] | k <- [0 .. size - 1]]
      total <- allreduce commWorld (++) mine
      total === all'
      at <- reduce commWorld root (++) mine
      at === (if toRank r == root then Just all' else Nothing)
      upTo <- scan commWorld (++) mine
      upTo === take (2 * r + 2) all'
      before <- exscan commWorld (++) mine
      before === (if r == 0 then Nothing else Just (take (2 * r) all')),
    anywhere "a value that throws inside of a collective is an exception on all ranks" $ do
      (r, size) <- place
      let bad = if r == size - 1 then error "bad" else [r]
          failed :: IO a -> IO ()
          failed action = trySync action >>= \x -> either (const True) (const False) x === True
      failed (allgather commWorld bad)
      failed (gather commWorld 0 bad)
      failed (bcast commWorld (toRank (size - 1)) bad)
      failed (scatter commWorld (toRank (size - 1)) (if r == size - 1 then map (const bad) [1 .. size] else []))
      failed (alltoall commWorld (map (const bad) [1 .. size]))
      failed (allreduce commWorld (++) bad)
      failed (reduce commWorld 0 (++) bad)
      failed (scan commWorld (++) bad)
      failed (allreduce commWorld (\x y -> if size > 1 then error "no" else x ++ y) bad)
      throws [InvalidCount] (alltoall commWorld [1 .. size + 1])
      ok <- allgather commWorld r
      ok === [0 .. size - 1],
    onRanks [2 .. 4] "another type on one rank is an exception on all ranks" $ do
      (r, size) <- place
      let failed :: IO a -> IO ()
          failed action = trySync action >>= \x -> either (const True) (const False) x === True
      if r == 0
        then failed (bcast commWorld 0 "text") >> failed (gather commWorld 0 "text")
        else failed (bcast commWorld 0 (2.5 :: Double)) >> failed (gather commWorld 0 (2.5 :: Double))
      ok <- allgather commWorld r
      ok === [0 .. size - 1],
    anywhere "collectives without waiting are done in the order of the calls" $ do
      (r, size) <- place
      a <- iallgather commWorld r
      b <- iallreduce commWorld (+) r
      c <- ibcast commWorld 0 (if r == 0 then "x" else "")
      z <- wait c
      y <- wait b
      x <- wait a
      (x, y, z) === ([0 .. size - 1], sum [0 .. size - 1], "x")
      d <- igather commWorld 0 r
      e <- iscatter commWorld 0 [0 .. size - 1]
      f <- ialltoall commWorld [0 .. size - 1]
      w <- (,,) <$> wait d <*> wait e <*> wait f
      w === (if r == 0 then Just [0 .. size - 1] else Nothing, r, replicate size r)
  ]

eachRoot :: (Rank -> IO ()) -> IO ()
eachRoot body = commSize commWorld >>= \size -> mapM_ (body . toRank) [0 .. size - 1]

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld

-- The runtime's number of the next thread: it counts them.
nextThread :: IO Int
nextThread = read . last . words . show <$> forkIO (pure ())
