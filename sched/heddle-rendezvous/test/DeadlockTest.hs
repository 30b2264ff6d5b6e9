{-# LANGUAGE RankNTypes #-}

-- | Deadlocks: the report's text, always the same; and what only looks like one.
module DeadlockTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, readMVar, takeMVar, yield)
import Control.Concurrent.STM (atomically, check, newTVarIO, readTVar)
import Control.Exception (SomeException, displayException, evaluate, try)
import Control.Monad (replicateM, replicateM_, void)
import Data.Foldable (sequenceA_)
import Data.List (intercalate, nub)
import Heddle.Prim.Clock (deadlineIn, monotonicNow, seconds)
import Heddle.Rendezvous
import Support
import System.Mem (performGC, performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "deadlocks"
    [ testGroup
        "reports"
        [ testCase
            "crossed sends"
            ( reports
                crossed
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] sends to \"a\", waits for main/par[1]",
                  "  main/par[1] sends to \"b\", waits for main/par[0]",
                  "  circle: main/par[0] -> main/par[1] -> main/par[0]",
                  "  suggestion: let these branches use \"a\", \"b\" in one order"
                ]
            ),
          testCase
            "missing sender"
            ( reports
                missingSender
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"c\", waits for main (which waits for it)",
                  "  circle: main/par[0] -> main -> main/par[0]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "missing sender, kept by a branch"
            ( reports
                keptByBranch
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0]/par[1] receives from \"c\", waits for main/par[0] (which waits for it)",
                  "  main/par[1] receives from \"c\", waits for main/par[0]",
                  "  circle: main/par[0]/par[1] -> main/par[0] -> main/par[0]/par[1]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main/par[0] kept it"
                ]
            ),
          testCase
            "missing sender, two readers"
            ( reports
                twoReaders
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"c\", waits for main (which waits for it)",
                  "  main/par[1] receives from \"c\", waits for main (which waits for it)",
                  "  circle: main/par[0] -> main -> main/par[0]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "self-wait"
            ( reports
                selfWait
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"c\", waits for itself",
                  "  circle: main/par[0] -> main/par[0]",
                  "  suggestion: main/par[0] holds the writer's end of \"c\" itself; grant that to another branch, or send there"
                ]
            ),
          testCase
            "self-wait with a reader"
            ( reports
                selfWaitWithReader
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"c\", waits for main/par[1]",
                  "  main/par[1] receives from \"c\", waits for itself",
                  "  circle: main/par[1] -> main/par[1]",
                  "  suggestion: main/par[1] holds the writer's end of \"c\" itself; grant that to another branch, or send there"
                ]
            ),
          testCase
            "a ring of 3"
            ( reports
                (ring 3)
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"from 2\", waits for main/par[2]",
                  "  main/par[1] receives from \"from 0\", waits for main/par[0]",
                  "  main/par[2] receives from \"from 1\", waits for main/par[1]",
                  "  circle: main/par[0] -> main/par[2] -> main/par[1] -> main/par[0]",
                  "  suggestion: let these branches use \"from 2\", \"from 0\", \"from 1\" in one order"
                ]
            ),
          testCase
            "a ring of 5"
            ( reports
                (ring 5)
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"from 4\", waits for main/par[4]",
                  "  main/par[1] receives from \"from 0\", waits for main/par[0]",
                  "  main/par[2] receives from \"from 1\", waits for main/par[1]",
                  "  main/par[3] receives from \"from 2\", waits for main/par[2]",
                  "  main/par[4] receives from \"from 3\", waits for main/par[3]",
                  "  circle: main/par[0] -> main/par[4] -> main/par[3] -> main/par[2] -> main/par[1] -> main/par[0]",
                  "  suggestion: let these branches use \"from 4\", \"from 0\", \"from 1\", \"from 2\", \"from 3\" in one order"
                ]
            ),
          testCase
            "dead reader"
            ( reports
                deadReader
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] sends to \"c\", waits for main/par[2]",
                  "  main/par[1] receives from \"c\", waits for main/par[2]",
                  "  main/par[2] receives from \"d\", waits for main/par[0]",
                  "  circle: main/par[0] -> main/par[2] -> main/par[0]",
                  "  suggestion: let these branches use \"c\", \"d\" in one order"
                ]
            ),
          testCase
            "dead reader, whose own sender is missing"
            ( reports
                deadReaderAlone
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] sends to \"c\", waits for main/par[1]",
                  "  main/par[1] receives from \"d\", waits for main (which waits for it)",
                  "  circle: main/par[1] -> main -> main/par[1]",
                  "  suggestion: grant the writer's end of \"d\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "nested: round a parent"
            ( reports
                nested
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0]/par[0] receives from \"d\", waits for main/par[1]",
                  "  main/par[1] receives from \"c\", waits for main/par[0]",
                  "  circle: main/par[0]/par[0] -> main/par[1] -> main/par[0] -> main/par[0]/par[0]",
                  "  suggestion: let these branches use \"d\", \"c\" in one order"
                ]
            ),
          testCase
            "nested: between branches of two pars"
            ( reports
                cousins
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0]/par[0] receives from \"d\", waits for main/par[1]/par[1]",
                  "  main/par[1]/par[1] receives from \"c\", waits for main/par[0]/par[0]",
                  "  circle: main/par[0]/par[0] -> main/par[1]/par[1] -> main/par[0]/par[0]",
                  "  suggestion: let these branches use \"d\", \"c\" in one order"
                ]
            ),
          testCase
            "two circles"
            ( reports
                twoRings
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0]/par[0] receives from \"c\", waits for main/par[0] (which waits for it)",
                  "  main/par[1]/par[0] receives from \"from 1\", waits for main/par[1]/par[1]",
                  "  main/par[1]/par[1] receives from \"from 0\", waits for main/par[1]/par[0]",
                  "  main/par[2]/par[0] receives from \"from 1\", waits for main/par[2]/par[1]",
                  "  main/par[2]/par[1] receives from \"from 0\", waits for main/par[2]/par[0]",
                  "  circle: main/par[0]/par[0] -> main/par[0] -> main/par[0]/par[0]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main/par[0] kept it"
                ]
            ),
          testCase
            "in the second par"
            ( reports
                secondPar
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par#2[1] receives from \"c\", waits for main (which waits for it)",
                  "  circle: main/par#2[1] -> main -> main/par#2[1]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "an exception waits for it"
            ( reports
                besideException
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[1] receives from \"c\", waits for main (which waits for it)",
                  "  circle: main/par[1] -> main -> main/par[1]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "tryDet does not catch it"
            ( reports
                (either (\e -> const () (e :: SomeException)) id <$> tryDet missingSender)
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0] receives from \"c\", waits for main (which waits for it)",
                  "  circle: main/par[0] -> main -> main/par[0]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main kept it"
                ]
            ),
          testCase
            "missing sender, whose keeper is two pars up"
            ( reports
                keptTwoUp
                [ "deadlock: no branch can go on, and main has not ended",
                  "  main/par[0]/par[0]/par[0] receives from \"c\", waits for main/par[0] (which waits for it)",
                  "  main/par[0]/par[0]/par[1] receives from \"c\", waits for main/par[0] (which waits for it)",
                  "  circle: main/par[0]/par[0]/par[0] -> main/par[0] -> main/par[0]/par[0]/par[0]",
                  "  suggestion: grant the writer's end of \"c\" to a branch of the same par; main/par[0] kept it"
                ]
            ),
          testCase "the exception's fields" fields,
          testCase "thousands of branches: at once, and its text is short" large
        ],
      testGroup
        "in io"
        [ testCase "an MVar that nobody has: the branch is named" (blockedInIO (newEmptyMVar >>= takeMVar)),
          testCase "a transaction that nobody can help: the branch is named" (blockedInIO (newTVarIO False >>= \v -> atomically (readTVar v >>= check))),
          testCase "the branch can catch it" blockedCaught
        ],
      testGroup
        "none"
        [ testCase "the reader has ended" (isNone 3 readerEnded),
          testCase "one of the readers has ended" (isNone 6 oneReaderEnded),
          testCase "the writer has ended" (isNone [1, 2] writerEnded),
          testCase "no reader at all" (isNone () noReaders),
          testCase "a channel that nobody has" (isNone 'x' unused),
          testCase "a long computation, while others wait" (isNone 7 longComputation),
          testCase "an effect that waits for the outside" outside,
          testCase "a ring with one that begins" (isNone (replicate 5 4) (startedRing 5)),
          testCase "the parent's end comes back" (isNone (4, 9) comesBack)
        ]
    ]

