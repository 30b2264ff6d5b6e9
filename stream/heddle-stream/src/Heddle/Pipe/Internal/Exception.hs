{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Pipe.Internal.Exception
-- Description : The exceptions of pipelines
-- Stability   : internal
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Pipe.Internal.Exception
  ( PipeException (..),
    StageFailed (..),
    ItemTooLong (..),
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..), SomeException, describeException)

-- | Any exception of this package: to catch it is to catch 'StageFailed' and 'ItemTooLong'.
data PipeException = forall e. Exception e => PipeException e

instance Show PipeException where
  showsPrec d (PipeException e) = showsPrec d e

instance Exception PipeException where
  displayException (PipeException e) = displayException e

-- | A stage with a name failed.
data StageFailed = StageFailed
  { -- | The name that 'Heddle.Pipe.named' gave it.
    stageName :: String,
    -- | What the stage threw.
    stageException :: SomeException
  }
  deriving stock (Show)

instance Exception StageFailed where
  toException = toException . PipeException
  fromException e = fromException e >>= \(PipeException x) -> cast x
  displayException (StageFailed name e) = "stage " ++ name ++ " failed: " ++ describeException e

-- | An item is longer than allowed.
data ItemTooLong = ItemTooLong
  { -- | Where in the stream it begins, in bytes.
    itemOffset :: !Int,
    -- | How long an item may be, in bytes.
    itemLimit :: !Int
  }
  deriving stock (Eq, Show)

instance Exception ItemTooLong where
  toException = toException . PipeException
  fromException e = fromException e >>= \(PipeException x) -> cast x
  displayException (ItemTooLong offset limit) =
    "the item at byte " ++ show offset ++ " is longer than " ++ show limit ++ " bytes; linesUpTo takes another limit"
