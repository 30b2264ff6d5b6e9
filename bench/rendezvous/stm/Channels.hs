-- | The paper's library on transactional memory.
module Channels
  ( module Heddle.Rendezvous.Classic.STM,
  )
where

import Heddle.Rendezvous.Classic.STM
