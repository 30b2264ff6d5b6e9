-- |
-- Module      : Heddle.Rendezvous.Internal.Report
-- Description : Naming a deadlock
-- Stability   : internal
--
-- When no branch runs and main has not ended, every branch waits in a slot or for its own
-- branches: nothing moves any more, and the state can simply be read. It is the same on
-- every schedule, and so is what we say of it.
--
-- Cost: about what its text is long, once.
-- Owner: the run is over, so all it had is ours; nothing is changed but a mark for us.
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
import Data.List (find, intercalate, isPrefixOf, sortOn)
import Data.Map.Strict qualified as Map
import Data.Maybe (mapMaybe)
import Data.Sequence qualified as Seq
import Data.Set qualified as Set
import Heddle.Prim.Atomic (Ref, newRef, readEntry, readRef, readWord, tableSize, writeRef, writeWord)
import Heddle.Prim.Exception (Exception (..))
import Heddle.Rendezvous.Internal.Channel (keptWord, reportWord)
import Heddle.Rendezvous.Internal.Types

-- | No branch can go on, and main has not ended. 'displayException' is a report.
data Deadlock = Deadlock
  { -- | Every branch that waits at a channel, from left to right.
    deadlockWaits :: [Wait],
    -- | Branches each of which waits for the next, the last for the first; empty if there is
    -- no such circle. Of several, one in which a branch waits for itself, or for a parent
    -- who keeps the writer's end; else the shortest through the leftmost branch that is in
    -- any.
    deadlockCycle :: [String]
  }
  deriving stock (Eq, Show)

-- | A branch that waits at a channel.
data Wait = Wait
  { waitThread :: String,
    waitOperation :: Operation,
    waitChannel :: String,
    -- | The members that have not come. If all have, and none of them sends: who holds the
    -- writer's end, be it the branch itself or a parent that waits for its branches.
    waitMissing :: [String]
  }
  deriving stock (Eq, Show)

-- | What a branch waits to do.
data Operation = Sending | Receiving
  deriving stock (Eq, Show)

-- | Of very many branches, members or steps of a circle it tells how many more there are;
-- the fields have all.
instance Exception Deadlock where
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

-- | So many, and how many more.
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

-- | What is the matter with a run, or a part of one, that has come to rest.
--
-- [Cost]: O(m log m), with m the members named in 'waitMissing', all together.
findDeadlock :: Branch -> IO Deadlock
findDeadlock top = do
  looked <- newRef IntMap.empty
  waits <- waiting looked top
  readRef looked >>= mapM_ lookedForget
  pure (Deadlock waits (circleIn waits))

-- | A channel that has been looked at; its words tell which one it is here.
data Looked = Looked {lookedMissing :: [String], lookedForget :: IO ()}

-- | That of the leftmost branch that waits for itself, or for a parent who keeps the
-- writer's end: they remain in whatever order channels are used. If there is none, the
-- shortest through the leftmost branch that is in one. A parent waits for those inside it.
circleIn :: [Wait] -> [String]
circleIn waits = case (mapMaybe alone waits, find ((`Map.member` places) . waitThread) waits) of
  (circle : _, _) -> circle
  ([], Just w) -> shortest (waitThread w)
  ([], Nothing) -> []
  where
    alone w
      | waitThread w `elem` waitMissing w = Just [waitThread w]
      | otherwise = (\parent -> [waitThread w, parent]) <$> find (`isAbove` waitThread w) (waitMissing w)
    byName = Map.fromList [(waitThread w, (i, w)) | (i, w) <- zip [0 :: Int ..] waits]
    further name = case Map.lookup name byName of
      Just (_, w) -> waitMissing w
      -- '0' comes after '/'.
      Nothing -> map (waitThread . snd) (sortOn fst (Map.elems (Map.takeWhileAntitone (< name ++ "0") (snd (Map.split (name ++ "/") byName)))))
    names = Set.toList (Set.fromList (concatMap (\w -> waitThread w : waitMissing w) waits))
    -- Who is in a circle, and in which group of circles.
    places = Map.fromList (concat (zipWith place [0 :: Int ..] (stronglyConnComp [(n, n, further n) | n <- names])))
    place i = \case
      CyclicSCC ns -> [(n, i) | n <- ns]
      AcyclicSCC _ -> []
    -- Ways from a branch, the last step first, shorter ones before longer ones.
    shortest begin = go (Set.singleton begin) (Seq.singleton [begin])
      where
        go seen ways = case Seq.viewl ways of
          way@(here : _) Seq.:< more
            | begin `elem` near here -> reverse way
            | otherwise ->
              let new = filter (`Set.notMember` seen) (near here)
               in go (Set.union seen (Set.fromList new)) (more <> Seq.fromList (map (: way) new))
          _ -> []
    near name = [n | n <- further name, Map.lookup n places == Map.lookup name places]

