-- |
-- Module      : Heddle.Serve.Successor
-- Description : Another process that takes this one's place
-- Stability   : internal, exempt from the version policy
--
-- How a server is replaced by a new version of its program without refusing a connection: the successor gets the listening
-- sockets and says when it serves; only then does this process stop accepting and let its connections finish. Until then it
-- serves as before, so a successor that cannot start does no harm.
--
-- Cost: a process.
-- Owner: 'startSuccessor' collects a process that did not come to serve; init collects one that did.
module Heddle.Serve.Successor
  ( startSuccessor,
    announceReady,
  )
where

import Control.Monad (void)
import Data.List.NonEmpty (NonEmpty)
import Data.List.NonEmpty qualified as NonEmpty
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (allocaArray, peekArray, withArray0, withArrayLen)
import Foreign.Ptr (Ptr, nullPtr)
import GHC.Foreign qualified as Foreign (withCString)
import GHC.IO.Encoding (TextEncoding, getFileSystemEncoding)
import Heddle.IO (RecvResult (..), Runtime, close, recvUntil, register)
import Heddle.Prim.Clock (Nanos, deadlineIn)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Serve.Inherited
import System.Environment (getEnvironment)
import System.Posix.IO (closeFd, fdWrite)
import System.Posix.Types (Fd)

-- | Start a program with these arguments (the first is its name), variables besides the present ones, descriptors that those name, and
-- listeners, and wait until it serves: its process id, or why it does not.
--
-- [Blocks]: parks, until the time has passed; holds an OS thread while the program starts or is collected.
-- [Throws]: never for what the program does; 'IOError' when there are no descriptors.
startSuccessor :: Runtime -> Nanos -> FilePath -> [String] -> [(String, String)] -> [Fd] -> [(String, NonEmpty Fd)] -> IO (Either String Int)
startSuccessor runtime time program arguments variables others listeners =
  bracket openPipe (\(readable, _) -> close readable) $ \(readable, writable) -> do
    started <- spawn writable `finally` closeFd writable
    if started < 0
      then pure (Left (program ++ " cannot be started: " ++ describeErrno (Errno (negate started))))
      else do
        deadline <- deadlineIn time
        heard <- recvUntil readable 1 deadline `onException` c_end (fromIntegral started)
        case heard of
          Got _ -> pure (Right started)
          other -> do
            -- It has closed its end by ending, or it is too slow.
            status <- c_end (fromIntegral started)
            pure . Left $ case other of
              TimedOut -> "it did not begin to serve in time"
              _ -> "it ended with exit code " ++ show status
  where
    openPipe = allocaArray 2 $ \ends -> do
      _ <- checked "pipe2" (fromIntegral <$> c_pipe ends)
      peekArray 2 ends >>= \case
        [r, w] -> do
          conn <- register runtime (fromIntegral r) `onException` (closeFd (fromIntegral r) >> closeFd (fromIntegral w))
          pure (conn, fromIntegral w :: Fd)
        _ -> throwErrnoFor "pipe2" EINVAL
    spawn writable = do
      -- As in "Heddle.Serve.FileName": only this encoding gives all bytes back.
      encoding <- getFileSystemEncoding
      inherited <- getEnvironment
      let handed = renderHandover (Handover writable listeners)
          environment = (handoverVariable, handed) : variables ++ inherited
          kept = writable : others ++ concatMap (NonEmpty.toList . snd) listeners
      Foreign.withCString encoding program $ \path ->
        withStrings encoding arguments $ \argv ->
          withStrings encoding [name ++ "=" ++ value | (name, value) <- environment] $ \envp ->
            withArrayLen (map fromIntegral kept) $ \count fds ->
              fromIntegral <$> c_spawn path argv envp fds (fromIntegral count)

withStrings :: TextEncoding -> [String] -> (Ptr CString -> IO a) -> IO a
withStrings encoding = go []
  where
    go done [] body = withArray0 nullPtr (reverse done) body
    go done (s : rest) body = Foreign.withCString encoding s $ \p -> go (p : done) rest body

-- | Tell the process before that this one serves. If that one has ended meanwhile, nobody needs to know.
--
-- [Blocks]: never; the pipe has room for a byte.
announceReady :: Handover -> IO ()
announceReady handover = void (trySync (fdWrite (handoverReady handover) "1")) >> void (trySync (closeFd (handoverReady handover)))

-- safe: waits until the new program has been read.
foreign import ccall safe "heddle_successor" c_spawn :: CString -> Ptr CString -> Ptr CString -> Ptr CInt -> CInt -> IO CInt

-- safe: waits for the process, which has been killed.
foreign import ccall safe "heddle_successor_end" c_end :: CInt -> IO CInt

-- unsafe: makes a pipe, which never sleeps.
foreign import ccall unsafe "heddle_successor_pipe" c_pipe :: Ptr CInt -> IO CInt
