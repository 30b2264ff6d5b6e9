{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.OpenFlow.Message
-- Description : All messages of OpenFlow 1.0 and 1.3
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- Law (@canonical@): for every well-formed message, @encode . decode@ gives the same bytes. Bytes that the standard
-- calls padding are written as zeros.
--
-- Law (@total@): 'decode' answers for every string of bytes, and reads none outside it.
--
-- Cost: O(bytes); for hot messages without allocation see "Heddle.OpenFlow.View".
module Heddle.OpenFlow.Message
  ( Message (..),
    messageName,
    decode,
    decodeHello,
    encode,
    headerBytes,

    -- * Parts
    HelloElement (..),
    helloFor,
    negotiate,
    module Heddle.OpenFlow.ErrorKind,
    Features (..),
    SwitchConfig (..),
    PacketIn (..),
    pattern ReasonNoMatch,
    pattern ReasonAction,
    pattern ReasonInvalidTtl,
    PacketOut (..),
    FlowMod (..),
    flowAdd,
    flowDelete,
    FlowCommand (..),
    pattern FlowAdd,
    pattern FlowModify,
    pattern FlowModifyStrict,
    pattern FlowDelete,
    pattern FlowDeleteStrict,
    pattern SendFlowRemoved,
    pattern CheckOverlap,
    FlowRemoved (..),
    PortStatus (..),
    PortMod (..),
    TableMod (..),
    GroupMod (..),
    MeterMod (..),
    Queue (..),
    QueueProperty (..),
    Role (..),
    pattern RoleNoChange,
    pattern RoleEqual,
    pattern RoleMaster,
    pattern RoleSlave,
    RoleMessage (..),
    AsyncConfig (..),
  )
where

import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Either (fromRight)
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.ErrorKind
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire

-- | A message without its header.
data Message
  = Hello ![HelloElement]
  | ErrorMessage !ErrorKind !ByteString
  | EchoRequest !ByteString
  | EchoReply !ByteString
  | -- | 1.0's vendor message: the experimenter, and the rest.
    Experimenter !Word32 !ByteString
  | FeaturesRequest
  | FeaturesReply !Features
  | GetConfigRequest
  | GetConfigReply !SwitchConfig
  | SetConfig !SwitchConfig
  | PacketInMessage !PacketIn
  | FlowRemovedMessage !FlowRemoved
  | PortStatusMessage !PortStatus
  | PacketOutMessage !PacketOut
  | FlowModMessage !FlowMod
  | -- | 1.3
    GroupModMessage !GroupMod
  | PortModMessage !PortMod
  | -- | 1.3
    TableModMessage !TableMod
  | -- | The flags, and what is asked. 1.0 calls it a statistics request.
    MultipartRequest !Word16 !MultipartRequestBody
  | -- | The flags (1: more follows), and what is answered.
    MultipartReply !Word16 !MultipartReplyBody
  | BarrierRequest
  | BarrierReply
  | QueueConfigRequest !PortNo
  | QueueConfigReply !PortNo ![Queue]
  | -- | 1.3, as all that follow
    RoleRequest !RoleMessage
  | RoleReply !RoleMessage
  | GetAsyncRequest
  | GetAsyncReply !AsyncConfig
  | SetAsync !AsyncConfig
  | MeterModMessage !MeterMod
  | -- | Any other: type and content.
    MessageRaw !Word8 !ByteString
  deriving stock (Eq, Show)

-- | The constructor's name, for logs and counters.
messageName :: Message -> String
messageName = takeWhile (/= ' ') . show

-- | A part of a hello.
data HelloElement
  = -- | The versions that the sender speaks: bit n of word n/32 stands for version n.
    VersionBitmap ![Word32]
  | -- | Any other: type and content. 1.0's tail, which has no form, is one with type 0.
    HelloElement !Word16 !ByteString
  deriving stock (Eq, Show)

-- | The hello of a side that speaks these versions.
helloFor :: [Version] -> Message
helloFor versions = Hello [VersionBitmap [foldr ((.|.) . shiftL 1 . fromIntegral . versionByte) 0 versions]]

-- | The version to speak with a peer whose hello had this version and content: the highest in both bitmaps, or the
-- lower of the two versions in the headers.
negotiate :: [Version] -> Word8 -> Message -> Maybe Version
negotiate ours theirs hello = case [v | v <- [OF13, OF10], v `elem` ours, speaks v] of
  v : _ -> Just v
  [] -> Nothing
  where
    speaks v = case hello of
      Hello elements | bits : _ <- [b | VersionBitmap b <- elements] -> case drop (fromIntegral (versionByte v) `shiftR` 5) bits of
        word : _ -> testBit word (fromIntegral (versionByte v .&. 31))
        [] -> False
      _ -> lower == versionByte v
    lower = min theirs (maximum (0 : map versionByte ours))

-- | A switch's description of itself.
data Features = Features
  { featuresDatapath :: !DatapathId,
    featuresBuffers :: !Word32,
    featuresTables :: !Word8,
    -- | 1.3
    featuresAuxiliary :: !Word8,
    featuresCapabilities :: !Word32,
    -- | 1.0: supported actions; 1.3: reserved.
    featuresActions :: !Word32,
    -- | 1.0; 1.3 asks for them by 'PortDescriptionRequest'.
    featuresPorts :: ![Port]
  }
  deriving stock (Eq, Show)

features :: Version -> Codec Features Features
features version =
  (\d b t (a, c, r) -> Features d b t a c r) <$> featuresDatapath =. word64 <*> featuresBuffers =. word32 <*> featuresTables =. word8 <*> rest <*> case version of
    OF10 -> featuresPorts =. listOf (portCodec OF10)
    OF13 -> pure []
  where
    rest = case version of
      OF10 -> (\c r -> (0, c, r)) <$ padding 3 <*> featuresCapabilities =. word32 <*> featuresActions =. word32
      OF13 -> (,,) <$> featuresAuxiliary =. word8 <* padding 2 <*> featuresCapabilities =. word32 <*> featuresActions =. word32

-- | A switch's treatment of fragments, and the bytes of a packet that it sends to the controller.
data SwitchConfig = SwitchConfig
  { configFlags :: !Word16,
    -- | The bytes of a packet that come with a packet-in; 0xffff: all.
    configMissLength :: !Word16
  }
  deriving stock (Eq, Show)

switchConfig :: Codec SwitchConfig SwitchConfig
switchConfig = SwitchConfig <$> configFlags =. word16 <*> configMissLength =. word16

-- | A packet that a switch hands to the controller.
data PacketIn = PacketIn
  { packetInBuffer :: !BufferId,
    packetInTotal :: !Word16,
    packetInReason :: !Word8,
    -- | 1.3
    packetInTable :: !Word8,
    -- | 1.3
    packetInCookie :: !Word64,
    -- | In 1.0 the ingress port only.
    packetInMatch :: !Match,
    packetInData :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Why a packet comes.
pattern ReasonNoMatch, ReasonAction, ReasonInvalidTtl :: Word8
pattern ReasonNoMatch = 0
pattern ReasonAction = 1
pattern ReasonInvalidTtl = 2

packetIn :: Version -> Codec PacketIn PacketIn
packetIn = \case
  OF10 ->
    (\b t p r -> PacketIn b t r 0 0 p)
      <$> packetInBuffer =. word32
      <*> packetInTotal =. word16
      <*> packetInMatch =. inPortOnly
      <*> packetInReason =. word8
      <* padding 1
      <*> packetInData =. restBytes
  OF13 ->
    PacketIn <$> packetInBuffer =. word32 <*> packetInTotal =. word16 <*> packetInReason =. word8 <*> packetInTable =. word8
      <*> packetInCookie =. word64
      <*> packetInMatch =. match13
      <* padding 2
      <*> packetInData =. restBytes
  where
    inPortOnly =
      checked
        (\p -> Right (Match [oxm InPort (toInteger (portWord p))]))
        (maybe (Left "a packet-in of 1.0 without an ingress port") (Right . PortNo . fromInteger . fst) . fieldValue InPort)
        port16

-- | A packet for a switch to send.
data PacketOut = PacketOut
  { packetOutBuffer :: !BufferId,
    packetOutInPort :: !PortNo,
    packetOutActions :: ![Action],
    packetOutData :: !ByteString
  }
  deriving stock (Eq, Show)

packetOut :: Version -> Codec PacketOut PacketOut
packetOut version = codecOf get put
  where
    (port, gap) = case version of
      OF10 -> (port16, 0)
      OF13 -> (port32, 6)
    get = do
      buffer <- codecGet word32
      p <- codecGet port
      size <- getWord16
      skipBytes gap
      PacketOut buffer p <$> actionList version (fromIntegral size) <*> getRest
    put (PacketOut buffer p as bytes) = case codecPut (actionsCodec version) as of
      Refused e -> Refused e
      acts
        | putSize acts > 0xffff -> Refused (TooLong (putSize acts))
        | otherwise -> codecPut word32 buffer <> codecPut port p <> putWord16 (fromIntegral (putSize acts)) <> putZeros gap <> acts <> putBytes bytes

-- | Add, modify, delete.
newtype FlowCommand = FlowCommand Word16
  deriving stock (Eq, Ord)
  deriving newtype (Show)

-- | Changes of flows.
pattern FlowAdd, FlowModify, FlowModifyStrict, FlowDelete, FlowDeleteStrict :: FlowCommand
pattern FlowAdd = FlowCommand 0
pattern FlowModify = FlowCommand 1
pattern FlowModifyStrict = FlowCommand 2
pattern FlowDelete = FlowCommand 3
pattern FlowDeleteStrict = FlowCommand 4

-- | Flags of a flow modification.
pattern SendFlowRemoved, CheckOverlap :: Word16
pattern SendFlowRemoved = 1
pattern CheckOverlap = 2

-- | A change of the flow table.
data FlowMod = FlowMod
  { flowModCookie :: !Word64,
    -- | 1.3
    flowModCookieMask :: !Word64,
    -- | 1.3
    flowModTable :: !Word8,
    flowModCommand :: !FlowCommand,
    flowModIdle :: !Word16,
    flowModHard :: !Word16,
    flowModPriority :: !Word16,
    flowModBuffer :: !BufferId,
    flowModOutPort :: !PortNo,
    -- | 1.3
    flowModOutGroup :: !Word32,
    flowModFlags :: !Word16,
    flowModMatch :: !Match,
    -- | In 1.0 one 'ApplyActions', or none.
    flowModInstructions :: ![Instruction]
  }
  deriving stock (Eq, Show)

-- | Add a flow of this priority; the other fields have their usual values.
flowAdd :: Word16 -> Match -> [Action] -> FlowMod
flowAdd priority m as = FlowMod 0 0 0 FlowAdd 0 0 priority NoBuffer PortAny 0xffffffff 0 m [ApplyActions as | not (null as)]

-- | Delete the flows that a match covers, in all tables.
flowDelete :: Match -> FlowMod
flowDelete m = (flowAdd 0 m []) {flowModCommand = FlowDelete, flowModTable = 0xff}

flowMod :: Version -> Codec FlowMod FlowMod
flowMod = \case
  OF10 ->
    (\m c (FlowMod _ _ _ cmd i h p b o _ f _ _) as -> FlowMod c 0 0 cmd i h p b o 0xffffffff f m as)
      <$> flowModMatch =. match10
      <*> flowModCookie =. word64
      <*> id =. middle
      <*> flowModInstructions =. instructions10
  OF13 ->
    FlowMod <$> flowModCookie =. word64 <*> flowModCookieMask =. word64 <*> flowModTable =. word8 <*> flowModCommand =. command8
      <*> flowModIdle =. word16
      <*> flowModHard =. word16
      <*> flowModPriority =. word16
      <*> flowModBuffer =. word32
      <*> flowModOutPort =. port32
      <*> flowModOutGroup =. word32
      <*> flowModFlags =. word16
      <* padding 2
      <*> flowModMatch =. match13
      <*> flowModInstructions =. listOf instructionCodec
  where
    command8 =
      checked
        (Right . FlowCommand . fromIntegral)
        (\(FlowCommand c) -> if c < 256 then Right (fromIntegral c) else Left "a flow command of more than 8 bits")
        word8
    middle =
      (\cmd i h p b o f -> FlowMod 0 0 0 (FlowCommand cmd) i h p b o 0 f matchAll [])
        <$> (\m -> case flowModCommand m of FlowCommand c -> c) =. word16
        <*> flowModIdle =. word16
        <*> flowModHard =. word16
        <*> flowModPriority =. word16
        <*> flowModBuffer =. word32
        <*> flowModOutPort =. port16
        <*> flowModFlags =. word16
    instructions10 =
      checked
        (\as -> Right [ApplyActions as | not (null as)])
        (\case [] -> Right []; [ApplyActions as] -> Right as; _ -> Left "instructions other than actions in 1.0")
        (actionsCodec OF10)

-- | A flow has ended.
data FlowRemoved = FlowRemoved
  { removedCookie :: !Word64,
    removedPriority :: !Word16,
    -- | 0: idle, 1: hard time-out, 2: deleted, 3: its group was deleted
    removedReason :: !Word8,
    -- | 1.3
    removedTable :: !Word8,
    removedSeconds :: !Word32,
    removedNanoseconds :: !Word32,
    removedIdle :: !Word16,
    -- | 1.3
    removedHard :: !Word16,
    removedPackets :: !Word64,
    removedBytes :: !Word64,
    removedMatch :: !Match
  }
  deriving stock (Eq, Show)

flowRemoved :: Version -> Codec FlowRemoved FlowRemoved
flowRemoved = \case
  OF10 ->
    (\m c p r s n i k b -> FlowRemoved c p r 0 s n i 0 k b m)
      <$> removedMatch =. match10
      <*> removedCookie =. word64
      <*> removedPriority =. word16
      <*> removedReason =. word8
      <* padding 1
      <*> removedSeconds =. word32
      <*> removedNanoseconds =. word32
      <*> removedIdle =. word16
      <* padding 2
      <*> removedPackets =. word64
      <*> removedBytes =. word64
  OF13 ->
    FlowRemoved <$> removedCookie =. word64 <*> removedPriority =. word16 <*> removedReason =. word8 <*> removedTable =. word8
      <*> removedSeconds =. word32
      <*> removedNanoseconds =. word32
      <*> removedIdle =. word16
      <*> removedHard =. word16
      <*> removedPackets =. word64
      <*> removedBytes =. word64
      <*> removedMatch =. match13

-- | A port has come, gone or changed.
data PortStatus = PortStatus
  { -- | 0: added, 1: deleted, 2: changed
    portStatusReason :: !Word8,
    portStatusPort :: !Port
  }
  deriving stock (Eq, Show)

portStatus :: Version -> Codec PortStatus PortStatus
portStatus version = PortStatus <$> portStatusReason =. word8 <* padding 7 <*> portStatusPort =. portCodec version

-- | Change a port's configuration.
data PortMod = PortMod
  { portModPort :: !PortNo,
    portModMac :: !Mac,
    portModConfig :: !Word32,
    portModMask :: !Word32,
    portModAdvertise :: !Word32
  }
  deriving stock (Eq, Show)

portMod :: Version -> Codec PortMod PortMod
portMod = \case
  OF10 -> PortMod <$> portModPort =. port16 <*> portModMac =. macCodec <*> portModConfig =. word32 <*> portModMask =. word32 <*> portModAdvertise =. word32 <* padding 4
  OF13 ->
    PortMod <$> portModPort =. port32 <* padding 4 <*> portModMac =. macCodec <* padding 2 <*> portModConfig =. word32 <*> portModMask =. word32
      <*> portModAdvertise =. word32
      <* padding 4

-- | Configure a table.
data TableMod = TableMod
  { tableModTable :: !Word8,
    tableModConfig :: !Word32
  }
  deriving stock (Eq, Show)

-- | Change a group.
data GroupMod = GroupMod
  { -- | 0: add, 1: modify, 2: delete
    groupModCommand :: !Word16,
    -- | 0: all, 1: select, 2: indirect, 3: fast failover
    groupModType :: !Word8,
    groupModId :: !Word32,
    groupModBuckets :: ![Bucket]
  }
  deriving stock (Eq, Show)

-- | Change a meter.
data MeterMod = MeterMod
  { -- | 0: add, 1: modify, 2: delete
    meterModCommand :: !Word16,
    meterModFlags :: !Word16,
    meterModId :: !Word32,
    meterModBands :: ![MeterBand]
  }
  deriving stock (Eq, Show)

-- | A queue of a port.
data Queue = Queue
  { queueId :: !Word32,
    -- | 1.3
    queuePort :: !PortNo,
    queueProperties :: ![QueueProperty]
  }
  deriving stock (Eq, Show)

-- | A property of a queue.
data QueueProperty
  = -- | In tenths of a percent.
    QueueMinRate !Word16
  | -- | 1.3
    QueueMaxRate !Word16
  | -- | Any other: type, and what follows the length.
    QueuePropertyRaw !Word16 !ByteString
  deriving stock (Eq, Show)

queueCodec :: Version -> Codec Queue Queue
queueCodec version = codecOf get put
  where
    extra = case version of
      OF10 -> 2
      OF13 -> 6 :: Int
    before = case version of
      OF10 -> 4
      OF13 -> 8 :: Int
    get = do
      q <- codecGet word32
      p <- case version of
        OF10 -> pure PortAny
        OF13 -> codecGet port32
      size <- fromIntegral <$> getWord16
      if size < before + 2 + extra
        then failGet "a queue with a wrong length"
        else isolated (size - before - 2) (skipBytes extra *> (Queue q p <$> many0 (codecGet property)))
    put (Queue q p ps) = case foldMap (codecPut property) ps of
      Refused e -> Refused e
      body
        | size > 0xffff -> Refused (TooLong size)
        | otherwise -> codecPut word32 q <> portPart <> putWord16 (fromIntegral size) <> putZeros extra <> body
        where
          size = before + 2 + extra + putSize body
      where
        portPart = case version of
          OF10 -> mempty
          OF13 -> codecPut port32 p
    property = tagged "a queue's property" properties QueuePropertyRaw $ \case
      QueuePropertyRaw kind body -> Just (kind, body)
      _ -> Nothing
    properties =
      caseOf 1 QueueMinRate (\case QueueMinRate r -> Just r; _ -> Nothing) rate :
        [caseOf 2 QueueMaxRate (\case QueueMaxRate r -> Just r; _ -> Nothing) rate | version == OF13]
    rate = id <$ padding 4 <*> id =. word16 <* padding 6

-- | A controller's role for a switch.
newtype Role = Role Word32
  deriving stock (Eq, Ord)
  deriving newtype (Show)

-- | The roles of the standard.
pattern RoleNoChange, RoleEqual, RoleMaster, RoleSlave :: Role
pattern RoleNoChange = Role 0
pattern RoleEqual = Role 1
pattern RoleMaster = Role 2
pattern RoleSlave = Role 3

-- | A role and the generation of the election that gave it.
data RoleMessage = RoleMessage
  { roleRole :: !Role,
    roleGeneration :: !Word64
  }
  deriving stock (Eq, Show)

roleMessage :: Codec RoleMessage RoleMessage
roleMessage = RoleMessage <$> roleRole =. mapped Role (\(Role r) -> r) word32 <* padding 4 <*> roleGeneration =. word64

-- | Bit sets of reasons, for a master or equal and for a slave.
data AsyncConfig = AsyncConfig
  { asyncPacketIn :: !(Word32, Word32),
    asyncPortStatus :: !(Word32, Word32),
    asyncFlowRemoved :: !(Word32, Word32)
  }
  deriving stock (Eq, Show)

asyncConfig :: Codec AsyncConfig AsyncConfig
asyncConfig = AsyncConfig <$> asyncPacketIn =. pair <*> asyncPortStatus =. pair <*> asyncFlowRemoved =. pair
  where
    pair = (,) <$> fst =. word32 <*> snd =. word32

helloElements :: Version -> Codec [HelloElement] [HelloElement]
helloElements = \case
  -- 1.0 gives the tail no form; 1.3 and Open vSwitch put the bitmap there, whatever the version.
  OF10 -> codecOf (getRest >>= \rest -> pure (fromRight [HelloElement 0 rest | not (B.null rest)] (whole rest))) $ \case
    [HelloElement 0 rest] -> putBytes rest
    es -> foldMap (codecPut element) es
  OF13 -> listOf element
  where
    -- Only what is written back as it was.
    whole rest = case runGet (codecGet (listOf element)) rest of
      Right es | all good es, Right again <- runPut (foldMap (codecPut element) es), again == rest -> Right es
      _ -> Left ()
    good = \case
      HelloElement 0 _ -> False
      _ -> True
    element = codecOf getElement putElement
    getElement = do
      kind <- getWord16
      size <- fromIntegral <$> getWord16
      if size < 4 then failGet "a hello element of less than 4 bytes" else pure ()
      e <- isolated (size - 4) (if kind == 1 then VersionBitmap <$> many0 (codecGet word32) else HelloElement kind <$> getRest)
      e <$ skipBytes (gap size)
    putElement = \case
      VersionBitmap bits -> framed 1 (foldMap (codecPut word32) bits)
      HelloElement kind bytes -> framed kind (putBytes bytes)
    framed kind b
      | size > 0xffff = Refused (TooLong size)
      | otherwise = putWord16 kind <> putWord16 (fromIntegral size) <> b <> putZeros (gap size)
      where
        size = putSize b + 4
    gap n = (n + 7) `quot` 8 * 8 - n

cases10, cases13 :: [Case Message]
cases10 =
  common OF10
    ++ [ caseOf 15 PortModMessage (\case PortModMessage m -> Just m; _ -> Nothing) (portMod OF10),
         multipartRequest OF10 16,
         multipartReply OF10 17,
         caseOf 18 (const BarrierRequest) (\case BarrierRequest -> Just (); _ -> Nothing) (pure ()),
         caseOf 19 (const BarrierReply) (\case BarrierReply -> Just (); _ -> Nothing) (pure ()),
         caseOf 20 QueueConfigRequest (\case QueueConfigRequest p -> Just p; _ -> Nothing) (id =. port16 <* padding 2),
         caseOf 21 (uncurry QueueConfigReply) (\case QueueConfigReply p q -> Just (p, q); _ -> Nothing) ((,) <$> fst =. port16 <* padding 6 <*> snd =. listOf (queueCodec OF10))
       ]
cases13 =
  common OF13
    ++ [ caseOf 15 GroupModMessage (\case GroupModMessage m -> Just m; _ -> Nothing) $
           GroupMod <$> groupModCommand =. word16 <*> groupModType =. word8 <* padding 1 <*> groupModId =. word32 <*> groupModBuckets =. listOf bucketCodec,
         caseOf 16 PortModMessage (\case PortModMessage m -> Just m; _ -> Nothing) (portMod OF13),
         caseOf 17 TableModMessage (\case TableModMessage m -> Just m; _ -> Nothing) (TableMod <$> tableModTable =. word8 <* padding 3 <*> tableModConfig =. word32),
         multipartRequest OF13 18,
         multipartReply OF13 19,
         caseOf 20 (const BarrierRequest) (\case BarrierRequest -> Just (); _ -> Nothing) (pure ()),
         caseOf 21 (const BarrierReply) (\case BarrierReply -> Just (); _ -> Nothing) (pure ()),
         caseOf 22 QueueConfigRequest (\case QueueConfigRequest p -> Just p; _ -> Nothing) (id =. port32 <* padding 4),
         caseOf 23 (uncurry QueueConfigReply) (\case QueueConfigReply p q -> Just (p, q); _ -> Nothing) ((,) <$> fst =. port32 <* padding 4 <*> snd =. listOf (queueCodec OF13)),
         caseOf 24 RoleRequest (\case RoleRequest r -> Just r; _ -> Nothing) roleMessage,
         caseOf 25 RoleReply (\case RoleReply r -> Just r; _ -> Nothing) roleMessage,
         caseOf 26 (const GetAsyncRequest) (\case GetAsyncRequest -> Just (); _ -> Nothing) (pure ()),
         caseOf 27 GetAsyncReply (\case GetAsyncReply c -> Just c; _ -> Nothing) asyncConfig,
         caseOf 28 SetAsync (\case SetAsync c -> Just c; _ -> Nothing) asyncConfig,
         caseOf 29 MeterModMessage (\case MeterModMessage m -> Just m; _ -> Nothing) $
           MeterMod <$> meterModCommand =. word16 <*> meterModFlags =. word16 <*> meterModId =. word32 <*> meterModBands =. listOf bandCodec
       ]

common :: Version -> [Case Message]
common v =
  [ caseOf 0 Hello (\case Hello es -> Just es; _ -> Nothing) (helloElements v),
    caseOf 1 (uncurry ErrorMessage) (\case ErrorMessage k b -> Just (k, b); _ -> Nothing) $
      (,) <$> (ErrorKind <$> (errorType . fst) =. word16 <*> (errorCode . fst) =. word16) <*> snd =. restBytes,
    caseOf 2 EchoRequest (\case EchoRequest b -> Just b; _ -> Nothing) restBytes,
    caseOf 3 EchoReply (\case EchoReply b -> Just b; _ -> Nothing) restBytes,
    caseOf 4 (uncurry Experimenter) (\case Experimenter e b -> Just (e, b); _ -> Nothing) ((,) <$> fst =. word32 <*> snd =. restBytes),
    caseOf 5 (const FeaturesRequest) (\case FeaturesRequest -> Just (); _ -> Nothing) (pure ()),
    caseOf 6 FeaturesReply (\case FeaturesReply f -> Just f; _ -> Nothing) (features v),
    caseOf 7 (const GetConfigRequest) (\case GetConfigRequest -> Just (); _ -> Nothing) (pure ()),
    caseOf 8 GetConfigReply (\case GetConfigReply c -> Just c; _ -> Nothing) switchConfig,
    caseOf 9 SetConfig (\case SetConfig c -> Just c; _ -> Nothing) switchConfig,
    caseOf 10 PacketInMessage (\case PacketInMessage p -> Just p; _ -> Nothing) (packetIn v),
    caseOf 11 FlowRemovedMessage (\case FlowRemovedMessage f -> Just f; _ -> Nothing) (flowRemoved v),
    caseOf 12 PortStatusMessage (\case PortStatusMessage p -> Just p; _ -> Nothing) (portStatus v),
    caseOf 13 PacketOutMessage (\case PacketOutMessage p -> Just p; _ -> Nothing) (packetOut v),
    caseOf 14 FlowModMessage (\case FlowModMessage m -> Just m; _ -> Nothing) (flowMod v)
  ]

multipartRequest, multipartReply :: Version -> Int -> Case Message
multipartRequest v n = caseOf n (uncurry MultipartRequest) (\case MultipartRequest f b -> Just (f, b); _ -> Nothing) (multipart v (requestBody v))
multipartReply v n = caseOf n (uncurry MultipartReply) (\case MultipartReply f b -> Just (f, b); _ -> Nothing) (multipart v (replyBody v))

multipart :: Version -> (Word16 -> Get b, b -> Maybe (Int, Put)) -> Codec (Word16, b) (Word16, b)
multipart v (getBody, putBody) = codecOf get put
  where
    gap = if v == OF10 then 0 else 4
    get = do
      kind <- getWord16
      flags <- getWord16
      skipBytes gap
      (,) flags <$> getBody kind
    put (flags, b) = case putBody b of
      Nothing -> refuse "a multipart body that this version does not have"
      Just (kind, bytes) -> putWord16 (fromIntegral kind) <> putWord16 flags <> putZeros gap <> bytes

-- | The bytes of a header.
headerBytes :: Int
headerBytes = 8

-- | Read one whole message of a version.
--
-- [Cost]: O(bytes).
decode :: Version -> ByteString -> Either DecodeError (Xid, Message)
decode version bytes
  | B.length bytes < headerBytes = Left (DecodeError "less than a header" (B.length bytes))
  | B.unsafeIndex bytes 0 /= versionByte version = Left (DecodeError ("version byte " ++ show (B.unsafeIndex bytes 0)) (B.length bytes))
  | otherwise = decodeBody version bytes

-- | Read a hello, whatever version its header has.
decodeHello :: ByteString -> Either DecodeError (Xid, Message)
decodeHello bytes
  | B.length bytes < headerBytes = Left (DecodeError "less than a header" (B.length bytes))
  | B.unsafeIndex bytes 1 /= 0 = Left (DecodeError "the first message is no hello" (B.length bytes))
  | otherwise = decodeBody OF10 bytes

decodeBody :: Version -> ByteString -> Either DecodeError (Xid, Message)
decodeBody version bytes
  | size /= B.length bytes = Left (DecodeError ("a length of " ++ show size) (B.length bytes))
  | otherwise = (,) xid <$> runGet body (B.drop headerBytes bytes)
  where
    at i = fromIntegral (B.unsafeIndex bytes i) :: Int
    size = at 2 * 256 + at 3
    xid = fromIntegral (((at 4 * 256 + at 5) * 256 + at 6) * 256 + at 7)
    body = case choose (at 1) of
      Just g -> g
      Nothing -> MessageRaw (fromIntegral (at 1)) <$> getRest
    choose = case version of
      OF10 -> choose10
      OF13 -> choose13

choose10, choose13 :: Int -> Maybe (Get Message)
choose10 = chooseGet cases10
choose13 = chooseGet cases13

-- | Write a message. Messages of more than 65,535 bytes are refused.
--
-- [Cost]: O(bytes).
encode :: Version -> Xid -> Message -> Either EncodeError ByteString
encode version xid message = case found of
  Nothing -> Left (Unsupported (messageName message))
  Just (kind, body)
    | size > 0xffff -> Left (TooLong size)
    | otherwise -> runPut (putWord8 (versionByte version) <> putWord8 (fromIntegral kind) <> putWord16 (fromIntegral size) <> codecPut word32 xid <> body)
    where
      size = headerBytes + putSize body
  where
    found = case message of
      MessageRaw kind bytes -> Just (fromIntegral kind, putBytes bytes)
      _ -> choosePut (if version == OF10 then cases10 else cases13) message