reports :: (forall s. Det s ()) -> [String] -> IO ()
reports m want = everySchedule (Left (intercalate "\n" want)) m

isNone :: (Eq a, Show a) => a -> (forall s. Det s a) -> IO ()
isNone want = everySchedule (Right want)

-- * Deadlocks

-- | Section 5.1.1 of the paper.
crossed :: Det s ()
crossed = do
  a <- newChan "a"
  b <- newChan "b"
  par . sequenceA_ $
    [ branch (out a, inp b) (\(o, i) -> send o 'a' >> void (recv i)),
      branch (inp a, out b) (\(i, o) -> send o 'b' >> void (recv i))
    ]

missingSender :: Det s ()
missingSender = do
  c <- newChan "c"
  par (branch (inp c) recv)

keptByBranch :: Det s ()
keptByBranch = do
  c <- newChan "c"
  par
    ( branch (out c, inp c) (\(_, i) -> par (branch () pure *> branch i recv))
        *> branch (inp c) recv
    )

twoReaders :: Det s ()
twoReaders = do
  c <- newChan "c"
  par (branch (inp c) recv *> branch (inp c) recv)

selfWait :: Det s ()
selfWait = do
  c <- newChan "c"
  par (branch (out c, inp c) (recv . snd))

selfWaitWithReader :: Det s ()
selfWaitWithReader = do
  c <- newChan "c"
  par (branch (inp c) recv *> branch (out c, inp c) (recv . snd))

