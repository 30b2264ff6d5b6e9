{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : GoldenTest
-- Description : The same answers as GNU find
--
-- Every line of the table is run by both on one tree; output and messages are compared
-- line by line in any order, and the status. What has no counterpart there (order, first
-- match, jobs) is checked against GNU's output in the order we promise.
module GoldenTest
  ( goldenTests,
  )
where

import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.List (nub, sortOn)
import Oracle
import System.Directory (doesPathExist, removePathForcibly)
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.Posix.Process (getProcessID)
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup, withResource)
import Test.Tasty.HUnit (assertBool, assertEqual, assertFailure, testCase)

-- | All of them, on one tree.
goldenTests :: TestTree
goldenTests = withResource prepared removePathForcibly $ \tree ->
  testGroup
    "as GNU find"
    [ testCase "table" $ tree >>= \t -> forM_ table (agree t),
      testCase "table, in the C locale" $ tree >>= \t -> forM_ (everyThird table) (agreeUnder [("LC_ALL", "C")] t),
      testCase "table, one job" $ tree >>= \t -> forM_ (everyThird (drop 1 table)) (oneJob t),
      testCase "table, in another time zone" $
        tree >>= \t ->
          forM_ [row | row <- table, any (elem '%') row] (agreeUnder [("TZ", "Asia/Kolkata")] t),
      testCase "linksInACircleWereErrors" $ tree >>= linksInACircle,
      testCase "ownersWithBigNumbersWereRefused" $ tree >>= bigOwners,
      testCase "POSIXLY_CORRECT" $ tree >>= \t -> agreeUnder [("POSIXLY_CORRECT", "1")] t [".", "-ls"],
      testCase "names that are not UTF-8" $ tree >>= \t -> forM_ foreignNames (agree t),
      testCase "starting points from a file" $ tree >>= \t -> forM_ fromFiles (agree t),
      testCase "output files" $ tree >>= outputFiles,
      testCase "answers to -ok" $ tree >>= answers,
      testCase "batches hold the same arguments" $ tree >>= batches,
      testCase "delete" deletes,
      testCase "sorted order" $ tree >>= sortedOrder,
      testCase "first match" $ tree >>= firstMatch,
      testCase "quit" $ tree >>= quits,
      testCase "a reader that leaves" $ tree >>= brokenPipe,
      testCase "a full disk" $ tree >>= fullDisk,
      testCase "help and version" $ tree >>= helps
    ]

-- As findutils 4.10 does it, whatever the machine has.
linksInACircle :: FilePath -> IO ()
linksInACircle tree = forM_ [("l", ["./broken", "./loop"]), ("f", ["./l"]), ("d", ["./ld"])] $ \(kind, expected) -> do
  ours <- runTool [] "" tree Ours [".", "-maxdepth", "1", "-type", "l", "-xtype", kind]
  assertEqual kind (expected, "", ExitSuccess) (map Char8.unpack (linesOf (outcomeOutput ours)), outcomeErrors ours, outcomeStatus ours)

bigOwners :: FilePath -> IO ()
bigOwners tree = forM_ [(o, n) | o <- ["-user", "-group"], n <- ["2147483648", "4294967295", "+4294967295", "+0"]] $ \(owner, name) -> do
  ours <- runTool [] "" tree Ours [".", "-maxdepth", "0", "!", owner, name]
  assertEqual
    (owner ++ name)
    (["." | name /= "+0"], "", ExitSuccess)
    (linesOf (outcomeOutput ours), outcomeErrors ours, outcomeStatus ours)

-- Both read everything once, so that times of access no longer change.
prepared :: IO FilePath
prepared = do
  tree <- makeFixture
  forM_ [1 :: Int, 2] $ \_ -> do
    void (runTool [] "" tree Gnu [".", "-printf", "%l%a", "-type", "f", "-exec", "cat", "{}", "+"])
    void (runTool [] "" tree Gnu ["-L", ".", "-ls"])
  pure tree

everyThird :: [a] -> [a]
everyThird = \case
  x : rest -> x : everyThird (drop 2 rest)
  [] -> []

