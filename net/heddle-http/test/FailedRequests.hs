{-# LANGUAGE OverloadedStrings #-}

-- | A report of a failure names the request, whatever has failed.
module FailedRequests (tests) where

import Control.Exception (throwIO)
import Control.Monad (void)
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as C
import EngineFixture
import H2Fixture (portOf, program)
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.Watchdog (eventually, unexpected)
import Network.Socket (SockAddr (..))
import Test.Tasty
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "requests that fail"
    [ testGroup
        "reportsNamedNoRequest"
        [ testCase (version ++ ", " ++ name) (names flag handler)
          | (version, flag) <- versions,
            (name, handler) <- failing ++ [("a tunnel throws", tunnel) | flag == "--http1.1"]
        ],
      testGroup
        "replyWasLookedAtOutsideTheHandler: 500, and the connection stays"
        [testCase (version ++ ", " ++ name) (fails flag reply) | (version, flag) <- versions, (name, reply) <- throwing]
    ]
  where
    versions = [("HTTP/1.1", "--http1.1"), ("HTTP/2", "--http2-prior-knowledge")]
    tunnel _ = pure (Tunnel Nothing (\_ -> throwIO (userError "x")))
    throwing = [("all of it", bottom), ("its status", Whole bottom [] ""), ("its content", Whole status200 [] bottom), ("its builder", Built status200 [] bottom)]

fails :: String -> Reply -> IO ()
fails flag reply = withEngine Epoll tight (\request -> rawPath request >>= \path -> pure (if path == "/fine" then Whole status200 [] "" else reply)) $ \engine -> do
  let address = "http://127.0.0.1:" ++ show (portOf (engineAddress engine)) ++ "/"
  -- curl 7.88 uses no connection of HTTP/2 again that began without an upgrade.
  let again = if flag == "--http1.1" then ["-o", "/dev/null", address ++ "fine"] else []
  said <- program "curl" (["-s", flag, "-w", "%{http_code} %{num_connects} ", "-o", "/dev/null", address] ++ again)
  said @?= (if null again then "500 1 " else "500 1 200 0 ")
  failuresAre engine ["x"]

bottom :: a
bottom = errorWithoutStackTrace "x"

failing :: [(String, Handler)]
failing =
  [ ("the handler throws", \_ -> throwIO (userError "x")),
    ("after it has read the body", \request -> readWholeBody request 100 >> throwIO (userError "x")),
    ("content throws before it is sent", \_ -> pure (Built status200 [] (errorWithoutStackTrace "x"))),
    ("a stream throws after its head", \_ -> pure (Stream status200 [] (\w -> writerPut w "some" >> writerFlush w >> throwIO (userError "x")))),
    ("a large builder throws", \_ -> pure (Built status200 [] (Builder.byteString (C.replicate 200000 'a') <> errorWithoutStackTrace "x"))),
    ("it throws after its reply", \request -> replyNow request (Whole status200 [] "") >> throwIO (userError "x")),
    ("the reply has no final status", \_ -> pure (Whole (otherStatus 199) [] "")),
    ("there is no reply", \_ -> pure (Replied status200))
  ]

names :: String -> Handler -> IO ()
names flag handler = withEngine Epoll tight handler $ \engine -> do
  void (program "sh" ["-c", "\"$@\" || true", "sh", "curl", "-s", "-m", "60", "-o", "/dev/null", "-d", "body", flag, "http://127.0.0.1:" ++ show (portOf (engineAddress engine)) ++ "/a%20b?secret"])
  heard <- eventually "a report" (engineFailed engine) (not . null)
  case heard of
    [Just failed@(FailedRequest verb path (Just (SockAddrInet port _)))] -> do
      (verb, path) @?= ("POST", "/a%20b?secret")
      describeFailedRequest failed @?= "POST /a%20b from 127.0.0.1:" ++ show port
    other -> unexpected "one report, with its request" (show other)
