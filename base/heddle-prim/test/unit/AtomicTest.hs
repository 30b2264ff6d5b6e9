-- | Shared memory, wait cells, locks, pools.
module AtomicTest (tests) where

import Control.Concurrent
import Control.Exception hiding (assert)
import Control.Monad
import Data.Bits (setBit, testBit)
import Data.IORef
import Data.List (sort)
import Data.Word (Word8)
import Foreign.Ptr (ptrToIntPtr)
import Foreign.Storable (peekElemOff, pokeElemOff)
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer
import Heddle.Prim.Lock
import Heddle.Prim.WaitCell
import Heddle.Testkit.Watchdog (within)
import System.Mem (performMajorGC, performMinorGC)
import Test.QuickCheck.Monadic (assert, monadicIO, run)
import Test.Tasty
import Test.Tasty.HUnit hiding (assert)
import Test.Tasty.QuickCheck (testProperty)

{- HLINT ignore "Avoid restricted module" -}
-- What is tested here is below those that would be used instead.

limited :: Assertion -> Assertion
limited = within 60000000 "an end within a minute"

-- Run in this many threads at once, and return all results.
together :: Int -> (Int -> IO a) -> IO [a]
together n body = do
  results <- forM [0 .. n - 1] $ \i -> do
    v <- newEmptyMVar
    v <$ forkIO (try (body i) >>= putMVar v)
  forM results (takeMVar >=> either (\e -> throwIO (e :: SomeException)) pure)

waitParked :: ThreadId -> IO ()
waitParked t = do
  s <- threadStatus t
  unless (s == ThreadBlocked BlockedOnMVar) (yield >> waitParked t)

