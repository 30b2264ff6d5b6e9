{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | What is too long to be kept, sources that cannot be read, readers and sinks that throw.
module FilterFailureTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception
import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.IORef (modifyIORef', newIORef, readIORef)
import FilterHarness
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import Heddle.Filter
import Heddle.Filter.Language (printStage)
import Heddle.Prim.Errno (pattern EIO, pattern EISDIR, pattern ENOENT)
import System.Directory (createDirectoryIfMissing, removeDirectoryRecursive)
import System.IO.Error (ioeGetErrorString, isUserError)
import System.Posix.IO (closeFd, createPipe, fdToHandle)
import Test.Tasty (TestTree, testGroup, withResource)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  withResource newDirectory removeDirectoryRecursive $ \directory ->
    testGroup
      "failing runs"
      [ testGroup "what is too long to be kept, by its stage" (map (tooLong directory) holding),
        testCase "what is not too long is kept" $
          forM_ holding $ \(text, _) -> do
            stage <- stageOf text
            out <- directory >>= runs 5000 1 uncompiled stage
            assertBool (Char8.unpack text) (Bytes.length out >= 0),
        testGroup "rowThatWasKeptForStagesThatNeedNone" (map (needsNoRow directory) rowless),
        testCase "a limit says what to do" $
          displayException (TooLong "fields 1" 64) @?= "fields 1: more than 64 bytes would have to be held back until the input decides where they go; --longest SIZE allows more",
        testGroup
          "sources"
          [ testCase (Char8.unpack text ++ ", " ++ show jobs ++ " jobs") (directory >>= unreadable text expected jobs)
            | (text, expected) <- readable,
              jobs <- [1, 3]
          ],
        testCase "runBytes throws what a source throws" $ do
          r <- leavesNothing (try (runBytes (compile Identity) [fileSource "/nonexistent/file"]))
          r @?= Left (SourceError "/nonexistent/file" ENOENT),
        testCase "FilterException catches each of the package's exceptions" $
          forM_ [toException (SourceError "f" EIO), toException (TooLong "id" 1), toException (CommandFailed "exit status 1")] $ \e@(SomeException own) -> do
            Left caught <- try (throwIO e)
            displayException (caught :: FilterException) @?= displayException own,
        testCase "a reader that ends early" $ do
          (r, out) <- runReader [Right "ab\n", Right "c"]
          either (assertFailure . displayException) pure r
          out @?= "ab\nc",
        testCase "a reader that throws" $ do
          (r, out) <- runReader [Right "ab\n", Left (toException (userError "gone")), Right "c\n"]
          either (\e -> fmap ioeGetErrorString (fromException e) @?= Just "gone") (const (assertFailure "it did not fail")) r
          out @?= "ab\n",
        testCase "a reader that throws a source's error is told, and the next is read" $ do
          (r, out) <- runReader [Right "ab\n", Left (toException (SourceError "reader" EIO)), Right "c\n"]
          either (assertFailure . displayException) pure r
          out @?= "ab\nnext\n",
        testCase "a sink that throws, wherever it runs" $
          forM_ ["id", "id || id", "command \"cat\"", "count", "select row having \"a\"", "foreach row then command \"cat\" end", "tail 1 || id"] $ \text -> do
            stage <- stageOf text
            source <- bytesSource "some" [3] "ab\na\n"
            r <- leavesNothing (quickly 60 (try (runPlan defaultFilterOptions (compile stage) [source] (Sink (\_ -> throwIO (userError "full")) (pure ())))))
            either (\e -> (Char8.unpack text, isUserError e) @?= (Char8.unpack text, True)) (const (assertFailure "it did not fail")) r,
        testCase "a sink that throws at the end" $ do
          source <- bytesSource "some" [] "ab\n"
          stage <- stageOf "id || id"
          r <- leavesNothing (quickly 60 (try (runPlan defaultFilterOptions (compile stage) [source] (Sink (\_ -> pure True) (throwIO (userError "full"))))))
          either (\e -> isUserError e @?= True) (const (assertFailure "it did not fail")) r,
        testGroup "outputs" outputs
      ]

-- Stages that need no whole rows, and what they make of the long one.
rowless :: [(ByteString, ByteString)]
rowless =
  [ ("upper", Char8.concat ["B\n", Char8.replicate 1000 'A', "\nB\n"]),
    ("count", "3\n"),
    ("count bytes \"b\"", "2\n"),
    ("count letters", "3\n"),
    ("replace \"b\" with \"x\"", Char8.concat ["x\n", Char8.replicate 1000 'a', "\nx\n"]),
    ("select bytes \"b\\n\"", "b\n\nb\n"),
    ("foreach row then instead \"x\" end | upper", "XXX"),
    ("upper | head 3 | count letters", "3\n")
  ]

needsNoRow :: IO FilePath -> (ByteString, ByteString) -> TestTree
needsNoRow directory (text, expected) = testCase (Char8.unpack text) $ do
  stage <- stageOf text
  forM_ [uncompiled, compile] $ \how -> forM_ [1, 3] $ \jobs -> do
    out <- directory >>= leavesNothing . quickly 60 . runs 64 jobs how stage
    (jobs, out) @?= (jobs, expected)

-- What is too long -----------------------------------------------------------

-- An expression that holds back all of a long row, and the stage that does.
holding :: [(ByteString, String)]
holding =
  [ same "count row having \"z\"",
    same "select row having-only (letters or \"\\n\")",
    same "select row followed-by \"z\"",
    same "count last 1 row",
    same "count suffix row",
    same "count /a+$/",
    same "count last 1 row and row",
    same "count \"a\" or suffix row",
    same "count from (suffix row) to \"z\"",
    same "fields 1 with \" \"",
    same "concat (suppress, id)",
    same "interleave (id, suppress)",
    same "zip (suppress, id)",
    same "flip zip (id, suppress)",
    ("upper | fields 1 | lower", "fields 1 with \" \""),
    ("upper || fields 1 || lower", "fields 1 with \" \""),
    ("foreach row then upper | tail 1 end", "select last 10 row"),
    ("foreach row then command \"cat\" end", "command \"cat\""),
    ("if row then concat (suppress, id) end", "concat (suppress, id)")
  ]
  where
    same text = (text, Char8.unpack text)

tooLong :: IO FilePath -> (ByteString, String) -> TestTree
tooLong directory (text, name) = testCase (Char8.unpack text) $ do
  stage <- stageOf text
  forM_ [uncompiled, compile] $ \how -> forM_ [1, 3] $ \jobs -> do
    r <- directory >>= leavesNothing . quickly 60 . try . runs 64 jobs how stage
    case r of
      -- A plan with a front keeps rows.
      Left (TooLong found 64) -> assertBool found (found `elem` [name', "a row"])
      Left e -> assertFailure (show e)
      Right out -> assertFailure ("it did not fail: " ++ show out ++ printStage stage)
  where
    name' = if name == "select last 10 row" then "select last 1 row" else name

runs :: Int -> Int -> (Stage -> Plan) -> Stage -> FilePath -> IO ByteString
runs longest jobs how stage directory = do
  let text = Char8.concat ["b\n", Char8.replicate 1000 'a', "\nb\n"]
  -- What comes in one piece need not be kept.
  source <- if how stage == uncompiled stage then bytesSource "pieces" [7] text else writtenFile directory 7 text
  collected (runPlan defaultFilterOptions {filterLongest = longest, filterJobs = jobs, filterBlockSize = 32, filterPartSize = 100} (how stage) [source])

-- Sources --------------------------------------------------------------------

readable :: [(ByteString, ByteString)]
readable =
  [ ("id", "ab\na\nb\nab"),
    ("count row", "4\n"),
    ("select row having \"a\"", "ab\na\nab"),
    ("select row having \"a\" numbered", "1:ab\n2:a\n4:ab"),
    ("foreach row then upper end || id", "AB\nA\nB\nAB")
  ]

-- A missing file, a directory, and readable ones around them.
unreadable :: ByteString -> ByteString -> Int -> FilePath -> IO ()
unreadable text expected jobs directory = do
  stage <- stageOf text
  first <- writtenFile directory 0 "ab\na\n"
  second <- writtenFile directory 1 "b\n"
  third <- writtenFile directory 2 "ab"
  createDirectoryIfMissing True (directory ++ "/folder")
  let folder = Char8.pack (directory ++ "/folder")
  complaints <- newIORef []
  out <-
    leavesNothing . quickly 60 . collected $
      runPlan
        defaultFilterOptions {filterOnError = \e -> modifyIORef' complaints (e :), filterJobs = jobs, filterBlockSize = 16, filterPartSize = 2}
        (compile stage)
        [first, fileSource "/nonexistent/file", second, fileSource folder, third]
  told <- readIORef complaints
  out @?= expected
  reverse told @?= [SourceError "/nonexistent/file" ENOENT, SourceError folder EISDIR]

-- What a reader gives or throws at each call; how the run ends, and what comes out of it.
runReader :: [Either SomeException ByteString] -> IO (Either SomeException (), ByteString)
runReader given = leavesNothing . quickly 60 $ do
  left <- newIORef given
  next <- bytesSource "next" [] "next\n"
  got <- newIORef []
  let reader = readerSource "reader" $ \p _ ->
        readIORef left >>= \case
          [] -> pure 0
          now : later -> do
            modifyIORef' left (const later)
            case now of
              Left e -> throwIO e
              Right bytes -> Bytes.unsafeUseAsCStringLen bytes (\(from, n) -> copyBytes p (castPtr from) n >> pure n)
      isThrowing = any (either (const True) (const False)) given
  r <- try (runPlan defaultFilterOptions {filterOnError = const (pure ())} (compile Identity) (reader : [next | isThrowing]) (Sink (\b -> True <$ modifyIORef' got (Bytes.copy b :)) (pure ())))
  out <- Bytes.concat . reverse <$> readIORef got
  pure (r, out)

-- Outputs --------------------------------------------------------------------

outputs :: [TestTree]
outputs =
  [ testCase "what is pushed is written" $ do
      let text = Char8.unlines (replicate 60000 "ab")
      out <- throughPipe text
      (Bytes.length out, out == text) @?= (180000, True),
    testCase "a reader that goes away stops the run, quietly" $ do
      (r, w) <- createPipe
      closeFd r
      out <- newOutput w "the pipe"
      stage <- stageOf "command \"yes\" || id"
      leavesNothing (quickly 60 (runPlan defaultFilterOptions (compile stage) [] (outputSink out)))
      readerGone out >>= (@?= True)
      closeFd w,
    testCase "nothing but a 0" $ do
      found <- mapM (fmap snd . pushed) [[], ["0\n"], ["0", "\n"], ["1\n"], ["0\n", "0\n"], ["00"], ["0"], ["\n"], ["0\n", "\n"]]
      found @?= [True, True, True, False, False, False, False, False, False]
  ]

throughPipe :: ByteString -> IO ByteString
throughPipe text = do
  (r, w) <- createPipe
  h <- fdToHandle r
  done <- newEmptyMVar
  _ <- forkIO (Bytes.hGetContents h >>= putMVar done)
  out <- newOutput w "the pipe"
  source <- bytesSource "some" [70000, 1, 5000] text
  runPlan defaultFilterOptions (compile Identity) [source] (outputSink out)
  closeFd w
  takeMVar done

-- What is written, and whether that is nothing but a 0.
pushed :: [ByteString] -> IO (ByteString, Bool)
pushed pieces = do
  (r, w) <- createPipe
  out <- newOutput w "the pipe"
  forM_ pieces (push (outputSink out))
  finish (outputSink out)
  closeFd w
  h <- fdToHandle r
  text <- Bytes.hGetContents h
  zero <- isOnlyZero out
  unless (text == Bytes.concat pieces) (assertFailure "another text was written")
  pure (text, zero)
