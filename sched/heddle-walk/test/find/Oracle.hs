-- |
-- Module      : Oracle
-- Description : Our find and GNU's, side by side
--
-- Runs a command line with both and compares what they write, line by line in any order,
-- messages, and status. Ours is this very program, called with @--as-find@.
module Oracle
  ( Outcome (..),
    Tool (..),
    runTool,
    agree,
    agreeUnder,
    sameAsGnu,
    linesOf,
    withFixture,
    makeFixture,
  )
where

import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (sort)
import Heddle.Prim.Exception (bracket)
import System.Directory (createDirectory, createDirectoryIfMissing, getTemporaryDirectory, removePathForcibly)
import System.Environment (getEnvironment, getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO (IOMode (..), withBinaryFile)
import System.Posix.Files
import System.Posix.Temp (mkdtemp)
import System.Process
import System.Timeout (timeout)
import Test.Tasty.HUnit (Assertion, assertFailure)

-- | What a run wrote, and its status.
data Outcome = Outcome
  { outcomeOutput :: ByteString,
    outcomeErrors :: ByteString,
    outcomeStatus :: ExitCode
  }
  deriving stock (Eq, Show)

-- | Whose find.
data Tool = Ours | Gnu
  deriving stock (Eq, Show)

-- | Run in a directory, with some variables set and some input.
runTool :: [(String, String)] -> String -> FilePath -> Tool -> [String] -> IO Outcome
runTool variables input directory tool arguments = do
  self <- getExecutablePath
  environment <- getEnvironment
  temporary <- getTemporaryDirectory
  bracket (mkdtemp (temporary ++ "/heddle-find-run-")) removePathForcibly $ \scratch -> do
    let (program, words') = case tool of
          Ours -> (self, "--as-find" : arguments)
          Gnu -> ("find", arguments)
    writeFile (scratch ++ "/in") input
    status <-
      withBinaryFile (scratch ++ "/in") ReadMode $ \i ->
        withBinaryFile (scratch ++ "/out") WriteMode $ \o ->
          withBinaryFile (scratch ++ "/err") WriteMode $ \e ->
            withCreateProcess
              (proc program words')
                { cwd = Just directory,
                  env = Just (variables ++ filter ((`notElem` map fst variables) . fst) environment),
                  std_in = UseHandle i,
                  std_out = UseHandle o,
                  std_err = UseHandle e
                }
              $ \_ _ _ process -> timeout 60000000 (waitForProcess process)
    Outcome
      <$> Bytes.readFile (scratch ++ "/out")
      <*> Bytes.readFile (scratch ++ "/err")
      <*> maybe (assertFailure ("no end within a minute: " ++ unwords arguments)) pure status

-- | Lines and NUL-terminated records, sorted.
linesOf :: ByteString -> [ByteString]
linesOf = sort . Char8.lines . Char8.map (\c -> if c == '\0' then '\n' else c)

-- | Both must do the same.
agree :: FilePath -> [String] -> Assertion
agree = agreeUnder []

-- | The same, with variables set.
agreeUnder :: [(String, String)] -> FilePath -> [String] -> Assertion
agreeUnder variables directory arguments = do
  difference <- sameAsGnu variables directory arguments
  forM_ difference assertFailure

-- | What differs, if anything.
sameAsGnu :: [(String, String)] -> FilePath -> [String] -> IO (Maybe String)
sameAsGnu variables directory arguments = do
  gnu <- runTool variables "" directory Gnu arguments
  -- ls writes a message in pieces, which several at a time would mix.
  ours <- runTool variables "" directory Ours (["-j1" | "ls" `elem` arguments] ++ arguments)
  let summary o = (linesOf (outcomeOutput o), linesOf (outcomeErrors o), outcomeStatus o)
  pure $
    if summary gnu == summary ours
      then Nothing
      else Just (show arguments ++ "\nGNU:  " ++ show gnu ++ "\nours: " ++ show ours)

-- | A tree with something of everything, for the time of an action.
withFixture :: (FilePath -> IO a) -> IO a
withFixture = bracket makeFixture removePathForcibly

-- | A tree with something of everything; the caller removes it.
makeFixture :: IO FilePath
makeFixture = do
  temporary <- getTemporaryDirectory
  top <- mkdtemp (temporary ++ "/heddle-find-tree-")
  let at name = top ++ "/" ++ name
      file name text = Bytes.writeFile (at name) (Char8.pack text)
  mapM_ (createDirectory . at) ["d", "u", "empty", "st"]
  createDirectoryIfMissing True (at "deep/er/e")
  file "a" "hi\n"
  mapM_ (`file` "") ["d/b", "old", "new", "sp ace\"\\\n\t\SOH\195\169\255", "re\nx", "abab", "x{}", "\255.txt", "\195\169.txt", "su", "-dash", ".hidden"]
  file "five" (replicate 5000 'z')
  file "script" "echo script \"$@\"\n"
  setFileMode (at "script") 0o755
  setFileSize (at "old") 5000000
  forM_ [("a", "l"), ("nowhere", "broken"), ("loop", "loop"), ("../d", "deep/ld"), ("..", "deep/up"), ("d", "ld")] $ \(to, name) ->
    createSymbolicLink to (at name)
  createLink (at "a") (at "hard")
  createNamedPipe (at "pp") 0o644
  setFileMode (at "st") 0o1777
  setFileMode (at "deep") 0o2755
  setFileMode (at "su") 0o4755
  setFileMode (at "abab") 0o000
  setFileTimes (at "old") 1577934245 1577934245
  setFileTimes (at "new") 4000000000 4000000000
  now <- modificationTime <$> getFileStatus (at "a")
  forM_ [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5 :: Double] $ \days -> do
    let name = "u/x" ++ show days
    file name ""
    let moment = now + fromIntegral (truncate (days * 86400) :: Int)
    setFileTimes (at name) moment moment
  writeFile (at "d/starts") ""
  Bytes.writeFile (at "starts") (Char8.pack "a\0d\0nope")
  present <- fileExist (at "a")
  unless present (assertFailure "no fixture")
  pure top
