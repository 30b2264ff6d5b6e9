{-# LANGUAGE ConstraintKinds #-}
{-# LANGUAGE ImplicitParams #-}
{-# LANGUAGE RankNTypes #-}

-- | Random programs of pipes do what a simple model of them does: the same events in the
-- same order, the same result. And the laws.
module PipeLawTest (tests) where

import Control.Exception (ArithException, ErrorCall (..), SomeException, throwIO, try)
import Control.Monad.IO.Class (liftIO)
import Data.IORef
import Data.List (delete, sort)
import Data.Maybe (fromMaybe, isNothing)
import Heddle.Pipe (Pipe, await, yield, (.|), (=>=))
import Heddle.Pipe qualified as Pipe
import Test.QuickCheck
import Test.QuickCheck.Monadic (assert, monadicIO, monitor)
import Test.QuickCheck.Monadic qualified as Q
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.QuickCheck (QuickCheckTests (..), testProperty)

{- HLINT ignore "Use <&>" -}
{- HLINT ignore "Use >>" -}
{- HLINT ignore "Monad law, left identity" -}
{- HLINT ignore "Monad law, right identity" -}
{- HLINT ignore "Use =<<" -}
-- These are the laws.

tests :: TestTree
tests =
  testGroup "pipe laws" . map (localOption (QuickCheckTests 2000)) $
    [ localOption (QuickCheckTests 20000) (testProperty "a program does what its model does" prop_model),
      testGroup
        "monad"
        [ law "left identity" (\(a, f) -> (pure a >>= program1 f, program1 f a)),
          law "right identity" (\p -> (program p >>= pure, program p)),
          law "associativity" $ \(p, f, g) ->
            ((program p >>= program1 f) >>= program1 g, program p >>= \x -> program1 f x >>= program1 g),
          law "map" (\(p, n) -> (fmap (+ n) (program p), program p >>= pure . (+ n))),
          law "then" (\(p, q) -> (program p *> program q, program p >>= \_ -> program q)),
          law "apply" (\(p, q) -> ((,) <$> program p <*> program q, program p >>= \a -> program q >>= \b -> pure (a, b)))
        ],
      testGroup
        "category"
        [ lawUnordered "associativity" $ \(p, q, r) ->
            ((program p .| program q) .| program r, program p .| (program q .| program r)),
          lawUnordered "what comes after" $ \(p, q, r, s) ->
            (((program p .| program q) .| program r) *> program s, (program p .| (program q .| program r)) *> program s),
          law "identity above" (\p -> (Pipe.map id .| program p, program p)),
          law "identity below" (\p -> (fst <$> (program p =>= Pipe.map id), program p)),
          lawOnce "associativity, with all results" $ \(p, q, r) ->
            ((program p =>= program q) =>= program r, (\(a, (b, c)) -> ((a, b), c)) <$> (program p =>= (program q =>= program r)))
        ],
      testGroup
        "wrappers change nothing"
        [ law "named" (\p -> (Pipe.named "it" (program p), program p)),
          law "a handler for something else" $ \p ->
            (Pipe.tryP (program p) >>= either (\e -> liftIO (throwIO (e :: ArithException))) pure, program p),
          law "coroutines" (\p -> (Pipe.fromTransducer (Pipe.toTransducer (program p)), program p)),
          law "an empty bracket" (\p -> (Pipe.bracketP (pure ()) pure (\_ -> program p), program p))
        ]
    ]

{- HLINT ignore "Use >>" -}
{- HLINT ignore "Use <&>" -}
-- They are what is compared.

-- Programs -------------------------------------------------------------------

data Program
  = Give Int
  | Ask
  | Act Int
  | Fail
  | Echo Int
  | EchoAll
  | Program :>> Program
  | Program :| Program
  | Program :=> Program
  | Bracket Int Program
  | Try Program
  | Named Program
  deriving stock (Show)

instance Arbitrary Program where
  arbitrary = sized (go . min 24)
    where
      go n
        | n <= 1 = leaf
        | otherwise =
          frequency
            [ (2, leaf),
              (6, half (:>>) n),
              (5, half (:|) n),
              (2, half (:=>) n),
              (3, Bracket <$> choose (0, 99) <*> go (n - 1)),
              (1, Try <$> go (n - 1)),
              (1, Named <$> go (n - 1))
            ]
      half f n = choose (1, n - 1) >>= \k -> f <$> go k <*> go (n - k)
      leaf =
        frequency
          [ (6, Give <$> choose (0, 99)),
            (6, pure Ask),
            (3, Act <$> choose (0, 99)),
            (1, pure Fail),
            (3, Echo <$> choose (1, 4)),
            (2, pure EchoAll)
          ]
  shrink = \case
    p :>> q -> [p, q] ++ ((:>> q) <$> shrink p) ++ ((p :>>) <$> shrink q)
    p :| q -> [p, q] ++ ((:| q) <$> shrink p) ++ ((p :|) <$> shrink q)
    p :=> q -> [p, q] ++ ((:=> q) <$> shrink p) ++ ((p :=>) <$> shrink q)
    Bracket n p -> p : (Bracket n <$> shrink p)
    Try p -> p : (Try <$> shrink p)
    Named p -> p : (Named <$> shrink p)
    Give 0 -> []
    _ -> [Give 0]

-- | What can be seen of a run.
data Event = Pulled Int | Gave Int | Acted Int | Opened Int | Closed Int
  deriving stock (Eq, Ord, Show)

-- Pipes ----------------------------------------------------------------------

type Log = Event -> IO ()

-- | A program with the log of its events.
type Logged = ?note :: Log

program :: Logged => Program -> Pipe Int Int Int
program = \case
  Give n -> n <$ yield n
  Ask -> fromMaybe (-1) <$> await
  Act n -> n <$ liftIO (?note (Acted n))
  Fail -> liftIO (throwIO (ErrorCall "fail"))
  Echo n -> echo n
  EchoAll -> await >>= maybe (pure 0) (\a -> yield a *> program EchoAll)
  p :>> q -> program p >>= \a -> (\b -> a * 3 + b) <$> program q
  p :| q -> program p .| program q
  p :=> q -> (\(a, b) -> a * 5 + b) <$> (program p =>= program q)
  Bracket n p -> Pipe.bracketP (?note (Opened n)) (\_ -> ?note (Closed n)) (\_ -> program p)
  Try p -> either (\(ErrorCall _) -> -2) id <$> Pipe.tryP (program p)
  Named p -> Pipe.named "named" (program p)
  where
    echo 0 = pure 1
    echo n = await >>= maybe (pure 2) (\a -> yield a *> echo (n - 1 :: Int))

program1 :: Logged => Program -> Int -> Pipe Int Int Int
program1 p n = yield n *> ((+ n) <$> program p)

inputs :: [Int]
inputs = [1000 .. 1011]

-- | What happens, and the result; 'Nothing' if it fails.
trace :: (Logged => Pipe Int Int r) -> IO ([Event], Maybe r)
trace p = do
  events <- newIORef []
  let ?note = \e -> modifyIORef' events (e :)
  let source = mapM_ (\n -> liftIO (?note (Pulled n)) *> yield n) inputs
  r <- try (Pipe.runInto (?note . Gave) (source .| p))
  happened <- reverse <$> readIORef events
  pure (happened, either (\e -> const Nothing (e :: SomeException)) Just r)

-- The model ------------------------------------------------------------------

-- | One step after the other.
data Model r
  = Done r
  | Failed
  | Awaits (Maybe Int -> Model r)
  | Yields Int (Model r)
  | Does Event (Model r)

bind :: Model a -> (a -> Model b) -> Model b
bind m f = case m of
  Done a -> f a
  Failed -> Failed
  Awaits k -> Awaits (\a -> bind (k a) f)
  Yields n k -> Yields n (bind k f)
  Does e k -> Does e (bind k f)

model :: Program -> Model Int
model = \case
  Give n -> Yields n (Done n)
  Ask -> Awaits (Done . fromMaybe (-1))
  Act n -> Does (Acted n) (Done n)
  Fail -> Failed
  Echo n -> echo n
  EchoAll -> Awaits (maybe (Done 0) (\a -> Yields a (model EchoAll)))
  p :>> q -> model p `bind` \a -> model q `bind` \b -> Done (a * 3 + b)
  p :| q -> composed [] (model p) (model q)
  p :=> q -> drained (model p) (model q)
  Bracket n p -> Does (Opened n) (model p `bind` \a -> Does (Closed n) (Done a))
  Try p -> tried [] (model p)
  Named p -> model p
  where
    echo 0 = Done 1
    echo n = Awaits (maybe (Done 2) (\a -> Yields a (echo (n - 1 :: Int))))

-- | What is open on the left, last opened first.
composed :: [Int] -> Model Int -> Model Int -> Model Int
composed open left = \case
  Done r -> closing open (Done r)
  Failed -> Failed
  Yields n k -> Yields n (composed open left k)
  Does e k -> Does e (composed open left k)
  Awaits k -> upstream open left k
  where
    upstream o l k = case l of
      Done _ -> composed o l (k Nothing)
      Failed -> Failed
      Awaits f -> Awaits (\a -> upstream o (f a) k)
      Yields n l' -> composed o l' (k (Just n))
      Does e l' -> Does e (upstream (track e o) l' k)

drained :: Model Int -> Model Int -> Model Int
drained left = \case
  Done r -> finish r left
  Failed -> Failed
  Yields n k -> Yields n (drained left k)
  Does e k -> Does e (drained left k)
  Awaits k -> upstream left k
  where
    finish r l = case l of
      Done x -> Done (x * 5 + r)
      Failed -> Failed
      Awaits f -> Awaits (finish r . f)
      Yields _ l' -> finish r l'
      Does e l' -> Does e (finish r l')
    upstream l k = case l of
      Done _ -> drained l (k Nothing)
      Failed -> Failed
      Awaits f -> Awaits (\a -> upstream (f a) k)
      Yields n l' -> drained l' (k (Just n))
      Does e l' -> Does e (upstream l' k)

