{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Oracle
-- Description : Our find and GNU's, side by side
--
-- Runs a command line with both and compares what they write, line by line in any order,
-- messages, and status. Ours is this very program, called with @--as-find@, or the program that
-- HEDDLE_FIND names, called with @find@: @heddle@, whose start-up lacks GHC's event manager. It
-- follows findutils 4.10; with another release, what has changed is not compared.
module Oracle
  ( Outcome (..),
    Tool (..),
    runTool,
    ourCommand,
    agree,
    agreeUnder,
    sameAsGnu,
    messages,
    calledFind,
    meansTheSame,
    linesOf,
    withFixture,
    makeFixture,
  )
where

import Control.Monad (forM_, unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (isInfixOf, sort)
import Heddle.Prim.Exception (bracket)
import System.Directory (createDirectory, createDirectoryIfMissing, getTemporaryDirectory, removePathForcibly)
import System.Environment (getEnvironment, getExecutablePath, lookupEnv)
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
  ours <- ourCommand
  environment <- getEnvironment
  temporary <- getTemporaryDirectory
  bracket (mkdtemp (temporary ++ "/heddle-find-run-")) removePathForcibly $ \scratch -> do
    let (program, words') = case tool of
          Ours -> (fst ours, snd ours : arguments)
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
      <*> (calledFind <$> Bytes.readFile (scratch ++ "/err"))
      <*> maybe (assertFailure ("no end within a minute: " ++ unwords arguments)) pure status

-- | Our program, and its first argument.
ourCommand :: IO (FilePath, String)
ourCommand = lookupEnv "HEDDLE_FIND" >>= maybe (flip (,) "--as-find" <$> getExecutablePath) (pure . flip (,) "find")

-- | The messages of @heddle find@ as those of @find@.
calledFind :: ByteString -> ByteString
calledFind text = case Bytes.breakSubstring "heddle find" text of
  (start, rest)
    | Bytes.null rest -> start
    | otherwise -> Bytes.concat [start, "find", calledFind (Bytes.drop 11 rest)]

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
  means <- meansTheSame arguments
  if not means
    then pure Nothing
    else do
      gnu <- runTool variables "" directory Gnu arguments
      -- ls writes a message in pieces, which several at a time would mix.
      ours <- runTool variables "" directory Ours (["-j1" | "ls" `elem` arguments] ++ arguments)
      (theirMessages, ourMessages) <- messages arguments gnu ours
      pure $
        if (linesOf (outcomeOutput gnu), outcomeStatus gnu) == (linesOf (outcomeOutput ours), outcomeStatus ours) && theirMessages == ourMessages
          then Nothing
          else Just (show arguments ++ "\nGNU:  " ++ show gnu ++ "\nours: " ++ show ours)

-- | The lines of both on standard error, as far as they can be compared: those of releases before findutils 4.10 are
-- translated; later ones have other words, so that only the presence of an error is compared.
messages :: [String] -> Outcome -> Outcome -> IO ([ByteString], [ByteString])
messages arguments gnu ours =
  gnuRelease >>= \release -> pure $ case compare release [4, 10] of
    LT -> (sort (concatMap (map plainQuotes . translate arguments) theirs), sort (map plainQuotes mine))
    EQ -> (theirs, mine)
    GT -> (any' theirs, any' mine)
  where
    theirs = linesOf (outcomeErrors gnu)
    mine = linesOf (outcomeErrors ours)
    any' ls = ["an error" | not (all ("warning: " `Bytes.isInfixOf`) ls)]

-- Of the find on this machine, as far as the second number.
gnuRelease :: IO [Int]
gnuRelease = do
  version <- readProcess "find" ["--version"] ""
  case map reads (take 2 (dotted (last ("" : words (takeWhile (/= '\n') version))))) of
    [(major, "") : _, (minor, "") : _] -> pure [major, minor]
    _ -> assertFailure ("which find is this? " ++ version)
  where
    dotted text = case break (== '.') text of
      (part, _ : rest) -> part : dotted rest
      (part, []) -> [part]

-- | Does this command line mean the same in all releases? Before 4.10 a link in a circle was an error, numbers of users
-- had 31 bits and no plus sign, and the name of the root was a mistake; since 4.11 no braces may be in the name of a
-- program that is run in another directory.
meansTheSame :: [String] -> IO Bool
meansTheSame arguments =
  gnuRelease >>= \release -> pure . not $ case compare release [4, 10] of
    LT ->
      "-xtype" `elem` arguments
        || or [owner `elem` ["-user", "-group"] && name `elem` ["+0", "2147483648", "4294967295"] | (owner, name) <- pairs]
        || ("-name", "/") `elem` pairs
    EQ -> False
    GT -> or [primary `elem` ["-execdir", "-okdir"] && "{}" `isInfixOf` program | (primary, program) <- pairs]
  where
    pairs = zip arguments (drop 1 arguments)

-- What 4.10 says for a line of 4.9.
translate :: [String] -> ByteString -> [ByteString]
translate arguments line
  | Bytes.null line = []
  | Just (text, word) <- invalid, word `elem` ["-uid", "-gid", "-links", "-inum"] = ["find: non-numeric argument to " <> word <> ": '" <> text <> "'"]
  | Just name <- quoted "is not the name of a known user" = [badUser name]
  | Just name <- quoted "is not the name of an existing group" = [badGroup name]
  | line == "find: The argument to -user should not be empty" = [badUser ""]
  | line == "find: argument to -group is empty, but should be a group name" = [badGroup ""]
  | Just name <- between "find: " ": Numerical result out of range" line,
    (owner : _) <- [o | (o, n) <- zip arguments (drop 1 arguments), Char8.pack n == name, o `elem` ["-user", "-group"]] =
    [(if owner == "-user" then badUser else badGroup) name]
  | otherwise = [line]
  where
    invalid = do
      rest <- between "find: invalid argument `" "'" line
      let (text, word) = Bytes.breakSubstring "' to `" rest
      pure (text, Bytes.drop 6 word)
    -- What comes after may be a hint.
    quoted text = between "find: '" "'" . Char8.dropWhileEnd (/= '\'') =<< before text
    before text = case Bytes.breakSubstring text (plainQuotes line) of
      (start, rest) | Bytes.null rest -> Nothing | otherwise -> Just start
    badUser name = "find: invalid user name or UID argument to -user: '" <> name <> "'"
    badGroup name = "find: invalid group name or GID argument to -group: '" <> name <> "'"
    between start end text = Bytes.stripPrefix start text >>= Bytes.stripSuffix end

-- Those of every locale are those of the C locale.
plainQuotes :: ByteString -> ByteString
plainQuotes text = case Bytes.breakSubstring "\226\128" text of
  (start, rest)
    | Bytes.null rest -> start
    | Bytes.take 1 (Bytes.drop 2 rest) `elem` ["\152", "\153"] -> start <> "'" <> plainQuotes (Bytes.drop 3 rest)
    | otherwise -> start <> Bytes.take 2 rest <> plainQuotes (Bytes.drop 2 rest)

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
  mapM_ (`file` "") ["d/b", "old", "new", "sp ace\"\\\n\t\SOH\a\b\f\r\v\195\169\255", "re\nx", "abab", "x{}", "\255.txt", "\195\169.txt", "su", "-dash", ".hidden"]
  file "five" (replicate 5000 'z')
  file "script" "echo script \"$@\"\n"
  setFileMode (at "script") 0o755
  setFileSize (at "old") 5000000
  forM_ [("a", "l"), ("nowhere", "broken"), ("loop", "loop"), ("../d", "deep/ld"), ("..", "deep/up"), ("d", "ld"), ("a/x", "through")] $ \(to, name) ->
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
