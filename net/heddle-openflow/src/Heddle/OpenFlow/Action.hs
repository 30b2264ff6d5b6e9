-- |
-- Module      : Heddle.OpenFlow.Action
-- Description : Actions and instructions of both versions
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- One type of actions for both versions; a version refuses to write what it does not have. Unknown actions are kept.
--
-- Cost: a few words for each action.
module Heddle.OpenFlow.Action
  ( Action (..),
    Instruction (..),

    -- * Codecs
    actionCodec,
    actionsCodec,
    actionList,
    instructionCodec,
  )
where

import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire

-- | An action on a packet.
data Action
  = -- | Send it; to the controller, at most this many bytes (0xffff: all).
    Output !PortNo !Word16
  | -- | 1.0
    SetVlanVid !Word16
  | -- | 1.0
    SetVlanPcp !Word8
  | -- | 1.0; 'PopVlan' in 1.3
    StripVlan
  | -- | 1.0
    SetDlSrc !Mac
  | -- | 1.0
    SetDlDst !Mac
  | -- | 1.0
    SetNwSrc !Word32
  | -- | 1.0
    SetNwDst !Word32
  | -- | 1.0
    SetNwTos !Word8
  | -- | 1.0
    SetTpSrc !Word16
  | -- | 1.0
    SetTpDst !Word16
  | -- | 1.0: port and queue
    Enqueue !PortNo !Word32
  | -- | 1.3, as all that follow
    CopyTtlOut
  | CopyTtlIn
  | SetMplsTtl !Word8
  | DecMplsTtl
  | PushVlan !Word16
  | PopVlan
  | PushMpls !Word16
  | PopMpls !Word16
  | SetQueue !Word32
  | Group !Word32
  | SetNwTtl !Word8
  | DecNwTtl
  | SetField !Oxm
  | PushPbb !Word16
  | PopPbb
  | -- | Both versions (1.0's vendor): the experimenter, and the rest.
    ActionExperimenter !Word32 !ByteString
  | -- | Any other: type, and what follows the length.
    ActionRaw !Word16 !ByteString
  deriving stock (Eq, Show)

-- | One action, as the version writes it.
actionCodec :: Version -> Codec Action Action
actionCodec version = tagged "an action" cases ActionRaw $ \case
  ActionRaw kind body -> Just (kind, body)
  _ -> Nothing
  where
    cases = case version of
      OF10 -> cases10
      OF13 -> cases13

-- | As many as there are.
actionsCodec :: Version -> Codec [Action] [Action]
actionsCodec = \case
  OF10 -> many10
  OF13 -> many13

-- Shared, so that the tables are built once.
many10, many13 :: Codec [Action] [Action]
many10 = listOf (actionCodec OF10)
many13 = listOf (actionCodec OF13)

-- | The actions of this many bytes.
actionList :: Version -> Int -> Get [Action]
actionList version n = isolated n (codecGet (actionsCodec version))

cases10, cases13 :: [Case Action]
cases10 =
  [ caseOf 0 id (\a -> case a of Output _ _ -> Just a; _ -> Nothing) (Output <$> outputPort =. port16 <*> outputLength =. word16),
    caseOf 1 SetVlanVid (\case SetVlanVid v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    caseOf 2 SetVlanPcp (\case SetVlanPcp v -> Just v; _ -> Nothing) (id =. word8 <* padding 3),
    plain 3 StripVlan,
    caseOf 4 SetDlSrc (\case SetDlSrc v -> Just v; _ -> Nothing) (id =. macCodec <* padding 6),
    caseOf 5 SetDlDst (\case SetDlDst v -> Just v; _ -> Nothing) (id =. macCodec <* padding 6),
    caseOf 6 SetNwSrc (\case SetNwSrc v -> Just v; _ -> Nothing) word32,
    caseOf 7 SetNwDst (\case SetNwDst v -> Just v; _ -> Nothing) word32,
    caseOf 8 SetNwTos (\case SetNwTos v -> Just v; _ -> Nothing) (id =. word8 <* padding 3),
    caseOf 9 SetTpSrc (\case SetTpSrc v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    caseOf 10 SetTpDst (\case SetTpDst v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    caseOf 11 (uncurry Enqueue) (\case Enqueue p q -> Just (p, q); _ -> Nothing) ((,) <$> fst =. port16 <* padding 6 <*> snd =. word32),
    experimenter
  ]
cases13 =
  [ caseOf 0 id (\a -> case a of Output _ _ -> Just a; _ -> Nothing) (Output <$> outputPort =. port32 <*> outputLength =. word16 <* padding 6),
    plain 11 CopyTtlOut,
    plain 12 CopyTtlIn,
    caseOf 15 SetMplsTtl (\case SetMplsTtl v -> Just v; _ -> Nothing) (id =. word8 <* padding 3),
    plain 16 DecMplsTtl,
    caseOf 17 PushVlan (\case PushVlan v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    plain 18 PopVlan,
    caseOf 19 PushMpls (\case PushMpls v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    caseOf 20 PopMpls (\case PopMpls v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    caseOf 21 SetQueue (\case SetQueue v -> Just v; _ -> Nothing) word32,
    caseOf 22 Group (\case Group v -> Just v; _ -> Nothing) word32,
    caseOf 23 SetNwTtl (\case SetNwTtl v -> Just v; _ -> Nothing) (id =. word8 <* padding 3),
    plain 24 DecNwTtl,
    caseOf 25 SetField (\case SetField v -> Just v; _ -> Nothing) setField,
    caseOf 26 PushPbb (\case PushPbb v -> Just v; _ -> Nothing) (id =. word16 <* padding 2),
    plain 27 PopPbb,
    experimenter
  ]

outputPort :: Action -> PortNo
outputPort = \case
  Output p _ -> p
  _ -> PortAny

outputLength :: Action -> Word16
outputLength = \case
  Output _ n -> n
  _ -> 0

experimenter :: Case Action
experimenter =
  caseOf 0xffff (uncurry ActionExperimenter) (\case ActionExperimenter e body -> Just (e, body); _ -> Nothing) ((,) <$> fst =. word32 <*> snd =. restBytes)

plain :: Int -> Action -> Case Action
plain kind action = caseOf kind (const action) (\a -> if a == action then Just () else Nothing) (padding 4)

-- A field, then padding up to a multiple of 8, with the action's header counted.
setField :: Codec Oxm Oxm
setField = codecOf get put
  where
    get = do
      o <- codecGet oxmCodec
      left <- getRest
      if B.length left == gap (putSize (codecPut oxmCodec o)) then pure o else failGet "a set-field action with a wrong length"
    put o = let p = codecPut oxmCodec o in p <> putZeros (gap (putSize p))
    gap n = negate (n + 4) .&. 7

-- | An instruction of a flow of 1.3.
data Instruction
  = GotoTable !Word8
  | -- | Value and mask.
    WriteMetadata !Word64 !Word64
  | WriteActions ![Action]
  | -- | The list of actions of a flow in 1.0.
    ApplyActions ![Action]
  | ClearActions
  | MeterInstruction !Word32
  | InstructionExperimenter !Word32 !ByteString
  | -- | Any other: type, and what follows the length.
    InstructionRaw !Word16 !ByteString
  deriving stock (Eq, Show)

instructionCodec :: Codec Instruction Instruction
instructionCodec = tagged "an instruction" cases InstructionRaw $ \case
  InstructionRaw kind body -> Just (kind, body)
  _ -> Nothing
  where
    cases =
      [ caseOf 1 GotoTable (\case GotoTable v -> Just v; _ -> Nothing) (id =. word8 <* padding 3),
        caseOf 2 (uncurry WriteMetadata) (\case WriteMetadata v m -> Just (v, m); _ -> Nothing) ((,) <$ padding 4 <*> fst =. word64 <*> snd =. word64),
        caseOf 3 WriteActions (\case WriteActions v -> Just v; _ -> Nothing) (id <$ padding 4 <*> id =. actionsCodec OF13),
        caseOf 4 ApplyActions (\case ApplyActions v -> Just v; _ -> Nothing) (id <$ padding 4 <*> id =. actionsCodec OF13),
        caseOf 5 (const ClearActions) (\case ClearActions -> Just (); _ -> Nothing) (padding 4),
        caseOf 6 MeterInstruction (\case MeterInstruction v -> Just v; _ -> Nothing) word32,
        caseOf 0xffff (uncurry InstructionExperimenter) (\case InstructionExperimenter e body -> Just (e, body); _ -> Nothing) ((,) <$> fst =. word32 <*> snd =. restBytes)
      ]
