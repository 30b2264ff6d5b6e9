-- |
-- Module      : Heddle.OpenFlow.Match
-- Description : What a flow matches: fields of 1.3, and 1.0's structure as such fields
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- A match is a list of fields (OXM). 1.0's fixed structure of 40 bytes is read as the fields that it does not wildcard.
-- A structure that has bits set under a wildcard, or prefix counts above 32, says the same as one without, but has
-- other bytes: it is kept as it is ('MatchRaw').
--
-- Invariant: the value of a known field has the field's size.
-- Cost: a few words for each field.
module Heddle.OpenFlow.Match
  ( Match (..),
    matchAll,
    Oxm (..),
    Field (..),
    fieldOf,
    FieldInfo (..),
    fieldInfo,
    knownFields,
    oxm,
    oxmMasked,
    oxmNumber,
    fieldValue,

    -- * Codecs
    match10,
    match13,
    oxmCodec,
  )
where

import Control.Monad (guard)
import Data.Bits (complement, shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Foldable (find)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word16, Word32, Word8)
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire

-- | A flow's match.
data Match
  = -- | All of these fields, in this order; none matches every packet.
    Match ![Oxm]
  | -- | A match of another type: its type, and its bytes. Type 0 in 1.0 is the whole structure of 40 bytes.
    MatchRaw !Word16 !ByteString
  deriving stock (Eq, Show)

-- | The match of every packet.
matchAll :: Match
matchAll = Match []

-- | One field.
data Oxm
  = -- | A field of the basic class: its value, and the mask if there is one.
    Oxm !Field !ByteString !(Maybe ByteString)
  | -- | Any other: the class, the field with the mask's bit, and the bytes that follow.
    OxmRaw !Word16 !Word8 !ByteString
  deriving stock (Eq, Show)

-- | The fields of the basic class, by number.
data Field
  = InPort
  | InPhyPort
  | Metadata
  | EthDst
  | EthSrc
  | EthType
  | VlanVid
  | VlanPcp
  | IpDscp
  | IpEcn
  | IpProto
  | Ipv4Src
  | Ipv4Dst
  | TcpSrc
  | TcpDst
  | UdpSrc
  | UdpDst
  | SctpSrc
  | SctpDst
  | Icmpv4Type
  | Icmpv4Code
  | ArpOp
  | ArpSpa
  | ArpTpa
  | ArpSha
  | ArpTha
  | Ipv6Src
  | Ipv6Dst
  | Ipv6Flabel
  | Icmpv6Type
  | Icmpv6Code
  | Ipv6NdTarget
  | Ipv6NdSll
  | Ipv6NdTll
  | MplsLabel
  | MplsTc
  | MplsBos
  | PbbIsid
  | TunnelId
  | Ipv6Exthdr
  deriving stock (Eq, Ord, Show, Enum, Bounded)

-- | The field with a number of OXM's basic class.
fieldOf :: Word8 -> Maybe Field
fieldOf n
  | fromIntegral n <= fromEnum (maxBound :: Field) = Just (toEnum (fromIntegral n))
  | otherwise = Nothing

-- | A field's layout.
data FieldInfo = FieldInfo
  { -- | Its size on the wire.
    fieldBytes :: !Int,
    -- | Its significant bits.
    fieldBits :: !Int,
    -- | True if the standard allows a mask.
    fieldMaskable :: !Bool
  }

