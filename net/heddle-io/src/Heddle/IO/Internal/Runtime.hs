{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.IO.Internal.Runtime
-- Description : The event managers of a program
-- Stability   : internal, exempt from the version policy
--
-- A 'Runtime' is one event manager per capability, started and stopped together.
--
-- Cost: per manager one thread, two descriptors and about 20 KB.
-- Owner: 'withRuntime'; the system runtime belongs to the process.
module Heddle.IO.Internal.Runtime
  ( -- * Configuration
    Config (..),
    defaultConfig,
    BackendChoice (..),

    -- * Life
    Runtime (..),
    Foreign (..),
    withRuntime,
    systemRuntime,
    IOManagerError (..),

    -- * Managers
    managerHere,
    managerOn,
    capabilitiesOf,
    leastLoaded,
    runtimeLive,

    -- * Descriptors from outside
    registerAgain,
    disown,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_, traverse_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Heddle.IO.Internal.Exception (HeddleIOException (..), fromHeddleIO)
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Registration (closeRegistration)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (awaitTicker, fork, getCapabilities, myCapability, myThreadId, threadedRuntime)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import System.Environment (lookupEnv)
import System.Posix.Types (Fd)

-- | How to set a runtime up.
data Config = Config
  { -- | The system call that reports events to the managers.
    configBackend :: !BackendChoice,
    -- | How many managers; 'Nothing' for one per capability.
    configManagers :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | epoll, one manager per capability.
defaultConfig :: Config
defaultConfig = Config {configBackend = Epoll, configManagers = Nothing}

-- | One event manager per capability.
data Runtime = Runtime
  { runtimeManagers :: !(SmallArray Manager),
    -- | One cell per manager, with a token when its loop has ended.
    runtimeEnded :: ![WaitCell],
    -- | Word 0 counts choices of a manager, word 8 services.
    runtimeCounters :: !Words,
    -- | By descriptor, those that came from outside.
    runtimeForeign :: !(Ref (IntMap Foreign)),
    -- | Held while waits on a foreign descriptor begin or end.
    runtimeForeignLock :: !Lock
  }

-- | What a descriptor that the runtime did not make is registered for.
data Foreign
  = -- | A connection of its own.
    -- The action gives the descriptor up: its number has become another file's.
    Registered !Registration !(IO ())
  | -- | The number of waits, and the registration that they share.
    Shared !Int !Registration

-- | What goes wrong with a whole runtime.
data IOManagerError
  = -- | The program was linked without @-threaded@.
    NotThreaded
  | -- | A manager's loop died, so no wait on it could end; why.
    ManagerDied !Int !String
  | -- | The environment variable @HEDDLE_BACKEND@ has this value.
    UnknownBackend !String

instance Show IOManagerError where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception IOManagerError where
  toException = toException . HeddleIOException
  fromException = fromHeddleIO
  displayException = \case
    NotThreaded ->
      "heddle-io needs GHC's threaded runtime, and this program was linked without it.\n"
        ++ "  Add '-threaded' to its ghc-options and link it again."
    ManagerDied capability why ->
      "the event manager of capability " ++ show capability ++ " died: " ++ why
    UnknownBackend word ->
      "HEDDLE_BACKEND is '" ++ word ++ "', which is no back end.\n  Set it to epoll or poll, or unset it."

-- | Start the managers, run, and stop them: every registration still open is closed.
--
-- [Throws]: 'IOManagerError'; it is also thrown to the caller if a manager dies.
-- [Masking]: the body runs in the caller's masking state.
withRuntime :: Config -> (Runtime -> IO a) -> IO a
withRuntime config body = mask $ \restore -> do
  caller <- myThreadId
  runtime <- startRuntime config (throwTo caller)
  r <- restore (body runtime) `onException` stopRuntime runtime
  r <$ stopRuntime runtime

startRuntime :: Config -> (IOManagerError -> IO ()) -> IO Runtime
startRuntime config died = do
  unless threadedRuntime (throwIO NotThreaded)
  -- Before connections can take all descriptors.
  awaitTicker
  count <- maybe getCapabilities (pure . max 1) (configManagers config)
  managers <- create (configBackend config) count
  told <- newWords 1
  cells <- traverse (start told) managers
  Runtime (smallArrayFromList managers) cells <$> newWords 16 <*> newRef IntMap.empty <*> newLock
  where
    start told m = do
      ended <- newWaitCell
      ended <$ startManager m (supervise told m ended)
    supervise told m ended run = do
      r <- try run
      case r of
        Right () -> pure ()
        Left e -> do
          let cause = ManagerDied (managerCapability m) (describeException e)
          stopping <- readWord (managerWords m) WordStopping
          -- No wait would end any more: refuse new registrations, end the waits on old ones.
          stopManager m
          openRegistrations m >>= traverse_ closeRegistration
          unless (stopping == 1) $ do
            putErrorLine (displayException cause)
            -- Once, and not in this thread: the caller may be in 'stopRuntime', waiting
            -- for it.
            first <- compareAndSet told 0 0 1
            when first $ void (fork "io/died" (died cause))
      unpark ended

create :: BackendChoice -> Int -> IO [Manager]
create choice count = go 0
  where
    go i
      | i == count = pure []
      | otherwise = bracketOnError (newManager choice i) closeManager $ \m -> (m :) <$> go (i + 1)

stopRuntime :: Runtime -> IO ()
stopRuntime runtime = uninterruptibleMask_ $ do
  -- See Note [Stopping].
  for_ (managersOf runtime) $ \m -> openRegistrations m >>= traverse_ closeRegistration
  for_ (managersOf runtime) stopManager
  traverse_ park (runtimeEnded runtime)
  for_ (managersOf runtime) $ \m -> do
    openRegistrations m >>= traverse_ closeRegistration
    closeManager m

-- | The process's own runtime, started at its first use and never stopped. Its back end is
-- the value of the environment variable @HEDDLE_BACKEND@, @epoll@ (default) or @poll@. In a
-- forked process it goes on there.
--
-- [Throws]: 'IOManagerError'.
-- [Source]: Mio, section 2.2, @getSystemEventManager@.
systemRuntime :: IO Runtime
systemRuntime =
  readRef systemRef >>= \case
    Just runtime -> pure runtime
    Nothing -> withLock systemLock $ do
      again <- readRef systemRef
      case again of
        Just runtime -> pure runtime
        Nothing -> do
          choice <-
            lookupEnv "HEDDLE_BACKEND" >>= \case
              Nothing -> pure Epoll
              Just "epoll" -> pure Epoll
              Just "poll" -> pure Poll
              Just word -> throwIO (UnknownBackend word)
          runtime <- startRuntime defaultConfig {configBackend = choice} (\_ -> pure ())
          runtime <$ writeRef systemRef (Just runtime)

systemRef :: Ref (Maybe Runtime)
systemRef = unsafeGlobal (newRef Nothing)
{-# NOINLINE systemRef #-}

systemLock :: Lock
systemLock = unsafeGlobal newLock
{-# NOINLINE systemLock #-}

managersOf :: Runtime -> [Manager]
managersOf runtime = map (indexSmallArray (runtimeManagers runtime)) [0 .. capabilitiesOf runtime - 1]

-- | How many event managers the runtime has; a registration's capability is below it.
--
-- [Cost]: O(1).
capabilitiesOf :: Runtime -> Int
capabilitiesOf = sizeofSmallArray . runtimeManagers

-- | The manager of a capability; capabilities added later share the first ones.
managerOn :: Runtime -> Int -> Manager
managerOn runtime capability =
  indexSmallArray (runtimeManagers runtime) (capability `mod` capabilitiesOf runtime)

-- | The manager of the capability that the caller runs on.
managerHere :: Runtime -> IO Manager
managerHere runtime = managerOn runtime <$> myCapability

-- | The less loaded of two managers, which take turns.
--
-- [Cost]: one atomic addition, two reads.
leastLoaded :: Runtime -> IO Manager
leastLoaded runtime
  | n == 1 = pure (managerOn runtime 0)
  | otherwise = do
    t <- fetchAdd (runtimeCounters runtime) 0 1
    let a = managerOn runtime (t `mod` n)
        b = managerOn runtime ((t + 1 + (t `quot` n) `mod` (n - 1)) `mod` n)
    liveA <- readWord (managerWords a) WordLive
    liveB <- readWord (managerWords b) WordLive
    pure (if liveB < liveA then b else a)
  where
    n = capabilitiesOf runtime

-- | How many descriptors are registered, over all managers.
--
-- [Cost]: O(managers).
runtimeLive :: Runtime -> IO Int
runtimeLive runtime = sum <$> traverse (\m -> readWord (managerWords m) WordLive) (managersOf runtime)

-- | Register the descriptor of an open registration once more: 'True' if the back end did not know
-- it. Then it was closed behind the runtime's back, which takes it out of epoll, and its
-- number is another file's by now. See Note [Numbers].
--
-- [Cost]: one system call.
-- [Threads]: one at a time, under 'runtimeForeignLock'.
registerAgain :: Registration -> IO Bool
registerAgain registration = do
  r <- backendAdd (managerBackend (registrationManager registration)) (registrationFd registration) (registrationTag (registrationStamp registration) (registrationIndex registration))
  pure (r >= 0)

-- | Forget what a number was registered for: it is another file's now.
--
-- [Threads]: under 'runtimeForeignLock'.
disown :: Runtime -> Fd -> IO ()
disown runtime fd = do
  known <- modifyRef (runtimeForeign runtime) (\old -> (IntMap.delete key old, IntMap.lookup key old))
  case known of
    Just (Registered _ giveUp) -> giveUp
    Just (Shared _ registration) -> void (closeRegistration registration)
    Nothing -> pure ()
  where
    key = fromIntegral fd

-- Note [Numbers]
-- ~~~~~~~~~~~~~~
-- A descriptor from outside may be closed by its owner while the runtime still has it
-- registered, and its number be given to another file. epoll identifies a registration by
-- file and number, so registering the number again under the old registration's tag answers EEXIST
-- exactly if the old file is still there; the poll(2) back end compares device and inode.
-- Waits share their registration by number, so the registration goes on with the new file. A connection
-- that has lost its file is closed without touching the number.

-- Note [Stopping]
-- ~~~~~~~~~~~~~~~
-- Stopping is uninterruptible, but finite: its eventfd interrupts each loop, which ends at its
-- next turn. Registrations are closed twice: first so that waiting threads wake while the loops
-- still run, then to close those registered in between.
