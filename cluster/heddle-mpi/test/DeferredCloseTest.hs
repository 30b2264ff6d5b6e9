-- |
-- Module      : DeferredCloseTest
-- Description : Closings that fail when their caller has gone
--
-- A file whose descriptor is gone cannot be closed without an error. A close that is put off must report what the close throws whose caller waits.
module DeferredCloseTest
  ( cases,
  )
where

import Control.Concurrent.MVar
import Control.Monad (forM_, when)
import Data.Vector.Storable qualified as Vector
import GHC.Conc (getUncaughtExceptionHandler, setUncaughtExceptionHandler)
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import Heddle.MPI.Fast (recvNew, send)
import Heddle.MPI.File
import Heddle.Prim.Exception hiding (assert)
import Ranks
import System.Directory (getTemporaryDirectory, listDirectory)
import System.Posix.Files (readSymbolicLink)
import System.Posix.IO (closeFd)
import System.Posix.Process (getProcessID)
import System.Timeout (timeout)

-- The rule binds the libraries; here it is the handler of uncaught exceptions that is tested.
{- HLINT ignore "Avoid restricted module" -}

cases :: [Case]
cases =
  [ anywhere "aDeferredCloseThatFailedWasSilent: after an exception" afterException,
    onRanks [2, 3] "aDeferredCloseThatFailedWasSilent: interrupted while it waited for the others" interrupted,
    anywhere "a file that was closed before an exception is not reported" closedBefore,
    anywhere "aFileWithoutASizeWasNotClosed" withoutSize
  ]

data Broken = Broken
  deriving stock (Eq, Show)

instance Exception Broken

afterException :: IO ()
afterException = do
  path <- name
  let opened = withFile commSelf path mode [DeleteOnClose]
  expected <- classOf (opened (const (lose path)))
  -- The others may keep it to themselves.
  mpi' <- library
  when (mpi' == Alone) (assert "a file without a descriptor was closed" (expected /= Nothing))
  forM_ [1 .. 3 :: Int] $ \_ -> reporting $ \reported -> do
    outcome <- try (opened (const (lose path >> throwIO Broken)))
    outcome === (Left Broken :: Either Broken ())
    reports reported expected

interrupted :: IO ()
interrupted = do
  rank <- commRank commWorld
  size <- commSize commWorld
  path <- sharedName
  expected <- lost path >>= classOf . closeFile
  file <- lost path
  reporting $ \reported ->
    if rank == 0
      then do
        -- Masked, so that it is interrupted where it waits, not before it has begun.
        mask_ (timeout 20000 (closeFile file)) >>= (=== Nothing)
        forM_ [1 .. size - 1] (\r -> send commWorld (toRank r) 4 (Vector.fromList [1 :: Int]))
        reports reported expected
      else do
        _ <- recvNew commWorld 0 4 1 :: IO (Vector.Vector Int, Status)
        classOf (closeFile file) >>= (=== expected)

withoutSize :: IO ()
withoutSize = do
  file <- sharedName >>= lost
  _ <- classOf (closeFile file)
  throws [AlreadyClosed] (closeFile file)

closedBefore :: IO ()
closedBefore = do
  path <- name
  reporting $ \reported -> do
    outcome <- try (withFile commSelf path mode [DeleteOnClose] (\file -> closeFile file >> throwIO Broken))
    outcome === (Left Broken :: Either Broken ())
    reports reported Nothing

mode :: FileMode
mode = ReadWrite MayExist

-- Of a file that does not exist, another on each rank.
name :: IO FilePath
name = (\directory pid -> directory ++ "/heddle-mpi-deferred-" ++ show pid) <$> getTemporaryDirectory <*> getProcessID

-- The same on all ranks.
sharedName :: IO FilePath
sharedName =
  commRank commWorld >>= \case
    0 -> do
      path <- name
      size <- commSize commWorld
      path <$ forM_ [1 .. size - 1] (\r -> send commWorld (toRank r) 3 (Vector.fromList path))
    _ -> Vector.toList . fst <$> recvNew commWorld 0 3 4096

-- A file that is open, and has no descriptor on any rank.
lost :: FilePath -> IO File
lost path = openFile commWorld path mode [DeleteOnClose] >>= \file -> file <$ (barrier commWorld >> lose path)

-- As if another part of the program had closed it.
lose :: FilePath -> IO ()
lose path =
  listDirectory "/proc/self/fd"
    >>= mapM_
      ( \fd ->
          trySync (readSymbolicLink ("/proc/self/fd/" ++ fd)) >>= \target -> when (either (const False) (== path) target) (closeFd (read fd))
      )

classOf :: IO a -> IO (Maybe ErrorClass)
classOf action = either (Just . errorClass) (const Nothing) <$> try action

-- With what the handler of uncaught exceptions is given.
reporting :: (MVar SomeException -> IO a) -> IO a
reporting body = do
  reported <- newEmptyMVar
  bracket (getUncaughtExceptionHandler <* setUncaughtExceptionHandler (putMVar reported)) setUncaughtExceptionHandler (const (body reported))

-- The file has been closed; the report may come a moment later.
reports :: MVar SomeException -> Maybe ErrorClass -> IO ()
reports reported = \case
  Nothing -> tryTakeMVar reported >>= maybe (pure ()) (\e -> assert ("it was reported: " ++ describeException e) False)
  Just expected -> takeMVar reported >>= \e -> (errorClass <$> fromException e) === Just expected
