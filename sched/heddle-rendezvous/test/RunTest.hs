{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Runs as wholes: effects, interruptions, runs inside runs.
module RunTest (tests) where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, newEmptyMVar, putMVar, readMVar, takeMVar, throwTo, tryTakeMVar, yield)
import Control.Exception (AsyncException (..), Exception, MaskingState (..), SomeException, displayException, evaluate, fromException, getMaskingState, mask_, try, uninterruptibleMask_)
import Control.Monad (forM, forM_, replicateM, replicateM_)
import Data.Foldable (sequenceA_, traverse_)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Prim.Exception (describeException)
import Heddle.Rendezvous
import Support
import System.Exit (ExitCode (..))
import System.Timeout (timeout)
import Test.QuickCheck
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (QuickCheckTests (..), testProperty)

tests :: TestTree
tests =
  testGroup
    "runs"
    [ testGroup
        "effects"
        [ testCase "in one order, as the world is handed round" handedRound,
          testCase "one side's effects among the other's steps" oneWriter,
          testCase "run unmasked" unmasked,
          testCase "may run others" ioInside
        ],
      testGroup
        "inside each other"
        [ testCase "a run in a branch's pure code" pureInside,
          testCase "20 deep" twentyDeep,
          testCase "a deadlock in the inner one is a crash of the branch" innerDeadlock,
          testCase "one run that many branches need" sharedInside,
          testCase "100 threads run at once" manyThreads,
          testCase "inside mask, and inside uninterruptibleMask" masked
        ],
      testGroup
        "on several workers"
        [ localOption (QuickCheckTests 2000) (testProperty "stages of any length, and many sinks" stagesAndSinks)
        ],
      testGroup
        "interrupted"
        [ testCase "a time-out ends a run that waits" timeoutWaiting,
          testCase "a time-out ends a run that computes, and nothing goes on" timeoutComputing,
          testCase "a time-out ends a run that passes values for ever" timeoutPassing,
          testCase "killThread" killed,
          testCase "at any moment, 250 times" anyMoment,
          testCase "between the count of a resumption and its push" betweenCountAndPush,
          testCase "by the end of the program, thrown at its main thread" exitThrown,
          testCase "a value whose evaluation was interrupted is evaluated anew" anew,
          testCase "a value that threw throws again" throwsAgain,
          testCase "a nested run inside an interrupted one" nestedInterrupted,
          testCase "all works after this" afterwards
        ]
    ]

-- * Effects