-- | The layout of a field.
fieldInfo :: Field -> FieldInfo
fieldInfo = \case
  InPort -> FieldInfo 4 32 False
  InPhyPort -> FieldInfo 4 32 False
  Metadata -> FieldInfo 8 64 True
  EthDst -> FieldInfo 6 48 True
  EthSrc -> FieldInfo 6 48 True
  EthType -> FieldInfo 2 16 False
  VlanVid -> FieldInfo 2 13 True
  VlanPcp -> FieldInfo 1 3 False
  IpDscp -> FieldInfo 1 6 False
  IpEcn -> FieldInfo 1 2 False
  IpProto -> FieldInfo 1 8 False
  Ipv4Src -> FieldInfo 4 32 True
  Ipv4Dst -> FieldInfo 4 32 True
  TcpSrc -> FieldInfo 2 16 False
  TcpDst -> FieldInfo 2 16 False
  UdpSrc -> FieldInfo 2 16 False
  UdpDst -> FieldInfo 2 16 False
  SctpSrc -> FieldInfo 2 16 False
  SctpDst -> FieldInfo 2 16 False
  Icmpv4Type -> FieldInfo 1 8 False
  Icmpv4Code -> FieldInfo 1 8 False
  ArpOp -> FieldInfo 2 16 False
  ArpSpa -> FieldInfo 4 32 True
  ArpTpa -> FieldInfo 4 32 True
  ArpSha -> FieldInfo 6 48 True
  ArpTha -> FieldInfo 6 48 True
  Ipv6Src -> FieldInfo 16 128 True
  Ipv6Dst -> FieldInfo 16 128 True
  Ipv6Flabel -> FieldInfo 4 20 True
  Icmpv6Type -> FieldInfo 1 8 False
  Icmpv6Code -> FieldInfo 1 8 False
  Ipv6NdTarget -> FieldInfo 16 128 False
  Ipv6NdSll -> FieldInfo 6 48 False
  Ipv6NdTll -> FieldInfo 6 48 False
  MplsLabel -> FieldInfo 4 20 False
  MplsTc -> FieldInfo 1 3 False
  MplsBos -> FieldInfo 1 1 False
  PbbIsid -> FieldInfo 3 24 True
  TunnelId -> FieldInfo 8 64 True
  Ipv6Exthdr -> FieldInfo 2 9 True

-- | All fields of the standard.
knownFields :: [Field]
knownFields = [minBound .. maxBound]

-- | A field with a number as its value; higher bits are dropped.
oxm :: Field -> Integer -> Oxm
oxm field n = Oxm field (bigBytes (fieldBytes (fieldInfo field)) n) Nothing

-- | The same with a mask: 1 where the packet's bit must be the value's.
oxmMasked :: Field -> Integer -> Integer -> Oxm
oxmMasked field n m = Oxm field (bigBytes size n) (Just (bigBytes size m))
  where
    size = fieldBytes (fieldInfo field)

bigBytes :: Int -> Integer -> ByteString
bigBytes size n = B.pack [fromIntegral (n `shiftR` (8 * i)) | i <- [size - 1, size - 2 .. 0]]

-- | The value as a number.
oxmNumber :: ByteString -> Integer
oxmNumber = B.foldl' (\n b -> n `shiftL` 8 .|. fromIntegral b) 0

-- | The value and mask of a field, if the match has it.
fieldValue :: Field -> Match -> Maybe (Integer, Maybe Integer)
fieldValue field = \case
  Match fields -> case [(oxmNumber v, oxmNumber <$> m) | Oxm f v m <- fields, f == field] of
    found : _ -> Just found
    [] -> Nothing
  MatchRaw _ _ -> Nothing

basicClass :: Word16
basicClass = 0x8000

oxmCodec :: Codec Oxm Oxm
oxmCodec = codecOf get put
  where
    get = do
      cls <- getWord16
      fieldByte <- codecGet word8
      size <- codecGet word8
      body <- getBytes (fromIntegral size)
      case fieldOf (fieldByte `shiftR` 1) of
        Just field | cls == basicClass -> typed field (testBit fieldByte 0) body
        _ -> pure (OxmRaw cls fieldByte body)
    typed field masked body
      | B.length body /= (if masked then 2 * size else size) = failGet ("a match of " ++ show field ++ " with a wrong length")
      | masked = let (v, m) = B.splitAt size body in pure (Oxm field v (Just m))
      | otherwise = pure (Oxm field body Nothing)
      where
        size = fieldBytes (fieldInfo field)
    put = \case
      Oxm field v m
        | B.length v /= size || maybe False ((/= size) . B.length) m -> refuse ("a match of " ++ show field ++ " with a wrong length")
        | otherwise ->
          putWord16 basicClass <> putWord8 (fromIntegral (2 * fromEnum field + (if isJust m then 1 else 0)))
            <> putWord8 (fromIntegral (maybe size (const (2 * size)) m))
            <> putBytes v
            <> foldMap putBytes m
        where
          size = fieldBytes (fieldInfo field)
      OxmRaw cls fieldByte body
        | B.length body > 255 -> refuse "a match field of more than 255 bytes"
        | otherwise -> putWord16 cls <> putWord8 fieldByte <> putWord8 (fromIntegral (B.length body)) <> putBytes body

