{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Filter.Internal.Rewrite
-- Description : Rewrites stages by algebraic laws
-- Stability   : internal, exempt from the version policy
--
-- Each rewrite is a law with a name, which the tests check as a property. The branches of an
-- 'If' are left alone: the order of their outputs depends on when each appears, and a law may
-- change that.
--
-- One pass from the bottom up: a component's parts are rewritten before the component, and only
-- the new parts of a law's result are rewritten again.
--
-- Cost: linear in the component.
-- Owner: none; pure functions.
module Heddle.Filter.Internal.Rewrite
  ( Law (..),
    lawText,
    Applied (..),
    rewrite,
    rewriteSplitter,
  )
where

import Control.Monad.Trans.State.Strict (State, modify', runState)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Filter.Internal.Print
import Heddle.Filter.Internal.RowParallel
import Heddle.Filter.Internal.Types

-- | The laws.
data Law
  = DoubleNegation
  | DeMorgan
  | Idempotence
  | Absorption
  | PlainExpression
  | IdentityIsNeutral
  | BothTheSame
  | HavingOr
  | CountOfSelected
  | SelectedTwice
  | FirstOfSelected
  | LastOfSelected
  deriving stock (Bounded, Enum, Eq, Show)

-- | A law as an equation.
lawText :: Law -> String
lawText = \case
  DoubleNegation -> "not not s = s"
  DeMorgan -> "not s and not t = not (s or t); not s or not t = not (s and t)"
  Idempotence -> "s and s = s = s or s"
  Absorption -> "s and (s or t) = s where all sections are rows; the same with or and and"
  PlainExpression -> "/text/ = \"text\" where the expression has no special characters"
  IdentityIsNeutral -> "id | t = t = t | id"
  BothTheSame -> "if s then t else t end = t where t works byte by byte"
  HavingOr -> "s having t or s having u = s having (t or u) where t and u have no empty sections"
  CountOfSelected -> "select s | count row = count s where all sections of s are rows"
  SelectedTwice -> "select (s and t) = select s | select t where all sections are rows"
  LastOfSelected -> "select last n s = select s | tail n where all sections of s are rows"
  FirstOfSelected -> "select first n s = select s | head n where all sections of s are rows"

-- | A law that was applied, with what it was applied to and the result, both cut after 400
-- characters. Of a chain, these are only the links that the law is about.
data Applied = Applied
  { appliedLaw :: !Law,
    appliedBefore :: String,
    appliedAfter :: String
  }
  deriving stock (Eq, Show)

-- | Apply the laws until none applies.
rewrite :: Stage -> (Stage, [Applied])
rewrite = applying stageNormal

-- | The same for a splitter.
rewriteSplitter :: Splitter -> (Splitter, [Applied])
rewriteSplitter = applying (fmap notedSplitter . splitterNormal)

-- The laws applied so far, the last one first.
type Rewriting = State [Applied]

applying :: (a -> Rewriting b) -> a -> (b, [Applied])
applying normal component = reverse <$> runState (normal component) []

record :: (a -> String) -> Law -> a -> a -> Rewriting ()
record printed law before after = modify' (Applied law (shown before) (shown after) :)
  where
    -- A long expression with many laws would be printed once for each of them.
    shown component = case splitAt 400 (printed component) of
      (beginning, rest) -> beginning ++ (if null rest then "" else " ...")

-- Stages ---------------------------------------------------------------------

stageNormal :: Stage -> Rewriting Stage
stageNormal = \case
  a :> b -> do
    a' <- stageNormal a
    b' <- stageNormal b
    sequential a' b'
  a :|| b -> do
    a' <- stageNormal a
    b' <- stageNormal b
    case (a', b') of
      (Identity, t) -> t <$ record printStage IdentityIsNeutral (Identity :|| firstLink t) (firstLink t)
      (t, Identity) -> t <$ record printStage IdentityIsNeutral (lastLink t :|| Identity) (lastLink t)
      _ -> pure (a' :|| b')
  If s a b -> splitterNormal s >>= \(Noted s' _) -> conditional (If s' a b)
  ForEach s a b -> do
    s' <- notedSplitter <$> splitterNormal s
    a' <- stageNormal a
    b' <- stageNormal b
    sections (ForEach s' a' b')
  Count s -> Count . notedSplitter <$> splitterNormal s
  Join joint a b -> Join joint <$> stageNormal a <*> stageNormal b
  other -> pure other

-- A chain of two stages to which no law applies.
sequential :: Stage -> Stage -> Rewriting Stage
sequential a b = case (a, b) of
  (Identity, t) -> t <$ record printStage IdentityIsNeutral (Identity :> firstLink t) (firstLink t)
  (t, Identity) -> t <$ record printStage IdentityIsNeutral (lastLink t :> Identity) (lastLink t)
  (s@(Selection t), Count Row) | isRowwise t -> Count t <$ record printStage CountOfSelected (s :> Count Row) (Count t)
  -- Look through a chain's last link, so that neighbours meet.
  (before :> s@(Selection t), Count Row) | isRowwise t -> do
    record printStage CountOfSelected (s :> Count Row) (Count t)
    sequential before (Count t)
  _ -> pure (a :> b)

-- An 'If' to whose splitter no law applies.
conditional :: Stage -> Rewriting Stage
conditional = \case
  Selection s@(And _ _) | isRowwise s -> conjunction s
  stage@(Selection (First n s))
    | isRowwise s,
      s /= Row -> do
      let (first, second) = (Selection s, Selection (First n Row))
      record printStage FirstOfSelected stage (first :> second)
      first' <- conditional first
      sequential first' second
  stage@(Selection (Last n s))
    | isRowwise s,
      s /= Row -> do
      let (first, second) = (Selection s, Selection (Last n Row))
      record printStage LastOfSelected stage (first :> second)
      first' <- conditional first
      sequential first' second
  -- The branches have not been rewritten yet.
  stage@(If _ a b) | a == b, isPointwise a -> record printStage BothTheSame stage a >> stageNormal a
  stage -> pure stage
  where
    -- All of its sections are rows, and so are those of its parts.
    conjunction s = case s of
      And t u -> do
        record printStage SelectedTwice (Selection s) (Selection t :> Selection u)
        t' <- conjunction t
        u' <- conjunction u
        sequential t' u'
      _ -> conditional (Selection s)

-- A 'ForEach' to whose parts no law applies.
sections :: Stage -> Rewriting Stage
sections = \case
  stage@(ForEach (First n s) (Number between) Suppress)
    | isRowwise s,
      s /= Row,
      Bytes.notElem 0x0a between -> do
      let (first, second) = (ForEach s (Number between) Suppress, Selection (First n Row))
      record printStage FirstOfSelected stage (first :> second)
      sequential first second
  stage@(ForEach (Last n s) (Number between) Suppress)
    | isRowwise s,
      Bytes.notElem 0x0a between -> do
      let (first, second) = (ForEach s (Number between) Suppress, Selection (Last n Row))
      record printStage LastOfSelected stage (first :> second)
      sequential first second
  stage -> pure stage

-- @select@.
pattern Selection :: Splitter -> Stage
pattern Selection s = If s Identity Suppress

firstLink, lastLink :: Stage -> Stage
firstLink = \case
  a :> _ -> firstLink a
  a :|| _ -> firstLink a
  stage -> stage
lastLink = \case
  _ :> b -> lastLink b
  _ :|| b -> lastLink b
  stage -> stage

-- Splitters ------------------------------------------------------------------

-- A splitter to which no law applies. If it is @s having t@, or the negation of that: whether
-- t is known to have no empty sections.
data Noted = Noted Splitter Bool

notedSplitter :: Noted -> Splitter
notedSplitter (Noted s _) = s

splitterNormal :: Splitter -> Rewriting Noted
splitterNormal = \case
  Not a -> splitterNormal a >>= negation
  And a b -> two a b conjoined
  Or a b -> two a b disjoined
  Having a b -> two a b $ \(Noted a' _) (Noted b' _) -> pure (Noted (Having a' b') (isSolid b'))
  HavingOnly a b -> plainly HavingOnly a b
  FollowedBy a b -> plainly FollowedBy a b
  First n a -> plain (First n) a
  Last n a -> plain (Last n) a
  Prefix a -> plain Prefix a
  Suffix a -> plain Suffix a
  Between a b -> plainly Between a b
  s@(Matching p)
    | patternCase p == CaseMatters,
      Just text <- plainText (patternText p) ->
      let after = Substring CaseMatters text in noted after <$ record printSplitter PlainExpression s after
  s -> pure (noted s)
  where
    two a b make = do
      a' <- splitterNormal a
      b' <- splitterNormal b
      make a' b'
    plainly make a b = two a b (\(Noted a' _) (Noted b' _) -> pure (noted (make a' b')))
    plain make a = noted . make . notedSplitter <$> splitterNormal a

noted :: Splitter -> Noted
noted s = Noted s False

negation :: Noted -> Rewriting Noted
negation (Noted s solid) = case s of
  Not t -> Noted t solid <$ record printSplitter DoubleNegation (Not s) t
  _ -> pure (Noted (Not s) solid)

conjoined, disjoined :: Noted -> Noted -> Rewriting Noted
conjoined a@(Noted s solid) (Noted t solid') = case (s, t) of
  (Not u, Not v) -> do
    record printSplitter DeMorgan (And s t) (Not (Or u v))
    disjoined (Noted u solid) (Noted v solid') >>= negation
  _ | s == t -> a <$ record printSplitter Idempotence (And s t) s
  (_, Or u v) | s == u || s == v, isRowwise u, isRowwise v -> a <$ record printSplitter Absorption (And s t) s
  _ -> pure (noted (And s t))
disjoined a@(Noted s solid) (Noted t solid') = case (s, t) of
  (Not u, Not v) -> do
    record printSplitter DeMorgan (Or s t) (Not (And u v))
    conjoined (Noted u solid) (Noted v solid') >>= negation
  _ | s == t -> a <$ record printSplitter Idempotence (Or s t) s
  (_, And u v) | s == u || s == v, isRowwise u, isRowwise v -> a <$ record printSplitter Absorption (Or s t) s
  (Having rows u, Having rows' v)
    | rows == rows',
      isRowwise rows,
      solid,
      solid' -> do
      record printSplitter HavingOr (Or s t) (Having rows (Or u v))
      sought <- notedSplitter <$> disjoined (noted u) (noted v)
      pure (Noted (Having rows sought) True)
  _ -> pure (noted (Or s t))

-- The text that an expression without special characters matches.
plainText :: ByteString -> Maybe ByteString
plainText text
  -- Beyond ASCII, an expression matches characters of the locale, not bytes.
  | Bytes.null text || Char8.any (\c -> c > '\x7f' || c `elem` ".[]{}()*+?|^$\\\n") text = Nothing
  | otherwise = Just text
