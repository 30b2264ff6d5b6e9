-- |
-- Module      : Heddle.Serve.LogOptions
-- Description : How the logs behave
-- Stability   : stable
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.LogOptions
  ( LogOptions (..),
    defaultLogOptions,
    WhenFull (..),
    parseWhenFull,
  )
where

import Heddle.Serve.LogFilter
import Heddle.Serve.LogSink (Rotation, noRotation)
import Heddle.Serve.LogTarget

-- | What the access log holds, and the log of messages.
data LogOptions = LogOptions
  { logFilter :: !LogFilter,
    logRotation :: !Rotation,
    logFull :: !WhenFull,
    -- | Where messages go instead of standard error, and how much they must matter.
    logErrors :: !(Maybe LogTarget),
    logErrorLevel :: !Severity
  }
  deriving stock (Eq, Show)

-- | All requests, no rotation, 'WaitThenDrop', messages on standard error.
defaultLogOptions :: LogOptions
defaultLogOptions = LogOptions everyRequest noRotation WaitThenDrop Nothing SeverityNotice

-- | What happens to a line when the log accepts no data.
data WhenFull
  = -- | Requests wait a second in all, then lines are dropped until the log accepts data again.
    WaitThenDrop
  | -- | Requests wait.
    Block
  | -- | Lines that find no room are dropped at once.
    DropAtOnce
  deriving stock (Eq, Show)

-- | @wait@, @block@ or @drop@.
parseWhenFull :: String -> Either String WhenFull
parseWhenFull = \case
  "wait" -> Right WaitThenDrop
  "block" -> Right Block
  "drop" -> Right DropAtOnce
  other -> Left ("'" ++ other ++ "' is not what to do with a full log; there are wait, block and drop")
