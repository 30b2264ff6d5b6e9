{-# LANGUAGE CPP #-}

-- | The ancestors, their like on Heddle.Par.IO and the C walk give the same answers on a generated tree; the SHIM
-- paper's libraries do what the paper says.
module Main
  ( main,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM, forM_, unless)
import Data.List (isInfixOf, sort)
import GHC.IO.Encoding (setFileSystemEncoding, setLocaleEncoding)
import PaperTest qualified
import System.Directory
import System.Environment (setEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (utf8)
import System.Posix.Files (setFileMode)
import System.Posix.Temp (mkdtemp)
import System.Posix.User (getRealUserID)
import System.Process
import System.Timeout (timeout)
import Test.Tasty (TestTree, defaultMain, testGroup, withResource)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

main :: IO ()
main = do
  -- File names are not all ASCII; neither we nor the programs depend on who calls.
  setLocaleEncoding utf8
  setFileSystemEncoding utf8
  setEnv "LC_ALL" "C.UTF-8"
  defaultMain (testGroup "heddle-bench" [tests, PaperTest.tests])

tests :: TestTree
tests =
  withResource (getTemporaryDirectory >>= mkdtemp . (</> "heddle-bench-test-")) removePathForcibly $ \getFolder ->
    -- The C walk is made before the first test: of two that make it at once, one would run what the other still links.
    withResource (makeWalk >> getFolder >>= plant) (const (pure ())) $ \getRoot ->
      testGroup
        "searches"
        [ testGroup "found in one place" [searchTest getRoot name [path] | (name, path) <- unique],
          testGroup "not there" [searchTest getRoot name [] | name <- ["nonexistent", "", "file", "é"]],
          testCase "found in many places: the first one, and any one without determinism" (many getRoot),
          testCase "the C walk prints every path once" (walkAll getRoot),
          testCase "an error to the right of a hit is invisible, to its left it is raised" (getFolder >>= errors)
        ]

-- | Names that are there once, and where.
unique :: [(String, FilePath)]
unique =
  [ ("first", "first"),
    ("a", "a"),
    ("deep", concatMap (\i -> "chain-" <> show (i :: Int) <> "/") [1 .. 60] <> "deep"),
    ("last", "z/9/last"),
    ("an empty one", "m/an empty one"),
    ("ü", "m/ü")
  ]

-- | A tree with each of the unique names once, @many@ in many places, and wide and empty directories.
plant :: FilePath -> IO FilePath
plant folder = do
  let root = folder </> "tree"
      file path = writeFile (root </> path) ""
      folders = ["a", "m", "m/an empty one", "wide", "z"] ++ ["z" </> show i | i <- [1 .. 9 :: Int]]
  forM_ folders (createDirectoryIfMissing True . (root </>))
  forM_ unique $ \(_, path) -> do
    createDirectoryIfMissing True (root </> reverse (dropWhile (/= '/') (reverse path)))
    there <- doesDirectoryExist (root </> path)
    unless there (file path)
  forM_ [1 .. 2000 :: Int] $ \i -> file ("wide" </> "file-" <> show i)
  forM_ [3 .. 9 :: Int] $ \i -> file ("z" </> show i </> "many")
  pure root

-- | A program, its arguments before the name, and how many capabilities.
ancestors :: [(String, [String], [Int])]
ancestors = ("bench-findseq", [], [1]) : deterministic ++ guessing

deterministic :: [(String, [String], [Int])]
deterministic = [(program, [], [1, 2]) | program <- ["bench-findpar"] ++ withMonadPar ++ ["bench-findheddle"]]

-- | Built only where monad-par is installed.
withMonadPar :: [String]
#ifdef MONAD_PAR
withMonadPar = ["bench-findpar4", "bench-findpar5"]
#else
withMonadPar = []
#endif

-- | With the chapter's semaphore the answer may be another than the first.
guessing :: [(String, [String], [Int])]
guessing = ("bench-findpar3", [], [1, 2]) : [("bench-findpar2", [show n], [1, 2]) | n <- [0, 1, 8 :: Int]]

runs :: [(String, [String], [Int])] -> String -> FilePath -> IO [(String, (ExitCode, String, String))]
runs programs name root = fmap concat . forM programs $ \(program, units, capabilities) ->
  forM capabilities $ \n -> do
    let arguments = units ++ [name, root, "+RTS", "-N" <> show n]
    (,) (unwords (program : arguments)) <$> run (proc program arguments)

run :: CreateProcess -> IO (ExitCode, String, String)
run process = do
  ended <- timeout 60000000 (readCreateProcessWithExitCode process "")
  maybe (assertFailure (show (cmdspec process) <> " did not end within 60 s")) pure ended

searchTest :: IO FilePath -> String -> [FilePath] -> TestTree
searchTest getRoot name paths = testCase (show name) $ do
  root <- getRoot
  let answer = case paths of
        path : _ -> show (Just (root </> path))
        [] -> "Nothing"
  answers <- runs ancestors name root
  forM_ answers $ \(program, (code, out, err)) -> (program, code, out, err) @?= (program, ExitSuccess, answer <> "\n", "")
  walked <- walk [root, "-name", name]
  walked @?= [root </> path | path <- paths]

many :: IO FilePath -> IO ()
many getRoot = do
  root <- getRoot
  walked <- walk [root, "-name", "many"]
  sort walked @?= [root </> "z" </> show i </> "many" | i <- [3 .. 9 :: Int]]
  first <- runs (("bench-findseq", [], [1]) : deterministic) "many" root
  forM_ first $ \(program, (_, out, _)) -> (program, out) @?= (program, show (Just (root </> "z/3/many")) <> "\n")
  some <- runs guessing "many" root
  forM_ some $ \(program, (_, out, _)) ->
    assertBool (program <> ": " <> out) (out `elem` [show (Just path) <> "\n" | path <- walked])

walkAll :: IO FilePath -> IO ()
walkAll getRoot = do
  root <- getRoot
  walked <- walk [root]
  (_, out, _) <- run (proc "find" [root])
  sort walked @?= sort (lines out)

makeWalk :: IO ()
makeWalk = do
  (built, _, complaint) <- run (proc "make" ["-s", "build/walk"])
  (built, complaint) @?= (ExitSuccess, "")

-- | The lines that the C walk prints, which must end well.
walk :: [String] -> IO [String]
walk arguments = do
  (code, out, err) <- run (proc "build/walk" arguments)
  (code, err) @?= (ExitSuccess, "")
  pure (lines out)

-- | Root can read everything, so the programs then run as nobody.
errors :: FilePath -> IO ()
errors folder = do
  setFileMode folder 0o755
  let root = folder </> "closed"
  forM_ ["a", "b", "c"] (createDirectoryIfMissing True . (root </>))
  forM_ [("a", "left"), ("c", "right")] $ \(directory, name) -> writeFile (root </> directory </> name) ""
  bracket (setFileMode (root </> "b") 0) (const (setFileMode (root </> "b") 0o755)) $ \_ -> do
    user <- getRealUserID
    forM_ (["bench-findseq", "bench-findpar", "bench-findheddle"] ++ filter (== "bench-findpar5") withMonadPar) $ \program ->
      forM_ [1, 2 :: Int] $ \n -> do
        found <- findExecutable program
        path <- maybe (assertFailure (program <> " is not there")) pure found
        let copy = folder </> program
            as arguments
              | user == 0 = (proc copy arguments) {child_user = Just 65534, child_group = Just 65534}
              | otherwise = proc copy arguments
            search name = run (as [name, root, "+RTS", "-N" <> show n])
        -- By another process: one that is started meanwhile would inherit the open copy, which then could not be run.
        callProcess "cp" [path, copy]
        left <- search "left"
        (program, left) @?= (program, (ExitSuccess, show (Just (root </> "a/left")) <> "\n", ""))
        (code, out, err) <- search "right"
        (program, code, out) @?= (program, ExitFailure 1, "")
        assertBool (program <> ": " <> err) ((root </> "b") `isInfixOf` err)
