-- |
-- Module      : Heddle.Rendezvous.Internal.Channel
-- Description : The rendezvous
-- Stability   : internal
--
-- Every member of a channel stores its continuation in a slot of its own and counts down the
-- channel's word; the last member to arrive finds all others there, makes them ready to go on,
-- and goes on itself. See Note [A step].
--
-- Cost: an arrival is one store and one fetch-and-add, the last one's not even that; a
-- resumption one push and pop of the worker's private stack. No thread is woken.
-- Owner: a slot belongs to its member, or to the last member to arrive, never to both.
module Heddle.Rendezvous.Internal.Channel
  ( newChannel,
    send',
    receive,

    -- * Words
    stateWord,
    reportWord,
    newBlockWords,
    keptWord,

    -- * Going
    leaveAll,

    -- * Ending a branch
    throwIn,
    endBranch,
    crashed,

    -- * Random schedules
    random,
    shuffle,
    nextAt,
  )
where

import Control.Monad (forM, forM_, void, when)
import Data.Bits (shiftR, xor, (.&.))
import Data.IntMap.Strict qualified as IntMap
import Data.List (sortOn)
import Heddle.Prim.Atomic
  ( Places,
    Words,
    atomicRead,
    fetchAdd,
    fetchOr,
    modifyRef,
    newPlaces,
    newRef,
    newWords,
    placeCount,
    readAcquire,
    readPlace,
    readRef,
    readWord,
    writePlace,
    writeRelease,
    writeWord,
  )
import Heddle.Prim.Exception (Exception (..), SomeException, bug, unsafeMask)
import Heddle.Prim.Lock (newLock, withLock)
import Heddle.Rendezvous.Internal.Exception (Poisoned (..), WriterEnded (..))
import Heddle.Rendezvous.Internal.Types
import Heddle.Sched
  ( Scope,
    Work,
    Worker,
    absorbing,
    become,
    countTask,
    finishPrivately,
    isChained,
    next,
    nextOldest,
    offerAgain,
    pause,
    pushPrivately,
    resume,
    resumePrivately,
    runningTask,
    start,
    taskScope,
    workOf,
  )

-- | A channel whose only member is its creator.
--
-- [Cost]: 400 bytes.
newChannel :: Branch -> String -> IO (End a)
newChannel b name = do
  word <- newChannelWords
  writeWord word stateWord (oneMember + maybe 0 (const chaosFlag) (branchChaos b))
  lock <- newLock
  slots <- newPlaces 1 Vacant
  branches <- newPlaces 1 b
  inner <- newRef IntMap.empty
  counts <- newBlockWords 1
  let channel = Channel {channelName = name, channelWord = word, channelLock = lock, channelRoot = block}
      block =
        Block
          { blockWord = word,
            blockSlots = slots,
            blockSize = 1,
            blockBranches = branches,
            blockInner = inner,
            blockWords = counts,
            blockWrites = True,
            blockChannel = channel,
            blockAbove = Nothing
          }
  pure (End block 0)

-- Words ----------------------------------------------------------------------

-- | The words of a channel: its state, see 'wordPending', and one for the use of a deadlock
-- report. They have a cache line to themselves, since all members write there.
newChannelWords :: IO Words
newChannelWords = newWords 8

stateWord, reportWord :: Int
stateWord = 0
reportWord = 1

-- | The words of a block, given how many of its seats are taken: that number; whether its writer
-- has ended; of a batch, the next slot and how many members are left; and how many frames up the
-- writer's end was kept, when seat 0 was lent without it.
newBlockWords :: Int -> IO Words
newBlockWords taken = do
  ws <- newWords (keptWord + 1)
  ws <$ writeWord ws takenWord taken

takenWord, endedWord, cursorWord, leftWord, keptWord :: Int
takenWord = 0
endedWord = 1
cursorWord = 2
leftWord = 3
keptWord = 4

-- Arriving -------------------------------------------------------------------

