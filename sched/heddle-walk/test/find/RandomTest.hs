-- |
-- Module      : RandomTest
-- Description : Random expressions over random trees
--
-- Whatever the expression, the answer is GNU find's.
module RandomTest
  ( randomTests,
  )
where

import Control.Monad (forM_)
import Data.List (nub)
import Data.Maybe (fromMaybe)
import Oracle
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removePathForcibly)
import System.Exit (ExitCode (..))
import System.Posix.Files (createSymbolicLink, setFileMode, setFileTimes)
import System.Posix.Temp (mkdtemp)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.QuickCheck

-- | Sets, sorted order, first match.
randomTests :: TestTree
randomTests =
  testGroup
    "random"
    [ testProperty "same set" . withMaxSuccess 60 . forAll tree $ \entries ->
        forAll (vectorOf 4 commandLine) $ \rows -> ioProperty . within' entries $ \t -> do
          -- Which test meets a link that is its own target depends on their order.
          looping <- runTool [] "" t Gnu [".", "-xtype", "l"]
          differences <- mapM (sameAsGnu [] t) rows
          pure (outcomeStatus looping == ExitSuccess ==> conjoin [counterexample (fromMaybe "" d) (d == Nothing) | d <- differences]),
      testProperty "jobs and order do not change the set" . withMaxSuccess 30 . forAll tree $ \entries ->
        forAll commandLine $ \row -> ioProperty . within' entries $ \t -> do
          outcomes <- mapM (\options -> runTool [] "" t Ours (options ++ row)) [[], ["-j1"], ["-j4"], ["--ordered"]]
          let sets = map (\o -> (linesOf (outcomeOutput o), outcomeStatus o)) outcomes
          pure (counterexample (show row) (length (nub sets) === 1))
    ]

data Entry = Directory | File Int | Link String
  deriving stock (Eq, Show)

type Tree = [(String, Entry, Int, Int)]

tree :: Gen Tree
tree = do
  n <- choose (1, 25)
  vectorOf n ((,,,) <$> path <*> entry <*> elements [0o644, 0o755, 0o600, 0o777, 0o4711] <*> choose (-10, 2))
  where
    path = choose (1, 4) >>= \k -> foldr1 (\a b -> a ++ "/" ++ b) <$> vectorOf k name
    name = elements ["a", "b", "c", "ab", "a b", "x\ny", "\255", "\195\169", ".h", "-x", "C.txt", "*"]
    entry = frequency [(3, pure Directory), (5, File <$> elements [0, 1, 511, 512, 513, 1024, 5000]), (2, Link <$> elements ["a", "..", "nope", "b/c", "."])]

-- Entries whose place is taken are left out.
within' :: Tree -> (FilePath -> IO a) -> IO a
within' entries use = do
  temporary <- getTemporaryDirectory
  private <- mkdtemp (temporary ++ "/heddle-find-random-")
  -- A link to ".." leads out of the tree: not to the folder of all temporary files, which changes meanwhile.
  let top = private ++ "/tree"
  createDirectoryIfMissing True top
  let places = nub [p | (p, _, _, _) <- entries]
      isParent p = any (\q -> (p ++ "/") == take (length p + 1) q) places
      parents p = [take i p | (i, '/') <- zip [0 ..] p]
      known = [(p, e, m, d) | p <- places, (q, e, m, d) : _ <- [filter (\(r, _, _, _) -> r == p) entries], q == p]
  forM_ known $ \(p, e, m, d) -> do
    forM_ (parents p) (createDirectoryIfMissing True . (\x -> top ++ "/" ++ x))
    let full = top ++ "/" ++ p
    case e of
      _ | isParent p -> createDirectoryIfMissing True full
      Directory -> createDirectoryIfMissing True full
      File size -> do
        writeFile full (replicate size 'x')
        setFileMode full (fromIntegral m)
        let at = fromIntegral (1780000000 + d * 86400)
        setFileTimes full at at
      Link to -> createSymbolicLink to full
  -- Whatever times of access the tests change, they change now.
  _ <- runTool [] "" top Gnu [".", "-printf", "%l"]
  result <- use top
  removePathForcibly private
  pure result

