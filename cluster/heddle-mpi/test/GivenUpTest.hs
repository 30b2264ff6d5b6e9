{-# LANGUAGE DataKinds #-}

-- |
-- Module      : GivenUpTest
-- Description : Operations whose waiting thread is interrupted
--
-- Rank 0 starts operations of one kind and stops waiting for each. After collections it
-- allocates canaries where the collector has freed memory, and then lets the other ranks take
-- part. The operations complete in the background: no canary changes, and every later
-- operation gives the right value.
module GivenUpTest
  ( cases,
  )
where

import Control.Concurrent (killThread)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, replicateM, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Primitive.PrimArray
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective qualified as Fast
import Heddle.MPI.Communicator (withDup)
import Heddle.MPI.Fast qualified as Fast
import Heddle.MPI.File qualified as File
import Heddle.MPI.Operator (maximumOf, operator, sumOf)
import Heddle.MPI.Simple qualified as Simple
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (forkMasked)
import Ranks
import System.Directory (getTemporaryDirectory)
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)
import System.Timeout (timeout)

-- | In jobs, and alone as far as an operation can be outstanding there.
cases :: [Case]
cases =
  [onRanks [2, 3] ("given up: " ++ name) (collectiveCase part) | (name, part) <- collectives]
    ++ [anywhere ("given up: " ++ name) (receiveCase tag (start tag)) | (tag, (name, start)) <- zip [5 ..] receives]
    ++ [ onRanks [2, 3] "killThread during a collective leaves the next one its own values" killed,
         onRanks [2, 3] "a collective that waits for its turn is not left out when given up" queued,
         onRanks [2, 3] "a collective goes on when its caller is killed while the program's code is evaluated" evaluated,
         onRanks [2] "given up: transfers of files" transfers,
         onRanks [2 .. 4] "vectors of different lengths fail on every rank, and the next collective is right" lengths,
         onRanks [2 .. 4] "a value that cannot be evaluated fails on every rank, and the next collective is right" values
       ]

-- The number of operations of each kind that are abandoned.
many :: Int
many = 150

-- Masked, so that the time-out takes effect only where the operation waits, which is after it has
-- started. On a busy machine it would otherwise sometimes prevent the start, and the ranks would
-- have called different operations.
givenUpAfter :: Int -> IO a -> IO (Maybe a)
givenUpAfter microseconds = mask_ . timeout microseconds

-- The contribution of rank r to operation i.
given :: Int -> Int -> Int
given i r = 100 * i + r

-- The i-th operation of a kind, on this rank of so many: was its result right?
type Part = Comm 'Intra -> Int -> Int -> Int -> IO Bool

