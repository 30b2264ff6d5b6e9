-- |
-- Module      : Heddle.Filter.Internal.Machine
-- Description : Machines, to which stages and splitters are lowered
-- Stability   : internal, exempt from the version policy
--
-- Push-based: a producer calls its consumer. This lets several consumers share one stream
-- while holding back only the bytes whose section is still undecided.
--
-- Protocol: a sink gets pieces that are not empty, then 'finish' once. A splitter calls
-- 'begin', any number of 'more', and 'end' for every section, in the order of the stream, as
-- soon as the input decides the section's label; then 'over' once.
--
-- Cost: a call for each piece.
-- Owner: the thread that runs the machine. What a machine holds back is bounded by
-- "Heddle.Filter.Internal.MemoryBudget".
module Heddle.Filter.Internal.Machine
  ( -- * Consumers
    Sink (..),
    ignoring,
    Sections (..),

    -- * The environment of machines
    Env (..),
    withEnv,
    openEnv,
    closeEnv,
    withOwnFlushes,
    onFlush,
    flushAll,
    failRun,
    failureSoFar,

    -- * Cleaning up
    Scope,
    onExit,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, myThreadId)

-- | A consumer of bytes.
data Sink = Sink
  { -- | Take a piece that is not empty. 'False': no more is needed, though more does no harm.
    push :: !(ByteString -> IO Bool),
    -- | The stream has ended.
    finish :: !(IO ())
  }

-- | A sink that never asks to stop.
ignoring :: (ByteString -> IO ()) -> IO () -> Sink
ignoring take' = Sink (\piece -> True <$ take' piece)

-- | A consumer of sections.
data Sections = Sections
  { -- | A section begins; its label is true or false.
    begin :: !(Bool -> IO ()),
    -- | A piece of it that is not empty.
    more :: !(ByteString -> IO ()),
    -- | The section has ended.
    end :: !(IO ()),
    -- | All sections that follow will have this label. (A splitter need not say so.)
    rest :: !(Bool -> IO ()),
    -- | Does the consumer want more? A splitter asks after every section, and drops the
    -- rest of the stream after a 'False'.
    wantsMore :: !(IO Bool),
    -- | The stream has ended.
    over :: !(IO ())
  }

-- | The environment in which a machine is made.
data Env = Env
  { -- | The stage is on the pipeline's top level: nothing else calls what is downstream, so
    -- a part of the pipeline may be moved to a thread of its own.
    envTopLevel :: !Bool,
    -- | How many async boundaries are downstream.
    envBoundaries :: !Int,
    -- | The number of the row that the input begins in.
    envRow :: !Int,
    -- | How many bytes one component may hold back.
    envLimit :: !Int,
    -- | The stage that is being made, for messages.
    envStage :: String,
    envScope :: !Scope,
    -- | The thread that runs the machine, if it may be interrupted when another thread fails.
    envThread :: !(Maybe ThreadId),
    -- | Why the run has failed, if a thread of it has.
    envFailure :: !(Ref (Maybe SomeException)),
    -- | Actions that run whenever all input so far has been pushed.
    envFlushes :: !(Ref [IO ()]),
    -- | The last stage's such action.
    envFinalFlush :: !(IO ())
  }

-- Tells the run's thread that another has failed; private to the run.
data Failed = Failed
  deriving stock (Show)

instance Exception Failed where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Run with an environment for machines, from a limit in bytes, and the last stage's action when all
-- input so far has been pushed. When it returns or throws, the machine's threads and commands
-- have ended.
--
-- [Throws]: also what a machine's threads throw.
withEnv :: Int -> IO () -> (Env -> IO a) -> IO a
withEnv limit flush body = do
  thread <- myThreadId
  failure <- newRef Nothing
  flushes <- newRef []
  let run = withScope (\scope -> body (Env True 1 1 limit "" scope (Just thread) failure flushes flush))
  run `catch` \Failed -> readRef failure >>= maybe (throwIO Failed) throwIO

-- | An environment for a caller that ends it with 'closeEnv'. Stages are not moved to other threads.
openEnv :: Int -> IO Env
openEnv limit = do
  scope <- Scope <$> newRef (Exits 0 IntMap.empty)
  Env False 1 1 limit "" scope Nothing <$> newRef Nothing <*> newRef [] <*> pure (pure ())

-- | End the threads and commands that machines have started.
--
-- [Masking]: call it masked.
closeEnv :: Env -> IO ()
closeEnv env = leaveScope (envScope env) (Right ()) >>= either throwIO pure

-- | Record that a thread of the run has failed, and interrupt the thread that runs it.
failRun :: Env -> SomeException -> IO ()
failRun env e
  -- The run has ended, and ends its threads.
  | Just ThreadKilled <- fromException e = pure ()
  | otherwise = do
    first <- modifyRef (envFailure env) $ \case
      Nothing -> (Just e, True)
      known -> (known, False)
    when first (for_ (envThread env) (`throwTo` Failed))

-- | Rethrow the exception of a failed thread of the run.
failureSoFar :: Env -> IO ()
failureSoFar env = readRef (envFailure env) >>= mapM_ throwIO

-- | The same environment with separate flush actions, for a stage on another thread.
withOwnFlushes :: Env -> IO Env
withOwnFlushes env = (\flushes -> env {envFlushes = flushes}) <$> newRef []

-- | Run this action whenever all input so far has been pushed.
onFlush :: Env -> IO () -> IO ()
onFlush env action = modifyRef (envFlushes env) (\actions -> (actions ++ [action], ()))

-- | Run these actions: all input so far has been pushed.
flushAll :: Env -> IO ()
flushAll env = readRef (envFlushes env) >>= sequence_

-- | Actions that run when the run ends, in whatever way.
newtype Scope = Scope (Ref Exits)

-- The next number, and the actions by number.
data Exits = Exits !Int !(IntMap (Bool -> IO ()))

-- Run with a scope. At the end all registered actions run, the last one first, even if one throws or
-- is interrupted. The first exception is rethrown, or a later one that is asynchronous. Actions that
-- ending threads register meanwhile run too. They run masked, interruptible where they block.
withScope :: (Scope -> IO a) -> IO a
withScope body = mask $ \restore -> do
  exits <- newRef (Exits 0 IntMap.empty)
  r <- restore (Right <$> body (Scope exits)) `catch` (pure . Left)
  leaveScope (Scope exits) r >>= either throwIO pure

-- Called masked.
leaveScope :: Scope -> Either SomeException a -> IO (Either SomeException a)
leaveScope (Scope exits) = leave False
  where
    leave interrupted r =
      modifyRef exits newest >>= \case
        Nothing -> pure r
        Just action ->
          try (action interrupted) >>= \case
            Right () -> leave interrupted r
            Left e -> leave (interrupted || isAsynchronous e) (Left (either (`graver` e) (const e) r))
    newest (Exits next actions) = case IntMap.maxView actions of
      Nothing -> (Exits next actions, Nothing)
      Just (action, others) -> (Exits next others, Just action)
    graver first e = if isAsynchronous e && not (isAsynchronous first) then e else first

-- | Register an action with the scope. Its argument is whether the end has been interrupted
-- already: then it must not wait. The result takes the registration back.
onExit :: Scope -> (Bool -> IO ()) -> IO (IO ())
onExit (Scope scope) action = do
  number <- modifyRef scope (\(Exits next actions) -> (Exits (next + 1) (IntMap.insert next action actions), next))
  pure (modifyRef scope (\(Exits next actions) -> (Exits next (IntMap.delete number actions), ())))
