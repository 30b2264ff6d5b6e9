{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DefaultSignatures #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RoleAnnotations #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}
-- The instance of 'Grant' for all other types has no 'Given'.
{-# OPTIONS_GHC -Wno-missing-methods #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Ends
-- Description : Ends of channels, and granting them
-- Stability   : internal
--
-- The ends that branches have, what they do with them, and how a parent grants them: every
-- branch claims its ends, the claims for a channel make a plan, and the plan gives the channel
-- its new seats.
--
-- Cost: as said at each.
-- Owner: an end belongs to the branch whose type it has.
module Heddle.Rendezvous.Internal.Ends
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

    -- * Granting
    Grant (..),
    Handed (..),
    Claims (..),

    -- * Plans
    Seating (..),
    Planned (..),
    forgetPlan,
    commitPlan,
  )
where

import Control.DeepSeq (NFData, rnf)
import Control.Monad (unless, void, when, zipWithM_)
import Data.IntMap.Strict qualified as IntMap
import Data.Kind (Type)
import GHC.Generics
import GHC.TypeLits (ErrorMessage (..), Symbol, TypeError)
import Heddle.Prim.Atomic
  ( Ref,
    atomicRead,
    fetchAdd,
    fetchOr,
    modifyRef,
    newPlaces,
    newRef,
    readPlace,
    readRef,
    readWord,
    writePlace,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Exception (bug)
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

type role Claims nominal

-- | A channel; its creator may grant its ends. The name is for reports.
--
-- [Cost]: 400 bytes. Collections do not visit channels that nobody has used since the last one.
newChan :: String -> Det s (Chan s a)
newChan name = det (\b w k -> newChannel b name >>= k w . Chan)

-- | The writer's end, to be granted to one branch.
out :: Chan s a -> Writing s a
out (Chan e) = Writing e

-- | The readers' end, to be granted to any number of branches.
inp :: Chan s a -> Reading s a
inp (Chan e) = Reading e

-- | Give a value to every reader. Returns when all have come for it; at once if no reader is left.
--
-- The value is evaluated completely first, so no reader ever evaluates part of it: its work,
-- its exceptions, and the effects of input that is read lazily belong to the sender.
--
-- [Cost]: about 20 ns for each member; one fetch-and-add, or none; and 'rnf' of the value, which
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
--
-- A type of your own, whose fields can be granted, needs only an instance that says what
-- the branch is given: a type of the same shape, whose fields are what is given for those.
--
-- > data Offer s = Offer {jobs :: Reading s Int, answers :: Writing s Text}
-- >   deriving stock (Generic)
-- >
-- > data Ends t = Ends {jobsIn :: In t Int, answersOut :: Out t Text}
-- >   deriving stock (Generic)
-- >
-- > instance s ~ s' => Grant s (Offer s') where
-- >   type Given t (Offer s') = Ends t
class Grant s g where
  -- | What branch @t@ is given.
  type Given t g

  -- | Register what the branch gets, and how to hand it over later. Not exported: outside of this
  -- module only the default can define it.
  claim :: Claims s -> g -> IO (IO (Handed t g))
  default claim :: ByFields s t g (Given t g) => Claims s -> g -> IO (IO (Handed t g))
  claim claims g = fmap handFielded <$> claimByFields claims g

-- | 'Given', as an injective type: it says of which grant.
newtype Handed t g = Handed (Given t g)

-- | A type whose fields can be granted, and the type of the same shape that is given for it.
class ByFields s t g h where
  claimByFields :: Claims s -> g -> IO (IO (Fielded t h))

-- | What branch @t@ is given.
newtype Fielded t h = Fielded h

-- A class of its own, because GHC 9.0 refuses a 'TypeError' in a default signature.
instance
  ( Derived (Rep g) (TypeError (NoShape g "is to be granted")) ~ 'True,
    Derived (Rep h) (TypeError (NoShape h "is to be given to a branch")) ~ 'True,
    Generic g,
    Generic h,
    GrantFields s t (Rep g) (Rep h)
  ) =>
  ByFields s t g h
  where
  claimByFields claims g = fmap fielded <$> claimFields claims (from g)
    where
      fielded :: Fields t (Rep h) p -> Fielded t h
      fielded (Fields x) = Fielded (to x)

-- | Is it known which fields a type has? If not, this is no type that anything equals, and the other one says why.
type family Derived (shape :: Type -> Type) (why :: Bool) :: Bool where
  Derived (M1 i c f) why = 'True

type NoShape (g :: Type) (use :: Symbol) =
  'ShowType g ':<>: 'Text " has no Generic to say which fields it has, and " ':<>: 'Text use ':<>: 'Text "."
    ':$$: 'Text "Derive Generic for the type that is granted, and for the one that a branch is given for it,"
    ':$$: 'Text "which has the same fields, but ends (In, Out) where that has Reading and Writing."

-- | For all other types. Without 'Given', so that it does not overlap that of other instances. The error is in an equality
-- because a program that is compiled in spite of it (with @-fdefer-type-errors@) then throws it.
instance {-# OVERLAPPABLE #-} (TypeError (NoGrant g) ~ 'True) => Grant s g where
  claim _ _ = bug "a branch that cannot be granted this has begun"

type NoGrant (g :: Type) =
  'ShowType g ':<>: 'Text " is not something a branch can be granted."
    ':$$: 'Text "It can be granted ends of channels (inp c, out c, or what it was given for these), the world, (),"
    ':$$: 'Text "lists, Maybe and tuples of grants, and values of types that derive Generic and have an instance of Grant."

-- | The grants in a value's fields, and what is given for them.
class GrantFields s t (f :: Type -> Type) (h :: Type -> Type) where
  claimFields :: Claims s -> f p -> IO (IO (Fields t h p))

-- | What branch @t@ is given.
newtype Fields t h p = Fields (h p)

-- These keep the type @t@, which nothing else determines.

handFielded :: Fielded t (Given t g) -> Handed t g
handFielded (Fielded x) = Handed x

mapFields :: (h p -> i p) -> Fields t h p -> Fields t i p
mapFields f (Fields x) = Fields (f x)

bothFields :: Fields t h p -> Fields t i p -> Fields t (h :*: i) p
bothFields (Fields x) (Fields y) = Fields (x :*: y)

instance (Grant s g, h ~ Given t g) => GrantFields s t (K1 i g) (K1 j h) where
  claimFields claims (K1 g) = fmap field <$> claim claims g
    where
      field :: Handed t g -> Fields t (K1 j (Given t g)) p
      field (Handed x) = Fields (K1 x)

-- The names of types, constructors and fields may differ.
instance GrantFields s t f h => GrantFields s t (M1 i c f) (M1 i d h) where
  claimFields claims (M1 f) = fmap (mapFields M1) <$> claimFields claims f

instance GrantFields s t U1 U1 where
  claimFields _ U1 = pure (pure (Fields U1))

instance (GrantFields s t f h, GrantFields s t g i) => GrantFields s t (f :*: g) (h :*: i) where
  claimFields claims (f :*: g) = both <$> claimFields claims f <*> claimFields claims g
    where
      both hand other = bothFields <$> hand <*> other

instance (GrantFields s t f h, GrantFields s t g i) => GrantFields s t (f :+: g) (h :+: i) where
  claimFields claims = \case
    L1 f -> fmap (mapFields L1) <$> claimFields claims f
    R1 g -> fmap (mapFields R1) <$> claimFields claims g

-- | Other constructors, or other numbers of fields.
instance {-# OVERLAPPABLE #-} (TypeError (OtherShape f h) ~ 'True) => GrantFields s t f h where
  claimFields _ _ = bug "a branch that cannot be granted this has begun"

type OtherShape (f :: Type -> Type) (h :: Type -> Type) =
  'Text "What a branch is given must have the constructors of what is granted, each with as many fields."

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
    -- | Channels with several writers: the plan's writer, which identifies the channel; the
    -- channel's name; and the branches that claim its writer's end.
    claimsTwice :: !(Ref [(Ref (Maybe Int), String, [Int])])
  }

-- | A seat of one branch, which it gets when all is planned.
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
planFor claims e@(End block i) =
  readPlace (blockSlots block) i >>= \case
    Planning plan -> pure plan
    _ -> do
      plan <- Plan <$> newRef [] <*> newRef Nothing <*> newRef (End block i)
      writePlace (blockSlots block) i (Planning plan)
      modifyRef (claimsPlans claims) (\plans -> (Planned e plan : plans, ()))
      pure plan

forgetPlan :: Planned -> IO ()
forgetPlan (Planned (End block i) _) = writePlace (blockSlots block) i Vacant

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
      slots <- newPlaces size Vacant
      branches <- newPlaces size parent
      inner <- newRef IntMap.empty
      counts <- newBlockWords n
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
        x <- atomicRead (blockWord block) stateWord
        unless (wordEnrolled x == 1) (void (fetchOr (blockWord block) stateWord treeFlag))
        void (fetchAdd (blockWord block) stateWord ((n - 1) * oneMember))
