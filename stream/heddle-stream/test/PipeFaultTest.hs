-- | Failing and cancelling at every point: whatever is acquired is released, once, and the
-- run has ended when it returns.
--
-- A pipeline is drawn at random. Every action of it, of acquiring and of releasing is a
-- point; a run fails at one of them, is cancelled at one, or is killed by another thread.
module PipeFaultTest (tests) where

import Control.Concurrent (forkIOWithUnmask, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar, tryPutMVar, yield)
import Control.Exception
import Control.Monad (forM_, replicateM_, unless, void, when)
import Control.Monad.IO.Class (liftIO)
import Data.IORef
import Heddle.Pipe (Pipe, await, (.|), (=>=))
import Heddle.Pipe qualified as Pipe
import System.Directory (listDirectory)
import System.IO (IOMode (..), hClose, openBinaryFile)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

{- HLINT ignore "Use void" -}
-- The dropped results are intended.

tests :: TestTree
tests =
  testGroup
    "pipe faults"
    [ testCase "70,000 failures, at every point of pipelines on one thread" $
        injected 70000 (oneThread . numbers) (\_ -> throwIO (userError "injected")),
      testCase "20,000 cancellations, at every point of pipelines on one thread" $
        injected 20000 (oneThread . numbers) (\_ -> myThreadId >>= \t -> throwTo t ThreadKilled),
      testCase "10,000 failures, at every point of pipelines on several threads" $
        injected 10000 (severalThreads . numbers) (\_ -> throwIO (userError "injected")),
      testCase "5,000 pipelines on several threads, killed by another" $ do
        counts <- newCounts
        forM_ [1 .. 5000] $ \seed -> killedAt counts (seed * 7 `mod` 61) (severalThreads (numbers seed))
        balanced counts,
      testCase "6,000 failures and 6,000 kills with open files" $ do
        before <- descriptors
        injectedWith fileResource 6000 (oneThread . numbers) (\_ -> throwIO (userError "injected"))
        counts <- newCounts
        forM_ [1 .. 6000] $ \seed -> killedAt counts {resource = fileResource} (seed * 5 `mod` 41) (severalThreads (numbers seed))
        balanced counts
        descriptors >>= (@?= before)
    ]

-- Runs -----------------------------------------------------------------------

data Counts = Counts
  { acquired :: IORef Int,
    released :: IORef Int,
    -- | Released a second time.
    twice :: IORef Int,
    -- | Points passed in this run.
    passed :: IORef Int,
    -- | Where it is to happen, and what.
    atPoint :: IORef (Int, Int -> IO ()),
    resource :: IO (IO ())
  }

newCounts :: IO Counts
newCounts = Counts <$> newIORef 0 <*> newIORef 0 <*> newIORef 0 <*> newIORef 0 <*> newIORef (0, \_ -> pure ()) <*> pure (pure (pure ()))

fileResource :: IO (IO ())
fileResource = hClose <$> openBinaryFile "/dev/null" ReadMode

point :: Counts -> IO ()
point counts = do
  n <- atomicModifyIORef' (passed counts) (\n -> (n + 1, n))
  (k, what) <- readIORef (atPoint counts)
  when (n == k) (what k)

-- | Run pipelines, each once for each of its points, until this many points have been hit.
injected :: Int -> (Int -> Part) -> (Int -> IO ()) -> IO ()
injected = injectedWith (pure (pure ()))

injectedWith :: IO (IO ()) -> Int -> (Int -> Part) -> (Int -> IO ()) -> IO ()
injectedWith res total shape what = do
  fresh <- newCounts
  let counts = fresh {resource = res}
      go :: Int -> Int -> Int -> IO ()
      go done seed k
        | done >= total = pure ()
        | otherwise = do
          writeIORef (passed counts) 0
          hit <- newIORef False
          writeIORef (atPoint counts) (k, \n -> writeIORef hit True >> what n)
          void (try (Pipe.runPipe (source counts (shape seed))) :: IO (Either SomeException ()))
          balanced counts
          was <- readIORef hit
          if was then go (done + 1) seed (k + 1) else go done (seed + 1) 0
  go 0 1 0
  writeIORef (atPoint counts) (-1, \_ -> pure ())

