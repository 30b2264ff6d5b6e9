-- |
-- Module      : BadTest
-- Description : Command lines that mean nothing
--
-- The message must be GNU find's, the status 1, and nothing may have been written by then.
module BadTest
  ( badTests,
  )
where

import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as Char8
import Data.Maybe (fromMaybe)
import Oracle
import System.Directory (removePathForcibly)
import System.Exit (ExitCode (..))
import Test.Tasty (TestTree, testGroup, withResource)
import Test.Tasty.HUnit (assertEqual, testCase)
import Test.Tasty.QuickCheck

-- | A table, and generated ones.
badTests :: TestTree
badTests = withResource makeFixture removePathForcibly $ \tree ->
  testGroup
    "malformed"
    [ testCase "table" $ tree >>= \t -> forM_ table (refusedAlike t),
      testCase "table, in the C locale" $
        tree >>= \t ->
          forM_ table (agreeUnder [("LC_ALL", "C")] t),
      testCase "warnings" $ tree >>= \t -> forM_ warned (agree t),
      testProperty "generated" . withMaxSuccess 150 . forAll malformed $ \row -> ioProperty $ do
        t <- tree
        difference <- sameAsGnu [] t row
        ours <- runTool [] "" t Ours row
        pure . counterexample (fromMaybe "" difference) $
          difference == Nothing && outcomeStatus ours == ExitFailure 1 && Char8.null (outcomeOutput ours)
    ]

refusedAlike :: FilePath -> [String] -> IO ()
refusedAlike tree row = do
  agree tree row
  ours <- runTool [] "" tree Ours row
  assertEqual (show row) (ExitFailure 1, True) (outcomeStatus ours, Char8.null (outcomeOutput ours))

warned :: [[String]]
warned =
  [ [".", "-warn", "-name", "d/"],
    [".", "-warn", "-iname", "d/b"],
    [".", "-path", "./d/"],
    [".", "-warn", "-name", "a", "-maxdepth", "1", "-xdev", "-depth"],
    [".", "-warn", "-d"],
    [".", "-warn", "(", "-maxdepth", "0", ")"],
    [".", "-perm", "/000", "-maxdepth", "0"],
    [".", "-printf", "\\q%q\\", "-maxdepth", "0"],
    [".", "-printf", "%A", "-maxdepth", "0"]
  ]

-- Something valid with something in it that spoils it, whatever is around it.
malformed :: Gen [String]
malformed = do
  before <- primaries
  after <- primaries
  spoiled <-
    elements $
      [ before ++ flaw ++ after
        | flaw <- flaws
      ]
        ++ [ before ++ ["-o"],
             before ++ ["!"],
             "-o" : before,
             ["("] ++ before ++ after,
             before ++ [")"],
             before ++ ["(", ")"] ++ after,
             before ++ ["-a", "-o"] ++ after,
             before ++ ["-name"],
             before ++ ["-exec", "true", "{}"],
             before ++ ["stray"]
           ]
  pure ("." : spoiled)
  where
    primaries = concat <$> (choose (1, 3) >>= \n -> vectorOf n (elements good))
    good = [["-name", "a*"], ["-type", "f"], ["-size", "+1k"], ["-print"], ["-mtime", "-3"], ["(", "-true", ")"], ["!", "-links", "2"], ["-prune"]]
    flaws =
      [["-unknown"], ["--name", "x"], ["-type", "q"], ["-type", "f,"], ["-size", "1q"], ["-size", "k"]]
        ++ [["-perm", p] | p <- ["9", "u=q", "-", "a", "07778", "u+x,"]]
        ++ [[t, n] | t <- ["-mtime", "-links", "-inum", "-uid", "-gid", "-amin"], n <- ["", "x", "+", "1x"]]
        ++ [["-maxdepth", n] | n <- ["x", "-1", "", "1 "]]
        ++ [["-user", "no such user"], ["-group", "1x"], ["-newer", "nonexistent"], ["-newermt", "never"], ["-newertt", "a"]]
        ++ [["-regex", "\\("], ["-regextype", "perl"], ["-printf", "%"], ["-printf", "%5"], ["-printf", "%{"]]
        ++ [["-exec", ";"], ["-exec", "echo", "x{}", "+"], ["-exec", "echo", "{}", "{}", "+"], ["-fprint", "/nonexistent/x"]]
        ++ [["-used", "x"], ["-context", "x"], ["-newermx", "a"]]