-- | Everybody receives from the left before sending to the right.
ring :: Int -> Det s ()
ring n = do
  chans <- mapM (\k -> newChan ("from " ++ show k)) [0 .. n - 1]
  par . sequenceA_ $
    [ branch (inp c, out d) (\(i, o) -> recv i >>= \x -> send o (x + 1 :: Int))
      | (c, d) <- zip (last chans : chans) chans
    ]

-- | The writer waits for a reader that waits for something else from the writer.
deadReader :: Det s ()
deadReader = do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (out c, out d) (\(o, p) -> send o 'c' >> send p 'd'),
      branch (inp c) (void . recv),
      branch (inp c, inp d) (\(i, j) -> recv j >> void (recv i))
    ]

deadReaderAlone :: Det s ()
deadReaderAlone = do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (out c) (`send` 'c'),
      branch (inp c, inp d) (\(i, j) -> recv j >>= \() -> void (recv i))
    ]

-- | A parent waits for its branch, which waits for a branch that waits for the parent.
nested :: Det s ()
nested = do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (out c, inp d) (\(o, i) -> par (branch i recv) >>= \() -> send o 'c'),
      branch (inp c, out d) (\(i, o) -> recv i >> send o ())
    ]

cousins :: Det s ()
cousins = do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (out c, inp d) (\(o, i) -> par (branch (o, i) (\(o', i') -> recv i' >>= send o'))),
      branch (inp c, out d) (\(i, o) -> par (branch () pure *> branch (i, o) (\(i', o') -> recv i' >>= \x -> send o' (x :: Int))))
    ]

twoRings :: Det s ()
twoRings = par . sequenceA_ $ [branch () (\() -> missingSender), branch () (\() -> ring 2), branch () (\() -> ring 2)]

secondPar :: Det s ()
secondPar = do
  c <- newChan "c"
  par (branch (out c) (`send` ()) *> branch (inp c) recv)
  par . sequenceA_ $ [branch () pure, branch (inp c) recv]

