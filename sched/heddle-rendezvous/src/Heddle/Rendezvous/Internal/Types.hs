{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE RoleAnnotations #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Types
-- Description : What branches and channels are made of
-- Stability   : internal
--
-- A run is a tree of branches: 'Heddle.Rendezvous.par' makes a 'Frame' of them and waits
-- for all. Code is in continuation-passing style, so a branch that waits is its
-- continuation in a slot of a channel, and nothing else.
--
-- Cost: a branch that waits takes about 250 bytes; see the benchmark @memory@.
-- Owner: a branch belongs to the worker that runs it; channels are shared as said at each.
module Heddle.Rendezvous.Internal.Types
  ( -- * Computations
    Det (..),
    det,

    -- * Branches
    Branch (..),
    branchNumber,
    Frame (..),
    Doing (..),
    Failure (..),
    branchPath,
    branchChaos,
    branchDoing,
    setDoing,
    enclosing,

    -- * Channels
    Channel (..),
    Block (..),
    Above (..),
    Slot (..),
    brought,
    Plan (..),
    Member (..),
    End (..),
    Holds (..),
    hold,
    holdMarks,
    holdSeat,
    holdWrites,
    holdLent,

    -- * The word of a channel
    wordPending,
    wordEnrolled,
    wordParity,
    isLast,
    isMarked,
    isPoisoned,
    oneMember,
    parityFlag,
    treeFlag,
    poisonFlag,
    chaosFlag,
    freshStep,
  )
where

import Data.Bits (testBit, unsafeShiftL, unsafeShiftR, xor, (.&.), (.|.))
import Data.IntMap.Strict (IntMap)
import Heddle.Prim.Atomic (Places, Ref, Words, readPlace, readRef, writePlace, writeRef)
import Heddle.Prim.Exception (SomeException)
import Heddle.Prim.Lock (Lock)
import Heddle.Prim.Unsafe (oneShot)
import Heddle.Sched (Task, Worker, taskIndex)

-- | A computation that communicates by channels only, and so has the same result on every
-- schedule. The type @s@ is the branch that it runs in: ends of channels belong to one.
--
-- [Cost]: a bind is a function call.
newtype Det s a = Det {unDet :: Branch -> Worker -> (Worker -> a -> IO ()) -> IO ()}

type role Det nominal representational

{- HLINT ignore det "Avoid lambda" -}
-- oneShot is about lambdas.
{- HLINT ignore once "Avoid lambda" -}
-- The same.

-- | The only way a computation is made: its code is entered once each time it is run, so
-- GHC need not share anything between runs, and compiles binds to straight code.
det :: (Branch -> Worker -> (Worker -> a -> IO ()) -> IO ()) -> Det s a
det f = Det (oneShot (\branch -> oneShot (\worker -> oneShot (\continue -> f branch worker continue))))
{-# INLINE det #-}

-- | Tells GHC that a continuation is called once, so that it need not share what is computed
-- before its arguments are there.
once :: (Worker -> a -> IO ()) -> Worker -> a -> IO ()
once continue = oneShot (\worker -> oneShot (\a -> continue worker a))
{-# INLINE once #-}

instance Functor (Det s) where
  fmap f (Det m) = det (\branch worker continue -> m branch worker (once (\after a -> continue after (f a))))
  {-# INLINE fmap #-}

instance Applicative (Det s) where
  pure a = det (\_ worker continue -> continue worker a)
  {-# INLINE pure #-}
  Det mf <*> Det ma =
    det (\branch worker continue -> mf branch worker (once (\after f -> ma branch after (once (\final a -> continue final (f a))))))
  {-# INLINE (<*>) #-}
  Det ma *> Det mb = det (\branch worker continue -> ma branch worker (once (\after _ -> mb branch after continue)))
  {-# INLINE (*>) #-}

instance Monad (Det s) where
  Det m >>= f = det (\branch worker continue -> m branch worker (once (\after a -> unDet (f a) branch after continue)))
  {-# INLINE (>>=) #-}

-- Branches -------------------------------------------------------------------

-- | A sequential part of a run.
data Branch
  = -- | A branch of a 'Heddle.Rendezvous.par'; its number there is its task's.
    Branch
      { branchTask :: !Task,
        _branchFrame :: !Frame,
        -- | The ends it was granted.
        _branchHolds :: !Holds
      }
  | -- | The outermost one of a run or of a search: its name, what it does, the seed of a random
    -- schedule, and what handles its exception.
    Top
      { branchTask :: !Task,
        _topName :: String,
        _topDoing :: !(Ref Doing),
        _topChaos :: !(Maybe Words),
        _topEnd :: Worker -> Failure -> IO ()
      }
  | -- | One of these inside 'Heddle.Rendezvous.tryDet', with the handler.
    Handling
      { branchTask :: !Task,
        _handler :: Worker -> Failure -> IO (),
        _handlingBranch :: !Branch
      }

-- | Which one of its frame a branch is.
branchNumber :: Branch -> Int
branchNumber = taskIndex . branchTask

-- | The branches of one 'Heddle.Rendezvous.par'.
data Frame = Frame
  { frameParent :: !Branch,
    -- | Which one of the parent's, from 1.
    frameNumber :: !Int,
    frameBranches :: !(Places Branch),
    frameDoings :: !(Places Doing),
    -- | How many branches have not ended.
    frameLeft :: !Words,
    frameFailures :: !(Ref [(Int, Failure)]),
    frameChaos :: !(Maybe Words),
    -- | The continuation of the parent, for when no branch is left.
    frameEnd :: Worker -> IO ()
  }

-- | What a branch does. Written by the branch.
data Doing
  = -- | It runs, or waits at a channel; the number counts the frames it has had.
    Active !Int
  | -- | It waits for the branches of one.
    Inside !Frame
  | -- | It has ended.
    Ended'

-- | What ended a branch: the path of the branch that threw it, whether pure code threw it, and the
-- exception. 'Heddle.Rendezvous.tryDet' does not catch an exception of pure code, since the
-- compiler decides which of two such comes first.
data Failure = Failure
  { failurePath :: String,
    failureCrash :: !Bool,
    failureException :: !SomeException
  }

-- | The name of a branch: @main\/par[1]@ is the second branch of main's first
-- 'Heddle.Rendezvous.par', @main\/par#2[0]@ the first of its second.
--
-- [Cost]: O(depth).
branchPath :: Branch -> String
branchPath = go []
  where
    -- With what follows, so that long paths are not copied at every step.
    go end b = case b of
      Top {_topName = name} -> name ++ end
      Branch _ frame _ -> go ("/par" ++ number (frameNumber frame) ++ "[" ++ show (branchNumber b) ++ "]" ++ end) (frameParent frame)
      Handling _ _ inner -> go end inner
    number 1 = ""
    number n = '#' : show n

-- | The seed of a random schedule.
branchChaos :: Branch -> Maybe Words
branchChaos = \case
  Top {_topChaos = chaos} -> chaos
  Branch _ frame _ -> frameChaos frame
  Handling _ _ inner -> branchChaos inner

branchDoing :: Branch -> IO Doing
branchDoing b = case b of
  Top {_topDoing = doing} -> readRef doing
  Branch _ frame _ -> readPlace (frameDoings frame) (branchNumber b)
  Handling _ _ inner -> branchDoing inner

setDoing :: Branch -> Doing -> IO ()
setDoing b d = case b of
  Top {_topDoing = doing} -> writeRef doing d
  Branch _ frame _ -> writePlace (frameDoings frame) (branchNumber b) d
  Handling _ _ inner -> setDoing inner d

-- | The branch and those it is inside of, innermost first.
enclosing :: Branch -> [Branch]
enclosing b = case b of
  Top {} -> [b]
  Branch _ frame _ -> b : enclosing (frameParent frame)
  Handling _ _ inner -> enclosing inner

-- Channels -------------------------------------------------------------------

-- | One writer, any number of readers, all of whom take part in every step.
data Channel a = Channel
  { channelName :: String,
    -- | See 'wordPending'.
    channelWord :: !Words,
    -- | Held where the set of members changes.
    channelLock :: !Lock,
    -- | The creator's.
    channelRoot :: Block a
  }

-- | The seats that one frame has on a channel. They never move; a seat whose branch lets
-- branches of its own take part has another block inside.
data Block a = Block
  { blockWord :: !Words,
    -- | Each belongs to its member until that arrives.
    blockSlots :: !(Places (Slot a)),
    blockSize :: !Int,
    -- | The branch that has each seat. Changed under the channel's lock, or by the branch that
    -- shares the seat, before its branches begin.
    blockBranches :: !(Places Branch),
    -- | The blocks inside seats, by seat. Changed under the channel's lock.
    blockInner :: !(Ref (IntMap (Block a))),
    -- | See "Heddle.Rendezvous.Internal.Channel".
    blockWords :: !Words,
    -- | Is seat 0 the writer's?
    blockWrites :: !Bool,
    blockChannel :: !(Channel a),
    blockAbove :: !(Maybe (Above a))
  }

-- | The seat that a block is inside of, and the branch that had it.
data Above a = Above !(Block a) !Int !Branch

-- | What is in a member's slot: what it has brought to a step, with the 'wordParity' of that, since
-- a member may not have been resumed from the last step when others arrive for this one.
data Slot a
  = -- | Nothing; it has not arrived, or has been resumed.
    Vacant
  | Receiver !Branch !Int (Worker -> a -> IO ())
  | Sender !Branch !Int (Worker -> () -> IO ()) a
  | -- | Nothing yet; its branch is about to share the seat.
    Planning !(Plan a)

-- | What the member in a seat has brought to the step of this parity.
brought :: Block a -> Int -> Int -> IO (Slot a)
brought block parity i =
  readPlace (blockSlots block) i >>= \case
    Receiver _ step _ | step /= parity -> pure Vacant
    Sender _ step _ _ | step /= parity -> pure Vacant
    slot -> pure slot

-- | Which branches will take part in a channel, while a 'Heddle.Rendezvous.par' begins.
data Plan a = Plan
  { -- | The last is first.
    planMembers :: !(Ref [Member]),
    -- | The number of the branch that may write.
    planWriter :: !(Ref (Maybe Int)),
    planBlock :: !(Ref (End a))
  }

-- | The number of a branch, whether it may write, and its seat.
data Member = Member {memberBranch :: !Int, memberWrites :: !(Ref Bool), memberSeat :: !(Ref Int)}

-- | A seat.
data End a = End !(Block a) !Int

-- | The seats of a branch, with their 'holdMarks'.
data Holds
  = Nothing'
  | forall a. Hold !(Block a) !Int
  | forall a. Holds !(Block a) !Int !Holds

-- | One seat more.
hold :: Block a -> Int -> Holds -> Holds
hold block marks = \case
  Nothing' -> Hold block marks
  more -> Holds block marks more

-- | A seat's number; whether its branch may write; and whether it has the seat from its
-- parent, and gives it back: in one word.
holdMarks :: Int -> Bool -> Bool -> Int
holdMarks seat writes lent = 4 * seat + 2 * fromEnum writes + fromEnum lent

holdSeat :: Int -> Int
holdSeat marks = marks `unsafeShiftR` 2

holdWrites, holdLent :: Int -> Bool
holdWrites marks = testBit marks 1
holdLent marks = testBit marks 0

-- The word ------------------------------------------------------------------

-- A channel's state is one word: how many members have yet to arrive, how many there are,
-- the parity of the step, and what is unusual about it.

-- | How many members have not arrived.
wordPending :: Int -> Int
wordPending x = x .&. 0xfffffff
{-# INLINE wordPending #-}

-- | How many members there are.
wordEnrolled :: Int -> Int
wordEnrolled x = (x `unsafeShiftR` 28) .&. 0xfffffff
{-# INLINE wordEnrolled #-}

-- | Is the step's number odd?
wordParity :: Int -> Int
wordParity x = (x `unsafeShiftR` 56) .&. 1
{-# INLINE wordParity #-}

-- | One more member, which has not arrived.
oneMember :: Int
oneMember = (1 `unsafeShiftL` 28) + 1

parityFlag, treeFlag, poisonFlag, chaosFlag, markFlags :: Int
parityFlag = 1 `unsafeShiftL` 56

-- | Not all members sit in one block.
treeFlag = 1 `unsafeShiftL` 57

-- | A member threw.
poisonFlag = 1 `unsafeShiftL` 58

-- | Nothing goes the short way: the schedule is random, for tests.
chaosFlag = 1 `unsafeShiftL` 59

markFlags = treeFlag .|. poisonFlag .|. chaosFlag

-- | Have all other members arrived, without any of the special cases?
isLast :: Int -> Bool
isLast x = x .&. (0xfffffff .|. markFlags) == 1
{-# INLINE isLast #-}

isMarked :: Int -> Bool
isMarked x = x .&. markFlags /= 0
{-# INLINE isMarked #-}

isPoisoned :: Int -> Bool
isPoisoned x = x .&. poisonFlag /= 0
{-# INLINE isPoisoned #-}

-- | The next step of the same members.
freshStep :: Int -> Int
freshStep x =
  let n = wordEnrolled x
   in ((x .&. (parityFlag .|. markFlags)) `xor` parityFlag) .|. (n `unsafeShiftL` 28) .|. n
{-# INLINE freshStep #-}
