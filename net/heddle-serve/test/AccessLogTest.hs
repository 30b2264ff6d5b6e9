{-# LANGUAGE OverloadedStrings #-}

-- | The access log under load: every line is complete, and none is missing.
module AccessLogTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf, sort)
import Heddle.Http
import Heddle.IO (ListenOptions (..), Spread (..), defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.Serve.Internal
import Heddle.Testkit.AccessLogLine
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import SiteFixture (withDirectory)
import System.Directory (renameFile)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "AccessLog"
    [ testCase "20,000 requests by 8 clients: 20,000 lines, none torn, lost or doubled" $
        withDirectory $ \directory -> do
          let path = directory </> "log"
          troubles <- loggingOn complete path $ \address _ -> load address 8 2500 (\_ -> pure ())
          troubles @?= []
          content <- B.readFile path
          exactly 8 2500 [content],
      testCase "each client's lines keep their order" $
        withDirectory $ \directory -> do
          let path = directory </> "log"
          _ <- loggingOn complete path $ \address _ -> load address 4 500 (\_ -> pure ())
          entries <- either fail pure . readLog =<< B.readFile path
          forM_ [1 .. 4] $ \c -> do
            let mine = [t | e <- entries, Just t <- [B.stripPrefix (prefix c) (entryRequest e)]]
            mine @?= [C.pack (show i) <> " HTTP/1.1" | i <- [1 .. 500 :: Int]],
      testCase "prettyLinesOfTwoCoresWereOutOfOrder: the second core's line was written after the first core's next ones" orderedLines,
      testCase "moved away and reopened under load: all lines in one of the files" $
        withDirectory $ \directory -> do
          let path = directory </> "log"
          troubles <- loggingOn complete path $ \address log' -> do
            load address 4 1000 $ \i -> forM_ (lookup i [(200, "log.1"), (500, "log.2"), (800, "log.3")]) $ \old -> do
              -- Only the first client rotates the log, each time to a new name.
              renameFile path (directory </> old)
              reopen log'
              _ <- eventually "a new log" (either (\e -> show (e :: SomeException)) (const "") <$> try (B.readFile path)) null
              pure ()
          troubles @?= []
          contents <- mapM (B.readFile . (directory </>)) ["log", "log.1", "log.2", "log.3"]
          assertBool "the last log has lines" (not (B.null (head contents)))
          exactly 4 1000 contents,
      testCase "appended to what is there" $
        withDirectory $ \directory -> do
          let path = directory </> "log"
          forM_ [1 :: Int, 2] $ \_ -> logging path $ \address _ -> load address 1 10 (\_ -> pure ())
          entries <- either fail pure . readLog =<< B.readFile path
          length entries @?= 20,
      testCase "a full disk is reported, and the server lives on" $ do
        troubles <- logging "/dev/full" $ \address _ -> do
          load address 2 100 (\_ -> pure ())
          load address 2 100 (\_ -> pure ())
        case troubles of
          t : _ | "/dev/full" `isInfixOf` t && "ENOSPC" `isInfixOf` t -> pure ()
          other -> unexpected "reports that name the file and ENOSPC" (show other),
      testCase "a log that cannot be opened is an error" $
        try (logging "/nonexistent/log" (\_ _ -> pure ())) >>= \case
          Left (e :: IOError) -> assertBool (show e) ("/nonexistent/log" `isInfixOf` show e)
          Right _ -> unexpected "an error" "none"
    ]

prefix :: Int -> ByteString
prefix c = C.pack ("GET /" ++ show c ++ "/")

-- No line is dropped, however long the writer stalls.
complete :: LogOptions
complete = defaultLogOptions {logFull = Block}

-- Run a server with a log; returns what the log reported.
logging :: FilePath -> (SockAddr -> AccessLog -> IO ()) -> IO [String]
logging = loggingOn defaultLogOptions

loggingOn :: LogOptions -> FilePath -> (SockAddr -> AccessLog -> IO ()) -> IO [String]
loggingOn options path body = do
  troubles <- newIORef []
  withRuntime defaultConfig $ \runtime ->
    withAccessLog runtime id options (LogFile path) (\t -> atomicModifyIORef' troubles (\ts -> (ts ++ [t], ()))) $ \log' ->
      withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener -> do
        let make capability = do
              hook <- accessLogHook log' [] Combined capability
              pure (fmap (Whole status200 []) . target, Just hook)
        withServer runtime defaultSettings make [listener] $ \server -> do
          body (listenerAddress listener) log'
          _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
          pure ()
  readIORef troubles

-- @load address clients requests act@: the clients send this many requests each, in bursts of
-- ten. The first client runs @act@ before each of its requests.
load :: SockAddr -> Int -> Int -> (Int -> IO ()) -> IO ()
load address clients requests act = do
  done <- forM [1 .. clients] $ \c -> do
    result <- newEmptyMVar
    _ <- forkIO (try (one c) >>= putMVar result)
    pure result
  forM_ done $ \result -> readMVar result >>= either (\e -> unexpected "a client to succeed" (show (e :: SomeException))) pure
  where
    one c = withClient address $ \client ->
      forM_ (bursts [1 .. requests]) $ \burst -> do
        if c == 1 then mapM_ act burst else pure ()
        say client (B.concat [C.concat [prefix c, C.pack (show i), " HTTP/1.1\r\nHost: a\r\n\r\n"] | i <- burst])
        forM_ burst $ \i -> hearAnswer client >>= answersWith 200 (B.drop 4 (prefix c) <> C.pack (show i))
    bursts [] = []
    bursts is = let (a, b) = splitAt 10 is in a : bursts b

-- All files together contain each line of the load exactly once.
exactly :: Int -> Int -> [ByteString] -> IO ()
exactly clients requests contents = do
  entries <- concat <$> mapM (either fail pure . readLog) contents
  let wanted = sort [C.concat [prefix c, C.pack (show i), " HTTP/1.1"] | c <- [1 .. clients], i <- [1 .. requests]]
      got = sort (map entryRequest entries)
  unless (got == wanted) $
    unexpected (show (length wanted) ++ " lines, one per request") (show (length got) ++ " lines; the first that differ: " ++ show (take 3 (filter (uncurry (/=)) (zip wanted got))))
  assertBool "every status is 200" (all ((== 200) . entryStatus) entries)

-- The writer looks at the first capability's ring first, and the earlier one of two requests is in the other ring.
orderedLines :: IO ()
orderedLines = forM_ [Pretty False, Combined, Json] $ \format -> withDirectory $ \directory -> do
  let path = directory </> "log"
      many = 60 :: Int
  withRuntime defaultConfig $ \runtime ->
    withOrderedLog runtime id complete (LogFile path) fail $ \log' ->
      withListener runtime defaultListenOptions {listenSpread = OneAcceptor} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener -> do
        hooks <- mapM (accessLogHook log' [] format) [1, 0]
        turn <- newIORef (cycle hooks)
        let hook request what status sent = do
              next <- atomicModifyIORef' turn (\turns -> (drop 1 turns, head turns))
              next request what status sent
        withServer runtime defaultSettings (\_ -> pure (fmap (Whole status200 []) . target, Just hook)) [listener] $ \server -> do
          withClient (listenerAddress listener) $ \client ->
            forM_ [1 .. many] $ \i -> do
              say client (C.pack ("GET /" ++ show i ++ "/ HTTP/1.1\r\nHost: a\r\n\r\n"))
              hearAnswer client >>= answersWith 200 (C.pack ("/" ++ show i ++ "/"))
          _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
          pure ()
  content <- C.lines <$> B.readFile path
  [i | line <- content, i <- [1 .. many], C.pack ("/" ++ show i ++ "/") `B.isInfixOf` line] @?= [1 .. many]
  -- Nothing is left of the stamps.
  assertBool (show (take 1 content)) (all ((`elem` ["127.", "{\"ti"]) . B.take 4) content || all ((== ":") . B.take 1 . B.drop 2) content)
