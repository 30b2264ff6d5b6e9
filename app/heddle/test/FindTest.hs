-- | heddle find as a shell starts it: signals, descriptors, limits; the language itself is tested in heddle-walk.
--
-- A script runs twice, with @$FIND@ being GNU's find and ours, and must do the same.
module FindTest (tests) where

import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as C
import Data.List (nub, stripPrefix)
import Program
import System.Directory (createDirectoryIfMissing)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "heddle find"
    [ testGroup "signals" signals,
      testGroup "descriptors" descriptors,
      testGroup "long command lines" commandLines,
      testGroup "from one thread to many" growing
    ]

signals :: [TestTree]
signals =
  [ testCase "runtimeHandledAnIgnoredInterrupt: trap '' INT" $
      sameAsGnu "trap '' INT; $FIND d -exec sh -c 'kill -INT $PPID; kill -INT $$; echo alive' ';'",
    testCase "an interrupt ends it by that signal" $
      sameAsGnu "$FIND d -exec sh -c 'kill -INT $PPID; while kill -0 $PPID 2>/dev/null; do :; done' ';'; echo $?",
    testCase "runtimeHandledAnIgnoredBrokenPipe: trap '' PIPE is told of the error" $
      sameAsGnu "trap '' PIPE; { $FIND d -printf '%70000p\\n'; echo $? >&2; } | :",
    testCase "a broken pipe ends it by that signal" $
      sameAsGnu "{ $FIND d -printf '%70000p\\n'; echo $? >&2; } | :",
    testCase "childrenLostIgnoredSignals" $
      -- The last 31 signals; the C library's posix_spawn always ignores its own two, 32 and 33.
      forM_ ["", "INT", "PIPE", "QUIT", "TSTP", "INT PIPE QUIT TSTP TERM HUP USR1"] $ \names ->
        sameAsGnu ("trap '' " ++ names ++ "; $FIND d -exec sed -n 's/Sig\\(Blk\\|Ign\\):.*[0-9a-f]\\(.......\\)$/\\1 \\2/p' /proc/self/status ';'"),
    testCase "runtimeHandledAnIgnoredInterrupt: heddle pipe and heddle json" $ do
      -- The second command is ended with heddle; one that prints could do so before that.
      forM_ [("trap '' INT; ", "echo done", "done\n0\n"), ("", "exec sleep 1000", "130\n")] $ \(before, command, expected) -> do
        ended <- script "" (before ++ "heddle pipe 'command \"kill -INT $PPID; " ++ command ++ "\"' </dev/null; echo $?")
        endedOut ended @?= C.pack expected
      -- A shell ignores interrupts in what it starts with an ampersand.
      ended <- script "" "mkfifo f; heddle json --minify <f & p=$!; exec 3>f; echo '[1' >&3; kill -INT $p; echo ']' >&3; exec 3>&-; wait $p; echo $?"
      (endedOut ended, endedErr ended) @?= (C.pack "[1]0\n", ""),
    testCase "runtimeHandledAnIgnoredBrokenPipe: heddle pipe and heddle json" $
      forM_ [("pipe id", "heddle pipe: "), ("json --lines", "heddle json: ")] $ \(what, name) -> do
        quiet <- script "" ("{ yes 1 | heddle " ++ what ++ "; echo $? >&2; } | :")
        endedErr quiet @?= "141\n"
        told <- script "" ("{ yes 1 | (trap '' PIPE; heddle " ++ what ++ "); echo $? >&2; } | :")
        endedErr told @?= name ++ "standard output: broken pipe (EPIPE)\n2\n",
    testCase "eventManagerWasMissing: every command still reads pipes that are slow" $ do
      ended <- script "" "(sleep 0.1; echo 1) | heddle json; (sleep 0.1; echo 2) | heddle pipe upper; (sleep 0.1; printf d) | heddle find -files0-from - -maxdepth 0"
      endedOut ended @?= C.pack "1\n2\nd\n",
    testCase "eventManagerWasMissing: types of file systems" $
      forM_ ["/", "/proc", "/sys", "/dev", "d", "/proc/self"] $ \place ->
        forM_ (["-fprintf /dev/stderr '%F\\n'", "-printf '%p %F\\n'"] ++ typed) $ \expression ->
          sameAsGnu ("$FIND " ++ place ++ " -maxdepth 0 " ++ expression),
    testCase "unreadableMountsWereAnAnswer" $
      forM_ [(o, e) | o <- ["", "-j1", "-j2", "--ordered"], e <- needMounts] $ \(options, expression) -> do
        -- The program's loader needs a descriptor, which -fprint then takes: none is left for the table of mounts.
        let search = unwords ["heddle find", options, "d/e -maxdepth 0 -fprint /dev/null", expression]
        ended <- script "" ("mkdir d/e; (ulimit -n 4; exec 0</dev/null; " ++ search ++ "); echo $?; ls d")
        (search, endedOut ended) @?= (search, C.pack "1\ne\n")
        endedErr ended
          @?= "heddle find: cannot read mounted file system list, /proc/self/mountinfo: Too many open files\n"
  ]
  where
    typed = [sense ++ "-fstype " ++ kind | sense <- ["", "! "], kind <- ["proc", "nosuch"]]
    needMounts =
      ["! -fstype nfs -delete", "-name e -o -fstype nfs", "-delete -fstype nfs"]
        ++ [printing ++ " '%F\\n' -delete" | printing <- ["-printf", "-fprintf /dev/stderr"]]

