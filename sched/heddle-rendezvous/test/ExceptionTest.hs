{-# LANGUAGE RankNTypes #-}

-- | Exceptions: the leftmost real cause, the poison of those who depended on it, and what is
-- refused before anything runs.
module ExceptionTest (tests) where

import Control.Exception (ArithException (..), AsyncException (..), ErrorCall (..), Exception, SomeException, displayException, evaluate, fromException, throw, throwIO, toException, try)
import Control.Monad (forM_, replicateM_, void)
import Data.Foldable (sequenceA_, traverse_)
import Data.IORef (newIORef, readIORef)
import Heddle.Prim.Exception (describeException)
import Heddle.Rendezvous
import Support
import System.Exit (ExitCode (..), exitWith)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "exceptions"
    [ testGroup
        "causes"
        [ testCase "the leftmost, whichever comes first" (ends (Left "main/par[1]: Boom 1") leftmostCause),
          testCase "poison is nobody's cause" (ends (Left "main/par[2]: Boom 1") notPoison),
          testCase "unless there is nothing else" (ends (Left ("main/par#2[0]: " ++ poison "c")) onlyPoison),
          testCase "of main itself" (ends (Left "main: Boom 1") (throwDet (Boom 1) :: Det s ())),
          testCase "the whole path" (ends (Left "main/par#2[1]/par[0]/par#3[2]: Boom 1") deep),
          testCase "whoever throws again is named" (ends (Left "main: Boom 2") again),
          testCase "the end of a channel, not caught" (ends (Left ("main/par[1]: " ++ endOf "c")) endNotCaught),
          testCase "all branches end first" allEnd
        ],
      testGroup
        "of any type"
        [ testCase "anAsynchronousTypeFromPureCodeHadTwoOutcomes" asynchronousType,
          testCase "tryDetDidNotCatchAnEffectsOwnExit" exitCaught,
          testCase "anExitInAnEffectCameOutAsUncaught" exits,
          testCase "the leftmost, if one of them is an exit" leftmostExit
        ],
      testGroup
        "catching"
        [ testCase "in the branch: nobody notices" (ends (Right ('x', Left (Boom 1))) caughtInside),
          testCase "around par" (ends (Right (Left (Boom 2))) (tryBoom (par (branch () (\() -> busy 20) *> branch () (\() -> throwDet (Boom 2) :: Det t ()))))),
          testCase "another type goes on" (ends (Left "main/par[0]: Boom 1") otherType),
          testCase "inside each other" (ends (Right [1, 2]) insideEachOther),
          testCase "peers are poisoned, and may catch it" (ends (Right (Left (Boom 1), [Left (Poisoned "c"), Left (Poisoned "c")])) peers),
          testCase "peers far away are not" (ends (Right (Left (Boom 1), 3)) farAway),
          testCase "poison spreads until it is caught" (ends (Right (Left (Boom 1), Left (Poisoned "b"))) spreads),
          testCase "poison is for good" (ends (Right (Left (Boom 1), (Left (Poisoned "c"), Left (Poisoned "c")))) forGood),
          testCase "the end of a channel is no poison" (ends (Right (Left (WriterEnded "c"), 5)) endCaught),
          testCase "everybody who shares the writer's par hears of its end" (ends (Right ["ended", "5"]) endOfInner),
          testCase "of effects" effects
        ],
      testGroup
        "crashes"
        [ testCase "with the whole path" (ends (Left "main/par[1]/par[0]: no") (crashDeep (pure ()))),
          testCase "are not caught" (ends (Left "main/par[1]/par[0]: no") (caughtAll (crashDeep (pure ())))),
          testCase "nor in the branch" (ends (Left "main/par[0]: no") (par (branch () (\() -> caughtAll (errorWithoutStackTrace "no"))))),
          testCase "in main" (ends (Left "main: no") (caughtAll (errorWithoutStackTrace "no"))),
          testCase "keep their type" keepType,
          testCase "an exception that is an error itself" (ends (Left "main/par[1]: no 1") (par (traverse_ errorThrown [0 .. 4]))),
          testCase "a stack overflow, on whatever worker" overflow,
          testCase "poison like others" (ends (Left "main/par[1]: no") crashPoisons),
          testCase "the leftmost failure counts, whatever it is" (ends (Left "main/par[0]: Boom 1") besideCrash),
          testCase "a value to send is evaluated by the sender" (ends (Left "main/par[0]: no") sendCrash),
          testCase "even if nobody would ever get it" (ends (Left "main/par[0]/par[1]: no") sendCrashPoisoned),
          testCase "results are lazy" (ends (Right 1) lazyResults)
        ],
      testGroup
        "refused"
        [ testCase "two writers" twoWriters,
          testCase "two writers, granted on" (ends (Left ("main/par[0]: " ++ two "main/par[0]/par[0] and main/par[0]/par[2]")) twoInner),
          testCase "three writers" (ends (Left ("main: " ++ two "main/par[0] and main/par[1] and main/par[2]")) threeWriters),
          testCase "two channels of one name" (ends (Left "main: channel \"x\": its writer's end was granted to main/par[0] and main/par[1]; a channel has one writer. Give each writer a channel of its own.") oneName),
          testCase "caught, and granted rightly" (ends (Right (Left (DuplicateWriter "c" ["main/par[0]", "main/par[1]"]), 8)) refusedAndAgain),
          testCase "twice to the same branch is once" (ends (Right 3) sameTwice),
          testCase "two worlds" twoWorlds
        ],
      testGroup
        "the root"
        [ testCase "RendezvousException catches each of the package's exceptions" everyChild,
          testCase "tryDet catches by the root" (ends (Right (Left (endOf "c"))) caughtByRoot),
          testCase "the root catches no exception of a program" (ends (Left "main: Boom 1") (byRoot (throwDet (Boom 1) :: Det s ())))
        ]
    ]
  where
    poison c = displayException (Poisoned c)
    endOf c = displayException (WriterEnded c)
    two who = "channel \"c\": its writer's end was granted to " ++ who ++ "; a channel has one writer. Give each writer a channel of its own."

ends :: (Eq a, Show a) => Either String a -> (forall s. Det s a) -> IO ()
ends = everySchedule

tryBoom :: Det s a -> Det s (Either Boom a)
tryBoom = tryDet

tryPoison :: Det s a -> Det s (Either Poisoned a)
tryPoison = tryDet

-- * Causes

leftmostCause :: Det s ()
leftmostCause =
  par . sequenceA_ $
    [ branch () pure,
      branch () (\() -> busy 100 >> throwDet (Boom 1)),
      branch () (\() -> throwDet (Boom 2))
    ]

notPoison :: Det s ()
notPoison = do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (inp c) recv,
      branch (out c, inp d) (\(o, i) -> recv i >>= send o),
      branch (out d) (\_ -> busy 20 >> throwDet (Boom 1))
    ]

