-- | Random programs. A trace says which channels meet, one after the other; every branch
-- is given its part of it, so that the program ends well; it may do its part in branches of
-- its own. Then mistakes are made in it.
module Generate
  ( Kind (..),
    program,
    anyProgram,
  )
where

import Control.Monad (foldM, forM, replicateM)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.State.Strict (StateT, evalStateT, get, modify', put)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Set qualified as Set
import Program
import Test.QuickCheck (Gen, choose, chooseInt, elements, frequency, shuffle, sublistOf, vectorOf)

-- | What a program is meant to do. It may do otherwise.
data Kind
  = -- | End, with a result.
    Ending
  | -- | Wait for ever: meetings in another order on one side, missing partners, rings.
    Stuck
  | -- | Throw and catch.
    Throwing
  | -- | Any mistake at all.
    Mixed
  deriving stock (Bounded, Enum, Eq, Show)

anyProgram :: Gen Program
anyProgram = frequency [(4, program Ending), (2, program Stuck), (2, program Throwing), (3, program Mixed)]

program :: Kind -> Gen Program
program kind = do
  meetings' <- frequency [(9, chooseInt (4, 16)), (1, chooseInt (17, 60))]
  legal <$> (evalStateT (body 3 Map.empty []) Supply {fresh = 0, budget = meetings'} >>= spoil kind)

-- | Numbers for new channels, and how many meetings more there may be.
data Supply = Supply {fresh :: !Int, budget :: !Int}

type Plan = StateT Supply Gen

-- | The meetings, in order.
data Meeting = Meet Var | Repeat Int [Meeting]

type Rights = Map Var (Bool, Bool)

-- | What a branch does that takes part in these meetings.
body :: Int -> Rights -> [Meeting] -> Plan [Cmd]
body depth rights trace = do
  parts <- lift (cut trace)
  -- Main itself can meet nobody: it has branches do everything.
  let parts' = if null parts && depth == 3 then [[]] else parts
  concat <$> mapM part parts'
  where
    part ms = do
      left <- budget <$> get
      choice <-
        if depth == 3
          then pure (2 :: Int)
          else lift (frequency ([(5, pure 0), (1, pure 1)] ++ [(2, pure 2) | depth > 0, left > 0]))
      case choice of
        0 -> concat <$> mapM direct ms
        1 -> do
          cmd <- lift (frequency [(2, pure []), (1, (: []) . Effect <$> chooseInt (0, 9)), (1, guarded)])
          (cmd ++) . concat <$> mapM direct ms
        _ -> delegate depth rights ms
    direct = \case
      Meet v | maybe False fst (Map.lookup v rights) -> (: []) . Send v <$> lift (chooseInt (0, 3))
      Meet v -> do
        n <- lift (chooseInt (0, 19))
        pure [if n == 0 then Try CatchEnded [Recv v] else Recv v]
      Repeat n ms -> (: []) . Loop n <$> body (max 0 (depth - 1)) rights ms
    guarded = do
      n <- chooseInt (0, 5)
      pure [if n == 0 then Leftmost [[Throw 1 | n > 3], [When 1 [End], New 0, Par [Branch [Grant 0 True False] False [Send 0 1], Branch [Grant 0 False True] False [Recv 0]]]] else When (n `mod` 3) [Effect n]]

-- | Into pieces of random lengths.
cut :: [Meeting] -> Gen [[Meeting]]
cut [] = pure []
cut ms = do
  n <- chooseInt (1, length ms)
  (take n ms :) <$> cut (drop n ms)

-- | Take part through branches, which meet each other on new channels too.
delegate :: Int -> Rights -> [Meeting] -> Plan [Cmd]
delegate depth rights ms = do
  width <- lift (frequency [(1, pure 1), (5, pure 2), (4, pure 3), (1, pure 4)])
  news <- lift (chooseInt (if Map.null rights then 1 else 0, 3)) >>= \n -> replicateM n new
  mine <- extra news
  merged <- lift (merge ms mine)
  rest <- lift (sublistOf (Map.toList (Map.withoutKeys rights (Set.fromList used))))
  let granted = Map.toList (Map.restrictKeys rights (Set.fromList used)) ++ rest ++ [(v, (True, True)) | v <- news]
  shares <- lift (forM granted (share width))
  let byBranch = [Map.fromListWith both [(v, r) | (v, rs) <- shares, (j, r) <- rs, j == i] | i <- [0 .. width - 1]]
  worldTo <- lift (chooseInt (-2, width - 1))
  branches <- forM (zip [0 ..] byBranch) $ \(i, rs) -> do
    cmds <- body (depth - 1) rs (project rs merged)
    pure (Branch [Grant v w r | (v, (w, r)) <- Map.toList rs] (i == worldTo) cmds)
  pure (map New news ++ [Par branches])
  where
    used = concatMap on ms
    both (a, b) (c, d) = (a || c, b || d)
    new = do
      s <- get
      put s {fresh = fresh s + 1}
      pure (fresh s)
    extra [] = pure []
    extra news = do
      left <- budget <$> get
      n <- lift (chooseInt (1, 5))
      let n' = min n left
      modify' (\s -> s {budget = budget s - n'})
      lift (meetings n' news)

meetings :: Int -> [Var] -> Gen [Meeting]
meetings n vs = do
  flat <- vectorOf n (Meet <$> elements vs)
  again <- chooseInt (0, 9)
  if again > 1 || n < 2
    then pure flat
    else do
      k <- chooseInt (1, n)
      times <- chooseInt (1, 3)
      pure (Repeat times (take k flat) : drop k flat)

on :: Meeting -> [Var]
on = \case
  Meet v -> [v]
  Repeat _ ms -> concatMap on ms

project :: Rights -> [Meeting] -> [Meeting]
project rights = concatMap keep
  where
    keep = \case
      Meet v -> [Meet v | Map.member v rights]
      Repeat n ms -> case project rights ms of
        [] -> []
        ms' -> [Repeat n ms']

merge :: [a] -> [a] -> Gen [a]
merge [] ys = pure ys
merge xs [] = pure xs
merge (x : xs) (y : ys) = do
  left <- elements [True, False]
  if left then (x :) <$> merge xs (y : ys) else (y :) <$> merge (x : xs) ys

-- | Which branch gets which end of a channel: one writes, some read.
share :: Int -> (Var, (Bool, Bool)) -> Gen (Var, [(Int, (Bool, Bool))])
share width (v, (w, r)) = do
  order <- shuffle [0 .. width - 1]
  readers <- frequency [(6, chooseInt (1, 1)), (3, chooseInt (1, width)), (if w then 1 else 0, pure 0)]
  let writing = [(head order, (True, False)) | w]
      others = if w && width > 1 then drop 1 order else order
  pure (v, writing ++ [(j, (False, True)) | r, j <- take readers others])

-- * Mistakes

spoil :: Kind -> Program -> Gen Program
spoil = \case
  Ending -> pure
  Stuck -> \p -> frequency [(4, mistakes disorder p >>= mistakes disorder), (2, ring)]
  Throwing -> \p -> mistakes failures p >>= mistakes (pure Guard)
  Mixed -> mistakes (frequency [(2, pure Reorder), (2, pure Drop), (2, pure Leave), (3, failures), (2, pure Regrant), (1, pure Double)])
  where
    disorder = frequency [(3, pure Reorder), (2, pure Drop), (1, pure Regrant)]
    failures = frequency [(6, pure Raise), (2, pure Break), (4, pure Guard), (4, pure Leave), (1, pure Hang)]

data Mistake = Reorder | Drop | Double | Leave | Raise | Break | Guard | Regrant | Hang

-- | Several, each at a random place.
mistakes :: Gen Mistake -> Program -> Gen Program
mistakes which p = do
  n <- frequency [(3, pure 1), (3, pure 2), (2, pure 4), (1, pure 8)]
  foldM (\q _ -> which >>= \m -> at m q) p [1 .. n :: Int]

at :: Mistake -> Program -> Gen Program
at mistake p = case commands p of
  0 -> pure p
  n -> do
    k <- chooseInt (0, n - 1)
    x <- choose (0, 1000000)
    pure (changeAt k (make mistake x) p)

-- | Change the sequence from its so-manieth command on, counted in writing order.
changeAt :: Int -> ([Cmd] -> [Cmd]) -> [Cmd] -> [Cmd]
changeAt _ _ [] = []
changeAt 0 f cs = f cs
changeAt k f (c : cs)
  | k < size = within c : cs
  | otherwise = c : changeAt (k - size) f cs
  where
    size = commands [c]
    within = \case
      Loop n b -> Loop n (changeAt (k - 1) f b)
      When n b -> When n (changeAt (k - 1) f b)
      Try e b -> Try e (changeAt (k - 1) f b)
      Par bs -> Par (branches (k - 1) bs)
      Leftmost as -> Leftmost (alternatives (k - 1) as)
      other -> other
    branches _ [] = []
    branches j (Branch g w b : bs)
      | j < commands b = Branch g w (changeAt j f b) : bs
      | otherwise = Branch g w b : branches (j - commands b) bs
    alternatives _ [] = []
    alternatives j (b : bs)
      | j < commands b = changeAt j f b : bs
      | otherwise = b : alternatives (j - commands b) bs

make :: Mistake -> Int -> [Cmd] -> [Cmd]
make mistake x cs = case (mistake, cs) of
  (Reorder, a : b : rest) -> b : a : rest
  (Drop, _ : rest) -> rest
  (Double, a : rest) -> a : a : rest
  (Leave, _) -> (if even x then End else When (x `mod` 3) [End]) : cs
  (Raise, _) -> (if even x then Throw (x `mod` 5) else When (x `mod` 3) [Throw (x `mod` 5)]) : cs
  (Break, Send v _ : rest) | even x -> SendCrash v (x `mod` 5) : rest
  (Break, _) -> Crash (x `mod` 5) : cs
  -- A search that waits for ever, often where something handles exceptions.
  (Hang, _) -> (if even x then id else (: []) . Try CatchAll) [Leftmost [[New 0, Par [Branch [Grant 0 False True] False [Recv 0]]]]] ++ cs
  (Guard, _) -> Try (toEnum (x `mod` 5)) (take k cs) : drop k cs
  (Regrant, Par bs : rest) | (b, Branch g w body') : _ <- drop (x `mod` max 1 (length bs)) (zip [0 ..] bs) -> Par (take b bs ++ Branch (regrant g) (w /= (x `mod` 5 == 0)) body' : drop (b + 1) bs) : rest
  _ -> cs
  where
    k = 1 + x `mod` 4
    regrant g = case splitAt (x `div` 7 `mod` max 1 (length g)) g of
      (before, Grant v a b : after) -> before ++ [Grant v (if even (x `div` 3) then not a else a) (if even (x `div` 3) then b else not b)] ++ after
      (before, []) -> before

-- | Branches in a ring, each with a channel to the next; one of them may begin by sending.
ring :: Gen Program
ring = do
  n <- chooseInt (2, 6)
  starts <- frequency [(3, pure (-1)), (1, chooseInt (0, n - 1))]
  let step i
        | i == starts = [Send i 0, Recv before]
        | otherwise = [Recv before, Send i 0]
        where
          before = (i - 1) `mod` n
  pure (map New [0 .. n - 1] ++ [Par [Branch [Grant i True False, Grant ((i - 1) `mod` n) False True] False (step i) | i <- [0 .. n - 1]]])
