{-# LANGUAGE OverloadedStrings #-}

-- | One application, served by Heddle itself, as a CGI program, and by FastCGI: the same answers.
module Programs (tests, orProgram) where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (bracket, throwIO)
import Control.Monad (forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Fixture
import Heddle.Gateway.Cgi
import Heddle.Gateway.FastCgi
import Heddle.Gateway.Place
import Heddle.Http (defaultSettings, rawPath, withServer)
import Heddle.Http qualified as Http
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (Runtime, closeListener, defaultConfig, defaultListenOptions, listenerAddress, newListener, withListener, withRuntime)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.HTTP.Types hiding (decodePath)
import Network.Socket (Family (..), SocketType (..), bind, close, defaultProtocol, getSocketName, listen, socket, unsafeFdSocket)
import Network.Wai
import Network.Wai.Handler.Heddle.Cgi
import Network.Wai.Handler.Heddle.FastCgi
import System.Environment (getEnvironment, getExecutablePath, lookupEnv)
import System.IO (hClose)
import System.Posix.IO (dup, fdToHandle)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit

-- | This very program is the CGI or FastCGI program when a variable says so.
orProgram :: IO () -> IO ()
orProgram suite =
  lookupEnv "HEDDLE_WAI_PROGRAM" >>= \case
    Just "cgi" -> runCgi application
    Just "fastcgi" -> runFastCgi application
    _ -> suite

application :: Application
application request respond = case pathInfo request of
  ["hello"] -> respond (responseLBS status200 [(hContentType, "text/plain")] "hello")
  ["echo"] -> do
    body <- strictRequestBody request
    respond (responseLBS status200 [(hContentType, "text/plain")] body)
  ["facts", name] ->
    respond . responseLBS status201 [(hContentType, "text/plain"), ("X-Mine", "yes")] . L.fromStrict $
      C.intercalate "|" [requestMethod request, rawQueryString request, C.pack (show (name, pathInfo request)), fromMaybe "none" (lookup "X-Asked" (requestHeaders request)), C.pack (show (Map.member "SCRIPT_NAME" (programVariables request)))]
  ["stream"] -> respond (responseStream status200 [(hContentType, "text/plain")] (\write flush -> forM_ [1 .. 5 :: Int] (\i -> write (byteString (C.replicate 10000 (head (show i)))) >> flush)))
  ["file"] -> respond (responseFile status200 [(hContentType, "text/plain")] "/proc/self/comm" Nothing)
  ["part"] -> respond (responseFile status200 [(hContentType, "text/plain")] "/etc/passwd" (Just (FilePart 0 4 0)))
  ["fails"] -> throwIO (userError "the application fails")
  ["late"] -> respond (responseStream status200 [(hContentType, "text/plain")] (\write flush -> write (byteString (C.replicate 100000 'x')) >> flush >> throwIO (userError "late")))
  ["split"] -> respond (responseLBS status200 [(hContentType, "text/plain"), ("X-A", "b\r\nX-B: c")] "")
  _ -> respond (responseLBS status404 [(hContentType, "text/plain")] "nothing")

tests :: TestTree
tests =
  testGroup
    "as a program"
    [ testCase "runCgi" $ do
        program <- C.pack <$> getExecutablePath
        withRuntime defaultConfig $ \runtime ->
          withCgi runtime (defaultCgiSettings program) {cgiVariables = [("HEDDLE_WAI_PROGRAM", "cgi")]} $ \cgi -> do
            withGateway runtime (cgiGateway cgi) asked
            void (eventually "every program to end" (runningPrograms cgi) (== 0)),
      testCase "serveFastCgi" . withRuntime defaultConfig $ \runtime ->
        bracket (newListener runtime defaultListenOptions (loopback 0)) closeListener $ \listener ->
          bracket (forkIO (serveFastCgi listener application)) killThread $ \_ ->
            withFastCgi runtime (defaultFastCgiSettings [listenerAddress listener] "/srv") $ \fast -> withGateway runtime (fastCgiGateway fast) asked,
      testCase "runFastCgi, with the socket as descriptor 0" $ do
        program <- getExecutablePath
        environment <- getEnvironment
        bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
          bind listener (loopback 0)
          listen listener 16
          address <- getSocketName listener
          handle <- unsafeFdSocket listener >>= dup . fromIntegral >>= fdToHandle
          let command = (proc program []) {env = Just (("HEDDLE_WAI_PROGRAM", "fastcgi") : environment), std_in = UseHandle handle}
          bracket (createProcess command) (\(_, _, _, process) -> terminateProcess process >> waitForProcess process) $ \_ -> do
            hClose handle
            withRuntime defaultConfig $ \runtime ->
              withFastCgi runtime (defaultFastCgiSettings [address] "/srv") $ \fast -> withGateway runtime (fastCgiGateway fast) asked
    ]

withGateway :: Runtime -> Gateway -> (Client -> IO a) -> IO a
withGateway runtime gateway body =
  withListener runtime defaultListenOptions (loopback 0) $ \listener ->
    withServer runtime defaultSettings (\_ -> pure (handler, Nothing)) [listener] $ \_ -> withClient (listenerAddress listener) body
  where
    handler request = do
      raw <- rawPath request
      either (\_ -> pure (Http.Whole Http.status404 [] "")) (\path -> gateway (placeOf "p" path) request) (decodePath raw)

asked :: Client -> IO ()
asked client = do
  ask "GET" "/p/hello" "" >>= answersWith 200 "hello"
  ask "POST" "/p/echo" (C.replicate 300000 'e') >>= answersWith 200 (C.replicate 300000 'e')
  say client "POST /p/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
  hearAnswer client >>= answersWith 200 "hello"
  facts <- ask "GET" "/p/facts/a%20%C3%A4?q=1&r" ""
  answersWith 201 "GET|?q=1&r|(\"a \\228\",[\"facts\",\"a \\228\"])|asked|True" facts
  answerHeader facts "x-mine" @?= Just "yes"
  ask "GET" "/p/stream" "" >>= answersWith 200 (C.concat [C.replicate 10000 (head (show i)) | i <- [1 .. 5 :: Int]])
  ask "HEAD" "/p/hello" "" >>= answersWith 200 ""
  ask "GET" "/p/file" "" >>= (@?= 200) . answerCode
  ask "GET" "/p/part" "" >>= answersWith 200 "root"
  ask "GET" "/p/none" "" >>= answersWith 404 "nothing"
  ask "GET" "/p/fails" "" >>= (@?= 500) . answerCode
  ask "GET" "/p/split" "" >>= (@?= Nothing) . (`answerHeader` "x-b")
  -- Last, for it ends the connection: what breaks off is not taken for whole.
  late <- ask "GET" "/p/late" ""
  unless (answerCode late == 200 && not (answerWhole late)) (unexpected "an answer that breaks off" (show late {answerBody = ""}))
  where
    ask :: ByteString -> ByteString -> ByteString -> IO Answer
    ask method' path body = do
      say client (C.concat ([method', " ", path, " HTTP/1.1\r\nHost: test\r\nX-Asked: asked\r\n"] ++ [C.concat ["Content-Length: ", C.pack (show (B.length body)), "\r\n"] | not (B.null body)] ++ ["\r\n", body]))
      hear client method' >>= maybe (unexpected "an answer" "the end") pure
