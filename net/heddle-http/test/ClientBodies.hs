{-# LANGUAGE OverloadedStrings #-}

-- | Bodies of requests, and answers that come before they are sent.
module ClientBodies
  ( tests,
  )
where

import ClientFixture
import Control.Concurrent
import Control.Exception (ErrorCall (..), SomeException, bracket, throwIO, try)
import Control.Monad (forM_, forever, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import EngineFixture (onBothBackends)
import Heddle.Http.Client
import Heddle.IO (BackendChoice)
import Heddle.Prim.Clock (milliseconds)
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.Watchdog
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openBinaryTempFile)
import System.Posix.IO (OpenMode (ReadOnly), closeFd)
import System.Posix.Types (Fd)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = onBothBackends "bodies" $ \backend -> sent backend ++ early backend ++ continued backend

post :: Origin -> RequestBody -> ClientRequest
post origin body = (requestTo "POST" origin "/") {requestBody = body}

-- What the server hears after the head, which must end like this, of a body of this many bytes on the wire.
arrives :: BackendChoice -> RequestBody -> ByteString -> ByteString -> IO ()
arrives backend body framing wire = do
  heard <- newEmptyMVar
  withScripted (\_ peer -> ((,) <$> hearHead peer <*> hearExactlyFrom peer (B.length wire)) >>= putMVar heard >> tell peer (simple "ok") >> void (hearToEnd peer)) $ \origin ->
    withPatient backend patient $ \client -> do
      fetched <- patiently "an answer" (fetch client (post origin body) 10)
      fetchedContent fetched @?= "ok"
      (h, content) <- takeMVar heard
      (("\r\n" <> framing <> "\r\n\r\n") `B.isSuffixOf` h) @?= True
      content @?= wire
      -- Sent whole and answered whole.
      connectionsKept client >>= (@?= 1)

sent :: BackendChoice -> [TestTree]
sent backend =
  [ testCase "bytes" $ arrives backend (BodyBytes "abc") "Content-Length: 3" "abc",
    testCase "no bytes" $ arrives backend (BodyBytes "") "Content-Length: 0" "",
    testCase "many bytes" $ let body = C.replicate 1000000 'x' in arrives backend (BodyBytes body) "Content-Length: 1000000" body,
    testCase "a sized stream" $ arrives backend (BodySized 5 (\w -> writerPut w "ab" >> writerFlush w >> writerPut w "" >> writerPut w "cde")) "Content-Length: 5" "abcde",
    testCase "a large sized stream" $
      arrives backend (BodySized 900000 (\w -> forM_ [1 .. 9 :: Int] (\_ -> writerPut w (C.replicate 100000 'y')))) "Content-Length: 900000" (C.replicate 900000 'y'),
    testCase "chunks" $ arrives backend (BodyChunked (\w -> writerPut w "ab" >> writerPut w "" >> writerFlush w >> writerPut w (C.replicate 20 'c'))) "Transfer-Encoding: chunked" ("2\r\nab\r\n14\r\n" <> C.replicate 20 'c' <> "\r\n0\r\n\r\n"),
    testCase "chunks and trailers" $ arrives backend (BodyChunked (\w -> writerPut w "ab" >> writerTrailers w [Header "X" "1", Header "Host" "b"])) "Transfer-Encoding: chunked" "2\r\nab\r\n0\r\nX: 1\r\n\r\n",
    testCase "no chunks" $ arrives backend (BodyChunked (\_ -> pure ())) "Transfer-Encoding: chunked" "0\r\n\r\n",
    testCase "a part of a file" $
      withFile' (C.replicate 10000000 'f' <> "tail") $ \fd ->
        arrives backend (BodyFile fd 9 9999995) "Content-Length: 9999995" (C.replicate 9999991 'f' <> "tail"),
    testCase "a file that is shorter than announced" $
      withFile' "short" $ \fd ->
        neverWhole (BodyFile fd 0 10) (BodyLengthDiffers 10 5),
    testCase "a stream that writes less than announced" $
      neverWhole (BodySized 10 (\w -> writerPut w "short" >> writerFlush w)) (BodyLengthDiffers 10 5),
    testCase "a stream that writes more than announced sends none of what is too much" $ do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >>= putMVar heard) $ \origin ->
        withPatient backend patient $ \client -> do
          failureIs (== BodyLengthDiffers 3 26) "BodyLengthDiffers" (fetch client (post origin (BodySized 3 (\w -> writerPut w "abc" >> writerFlush w >> writerPut w "GET / HTTP/1.1\r\nHost: x" >> writerPut w "no"))) 10)
          patiently "the end" (takeMVar heard) >>= (@?= "abc"),
    testCase "a stream that fails: its exception, and the connection closes" $ do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >>= putMVar heard) $ \origin ->
        withPatient backend patient $ \client -> do
          r <- try (fetch client (post origin (BodyChunked (\w -> writerPut w "ab" >> writerFlush w >> throwIO (ErrorCall "in the body")))) 10)
          either (\(ErrorCall what) -> what) show r @?= "in the body"
          patiently "the end" (takeMVar heard) >>= (@?= "2\r\nab\r\n")
          connectionsInAll client >>= (@?= 0)
  ]
  where
    neverWhole body failure = do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >>= putMVar heard) $ \origin ->
        withPatient backend patient $ \client -> do
          failureIs (== failure) (show failure) (fetch client (post origin body) 10)
          _ <- patiently "the end" (takeMVar heard)
          connectionsInAll client >>= (@?= 0)

