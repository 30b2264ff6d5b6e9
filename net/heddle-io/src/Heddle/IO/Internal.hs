-- |
-- Module      : Heddle.IO.Internal
-- Description : The engine room of heddle-io
-- Stability   : internal, exempt from the version policy
--
-- Everything the servers of Heddle are built on: managers, slots, listeners, services.
-- Functions answer with codes and hold no promises between versions; "Heddle.IO" is the
-- stable face.
--
-- Cost: stated at each export.
-- Owner: stated at each export.
module Heddle.IO.Internal
  ( module Heddle.IO.Internal.Address,
    module Heddle.IO.Internal.Conn,
    module Heddle.IO.Internal.Listener,
    module Heddle.IO.Internal.Manager,
    module Heddle.IO.Internal.Runtime,
    module Heddle.IO.Internal.Slot,
    module Heddle.IO.Internal.Types,
  )
where

import Heddle.IO.Internal.Address
import Heddle.IO.Internal.Conn
import Heddle.IO.Internal.Listener
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Types
