{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.Escape
-- Description : Encodes strings
-- Stability   : internal; exempt from the version policy
--
-- Writes text of each kind between quotes into any sink, as UTF-8 with escapes. The kernels stop when
-- the room is used up, and continue when more has been made.
--
-- Cost: a foreign call for each text, and for each 32 KiB of it.
-- Owner: the sink's.
module Heddle.Json.Internal.Escape
  ( -- * Into a sink
    room,
    putUnits,
    putChunks,
    putUtf8,
    putChars,

    -- * In Haskell

    -- | The kernels' twins, for tests.
    plainUtf16,
    plainUtf8,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Char (ord)
import Data.Primitive.ByteArray (ByteArray, indexByteArray)
import Data.Word (Word16, Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, poke, pokeByteOff)
import Heddle.Bytes.Put.Sink (Sink, sinkEnd, sinkLevel, sinkMore)
import Heddle.Json.Internal.Foreign.Write (Progress (..), pokeUtf8)
import Heddle.Json.Internal.TextUnits (pokeText)
import Heddle.Prim.AddrState (AddrState, At (..), addrState)

-- | Make room for this many bytes; returns where they go.
--
-- [Cost]: one comparison if there is room.
-- [Units]: bytes.
room :: Sink -> Int -> Ptr Word8 -> IO (Ptr Word8)
room sink bytes p = do
  end <- sinkEnd sink
  if bytes <= end `minusPtr` p then pure p else sinkMore sink p bytes
{-# INLINE room #-}

-- | Write the units of a text in quotes: its array, offset and length.
--
-- [Units]: offset and length count units.
putUnits :: ByteArray -> Int -> Int -> AddrState Sink ()
putUnits !array !offset !len = addrState $ \sink p0 -> do
  let go !at !left !p = do
        end <- sinkEnd sink
        ours <- sinkLevel sink
        Progress taken bytes <- pokeText ours array at left p (end `minusPtr` p - 1)
        goOn (at + taken) (left - taken) (p `plusPtr` bytes)
      goOn !at !left !p
        | left <= 0 = poke p 0x22 >> pure (At (p `plusPtr` 1) ())
        | otherwise = room sink (1 + 6 * min left 64) p >>= go at left
  p <- room sink (2 + 6 * min len 32) p0
  poke p 0x22
  go offset len (p `plusPtr` 1)
{-# NOINLINE putUnits #-}

-- | As 'putUnits', for text in several arrays. No character is divided between two of them.
putChunks :: [(ByteArray, Int, Int)] -> AddrState Sink ()
putChunks chunks = addrState $ \sink p0 -> do
  let go [] !p = room sink 1 p >>= \q -> poke q 0x22 >> pure (At (q `plusPtr` 1) ())
      go ((array, offset, len) : rest) p = within array offset len p >>= go rest
      within array !at !left !p
        | left <= 0 = pure p
        | otherwise = do
          q <- room sink (6 * min left 64) p
          end <- sinkEnd sink
          ours <- sinkLevel sink
          Progress taken bytes <- pokeText ours array at left q (end `minusPtr` q)
          within array (at + taken) (left - taken) (q `plusPtr` bytes)
  p <- room sink 1 p0
  poke p 0x22
  go chunks (p `plusPtr` 1)
{-# NOINLINE putChunks #-}

-- | Write UTF-8 in quotes. Each maximal part of an ill-formed sequence becomes U+FFFD.
putUtf8 :: ByteString -> AddrState Sink ()
putUtf8 text = addrState $ \sink p0 -> ByteString.unsafeUseAsCStringLen text $ \(from, len) -> do
  let go !at !left !p = do
        end <- sinkEnd sink
        ours <- sinkLevel sink
        Progress taken bytes <- pokeUtf8 ours at left p (end `minusPtr` p - 1)
        goOn (at `plusPtr` taken) (left - taken) (p `plusPtr` bytes)
      goOn !at !left !p
        | left <= 0 = poke p 0x22 >> pure (At (p `plusPtr` 1) ())
        | otherwise = room sink (1 + 6 * min left 64) p >>= go at left
  p <- room sink (2 + 6 * min len 32) p0
  poke p 0x22
  go (castPtr from) len (p `plusPtr` 1)
{-# NOINLINE putUtf8 #-}

-- | Write characters in quotes. Halves of surrogate pairs become U+FFFD.
putChars :: String -> AddrState Sink ()
putChars text = addrState $ \sink p0 -> do
  let go [] !p = poke p 0x22 >> pure (At (p `plusPtr` 1) ())
      go (c : cs) p = do
        end <- pokeEscaped p (ord c)
        room sink 7 end >>= go cs
  p <- room sink 8 p0
  poke p 0x22
  go text (p `plusPtr` 1)
{-# NOINLINE putChars #-}

-- | Write one character of a JSON string; half of a surrogate pair becomes U+FFFD.
--
-- [Units]: at most 6 bytes are written.
pokeEscaped :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeEscaped p c
  | c == 0x22 || c == 0x5c = short c
  | c == 0x0a = short (ord 'n')
  | c == 0x0d = short (ord 'r')
  | c == 0x09 = short (ord 't')
  | c < 0x20 = do
    byte 0 0x5c
    byte 1 (ord 'u')
    byte 2 0x30
    byte 3 0x30
    byte 4 (0x30 + c `unsafeShiftR` 4)
    byte 5 (if low < 10 then 0x30 + low else 0x57 + low)
    pure (p `plusPtr` 6)
  | c < 0x80 = byte 0 c >> pure (p `plusPtr` 1)
  | c < 0x800 = do
    byte 0 (0xc0 .|. c `unsafeShiftR` 6)
    byte 1 (more c)
    pure (p `plusPtr` 2)
  | c .&. 0x1ff800 == 0xd800 = pokeEscaped p 0xfffd
  | c < 0x10000 = do
    byte 0 (0xe0 .|. c `unsafeShiftR` 12)
    byte 1 (more (c `unsafeShiftR` 6))
    byte 2 (more c)
    pure (p `plusPtr` 3)
  | otherwise = do
    byte 0 (0xf0 .|. c `unsafeShiftR` 18)
    byte 1 (more (c `unsafeShiftR` 12))
    byte 2 (more (c `unsafeShiftR` 6))
    byte 3 (more c)
    pure (p `plusPtr` 4)
  where
    low = c .&. 15
    short letter = byte 0 0x5c >> byte 1 letter >> pure (p `plusPtr` 2)
    more bits = 0x80 .|. (bits .&. 63)
    byte :: Int -> Int -> IO ()
    byte at n = pokeByteOff p at (fromIntegral n :: Word8)

-- | How many bytes 'pokeEscaped' writes.
escapedLength :: Int -> Int
escapedLength c
  | c == 0x22 || c == 0x5c || c == 0x0a || c == 0x0d || c == 0x09 = 2
  | c < 0x20 = 6
  | c < 0x80 = 1
  | c < 0x800 = 2
  | c < 0x10000 = 3
  | otherwise = 4

-- | 'Heddle.Json.Internal.Foreign.Write.pokeUtf16' in Haskell; takes the units that there is room for.
plainUtf16 :: ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Progress
plainUtf16 array offset len = plainly len character
  where
    unit i = fromIntegral (indexByteArray array (offset + i) :: Word16) :: Int
    character i
      | high .&. 0xfc00 == 0xd800 && i + 1 < len && low .&. 0xfc00 == 0xdc00 =
        pure (2, 0x10000 + ((high .&. 0x3ff) `unsafeShiftL` 10 .|. (low .&. 0x3ff)))
      | otherwise = pure (1, high)
      where
        high = unit i
        low = unit (i + 1)

-- | 'pokeUtf8' in Haskell; takes the bytes that there is room for.
plainUtf8 :: Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Progress
plainUtf8 text len = plainly len character
  where
    byte i = if i < len then peekByteOff text i :: IO Word8 else pure 0
    character i = do
      lead <- byte i
      second <- byte (i + 1)
      third <- byte (i + 2)
      fourth <- byte (i + 3)
      let within from to b = from <= b && b <= to
          continues = within 0x80 0xbf
          bits b = fromIntegral (b .&. 63) :: Int
          start mask = fromIntegral (lead .&. mask) :: Int
          two = if continues second then (2, start 31 `unsafeShiftL` 6 .|. bits second) else wrong 1
          three from to
            | not (within from to second) = wrong 1
            | not (continues third) = wrong 2
            | otherwise = (3, start 15 `unsafeShiftL` 12 .|. bits second `unsafeShiftL` 6 .|. bits third)
          four from to
            | not (within from to second) = wrong 1
            | not (continues third) = wrong 2
            | not (continues fourth) = wrong 3
            | otherwise =
              ( 4,
                start 7 `unsafeShiftL` 18 .|. bits second `unsafeShiftL` 12 .|. bits third `unsafeShiftL` 6
                  .|. bits fourth
              )
          wrong n = (n, 0xfffd)
      pure $ case lead of
        _
          | lead < 0x80 -> (1, fromIntegral lead)
          | within 0xc2 0xdf lead -> two
          | lead == 0xe0 -> three 0xa0 0xbf
          | lead == 0xed -> three 0x80 0x9f
          | within 0xe1 0xef lead -> three 0x80 0xbf
          | lead == 0xf0 -> four 0x90 0xbf
          | lead == 0xf4 -> four 0x80 0x8f
          | within 0xf1 0xf3 lead -> four 0x80 0xbf
          | otherwise -> wrong 1

-- | Write characters while there is room; the function gives each one and how many units it takes.
plainly :: Int -> (Int -> IO (Int, Int)) -> Ptr Word8 -> Int -> IO Progress
plainly len character start space = go 0 start
  where
    go !i !p
      | i >= len = done i p
      | otherwise = do
        (units, c) <- character i
        if p `minusPtr` start + escapedLength c > space then done i p else pokeEscaped p c >>= go (i + units)
    done i p = pure (Progress i (p `minusPtr` start))
