{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE GADTs #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE QuantifiedConstraints #-}
{-# LANGUAGE RankNTypes #-}

-- | The terms as coroutines: those of the library and those of the specification.
module ArticleLibrary
  ( Library (..),
    Out,
    note,
    SplitF,
    TransF,
    splitter,
    transducer,
    said,
  )
where

import ArticleTerms
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Writer.Strict (Writer, runWriter, tell)
import Data.Kind (Type)
import Heddle.Coroutine (EitherFunctor (..), Part (..))
import Heddle.Coroutine qualified as Ours
import Heddle.Coroutine.Article qualified as Spec
import Heddle.Coroutine.Components (Outcome (..))
import Heddle.Coroutine.Components qualified as Components
import Heddle.Coroutine.Components qualified as Ours hiding (interleave)
import SpecComponents (Said)
import SpecComponents qualified as SpecC
import Prelude hiding (all, and, any, not, or)

-- | The effects so far.
type Out = Writer [Int]

note :: [Int] -> Out ()
note = tell

type SplitF a = EitherFunctor ((->) (Maybe a)) (EitherFunctor (Part a) (Part a))

type TransF a b = EitherFunctor ((->) (Maybe a)) ((,) b)

type JoinF a = EitherFunctor (EitherFunctor ((->) (Maybe a)) ((->) (Maybe a))) ((,) a)

-- | Both libraries.
class (forall s. Functor s => Monad (c s Out)) => Library (c :: (Type -> Type) -> (Type -> Type) -> Type -> Type) where
  suspend :: Functor s => s (c s Out r) -> c s Out r
  out :: Functor s => Out r -> c s Out r
  not :: c (SplitF a) Out r -> c (SplitF a) Out r
  and, or :: c (SplitF a) Out r -> c (SplitF a) Out r -> c (SplitF a) Out r
  any, all :: c (SplitF a) Out r -> c (SplitF [a]) Out r
  line :: c (SplitF Char) Out ()
  substring :: Eq a => [a] -> c (SplitF a) Out ()
  ifThenElse :: c (SplitF a) Out x -> c (TransF a b) Out y -> c (TransF a b) Out z -> c (TransF a b) Out (x, y, z)
  groupBy :: c (SplitF a) Out r -> c (TransF a [a]) Out r
  joinTransduced :: c (TransF a b) Out x -> c (TransF a b) Out y -> c (JoinF b) Out z -> c (TransF a b) Out (Outcome x, Outcome y, z)
  flipJoin :: c (JoinF a) Out r -> c (JoinF a) Out r
  append, interleave :: c (JoinF a) Out ()
  combine :: (a -> a -> a) -> c (JoinF a) Out ()
  lift121 :: (a -> b) -> c (TransF a b) Out ()
  concatenate :: c (TransF [a] a) Out ()
  suppressed :: c (TransF a b) Out ()
  (=>=) :: c (TransF a b) Out x -> c (TransF b d) Out y -> c (TransF a d) Out (x, y)

  -- | From a list, into one.
  through :: (a -> Out ()) -> (b -> Out ()) -> c (TransF a b) Out r -> [a] -> Out ([b], r)

instance Library Ours.Coroutine where
  suspend = Ours.suspend
  out = lift
  not = Ours.not
  and = Ours.and
  or = Ours.or
  any = Ours.any
  all = Ours.all
  line = Ours.line
  substring = Ours.substring
  ifThenElse = Ours.ifThenElse
  groupBy = Ours.groupBy
  joinTransduced = Ours.joinTransduced
  flipJoin = Ours.flipJoin
  append = Ours.append
  interleave = Components.interleave
  combine = Ours.combine
  lift121 = Ours.lift121
  concatenate = Ours.concatenate
  suppressed = Ours.fromIteratee Ours.suppress
  (=>=) = (Ours.=>=)
  through before after t as = (\((_, r), bs) -> (bs, r)) <$> Ours.pipe2 (Ours.toGenerator (Ours.fromGenerator source Ours.=>= t)) collect
    where
      source = mapM_ (\a -> lift (before a) >> Ours.yield a) as
      collect = Ours.await >>= maybe (pure []) (\b -> lift (after b) >> (b :) <$> collect)

instance Library Spec.Coroutine where
  suspend = Spec.suspend
  out = lift
  not = SpecC.not
  and = SpecC.and
  or = SpecC.or
  any = SpecC.any
  all = SpecC.all
  line = SpecC.line
  substring = SpecC.substring
  ifThenElse = SpecC.ifThenElse
  groupBy = SpecC.groupBy
  joinTransduced = SpecC.joinTransduced
  flipJoin = SpecC.flipJoin
  append = SpecC.append
  interleave = SpecC.interleave
  combine = SpecC.combine
  lift121 = Spec.lift121
  concatenate = SpecC.concatenate
  suppressed = Spec.fromIteratee SpecC.suppress
  (=>=) = (Spec.=>=)
  through before after t as = (\((_, r), bs) -> (bs, r)) <$> Spec.pipe2 (Spec.toGenerator (Spec.fromGenerator source Spec.=>= t)) collect
    where
      source = mapM_ (\a -> lift (before a) >> Spec.yield a) as
      collect = Spec.await >>= maybe (pure []) (\b -> lift (after b) >> (b :) <$> collect)

awaiting :: (Library c, Functor f) => c (EitherFunctor ((->) (Maybe a)) f) Out (Maybe a)
awaiting = suspend (LeftF pure)

yielding :: (Library c, Functor f) => b -> c (EitherFunctor f ((,) b)) Out ()
yielding b = suspend (RightF (b, pure ()))

say :: Library c => Bool -> Maybe a -> c (SplitF a) Out ()
say left what = suspend (RightF (if left then LeftF part else RightF part))
  where
    part = maybe Edge Item what (pure ())

splitter :: (Library c, Item a) => Split a -> c (SplitF a) Out [Int]
splitter = \case
  Line -> [] <$ line
  Substring as -> [] <$ substring as
  Member them -> member them 0
  Script late turns end -> script late (cycle (turns ++ [Turn [] True | null turns])) end
  Not s -> not (splitter s)
  And s t -> and (splitter s) (splitter t)
  Or s t -> or (splitter s) (splitter t)
  Any s -> any (splitter s)
  All s -> all (splitter s)
  TooShort n -> tooShort n
  Lossy -> lossy

member :: (Library c, Item a) => [a] -> Int -> c (SplitF a) Out [Int]
member them n = awaiting >>= maybe (pure [n]) (\a -> out (note (3 : code a)) >> say (a `elem` them) (Just a) >> member them (n + 1))

script :: (Library c, Item a) => Int -> [Turn] -> [Bool] -> c (SplitF a) Out [Int]
script late = go []
  where
    go held turns end =
      awaiting >>= \case
        Nothing -> do
          _ <- speak held turns
          out (note [4, length held])
          mapM_ (`say` Nothing) end
          pure [length held]
        Just a -> do
          out (note (5 : code a))
          let (now, held') = splitAt (length held + 1 - late) (held ++ [a])
          turns' <- speak now turns
          go held' turns' end
    speak (a : as) (Turn es side : turns) = mapM_ (`say` Nothing) es >> say side (Just a) >> speak as turns
    speak _ turns = pure turns

tooShort :: Library c => Int -> c (SplitF a) Out [Int]
tooShort n
  | n > 0 = awaiting >>= maybe (pure [n]) (\a -> say True (Just a) >> tooShort (n - 1))
  | otherwise = [] <$ out (note [6])

lossy :: Library c => c (SplitF a) Out [Int]
lossy = awaiting >>= maybe (pure []) (\a -> say True (Just a) >> awaiting >>= maybe (pure [1]) (const lossy))

transducer :: (Library c, Item a) => Body a -> c (TransF a a) Out [Int]
transducer = \case
  Keep -> [] <$ lift121 id
  Drop -> [] <$ suppressed
  Twice -> twice
  Commands cs -> commands cs Nothing
  a :=>= b -> uncurry (++) <$> (transducer a =>= transducer b)
  If s a b -> (\(x, y, z) -> x ++ y ++ z) <$> ifThenElse (splitter s) (transducer a) (transducer b)
  Join j a b -> (\(x, y, ()) -> outcome x ++ outcome y) <$> joinTransduced (transducer a) (transducer b) (joining j)
  Group s b -> (\((x, y), ()) -> x ++ y) <$> (groupBy (splitter s) =>= transducer b =>= concatenate)
  where
    outcome = \case
      Returned ns -> 7 : ns
      Stopped -> [8]

twice :: Library c => c (TransF a a) Out [Int]
twice = awaiting >>= maybe (pure [2]) (\a -> yielding a >> yielding a >> twice)

commands :: (Library c, Item a) => [Command] -> Maybe a -> c (TransF a a) Out [Int]
commands [] a = pure (9 : maybe [] code a)
commands (c : cs) a = case c of
  Say n -> out (note (n : maybe [] code a)) >> commands cs a
  Await -> awaiting >>= commands cs
  Yield -> mapM_ yielding a >> commands cs a
  Stop -> commands [] a

joining :: (Library c, Item a) => JoinBy -> c (JoinF a) Out ()
joining = \case
  Append -> append
  Interleave -> interleave
  Combine -> combine max
  InTurn sides -> inTurn (cycle sides)
  Flip j -> flipJoin (joining j)

inTurn :: (Library c, Item a) => [Bool] -> c (JoinF a) Out ()
inTurn = \case
  [] -> pure ()
  left : sides -> suspend (LeftF (if left then LeftF pure else RightF pure)) >>= maybe (pure ()) (\a -> out (note (10 : code a)) >> yielding a >> inTurn sides)

-- | What one of our splitters says when it is told this, until it awaits more.
said :: [Maybe a] -> Ours.Splitter a Out r -> [Said a]
said inputs = fst . runWriter . go inputs
  where
    go as s =
      Ours.resume s >>= \case
        Right _ -> pure []
        Left (LeftF f) -> case as of
          a : rest -> go rest (f a)
          [] -> pure []
        Left (RightF (LeftF part)) -> heard as True part
        Left (RightF (RightF part)) -> heard as False part
    heard as left = \case
      Item a s -> ((left, Just a) :) <$> go as s
      Edge s -> ((left, Nothing) :) <$> go as s