tests :: TestTree
tests =
  testGroup
    "what threads share"
    [ testGroup
        "words"
        [ testCase "all zero at first, and larger copies keep what was there" $ do
            ws <- newWords 3
            mapM (readWord ws) [0 .. 2] >>= (@?= [0, 0, 0])
            mapM_ (\i -> writeWord ws i (i + 7)) [0 .. 2]
            more <- growWords ws 5
            wordCount more >>= (@?= 5)
            mapM (readWord more) [0 .. 4] >>= (@?= [7, 8, 9, 0, 0])
            fewer <- growWords ws 2
            mapM (readWord fewer) [0, 1] >>= (@?= [7, 8]),
          testCase "fetching answers what was there" $ do
            ws <- newWords 1
            fetchAdd ws 0 5 >>= (@?= 0)
            fetchAdd ws 0 (-2) >>= (@?= 5)
            fetchOr ws 0 12 >>= (@?= 3)
            atomicRead ws 0 >>= (@?= 15)
            compareAndSet ws 0 14 1 >>= (@?= False)
            compareAndSet ws 0 15 1 >>= (@?= True)
            atomicWrite ws 0 minBound
            readWord ws 0 >>= (@?= minBound),
          testCase "no addition is lost" $
            limited $ do
              ws <- newWords 1
              _ <- together 4 (\_ -> replicateM_ 25000 (fetchAdd ws 0 1))
              readWord ws 0 >>= (@?= 100000),
          testCase "every bit is set once" $
            limited $ do
              ws <- newWords 1
              seen <- together 4 $ \_ -> forM [0 .. 62] $ \b -> (\old -> [b | not (testBit old b)]) <$> fetchOr ws 0 (setBit 0 b)
              sort (concat (concat seen)) @?= [0 .. 62],
          testCase "compare-and-set lets one win" $
            limited $ do
              ws <- newWords 1
              wins <- together 4 (\_ -> length . filter id <$> forM [0 .. 9999] (\i -> compareAndSet ws 0 i (i + 1)))
              end <- readWord ws 0
              sum wins @?= end
        ],
      testGroup
        "references, tables, stacks"
        [ testCase "no modification is lost" $
            limited $ do
              ref <- newRef (0 :: Int)
              olds <- together 4 (\_ -> replicateM 10000 (modifyRef ref (\n -> (n + 1, n))))
              readRef ref >>= (@?= 40000)
              sort (concat olds) @?= [0 .. 39999],
          testCase "a reference keeps no thunk" $ do
            ref <- newRef 'a'
            r <- try (evaluate =<< writeRef ref (error "forced"))
            either (\(ErrorCall m) -> m @?= "forced") (const (assertFailure "kept")) r
            readRef ref >>= (@?= 'a')
            s <- try (modifyRef ref (const (error "forced", ())))
            either (\(ErrorCall m) -> m @?= "forced") (const (assertFailure "kept")) s
            readRef ref >>= (@?= 'a'),
          testCase "tables grow" $ do
            t <- newTable 2 'x'
            writeEntry t 1 'y'
            u <- growTable t 4 'z'
            tableSize u @?= 4
            mapM (readEntry u) [0 .. 3] >>= (@?= "xyzz"),
          testCase "references, none to many" . forM_ [0, 1, 2, 4, 5, 1000] $ \n -> do
            refs <- newRefs n 'x'
            places <- newPlaces n 'x'
            (refCount refs, placeCount places) @?= (n, n)
            forM_ [1, 3 .. n - 1] $ \i -> writeRef (refAt refs i) 'y' >> writePlace places i 'y'
            -- They survive, and point to what is young.
            performMajorGC
            forM_ [0, 4 .. n - 1] $ \i -> writeRef (refAt refs i) (head (show i)) >> writePlace places i (head (show i))
            performMinorGC
            let want = [if odd i then 'y' else if i `mod` 4 == 0 then head (show i) else 'x' | i <- [0 .. n - 1]]
            mapM (readRef . refAt refs) [0 .. n - 1] >>= (@?= want)
            mapM (readPlace places) [0 .. n - 1] >>= (@?= want),
          testCase "references are apart" $ do
            refs <- newRefs 2 'x'
            (sameRef (refAt refs 0) (refAt refs 0), sameRef (refAt refs 0) (refAt refs 1)) @?= (True, False),
          testProperty "alone, a stack is a list" $ \script -> monadicIO $ do
            same <- run $ do
              stack <- newStack
              let go _ [] = pure True
                  go model (Just x : rest) = push stack (x :: Int) >> go (x : model) rest
                  go model (Nothing : rest) = do
                    got <- pop stack
                    empty <- isEmpty stack
                    case model of
                      [] -> if got == Nothing && empty then go [] rest else pure False
                      y : ys -> if got == Just y && empty == null ys then go ys rest else pure False
              go [] script
            assert same,
          testCase "many threads push and pop: nothing is lost or doubled" $
            limited $ do
              stack <- newStack
              popped <- together 6 $ \i ->
                if even i
                  then [] <$ mapM_ (push stack) [i * 1000 .. i * 1000 + 999 :: Int]
                  else concat <$> replicateM 500 (maybe [] pure <$> pop stack)
              rest <- takeAll stack
              takeAll stack >>= (@?= [])
              sort (concat popped ++ rest) @?= concat [[i * 1000 .. i * 1000 + 999] | i <- [0, 2, 4]]
        ],
      testGroup
        "wait cells"
        [ testCase "a token waits for its thread, and tokens do not add up" $ do
            cell <- newWaitCell
            unpark cell
            unpark cell
            park cell
            reset cell >>= (@?= False)
            unpark cell
            reset cell >>= (@?= True),
          testCase "parked threads are woken in order" $
            limited $ do
              cell <- newWaitCell
              order <- newIORef []
              ends <- forM [1 .. 4 :: Int] $ \i -> do
                end <- newEmptyMVar
                t <- forkIO (park cell >> modifyIORef order (i :) >> putMVar end ())
                end <$ waitParked t
              forM_ ends $ \end -> unpark cell >> takeMVar end
              readIORef order >>= (@?= [4, 3, 2, 1]),
          testCase "an interrupted thread takes no token" $
            limited $ do
              cell <- newWaitCell
              t <- forkIO (mask_ (park cell))
              waitParked t
              killThread t
              unpark cell
              reset cell >>= (@?= True),
          testCase "resetBeforeTheLookLosesNoWakeup" $
            limited $ do
              -- The protocol: reset, look, park; the other side: change, unpark.
              cell <- newWaitCell
              flag <- newIORef (0 :: Int)
              done <- newEmptyMVar
              _ <- forkIO $ do
                forM_ [1 .. 20000] $ \i -> do
                  let await = do
                        _ <- reset cell
                        now <- readIORef flag
                        unless (now >= i) (park cell >> await)
                  await
                putMVar done ()
              forM_ [1 .. 20000] $ \i -> atomicWriteIORef flag i >> unpark cell
              takeMVar done
        ],
      testGroup
        "locks"
        [ testCase "one at a time" $
            limited $ do
              lock <- newLock
              ref <- newIORef (0 :: Int)
              _ <- together 4 (\_ -> replicateM_ 5000 (withLock lock (readIORef ref >>= \n -> writeIORef ref (n + 1))))
              readIORef ref >>= (@?= 20000),
          testCase "an exception opens it, a killed thread leaves the queue" $
            limited $ do
              lock <- newLock
              r <- try (withLock lock (throwIO (userError "inside")))
              r @?= (Left (userError "inside") :: Either IOException ())
              withLock lock $ do
                t <- forkIO (withLock lock (pure ()))
                waitParked t
                killThread t
              withLock lock (getMaskingState >>= (@?= MaskedInterruptible))
        ],
      testGroup
        "buffers and pools"
        [ testCase "buffers are aligned and writable" $
            forM_ [1, 64, 100000] $ \n -> do
              b <- newBuffer n
              bufferSize b @?= n
              withBuffer b $ \p -> do
                fromIntegral (ptrToIntPtr p) `mod` (64 :: Int) @?= 0
                pokeElemOff p (n - 1) (42 :: Word8)
                peekElemOff p (n - 1) >>= (@?= 42),
          testCase "a pool gives back what it was given, up to its limit" $ do
            made <- newIORef (0 :: Int)
            pool <- newPool 2 (atomicModifyIORef' made (\n -> (n + 1, n)))
            xs <- replicateM 4 (borrow pool)
            sort xs @?= [0 .. 3]
            mapM_ (giveBack pool) xs
            ys <- replicateM 3 (borrow pool)
            -- Two were kept, the third is new.
            length (filter (`elem` xs) ys) @?= 2
            readIORef made >>= (@?= 5),
          testCase "nobody shares a borrowed thing" $
            limited $ do
              count <- newWords 1
              pool <- newPool 8 (fetchAdd count 0 1 >> newWords 1)
              clashes <- together 4 $ \_ -> fmap sum $
                replicateM 10000 $ do
                  w <- borrow pool
                  others <- fetchAdd w 0 1
                  _ <- fetchAdd w 0 (-1)
                  giveBack pool w
                  pure others
              sum clashes @?= 0
        ]
    ]
