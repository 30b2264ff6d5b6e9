{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Which branch evaluates a value, and so has its work, its exceptions and the effects of
-- lazy input.
module EvaluationTest (tests) where

import Control.Exception (ErrorCall (..))
import Control.Monad (void)
import Data.Foldable (sequenceA_)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Rendezvous
import Support
import System.IO.Unsafe (unsafeInterleaveIO, unsafePerformIO)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "evaluation"
    [ testCase "lazy input in a value is read before it is sent" lazyInputSent,
      testCase "lazy input is read inside io" lazyInputInIo,
      testCase "lazy input is not read by a branch without the world" lazyInputCaptured,
      testCase "an exception inside a value is the sender's" (everySchedule (Left "main/par[0]: deep") (deepError send)),
      testCase "after sendLazy it is the reader's" (everySchedule (Left "main/par[1]: deep") (deepError sendLazy)),
      testCase "sendLazy evaluates to weak head normal form" (everySchedule (Left "main/par[0]: deep") shallowError),
      testCase "an exception inside a result of io is one of io" errorInResult,
      testCase "ioLazy leaves its result as it is" resultLeft
    ]

note :: IORef [String] -> String -> IO ()
note did name = atomicModifyIORef' did (\names -> (name : names, ()))

-- | A string that is read when it is looked at.
input :: IORef [String] -> String
input did = unsafePerformIO ("line" <$ note did "read")
{-# NOINLINE input #-}

lazyInputSent :: IO ()
lazyInputSent = everyRun $ \run -> do
  did <- newIORef []
  run $ \w -> do
    c <- newChan "c"
    par . sequenceA_ $
      [ branch (w, out c) (\(w', o) -> io w' (note did "before") >> send o [input did] >> io w' (note did "after")),
        branch (inp c) (\i -> recv i >>= \lines' -> if length (concat lines') == 4 then pure () else throwDet (Boom 1)),
        branch (inp c) (void . recv)
      ]
  readIORef did >>= (@?= ["before", "read", "after"]) . reverse

lazyInputInIo :: IO ()
lazyInputInIo = everyRun $ \run -> do
  did <- newIORef []
  got <- run $ \w -> do
    line <- io w (unsafeInterleaveIO ("line" <$ note did "read"))
    io w (note did "after")
    pure line
  got @?= "line"
  readIORef did >>= (@?= ["read", "after"]) . reverse

-- | It gets there in the code of the branch, through no channel.
lazyInputCaptured :: IO ()
lazyInputCaptured = everyRun $ \run -> do
  did <- newIORef []
  got <- run $ \w -> do
    line <- io w (unsafeInterleaveIO ("line" <$ note did "read"))
    par (branch () (\() -> busy 3 >> (pure $! length line)) <* branch w (\w' -> io w' (note did "first") >> busy 6 >> io w' (note did "second")))
  got @?= 4
  readIORef did >>= (@?= ["read", "first", "second"]) . reverse

deepError :: (forall t. Out t [Int] -> [Int] -> Det t ()) -> Det s Int
deepError send' = do
  c <- newChan "c"
  par (branch (out c) (\o -> send' o [1, errorWithoutStackTrace "deep"]) *> branch (inp c) (\i -> recv i >>= \xs -> pure $! sum xs))

shallowError :: Det s ()
shallowError = do
  c <- newChan "c"
  par (branch (out c) (\o -> sendLazy o (errorWithoutStackTrace "deep" :: Int -> Int)) <* branch (inp c) recv)

errorInResult :: IO ()
errorInResult = everyRun $ \run -> do
  got <- run $ \w -> tryDet (io w (pure [1 :: Int, errorWithoutStackTrace "deep"]))
  either (\(ErrorCall e) -> e) show got @?= "deep"

resultLeft :: IO ()
resultLeft = everyRun $ \run -> do
  got <- run $ \w -> ioLazy w (pure (errorWithoutStackTrace "deep" :: Int)) >> ioLazy w (pure 'x')
  got @?= 'x'
