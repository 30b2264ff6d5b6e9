-- |
-- Module      : Main
-- Description : heddle-mpirun: start a job
-- Stability   : stable
--
-- Runs the launcher of an MPI with defaults that suit Haskell programs on this machine: more
-- processes than cores are allowed, and then give way to each other; none is bound to a core;
-- root may start jobs; each process gets its share of the cores as capabilities.
--
-- Cost: asks Open MPI's launcher for its version (5 ms with 5.0.7), then becomes the launcher; nothing stays.
module Main
  ( main,
  )
where

import Control.Monad (unless, void, when)
import Data.Char (isAlphaNum, isAscii, isDigit)
import Data.Foldable qualified as Foldable (asum)
import Data.List (isSuffixOf)
import Data.Maybe (catMaybes, fromMaybe)
import Data.String (fromString)
import Heddle.Prim.Thread (getProcessors)
import Options.Applicative
import Options.Applicative.Help (Doc, indent, vsep)
import System.Directory (doesDirectoryExist, doesFileExist, executable, findExecutable, getPermissions)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)
import System.IO.Error (catchIOError)
import System.Posix.Process (executeFile)
import System.Posix.Signals (Handler (Ignore), installHandler, sigPIPE)
import System.Posix.User (getEffectiveUserID)
import System.Process (readProcess)
import Text.Read (readMaybe)

data Options = Options
  { optionRanks :: !Int,
    optionMpi :: !(Maybe Implementation),
    optionCapabilities :: !(Maybe Int),
    optionSpin :: !(Maybe Int),
    optionShow :: !Bool,
    optionProgram :: !FilePath,
    optionArguments :: ![String]
  }

data Implementation = OpenMpi | Mpich
  deriving stock (Bounded, Enum, Eq)

nameOf :: Implementation -> String
nameOf OpenMpi = "openmpi"
nameOf Mpich = "mpich"

options :: ParserInfo Options
options =
  info (parser <**> helper) $
    fullDesc
      <> noIntersperse
      <> failureCode 2
      <> progDesc "Start N processes of a program, which communicate by MPI"
      <> footerDoc (Just explanation)
  where
    parser =
      Options
        <$> option (number "processes" 1) (short 'n' <> long "ranks" <> metavar "N" <> help "How many processes")
        <*> optional (option implementation (long "mpi" <> metavar "openmpi|mpich" <> help "Whose launcher (default: what HEDDLE_MPI says, else the one that is installed, Open MPI first)"))
        <*> optional (option (number "capabilities" 1) (long "capabilities" <> metavar "N" <> help "Haskell capabilities of each process (default: cores divided by processes)"))
        <*> optional (option (number "microseconds" 0) (long "spin" <> metavar "MICROSECONDS" <> help "How long a waiting process keeps its core (default: 1000; 20 if there are more processes than cores)"))
        <*> switch (long "show" <> help "Print the command and its environment, as a shell takes them, instead of running it")
        <*> strArgument (metavar "PROGRAM" <> help "What to run: found on PATH, or else in the working directory")
        <*> many (strArgument (metavar "ARGUMENT..."))
    number :: String -> Int -> ReadM Int
    number what least = eitherReader $ \given -> case reads given of
      [(n, "")] | n >= toInteger least && n <= 1000000 -> Right (fromInteger n)
      _ -> Left ("not a number of " ++ what ++ " from " ++ show least ++ " to 1000000: " ++ given)
    implementation = eitherReader $ \given -> maybe (Left ("not openmpi or mpich: " ++ given)) Right (implementationOf given)

implementationOf :: String -> Maybe Implementation
implementationOf given = lookup given [(nameOf i, i) | i <- [minBound ..]]

