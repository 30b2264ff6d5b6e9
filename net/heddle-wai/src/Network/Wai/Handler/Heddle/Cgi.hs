{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Cgi
-- Description : A WAI application as a CGI program
-- Stability   : stable
--
-- The same application that 'Network.Wai.Handler.Heddle.run' serves, as a program that any web server starts for each
-- request:
--
-- > main :: IO ()
-- > main = runCgi application
--
-- Cost: the start of the program.
-- Owner: the process; it answers one request.
-- [Source]: RFC 3875; Mighttpd, section on WAI.
module Network.Wai.Handler.Heddle.Cgi
  ( runCgi,
    programVariables,
  )
where

import Control.Monad (unless)
import Data.ByteString qualified as B
import Data.ByteString.Builder (hPutBuilder)
import Data.ByteString.Char8 qualified as C
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception (describeException)
import Network.Wai (Application)
import Network.Wai.Handler.Heddle.Variables
import System.IO (BufferMode (..), hFlush, hPutStrLn, hSetBinaryMode, hSetBuffering, stderr, stdin, stdout)
import System.Posix.Env.ByteString (getEnvironment)
import System.Posix.Signals (raiseSignal, sigKILL)

-- | Answer the request that the environment and standard input describe, on standard output. What the application throws
-- is told on standard error, which servers log.
--
-- If the answer breaks off the process ends itself by SIGKILL, from which a server can tell.
--
-- [Blocks]: as the application does.
runCgi :: Application -> IO ()
runCgi application = do
  hSetBinaryMode stdin True
  hSetBinaryMode stdout True
  hSetBuffering stdout (BlockBuffering (Just 32768))
  variables <- getEnvironment
  -- The length, if there is one, is the body's end: the server may leave the input open.
  left <- newRef (maybe maxBound fst (C.readInt =<< lookup "CONTENT_LENGTH" variables))
  let body = do
        n <- readRef left
        piece <- if n <= 0 then pure B.empty else B.hGetSome stdin (min 32768 n)
        writeRef left (n - B.length piece)
        pure piece
  request <- requestOf variables body
  whole <- answerWith (hPutStrLn stderr . describeException) application (Sink (hPutBuilder stdout) (hFlush stdout)) request
  hFlush stdout
  unless whole (raiseSignal sigKILL)
