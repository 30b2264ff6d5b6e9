-- | Long streams of bytes over every kind of descriptor, while readers are cancelled, timed
-- out, unparked and replaced, timers come and go, and either end closes at any moment.
--
-- Every record carries its connection's identity and its number, so that a read from a
-- descriptor that was closed and reused shows, and so does a byte lost, doubled or counted
-- wrongly by a partial send. Every wait is certain to end, so a round that does not end
-- within half a minute has lost a wake-up. All counts must be 0.
module Streams
  ( stress,
    leaks,
    descriptors,
  )
where

import Control.Concurrent hiding (threadWaitRead, threadWaitWrite)
import Control.Exception
import Control.Monad
import Data.Bits (shiftL, shiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString, word64LE)
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Data.Word (Word64)
import Heddle.IO
import Heddle.Prim.Atomic (Words, fetchAdd, newWords, readWord)
import Heddle.Prim.Clock (Nanos (..), elapsed, microseconds, monotonicNow)
import Heddle.Timer (closeTimer, newTimerOnUntil, rearmUntil, timeoutUntil)
import Network.Socket qualified as N
import System.Directory (getSymbolicLinkTarget, listDirectory)
import System.Posix.IO (closeFd, createPipe, fdWrite)

-- | What the workers share.
data Run = Run
  { runRuntime :: Runtime,
    -- | See 'operationsDone' and its neighbours.
    runCounts :: Words,
    runGoal :: Int
  }

-- Each on its own cache line.
operationsDone, wrongBytes, lostWakes, identities, roundsDone :: Int
operationsDone = 0
wrongBytes = 8
lostWakes = 16
identities = 24
roundsDone = 32

count :: Run -> Int -> Int -> IO ()
count run what n = void (fetchAdd (runCounts run) what n)

-- | One thread's random numbers (xorshift).
newtype Dice = Dice (IORef Word64)