oneJob :: FilePath -> [String] -> IO ()
oneJob tree row =
  meansTheSame row >>= \means -> when means $ do
    gnu <- runTool [] "" tree Gnu row
    ours <- runTool [] "" tree Ours ("-j1" : row)
    assertEqual (show row) (linesOf (outcomeOutput gnu), outcomeStatus gnu) (linesOf (outcomeOutput ours), outcomeStatus ours)

foreignNames :: [[String]]
foreignNames =
  [ [".", "-name", "\255*"],
    [".", "-name", "?.txt"],
    [".", "-name", "*\255*"],
    [".", "-name", "*\169.txt"],
    [".", "-name", "\195\169.txt"],
    [".", "-iname", "\195\137.TXT"],
    [".", "-name", "[\195\169]*"],
    [".", "-path", "./\255.txt"],
    [".", "-regex", "./..txt"],
    [".", "-regex", "./\255.txt"],
    ["\255.txt", "-printf", "%f|%p|%5f|\n"],
    ["\255nope"],
    ["no\npe", "no'pe", "no\226\128\153pe", "no\\pe\t\SOH", "\226\130\172"],
    [".", "-name", "sp*", "-ls"],
    [".", "-fprint", "\255/x"]
  ]

fromFiles :: [[String]]
fromFiles =
  [ ["-files0-from", "starts"],
    ["-files0-from", "starts", "-maxdepth", "0", "-type", "f"],
    ["-files0-from", "nonexistent"],
    ["-files0-from", "d"],
    ["-files0-from", "empty/.."],
    [".", "-files0-from", "starts"],
    ["-files0-from", "-", "-ok", "true", ";"],
    ["-files0-from", "-"]
  ]

outputFiles :: FilePath -> IO ()
outputFiles tree = do
  pid <- getProcessID
  let file i = "/tmp/heddle-find-" ++ show pid ++ "-o" ++ show (i :: Int)
      expression =
        [".", "-name", "a*", "-fprint", file 1, "-fprint0", file 2]
          ++ ["-fprintf", file 1, "x%p %s\n", "-fls", file 3, "-o", "-fprint", "/dev/stdout"]
          ++ ["-fprintf", "/dev/stderr", "E%p\n", "-false", "-fprint", file 4]
      files = map file [1 .. 4]
      look tool more = do
        mapM_ removePathForcibly files
        outcome <- runTool [] "" tree tool (more ++ expression)
        contents <- mapM (fmap linesOf . Char8.readFile) files
        pure (linesOf (outcomeOutput outcome), linesOf (outcomeErrors outcome), outcomeStatus outcome, contents)
  gnu <- look Gnu []
  forM_ [[], ["--ordered"], ["-j1"]] $ \more -> look Ours more >>= assertEqual (show more) gnu
  mapM_ removePathForcibly files

answers :: FilePath -> IO ()
answers tree = forM_ [["-ok", "echo", "{}", ";"], ["-okdir", "echo", "{}", ";", "-print"], ["-ok", "nonexistent", ";", "-print"]] $ \expression -> do
  let row = ["a", "d/b", "old", "new", "su"] ++ expression
  gnu <- runTool [] "y\nn\nYes\n\n" tree Gnu row
  ours <- runTool [] "y\nn\nYes\n\n" tree Ours row
  assertEqual (show row) gnu ours

batches :: FilePath -> IO ()
batches tree = forM_ ["-exec", "-execdir"] $ \primary -> do
  let row = [".", primary, "sh", "-c", "for i; do echo \"$i\"; done", "sh", "{}", "+"]
  gnu <- runTool [] "" tree Gnu row
  forM_ [[], ["-j1"], ["--ordered"]] $ \more -> do
    ours <- runTool [] "" tree Ours (more ++ row)
    assertEqual (show (more ++ row)) (linesOf (outcomeOutput gnu)) (linesOf (outcomeOutput ours))
  -- How often a batch in a directory is run depends on the order of the walk.
  forM_ [["false"], ["nonexistent"], ["sh", "-c", "kill -9 $$"]] $ \command -> do
    let bad = [".", "-execdir"] ++ command ++ ["{}", "+"]
        summary o = (nub (linesOf (outcomeErrors o)), outcomeStatus o)
    agree tree ([".", "-exec"] ++ command ++ ["{}", "+"])
    expected <- runTool [] "" tree Gnu bad
    actual <- runTool [] "" tree Ours bad
    assertEqual (show bad) (summary expected) (summary actual)