table :: [[String]]
table =
  [ [".", "-foo"],
    [".", "-name"],
    [".", "("],
    [".", "(", ")"],
    [".", "(", "-name", "a"],
    [".", "-name", "a", ")"],
    [".", "(", "-name", "a", ")", ")"],
    [".", "-a"],
    [".", "-o", "-name", "a"],
    [".", "-name", "a", "-o"],
    [".", "-name", "a", "-a"],
    [".", "-name", "a", "-and", "-or"],
    [".", "!"],
    [".", "-not"],
    -- optionsThatAreNoPredicatesWereNotNamed
    [".", "!", "-daystart"],
    [".", "!", "!", "-daystart"],
    [".", "(", "-daystart"],
    [".", "-true", "-o", "-daystart"],
    [".", "-true", "-daystart", "-o", "-daystart", "-daystart"],
    ["!", "-files0-from", "starts"],
    [".", "-true", "-a", "-files0-from", "starts"],
    [".", "!", "-o"],
    [".", "(", "-o", ")"],
    [".", "(", "!", ")"],
    [".", "(", "-name", "a", "-o", ")"],
    [".", "-print", ","],
    [".", "-print", ",", ",", "-print"],
    [".", "-name", "a", "b"],
    [".", "-print", "a"],
    [".", "-name", "a", "b", "c"],
    [".", "-type"],
    [".", "-type", "x"],
    [".", "-type", ""],
    [".", "-type", "ff"],
    [".", "-type", "f,f"],
    [".", "-type", "f,"],
    [".", "-type", ",f"],
    [".", "-type", "f,x"],
    [".", "-type", "f,dd"],
    [".", "-type", "D"],
    [".", "-xtype", "x"],
    [".", "-xtype", "D"],
    [".", "-size"],
    [".", "-size", ""],
    [".", "-size", "x"],
    [".", "-size", "1x"],
    [".", "-size", "1kk"],
    [".", "-size", "+"],
    [".", "-size", "-"],
    [".", "-size", "k"],
    [".", "-size", "+k"],
    [".", "-size", "1.5k"],
    [".", "-size", "99999999999999999999"],
    [".", "-size", "--1"],
    [".", "-size", "+-1"],
    [".", "-mtime"],
    [".", "-mtime", "x"],
    [".", "-mtime", ""],
    [".", "-mtime", "+"],
    [".", "-mtime", "1x"],
    [".", "-mtime", "1e400"],
    [".", "-mmin", "x"],
    [".", "-amin", "x"],
    [".", "-atime", "x"],
    [".", "-cmin", "x"],
    [".", "-used", "x"],
    [".", "-used", ""],
    [".", "-newer"],
    [".", "-newer", "nonexist"],
    [".", "-anewer", "nonexist"],
    [".", "-cnewer", "nonexist"],
    [".", "-newermt"],
    [".", "-newermt", "xyzzy"],
    [".", "-newerxx", "a"],
    [".", "-newermx", "a"],
    [".", "-newertm", "a"],
    [".", "-newer_m", "a"],
    [".", "-newerm", "a"],
    [".", "-newermtt", "a"],
    [".", "-samefile", "nonexist"],
    [".", "-samefile"],
    [".", "-perm"],
    [".", "-perm", ""],
    [".", "-perm", "x"],
    [".", "-perm", "8"],
    [".", "-perm", "77777"],
    [".", "-perm", "17777"],
    [".", "-perm", "+644"],
    [".", "-perm", "-x"],
    [".", "-perm", "/x"],
    [".", "-perm", "/"],
    [".", "-perm", "-"],
    [".", "-perm", "u=q"],
    [".", "-user", "nosuchuser"],
    [".", "-user", ""],
    [".", "-user", "1x"],
    [".", "-user", "99999999999"],
    [".", "-user", "-1"],
    [".", "-group", "nosuchgroup"],
    [".", "-group", ""],
    [".", "-group", "1x"],
    [".", "-group", "99999999999"],
    [".", "-uid", "x"],
    [".", "-uid", ""],
    [".", "-uid", "+"],
    [".", "-uid", "-x"],
    [".", "-gid", "x"],
    [".", "-uid", "99999999999999999999999"],
    [".", "-links", "x"],
    [".", "-links", ""],
    [".", "-inum", "x"],
    [".", "-inum", "+1x"],
    [".", "-maxdepth"],
    [".", "-maxdepth", "x"],
    [".", "-maxdepth", "-1"],
    [".", "-maxdepth", "+1"],
    [".", "-maxdepth", ""],
    [".", "-maxdepth", "1x"],
    [".", "-maxdepth", "99999999999999999999"],
    [".", "-mindepth", "x"],
    [".", "-mindepth", "-1"],
    [".", "-regex"],
    [".", "-regex", "\\("],
    [".", "-regex", "["],
    [".", "-regextype", "foo", "-regex", "x"],
    [".", "-regextype", "help"],
    [".", "-regextype", "posix-extended", "-regex", "("],
    [".", "-regextype", "posix-extended", "-regex", "a{1"],
    [".", "-regextype", "posix-extended", "-regex", "a{2,1}"],
    [".", "-regextype"],
    [".", "-iregex", "["],
    [".", "-exec"],
    [".", "-exec", "ls"],
    [".", "-exec", "ls", "{}"],
    [".", "-exec", ";"],
    [".", "-exec", "+"],
    [".", "-exec", "ls", "{}", "+", "x"],
    [".", "-exec", "ls", "+"],
    [".", "-exec", "ls", "{}", "{}", "+"],
    [".", "-exec", "ls", "x{}", "+"],
    [".", "-exec", "ls", "x{}", "{}", "+"],
    [".", "-exec", "ls", "{}", "x", "+"],
    [".", "-exec", "nosuchcmd", "{}", "+"],
    [".", "-exec", "false", "{}", "+"],
    [".", "-exec", "sh", "-c", "exit 3", "{}", "+"],
    [".", "-printf"],
    [".", "-printf", "%"],
    [".", "-printf", "%p%"],
    [".", "-printf", "%{\\n"],
    [".", "-printf", "%("],
    [".", "-printf", "%["],
    [".", "-printf", "%5"],
    [".", "-printf", "%-"],
    [".", "-printf", "%."],
    [".", "-printf", "%-10"],
    [".", "-fprintf"],
    [".", "-fprint"],
    [".", "-fprint", "/nonexist/x"],
    [".", "-fprint", "/tmp"],
    [".", "-fls", "/nonexist/x"],
    [".", "-context", "x"],
    [".", "-Z"],
    [".", "-fstype"],
    [".", "-delete", "-prune"],
    [".", "-false", "-delete", "-prune"],
    [".", "-prune", "-delete"],
    ["-O"],
    ["-Ox"],
    ["-O99999", ".", "-maxdepth", "0"],
    ["-O-1", ".", "-maxdepth", "0"],
    ["-O2x", ".", "-maxdepth", "0"],
    ["-X", "."],
    [".", "-H"],
    ["-HL", ".", "-maxdepth", "0"],
    ["nonexist"],
    ["a/b"],
    [""],
    [".", "--name", "a"],
    [".", "-print", "-o"],
    [".", "-print", "-o", "-o"],
    [".", "-print", ")"],
    [".", "(", "-print"],
    [".", "-print", ")", "-print"],
    [".", "(", ")", "-print"],
    [".", "(", "-print", ")", ")"],
    [".", "-print", "!"],
    [".", "(", "!", ")", "-print"],
    [".", "!", "("],
    [".", "!", "(", ")"],
    [".", "-print", "("],
    [".", "(", "(", "-name", "a", ")"],
    [".", "-a", "(", ")"],
    [".", "-name", "a", ")", "b"],
    [".", "-name", "a", "-foo"],
    [".", "-type", "f", "a"],
    [".", "-perm", "/x", "a"],
    [".", "-maxdepth", "4294967296"],
    [".", "-maxdepth", "2147483648"],
    [".", "-user", "4294967296"],
    [".", "-perm", "a"],
    [".", "-perm", "u"],
    [".", "-perm", ","],
    [".", "-perm", "u+r,"],
    [".", "-perm", ",u+r"],
    [".", "-perm", "u+r,,g+r"],
    [".", "-perm", "u+7"],
    [".", "-perm", "+7"],
    [".", "-perm", "u+rg"],
    [".", "-perm", "u+gr"],
    [".", "-perm", "0x7"],
    [".", "-perm", "/a"],
    [".", "-size", "1B"],
    [".", "-mtime", " "],
    [".", "-mtime", "1 "],
    [".", "-xtype", "N"],
    [".", "-execdir"],
    [".", "-exec", "echo", "{}", ";", "a"],
    [".", "-newermt", "x y"],
    [".", "-O3"],
    ["-Otree"],
    ["-regextype"],
    ["a/"],
    ["a/."],
    ["l/"],
    [".", "-delete", "-prune", "-o"],
    [".", "-delete", "-prune", "-foo"],
    [".", "-fls"],
    [".", "-fprint0"],
    [".", "-newerzz"],
    [".", "-newermx"],
    [".", "-execdir", "ls"],
    [".", "-uid", "1x", "a"],
    [".", "-ls", "-daystart", "-o"],
    [".", "-daystart", "-o", "-print"],
    [".", "-name", "a", "!"]
  ]