-- | Everybody below this branch who waits at a channel.
waiting :: Ref (IntMap Looked) -> Branch -> IO [Wait]
waiting looked b =
  branchDoing b >>= \case
    Ended' -> pure []
    Inside frame ->
      concat <$> mapM (\i -> readEntry (frameBranches frame) i >>= waiting looked) [0 .. tableSize (frameBranches frame) - 1]
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
        Receiver _ _ -> pure <$> waitAt Receiving block
        Sender {} -> pure <$> waitAt Sending block
        _ -> elsewhere
    waitAt operation block = Wait (branchPath b) operation (channelName (blockChannel block)) <$> missing looked (blockChannel block)

-- | Who has not come; else who holds the writer's end. Found out once for each channel.
missing :: Ref (IntMap Looked) -> Channel a -> IO [String]
missing looked channel = do
  known <- readRef looked
  number <- readWord (channelWord channel) reportWord
  case IntMap.lookup number known of
    Just l -> pure (lookedMissing l)
    Nothing -> do
      members <- absent (channelRoot channel)
      names <-
        if null members
          then pure . branchPath <$> writerOf (channelRoot channel)
          else pure (map branchPath (sortOn branchPlaceKey members))
      let number' = IntMap.size known + 1
      writeWord (channelWord channel) reportWord number'
      writeRef looked (IntMap.insert number' (Looked names (writeWord (channelWord channel) reportWord 0)) known)
      pure names

slotOf :: Block a -> Int -> IO (Slot a)
slotOf block i = do
  x <- readWord (blockWord block) 0
  readEntry (blockSlots block) (wordParity x * blockSize block + i)

-- | The members that have not arrived.
absent :: Block a -> IO [Branch]
absent block = do
  inner <- readRef (blockInner block)
  concat <$> forM (seats block) (\i -> maybe (here i) absent (lookup i inner))
  where
    here i = do
      slot <- slotOf block i
      b <- readEntry (blockBranches block) i
      pure $ case slot of
        Receiver _ _ -> []
        Sender {} -> []
        _ | branchPath b `elem` vacated -> []
        _ -> [b]
    -- Who leaves a seat of a frame leaves the parent's name there.
    vacated = case blockAbove block of
      Just (Above _ _ parent) -> [branchPath parent]
      Nothing -> []

-- | From left to right.
branchPlaceKey :: Branch -> [(Int, Int)]
branchPlaceKey = reverse . map key . within
  where
    key b = case b of
      Branch _ frame _ -> (frameNumber frame, branchNumber b)
      _ -> (0, 0)

seats :: Block a -> [Int]
seats block = [0 .. blockSize block - 1]

-- | Who holds the writer's end.
writerOf :: Block a -> IO Branch
writerOf block = do
  inner <- readRef (blockInner block)
  case lookup 0 inner of
    Just inside | blockWrites inside -> writerOf inside
    Just inside | Just (Above _ _ parent) <- blockAbove inside -> keeper parent
    _ -> readEntry (blockBranches block) 0 >>= keeper
  where
    -- Who lent the seat without the writer's end.
    keeper b = do
      kept <- readWord (blockWords block) keptWord
      pure (within b !! kept)
