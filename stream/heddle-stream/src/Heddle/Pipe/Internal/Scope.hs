-- |
-- Module      : Heddle.Pipe.Internal.Scope
-- Description : What is open, and has to be released
-- Stability   : internal
--
-- A scope is a stack of what was opened by the stages that end together: a composition has
-- one for its left side, which ends at the latest when the right side does. Within a scope
-- things open and close in a nested fashion, so closing one is a write of what was there
-- before. Numbers say what was opened last when several scopes close at once.
--
-- Cost: a scope 2 words, an inner one 3 more; nothing is searched.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Scope
  ( -- * Runs
    Run,
    newRun,
    stageNow,
    setStage,

    -- * Scopes
    Scope,
    Open,
    newScope,
    innerScope,
    leave,
    isClear,
    acquiring,
    closeAll,
    closed,

    -- * Failures
    StageFailed (..),
    failedIn,
  )
where

import Control.Applicative ((<|>))
import Data.List (sortOn)
import Data.Ord (Down (..))
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Exception
import System.Exit (ExitCode)

-- Runs -----------------------------------------------------------------------

-- | What the stages of a run share: who runs, and a number for the next thing opened.
data Run = Run !(Ref (Maybe String)) !Words

-- | A run in which nothing has been opened.
newRun :: IO Run
newRun = Run <$> newRef Nothing <*> newWords 1

-- | The name of the stage that runs, if it has one.
stageNow :: Run -> IO (Maybe String)
stageNow (Run stage _) = readRef stage
{-# INLINE stageNow #-}

-- | From now on this one runs.
setStage :: Run -> Maybe String -> IO ()
setStage (Run stage _) = writeRef stage
{-# INLINE setStage #-}

-- Scopes ---------------------------------------------------------------------

-- | What is open.
type Scope = Ref Open

-- | What was opened last, and what before it.
data Open
  = -- | Nothing more.
    Clear
  | -- | Its number, and how to release it.
    Opened !Int (IO ()) !Open
  | -- | What the left side of a composition has open.
    Inner !Scope !Open

-- | Nothing is open.
newScope :: IO Scope
newScope = newRef Clear

-- | A scope inside another; 'leave' takes it out again.
innerScope :: Scope -> IO (Scope, Open)
innerScope outer = do
  before <- readRef outer
  inner <- newScope
  writeRef outer (Inner inner before)
  pure (inner, before)
{-# INLINE innerScope #-}

-- | Close an inner scope, and go on as before it.
leave :: Scope -> Open -> Scope -> IO ()
leave outer before inner =
  readRef inner >>= \case
    Clear -> writeRef outer before
    _ -> do
      mask_ (closed inner)
      writeRef outer before
{-# INLINE leave #-}

-- | Is nothing open?
isClear :: Scope -> IO Bool
isClear scope =
  readRef scope >>= \case
    Clear -> pure True
    _ -> pure False

-- | Acquire something that is released with the scope, or before; what to do for the latter.
--
-- [Masking]: to be called masked.
acquiring :: Run -> Scope -> IO a -> (a -> IO ()) -> IO (a, IO ())
acquiring run@(Run _ numbers) scope acquire release = do
  a <- acquire
  before <- readRef scope
  stage <- stageNow run
  n <- readWord numbers 0
  writeWord numbers 0 (n + 1)
  writeRef scope (Opened n (release a `catch` (throwIO . failedIn stage)) before)
  pure (a, writeRef scope before >> release a)

-- | Release all that is open, what was opened last first. One that throws does not stop the
-- others; what the first one threw comes back.
--
-- [Masking]: to be called masked; a release that waits can be interrupted.
closeAll :: Scope -> IO (Maybe SomeException)
closeAll scope = do
  top <- readRef scope
  things <- gather [] [top]
  -- In one stack, so that what is not yet released is still known if this run is cancelled.
  writeRef scope (foldr (\(n, release) rest -> Opened n release rest) Clear (sortOn (Down . fst) things))
  go Nothing
  where
    go failure =
      readRef scope >>= \case
        Opened _ release rest -> do
          writeRef scope rest
          result <- try release
          go (failure <|> either Just (const Nothing) result)
        _ -> pure failure

-- | All that these hold, in no order.
gather :: [(Int, IO ())] -> [Open] -> IO [(Int, IO ())]
gather found = \case
  [] -> pure found
  Clear : more -> gather found more
  Opened n release rest : more -> gather ((n, release) : found) (rest : more)
  Inner scope rest : more -> readRef scope >>= \top -> gather found (top : rest : more)

-- | The same; throws what the first one threw.
closed :: Scope -> IO ()
closed scope = closeAll scope >>= mapM_ throwIO

-- Failures -------------------------------------------------------------------

-- | A stage with a name failed.
data StageFailed = StageFailed
  { -- | What it was called with 'Heddle.Pipe.named'.
    stageName :: String,
    -- | What it threw.
    stageException :: SomeException
  }
  deriving stock (Show)

instance Exception StageFailed where
  displayException (StageFailed name e) = "stage " ++ name ++ " failed: " ++ displayException e

-- | As it reaches the caller: with the stage's name, unless it is asynchronous, an exit, or
-- has one already.
failedIn :: Maybe String -> SomeException -> SomeException
failedIn stage e = case stage of
  Just name | not (isAsynchronous e || exits || named) -> toException (StageFailed name e)
  _ -> e
  where
    exits = maybe False (const True) (fromException e :: Maybe ExitCode)
    named = maybe False (const True) (fromException e :: Maybe StageFailed)