collectives :: [(String, Part)]
collectives =
  [ ( "allreduce of a small vector",
      \comm size rank i -> do
        into <- Mutable.new 2
        Fast.allreduce comm sumOf (Vector.replicate 2 (given i rank)) into
        (== Vector.replicate 2 (total size i)) <$> Vector.freeze into
    ),
    ("allreduceValue", \comm size rank i -> (== total size i) <$> Fast.allreduceValue comm sumOf (given i rank)),
    ( "allreduce of a large vector",
      \comm size rank i -> do
        into <- Mutable.new 1000
        Fast.allreduce comm sumOf (Vector.replicate 1000 (given i rank)) into
        (== Vector.replicate 1000 (total size i)) <$> Vector.freeze into
    ),
    ( "allreduce with a function",
      \comm size rank i -> do
        into <- Mutable.new 2
        Fast.allreduce comm (operator (+)) (Vector.replicate 2 (given i rank)) into
        (== Vector.replicate 2 (total size i)) <$> Vector.freeze into
    ),
    ("reduceValue", \comm size rank i -> maybe (rank /= 0) (== given i (size - 1)) <$> Fast.reduceValue comm 0 maximumOf (given i rank)),
    ( "bcast of memory",
      \comm _ rank i -> do
        memory <- Mutable.replicate 2 (if rank == 1 then given i 1 else 0)
        Fast.bcast comm 1 memory
        (== Vector.replicate 2 (given i 1)) <$> Vector.freeze memory
    ),
    ( "bcast of an unpinned array",
      \comm _ rank i -> do
        memory <- newPrimArray 2
        setPrimArray memory 0 2 (if rank == 1 then given i 1 else 0)
        Fast.bcast comm 1 memory
        (== replicate 2 (given i 1)) . primArrayToList <$> freezePrimArray memory 0 2
    ),
    ("allgatherValue", \comm size rank i -> (== Vector.generate size (given i)) <$> Fast.allgatherValue comm (given i rank)),
    ("bcast of a value", \comm _ rank i -> (== given i 1) <$> Simple.bcast comm 1 (if rank == 1 then given i 1 else 0)),
    ("bcast of a large value", \comm _ rank i -> (== large i 1) <$> Simple.bcast comm 1 (if rank == 1 then large i 1 else [])),
    ("gather of values", \comm size rank i -> maybe (rank /= 0) (== map (given i) [0 .. size - 1]) <$> Simple.gather comm 0 (given i rank)),
    ("gather of large values", \comm size rank i -> maybe (rank /= 0) (== map (large i) [0 .. size - 1]) <$> Simple.gather comm 0 (large i rank)),
    ("scatter of values", \comm size rank i -> (== given i rank) <$> Simple.scatter comm 1 (map (given i) [0 .. size - 1])),
    ("allgather of values", \comm size rank i -> (== map (given i) [0 .. size - 1]) <$> Simple.allgather comm (given i rank)),
    ("alltoall of values", \comm size rank i -> (== map (given i) [0 .. size - 1]) <$> Simple.alltoall comm (replicate size (given i rank))),
    ("reduce of values", \comm size rank i -> maybe (rank /= 0) (== total size i) <$> Simple.reduce comm 0 (+) (given i rank)),
    ("allreduce of values", \comm size rank i -> (== total size i) <$> Simple.allreduce comm (+) (given i rank))
  ]
  where
    large i r = replicate 300 (given i r)

total :: Int -> Int -> Int
total size i = sum (map (given i) [0 .. size - 1])

collectiveCase :: Part -> IO ()
collectiveCase part = withDup commWorld $ \comm -> do
  (size, rank) <- place
  -- The first one on a communicator makes the duplicate, which cannot be abandoned.
  part comm size rank 0 >>= assert "the first one is right"
  if rank == 0
    then do
      ended <- forM [1 .. many] $ \i -> do
        when (i `mod` 50 == 0) performMajorGC
        givenUpAfter 200 (part comm size rank i)
      assert ("all have been given up, but " ++ show [i | (i, Just _) <- zip [1 :: Int ..] ended]) (all (== Nothing) ended)
      performMajorGC
      canaries <- newCanaries
      forM_ [1 .. size - 1] (\r -> Fast.sendValue commWorld (toRank r) 77 (1 :: Int))
      part comm size rank (many + 1) >>= assert "the next one is right"
      checkCanaries canaries
    else do
      _ <- Fast.recvValue commWorld 0 77 :: IO (Int, Status)
      right <- mapM (part comm size rank) [1 .. many]
      assert ("wrong for others: " ++ show [i | (i, False) <- zip [1 :: Int ..] right]) (and right)
      part comm size rank (many + 1) >>= assert "the next one is right"

-- New byte strings, which reuse memory that the collector has freed.
newCanaries :: IO [ByteString]
newCanaries = do
  performMajorGC
  forM [1 .. 20000 :: Int] (\k -> evaluate (Bytes.replicate (8 * (1 + k `mod` 8)) 0))

checkCanaries :: [ByteString] -> IO ()
checkCanaries canaries = do
  performMajorGC
  let bad = length (filter (Bytes.any (/= 0)) canaries)
  assert (show bad ++ " of " ++ show (length canaries) ++ " canaries were overwritten") (bad == 0)

-- Receives -------------------------------------------------------------------

