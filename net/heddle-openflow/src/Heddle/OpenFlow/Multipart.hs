-- |
-- Module      : Heddle.OpenFlow.Multipart
-- Description : Statistics and descriptions: requests and replies
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- 1.0 calls them statistics, 1.3 multipart messages. One type of bodies serves both; a field that a version does not
-- have is 0 after reading and is not written.
--
-- Cost: a record for each entry of a reply.
module Heddle.OpenFlow.Multipart
  ( -- * Bodies
    MultipartRequestBody (..),
    MultipartReplyBody (..),
    appendReplies,

    -- * Entries
    SwitchDescription (..),
    FlowQuery (..),
    allFlows,
    FlowStats (..),
    AggregateStats (..),
    TableStats (..),
    PortStats (..),
    QueueStats (..),
    BucketCounter (..),
    GroupStats (..),
    Bucket (..),
    GroupDescription (..),
    GroupFeatures (..),
    MeterBandStats (..),
    MeterStats (..),
    MeterBand (..),
    MeterConfig (..),
    MeterFeatures (..),
    TableFeatures (..),
    TableProperty (..),
    Port (..),

    -- * Codecs
    requestBody,
    replyBody,
    portCodec,
    bucketCodec,
    bandCodec,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Maybe (fromMaybe)
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire

-- | A port's description.
data Port = Port
  { portNumber :: !PortNo,
    portMac :: !Mac,
    portName :: !ByteString,
    portConfig :: !Word32,
    portState :: !Word32,
    portCurrent :: !Word32,
    portAdvertised :: !Word32,
    portSupported :: !Word32,
    portPeer :: !Word32,
    -- | 1.3, in kbit/s.
    portCurrentSpeed :: !Word32,
    -- | 1.3, in kbit/s.
    portMaxSpeed :: !Word32
  }
  deriving stock (Eq, Show)

portCodec :: Version -> Codec Port Port
portCodec v =
  Port <$> portNumber =. (if v == OF10 then port16 else paddedPort v) <*> portMac =. macCodec <* since13 v () (padding 2) <*> portName =. text 16
    <*> portConfig =. word32
    <*> portState =. word32
    <*> portCurrent =. word32
    <*> portAdvertised =. word32
    <*> portSupported =. word32
    <*> portPeer =. word32
    <*> since13 v 0 (portCurrentSpeed =. word32)
    <*> since13 v 0 (portMaxSpeed =. word32)

-- | A switch's description of itself.
data SwitchDescription = SwitchDescription
  { descManufacturer :: !ByteString,
    descHardware :: !ByteString,
    descSoftware :: !ByteString,
    descSerial :: !ByteString,
    descDatapath :: !ByteString
  }
  deriving stock (Eq, Show)

description :: Codec SwitchDescription SwitchDescription
description =
  SwitchDescription <$> descManufacturer =. text 256 <*> descHardware =. text 256 <*> descSoftware =. text 256 <*> descSerial =. text 32 <*> descDatapath =. text 256

-- | A selection of flows for a request.
data FlowQuery = FlowQuery
  { queryTable :: !Word8,
    queryOutPort :: !PortNo,
    -- | 1.3
    queryOutGroup :: !Word32,
    -- | 1.3
    queryCookie :: !Word64,
    -- | 1.3
    queryCookieMask :: !Word64,
    queryMatch :: !Match
  }
  deriving stock (Eq, Show)

-- | All flows of all tables.
allFlows :: FlowQuery
allFlows = FlowQuery 0xff PortAny 0xffffffff 0 0 matchAll

flowQuery :: Version -> Codec FlowQuery FlowQuery
flowQuery = \case
  OF10 -> (\m t p -> FlowQuery t p 0xffffffff 0 0 m) <$> queryMatch =. match10 <*> queryTable =. word8 <* padding 1 <*> queryOutPort =. port16
  OF13 ->
    FlowQuery <$> queryTable =. word8 <* padding 3 <*> queryOutPort =. port32 <*> queryOutGroup =. word32 <* padding 4
      <*> queryCookie =. word64
      <*> queryCookieMask =. word64
      <*> queryMatch =. match13

-- | One flow.
data FlowStats = FlowStats
  { flowTable :: !Word8,
    flowSeconds :: !Word32,
    flowNanoseconds :: !Word32,
    flowPriority :: !Word16,
    flowIdle :: !Word16,
    flowHard :: !Word16,
    -- | 1.3
    flowStatsFlags :: !Word16,
    flowCookie :: !Word64,
    flowPackets :: !Word64,
    flowBytes :: !Word64,
    flowMatch :: !Match,
    -- | In 1.0 its actions are one 'ApplyActions', or none.
    flowInstructions :: ![Instruction]
  }
  deriving stock (Eq, Show)

flowStats :: Version -> Codec FlowStats FlowStats
flowStats = \case
  OF10 ->
    lengthPrefixed 0 $
      (\t m s n p i h c k b as -> FlowStats t s n p i h 0 c k b m as)
        <$> flowTable =. word8
        <* padding 1
        <*> flowMatch =. match10
        <*> flowSeconds =. word32
        <*> flowNanoseconds =. word32
        <*> flowPriority =. word16
        <*> flowIdle =. word16
        <*> flowHard =. word16
        <* padding 6
        <*> flowCookie =. word64
        <*> flowPackets =. word64
        <*> flowBytes =. word64
        <*> flowInstructions =. asInstructions
  OF13 ->
    lengthPrefixed 0 $
      FlowStats <$> flowTable =. word8 <* padding 1 <*> flowSeconds =. word32 <*> flowNanoseconds =. word32 <*> flowPriority =. word16
        <*> flowIdle =. word16
        <*> flowHard =. word16
        <*> flowStatsFlags =. word16
        <* padding 4
        <*> flowCookie =. word64
        <*> flowPackets =. word64
        <*> flowBytes =. word64
        <*> flowMatch =. match13
        <*> flowInstructions =. listOf instructionCodec

asInstructions :: Codec [Instruction] [Instruction]
asInstructions =
  checked
    (\as -> Right [ApplyActions as | not (null as)])
    ( \case
        [] -> Right []
        [ApplyActions as] -> Right as
        _ -> Left "instructions other than actions in 1.0"
    )
    (actionsCodec OF10)

-- | Sums over the flows that were asked for.
data AggregateStats = AggregateStats
  { aggregatePackets :: !Word64,
    aggregateBytes :: !Word64,
    aggregateFlows :: !Word32
  }
  deriving stock (Eq, Show)

aggregate :: Codec AggregateStats AggregateStats
aggregate = AggregateStats <$> aggregatePackets =. word64 <*> aggregateBytes =. word64 <*> aggregateFlows =. word32 <* padding 4

-- | Counters of a table.
data TableStats = TableStats
  { tableStatsId :: !Word8,
    -- | 1.0
    tableStatsName :: !ByteString,
    -- | 1.0
    tableStatsWildcards :: !Word32,
    -- | 1.0
    tableStatsMax :: !Word32,
    tableStatsActive :: !Word32,
    tableStatsLookups :: !Word64,
    tableStatsMatched :: !Word64
  }
  deriving stock (Eq, Show)

tableStats :: Version -> Codec TableStats TableStats
tableStats = \case
  OF10 ->
    TableStats <$> tableStatsId =. word8 <* padding 3 <*> tableStatsName =. text 32 <*> tableStatsWildcards =. word32 <*> tableStatsMax =. word32
      <*> tableStatsActive =. word32
      <*> tableStatsLookups =. word64
      <*> tableStatsMatched =. word64
  OF13 -> (\t -> TableStats t B.empty 0 0) <$> tableStatsId =. word8 <* padding 3 <*> tableStatsActive =. word32 <*> tableStatsLookups =. word64 <*> tableStatsMatched =. word64

-- | The counters, in the order of the protocol: packets received and sent, bytes received and sent, dropped, errors,
-- frame errors, overruns, CRC errors, collisions.
data PortStats = PortStats
  { portStatsPort :: !PortNo,
    portStatsCounters :: ![Word64],
    -- | 1.3
    portStatsSeconds :: !Word32,
    -- | 1.3
    portStatsNanoseconds :: !Word32
  }
  deriving stock (Eq, Show)

portStats :: Version -> Codec PortStats PortStats
portStats v =
  PortStats <$> portStatsPort =. paddedPort v <*> portStatsCounters =. exactly 12 word64
    <*> since13 v 0 (portStatsSeconds =. word32)
    <*> since13 v 0 (portStatsNanoseconds =. word32)

-- A port in eight bytes.
paddedPort :: Version -> Codec PortNo PortNo
paddedPort = \case
  OF10 -> port16 <* padding 6
  OF13 -> port32 <* padding 4

exactly :: Int -> Codec a a -> Codec [a] [a]
exactly n c = codecOf (mapM (const (codecGet c)) [1 .. n]) $ \as ->
  if length as == n then foldMap (codecPut c) as else refuse (show (length as) ++ " numbers where there are " ++ show n)

-- | Counters of a queue.
data QueueStats = QueueStats
  { queueStatsPort :: !PortNo,
    queueStatsQueue :: !Word32,
    queueStatsBytes :: !Word64,
    queueStatsPackets :: !Word64,
    queueStatsErrors :: !Word64,
    -- | 1.3
    queueStatsSeconds :: !Word32,
    -- | 1.3
    queueStatsNanoseconds :: !Word32
  }
  deriving stock (Eq, Show)

queueStats :: Version -> Codec QueueStats QueueStats
queueStats v =
  QueueStats <$> queueStatsPort =. alignedPort v <*> queueStatsQueue =. word32 <*> queueStatsBytes =. word64 <*> queueStatsPackets =. word64
    <*> queueStatsErrors =. word64
    <*> since13 v 0 (queueStatsSeconds =. word32)
    <*> since13 v 0 (queueStatsNanoseconds =. word32)

-- A port in four bytes.
alignedPort :: Version -> Codec PortNo PortNo
alignedPort = \case
  OF10 -> port16 <* padding 2
  OF13 -> port32

-- | Counters of a bucket.
data BucketCounter = BucketCounter
  { counterPackets :: !Word64,
    counterBytes :: !Word64
  }
  deriving stock (Eq, Show)

-- | Counters of a group.
data GroupStats = GroupStats
  { groupStatsId :: !Word32,
    groupStatsReferences :: !Word32,
    groupStatsPackets :: !Word64,
    groupStatsBytes :: !Word64,
    groupStatsSeconds :: !Word32,
    groupStatsNanoseconds :: !Word32,
    groupStatsBuckets :: ![BucketCounter]
  }
  deriving stock (Eq, Show)

groupStats :: Codec GroupStats GroupStats
groupStats =
  lengthPrefixed 0 $
    GroupStats <$ padding 2 <*> groupStatsId =. word32 <*> groupStatsReferences =. word32 <* padding 4 <*> groupStatsPackets =. word64
      <*> groupStatsBytes =. word64
      <*> groupStatsSeconds =. word32
      <*> groupStatsNanoseconds =. word32
      <*> groupStatsBuckets =. listOf (BucketCounter <$> counterPackets =. word64 <*> counterBytes =. word64)

-- | One alternative of a group.
data Bucket = Bucket
  { bucketWeight :: !Word16,
    bucketWatchPort :: !PortNo,
    bucketWatchGroup :: !Word32,
    bucketActions :: ![Action]
  }
  deriving stock (Eq, Show)

bucketCodec :: Codec Bucket Bucket
bucketCodec =
  lengthPrefixed 0 $
    Bucket <$> bucketWeight =. word16 <*> bucketWatchPort =. port32 <*> bucketWatchGroup =. word32 <* padding 4 <*> bucketActions =. actionsCodec OF13

-- | A group as it is configured.
data GroupDescription = GroupDescription
  { groupDescType :: !Word8,
    groupDescId :: !Word32,
    groupDescBuckets :: ![Bucket]
  }
  deriving stock (Eq, Show)

groupDescription :: Codec GroupDescription GroupDescription
groupDescription =
  lengthPrefixed 0 $
    GroupDescription <$> groupDescType =. word8 <* padding 1 <*> groupDescId =. word32 <*> groupDescBuckets =. listOf bucketCodec

-- | Bit sets: types, capabilities; then for each of the four types the most groups and its actions.
data GroupFeatures = GroupFeatures
  { groupTypes :: !Word32,
    groupCapabilities :: !Word32,
    groupMost :: ![Word32],
    groupActions :: ![Word32]
  }
  deriving stock (Eq, Show)

groupFeatures :: Codec GroupFeatures GroupFeatures
groupFeatures = GroupFeatures <$> groupTypes =. word32 <*> groupCapabilities =. word32 <*> groupMost =. exactly 4 word32 <*> groupActions =. exactly 4 word32

-- | Counters of a meter's band.
data MeterBandStats = MeterBandStats
  { bandPackets :: !Word64,
    bandBytes :: !Word64
  }
  deriving stock (Eq, Show)

-- | Counters of a meter.
data MeterStats = MeterStats
  { meterStatsId :: !Word32,
    meterStatsFlows :: !Word32,
    meterStatsPackets :: !Word64,
    meterStatsBytes :: !Word64,
    meterStatsSeconds :: !Word32,
    meterStatsNanoseconds :: !Word32,
    meterStatsBands :: ![MeterBandStats]
  }
  deriving stock (Eq, Show)

meterStats :: Codec MeterStats MeterStats
meterStats =
  codecOf
    ( do
        ident <- codecGet word32
        size <- fromIntegral <$> getWord16
        if size < 6 then failGet "meter statistics with a wrong length" else isolated (size - 6) (codecGet (body ident))
    )
    (\m -> putSized (codecPut word32 (meterStatsId m)) 6 (codecPut (body (meterStatsId m)) m))
  where
    body ident =
      MeterStats ident <$ padding 6 <*> meterStatsFlows =. word32 <*> meterStatsPackets =. word64 <*> meterStatsBytes =. word64
        <*> meterStatsSeconds =. word32
        <*> meterStatsNanoseconds =. word32
        <*> meterStatsBands =. listOf (MeterBandStats <$> bandPackets =. word64 <*> bandBytes =. word64)

-- | One rate of a meter.
data MeterBand
  = -- | Rate and burst.
    DropBand !Word32 !Word32
  | -- | Rate, burst, precedence level.
    DscpRemark !Word32 !Word32 !Word8
  | -- | Rate, burst, experimenter, the rest.
    BandExperimenter !Word32 !Word32 !Word32 !ByteString
  | -- | Any other: type, and what follows the length.
    BandRaw !Word16 !ByteString
  deriving stock (Eq, Show)

bandCodec :: Codec MeterBand MeterBand
bandCodec = tagged "a meter band" cases BandRaw $ \case
  BandRaw kind body -> Just (kind, body)
  _ -> Nothing
  where
    cases =
      [ caseOf 1 (uncurry DropBand) (\case DropBand r b -> Just (r, b); _ -> Nothing) ((,) <$> fst =. word32 <*> snd =. word32 <* padding 4),
        caseOf 2 (\(r, b, l) -> DscpRemark r b l) (\case DscpRemark r b l -> Just (r, b, l); _ -> Nothing) $
          (,,) <$> (\(r, _, _) -> r) =. word32 <*> (\(_, b, _) -> b) =. word32 <*> (\(_, _, l) -> l) =. word8 <* padding 3,
        caseOf 0xffff (\((r, b), (e, x)) -> BandExperimenter r b e x) (\case BandExperimenter r b e x -> Just ((r, b), (e, x)); _ -> Nothing) $
          (\r b e x -> ((r, b), (e, x))) <$> (fst . fst) =. word32 <*> (snd . fst) =. word32 <*> (fst . snd) =. word32 <*> (snd . snd) =. restBytes
      ]

-- | A meter as it is configured.
data MeterConfig = MeterConfig
  { meterConfigFlags :: !Word16,
    meterConfigId :: !Word32,
    meterConfigBands :: ![MeterBand]
  }
  deriving stock (Eq, Show)

meterConfig :: Codec MeterConfig MeterConfig
meterConfig = lengthPrefixed 0 $ MeterConfig <$> meterConfigFlags =. word16 <*> meterConfigId =. word32 <*> meterConfigBands =. listOf bandCodec

-- | The features of a switch's meters.
data MeterFeatures = MeterFeatures
  { meterMost :: !Word32,
    meterBandTypes :: !Word32,
    meterCapabilities :: !Word32,
    meterMostBands :: !Word8,
    meterMostColors :: !Word8
  }
  deriving stock (Eq, Show)

meterFeatures :: Codec MeterFeatures MeterFeatures
meterFeatures = MeterFeatures <$> meterMost =. word32 <*> meterBandTypes =. word32 <*> meterCapabilities =. word32 <*> meterMostBands =. word8 <*> meterMostColors =. word8 <* padding 2

-- | A table's features.
data TableFeatures = TableFeatures
  { tableFeaturesId :: !Word8,
    tableFeaturesName :: !ByteString,
    tableFeaturesMetadataMatch :: !Word64,
    tableFeaturesMetadataWrite :: !Word64,
    tableFeaturesConfig :: !Word32,
    tableFeaturesMax :: !Word32,
    tableFeaturesProperties :: ![TableProperty]
  }
  deriving stock (Eq, Show)

-- | A property of a table. The number is the property's type, which says whether it is about hits or misses.
data TableProperty
  = -- | Types 0 and 1: headers of instructions: type and the rest.
    TableInstructions !Word16 ![(Word16, ByteString)]
  | -- | Types 2 and 3.
    NextTables !Word16 ![Word8]
  | -- | Types 4 to 7: headers of actions.
    TableActions !Word16 ![(Word16, ByteString)]
  | -- | Types 8, 10, 12 to 15: headers of fields.
    TableFields !Word16 ![Word32]
  | -- | Any other.
    TablePropertyRaw !Word16 !ByteString
  deriving stock (Eq, Show)

tableFeatures :: Codec TableFeatures TableFeatures
tableFeatures =
  lengthPrefixed 0 $
    TableFeatures <$> tableFeaturesId =. word8 <* padding 5 <*> tableFeaturesName =. text 32 <*> tableFeaturesMetadataMatch =. word64
      <*> tableFeaturesMetadataWrite =. word64
      <*> tableFeaturesConfig =. word32
      <*> tableFeaturesMax =. word32
      <*> tableFeaturesProperties =. listOf tableProperty

tableProperty :: Codec TableProperty TableProperty
tableProperty = codecOf get put
  where
    get = do
      kind <- getWord16
      size <- fromIntegral <$> getWord16
      if size < 4 then failGet "a table property of less than 4 bytes" else pure ()
      p <- isolated (size - 4) (body kind)
      p <$ skipBytes (gap size)
    body kind
      | kind <= 1 = TableInstructions kind <$> many0 (codecGet header)
      | kind <= 3 = NextTables kind <$> many0 (codecGet word8)
      | kind <= 7 = TableActions kind <$> many0 (codecGet header)
      | kind `elem` [8, 10, 12, 13, 14, 15] = TableFields kind <$> many0 (codecGet word32)
      | otherwise = TablePropertyRaw kind <$> getRest
    put = \case
      TableInstructions kind hs -> framed kind (foldMap (codecPut header) hs)
      NextTables kind ts -> framed kind (foldMap putWord8 ts)
      TableActions kind hs -> framed kind (foldMap (codecPut header) hs)
      TableFields kind fs -> framed kind (foldMap (codecPut word32) fs)
      TablePropertyRaw kind bytes -> framed kind (putBytes bytes)
    framed kind b = putSized (putWord16 kind) 4 b <> putZeros (gap (putSize b + 4))
    gap n = (n + 7) `quot` 8 * 8 - n
    -- A type, a length that counts both, and what an experimenter adds.
    header =
      codecOf
        ( do
            kind <- getWord16
            size <- fromIntegral <$> getWord16
            if size < 4 then failGet "a header of less than 4 bytes" else (,) kind <$> getBytes (size - 4)
        )
        (\(kind, bytes) -> putSized (putWord16 kind) 4 (putBytes bytes))

-- | A question.
data MultipartRequestBody
  = DescriptionRequest
  | FlowRequest !FlowQuery
  | AggregateRequest !FlowQuery
  | TableRequest
  | PortStatsRequest !PortNo
  | -- | Port and queue.
    QueueStatsRequest !PortNo !Word32
  | GroupStatsRequest !Word32
  | GroupDescriptionRequest
  | GroupFeaturesRequest
  | MeterStatsRequest !Word32
  | MeterConfigRequest !Word32
  | MeterFeaturesRequest
  | TableFeaturesRequest ![TableFeatures]
  | PortDescriptionRequest
  | -- | Any other: type and content.
    MultipartRequestRaw !Word16 !ByteString
  deriving stock (Eq, Show)

-- | An answer.
data MultipartReplyBody
  = DescriptionReply !SwitchDescription
  | FlowReply ![FlowStats]
  | AggregateReply !AggregateStats
  | TableReply ![TableStats]
  | PortStatsReply ![PortStats]
  | QueueStatsReply ![QueueStats]
  | GroupStatsReply ![GroupStats]
  | GroupDescriptionReply ![GroupDescription]
  | GroupFeaturesReply !GroupFeatures
  | MeterStatsReply ![MeterStats]
  | MeterConfigReply ![MeterConfig]
  | MeterFeaturesReply !MeterFeatures
  | TableFeaturesReply ![TableFeatures]
  | PortDescriptionReply ![Port]
  | -- | Any other: type and content.
    MultipartReplyRaw !Word16 !ByteString
  deriving stock (Eq, Show)

-- | The parts of one reply, in order, as one body. 'Nothing' if they do not fit together.
--
-- [Cost]: O(entries).
appendReplies :: [MultipartReplyBody] -> Maybe MultipartReplyBody
appendReplies parts = case parts of
  [one] -> Just one
  FlowReply _ : _ -> joined FlowReply (\case FlowReply x -> Just x; _ -> Nothing)
  TableReply _ : _ -> joined TableReply (\case TableReply x -> Just x; _ -> Nothing)
  PortStatsReply _ : _ -> joined PortStatsReply (\case PortStatsReply x -> Just x; _ -> Nothing)
  QueueStatsReply _ : _ -> joined QueueStatsReply (\case QueueStatsReply x -> Just x; _ -> Nothing)
  GroupStatsReply _ : _ -> joined GroupStatsReply (\case GroupStatsReply x -> Just x; _ -> Nothing)
  GroupDescriptionReply _ : _ -> joined GroupDescriptionReply (\case GroupDescriptionReply x -> Just x; _ -> Nothing)
  MeterStatsReply _ : _ -> joined MeterStatsReply (\case MeterStatsReply x -> Just x; _ -> Nothing)
  MeterConfigReply _ : _ -> joined MeterConfigReply (\case MeterConfigReply x -> Just x; _ -> Nothing)
  TableFeaturesReply _ : _ -> joined TableFeaturesReply (\case TableFeaturesReply x -> Just x; _ -> Nothing)
  PortDescriptionReply _ : _ -> joined PortDescriptionReply (\case PortDescriptionReply x -> Just x; _ -> Nothing)
  MultipartReplyRaw kind _ : _ -> MultipartReplyRaw kind . B.concat <$> traverse (\case MultipartReplyRaw k b | k == kind -> Just b; _ -> Nothing) parts
  _ -> Nothing
  where
    joined build match = build . concat <$> traverse match parts

-- | The body of a request: its type, the reader, the writer.
requestBody :: Version -> (Word16 -> Get MultipartRequestBody, MultipartRequestBody -> Maybe (Int, Put))
requestBody version = bodies MultipartRequestRaw (\case MultipartRequestRaw k b -> Just (k, b); _ -> Nothing) (shared ++ (if version == OF10 then [] else new))
  where
    shared =
      [ caseOf 0 (const DescriptionRequest) (\case DescriptionRequest -> Just (); _ -> Nothing) (pure ()),
        caseOf 1 FlowRequest (\case FlowRequest q -> Just q; _ -> Nothing) (flowQuery version),
        caseOf 2 AggregateRequest (\case AggregateRequest q -> Just q; _ -> Nothing) (flowQuery version),
        caseOf 3 (const TableRequest) (\case TableRequest -> Just (); _ -> Nothing) (pure ()),
        caseOf 4 PortStatsRequest (\case PortStatsRequest p -> Just p; _ -> Nothing) (paddedPort version),
        caseOf 5 (uncurry QueueStatsRequest) (\case QueueStatsRequest p q -> Just (p, q); _ -> Nothing) ((,) <$> fst =. alignedPort version <*> snd =. word32)
      ]
    new =
      [ caseOf 6 GroupStatsRequest (\case GroupStatsRequest g -> Just g; _ -> Nothing) (word32 <* padding 4),
        caseOf 7 (const GroupDescriptionRequest) (\case GroupDescriptionRequest -> Just (); _ -> Nothing) (pure ()),
        caseOf 8 (const GroupFeaturesRequest) (\case GroupFeaturesRequest -> Just (); _ -> Nothing) (pure ()),
        caseOf 9 MeterStatsRequest (\case MeterStatsRequest m -> Just m; _ -> Nothing) (word32 <* padding 4),
        caseOf 10 MeterConfigRequest (\case MeterConfigRequest m -> Just m; _ -> Nothing) (word32 <* padding 4),
        caseOf 11 (const MeterFeaturesRequest) (\case MeterFeaturesRequest -> Just (); _ -> Nothing) (pure ()),
        caseOf 12 TableFeaturesRequest (\case TableFeaturesRequest t -> Just t; _ -> Nothing) (listOf tableFeatures),
        caseOf 13 (const PortDescriptionRequest) (\case PortDescriptionRequest -> Just (); _ -> Nothing) (pure ())
      ]

-- | The body of a reply.
replyBody :: Version -> (Word16 -> Get MultipartReplyBody, MultipartReplyBody -> Maybe (Int, Put))
replyBody version = bodies MultipartReplyRaw (\case MultipartReplyRaw k b -> Just (k, b); _ -> Nothing) (shared ++ (if version == OF10 then [] else new))
  where
    shared =
      [ caseOf 0 DescriptionReply (\case DescriptionReply d -> Just d; _ -> Nothing) description,
        caseOf 1 FlowReply (\case FlowReply f -> Just f; _ -> Nothing) (listOf (flowStats version)),
        caseOf 2 AggregateReply (\case AggregateReply a -> Just a; _ -> Nothing) aggregate,
        caseOf 3 TableReply (\case TableReply t -> Just t; _ -> Nothing) (listOf (tableStats version)),
        caseOf 4 PortStatsReply (\case PortStatsReply p -> Just p; _ -> Nothing) (listOf (portStats version)),
        caseOf 5 QueueStatsReply (\case QueueStatsReply q -> Just q; _ -> Nothing) (listOf (queueStats version))
      ]
    new =
      [ caseOf 6 GroupStatsReply (\case GroupStatsReply g -> Just g; _ -> Nothing) (listOf groupStats),
        caseOf 7 GroupDescriptionReply (\case GroupDescriptionReply g -> Just g; _ -> Nothing) (listOf groupDescription),
        caseOf 8 GroupFeaturesReply (\case GroupFeaturesReply g -> Just g; _ -> Nothing) groupFeatures,
        caseOf 9 MeterStatsReply (\case MeterStatsReply m -> Just m; _ -> Nothing) (listOf meterStats),
        caseOf 10 MeterConfigReply (\case MeterConfigReply m -> Just m; _ -> Nothing) (listOf meterConfig),
        caseOf 11 MeterFeaturesReply (\case MeterFeaturesReply m -> Just m; _ -> Nothing) meterFeatures,
        caseOf 12 TableFeaturesReply (\case TableFeaturesReply t -> Just t; _ -> Nothing) (listOf tableFeatures),
        caseOf 13 PortDescriptionReply (\case PortDescriptionReply p -> Just p; _ -> Nothing) (listOf (portCodec OF13))
      ]

bodies :: (Word16 -> ByteString -> s) -> (s -> Maybe (Word16, ByteString)) -> [Case s] -> (Word16 -> Get s, s -> Maybe (Int, Put))
bodies raw unraw cases = (\kind -> fromMaybe (raw kind <$> getRest) (choose (fromIntegral kind)), put)
  where
    choose = chooseGet cases
    put s = case unraw s of
      Just (kind, bytes) -> Just (fromIntegral kind, putBytes bytes)
      Nothing -> choosePut cases s
