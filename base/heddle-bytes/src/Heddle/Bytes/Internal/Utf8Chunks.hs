-- |
-- Module      : Heddle.Bytes.Internal.Utf8Chunks
-- Description : UTF-8 that comes in chunks, and UTF-8 that is not valid
-- Stability   : internal; exempt from the version policy
--
-- A chunk may end within a character. The character's first bytes, at most three, are kept for the next
-- chunk; the chunk itself is not.
--
-- Invariant: the kept bytes are a proper prefix of a character.
-- Cost: the kernels', and for each chunk that ends within a character a few instructions more.
-- Owner: the states are values; one can be continued from several times.
module Heddle.Bytes.Internal.Utf8Chunks
  ( -- * Checking
    State,
    Verdict (..),
    start,
    feed,
    finish,

    -- * Decoding
    feedText,

    -- * Decoding with replacement
    Replacing,
    replacing,
    feedReplacing,
    finishReplacing,

    -- * One chunk
    invalidBehind,
    replacedText,
    repairedBytes,
  )
where

import Control.Monad (void, when)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (create)
import Data.ByteString.Unsafe qualified as ByteString (unsafeDrop, unsafeIndex)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Bytes.Internal.Foreign.Utf8 (pokeReplacedBytes, replacedBytes)
import Heddle.Bytes.Internal.TextUnits (codeUnits, fillCode, replacedUnits)
import Heddle.Bytes.Internal.Utf8
import Heddle.Bytes.Utf8.Plain (Sequence (..), sequenceOf)
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Unsafe (unsafeDupable, unsafeInlined)

-- | The kept bytes: their number, and the bytes, the first one lowest.
data Waiting = Waiting !Int !Word

none :: Waiting
none = Waiting 0 0