onlyPoison :: Det s ()
onlyPoison = do
  c <- newChan "c"
  _ <- tryBoom (par (branch (out c) (\_ -> throwDet (Boom 1)) *> branch (inp c) recv))
  par (branch (out c) (`send` ()) *> branch (inp c) recv)

deep :: Det s ()
deep = do
  nothing
  par (branch () pure *> branch () (\() -> par (branch () (\() -> nothing >> nothing >> par (branch () pure *> branch () pure *> branch () (\() -> throwDet (Boom 1)))))))
  where
    nothing :: Det t ()
    nothing = par (branch () pure)

again :: Det s ()
again =
  tryDet (par (branch () (\() -> throwDet (Boom 1)))) >>= \case
    Left (Boom n) -> throwDet (Boom (n + 1))
    Right () -> pure ()

endNotCaught :: Det s ()
endNotCaught = do
  c <- newChan "c"
  par (branch (out c) (`send` ()) *> branch (inp c) (replicateM_ 2 . recv))

-- | What has nothing to do with the thrower is done, and heard of elsewhere.
allEnd :: IO ()
allEnd = everyRun $ \run -> do
  did <- newIORef []
  got <- outcome $
    run $ \w -> do
      c <- newChan "c"
      par . sequenceA_ $
        [ branch () (\() -> throwDet (Boom 1)),
          branch (inp c) (replicateM_ 3 . recv),
          branch (out c, w) (\(o, w') -> forM_ [1 .. 3 :: Int] $ \k -> busy 10 >> io w' (pure ()) >> tell did k >> send o ())
        ]
  got @?= Left "main/par[0]: Boom 1"
  readIORef did >>= (@?= [3, 2, 1])

-- * Of any type

asynchronousTypes :: [SomeException]
asynchronousTypes = map toException [UserInterrupt, ThreadKilled, StackOverflow, HeapOverflow]

asynchronousType :: IO ()
asynchronousType = forM_ asynchronousTypes $ \e -> do
  let thrower :: Int -> Det s ()
      thrower n = busy n >>= \() -> if n >= 0 then throw e else pure ()
      want = Left ("main/par[1]: " ++ describeException e)
  ends want (par (branch () (\() -> busy 20) *> branch () (\() -> thrower 5) *> branch () (\() -> throwDet (Boom 1) :: Det t ())))
  replicateM_ 300 (outcome (evaluate (runDet (par (branch () (\() -> busy 20) *> branch () (\() -> thrower 5))))) >>= (@?= want))

exitCaught :: IO ()
exitCaught = forM_ (toException (ExitFailure 3) : asynchronousTypes) $ \e -> everyRun $ \run -> do
  got <- run $ \w -> par (branch () (\() -> busy 20) *> branch w (\w' -> tryDet (io w' (throwIO e))))
  either (\e' -> show (e' :: SomeException)) (\() -> "nothing") got @?= show e