-- | Arrive with a value, as the writer.
--
-- [Blocks]: the branch, until every member has arrived.
send' :: End a -> a -> Branch -> Worker -> (Worker -> () -> IO ()) -> IO ()
send' (End block i) a b w k = do
  countTask w
  x <- readAcquire (blockWord block) stateWord
  if isLast x
    then writeLast block a x w >> k w ()
    else
      if isMarked x
        then slowly block i (\step -> Sender b step k a) b w
        else do
          writePlace (blockSlots block) i (Sender b (wordParity x) k a)
          before <- fetchAdd (blockWord block) stateWord (-1)
          if isLast before
            then do
              writePlace (blockSlots block) i Vacant
              writeLast block a before w
              k w ()
            else arrived block i before b w
{-# NOINLINE send' #-}

-- | Arrive for a value, as a reader.
--
-- [Blocks]: the branch, until every member has arrived.
receive :: End a -> Branch -> Worker -> (Worker -> a -> IO ()) -> IO ()
receive (End block i) b w k = do
  countTask w
  x <- readAcquire (blockWord block) stateWord
  if isLast x
    then
      readPlace (blockSlots block) 0 >>= \case
        Sender b' _ k' a -> do
          readLast block b' k' a x w
          k w a
        _ -> slowly block i (\step -> Receiver b step k) b w
    else
      if isMarked x
        then slowly block i (\step -> Receiver b step k) b w
        else do
          writePlace (blockSlots block) i (Receiver b (wordParity x) k)
          before <- fetchAdd (blockWord block) stateWord (-1)
          if isLast before
            then
              readPlace (blockSlots block) 0 >>= \case
                Sender b' _ k' a -> do
                  writePlace (blockSlots block) i Vacant
                  readLast block b' k' a before w
                  k w a
                _ -> arrivedLast block b w
            else arrived block i before b w
{-# NOINLINE receive #-}

-- | Complete a step when the writer arrives last: begin the next step, and make the readers ready.
writeLast :: Block a -> a -> Int -> Worker -> IO ()
writeLast block a x w = do
  writeRelease (blockWord block) stateWord (freshStep x)
  case wordEnrolled x of
    1 -> pure ()
    2
      | blockSize block == 2 ->
        readPlace (blockSlots block) 1 >>= \case
          Receiver b' _ k' -> do
            writePlace (blockSlots block) 1 Vacant
            pushPrivately w (workOf (branchTask b') k' a)
          _ -> lost block
    n -> batch block a (n - 1) (wordParity x) w
{-# INLINE writeLast #-}

-- | All members of a step have arrived, and a slot is empty: a bug of this module.
lost :: Block a -> IO b
lost block = bug ("channel " ++ show (channelName (blockChannel block)) ++ ": a member that has arrived is not in its slot")
{-# NOINLINE lost #-}

-- | Complete a step when a reader arrives last; the branch and its continuation are the writer's.
readLast :: Block a -> Branch -> (Worker -> () -> IO ()) -> a -> Int -> Worker -> IO ()
readLast block b' k' a x w = do
  writeRelease (blockWord block) stateWord (freshStep x)
  case wordEnrolled x of
    2 -> do
      writePlace (blockSlots block) 0 Vacant
      pushPrivately w (workOf (branchTask b') k' ())
    n -> batch block a (n - 1) (wordParity x) w
{-# INLINE readLast #-}

-- | The members of a step that are still to be resumed, as one piece of work: it resumes one of
-- them and offers the others again. See Note [A batch].
data Batch a = Batch
  { batchSlots :: !(Places (Slot a)),
    -- | The block's: where it is, and how many are left.
    batchWords :: !Words,
    -- | The step's.
    batchParity :: !Int,
    batchValue :: a,
    batchAgain :: Work
  }

-- | Resume the members that have arrived for a step, as one piece of work if the worker is in a chain.
batch :: Block a -> a -> Int -> Int -> Worker -> IO ()
batch block a n parity w = do
  chained <- isChained w
  if chained
    then do
      writeWord (blockWords block) cursorWord 0
      writeWord (blockWords block) leftWord n
      t <- runningTask w
      let again = workOf t drain (Batch (blockSlots block) (blockWords block) parity a again)
      pushPrivately w again
    else oneByOne (blockSlots block) a parity 0 w
{-# NOINLINE batch #-}

-- | Resume the members from one seat on, each as a piece of work of its own.
oneByOne :: Places (Slot a) -> a -> Int -> Int -> Worker -> IO ()
oneByOne slots a parity from w = forM_ [from .. placeCount slots - 1] $ \at ->
  readPlace slots at >>= \case
    Receiver b step k | step == parity -> writePlace slots at Vacant >> pushPrivately w (workOf (branchTask b) k a)
    Sender b step k _ | step == parity -> writePlace slots at Vacant >> pushPrivately w (workOf (branchTask b) k ())
    _ -> pure ()
{-# NOINLINE oneByOne #-}

drain :: Worker -> Batch a -> IO ()
drain w b = do
  at <- readWord (batchWords b) cursorWord
  readPlace (batchSlots b) at >>= \case
    Receiver me step k | step == batchParity b -> do
      advance w b at me
      k w (batchValue b)
    Sender me step k _ | step == batchParity b -> do
      advance w b at me
      k w ()
    _ | at + 1 == placeCount (batchSlots b) -> bug "a batch has fewer members than it counts"
    _ -> do
      writeWord (batchWords b) cursorWord (at + 1)
      drain w b

-- | Take one member out of a batch, offer the others again, and go on as that member.
advance :: Worker -> Batch a -> Int -> Branch -> IO ()
advance w b at me = do
  left <- readWord (batchWords b) leftWord
  writePlace (batchSlots b) at Vacant
  writeWord (batchWords b) cursorWord (at + 1)
  writeWord (batchWords b) leftWord (left - 1)
  when (left > 1) $ do
    chained <- isChained w
    if chained then offerAgain w (batchAgain b) else spread w b
  become w (branchTask me)
{-# INLINE advance #-}

-- | After a steal the worker is no longer in a chain, so it pushes on its deque, where a batch must
-- not come: push the members one by one.
spread :: Worker -> Batch a -> IO ()
spread w b = readWord (batchWords b) cursorWord >>= \at -> oneByOne (batchSlots b) (batchValue b) (batchParity b) at w
{-# NOINLINE spread #-}

-- | After an arrival that was not the last: wait, unless a member has thrown.
arrived :: Block a -> Int -> Int -> Branch -> Worker -> IO ()
arrived block i before b w
  | isPoisoned before = tooLate block i b w
  | wordPending before == 1 = arrivedLast block b w
  | otherwise = finishPrivately w
{-# INLINE arrived #-}

-- The long way ---------------------------------------------------------------

-- | The last arrival at a marked channel, or at one where no member sends.
arrivedLast :: Block a -> Branch -> Worker -> IO ()
arrivedLast block b w = apart w $ \s -> do
  works <- locked block w (complete (blockChannel block))
  release b w works
  nextAt b w s
{-# NOINLINE arrivedLast #-}

-- | A member threw while this one arrived. If the thrower found it in its slot, it is being resumed
-- already.
tooLate :: Block a -> Int -> Branch -> Worker -> IO ()
tooLate block i b w = apart w $ \s -> do
  mine <- locked block w $ do
    x <- atomicRead (blockWord block) stateWord
    brought block (wordParity x) i >>= \case
      Receiver {} -> True <$ writePlace (blockSlots block) i Vacant
      Sender {} -> True <$ writePlace (blockSlots block) i Vacant
      -- Vacant; or the branch has been resumed already, and is planning a par.
      _ -> pure False
  if mine then start w (poisonedWork block b) else next w s
{-# NOINLINE tooLate #-}

-- | Arrive at a channel that is marked, or where no member sends.
slowly :: Block a -> Int -> (Int -> Slot a) -> Branch -> Worker -> IO ()
slowly block i slot b w = apart w $ \s -> do
  later <- case branchChaos b of
    Just seed -> (== 0) <$> random seed 2
    Nothing -> pure False
  if later
    then do
      resume w (workOf (branchTask b) (\w' () -> slowly block i slot b w') ())
      nextAt b w s
    else do
      went <- locked block w $ do
        x <- atomicRead (blockWord block) stateWord
        if isPoisoned x
          then pure Nothing
          else do
            writePlace (blockSlots block) i (slot (wordParity x))
            before <- fetchAdd (blockWord block) stateWord (-1)
            Just <$> if wordPending before == 1 then complete (blockChannel block) else pure []
      case went of
        Nothing -> start w (poisonedWork block b)
        Just works -> do
          release b w works
          nextAt b w s
{-# NOINLINE slowly #-}

-- | Leave the running task where it is: from here on the worker is between tasks.
apart :: Worker -> (Scope -> IO a) -> IO a
apart w body = unsafeMask $ do
  pause w
  t <- runningTask w
  body (taskScope t)

-- | With the channel's lock.
--
-- [Masking]: to be called masked, between tasks.
locked :: Block a -> Worker -> IO b -> IO b
locked block _ body = absorbing (withLock (channelLock (blockChannel block)) body)

release :: Branch -> Worker -> [Work] -> IO ()
release b w works = case branchChaos b of
  Nothing -> mapM_ (resumePrivately w) works
  chaos -> shuffle chaos works >>= mapM_ (resume w)

poisonedWork :: Block a -> Branch -> Work
poisonedWork block b = failing b (Poisoned (channelName (blockChannel block)))

failing :: Exception e => Branch -> e -> Work
failing b e = workOf (branchTask b) (\w () -> throwIn b w (Failure (branchPath b) False (toException e))) ()

-- | All members have arrived. If one of them sends, that is a step. If not, those that share a
-- block with a writer that has ended get 'WriterEnded'; the others go on waiting.
--
-- [Cost]: O(members).
-- [Threads]: with the lock.
complete :: Channel a -> IO [Work]
complete channel = do
  x <- atomicRead (channelWord channel) stateWord
  present <- attendance channel
  case [a | Present {presentBrings = Just a} <- present] of
    a : _ -> do
      mapM_ vacate present
      writeRelease (channelWord channel) stateWord (freshStep x)
      pure [presentGoOn p a | p <- present]
    [] -> forM [p | p <- present, presentTold p] $ \p -> do
      vacate p
      void (fetchAdd (channelWord channel) stateWord 1)
      pure (failing (presentBranch p) (WriterEnded (channelName channel)))

-- | A member that has arrived.
data Present a = Present
  { presentBlock :: !(Block a),
    presentSeat :: !Int,
    -- | Has a writer ended in this block, or in one around it?
    presentTold :: !Bool,
    presentBranch :: !Branch,
    presentBrings :: !(Maybe a),
    presentGoOn :: a -> Work
  }

-- | The members that have arrived.
--
-- [Cost]: O(members).
-- [Threads]: with the lock, while a member has not arrived, or all have.
attendance :: Channel a -> IO [Present a]
attendance channel = do
  x <- atomicRead (channelWord channel) stateWord
  let look over block = do
        ended <- (|| over) . (/= 0) <$> readWord (blockWords block) endedWord
        here <- forM [0 .. blockSize block - 1] $ \i ->
          present block i ended <$> brought block (wordParity x) i
        inside <- readRef (blockInner block) >>= mapM (look ended) . IntMap.elems
        pure (concat here ++ concat inside)
  look False (channelRoot channel)
  where
    present block i ended = \case
      Receiver b _ k -> [Present block i ended b Nothing (workOf (branchTask b) k)]
      Sender b _ k a -> [Present block i ended b (Just a) (\_ -> workOf (branchTask b) k ())]
      _ -> []

vacate :: Present a -> IO ()
vacate p = writePlace (blockSlots (presentBlock p)) (presentSeat p) Vacant

-- Going ----------------------------------------------------------------------

-- | Leave every channel, poisoned if the branch has thrown; what becomes ready by that.
--
-- [Cost]: a lock for each.
-- [Masking]: to be called masked, between tasks.
leaveAll :: Branch -> Bool -> Worker -> IO [Work]
leaveAll b poison w = case b of
  Top {} -> pure []
  Branch _ frame holds -> leaveThem frame holds poison w
  Handling _ _ inner -> leaveAll inner poison w

leaveThem :: Frame -> Holds -> Bool -> Worker -> IO [Work]
leaveThem frame holds poison w = go holds
  where
    go Nothing' = pure []
    go (Hold block marks) = from block marks
    go (Holds block marks more) = (++) <$> from block marks <*> go more
    from block marks = locked block w $ do
      poisoned <- if poison then poisonChannel (blockChannel block) else pure []
      (poisoned ++)
        <$> if holdLent marks
          then [] <$ giveBack block (holdSeat marks)
          else leave block (holdSeat marks) (holdWrites marks)
    giveBack block i = do
      writePlace (blockBranches block) i (frameParent frame)
      when (i == 0) $ do
        kept <- readWord (blockWords block) keptWord
        when (kept > 0) (writeWord (blockWords block) keptWord (kept - 1))

-- | One member less. The last to leave a block leaves its place to the parent, which has not
-- arrived.
--
-- [Threads]: with the lock.
leave :: Block a -> Int -> Bool -> IO [Work]
leave block i writes = do
  forM_ (blockAbove block) (\(Above _ _ parent) -> writePlace (blockBranches block) i parent)
  when writes (writeWord (blockWords block) endedWord 1)
  taken <- subtract 1 <$> readWord (blockWords block) takenWord
  writeWord (blockWords block) takenWord taken
  case blockAbove block of
    Just (Above above seat _) | taken == 0 -> do
      modifyRef (blockInner above) (\inner -> (IntMap.delete seat inner, ()))
      x <- atomicRead word stateWord
      single <- isSingle (channelRoot channel)
      when (x .&. treeFlag /= 0 && single) (void (fetchAdd word stateWord (-treeFlag)))
      pure []
    _ -> do
      x <- atomicRead word stateWord
      if isPoisoned x
        then pure []
        else do
          before <- fetchAdd word stateWord (-oneMember)
          if wordPending before == 1 then complete channel else pure []
  where
    channel = blockChannel block
    word = channelWord channel

-- | Do all members sit in one block?
isSingle :: Block a -> IO Bool
isSingle block = do
  inner <- readRef (blockInner block)
  taken <- readWord (blockWords block) takenWord
  case IntMap.minView inner of
    Nothing -> pure True
    Just (only, others) | IntMap.null others, taken == 1 -> isSingle only
    _ -> pure False

-- | Mark a channel: no value passes over it any more, and every member that waits or arrives gets
-- 'Poisoned'.
--
-- [Threads]: with the lock.
poisonChannel :: Channel a -> IO [Work]
poisonChannel channel = do
  before <- fetchOr (channelWord channel) stateWord poisonFlag
  if isPoisoned before
    then pure []
    else do
      present <- attendance channel
      forM present $ \p -> do
        vacate p
        pure (failing (presentBranch p) (Poisoned (channelName channel)))

-- Ending a branch ------------------------------------------------------------

-- | Throw to the innermost handler of a branch, which may be its end.
throwIn :: Branch -> Worker -> Failure -> IO ()
throwIn b w f = case b of
  Handling _ handle _ | not (failureCrash f) -> handle w f
  _ -> endBranch b (Just f) w

-- | End a branch; the last of its frame to end goes on as the parent.
endBranch :: Branch -> Maybe Failure -> Worker -> IO ()
endBranch b failure w = case b of
  Top {_topEnd = end} -> mapM_ (end w) failure
  Handling _ _ inner -> endBranch inner failure w
  Branch _ frame holds -> case holds of
    Nothing' -> do
      setDoing b Ended'
      forM_ failure (\f -> modifyRef (frameFailures frame) (\fs -> ((branchNumber b, f) : fs, ())))
      left <- fetchAdd (frameLeft frame) 0 (-1)
      if left == 1
        then become w (branchTask (frameParent frame)) >> frameEnd frame w
        else finishPrivately w
    _ -> apart w $ \s -> do
      lastOne <- leaving b failure w
      if lastOne then start w (workOf (branchTask (frameParent frame)) (\w' () -> frameEnd frame w') ()) else nextAt b w s

-- | Leave a frame; was this the last branch in it?
--
-- [Masking]: to be called masked, between tasks.
leaving :: Branch -> Maybe Failure -> Worker -> IO Bool
leaving b failure w = case b of
  Top {} -> pure False
  Handling _ _ inner -> leaving inner failure w
  Branch _ frame _ -> do
    works <- leaveAll b (maybe False (const True) failure) w
    release b w works
    setDoing b Ended'
    forM_ failure (\f -> modifyRef (frameFailures frame) (\fs -> ((branchNumber b, f) : fs, ())))
    (== 1) <$> fetchAdd (frameLeft frame) 0 (-1)

-- | Pure code in the branch has thrown.
--
-- [Masking]: to be called masked, between tasks.
crashed :: Branch -> Worker -> SomeException -> IO ()
crashed b w e = case b of
  Top {} -> pure ()
  Handling _ _ inner -> crashed inner w e
  Branch _ frame _ -> do
    lastOne <- leaving b (Just (Failure (branchPath b) True e)) w
    when lastOne $
      resume w (workOf (branchTask (frameParent frame)) (\w' () -> frameEnd frame w') ())

-- Random schedules -----------------------------------------------------------

-- | A number below the bound, from a seed that all workers share.
random :: Words -> Int -> IO Int
random seed bound = do
  x <- fetchAdd seed 0 0x1e3779b97f4a7c15
  let a = (x `xor` (x `shiftR` 30)) * 0x3f58476d1ce4e5b9
      c = (a `xor` (a `shiftR` 27)) * 0x14d049bb133111eb
  pure (((c `xor` (c `shiftR` 31)) .&. maxBound) `rem` bound)

-- | Shuffle a list, if the schedule is random.
shuffle :: Maybe Words -> [a] -> IO [a]
shuffle chaos xs = case chaos of
  Just seed | not (null (drop 1 xs)) -> do
    keys <- mapM (const (random seed maxBound)) xs
    pure (map snd (sortOn fst (zip keys xs)))
  _ -> pure xs

-- | Go on with the newest work; with the oldest, half of the time, if the schedule is
-- random.
--
-- [Masking]: to be called masked, between tasks.
nextAt :: Branch -> Worker -> Scope -> IO ()
nextAt b w s = case branchChaos b of
  Nothing -> next w s
  Just seed -> do
    old <- (== 0) <$> random seed 2
    if old then nextOldest w s else next w s

-- Note [A step]
-- ~~~~~~~~~~~~~
-- The channel's word counts the members that have not arrived. A member stores its
-- continuation in its own slot, then counts itself down by a fetch-and-add, which releases the
-- slot. The last member acquires the word, by its own fetch-and-add or by 'readAcquire', and so
-- sees every slot. Between that moment and the new step no thread touches the word: only a member
-- that has not arrived may arrive, leave or share its seat, and there is none. So the
-- new step needs no locked instruction: a release store, which is a plain one on x86-64.
-- What the last member stores after it (emptied slots, a batch's words) reaches the others
-- with the work that resumes them, which is pushed later still.
--
-- A member that reads that it alone is missing knows that this remains so until it arrives
-- itself, and saves its fetch-and-add: two parties pay one for each step.
--
-- Only running members change the set of members, and hold the lock meanwhile, since two
-- may do so at once. They count in the same word, with fetch-and-adds, because other members
-- arrive at the same time.
--
-- Determinism: every member arrives and goes in the order of its own program, and what a
-- step brings depends only on which members take part. Only poison is not a step: it comes as
-- soon as a member throws, without waiting for the others, but it means the same for a member at
-- whatever time: the step that needed the thrower fails. So does every later one, for every
-- member, since the others cannot know when the thrower's parent would be back in its place.
--
-- Note [A batch]
-- ~~~~~~~~~~~~~~
-- After a step of many members they are not pushed one by one: one piece of work goes
-- through the slots, and before it goes on as a member it offers itself again, for
-- the worker's next pop or for a thief. Members that have been resumed, and the one that came last and
-- is not in the batch, may have arrived for the next step by then; so each slot says by its parity of which step it is. No
-- member arrives for the step after that one before all have arrived for that one.