deletes :: IO ()
deletes = forM_ rows $ \row -> do
  (gnu, theirRest) <- afterwards Gnu row
  (ours, ourRest) <- afterwards Ours row
  (theirMessages, ourMessages) <- messages row gnu ours
  let summary outcome said rest = (linesOf (outcomeOutput outcome), said, outcomeStatus outcome, rest)
  assertEqual (show row) (summary gnu theirMessages theirRest) (summary ours ourMessages ourRest)
  where
    rows =
      [ [".", "-delete"],
        [".", "-name", "a*", "-delete"],
        [".", "-type", "l", "-print", "-delete"],
        ["d", "-delete"],
        ["d/", "u", "-delete"],
        ["deep", "-name", "er", "-delete"],
        [".", "-mindepth", "1", "-delete"],
        ["-L", ".", "-name", "ld", "-delete"],
        [".", "-depth", "-prune", "-name", "a", "-delete"],
        ["nonexistent", "-delete"]
      ]
    afterwards tool row = withFixture $ \tree -> do
      outcome <- runTool [] "" tree tool row
      there <- doesPathExist tree
      left <- if there then runTool [] "" tree Gnu ["."] else pure (Outcome Char8.empty Char8.empty ExitSuccess)
      pure (outcome, linesOf (outcomeOutput left))

-- Depth first, names by their bytes: a slash sorts before everything.
depthFirst :: [ByteString] -> [ByteString]
depthFirst = sortOn (Char8.split '/')

sortedOrder :: FilePath -> IO ()
sortedOrder tree = forM_ rows $ \row -> do
  gnu <- runTool [] "" tree Gnu (row ++ ["-print0"])
  ours <- runTool [] "" tree Ours ("--ordered" : row ++ ["-print0"])
  again <- runTool [] "" tree Ours ("--ordered" : "-j1" : row ++ ["-print0"])
  assertEqual (show row) (depthFirst (records gnu)) (records ours)
  assertEqual (show row) (outcomeOutput ours) (outcomeOutput again)
  where
    rows = [["."], [".", "-type", "f"], [".", "!", "-name", "a*"], ["-L", ".", "-name", "*e*"]]

records :: Outcome -> [ByteString]
records o = filter (not . Char8.null) (Char8.split '\0' (outcomeOutput o))

firstMatch :: FilePath -> IO ()
firstMatch tree = do
  forM_ [["."], [".", "-type", "f"], [".", "-name", "x*"], [".", "-name", "nothing"]] $ \row -> do
    every <- runTool [] "" tree Ours ("--ordered" : row ++ ["-print0"])
    first <- runTool [] "" tree Ours ("--first" : row ++ ["-print0"])
    assertEqual (show row) (take 1 (records every)) (records first)
  -- What goes wrong behind the first match is not mentioned.
  hidden <- runTool [] "" tree Ours ["--first", "-L", "a", "loop", "-print0"]
  assertEqual "an error to the right" (["a"], Char8.empty, ExitSuccess) (map Char8.unpack (records hidden), outcomeErrors hidden, outcomeStatus hidden)
  shown <- runTool [] "" tree Ours ["--first", "-L", "loop", "a", "-print0"]
  assertEqual "an error to the left" (["a"], ExitFailure 1) (map Char8.unpack (records shown), outcomeStatus shown)
  effects <- runTool [] "" tree Ours ["--first", ".", "-name", "x*", "-exec", "echo", "{}", ";"]
  assertEqual "one effect" 1 (length (linesOf (outcomeOutput effects)))

quits :: FilePath -> IO ()
quits tree = do
  forM_ [["a", "d", "-quit"], ["a", "d", "-print", "-quit"], ["d", "a", "-name", "a", "-print", "-quit"], ["a", "-exec", "echo", "{}", "+", "-quit"]] (agree tree)
  one <- runTool [] "" tree Ours [".", "-name", "*x*", "-print", "-quit"]
  assertEqual "one line" 1 (length (linesOf (outcomeOutput one)))
  ordered <- runTool [] "" tree Ours ["--ordered", ".", "-print", "-name", "abab", "-quit"]
  assertEqual "in order" (map Char8.pack ["-dash", ".", ".hidden", "a", "abab"]) (linesOf (Char8.unlines (map dropDot (Char8.lines (outcomeOutput ordered)))))
  where
    dropDot l = if Char8.pack "./" `Char8.isPrefixOf` l then Char8.drop 2 l else l

