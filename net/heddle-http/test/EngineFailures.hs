{-# LANGUAGE OverloadedStrings #-}

-- | What becomes of the client, the connection and the report when a handler fails.
module EngineFailures
  ( tests,
  )
where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar (newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Exception (Exception (..), evaluate, finally, throwIO)
import Control.Monad (forM, forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf, sort)
import EngineFixture
import GHC.IO.Handle (hDuplicate, hDuplicateTo)
import Heddle.Http
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Exception (try)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import System.Directory (removeFile)
import System.IO (BufferMode (..), hClose, hSetBuffering, openBinaryTempFile, stderr)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (Assertion, testCase, (@?=))

tests :: TestTree
tests = onBothBackends "handlers that fail" failing

failing :: BackendChoice -> [TestTree]
failing backend =
  [ testCase "before the head: 500, and the connection stays" $
      withEngine backend tight (\_ -> throwIO (userError "oops")) $ \engine -> do
        withClient (engineAddress engine) $ \client ->
          forM_ [1 :: Int, 2] $ \_ -> do
            say client (get "/1")
            answer <- hearAnswer client
            answerCode answer @?= 500
            when ("oops" `isInfixOf` show (answerBody answer)) $
              unexpected "the failure not to be shown to the client" (show answer)
        failuresAre engine ["oops", "oops"],
    testCase "in a pure part of the reply: 500 or the end, and the server lives" $
      withEngine backend tight (\_ -> Whole status200 [] <$> evaluate (error "pure oops")) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/1")
          answer <- hearAnswer client
          answerCode answer @?= 500
        failuresAre engine ["pure oops"],
    testCase "with a body unread: 500, no second request of it" $
      withEngine backend tight (\_ -> throwIO (userError "oops")) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (C.concat ["POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n", B.take 2000 (B.concat (replicate 100 (get "/smuggled")))])
          hearCodes client >>= (@?= [500])
        seen <- engineSeen engine
        seen @?= ["/1"],
    testCase "in a stream, after its head: the end, without the last chunk" $
      withEngine backend tight (\_ -> pure (Stream status200 [] (\w -> writerPut w "abc" >> writerFlush w >> throwIO (userError "oops")))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/1" <> get "/2")
          answer <- hearAnswer client
          answerWhole answer @?= False
          answerBody answer @?= "abc"
          hearEnd client
        seen <- engineSeen engine
        seen @?= ["/1"]
        failuresAre engine ["oops"],
    testCase "failuresWereDropped: defaultSettings prints each failure as one whole line" $ do
      said <- onStandardError $ do
        done <- forM [1 .. 64 :: Int] $ \i -> do
          end <- newEmptyMVar
          end <$ forkIO (forM_ [1 .. 20 :: Int] (settingFailed defaultSettings Nothing . toException . userError . message i) `finally` putMVar end ())
        mapM_ takeMVar done
      let wanted = [C.pack ("heddle-http: a connection failed: user error (" ++ message i k ++ ")") | i <- [1 .. 64], k <- [1 .. 20]]
      sort (C.lines said) @?= sort wanted,
    testCase "a client that resets the connection is not a failure" $
      withEngine backend tight (\r -> target r >>= \t -> if t == "/stream" then pure (Stream status200 [] (\w -> forM_ [1 .. 3000 :: Int] (\_ -> writerPut w (C.replicate 10000 'x')))) else Whole status200 [] . (<> C.replicate 30000000 'x') <$> readWholeBody r 1000) $ \engine -> do
        forM_ [get "/whole", get "/stream", "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"] $ \request -> do
          before <- length <$> engineSeen engine
          withClient (engineAddress engine) $ \client -> do
            say client request
            _ <- eventually "the request to be under way" (length <$> engineSeen engine) (> before)
            abort client
          _ <- eventually "the connection to end" (connectionsOpen (engineServer engine)) (== 0)
          pure ()
        failuresAre engine [],
    testCase "badBodyInAStreamWasReported: a bad chunk read by a stream's action: the end, and no failure of the server" $
      withEngine backend tight (\r -> pure (Stream status200 [] (\w -> readWholeBody r 100 >>= writerPut w))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client ("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n" <> get "/2")
          answers <- hearAll client
          any answerWhole answers @?= False
        failuresAre engine [],
    testCase "throwingStreamLosesEarlierReplies: what was answered before it arrives" $
      withEngine backend tight (\r -> do t <- target r; pure (if t == "/bad" then Stream status200 [] (\w -> writerPut w "abc" >> throwIO (userError "oops")) else Whole status200 [] t)) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/1" <> get "/2" <> get "/bad" <> get "/3")
          hearAnswer client >>= answersWith 200 "/1"
          hearAnswer client >>= answersWith 200 "/2"
          rest <- hearAll client
          unless (not (any answerWhole rest) && length rest <= 1) $
            unexpected "nothing whole after the failed stream" (show rest),
    testCase "CR, LF or NUL in a reply's header: 500, and nothing of it is sent" $
      forM_ injections $ \evil -> do
        released <- newIORef False
        forM_
          [ Whole status200 [Header "X" evil] "",
            Whole status200 [Header evil "x"] "",
            Segments status200 [Header "X" evil] [] (writeIORef released True),
            Stream status200 [Header "X" evil] (\_ -> pure ())
          ]
          $ \reply -> withEngine backend tight (\_ -> pure reply) $ \engine -> do
            withClient (engineAddress engine) $ \client -> do
              say client (get "/1")
              answer <- hearAnswer client
              answerCode answer @?= 500
              answerHeader answer "evil" @?= Nothing
            failuresAre engine ["CR, LF or NUL"]
        readIORef released >>= (@?= True),
    testCase "prebuiltHeadersWereNotChecked: CR, LF or NUL in a prebuilt reply's header: 500" $
      forM_ injections $ \evil -> do
        try (newPrebuilt "heddle" status200 [Header "X" evil] NoContent)
          >>= either (@?= UnsafeHeader (Header "X" evil)) (\_ -> unexpected "UnsafeHeader" "a prebuilt reply")
        withEngine backend tight (\_ -> Ready <$> newPrebuilt "heddle" status200 [Header "X" evil] NoContent) $ \engine -> do
          withClient (engineAddress engine) $ \client -> do
            say client (get "/1")
            answer <- hearAnswer client
            answerCode answer @?= 500
            answerHeader answer "evil" @?= Nothing
          failuresAre engine ["CR, LF or NUL"],
    testCase "HttpException catches each of the package's exceptions" $ do
      rooted BodyTooSlow
      rooted (UnsafeHeader (Header "X" "\r")),
    testCase "lostClientLeaksTheReply: a reply that cannot be sent is released" $ do
      released <- newIORef (0 :: Int)
      gone <- newEmptyMVar
      let handler r = do
            t <- target r
            when (t == "/2") (readMVar gone)
            pure (Segments status200 [] [SegmentBytes t] (modifyIORef' released (+ 1)))
      withEngine backend tight handler $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          -- The first answer waits for the second, which waits for a body that never comes.
          say client (get "/1" <> "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
          _ <- eventually "both requests to be under way" (engineSeen engine) (== ["/1", "/2"])
          abort client
        putMVar gone ()
        _ <- eventually "the connection to end" (connectionsOpen (engineServer engine)) (== 0)
        readIORef released >>= (@?= 2)
  ]
  where
    message i k = "thread " ++ show (i :: Int) ++ " failure " ++ show (k :: Int) ++ replicate 60 '-'
    injections = ["a\r\nEvil: 1", "a\nEvil: 1", "a\rEvil: 1", "a\0b"]

-- What an action writes to standard error.
onStandardError :: IO () -> IO ByteString
onStandardError act = do
  (path, h) <- openBinaryTempFile "/tmp" "engine.err"
  kept <- hDuplicate stderr
  hDuplicateTo h stderr
  hSetBuffering stderr NoBuffering
  act `finally` (hDuplicateTo kept stderr >> hSetBuffering stderr NoBuffering >> hClose kept >> hClose h)
  said <- B.readFile path
  said <$ removeFile path

-- Caught by the root and by its own type, with the same text.
rooted :: Exception e => e -> Assertion
rooted e = do
  byRoot <- try (throwIO e)
  either (\root -> displayException (root :: HttpException)) id byRoot @?= displayException e
  byType <- try (throwIO e)
  either (\own -> displayException (own `asTypeOf` e)) id byType @?= displayException e
