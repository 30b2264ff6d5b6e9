-- |
-- Module      : Heddle.Rendezvous.Internal.Report
-- Description : Naming a deadlock
-- Stability   : internal
--
-- When no branch runs and main has not ended, every branch waits in a slot or for its own
-- branches: nothing changes any more, and the state can simply be read. It is the same on
-- every schedule, and so is the report.
--
-- Cost: about proportional to the length of its text, once.
-- Owner: the run is over, so no other thread uses its state; only a word for reports is written.
module Heddle.Rendezvous.Internal.Report
  ( Deadlock (..),
    Wait (..),
    Operation (..),
    findDeadlock,
  )
where

import Control.Monad (forM)
import Data.Containers.ListUtils (nubOrd)
import Data.Graph (SCC (..), stronglyConnComp)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet qualified as IntSet
import Data.List (find, intercalate, isPrefixOf, sortOn)
import Data.Map.Strict qualified as Map
import Data.Maybe (mapMaybe)
import Data.Sequence qualified as Seq
import Data.Set qualified as Set
import Heddle.Prim.Atomic (Ref, newRef, placeCount, readPlace, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Exception (Exception (..))
import Heddle.Rendezvous.Internal.Channel (keptWord, reportWord, stateWord)
import Heddle.Rendezvous.Internal.Exception (fromRendezvousException, toRendezvousException)
import Heddle.Rendezvous.Internal.Types

-- | No branch can go on, and main has not ended. 'displayException' is a report.
data Deadlock = Deadlock
  { -- | Every branch that waits at a channel, from left to right.
    deadlockWaits :: [Wait],
    -- | Branches each of which waits for the next, the last for the first; empty if there is
    -- no such circle. Of several, one in which a branch waits for itself, or for a parent
    -- that keeps the writer's end; else the shortest through the leftmost branch that is in
    -- any.
    deadlockCycle :: [String]
  }
  deriving stock (Eq, Show)

-- | A branch that waits at a channel.
data Wait = Wait
  { waitThread :: String,
    waitOperation :: Operation,
    waitChannel :: String,
    -- | The members that have not arrived. If all have, and none of them sends: the holder of the
    -- writer's end, which is the branch itself or a parent that waits for its branches.
    waitMissing :: [String]
  }
  deriving stock (Eq, Show)

-- | What a branch waits to do.
data Operation = Sending | Receiving
  deriving stock (Eq, Show)

-- | The text names at most 50 branches and 20 members of each channel, and counts the others; the
-- fields have all.
instance Exception Deadlock where
  toException = toRendezvousException
  fromException = fromRendezvousException
  displayException d =
    intercalate "\n" $
      "deadlock: no branch can go on, and main has not ended" :
      map ("  " ++) (some 50 id (map describe (deadlockWaits d)))
        ++ ["  circle: " ++ intercalate " -> " (some 50 id circle ++ take 1 circle) | not (null circle)]
        ++ map ("  " ++) (take 3 (nubOrd (mapMaybe advice inCircle)))
    where
      circle = deadlockCycle d
      members = Set.fromList circle
      inCircle = [w | w <- deadlockWaits d, waitThread w `Set.member` members]
      channels = some 50 show (nubOrd (map waitChannel inCircle))
      advice w
        | waitMissing w == [waitThread w] = Just (ownWriter w)
        | waitOperation w == Receiving, any (`isAbove` waitThread w) (waitMissing w) = Just (noWriter w)
        | length channels > 1 = Just ("suggestion: let these branches use " ++ intercalate ", " channels ++ " in one order")
        | otherwise = Nothing
      ownWriter w =
        "suggestion: " ++ waitThread w ++ " holds the writer's end of " ++ show (waitChannel w)
          ++ " itself; grant that to another branch, or send there"
      noWriter w =
        "suggestion: grant the writer's end of " ++ show (waitChannel w) ++ " to a branch of the same par; "
          ++ intercalate ", " (waitMissing w)
          ++ " kept it"

-- | At most the given number of elements, and how many more there are.
some :: Int -> (a -> String) -> [a] -> [String]
some n text xs = case splitAt n xs of
  (first, []) -> map text first
  (first, more) -> map text first ++ ["... and " ++ show (length more) ++ " more"]

describe :: Wait -> String
describe w =
  waitThread w ++ ' ' : verb ++ ' ' : show (waitChannel w) ++ ", waits for " ++ intercalate ", " (some 20 who (waitMissing w))
  where
    verb = case waitOperation w of
      Sending -> "sends to"
      Receiving -> "receives from"
    who name
      | name == waitThread w = "itself"
      | name `isAbove` waitThread w = name ++ " (which waits for it)"
      | otherwise = name

isAbove :: String -> String -> Bool
isAbove a b = (a ++ "/") `isPrefixOf` b

-- | Why a run, or a search inside one, that has come to rest can never go on.
--
-- [Cost]: O(m log m), with m the number of members of all channels at which a branch waits;
-- see Note [Channels are nodes].
findDeadlock :: Branch -> IO Deadlock
findDeadlock top = do
  looked <- newRef IntMap.empty
  trees <- waiting looked top
  channels <- readRef looked
  mapM_ lookedForget channels
  let waiters = concatMap leaves trees
  pure (Deadlock (map waiterWait waiters) (circleIn (IntMap.map lookedMissing channels) trees waiters))

-- | A channel that has been looked at; its words hold its number here.
data Looked = Looked {lookedMissing :: [String], lookedForget :: IO ()}

-- | The branches that wait, as the tree of their parents.
data Tree
  = Leaf !Waiter
  | Parent String [Tree]

-- | A branch that waits, and the number of the channel it waits at.
data Waiter = Waiter {waiterWait :: Wait, waiterChannel :: !Int}

leaves :: Tree -> [Waiter]
leaves tree = go tree []
  where
    go (Leaf w) more = w : more
    go (Parent _ inside) more = foldr go more inside

-- | The circle of the leftmost branch that waits for itself, or for a parent that keeps the
-- writer's end: no order of using channels removes such a circle. If there is none, the
-- shortest through the leftmost branch that is in one. A parent waits for those inside it.
circleIn :: IntMap [String] -> [Tree] -> [Waiter] -> [String]
circleIn channels trees waiters = case (mapMaybe alone waiters, find (`IntMap.member` groups) [0 .. count - 1]) of
  (circle : _, _) -> circle
  ([], Just begin) -> shortest graph groups begin
  ([], Nothing) -> []
  where
    graph@Graph {graphWaiters = count} = graphOf channels trees waiters
    groups = cyclicGroups graph
    alone w
      | name `Set.member` absentees = Just [name]
      | otherwise = (\parent -> [name, parent]) <$> find (`Set.member` absentees) (parentNames name)
      where
        name = waitThread (waiterWait w)
        absentees = IntMap.findWithDefault Set.empty (waiterChannel w) missingNames
    missingNames = IntMap.map Set.fromList channels

-- | The branches that a branch is inside of, the outermost first.
parentNames :: String -> [String]
parentNames name = [take i name | (i, '/') <- zip [0 ..] name]

-- | Which branch waits for which: the nodes below 'graphWaiters' are branches that wait, from left to
-- right; then come the channels, then the parents.
data Graph = Graph
  { graphWaiters :: !Int,
    graphName :: IntMap String,
    -- | The channel that a waiter waits at.
    graphAt :: IntMap Int,
    -- | The members that a channel misses.
    graphMissing :: IntMap [Int],
    -- | The nodes directly inside a parent, and the range of the waiters inside it.
    graphInside :: IntMap ([Int], (Int, Int))
  }

graphOf :: IntMap [String] -> [Tree] -> [Waiter] -> Graph
graphOf channels trees waiters =
  Graph
    { graphWaiters = count,
      graphName = IntMap.fromList ([(i, waitThread (waiterWait w)) | (i, w) <- numbered] ++ [(i, name) | (i, name, _, _) <- parents]),
      graphAt = IntMap.fromList [(i, channel (waiterChannel w)) | (i, w) <- numbered],
      graphMissing = IntMap.fromList [(channel number, mapMaybe (`Map.lookup` nodes) names) | (number, names) <- IntMap.toList channels],
      graphInside = IntMap.fromList [(i, (inside, range)) | (i, _, inside, range) <- parents]
    }
  where
    count = length waiters
    numbered = zip [0 ..] waiters
    -- They are numbered from 1.
    channel number = count + number
    nodes = Map.fromList ([(waitThread (waiterWait w), i) | (i, w) <- numbered] ++ [(name, i) | (i, name, _, _) <- parents])
    (_, _, parents, _) = nodesOf 0 (count + IntMap.size channels + 1) trees
    -- The next waiter's number and the next parent's; the parents found, and the nodes of these trees.
    nodesOf waiter parent [] = (waiter, parent, [], [])
    nodesOf waiter parent (tree : more) = case tree of
      Leaf _ ->
        let (waiter', parent', found, others) = nodesOf (waiter + 1) parent more
         in (waiter', parent', found, waiter : others)
      Parent name inside ->
        let (waiter1, parent1, found1, nodes1) = nodesOf waiter (parent + 1) inside
            (waiter2, parent2, found2, others) = nodesOf waiter1 parent1 more
         in (waiter2, parent2, (parent, name, nodes1, (waiter, waiter1)) : found1 ++ found2, parent : others)

-- | The nodes that are in a circle, each with the number of its strongly connected component.
cyclicGroups :: Graph -> IntMap Int
cyclicGroups graph = IntMap.fromList (concat (zipWith group [0 ..] (stronglyConnComp edges)))
  where
    edges =
      [(i, i, [c]) | (i, c) <- IntMap.toList (graphAt graph)]
        ++ [(c, c, members) | (c, members) <- IntMap.toList (graphMissing graph)]
        ++ [(p, p, inside) | (p, (inside, _)) <- IntMap.toList (graphInside graph)]
    group i = \case
      CyclicSCC ns -> [(n, i) | n <- ns]
      AcyclicSCC _ -> []

-- | The shortest circle through a waiter, by breadth-first search. Only branches count as
-- steps. Each channel is expanded once, since all that wait there miss the same members, and
-- each waiter is reached once, so that parents inside parents do not enumerate it again.
shortest :: Graph -> IntMap Int -> Int -> [String]
shortest graph groups begin = map (\i -> IntMap.findWithDefault "" i (graphName graph)) (go (IntSet.delete begin together) IntSet.empty (Seq.singleton [begin]))
  where
    group = IntMap.lookup begin groups
    together = IntSet.fromDistinctAscList [i | (i, g) <- IntMap.toAscList groups, Just g == group]
    -- The nodes not reached, the channels expanded, and the ways found, each from its last step back.
    go unseen expanded ways = case Seq.viewl ways of
      way@(here : _) Seq.:< more -> case IntMap.lookup here (graphAt graph) of
        Just channel
          | channel `IntSet.member` expanded -> go unseen expanded more
          | otherwise -> reach way more (IntSet.insert channel expanded) (IntMap.findWithDefault [] channel (graphMissing graph)) unseen
        Nothing -> case IntMap.lookup here (graphInside graph) of
          Just (_, (from, to))
            | from <= begin, begin < to -> reverse way
            | otherwise -> reach way more expanded (takeWhile (< to) (IntSet.toAscList (snd (IntSet.split (from - 1) unseen)))) unseen
          Nothing -> go unseen expanded more
      _ -> []
    reach way more expanded found unseen
      | begin `elem` found = reverse way
      | otherwise =
        let new = filter (`IntSet.member` unseen) found
         in go (foldr IntSet.delete unseen new) expanded (more <> Seq.fromList (map (: way) new))

-- | The branches below this one that wait at a channel.
waiting :: Ref (IntMap Looked) -> Branch -> IO [Tree]
waiting looked b =
  branchDoing b >>= \case
    Ended' -> pure []
    Inside frame -> do
      inside <- mapM (\i -> readPlace (frameBranches frame) i >>= waiting looked) [0 .. placeCount (frameBranches frame) - 1]
      pure [Parent (branchPath b) (concat inside)]
    Active _ -> case b of
      Branch _ _ seated -> holds seated
      _ -> pure []
  where
    holds Nothing' = pure []
    holds (Hold block marks) = at block marks (pure [])
    holds (Holds block marks more) = at block marks (holds more)
    at block marks elsewhere = do
      slot <- slotOf block (holdSeat marks)
      case slot of
        Receiver {} -> pure <$> waitAt Receiving block
        Sender {} -> pure <$> waitAt Sending block
        _ -> elsewhere
    waitAt operation block = do
      (number, names) <- missing looked (blockChannel block)
      pure (Leaf (Waiter (Wait (branchPath b) operation (channelName (blockChannel block)) names) number))

-- | The channel's number, and the members that have not arrived; if all have, the holder of the
-- writer's end. Computed once for each channel.
missing :: Ref (IntMap Looked) -> Channel a -> IO (Int, [String])
missing looked channel = do
  known <- readRef looked
  number <- readWord (channelWord channel) reportWord
  case IntMap.lookup number known of
    Just l -> pure (number, lookedMissing l)
    Nothing -> do
      members <- absent (channelRoot channel)
      names <-
        if null members
          then pure . branchPath <$> writerOf (channelRoot channel)
          else pure (map branchPath (sortOn branchPlaceKey members))
      let number' = maybe 1 ((+ 1) . fst) (IntMap.lookupMax known)
      writeWord (channelWord channel) reportWord number'
      writeRef looked (IntMap.insert number' (Looked names (writeWord (channelWord channel) reportWord 0)) known)
      pure (number', names)

slotOf :: Block a -> Int -> IO (Slot a)
slotOf block i = do
  x <- readWord (blockWord block) stateWord
  brought block (wordParity x) i

-- | The members that have not arrived.
absent :: Block a -> IO [Branch]
absent block = do
  inner <- readRef (blockInner block)
  concat <$> forM (seats block) (\i -> maybe (here i) absent (IntMap.lookup i inner))
  where
    here i = do
      slot <- slotOf block i
      b <- readPlace (blockBranches block) i
      pure $ case slot of
        Receiver {} -> []
        Sender {} -> []
        _ | branchPath b `elem` vacated -> []
        _ -> [b]
    -- A branch that leaves its seat puts the parent there.
    vacated = case blockAbove block of
      Just (Above _ _ parent) -> [branchPath parent]
      Nothing -> []

-- | From left to right.
branchPlaceKey :: Branch -> [(Int, Int)]
branchPlaceKey = reverse . map key . enclosing
  where
    key b = case b of
      Branch _ frame _ -> (frameNumber frame, branchNumber b)
      _ -> (0, 0)

seats :: Block a -> [Int]
seats block = [0 .. blockSize block - 1]

-- | The branch that holds the writer's end.
writerOf :: Block a -> IO Branch
writerOf block = do
  inner <- readRef (blockInner block)
  case IntMap.lookup 0 inner of
    Just inside | blockWrites inside -> writerOf inside
    Just inside | Just (Above _ _ parent) <- blockAbove inside -> keeper parent
    _ -> readPlace (blockBranches block) 0 >>= keeper
  where
    -- The branch that lent the seat without the writer's end.
    keeper b = do
      kept <- readWord (blockWords block) keptWord
      pure (enclosing b !! kept)

-- Note [Channels are nodes]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- With n branches at a channel and m members missing there, "waits for" has n * m pairs. So
-- the graph has the channel as a node between them, with n + m edges. In the same way a
-- parent, which waits for every branch inside it at any depth, has edges only to the branches
-- and parents directly inside. Neither kind of node is a step of a circle.
