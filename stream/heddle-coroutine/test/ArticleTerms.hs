{-# LANGUAGE GADTs #-}
{-# LANGUAGE StandaloneDeriving #-}

-- | Random networks of components, as terms; what their conditions mean on lists.
module ArticleTerms
  ( Split (..),
    Turn (..),
    Body (..),
    Command (..),
    JoinBy (..),
    Item (..),
    genSplit,
    shrinkSplit,
    genBody,
    shrinkBody,
    meaning,
  )
where

import SpecComponents (Sections, complement, linesOf, occurrencesOf, pointwise, sections)
import Test.QuickCheck

-- | Conditions on a stream of these.
data Split a where
  Line :: Split Char
  Substring :: [a] -> Split a
  Member :: [a] -> Split a
  -- | It holds back so many items, does these in turn, and has edges at the end.
  Script :: Int -> [Turn] -> [Bool] -> Split a
  Not :: Split a -> Split a
  And, Or :: Split a -> Split a -> Split a
  Any, All :: Item a => Split a -> Split [a]
  -- | These break the rule: one ends too soon, the other one loses items.
  TooShort :: Int -> Split a
  Lossy :: Split a

deriving stock instance Show a => Show (Split a)

-- | Edges, then an item; left is 'True'.
data Turn = Turn [Bool] Bool
  deriving stock (Show)

-- | Transducers between the same types.
data Body a where
  Keep :: Body a
  Drop :: Body a
  Twice :: Body a
  Commands :: [Command] -> Body a
  (:=>=) :: Body a -> Body a -> Body a
  If :: Split a -> Body a -> Body a -> Body a
  Join :: JoinBy -> Body a -> Body a -> Body a
  Group :: Item a => Split a -> Body [a] -> Body a

deriving stock instance Show a => Show (Body a)

-- | What it yields is what it awaited last.
data Command = Say Int | Await | Yield | Stop
  deriving stock (Show)

data JoinBy
  = Append
  | Interleave
  | Combine
  | -- | Awaits from these sides, yields what it gets, and ends when there is nothing.
    InTurn [Bool]
  | Flip JoinBy
  deriving stock (Show)

-- | The types of items.
class (Eq a, Ord a, Show a) => Item a where
  genItem :: Gen a
  code :: a -> [Int]
  ownSplits :: Bool -> Int -> [(Int, Gen (Split a))]
  shrinkOwn :: Split a -> [Split a]
  ownBodies :: Int -> [(Int, Gen (Body a))]
  shrinkGroup :: Body a -> [Body a]

instance Item Char where
  genItem = frequency [(4, pure 'a'), (3, pure 'b'), (2, pure '\n')]
  code c = [fromEnum c]
  ownSplits _ _ = [(3, pure Line)]
  shrinkOwn _ = []
  ownBodies n = [(4, Group <$> genSplit True (n `div` 2) <*> genBody (n `div` 2)) | n > 0]
  shrinkGroup = \case
    Group s b -> (Group <$> shrinkSplit s <*> pure b) ++ (Group s <$> shrinkBody b)
    _ -> []

-- | Only one level of lists is tried.
instance Item a => Item [a] where
  genItem = resize 4 (listOf genItem)
  code as = length as : concatMap code as
  ownSplits bad n = [(4, elements [Any, All] <*> genSplit bad n)]
  shrinkOwn = \case
    Any s -> Any <$> shrinkSplit s
    All s -> All <$> shrinkSplit s
    _ -> []
  ownBodies _ = []
  shrinkGroup _ = []

-- | With those that break the rule or without, and about so large.
genSplit :: Item a => Bool -> Int -> Gen (Split a)
genSplit bad n =
  frequency $
    ownSplits bad n
      ++ [ (3, Substring <$> resize 4 (listOf genItem)),
           (2, Member <$> resize 2 (listOf genItem)),
           (3, Script <$> chooseInt (0, 3) <*> resize 4 (listOf turn) <*> someEdges)
         ]
      ++ (if bad then [(1, TooShort <$> chooseInt (0, 4)), (1, pure Lossy)] else [])
      ++ (if n > 0 then [(2, Not <$> genSplit bad (n - 1)), (6, elements [And, Or] <*> half <*> half)] else [])
  where
    half = genSplit bad (n `div` 2)
    turn = Turn <$> someEdges <*> arbitrary
    someEdges = frequency [(3, pure []), (2, resize 3 arbitrary)]

shrinkSplit :: Item a => Split a -> [Split a]
shrinkSplit = \case
  Substring as -> Substring <$> shrinkList (const []) as
  Member as -> Member <$> shrinkList (const []) as
  Script n turns end -> [Script m turns end | m <- shrink n] ++ [Script n ts end | ts <- shrinkList shrinkTurn turns] ++ (Script n turns <$> shrink end)
  Not s -> s : map Not (shrinkSplit s)
  And s t -> s : t : [And s' t | s' <- shrinkSplit s] ++ map (And s) (shrinkSplit t)
  Or s t -> s : t : [Or s' t | s' <- shrinkSplit s] ++ map (Or s) (shrinkSplit t)
  TooShort n -> TooShort <$> shrink n
  s -> shrinkOwn s
  where
    shrinkTurn (Turn es side) = [Turn es' side | es' <- shrink es]

genBody :: Item a => Int -> Gen (Body a)
genBody n =
  frequency $
    [(2, pure Keep), (1, pure Drop), (1, pure Twice), (4, Commands <$> resize 8 (listOf command))]
      ++ ownBodies n
      ++ (if n > 0 then [(3, (:=>=) <$> half <*> half), (5, If <$> genSplit True (n `div` 2) <*> half <*> half), (4, Join <$> joinBy <*> half <*> half)] else [])
  where
    half = genBody (n `div` 2)
    command = frequency [(3, Say <$> chooseInt (0, 9)), (5, pure Await), (4, pure Yield), (1, pure Stop)]
    joinBy = frequency [(3, pure Append), (3, pure Interleave), (3, pure Combine), (3, InTurn <$> resize 5 (listOf1 arbitrary)), (2, Flip <$> joinBy)]

shrinkBody :: Item a => Body a -> [Body a]
shrinkBody = \case
  Commands cs -> Commands <$> shrinkList (const []) cs
  a :=>= b -> a : b : map (:=>= b) (shrinkBody a) ++ map (a :=>=) (shrinkBody b)
  If s a b -> a : b : [If s' a b | s' <- shrinkSplit s] ++ [If s a' b | a' <- shrinkBody a] ++ map (If s a) (shrinkBody b)
  Join j a b -> a : b : [Join j' a b | j' <- shrinkJoin j] ++ [Join j a' b | a' <- shrinkBody a] ++ map (Join j a) (shrinkBody b)
  b -> shrinkGroup b
  where
    shrinkJoin = \case
      Flip j -> j : map Flip (shrinkJoin j)
      InTurn sides -> [InTurn sides' | sides'@(_ : _) <- shrink sides]
      _ -> []

-- | What a condition that keeps the rule makes of a list.
meaning :: Eq a => Split a -> [a] -> Sections a
meaning split as = case split of
  Line -> linesOf as
  Substring wanted -> occurrencesOf wanted as
  Member them -> sections [(a `elem` them, Just a) | a <- as]
  Script _ turns end -> sections (concat (zipWith turn as (cycle (turns ++ [Turn [] True | null turns]))) ++ edges end)
  Not s -> complement (meaning s as)
  And s t -> pointwise (&&) (meaning s as) (meaning t as)
  Or s t -> pointwise (||) (meaning s as) (meaning t as)
  Any s -> sections [(any fst (meaning s a), Just a) | a <- as]
  All s -> sections [(all fst (meaning s a), Just a) | a <- as]
  TooShort n -> sections [(True, Just a) | a <- take n as]
  Lossy -> sections [(True, Just a) | (a, True) <- zip as (cycle [True, False])]
  where
    turn a (Turn es side) = edges es ++ [(side, Just a)]
    edges es = [(e, Nothing) | e <- es]
