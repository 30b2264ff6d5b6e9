-- |
-- Module      : Heddle.Filter.Internal.Machine
-- Description : What components run on
-- Stability   : internal, exempt from the version policy
--
-- Bytes are pushed: who has some calls whoever takes them. So one stream can be divided
-- among several takers without anything being stored but what is not yet decided.
--
-- Protocol: a sink gets pieces that are not empty, then 'finish' once. A splitter tells its
-- taker 'begin', any number of 'more', 'end' for every section, in the order of the stream,
-- as early as what has come decides it, and 'over' once.
--
-- Cost: a call for each piece.
-- Owner: the thread that runs the machine; what a machine holds back is bounded ('Held').
module Heddle.Filter.Internal.Machine
  ( -- * Takers
    Sink (..),
    ignoring,
    Sections (..),

    -- * What a machine knows
    Env (..),
    withEnv,
    openEnv,
    closeEnv,
    withOwnTurns,
    onTurn,
    turn,
    failRun,
    failureSoFar,
    CommandFailed (..),

    -- * Cleaning up
    Scope,
    withScope,
    onExit,

    -- * What is held back
    Held,
    newHeld,
    hold,
    dropHeld,
    TooLong (..),
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, myThreadId)

-- | What takes bytes.
data Sink = Sink
  { -- | Take a piece that is not empty. 'False': nothing more is needed, but it does no harm.
    push :: !(ByteString -> IO Bool),
    -- | There is no more.
    finish :: !(IO ())
  }

-- | A sink without a wish to stop.
ignoring :: (ByteString -> IO ()) -> IO () -> Sink
ignoring take' = Sink (\piece -> True <$ take' piece)

-- | What takes sections.
data Sections = Sections
  { -- | A section begins, true or false.
    begin :: !(Bool -> IO ()),
    -- | A piece of it that is not empty.
    more :: !(ByteString -> IO ()),
    -- | It has ended.
    end :: !(IO ()),
    -- | Nothing but sections like this will follow. (A splitter need not say so.)
    rest :: !(Bool -> IO ()),
    -- | Does the taker want anything more? A splitter asks after every section, and drops the
    -- rest of the stream after a 'False'.
    wantsMore :: !(IO Bool),
    -- | The stream has ended.
    over :: !(IO ())
  }

-- | What a machine is made with.
data Env = Env
  { -- | Is everything downstream called by this machine alone? Then it may move it to a thread.
    envSpine :: !Bool,
    -- | How many threads' stages are downstream.
    envBorder :: !Int,
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
    -- | What is done whenever everything that has come in has been pushed.
    envTurns :: !(Ref [IO ()]),
    -- | What the last stage does then.
    envFlush :: !(IO ())
  }

-- | A command has not ended well; this is how it has ended.
newtype CommandFailed = CommandFailed String
  deriving stock (Eq, Show)

instance Exception CommandFailed where
  displayException (CommandFailed how) = how

-- Tells the run's thread that another has failed; private to the run.
data Failed = Failed
  deriving stock (Show)

instance Exception Failed where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Run with what machines need; the limit is in bytes, and the action is what the last stage
-- does when everything that has come in has been pushed.
--
-- [Throws]: what a machine's threads throw, too. When it returns or throws, these have ended,
-- and so have commands.
withEnv :: Int -> IO () -> (Env -> IO a) -> IO a
withEnv limit flush body = do
  thread <- myThreadId
  failure <- newRef Nothing
  turns <- newRef []
  let run = withScope (\scope -> body (Env True 1 1 limit "" scope (Just thread) failure turns flush))
  run `catch` \Failed -> readRef failure >>= maybe (throwIO Failed) throwIO

-- | What machines need, where the caller sees to its end with 'closeEnv'; stages are not
-- moved to threads of their own.
openEnv :: Int -> IO Env
openEnv limit = do
  scope <- Scope <$> newRef (Exits 0 IntMap.empty)
  Env False 1 1 limit "" scope Nothing <$> newRef Nothing <*> newRef [] <*> pure (pure ())

-- | End what machines have started.
--
-- [Masking]: to be called masked.
closeEnv :: Env -> IO ()
closeEnv env = leaveScope (envScope env) (Right ()) >>= either throwIO pure

