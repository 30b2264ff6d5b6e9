{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Syntax
-- Description : Expressions of find
-- Stability   : internal, exempt from the version policy
--
-- The tree that parsing builds and compiling consumes. All that can be known before the
-- walk is resolved in it: users are numbers, reference files are times, patterns are
-- compiled, output files are open.
--
-- Cost: values. Owner: the run that parsed them.
module Heddle.Walk.Find.Internal.Syntax
  ( -- * Expressions
    Expr (..),
    Test (..),
    Action (..),

    -- * Parts
    Clock (..),
    PermMatch (..),
    Access (..),
    ExecSpec (..),
    ExecMode (..),
    FileTypes,
    fileType,
    hasFileType,
    Sink (..),

    -- * Questions about expressions
    actions,
    tests,
    pureExpr,
  )
where

import Data.Bits (setBit, testBit)
import Data.ByteString (ByteString)
import Data.Int (Int64)
import Data.Word (Word32, Word64)
import Heddle.Bytes.Regex (Regex)
import Heddle.Walk.Find.Internal.Format (Format)
import Heddle.Walk.Find.Internal.Mode (Mode)
import Heddle.Walk.Find.Internal.Number (Age, Count, Window)
import Heddle.Walk.Find.Internal.Pattern (Pattern)
import Heddle.Walk.Find.Internal.System (Timestamp)

-- | An expression.
data Expr
  = Constant !Bool
  | Test !Test
  | Action !Action
  | Not !Expr
  | And !Expr !Expr
  | Or !Expr !Expr
  | -- | Both, for the value of the second.
    List !Expr !Expr

-- | A question about an entry; asking changes nothing.
data Test
  = Name !Pattern
  | Path !Pattern
  | LinkTarget !Pattern
  | PathRegex !Regex
  | Type !FileTypes
  | -- | The type on the other side of a symbolic link.
    OtherType !FileTypes
  | -- | Units of the given size in bytes, rounded up.
    Size !Count !Word64
  | Links !Count
  | Inode !Count
  | UserNumber !Count
  | GroupNumber !Count
  | OwnedBy !Word32
  | OfGroup !Word32
  | NoUser
  | NoGroup
  | -- | For files, for directories.
    Perm !PermMatch !Mode !Mode
  | InWindow !Clock !Window
  | Newer !Clock !Timestamp
  | Used !Age
  | -- | Device and inode.
    SameFile !Int64 !Int64
  | Empty
  | Accessible !Access
  | OnFileSystem !ByteString

-- | Something done with an entry.
data Action
  = Print !Sink
  | Print0 !Sink
  | Printf !Sink !Format
  | List' !Sink
  | Delete
  | PruneHere
  | QuitNow
  | Exec !ExecSpec

-- | Which of a file's times.
data Clock = Accessed | Modified | Changed | Born
  deriving stock (Eq, Show)

-- | How @-perm@ compares: exactly, all of them, any of them.
data PermMatch = PermExactly | PermAll | PermAny
  deriving stock (Eq, Show)

-- | What access(2) is asked.
data Access = Executable | Writable | Readable
  deriving stock (Eq, Show)

-- | A program to run.
data ExecSpec = ExecSpec
  { -- | The primary's name, for messages.
    execName :: !ByteString,
    execMode :: !ExecMode,
    -- | Run it in the entry's directory.
    execInDirectory :: !Bool,
    -- | Ask first.
    execAsk :: !Bool,
    -- | The words; in the batched form without the final @{}@.
    execWords :: ![ByteString],
    -- | Which of the run's batches it fills.
    execBatch :: !Int
  }

-- | One run per entry (@;@), or one for many (@+@).
data ExecMode = PerEntry | Batched
  deriving stock (Eq, Show)

-- | A set of file types.
type FileTypes = Word32

-- | The element for a type's letter (@bcdpfls@).
fileType :: Char -> Maybe FileTypes
fileType letter = setBit 0 <$> lookup letter numbers
  where
    -- As the file type in a mode, which is also d_type.
    numbers = [('p', 1), ('c', 2), ('d', 4), ('b', 6), ('f', 8), ('l', 10), ('s', 12)]

-- | Is a type (as in a mode's upper bits, or d_type) in the set?
hasFileType :: FileTypes -> Int -> Bool
hasFileType = testBit
{-# INLINE hasFileType #-}

-- | Where records go.
data Sink
  = StandardOutput
  | StandardError
  | -- | The number of an open file of the run.
    ToFile !Int
  deriving stock (Eq, Show)

-- | All actions, from left to right.
actions :: Expr -> [Action]
actions = leaves (const []) pure

-- | All tests, from left to right.
tests :: Expr -> [Test]
tests = leaves pure (const [])

leaves :: (Test -> [a]) -> (Action -> [a]) -> Expr -> [a]
leaves onTest onAction = go
  where
    go = \case
      Constant _ -> []
      Test t -> onTest t
      Action a -> onAction a
      Not e -> go e
      And a b -> go a ++ go b
      Or a b -> go a ++ go b
      List a b -> go a ++ go b

-- | Has it no actions?
pureExpr :: Expr -> Bool
pureExpr = null . actions
