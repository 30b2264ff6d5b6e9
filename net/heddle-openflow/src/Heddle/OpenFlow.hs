-- |
-- Module      : Heddle.OpenFlow
-- Description : OpenFlow 1.0 and 1.3: messages, read and written
-- Stability   : stable
--
-- All messages of OpenFlow 1.0 and 1.3 as one type. 'decode' answers for every string of bytes; what it does not know it keeps
-- as it is (constructors that end in @Raw@), so that 'encode' gives the bytes of a well-formed message back.
--
-- "Heddle.OpenFlow.View" reads and writes the frequent messages in place, without allocation.
-- "Heddle.OpenFlow.Packet" takes packets apart, "Heddle.OpenFlow.Text" has the syntax of ovs-ofctl,
-- "Heddle.OpenFlow.Controller" is the controller.
--
-- Cost: O(bytes of the message).
-- Owner: values; nothing is shared.
module Heddle.OpenFlow
  ( -- * Messages
    module Heddle.OpenFlow.Message,
    DecodeError (..),
    EncodeError (..),

    -- * Numbers
    module Heddle.OpenFlow.Types,

    -- * Matches
    module Heddle.OpenFlow.Match,

    -- * Actions
    module Heddle.OpenFlow.Action,

    -- * Statistics
    module Heddle.OpenFlow.Multipart,
  )
where

import Heddle.OpenFlow.Action hiding (actionCodec, actionList, actionsCodec, instructionCodec)
import Heddle.OpenFlow.Match hiding (match10, match13, oxmCodec)
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart hiding (bandCodec, bucketCodec, portCodec, replyBody, requestBody)
import Heddle.OpenFlow.Types hiding (macCodec, port16, port32)
import Heddle.OpenFlow.Wire (DecodeError (..), EncodeError (..))
