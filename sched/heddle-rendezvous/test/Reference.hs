-- | The reference interpreter: a small-step machine over maps, one thread's one action at
-- a time, in an order that the caller chooses. It knows nothing of the library, only its
-- documented rules, and is written to be read.
module Reference
  ( -- * Running
    Order (..),
    run,
    Report (..),
    Outcome (..),
    Waiting (..),
    Event (..),
    Exc (..),

    -- * Names of branches
    Tid,
    Turn (..),
    pathName,
  )
where

import Data.Foldable qualified as Foldable
import Data.List (find, inits, isPrefixOf)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Data.Set (Set)
import Data.Set qualified as Set
import Program

-- | Which of the threads that can run acts next.
data Order = LeftFirst | RightFirst | Shuffled Int
  deriving stock (Eq, Show)

-- | What came out, what every branch sent and received, and the effects in order.
data Report = Report
  { outcome :: Outcome,
    history :: Map String [Event],
    effects :: [Int]
  }
  deriving stock (Eq, Show)

data Outcome
  = -- | With main's digest.
    Finished Int
  | -- | From the leftmost waiting thread on.
    Deadlocked [Waiting]
  | -- | Thrown first by this branch.
    Failed String Exc
  deriving stock (Eq, Show)

-- | Who waits, does it send, on which channel, and for whom. If all have come and none of
-- them sends, that is who holds the writer's end.
data Waiting = Waiting String Bool String [String]
  deriving stock (Eq, Show)

data Event = Sent String Int | Got String Int | Caught Exc
  deriving stock (Eq, Show)

-- | The exceptions that can occur, as in the library.
data Exc
  = Boom Int
  | Ended String
  | Poison String
  | TwoWriters String [String]
  | TwoWorlds [String]
  | Crashed Int
  | -- | A search could not go on.
    Hung [Waiting]
  deriving stock (Eq, Show)

-- | One step down the tree of branches: the how-manieth par of the branch, which of its
-- branches; or which part of a search.
data Turn = Turn Int Int | Part Int
  deriving stock (Eq, Ord, Show)

-- | A thread, by the way from main. Their order is from left to right.
type Tid = [Turn]

pathName :: Tid -> String
pathName = ("main" ++) . concatMap turn
  where
    turn (Turn 1 i) = "/par[" ++ show i ++ "]"
    turn (Turn n i) = "/par#" ++ show n ++ "[" ++ show i ++ "]"
    turn (Part i) = "/leftmost[" ++ show i ++ "]"

-- | An exception and who threw it first.
data Failure = Failure Tid Exc

type Cid = Int

-- | What a thread wants to do next. The continuations are given what it gets.
data Proc
  = Done (Either Failure Int)
  | Create Var (Cid -> Proc)
  | Sending Cid Int (Either Failure () -> Proc)
  | Receiving Cid (Either Failure Int -> Proc)
  | Branching [Kid] (Either Failure [Int] -> Proc)
  | Searching [Tid -> Proc] (Either Failure (Maybe Int) -> Proc)
  | Effecting Int Proc
  | Noting Event Proc

data Kid = Kid [(Cid, (Bool, Bool))] Bool (Tid -> Proc)

data Thread
  = Ready Proc
  | AtChannel Cid Arrival
  | InPar (Map Int (Either Failure Int)) Int (Either Failure [Int] -> Proc)
  | InSearch Int [Tid -> Proc] (Either Failure (Maybe Int) -> Proc)

data Arrival = Offers Int (Either Failure () -> Proc) | Wants (Either Failure Int -> Proc)

-- | A member's seat on a channel.
data Seat = Seat
  { -- | Does it hold the writer's end?
    mayWrite :: Bool,
    state :: SeatState
  }

data SeatState
  = -- | Expected.
    Absent
  | Arrived
  | -- | A branch of its par has a seat in its place.
    Suspended
  deriving stock (Eq)

data Channel = Channel
  { name :: String,
    seats :: Map Tid Seat,
    poisoned :: Bool,
    -- | The pars whose branch with the writer's end has ended normally.
    writerEnded :: Set (Tid, Int)
  }

data Machine = Machine
  { threads :: Map Tid Thread,
    ready :: Set Tid,
    -- | How many pars each thread has begun.
    pars :: Map Tid Int,
    -- | On which channels it has a seat.
    holds :: Map Tid (Set Cid),
    channels :: Map Cid Channel,
    notes :: Map Tid [Event],
    world :: [Int],
    random :: Int
  }

