-- |
-- Module      : Main
-- Description : heddle-mpirun: start a job
-- Stability   : stable
--
-- Runs the launcher of an MPI with defaults that suit Haskell programs on this machine: more
-- processes than cores are allowed, and then give way to each other; none is bound to a core;
-- root may start jobs; each process gets its share of the cores as capabilities.
--
-- Cost: becomes the launcher; nothing stays.
module Main
  ( main,
  )
where

import Data.Maybe (catMaybes, fromMaybe)
import GHC.Conc (getNumProcessors)
import Options.Applicative
import System.Directory (doesFileExist, findExecutable)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)
import System.Posix.Process (executeFile)
import System.Posix.User (getEffectiveUserID)

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
      <> progDesc "Start N processes of a program, which communicate by MPI"
      <> footer "Example: heddle-mpirun -n 4 ./heat 1000. A program runs alone without any launcher."
  where
    parser =
      Options
        <$> option (positive "processes") (short 'n' <> long "ranks" <> metavar "N" <> help "How many processes")
        <*> optional (option implementation (long "mpi" <> metavar "openmpi|mpich" <> help "Whose launcher (default: the one that is installed, Open MPI first)"))
        <*> optional (option (positive "capabilities") (long "capabilities" <> metavar "N" <> help "Haskell capabilities of each process (default: cores divided by processes)"))
        <*> optional (option auto (long "spin" <> metavar "MICROSECONDS" <> help "How long a waiting process keeps its core (default: 1000; 20 if there are more processes than cores)"))
        <*> switch (long "show" <> help "Print the command and its environment instead of running it")
        <*> strArgument (metavar "PROGRAM" <> help "What to run; found as the shell finds it")
        <*> many (strArgument (metavar "ARGUMENT..."))
    positive what = eitherReader $ \text -> case reads text of
      [(n, "")] | n >= 1 && n <= (1000000 :: Int) -> Right n
      _ -> Left ("not a number of " ++ what ++ ": " ++ text)
    implementation = eitherReader $ \text -> case [i | i <- [minBound ..], nameOf i == text] of
      i : _ -> Right i
      [] -> Left ("not openmpi or mpich: " ++ text)

main :: IO ()
main = do
  chosen <- customExecParser (prefs (noBacktrack <> showHelpOnEmpty)) options
  found <- catMaybes <$> mapM launcher (maybe [minBound ..] pure (optionMpi chosen))
  case found of
    [] -> die' ("there is no launcher of " ++ maybe "any MPI" nameOf (optionMpi chosen) ++ ".\n  Debian has two: apt-get install openmpi-bin, or mpich.")
    (implementation, path) : _ -> do
      program <- programAt (optionProgram chosen)
      processors <- getNumProcessors
      root <- (== 0) <$> getEffectiveUserID
      inherited <- getEnvironment
      let ranks = optionRanks chosen
          crowded = ranks > processors
          capabilities = fromMaybe (max 1 (processors `div` ranks)) (optionCapabilities chosen)
          ours =
            [("HEDDLE_MPI", nameOf implementation), ("HEDDLE_MPI_CAPABILITIES", show capabilities)]
              ++ [("HEDDLE_MPI_SPIN", show n) | Just n <- [optionSpin chosen]]
              ++ defaults implementation root crowded
          -- What the user has set stays, but for which MPI it is.
          environment = ours' ++ [entry | entry@(name, _) <- inherited, name `notElem` map fst ours']
            where
              ours' = [entry | entry@(name, _) <- ours, name == "HEDDLE_MPI" || lookup name inherited == Nothing]
          arguments = launch implementation ranks ++ [program] ++ optionArguments chosen
      if optionShow chosen
        then putStrLn (unwords ([name ++ "=" ++ setting | (name, setting) <- ours] ++ path : arguments))
        else executeFile path False arguments (Just environment)

-- Where its launcher is.
launcher :: Implementation -> IO (Maybe (Implementation, FilePath))
launcher implementation = go (names implementation)
  where
    go [] = pure Nothing
    go (name : others) = findExecutable name >>= maybe (go others) (\path -> pure (Just (implementation, path)))
    names OpenMpi = ["mpirun.openmpi", "orterun", "prterun"]
    names Mpich = ["mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra"]

programAt :: FilePath -> IO FilePath
programAt name = do
  here <- doesFileExist name
  onPath <- if '/' `elem` name then pure Nothing else findExecutable name
  case onPath <|> (if here then Just name else Nothing) of
    Just path -> pure (if '/' `elem` path then path else "./" ++ path)
    Nothing -> die' ("there is no program " ++ name ++ ".")

launch :: Implementation -> Int -> [String]
launch OpenMpi ranks = ["--bind-to", "none", "-n", show ranks]
launch Mpich ranks = ["-n", show ranks]

-- Variables of the implementation, where the user has not set them.
defaults :: Implementation -> Bool -> Bool -> [(String, String)]
defaults OpenMpi root crowded =
  [("OMPI_MCA_rmaps_base_oversubscribe", "1")]
    ++ [(name, "1") | root, name <- ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]]
    ++ [("OMPI_MCA_mpi_yield_when_idle", "1") | crowded]
    -- Where a process may not read another's memory, it only complains.
    ++ [("OMPI_MCA_btl_vader_single_copy_mechanism", "none")]
defaults Mpich _ crowded = [("MPIR_CVAR_POLLS_BEFORE_YIELD", "1") | crowded]

die' :: String -> IO a
die' message = hPutStrLn stderr ("heddle-mpirun: " ++ message) >> exitWith (ExitFailure 2)
