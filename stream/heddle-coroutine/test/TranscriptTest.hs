-- | The sessions of the article, word for word; and those of its claims that no session
-- shows.
module TranscriptTest (tests) where

import Control.Exception (SomeException (..), displayException, try)
import Control.Monad.Trans.Class (lift)
import Control.Monad.Trans.Reader (ReaderT (..))
import Data.Bifunctor (first, second)
import Data.IORef (IORef, modifyIORef, newIORef, readIORef)
import Data.Maybe (listToMaybe)
import Heddle.Coroutine
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, testCase, (@?=))

-- | A terminal.
type Term = ReaderT (IORef String) IO

say :: String -> Term ()
say s = ReaderT (\out -> foldr seq (modifyIORef out (++ s)) s)

sayLine :: String -> Term ()
sayLine s = say (s ++ "\n")

-- | What GHCi would print.
session :: Show a => Term a -> [String] -> Assertion
session body want = do
  out <- newIORef ""
  result <- try (runReaderT (body >>= \a -> a `seq` sayLine (show a)) out)
  printed <- readIORef out
  let ended = either (\(SomeException e) -> "*** Exception: " ++ displayException e ++ "\n") (const "") result
  lines (printed ++ ended) @?= want

-- | The same for a result that GHCi does not print.
silent :: Term () -> [String] -> Assertion
silent body want = session (Silent <$> body) (want ++ [""])

newtype Silent = Silent ()

instance Show Silent where
  show _ = ""

tests :: TestTree
tests =
  testGroup
    "the article's sessions"
    [ testGroup
        "trampolines (Listing 6)"
        [ testCase "run hello" (silent (run hello) ["Hello, World!"]),
          testCase "bounce, then run" (silent bouncing ["Hello, Wonderful World!"]),
          testCase "interleave" (session (run (interleave [hello, hello, hello])) ["Hello, Hello, Hello, World!", "World!", "World!", "[(),(),()]"])
        ],
      testCase "generators (Listing 7)" (session (runGenerator gen) ["Yielding one, then two, returning three: ([1,2],3)"]),
      testGroup
        "iteratees (Listing 8)"
        [ testCase "two numbers" (silent (runIteratee [4, 5] iter) ["Enter two numbers: sum is 9"]),
          testCase "too few" (session (runIteratee [4] iter) ["Enter two numbers: *** Exception: No more values to feed."]),
          testCase "too few, and nobody looks" (session (runIteratee [] (length <$> sequence [await, await :: Iteratee Int Term Int])) ["2"])
        ],
      testGroup
        "pairs (Listing 11)"
        [ testCase "pipe1" (session (pipe1 gen iter) ["Yielding one, Enter two numbers: then two, returning three: sum is 3", "(3,())"]),
          testCase "pipe1, too few" (session (pipe1 (pure ()) iter) ["Enter two numbers: *** Exception: The producer ended too soon."]),
          testCase "pipe2, nothing" (session (pipe2 (pure ()) (iter2 0)) ["Enter a number: sum is 0", "((),())"]),
          testCase
            "pipe2, twice"
            ( session
                (pipe2 (gen >> gen) (iter2 0))
                [ "Yielding one, Enter a number: then two, Enter a number: returning three: Yielding one, "
                    ++ "Enter a number: then two, Enter a number: returning three: Enter a number: sum is 6",
                  "(3,())"
                ]
            )
        ],
      testGroup
        "transducers (Listing 13)"
        [ testCase
            "a generator"
            (session (runGenerator (toGenerator (fromGenerator gen =>= double))) ["Yielding one, then two, returning three: ([1,1,2,2],(3,()))"]),
          testCase
            "an iteratee"
            ( session
                (runIteratee [Just 3, Nothing] (toIteratee (double =>= fromIteratee (iter2 0))))
                ["Enter a number: Enter a number: Enter a number: sum is 6", "((),())"]
            ),
          -- The printed results have a parenthesis too many.
          testCase
            "a trampoline"
            ( session
                (run (toTrampoline (fromGenerator (yield 3) =>= double =>= fromIteratee (iter2 0))))
                ["Enter a number: Enter a number: Enter a number: sum is 6", "(((),()),())"]
            ),
          testCase
            "a longer one"
            ( session
                (run (toTrampoline (fromGenerator (yield 3) =>= double =>= double =>= fromIteratee (iter2 0))))
                ["Enter a number: Enter a number: Enter a number: Enter a number: Enter a number: sum is 12", "((((),()),()),())"]
            ),
          testCase "pipe3" (session (pipe3 (yield 3) double (iter2 0)) ["Enter a number: Enter a number: Enter a number: sum is 6", "((),(),())"])
        ],
      testGroup
        "other suspensions"
        [ testCase "requests" (session (runRequests (pure . length) asking) ["(3,5)"]),
          testCase "requests, as the composition of two functors" (session (runRequests (pure . length) (mapSuspension uncomposed askingComposed)) ["8"]),
          testCase "give or get" (session (giveOrGet [10, 20] takingTurns) ["([1,10,20],30)"]),
          testCase "a list is a choice" (session (runChoices pythagorean) ["[(3,4,5),(4,3,5)]"]),
          testCase "a rest resumed twice" (session resumedTwice ["(6,7)"]),
          testCase "symmetric coroutines under a scheduler" (session (scheduled [("a", member "b" 2), ("b", member "a" 3)] "a") ["b2a3b1a2b0a1", "[\"b\"]"])
        ],
      testGroup
        "splitters and joins (Listing 14)"
        [ testCase "even numbers to the left" (session (split [1 .. 7] evens) ["([2,4,6],[1,3,5,7])"]),
          testCase "one from each side in turn, until one ends" (session (joined [1, 3, 5] [2, 4] inTurn) ["[1,2,3,4,5]"])
        ],
      testGroup
        "where the listings are wrong"
        [ testCase "liftStateless ends with its input" (session (runGenerator (toGenerator (fromGenerator (mapM_ yield "ab") =>= liftStateless (\a -> [a, a])))) ["(\"aabb\",((),()))"]),
          testCase "who awaits from nothing gets Nothing" (session (runGenerator (toGenerator (awaitT >>= \a -> yieldT (maybe 'e' (const 'v') a)))) ["(\"e\",())"])
        ]
    ]

