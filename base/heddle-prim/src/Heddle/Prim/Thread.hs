{-# LANGUAGE MagicHash #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE UnboxedTuples #-}
-- For 'safePoint': without this flag, a function that allocates nothing is no safe point.
{-# OPTIONS_GHC -fno-omit-yields #-}

-- |
-- Module      : Heddle.Prim.Thread
-- Description : Labelled threads and capabilities
-- Stability   : stable
--
-- Every thread of Heddle has a name: package, role, capability
-- (@io/manager/3@). Children start unmasked, whatever their parent's state.
--
-- Cost: a fork is about 200 ns and 1.2 KB.
-- Owner: the scheduler.
module Heddle.Prim.Thread
  ( -- * Starting
    ThreadId,
    fork,
    forkOn,
    forkUnlabelledOn,
    forkMasked,
    forkMaskedOn,
    forkBound,

    -- * The calling thread
    myThreadId,
    WeakThread,
    myWeakThread,
    strongThread,
    myCapability,
    labelMe,
    yield,
    safePoint,
    nap,
    unbound,

    -- * Sparks
    spark,

    -- * The runtime
    getProcessors,
    getCapabilities,
    setCapabilities,
    raiseCapabilities,
    startEventManager,
    awaitTicker,
    threadedRuntime,
    processGeneration,
  )
where

import Control.Concurrent
  ( ThreadId,
    forkIOWithUnmask,
    forkOS,
    forkOnWithUnmask,
    getNumCapabilities,
    isCurrentThreadBound,
    mkWeakThreadId,
    myThreadId,
    rtsSupportsBoundThreads,
    runInUnboundThread,
    threadCapability,
    yield,
  )
import Control.Monad (unless, when)
import Data.Int (Int64)
import Data.Version (makeVersion)
import Data.Word (Word32)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek)
import GHC.Conc (getNumProcessors, labelThread)
import GHC.Conc.IO (ensureIOManagerIsRunning)
import GHC.Exts (Int (I#), Int#, spark#)
import GHC.IO (IO (..))
import GHC.RTS.Flags (MiscFlags (tickInterval), getMiscFlags)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock (Nanos (..))
import Heddle.Prim.Exception (finally, mask_)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import System.Info (compilerVersion)
import System.Mem (performMinorGC)
import System.Mem.Weak (Weak, deRefWeak)

-- | Start a labelled thread that the scheduler may move.
--
-- [Cost]: about 200 ns; 1.2 KB.
-- [Blocks]: never.
fork :: String -> IO () -> IO ThreadId
fork name body = do
  t <- forkIOWithUnmask (\unmask -> unmask body)
  labelThread t name
  pure t

-- | Start a labelled thread that is bound to its own OS thread, with the caller's masking state: for
-- libraries that must be called from one OS thread.
--
-- [Cost]: tens of microseconds; its switches to and from other threads cost as much.
-- [Throws]: an 'IOError' if the runtime is not threaded.
forkBound :: String -> IO () -> IO ThreadId
forkBound name body = do
  t <- forkOS (leaveDisabled >> body)
  labelThread t name
  pure t

-- | Start a labelled thread that stays on one capability.
--
-- [Cost]: about 200 ns; 1.2 KB.
-- [Blocks]: never.
forkOn :: Int -> String -> IO () -> IO ThreadId
forkOn capability name body = do
  t <- forkUnlabelledOn capability body
  labelThread t name
  pure t

-- | 'forkOn' without the label, whose memory the runtime frees only with the
-- thread; the body labels itself with 'labelMe' if it lives long.
--
-- [Cost]: about 150 ns; 1.1 KB.
-- [Blocks]: never.
forkUnlabelledOn :: Int -> IO () -> IO ThreadId
forkUnlabelledOn capability body = forkOnWithUnmask capability (\unmask -> unmask body)
{-# INLINE forkUnlabelledOn #-}

-- | Start a thread that is masked until it applies its argument, so that the body can install handlers
-- first. It has no label, and the scheduler may move it.
--
-- [Cost]: about 150 ns; 1.1 KB.
-- [Blocks]: never.
-- [Masking]: the thread begins masked; the argument unmasks.
forkMasked :: ((forall a. IO a -> IO a) -> IO ()) -> IO ThreadId
forkMasked body = mask_ (forkIOWithUnmask body)
{-# INLINE forkMasked #-}

-- | 'forkMasked' on one capability, where the thread stays.
--
-- [Cost]: about 150 ns; 1.1 KB.
-- [Blocks]: never.
-- [Masking]: the thread begins masked; the argument unmasks.
forkMaskedOn :: Int -> ((forall a. IO a -> IO a) -> IO ()) -> IO ThreadId
forkMaskedOn capability body = mask_ (forkOnWithUnmask capability body)
{-# INLINE forkMaskedOn #-}

-- | Name the calling thread.
--
-- [Cost]: copies the name into the C heap.
labelMe :: String -> IO ()
labelMe name = myThreadId >>= \t -> labelThread t name

-- | Run an action on a thread that is not bound to an OS thread. A program's main thread is bound, and a
-- switch to a bound thread takes 13 to 40 microseconds. Exceptions are passed on in both directions.
--
-- [Cost]: a thread, if the calling one is bound.
unbound :: IO a -> IO a
unbound = runInUnboundThread

-- | A reference to a thread that does not keep it alive. A 'ThreadId' does, and the runtime then cannot
-- detect that the thread is blocked for ever.
newtype WeakThread = WeakThread (Weak ThreadId)

-- | The calling thread.
--
-- [Cost]: about 100 ns; each collection visits it.
myWeakThread :: IO WeakThread
myWeakThread = WeakThread <$> (myThreadId >>= mkWeakThreadId)

-- | The thread, unless it has ended and was collected.
strongThread :: WeakThread -> IO (Maybe ThreadId)
strongThread (WeakThread weak) = deRefWeak weak

-- | The capability that the caller runs on now.
--
-- [Cost]: O(1). A thread that is not pinned may move before it uses the result.
myCapability :: IO Int
myCapability = fst <$> (myThreadId >>= threadCapability)

-- | Returns its argument, and is a safe point: the runtime can switch threads, collect garbage, or raise
-- an exception that another thread throws to this one. A loop that allocates nothing has no safe point
-- otherwise. It must continue with the result, so that the optimiser cannot remove the call. (This is a
-- function because an action would make the loop keep its state in memory: GHC assumes that code after
-- an action may never run.)
--
-- [Cost]: 1 ns when the runtime wants nothing; 0 bytes.
-- [Blocks]: never.
-- [Masking]: asynchronous exceptions are raised here, unless masked.
safePoint :: Int -> Int
safePoint (I# n) = I# (safePoint# n)
{-# INLINE safePoint #-}

safePoint# :: Int# -> Int#
safePoint# n = n
{-# NOINLINE safePoint# #-}

-- | Sleep in the operating system, without the event manager: for a thread that polls. Do not use it to
-- wait for an event.
--
-- [Blocks]: holds an OS thread, but not the capability.
-- [Masking]: not interruptible.
nap :: Nanos -> IO ()
nap (Nanos n) = c_nap (fromIntegral n)

-- | Offer a value to the runtime, which may evaluate it to weak head normal form on an idle capability.
-- Nothing waits for the evaluation. Each capability keeps the last 4,096 sparks and drops further ones; the
-- collector drops those that are evaluated or otherwise unreachable. An exception of the evaluation is
-- thrown to the thread that needs the value.
--
-- [Cost]: about 10 ns; nothing if the value is evaluated.
-- [Blocks]: never.
spark :: a -> IO ()
spark a = IO (\s -> case spark# a s of (# s', _ #) -> (# s', () #))
{-# INLINE spark #-}

-- | The number of processors in this process's affinity mask.
getProcessors :: IO Int
getProcessors = getNumProcessors

-- | The number of capabilities.
getCapabilities :: IO Int
getCapabilities = getNumCapabilities

-- | Set the number of capabilities, at any time. Use this rather than base's
-- @setNumCapabilities@, which in GHC 9.0 may never return if other threads are busy; see
-- Note [Changing capabilities]. Other bound threads than the caller that are left on a disabled capability
-- may be delayed until the next collection (an idle program's comes after 0.3 seconds; with @-I0@ perhaps never).
--
-- [Cost]: some 100 microseconds for each new one; a minor collection if the caller must leave a disabled one.
-- [Blocks]: stops all capabilities for a moment; waits for another such call.
-- [Throws]: 'IOError' if the number is not positive, or if descriptors are too few for a program
-- without GHC's event manager to start it.
setCapabilities :: Int -> IO ()
setCapabilities n
  | n <= 0 = ioError (userError ("setCapabilities: " ++ show n ++ " capabilities"))
  | otherwise = do
    -- The runtime notifies the event manager of the change, and fails if there is none.
    startEventManager
    withLock changing (c_setCapabilities (fromIntegral n))
    leaveDisabled

-- | 'setCapabilities' to a larger number, once, in a program that began with one capability and without GHC's event manager:
-- it stays without. (The runtime's notice finds no manager to be told and is dropped; one that is started later
-- has the new number.)
--
-- [Cost]: some 100 microseconds, and a thread of the system, for each new one.
-- [Blocks]: stops the capability for a moment.
-- [Throws]: 'IOError' if the number is not positive.
-- [Threads]: the program's only one.
raiseCapabilities :: Int -> IO ()
raiseCapabilities n
  | n <= 0 = ioError (userError ("raiseCapabilities: " ++ show n ++ " capabilities"))
  | otherwise = withLock changing (c_setCapabilities (fromIntegral n))

-- | Move the calling thread, if it is bound, away from a disabled capability; see Note [Changing capabilities].
leaveDisabled :: IO ()
leaveDisabled = do
  stranded <- isStranded
  bound <- isCurrentThreadBound
  when (stranded && bound) $ do
    arrived <- newRef False
    let collect = readRef arrived >>= \done -> unless done (performMinorGC >> collect)
        wait = isStranded >>= \still -> when still (yield >> wait)
    _ <- forkOn 0 "prim/capabilities" collect
    wait `finally` writeRef arrived True
  where
    isStranded = (>=) <$> myCapability <*> getCapabilities

-- | One change at a time: the next could disable the capability on which the event manager is being
-- notified.
changing :: Lock
changing = unsafeGlobal newLock
{-# NOINLINE changing #-}

-- | Start GHC's event manager in a program that started without it. Handles and 'threadDelay' need it. (The
-- runtime starts it itself, unless the program's C @main@ prevents that.)
--
-- [Cost]: O(1) if it runs; otherwise three OS threads, and four descriptors for each capability and for its
-- timers.
-- [Blocks]: never.
-- [Throws]: 'IOError' if descriptors are too few.
startEventManager :: IO ()
startEventManager = ensureIOManagerIsRunning

-- | Wait until the runtime's timer has its descriptor, in a program that may run out of descriptors. GHC before
-- 9.4 opens it in a thread of its own, when that first runs, and aborts if there is none left
-- (<https://gitlab.haskell.org/ghc/ghc/-/issues/20618>).
--
-- [Cost]: with such a compiler, five system calls and one for each open descriptor; otherwise none.
-- [Blocks]: until the timer's thread has run, which on a busy machine takes milliseconds; at most for 1,000 naps
-- of 1 ms.
awaitTicker :: IO ()
awaitTicker = when (compilerVersion < makeVersion [9, 4]) $ do
  ticks <- (/= 0) . tickInterval <$> getMiscFlags
  when ticks (go (1000 :: Int))
  where
    go tries = do
      opened <- c_tickerOpened
      unless (opened /= 0 || tries == 0) (c_nap 1000000 >> go (tries - 1))

-- | Was the program linked with @-threaded@?
threadedRuntime :: Bool
threadedRuntime = rtsSupportsBoundThreads

-- | The number of forks without exec between the program's first process and this one. A child of
-- 'System.Posix.Process.forkProcess' lacks its parent's threads; code that relies on a thread compares this
-- number with its value when the thread was started.
--
-- [Cost]: one read of a C variable.
processGeneration :: IO Int
processGeneration = fromIntegral <$> peek c_forks
{-# INLINE processGeneration #-}

foreign import ccall "&heddle_forks" c_forks :: Ptr CInt

-- Safe: it calls back into Haskell.
foreign import ccall safe "heddle_set_capabilities" c_setCapabilities :: Word32 -> IO ()

-- Unsafe: it reads /proc, which is in memory.
foreign import ccall unsafe "heddle_ticker_opened" c_tickerOpened :: IO CInt

-- Safe: it sleeps.
foreign import ccall safe "heddle_nap" c_nap :: Int64 -> IO ()

-- Note [Changing capabilities]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- setNumCapabilities ends with a call into Haskell. Its thread is bound to the calling OS thread and runs
-- on the capability that was free last, which a change to fewer capabilities may just have disabled. Bound
-- threads do not migrate from there, and with GHC 9.0.2 the call then often sleeps for ever, and all other
-- threads with it: a program of base alone whose threads wake each other stopped within 500 changes between
-- 1 and 4 in 10 of 10 runs. With the call on capability 0, which is never disabled, it did not stop in
-- 20,000 changes.
--
-- A bound thread that is left on a disabled capability is woken there as on any other. But a collection moves those that
-- are ready to run, and if the thread of the system behind one of them takes part in that collection (because it was
-- just being woken), it forgets the wake-up that it gets on the new capability: yieldCapability clears the flag behind
-- gcWorkerThread. The next that happens on that capability repairs this. If nothing does, because this was the collection
-- of an idle program, the thread sleeps for ever. One MPI job of some 2,000 did: its main thread was to be woken 0.3
-- seconds after the start. So bound threads leave a disabled capability at once: while they are ready to run, another
-- thread collects, until they have been moved.
