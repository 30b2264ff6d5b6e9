{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Filter.Internal.Exception
-- Description : The exceptions of filters
-- Stability   : internal, exempt from the version policy
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Filter.Internal.Exception
  ( FilterException (..),
    SourceError (..),
    TooLong (..),
    CommandFailed (..),
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Typeable (cast)
import Heddle.Prim.Errno (Errno, describeErrno)
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | Any exception of this package: to catch it is to catch 'SourceError', 'TooLong' and
-- 'CommandFailed'. A failed command reaches the caller inside 'Heddle.Pipe.StageFailed'.
data FilterException = forall e. Exception e => FilterException e

instance Show FilterException where
  showsPrec d (FilterException e) = showsPrec d e

instance Exception FilterException where
  displayException (FilterException e) = displayException e

-- | The source with this name cannot be opened or read.
data SourceError = SourceError !ByteString !Errno
  deriving stock (Eq, Show)

instance Exception SourceError where
  toException = toException . FilterException
  fromException = fromFilterException
  displayException (SourceError name e) = "cannot read " ++ Char8.unpack name ++ ": " ++ describeErrno e

-- | An item, or what has to be held back until the input decides where it goes, is larger than
-- allowed.
data TooLong = TooLong
  { -- | The stage that holds it back, or \"a row\" where rows are searched for.
    tooLongStage :: String,
    -- | In bytes.
    tooLongLimit :: !Int
  }
  deriving stock (Eq, Show)

instance Exception TooLong where
  toException = toException . FilterException
  fromException = fromFilterException
  displayException (TooLong "a row" limit) =
    "a row is longer than " ++ show limit ++ " bytes, and searching needs whole rows; --longest SIZE allows more"
  displayException (TooLong stage limit) =
    stage ++ ": more than " ++ show limit ++ " bytes would have to be held back until the input decides where they go; --longest SIZE allows more"

-- | A command failed; the text says how it ended.
newtype CommandFailed = CommandFailed String
  deriving stock (Eq, Show)

instance Exception CommandFailed where
  toException = toException . FilterException
  fromException = fromFilterException
  displayException (CommandFailed how) = how

fromFilterException :: Exception e => SomeException -> Maybe e
fromFilterException e = fromException e >>= \(FilterException x) -> cast x
