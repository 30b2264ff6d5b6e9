-- |
-- Module      : Paper.STM
-- Description : The SHIM paper's library on transactional memory, as a baseline
-- Stability   : frozen
--
-- The library of Vasudevan, Singh and Edwards, /A Deterministic Multi-Way Rendezvous Library for
-- Haskell/, in its first implementation (Figures 7 to 9, 12 and 13). It is here to be measured and
-- compared with; programs are better off with @Heddle.Rendezvous@.
--
-- > producerConsumer = do
-- >   c <- newChannel
-- >   dPar (\_ -> mapM_ (dSend c) [1 .. 9 :: Int]) [c] (\_ -> replicateM 9 (dRecv c)) [c]
--
-- Where the printed listings do not compile, or say something else than the text:
--
-- * Figure 9 has the @atomically@ that raises the counts inside the @let@, where no action can stand; it
--   follows the @let@ here;
-- * the text has the child run the second function; the listing, and this, run the first there;
-- * Figure 13 takes @Just v@ out of a transaction by pattern, which needs an instance @MonadFail STM@ that
--   does not exist any more;
-- * Figure 12 binds a variable with the name of the field it is read from, and Figure 9 writes @mapM_@ as
--   @apply@.
--
-- What is wrong with the original is wrong here too:
--
-- * an exception in the first function of 'dPar' loses its result, and the parent waits for ever; one in
--   the second leaves the counts raised, and the first running;
-- * counts fall only when both functions have ended, so a writer that sends once more than its reader
--   receives waits for ever, and so does a reader that receives once more;
-- * a send on a channel that nobody shares waits for ever: there is no last reader to end it;
-- * two writers, a missing sender and crossed orders end in GHC's @BlockedIndefinitelyOnSTM@, which says
--   neither who waits nor for what, or in nothing at all;
-- * a channel that is named twice in the first list is counted twice;
-- * nothing keeps a function to the channels in its list: one that uses others is not counted on them;
-- * values are sent unevaluated, and their work is done by whoever looks first.
--
-- Cost: a rendezvous of n threads is 3n transactions on the same few variables. Every arrival wakes the
-- writer, which looks and sleeps again; the value wakes all readers at once, and so does the end.
-- Owner: the garbage collector; a channel needs no closing.
module Paper.STM
  ( Channel,
    newChannel,
    dPar,
    dSend,
    dRecv,

    -- * For tests
    connectionCount,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Concurrent.STM (STM, TVar, atomically, newTVarIO, readTVar, readTVarIO, retry, writeTVar)
import Control.Monad (unless, when)
import Data.List (intersectBy)

-- | A channel with one writer and any number of readers.
--
-- [Source]: Figure 7.
data Channel a = Channel
  { -- | How many threads take part in a rendezvous.
    connections :: TVar Int,
    -- | Before the value is written, how many readers have arrived; then, how many have read.
    waitingReaders :: TVar Int,
    written :: TVar Bool,
    allReadsDone :: TVar Bool,
    val :: TVar (Maybe a)
  }

-- | A channel whose only member is the thread that asks for it.
--
-- [Cost]: five variables.
-- [Blocks]: never.
-- [Source]: Figures 6 and 8.
newChannel :: IO (Channel a)
newChannel = Channel <$> newTVarIO 1 <*> newTVarIO 0 <*> newTVarIO False <*> newTVarIO False <*> newTVarIO Nothing

-- | Run two functions at the same time, each given its channels, and wait for both. Channels in both lists
-- get another member meanwhile.
--
-- [Cost]: a thread, a mailbox and two transactions; the lists are compared by pairs.
-- [Blocks]: parks the thread.
-- [Throws]: what the second function throws; see the top of this module.
-- [Source]: Figures 6 and 9.
dPar :: ([Channel a] -> IO b) -> [Channel a] -> ([Channel a] -> IO c) -> [Channel a] -> IO (b, c)
dPar func1 v1 func2 v2 = do
  done <- newEmptyMVar
  let common = intersectBy (\x y -> val x == val y) v1 v2
  atomically (mapM_ (connect 1) common)
  -- Run func1 in the child, and save its result.
  _ <- forkIO (func1 v1 >>= putMVar done)
  -- Run func2 in the parent.
  res2 <- func2 v2
  res1 <- takeMVar done
  atomically (mapM_ (connect (-1)) common)
  pure (res1, res2)

connect :: Int -> Channel a -> STM ()
connect more c = do
  nt <- readTVar (connections c)
  writeTVar (connections c) $! nt + more

-- | Give a value to all other members, when all have arrived.
--
-- [Cost]: two transactions, the first of them tried again at every arrival.
-- [Blocks]: parks the thread until every reader is there and has the value.
-- [Source]: Figures 6 and 12.
dSend :: Channel a -> a -> IO ()
dSend c value = do
  atomically $ do
    wr <- readTVar (waitingReaders c)
    nc <- readTVar (connections c)
    when (wr < nc - 1) retry
    writeTVar (val c) (Just value)
    writeTVar (waitingReaders c) 0
    writeTVar (written c) True
    writeTVar (allReadsDone c) False
  waitForAllReads c

-- | The value of the next send.
--
-- [Cost]: three transactions.
-- [Blocks]: parks the thread until every member is there and has the value.
-- [Source]: Figures 6 and 13.
dRecv :: Channel a -> IO a
dRecv c = do
  atomically $ do
    wr <- readTVar (waitingReaders c)
    writeTVar (waitingReaders c) $! wr + 1
  v <- atomically $ do
    w <- readTVar (written c)
    unless w retry
    -- What is written has a value, so this does not wait.
    value <- readTVar (val c) >>= maybe retry pure
    wr <- readTVar (waitingReaders c)
    writeTVar (waitingReaders c) $! wr + 1
    nc <- readTVar (connections c)
    -- The last reader lets everybody go on.
    when (wr + 1 == nc - 1) $ do
      writeTVar (waitingReaders c) 0
      writeTVar (allReadsDone c) True
      writeTVar (written c) False
    pure value
  waitForAllReads c
  pure v

waitForAllReads :: Channel a -> IO ()
waitForAllReads c = atomically $ do
  ard <- readTVar (allReadsDone c)
  unless ard retry

-- | How many threads take part in a rendezvous now (Figure 10).
--
-- [Cost]: one read.
-- [Blocks]: never.
connectionCount :: Channel a -> IO Int
connectionCount = readTVarIO . connections
