{-# LANGUAGE OverloadedStrings #-}

-- | Completion, as bash does it with the script that the command prints.
module CompletionTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isPrefixOf, sort)
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "completion in bash"
    [ testCase "commands" $ do
        offered [""] >>= includes ["serve", "find", "pipe", "json", "trace", "password", "controller", "ofbench", "--version", "--help"]
        offered ["s"] >>= (@?= ["serve"])
        offered ["--v"] >>= (@?= ["--version"]),
      testCase "options of a command" $ do
        offered ["serve", "--li"] >>= (@?= ["--listen"])
        offered ["json", "--"] >>= includes ["--check", "--minify", "--lines", "--indent"]
        offered ["serve", "--backend", ""] >>= (@?= ["epoll", "poll"]),
      testCase "files, and directories to serve" $
        withDirectory $ \d -> do
          createDirectory (d </> "site")
          B.writeFile (d </> "sitemap") ""
          offered ["serve", d </> "si"] >>= (@?= [d </> "site"])
          offered ["json", d </> "si"] >>= (@?= [d </> "site", d </> "sitemap"])
          offered ["find", "/", "-newer", d </> "si"] >>= (@?= [d </> "site", d </> "sitemap"]),
      testCase "find: options and primaries, after other primaries" $ do
        offered ["find", "--o"] >>= (@?= ["--ordered"])
        offered ["find", "-siz"] >>= (@?= ["-size"])
        offered ["find", ".", "-type", "f", "-name", "x", "-print"] >>= (@?= ["-print", "-print0", "-printf"])
        offered ["find", ".", "-type", "f", "-nog"] >>= (@?= ["-nogroup"]),
      testCase "find: every primary of --help" $ do
        Ended _ help _ <- runTool "heddle" ["find", "--help"]
        primaries <- offered ["find", ".", "-"]
        let listed = [name | word <- words (map separator (C.unpack help)), let name = takeWhile (`notElem` (".,;:" :: String)) word, "-" `isPrefixOf` name, length name > 2, name /= "-newerXY"]
        assertBool (show listed) (length listed > 60)
        includes listed primaries,
      testCase "scripts of the three shells name the command" $
        forM_ ["bash", "zsh", "fish"] $ \shell -> do
          Ended code script _ <- runTool "heddle" ["--" ++ shell ++ "-completion-script", "heddle"]
          code @?= ExitSuccess
          assertBool (shell ++ ": " ++ show script) ("--bash-completion-index" `B.isInfixOf` script && "heddle" `B.isInfixOf` script)
    ]
  where
    separator c = if c `elem` ("[]()" :: String) then ' ' else c
    includes wanted got = [word | word <- wanted, word `notElem` got] @?= []

-- What bash offers for the last of these words, in order.
offered :: [String] -> IO [String]
offered typed = do
  ended <- runTool "bash" (["--norc", "--noprofile", "-c", script, "bash", "heddle"] ++ typed)
  endedErr ended @?= ""
  pure (sort (lines (C.unpack (endedOut ended))))
  where
    script = "source <(heddle --bash-completion-script heddle); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _heddle; printf '%s\\n' \"${COMPREPLY[@]}\""
