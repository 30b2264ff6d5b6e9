{-# LANGUAGE DataKinds #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : ClosingTest
-- Description : Communicators that are closed while something uses them
--
-- A thread waits in a communicator, or has given up waiting, when the communicator is closed. It gets an error, no message
-- of a later communicator comes to it, and MPI never sees a handle that was freed.
module ClosingTest
  ( cases,
  )
where

import Control.Concurrent (ThreadId, yield)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, void, when)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.MPI
import Heddle.MPI.Collective qualified as Fast
import Heddle.MPI.Communicator (newDup, withDup)
import Heddle.MPI.Datatype (closeType, elementType, newContiguousType, typeExtent)
import Heddle.MPI.Fast qualified as Fast
import Heddle.MPI.Operator (sumOf)
import Heddle.MPI.Simple qualified as Simple
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (fork)
import Ranks
import System.Mem (performMajorGC)
import System.Timeout (timeout)

cases :: [Case]
cases =
  [anywhere ("given up before its communicator was closed, it was probed: " ++ name) (givenUp wait') | (name, wait') <- receives]
    ++ [anywhere ("its communicator was closed, and it waited for ever: " ++ name) (closedBeside wait') | (name, wait') <- ("a persistent receive", persistent) : receives]
    ++ [onRanks [2 .. 4] ("its communicator was closed before its last rank came, and it waited for ever: " ++ name) (lastComesLate wait') | (name, wait') <- collectives]
    ++ [ anywhere "a closed receive took messages of the next communicator" nextCommunicator,
         anywhere "calls on a communicator reached MPI while it was freed" usedMeanwhile,
         anywhere "a persistent receive was started in a closed communicator" persistentLater,
         anywhere "a message found before the closing is received after it" foundBefore,
         anywhere "a message sent before the closing arrives" sentBefore
       ]

type Waiting = Comm 'Intra -> IO ()

receives :: [(String, Waiting)]
receives =
  [ ("recv of a value", \comm -> void (Simple.recv comm 0 3 :: IO (Int, Status))),
    ("recv from anybody", \comm -> void (Simple.recv comm anySource anyTag :: IO ([Int], Status))),
    ("irecv of a value", \comm -> void (Simple.irecv comm 0 3 >>= wait :: IO (Int, Status))),
    ("mprobe", \comm -> void (Fast.mprobe comm anySource 3)),
    ("improbe", \comm -> void (Fast.improbe comm 0 3 >>= wait)),
    ("recv", \comm -> buffer >>= void . Fast.recv comm 0 3),
    ("irecv", \comm -> buffer >>= Fast.irecv comm anySource 3 >>= void . wait),
    ("recvNew", \comm -> void (Fast.recvNew comm 0 3 4 :: IO (Vector.Vector Int, Status))),
    ("recvValue", \comm -> void (Fast.recvValue comm 0 3 :: IO (Int, Status))),
    ("a large recv", \comm -> Mutable.new 100000 >>= \into -> void (Fast.recv comm 0 3 (into :: Mutable.IOVector Int))),
    ("several at once", \comm -> replicateM 3 (Fast.irecvNew comm 0 3 1 :: IO (Request (Vector.Vector Int, Status))) >>= void . waitAny)
  ]

persistent :: Waiting
persistent comm = bracket (buffer >>= Fast.recvInit comm 0 3) Fast.closePersistent (\p -> Fast.startRequest p >>= void . wait)

collectives :: [(String, Waiting)]
collectives =
  [ ("barrier", Fast.barrier),
    ("bcast", \comm -> buffer >>= Fast.bcast comm 0),
    ("allgather", void . (`Fast.allgatherValue` (1 :: Int))),
    ("a large allreduce", \comm -> Mutable.new 1000 >>= Fast.allreduce comm sumOf (Vector.replicate 1000 (1 :: Int)))
  ]

buffer :: IO (Mutable.IOVector Int)
buffer = Mutable.new 4

-- Messages through a new communicator, which the implementation may give the handle of the one closed before.
stillWorks :: IO ()
stillWorks = withDup commWorld $ \comm -> do
  (size, rank) <- place
  let next = toRank ((rank + 1) `mod` size)
      previous = toRank ((rank - 1) `mod` size)
  forM_ [3, 4] $ \tag -> do
    sent <- Simple.isend comm next tag (rank, [1 :: Int])
    (got, _) <- Simple.recv comm previous tag
    got === (fromIntegral previous :: Int, [1 :: Int])
    wait sent
  Fast.allreduceValue comm sumOf (1 :: Int) >>= (=== size)

givenUp :: Waiting -> IO ()
givenUp waiting = do
  forM_ [0, 200, 3000] $ \microseconds -> do
    withDup commWorld $ \comm -> void (timeout microseconds (mask_ (waiting comm)))
    performMajorGC
    stillWorks
  -- Many at once, and more than one communicator.
  withDup commWorld $ \a -> withDup commWorld $ \b -> forM_ [1 .. 20 :: Int] $ \_ -> forM_ [a, b] (timeout 100 . mask_ . waiting)
  stillWorks

closedBeside :: Waiting -> IO ()
closedBeside waiting = do
  forM_ [1 :: Int, 3] $ \count -> do
    comm <- newDup commWorld
    answers <- replicateM count (waiter (waiting comm))
    forM_ answers (untilParked . fst)
    closeComm comm
    forM_ answers (closed . snd)
    throws [AlreadyClosed] (waiting comm)
    stillWorks
  -- A closing that comes at any moment.
  forM_ [1 .. 30 :: Int] $ \i -> do
    comm <- newDup commWorld
    (_, answer) <- waiter (waiting comm)
    replicateM_ i yield >> closeComm comm
    closed answer
  stillWorks

