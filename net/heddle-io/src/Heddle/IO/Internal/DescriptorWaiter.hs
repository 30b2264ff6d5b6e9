-- |
-- Module      : Heddle.IO.Internal.DescriptorWaiter
-- Description : Waiting on descriptors that the runtime does not own
-- Stability   : internal, exempt from the version policy
--
-- Level semantics over an edge-triggered manager, for any pollable descriptor and any
-- number of threads: each park comes between two calls of poll(2). While a thread waits,
-- the descriptor has one registration, shared by all its waiters; in each direction they take
-- turns at it ("Heddle.IO.Internal.TicketLock"), so each has its own deadline.
--
-- Invariant: a shared registration exists exactly while its count of waiters is positive.
-- Cost: a wait that parks costs two epoll_ctl and about 1 µs; one that need not, poll(2).
-- Owner: the runtime; the descriptor stays the caller's.
-- [Source]: Mio, sections 2.4 and 4.3.
module Heddle.IO.Internal.DescriptorWaiter
  ( -- * Readiness
    readyNow,
    readableBits,
    writableBits,

    -- * Waiting
    waitOnUntil,
  )
where

import Control.Monad (when)
import Data.Bits ((.&.), (.|.))
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word32)
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.PooledTimer (isOver)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.TicketLock
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Lock (withLock)
import Heddle.Prim.Poller
import Heddle.Prim.WaitCell (reset, unpark)
import System.Posix.Types (Fd)

-- | What makes a descriptor readable: bytes, the end, an error.
readableBits :: Word32
readableBits = eventIn .|. eventReadHangUp

-- | What makes a descriptor writable.
writableBits :: Word32
writableBits = eventOut

-- | The poll bits that are set now.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) for a number that is no open descriptor.
readyNow :: Fd -> Word32 -> IO Word32
readyNow fd bits = do
  r <- pollOne fd bits
  let failed = throwErrnoFor ("wait for descriptor " ++ show fd)
  if r < 0
    then if Errno (negate r) == EINTR then readyNow fd bits else failed (Errno (negate r))
    else if fromIntegral r .&. eventInvalid /= 0 then failed EBADF else pure (fromIntegral r)

-- | Park until the descriptor is ready; 'False' when the deadline passed first.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: 'IOError': EBADF, EPERM when it is not pollable, EEXIST when a connection of
-- this runtime owns it.
-- [Threads]: any number.
waitOnUntil :: Runtime -> Fd -> Interest -> Deadline -> IO Bool
waitOnUntil runtime fd interest deadline = do
  ready <- isReady
  if ready then pure True else bracket (enter runtime fd) (quit runtime fd) (mask_ . parked)
  where
    bits = case interest of
      Readable -> readableBits
      Writable -> writableBits
    isReady = (/= 0) <$> readyNow fd bits
    parked registration = do
      entered <- lockDirection registration interest deadline
      if entered then look registration `finally` unlockDirection registration interest else isReady
    look registration = do
      _ <- reset (cellOf registration interest)
      ready <- isReady
      if ready
        then pure True
        else do
          over <- isOver deadline
          closing <- isClosing registration
          when closing $ throwErrnoFor ("wait for descriptor " ++ show fd ++ ": the runtime has stopped, or the number is another file's by now") EBADF
          if over
            then pure False
            else do
              -- poll does not confirm an old hang-up or error: do not spin on it.
              forgetHangUp registration
              waitUntil registration interest deadline
              look registration

enter :: Runtime -> Fd -> IO Registration
enter runtime fd = withLock (runtimeForeignLock runtime) $ do
  known <- IntMap.lookup key <$> readRef (runtimeForeign runtime)
  case known of
    Just (Shared n registration) -> do
      renewed <- registerAgain registration
      -- Waiters for the file that had the number must not keep their turn asleep.
      when renewed $ unpark (registrationRead registration) >> unpark (registrationWrite registration)
      registration <$ set (Shared (n + 1) registration)
    Just (Registered registration _) -> do
      lost <- registerAgain registration
      if lost
        then disown runtime fd >> fresh
        else throwErrnoFor ("wait for descriptor " ++ show fd ++ ", which is a connection's") EEXIST
    Nothing -> fresh
  where
    fresh = do
      m <- managerHere runtime
      registration <- newRegistration m (Lent (pure ())) fd mempty Attached (\_ -> pure ())
      registration <$ set (Shared 1 registration)
    key = fromIntegral fd
    set entry = modifyRef (runtimeForeign runtime) (\old -> (IntMap.insert key entry old, ()))

-- Runs masked, as the release of a bracket.
quit :: Runtime -> Fd -> Registration -> IO ()
quit runtime fd mine = uninterruptibleMask_ . withLock (runtimeForeignLock runtime) $ do
  left <- modifyRef (runtimeForeign runtime) $ \old -> case IntMap.lookup key old of
    Just (Shared n registration)
      | registrationRead registration == registrationRead mine ->
        if n == 1 then (IntMap.delete key old, Just registration) else (IntMap.insert key (Shared (n - 1) registration) old, Nothing)
    -- A connection has the number now.
    _ -> (old, Nothing)
  -- Inside the lock: the next registration must find the back end rid of this one. The
  -- lock is held for finite steps only, so waiting for it may be uninterruptible.
  mapM_ closeRegistration left
  where
    key = fromIntegral fd
