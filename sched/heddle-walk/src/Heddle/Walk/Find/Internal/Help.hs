-- |
-- Module      : Heddle.Walk.Find.Internal.Help
-- Description : What find says about itself
-- Stability   : internal, exempt from the version policy
--
-- Texts of @-help@, @-version@ and @-D help@.
--
-- Cost: constants. Owner: values.
module Heddle.Walk.Find.Internal.Help
  ( helpText,
    versionText,
    debugHelp,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8

-- | The command line in brief.
helpText :: ByteString
helpText =
  Char8.pack . unlines $
    [ "Usage: heddle find [OPTION...] [PATH...] [EXPRESSION]",
      "",
      "Searches the trees at each PATH on all cores, and evaluates EXPRESSION for every",
      "entry. Default path: the current directory; default expression: -print.",
      "Without --ordered, entries come in no particular order.",
      "",
      "Options, before the paths:",
      "  -P -L -H             follow no symbolic links (default), all, those given as PATH",
      "  --ordered            output in depth-first order, names sorted by their bytes",
      "  --first              stop after the first entry, in that order, for which the",
      "                       expression is true",
      "  -j N, --jobs N       use N cores (default: all; 1: one entry after the other)",
      "  -O LEVEL, -D FLAGS   accepted for compatibility",
      "",
      "Operators, tightest first:",
      "  ( EXPR )   ! EXPR  -not EXPR   EXPR [-a] EXPR  EXPR -and EXPR",
      "  EXPR -o EXPR  EXPR -or EXPR   EXPR , EXPR",
      "",
      "Options in the expression (always true):",
      "  -depth  -maxdepth N  -mindepth N  -xdev  -mount  -files0-from FILE",
      "  -ignore_readdir_race  -noignore_readdir_race  -noleaf  -help  -version",
      "  for what follows: -daystart  -follow  -regextype TYPE  -warn  -nowarn",
      "",
      "Tests (N may be +N: more, or -N: less):",
      "  -name PATTERN  -path PATTERN  -wholename PATTERN  -lname PATTERN  -regex REGEX",
      "  -iname  -ipath  -iwholename  -ilname  -iregex     the same, small or capital",
      "  -type [bcdpfls]  -xtype [bcdpfls]  -empty  -size N[bcwkMG]  -links N  -inum N",
      "  -perm [-/]MODE  -user NAME  -group NAME  -uid N  -gid N  -nouser  -nogroup",
      "  -executable  -readable  -writable  -samefile FILE  -fstype TYPE  -true  -false",
      "  -amin N  -cmin N  -mmin N  -atime N  -ctime N  -mtime N  -used N",
      "  -newer FILE  -anewer FILE  -cnewer FILE",
      "  -newerXY REFERENCE   X: a, B, c or m of the entry; Y: of the file, or t: a date",
      "",
      "Actions:",
      "  -print  -print0  -printf FORMAT  -ls  -fprint FILE  -fprint0 FILE",
      "  -fprintf FILE FORMAT  -fls FILE  -delete  -prune  -quit",
      "  -exec COMMAND ;  -exec COMMAND {} +  -execdir ...  -ok COMMAND ;  -okdir ...",
      "",
      "Exit status: 0 when everything could be looked at, 1 otherwise.",
      "heddle-find(1), which is docs/manual/find.md, has the details, and what differs from GNU find."
    ]

-- | Name and version.
versionText :: ByteString
versionText =
  Char8.pack . unlines $
    [ "heddle find 0.1.0.0",
      "The expression language of GNU find 4.10.0, on all cores."
    ]

-- | What @-D@ takes.
debugHelp :: ByteString
debugHelp =
  Char8.pack . unlines $
    [ "Arguments for -D, accepted for compatibility and without effect:",
      "exec opt rates search stat time tree all"
    ]
