{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Several threads on one descriptor, one timer, one direction.
module SharedTest (tests, systemTests) where

import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.List (sort)
import Foreign.Ptr (castPtr)
import Harness
import Heddle.IO (RecvResult (..), SendResult (..), Wake (..), readableUntil, recvUntil, sendAllUntil, writableUntil)
import Heddle.IO qualified as IO
import Heddle.IO.Registration (Interest (..), attempt, closeRegistration, registrationOf, pattern ClosedCode)
import Heddle.Prim.Socket qualified as S
import Heddle.Socket
import Heddle.Timer (await, never, newTimerUntil)
import Test.Tasty
import Test.Tasty.HUnit

-- | In a runtime of either kind.
tests :: TestTree
tests =
  testGroup
    "several threads on one connection"
    [ bothBackends "readersOfOneConnectionKeepTheirOwnDeadlines" $ \rt -> withPair rt $ \_ b ->
        forM_ [True, False] $ \shortFirst -> do
          patient' <- late
          short <- soon
          readers <- forM (if shortFirst then [short, patient'] else [patient', short]) $ \d -> do
            reader <- forkTask (recvUntil b 10 d)
            reader <$ waitSettled (taskThread reader)
          let (hasty, other) = case readers of
                [x, y] | shortFirst -> (x, y)
                xs -> (last xs, head xs)
          joinTask hasty >>= (@?= TimedOut)
          void (killTask other),
      bothBackends "writersOfOneConnectionKeepTheirOwnDeadlines" $ \rt -> forM_ [True, False] $ \shortFirst ->
        withPair rt $ \a _ -> do
          let big = B.replicate 30000000 120
          patient' <- late
          writers <- forM [shortFirst, not shortFirst] $ \short -> do
            d <- if short then soon else pure patient'
            writer <- forkTask (sendAllUntil a big d)
            writer <$ waitSettled (taskThread writer)
          let hasty = if shortFirst then head writers else last writers
          joinTask hasty >>= \case
            SendTimedOut _ -> pure ()
            other -> assertFailure (show other)
          mapM_ killTask writers,
      bothBackends "allReadersOfOneConnectionAreServed" $ \rt -> withPair rt $ \a b -> do
        readers <- replicateM 16 (forkTask (recvUntil b 1 never))
        mapM_ (waitParked . taskThread) readers
        sendAllUntil a (B.pack [1 .. 16]) never >>= (@?= Sent)
        bytes <- forM readers (joinTask >=> got)
        sort (concatMap B.unpack bytes) @?= [1 .. 16],
      bothBackends "allWaitsForReadinessEnd" $ \rt -> withPair rt $ \a b -> do
        readers <- replicateM 8 (forkTask (readableUntil b never))
        mapM_ (waitParked . taskThread) readers
        sendAllUntil a (B.pack [1]) never >>= (@?= Sent)
        mapM joinTask readers >>= (@?= replicate 8 Ready)
        writers <- replicateM 8 (forkTask (writableUntil a never))
        mapM joinTask writers >>= (@?= replicate 8 Ready),
      bothBackends "closingEndsEveryWaitOfEveryThread" $ \rt -> withPair rt $ \a b -> do
        readers <- replicateM 8 (forkTask (recvUntil b 1 never))
        let big = B.replicate 30000000 120
        writers <- replicateM 8 (forkTask (sendAllUntil a big never))
        mapM_ (waitParked . taskThread) (readers `seq` writers)
        IO.close a
        forM_ writers $ joinTask >=> \case SendClosed _ -> pure (); other -> assertFailure (show other)
        IO.close b
        forM_ readers $
          joinTask >=> \case
            Closed -> pure ()
            Got _ -> pure ()
            Eof -> pure ()
            other -> assertFailure (show other),
      -- A send that began before its own side's close, and met the shutdown.
      bothBackends "aCloseDuringASendWasABrokenPipe" $ \rt -> withPair rt $ \a _ -> do
        let registration = registrationOf a
            closedMeanwhile fd = closeRegistration registration >> unsafeUseAsCStringLen "x" (\(p, n) -> S.send fd (castPtr p) n)
        attempt registration Writable never closedMeanwhile >>= (@?= ClosedCode)
    ]

-- | In the system runtime.
systemTests :: TestTree
systemTests =
  testGroup
    "several threads on one socket"
    [ testIn "concurrentSendersOfDatagramsPassTheWakeUpOn" $
        paired Datagram $ \a b -> do
          let senders = 64
              each = 100 :: Int
          tasks <- forM [1 .. senders] $ \i -> forkTask (replicateM_ each (sendAll a (B.replicate 1000 (fromIntegral i))))
          seen <- newIORef (0 :: Int)
          reader <- forkTask $
            replicateM_ (senders * each) $ do
              text <- recv b 2000
              B.length text @?= 1000
              modifyIORef' seen (+ 1)
          mapM_ joinTask tasks
          joinTask reader
          readIORef seen >>= (@?= senders * each),
      testIn "concurrentSendAllsOnAStreamAreWhole" $
        paired Stream $ \a b -> do
          setSocketOption a SendBuffer 4096
          let size = 50000
              senders = 24
              each = 4 :: Int
          tasks <- forM [1 .. senders] $ \i ->
            forkTask $
              replicateM_ each $
                if even i
                  then sendAll a (B.replicate size (fromIntegral i))
                  else sendMany a (replicate 50 (B.replicate (size `div` 50) (fromIntegral i)))
          let message = go (size :: Int) []
              go 0 acc = pure (B.concat acc)
              go n acc = recv b n >>= \x -> go (n - B.length x) (x : acc)
          forM_ [1 .. senders * each] $ \_ -> do
            m <- message
            assertBool ("mixed: " ++ show (B.unpack (B.take 5 m))) (B.all (== B.head m) m)
          mapM_ joinTask tasks,
      testIn "concurrentReadersOfDatagramsGetEveryOne" $
        paired Datagram $ \a b -> do
          let readers = 32
              each = 50 :: Int
          tasks <- replicateM readers (forkTask (replicateM each (recv b 100)))
          forM_ [1 .. readers * each] $ \i -> sendAll a (B.replicate (1 + i `mod` 50) 7)
          texts <- concat <$> mapM joinTask tasks
          sort (map B.length texts) @?= sort [1 + i `mod` 50 | i <- [1 .. readers * each]],
      testIn "aKilledSenderPassesItsTurnOn" $
        paired Stream $ \a b -> do
          let big = B.replicate 5000000 1
          first <- forkTask (sendAll a big)
          waitParked (taskThread first)
          others <- replicateM 8 (forkTask (sendAll a (B.replicate 1000 2)))
          mapM_ (waitParked . taskThread) others
          -- One that waits for its turn, and the one that has it.
          _ <- killTask (head others)
          _ <- killTask first
          total <- newIORef (0 :: Int)
          reader <- forkTask $ do
            let go = recv b 65536 >>= \x -> unless (B.null x) (modifyIORef' total (+ B.length (B.filter (== 2) x)) >> go)
            go
          mapM_ joinTask (tail others)
          shutdown a ShutdownSend
          joinTask reader
          readIORef total >>= (@?= 7000),
      testIn "manyAcceptorsServeABurst" $
        bracket (socket AF_INET Stream defaultProtocol) close $ \server -> do
          bind server (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
          listen server 512
          address <- getSocketName server
          acceptors <- replicateM 8 (forkTask (replicateM_ 25 (accept server >>= close . fst)))
          mapM_ (waitParked . taskThread) acceptors
          clients <- replicateM 10 (forkTask (replicateM_ 20 (bracket (socket AF_INET Stream defaultProtocol) close (`connect` address))))
          mapM_ joinTask clients
          mapM_ joinTask acceptors,
      testIn "aTimerWakesAllItsWaiters" $ do
        deadline <- soon
        timer <- newTimerUntil deadline
        waiters <- replicateM 8 (forkTask (await timer))
        mapM_ joinTask waiters
    ]

paired :: SocketType -> (Socket -> Socket -> IO a) -> IO a
paired kind body = bracket (socketPair AF_UNIX kind defaultProtocol) (\(a, b) -> close a >> close b) (uncurry body)