-- With this tag, from this rank: what waits for it, and what is done at the end.
receives :: [(String, Tag -> Int -> IO (IO (), IO ()))]
receives =
  [ ("recv", \tag from -> leaves tag from (Mutable.new 2 >>= \into -> void (Fast.recv commWorld (toRank from) tag (into :: Mutable.IOVector Int)))),
    ("recv into an unpinned array", \tag from -> leaves tag from (newPrimArray 2 >>= \into -> void (Fast.recv commWorld (toRank from) tag (into :: MutablePrimArray RealWorld Int)))),
    ("recvNew", \tag from -> leaves tag from (void (Fast.recvNew commWorld (toRank from) tag 2 :: IO (Vector.Vector Int, Status)))),
    ("irecv", \tag from -> pure (Mutable.new 2 >>= \into -> Fast.irecv commWorld (toRank from) tag (into :: Mutable.IOVector Int) >>= void . wait, pure ())),
    ("a receive of a value", \tag from -> leaves tag from (void (Simple.recv commWorld (toRank from) tag :: IO ((Int, Int), Status)))),
    ( "a persistent receive",
      \tag from -> do
        into <- Mutable.new 2 :: IO (Mutable.IOVector Int)
        receiver <- Fast.recvInit commWorld (toRank from) tag into
        request <- Fast.startRequest receiver
        pure (void (wait request), wait request >> Fast.closePersistent receiver)
    )
  ]
  where
    -- A receive that was given up leaves its message to another one.
    leaves tag from action = pure (action, Fast.recvNew commWorld (toRank from) tag 2 >>= (=== Vector.fromList [-1, -1 :: Int]) . fst)

-- Each case has a tag of its own: a request that nobody waits for any more takes its message in the background, perhaps when
-- the next case has begun.
receiveCase :: Tag -> (Int -> IO (IO (), IO ())) -> IO ()
receiveCase tag start = do
  (size, rank) <- place
  let from = (rank - 1) `mod` size
      to = toRank ((rank + 1) `mod` size)
  atEnd <- forM [1 .. many] $ \i -> do
    when (i `mod` 50 == 0) performMajorGC
    (waiting, end) <- start from
    givenUpAfter 200 waiting >>= (=== Nothing)
    pure end
  performMajorGC
  canaries <- newCanaries
  Fast.barrier commWorld
  sent <- replicateM many (Fast.isend commWorld to tag (Vector.fromList [-1, -1 :: Int]))
  sequence_ atEnd
  mapM_ wait sent
  -- Messages between two ranks keep their order: once this one has arrived, so have the others.
  last' <- Fast.isend commWorld to 4 (Vector.fromList [7 :: Int])
  (v, _) <- Fast.recvNew commWorld (toRank from) 4 1
  wait last'
  v === Vector.fromList [7 :: Int]
  checkCanaries canaries

-- Others ---------------------------------------------------------------------

killed :: IO ()
killed = withDup commWorld $ \comm -> do
  (size, rank) <- place
  _ <- Simple.bcast comm 0 ()
  forM_ [1 .. 50 :: Int] $ \i -> do
    if rank == 0
      then do
        began <- newEmptyMVar
        ended <- newEmptyMVar
        -- Masked, so that it is killed only where it waits, which is after it has called.
        thread <- forkMasked $ \_ -> do
          putMVar began ()
          result <- try (Fast.allreduceValue comm sumOf i)
          putMVar ended (either (\e -> Left (e :: SomeException)) Right result)
        takeMVar began
        killThread thread
        _ <- takeMVar ended
        forM_ [1 .. size - 1] (\r -> Fast.sendValue commWorld (toRank r) 77 (1 :: Int))
      else do
        _ <- Fast.recvValue commWorld 0 77 :: IO (Int, Status)
        Fast.allreduceValue comm sumOf i >>= (=== size * i)
    Fast.allreduceValue comm sumOf (1 :: Int) >>= (=== size)

queued :: IO ()
queued = withDup commWorld $ \comm -> do
  (size, rank) <- place
  _ <- Simple.bcast comm 0 ()
  if rank == 0
    then do
      -- The second waits for the first, which waits for the other ranks.
      first <- Simple.iallgather comm (1 :: Int)
      givenUpAfter 2000 (Simple.allgather comm (2 :: Int)) >>= (=== Nothing)
      givenUpAfter 2000 (Fast.allreduceValue comm sumOf (3 :: Int)) >>= (=== Nothing)
      forM_ [1 .. size - 1] (\r -> Fast.sendValue commWorld (toRank r) 77 (1 :: Int))
      wait first >>= (=== replicate size 1)
    else do
      _ <- Fast.recvValue commWorld 0 77 :: IO (Int, Status)
      Simple.allgather comm (1 :: Int) >>= (=== replicate size 1)
      Simple.allgather comm (2 :: Int) >>= (=== replicate size 2)
      Fast.allreduceValue comm sumOf (3 :: Int) >>= (=== 3 * size)
  Simple.allgather comm (4 :: Int) >>= (=== replicate size 4)

