-- |
-- Module      : Generators
-- Description : Valid messages of each version, and bytes that are certainly none
module Generators
  ( validMessage,
    canonicalMatch,
    anyAction,
    onlyInvalid,
    mutated,
  )
where

import Data.Bits (shiftL, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Either (fromRight)
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.OpenFlow
import Test.QuickCheck hiding ((.&.))

number :: (Integral a, Bounded a) => Gen a
number = frequency [(3, arbitrarySizedBoundedIntegral'), (1, pure maxBound), (1, pure 0), (2, fromInteger <$> choose (0, 64))]
  where
    arbitrarySizedBoundedIntegral' = let top = maxBound in (\x -> fromInteger x `asTypeOf` top) <$> choose (0, toInteger top)

word8' :: Gen Word8
word8' = number

word16' :: Gen Word16
word16' = number

word32' :: Gen Word32
word32' = number

word64' :: Gen Word64
word64' = number

bytesOf :: Int -> Gen ByteString
bytesOf n = B.pack <$> vectorOf n (choose (0, 255))

content :: Gen ByteString
content = choose (0, 40) >>= bytesOf

-- A length that keeps what is 8 bytes long so.
multipleOf8 :: Int -> Gen ByteString
multipleOf8 less = choose (0, 4) >>= \n -> bytesOf (8 * n + (negate less .&. 7))

name :: Int -> Gen ByteString
name most = choose (0, most) >>= \n -> B.pack <$> vectorOf n (choose (1, 255))

few :: Gen a -> Gen [a]
few g = choose (0, 3) >>= \n -> vectorOf n g

port :: Version -> Gen PortNo
port = \case
  OF10 -> oneof [PortNo . fromIntegral <$> choose (0, 0xfeff :: Word16), PortNo <$> choose (0xffffff00, 0xffffffff)]
  OF13 -> PortNo <$> word32'

mac :: Gen Mac
mac = Mac <$> choose (0, 0xffffffffffff)

validMatch :: Version -> Gen Match
validMatch = \case
  OF10 -> frequency [(4, canonicalMatch), (1, MatchRaw 0 <$> suchThat (bytesOf 40) ((/= 0) . B.last))]
  OF13 -> frequency [(6, Match <$> few oxm13), (1, MatchRaw . (+ 2) <$> choose (0, 100) <*> content)]

oxm13 :: Gen Oxm
oxm13 =
  oneof
    [ do
        field <- elements knownFields
        let size = fieldBytes (fieldInfo field)
        Oxm field <$> bytesOf size <*> oneof [pure Nothing, Just <$> bytesOf size],
      OxmRaw <$> elements [0, 1, 0xffff, 0x1234] <*> word8' <*> content,
      OxmRaw 0x8000 <$> choose (80, 255) <*> content
    ]

-- | A match that 1.0 can say, in the order in which its structure is read.
canonicalMatch :: Gen Match
canonicalMatch = do
  ethType <- elements [Nothing, Just 0x0800, Just 0x0806, Just 0x86dd]
  proto <- elements [Nothing, Just 1, Just 6, Just 17, Just 132, Just 7]
  let arp = ethType == Just 0x0806
      (src, dst) = if arp then (ArpSpa, ArpTpa) else (Ipv4Src, Ipv4Dst)
      (tpSrc, tpDst, top) = case proto of
        Just 17 -> (UdpSrc, UdpDst, 0xffff)
        Just 132 -> (SctpSrc, SctpDst, 0xffff)
        Just 1 | not arp -> (Icmpv4Type, Icmpv4Code, 255)
        _ -> (TcpSrc, TcpDst, 0xffff)
  Match . concat
    <$> sequence
      [ maybeField (oxm InPort . toInteger . portWord <$> port OF10),
        maybeField (oxm EthDst <$> choose (0, 0xffffffffffff)),
        maybeField (oxm EthSrc <$> choose (0, 0xffffffffffff)),
        pure (foldMap (\t -> [oxm EthType t]) ethType),
        maybeField (oxm VlanVid <$> elements [0, 0x1001, 0x1fff]),
        maybeField (oxm VlanPcp <$> choose (0, 7)),
        maybeField (oxm IpDscp <$> choose (0, 63)),
        pure (foldMap (\p -> [oxm (if arp then ArpOp else IpProto) p]) proto),
        address src,
        address dst,
        maybeField (oxm tpSrc <$> choose (0, top)),
        maybeField (oxm tpDst <$> choose (0, top))
      ]
  where
    maybeField g = oneof [pure [], pure <$> g]
    address field = do
      n <- choose (0, 0xffffffff)
      k <- choose (1, 31)
      elements [[], [oxm field n], [oxmMasked field n (0xffffffff `shiftL` k .&. 0xffffffff)]]

-- | An action of a version.
anyAction :: Version -> Gen Action
anyAction = \case
  OF10 ->
    oneof
      [ Output <$> port OF10 <*> word16',
        SetVlanVid <$> word16',
        SetVlanPcp <$> word8',
        pure StripVlan,
        SetDlSrc <$> mac,
        SetDlDst <$> mac,
        SetNwSrc <$> word32',
        SetNwDst <$> word32',
        SetNwTos <$> word8',
        SetTpSrc <$> word16',
        SetTpDst <$> word16',
        Enqueue <$> port OF10 <*> word32',
        ActionExperimenter <$> word32' <*> multipleOf8 0,
        ActionRaw <$> choose (100, 0xfffe) <*> multipleOf8 4
      ]
  OF13 ->
    oneof
      [ Output <$> port OF13 <*> word16',
        elements [CopyTtlOut, CopyTtlIn, DecMplsTtl, PopVlan, DecNwTtl, PopPbb],
        SetMplsTtl <$> word8',
        PushVlan <$> word16',
        PushMpls <$> word16',
        PopMpls <$> word16',
        PushPbb <$> word16',
        SetQueue <$> word32',
        Group <$> word32',
        SetNwTtl <$> word8',
        SetField <$> oxm13,
        ActionExperimenter <$> word32' <*> multipleOf8 0,
        ActionRaw <$> choose (100, 0xfffe) <*> multipleOf8 4
      ]

instruction :: Gen Instruction
instruction =
  oneof
    [ GotoTable <$> word8',
      WriteMetadata <$> word64' <*> word64',
      WriteActions <$> few (anyAction OF13),
      ApplyActions <$> few (anyAction OF13),
      pure ClearActions,
      MeterInstruction <$> word32',
      InstructionExperimenter <$> word32' <*> multipleOf8 0,
      InstructionRaw <$> choose (100, 0xfffe) <*> multipleOf8 4
    ]

instructions :: Version -> Gen [Instruction]
instructions = \case
  OF10 -> (\as -> [ApplyActions as | not (null as)]) <$> few (anyAction OF10)
  OF13 -> few instruction

portDescription :: Version -> Gen Port
portDescription v =
  Port <$> port v <*> mac <*> name 16 <*> word32' <*> word32' <*> word32' <*> word32' <*> word32' <*> word32' <*> new <*> new
  where
    new = if v == OF13 then word32' else pure 0

only13 :: Version -> a -> Gen a -> Gen a
only13 v old g = if v == OF13 then g else pure old

-- | Every kind of message that the version has, well-formed.
validMessage :: Version -> Gen Message
validMessage v = oneof (shared ++ (if v == OF13 then new else []))
  where
    shared =
      [ Hello <$> hello,
        ErrorMessage <$> (ErrorKind <$> word16' <*> word16') <*> content,
        EchoRequest <$> content,
        EchoReply <$> content,
        Experimenter <$> word32' <*> content,
        elements [FeaturesRequest, GetConfigRequest, BarrierRequest, BarrierReply],
        FeaturesReply
          <$> ( Features <$> word64' <*> word32' <*> word8' <*> only13 v 0 word8' <*> word32' <*> word32'
                  <*> if v == OF10 then few (portDescription OF10) else pure []
              ),
        GetConfigReply <$> (SwitchConfig <$> word16' <*> word16'),
        SetConfig <$> (SwitchConfig <$> word16' <*> word16'),
        PacketInMessage
          <$> ( PacketIn <$> word32' <*> word16' <*> word8' <*> only13 v 0 word8' <*> only13 v 0 word64'
                  <*> (if v == OF10 then (\p -> Match [oxm InPort (toInteger (portWord p))]) <$> port OF10 else validMatch OF13)
                  <*> content
              ),
        FlowRemovedMessage
          <$> ( FlowRemoved <$> word64' <*> word16' <*> word8' <*> only13 v 0 word8' <*> word32' <*> word32' <*> word16' <*> only13 v 0 word16' <*> word64'
                  <*> word64'
                  <*> validMatch v
              ),
        PortStatusMessage <$> (PortStatus <$> word8' <*> portDescription v),
        PacketOutMessage <$> (PacketOut <$> word32' <*> port v <*> few (anyAction v) <*> content),
        FlowModMessage
          <$> ( FlowMod <$> word64' <*> only13 v 0 word64' <*> only13 v 0 word8' <*> (FlowCommand <$> choose (0, 255)) <*> word16' <*> word16' <*> word16'
                  <*> word32'
                  <*> port v
                  <*> only13 v 0xffffffff word32'
                  <*> word16'
                  <*> validMatch v
                  <*> instructions v
              ),
        PortModMessage <$> (PortMod <$> port v <*> mac <*> word32' <*> word32' <*> word32'),
        MultipartRequest <$> word16' <*> request v,
        MultipartReply <$> word16' <*> reply v,
        QueueConfigRequest <$> port v,
        QueueConfigReply <$> port v <*> few (Queue <$> word32' <*> (if v == OF13 then port v else pure PortAny) <*> few queueProperty),
        MessageRaw <$> choose (30, 255) <*> content
      ]
    new =
      [ GroupModMessage <$> (GroupMod <$> word16' <*> word8' <*> word32' <*> few bucket),
        TableModMessage <$> (TableMod <$> word8' <*> word32'),
        RoleRequest <$> role,
        RoleReply <$> role,
        pure GetAsyncRequest,
        GetAsyncReply <$> async,
        SetAsync <$> async,
        MeterModMessage <$> (MeterMod <$> word16' <*> word16' <*> word32' <*> few band)
      ]
    hello = few (oneof [VersionBitmap <$> few word32', HelloElement <$> choose (2, 1000) <*> content])
    role = RoleMessage . Role <$> word32' <*> word64'
    async = AsyncConfig <$> two <*> two <*> two
    two = (,) <$> word32' <*> word32'
    queueProperty =
      oneof ([QueueMinRate <$> word16', QueuePropertyRaw <$> choose (100, 0xffff) <*> multipleOf8 4] ++ [QueueMaxRate <$> word16' | v == OF13])

bucket :: Gen Bucket
bucket = Bucket <$> word16' <*> port OF13 <*> word32' <*> few (anyAction OF13)

band :: Gen MeterBand
band =
  oneof
    [ DropBand <$> word32' <*> word32',
      DscpRemark <$> word32' <*> word32' <*> word8',
      BandExperimenter <$> word32' <*> word32' <*> word32' <*> content,
      BandRaw <$> choose (3, 1000) <*> content
    ]

query :: Version -> Gen FlowQuery
query v = FlowQuery <$> word8' <*> port v <*> only13 v 0xffffffff word32' <*> only13 v 0 word64' <*> only13 v 0 word64' <*> validMatch v

request :: Version -> Gen MultipartRequestBody
request v =
  oneof
    ( [ elements [DescriptionRequest, TableRequest],
        FlowRequest <$> query v,
        AggregateRequest <$> query v,
        PortStatsRequest <$> port v,
        QueueStatsRequest <$> port v <*> word32',
        MultipartRequestRaw <$> choose (100, 0xffff) <*> content
      ]
        ++ [ g
             | v == OF13,
               g <-
                 [ elements [GroupDescriptionRequest, GroupFeaturesRequest, MeterFeaturesRequest, PortDescriptionRequest],
                   GroupStatsRequest <$> word32',
                   MeterStatsRequest <$> word32',
                   MeterConfigRequest <$> word32',
                   TableFeaturesRequest <$> few tableFeatures
                 ]
           ]
    )

reply :: Version -> Gen MultipartReplyBody
reply v =
  oneof
    ( [ DescriptionReply <$> (SwitchDescription <$> name 256 <*> name 256 <*> name 256 <*> name 32 <*> name 256),
        FlowReply
          <$> few
            ( FlowStats <$> word8' <*> word32' <*> word32' <*> word16' <*> word16' <*> word16' <*> only13 v 0 word16' <*> word64' <*> word64' <*> word64'
                <*> validMatch v
                <*> instructions v
            ),
        AggregateReply <$> (AggregateStats <$> word64' <*> word64' <*> word32'),
        TableReply
          <$> few
            ( if v == OF10
                then TableStats <$> word8' <*> name 32 <*> word32' <*> word32' <*> word32' <*> word64' <*> word64'
                else TableStats <$> word8' <*> pure B.empty <*> pure 0 <*> pure 0 <*> word32' <*> word64' <*> word64'
            ),
        PortStatsReply <$> few (PortStats <$> port v <*> vectorOf 12 word64' <*> only13 v 0 word32' <*> only13 v 0 word32'),
        QueueStatsReply <$> few (QueueStats <$> port v <*> word32' <*> word64' <*> word64' <*> word64' <*> only13 v 0 word32' <*> only13 v 0 word32'),
        MultipartReplyRaw <$> choose (100, 0xffff) <*> content
      ]
        ++ [ g
             | v == OF13,
               g <-
                 [ GroupStatsReply
                     <$> few (GroupStats <$> word32' <*> word32' <*> word64' <*> word64' <*> word32' <*> word32' <*> few (BucketCounter <$> word64' <*> word64')),
                   GroupDescriptionReply <$> few (GroupDescription <$> word8' <*> word32' <*> few bucket),
                   GroupFeaturesReply <$> (GroupFeatures <$> word32' <*> word32' <*> vectorOf 4 word32' <*> vectorOf 4 word32'),
                   MeterStatsReply
                     <$> few (MeterStats <$> word32' <*> word32' <*> word64' <*> word64' <*> word32' <*> word32' <*> few (MeterBandStats <$> word64' <*> word64')),
                   MeterConfigReply <$> few (MeterConfig <$> word16' <*> word32' <*> few band),
                   MeterFeaturesReply <$> (MeterFeatures <$> word32' <*> word32' <*> word32' <*> word8' <*> word8'),
                   TableFeaturesReply <$> few tableFeatures,
                   PortDescriptionReply <$> few (portDescription OF13)
                 ]
           ]
    )

tableFeatures :: Gen TableFeatures
tableFeatures = TableFeatures <$> word8' <*> name 32 <*> word64' <*> word64' <*> word32' <*> word32' <*> few feature
  where
    feature =
      oneof
        [ TableInstructions <$> choose (0, 1) <*> few header,
          NextTables <$> choose (2, 3) <*> few word8',
          TableActions <$> choose (4, 7) <*> few header,
          TableFields <$> elements [8, 10, 12, 13, 14, 15] <*> few word32',
          TablePropertyRaw <$> elements [9, 11, 16, 0xfffe, 0xffff] <*> content
        ]
    header = (,) <$> word16' <*> oneof [pure B.empty, content]

-- | Bytes with a header of this version that are certainly no message: too short for their type, too long, or with a
-- length inside that does not fit.
onlyInvalid :: Version -> Gen ByteString
onlyInvalid v =
  oneof
    [ -- A header whose length is not that of the bytes.
      do
        bytes <- valid
        wrong <- suchThat word16' (/= fromIntegral (B.length bytes))
        pure (set16 2 wrong bytes),
      -- Another version.
      do
        bytes <- valid
        other <- suchThat word8' (/= versionByte v)
        pure (B.cons other (B.drop 1 bytes)),
      -- Less than a header.
      valid >>= \bytes -> choose (0, 7) >>= \n -> pure (B.take n bytes),
      -- Less than the fixed part.
      do
        (kind, least) <- elements (fixedParts v)
        n <- choose (0, least - 1)
        raw kind <$> bytesOf n,
      -- More than a message that ends after its fixed part.
      do
        kind <- elements exactKinds
        n <- choose (1, 30)
        raw kind <$> ((<>) (B.replicate (exactSize kind) 0) <$> bytesOf n),
      -- An action whose length is below 4, or beyond the list.
      do
        size <- oneof [choose (0, 3), choose (17, 0xffff)]
        rest <- bytesOf 12
        let action = B.pack [0, 0] <> big16 size <> rest
        pure (packetOutWith action),
      -- A list of actions that is longer than the message.
      do
        size <- choose (1, 0xffff)
        pure (raw 13 (B.replicate 4 255 <> (if v == OF10 then B.pack [0, 1] else B.replicate 4 0) <> big16 size <> (if v == OF10 then B.empty else B.replicate 6 0))),
      -- An output of a wrong size.
      do
        n <- elements (if v == OF10 then [0, 1, 2, 3, 5, 12] else [0, 4, 11, 13, 20])
        body <- bytesOf n
        pure (packetOutWith (B.pack [0, 0] <> big16 (fromIntegral (4 + n)) <> body))
    ]
  where
    valid = do
      m <- validMessage v
      either (const (pure (raw 5 B.empty))) pure (encode v 7 m)
    raw kind body = B.pack [versionByte v, kind] <> big16 (fromIntegral (8 + B.length body)) <> B.pack [0, 0, 0, 7] <> body
    packetOutWith actions =
      raw 13 (B.replicate 4 255 <> (if v == OF10 then B.pack [0, 1] else B.replicate 4 0) <> big16 (fromIntegral (B.length actions)) <> (if v == OF10 then B.empty else B.replicate 6 0) <> actions)
    exactKinds = [5, 7, if v == OF10 then 18 else 20, 8, 9]
    exactSize kind = if kind == 8 || kind == 9 then 4 else 0

-- The least size of the body of some types.
fixedParts :: Version -> [(Word8, Int)]
fixedParts = \case
  OF10 -> [(1, 4), (4, 4), (6, 24), (8, 4), (9, 4), (10, 10), (11, 80), (12, 56), (13, 8), (14, 64), (15, 24), (16, 4), (17, 4), (20, 4), (21, 8)]
  OF13 -> [(1, 4), (4, 4), (6, 24), (8, 4), (9, 4), (10, 26), (11, 48), (12, 72), (13, 16), (14, 48), (15, 8), (16, 32), (17, 8), (18, 8), (19, 8), (22, 8), (23, 8), (24, 16), (25, 16), (27, 24), (28, 24), (29, 8)]

big16 :: Word16 -> ByteString
big16 w = B.pack [fromIntegral (w `div` 256), fromIntegral w]

set16 :: Int -> Word16 -> ByteString -> ByteString
set16 i w b = B.take i b <> big16 w <> B.drop (i + 2) b

-- | A valid message with some bytes changed, removed or doubled; mostly with a header that fits.
mutated :: Version -> Gen ByteString
mutated v = do
  message <- validMessage v
  let bytes = fromRight (B.pack [versionByte v, 5, 0, 8, 0, 0, 0, 0]) (encode v 7 message)
  steps <- choose (1, 4 :: Int)
  broken <- iterateM steps bytes
  fit <- frequency [(9, pure True), (1, pure False)]
  pure (if fit && B.length broken >= 4 then set16 2 (fromIntegral (B.length broken)) broken else broken)
  where
    iterateM 0 b = pure b
    iterateM k b = step b >>= iterateM (k - 1)
    step b
      | B.length b < 9 = pure b
      | otherwise = do
        at <- choose (8, B.length b - 1)
        oneof
          [ (\w -> B.take at b <> B.cons w (B.drop (at + 1) b)) <$> word8',
            (\w -> B.take at b <> B.take (B.length b - at) (big16 w) <> B.drop (at + 2) b) <$> word16',
            pure (B.take at b),
            (\n -> B.take at b <> B.drop (at + n) b) <$> choose (1, 16),
            (\n -> B.take (at + n) b <> B.drop at b) <$> choose (1, 16),
            (\w -> B.take 1 b <> B.cons w (B.drop 2 b)) <$> choose (0, 31)
          ]