-- | A branch that has thrown does not cut short those that it does not meet.
besideException :: Det s ()
besideException = do
  c <- newChan "c"
  par (branch () (\() -> throwDet (Boom 1)) *> branch (inp c) recv)

fields :: IO ()
fields = do
  got <- try (evaluate (runDet crossed))
  got
    @?= Left
      Deadlock
        { deadlockWaits =
            [ Wait {waitThread = "main/par[0]", waitOperation = Sending, waitChannel = "a", waitMissing = ["main/par[1]"]},
              Wait {waitThread = "main/par[1]", waitOperation = Sending, waitChannel = "b", waitMissing = ["main/par[0]"]}
            ],
          deadlockCycle = ["main/par[0]", "main/par[1]"]
        }
  kept <- try (evaluate (runDet missingSender))
  kept
    @?= Left
      Deadlock
        { deadlockWaits = [Wait {waitThread = "main/par[0]", waitOperation = Receiving, waitChannel = "c", waitMissing = ["main"]}],
          deadlockCycle = ["main/par[0]", "main"]
        }

-- | A seat lent without the writer's end, and split further down.
keptTwoUp :: Det s ()
keptTwoUp = do
  c <- newChan "c"
  par $
    branch (out c, inp c) $ \(_, i) ->
      par (branch i (\i' -> par (branch i' recv *> branch i' recv)))

-- | The report of each took time in the third power of this.
large :: IO ()
large = do
  chain <- report $ do
    cs <- replicateM size (newChan "c")
    let stages = [branch (inp a, out b) (\(i, o) -> recv i >>= \x -> send o (x :: Char)) | (a, b) <- zip (drop 1 cs) cs]
        end = last cs
    par (sequenceA_ stages *> branch (inp end, out end) (\(i, _) -> void (recv i)))
  length (deadlockWaits chain) @?= size
  deadlockCycle chain @?= ["main/par[" ++ show (size - 1) ++ "]"]
  lines (displayException chain) !! 51 @?= "  ... and " ++ show (size - 50) ++ " more"
  circle <- report $ do
    cs <- replicateM size (newChan "c")
    par (sequenceA_ [branch (inp a, out b) (\(i, o) -> recv i >>= \x -> send o (x :: Char)) | (a, b) <- zip cs (drop 1 (cycle cs))])
  length (deadlockCycle circle) @?= size
  broadcast <- report $ do
    c <- newChan "c"
    d <- newChan "d"
    par (branch (out c, out d, inp d) (\(o, _, j) -> recv j >>= \x -> send o (x :: Char)) *> sequenceA_ [branch (inp c) (void . recv) | _ <- [1 .. size]])
  nub (map waitMissing (deadlockWaits broadcast)) @?= [["main/par[0]"]]
  sends <- report $ do
    c <- newChan "c"
    d <- newChan "d"
    par (branch (out c) (`send` 'x') *> sequenceA_ [branch (inp c, inp d) (\(_, j) -> void (recv j)) | _ <- [1 .. size]])
  map (length . waitMissing) (take 1 (deadlockWaits sends)) @?= [size]
  length (displayException sends) < 20000 @?= True
  where
    size = 3000
    report :: (forall s. Det s ()) -> IO Deadlock
    report m =
      timeout 60000000 (try (evaluate (runDet m))) >>= \case
        Just (Left d) -> pure d
        other -> assertFailure (maybe "no report" (either (\(Deadlock _ _) -> "") show) other)

-- * In io

-- | It hung: the scheduler kept the thread reachable.
blockedInIO :: IO () -> IO ()
blockedInIO wait = everyRun $ \run' -> do
  got <- collecting . outcome $
    run' $ \w -> do
      c <- newChan "c"
      par (branch (inp c) recv <* branch () (\() -> busy 3) <* branch (w, out c) (\(w', o) -> io w' wait >>= send o))
  got @?= Just (Left (path ++ ": " ++ displayException (BlockedInIO path)))
  where
    path = "main/par[2]"

blockedCaught :: IO ()
blockedCaught = everyRun $ \run' -> do
  got <- collecting . outcome $ run' $ \w -> par (branch w (\w' -> tryDet (io w' (newEmptyMVar >>= takeMVar))) <* branch () (\() -> busy 3))
  got @?= Just (Right (Left (BlockedInIO "main/par[0]") :: Either BlockedInIO ()))

-- | With a major collection now and then, since that is when a thread that waits for ever is
-- noticed.
collecting :: IO a -> IO (Maybe a)
collecting body = do
  done <- newEmptyMVar
  _ <- forkIO (body >>= putMVar done)
  deadline <- deadlineIn (seconds 60)
  let wait = do
        performMajorGC
        now <- monotonicNow
        -- Not taken: a time-out right after that would lose it.
        timeout 5000 (readMVar done) >>= maybe (if now < deadline then wait else pure Nothing) (pure . Just)
  wait

-- * None

readerEnded :: Det s Int
readerEnded = do
  c <- newChan "c"
  par (branch (out c) (\o -> mapM_ (send o) [1 .. 10]) *> branch (inp c) (\i -> sum <$> replicateM 2 (recv i)))

oneReaderEnded :: Det s Int
oneReaderEnded = do
  c <- newChan "c"
  par (branch (inp c) recv *> branch (out c) (\o -> mapM_ (send o) [1 .. 3]) *> branch (inp c) (\i -> sum <$> replicateM 3 (recv i)))

writerEnded :: Det s [Int]
writerEnded = do
  c <- newChan "c"
  par (branch (out c) (\o -> send o 1 >> send o 2) *> branch (inp c) everything)

everything :: In s a -> Det s [a]
everything i =
  tryDet (recv i) >>= \case
    Left (WriterEnded _) -> pure []
    Right x -> (x :) <$> everything i

unused :: Det s Char
unused = do
  c <- newChan "c"
  d <- newChan "d"
  par (branch (out c, inp d) (\_ -> pure 'x') <* branch (inp c) (\_ -> pure ()) <* branch (out d) (\_ -> pure ()))

noReaders :: Det s ()
noReaders = newChan "c" >>= \c -> par (branch (out c) (\o -> replicateM_ 10 (send o ())))

longComputation :: Det s Int
longComputation = do
  c <- newChan "c"
  d <- newChan "d"
  par
    ( branch (inp d) recv
        *> branch (inp c, out d) (\(i, o) -> recv i >>= send o)
        *> branch (out c) (\o -> busy 2000 >> send o ())
    )
  pure 7

-- | All others wait for a branch that waits for a thread that is no part of the run.
outside :: IO ()
outside = everyRun $ \run' -> do
  asked <- newEmptyMVar
  answer <- newEmptyMVar
  _ <- forkIO $ do
    takeMVar asked
    performGC
    replicateM_ 100 yield
    putMVar answer 'x'
  got <- run' $ \w -> do
    c <- newChan "c"
    par
      ( branch (inp c) recv
          <* branch (inp c) recv
          <* branch (w, out c) (\(w', o) -> io w' (putMVar asked () >> takeMVar answer) >>= send o)
      )
  got @?= 'x'

startedRing :: Int -> Det s [Int]
startedRing n = do
  chans <- mapM (\k -> newChan ("from " ++ show k)) [0 .. n - 1]
  par . sequenceA $
    [ branch (inp c, out d) (\(i, o) -> if k == 0 then send o 0 >> recv i else recv i >>= \x -> send o (x + 1) >> pure (n - 1))
      | (k, (c, d)) <- zip [0 :: Int ..] (zip (last chans : chans) chans)
    ]

comesBack :: Det s (Int, Int)
comesBack = do
  c <- newChan "c"
  par
    ( branch
        (out c)
        ( \o -> do
            par (branch o (`send` 4) *> branch () (\() -> busy 50))
            send o 5
        )
        *> branch
          (inp c)
          ( \i -> do
              x <- par (branch i recv <* branch i recv)
              y <- recv i
              pure (x, x + y)
          )
    )