-- | 1.3: type, length without the padding, fields, padding to a multiple of 8.
match13 :: Codec Match Match
match13 = codecOf get put
  where
    get = do
      kind <- getWord16
      size <- fromIntegral <$> getWord16
      if size < 4 then failGet "a match of less than 4 bytes" else pure ()
      m <- isolated (size - 4) (if kind == 1 then Match <$> many0 (codecGet oxmCodec) else MatchRaw kind <$> getRest)
      m <$ skipBytes (up size - size)
    put = \case
      Match fields -> framed 1 (foldMap (codecPut oxmCodec) fields)
      MatchRaw kind body -> framed kind (putBytes body)
    framed kind body = case body of
      Refused e -> Refused e
      Put n _
        | size > 0xffff -> Refused (TooLong size)
        | otherwise -> putWord16 kind <> putWord16 (fromIntegral size) <> body <> putZeros (up size - size)
        where
          size = n + 4
    up n = (n + 7) `quot` 8 * 8

-- 1.0's structure, field by field.
data Fixed = Fixed
  { fixWildcards :: !Word32,
    fixInPort :: !Word16,
    fixSrc :: !Mac,
    fixDst :: !Mac,
    fixVlan :: !Word16,
    fixPcp :: !Word8,
    fixType :: !Word16,
    fixTos :: !Word8,
    fixProto :: !Word8,
    fixNwSrc :: !Word32,
    fixNwDst :: !Word32,
    fixTpSrc :: !Word16,
    fixTpDst :: !Word16
  }
  deriving stock (Eq)

fixed :: Codec Fixed Fixed
fixed =
  Fixed <$> fixWildcards =. word32 <*> fixInPort =. word16 <*> fixSrc =. macCodec <*> fixDst =. macCodec
    <*> fixVlan =. word16
    <*> fixPcp =. word8
    <* padding 1
    <*> fixType =. word16
    <*> fixTos =. word8
    <*> fixProto =. word8
    <* padding 2
    <*> fixNwSrc =. word32
    <*> fixNwDst =. word32
    <*> fixTpSrc =. word16
    <*> fixTpDst =. word16

-- | 1.0's match of 40 bytes.
match10 :: Codec Match Match
match10 = codecOf get put
  where
    get = do
      bytes <- getBytes 40
      case runGet (codecGet fixed) bytes of
        Left e -> failGet (decodeWhat e)
        Right f ->
          let fields = toFields f
           in pure (if fromFields fields == Right f then Match fields else MatchRaw 0 bytes)
    put = \case
      Match fields -> either refuse (codecPut fixed) (fromFields fields)
      MatchRaw 0 bytes | B.length bytes == 40 -> putBytes bytes
      MatchRaw _ _ -> refuse "a match of another type"

toFields :: Fixed -> [Oxm]
toFields f =
  concat
    [ [oxm InPort (toInteger (portWord (portFrom16 (fixInPort f)))) | present 0],
      [oxm EthDst (mac (fixDst f)) | present 3],
      [oxm EthSrc (mac (fixSrc f)) | present 2],
      [oxm EthType (toInteger (fixType f)) | present 4],
      [vlan (fixVlan f) | present 1],
      [oxm VlanPcp (toInteger (fixPcp f)) | present 20],
      [oxm IpDscp (toInteger (fixTos f `shiftR` 2)) | present 21],
      [protocol (toInteger (fixProto f)) | present 5],
      prefix netSrc 8 (fixNwSrc f),
      prefix netDst 14 (fixNwDst f),
      [oxm tpSrc (toInteger (fixTpSrc f)) | present 6],
      [oxm tpDst (toInteger (fixTpDst f)) | present 7]
    ]
  where
    present bit = not (testBit (fixWildcards f) bit)
    mac (Mac w) = toInteger w
    vlan 0xffff = oxm VlanVid 0
    vlan v = oxm VlanVid (toInteger v .|. 0x1000)
    arp = present 4 && fixType f == 0x0806
    (netSrc, netDst, protocol)
      | arp = (ArpSpa, ArpTpa, oxm ArpOp)
      | otherwise = (Ipv4Src, Ipv4Dst, oxm IpProto)
    (tpSrc, tpDst)
      | not (present 5) = (TcpSrc, TcpDst)
      | fixProto f == 17 = (UdpSrc, UdpDst)
      | fixProto f == 132 = (SctpSrc, SctpDst)
      | fixProto f == 1 && not arp = (Icmpv4Type, Icmpv4Code)
      | otherwise = (TcpSrc, TcpDst)
    prefix field at value
      | ignored >= 32 = []
      | ignored == 0 = [oxm field (toInteger value)]
      | otherwise = [oxmMasked field (toInteger value) (0xffffffff `shiftL` ignored .&. 0xffffffff)]
      where
        ignored = fromIntegral ((fixWildcards f `shiftR` at) .&. 63) :: Int

