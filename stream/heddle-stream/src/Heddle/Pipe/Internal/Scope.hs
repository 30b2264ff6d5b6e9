-- |
-- Module      : Heddle.Pipe.Internal.Scope
-- Description : Resources that are open
-- Stability   : internal
--
-- A scope is a stack of the resources that stages which end together have open: a composition
-- has one for its left side, which ends at the latest when the right side does. Within a scope
-- resources nest, so closing one restores the previous stack with a single write. Numbers
-- record the order of opening, for when several scopes close at once.
--
-- Cost: a scope takes 2 words, an inner one 3 more; nothing is searched.
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
    failedIn,
  )
where

import Control.Applicative ((<|>))
import Data.List (sortOn)
import Data.Ord (Down (..))
import Heddle.Pipe.Internal.Exception (StageFailed (..))
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Exception
import System.Exit (ExitCode)

-- Runs -----------------------------------------------------------------------

-- | What the stages of a run share: the name of the one that runs, and the number of the next
-- resource.
data Run = Run !(Ref (Maybe String)) !Words

-- | A run in which nothing has been opened.
newRun :: IO Run
newRun = Run <$> newRef Nothing <*> newWords 1

-- | The name of the stage that runs, if it has one.
stageNow :: Run -> IO (Maybe String)
stageNow (Run stage _) = readRef stage
{-# INLINE stageNow #-}

-- | From now on, the stage with this name runs.
setStage :: Run -> Maybe String -> IO ()
setStage (Run stage _) = writeRef stage
{-# INLINE setStage #-}

-- Scopes ---------------------------------------------------------------------

-- | The resources that are open.
type Scope = Ref Open

-- | A stack of resources.
data Open
  = Clear
  | -- | A resource's number, and how to release it.
    Opened !Int (IO ()) !Open
  | -- | The resources of the left side of a composition.
    Inner !Scope !Open

-- | An empty scope.
newScope :: IO Scope
newScope = newRef Clear

-- | A scope inside another, and the outer one's stack before it, for 'leave'.
innerScope :: Scope -> IO (Scope, Open)
innerScope outer = do
  before <- readRef outer
  inner <- newScope
  writeRef outer (Inner inner before)
  pure (inner, before)
{-# INLINE innerScope #-}

-- | Close an inner scope, and restore the outer one's stack.
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

-- | Acquire a resource that is released with the scope; also returns the action that releases
-- it earlier.
--
-- [Masking]: call it masked.
acquiring :: Run -> Scope -> IO a -> (a -> IO ()) -> IO (a, IO ())
acquiring run@(Run _ numbers) scope acquire release = do
  a <- acquire
  before <- readRef scope
  stage <- stageNow run
  n <- readWord numbers 0
  writeWord numbers 0 (n + 1)
  writeRef scope (Opened n (release a `catch` (throwIO . failedIn stage)) before)
  pure (a, writeRef scope before >> release a)

-- | Release everything that is open, last opened first. A release that throws does not stop the
-- others; the first exception is returned.
--
-- [Masking]: call it masked; a release that waits can be interrupted.
closeAll :: Scope -> IO (Maybe SomeException)
closeAll scope = do
  top <- readRef scope
  things <- gather [] [top]
  -- In one stack, so that the rest can still be released if this run is cancelled.
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

-- | All resources in these stacks, in no order.
gather :: [(Int, IO ())] -> [Open] -> IO [(Int, IO ())]
gather found = \case
  [] -> pure found
  Clear : more -> gather found more
  Opened n release rest : more -> gather ((n, release) : found) (rest : more)
  Inner scope rest : more -> readRef scope >>= \top -> gather found (top : rest : more)

-- | As 'closeAll', but throws the first exception.
closed :: Scope -> IO ()
closed scope = closeAll scope >>= mapM_ throwIO

-- Failures -------------------------------------------------------------------

-- | An exception as it reaches the caller: with the stage's name, unless it is asynchronous, an
-- exit, or has a name already.
failedIn :: Maybe String -> SomeException -> SomeException
failedIn stage e = case stage of
  Just name | not (isAsynchronous e || exits || named) -> toException (StageFailed name e)
  _ -> e
  where
    exits = maybe False (const True) (fromException e :: Maybe ExitCode)
    named = maybe False (const True) (fromException e :: Maybe StageFailed)