withFile' :: ByteString -> (Fd -> IO a) -> IO a
withFile' content use = do
  directory <- getTemporaryDirectory
  bracket (openBinaryTempFile directory "heddle-client") (removeFile . fst) $ \(path, handle) -> do
    B.hPut handle content
    hClose handle
    bracket (openDescriptor path ReadOnly) closeFd use

early :: BackendChoice -> [TestTree]
early backend =
  [ testGroup
      "an answer before the body is sent ends the sending"
      [ testCase name $ do
          hold <- newEmptyMVar
          withScripted (\_ peer -> hearHead peer >> tell peer (refusal <> "no") >> takeMVar hold) $ \origin ->
            withPatient backend patient $ \client -> do
              fetched <- patiently "an answer" (fetch client (post origin body) 10)
              (statusCode (fetchedStatus fetched), fetchedContent fetched) @?= (413, "no")
              connectionsInAll client >>= (@?= 0)
              putMVar hold ()
        | (name, body) <-
            [ ("bytes, of which the server takes few", BodyBytes (C.replicate 100000000 'x')),
              ("a stream without end", BodyChunked (\w -> forever (writerPut w (C.replicate 10000 'x')))),
              ("a stream that catches everything", BodyChunked stubborn),
              ("a sized stream", BodySized maxBound (\w -> forever (writerPut w (C.replicate 10000 'x'))))
            ]
      ],
    testCase "a file" $
      withFile' (C.replicate 100000000 'f') $ \fd -> do
        hold <- newEmptyMVar
        withScripted (\_ peer -> hearHead peer >> tell peer (refusal <> "no") >> takeMVar hold) $ \origin ->
          withPatient backend patient $ \client -> do
            fetched <- patiently "an answer" (fetch client (post origin (BodyFile fd 0 100000000)) 10)
            statusCode (fetchedStatus fetched) @?= 413
            putMVar hold (),
    testCase "an answer, then the end of the connection" $
      withScripted (\_ peer -> hearHead peer >> tell peer (refusal <> "no")) $ \origin ->
        withPatient backend patient $ \client ->
          -- The reset may come before the answer was read: then there is none.
          failureOfAction (fetch client (post origin (BodyBytes (C.replicate 10000000 'x'))) 10) >>= \case
            Right fetched -> statusCode (fetchedStatus fetched) @?= 413
            Left (Broken _ _) -> pure ()
            Left (Ended _) -> pure ()
            Left other -> unexpected "413 or a lost connection" (show other),
    testCase "the end without an answer ends the sending" $ do
      withScripted (\_ peer -> hearHead peer >> pure ()) $ \origin ->
        withPatient backend patient $ \client ->
          failureOfAction (fetch client (post origin (BodyChunked (\w -> forever (writerPut w (C.replicate 10000 'x'))))) 10) >>= \case
            Left (Broken _ _) -> pure ()
            Left (Ended _) -> pure ()
            other -> unexpected "a lost connection" (show other)
  ]
  where
    refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n"
    stubborn w = do
      ended <- newIORef False
      let go = do
            r <- try (writerPut w (C.replicate 10000 'x'))
            case r of
              Left (_ :: SomeException) -> do
                again <- readIORef ended
                if again then pure () else writeIORef ended True >> go
              Right () -> go
      go

continued :: BackendChoice -> [TestTree]
continued backend =
  [ testCase "100 (Continue) starts the body" $
      withScripted (\_ peer -> expecting peer >> tell peer "HTTP/1.1 100 Continue\r\n\r\n" >> hearExactlyFrom peer 4 >>= tell peer . simple) $ \origin ->
        withPatient backend patient $ \client ->
          fetch client (post origin (BodyBytes "body")) {requestExpect = True} 10 >>= (@?= "body") . fetchedContent,
    testCase "a final answer spares the body, and closes" $
      withScripted (\i peer -> expecting peer >> tell peer (simple (C.pack (show i))) >> hearToEnd peer >>= \rest -> if B.null rest then pure () else unexpected "no body" (show rest)) $ \origin ->
        withPatient backend patient $ \client -> do
          let asking = (post origin (BodyBytes "body")) {requestExpect = True}
          fetch client asking 10 >>= (@?= "0") . fetchedContent
          fetch client asking 10 >>= (@?= "1") . fetchedContent,
    testCase "after the time for 100 the body is sent" $
      withScripted (\_ peer -> expecting peer >> hearExactlyFrom peer 4 >>= tell peer . simple) $ \origin ->
        withPatient backend patient {clientContinue = milliseconds 10} $ \client ->
          fetch client (post origin (BodyBytes "body")) {requestExpect = True} 10 >>= (@?= "body") . fetchedContent,
    testCase "nothing is expected without a body" $
      withScripted (\_ peer -> hearHead peer >>= tell peer . simple) $ \origin ->
        withPatient backend patient $ \client -> do
          fetched <- fetch client (post origin NoRequestBody) {requestExpect = True} 1000
          B.isInfixOf "Expect" (fetchedContent fetched) @?= False
  ]
  where
    expecting peer = do
      h <- hearHead peer
      if "Expect: 100-continue\r\n" `B.isInfixOf` h then pure () else unexpected "Expect: 100-continue" (show h)