fromFields :: [Oxm] -> Either String Fixed
fromFields = foldl (\sofar o -> sofar >>= \f -> add f o) (Right empty)
  where
    -- Everything is wildcarded: bits 0 to 7, 20 and 21, and 32 bits of each address.
    empty = Fixed (0x3000ff .|. 32 `shiftL` 8 .|. 32 `shiftL` 14) 0 (Mac 0) (Mac 0) 0 0 0 0 0 0 0 0 0
    add f o = case o of
      Oxm field v m -> fromMaybe (Left ("a match of " ++ show field ++ " in 1.0")) $ do
        let n = oxmNumber v
        case (field, m) of
          (Ipv4Src, _) -> network 8 (\w x -> w {fixNwSrc = x}) f n m
          (ArpSpa, _) -> network 8 (\w x -> w {fixNwSrc = x}) f n m
          (Ipv4Dst, _) -> network 14 (\w x -> w {fixNwDst = x}) f n m
          (ArpTpa, _) -> network 14 (\w x -> w {fixNwDst = x}) f n m
          (_, Just _) -> Nothing
          (InPort, _) -> (\p -> set 0 f {fixInPort = p}) <$> portTo16 (PortNo (fromInteger n))
          (EthDst, _) -> Just (set 3 f {fixDst = Mac (fromInteger n)})
          (EthSrc, _) -> Just (set 2 f {fixSrc = Mac (fromInteger n)})
          (EthType, _) -> Just (set 4 f {fixType = fromInteger n})
          (VlanVid, _)
            | n == 0 -> Just (set 1 f {fixVlan = 0xffff})
            | n .&. 0x1000 /= 0 && n < 0x2000 -> Just (set 1 f {fixVlan = fromInteger (n .&. 0xfff)})
            | otherwise -> Nothing
          (VlanPcp, _) -> Just (set 20 f {fixPcp = fromInteger n})
          (IpDscp, _) | n < 64 -> Just (set 21 f {fixTos = fromInteger (n `shiftL` 2)})
          (IpProto, _) -> Just (set 5 f {fixProto = fromInteger n})
          (ArpOp, _) | n < 256 -> Just (set 5 f {fixProto = fromInteger n})
          (_, _)
            | field `elem` [TcpSrc, UdpSrc, SctpSrc, Icmpv4Type] -> Just (set 6 f {fixTpSrc = fromInteger n})
            | field `elem` [TcpDst, UdpDst, SctpDst, Icmpv4Code] -> Just (set 7 f {fixTpDst = fromInteger n})
            | otherwise -> Nothing
      OxmRaw {} -> Left "a match field of another class in 1.0"
    set bit f = Right f {fixWildcards = fixWildcards f .&. complement (1 `shiftL` bit)}
    network at store f n m = do
      ignored <- case m of
        Nothing -> Just 0
        Just bytes -> find (\k -> (0xffffffff `shiftL` k) .&. 0xffffffff == oxmNumber bytes) [0 .. 31]
      guard (n < 0x100000000)
      let g = store f (fromInteger n)
      pure (Right g {fixWildcards = (fixWildcards g .&. complement (63 `shiftL` at)) .|. fromIntegral (ignored :: Int) `shiftL` at})