waiter :: IO () -> IO (ThreadId, IO (Either SomeException ()))
waiter action = do
  answer <- newEmptyMVar
  thread <- fork "test/waiter" (try action >>= putMVar answer)
  pure (thread, takeMVar answer)

closed :: IO (Either SomeException ()) -> IO ()
closed answer = throws [AlreadyClosed] (answer >>= either throwIO pure)

untilParked :: ThreadId -> IO ()
untilParked thread =
  threadStatus thread >>= \case
    ThreadBlocked BlockedOnSTM -> pure ()
    status | status `elem` [ThreadFinished, ThreadDied] -> assert ("a waiter is " ++ show status) False
    -- It may still be in the call that starts the operation.
    _ -> yield >> untilParked thread

-- The others have closed it when rank 0 comes. MPI goes on with their parts, in memory that the collector must not reuse.
lastComesLate :: Waiting -> IO ()
lastComesLate waiting = do
  (size, rank) <- place
  forM_ [1 .. 20 :: Int] $ \_ -> do
    comm <- newDup commWorld
    if rank == 0
      then do
        forM_ [1 .. size - 1] (\r -> void (Fast.recvValue commWorld (toRank r) 9 :: IO (Int, Status)))
        waiting comm
        closeComm comm
      else do
        (thread, answer) <- waiter (waiting comm)
        untilParked thread
        closeComm comm
        closed answer
        throws [AlreadyClosed] (waiting comm)
        performMajorGC
    canaries <- forM [1 .. 1000 :: Int] (\_ -> evaluate (Vector.replicate 4 (0 :: Int)))
    when (rank /= 0) (Fast.sendValue commWorld 0 9 (1 :: Int))
    Fast.barrier commWorld
    stillWorks
    assert "a canary was overwritten" (all (Vector.all (== 0)) canaries)

nextCommunicator :: IO ()
nextCommunicator = do
  (size, rank) <- place
  let next = toRank ((rank + 1) `mod` size)
      previous = toRank ((rank - 1) `mod` size)
  forM_ [1 .. 100 :: Int] $ \i -> do
    old <- newDup commWorld
    answers <- forM [\c -> void (Simple.recv c anySource anyTag :: IO (Int, Status)), void . (\c -> Fast.mprobe c anySource anyTag), \c -> void (Fast.recvValue c anySource anyTag :: IO (Int, Status))] $
      \waiting -> snd <$> waiter (waiting old)
    when (i `mod` 3 == 0) (replicateM_ i yield)
    closeComm old
    withDup commWorld $ \new -> do
      sent <- forM [1, 2] (\k -> Simple.isend new next k (i + fromIntegral k))
      forM_ [1, 2] (\k -> Simple.recv new previous k >>= (=== i + fromIntegral k) . fst)
      mapM_ wait sent
    forM_ answers closed

usedMeanwhile :: IO ()
usedMeanwhile = do
  (_, rank) <- place
  forM_ [1 .. 8 :: Int] $ \i -> do
    comm <- newDup commWorld
    derived <- newContiguousType 2 (elementType @Int)
    started <- newEmptyMVar
    answers <- forM (void (typeExtent derived) : uses comm (toRank rank)) $ \use -> snd <$> waiter (putMVar started () >> forever use)
    mapM_ (const (takeMVar started)) answers
    replicateM_ i yield >> closeComm comm
    closeType derived
    forM_ answers closed
  stillWorks
  where
    uses comm me =
      -- Nothing may be left in it: MPI forbids that, and MPICH would deliver it in a later communicator.
      [ void (Fast.iprobe comm me 1),
        Fast.sendValue comm noRank 2 (1 :: Int),
        void (Fast.recvNew comm noRank 2 1 :: IO (Vector.Vector Int, Status)),
        Simple.send comm noRank 3 'x',
        void (Fast.probe comm me 4)
      ]

persistentLater :: IO ()
persistentLater = do
  comm <- newDup commWorld
  receiver <- buffer >>= Fast.recvInit comm 0 3
  closeComm comm
  throws [AlreadyClosed] (Fast.startRequest receiver >>= wait)
  Fast.closePersistent receiver
  stillWorks

foundBefore :: IO ()
foundBefore = do
  (size, rank) <- place
  comm <- newDup commWorld
  sent <- Fast.isend comm (toRank ((rank + 1) `mod` size)) 3 (Vector.fromList [rank])
  found <- Fast.mprobe comm anySource 3
  closeComm comm
  (v, _) <- Fast.mrecvNew found
  v === Vector.fromList [(rank - 1) `mod` size]
  wait sent

sentBefore :: IO ()
sentBefore = do
  (size, rank) <- place
  comm <- newDup commWorld
  let from = toRank ((rank - 1) `mod` size)
  forM_ [0, 10000] $ \n -> Simple.bsend comm (toRank ((rank + 1) `mod` size)) 3 (replicate n rank)
  forM_ [0, 10000] $ \n -> Simple.recv comm from 3 >>= (=== replicate n (fromIntegral from :: Int)) . fst
  closeComm comm

place :: IO (Int, Int)
place = (\size (rank :: Rank) -> (size, fromIntegral rank)) <$> commSize commWorld <*> commRank commWorld
