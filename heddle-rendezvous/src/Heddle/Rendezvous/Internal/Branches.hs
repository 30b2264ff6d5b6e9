{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RoleAnnotations #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE UndecidableInstances #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Branches
-- Description : Granting ends, and running branches
-- Stability   : internal
--
-- What 'par' does before its branches run: it hears from each which ends it is to get,
-- refuses two writers, gives every channel its new seats, and only then starts them.
--
-- Cost: as said at each.
-- Owner: a frame belongs to the branch that waits for it.
module Heddle.Rendezvous.Internal.Branches
  ( -- * Ends
    Chan (..),
    Out (..),
    In (..),
    World (..),
    Writing (..),
    Reading (..),
    newChan,
    out,
    inp,
    send,
    sendLazy,
    recv,

    -- * Branches
    Grant (..),
    Handed,
    Claims,
    Branches,
    branch,
    par,

    -- * Exceptions
    throwDet,
    tryDet,
    DuplicateWriter (..),
    DuplicateWorld (..),
  )
where

import Control.Applicative (Applicative (..))
import Control.DeepSeq (NFData, rnf)
import Control.Monad (forM_, unless, void, when, zipWithM_)
import Data.Containers.ListUtils (nubOrd)
import Data.IntMap.Strict qualified as IntMap
import Data.List (intercalate, sort)
import Heddle.Par.Internal
  ( Task (..),
    Work (..),
    Worker,
    become,
    pause,
    pushHere,
    resume,
    runningTask,
    taskScope,
  )
import Heddle.Prim.Atomic
  ( Ref,
    Table,
    atomicRead,
    fetchAdd,
    fetchOr,
    modifyRef,
    newRef,
    newTable,
    newWords,
    readEntry,
    readRef,
    readWord,
    sameRef,
    writeEntry,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Exception (Exception (..), bug, unsafeMask)
import Heddle.Prim.Lock (withLock)
import Heddle.Rendezvous.Internal.Channel
import Heddle.Rendezvous.Internal.Types

-- Ends -----------------------------------------------------------------------

-- | A channel, as its creator has it: the right to grant its ends.
newtype Chan s a = Chan (End a)

-- | The writer's end, for the branch @s@.
newtype Out s a = Out (End a)

-- | A reader's end, for the branch @s@.
newtype In s a = In (End a)

-- | The right to effects, for the branch @s@.
data World s = World

-- | What a branch is granted to write to a channel.
newtype Writing s a = Writing (End a)

-- | What a branch is granted to read from a channel.
newtype Reading s a = Reading (End a)

type role Chan nominal nominal

type role Out nominal nominal

type role In nominal nominal

type role World nominal

type role Writing nominal nominal

type role Reading nominal nominal

-- Else 'Data.Coerce.coerce' would take a branch with its grants into another parent.
type role Claims nominal

type role Gathering nominal

type role Branches nominal representational

-- | A channel. The name is for reports.
--
-- [Cost]: 500 bytes.
newChan :: String -> Det s (Chan s a)
newChan name = det (\b w k -> newChannel b name >>= k w . Chan)

-- | The writer's end, to be granted to one branch.
out :: Chan s a -> Writing s a
out (Chan e) = Writing e

-- | The readers' end, to be granted to any number of branches.
inp :: Chan s a -> Reading s a
inp (Chan e) = Reading e

-- | Give a value to every reader. Returns when all have come for it; at once if there is none
-- left.
--
-- The value is evaluated completely first, so no reader ever evaluates part of it: its work,
-- its exceptions, and the effects of input that is read lazily belong to the sender.
--
-- [Cost]: some 20 ns for each member; one fetch-and-add, or none; and 'rnf' of the value, which
-- for a number is one test, but visits all of a large structure at every send: see 'sendLazy'.
-- [Blocks]: the branch, not the worker.
-- [Throws]: 'Poisoned'.
send :: NFData a => Out s a -> a -> Det s ()
send (Out e) a = det (\b w k -> rnf a `seq` send' e a b w k)
{-# INLINE send #-}

-- | 'send' for a value that is evaluated to weak head normal form only: because its type has no
-- 'NFData', it is infinite, or it is large and known to be evaluated. What remains is evaluated
-- by whichever reader needs it first, and what that throws ends that reader.
--
-- [Cost]: as 'send', without 'rnf'.
-- [Blocks]: the branch, not the worker.
-- [Throws]: 'Poisoned'.
sendLazy :: Out s a -> a -> Det s ()
sendLazy (Out e) a = det (\b w k -> a `seq` send' e a b w k)
{-# INLINE sendLazy #-}

-- | The value that the writer gives, when every reader has come for it.
--
-- [Cost]: as 'send'.
-- [Blocks]: the branch, not the worker.
-- [Throws]: 'WriterEnded', 'Poisoned'.
recv :: In s a -> Det s a
recv (In e) = det (receive e)
{-# INLINE recv #-}

-- Granting -------------------------------------------------------------------

-- | What can be granted to a branch, and what the branch is given for it: an end of a
-- channel, to a creator's or to one that was granted itself; the world; nothing; several of
-- these.
class Grant s g where
  -- | What branch @t@ is given.
  type Given t g

  -- | Register what branch is to get, and how to hand it over later.
  claim :: Claims s -> g -> IO (IO (Handed t g))

-- | 'Given', as a type that says of which grant.
newtype Handed t g = Handed (Given t g)

instance Grant s () where
  type Given t () = ()
  claim _ () = pure (pure (Handed ()))

instance s ~ s' => Grant s (Writing s' a) where
  type Given t (Writing s' a) = Out t a
  claim claims (Writing e) = fmap (Handed . Out) <$> claimEnd claims e True

instance s ~ s' => Grant s (Reading s' a) where
  type Given t (Reading s' a) = In t a
  claim claims (Reading e) = fmap (Handed . In) <$> claimEnd claims e False

instance s ~ s' => Grant s (Out s' a) where
  type Given t (Out s' a) = Out t a
  claim claims (Out e) = fmap (Handed . Out) <$> claimEnd claims e True

instance s ~ s' => Grant s (In s' a) where
  type Given t (In s' a) = In t a
  claim claims (In e) = fmap (Handed . In) <$> claimEnd claims e False

instance s ~ s' => Grant s (World s') where
  type Given t (World s') = World t
  claim claims World = do
    modifyRef (claimsWorlds claims) (\is -> (claimsBranch claims : is, ()))
    pure (pure (Handed World))

instance Grant s g => Grant s [g] where
  type Given t [g] = [Given t g]
  claim claims gs = handList <$> mapM (claim claims) gs

instance Grant s g => Grant s (Maybe g) where
  type Given t (Maybe g) = Maybe (Given t g)
  claim claims = maybe (pure (pure (Handed Nothing))) (fmap handJust . claim claims)

instance (Grant s g, Grant s h) => Grant s (g, h) where
  type Given t (g, h) = (Given t g, Given t h)
  claim claims (g, h) = handBoth (,) <$> claim claims g <*> claim claims h

instance (Grant s g, Grant s h, Grant s i) => Grant s (g, h, i) where
  type Given t (g, h, i) = (Given t g, Given t h, Given t i)
  claim claims (g, h, i) = handBoth (\(x, y) z -> (x, y, z)) <$> claim claims (g, h) <*> claim claims i

instance (Grant s g, Grant s h, Grant s i, Grant s j) => Grant s (g, h, i, j) where
  type Given t (g, h, i, j) = (Given t g, Given t h, Given t i, Given t j)
  claim claims (g, h, i, j) = handBoth (\(x, y) (z, u) -> (x, y, z, u)) <$> claim claims (g, h) <*> claim claims (i, j)

handList :: [IO (Handed t g)] -> IO (Handed t [g])
handList hands = Handed . map (\(Handed x) -> x) <$> sequence hands

handJust :: IO (Handed t g) -> IO (Handed t (Maybe g))
handJust = fmap (\(Handed x) -> Handed (Just x))

handBoth :: (Given t g -> Given t h -> Given t i) -> IO (Handed t g) -> IO (Handed t h) -> IO (Handed t i)
handBoth f a b = do
  Handed x <- a
  Handed y <- b
  pure (Handed (f x y))

-- | What the branches of a 'par' have claimed so far; the type @s@ is the parent.
data Claims s = Claims
  { -- | The number of the branch that claims now.
    claimsBranch :: !Int,
    claimsSeats :: !(Ref [Seating]),
    claimsPlans :: !(Ref [Planned]),
    claimsWorlds :: !(Ref [Int]),
    -- | For a channel with several writers: which one, by its plan; its name; and who.
    claimsTwice :: !(Ref [(Ref (Maybe Int), String, [Int])])
  }

-- | A seat of one branch, to be had when all is planned.
data Seating = forall a. Seating !(Plan a) !Member

-- | A channel that some branch will have an end of.
data Planned = forall a. Planned !(End a) !(Plan a)

claimEnd :: Claims s -> End a -> Bool -> IO (IO (End a))
claimEnd claims e writes = do
  plan <- planFor claims e
  members <- readRef (planMembers plan)
  member <- case members of
    m : _ | memberBranch m == number -> pure m
    _ -> do
      m <- Member number <$> newRef False <*> newRef 0
      writeRef (planMembers plan) (m : members)
      modifyRef (claimsSeats claims) (\seats -> (Seating plan m : seats, ()))
      pure m
  when writes (writer plan member)
  pure $ do
    End block _ <- readRef (planBlock plan)
    End block <$> readRef (memberSeat member)
  where
    number = claimsBranch claims
    End own _ = e
    writer plan member = do
      writeRef (memberWrites member) True
      readRef (planWriter plan) >>= \case
        Just other
          | other /= number ->
            modifyRef (claimsTwice claims) (\twice -> ((planWriter plan, channelName (blockChannel own), [other, number]) : twice, ()))
        _ -> writeRef (planWriter plan) (Just number)

-- | The plan for a channel, in the parent's own slot.
planFor :: Claims s -> End a -> IO (Plan a)
planFor claims e@(End block i) = do
  at <- ownSlot e
  readEntry (blockSlots block) at >>= \case
    Planning plan -> pure plan
    _ -> do
      plan <- Plan <$> newRef [] <*> newRef Nothing <*> newRef (End block i)
      writeEntry (blockSlots block) at (Planning plan)
      modifyRef (claimsPlans claims) (\plans -> (Planned e plan : plans, ()))
      pure plan

-- | Where the parent, who has not arrived, would arrive.
ownSlot :: End a -> IO Int
ownSlot (End block i) = do
  x <- atomicRead (blockWord block) 0
  pure (wordParity x * blockSize block + i)

forgetPlan :: Planned -> IO ()
forgetPlan (Planned e@(End block _) _) = ownSlot e >>= \at -> writeEntry (blockSlots block) at Vacant

-- | Give a channel its new seats: the parent's own, if one branch takes part; else a block
-- of seats inside the parent's.
commitPlan :: Branch -> Planned -> IO ()
commitPlan parent planned@(Planned (End block i) plan) = do
  forgetPlan planned
  readRef (planMembers plan) >>= \case
    [only] -> do
      writeRef (memberSeat only) i
      when (i == 0) $ do
        writes <- readRef (memberWrites only)
        kept <- readWord (blockWords block) keptWord
        unless (writes && kept == 0) (writeWord (blockWords block) keptWord (kept + 1))
    members -> do
      writes <- readRef (planWriter plan)
      let n = length members
          size = maybe (n + 1) (const n) writes
      slots <- newTable (2 * size) Vacant
      branches <- newTable size parent
      inner <- newRef IntMap.empty
      counts <- newWords 5
      writeWord counts takenWord n
      let inside =
            Block
              { blockWord = blockWord block,
                blockSlots = slots,
                blockSize = size,
                blockBranches = branches,
                blockInner = inner,
                blockWords = counts,
                blockWrites = maybe False (const True) writes,
                blockChannel = blockChannel block,
                blockAbove = Just (Above block i parent)
              }
          readers = [m | m <- reverse members, Just (memberBranch m) /= writes]
      zipWithM_ (writeRef . memberSeat) readers [1 ..]
      writeRef (planBlock plan) (End inside 0)
      withLock (channelLock (blockChannel block)) $ do
        modifyRef (blockInner block) (\others -> (IntMap.insert i inside others, ()))
        x <- atomicRead (blockWord block) 0
        unless (wordEnrolled x == 1) (void (fetchOr (blockWord block) 0 treeFlag))
        void (fetchAdd (blockWord block) 0 ((n - 1) * oneMember))

-- Branches -------------------------------------------------------------------

-- | Branches to run in parallel, and how their results combine.
newtype Branches s a = Branches (Gathering s -> IO (IO a))

data Gathering s = Gathering {gatheringNext :: !(Ref Int), gatheringCode :: !(Ref [Code]), gatheringClaims :: Int -> Claims s}

-- | A branch to be: what it does.
newtype Code = Code (Branch -> Worker -> IO ())

instance Functor (Branches s) where
  fmap f (Branches g) = Branches (fmap (fmap f) . g)

instance Applicative (Branches s) where
  pure a = Branches (\_ -> pure (pure a))
  Branches f <*> Branches g = Branches $ \gathering -> do
    a <- f gathering
    b <- g gathering
    pure (a <*> b)

  -- Whoever combines many results keeps this for each of them.
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
-- There is no fairness among them: on one core, one that computes for ever may keep others
-- from ever beginning. No result depends on it, since there is none then; but effects that
-- could have come before may not come.
--
-- [Cost]: some 100 ns for each branch; a lock for each channel that two or more have ends of.
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
  branches <- newTable count b
  doings <- newTable count (Active 0)
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

-- | When no branch is left.
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

-- | Seat the branches and start them: the first one here, the others for who takes them.
--
-- The table is the frame's; taken out here, GHC would take the frame apart and put it
-- together again for every branch.
run :: Branch -> Worker -> Table Branch -> Frame -> [Code] -> [Seating] -> IO ()
run b w table frame codes seatings = do
  home <- taskScope <$> runningTask w
  let -- One for all, by number.
      hook w' i e = readEntry table i >>= \thrower -> crashed thrower w' e
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
        let task = HookedTask i home hook
            !b' = Branch task frame holds
        writeEntry table i b'
        install b' holds
        ((task, code b') :) <$> build (i + 1) pending' more
      install _ Nothing' = pure ()
      install b' (Hold block marks) = writeEntry (blockBranches block) (holdSeat marks) b'
      install b' (Holds block marks more) = writeEntry (blockBranches block) (holdSeat marks) b' >> install b' more
  ready <- build 0 (reverse seatings) codes
  setDoing b (Inside frame)
  let works = [Work task 0 (\w' () -> go w') () | (task, go) <- ready]
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
        nextAt b w home
{-# NOINLINE run #-}

-- Exceptions -----------------------------------------------------------------

-- | Throw. Unless it is caught in the branch, it ends the branch, whose channels are
-- 'Poisoned' from then on, and is thrown to the parent when all branches have ended.
throwDet :: Exception e => e -> Det s a
throwDet e = det $ \b w _ -> do
  -- An exception that is itself an error is a crash of this branch, not of its parent.
  let !thrown = toException e
  throwIn b w (Failure (branchPath b) False thrown)

-- | What a part throws: with 'throwDet', or as a failed operation of this module, or in
-- 'Heddle.Rendezvous.io'. Exceptions of pure code are not caught, since which of two
-- such comes first is up to the compiler.
--
-- [Cost]: one closure.
tryDet :: Exception e => Det s a -> Det s (Either e a)
tryDet (Det m) = det $ \b w k ->
  let handle w' f = case fromException (failureException f) of
        Just e -> k w' (Left e)
        Nothing -> throwIn b w' f
   in m (Handling (branchTask b) handle b) w (\w' a -> k w' (Right a))

-- | A 'par' would have given the writer's end of a channel to two branches.
data DuplicateWriter = DuplicateWriter {duplicateChannel :: String, duplicateBranches :: [String]}
  deriving stock (Eq, Show)

instance Exception DuplicateWriter where
  displayException (DuplicateWriter channel branches) =
    "channel " ++ show channel ++ ": its writer's end was granted to " ++ intercalate " and " branches
      ++ "; a channel has one writer. Give each writer a channel of its own."

-- | A 'par' would have let several branches have effects.
newtype DuplicateWorld = DuplicateWorld [String]
  deriving stock (Eq, Show)

instance Exception DuplicateWorld where
  displayException (DuplicateWorld branches) =
    "the world was granted to " ++ intercalate " and " branches
      ++ "; the order of their effects would be a matter of timing. Grant it to one, and let the others send to it."
