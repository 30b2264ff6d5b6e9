-- |
-- Module      : Heddle.Serve.Held
-- Description : Brackets that end in another order than they began
-- Stability   : internal, exempt from the version policy
--
-- A thread of its own enters a bracket, gives what it has opened to the caller, and stays inside until its time has come.
--
-- Cost: a parked thread each.
-- Owner: 'withHolder' ends what is left.
module Heddle.Serve.Held
  ( Holder,
    withHolder,
    holdOpen,
    holding,
  )
where

import Control.Monad (filterM)
import Data.Foldable (traverse_)
import Data.Maybe (isNothing)
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Prim.Thread (labelMe)
import Heddle.Prim.WaitCell
import Heddle.Scope

-- | The threads, and what hears of a bracket that could not be left properly.
data Holder = Holder !Scope !(Ref [Task ()]) !(String -> IO ())

-- | With a holder; at the end all threads are cancelled, which leaves their brackets.
--
-- [Blocks]: as the body does, and until the brackets are left.
withHolder :: (String -> IO ()) -> (Holder -> IO a) -> IO a
withHolder tell body = withScopeNamed "serve/held" $ \scope -> do
  tasks <- newRef []
  body (Holder scope tasks tell) `finally` (readRef tasks >>= traverse_ cancel)

-- | Run the action in a thread with this name until it gives something to the function that it is passed; it goes on after
-- that. What it throws before that is the answer.
--
-- [Blocks]: parks.
-- [Threads]: one at a time.
holdOpen :: Holder -> String -> ((a -> IO ()) -> IO ()) -> IO (Either SomeException a)
holdOpen holder@(Holder scope tasks tell) name action = do
  answer <- newRef Nothing
  ready <- newWaitCell
  let publish given = writeRef answer (Just given) >> unpark ready
  task <- fork scope $ do
    labelMe name
    done <- trySync (action (publish . Right))
    published <- readRef answer
    case done of
      Right () -> pure ()
      Left e
        | isNothing published -> publish (Left e)
        | otherwise -> tell (name ++ " could not be closed: " ++ describeException e)
  modifyRef tasks (\known -> (task : known, ()))
  _ <- holding holder
  let wait = readRef answer >>= maybe (park ready >> wait) pure
  wait `onException` cancel task

-- | Count the threads inside. Those that have ended are forgotten.
holding :: Holder -> IO Int
holding (Holder _ tasks _) = do
  live <- readRef tasks >>= filterM (fmap isNothing . tryAwait)
  length live <$ writeRef tasks live
