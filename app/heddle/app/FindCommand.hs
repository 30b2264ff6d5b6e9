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
import Heddle.Walk.Find (beginAlone, find)
import Options.Applicative
import System.Posix.Process (exitImmediately)

-- | Run with the arguments after @find@, and end the process.
findCommand :: [ByteString] -> IO ()
findCommand arguments =
  -- Everything has been written; the runtime's clean-up would take longer than a small search.
  beginAlone 1 >> find arguments >>= exitImmediately

-- | For the list of sub-commands, and for completion: the words of a search never come this way.
findInfo :: ParserInfo (IO ())
findInfo =
  info
    (findCommand [] <$ many (strArgument (completeWith vocabulary <> action "file") :: Parser String))
    -- Primaries are not options of ours, so they count as arguments.
    (progDesc "Search directory trees on all cores, in GNU find's language" <> forwardOptions)

-- Options before the paths, and primaries. The test compares them with `heddle find --help`.
vocabulary :: [String]
vocabulary =
  words
    "--ordered --first --jobs -P -L -H \
    \-not -and -or \
    \-depth -maxdepth -mindepth -xdev -mount -files0-from -ignore_readdir_race -noignore_readdir_race -noleaf -help \
    \-version -daystart -follow -regextype -warn -nowarn \
    \-name -path -wholename -lname -regex -iname -ipath -iwholename -ilname -iregex -type -xtype -empty -size -links \
    \-inum -perm -user -group -uid -gid -nouser -nogroup -executable -readable -writable -samefile -fstype -true \
    \-false -amin -cmin -mmin -atime -ctime -mtime -used -newer -anewer -cnewer -newermt \
    \-print -print0 -printf -ls -fprint -fprint0 -fprintf -fls -delete -prune -quit -exec -execdir -ok -okdir"
