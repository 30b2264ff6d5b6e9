{-# LANGUAGE OverloadedStrings #-}

-- | What the program does before it begins with its task, counted in system calls: on a busy machine each thread that it starts
-- may cost a turn of the scheduler, and each library some fifty pages.
module StartTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (partition)
import Program
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
            (words', filter (\line -> any (`B.isInfixOf` line) ["/libssl", "/libcrypto"]) opened) @?= (words', [])
    ]
  where
    short = [["--version"], ["--help"], ["serve", "--help"], ["no-such-command"]]

-- The calls of this kind that the program makes with these arguments, each as a line.
calls :: String -> [String] -> IO [B.ByteString]
calls kind words' = withDirectory $ \d -> do
  _ <- runTool "strace" (["-f", "-qq", "-e", "trace=" ++ kind ++ ",exit_group", "-e", "signal=none", "-o", d </> "calls", "heddle"] ++ words')
  lines' <- C.lines <$> B.readFile (d </> "calls")
  let (ends, others) = partition ("exit_group" `B.isInfixOf`) lines'
  others <$ assertBool ("strace has followed heddle to its end: " ++ show lines') (length ends == 1)
