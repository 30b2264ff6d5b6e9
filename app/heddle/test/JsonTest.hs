{-# LANGUAGE OverloadedStrings #-}

-- | heddle json as its users meet it: on files and pipes, beside Python and node, and on texts that are wrong.
module JsonTest (tests) where

import Control.Monad (forM_, unless)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Program
import System.Directory (createDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.User (getEffectiveUserID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "heddle json"
    [ testGroup "layout" layout,
      testGroup "what is wrong, and where" wrong,
      testGroup "exit status and messages" endings,
      testGroup "long and deep" long
    ]

layout :: [TestTree]
layout =
  [ testCase "the modes" . withInput "{\"a\": [1, -2.50e+1, \"x y\\n\"],\r\n\"b\" : {}, \"c\":[ ]}\n" $ \_ file -> do
      let indented = "{\n  \"a\": [\n    1,\n    -2.50e+1,\n    \"x y\\n\"\n  ],\n  \"b\": {},\n  \"c\": []\n}\n"
          small = "{\"a\":[1,-2.50e+1,\"x y\\n\"],\"b\":{},\"c\":[]}"
      gives [file] ExitSuccess indented ""
      gives ["--pretty", file] ExitSuccess indented ""
      gives ["--minify", file] ExitSuccess small ""
      gives ["--lines", file] ExitSuccess (small <> "\n") ""
      gives ["--check", file] ExitSuccess "" ""
      gives ["--indent", "0", file] ExitSuccess (C.concat (map (C.dropWhile (== ' ')) (C.lines indented >>= \l -> [l, "\n"]))) ""
      gives ["--minify", file, file] ExitSuccess (small <> "\n" <> small) ""
      gives ["--lines", file, file] ExitSuccess (C.concat [small, "\n", small, "\n"]) ""
      gives [file, file] ExitSuccess (indented <> indented) "",
    testCase "several values" . withInput "{\"a\": 1}\n[2, 3] \"x\"4 true\n\n5" $ \_ file -> do
      gives ["--lines", file] ExitSuccess "{\"a\":1}\n[2,3]\n\"x\"\n4\ntrue\n5\n" ""
      gives ["--check", file] (ExitFailure 1) "" (file ++ ":2:1: there is something after the value; --lines takes any number of values (byte 9)\n"),
    testCase "aBrokenLineEndedTheStream: --keep-going leaves it out" . withInput "{\"a\": 1}\n{\"\195\171\": tru}\n\n [2, 3]\n4 5\n\"x" $ \_ file -> do
      let told = concat [file, ":2:10: expected true (byte 19)\n", file, ":5:3: there is something after the value (byte 32)\n", file, ":6:3: the text ends too early (byte 36)\n"]
      gives ["--lines", "--keep-going", file] (ExitFailure 1) "{\"a\":1}\n[2,3]\n" told
      gives ["--lines", "-k", "--quiet", file] (ExitFailure 1) "{\"a\":1}\n[2,3]\n" ""
      gives ["--check", "-k", file] (ExitFailure 2) "" "heddle json: --keep-going needs --lines\n",
    testCase "checkAndLinesExcludedEachOther" . withInput "{\"a\": 1}\n[2, 3] 4\n" $ \directory file -> do
      gives ["--check", "--lines", file] ExitSuccess "" ""
      gives ["--lines", "--check", file, file] ExitSuccess "" ""
      let told = file ++ ":2:8: there is something after the value (byte 16)\n"
      gives ["--check", "--lines", "-k", file] (ExitFailure 1) "" told
      gives ["-kq", "--lines", "--check", file] (ExitFailure 1) "" ""
      let broken = directory </> "broken"
      C.writeFile broken "1\n[2\n3]"
      gives ["--check", "--lines", broken] (ExitFailure 1) "" (broken ++ ":3:1: expected ',' or ']' (byte 5)\n")
      -- It writes nothing, so its input may be its output.
      ended <- runTool "sh" ["-c", "heddle json --check --lines \"$1\" >> \"$1\"", "sh", file]
      (endedCode ended, endedErr ended) @?= (ExitSuccess, ""),
    testCase "a mode may be given twice" . withInput "[1 ]" $ \_ file -> do
      gives ["--minify", "--minify", file] ExitSuccess "[1]" ""
      gives ["--lines", "--check", "--lines", file] ExitSuccess "" "",
    testCase "modes that exclude each other are named" . withInput "[1]" $ \_ file ->
      forM_
        [ (["--minify", "--pretty"], "--minify", "--pretty"),
          (["--pretty", "--minify"], "--pretty", "--minify"),
          (["--check", "--minify"], "--check", "--minify"),
          (["--pretty", "--check"], "--pretty", "--check"),
          (["--lines", "--pretty"], "--lines", "--pretty"),
          (["--minify", "--lines"], "--minify", "--lines"),
          (["--check", "--lines", "--minify"], "--check", "--minify"),
          (["--lines", "--lines", "--pretty"], "--lines", "--pretty")
        ]
        $ \(modes, one, other) ->
          gives (modes ++ [file]) (ExitFailure 2) "" ("heddle json: " ++ one ++ " and " ++ other ++ " exclude each other\n"),
    testCase "standard input" $ do
      ended <- runTool "sh" ["-c", "echo '[1, 2' | heddle json --check; echo '[1, 2]' | heddle json --minify -"]
      (endedOut ended, endedErr ended) @?= ("[1,2]", "(standard input):2:1: the text ends too early (byte 6)\n"),
    testCase "the manual's example" $ do
      ended <- runTool "sh" ["-c", "printf '{\"name\": \"Zo\\303\\253\",\\n \"age\": 042}' | heddle json --check"]
      page <- B.readFile (".." </> ".." </> "docs" </> "manual" </> "json.md")
      endedCode ended @?= ExitFailure 1
      assertBool (endedErr ended) (C.pack ("| heddle json --check\n" <> endedErr ended) `B.isInfixOf` page),
    testCase "values that can be told apart need no white space between them" $
      forM_
        [ ("1\"a\"[2]", ExitSuccess, "1\n\"a\"\n[2]\n"),
          ("true{}null[]\"x\"1", ExitSuccess, "true\n{}\nnull\n[]\n\"x\"\n1\n"),
          ("\"a\"\"b\"false\"c\"", ExitSuccess, "\"a\"\n\"b\"\nfalse\n\"c\"\n"),
          ("1true", ExitFailure 1, ""),
          ("[]null2", ExitFailure 1, "[]\n"),
          ("truefalse", ExitFailure 1, ""),
          ("1-2", ExitFailure 1, "")
        ]
        $ \(text, code, out) -> withInput text $ \_ file -> do
          ended <- runTool "heddle" ["json", "--lines", file]
          (text, endedCode ended, B.take (B.length out) (endedOut ended)) @?= (text, code, out),
    testCase "no values are lines, too" . withInput " \n" $ \_ file -> do
      gives ["--lines", file] ExitSuccess "" ""
      gives ["--minify", file] (ExitFailure 1) "" (file ++ ":2:1: the text ends too early (byte 2)\n"),
    testCase "as Python's json.dumps" $ script "python3" "-c" pythonLayout,
    testCase "as node's JSON.stringify" $ script "node" "-e" nodeLayout,
    testCase "what comes is passed on at once" $ do
      -- The second value is not written before the first has come out.
      ended <-
        runTool
          "bash"
          [ "-c",
            "coproc P { exec heddle json --lines; }; \
            \echo '[1, 2]' >&${P[1]}; read -r first <&${P[0]}; echo \"got $first\"; \
            \echo '{\"a\": 3}' >&${P[1]}; read -r second <&${P[0]}; echo \"got $second\"; exec {P[1]}>&-; wait"
          ]
      (endedOut ended, endedErr ended) @?= ("got [1,2]\ngot {\"a\":3}\n", "")
  ]

script :: FilePath -> String -> [String] -> Assertion
script program flag' text = do
  ended <- runTool program [flag', unlines text]
  (endedCode ended, endedErr ended, endedOut ended) @?= (ExitSuccess, "", "40 documents\n")

pythonLayout :: [String]
pythonLayout =
  [ "import json, random, subprocess",
    "random.seed(7)",
    "letters = 'abc xyz/\\\\\"\\n\\t\\x01\\x7f\\u00e9\\u20ac\\u3042\\U0001f600[]{},:'",
    "def text(): return ''.join(random.choice(letters) for _ in range(random.choice([0, 1, 5, 30, 200])))",
    "def value(n):",
    "    kind = random.randrange(8 if n > 0 else 5)",
    "    if kind == 0: return random.choice([None, True, False])",
    "    if kind == 1: return random.randrange(-10**random.randrange(1, 30), 10**20)",
    "    if kind == 2: return random.uniform(-1, 1) * 10.0**random.randrange(-300, 300)",
    "    if kind < 5: return text()",
    "    if kind < 7: return [value(n - 1) for _ in range(random.randrange(9))]",
    "    return {text(): value(n - 1) for _ in range(random.randrange(9))}",
    "def heddle(source, *mode):",
    "    return subprocess.run(['heddle', 'json', *mode], input=source.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()",
    "for i in range(40):",
    "    v = value(6)",
    "    source = json.dumps(v, ensure_ascii=False, indent=random.choice([None, 0, 1, 7, '\\t']), separators=random.choice([(',', ':'), (' ,\\r\\n', ' : ')]))",
    "    n = random.randrange(1, 9)",
    "    assert heddle(source, '--minify') == json.dumps(v, ensure_ascii=False, separators=(',', ':')), source",
    "    assert heddle(source, '--pretty', '--indent', str(n)) == json.dumps(v, ensure_ascii=False, indent=n) + '\\n', source",
    "    assert json.loads(heddle(json.dumps(v), '--pretty')) == v",
    "print('40 documents')"
  ]

nodeLayout :: [String]
nodeLayout =
  [ "const { spawnSync } = require('child_process');",
    "let seed = 11;",
    "const below = n => { seed = (seed * 48271) % 2147483647; return seed % n; };",
    "const text = () => Array.from({ length: [0, 1, 5, 30, 200][below(5)] }, () => 'abc xyz/\\\\\"\\n\\t\\x01\\u00e9\\u20ac\\u3042\\u{1f600}'.at(below(14)) ).join('').replace(/[\\ud800-\\udfff]/g, '?');",
    "const value = n => {",
    "  const kind = below(n > 0 ? 8 : 5);",
    "  if (kind == 0) return [null, true, false][below(3)];",
    "  if (kind == 1) return below(1e9) - 5e8;",
    "  if (kind == 2) return below(1e9) / 1e6 * Math.pow(10, below(400) - 200);",
    "  if (kind < 5) return text();",
    "  if (kind < 7) return Array.from({ length: below(9) }, () => value(n - 1));",
    "  return Object.fromEntries(Array.from({ length: below(9) }, () => ['k' + text(), value(n - 1)]));",
    "};",
    "const heddle = (source, ...mode) => spawnSync('heddle', ['json', ...mode], { input: source, maxBuffer: 1e9 }).stdout.toString();",
    "for (let i = 0; i < 40; i++) {",
    "  const v = value(6), source = JSON.stringify(v, null, below(10));",
    "  if (heddle(source, '--minify') !== JSON.stringify(JSON.parse(source))) throw new Error(source);",
    "  if (heddle(source) !== JSON.stringify(JSON.parse(source), null, 2) + '\\n') throw new Error(source);",
    "}",
    "console.log('40 documents');"
  ]

wrong :: [TestTree]
wrong =
  [ testCase name . withInput text $ \_ file -> gives ["--check", file] (ExitFailure 1) "" (file ++ told ++ "\n")
    | (name, text, told) <-
        [ ("nothing", "", ":1:1: the text ends too early (byte 0)"),
          ("cut off", "{\"a\":\n [1, 2", ":2:7: the text ends too early (byte 12)"),
          ("no comma", "[1,\n 2 3]", ":2:4: expected ',' or ']' (byte 7)"),
          ("a comma too many", "[1,]", ":1:4: expected a value (byte 3)"),
          ("a leading zero", "[01]", ":1:3: expected no digit after a leading zero (byte 2)"),
          ("half a number", "[1.]", ":1:4: expected a digit (byte 3)"),
          ("NaN", "[NaN]", ":1:2: expected a value or ']' (byte 1)"),
          ("a comment", "{} // x", ":1:4: there is something after the value; --lines takes any number of values (byte 3)"),
          ("single quotes", "{'a': 1}", ":1:2: expected a key or '}' (byte 1)"),
          ("a bad escape", "[\"\\x\"]", ":1:3: a backslash that does not begin an escape (byte 2)"),
          ("a lone surrogate", "\"\\ud83d\\n\"", ":1:2: half of a surrogate pair (byte 1)"),
          ("a line in a string", "\"a\nb\"", ":1:3: a control character in a string; it has to be escaped (byte 2)"),
          ("a NUL", "[\0]", ":1:2: expected a value or ']' (byte 1)"),
          ("a NUL in a string", "\"\0\"", ":1:2: a control character in a string; it has to be escaped (byte 1)"),
          ("a byte order mark", "\xef\xbb\xbf[]", ":1:1: a byte order mark, which JSON does not have (byte 0)"),
          ("UTF-16", "\xff\xfe[\0]\0", ":1:1: expected a value (byte 0)"),
          ("invalid UTF-8", "[\"\xc3\xa9\xe3\x81\x82\", \"a\xed\xa0\x80\"]", ":1:10: invalid UTF-8 (byte 12)"),
          ("the column counts characters", "[\n\"\xe3\x81\x82\xf0\x9f\x98\x80\xc3\xa9\" x]", ":2:7: expected ',' or ']' (byte 14)")
        ]
  ]
    <> [ testCase "at the border of a block" . forM_ [131060 .. 131080] $ \n ->
           forM_ [("\\ud83dx", "half of a surrogate pair"), ("\xf0\x9f\x98x", "invalid UTF-8"), ("\\u12x4", "a backslash that does not begin an escape")] $ \(bad, reason) -> do
             let text = "[\n\"\xc3\xa9" <> C.replicate n 'a' <> bad <> "\"]"
             withInput text $ \_ file ->
               gives ["--check", file] (ExitFailure 1) "" (concat [file, ":2:", show (n + 3), ": ", reason, " (byte ", show (n + 5), ")\n"]),
         testCase "numbers of any length are numbers" . withInput (C.replicate 3000000 '7' <> "e99999999999999999999") $ \_ file -> do
           gives ["--check", file] ExitSuccess "" ""
           ended <- runTool "heddle" ["json", "--minify", file]
           B.length (endedOut ended) @?= 3000021,
         testCase "what is right is written, up to there" . withInput "[1, 2]\n[3 4]" $ \_ file ->
           gives ["--lines", file] (ExitFailure 1) "[1,2]\n[3" (file ++ ":2:4: expected ',' or ']' (byte 10)\n"),
         testCase "quietly" . withInput "[" $ \_ file -> gives ["--check", "--quiet", file] (ExitFailure 1) "" ""
       ]

endings :: [TestTree]
endings =
  [ testCase "files that cannot be read: the others are" . withInput "[1]" $ \directory file -> do
      createDirectory (directory </> "d")
      let missing = directory </> "missing"
      ended <- runTool "heddle" ["json", "--minify", missing, directory </> "d", file]
      (endedCode ended, endedOut ended) @?= (ExitFailure 2, "[1]")
      contains ("heddle json: " ++ missing ++ ": no such file or directory (ENOENT)") (endedErr ended)
      contains (directory </> "d: is a directory (EISDIR)") (endedErr ended),
    testCase "no permission" . withInput "[1]" $ \_ file -> do
      user <- getEffectiveUserID
      unless (user == 0) $ do
        setFileMode file 0
        ended <- runTool "heddle" ["json", "--check", file]
        endedCode ended @?= ExitFailure 2
        contains "permission denied (EACCES)" (endedErr ended),
    testCase "the worst of several counts" . withDirectory $ \directory -> do
      let file name = directory </> name
      B.writeFile (file "right") "1"
      B.writeFile (file "wrong") "x"
      bad <- runTool "heddle" ["json", "--check", file "wrong", file "right"]
      (endedCode bad, endedErr bad) @?= (ExitFailure 1, file "wrong" ++ ":1:1: expected a value (byte 0)\n")
      worse <- runTool "heddle" ["json", "--check", file "wrong", file "missing", file "right"]
      endedCode worse @?= ExitFailure 2,
    testCase "output that cannot be written" . withInput "[1]" $ \_ file -> do
      ended <- runTool "sh" ["-c", "heddle json \"$1\" > /dev/full", "sh", file]
      endedCode ended @?= ExitFailure 2
      contains "no space left on device (ENOSPC)" (endedErr ended),
    testCase "aMessageThatCouldNotBeWrittenEndedTheCommand" . withInput "1\nx\n2\n" $ \_ file ->
      forM_ ["2>/dev/full", "2>&-"] $ \closed ->
        forM_ [("--lines -k", "1\n2\n1\n"), ("--check", "1\n"), ("--minify", "11\n"), ("--lines --check -k", "1\n"), ("--minify --lines", "2\n")] $ \(mode, out) -> do
          ended <- runTool "sh" ["-c", "heddle json " ++ mode ++ " \"$1\" " ++ closed ++ "; echo $?", "sh", file]
          (mode, closed, endedOut ended) @?= (mode, closed, out),
    testCase "a reader that goes away ends it by SIGPIPE, quietly" $ do
      ended <- runTool "bash" ["-c", "yes '[1, 2]' | heddle json --lines | head -n 1; echo \"${PIPESTATUS[*]}\""]
      (endedOut ended, endedErr ended) @?= ("[1,2]\n141 141 0\n", ""),
    testCase "a file that is also the output" . withInput "[1]\n" $ \_ file -> do
      ended <- runTool "sh" ["-c", "heddle json --lines \"$1\" >> \"$1\"", "sh", file]
      endedCode ended @?= ExitFailure 2
      contains "also the output" (endedErr ended)
      left <- B.readFile file
      left @?= "[1]\n",
    testCase "a closed standard input" $ do
      ended <- runTool "sh" ["-c", "heddle json --check <&-"]
      endedCode ended @?= ExitFailure 2,
    testCase "usage" $ do
      forM_ [["--minify", "--pretty"], ["--indent", "17"], ["--depth", "-1"], ["--depth", "100000001"], ["--indent", "x"], ["--wat"]] $ \arguments -> do
        ended <- runTool "heddle" ("json" : arguments)
        (arguments, endedCode ended, endedOut ended) @?= (arguments, ExitFailure 2, "")
      helped <- runTool "heddle" ["json", "--help"]
      forM_ ["--check", "--minify", "--pretty", "--lines", "--indent", "--depth", "--quiet", "FILE", "Exit codes"] $ \part ->
        contains part (C.unpack (endedOut helped))
  ]

long :: [TestTree]
long =
  [ testCase "200 MB from a pipe, in 40 MB of memory" $
      forM_ ["--check", "--minify", "--lines", "--pretty"] $ \mode -> do
        -- The peak is that of the largest of the processes.
        ended <- runTool "python3" ["-c", unlines peak, mode]
        (endedCode ended, endedErr ended) @?= (ExitSuccess, "")
        case C.words (endedOut ended) of
          [code, bytes, kilobytes] ->
            assertBool (show (mode, endedOut ended)) (code == "0" && right mode (number bytes) && number kilobytes < 40960)
          _ -> assertBool (show (mode, endedOut ended)) False,
    testCase "a million levels" $ do
      ended <- runTool "sh" ["-c", "head -c 1000000 /dev/zero | tr '\\0' '[' | heddle json --check; echo $?"]
      (endedOut ended, endedErr ended) @?= ("1\n", "(standard input):1:1025: nested more than 1024 levels deep; --depth sets the limit (byte 1024)\n")
      deeper <- runTool "sh" ["-c", "head -c 1000000 /dev/zero | tr '\\0' '[' | heddle json --check --depth 1000000; echo $?"]
      (endedOut deeper, endedErr deeper) @?= ("1\n", "(standard input):1:1000001: the text ends too early (byte 1000000)\n")
      closed <- runTool "sh" ["-c", "(head -c 1000000 /dev/zero | tr '\\0' '['; head -c 1000000 /dev/zero | tr '\\0' ']') | heddle json --minify --depth 1000000 | wc -c"]
      (endedOut closed, endedErr closed) @?= ("2000000\n", ""),
    testCase "one string of 100 MB" $ do
      ended <- runTool "sh" ["-c", "(printf '\"'; head -c 100000000 /dev/zero | tr '\\0' a; printf '\"') | heddle json --minify +RTS -M16m | wc -c"]
      (endedOut ended, endedErr ended) @?= ("100000002\n", "")
  ]
  where
    number = maybe (-1 :: Int) fst . C.readInt
    right :: String -> Int -> Bool
    right mode bytes = case mode of
      "--check" -> bytes == 0
      "--minify" -> bytes == 8000000 * 20 + 3
      "--lines" -> bytes == 8000000 * 20 + 4
      _ -> bytes > 200000000
    peak =
      [ "import resource, subprocess, sys",
        "source = \"(printf '['; yes '{\\\"a\\\": [1, 2, \\\"three\\\"]},' | head -c 192000000; printf '1]')\"",
        "done = subprocess.run(['bash', '-c', source + ' | heddle json ' + sys.argv[1] + ' | wc -c; exit ${PIPESTATUS[1]}'], stdout=subprocess.PIPE)",
        "print(done.returncode, int(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
      ]

withInput :: B.ByteString -> (FilePath -> FilePath -> Assertion) -> Assertion
withInput text use = withDirectory $ \directory -> do
  let file = directory </> "input.json"
  B.writeFile file text
  use directory file

gives :: [String] -> ExitCode -> B.ByteString -> String -> Assertion
gives arguments code out err = do
  ended <- runTool "heddle" ("json" : arguments)
  (endedCode ended, endedOut ended, endedErr ended) @?= (code, out, err)