-- | Run it on a thread, which is killed after it has passed this many points.
killedAt :: Counts -> Int -> Part -> IO ()
killedAt counts k part = do
  writeIORef (passed counts) 0
  ready <- newEmptyMVar
  over <- newEmptyMVar
  writeIORef (atPoint counts) (k, \_ -> void (tryPutMVar ready ()))
  -- Masked outside the run, so that a kill that comes late does not keep it from reporting.
  thread <- mask_ $
    forkIOWithUnmask $ \unmask -> do
      r <- try (unmask (Pipe.runPipe (source counts part)))
      held <- (-) <$> readIORef (acquired counts) <*> readIORef (released counts)
      void (tryPutMVar ready ())
      putMVar over (held, r :: Either SomeException ())
  takeMVar ready
  replicateM_ (k `mod` 3) yield
  killThread thread
  (held, _) <- takeMVar over
  held @?= 0

balanced :: Counts -> IO ()
balanced counts = do
  a <- readIORef (acquired counts)
  r <- readIORef (released counts)
  t <- readIORef (twice counts)
  unless (a == r && t == 0) (assertFailure (show a ++ " acquired, " ++ show r ++ " released, of these twice " ++ show t))

descriptors :: IO Int
descriptors = length <$> listDirectory "/proc/self/fd"

-- Pipelines ------------------------------------------------------------------

data Part
  = Relay
  | Act
  | Stop Int
  | Bracket Part
  | Two Part Part
  | Then Part Part
  | Drained Part Part
  | Guarded Part
  | Called Part
  | Buffered Int Part
  | Parallel
  deriving stock (Show)

-- | A dozen values through it.
source :: Counts -> Part -> Pipe Pipe.Void Pipe.Void ()
source counts part = bracketed counts (naturals .| run counts part) .| Pipe.drain
  where
    naturals = Pipe.each [1 .. 12 :: Int]

run :: Counts -> Part -> Pipe Int Int ()
run counts = \case
  Relay -> Pipe.mapM (\a -> a <$ point counts)
  Act -> liftIO (point counts)
  Stop n -> Pipe.take n
  Bracket p -> bracketed counts (run counts p)
  Two p q -> run counts p .| run counts q
  Then p q -> run counts p *> run counts q
  Drained p q -> void (run counts p =>= run counts q)
  Guarded p -> Pipe.catchP (run counts p) (\e -> liftIO (const (point counts) (e :: IOException)))
  Called p -> Pipe.named "called" (run counts p)
  Buffered n p -> Pipe.withSource (Pipe.buffered n (bracketed counts (Pipe.each [1 .. 40] .| run counts p))) $ \next ->
    let go = next >>= mapM_ (\b -> await >>= mapM_ (\a -> Pipe.yield (a + b) *> go)) in go
  Parallel -> Pipe.mapInParallel 2 (\a -> a <$ point counts)

bracketed :: Counts -> Pipe i o r -> Pipe i o r
bracketed counts p = Pipe.bracketP open close (const p)
  where
    open = do
      point counts
      free <- resource counts
      atomicModifyIORef' (acquired counts) (\n -> (n + 1, ()))
      (,) free <$> newIORef False
    close (free, state) = do
      free :: IO ()
      was <- atomicModifyIORef' state ((,) True)
      atomicModifyIORef' (if was then twice counts else released counts) (\n -> (n + 1, ()))
      point counts

-- | Endless numbers from a seed.
numbers :: Int -> [Int]
numbers = map (`div` 65536) . tail . iterate (\s -> (s * 1103515245 + 12345) `mod` 2147483648) . (* 2654435)

oneThread, severalThreads :: [Int] -> Part
oneThread = fst . draw False 5
severalThreads ns = case draw True 4 ns of
  (p, n : _) -> if even n then Two (Buffered (n `mod` 3 + 1) p) Parallel else Two Relay (Two p (Bracket (Buffered 2 Relay)))
  (p, []) -> p

draw :: Bool -> Int -> [Int] -> (Part, [Int])
draw threads depth = \case
  [] -> (Relay, [])
  n : ns
    | depth == (0 :: Int) -> (leaf n, ns)
    | otherwise -> case n `mod` 13 of
      0 -> (leaf n, ns)
      1 -> two Two
      2 -> two Two
      3 -> two Then
      4 -> two Then
      5 -> two Drained
      6 -> one Guarded
      7 -> one Called
      8 | threads -> one (Buffered (n `mod` 3 + 1))
      9 | threads -> (Parallel, ns)
      _ -> one Bracket
    where
      one f = let (p, ns') = draw threads (depth - 1) ns in (f p, ns')
      two f =
        let (p, ns') = draw threads (depth - 1) ns
            (q, ns'') = draw threads (depth - 1) ns'
         in (f p q, ns'')
  where
    leaf n = case n `mod` 4 of
      0 -> Act
      1 -> Stop (n `mod` 5)
      _ -> Relay
