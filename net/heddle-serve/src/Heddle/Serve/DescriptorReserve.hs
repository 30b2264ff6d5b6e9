-- |
-- Module      : Heddle.Serve.DescriptorReserve
-- Description : Descriptors that connections cannot take
-- Stability   : internal, exempt from the version policy
--
-- Clients may use up all descriptors of the process. Files must still be opened then, or no
-- request could be answered and none would release its descriptor. So the limit of open files
-- is set to the highest allowed, less 16. When no descriptor is left to open a file, the limit
-- is raised by these 16 during one system call.
--
-- Cost: nothing until descriptors run out; then two system calls per opened file.
-- Owner: the limit belongs to the process; 'withDescriptorReserve' restores it.
module Heddle.Serve.DescriptorReserve
  ( DescriptorReserve,
    noReserve,
    withDescriptorReserve,
    withReserved,
  )
where

import Control.Monad (when)
import Heddle.Prim.Exception (bracket, bracket_)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import System.Posix.Resource

-- | The usual limit of open files and the highest one; the lock admits one borrower.
data DescriptorReserve
  = NoReserve
  | Reserve !Lock !Integer !Integer

-- | No descriptors are set aside: for a limit that is too low, and for tests.
noReserve :: DescriptorReserve
noReserve = NoReserve

-- The descriptors set aside: the number of files that can be open whatever clients do.
kept :: Integer
kept = 16

-- No process needs more, and on some systems the highest limit is "unlimited".
most :: Integer
most = 1048576

-- | Raise the limit of open files, set some aside, run, restore the limit. A limit so low
-- that connections would have no descriptors left is not changed.
--
-- [Blocks]: never.
-- [Threads]: one at a time: the limit is the process's.
withDescriptorReserve :: (DescriptorReserve -> IO a) -> IO a
withDescriptorReserve body = do
  limits <- getResourceLimit ResourceOpenFiles
  let highest = case hardLimit limits of
        ResourceLimit n -> min n most
        _ -> most
      soft = highest - kept
      put n = setResourceLimit ResourceOpenFiles limits {softLimit = n}
  if highest < 3 * kept
    then body NoReserve
    else bracket (put (ResourceLimit soft)) (\_ -> put (softLimit limits)) (\_ -> newLock >>= \lock -> body (Reserve lock soft highest))

-- | Run one system call that may also use the descriptors set aside.
--
-- [Blocks]: as the action does; parks while another thread is inside.
-- [Threads]: any. A connection that is accepted meanwhile may take such a descriptor.
withReserved :: DescriptorReserve -> IO a -> IO a
withReserved reserve action = case reserve of
  NoReserve -> action
  Reserve lock soft highest -> withLock lock (bracket_ (put highest) (put soft) action)
  where
    put n = do
      limits <- getResourceLimit ResourceOpenFiles
      when (softLimit limits /= ResourceLimit n) $
        setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit n}
