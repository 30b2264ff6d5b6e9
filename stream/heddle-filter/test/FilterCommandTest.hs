{-# LANGUAGE OverloadedStrings #-}

-- | Commands as stages: they get and give everything, fail by name, stop early, and leave
-- neither processes nor descriptors.
module FilterCommandTest (tests) where

import Control.Exception (bracket, fromException, try)
import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IORef (modifyIORef', newIORef, readIORef)
import Data.Word (Word8)
import FilterHarness
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Storable (pokeByteOff)
import Heddle.Filter
import System.Directory (removeDirectoryRecursive)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "commands"
    [ testGroup
        "what they make of it"
        [ makes "command \"cat\"" "ab\n\nc" "ab\n\nc",
          makes "command \"cat\"" "" "",
          makes "command \"cat\"" "\0\xff\xc3\n" "\0\xff\xc3\n",
          makes "command \"tr a-z A-Z\" | command \"cat\" || command \"rev\"" "ab\ncd\n" "BA\nDC\n",
          makes "upper | command \"sort\" | head 1" "b\na\n" "A\n",
          makes "command \"echo x; cat\"" "ab\n" "x\nab\n",
          makes "command \"true\"" "ab\n" "",
          makes "command \"printf '%s' '\xc3\xa9'\"" "" "\xc3\xa9",
          makes "foreach row then command \"cat\" end" "ab\n\nc" "ab\n\nc",
          makes "foreach row then command \"wc -l\" else suppress end" "ab\n\nc" "1\n1\n0\n",
          makes "foreach /b+/ then command \"tr b x\" end" "abb\nb" "axx\nx",
          makes "if row having \"a\" then command \"tr a x\" end" "a\nb\naa\n" "b\nx\nxx\n",
          makes "concat (command \"wc -l\", command \"rev\")" "ab\ncd\n" "2\nba\ndc\n",
          makes "zip (command \"rev\", id)" "ab\ncd\n" "baab\ndccd\n",
          makes "foreach row then command \"cat\" || command \"rev\" | upper end" "ab\ncd\n" "BA\nDC\n"
        ],
      testGroup
        "failures are named"
        [ fails "command \"exit 3\"" "command \"exit 3\"" "exit status 3",
          fails "upper | command \"cat; exit 3\" | lower" "command \"cat; exit 3\"" "exit status 3",
          fails "command \"cat\" | command \"exit 4\"" "command \"exit 4\"" "exit status 4",
          fails "command \"exit 5\" || command \"cat\"" "command \"exit 5\"" "exit status 5",
          fails "command \"kill -9 $$\"" "command \"kill -9 $$\"" "killed by signal 9",
          fails "command \"kill -TERM $$\"" "command \"kill -TERM $$\"" "killed by signal 15",
          fails "command \"exec 2>&-; heddle-no-such-command\"" "command \"exec 2>&-; heddle-no-such-command\"" "the shell found no such command (exit status 127)",
          fails "foreach row then command \"exit 6\" end" "command \"exit 6\"" "exit status 6",
          fails "if row having \"a\" then command \"exit 7\" end" "command \"exit 7\"" "exit status 7",
          fails "foreach row then command \"kill -9 $$\" end" "command \"kill -9 $$\"" "killed by signal 9"
        ],
      testGroup
        "early stops are no failure"
        [ stops "command \"yes\" | head 3" "y\ny\ny\n",
          stops "command \"yes\" || head 3" "y\ny\ny\n",
          stops "command \"yes\" | command \"cat\" | head 1" "y\n",
          stops "command \"cat\" | head 2" "a\na\n",
          stops "command \"cat\" || upper || head 2" "A\nA\n",
          stops "command \"yes; exit 3\" | head 1" "y\n",
          stops "head 2 | command \"cat\"" "a\na\n",
          stops "command \"head -n 1\" | head 1" "a\n",
          stops "command \"yes\" | concat (head 1, suppress) | head 1" "y\n",
          stops "command \"yes\" | zip (id, id) | head 1" "yy\n",
          stops "command \"yes\" | interleave (id, upper) | head 2" "y\nY\n"
        ],
      testGroup
        "answerOfTheConsumerIsSeenOnlyBetweenBlocks"
        ( [ stops "foreach row then command \"cat\" end | head 3" "a\na\na\n",
            stops "foreach line then command \"cat\" end | head 2" "a\na\n",
            stops "foreach \"a\" then command \"cat\" end | head 2" "a\na\n",
            stops "foreach /a/ then command \"cat\" end | head 2" "a\na\n",
            stops "foreach letters then command \"cat\" end | head 2" "a\na\n",
            stops "foreach row having \"a\" then command \"cat\" end | head 2" "a\na\n",
            stops "foreach row followed-by \"a\" then command \"cat\" end | head 2" "a\na\n",
            stops "foreach row and letters then command \"cat\" end | head 2" "a\na\n",
            stops "foreach from \"a\" to \"\\n\" then command \"cat\" end | upper | head 2" "A\nA\n",
            stops "concat (foreach row then command \"cat\" end | head 1, suppress) | head 1" "a\n"
          ]
            ++ [startsOne how text | text <- onceOnly, how <- [("compiled", compile), ("as written", uncompiled)]]
            ++ [testCase "a large file on three cores" startsOneOfMany]
        ),
      testCase "a command need not read" $ do
        out <- leavesNothing (quickly 60 (runWith 1000 "command \"echo done\"" (Char8.replicate 3000000 'a')))
        out @?= "done\n",
      testGroup "ten megabytes both ways" [testCase (Char8.unpack text) (throughCat text) | text <- large],
      testCase "500 sections, each through a command of its own, keep no descriptors" $ do
        let rows = Char8.unlines (replicate 500 "a")
        most <- newIORef 0
        before <- descriptors
        leavesNothing . quickly 60 $ do
          plan <- compile <$> stageOf "foreach row then command \"echo\" end"
          source <- bytesSource "rows" [] rows
          runPlan defaultFilterOptions {filterOnError = fail . show} plan [source] (Sink (\_ -> True <$ (descriptors >>= \n -> modifyIORef' most (max n))) (pure ()))
        after <- readIORef most
        assertBool ("there were " ++ show before ++ ", then " ++ show after) (after > 0 && after < before + 20)
    ]

makes :: ByteString -> ByteString -> ByteString -> TestTree
makes text input expected = testCase (Char8.unpack text ++ " on " ++ show input) . leavesNothing . quickly 60 $
  forM_ [1, 100] $ \size -> runWith size text input >>= (@?= expected)

fails :: ByteString -> String -> String -> TestTree
fails text stage reason = testCase (Char8.unpack text) . leavesNothing . quickly 60 $ do
  r <- try (runWith 2 text "a\nb\n")
  case r of
    Left e -> (stageName e, fromException (stageException e)) @?= (stage, Just (CommandFailed reason))
    Right out -> assertFailure ("it gave " ++ show out)

-- On an input that never ends.
stops :: ByteString -> ByteString -> TestTree
stops text expected = testCase (Char8.unpack text) . leavesNothing . quickly 60 $ do
  stage <- stageOf text
  let endless = readerSource "endless" (\p room -> let n = min room 4096 `div` 2 * 2 in n <$ fill p n)
  out <- runBytes (compile stage) [endless]
  out @?= expected
  where
    fill p n = do
      fillBytes p 97 n
      mapM_ (\i -> pokeByteOff p i (10 :: Word8)) [1, 3 .. n - 1]

-- Commands that would run for each of ten rows; the first has given all that is wanted.
onceOnly :: [ByteString]
onceOnly =
  [ "foreach row then command \"tee -a F\" end | head 1",
    "foreach row then command \"tee -a F\" end | fields 1 | head 1",
    "foreach row then command \"tee -a F\" end | number | head 1",
    "foreach everything then foreach row then command \"tee -a F\" end | head 1 end",
    "if row then foreach row then command \"tee -a F\" end | head 1 else suppress end",
    "concat (foreach row then command \"tee -a F\" end | head 1, id) | head 1",
    "interleave (foreach row then command \"tee -a F\" end | head 1, suppress)"
  ]

startsOne :: (String, Stage -> Plan) -> ByteString -> TestTree
startsOne (name, how) text = testCase (Char8.unpack text ++ ", " ++ name) . inNewFile $ \file -> do
  stage <- stageOf (inFile file text)
  source <- bytesSource "rows" [] (Char8.unlines (map (Char8.pack . show) [1 .. 10 :: Int]))
  _ <- leavesNothing (quickly 60 (runBytes (how stage) [source]))
  Bytes.readFile file >>= (@?= "1\n")

startsOneOfMany :: IO ()
startsOneOfMany = inNewFile $ \file -> do
  stage <- stageOf (inFile file "foreach row then command \"tee -a F\" end | head 1")
  Bytes.writeFile (file ++ ".input") (Char8.unlines (replicate 300 "a"))
  out <-
    leavesNothing . quickly 60 . collected $
      runPlan defaultFilterOptions {filterOnError = fail . show, filterJobs = 3, filterBlockSize = 16, filterPartSize = 100} (compile stage) [fileSource (Char8.pack (file ++ ".input"))]
  started <- Bytes.readFile file
  (out, started) @?= ("a\n", "a\n")

inFile :: FilePath -> ByteString -> ByteString
inFile file = Char8.intercalate (Char8.pack file) . Char8.split 'F'

inNewFile :: (FilePath -> IO ()) -> IO ()
inNewFile use = bracket newDirectory removeDirectoryRecursive (\directory -> use (directory ++ "/started"))

large :: [ByteString]
large =
  [ "command \"cat\"",
    "command \"cat\" | command \"cat\" || command \"cat\"",
    "foreach everything then command \"cat\" end",
    "concat (command \"cat\", suppress)"
  ]

throughCat :: ByteString -> IO ()
throughCat text = do
  let bytes = Bytes.concat (replicate 50 (Bytes.pack (take 210000 (cycle [0 .. 250]))))
  out <- leavesNothing (quickly 60 (runWith 50000 text bytes))
  (Bytes.length out, out == bytes) @?= (10500000, True)
