-- | Stages on threads of their own.
module PipeThreadTest (tests) where

import Control.Concurrent (forkIO, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar)
import Control.Concurrent qualified
import Control.Exception
import Control.Monad (forM_, forever, replicateM_, void, when)
import Control.Monad.IO.Class (liftIO)
import Data.IORef
import Data.List (isPrefixOf)
import Data.Maybe (fromMaybe, isJust)
import Heddle.Pipe (Pipe, await, yield, (.|), (.||))
import Heddle.Pipe qualified as Pipe
import Heddle.Testkit.Threads (waitParked, waitUntilTrue)
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

{- HLINT ignore "Use void" -}
-- The dropped results are intended.

tests :: TestTree
tests =
  testGroup
    "pipe threads"
    [ testGroup
        "buffered"
        [ testProperty "order and result, whatever the size" $ \(Positive n) as -> ioProperty $ do
            r <- Pipe.runList (Pipe.buffered (n `mod` 4 + 1) ('r' <$ Pipe.each as) .| Pipe.map id)
            s <- Pipe.runList (Pipe.buffered (n `mod` 4 + 1) ('r' <$ Pipe.each as))
            pure (fst r === (as :: [Int]) .&&. s === (as, 'r')),
          testCase "many values through rings of 1 to 5" $
            forM_ [1 .. 5] $ \n -> do
              r <- Pipe.runPipe (Pipe.buffered n (Pipe.buffered n (Pipe.each [1 .. 50000 :: Int]) .| Pipe.map (+ 1)) .| Pipe.fold (+) 0)
              r @?= 50000 * 50001 `div` 2 + 50000,
          testCase "not started before it is asked" $ do
            started <- newIORef False
            Pipe.runPipe (Pipe.buffered 2 (liftIO (writeIORef started True)) .| pure ())
            readIORef started >>= (@?= False),
          testCase "never more than the ring ahead" $ do
            made <- newIORef (0 :: Int)
            let source = forever (liftIO (atomicModifyIORef' made (\n -> (n + 1, n))) >>= yield)
                check = forM_ [0 .. 2000] $ \i -> do
                  _ <- await
                  n <- liftIO (yieldThread >> readIORef made)
                  -- Three in the ring, one taken, one made that waits for room.
                  when (n > i + 5) (liftIO (throwIO (userError (show (i, n)))))
            Pipe.runPipe (Pipe.buffered 3 source .| check),
          testCase "what was yielded comes before what is thrown" $ do
            seen <- newIORef []
            r <- try (Pipe.runInto (\a -> modifyIORef seen (a :)) (Pipe.buffered 8 (Pipe.each "abcde" *> liftIO (throwIO (userError "x")))))
            r @?= (Left (userError "x") :: Either IOException ())
            readIORef seen >>= (@?= reverse "abcde"),
          testCase "cancelled, with finalisers done, when the consumer ends" $ do
            over <- newIORef False
            Pipe.runPipe ((Pipe.bracketP (pure ()) (\_ -> replicateM_ 100 yieldThread >> writeIORef over True) (\_ -> Pipe.each [1 :: Int ..]) .|| Pipe.take 3) .| Pipe.drain)
            readIORef over >>= (@?= True),
          testCase "cancelled, with finalisers done, when the consumer fails" $ do
            over <- newIORef False
            r <- try (Pipe.runPipe (Pipe.bracketP (pure ()) (\_ -> replicateM_ 100 yieldThread >> writeIORef over True) (\_ -> Pipe.each [1 :: Int ..]) .|| (await *> liftIO (throwIO (userError "x")))))
            r @?= (Left (userError "x") :: Either IOException ())
            readIORef over >>= (@?= True),
          testCase "cancelled while it waits, and while the consumer waits" $ do
            over <- newIORef (0 :: Int)
            ready <- newEmptyMVar
            done <- newEmptyMVar
            let count = atomicModifyIORef' over (\n -> (n + 1, ()))
                blocked = liftIO (putMVar ready () >> newEmptyMVar >>= takeMVar) :: Pipe i () ()
            thread <- forkIO $ do
              r <- try (Pipe.runPipe (Pipe.bracketP (pure ()) (const count) (\_ -> Pipe.bracketP (pure ()) (const count) (const blocked) .|| Pipe.drain)))
              putMVar done (r :: Either AsyncException ())
            takeMVar ready
            killThread thread
            takeMVar done >>= (@?= Left ThreadKilled)
            readIORef over >>= (@?= 2),
          testCase "nested ones are cancelled from inside" $ do
            over <- newIORef []
            let noted name p = Pipe.bracketP (pure ()) (\_ -> atomicModifyIORef' over (\os -> (name : os, ()))) (const p)
            Pipe.runPipe (noted 'a' (noted 'b' (noted 'c' (Pipe.each [1 :: Int ..]) .|| Pipe.map id) .|| Pipe.map id) .| void await)
            readIORef over >>= (@?= "abc"),
          testCase "it starts unmasked, whatever its caller" $ do
            r <- mask_ (Pipe.runList (Pipe.buffered 1 (liftIO getMaskingState >>= yield)))
            fst r @?= [Unmasked]
        ],
      testGroup
        "in parallel"
        [ testProperty "order" $ \(Positive n) as ->
            ioProperty ((=== map (* 2) as) . fst <$> Pipe.runList (Pipe.each as .| Pipe.mapInParallel (n `mod` 5 + 1) (\a -> replicateM_ (abs a `mod` 7) yieldThread >> pure (a * 2 :: Int)))),
          testCase "many values" $ do
            r <- Pipe.runPipe (Pipe.each [1 .. 50000 :: Int] .| Pipe.mapInParallel 3 (\a -> pure $! a + 1) .| Pipe.fold (+) 0)
            r @?= 50000 * 50001 `div` 2 + 50000,
          testCase "at the same time" $ do
            -- Each of a pair waits for the other.
            left <- newEmptyMVar
            right <- newEmptyMVar
            let meet a = if even a then putMVar left () >> takeMVar right else takeMVar left >> putMVar right ()
            Pipe.runPipe (Pipe.each [0 .. 199 :: Int] .| Pipe.mapInParallel 2 meet .| Pipe.drain),
          testCase "bounded" $ do
            taken <- newIORef (0 :: Int)
            let source = forever (liftIO (atomicModifyIORef' taken (\n -> (n + 1, n))) >>= yield)
                check = forM_ [0 .. 500] $ \i -> do
                  _ <- await
                  n <- liftIO (readIORef taken)
                  when (n > i + 6) (liftIO (throwIO (userError (show (i, n)))))
            Pipe.runPipe (source .| Pipe.mapInParallel 3 pure .| check),
          testCase "what comes before a failure is yielded" $ do
            seen <- newIORef []
            r <- try (Pipe.runInto (\a -> modifyIORef seen (a :)) (Pipe.each [1 .. 100 :: Int] .| Pipe.mapInParallel 4 (\a -> if a >= 40 then throwIO (userError (show a)) else pure a)))
            r @?= (Left (userError "40") :: Either IOException ())
            readIORef seen >>= (@?= reverse [1 .. 39]),
          testCase "cancelled, and waited for" $ do
            running <- newIORef (0 :: Int)
            ready <- newEmptyMVar
            done <- newEmptyMVar
            let add k = atomicModifyIORef' running (\n -> (n + k, n + k))
                block () = (add 1 >>= \n -> when (n == 3) (putMVar ready ()) >> (newEmptyMVar >>= takeMVar)) `finally` (replicateM_ 50 yieldThread >> add (-1))
            thread <- forkIO (try (Pipe.runPipe (forever (yield ()) .| Pipe.mapInParallel 3 block .| Pipe.drain)) >>= \r -> putMVar done (r :: Either AsyncException ()))
            takeMVar ready
            killThread thread
            takeMVar done >>= (@?= Left ThreadKilled)
            readIORef running >>= (@?= 0),
          testCase "aThreadThatEndedEarlyLeftItsConsumerWaiting" $
            forM_ [(threads, e) | threads <- [1, 2, 3], e <- [toException (userError "lost"), toException ThreadKilled]] $ \(threads, e) -> do
              seen <- newIORef []
              first <- newIORef Nothing
              let remember a = a <$ (myThreadId >>= \me -> atomicModifyIORef' first (\known -> (Just (fromMaybe me known), ())))
                  -- The thread of the first value waits for another one by then, with a ticket that no other thread has.
                  interrupting = do
                    waitUntilTrue (isJust <$> readIORef first)
                    readIORef first >>= mapM_ (\thread -> waitParked thread >> throwTo thread e)
              r <- try (Pipe.runInto (\a -> modifyIORef seen (a :)) ((Pipe.each "a" *> liftIO interrupting *> Pipe.each "bcdefgh") .| Pipe.mapInParallel threads remember))
              either show (const "no exception") (r :: Either SomeException ()) @?= show e
              readIORef seen >>= \as -> assertBool as (reverse as `isPrefixOf` "abcdefgh" && length as < 8),
          testCase "stopped by downstream" $ do
            r <- Pipe.runList (Pipe.each [1 :: Int ..] .| Pipe.mapInParallel 2 pure .| Pipe.take 10)
            fst r @?= [1 .. 10]
        ]
    ]
  where
    yieldThread = Control.Concurrent.yield :: IO ()
