-- | The paper's library on mailboxes.
module Channels
  ( module Paper.MVar,
  )
where

import Paper.MVar
