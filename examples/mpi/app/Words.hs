-- |
-- Module      : Main
-- Description : heddle-word-count: the words of files, by all ranks
-- Stability   : example
--
-- Exit codes: 0 after an answer, 2 when the command line is wrong or a file cannot be read.
module Main
  ( main,
  )
where

import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as C
import Data.Map.Strict qualified as Map
import Heddle.MPI
import Heddle.Prim.Exception (IOException, try)
import Mpi.Words
import Options.Applicative
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)

options :: ParserInfo (Int, [FilePath])
options =
  info
    (((,) <$> top <*> some (strArgument (metavar "FILE..." <> help "Texts, which rank 0 reads"))) <**> helper)
    ( fullDesc
        <> failureCode 2
        <> progDesc "Count the words of texts, and show the most frequent ones"
        <> footer "Example: heddle-mpirun -n 4 heddle-word-count --top 20 book.txt"
    )
  where
    top = option count (long "top" <> short 'n' <> metavar "N" <> value 10 <> showDefault <> help "How many words to show")
    count = eitherReader $ \text -> case reads text of
      [(n, "")] | n >= 0 && n <= (1000000000 :: Integer) -> Right (fromInteger n)
      _ -> Left ("not a number of words: " ++ text)

main :: IO ()
main = do
  (top, files) <- customExecParser (prefs showHelpOnEmpty) options
  mpi $ do
    rank <- commRank commWorld
    -- An exit on one rank ends all.
    text <- if rank == 0 then C.intercalate (C.pack "\n") <$> mapM contents files else pure C.empty
    found <- distributed commWorld text
    forM_ found $ \counts -> do
      putStrLn (show (sum (Map.elems counts)) ++ " words, " ++ show (Map.size counts) ++ " different ones")
      forM_ (mostFrequent top counts) (\(word, times) -> C.putStrLn (C.pack (show times ++ " ") <> word))
  where
    contents file =
      try (C.readFile file) >>= \case
        Right text -> pure text
        Left e -> do
          hPutStrLn stderr ("heddle-word-count: cannot read " ++ show (e :: IOException))
          exitWith (ExitFailure 2)
