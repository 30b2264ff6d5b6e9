-- |
-- Module      : Heddle.Component.Internal.Rewrite
-- Description : Laws, applied
-- Stability   : internal, exempt from the version policy
--
-- Every rewrite is a law with a name, and a property of the tests. What is inside of an
-- 'If' is left alone: there it matters when something comes out, not only what.
--
-- Cost: linear in the component, for each law that is applied.
-- Owner: nobody; pure.
module Heddle.Component.Internal.Rewrite
  ( Law (..),
    lawText,
    Applied (..),
    rewrite,
    rewriteSplitter,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Component.Internal.Locality
import Heddle.Component.Internal.Print
import Heddle.Component.Internal.Types

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
  FirstOfSelected -> "select first n s = select s | head n where all sections of s are rows"

-- | A law that was applied: to what, and what that became.
data Applied = Applied
  { appliedLaw :: !Law,
    appliedBefore :: String,
    appliedAfter :: String
  }
  deriving stock (Eq, Show)

-- | Apply the laws until none applies.
rewrite :: Stage -> (Stage, [Applied])
rewrite stage = case stageStep stage of
  Nothing -> (stage, [])
  Just (applied, next) -> (applied :) <$> rewrite next

-- | The same for a splitter.
rewriteSplitter :: Splitter -> (Splitter, [Applied])
rewriteSplitter s = case splitterStep s of
  Nothing -> (s, [])
  Just (applied, next) -> (applied :) <$> rewriteSplitter next

type Step a = Maybe (Applied, a)

stageStep :: Stage -> Step Stage
stageStep stage = below <|> fmap here (stageLaw stage)
  where
    here (law, after) = (Applied law (printStage stage) (printStage after), after)
    below = case stage of
      a :> b -> two (:>) a b
      a :|| b -> two (:||) a b
      If s a b -> fmap (\s' -> If s' a b) <$> splitterStep s
      ForEach s a b -> (fmap (\s' -> ForEach s' a b) <$> splitterStep s) <|> two (ForEach s) a b
      Count s -> fmap Count <$> splitterStep s
      Join joint a b -> two (Join joint) a b
      _ -> Nothing
    two make a b = (fmap (`make` b) <$> stageStep a) <|> (fmap (make a) <$> stageStep b)

stageLaw :: Stage -> Maybe (Law, Stage)
stageLaw = \case
  Identity :> t -> Just (IdentityIsNeutral, t)
  t :> Identity -> Just (IdentityIsNeutral, t)
  Identity :|| t -> Just (IdentityIsNeutral, t)
  t :|| Identity -> Just (IdentityIsNeutral, t)
  -- To the left, so that neighbours meet.
  If s a b :> Count Row | isSelection a b, isRowwise s -> Just (CountOfSelected, Count s)
  t :> If s a b :> Count Row | isSelection a b, isRowwise s -> Just (CountOfSelected, t :> Count s)
  If (And s t) a b | isSelection a b, isRowwise s, isRowwise t -> Just (SelectedTwice, select s :> select t)
  If (First n s) a b
    | isSelection a b, isRowwise s, s /= Row -> Just (FirstOfSelected, select s :> select (First n Row))
  ForEach (First n s) (Number between) Suppress
    | isRowwise s,
      s /= Row,
      Bytes.notElem 0x0a between ->
      Just (FirstOfSelected, ForEach s (Number between) Suppress :> select (First n Row))
  If _ a b | a == b, isPointwise a -> Just (BothTheSame, a)
  _ -> Nothing
  where
    select s = If s Identity Suppress
    isSelection a b = a == Identity && b == Suppress

splitterStep :: Splitter -> Step Splitter
splitterStep s = below <|> fmap here (splitterLaw s)
  where
    here (law, after) = (Applied law (printSplitter s) (printSplitter after), after)
    below = case s of
      Not a -> one Not a
      And a b -> two And a b
      Or a b -> two Or a b
      Having a b -> two Having a b
      HavingOnly a b -> two HavingOnly a b
      FollowedBy a b -> two FollowedBy a b
      First n a -> one (First n) a
      Last n a -> one (Last n) a
      Prefix a -> one Prefix a
      Suffix a -> one Suffix a
      Between a b -> two Between a b
      _ -> Nothing
    one make a = fmap make <$> splitterStep a
    two make a b = (fmap (`make` b) <$> splitterStep a) <|> (fmap (make a) <$> splitterStep b)

splitterLaw :: Splitter -> Maybe (Law, Splitter)
splitterLaw = \case
  Not (Not s) -> Just (DoubleNegation, s)
  And (Not a) (Not b) -> Just (DeMorgan, Not (Or a b))
  Or (Not a) (Not b) -> Just (DeMorgan, Not (And a b))
  And a b | a == b -> Just (Idempotence, a)
  Or a b | a == b -> Just (Idempotence, a)
  And a (Or b c) | a == b || a == c, isRowwise b, isRowwise c -> Just (Absorption, a)
  Or a (And b c) | a == b || a == c, isRowwise b, isRowwise c -> Just (Absorption, a)
  Or (Having s t) (Having s' u) | s == s', isRowwise s, isSolid t, isSolid u -> Just (HavingOr, Having s (Or t u))
  Matching p
    | patternCase p == CaseMatters, Just text <- plain (patternText p) -> Just (PlainExpression, Substring CaseMatters text)
  _ -> Nothing

-- The text that an expression without special characters stands for.
plain :: ByteString -> Maybe ByteString
plain text
  -- Outside of ASCII, an expression matches characters of the locale, not bytes.
  | Bytes.null text || Char8.any (\c -> c > '\x7f' || c `elem` ".[]{}()*+?|^$\\\n") text = Nothing
  | otherwise = Just text
