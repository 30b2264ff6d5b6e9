{-# LANGUAGE RankNTypes #-}
-- A run is a pure value: nothing may be shared between runs that are to be made again.
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What several groups of tests need.
module Support
  ( -- * Running
    everySchedule,
    everyFairSchedule,
    everyRun,
    outcome,
    getCores,

    -- * Parts of programs
    Boom (..),
    busy,
    act,
    tell,
  )
where

import Control.Exception (Exception, evaluate, try)
import Control.Monad (forM_)
import Data.IORef (IORef, atomicModifyIORef')
import Heddle.Prim.Exception (describeException)
import Heddle.Prim.Thread (getCapabilities)
import Heddle.Rendezvous
import Heddle.Rendezvous.Internal (runDetIOSeeded, runDetSeeded)
import System.IO.Unsafe (unsafePerformIO)
import Test.Tasty.HUnit ((@?=))

-- | It ends so, or throws what is displayed so, however it is run. "Main" runs this with
-- several numbers of capabilities.
everySchedule :: (Eq a, Show a) => Either String a -> (forall s. Det s a) -> IO ()
everySchedule want m = do
  forM_ [1 .. 20 :: Int] $ \_ -> outcome (evaluate (runDet m)) >>= (@?= want)
  seeds <- seedsHere
  forM_ seeds $ \seed -> outcome (evaluate (runDetSeeded seed m)) >>= (@?= want)
{-# NOINLINE everySchedule #-}

-- | The same for what has an endless part: on one core a random schedule may prefer that.
everyFairSchedule :: (Eq a, Show a) => Either String a -> (forall s. Det s a) -> IO ()
everyFairSchedule want m =
  getCores >>= \n ->
    if n > 1 then everySchedule want m else outcome (evaluate (runDet m)) >>= (@?= want)
{-# NOINLINE everyFairSchedule #-}

-- | Do this with every way to run.
everyRun :: ((forall a. (forall s. World s -> Det s a) -> IO a) -> IO ()) -> IO ()
everyRun body = do
  forM_ [1 .. 20 :: Int] $ \_ -> body runDetIO
  seeds <- seedsHere
  forM_ seeds $ \seed -> body (runDetIOSeeded seed)

-- | 25 seeds, others for each number of capabilities.
seedsHere :: IO [Int]
seedsHere = (\n -> [25 * n .. 25 * n + 24]) <$> getCores

-- | What it ends with, or what is displayed of what it throws.
outcome :: IO a -> IO (Either String a)
outcome body = either (Left . describeException) Right <$> try body

-- | How many this process runs on.
getCores :: IO Int
getCores = getCapabilities

-- | An exception by number.
newtype Boom = Boom Int
  deriving stock (Eq, Show)

instance Exception Boom

-- | Compute for a while: 1 is about a microsecond.
busy :: Int -> Det s ()
busy n = pure n >>= \k -> if steps k 0 < 0 then throwDet (Boom (-1)) else pure ()
  where
    steps :: Int -> Integer -> Integer
    steps k x = if k <= 0 then x else steps (k - 1) (sum [x .. x + 10])

-- | Do something outside of the language, each time that this is run.
act :: IO () -> Det s ()
act body = pure () >>= \() -> pure $! unsafePerformIO body
{-# NOINLINE act #-}

-- | Let the test see that this was run.
tell :: IORef [a] -> a -> Det s ()
tell ref a = act (atomicModifyIORef' ref (\as -> (a : as, ())))
