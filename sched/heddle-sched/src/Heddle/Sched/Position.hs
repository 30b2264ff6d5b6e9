-- |
-- Module      : Heddle.Sched.Position
-- Description : The order of tasks
-- Stability   : internal
--
-- Which of two tasks a sequential run would come to first. It decides which failure a scope throws,
-- and which tasks are not needed after one.
--
-- A task knows its parent and its index among the parent's forks. The way to the root would be long
-- where forks are nested, and comparing each of many failures with another would cost the square
-- of their number. So above each 64th task on a way down lies a milestone, which knows the next
-- one and one far up; see Note [Milestones].
--
-- Cost: a comparison looks at no more than some hundred tasks, however deep they lie.
-- Owner: nobody; what it reads never changes.
module Heddle.Sched.Position
  ( placeBelow,
    parentAt,
    compareTasks,
    isRightOf,
  )
where

import Data.Bits (unsafeShiftL, (.&.), (.|.))
import Heddle.Prim.Atomic (newRef, sameRef)
import Heddle.Sched.Types

-- | The index of a new task, given the task that forks it and the number of the fork.
--
-- [Cost]: a few instructions.
placeBelow :: Task -> Int -> Int
placeBelow task number = (number `unsafeShiftL` levelBits) .|. ((taskIndex task + 1) .&. (levels - 1))
{-# INLINE placeBelow #-}

-- | The parent of a new task with this index: the task that forks it, or a milestone below that.
--
-- [Cost]: a test; each 64th level some words.
parentAt :: Task -> Int -> IO Task
parentAt task place
  | place .&. (levels - 1) == 0 = milestoneFor task place
  | otherwise = pure task
{-# INLINE parentAt #-}

-- | The lowest bits of an index are the task's depth, as far as they hold it.
levelBits, levels :: Int
levelBits = 6
levels = 64

-- A fork does not look for the milestone above, since a task may fork very many at such a level.
milestoneFor :: Task -> Int -> IO Task
milestoneFor task index = do
  identity <- newRef ()
  let (above, indices) = wayUp task
      number = 1 + numberOf above
      jump
        | numberOf above - numberOf first == numberOf first - numberOf second = second
        | otherwise = above
      first = jumpOf above
      second = jumpOf first
  pure (MilestoneTask task index (taskScope task) (Milestone identity number above jump (indices ++ [index])))
{-# NOINLINE milestoneFor #-}

numberOf :: Milestone -> Int
numberOf = \case
  Summit -> 0
  Milestone {_milestoneNumber = n} -> n

jumpOf, aboveOf :: Milestone -> Milestone
jumpOf = \case
  Summit -> Summit
  Milestone {_milestoneJump = jump} -> jump
aboveOf = \case
  Summit -> Summit
  Milestone {_milestoneAbove = above} -> above

pathOf :: Milestone -> [Int]
pathOf = \case
  Summit -> []
  Milestone {_milestonePath = path} -> path

sameMilestone :: Milestone -> Milestone -> Bool
sameMilestone Summit Summit = True
sameMilestone Milestone {_milestoneIdentity = a} Milestone {_milestoneIdentity = b} = sameRef a b
sameMilestone _ _ = False

-- | The next milestone above a task, and the indices that lead from there to the task.
wayUp :: Task -> (Milestone, [Int])
wayUp = go []
  where
    go acc t = case t of
      RootTask {_taskScope = s} | Nothing <- scopeAround s -> (Summit, acc)
      RootTask {_taskParent = parent} -> go (taskIndex t : acc) parent
      ForkTask {_taskParent = parent} -> go (taskIndex t : acc) parent
      SpawnTask {_taskParent = parent} -> go (taskIndex t : acc) parent
      HookedTask {} -> (Summit, taskIndex t : acc)
      MilestoneTask {_taskMilestone = milestone} -> (milestone, acc)

-- | The order in which a sequential run would see them fail: what a task forks comes
-- before the rest of the task. The tasks are of one run.
--
-- [Cost]: O(log depth), and some tens of tasks to look at.
compareTasks :: Task -> Task -> Ordering
compareTasks a b = uncurry comparePaths (parting (wayUp a) (wayUp b))

comparePaths :: [Int] -> [Int] -> Ordering
comparePaths (x : xs) (y : ys) = compare x y <> comparePaths xs ys
comparePaths [] [] = EQ
comparePaths [] _ = GT
comparePaths _ [] = LT

-- Two ways down from the lowest milestone that both tasks have above them, each as far as the next
-- milestone or the task.
parting :: (Milestone, [Int]) -> (Milestone, [Int]) -> ([Int], [Int])
parting (m, xs) (n, ys)
  | sameMilestone m n = (xs, ys)
  | numberOf m > numberOf n =
    let m' = ascend (numberOf n + 1) m
     in if sameMilestone (aboveOf m') n then (pathOf m', ys) else apart (aboveOf m') n
  | numberOf m < numberOf n = let (ys', xs') = parting (n, ys) (m, xs) in (xs', ys')
  | otherwise = apart m n
  where
    -- Different ones of the same number, which have jumps of the same number.
    apart p q
      | sameMilestone (aboveOf p) (aboveOf q) = (pathOf p, pathOf q)
      | sameMilestone (jumpOf p) (jumpOf q) = apart (aboveOf p) (aboveOf q)
      | otherwise = apart (jumpOf p) (jumpOf q)

-- The milestone with the number, on the way up from this one.
ascend :: Int -> Milestone -> Milestone
ascend number m
  | numberOf m == number = m
  | numberOf (jumpOf m) >= number = ascend number (jumpOf m)
  | otherwise = ascend number (aboveOf m)

-- | Would a sequential run not have come to (the rest of) this task when that one failed?
--
-- [Cost]: as 'compareTasks'.
isRightOf :: Task -> Task -> Bool
isRightOf a failed = compareTasks a failed == GT

-- Note [Milestones]
-- ~~~~~~~~~~~~~~~~~
-- The jumps are those of Myers ("An applicative random-access stack", 1983): the number of the
-- milestone to jump to depends on the own number only, and a way of n milestones is climbed in
-- O(log n) steps. Two milestones of the same number climb side by side until they meet.
--
-- A milestone belongs to one task, and its path ends with that task's index. So two different ones
-- below the same have different paths, and those decide.
--
-- Everything in a milestone but its identity is computed when the first comparison asks: a fork
-- pays for two objects at each 64th level, and a run without failures for no more.
