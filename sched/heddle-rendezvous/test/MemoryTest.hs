-- | What has been done is not kept.
module MemoryTest (tests) where

import Control.Monad (replicateM_, when)
import Data.IORef (modifyIORef', newIORef, readIORef)
import GHC.Stats (getRTSStatsEnabled)
import Heddle.Rendezvous
import Heddle.Testkit.Heap (liveBytes)
import Support
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, testCase)

tests :: TestTree
tests =
  testGroup
    "memory"
    [ testCase "a channel used 1,000,000 times" channel,
      testCase "a channel with three readers, 300,000 times" readers,
      testCase "100,000 pars, one after the other" pars,
      testCase "100,000 channels" channels,
      testCase "100,000 exceptions caught" exceptions
    ]

-- | Run it with something that looks at the heap, to be called now and then.
grows :: (IO () -> IO ()) -> Assertion
grows body = do
  enabled <- getRTSStatsEnabled
  assertBool "run with +RTS -T" enabled
  seen <- newIORef []
  body $ do
    live <- liveBytes
    modifyIORef' seen (live :)
  sizes <- reverse <$> readIORef seen
  assertBool ("looked only " ++ show (length sizes) ++ " times") (length sizes >= 5)
  assertBool ("live bytes: " ++ show sizes) (last sizes < head sizes + 200000)

-- | No list, which would be kept itself.
upTo :: Int -> (Int -> Det s ()) -> Det s ()
upTo n body = go 1
  where
    go k = when (k <= n) (body k >> go (k + 1))

channel :: Assertion
channel = grows $ \look -> runDetIO $ \w -> do
  c <- newChan "c"
  par
    ( branch (w, out c) (\(w', o) -> upTo 1000000 $ \k -> send o k >> when (k `mod` 100000 == 0) (io w' look))
        *> branch (inp c) (replicateM_ 1000000 . recv)
    )

readers :: Assertion
readers = grows $ \look -> runDetIO $ \w -> do
  c <- newChan "c"
  par
    ( branch (w, out c) (\(w', o) -> upTo 300000 $ \k -> send o k >> when (k `mod` 50000 == 0) (io w' look))
        *> branch (inp c) (replicateM_ 300000 . recv)
        *> branch (inp c) (\i -> par (branch i (replicateM_ 150000 . recv)) >> replicateM_ 150000 (recv i))
        *> branch (inp c) (replicateM_ 300000 . recv)
    )

-- | With a channel of long life, whose ends are granted on each time.
pars :: Assertion
pars = grows $ \look -> runDetIO $ \w -> do
  c <- newChan "c"
  par
    ( branch (w, out c) (\(w', o) -> upTo 100000 $ \k -> par (branch o (`send` k) *> branch () pure) >> when (k `mod` 10000 == 0) (io w' look))
        *> branch (inp c) (\i -> replicateM_ 50000 (par (branch i recv *> branch i recv) >> recv i))
    )

channels :: Assertion
channels = grows $ \look -> runDetIO $ \w -> upTo 100000 $ \k -> do
  c <- newChan "c"
  x <- par (branch (out c) (`send` k) *> branch (inp c) recv)
  when (x `mod` 10000 == 0) (io w look)

exceptions :: Assertion
exceptions = grows $ \look -> runDetIO $ \w -> upTo 100000 $ \k -> do
  r <- tryDet (par (branch () pure *> branch () (\() -> throwDet (Boom k) :: Det t ())))
  when (r == Left (Boom k) && k `mod` 10000 == 0) (io w look)
