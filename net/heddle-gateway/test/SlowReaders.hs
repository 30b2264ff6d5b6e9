{-# LANGUAGE OverloadedStrings #-}

-- | Clients that do not read their answers occupy neither a program nor a connection to one.
module SlowReaders
  ( tests,
  )
where

import CgiTest (Programs (..), withProgramsOn)
import Control.Concurrent.MVar
import Control.Exception (bracket)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder)
import Data.ByteString.Char8 qualified as C
import FastCgiTest (answering, scgiServerOf, tellPeer, wholeRequest, withFast, withServerOf)
import GatewayFixture
import Heddle.Gateway.Cgi
import Heddle.Gateway.FastCgi
import Heddle.Gateway.FastCgi.Record
import Heddle.Gateway.Scgi
import Heddle.Http (defaultSettings)
import Heddle.IO (seconds)
import Heddle.Testkit.HttpClient (answersWith)
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "slowReadersOccupiedTheProcess"
    [ testCase "FastCGI, without a length" (fastCgi 0 ""),
      testCase "FastCGI, with its length" (fastCgi 0 sized),
      testCase "FastCGI, on a kept connection" (fastCgi 1 ""),
      testCase "FastCGI, on a kept connection with its length" (fastCgi 1 sized),
      testCase "FastCGI, the end of the request comes after the content" lateEnd,
      testCase "FastCGI, many small answers that wait for one reader" pipelined,
      testCase "FastCGI, an answer that is cut short is cut short" cutShort,
      testCase "FastCGI, an answer of more than is kept is whole" (tooLarge 100000),
      testCase "FastCGI, nothing is kept" (tooLarge 0),
      testCase "SCGI, without a length" (scgi ""),
      testCase "SCGI, with its length" (scgi sized),
      testCase "CGI, without a length" (cgi ""),
      testCase "CGI, with its length" (cgi "Content-Length: 700000\\r\\n")
    ]
  where
    sized = "Content-Length: 700000\r\n"

large :: ByteString
large = C.replicate 700000 'q'

-- Answers /p/big with a large answer, other paths with a small one.
records :: ByteString -> [(ByteString, ByteString)] -> Builder
records fields params
  | lookup "PATH_INFO" params == Just "/big" = output ("Content-Type: text/plain\r\n" <> fields <> "\r\n" <> large) <> over
  | otherwise = output "Content-Type: text/plain\r\n\r\nsmall" <> over

output :: ByteString -> Builder
output content = mconcat [renderStream Stdout 1 (B.take 60000 (B.drop at content)) | at <- [0, 60000 .. B.length content - 1]]

over :: Builder
over = renderEnd Stdout 1 <> renderEndRequest 1 0 RequestComplete

fastCgi :: Int -> ByteString -> IO ()
fastCgi keep fields = withServerOf (answering (records fields . fst)) $ \address connections ->
  withFast [address] (\s -> s {fastConnections = 1, fastKeep = keep, fastWait = seconds 60}) $ \fast running _ -> do
    occupied running
    connections >>= (@?= (if keep > 0 then 1 else 2))
    void (eventually "no connection in use" (fastConnectionsUsed fast) (== 0))

-- The small answer comes while nothing of the large one is read, and the large one is whole.
occupied :: Running -> IO ()
occupied running = withSlow running $ \slow -> do
  sendAll slow (closing "/p/big")
  asking running "/p/x" >>= answersWith 200 "small"
  everything slow >>= (@?= 700000) . fst

lateEnd :: IO ()
lateEnd = withServerOf serve $ \address _ ->
  withFast [address] (\s -> s {fastConnections = 1, fastWait = seconds 60}) $ \_ running _ -> occupied running
  where
    serve _ peer = go
      where
        go = wholeRequest peer >>= mapM_ (\(params, _) -> told params >> go)
        told params
          | lookup "PATH_INFO" params == Just "/big" = tellPeer peer (output ("Content-Type: text/plain\r\nContent-Length: 700000\r\n\r\n" <> large)) >> tellPeer peer over
          | otherwise = tellPeer peer (records "" params)