hello :: Trampoline Term ()
hello = do
  lift (say "Hello, ")
  pause
  lift (sayLine "World!")

bouncing :: Term ()
bouncing =
  bounce hello >>= \case
    Left continuation -> say "Wonderful " >> run continuation
    Right () -> say "It has ended."

gen :: Generator Int Term Int
gen = do
  lift (say "Yielding one, ")
  yield 1
  lift (say "then two, ")
  yield 2
  lift (say "returning three: ")
  pure 3

iter :: Iteratee Int Term ()
iter = do
  lift (say "Enter two numbers: ")
  a <- await
  b <- await
  lift (sayLine ("sum is " ++ show (a + b)))

iter2 :: Int -> Iteratee (Maybe Int) Term ()
iter2 s = lift (say "Enter a number: ") >> await >>= maybe (lift (sayLine ("sum is " ++ show s))) (\n -> iter2 (s + n))

double :: Transducer Int Int Term ()
double = liftStateless (\a -> [a, a])

asking :: Coroutine (Request String Int) Term (Int, Int)
asking = (,) <$> request "one" <*> request "three"

askingComposed :: Coroutine (Compose ((,) String) ((->) Int)) Term Int
askingComposed = do
  a <- suspend (Compose ("one", pure))
  b <- suspend (Compose ("three", pure))
  pure (a + b)

uncomposed :: Compose ((,) a) ((->) b) x -> Request a b x
uncomposed (Compose (a, f)) = Request a f

takingTurns :: Coroutine (InOrOut Int Int) Term Int
takingTurns = do
  suspend (LeftF (1, pure ()))
  a <- suspend (RightF pure)
  suspend (LeftF (a, pure ()))
  b <- suspend (RightF pure)
  suspend (LeftF (b, pure ()))
  pure (a + b)

giveOrGet :: [Int] -> Coroutine (InOrOut Int Int) Term r -> Term ([Int], r)
giveOrGet inputs c =
  resume c >>= \case
    Right r -> pure ([], r)
    Left (LeftF (a, next)) -> first (a :) <$> giveOrGet inputs next
    Left (RightF f) -> giveOrGet (drop 1 inputs) (f (head inputs))

pythagorean :: Coroutine [] Term (Int, Int, Int)
pythagorean = do
  a <- choose [1 .. 5]
  b <- choose [1 .. 5]
  c <- choose [1 .. 5]
  if a * a + b * b == c * c then pure (a, b, c) else choose []

resumedTwice :: Term (Int, Int)
resumedTwice =
  resume ((+) <$> await <*> await) >>= \case
    Left f -> (,) <$> runIteratee [4] (f 2) <*> runIteratee [4] (f 3)
    Right n -> pure (n, n)

-- | It prints who is next and how often it will go on, then switches.
member :: String -> Int -> Coroutine ((,) String) Term ()
member other n = do
  lift (say (other ++ show n))
  if n == 0 then pure () else yield other >> member other (n - 1)

-- | Coroutines that name who is to go on; the names of those that have not ended.
scheduled :: [(String, Coroutine ((,) String) Term ())] -> String -> Term [String]
scheduled them name = case lookup name them of
  Nothing -> sayLine "" >> pure (map fst them)
  Just c ->
    resume c >>= \case
      Left (other, next) -> scheduled ((name, next) : others) other
      Right () -> case others of
        (other, _) : _ -> finish other others
        [] -> sayLine "" >> pure []
  where
    others = filter ((/= name) . fst) them
    finish other rest = case lookup other rest of
      Just c -> resume c >> sayLine "" >> pure (map fst rest)
      Nothing -> pure []

evens :: Splitter Int Term ()
evens = awaitT >>= mapM_ (\a -> (if even a then yieldLeft a else yieldRight a) >> evens)

split :: [Int] -> Splitter Int Term () -> Term ([Int], [Int])
split as s =
  resume s >>= \case
    Right () -> pure ([], [])
    Left (LeftF f) -> case as of
      a : rest -> split rest (f (Just a))
      [] -> split [] (f Nothing)
    Left (RightF (LeftF (Item a next))) -> first (a :) <$> split as next
    Left (RightF (RightF (Item a next))) -> second (a :) <$> split as next
    Left (RightF (LeftF (Edge next))) -> split as next
    Left (RightF (RightF (Edge next))) -> split as next

inTurn :: Join Int Term ()
inTurn =
  awaitLeft >>= mapM_ (\a -> yieldT a >> awaitRight >>= mapM_ (\b -> yieldT b >> inTurn))

joined :: [Int] -> [Int] -> Join Int Term () -> Term [Int]
joined as bs j =
  resume j >>= \case
    Right () -> pure []
    Left (LeftF (LeftF f)) -> joined (drop 1 as) bs (f (listToMaybe as))
    Left (LeftF (RightF f)) -> joined as (drop 1 bs) (f (listToMaybe bs))
    Left (RightF (a, next)) -> (a :) <$> joined as bs next