waitingByte :: Word -> Int -> Word8
waitingByte bytes i = fromIntegral (bytes `unsafeShiftR` (8 * i))
{-# INLINE waitingByte #-}

-- | The state after some chunks.
data State
  = -- | The number of bytes before the kept ones.
    Going !Int !Waiting
  | Failed !Invalid

-- | The verdict on the chunks so far.
data Verdict
  = -- | Valid text of whole characters.
    Whole
  | -- | Valid text and the beginning of a character.
    Partial
  | -- | Invalid, whatever follows: the first invalid place.
    Bad !Invalid
  deriving stock (Eq, Show)

-- | The state before the first chunk.
start :: State
start = Going 0 none

-- | Check one more chunk. After 'Bad', every verdict is the same.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: offsets count from the first byte of the first chunk.
--
-- Law (@chunks@): however text is cut into chunks, the last verdict is the same, and 'finish'
-- gives that of 'Heddle.Bytes.Utf8.validate'.
feed :: State -> ByteString -> (State, Verdict)
feed state chunk = case state of
  Failed bad -> (state, Bad bad)
  Going before waiting -> case joined waiting chunk of
    More now -> going before now
    Broken n -> failed before n
    Joined n rest ->
      let done = ByteString.length rest
       in case prefixOf rest of
            Prefix valid ending -> case ending of
              Nothing -> going (before + n + done) none
              Just CutOff -> going (before + n + valid) (waitingFrom valid rest)
              Just (IllFormed bad) -> failed (before + n + valid) bad
              Just (Complete _) -> going (before + n + valid) none

-- | End the text: 'Partial' becomes 'Bad'.
--
-- [Cost]: O(1).
finish :: State -> Verdict
finish = \case
  Failed bad -> Bad bad
  Going _ (Waiting 0 _) -> Whole
  Going before (Waiting n _) -> Bad (Invalid before n)

-- | Check one more chunk, and return the text of the characters that end in it, up to the first invalid
-- place. The beginning of a character is kept for the next chunk.
--
-- [Cost]: O(n), by the machine's vectors; the text.
--
-- Law (@chunks-text@): the texts joined are that of the valid prefix of all chunks.
feedText :: State -> ByteString -> (Text, State, Verdict)
feedText state chunk = case state of
  Failed bad -> (Text.empty, state, Bad bad)
  Going before waiting -> case joined waiting chunk of
    More now -> with Text.empty (going before now)
    Broken n -> with Text.empty (failed before n)
    Joined n rest -> unsafeDupable . withBytes rest $ \p size -> do
      Measured valid count <- validUnits p size
      let character = if n > 0 then Just (joinedCode waiting chunk) else Nothing
          first = maybe 0 codeUnits character
      text <- newText (first + count) $ \array -> do
        mapM_ (fillCode array 0) character
        void (fillUnits p valid array first (first + count))
      ending <- if valid == size then pure Nothing else Just <$> sequenceAt p size valid
      pure . with text $ case ending of
        Just CutOff -> going (before + n + valid) (waitingFrom valid rest)
        Just (IllFormed bad) -> failed (before + n + valid) bad
        _ -> going (before + n + valid) none
  where
    with text (next, verdict) = (text, next, verdict)

going :: Int -> Waiting -> (State, Verdict)
going before waiting = (Going before waiting, verdict)
  where
    verdict = case waiting of
      Waiting 0 _ -> Whole
      Waiting _ _ -> Partial

failed :: Int -> Int -> (State, Verdict)
failed at n = (Failed bad, Bad bad)
  where
    bad = Invalid at n

-- | The kept bytes joined with a chunk.
data Joining
  = -- | The character is still incomplete.
    More !Waiting
  | -- | This many bytes, of the kept ones and the chunk, are ill-formed.
    Broken !Int
  | -- | A character of this many bytes (0 if none were kept), and the rest of the chunk.
    Joined !Int !ByteString

joined :: Waiting -> ByteString -> Joining
joined (Waiting 0 _) chunk = Joined 0 chunk
joined waiting@(Waiting n _) chunk = case sequenceOf (n + ByteString.length chunk) (joinedByte waiting chunk) of
  Just CutOff -> More (appended waiting chunk)
  Just (IllFormed bad) -> Broken bad
  Just (Complete width) -> Joined width (ByteString.unsafeDrop (width - n) chunk)
  Nothing -> More waiting

-- In 'Maybe' because 'sequenceOf' needs a monad; it is always 'Just'.
joinedByte :: Waiting -> ByteString -> Int -> Maybe Word8
joinedByte (Waiting n bytes) chunk i
  | i < n = Just (waitingByte bytes i)
  | otherwise = Just (ByteString.unsafeIndex chunk (i - n))

appended :: Waiting -> ByteString -> Waiting
appended = ByteString.foldl' (\(Waiting n bytes) b -> Waiting (n + 1) (bytes .|. fromIntegral b `unsafeShiftL` (8 * n)))

waitingFrom :: Int -> ByteString -> Waiting
waitingFrom at text = appended none (ByteString.unsafeDrop at text)

-- The code point of the character that 'joined' completed.
joinedCode :: Waiting -> ByteString -> Int
joinedCode (Waiting n bytes) chunk = foldl more first (take (width - 1) [1 ..])
  where
    lead = fromIntegral (waitingByte bytes 0) :: Int
    width
      | lead < 0xe0 = 2
      | lead < 0xf0 = 3
      | otherwise = 4 :: Int
    first = lead .&. (0x7f `unsafeShiftR` width)
    more code i = code `unsafeShiftL` 6 .|. fromIntegral (byte i) .&. 0x3f
    byte i
      | i < n = waitingByte bytes i
      | otherwise = ByteString.unsafeIndex chunk (i - n)

-- | The length of a chunk's valid prefix, and what follows it, unless that is the end.
data Prefix = Prefix !Int !(Maybe Sequence)

prefixOf :: ByteString -> Prefix
prefixOf text = unsafeInlined . withBytes text $ \p n -> do
  valid <- validPrefix p n
  if valid == n then pure (Prefix n Nothing) else Prefix valid . Just <$> sequenceAt p n valid

sequenceAt :: Ptr Word8 -> Int -> Int -> IO Sequence
sequenceAt p n at = sequenceOf (n - at) (\i -> peekByteOff p (at + i))

-- | The invalid place after this many valid bytes of a text, if it is not the end. The caller knows that no
-- valid character follows.
--
-- [Cost]: O(1).
invalidBehind :: Ptr Word8 -> Int -> Int -> IO (Maybe Invalid)
invalidBehind p n valid
  | valid == n = pure Nothing
  | otherwise = Just . Invalid valid . bad <$> sequenceAt p n valid
  where
    bad = \case
      IllFormed len -> len
      _ -> n - valid

-- | The state of a replacing decoder: the kept bytes.
newtype Replacing = Replacing Waiting

-- | The state before the first chunk.
replacing :: Replacing
replacing = Replacing none

-- | The text of one more chunk, with U+FFFD for each invalid maximal subpart. The beginning of a character
-- is kept for the next chunk.
--
-- [Cost]: O(n), even if nothing is valid; the text.
--
-- Law (@chunks-replacing@): the texts joined, with that of 'finishReplacing', are
-- 'Heddle.Bytes.Utf8.decodeReplacing' of all chunks.
feedReplacing :: Replacing -> ByteString -> (Text, Replacing)
feedReplacing (Replacing waiting@(Waiting waited _)) chunk = case joined waiting chunk of
  More now -> (Text.empty, Replacing now)
  Broken n -> decoded (Just 0xfffd) (ByteString.unsafeDrop (n - waited) chunk)
  Joined n rest -> decoded (if n > 0 then Just (joinedCode waiting chunk) else Nothing) rest
  where
    decoded character rest = unsafeDupable . withBytes rest $ \p n -> do
      let first = maybe 0 codeUnits character
      Measured end count <- measureReplaced (\from size _ -> replacedUnits level from size) p n first
      text <- newText count $ \array -> do
        mapM_ (fillCode array 0) character
        void (fillReplaced p n array first count)
      pure (text, Replacing (waitingFrom end rest))

-- | End the text: U+FFFD for an incomplete character.
--
-- [Cost]: O(1).
finishReplacing :: Replacing -> Text
finishReplacing (Replacing (Waiting n _)) = if n == 0 then Text.empty else Text.singleton '\xfffd'

-- | The text, with U+FFFD for each invalid maximal subpart.
--
-- [Cost]: O(n).
replacedText :: ByteString -> Text
replacedText text = unsafeDupable . withBytes text $ \p n -> do
  Measured valid count <- validUnits p n
  if valid == n
    then newText count (\array -> void (fillUnits p n array 0 count))
    else do
      let rest = p `plusPtr` valid
      Measured end replaced <- measureReplaced (\from size _ -> replacedUnits level from size) rest (n - valid) count
      let cutOff = if end < n - valid then codeUnits 0xfffd else 0
      newText (replaced + cutOff) $ \array -> do
        _ <- fillUnits p valid array 0 count
        _ <- fillReplaced rest (n - valid) array count replaced
        when (cutOff > 0) (fillCode array replaced 0xfffd)

-- | As 'replacedText', in UTF-8; valid text is returned as it is.
--
-- [Cost]: O(n); no copy of valid text.
repairedBytes :: ByteString -> ByteString
repairedBytes text = unsafeDupable . withBytes text $ \p n -> do
  valid <- validPrefix p n
  if valid == n
    then pure text
    else do
      let rest = p `plusPtr` valid
      Measured end size <- measureReplaced (\from len _ -> replacedBytes level from len) rest (n - valid) valid
      let cutOff = if end < n - valid then 3 else 0
      ByteString.create (size + cutOff) $ \to -> do
        copyBytes to p valid
        _ <-
          measureReplaced (\from len at -> pokeReplacedBytes level from len (to `plusPtr` at) (size - at)) rest (n - valid) valid
        when (cutOff == 3) $ do
          pokeByteOff to size (0xef :: Word8)
          pokeByteOff to (size + 1) (0xbf :: Word8)
          pokeByteOff to (size + 2) (0xbd :: Word8)
