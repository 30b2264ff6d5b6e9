-- |
-- Module      : Heddle.Gateway.Helper
-- Description : A second thread that ends with the first one's action
-- Stability   : hidden; the gateways use it
--
-- Cost: a thread.
-- Owner: the thread that waits for it.
module Heddle.Gateway.Helper
  ( withHelper,
  )
where

import Control.Monad (unless)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMaskedOn, labelMe, myCapability)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)

-- | Run an action with another one in a thread of its own on the same capability, which is interrupted at the end. When
-- this returns or throws, that thread has ended.
--
-- [Cost]: a thread.
-- [Blocks]: as the action does.
-- [Masking]: the action runs in the caller's state; the helper unmasked.
withHelper :: String -> IO () -> IO a -> IO a
withHelper name helper action = mask $ \restore -> do
  done <- newWaitCell
  capability <- myCapability
  thread <- forkMaskedOn capability $ \unmask -> do
    labelMe (name ++ "/" ++ show capability)
    r <- try (unmask helper)
    either (\e -> unless (isAsynchronous e) (reportUncaught e)) pure r
    unpark done
  -- Finite: the helper parks interruptibly only, and its handlers do not park.
  let stop = uninterruptibleMask_ (throwTo thread ThreadKilled >> park done)
  r <- restore action `onException` stop
  r <$ stop
