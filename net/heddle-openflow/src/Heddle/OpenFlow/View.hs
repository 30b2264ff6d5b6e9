-- |
-- Module      : Heddle.OpenFlow.View
-- Description : Frequent messages read and written in place
-- Stability   : stable
--
-- Packet-ins are read where they lie, packet-outs, flow modifications, echoes and barriers are written where they are
-- sent from. "Heddle.OpenFlow" has all messages, as values.
--
-- Invariant: no function reads outside the frame that it was given; all lengths within it are checked first.
-- Cost: loads and stores; nothing is allocated.
-- Owner: the caller owns the memory.
module Heddle.OpenFlow.View
  ( -- * Frames
    frameLength,
    frameNeedsMore,
    frameBad,
    viewVersion,
    viewType,
    viewXid,

    -- ** Types of messages
    typeHello,
    typeError,
    typeEchoRequest,
    typeEchoReply,
    typePacketIn,
    typePacketOut,
    typeFlowMod,
    typeBarrierRequest,
    typeBarrierReply,
    typeMultipartReply,

    -- * Packet-ins
    withPacketIn,

    -- * Writing
    pokeHeader,
    pokeEchoReply,
    pokeBarrier,
    barrierBytes,
    pokePacketOut,
    packetOutBound,
    pokeRelease,
    releaseBound,
    pokeLayer2Flow,
    layer2FlowBytes,
    pokePacketIn,
    packetInBound,

    -- * Numbers in network order
    peek16,
    peek32,
    peek48,
    peek64,
    poke16,
    poke32,
    poke48,
    poke64,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.Word (Word16, Word32, Word64, Word8, byteSwap16, byteSwap32, byteSwap64)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.OpenFlow.Types

-- | A number at an offset, in network order. The group is inlined to a load or store and a byte swap.
peek16 :: Ptr Word8 -> Int -> IO Word16
peek16 p i = swap <$> peek (castPtr (p `plusPtr` i))
  where
    swap = if targetByteOrder == BigEndian then id else byteSwap16
{-# INLINE peek16 #-}

-- | 32 bits at an offset, in network order.
peek32 :: Ptr Word8 -> Int -> IO Word32
peek32 p i = swap <$> peek (castPtr (p `plusPtr` i))
  where
    swap = if targetByteOrder == BigEndian then id else byteSwap32
{-# INLINE peek32 #-}

-- | 48 bits at an offset, in network order.
peek48 :: Ptr Word8 -> Int -> IO Word64
peek48 p i = do
  high <- peek16 p i
  low <- peek32 p (i + 2)
  pure (fromIntegral high `shiftL` 32 .|. fromIntegral low)
{-# INLINE peek48 #-}

-- | 64 bits at an offset, in network order.
peek64 :: Ptr Word8 -> Int -> IO Word64
peek64 p i = swap <$> peek (castPtr (p `plusPtr` i))
  where
    swap = if targetByteOrder == BigEndian then id else byteSwap64
{-# INLINE peek64 #-}

-- | Write 16 bits in network order.
poke16 :: Ptr Word8 -> Int -> Word16 -> IO ()
poke16 p i w = poke (castPtr (p `plusPtr` i)) (if targetByteOrder == BigEndian then w else byteSwap16 w)
{-# INLINE poke16 #-}

-- | Write 32 bits in network order.
poke32 :: Ptr Word8 -> Int -> Word32 -> IO ()
poke32 p i w = poke (castPtr (p `plusPtr` i)) (if targetByteOrder == BigEndian then w else byteSwap32 w)
{-# INLINE poke32 #-}

-- | Write the lower 48 bits in network order.
poke48 :: Ptr Word8 -> Int -> Word64 -> IO ()
poke48 p i w = poke16 p i (fromIntegral (w `shiftR` 32)) >> poke32 p (i + 2) (fromIntegral w)
{-# INLINE poke48 #-}

-- | Write 64 bits in network order.
poke64 :: Ptr Word8 -> Int -> Word64 -> IO ()
poke64 p i w = poke (castPtr (p `plusPtr` i)) (if targetByteOrder == BigEndian then w else byteSwap64 w)
{-# INLINE poke64 #-}

-- | The length of the message at the beginning of this many bytes: 'frameNeedsMore' when it is not there whole,
-- 'frameBad' when its header has a length below 8.
--
-- [Cost]: two loads.
frameLength :: Ptr Word8 -> Int -> IO Int
frameLength p n
  | n < 8 = pure frameNeedsMore
  | otherwise = do
    size <- fromIntegral <$> peek16 p 2
    pure (if size < 8 then frameBad else if size > n then frameNeedsMore else size)
{-# INLINE frameLength #-}

-- | Answers instead of a length: more bytes are needed; no message can begin so.
frameNeedsMore, frameBad :: Int
frameNeedsMore = 0
frameBad = -1

-- | A header's version and its type.
viewVersion, viewType :: Ptr Word8 -> IO Word8
viewVersion = peek
{-# INLINE viewVersion #-}
viewType p = peekByteOff p 1
{-# INLINE viewType #-}

-- | A header's transaction id.
viewXid :: Ptr Word8 -> IO Xid
viewXid p = peek32 p 4
{-# INLINE viewXid #-}

-- | Types of messages, which are the same in 1.0 and 1.3.
typeHello, typeError, typeEchoRequest, typeEchoReply, typePacketIn, typePacketOut, typeFlowMod :: Word8
typeHello = 0
typeError = 1
typeEchoRequest = 2
typeEchoReply = 3
typePacketIn = 10
typePacketOut = 13
typeFlowMod = 14

-- | The numbers that differ between the versions.
typeBarrierRequest, typeBarrierReply, typeMultipartReply :: Version -> Word8
typeBarrierRequest = \case
  OF10 -> 18
  OF13 -> 20
{-# INLINE typeBarrierRequest #-}
typeBarrierReply = \case
  OF10 -> 19
  OF13 -> 21
{-# INLINE typeBarrierReply #-}
typeMultipartReply = \case
  OF10 -> 17
  OF13 -> 19
{-# INLINE typeMultipartReply #-}

-- | @withPacketIn version frame length bad good@ takes a packet-in apart: buffer, total length, ingress port, reason,
-- and the packet's bytes. @bad@ if its lengths do not fit the frame, or 1.3's match does not name the port.
--
-- [Cost]: some loads; nothing allocated.
withPacketIn :: Version -> Ptr Word8 -> Int -> IO r -> (BufferId -> Int -> PortNo -> Word8 -> Ptr Word8 -> Int -> IO r) -> IO r
withPacketIn version p n bad good = case version of
  OF10
    | n < 18 -> bad
    | otherwise -> do
      !buffer <- peek32 p 8
      !total <- peek16 p 12
      !port <- peek16 p 14
      !reason <- peekByteOff p 16
      let !inPort = portFrom16 port
      good buffer (fromIntegral total) inPort reason (p `plusPtr` 18) (n - 18)
  OF13
    | n < 34 -> bad
    | otherwise -> do
      buffer <- peek32 p 8
      total <- peek16 p 12
      reason <- peekByteOff p 14
      size <- fromIntegral <$> peek16 p 26
      let begin = 24 + (size + 7) .&. (-8) + 2
          search at
            | at + 8 > 24 + size = bad
            | otherwise = do
              oxmHeader <- peek32 p at
              if oxmHeader == 0x80000004
                then do
                  port <- peek32 p (at + 4)
                  good buffer (fromIntegral total) (PortNo port) reason (p `plusPtr` begin) (n - begin)
                else search (at + 4 + fromIntegral (oxmHeader .&. 0xff))
      if size < 4 || begin > n then bad else search 28
{-# INLINE withPacketIn #-}

-- | A header: version, type, length, transaction.
--
-- [Cost]: one store.
pokeHeader :: Version -> Ptr Word8 -> Word8 -> Int -> Xid -> IO ()
pokeHeader version p kind size xid =
  poke64 p 0 (fromIntegral (versionByte version) `shiftL` 56 .|. fromIntegral kind `shiftL` 48 .|. fromIntegral size `shiftL` 32 .|. fromIntegral xid)
{-# INLINE pokeHeader #-}

-- | Answer an echo request: the frame, and where the reply of the same length goes.
--
-- [Cost]: a copy.
pokeEchoReply :: Ptr Word8 -> Int -> Ptr Word8 -> IO ()
pokeEchoReply frame n out = copyBytes out frame n >> pokeByteOff out 1 typeEchoReply
{-# INLINE pokeEchoReply #-}

-- | Write a barrier request.
pokeBarrier :: Version -> Ptr Word8 -> Xid -> IO ()
pokeBarrier version p = pokeHeader version p (typeBarrierRequest version) 8
{-# INLINE pokeBarrier #-}

-- | The length of a barrier request.
barrierBytes :: Int
barrierBytes = 8

-- | @pokePacketOut version out xid buffer inPort outPort packet length@ sends a packet to a port: one that the switch
-- keeps, or, with 'NoBuffer', these bytes. The answer is the message's size; it is at most 'packetOutBound'.
--
-- [Cost]: some stores, and the copy.
pokePacketOut :: Version -> Ptr Word8 -> Xid -> BufferId -> PortNo -> PortNo -> Ptr Word8 -> Int -> IO Int
pokePacketOut version p xid buffer (PortNo from) (PortNo to) packet bytes = do
  let content = if buffer == 0xffffffff then bytes else 0
      fixedPart = case version of
        OF10 -> 24
        OF13 -> 40
      size = fixedPart + content
  pokeHeader version p typePacketOut size xid
  poke32 p 8 buffer
  case version of
    OF10 -> do
      poke16 p 12 (fromIntegral from)
      poke16 p 14 8
      poke64 p 16 (0x8 `shiftL` 32 .|. (fromIntegral to .&. 0xffff) `shiftL` 16)
    OF13 -> do
      poke32 p 12 from
      poke64 p 16 (16 `shiftL` 48)
      poke64 p 24 (16 `shiftL` 32 .|. fromIntegral to)
      poke64 p 32 0
  copyBytes (p `plusPtr` fixedPart) packet content
  pure size
{-# INLINE pokePacketOut #-}

-- | The size of a packet-out with this many bytes of a packet, in either version.
packetOutBound :: Int -> Int
packetOutBound n = 40 + n
{-# INLINE packetOutBound #-}

-- | @pokeRelease version out xid buffer inPort@: the switch drops a packet that it keeps, because a packet-out
-- without actions sends it nowhere. The answer is the message's size, at most 'releaseBound'.
--
-- [Cost]: three stores.
pokeRelease :: Version -> Ptr Word8 -> Xid -> BufferId -> PortNo -> IO Int
pokeRelease version p xid buffer (PortNo from) = do
  pokeHeader version p typePacketOut size xid
  case version of
    OF10 -> poke64 p 8 (fromIntegral buffer `shiftL` 32 .|. (fromIntegral from .&. 0xffff) `shiftL` 16)
    OF13 -> poke64 p 8 (fromIntegral buffer `shiftL` 32 .|. fromIntegral from) >> poke64 p 16 0
  pure size
  where
    size = case version of
      OF10 -> 16
      OF13 -> releaseBound
{-# INLINE pokeRelease #-}

-- | The greatest length of the message of 'pokeRelease'.
releaseBound :: Int
releaseBound = 24

-- | @pokeLayer2Flow version out xid cookie idle hard priority buffer flags inPort vlan source destination outPort@
-- adds a flow from a port and an address to an address in a VLAN, which leaves by a port. The VLAN is 1.3's
-- @vlan_vid@: 0 for frames without a tag, else 0x1000 and the identifier. The answer is the size, 'layer2FlowBytes'.
--
-- [Cost]: about twenty stores.
pokeLayer2Flow ::
  Version ->
  Ptr Word8 ->
  Xid ->
  Word64 ->
  Word16 ->
  Word16 ->
  Word16 ->
  BufferId ->
  Word16 ->
  PortNo ->
  Word16 ->
  Mac ->
  Mac ->
  PortNo ->
  IO Int
pokeLayer2Flow version p xid cookie idle hard priority buffer flags (PortNo from) vlan (Mac source) (Mac destination) (PortNo to) = do
  let size = layer2FlowBytes version
  pokeHeader version p typeFlowMod size xid
  case version of
    OF10 -> do
      -- All wildcarded but the ingress port, the VLAN and the two addresses: bits 0 to 3.
      poke32 p 8 0x3820f0
      poke16 p 12 (fromIntegral from)
      poke48 p 14 source
      poke48 p 20 destination
      -- 0xffff is no tag; without the bit of presence an identifier is left.
      poke16 p 26 (if vlan == 0 then 0xffff else vlan .&. 0xfff)
      fillBytes (p `plusPtr` 28) 0 20
      poke64 p 48 cookie
      poke16 p 56 0
      poke16 p 58 idle
      poke16 p 60 hard
      poke16 p 62 priority
      poke32 p 64 buffer
      poke16 p 68 0xffff
      poke16 p 70 flags
      poke64 p 72 (8 `shiftL` 32 .|. (fromIntegral to .&. 0xffff) `shiftL` 16 .|. 0xffff)
    OF13 -> do
      poke64 p 8 cookie
      poke64 p 16 0
      poke16 p 24 0
      poke16 p 26 idle
      poke16 p 28 hard
      poke16 p 30 priority
      poke32 p 32 buffer
      poke32 p 36 0xffffffff
      poke32 p 40 0xffffffff
      poke32 p 44 (fromIntegral flags `shiftL` 16)
      -- The match: 4 + 8 + 10 + 10 + 6 = 38 bytes, and two of padding.
      poke32 p 48 0x00010026
      poke32 p 52 0x80000004
      poke32 p 56 from
      poke32 p 60 0x80000606
      poke48 p 64 destination
      poke32 p 70 0x80000806
      poke48 p 74 source
      poke32 p 80 0x80000c02
      poke32 p 84 (fromIntegral vlan `shiftL` 16)
      -- Apply one output.
      poke64 p 88 (0x00040018 `shiftL` 32)
      poke64 p 96 (16 `shiftL` 32 .|. fromIntegral to)
      poke64 p 104 (0xffff `shiftL` 48)
  pure size
{-# INLINE pokeLayer2Flow #-}

-- | The length of the message of 'pokeLayer2Flow'.
layer2FlowBytes :: Version -> Int
layer2FlowBytes = \case
  OF10 -> 80
  OF13 -> 112
{-# INLINE layer2FlowBytes #-}

-- | @pokePacketIn version out xid buffer inPort packet length@: what a switch sends for a packet without a flow. The
-- answer is the size, at most 'packetInBound'.
--
-- [Cost]: some stores, and the copy.
pokePacketIn :: Version -> Ptr Word8 -> Xid -> BufferId -> PortNo -> Ptr Word8 -> Int -> IO Int
pokePacketIn version p xid buffer (PortNo port) packet n = case version of
  OF10 -> do
    pokeHeader version p typePacketIn (18 + n) xid
    poke32 p 8 buffer
    poke16 p 12 (fromIntegral n)
    poke16 p 14 (fromIntegral port)
    poke16 p 16 0
    copyBytes (p `plusPtr` 18) packet n
    pure (18 + n)
  OF13 -> do
    pokeHeader version p typePacketIn (42 + n) xid
    poke32 p 8 buffer
    poke16 p 12 (fromIntegral n)
    poke16 p 14 0
    poke64 p 16 0
    poke64 p 24 (0x0001000c `shiftL` 32 .|. 0x80000004)
    poke32 p 32 port
    poke32 p 36 0
    poke16 p 40 0
    copyBytes (p `plusPtr` 42) packet n
    pure (42 + n)
{-# INLINE pokePacketIn #-}

-- | The greatest length of the message of 'pokePacketIn', for a frame of this length.
packetInBound :: Int -> Int
packetInBound n = 42 + n
{-# INLINE packetInBound #-}
