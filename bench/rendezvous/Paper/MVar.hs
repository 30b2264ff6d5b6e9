-- |
-- Module      : Paper.MVar
-- Description : The SHIM paper's library on mailboxes, as a baseline
-- Stability   : frozen
--
-- The library of Vasudevan, Singh and Edwards, /A Deterministic Multi-Way Rendezvous Library for
-- Haskell/, in its second implementation (Figures 14 to 17). It is here to be measured and compared
-- with; programs are better off with @Heddle.Rendezvous@.
--
-- > producerConsumer = do
-- >   c <- newChannel
-- >   dPar (\_ -> mapM_ (dSend c) [1 .. 9 :: Int]) [c] (\_ -> replicateM 9 (dRecv c)) [c]
--
-- The listings are transcribed as they are printed, but for loops that say @unless@ and @replicateM_@.
-- The paper prints no 'dPar' for mailboxes: ours is that of Figure 9 with the count in a mailbox.
--
-- What is wrong with the original is wrong here too:
--
-- * an exception in the first function of 'dPar' loses its result, and the parent waits for ever; one in
--   the second leaves the counts raised, and the first running;
-- * counts fall only when both functions have ended, so a writer that sends once more than its reader
--   receives waits for ever, and so does a reader that receives once more;
-- * two writers, a missing sender and crossed orders end in GHC's @BlockedIndefinitelyOnMVar@, which says
--   neither who waits nor for what, or in nothing at all;
-- * a channel that is named twice in the first list is counted twice;
-- * nothing keeps a function to the channels in its list: one that uses others is not counted on them;
-- * values are sent unevaluated, and their work is done by whoever looks first.
--
-- Unlike the one on transactions, a send on a channel that nobody shares returns.
--
-- Cost: a rendezvous is seven mailbox operations for each reader, and wakes it up to three times.
-- Owner: the garbage collector; a channel needs no closing.
module Paper.MVar
  ( Channel,
    newChannel,
    dPar,
    dSend,
    dRecv,

    -- * For tests
    connectionCount,
  )
where

import Control.Concurrent (MVar, forkIO, modifyMVar_, newEmptyMVar, newMVar, putMVar, readMVar, takeMVar)
import Control.Monad (replicateM_, unless)
import Data.List (intersectBy)

-- | A channel with one writer and any number of readers.
--
-- [Source]: Figure 14.
data Channel a = Channel
  { -- | The value, once for each reader.
    mVal :: MVar a,
    -- | How many threads take part in a rendezvous.
    mVarCount :: MVar Int,
    -- | A reader has arrived.
    mVarBegin :: MVar (),
    -- | A reader may go on.
    mVarEnd :: MVar ()
  }

-- | A channel whose only member is the thread that asks for it.
--
-- [Cost]: four mailboxes.
-- [Blocks]: never.
-- [Source]: Figures 6 and 15.
newChannel :: IO (Channel a)
newChannel = Channel <$> newEmptyMVar <*> newMVar 1 <*> newEmptyMVar <*> newEmptyMVar

-- | Run two functions at the same time, each given its channels, and wait for both. Channels in both lists
-- get another member meanwhile.
--
-- [Cost]: a thread and a mailbox; the lists are compared by pairs.
-- [Blocks]: parks the thread.
-- [Throws]: what the second function throws; see the top of this module.
-- [Source]: Figure 6 has its type, Figure 9 the one on transactions.
dPar :: ([Channel a] -> IO b) -> [Channel a] -> ([Channel a] -> IO c) -> [Channel a] -> IO (b, c)
dPar func1 v1 func2 v2 = do
  done <- newEmptyMVar
  let common = intersectBy (\x y -> mVal x == mVal y) v1 v2
  mapM_ (\c -> modifyMVar_ (mVarCount c) (\n -> pure $! n + 1)) common
  -- Run func1 in the child, and save its result.
  _ <- forkIO (func1 v1 >>= putMVar done)
  -- Run func2 in the parent.
  res2 <- func2 v2
  res1 <- takeMVar done
  mapM_ (\c -> modifyMVar_ (mVarCount c) (\n -> pure $! n - 1)) common
  pure (res1, res2)

-- | Give a value to all other members, when all have arrived.
--
-- [Cost]: four mailbox operations for each reader, and four more.
-- [Blocks]: parks the thread until every reader is there and has the value.
-- [Source]: Figures 6 and 16.
dSend :: Channel a -> a -> IO ()
dSend c value = do
  waitForRecvrsToArrive c 1
  n <- readMVar (mVarCount c)
  replicateM_ (n - 1) (putMVar (mVal c) value)
  -- The box takes one more only when the last reader has emptied it.
  putMVar (mVal c) value
  _ <- takeMVar (mVal c)
  replicateM_ (n - 1) (putMVar (mVarEnd c) ())

-- | Wait for a sign of every reader. The count is read anew each time: a member that has not arrived may
-- become several.
waitForRecvrsToArrive :: Channel a -> Int -> IO ()
waitForRecvrsToArrive c i = do
  count <- readMVar (mVarCount c)
  unless (count == i) $ do
    takeMVar (mVarBegin c)
    waitForRecvrsToArrive c (i + 1)

-- | The value of the next send.
--
-- [Cost]: three mailbox operations.
-- [Blocks]: parks the thread until every member is there and has the value.
-- [Source]: Figures 6 and 17.
dRecv :: Channel a -> IO a
dRecv c = do
  -- Inform the sender, wait for it, wait for its end.
  putMVar (mVarBegin c) ()
  value <- takeMVar (mVal c)
  takeMVar (mVarEnd c)
  pure value

-- | How many threads take part in a rendezvous now (Figure 10).
--
-- [Cost]: one mailbox read.
-- [Blocks]: never for long.
connectionCount :: Channel a -> IO Int
connectionCount = readMVar . mVarCount
