-- | The examples of a library's haddocks print what is written below them.
module Heddle.Testkit.Examples
  ( examplesPrint,
  )
where

import Data.Char (isSpace)
import Data.List (dropWhileEnd, isPrefixOf, isSuffixOf, sort, stripPrefix)
import Heddle.Testkit.Compile (packageDatabase)
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath (dropExtension, makeRelative, splitDirectories, (</>))
import System.Process (getCurrentPid, readProcess, readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

-- | An expression of a comment, where it stands, and the lines below it.
data Example = Example
  { exampleLine :: !Int,
    exampleExpression :: !String,
    exampleOutput :: ![String]
  }
  deriving stock (Eq, Show)

-- | The tests of the modules in @src@, where a suite finds it: Cabal starts suites in the package's folder. Given are
-- the packages that the examples use, and what a module's examples import besides the module.
examplesPrint :: [String] -> (String -> [String]) -> TestTree
examplesPrint packages context =
  testGroup
    "Examples"
    [ testCase "where they are found" $
        examplesOf ["-- | Text.", "--", "  -- >>> f 1", "  -- a", "  -- b", "-- >>> g", "--", "-- more", "-- >>> h", "h :: Int"]
          @?= [Example 3 "f 1" ["a", "b"], Example 6 "g" [], Example 9 "h" []],
      testCase "they print what they say" $ do
        files <- sort <$> haskellFiles "src"
        found <- mapM (\file -> (,) file . examplesOf . lines <$> readFile file) files
        let modules = [(moduleName file, file, examples) | (file, examples) <- found, not (null examples)]
        assertBool "there are examples" (length modules > 2)
        printed <- printedBy packages context modules
        let expected = concat [mark file example : exampleOutput example | (_, file, examples) <- modules, example <- examples]
        -- Those that differ, for a report that can be read.
        let different = [(is, should) | (is, should) <- zip (byMark printed) (byMark expected), is /= should]
        map fst different @?= map snd different
        length printed @?= length expected
    ]

-- | The line of an example, for reports.
mark :: FilePath -> Example -> String
mark file example = "\SOH" <> file <> ":" <> show (exampleLine example) <> ": " <> exampleExpression example

-- | Each mark with what follows it.
byMark :: [String] -> [(String, [String])]
byMark = \case
  [] -> []
  first : rest -> let (output, more) = break ("\SOH" `isPrefixOf`) rest in (drop 1 first, output) : byMark more

examplesOf :: [String] -> [Example]
examplesOf source = go (zip [1 ..] (map comment source))
  where
    go = \case
      [] -> []
      (n, Just line) : rest
        | Just expression <- stripPrefix ">>> " line ->
          let (output, more) = span (continues . snd) rest
           in Example n expression [text | (_, Just text) <- output] : go more
      _ : rest -> go rest
    continues = maybe False (\line -> not (null line) && not (">>>" `isPrefixOf` line))
    comment line = trimmed <$> stripPrefix "--" (dropWhile isSpace line)
    trimmed = dropWhileEnd isSpace . dropWhile isSpace

-- | Compile a program of them all, and run it.
printedBy :: [String] -> (String -> [String]) -> [(String, FilePath, [Example])] -> IO [String]
printedBy packages context modules = do
  database <- packageDatabase
  temporary <- getTemporaryDirectory
  process <- getCurrentPid
  let folder = temporary </> ("heddle-examples-" <> show process)
      numbered = zip [1 :: Int ..] modules
      program = folder </> "examples"
  removePathForcibly folder
  createDirectoryIfMissing True folder
  sequence_ [writeFile (folder </> ("Examples" <> show n <> ".hs")) (exampleModule context n m) | (n, m) <- numbered]
  writeFile (folder </> "Main.hs") . unlines $
    ["module Main (main) where"]
      <> ["import qualified Examples" <> show n | (n, _) <- numbered]
      <> ["main :: IO ()", "main = do"]
      <> ["  Examples" <> show n <> ".run" | (n, _) <- numbered]
  (status, _, complaints) <-
    readProcessWithExitCode
      "ghc"
      ( ["-v0", "-O0", "-w", "-fkeep-going", "-i" <> folder, "-package-db", database]
          <> concat [["-package", name] | name <- packages]
          <> ["-outputdir", folder, "-o", program, folder </> "Main.hs"]
      )
      ""
  output <- case status of
    ExitSuccess -> lines <$> readProcess program [] ""
    ExitFailure _ -> removePathForcibly folder >> assertFailure complaints
  removePathForcibly folder
  pure output

exampleModule :: (String -> [String]) -> Int -> (String, FilePath, [Example]) -> String
exampleModule context n (name, file, examples) =
  unlines $
    [ "{-# LANGUAGE ExtendedDefaultRules, OverloadedStrings #-}",
      "module Examples" <> show n <> " (run) where",
      "import " <> name
    ]
      <> context name
      <> ["run :: Prelude.IO ()", "run = do"]
      <> concat
        [ [ "  Prelude.putStrLn " <> show (mark file example),
            "  Prelude.print (",
            -- For the compiler's complaints.
            "{-# LINE " <> show (exampleLine example) <> " " <> show file <> " #-}",
            "    " <> exampleExpression example,
            "    )"
          ]
          | example <- examples
        ]

haskellFiles :: FilePath -> IO [FilePath]
haskellFiles folder = concat <$> (listDirectory folder >>= mapM (inside . (folder </>)))
  where
    inside path = do
      isFolder <- doesDirectoryExist path
      if isFolder then haskellFiles path else pure [path | ".hs" `isSuffixOf` path]

moduleName :: FilePath -> String
moduleName file = foldr1 (\a b -> a <> "." <> b) (splitDirectories (dropExtension (makeRelative "src" file)))
