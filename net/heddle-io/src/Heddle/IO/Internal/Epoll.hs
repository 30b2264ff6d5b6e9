-- |
-- Module      : Heddle.IO.Internal.Epoll
-- Description : The epoll back end
-- Stability   : internal, exempt from the version policy
--
-- Edge-triggered, both directions, registered once in a descriptor's life. A wait costs
-- no system call and needs no announcement.
--
-- Cost: one epoll_ctl per descriptor; close(2) takes it out again.
-- Owner: one epoll descriptor per event manager.
module Heddle.IO.Internal.Epoll
  ( newEpoll,
  )
where

import Control.Monad (void)
import Data.Bits ((.|.))
import Heddle.IO.Internal.Types
import Heddle.Prim.Errno (checked)
import Heddle.Prim.Poller
import Heddle.Prim.Socket (closeSocket)
import System.Posix.Types (Fd)

-- | A new epoll descriptor.
--
-- [Throws]: 'IOError' when the process or the system is out of descriptors.
newEpoll :: IO Backend
newEpoll = do
  ep <- fromIntegral <$> checked "epoll_create1" epollCreate :: IO Fd
  pure
    Backend
      { backendName = "epoll",
        backendAdd = \fd tag ->
          epollAdd ep fd (eventIn .|. eventOut .|. eventReadHangUp .|. eventEdge) tag,
        backendRemove = epollDelete ep,
        backendOneshot = False,
        backendEnable = \_ _ -> pure (),
        backendForget = \_ -> pure (),
        backendPoll = \events -> epollPoll ep events eventCapacity,
        backendWait = \events -> epollWait ep events eventCapacity,
        backendRenew = renewEpoll ep,
        backendClose = void (closeSocket ep)
      }
