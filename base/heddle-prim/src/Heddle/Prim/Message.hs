-- |
-- Module      : Heddle.Prim.Message
-- Description : Whole lines on standard error
-- Stability   : stable
--
-- 'System.IO.hPutStrLn' writes to an unbuffered handle character by character, so the
-- messages of several threads mix. Here each message is one write.
--
-- Cost: one system call per message.
-- Owner: the process's standard error.
module Heddle.Prim.Message
  ( putErrorLine,
  )
where

import Data.ByteString qualified as B
import Data.ByteString.Builder (char7, stringUtf8, toLazyByteString)
import Data.ByteString.Lazy (toStrict)
import Heddle.Prim.Exception (catchSync)
import System.IO (stderr)

-- | Write a message and a newline to standard error, in UTF-8, without another thread's
-- message in between.
--
-- [Cost]: O(length); one system call.
-- [Blocks]: holds an OS thread while standard error is a pipe that is full.
-- [Throws]: nothing synchronous: a message that cannot be written is lost, and what it is about goes on.
-- [Threads]: any.
putErrorLine :: String -> IO ()
putErrorLine message = B.hPut stderr (toStrict (toLazyByteString (stringUtf8 message <> char7 '\n'))) `catchSync` \_ -> pure ()