brokenPipe :: FilePath -> IO ()
brokenPipe tree = do
  self <- runTool [] "" tree Ours ["-version"]
  unless (outcomeStatus self == ExitSuccess) (assertFailure "no version")
  program <- getExecutablePath
  (_, _, errors) <- readProcessWithExitCode "sh" ["-c", "'" ++ program ++ "' --as-find / -xdev -maxdepth 4 | head -n 1 > /dev/null"] ""
  assertEqual "quiet" "" errors

fullDisk :: FilePath -> IO ()
fullDisk tree = do
  self <- getExecutablePath
  forM_ ["", "-printf '%p\\n'", "-ls", "-fprint /dev/full", "-fls /dev/full -fprint /dev/full"] $ \expression -> do
    let run program = do
          (status, _, errors) <- readProcessWithExitCode "sh" ["-c", "cd '" ++ tree ++ "'; " ++ program ++ " . " ++ expression ++ " > /dev/full"] ""
          pure (status, linesOf (Char8.pack errors))
    gnu <- run "find"
    ours <- run ("'" ++ self ++ "' --as-find")
    assertEqual expression gnu ours

helps :: FilePath -> IO ()
helps tree = forM_ [["-help"], ["--help"], ["-version"], ["--version"], [".", "-name", "x", "--help"], ["-D", "help"]] $ \row -> do
  ours <- runTool [] "" tree Ours row
  assertEqual (show row) (ExitSuccess, Char8.empty) (outcomeStatus ours, outcomeErrors ours)
  assertBool "says something" (Char8.length (outcomeOutput ours) > 40)

