{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.OpenFlow.Types
-- Description : Numbers that both versions of the protocol share
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- Numbers are newtypes with names for the known values, so unknown values survive.
--
-- Invariant: ports have 32 bits in both versions; 1.0's reserved ones (from 0xff00) are those of 1.3.
-- Cost: values of a word.
module Heddle.OpenFlow.Types
  ( Version (..),
    versionByte,
    versionOf,
    Xid,
    DatapathId,
    renderDatapath,
    BufferId,
    pattern NoBuffer,

    -- * Ports
    PortNo (..),
    pattern PortMax,
    pattern PortInPort,
    pattern PortTable,
    pattern PortNormal,
    pattern PortFlood,
    pattern PortAll,
    pattern PortController,
    pattern PortLocal,
    pattern PortAny,
    portTo16,
    portFrom16,

    -- * Addresses
    Mac (..),
    macWord,
    renderMac,
    parseMac,
    macIsMulticast,

    -- * Codecs
    port16,
    port32,
    macCodec,
    since13,
  )
where

import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString qualified as B
import Data.Char (isHexDigit)
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.OpenFlow.Wire
import Numeric (readHex, showHex)

-- | A version of the protocol.
data Version = OF10 | OF13
  deriving stock (Eq, Ord, Show, Enum, Bounded)

-- | The version's byte in a header: 1 or 4.
versionByte :: Version -> Word8
versionByte = \case
  OF10 -> 1
  OF13 -> 4
{-# INLINE versionByte #-}

-- | The version of a header's byte.
versionOf :: Word8 -> Maybe Version
versionOf = \case
  1 -> Just OF10
  4 -> Just OF13
  _ -> Nothing

-- | Pairs a reply with its request.
type Xid = Word32

-- | A switch's name.
type DatapathId = Word64

-- | Sixteen hexadecimal digits, as ovs-ofctl shows it.
renderDatapath :: DatapathId -> String
renderDatapath d = replicate (16 - length digits) '0' ++ digits
  where
    digits = showHex d ""

-- | A packet that a switch keeps.
type BufferId = Word32

-- | The packet is not in a buffer of the switch.
pattern NoBuffer :: BufferId
pattern NoBuffer = 0xffffffff

-- | A port of a switch.
newtype PortNo = PortNo {portWord :: Word32}
  deriving stock (Eq, Ord)
  deriving newtype (Enum, Num)

-- | Ports with a meaning of their own.
pattern PortMax, PortInPort, PortTable, PortNormal, PortFlood, PortAll, PortController, PortLocal, PortAny :: PortNo
pattern PortMax = PortNo 0xffffff00
pattern PortInPort = PortNo 0xfffffff8
pattern PortTable = PortNo 0xfffffff9
pattern PortNormal = PortNo 0xfffffffa
pattern PortFlood = PortNo 0xfffffffb
pattern PortAll = PortNo 0xfffffffc
pattern PortController = PortNo 0xfffffffd
pattern PortLocal = PortNo 0xfffffffe

-- | No port in particular; 1.0's OFPP_NONE.
pattern PortAny = PortNo 0xffffffff

instance Show PortNo where
  show = \case
    PortInPort -> "IN_PORT"
    PortTable -> "TABLE"
    PortNormal -> "NORMAL"
    PortFlood -> "FLOOD"
    PortAll -> "ALL"
    PortController -> "CONTROLLER"
    PortLocal -> "LOCAL"
    PortAny -> "ANY"
    PortNo n -> show n

-- | The port in 1.0, which has 16 bits.
portTo16 :: PortNo -> Maybe Word16
portTo16 (PortNo n)
  | n < 0xff00 = Just (fromIntegral n)
  | n >= 0xffffff00 = Just (fromIntegral (n .&. 0xffff))
  | otherwise = Nothing
{-# INLINE portTo16 #-}

-- | A port number of 1.0, as 1.3 has it.
portFrom16 :: Word16 -> PortNo
portFrom16 n
  | n < 0xff00 = PortNo (fromIntegral n)
  | otherwise = PortNo (0xffff0000 .|. fromIntegral n)
{-# INLINE portFrom16 #-}

port16, port32 :: Codec PortNo PortNo
port16 = checked (Right . portFrom16) (\p -> maybe (Left ("port " ++ show p ++ " in 16 bits")) Right (portTo16 p)) word16
port32 = mapped PortNo portWord word32

-- | Values of what only 1.3 has, as they are read in 1.0.
since13 :: Version -> a -> Codec s a -> Codec s a
since13 version none codec = case version of
  OF10 -> pure none
  OF13 -> codec

-- | An Ethernet address, in the lower 48 bits.
newtype Mac = Mac Word64
  deriving stock (Eq, Ord)

-- | The address in the lower 48 bits.
macWord :: Mac -> Word64
macWord (Mac w) = w

instance Show Mac where
  show = renderMac

-- | @00:11:22:33:44:55@
renderMac :: Mac -> String
renderMac (Mac w) = drop 1 (concat [':' : two (fromIntegral (w `shiftR` (8 * i)) :: Word8) | i <- [5, 4 .. 0]])
  where
    two b = (if b < 16 then "0" else "") ++ showHex b ""

-- | Read an address such as @00:1b:21:3c:9d:f8@.
parseMac :: String -> Maybe Mac
parseMac = fmap Mac . go (0 :: Int) 0
  where
    go n acc s
      | n == 6 = if null s then Just acc else Nothing
      | otherwise = case span isHexDigit (if n == 0 then s else drop 1 s) of
        (digits, rest)
          | (n == 0 || take 1 s == ":") && not (null digits) && length digits <= 2,
            [(b, "")] <- readHex digits ->
            go (n + 1) (acc `shiftL` 8 .|. b) rest
        _ -> Nothing

-- | Multicast and broadcast addresses, which no host has.
macIsMulticast :: Mac -> Bool
macIsMulticast (Mac w) = testBit w 40
{-# INLINE macIsMulticast #-}

macCodec :: Codec Mac Mac
macCodec = mapped (Mac . B.foldl' (\w b -> w `shiftL` 8 .|. fromIntegral b) 0) (\(Mac w) -> B.pack [fromIntegral (w `shiftR` (8 * i)) | i <- [5, 4 .. 0]]) (fixedBytes 6)
