{-# LANGUAGE DataKinds #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : GivenUpReceiveTest
-- Description : Receives that are given up before their message, or just when it comes
--
-- A rank receives a numbered message in attempts of some microseconds each, while it is being sent: whether an attempt is
-- given up before its message, while that is matched or after that, no message is lost, and they keep their order.
module GivenUpReceiveTest
  ( cases,
  )
where

import Control.Concurrent.MVar
import Control.Monad (forM, forM_, replicateM, replicateM_, void, when)
import Control.Monad.Primitive (RealWorld)
import Data.List (sort)
import Data.Maybe (isNothing)
import Data.Primitive.PrimArray
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective qualified as Fast
import Heddle.MPI.Communicator (withDup)
import Heddle.MPI.Datatype (closeType, elementType, newVectorType, shaped)
import Heddle.MPI.Fast qualified as Fast
import Heddle.MPI.Simple qualified as Simple
import Heddle.Prim.Clock (Deadline, after, deadlineIn, microseconds, monotonicNow, seconds)
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (fork, yield)
import Ranks
import System.Timeout (timeout)

cases :: [Case]
cases =
  [anywhere ("a receive given up took the next one's message: " ++ name) (receiveGivenUpTookTheNextMessage way) | (name, way) <- ways]
    ++ [anywhere ("a receive given up while its message came lost it: " ++ name) (messageOfAReceiveGivenUpWasLost way) | (name, way) <- ways]
    ++ [ anywhere "a message kept by one thread is received by another that waits" keptMessageReachesAWaiter,
         anywhere "a message kept is seen by probes" keptMessageIsProbed,
         anywhere "a receive ends at its deadline and takes nothing" receiveUntilItsDeadline
       ]

-- | The ways to send the i-th message and to receive it.
data Way = Way (Comm 'Intra -> Rank -> Int -> IO (Request ())) Receiver

-- | Begins a receive; the result is an attempt, given up after microseconds, that is repeated until it gives the number.
type Receiver = Comm 'Intra -> Rank -> IO (Int -> IO (Maybe Int))

tag :: Tag
tag = 3

ways :: [(String, Way)]
ways =
  [ ("of a value", Way (\c r -> Simple.isend c r tag) (\c r -> attempts (fst <$> Simple.recv c r tag))),
    ("of a value in parts", Way (\c r i -> Simple.isend c r tag (large i)) (\c r -> attempts (firstOf 20000 . fst =<< Simple.recv c r tag))),
    ("of a value, until a deadline", Way (\c r -> Simple.isend c r tag) (\c r -> untils (fmap (fmap fst) . Simple.recvUntil c r tag))),
    ("from anybody, with any tag", Way (\c r i -> Fast.isend c r tag (few i)) (\c _ -> attempts (firstOf 3 . fst =<< Fast.recvNew c anySource anyTag 3))),
    ("into memory", Way (\c r i -> Fast.isend c r tag (few i)) (into 3 Fast.recv)),
    ("into much memory", Way (\c r i -> Fast.isend c r tag (large i)) (into 20000 Fast.recv)),
    ("into more memory than needed", Way (\c r i -> Fast.isend c r tag (few i)) (\c r -> attempts (Mutable.replicate 9 0 >>= \m -> Fast.recv c r tag m >> Mutable.read m 2))),
    ("into memory, until a deadline", Way (\c r i -> Fast.isend c r tag (few i)) intoUntil),
    ("into an unpinned array", Way (\c r i -> Fast.isend c r tag (few i)) unpinned),
    ("of a single number", Way (\c r i -> Fast.isend c r tag (Vector.singleton i)) (\c r -> attempts (fst <$> Fast.recvValue c r tag))),
    ("while sending", Way (\c r i -> Fast.isend c r tag (few i)) (\c r -> attempts (Mutable.replicate 3 0 >>= \m -> Fast.sendrecv c noRank tag (few 0) r tag m >> Mutable.read m 0))),
    ("into every second element", Way (\c r i -> Fast.isend c r tag (few i)) strided),
    ("into memory of which the message fills half an element", Way (\c r i -> Fast.isend c r tag (few i)) halves),
    ("of a message found", Way (\c r i -> Fast.isend c r tag (few i)) found),
    ("of a large message found", Way (\c r i -> Fast.isend c r tag (large i)) found),
    ("into a persistent request's memory, at last", Way (\c r i -> Fast.isend c r tag (few i)) persistent)
  ]
  where
    few = Vector.replicate 3
    large = Vector.replicate 20000

-- Given up after microseconds. Masked, so that the exception comes where the receive allows it; without that, it may
-- come between the receive's last instruction and the handler, which no library can help.
attempts :: IO a -> IO (Int -> IO (Maybe a))
attempts receive = pure (\n -> mask_ (timeout n receive))

untils :: (Deadline -> IO (Maybe a)) -> IO (Int -> IO (Maybe a))
untils receive = pure (\n -> deadlineIn (microseconds n) >>= receive)

firstOf :: Int -> Vector.Vector Int -> IO Int
firstOf n v = Vector.head v <$ (v === Vector.replicate n (Vector.head v))

into :: Int -> (Comm 'Intra -> Rank -> Tag -> Mutable.IOVector Int -> IO Status) -> Receiver
into n receive c r = attempts (Mutable.replicate n (-1) >>= \m -> receive c r tag m >> Vector.freeze m >>= firstOf n)

intoUntil :: Receiver
intoUntil c r = untils (\d -> Mutable.replicate 3 (-1) >>= \m -> Fast.recvUntil c r tag d m >>= mapM (const (Vector.freeze m >>= firstOf 3)))

unpinned :: Receiver
unpinned c r = attempts $ do
  m <- newPrimArray 3 :: IO (MutablePrimArray RealWorld Int)
  _ <- Fast.recv c r tag m
  freezePrimArray m 0 3 >>= firstOf 3 . Vector.fromList . primArrayToList

strided :: Receiver
strided c r = attempts $ do
  m <- Mutable.replicate 6 (-1) :: IO (Mutable.IOVector Int)
  bracket (newVectorType 3 1 2 (elementType @Int)) closeType $ \t -> void (Fast.recv c r tag (shaped t 1 m))
  v <- Vector.freeze m
  [v Vector.! i | i <- [1, 3]] === [-1, -1]
  firstOf 3 (Vector.ifilter (\i _ -> even i) v)

halves :: Receiver
halves c r = attempts $ do
  m <- Mutable.replicate 4 (-1) :: IO (Mutable.IOVector Int)
  bracket (newVectorType 2 1 1 (elementType @Int)) closeType $ \t -> void (Fast.recv c r tag (shaped t 2 m))
  v <- Vector.freeze m
  v Vector.! 3 === -1
  firstOf 3 (Vector.take 3 v)

found :: Receiver
found c r = do
  known <- newMVar Nothing
  pure $ \n -> mask_ $ do
    there <- readMVar known
    message <- maybe (timeout n (Fast.mprobe c r tag)) (pure . Just) there
    _ <- swapMVar known message
    case message of
      Nothing -> pure Nothing
      Just m -> timeout n (Fast.mrecvNew m) >>= mapM (\(v, _) -> firstOf (Vector.length v) v <* swapMVar known Nothing)

-- Given up as memory; the attempts end with a persistent request, which is waited for.
persistent :: Receiver
persistent c r = do
  tries <- newMVar (0 :: Int)
  m <- Mutable.replicate 3 (-1) :: IO (Mutable.IOVector Int)
  once <- into 3 Fast.recv c r
  pure $ \n -> do
    k <- modifyMVar tries (\k -> pure (k + 1, k))
    if k < 3
      then once n
      else bracket (Fast.recvInit c r tag m) Fast.closePersistent $ \p ->
        Fast.startRequest p >>= wait >> Just <$> (Vector.freeze m >>= firstOf 3)

around :: IO (Int, Rank, Rank)
around = do
  size <- commSize commWorld
  rank <- fromIntegral <$> commRank commWorld
  pure (rank, toRank ((rank + 1) `mod` size), toRank ((rank - 1) `mod` size))

receiveGivenUpTookTheNextMessage :: Way -> IO ()
receiveGivenUpTookTheNextMessage (Way send receive) = withDup commWorld $ \comm -> do
  (_, to, from) <- around
  forM_ [1 .. 3 :: Int] $ \i -> do
    attempt <- receive comm from
    given <- replicateM 3 (attempt 100)
    given === replicate 3 Nothing
    Fast.barrier comm
    sent <- send comm to i
    untilGot attempt 20000 >>= (=== i)
    wait sent

untilGot :: (Int -> IO (Maybe Int)) -> Int -> IO Int
untilGot attempt n = attempt n >>= maybe (untilGot attempt n) pure

-- Attempts of different lengths, and messages at different times: some meet.
messageOfAReceiveGivenUpWasLost :: Way -> IO ()
messageOfAReceiveGivenUpWasLost (Way send receive) = withDup commWorld $ \comm -> do
  (_, to, from) <- around
  let n = 150
  sent <- newEmptyMVar
  _ <- fork "test/send" $ do
    requests <- forM [1 .. n] $ \i -> replicateM_ (i * 7919 `mod` 31) yield >> send comm to i
    mapM_ wait requests >> putMVar sent ()
  got <- forM [1 .. n] $ \i -> do
    attempt <- receive comm from
    let go k = attempt (1 + (i * 31 + k * 17) `mod` 60) >>= maybe (go (k + 1)) pure
    go (0 :: Int)
  got === [1 .. n]
  takeMVar sent

keptMessageReachesAWaiter :: IO ()
keptMessageReachesAWaiter = withDup commWorld $ \comm -> do
  (_, to, from) <- around
  let n = 200 :: Int
  counted <- newMVar (0 :: Int)
  others <- newEmptyMVar
  -- Each waits without an end, as long as messages are left for it.
  let waits receive got =
        modifyMVar counted (\k -> pure (if k < n then k + 1 else k, k < n)) >>= \more ->
          if more then receive >>= waits receive . (: got) else putMVar others got
      gives k got =
        if length got == n `div` 2
          then pure got
          else mask_ (timeout (1 + k * 17 `mod` 60) (fst <$> Simple.recv comm from tag)) >>= maybe (gives (k + 1) got) (gives (k + 1) . (: got))
  void (modifyMVar counted (\k -> pure (k + n `div` 2, ())))
  _ <- fork "test/value" (waits (fst <$> Simple.recv comm from tag) [])
  _ <- fork "test/irecv" (waits (Simple.irecv comm from tag >>= fmap fst . wait) [])
  sent <- newEmptyMVar
  _ <- fork "test/send" $ do
    requests <- forM [1 .. n] $ \i -> replicateM_ (i * 7919 `mod` 31) yield >> Simple.isend comm to tag i
    mapM_ wait requests >> putMVar sent ()
  mine <- gives 0 []
  theirs <- replicateM 2 (takeMVar others)
  sort (concat (mine : theirs)) === [1 .. n]
  takeMVar sent

keptMessageIsProbed :: IO ()
keptMessageIsProbed = withDup commWorld $ \comm -> do
  (_, to, from) <- around
  forM_ [1 .. 100 :: Int] $ \i -> do
    sent <- Simple.isend comm to tag i
    got <- mask_ (timeout (1 + i `mod` 40) (Fast.recvNew comm from tag 100 :: IO (Vector.Vector Int, Status)))
    -- Whether it was matched or not, it is there if it was not received.
    when (isNothing got) $ do
      status <- Fast.probe comm anySource tag
      (statusSource status, statusTag status) === (from, tag)
      message <- Fast.mprobe comm from anyTag
      Fast.foundStatus message === status
      Fast.iprobe comm from tag >>= (=== Nothing)
      (v, _) <- Fast.mrecvNew message :: IO (Vector.Vector Int, Status)
      statusBytes status === 8 * Vector.length v
      throws [InvalidRequest] (Fast.mrecvNew message :: IO (Vector.Vector Int, Status))
    wait sent
    Fast.barrier comm

receiveUntilItsDeadline :: IO ()
receiveUntilItsDeadline = withDup commWorld $ \comm -> do
  (_, to, from) <- around
  now <- monotonicNow
  forM_ [now, after (microseconds 100) now, after (microseconds 5000) now] $ \deadline -> do
    (Simple.recvUntil comm from tag deadline :: IO (Maybe (Int, Status))) >>= (=== Nothing)
    m <- Mutable.replicate 1 (7 :: Int)
    Fast.recvUntil comm from tag deadline m >>= (=== Nothing)
    Mutable.read m 0 >>= (=== 7)
  Fast.barrier comm
  sent <- Simple.isend comm to tag "x"
  later <- deadlineIn (seconds 60)
  Simple.recvUntil comm from tag later >>= (=== Just "x") . fmap fst
  wait sent
  sentAgain <- Simple.isend comm to tag 'y'
  throws [DecodeError] (Simple.recvUntil comm from tag later :: IO (Maybe ([Double], Status)))
  wait sentAgain
