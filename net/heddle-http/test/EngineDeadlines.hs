{-# LANGUAGE OverloadedStrings #-}

-- | Slow clients, idle clients, and the end of a server.
module EngineDeadlines
  ( tests,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, catch, try)
import Control.Monad (forM, forM_, replicateM, replicateM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.Maybe (catMaybes)
import EngineFixture
import Heddle.Http
import Heddle.IO (BackendChoice)
import Heddle.Prim.Clock (deadlineIn, milliseconds, monotonicNow, seconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "deadlines"
    [ onBothBackends "slow clients" slow,
      onBothBackends "draining" draining
    ]

slow :: BackendChoice -> [TestTree]
slow backend =
  [ testCase "a client that says nothing is closed without an answer" $
      withEngine backend soonHead echo $ \engine ->
        withClient (engineAddress engine) hearEnd,
    testCase "a head that stops: 408" $
      withEngine backend soonHead echo $ \engine ->
        saying engine "GET /1 HTTP/1.1\r\nHost: a\r\nX" $ \client ->
          hearCodes client >>= (@?= [408]),
    testCase "a head that trickles: 408, though each byte comes in time" $
      withEngine backend soonHead echo $ \engine ->
        saying engine "GET /1 HTTP/1.1\r\nHost: a\r\nX: " $ \client -> do
          trickle client "a"
          answers <- hearAll client
          map answerCode answers @?= [408]
          map (`answerHeader` "connection") answers @?= [Just "close"],
    testCase "a second head that stops: 408, after the first answer" $
      withEngine backend soonHead echo $ \engine ->
        saying engine (get "/1" <> "GET /2 HT") $ \client ->
          hearCodes client >>= (@?= [200, 408]),
    testCase "a kept connection that is silent is closed without an answer" $
      withEngine backend tight {settingIdle = milliseconds 200} echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          -- All at once: between them it must not be silent for too long.
          say client (C.concat (replicate 3 (get "/1")))
          replicateM_ 3 (hearAnswer client >>= answersWith 200 "GET /1\n")
          hearEnd client,
    testCase "a sized body that stops: 408" $
      withEngine backend soon echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"
          hearCodes client >>= (@?= [408]),
    testCase "a chunked body that stops: 408" $
      withEngine backend soon echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
          hearCodes client >>= (@?= [408]),
    testCase "a body that trickles below the least rate: 408, though each byte comes in time" $
      withEngine backend soon echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n"
          trickle client "a"
          hearCodes client >>= (@?= [408]),
    testCase "windowRolledOverWhateverCame: two bytes around each window's end do not buy another" $
      withEngine backend soon {settingBodyPace = Pace (milliseconds 300) 1000} echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n"
          trickle client "aa"
          hearCodes client >>= (@?= [408]),
    testCase "unreadBodyErrorsWereIgnored: a body that the handler does not read and that stops: 408" $
      withEngine backend soon (\_ -> pure (Whole status200 [] "done")) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"
          answers <- hearAll client
          map answerCode answers @?= [408]
          map (`answerHeader` "connection") answers @?= [Just "close"]
        _ <- eventually "a log line with 408" (engineLogged engine) (== [408])
        pure (),
    testCase "discardedBodiesKeptWorkspaces: a request is as it was when the workspace has been lent to others meanwhile" $ do
      let handler request = do
            t <- target request
            if t == "/other"
              then echo request
              else do
                _ <- setRequestHeader request "X-Added" (C.replicate 100 'x')
                replyWithHeader request "X-Given" t
                pure (Whole status200 [] "done")
          piecewise client others body = forM_ (C.unpack body) $ \byte -> do
            heard <- hearsWithin client 3000
            heard @?= False
            forM_ others $ \other -> do
              say other "GET /other HTTP/1.1\r\nHost: other\r\nX-Filler: ffffffffffffffffffffffffffffffff\r\nConnection: keep-alive\r\n\r\n"
              hearAnswer other >>= answersWith 200 "GET /other\n"
            say client (C.singleton byte)
          post t framing = C.concat ["POST ", t, " HTTP/1.1\r\nHost: a\r\n", framing, "\r\n\r\n"]
          given answer = (answerBody answer, answerHeader answer "x-given", answerHeader answer "connection")
      withEngine backend tight handler $ \engine -> do
        withClient (engineAddress engine) $ \one -> withClient (engineAddress engine) $ \two -> withClient (engineAddress engine) $ \client -> do
          -- Behind another request, so that the head does not stand at the input's beginning.
          say client (get "/other" <> post "/1" "Content-Length: 6" <> "a")
          hearAnswer client >>= answersWith 200 "GET /other\n"
          piecewise client [one, two] "bcdef"
          hearAnswer client >>= (@?= ("done", Just "/1", Nothing)) . given
          say client (post "/2" "Transfer-Encoding: chunked")
          piecewise client [one, two] "3\r\nabc\r\n0\r\n\r"
          say client ("\n" <> post "/3" "Content-Length: 3\r\nConnection: close")
          hearAnswer client >>= (@?= ("done", Just "/2", Nothing)) . given
          piecewise client [one, two] "abc"
          hearAnswer client >>= (@?= ("done", Just "/3", Just "close")) . given
          hearEnd client
        failuresAre engine [],
    testCase "a faulty chunk of a body that is discarded piece by piece: 400, not the reply" $
      withEngine backend tight (\_ -> pure (Whole status200 [] "done")) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"
          hearsWithin client 3000 >>= (@?= False)
          say client "c"
          hearsWithin client 3000 >>= (@?= False)
          say client "!"
          hearCodes client >>= (@?= [400]),
    testCase "a body that trickles and is not read: 408, though each byte comes in time" $
      withEngine backend soon (\_ -> pure (Whole status200 [] "done")) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
          trickle client "a"
          hearCodes client >>= (@?= [408]),
    testCase "a client that leaves in the middle of a body that is not read is no failure, and what the reply holds is released" $ do
      released <- newEmptyMVar
      withEngine backend tight (\_ -> pure (Segments status200 [] [] (putMVar released ()))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"
          hearsWithin client 3000 >>= (@?= False)
        patiently "the release" (takeMVar released)
        failuresAre engine [],
    testCase "a client that does not take a reply is closed" $
      forM_ [Whole status200 [] large, Stream status200 [] (`writerPut` large)] $ \reply ->
        withEngine backend soon (\_ -> pure reply) $ \engine ->
          withClient (engineAddress engine) $ \client -> do
            say client (get "/1")
            ok <- hearsWithin client patience
            ok @?= True
            _ <- eventually "the server to give up" (connectionsOpen (engineServer engine)) (== 0)
            (got, _) <- hearRest client
            unless (B.length got < B.length large) $
              unexpected "a part of the reply" (show (B.length got) ++ " bytes"),
    testCase "slowHandlerMadeItsClientLookSlow" $ do
      begun <- newEmptyMVar
      reading <- newEmptyMVar
      let handler request = do
            putMVar begun ()
            first <- readBody request
            -- Longer than the client may take.
            threadDelay 2500000
            putMVar reading ()
            rest <- readWholeBody request 100
            pure (Whole status200 [] (first <> rest))
      withEngine backend tight {settingBodyPace = Pace (seconds 2) 1000000} handler $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
          -- Not with the head, which would be no wait for the body.
          patiently "the handler to begin" (takeMVar begun)
          say client "a"
          patiently "the handler to go on" (takeMVar reading)
          say client "b"
          hearAnswer client >>= answersWith 200 "ab",
    testCase "a client that takes a reply slowly, but above the least rate, gets it all" $
      withEngine backend tight {settingReplyPace = Pace (seconds 20) 1000} (\_ -> pure (Whole status200 [] large)) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (get "/1")
          answer <- hearAnswer client
          B.length (answerBody answer) @?= B.length large,
    testCase "a refused client that goes on sending is cut in the end" $
      withEngine backend tight echo $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client "BAD\r\n\r\n"
          replicateM_ 200 (say client (C.replicate 65536 'x'))
          _ <- eventually "the server to give up" (connectionsOpen (engineServer engine)) (== 0)
          pure ()
  ]
  where
    soonHead = tight {settingHead = milliseconds 200}
    soon = tight {settingBodyPace = Pace (milliseconds 200) 1000000, settingReplyPace = Pace (milliseconds 200) 1000000}
    large = C.replicate 30000000 'x'

-- A client that has said this soon after connecting. On a busy machine the server may have closed it for its silence: then another one.
saying :: Engine -> ByteString -> (Client -> IO a) -> IO a
saying engine bytes use = do
  limit <- deadlineIn (milliseconds 150)
  inTime <- withClient (engineAddress engine) $ \client -> do
    say client bytes
    now <- monotonicNow
    if now >= limit then pure Nothing else Just <$> use client
  maybe (saying engine bytes use) pure inTime

-- A byte whenever nothing was heard for 20 ms, until something is.
trickle :: Client -> ByteString -> IO ()
trickle client byte = go (2000 :: Int)
  where
    go 0 = unexpected "an answer to a trickle" "none within 2,000 bytes"
    go n = do
      say client byte
      heard <- hearsWithin client 20000
      unless heard (go (n - 1))

draining :: BackendChoice -> [TestTree]
draining backend =
  [ testCase "idle connections close, a request under way is finished, then all is over" $ do
      go <- newEmptyMVar
      withEngine backend tight (held go) $ \engine ->
        withClient (engineAddress engine) $ \idle -> withClient (engineAddress engine) $ \silent -> withClient (engineAddress engine) $ \busy -> do
          say idle (get "/1")
          hearAnswer idle >>= answersWith 200 "/1"
          say busy (get "/wait")
          _ <- eventually "the request to be under way" (engineSeen engine) ("/wait" `elem`)
          -- Accepted before the drain, or the listener's close would reset it.
          _ <- eventually "three connections" (connectionsOpen (engineServer engine)) (== 3)
          drained <- drainIn engine (seconds 20)
          hearEnd idle
          hearEnd silent
          refused <- try (withClient (engineAddress engine) pure)
          case refused of
            Left (_ :: IOException) -> pure ()
            Right _ -> unexpected "no connection while draining" "one"
          early <- tryReadMVar drained
          early @?= Nothing
          putMVar go ()
          answers <- hearAll busy
          map answerBody answers @?= ["/wait"]
          map (`answerHeader` "connection") answers @?= [Just "close"]
          readMVar drained >>= (@?= True),
    testCase "drainLostRequests: keepBusy clients that honour Connection: close lose none" $
      forM_ [1 :: Int .. 3] $ \_ -> withEngine backend tight {settingGrace = seconds 30} echo $ \engine -> do
        counts <- replicateM 32 (newIORef (0 :: Int))
        ends <- forM counts $ \count -> do
          end <- newEmptyMVar
          end <$ forkIO (withClient (engineAddress engine) (keepBusy count) `catch` (\(e :: SomeException) -> pure (Just (show e))) >>= putMVar end)
        _ <- eventually "every client to be keepBusy" (mapM readIORef counts) (all (> 5))
        drained <- drainIn engine (seconds 60)
        lost <- catMaybes <$> mapM takeMVar ends
        unless (null lost) $ unexpected "an answer to every request" (show (length lost) ++ " of 32 without: " ++ show (take 3 lost))
        readMVar drained >>= (@?= True),
    testCase "requests behind the one under way are not begun" $ do
      go <- newEmptyMVar
      withEngine backend tight (held go) $ \engine ->
        withClient (engineAddress engine) $ \client -> withClient (engineAddress engine) $ \idle -> do
          say idle (get "/1")
          hearAnswer idle >>= answersWith 200 "/1"
          say client (get "/wait" <> get "/2")
          _ <- eventually "the request to be under way" (engineSeen engine) ("/wait" `elem`)
          drained <- drainIn engine (seconds 20)
          hearEnd idle
          putMVar go ()
          hearBodies client >>= (@?= ["/wait"])
          readMVar drained >>= (@?= True),
    testCase "a request that outlasts the deadline: False, then cutShort ends it" $ do
      go <- newEmptyMVar
      withEngine backend tight (held go) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/wait")
          _ <- eventually "the request to be under way" (engineSeen engine) ("/wait" `elem`)
          drained <- drainIn engine (milliseconds 100)
          readMVar drained >>= (@?= False)
          cutShort (engineServer engine)
          _ <- hearRest client
          putMVar go (),
    testCase "nothing open: done at once" $
      withEngine backend tight echo $ \engine -> do
        drained <- drainIn engine (seconds 20)
        readMVar drained >>= (@?= True),
    testCase "a server that ends cuts its idle connections" $ do
      opened <- newEmptyMVar
      ended <- newEmptyMVar
      _ <- forkIO $ do
        withEngine backend tight echo $ \engine -> do
          putMVar opened (engineAddress engine)
          takeMVar ended
          cutShort (engineServer engine)
        putMVar ended ()
      address <- takeMVar opened
      withClient address $ \client -> do
        say client (get "/1")
        hearAnswer client >>= answersWith 200 "GET /1\n"
        putMVar ended ()
        hearEnd client
      takeMVar ended
  ]
  where
    held go r = do
      t <- target r
      if t == "/wait" then readMVar go else pure ()
      pure (Whole status200 [] t)
    -- Until an answer says that the connection closes; what went wrong, if anything did.
    keepBusy count client = do
      say client (get "/1")
      hear client "GET" >>= \case
        Nothing -> pure (Just "closed instead of an answer")
        Just answer -> do
          modifyIORef' count (+ 1)
          if answerHeader answer "connection" == Just "close" then pure Nothing else keepBusy count client
    drainIn engine time = do
      done <- newEmptyMVar
      _ <- forkIO (deadlineIn time >>= drainUntil (engineServer engine) >>= putMVar done)
      pure done
