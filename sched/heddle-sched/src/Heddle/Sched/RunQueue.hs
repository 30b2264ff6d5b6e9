-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.RunQueue
-- Description : The run queue: making work ready
-- Stability   : internal
--
-- Two ways to offer work: on the deque, where any worker may steal it, and on the worker's
-- private stack, from which others steal only when the worker stays with one task for long.
--
-- Cost: some stores, nothing locked; reading a word that seldom changes.
-- Owner: each function is for the thread that runs the worker.
module Heddle.Sched.RunQueue
  ( -- * For anybody
    pushWork,
    pushHere,
    resume,

    -- * For the worker itself
    isChained,
    pushPrivately,
    offerAgain,
    resumePrivately,
    takePrivate,

    -- * Chains
    link,
    settleChain,
    putOff,
    isToTurn,
    markVictim,

    -- * The running task
    runningTask,
    become,
    countTask,
    taskCount,
    seedWord,
    parksLeftWord,
    resumedWord,
    workerWordCount,
  )
where

import Control.Monad (when)
import Heddle.Prim.Atomic (atomicRead, atomicWrite, readRef, readWord, writeRef, writeWord)
import Heddle.Sched.Cancel (absorbing, runningWord)
import Heddle.Sched.Deque (push, reserve, scrub)
import Heddle.Sched.Internal.PrivateStack
import Heddle.Sched.Scope
import Heddle.Sched.Sleep (signal, sleepersWord, wakeOne)
import Heddle.Sched.Types