explanation :: Doc
explanation =
  vsep
    [ fromString "Example: heddle-mpirun -n 4 ./heat 1000. A program runs alone without any launcher.",
      fromString "",
      fromString "Variables; an option comes before its variable, a variable before what is usual:",
      indent 2 . vsep . map fromString $
        [ "HEDDLE_MPI               openmpi or mpich: whose launcher, and in a program whose library",
          "HEDDLE_MPI_LIBRARY       the file of that library, if it is not where the system looks",
          "HEDDLE_MPI_CAPABILITIES  as --capabilities; +RTS -N in the program's arguments has no effect",
          "HEDDLE_MPI_SPIN          as --spin",
          "HEDDLE_MPI_NAP           the longest time in microseconds between two looks at a message",
          "                         that a parked thread waits for (1000)",
          "HEDDLE_MPI_LEAKS         set: tell at the end what was not closed",
          "OMPI_MCA_..., PRTE_...   Open MPI's parameters; those that are set stay",
          "MPIR_CVAR_...            MPICH's parameters; those that are set stay"
        ],
      fromString "",
      fromString "Exit codes: that of the job, as its launcher says; 2 if it cannot be started. Ctrl-C ends it."
    ]

main :: IO ()
main = do
  chosen <- customExecParser (prefs showHelpOnEmpty) options
  inherited <- getEnvironment
  let asked = optionMpi chosen <|> (lookup "HEDDLE_MPI" inherited >>= implementationOf)
  found <- catMaybes <$> mapM launcher (maybe [minBound ..] pure asked)
  case found of
    [] -> refuse ("there is no launcher of " ++ maybe "any MPI" nameOf asked ++ " on the PATH.\n  " ++ maybe "Debian has two: apt-get install openmpi-bin, or mpich." install asked)
    (implementation, path) : _ -> do
      program <- programAt (optionProgram chosen)
      when (":" `elem` optionArguments chosen) $
        refuse "an argument ':' is where the launchers of MPI begin another program; there is no way to pass it on.\n  Give the program that argument in another form."
      processors <- getProcessors
      root <- (== 0) <$> getEffectiveUserID
      release <- releaseOf implementation path
      let ranks = optionRanks chosen
          capabilities = fromMaybe (max 1 (processors `div` ranks)) (optionCapabilities chosen)
          -- These are so, whatever the user has set; the others only where nothing is set.
          fixed =
            ("HEDDLE_MPI", nameOf implementation) :
            [("HEDDLE_MPI_CAPABILITIES", show n) | Just n <- [optionCapabilities chosen]]
              ++ [("HEDDLE_MPI_SPIN", show n) | Just n <- [optionSpin chosen]]
          usual = ("HEDDLE_MPI_CAPABILITIES", show capabilities) : defaults release root (ranks > processors)
          ours = fixed ++ [entry | entry@(name, _) <- usual, lookup name (fixed ++ inherited) == Nothing]
          environment = ours ++ [entry | entry@(name, _) <- inherited, lookup name ours == Nothing]
          arguments = launch implementation ranks ++ [program] ++ optionArguments chosen
          ignoring = ignoresSigPipe implementation
      if optionShow chosen
        then putStrLn (unwords (["env --ignore-signal=PIPE" | ignoring] ++ [name ++ "=" ++ quoted setting | (name, setting) <- ours] ++ map quoted (path : arguments)))
        else do
          when ignoring (void (installHandler sigPIPE Ignore Nothing))
          executeFile path False arguments (Just environment) `catchIOError` \e -> refuse (path ++ " cannot be started: " ++ show e ++ ".")

install :: Implementation -> String
install OpenMpi = "Debian: apt-get install openmpi-bin."
install Mpich = "Debian: apt-get install mpich."

-- As a shell takes it for one word.
quoted :: String -> String
quoted word
  | not (null word) && all plain word = word
  | otherwise = "'" ++ concatMap (\c -> if c == '\'' then "'\\''" else [c]) word ++ "'"
  where
    plain c = isAscii c && (isAlphaNum c || c `elem` "_-+./:,@%=")

