-- |
-- Module      : Heddle.Http.SendFile
-- Description : Parts of files, sent without a workspace
-- Stability   : internal, exempt from the version policy
--
-- A client that takes a file slowly costs the thread that waits for it and 40 bytes.
--
-- Cost: a system call for every 4 MiB or full socket.
-- Owner: the connection's thread.
module Heddle.Http.SendFile
  ( sendFileNow,
    sendFileAt,
  )
where

import Data.Int (Int64)
import Heddle.Http.Settings (Pace, paceDeadline, paceKept)
import Heddle.IO.Transport (Transport, writeFilePaced)
import Heddle.Prim.Atomic (newWords, readWord, writeWord)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import System.Posix.Types (Fd)

-- | @sendFileNow transport file offset count@ sends what the client takes at once: how much that was. Not for a transport with a layer,
-- whose records would be cut short.
--
-- [Blocks]: while pages come from the disk, holds an OS thread.
sendFileNow :: Transport -> Fd -> Int64 -> Int -> IO Int
sendFileNow transport file offset count = writeFilePaced transport file offset count (const (pure (Deadline 0)))

-- | The same for all of it, at least at this pace. The answer is less when the file has become shorter, the client has gone, or is
-- too slow.
--
-- [Blocks]: parks; while pages come from the disk, holds an OS thread.
sendFileAt :: Pace -> Transport -> Fd -> Int64 -> Int -> IO Int
sendFileAt pace transport file offset count = do
  Deadline start <- monotonicNow
  window <- newWords 2
  writeWord window began start
  -- Windows of the pace, one after the other.
  writeFilePaced transport file offset count $ \done -> do
    from <- Deadline <$> readWord window began
    before <- readWord window doneThen
    t@(Deadline t') <- monotonicNow
    if paceKept pace from (done - before) t
      then do
        writeWord window began t'
        writeWord window doneThen done
        pure (paceDeadline pace t 0)
      else pure (paceDeadline pace from (done - before))
  where
    began = 0
    doneThen = 1
