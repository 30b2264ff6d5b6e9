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

import Control.Monad (forM, forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.List (isInfixOf, nub, sortOn)
import GoldenTable (table)
import Heddle.Prim.Exception (bracket_)
import Oracle
import System.Directory (createDirectory, doesFileExist, doesPathExist, removePathForcibly)
import System.Exit (ExitCode (..))
import System.Posix.Files (setFileMode)
import System.Posix.Process (getProcessID)
import System.Posix.User (getEffectiveUserID)
import System.Process (CreateProcess (cwd), proc, readCreateProcessWithExitCode, readProcessWithExitCode)
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
      testCase "aPathOfOneSlashWasDropped" $ tree >>= \t -> forM_ edges (agree t),
      testCase "POSIXLY_CORRECT" $ tree >>= \t -> agreeUnder [("POSIXLY_CORRECT", "1")] t [".", "-ls"],
      testCase "names that are not UTF-8" $ tree >>= \t -> forM_ foreignNames (agree t),
      testCase "starting points from a file" $ tree >>= \t -> forM_ fromFiles (agree t),
      testCase "output files" $ tree >>= outputFiles,
      testCase "answers to -ok" $ tree >>= answers,
      testCase "batches hold the same arguments" $ tree >>= batches,
      testCase "aDirectoryThatCouldNotBeHeldWasTheFirst" $ tree >>= unheld,
      testCase "delete" deletes,
      testCase "aVanishedEntryWasNoError" $ forM_ vanishing agreeOnce,
      testCase "aLinkThroughAFileWasABrokenLink" $ tree >>= \t -> forM_ throughAFile (agree t),
      testCase "sorted order" $ tree >>= sortedOrder,
      testCase "first match" $ tree >>= firstMatch,
      testCase "quit" $ tree >>= quits,
      testCase "a reader that leaves" $ tree >>= brokenPipe,
      testCase "a full disk" $ tree >>= fullDisk,
      testCase "help and version" $ tree >>= helps
    ]

-- As findutils 4.10 does it, whatever the machine has.
linksInACircle :: FilePath -> IO ()
linksInACircle tree = forM_ [("l", ["./broken", "./loop", "./through"]), ("f", ["./l"]), ("d", ["./ld"])] $ \(kind, expected) -> do
  ours <- runTool [] "" tree Ours [".", "-maxdepth", "1", "-type", "l", "-xtype", kind]
  assertEqual kind (expected, "", ExitSuccess) (map Char8.unpack (linesOf (outcomeOutput ours)), outcomeErrors ours, outcomeStatus ours)

bigOwners :: FilePath -> IO ()
bigOwners tree = forM_ [(o, n) | o <- ["-user", "-group"], n <- ["2147483648", "4294967295", "+4294967295", "+0"]] $ \(owner, name) -> do
  ours <- runTool [] "" tree Ours [".", "-maxdepth", "0", "!", owner, name]
  assertEqual
    (owner ++ name)
    (["." | name /= "+0"], "", ExitSuccess)
    (linesOf (outcomeOutput ours), outcomeErrors ours, outcomeStatus ours)

