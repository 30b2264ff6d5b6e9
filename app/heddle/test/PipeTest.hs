{-# LANGUAGE OverloadedStrings #-}

-- | heddle pipe as its users meet it: beside grep and other programs, on files, pipes and
-- things that fail.
module PipeTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "heddle pipe"
    [ testGroup "the same as other programs" asOthers,
      testGroup "the manual's examples" manual,
      testGroup "exit status and messages" endings,
      testGroup "grep's habits" habits,
      testGroup "long streams" long
    ]

-- A log of some megabytes, with empty lines, and no newline at the end.
logText :: B.ByteString
logText = C.intercalate "\n" (map line [1 .. 80000 :: Int])
  where
    line n
      | n == 80000 = "the end"
      | n `mod` 97 == 0 = ""
      | otherwise =
        C.unwords
          [ "10.0." <> number (n `mod` 251) <> ".7",
            "[" <> number (n * 7919 `mod` 86400) <> "]",
            if n `mod` 3 == 0 then "\"POST /form\"" else "\"GET /a/" <> number (n `mod` 1009) <> ".html\"",
            if n `mod` 11 == 0 then "500" else "200",
            if n `mod` 7919 == 0 then "please FIND ME now" else "-",
            C.replicate (n `mod` 80) 'x'
          ]
    number = C.pack . show

withLog :: (FilePath -> FilePath -> Assertion) -> Assertion
withLog use = withDirectory $ \directory -> do
  let file = directory </> "access.log"
  B.writeFile file logText
  use directory file

-- The expression on the log, on one core and on two, and from a pipe: what the shell's command gives.
same :: String -> String -> String -> TestTree
same name expression command = testCase name . withLog $ \_ file -> do
  expected <- runTool "sh" ["-c", command, "sh", file]
  forM_ [["-j", "1"], ["-j", "2"], ["-j", "3"]] $ \jobs -> do
    ended <- runTool "heddle" (["pipe"] ++ jobs ++ [expression, file])
    (jobs, endedErr ended, endedOut ended == endedOut expected) @?= (jobs, "", True)
  piped <- runTool "sh" ["-c", "cat \"$2\" | \"$0\" pipe \"$1\"", "heddle", expression, file]
  (endedErr piped, endedOut piped == endedOut expected) @?= ("", True)

asOthers :: [TestTree]
asOthers =
  [ same "grep -F" "select row having \"FIND ME\"" "grep -F 'FIND ME' \"$1\"",
    same "grep -F -n" "select row having \"FIND ME\" numbered" "grep -F -n 'FIND ME' \"$1\"",
    same "grep -F -c" "count row having \"GET\"" "grep -F -c GET \"$1\"",
    same "grep -v -n" "select not row having \"GET\" numbered" "grep -v -n GET \"$1\" | head -c -1",
    same "grep -v -c" "count not row having \"GET\"" "grep -v -c GET \"$1\"",
    same "grep -i" "select row having \"find me\"i" "grep -i 'find me' \"$1\"",
    same "grep -E" "select row having /GET .a.(1|2)[0-9]+\\.html/" "grep -E 'GET .a.(1|2)[0-9]+\\.html' \"$1\"",
    same "grep of empty lines" "count row having /^$/" "grep -c '^$' \"$1\"",
    same "grep of one text or the other" "select row having (\"FIND ME\" or \" 500 \")" "grep -e 'FIND ME' -e ' 500 ' \"$1\"",
    same "grep twice" "select row having \"GET\" and row having \" 500 \" | count" "grep GET \"$1\" | grep -c ' 500 '",
    same "sed" "replace \"GET\" with \"get it\"" "sed 's/GET/get it/g' \"$1\"",
    same "tr" "upper" "tr a-z A-Z < \"$1\"",
    same "wc -w" "count word" "wc -w < \"$1\"",
    same "head" "head 7" "head -n 7 \"$1\"",
    same "tail" "tail 7" "tail -n 7 \"$1\"",
    testCase "tail: how many, files without a last newline, rows over blocks, several files" tails,
    same "cut" "fields 2,1 by \" \"" "awk -F ' ' '{ if (NF > 1) print $2 \" \" $1; else print }' \"$1\" | head -c -1",
    same "nl" "number \"\\t\"" "awk '{ print NR \"\\t\" $0 }' \"$1\" | head -c -1",
    same "sort" "command \"sort\" || head 20" "sort \"$1\" | head -n 20",
    same "cat" "id" "cat \"$1\""
  ]

-- Each list of files as one stream: by name, by standard input and from a pipe.
tails :: Assertion
tails = withDirectory $ \directory -> do
  let file name = directory </> name
      rows n = C.unlines (map (C.pack . show) [1 .. n :: Int])
      row n = C.replicate n 'x'
  forM_
    [ ("empty", ""),
      ("few", "a\nb\nc"),
      ("newlines", C.replicate 200000 '\n'),
      ("rows", rows 100000),
      ("open", rows 100000 <> "the end"),
      ("block", row 65535 <> "\n" <> row 65535 <> "\n"),
      ("around", C.concat [row (n `div` 2) <> "\n" | n <- [131068 .. 131078]]),
      ("huge", "a\n" <> row 300000 <> "\nb\n" <> row 300000),
      ("single", row 300000)
    ]
    (uncurry (B.writeFile . file))
  forM_ [[name] | name <- ["empty", "newlines", "rows", "open", "block", "around", "huge"]] $ \names ->
    compared (map file names)
  forM_ [["open", "rows"], ["single", "single", "few"], ["huge", "block", "empty"]] $ \names ->
    compared (map file names)
  where
    compared files = forM_ [0, 1, 2, 4, 70000, 100001 :: Int] $ \n -> do
      let count = show n
      expected <- runTool "sh" (["-c", "n=$1; shift; cat \"$@\" | tail -n \"$n\"", "sh", count] ++ files)
      forM_
        [ "n=$1; shift; heddle pipe \"tail $n\" \"$@\"",
          "n=$1; shift; cat \"$@\" | heddle pipe \"tail $n\"",
          "n=$1; f=$2; shift 2; heddle pipe \"tail $n\" - \"$@\" < \"$f\"",
          "n=$1; shift; heddle pipe \"foreach row then upper end | tail $n | lower\" \"$@\""
        ]
        $ \command -> do
          ended <- runTool "sh" (["-c", command, "sh", count] ++ files)
          (command, count, files, endedErr ended, endedOut ended == endedOut expected) @?= (command, count, files, "", True)

manual :: [TestTree]
manual =
  [ gives "the article's grep" "foreach line having \"FIND ME\" then append \"\\n\" else suppress end" text "FIND ME\nno, FIND ME\n",
    gives
      "the article's grep -n"
      "zip (numbers | foreach line then append \": \" end, id) | select row having /^[0-9]+: .*FIND ME/"
      text
      "2: FIND ME\n4: no, FIND ME",
    gives "with rows" "select row having \"FIND ME\"" text "FIND ME\nno, FIND ME",
    gives "with numbered rows" "select row having \"FIND ME\" numbered \": \"" text "2: FIND ME\n4: no, FIND ME",
    testCase "--explain" $ do
      ended <- runTool "heddle" ["pipe", "--explain", "-j", "1", "select not not row having /FIND ME/ | count row"]
      endedCode ended @?= ExitSuccess
      page <- B.readFile (".." </> ".." </> "docs" </> "manual" </> "pipe.md")
      assertBool (C.unpack (endedOut ended)) (endedOut ended `B.isInfixOf` page),
    testCase "the error" $ do
      ended <- runTool "heddle" ["pipe", "select row havng \"x\""]
      endedCode ended @?= ExitFailure 2
      page <- B.readFile (".." </> ".." </> "docs" </> "manual" </> "pipe.md")
      assertBool (endedErr ended) (C.pack (endedErr ended) `B.isInfixOf` page)
  ]
  where
    text = "one\nFIND ME\n\nno, FIND ME"

gives :: String -> String -> B.ByteString -> B.ByteString -> TestTree
gives name expression input expected = testCase name . withDirectory $ \directory -> do
  B.writeFile (directory </> "input.txt") input
  ended <- runTool "heddle" ["pipe", expression, directory </> "input.txt"]
  (endedOut ended, endedErr ended) @?= (expected, "")

endings :: [TestTree]
endings =
  [ testCase "something, nothing, a count of 0" . withInput "a\nb\n" $ \_ file -> do
      ends' ["select row having \"a\"", file] ExitSuccess "a\n" ""
      ends' ["select row having \"x\"", file] (ExitFailure 1) "" ""
      ends' ["count row having \"x\"", file] (ExitFailure 1) "0\n" ""
      ends' ["count row having \"a\"", file] ExitSuccess "1\n" "",
    testCase "a malformed expression: its place, what was expected" $ do
      ended <- runTool "heddle" ["pipe", "if row id end"]
      endedCode ended @?= ExitFailure 2
      endedOut ended @?= ""
      contains "column 8: expected " (endedErr ended)
      contains "'then'" (endedErr ended)
      contains "\n  if row id end\n         ^\n" (endedErr ended),
    testCase "a malformed regular expression" $ do
      ended <- runTool "heddle" ["pipe", "select row having /a(/"]
      endedCode ended @?= ExitFailure 2
      contains "regular expression is malformed" (endedErr ended),
    testCase "no expression" $ do
      ended <- runTool "heddle" ["pipe"]
      endedCode ended @?= ExitFailure 2
      contains "--language" (endedErr ended),
    testCase "unreadable files: the others are read" . withInput "a\n" $ \directory file -> do
      createDirectory (directory </> "d")
      let missing = directory </> "missing"
      ended <- runTool "heddle" ["pipe", "id", missing, directory </> "d", file]
      (endedCode ended, endedOut ended) @?= (ExitFailure 2, "a\n")
      contains ("heddle pipe: " ++ missing ++ ": no such file or directory (ENOENT)") (endedErr ended)
      contains (directory </> "d: is a directory (EISDIR)") (endedErr ended),
    testCase "a command that fails is named" . withInput "a\n" $ \_ file -> do
      ends' ["command \"exit 3\"", file] (ExitFailure 2) "" "heddle pipe: stage command \"exit 3\" failed: exit status 3\n"
      ends' ["foreach row then command \"exit 4\" end", file] (ExitFailure 2) "" "heddle pipe: stage command \"exit 4\" failed: exit status 4\n",
    testCase "commandsOutlivedTheProgram: a signal ends them, and what they have started" $
      forM_ ["TERM", "HUP"] $ \name ->
        forM_
          [ "command \"echo > f; sleep 300; true\"",
            "foreach everything then command \"(sleep 300; true) & (sh -c 'sleep 300; true'); true\" end | id",
            "concat (command \"sleep 300; true\" || upper, command \"cat > g; sleep 300\")"
          ]
          $ \expression -> withDirectory $ \directory -> do
            -- A program that is left has the test's standard error open, which then does not end.
            ended <-
              runTool
                "bash"
                [ "-c",
                  "cd \"$2\"; mkfifo f; exec 3>&2 2>/dev/null; heddle pipe \"$0\" 2>&3 < <(echo a; case $0 in command*) ;; *) echo > f;; esac) & h=$!; read -r _ < f; kill -\"$1\" $h; wait $h; echo $?",
                  expression,
                  name,
                  directory
                ]
            (expression, endedErr ended, endedOut ended) @?= (expression, "", if name == "TERM" then "143\n" else "129\n"),
    testCase "a row that is too long" . withInput (C.replicate 5000 'x') $ \_ file -> do
      ended <- runTool "heddle" ["pipe", "--longest", "1K", "tail 1", file]
      endedCode ended @?= ExitFailure 2
      contains "--longest" (endedErr ended),
    testCase "output that cannot be written" . withInput "a\n" $ \_ file -> do
      ended <- runTool "sh" ["-c", "heddle pipe id \"$1\" > /dev/full", "sh", file]
      endedCode ended @?= ExitFailure 2
      contains "standard output" (endedErr ended)
      contains "no space left on device (ENOSPC)" (endedErr ended),
    testCase "aMessageThatCouldNotBeWrittenEndedTheCommand" . withInput "a\nb\n" $ \directory file -> do
      let says command code out = do
            ended <- runTool "sh" ["-c", command ++ "; echo $?", "sh", directory </> "missing", file]
            (command, endedOut ended) @?= (command, out <> C.pack (show (code :: Int)) <> "\n")
      forM_ ["2>/dev/full", "2>&-"] $ \closed -> do
        says ("heddle pipe id \"$1\" \"$2\" " ++ closed) 2 "a\nb\n"
        says ("heddle pipe nonsense " ++ closed) 2 ""
        says ("heddle pipe " ++ closed) 2 ""
        says ("heddle pipe 'command \"exit 3\"' \"$2\" " ++ closed) 2 ""
        says ("heddle trace \"$1\" " ++ closed) 2 ""
        says ("heddle find \"$1\" \"$2\" -printf '%f\\n' " ++ closed) 1 "input.txt\n"
        says ("heddle serve \"$1\" " ++ closed) 2 ""
        says ("heddle controller --listen 192.0.2.1:1 " ++ closed) 2 "",
    testCase "a closed standard input" $ do
      ended <- runTool "sh" ["-c", "heddle pipe count <&-"]
      endedCode ended @?= ExitFailure 2,
    testCase "--help and --language" $ do
      helped <- runTool "heddle" ["pipe", "--help"]
      forM_ ["EXPR", "--explain", "--jobs", "--with-filename", "--text", "--longest", "--file", "Exit codes"] $ \part ->
        contains part (C.unpack (endedOut helped))
      summary <- runTool "heddle" ["pipe", "--language"]
      forM_ ["foreach S then A", "S having T", "command"] $ \part -> contains part (C.unpack (endedOut summary))
  ]

habits :: [TestTree]
habits =
  [ testCase "a reader that goes away ends it by SIGPIPE, quietly" $ do
      ended <- runTool "bash" ["-c", "yes | heddle pipe upper | head -n 1; echo \"${PIPESTATUS[*]}\""]
      endedErr ended @?= ""
      endedOut ended @?= "Y\n141 141 0\n",
    testCase "it stops reading when nothing more is wanted" $ do
      ended <- runTool "bash" ["-c", "yes | heddle pipe 'head 2'; echo \"${PIPESTATUS[*]}\""]
      (endedOut ended, endedErr ended) @?= ("y\ny\n141 0\n", ""),
    testCase "tail reads no more of a file than its last rows" . withDirectory $ \directory -> do
      -- Reading all of 8 TiB takes hours, and its first row is longer than may be kept.
      let sparse = directory </> "sparse"
      made <- runTool "sh" ["-c", "truncate -s 8T \"$1\" && printf 'x\\na\\nb\\n' >> \"$1\"", "sh", sparse]
      endedCode made @?= ExitSuccess
      ended <- runTool "timeout" ["60", "heddle", "pipe", "tail 2 | upper", sparse]
      (endedOut ended, endedErr ended) @?= ("A\nB\n", "")
      counted <- runTool "sh" ["-c", "timeout 60 heddle pipe 'tail 2 || count' < \"$1\"", "sh", sparse]
      (endedOut counted, endedErr counted) @?= ("2\n", ""),
    testCase "tail of a file that grows" . withInput (C.unlines (replicate 50000 "a row")) $ \_ file -> do
      ended <- runTool "bash" ["-c", "(while :; do echo 'a row' >> \"$1\" || exit; done) & p=$!; for i in 1 2 3 4 5 6 7 8; do heddle pipe 'tail 3 | count' \"$1\" || exit 1; done; kill $p; wait", "bash", file]
      (endedOut ended, endedErr ended) @?= (C.concat (replicate 8 "3\n"), ""),
    testCase "what comes is passed on at once" $ do
      -- The second row is not written before the first has come out.
      ended <-
        runTool
          "bash"
          [ "-c",
            "coproc P { exec heddle pipe 'select not row having \"x\" | number'; }; \
            \echo a >&${P[1]}; read -r first <&${P[0]}; echo \"got $first\"; \
            \echo b >&${P[1]}; read -r second <&${P[0]}; echo \"got $second\"; exec {P[1]}>&-; wait"
          ]
      (endedOut ended, endedErr ended) @?= ("got 1:a\ngot 2:b\n", ""),
    testCase "binary files" . withInput "GET a\nGET \0b\n" $ \_ file -> do
      ends' ["select row having \"GET\"", file] ExitSuccess ("heddle pipe: " <> C.pack file <> ": binary file matches\n") ""
      ends' ["-a", "select row having \"GET\"", file] ExitSuccess "GET a\nGET \0b\n" ""
      ends' ["select row having \"POST\"", file] (ExitFailure 1) "" ""
      ends' ["count row having \"GET\"", file] ExitSuccess "2\n" ""
      ends' ["upper", file] ExitSuccess "GET A\nGET \0B\n" "",
    testCase "several files are one stream" . withDirectory $ \directory -> do
      let file name = directory </> name
      B.writeFile (file "1") "a\nb"
      B.writeFile (file "2") "c\nd\n"
      B.writeFile (file "3") ""
      B.writeFile (file "4") "e"
      let files = map file ["1", "2", "3", "4"]
      ends' ("select row having (letters) numbered" : files) ExitSuccess "1:a\n2:bc\n3:d\n4:e" ""
      ends' ("id" : files) ExitSuccess "a\nbc\nd\ne" "",
    testCase "-H" . withDirectory $ \directory -> do
      B.writeFile (directory </> "1") "a\nb\n"
      B.writeFile (directory </> "2") "a\n"
      ended <- runTool "sh" ["-c", "cd \"$1\" && heddle pipe -H 'select row having \"a\" numbered' 1 2", "sh", directory]
      endedOut ended @?= "1:1:a\n2:1:a\n",
    testCase "namesGluedFilesAndLostTheStatus: -H" . withDirectory $ \directory -> do
      B.writeFile (directory </> "1") "a"
      B.writeFile (directory </> "2") "b\n"
      B.writeFile (directory </> "3") ""
      let named arguments code out = do
            ended <- runTool "sh" (["-c", "cd \"$1\"; shift; heddle pipe -H \"$@\"; echo $?", "sh", directory] ++ arguments)
            (arguments, endedOut ended, endedErr ended) @?= (arguments, out <> C.pack (show (code :: Int)) <> "\n", "")
      named ["select row having /./", "1", "2"] 0 "1:a\n2:b\n"
      named ["select row having /./", "1", "3", "1", "2"] 0 "1:a\n1:a\n2:b\n"
      named ["select row having /./", "2", "1"] 0 "2:b\n1:a"
      named ["select \"a\"", "1", "3", "2", "1"] 0 "1:a\n1:a"
      named ["count row having \"zz\"", "1", "2"] 1 "1:0\n2:0\n"
      named ["count row having \"zz\"", "3"] 1 "3:0\n"
      named ["count row having \"b\"", "1", "2"] 0 "1:0\n2:1\n"
      named ["count row having \"b\"", "2", "1"] 0 "2:1\n1:0\n"
      named ["select row having \"zz\"", "1", "2"] 1 ""
      named ["instead \"0\\n0\\n\"", "1"] 0 "1:0\n1:0\n",
    testCase "-f" . withInput "a\nb\n" $ \directory file -> do
      B.writeFile (directory </> "expr") "# rows\nselect row\n  having \"b\"  # these\n"
      ends' ["-f", directory </> "expr", file] ExitSuccess "b\n" "",
    testCase "a file that is also the output" . withInput "a\n" $ \_ file -> do
      ended <- runTool "sh" ["-c", "heddle pipe id \"$1\" >> \"$1\"", "sh", file]
      endedCode ended @?= ExitFailure 2
      contains "also the output" (endedErr ended)
      left <- B.readFile file
      left @?= "a\n",
    testCase "bytes of any locale" . withInput "gr\xc3\xbc\xc3\x9f\&e\n\xff\xfe\n" $ \_ file -> do
      utf8 <- runTool "sh" ["-c", "LC_ALL=C.UTF-8 heddle pipe 'select row having \"gr\xfc\xdf\&e\"' \"$1\"", "sh", file]
      endedOut utf8 @?= "gr\xc3\xbc\xc3\x9f\&e\n"
      ends' ["count row having non-ascii", file] ExitSuccess "2\n" ""
  ]

long :: [TestTree]
long =
  [ testCase "60 MB from a pipe in a heap of 16 MiB" $ do
      ended <- runTool "sh" ["-c", "yes 'some words in a row' | head -c 60000000 | heddle pipe +RTS -M16m -RTS 'select row having \"words\" | number | command \"cat\" || count word'"]
      (endedErr ended, endedOut ended) @?= ("", "15000000\n"),
    testCase "smallPiecesWereKeptAsObjects: the heap of two workers does not grow with the file, whatever the stage" . withDirectory $ \directory -> do
      let file = directory </> "rows"
      B.writeFile file (C.concat (replicate 400000 "ok a1\n22 Error B\nx\n\n-- é --\n"))
      forM_
        [ "id",
          "upper",
          "fields 2",
          "fields 2,1 by \" \" with \"<->\"",
          "select row having \"o\"",
          "select not row having \"Error\"",
          "select row having \"Error\" numbered",
          "select row having /[0-9]/ | upper",
          "select \"o\"",
          "foreach row then prepend \"> \" end",
          "foreach row then append \"a text that is longer than the rows are\\n\" end",
          "foreach row having \"Error\" then upper else prepend \"-\" end",
          "if row having \"Error\" then upper else lower end",
          "replace \"o\" with \"0000\"",
          "foreach row then prepend \"> \" end | tail 100",
          "foreach row then prepend \"> \" end || upper",
          "foreach row then prepend \"> \" end | command \"cat\"",
          "concat (head 1, select \"Error\")",
          "zip (numbers, foreach row then prepend \"> \" end)",
          "select word"
        ]
        $ \expression -> do
          one <- runTool "bash" ["-c", "heddle pipe -j 1 \"$0\" \"$1\" | md5sum", expression, file]
          two <- runTool "bash" ["-c", "set -o pipefail; heddle pipe -j 2 +RTS -M40m -RTS \"$0\" \"$1\" | md5sum", expression, file]
          (expression, endedErr two, endedCode two, endedOut two) @?= (expression, "", ExitSuccess, endedOut one),
    testCase "a row of 100 MB" $ do
      ended <- runTool "sh" ["-c", "head -c 100000000 /dev/zero | heddle pipe 'count row having \"x\"'; head -c 100000000 /dev/zero | heddle pipe 'count everything'"]
      (endedErr ended, endedOut ended) @?= ("", "0\n1\n")
  ]

withInput :: B.ByteString -> (FilePath -> FilePath -> Assertion) -> Assertion
withInput text use = withDirectory $ \directory -> do
  let file = directory </> "input.txt"
  B.writeFile file text
  use directory file

ends' :: [String] -> ExitCode -> B.ByteString -> String -> Assertion
ends' arguments code out err = do
  ended <- runTool "heddle" ("pipe" : arguments)
  (endedCode ended, endedOut ended, endedErr ended) @?= (code, out, err)
