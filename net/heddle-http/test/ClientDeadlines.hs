{-# LANGUAGE OverloadedStrings #-}

-- | A peer that is silent in each phase: the request ends by that phase's deadline, and nothing is left.
module ClientDeadlines
  ( tests,
  )
where

import ClientFixture
import Control.Concurrent
import Control.Exception (bracket, displayException, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import EngineFixture (onBothBackends)
import Heddle.Http.Client
import Heddle.IO (BackendChoice)
import Heddle.IO.Transport (Opened (..))
import Heddle.Prim.Clock (Nanos, deadlineIn, milliseconds, seconds)
import Heddle.Testkit.Watchdog
import Heddle.Timer (sleepUntil)
import Network.Socket
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = onBothBackends "deadlines" phases

phases :: BackendChoice -> [TestTree]
phases backend =
  [ testCase "looking up" $ do
      forever' <- newEmptyMVar
      withPatient backend patient {clientConnect = soon, clientResolve = \_ _ -> takeMVar forever'} $ \client ->
        ends client (get (Origin False (Tcp "slow.example" 80)) "/") (== TooSlow Resolving)
      putMVar forever' [],
    testCase "a name that is not found" $
      withPatient backend patient {clientResolve = \_ _ -> ioError (userError "no such name")} $ \client ->
        ends client (get (Origin False (Tcp "no.example" 80)) "/") $ \case
          NotResolved why -> "no such name" `elem` chunksOf why
          _ -> False,
    testCase "connecting" . withFull $ \full ->
      withPatient backend patient {clientConnect = soon} $ \client ->
        ends client (get full "/") $ \case
          NotConnected [_] -> True
          TooSlow Connecting -> True
          _ -> False,
    testCase "an address that does not answer leaves time for the next" . withFull $ \full ->
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "second")) $ \origin ->
        case (originPlace full, originPlace origin) of
          (Tcp _ a, Tcp _ b) -> do
            let here port = SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))
            withPatient backend patient {clientConnect = seconds 2, clientResolve = \_ _ -> pure [here a, here b]} $ \client ->
              fetch client (get (Origin False (Tcp "two.example" 80)) "/") 10 >>= (@?= "second") . fetchedContent
          other -> unexpected "two ports" (show other),
    testCase "no address accepts" . withDeaf $ \port ->
      withPatient backend patient $ \client ->
        ends client (get (Origin False (Tcp "127.0.0.1" (fromIntegral port))) "/") $ \case
          NotConnected [_] -> True
          _ -> False,
    testCase "the message names each address that was tried" . withDeaf $ \port -> do
      let addresses = [SockAddrInet port (tupleToHostAddress (127, 0, 0, i)) | i <- [1, 2]]
      withPatient backend patient {clientResolve = \_ _ -> pure addresses} $ \client -> do
        r <- try (fetch client (get (Origin False (Tcp "two.example" 80)) "/x") 10)
        case r of
          Left (e :: ClientError) ->
            lines (displayException e)
              @?= [ "GET /x of http://two.example: no address of the host accepted the connection:",
                    "  cannot connect to 127.0.0.1:" ++ show port ++ ": connection refused (ECONNREFUSED).",
                    "  cannot connect to 127.0.0.2:" ++ show port ++ ": connection refused (ECONNREFUSED)."
                  ]
          Right fetched -> unexpected "a failure" (show fetched),
    testCase "a Unix socket that is not there" $
      withPatient backend patient $ \client ->
        ends client (get (Origin False (UnixSocket "/nonexistent/socket")) "/") $ \case
          NotConnected [_] -> True
          _ -> False,
    testCase "securing" . silent $ \origin ->
      endsIn Securing $ \time ->
        let settings = patient {clientConnect = time, clientSecure = Just (\_ _ deadline -> NotOpened "late" <$ sleepUntil deadline)}
         in withPatient backend settings $ \client -> failureOf client (get origin {originSecure = True} "/"),
    testCase "a proxy" . silent $ \proxy ->
      endsIn AskingProxy $ \time ->
        withPatient backend patient {clientConnect = time, clientProxy = Just (ClientProxy proxy Nothing)} $ \client ->
          failureOf client (get (Origin True (Tcp "far.example" 443)) "/"),
    testCase "a free connection" . silent $ \origin ->
      withPatient backend patient {clientPerOrigin = 1, clientQueue = soon} $ \client -> do
        asked <- newEmptyMVar
        done <- newEmptyMVar
        thread <- forkOn 0 (putMVar asked () >> failureOfAction (fetch client (get origin "/") 10) >>= putMVar done . either (const ()) (const ()))
        takeMVar asked
        _ <- eventually "the connection to open" (connectionsInAll client) (== 1)
        waiting <- newEmptyMVar
        void (forkOn 0 (failureOfAction (fetch client (get origin "/") 10) >>= putMVar waiting))
        takeMVar waiting >>= (@?= Left NoConnectionFree) . void
        killThread thread,
    testCase "the head" . silent $ \origin ->
      withPatient backend patient {clientHead = soon} $ \client ->
        ends client (get origin "/") (== TooSlow AwaitingAnswer),
    testCase "the rest of the head" . saying "HTTP/1.1 200 OK\r\nA:" $ \origin ->
      endsIn ReadingHead $ \time ->
        withPatient backend patient {clientHead = time} $ \client -> failureOf client (get origin "/"),
    testCase "the content" . saying "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc" $ \origin ->
      withPatient backend patient {clientBodyPace = Pace soon 1000000} $ \client ->
        ends client (get origin "/") (== TooSlow ReadingContent),
    testCase "the next chunk" . saying "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" $ \origin ->
      withPatient backend patient {clientBodyPace = Pace soon 1000000} $ \client ->
        ends client (get origin "/") (== TooSlow ReadingContent),
    testCase "the end" . saying "HTTP/1.1 200 OK\r\n\r\nabc" $ \origin ->
      withPatient backend patient {clientBodyPace = Pace soon 1000000} $ \client ->
        ends client (get origin "/") (== TooSlow ReadingContent),
    testCase "sending" . silent $ \origin ->
      withPatient backend patient {clientSendPace = Pace soon 1000000} $ \client ->
        ends client (requestTo "POST" origin "/") {requestBody = BodyBytes (C.replicate 30000000 'x')} (== TooSlow SendingRequest),
    testCase "the whole request" . silent $ \origin ->
      withPatient backend patient $ \client -> do
        endsIn AwaitingAnswer $ \time -> do
          deadline <- deadlineIn time
          failureOf client (get origin "/") {requestUntil = deadline}
        deadline <- deadlineIn mempty
        ends client (requestTo "POST" origin "/") {requestUntil = deadline, requestBody = BodyBytes (C.replicate 30000000 'x')} $ \case
          TooSlow _ -> True
          NotConnected _ -> True
          NoConnectionFree -> True
          _ -> False
  ]
  where
    soon = milliseconds 60 :: Nanos
    ends client request expected = do
      failureIs expected "the phase's failure" (fetch client request 100)
      connectionsInAll client >>= (@?= 0)
    failureOf client request = failureOfAction (fetch client request 100) <* (connectionsInAll client >>= (@?= 0))
    -- The time is over in this stage. Earlier stages share it, and may take longer on a busy machine: then again with more.
    endsIn stage attempt = go [soon, milliseconds 300, milliseconds 1500, seconds 6]
      where
        go times =
          attempt (head times) >>= \case
            Left failure | earlier failure, longer@(_ : _) <- drop 1 times -> go longer
            other -> void other @?= Left (TooSlow stage)
        earlier = \case
          TooSlow other -> other < stage
          NotConnected _ -> True
          _ -> False
    silent = saying ""
    chunksOf text = [take 12 (drop i text) | i <- [0 .. length text]]

-- Says this after the head of a request, then nothing, and takes nothing.
saying :: ByteString -> (Origin -> IO a) -> IO a
saying bytes body = do
  over <- newEmptyMVar
  withScripted (\_ peer -> hearHead peer >> tell peer bytes >> (readMVar over :: IO ())) body <* putMVar over ()

-- A listener whose queue is full, so that it answers no further connection.
withFull :: (Origin -> IO a) -> IO a
withFull body = bracket (socket AF_INET Stream 0) close $ \listener -> do
  withFdSocket listener setCloseOnExecIfNeeded
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 0
  address <- getSocketName listener
  -- A queue of length 0 has room for one.
  bracket (socket AF_INET Stream 0) close $ \first -> do
    withFdSocket first setCloseOnExecIfNeeded
    connect first address
    body (originOf address)

-- A port of every address of this machine that refuses, and that no other program can take meanwhile.
withDeaf :: (PortNumber -> IO a) -> IO a
withDeaf body = bracket (socket AF_INET Stream 0) close $ \s -> do
  withFdSocket s setCloseOnExecIfNeeded
  bind s (SockAddrInet 0 0)
  socketPort s >>= body
