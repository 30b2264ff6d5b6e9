{-# LANGUAGE OverloadedStrings #-}

-- | What the program does before it begins with its task, counted in system calls: on a busy machine each thread that it starts
-- may cost a turn of the scheduler, and each library some fifty pages.
module StartTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (partition)
import Program
import System.Directory (createDirectory)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "start"
    [ testCase "tlsWasLinked: what encrypts nothing opens neither libssl nor libcrypto" $
        withDirectory $ \d -> do
          writeFile (d </> "a") "[1]"
          forM_ (["find", d] : ["json", d </> "a"] : short) $ \words' -> do
            opened <- calls "openat" words'
            (words', filter (\line -> any (`B.isInfixOf` line) ["/libssl", "/libcrypto"]) opened) @?= (words', []),
      testCase "threadForEveryCall: what is short starts no thread" $
        withDirectory $ \d -> do
          mapM_ (\n -> writeFile (d </> show n) "") [1 .. 10 :: Int]
          forM_ ([["--version"], ["--help"]] ++ flat d) $ \words' -> do
            begun <- calls "clone,clone3,fork,vfork" words'
            (words', begun) @?= (words', []),
      testCase "threadForEveryCapability: a search begins on one, whatever -j says" $
        withDirectory $ \d -> do
          begun <- calls "clone,clone3" ["find", "-j", "32", d]
          begun @?= [],
      testCase "threadForEveryCapability: with a second directory it takes as many as -j says" $
        withDirectory $ \d -> do
          mapM_ (createDirectory . (d </>)) ["a", "b"]
          forM_ [(1, 3), (4, 12)] $ \(jobs, most) -> do
            begun <- length <$> calls "clone,clone3" ["find", "-j", show (jobs :: Int), d]
            assertBool (show (jobs, begun)) (begun >= jobs && begun <= most)
    ]
  where
    flat d = [["find", d], ["find", d, "-name", "1*"], ["find", "--ordered", d], ["find", d, "-depth"], ["find", d </> "1"]]
    short = [["--version"], ["--help"], ["serve", "--help"], ["no-such-command"]]

-- The calls of this kind that the program makes with these arguments, each as a line.
calls :: String -> [String] -> IO [B.ByteString]
calls kind words' = withDirectory $ \d -> do
  _ <- runTool "strace" (["-f", "-qq", "-e", "trace=" ++ kind ++ ",exit_group", "-e", "signal=none", "-o", d </> "calls", "heddle"] ++ words')
  lines' <- C.lines <$> B.readFile (d </> "calls")
  let (end, others) = partition ("exit_group" `B.isInfixOf`) lines'
  others <$ assertBool ("strace has followed heddle to its end: " ++ show lines') (length end == 1)
