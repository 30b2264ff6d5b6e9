{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Guard
-- Description : Finalisers, handlers and names
-- Stability   : internal
--
-- A handler must not catch what neighbours throw, although a pipe that passes control to them
-- calls them and never returns. So a guarded pipe runs in a shell with its neighbours outside,
-- and control crosses the shell through its functions @entering@ and @leaving@. For a handler,
-- entering runs the pipe inside 'try' up to its next crossing, and leaving returns from there
-- with what to do next.
--
-- Cost: a bracket costs 150 bytes, and nothing at a hop; a name about 5 ns at each crossing, a
-- handler about 30.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Guard
  ( bracketP,
    finallyP,
    tryP,
    catchP,
    named,
  )
where

import Heddle.Pipe.Internal.Scope
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception (Exception, bug, fromException, isAsynchronous, mask_, throwIO, try)

-- | Acquire a resource, run a pipe with it, release it. It is released exactly once, as soon as
-- the body ends, is cancelled from downstream, or fails, another stage of the run fails, or the
-- run is cancelled; what was opened last is released first. If a release throws, the others
-- still run, and the first of all exceptions is thrown.
--
-- [Cost]: 150 bytes.
-- [Masking]: acquires and releases masked, as 'Heddle.Prim.Exception.bracket'.
bracketP :: IO a -> (a -> IO ()) -> (a -> Pipe i o r) -> Pipe i o r
bracketP acquire release body = Pipe $ \env@(Env _ scope run) k u d -> do
  (a, close) <- mask_ (acquiring run scope acquire release)
  unPipe (body a) env (\r u' d' -> mask_ close >> k r u' d') u d

-- | Run an action when the pipe has ended, failed or been cancelled.
--
-- [Cost]: as 'bracketP'.
finallyP :: Pipe i o r -> IO () -> Pipe i o r
finallyP p release = bracketP (pure ()) (const release) (const p)

-- | Catch what the pipe itself throws, but not what its neighbours throw while it awaits or
-- yields. What it has open is released first. What follows can go on awaiting and yielding.
--
-- [Cost]: a handler frame each time that it awaits or yields.
-- [Throws]: asynchronous exceptions, and those of another type.
tryP :: Exception e => Pipe i o r -> Pipe i o (Either e r)
tryP p = Pipe $ \env@(Env _ scope run) k u d -> do
  (inner, before) <- innerScope scope
  stage <- stageNow run
  above <- newRef u
  below <- newRef d
  after <- newRef (bug "a guarded pipe went nowhere")
  let entering part =
        try part >>= \case
          Right () -> readRef after >>= id
          Left e -> case fromException e of
            Just x | not (isAsynchronous e) -> do
              setStage run stage
              failure <- mask_ (closeAll inner)
              -- The run may be cancelled while something is released.
              mapM_ throwIO (failure >>= \f -> if isAsynchronous f then Just f else Nothing)
              writeRef scope before
              on (Left x)
            _ -> throwIO e
      leaving = writeRef after
      on x = do
        u' <- readRef above
        d' <- readRef below
        k x u' d'
  shell (Shell entering leaving above below) inner env p (\r -> leave scope before inner >> on (Right r))

-- | Go on with a handler if the pipe itself throws an exception of its type.
--
-- [Cost]: as 'tryP'.
catchP :: Exception e => Pipe i o r -> (e -> Pipe i o r) -> Pipe i o r
catchP p handler = tryP p >>= either handler pure

-- | Name a stage: what it throws reaches the caller of the run as 'StageFailed', except exits
-- and asynchronous exceptions. Of nested names the inner one counts. Handlers inside the run
-- get the exception itself.
--
-- [Cost]: about 5 ns and 150 bytes each time that it awaits or yields.
named :: String -> Pipe i o r -> Pipe i o r
named name p = Pipe $ \env@(Env _ scope run) k u d -> do
  outer <- stageNow run
  above <- newRef u
  below <- newRef d
  let !me = Just name
      entering part = setStage run me >> part
      leaving act = setStage run outer >> act
  shell (Shell entering leaving above below) scope env p $ \r -> do
    u' <- readRef above
    d' <- readRef below
    k r u' d'

-- | How control enters and leaves, and the neighbours' continuations while the pipe runs.
data Shell i o = Shell (IO () -> IO ()) (IO () -> IO ()) !(Ref (Up i)) !(Ref (Down o))

-- | Run a pipe in a shell and a scope.
shell :: Shell i o -> Scope -> Env i -> Pipe i o r -> (r -> IO ()) -> IO ()
shell (Shell enter exit above below) scope env@(Env _ _ run) p k = do
  track <- newTrack
  enter (unPipe p (Env track scope run) (\r _ _ -> exit (k r)) up down)
  where
    up = Up $ \d -> do
      u <- readRef above
      writeRef above noInput
      exit (pull u (Down (\a u' -> writeRef above u' >> enter (push d a up))))
    down = Down $ \o u -> do
      d <- readRef below
      writeRef below nobody
      exit (push d o (back u))
    back u = Up $ \d ->
      if isWanted d
        then readRef above >>= found env
        else writeRef below d >> enter (pull u down)

-- | In place of the downstream's continuation while the downstream runs.
nobody :: Down o
nobody = Down (\_ _ -> bug "a pipe has yielded while its downstream ran")
