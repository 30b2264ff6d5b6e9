-- | The paper's library on transactional memory.
module Channels
  ( module Paper.STM,
  )
where

import Paper.STM