-- | The task that the worker runs; between tasks, the last one that it ran.
--
-- [Cost]: one read.
-- [Threads]: the worker's.
runningTask :: Worker -> IO Task
runningTask w = readRef (workerTask w)
{-# INLINE runningTask #-}

-- | Make another task of the same scope the running one. The caller goes on as that task: from here on
-- an interrupt hits it, and what is thrown is its failure. The scope's counts stay as they are, so
-- the task that ran before must have ended or begun to wait without being counted down.
--
-- [Cost]: a store; no safe point.
-- [Threads]: the worker's; called unmasked or between tasks.
become :: Worker -> Task -> IO ()
become w = writeRef (workerTask w)
{-# INLINE become #-}

-- | Tell idle workers that this one makes progress. A thief that sees the count unchanged for two
-- microseconds concludes that the worker stays with one task, and takes half of its private
-- stack; a library calls this at each operation at which a task may end or wait.
--
-- [Cost]: a read and a store.
-- [Threads]: the worker's.
countTask :: Worker -> IO ()
countTask w = do
  n <- readWord (workerWords w) taskCountWord
  writeWord (workerWords w) taskCountWord (n + 1)
{-# INLINE countTask #-}

-- | Where in 'workerWords', beside those in "Heddle.Sched.Cancel": on the owner's line the seed of
-- the steal loop, how many tasks the worker has run, whether it is in a chain, and how many ends
-- of tasks the chain has put off (and 'Heddle.Sched.Steps.stepsWord'); on the line of the others
-- the task count at which work was last stolen from its private stack, zero once that is more than
-- 'sharedTasks' ago; and on a line of the owner again, what "Heddle.Sched.Backlog" counts.
seedWord, taskCountWord, chainWord, downsWord, victimWord, parksLeftWord, resumedWord, workerWordCount :: Int
seedWord = 2
taskCountWord = 3
chainWord = 4
downsWord = 5
victimWord = 10
parksLeftWord = 16
resumedWord = 17
workerWordCount = 24

-- | After a steal from its private stack: let the victim publish its work on the deque for the next
-- 'sharedTasks' tasks.
--
-- [Threads]: any.
markVictim :: Worker -> IO ()
markVictim victim = taskCount victim >>= atomicWrite (workerWords victim) victimWord . max 1

-- | Must the worker end its chain, because it has been stolen from, or may it begin one again?
--
-- [Cost]: a read or two; no safe point.
isToTurn :: Worker -> Bool -> IO Bool
isToTurn w chained = do
  stolenAt <- readWord (workerWords w) victimWord
  if stolenAt == 0
    then pure False
    else do
      count <- readWord (workerWords w) taskCountWord
      let over = count - stolenAt > sharedTasks
      when over (writeWord (workerWords w) victimWord 0)
      pure (over /= chained)
{-# INLINE isToTurn #-}

-- | For how many tasks a victim publishes its work on the deque after a steal from its private
-- stack, so that the next steal costs one compare-and-set instead of a barrier on all cores.
sharedTasks :: Int
sharedTasks = 100

-- | Push work that is counted already on the deque, and wake a worker for it.
--
-- [Masking]: to be called masked.
pushWork :: Worker -> Work -> IO ()
pushWork w work = do
  reserve (workerDeque w)
  push (workerDeque w) work
  signal w (taskScope (workTask work))

-- | Count a task that has waited as ready, and push its continuation on the deque.
--
-- [Masking]: to be called masked.
resume :: Worker -> Work -> IO ()
resume w work = do
  let s = taskScope (workTask work)
  countUp s w
  countResumed s w
  wanted <- rouse w s
  if wanted then pushWork w work else countDown s w

-- | Count one task more and push its work on the deque. Called unmasked.
--
-- [Cost]: as 'commitFork'; see Note [No safe point].
pushHere :: Worker -> Work -> IO ()
pushHere w !work = do
  -- As in 'pushPrivately'.
  let !s = taskScope (workTask work)
  reserve (workerDeque w)
  countUp s w
  push (workerDeque w) work
  signal w s
{-# NOINLINE pushHere #-}

-- | Does 'pushPrivately' use the private stack now? Only then may work that stands for several
-- tasks be pushed: 'offerAgain' relies on its coming from the private stack.
isChained :: Worker -> IO Bool
isChained w = (/= 0) <$> readWord (workerWords w) chainWord
{-# INLINE isChained #-}

-- | Before a task runs: decide whether it is part of a chain.
link :: Worker -> Scope -> IO ()
link w s = do
  -- A stolen continuation might be the only reference to a long list.
  scrub (workerDeque w)
  -- Zero is the void's: a thief has just taken the entry.
  alike <- topOfPrivate (workerPrivate w) (pure True) (pure . (`elem` [0, scopeId s]) . scopeId . taskScope . workTask)
  let outermost = maybe True (const False) (scopeAround s)
  stolenAt <- readWord (workerWords w) victimWord
  writeWord (workerWords w) chainWord (if isPossible && outermost && not (scopeCuts s) && alike && stolenAt == 0 then 1 else 0)

-- | 'pushHere', but on the private stack while the worker is in a chain.
--
-- [Cost]: some stores; see Note [A chain].
pushPrivately :: Worker -> Work -> IO ()
pushPrivately w !work = do
  -- Now: a thunk for it later would be a safe point between the count and the push.
  let !s = taskScope (workTask work)
  chain <- readWord (workerWords w) chainWord
  if chain == 0
    then pushHere w work
    else do
      -- First, since it may allocate.
      makeRoom (workerPrivate w)
      downs <- readWord (workerWords w) downsWord
      -- One end of a task put off, and one task more: no change.
      if downs > 0
        then writeWord (workerWords w) downsWord (downs - 1)
        else countUp s w
      pushPrivate (workerPrivate w) work
      sleepers <- readWord (workerSleepers w) sleepersWord
      when (sleepers > 0) (wakeOne (workerPool w) s)
{-# NOINLINE pushPrivately #-}

-- | Offer again the work that has just been popped: it stands for several tasks, and the worker goes
-- on as one of them.
--
-- [Cost]: a few stores; see Note [A chain].
offerAgain :: Worker -> Work -> IO ()
offerAgain w work = do
  downs <- readWord (workerWords w) downsWord
  -- It counts in a chain only.
  if downs == 0
    then pushPrivately w work
    else do
      -- One task less and one more.
      writeWord (workerWords w) downsWord (downs - 1)
      putBack (workerPrivate w)
      sleepers <- readWord (workerSleepers w) sleepersWord
      when (sleepers > 0) (wakeFor w work)
{-# INLINE offerAgain #-}

-- | A call, so that no thunk is made before it.
wakeFor :: Worker -> Work -> IO ()
wakeFor w work = wakeOne (workerPool w) (taskScope (workTask work))
{-# NOINLINE wakeFor #-}

-- | 'pushPrivately' between tasks.
--
-- [Masking]: to be called masked.
resumePrivately :: Worker -> Work -> IO ()
resumePrivately w work = do
  chain <- readWord (workerWords w) chainWord
  if chain == 0
    then resume w work
    else do
      let s = taskScope (workTask work)
      makeRoom (workerPrivate w)
      countUp s w
      countResumed s w
      pushPrivate (workerPrivate w) work
      signal w s

-- | Count down what 'finishPrivately' has put off. The running task must be of the chain.
--
-- [Cost]: a read, mostly.
settleChain :: Worker -> IO ()
settleChain w = do
  downs <- readWord (workerWords w) downsWord
  when (downs > 0) $ do
    writeWord (workerWords w) downsWord 0
    t <- readRef (workerTask w)
    countDownBy downs (taskScope t) w
{-# INLINE settleChain #-}

-- | The newest work on the worker's private stack, with a full barrier if there is some.
--
-- [Masking]: to be called masked, between tasks.
takePrivate :: Worker -> IO (Maybe Work)
takePrivate w = do
  none <- isEmptied (workerPrivate w)
  if none
    then pure Nothing
    else do
      -- For 'settle', since 'popPrivate' is none.
      atomicWrite (workerWords w) runningWord 0
      popPrivate (workerPrivate w) (absorbing (popSlowly (workerPrivate w))) (pure . Just)

-- | How far the worker has come with its tasks.
--
-- [Threads]: any.
taskCount :: Worker -> IO Int
taskCount w = atomicRead (workerWords w) taskCountWord

-- | One end of a task more to be counted later.
--
-- [Cost]: a read and a store.
putOff :: Worker -> IO ()
putOff w = do
  downs <- readWord (workerWords w) downsWord
  writeWord (workerWords w) downsWord (downs + 1)
{-# INLINE putOff #-}

-- Note [A chain]
-- ~~~~~~~~~~~~~~
-- As long as a worker goes from one task of its private stack to the next, it omits most of what
-- 'finish' does. All of them belong to one run, to no scope inside it, and nothing is cut
-- off in it: an interrupt of one of them ends the whole run. So an interrupt may hit the next
-- task instead, there is no handshake, and 'runningWord' stays 1. Cancelling the run
-- interrupts every worker that runs a task of it, so the scope's flags are not read either:
-- the chain ends by that interrupt, and 'start' drops what is left of it.
--
-- The ends of tasks are counted when the chain ends, in 'settleChain'; too many tasks are
-- counted until then, never too few. That a task ends and a piece of work that stands for
-- several is offered again is no change at all.
--
-- Work that stands for several is pushed in a chain only. So it comes from a private stack:
-- lifted by 'finishPrivately', in which case at least one end of a task is put off, and
-- putting it back is enough; or by 'start', which puts off none, and then it is pushed.
--
-- 'link' begins a chain where the task is of that kind, what lies on the private stack is
-- of the same run, and no thief has lately stolen from that. It then uses the deque, on which
-- work that stands for several must not come: a worker that has some spreads it before.
