{-# LANGUAGE OverloadedStrings #-}

-- | Applications that fail, and misuse their respond function: one answer, one report, and the next
-- request as if nothing had happened.
module Failures (tests) where

import Control.Concurrent (forkIO, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), ErrorCall (..), SomeException, bracket, catch, evaluate, finally, throwIO, toException, try)
import Control.Monad (forM_, replicateM, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.IORef
import Data.List (isPrefixOf, isSuffixOf)
import Fixture
import Heddle.Prim.Clock (elapsed, milliseconds, monotonicNow)
import Heddle.Prim.Thread (nap)
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Network.Wai.Internal (ResponseReceived (..))
import System.Exit (ExitCode (..))
import System.Posix.IO (OpenMode (..), closeFd, dup, dupTo, stdError)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "failures"
    [ testGroup "before a byte was sent: 500, and the connection stays" (map early earlyFailures),
      testGroup "after the head: the connection ends, and the answer is cut short" (map late lateFailures),
      testCase "the response to an exception is the settings'" $ do
        reports <- newIORef []
        let settings = Heddle.setOnExceptionResponse Heddle.exceptionResponseForDebug (reporting reports Heddle.defaultSettings)
        withHeddleSettings settings (\_ _ -> throwIO (ErrorCall "boom")) $ \address -> withClient address $ \client -> do
          say client (get "/")
          hearAnswer client >>= answersWith 500 "Exception: boom",
      testCase "an exception response that fails is answered by the engine" $ do
        reports <- newIORef []
        let settings = Heddle.setOnExceptionResponse (\_ -> errorWithoutStackTrace "again") (reporting reports Heddle.defaultSettings)
        withHeddleSettings settings (\_ _ -> throwIO (ErrorCall "boom")) $ \address -> withClient address $ \client -> do
          say client (get "/" <> get "/")
          sequence [hearAnswer client, hearAnswer client] >>= (@?= [500, 500]) . map answerCode
        reportsAre reports [(True, "boom"), (False, "again"), (True, "boom"), (False, "again")],
      testCase "a hook that fails changes nothing" $ do
        let settings = Heddle.setOnException (\_ _ -> throwIO (ErrorCall "hook")) Heddle.defaultSettings
        withHeddleSettings settings (\_ _ -> throwIO (ErrorCall "boom")) $ \address -> withClient address $ \client -> do
          say client (get "/" <> get "/")
          sequence [hearAnswer client, hearAnswer client] >>= (@?= [500, 500]) . map answerCode,
      testCase "an exception after the whole response is reported, and the connection stays" $ do
        reports <- newIORef []
        withHeddleSettings (reporting reports Heddle.defaultSettings) (\_ respond -> respond (responseLBS status200 [] "fine") >> throwIO (ErrorCall "late")) $ \address ->
          withClient address $ \client -> do
            forM_ [1 :: Int, 2] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "fine"
            -- Before the server ends, which interrupts an application that still runs.
            reportsAre reports [(True, "late"), (True, "late")],
      testCase "a second response is not sent" $ do
        reports <- newIORef []
        let twice _ respond = respond (responseLBS status200 [] "first") >> respond (responseLBS status200 [] "second")
        withHeddleSettings (reporting reports Heddle.defaultSettings) twice $ \address -> withClient address $ \client -> do
          say client (get "/" <> get "/")
          sequence [hearAnswer client, hearAnswer client] >>= (@?= ["first", "first"]) . map answerBody
          -- Before the server ends, which interrupts an application that still runs.
          reportsAre reports [(True, "replied twice"), (True, "replied twice")],
      testCase "a respond function used after its request does nothing to the next one" $ do
        kept <- newEmptyMVar
        late' <- newEmptyMVar
        let application request respond
              | rawPathInfo request == "/1" = putMVar kept respond >> respond (responseLBS status200 [] "one")
              | otherwise = do
                old <- takeMVar kept
                r <- try (old (responseLBS status200 [] "evil"))
                putMVar late' (either (\(e :: SomeException) -> show e) (const "sent") r)
                respond (responseLBS status200 [] "two")
        withHeddle application $ \client -> do
          say client (get "/1" <> get "/2")
          sequence [hearAnswer client, hearAnswer client] >>= (@?= ["one", "two"]) . map answerBody
          takeMVar late' >>= \text -> assertBool text (text /= "sent"),
      testCase "a writer used after its stream does nothing to the next response" $ do
        kept <- newEmptyMVar
        late' <- newEmptyMVar
        let application request respond
              | rawPathInfo request == "/1" = respond (responseStream status200 [] (\write _ -> putMVar kept write >> write "one"))
              | otherwise = do
                old <- takeMVar kept
                r <- try (old "evil")
                putMVar late' (either (\(e :: SomeException) -> show e) (const "sent") r)
                respond (responseStream status200 [] (\write _ -> write "two"))
        withHeddle application $ \client -> do
          say client (get "/1" <> get "/2")
          sequence [hearAnswer client, hearAnswer client] >>= (@?= ["one", "two"]) . map answerBody
          takeMVar late' >>= \text -> assertBool text (text /= "sent"),
      testCase "responding from another thread is responding" $ do
        -- The server interrupts what it still runs in the end, and the answer is here before that thread has ended.
        over <- newEmptyMVar
        let application _ respond = do
              done <- newEmptyMVar
              _ <- forkIO (respond (responseLBS status200 [] "other") >>= putMVar done)
              takeMVar done <* putMVar over ()
        withHeddle application $ \client -> forM_ [1 :: Int, 2] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "other" >> takeMVar over,
      testCase "an application that returns while another thread responds loses its connection only" $ do
        reports <- newIORef []
        let application request respond
              | rawPathInfo request == "/fine" = respond (responseLBS status200 [] "fine")
              | otherwise = do
                started <- newEmptyMVar
                forever' <- newEmptyMVar
                _ <- forkIO . void . (try :: IO a -> IO (Either SomeException a)) . respond . responseStream status200 [] $ \write flush -> do
                  write "x" >> flush
                  putMVar started ()
                  let go = write (byteString (B.replicate 10000 120)) >> flush >> go
                  go `finally` putMVar forever' ()
                takeMVar started
                pure ResponseReceived
        withHeddleSettings (reporting reports Heddle.defaultSettings) application $ \address -> do
          withClient address $ \client -> say client (get "/") >> void (hearRest client)
          withClient address $ \client -> say client (get "/fine") >> hearAnswer client >>= answersWith 200 "fine"
          reportsAre reports [(True, "while another of its threads")],
      testGroup
        "applicationsOwnAsynchronousExceptionsWereReportedNowhere"
        [ early ("ThreadKilled, thrown", \_ _ -> throwIO ThreadKilled, "thread killed"),
          early ("its own thread killed", \_ _ -> ResponseReceived <$ (myThreadId >>= killThread), "thread killed"),
          early ("a stack overflow", \_ _ -> throwIO StackOverflow, "stack overflow"),
          early ("in a stream before it is flushed", \_ respond -> respond (responseStream status200 [] (\_ _ -> throwIO ThreadKilled)), "thread killed"),
          late ("in a stream that was flushed", \_ respond -> respond (responseStream status200 [] (\write flush -> write "some" >> flush >> throwIO ThreadKilled)), "thread killed"),
          testCase "the default handler shows them" $
            (Heddle.defaultShouldDisplayException . toException <$> [ThreadKilled, StackOverflow, UserInterrupt]) @?= [True, True, True]
        ],
      testGroup
        "streamsThatThrewOverHttp2WereReset"
        [ testCase name (overHttp2 application expected)
          | (name, application, expected) <-
              [ ("before anything", \_ respond -> respond (responseStream status200 [] (\_ _ -> throwIO (ErrorCall "boom"))), (ExitSuccess, "Something went wrong 500")),
                ("after nothing was written", \_ respond -> respond (responseStream status200 [] (\write _ -> write "" >> throwIO (ErrorCall "boom"))), (ExitSuccess, "Something went wrong 500")),
                ("too much at first", \_ respond -> respond (responseStream status200 [(hContentLength, "1")] (\write _ -> write "too much")), (ExitSuccess, "Something went wrong 500")),
                ("too little at all", \_ respond -> respond (responseStream status200 [(hContentLength, "1")] (\_ _ -> pure ())), (ExitSuccess, "Something went wrong 500")),
                ("after a flush: a reset", \_ respond -> respond (responseStream status200 [] (\_ flush -> flush >> throwIO (ErrorCall "boom"))), (ExitFailure 92, "")),
                ("caught by the application", \_ respond -> respond (responseStream status200 [] (\_ _ -> throwIO (ErrorCall "boom"))) `catch` \(ErrorCall _) -> respond (responseStream status503 [] (\write _ -> write "later")), (ExitSuccess, "later 503")),
                ("without one, nothing else", \_ respond -> respond (responseStream status200 [] (\_ _ -> pure ())), (ExitSuccess, " 200")),
                ("without one, flushed", \_ respond -> respond (responseStream status200 [] (\write flush -> flush >> write "some" >> flush >> write "more")), (ExitSuccess, "somemore 200"))
              ]
        ],
      testCase "reportsNamedNoRequest" . withTemporary $ \folder -> do
        let file = folder ++ "/said"
        saved <- dup stdError
        writeFile file ""
        let failing address = withClient address $ \client -> do
              say client "POST /a%20b?secret HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
              void (hearAnswer client)
        _ <- bracket (openDescriptor file WriteOnly) closeFd (`dupTo` stdError)
        withHeddleSettings Heddle.defaultSettings (\_ _ -> throwIO (userError "x")) failing `finally` (dupTo saved stdError >> closeFd saved)
        said <- readFile file
        unless ("heddle-wai: POST /a%20b from 127.0.0.1:" `isPrefixOf` said && ": user error (x)\n" `isSuffixOf` said && length (lines said) == 1) $
          unexpected "one line that names the request" (show said),
      testCase "a client that leaves under a response is told to the application once" $ do
        told <- newEmptyMVar
        reports <- newIORef []
        let application _ respond = do
              r <- try . respond . responseStream status200 [] $ \write flush -> let go = write (byteString (B.replicate 100000 120)) >> flush >> go in go
              putMVar told (either (\(e :: Heddle.InvalidRequest) -> Just e) (const Nothing) r)
              either throwIO pure r
        withHeddleSettings (reporting reports Heddle.defaultSettings) application $ \address -> do
          withClient address $ \client -> say client (get "/") >> void (hearSome client) >> abort client
          takeMVar told >>= (@?= Just Heddle.ConnectionClosedByPeer)
          reportsAre reports [(True, "prematurely")],
      testGroup
        "a client that leaves is told to the application within 100 ms"
        [ testCase (version ++ ", " ++ name) (toldSoon arguments pause)
          | (version, arguments) <- [("HTTP/1.1", ["--http1.1"]), ("HTTP/2", ["--http2-prior-knowledge"])],
            (name, pause) <- [("under a flood", pure ()), ("under an event each 10 ms", nap (milliseconds 10))]
        ]
    ]

-- The best of ten, since the machine may have other work.
toldSoon :: [String] -> IO () -> Assertion
toldSoon arguments pause = do
  told <- newEmptyMVar
  let application _ respond = respond . responseStream status200 [] $ \write flush ->
        let go = write (byteString (B.replicate 100 120)) >> flush >> pause >> go
         in go `catch` \(e :: SomeException) -> monotonicNow >>= putMVar told >> throwIO e
      once address = do
        left <- bracket (createProcess (proc "curl" (arguments ++ ["-sN", "http://" ++ show address ++ "/"])) {std_out = CreatePipe}) (\(_, _, _, p) -> waitForProcess p) $ \case
          (_, Just out, _, p) -> B.hGetSome out 10 >> monotonicNow <* terminateProcess p
          _ -> unexpected "a pipe" "none"
        elapsed left <$> patiently "the application to be told" (takeMVar told)
  withHeddleSettings (Heddle.setOnException (\_ _ -> pure ()) Heddle.defaultSettings) application $ \address -> do
    times <- replicateM 10 (once address)
    assertBool (show times) (minimum times <= milliseconds 100)

-- What curl prints, and the status, by HTTP/2.
overHttp2 :: Application -> (ExitCode, String) -> Assertion
overHttp2 application expected = withHeddleSettings (Heddle.setOnException (\_ _ -> pure ()) Heddle.defaultSettings) application $ \address -> do
  (code, out, _) <- readProcessWithExitCode "curl" ["--http2-prior-knowledge", "-sN", "--max-time", "60", "-w", " %{http_code}", "http://" ++ show address ++ "/"] ""
  -- What had been sent before a reset may be lost.
  (code, if code == ExitSuccess then out else "") @?= expected

earlyFailures :: [(String, Application, String)]
earlyFailures =
  [ ("thrown", \_ _ -> throwIO (ErrorCall "boom"), "boom"),
    ("an error in pure code", \_ _ -> evaluate (error "boom"), "boom"),
    ("in the response's own evaluation", \_ respond -> respond (errorWithoutStackTrace "boom"), "boom"),
    ("in a header", \_ respond -> respond (responseLBS status200 [("X", errorWithoutStackTrace "boom")] ""), "boom"),
    ("in a builder", \_ respond -> respond (responseBuilder status200 [] ("some" <> errorWithoutStackTrace "boom")), "boom"),
    ("in a builder with its length", \_ respond -> respond (responseBuilder status200 [(hContentLength, "10")] ("some" <> errorWithoutStackTrace "boom")), "boom"),
    ("in a stream before it is flushed", \_ respond -> respond (responseStream status200 [] (\write _ -> write "some" >> throwIO (ErrorCall "boom"))), "boom"),
    ("no response", \_ _ -> pure ResponseReceived, "without calling its respond"),
    ("a line break in a header", \_ respond -> respond (responseLBS status200 [("X", "a\r\nSet-Cookie: evil")] ""), "X"),
    ("a bare line feed in a name", \_ respond -> respond (responseLBS status200 [("X\nY", "a")] ""), "CR, LF or NUL"),
    ("a NUL in a header", \_ respond -> respond (responseLBS status200 [("X", "a\0")] ""), "CR, LF or NUL"),
    ("a space in a name", \_ respond -> respond (responseLBS status200 [("A A", "x")] ""), "no token"),
    ("a colon in a name", \_ respond -> respond (responseBuilder status200 [("A:B", "x")] ""), "no token"),
    ("a letter beyond ASCII in a name", \_ respond -> respond (responseStream status200 [("\xe9", "x")] (\_ _ -> pure ())), "no token"),
    ("no name", \_ respond -> respond (responseFile status200 [("", "x")] "LICENSE" Nothing), "no token"),
    ("content of status 205", \_ respond -> respond (responseLBS status205 [] "x"), "status 205"),
    ("content of status 205 in a stream", \_ respond -> respond (responseStream status205 [] (\write _ -> write "x")), "status 205"),
    ("an interim status", \_ respond -> respond (responseLBS status101 [] ""), "status 101"),
    ("a status of four digits", \_ respond -> respond (responseLBS (mkStatus 1000 "") [] ""), "status 1000"),
    ("too much for the announced length", \_ respond -> respond (responseLBS status200 [(hContentLength, "1")] "abc"), "announced 1"),
    ("too little for the announced length", \_ respond -> respond (responseLBS status200 [(hContentLength, "10")] "abc"), "announced 10")
  ]

early :: (String, Application, String) -> TestTree
early (name, application, text) = testCase name $ do
  reports <- newIORef []
  withHeddleSettings (reporting reports Heddle.defaultSettings) (orFine application) $ \address -> withClient address $ \client -> do
    say client (get "/" <> get "/fine")
    first <- hearAnswer client
    (answerCode first, answerBody first) @?= (500, "Something went wrong")
    hearAnswer client >>= answersWith 200 "fine"
  reportsAre reports [(True, text)]

lateFailures :: [(String, Application, String)]
lateFailures =
  [ ("in a stream that was flushed", \_ respond -> respond (responseStream status200 [] (\write flush -> write "some" >> flush >> throwIO (ErrorCall "boom"))), "boom"),
    ("in a large builder", \_ respond -> respond (responseBuilder status200 [] (byteString (B.replicate 100000 97) <> byteString (errorWithoutStackTrace "boom"))), "boom"),
    ("a stream shorter than announced", \_ respond -> respond (responseStream status200 [(hContentLength, "10")] (\write flush -> write "some" >> flush)), "announced 10"),
    ("a stream longer than announced", \_ respond -> respond (responseStream status200 [(hContentLength, "5")] (\write flush -> write "some" >> flush >> write "more")), "announced 5")
  ]

late :: (String, Application, String) -> TestTree
late (name, application, text) = testCase name $ do
  reports <- newIORef []
  withHeddleSettings (reporting reports Heddle.defaultSettings) (orFine application) $ \address -> do
    withClient address $ \client -> do
      say client (get "/" <> get "/fine")
      first <- hearAnswer client
      (answerCode first, answerWhole first) @?= (200, False)
      hearEnd client
    withClient address $ \client -> say client (get "/fine") >> hearAnswer client >>= answersWith 200 "fine"
  reportsAre reports [(True, text)]

orFine :: Application -> Application
orFine application request respond
  | rawPathInfo request == "/fine" = respond (responseLBS status200 [] "fine")
  | otherwise = application request respond