newDice :: Word64 -> IO Dice
newDice seed = Dice <$> newIORef (if mixed == 0 then 1 else mixed)
  where
    mixed = (seed + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9

roll :: Dice -> Int -> IO Int
roll (Dice ref) n = do
  x0 <- readIORef ref
  let x1 = x0 `xor` (x0 `shiftL` 13)
      x2 = x1 `xor` (x1 `shiftR` 7)
      x3 = x2 `xor` (x2 `shiftL` 17)
  writeIORef ref x3
  pure (fromIntegral ((x3 `shiftR` 11) .&. 0x3FFFFFFF) `mod` n)

split :: Dice -> IO Dice
split dice = roll dice 0x3FFFFFFF >>= newDice . fromIntegral

-- | A deadline within three milliseconds, perhaps passed; or none.
someDeadline :: Dice -> IO Deadline
someDeadline dice =
  roll dice 3 >>= \case
    0 -> pure never
    1 -> monotonicNow
    _ -> roll dice 3000 >>= deadlineIn . microseconds

-- | How many descriptors the process has, without the timer of GHC's runtime system, which
-- comes when it comes.
descriptors :: IO Int
descriptors = listDirectory "/proc/self/fd" >>= fmap length . filterM counts
  where
    counts fd =
      try (getSymbolicLinkTarget ("/proc/self/fd/" ++ fd)) >>= \case
        Left e -> const (pure False) (e :: IOException) -- the directory's own, closed by now
        Right target -> pure (target /= "anon_inode:[timerfd]")

-- | Run at least this many operations on a back end; 'True' if all counts were 0.
stress :: BackendChoice -> Word64 -> Int -> IO Bool
stress backend seed goal = do
  began <- monotonicNow
  before <- descriptors
  counts <- newWords 40
  withRuntime defaultConfig {configBackend = backend} $ \runtime -> do
    let run = Run {runRuntime = runtime, runCounts = counts, runGoal = goal}
    workers <- forM [1 .. 12] $ \i -> do
      dice <- newDice (seed * 1000 + i)
      step <- monotonicNow >>= \t -> newIORef (t, "starting")
      done <- newEmptyMVar
      _ <- forkIO (worker run dice step `finally` putMVar done ())
      pure (i, step, done)
    watch run workers
  leaked <- leaks before (100000 :: Int)
  finished <- monotonicNow
  [done, rounds, wrong, lost] <- mapM (readWord counts) [operationsDone, roundsDone, wrongBytes, lostWakes]
  let seconds' = fromIntegral (nanosCount (elapsed began finished)) / 1e9 :: Double
  putStrLn $
    show backend
      ++ (" streams: " ++ show done ++ " operations in " ++ show rounds ++ " rounds, ")
      ++ (show (round seconds' :: Int) ++ " s; lost wake-ups " ++ show lost)
      ++ (", wrong bytes " ++ show wrong ++ ", leaked descriptors " ++ show leaked)
  pure (lost == 0 && wrong == 0 && leaked == 0 && done >= goal)

-- | How many more descriptors there are than before. GHC's come and go; a leak stays.
leaks :: Int -> Int -> IO Int
leaks before tries = do
  now <- descriptors
  if now <= before || tries == 0 then pure (max 0 (now - before)) else yield >> leaks before (tries - 1)

-- | Wait for the workers; report, once each, those whose round does not end.
watch :: Run -> [(Word64, IORef (Deadline, String), MVar ())] -> IO ()
watch run = go []
  where
    go _ [] = pure ()
    go told workers = do
      left <- filterM (\(_, _, done) -> isEmptyMVar done) workers
      now <- monotonicNow
      stuck <- flip filterM [w | w@(i, _, _) <- left, i `notElem` told] $ \(i, step, _) -> do
        (since, what) <- readIORef step
        let late = elapsed since now > Nanos 30000000000
        when late $ do
          count run lostWakes 1
          putStrLn ("lost wake-up: worker " ++ show i ++ " has waited half a minute in: " ++ what)
        pure late
      -- The stuck ones hold the others up only in vain.
      if not (null stuck) || not (null told)
        then pure ()
        else case left of
          [] -> pure ()
          (_, _, done) : _ -> do
            _ <- deadlineIn (milliseconds 500) >>= \d -> timeoutUntil d (readMVar done)
            go (told ++ [i | (i, _, _) <- stuck]) left

worker :: Run -> Dice -> IORef (Deadline, String) -> IO ()
worker run dice step = withListener runtime defaultListenOptions loopback go
  where
    runtime = runRuntime run
    loopback = N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1))
    go listener = do
      done <- readWord (runCounts run) operationsDone
      when (done < runGoal run) $ do
        oneRound run dice listener $ \what -> monotonicNow >>= \t -> writeIORef step (t, what)
        count run roundsDone 1
        go listener

-- | The writing end and the reading end of something.
open :: Run -> Dice -> Listener -> IO (String, Conn, Conn)
open run dice listener =
  roll dice 4 >>= \case
    0 -> do
      (x, y) <- N.socketPair N.AF_UNIX N.Stream N.defaultProtocol
      (,,) "socket pair" <$> adopt runtime x <*> adopt runtime y
    1 -> do
      (r, w) <- createPipe
      b <- register runtime r
      a <- register runtime w
      pure ("pipe", a, b)
    2 -> flipped <$> tcp
    _ -> tcp
  where
    runtime = runRuntime run
    flipped (name, a, b) = (name, b, a)
    tcp = do
      a <- connectUntil runtime (listenerAddress listener) never >>= either throwIO pure
      b <- accept listener
      pure ("TCP connection", a, b)

-- | A stream's bytes: identity and number, eight bytes each, for ever.
record :: Word64 -> Word64 -> ByteString
record identity k = L.toStrict (toLazyByteString (word64LE identity <> word64LE k))

-- | Where a reader is: bytes that make no record yet, and the next record's number.
type Place = IORef (ByteString, Word64)

absorb :: Run -> Word64 -> Place -> ByteString -> IO ()
absorb run identity place bytes = do
  (rest, k) <- readIORef place
  let go b n
        | B.length b < 16 = writeIORef place (b, n)
        | B.take 16 b == record identity n = go (B.drop 16 b) (n + 1)
        | otherwise = count run wrongBytes 1 >> writeIORef place (B.empty, n)
  go (rest <> bytes) k

oneRound :: Run -> Dice -> Listener -> (String -> IO ()) -> IO ()
oneRound run dice listener step = do
  step "opening"
  (kind, a, b) <- open run dice listener
  identity <- fromIntegral <$> fetchAdd (runCounts run) identities 1
  place <- newIORef (B.empty, 0)
  sent <- newIORef (0 :: Int)
  let startReader = split dice >>= \d -> start (reader run d identity place b)
  w <- split dice >>= \d -> start (writer run d identity sent a)
  firstReader <- startReader
  times <- roll dice 8
  r <- foldM (\now _ -> chaos run dice step kind (a, b) startReader now) firstReader [1 .. times]
  -- Whatever happened: closing ends both threads.
  ending <- roll dice 4
  step ("closing a " ++ kind ++ ", way " ++ show ending)
  case ending of
    0 -> do
      -- In order: the reader gets all that was sent, unless the writing end was closed
      -- with unread bytes on its side or the reading end was closed before.
      open' <- isOpen b
      ended w
      close a
      when open' $ do
        ended r
        stillOpen <- isOpen b
        total <- readIORef sent
        (rest, k) <- readIORef place
        when (stillOpen && B.length rest + 16 * fromIntegral k /= total) (count run wrongBytes 1)
    1 -> close b >> close a
    2 -> do
      one <- start (close a)
      two <- start (close b)
      ended one >> ended two
    -- An adopted socket would go back to the network package; a pipe's end is ours.
    _ -> when (kind == "pipe") (deregister b >>= mapM_ closeFd) >> close a
  close a
  close b
  ended w
  ended r
  count run operationsDone 4

-- | Something that may happen to a connection in use; its reader afterwards.
chaos :: Run -> Dice -> (String -> IO ()) -> String -> (Conn, Conn) -> IO Thread -> Thread -> IO Thread
chaos run dice step kind (a, b) startReader r = do
  count run operationsDone 1
  roll dice 12 >>= \case
    0 -> restart
    1 -> restart
    2 -> r <$ unpark b
    3 -> r <$ (someDeadline dice >>= touchUntil b)
    4 -> r <$ yield
    5 -> do
      step "a timer"
      t <- someDeadline dice >>= newTimerOnUntil runtime
      _ <- someDeadline dice >>= rearmUntil t
      r <$ closeTimer t
    6 -> do
      step "a time-out"
      d <- roll dice 1500 >>= deadlineIn . microseconds
      ran <- timeoutUntil d (newEmptyMVar >>= takeMVar)
      r <$ mapM_ (\() -> count run lostWakes 1) ran
    7 -> r <$ bystander
    8 -> r <$ bystander
    9 -> r <$ yield
    10 -> r <$ forkIO (close b)
    _ -> r <$ forkIO (close a)
  where
    runtime = runRuntime run
    restart = do
      step ("restarting the reader of a " ++ kind)
      stop r
      startReader
    -- Its descriptors are likely to be those that were closed just now.
    bystander = do
      step "a wait for a pipe"
      bracket createPipe (\(x, y) -> closeFd x >> closeFd y) $ \(x, y) -> do
        waiter <- start (threadWaitRead runtime x)
        cancelled <- roll dice 2
        when (cancelled == 0) (stop waiter)
        _ <- fdWrite y "x"
        ended waiter

-- | Reads until the end or the closing. Masked, so that no byte is lost when it is killed
-- or its time is out: both interrupt it only where it is parked.
reader :: Run -> Dice -> Word64 -> Place -> Conn -> IO ()
reader run dice identity place conn = mask_ go
  where
    go = do
      count run operationsDone 1
      way <- roll dice 8
      deadline <- someDeadline dice
      size <- (+ 1) <$> roll dice 5000
      case way of
        0 -> readableUntil conn deadline >>= \wake -> unless (wake == Gone) go
        1 -> do
          limit <- roll dice 2000 >>= deadlineIn . microseconds
          timeoutUntil limit (receive size deadline) >>= maybe go (`when` go)
        _ -> receive size deadline >>= (`when` go)
    -- Whether more bytes will come.
    receive size deadline =
      recvUntil conn size deadline >>= \case
        Got bytes -> True <$ absorb run identity place bytes
        TimedOut -> pure True
        Eof -> pure False
        Closed -> pure False

-- | Sends for a while; counts the bytes sent.
writer :: Run -> Dice -> Word64 -> IORef Int -> Conn -> IO ()
writer run dice identity sent conn = roll dice 40 >>= go
  where
    go :: Int -> IO ()
    go 0 = pure ()
    go n = do
      records <- (+ 1) <$> roll dice 60
      total <- readIORef sent
      let first = total `quot` 16
          bytes = B.drop (total `rem` 16) (B.concat [record identity (fromIntegral k) | k <- [first .. first + records]])
      push bytes >>= \on -> when on (go (n - 1))
    push bytes = do
      count run operationsDone 1
      deadline <- someDeadline dice
      vectored <- roll dice 4
      result <-
        if vectored == 0
          then sendVUntil conn [B.take 100 bytes, B.drop 100 bytes] deadline
          else sendAllUntil conn bytes deadline
      case result of
        Sent -> True <$ modifyIORef' sent (+ B.length bytes)
        SendTimedOut k -> modifyIORef' sent (+ k) >> push (B.drop k bytes)
        SendClosed k -> False <$ modifyIORef' sent (+ k)

-- | A thread, and a token when it has ended.
data Thread = Thread ThreadId (MVar ())

-- | Errors of the connection (reset, broken pipe) end a thread like closing does.
start :: IO () -> IO Thread
start body = do
  done <- newEmptyMVar
  t <- mask $ \restore -> forkIO $ do
    _ <- try (restore body) :: IO (Either SomeException ())
    putMVar done ()
  pure (Thread t done)

ended :: Thread -> IO ()
ended (Thread _ done) = readMVar done

stop :: Thread -> IO ()
stop thread@(Thread t _) = killThread t >> ended thread
