{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RoleAnnotations #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Branches
-- Description : Running branches
-- Stability   : internal
--
-- What 'par' does before its branches run: it collects which ends each is granted, refuses
-- two writers, gives every channel its new seats, and only then starts the branches.
--
-- Cost: as said at each.
-- Owner: a frame belongs to the branch that waits for it.
module Heddle.Rendezvous.Internal.Branches
  ( -- * Branches
    Branches,
    branch,
    par,

    -- * Exceptions
    throwDet,
    tryDet,
  )
where

-- Qualified: the Prelude exports liftA2 since GHC 9.6 only.
import Control.Applicative qualified as Applicative (Applicative (..))
import Control.Monad (forM_)
import Data.Containers.ListUtils (nubOrd)
import Data.List (sort)
import Heddle.Prim.Atomic
  ( Places,
    Ref,
    modifyRef,
    newPlaces,
    newRef,
    newWords,
    readPlace,
    readRef,
    sameRef,
    writePlace,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Exception (Exception (..), bug, unsafeMask)
import Heddle.Rendezvous.Internal.Channel
import Heddle.Rendezvous.Internal.Ends
import Heddle.Rendezvous.Internal.Exception (DuplicateWorld (..), DuplicateWriter (..), Poisoned (..))
import Heddle.Rendezvous.Internal.Types
import Heddle.Sched (Worker, become, hookedTask, pause, pushHere, resume, runningTask, taskScope, workOf)

-- Branches -------------------------------------------------------------------

-- Else 'Data.Coerce.coerce' would take a branch with its grants into another parent.
type role Gathering nominal

type role Branches nominal representational

-- | Branches to run in parallel, and how their results combine.
newtype Branches s a = Branches (Gathering s -> IO (IO a))

data Gathering s = Gathering {gatheringNext :: !(Ref Int), gatheringCode :: !(Ref [Code]), gatheringClaims :: Int -> Claims s}

-- | The code of a branch that has not begun.
newtype Code = Code (Branch -> Worker -> IO ())

instance Functor (Branches s) where
  fmap f (Branches g) = Branches (fmap (fmap f) . g)

instance Applicative.Applicative (Branches s) where
  pure a = Branches (\_ -> pure (pure a))
  Branches f <*> Branches g = Branches $ \gathering -> do
    a <- f gathering
    b <- g gathering
    pure (a <*> b)

  -- Strict: a combination of many results keeps one of these for each.
  liftA2 h (Branches f) (Branches g) = Branches $ \gathering -> do
    !a <- f gathering
    !b <- g gathering
    pure $! (a >>= \x -> h x <$> b)

-- | A branch that is granted some ends, and no other way to the outside: the ends of its
-- parent have the wrong type here.
--
-- [Cost]: 300 bytes, and 100 for each end.
branch :: forall s g a. Grant s g => g -> (forall t. Given t g -> Det t a) -> Branches s a
branch g body = Branches $ \gathering -> do
  i <- modifyRef (gatheringNext gathering) (\n -> (n + 1, n))
  hand <- claim (gatheringClaims gathering i) g
  result <- newRef Nothing
  let code b w = do
        -- Any type will do for the branch, since nothing inside knows which it is.
        Handed given <- hand :: IO (Handed s g)
        unDet (body given :: Det s a) b w (\w' a -> writeRef result (Just a) >> endBranch b Nothing w')
  modifyRef (gatheringCode gathering) (\codes -> (Code code : codes, ()))
  pure (readRef result >>= maybe (bug "a branch has ended without a result") pure)

-- | Run all branches and wait for all of them.
--
-- There is no fairness among them: on one core, a branch that computes for ever may keep others
-- from ever beginning. The run then has no result in any case, but effects of the others may be
-- missing.
--
-- [Cost]: about 100 ns for each branch; a lock for each channel that two or more have ends of.
-- [Blocks]: the branch, not the worker.
-- [Throws]: 'DuplicateWriter' and 'DuplicateWorld', before any branch starts; else what
-- the leftmost branch that failed threw, a 'Poisoned' only if there is nothing else.
par :: Branches s a -> Det s a
par (Branches gather) = det $ \b w k -> do
  numbers <- newRef 0
  codes <- newRef []
  seats <- newRef []
  plans <- newRef []
  worlds <- newRef []
  twice <- newRef []
  results <- gather (Gathering numbers codes (\i -> Claims i seats plans worlds twice))
  count <- readRef numbers
  planned <- readRef plans
  writers <- readRef twice
  worldly <- nubOrd <$> readRef worlds
  turn <-
    branchDoing b >>= \case
      Active n -> pure (n + 1)
      _ -> bug "a branch that waits has gone on"
  let name i = branchPath b ++ "/par" ++ (if turn == 1 then "" else '#' : show turn) ++ "[" ++ show (i :: Int) ++ "]"
      refuse :: Exception e => e -> IO ()
      refuse e = mapM_ forgetPlan planned >> throwIn b w (Failure (branchPath b) False (toException e))
  case (reverse writers, worldly) of
    ((plan, channel, _) : _, _) ->
      let clashing = sort (nubOrd (concat [is | (p, _, is) <- writers, sameRef p plan]))
       in refuse (DuplicateWriter channel (map name clashing))
    (_, _ : _ : _) -> refuse (DuplicateWorld (map name (sort worldly)))
    _
      | count == 0 -> results >>= k w
      | otherwise -> do
        mapM_ (commitPlan b) planned
        frame <- newFrame b turn count (\frame -> ended frame results k)
        seatings <- readRef seats
        code <- reverse <$> readRef codes
        run b w (frameBranches frame) frame code seatings

newFrame :: Branch -> Int -> Int -> (Frame -> Worker -> IO ()) -> IO Frame
newFrame b turn count end = do
  branches <- newPlaces count b
  doings <- newPlaces count (Active 0)
  left <- newWords 1
  writeWord left 0 count
  failures <- newRef []
  let frame =
        Frame
          { frameParent = b,
            frameNumber = turn,
            frameBranches = branches,
            frameDoings = doings,
            frameLeft = left,
            frameFailures = failures,
            frameChaos = branchChaos b,
            frameEnd = end frame
          }
  pure frame
{-# NOINLINE newFrame #-}

-- | When the last branch of a frame has ended: go on as the parent, or throw in it.
ended :: Frame -> IO a -> (Worker -> a -> IO ()) -> Worker -> IO ()
ended frame results k w = do
  setDoing b (Active (frameNumber frame))
  failures <- readRef (frameFailures frame)
  let real = [f | f@(_, Failure {failureException = e}) <- failures, not (isPoison e)]
  case (real, failures) of
    ([], []) -> results >>= k w
    ([], f : fs) -> throwIn b w (leftmost f fs)
    (f : fs, _) -> throwIn b w (leftmost f fs)
  where
    b = frameParent frame
    isPoison e = case fromException e of
      Just (Poisoned _) -> True
      Nothing -> False
    leftmost f fs = snd (foldr (\a c -> if fst a < fst c then a else c) f fs)

-- | Seat the branches and start them: the first one on this worker, the others from the deque.
--
-- The places are the frame's. They are a parameter because GHC would otherwise take the frame apart
-- and put it together again for every branch.
run :: Branch -> Worker -> Places Branch -> Frame -> [Code] -> [Seating] -> IO ()
run b w places frame codes seatings = do
  scope <- taskScope <$> runningTask w
  let -- One hook for all branches, which it tells apart by number.
      hook w' i e = readPlace places i >>= \thrower -> crashed thrower w' e
      seat (_, b') [] = pure ([], b')
      seat (i, b') (Seating plan m : more)
        | memberBranch m /= i = pure (Seating plan m : more, b')
        | otherwise = do
          End block _ <- readRef (planBlock plan)
          at <- readRef (memberSeat m)
          writes <- readRef (memberWrites m)
          lent <- null . drop 1 <$> readRef (planMembers plan)
          seat (i, hold block (holdMarks at writes lent) b') more
      build _ _ [] = pure []
      build i pending (Code code : more) = do
        (pending', holds) <- seat (i, Nothing') pending
        let task = hookedTask i scope hook
            !b' = Branch task frame holds
        writePlace places i b'
        install b' holds
        ((task, code b') :) <$> build (i + 1) pending' more
      install _ Nothing' = pure ()
      install b' (Hold block marks) = writePlace (blockBranches block) (holdSeat marks) b'
      install b' (Holds block marks more) = writePlace (blockBranches block) (holdSeat marks) b' >> install b' more
  ready <- build 0 (reverse seatings) codes
  setDoing b (Inside frame)
  let works = [workOf task (\w' () -> go w') () | (task, go) <- ready]
  case (branchChaos b, ready) of
    (Nothing, (task, go) : _) -> do
      forM_ (reverse (drop 1 works)) (pushHere w)
      become w task
      go w
    (chaos, _) -> do
      inOrder <- shuffle chaos works
      unsafeMask $ do
        pause w
        mapM_ (resume w) inOrder
        nextAt b w scope
{-# NOINLINE run #-}

-- Exceptions -----------------------------------------------------------------

-- | Throw. Unless it is caught in the branch, it ends the branch, whose channels are
-- 'Poisoned' from then on, and is thrown to the parent when all branches have ended.
throwDet :: Exception e => e -> Det s a
throwDet e = det $ \b w _ -> do
  -- Forced here: an exception that is itself an error must crash this branch, not its parent.
  let !thrown = toException e
  throwIn b w (Failure (branchPath b) False thrown)

-- | Catch what a part throws: with 'throwDet', as a failed operation of this module, or in
-- 'Heddle.Rendezvous.io'. Exceptions of pure code are not caught, since the compiler decides
-- which of two such comes first.
--
-- [Cost]: one closure.
tryDet :: Exception e => Det s a -> Det s (Either e a)
tryDet (Det m) = det $ \b w k ->
  let handle w' f = case fromException (failureException f) of
        Just e -> k w' (Left e)
        Nothing -> throwIn b w' f
   in m (Handling (branchTask b) handle b) w (\w' a -> k w' (Right a))