-- | Main, a branch, its branch, the branch again, another branch, main again.
handedRound :: IO ()
handedRound = everyRun $ \run -> do
  did <- newIORef []
  let note w name = io w (atomicModifyIORef' did (\ns -> (name : ns, ())))
  run $ \w -> do
    note w "main"
    c <- newChan "c"
    par . sequenceA_ $
      [ branch (w, out c) $ \(w', o) -> do
          note w' "a"
          par . sequenceA_ $ [branch () (\() -> busy 10), branch (w', o) (\(w'', o') -> note w'' "b" >> send o' () >> busy 5 >> note w'' "c")]
          note w' "d"
          send o (),
        branch (inp c) (replicateM_ 2 . recv)
      ]
    note w "main"
    par (branch w (`note` "e"))
    note w "main"
  readIORef did >>= (@?= ["main", "a", "b", "c", "d", "main", "e", "main"]) . reverse

-- | Workers ask the one branch that has effects; it serves them in turn.
oneWriter :: IO ()
oneWriter = everyRun $ \run -> do
  did <- newIORef []
  got <- run $ \w -> do
    chans <- forM "abc" $ \name -> newChan [name]
    par
      ( traverse (\(k, c) -> branch (out c) (\o -> forM_ [1 .. 5] $ \j -> busy (k * j) >> send o (k * 10 + j))) (zip [0 ..] chans)
          *> branch (w, map inp chans) (\(w', is) -> replicateM_ 5 (forM_ is $ \i -> recv i >>= \x -> io w' (atomicModifyIORef' did (\xs -> (x : xs, ())))))
      )
  got @?= ()
  readIORef did >>= (@?= [k * 10 + j | j <- [1 .. 5], k <- [0 .. 2 :: Int]]) . reverse

unmasked :: IO ()
unmasked = everyRun $ \run -> do
  got <- mask_ (run (\w -> par (branch w (`io` getMaskingState))))
  got @?= Unmasked

ioInside :: IO ()
ioInside = everyRun $ \run -> do
  got <- run $ \w -> par ((,) <$> branch w (\w' -> io w' (run (\v -> par (branch v (`io` pure 'x'))))) <*> branch () (\() -> busy 10))
  got @?= ('x', ())

-- * Inside each other

pipeline :: Int -> Int
pipeline n = runDet $ do
  a <- newChan "a"
  b <- newChan "b"
  par
    ( branch (out a) (\o -> mapM_ (send o) [1 .. n])
        *> branch (inp a, out b) (\(i, o) -> replicateM_ n (recv i >>= send o . (* 2)))
        *> branch (inp b) (\i -> sum <$> replicateM n (recv i))
    )

pureInside :: IO ()
pureInside = everySchedule (Right [k * (k + 1) | k <- [1 .. 6]]) $ do
  c <- newChan "c"
  par
    ( branch (out c) (\o -> forM_ [1 .. 6] (send o . pipeline))
        *> branch (inp c) (replicateM 6 . recv)
    )

twentyDeep :: IO ()
twentyDeep = go (20 :: Int) @?= 40
  where
    go 0 = 0 :: Int
    go n = runDet (sum <$> par (sequenceA [branch () (\() -> pure $! 1), branch () (\() -> pure $! go (n - 1)), branch () (\() -> pure $! 1)]))

innerDeadlock :: IO ()
innerDeadlock = do
  got <- try (evaluate (runDet (par (branch () pure *> branch () (\() -> pure $! (runDet (newChan "c" >>= \c -> par (branch (inp c) recv)) :: Int))))))
  case got of
    Left (Uncaught path e) | Just d <- fromException e -> do
      path @?= "main/par[1]"
      map waitThread (deadlockWaits d) @?= ["main/par[0]"]
    Left e -> assertFailure (displayException e)
    Right x -> assertFailure (show x)

sharedInside :: IO ()
sharedInside = forM_ [1 .. 100 :: Int] $ \k -> do
  let shared = pipeline k
      answer = runDet (sum <$> par (replicateM 6 (branch () (\() -> pure $! shared))))
  answer @?= 6 * k * (k + 1)

manyThreads :: IO ()
manyThreads = do
  let shared = pipeline 300
  done <- forM [1 .. 100] $ \k -> do
    v <- newEmptyMVar
    _ <- forkIO (evaluate (pipeline k + shared) >>= putMVar v)
    pure (k, v)
  forM_ done $ \(k, v) -> takeMVar v >>= (@?= k * (k + 1) + 300 * 301)

masked :: IO ()
masked = forM_ [1 .. 50] $ \k -> do
  mask_ (evaluate (pipeline k)) >>= (@?= k * (k + 1))
  uninterruptibleMask_ (evaluate (pipeline (k + 1))) >>= (@?= (k + 1) * (k + 2))
  uninterruptibleMask_ (runDetIO (\w -> par (branch w (`io` pure k)))) >>= (@?= k)

-- * On several workers

-- | Thieves take some of what a worker has kept to itself, and it becomes impatient for a
-- while. Then a batch of resumptions got onto its deque, and was lost.
stagesAndSinks :: Property
stagesAndSinks =
  forAll (chooseInt (1, 12)) $ \stages -> forAll (chooseInt (1, 12)) $ \sinks ->
    forAll (elements [(0, 300), (30, 300), (1000, 200), (10000, 30)]) $ \(work, most) -> forAll (chooseInt (1, most)) $ \items ->
      ioProperty $ do
        got <- timeout 60000000 (runDetIO (\_ -> program stages sinks work items))
        pure (got === Just (replicate sinks (items * (items + 1) `div` 2 + stages * items)))
  where
    program :: Int -> Int -> Int -> Int -> Det s [Int]
    program stages sinks work items = do
      cs <- mapM (\i -> newChan ("c" ++ show i)) [0 .. stages]
      let stage (i, o) = replicateM_ items (recv i >>= \x -> if spun work x == 0 then send o 0 else send o (x + 1))
      par $
        branch (out (head cs)) (\o -> mapM_ (send o) [1 .. items])
          *> traverse_ (\(c, d) -> branch (inp c, out d) stage) (zip cs (drop 1 cs))
          *> traverse (\_ -> branch (inp (last cs)) (\i -> sum <$> replicateM items (recv i))) [1 .. sinks]
    spun :: Int -> Int -> Int
    spun k !x = if k == 0 then x else spun (k - 1) (x * 6364136223846793005 + 1442695040888963407)

-- * Interrupted

-- | For ever; how far it is can be seen.
counting :: IORef Int -> Det s a
counting n = busy 1 >> act (atomicModifyIORef' n (\k -> (k + 1, ()))) >> counting n

-- | Does it stand still while others compute?
still :: IORef Int -> IO ()
still n = do
  before <- readIORef n
  _ <- evaluate (pipeline 2000 + before)
  readIORef n >>= (@?= before)

timeoutWaiting :: IO ()
timeoutWaiting = forM_ [1 .. 5 :: Int] $ \_ -> do
  never <- newEmptyMVar
  got <- timeout 2000 $
    runDetIO $ \w -> do
      c <- newChan "c"
      par (branch (inp c) recv <* branch (w, out c) (\(w', o) -> io w' (takeMVar never) >>= send o))
  got @?= Nothing
  -- Somebody could have filled it; nobody takes it now.
  putMVar never 'x'
  tryTakeMVar never >>= (@?= Just 'x')

timeoutComputing :: IO ()
timeoutComputing = forM_ [1 .. 5 :: Int] $ \_ -> do
  n <- newIORef 0
  got <- timeout 2000 (evaluate (runDet (par (branch () (\() -> counting n) *> branch () (\() -> counting n) *> branch () pure))))
  got @?= Nothing
  still n

timeoutPassing :: IO ()
timeoutPassing = forM_ [1 .. 5 :: Int] (const (attempt 2000))
  where
    attempt micros = do
      n <- newIORef 0
      got <- timeout micros . evaluate $
        runDet $ do
          c <- newChan "c"
          d <- newChan "d"
          par . sequenceA_ $
            [ branch (out c, inp d) (\(o, i) -> let go x = send o x >> recv i >>= go in go (0 :: Int)),
              branch (inp c, out d) (\(i, o) -> let go = recv i >>= \x -> act (atomicModifyIORef' n (\k -> (k + 1, ()))) >> send o (x + 1) >> go in go)
            ]
      got @?= Nothing
      reached <- readIORef n
      -- On a loaded machine it may not have begun by then.
      if reached > 0 then still n else assertBool "it never began" (micros < 10000000) >> attempt (2 * micros)

killed :: IO ()
killed = forM_ [1 .. 10 :: Int] $ \_ -> do
  n <- newIORef 0
  begun <- newEmptyMVar
  done <- newEmptyMVar
  t <- forkIO $ do
    r <- try . evaluate $
      runDet $ do
        c <- newChan "c"
        par . sequenceA_ $ [branch (inp c) recv, branch (out c) (\_ -> act (putMVar begun ()) >> counting n), branch () (\() -> counting n)]
    at <- readIORef n
    putMVar done (r, at)
  takeMVar begun
  killThread t
  (r, at) <- takeMVar done
  case r of
    Left e -> fromException e @?= Just ThreadKilled
    Right () -> assertFailure "it has ended"
  -- Nothing went on even before the exception was thrown.
  readIORef n >>= (@?= at)

anyMoment :: IO ()
anyMoment = forM_ [1 .. 250 :: Int] $ \k -> do
  done <- newEmptyMVar
  let x = pipeline (20 + k `mod` 50)
  t <- mask_ (forkIOWithUnmask (\unmask -> try (unmask (evaluate x)) >>= putMVar done))
  replicateM_ (k `mod` 40) yield
  killThread t
  takeMVar done >>= \case
    Left e -> fromException (e :: SomeException) @?= Just ThreadKilled
    Right _ -> pure ()
  -- Whatever has happened to it.
  evaluate x >>= (@?= (20 + k `mod` 50) * (21 + k `mod` 50))

-- | There was a safe point there, and the run never ended.
betweenCountAndPush :: IO ()
betweenCountAndPush = forM_ [1 .. 1000] $ \k -> do
  interrupted <- thrownAt ThreadKilled k (evaluate (runDet passing))
  interrupted @?= Nothing
  where
    passing = newChan "c" >>= \c -> par (branch (out c) (\o -> mapM_ (send o) [1 .. 4000 :: Int]) *> branch (inp c) (replicateM_ 4000 . recv))

-- | That exception is of no asynchronous type.
exitThrown :: IO ()
exitThrown = forM_ [1 .. 300] $ \k -> do
  interrupted <- thrownAt (ExitFailure 3) k (evaluate (pipeline 300))
  interrupted @?= Nothing

-- | What it throws that is not this, thrown at it after a while.
thrownAt :: (Exception e, Eq e) => e -> Int -> IO a -> IO (Maybe String)
thrownAt e k body = do
  done <- newEmptyMVar
  t <- mask_ (forkIOWithUnmask (\unmask -> try (unmask body) >>= putMVar done))
  replicateM_ (k * 7 `mod` 100) yield
  _ <- forkIO (throwTo t e)
  timeout 60000000 (takeMVar done) >>= \case
    Nothing -> pure (Just "does not end")
    Just (Left e') | fromException e' /= Just e -> pure (Just (describeException e'))
    _ -> pure Nothing

anew :: IO ()
anew = do
  gate <- newEmptyMVar
  let x = runDet $ do
        c <- newChan "c"
        par (branch (out c) (\o -> send o 'x' >> act (readMVar gate) >> send o 'y') *> branch (inp c) (replicateM 2 . recv))
  timeout 2000 (evaluate x) >>= (@?= Nothing)
  timeout 2000 (evaluate x) >>= (@?= Nothing)
  putMVar gate ()
  evaluate x >>= (@?= "xy")

throwsAgain :: IO ()
throwsAgain = do
  let x = runDet (par (branch () pure *> branch () (\() -> throwDet (Boom 1)))) :: ()
      y = runDet (newChan "c" >>= \c -> par (branch (inp c) recv)) :: ()
  first <- outcome (evaluate y)
  forM_ [1 .. 3 :: Int] $ \_ -> do
    outcome (evaluate x) >>= (@?= Left "main/par[1]: Boom 1")
    outcome (evaluate y) >>= (@?= first)

nestedInterrupted :: IO ()
nestedInterrupted = forM_ [1 .. 5 :: Int] $ \_ -> do
  n <- newIORef 0
  let inner = runDet (par (branch () (\() -> counting n) *> branch () pure)) :: ()
  got <- timeout 2000 (evaluate (runDet (par (branch () (\() -> pure $! inner) *> branch () (\() -> pure $! inner)))))
  got @?= Nothing
  still n

afterwards :: IO ()
afterwards = forM_ [1 .. 200] $ \k -> pipeline k @?= k * (k + 1)
