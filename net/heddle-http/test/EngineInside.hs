{-# LANGUAGE OverloadedStrings #-}

-- | Replies inside a handler, built and sized replies, hooks of connections, copied heads.
module EngineInside
  ( tests,
  )
where

import Control.Concurrent (forkIO, forkOn, myThreadId, threadCapability, throwTo, yield)
import Control.Concurrent.MVar
import Control.Exception (ErrorCall (..), MaskingState (..), getMaskingState, throwIO, try)
import Control.Monad (forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString, intDec, lazyByteString, toLazyByteString)
import Data.ByteString.Builder.Extra (byteStringInsert)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import EngineFixture
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.Http
import Heddle.Http.Borrowed (requestLength)
import Heddle.Http.HeadCopy
import Heddle.IO (BackendChoice (..))
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import System.IO.Unsafe (unsafePerformIO)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "inside handlers"
    [ onBothBackends "replyNow" inside,
      onBothBackends "built" built,
      onBothBackends "streams of a length" sized,
      onBothBackends "heads" heads,
      onBothBackends "hooks" hooks
    ]

talk :: BackendChoice -> Handler -> (Client -> IO a) -> IO a
talk backend handler act = withEngine backend tight handler $ \engine -> do
  r <- withClient (engineAddress engine) act
  failuresAre engine []
  pure r

inside :: BackendChoice -> [TestTree]
inside backend =
  [ testCase "the reply arrives while the handler runs, and its size is known" $ do
      gate <- newEmptyMVar
      sizes <- newEmptyMVar
      let handler request = do
            n <- replyNow request (Whole status200 [] "early")
            putMVar sizes n
            takeMVar gate
            pure (Replied status200)
      withEngine backend tight handler $ \engine -> do
        withClient (engineAddress engine) $ \client -> forM_ [1, 2 :: Int] $ \_ -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 "early"
          takeMVar sizes >>= (@?= 5)
          putMVar gate ()
        eventually "two lines of log" (engineLogged engine) (== [200, 200]) >>= (@?= [200, 200]),
    testCase "the body is read after it" $
      talk backend (\request -> replyNow request (Whole status200 [] "") >> readWholeBody request 100 >>= \body -> pure (Replied (if body == "hello" || B.null body then status200 else status500))) $ \client -> do
        say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
        hearAnswer client >>= answersWith 200 ""
        say client ("hello" <> get "/next")
        hearAnswer client >>= answersWith 200 "",
    testCase "askForBody: another thread reads the body while the reply goes out" $ do
      let handler request = do
            askForBody request
            pieces <- newEmptyMVar
            _ <- forkIO (let go = readBody request >>= \piece -> putMVar pieces piece >> if B.null piece then pure () else go in go)
            _ <- replyNow request . Stream status200 [] $ \writer ->
              let go = takeMVar pieces >>= \piece -> if B.null piece then pure () else writerPut writer piece >> writerFlush writer >> go in go
            pure (Replied status200)
      talk backend handler $ \client -> forM_ [1, 2 :: Int] $ \_ -> do
        say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n"
        hearSome client >>= (@?= "HTTP/1.1 100 Continue\r\n\r\n")
        say client "abc"
        began <- hearSome client
        let more got = if "abc" `B.isInfixOf` got then pure () else hearSome client >>= more . (got <>)
        more began
        say client "def"
        let rest got = if "0\r\n\r\n" `B.isSuffixOf` got then pure got else hearSome client >>= rest . (got <>)
        rest "" >>= assertBool "the rest" . ("def" `B.isInfixOf`),
    testCase "a second reply is not sent" $ do
      seen <- newEmptyMVar
      let handler request = do
            _ <- replyNow request (Whole status200 [] "first")
            r <- try (replyNow request (Whole status200 [] "second"))
            putMVar seen (either (\(e :: ReplyMisuse) -> Just e) (const Nothing) r)
            pure (Replied status200)
      talk backend handler $ \client -> do
        say client (get "/" <> get "/")
        forM_ [1, 2 :: Int] $ \_ -> hearAnswer client >>= answersWith 200 "first" >> takeMVar seen >>= (@?= Just RepliedTwice),
    testCase "Replied without a reply is a failure" $
      withEngine backend tight (\_ -> pure (Replied status200)) $ \engine -> do
        withClient (engineAddress engine) $ \client -> say client (get "/") >> hearAnswer client >>= \answer -> answerCode answer @?= 500
        failuresAre engine ["had not"],
    testCase "a failure before output is taken back, and another reply can be sent" $ do
      let handler request = do
            r <- try (replyNow request (Stream status200 [] (\writer -> writerPut writer "lost" >> throwIO (ErrorCall "early"))))
            begun <- replyBegun request
            case r of
              Left (_ :: ErrorCall) -> replyNow request (Whole status503 [] (if begun then "begun" else "instead")) >> pure (Replied status503)
              Right _ -> pure (Replied status200)
      talk backend handler $ \client -> do
        say client (get "/" <> get "/")
        forM_ [1, 2 :: Int] $ \_ -> hearAnswer client >>= answersWith 503 "instead",
    testCase "a failure after output ends the connection" $ do
      let handler request = do
            r <- try (replyNow request (Stream status200 [] (\writer -> writerPut writer "some" >> writerFlush writer >> throwIO (ErrorCall "late"))))
            begun <- replyBegun request
            pure (either (\(_ :: ErrorCall) -> if begun then Replied status500 else Whole status500 [] "not begun") (const (Replied status200)) r)
      talk backend handler $ \client -> do
        say client (get "/" <> get "/")
        answer <- hearAnswer client
        (answerCode answer, answerWhole answer) @?= (200, False)
        hearEnd client,
    testCase "a handler that fails after its reply is reported, and the connection ends" $
      withEngine backend tight (\request -> replyNow request (Whole status200 [] "fine") >> throwIO (ErrorCall "after")) $ \engine -> do
        withClient (engineAddress engine) $ \client -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 "fine"
          hearEnd client
        failuresAre engine ["after"],
    testCase "a tunnel runs inside" $ do
      let handler request = Replied status101 <$ replyNow request (Tunnel Nothing (\duplex -> duplexReceive duplex >>= duplexSend duplex . B.append "heard "))
      talk backend handler $ \client -> do
        say client (get "/" <> "first")
        hearRest client >>= (@?= "heard first") . fst,
    testCase "anInterruptedAmendmentKeptItsFile" $
      forM_ [\_ reply -> pure reply, \request reply -> Replied status200 <$ replyNow request reply] $ \send -> do
        released <- newIORef (0 :: Int)
        -- A header that frames messages has the reply amended, and one of its values is not made before.
        let handler request = do
              value <- newIORef () >>= \new -> pure (unsafePerformIO (readIORef new >> interruptionPending >> pure "close"))
              send request (Segments status200 [Header "Connection" value] [SegmentBytes "x"] (modifyIORef' released (+ 1)))
        withEngine backend tight handler $ \engine -> do
          withClient (engineAddress engine) $ \client -> do
            say client (get "/")
            hearAnswer client >>= (@?= 500) . answerCode
          failuresAre engine ["interrupted"]
        readIORef released >>= (@?= 1),
    testCase "aRefusedRequestHadAnothersLength" $ do
      lengths <- newIORef []
      let note request = requestLength request >>= \n -> modifyIORef' lengths (n :)
          first = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
          second = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: more\r\n\r\n"
      withEngineLogging backend tight note (\request -> Whole status200 [] "" <$ readWholeBody request 100) $ \engine ->
        withClient (engineAddress engine) $ \client -> do
          say client (first <> second)
          hearAnswer client >>= answersWith 200 ""
          hearAnswer client >>= (@?= 417) . answerCode
      readIORef lengths >>= (@?= [B.length second, B.length first]),
    testCase "closeAfterReply" $
      forM_ [\request -> closeAfterReply request >> pure (Whole status200 [] "x"), \request -> closeAfterReply request >> replyNow request (Whole status200 [] "x") >> pure (Replied status200)] $ \handler ->
        talk backend handler $ \client -> do
          say client (get "/" <> get "/")
          answers <- hearAll client
          map (`answerHeader` "connection") answers @?= [Just "close"]
  ]

-- An exception that waits until this thread is interrupted. Nothing waits where the thread can be interrupted: it is then thrown here.
interruptionPending :: IO ()
interruptionPending = do
  me <- myThreadId
  -- On another capability it would wait before the exception has come.
  (here, _) <- threadCapability me
  thrower <- forkOn here (throwTo me (ErrorCall "interrupted"))
  let wait = threadStatus thrower >>= \status -> unless (status `elem` [ThreadBlocked BlockedOnException, ThreadFinished]) (yield >> wait)
  masked <- getMaskingState
  when (masked == Unmasked) (unexpected "the engine to be masked" "unmasked")
  wait

built :: BackendChoice -> [TestTree]
built backend =
  [ testCase "what fits has a length, what does not is chunked" $
      forM_ [0, 1, 100, 6000, 7000, 7500, 8000, 8192, 9000, 100000] $ \n ->
        forM_ [byteString (B.replicate n 97), foldMap byteString (replicate n "a"), byteStringInsert (B.replicate n 97)] $ \builder ->
          talk backend (\_ -> pure (Built status200 [Header "X" "y"] builder)) $ \client -> forM_ [1, 2 :: Int] $ \_ -> do
            say client (get "/")
            answer <- hearAnswer client
            answersWith 200 (B.replicate n 97) answer
            case answerHeader answer "content-length" of
              Just told -> told @?= C.pack (show n)
              Nothing -> assertBool (show n) (n > 4000 && answerHeader answer "transfer-encoding" == Just "chunked"),
    testCase "pipelined with others, and after large heads" $ do
      let large = Header "X-Large" (B.replicate 7800 98)
          handler request = do
            t <- target request
            pure (if t == "/large" then Built status200 [large] "content" else Built status200 [] (byteString t))
      talk backend handler $ \client -> do
        say client (B.concat (concat (replicate 50 [get "/1", get "/large", get "/22"])))
        forM_ [1 .. 50 :: Int] $ \_ -> forM_ ["/1", "content", "/22"] $ \body -> hearAnswer client >>= answersWith 200 body,
    testCase "HTTP/1.0 and HEAD" $
      forM_ [5, 100000] $ \n -> do
        let handler _ = pure (Built status200 [] (byteString (B.replicate n 97)))
        talk backend handler $ \client -> do
          say client "GET / HTTP/1.0\r\n\r\n"
          hearAnswer client >>= answersWith 200 (B.replicate n 97)
          hearEnd client
        talk backend handler $ \client -> do
          say client "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
          hear client "HEAD" >>= maybe (unexpected "an answer" "the end") (answersWith 200 "")
          say client (get "/")
          hearAnswer client >>= answersWith 200 (B.replicate n 97),
    testCase "a stream's writer takes builders" $ do
      let numbers = foldMap intDec [1 .. 30000]
      talk backend (\_ -> pure (Stream status200 [] (\writer -> writerBuild writer "<" >> writerBuild writer mempty >> writerBuild writer numbers >> writerBuild writer (lazyByteString (L.fromChunks ["a", "", "b"])) >> writerPut writer ">"))) $ \client -> do
        say client (get "/")
        hearAnswer client >>= answersWith 200 (B.concat ["<", L.toStrict (toLazyByteString numbers), "ab>"])
  ]

sized :: BackendChoice -> [TestTree]
sized backend =
  [ testCase "as announced" $
      talk backend (\_ -> pure (StreamOf status200 [] 6 (\writer -> writerPut writer "abc" >> writerFlush writer >> writerBuild writer "def"))) $ \client -> do
        say client (get "/" <> "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" <> get "/")
        answer <- hearAnswer client
        answersWith 200 "abcdef" answer
        answerHeader answer "content-length" @?= Just "6"
        Just headed <- hear client "HEAD"
        answerHeader headed "content-length" @?= Just "6"
        hearAnswer client >>= answersWith 200 "abcdef",
    testCase "a builder's, of any length, in any pieces" $
      forM_ [0, 1, 100, 7000, 7900, 7999, 8000, 8100, 8192, 9000, 100000] $ \n ->
        forM_ [byteString (B.replicate n 97), foldMap byteString (replicate n "a"), byteStringInsert (B.replicate n 97), foldMap byteStringInsert (replicate (n `quot` 1000) (B.replicate 1000 97)) <> byteString (B.replicate (n `rem` 1000) 97)] $ \builder ->
          talk backend (\_ -> pure (BuiltOf status200 [] n builder)) $ \client -> do
            -- Pipelined, so that the output is not empty.
            say client (get "/" <> get "/" <> "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" <> get "/")
            forM_ [1, 2 :: Int] $ \_ -> do
              answer <- hearAnswer client
              answersWith 200 (B.replicate n 97) answer
              answerHeader answer "content-length" @?= Just (C.pack (show n))
            Just headed <- hear client "HEAD"
            answerHeader headed "content-length" @?= Just (C.pack (show n))
            hearAnswer client >>= answersWith 200 (B.replicate n 97),
    testCase "a builder writes neither more nor less" $
      forM_ [5, 7, 100, 100000] $ \n ->
        forM_ [byteString (B.replicate n 97), foldMap byteString (replicate n "a"), byteStringInsert (B.replicate n 97)] $ \builder ->
          withEngine backend tight (\_ -> pure (BuiltOf status200 [] 6 builder)) $ \engine -> do
            withClient (engineAddress engine) $ \client -> do
              say client (get "/" <> get "/")
              answer <- hearAnswer client
              assertBool "cut short, and nothing of the surplus" (not (answerWhole answer) && B.length (answerBody answer) <= 6)
              hearEnd client
            failuresAre engine ["announced 6"],
    testCase "a builder's wrong length within a handler is taken back" $
      withEngine backend tight (\request -> try (replyNow request (BuiltOf status200 [] 6 "abc")) >>= either (\(WrongLength a b) -> pure (Whole status500 [] (C.pack (show (a, b))))) (\_ -> pure (Replied status200))) $ \engine -> do
        withClient (engineAddress engine) $ \client -> forM_ [1, 2 :: Int] $ \_ -> do
          say client (get "/")
          hearAnswer client >>= answersWith 500 "(6,3)"
        failuresAre engine [],
    testCase "neither more nor less" $
      forM_ ["abc", "abcdefgh" :: ByteString] $ \content ->
        withEngine backend tight (\_ -> pure (StreamOf status200 [] 6 (\writer -> writerPut writer "" >> writerFlush writer >> writerPut writer content))) $ \engine -> do
          withClient (engineAddress engine) $ \client -> do
            say client (get "/" <> get "/")
            answer <- hearAnswer client
            assertBool "cut short, and nothing of the surplus" (not (answerWhole answer) && B.length (answerBody answer) <= 6)
            hearEnd client
          failuresAre engine ["announced 6"]
  ]

heads :: BackendChoice -> [TestTree]
heads backend =
  [ testCase "a handler's own Date and Server win" $
      talk backend (\_ -> pure (Whole status200 [Header "date" "then", Header "SERVER" "mine"] "")) $ \client -> do
        say client (get "/")
        answer <- hearAnswer client
        (answerHeader answer "date", answerHeader answer "server") @?= (Just "then", Just "mine"),
    testCase "words of one's own" $
      forM_ [(statusWith 299 "Mine", "HTTP/1.1 299 Mine\r\n"), (statusWith 200 "Fine", "HTTP/1.1 200 Fine\r\n"), (statusWith 200 "a\r\nX: y", "HTTP/1.1 200 aX: y\r\n"), (statusWith 200 (B.replicate 9000 97), C.concat ["HTTP/1.1 200 ", B.replicate 512 97, "\r\n"])] $ \(status, line) ->
        talk backend (\_ -> pure (Whole status [] "")) $ \client -> do
          say client "GET / HTTP/1.0\r\n\r\n"
          (bytes, _) <- hearRest client
          B.take (B.length line) bytes @?= line,
    testCase "a copied head outlives its request" $ do
      kept <- newIORef []
      talk backend (\request -> copyHead request >>= \copy -> modifyIORef kept (copy :) >> pure (Whole status200 [] "")) $ \client ->
        forM_ ["GET /a?b HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nuser-agent: u\r\n\r\n", "BREW http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.0\r\n\r\n"] $ \text -> do
          say client text
          hearAnswer client >>= answersWith 200 ""
      copies <- reverse <$> readIORef kept
      [(copiedMethod c, copiedTarget c, copiedPath c, copiedQuery c, copiedMinor c) | c <- copies]
        @?= [("GET", "/a?b", "/a", "?b", 1), ("BREW", "http://a/b", "/b", "", 1), ("OPTIONS", "*", "", "", 0)]
      map copiedForm copies @?= [OriginForm, AbsoluteForm, AsteriskForm]
      map (copiedHeaders knownHeaderName id) copies @?= [[("host", "h"), ("X-One", "1"), ("user-agent", "u")], [("host", "a")], []]
      map (copiedHeader HeaderUserAgent) copies @?= [Just "u", Nothing, Nothing],
    testCase "how much of a body is left" $ do
      let handler request = do
            before <- bodyLeft request
            _ <- readWholeBody request 100
            after <- bodyLeft request
            pure (Whole status200 [] (C.pack (show (before, after))))
      talk backend handler $ \client -> forM_ [("Content-Length: 3\r\n\r\nabc", "(Just 3,Just 0)"), ("Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "(Nothing,Just 0)"), ("\r\n", "(Just 0,Just 0)")] $ \(rest, shown) -> do
        say client ("POST / HTTP/1.1\r\nHost: a\r\n" <> rest)
        hearAnswer client >>= answersWith 200 shown
  ]

hooks :: BackendChoice -> [TestTree]
hooks backend =
  [ testCase "a connection's beginning and end, each once" $ do
      opened <- newIORef (0 :: Int)
      closed <- newIORef (0 :: Int)
      let settings = tight {settingOpened = Just (\_ -> count opened >> pure (Just (count closed)))}
      withEngine backend settings echo $ \engine -> do
        forM_ [1 .. 20 :: Int] $ \n -> withClient (engineAddress engine) $ \client -> do
          forM_ [1 .. 3 :: Int] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "GET /\n"
          if even n then abort client else pure ()
        _ <- eventually "twenty ends" (readIORef closed) (== 20)
        readIORef opened >>= (@?= 20),
    testCase "refused" $
      withEngine backend tight {settingOpened = Just (\_ -> pure Nothing)} echo $ \engine ->
        withClient (engineAddress engine) $ \client -> say client (get "/") >> hearRest client >>= (@?= "") . fst,
    testCase "a hook that throws closes, and is reported" $
      withEngine backend tight {settingOpened = Just (\_ -> throwIO (ErrorCall "hook"))} echo $ \engine -> do
        withClient (engineAddress engine) $ \client -> say client (get "/") >> hearRest client >>= (@?= "") . fst
        -- It is reported after the connection was closed.
        _ <- eventually "a report" (length <$> engineFailures engine) (== 1)
        failuresAre engine ["hook"]
  ]
  where
    count ref = atomicModifyIORef' ref (\n -> (n + 1, ()))