exits :: IO ()
exits = everyRun $ \run -> do
  got <- try (run (\w -> par (branch () (\() -> busy 20) *> branch w (\w' -> io w' (exitWith (ExitFailure 3) :: IO ())))))
  got @?= Left (ExitFailure 3)

leftmostExit :: IO ()
leftmostExit = everyRun $ \run -> do
  left <- outcome (run (\w -> par (branch () (\() -> busy 20 >> throwDet (Boom 1)) *> branch w (\w' -> io w' (exitWith (ExitFailure 3) :: IO ())))))
  left @?= Left "main/par[0]: Boom 1"
  right <- try (run (\w -> par (branch w (\w' -> io w' (exitWith (ExitFailure 3) :: IO ())) *> branch () (\() -> throwDet (Boom 1) :: Det t ()))))
  right @?= Left (ExitFailure 3)

-- * Catching

caughtInside :: Det s (Char, Either Boom ())
caughtInside = do
  c <- newChan "c"
  par ((,) <$> branch (inp c) recv <*> branch (out c) (\o -> tryDet (throwDet (Boom 1)) <* send o 'x'))

otherType :: Det s (Either WriterEnded ())
otherType = tryDet (par (branch () (\() -> throwDet (Boom 1))))

insideEachOther :: Det s [Int]
insideEachOther = do
  r <- tryDet $ do
    q <- tryDet (throwDet (Boom 1) :: Det s (Either WriterEnded ()))
    case q of
      Left (Boom n) -> throwDet (DuplicateWorld [show n])
      Right _ -> pure 0
  case r of
    Left (DuplicateWorld [n]) -> do
      s <- tryBoom (tryDet (throwDet (Boom 2)) :: Det s (Either WriterEnded Int))
      pure [read n, either (\(Boom k) -> k) (const 0) s]
    _ -> pure [r' | Right r' <- [r]]

-- | The thrower's parent, who was granted the writer's end, catches it and goes on.
peers :: Det s (Either Boom (), [Either Poisoned ()])
peers = do
  c <- newChan "c"
  par
    ( (,)
        <$> branch (out c) (\o -> tryBoom (par (branch o (\o' -> send o' () >> busy 20 >> throwDet (Boom 1)))))
        <*> sequenceA [branch (inp c) (\i -> recv i >> tryDet (recv i)), branch (inp c) (\i -> recv i >> tryDet (recv i))]
    )

farAway :: Det s (Either Boom (), Int)
farAway = do
  c <- newChan "c"
  d <- newChan "d"
  par
    ( (,)
        <$> branch (out c) (\o -> tryBoom (par (branch o (\_ -> throwDet (Boom 1)))))
        <*> (branch (inp d) recv <* branch (inp c, out d) (\(i, o) -> tryDet (recv i) >>= either (\(Poisoned _) -> send o 3) pure))
    )

-- | Who does not catch it passes it on.
spreads :: Det s (Either Boom (), Either Poisoned ())
spreads = do
  a <- newChan "a"
  b <- newChan "b"
  par
    ( (,)
        <$> branch
          (out a, inp a, out b)
          ( \(oa, ia, ob) ->
              tryBoom . par $
                branch oa (\_ -> throwDet (Boom 1))
                  *> branch (ia, ob) (\(i, o) -> recv i >>= send o)
          )
        <*> branch (inp b) (tryDet . recv)
    )

