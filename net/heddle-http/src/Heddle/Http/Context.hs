-- |
-- Module      : Heddle.Http.Context
-- Description : What a capability's connections share
-- Stability   : internal, exempt from the version policy
--
-- Cost: two pools of buffers for each capability.
-- Owner: the server; connections borrow from the pools.
module Heddle.Http.Context
  ( Context (..),
    contextHandler,
    contextLog,
    newContext,
  )
where

import Control.Monad (void)
import Data.Int (Int64)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.Http.Date
import Heddle.Http.Handlers
import Heddle.Http.Settings
import Heddle.Http.Workspace
import Heddle.IO (Runtime)
import Heddle.Prim.Atomic (Ref, Words, newRef)
import Heddle.Prim.Buffer (Buffer, Pool, newBuffer, newPool)
import Heddle.Prim.Exception (trySync)
import System.Posix.Types (Fd)

-- | What the connections of one capability share.
data Context = Context
  { contextSettings :: !Settings,
    contextCapability :: !Int,
    contextPool :: !(Pool Workspace),
    contextDate :: !DateClock,
    contextHandlers :: !Handlers,
    -- | Word 0 is 1 while the server drains and 2 when idle connections must close. All
    -- capabilities read it; it is written at most twice.
    contextDraining :: !Words,
    -- | Output of HTTP/2 connections is gathered in these.
    contextBuffers :: !(Pool Buffer),
    contextRuntime :: !Runtime,
    -- | Files of which replies of HTTP/2 wait, by device and inode: a descriptor, and how many replies use it.
    contextFiles :: !(Ref (Map (Int64, Int64) (Fd, Int)))
  }

-- | The context of a capability.
newContext :: Runtime -> Settings -> Int -> Words -> Handlers -> IO Context
newContext runtime given capability draining handlers = do
  -- A report that fails must not end the connection.
  let settings = given {settingFailed = \request -> void . trySync . settingFailed given request, settingLimits = boundedLimits (settingLimits given)}
  pool <- newPool 64 (newWorkspace (settingLimits settings))
  date <- newDateClock
  buffers <- newPool 16 (newBuffer 65536)
  Context settings capability pool date handlers draining buffers runtime <$> newRef Map.empty

-- | Answers the requests.
contextHandler :: Context -> Handler
contextHandler = handlersMain . contextHandlers

-- | Hears of each reply.
contextLog :: Context -> Maybe LogHook
contextLog = handlersLog . contextHandlers