commandLine :: Gen [String]
commandLine = do
  follow <- frequency [(6, pure []), (1, pure ["-H"]), (1, pure ["-P"])]
  roots <- frequency [(6, pure ["."]), (1, pure ["a", "b"]), (1, pure ["./"])]
  options <- frequency [(4, pure []), (1, pure ["-depth"]), (1, (\n -> ["-maxdepth", show (n :: Int)]) <$> choose (0, 3)), (1, (\n -> ["-mindepth", show (n :: Int)]) <$> choose (0, 3))]
  body <- frequency [(7, expression (3 :: Int)), (2, alternatives 2), (1, list <$> expression 2 <*> expression 2)]
  pure (follow ++ roots ++ options ++ body)
  where
    -- Without the -print, GNU find 4.9 would take the value of the wrong side.
    list a b = ["(", "("] ++ a ++ [")", "-print", ","] ++ b ++ [")"]

-- | Tests and actions. GNU find 4.9 forgets that an operand of @-o@ or @,@ has an effect where it has reordered the tests
-- beside it, and then exchanges the operands; in brackets behind another operand it forgets it as well, and tests a name before
-- them that comes behind. So lists are not nested, and what has an action among tests is the last operand.
expression :: Int -> Gen [String]
expression n
  | n <= 0 = frequency [(1, action), (5, test)]
  | otherwise =
    frequency
      [ (3, expression 0),
        (2, (\a b -> bracketed a ++ bracketed b) <$> first <*> smaller),
        (2, bracketed <$> alternatives (n - 1)),
        (1, (\a b -> a ++ ["-a"] ++ b) <$> first <*> smaller),
        (2, ("!" :) . bracketed <$> smaller)
      ]
  where
    first = frequency [(1, action), (3, tests (n - 1))]
    smaller = expression (n - 1)

alternatives :: Int -> Gen [String]
alternatives n = (\a b -> a ++ ["-o"] ++ b) <$> tests n <*> frequency [(3, tests n), (1, action)]

tests :: Int -> Gen [String]
tests n
  | n <= 0 = test
  | otherwise =
    frequency
      [ (3, test),
        (2, (\a b -> bracketed a ++ bracketed b) <$> smaller <*> smaller),
        (2, (\a b -> a ++ ["-o"] ++ b) <$> smaller <*> smaller),
        (1, (\a b -> a ++ ["-a"] ++ b) <$> smaller <*> smaller),
        (2, ("!" :) . bracketed <$> smaller)
      ]
  where
    smaller = tests (n - 1)

bracketed :: [String] -> [String]
bracketed body = ["("] ++ body ++ [")"]

action :: Gen [String]
action = elements [["-prune"], ["-print"], ["-print0"], ["-printf", "%p %s %y %m %d %h %f %P\n"]]

test :: Gen [String]
test =
  oneof
    [ (\p -> ["-name", p]) <$> pattern',
      (\p -> ["-iname", p]) <$> pattern',
      (\p -> ["-path", "*" ++ p]) <$> pattern',
      (\p -> ["-regex", p]) <$> elements [".*a", ".*/[ab]+", "./a.*", ".*\\(a\\|b\\)", ".*"],
      (\t -> ["-type", t]) <$> elements ["f", "d", "l", "f,d", "l,f"],
      (\t -> ["-xtype", t]) <$> elements ["f", "d", "l"],
      (\s -> ["-size", s]) <$> elements ["0", "1", "+1", "-2", "+0c", "512c", "1k", "-1k", "+1k", "2w"],
      (\m -> ["-perm", m]) <$> elements ["644", "-u+x", "/o+w", "-4000", "u=rw,go=r", "/111"],
      (\l -> ["-links", l]) <$> elements ["1", "+1", "-3"],
      (\d -> ["-newermt", d]) <$> elements ["2026-05-26", "2026-05-28 12:00", "@1780000000"],
      (\d -> ["-mtime", d]) <$> elements ["0", "+100", "-30000"],
      elements [["-empty"], ["-true"], ["-false"], ["-readable"], ["-executable"], ["-user", "0"], ["-nouser"]],
      (\t -> ["-lname", t]) <$> elements ["*", "a", "n*"]
    ]
  where
    pattern' = elements ["a", "*", "a*", "*b", "*t*", "?", "[ab]*", "[!a]*", "\\*", "*.txt", "a*b", "*\195*", "\255", ""]