-- | Run a legal program.
run :: Order -> Program -> Report
run order program = loop Machine {threads = Map.singleton [] (Ready main), ready = Set.singleton [], pars = Map.empty, holds = Map.empty, channels = Map.empty, notes = Map.empty, world = [], random = seed}
  where
    main = exec [] (Scope Map.empty) start program (Done . fmap fst)
    seed = case order of
      Shuffled n -> n
      _ -> 0
    loop m
      | Set.null (ready m) = case [s | s@(_, InSearch {}) <- Map.toDescList (threads m)] of
        -- The innermost first, of those inside each other.
        (t, InSearch i _ next) : _ ->
          let part = t ++ [Part i]
           in loop (resume t (next (Left (Failure part (Hung (waits part m))))) m {threads = Map.filterWithKey (\t' _ -> not (part `isPrefixOf` t')) (threads m)})
        _ -> report (Deadlocked (waits [] m)) m
      | otherwise =
        let (tid, m') = pick order m
         in case (tid, threads m' Map.! tid) of
              ([], Ready (Done r)) -> report (either failed Finished r) m'
              (_, Ready p) -> loop (act tid p m')
              _ -> error "a thread that is ready, and is not"
    failed (Failure tid e) = Failed (pathName tid) e
    report o m =
      Report
        { outcome = o,
          -- What is cut off inside a search is not part of the result.
          history = Map.map reverse (Map.mapKeys pathName (Map.filterWithKey (\t _ -> not (any isPart t)) (notes m))),
          effects = reverse (world m)
        }
    isPart = \case
      Part _ -> True
      Turn _ _ -> False

pick :: Order -> Machine -> (Tid, Machine)
pick order m = case order of
  LeftFirst -> (Set.findMin (ready m), m)
  RightFirst -> (Set.findMax (ready m), m)
  Shuffled _ ->
    let next = (random m * 1103515245 + 12345) `mod` 2147483648
     in (Set.elemAt ((next `div` 65536) `mod` Set.size (ready m)) (ready m), m {random = next})

-- * A thread's own steps

-- | The channels a branch knows, whether it made them or was granted an end.
newtype Scope = Scope (Map Var Cid)

-- | Run commands, then go on with the digest and whether the branch goes on, or the failure.
exec :: Tid -> Scope -> Int -> [Cmd] -> (Either Failure (Int, Bool) -> Proc) -> Proc
exec _ _ d [] k = k (Right (d, True))
exec tid scope@(Scope env) d (c : cs) k = case c of
  New v -> Create v (\cid -> exec tid (Scope (Map.insert v cid env)) d cs k)
  Send v n -> Sending (env Map.! v) (d + n) (orFail (\() -> Noting (Sent (channelName v) (d + n)) (on d)))
  Recv v -> Receiving (env Map.! v) (orFail (\x -> Noting (Got (channelName v) x) (on (mix d x))))
  SendCrash _ n -> k (Left (Failure tid (Crashed n)))
  Par bs -> Branching (map kid bs) (orFail (on . Foldable.foldl' mix d))
  Loop n body
    | n <= 0 -> on d
    | otherwise -> exec tid scope d body (continue (\d' -> exec tid scope d' (Loop (n - 1) body : cs) k))
  When n body
    | d `mod` 3 == n -> exec tid scope d body (continue on)
    | otherwise -> on d
  Throw n -> k (Left (Failure tid (Boom n)))
  Crash n -> k (Left (Failure tid (Crashed n)))
  Try which body ->
    exec tid scope d body $ \case
      Left (Failure _ e) | catches which e -> Noting (Caught e) (on (mixText d (show e)))
      r -> continue on r
  End -> k (Right (d, False))
  Effect n -> Effecting (d + n) (on d)
  Leftmost as -> Searching (map alternative as) (orFail (on . mix d . fromMaybe (-1)))
  where
    on d' = exec tid scope d' cs k
    orFail = either (k . Left)
    continue f = \case
      Right (d', True) -> f d'
      r -> k r
    kid (Branch grants w body) =
      Kid
        [(env Map.! v, (a, b)) | Grant v a b <- grants]
        w
        (\t -> exec t (Scope (Map.fromList [(v, env Map.! v) | Grant v _ _ <- grants])) start body (Done . fmap fst))
    alternative body t = exec t (Scope Map.empty) start body (Done . fmap fst)

catches :: Catch -> Exc -> Bool
catches which e = case (which, e) of
  (_, Crashed _) -> False
  -- A deadlock leaves the run, as it would without a search: 'Heddle.Rendezvous.Deadlock' is thrown by runs only.
  (_, Hung _) -> False
  (CatchAll, _) -> True
  (CatchBoom, Boom _) -> True
  (CatchEnded, Ended _) -> True
  (CatchPoisoned, Poison _) -> True
  (CatchDuplicate, TwoWriters _ _) -> True
  _ -> False

-- * The machine's

-- | One action of one thread.
act :: Tid -> Proc -> Machine -> Machine
act tid p m = case p of
  Done r -> finish tid r m
  Noting e next -> resume tid next m {notes = Map.insertWith (++) tid [e] (notes m)}
  Effecting n next -> resume tid next m {world = n : world m}
  Create v next ->
    let cid = Map.size (channels m)
        fresh = Channel {name = channelName v, seats = Map.singleton tid (Seat True Absent), poisoned = False, writerEnded = Set.empty}
     in resume tid (next cid) (hold tid cid m {channels = Map.insert cid fresh (channels m)})
  Sending cid x next -> arrive tid cid (Offers x next) m
  Receiving cid next -> arrive tid cid (Wants next) m
  Branching kids next -> branching tid kids next m
  Searching as next -> search tid 0 as next m

resume :: Tid -> Proc -> Machine -> Machine
resume tid p m = m {threads = Map.insert tid (Ready p) (threads m), ready = Set.insert tid (ready m)}

block :: Tid -> Thread -> Machine -> Machine
block tid t m = m {threads = Map.insert tid t (threads m), ready = Set.delete tid (ready m)}

hold :: Tid -> Cid -> Machine -> Machine
hold tid cid m = m {holds = Map.insertWith Set.union tid (Set.singleton cid) (holds m)}

onChannel :: Cid -> (Channel -> Channel) -> Machine -> Machine
onChannel cid f m = m {channels = Map.adjust f cid (channels m)}

-- | Sequential by definition: one alternative after the other.
search :: Tid -> Int -> [Tid -> Proc] -> (Either Failure (Maybe Int) -> Proc) -> Machine -> Machine
search tid _ [] next m = resume tid (next (Right Nothing)) m
search tid i (a : as) next m =
  let kid = tid ++ [Part i]
      -- An earlier search of this thread had parts of the same names.
      fresh = m {pars = Map.delete kid (pars m), holds = Map.delete kid (holds m)}
   in resume kid (a kid) (block tid (InSearch i as next) fresh)

branching :: Tid -> [Kid] -> (Either Failure [Int] -> Proc) -> Machine -> Machine
branching tid kids next m0
  | Just e <- twice = resume tid (next (Left (Failure tid e))) m0
  | null kids = resume tid (next (Right [])) m0
  | otherwise = Foldable.foldl' begin (block tid (InPar Map.empty (length kids) next) m) numbered
  where
    n = 1 + Map.findWithDefault 0 tid (pars m0)
    m = m0 {pars = Map.insert tid n (pars m0)}
    numbered = [(tid ++ [Turn n i], k) | (i, k) <- zip [0 ..] kids]
    -- In the order in which they are granted: the first channel granted twice is named.
    writers = [(cid, t) | (t, Kid grants _ _) <- numbered, (cid, (True, _)) <- grants]
    worlds = [t | (t, Kid _ True _) <- numbered]
    twice = case [cid | ((cid, _), before) <- zip writers (inits writers), cid `elem` map fst before] of
      cid : _ -> Just (TwoWriters (name (channels m Map.! cid)) [pathName t | (cid', t) <- writers, cid' == cid])
      [] | length worlds > 1 -> Just (TwoWorlds (map pathName worlds))
      [] -> Nothing
    begin machine (t, Kid grants _ body) =
      resume t (body t) (Foldable.foldl' (seat t) machine grants)
    seat t machine (cid, (w, _)) =
      hold t cid (onChannel cid (\c -> c {seats = Map.insert t (Seat w Absent) (Map.adjust (\s -> s {state = Suspended}) tid (seats c))}) machine)

arrive :: Tid -> Cid -> Arrival -> Machine -> Machine
arrive tid cid a m
  | poisoned channel = resume tid (refused tid (Poison (name channel)) a) m
  | otherwise =
    check cid (block tid (AtChannel cid a) (onChannel cid (setState tid Arrived) m))
  where
    channel = channels m Map.! cid

setState :: Tid -> SeatState -> Channel -> Channel
setState tid s c = c {seats = Map.adjust (\x -> x {state = s}) tid (seats c)}

refused :: Tid -> Exc -> Arrival -> Proc
refused tid e = \case
  Offers _ next -> next (Left (Failure tid e))
  Wants next -> next (Left (Failure tid e))

-- | Has everybody arrived? Then the step happens.
check :: Cid -> Machine -> Machine
check cid m
  | poisoned channel || any ((== Absent) . state) members || null arrived = m
  | Just x <- offered = Foldable.foldl' (goOn x) m arrived
  | otherwise = Foldable.foldl' ended m [t | t <- arrived, any (inside t) (Set.toList (writerEnded channel))]
  where
    channel = channels m Map.! cid
    members = Map.filter ((/= Suspended) . state) (seats channel)
    arrived = Map.keys members
    arrival t = case threads m Map.! t of
      AtChannel _ a -> a
      _ -> error "arrived, and not there"
    offered = case find isOffer (map arrival arrived) of
      Just (Offers x _) -> Just x
      _ -> Nothing
    isOffer = \case
      Offers _ _ -> True
      Wants _ -> False
    goOn x machine t = resume t next (onChannel cid (setState t Absent) machine)
      where
        next = case arrival t of
          Offers _ k -> k (Right ())
          Wants k -> k (Right x)
    inside t (owner, n) = case drop (length owner) t of
      Turn n' _ : _ -> owner `isPrefixOf` t && n == n'
      _ -> False
    ended machine t = resume t (refused t (Ended (name channel)) (arrival t)) (onChannel cid (setState t Absent) machine)

-- | A branch ends.
finish :: Tid -> Either Failure Int -> Machine -> Machine
finish tid r m0 = tell (Foldable.foldl' leave gone (Set.toList mine))
  where
    mine = Map.findWithDefault Set.empty tid (holds m0)
    gone = m0 {threads = Map.delete tid (threads m0), ready = Set.delete tid (ready m0)}
    leave m cid = check cid (onChannel cid (unseat cid m) (either (const (poison cid m)) (const m) r))
    unseat _ _ c = parentBack c' {writerEnded = ended}
      where
        c' = c {seats = Map.delete tid (seats c)}
        ended = case (r, Map.lookup tid (seats c)) of
          (Right _, Just s) | mayWrite s, Just (Turn n _) <- lastTurn -> Set.insert (parent, n) (writerEnded c)
          _ -> writerEnded c
    lastTurn = if null tid then Nothing else Just (last tid)
    parent = if null tid then [] else init tid
    -- The parent is a member again when none of its branches is.
    parentBack c
      | any (\t -> length t > length parent && parent `isPrefixOf` t) (Map.keys (seats c)) = c
      | otherwise = setState parent Absent c
    tell m = case Map.lookup parent (threads m) of
      Just (InPar results expected next) | Just (Turn _ i) <- lastTurn -> joined i results expected next m
      Just (InSearch i as next) -> searched i as next m
      _ -> m
    joined i results expected next m
      | Map.size results' < expected = m {threads = Map.insert parent (InPar results' expected next) (threads m)}
      | otherwise = resume parent (next (together (Map.elems results'))) m
      where
        results' = Map.insert i r results
    searched i as next m = case r of
      Left f -> resume parent (next (Left f)) m
      Right d | even d -> resume parent (next (Right (Just d))) m
      Right _ -> search parent (i + 1) as next m

-- | The results, or the leftmost failure that is not another's fault.
together :: [Either Failure Int] -> Either Failure [Int]
together rs = case ([f | Left f <- rs, real f], [f | Left f <- rs]) of
  (f : _, _) -> Left f
  ([], f : _) -> Left f
  ([], []) -> Right [x | Right x <- rs]
  where
    real (Failure _ (Poison _)) = False
    real _ = True

-- | Everything that waits on this channel, or will, gets the poison.
poison :: Cid -> Machine -> Machine
poison cid m = Foldable.foldl' wake (onChannel cid (\c -> c {poisoned = True}) m) [(t, a) | (t, s) <- Map.toList (seats channel), state s == Arrived, Just (AtChannel _ a) <- [Map.lookup t (threads m)]]
  where
    channel = channels m Map.! cid
    wake machine (t, a) = resume t (refused t (Poison (name channel)) a) (onChannel cid (setState t Absent) machine)

-- | Who waits at a channel, of a thread and those inside it.
waits :: Tid -> Machine -> [Waiting]
waits top m =
  [ Waiting (pathName t) (sends a) (name c) (map pathName (if null absent then [writerOf c] else absent))
    | (t, AtChannel cid a) <- Map.toList (threads m),
      top `isPrefixOf` t,
      let c = channels m Map.! cid
          absent = [t' | (t', s) <- Map.toList (seats c), state s == Absent]
  ]
  where
    sends = \case
      Offers _ _ -> True
      Wants _ -> False
    -- From the creator down, as far as the writer's end was granted on.
    writerOf c = down (fst (Map.findMin (seats c)))
      where
        down t = case [t' | (t', s) <- Map.toList (seats c), mayWrite s, length t' == length t + 1, t `isPrefixOf` t'] of
          t' : _ -> down t'
          [] -> t
