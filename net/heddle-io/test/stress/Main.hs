-- | Close, cancel, time-out and descriptor reuse, mixed at random, on both back ends.
--
-- Every connection carries an identity in each of its words, so that a byte read from a
-- wrong descriptor shows. A worker that makes no progress for half a minute has lost a
-- wake-up. At the end every descriptor must be closed.
--
-- @HEDDLE_SEED@ replays a run's choices (not the scheduler's); @HEDDLE_OPERATIONS@ sets how
-- many operations the epoll run makes, of which the poll run makes a tenth.
module Main
  ( main,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Bits (shiftR, xor)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (create)
import Data.IORef
import Data.Maybe (fromMaybe)
import Data.Word (Word64, Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekElemOff, pokeElemOff)
import Heddle.IO
import Heddle.Prim.Atomic (Words, fetchAdd, newWords, readWord)
import Heddle.Prim.Clock (after, elapsed, monotonicNow, nanos, nanosCount)
import Heddle.Timer (timeout)
import Network.Socket (SockAddr (..))
import Streams qualified
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (lookupEnv)
import System.Exit (exitFailure)
import System.IO (BufferMode (..), hSetBuffering, stdout)
import Text.Printf (printf)
import Text.Read (readMaybe)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  seed <- fromMaybe 20261121 . (>>= readMaybe) <$> lookupEnv "HEDDLE_SEED"
  operations <- fromMaybe 1200000 . (>>= readMaybe) <$> lookupEnv "HEDDLE_OPERATIONS"
  -- Time-outs use it, and it is never stopped: its descriptors are no leak.
  _ <- systemRuntime
  -- Half of the operations in scenes that each end in one way, half in streams that anything
  -- may happen to.
  let half = operations `div` 2
  good <-
    and
      <$> sequence
        [ campaign Epoll seed half,
          Streams.stress Epoll (seed + 1) half,
          campaign Poll (seed + 2) (half `div` 10),
          Streams.stress Poll (seed + 3) (half `div` 10)
        ]
  unless good exitFailure

-- | What went wrong, counted over all workers.
data Tally = Tally
  { tallyWrong :: !(IORef Int),
    tallyTrouble :: !(IORef [String])
  }

data Worker = Worker
  { workerNumber :: !Int,
    workerRandom :: !(IORef Word64),
    -- | Operations so far; the watchdog reads it.
    workerDone :: !Words,
    workerScene :: !(IORef String),
    workerFinished :: !(MVar ())
  }

campaign :: BackendChoice -> Word64 -> Int -> IO Bool
campaign backend seed operations = do
  printf "%s: %d operations, HEDDLE_SEED=%d\n" (show backend) operations seed
  tally <- Tally <$> newIORef 0 <*> newIORef []
  before <- Streams.descriptors
  began <- monotonicNow
  workers <- forM [1 .. workerCount] $ \i ->
    Worker i <$> newIORef (mixed (seed * 1000 + fromIntegral i)) <*> newWords 1 <*> newIORef "start" <*> newEmptyMVar
  lost <- inTemporaryDirectory $ \directory ->
    withRuntime defaultConfig {configBackend = backend} $ \runtime -> do
      forM_ workers $ \w ->
        forkOn (workerNumber w) $
          work runtime tally directory (operations `div` workerCount) w
            `catch` (\e -> note tally (printf "worker %d: %s" (workerNumber w) (show (e :: SomeException))))
            `finally` putMVar (workerFinished w) ()
      lost <- watch workers
      -- The loops still have closed registrations to take in.
      pure lost
  leaked <- Streams.leaks before (100000 :: Int)
  done <- sum <$> mapM (flip readWord 0 . workerDone) workers
  wrong <- readIORef (tallyWrong tally)
  trouble <- readIORef (tallyTrouble tally)
  now <- monotonicNow
  forM_ (take 10 trouble) putStrLn
  printf
    "%s: %d operations in %.1f s: %d lost wake-ups, %d wrong-descriptor reads, %d leaked descriptors, %d other failures\n"
    (show backend)
    done
    (fromIntegral (nanosCount (elapsed began now)) / 1e9 :: Double)
    lost
    wrong
    leaked
    (length trouble)
  pure (lost == 0 && wrong == 0 && leaked == 0 && null trouble && done >= operations)

workerCount :: Int
workerCount = 8

inTemporaryDirectory :: (FilePath -> IO a) -> IO a
inTemporaryDirectory = bracket make removeDirectoryRecursive
  where
    make = do
      base <- getTemporaryDirectory
      now <- monotonicNow
      let directory = base ++ "/heddle-stress-" ++ show now
      directory <$ createDirectory directory

note :: Tally -> String -> IO ()
note tally what = atomicModifyIORef' (tallyTrouble tally) (\xs -> (what : xs, ()))

-- Wait for every worker; returns how many are stuck. A worker is stuck if it makes no progress
-- at all, so a slow machine does not fail the test.
watch :: [Worker] -> IO Int
watch workers = go (map (const (0, 0 :: Int)) workers)
  where
    go seen = do
      finished <- mapM (fmap not . isEmptyMVar . workerFinished) workers
      if and finished
        then pure 0
        else do
          threadDelay 200000
          next <- forM (zip workers seen) $ \(w, (count, still)) -> do
            now <- readWord (workerDone w) 0
            pure (now, if now == count then still + 1 else 0)
          let stuck = [w | (w, (_, still), end) <- zip3 workers next finished, still > 150, not end]
          if null stuck
            then go next
            else do
              forM_ stuck $ \w -> do
                scene <- readIORef (workerScene w)
                count <- readWord (workerDone w) 0
                printf "worker %d lost a wake-up after %d operations, in: %s\n" (workerNumber w) count scene
              pure (length stuck)

-- Choices ---------------------------------------------------------------------------

mixed :: Word64 -> Word64
mixed z0 = z2 `xor` (z2 `shiftR` 31)
  where
    z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xBF58476D1CE4E5B9
    z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94D049BB133111EB

roll :: Worker -> Int -> IO Int
roll w n = do
  state <- readIORef (workerRandom w)
  let state' = state + 0x9E3779B97F4A7C15
  writeIORef (workerRandom w) $! state'
  pure (fromIntegral (mixed state' `shiftR` 1) `mod` n)

did :: Worker -> Int -> IO ()
did w n = void (fetchAdd (workerDone w) 0 n)

-- Connections with an identity --------------------------------------------------------

data Pair = Pair {pairName :: !Word64, pairNear :: !Conn, pairFar :: !Conn}

newPair :: Runtime -> Listener -> Worker -> IO Pair
newPair runtime listener w = do
  name <- mixed <$> readIORef (workerRandom w)
  near <-
    connectUntil runtime (listenerAddress listener) never >>= \case
      Right conn -> pure conn
      Left e -> throwIO (userError ("connect: " ++ show e))
  far <- accept listener
  did w 2
  pure (Pair name near far)

closePair :: Worker -> Pair -> IO ()
closePair w pair = close (pairNear pair) >> close (pairFar pair) >> did w 2

message :: Word64 -> Int -> IO B.ByteString
message name count = B.create (8 * count) $ \p -> forM_ [0 .. count - 1] $ \i -> pokeElemOff (castPtr p) i name

-- Receive exactly this many words, all of this connection's identity.
exactly :: Tally -> Worker -> Word64 -> Conn -> Int -> Deadline -> IO (RecvResult ())
exactly tally w name conn count deadline = allocaBytes size $ \p -> go p 0
  where
    size = 8 * count
    go :: Ptr Word8 -> Int -> IO (RecvResult ())
    go p got
      | got == size = do
        forM_ [0 .. count - 1] $ \i -> do
          word <- peekElemOff (castPtr p) i
          when (word /= name) $ atomicModifyIORef' (tallyWrong tally) (\n -> (n + 1, ()))
        pure (Got ())
      | otherwise =
        recvIntoUntil conn (p `plusPtr` got) (size - got) (if got == 0 then deadline else never) >>= \case
          Got n -> did w 1 >> go p (got + n)
          Eof -> pure Eof
          TimedOut -> did w 1 >> pure TimedOut
          Closed -> pure Closed

must :: Tally -> Worker -> String -> Bool -> IO ()
must tally w what holds = unless holds $ do
  scene <- readIORef (workerScene w)
  note tally (printf "worker %d, %s: %s" (workerNumber w) scene what)

-- Scenes ------------------------------------------------------------------------------

work :: Runtime -> Tally -> FilePath -> Int -> Worker -> IO ()
work runtime tally directory goal w =
  withListener runtime defaultListenOptions (SockAddrUnix (directory ++ "/" ++ show (workerNumber w))) $ \listener ->
    let loop = do
          done <- readWord (workerDone w) 0
          when (done < goal) $ do
            choice <- roll w (length scenes)
            let (scene, play) = scenes !! choice
            writeIORef (workerScene w) scene
            pair <- newPair runtime listener w
            play runtime listener tally w pair
            closePair w pair
            loop
     in loop

type Scene = Runtime -> Listener -> Tally -> Worker -> Pair -> IO ()

scenes :: [(String, Scene)]
scenes =
  [ ("ping-pong", pingPong),
    ("time-out against a sender", timeOutRace),
    ("cancelled reader against a sender", cancelRace),
    ("close against readers, with reuse", closeRace),
    ("time-out of a whole action", actionTimeOut),
    ("close against a full sender", closeSender),
    ("the peer ends", peerEnds),
    ("unpark", unparked)
  ]

pingPong :: Scene
pingPong _ _ tally w (Pair name near far) = do
  rounds <- (+ 1) <$> roll w 64
  words' <- (+ 1) <$> roll w 16
  bytes <- message name words'
  echo <- newEmptyMVar
  cap <- roll w 2
  _ <- forkOn cap $ do
    results <- replicateM rounds $ do
      r <- exactly tally w name far words' never
      s <- sendAllUntil far bytes never
      pure (r == Got () && s == Sent)
    putMVar echo (and results)
  ours <- replicateM rounds $ do
    s <- sendAllUntil near bytes never
    r <- exactly tally w name near words' never
    did w 1
    pure (s == Sent && r == Got ())
  theirs <- takeMVar echo
  must tally w "an exchange failed" (and ours && theirs)

timeOutRace :: Scene
timeOutRace _ _ tally w (Pair name near far) = do
  rounds <- (+ 1) <$> roll w 8
  bytes <- message name 1
  replicateM_ rounds $ do
    limit <- roll w 300000
    pause <- roll w 20
    cap <- roll w 2
    sent <- newEmptyMVar
    _ <- forkOn cap $ replicateM_ pause yield >> sendAllUntil near bytes never >>= putMVar sent
    deadline <- after (nanos limit) <$> monotonicNow
    first <- exactly tally w name far 1 deadline
    r <- if first == TimedOut then exactly tally w name far 1 never else pure first
    s <- takeMVar sent
    did w 1
    must tally w ("received " ++ show r ++ ", sent " ++ show s) (r == Got () && s == Sent)

cancelRace :: Scene
cancelRace _ _ tally w (Pair name near far) = do
  rounds <- (+ 1) <$> roll w 8
  bytes <- message name 1
  replicateM_ rounds $ do
    cap <- roll w 2
    pause <- roll w 20
    answer <- newEmptyMVar
    -- Masked, so that what was received is also reported; parked, it can be interrupted.
    reader <- mask_ $
      forkOn cap $ do
        r <- try . allocaBytes 8 $ \p -> (,) <$> recvIntoUntil far p 8 never <*> peekElemOff (castPtr p) 0
        putMVar answer (either (\(_ :: AsyncException) -> Nothing) Just r)
    killer <- newEmptyMVar
    _ <- forkIO $ replicateM_ pause yield >> killThread reader >> putMVar killer ()
    s <- sendAllUntil near bytes never
    takeMVar killer
    got <- takeMVar answer
    did w 3
    case got of
      Just (Got 8, word) -> when (word /= name) $ atomicModifyIORef' (tallyWrong tally) (\n -> (n + 1, ()))
      Just other -> must tally w ("the reader had " ++ show (fst other)) False
      Nothing -> do
        r <- exactly tally w name far 1 never
        must tally w ("after cancelling: " ++ show r ++ ", " ++ show s) (r == Got ())

closeRace :: Scene
closeRace runtime listener tally w (Pair name _ far) = do
  readers <- (+ 1) <$> roll w 3
  ends <- replicateM readers newEmptyMVar
  forM_ ends $ \end -> do
    cap <- roll w 2
    forkOn cap $ exactlyQuiet name far >>= putMVar end
  pause <- roll w 20
  replicateM_ pause yield
  closers <- (+ 1) <$> roll w 2
  closed <- replicateM closers $ do
    done <- newEmptyMVar
    cap <- roll w 2
    done <$ forkOn cap (close far >> putMVar done ())
  -- The descriptor's number is free now or soon: others take it, and send at once.
  others <- replicateM 2 (newPair runtime listener w)
  forM_ others $ \other -> message (pairName other) 4 >>= \bytes -> sendAllUntil (pairNear other) bytes never
  forM_ closed takeMVar
  results <- mapM takeMVar ends
  did w (readers + closers)
  must tally w ("readers of a closed connection had " ++ show results) (all (== Closed) results)
  forM_ others $ \other -> do
    r <- exactly tally w (pairName other) (pairFar other) 4 never
    must tally w ("the new connection had " ++ show r) (r == Got ())
    closePair w other
  where
    exactlyQuiet own conn = allocaBytes 8 $ \p ->
      recvIntoUntil conn p 8 never >>= \case
        Got _ -> do
          word <- peekElemOff (castPtr p) 0
          when (word /= own) $ atomicModifyIORef' (tallyWrong tally) (\n -> (n + 1, ()))
          pure (Got ())
        Eof -> pure Eof
        TimedOut -> pure TimedOut
        Closed -> pure Closed

actionTimeOut :: Scene
actionTimeOut _ _ tally w (Pair name near far) = do
  rounds <- (+ 1) <$> roll w 8
  bytes <- message name 1
  replicateM_ rounds $ do
    limit <- roll w 200000
    inner <- roll w 200000
    r <- timeout (nanos limit) (timeout (nanos inner) (silence far))
    did w 2
    must tally w "a time-out let something through" (r `elem` [Nothing, Just Nothing])
    _ <- sendAllUntil near bytes never
    got <- exactly tally w name far 1 never
    must tally w ("after a time-out: " ++ show got) (got == Got ())
  where
    silence conn = allocaBytes 8 $ \p -> recvIntoUntil conn (p :: Ptr Word8) 8 never

closeSender :: Scene
closeSender _ _ tally w (Pair name near far) = do
  bytes <- message name 131072
  answer <- newEmptyMVar
  cap <- roll w 2
  _ <- forkOn cap $ try (sendAllUntil near bytes never) >>= putMVar answer
  half <- roll w 2
  when (half == 1) $ void (exactly tally w name far 512 never)
  side <- roll w 2
  pause <- roll w 10
  replicateM_ pause yield
  close (if side == 0 then near else far)
  r <- takeMVar answer
  did w 2
  must tally w ("a megabyte ended as " ++ show r) $ case r of
    Right (SendClosed _) -> side == 0
    Left (_ :: IOException) -> True
    _ -> False

peerEnds :: Scene
peerEnds _ _ tally w (Pair name near far) = do
  bytes <- message name 2
  speak <- roll w 2
  when (speak == 1) $ void (sendAllUntil near bytes never)
  answer <- newEmptyMVar
  cap <- roll w 2
  _ <- forkOn cap $ do
    when (speak == 1) $ void (exactly tally w name far 2 never)
    exactly tally w name far 1 never >>= putMVar answer
  pause <- roll w 10
  replicateM_ pause yield
  close near
  r <- takeMVar answer
  did w 2
  must tally w ("the end came as " ++ show r) (r == Eof)

unparked :: Scene
unparked _ _ tally w (Pair _ _ far) = do
  answer <- newEmptyMVar
  cap <- roll w 2
  _ <- forkOn cap $ readableUntil far never >>= putMVar answer
  pause <- roll w 10
  replicateM_ pause yield
  unpark far
  r <- takeMVar answer
  did w 1
  must tally w ("unpark woke as " ++ show r) (r `elem` [Unparked, Ready])