-- Rank 0 is killed while its value, or the function that combines two, is evaluated, which ends only later.
evaluated :: IO ()
evaluated = withDup commWorld $ \comm -> do
  (size, rank) <- place
  _ <- Simple.bcast comm 0 ()
  let parts :: [((Int -> Int) -> Int -> IO (), Int)]
      parts =
        [ (\f x -> Simple.bcast comm 0 (f x) >>= (=== 1), 1),
          (\f x -> Simple.allgather comm (f x) >>= (=== replicate size 1), 1),
          (\f x -> Simple.gather comm 1 (f x) >>= (=== (if rank == 1 then Just (replicate size 1) else Nothing)), 1),
          (\f x -> Simple.alltoall comm (replicate size (f x)) >>= (=== replicate size 1), 1),
          (\f x -> Simple.allreduce comm (+) (f x) >>= (=== size), 1),
          (\f x -> Simple.allreduce comm (\a b -> f (a + b)) x >>= (=== size), 1),
          (\f x -> Simple.scan comm (\a b -> a + f b) x >>= (=== rank + 1), 1),
          (\f x -> Fast.allreduceValue comm (operator (\a b -> f (a + b))) x >>= (=== size), 1)
        ]
  forM_ parts $ \(part, x) -> do
    if rank == 0
      then do
        began <- newEmptyMVar
        gate <- newEmptyMVar
        ended <- newEmptyMVar
        -- Scans give rank 0 nothing to combine, so that it is not killed there.
        let slow n = unsafePerformIO (tryPutMVar began () >> readMVar gate >> pure n)
            {-# NOINLINE slow #-}
        thread <- forkMasked (\unmask -> try (unmask (part slow x)) >>= \e -> tryPutMVar began () >> putMVar ended (e :: Either SomeException ()))
        takeMVar began
        killThread thread
        _ <- takeMVar ended
        putMVar gate ()
      else part id x
    Simple.allgather comm rank >>= (=== [0 .. size - 1])

transfers :: IO ()
transfers = do
  (_, rank) <- place
  temporary <- getTemporaryDirectory
  pid <- getProcessID
  path <- Simple.bcast commWorld 0 (temporary ++ "/heddle-mpi-given-up-" ++ show pid)
  File.withFile commWorld path (File.ReadWrite File.MayExist) [File.DeleteOnClose] $ \file -> do
    File.writeAtAll file (rank * 8000) (Vector.replicate 1000 (-1 :: Int))
    -- Rank 1 reads what rank 0 has written.
    File.syncFile file
    Fast.barrier commWorld
    File.syncFile file
    forM_ [1 .. many] $ \i -> do
      when (i `mod` 50 == 0) performMajorGC
      into <- newPrimArray 1000 :: IO (MutablePrimArray RealWorld Int)
      request <- File.ireadAt file 0 into
      void (givenUpAfter 1 (wait request))
      void (givenUpAfter 1 (File.readAtAll file 0 into))
    canaries <- newCanaries
    into <- Mutable.new 1000 :: IO (Mutable.IOVector Int)
    _ <- File.readAtAll file 0 into
    Vector.freeze into >>= (=== Vector.replicate 1000 (-1))
    checkCanaries canaries

lengths :: IO ()
lengths = withDup commWorld $ \comm -> do
  (size, rank) <- place
  forM_ [0 .. size - 1] $ \odd' -> do
    let n = if rank == odd' then 3 else 2
    into <- Mutable.new n
    throws [SizeMismatch, RemoteError] (Fast.allreduce comm sumOf (Vector.replicate n (1 :: Int)) into)
    Fast.allreduceValue comm sumOf (1 :: Int) >>= (=== size)

values :: IO ()
values = withDup commWorld $ \comm -> do
  (size, rank) <- place
  forM_ [0 .. size - 1] $ \odd' -> do
    result <- trySync (Fast.allreduceValue comm sumOf (if rank == odd' then error "no value" else 1 :: Int))
    case result of
      Right n -> assert ("got " ++ show n) False
      Left _ -> pure ()
    Fast.allreduceValue comm sumOf (1 :: Int) >>= (=== size)

place :: IO (Int, Int)
place = (\size (rank :: Rank) -> (size, fromIntegral rank)) <$> commSize commWorld <*> commRank commWorld
