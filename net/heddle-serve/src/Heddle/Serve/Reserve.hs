-- |
-- Module      : Heddle.Serve.Reserve
-- Description : Descriptors that connections cannot take
-- Stability   : internal, exempt from the version policy
--
-- Clients may use up every descriptor of the process; the files that they ask for must
-- still be opened, or accepting would pause with no request answered. So the limit of open
-- files is raised as far as allowed, less a few; opening a file that finds none left lends
-- itself these few, by raising the limit for the time of one system call.
--
-- Cost: nothing until descriptors run out; then two system calls per opened file.
-- Owner: the limit belongs to the process; 'withReserve' puts it back.
-- [Source]: design notes on failure: out of descriptors.
module Heddle.Serve.Reserve
  ( Reserve,
    noReserve,
    withReserve,
    lending,
  )
where

import Control.Monad (when)
import Heddle.Prim.Exception (bracket, bracket_)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import System.Posix.Resource

-- | The everyday limit and the highest one.
data Reserve
  = NoReserve
  | Reserve !Lock !Integer !Integer

-- | Nothing is set aside.
noReserve :: Reserve
noReserve = NoReserve

-- How many descriptors are set aside: that many files can be open at once, whatever the
-- clients do.
kept :: Integer
kept = 16

-- No process needs more, and some systems' highest limit is no number at all.
most :: Integer
most = 1048576

-- | Raise the limit of open files, set some aside, run, put the limit back. Where so few
-- are allowed that connections would have none, everything stays as it is.
--
-- [Blocks]: never.
-- [Threads]: one at a time: the limit is the process's.
withReserve :: (Reserve -> IO a) -> IO a
withReserve body = do
  limits <- getResourceLimit ResourceOpenFiles
  let highest = case hardLimit limits of
        ResourceLimit n -> min n most
        _ -> most
      soft = highest - kept
      put n = setResourceLimit ResourceOpenFiles limits {softLimit = n}
  if highest < 3 * kept
    then body NoReserve
    else bracket (put (ResourceLimit soft)) (\_ -> put (softLimit limits)) (\_ -> newLock >>= \lock -> body (Reserve lock soft highest))

-- | Run one system call with what was set aside, too.
--
-- [Blocks]: as the action does; parks while another thread borrows.
-- [Threads]: any. A connection accepted meanwhile may take what was lent.
lending :: Reserve -> IO a -> IO a
lending reserve action = case reserve of
  NoReserve -> action
  Reserve lock soft highest -> withLock lock (bracket_ (put highest) (put soft) action)
  where
    put n = do
      limits <- getResourceLimit ResourceOpenFiles
      when (softLimit limits /= ResourceLimit n) $
        setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit n}