-- Where its launcher is.
launcher :: Implementation -> IO (Maybe (Implementation, FilePath))
launcher implementation = fmap ((,) implementation) . Foldable.asum <$> mapM findExecutable (names implementation)
  where
    names OpenMpi = ["mpirun.openmpi", "orterun", "prterun"]
    names Mpich = ["mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra"]

-- With a slash, so that no launcher looks for it again.
programAt :: FilePath -> IO FilePath
programAt name = do
  onPath <- if '/' `elem` name then pure Nothing else findExecutable name
  case onPath of
    Just path -> pure path
    Nothing -> do
      directory <- doesDirectoryExist name
      there <- doesFileExist name
      when directory (refuse (name ++ " is a directory, not a program."))
      unless there (refuse ("there is no program " ++ name ++ (if '/' `elem` name then "." else " on the PATH or in the working directory.")))
      may <- executable <$> getPermissions name
      unless may (refuse (name ++ " is not a program that may be executed.\n  If it is one, allow it: chmod +x " ++ quoted name))
      pure (if '/' `elem` name then name else "./" ++ name)

launch :: Implementation -> Int -> [String]
launch OpenMpi ranks = ["--bind-to", "none", "-n", show ranks]
launch Mpich ranks = ["-n", show ranks]

-- MPICH 4.2's launcher tells a process of the end of its standard input through a socket that is closed already if the
-- processes were quick, and SIGPIPE then ends the job. Only the launcher ignores the signal: what starts the processes sets
-- its own handler, so they have the default again.
ignoresSigPipe :: Implementation -> Bool
ignoresSigPipe implementation = implementation == Mpich

-- | An implementation with the settings that its releases understand.
data Release = OpenMpi4 | OpenMpi5 | OpenMpi6 | AnyMpich

-- Open MPI 5 has another launcher, of which it tells only when it is called by its own name.
releaseOf :: Implementation -> FilePath -> IO Release
releaseOf Mpich _ = pure AnyMpich
releaseOf OpenMpi path = do
  said <- readProcess path ["--version"] "" `catchIOError` \e -> refuse (path ++ " does not tell its version: " ++ show e ++ ".")
  -- As in: mpirun.openmpi (OpenRTE) 4.1.4, mpirun.openmpi (Open MPI) 5.0.7, prterun (PRRTE) 3.0.8, which is the latter's.
  pure $ case [(name, major) | (name, version) <- zip (words said) (drop 1 (words said)), ")" `isSuffixOf` name, Just major <- [readMaybe (takeWhile isDigit version)]] of
    (name, major) : _
      | major + ahead < (5 :: Int) -> OpenMpi4
      | major + ahead == 5 -> OpenMpi5
      where
        ahead = if name == "(PRRTE)" then 2 else 0
    _ -> OpenMpi6

-- Variables of the implementation.
defaults :: Release -> Bool -> Bool -> [(String, String)]
defaults release root crowded = case release of
  OpenMpi4 ->
    [("OMPI_MCA_rmaps_base_oversubscribe", "1")]
      ++ eachOpenMpi
      -- Where a process may not read another's memory, it only complains.
      ++ [("OMPI_MCA_btl_vader_single_copy_mechanism", "none")]
  OpenMpi5 -> ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe") : ("OMPI_MCA_reachable", "weighted") : eachOpenMpi
  OpenMpi6 -> ("PRTE_MCA_mapby", ":oversubscribe") : ("OMPI_MCA_reachable", "weighted") : eachOpenMpi
  AnyMpich -> [("MPIR_CVAR_POLLS_BEFORE_YIELD", "1") | crowded]
  where
    -- OMPI_MCA_reachable: the usual way asks the kernel for routes, and finds none between two processes on a machine
    -- without a network.
    eachOpenMpi =
      [(name, "1") | root, name <- ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]]
        ++ [("OMPI_MCA_mpi_yield_when_idle", "1") | crowded]

refuse :: String -> IO a
refuse message = hPutStrLn stderr ("heddle-mpirun: " ++ message) >> exitWith (ExitFailure 2)
