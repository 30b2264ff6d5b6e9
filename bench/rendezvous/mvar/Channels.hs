-- | The paper's library on mailboxes.
module Channels
  ( module Heddle.Rendezvous.Classic.MVar,
  )
where

import Heddle.Rendezvous.Classic.MVar