-- | A thread of the run has failed: tell the one that runs it.
failRun :: Env -> SomeException -> IO ()
failRun env e
  -- The run has ended, and takes its threads with it.
  | Just ThreadKilled <- fromException e = pure ()
  | otherwise = do
    first <- modifyRef (envFailure env) $ \case
      Nothing -> (Just e, True)
      known -> (known, False)
    when first (for_ (envThread env) (`throwTo` Failed))

-- | Throw what a thread of the run threw.
failureSoFar :: Env -> IO ()
failureSoFar env = readRef (envFailure env) >>= mapM_ throwIO

-- | The same with turns of its own, for a stage on another thread.
withOwnTurns :: Env -> IO Env
withOwnTurns env = (\turns -> env {envTurns = turns}) <$> newRef []

-- | Do this whenever everything that has come in has been pushed.
onTurn :: Env -> IO () -> IO ()
onTurn env action = modifyRef (envTurns env) (\actions -> (actions ++ [action], ()))

-- | Everything that has come in has been pushed.
turn :: Env -> IO ()
turn env = readRef (envTurns env) >>= sequence_

-- | What is to be done when the run ends, however it does.
newtype Scope = Scope (Ref Exits)

-- The actions by number, and the next number.
data Exits = Exits !Int !(IntMap (Bool -> IO ()))

-- | Run with a scope. What was registered runs at the end, the last first, all of it even if
-- one throws or is interrupted; the first exception goes on, or a later one that came from
-- outside. What is registered meanwhile, by threads that are about to end, runs too.
--
-- [Masking]: it runs masked, interruptible where it blocks.
withScope :: (Scope -> IO a) -> IO a
withScope body = mask $ \restore -> do
  exits <- newRef (Exits 0 IntMap.empty)
  r <- restore (Right <$> body (Scope exits)) `catch` (pure . Left)
  leaveScope (Scope exits) r >>= either throwIO pure

-- Masked.
leaveScope :: Scope -> Either SomeException a -> IO (Either SomeException a)
leaveScope (Scope exits) = leave False
  where
    leave insisted r =
      modifyRef exits newest >>= \case
        Nothing -> pure r
        Just action ->
          try (action insisted) >>= \case
            Right () -> leave insisted r
            Left e -> leave (insisted || isAsynchronous e) (Left (either (`graver` e) (const e) r))
    newest (Exits next actions) = case IntMap.maxView actions of
      Nothing -> (Exits next actions, Nothing)
      Just (action, others) -> (Exits next others, Just action)
    graver first e = if isAsynchronous e && not (isAsynchronous first) then e else first

-- | Register something with the scope, which is told whether the end was interrupted before:
-- then somebody insists. The answer takes it back.
onExit :: Scope -> (Bool -> IO ()) -> IO (IO ())
onExit (Scope scope) action = do
  number <- modifyRef scope (\(Exits next actions) -> (Exits (next + 1) (IntMap.insert next action actions), next))
  pure (modifyRef scope (\(Exits next actions) -> (Exits next (IntMap.delete number actions), ())))

-- | How much a component holds back, and how much it may.
data Held = Held !(Ref Int) !Int String

-- | An item, or what has to be kept until something is decided, is larger than allowed.
data TooLong = TooLong
  { -- | The stage that keeps it, or \"a row\" where rows are searched for.
    tooLongStage :: String,
    -- | In bytes.
    tooLongLimit :: !Int
  }
  deriving stock (Eq, Show)

instance Exception TooLong where
  displayException (TooLong "a row" limit) =
    "a row is longer than " ++ show limit ++ " bytes, and whole rows are searched for; --longest SIZE allows more"
  displayException (TooLong stage limit) =
    stage ++ ": more than " ++ show limit ++ " bytes would have to be kept before it is decided what becomes of them; --longest SIZE allows more"

-- | Nothing is held back yet.
newHeld :: Env -> IO Held
newHeld env = (\n -> Held n (envLimit env) (envStage env)) <$> newRef 0

-- | Account for a piece that is kept.
--
-- [Throws]: 'TooLong'.
hold :: Held -> ByteString -> IO ()
hold (Held count limit stage) piece = do
  n <- readRef count
  let n' = n + Bytes.length piece
  when (n' > limit) (throwIO (TooLong stage limit))
  writeRef count n'

-- | So many bytes are kept no longer.
dropHeld :: Held -> Int -> IO ()
dropHeld (Held count _ _) gone = readRef count >>= \n -> writeRef count $! n - gone
