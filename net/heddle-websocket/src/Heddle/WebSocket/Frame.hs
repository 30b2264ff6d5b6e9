{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Frame
-- Description : The heads of frames
-- Stability   : hidden; "Heddle.WebSocket.Codec" exports it
--
-- Reads heads strictly, and says what is wrong as soon as the bytes that show it are there.
--
-- Cost: a few nanoseconds a head.
-- Owner: values; the caller's memory.
module Heddle.WebSocket.Frame
  ( -- * First bytes
    pattern OpContinuation,
    pattern OpText,
    pattern OpBinary,
    pattern OpClose,
    pattern OpPing,
    pattern OpPong,
    pattern FinalBit,
    pattern DeflateBit,
    opcodeOf,

    -- * Reading
    Expecting (..),
    FrameHead (..),
    readHead,
    closePayload,

    -- * Writing
    headRoom,
    headSize,
    pokeHead,
    closeBytes,
  )
where

import Data.Bits (shiftL, shiftR, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Word (Word32, Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Bytes.Utf8 (Utf8, toByteString, validate)
import Heddle.WebSocket.Exception

-- | Opcodes.
pattern OpContinuation, OpText, OpBinary, OpClose, OpPing, OpPong :: Int
pattern OpContinuation = 0
pattern OpText = 1
pattern OpBinary = 2
pattern OpClose = 8
pattern OpPing = 9
pattern OpPong = 10

-- | Set in the first byte of a message's last frame.
pattern FinalBit :: Int
pattern FinalBit = 0x80

-- | Set in the first byte of a compressed message (RSV1).
pattern DeflateBit :: Int
pattern DeflateBit = 0x40

-- | The opcode in a first byte.
opcodeOf :: Int -> Int
opcodeOf first = first .&. 15
{-# INLINE opcodeOf #-}

-- | What the next frame may be.
data Expecting = Expecting
  { -- | The peer is a client, which must mask.
    expectMask :: !Bool,
    -- | Compression was agreed on.
    expectDeflate :: !Bool,
    -- | A message has begun and not ended.
    expectMore :: !Bool
  }
  deriving stock (Eq, Show)

-- | A frame's head.
data FrameHead
  = -- | First byte, length of the head, of the payload, and the key (0 if there is none).
    FrameHead !Int !Int !Int !Word32
  | -- | More bytes are needed.
    HeadCutOff
  | -- | Whatever follows, this is wrong.
    HeadInvalid !Violation
  deriving stock (Eq, Show)

-- | Read the head at an address of which this many bytes are there.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Source]: RFC 6455, section 5.2.
readHead :: Expecting -> Ptr Word8 -> Int -> IO FrameHead
readHead expecting p n
  | n < 2 = if n < 1 then pure HeadCutOff else maybe HeadCutOff HeadInvalid . wrongFirst <$> byte 0
  | otherwise = do
    first <- byte 0
    second <- byte 1
    case wrongFirst first of
      Just violation -> pure (HeadInvalid violation)
      Nothing
        | testBit second 7 /= expectMask expecting -> pure (HeadInvalid (if testBit second 7 then Masked else Unmasked))
        | otherwise -> sized first (second .&. 127)
  where
    byte :: Int -> IO Int
    byte i = fromIntegral <$> (peekByteOff p i :: IO Word8)
    {-# INLINE byte #-}
    wrongFirst first
      | first .&. 0x30 /= 0 = Just ReservedBit
      | opcode >= 8 && not (testBit first 7) && opcode <= OpPong = Just FragmentedControl
      | opcode > OpPong || (opcode > OpBinary && opcode < OpClose) = Just (UnknownOpcode opcode)
      | testBit first 6 && not (expectDeflate expecting && (opcode == OpText || opcode == OpBinary)) = Just ReservedBit
      | opcode == OpContinuation && not (expectMore expecting) = Just NothingToContinue
      | (opcode == OpText || opcode == OpBinary) && expectMore expecting = Just MessageWithinMessage
      | otherwise = Nothing
      where
        opcode = opcodeOf first
    sized first short
      | short < 126 = keyed first 2 short
      | opcodeOf first >= 8 = pure (HeadInvalid LongControl)
      | short == 126 =
        if n < 4
          then pure HeadCutOff
          else do
            size <- big 2 2
            if size < 126 then pure (HeadInvalid WastefulLength) else keyed first 4 size
      | otherwise = do
        high <- if n < 3 then pure 0 else byte 2
        if testBit high 7
          then pure (HeadInvalid ImpossibleLength)
          else
            if n < 10
              then pure HeadCutOff
              else do
                size <- big 2 8
                if size < 65536 then pure (HeadInvalid WastefulLength) else keyed first 10 size
    big at count = go 0 0
      where
        go :: Int -> Int -> IO Int
        go i !acc
          | i == count = pure acc
          | otherwise = byte (at + i) >>= \b -> go (i + 1) (acc `shiftL` 8 .|. b)
    keyed first at size
      | not (expectMask expecting) = pure (FrameHead first at size 0)
      | n < at + 4 = pure HeadCutOff
      | otherwise = do
        a <- byte at
        b <- byte (at + 1)
        c <- byte (at + 2)
        d <- byte (at + 3)
        pure (FrameHead first (at + 4) size (fromIntegral (a .|. b `shiftL` 8 .|. c `shiftL` 16 .|. d `shiftL` 24)))
{-# INLINE readHead #-}

-- | The code and the reason in the payload of a Close, 'NoCode' for an empty one.
--
-- [Cost]: O(n).
closePayload :: ByteString -> Either Violation (CloseCode, Utf8)
closePayload payload
  | B.null payload = Right (NoCode, mempty)
  | B.length payload == 1 = Left HalfCode
  | not (validCode code) = Left (UnknownCode number)
  | otherwise = either (const (Left InvalidText)) (\reason -> Right (code, reason)) (validate (B.drop 2 payload))
  where
    number = fromIntegral (B.index payload 0) `shiftL` 8 .|. fromIntegral (B.index payload 1)
    code = CloseCode number

-- | The longest head.
--
-- [Units]: bytes.
headRoom :: Int
headRoom = 14

-- | The size of a head without a key, for a payload of this many bytes.
--
-- [Units]: bytes.
headSize :: Int -> Int
headSize n
  | n < 126 = 2
  | n < 65536 = 4
  | otherwise = 10
{-# INLINE headSize #-}

-- | Write a head: first byte, payload length, and the key if there is one. Returns the head's size.
--
-- [Cost]: O(1).
-- [Blocks]: never.
pokeHead :: Ptr Word8 -> Int -> Int -> Maybe Word32 -> IO Int
pokeHead p first size key = do
  poke8 0 first
  at <- case headSize size of
    2 -> 2 <$ poke8 1 (maskBit .|. size)
    4 -> do
      poke8 1 (maskBit .|. 126)
      big 2 2
      pure 4
    _ -> do
      poke8 1 (maskBit .|. 127)
      big 8 2
      pure 10
  case key of
    Nothing -> pure at
    Just k -> do
      poke8 at (fromIntegral k)
      poke8 (at + 1) (fromIntegral (k `shiftR` 8))
      poke8 (at + 2) (fromIntegral (k `shiftR` 16))
      poke8 (at + 3) (fromIntegral (k `shiftR` 24))
      pure (at + 4)
  where
    maskBit = maybe 0 (const 0x80) key
    poke8 :: Int -> Int -> IO ()
    poke8 at x = pokeByteOff p at (fromIntegral x :: Word8)
    {-# INLINE poke8 #-}
    big :: Int -> Int -> IO ()
    big count at = mapM_ (\i -> poke8 (at + i) (size `shiftR` (8 * (count - 1 - i)))) [0 .. count - 1]
{-# INLINE pokeHead #-}

-- | The payload of a Close.
--
-- [Cost]: O(n).
closeBytes :: CloseCode -> Utf8 -> ByteString
closeBytes (CloseCode code) reason
  | CloseCode code == NoCode = B.empty
  | otherwise = B.pack [fromIntegral (code `shiftR` 8), fromIntegral code] <> toByteString reason