-- The starting point is read before there is a pool, and what is below it on the pool.
growing :: [TestTree]
growing =
  [ testCase (unwords ("the same as GNU find:" : words options)) $
      forM_ places $ \place -> do
        let search finder more = endedOut <$> script finder (unlines (tree : [command more place expression | expression <- expressions]))
        gnu <- search "find" ""
        ours <- search "heddle find" options
        (place, C.lines ours) @?= (place, C.lines gnu)
    | options <- ["", "-j1", "-j8", "--ordered", "--ordered -j8"]
  ]
  where
    tree = "mkdir -p t/a/b t/c/d/e t/o; touch t/1 t/a/2 t/c/d/3; ln -s c t/l; cd t"
    command options place expression =
      "{ $FIND " ++ options ++ " " ++ place ++ " " ++ expression ++ "; echo \"$?\"; } 2>&1 | sed 's/^heddle //' | sort; echo '" ++ expression ++ "'"
    places = ["", ".", "../t/", "a/b", "o", "1", "none", "l", "-L .", "-H l", ". a", "1 .", "a c", "none ."]
    expressions = ["", "-depth", "-maxdepth 0", "-maxdepth 1", "-mindepth 1", "-name a -prune -o -print", "-type f -exec echo {} ';'", "-depth -mindepth 2 -size -9"]

descriptors :: [TestTree]
descriptors =
  [ testCase "eventManagerTookDescriptors: none but the directory's" $
      forM_ ["", "-j1", "-j3", "--ordered"] $ \options -> do
        -- Some may have been inherited.
        ended <- script "" ("find /proc/self/fd/ -mindepth 1 | wc -l; heddle find " ++ options ++ " /proc/self/fd/ -mindepth 1 | wc -l")
        case map read (words (C.unpack (endedOut ended))) of
          [gnu, ours] -> assertBool (show (gnu, ours)) (ours <= gnu + (1 :: Int))
          _ -> unexpectedNumbers ended,
    testCase "eventManagerTookDescriptors: ulimit -n 8, as GNU find where that can" $
      sameAsGnu "ulimit -n 8; $FIND deep -maxdepth 1; $FIND d -exec echo {} ';' -exec echo {} +",
    testCase "eventManagerTookDescriptors: ulimit -n 8 is enough for any depth, order and number of cores" $ do
      whole <- script "" "heddle find deep | sort"
      assertBool (show whole) (length (C.lines (endedOut whole)) == 61)
      forM_ [n ++ o | n <- ["8", "7", "6"], o <- ["", " -j1", " -j2", " --ordered"]] $ \options -> do
        let (limit, more) = span (/= ' ') options
        ended <- script "" ("ulimit -n " ++ limit ++ "; heddle find" ++ more ++ " deep | sort")
        (options, endedOut ended, endedErr ended) @?= (options, endedOut whole, ""),
    testCase "too few descriptors for a search are an error that says so" $ do
      ended <- script "" "ulimit -n 4; exec 3</dev/null; heddle find deep"
      assertBool (show ended) (endedCode ended /= ExitSuccess)
      contains "Too many open files" (endedErr ended <> C.unpack (endedOut ended)),
    testCase "emptyNameOnStandardInputWasSilent" $
      forM_ ["\\0", "\\0\\0", "d\\0\\0", "\\0d", "d", "d\\0", ""] $ \names ->
        sameAsGnu ("printf '" ++ names ++ "' | $FIND -files0-from - -maxdepth 0"),
    testCase "--help and --version on a full disk" $
      forM_ ["--version", "--help", "find --version", "json --help"] $ \words' -> do
        ended <- script "" ("heddle " ++ words' ++ " >/dev/full")
        assertBool (show ended) (endedCode ended /= ExitSuccess)
        contains "o space left on device" (endedErr ended)
  ]

commandLines :: [TestTree]
commandLines =
  [ testCase "commandLineTooLongLostItsFiles" $
      -- The system counts pointers, too, and the environment. (GNU find reports E2BIG here, and loses most of the files.)
      forM_ ["-exec", "-execdir"] $ \action -> do
        ended <- script "" ("yes d | head -20000 | tr '\\n' '\\0' | (ulimit -s 256; A=$(head -c 100000 /dev/zero | tr '\\0' a); export A; heddle find -files0-from - -maxdepth 0 " ++ action ++ " printf '%s\\n' {} +) | wc -l")
        (endedOut ended, endedErr ended) @?= (C.pack "20000\n", ""),
    testCase "what is too long by itself is an error" $ do
      -- The command's own words leave no room for any file.
      ended <- script "" "ulimit -s 256; A=$(head -c 90000 /dev/zero | tr '\\0' a); heddle find d -exec echo \"$A\" \"$A\" {} + >/dev/null"
      endedCode ended @?= ExitFailure 126
  ]

unexpectedNumbers :: Ended -> Assertion
unexpectedNumbers ended = assertFailure ("two numbers expected: " ++ show ended)

-- | The same output, messages and status from both.
sameAsGnu :: String -> Assertion
sameAsGnu text = do
  gnu <- script "find" text
  ours <- script "heddle find" text
  -- GNU find repeats a message that it writes for each part of its output.
  let summary ended = (endedCode ended, C.unpack (endedOut ended), nub (map renamed (lines (endedErr ended))))
  (text, summary ours) @?= (text, summary gnu)
  where
    renamed line = maybe line ("find" ++) (stripPrefix "heddle find" line)

-- | Run a shell script with this @$FIND@ in a directory with something to find.
script :: String -> String -> IO Ended
script finder text = withDirectory $ \d -> do
  createDirectoryIfMissing True (d </> "d")
  createDirectoryIfMissing True (d </> foldr (</>) "end" ("deep" : replicate 59 "n"))
  runTool "sh" ["-c", unlines ["cd " ++ d, "export LC_ALL=C.UTF-8 FIND='" ++ finder ++ "'", text]]
