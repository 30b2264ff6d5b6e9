-- |
-- Module      : FindCommand
-- Description : heddle find
--
-- Hands the rest of the command line to the expression language as it came: bytes, in no
-- particular encoding, with words that other sub-commands would take for options.
module FindCommand
  ( findCommand,
    findInfo,
  )
where

import Data.ByteString (ByteString)
import Heddle.Prim.Thread (labelMe)
import Heddle.Walk.Find (find)
import Options.Applicative
import System.IO (hFlush, stderr, stdout)
import System.Posix.Process (exitImmediately)
import System.Posix.Signals (Handler (..), installHandler, sigPIPE)

-- | Run with the words behind @find@, and end the process.
findCommand :: [ByteString] -> IO ()
findCommand arguments = do
  labelMe "heddle/find"
  -- As every C program: whose reader has gone, ends quietly.
  _ <- installHandler sigPIPE Default Nothing
  status <- find arguments
  mapM_ hFlush [stdout, stderr]
  -- Everything has ended; the runtime's own farewell would take longer than a small search.
  exitImmediately status

-- | For the list of sub-commands only; the words never come this way.
findInfo :: ParserInfo (IO ())
findInfo = info (pure (findCommand [])) (progDesc "Search directory trees on all cores, in GNU find's language")