forGood :: Det s (Either Boom (), (Either Poisoned (), Either Poisoned ()))
forGood = do
  c <- newChan "c"
  first <- tryBoom (par (branch (out c) (\_ -> throwDet (Boom 1)) *> branch (inp c) recv))
  second <- par ((,) <$> branch (out c) (\o -> tryDet (send o ())) <*> branch (inp c) (tryDet . recv))
  pure (first, second)

endCaught :: Det s (Either WriterEnded Int, Int)
endCaught = do
  c <- newChan "c"
  first <- par (branch (out c) (\_ -> pure ()) *> branch (inp c) (tryDet . recv))
  second <- par (branch (out c) (`send` 5) *> branch (inp c) recv)
  pure (first, second)

-- | The inner writer has ended, but the outer branch has the end again afterwards.
endOfInner :: Det s [String]
endOfInner = do
  c <- newChan "c"
  par . sequenceA $
    [ branch
        (out c, inp c)
        ( \(o, i) -> do
            r <- par (branch o (\_ -> pure ()) *> branch i (fmap (either (\(WriterEnded _) -> "ended") show) . tryDet . recv))
            send o (5 :: Int)
            pure r
        ),
      branch (inp c) (fmap show . recv)
    ]

effects :: IO ()
effects = everyRun $ \run -> do
  got <- run $ \w -> par $
    branch w $ \w' -> do
      a <- tryDet (io w' (throwIO (Boom 1)))
      b <- tryDet (io w' (evaluate (1 `div` (0 :: Int))))
      c <- tryDet (io w' (evaluate (error "no")))
      pure (a :: Either Boom (), b, either (\(ErrorCall m) -> m) id c)
  got @?= (Left (Boom 1), Left DivideByZero, "no")
  other <- outcome (run (\w -> par (branch () pure *> branch w (\w' -> io w' (throwIO (Boom 1) :: IO ())))))
  other @?= Left "main/par[1]: Boom 1"

-- * Crashes

crashDeep :: Det s () -> Det s ()
crashDeep before = before >> par (branch () pure *> branch () (\() -> par (branch () (\() -> busy 5 >>= \() -> errorWithoutStackTrace "no"))))

caughtAll :: Det s () -> Det s ()
caughtAll m = either (\e -> const () (e :: SomeException)) id <$> tryDet m

keepType :: IO ()
keepType = do
  got <- try (evaluate (runDet (par (branch () (\() -> pure $! 1 `div` (0 :: Int))))))
  case got of
    Left (Uncaught path e) -> do
      path @?= "main/par[0]"
      fromException e @?= Just DivideByZero
    Right x -> assertFailure (show x)

-- | The leftmost, not the first whose exception was looked at.
errorThrown :: Int -> Branches s ()
errorThrown n = branch () (\() -> if n == 0 then pure () else throwDet (errorWithoutStackTrace ("no " ++ show n) :: SomeException))

-- | It was taken for something from outside when the caller's thread ran the branch.
overflow :: IO ()
overflow = ends (Left "main/par[4]: stack overflow") (par (traverse_ (\n -> branch () (\() -> busy 5 >>= \() -> pure $! one n)) [0 .. 4]))
  where
    one :: Int -> ()
    one n = if n == 4 then throw StackOverflow else ()

crashPoisons :: Det s ()
crashPoisons = do
  c <- newChan "c"
  par (branch (inp c) recv *> branch (out c) (\o -> busy 20 >>= \() -> errorWithoutStackTrace "no" >> send o ()))

besideCrash :: Det s ()
besideCrash = par (branch () (\() -> busy 20 >> throwDet (Boom 1)) *> branch () (\() -> errorWithoutStackTrace "no"))

sendCrash :: Det s Int
sendCrash = do
  c <- newChan "c"
  par (branch (out c) (\o -> caughtAll (send o (errorWithoutStackTrace "no"))) *> branch (inp c) recv)

-- | Whether the poison comes before or after must not matter.
sendCrashPoisoned :: Det s (Either Boom ())
sendCrashPoisoned = do
  c <- newChan "c"
  par $
    branch (inp c, out c) $ \(i, o) ->
      tryBoom . par $
        branch () pure
          *> branch o (\o' -> void (tryPoison (send o' (errorWithoutStackTrace "no" :: Int))))
          *> branch i (\_ -> throwDet (Boom 1))

lazyResults :: Det s Int
lazyResults = fst <$> par ((,) <$> branch () (\() -> pure 1) <*> branch () (\() -> pure (errorWithoutStackTrace "no" :: Int)))

-- * Refused

twoWriters :: IO ()
twoWriters = everyRun $ \run -> do
  did <- newIORef []
  got <- try $
    run $ \w -> do
      c <- newChan "c"
      par . sequenceA_ $
        [ branch w (\w' -> io w' (pure ()) >> tell did 'a'),
          branch (out c) (\_ -> tell did 'b'),
          branch () (\() -> tell did 'c'),
          branch ((), out c) (\((), o) -> tell did 'd' >> send o ())
        ]
  case got of
    Left (Uncaught "main" e) -> fromException e @?= Just (DuplicateWriter "c" ["main/par[1]", "main/par[3]"])
    other -> assertFailure (show other)
  readIORef did >>= (@?= "")

oneName :: Det s ()
oneName = do
  a <- newChan "x"
  b <- newChan "x"
  par (traverse_ (\c -> branch (out c) (`send` 'x')) [a, a, b, b])

twoInner :: Det s ()
twoInner = do
  c <- newChan "c"
  par (branch (out c) (\o -> par (branch o (`send` ()) *> branch () pure *> branch [o] (mapM_ (`send` ())))))

threeWriters :: Det s ()
threeWriters = do
  c <- newChan "c"
  par (replicateM_ 3 (branch (out c) (`send` ())))

refusedAndAgain :: Det s (Either DuplicateWriter (), Int)
refusedAndAgain = do
  c <- newChan "c"
  r <- tryDet (par (branch (out c) (`send` 1) *> branch (out c, inp c) (\(o, _) -> send o 2)))
  x <- par (branch (out c) (`send` 8) *> branch (inp c) recv)
  pure (r, x)

sameTwice :: Det s Int
sameTwice = do
  c <- newChan "c"
  par (branch (out c, out c) (\(o, p) -> send o 1 >> send p 2) *> branch (inp c, inp c) (\(i, j) -> (+) <$> recv i <*> recv j))

twoWorlds :: IO ()
twoWorlds = everyRun $ \run -> do
  did <- newIORef []
  got <- outcome $
    run $ \w -> do
      r <- tryDet . par . sequenceA_ $ [branch w (\w' -> io w' (pure ()) >> tell did 'a'), branch () (\() -> tell did 'b'), branch [w] (mapM_ (`io` pure ()))]
      -- It is still the parent's.
      io w (pure ())
      pure (r :: Either DuplicateWorld ())
  got @?= Right (Left (DuplicateWorld ["main/par[0]", "main/par[2]"]))
  readIORef did >>= (@?= "")

-- * The root

-- | Each is caught by the root and by its own type, and says the same either way.
everyChild :: IO ()
everyChild = do
  child (Poisoned "c")
  child (WriterEnded "c")
  child (DuplicateWriter "c" ["main/par[0]", "main/par[1]"])
  child (DuplicateWorld ["main/par[0]", "main/par[1]"])
  child (BlockedInIO "main")
  child (Uncaught "main" (toException (Boom 1)))
  child (Deadlock [Wait "main/par[0]" Sending "c" ["main/par[1]"]] [])
  where
    child :: Exception e => e -> IO ()
    child e = do
      root <- try (throwIO e)
      either (\r -> displayException (r :: RendezvousException)) (\() -> "nothing") root @?= displayException e
      own <- try (throwIO e)
      either (\o -> displayException (o `asTypeOf` e)) (\() -> "nothing") own @?= displayException e
      describeException (toException e) @?= displayException e

byRoot :: Det s a -> Det s (Either String a)
byRoot m = either (\e -> Left (displayException (e :: RendezvousException))) Right <$> tryDet m

caughtByRoot :: Det s (Either String Int)
caughtByRoot = do
  c <- newChan "c"
  par (branch (out c) (\_ -> pure ()) *> branch (inp c) (byRoot . recv))
