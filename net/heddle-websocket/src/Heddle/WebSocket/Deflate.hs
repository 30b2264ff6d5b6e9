-- |
-- Module      : Heddle.WebSocket.Deflate
-- Description : Whole messages compressed and decompressed
-- Stability   : hidden; "Heddle.WebSocket.Codec" exports it
--
-- Cost: zlib's, in steps that hold the capability for at most about 0.2 ms.
-- Owner: values.
module Heddle.WebSocket.Deflate
  ( Deflating (..),
    deflateMessage,
    deflatePiece,
    deflateEnd,
    inflateMessage,
    inflateTail,
    inflateInto,
    Inflated (..),
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Prim.Buffer (bufferForeign, newBuffer, withBuffer)
import Heddle.Prim.Exception (bug, mask, onException)
import Heddle.WebSocket.Flate

-- | What both sides agreed on, as far as it concerns the sender. Neither side keeps a context from one message to the next.
data Deflating = Deflating
  { -- | 1 to 9.
    deflatingLevel :: !Int,
    -- | The window that the peer asked for, as a power of two: 9 to 15.
    deflatingBits :: !Int,
    -- | Messages of fewer bytes are sent as they are.
    deflatingThreshold :: !Int
  }
  deriving stock (Eq, Show)

-- | A message compressed, without the four bytes at its end; 'Nothing' if that makes it no shorter.
--
-- [Cost]: at level 1 about 10 ns a byte.
-- [Blocks]: never.
-- [Throws]: 'IOError' (ENOMEM).
-- [Source]: RFC 7692, section 7.2.1.
deflateMessage :: Deflating -> ByteString -> IO (Maybe ByteString)
deflateMessage deflating message = B.unsafeUseAsCStringLen message $ \(from, count) ->
  lending (Deflates (deflatingLevel deflating) (deflatingBits deflating)) $ \flate -> do
    -- With the four bytes, a result that fills the room is no shorter than the message.
    let room = count + 4
    memory <- B.mallocByteString room
    made <- withForeignPtr memory $ \to ->
      let go at done
            | done >= room = pure Nothing
            | otherwise = do
              let size = min step (count - at)
                  finishing = at + size == count
              r <- deflateStep flate (castPtr from `plusPtr` at) size (to `plusPtr` done) (room - done) finishing
              case r of
                Malformed -> pure Nothing
                Stepped used written
                  | finishing && used == size && done + written < room -> pure (Just (done + written))
                  | otherwise -> go (at + used) (done + written)
       in go 0 0
    pure ((\n -> B.fromForeignPtr memory 0 (n - 4)) <$> made)
  where
    step = 16384

-- | A part of a message compressed, so that the peer can decompress all of it when it has these pieces. Parts follow one another
-- on one stream, and 'deflateEnd' ends the message.
--
-- [Cost]: as 'deflateMessage', and five bytes.
-- [Blocks]: never; give it at most 16 KiB.
-- [Source]: RFC 7692, section 7.2.1.
deflatePiece :: Flate -> ByteString -> IO [ByteString]
deflatePiece flate piece = B.unsafeUseAsCStringLen piece $ \(from, count) ->
  -- A part that does not become shorter becomes slightly longer.
  let room = count + 64
      go at = do
        memory <- B.mallocByteString room
        r <- withForeignPtr memory $ \to -> deflateStep flate (castPtr from `plusPtr` at) (count - at) to room True
        case r of
          Malformed -> bug "deflatePiece: zlib refused its input"
          Stepped used written
            | at + used == count && written < room -> pure [B.fromForeignPtr memory 0 written]
            | otherwise -> (B.fromForeignPtr memory 0 written :) <$> go (at + used)
   in go 0

-- | The end of a message of 'deflatePiece's. Each of them ends with an empty block, and so must the message, without
-- its last four bytes: of this one, a single byte is left.
deflateEnd :: ByteString
deflateEnd = B.singleton 0

-- Lent to an action that may be interrupted, after which the stream is lost to the collector.
lending :: Kind -> (Flate -> IO a) -> IO a
lending kind use = mask $ \restore -> do
  flate <- borrowFlate kind
  r <- restore (use flate) `onException` giveBackFlate kind flate
  r <$ giveBackFlate kind flate

-- | What the sender has removed from a message's end.
inflateTail :: ByteString
inflateTail = B.pack [0, 0, 0xff, 0xff]

-- | The result of a step of decompression.
data Inflated
  = -- | This many bytes were written; the input is used up.
    AllRead !Int
  | -- | The room was filled: bytes read.
    RoomFilled !Int
  | NotDeflate

-- | @inflateInto flate from count to room@ decompresses until the input or the room is used up.
--
-- [Blocks]: never.
inflateInto :: Flate -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Inflated
inflateInto flate from count to room = go 0 0
  where
    go used made
      -- With room left, zlib has written all that it could.
      | made >= room = pure (RoomFilled used)
      | otherwise = do
        let size = min 32768 (room - made)
        r <- inflateStep flate (from `plusPtr` used) (count - used) (to `plusPtr` made) size
        case r of
          Malformed -> pure NotDeflate
          Stepped i o
            | o == size -> go (used + i) (made + o)
            | used + i == count -> pure (AllRead (made + o))
            | i == 0 && o == 0 -> pure NotDeflate
            | otherwise -> go (used + i) (made + o)

-- | A message decompressed; 'Nothing' if it is malformed or longer than this many bytes.
--
-- [Cost]: about 3 ns a byte of the result.
-- [Blocks]: never.
-- [Throws]: 'IOError' (ENOMEM).
-- [Source]: RFC 7692, section 7.2.2.
inflateMessage :: Int -> ByteString -> IO (Maybe ByteString)
inflateMessage limit message = lending Inflates $ \flate -> do
  let feed input acc total = B.unsafeUseAsCStringLen input $ \(from, count) ->
        let go used pieces size = do
              buffer <- newBuffer 32768
              r <- withBuffer buffer $ \to -> inflateInto flate (castPtr from `plusPtr` used) (count - used) to 32768
              case r of
                NotDeflate -> pure Nothing
                AllRead made -> grown buffer made pieces size (\p s -> pure (Just (p, s)))
                RoomFilled read' -> grown buffer 32768 pieces size (go (used + read'))
         in go 0 acc total
      grown buffer made pieces size next
        | size + made > limit = pure Nothing
        | otherwise = next (B.fromForeignPtr (bufferForeign buffer 0) 0 made : pieces) (size + made)
      joined = Just . B.concat . reverse . fst
  feed message [] 0 >>= \case
    Nothing -> pure Nothing
    Just (pieces, size) -> do
      ended <- inflateWhole flate
      if ended
        then pure (joined (pieces, size))
        else
          feed inflateTail pieces size >>= \case
            Nothing -> pure Nothing
            Just result -> (\whole -> if whole then joined result else Nothing) <$> inflateWhole flate
