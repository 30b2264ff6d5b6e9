-- |
-- Module      : ServeProcess
-- Description : heddle serve's option for processes instead of threads
module ServeProcess
  ( processOptions,
    Role (..),
    roleOf,
    asWorker,
  )
where

import Heddle.Serve
import Options.Applicative

-- | How many processes.
processOptions :: Parser (Maybe Int)
processOptions =
  optional
    ( option
        (eitherReader number)
        (long "processes" <> metavar "N" <> help "Serve by N processes of one core each, which this one starts, watches, and starts again")
    )
  where
    number text = case reads text of
      [(n, "")] | n >= 1 && n <= (256 :: Int) -> Right n
      _ -> Left ("'" ++ text ++ "' is not a number of processes (1 to 256)")

-- | What this process is.
data Role = Alone | Worker | Supervisor !Int

-- | By the option and by what has started it.
roleOf :: Maybe Int -> IO Role
roleOf processes = do
  started <- isWorker
  pure (if started then Worker else maybe Alone Supervisor processes)

-- | What is the supervisor's is not a worker's; on one core.
asWorker :: ServeOptions -> ServeOptions
asWorker options = options {serveCores = Just 1, servePidFile = Nothing, serveSuccessor = Nothing, serveActivity = False}
