{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Programs translated to the library, and what came out told in the reference's terms.
module Compile
  ( Way (..),
    observe,
    Observed (..),
    exceptionOf,
  )
where

import Control.Applicative ((<|>))
import Control.Exception (ErrorCall (..), Exception (toException), SomeException, displayException, evaluate, fromException, try)
import Data.Foldable qualified as Foldable
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Data.List (nub)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe, isJust)
import Heddle.Prim.Exception (describeException)
import Heddle.Rendezvous
import Heddle.Rendezvous.Internal (runDetIOSeeded, runDetSeeded)
import Program hiding (Branch)
import Program qualified
import Reference (Event (..), Exc (..), Outcome (..), Report (..), Waiting (..))
import System.IO.Unsafe (unsafePerformIO)

-- | How to run it: without effects or with them, on any schedule or on a random one.
data Way = Purely | Seeded Int | WithEffects | WithEffectsSeeded Int
  deriving stock (Eq, Show)

-- | The report, and of a deadlock the cycle and the text.
data Observed = Observed {observed :: Report, cycleOf :: [String], textOf :: String}
  deriving stock (Eq, Show)

-- | Run a legal program; where it runs without effects it should have none.
observe :: Way -> Program -> IO Observed
observe way program = do
  events <- newIORef Map.empty
  turns <- newIORef Map.empty
  done <- newIORef []
  let here = Here {path = "main", logged = Just (Log events turns), doEffect = \n -> atomicModifyIORef' done (\ns -> (n : ns, ()))}
      main' :: Maybe (World s) -> Det s Int
      main' w = fst <$> exec here w Map.empty start program
  result <- try $ case way of
    Purely -> evaluate (runDet (main' Nothing))
    Seeded seed -> evaluate (runDetSeeded seed (main' Nothing))
    WithEffects -> runDetIO (main' . Just)
    WithEffectsSeeded seed -> runDetIOSeeded seed (main' . Just)
  happened <- readIORef events
  did <- readIORef done
  let (o, ring, text) = either failed (\d -> (Finished d, [], "")) result
  pure Observed {observed = Report {outcome = o, history = Map.map reverse happened, effects = reverse did}, cycleOf = ring, textOf = text}
  where
    failed :: SomeException -> (Outcome, [String], String)
    failed e
      | Just d <- fromException e = (Deadlocked (map waiting (deadlockWaits d)), deadlockCycle d, displayException d)
      | Just (Uncaught p inner) <- fromException e = (Failed p (exceptionOf inner), [], describeException e)
      | otherwise = error ("an exception that a run does not throw: " ++ show e)

waiting :: Wait -> Waiting
waiting w = Waiting (waitThread w) (waitOperation w == Sending) (waitChannel w) (waitMissing w)

-- | The exceptions of test programs.
newtype Bang = Bang Int
  deriving stock (Eq, Show)

instance Exception Bang

exceptionOf :: SomeException -> Exc
exceptionOf e
  | Just (Bang n) <- fromException e = Boom n
  | Just (WriterEnded c) <- fromException e = Ended c
  | Just (Poisoned c) <- fromException e = Poison c
  | Just (DuplicateWriter c bs) <- fromException e = TwoWriters c bs
  | Just (DuplicateWorld bs) <- fromException e = TwoWorlds bs
  | Just d <- fromException e = Hung (map waiting (deadlockWaits d))
  | Just (ErrorCall m) <- fromException e, ["crash", n] <- words m = Crashed (read n)
  | otherwise = error ("an exception that no program throws: " ++ show e)

-- * What happens, seen from outside

-- | By branch: what it sent and received, last first, and how many pars it began. Every
-- branch writes to its own part only.
data Log = Log (IORef (Map String [Event])) (IORef (Map String Int))

data Here = Here {path :: String, logged :: Maybe Log, doEffect :: Int -> IO ()}

-- | Not inside of a search: what is cut off there is up to the schedule.
note :: Here -> Event -> Det s ()
note here e =
  pure () >>= \() -> case logged here of
    Just l -> pure $! write l (path here) e
    Nothing -> pure ()

write :: Log -> String -> Event -> ()
write (Log events _) p e = unsafePerformIO (atomicModifyIORef' events (\m -> (Map.insertWith (++) p [e] m, ())))
{-# NOINLINE write #-}

-- | Which of its pars this is.
turn :: Here -> Det s Int
turn here =
  pure () >>= \() -> case logged here of
    Just l -> pure $! count l (path here)
    Nothing -> pure 0

count :: Log -> String -> Int
count (Log _ turns) p = unsafePerformIO (atomicModifyIORef' turns (\m -> let n = 1 + Map.findWithDefault 0 p m in (Map.insert p n m, n)))
{-# NOINLINE count #-}

-- * The translation

-- | A channel it made, or the ends it was granted.
data Held s = Own (Chan s Int) | Ends (Maybe (Out s Int)) (Maybe (In s Int))

-- | For each channel: as it was made, or as it was granted.
type Granted s = [(Maybe (Writing s Int), Maybe (Reading s Int), Maybe (Out s Int), Maybe (In s Int))]

-- | Run commands; the digest, and whether the branch goes on.
exec :: forall s. Here -> Maybe (World s) -> Map Var (Held s) -> Int -> [Cmd] -> Det s (Int, Bool)
exec _ _ _ d [] = pure (d, True)
exec here w env d (c : cs) = case c of
  New v -> do
    chan <- newChan (channelName v)
    exec here w (Map.insert v (Own chan) env) d cs
  Send v n -> do
    send (writer v) (d + n)
    note here (Sent (channelName v) (d + n))
    on d
  Recv v -> do
    x <- recv (reader v)
    note here (Got (channelName v) x)
    on (mix d x)
  SendCrash v n -> do
    send (writer v) (error ("crash " ++ show n))
    on d
  Par bs -> do
    n <- if refused then pure 0 else turn here
    ds <- par (traverse (branchOf n) (zip [0 ..] bs))
    on (Foldable.foldl' mix d ds)
  Loop n body
    | n <= 0 -> on d
    | otherwise -> exec here w env d body >>= continue (\d' -> exec here w env d' (Loop (n - 1) body : cs))
  When n body
    | d `mod` 3 == n -> exec here w env d body >>= continue on
    | otherwise -> on d
  Throw n -> throwDet (Bang n)
  Crash n
    | even n -> error ("crash " ++ show n)
    | otherwise -> do
      x <- pure $! error ("crash " ++ show n)
      on x
  Try which body -> do
    let caught :: (e -> SomeException) -> Det s (Either e (Int, Bool)) -> Det s (Either SomeException (Int, Bool))
        caught f = fmap (either (Left . f) Right)
        attempt = exec here w env d body
    r <- case which of
      CatchBoom -> caught (\e -> toException (e :: Bang)) (tryDet attempt)
      CatchEnded -> caught (\e -> toException (e :: WriterEnded)) (tryDet attempt)
      CatchPoisoned -> caught (\e -> toException (e :: Poisoned)) (tryDet attempt)
      CatchDuplicate -> caught (\e -> toException (e :: DuplicateWriter)) (tryDet attempt)
      CatchAll -> tryDet attempt
    case r of
      Left e -> do
        note here (Caught (exceptionOf e))
        on (mixText d (show (exceptionOf e)))
      Right r' -> continue on r'
  End -> pure (d, False)
  Effect n -> do
    mapM_ (\world -> io world (doEffect here (d + n))) w
    on d
  Leftmost as -> do
    hit <- leftmost (map alternative as)
    on (mix d (fromMaybe (-1) hit))
  where
    on d' = exec here w env d' cs
    -- A par that does not begin is not counted.
    refused = case c of
      Par bs -> null bs || not (distinct [v | Program.Branch grants _ _ <- bs, Grant v True _ <- grants]) || (isJust w && length [() | Program.Branch _ True _ <- bs] > 1)
      _ -> False
    distinct vs = length (nub vs) == length vs
    continue f (d', goesOn) = if goesOn then f d' else pure (d', False)
    writer v = case env Map.! v of
      Ends (Just o) _ -> o
      _ -> error "no writer's end"
    reader v = case env Map.! v of
      Ends _ (Just i) -> i
      _ -> error "no reader's end"
    branchOf :: Int -> (Int, Program.Branch) -> Branches s Int
    branchOf n (i, Program.Branch grants wantsWorld body)
      | wantsWorld, Just world <- w = branch (world, granted) (\(world', ends) -> inside (Just world') ends)
      | otherwise = branch granted (inside Nothing)
      where
        here' = here {path = path here ++ "/par" ++ (if n == 1 then "" else '#' : show n) ++ "[" ++ show i ++ "]"}
        granted :: Granted s
        granted = map grant grants
        grant (Grant v writes reads') = case env Map.! v of
          Own chan -> (if writes then Just (out chan) else Nothing, if reads' then Just (inp chan) else Nothing, Nothing, Nothing)
          Ends o e -> (Nothing, Nothing, if writes then o else Nothing, if reads' then e else Nothing)
        inside :: Maybe (World t) -> [(Maybe (Out t Int), Maybe (In t Int), Maybe (Out t Int), Maybe (In t Int))] -> Det t Int
        inside w' ends = fst <$> exec here' w' (Map.fromList (zipWith held grants ends)) start body
        held (Grant v _ _) (a, b, c', d') = (v, Ends (a <|> c') (b <|> d'))
    alternative body = Closed (hitOf <$> exec here {logged = Nothing} Nothing Map.empty start body)
    hitOf (d', _) = if even d' then Just d' else Nothing
