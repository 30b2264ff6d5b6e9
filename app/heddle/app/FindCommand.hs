-- |
-- Module      : FindCommand
-- Description : heddle find
--
-- Hands the rest of the command line to the expression language as it came: bytes, in no
-- particular encoding, with words that other sub-commands would take for options.
--
-- The runtime starts without GHC's event manager (see @cbits/heddle_main.c@): nothing here may
-- wait for a descriptor through a 'System.IO.Handle' or 'GHC.Conc.threadWaitRead'.
module FindCommand
  ( findCommand,
    findInfo,
  )
where

import Data.ByteString (ByteString)
import Heddle.Walk.Find (find)
import Options.Applicative
import System.Posix.Process (exitImmediately)

-- | Run with the arguments after @find@, and end the process.
findCommand :: [ByteString] -> IO ()
findCommand arguments =
  -- Everything has been written; the runtime's clean-up would take longer than a small search.
  find arguments >>= exitImmediately

-- | For the list of sub-commands only; the words never come this way.
findInfo :: ParserInfo (IO ())
findInfo = info (pure (findCommand [])) (progDesc "Search directory trees on all cores, in GNU find's language")
