{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Options
-- Description : What a walk is told before it starts
-- Stability   : internal, exempt from the version policy
--
-- Options, control and errors of a walk.
--
-- Cost: values.
-- Owner: the caller.
module Heddle.Walk.Internal.Options
  ( -- * Options
    WalkOptions (..),
    defaultWalkOptions,
    Follow (..),
    Order (..),
    OnError (..),

    -- * What a visitor answers
    WalkControl (..),

    -- * What went wrong
    WalkError (..),
    RawPath,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Foreign.C.Types (CInt)
import Heddle.Prim.Errno (Errno, errnoSentence, errnoSymbol)
import Heddle.Prim.Exception (Exception (..))

-- | A path as the kernel knows it: bytes, without a NUL, in no particular encoding.
type RawPath = ByteString

-- | Which symbolic links are followed.
data Follow
  = -- | None (find's @-P@).
    FollowNone
  | -- | Those given as starting points (@-H@).
    FollowRoots
  | -- | All (@-L@); directories that are their own ancestors are refused.
    FollowAll
  deriving stock (Eq, Show)

-- | In which order entries are visited, or seem to be.
data Order
  = -- | The fastest, which differs from run to run.
    AnyOrder
  | -- | Starting points as given, names by their bytes, a directory's contents directly
    -- after (or before) it. Visitors still run in parallel: it is the output that
    -- comes in this order, and a 'Quit' that cuts off what is to its right.
    Sorted
  deriving stock (Eq, Show)

-- | What an error of the walk (an unreadable directory) does.
data OnError
  = -- | A message in GNU find's words on 'walkErrors'; the walk goes on.
    ReportErrors
  | -- | As 'Quit' does; 'Heddle.Walk.Internal.Engine.runWalk' returns it.
    StopAtErrors
  | -- | It is counted only.
    IgnoreErrors
  deriving stock (Eq, Show)

-- | How to walk.
data WalkOptions = WalkOptions
  { -- | Which links to follow.
    walkFollow :: !Follow,
    -- | In which order.
    walkOrder :: !Order,
    -- | Entry a directory after its contents.
    walkPostOrder :: !Bool,
    -- | Stay on each starting point's file system: other directories are visited but
    -- not entered.
    walkOneFileSystem :: !Bool,
    -- | Entries less deep than this are not visited; starting points have depth 0.
    walkMinDepth :: !Int,
    -- | Directories this deep are not entered.
    walkMaxDepth :: !Int,
    -- | What errors do.
    walkOnError :: !OnError,
    -- | Take it for an error when an entry was removed after its directory was read, as
    -- @find@ does; otherwise such an entry is left out. Only a visitor that asks for the
    -- status, and the opening of a directory, notice.
    walkReportVanished :: !Bool,
    -- | The name before the colon in messages.
    walkProgram :: !ByteString,
    -- | Where records go; -1 drops them.
    walkOutput :: !CInt,
    -- | Where messages go; -1 drops them.
    walkErrors :: !CInt,
    -- | Write out after every directory, for a terminal.
    walkPrompt :: !Bool,
    -- | Use one worker, whatever the number of capabilities.
    walkSequential :: !Bool,
    -- | How many directory descriptors to hold at most (fewer than 8 are taken for 8);
    -- 0 takes it from the process's limit.
    walkDescriptors :: !Int,
    -- | Bytes that each worker gathers before it writes.
    walkBuffer :: !Int,
    -- | Bytes that 'Sorted' may hold back in all before workers wait.
    walkBacklog :: !Int,
    -- | For tests: take every @d_type@ for @DT_UNKNOWN@.
    walkDistrustTypes :: !Bool
  }
  deriving stock (Show)

-- | No links, any order, pre-order, no limits, messages as @find@.
defaultWalkOptions :: WalkOptions
defaultWalkOptions =
  WalkOptions
    { walkFollow = FollowNone,
      walkOrder = AnyOrder,
      walkPostOrder = False,
      walkOneFileSystem = False,
      walkMinDepth = 0,
      walkMaxDepth = maxBound,
      walkOnError = ReportErrors,
      walkReportVanished = False,
      walkProgram = Char8.pack "find",
      walkOutput = 1,
      walkErrors = 2,
      walkPrompt = False,
      walkSequential = False,
      walkDescriptors = 0,
      walkBuffer = 65536,
      walkBacklog = 8388608,
      walkDistrustTypes = False
    }

-- | What a visitor answers.
data WalkControl
  = -- | Go on, into this directory if it is one.
    Descend
  | -- | Go on, but not into this directory. In post-order it comes too late and is
    -- 'Descend'.
    Prune
  | -- | Stop the walk. In 'Sorted' order everything to the left is still completed and
    -- written, nothing to the right is; in any order the first to quit wins, and what
    -- others that quit had written during that visit is taken back.
    Quit
  deriving stock (Eq, Show)

-- | A system call of the walk failed.
data WalkError = WalkError
  { -- | The path, as it would be printed.
    walkErrorPath :: !RawPath,
    -- | What the kernel said.
    walkErrorCause :: !Errno
  }
  deriving stock (Eq, Show)

instance Exception WalkError where
  displayException (WalkError path cause) =
    "heddle walk: cannot read "
      ++ show path
      ++ ": "
      ++ errnoSentence cause
      ++ " ("
      ++ errnoSymbol cause
      ++ ").\n  Leave it out, or let walkOnError be ReportErrors."