tried :: [Int] -> Model Int -> Model Int
tried open = \case
  Done r -> Done r
  Failed -> closing open (Done (-2))
  Awaits k -> Awaits (tried open . k)
  Yields n k -> Yields n (tried open k)
  Does e k -> Does e (tried (track e open) k)

track :: Event -> [Int] -> [Int]
track = \case
  Opened n -> (n :)
  Closed n -> delete n
  _ -> id

closing :: [Int] -> Model r -> Model r
closing open k = foldr (Does . Closed) k open

traceModel :: Model r -> ([Event], Maybe r)
traceModel = go [] inputs
  where
    go open input = \case
      Done r -> ([], Just r)
      Failed -> (map Closed open, Nothing)
      Yields n k -> Gave n `before` go open input k
      Does e k -> e `before` go (track e open) input k
      Awaits k -> case input of
        [] -> go open [] (k Nothing)
        n : rest -> Pulled n `before` go open rest (k (Just n))
    before e (es, r) = (e : es, r)

-- | Give every bracket a number, by which the model knows which one is closed.
numbered :: Program -> Program
numbered = fst . go 0
  where
    go :: Int -> Program -> (Program, Int)
    go n = \case
      p :>> q -> two n (:>>) p q
      p :| q -> two n (:|) p q
      p :=> q -> two n (:=>) p q
      Bracket _ p -> let (p', n') = go (n + 1) p in (Bracket n p', n')
      Try p -> let (p', n') = go n p in (Try p', n')
      Named p -> let (p', n') = go n p in (Named p', n')
      leaf -> (leaf, n)
    two n f p q = let (p', n') = go n p; (q', n'') = go n' q in (f p' q', n'')

prop_model :: Program -> Property
prop_model drawn = monadicIO $ do
  let p = numbered drawn
  happened <- Q.run (trace (program p))
  let expected = traceModel (model p)
  monitor (counterexample (show p ++ "\n" ++ show happened ++ "\nbut expected\n" ++ show expected))
  assert (happened == expected)

-- | Both do the same in the same order.
law :: (Arbitrary a, Show a, Eq r) => String -> (Logged => a -> (Pipe Int Int r, Pipe Int Int r)) -> TestTree
law name sides = testProperty name $ \a -> monadicIO $ do
  left <- Q.run (trace (fst (sides a)))
  right <- Q.run (trace (snd (sides a)))
  monitor (counterexample (show (fst left) ++ "\n" ++ show (fst right)))
  assert (left == right)

-- | The same values and, unless one fails, the same events: how compositions that drain nest
-- says whether the left one is drained before or after the others go on.
lawOnce :: (Arbitrary a, Show a, Eq r) => String -> (Logged => a -> (Pipe Int Int r, Pipe Int Int r)) -> TestTree
lawOnce name sides = testProperty name $ \a -> monadicIO $ do
  (left, r) <- Q.run (trace (fst (sides a)))
  (right, r') <- Q.run (trace (snd (sides a)))
  monitor (counterexample (show left ++ "\n" ++ show right))
  assert (r == r')
  assert (isNothing r || sort left == sort right && filter isGiven left == filter isGiven right)
  where
    isGiven = \case
      Gave _ -> True
      _ -> False

-- | The same, except when resources are released: on the left of a composition, that is when
-- its right side ends, so it depends on how compositions nest.
lawUnordered :: (Arbitrary a, Show a, Eq r) => String -> (Logged => a -> (Pipe Int Int r, Pipe Int Int r)) -> TestTree
lawUnordered name sides = testProperty name $ \a -> monadicIO $ do
  (left, r) <- Q.run (trace (fst (sides a)))
  (right, r') <- Q.run (trace (snd (sides a)))
  monitor (counterexample (show left ++ "\n" ++ show right))
  assert (r == r' && filter (not . isClosed) left == filter (not . isClosed) right)
  assert (sort (filter isClosed left) == sort (filter isClosed right))
  where
    isClosed = \case
      Closed _ -> True
      _ -> False