table :: [[String]]
table =
  [ [".", ")"],
    [".", ",", "-print"],
    [".", "-size", "18446744073709551615k"],
    [".", "-mtime", "1.5"],
    [".", "-mtime", " 1"],
    [".", "-mtime", "0x10"],
    [".", "-mtime", "1e30"],
    [".", "-mmin", "1e30"],
    [".", "-perm", "7777"],
    [".", "-perm", "+x"],
    [".", "-perm", "/0"],
    [".", "-perm", "-0"],
    [".", "-regex", "*"],
    [".", "-exec", "{}", ";"],
    [".", "-exec", "{}", "+"],
    [".", "-exec", "ls", "{}", "x", "+", ";"],
    [".", "-exec", "nosuchcmd", "{}", ";"],
    [".", "-execdir", "nosuchcmd", "{}", ";"],
    [".", "-exec", "false", "{}", ";", "-print"],
    [".", "-execdir", "echo", "{}", ";"],
    [".", "-execdir", "pwd", ";"],
    [".", "-execdir", "x{}", "{}", ";"],
    [".", "-execdir", "{}", ";"],
    [".", "-exec", "ec{}ho", ";"],
    [".", "-exec", "echo", "{}{}", "x{}y", ";"],
    [".", "-exec", "echo", "{}", ";", "-exec", "echo", "2", "{}", ";"],
    [".", "-printf", "%q\\n"],
    -- slashAtTheEndWasADirectory
    ["././", "./d/./", "./d/", "./d//", "d/", "d//", ".//", "/./", "d/../d/", "-maxdepth", "0", "-printf", "%h|%f|%H|%P\\n"],
    ["././", "./d/./", "./d/", ".//", "d/../d/", "-maxdepth", "1", "-printf", "%h|%f|%H|%P\\n"],
    [".", "-printf", "%A"],
    [".", "-printf", "%Aq\\n"],
    [".", "-printf", "%A\\n"],
    [".", "-printf", "%A%\\n"],
    [".", "-printf", "\\"],
    [".", "-printf", "\\q\\n"],
    [".", "-printf", "a\\cb"],
    [".", "-printf", "%Z\\n"],
    [".", "-printf", "%10%\\n"],
    [".", "-printf", "%-+ #05p|\\n"],
    [".", "-printf", "%5.2p|%-5.1f|\\n"],
    [".", "-printf", "%#m %05m %+m %5d %-5d| %+d %05d %#d\\n"],
    [".", "-printf", "%.3s|%05s|%+s|%#s\\n"],
    [".", "-fstype", "nosuch"],
    [".", "-fstype", "ext4"],
    [".", "-depth", "-prune"],
    ["-O5", "."],
    ["-O3", ".", "-maxdepth", "0"],
    ["-O10000", ".", "-maxdepth", "0"],
    ["--", ".", "-maxdepth", "0"],
    ["--", "-maxdepth", "0"],
    ["-H", "-L", "-P", ".", "-maxdepth", "0"],
    ["-maxdepth", "0"],
    [".", "nonexist", "-maxdepth", "0"],
    ["nonexist", "a"],
    ["d/"],
    ["d//", "-name", "b"],
    [".", "-name", "d/"],
    [".", "-warn", "-name", "d/"],
    [".", "-warn", "-name", "d/b"],
    [".", "-warn", "-iname", "d/b"],
    [".", "-warn", "-name", "/"],
    [".", "-warn", "-path", "./d/"],
    [".", "-warn", "-wholename", "./d/"],
    [".", "-warn", "-lname", "x/"],
    [".", "-warn", "-name", "a", "-maxdepth", "1"],
    [".", "-warn", "-name", "a", "-depth"],
    [".", "-warn", "-name", "a", "-xdev", "-mount", "-noleaf", "-ignore_readdir_race"],
    [".", "-warn", "-d"],
    [".", "-warn", "-print", "-follow"],
    [".", "-maxdepth", "1", "-warn", "-name", "a", "-maxdepth", "0"],
    [".", "-warn", "-printf", "\\q%q\\"],
    [".", "-warn", "-perm", "/000"],
    [".", "-warn", "-ipath", "d/"],
    [".", "-warn", "-type", "f", "-mindepth", "1"],
    [".", "-nowarn", "-printf", "\\q%q\\"],
    [".", "-warn", "(", "-maxdepth", "1", ")"],
    [".", "-warn", "!", "-maxdepth", "1"],
    [".", "-warn", "-daystart", "-maxdepth", "0"],
    [".", "-warn", "-follow", "-maxdepth", "0"],
    [".", "-warn", "-true", "-maxdepth", "0"],
    [".", "-warn", "-regextype", "sed", "-maxdepth", "0"],
    [".", "-warn", "-true", "-daystart"],
    [".", "-warn", "-print", "-warn"],
    [".", "-warn", "-o", "-maxdepth", "1"],
    [".", "-warn", "-warn", "-maxdepth", "0"],
    [".", "-warn", "-nowarn", "-maxdepth", "0"],
    [".", "-!", "-name", "a"],
    [".", "-(", "-name", "a", "-)"],
    [".", ")", "-print"],
    [".", "-perm", "u+"],
    [".", "-perm", "="],
    [".", "-perm", "+"],
    [".", "-perm", "=7"],
    [".", "-perm", "-=7"],
    [".", "-perm", "u=g"],
    [".", "-perm", "07777"],
    [".", "-perm", "00755"],
    [".", "-perm", "--x"],
    [".", "-perm", "++x"],
    [".", "-perm", "-a=x"],
    [".", "-size", " 1"],
    [".", "-size", "++1"],
    [".", "-mtime", "++1"],
    [".", "-mtime", "+-1"],
    [".", "-mtime", "inf"],
    [".", "-mtime", "-inf"],
    [".", "-mtime", "+1e30"],
    [".", "-mtime", "-1e30"],
    [".", "-mmin", "-1e30"],
    [".", "-used", "1e30"],
    [".", "-newer", "l"],
    [".", "-newer", "broken"],
    [".", "-newer", "loop"],
    ["-H", ".", "-newer", "broken"],
    ["-L", ".", "-newer", "loop"],
    [".", "-samefile", "broken"],
    ["-L", ".", "-samefile", "broken"],
    ["-L", ".", "-maxdepth", "1"],
    ["-L", ".", "-ls"],
    [".", "-xtype", "l"],
    ["-L", ".", "-xtype", "l"],
    ["-L", ".", "-type", "l"],
    ["-H", "l", "-ls"],
    ["-P", "l", "-ls"],
    [".", "-lname", "now*"],
    ["-L", ".", "-lname", "*"],
    [".", "-empty"],
    [".", "-newermt", "2020-01-01", "-maxdepth", "0"],
    [".", "-newermt", ""],
    ["-quit"],
    ["-maxdepth", "0", "-quit", "-print"],
    ["-L", "loop"],
    ["-H", "loop"],
    ["loop"],
    ["-L", "broken"],
    ["-H", "broken"],
    ["/", "-warn", "-path", "/", "-maxdepth", "0"],
    [".", "-path", "a/", "-warn", "-maxdepth", "0"],
    [".", "-warn", "-path", "", "-maxdepth", "0"],
    [".", "-warn", "-name", "", "-maxdepth", "0"],
    [".", "-regextype", "sed", "-o", "-print"],
    [".", "-noleaf", "-o", "-name", "a"],
    [".", "-true", ",", "-false"],
    [".", "-prune", ",", "-false"],
    [".", "-fstype", "ext4", "-maxdepth", "0"],
    [".", "-quit", ",", "-print"],
    [".", "-name", "a*"],
    [".", "-name", "*a"],
    [".", "-name", "*.*"],
    [".", "-name", "?"],
    [".", "-name", "[a-d]"],
    [".", "-name", "[!a-d]*"],
    [".", "-name", "x\\{\\}"],
    [".", "-name", ""],
    [".", "-name", "*x*"],
    [".", "-name", "x*5"],
    [".", "-name", "**"],
    [".", "-iname", "A"],
    [".", "-iname", "*X*"],
    [".", "-path", "./d*"],
    [".", "-path", "*d/b"],
    [".", "-path", "*/*/*"],
    [".", "-ipath", "*D/B"],
    [".", "-wholename", "./d/b"],
    [".", "-iwholename", "./D/b"],
    [".", "-lname", "*"],
    [".", "-lname", "a"],
    [".", "-ilname", "NOW*"],
    [".", "-regex", ".*/[a-d]"],
    [".", "-regex", "\\./.*b"],
    [".", "-iregex", ".*/[A-D]"],
    [".", "-regextype", "posix-extended", "-regex", "\\./(a|d/b)"],
    [".", "-regextype", "posix-egrep", "-regex", "\\./(a|d/b)"],
    [".", "-regextype", "egrep", "-regex", "\\./(a|d/b)"],
    [".", "-regextype", "grep", "-regex", "\\./\\(a\\|d/b\\)"],
    [".", "-regextype", "sed", "-regex", "\\./\\(a\\|d/b\\)"],
    [".", "-regextype", "ed", "-regex", "\\./\\(a\\|d/b\\)"],
    [".", "-regextype", "awk", "-regex", "./(a|d/b)"],
    [".", "-regextype", "posix-awk", "-regex", "./(a|d/b)"],
    [".", "-regextype", "gnu-awk", "-regex", "./(a|d/b)"],
    [".", "-regextype", "posix-basic", "-regex", "./a\\{1\\}"],
    [".", "-regextype", "posix-minimal-basic", "-regex", "./a\\{1\\}"],
    [".", "-regextype", "emacs", "-regex", ".*x"],
    [".", "-regex", ".*re.x"],
    [".", "-type", "f"],
    [".", "-type", "d"],
    [".", "-type", "l"],
    [".", "-type", "p"],
    [".", "-type", "c"],
    [".", "-type", "b"],
    [".", "-type", "s"],
    [".", "-type", "f,d"],
    [".", "-type", "l,p,c"],
    [".", "-xtype", "f"],
    [".", "-xtype", "d"],
    [".", "-xtype", "f,l"],
    ["-L", ".", "-type", "f"],
    ["-H", ".", "-type", "l"],
    ["-H", "l", "d", "-type", "f"],
    [".", "-size", "0"],
    [".", "-size", "1"],
    [".", "-size", "+0"],
    [".", "-size", "-1"],
    [".", "-size", "+1k"],
    [".", "-size", "-5M"],
    [".", "-size", "5M"],
    [".", "-size", "+0c"],
    [".", "-size", "3c"],
    [".", "-size", "2w"],
    [".", "-size", "-1G"],
    [".", "-size", "1G"],
    [".", "-size", "+9000b"],
    [".", "-links", "1"],
    [".", "-links", "+1"],
    [".", "-links", "-2"],
    [".", "-inum", "+1"],
    [".", "-inum", "1"],
    [".", "-uid", "0"],
    [".", "-uid", "+0"],
    [".", "-gid", "0"],
    [".", "-user", "root"],
    [".", "-user", "0"],
    [".", "-user", "+0"],
    [".", "-user", "2147483648"],
    [".", "-group", "4294967295"],
    [".", "-user", "1000"],
    [".", "-user", "nobody"],
    [".", "-group", "root"],
    [".", "-group", "0"],
    [".", "-nouser"],
    [".", "-nogroup"],
    [".", "-perm", "644"],
    [".", "-perm", "-644"],
    [".", "-perm", "/111"],
    [".", "-perm", "/222"],
    [".", "-perm", "u=rw,go=r"],
    [".", "-perm", "-u+x"],
    [".", "-perm", "/u+s"],
    [".", "-perm", "-a+r"],
    [".", "-perm", "a=rX"],
    [".", "-perm", "-a=rX"],
    [".", "-perm", "0777"],
    [".", "-perm", "777"],
    [".", "-perm", "-o+w"],
    [".", "-mtime", "0"],
    [".", "-mtime", "+0"],
    [".", "-mtime", "-1"],
    [".", "-mtime", "+365"],
    [".", "-mtime", "-0.5"],
    [".", "-mtime", "+1.5"],
    [".", "-atime", "0"],
    [".", "-ctime", "-1"],
    [".", "-mmin", "-5000"],
    [".", "-mmin", "+5000"],
    [".", "-amin", "-100"],
    [".", "-cmin", "+0"],
    [".", "-daystart", "-mtime", "0"],
    [".", "-daystart", "-mtime", "1"],
    [".", "-daystart", "-mmin", "+60"],
    [".", "-mtime", "0", "-daystart"],
    [".", "-used", "1"],
    [".", "-used", "-2"],
    [".", "-used", "+1"],
    [".", "-newer", "a"],
    [".", "-anewer", "a"],
    [".", "-cnewer", "a"],
    [".", "-newermt", "2021-01-01"],
    [".", "-newermt", "1 hour ago"],
    [".", "-newermt", "@1600000000"],
    [".", "!", "-newermt", "2021-01-01"],
    [".", "-newerma", "a"],
    [".", "-newerac", "a"],
    [".", "-newerct", "2026-01-01 12:00"],
    [".", "-samefile", "a"],
    ["-L", ".", "-samefile", "a"],
    [".", "-samefile", "l"],
    [".", "-empty", "-type", "d"],
    [".", "-readable"],
    [".", "-writable"],
    [".", "-executable"],
    [".", "-executable", "-type", "f"],
    [".", "-fstype", "proc"],
    [".", "-true"],
    [".", "-false"],
    [".", "-true", "-o", "-false"],
    [".", "!", "-true"],
    [".", "-not", "-name", "a"],
    [".", "(", "-name", "a", "-o", "-name", "b", ")", "-type", "f"],
    [".", "-name", "a", "-o", "-name", "b", "-type", "f", "-print"],
    [".", "-name", "a", ",", "-name", "b"],
    [".", "-name", "a", "-print", ",", "-name", "b", "-print"],
    [".", "-print", "-print"],
    [".", "-print0"],
    [".", "-type", "d", "-print0"],
    [".", "-maxdepth", "0"],
    [".", "-maxdepth", "1"],
    [".", "-mindepth", "1"],
    [".", "-mindepth", "2"],
    [".", "-mindepth", "1", "-maxdepth", "1"],
    [".", "-mindepth", "5"],
    [".", "-depth"],
    [".", "-depth", "-name", "d"],
    [".", "-xdev"],
    [".", "-mount", "-name", "a"],
    [".", "-prune"],
    [".", "-name", "d", "-prune"],
    [".", "-name", "d", "-prune", "-o", "-print"],
    [".", "-path", "./d", "-prune", "-o", "-name", "b"],
    [".", "!", "-name", ".", "-prune"],
    [".", "-depth", "-name", "d", "-prune"],
    [".", "-ls"],
    [".", "-type", "d", "-ls"],
    [".", "-printf", "%a|%b|%c|%d|%D|%f|%F\\n"],
    [".", "-printf", "%g|%G|%h|%H|%i|%k|%l\\n"],
    [".", "-printf", "%m|%M|%n|%p|%P|%s|%S|%t\\n"],
    [".", "-printf", "%u|%U|%y|%Y|%%\\n"],
    [".", "-printf", "%A@ %AY %Am %Ad %AH:%AM:%AS\\n"],
    [".", "-printf", "%C+ %CF %CT\\n"],
    [".", "-printf", "%Ta %TA %Tb %TB %Tc %Td %TD %Th %TH %TI %Tj %Tk %Tl %Tm %TM %Tp %Tr %TS %TT %TU %Tw %TW %Tx %TX %Ty %TY %TZ\\n"],
    [".", "-printf", "%TC %Te %TE %Tf %Tg %TG %Ti %TJ %TK %TL %TN %To %TO %TP %Tq %TQ %TR %Ts %Tu %Tv %TV %Tz %T. %T= %T- %T_ %T0 %T^ %T#\\n"],
    [".", "-printf", "[%5d|%-5d|%05d|%+d|% d|%.3d|%3.2d]\\n"],
    [".", "-printf", "[%5m|%-6m|%06m|%#m|%.5m]\\n"],
    [".", "-printf", "[%20p|%-20p|%.3p|%10.3p|%-10.3p]\\n"],
    [".", "-printf", "[%10s|%-10s|%.1s|%010s|%+s]\\n"],
    [".", "-printf", "[%8S|%-8S|%.2S|%+S|%08.3S]\\n"],
    [".", "-printf", "[%2y|%-3y|%12M|%-12M|%5f|%5h|%5H|%5P]\\n"],
    [".", "-printf", "[%40t|%-40t|%.10t|%12TY|%-12TY|%.2TY]\\n"],
    [".", "-printf", "\\a\\b\\f\\n\\r\\t\\v\\0\\\\\\101\\7\\377x"],
    [".", "-printf", "abc"],
    [".", "-printf", ""],
    [".", "-printf", "%p\\0"],
    ["-L", ".", "-printf", "%p %y %Y %l %i\\n"],
    ["-H", "l", "broken", "d", "-printf", "%p %y %Y %l\\n"],
    ["l", "broken", "d", "-printf", "%p %y %Y %l %h %f %H %P\\n"],
    ["d/", "d//", "./d", "../t/d", "-printf", "%p|%h|%f|%H|%P|%d\\n"],
    ["d/", "-name", "d"],
    ["./d/", "-name", "d"],
    ["d/.", "-name", "."],
    ["d/..", "-maxdepth", "0", "-name", ".."],
    [".", "-exec", "echo", "{}", ";"],
    [".", "-exec", "echo", "a{}b{}", "{}", ";"],
    [".", "-exec", "test", "-d", "{}", ";", "-print"],
    [".", "!", "-exec", "test", "-d", "{}", ";", "-print"],
    [".", "-name", "a", "-exec", "cat", "{}", ";"],
    [".", "-name", "a", "-exec", "cat", "{}", "+"],
    [".", "-exec", "true", "{}", "+", "-name", "a"],
    ["d/b", "/", "-maxdepth", "0", "-execdir", "echo", "{}", ";"],
    [".", "-name", "b", "-execdir", "pwd", ";"],
    [".", "-exec", "sh", "-c", "exit 1", ";", "-o", "-print"],
    [".", "-exec", "./a", "{}", ";"],
    [".", "-quit"],
    [".", "-name", "zzz", "-quit"],
    [".", "-maxdepth", "0", "-print", "-quit"],
    ["nonexist", ".", "nonexist2", "-maxdepth", "0"],
    ["a", "l", "broken"],
    [".", "-ignore_readdir_race", "-name", "a"],
    [".", "-noignore_readdir_race", "-name", "a"],
    [".", "-noleaf", "-name", "a"],
    [".", "-follow", "-name", "a"],
    [".", "-name", "a", "-follow"],
    ["-O0", ".", "-name", "a"],
    ["-O1", ".", "-name", "a"],
    ["-O2", ".", "-name", "a"],
    ["-O3", ".", "-type", "f", "-name", "a"],
    ["-P", "-L", "-H", ".", "-name", "a"],
    ["--", ".", "-name", "a"],
    ["d", "a", "-name", "b"]
  ]