-- Each answer is small, and the client reads none of them.
pipelined :: IO ()
pipelined = withServerOf (answering (const (output ("Content-Type: text/plain\r\n\r\n" <> C.replicate 20000 'q') <> over))) $ \address _ ->
  withFast [address] (\s -> s {fastConnections = 1, fastWait = seconds 60}) $ \fast running _ -> withSlow running $ \slow -> do
    sendAll slow (B.concat (replicate 199 "GET /p/x HTTP/1.1\r\nHost: a\r\n\r\n") <> closing "/p/x")
    _ <- eventually "some answers" (length <$> runningNoted running) (> 2)
    asking running "/p/x" >>= answersWith 200 (C.replicate 20000 'q')
    everything slow >>= (@?= 4000000) . fst
    void (eventually "no connection in use" (fastConnectionsUsed fast) (== 0))

cutShort :: IO ()
cutShort = do
  said' <- newEmptyMVar
  let serve _ peer = wholeRequest peer >> tellPeer peer (output ("Content-Type: text/plain\r\n\r\n" <> C.replicate 600000 'q')) >> putMVar said' ()
  withServerOf serve $ \address _ ->
    withFast [address] (\s -> s {fastConnections = 1}) $ \fast running _ -> withSlow running $ \slow -> do
      sendAll slow (closing "/p/big")
      patiently "the program's answer" (takeMVar said')
      -- Nothing has been read.
      _ <- eventually "no connection in use" (fastConnectionsUsed fast) (== 0)
      (count, said) <- everything slow
      count @?= 600000
      ("0\r\n\r\n" `B.isSuffixOf` said) @?= False
      failures <- eventually "a report" (runningFailures running) (not . null)
      failures @?= ["FastCGI /p ended before its answer was whole"]

tooLarge :: Int -> IO ()
tooLarge most = withServerOf (answering (records "" . fst)) $ \address _ ->
  withFast [address] (\s -> s {fastConnections = 1, fastBuffer = most}) $ \fast running _ -> withSlow running $ \slow -> do
    sendAll slow (closing "/p/big")
    everything slow >>= (@?= 700000) . fst
    void (eventually "no connection in use" (fastConnectionsUsed fast) (== 0))

scgi :: ByteString -> IO ()
scgi fields = withServerOf (scgiServerOf answer) $ \address _ -> withTestRuntime $ \runtime ->
  withScgi runtime (defaultScgiSettings [address] "/srv/www") {scgiConnections = 1, scgiWait = seconds 60} $ \gateway ->
    withGatewayServer runtime (scgiGateway gateway) $ \running -> do
      occupied running
      void (eventually "no connection in use" (scgiConnectionsUsed gateway) (== 0))
  where
    answer names _ = "Content-Type: text/plain\r\n" <> if "/big" `elem` names then fields <> "\r\n" <> large else "\r\nsmall"

cgi :: ByteString -> IO ()
cgi fields = withProgramsOn defaultSettings (\s -> s {cgiPrograms = 1, cgiWait = seconds 60}) $ \programs -> do
  forM_ [("big", "head -c 700000 /dev/zero | tr '\\0' q", fields), ("x", "printf small", "")] $ \(name, says, more) -> do
    let path = programsDirectory programs </> "cgi" </> name
    B.writeFile path ("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n" <> more <> "\\r\\n'\n" <> says <> "\n")
    setFileMode path 0o755
  occupied (programsRunning programs)

closing :: ByteString -> ByteString
closing path = "GET " <> path <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

-- A client with little room for what it is sent, which does not read.
withSlow :: Running -> (Socket -> IO a) -> IO a
withSlow running act = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
  withFdSocket s setCloseOnExecIfNeeded
  setSocketOption s RecvBuffer 4096
  connect s (runningAddress running)
  act s

-- How many q come up to the connection's end, and the end.
everything :: Socket -> IO (Int, ByteString)
everything s = go 0 ""
  where
    go count end = do
      piece <- patiently "more of the answer" (recv s 65536)
      if B.null piece
        then pure (count, end)
        else let !now = count + C.count 'q' piece in go now (lastBytes (end <> piece))
    lastBytes bytes = B.drop (B.length bytes - 100) bytes
