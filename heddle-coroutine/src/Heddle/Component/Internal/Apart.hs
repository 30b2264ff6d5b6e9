{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Component.Internal.Apart
-- Description : Stages on threads of their own, and commands
-- Stability   : internal, exempt from the version policy
--
-- What is behind ':||' runs on a thread of its own, fed through a bounded ring of pieces, in
-- order. A command in the middle of a pipeline has a thread that reads what comes out of it,
-- and runs what is downstream.
--
-- A stage that fails on its own thread stops the run: its exception reaches the thread that
-- runs the machine, wherever that waits.
--
-- Cost: a few microseconds for each batch of pieces that goes to another thread.
-- Owner: the run's scope, which ends threads and processes.
module Heddle.Component.Internal.Apart
  ( apart,
    streamCommand,
    wholeCommand,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe qualified as Bytes
import Data.Foldable (for_)
import GHC.Foreign qualified as Foreign
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Component.Internal.Machine
import Heddle.Component.Internal.Print (quoted)
import Heddle.Component.Internal.Ring
import Heddle.Pipe.Internal.Scope (StageFailed (..))
import Heddle.Prim.Atomic (modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Errno (errnoOf, pattern EPIPE)
import Heddle.Prim.Exception
import System.Exit (ExitCode (..))
import System.IO (BufferMode (..), Handle, hClose, hFlush, hSetBinaryMode, hSetBuffering)
import System.Process hiding (env)

-- | How many bytes go to another thread at once, as far as there are so many.
batchBytes :: Int
batchBytes = 65536

-- | Run what is downstream, which was made with the first, on a thread of its own. The second
-- is for what is upstream.
--
-- [Throws]: when the run is over, what the thread threw.
apart :: Env -> Env -> Sink -> IO Sink
apart below env to = do
  ring <- newRing 8
  let loop =
        takeItem ring >>= \case
          Nothing -> finish to
          Just batch -> do
            wanted <- pushAll batch
            if wanted then turn below else noMore ring
            loop
      pushAll = \case
        [] -> pure True
        piece : pieces -> push to piece >>= \ok -> if ok then pushAll pieces else pure False
  worker <- startWorker env "coroutine/stage" (loop `onException` noMore ring)
  batch <- newRef []
  size <- newRef (0 :: Int)
  wanting <- newRef True
  let flush = do
        pieces <- readRef batch
        unless (null pieces) $ do
          writeRef batch []
          writeRef size 0
          putItem ring (reverse pieces) >>= writeRef wanting
      take' piece = do
        modifyRef batch (\pieces -> (piece : pieces, ()))
        n <- (+ Bytes.length piece) <$> readRef size
        writeRef size n
        when (n >= batchBytes) flush
        readRef wanting
  onTurn env flush
  pure $
    Sink take' $ do
      flush
      closeRing ring
      joinWorker worker
      failureSoFar env

-- Commands -------------------------------------------------------------------

-- | A shell command in the middle of a pipeline: what it gives is passed on as it comes.
--
-- [Throws]: 'StageFailed' when it ends with another status than 0.
streamCommand :: ByteString -> Env -> Env -> Sink -> IO Sink
streamCommand text below env to = do
  (input, output, process) <- startCommand env text
  stopped <- newRef False
  let loop = do
        piece <- Bytes.hGetSome output 65536
        if Bytes.null piece
          then finish to
          else do
            wanted <- push to piece
            if wanted then turn below >> loop else writeRef stopped True >> hClose output >> finish to
  worker <- startWorker env "coroutine/command" loop
  feeding env input $ do
    joinWorker worker
    failureSoFar env
    early <- readRef stopped
    endCommand text early process

-- | A shell command inside of another stage: what it gives is passed on when it has ended.
--
-- [Throws]: 'StageFailed' when it ends with another status than 0; 'TooLong' when it gives
-- more than may be kept.
wholeCommand :: ByteString -> Env -> Sink -> IO Sink
wholeCommand text env to = do
  (input, output, process) <- startCommand env text
  held <- newHeld env
  kept <- newRef []
  let loop = do
        piece <- Bytes.hGetSome output 65536
        unless (Bytes.null piece) $ do
          hold held piece
          modifyRef kept (\pieces -> (piece : pieces, ()))
          loop
  worker <- startWorker env "coroutine/command" loop
  feeding env input $ do
    joinWorker worker
    failureSoFar env
    hClose output
    endCommand text False process
    readRef kept >>= mapM_ (push to) . reverse
    finish to

startCommand :: Env -> ByteString -> IO (Handle, Handle, ProcessHandle)
startCommand env text = mask_ $ do
  encoding <- getFileSystemEncoding
  line <- Bytes.unsafeUseAsCStringLen text (Foreign.peekCStringLen encoding)
  (Just input, Just output, _, process) <- createProcess (shell line) {std_in = CreatePipe, std_out = CreatePipe, close_fds = True}
  onExit (envScope env) $ do
    -- It may have ended long ago; then nothing happens here.
    getProcessExitCode process >>= \case
      Just _ -> pure ()
      Nothing -> terminateProcess process
    quietly (hClose output)
    quietly (hClose input)
    void (waitForProcess process)
  for_ [input, output] (`hSetBinaryMode` True)
  hSetBuffering input (BlockBuffering (Just 65536))
  pure (input, output, process)
  where
    quietly action = action `catchSync` \_ -> pure ()

-- Writes to a command, which may have stopped reading.
feeding :: Env -> Handle -> IO () -> IO Sink
feeding env input done = do
  reading <- newRef True
  let unlessGone action =
        action `catch` \e ->
          if errnoOf e == Just EPIPE then writeRef reading False else throwIO e
      flush = do
        still <- readRef reading
        when still (unlessGone (hFlush input))
  onTurn env flush
  pure $
    Sink
      ( \piece -> do
          still <- readRef reading
          when still (unlessGone (Bytes.hPut input piece))
          readRef reading
      )
      ( do
          unlessGone (hClose input)
          done
      )

-- Its status; one that was stopped early may have died of that.
endCommand :: ByteString -> Bool -> ProcessHandle -> IO ()
endCommand text early process =
  waitForProcess process >>= \case
    ExitSuccess -> pure ()
    ExitFailure n
      | early && (n == -13 || n == 141) -> pure ()
      | n < 0 -> failed ("killed by signal " ++ show (negate n))
      | n == 127 -> failed "the shell found no such command (exit status 127)"
      | otherwise -> failed ("exit status " ++ show n)
  where
    failed = throwIO . StageFailed ("command " ++ quoted text) . toException . CommandFailed