-- Every test of names and every part of a path, where a path begins or ends.
edges :: [[String]]
edges = [root : "-maxdepth" : "0" : expression | root <- roots, expression <- named ++ others]
  where
    roots =
      ["/", "//", "///", "/.", "/..", ".", "..", "./", "../", "./.", "", "a", "./a", ".//a", "d/", "d//", "d/.", "d/..", "ld", "ld/"]
        ++ [before ++ name ++ after | name <- ["usr", "bin", "tmp"], before <- ["/", "//", "/./"], after <- ["", "/", "//"]]
    named =
      [ [test, pattern']
        | test <- ["-name", "-iname"],
          pattern' <- ["/", "a", ".", "..", "?", "*", "usr", "TMP", "bin", "d", "ld"]
      ]
    others =
      [ ["!", "-name", "usr"],
        ["-depth", "-name", "tmp", "-print"],
        ["-path", "/*"],
        ["-ipath", "*USR"],
        ["-regex", "/."],
        ["-regex", ".*/usr"],
        ["-lname", "*"],
        ["-empty"],
        ["-printf", "%f|%h|%p|%P|%H|%d|%y|%Y|%l|%F\\n"],
        ["-execdir", "echo", "{}", ";"],
        ["-execdir", "echo", "{}", "+"]
      ]

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

-- An entry that the walk has removed itself, before something asks for its status or enters it.
vanishing :: [[String]]
vanishing =
  [ [".", "-type", "f", "-delete", "-printf", "%s %p\\n"],
    [".", "-type", "f", "-delete", "-size", "0", "-print"],
    [".", "-type", "f", "-delete", "-ls"],
    [".", "-size", "-9", "-type", "f", "-delete", "-printf", "%s %p\\n"],
    [".", "-ignore_readdir_race", "-type", "f", "-delete", "-printf", "%s %p\\n"],
    [".", "-type", "d", "-name", "d", "-exec", "rm", "-r", "{}", ";"],
    [".", "-type", "f", "-exec", "rm", "{}", ";", "-newer", "keep"]
  ]

-- Each on a tree of its own, since it changes it.
agreeOnce :: [String] -> IO ()
agreeOnce row = do
  outcomes <- forM [Gnu, Ours] $ \tool -> withFixture $ \top -> do
    writeFile (top ++ "/d/inside") "x"
    writeFile (top ++ "/keep") ""
    runTool [] "" top tool (row ++ ["-o", "-name", "keep"])
  case outcomes of
    [gnu, ours] -> do
      (theirs, mine) <- messages row gnu ours
      assertEqual
        (show row)
        (linesOf (outcomeOutput gnu), theirs, outcomeStatus gnu)
        (linesOf (outcomeOutput ours), mine, outcomeStatus ours)
    _ -> assertFailure "two outcomes"

-- The kernel says ENOTDIR for what such a link leads to.
throughAFile :: [[String]]
throughAFile =
  [ before ++ start : expression
    | before <- [["-P"], ["-H"], ["-L"]],
      start <- ["through", "."],
      expression <- [["-name", "through"], ["-name", "through", "-printf", "%p %y %s\\n"], ["-name", "through", "-type", "l"]]
  ]

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

-- A directory that can be searched and not read: what is run for its entries does not run elsewhere.
unheld :: FilePath -> IO ()
unheld tree = bracket_ (createDirectory closed >> writeFile (closed ++ "/file") "" >> setFileMode closed 0o311) (setFileMode closed 0o755 >> removePathForcibly closed) $ do
  me <- getEffectiveUserID
  (program, first) <- ourCommand
  forM_ [";", "+"] $ \end -> do
    let words' = [program, first, "closed/file", "-execdir", "touch", "here", "{}", end]
        -- Root without its rights.
        row = if me == 0 then ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] ++ words' else words'
    (status, _, said) <- readCreateProcessWithExitCode (proc (head row) (tail row)) {cwd = Just tree} ""
    assertEqual (unwords row ++ said) (ExitFailure 1) status
    assertBool said ("closed" `isInfixOf` said)
    doesFileExist (tree ++ "/here") >>= assertEqual "run in the starting directory" False
  where
    closed = tree ++ "/closed"

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
  (program, word) <- ourCommand
  (_, _, errors) <- readProcessWithExitCode "sh" ["-c", "'" ++ program ++ "' " ++ word ++ " / -xdev -maxdepth 4 | head -n 1 > /dev/null"] ""
  assertEqual "quiet" "" errors

fullDisk :: FilePath -> IO ()
fullDisk tree = do
  (self, word) <- ourCommand
  forM_ ["", "-printf '%p\\n'", "-ls", "-fprint /dev/full", "-fls /dev/full -fprint /dev/full"] $ \expression -> do
    let run program = do
          (status, _, errors) <- readProcessWithExitCode "sh" ["-c", "cd '" ++ tree ++ "'; " ++ program ++ " . " ++ expression ++ " > /dev/full"] ""
          pure (status, linesOf (calledFind (Char8.pack errors)))
    gnu <- run "find"
    ours <- run ("'" ++ self ++ "' " ++ word)
    assertEqual expression gnu ours

helps :: FilePath -> IO ()
helps tree = forM_ [["-help"], ["--help"], ["-version"], ["--version"], [".", "-name", "x", "--help"], ["-D", "help"]] $ \row -> do
  ours <- runTool [] "" tree Ours row
  assertEqual (show row) (ExitSuccess, Char8.empty) (outcomeStatus ours, outcomeErrors ours)
  assertBool "says something" (Char8.length (outcomeOutput ours) > 40)
