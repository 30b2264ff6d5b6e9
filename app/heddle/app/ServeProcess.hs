-- |
-- Module      : ServeProcess
-- Description : Processes instead of threads
module ServeProcess
  ( Role (..),
    roleOf,
    asWorker,
  )
where

import Heddle.Serve

-- | What this process is.
data Role = Alone | Worker | Supervisor !Int

-- | By the number of processes that is wanted and by what has started it.
roleOf :: Maybe Int -> IO Role
roleOf processes = do
  started <- isWorker
  pure (if started then Worker else maybe Alone Supervisor processes)

-- | What is the supervisor's is not a worker's; on one core.
asWorker :: ServeOptions -> ServeOptions
asWorker options = options {serveCores = Just 1, servePidFile = Nothing, serveSuccessor = Nothing, serveActivity = False}
