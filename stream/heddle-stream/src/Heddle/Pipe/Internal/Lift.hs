{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Lift
-- Description : Conversions between pipes and coroutines
-- Stability   : internal
--
-- Cost: two suspensions for each value.
-- Owner: the thread that resumes it. A pipe as a coroutine is resumed once at each suspension.
module Heddle.Pipe.Internal.Lift
  ( fromTransducer,
    withTransducer,
    toTransducer,
  )
where

import Control.Monad.IO.Class (liftIO)
import Heddle.Coroutine (EitherFunctor (..), Transducer)
import Heddle.Coroutine.Step (Step (..), begin, fromStep)
import Heddle.Pipe.Internal.Scope
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception (bug, catch, finally, throwIO)

-- | A transducer over 'IO' as a pipe.
fromTransducer :: Transducer a b IO r -> Pipe a b r
fromTransducer t = go (begin t)
  where
    go m =
      liftIO m >>= \case
        Done r -> pure r
        Suspended (LeftF f) -> await >>= \a -> go (f a)
        Suspended (RightF (b, n)) -> yield b *> go n

-- | A pipe as a transducer, to be resumed by hand, each suspension once. When the function
-- returns or throws, what the pipe has open is released, however far it has run.
--
-- [Masking]: as 'Heddle.Prim.Exception.finally'.
withTransducer :: Pipe a b r -> (Transducer a b IO r -> IO x) -> IO x
withTransducer p body = do
  scope <- newScope
  body (transducer scope p) `finally` closed scope

-- | As 'withTransducer', but without a bracket: the pipe's resources are released when it is
-- resumed up to where it releases them, or throws. If the transducer is dropped before that,
-- they are not: use 'withTransducer' for a pipe with brackets.
toTransducer :: Pipe a b r -> Transducer a b IO r
toTransducer p = fromStep (newScope >>= \scope -> begin (transducer scope p))

transducer :: Scope -> Pipe a b r -> Transducer a b IO r
transducer scope p = fromStep $ do
  track <- newTrack
  run <- newRun
  -- The step that the part of the pipe that has just run ended with.
  at <- newRef Nothing
  let part io = do
        (io :: IO ()) `catch` \e -> do
          stage <- stageNow run
          _ <- closeAll scope
          throwIO (failedIn stage e)
        readRef at >>= maybe (bug "a pipe went nowhere") pure
      up = Up (\d -> writeRef at (Just (Suspended (LeftF (\a -> part (push d a up))))))
      down = Down $ \case
        Just b -> \u -> writeRef at (Just (Suspended (RightF (b, part (pull u down)))))
        Nothing -> \_ -> bug "a pipe has yielded nothing"
  part (unPipe p (Env track scope run) (\r _ _ -> writeRef at (Just (Done r))) up down)
